"""Builds logs byte by byte, right ones and wrong ones."""

from __future__ import annotations

import hashlib
from typing import Any, Final

from making import formats
from making.formats import BLOB, ENTRY, FIRST, NEXT, NOTE, RAW, Blobs, Key, b64, jcs, sha256

IDENTITY: Final = Key(1)
ACTOR: Final = Key(2)
PEER: Final = Key(3)
STRANGER: Final = Key(4)
KEYS: Final = {"actor": ACTOR, "identity": IDENTITY, "peer": PEER, "stranger": STRANGER}

ZERO: Final = "0" * 64
AT: Final = 1_790_000_000_000_000
"""Microseconds of the first record; every record comes one millisecond later."""
LOG: Final = "00000000000000a1"
OTHER: Final = "00000000000000b2"
RUN: Final = "1" * 32


class Log:
    """One log in the making; every method appends, keywords make it wrong."""

    def __init__(self, name: str = LOG, key: Key = IDENTITY) -> None:
        self.name, self.key, self.origin = name, key, f"{key.keyid}/{name}"
        self.files: list[bytearray] = []
        self.chunks: list[dict[str, Any]] = []
        self.entries: list[dict[str, Any]] = []
        self.checkpoints: list[dict[str, Any]] = []
        self.leaves: list[bytes] = []
        self.blobs: dict[str, bytes] = {}
        self.prev = ZERO
        self.at = AT
        self._items: list[tuple[int, bytes]] = []
        self._fresh = True

    # -- files and chunks ---------------------------------------------------------------------------------------------

    def segment(self) -> None:
        """Begin the next segment file."""
        self.files.append(bytearray())
        self._fresh = True

    def flush(self, *, raw: bool = False, more: bytes = b"") -> None:
        """Write the items so far as one chunk."""
        items, self._items = self._items, []
        data = b"".join(formats.item(kind, one) for kind, one in items) + more
        form = RAW if raw else FIRST if self._fresh else NEXT
        stored = data if raw else formats.zstd(data, first=self._fresh)
        self._fresh = self._fresh and raw
        start = len(self.files[-1])
        self.files[-1] += formats.chunk(form, stored, len(data))
        self.chunks.append(
            {
                "end": len(self.files[-1]),
                "form": form,
                "items": [{"kind": kind, "sha256": sha256(one), "size": len(one)} for kind, one in items],
                "raw": len(data),
                "segment": len(self.files) - 1,
                "start": start,
            }
        )

    def evidence(self, *others: Log) -> dict[str, bytes]:
        """All files of an evidence folder with this log and others."""
        out = {".gitignore": b"*\n"}
        for log in (self, *others):
            for number, data in enumerate(log.files):
                out[f"{log.name}/{number:08d}.seg"] = bytes(data)
        return out

    # -- items --------------------------------------------------------------------------------------------------------

    def blob(self, data: bytes) -> dict[str, Any]:
        """Store bytes; a reference to them as text."""
        self._items.append((BLOB, data))
        self.blobs[sha256(data)] = data
        return {"media": formats.TEXT, "sha256": sha256(data), "size": len(data)}

    def value(self, value: Any, *, leave_out: int | None = None) -> dict[str, Any]:
        """Store a value's blobs and return its reference; ``leave_out`` forgets one of them."""
        blobs = Blobs()
        reference = blobs.reference(value)
        for number, (digest, data) in enumerate(blobs.found.items()):
            if number != leave_out and digest not in self.blobs:
                self.blob(data)
        return reference

    def raw_entry(self, data: bytes) -> str:
        """Append entry bytes as they are; their digest."""
        self._items.append((ENTRY, data))
        self.leaves.append(formats.leaf(data))
        self.prev = sha256(data)
        return self.prev

    def entry(self, body: Any, *, index: int | None = None, prev: str | None = None) -> str:
        """Append an entry around a body; the digest of the body."""
        number = len(self.leaves) if index is None else index
        data = jcs({"body": body, "i": number, "prev": self.prev if prev is None else prev})
        self.raw_entry(data)
        self.entries.append(
            {
                "digest": sha256(data),
                "index": number,
                "leaf": formats.leaf(data).hex(),
                "text": data.decode(),
            }
        )
        return sha256(jcs(body))

    def record(self, content: dict[str, Any], context: dict[str, Any]) -> str:
        """Append a record; its digest."""
        return self.entry({"content": content, "context": context, "v": 1})

    def now(self) -> int:
        """The clock."""
        self.at += 1000
        return self.at

    # -- opening entries ----------------------------------------------------------------------------------------------

    def tree(self) -> dict[str, Any]:
        """The tree so far, as an opening entry tells it."""
        return {"tree": {"peaks": formats.peaks(self.leaves), "size": len(self.leaves)}}

    def session(self, *, tree: bool = True, **changes: Any) -> str:
        """The session record; ``changes`` replace members of its context."""
        about = self.value({"broken": {}, "capabilities": {}, "environment": {}, "plugins": {}})
        context = {
            "about": about,
            "at": self.now(),
            "durability": "group",
            "mode": "observe",
            "origin": self.origin,
            "pid": 4242,
            "spki": b64(self.key.spki),
            "version": "0.1.0",
        }
        context |= (self.tree() if tree else {}) | changes
        return self.record({"op": "session", "phase": "point"}, context)

    def opening(self, **changes: Any) -> str:
        """The `segment` record."""
        context = {"at": self.now(), **self.tree(), **changes}
        return self.record({"op": "segment", "phase": "point"}, context)

    def recovered(self, number: int, good: int, **changes: Any) -> str:
        """The `recovered` record about one earlier segment."""
        data = bytes(self.files[number])
        one = {"good": good, "segment": number, "sha256": sha256(data), "size": len(data), **changes}
        one = {name: value for name, value in one.items() if value is not None}
        content = {"op": "recovered", "phase": "point", "segments": [one]}
        return self.record(content, {"at": self.now(), **self.tree()})

    # -- calls --------------------------------------------------------------------------------------------------------

    def start(self, op: str, name: str, call: str, **more: Any) -> str:
        """The start of a call; `content` and `context` in ``more`` add members."""
        content = {"actor": name, "address": f"{op}:{name}", "name": name, "op": op, "phase": "start"}
        context = {"at": self.now(), "call": call, "run": RUN}
        return self.record(content | more.get("content", {}), context | more.get("context", {}))

    def end(self, op: str, name: str, call: str, **more: Any) -> str:
        """The end of a call."""
        content = {"actor": name, "address": f"{op}:{name}", "name": name, "op": op, "phase": "end"}
        context = {"at": self.now(), "call": call, "run": RUN, "took": 1000}
        content |= {"status": "ok"}
        return self.record(content | more.get("content", {}), context | more.get("context", {}))

    # -- statements ---------------------------------------------------------------------------------------------------

    def sign(self, payload: bytes, *keys: Key, carry: bool = False) -> str:
        """Append an envelope; the statement's digest."""
        self.entry(formats.envelope(payload, *keys, carry=carry))
        return sha256(payload)

    def bind(self, actor: str, key: Key, /, *, by: Key | None = None, **changes: Any) -> str:
        """Append a binding."""
        predicate = {
            "actor": actor,
            "issued": self.now() // 1000,
            "key": key.keyid,
            "origin": self.origin,
            "spki": b64(key.spki),
        }
        predicate |= changes
        subject = {"digest": {"sha256": predicate["key"]}, "name": predicate["actor"]}
        payload = formats.statement("binding", subject, predicate)
        return self.sign(payload, self.key if by is None else by)

    # -- checkpoints --------------------------------------------------------------------------------------------------

    def stored(self, *, raw: bool = True, **changes: Any) -> None:
        """The `stored` record, in a chunk of its own."""
        file = self.files[-1]
        content = {
            "offset": len(file),
            "op": "stored",
            "segment": len(self.files) - 1,
            "sha256": hashlib.sha256(file).hexdigest(),
        }
        self.record(content | changes, {})
        self.flush(raw=raw)

    def note(self, **changes: Any) -> None:
        """The signed checkpoint, in a chunk of its own."""
        size, root = len(self.leaves), formats.root(self.leaves)
        text = changes.get("text") or formats.note(
            changes.get("origin", self.origin),
            changes.get("size", size),
            changes.get("root", root),
            changes.get("key", self.key),
            name=changes.get("name"),
        )
        self._items.append((NOTE, text))
        self.flush(raw=True)
        self.checkpoints.append({"note": text.decode(), "root": root.hex(), "size": size})

    def checkpoint(self, **changes: Any) -> None:
        """Write what waits, `stored`, and the note."""
        if self._items:
            self.flush()
        self.stored()
        self.note(**changes)

    def head(self, **changes: Any) -> dict[str, Any]:
        """The last checkpoint as a machine remembers it; the empty `evidence` stands for the folder it is in."""
        last = self.checkpoints[-1]
        return {
            "evidence": "",
            "offset": len(self.files[-1]),
            "origin": self.origin,
            "root": last["root"],
            "segment": len(self.files) - 1,
            "size": last["size"],
        } | changes
