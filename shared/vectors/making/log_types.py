"""Logs that are wrong in types and kinds: what looks like a reference, a number or a handoff and is none."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from making import formats
from making.cases import Case, begun, broken, ending, flushed, run, small
from making.formats import BLOB, FIRST, NEXT, NOTE, jcs, sha256
from making.log_complete import accepted, received
from making.log_statements import bound, handoff
from making.log_trust import message
from making.logs import ACTOR, IDENTITY, OTHER, RUN, STRANGER, Log
from making.trust_cases import policy

_POINT: Final = {"name": "n", "op": "custom", "phase": "point"}


def type_cases() -> Iterator[Case]:
    """Every one of them."""
    yield from _records()
    yield from _openings()
    yield from _checkpoints()
    yield from _notes()
    yield from _statements()
    yield from _later()
    yield from _blocks()


def _records() -> Iterator[Case]:
    text = {"media": formats.TEXT, "sha256": sha256(b"hi"), "size": 2}
    for name, wrong in (
        ("its hash in capitals", {"sha256": sha256(b"hi").upper()}),
        ("a size that is true", {"size": True}),
        ("a size below 0", {"size": -1}),
        ("a media type that is a list", {"media": []}),
    ):
        log = begun()
        log.blob(b"hi")
        cited = {"request": text | wrong}
        yield broken(f"a reference that is none: {name}", ending(run(log, content=cited)), "CF-VERIFY-010")
    log = begun()
    cited = {"a": text | {"size": True}, "b": text | {"size": True}, "c": text | {"size": -1}}
    yield broken(
        "references that are none, one twice", ending(run(log, content=cited)), *["CF-VERIFY-010"] * 2
    )

    log = begun()
    log.start("invoke_workflow", "team", RUN)
    log.end("invoke_workflow", "team", RUN, content={"totals": {"ended": 1, "started": True}})
    yield Case("totals that are true", ending(log).evidence(), "incomplete", ["CF-VERIFY-023"])
    for count in (-3, 0, True, "2"):
        log = begun()
        log.record({"name": "x", "op": "loss", "phase": "point"}, {"at": log.now(), "count": count})
        name = f"a loss of {count!r}"
        yield Case(name, ending(log).evidence(), "incomplete", ["CF-VERIFY-021"], counts={"losses": 1})

    log = begun()
    log.start("chat", "m", "2" * 32)
    ending(log)
    log.segment()
    log.session()
    log.end("chat", "m", "2" * 32)
    log.start("chat", "m", "3" * 32)
    name = "a call left open after another one was"
    found = ["CF-VERIFY-025", "CF-VERIFY-025"]
    yield Case(name, ending(log).evidence(), "incomplete", found, counts={"open": 1})

    log = begun()
    point = log.record(_POINT, {"at": log.now()})
    yield broken(
        "a handoff that is a record", ending(run(log, context={"handoffs": [point]})), "CF-VERIFY-011"
    )
    log = begun()
    binding = log.bind("team", ACTOR)
    whole = ending(run(log, context={"handoffs": [binding]})).evidence()
    yield Case("a handoff that is another statement", whole, "intact", [])


def _openings() -> Iterator[Case]:
    log = Log()
    log.segment()
    log.opening(tree={"peaks": [], "size": False})
    yield broken("a tree of a size that is false", ending(log), "CF-LOG-018")
    for name, wrong in (("a length below 0", -1), ("a length that is false", False)):
        log = run(begun())
        log.flush()
        log.segment()
        log.recovered(0, wrong)
        log.session(tree=False)
        yield broken(f"a recovery entry with {name}", ending(log), "CF-LOG-015")
    files = small().evidence()
    yield Case(
        "a folder with a segment's name",
        {**files, "00000000000000a1/00000001.seg/x": b""},
        "broken",
        ["CF-VERIFY-002"],
    )


def _checkpoints() -> Iterator[Case]:
    log = run(begun())
    log.flush()
    log.stored(segment=False)
    log.note()
    yield broken("`stored` of a segment that is false", log, "CF-VERIFY-051")

    log = run(begun())
    log.flush()
    file = bytes(log.files[-1])
    content = {"offset": len(file), "op": "stored", "segment": 0, "sha256": sha256(file)}
    log.record(content, {"at": log.now()})
    log.flush(raw=True)
    log.note()
    yield broken("`stored` with a context", log, "CF-VERIFY-051")

    log = run(begun())
    log.flush()
    file = bytes(log.files[-1])
    log.record({"offset": len(file), "op": "stored", "segment": 0, "sha256": sha256(file)}, {})
    text = formats.note(log.origin, len(log.leaves), formats.root(log.leaves), log.key)
    log._items.append((NOTE, text))
    log.flush(raw=True)
    yield Case(
        "`stored` and its note in one chunk", log.evidence(), "broken", ["CF-LOG-014"], counts={"tail": 3}
    )


def _notes() -> Iterator[Case]:
    first = Log(OTHER)
    begun(first)
    first.checkpoint()
    size, root = len(first.leaves), formats.root(first.leaves)
    right = formats.note(first.origin, size, root, first.key)
    line = right.rpartition(b"\n\n")[2]
    for name, note in (
        ("with a further line", right.replace(b"=\n\n", b"=\nmore\n\n")),
        ("with two signatures", right + line),
        ("of another key's name", formats.note(first.origin, size, root, first.key, name="bob")),
    ):
        log = Log()
        log.segment()
        log.session(seen=[{"log": OTHER, "note": log.blob(note)}])
        yield Case(f"a cited note {name}", ending(log).evidence(first), "broken", ["CF-NOTE-021"])
    for name, note in (
        ("that is a text", b"no note"),
        ("that is empty", b""),
        ("of an origin that is none", formats.note(f"{first.origin}x", size, root, first.key)),
        ("with more than one can have", right + b"x" * 512),
    ):
        log = Log()
        log.segment()
        log.session(seen=[{"log": OTHER, "note": log.blob(note)}])
        yield Case(f"a cited note {name}", ending(log).evidence(first), "broken", ["CF-NOTE-003"])
    log = Log()
    log.segment()
    third = formats.note(f"{first.origin[:-1]}f", size, root, first.key)
    log.session(seen=[{"log": OTHER, "note": log.blob(third)}])
    yield Case(
        "a cited note of a log of another name", ending(log).evidence(first), "broken", ["CF-VERIFY-005"]
    )
    for name, others in (
        ("empty", []),
        ("of members with more than is known", [{"a": 1, "log": OTHER, "note": None}]),
    ):
        log = Log()
        log.segment()
        cited = log.blob(right)
        listed = log.blob(jcs([one | {"note": cited} for one in others]))
        log.session(seen={**listed, "media": formats.VALUE})
        yield Case(
            f"a list of other logs, {name}", ending(log).evidence(first), "intact", [], counts={"logs": 2}
        )
    log = Log()
    log.segment()
    note = log.blob(right)
    listed = log.blob(jcs([{"log": OTHER, "note": note}, {"$ref": note}]))
    log.session(seen={**listed, "media": formats.VALUE})
    yield Case(
        "a list of other logs with a member of no log",
        ending(log).evidence(first),
        "broken",
        ["CF-CANON-011"],
    )
    for name, before, behind in (("a space within", b"[ ", b""), ("a newline behind", b"[", b"\n")):
        log = Log()
        log.segment()
        text = jcs([{"log": OTHER, "note": log.blob(right)}])
        log.session(seen=log.blob(before + text[1:] + behind))
        name = f"a list of other logs, not canonical: {name}"
        yield Case(name, ending(log).evidence(first), "broken", ["CF-CANON-011"])
    log = Log()
    listed = {}
    for media in (formats.VALUE, formats.BYTES, "application/x"):
        log.segment()
        if not listed:
            another = formats.note(first.origin, size, bytes(32), first.key)
            listed = log.blob(jcs([{"log": OTHER, "note": log.blob(another)}]))
        log.session(seen={**listed, "media": media})
        log.checkpoint()
    yield Case(
        "a list of other logs under several media types",
        ending(log).evidence(first),
        "broken",
        ["CF-VERIFY-005"],
    )


def _statements() -> Iterator[Case]:
    log = begun()
    refused = accepted(log, received(log), status="refused", nonce=None)
    accepted(log, refused)
    yield broken("a receipt that accepts a receipt", ending(log), "CF-VERIFY-048")

    def tainted(**more: Any) -> Log:
        log = bound()
        parents = [{"digest": message(log, taint=["web"]), "rel": "data"}]
        listed = jcs(parents)
        log.blob(listed)
        apart = {"count": 1, "sha256": sha256(listed), "size": len(listed)}
        handoff(log, parentSet=apart, **more)
        return log

    yield broken("a taint dropped behind a list of parents", ending(tainted()), "CF-TRUST-041")
    yield Case(
        "a taint kept behind a list of parents", ending(tainted(taint=["web"])).evidence(), "intact", []
    )
    log = bound()
    parents = [{"digest": message(log, taint=["web"]), "rel": "data"}]
    message(log, by=ACTOR, actor="team", parents=parents)
    yield broken("a taint dropped by an actor that countersigns", ending(log), "CF-TRUST-041")

    log = bound()
    message(log, by=ACTOR, actor="team")
    yield broken(
        "a key of an actor that countersigns, and that the policy does not name",
        ending(log),
        "CF-TRUST-050",
        keyring=("identity+", "peer"),
        policy=policy(),
    )

    log = bound(ext={"more": {"rules": [1, True, "x"]}})
    handoff(log, ext={"authority": {"allow": ["*"]}, "taint": ["web"]})
    accepted(log, message(log, ext={}), ext={"status": "refused"})
    whole = ending(log).evidence()
    yield Case("statements that say more", whole, "intact", [], counts={"handoffs": 2, "statements": 4})
    log = bound()
    handoff(log, ext=[])
    yield broken("what a handoff says more is a list", ending(log), "CF-STMT-005")
    log = bound()
    handoff(log, ext={"x": None})
    yield broken("what a handoff says more holds a null", ending(log), "CF-STMT-006")


def _later() -> Iterator[Case]:
    def unknown() -> Log:
        log = Log()
        log.segment()
        log.entry({"content": {"op": "session", "phase": "point"}, "context": log.tree(), "v": 2})
        return log

    log = run(unknown())
    log.bind("team", ACTOR)
    handoff(log)
    yield Case("a session of a later version", ending(log).evidence(), "cannot-tell", ["CF-LOG-022"])
    note = log.checkpoints[0]["note"].encode()
    other = Log(OTHER)
    other.segment()
    other.session(seen=[{"log": log.name, "note": other.blob(note)}])
    yield Case(
        "a log cites one whose session is of a later version",
        log.evidence(ending(other)),
        "cannot-tell",
        ["CF-LOG-022"],
    )
    log = unknown()
    ending(log)
    log.segment()
    log.session()
    log.bind("team", STRANGER, by=IDENTITY)
    handoff(log, key=ACTOR)
    found = ["CF-LOG-022", "CF-DSSE-010"]
    yield Case("a known session behind one of a later version", ending(log).evidence(), "broken", found)


def _blocks() -> Iterator[Case]:
    items = formats.item(BLOB, b"A" * 10)
    header = formats.zstd(b"", first=True)[:6]
    block = (len(items) << 3).to_bytes(3, "little") + items
    ends = (len(items) << 3 | 1).to_bytes(3, "little") + items
    for name, chunks, codes in (
        ("whole", [(FIRST, items, header + block)], []),
        ("of two blocks", [(FIRST, items + items, header + block + block)], []),
        ("of a header alone", [(FIRST, b"", header), (NEXT, items, block)], []),
        ("of nothing", [(FIRST, items, header + block), (NEXT, b"", b"")], []),
        ("of nothing at a frame's begin", [(FIRST, b"", b"")], ["CF-LOG-010"]),
        ("of half a header", [(FIRST, b"", header[:4])], ["CF-LOG-010"]),
        (
            "cut inside a header",
            [(FIRST, b"", header[:5]), (NEXT, items, header[5:] + block)],
            ["CF-LOG-010"],
        ),
        ("with a byte too many", [(FIRST, items, header + block + b"\x50")], ["CF-LOG-010"]),
        ("cut inside a block", [(FIRST, b"", header + block[:5]), (NEXT, items, block[5:])], ["CF-LOG-010"]),
        ("in which a frame ends", [(FIRST, items, header + ends)], ["CF-LOG-010"]),
    ):
        log = flushed(run(begun()))
        for form, raw, stored in chunks:
            log.files[0] += formats.chunk(form, stored, len(raw))
        log._fresh = True
        verdict = "broken" if codes else "intact"
        yield Case(f"a compressed chunk {name}", ending(log).evidence(), verdict, codes)
