"""Logs with manifests of model weights, and with model calls that name them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from making import formats
from making.cases import Case, begun, broken, ending
from making.formats import Key, jcs, sha256
from making.log_trust import judged
from making.logs import ACTOR, IDENTITY, PEER, RUN, STRANGER, Log
from making.statement_cases import LISTED
from making.trust_cases import NOW, agent, by_key, key

FOLDERS: Final = [
    {"name": name, "sha256": sha256(name.encode()), "size": len(name)}
    for name in ("a/b", "a/b-c", "a b", "a-b", "\uffee", "\U0001f600")
]
"""In the order of paths: name by name, by code points."""


def manifest(
    log: Log,
    listed: Any = LISTED,
    *,
    by: Key = IDENTITY,
    carry: bool = False,
    stored: bool = True,
    data: bytes | None = None,
    files: dict[str, Any] | None = None,
    **changes: Any,
) -> dict[str, str]:
    """Append a manifest of weights; what a record names it by."""
    data = jcs(listed) if data is None else data
    if stored:
        log.blob(data)
    told = listed if isinstance(listed, list) else []
    whole = [one for one in told if isinstance(one, dict) and isinstance(one.get("size"), int)]
    sizes = [one["size"] for one in whole]
    predicate = {
        "cached": 0,
        "files": {
            "count": max(len(told), 1),
            "list": {"media": formats.WEIGHTS, "sha256": sha256(data), "size": len(data)},
            "size": max(sum(sizes), 0),
        }
        | (files or {}),
        "issued": log.now() // 1000,
        "key": by.keyid,
        "name": "llama-3",
        "root": formats.weights_root([one for one in whole if _is_hex(one.get("sha256"))]),
        "without": [],
    } | changes
    subject = {"digest": {"sha256": predicate["root"]}, "name": predicate["name"]}
    digest = log.sign(formats.statement("weights", subject, predicate), by, carry=carry)
    return {"root": predicate["root"], "statement": digest}


def _is_hex(text: Any) -> bool:
    return isinstance(text, str) and len(text) == 64 and not set(text) - set("0123456789abcdef")


def calling(log: Log, *named: Any) -> Log:
    """A run with a model call that names weights, for each of these."""
    log.start("invoke_workflow", "team", RUN)
    for number, one in enumerate(named):
        call = f"{number:032x}"
        log.start("chat", "llama-3", call, context={"weights": one})
        log.end("chat", "llama-3", call)
    log.end("invoke_workflow", "team", RUN)
    return ending(log)


def weights_cases() -> Iterator[Case]:
    """Every rule for manifests of weights, and for records that name them."""
    log = begun()
    named = manifest(log)
    whole = calling(log, named, named, named)
    yield Case(
        "model calls that name their weights",
        whole.evidence(),
        "intact",
        [],
        counts={"statements": 1, "handoffs": 0, "blobs": 2},
    )
    log = begun()
    manifest(log, FOLDERS, source={"repo": "hub/model"})
    yield Case("weights in folders", ending(log).evidence(), "intact", [])
    log = begun()
    manifest(log)
    manifest(log, stored=False, name="another name")
    yield Case("two manifests of one list", ending(log).evidence(), "intact", [])
    log = begun()
    more = [{**LISTED[0], "cached": True, "format": {"type": "x", "of": [1.5, {}]}}, LISTED[1]]
    manifest(log, more, cached=1)
    yield Case("a list that says more of its files", ending(log).evidence(), "intact", [])

    yield from _signed_by_others()
    yield from _other_lists()
    yield from _named_wrongly()
    yield from _with_a_policy()


def _signed_by_others() -> Iterator[Case]:
    for by, carry, keyring, codes, verdict in (
        (PEER, False, ("identity", "peer"), [], "intact"),
        (PEER, True, ("identity", "~peer"), [], "intact"),
        (PEER, False, ("identity", "~peer"), ["CF-VERIFY-042"], "cannot-tell"),
        (PEER, True, ("identity",), ["CF-VERIFY-042"], "cannot-tell"),
    ):
        log = begun()
        named = manifest(log, by=by, carry=carry)
        name = f"weights hashed by a peer, keys {' '.join(keyring)}, {'one' if carry else 'none'} carried"
        yield Case(name, calling(log, named).evidence(), verdict, codes, keyring)
    log = begun()
    manifest(log, by=STRANGER, key=PEER.keyid)
    yield broken("weights in a peer's name by a stranger", ending(log), "CF-DSSE-010")
    log = begun()
    manifest(log, by=IDENTITY, key=PEER.keyid)
    yield broken("weights in a peer's name by the identity", ending(log), "CF-VERIFY-041")
    log = begun()
    log.bind("team", ACTOR)
    manifest(log, by=ACTOR)
    yield Case("weights signed by an actor", ending(log).evidence(), "intact", [])


def _other_lists() -> Iterator[Case]:
    first, second = LISTED

    def wrong(name: str, listed: Any = LISTED, **more: Any) -> Case:
        log = begun()
        manifest(log, listed, **more)
        return broken(f"a list of weights {name}", ending(log), "CF-VERIFY-055")

    yield wrong("that is not in the log", stored=False)
    yield wrong("of another size than its manifest says", files={"size": 7})
    yield wrong("of more files than its manifest says", files={"count": 1})
    yield wrong("of another root", root="a" * 64)
    yield wrong("of no files", [], root=sha256(b""))
    yield wrong("that is no list", {"files": LISTED}, root=formats.weights_root(LISTED))
    yield wrong("in another order", [second, first])
    yield wrong("that names a file twice", [first, first])
    yield wrong("that is not canonical", data=jcs(LISTED) + b" ")
    yield wrong("in the order of texts", [FOLDERS[1], FOLDERS[0]])
    yield wrong("in the order of UTF-16", [FOLDERS[5], FOLDERS[4]])
    yield wrong("with a number for a file", [1, first])
    for what, changes in (
        ("whose name is a number", {"name": 1}),
        ("whose name is empty", {"name": ""}),
        ("whose name leads up", {"name": "a/../b"}),
        ("whose name is a dot", {"name": "."}),
        ("whose name begins with a slash", {"name": "/a"}),
        ("whose name ends with a slash", {"name": "a/"}),
        ("whose name holds a NUL", {"name": "a\0b"}),
        ("whose name is very long", {"name": "x" * 4097}),
        ("whose size is negative", {"size": -1}),
        ("whose size is a text", {"size": "2"}),
        ("whose size is a fraction", {"size": 2.5}),
        ("whose digest is in capitals", {"sha256": "A" * 64}),
        ("whose digest is short", {"sha256": "a" * 63}),
    ):
        yield wrong(f"with a file {what}", [{**first, **changes}])
    yield wrong("with a file without a size", [{"name": "a", "sha256": "a" * 64}])
    log = begun()
    data = jcs(LISTED)
    told = {"list": {"media": formats.WEIGHTS, "sha256": sha256(data), "size": len(data) + 1}}
    manifest(log, files=told)
    manifest(log)
    yield broken("a list of weights cited by another size", ending(log), "CF-VERIFY-055")
    log = begun()
    manifest(log, stored=False)
    manifest(log)
    late = ending(log)
    yield broken(
        "a list of weights that came too late counts for none", late, "CF-VERIFY-055", "CF-VERIFY-055"
    )


def _named_wrongly() -> Iterator[Case]:
    def wrong(name: str, change: Any) -> Case:
        log = begun()
        named = manifest(log)
        return broken(f"a model call that names {name}", calling(log, named, change(named)), "CF-VERIFY-056")

    yield wrong("weights that are not there", lambda named: {**named, "statement": "a" * 64})
    yield wrong("another root than its manifest's", lambda named: {**named, "root": "a" * 64})
    yield wrong("weights by a text", lambda named: named["statement"])
    yield wrong("weights by a list", lambda named: [named])
    yield wrong("weights without a root", lambda named: {"statement": named["statement"]})
    yield wrong("weights and more", lambda named: {**named, "more": 1})
    yield wrong("weights in capitals", lambda named: {**named, "statement": named["statement"].upper()})
    log = begun()
    binding = log.bind("team", ACTOR)
    named = {"root": ACTOR.keyid, "statement": binding}
    yield broken("a model call that names a binding as its weights", calling(log, named), "CF-VERIFY-056")
    log = begun()
    other = manifest(Log())
    log.start("invoke_workflow", "team", RUN, context={"weights": other})
    log.end("invoke_workflow", "team", RUN)
    manifest(log)
    yield broken("weights that come after who names them", ending(log), "CF-VERIFY-056")
    log = begun()
    named = manifest(log, stored=False)
    yield broken("a model call that names weights without a list", calling(log, named), "CF-VERIFY-055")
    log = begun()
    named = manifest(log, by=PEER)
    unknown = calling(log, named)
    yield Case(
        "a model call that names weights of a stranger",
        unknown.evidence(),
        "cannot-tell",
        ["CF-VERIFY-042"],
        ("identity",),
    )


def _with_a_policy() -> Iterator[Case]:
    log = begun()
    manifest(log)
    manifest(log, by=PEER)
    whole = ending(log)
    yield judged("weights, and a policy that lists who hashed them", whole, "intact")
    only = {"agents": [agent("*", IDENTITY)], "keys": by_key(key(IDENTITY))}
    yield judged("weights by a key that no policy lists", whole, "cannot-tell", "CF-VERIFY-042", **only)
    lost = {"keys": by_key(key(IDENTITY), key(PEER, status="compromised", since=NOW - 1))}
    yield judged("weights by a compromised key", whole, "broken", "CF-TRUST-052", **lost)
    early = {"keys": by_key(key(IDENTITY), key(PEER, notBefore=NOW + 86_400_000))}
    yield judged("weights by a key before its time", whole, "broken", "CF-TRUST-051", **early)
