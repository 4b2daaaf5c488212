"""The one reader of evidence: entries, records, statements, calls, runs, handoffs and blobs, streaming and read-only.

It reads what is there and judges nothing: ask ``verify`` first whether to believe it.
"""

from __future__ import annotations

import base64
import os
from array import array
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any, Final

from counterfoil import canonical, log, records, segments, statements
from counterfoil.bundles.store import BundleStore, is_cut, open_place
from counterfoil.digest import (
    MEDIA_BYTES,
    MEDIA_FOLD,
    MEDIA_JSON,
    MEDIA_TEXT,
    Reference,
    is_reference,
    sha256_hex,
)
from counterfoil.dsse import Envelope
from counterfoil.errors import CanonicalError, CounterfoilError, LogError
from counterfoil.graph import Graph
from counterfoil.log import Entry, LogScan
from counterfoil.stores import FolderStore, check_exists
from counterfoil.values import fresh_stack
from counterfoil.views import CallView, Runs, RunView, join, of_run

__all__ = ["CallView", "Reader", "RunView", "read"]

_MAX_DEPTH: Final = 256
_MAX_VALUE: Final = 1 << 30
_INCOMPLETE: Final = "run counterfoil verify"
_PARTS: Final = "read the stored bytes one by one"
_STREAMS: Final = 8
_ITEM_HEADER: Final = len(segments.pack_item(segments.BLOB, b""))
_MIN_COST: Final = 1024
"""Bytes a resolved reference counts for at least, of the ``_MAX_VALUE`` that a value may have."""


class Reader:
    """Reads one evidence. Each method streams the logs anew; blobs are found by an index built on first use."""

    def __init__(self, store: FolderStore) -> None:
        self.store = store
        self._places: dict[str, tuple[str, tuple[int, int, int, int]]] | None = None
        self._indexed = 0
        self._streams: OrderedDict[tuple[str, int, int], dict[int, _Items]] = OrderedDict()

    # -- entries ------------------------------------------------------------------------------------------------------

    def logs(self) -> list[str]:
        """Log ids, sorted."""
        return self.store.logs()

    def entries(self) -> Iterator[Entry]:
        """All entries that can be read, log by log, in log order; reading a log stops where it is damaged."""
        for name in self.ordered_logs():
            for event in LogScan(self.store, name).events():
                if isinstance(event, Entry):
                    yield event

    def ordered_logs(self) -> list[str]:
        """Log ids by the time their first session began."""
        return sorted(self.logs(), key=self._began)

    def _began(self, name: str) -> tuple[int, str]:
        for event in LogScan(self.store, name).events():
            if isinstance(event, Entry):
                at = event.body.get("context", {}).get("at") if records.is_record(event.body) else None
                return (at if type(at) is int else 0, name)
        return (0, name)

    def records(self) -> Iterator[Entry]:
        """Entries that are records."""
        return (entry for entry in self.entries() if records.is_record(entry.body))

    def statements(self) -> Iterator[tuple[Entry, statements.Statement]]:
        """Entries that are statements this version can parse, with the statement (not verified here)."""
        for entry in self.entries():
            if not records.is_record(entry.body):
                try:
                    yield entry, statements.parse(Envelope.parse(entry.body).payload)
                except CounterfoilError:
                    continue

    def calls(self) -> list[CallView]:
        """Calls in the order they started; starts and ends joined."""
        found: dict[str, CallView] = {}
        for entry in self.records():
            join(found, entry)
        return list(found.values())

    def runs(self) -> list[RunView]:
        """Runs in the order they started, with the repeatable bytes of their entries."""
        found: dict[str, RunView] = {}
        calls, told = dict[str, CallView](), Runs()
        for entry in self.entries():
            run_id, content = told.of(entry)
            if run_id is None:
                continue
            run = found.setdefault(run_id, RunView(run_id, entry.log, entry.index))
            run.entries.append((entry.log, entry.index))
            if content is not None:
                run.content.append(canonical.dumps(content))
            if records.is_record(entry.body):
                call = join(calls, entry)
                if call is not None and call.id == run_id:
                    run.root = call
        return list(found.values())

    def graph(self, *, run: str | None = None) -> Graph:
        """The graph of activations, calls and handoffs; of one run when ``run`` is given."""
        signed = self.statements() if run is None else of_run(self.entries(), run)
        return Graph(self.calls(), list(signed), blob=self.blob, run=run, cut=is_cut(self.store))

    def handoffs(self, *, hops: bool = False, run: str | None = None) -> list[dict[str, Any]]:
        """Handoffs between agents; with ``hops`` every statement's edges (see ``counterfoil handoffs --json``)."""
        return self.graph(run=run).handoffs(hops=hops)

    # -- blobs --------------------------------------------------------------------------------------------------------

    def blob(self, sha256: str) -> bytes:
        """Stored bytes by their SHA-256; raises LogError: CF-LOG-040: not here; CF-LOG-041: other bytes."""
        found = self._index().get(sha256)
        if found is None and self.store.size() != self._indexed:  # somebody records at the same time
            self._places = None
            found = self._index().get(sha256)
        if found is None:
            raise LogError(
                "this evidence holds no such bytes", code="CF-LOG-040", where=sha256[:12], hint=_INCOMPLETE
            )
        data = self._read(*found)
        if sha256_hex(data) != sha256:
            raise LogError(
                "stored bytes do not match their name", code="CF-LOG-041", where=sha256[:12], hint=_INCOMPLETE
            )
        return data

    def _index(self) -> dict[str, tuple[str, tuple[int, int, int, int]]]:
        if self._places is None:
            self._indexed = self.store.size()
            self._places = {}
            for name in self.logs():
                for event in LogScan(self.store, name).events():
                    if isinstance(event, log.BlobSeen):
                        self._places.setdefault(event.sha256, (name, event.place))
        return self._places

    def blobs(self) -> Iterator[tuple[str, int]]:
        """(SHA-256, size) of every stored blob, each once."""
        seen: set[str] = set()
        for name in self.logs():
            for event in LogScan(self.store, name).events():
                if isinstance(event, log.BlobSeen) and event.sha256 not in seen:
                    seen.add(event.sha256)
                    yield event.sha256, len(event.data)

    def find(self, prefix: str) -> str | None:
        """The one stored blob whose SHA-256 starts with ``prefix``; None when there is none or more than one."""
        found = [sha256 for sha256, _ in self.blobs() if sha256.startswith(prefix)]
        return found[0] if len(found) == 1 else None

    def value(self, ref: Reference | dict[str, Any] | None) -> Any:
        """The canonical value behind a reference, all references inside it resolved; None for no reference.

        Raises LogError: CF-LOG-040, 041: bytes are missing or changed; CF-LOG-042 to 044: they are no value.
        """
        if ref is None:
            return None
        reference = ref if isinstance(ref, Reference) else Reference.from_dict(ref)
        try:
            return _Value(self.blob).of(reference)
        except RecursionError:
            return fresh_stack(lambda: _Value(self.blob).of(reference), otherwise=_too_deep)

    def _read(self, name: str, place: tuple[int, int, int, int]) -> bytes:
        if isinstance(self.store, BundleStore):
            return self.store.read_blob(place)
        number, stream, start, position = place
        key = (name, number, stream)
        chunks = self._streams.get(key)
        if chunks is None or start not in chunks:
            chunks = self._load_stream(name, number, stream)
            self._streams[key] = chunks
            while len(self._streams) > _STREAMS:
                self._streams.popitem(last=False)
        else:
            self._streams.move_to_end(key)
        if start not in chunks:
            return log.read_blob(self.store, name, place)
        data = chunks[start].get(position, where=name)
        if data is not None:
            return data
        raise LogError("a blob is no longer where it was", code="CF-LOG-019", where=name, hint=_INCOMPLETE)

    def _load_stream(self, name: str, number: int, stream: int) -> dict[int, _Items]:
        where = self.store.segment_name(name, number)
        chunks: dict[int, _Items] = {}
        try:
            with self.store.open_segment(name, number) as file:
                for chunk in segments.read_chunks(file, where=where, start=stream):
                    if chunk.form == segments.ZSTD_FIRST and chunk.start != stream:
                        break
                    chunks[chunk.start] = _Items(chunk)
        except segments.TornChunk:
            pass
        return chunks


class _Items:
    """The items of a chunk by position; where they end is worked out once, on first use."""

    __slots__ = ("_chunk", "_ends")

    def __init__(self, chunk: segments.Chunk) -> None:
        self._chunk = chunk
        self._ends: array[int] | None = None

    def get(self, position: int, *, where: str) -> bytes | None:
        if self._ends is None:
            ends, end = array("Q", [0]), 0
            for item in segments.items(self._chunk, where=where):
                end += _ITEM_HEADER + len(item.data)
                ends.append(end)
            self._ends = ends
        if position + 1 >= len(self._ends):
            return None
        return self._chunk.data[self._ends[position] + _ITEM_HEADER : self._ends[position + 1]]


class _Value:
    """One value put together from blobs; counts bytes, since few blobs that cite each other can stand for many."""

    __slots__ = ("_blob", "_costs", "_leaves", "_left")

    def __init__(self, blob: Callable[[str], bytes]) -> None:
        self._blob = blob
        self._left = _MAX_VALUE
        self._leaves: dict[tuple[str, str], Any] = {}
        self._costs: dict[tuple[str, str], int] = {}

    def of(self, ref: Reference) -> Any:
        key, left = (ref.sha256, ref.media), self._left
        known = self._costs.get(key)
        if known is not None:
            # What it costs is known from before: too much is refused before it is put together once more.
            self._charge(known, ref.sha256)
            if key in self._leaves:
                return self._leaves[key]
            self._left += known
        value = self._whole(ref)
        if left - self._left < _MIN_COST:
            self._charge(_MIN_COST - (left - self._left), ref.sha256)
        self._costs[key] = left - self._left
        if type(value) is not list and (type(value) is not dict or ref.media == MEDIA_BYTES):
            self._leaves[key] = value
        return value

    def _whole(self, ref: Reference) -> Any:
        if ref.media == MEDIA_FOLD:
            return self._unfold(ref.sha256)
        data = self._bytes(ref.sha256)
        if ref.media == MEDIA_BYTES:
            return {"$bytes": base64.b64encode(data).decode()}
        if ref.media == MEDIA_TEXT:
            try:
                return data.decode()
            except UnicodeDecodeError:
                raise _no_value(ref.sha256) from None
        if ref.media != MEDIA_JSON:
            raise LogError(
                "the media type of a value is unknown",
                code="CF-LOG-042",
                where=ref.sha256[:12],
                hint="read this evidence with a newer Counterfoil",
            )
        return self._resolve(self._json(ref.sha256, data))

    def _bytes(self, sha256: str) -> bytes:
        data = self._blob(sha256)
        self._charge(len(data), sha256)
        return data

    def _charge(self, size: int, sha256: str) -> None:
        self._left -= size
        if self._left < 0:
            raise LogError(
                f"a value is larger than {_MAX_VALUE} bytes",
                code="CF-LOG-043",
                where=sha256[:12],
                hint=_PARTS,
            )

    def _json(self, sha256: str, data: bytes) -> Any:
        try:
            return canonical.loads(data, max_depth=_MAX_DEPTH)
        except CanonicalError:
            raise _no_value(sha256) from None

    def _resolve(self, value: Any) -> Any:
        if type(value) is dict:
            if value.keys() == {"$ref"} and is_reference(value["$ref"]):
                return self.of(Reference.from_dict(value["$ref"]))
            return {key: self._resolve(one) for key, one in value.items()}
        if type(value) is list:
            return [self._resolve(one) for one in value]
        return value

    def _unfold(self, sha256: str) -> list[Any]:
        out: list[Any] = []
        while sha256:
            node = self._json(sha256, self._bytes(sha256))
            if (
                type(node) is not dict
                or node.keys() != {"add", "n", "parent"}
                or type(node["parent"]) is not str
            ):
                raise _no_value(sha256)
            out.append(self._resolve(node["add"]))
            sha256 = node["parent"]
        return out[::-1]


def _no_value(sha256: str) -> LogError:
    return LogError(
        "stored bytes are not what they are cited as", code="CF-LOG-044", where=sha256[:12], hint=_INCOMPLETE
    )


def _too_deep() -> Any:
    raise LogError("a value is nested too deeply", code="CF-LOG-043", hint=_PARTS)


def read(evidence: str | os.PathLike[str] | FolderStore) -> Reader:
    """Open evidence, or a bundle, for reading; raises StoreError (CF-STORE-002) when there is none."""
    store = evidence if isinstance(evidence, FolderStore) else open_place(evidence)
    check_exists(store)
    return Reader(store)
