"""Checks of manifests of weights in a log, and of what records say of them: used by ``verify``.

Source: ``shared/spec/weights.md``, *In a log*.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from counterfoil.digest import Reference
from counterfoil.errors import StoreError, WeightsError
from counterfoil.weights import listing

if TYPE_CHECKING:
    from counterfoil.statements import Weights
    from counterfoil.stored import Stored

__all__ = ["Manifests", "cited_weights"]

_HEX64: Final = re.compile(r"[0-9a-f]{64}")


def cited_weights(value: Any) -> tuple[str, str] | None:
    """Digest and root of the manifest that a record names in ``context.weights``; None where that is no such thing."""
    if type(value) is not dict or value.keys() != {"root", "statement"}:
        return None
    root, statement = value["root"], value["statement"]
    if type(root) is not str or type(statement) is not str:
        return None
    if _HEX64.fullmatch(root) is None or _HEX64.fullmatch(statement) is None:
        return None
    return statement, root


class Manifests:
    """The manifests of one log; each list is looked into once, however many manifests name it."""

    def __init__(self, stored: Stored) -> None:
        self._stored = stored
        self._seen: dict[tuple[str, int], tuple[int, int, str] | None] = {}

    def check(self, manifest: Weights, at: str, say: Callable[..., None]) -> None:
        """Say so (CF-VERIFY-055) where the list of a manifest's files is not in the log, or not what it says.

        In a bundle no list is looked for.
        """
        if not self._stored.lists_weights:
            return
        files = manifest.files
        key = (files.list.sha256, files.list.size)
        if key not in self._seen:
            self._seen[key] = self._read(Reference(*key, listing.MEDIA_WEIGHTS))
        if self._seen[key] != (files.count, files.size, manifest.root):
            say("CF-VERIFY-055", at, "the list of a manifest's files is not in this log, or not what it says")

    def _read(self, reference: Reference) -> tuple[int, int, str] | None:
        if not self._stored.there(reference):
            return None
        try:
            found = listing.load(self._stored.read(reference))
        except StoreError:
            raise  # what the system does not let be read accuses nobody
        except WeightsError:
            return None
        return len(found), sum(file.size for file in found), listing.root_of(found)
