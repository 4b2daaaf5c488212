"""DSSE envelopes: who signed which bytes, nothing more.

The payload comes out as the bytes that were signed; reading it is the next layer's work, after ``verify``.
The identity of a statement is the SHA-256 of its payload, never of the envelope text, which can be spelled in
many ways. One payload type is accepted, so no other kind of signed JSON passes for a statement.

Source: DSSE 1.0.2 (secure-systems-lab), in-toto Statement v1 (payload type).
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final, NoReturn, Protocol, Self

from counterfoil import canonical
from counterfoil._ed25519 import PublicKey, SigningKey
from counterfoil.errors import CanonicalError, EnvelopeError

__all__ = [
    "MAX_ENVELOPE",
    "MAX_NORMAL",
    "PAYLOAD_TYPE",
    "Check",
    "Envelope",
    "KeySource",
    "Signature",
    "pae",
]

PAYLOAD_TYPE: Final = "application/vnd.in-toto+json"
MAX_ENVELOPE: Final = 64 * 1024
"""Bytes of an envelope as it is received."""
MAX_NORMAL: Final = 65_000
"""Bytes of its normal form, which has to fit an entry of a log."""
MAX_SIGNATURES: Final = 4
MAX_SPKI: Final = 256
_MAX_DEPTH: Final = 16
_PAE_HEAD: Final = b"DSSEv1 %d %b " % (len(PAYLOAD_TYPE), PAYLOAD_TYPE.encode())
_KEYID: Final = re.compile(r"[\x21-\x7e]{1,128}")
_HEX_KEYID: Final = re.compile(r"[0-9a-f]{64}")
_URL_ALPHABET: Final = str.maketrans("-_", "+/")


Check = Callable[[PublicKey, bytes, bytes], bool]
"""Whether a signature over a message is a key's."""


class KeySource(Protocol):
    """What ``verify`` asks for keys: a keyring, a policy, or a plain dict."""

    def get(self, keyid: str, /) -> PublicKey | None:
        """The trusted key of that keyid, or None."""


@dataclass(frozen=True, slots=True)
class Signature:
    """One signature; ``keyid`` only picks the key to try.

    ``spki`` is the signer's public key in DER, carried so that who pinned its fingerprint can check: it is used only
    when its SHA-256 is the pinned fingerprint, and means nothing otherwise.
    """

    keyid: str
    sig: bytes
    spki: bytes | None = None


@dataclass(frozen=True, slots=True)
class Envelope:
    """A signed payload in normalised form: signatures sorted by keyid, unknown members left out."""

    payload: bytes
    signatures: tuple[Signature, ...]

    @classmethod
    def parse(cls, data: bytes | str | Mapping[str, Any], *, limit: int = MAX_ENVELOPE) -> Self:
        """Envelope from its JSON text, or from that text read already; ``limit`` in bytes is for trust policies.

        Raises:
            EnvelopeError: CF-DSSE-001: larger than allowed; CF-DSSE-002: not strict JSON, or members are
                missing or of the wrong type; CF-DSSE-003: another payload type; CF-DSSE-004: not strict
                base64; CF-DSSE-005: number of signatures, or keyids missing, malformed or repeated.
        """
        content = data if isinstance(data, Mapping) else _read(data, limit)
        payload_type, payload = content.get("payloadType"), content.get("payload")
        if type(payload_type) is not str or type(payload) is not str:
            _refuse("002", "an envelope has the texts payload and payloadType")
        if payload_type != PAYLOAD_TYPE:
            _refuse("003", f"the payload type is not {PAYLOAD_TYPE}")
        if len(payload) > limit * 4 // 3 + 4:
            _refuse_size(limit)  # before it is copied
        decoded = _decode(payload, "payload")
        return cls._checked(decoded, _parse_signatures(content.get("signatures")), limit)

    @classmethod
    def sign(
        cls, payload: bytes, key: SigningKey, *, carry_key: bool = False, limit: int = MAX_ENVELOPE
    ) -> Self:
        """Envelope of ``payload`` with one signature; ``carry_key`` puts the public key beside it.

        Raises:
            EnvelopeError: CF-DSSE-001: larger than allowed; CF-DSSE-002: the payload is empty.
        """
        return cls._checked(payload, [_signature(payload, key, carry_key=carry_key)], limit)

    def cosigned(self, key: SigningKey, *, limit: int = MAX_ENVELOPE) -> Self:
        """This envelope with one more signature, its key beside it; one by the same key is replaced.

        Raises:
            EnvelopeError: CF-DSSE-001: larger than 64 KiB; CF-DSSE-005: it has four signatures by others already.
        """
        others = [each for each in self.signatures if each.keyid != key.keyid]
        if len(others) >= MAX_SIGNATURES:
            _refuse("005", f"an envelope has 1 to {MAX_SIGNATURES} signatures", hint="leave one of them out")
        return self._checked(self.payload, [*others, _signature(self.payload, key, carry_key=True)], limit)

    @classmethod
    def parse_compact(cls, text: str | bytes) -> Self:
        """Envelope from its compact form ``payload.sig.keyid``.

        Raises:
            EnvelopeError: CF-DSSE-001: too large; CF-DSSE-006: not three parts of base64url without padding.
        """
        if len(text) > MAX_ENVELOPE:
            _refuse_size()
        try:
            parts = (text if isinstance(text, str) else text.decode("ascii")).split(".")
        except UnicodeDecodeError:
            parts = []
        if len(parts) != 3:
            _refuse("006", "a compact envelope has three parts")
        payload, sig, keyid = (_decode_url(part) for part in parts)
        if len(keyid) != 32 or not sig:
            _refuse("006", "a compact envelope ends in a signature and a keyid of 32 bytes")
        return cls._checked(payload, [Signature(keyid.hex(), sig)])

    @property
    def payload_type(self) -> str:
        """The one payload type."""
        return PAYLOAD_TYPE

    @property
    def digest(self) -> str:
        """Hex SHA-256 of the payload: the identity of the statement."""
        return sha256(self.payload).hexdigest()

    def verify(self, keyring: KeySource, *, check: Check | None = None) -> list[str]:
        """The keyids whose keys signed this payload; ``check`` may know already that a signature is a key's.

        Raises:
            EnvelopeError: CF-DSSE-010: no key of ``keyring`` is named; CF-DSSE-011: one is, but did not sign.
        """
        message = pae(PAYLOAD_TYPE, self.payload)
        named = False
        verified = []
        for signature in self.signatures:
            key = _key_of(keyring, signature)
            # A source that answers with the key of somebody else must not turn one key into two signers.
            if key is None or key.keyid != signature.keyid:
                continue
            named = True
            if key.verify(signature.sig, message) if check is None else check(key, signature.sig, message):
                verified.append(signature.keyid)
        if verified:
            return verified
        if named:
            hint = "the envelope was changed"
            _refuse("011", "the signature does not verify", where=self.digest, hint=hint)
        names = ", ".join(signature.keyid for signature in self.signatures)
        hint = "get the signer's fingerprint from its owner: counterfoil keys pin FINGERPRINT"
        _refuse("010", "no known key signed the envelope", where=names, hint=hint)

    def to_dict(self) -> dict[str, Any]:
        """The members of the normalised form, standard base64."""
        return {
            "payload": _encode(self.payload),
            "payloadType": PAYLOAD_TYPE,
            "signatures": [_signature_dict(each) for each in self.signatures],
        }

    def to_bytes(self) -> bytes:
        """The normalised form in RFC 8785 bytes."""
        return canonical.dumps_record(self.to_dict())

    def is_normal(self, content: Mapping[str, Any]) -> bool:
        """Whether the object it was read from, in RFC 8785 bytes, is the normalised form (as ``to_bytes`` would show).

        What was decoded has one spelling in each alphabet, so only alphabet, members and order are left to look at.
        """
        listed = content.get("signatures")
        if len(content) != 3 or type(listed) is not list or not _is_standard(content["payload"]):
            return False
        keyids = []
        for one in listed:
            spki = one.get("spki")
            if len(one) != (2 if spki is None else 3) or not _is_standard(one["sig"]):
                return False
            if spki is not None and not _is_standard(spki):
                return False
            keyids.append(one["keyid"])
        return keyids == sorted(keyids)

    def to_compact(self) -> str:
        """``payload.sig.keyid`` in base64url without padding, for headers.

        Raises:
            EnvelopeError: CF-DSSE-006: more than one signature, or a keyid that is no SHA-256.
        """
        signature = self.signatures[0]
        if len(self.signatures) != 1 or not _HEX_KEYID.fullmatch(signature.keyid):
            _refuse("006", "the compact form has one signature by a key named by its fingerprint")
        parts = (self.payload, signature.sig, bytes.fromhex(signature.keyid))
        return ".".join(base64.urlsafe_b64encode(part).decode("ascii").rstrip("=") for part in parts)

    @classmethod
    def _checked(cls, payload: bytes, signatures: list[Signature], limit: int = MAX_ENVELOPE) -> Self:
        if not payload:
            _refuse("002", "the payload is empty")
        envelope = cls(payload, tuple(sorted(signatures, key=lambda signature: signature.keyid)))
        # Base64 takes four bytes for three; only what could be too large is written to see.
        rough = 2 * len(payload) + sum(
            2 * (len(one.sig) + len(one.keyid) + len(one.spki or b"")) + 64 for one in signatures
        )
        allowed = MAX_NORMAL if limit == MAX_ENVELOPE else limit
        if rough > allowed - 256 and len(envelope.to_bytes()) > allowed:
            _refuse_size(allowed)
        return envelope


def pae(payload_type: str, payload: bytes) -> bytes:
    """The bytes a DSSE signature covers: type and payload, each behind its length."""
    if payload_type is PAYLOAD_TYPE:
        return b"%b%d %b" % (_PAE_HEAD, len(payload), payload)
    kind = payload_type.encode("utf-8")
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)


def _signature(payload: bytes, key: SigningKey, *, carry_key: bool) -> Signature:
    return Signature(key.keyid, key.sign(pae(PAYLOAD_TYPE, payload)), key.spki if carry_key else None)


def _read(data: bytes | str, limit: int) -> Mapping[str, Any]:
    try:
        content = canonical.loads(data, max_depth=_MAX_DEPTH, max_bytes=limit)
    except CanonicalError as exc:
        if exc.code == "CF-CANON-017":
            _refuse_size(limit)
        _refuse("002", f"the envelope is not strict JSON: {exc.message}", where=exc.where)
    if not isinstance(content, dict):
        _refuse("002", "an envelope is a JSON object")
    return content


def _parse_signatures(entries: Any) -> list[Signature]:
    if not isinstance(entries, (list, tuple)) or not 1 <= len(entries) <= MAX_SIGNATURES:
        _refuse("005", f"an envelope has 1 to {MAX_SIGNATURES} signatures")
    signatures = [_parse_signature(entry, number) for number, entry in enumerate(entries)]
    if len({one.keyid for one in signatures}) < len(signatures):
        _refuse("005", "a keyid occurs twice", where="signatures")
    return signatures


def _parse_signature(entry: Any, number: int) -> Signature:
    """One signature: the types of all members are looked at before any base64, as every other reader does it."""
    given = entry if isinstance(entry, Mapping) else {}
    keyid, sig, spki = given.get("keyid"), given.get("sig"), given.get("spki")
    if type(keyid) is not str or type(sig) is not str or not _KEYID.fullmatch(keyid):
        what = "a signature has a keyid of 1 to 128 printable ASCII characters and sig"
        _refuse("005", what, where=f"signatures/{number}")
    if spki is not None and (type(spki) is not str or len(spki) > MAX_SPKI):
        _refuse("005", "a carried public key is a short base64 text", where=f"signatures/{number}/spki")
    decoded = _decode(sig, "signatures/{}/sig", number)
    return Signature(keyid, decoded, None if spki is None else _decode(spki, "signatures/{}/spki", number))


def _key_of(keyring: KeySource, signature: Signature) -> PublicKey | None:
    key = keyring.get(signature.keyid)
    resolve = getattr(keyring, "resolve", None)
    if key is None and signature.spki is not None and resolve is not None:
        key = resolve(signature.keyid, signature.spki)
    return key


def _signature_dict(signature: Signature) -> dict[str, str]:
    out = {"keyid": signature.keyid, "sig": _encode(signature.sig)}
    if signature.spki is not None:
        out["spki"] = _encode(signature.spki)
    return out


def _encode(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _decode(text: str, where: str, number: int = 0) -> bytes:
    # Either alphabet, never both in one text; padded, and spelled in the one way that writes back the same.
    standard = text
    if not _is_standard(text):
        standard = "" if "+" in text or "/" in text else text.translate(_URL_ALPHABET)
    try:
        data = binascii.a2b_base64(standard, strict_mode=True)
        same = binascii.b2a_base64(data, newline=False) == standard.encode("ascii")
    except ValueError:
        data, same = b"", False
    if not data or not same:
        _refuse("004", "not strict base64", where=where.format(number))
    return data


def _is_standard(text: str) -> bool:
    return "-" not in text and "_" not in text


def _decode_url(text: str) -> bytes:
    padded = text.translate(_URL_ALPHABET) + "=" * (-len(text) % 4)
    try:
        data = base64.b64decode(padded, validate=True)
    except ValueError:
        data = b""
    if not data or base64.urlsafe_b64encode(data).decode("ascii").rstrip("=") != text:
        _refuse("006", "a part of the compact envelope is not base64url without padding")
    return data


def _refuse_size(limit: int = MAX_ENVELOPE) -> NoReturn:
    _refuse("001", f"the envelope is larger than {limit} bytes", hint="carry values by digest")


def _refuse(
    number: str,
    message: str,
    *,
    where: str | None = None,
    hint: str = "ask its sender for the envelope as it was made",
) -> NoReturn:
    raise EnvelopeError(message, code=f"CF-DSSE-{number}", where=where, hint=hint) from None
