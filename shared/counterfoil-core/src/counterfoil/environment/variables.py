"""Environment variables: every name, a keyed fingerprint of every value, and the values of an allow-list.

A fingerprint tells the owner whether a value was the same in two runs; without the owner's key a short value cannot be
guessed from it. A listed value that looks like a secret is not stored either.
"""

from __future__ import annotations

import hmac
import math
import os
import re
from collections import Counter
from typing import Any, Final

from counterfoil.environment._reading import plain

__all__ = ["ALLOWED", "capture", "fingerprint", "looks_secret"]

ALLOWED: Final = (
    "COUNTERFOIL",
    "COUNTERFOIL_APP_REVISION",
    "COUNTERFOIL_DURABILITY",
    "COUNTERFOIL_IMAGE_DIGEST",
    "COUNTERFOIL_MODE",
    "COUNTERFOIL_PLUGINS",
    "CUBLAS_WORKSPACE_CONFIG",
    "CUDA_VISIBLE_DEVICES",
    "LANG",
    "MKL_NUM_THREADS",
    "NVIDIA_TF32_OVERRIDE",
    "OMP_NUM_THREADS",
    "OPENBLAS_CORETYPE",
    "PYTHONHASHSEED",
    "PYTHONOPTIMIZE",
    "TOKENIZERS_PARALLELISM",
    "TZ",
)
"""Variables whose values are stored."""

_LONGEST: Final = 1024
_MARKED: Final = re.compile(
    r"-----BEGIN|://[^/\s]*@|\b(?:sk|pk|rk|ghp|gho|ghs|xox[abprs]|AKIA|ASIA|eyJ)[-_A-Za-z0-9]{12,}|bearer\s",
    re.IGNORECASE,
)
_WORD: Final = re.compile(r"[A-Za-z0-9+/=_\-]{24,}")


def capture(key: bytes | None = None) -> dict[str, Any]:
    """``names`` to fingerprint (empty without a ``key``), ``values`` of the allow-list."""
    names = sorted(name for name in os.environ if plain(name))
    values: dict[str, str] = {}
    for name in ALLOWED:
        value = os.environ.get(name)
        if value is not None and plain(value) and len(value) <= _LONGEST and not looks_secret(value):
            values[name] = value
    return {
        "fingerprints": {name: fingerprint(key, name, os.environ[name]) for name in names},
        "source": "probed",
        "values": values,
    }


def fingerprint(key: bytes | None, name: str, value: str) -> str:
    """First 16 bytes, in hex, of HMAC-SHA-256 (RFC 2104) over name, NUL, value; empty without a key."""
    if key is None:
        return ""
    data = name.encode("utf-8", "surrogateescape") + b"\0" + value.encode("utf-8", "surrogateescape")
    return hmac.digest(key, data, "sha256")[:16].hex()


def looks_secret(value: str) -> bool:
    """Whether a value bears the mark of a credential, or a run of characters that nobody types."""
    if _MARKED.search(value):
        return True
    return any(_entropy(word) > 3.7 and _mixed(word) for word in _WORD.findall(value))


def _mixed(word: str) -> bool:
    return any(one.isdigit() for one in word) and any(one.isalpha() for one in word)


def _entropy(word: str) -> float:
    total = len(word)
    return -sum(count / total * math.log2(count / total) for count in Counter(word).values())
