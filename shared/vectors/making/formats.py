"""The formats a second time, from ``shared/spec`` alone: nothing of ``counterfoil`` is imported here.

What the vectors say is therefore no echo of the code that is tested against them.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import struct
import zlib
from typing import Any, Final

import rfc8785
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

INLINE: Final = 256
TEXT: Final = "text/plain;charset=utf-8"
BYTES: Final = "application/octet-stream"
VALUE: Final = "application/vnd.counterfoil.value+json"
FOLD: Final = "application/vnd.counterfoil.fold+json"
PAYLOAD_TYPE: Final = "application/vnd.in-toto+json"


def jcs(value: Any) -> bytes:
    """RFC 8785 bytes."""
    return rfc8785.dumps(value)


def sha256(data: bytes) -> str:
    """Hex SHA-256."""
    return hashlib.sha256(data).hexdigest()


def unb64(text: str) -> bytes:
    """Bytes of standard base64."""
    return base64.b64decode(text, validate=True)


def json_of(text: str) -> Any:
    """A text's value."""
    return json.loads(text)


def b64(data: bytes) -> str:
    """Standard base64 with padding."""
    return base64.b64encode(data).decode("ascii")


# -- references (references.md) ---------------------------------------------------------------------------------------


class Blobs:
    """Collects the blobs that reducing a value stores, in the order they are stored."""

    def __init__(self) -> None:
        self.found: dict[str, bytes] = {}

    def store(self, data: bytes, media: str) -> dict[str, Any]:
        """Reference of stored bytes."""
        digest = sha256(data)
        self.found.setdefault(digest, data)
        return {"media": media, "sha256": digest, "size": len(data)}

    def reduce(self, value: Any) -> Any:
        """red(value)."""
        if isinstance(value, str):
            data = value.encode()
            return value if len(data) < INLINE else {"$ref": self.store(data, TEXT)}
        if isinstance(value, dict):
            if set(value) == {"$bytes"}:
                data = base64.b64decode(value["$bytes"])
                return value if len(data) < INLINE else {"$ref": self.store(data, BYTES)}
            if set(value) == {"$ref"}:
                return value
            reduced: Any = {key: self.reduce(value[key]) for key in sorted(value, key=utf16)}
        elif isinstance(value, list):
            reduced = [self.reduce(one) for one in value]
            if value and all(isinstance(one, dict) and set(one) == {"$msg"} for one in value):
                return {"$ref": self.fold(reduced)}
        else:
            return value
        data = jcs(reduced)
        return reduced if len(data) < INLINE else {"$ref": self.store(data, VALUE)}

    def fold(self, elements: list[Any]) -> dict[str, Any]:
        """Reference of the last node of a message list."""
        parent, found = "", {}
        for number, element in enumerate(elements, 1):
            found = self.store(jcs({"add": element, "n": number, "parent": parent}), FOLD)
            parent = found["sha256"]
        return found

    def reference(self, value: Any) -> dict[str, Any]:
        """Reference by which a record cites a value, whatever its size."""
        if isinstance(value, str):
            return self.store(value.encode(), TEXT)
        if isinstance(value, dict) and set(value) == {"$bytes"}:
            return self.store(base64.b64decode(value["$bytes"]), BYTES)
        reduced = self.reduce(value)
        if isinstance(reduced, dict) and set(reduced) == {"$ref"}:
            return reduced["$ref"]
        return self.store(jcs(reduced), VALUE)


def utf16(key: str) -> bytes:
    """Sort key of RFC 8785."""
    return key.encode("utf-16-be")


# -- names (record.md) ------------------------------------------------------------------------------------------------

_PLAIN: Final = frozenset(
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789 -_.~<>()[]{}=+*&$!,;'|^"
)


def percent(name: str) -> str:
    """A name, percent-encoded."""
    data = name.encode("utf-8", "surrogatepass")
    return "".join(chr(byte) if byte in _PLAIN else f"%{byte:02X}" for byte in data)


def short(text: str) -> str:
    """What stands for a text that is too long."""
    return sha256(text.encode())[:32]


def actor(path: list[str]) -> str:
    """A path of actor names as one text."""
    text = "/".join(map(percent, path))
    if len(text) <= 1024:
        return text
    last = percent(path[-1])
    return f"~{short(text)}/{last}" if len(last) <= 512 else f"~{short(text)}"


def step(op: str, name: str, key: str, occurrence: int) -> str:
    """One step of an address."""

    def part(name: str) -> str:
        text = percent(name)
        return text if len(text) <= 256 else f"{percent(name[:24])}~{short(text)}"

    at = f"@{part(key)}" if key else ""
    return f"{op}:{part(name)}{at}" + ("" if occurrence == 1 else f"#{occurrence}")


def below(above: str, one: str) -> str:
    """Address of a step."""
    full = f"{above}/{one}"
    return full if len(full) <= 1024 else f"~{short(above)}/{one}"


def label(name: str) -> str:
    """A name as a record's member `name`."""
    text = "".join(f"\\u{ord(one):04x}" if "\ud800" <= one <= "\udfff" else one for one in name)
    return text if len(text) <= 512 else f"{text[:400]}~{short(text)}"


# -- keys, envelopes, notes (keys.md, statement.md, log.md) -----------------------------------------------------------


class Key:
    """A test key, made from one repeated byte: never trust it anywhere."""

    def __init__(self, byte: int) -> None:
        self.seed = bytes([byte]) * 32
        self._key = Ed25519PrivateKey.from_private_bytes(self.seed)
        self.raw = self._key.public_key().public_bytes_raw()
        self.spki = bytes.fromhex("302a300506032b6570032100") + self.raw
        self.keyid = sha256(self.spki)

    def sign(self, data: bytes) -> bytes:
        """Pure Ed25519, which is deterministic."""
        return self._key.sign(data)

    def to_json(self) -> dict[str, str]:
        """As it stands in the vectors."""
        return {"fingerprint": self.keyid, "seed": self.seed.hex(), "spki": b64(self.spki)}


def pae(payload: bytes) -> bytes:
    """What a DSSE signature covers."""
    return b"DSSEv1 %d %s %d %s" % (len(PAYLOAD_TYPE), PAYLOAD_TYPE.encode(), len(payload), payload)


def envelope(payload: bytes, *keys: Key, carry: bool = False) -> dict[str, Any]:
    """Envelope in normal form."""
    signatures = []
    for key in sorted(keys, key=lambda one: one.keyid):
        signature = {"keyid": key.keyid, "sig": b64(key.sign(pae(payload)))}
        if carry:
            signature["spki"] = b64(key.spki)
        signatures.append(signature)
    return {"payload": b64(payload), "payloadType": PAYLOAD_TYPE, "signatures": signatures}


def statement(kind: str, subject: dict[str, Any], predicate: dict[str, Any]) -> bytes:
    """Payload of a statement."""
    return jcs(
        {
            "_type": "https://in-toto.io/Statement/v1",
            "predicate": predicate,
            "predicateType": f"urn:counterfoil:{kind}:v1",
            "subject": [subject],
        }
    )


WEIGHTS: Final = "application/vnd.counterfoil.weights+json"


def weights_root(listed: list[dict[str, Any]]) -> str:
    """The root over the files of a list, in their order."""
    return sha256(b"".join(bytes.fromhex(one["sha256"]) for one in listed))


def note(origin: str, size: int, root: bytes, key: Key, *, name: str | None = None) -> bytes:
    """A checkpoint as a signed note."""
    name = origin if name is None else name
    text = f"{origin}\n{size}\n{b64(root)}\n".encode()
    key_id = hashlib.sha256(name.encode() + b"\n\x01" + key.raw).digest()[:4]
    return text + b"\n\xe2\x80\x94 %s %s\n" % (name.encode(), b64(key_id + key.sign(text)).encode())


def vkey(name: str, key: Key) -> str:
    """Verifier key as note tools take it."""
    blob = b"\x01" + key.raw
    key_id = hashlib.sha256(name.encode() + b"\n" + blob).digest()[:4]
    return f"{name}+{key_id.hex()}+{b64(blob)}"


# -- trees (log.md, RFC 6962 section 2.1) -----------------------------------------------------------------------------


def leaf(data: bytes) -> bytes:
    """Leaf hash."""
    return hashlib.sha256(b"\x00" + data).digest()


def root(leaves: list[bytes]) -> bytes:
    """Merkle tree hash, as RFC 6962 defines it."""
    if not leaves:
        return hashlib.sha256(b"").digest()
    if len(leaves) == 1:
        return leaves[0]
    left = 1
    while left * 2 < len(leaves):
        left *= 2
    return hashlib.sha256(b"\x01" + root(leaves[:left]) + root(leaves[left:])).digest()


def peaks(leaves: list[bytes]) -> list[str]:
    """Roots of the complete subtrees, largest first, in hex."""
    out, start = [], 0
    for bit in range(len(leaves).bit_length() - 1, -1, -1):
        if len(leaves) >> bit & 1:
            out.append(root(leaves[start : start + (1 << bit)]).hex())
            start += 1 << bit
    return out


# -- chunks and items (log.md) ----------------------------------------------------------------------------------------

ENTRY, BLOB, NOTE = 1, 2, 3
RAW, FIRST, NEXT = 0, 1, 2


def item(kind: int, data: bytes) -> bytes:
    """One item."""
    return struct.pack("<BI", kind, len(data)) + data


def chunk(form: int, stored: bytes, raw_length: int) -> bytes:
    """One chunk."""
    head = struct.pack("<B3xII", form, len(stored), raw_length)
    return head + struct.pack("<I", zlib.crc32(head + stored)) + stored


def zstd(data: bytes, *, first: bool) -> bytes:
    """``data`` as blocks of a zstd frame that are stored or repeat one byte: the same with every zstd release."""
    out = bytes.fromhex("28b52ffd0058") if first else b""
    for match in _RUNS.finditer(data):
        part = match.group()
        repeated = len(part) > 1 and not part.strip(part[:1])
        head = struct.pack("<I", len(part) << 3 | (2 if repeated else 0))
        out += head[:3] + (part[:1] if repeated else part)
    return out


_RUNS: Final = re.compile(rb"(.)\1{999,99999}|(?:(?!(.)\2{999}).){1,100000}", re.DOTALL)
"""A byte repeated a thousand times and more, or anything up to the next such run; at most 100,000 bytes."""
