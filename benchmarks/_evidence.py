"""Evidence of any size, made fast: the formats' own functions without the writer's threads and disk flushes.

Eight entries a turn, as a graph of agents writes them: three calls (start and end) that cite what went in and came out,
a point, and one signed handoff. Two blobs a turn: a text of some KB, and a value or message list node that cites it.
"""

from __future__ import annotations

import base64
import hashlib
import random
import sys
from pathlib import Path
from typing import Any

from counterfoil import canonical, digest, dsse, keys, log, notes, records, segments, statements, tree

TURN = 8
"""Entries of one turn; one of them is a statement."""
_WORDS = (
    "agent ledger handoff river signed result value because before after table query answer model "
    "tool plan draft review number because under while report search entry where which"
).split()


class Maker:
    """Appends turns to one log in ``root``; ``close`` ends it in a checkpoint."""

    def __init__(
        self,
        root: Path,
        name: str,
        identity: keys.SigningKey,
        *,
        segment_bytes: int = 64 << 20,
        group: int = 32,
        seed: int = 1,
        handoffs: bool = True,
    ) -> None:
        self.folder = root / name
        self.folder.mkdir(parents=True)
        (root / ".gitignore").write_bytes(b"*\n")
        self.name, self.identity, self.origin = name, identity, f"{identity.keyid}/{name}"
        self.entries = self.statements = self.blobs = 0
        self._actor = keys.SigningKey.generate()
        self._random = random.Random(f"{seed}{name}")
        self._texts = [self._prose() for _ in range(200)]
        self._limit, self._group, self._handoffs = segment_bytes, group, handoffs
        self._tree, self._prev, self._covered = tree.Tree(), log.ZERO, 0
        self._items: list[bytes] = []
        self._waiting = 0
        self._number = -1
        self._out = bytearray()
        self._fold: tuple[int, str] = (0, "")
        self._run = ""
        self._calls = 0
        self._at = 1_790_000_000_000_000
        self._last = ""
        self._open()
        self._bind()

    def _prose(self) -> str:
        return " ".join(self._random.choices(_WORDS, k=self._random.randrange(60, 900)))

    # -- what is appended ---------------------------------------------------------------------------------------------

    def turn(self) -> None:
        """Eight entries and two blobs."""
        number = self.entries
        text = f"{number}: {self._random.choice(self._texts)}".encode()
        asked = self._blob(text, digest.MEDIA_TEXT)
        inner = {"$ref": asked}
        if number % 16:
            count, parent = self._fold
            message = canonical.dumps({"$msg": {"content": inner, "type": "human"}})
            if len(message) >= digest.INLINE:
                message = canonical.dumps({"$ref": self._blob(message, digest.MEDIA_JSON)})
            node = digest.fold_node(message, count + 1, parent)
            value = self._blob(node, digest.MEDIA_FOLD)
            self._fold = (count + 1, value["sha256"]) if count < 200 else (0, "")
        else:
            value = self._blob(
                canonical.dumps({"messages": inner, "model": "m", "n": number}), digest.MEDIA_JSON
            )
        begins = not self._run
        if begins:
            self._run, self._calls = f"{number:032x}", 0
            self._record("invoke_workflow", "start", self._run, request=value)
        for place in range(2 if begins else 3):
            call = f"{number:031x}{place}"
            self._record("chat" if place else "step", "start", call, request=value)
            if place == 2 and self._calls > 150:
                self._record("chat", "end", call, response=asked)
                break
            self._record("chat" if place else "step", "end", call, response=asked)
        if begins:
            self._point()
        if self._handoffs:
            self._handoff(value)
        else:
            self._point()
        if not begins and self._calls > 150:
            totals = {"ended": self._calls, "started": self._calls}
            self._record("invoke_workflow", "end", self._run, totals=totals)
            self._run = ""
        elif not begins:
            self._point()
        else:
            self._point()

    def _point(self) -> None:
        content = {
            "actor": "team/writer",
            "address": "step:writer@1",
            "name": "n",
            "op": "custom",
            "phase": "point",
        }
        self._entry(records.build(content, {"at": self._now(), "run": self._run}))

    def _record(self, op: str, phase: str, call: str, *, totals: Any = None, **refs: Any) -> None:
        content: dict[str, Any] = {
            "actor": "team/writer",
            "address": f"invoke_workflow:team/step:writer@1/{op}:m",
        }
        content |= {"name": "small-1", "op": op, "phase": phase, **refs}
        if phase == "end":
            content["status"] = "ok"
            if totals is None:
                self._calls += 1
            else:
                totals = {"ended": totals["ended"] + 1, "started": totals["started"] + 1}
                content["totals"] = totals
        context = {"at": self._now(), "call": call, "run": self._run}
        if phase == "start":
            context["parent"] = self._run
        body = records.build(content, context)
        self._last = hashlib.sha256(body).hexdigest()
        self._entry(body)

    def _handoff(self, value: dict[str, Any]) -> None:
        predicate = {
            "content": {
                "basis": "sealed",
                "from": ["team/writer"],
                "kind": "edge",
                "payload": value["sha256"],
            },
            "exact": True,
            "issued": self._now() // 1000,
            "nonce": f"{self.entries:032x}",
            "parents": [{"digest": self._last, "rel": "control"}],
            "payload": {"media": value["media"], "size": value["size"]},
            "proof": "recorded",
            "run": self._run,
            "sender": {"actor": "team/writer", "key": self._actor.keyid},
        }
        predicate["content"]["to"] = "team/reader"
        subject = {"digest": {"counterfoil-v1": value["sha256"]}, "name": "payload"}
        self._statement(statements.HANDOFF, subject, predicate, self._actor)

    def _bind(self) -> None:
        predicate = {
            "actor": "team/writer",
            "issued": self._now() // 1000,
            "key": self._actor.keyid,
            "origin": self.origin,
            "spki": base64.b64encode(self._actor.spki).decode(),
        }
        subject = {"digest": {"sha256": self._actor.keyid}, "name": "team/writer"}
        self._statement(statements.BINDING, subject, predicate, self.identity)

    def _statement(self, kind: str, subject: Any, predicate: Any, key: keys.SigningKey) -> None:
        self.statements += 1
        self._entry(dsse.Envelope.sign(statements.build(kind, subject, predicate), key).to_bytes())

    # -- files --------------------------------------------------------------------------------------------------------

    def _now(self) -> int:
        self._at += 137
        return self._at

    def _blob(self, data: bytes, media: str) -> dict[str, Any]:
        self.blobs += 1
        self._items.append(segments.pack_item(segments.BLOB, data))
        return {"media": media, "sha256": hashlib.sha256(data).hexdigest(), "size": len(data)}

    def _entry(self, body: bytes) -> None:
        self._items.append(self._chain(body))
        self._waiting += 1
        if self._waiting >= self._group:
            self._flush()
            if self.entries - self._covered >= 255:
                self._checkpoint()

    def _chain(self, body: bytes) -> bytes:
        data = log.entry_bytes(body, self._tree.size, self._prev)
        self._prev = hashlib.sha256(data).hexdigest()
        self._tree.append(tree.leaf_hash(data))
        self.entries += 1
        return segments.pack_item(segments.ENTRY, data)

    def _flush(self) -> None:
        if self._items:
            self._write(self._compressor.chunk(b"".join(self._items)))
        self._items, self._waiting = [], 0

    def _write(self, data: bytes) -> None:
        self._out += data
        self._hash.update(data)

    def _open(self) -> None:
        self._number += 1
        self._out, self._hash, self._compressor = bytearray(), hashlib.sha256(), segments.Compressor()
        context: dict[str, Any] = {"at": self._now()}
        context["tree"] = {"peaks": [peak.hex() for peak in self._tree.peaks()], "size": self._tree.size}
        if self._number == 0:
            about = canonical.dumps({"broken": {}, "capabilities": {}, "environment": {}, "plugins": {}})
            context |= {
                "about": self._blob(about, digest.MEDIA_JSON),
                "durability": "group",
                "mode": "observe",
            }
            spki = base64.b64encode(self.identity.spki).decode()
            context |= {"origin": self.origin, "pid": 1, "spki": spki, "version": "0"}
        op = "segment" if self._number else "session"
        self._items.append(self._chain(records.build({"op": op, "phase": "point"}, context)))
        self._flush()

    def _checkpoint(self) -> None:
        content = {
            "offset": len(self._out),
            "op": "stored",
            "segment": self._number,
            "sha256": self._hash.hexdigest(),
        }
        self._write(segments.raw_chunk(self._chain(records.build(content, {}))))
        text = notes.Checkpoint(self.origin, self._tree.size, self._tree.root()).to_text()
        note = notes.sign_note(text, self.origin, self.identity).encode()
        self._write(segments.raw_chunk(segments.pack_item(segments.NOTE, note)))
        self._covered = self.entries
        if len(self._out) >= self._limit:
            self._save()
            self._open()

    def _save(self) -> None:
        (self.folder / f"{self._number:08d}.seg").write_bytes(self._out)

    def close(self) -> None:
        """End the run and the log."""
        if self._run:
            totals = {"ended": self._calls, "started": self._calls}
            self._record("invoke_workflow", "end", self._run, totals=totals)
        self._flush()
        self._limit = sys.maxsize  # what would begin here would end without a checkpoint
        self._checkpoint()
        self._save()


def make(
    root: Path,
    identity: keys.SigningKey,
    *,
    entries: int,
    logs: int = 1,
    segment_bytes: int = 64 << 20,
    handoffs: bool = True,
) -> dict[str, int]:
    """Evidence of about this many entries; what it holds."""
    found = {"entries": 0, "statements": 0, "blobs": 0}
    for number in range(logs):
        maker = Maker(root, f"{number:016x}", identity, segment_bytes=segment_bytes, handoffs=handoffs)
        while maker.entries < entries // logs:
            maker.turn()
        maker.close()
        for name in found:
            found[name] += getattr(maker, name)
    return found
