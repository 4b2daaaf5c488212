"""Appending durably: the writer against SQLite (WAL, synchronous=FULL) on one workload, in one run.

    python benchmarks/append_speed.py [--events 20000] [--rounds 5] [--json FILE]

Both get the same events (a record of some 400 bytes, every fourth with a new text of some KB) from one caller through
a queue, commit what arrived within 5 ms (1,024 events at most) and sync it. SQLite stores records and values under a
rowid with a unique index of digests, in three ways: values compressed one by one (zstd 3) and records as they are;
both compressed; and, of a workload whose values are compressed already, everything as it is. The writer does the same
in all three: chain, tree, streams of zstd 3, checkpoints, signatures. Bytes are compared with the same items
compressed as the writer compresses them and nothing around. Puts are timed at 1,000 events a second, against a bare
put into a queue that a thread empties.
"""

from __future__ import annotations

import abc
import argparse
import hashlib
import json
import os
import queue
import random
import sqlite3
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import zstandard

from counterfoil import digest, keys, log, records, segments
from counterfoil.stores import FolderStore
from counterfoil.writer import GROUP, WINDOW, Writer

Event = tuple[bytes, list[tuple[str, bytes]]]
"""A record, and the blobs it is the first to cite."""
_WORDS = (
    "agent ledger handoff river signed result value because before after table query answer model "
    "tool plan draft review number under while report search entry where which"
).split()


def workload(count: int, *, packed: bool = False) -> list[Event]:
    """Records of calls; every fourth brings a new text, or (``packed``) a compressed one."""
    chance = random.Random(7)
    zstd = zstandard.ZstdCompressor(level=segments.LEVEL)
    out: list[Event] = []
    ref: dict[str, Any] = {}
    for number in range(count):
        blobs = []
        if number % 4 == 0:
            text = f"{number}: {' '.join(chance.choices(_WORDS, k=chance.randrange(60, 900)))}".encode()
            text = zstd.compress(text) if packed else text
            sha256 = hashlib.sha256(text).hexdigest()
            blobs.append((sha256, text))
            ref = {
                "media": digest.MEDIA_BYTES if packed else digest.MEDIA_TEXT,
                "sha256": sha256,
                "size": len(text),
            }
        content = {
            "actor": "team/writer",
            "address": f"step:writer@{number}",
            "name": "small-1",
            "op": "custom",
        }
        content |= {"phase": "point", "request": ref}
        context = {
            "at": 1_790_000_000_000_000 + number * 137,
            "call": f"{number:032x}",
            "run": f"{number // 100:032x}",
        }
        out.append((records.build(content, context), blobs))
    return out


class Ours:
    """The real writer of a fresh log."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        context = {"durability": "group", "mode": "observe", "pid": 1, "version": "0"}
        self._writer = Writer(
            FolderStore(folder), keys.load_or_create_identity(), opening=lambda: (dict(context), [])
        )

    def put(self, event: Event) -> None:
        for sha256, data in event[1]:
            self._writer.blob(sha256, data)
        self._writer.entry(event[0])

    def flush(self) -> None:
        assert self._writer.flush()

    def close(self) -> int:
        self._writer.close()
        return sum(path.stat().st_size for path in self.folder.rglob("*.seg"))


class _Queued(abc.ABC):
    """One caller, one thread that commits groups."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def put(self, event: Event) -> None:
        self._queue.put(event)

    def flush(self) -> None:
        done = threading.Event()
        self._queue.put(done)
        done.wait()

    def _run(self) -> None:
        while True:
            group, waiting, until = [], None, time.perf_counter() + WINDOW
            while len(group) < GROUP:
                try:
                    found = self._queue.get(timeout=max(0.0, until - time.perf_counter()) if group else None)
                except queue.Empty:
                    break
                if found is None or isinstance(found, threading.Event):
                    waiting = found
                    break
                group.append(found)
            else:
                waiting = False
            self._commit(group)
            if waiting is None and len(group) < GROUP and self._closing:
                return
            if isinstance(waiting, threading.Event):
                waiting.set()

    _closing = False

    @abc.abstractmethod
    def _commit(self, group: list[Event]) -> None:
        """Store a group, durable when this returns."""

    def _stop(self) -> None:
        self._closing = True
        self._queue.put(None)
        self._thread.join()


class Sqlite(_Queued):
    """SQLite in WAL mode with synchronous=FULL; values are compressed one by one."""

    values, records = True, False

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        self.folder = folder
        self._file = sqlite3.connect(folder / "log.db", isolation_level=None, check_same_thread=False)
        self._file.execute("PRAGMA journal_mode=WAL")
        self._file.execute("PRAGMA synchronous=FULL")
        self._file.execute("CREATE TABLE record (id INTEGER PRIMARY KEY, data BLOB)")
        self._file.execute("CREATE TABLE blob (id INTEGER PRIMARY KEY, digest BLOB UNIQUE, data BLOB)")
        self._zstd = zstandard.ZstdCompressor(level=segments.LEVEL)
        super().__init__()

    def _commit(self, group: list[Event]) -> None:
        blobs = [
            (bytes.fromhex(name), self._zstd.compress(data) if self.values else data)
            for _, listed in group
            for name, data in listed
        ]
        rows = [(self._zstd.compress(body) if self.records else body,) for body, _ in group]
        self._file.execute("BEGIN IMMEDIATE")
        self._file.executemany("INSERT OR IGNORE INTO blob (digest, data) VALUES (?, ?)", blobs)
        self._file.executemany("INSERT INTO record (data) VALUES (?)", rows)
        self._file.execute("COMMIT")

    def close(self) -> int:
        self._stop()
        self._file.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        self._file.close()
        return sum(path.stat().st_size for path in self.folder.iterdir())


class SqliteAll(Sqlite):
    """Records are compressed too."""

    records = True


class SqlitePlain(Sqlite):
    """Everything is stored as it comes."""

    values = False


class Bare(_Queued):
    """A queue and a thread that throws away what it takes."""

    def __init__(self, folder: Path) -> None:
        super().__init__()

    def _commit(self, group: list[Event]) -> None:
        pass

    def close(self) -> int:
        self._stop()
        return 0


def compressed(events: list[Event]) -> int:
    """Bytes of the same items, compressed in groups as the writer compresses them, with nothing around."""
    compressor, total = segments.Compressor(), 0
    for at in range(0, len(events), GROUP):
        parts = []
        for number, (body, blobs) in enumerate(events[at : at + GROUP], at):
            parts += [segments.pack_item(segments.BLOB, data) for _, data in blobs]
            prev = hashlib.sha256(body).hexdigest()
            parts.append(segments.pack_item(segments.ENTRY, log.entry_bytes(body, number, prev)))
        total += len(compressor.chunk(b"".join(parts))) - segments.CHUNK_HEADER.size
    return total


def throughput(make: Callable[[Path], Any], folder: Path, events: list[Event]) -> tuple[float, float, int]:
    """Events a second until all are on disk, microseconds of CPU an event, bytes stored."""
    store = make(folder)
    store.put(events[0])
    store.flush()
    wall, cpu = time.perf_counter(), time.process_time()
    for event in events[1:]:
        store.put(event)
    store.flush()
    rate = (len(events) - 1) / (time.perf_counter() - wall)
    return rate, (time.process_time() - cpu) / len(events) * 1e6, store.close()


def puts(make: Callable[[Path], Any], folder: Path, events: list[Event]) -> tuple[float, float]:
    """Microseconds of one put at 1,000 a second, p50 and p99."""
    store = make(folder)
    store.put(events[0])
    store.flush()
    taken, began = [], time.perf_counter()
    for number, event in enumerate(events[1:2001]):
        while (ahead := began + number / 1000 - time.perf_counter()) > 0:
            time.sleep(ahead)
        at = time.perf_counter()
        store.put(event)
        taken.append((time.perf_counter() - at) * 1e6)
    store.close()
    taken.sort()
    return taken[len(taken) // 2], taken[len(taken) * 99 // 100]


def main() -> None:
    """Run both, interleaved, and print medians."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json")
    given = parser.parse_args()
    events, packed = workload(given.events), workload(given.events, packed=True)
    rows: dict[str, tuple[Callable[[Path], Any], list[Event]]] = {
        "writer": (Ours, events),
        "SQLite, values compressed": (Sqlite, events),
        "SQLite, all compressed": (SqliteAll, events),
        "writer, compressed values": (Ours, packed),
        "SQLite, compressed values": (SqlitePlain, packed),
    }
    payload = {id(one): compressed(one) for one in (events, packed)}
    rates: dict[str, list[tuple[float, float, int]]] = {name: [] for name in rows}
    times: dict[str, list[tuple[float, float]]] = {"writer": [], "queue": []}
    with tempfile.TemporaryDirectory() as place:
        os.environ["COUNTERFOIL_HOME"] = f"{place}/home"
        keys.set_home(Path(place, "home"))
        for number in range(given.rounds):
            for name, (make, listed) in rows.items():
                os.sync()
                rates[name].append(throughput(make, Path(place, f"{name}{number}"), listed))
            for name, make in (("writer", Ours), ("queue", Bare)):
                times[name].append(puts(make, Path(place, f"put-{name}{number}"), events))
    told: dict[str, Any] = {"events": len(events), "payload": list(payload.values())}
    print(f"{len(events):,} events; the writer's items compressed and nothing else: {told['payload']} bytes")
    print(f"{'row':<27}{'events/s':>10}{'CPU us':>8}{'bytes':>12}{'of items':>10}{'writer over it':>16}")
    for name, found in rates.items():
        listed = rows[name][1]
        ours = rates["writer" if listed is events else "writer, compressed values"]
        rate, cpu, stored = (statistics.median(one[at] for one in found) for at in range(3))
        ratio = statistics.median(mine[0] / one[0] for mine, one in zip(ours, found, strict=True))
        told[name] = {"rate": rate, "cpu_us": cpu, "bytes": stored, "writer_over": ratio}
        share = stored / payload[id(listed)]
        print(f"{name:<27}{rate:>10,.0f}{cpu:>8.1f}{stored:>12,.0f}{share:>10.3f}{ratio:>15.2f}x")
    for name, taken in times.items():
        p50, p99 = (statistics.median(one[at] for one in taken) for at in range(2))
        told[f"put {name}"] = {"p50_us": p50, "p99_us": p99}
        print(f"put, {name:<8} p50 {p50:>7.1f} us, p99 {p99:>7.1f} us")
    ratio = told["put writer"]["p99_us"] / told["put queue"]["p99_us"]
    print(f"put over a bare queue's at p99: {ratio:.1f}x")
    if given.json:
        Path(given.json).write_text(json.dumps(told, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
