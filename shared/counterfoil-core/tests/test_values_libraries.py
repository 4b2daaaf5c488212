"""Objects of numpy, pandas, attrs, pydantic 1 and Pillow have the canonical values that the golden vectors give."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import PIL.Image
import pytest

from counterfoil import canonical, digest, values
from counterfoil.capture import Capture
from counterfoil.values import encode

VECTORS = Path(__file__).resolve().parents[3] / "shared" / "vectors"
CASES: list[dict[str, Any]] = json.loads((VECTORS / "values.json").read_text(encoding="ascii"))["libraries"]


def names() -> dict[str, Any]:
    spec = importlib.util.spec_from_file_location("lib_samples", VECTORS / "making" / "samples_libraries.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return {**vars(module), "numpy": np, "pandas": pd, "PIL": PIL}


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_an_object_has_its_value(case: dict[str, Any]) -> None:
    obj = eval(case["python"], names())  # noqa: S307 - our own file
    value = encode(obj)
    assert canonical.dumps(value).decode() == case["value"]
    assert digest.Reducer().reference(value).to_dict() == case["reference"]
    assert Capture(lambda sha256, data: True).reference(obj).to_dict() == case["reference"]
    assert canonical.dumps(encode(values.decode(value))) == canonical.dumps(value)


def test_every_library_of_the_rule_has_a_vector() -> None:
    assert {case["library"] for case in CASES} == {"numpy", "pandas", "attrs", "PIL", "pydantic"}


ARRAYS: list[Any] = [
    np.array([1, 2], dtype="i4"),
    np.array([1, 2], dtype="i8"),
    np.array([1, 2], dtype=">i8"),
    np.array([1, 2], dtype="u8"),
    np.array([1, 2], dtype="f4"),
    np.array([1, 2], dtype="f2"),
    np.array([1, 2], dtype="c8"),
    np.array([1, 2], dtype="longdouble"),
    np.array([1, 2], dtype="clongdouble"),
    np.array([1, 2], dtype="M8[s]"),
    np.array([1, 2], dtype="M8[ns]"),
    np.array([1, 2], dtype="m8[s]"),
    np.array([1, 2], dtype=object),
    np.array(["1", "2"]),
    np.array(["1", "2"], dtype=np.dtypes.StringDType()),
    np.array([b"1", b"2"]),
    np.array([True, False]),
    np.array([[1, 2]]),
    np.array([[1], [2]]),
    np.array(1),
    np.int64(1),
    np.int32(1),
    np.float64(1),
    np.bool_(True),
    np.str_("1"),
    np.bytes_(b"1"),
    np.void(b"1"),
    np.datetime64(1, "s"),
    np.timedelta64(1, "s"),
    np.datetime64("NaT"),
    np.timedelta64("NaT"),
    np.ma.array([1, 2], mask=[0, 1]),
    np.ma.array([1, 2], mask=[1, 0]),
    np.ma.array([1, 2]),
    np.rec.array([(1, 2)], names="a,b"),
    np.array([(1, 2)], dtype=[("a", "i8"), ("b", "i8")]),
    np.array([(1, 2)], dtype=[("a", "i8"), ("c", "i8")]),
    np.array([(1, None)], dtype=[("a", "i8"), ("b", "O")]),
    np.empty((0, 3)),
    np.empty((3, 0)),
    np.dtype("i4"),
    np.dtype("i8"),
    pd.Series([1, 2]),
    pd.Series([1, 2], name="a"),
    pd.Series([1, 2], index=["a", "b"]),
    pd.Series([1, 2], dtype="Int64"),
    pd.Series([1, None], dtype="Int64"),
    pd.Series([1, 2], dtype="category"),
    pd.Series(["1", "2"]),
    pd.Series(["1", "2"], dtype=object),
    pd.Series(pd.date_range("2026-01-01", periods=2)),
    pd.Series(pd.date_range("2026-01-01", periods=2, tz="UTC")),
    pd.Series(pd.date_range("2026-01-01", periods=2, tz="Europe/Berlin")),
    pd.Series(pd.period_range("2026-01", periods=2, freq="M")),
    pd.Series(pd.timedelta_range("1s", periods=2)),
    pd.Series([1.0, 0.0], dtype="Sparse[float]"),
    pd.Series([pd.Interval(0, 1)]),
    pd.Index([1, 2]),
    pd.RangeIndex(1, 3),
    pd.date_range("2026-01-01", periods=2),
    pd.MultiIndex.from_tuples([(1, "a")]),
    pd.Categorical(["a"]),
    pd.Categorical(["a"], categories=["a", "b"]),
    pd.Categorical(["a"], ordered=True),
    pd.DataFrame({"a": [1, 2]}),
    pd.DataFrame({"b": [1, 2]}),
    pd.DataFrame({"a": [1, 2]}, index=["x", "y"]),
    pd.DataFrame({"a": [1, 2], "b": [1, 2]}),
    pd.DataFrame({"b": [1, 2], "a": [1, 2]}),
    pd.DataFrame([[1]], columns=[("a", 1)]),
    pd.Timestamp("2026-01-01"),
    pd.Timestamp("2026-01-01", tz="UTC"),
    pd.Timestamp("2026-01-01T00:00:00.000000001"),
    pd.Timedelta("1ns"),
    pd.Timedelta("2ns"),
    pd.NaT,
    pd.NA,
    pd.Interval(0, 1),
    pd.Interval(0, 1, closed="left"),
    pd.Period("2026-01", "M"),
    pd.Period("2026-01", "D"),
    PIL.Image.new("RGB", (2, 1)),
    PIL.Image.new("RGB", (1, 2)),
    PIL.Image.new("RGB", (2, 1), (0, 0, 1)),
    PIL.Image.new("HSV", (2, 1)),
    PIL.Image.new("L", (2, 1)),
    PIL.Image.new("1", (2, 1)),
    PIL.Image.new("F", (2, 1)),
    PIL.Image.new("P", (2, 1)),
]


def test_distinct_objects_have_distinct_references() -> None:
    made = [encode(one) for one in ARRAYS]
    assert not any(values.inexact(one) for one in made)
    assert len({digest.digest_of(one) for one in made}) == len(made)


def test_what_a_library_leaves_undefined_is_no_part_of_an_array() -> None:
    kind = np.dtype([("a", "i1"), ("b", "i8")], align=True)
    one, other = (np.frombuffer(bytes([fill]) * 32, dtype="u1").copy().view(kind) for fill in (0, 255))
    for each in (one, other):
        each["a"], each["b"] = 1, 2
    assert one.tobytes() != other.tobytes()
    assert encode(one) == encode(other)
    long = np.ones(2, dtype="longdouble")
    if long.dtype.itemsize == 16 and np.finfo(long.dtype).nmant == 63:
        raw = np.frombuffer(long.tobytes(), dtype="u1").copy()
        raw[10:16] = 255
        assert encode(raw.view("longdouble")) == encode(long)


def test_a_view_and_a_copy_have_one_value() -> None:
    base = np.arange(24).reshape(2, 3, 4)
    for view in (base[:, ::2], base.T, np.asfortranarray(base), base[1]):
        assert encode(view) == encode(view.copy(order="C"))


def test_an_image_is_told_by_its_pixels(tmp_path: Path) -> None:
    image = PIL.Image.new("P", (2, 2))
    image.putpalette([1, 2, 3, 4, 5, 6])
    image.putpixel((1, 1), 1)
    for name in ("a.png", "a.gif"):
        image.save(tmp_path / name)
    with PIL.Image.open(tmp_path / "a.png") as read:
        assert encode(read)["$image"] == encode(image)["$image"]
        other = image.copy()
        other.putpalette([9, 2, 3, 4, 5, 6])
        assert encode(other)["$image"] == encode(image)["$image"]
        assert encode(other) != encode(image)
    assert encode(PIL.Image.new("RGB", (20_000, 20_000)).crop((0, 0, 10, 10)))["size"] == [10, 10]


def test_huge_arrays_and_frames_are_cut_with_their_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("counterfoil._walk.MAX_TEXT", 1000)
    head = b'{"$ndarray":"<f8","shape":[1000]}'
    zeros = {
        "$large": "numpy.ndarray",
        "sha256": hashlib.sha256(head + bytes(8000)).hexdigest(),
        "size": 8000,
    }
    assert encode([np.zeros(1000), 1]) == [zeros, 1]
    assert encode(np.zeros((2, 1000))[:1].reshape(-1)) == encode(np.zeros(2000)[::2]) == zeros
    made = [np.zeros(1000), np.ones(1000), np.zeros(1000, "i8"), np.zeros((10, 100)), np.zeros(2000, "f4")]
    assert len({canonical.dumps(encode(one)) for one in made}) == len(made)
    grid = np.arange(1000.0).reshape(20, 50)
    assert encode(np.asfortranarray(grid)) == encode(grid) != encode(np.ascontiguousarray(grid.T))
    assert "sha256" not in encode(np.broadcast_to(np.zeros(1), (1 << 40,)))
    assert encode(PIL.Image.new("RGB", (100, 100))) == {"$large": "PIL.Image.Image", "size": 30_000}
    frame = encode(pd.DataFrame({"a": range(1000), "b": ["x"] * 1000}))
    assert frame["$dataframe"][0][1] == encode(np.arange(1000))
    found = values.encode_counted([np.zeros(1000), np.zeros(2000)])
    assert found.cuts == 2


def test_the_core_imports_none_of_them() -> None:
    program = (
        "import sys, counterfoil.values as v; v.encode({'a': (1,)});"
        "print([n for n in ('numpy', 'pandas', 'PIL', 'attrs', 'llama_index') if n in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_classes_that_only_bear_their_names_are_not_taken_for_them() -> None:
    made = type("ndarray", (), {"__module__": "numpy", "dtype": property(lambda self: 1 / 0)})
    model = type("BaseModel", (), {"__module__": "pydantic.main"})
    assert encode([made(), model()]) == [{"$opaque": "numpy.ndarray"}, {"$opaque": "pydantic.main.BaseModel"}]
