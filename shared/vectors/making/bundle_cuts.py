"""Bundles: what is cut from which evidence."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from making import bundles, formats
from making.bundles import lines, reached, section
from making.cases import begun, run
from making.formats import b64, jcs, sha256
from making.log_complete import PAYLOAD, RUN2, complete, received
from making.logs import ACTOR, IDENTITY, OTHER, PEER, RUN, Log

Lines = list[bytes]
ASKED: Final = {"run": RUN}


@dataclass
class Cut:
    """Evidence and the one bundle that is cut from it."""

    name: str
    files: dict[str, bytes]
    asked: dict[str, str]
    lines: Lines
    keyring: tuple[str, ...] = ("identity", "peer")
    only: bool = False
    keys: bool = False
    verdict: str = "intact"
    findings: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """As it stands in the vectors."""
        return {
            "asked": self.asked,
            "bundle": bundles.packed(bundles.text(self.lines).decode()),
            "counts": self.counts,
            "files": {name: bundles.packed(b64(data)) for name, data in sorted(self.files.items())},
            "findings": self.findings,
            "keyring": list(self.keyring),
            "keys": self.keys,
            "name": self.name,
            "notes": self.notes,
            "only": self.only,
            "verdict": self.verdict,
        }


def whole(log: Log, shown: Iterable[int], wanted: Iterable[int], **more: Any) -> Lines:
    """A bundle of one log; ``shown`` are wanted entries and fillers, ``wanted`` those whose blobs are in it."""
    heads, checkpoint = more.pop("heads", ()), more.pop("checkpoint", -1)
    return lines(
        more.pop("asked", ASKED), [section(log, shown, heads, checkpoint)], reached(log, wanted), **more
    )


def two_logs() -> tuple[Log, Log, str]:
    """A sender's log and a receiver's, each a witness of the other; the handoff's digest."""
    sender = begun(Log(OTHER, PEER))
    start = sender.start("invoke_workflow", "weather", RUN2, context={"run": RUN2})
    sender.checkpoint()
    last = sender.checkpoints[-1]
    own = {"origin": sender.origin, "root": last["root"], "size": last["size"]}
    log = run(begun())
    log.checkpoint()
    seen = {"origin": log.origin, "root": log.checkpoints[-1]["root"], "size": log.checkpoints[-1]["size"]}
    parents = [{"digest": start, "rel": "control"}]
    digest = received(log, own=own, parents=parents, seen=[seen])
    log.start("step", "counter", "f" * 32, context={"handoffs": [digest], "run": "f" * 32})
    log.end("step", "counter", "f" * 32, context={"run": "f" * 32})
    log.checkpoint()
    # The sender's log has the same statement, and the payload too.
    sender.value(PAYLOAD)
    sender.sign(payload_of(log.entries[4]["text"]).encode(), PEER, carry=True)
    sender.end("invoke_workflow", "weather", RUN2, context={"run": RUN2})
    sender.checkpoint()
    return log, sender, digest


def granted() -> tuple[Log, str, str]:
    """A handoff from a peer that grants something, and ours that hands part of it on; the digests of both."""
    log = begun()
    expires = log.now() // 1000 + 300_000
    given = {"allow": ["repo:read", "repo:write:*"], "expires": expires, "maxDepth": 2}
    grant = received(log, authority=given)
    payload = log.value(PAYLOAD)
    predicate = {
        "audience": "archive",
        "authority": {"allow": ["repo:read"], "expires": expires, "from": grant, "maxDepth": 1},
        "content": {
            "basis": "sealed",
            "from": ["counter"],
            "kind": "message",
            "payload": payload["sha256"],
            "to": "archive",
        },
        "exact": True,
        "expires": expires,
        "issued": log.now() // 1000,
        "nonce": "6" * 32,
        "parents": [],
        "payload": {"media": payload["media"], "size": payload["size"]},
        "proof": "countersigned",
        "sender": {"actor": "counter", "key": IDENTITY.keyid},
    }
    subject = {
        "digest": {"counterfoil-v1": payload["sha256"], "sha256": sha256(PAYLOAD.encode())},
        "name": "payload",
    }
    handed = log.sign(formats.statement("handoff", subject, predicate), IDENTITY)
    run(log)
    log.checkpoint()
    return log, grant, handed


def interleaved() -> Log:
    """Two runs at the same time, and a later checkpoint that no bundle needs."""
    log = begun()
    log.start("invoke_workflow", "team", RUN, content={"request": log.value("Begin.")})
    log.start(
        "invoke_workflow", "other", RUN2, context={"run": RUN2}, content={"request": log.value("Secret.")}
    )
    log.end("invoke_workflow", "team", RUN, content={"totals": {"ended": 1, "started": 1}})
    log.checkpoint()
    log.end("invoke_workflow", "other", RUN2, context={"run": RUN2})
    log.checkpoint()
    return log


def spelled(media: str) -> Log:
    """A run whose request, cited under a media type, spells a reference of bytes that another run stored."""
    log = begun()
    log.start(
        "invoke_workflow", "other", RUN2, context={"run": RUN2}, content={"request": log.value("Secret.")}
    )
    log.end("invoke_workflow", "other", RUN2, context={"run": RUN2})
    text = log.blob(jcs({"v": {"$ref": log.value("Secret.")}}))
    log.start("invoke_workflow", "team", RUN, content={"request": {**text, "media": media}})
    log.end("invoke_workflow", "team", RUN, content={"totals": {"ended": 1, "started": 1}})
    log.checkpoint()
    return log


def pieces() -> Log:
    """Blobs that need more lines than one: a text with characters of two bytes, bytes, and an empty text."""
    log = begun()
    long = "x" * 131_071 + "\u00e9" + "y" * 131_069 + "\u00e9z"
    content = {"error": log.value({"$bytes": b64(b"\xff" * 131_073)}), "request": log.value(long)}
    log.start("invoke_workflow", "team", RUN, content={"request": content["request"]})
    log.end("invoke_workflow", "team", RUN, content={**content, "response": log.value("")})
    log.checkpoint()
    return log


def cuts() -> Iterator[Cut]:
    """Every rule of what is in a bundle."""
    log = run(begun())
    log.checkpoint()
    counts = {"logs": 1, "records": 3, "runs": 1, "blobs": 1, "open": 0, "tail": 0}
    yield Cut("the smallest run", log.evidence(), ASKED, whole(log, (0, 1, 2), (0, 1, 2)), counts=counts)
    log, _ = complete()
    files = log.evidence()
    first = [index for index, one in enumerate(log.entries) if RUN in one["text"]]
    shown = range(first[0], first[-1] + 1)
    fillers = {index for index in shown if '"op":"stored"' in log.entries[index]["text"]}
    binding = next(index for index, one in enumerate(log.entries) if ACTOR.keyid in payload_of(one["text"]))
    wanted = [0, *(index for index in shown if index not in fillers)]
    head_size = log.checkpoints[0]["size"]
    assert head_size == binding
    counts = {"handoffs": 1, "records": len(wanted) - 2, "statements": 2, "runs": 1}
    yield Cut(
        "a run with a handoff, whose checkpoint has a head line",
        files,
        ASKED,
        whole(log, [0, *shown], wanted, heads=[head_size], checkpoint=1),
        counts=counts,
    )
    second = [index for index, one in enumerate(log.entries) if RUN2 in one["text"]]
    yield Cut(
        "a run that a second segment holds, with a late end",
        files,
        {"run": RUN2},
        whole(log, [0, *second], [0, *second], asked={"run": RUN2}, checkpoint=2),
    )
    taken = next(index for index, one in enumerate(log.entries) if '"pid":4343' in one["text"])
    peer = sha256(payload_of(log.entries[taken + 1]["text"]).encode())
    arguments: dict[str, Any] = {"asked": {"handoff": peer}, "checkpoint": 3}
    three = [taken, taken + 1, taken + 2]
    yield Cut(
        "a handoff from a peer, and its receipt",
        files,
        {"handoff": peer},
        whole(log, three, three, **arguments),
        counts={"handoffs": 1, "records": 1, "statements": 2, "runs": 0},
    )
    yield Cut(
        "the same with keys",
        files,
        {"handoff": peer},
        whole(log, three, three, **arguments, keys=[PEER]),
        keys=True,
    )
    log = interleaved()
    yield Cut("two runs at one time", log.evidence(), ASKED, whole(log, range(4), (0, 1, 3), checkpoint=0))
    yield Cut(
        "two runs at one time, only one of them",
        log.evidence(),
        ASKED,
        whole(log, (0, 1, 3), (0, 1, 3), checkpoint=0),
        only=True,
        verdict="incomplete",
        findings=["CF-BUNDLE-023"],
    )
    for media in (formats.TEXT, "application/json"):
        log = spelled(media)
        found = whole(log, (0, 3, 4), (0, 3, 4))
        yield Cut(f"a reference that {media} spells", log.evidence(), ASKED, found)
    log = pieces()
    yield Cut("blobs of more lines than one", log.evidence(), ASKED, whole(log, (0, 1, 2), (0, 1, 2)))
    log, _, handed = granted()
    asked = {"handoff": handed}
    yield Cut(
        "a handoff with authority, and the grant that it narrows",
        log.evidence(),
        asked,
        whole(log, range(4), range(4), asked=asked),
    )
    yield from _across()
    yield from _sessions()


def _sessions() -> Iterator[Cut]:
    """What stands in `seen` and names no log cites no head."""
    for name, member, heads in (("a log", {"log": OTHER}, [2]), ("no log", {}, [])):
        log = begun()
        log.checkpoint()
        log.segment()
        log.session(seen=[{**member, "note": log.blob(log.checkpoints[-1]["note"].encode())}])
        run(log)
        log.checkpoint()
        found = whole(log, (2, 3, 4), (2, 3, 4), heads=heads)
        files = log.evidence()
        if not member:
            yield Cut(f"a session that cites a checkpoint of {name}", files, ASKED, found)
            continue
        other = begun(Log(OTHER))
        other.checkpoint()
        files |= {path: data for path, data in other.evidence().items() if path.startswith(OTHER)}
        yield Cut(f"a session that cites a checkpoint of {name}", files, ASKED, found)


def _across() -> Iterator[Cut]:
    log, sender, digest = two_logs()
    asked = {"handoff": digest}
    there = {sha256(jcs(json.loads(one["text"])["body"])): index for index, one in enumerate(sender.entries)}
    statement = json.loads(payload_of(log.entries[4]["text"]))
    start = there[statement["predicate"]["parents"][0]["digest"]]
    ours, theirs = (0, 4, 5), (0, start, start + 2, start + 3)
    blobs = reached(log, ours) | reached(sender, theirs)
    sections = [section(log, ours, [4]), section(sender, theirs, [3])]
    both = sorted(sections, key=lambda one: json.loads(one[0])["note"].partition("\n")[0])
    yield Cut(
        "a handoff between two logs that are witnesses of each other",
        log.evidence(sender),
        asked,
        lines(asked, both, blobs),
    )
    parent = statement["predicate"]["parents"][0]["digest"]
    yield Cut(
        "a handoff whose parents stand in somebody else's evidence",
        log.evidence(),
        asked,
        lines(asked, [section(log, ours, [4])], reached(log, ours), absent=[parent]),
        notes=["CF-BUNDLE-025"],
    )


def payload_of(text: str) -> str:
    """The payload of an entry that is an envelope, else nothing."""
    body = json.loads(text)["body"]
    return formats.base64.b64decode(body["payload"]).decode() if "payload" in body else ""
