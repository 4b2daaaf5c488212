"""Ed25519 keys behind ``counterfoil.keys``: the library's verifier plus the checks it leaves to its caller.

``cryptography`` accepts public keys of low order, under which one signature fits any message. They are
refused when a key is made, and signatures whose R is of low order are refused when they are verified.

Source: RFC 8032 (Ed25519), RFC 8410 (SubjectPublicKeyInfo form).
"""

from __future__ import annotations

import binascii
import hashlib
from typing import Final, NoReturn, Self

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from counterfoil.errors import KeyringError, WeakKeyError

SIGNATURE_BYTES: Final = 64
RAW_BYTES: Final = 32
_SPKI_PREFIX: Final = bytes.fromhex("302a300506032b6570032100")
_SPKI_BYTES: Final = len(_SPKI_PREFIX) + RAW_BYTES
_SPKI_TEXT: Final = 60
_PRIME: Final = 2**255 - 19
_SIGN_BIT: Final = 1 << 255


def _low_order_encodings() -> frozenset[bytes]:
    # The y coordinates of the eight points whose order divides 8, and the two of them that fit into 255 bits
    # once more when written without reduction; each with both values of the sign bit of x.
    eighth = 0x7A03AC9277FDC74EC6CC392CFA53202A0F67100D760B3CBA4FD84D3D706A17C7
    ys = (0, 1, _PRIME - 1, eighth, _PRIME - eighth, _PRIME, _PRIME + 1)
    return frozenset((y | sign).to_bytes(RAW_BYTES, "little") for y in ys for sign in (0, _SIGN_BIT))


LOW_ORDER: Final = _low_order_encodings()
"""All 14 encodings of points of low order, canonical or not."""


class PublicKey:
    """An Ed25519 public key that is safe to trust; equal when the SPKI bytes are equal."""

    __slots__ = ("_key", "keyid", "raw")

    keyid: str
    """Hex SHA-256 of the SPKI DER: the fingerprint people compare, and the keyid of signatures."""
    raw: bytes
    """The 32 bytes of RFC 8032."""

    def __init__(self, raw: bytes) -> None:
        """Key from its 32 bytes.

        Raises:
            KeyringError: CF-KEYS-030: not 32 bytes.
            WeakKeyError: CF-KEYS-031: of low order, or y is not reduced.
        """
        if len(raw) != RAW_BYTES:
            _refuse_key()
        if raw in LOW_ORDER or (int.from_bytes(raw, "little") & (_SIGN_BIT - 1)) >= _PRIME:
            raise WeakKeyError(
                "the public key is of low order or not canonically encoded",
                code="CF-KEYS-031",
                where=sha256_hex(_SPKI_PREFIX + raw),
                hint="anyone can sign for such a key: do not trust it, ask its owner for another",
            )
        self._key = Ed25519PublicKey.from_public_bytes(raw)
        self.raw = raw
        self.keyid = sha256_hex(_SPKI_PREFIX + raw)

    @classmethod
    def from_spki(cls, der: bytes) -> Self:
        """Key from its SubjectPublicKeyInfo DER.

        Raises:
            KeyringError: CF-KEYS-030: not the SPKI of an Ed25519 key.
            WeakKeyError: CF-KEYS-031: of low order, or y is not reduced.
        """
        if len(der) != _SPKI_BYTES or not der.startswith(_SPKI_PREFIX):
            _refuse_key()
        return cls(der[len(_SPKI_PREFIX) :])

    @classmethod
    def from_text(cls, text: object) -> Self:
        """Key from the base64 of its SPKI DER, as evidence spells it: in the one spelling there is.

        Raises:
            KeyringError: CF-KEYS-030: no such text.
            WeakKeyError: CF-KEYS-031: of low order, or y is not reduced.
        """
        if type(text) is not str or len(text) != _SPKI_TEXT or not text.isascii():
            _refuse_key()
        try:
            der = binascii.a2b_base64(text)
        except ValueError:
            _refuse_key()
        if binascii.b2a_base64(der, newline=False).decode() != text:
            _refuse_key()
        return cls.from_spki(der)

    @property
    def spki(self) -> bytes:
        """SubjectPublicKeyInfo DER, 44 bytes."""
        return _SPKI_PREFIX + self.raw

    def verify(self, sig: bytes, data: bytes) -> bool:
        """Whether ``sig`` is this key's signature of ``data``; R of low order never is."""
        if len(sig) != SIGNATURE_BYTES or sig[:RAW_BYTES] in LOW_ORDER:
            return False
        try:
            self._key.verify(sig, data)
        except InvalidSignature:
            return False
        return True

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PublicKey) and self.raw == other.raw

    def __hash__(self) -> int:
        return hash(self.raw)

    def __repr__(self) -> str:
        return f"PublicKey({self.keyid})"

    def __reduce__(self) -> tuple[type[PublicKey], tuple[bytes]]:
        return PublicKey, (self.raw,)


class SigningKey:
    """An Ed25519 private key that shows nothing but its fingerprint."""

    __slots__ = ("_private", "public")

    public: PublicKey

    def __init__(self, private: Ed25519PrivateKey) -> None:
        self._private = private
        self.public = PublicKey(private.public_key().public_bytes_raw())

    @classmethod
    def generate(cls) -> Self:
        """A fresh key that exists in this process only."""
        return cls(Ed25519PrivateKey.generate())

    @property
    def keyid(self) -> str:
        """Hex SHA-256 of the public key's SPKI DER."""
        return self.public.keyid

    @property
    def spki(self) -> bytes:
        """SubjectPublicKeyInfo DER of the public key."""
        return self.public.spki

    def sign(self, data: bytes) -> bytes:
        """Signature of 64 bytes (pure Ed25519)."""
        return self._private.sign(data)

    def __repr__(self) -> str:
        return f"SigningKey({self.keyid})"

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        # Frameworks copy configuration that holds a handler; a key has no state to copy.
        return self

    def __reduce__(self) -> NoReturn:
        raise TypeError("a SigningKey cannot be pickled: the private key stays in this process")


def fingerprint(public_key: PublicKey | SigningKey | Ed25519PublicKey | bytes) -> str:
    """Hex SHA-256 of the SPKI DER of a public key (bytes are taken as that DER).

    Raises:
        KeyringError: CF-KEYS-030, CF-KEYS-031: as ``PublicKey.from_spki``.
    """
    if isinstance(public_key, (PublicKey, SigningKey)):
        return public_key.keyid
    if isinstance(public_key, Ed25519PublicKey):
        return PublicKey(public_key.public_bytes_raw()).keyid
    return PublicKey.from_spki(public_key).keyid


def sha256_hex(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _refuse_key() -> NoReturn:
    raise KeyringError(
        "not an Ed25519 public key in SPKI DER form",
        code="CF-KEYS-030",
        hint="openssl pkey -pubout -outform DER writes this form",
    )
