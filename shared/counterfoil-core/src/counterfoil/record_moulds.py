"""Records that are like others, told by one pattern; what else a record may hold is read at length."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from counterfoil import records
from counterfoil.digest import is_reference, looks_like_reference
from counterfoil.moulds import NATURAL, REFERENCE, TEXT, Groups, NoMould, Path, compiled, hex64, spell
from counterfoil.stored import RECORD, STATEMENT
from counterfoil.weights.checking import cited_weights

__all__ = ["RecordMould", "record_mould"]


@dataclass(frozen=True, slots=True)
class RecordMould:
    """Records of one form: the groups of what is asked of each.

    ``told`` are op, phase, call and run (op again for those that do not join it to others), ``cited`` references,
    ``named`` digests with what they have to be of, ``totals`` what a run's last record says that ended and started,
    ``weights`` root and digest of a manifest.
    """

    fullmatch: Callable[[bytes], re.Match[bytes] | None]
    told: tuple[int, int, int, int]
    joined: bool
    cited: tuple[int, ...]
    named: tuple[tuple[int, int], ...]
    totals: tuple[int, ...]
    weights: tuple[int, ...]


def record_mould(body: dict[str, Any], text: bytes) -> RecordMould:
    """The mould of a record without null and float; NoMould where its kind asks for more than ``short`` looks at."""
    content, context = body["content"], body["context"]
    totals = content.get("totals")
    if (
        "late" in context
        or type(context.get("stream")) is dict
        or ("totals" in content and (type(totals) is not dict or totals.keys() != _TIED))
    ):
        raise NoMould
    groups = Groups()
    at: dict[Path, int] = {}
    cited: list[int] = []
    named: list[tuple[int, int]] = []

    def choose(path: Path, value: Any) -> bytes | None:
        if value is None:
            raise NoMould
        if path == _V:
            return b"%d" % records.VERSION  # another version is another thing, whatever it looks like
        if looks_like_reference(value):
            if not is_reference(value) or (path[:2] in (_PARENTS, _HANDOFFS) and path != _PARENTS):
                raise NoMould
            cited.append(groups.next())
            return b"(" + REFERENCE + b")"
        if path in _TOLD and type(value) is str:
            at[path] = groups.next()
            return b'"(' + TEXT + b')"'
        if path in _TOTALS:
            if type(value) is not int:
                raise NoMould
            at[path] = groups.next()
            return b"(" + NATURAL + b")"
        if path == _WEIGHTS and cited_weights(value) is None:
            raise NoMould
        if path[:2] == _WEIGHTS and len(path) == 3:
            at[path] = groups.next()
            return hex64(value)
        if path in (_PARENTS, _HANDOFFS) and type(value) is not list:
            raise NoMould
        if path[:2] == _PARENTS and len(path) == 3 and (type(value) is not dict or value.keys() != _PARENT):
            raise NoMould
        if path[:2] == _HANDOFFS and len(path) == 3:
            named.append((groups.next(), STATEMENT))
            return hex64(value)
        if path[:2] == _PARENTS and len(path) == 4 and path[3] == "digest":
            named.append((groups.next(), RECORD))
            return hex64(value)
        if path[:2] == _PARENTS and len(path) == 4:
            if type(value) is not str or value == "":
                raise NoMould
            return b'"' + TEXT[:-2] + b'++"'
        return None

    pattern = spell(body, choose)
    joined = all(path in at for path in _TOLD)
    if _CALL in at and not joined:
        raise NoMould  # a call without a run is joined to its end all the same
    op = at[_OP]
    tied = tuple(at[path] for path in _TOTALS if path in at)
    return RecordMould(
        compiled(pattern),
        (op, at.get(_PHASE, op), at.get(_CALL, op), at.get(_RUN, op)),
        joined,
        tuple(cited),
        tuple(named),
        tied,
        tuple(at[path] for path in sorted(at) if path[:2] == _WEIGHTS),
    )


_V: Final[Path] = ("v",)
_OP: Final[Path] = ("content", "op")
_PHASE: Final[Path] = ("content", "phase")
_CALL: Final[Path] = ("context", "call")
_RUN: Final[Path] = ("context", "run")
_TIED: Final = frozenset({"ended", "started"})
_TOTALS: Final[tuple[Path, ...]] = (("content", "totals", "ended"), ("content", "totals", "started"))
_TOLD: Final = frozenset((_OP, _PHASE, _CALL, _RUN))
_PARENTS: Final[Path] = ("context", "parents")
_HANDOFFS: Final[Path] = ("context", "handoffs")
_PARENT: Final = frozenset({"digest", "rel"})
_WEIGHTS: Final[Path] = ("context", "weights")
