"""Logs whose sessions, citations and records are wrong in one way each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from making import formats
from making.cases import Case, begun, broken, ending, run, small
from making.formats import b64, jcs
from making.logs import IDENTITY, LOG, OTHER, PEER, RUN, Log

# -- sessions, keys and other logs ------------------------------------------------------------------------------------


def session_cases() -> Iterator[Case]:
    """What is wrong with who writes, and with other logs."""
    yield Case(
        "an identity that is not pinned", small().evidence(), "cannot-tell", ["CF-VERIFY-032"], ("peer",)
    )
    yield Case("an identity pinned by fingerprint only", small().evidence(), "intact", [], ("~identity",))
    yield broken(
        "a session of another log",
        ending(begun(origin=f"{IDENTITY.keyid}/{OTHER}")),
        "CF-VERIFY-031",
        "CF-VERIFY-030",
    )
    yield broken(
        "a session of another identity's origin",
        ending(begun(origin=f"{PEER.keyid}/{LOG}")),
        "CF-VERIFY-031",
        "CF-VERIFY-030",
    )
    yield broken(
        "a session without a usable key", ending(begun(spki="AAAA")), "CF-VERIFY-030", "CF-VERIFY-030"
    )
    weak = b64(bytes.fromhex("302a300506032b6570032100") + bytes(32))
    yield broken(
        "a session with a key of low order", ending(begun(spki=weak)), "CF-VERIFY-030", "CF-VERIFY-030"
    )
    log = Log()
    log.segment()
    log.opening()
    yield broken("a log without a session", ending(log), "CF-VERIFY-030")

    first = Log(OTHER)
    begun(first)
    first.checkpoint()

    def cites(note: bytes, *, apart: bool = False) -> Log:
        log = Log()
        log.segment()
        seen: Any = [{"log": OTHER, "note": log.blob(note)}]
        if apart:
            listed = jcs(seen)
            seen = {**log.blob(listed), "media": formats.VALUE}
        log.session(seen=seen)
        return ending(log)

    note = first.checkpoints[0]["note"].encode()
    yield Case("a log cites another", cites(note).evidence(first), "intact", [], counts={"logs": 2})
    yield broken("a cited log is gone", cites(note), "CF-VERIFY-004")
    yield broken("a log cited in a list apart is gone", cites(note, apart=True), "CF-VERIFY-004")
    rewritten = Log(OTHER)
    begun(rewritten, pid=1)
    rewritten.checkpoint()
    yield Case("a cited log was rewritten", cites(note).evidence(rewritten), "broken", ["CF-VERIFY-005"])
    yield Case("what is cited is no checkpoint", cites(b"nothing").evidence(first), "broken", ["CF-NOTE-003"])
    replaced = [{"origin": f"{IDENTITY.keyid}/{OTHER}", "root": "0" * 64, "size": 7}]
    yield Case(
        "a folder made anew",
        ending(begun(replaced=replaced)).evidence(),
        "intact",
        [],
        notes=["CF-VERIFY-060"],
    )

    files = small().evidence()
    yield Case("a foreign file", {**files, f"{LOG}/notes.txt": b"x"}, "broken", ["CF-VERIFY-002"])
    yield Case("a foreign file at the top", {**files, "index.db": b""}, "broken", ["CF-VERIFY-002"])
    yield Case("another .gitignore", {**files, ".gitignore": b"*\n!x\n"}, "broken", ["CF-VERIFY-002"])
    yield Case(
        "no .gitignore",
        {name: data for name, data in files.items() if name != ".gitignore"},
        "broken",
        ["CF-VERIFY-002"],
    )
    yield Case("no log", {".gitignore": b"*\n"}, "cannot-tell", ["CF-VERIFY-001"])
    yield Case(
        "a log without segments", {".gitignore": b"*\n"}, "incomplete", ["CF-VERIFY-024"], folders=[LOG]
    )

    log = small()
    known = [log.head()]
    yield Case("as remembered", log.evidence(), "intact", [], heads=known)
    longer = small()
    run(longer)
    yield Case("longer than remembered", ending(longer).evidence(), "intact", [], heads=known)
    yield Case(
        "shorter than remembered", log.evidence(), "broken", ["CF-VERIFY-052"], heads=[log.head(size=9)]
    )
    yield Case(
        "not the log that is remembered",
        log.evidence(),
        "broken",
        ["CF-VERIFY-053"],
        heads=[log.head(root="0" * 64)],
    )
    gone = {**first.head(), "evidence": "."}
    yield Case("a remembered log is gone", log.evidence(), "broken", ["CF-VERIFY-003"], heads=[gone])


# -- records ----------------------------------------------------------------------------------------------------------


def record_cases() -> Iterator[Case]:
    """What is wrong with what records say and cite."""
    big = {"more": ["x" * 300, "y" * 300], "text": "z" * 300}

    def asks(**how: Any) -> Log:
        log = begun()
        return ending(run(log, content={"request": log.value(big, **how)}))

    yield Case("a request", asks().evidence(), "intact", [], counts={"blobs": 6})
    for number, name in enumerate(("a text", "another text", "a list", "a third text", "the whole")):
        yield broken(f"{name} of a request is missing", asks(leave_out=number), "CF-VERIFY-010")
    log = begun()
    reference = log.value(big)
    waiting, log._items = log._items, []
    log._items = [one for one in waiting if one[0] == formats.ENTRY]
    run(log, content={"request": reference})
    log._items += [one for one in waiting if one[0] == formats.BLOB]
    yield broken("blobs behind what cites them", ending(log), "CF-VERIFY-010", "CF-VERIFY-010")
    log = begun()
    reference = log.value(big)
    yield broken(
        "a reference with another size",
        ending(run(log, content={"request": {**reference, "size": 1}})),
        "CF-VERIFY-010",
    )
    log = begun()
    messages = [{"$msg": {"content": [], "type": "human"}}] * 3
    yield broken(
        "a node of a message list is missing",
        ending(run(log, content={"request": log.value(messages, leave_out=1)})),
        "CF-VERIFY-010",
    )
    log = begun()
    text = '{"$ref":{"media":"text/plain;charset=utf-8","sha256":"' + "0" * 64 + '","size":1}}'
    yield Case(
        "a text that looks like a value",
        ending(run(log, content={"request": log.value(text)})).evidence(),
        "intact",
        [],
    )

    log = begun()
    yield broken(
        "a handoff that is not there", ending(run(log, context={"handoffs": ["0" * 64]})), "CF-VERIFY-011"
    )
    log = begun()
    yield broken("handoffs that are no list", ending(run(log, context={"handoffs": 1})), "CF-VERIFY-011")

    log = begun()
    log.end("chat", "m", "2" * 32)
    yield Case("an end without a start", ending(log).evidence(), "incomplete", ["CF-VERIFY-022"])
    log = begun()
    log.start("invoke_workflow", "team", RUN)
    log.end("invoke_workflow", "team", RUN, content={"totals": {"ended": 2, "started": 2}})
    yield Case("a run that had more", ending(log).evidence(), "incomplete", ["CF-VERIFY-023"])
    log = begun()
    log.start("invoke_workflow", "team", RUN)
    open_run = "a run that never ended, and nobody writes"
    counts = {"open": 1, "runs": 1}
    yield Case(open_run, ending(log).evidence(), "incomplete", ["CF-VERIFY-025"], counts=counts)
    log.segment()
    log.session()
    yield Case(f"{open_run} in this session either", ending(log).evidence(), "incomplete", ["CF-VERIFY-025"])
    log = run(begun())
    log.end("chat", "m", "2" * 32, context={"late": True})
    yield Case("an end that came late", ending(log).evidence(), "intact", [])
    log = begun()
    log.record({"name": "disk full", "op": "loss", "phase": "point"}, {"at": log.now(), "count": 3})
    yield Case("a loss", ending(log).evidence(), "incomplete", ["CF-VERIFY-021"], counts={"losses": 3})
