"""Logs whose bytes, chunks, entries, segments or checkpoints are wrong in one way each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from making import formats
from making.cases import Case, begun, broken, changed, ending, flushed, run, small
from making.formats import jcs, sha256
from making.logs import IDENTITY, LOG, OTHER, STRANGER, Log

# -- bytes and chunks -------------------------------------------------------------------------------------------------


def chunk_cases() -> Iterator[Case]:
    """What is wrong with bytes, chunks and items."""
    log = small()
    flipped = log.chunks[0]["start"] + 400
    changed(log, (flipped, bytes([log.files[0][flipped] ^ 1])))
    yield broken("a byte of a chunk changed", log, "CF-LOG-010")

    log = small()
    first = log.chunks[0]
    old = bytes(log.files[0][: first["end"]])
    at = old.index(b'"pid":4242') + 6
    new = old[:at] + b"4243" + old[at + 4 :]
    log.files[0][: first["end"]] = formats.chunk(1, new[16:], first["raw"])
    yield broken("a byte of an entry changed, its chunk's checksum made right", log, "CF-LOG-017")

    log = begun()
    run(log)
    data = b"".join(formats.item(kind, one) for kind, one in log._items)
    would = formats.chunk(1, formats.zstd(data, first=True), len(data))
    log.flush(raw=True)
    log.stored(offset=len(would), sha256=sha256(would))
    log.note()
    yield broken("the same items stored as other bytes", log, "CF-VERIFY-051")

    log = small()
    data = bytes(log.files[0])
    log.files[0] = bytearray(data[: log.chunks[0]["start"]] + data[log.chunks[0]["end"] :])
    yield broken("the first chunk is left out", log, "CF-LOG-017")

    log = run(begun())
    log.flush(more=b"\x01\x05\x00\x00\x00ab")
    yield broken("an item runs past its chunk", ending(log), "CF-LOG-011")

    log = run(begun())
    log.flush(more=b"\x04\x02\x00\x00\x00ab")
    yield broken("an item of unknown kind", ending(log), "CF-LOG-011")

    log = run(begun())
    log.flush(raw=True)
    log.checkpoint()
    yield Case("chunks that are all raw", log.evidence(), "intact", [])

    log = run(begun())
    log.flush()
    log.blob(b"never cited")
    log.flush()
    log.checkpoint()
    log._fresh = True
    log.blob(b"in a second stream")
    yield Case(
        "two streams, and blobs that nothing cites", ending(log).evidence(), "intact", [], counts={"blobs": 3}
    )

    log = small()
    log.blob(b"x" * 20_000)
    yield Case("a blob whose blocks repeat one byte", ending(log).evidence(), "intact", [])

    log = small()
    log.blob(b"x" * 300_000)
    yield broken("a chunk of more than 1,024 times its bytes", ending(log), "CF-LOG-010")

    log = small()
    log.files[0] += formats.chunk(formats.FIRST, bytes.fromhex(_EMPTY), 10_000)
    yield broken("a chunk of more items than it has bytes", ending(log), "CF-LOG-011")


_EMPTY = "28b52ffd00586c0000280200000000010008077cd102"
"""2,000 times the item of an empty blob, as zstd stores it."""


# -- entries, chain and segments --------------------------------------------------------------------------------------


def entry_cases() -> Iterator[Case]:
    """What is wrong with entries and the chain."""
    content = {"name": "x", "op": "custom", "phase": "point"}
    body = {"content": content, "context": {}, "v": 1}

    def with_entry(make: Callable[[Log], object]) -> Log:
        log = run(begun())
        make(log)
        return ending(log)

    def raw(log: Log, text: bytes) -> str:
        prev = log.prev.encode()
        return log.raw_entry(text.replace(b"INDEX", b"%d" % len(log.leaves)).replace(b"PREV", prev))

    yield broken(
        "an entry with another number", with_entry(lambda log: log.entry(body, index=9)), "CF-LOG-017"
    )
    yield broken(
        "an entry that follows another", with_entry(lambda log: log.entry(body, prev="0" * 64)), "CF-LOG-017"
    )
    yield broken(
        "an entry that is not canonical",
        with_entry(
            lambda log: raw(
                log, b'{"body":{"content":{"op":"custom"},"context":{},"v": 1},"i":INDEX,"prev":"PREV"}'
            )
        ),
        "CF-CANON-018",
    )
    yield broken(
        "an entry with a key twice",
        with_entry(
            lambda log: raw(
                log,
                b'{"body":{"content":{"op":"custom"},"context":{},"v":1},"i":INDEX,"i":INDEX,"prev":"PREV"}',
            )
        ),
        "CF-CANON-012",
    )
    yield broken("an entry that is no JSON", with_entry(lambda log: log.raw_entry(b"{")), "CF-CANON-011")
    yield broken(
        "an entry with a further member",
        with_entry(lambda log: raw(log, jcs({"body": body, "i": 3, "prev": "PREV", "x": 1}))),
        "CF-LOG-021",
    )
    yield broken("an entry that is a list", with_entry(lambda log: log.raw_entry(b"[]")), "CF-LOG-021")
    yield broken(
        "a body that is neither record nor envelope",
        with_entry(lambda log: log.entry({"a": 1})),
        "CF-LOG-021",
    )
    yield broken(
        "a record without op",
        with_entry(lambda log: log.entry({"content": {}, "context": {}, "v": 1})),
        "CF-LOG-021",
    )
    yield Case(
        "a record of a later version",
        with_entry(lambda log: log.entry({"content": content, "context": {}, "v": 2})).evidence(),
        "cannot-tell",
        ["CF-LOG-022"],
    )

    def long(size: int) -> Log:
        empty = len(jcs({"body": {**body, "context": {"x": ""}}, "i": 3, "prev": "0" * 64}))
        return with_entry(lambda log: log.entry({**body, "context": {"x": "x" * (size - empty)}}))

    yield broken("a record of more than 32 KiB", long(65_535), "CF-VERIFY-012")
    yield broken(
        "a record with a float",
        with_entry(lambda log: log.entry({**body, "context": {"x": 0.5}})),
        "CF-VERIFY-012",
    )
    yield broken(
        "a record with a null",
        with_entry(lambda log: log.entry({**body, "context": {"x": None}})),
        "CF-VERIFY-012",
    )
    yield broken("an entry of 65,536 bytes", long(65_536), "CF-LOG-016")


def segment_cases() -> Iterator[Case]:
    """What is wrong with segments and their first entries."""

    def two(second: Callable[[Log], object], *, covered: bool = True) -> Log:
        log = run(begun())
        log.flush()
        if covered:
            log.checkpoint()
        log.segment()
        second(log)
        return ending(log)

    yield Case("two segments", two(lambda log: log.opening()).evidence(), "intact", [], counts={"runs": 1})
    yield broken(
        "a segment opens with a smaller tree",
        two(lambda log: log.opening(tree={"peaks": [], "size": 0})),
        "CF-LOG-018",
    )
    yield broken("a segment opens with another entry", two(run), "CF-LOG-018")
    yield broken("an opening entry inside a segment", ending(opened_twice()), "CF-LOG-018")
    yield broken(
        "a segment without its checkpoint", two(lambda log: log.opening(), covered=False), "CF-LOG-023"
    )
    for number, name in enumerate(("first", "middle")):
        log = two(lambda log: log.opening())
        log.segment()
        log.opening()
        files = ending(log).evidence()
        del files[f"{LOG}/{number:08d}.seg"]
        yield Case(f"the {name} segment is gone", files, "broken", ["CF-LOG-012"])

    def stopped(**changes: Any) -> Log:
        log = run(begun())
        log.checkpoint()
        log.start("invoke_workflow", "team", "2" * 32, context={"run": "2" * 32})
        log.flush()
        good = len(log.files[0])
        log.files[0] += b"\x01\x00\x00\x00torn"
        log.segment()
        log.recovered(0, good, **changes)
        log.session(tree=False)
        return ending(log)

    incomplete = "incomplete"
    yield Case(
        "an unclean stop, recovered",
        stopped().evidence(),
        incomplete,
        ["CF-VERIFY-020", "CF-VERIFY-025"],
        counts={"open": 1},
    )
    yield broken(
        "a recovered segment changed", changed(stopped(), (len(stopped().files[0]) - 1, b"x")), "CF-LOG-015"
    )
    yield broken("a recovery entry without size", stopped(size=None), "CF-LOG-015")
    log = stopped()
    del log.files[0][-1]
    yield broken("a recovered segment is shorter now", log, "CF-LOG-015")

    def taken_back(**note: Any) -> Log:
        log = run(begun())
        log.checkpoint()
        good, leaves, prev = len(log.files[0]), list(log.leaves), log.prev
        for _ in range(2):
            log.record({"name": "n", "op": "custom", "phase": "point"}, {"at": log.now()})
            log.checkpoint(**note)
        log.files[0] += b"torn"
        log.leaves, log.prev = leaves, prev
        log.segment()
        log.recovered(0, good)
        log.session(tree=False)
        return ending(log)

    yield Case(
        "signed checkpoints behind what was recovered",
        taken_back().evidence(),
        incomplete,
        ["CF-VERIFY-020", "CF-VERIFY-026"],
    )
    yield Case(
        "checkpoints of a stranger behind what was recovered",
        taken_back(key=STRANGER).evidence(),
        incomplete,
        ["CF-VERIFY-020"],
    )
    yield Case(
        "a checkpoint of what counts behind what was recovered",
        taken_back(size=4).evidence(),
        incomplete,
        ["CF-VERIFY-020"],
    )

    log = run(begun())
    log.flush()
    log.segment()
    log.files[1] += b"\x01"
    yield Case(
        "a stop while a segment was begun", log.evidence(), incomplete, ["CF-VERIFY-024"], counts={"tail": 3}
    )


def opened_twice() -> Log:
    """An opening entry where none may stand."""
    log = begun()
    log.opening()
    return log


# -- checkpoints and the tail -----------------------------------------------------------------------------------------


def checkpoint_cases() -> Iterator[Case]:
    """What is wrong with checkpoints, and what stands behind the last."""

    def noted(**changes: Any) -> Log:
        log = run(begun())
        log.checkpoint(**changes)
        return log

    yield Case("the smallest log", noted().evidence(), "intact", [], counts={"records": 4, "runs": 1})
    yield broken("a checkpoint with another root", noted(root=bytes(32)), "CF-VERIFY-050")
    yield broken("a checkpoint with another size", noted(size=3), "CF-VERIFY-050")
    yield broken("a checkpoint signed by a stranger", noted(key=STRANGER), "CF-NOTE-011")
    other = f"{IDENTITY.keyid}/{OTHER}"
    yield broken("a checkpoint of another log", noted(origin=other), "CF-NOTE-011")
    yield broken(
        "a checkpoint of another log under this log's name",
        noted(origin=other, name=f"{IDENTITY.keyid}/{LOG}"),
        "CF-NOTE-021",
    )
    right = noted().checkpoints[0]["note"]
    wrong = right[:-20] + ("A" if right[-20] != "A" else "B") + right[-19:]
    yield broken("a checkpoint with a changed signature", noted(text=wrong.encode()), "CF-NOTE-012")
    line = right.rpartition("\n\n")[2]
    yield broken("a checkpoint with two signatures", noted(text=(right + line).encode()), "CF-NOTE-021")
    yield broken("a checkpoint that is no note", noted(text=b"4\n"), "CF-NOTE-003")

    log = run(begun())
    log.flush()
    log.note()
    yield broken("a note without `stored`", log, "CF-LOG-014")
    log = run(begun())
    log.flush()
    log.stored()
    run(log)
    yield broken("an entry between `stored` and the note", ending(log), "CF-LOG-014")
    log = run(begun())
    log.flush()
    log.stored(raw=False)
    log.note()
    yield broken("`stored` in a compressed chunk", log, "CF-VERIFY-051")
    log = run(begun())
    log.flush()
    log.stored(segment=1)
    log.note()
    yield broken("`stored` names another segment", log, "CF-VERIFY-051")

    tail = "incomplete", ["CF-VERIFY-024"]
    yield Case("no checkpoint yet", flushed(run(begun())).evidence(), *tail, counts={"tail": 3})
    log = small()
    run(log)
    yield Case("entries behind the last checkpoint", flushed(log).evidence(), *tail, counts={"tail": 2})
    log = small()
    log.stored()
    yield Case("`stored` without its note at the end", log.evidence(), *tail, counts={"tail": 1})
    log = small()
    log.files[0] += bytes(7)
    yield Case("bytes that are no chunk at the end", log.evidence(), *tail)
    log = small()
    del log.files[0][-1]
    yield Case("the last note is cut", log.evidence(), *tail, counts={"tail": 4})
    log = small()
    size = len(log.files[0])
    run(log)
    log.checkpoint()
    log.files[0][size : size + 200] = bytes(200)
    yield Case("zeros, and a checkpoint behind them", log.evidence(), *tail)
    log = small()
    run(log)
    log.checkpoint()
    changed(log, (size, b"\x07"))
    yield broken("damage, and a checkpoint behind it", log, "CF-LOG-010")

    def holed(start: int, length: int) -> Log:
        """A group of some blocks, whole but for zeros; ``start`` counts from the first border in it."""
        log = small()
        group = len(log.files[0])
        log.blob(b"".join(bytes.fromhex(sha256(bytes([number]))) for number in range(64)))
        log.flush(raw=True)
        log.checkpoint()
        at = -(-group // 512) * 512 + start
        log.files[0][at : at + length] = bytes(length)
        return log

    yield Case(
        "a block of zeros inside a chunk, and a checkpoint behind it", holed(512, 512).evidence(), *tail
    )
    yield broken("half a block of zeros, and a checkpoint behind it", holed(512, 256), "CF-LOG-010")
    yield broken("a block's length of zeros that is no block", holed(600, 512), "CF-LOG-010")

    def placed(before: int, *, raw: bool, kind: str) -> Log:
        """A chunk that begins so many bytes before a border, damaged as ``kind`` says, a block of zeros behind it."""
        log = small()
        end = len(log.files[0]) + 16 + 5
        log.blob(bytes([1]) * (-(end + before) % 512))
        log.flush(raw=True)
        at = len(log.files[0])
        assert -at % 512 == before
        for number in range(3):
            log.blob(b"".join(bytes.fromhex(sha256(bytes([number, n]))) for n in range(40)))
            log.flush(raw=raw)
        log.checkpoint()
        file = log.files[0]
        if kind == "lost":
            file[at : at + before] = bytes(before)
        elif kind == "lost next":
            file[at + before : at + before + 512] = bytes(512)
        else:
            place = at + {"changed": 100, "header": 4}[kind]
            file[place] ^= 1
            if kind == "header":
                file[at + 1] = 1
            border = -(-(at + 1500) // 512) * 512
            file[border : border + 512] = bytes(512)  # of the next chunk
        return log

    for before in (1, 4, 5, 9, 15, 16, 300):
        for raw in (False, True):
            name = f"{before} bytes of a {'raw' if raw else 'compressed'} chunk that were not written again"
            if raw and before <= 4:
                continue  # nothing is lost: they are zeros
            yield Case(name, placed(before, raw=raw, kind="lost").evidence(), *tail)
    yield Case(
        "a block inside a header that was not written",
        placed(9, raw=True, kind="lost next").evidence(),
        *tail,
    )
    yield broken(
        "damage in a raw chunk that begins before a border", placed(4, raw=True, kind="changed"), "CF-LOG-010"
    )
    yield broken(
        "damage, and a lost block behind its chunk", placed(40, raw=True, kind="changed"), "CF-LOG-010"
    )
    yield broken("no header, and a lost block behind it", placed(40, raw=True, kind="header"), "CF-LOG-010")

    def early(first: bytes | None) -> Log:
        """A first segment without a checkpoint (whole, or these bytes), and a second process that goes on."""
        log = run(begun()) if first is None else Log()
        if first is None:
            log.flush()
        else:
            log.segment()
            log.files[0] += first
        good = len(log.files[0]) if first is None else 0
        log.segment()
        log.recovered(0, good)
        log.session(tree=False)
        if first is not None:
            run(log)
        return ending(log)

    early_end = "incomplete", ["CF-VERIFY-020"]
    for name, first in (
        ("its first checkpoint", None),
        ("its first chunk", b"\x01\0\0"),
        ("its first byte", b""),
    ):
        found = early(first).evidence()
        yield Case(f"killed before {name}, and gone on with", found, *early_end, counts={"runs": 1})
