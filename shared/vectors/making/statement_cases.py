"""Statements and envelopes of one fixed key, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from making import archive_cases, formats, trust_cases
from making.archive_cases import ARCHIVE, ARCHIVED
from making.formats import b64, jcs, sha256
from making.logs import ACTOR, AT, IDENTITY, KEYS, LOG, PEER, RUN, STRANGER

ISSUED: Final = AT // 1000
PAYLOAD: Final = b"The report is done. " * 20
SUBJECT: Final = {"digest": {"counterfoil-v1": sha256(PAYLOAD)}, "name": "payload"}
CONTENT: Final = {
    "basis": "observed",
    "from": ["writer"],
    "kind": "edge",
    "payload": sha256(PAYLOAD),
    "to": "reviewer",
}
HANDOFF: Final[dict[str, Any]] = {
    "content": CONTENT,
    "exact": True,
    "issued": ISSUED,
    "parents": [],
    "payload": {"media": formats.TEXT, "size": len(PAYLOAD)},
    "proof": "recorded",
    "sender": {"actor": "team", "key": IDENTITY.keyid},
}
ORIGIN: Final = f"{IDENTITY.keyid}/{LOG}"
HEAD: Final = {"origin": ORIGIN, "root": "a" * 64, "size": 7}
AUTHORITY: Final = {"allow": ["repo:read"], "expires": ISSUED + 1, "maxDepth": 0}
RECEIPT: Final[dict[str, Any]] = {
    "checks": ["signature", "statement"],
    "handoff": "9" * 64,
    "issued": ISSUED,
    "sender": {"actor": "counter", "key": IDENTITY.keyid},
    "status": "accepted",
}
RECEIVED: Final = {"digest": {"sha256": "9" * 64}, "name": "handoff"}
BINDING: Final[dict[str, Any]] = {
    "actor": "team/writer",
    "issued": ISSUED,
    "key": ACTOR.keyid,
    "origin": ORIGIN,
    "spki": b64(ACTOR.spki),
}
BOUND: Final = {"digest": {"sha256": ACTOR.keyid}, "name": "team/writer"}

LISTED: Final = [
    {"name": "config.json", "sha256": sha256(b"{}"), "size": 2},
    {"name": "weights/model.gguf", "sha256": sha256(b"GGUF"), "size": 4},
]
WEIGHTS: Final[dict[str, Any]] = {
    "cached": 0,
    "files": {
        "count": 2,
        "list": {"media": formats.WEIGHTS, "sha256": sha256(jcs(LISTED)), "size": len(jcs(LISTED))},
        "size": 6,
    },
    "issued": ISSUED,
    "key": IDENTITY.keyid,
    "name": "llama-3",
    "root": formats.weights_root(LISTED),
    "without": [".git", ".gitattributes", ".github", ".gitignore"],
}
WEIGHED: Final = {"digest": {"sha256": WEIGHTS["root"]}, "name": "llama-3"}


def statements() -> list[dict[str, Any]]:
    """One of each kind, small and with every member."""
    full = {
        **HANDOFF,
        "audience": "counter",
        "authority": {
            "allow": ["repo:read", "repo:write:tests/*"],
            "expires": ISSUED + 600_000,
            "from": "6" * 64,
            "maxDepth": 3,
        },
        "call": "c" * 32,
        "content": {
            **CONTENT,
            "parents": [{"address": "invoke_workflow:team/step:writer@1", "rel": "control"}],
        },
        "exact": False,
        "expires": ISSUED + 300_000,
        "nonce": "5" * 32,
        "own": HEAD,
        "parents": [{"digest": "7" * 64, "rel": "control"}, {"digest": "8" * 64, "rel": "data"}],
        "policy": "4" * 64,
        "proof": "countersigned",
        "purpose": "write unit tests",
        "reason": "the node could read all of these",
        "run": RUN,
        "seen": [{**HEAD, "origin": f"{PEER.keyid}/{'c' * 16}"}],
        "taint": ["pdf", "web"],
    }
    addresses = [
        {"address": f"invoke_workflow:team/step:n{number:02d}@1", "rel": "control"} for number in range(17)
    ]
    wide = {"count": 17, "sha256": sha256(jcs(addresses))}
    many = {
        **HANDOFF,
        "content": {**CONTENT, "parentSet": wide},
        "parentSet": {"count": 17, "sha256": "b" * 64, "size": 1649},
    }
    refused = {
        **RECEIPT,
        "checks": [],
        "nonce": "5" * 32,
        "own": HEAD,
        "policy": "4" * 64,
        "reason": "CF-HANDOFF-015 expired",
        "run": RUN,
        "seen": [{**HEAD, "origin": f"{PEER.keyid}/{'c' * 16}"}],
        "status": "refused",
    }
    both = {"digest": {**SUBJECT["digest"], "sha256": sha256(PAYLOAD)}, "name": "payload"}
    listed = [
        ("a handoff", "handoff", SUBJECT, HANDOFF, False),
        ("a handoff with every member, its key carried along", "handoff", both, full, True),
        ("a handoff with many parents", "handoff", SUBJECT, many, False),
        ("a receipt", "receipt", RECEIVED, RECEIPT, False),
        ("a receipt with every member", "receipt", RECEIVED, refused, False),
        ("a binding", "binding", BOUND, BINDING, False),
        ("an archive", "archive", ARCHIVED, ARCHIVE, False),
        (
            "an archive with every member",
            "archive",
            ARCHIVED,
            {**ARCHIVE, "ext": {}, "retain": ISSUED},
            False,
        ),
        ("a manifest of weights", "weights", WEIGHED, WEIGHTS, False),
        (
            "a manifest of weights with every member",
            "weights",
            WEIGHED,
            {**WEIGHTS, "cached": 1, "source": {"repo": "meta-llama/Llama-3", "revision": "main"}},
            True,
        ),
    ]
    return [signed(*one) for one in listed]


def signed(
    name: str, kind: str, subject: dict[str, Any], predicate: dict[str, Any], carry: bool
) -> dict[str, Any]:
    """A statement and its envelope."""
    payload = formats.statement(kind, subject, predicate)
    envelope = formats.envelope(payload, IDENTITY, carry=carry)
    out = {
        "digest": sha256(payload),
        "envelope": jcs(envelope).decode(),
        "name": name,
        "pae": formats.pae(payload).hex(),
        "payload": payload.decode(),
    }
    if not carry:
        parts = (payload, IDENTITY.sign(formats.pae(payload)), bytes.fromhex(IDENTITY.keyid))
        out["compact"] = ".".join(b64(part).replace("+", "-").replace("/", "_").rstrip("=") for part in parts)
    return out


def refused_statements() -> list[dict[str, Any]]:
    """Payloads that are signed well and yet no statement of this profile."""
    good = formats.statement("handoff", SUBJECT, HANDOFF)

    def made(predicate: Any = HANDOFF, subject: Any = SUBJECT, kind: str = "handoff") -> bytes:
        return formats.statement(kind, subject, predicate)

    def without(member: str) -> bytes:
        return made({name: value for name, value in HANDOFF.items() if name != member})

    def content(**changes: Any) -> bytes:
        return made({**HANDOFF, "content": {**CONTENT, **changes}})

    def authority(**changes: Any) -> bytes:
        return made({**HANDOFF, "authority": {**AUTHORITY, **changes}})

    without_end = {name: value for name, value in AUTHORITY.items() if name != "expires"}
    value = json.loads(good)
    deep: Any = 1
    for _ in range(15):
        deep = [deep]
    listed: list[tuple[str, bytes, str]] = [
        ("longer than 8 KiB", made({**HANDOFF, "reason": "x" * 8192}), "CF-STMT-001"),
        ("white space", good + b"\n", "CF-STMT-002"),
        (
            "members out of order",
            good.replace(b'{"_type":"https://in-toto.io/Statement/v1",', b"{")[:-1]
            + b',"_type":"https://in-toto.io/Statement/v1"}',
            "CF-STMT-002",
        ),
        ("a key twice", good.replace(b'"exact":true', b'"exact":true,"exact":true'), "CF-STMT-002"),
        (
            "an integer beyond 2^53-1",
            made({**HANDOFF, "issued": 0}).replace(b'"issued":0', b'"issued":9007199254740992'),
            "CF-STMT-002",
        ),
        ("nested 17 levels deep", made({**HANDOFF, "x": deep}), "CF-STMT-002"),
        ("no JSON", b"handoff", "CF-STMT-002"),
        ("a list", b"[]", "CF-STMT-003"),
        ("a further member", jcs({**value, "x": 1}), "CF-STMT-003"),
        ("Statement v0.1", jcs({**value, "_type": "https://in-toto.io/Statement/v0.1"}), "CF-STMT-003"),
        ("null", made({**HANDOFF, "nonce": None}), "CF-STMT-006"),
        ("a float", made({**HANDOFF, "issued": 1.5}), "CF-STMT-006"),
        ("an unknown kind", made(kind="gift"), "CF-STMT-004"),
        ("a later version", good.replace(b"handoff:v1", b"handoff:v9"), "CF-STMT-004"),
        ("another prefix", good.replace(b"urn:counterfoil", b"urn:counterfeit"), "CF-STMT-004"),
        ("no subject", jcs({**value, "subject": []}), "CF-STMT-005"),
        ("two subjects", jcs({**value, "subject": [SUBJECT, SUBJECT]}), "CF-STMT-005"),
        ("a subject of another name", made(subject={**SUBJECT, "name": "file"}), "CF-STMT-005"),
        ("a subject without digest", made(subject={"name": "payload"}), "CF-STMT-005"),
        (
            "a subject with plain sha256 only",
            made(subject={"digest": {"sha256": "0" * 64}, "name": "payload"}),
            "CF-STMT-005",
        ),
        ("a digest in capitals", content(payload="A" * 64), "CF-STMT-005"),
        ("a digest that is short", content(payload="a" * 63), "CF-STMT-005"),
        ("a digest with a newline", content(payload="a" * 64 + "\n"), "CF-STMT-005"),
        ("an unknown member", made({**HANDOFF, "more": {}}), "CF-STMT-005"),
        ("what it says more is a text", made({**HANDOFF, "ext": "x"}), "CF-STMT-005"),
        ("an unknown member of the content", content(why="x"), "CF-STMT-005"),
        ("without its sender", without("sender"), "CF-STMT-005"),
        ("without parents", without("parents"), "CF-STMT-005"),
        (
            "17 parents inline",
            made({**HANDOFF, "parents": [{"digest": sha256(b"%d" % n), "rel": "data"} for n in range(17)]}),
            "CF-STMT-005",
        ),
        (
            "an unknown relation",
            made({**HANDOFF, "parents": [{"digest": "0" * 64, "rel": "cause"}]}),
            "CF-STMT-005",
        ),
        ("an unknown kind of handoff", content(kind="shout"), "CF-STMT-005"),
        ("an unknown basis", content(basis="guessed"), "CF-STMT-005"),
        ("from nobody", content(**{"from": []}), "CF-STMT-005"),
        ("from a text", content(**{"from": "writer"}), "CF-STMT-005"),
        ("to nobody", content(to=""), "CF-STMT-005"),
        ("an actor of 1,025 characters", content(to="x" * 1025), "CF-STMT-005"),
        ("exact as a number", made({**HANDOFF, "exact": 1}), "CF-STMT-005"),
        ("issued as a text", made({**HANDOFF, "issued": "1790000000000"}), "CF-STMT-005"),
        ("issued as true", made({**HANDOFF, "issued": True}), "CF-STMT-005"),
        ("issued before 1970", made({**HANDOFF, "issued": -1}), "CF-STMT-005"),
        ("a nonce of 16 digits", made({**HANDOFF, "nonce": "5" * 16}), "CF-STMT-005"),
        ("a head of size 0", made({**HANDOFF, "own": {**HEAD, "size": 0}}), "CF-STMT-005"),
        ("17 heads seen", made({**HANDOFF, "seen": [HEAD] * 17}), "CF-STMT-005"),
        ("taints in another order", made({**HANDOFF, "taint": ["web", "pdf"]}), "CF-STMT-005"),
        ("a taint twice", made({**HANDOFF, "taint": ["web", "web"]}), "CF-STMT-005"),
        ("an empty taint", made({**HANDOFF, "taint": [""]}), "CF-STMT-005"),
        ("authority without an end", made({**HANDOFF, "authority": without_end}), "CF-STMT-005"),
        ("authority for nothing", authority(allow=[]), "CF-STMT-005"),
        ("capabilities in another order", authority(allow=["b", "a"]), "CF-STMT-005"),
        ("a capability with a star in the middle", authority(allow=["repo:*:x"]), "CF-STMT-005"),
        ("a capability with dots", authority(allow=["repo:../x"]), "CF-STMT-005"),
        ("authority to be handed on 65 times", authority(maxDepth=65), "CF-STMT-005"),
        ("authority from a name", authority(**{"from": "planner"}), "CF-STMT-005"),
        (
            "a receipt with authority",
            made({**RECEIPT, "authority": AUTHORITY}, RECEIVED, "receipt"),
            "CF-STMT-005",
        ),
        ("a policy", made({}, kind="policy"), "CF-STMT-004"),
        ("an unknown status", made({**RECEIPT, "status": "read"}, RECEIVED, "receipt"), "CF-STMT-005"),
        ("a receipt for a handoff's members", made(HANDOFF, SUBJECT, "receipt"), "CF-STMT-005"),
        (
            "a binding without origin",
            made({k: v for k, v in BINDING.items() if k != "origin"}, BOUND, "binding"),
            "CF-STMT-005",
        ),
    ]
    for what, change in archive_cases.REFUSED:
        listed.append((f"an archive {what}", made({**ARCHIVE, **change}, ARCHIVED, "archive"), "CF-STMT-005"))
    files = WEIGHTS["files"]
    for what, changes in (
        ("without a root", {"root": None}),
        ("of no file", {"files": {**files, "count": 0}}),
        (
            "whose list is of another type",
            {"files": {**files, "list": {**files["list"], "media": "text/plain"}}},
        ),
        ("whose list is empty", {"files": {**files, "list": {**files["list"], "size": 0}}}),
        ("of fewer than no bytes", {"files": {**files, "size": -1}}),
        ("with a further member", {"more": 1}),
        ("that leaves something out twice", {"without": ["a", "a"]}),
        ("that leaves out in another order", {"without": ["b", "a"]}),
        ("that leaves out 65 things", {"without": [f"{number:02d}" for number in range(65)]}),
        ("whose source is a text", {"source": "hub/model"}),
        ("whose source has no repo", {"source": {"revision": "main"}}),
        ("whose name is empty", {"name": ""}),
        ("whose number of cached digests is a text", {"cached": "1"}),
    ):
        whole = {name: value for name, value in {**WEIGHTS, **changes}.items() if value is not None}
        listed.append((f"a manifest of weights {what}", made(whole, WEIGHED, "weights"), "CF-STMT-005"))
    for kind, subject, predicate in (
        ("weights", WEIGHED, WEIGHTS),
        ("handoff", SUBJECT, HANDOFF),
        ("receipt", RECEIVED, RECEIPT),
        ("binding", BOUND, BINDING),
        ("archive", ARCHIVED, ARCHIVE),
    ):
        for what, wrong in _other_subjects(subject):
            listed.append((f"a {kind} whose subject is {what}", made(predicate, wrong, kind), "CF-STMT-005"))
    return [{"code": code, "name": name, "payload": payload.decode()} for name, payload, code in listed]


def _other_subjects(subject: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """What is not the subject of a statement, by what is wrong with it."""
    name, digest = subject["name"], subject["digest"]
    for other in (f"{name}s", name.upper(), "anything", "", 1, True, [name], {}):
        yield f"named {jcs(other).decode()}", {**subject, "name": other}
    yield "without a name", {"digest": digest}
    yield "without a digest", {"name": name}
    yield "of one member more", {**subject, "uri": "x"}
    yield "of another digest", {**subject, "digest": dict.fromkeys(digest, sha256(b"other"))}
    yield "of a digest more", {**subject, "digest": {**digest, "sha1": "0" * 40}}
    for other in (1, "x", [], {}):
        yield f"of the digest {jcs(other).decode()}", {**subject, "digest": other}
    for other in (1, "x", [], {}):
        yield jcs(other).decode(), other


def envelopes() -> list[dict[str, Any]]:
    """Spellings of one envelope: all are read as the same normal form."""
    payload = formats.statement("handoff", SUBJECT, {**HANDOFF, "reason": "\u00ff\u00fe?>~ \u7fff\u6bff"})
    normal = formats.envelope(payload, IDENTITY)
    two = formats.envelope(payload, IDENTITY, PEER)
    url = json.loads(json.dumps(normal).replace("+", "-"))
    url["payload"] = normal["payload"].replace("+", "-").replace("/", "_")
    url["signatures"][0]["sig"] = normal["signatures"][0]["sig"].replace("+", "-").replace("/", "_")
    url["payloadType"] = formats.PAYLOAD_TYPE
    assert url["payload"] != normal["payload"]
    more = {**normal, "alg": "none", "signatures": [{**normal["signatures"][0], "cert": "x"}]}
    turned = {**two, "signatures": two["signatures"][::-1]}
    longest = filled(formats.envelope(payload, IDENTITY), 65_000)
    listed = [
        ("white space", json.dumps(normal, indent=1), normal),
        ("base64url", json.dumps(url), normal),
        ("unknown members", json.dumps(more), normal),
        ("signatures in another order", json.dumps(turned), two),
        ("65,000 bytes in normal form", json.dumps(longest), longest),
    ]
    return [{"envelope": text, "name": name, "normal": jcs(form).decode()} for name, text, form in listed]


def filled(envelope: dict[str, Any], size: int) -> dict[str, Any]:
    """The envelope with one more signature, so that its JCS form has this many bytes."""
    (signature,) = envelope["signatures"]
    for keyid in ("z", "zz", "zzz", "zzzz"):
        more = {"keyid": keyid, "sig": ""}
        room = size - len(jcs({**envelope, "signatures": [signature, more]}))
        if room % 4 == 0:
            return {**envelope, "signatures": [signature, {**more, "sig": "QUFB" * (room // 4)}]}
    raise AssertionError(size)


def refused_envelopes() -> list[dict[str, Any]]:
    """Envelopes that are refused: as texts, or when the keys named are all that is known."""
    payload = formats.statement("handoff", SUBJECT, HANDOFF)
    normal = formats.envelope(payload, IDENTITY)
    signature = normal["signatures"][0]
    sign = IDENTITY.sign

    def with_(**changes: Any) -> str:
        return jcs({**normal, **changes}).decode()

    def one(**changes: Any) -> str:
        return with_(signatures=[{**signature, **changes}])

    texts: list[tuple[str, str, str]] = [
        ("no JSON", "envelope", "CF-DSSE-002"),
        ("a list", "[]", "CF-DSSE-002"),
        ("a key twice", with_()[:-1] + ',"payload":"QQ=="}', "CF-DSSE-002"),
        (
            "without payload type",
            jcs({k: v for k, v in normal.items() if k != "payloadType"}).decode(),
            "CF-DSSE-002",
        ),
        ("an empty payload", with_(payload=""), "CF-DSSE-004"),
        ("another payload type", with_(payloadType="application/vnd.in-toto+dsse"), "CF-DSSE-003"),
        ("a payload type in capitals", with_(payloadType=formats.PAYLOAD_TYPE.upper()), "CF-DSSE-003"),
        (
            "base64 with white space",
            with_(payload=normal["payload"][:8] + "\n" + normal["payload"][8:]),
            "CF-DSSE-004",
        ),
        ("base64 without padding", with_(payload="QQ"), "CF-DSSE-004"),
        ("base64 with bits left over", with_(payload="QR=="), "CF-DSSE-004"),
        ("both alphabets in one text", with_(payload="+_AA"), "CF-DSSE-004"),
        ("no signature", with_(signatures=[]), "CF-DSSE-005"),
        (
            "five signatures",
            with_(signatures=[{"keyid": f"k{n}", "sig": signature["sig"]} for n in range(5)]),
            "CF-DSSE-005",
        ),
        ("a keyid twice", with_(signatures=[signature, signature]), "CF-DSSE-005"),
        ("without keyid", with_(signatures=[{"sig": signature["sig"]}]), "CF-DSSE-005"),
        ("an empty keyid", one(keyid=""), "CF-DSSE-005"),
        ("a keyid with a space", one(keyid="a b"), "CF-DSSE-005"),
        ("a keyid of 129 characters", one(keyid="k" * 129), "CF-DSSE-005"),
        ("a carried key that is too long", one(spki="A" * 257), "CF-DSSE-005"),
        ("a carried key that is no base64", one(spki="?"), "CF-DSSE-004"),
        ("a payload that is no base64, and no signature", with_(payload="?", signatures=[]), "CF-DSSE-004"),
        ("a payload that is no base64, and no list", with_(payload="?", signatures={}), "CF-DSSE-004"),
        ("a long payload that is no base64", with_(payload="?" * 65_100), "CF-DSSE-004"),
        ("a signature that is no base64, and an empty keyid", one(sig="?", keyid=""), "CF-DSSE-005"),
        ("a signature that is no base64, and a key that is a number", one(sig="?", spki=1), "CF-DSSE-005"),
        (
            "a signature that is no base64 before one without keyid",
            with_(signatures=[{**signature, "sig": "?"}, {"sig": signature["sig"]}]),
            "CF-DSSE-004",
        ),
        (
            "a keyid twice, the second time with no base64",
            with_(signatures=[signature, {**signature, "sig": "?"}]),
            "CF-DSSE-004",
        ),
        ("a carried key of 200 long characters", one(spki="\U0001f600" * 200), "CF-DSSE-004"),
        ("larger than 64 KiB", with_(payload="QUFB" * 16385), "CF-DSSE-001"),
        ("larger than 64 KiB by white space", with_() + " " * 65_536, "CF-DSSE-001"),
        ("65,001 bytes in normal form", jcs(filled(normal, 65_001)).decode(), "CF-DSSE-001"),
    ]
    other = formats.statement("handoff", SUBJECT, {**HANDOFF, "exact": False})
    weak = {"keyid": STRANGER.keyid, "sig": b64(sign(formats.pae(payload)))}
    plain = {**signature, "sig": b64(sign(payload))}
    known: list[tuple[str, str, list[str], str]] = [
        ("nobody known signed", with_(), ["peer"], "CF-DSSE-010"),
        ("no key is known", with_(), [], "CF-DSSE-010"),
        ("a signature over another payload", with_(payload=b64(other)), ["identity"], "CF-DSSE-011"),
        ("a signature over the payload itself", with_(signatures=[plain]), ["identity"], "CF-DSSE-011"),
        (
            "a signature under another keyid",
            with_(signatures=[weak]),
            ["identity", "stranger"],
            "CF-DSSE-011",
        ),
        (
            "a signature of 63 bytes",
            one(sig=b64(sign(formats.pae(payload))[:63])),
            ["identity"],
            "CF-DSSE-011",
        ),
        ("a signature of zeros", one(sig=b64(bytes(64))), ["identity"], "CF-DSSE-011"),
        ("a carried key that is not pinned", one(spki=b64(IDENTITY.spki)), ["peer"], "CF-DSSE-010"),
    ]
    return [
        *({"code": code, "envelope": text, "name": name} for name, text, code in texts),
        *({"code": code, "envelope": text, "known": keys, "name": name} for name, text, keys, code in known),
    ]


def parents() -> list[dict[str, Any]]:
    """Parents, sorted and each once; more than 16 stand in a list of their own."""
    few = [
        {"digest": "b" * 64, "rel": "data"},
        {"digest": "a" * 64, "rel": "return"},
        {"digest": "a" * 64, "rel": "call"},
    ]
    many = [{"digest": sha256(b"%d" % number), "rel": "control"} for number in range(17)]
    out: list[dict[str, Any]] = []
    for given in ([*few, few[0]], many[:16], many):
        unique = {(one["digest"], one["rel"]) for one in given}
        listed = [{"digest": digest, "rel": rel} for digest, rel in sorted(unique)]
        case: dict[str, Any] = {"given": given, "inline": listed}
        if len(listed) > 16:
            text = jcs(listed)
            case["inline"] = []
            case["parentSet"] = {"count": len(listed), "sha256": sha256(text), "size": len(text)}
        out.append(case)
    return out


def build() -> dict[str, Any]:
    """The file."""
    return {
        "envelopes": envelopes(),
        "keys": {name: key.to_json() for name, key in KEYS.items()},
        "parents": parents(),
        "payload": PAYLOAD.decode(),
        "refused_envelopes": refused_envelopes(),
        "refused_statements": refused_statements(),
        "statements": statements(),
        **trust_cases.build(),
    }
