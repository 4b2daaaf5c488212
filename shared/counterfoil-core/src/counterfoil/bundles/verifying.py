"""Says whether a bundle can be believed, alone and offline: form, content, then the same judgement as of a log."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final

from counterfoil import keys
from counterfoil.bundles.content import check_content
from counterfoil.bundles.facts import FOREIGN, HERE
from counterfoil.bundles.form import open_bundle
from counterfoil.bundles.judging import Judge
from counterfoil.bundles.opened import Opened
from counterfoil.errors import BundleError, CounterfoilError
from counterfoil.findings import Finding, Verdict, Verification
from counterfoil.notes import vkey
from counterfoil.tlog.continuing import parse_checkpoint
from counterfoil.trust_checks import Shared

__all__ = ["verify_bundle"]

_LATER: Final = "CF-BUNDLE-001"


def verify_bundle(
    path: str | os.PathLike[str],
    ring: keys.Keyring,
    out: Verification,
    *,
    shared: Shared,
    kept: Sequence[bytes | str] = (),
) -> None:
    """Put into ``out`` what is to be said of a bundle, by the keys of ``ring``; never raises for what it finds in it.

    ``shared`` carries the trust policy, if there is one; ``kept`` are checkpoints kept elsewhere.

    Raises:
        StoreError: CF-STORE-001, 006: the file cannot be read. NoteError: one of ``kept`` is no checkpoint.
    """
    with open_bundle(path) as file:
        try:
            opened = Opened(file)
            check_content(opened)
        except BundleError as exc:
            verdict: Verdict = "cannot-tell" if exc.code == _LATER else "broken"
            out.findings.append(Finding(exc.code, exc.where or "", exc.message, exc.hint or "", verdict))
            return
        _judge(opened, ring, out, shared)
        for note in kept:
            found = _continued(opened, note)
            out.findings += [found] if found is not None else []


def _judge(opened: Opened, ring: keys.Keyring, out: Verification, shared: Shared) -> None:
    heads: dict[str, keys.Head] = {}
    try:
        heads = keys.remembered_heads()
    except CounterfoilError as exc:
        out.findings.append(Finding(exc.code, exc.where or "", exc.message, exc.hint or "", "cannot-tell"))
    carried = Carrying(ring, [one.public for one in opened.keys])
    for origin in opened.logs:
        judge = Judge(opened, origin, carried, heads.get(origin), shared)
        out.findings += judge.run()
        for key, count in judge.counts.items():
            out.counts[key] += count
    # What is cited of logs in the bundle was judged entry by entry; what a peer says of its own log elsewhere was not.
    out.findings += shared.heads.forks(opened.logs)
    out.findings += shared.acceptances.findings()
    out.counts["logs"] = len(opened.logs)
    out.counts["blobs"] = len(opened.graph.blobs)
    asked = opened.contents
    if asked.kind == "run" and not any(
        one.call == asked.asked and one.phase == "start" for one in opened.selection.asked("run", asked.asked)
    ):
        out.findings.append(
            Finding(
                "CF-BUNDLE-026",
                f"run {asked.asked}",
                "the beginning of the run is not here",
                "cut the bundle again, from all of the evidence",
                "incomplete",
            )
        )
    sorts = [opened.selection.cited[bytes.fromhex(one.digest)] for one in opened.absent]
    gone, foreign = sorts.count(HERE), sorts.count(FOREIGN)
    where = f"{asked.kind} {asked.asked}"
    if gone:
        message = f"{gone} of what it follows from {'is' if gone == 1 else 'are'} not here"
        hint = "cut the bundle again, from all of the evidence"
        out.findings.append(Finding("CF-BUNDLE-024", where, message, hint, "incomplete"))
    if foreign:
        message = f"the ancestry goes on in somebody else's evidence ({foreign} digests)"
        hint = "ask for a bundle of theirs"
        out.notes.append(Finding("CF-BUNDLE-025", where, message, hint, "intact"))


def _continued(opened: Opened, data: bytes | str) -> Finding | None:
    """What a kept checkpoint says against the bundle: it shows the roots of its heads only, and no others."""
    note, checkpoint = parse_checkpoint(data)
    log = opened.logs.get(checkpoint.origin)
    if log is None:
        message, hint = "the log of a kept checkpoint is not here", "name the evidence that holds it"
        return Finding("CF-VERIFY-007", checkpoint.origin, message, hint)
    try:
        note.verify((vkey(checkpoint.origin, log.section.identity),))
    except CounterfoilError as exc:
        message, hint = f"the checkpoint does not count: {exc.message}", "get the note again from who kept it"
        return Finding(exc.code, checkpoint.origin, message, hint, "cannot-tell")
    root = log.heads.get(checkpoint.size)
    if root is None:
        message = "a bundle does not show whether its log continues this checkpoint"
        hint = "verify the evidence it was cut from"
        return Finding("CF-BUNDLE-027", checkpoint.origin, message, hint, "cannot-tell")
    if root != checkpoint.root.hex():
        message = "the log does not continue a kept checkpoint"
        return Finding("CF-VERIFY-008", checkpoint.origin, message, "keep both: they prove two histories")
    return None


class Carrying(keys.Keyring):
    """A keyring that knows keys carried along for those whose fingerprint alone is pinned."""

    __slots__ = ("_carried", "_ring")

    def __init__(self, ring: keys.Keyring, carried: list[keys.PublicKey]) -> None:
        super().__init__()
        self._ring = ring
        self._carried = {one.keyid: one for one in carried}

    def get(self, keyid: str) -> keys.PublicKey | None:
        """The pinned key, also where only the bundle has more of it than the fingerprint."""
        found = self._ring.get(keyid)
        if found is None and keyid in self._carried:
            found = self._ring.resolve(keyid, self._carried[keyid].spki)
        return found

    def resolve(self, keyid: str, spki: bytes) -> keys.PublicKey | None:
        """As of the keyring itself."""
        return self._ring.resolve(keyid, spki)
