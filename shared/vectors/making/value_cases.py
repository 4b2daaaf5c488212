"""Python objects and their canonical values, written by hand; references follow from them."""

from __future__ import annotations

import hashlib
from typing import Any, Final

from making.formats import Blobs, jcs

S: Final = "samples."
HIDDEN: Final = {"$opaque": S + "Hidden"}

PLAIN: Final[list[tuple[str, Any]]] = [
    ("None", None),
    ("True", True),
    ("'text'", "text"),
    ("'\\u00e9 \\U0001f600 \\u2028'", "\u00e9 \U0001f600 \u2028"),
    ("0", 0),
    ("-1", -1),
    ("1.0", 1),
    ("-0.0", 0),
    ("1.5", 1.5),
    ("1e-7", 1e-7),
    ("1e21", 1e21),
    ("2**53 - 1", 2**53 - 1),
    ("[]", []),
    ("{}", {}),
    ("{'b': [1, None, 'x'], 'a': {'c': 1.5}}", {"a": {"c": 1.5}, "b": [1, None, "x"]}),
    ("{'': 1, '\\u00e9': 2}", {"": 1, "\u00e9": 2}),
]

TAGGED: Final[list[tuple[str, Any]]] = [
    # numbers and texts that JSON cannot hold
    ("2**53", {"$int": "0x20000000000000"}),
    ("-(2**53)", {"$int": "-0x20000000000000"}),
    ("10**30", {"$int": "0xc9f2c9cd04674edea40000000"}),
    ("float('nan')", {"$num": "NaN"}),
    ("math.inf", {"$num": "Infinity"}),
    ("-math.inf", {"$num": "-Infinity"}),
    ("1e16", {"$num": "0x1.1c37937e08000p+53"}),
    ("2.0**53", {"$num": "0x1.0000000000000p+53"}),
    ("'\\ud800x'", {"$str": "7aCAeA=="}),
    # bytes
    ("b''", {"$bytes": ""}),
    ("b'\\x00\\xff'", {"$bytes": "AP8="}),
    ("bytearray(b'abc')", {"$bytearray": {"$bytes": "YWJj"}}),
    ("memoryview(b'abc')", {"$memoryview": {"$bytes": "YWJj"}, "format": "B", "shape": [3]}),
    ("array.array('h', [1, -1])", {"$array": "h", "data": {"$bytes": "AQD//w=="}, "width": 2}),
    # containers
    ("(1, (2,))", {"$tuple": [1, {"$tuple": [2]}]}),
    ("{3, 1, 2, 10}", {"$set": [1, 10, 2, 3]}),
    ("frozenset({'b', 'a'})", {"$frozenset": ["a", "b"]}),
    ("{1: 'a', 'b': 2}", {"$map": [["b", 2], [1, "a"]]}),
    ("{None: 0, (1, 2): 1}", {"$map": [[None, 0], [{"$tuple": [1, 2]}, 1]]}),
    ("{'$x': 1, 'a': 2}", {"$map": [["$x", 1], ["a", 2]]}),
    ("{'\\ud800': 1}", {"$map": [[{"$str": "7aCA"}, 1]]}),
    ("{True: {1.5: 'x'}}", {"$map": [[True, {"$map": [[1.5, "x"]]}]]}),
    ("{'k': {Hidden(): 2, Hidden(): 1}}", {"k": {"$map": [[HIDDEN, 1], [HIDDEN, 2]]}}),
    ("collections.OrderedDict(b=1, a=2)", {"$ordereddict": [["b", 1], ["a", 2]]}),
    (
        "collections.defaultdict(list, a=[1])",
        {"$defaultdict": {"a": [1]}, "factory": {"$type": "builtins.list"}},
    ),
    ("collections.Counter('aab')", {"$sub": "collections.Counter", "value": {"a": 2, "b": 1}}),
    ("collections.ChainMap({'a': 1}, {})", {"$chainmap": [{"a": 1}, {}]}),
    ("collections.UserList([1])", {"$user": [1]}),
    ("collections.deque([1, [2]])", {"$deque": [1, [2]]}),
    ("collections.deque([1], 3)", {"$deque": [1], "maxlen": 3}),
    ("types.MappingProxyType({'a': 1})", {"$mappingproxy": {"a": 1}}),
    ("{'a': 1}.keys()", {"$keys": ["a"]}),
    ("{'a': 1}.values()", {"$values": [1]}),
    ("{'a': 1}.items()", {"$items": [{"$tuple": ["a", 1]}]}),
    ("range(1, 9, 2)", {"$range": [1, 9, 2]}),
    ("slice(1, None)", {"$slice": [1, None, None]}),
    ("types.SimpleNamespace(a=1)", {"$namespace": {"a": 1}}),
    ("Point(1, y=2)", {"$namedtuple": S + "Point", "fields": {"x": 1, "y": 2}}),
    # numbers of other kinds
    ("1 + 2.5j", {"$complex": [1, 2.5]}),
    ("decimal.Decimal('1.10')", {"$decimal": "1.10"}),
    ("decimal.Decimal('1e5')", {"$decimal": "1E+5"}),
    ("decimal.Decimal('sNaN')", {"$decimal": "sNaN"}),
    ("decimal.Decimal('-Infinity')", {"$decimal": "-Infinity"}),
    ("fractions.Fraction(-1, 3)", {"$fraction": [-1, 3]}),
    # time, identity, place
    ("datetime.datetime(2026, 11, 30, 12, 5, 6, 7)", {"$datetime": "2026-11-30T12:05:06.000007"}),
    (
        "datetime.datetime(2026, 11, 30, tzinfo=datetime.timezone.utc)",
        {"$datetime": "2026-11-30T00:00:00+00:00"},
    ),
    (
        "datetime.datetime(2026, 10, 25, 2, 30, fold=1, tzinfo=datetime.timezone(datetime.timedelta(hours=1)))",
        {"$datetime": "2026-10-25T02:30:00+01:00", "fold": 1},
    ),
    (
        "datetime.datetime(2026, 11, 30, tzinfo=zoneinfo.ZoneInfo('UTC'))",
        {"$datetime": "2026-11-30T00:00:00+00:00", "zone": "UTC"},
    ),
    (
        "datetime.datetime(2026, 11, 30, tzinfo=datetime.timezone(datetime.timedelta(hours=1), 'CET'))",
        {"$datetime": "2026-11-30T00:00:00+01:00", "name": "CET"},
    ),
    ("datetime.date(2026, 11, 30)", {"$date": "2026-11-30"}),
    ("datetime.time(12, 5)", {"$time": "12:05:00"}),
    ("datetime.timedelta(days=-1, seconds=5, microseconds=7)", {"$timedelta": [-1, 5, 7]}),
    ("datetime.timezone.utc", {"$timezone": [0, 0, 0]}),
    ("zoneinfo.ZoneInfo('UTC')", {"$zoneinfo": "UTC"}),
    ("ipaddress.ip_address('::1')", {"$ipaddress": "::1"}),
    ("ipaddress.ip_interface('10.0.0.1/8')", {"$ipinterface": "10.0.0.1/8"}),
    ("ipaddress.ip_network('10.0.0.0/8')", {"$ipnetwork": "10.0.0.0/8"}),
    ("re.compile('a.', re.I)", {"$pattern": "a.", "flags": 34}),
    ("re.compile(b'a')", {"$pattern": {"$bytes": "YQ=="}, "flags": 0}),
    ("uuid.UUID(int=255)", {"$uuid": "000000000000000000000000000000ff"}),
    ("Place('/a/b')", {"$path": "/a/b", "type": S + "Place"}),
    # classes and their objects
    ("Colour.RED", {"$enum": S + "Colour", "name": "RED", "value": "r"}),
    ("Level.HIGH", {"$enum": S + "Level", "name": "HIGH", "value": 3}),
    ("Colour.SCARLET", {"$enum": S + "Colour", "name": "RED", "value": "r"}),
    ("Access.READ | Access.WRITE", {"$enum": S + "Access", "name": "READ|WRITE", "value": 3}),
    ("Slim(1)", {"$dataclass": S + "Slim", "fields": {"a": 1}}),
    ("Item('a', ['b'])", {"$dataclass": S + "Item", "fields": {"name": "a", "tags": ["b"]}}),
    ("Model(name='a', more=[1])", {"$model": S + "Model", "fields": {"count": 0, "more": [1], "name": "a"}}),
    ("Text('a')", {"$substr": S + "Text", "value": "a"}),
    ("Number(7)", {"$subint": S + "Number", "value": 7}),
    ("Number(2**53)", {"$subint": S + "Number", "value": {"$int": "0x20000000000000"}}),
    ("Ratio('nan')", {"$subfloat": S + "Ratio", "value": {"$num": "NaN"}}),
    ("Mapping(a=1)", {"$sub": S + "Mapping", "value": {"a": 1}}),
    ("Listing([1])", {"$sub": S + "Listing", "value": [1]}),
    ("Row((1,))", {"$sub": S + "Row", "value": {"$tuple": [1]}}),
    ("Some({1})", {"$sub": S + "Some", "value": {"$set": [1]}}),
    ("Data(b'abc')", {"$sub": S + "Data", "value": {"$bytes": "YWJj"}}),
    ("ValueError('no', 1)", {"$exception": "ValueError", "args": ["no", 1]}),
    (
        "failed()",
        {
            "$exception": "FileNotFoundError",
            "args": [2, "no"],
            "cause": {"$exception": "KeyError", "args": ["k"]},
            "more": {"filename": "f"},
            "notes": ["seen"],
        },
    ),
    (
        "ExceptionGroup('g', [KeyError('k')])",
        {"$exception": "ExceptionGroup", "args": ["g", [{"$exception": "KeyError", "args": ["k"]}]]},
    ),
    ("int", {"$type": "builtins.int"}),
    ("Colour", {"$type": S + "Colour"}),
    ("math.sqrt", {"$callable": "math.sqrt"}),
    ("cycle", {"$callable": S + "cycle"}),
    ("str.upper", {"$callable": "str.upper"}),
    (
        "functools.partial(int, base=2)",
        {"$partial": {"$type": "builtins.int"}, "args": [], "keywords": {"base": 2}},
    ),
    ("list[int]", {"$generic": {"$type": "builtins.list"}, "args": [{"$type": "builtins.int"}]}),
    ("int | None", {"$union": [{"$type": "builtins.NoneType"}, {"$type": "builtins.int"}]}),
    ("...", {"$constant": "Ellipsis"}),
    ("NotImplemented", {"$constant": "NotImplemented"}),
    ("math", {"$module": "math"}),
    ("pydantic.SecretStr('x')", {"$redacted": {"rule": "secret type", "type": "pydantic.types.SecretStr"}}),
    # what cannot be told
    ("object()", {"$opaque": "object"}),
    ("Hidden()", {"$opaque": S + "Hidden"}),
    ("iter([1])", {"$opaque": "list_iterator"}),
    ("(x for x in [1])", {"$opaque": "generator"}),
    ("threading.Lock()", {"$opaque": "_thread.lock"}),
    ("[Hidden(), 1]", [{"$opaque": S + "Hidden"}, 1]),
    ("cycle()", [1, {"self": {"$cycle": 2}}]),
    ("{'a': cycle()}", {"a": [1, {"self": {"$cycle": 2}}]}),
]


def levels(count: int, inner: Any) -> Any:
    """Lists within lists."""
    for _ in range(count):
        inner = [inner]
    return inner


def text(content: str) -> dict[str, str]:
    """A block of text."""
    return {"text": content, "type": "text"}


TWO: Final = "AQAAAAAAAAACAAAAAAAAAA=="  # the integers 1 and 2, 64 bits each, low byte first
ROWS: Final = {"$sub": "pandas.RangeIndex", "value": {"$index": {"$range": [0, 2, 1]}, "name": None}}


def array(dtype: Any, data: str, *shape: int) -> dict[str, Any]:
    """An array of numpy."""
    return {"$ndarray": dtype, "data": {"$bytes": data}, "shape": list(shape)}


LIBRARIES: Final[list[tuple[str, tuple[str, Any]]]] = [
    ("numpy", ("numpy.float64(1.5)", {"$numpy": "<f8", "value": 1.5})),
    ("numpy", ("numpy.float32('nan')", {"$numpy": "<f4", "value": {"$num": "NaN"}})),
    ("numpy", ("numpy.int8(-1)", {"$numpy": "|i1", "value": -1})),
    ("numpy", ("numpy.bool_(True)", {"$numpy": "|b1", "value": True})),
    ("numpy", ("numpy.str_('a')", {"$numpy": "<U1", "value": "a"})),
    (
        "numpy",
        (
            "numpy.datetime64('2026-01-01', 'ns')",
            {"$numpy": "<M8[ns]", "value": "2026-01-01T00:00:00.000000000"},
        ),
    ),
    ("numpy", ("numpy.datetime64('NaT', 's')", {"$numpy": "<M8[s]", "value": "NaT"})),
    ("numpy", ("numpy.timedelta64(3, 's')", {"$numpy": "<m8[s]", "value": "3"})),
    ("numpy", ("numpy.dtype('int32')", {"$dtype": "<i4"})),
    ("numpy", ("numpy.sin", {"$callable": "numpy.sin"})),
    ("numpy", ("numpy.array([1, 2], dtype='<i8')", array("<i8", TWO, 2))),
    ("numpy", ("numpy.array([[1], [2]], dtype='<i8', order='F')", array("<i8", TWO, 2, 1))),
    ("numpy", ("numpy.array([1, 2, 0], dtype='<i8')[:2]", array("<i8", TWO, 2))),
    ("numpy", ("numpy.array(['2026-01-01'], dtype='M8[D]')", array("<M8[D]", "5k8AAAAAAAA=", 1))),
    (
        "numpy",
        (
            "numpy.array([None, 'a', [1]], dtype=object)",
            {"$ndarray": "|O", "items": [None, "a", [1]], "shape": [3]},
        ),
    ),
    (
        "numpy",
        (
            "numpy.array([(1, 2)], dtype=[('a', '|i1'), ('b', '<i8')])",
            {
                "$ndarray": {"fields": [["a", "|i1", 0], ["b", "<i8", 1]], "size": 9},
                "columns": [array("|i1", "AQ==", 1), array("<i8", "AgAAAAAAAAA=", 1)],
                "shape": [1],
            },
        ),
    ),
    (
        "numpy",
        (
            "numpy.ma.array([1, 2], mask=[False, True], dtype='<i8')",
            {"$masked": array("<i8", TWO, 2), "mask": array("|b1", "AAE=", 2)},
        ),
    ),
    ("pandas", ("pandas.NA", {"$constant": "pandas.NA"})),
    ("pandas", ("pandas.NaT", {"$constant": "pandas.NaT"})),
    (
        "pandas",
        (
            "pandas.Timestamp('2026-01-01T00:00:00.000000001')",
            {"$sub": "pandas.Timestamp", "value": {"$datetime": "2026-01-01T00:00:00", "nanosecond": 1}},
        ),
    ),
    ("pandas", ("pandas.Timedelta('1us')", {"$sub": "pandas.Timedelta", "value": {"$timedelta": [0, 0, 1]}})),
    ("pandas", ("pandas.Interval(1, 2)", {"$interval": [1, 2], "closed": "right"})),
    ("pandas", ("pandas.Period('2026-01', 'M')", {"$period": 672, "freq": "M"})),
    ("pandas", ("pandas.Index([1, 2], name='i')", {"$index": array("<i8", TWO, 2), "name": "i"})),
    (
        "pandas",
        ("pandas.Series([1, 2], name='a')", {"$series": array("<i8", TWO, 2), "index": ROWS, "name": "a"}),
    ),
    (
        "pandas",
        (
            "pandas.Series([1, None], dtype='Int64')",
            {
                "$series": {
                    "$column": "Int64",
                    "data": array("<i8", "AQAAAAAAAAAAAAAAAAAAAA==", 2),
                    "mask": array("|b1", "AAE=", 2),
                },
                "index": ROWS,
                "name": None,
            },
        ),
    ),
    (
        "pandas",
        (
            "pandas.Categorical(['b', 'a'])",
            {
                "$column": "category",
                "categories": ["a", "b"],
                "codes": array("|i1", "AQA=", 2),
                "ordered": False,
            },
        ),
    ),
    (
        "pandas",
        (
            "pandas.DataFrame({'n': [1, 2], 's': pandas.Series(['x', None], dtype=object)})",
            {
                "$dataframe": [
                    ["n", array("<i8", TWO, 2)],
                    ["s", {"$ndarray": "|O", "items": ["x", None], "shape": [2]}],
                ],
                "index": ROWS,
            },
        ),
    ),
    ("attrs", ("Box(1, 2)", {"$attrs": S + "Box", "fields": {"a": 1, "_b": 2}})),
    (
        "PIL",
        (
            "PIL.Image.new('RGB', (2, 1), (1, 2, 3))",
            {"$image": {"$bytes": "AQIDAQID"}, "mode": "RGB", "size": [2, 1]},
        ),
    ),
    ("PIL", ("PIL.Image.new('L', (1, 1), 7)", {"$image": {"$bytes": "Bw=="}, "mode": "L", "size": [1, 1]})),
    (
        "pydantic",
        (
            "Old(a=1, more=2)",
            {
                "$model": S + "Old",
                "fields": {
                    "a": 1,
                    "more": 2,
                    "secret": {"$redacted": {"rule": "secret type", "type": "pydantic.v1.types.SecretStr"}},
                },
            },
        ),
    ),
    (
        "pydantic",
        ("pydantic.AnyUrl('http://a/')", {"$url": "http://a/", "type": "pydantic.networks.AnyUrl"}),
    ),
]
"""What the test builds where the library is there; ``numpy``, ``PIL``, ... name the modules themselves."""


CALL: Final = {"args": {"q": "rain"}, "id": "call_1", "name": "search"}

# Names of langchain_core.messages; what differs only in volatile fields has one form.
MESSAGES: Final[list[tuple[str, dict[str, Any]]]] = [
    ("HumanMessage('Hello')", {"content": [text("Hello")], "type": "human"}),
    ("HumanMessage(['Hello'])", {"content": [text("Hello")], "type": "human"}),
    (
        "HumanMessage([{'type': 'text', 'text': 'Hello'}], id='h1')",
        {"content": [text("Hello")], "type": "human"},
    ),
    ("HumanMessage('')", {"content": [], "type": "human"}),
    (
        "SystemMessage('Be brief.', name='rules')",
        {"content": [text("Be brief.")], "name": "rules", "type": "system"},
    ),
    (
        "AIMessage('Hi', id='lc_run--1', response_metadata={'model_name': 'm'}, "
        "usage_metadata={'input_tokens': 1, 'output_tokens': 1, 'total_tokens': 2})",
        {"content": [text("Hi")], "type": "ai"},
    ),
    ("AIMessageChunk('Hi', id='lc_run--1')", {"content": [text("Hi")], "type": "ai"}),
    (
        "AIMessage([{'type': 'text', 'text': 'Hi', 'index': 0, 'id': 'lc_1'}, {'type': 'text', 'text': ''}])",
        {"content": [text("Hi")], "type": "ai"},
    ),
    (
        "AIMessage('', tool_calls=[{'name': 'search', 'args': {'q': 'rain'}, 'id': 'call_1'}])",
        {"content": [], "tool_calls": [CALL], "type": "ai"},
    ),
    (
        "AIMessage([{'type': 'tool_use', 'id': 'call_1', 'name': 'search', 'input': {'q': 'rain'}}], "
        "tool_calls=[{'name': 'search', 'args': {'q': 'rain'}, 'id': 'call_1', 'type': 'tool_call'}])",
        {"content": [], "tool_calls": [CALL], "type": "ai"},
    ),
    (
        "AIMessage([{'type': 'tool_use', 'id': 'call_2', 'name': 'search', 'input': {}}])",
        {"content": [{"id": "call_2", "input": {}, "name": "search", "type": "tool_use"}], "type": "ai"},
    ),
    (
        "AIMessage('x', invalid_tool_calls=[{'name': 'a', 'args': '{', 'id': 'c', 'error': None}])",
        {
            "content": [text("x")],
            "invalid_tool_calls": [
                {"args": "{", "error": None, "id": "c", "name": "a", "type": "invalid_tool_call"}
            ],
            "type": "ai",
        },
    ),
    (
        "AIMessage('x', additional_kwargs={'refusal': None, 'audio': {'id': 'a'}})",
        {"additional_kwargs": {"audio": {"id": "a"}}, "content": [text("x")], "type": "ai"},
    ),
    (
        "ToolMessage('42', tool_call_id='call_1', artifact={'rows': [1, 2]})",
        {"artifact": {"rows": [1, 2]}, "content": [text("42")], "tool_call_id": "call_1", "type": "tool"},
    ),
    (
        "ToolMessage('no', tool_call_id='call_1', status='error')",
        {"content": [text("no")], "status": "error", "tool_call_id": "call_1", "type": "tool"},
    ),
    ("ChatMessage('x', role='judge')", {"content": [text("x")], "role": "judge", "type": "chat"}),
    ("RemoveMessage('m1')", {"content": [], "id": "m1", "type": "remove"}),
    (
        "HumanMessage([{'type': 'image_url', 'image_url': {'url': 'data:image/png;base64,AAAA'}}])",
        {"content": [{"base64": "AAAA", "mime_type": "image/png", "type": "image"}], "type": "human"},
    ),
    (
        "HumanMessage([{'type': 'image', 'source_type': 'base64', 'data': 'AAAA', 'mime_type': 'image/png'}])",
        {"content": [{"base64": "AAAA", "mime_type": "image/png", "type": "image"}], "type": "human"},
    ),
    (
        "HumanMessage([{'type': 'image_url', 'image_url': {'url': 'https://example.org/a.png', 'detail': 'low'}}])",
        {
            "content": [
                {"image_url": {"detail": "low", "url": "https://example.org/a.png"}, "type": "image_url"}
            ],
            "type": "human",
        },
    ),
    ("HumanMessage('x', mood='calm')", {"content": [text("x")], "extra": {"mood": "calm"}, "type": "human"}),
    ("HumanMessage('a' * 300)", {"content": [text("a" * 300)], "type": "human"}),
]


def case(python: str, value: Any) -> dict[str, Any]:
    """One object."""
    return {
        "name": python,
        "python": python,
        "reference": Blobs().reference(value),
        "value": jcs(value).decode(),
    }


def cut(kind: str, data: bytes, head: Any = None, size: int | None = None) -> dict[str, Any]:
    """The marker of bytes that are not kept."""
    hashed = data if head is None else jcs(head) + data
    return {
        "$large": kind,
        "sha256": hashlib.sha256(hashed).hexdigest(),
        "size": len(data) if size is None else size,
    }


def build() -> dict[str, Any]:
    """The file."""
    deep = [
        ("nested(100)", levels(99, [])),
        ("nested(101)", levels(100, {"$deep": "list", "size": 0})),
    ]
    large: list[tuple[str, Any]] = [
        ("'a' * (2**26 + 1)", cut("str", b"a" * (2**26 + 1))),
        ("'a' * 2**26 + 'b'", cut("str", b"a" * 2**26 + b"b")),
        ("'\\u00e9' * (2**25 + 1)", cut("str", "\u00e9".encode() * (2**25 + 1))),
        ("[bytes(2**26 + 1), 1]", [cut("bytes", bytes(2**26 + 1)), 1]),
        ("{'b': bytearray(2**26 + 1)}", {"b": cut("bytearray", bytes(2**26 + 1))}),
        (
            "array.array('h', bytes(2**26 + 2))",
            cut("array.array", bytes(2**26 + 2), {"$array": "h", "width": 2}),
        ),
        (
            "memoryview(bytes(2**26 + 1))",
            cut("memoryview", bytes(2**26 + 1), {"format": "B", "shape": [2**26 + 1]}),
        ),
        ("-(1 << 2**28 + 4)", cut("int", b"-0x1" + b"0" * (2**26 + 1), size=2**26 + 1)),
        ("[{bytes(2**26 + 1)}, 1]", [{"$large": "set", "size": 1}, 1]),
    ]
    zeros = cut("numpy.ndarray", bytes(8 * 10**7), {"$ndarray": "<f8", "shape": [10**7]})
    libraries = [
        {"library": library, **case(*one)}
        for library, one in [*LIBRARIES, ("numpy", ("numpy.zeros(10**7)", zeros))]
    ]
    messages = [case(python, {"$msg": message}) for python, message in MESSAGES]
    return {
        "libraries": libraries,
        "messages": messages,
        "values": [case(*one) for one in (*PLAIN, *TAGGED, *deep, *large)],
    }
