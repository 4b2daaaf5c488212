"""Logs whose statements are wrong in one way each."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from making import formats
from making.cases import Case, begun, broken, ending
from making.formats import Key, jcs, sha256
from making.log_complete import received
from making.logs import ACTOR, IDENTITY, OTHER, PEER, RUN, STRANGER, Log


def handoff(
    log: Log, *, key: Key = ACTOR, names: Key | None = None, stored: bool = True, **changes: Any
) -> str:
    """An observed edge inside the process, signed for `team`."""
    draft = {"draft": 1}
    payload = log.value(draft) if stored else formats.Blobs().reference(draft)
    predicate = {
        "content": {
            "basis": "observed",
            "from": ["writer"],
            "kind": "edge",
            "payload": payload["sha256"],
            "to": "reviewer",
        },
        "exact": True,
        "issued": log.now() // 1000,
        "parents": [],
        "payload": {"media": payload["media"], "size": payload["size"]},
        "proof": "recorded",
        "run": RUN,
        "sender": {"actor": "team", "key": (names or key).keyid},
    }
    subject = {"digest": {"counterfoil-v1": payload["sha256"]}, "name": "payload"}
    return log.sign(formats.statement("handoff", subject, predicate | changes), key)


def bound(**changes: Any) -> Log:
    """A log in which `team` has a key."""
    log = begun()
    log.bind("team", ACTOR, **changes)
    return log


def listing(*, count: int = 17, missing: str | None = None, rel: str = "control") -> Log:
    """A handoff with 17 parents."""
    log = bound()
    content = {"name": "n", "op": "custom", "phase": "point"}
    digests = [log.record(content, {"at": log.now()}) for _ in range(17)]
    if missing is not None:
        digests[0] = missing
    listed = jcs([{"digest": digest, "rel": rel} for digest in sorted(digests)])
    log.blob(listed)
    handoff(log, parentSet={"count": count, "sha256": sha256(listed), "size": len(listed)})
    return log


def statement_cases() -> Iterator[Case]:
    """Every rule for statements inside a log."""
    log = bound()
    handoff(log)
    yield Case("a handoff", ending(log).evidence(), "intact", [], counts={"handoffs": 1, "statements": 2})
    log = begun()
    received(log)
    whole = ending(log).evidence()
    yield Case("a handoff from a peer", whole, "intact", [], counts={"handoffs": 1, "statements": 2})
    yield Case(
        "a peer pinned by fingerprint, its key carried along", whole, "intact", [], ("identity", "~peer")
    )
    yield Case("a peer that is not pinned", whole, "cannot-tell", ["CF-VERIFY-042"], ("identity",))
    log = begun()
    received(log, carry=False)
    alone = ending(log).evidence()
    keyring = ("identity", "~peer")
    yield Case(
        "a peer pinned by fingerprint, no key carried", alone, "cannot-tell", ["CF-VERIFY-042"], keyring
    )

    for first in (True, False):
        log = begun()
        received(log, carry=first)
        received(log, carry=not first, nonce="6" * 32)
        name = f"a peer pinned by fingerprint, its key carried {'before' if first else 'later'} and not now"
        yield Case(name, ending(log).evidence(), "cannot-tell", ["CF-VERIFY-042"], keyring)
    for peers in (begun(Log("0" * 15 + "1", PEER)), begun(Log("f" * 16, PEER))):
        log = begun()
        received(log, carry=False)
        yield Case(
            f"a peer pinned by fingerprint, whose log {peers.name} has its key",
            ending(log).evidence(ending(peers)),
            "cannot-tell",
            ["CF-VERIFY-042"],
            keyring,
        )

    log = begun()
    received(log, by=STRANGER)
    yield broken("a handoff in a peer's name by a stranger", ending(log), "CF-DSSE-010")
    log = begun()
    handoff(log)
    yield broken("a handoff by a key that is not bound", ending(log), "CF-DSSE-010")
    log = bound()
    ending(log)
    log.segment()
    log.session()
    handoff(log)
    yield broken("a handoff by a key bound in an earlier session", ending(log), "CF-DSSE-010")
    log = bound()
    handoff(log, key=IDENTITY)
    yield broken("a handoff inside the process by the identity", ending(log), "CF-VERIFY-044")
    log = bound()
    handoff(log, sender={"actor": "other", "key": ACTOR.keyid})
    yield broken("a handoff for another actor", ending(log), "CF-VERIFY-044")
    log = bound()
    handoff(log, names=IDENTITY)
    yield broken("a handoff that names another key", ending(log), "CF-VERIFY-041")
    log = bound()
    handoff(log, parents=[{"digest": "0" * 64, "rel": "control"}])
    yield broken("a parent that is not there", ending(log), "CF-VERIFY-045")
    log = bound()
    handoff(log, parentSet={"count": 17, "sha256": "0" * 64, "size": 99})
    yield broken("a list of parents that is not there", ending(log), "CF-VERIFY-045")
    yield Case("a list of parents", ending(listing()).evidence(), "intact", [])
    yield broken("a list of parents that says another count", ending(listing(count=18)), "CF-VERIFY-045")
    yield broken(
        "a list of parents, one of them not there", ending(listing(missing="0" * 64)), "CF-VERIFY-045"
    )
    yield broken("a list of parents with an unknown relation", ending(listing(rel="cause")), "CF-VERIFY-045")
    log = bound()
    handoff(log, stored=False)
    yield broken("a handoff whose payload is not there", ending(log), "CF-VERIFY-046")
    log = bound()
    log.checkpoint()
    last = log.checkpoints[0]
    handoff(log, own={"origin": log.origin, "root": last["root"], "size": last["size"]})
    yield Case("a handoff that names the last checkpoint", ending(log).evidence(), "intact", [])
    log = bound()
    handoff(log, own={"origin": log.origin, "root": "0" * 64, "size": 1})
    yield broken("a handoff that names a checkpoint that never was", ending(log), "CF-VERIFY-047")

    yield broken("a binding by another key", ending(bound(by=STRANGER)), "CF-DSSE-010")
    log = bound()
    log.bind("writer", STRANGER, by=ACTOR)
    yield broken("a binding by a bound key", ending(log), "CF-VERIFY-043")
    yield broken(
        "a binding for another log", ending(bound(origin=f"{IDENTITY.keyid}/{OTHER}")), "CF-VERIFY-043"
    )
    yield broken("a binding of another key than it says", ending(bound(key=STRANGER.keyid)), "CF-VERIFY-043")
    log = begun()
    log.bind("team", IDENTITY)
    yield broken("a binding of the identity itself", ending(log), "CF-VERIFY-043")
    yield broken("a binding without a usable key", ending(bound(spki="AAAA")), "CF-VERIFY-043")

    def signed(payload: bytes) -> Log:
        log = begun()
        log.sign(payload, IDENTITY)
        return ending(log)

    subject = {"digest": {"sha256": "0" * 64}, "name": "x"}
    later = formats.statement("binding", subject, {}).replace(b":v1", b":v9")
    yield Case("a statement of a later version", signed(later).evidence(), "cannot-tell", ["CF-STMT-004"])
    yield broken(
        "a statement without its members", signed(formats.statement("binding", subject, {})), "CF-STMT-005"
    )
    yield broken("a statement that is not canonical", signed(b" {}"), "CF-STMT-002")
    yield broken("signed bytes that are no statement", signed(b"{}"), "CF-STMT-003")

    def enveloped(**changes: Any) -> Log:
        log = begun()
        payload = formats.statement("binding", subject, {})
        log.entry({**formats.envelope(payload, IDENTITY), **changes})
        return ending(log)

    yield broken("an envelope with a further member", enveloped(more=1), "CF-VERIFY-040")
    yield broken("an envelope of another type", enveloped(payloadType="text/plain"), "CF-DSSE-003")
    yield broken("an envelope without signatures", enveloped(signatures=[]), "CF-DSSE-005")
    yield broken("an envelope whose payload is no base64", enveloped(payload="a"), "CF-DSSE-004")
    log = bound()
    handoff(log)
    last = log.entries[-1]
    log.entries.pop()
    log.leaves.pop()
    log._items.pop()
    log.prev = log.entries[-1]["digest"]
    log.entry(_resigned(last["text"]))
    yield broken("a handoff under another statement's signature", ending(log), "CF-DSSE-011")


def _resigned(text: str) -> dict[str, Any]:
    """The envelope of an entry with a signature that its key made over something else."""
    body: dict[str, Any] = json.loads(text)["body"]
    body["signatures"][0]["sig"] = formats.b64(ACTOR.sign(b"something else"))
    return body
