"""Appending durably: the writer against SQLite (WAL, synchronous=FULL) on one workload, in one run.

    python benchmarks/append_speed.py [--events 20000] [--rounds 5] [--json FILE]

Group commit: both get the same events from one caller through a queue, commit what arrived within 5 ms (1,024 events
at most for either) and sync it; a commit counts when the sync is over. Two workloads:

- ``agent`` (the aim is of this one): runs of a coding agent as in the study behind the aims (``_agent.py``), 2.1 KB
  and a little more than one value an event. First with values that are compressed already, which both sides store as
  they come (the comparison of the study: neither side compresses values), then with values as they are.
- ``small``: a record of some 400 bytes, every fourth with a text of some KB. Little but records.

SQLite keeps records under a rowid, and values under a rowid with a unique index of digests (as the study did, which
found that faster than digests as keys of the table; ``digest as key`` is that other form). ``values compressed``
compresses them one by one (zstd 3) and leaves records as they are; ``all compressed`` compresses both. SQLite makes
no chain, no tree and no signature. The writer does everything it always does: chain, tree, records (and values) in
streams of zstd 3, checkpoints, signatures. It makes its next group while the disk is busy with the one before.

``each waits``: N callers, each of which gives one record and waits until that one is on disk. SQLite: one transaction
a record, on one connection under a lock (with many callers that was as fast or faster than a connection for each).
Writer: ``entry`` and ``flush``; callers that wait at the same moment share a sync, which is the point of a group.

Bytes are compared with the payload (records as they are, values compressed one by one) and with the writer's own
items, compressed as it compresses them and nothing around. Puts are timed at 1,000 events a second, against a bare put
into a queue that a thread empties.
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

import _agent
import zstandard

from counterfoil import digest, keys, log, packing, records, segments
from counterfoil.stores import FolderStore
from counterfoil.writer import GROUP, WINDOW, Writer

Event = tuple[bytes, list[tuple[str, bytes]]]
"""A record, and the blobs it is the first to cite."""
_WORDS = (
    "agent ledger handoff river signed result value because before after table query answer model "
    "tool plan draft review number under while report search entry where which"
).split()


def small(count: int, *, packed: bool = False) -> list[Event]:
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
    blobs = "CREATE TABLE blob (id INTEGER PRIMARY KEY, digest BLOB UNIQUE, data BLOB)"

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        self.folder = folder
        self._file = sqlite3.connect(folder / "log.db", isolation_level=None, check_same_thread=False)
        self._file.execute("PRAGMA journal_mode=WAL")
        self._file.execute("PRAGMA synchronous=FULL")
        self._file.execute("CREATE TABLE record (id INTEGER PRIMARY KEY, data BLOB)")
        self._file.execute(self.blobs)
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


class SqliteKeyed(SqlitePlain):
    """Digests are the keys of the values' table."""

    blobs = "CREATE TABLE blob (digest BLOB PRIMARY KEY, data BLOB) WITHOUT ROWID"


class Bare(_Queued):
    """A queue and a thread that throws away what it takes."""

    def __init__(self, folder: Path) -> None:
        super().__init__()

    def _commit(self, group: list[Event]) -> None:
        pass

    def close(self) -> int:
        self._stop()
        return 0


class SqliteEach:
    """A transaction a record, one caller after the other."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        self._lock = threading.Lock()
        self._file = sqlite3.connect(folder / "log.db", isolation_level=None, check_same_thread=False)
        self._file.execute("PRAGMA journal_mode=WAL")
        self._file.execute("PRAGMA synchronous=FULL")
        self._file.execute("CREATE TABLE record (id INTEGER PRIMARY KEY, data BLOB)")

    def durable(self, event: Event) -> None:
        with self._lock:
            self._file.execute("INSERT INTO record (data) VALUES (?)", (event[0],))

    def close(self) -> None:
        self._file.close()


class OursEach(Ours):
    """Every caller waits for its record."""

    def durable(self, event: Event) -> None:
        self._writer.entry(event[0])
        assert self._writer.flush()


def compressed(events: list[Event]) -> int:
    """Bytes of the same items, compressed in groups as the writer compresses them, with nothing around."""
    compressor, total, number = segments.Compressor(), 0, 0
    for at in range(0, len(events), GROUP):
        parts: list[bytes] = []
        for body, blobs in events[at : at + GROUP]:
            for _, data in blobs:
                if packing.packed_already(data):
                    total += segments.ITEM_HEADER.size + len(data)
                else:
                    parts.append(segments.pack_item(segments.BLOB, data))
            entry = log.entry_bytes(body, number, hashlib.sha256(body).hexdigest())
            parts.append(segments.pack_item(segments.ENTRY, entry))
            number += 1
            if sum(map(len, parts)) >= packing.CHUNK:
                total += len(compressor.chunk(b"".join(parts))) - segments.CHUNK_HEADER.size
                parts = []
        if parts:
            total += len(compressor.chunk(b"".join(parts))) - segments.CHUNK_HEADER.size
    return total


def payload(events: list[Event]) -> int:
    """Bytes of records as they are and of values compressed one by one."""
    zstd = zstandard.ZstdCompressor(level=segments.LEVEL)
    total = 0
    for body, blobs in events:
        total += len(body)
        total += sum(len(data if packing.packed_already(data) else zstd.compress(data)) for _, data in blobs)
    return total


def throughput(make: Callable[[Path], Any], folder: Path, events: list[Event]) -> tuple[float, float, int]:
    """Events a second until all are on disk, microseconds of CPU an event, bytes stored."""
    os.sync()
    store = make(folder)
    store.put(events[0])
    store.flush()
    wall, cpu = time.perf_counter(), time.process_time()
    for event in events[1:]:
        store.put(event)
    store.flush()
    rate = (len(events) - 1) / (time.perf_counter() - wall)
    return rate, (time.process_time() - cpu) / len(events) * 1e6, store.close()


def each_waits(make: Callable[[Path], Any], folder: Path, events: list[Event], callers: int) -> float:
    """Records a second of so many callers, each of which waits for its own; two seconds of them."""
    os.sync()
    store, done, until = make(folder), [0] * callers, time.perf_counter() + 2

    def work(number: int) -> None:
        while time.perf_counter() < until:
            store.durable(events[done[number] % len(events)])
            done[number] += 1

    threads = [threading.Thread(target=work, args=(number,)) for number in range(callers)]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    rate = sum(done) / (time.perf_counter() - began)
    store.close()
    return rate


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


Rows = dict[str, Callable[[Path], Any]]
PACKED: Rows = {"writer": Ours, "SQLite": SqlitePlain, "SQLite, digest as key": SqliteKeyed}
PLAIN: Rows = {"writer": Ours, "SQLite, values compressed": Sqlite, "SQLite, all compressed": SqliteAll}


def compare(place: Path, events: list[Event], rows: Rows, rounds: int) -> dict[str, Any]:
    """Interleaved rounds of every row; prints and returns medians. The first row is the one compared."""
    found: dict[str, list[tuple[float, float, int]]] = {name: [] for name in rows}
    for number in range(rounds):
        for name, make in rows.items():
            found[name].append(throughput(make, place / f"{name}{number}", events))
    whole, bare, told = payload(events), compressed(events), {}
    ours = next(iter(found.values()))
    for name, listed in found.items():
        rate, cpu, stored = (statistics.median(one[at] for one in listed) for at in range(3))
        over = statistics.median(mine[0] / one[0] for mine, one in zip(ours, listed, strict=True))
        less = statistics.median(mine[1] / one[1] for mine, one in zip(ours, listed, strict=True))
        told[name] = {"rate": rate, "cpu_us": cpu, "bytes": stored, "of_payload": stored / whole}
        told[name] |= {"of_items": stored / bare, "writer_over": over, "writer_cpu": less}
        print(
            f"  {name:<26}{rate:>9,.0f}{cpu:>8.1f}{stored:>12,.0f}{stored / whole:>8.3f}{stored / bare:>8.3f}"
            f"{over:>8.2f}x{less:>8.2f}x",
            flush=True,
        )
    return told


def main() -> None:
    """Run both, interleaved, and print medians."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--events", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json")
    given = parser.parse_args()
    told: dict[str, Any] = {"events": given.events}
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        os.environ["COUNTERFOIL_HOME"] = f"{place}/home"
        keys.set_home(place / "home")
        print(
            f"{given.events:,} events; writer over a row in events/s and in CPU, bytes of payload and of its items\n"
            f"  {'':<26}{'events/s':>9}{'CPU us':>8}{'bytes':>12}{'of pay':>8}{'of it.':>8}{'ev/s':>9}{'CPU':>9}"
        )
        for title, events, rows in (
            ("agent, values compressed already", _agent.workload(given.events, packed=True), PACKED),
            ("agent", _agent.workload(given.events), PLAIN),
            ("small, values compressed already", small(given.events, packed=True), PACKED),
            ("small", small(given.events), PLAIN),
        ):
            print(title, flush=True)
            told[title] = compare(place / title, events, rows, given.rounds)
        print("each waits: records/s, one sync at least for every caller's record")
        for callers in (1, 8, 32):
            pairs = []
            for number in range(max(given.rounds // 2, 1)):
                found = [
                    each_waits(make, place / f"{make.__name__}{callers}-{number}", events, callers)
                    for make in (OursEach, SqliteEach)
                ]
                pairs.append(found)
            ours, other = (statistics.median(one[at] for one in pairs) for at in range(2))
            told[f"each waits, {callers}"] = {"writer": ours, "sqlite": other}
            print(
                f"  {callers:>2} callers: writer {ours:>7,.0f}, SQLite {other:>7,.0f}: {ours / other:.2f}x",
                flush=True,
            )
        times: dict[str, list[tuple[float, float]]] = {"writer": [], "queue": []}
        for number in range(given.rounds):
            for name, make in (("writer", Ours), ("queue", Bare)):
                times[name].append(puts(make, place / f"put-{name}{number}", events))
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
