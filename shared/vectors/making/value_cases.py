"""Python objects and their canonical values, written by hand; references follow from them."""

from __future__ import annotations

from typing import Any, Final

from making.formats import Blobs, jcs

S: Final = "samples."

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
    ("bytearray(b'abc')", {"$bytes": "YWJj"}),
    ("memoryview(b'abc')", {"$bytes": "YWJj"}),
    # containers
    ("(1, (2,))", {"$tuple": [1, {"$tuple": [2]}]}),
    ("{3, 1, 2, 10}", {"$set": [1, 10, 2, 3]}),
    ("frozenset({'b', 'a'})", {"$set": ["a", "b"]}),
    ("{1: 'a', 'b': 2}", {"$map": [["b", 2], [1, "a"]]}),
    ("{None: 0, (1, 2): 1}", {"$map": [[None, 0], [{"$tuple": [1, 2]}, 1]]}),
    ("{'$x': 1, 'a': 2}", {"$map": [["$x", 1], ["a", 2]]}),
    ("{'\\ud800': 1}", {"$map": [[{"$str": "7aCA"}, 1]]}),
    ("{True: {1.5: 'x'}}", {"$map": [[True, {"$map": [[1.5, "x"]]}]]}),
    ("collections.OrderedDict(b=1, a=2)", {"a": 2, "b": 1}),
    ("collections.deque([1, [2]])", {"$deque": [1, [2]]}),
    ("types.MappingProxyType({'a': 1})", {"a": 1}),
    ("{'a': 1}.keys()", {"$keys": ["a"]}),
    ("{'a': 1}.values()", {"$values": [1]}),
    ("{'a': 1}.items()", {"$items": [{"$tuple": ["a", 1]}]}),
    ("range(1, 9, 2)", {"$range": [1, 9, 2]}),
    ("types.SimpleNamespace(a=1)", {"$namespace": {"a": 1}}),
    ("Point(1, y=2)", {"$namedtuple": S + "Point", "fields": {"x": 1, "y": 2}}),
    # numbers of other kinds
    ("1 + 2.5j", {"$complex": [1, 2.5]}),
    ("decimal.Decimal('1.10')", {"$decimal": "1.10"}),
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
    ("datetime.date(2026, 11, 30)", {"$date": "2026-11-30"}),
    ("datetime.time(12, 5)", {"$time": "12:05:00"}),
    ("datetime.timedelta(days=-1, seconds=5, microseconds=7)", {"$timedelta": [-1, 5, 7]}),
    ("uuid.UUID(int=255)", {"$uuid": "000000000000000000000000000000ff"}),
    ("Place('/a/b')", {"$path": "/a/b", "type": S + "Place"}),
    # classes and their objects
    ("Colour.RED", {"$enum": S + "Colour", "name": "RED", "value": "r"}),
    ("Level.HIGH", {"$enum": S + "Level", "name": "HIGH", "value": 3}),
    ("Item('a', ['b'])", {"$dataclass": S + "Item", "fields": {"name": "a", "tags": ["b"]}}),
    ("Model(name='a', more=[1])", {"$model": S + "Model", "fields": {"count": 0, "more": [1], "name": "a"}}),
    ("Text('a')", {"$substr": S + "Text", "value": "a"}),
    ("Number(7)", {"$subint": S + "Number", "value": 7}),
    ("Number(2**53)", {"$subint": S + "Number", "value": {"$int": "0x20000000000000"}}),
    ("Ratio('nan')", {"$subfloat": S + "Ratio", "value": {"$num": "NaN"}}),
    ("Mapping(a=1)", {"a": 1}),
    ("ValueError('no', 1)", {"$exception": "ValueError", "args": ["no", 1]}),
    ("int", {"$type": "builtins.int"}),
    ("Colour", {"$type": S + "Colour"}),
    ("math.sqrt", {"$callable": "math.sqrt"}),
    ("cycle", {"$callable": S + "cycle"}),
    ("math", {"$module": "math"}),
    ("pydantic.SecretStr('x')", {"$redacted": {"rule": "secret type", "type": "pydantic.types.SecretStr"}}),
    # what cannot be told
    ("object()", {"$opaque": "object"}),
    ("Hidden()", {"$opaque": S + "Hidden"}),
    ("iter([1])", {"$opaque": "list_iterator"}),
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


def build() -> dict[str, Any]:
    """The file."""
    deep = [
        ("nested(100)", levels(99, [])),
        ("nested(101)", levels(100, {"$deep": "list"})),
    ]
    messages = [case(python, {"$msg": message}) for python, message in MESSAGES]
    return {"messages": messages, "values": [case(*one) for one in (*PLAIN, *TAGGED, *deep)]}
