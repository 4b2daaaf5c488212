"""Signatures that one process verifies for another: who checked a segment alone says which are valid, by mark."""

from __future__ import annotations

import base64
import contextlib
import hashlib
from collections.abc import Iterator
from typing import Any

import orjson

from counterfoil._ed25519 import PublicKey
from counterfoil.dsse import PAYLOAD_TYPE, Check, pae
from counterfoil.errors import CounterfoilError
from counterfoil.notes import Note
from counterfoil.opening import Opened

__all__ = ["Proven", "Signatory"]


class Signatory:
    """Verifies what is signed by a key that is at hand, and learns the keys that bindings name on the way."""

    def __init__(self, known: dict[str, bytes]) -> None:
        self.valid: set[bytes] = set()
        self.learned: dict[str, bytes] = {}
        self._known = known
        self._keys: dict[str, PublicKey | None] = {}

    def verify(self, body: dict[str, Any]) -> None:
        """Mark the valid signatures of an envelope; whatever is wrong with it is found where it is judged."""
        try:
            payload = base64.b64decode(body["payload"], validate=True)
            message = pae(PAYLOAD_TYPE, payload)
            for one in body["signatures"][:4]:
                key, sig = self._key(one["keyid"]), base64.b64decode(one["sig"], validate=True)
                if key is not None and key.verify(sig, message):
                    self.valid.add(mark(key, sig, message))
            if b'"urn:counterfoil:binding:' in payload:
                self.learned.update(_bound(payload))
        except (ValueError, TypeError, KeyError, AttributeError):
            return

    def note(self, data: bytes) -> None:
        """The same of a checkpoint's note."""
        try:
            note = Note.parse(data)
            message = note.text.encode()
            for one in note.signatures[:4]:
                key = self._key(one.name.partition("/")[0])
                if key is not None and key.verify(one.signature, message):
                    self.valid.add(mark(key, one.signature, message))
        except (ValueError, CounterfoilError):
            return

    def session(self, spki: object) -> None:
        """Learn the key that a session names; what is wrong with it is found where it is judged."""
        with contextlib.suppress(TypeError, ValueError):
            raw = base64.b64decode(spki, validate=True)  # type: ignore[arg-type]
            if len(raw) == 44:
                self.learned[hashlib.sha256(raw).hexdigest()] = raw[-32:]

    def signer(self, envelope: Opened) -> bytes:
        """The key (32 bytes) that signed an envelope, if it is at hand and did."""
        key = self._key(envelope.keyid.decode())
        signed = key is not None and key.verify(envelope.sig, pae(PAYLOAD_TYPE, envelope.payload))
        return key.raw if key is not None and signed else b""

    def _key(self, keyid: str) -> PublicKey | None:
        if keyid not in self._keys:
            raw = self._known.get(keyid) or self.learned.get(keyid)
            if raw is None:
                return None
            try:
                self._keys[keyid] = PublicKey(raw)
            except CounterfoilError:
                self._keys[keyid] = None
        return self._keys[keyid]


def _bound(payload: bytes) -> Iterator[tuple[str, bytes]]:
    predicate = orjson.loads(payload)["predicate"]
    spki = base64.b64decode(predicate["spki"], validate=True)
    if len(spki) == 44:
        yield predicate["key"], spki[-32:]


def mark(key: PublicKey, sig: bytes, message: bytes) -> bytes:
    """What a valid signature is remembered by."""
    # Key and signature have one length each, so what is joined can be taken apart in one way only.
    return hashlib.sha256(key.raw + sig + message).digest()


class Proven:
    """Signatures that were found valid elsewhere; ``check`` stands in for verifying them again."""

    __slots__ = ("_otherwise", "_valid", "signer")

    def __init__(self, otherwise: Check | None) -> None:
        self.signer = b""
        """The key that made the one signature of the envelope that is judged just now."""
        self._valid: set[bytes] = set()
        self._otherwise = otherwise

    def take(self, valid: set[bytes]) -> None:
        """Go by these from now on."""
        self._valid = valid

    def note(self, key: PublicKey, sig: bytes, message: bytes) -> bool:
        """The same of a checkpoint's note, which is not remembered from one time to the next."""
        return (len(sig) == 64 and mark(key, sig, message) in self._valid) or key.verify(sig, message)

    def check(self, key: PublicKey, sig: bytes, message: bytes) -> bool:
        """Whether a signature over a message is a key's."""
        if key.raw == self.signer:
            return True
        if len(sig) == 64 and mark(key, sig, message) in self._valid:
            return True
        return key.verify(sig, message) if self._otherwise is None else self._otherwise(key, sig, message)
