"""RFC 8785 writing: the official data, every refusal, and the guards around the fast path."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import hashlib
import json
import struct
import uuid
from pathlib import Path
from typing import Any

import orjson
import pytest
import rfc8785

from counterfoil import _jcs, _jcs_fast, canonical
from counterfoil.errors import CanonicalError

JCS = Path(__file__).resolve().parents[2] / "vectors" / "outside" / "jcs"


class Text(str):
    """A str that hides its text from its hash."""

    __slots__ = ()

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other


class Colour(str, enum.Enum):  # noqa: UP042 - the older spelling is the hazard
    RED = "red"


class Number(enum.IntEnum):
    ONE = 1


@dataclasses.dataclass
class Point:
    x: int = 1


def nested(depth: int) -> Any:
    value: Any = 0
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize("name", sorted(path.stem for path in (JCS / "input").glob("*.json")))
def test_official_test_data(name: str) -> None:
    value = json.loads((JCS / "input" / f"{name}.json").read_bytes())
    expected = (JCS / "output" / f"{name}.json").read_bytes()
    assert canonical.dumps(value) == expected
    assert expected == bytes.fromhex((JCS / "outhex" / f"{name}.txt").read_text())
    assert canonical.loads((JCS / "input" / f"{name}.json").read_bytes()) == value
    assert canonical.loads_canonical(expected) == value


def number_sequence(lines: int) -> Any:
    """The ES6 numbers of the test data: fixed values, 2,000 neighbours, then a chain of hashes as doubles."""
    rule = json.loads((JCS / "es6_number_sequence.json").read_text())
    made = 0
    for bits in rule["staticHex"]:
        yield int(bits, 16)
        made += 1
    for at in range(rule["serialCount"]):
        yield int(rule["serialStartHex"], 16) + at
        made += 1
    state = bytes(32)
    while made < lines:
        state = hashlib.sha256(state).digest()
        for at in range(0, 32, 8):
            bits = int.from_bytes(state[at : at + 8], "little")
            value = struct.unpack(">d", bits.to_bytes(8, "big"))[0]
            if value != 0 and value - value == 0:
                yield bits
                made += 1


def sequence_checksums(lines: int) -> tuple[dict[int, str], dict[int, str]]:
    """SHA-256 of the written sequence after each published number of lines, and the published ones."""
    rule = json.loads((JCS / "es6_number_sequence.json").read_text())
    published = {each["lines"]: each["sha256"] for each in rule["checksums"] if each["lines"] <= lines}
    digest = hashlib.sha256()
    seen = {}
    for line, bits in enumerate(number_sequence(lines), 1):
        value = struct.unpack(">d", bits.to_bytes(8, "big"))[0]
        digest.update(b"%x,%b\n" % (bits, canonical.dumps(value)))
        if line in published:
            seen[line] = digest.hexdigest()
        if line == lines:
            break
    return seen, published


def test_official_number_sequence() -> None:
    seen, published = sequence_checksums(100_000)
    assert set(published) == {1_000, 10_000, 100_000}
    assert seen == published


@pytest.mark.slow
def test_official_number_sequence_of_a_million() -> None:
    seen, published = sequence_checksums(1_000_000)
    assert set(published) == {1_000, 10_000, 100_000, 1_000_000}
    assert seen == published


@pytest.mark.parametrize("name", ["es6_first_1000.txt", "es6_lines_2201_2900.txt"])
def test_official_number_lines(name: str) -> None:
    for line in (JCS / name).read_text().splitlines():
        bits, expected = line.split(",")
        value = struct.unpack(">d", int(bits, 16).to_bytes(8, "big"))[0]
        assert canonical.dumps([value]) == b"[%b]" % expected.encode()


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"\U00010000": 1, "\uffff": 2, "\ue000": 3}, '{"\U00010000":1,"\ue000":3,"\uffff":2}'),
        ({"a": [1.0, -0.0, 1e21, 1e-7, 0.000001, 1e16]}, '{"a":[1,0,1e+21,1e-7,0.000001,10000000000000000]}'),
        ([Colour.RED, Number.ONE, Text("x")], '["red",1,"x"]'),
        ({Colour.RED: 1}, '{"red":1}'),
        (("a", ("b",)), '["a",["b"]]'),
        ("\u2028\x7f\x1b/", '"\u2028\x7f\\u001b/"'),
        (True, "true"),
        (-(2**53) + 1, "-9007199254740991"),
    ],
)
def test_values_and_their_bytes(value: Any, expected: str) -> None:
    assert canonical.dumps(value) == expected.encode()


@pytest.mark.parametrize(
    ("value", "code"),
    [
        (b"x", "CF-CANON-001"),
        (uuid.UUID(int=1), "CF-CANON-001"),
        (datetime.datetime(2026, 1, 1), "CF-CANON-001"),
        (decimal.Decimal(1), "CF-CANON-001"),
        (Point(), "CF-CANON-001"),
        ({1, 2}, "CF-CANON-001"),
        (orjson.Fragment(b"1.0"), "CF-CANON-001"),
        (2**53, "CF-CANON-002"),
        (-(2**53), "CF-CANON-002"),
        pytest.param(10**5000, "CF-CANON-002", id="5,001 digits"),
        (float("nan"), "CF-CANON-003"),
        (float("-inf"), "CF-CANON-003"),
        ("\ud800", "CF-CANON-004"),
        ({"\udc00": 1}, "CF-CANON-004"),
        pytest.param(nested(129), "CF-CANON-005", id="129 levels"),
        pytest.param(nested(100_000), "CF-CANON-005", id="100,000 levels"),
        ({1: 2}, "CF-CANON-006"),
        ({"a": 1, None: 2}, "CF-CANON-006"),
        ({Text("a"): 1, Text("a"): 2}, "CF-CANON-006"),
    ],
)
@pytest.mark.parametrize("wrap", [lambda value: value, lambda value: {"k": [value, 1.5]}])
def test_refusals(value: Any, code: str, wrap: Any) -> None:
    with pytest.raises(CanonicalError) as caught:
        canonical.dumps(wrap(value))
    assert caught.value.code == code
    assert caught.value.hint


def test_depth_limit_is_exact_on_both_paths() -> None:
    assert canonical.dumps(nested(canonical.MAX_DEPTH_WRITE)).count(b"[") == 128
    inner: Any = 1.5
    for _ in range(canonical.MAX_DEPTH_WRITE):
        inner = {"a": inner}
    assert canonical.dumps(inner).count(b"{") == 128
    with pytest.raises(CanonicalError, match="nested more than 128"):
        canonical.dumps([inner])


def test_cycles_are_refused_without_filling_the_memory() -> None:
    loop: list[Any] = []
    loop.extend([loop, loop, {"a": loop}])
    with pytest.raises(CanonicalError, match="contains itself"):
        canonical.dumps(loop)


def test_code_in_subclasses_cannot_raise_through() -> None:
    class Trap(dict):  # type: ignore[type-arg]
        def keys(self) -> Any:
            raise KeyError("secret")

        __iter__ = keys

    with pytest.raises(CanonicalError) as caught:
        canonical.dumps(Trap(a=1))
    assert caught.value.code == "CF-CANON-001"
    assert "secret" not in str(caught.value)


def test_no_value_stands_in_an_error() -> None:
    for value in ({"k": "hunter2\ud800"}, {"k": 12345678901234567890}):
        with pytest.raises(CanonicalError) as caught:
            canonical.dumps(value)
        assert "hunter2" not in repr(caught.value)
        assert "1234567890" not in str(caught.value)


# --- the fast path -----------------------------------------------------------------------------------------


def test_the_fast_path_is_on_and_its_known_answers_are_those_of_the_definition() -> None:
    assert canonical.fast_path_enabled()
    assert len(_jcs_fast.KNOWN_ANSWERS) >= 20
    for value, expected in _jcs_fast.KNOWN_ANSWERS:
        if expected is not None:
            assert rfc8785.dumps(value) == expected


@pytest.mark.parametrize("at", range(len(_jcs_fast.KNOWN_ANSWERS)))
def test_one_wrong_answer_switches_the_fast_path_off(at: int, monkeypatch: pytest.MonkeyPatch) -> None:
    real = _jcs_fast.fast

    def wrong(value: object) -> bytes | None:
        known = _jcs_fast.KNOWN_ANSWERS[at][0]
        return b'"other"' if value is known else real(value)

    monkeypatch.setattr(_jcs_fast, "fast", wrong)
    assert not _jcs_fast.self_test()


def test_an_orjson_that_raises_switches_the_fast_path_off(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(value: object) -> bytes:
        raise RuntimeError

    monkeypatch.setattr(_jcs_fast, "fast", broken)
    assert not _jcs_fast.self_test()


def test_the_same_bytes_without_the_fast_path(monkeypatch: pytest.MonkeyPatch) -> None:
    value = {"b": [1, "x", None, True], "a": {"\u00e9": (1, 2)}}
    expected = canonical.dumps(value)
    monkeypatch.setattr(_jcs, "_enabled", False)
    assert not canonical.fast_path_enabled()
    assert canonical.dumps(value) == expected
    assert canonical.dumps_record(value) == expected
    assert canonical.loads(expected) == canonical.loads_canonical(expected)
    with pytest.raises(CanonicalError, match="not in RFC 8785 form"):
        canonical.loads_canonical(b'{"b":1,"a":2}')


def test_records_take_the_short_way_to_the_same_bytes() -> None:
    record = {"z": 1, "a": ["\u00e9", None, True, {"k": "\U0001f600\ufffd"}]}
    assert canonical.dumps_record(record) == rfc8785.dumps(record)
    assert canonical.dumps_record({"\U00010000": 1, "\uffff": 2}) == '{"\U00010000":1,"\uffff":2}'.encode()
    assert canonical.dumps_record({"a": Text("x")}) == b'{"a":"x"}'
    for value in (datetime.datetime(2026, 1, 1), datetime.date(2026, 1, 1), Point(), b"x", {1: 2}):
        with pytest.raises(CanonicalError):
            canonical.dumps_record({"a": value})
    for value, code in [("\ud800", "CF-CANON-004"), (2**53, "CF-CANON-002"), (nested(300), "CF-CANON-005")]:
        with pytest.raises(CanonicalError) as caught:
            canonical.dumps_record({"a": value})
        assert caught.value.code == code
