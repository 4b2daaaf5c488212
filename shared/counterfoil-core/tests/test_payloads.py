"""What can be handed to another process: values that a digest holds whole."""

from __future__ import annotations

import collections
import re
from pathlib import Path
from typing import Any

import pytest

from counterfoil import payloads

SPEC = Path(__file__).resolve().parents[2] / "spec" / "values.md"
NAMED = {
    *("$attrs", "$callable", "$cycle", "$dataclass", "$deep", "$dtype", "$exception", "$forward"),
    *("$generic", "$image", "$large", "$union", "$command", "$interrupt", "$send"),
    *(
        "$masked",
        "$model",
        "$module",
        "$msg",
        "$opaque",
        "$partial",
        "$redacted",
        "$ref",
        "$type",
        "$typevar",
    ),
}
"""Tags of what a canonical value only names, cuts or leaves something of out."""


class Plain(dict[str, int]):
    pass


class Name(str):
    pass


def test_every_tag_is_whole_or_is_not() -> None:
    written = set(re.findall(r"\"(\$[a-z]+)\":", SPEC.read_text())) | {"$msg", "$ref"}
    assert payloads._EXACT.isdisjoint(NAMED)
    assert written - {"$x"} <= payloads._EXACT | NAMED


@pytest.mark.parametrize(
    "payload",
    [
        Plain(a=1),
        collections.Counter("aab"),
        collections.defaultdict(list, a=[1]),
        collections.UserDict({"a": 1}),
        collections.ChainMap({"a": 1}, {}),
        Name("x"),
        {"a": 1}.keys(),
    ],
    ids=repr,
)
def test_what_is_held_whole_has_a_plain_digest(payload: Any) -> None:
    assert payloads.plain_digest(payload) is not None
    assert payloads.plain_digest({"in": [payload]}) is not None


@pytest.mark.parametrize(
    "payload",
    [test_every_tag_is_whole_or_is_not, Plain, object(), ValueError("x")],
    ids=["function", "class", "object", "exception"],
)
def test_what_is_only_named_has_none(payload: Any) -> None:
    assert payloads.plain_digest(payload) is None
    assert payloads.plain_digest(collections.defaultdict(lambda: payload, a=payload)) is None
