"""Which statements belong to a run: those that were signed where they stand, whatever others name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from making import bundles, formats
from making.bundle_cuts import ASKED, Cut, whole
from making.cases import begun, run
from making.formats import sha256
from making.log_complete import PAYLOAD, RUN2, received
from making.logs import IDENTITY, OTHER, PEER, RUN, Log


def sealed(log: Log, **changes: Any) -> str:
    """A handoff by this log's identity to another process, in a run; its digest."""
    payload, issued = log.value(PAYLOAD), log.now() // 1000
    content = {"basis": "sealed", "from": ["counter"], "kind": "message", "to": "weather"}
    predicate = {
        "audience": "weather",
        "content": content | {"payload": payload["sha256"]},
        "exact": True,
        "expires": issued + 300_000,
        "issued": issued,
        "nonce": "9" * 32,
        "parents": [],
        "payload": {"media": payload["media"], "size": payload["size"]},
        "proof": "countersigned",
        "run": RUN,
        "sender": {"actor": "counter", "key": IDENTITY.keyid},
    }
    digests = {"counterfoil-v1": payload["sha256"], "sha256": sha256(PAYLOAD.encode())}
    subject = {"digest": digests, "name": "payload"}
    return log.sign(formats.statement("handoff", subject, predicate | changes), IDENTITY)


def told(log: Log, handoff: str, **changes: Any) -> str:
    """A peer's receipt for a handoff that was sealed here."""
    receipt = {
        "checks": ["signature"],
        "handoff": handoff,
        "issued": log.now() // 1000,
        "sender": {"actor": "weather", "key": PEER.keyid},
        "status": "accepted",
    }
    subject = {"digest": {"sha256": handoff}, "name": "handoff"}
    return log.sign(formats.statement("receipt", subject, receipt | changes), PEER)


def second_run(log: Log) -> None:
    """Another run in the same log."""
    log.start("invoke_workflow", "app", RUN2, context={"run": RUN2})
    log.end("invoke_workflow", "app", RUN2, context={"run": RUN2})


def named_by_others() -> Log:
    """A run; then another one, and statements that name the first: a peer's, and one of another own log."""
    log = run(begun())
    log.checkpoint()
    second_run(log)
    received(log, run=RUN)
    sealed(log, own={"origin": f"{IDENTITY.keyid}/{OTHER}", "root": "1" * 64, "size": 4})
    log.checkpoint()
    return log


def own_words() -> Log:
    """A run that seals twice, before and after the first checkpoint; then another run, and receipts."""
    log = begun()
    log.start("invoke_workflow", "team", RUN)
    first = sealed(log)
    log.checkpoint()
    last = log.checkpoints[-1]
    own = {"origin": log.origin, "root": last["root"], "size": last["size"]}
    second = sealed(log, own=own, nonce="8" * 32)
    log.end("invoke_workflow", "team", RUN)
    second_run(log)
    told(log, first, run=RUN)
    told(log, second, run=RUN)
    log.checkpoint()
    return log


def cuts() -> Iterator[Cut]:
    """What is cut for a run that others name, and for one that sealed."""
    log = named_by_others()
    yield Cut(
        "a run that others name in what they signed",
        log.evidence(),
        ASKED,
        whole(log, range(3), range(3), checkpoint=0),
        counts={"handoffs": 0, "statements": 0},
    )
    log = own_words()
    shown, fillers = (0, 1, 2, 3, 4, 5, 8, 9), (3,)
    yield Cut(
        "a run that sealed, whose receipts came later",
        log.evidence(),
        ASKED,
        whole(log, shown, [one for one in shown if one not in fillers], heads=[4]),
        counts={"handoffs": 2, "statements": 4},
    )


def wrong() -> Iterator[tuple[str, bytes, str, list[str]]]:
    """Bundles that hold what belongs to no run here: name, bytes, verdict, codes."""
    log = named_by_others()
    for name, shown in (
        ("a peer's handoff that names the run", (0, 1, 2, 6)),
        ("a peer's handoff that names the run, and all before it", range(7)),
        ("a handoff of another own log that names the run", (0, 1, 2, 8)),
    ):
        yield name, bundles.text(whole(log, shown, shown)), "broken", ["CF-BUNDLE-021"]
    peers = whole(log, (0, 6), (0, 6))
    yield "only a peer's handoff that names the run", bundles.text(peers), "broken", ["CF-BUNDLE-020"]
