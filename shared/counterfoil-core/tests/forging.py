"""The attacker's tools: takes evidence apart and puts it together again, with everything computed anew."""

from __future__ import annotations

import hashlib
import shutil
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import counterfoil
from counterfoil import canonical, keys, log, notes, records, segments, statements, tree
from counterfoil.dsse import Envelope

Item = tuple[int, bytes]


def chunk(data: bytes, *, form: int = 0, raw: int | None = None) -> bytes:
    """A chunk with a right checksum around stored bytes."""
    checked = struct.pack("<B3xII", form, len(data), len(data) if raw is None else raw)
    return checked + struct.pack("<I", zlib.crc32(data, zlib.crc32(checked))) + data


def item(kind: int, data: bytes) -> bytes:
    return struct.pack("<BI", kind, len(data)) + data


def chunks(path: Path) -> list[segments.Chunk]:
    with path.open("rb") as file:
        return list(segments.read_chunks(file, where=path.name))


def items(path: Path) -> list[Item]:
    """All items of a segment."""
    return [(one.kind, one.data) for part in chunks(path) for one in segments.items(part, where=path.name)]


def bodies(path: Path) -> list[Item]:
    """Blobs and entry bodies of a segment, without the checkpoints."""
    out: list[Item] = []
    for kind, data in items(path):
        if kind == segments.BLOB:
            out.append((kind, data))
        elif kind == segments.ENTRY:
            body = canonical.loads(data)["body"]
            if body.get("content", {}).get("op") != "stored":
                out.append((kind, canonical.dumps(body)))
    return out


class Forger:
    """Writes one segment from bodies, with everything computed anew; ``key`` signs its checkpoint, if there is one."""

    def __init__(self, origin: str, key: keys.SigningKey | None) -> None:
        self.origin = origin
        self.key = key
        self.tree = tree.Tree()
        self.index = 0
        self.prev = log.ZERO
        self.out = b""

    def entry(self, body: bytes) -> bytes:
        data = log.entry_bytes(body, self.index, self.prev)
        self.prev = hashlib.sha256(data).hexdigest()
        self.tree.append(tree.leaf_hash(data))
        self.index += 1
        return item(segments.ENTRY, data)

    def add(self, listed: list[Item]) -> None:
        parts = [self.entry(data) if kind == segments.ENTRY else item(kind, data) for kind, data in listed]
        self.out += chunk(b"".join(parts))

    def checkpoint(self, note: bytes | None = None, segment: int = 0) -> None:
        content = {
            "offset": len(self.out),
            "op": "stored",
            "segment": segment,
            "sha256": hashlib.sha256(self.out).hexdigest(),
        }
        self.out += chunk(self.entry(records.build(content, {})))
        if note is None:
            assert self.key is not None
            text = notes.Checkpoint(self.origin, self.tree.size, self.tree.root()).to_text()
            note = notes.sign_note(text, self.origin, self.key).encode()
        self.out += chunk(item(segments.NOTE, note))


def identity() -> keys.SigningKey:
    found = keys.load_identity()
    assert found is not None
    return found


def codes(result: Any) -> set[str]:
    return {finding.code for finding in result.findings}


def nowhere_intact(lab: Any) -> tuple[str, str, str]:
    """Verdicts here, where the key is pinned and nothing is remembered, and where nothing is known; none is intact."""
    with lab.at(lab.root / "stranger"):
        stranger = counterfoil.verify(lab.evidence).verdict
    verdicts = (lab.verify().verdict, lab.verify_elsewhere().verdict, stranger)
    assert "intact" not in verdicts, verdicts
    return verdicts


def saved(lab: Any) -> Callable[[], None]:
    """Takes a copy; the returned function puts it back."""
    copy = lab.root / "copy"
    shutil.copytree(lab.evidence, copy, dirs_exist_ok=False)

    def restore() -> None:
        shutil.rmtree(lab.evidence)
        shutil.copytree(copy, lab.evidence)

    return restore


def handoff(recorder: Any, root: Any, key: keys.SigningKey, **changes: Any) -> bytes:
    """A recorded handoff's envelope, whatever it says."""
    payload = recorder.value("payload")
    predicate: dict[str, Any] = {
        "content": {
            "basis": "sealed",
            "from": ["a"],
            "kind": "message",
            "payload": payload.sha256,
            "to": "b",
        },
        "exact": True,
        "issued": 1,
        "parents": [{"digest": root.digest, "rel": "control"}],
        "payload": {"media": payload.media, "size": payload.size},
        "proof": "recorded",
        "sender": {"actor": "a", "key": key.keyid},
    }
    predicate |= changes
    subject = {"digest": {"counterfoil-v1": predicate["content"]["payload"]}, "name": "payload"}
    return Envelope.sign(statements.build(statements.HANDOFF, subject, predicate), key).to_bytes()
