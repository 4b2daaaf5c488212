"""Counterfoil's canonical JSON against ``rfc8785`` and ``jcs-admit``: the same bytes, the same refusals.

    python differential.py writing|reading FIRST COUNT

Tries the documents numbered FIRST to FIRST + COUNT - 1, prints what came out as JSON, and fails with the number of
the first one on which they differ. ``rfc8785`` (Python) defines what is written; ``jcs-admit`` (Rust, nothing in common
with the others) judges both what is written and what is read. Both deviate in known places, and nowhere else:

- ``rfc8785`` writes what is nested deeper than 128 levels, and two keys of one object with the same text;
- ``jcs-admit`` reads an integer beyond 2^53-1 as the double nearest to it.
"""

from __future__ import annotations

import json
import random
import re
import sys
from typing import Any

import documents
import jcs_admit
import rfc8785

from counterfoil import _jcs_fast, canonical
from counterfoil.errors import CanonicalError

_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)
_NUMBER = re.compile(rb"-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?")


class DifferenceError(AssertionError):
    """Two implementations disagree."""


def _written(document: Any) -> tuple[bytes | None, str]:
    try:
        return canonical.dumps(document), ""
    except CanonicalError as exc:
        return None, exc.code


def _defined(document: Any) -> bytes | None:
    try:
        return rfc8785.dumps(document)
    except Exception:  # also the exceptions of a document's own code
        return None


def _shape(document: Any) -> tuple[bool, bool, bool, bool]:
    """Whether it is nested too deeply, has two equal keys, is all plain JSON, has an integer beyond 2^53-1."""
    twice = big = False
    plain = True
    stack = [(document, 1)]
    while stack:
        item, depth = stack.pop()
        kind = type(item)
        if kind is int:
            big = big or abs(item) > canonical.MAX_INTEGER
        elif isinstance(item, dict | list | tuple):
            plain = plain and kind in (dict, list)
            if depth > canonical.MAX_DEPTH_WRITE:
                return True, twice, plain, big  # a cycle would never end
            if isinstance(item, dict):
                names = list(dict.keys(item))
                plain = plain and all(type(name) is str for name in names)
                texts = [str.__str__(name) for name in names if isinstance(name, str)]
                twice = twice or len(set(texts)) < len(texts)
                stack += [(one, depth + 1) for one in dict.values(item)]
            else:
                stack += [(one, depth + 1) for one in item]
        elif kind not in (str, bool, float, type(None)):
            plain = False
    return False, twice, plain, big


def writing(first: int, count: int) -> dict[str, int]:
    """Documents through all three writers."""
    found = {"fast": 0, "slow": 0, "refused": 0, "admitted": 0, "stricter": 0}
    for number in range(first, first + count):
        document = documents.document(number)
        made, code = _written(document)
        defined = _defined(document)
        deep, twice, plain, big = _shape(document)
        quick = _jcs_fast.fast(document)
        if quick is not None and quick != made:
            raise DifferenceError(f"document {number}: the fast way writes something else")
        if made != defined:
            if made is not None or not (deep or twice):
                raise DifferenceError(f"document {number}: not what rfc8785 makes of it ({code})")
            found["stricter"] += 1
        found["refused" if made is None else "fast" if quick is not None else "slow"] += 1
        if plain and not deep:
            admitted = _admitted(document)
            if big and made is not None:
                raise DifferenceError(f"document {number}: an integer beyond 2^53-1 was written")
            if not big and made != admitted:
                raise DifferenceError(f"document {number}: not what jcs-admit makes of it")
            found["admitted"] += admitted is not None
    return found


def _admitted(document: Any) -> bytes | None:
    try:
        told = json.dumps(document, ensure_ascii=False).encode("utf-8", "surrogatepass")
        return jcs_admit.admit_with(told, max_depth=canonical.MAX_DEPTH_WRITE)
    except ValueError:  # jcs-admit's refusal, or more digits than Python prints
        return None


def reading(first: int, count: int) -> dict[str, int]:
    """Texts through both strict readers, and through both checks of the canonical form."""
    found = {"read": 0, "canonical": 0, "refused": 0, "stricter": 0}
    for number in range(first, first + count):
        rng = random.Random(number)
        made = documents.json_value(rng)
        data = documents.mutated(rng, documents.spelled(rng, made, canonical.dumps(made)))
        admitted = _strictly(data)
        if admitted is not None and _has_big_integer(data):
            admitted, code = None, "CF-CANON-014"
            found["stricter"] += 1
        else:
            code = ""
        for reader, expected in (
            (canonical.loads, admitted),
            (canonical.loads_canonical, admitted if admitted == data else None),
        ):
            try:
                read: bytes | None = canonical.dumps(reader(data))
            except CanonicalError as exc:
                read = None
                if code and exc.code != code:
                    raise DifferenceError(f"text {number}: refused as {exc.code}") from None
            if read != expected:
                raise DifferenceError(f"text {number}: {reader.__name__} differs from jcs-admit")
        found["refused" if admitted is None else "read"] += 1
        found["canonical"] += admitted == data
    return found


def _strictly(data: bytes) -> bytes | None:
    try:
        return jcs_admit.admit_with(data, max_depth=canonical.MAX_DEPTH_READ)
    except jcs_admit.JcsError:
        return None


def _has_big_integer(data: bytes) -> bool:
    """Whether an integer beyond 2^53-1 stands in a valid text."""
    bare = _STRING.sub(b'""', data)
    return any(
        not (each[1] or each[2]) and (len(each[0]) > 17 or abs(int(each[0])) > canonical.MAX_INTEGER)
        for each in _NUMBER.finditer(bare)
    )


if __name__ == "__main__":
    ways = {"writing": writing, "reading": reading}
    json.dump(ways[sys.argv[1]](int(sys.argv[2]), int(sys.argv[3])), sys.stdout)
