"""Logs that were taken to an archive: what stays, what went, and words that excuse nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from making import formats
from making.cases import Case, begun, broken, ending, run
from making.formats import Key, jcs, sha256
from making.logs import IDENTITY, LOG, OTHER, PEER, RUN, STRANGER, Log

PLACE = "/archive"


def went(*, word: bool = True, after: bool = False, covered: bool = True, cites: bool = True) -> Log:
    """A log of two segments that cites `LOG`, and ends with the word that it is apart."""
    log = Log(OTHER)
    log.segment()
    log.at += 5_000_000
    log.session()
    ending(run(log))
    log.segment()
    note = ending(begun()).checkpoints[-1]["note"].encode()
    seen = {"seen": [{"log": LOG, "note": log.blob(note)}]} if cites else {}
    log.session(closes=True, **seen)
    if word and covered:
        log.record({"op": "archived", "phase": "point"}, {"at": log.now()})
    log.record({"op": "closed", "phase": "point"}, {"at": log.now()})
    log.checkpoint()
    if word and not covered:
        log.record({"op": "archived", "phase": "point"}, {"at": log.now()})
        log.flush()
    if after:
        log.segment()
        log.session()
        log.checkpoint()
    return log


def listed(log: Log, **changes: Any) -> list[dict[str, Any]]:
    """The list of a log: `checkpoints`, `segments`, `runs` replace a part."""
    parts: dict[str, Any] = {
        "checkpoints": [{"root": one["root"], "size": one["size"]} for one in log.checkpoints],
        "segments": [{"sha256": sha256(bytes(data)), "size": len(data)} for data in log.files],
        "runs": [{"run": RUN}],
    }
    parts |= changes
    return [*parts["checkpoints"], *parts["segments"], *parts["runs"]]


def predicate(log: Log, text: bytes, issued: int) -> dict[str, Any]:
    """What is said of a log."""
    last = log.checkpoints[-1]
    return {
        "bytes": sum(map(len, log.files)),
        "first": 1_790_000_000_000,
        "issued": issued,
        "last": 1_790_000_005_000,
        "log": {"origin": log.origin, "root": last["root"], "size": last["size"]},
        "manifest": {"sha256": sha256(text), "size": len(text)},
        "place": PLACE,
        "runs": 1,
        "verdict": "intact",
    }


def says(
    stays: Log,
    of: Log,
    *,
    by: Key | None = None,
    text: bytes | None = None,
    stored: bool = True,
    **changes: Any,
) -> None:
    """Append the statement, and its list before it."""
    text = jcs(listed(of)) if text is None else text
    if stored:
        stays.blob(text)
    said = predicate(of, text, stays.now() // 1000) | changes
    subject = {"digest": {"sha256": said["manifest"]["sha256"]}, "name": said["log"]["origin"]}
    stays.sign(formats.statement("archive", subject, said), stays.key if by is None else by)


def staying(gone: Log | None, *, size: int = -1, note: bytes | None = None) -> Log:
    """A log that cites one that went, by its checkpoint of that number."""
    log = Log()
    log.segment()
    if gone is not None:
        note = gone.checkpoints[size]["note"].encode() if note is None else note
        log.session(seen=[{"log": gone.name, "note": log.blob(note)}])
    else:
        log.session()
    return log


def archived_cases() -> Iterator[Case]:
    """Everything that archiving leaves, and what it must not excuse."""
    yield from _excused()
    yield from _apart()
    yield from _left()
    yield from _false()


def _excused() -> Iterator[Case]:
    gone, note = went(), ["CF-VERIFY-072"]
    for size, name in ((-1, "the last checkpoint"), (0, "an earlier checkpoint")):
        log = staying(gone, size=size)
        says(log, gone)
        yield Case(f"an archived log, cited by {name}", ending(log).evidence(), "intact", [], notes=note)
    log = staying(gone)
    says(log, gone, retain=1_900_000_000_000, ext={"why": "old"})
    yield Case("an archived log that is to be kept", ending(log).evidence(), "intact", [], notes=note)
    log = staying(None)
    says(log, gone)
    whole = ending(log).evidence()
    yield Case("an archived log that nobody cites", whole, "intact", [], notes=note)
    yield Case(
        "an archived log that is remembered", whole, "intact", [], notes=note, heads=[gone.head(evidence=".")]
    )
    first = gone.checkpoints[0]
    head = gone.head(evidence=".", size=first["size"], root=first["root"])
    yield Case("an archived log, an earlier head remembered", whole, "intact", [], notes=note, heads=[head])
    longer = gone.head(evidence=".", size=gone.checkpoints[-1]["size"] + 1)
    yield Case(
        "an archived log, a longer one remembered",
        whole,
        "broken",
        ["CF-VERIFY-003"],
        notes=note,
        heads=[longer],
    )
    other = gone.head(evidence=".", root="0" * 64)
    yield Case(
        "an archived log, another history remembered",
        whole,
        "broken",
        ["CF-VERIFY-003"],
        notes=note,
        heads=[other],
    )
    rewritten = ending(begun(Log(OTHER), pid=1)).checkpoints[-1]["note"].encode()
    log = staying(gone, note=rewritten)
    says(log, gone)
    yield Case(
        "an archived log, cited by another history",
        ending(log).evidence(),
        "broken",
        ["CF-VERIFY-005"],
        notes=note,
    )
    log = staying(gone)
    says(log, gone)
    says(log, gone, place="/elsewhere")
    yield Case("an archived log that was moved on", ending(log).evidence(), "intact", [], notes=note)
    short = Log(OTHER)
    short.files, short.checkpoints = [gone.files[0]], gone.checkpoints[:1]
    log = staying(gone)
    says(log, gone)
    says(log, short)
    yield Case("an archived log, and a word of less of it", ending(log).evidence(), "intact", [], notes=note)
    log = staying(gone)
    says(log, short)
    yield Case(
        "a log of which less was archived", ending(log).evidence(), "broken", ["CF-VERIFY-005"], notes=note
    )
    third = went()
    third.name, third.origin = "00000000000000c3", f"{IDENTITY.keyid}/00000000000000c3"
    log = staying(gone)
    says(log, gone, place="/b")
    says(log, third, place="/a")
    yield Case("logs archived in two places", ending(log).evidence(), "intact", [], notes=note * 2)


def _apart() -> Iterator[Case]:
    gone = "CF-VERIFY-004"
    yield Case("an archive alone", went().evidence(), "intact", [], counts={"logs": 1})
    yield broken("a log that cites another, without the word", went(word=False), gone)
    yield broken("a log that went on after the word", went(after=True), gone)
    yield Case(
        "a log with the word behind its last checkpoint",
        went(covered=False).evidence(),
        "broken",
        ["CF-VERIFY-024", gone],
    )
    one = went(cites=False)
    second = ending(begun(Log("00000000000000c3")))
    heads = [one.head(evidence="there"), second.head()]
    there = {"files": {".gitignore": b"*\n"}}
    yield Case(
        "a log that was brought into an archive", one.evidence(second), "intact", [], heads=heads, there=there
    )


def _left() -> Iterator[Case]:
    gone = went(cites=False)
    log = staying(gone)
    says(log, gone)
    stays = ending(log)
    whole = stays.evidence(gone)
    first, last = (f"{OTHER}/{number:08d}.seg" for number in range(2))
    yield Case("an archived log that is still here", whole, "intact", [], counts={"logs": 2})
    for name, left in (("the first", first), ("the last", last)):
        files = {path: data for path, data in whole.items() if not path.startswith(OTHER) or path == left}
        yield Case(
            f"{name} segment of an archived log is left",
            files,
            "incomplete",
            ["CF-VERIFY-071"],
            counts={"logs": 1},
            notes=["CF-VERIFY-072"],
        )
    yield Case(
        "an empty folder of an archived log is left",
        stays.evidence(),
        "incomplete",
        ["CF-VERIFY-071"],
        folders=[OTHER],
        notes=["CF-VERIFY-072"],
    )
    changed = {path: data for path, data in whole.items() if path != last}
    changed[first] = changed[first][:-1] + bytes([changed[first][-1] ^ 1])
    yield Case(
        "a changed segment of an archived log is left",
        changed,
        "broken",
        ["CF-VERIFY-024", "CF-VERIFY-005", "CF-VERIFY-005"],
    )
    other = ending(begun(Log(OTHER), pid=1))
    yield Case(
        "another history of an archived log is here",
        stays.evidence(other),
        "broken",
        ["CF-VERIFY-005", "CF-VERIFY-005"],
    )


def _false() -> Iterator[Case]:
    gone = went()
    no, missing = "CF-VERIFY-070", "CF-VERIFY-004"

    def case(name: str, *codes: str, **how: Any) -> Case:
        made = staying(gone)
        head = how.pop("head", None)
        says(made, gone, **how, **({} if head is None else {"log": head}))
        return broken(name, ending(made), *codes)

    yield case("an archive statement by a stranger", "CF-DSSE-010", missing, by=STRANGER)
    yield case("an archive statement by a pinned peer", no, missing, by=PEER)
    yield case("an archive statement without its list", no, missing, stored=False)
    last = gone.checkpoints[-1]
    peers = {"origin": f"{PEER.keyid}/{OTHER}", "root": last["root"], "size": last["size"]}
    yield case("an archive statement for a peer's log", no, missing, head=peers)
    own = {"origin": f"{IDENTITY.keyid}/{LOG}", "root": last["root"], "size": last["size"]}
    yield case("an archive statement for its own log", no, missing, head=own)
    odd = {"origin": f"{IDENTITY.keyid}/b2", "root": last["root"], "size": last["size"]}
    yield case("an archive statement for no log's name", no, missing, head=odd)
    more = {"origin": gone.origin, "root": last["root"], "size": last["size"] + 1}
    yield case("an archive statement that tells more than its list", no, missing, head=more)
    less = {"origin": gone.origin, **{name: gone.checkpoints[0][name] for name in ("root", "size")}}
    yield case("an archive statement that tells less than its list", no, missing, head=less)
    first = gone.checkpoints[0]
    head = {"root": first["root"], "size": first["size"]}
    wrong: list[tuple[str, bytes]] = [
        ("no JSON", b"[{"),
        ("not canonical", jcs(listed(gone)) + b"\n"),
        ("an object", jcs({"segments": []})),
        ("empty", b"[]"),
        ("without segments", jcs(listed(gone, segments=[], runs=[]))),
        ("without checkpoints", jcs(listed(gone, checkpoints=[]))),
        ("with a checkpoint twice", jcs([head, *listed(gone)])),
        ("with a checkpoint of no entries", jcs([{"root": "0" * 64, "size": 0}, *listed(gone)])),
        ("with a run before the segments", jcs([{"run": "0"}, *listed(gone)])),
        ("with a segment behind the runs", jcs([*listed(gone), {"sha256": "0" * 64, "size": 1}])),
        ("with a run twice", jcs([*listed(gone), {"run": RUN}])),
        ("with runs in another order", jcs([*listed(gone), {"run": "0"}])),
        ("with an empty run", jcs(listed(gone, runs=[{"run": ""}]))),
        ("with a run of 65 characters", jcs(listed(gone, runs=[{"run": "x" * 65}]))),
        ("with a digest in capitals", jcs(listed(gone, segments=[{"sha256": "A" * 64, "size": 1}]))),
        ("with a size as a text", jcs(listed(gone, segments=[{"sha256": "0" * 64, "size": "1"}]))),
        ("with a member more", jcs(listed(gone, segments=[{"sha256": "0" * 64, "size": 1, "x": 1}]))),
        ("with a text", jcs([*listed(gone), "x"])),
    ]
    for name, text in wrong:
        yield case(f"an archive statement whose list is {name}", no, missing, text=text)
    log = staying(gone)
    text = jcs(listed(gone))
    log.blob(text)
    said = predicate(gone, text, log.now() // 1000)
    named = {"digest": {"sha256": "0" * 64}, "name": gone.origin}
    log.sign(formats.statement("archive", named, said), IDENTITY)
    yield broken("an archive statement about another subject", ending(log), "CF-STMT-005", missing)
    stranger = Log("00000000000000c3", STRANGER)
    stranger.segment()
    stranger.session()
    says(stranger, gone)
    yield Case(
        "an archive statement in a stranger's log",
        ending(staying(gone)).evidence(ending(stranger)),
        "broken",
        ["CF-VERIFY-032", no, missing],
    )
