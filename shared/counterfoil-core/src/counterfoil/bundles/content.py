"""Holds a bundle against the rules of what is in it: nothing slipped in, nothing left out (step 2 of verifying)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NoReturn

from counterfoil.bundles.facts import Facts, Looked, heads_of, references_of, signers_of
from counterfoil.bundles.opened import Opened
from counterfoil.bundles.parts import Part, part_of
from counterfoil.digest import Reference
from counterfoil.errors import BundleError

__all__ = ["check_content"]

_CUTTER = "whoever cut or changed this bundle did not keep to the rules: get another copy of it"


def check_content(opened: Opened) -> None:
    """Raise BundleError (CF-BUNDLE-020 to 022) for the first thing that is too much or too little."""
    contents, selection = opened.contents, opened.selection
    if not selection.asked(contents.kind, contents.asked):
        _refuse("020", contents.line, f"the {contents.kind} that was asked for is not here")
    if selection.sessionless:
        first = min(one.line for one in selection.sessionless)
        _refuse("022", first, "an entry without the session it belongs to")
    for origin in opened.logs:
        for one in selection.logs[origin]:
            if not one.wanted and not selection.within(origin, one.index):
                _refuse("021", one.line, "an entry that nothing here cites")
    roots, named, heads = _gather(opened)
    for origin, log in opened.logs.items():
        lines = log.head_lines
        for size in sorted(heads.get(origin, ())):
            if size < log.section.size and size not in lines:
                _refuse("022", log.section.line, f"the head over {size} entries is cited and has no line")
    for origin, log in opened.logs.items():
        for size, line in sorted(log.head_lines.items()):
            if size not in heads.get(origin, ()):
                _refuse("021", line, "a head that nothing here cites")
    reached = opened.graph.reach(roots)
    for digest, held in opened.graph.blobs.items():
        if digest not in reached:
            _refuse("021", held.line, "stored bytes that nothing here cites")
    absent = {bytes.fromhex(one.digest): one.line for one in opened.absent}
    for digest in sorted(selection.cited):
        if digest not in absent and not selection.has(digest):
            _refuse("022", contents.line, f"{digest.hex()} is cited, and neither here nor said to be absent")
    for digest, line in absent.items():
        if digest not in selection.cited or selection.has(digest):
            _refuse("021", line, "said to be absent, and here or not cited")
    for key in opened.keys:
        owner = any(log.section.identity.keyid == key.public.keyid for log in opened.logs.values())
        if owner or key.public.keyid not in named:
            _refuse("021", key.line, "a key that no signature here names")


def _gather(opened: Opened) -> tuple[list[Part], set[str], dict[str, set[int]]]:
    """References, signers' keyids and cited heads (of logs in the bundle) of all wanted entries."""
    roots: dict[Part, None] = {}
    named: set[str] = set()
    heads: dict[str, set[int]] = {}
    looked = {origin: (Looked(), Looked()) for origin in opened.logs}
    for facts in _wanted(opened):
        entry, (cited, stood) = opened.entry(facts), looked[facts.log]

        def read(reference: Reference, log: str = facts.log) -> bytes:
            return opened.read(log, reference)

        roots.update(dict.fromkeys(part_of(one) for one in references_of(entry, read, cited)))
        for origin, size, _, _ in heads_of(entry, read, stood):
            if origin in opened.logs:
                heads.setdefault(origin, set()).add(size)
        if opened.keys:
            named.update(signers_of(entry))
    return list(roots), named, heads


def _wanted(opened: Opened) -> Iterator[Facts]:
    for origin in opened.logs:
        yield from (one for one in opened.selection.wanted(origin) if one.kind != "unknown")


def _refuse(number: str, line: int, message: str) -> NoReturn:
    raise BundleError(message, code=f"CF-BUNDLE-{number}", where=f"line {line}", hint=_CUTTER)
