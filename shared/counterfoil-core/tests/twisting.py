"""Texts of a value that are nearly like it: what a reader that reads by a pattern must not take for it."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from counterfoil import canonical

RAW = (
    *("null", "true", "1.5", "-1.5", "1e21", "1e+21", "5e-324", "1E5", "-0", "1.0", "9007199254740992", "1e999"),
    *('""', '"n"', '"null"', '":n"', '":1e21"', '"\\":1.5"', '"a\\\\"', '"é"', '"\\u0041"', "[]", "[null]", "[1.5]"),
    *("{}", '{"":null}', '{"a":1.5}', "[[1e21]]", '{"a":1,"a":1}', '{"b":1,"a":1}', "[1,-2.5e-7]", '[",1.5"]'),
    *('{"media":"","sha256":"' + "b" * 64 + f'","size":{size}}}' for size in ("0", "-1", "01", "1e21", "null")),
    '{"media":"\\"","sha256":"' + "b" * 64 + '","size":1}',
    '{"media":"\u00e9","sha256":"' + "b" * 64 + '","size":1}',
    '{"media":"m","sha256":"' + "B" * 64 + '","size":1}',
    '{"a":1,"media":"m","sha256":"' + "b" * 64 + '","size":1}',
    '{"media":"m","sha256":"' + "b" * 64 + '","size":1,"z":1}',
    '[{"media":"m","sha256":"' + "b" * 64 + '","size":1},{"media":"m","sha256":"' + "c" * 64 + '","size":1}]',
)  # fmt: skip
"""Values as they may stand in a text, canonical or not."""


def texts(value: dict[str, Any]) -> st.SearchStrategy[bytes]:
    """Texts of a value with one or two places replaced by something else, or dropped, or a byte changed."""
    text = canonical.dumps(value).decode()
    places = [at for at in range(len(text)) if text[at] == ":" and text[at - 1] == '"']

    def put(at: int, raw: str, far: int) -> str:
        return text[: at + 1] + raw + text[min(at + 1 + far, len(text)) :]

    def ends(at: int) -> int:
        depth, inside = 0, False
        for far, one in enumerate(text[at + 1 :]):
            inside ^= one == '"'
            if not inside:
                depth += (one in "{[") - (one in "}]")
                if depth < 0 or (depth == 0 and one == ","):
                    return far
        return 0

    whole = st.builds(lambda at, raw: put(at, raw, ends(at)), st.sampled_from(places), st.sampled_from(RAW))
    odd = st.builds(put, st.sampled_from(places), st.sampled_from(RAW), st.integers(0, 40))
    flipped = st.builds(
        lambda at, byte: text[:at] + byte + text[at + 1 :],
        st.integers(0, len(text) - 1),
        st.sampled_from('{}[]",:\\ n0e.-'),
    )
    return st.one_of(whole, odd, flipped, st.just(text)).map(str.encode)
