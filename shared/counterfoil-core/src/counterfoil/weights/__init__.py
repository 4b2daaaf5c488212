"""Model weights as evidence: hashed file by file, named by one root, signed into the log, cited by model calls.

manifest = counterfoil.weights.add("models/llama-3", name="llama-3")
counterfoil.weights.compare("models/llama-3", manifest).result        # same, changed, cannot-tell
counterfoil.bind_model("llama-3", manifest.root)
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from counterfoil.weights.adding import add
    from counterfoil.weights.comparing import Compared, Difference, compare
    from counterfoil.weights.manifests import Manifest, choose, of_evidence

__all__ = ["Compared", "Difference", "Manifest", "add", "choose", "compare", "of_evidence"]

_WHERE = {
    "Compared": "comparing",
    "Difference": "comparing",
    "Manifest": "manifests",
    "add": "adding",
    "choose": "manifests",
    "compare": "comparing",
    "of_evidence": "manifests",
}


def __getattr__(name: str) -> Any:
    # At first use: whoever verifies imports the checks in here, and pays for nothing else.
    if name not in _WHERE:
        raise AttributeError(f"module 'counterfoil.weights' has no attribute {name!r}")
    return getattr(importlib.import_module(f"counterfoil.weights.{_WHERE[name]}"), name)
