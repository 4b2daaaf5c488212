"""A reader of exported tiles that knows nothing of ours: C2SP tlog-tiles from the bytes, up to the signed root."""

from __future__ import annotations

import base64
from hashlib import sha256
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

__all__ = ["TileLog", "unbundle"]


def unbundle(data: bytes) -> list[bytes]:
    found = []
    while data:
        size = int.from_bytes(data[:2], "big")
        found.append(data[2 : 2 + size])
        assert len(found[-1]) == size
        data = data[2 + size :]
    return found


class TileLog:
    """A log as its tiles tell it, by C2SP and RFC 6962 alone."""

    def __init__(self, folder: Path, public: bytes) -> None:
        self.folder = folder
        text, _, signatures = (folder / "checkpoint").read_text(encoding="utf-8").rpartition("\n\n")
        self.origin, size, root = text.split("\n")
        self.size, self.root = int(size), base64.b64decode(root, validate=True)
        (line,) = signatures.splitlines()
        _, name, blob = line.split(" ")
        assert name == self.origin
        key_id = sha256(name.encode() + b"\n\x01" + public).digest()[:4]
        signature = base64.b64decode(blob, validate=True)
        assert signature[:4] == key_id
        Ed25519PublicKey.from_public_bytes(public).verify(signature[4:], f"{text}\n".encode())

    def tile(self, level: int | str, number: int, width: int) -> bytes:
        digits = f"{number:03d}"
        assert len(digits) == 3
        partial = "" if width == 256 else f".p/{width}"
        return (self.folder / f"tile/{level}/{digits}{partial}").read_bytes()

    def rows(self, level: int | str, count: int) -> list[bytes]:
        full, rest = divmod(count, 256)
        return [self.tile(level, at, 256) for at in range(full)] + (
            [self.tile(level, full, rest)] if rest else []
        )

    def leaves(self) -> list[bytes]:
        joined = b"".join(self.rows(0, self.size))
        assert len(joined) == 32 * self.size
        return [joined[at : at + 32] for at in range(0, len(joined), 32)]

    def entries(self) -> list[bytes]:
        return [text for bundle in self.rows("entries", self.size) for text in unbundle(bundle)]

    def check(self) -> None:
        leaves = self.leaves()
        assert [sha256(b"\0" + text).digest() for text in self.entries()] == leaves, (
            "an entry has another leaf"
        )
        assert _root(leaves) == self.root, "the leaves have another root"
        above = b"".join(self.rows(1, self.size // 256))
        assert above == b"".join(_root(leaves[at : at + 256]) for at in range(0, self.size - 255, 256)), (
            "a tile above is another"
        )
        names = {str(path.relative_to(self.folder)) for path in self.folder.rglob("*") if path.is_file()}
        assert all(name == "checkpoint" or name.startswith("tile/") for name in names)


def _root(leaves: list[bytes]) -> bytes:
    if len(leaves) == 1:
        return leaves[0]
    split = 1 << ((len(leaves) - 1).bit_length() - 1)
    return sha256(b"\x01" + _root(leaves[:split]) + _root(leaves[split:])).digest()
