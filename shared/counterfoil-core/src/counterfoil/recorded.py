"""Handoffs recorded inside one process, read by their text: of all statements a log has most of these.

Of a payload a mould is made once one like it was accepted by the models: everything stands in it as it is, but
digests, numbers, names and ids, of which the pattern asks what the models ask. What else a handoff may say (authority,
taint, heads of other logs) is read at length.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import orjson

from counterfoil import canonical, statements
from counterfoil.moulds import NATURAL, TEXT, Groups, NoMould, Path, compiled, hex64, spell
from counterfoil.shapes import need_of

__all__ = ["RecordedMould", "mould_of"]


@dataclass(frozen=True, slots=True)
class RecordedMould:
    """Handoffs of one form: the groups of what is asked of each; ``own`` are origin, root and size, where there are."""

    fullmatch: Callable[[bytes], re.Match[bytes] | None]
    payload: int
    size: int
    need: int
    key: int
    actor: int
    parents: tuple[int, ...]
    own: tuple[int, ...]


_MEMBERS: Final = frozenset(
    {"call", "content", "exact", "issued", "nonce", "own", "parents", "payload", "proof", "run", "sender"}
)
_CONTENT: Final = frozenset({"basis", "from", "kind", "parents", "payload", "to"})
_NAME: Final = b'"' + TEXT[:-2] + b'{1,1024}+"'
_ID: Final = b'"' + TEXT[:-2] + b'{0,64}+"'
_PREDICATE: Final[dict[Path, bytes]] = {
    ("predicate", "issued"): NATURAL,
    ("predicate", "nonce"): b'"[0-9a-f]{32}"',
    ("predicate", "run"): _ID,
    ("predicate", "call"): _ID,
    ("predicate", "content", "to"): _NAME,
}
_PAYLOAD: Final[Path] = ("predicate", "content", "payload")
_SUBJECT: Final[Path] = ("subject", 0, "digest", "counterfoil-v1")
_GROUPED: Final[dict[Path, bytes]] = {
    ("predicate", "own", "origin"): b'"(' + _NAME[1:-1] + b')"',
    ("predicate", "own", "size"): b"([1-9][0-9]{0,14}+)",
    ("predicate", "payload", "size"): b"(" + NATURAL + b")",
    ("predicate", "sender", "actor"): b'"(' + _NAME[1:-1] + b')"',
}
_DIGESTS: Final = frozenset({_PAYLOAD, ("predicate", "own", "root"), ("predicate", "sender", "key")})


def mould_of(value: Any, payload: bytes) -> RecordedMould:
    """The mould of a payload that ``statements.parse`` accepts; raises NoMould for all but plain recorded handoffs."""
    value = orjson.loads(payload)
    predicate = value["predicate"]
    if value["predicateType"] != statements.HANDOFF or predicate["proof"] != "recorded":
        raise NoMould
    if not (predicate.keys() <= _MEMBERS and predicate["content"].keys() <= _CONTENT):
        raise NoMould
    groups = Groups()
    at: dict[Path, int] = {}
    parents: list[int] = []

    def choose(path: Path, one: Any) -> bytes | None:
        if type(one) is dict or type(one) is list:
            return None
        if path in _GROUPED or path in _DIGESTS:
            at[path] = groups.next()
            return _GROUPED[path] if path in _GROUPED else hex64(one)
        if path == _SUBJECT:
            return rb'"\%d"' % at[_PAYLOAD]
        if path[:2] == ("predicate", "parents") and path[3] == "digest":
            parents.append(groups.next())
            return hex64(one)
        if path[:3] == ("predicate", "content", "from"):
            return _NAME
        if path[:3] == ("predicate", "content", "parents") and path[4] == "address":
            return b'"' + TEXT + b'"'
        return _PREDICATE.get(path) or re.escape(canonical.dumps(one))

    pattern = spell(value, choose)
    return RecordedMould(
        compiled(pattern),
        at[_PAYLOAD],
        at["predicate", "payload", "size"],
        need_of(predicate["payload"]["media"]),
        at["predicate", "sender", "key"],
        at["predicate", "sender", "actor"],
        tuple(parents),
        tuple(at["predicate", "own", name] for name in ("origin", "root", "size") if "own" in predicate),
    )
