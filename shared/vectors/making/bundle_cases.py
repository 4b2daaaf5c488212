"""Bundles that are right or wrong in one way each, and what a verifier says of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from making import bundle_runs, bundle_streams, bundles, formats
from making.bundle_cuts import ASKED, Lines, cuts, granted, payload_of, spelled, two_logs, whole
from making.bundles import gap, gap_sizes, head, lines, reached, section
from making.cases import begun, ending, run
from making.formats import b64, jcs, sha256
from making.log_complete import RUN2, accepted, complete, received
from making.log_statements import bound, handoff
from making.log_trust import accepting
from making.logs import IDENTITY, KEYS, LOG, OTHER, PEER, RUN, STRANGER, Log


@dataclass
class Case:
    """A bundle and what is said of it; ``where`` of the first finding is a line for faults of form and content."""

    name: str
    data: bytes
    verdict: str
    findings: list[str]
    keyring: tuple[str, ...] = ("identity", "peer")
    heads: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    where: str = ""

    def to_json(self) -> dict[str, Any]:
        """As it stands in the vectors."""
        out: dict[str, Any] = {
            "findings": self.findings,
            "keyring": list(self.keyring),
            "name": self.name,
            "verdict": self.verdict,
        }
        try:
            out["bundle"] = bundles.packed(self.data.decode())
        except UnicodeDecodeError:
            out["base64"] = b64(self.data)
        for name in ("heads", "notes", "where"):
            if getattr(self, name):
                out[name] = getattr(self, name)
        return out


def edited(found: Lines, edit: Callable[[dict[str, Any]], object], number: int) -> bytes:
    """The bundle with one line's members changed; lines are counted from 1."""
    value = json.loads(found[number - 1])
    edit(value)
    return bundles.text([*found[: number - 1], jcs(value), *found[number:]])


def put(**members: Any) -> Callable[[dict[str, Any]], object]:
    """An edit that sets members."""
    return lambda value: value.update(members)


def recounted(found: Lines, size: int) -> Lines:
    """The lines with contents that tell of one blob of a size."""
    contents = json.loads(found[1])
    contents["counts"] |= {"blobs": 1, "bytes": size}
    return [found[0], jcs(contents), *found[2:]]


def cases() -> Iterator[Case]:
    """Every fault of form and of content, and the judgements that differ from those of a log."""
    log = run(begun())
    log.checkpoint()
    small = whole(log, (0, 1, 2), (0, 1, 2))  # 1 first, 2 contents, 3 log, 4 to 6 entries, 7 gap, 8 blob
    assert len(small) == 8
    yield from _form(log, small)
    yield from _content(log, small)
    yield from _judgement(log, small)
    yield from (Case(*one) for one in (*bundle_runs.wrong(), *bundle_streams.judged()))


def _form(log: Log, small: Lines) -> Iterator[Case]:
    def fault(name: str, code: str, data: bytes, where: str) -> Case:
        return Case(name, data, "broken", [code], where=where)

    text = bundles.text
    later = [b'{"counterfoil":"bundle","v":2}', b"whatever"]
    yield Case("a later version", text(later), "cannot-tell", ["CF-BUNDLE-001"], where="line 1")
    for version in (0, 2, -1, 2**53 - 1):
        other = edited(small, put(v=version), 1)
        yield Case(f"v is {version}", other, "cannot-tell", ["CF-BUNDLE-001"], where="line 1")
    for value in (None, "", "1", "x", True, 1.5, [], {}):
        yield fault(f"v is {jcs(value).decode()}", "CF-BUNDLE-003", edited(small, put(v=value), 1), "line 1")
    yield fault(
        "v with a space", "CF-BUNDLE-002", text([b'{"counterfoil":"bundle","v": 1}', *small[1:]]), "line 1"
    )
    for number, name, values in (
        (3, "spki", (None, 1, True, [], {})),
        (3, "note", (None, 1, [], "")),
        (4, "prev", (None, 1, [], "", "0", "A" * 64, "0" * 63 + "g")),
        (5, "i", (None, -1, 1.5, "1", True)),
        (7, "count", (None, -1, 1.5, "1", True)),
        (7, "hashes", (None, 1, {}, [1], ["0"], ["A" * 64])),
    ):
        for value in values:
            wrong = edited(small, put(**{name: value}), number)
            yield fault(f"{name} is {jcs(value).decode()}", "CF-BUNDLE-003", wrong, f"line {number}")
    for value in (None, 1, {}):
        wrong = text([*small, jcs({"kind": "key", "spki": value})])
        yield fault(f"a key's spki is {jcs(value).decode()}", "CF-BUNDLE-003", wrong, "line 9")
    signed = json.loads(small[2])["note"]
    for name, origin in (
        ("another log", log.origin[:-16] + "f" * 15),
        ("another key", "0" * 64 + log.origin[64:]),
        ("upper case", log.origin.upper()),
        ("a text", "x"),
    ):
        renamed = signed.replace(log.origin, origin, 1)
        yield fault(f"the origin is {name}", "CF-BUNDLE-013", edited(small, put(note=renamed), 3), "line 3")
    yield fault("the note is its origin", "CF-NOTE-003", edited(small, put(note=log.origin), 3), "line 3")
    resized = signed.replace("\n4\n", "\nfour\n", 1)
    yield fault("a size that is none, unsigned", "CF-NOTE-012", edited(small, put(note=resized), 3), "line 3")
    unnamed = signed.replace(log.origin, "", 1)
    yield fault("the note has no origin", "CF-BUNDLE-003", edited(small, put(note=unnamed), 3), "line 3")
    first = [b'{"counterfoil":"bundle","v":1,"w":1}', *small[1:]]
    yield fault("a first line with more", "CF-BUNDLE-003", text(first), "line 1")
    yield fault("nothing but the first line", "CF-BUNDLE-002", text(small[:1]), "line 1")
    yield fault("no newline at the end", "CF-BUNDLE-002", text(small)[:-1], "line 8")
    yield fault("an empty line", "CF-BUNDLE-002", text([*small, b""]), "line 9")
    yield fault("a line of more than 1 MiB", "CF-BUNDLE-002", text([*small, b"[" * (1 << 20)]), "line 9")
    spaced = [*small[:6], small[6].replace(b":", b": ", 1), small[7]]
    yield fault("a line with a space", "CF-BUNDLE-002", text(spaced), "line 7")
    yield fault("bytes that are no UTF-8", "CF-BUNDLE-002", text([*small[:7], b'"\xff"']), "line 8")
    yield fault("an array", "CF-BUNDLE-003", text([*small, b"[]"]), "line 9")
    yield fault("an unknown kind", "CF-BUNDLE-003", text([*small, b'{"kind":"entry"}']), "line 9")
    yield fault("a member more", "CF-BUNDLE-003", edited(small, put(more=1), 7), "line 7")
    yield fault("asked for nothing", "CF-BUNDLE-003", edited(small, put(asked={}), 2), "line 2")
    yield fault(
        "asked for two things",
        "CF-BUNDLE-003",
        edited(small, put(asked=ASKED | {"handoff": "0" * 64}), 2),
        "line 2",
    )
    yield fault(
        "a handoff that is no digest",
        "CF-BUNDLE-003",
        edited(small, put(asked={"handoff": "0"}), 2),
        "line 2",
    )
    huge = json.loads(small[1])["counts"] | {"entries": 1 << 24}
    yield fault(
        "more entries than the file has bytes", "CF-BUNDLE-004", edited(small, put(counts=huge), 2), "line 2"
    )
    for name, place in (("entries", 6), ("blobs", 8), ("bytes", 8), ("logs", 3)):
        counts = json.loads(small[1])["counts"]
        less = counts | {name: counts[name] - 1}
        more = counts | {name: counts[name] + 1}
        yield fault(
            f"one too many {name}", "CF-BUNDLE-005", edited(small, put(counts=less), 2), f"line {place}"
        )
        yield fault(f"one too few {name}", "CF-BUNDLE-005", edited(small, put(counts=more), 2), "line 8")
    swapped = [*small[:3], small[4], small[3], *small[5:]]
    yield fault("two entries in another order", "CF-BUNDLE-010", text(swapped), "line 4")
    yield fault("an entry less", "CF-BUNDLE-010", text([*small[:4], *small[5:]]), "line 5")
    yield fault("an entry twice", "CF-BUNDLE-010", text([*small[:4], *small[3:]]), "line 5")
    late = {"body": {"content": {"op": "custom"}, "context": {}, "v": 2}, "i": 1}
    changed = edited(small, put(**late), 5)
    yield fault("an entry that was changed", "CF-BUNDLE-010", changed, "line 6")
    yield fault("an entry of no form", "CF-LOG-021", edited(small, put(body={}), 6), "line 6")
    last = json.loads(small[5])["body"]
    last["content"]["status"] = "error"
    yield fault("the last entry changed", "CF-BUNDLE-012", edited(small, put(body=last), 6), "lines 3 to 7")
    yield fault("a gap of more", "CF-BUNDLE-011", edited(small, put(count=2), 7), "line 7")
    none = edited(small, put(hashes=[]), 7)
    yield fault("a gap without hashes", "CF-BUNDLE-011", none, "line 7")
    other = edited(small, put(hashes=["0" * 64]), 7)
    yield fault("a gap of another hash", "CF-BUNDLE-012", other, "lines 3 to 7")
    yield fault("a gap of nothing", "CF-BUNDLE-003", edited(small, put(count=0, hashes=[]), 7), "line 7")
    yield fault("the gap left out", "CF-BUNDLE-011", text([*small[:6], small[7]]), "lines 3 to 6")
    split = [*small[:3], gap(log, 0, 1), gap(log, 1, 2), *small[5:]]
    yield fault("a gap behind a gap", "CF-BUNDLE-003", text(split), "line 5")
    bare = [*small[:3], gap(log, 0, 4), small[7]]
    yield fault("a log without an entry", "CF-BUNDLE-003", text(bare), "lines 3 to 4")
    bare = [*small[:3], small[7]]
    yield fault("a log without an entry or gap", "CF-BUNDLE-003", text(bare), "lines 3 to 3")
    piece = bundles.blob(b"x" * 131_073)
    other = [*small[:7], piece[0], piece[1].replace(b'"x"', b'"y"')]
    yield fault(
        "a blob of two lines, of other bytes", "CF-BUNDLE-014", text(recounted(other, 131_073)), "line 9"
    )
    wrong = jcs({"kind": "head", "root": "0" * 64, "size": 2})
    yield fault("a head of another root", "CF-BUNDLE-012", text([*small[:5], wrong, *small[5:]]), "line 6")
    yield fault(
        "a head of another place", "CF-BUNDLE-003", text([*small[:4], head(log, 2), *small[4:]]), "line 5"
    )
    twice = [*small[:5], head(log, 2), head(log, 2), *small[5:]]
    yield fault("a head twice", "CF-BUNDLE-003", text(twice), "line 7")
    yield fault("a head at the end", "CF-BUNDLE-003", text([*small[:7], head(log, 4), small[7]]), "line 8")
    spki = edited(small, put(spki=b64(PEER.spki)), 3)
    yield fault("another key than the origin's", "CF-BUNDLE-013", spki, "line 3")
    yield fault("no key", "CF-BUNDLE-013", edited(small, put(spki="AA=="), 3), "line 3")
    forged = formats.note(log.origin, 4, formats.root(log.leaves), STRANGER).decode()
    yield fault("a note that another key signed", "CF-NOTE-011", edited(small, put(note=forged), 3), "line 3")
    note = log.checkpoints[-1]["note"]
    flipped = note[:-6] + ("A" if note[-6] != "A" else "B") + note[-5:]
    yield fault(
        "a note whose signature was changed", "CF-NOTE-012", edited(small, put(note=flipped), 3), "line 3"
    )
    yield fault(
        "a note with an extension", "CF-NOTE-021", edited(small, put(note=_extended(log)), 3), "line 3"
    )
    doubled = [*small[:7], *small[2:7], small[7]]
    yield fault("a log twice", "CF-BUNDLE-003", text(doubled), "line 8")
    yield fault(
        "a blob before the logs", "CF-BUNDLE-003", text([*small[:2], small[7], *small[2:7]]), "line 4"
    )
    yield fault("a blob twice", "CF-BUNDLE-003", text([*small, small[7]]), "line 9")
    about = json.loads(small[7])["text"]
    yield fault(
        "a blob of other bytes", "CF-BUNDLE-014", edited(small, put(text=about[:-1] + "]"), 8), "line 8"
    )
    yield fault("a blob that is too short", "CF-BUNDLE-014", edited(small, put(text=about[:-1]), 8), "line 8")
    yield fault("a blob that is too long", "CF-BUNDLE-014", edited(small, put(text=about + " "), 8), "line 8")
    as_bytes = {
        "base64": b64(about.encode()),
        "kind": "blob",
        "sha256": sha256(about.encode()),
        "size": len(about),
    }
    yield fault("a text as base64", "CF-BUNDLE-014", text([*small[:7], jcs(as_bytes)]), "line 8")
    parts = [edited(small, put(text=about[:9]), 8)[:-1], jcs({"kind": "more", "text": about[9:]})]
    yield fault("a blob in more lines than it needs", "CF-BUNDLE-014", text(parts), "line 9")
    yield fault(
        "a line of a blob alone", "CF-BUNDLE-003", text([*small, jcs({"kind": "more", "text": ""})]), "line 9"
    )
    yield fault(
        "a key that is none", "CF-BUNDLE-013", text([*small, jcs({"kind": "key", "spki": "AA=="})]), "line 9"
    )
    yield fault(
        "an absent that is no digest",
        "CF-BUNDLE-003",
        text([*small, jcs({"digest": "0", "kind": "absent"})]),
        "line 9",
    )


def _extended(log: Log) -> str:
    signed = f"{log.origin}\n4\n{b64(formats.root(log.leaves))}\nmore\n"
    key_id = formats.hashlib.sha256(log.origin.encode() + b"\n\x01" + log.key.raw).digest()[:4]
    signature = b64(key_id + log.key.sign(signed.encode()))
    return f"{signed}\n\u2014 {log.origin} {signature}\n"


def _content(log: Log, small: Lines) -> Iterator[Case]:
    def fault(name: str, code: str, found: Lines, where: str = "") -> Case:
        return Case(name, bundles.text(found), "broken", [code], where=where)

    yield fault(
        "another run was asked for",
        "CF-BUNDLE-020",
        whole(log, range(3), range(3), asked={"run": RUN2}),
        "line 2",
    )
    yield fault("a handoff was asked for, a record given", "CF-BUNDLE-020", _of_record(log), "line 2")
    yield fault("no session", "CF-BUNDLE-022", whole(log, (1, 2), (1, 2)), "line 5")
    extra = whole(log, range(4), range(3))
    yield fault("an entry that nothing cites", "CF-BUNDLE-021", extra, "line 7")
    log, _ = complete()
    envelope = next(index for index, one in enumerate(log.entries) if '"pid":4343' in one["text"]) + 1
    second = [index for index, one in enumerate(log.entries) if RUN2 in one["text"]]
    slipped = whole(log, [0, *second, envelope], [0, *second], asked={"run": RUN2})
    yield fault("an envelope that nothing cites", "CF-BUNDLE-021", slipped)
    log = begun()
    run(log)
    log.checkpoint()
    start = [*whole(log, range(3), range(3))]
    with_head = [*start[:5], head(log, 2), *start[5:]]
    yield fault("a head that nothing cites", "CF-BUNDLE-021", with_head, "line 6")
    log.blobs[sha256(b"free")] = b"free"
    blobs = reached(log, range(3)) | {sha256(b"free"): b"free"}
    yield fault("a blob that nothing cites", "CF-BUNDLE-021", lines(ASKED, [section(log, range(3))], blobs))
    other = spelled(formats.TEXT)
    shown = (0, 3, 4)
    blobs = reached(other, shown) | {sha256(b"Secret."): b"Secret."}
    pulled = lines(ASKED, [section(other, shown)], blobs)
    yield fault("a blob that nothing but a text cites", "CF-BUNDLE-021", pulled)
    nothing = lines(ASKED, [section(log, range(3))], reached(log, range(3)), absent=["0" * 64])
    yield fault("an absent digest that nothing cites", "CF-BUNDLE-021", nothing, "line 9")
    unnamed = lines(ASKED, [section(log, range(3))], reached(log, range(3)), keys=[PEER])
    yield fault("a key that nothing names", "CF-BUNDLE-021", unnamed, "line 9")
    identity = lines(ASKED, [section(log, range(3))], reached(log, range(3)), keys=[IDENTITY])
    yield fault("a log's identity among the keys", "CF-BUNDLE-021", identity, "line 9")
    log, _, digest = two_logs()
    ours = (0, 4, 5)
    asked = {"handoff": digest}
    parent = json.loads(payload_of(log.entries[4]["text"]))["predicate"]["parents"][0]["digest"]
    log, sender, digest = two_logs()
    theirs = _indices(sender, log)
    for mine, others in (((2, 4), ()), ((), (2, 3))):
        sections = [section(log, ours, mine), section(sender, theirs, others)]
        sections.sort(key=lambda one: str(json.loads(one[0])["note"]))
        both = lines(asked, sections, reached(log, ours) | reached(sender, theirs))
        name = f"a head too many in one log, one missing in the other: {len(mine)}, {len(others)}"
        yield fault(name, "CF-BUNDLE-022", both)
    headless = lines(asked, [section(log, ours)], reached(log, ours), absent=[parent])
    yield fault("a cited head without its line", "CF-BUNDLE-022", headless, "line 3")
    silent = lines(asked, [section(log, ours, [4])], reached(log, ours))
    yield fault("a parent that is neither here nor absent", "CF-BUNDLE-022", silent, "line 2")
    sessions = lines(asked, [section(log, ours[:2], [4])], reached(log, ours[:2]), absent=[parent])
    yield Case("a receipt left out", bundles.text(sessions), "intact", [], notes=["CF-BUNDLE-025"])


def _indices(sender: Log, log: Log) -> tuple[int, ...]:
    """What is wanted of the sender's log for the handoff that both logs have."""
    parent = json.loads(payload_of(log.entries[4]["text"]))["predicate"]["parents"][0]["digest"]
    there = {sha256(jcs(json.loads(one["text"])["body"])): index for index, one in enumerate(sender.entries)}
    start = there[parent]
    return 0, start, start + 2, start + 3


def _of_record(log: Log) -> Lines:
    digest = sha256(jcs(json.loads(log.entries[1]["text"])["body"]))
    return whole(log, range(3), range(3), asked={"handoff": digest})


def _judgement(log: Log, small: Lines) -> Iterator[Case]:
    text = bundles.text(small)
    yield Case(
        "a bundle of an identity that is not pinned", text, "cannot-tell", ["CF-VERIFY-032"], ("peer",)
    )
    yield Case("an identity pinned by fingerprint alone", text, "intact", [], ("~identity",))
    right = log.head(evidence="")
    yield Case("a head remembered as it is", text, "intact", [], heads=[right])
    other = right | {"root": "0" * 64}
    yield Case("a head remembered otherwise", text, "broken", ["CF-VERIFY-053"], heads=[other])
    empty = lines(ASKED, [section(log, range(3))], {})
    yield Case("a blob left out", bundles.text(empty), "broken", ["CF-VERIFY-010"])
    cut = whole(log, (0, 1), (0, 1))
    yield Case("the end of the run left out", bundles.text(cut), "incomplete", ["CF-VERIFY-025"])
    cut = whole(log, (0, 2), (0, 2))
    codes = ["CF-VERIFY-022", "CF-BUNDLE-026"]
    yield Case("the start of the run left out", bundles.text(cut), "incomplete", codes)
    log, _ = complete()
    taken = next(index for index, one in enumerate(log.entries) if '"pid":4343' in one["text"])
    peer = sha256(payload_of(log.entries[taken + 1]["text"]).encode())
    three = [taken, taken + 1, taken + 2]
    bundle = bundles.text(whole(log, three, three, asked={"handoff": peer}))
    codes = ["CF-VERIFY-042"]
    yield Case("a handoff of a peer that is not pinned", bundle, "cannot-tell", codes, ("identity",))
    log = begun()
    received(log, carry=False)
    log.checkpoint()
    digest = sha256(payload_of(log.entries[1]["text"]).encode())
    asked, three = {"handoff": digest}, [0, 1, 2]
    alone = bundles.text(whole(log, three, three, asked=asked))
    carried = bundles.text(whole(log, three, three, asked=asked, keys=[PEER]))
    ring = ("identity", "~peer")
    yield Case("a peer pinned by fingerprint, no key", alone, "cannot-tell", codes, ring)
    yield Case("a peer pinned by fingerprint, its key in the bundle", carried, "intact", [], ring)
    yield Case(
        "a peer that is not pinned, its key in the bundle", carried, "cannot-tell", codes, ("identity",)
    )
    log, grant, handed = granted()
    asked, shown = {"handoff": handed}, (0, 3)
    bare = lines(asked, [section(log, shown)], reached(log, shown), absent=[grant])
    yield Case("a grant left out", bundles.text(bare), "broken", ["CF-TRUST-040"])
    yield from _peers()
    yield from _histories()
    yield from _acceptances()
    yield from _losses()
    yield from _statements()


def _peers() -> Iterator[Case]:
    """Two handoffs of a peer, each with its log's head: one size, two roots."""
    log = begun()
    own = {"origin": f"{PEER.keyid}/{'c' * 16}", "root": "1" * 64, "size": 7}
    first = received(log, own=own)
    own = own | {"root": "2" * 64}
    second = received(log, own=own, nonce="7" * 32, parents=[{"digest": first, "rel": "control"}])
    log.checkpoint()
    found = whole(log, range(5), range(5), asked={"handoff": second})
    yield Case("a peer with two histories", bundles.text(found), "broken", ["CF-TRUST-042"])


def _histories() -> Iterator[Case]:
    for name, change in (
        ("a head seen of another root", {"root": "0" * 64}),
        ("a head seen of a longer log", {"size": 900}),
    ):
        log = run(begun())
        log.checkpoint()
        last = log.checkpoints[-1]
        seen = {"origin": log.origin, "root": last["root"], "size": last["size"]} | change
        digest = received(log, seen=[seen])
        log.checkpoint()
        heads = [last["size"]] if "root" in change else []
        found = whole(log, (0, 4, 5), (0, 4, 5), asked={"handoff": digest}, heads=heads)
        yield Case(name, bundles.text(found), "broken", ["CF-VERIFY-005"])


def _acceptances() -> Iterator[Case]:
    """A handoff that two logs of one identity accepted, with all receipts for it; then a log's word about itself."""
    for name, back, copied, verdict, codes in (
        ("a handoff accepted in two logs", False, False, "broken", ["CF-VERIFY-048"]),
        ("a handoff accepted in two logs, taken back in one", True, False, "incomplete", ["CF-VERIFY-049"]),
        ("a handoff accepted in one log, a copy in another", False, True, "intact", []),
    ):
        first, digest = accepting(LOG, "accepted", *(["refused"] if back else []))
        second, _ = accepting(OTHER, "accepted", by=first if copied else None)
        ours, theirs = (0, 2, 3, 4)[: 4 if back else 3], (0, 2, 3)
        sections = [section(first, ours, [2]), section(second, theirs, [] if copied else [2])]
        found = lines({"handoff": digest}, sections, reached(first, ours) | reached(second, theirs))
        yield Case(name, bundles.text(found), verdict, codes)
    log, digest = accepting(LOG, "accepted")
    own = {"origin": log.origin, "root": "0" * 64, "size": 2}
    accepted(log, digest, status="refused", own=own, nonce=None)
    log.checkpoint()
    shown = (0, 2, 3, 5)
    found = whole(log, shown, shown, asked={"handoff": digest}, heads=[2])
    yield Case("a log that tells two roots of its own", bundles.text(found), "broken", ["CF-VERIFY-047"])


def _losses() -> Iterator[Case]:
    log = begun()
    start = log.start("invoke_workflow", "team", RUN)
    log.record({"name": "full", "op": "loss", "phase": "point"}, {"at": log.now(), "count": 3})
    log.end("invoke_workflow", "team", RUN)
    log.checkpoint()
    yield Case(
        "a loss within the run", bundles.text(whole(log, range(4), range(4))), "incomplete", ["CF-VERIFY-021"]
    )
    for op, codes in (("loss", ["CF-VERIFY-021"]), ("closed", []), ("chat", [])):
        odd = begun()
        odd.start("invoke_workflow", "team", RUN)
        odd.record(
            {"name": "full", "op": op, "phase": "start"}, {"at": odd.now(), "call": "2" * 32, "run": RUN}
        )
        odd.end("invoke_workflow", "team", RUN)
        odd.checkpoint()
        found = bundles.text(whole(odd, range(4), range(4)))
        yield Case(f"a call of the run whose op is {op}", found, "incomplete", [*codes, "CF-VERIFY-025"])
    hidden = whole(log, (0, 1, 3), (0, 1, 3))
    yield Case("a loss that was hidden", bundles.text(hidden), "incomplete", ["CF-BUNDLE-023"])
    log = begun()
    content = {"totals": {"ended": 2, "started": 2}}
    log.start("invoke_workflow", "team", RUN)
    log.start("chat", "small-1", "b" * 32)
    log.end("chat", "small-1", "b" * 32)
    log.end("invoke_workflow", "team", RUN, content=content)
    log.checkpoint()
    hidden = whole(log, (0, 1, 4), (0, 1, 4))
    codes = ["CF-VERIFY-023", "CF-BUNDLE-023"]
    yield Case("a call that was hidden", bundles.text(hidden), "incomplete", codes)
    log = begun()
    parents = {"parents": [{"digest": start, "rel": "control"}]}
    log.start("invoke_workflow", "team", RUN, context=parents)
    log.end("invoke_workflow", "team", RUN)
    log.checkpoint()
    found = lines(ASKED, [section(log, range(3))], reached(log, range(3)), absent=[start])
    yield Case("an ancestor that is absent", bundles.text(found), "incomplete", ["CF-BUNDLE-024"])


def _statements() -> Iterator[Case]:
    log = run(bound())
    handoff(log)
    ending(log)
    found = whole(log, (0, 1, 2, 3, 4), (0, 1, 2, 3, 4))
    yield Case("a handoff of an actor", bundles.text(found), "intact", [])
    unbound = whole(log, (0, 2, 3, 4), (0, 2, 3, 4))
    yield Case(
        "a handoff of an actor, its binding left out", bundles.text(unbound), "broken", ["CF-DSSE-010"]
    )
    log = run(begun())
    handoff(log, key=STRANGER)
    ending(log)
    forged = whole(log, range(4), range(4))
    yield Case("a handoff of a key that nothing binds", bundles.text(forged), "broken", ["CF-DSSE-010"])
    log = run(begun())
    accepted(log, "0" * 64)
    ending(log)
    digest = sha256(payload_of(log.entries[3]["text"]).encode())
    found = whole(log, range(4), range(4), asked={"handoff": digest})
    yield Case("a receipt is no handoff", bundles.text(found), "broken", ["CF-BUNDLE-020"])


def build() -> dict[str, Any]:
    """The file."""
    found = [case.to_json() for case in cases()]
    assert len({case["name"] for case in found}) == len(found)
    gaps = [(0, 1), (0, 7), (1, 1), (1, 7), (5, 6), (7, 9), (8, 8), (12, 100), (3, 1 << 20)]
    return {
        "cases": found,
        "cuts": [cut.to_json() for cut in (*cuts(), *bundle_runs.cuts())],
        "gaps": [{"count": count, "sizes": gap_sizes(start, count), "start": start} for start, count in gaps],
        "keys": {name: key.to_json() for name, key in KEYS.items()},
    }
