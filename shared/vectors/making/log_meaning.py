"""Logs whose sessions, citations and records are wrong in one way each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from making import formats
from making.cases import Case, begun, broken, ending, run, small
from making.formats import b64, jcs
from making.logs import IDENTITY, LOG, OTHER, PEER, RUN, Log

# -- sessions, keys and other logs ------------------------------------------------------------------------------------


def closing_cases() -> Iterator[Case]:
    """Sessions that say they will be closed."""

    def opened(log: Log | None = None, **more: Any) -> Log:
        return run(begun(log, closes=True, **more))

    def closed(log: Log) -> Log:
        log.record({"op": "closed", "phase": "point"}, {"at": log.now()})
        log.checkpoint()
        return log

    missing = "incomplete", ["CF-VERIFY-027"]
    yield Case("a session that was closed", closed(opened()).evidence(), "intact", [])
    log = opened()
    log.checkpoint()
    yield Case("a session that was never closed", log.evidence(), *missing)
    log = opened()
    log.checkpoint()
    yield Case(
        "a session that was never closed, and a later one that was", closed(opened(log)).evidence(), *missing
    )
    yield Case(
        "a closed session, and a later one that was not",
        ending(opened(closed(opened()))).evidence(),
        *missing,
    )
    log = run(begun(closes=1))
    log.checkpoint()
    yield Case("a session that does not say so with true", log.evidence(), "intact", [])
    log = opened()
    log.flush()
    yield Case("a tail of a session that was never closed", log.evidence(), "incomplete", ["CF-VERIFY-024"])
    log = opened()
    log.checkpoint()
    log.files[0] += b"torn"
    good = len(log.files[0]) - 4
    log.segment()
    log.recovered(0, good)
    log.session(tree=False, closes=True)
    yield Case(
        "a session that was never closed, and was recovered",
        closed(run(log)).evidence(),
        "incomplete",
        ["CF-VERIFY-020"],
    )


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
    yield from closing_cases()

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

    for name, data, media in _NOT_AS_CITED:
        log = begun()
        log.blob(b"x")
        cited = {**log.blob(data), "media": media}
        yield broken(
            f"cited as what it is not: {name}", ending(run(log, content={"request": cited})), "CF-VERIFY-010"
        )
    for name, data, media in _AS_CITED:
        log = begun()
        log.blob(b"x")
        cited = {**log.blob(data), "media": media}
        yield Case(
            f"cited as what it is: {name}",
            ending(run(log, content={"request": cited})).evidence(),
            "intact",
            [],
        )
    for name, number in (("follows", 2), ("does not follow", 3)):
        log = begun()
        first = jcs({"add": {"$msg": {}}, "n": 1, "parent": ""})
        log.blob(first)
        second = log.blob(jcs({"add": {"$msg": {}}, "n": number, "parent": formats.sha256(first)}))
        log = ending(run(log, content={"request": {**second, "media": formats.FOLD}}))
        codes = [] if number == 2 else ["CF-VERIFY-010"]
        yield Case(
            f"a node that {name} the one before", log.evidence(), "broken" if codes else "intact", codes
        )

    log = begun()
    point = log.record({"name": "n", "op": "custom", "phase": "point"}, {"at": log.now()})
    named = [{"digest": point, "rel": "control"}]
    yield Case("a parent", ending(run(log, context={"parents": named})).evidence(), "intact", [])
    for name, parents, count in (
        ("a parent of a record that is not there", [{"digest": "0" * 64, "rel": "control"}], 1),
        ("two parents that are none", [{"digest": point}, "x"], 2),
        ("parents that are no list", {"digest": point, "rel": "control"}, 1),
    ):
        log = begun()
        log.record({"name": "n", "op": "custom", "phase": "point"}, {"at": log.now() - 1000})
        yield broken(name, ending(run(log, context={"parents": parents})), *["CF-VERIFY-045"] * count)

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


_LONG = "x" * 256
_ZEROS = b64(bytes(256))
_REFERENCE = {"$ref": {"media": formats.TEXT, "sha256": formats.sha256(b"x"), "size": 1}}
_NOT_AS_CITED: list[tuple[str, bytes, str]] = [
    ("bytes as a text", b"\xff", formats.TEXT),
    ("a text that ends too early", b"\xc3", formats.TEXT),
    ("no JSON", b"text", formats.VALUE),
    ("nothing", b"", formats.VALUE),
    ("not canonical", b'{"a": 1}', formats.VALUE),
    ("a member twice", b'{"a":1,"a":1}', formats.VALUE),
    ("members out of order", b'{"b":1,"a":1}', formats.VALUE),
    ("a number in another form", b"[1.50]", formats.VALUE),
    ("an integer beyond 2^53", b"9007199254740992", formats.VALUE),
    ("a lone surrogate", b'["\\ud800"]', formats.VALUE),
    ("a string", b'"a"', formats.VALUE),
    ("bytes", b'{"$bytes":"AAAA"}', formats.VALUE),
    ("a reference", jcs(_REFERENCE), formats.VALUE),
    ("a long string inside", jcs([_LONG]), formats.VALUE),
    ("a long string of 128 characters", jcs({"a": "\u00e9" * 128}), formats.VALUE),
    ("a long array inside", jcs({"a": [1] * 128}), formats.VALUE),
    ("long bytes inside", jcs([{"$bytes": _ZEROS}]), formats.VALUE),
    ("bytes in another spelling", b'[{"$bytes":"AAB="}]', formats.VALUE),
    ("messages", jcs([{"$msg": {}}]), formats.VALUE),
    ("messages inside", jcs({"a": [{"$msg": {}}]}), formats.VALUE),
    ("nested too deeply", b"[" * 129 + b"]" * 129, formats.VALUE),
    ("a value as a node", b"[]", formats.FOLD),
    ("a node that adds no message", jcs({"add": 1, "n": 1, "parent": ""}), formats.FOLD),
    ("a node that adds a text", jcs({"add": _REFERENCE, "n": 1, "parent": ""}), formats.FOLD),
    ("a node without number", jcs({"add": {"$msg": {}}, "parent": ""}), formats.FOLD),
    ("a node of number 0", jcs({"add": {"$msg": {}}, "n": 0, "parent": ""}), formats.FOLD),
    ("a second node without the first", jcs({"add": {"$msg": {}}, "n": 2, "parent": ""}), formats.FOLD),
    ("a first node behind another", jcs({"add": {"$msg": {}}, "n": 1, "parent": "0" * 64}), formats.FOLD),
    ("a node with more members", jcs({"add": {"$msg": {}}, "more": 1, "n": 1, "parent": ""}), formats.FOLD),
]
_AS_CITED: list[tuple[str, bytes, str]] = [
    ("an empty text", b"", formats.TEXT),
    ("bytes", b"\xff", formats.BYTES),
    ("bytes of another type", b"\xff", "image/png"),
    ("a number", b"1.5", formats.VALUE),
    ("null", b"null", formats.VALUE),
    ("an empty object", b"{}", formats.VALUE),
    ("strings of 255 bytes", jcs(["\u00e9" * 127, _LONG[1:]]), formats.VALUE),
    ("an array of 255 bytes inside", jcs([["x" * 251]]), formats.VALUE),
    ("bytes of 255 inside", jcs([{"$bytes": b64(bytes(255))}]), formats.VALUE),
    ("a message", jcs({"$msg": {}}), formats.VALUE),
    ("a message among others", jcs([{"$msg": {}}, 1]), formats.VALUE),
    ("nested as deeply as can be", b"[" * 128 + b"]" * 128, formats.VALUE),
    ("what looks like a node", jcs({"add": 1, "n": 7, "parent": "mum"}), formats.VALUE),
    ("a first node", jcs({"add": {"$msg": {}}, "n": 1, "parent": ""}), formats.FOLD),
]
