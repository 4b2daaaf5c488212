"""The private folder of one user (``$COUNTERFOIL_HOME``): identity key, keyring, remembered heads, locks.

Nothing in here is evidence, and nothing of it ever goes into evidence. The place is fixed when the
interpreter starts, so that an application that changes HOME later cannot end up with a second identity.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import stat
from pathlib import Path
from typing import Final, NoReturn

from platformdirs import user_data_dir

from counterfoil._files import read_up_to
from counterfoil._folders import make_folders, sync_folder
from counterfoil.errors import KeyringError

_POSIX: Final = os.name == "posix"
_OTHERS_WRITE: Final = 0o022
_OTHERS_ANY: Final = 0o077


def _resolve() -> Path | None:
    text = os.environ.get("COUNTERFOIL_HOME") or user_data_dir("counterfoil", appauthor=False)
    text = os.path.expanduser(text)
    if text.startswith("~"):
        return None
    try:
        return Path(os.path.abspath(text))
    except OSError:
        return None


_home = _resolve()


def home() -> Path:
    """The private folder; it need not exist yet.

    Raises:
        KeyringError: CF-KEYS-001: the user has no home directory and ``$COUNTERFOIL_HOME`` is not set.
    """
    if _home is None:
        raise KeyringError(
            "there is no home directory for the identity key",
            code="CF-KEYS-001",
            hint="set COUNTERFOIL_HOME to a private folder",
        )
    return _home


def set_home(path: str | os.PathLike[str] | None) -> None:
    """Another private folder for this process (tests, the command line); None resolves it anew."""
    global _home
    _home = _resolve() if path is None else Path(os.path.abspath(os.path.expanduser(path)))


def lock_path(origin: str) -> Path:
    """Where the writer of the log ``origin`` holds its lock; the file need not exist."""
    return home() / "locks" / f"{name_of(origin)}.lock"


def prepare_lock(origin: str) -> Path:
    """``lock_path`` with its folder made, for a writer about to open it.

    Raises:
        KeyringError: CF-KEYS-002 to 004: the folder cannot be made or is not private.
    """
    path = lock_path(origin)
    make_private_dir(path.parent)
    return path


def name_of(origin: str) -> str:
    """File name stem for a log: origins may hold any character."""
    return hashlib.sha256(origin.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def make_private_dir(path: Path) -> None:
    """The home, or a folder in it, made with mode 0700 and checked.

    Raises:
        KeyringError: CF-KEYS-002 to 004.
    """
    top = home()
    try:
        make_folders(top)
        if path != top:
            make_folders(path)
    except (FileExistsError, NotADirectoryError):
        _refuse_not_folder(path)
    except OSError as exc:
        refuse_io("cannot make the folder", path, exc, code="CF-KEYS-002")
    check_home()


def check_home() -> bool:
    """Whether the home exists; then it is a folder, ours, and nobody else can write into it.

    Raises:
        KeyringError: CF-KEYS-002 to 004.
    """
    path = home()
    try:
        status = path.stat()
    except FileNotFoundError:
        return False
    except NotADirectoryError:
        _refuse_not_folder(path)
    except OSError as exc:
        refuse_io("cannot look at the folder", path, exc, code="CF-KEYS-002")
    if not stat.S_ISDIR(status.st_mode):
        _refuse_not_folder(path)
    if _POSIX and (status.st_mode & _OTHERS_WRITE or not _owner_is_trusted(status)):
        raise KeyringError(
            "others can replace the files in the folder of the identity key",
            code="CF-KEYS-004",
            where=str(path),
            hint=f"make it yours alone: chmod 700 {path}",
        )
    return True


def read_file(path: Path, *, limit: int, secret: bool) -> bytes | None:
    """Bytes of a file in the home, or None when there is none.

    ``secret`` files must be readable by their owner alone, others at least not writable by anybody else.

    Raises:
        KeyringError: CF-KEYS-005 to 008.
    """
    try:
        # Without O_NONBLOCK a named pipe put in the way would hang the application.
        fd = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    except FileNotFoundError:
        return None
    except OSError as exc:
        refuse_io("cannot read the file", path, exc)
    try:
        _check_file(path, os.fstat(fd), limit=limit, secret=secret)
        data = read_up_to(fd, limit + 1)
    except OSError as exc:
        refuse_io("cannot read the file", path, exc)
    finally:
        os.close(fd)
    if len(data) > limit:
        _refuse_file(path)
    return data


def _check_file(path: Path, status: os.stat_result, *, limit: int, secret: bool) -> None:
    if not stat.S_ISREG(status.st_mode) or status.st_size > limit:
        _refuse_file(path)
    if not _POSIX:
        return
    if status.st_mode & (_OTHERS_ANY if secret else _OTHERS_WRITE):
        raise KeyringError(
            "the permissions of the file are too wide" if secret else "others can write the file",
            code="CF-KEYS-006",
            where=str(path),
            hint=f"chmod 600 {path}" + (", and make a new key if others may have read it" if secret else ""),
        )
    if not _owner_is_trusted(status):
        raise KeyringError(
            f"the file belongs to another user (uid {status.st_uid})",
            code="CF-KEYS-007",
            where=str(path),
            hint="run as that user, or set COUNTERFOIL_HOME to a folder of your own",
        )


def _owner_is_trusted(status: os.stat_result) -> bool:
    # Root can replace any file anyway.
    return status.st_uid in (0, os.geteuid())


def write_file(path: Path, data: bytes, *, sync: bool = True) -> None:
    """Puts ``data`` at ``path`` in one step, mode 0600.

    Raises:
        KeyringError: CF-KEYS-008.
    """
    try:
        temporary = _write_temporary(path, data, sync=sync)
        try:
            os.replace(temporary, path)
        except OSError:
            temporary.unlink(missing_ok=True)
            raise
        if sync:
            sync_folder(path.parent)
    except OSError as exc:
        refuse_io("cannot write the file", path, exc)


def create_file(path: Path, data: bytes, *, sync: bool = True) -> bool:
    """As ``write_file``, but False when ``path`` exists already: of several processes one wins.

    Raises:
        KeyringError: CF-KEYS-008.
    """
    try:
        temporary = _write_temporary(path, data, sync=sync)
        try:
            os.link(temporary, path)
        except FileExistsError:
            return False
        except OSError:
            # A file system without hard links. Callers hold the lock of the home, so looking first is enough.
            if os.path.lexists(path):
                return False
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)
        if sync:
            sync_folder(path.parent)
            sync_folder(path.parent.parent)  # whoever made the folder may have been killed before this
    except OSError as exc:
        refuse_io("cannot write the file", path, exc)
    return True


def _write_temporary(path: Path, data: bytes, *, sync: bool) -> Path:
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    fd = os.open(temporary, flags, 0o600)
    try:
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(fd, view) :]
            if sync:
                os.fsync(fd)
        finally:
            os.close(fd)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    return temporary


def _refuse_not_folder(path: Path) -> NoReturn:
    raise KeyringError(
        "a file is in the way of the folder for the identity key",
        code="CF-KEYS-003",
        where=str(path),
        hint="move the file away, or set COUNTERFOIL_HOME to another folder",
    ) from None


def _refuse_file(path: Path) -> NoReturn:
    raise KeyringError(
        "not a regular file of the expected size",
        code="CF-KEYS-005",
        where=str(path),
        hint="move it away",
    )


def refuse_io(what: str, path: Path, exc: OSError, *, code: str = "CF-KEYS-008") -> NoReturn:
    raise KeyringError(
        f"{what}: {exc.strerror or type(exc).__name__}",
        code=code,
        where=str(path),
        hint="check who may use it, or set COUNTERFOIL_HOME to another folder",
    ) from exc
