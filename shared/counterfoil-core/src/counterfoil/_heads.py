"""The last checkpoint seen of each log, kept outside evidence, so that a log put back in time is noticed.

One small file per log under the home: ``heads/<first 32 hex digits of SHA-256(origin)>.json``.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NoReturn

from counterfoil import _folders, _home, _locks, canonical
from counterfoil.errors import CanonicalError, KeyringError

_VERSION: Final = 0
_MAX_BYTES: Final = 16 * 1024
_MAX_TEXT: Final = 4096
_MALFORMED: Final = "CF-KEYS-040"
_ROOT: Final = re.compile(r"[0-9a-f]{64}")
_FILE: Final = re.compile(r"[0-9a-f]{32}\.json")
_MEMBERS: Final = {"evidence", "offset", "origin", "root", "segment", "size", "version"}


@dataclass(frozen=True, slots=True)
class Head:
    """A checkpoint seen: the tree head (``root`` in hex), and where its note ends in the evidence."""

    origin: str
    size: int
    root: str
    evidence: str
    segment: int | str
    offset: int


def remember_head(
    origin: str,
    *,
    size: int,
    root: bytes | str,
    evidence: str | os.PathLike[str],
    segment: int | str,
    offset: int,
    sync: bool = True,
    patience: float | None = None,
) -> Head:
    """Keeps a head (root as 32 bytes or in hex) unless a larger one is kept; returns the one kept now.

    ``sync=False`` leaves the moment of writing to the operating system: a crash may forget the newest head.
    ``patience``: seconds to wait for another process that holds the home's lock, ten unless given.

    Raises:
        KeyringError: CF-KEYS-041: an argument cannot be kept; CF-KEYS-042: another root of the same size is
            kept, which means two histories; CF-KEYS-040: what is kept is malformed; and those of the home.
    """
    text = root if isinstance(root, str) else root.hex()
    head = Head(origin, size, text, os.fspath(evidence), segment, offset)
    if not _fits(head):
        raise KeyringError(
            "this head cannot be kept", code="CF-KEYS-041", where=origin, hint="check its members"
        )
    folder = _home.home() / "heads"
    _home.make_private_dir(folder)
    path = _path(origin)
    with _locks.locked(seconds=patience):
        old = _read(path)
        if old is not None:
            if old.size == size and old.root != text:
                raise KeyringError(
                    f"another root of size {size} is remembered for this log",
                    code="CF-KEYS-042",
                    where=origin,
                    hint="the log has two histories: keep both copies of the evidence",
                )
            if old.size > size or old == head:
                return old
        _home.write_file(path, _bytes(head), sync=sync)
    return head


def remembered_head(origin: str) -> Head | None:
    """The head kept for one log.

    Raises:
        KeyringError: CF-KEYS-040: the file is malformed; and those of the home.
    """
    _home.check_home()
    return _read(_path(origin))


def remembered_heads(*, damaged: set[str] | None = None) -> dict[str, Head]:
    """All heads kept, by origin; with ``damaged`` the names of malformed files are put there and do not raise.

    Raises:
        KeyringError: CF-KEYS-040: a file is malformed; and those of the home.
    """
    if not _home.check_home():
        return {}
    folder = _home.home() / "heads"
    try:
        names = sorted(os.listdir(folder))
    except FileNotFoundError:
        return {}
    except OSError as exc:
        _home.refuse_io("cannot read the remembered heads", folder, exc)
    heads = {}
    for name in names:
        # Other names are what a killed process left of a file it was writing.
        if _FILE.fullmatch(name):
            try:
                head = _read(folder / name)
            except KeyringError as exc:
                if damaged is None or exc.code != _MALFORMED:
                    raise
                damaged.add(name)
                continue
            if head is not None:
                heads[head.origin] = head
    return heads


def sweep_heads() -> None:
    """Remove what killed processes left of heads they were writing."""
    _folders.sweep(_home.home() / "heads")


def forget_head(origin: str) -> bool:
    """Forgets the head of one log; False when none was kept.

    Raises:
        KeyringError: CF-KEYS-008, and those of the home.
    """
    if not _home.check_home():
        return False
    path = _path(origin)
    try:
        path.unlink()
    except FileNotFoundError:
        return False
    except OSError as exc:
        _home.refuse_io("cannot forget the head", path, exc)
    return True


def head_name(origin: str) -> str:
    """The name of the file that keeps a log's head."""
    return f"{_home.name_of(origin)}.json"


def _path(origin: str) -> Path:
    return _home.home() / "heads" / head_name(origin)


def _fits(head: Head) -> bool:
    return (
        head.origin != ""
        and _is_text(head.origin)
        and _is_text(head.evidence)
        and _ROOT.fullmatch(head.root) is not None
        and _is_count(head.size)
        and _is_count(head.offset)
        and (_is_count(head.segment) or _is_text(head.segment))
    )


def _is_count(value: object) -> bool:
    return type(value) is int and 0 <= value <= canonical.MAX_INTEGER


def _is_text(value: object) -> bool:
    if not isinstance(value, str) or len(value) > _MAX_TEXT:
        return False
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        # A path whose name is not UTF-8.
        return False
    return True


def _bytes(head: Head) -> bytes:
    return canonical.dumps_record(
        {
            "evidence": head.evidence,
            "offset": head.offset,
            "origin": head.origin,
            "root": head.root,
            "segment": head.segment,
            "size": head.size,
            "version": _VERSION,
        }
    )


def _read(path: Path) -> Head | None:
    data = _home.read_file(path, limit=_MAX_BYTES, secret=False)
    if data is None or not data.strip(b"\0"):
        return None  # what a power failure leaves of a file that was replaced and not synced
    try:
        content = canonical.loads_canonical(data, max_depth=1, max_bytes=_MAX_BYTES)
    except CanonicalError as exc:
        _refuse(path, exc.message)
    head = _head_of(content)
    if head is None or path != _path(head.origin):
        _refuse(path, "its members do not fit")
    return head


def _head_of(content: Any) -> Head | None:
    if not isinstance(content, dict) or set(content) != _MEMBERS:
        return None
    if type(content["version"]) is not int or content["version"] != _VERSION:
        return None
    texts = (content["origin"], content["evidence"], content["root"])
    if not all(isinstance(text, str) for text in texts):
        return None
    head = Head(**{name: content[name] for name in _MEMBERS - {"version"}})
    return head if _fits(head) else None


def _refuse(path: Path, why: str) -> NoReturn:
    raise KeyringError(
        f"a remembered head is malformed: {why}",
        code=_MALFORMED,
        where=str(path),
        hint="compare the log with its other copies, then remove the file",
    ) from None
