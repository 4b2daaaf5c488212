"""The reader gives back what was recorded, and answers evidence of any shape with an error of its own at most."""

from __future__ import annotations

import base64
import copy
import hashlib
import os
import random
import struct
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import counterfoil
from counterfoil import canonical, keys, log, notes, records, segments, statements, tree, values
from counterfoil.digest import MEDIA_BYTES, MEDIA_FOLD, MEDIA_JSON, MEDIA_TEXT, Reference
from counterfoil.dsse import Envelope
from counterfoil.errors import CounterfoilError, LogError, StoreError


def test_values_come_back(lab: Any) -> None:
    given: list[Any] = [
        "text",
        "long " * 200,
        b"\x00" * 300,
        {"a": ["x" * 300, {"b": {"c": "y" * 400}}], "n": 1.5, "big": 2**80},
        [{"deep": [[[["z" * 300]]]]}] * 3,
        (1, "two" * 100, frozenset({"x" * 300})),
        {1: "a" * 300, "$x": b"z" * 300},
        None,
        True,
    ]
    recorder = lab.recorder()
    root = recorder.start("invoke_workflow", "app", actor=("app",))
    references = [recorder.value(value) for value in given]
    for reference in references:
        recorder.end(recorder.start("step", "n", actor=("n",), parent=root, request=reference))
    recorder.end(root)
    recorder.close()
    reader = counterfoil.read(lab.evidence)
    for value, reference in zip(given, references, strict=True):
        assert reader.value(reference) == values.encode(value)
        assert reader.value(reference.to_dict()) == values.encode(value)
    assert reader.value(None) is None
    sizes = dict(reader.blobs())
    assert all(len(reader.blob(sha256)) == size for sha256, size in sizes.items())
    some = references[1].sha256
    assert reader.find(some[:20]) == some
    assert reader.find("") is None
    assert reader.find("zz") is None


@pytest.mark.usefixtures("forms")
def test_a_folded_history_comes_back(lab: Any) -> None:
    class Message:
        def __init__(self, text: str) -> None:
            self.text = text

    values.register(Message, lambda one, go: {"$msg": {"text": go(one.text)}}, key=lambda one: one.text)
    recorder = lab.recorder()
    history = [Message(f"{number} " * 150) for number in range(300)]
    references = [recorder.value(history[:end]) for end in range(1, 301)]
    root = recorder.start("invoke_workflow", "app", actor=("app",), request=references[-1])
    recorder.end(root)
    recorder.close()
    assert lab.verify().verdict == "intact"
    reader = counterfoil.read(lab.evidence)
    assert [one["$msg"]["text"] for one in reader.value(references[-1])] == [one.text for one in history]
    assert len(reader.value(references[6])) == 7


def test_a_reader_of_evidence_that_grows(lab: Any) -> None:
    recorder = lab.recorder()
    root = recorder.start("invoke_workflow", "app", actor=("app",))
    first = recorder.value("first " * 100)
    recorder.flush()
    reader = counterfoil.read(lab.evidence)
    assert reader.value(first) == "first " * 100
    second = recorder.value("second " * 100)
    recorder.end(root, response=second)
    recorder.flush()
    assert reader.value(second) == "second " * 100
    with pytest.raises(LogError) as caught:
        reader.blob("0" * 64)
    assert caught.value.code == "CF-LOG-040"


def test_nothing_there(lab: Any) -> None:
    with pytest.raises(StoreError) as caught:
        counterfoil.read(lab.evidence)
    assert caught.value.code == "CF-STORE-002"
    with pytest.raises(StoreError) as caught:
        lab.verify()
    assert caught.value.code == "CF-STORE-002"
    lab.evidence.mkdir()
    reader = counterfoil.read(lab.evidence)
    assert (reader.logs(), list(reader.entries()), reader.calls(), reader.runs()) == ([], [], [], [])
    assert reader.graph().to_json() == {"edges": [], "nodes": []}
    assert reader.handoffs() == []


def test_logs_in_the_order_they_began(lab: Any) -> None:
    recorders = [lab.recorder() for _ in range(4)]
    names = []
    for recorder in recorders:
        recorder.end(recorder.start("invoke_workflow", "app", actor=("app",)))
        recorder.flush()
        names.append(recorder.open().log)
    for recorder in recorders:
        recorder.close()
    assert counterfoil.read(lab.evidence).ordered_logs() == names


# -- evidence made by hand --------------------------------------------------------------------------------------------


def chunk(data: bytes) -> bytes:
    checked = struct.pack("<B3xII", 0, len(data), len(data))
    return checked + struct.pack("<I", zlib.crc32(data, zlib.crc32(checked))) + data


def item(kind: int, data: bytes) -> bytes:
    return struct.pack("<BI", kind, len(data)) + data


class Maker:
    """Evidence with one log of valid chain, tree and signatures, whatever its bodies say."""

    def __init__(self, evidence: Path, key: keys.SigningKey) -> None:
        self.folder = evidence / "0123456789abcdef"
        self.folder.mkdir(parents=True)
        (evidence / ".gitignore").write_bytes(b"*\n")
        self.key = key
        self.origin = f"{key.keyid}/{self.folder.name}"
        self.tree = tree.Tree()
        self.prev = log.ZERO
        self.out = b""
        context = {
            "at": 1,
            "origin": self.origin,
            "spki": base64.b64encode(key.spki).decode(),
            "tree": {"peaks": [], "size": 0},
        }
        self.entry(records.build({"op": "session", "phase": "point"}, context))

    def entry(self, body: bytes) -> None:
        data = log.entry_bytes(body, self.tree.size, self.prev)
        self.prev = hashlib.sha256(data).hexdigest()
        self.tree.append(tree.leaf_hash(data))
        self.out += chunk(item(segments.ENTRY, data))

    def blob(self, data: bytes) -> str:
        self.out += chunk(item(segments.BLOB, data))
        return hashlib.sha256(data).hexdigest()

    def write(self) -> None:
        content = {
            "offset": len(self.out),
            "op": "stored",
            "segment": 0,
            "sha256": hashlib.sha256(self.out).hexdigest(),
        }
        self.entry(records.build(content, {}))
        text = notes.Checkpoint(self.origin, self.tree.size, self.tree.root()).to_text()
        note = notes.sign_note(text, self.origin, self.key).encode()
        (self.folder / "00000000.seg").write_bytes(self.out + chunk(item(segments.NOTE, note)))


@pytest.fixture
def maker(lab: Any) -> Callable[[], Maker]:
    made: list[Maker] = []

    def make() -> Maker:
        key = made[0].key if made else keys.SigningKey.generate()
        made.append(Maker(lab.root / f"made {len(made)}" / "evidence", key))
        return made[-1]

    return make


def everything(evidence: Path, key: keys.SigningKey) -> Any:
    """Ask for all there is; only errors of Counterfoil may come, and none from ``verify``."""
    result = counterfoil.verify(evidence, keyring=keys.Keyring.of([key.public]))
    for finding in result.findings:
        assert finding.code.startswith("CF-")
        assert finding.message
        assert finding.verdict in ("broken", "incomplete", "cannot-tell")
    reader = counterfoil.read(evidence)
    for call in _allowed(reader.calls):
        for name in ("request", "response", "error", "status", "parent", "handoffs", "name", "actor"):
            _allowed(lambda call=call, name=name: [getattr(call, name)])
        for reference in (call.request, call.response, call.error):
            _allowed(lambda reference=reference: [reader.value(reference)])
    for run in _allowed(reader.runs):
        assert run.ended in (True, False)
    _allowed(reader.statements)
    _allowed(lambda: [reader.graph().to_json()])
    _allowed(lambda: reader.handoffs(hops=True))
    _allowed(lambda: reader.handoffs())
    return result


def _allowed(ask: Callable[[], Any]) -> list[Any]:
    try:
        return list(ask())
    except CounterfoilError:
        return []


def test_the_maker_makes_intact_evidence(maker: Callable[[], Maker]) -> None:
    made = maker()
    made.write()
    result = everything(made.folder.parent, made.key)
    assert (result.verdict, result.findings) == ("intact", [])


ODD: list[Any] = [
    None,
    True,
    0,
    -1,
    2**53 - 1,
    "",
    "x",
    "0" * 64,
    "é\x00\x1b[31m",
    "a" * 300,
    [],
    [[]],
    {},
    {"a": {}},
    [None, 1, "x"],
    {"media": "m", "sha256": "0" * 64, "size": 0},
    {"media": MEDIA_JSON, "sha256": "0" * 64, "size": 1},
]


def mutations(value: Any, rng: random.Random, count: int) -> Iterator[Any]:
    """Copies with one member replaced, removed, added or moved."""
    paths = list(_paths(value))
    for _ in range(count):
        copied = copy.deepcopy(value)
        holder, key = _holder(copied, rng.choice(paths))
        match rng.randrange(5):
            case 0 | 1 | 2:
                holder[key] = copy.deepcopy(rng.choice(ODD))
            case 3:
                del holder[key]
            case 4:
                if type(holder) is dict:
                    holder[rng.choice(["extra", "op", "call", "run", "handoffs", "$ref"])] = rng.choice(ODD)
                else:
                    holder.append(rng.choice(ODD))
        yield copied


def _paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    if type(value) is dict:
        for name in value:
            yield from _paths(value[name], (*path, name))
    elif type(value) is list:
        for number in range(len(value)):
            yield from _paths(value[number], (*path, number))


def _holder(value: Any, path: tuple[Any, ...]) -> tuple[Any, Any]:
    for name in path[:-1]:
        value = value[name]
    return value, path[-1]


def test_bodies_of_any_shape(lab: Any, one_run: Any, maker: Callable[[], Maker]) -> None:
    """Every body that a writer makes, with one member of another shape, signed by a pinned key."""
    recorder = lab.recorder()
    one_run(recorder)
    root = recorder.start("invoke_workflow", "app", actor=("app",))
    step = recorder.start(
        "step", "n", actor=("n",), parent=root, parents=[("data", root)], foreign=[("data", "1" * 64)]
    )
    recorder.point("state_changed", "s", parent=step, content={"status": "x"})
    recorder.end(step, status="error", error=recorder.value(ValueError("x")), context={"usage": {"n": 1}})
    recorder.end(root)
    recorder.loss("something")
    recorder.close()
    rng = random.Random(7)
    bodies = [canonical.loads(entry.body_bytes) for entry in counterfoil.read(lab.evidence).entries()]
    verdicts = set()
    for body in bodies:
        for changed in mutations(body, rng, 40):
            try:
                data = canonical.dumps(changed)
            except CounterfoilError:
                continue
            made = maker()
            made.blob(b"x")
            made.entry(data)
            made.entry(canonical.dumps(body))
            made.write()
            verdicts.add(everything(made.folder.parent, made.key).verdict)
    assert verdicts >= {"broken", "incomplete"}


def test_statements_of_any_shape(lab: Any, one_run: Any, maker: Callable[[], Maker]) -> None:
    recorder = lab.recorder()
    one_run(recorder)
    recorder.close()
    found = [statement for _, statement in counterfoil.read(lab.evidence).statements()]
    assert {statement.kind for statement in found} == {statements.HANDOFF, statements.BINDING}
    envelopes = [
        Envelope.parse(e.body) for e in counterfoil.read(lab.evidence).entries() if e.op == "statement"
    ]
    rng = random.Random(8)
    verdicts = set()
    for envelope in envelopes:
        for changed in mutations(canonical.loads(envelope.payload), rng, 60):
            made = maker()
            made.entry(Envelope.sign(canonical.dumps(changed), made.key).to_bytes())
            made.write()
            verdicts.add(everything(made.folder.parent, made.key).verdict)
        for changed in mutations(envelope.to_dict(), rng, 40):
            made = maker()
            made.entry(canonical.dumps(changed))
            made.write()
            verdicts.add(everything(made.folder.parent, made.key).verdict)
    assert verdicts >= {"broken", "cannot-tell"}


@pytest.mark.parametrize(
    "entry",
    [
        b"",
        b"null",
        b"[]",
        b"{}",
        b"\xff",
        b'{"body":{},"i":1,"prev":""}',
        b"[" * 70 + b"]" * 70,
        b'{"body":{"content":{"op":"custom"},"context":{},"v":2},"i":1,"prev":"%b"}' % (b"0" * 64),
        b" " * 100,
        b'{"a":1,"a":2}',
        b"x" * 70_000,
    ],
    ids=lambda one: str(one)[:20],
)
def test_entries_of_any_shape(maker: Callable[[], Maker], entry: bytes) -> None:
    made = maker()
    made.out += chunk(item(segments.ENTRY, entry))
    made.tree.append(tree.leaf_hash(entry))
    made.prev = hashlib.sha256(entry).hexdigest()
    made.write()
    assert everything(made.folder.parent, made.key).verdict in ("broken", "cannot-tell")


@pytest.mark.parametrize(
    "data",
    [
        b"\x01",
        b"\x01\xff\xff\xff\xff",
        b"\x00\x00\x00\x00\x00",
        b"\x04\x00\x00\x00\x00",
        b"\x03\x00\x00\x00\x00",
        b"\x02\x05\x00\x00\x00abc",
    ],
)
def test_items_of_any_shape(maker: Callable[[], Maker], data: bytes) -> None:
    made = maker()
    made.out += chunk(data)
    made.write()
    assert everything(made.folder.parent, made.key).verdict == "broken"


def test_a_newer_version_is_not_called_broken(maker: Callable[[], Maker]) -> None:
    made = maker()
    made.entry(b'{"content":{"op":"custom"},"context":{},"v":2}')
    made.write()
    result = everything(made.folder.parent, made.key)
    assert (result.verdict, {one.code for one in result.findings}) == ("cannot-tell", {"CF-LOG-022"})
    made = maker()
    payload = canonical.dumps(
        {
            "_type": statements.TYPE,
            "predicate": {},
            "predicateType": "urn:counterfoil:policy:v1",
            "subject": [{}],
        }
    )
    made.entry(Envelope.sign(payload, made.key).to_bytes())
    made.write()
    result = everything(made.folder.parent, made.key)
    assert (result.verdict, {one.code for one in result.findings}) == ("cannot-tell", {"CF-STMT-004"})


# -- values made by hand ----------------------------------------------------------------------------------------------


def ref(sha256: str, size: int, media: str = MEDIA_JSON) -> dict[str, Any]:
    return {"$ref": {"media": media, "sha256": sha256, "size": size}}


def test_a_value_that_stands_for_more_than_can_be_held(
    maker: Callable[[], Maker], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Thirty small blobs, each citing the one before twice, are a billion."""
    monkeypatch.setattr("counterfoil.reader._MAX_VALUE", 1 << 20)
    made = maker()
    data = canonical.dumps(["x" * 200])
    sha256 = made.blob(data)
    for _ in range(30):
        data = canonical.dumps([ref(sha256, len(data)), ref(sha256, len(data))])
        sha256 = made.blob(data)
    made.write()
    reader = counterfoil.read(made.folder.parent)
    with pytest.raises(LogError) as caught:
        reader.value(Reference(sha256, len(data), MEDIA_JSON))
    assert caught.value.code == "CF-LOG-043"
    assert everything_but_values(made) == "intact"


def everything_but_values(made: Maker) -> str:
    return counterfoil.verify(made.folder.parent, keyring=keys.Keyring.of([made.key.public])).verdict


def test_values_that_cite_deeper_than_a_stack(maker: Callable[[], Maker]) -> None:
    made = maker()
    data = canonical.dumps(["end"])
    sha256 = made.blob(data)
    for _ in range(3000):
        data = canonical.dumps([ref(sha256, len(data))])
        sha256 = made.blob(data)
    made.entry(
        records.build({"op": "custom", "phase": "point", "request": ref(sha256, len(data))["$ref"]}, {})
    )
    made.write()
    with pytest.raises(LogError) as caught:
        counterfoil.read(made.folder.parent).value(Reference(sha256, len(data), MEDIA_JSON))
    assert caught.value.code == "CF-LOG-043"
    assert everything_but_values(made) == "intact"


@pytest.mark.parametrize(
    ("data", "media", "code"),
    [
        (b"\xff\xfe", MEDIA_TEXT, "CF-LOG-044"),
        (b"not json", MEDIA_JSON, "CF-LOG-044"),
        (b'{"a":1,"a":2}', MEDIA_JSON, "CF-LOG-044"),
        (b"[" * 5000, MEDIA_JSON, "CF-LOG-044"),
        (b"9007199254740993", MEDIA_JSON, "CF-LOG-044"),
        (b"[]", MEDIA_FOLD, "CF-LOG-044"),
        (b"{}", MEDIA_FOLD, "CF-LOG-044"),
        (b'{"add":1,"n":1,"parent":5}', MEDIA_FOLD, "CF-LOG-044"),
        (b'{"add":1,"n":2,"parent":"%b"}' % (b"0" * 64), MEDIA_FOLD, "CF-LOG-040"),
        (b"x", "text/html", "CF-LOG-042"),
    ],
)
def test_stored_bytes_that_are_no_value(
    maker: Callable[[], Maker], data: bytes, media: str, code: str
) -> None:
    made = maker()
    sha256 = made.blob(data)
    made.write()
    reader = counterfoil.read(made.folder.parent)
    assert reader.blob(sha256) == data
    assert reader.value(Reference(sha256, len(data), MEDIA_BYTES)) == {
        "$bytes": base64.b64encode(data).decode()
    }
    with pytest.raises(CounterfoilError) as caught:
        reader.value(Reference(sha256, len(data), media))
    assert caught.value.code == code
    assert caught.value.hint


def test_a_composite_that_only_looks_like_one(maker: Callable[[], Maker]) -> None:
    made = maker()
    data = canonical.dumps({"$ref": "not a reference", "more": {"$ref": {"sha256": 5}}})
    sha256 = made.blob(data)
    made.write()
    found = counterfoil.read(made.folder.parent).value(Reference(sha256, len(data), MEDIA_JSON))
    assert found == {"$ref": "not a reference", "more": {"$ref": {"sha256": 5}}}


def test_random_segments(lab: Any, maker: Callable[[], Maker]) -> None:
    rng = random.Random(9)
    made = maker()
    for _ in range(150):
        parts = [chunk(rng.randbytes(rng.randrange(40))) for _ in range(rng.randrange(4))]
        parts.append(rng.randbytes(rng.randrange(60)))
        (made.folder / "00000000.seg").write_bytes(b"".join(parts))
        assert everything(made.folder.parent, made.key).verdict != "intact"
    os.remove(made.folder / "00000000.seg")
    assert everything(made.folder.parent, made.key).verdict == "incomplete"
