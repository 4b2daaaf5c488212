"""Logs whose statements give authority, tell heads of other logs, or are judged by a trust policy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from making import formats
from making.cases import Case, begun, broken, ending
from making.formats import Key, sha256
from making.log_complete import accepted, received
from making.log_statements import bound, handoff
from making.logs import ACTOR, IDENTITY, OTHER, PEER, STRANGER, Log
from making.trust_cases import NOW, agent, by_key, key, policy

ALLOW: Final = ["repo:read", "repo:write:tests/*"]
ENDS: Final = NOW + 3_600_000


def message(
    log: Log,
    *,
    by: Key = IDENTITY,
    actor: str = "counter",
    to: str = "reader",
    stored: bool = True,
    **changes: Any,
) -> str:
    """A countersigned handoff; None leaves a member out."""
    text = "Please write the tests. " * 3
    blobs = formats.Blobs()
    payload = log.value(text) if stored else blobs.reference(text)
    issued = log.now() // 1000
    predicate = {
        "audience": to,
        "content": {
            "basis": "sealed",
            "from": [actor],
            "kind": "message",
            "payload": payload["sha256"],
            "to": to,
        },
        "exact": True,
        "expires": issued + 300_000,
        "issued": issued,
        "nonce": sha256(b"%d" % len(log.leaves))[:32],
        "parents": [],
        "payload": {"media": payload["media"], "size": payload["size"]},
        "proof": "countersigned",
        "sender": {"actor": actor, "key": by.keyid},
    }
    subject = {
        "digest": {"counterfoil-v1": payload["sha256"], "sha256": sha256(text.encode())},
        "name": "payload",
    }
    whole = {name: value for name, value in (predicate | changes).items() if value is not None}
    return log.sign(formats.statement("handoff", subject, whole), by, carry=True)


def given(log: Log, **changes: Any) -> str:
    """A grant from the peer to `counter`, whose payload is elsewhere."""
    authority = {"allow": ALLOW, "expires": ENDS, "maxDepth": 2}
    members = {"authority": authority, "stored": False} | changes
    return message(log, by=PEER, actor="weather", to="counter", **members)


def handed_on(*, grant: bool = True, taint: list[str] | None = None, of: Any = None, **changes: Any) -> Log:
    """A log in which `counter` hands on a part of what the peer gave it."""
    log = begun()
    digest = given(log, taint=taint, **(of or {})) if grant else "0" * 64
    authority = {"allow": ["repo:read"], "expires": ENDS, "from": digest, "maxDepth": 1}
    members = {"authority": authority | changes.pop("authority", {})}
    message(log, **(members | changes))
    return ending(log)


def receipt(log: Log, handoff: str, *, by: Key = PEER, **changes: Any) -> str:
    """A receipt that came back."""
    predicate = {
        "checks": ["signature"],
        "handoff": handoff,
        "issued": log.now() // 1000,
        "sender": {"actor": "reader", "key": by.keyid},
        "status": "accepted",
    } | changes
    subject = {"digest": {"sha256": handoff}, "name": "handoff"}
    return log.sign(formats.statement("receipt", subject, predicate), by, carry=True)


def head(origin: str, size: int, root: str) -> dict[str, Any]:
    """A head."""
    return {"origin": origin, "root": root, "size": size}


def trust_cases() -> Iterator[Case]:
    """Every rule that needs no policy."""
    yield Case("authority handed on", handed_on().evidence(), "intact", [], counts={"handoffs": 2})
    code = "CF-TRUST-040"
    yield broken("authority from a grant that is not there", handed_on(grant=False), code)
    yield broken("authority for more", handed_on(authority={"allow": ["repo:write:src/*"]}), code)
    yield broken("authority for everything", handed_on(authority={"allow": ["repo:*"]}), code)
    yield broken("authority as far as its grant", handed_on(authority={"maxDepth": 2}), code)
    yield broken("authority longer than its grant", handed_on(authority={"expires": ENDS + 1}), code)
    yield broken("authority that was given to another", handed_on(of={"audience": "reader"}), code)
    yield broken("authority that drops a taint", handed_on(taint=["web"]), code)
    yield Case(
        "authority that keeps a taint",
        _tainted(["pdf", "web"]).evidence(),
        "intact",
        [],
    )
    yield broken("authority older than its grant", handed_on(of={"issued": NOW + 90_000}), code)
    yield broken("a grant that gives nothing", handed_on(of={"authority": None}), code)
    yield broken("a grant by a stranger in another's name", _forged(), "CF-DSSE-010")
    yield broken("a taint that is dropped", _follows([]), "CF-TRUST-041")
    yield Case("a taint that is kept", _follows(["web"]).evidence(), "intact", [])

    log = begun()
    receipt(log, message(log))
    yield Case("a receipt that came back", ending(log).evidence(), "intact", [])
    log = begun()
    receipt(log, message(log))
    yield Case(
        "a receipt by a key that is not known",
        ending(log).evidence(),
        "cannot-tell",
        ["CF-VERIFY-042"],
        ("identity",),
    )
    log = begun()
    digest = message(log)
    receipt(log, digest)
    receipt(log, digest)
    yield broken("a receipt twice", ending(log), "CF-VERIFY-048")
    log = begun()
    digest = given(log, stored=True)
    receipt(log, digest)
    accepted(log, digest)
    yield Case("receipts for one handoff by two receivers", ending(log).evidence(), "intact", [])
    yield from _accepted_in_two()
    yield from _copies()
    log = begun()
    message(log, stored=False, authority={"allow": ALLOW, "expires": ENDS, "maxDepth": 2})
    yield Case("an own grant that came along", ending(log).evidence(), "intact", [])
    log = begun()
    accepted(log, message(log, stored=False))
    yield broken("an own handoff that was accepted here, without its payload", ending(log), "CF-VERIFY-046")
    log = ending(begun())
    last = log.checkpoints[0]
    message(log, stored=False, own=head(log.origin, last["size"], last["root"]))
    yield broken("an own handoff that was sealed here, without its payload", ending(log), "CF-VERIFY-046")
    log = begun()
    message(log, stored=False, own=head(f"{IDENTITY.keyid}/{'c' * 16}", 3, "1" * 64))
    yield Case("an own handoff that was sealed elsewhere", ending(log).evidence(), "intact", [])
    log = begun()
    digest = message(log)
    receipt(log, digest, by=IDENTITY, own=head(log.origin, 1, "0" * 64))
    yield broken("a receipt that names a checkpoint that never was", ending(log), "CF-VERIFY-047")
    log = begun()
    accepted(log, given(log))
    yield broken("an accepted handoff whose payload is not there", ending(log), "CF-VERIFY-046")
    yield from _heads()
    yield from _own_histories()


def _accepted_in_two() -> Iterator[Case]:
    """One handoff in two logs of the evidence, accepted by a receipt in each."""
    for name, owners, verdict in (
        ("a handoff that one identity accepted in two logs", (IDENTITY, IDENTITY), "broken"),
        ("a handoff that two identities accepted", (IDENTITY, PEER), "intact"),
    ):
        logs = []
        for place, owner in zip((None, OTHER), owners, strict=True):
            log = begun() if place is None else begun(Log(place, owner))
            members = {"issued": NOW, "expires": NOW + 300_000, "nonce": "7" * 32, "stored": True}
            digest = given(log, **members)
            receipt(log, digest, by=owner, issued=NOW + len(logs))
            logs.append(ending(log))
        codes = ["CF-VERIFY-048"] if verdict == "broken" else []
        yield Case(name, logs[0].evidence(logs[1]), verdict, codes)
    for name, own, taken_back, verdict, code in (
        ("one receipt in two logs, that names none", False, 0, "broken", "CF-VERIFY-048"),
        ("one receipt in two logs, that names one", True, 0, "intact", ""),
        (
            "a handoff accepted in two logs, one of which takes it back",
            False,
            1,
            "incomplete",
            "CF-VERIFY-049",
        ),
        (
            "a handoff accepted in two logs, both of which take it back",
            False,
            2,
            "incomplete",
            "CF-VERIFY-049",
        ),
    ):
        logs = []
        for number, place in enumerate((None, OTHER)):
            log = begun() if place is None else begun(Log(place, IDENTITY))
            members = {"issued": NOW, "expires": NOW + 300_000, "nonce": "7" * 32, "stored": True}
            digest = given(log, **members)
            named = {"own": head(f"{IDENTITY.keyid}/{'c' * 16}", 3, "1" * 64)} if own else {}
            receipt(log, digest, by=IDENTITY, issued=NOW + (number if taken_back else 0), **named)
            receipt(log, digest, by=IDENTITY, status="refused")  # a replay takes nothing back
            if number < taken_back:
                back = {"issued": NOW + 9, "nonce": "7" * 32, "status": "refused"}
                receipt(log, digest, by=IDENTITY, **back)
                receipt(log, digest, by=IDENTITY, **(back | {"issued": NOW + 10}))
            logs.append(ending(log))
        yield Case(name, logs[0].evidence(logs[1]), verdict, [code] * (taken_back or 1) if code else [])
    log = begun()
    receipt(log, given(log, stored=True), by=PEER, status="refused", nonce="7" * 32)
    yield Case("a refusal with a nonce that takes nothing back", ending(log).evidence(), "intact", [])
    elsewhere = {"own": head(f"{IDENTITY.keyid}/{'c' * 16}", 3, "1" * 64)}
    log = begun()
    digest = message(log, stored=False, **elsewhere)
    receipt(log, digest)
    receipt(log, digest, by=IDENTITY, **elsewhere)
    yield Case(
        "receipts that came back to another log than sealed the handoff", ending(log).evidence(), "intact", []
    )
    log = begun()
    digest = message(log, stored=False, **elsewhere)
    receipt(log, digest)
    receipt(log, digest, by=IDENTITY)
    yield broken(
        "an own handoff of another log, accepted here without its payload", ending(log), "CF-VERIFY-046"
    )


def accepting(name: str, *statuses: str, by: Log | None = None) -> tuple[Log, str]:
    """A log with a handoff of the peer's and receipts that name a checkpoint of it, or of ``by``; the digest."""
    log = begun(Log(name, IDENTITY))
    log.checkpoint()
    digest = given(log, issued=NOW, expires=NOW + 300_000, nonce="7" * 32, stored=True)
    last = (by or log).checkpoints[0]
    own = head((by or log).origin, last["size"], last["root"])
    for status in statuses:
        changes: dict[str, Any] = {"status": "refused", "nonce": "7" * 32} if status == "refused" else {}
        receipt(log, digest, by=IDENTITY, issued=NOW + 1, own=own, **changes)
    return ending(log), digest


def _copies() -> Iterator[Case]:
    """What a receipt says counts in the log that it names, not in one that keeps a copy."""
    first, *more = "00000000000000a1", "00000000000000b2", "00000000000000c3"
    for name, back, third, verdict, codes in (
        ("a copy of an acceptance", False, False, "intact", []),
        ("a copy of an acceptance that was taken back", True, False, "incomplete", ["CF-VERIFY-049"]),
        (
            "a copy of an acceptance that was taken back, and another",
            True,
            True,
            "incomplete",
            ["CF-VERIFY-049"],
        ),
        ("a copy of an acceptance, and another", False, True, "broken", ["CF-VERIFY-048"]),
    ):
        accepted_in, _ = accepting(first, "accepted", *(["refused"] if back else []))
        logs = [accepting(more[0], "accepted", by=accepted_in)[0]]
        logs += [accepting(more[1], "accepted")[0]] if third else []
        yield Case(name, accepted_in.evidence(*logs), verdict, codes)
    accepted_in, _ = accepting(first, "accepted")
    copied, _ = accepting(more[0], "accepted", "refused", by=accepted_in)
    yield Case("a refusal takes back no copy", accepted_in.evidence(copied), "intact", [])


def _own_histories() -> Iterator[Case]:
    """A log whose identity tells two roots of one size of it, in the log itself."""
    for name, roots, codes in (
        ("a log that names a checkpoint of its own and another root", ["", "0"], ["CF-VERIFY-047"]),
        ("a log that names two roots that it never had", ["1", "2"], ["CF-VERIFY-047"] * 2),
        ("a log that names a root that it never had, then the one it has", ["1", ""], ["CF-VERIFY-047"]),
        ("a log that names one root that it never had twice", ["1", "1"], ["CF-VERIFY-047"] * 2),
    ):
        log = begun()
        log.checkpoint()
        right = log.checkpoints[0]["root"]
        for number, root in enumerate(roots):
            own = head(log.origin, 2, root * 64 or right)
            message(log, own=own, nonce=f"{number}" * 32)
        forked = len(set(roots)) > 1
        yield broken(name, ending(log), *codes, *(["CF-TRUST-042"] if forked else []))


def _tainted(taint: list[str]) -> Log:
    log = begun()
    digest = given(log, taint=["web"])
    authority = {"allow": ["repo:read"], "expires": ENDS, "from": digest, "maxDepth": 0}
    message(log, authority=authority, taint=taint)
    return ending(log)


def _forged() -> Log:
    log = begun()
    digest = message(
        log,
        by=STRANGER,
        actor="weather",
        to="counter",
        stored=False,
        authority={"allow": ALLOW, "expires": ENDS, "maxDepth": 2},
        sender={"actor": "weather", "key": PEER.keyid},
    )
    message(log, authority={"allow": ["repo:read"], "expires": ENDS, "from": digest, "maxDepth": 1})
    return ending(log)


def _follows(taint: list[str]) -> Log:
    log = begun()
    parent = received(log, taint=["web"])
    message(log, parents=[{"digest": parent, "rel": "control"}], taint=taint)
    return ending(log)


def _heads() -> Iterator[Case]:
    theirs = f"{PEER.keyid}/{'c' * 16}"
    log = begun()
    received(log, own=head(theirs, 3, "1" * 64))
    received(log, own=head(theirs, 3, "2" * 64), nonce="6" * 32)
    yield broken("a peer that tells two histories", ending(log), "CF-TRUST-042")
    log = begun()
    received(log, own=head(theirs, 3, "1" * 64))
    received(log, own=head(f"{STRANGER.keyid}/{'c' * 16}", 3, "2" * 64), nonce="6" * 32)
    received(log, own=head(theirs, 4, "2" * 64), nonce="7" * 32)
    yield Case("a peer that tells of another's log says nothing", ending(log).evidence(), "intact", [])
    log = ending(begun())
    last = log.checkpoints[0]
    received(log, seen=[head(log.origin, last["size"], last["root"])])
    yield Case("a peer that was told a checkpoint", ending(log).evidence(), "intact", [])
    log = ending(begun())
    received(log, seen=[head(log.origin, log.checkpoints[0]["size"], "0" * 64)])
    yield broken("a peer that was told another history", ending(log), "CF-TRUST-043")
    log = ending(begun())
    received(log, seen=[head(log.origin, 99, "0" * 64)])
    yield broken("a peer that was told of more", ending(log), "CF-TRUST-043")
    two = ending(begun(Log(OTHER, PEER)))
    log = begun()
    received(log, own=head(two.origin, 2, "0" * 64))
    yield Case(
        "the log of a peer that is not what the peer said",
        ending(log).evidence(two),
        "broken",
        ["CF-TRUST-043"],
    )


def judged(name: str, log: Log, verdict: str, *codes: str, signed: str | None = None, **changes: Any) -> Case:
    """A log judged by a policy; `admin` is the identity, no other key is pinned."""
    case = Case(name, log.evidence(), verdict, list(codes), ("identity+",))
    case.policy = policy(**changes) if signed is None else signed
    return case


def policy_cases() -> Iterator[Case]:
    """Every rule that needs a policy."""
    whole = begun()
    received(whole)
    ending(whole)
    ours = {"actor": "counter", "key": IDENTITY.keyid}
    yield judged("a policy that permits everything", whole, "intact")
    yield judged(
        "a policy signed by nobody who may",
        whole,
        "cannot-tell",
        "CF-TRUST-004",
        "CF-VERIFY-042",
        signed=policy(PEER),
    )
    both = {"keys": sorted([IDENTITY.keyid, PEER.keyid]), "threshold": 2}
    yield judged(
        "a policy signed by two, one of them no admin here",
        whole,
        "cannot-tell",
        "CF-TRUST-004",
        "CF-VERIFY-042",
        signed=policy(IDENTITY, PEER, admins=both),
    )
    yield judged(
        "a policy that begins in 2100",
        whole,
        "cannot-tell",
        "CF-TRUST-008",
        "CF-VERIFY-042",
        validFrom=4_102_444_800_000,
    )
    only = {"agents": [agent("*", IDENTITY)], "keys": by_key(key(IDENTITY))}
    yield judged("a sender whose key is not listed", whole, "cannot-tell", "CF-VERIFY-042", **only)
    theirs = {"agents": [agent("*", PEER)], "keys": by_key(key(PEER))}
    yield judged("an identity that is not listed", whole, "cannot-tell", "CF-VERIFY-032", **theirs)

    def keys(**changes: Any) -> dict[str, Any]:
        return {"keys": by_key(key(IDENTITY), key(PEER, **changes))}

    yield judged("a key before its time", whole, "broken", "CF-TRUST-051", **keys(notBefore=NOW + 86_400_000))
    yield judged("a key after its time", whole, "broken", "CF-TRUST-051", **keys(notAfter=NOW - 1))
    lost = keys(status="compromised", since=NOW - 1)
    yield judged("a compromised key", whole, "broken", "CF-TRUST-052", **lost)
    later = keys(status="compromised", since=NOW + 86_400_000)
    yield judged("a key that was compromised later", whole, "cannot-tell", "CF-TRUST-053", **later)
    old = keys(status="superseded", notAfter=NOW + 86_400_000)
    yield judged("a superseded key", whole, "cannot-tell", "CF-TRUST-053", **old)
    gone = {"keys": by_key(key(IDENTITY, status="compromised", since=NOW + 86_400_000), key(PEER))}
    yield judged(
        "a log of a compromised identity", whole, "cannot-tell", "CF-TRUST-054", "CF-TRUST-053", **gone
    )
    log = bound()
    handoff(log)
    ending(log)
    listed = {"keys": by_key(key(IDENTITY), key(PEER), key(ACTOR, status="compromised", since=0))}
    yield judged("a handoff by a compromised key of an actor", log, "broken", "CF-TRUST-052", **listed)
    yield judged("a handoff by an actor that no policy lists", log, "intact")

    agents = [agent("counter", IDENTITY), agent("weather", IDENTITY)]
    yield judged("a key that speaks for another agent", whole, "broken", "CF-TRUST-050", agents=agents)
    yield judged(
        "an agent that nobody speaks for",
        whole,
        "broken",
        "CF-TRUST-050",
        agents=[agent("counter", IDENTITY)],
    )
    agents = [agent("*", IDENTITY, PEER), agent("weather", IDENTITY, PEER, threshold=2)]
    yield judged("one signature where two are needed", whole, "broken", "CF-TRUST-050", agents=agents)
    log = begun()
    message(log, authority={"allow": ALLOW, "expires": ENDS, "maxDepth": 2}, purpose="tests", taint=["web"])
    ending(log)
    yield judged("authority started by a root", log, "intact", roots=["counter"])
    yield judged("authority started by nobody's leave", log, "broken", "CF-TRUST-055", roots=["weather"])
    edge: dict[str, Any] = {"from": "counter", "to": "reader"}
    wide = edge | {
        "acceptTaint": ["pdf", "web"],
        "allow": ["repo:*"],
        "maxDepth": 2,
        "purposes": ["tests"],
        "ttlMs": 300_000,
    }
    yield judged("an edge that permits it", log, "intact", edges=[{"from": "a", "to": "b"}, wide])
    for name, changes in (
        ("no edge at all", None),
        ("an edge to another", {"to": "writer"}),
        ("an edge for another purpose", {"purposes": ["fun"]}),
        ("an edge for less", {"allow": ["repo:read"]}),
        ("an edge for nothing", {"allow": []}),
        ("an edge that ends earlier", {"maxDepth": 1}),
        ("an edge for a shorter time", {"ttlMs": 299_999}),
        ("an edge without that taint", {"acceptTaint": ["pdf"]}),
    ):
        edges = [] if changes is None else [wide | changes]
        yield judged(name, log, "broken", "CF-TRUST-056", edges=edges)
    yield judged("a limit of time", log, "broken", "CF-TRUST-056", limits={"ttlMs": 299_999})
    yield judged("a limit of depth", log, "broken", "CF-TRUST-056", limits={"maxDepth": 1})
    log = begun()
    receipt(log, message(log), by=IDENTITY, sender=ours)
    yield judged("a receipt by whom nobody asked", ending(log), "intact")
