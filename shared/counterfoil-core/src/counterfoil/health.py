"""Looks at everything recording depends on, before somebody needs the record: for ``counterfoil doctor``.

Nothing is made or changed, no framework is imported, and a check that fails hides no other.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import site
import stat
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

from counterfoil import keys, locking, plugins, settings, switches
from counterfoil._version import __version__
from counterfoil.bundles.form import is_bundle
from counterfoil.environment import clock, distributions
from counterfoil.errors import CounterfoilError
from counterfoil.places import bucket_of, is_bucket
from counterfoil.stores import FolderStore, open_store
from counterfoil.stores.s3.pushing import backlog_of
from counterfoil.stores.s3.spool import spools

__all__ = ["FAIL", "OK", "WARN", "Check", "examine"]

OK: Final = "ok"
WARN: Final = "warn"
FAIL: Final = "fail"

_LITTLE: Final = 100 << 20
_SLOW: Final = 0.05
_SHARED: Final = frozenset(
    {"9p", "afs", "ceph", "cifs", "fuse.sshfs", "gfs2", "lustre", "nfs", "nfs4", "smb3", "smbfs"}
)


@dataclass(frozen=True, slots=True)
class Check:
    """One thing looked at: ``status`` is ok, warn or fail; ``hint`` says what to do about the last two."""

    name: str
    status: str
    message: str
    hint: str | None = None


def examine(evidence: str | None = None) -> list[Check]:
    """All checks, in an order that people read: the machine first, the evidence last."""
    found: list[Check] = []
    parts: dict[str, Callable[[], Iterator[Check]]] = {
        "machine": _machine,
        "packages": _packages,
        "clock": _clock,
        "home": _home,
        "keys": _keys,
        "plugins": _plugins,
        "settings": _start,
        "spool": _spools,
        "evidence": lambda: _evidence(evidence),
    }
    for name, part in parts.items():
        try:
            found.extend(part())
        except CounterfoilError as exc:
            where = f" ({exc.where})" if exc.where else ""
            found.append(Check(name, FAIL, f"{exc.code} {exc.message}{where}", exc.hint))
        except OSError as exc:
            where = f" ({exc.filename})" if exc.filename else ""
            found.append(Check(name, FAIL, f"{exc.strerror}{where}", "check the path"))
    return found


def _machine() -> Iterator[Check]:
    told = f"Python {sys.version.split()[0]} on {sys.platform}"
    if sys.platform.startswith("linux") or sys.platform == "darwin":
        yield Check("machine", OK, told)
    else:
        yield Check("machine", WARN, told, "tested on Linux; here it is best effort")


def _packages() -> Iterator[Check]:
    installed = {name: number for name, number, _ in distributions.find() if name.startswith("counterfoil")}
    other = {name: number for name, number in installed.items() if number != __version__}
    told = ", ".join(f"{name} {number}" for name, number in installed.items()) or __version__
    if other:
        wrong = " ".join(f'"{name}=={__version__}"' for name in other)
        yield Check("packages", FAIL, f"not of one version: {told}", f"pip install {wrong}")
    else:
        yield Check("packages", OK, told)


def _clock() -> Iterator[Check]:
    found = clock.capture()
    if found["source"] == "unknown":
        yield Check("clock", OK, "this system does not say whether the clock is set by a time server")
    elif found["synchronised"]:
        yield Check("clock", OK, f"synchronised, at most {found['max_error']} us off")
    else:
        hint = "times in the log are this machine's word: run a time service"
        yield Check("clock", WARN, "the kernel does not know of a time server", hint)


def _home() -> Iterator[Check]:
    path = keys.home()
    if not path.exists():
        yield Check("home", OK, f"{path} is not there yet: the first recording makes it")
        return
    keys.load_identity()  # raises for a home that others can write into
    if not os.access(path, os.W_OK | os.X_OK):
        yield Check(
            "home", FAIL, f"{path} cannot be written", "give it back to this user, or set COUNTERFOIL_HOME"
        )
        return
    yield Check("home", OK, str(path))
    yield from _disk("home", path)
    took = _sync_time(path)
    told = f"a small write is on disk after {took * 1000:.1f} ms"
    if took > _SLOW:
        yield Check("sync", WARN, told, "durability=call makes every call wait that long")
    else:
        yield Check("sync", OK, told)


def _keys() -> Iterator[Check]:
    ring = keys.Keyring.load()
    identity = keys.load_identity()
    heads = keys.remembered_heads()
    if identity is None:
        yield Check("identity", OK, "none yet: the first recording, or `counterfoil init`, makes one")
    elif ring.trusts(identity.keyid):
        yield Check("identity", OK, identity.keyid)
    else:
        hint = f"counterfoil keys pin {identity.keyid}"
        yield Check("identity", FAIL, f"{identity.keyid} is not pinned by its own home", hint)
    yield Check("keyring", OK, f"{len(ring.entries())} pinned, {len(heads)} logs remembered")
    keys.load_secret()


def _plugins() -> Iterator[Check]:
    found = plugins.loaded()
    adapters = found.instrumentations()
    for one in found.plugins:
        yield Check("plugin", OK, f"{one.name}: {one.distribution} {one.version}".rstrip())
    for adapter in adapters:
        yield _adapter(adapter.name, adapter.target, adapter.modes)
    for broken in found.broken:
        hint = "mend or uninstall it, or leave it out with COUNTERFOIL_PLUGINS"
        yield Check("plugin", FAIL, f"{broken.name}: {broken.reason}", hint)
    if not adapters:
        yield Check(
            "adapter",
            WARN,
            "no adapter is installed: nothing records itself",
            'pip install "counterfoil[langchain]"',
        )


def _adapter(name: str, target: str, modes: tuple[str, ...]) -> Check:
    package = target.partition(".")[0]
    if importlib.util.find_spec(package) is None:
        return Check("adapter", OK, f"{name}: {package} is not installed")
    try:
        number = version(package.replace("_", "-"))
    except PackageNotFoundError:
        number = "of unknown version"
    return Check("adapter", OK, f"{name}: {package} {number}, {' '.join(modes)}")


def _start() -> Iterator[Check]:
    found = settings.load()
    told = f"mode {found.mode}, durability {found.durability}, evidence {found.evidence}"
    modes = {mode for one in plugins.loaded().instrumentations() for mode in one.modes}
    if found.mode != "observe" and found.mode not in modes:
        yield Check("settings", FAIL, told, f"no installed adapter can {found.mode}: use observe")
    else:
        yield Check("settings", OK, told)
    folders = {*site.getsitepackages(), site.getusersitepackages()}
    if any(Path(folder, "counterfoil-autostart.pth").is_file() for folder in folders):
        value = os.environ.get("COUNTERFOIL", "")
        state = "on" if value.strip().lower() not in switches.OFF else "off"
        yield Check("start", OK, f"COUNTERFOIL=E python app.py records; here it is {state}")
    else:
        hint = "`counterfoil run` and counterfoil.install() work; reinstall counterfoil-core for the variable"
        yield Check(
            "start", WARN, "no start-up file in this interpreter: the variable COUNTERFOIL does nothing", hint
        )


def _evidence(named: str | None) -> Iterator[Check]:
    place = settings.load(evidence=named).evidence
    if is_bundle(place):
        hint = "name the folder that a run wrote; counterfoil verify judges a bundle"
        yield Check("evidence", FAIL, f"{place} is a bundle: nothing records into one", hint)
        return
    if is_bucket(place):
        yield from _bucket(place)
        return
    store = open_store(place)
    root = store.root
    if not root.exists():
        above = next((one for one in root.parents if one.exists()), Path(root.anchor))
        if os.access(above, os.W_OK | os.X_OK):
            yield Check("evidence", OK, f"{root} is not there yet: the first recording makes it")
            yield from _disk("evidence", above)
        else:
            yield Check(
                "evidence", FAIL, f"{root} cannot be made", f"{above} is not writable: name another folder"
            )
        return
    logs = list(store.logs())
    live = sum(_live(store, name) for name in logs)
    told = f"{root}: {len(logs)} logs, {live} with a writer"
    mode = root.stat().st_mode
    if not os.access(root, os.W_OK | os.X_OK):
        yield Check("evidence", FAIL, told, "it cannot be written: give it back to this user")
    elif mode & (stat.S_IRWXG | stat.S_IRWXO):
        yield Check("evidence", WARN, told, f"others can look into it: chmod 700 {root}")
    else:
        yield Check("evidence", OK, told)
    yield from _disk("evidence", root)


def _bucket(place: str) -> Iterator[Check]:
    """Whether the bucket answers, and can keep what it gets; what is on its way there is told of every place."""
    bucket = bucket_of(place)
    state = bucket.state()
    if not state.exists:
        yield Check("evidence", FAIL, f"{place}: there is no such bucket", f"counterfoil init {place}")
    elif state.versioned is False or state.locking is False:
        hint = "nothing keeps objects there: `counterfoil init` makes a bucket with Object Lock"
        yield Check("evidence", FAIL, f"{place}: no versioning or no Object Lock", hint)
    elif state.mode is None and bucket.options.retain is None:
        hint = "set s3_retain, or a default retention of the bucket"
        yield Check("evidence", WARN, f"{place}: objects are not locked", hint)
    else:
        yield Check("evidence", OK, f"{place}: versions are kept and locked")


def _spools() -> Iterator[Check]:
    """What waits on this machine for a bucket."""
    for found in spools():
        left = backlog_of(found)
        if left.segments > left.live or left.error:
            told = f"{found.name}: {left}" + (f"; last: {left.error}" if left.error else "")
            yield Check("spool", WARN, told, f"counterfoil push; what waits is in {found.root}")
        elif left.segments:
            yield Check("spool", OK, f"{found.name}: {left}; its writer lives")
        else:
            yield Check("spool", OK, f"{found.name}: nothing waits")
        for one in left.stranded:
            told = f"{found.name}: another writer went on with log {one.log} from segment {one.segment}"
            hint = f"{one.segments} segments of it stay in {found.root / one.log}"
            yield Check("spool", FAIL, told, hint)


def _live(store: FolderStore, name: str) -> bool:
    identity = keys.load_identity()
    return identity is not None and locking.is_live(f"{identity.keyid}/{name}")


def _disk(name: str, path: Path) -> Iterator[Check]:
    usage = shutil.disk_usage(path)
    told = f"{usage.free / (1 << 30):.1f} GiB free"
    if usage.free < _LITTLE:
        yield Check(f"{name} disk", FAIL, told, "a full disk is a hole in the record: make room")
    else:
        yield Check(f"{name} disk", OK, told)
    kind = _file_system(path)
    if kind in _SHARED:
        hint = "locks and syncs of shared file systems are weaker: keep it on a disk of this machine"
        yield Check(f"{name} disk", WARN, f"{kind} file system", hint)


def _file_system(path: Path) -> str:
    """Type of the file system that holds ``path``, as Linux lists it; empty elsewhere."""
    best, kind = "", ""
    whole = str(path.resolve())
    try:
        lines = Path("/proc/self/mounts").read_text("utf-8", "replace").splitlines()
    except OSError:
        return ""
    for line in lines:
        fields = line.split(" ")
        if len(fields) < 3:
            continue
        point = fields[1].replace("\\040", " ")
        if (whole == point or whole.startswith(point.rstrip("/") + "/")) and len(point) >= len(best):
            best, kind = point, fields[2]
    return kind


def _sync_time(folder: Path) -> float:
    """Median of five small synced writes into a file that is gone afterwards."""
    sync: Any = getattr(os, "fdatasync", os.fsync)
    times = []
    with tempfile.TemporaryFile(dir=folder, prefix=".doctor.") as file:
        for _ in range(5):
            began = time.perf_counter()
            os.write(file.fileno(), b"x" * 512)
            sync(file.fileno())
            times.append(time.perf_counter() - began)
    return sorted(times)[2]
