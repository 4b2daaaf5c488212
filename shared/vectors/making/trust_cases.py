"""Trust policies, patterns and authority: what is read, what is refused, what covers and narrows what."""

from __future__ import annotations

from typing import Any, Final

from making import formats
from making.formats import Key, b64, jcs, sha256
from making.logs import ACTOR, AT, IDENTITY, PEER, STRANGER

NOW: Final = AT // 1000
DAY: Final = 86_400_000


def key(of: Key, **changes: Any) -> dict[str, Any]:
    """A key as a policy lists it; None leaves a member out."""
    listed = {"alg": "ed25519", "key": of.keyid, "notBefore": 0, "spki": b64(of.spki), "status": "active"}
    return {name: value for name, value in (listed | changes).items() if value is not None}


def by_key(*keys: dict[str, Any]) -> list[dict[str, Any]]:
    """Keys in the order of their fingerprints."""
    return sorted(keys, key=lambda one: one["key"])


def agent(pattern: str, *keys: Key, threshold: int = 1) -> dict[str, Any]:
    """An entry of `agents`."""
    return {"id": pattern, "keys": sorted(one.keyid for one in keys), "threshold": threshold}


def content(**changes: Any) -> dict[str, Any]:
    """The predicate of a policy: identity and peer speak for everybody, the identity signs policies."""
    whole = {
        "admins": {"keys": [IDENTITY.keyid], "threshold": 1},
        "agents": [agent("*", IDENTITY, PEER)],
        "keys": by_key(key(IDENTITY), key(PEER)),
        "name": "vectors",
        "validFrom": 0,
        "version": 1,
    }
    return {name: value for name, value in (whole | changes).items() if value is not None}


def policy(*keys: Key, subject: dict[str, Any] | None = None, **changes: Any) -> str:
    """The envelope of a policy."""
    predicate = content(**changes)
    about = {"digest": {"sha256": sha256(jcs(predicate))}, "name": predicate.get("name", "")}
    payload = formats.statement("policy", subject or about, predicate)
    return jcs(formats.envelope(payload, *(keys or (IDENTITY,)), carry=True)).decode()


EDGES: Final = [
    {"from": "planner", "to": "team/*"},
    {
        "acceptTaint": ["web"],
        "allow": ["repo:*"],
        "from": "team/*",
        "maxDepth": 1,
        "purposes": ["tests"],
        "to": "*",
        "ttlMs": 60_000,
    },
]
FULL: Final[dict[str, Any]] = {
    "admins": {"keys": sorted([IDENTITY.keyid, STRANGER.keyid]), "threshold": 2},
    "agents": [agent("*", PEER), agent("team/*", IDENTITY, PEER, threshold=2)],
    "edges": EDGES,
    "keys": by_key(
        key(IDENTITY, notAfter=NOW + DAY),
        key(PEER, status="superseded", notAfter=NOW),
        key(ACTOR, status="compromised", since=NOW),
    ),
    "limits": {"maxDepth": 3, "ttlMs": 600_000},
    "previous": "b" * 64,
    "roots": ["planner"],
    "time": {"skewMs": 1000},
    "version": 2,
}


def policies() -> list[dict[str, Any]]:
    """Policies that are read."""
    listed = [
        ("a small policy", policy()),
        ("a policy with every member, signed by two", policy(IDENTITY, STRANGER, **FULL)),
        ("a policy that says more", policy(ext={"edges": [], "more": True})),
    ]
    out = []
    for name, text in listed:
        payload = formats.unb64(formats.json_of(text)["payload"])
        out.append({"digest": sha256(payload), "envelope": text, "name": name})
    return out


def refused_policies() -> list[dict[str, Any]]:
    """Policies that are refused, whoever signed them."""
    own, peer = key(IDENTITY), key(PEER)

    def keys(*listed: dict[str, Any]) -> str:
        return policy(keys=by_key(*listed))

    def agents(*listed: dict[str, Any]) -> str:
        return policy(agents=list(listed))

    def edge(**changes: Any) -> str:
        return policy(edges=[{"from": "a", "to": "b"} | changes])

    weak = formats.b64(bytes.fromhex("302a300506032b6570032100") + b"\1" + bytes(31))
    small = sha256(bytes.fromhex("302a300506032b6570032100") + b"\1" + bytes(31))
    swapped = sorted(by_key(own, peer), key=lambda one: one["key"], reverse=True)
    other = {"digest": {"sha256": "0" * 64}, "name": "vectors"}
    listed: list[tuple[str, str, str]] = [
        ("no JSON", "policy", "CF-TRUST-002"),
        ("a handoff", _handoff(), "CF-TRUST-002"),
        ("an unknown member", policy(more=1), "CF-TRUST-002"),
        ("what it says more is a list", policy(ext=[]), "CF-TRUST-002"),
        ("a float", policy(validFrom=0.5), "CF-TRUST-002"),
        ("version 0", policy(version=0), "CF-TRUST-002"),
        ("without admins", policy(admins=None), "CF-TRUST-002"),
        ("a threshold of 0", policy(admins={"keys": [IDENTITY.keyid], "threshold": 0}), "CF-TRUST-002"),
        (
            "a threshold below 0",
            policy(admins={"keys": [IDENTITY.keyid], "threshold": -1}),
            "CF-TRUST-002",
        ),
        ("no admin at all", policy(admins={"keys": [], "threshold": 1}), "CF-TRUST-002"),
        ("without keys", policy(keys=[]), "CF-TRUST-002"),
        ("another algorithm", keys(key(IDENTITY, alg="none"), peer), "CF-TRUST-002"),
        ("an unknown status", keys(key(IDENTITY, status="good"), peer), "CF-TRUST-002"),
        ("an agent's threshold of 0", agents(agent("*", PEER, threshold=0)), "CF-TRUST-002"),
        ("a name with a space", policy(name="a b"), "CF-TRUST-002"),
        ("a ttl of 0", edge(ttlMs=0), "CF-TRUST-002"),
        ("an edge with an unknown member", edge(always=True), "CF-TRUST-002"),
        ("a subject of another predicate", policy(subject=other), "CF-TRUST-003"),
        (
            "a subject of another name",
            policy(subject={"digest": {"sha256": sha256(jcs(content()))}, "name": "x"}),
            "CF-TRUST-003",
        ),
        (
            "more admins must sign than there are",
            policy(admins={"keys": [IDENTITY.keyid], "threshold": 2}),
            "CF-TRUST-003",
        ),
        (
            "an admin twice",
            policy(admins={"keys": [IDENTITY.keyid] * 2, "threshold": 2}),
            "CF-TRUST-003",
        ),
        ("version 2 without the one before", policy(version=2), "CF-TRUST-003"),
        ("version 1 with one before", policy(previous="0" * 64), "CF-TRUST-003"),
        ("keys in another order", policy(keys=swapped), "CF-TRUST-003"),
        ("a key twice", keys(own, own, peer), "CF-TRUST-003"),
        ("a key that is not the one it says", keys(key(IDENTITY, spki=b64(PEER.spki)), peer), "CF-TRUST-003"),
        ("a key of low order", keys(own, peer, key(PEER, key=small, spki=weak)), "CF-TRUST-003"),
        ("a key that is no base64", keys(key(IDENTITY, spki="*"), peer), "CF-TRUST-003"),
        (
            "a key that ends before it begins",
            keys(key(IDENTITY, notBefore=2, notAfter=1), peer),
            "CF-TRUST-003",
        ),
        ("superseded without an end", keys(key(IDENTITY, status="superseded"), peer), "CF-TRUST-003"),
        ("compromised at no time", keys(key(IDENTITY, status="compromised"), peer), "CF-TRUST-003"),
        ("active and compromised since", keys(key(IDENTITY, since=1), peer), "CF-TRUST-003"),
        ("an agent by a key that is not listed", agents(agent("*", STRANGER)), "CF-TRUST-003"),
        ("an agent by one key twice", agents({**agent("*", PEER), "keys": [PEER.keyid] * 2}), "CF-TRUST-003"),
        ("an agent that needs more keys than it has", agents(agent("*", PEER, threshold=2)), "CF-TRUST-003"),
        ("an agent twice", agents(agent("a", PEER), agent("a", IDENTITY)), "CF-TRUST-003"),
        ("a star in the middle", agents(agent("team/*/writer", PEER)), "CF-TRUST-003"),
        ("a name that is empty", agents(agent("team//writer", PEER)), "CF-TRUST-003"),
        ("a star within an agent's last name", agents(agent("team/w*", PEER)), "CF-TRUST-003"),
        ("two stars for an agent", agents(agent("**", PEER)), "CF-TRUST-003"),
        ("an edge from a star behind a colon", edge(**{"from": "team:*"}), "CF-TRUST-003"),
        ("an edge to a star behind a colon", edge(to="team:*"), "CF-TRUST-003"),
        ("an edge from a star within a name", edge(**{"from": "te*m"}), "CF-TRUST-003"),
        ("an edge to a star within a first name", edge(to="t*/writer"), "CF-TRUST-003"),
        ("a star within a root", policy(roots=["te*m"]), "CF-TRUST-003"),
        ("a root of a star behind a colon", policy(roots=["team:*"]), "CF-TRUST-003"),
        ("a capability with dots", edge(allow=["repo:../x"]), "CF-TRUST-003"),
        ("capabilities in another order", edge(allow=["b", "a"]), "CF-TRUST-003"),
        ("roots twice", policy(roots=["a", "a"]), "CF-TRUST-003"),
        ("larger than 512 KiB", policy() + " " * 524_288, "CF-TRUST-001"),
    ]
    return [
        {"code": code, "envelope": text, "name": name}
        if len(text) < 100_000
        else {"code": code, "envelope": text.rstrip(" "), "name": name, "spaces": 524_288}
        for name, text, code in listed
    ]


def _handoff() -> str:
    subject = {"digest": {"counterfoil-v1": "0" * 64}, "name": "payload"}
    payload = formats.statement("handoff", subject, {})
    return jcs(formats.envelope(payload, IDENTITY)).decode()


def covers() -> list[dict[str, Any]]:
    """Whether a pattern covers a text."""
    listed = [
        ("planner", "planner", True),
        ("planner", "planner/x", False),
        ("planner", "Planner", False),
        ("team/*", "team/writer", True),
        ("team/*", "team/a/b", True),
        ("team/*", "team/*", True),
        ("team/*", "team/a/*", True),
        ("team/*", "team", False),
        ("team/*", "team/", False),
        ("team/*", "teams/x", False),
        ("team/a/*", "team/*", False),
        ("*", "anything/at:all", True),
        ("*", "*", True),
        ("team*", "team*", True),
        ("team*", "teamx", False),
        ("repo:*", "repo:read", True),
        ("repo:*", "repo", False),
        ("repo:write:tests/*", "repo:write:tests/a/b", True),
        ("repo:write:tests/*", "repo:write:testsuite", False),
        ("repo:write:tests/*", "repo:write:*", False),
        ("repo:read", "repo:*", False),
        ("caf\u00e9", "cafe\u0301", False),
    ]
    return [{"asked": asked, "covered": covered, "granted": granted} for granted, asked, covered in listed]


def capabilities() -> list[dict[str, Any]]:
    """What is a capability and what is none."""
    good = ["*", "repo", "repo:read", "repo:write:tests/*", "a/b:c", "x" * 256, "repo:*", "a.b:c..d"]
    bad = ["", "repo:", ":repo", "a//b", "a:*:b", "a*", "*a", "a/../b", "a/.", "..", "a b", 'a"b', "a\\b"]
    bad += ["caf\u00e9", "x" * 257, "**", "a/**"]
    return [{"good": True, "text": one} for one in good] + [{"good": False, "text": one} for one in bad]


def judged() -> list[dict[str, Any]]:
    """What a key of the policy with every member is worth for a statement of a time, proven or not."""
    listed: list[tuple[Key, int, int | None, str]] = [
        (IDENTITY, NOW, None, "valid"),
        (IDENTITY, NOW + DAY, None, "valid"),
        (IDENTITY, NOW + DAY + 1, None, "outside"),
        (STRANGER, NOW, None, "unknown"),
        (PEER, NOW, None, "unproven"),
        (PEER, NOW, NOW, "valid"),
        (PEER, NOW, NOW + 1, "unproven"),
        (PEER, NOW + 1, None, "outside"),
        (ACTOR, NOW - 1, None, "unproven"),
        (ACTOR, NOW, None, "revoked"),
        (ACTOR, NOW - 1, NOW - 1, "valid"),
        (ACTOR, NOW - 1, NOW, "unproven"),
    ]
    out = []
    for of, issued, proven, worth in listed:
        case: dict[str, Any] = {"issued": issued, "key": of.keyid, "worth": worth}
        out.append(case if proven is None else case | {"proven": proven})
    return out


def build() -> dict[str, Any]:
    """Members of `statement.json`."""
    return {
        "capabilities": capabilities(),
        "covers": covers(),
        "judged": judged(),
        "policies": policies(),
        "refused_policies": refused_policies(),
    }
