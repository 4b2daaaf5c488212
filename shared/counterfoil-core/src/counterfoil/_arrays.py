"""The forms of numpy's, pandas' and Pillow's objects; none of them is imported here.

Their bytes go into the evidence as they are; what the libraries leave undefined (padding of structures and of long
doubles) is read around, so that equal arrays have one form.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from counterfoil import canonical
from counterfoil._forms import Form, Go, items, sub_form
from counterfoil._scalars import data_form
from counterfoil._types import is_a, mro, of_type, published, type_name


def form(kind: type) -> Form | None:
    """The form of a class of these libraries, None for every other class."""
    for base in mro(kind):
        module, name = of_type(base, "__module__"), of_type(base, "__name__")
        package = module.partition(".")[0]
        if package == "numpy":
            for known, made in _NUMPY.items():
                if name == known.rpartition(".")[2] and _published("numpy", known) is base:
                    keeps = known in ("generic", "ufunc", "dtype")
                    return made if keeps else sub_form(kind, base, made)
        elif package == "pandas" and name in _PANDAS and published("pandas", name) is base:
            return sub_form(kind, base, _PANDAS[name])
        elif package == "pandas" and name in ("NaTType", "NAType"):
            return _missing
        elif module == "PIL.Image" and name == "Image" and published(module, name) is base:
            return _image
    return None


def _published(package: str, dotted: str) -> object:
    module, _, name = dotted.rpartition(".")
    return published(f"{package}.{module}" if module else package, name)


# -- numpy ------------------------------------------------------------------------------------------------------------


def _dtype(dtype: Any) -> object:
    """A data type: its string, or for a structure its fields with their places."""
    if dtype.names is None:
        return dtype.str if dtype.subdtype is None else [_dtype(dtype.base), list(dtype.shape)]
    fields = [[name, _dtype(dtype.fields[name][0]), dtype.fields[name][1]] for name in dtype.names]
    return {"fields": fields, "size": dtype.itemsize}


def _ndarray(obj: Any, walk: Go) -> object:
    dtype, shape = obj.dtype, [int(one) for one in obj.shape]
    out: dict[str, object] = {"$ndarray": _dtype(dtype), "shape": shape}
    if dtype.names is not None:
        plain = obj.view(_numpy("ndarray"))
        return {**out, "columns": [walk.go(plain[name], 2) for name in dtype.names]}
    if dtype.hasobject or dtype.kind == "T":
        return {**out, "items": walk.go(obj.tolist())}
    if not walk.room(obj.nbytes):
        return walk.large(obj, obj.nbytes, _pieces(obj), canonical.dumps(out))
    return {**out, "data": data_form(_bytes(obj))}


def _pieces(obj: Any) -> Iterator[bytes]:
    """Bytes of an array as ``_bytes`` gives them, some at a time."""
    plain = obj.view(_numpy("ndarray"))
    flat = plain.reshape(-1) if plain.flags.c_contiguous else plain.flat
    step = max(1, (1 << 20) // obj.dtype.itemsize)
    for start in range(0, int(obj.size), step):
        yield _bytes(flat[start : start + step])


def _bytes(obj: Any) -> bytes:
    """Elements in C order; the unused bytes of a long double, which hold anything, as zeros."""
    numpy = _numpy
    width = obj.dtype.itemsize // (2 if obj.dtype.kind == "c" else 1)
    if obj.dtype.kind not in "fc" or width <= 8 or numpy("finfo")(obj.dtype).nmant != 63:
        found: bytes = numpy("ndarray").tobytes(obj)
        return found
    raw = numpy("frombuffer")(numpy("ndarray").tobytes(obj), dtype="u1").reshape(-1, width).copy()
    raw[:, 10:] = 0
    found = raw.tobytes()
    return found


def _numpy(name: str) -> Any:
    return published("numpy", name)


def _scalar(obj: Any, walk: Go) -> object:
    dtype = obj.dtype
    kind = dtype.kind
    out: dict[str, object] = {"$numpy": _dtype(dtype)}
    if type(obj).__module__ != "numpy":
        out["type"] = type_name(obj)
    if kind in "Mm":
        text = str(obj.astype("i8")) if kind == "m" else str(_numpy("datetime_as_string")(obj))
        return {**out, "value": "NaT" if _numpy("isnat")(obj) else text}
    if kind in "biuSU" or (kind in "fc" and dtype.itemsize <= (8 if kind == "f" else 16)):
        return {**out, "value": walk.go(obj.item())}
    return {**out, "value": walk.go(_numpy("asarray")(obj))}


def _masked(obj: Any, walk: Go) -> object:
    data, mask = obj.data, obj.mask
    given = mask if mask is not _numpy("ma").nomask else None
    return {"$masked": walk.go(data), "mask": walk.go(given)}


_NUMPY: Final[dict[str, Form]] = {
    "ma.MaskedArray": _masked,
    "ndarray": _ndarray,
    "generic": _scalar,
    "dtype": lambda obj, walk: {"$dtype": _dtype(obj)},
    "ufunc": lambda obj, walk: {"$callable": f"numpy.{obj.__name__}"},
}


# -- pandas -----------------------------------------------------------------------------------------------------------


def _column(values: Any, walk: Go) -> object:
    """One column's values: as numbers where they are kept as numbers, else one by one."""
    name = type(values).__name__
    if is_a(type(values), _numpy("ndarray")):
        return _within(values, walk)
    if name in ("NumpyExtensionArray", "PandasArray"):
        return _within(values.to_numpy(), walk)
    out: dict[str, object] = {"$column": str(values.dtype)}
    if name == "Categorical":
        categories = _one_by_one(values.categories, walk)
        return {
            **out,
            "categories": categories,
            "codes": _within(values.codes, walk),
            "ordered": bool(values.ordered),
        }
    if name in ("DatetimeArray", "TimedeltaArray", "PeriodArray"):
        return {**out, "data": _within(values.asi8, walk)}
    if name in ("IntegerArray", "FloatingArray", "BooleanArray"):
        kind = values.dtype.numpy_dtype
        filled = values.to_numpy(dtype=kind, na_value=kind.type(0))
        return {**out, "data": _within(filled, walk), "mask": _within(values.isna(), walk)}
    return {**out, "items": _one_by_one(values, walk)}


def _within(values: Any, walk: Go) -> object:
    return walk.go(values, 4)


def _one_by_one(values: Any, walk: Go) -> object:
    if not walk.room(16 * len(values)):
        return walk.large(values, len(values))
    return [walk.go(one, 5) for one in list(values)]


def _frame(obj: Any, walk: Go) -> object:
    columns = [
        [walk.go(label, 3), _column(obj.iloc[:, at].array, walk)] for at, label in enumerate(obj.columns)
    ]
    out: dict[str, object] = {"$dataframe": columns, "index": walk.go(obj.index)}
    names = list(obj.columns.names)
    if any(name is not None for name in names):
        out["names"] = walk.go(names)
    return {**out, "attrs": walk.go(obj.attrs)} if obj.attrs else out


def _series(obj: Any, walk: Go) -> object:
    out = {"$series": _column(obj.array, walk), "index": walk.go(obj.index), "name": walk.go(obj.name)}
    return {**out, "attrs": walk.go(obj.attrs)} if obj.attrs else out


def _index(obj: Any, walk: Go) -> object:
    name = type(obj).__name__
    if name == "RangeIndex":
        return {"$index": {"$range": [obj.start, obj.stop, obj.step]}, "name": walk.go(obj.name)}
    if name == "MultiIndex":
        levels = [_column(obj.get_level_values(at).array, walk) for at in range(obj.nlevels)]
        return {"$index": levels, "names": walk.go(list(obj.names))}
    return {"$index": _column(obj.array, walk), "name": walk.go(obj.name)}


def _interval(obj: Any, walk: Go) -> object:
    return {"$interval": [walk.go(obj.left, 2), walk.go(obj.right, 2)], "closed": obj.closed}


def _missing(obj: Any, walk: Go) -> object:
    return {"$constant": f"pandas.{'NA' if type(obj).__name__ == 'NAType' else 'NaT'}"}


_PANDAS: Final[dict[str, Form]] = {
    "DataFrame": _frame,
    "Series": _series,
    "Index": _index,
    "Categorical": _column,
    "Interval": _interval,
    "Period": lambda obj, walk: {"$period": obj.ordinal, "freq": obj.freqstr},
}


# -- Pillow -----------------------------------------------------------------------------------------------------------


def _image(obj: Any, walk: Go) -> object:
    """Pixels, mode and size; the class of the file it came from is no part of it."""
    width, height = obj.size
    pixels = width * height * len(obj.getbands()) * (4 if obj.mode[:1] in ("I", "F") else 1)
    if not walk.room(pixels):
        return walk.large(obj, pixels)
    out: dict[str, object] = {"$image": data_form(obj.tobytes()), "mode": obj.mode, "size": [width, height]}
    if obj.palette is not None:
        out["palette"] = [obj.palette.mode, data_form(bytes(obj.getpalette(None) or ()))]
    more = {key: obj.info[key] for key in ("transparency",) if key in obj.info}
    return {**out, "more": items(list(more.items()), walk, 2, obj)} if more else out
