"""Changes by somebody who knows the format and computes everything anew are found out."""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zstandard
from forging import Forger, Item, bodies, chunk, chunks, codes, identity, item, items, nowhere_intact

from counterfoil import canonical, keys, notes, segments
from counterfoil.dsse import Envelope


def rewritten(path: Path, change: Callable[[list[Item]], list[Item]], key: keys.SigningKey | None) -> bytes:
    """The segment with its bodies changed and everything computed anew; without a key the old note stays."""
    entry = next(canonical.loads(data) for kind, data in items(path) if kind == segments.ENTRY)
    origin = entry["body"]["context"]["origin"]
    old = [data for kind, data in items(path) if kind == segments.NOTE][-1]
    forger = Forger(origin, key)
    forger.add(change(bodies(path)))
    forger.checkpoint(old if key is None else None)
    return forger.out


def test_the_forger_writes_what_the_writer_would(valid: Any) -> None:
    """So that the attacks below fail for the reason they name."""
    (path,) = valid.segments()
    path.write_bytes(rewritten(path, lambda listed: listed, identity()))
    result = valid.verify_elsewhere()
    assert (result.verdict, result.findings) == ("intact", [])
    assert codes(valid.verify()) == {
        "CF-VERIFY-053"
    }  # one checkpoint where this machine remembers another size


def test_one_character_changed_without_the_key(valid: Any) -> None:
    def change(listed: list[Item]) -> list[Item]:
        return [
            (kind, data.replace(b"answer", b"Answer")) if kind == segments.BLOB else (kind, data)
            for kind, data in listed
        ]

    (path,) = valid.segments()
    path.write_bytes(rewritten(path, change, None))
    assert nowhere_intact(valid)[:2] == ("broken", "broken")


def test_a_record_changed_without_the_key(valid: Any) -> None:
    def change(listed: list[Item]) -> list[Item]:
        return [(kind, data.replace(b'"name":"model"', b'"name":"modem"')) for kind, data in listed]

    (path,) = valid.segments()
    path.write_bytes(rewritten(path, change, None))
    result = valid.verify_elsewhere()
    assert (result.verdict, "CF-VERIFY-050" in codes(result)) == ("broken", True)
    assert valid.verify().verdict == "broken"


def test_everything_signed_anew_by_another_key(valid: Any) -> None:
    """The attacker's evidence is whole in itself: only who signed it tells."""
    (path,) = valid.segments()
    mallory = keys.SigningKey.generate()
    old = identity()
    name = path.parent.name

    def change(listed: list[Item]) -> list[Item]:
        out = []
        for kind, data in listed:
            if kind == segments.ENTRY:
                body = canonical.loads(data)
                if body.get("content", {}).get("op") == "session":
                    body["context"]["origin"] = f"{mallory.keyid}/{name}"
                    body["context"]["spki"] = base64.b64encode(mallory.spki).decode()
                elif "payload" in body:
                    payload = base64.b64decode(body["payload"]).replace(
                        old.keyid.encode(), mallory.keyid.encode()
                    )
                    if b"urn:counterfoil:binding" in payload:
                        body = Envelope.sign(payload, mallory).to_dict()
                data = canonical.dumps(body)
            out.append((kind, data))
        return out

    forger = Forger(f"{mallory.keyid}/{name}", mallory)
    forger.add(change(bodies(path)))
    forger.checkpoint()
    path.write_bytes(forger.out)
    here, there, stranger = nowhere_intact(valid)
    assert (here, there, stranger) == ("broken", "cannot-tell", "cannot-tell")
    assert "CF-VERIFY-053" in codes(valid.verify())
    assert valid.verify(keyring=keys.Keyring.of([mallory.public])).verdict == "broken"


def test_text_compressed_another_way(valid: Any) -> None:
    (path,) = valid.segments()
    parts = chunks(path)
    data = path.read_bytes()
    for at, part in enumerate(parts):
        if part.form != segments.ZSTD_FIRST:
            continue
        for level in (1, 19):
            stream = zstandard.ZstdCompressor(
                level=level, write_checksum=False, write_content_size=False
            ).compressobj()
            stored = stream.compress(part.data) + stream.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
            # One that is padded with an empty block says the same as well.
            for padding in (b"", b"\0\0\0"):
                changed = data[: part.start] + chunk(stored + padding, form=part.form, raw=len(part.data))
                if at + 1 < len(parts) and parts[at + 1].form == segments.ZSTD_NEXT:
                    continue
                path.write_bytes(changed + data[part.end :])
                assert nowhere_intact(valid)[:2] == ("broken", "broken")
    path.write_bytes(data)


def test_items_moved_over_chunks(valid: Any) -> None:
    """The same items in the same order, in one raw chunk instead of compressed ones."""
    (path,) = valid.segments()
    data = path.read_bytes()
    parts = chunks(path)
    first = next(part for part in parts if part.form == segments.RAW)
    raw = chunk(b"".join(part.data for part in parts if part.start < first.start))
    path.write_bytes(raw + data[first.start :])
    assert nowhere_intact(valid)[:2] == ("broken", "broken")


@pytest.mark.parametrize(
    "added", ["blob", "empty chunk", "zstd", "note twice", "stored twice", "signature line"]
)
def test_bytes_added_around_the_last_checkpoint(valid: Any, added: str) -> None:
    """The last two chunks are covered by no later ``stored``: nothing may be added to them, or stand between."""
    (path,) = valid.segments()
    data = path.read_bytes()
    *_, stored, note = chunks(path)
    head = data[: stored.start]
    stored_bytes, note_bytes = data[stored.start : stored.end], data[note.start : note.end]
    blob = item(segments.BLOB, b"added")
    variants: list[bytes] = []
    match added:
        case "blob":
            variants += [
                head + chunk(blob + stored.data) + note_bytes,
                head + chunk(stored.data + blob) + note_bytes,
                head + stored_bytes + chunk(blob + note.data),
                head + stored_bytes + chunk(note.data + blob),
                head + stored_bytes + chunk(blob) + note_bytes,
            ]
        case "empty chunk":
            variants += [
                head + stored_bytes + chunk(b"") + note_bytes,
                head + stored_bytes + note_bytes + chunk(b""),
            ]
        case "zstd":
            for part in (stored, note):
                stream = zstandard.ZstdCompressor(
                    write_checksum=False, write_content_size=False
                ).compressobj()
                packed = stream.compress(part.data) + stream.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
                again = chunk(packed, form=segments.ZSTD_FIRST, raw=len(part.data))
                variants.append(head + (again + note_bytes if part is stored else stored_bytes + again))
        case "note twice":
            variants += [head + stored_bytes + note_bytes * 2, head + stored_bytes + chunk(note.data * 2)]
        case "stored twice":
            variants += [
                head + stored_bytes * 2 + note_bytes,
                head + stored_bytes + note_bytes + stored_bytes,
            ]
        case "signature line":
            text = note.data[5:].decode()
            mallory = notes.sign_note(text.partition("\n\n")[0] + "\n", "mallory", keys.SigningKey.generate())
            line = mallory.rpartition("\n\n")[2]
            variants += [
                head + stored_bytes + chunk(item(segments.NOTE, (text + line).encode())),
                head
                + stored_bytes
                + chunk(item(segments.NOTE, text.replace("\n\n", "\n\n" + line).encode())),
            ]
    for variant in variants:
        path.write_bytes(variant)
        nowhere_intact(valid)


def test_a_crafted_chunk_costs_no_more_than_it_says(valid: Any) -> None:
    """A few bytes that decompress to a gigabyte end at the length the chunk declares."""
    (path,) = valid.segments()
    bomb = zstandard.ZstdCompressor(level=1).compress(bytes(1 << 28))
    for raw in (10, 1 << 20):
        path.write_bytes(chunk(bomb, form=segments.ZSTD_FIRST, raw=raw))
        assert nowhere_intact(valid)[0] == "broken"
    path.write_bytes(struct.pack("<B3xIII", 0, 1 << 30, 1 << 30, 0))
    assert nowhere_intact(valid)[0] == "broken"
