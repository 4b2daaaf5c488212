"""What is read by the pattern of others like it is what reading it at length says, and nothing else is read so."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from hashlib import sha256
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from twisting import texts

from counterfoil import (
    alike,
    canonical,
    dsse,
    keys,
    moulds,
    record_checks,
    record_moulds,
    recorded,
    records,
    statements,
)
from counterfoil.before import Before
from counterfoil.entries import BlobSeen, read_entry
from counterfoil.errors import CounterfoilError
from counterfoil.opening import opened
from counterfoil.packed import Passed
from counterfoil.shapes import shape_of
from counterfoil.stored import Stored

HEX = "0123456789abcdef" * 4
TEXT = {"media": "text/plain;charset=utf-8", "sha256": "a" * 64, "size": 5}
VALUE = {"media": "application/vnd.counterfoil.value+json", "sha256": "b" * 64, "size": 300}

START = {
    "content": {"actor": "a", "name": "n", "op": "chat", "phase": "start", "request": TEXT},
    "context": {
        "at": 1790000000000822,
        "call": "c",
        "parents": [{"digest": HEX, "rel": "data"}, {"digest": "f" * 64, "rel": "control"}],
        "run": "r",
    },
    "v": 1,
}
END = {
    "content": {
        "name": "n",
        "op": "chat",
        "phase": "end",
        "response": VALUE,
        "status": "ok",
        "totals": {"ended": 1, "started": 1},
    },
    "context": {
        "at": -5,
        "call": "c",
        "handoffs": [HEX],
        "run": "r",
        "usage": {"input": 0, "list": [True, "x"]},
    },
    "v": 1,
}
POINT = {"content": {"list": [1, [], {}], "op": "custom", "phase": "point"}, "context": {"run": "r"}, "v": 1}
RECORDS = (START, END, POINT)


def like(value: Any, make: Callable[[Any, bytes], Any]) -> Any:
    """The mould of a value."""
    return make(value, canonical.dumps(value))


# -- records ----------------------------------------------------------------------------------------------------------


def _said(body: dict[str, Any]) -> tuple[Any, ...]:
    """What a record says that is judged, read at length."""
    content, context = body["content"], body["context"]
    named = [*context.get("handoffs", []), *(one["digest"] for one in context.get("parents", []))]
    totals = content.get("totals", {})
    assert "late" not in context
    assert totals.keys() in (set(), {"ended", "started"})
    return (
        content["op"],
        content.get("phase"),
        context.get("call"),
        context.get("run"),
        named,
        [totals[name] for name in sorted(totals)],
    )


@pytest.mark.parametrize("record", RECORDS)
@given(st.data())
@settings(max_examples=150)
def test_a_record_that_fits_a_mould_is_canonical_and_says_what_the_groups_say(
    record: dict[str, Any], data: st.DataObject
) -> None:
    text = data.draw(texts(record))
    mould = like(record, record_moulds.record_mould)
    found = mould.fullmatch(text)
    if found is None:
        assert text != canonical.dumps(record)
        return
    whole = b'{"body":%b,"i":0,"prev":"%b"}' % (text, b"0" * 64)
    value, cited, plain = read_entry(whole)
    body = value["body"]
    assert plain
    assert canonical.dumps(value) == whole
    assert records.parse_body(body, "") is body
    listed = [json.loads(found[at]) for at in mould.cited]
    assert {(one["sha256"], one["size"], one["media"]) for one in listed} == set(cited)
    op, phase, call, run = (one.decode() for one in found.group(*mould.told))
    named = [found[at].decode() for at, _ in mould.named]
    totals = [int(found[at]) for at in mould.totals]
    if not mould.joined:  # nobody asks for these
        phase, call, run = (body["content"].get("phase"), *map(body["context"].get, ("call", "run")))
        assert call is None
    told = (op, phase, call, run)
    assert (*told, named, totals) == _said(body)


ODD = (
    END | {"content": END["content"] | {"totals": {}}},
    END | {"content": END["content"] | {"totals": {"ended": 1, "started": True}}},
    END | {"content": END["content"] | {"totals": {"ended": 1}}},
    END | {"context": END["context"] | {"late": True}},
    END | {"context": END["context"] | {"handoffs": "x"}},
    END | {"context": END["context"] | {"handoffs": [1]}},
    START | {"context": START["context"] | {"parents": [{"digest": HEX}]}},
    START | {"context": START["context"] | {"parents": [{"digest": HEX[1:], "rel": "data"}]}},
    START | {"content": START["content"] | {"request": TEXT | {"size": -1}}},
    START | {"content": START["content"] | {"request": None}},
    START | {"content": START["content"] | {"temperature": 1.5}},
    START | {"content": START["content"] | {"na\u00efve": 1}},
    START | {"content": START["content"] | {'quo"te': 1}},
    START | {"content": START["content"] | {"long": ["x"] * 99}},
)


@pytest.mark.parametrize("record", ODD)
def test_an_odd_record_gets_no_mould(record: dict[str, Any]) -> None:
    with pytest.raises(moulds.NoMould):
        like(record, record_moulds.record_mould)


@pytest.mark.parametrize("op", ["session", "segment", "recovered", "stored", "loss", "closed"])
def test_what_is_of_the_log_itself_is_read_at_length(op: str) -> None:
    check = record_checks.RecordCheck(Stored(None, ""), _never, _never)
    text = canonical.dumps(POINT)
    check._moulds.learn(text, POINT)
    assert check.short(text)
    assert not check.short(text.replace(b"custom", op.encode()))


def _never(*arguments: Any, **more: Any) -> None:
    raise AssertionError(arguments)


# -- statements -------------------------------------------------------------------------------------------------------

HANDOFF: dict[str, Any] = {
    "content": {
        "basis": "sealed",
        "from": ["a", "b"],
        "kind": "edge",
        "parents": [{"address": "step:a@1", "rel": "data"}],
        "payload": HEX,
        "to": "b",
    },
    "exact": True,
    "issued": 1,
    "nonce": "0" * 32,
    "own": {"origin": HEX + "/" + "0" * 16, "root": HEX, "size": 9},
    "parents": [{"digest": "1" * 64, "rel": "data"}],
    "payload": {"media": "m", "size": 1},
    "proof": "recorded",
    "run": "r",
    "sender": {"actor": "a", "key": "2" * 64},
}
STATEMENT: dict[str, Any] = {
    "_type": statements.TYPE,
    "predicate": HANDOFF,
    "predicateType": statements.HANDOFF,
    "subject": [{"digest": {"counterfoil-v1": HEX}, "name": "payload"}],
}


@given(texts(STATEMENT))
@example(canonical.dumps(STATEMENT))
@example(canonical.dumps(STATEMENT).replace(HEX.encode(), b"9" * 64))
@example(
    canonical.dumps(STATEMENT).replace(
        b'"subject":[{"digest":{"counterfoil-v1":"01', b'"subject":[{"digest":{"counterfoil-v1":"10'
    )
)
@settings(max_examples=300)
def test_a_payload_that_fits_a_mould_is_a_statement_and_says_what_the_groups_say(payload: bytes) -> None:
    mould = like(STATEMENT, recorded.mould_of)
    found = mould.fullmatch(payload)
    if found is None:
        assert payload != canonical.dumps(STATEMENT)
        return
    statement = statements.parse(payload)
    handoff = statement.predicate
    assert isinstance(handoff, statements.Handoff)
    assert canonical.dumps(canonical.loads(payload)) == payload
    assert (handoff.authority, handoff.taint, handoff.seen, handoff.parentSet) == (None, None, None, None)
    assert (handoff.proof, handoff.content.payload) == ("recorded", found[mould.payload].decode())
    assert (handoff.payload.size, handoff.payload.media, mould.need) == (int(found[mould.size]), "m", 0)
    assert (handoff.sender.key, handoff.sender.actor) == (
        found[mould.key].decode(),
        found[mould.actor].decode(),
    )
    assert [one.digest for one in handoff.parents] == [found[at].decode() for at in mould.parents]
    assert handoff.own is not None
    own = [found[at].decode() for at in mould.own]
    assert own == [handoff.own.origin, handoff.own.root, str(handoff.own.size)]


@pytest.mark.parametrize(
    "more",
    [
        {"authority": {"allow": ["a:b"], "expires": 1, "maxDepth": 0}},
        {"taint": ["x"]},
        {"seen": []},
        {"parentSet": {"count": 1, "sha256": HEX, "size": 1}},
        {"ext": {}},
        {"audience": "b"},
        {"proof": "countersigned"},
    ],
)
def test_a_handoff_that_says_more_gets_no_mould(more: dict[str, Any]) -> None:
    statements.parse(canonical.dumps(STATEMENT | {"predicate": HANDOFF | more}))
    with pytest.raises(moulds.NoMould):
        like(STATEMENT | {"predicate": HANDOFF | more}, recorded.mould_of)


KEY = keys.SigningKey.generate()
ENVELOPES = [dsse.Envelope.sign(b"{}" + b"x" * size, KEY).to_dict() for size in range(4)]


@pytest.mark.parametrize("envelope", ENVELOPES)
@given(st.data())
@settings(max_examples=200)
def test_an_envelope_that_is_opened_by_its_text_is_in_normal_form(
    envelope: dict[str, Any], data: st.DataObject
) -> None:
    text = data.draw(texts(envelope))
    _opens_alike(text)


def test_every_spelling_of_the_last_characters_is_read_alike() -> None:
    letters = b'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_=\\" '
    known = 0
    for envelope in ENVELOPES:
        text = canonical.dumps(envelope)
        for end in (text.index(b'","payloadType'), text.rindex(b'"}]}')):
            for at in range(end - 4, end):
                for letter in letters:
                    known += _opens_alike(text[:at] + bytes([letter]) + text[at + 1 :])
    assert known > 1000


def _opens_alike(text: bytes) -> bool:
    found = opened(text)
    try:
        value = canonical.loads_canonical(text)
        envelope = dsse.Envelope.parse(value)
        plain = envelope.is_normal(value) and len(envelope.signatures) == 1
    except CounterfoilError:
        assert found is None
        return False
    if found is not None:
        (signature,) = envelope.signatures
        assert plain
        assert (found.payload, found.sig) == (envelope.payload, signature.sig)
        assert (found.keyid.decode(), signature.spki) == (signature.keyid, None)
        assert found.body() == value
    return found is not None


# -- stored values ----------------------------------------------------------------------------------------------------

NODE = {"add": {"$msg": {"content": {"$ref": TEXT}, "type": "human"}}, "n": 2, "parent": HEX}
VALUES: tuple[dict[str, Any], ...] = (
    NODE,
    NODE | {"n": 1, "parent": ""},
    NODE | {"add": {"$ref": VALUE}},
    {"messages": {"$ref": VALUE}, "model": "m", "n": 1, "none": None, "on": True},
    {"deep": {"list": ["x" * 80, {"$ref": TEXT}]}, "text": "x" * 240},
    {"$msg": {"content": "short"}},
)


@pytest.mark.parametrize("value", VALUES)
@given(st.data())
@settings(max_examples=60)
def test_a_blob_is_the_same_thing_by_its_text_and_at_length(
    value: dict[str, Any], data: st.DataObject
) -> None:
    first, text = canonical.dumps(value), data.draw(texts(value))
    _same_things([first, text])


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("size", [10, 250, 251, 252, 253, 254, 255, 256, 257, 300, 400])
def test_what_is_long_is_read_at_length(value: dict[str, Any], size: int) -> None:
    longer = json.loads(json.dumps(value).replace("human", "h" * size).replace("short", "s" * size))
    longer = {name: "m" * size if name in ("model", "text") else one for name, one in longer.items()}
    _same_things([canonical.dumps(value), canonical.dumps(longer)])


def test_values_in_any_order_end_as_the_same_things() -> None:
    chance = random.Random(5)
    for _ in range(60):
        blobs = _some_values(chance)
        order = [chance.choice(blobs) for _ in range(len(blobs) * 2)]
        _same_things(order, before=chance.random() < 0.5)


def _some_values(chance: random.Random) -> list[bytes]:
    """Texts, values and lists of messages that cite each other, rightly or by a wrong size, type or number."""
    blobs = [b"text %d" % number for number in range(3)]
    node, number = "", 0
    for _ in range(chance.randrange(4, 16)):
        cited = chance.choice(blobs)
        media = chance.choice([TEXT["media"], VALUE["media"], "application/vnd.counterfoil.fold+json", "x"])
        size = len(cited) + (chance.random() < 0.1)
        reference = {"$ref": {"media": media, "sha256": sha256(cited).hexdigest(), "size": size}}
        if chance.random() < 0.6:
            number += 1 if chance.random() < 0.9 else 2
            add = reference if chance.random() < 0.3 else {"$msg": {"content": reference, "type": "t"}}
            blobs.append(canonical.dumps({"add": add, "n": number, "parent": node}))
            node = sha256(blobs[-1]).hexdigest()
        else:
            blobs.append(canonical.dumps({"model": "m", "n": chance.randrange(3), "of": reference}))
    return blobs


def _same_things(blobs: list[bytes], *, before: bool = True) -> None:
    found = []
    for known in (True, False):
        with pytest.MonkeyPatch.context() as patch:
            if not known:
                patch.setattr(moulds.Moulds, "match", lambda self, text: None)
            believed = Before() if before else None
            stored = Stored(None, "", before=believed)
            for number, data in enumerate(blobs):
                stored.blob(BlobSeen(sha256(data).hexdigest(), data, (0, 0, number, 0)))
            found.append(
                (
                    dict(stored.blobs.rows()),
                    bytes(stored.rows),
                    stored.citable,
                    stored._hollow,
                    set() if believed is None else believed.parts,
                )
            )
    assert found[0] == found[1]


@pytest.mark.parametrize("value", [*VALUES[:5]])
def test_the_short_way_is_taken_for_a_blob_like_another(value: dict[str, Any]) -> None:
    stored = Stored(None, "", before=Before())
    first = canonical.dumps(value)
    second = first.replace(b"a" * 64, b"c" * 64).replace(b"b" * 64, b"d" * 64).replace(b"xxx", b"yy")
    with pytest.MonkeyPatch.context() as patch:
        for data in (first, second):
            stored.blob(BlobSeen(sha256(data).hexdigest(), data, (0, 0, 0, 0)))
            patch.setattr("counterfoil.stored.shape_of", _never)


@pytest.mark.parametrize(
    "value", [{"$bytes": "YQ=="}, {"a": {"$bytes": "YQ=="}}, {"$ref": 1, "a": 1}, {"a": {"$ref": {}}}]
)
def test_an_odd_value_gets_no_mould(value: dict[str, Any]) -> None:
    text = canonical.dumps(value)
    with pytest.raises(moulds.NoMould):
        alike.value_mould(shape_of(text) or shape_of(b"{}"), text)  # type: ignore[arg-type]


# -- digests that passed ----------------------------------------------------------------------------------------------


def test_digests_that_passed_are_known_however_long_ago(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("counterfoil.packed._NEAR", 50)
    chance = random.Random(3)
    passed, plain = Passed(), set()
    for _ in range(400):
        some = [chance.randbytes(32) for _ in range(chance.randrange(9))]
        plain.update(some)
        if chance.random() < 0.5:
            passed.extend(b"".join(some))
        else:
            for one in some:
                passed.add(one)
        for one in [chance.randbytes(32), *chance.sample(sorted(plain), min(len(plain), 2))]:
            if chance.random() < 0.1:
                assert (one in passed) == (one in plain)
    assert all(one in passed for one in plain)
    assert len(plain) > 1000


def test_a_form_gets_its_mould_when_it_was_seen_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moulds, "often", 3)
    known = moulds.Moulds(record_moulds.record_mould)
    found = []
    for number in range(5):
        record = POINT | {"context": {"run": f"r{number}"}}
        found.append(known.match(canonical.dumps(record)) is not None)
        known.learn(canonical.dumps(record), record)
    assert found == [False, False, False, True, True]


def test_moulds_are_few_however_many_forms_there_are() -> None:
    known = moulds.Moulds(record_moulds.record_mould)
    for number in range(3000):
        record = POINT | {"context": {f"k{number}": 1, "run": "r"}}
        known.learn(canonical.dumps(record), record)
    assert known._made == moulds._MOST
    assert len(known._forms) <= moulds._FORMS
