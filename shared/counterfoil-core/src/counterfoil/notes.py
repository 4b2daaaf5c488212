"""Signed notes and checkpoints: the head of a log as a few lines of text that any transparency tool reads.

A note is text, an empty line, and signature lines. Ed25519 (type 0x01) is signed and verified here;
signatures of other types and of unknown keys are kept and ignored. Whatever would not write back to the exact
bytes that were read is refused.

Source: C2SP signed-note and tlog-checkpoint (https://c2sp.org).
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from typing import Final, NoReturn, Self, TypeAlias

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from counterfoil._ed25519 import PublicKey, SigningKey
from counterfoil.errors import NoteError

__all__ = [
    "MAX_NOTE",
    "Check",
    "Checkpoint",
    "Note",
    "NoteSignature",
    "in_one_form",
    "parse_own_checkpoint",
    "sign_note",
    "vkey",
]

MAX_NOTE: Final = 1_000_000
MAX_SIGNATURES: Final = 100
MAX_SIZE: Final = 2**64 - 1
_ED25519: Final = b"\x01"
_KEY_ID_BYTES: Final = 4
_ROOT_BYTES: Final = 32
_DASH: Final = "\u2014 "
Check: TypeAlias = Callable[[PublicKey, bytes, bytes], bool]
"""Says whether a signature over a message is a key's, in the place of ``PublicKey.verify``."""
_CONTROL: Final = re.compile(r"[\x00-\x09\x0b-\x1f]")
_DECIMAL: Final = re.compile(r"0|[1-9][0-9]{0,19}")
_NAME: Final = re.compile("[^\\s+\ud800-\udfff]+")
"""A lone surrogate has no UTF-8 form: such a name can stand in no note."""
_DSSE_PREFIX: Final = "DSSEv1 "


@dataclass(frozen=True, slots=True)
class NoteSignature:
    """One signature line: key name, the four bytes that pick the key, and the signature itself."""

    name: str
    key_id: bytes
    signature: bytes

    def line(self) -> str:
        """The line as it stands in the note, without its newline."""
        return f"{_DASH}{self.name} {_base64(self.key_id + self.signature)}"


@dataclass(frozen=True, slots=True)
class Note:
    """A note as read; its text means nothing before ``verify``."""

    text: str
    signatures: tuple[NoteSignature, ...]

    @classmethod
    def parse(cls, text: str | bytes) -> Self:
        """Note from its text.

        Raises:
            NoteError: CF-NOTE-001: too large or not UTF-8; CF-NOTE-002: control characters; CF-NOTE-003: no
                signature lines; CF-NOTE-004: a malformed signature line; CF-NOTE-005: too many of them.
        """
        whole = _text_of(text)
        body, separator, tail = whole.rpartition("\n\n")
        if not separator or not body or not tail.endswith("\n"):
            _refuse("003", "a note is text, an empty line, and signature lines", hint=_DAMAGED)
        lines = tail[:-1].split("\n")
        if len(lines) > MAX_SIGNATURES:
            _refuse("005", f"the note has more than {MAX_SIGNATURES} signatures", hint=_DAMAGED)
        signatures = tuple(_parse_line(line, number) for number, line in enumerate(lines, 1))
        return cls(body + "\n", signatures)

    def to_text(self) -> str:
        """The note as text: exactly what was parsed."""
        return self.text + "\n" + "".join(signature.line() + "\n" for signature in self.signatures)

    def verify(self, vkeys: Iterable[str], *, check: Check | None = None) -> list[NoteSignature]:
        """The signatures made by these keys, one per key, in the order of the note.

        ``check`` takes the place of ``PublicKey.verify``: somebody may have looked at them before.

        Raises:
            NoteError: CF-NOTE-010: a ``vkey`` is malformed or not Ed25519; CF-NOTE-011: no known key signed;
                CF-NOTE-012: a known key's signature does not verify.
            WeakKeyError: CF-KEYS-031: a ``vkey`` must not be trusted.
        """
        known: dict[tuple[str, bytes], PublicKey] = {}
        for text in vkeys:
            name, key_id, key = _parse_vkey(text)
            if known.setdefault((name, key_id), key) != key:
                _refuse("010", "two keys share one name and key id", where=name, hint="keep one of them")
        message = self.text.encode("utf-8")
        verified: dict[tuple[str, bytes], NoteSignature] = {}
        for signature in self.signatures:
            mark = (signature.name, signature.key_id)
            if mark not in known:
                continue
            key = known[mark]
            if not (
                key.verify(signature.signature, message)
                if check is None
                else check(key, signature.signature, message)
            ):
                _refuse(
                    "012", "a signature does not verify", where=signature.name, hint="the note was changed"
                )
            verified.setdefault(mark, signature)
        if not verified:
            _refuse(
                "011", "no known key signed the note", hint="pin the signer's key, obtained from its owner"
            )
        return list(verified.values())


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The head of a log: ``origin`` names it, ``root`` is the RFC 6962 root over its ``size`` entries."""

    origin: str
    size: int
    root: bytes
    extensions: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str) -> Self:
        """Checkpoint from the text of a note.

        Raises:
            NoteError: CF-NOTE-020: not the lines origin, size, root and non-empty extensions.
        """
        lines = text.split("\n")
        if len(lines) < 4 or lines.pop() != "":
            _refuse("020", "a checkpoint has the lines origin, size and root", hint=_DAMAGED)
        origin, size, root, *extensions = lines
        if not _DECIMAL.fullmatch(size):
            _refuse("020", "the size of a checkpoint is a decimal number", hint=_DAMAGED)
        checkpoint = cls(origin, int(size), _decode(root, code="020"), tuple(extensions))
        if checkpoint.to_text() != text:
            _refuse("020", "the checkpoint is not in its one text form", hint=_DAMAGED)
        return checkpoint

    def to_text(self) -> str:
        """The text to sign.

        Raises:
            NoteError: CF-NOTE-020: a member cannot be written.
        """
        if not 0 <= self.size <= MAX_SIZE or len(self.root) != _ROOT_BYTES:
            _refuse("020", "the size or root of the checkpoint is out of range", hint="check its members")
        # "DSSEv1 " begins what a DSSE signature covers: one key must never sign a text of both kinds.
        if self.origin.startswith(_DSSE_PREFIX):
            _refuse("020", "an origin may not begin as a DSSE message does", hint="choose another origin")
        lines = (self.origin, str(self.size), _base64(self.root), *self.extensions)
        if not all(lines) or any(_CONTROL.search(line) or "\n" in line for line in lines):
            _refuse(
                "020", "a line of the checkpoint is empty or has control characters", hint="check its members"
            )
        return "".join(line + "\n" for line in lines)


def sign_note(text: str, name: str, private_key: SigningKey | Ed25519PrivateKey) -> str:
    """The note of ``text`` with one Ed25519 signature under the key name ``name``.

    Raises:
        NoteError: CF-NOTE-001, CF-NOTE-002: the text cannot be a note; CF-NOTE-006: nor the name a key name.
    """
    key = private_key if isinstance(private_key, SigningKey) else SigningKey(private_key)
    message = _text_of(text).encode("utf-8")
    if not text.endswith("\n") or text == "\n":
        _refuse("002", "the text of a note ends in a newline and is not empty", hint="add a newline")
    _check_name(name)
    signature = NoteSignature(name, _key_id(name, key.public), key.sign(message))
    return Note(text, (signature,)).to_text()


def vkey(name: str, public_key: PublicKey | Ed25519PublicKey) -> str:
    """The verifier key ``name+keyid+key`` that ``Note.verify`` and other note tools take.

    Raises:
        NoteError: CF-NOTE-006: not a key name.
        WeakKeyError: CF-KEYS-031: the key must not be trusted.
    """
    key = public_key if isinstance(public_key, PublicKey) else PublicKey(public_key.public_bytes_raw())
    _check_name(name)
    return f"{name}+{_key_id(name, key).hex()}+{_base64(_ED25519 + key.raw)}"


def parse_own_checkpoint(data: bytes, vkey: str, *, check: Check | None = None) -> Checkpoint:
    """Checkpoint from a note written by this library, accepted only in the one form it is written in.

    One signature line, named as the origin, no extensions, made by ``vkey``; ``check`` as in ``Note.verify``.

    Raises:
        NoteError: CF-NOTE-021: not the form this library writes; and those of ``Note`` and ``Checkpoint``.
        WeakKeyError: CF-KEYS-031.
    """
    note = Note.parse(data)
    if len(note.signatures) != 1:
        _refuse("021", "a log's own checkpoint has one signature", hint=_DAMAGED)
    note.verify((vkey,), check=check)
    return in_one_form(note)


def in_one_form(note: Note) -> Checkpoint:
    """Checkpoint of a note as a log holds it: no extensions, one signature, under the origin's name.

    Raises:
        NoteError: CF-NOTE-020: no checkpoint; CF-NOTE-021: another form.
    """
    checkpoint = Checkpoint.parse(note.text)
    if len(note.signatures) != 1 or checkpoint.extensions or checkpoint.origin != note.signatures[0].name:
        _refuse(
            "021", "a log's checkpoint has no extensions, one signature, made as its origin", hint=_DAMAGED
        )
    return checkpoint


_DAMAGED: Final = "the note is damaged or not written by a note tool"


def _text_of(text: str | bytes) -> str:
    try:
        data = text.encode("utf-8") if isinstance(text, str) else text
        whole = text if isinstance(text, str) else text.decode("utf-8")
    except UnicodeError:
        _refuse("001", "the note is not UTF-8", hint=_DAMAGED)
    if len(data) > MAX_NOTE:
        _refuse("001", f"the note is larger than {MAX_NOTE} bytes", hint=_DAMAGED)
    if _CONTROL.search(whole):
        _refuse("002", "the note has control characters", hint=_DAMAGED)
    return whole


def _parse_line(line: str, number: int) -> NoteSignature:
    where = f"signature line {number}"
    name, separator, text = line.removeprefix(_DASH).rpartition(" ")
    if not line.startswith(_DASH) or not separator or not _is_name(name):
        _refuse("004", "a signature line is a dash, a key name and base64", where=where, hint=_DAMAGED)
    blob = _decode(text, where=where)
    if len(blob) <= _KEY_ID_BYTES:
        _refuse("004", "a signature is too short", where=where, hint=_DAMAGED)
    return NoteSignature(name, blob[:_KEY_ID_BYTES], blob[_KEY_ID_BYTES:])


@lru_cache(maxsize=16)
def _parse_vkey(text: str) -> tuple[str, bytes, PublicKey]:
    # Base64 may hold a plus sign, names may not.
    name, _, rest = text.partition("+")
    key_id, _, encoded = rest.partition("+")
    blob = _decode(encoded, code="010", where=name)
    if not _is_name(name) or blob[:1] != _ED25519 or len(blob) != 33:
        _refuse("010", "not an Ed25519 verifier key", where=name, hint="it reads name+8 hex digits+base64")
    key = PublicKey(blob[1:])
    if key_id != _key_id(name, key).hex():
        _refuse("010", "the key id does not fit the key", where=name, hint="copy the verifier key again")
    return name, _key_id(name, key), key


def _key_id(name: str, key: PublicKey) -> bytes:
    return sha256(name.encode("utf-8") + b"\n" + _ED25519 + key.raw).digest()[:_KEY_ID_BYTES]


def _is_name(name: str) -> bool:
    return _NAME.fullmatch(name) is not None


def _check_name(name: str) -> None:
    if not _is_name(name) or _CONTROL.search(name):
        _refuse(
            "006",
            "a key name is well-formed, not empty, and has no space and no plus sign",
            hint="use the log's origin",
        )


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _decode(text: str, *, code: str = "004", where: str | None = None) -> bytes:
    try:
        data = base64.b64decode(text, validate=True)
    except ValueError:
        data = b""
    # Base64 can spell the same bytes in several ways; only one is accepted.
    if not data or _base64(data) != text:
        _refuse(code, "not standard base64", where=where, hint=_DAMAGED)
    return data


def _refuse(number: str, message: str, *, hint: str, where: str | None = None) -> NoReturn:
    raise NoteError(message, code=f"CF-NOTE-{number}", where=where, hint=hint) from None
