"""What headers of safetensors and GGUF files say, and that no header, however hostile, does more than be refused."""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counterfoil import canonical
from counterfoil.weights import gguf, safetensors
from counterfoil.weights.safetensors import Refused


def reader(data: bytes) -> Callable[[int, int], bytes]:
    return lambda count, at: data[at : at + count]


def told(describe: Callable[..., dict[str, Any]], data: bytes, size: int | None = None) -> dict[str, Any]:
    return describe(reader(data), len(data) if size is None else size)


def refusal(describe: Callable[..., dict[str, Any]], data: bytes, size: int | None = None) -> str:
    with pytest.raises(Refused) as caught:
        told(describe, data, size)
    return str(caught.value)


# -- safetensors ------------------------------------------------------------------------------------------------------

TWO = {
    "__metadata__": {"format": "pt"},
    "a": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]},
    "b": {"dtype": "BF16", "shape": [4], "data_offsets": [24, 32]},
}


def tensors(header: Any, room: int = 32) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + bytes(room)


def test_facts_of_a_safetensors_header() -> None:
    text = json.dumps(TWO).encode() + b"   "
    assert told(safetensors.describe, tensors(text)) == {
        "dtypes": {"F32": 1, "BF16": 1},
        "header": {"sha256": hashlib.sha256(text).hexdigest(), "size": len(text)},
        "metadata": {"format": "pt"},
        "tensors": 2,
    }


def test_a_file_without_tensors_and_one_with_an_empty_tensor() -> None:
    assert told(safetensors.describe, tensors({}, 0))["tensors"] == 0
    empty = {"e": {"dtype": "I8", "shape": [0], "data_offsets": [0, 0]}, **TWO}
    assert told(safetensors.describe, tensors(empty))["tensors"] == 3
    scalar = {"a": {"dtype": "F64", "shape": [], "data_offsets": [0, 8]}}
    assert told(safetensors.describe, tensors(scalar, 8))["dtypes"] == {"F64": 1}


def test_long_metadata_is_left_to_the_digest() -> None:
    long = {**TWO, "__metadata__": {"x": "y" * safetensors.MAX_METADATA}}
    assert "metadata" not in told(safetensors.describe, tensors(long))


def test_a_type_that_is_not_known_is_counted() -> None:
    new = {"a": {"dtype": "F4_E9", "shape": [5], "data_offsets": [0, 32]}}
    assert told(safetensors.describe, tensors(new))["dtypes"] == {"F4_E9": 1}


A = TWO["a"]
HOSTILE: list[tuple[str, bytes]] = [
    ("nothing", b""),
    ("seven bytes", b"\0" * 7),
    ("an empty header", tensors(b"")),
    ("a header longer than the file", (1 << 40).to_bytes(8, "little") + b"{}"),
    ("a header of all there could be", b"\xff" * 8),
    ("no JSON", tensors(b"{")),
    ("a list", tensors([])),
    ("no UTF-8", tensors(b'{"\xff":1}')),
    ("NaN", tensors(b'{"a":NaN}')),
    ("a number of many digits", tensors(b'{"a":' + b"9" * 5000 + b"}")),
    ("nested deeply", tensors(b'{"a":' + b"[" * 200_000)),
    ("nested deeply in objects", tensors(b'{"a":' * 100_000)),
    ("a name twice", tensors(b'{"a":1,"a":1}')),
    ("a member twice", tensors(b'{"a":{"dtype":"F32","dtype":"F16","shape":[],"data_offsets":[0,32]}}')),
    ("metadata that is a list", tensors({**TWO, "__metadata__": []})),
    ("metadata of numbers", tensors({**TWO, "__metadata__": {"a": 1}})),
    ("metadata with a lone surrogate", tensors(b'{"__metadata__":{"a":"\\ud800"}}', 0)),
    ("a tensor that is none", tensors({"a": 1})),
    ("a tensor with more", tensors({"a": {**A, "more": 1}})),  # type: ignore[dict-item]
    ("a negative dimension", tensors({"a": {**A, "shape": [-2, -3]}})),  # type: ignore[dict-item]
    ("a dimension that is true", tensors({"a": {**A, "shape": [True, 6]}})),  # type: ignore[dict-item]
    ("a fraction", tensors({"a": {**A, "shape": [2.0, 3]}})),  # type: ignore[dict-item]
    ("a huge dimension", tensors({"a": {**A, "shape": [1 << 63]}})),  # type: ignore[dict-item]
    ("many dimensions", tensors({"a": {**A, "shape": [1] * 65, "data_offsets": [0, 4]}})),  # type: ignore[dict-item]
    ("a huge product", tensors({"a": {**A, "shape": [(1 << 63) - 1] * 60}})),  # type: ignore[dict-item]
    ("places the wrong way round", tensors({"a": {**A, "data_offsets": [24, 0]}})),  # type: ignore[dict-item]
    ("three places", tensors({"a": {**A, "data_offsets": [0, 24, 24]}})),  # type: ignore[dict-item]
    ("a place that is too short", tensors({"a": {**A, "data_offsets": [0, 23]}}, 23)),  # type: ignore[dict-item]
    ("a hole", tensors({"a": {**A, "data_offsets": [8, 32]}})),  # type: ignore[dict-item]
    ("overlap", tensors({"a": A, "b": A}, 24)),
    ("bytes behind the tensors", tensors(TWO, 33)),
    ("tensors beyond the file", tensors(TWO, 31)),
    ("a type in words", tensors({"a": {**A, "dtype": "32 bits"}})),  # type: ignore[dict-item]
    ("a type that is a list", tensors({"a": {**A, "dtype": ["F32"]}})),  # type: ignore[dict-item]
    (
        "too many types",
        tensors({f"t{n}": {"dtype": f"T{n}", "shape": [], "data_offsets": [0, 0]} for n in range(65)}, 0),
    ),
]


@pytest.mark.parametrize(("what", "data"), HOSTILE, ids=[one[0] for one in HOSTILE])
def test_a_hostile_safetensors_header_is_refused_in_words(what: str, data: bytes) -> None:
    assert refusal(safetensors.describe, data)


def test_a_header_is_not_read_beyond_the_bound() -> None:
    asked: list[int] = []

    def read(count: int, at: int) -> bytes:
        asked.append(count)
        return (safetensors.MAX_HEADER + 1).to_bytes(8, "little")

    with pytest.raises(Refused):
        safetensors.describe(read, 1 << 40)
    assert asked == [8]


def test_a_header_that_is_cut_while_it_is_read_is_refused() -> None:
    assert "cut" in refusal(safetensors.describe, tensors(TWO)[:40], 1000)


LEAF = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5))
JSON = st.recursive(
    LEAF, lambda inner: st.one_of(st.lists(inner), st.dictionaries(st.text(max_size=5), inner)), max_leaves=12
)
TENSOR = st.fixed_dictionaries(
    {"dtype": st.one_of(st.sampled_from(["F32", "BF16", "I8", "NEW"]), LEAF)},
    optional={
        "shape": st.one_of(st.lists(st.integers(-1, 4), max_size=3), JSON),
        "data_offsets": st.one_of(st.tuples(st.integers(0, 64), st.integers(0, 64)), JSON),
    },
)


@given(
    st.dictionaries(
        st.one_of(st.just("__metadata__"), st.text(max_size=4)), st.one_of(TENSOR, JSON), max_size=4
    ),
    st.integers(0, 64),
    st.integers(0, 3),
)
@settings(max_examples=300, deadline=None)
def test_any_json_header_is_told_or_refused(header: Any, room: int, cut: int) -> None:
    data = tensors(json.dumps(header).encode(), room)
    fair(safetensors.describe, data[: len(data) - cut])


@given(st.binary(max_size=200))
@settings(max_examples=300, deadline=None)
def test_any_bytes_are_told_or_refused(data: bytes) -> None:
    fair(safetensors.describe, data)
    fair(safetensors.describe, len(data).to_bytes(8, "little") + data)
    fair(gguf.describe, data)
    fair(gguf.describe, b"GGUF" + data)


def fair(describe: Callable[..., dict[str, Any]], data: bytes) -> None:
    try:
        found = told(describe, data)
    except Refused as exc:
        found = {"refused": str(exc)}
    assert 0 < len(found.get("refused", "told")) < 100
    assert len(canonical.dumps(found)) < 64 * 1024


# -- GGUF -------------------------------------------------------------------------------------------------------------


class Gguf:
    """A header, written piece by piece."""

    def __init__(self, *, order: str = "<", version: int = 3) -> None:
        self.order, self.version = order, version
        self.keys: list[bytes] = []
        self.tensors: list[bytes] = []

    def pack(self, form: str, *values: Any) -> bytes:
        return struct.pack(self.order + form, *values)

    def text(self, text: str | bytes) -> bytes:
        data = text.encode() if isinstance(text, str) else text
        return self.pack("Q", len(data)) + data

    def key(self, name: str | bytes, kind: int, value: bytes) -> Gguf:
        self.keys.append(self.text(name) + self.pack("I", kind) + value)
        return self

    def tensor(self, name: str, shape: list[int], kind: int, at: int = 0) -> Gguf:
        dimensions = self.pack("I", len(shape)) + b"".join(self.pack("Q", one) for one in shape)
        self.tensors.append(self.text(name) + dimensions + self.pack("IQ", kind, at))
        return self

    def array(self, kind: int, *values: bytes) -> bytes:
        return self.pack("IQ", kind, len(values)) + b"".join(values)

    def bytes(self, *, keys: int | None = None, tensors: int | None = None) -> bytes:
        counts = (
            len(self.tensors) if tensors is None else tensors,
            len(self.keys) if keys is None else keys,
        )
        head = b"GGUF" + self.pack("IQQ", self.version, *counts)
        return head + b"".join(self.keys) + b"".join(self.tensors)


def llama(**form: Any) -> Gguf:
    one = Gguf(**form)
    one.key("general.architecture", 8, one.text("llama"))
    one.key("general.name", 8, one.text("Llama 3 8B"))
    one.key("general.file_type", 4, one.pack("I", 15))
    for kind, width in ((0, 1), (1, 1), (2, 2), (3, 2), (5, 4), (6, 4), (7, 1), (10, 8), (11, 8), (12, 8)):
        one.key(f"number.{kind}", kind, bytes(width))
    one.key("tokens", 9, one.array(8, *(one.text(f"token {number}") for number in range(100))))
    one.key("scores", 9, one.array(6, *(bytes(4) for _ in range(100))))
    one.key("nested", 9, one.array(9, one.array(4, bytes(4)), one.array(8, one.text("x"))))
    one.tensor("a", [4, 4], 12).tensor("b", [4], 0).tensor("c", [4, 4], 12).tensor("d", [1], 999)
    return one


@pytest.mark.parametrize("form", [{}, {"version": 2}, {"order": ">"}], ids=str)
def test_facts_of_a_gguf_header(form: dict[str, Any]) -> None:
    assert told(gguf.describe, llama(**form).bytes() + bytes(100)) == {
        "architecture": "llama",
        "dtypes": {"F32": 1, "Q4_K": 2, "type 999": 1},
        "metadata": 16,
        "name": "Llama 3 8B",
        "quantisation": "Q4_K_M",
        "tensors": 4,
        "version": form.get("version", 3),
    }


def test_a_quantisation_that_is_not_known_is_told_by_its_number() -> None:
    one = Gguf()
    one.key("general.file_type", 4, one.pack("I", 4242))
    assert told(gguf.describe, one.bytes())["quantisation"] == "type 4242"


def test_a_very_long_name_is_not_told() -> None:
    one = Gguf()
    one.key("general.name", 8, one.text("x" * 1025))
    assert "name" not in told(gguf.describe, one.bytes())


def _keyed(kind: int, value: bytes, name: str | bytes = "k") -> bytes:
    return Gguf().key(name, kind, value).bytes()


def _nested(depth: int) -> bytes:
    one = Gguf()
    value = one.array(4, bytes(4))
    for _ in range(depth):
        value = one.array(9, value)
    return _keyed(9, value)


G = Gguf()
HOSTILE_GGUF: list[tuple[str, bytes]] = [
    ("cut behind the magic number", b"GGUF"),
    ("version 1", Gguf(version=1).bytes()),
    ("a version to come", Gguf(version=4).bytes()),
    ("more tensors than can be", Gguf().bytes(tensors=(1 << 64) - 1)),
    ("more metadata than can be", Gguf().bytes(keys=(1 << 64) - 1)),
    ("metadata that is not there", Gguf().bytes(keys=1)),
    ("tensors that are not there", Gguf().bytes(tensors=1)),
    ("a key twice", Gguf().key("a", 7, b"\0").key("a", 7, b"\0").bytes()),
    ("a key longer than the file", b"GGUF" + G.pack("IQQQ", 3, 0, 1, (1 << 64) - 1)),
    ("a type that is not known", _keyed(13, b"")),
    ("a text longer than the file", _keyed(8, G.pack("Q", 1 << 62))),
    ("an array longer than the file", _keyed(9, G.pack("IQ", 4, 1 << 62))),
    ("an array of more texts than there are bytes", _keyed(9, G.pack("IQ", 8, (1 << 64) - 1))),
    ("an array of arrays without end", _keyed(9, G.pack("IQ", 9, 1 << 40))),
    ("an array of an unknown type", _keyed(9, G.pack("IQ", 77, 1))),
    ("arrays nested deeply", _nested(50)),
    ("a name that is not UTF-8", _keyed(8, G.text(b"\xff"), "general.name")),
    ("many dimensions", Gguf().tensor("a", [1] * 9, 0).bytes()),
    ("a tensor beyond the file", Gguf().tensor("a", [1], 0, 1 << 40).bytes()),
]


@pytest.mark.parametrize(("what", "data"), HOSTILE_GGUF, ids=[one[0] for one in HOSTILE_GGUF])
def test_a_hostile_gguf_header_is_refused_in_words(what: str, data: bytes) -> None:
    assert refusal(gguf.describe, data)


def test_tensors_of_very_many_types_are_refused() -> None:
    one = Gguf()
    for number in range(200):
        one.tensor("t", [], number)
    assert "types" in refusal(gguf.describe, one.bytes() + bytes(100))


def test_a_gguf_header_is_not_read_beyond_the_bound() -> None:
    read = 0

    def zeros(count: int, at: int) -> bytes:
        nonlocal read
        read += count
        return (_keyed(9, G.pack("IQ", 0, 1 << 40)) + bytes(count))[at : at + count]

    with pytest.raises(Refused, match="64 MiB"):
        gguf.describe(zeros, 1 << 50)
    assert read <= 1 << 20


@given(st.data())
@settings(max_examples=300, deadline=None)
def test_a_gguf_header_with_changed_bytes_is_told_or_refused(data: st.DataObject) -> None:
    whole = bytearray(llama(order=data.draw(st.sampled_from("<>"))).bytes())
    for _ in range(data.draw(st.integers(0, 4))):
        at = data.draw(st.integers(4, len(whole) - 1))
        whole[at] = data.draw(st.integers(0, 255))
    fair(gguf.describe, bytes(whole[: data.draw(st.integers(4, len(whole)))]))
