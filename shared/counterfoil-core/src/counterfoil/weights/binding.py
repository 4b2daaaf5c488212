"""Which models run on which weights, and the citation of their manifests by model calls.

``counterfoil.bind_model`` and the setting ``models`` say it; a recorder puts the manifest into its log before the first
call that names it. Source: ``shared/spec/weights.md``, *In a record*.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from counterfoil import settings
from counterfoil.errors import CounterfoilError, WeightsError
from counterfoil.stores import open_store

if TYPE_CHECKING:
    from counterfoil.weights.manifests import Manifest
    from counterfoil.writer import Writer

__all__ = ["MODEL_OPS", "Citing", "bind_model"]

_log: Final = logging.getLogger("counterfoil")

MODEL_OPS: Final = frozenset({"chat", "text_completion", "embeddings"})
_LOOK_MAX: Final = 16 << 20
"""Bytes of evidence that are searched for a manifest that the home has no copy of: the application waits meanwhile."""

_bound: Final[dict[str, Manifest | None]] = {}


def bind_model(
    model: str, weights: str | None, *, evidence: str | os.PathLike[str] | None = None
) -> str | None:
    """Say on which weights calls of ``model`` run (root, digest or name of a manifest); None: on none that are known.

    It holds for this process, from now on, before what the settings say. Returns the manifest's digest. Raises
    WeightsError: CF-WEIGHTS-010 or 011 (no manifest, several), 012 (nobody known here signed it).
    """
    if weights is None:
        _bound[model] = None
        return None
    if evidence is None:
        evidence = settings.load().evidence
    found = _find(weights, os.fspath(evidence), most=None)
    _bound[model] = found
    return found.digest


class Citing:
    """What the model calls of one recorder name; the caller holds the recorder's lock."""

    def __init__(self, evidence: str) -> None:
        self._evidence = evidence
        self._settings: dict[str, str] | None = None
        self._found: dict[str, Manifest | None] = {}
        self._told: set[str] = set()

    def of(
        self, writer: Writer | None, op: str, model: str, loss: Callable[[str, int], None]
    ) -> dict[str, Any]:
        """``weights`` for the context of a call that starts; nothing where no weights are bound or can be named."""
        if op not in MODEL_OPS or writer is None:
            return {}
        manifest = self._manifest(model, loss)
        if manifest is None:
            return {}
        if not writer.stated.has(manifest.digest):
            try:
                data = manifest.list()
            except CounterfoilError as exc:
                self._lost(model, exc, loss)
                return {}
            sha256 = manifest.says.files.list.sha256
            if not (writer.blob(sha256, data) and writer.entry(manifest.envelope.to_bytes())):
                return {}  # what the writer does not take it counts itself
        return {"weights": {"root": manifest.root, "statement": manifest.digest}}

    def _manifest(self, model: str, loss: Callable[[str, int], None]) -> Manifest | None:
        if model in _bound:
            return _bound[model]
        if self._settings is None:
            self._settings = {}
            try:
                self._settings = settings.load().models
            except CounterfoilError as exc:
                self._lost(model, exc, loss)
        wanted = self._settings.get(model)
        if wanted is None:
            return None
        if model not in self._found:
            self._found[model] = None
            try:
                self._found[model] = _find(wanted, self._evidence, most=_LOOK_MAX)
            except CounterfoilError as exc:
                self._lost(model, exc, loss)
        return self._found[model]

    def _lost(self, model: str, exc: CounterfoilError, loss: Callable[[str, int], None]) -> None:
        """Once for each model: its calls are recorded all the same, and name no weights."""
        if model not in self._told:
            self._told.add(model)
            _log.error("counterfoil: calls of model %r name no weights: %s", model, exc)
            loss(f"the weights that a model is bound to were not found: {exc.code}", 1)


def _find(wanted: str, evidence: str, *, most: int | None) -> Manifest:
    """A manifest from the home, or else from the evidence; it is kept in the home then."""
    from counterfoil.weights import manifests

    try:
        found = manifests.choose(manifests.in_home(), wanted)
    except WeightsError as exc:
        if exc.code != "CF-WEIGHTS-010":
            raise
        found = manifests.choose(_standing(evidence, most), wanted)
        manifests.keep(found)
    if found.signed_by() is None:
        raise WeightsError(
            "the manifest is signed by nobody who is known here",
            code="CF-WEIGHTS-012",
            where=wanted,
            hint="get the fingerprint from its signer, then: counterfoil keys pin FINGERPRINT",
        )
    return found


def _standing(evidence: str, most: int | None) -> list[Manifest]:
    from counterfoil.weights import manifests

    store = open_store(evidence)
    try:
        sizes = sum(store.segment_size(log, one) for log in store.logs() for one in store.segments(log))
        return manifests.of_evidence(evidence) if most is None or sizes <= most else []
    except (CounterfoilError, OSError):
        return []
