"""Blobs and logs by hand: references, composites, nodes of message lists, rightly chained and signed."""

from __future__ import annotations

import base64
import hashlib
import json
from pathlib import Path
from typing import Any

import counterfoil
from counterfoil import keys, log, notes, records, segments, tree
from counterfoil.digest import MEDIA_JSON, Reference, sha256_hex


def codes(result: Any) -> list[str]:
    return [finding.code for finding in result.findings]


def ref(data: bytes, media: str = MEDIA_JSON) -> Reference:
    return Reference(sha256_hex(data), len(data), media)


def cited(*parts: Reference) -> bytes:
    """A stored list of references."""
    return json.dumps([{"$ref": part.to_dict()} for part in parts], separators=(",", ":")).encode()


def node(number: int, before: bytes = b"") -> bytes:
    """A node of a message list."""
    parent = sha256_hex(before).encode() if before else b""
    return b'{"add":{"$msg":{"n":%d}},"n":%d,"parent":"%b"}' % (number, number, parent)


class Crafted:
    """Evidence of one log with whatever blobs and records somebody wants, rightly chained and signed."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.folder = root / "0123456789abcdef"
        self.folder.mkdir(parents=True)
        (root / ".gitignore").write_bytes(b"*\n")
        self.key = keys.SigningKey.generate()
        self.origin = f"{self.key.keyid}/{self.folder.name}"
        self._tree = tree.Tree()
        self._prev = log.ZERO
        self._out = b""
        spki = base64.b64encode(self.key.spki).decode()
        context = {"at": 1, "origin": self.origin, "spki": spki, "tree": {"peaks": [], "size": 0}}
        self.record({"op": "session", "phase": "point"}, context)

    def record(self, content: dict[str, Any], context: dict[str, Any]) -> None:
        data = log.entry_bytes(records.build(content, context), self._tree.size, self._prev)
        self._prev = hashlib.sha256(data).hexdigest()
        self._tree.append(tree.leaf_hash(data))
        self._out += segments.raw_chunk(segments.pack_item(segments.ENTRY, data))

    def blobs(self, *listed: bytes) -> None:
        packed = b"".join(segments.pack_item(segments.BLOB, data) for data in listed)
        self._out += segments.raw_chunk(packed)

    def verify(self) -> Any:
        sha256 = hashlib.sha256(self._out).hexdigest()
        self.record({"offset": len(self._out), "op": "stored", "segment": 0, "sha256": sha256}, {})
        text = notes.Checkpoint(self.origin, self._tree.size, self._tree.root()).to_text()
        note = segments.pack_item(segments.NOTE, notes.sign_note(text, self.origin, self.key).encode())
        (self.folder / "00000000.seg").write_bytes(self._out + segments.raw_chunk(note))
        return counterfoil.verify(self.root, keyring=keys.Keyring.of([self.key.public]))
