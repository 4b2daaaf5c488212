"""What composites and message lists cite must be there, at a price somebody can pay."""

from __future__ import annotations

import base64
import json
import tracemalloc
from pathlib import Path

import pytest
from crafting import Crafted, cited, codes, node, ref

import counterfoil
from counterfoil import reader, segments
from counterfoil.digest import MEDIA_BYTES, MEDIA_FOLD, MEDIA_JSON, MEDIA_TEXT, Reference, sha256_hex
from counterfoil.entries import BlobSeen
from counterfoil.errors import LogError
from counterfoil.stored import Stored
from counterfoil.stores import FolderStore

LONG = b'"' + b"x" * 256 + b'"'
NO_VALUES = [
    b"",
    b"text",
    b'"a string stands as text"',
    b'{"$bytes":"AAAA"}',
    b'{"a": 1}',
    b'{"a":1,"a":1}',
    b'{"b":1,"a":1}',
    b'{"a":1}x',
    b"[1.50]",
    b"[1e5]",
    b"9007199254740992",
    b'["\\ud800"]',
    b'{"$ref":{"media":"a","sha256":"' + b"0" * 64 + b'","size":1}}',
    b"[" + LONG + b"]",
    b'{"a":' + LONG + b"}",
    b"[[" + b"1," * 200 + b"1]]",
    b'[{"$bytes":"' + base64.b64encode(bytes(256)) + b'"}]',
    b'[{"$bytes":"AAB="}]',
    b'[{"$msg":1}]',
    b'{"a":[{"$msg":1}]}',
    b"[" * 129 + b"]" * 129,
    b"[" + b"1," * (1 << 18) + b"1.0]",
    b'[{"$msg":1}' + b',{"$msg":1}' * (1 << 16) + b"]",
    b'{"k0":1,' + b",".join(b'"k%07d":1' % (number // 2) for number in range(1 << 16)) + b"}",
]
VALUES = [
    b"0",
    b"true",
    b"null",
    b"[1.5]",
    b"[]",
    b"{}",
    b'{"$msg":1}',
    b'[{"$msg":1},1]',
    b"[" + LONG[:-2] + b'"]',
    b'[{"$bytes":"' + base64.b64encode(bytes(255)) + b'"}]',
    b"[" * 127 + b"]" * 127,
    b"[" + b"1," * (1 << 18) + b"1]",
    b'[{"$msg":1}' + b',{"$msg":1}' * (1 << 16) + b",1]",
    b"{" + b",".join(b'"k%07d":1' % number for number in range(1 << 16)) + b"}",
    b'{"' + b"k," * (1 << 17) + b'":1}',
]


@pytest.fixture
def stored(tmp_path: Path) -> Stored:
    return Stored(FolderStore(tmp_path), "0123456789abcdef")


def passes(stored: Stored, *listed: bytes) -> None:
    for data in listed:
        stored.blob(BlobSeen(sha256_hex(data), data, (0, 0, 0, 0)))


def test_a_composite_is_there_once_its_last_part_is(stored: Stored) -> None:
    inner = cited(ref(b"part", MEDIA_TEXT), ref(b"other", MEDIA_BYTES))
    outer = cited(ref(inner), ref(inner))
    passes(stored, outer, inner, outer)
    assert [stored.there(ref(data)) for data in (outer, inner)] == [False, False]
    assert stored.there(ref(outer, MEDIA_TEXT))
    passes(stored, b"part")
    assert not stored.there(ref(outer))
    passes(stored, b"other")
    assert [stored.there(ref(data)) for data in (outer, inner)] == [True, True]


@pytest.mark.parametrize("late", [False, True])
def test_a_part_of_another_size_is_no_part(stored: Stored, late: bool) -> None:
    whole = cited(Reference(sha256_hex(b"part"), 5, MEDIA_TEXT))
    passes(stored, *((whole, b"part") if late else (b"part", whole)))
    assert stored.there(ref(b"part", MEDIA_TEXT))
    assert not stored.there(ref(whole))


@pytest.mark.parametrize("media", ["a\\nb", 'a"b', "é", "x" * 100_000, ""])
def test_a_part_of_any_media_type_is_one(stored: Stored, media: str) -> None:
    body = b'{"media":%b,"sha256":"%b","size":4}' % (
        json.dumps(media, ensure_ascii=False).encode(),
        sha256_hex(b"part").encode(),
    )
    whole = b'{"a":{"$ref":' + body + b"}}"
    passes(stored, whole)
    assert not stored.there(ref(whole))
    passes(stored, b"part")
    assert stored.there(ref(whole))


def test_a_reference_inside_a_string_is_none(stored: Stored) -> None:
    text = json.dumps([cited(ref(b"nowhere")).decode()]).encode()
    passes(stored, text)
    assert stored.there(ref(text))


def test_a_message_list_needs_the_nodes_before(stored: Stored) -> None:
    first = node(1)
    second = node(2, first)
    third = node(3, second)
    passes(stored, third, second)
    assert not stored.there(ref(third, MEDIA_FOLD))
    passes(stored, first)
    assert all(stored.there(ref(node, MEDIA_FOLD)) for node in (first, second, third))


@pytest.mark.parametrize(
    "value",
    [
        b'{"add":{"$msg":1},"n":1,"parent":"mum"}',
        b'{"add":{"$msg":1},"n":1,"parent":"%b"}' % (b"0" * 64),
        b'{"add":{"$msg":1},"n":2,"parent":""}',
        b'{"add":{"$msg":1},"n":0,"parent":""}',
        b'{"add":{"$msg":1},"n":"1","parent":""}',
        b'{"add":{"$msg":1},"n":1,"parent":1}',
        b'{"add":1,"n":1,"parent":""}',
        b'{"add":{"$msg":1,"b":1},"n":1,"parent":""}',
        b'{"add":{"$msg":1},"b":1,"n":1,"parent":""}',
    ],
)
def test_a_value_that_looks_like_a_node_is_none(stored: Stored, value: bytes) -> None:
    passes(stored, value)
    assert (stored.there(ref(value)), stored.there(ref(value, MEDIA_FOLD))) == (True, False)


@pytest.mark.parametrize("number", [1, 3, 4])
def test_a_node_counts_on_from_the_one_before(stored: Stored, number: int) -> None:
    first = node(1)
    second = node(2, first)
    third = node(number, second)
    passes(stored, first, second, third)
    assert stored.there(ref(second, MEDIA_FOLD))
    assert stored.there(ref(third, MEDIA_FOLD)) == (number == 3)


def test_what_is_no_value_is_not_there_as_one(stored: Stored) -> None:
    for data in NO_VALUES:
        passes(stored, data)
        assert not stored.there(ref(data)), data[:60]
        assert stored.there(ref(data, MEDIA_BYTES))
        assert stored.there(ref(data, "image/png"))
    for data in VALUES:
        passes(stored, data)
        assert stored.there(ref(data)), data[:60]


def test_what_is_no_text_is_not_there_as_one(stored: Stored) -> None:
    passes(stored, b"\xff\xfe", "\u00e9".encode() * 200_000, "\u00e9".encode() * 200_000 + b"\xc3")
    assert not stored.there(ref(b"\xff\xfe", MEDIA_TEXT))
    assert stored.there(ref(b"\xff\xfe", MEDIA_BYTES))
    assert stored.there(ref("\u00e9".encode() * 200_000, MEDIA_TEXT))
    assert not stored.there(ref("\u00e9".encode() * 200_000 + b"\xc3", MEDIA_TEXT))


def test_a_composite_that_lacks_hundreds_of_parts_is_never_whole(stored: Stored) -> None:
    listed = [b"%d" % (number + 1) for number in range(300)]
    few, many = (cited(*(ref(data) for data in listed[:count])) for count in (256, 300))
    passes(stored, few, many, *listed)
    assert (stored.there(ref(few)), stored.there(ref(many))) == (True, False)


def test_a_crafted_composite_takes_no_memory(stored: Stored) -> None:
    data = b'[{"$ref":0}' + b",{}" * (1 << 19) + b"]"
    many = cited(*(Reference(sha256_hex(b"%d" % number), 1, MEDIA_JSON) for number in range(20_000)))
    tracemalloc.start()
    try:
        passes(stored, data, many)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_a_long_chain_of_hollow_composites_is_never_walked_twice(stored: Stored) -> None:
    chain = [cited(ref(b"31415926"))]
    for _ in range(20_000):
        chain.append(cited(ref(chain[-1])))
    passes(stored, *reversed(chain))
    # Walked each time, these would be hundreds of millions of steps.
    assert not any(stored.there(ref(data)) for data in chain)
    passes(stored, *(b"%d" % number for number in range(1000)), b"31415926")
    assert all(stored.there(ref(data)) for data in chain)


def test_what_an_entry_lacks_is_told_once(tmp_path: Path) -> None:
    crafted = Crafted(tmp_path / "evidence")
    hollow = cited(ref(b"missing"))
    crafted.blobs(hollow)
    for _ in range(2):
        crafted.record(
            {"list": [ref(hollow).to_dict()] * 150, "name": "x", "op": "custom", "phase": "point"}, {}
        )
    assert codes(crafted.verify()) == ["CF-VERIFY-010"] * 2


def test_a_reference_has_a_price(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "_MAX_VALUE", 1 << 20)
    crafted = Crafted(tmp_path / "evidence")
    few, many = cited(*[ref(b"7")] * 500), cited(*[ref(b"7")] * 2000)
    crafted.blobs(b"7", few, many)
    crafted.verify()
    evidence = counterfoil.read(crafted.root)
    assert evidence.value(ref(few)) == [7] * 500
    with pytest.raises(LogError) as raised:
        evidence.value(ref(many))
    assert raised.value.code == "CF-LOG-043"


def test_a_value_that_stands_for_billions_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "_MAX_VALUE", 1 << 22)
    crafted = Crafted(tmp_path / "evidence")
    levels = [b"7"]
    for _ in range(40):
        levels.append(cited(ref(levels[-1]), ref(levels[-1])))
    crafted.blobs(*levels)
    crafted.verify()
    with pytest.raises(LogError) as raised:
        counterfoil.read(crafted.root).value(ref(levels[-1]))
    assert raised.value.code == "CF-LOG-043"


def test_leaves_are_read_once_and_by_media_type() -> None:
    listed = {sha256_hex(data): data for data in (b"7", b"text")}
    whole = cited(*[ref(b"7"), ref(b"7", MEDIA_TEXT), ref(b"7", MEDIA_BYTES), ref(b"text", MEDIA_TEXT)] * 3)
    listed[sha256_hex(whole)] = whole
    read: list[str] = []

    def blob(sha256: str) -> bytes:
        read.append(sha256)
        return listed[sha256]

    assert reader._Value(blob).of(ref(whole)) == [7, "7", {"$bytes": "Nw=="}, "text"] * 3
    assert len(read) == 5


def test_the_items_of_a_chunk_are_listed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    crafted = Crafted(tmp_path / "evidence")
    listed = [b"%d" % number for number in range(100)]
    crafted.blobs(*listed)
    crafted.verify()
    evidence = counterfoil.read(crafted.root)
    assert evidence.blob(sha256_hex(listed[0])) == listed[0]
    monkeypatch.setattr(segments, "items", lambda chunk, *, where: pytest.fail("listed again"))
    assert [evidence.blob(sha256_hex(data)) for data in listed] == listed
