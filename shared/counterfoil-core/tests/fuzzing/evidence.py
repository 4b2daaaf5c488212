"""Evidence made from a fuzzer's bytes: a log whose chain, checksums and signatures hold whatever its entries say.

Lines of the input are what the log holds, in order: ``#...`` a blob of the bytes behind the mark, a JSON object with
``_type`` a statement that the log's identity signs, anything else the body of an entry (what is no JSON is a blob too).
A string ``@N`` anywhere in them is the SHA-256 of line N's bytes, so that references can be right.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import io
import os
import tempfile
from pathlib import Path
from typing import Any

import orjson

from counterfoil import canonical, keys, log, moulds, notes, segments, tree
from counterfoil.dsse import Envelope
from counterfoil.errors import CounterfoilError
from counterfoil.recorder import Recorder

MEDIA = (
    "text/plain;charset=utf-8",
    "application/octet-stream",
    "application/vnd.counterfoil.value+json",
    "application/vnd.counterfoil.fold+json",
)


moulds.often = 1  # what is read by a pattern is under attack, too


class Place:
    """A home with an identity, and one evidence folder with one log of that identity."""

    def __init__(self, root: Path) -> None:
        self.home, self.evidence = root / "home", root / "evidence"
        keys.set_home(self.home)
        recorder = Recorder(self.evidence)
        call = recorder.start("invoke_workflow", "app", actor=("app",), request=recorder.value({"n": 1}))
        first = recorder.start("step", "writer", actor=("writer",), parent=call, key="1")
        recorder.end(first, response=recorder.value("draft " * 100))
        handed = recorder.handoff(
            senders=[("writer",)],
            to=("reader",),
            signer=("app",),
            kind="edge",
            basis="observed",
            payload=recorder.value({"text": "draft " * 100}),
            parents=[("control", first)],
            run=call.run,
        )
        second = recorder.start(
            "step", "reader", actor=("reader",), parent=call, key="2", handoffs=[handed] if handed else []
        )
        recorder.end(second)
        recorder.end(call)
        recorder.close()
        self.segment = next(self.evidence.glob("*/*.seg"))
        self.whole = self.segment.read_bytes()
        identity = keys.load_identity()
        assert identity is not None
        self.identity = identity
        self.ring = keys.Keyring.of([identity.public])
        self.log = self.segment.parent.name
        self.origin = f"{identity.keyid}/{self.log}"
        self.bodies = self._bodies()

    def _bodies(self) -> list[bytes]:
        """What the log holds, as lines that ``build`` takes."""
        lines: list[bytes] = []
        for chunk in segments.read_chunks(io.BytesIO(self.whole), where="seed"):
            for item in segments.items(chunk, where="seed"):
                if item.kind == segments.BLOB:
                    lines.append(b"#" + item.data)
                elif item.kind == segments.ENTRY:
                    body = canonical.loads(item.data)["body"]
                    if "payload" in body:
                        lines.append(Envelope.parse(body).payload)
                    elif body["content"]["op"] != "stored":  # ``build`` puts its own at the end
                        lines.append(canonical.dumps(body))
        return lines

    def write(self, data: bytes) -> None:
        """Let the log's one segment be these bytes."""
        self.segment.write_bytes(data)

    def build(self, data: bytes) -> bytes:
        """The bytes of a segment that holds the lines, with a checkpoint at the end."""
        out: list[bytes] = []
        digests: list[str] = []
        index, prev, leaves = 0, log.ZERO, tree.Tree()

        def entry(body: bytes) -> bytes:
            nonlocal index, prev
            made = log.entry_bytes(body, index, prev)
            index, prev = index + 1, hashlib.sha256(made).hexdigest()
            leaves.append(tree.leaf_hash(made))
            return segments.pack_item(segments.ENTRY, made)

        for line in data.split(b"\n")[:64]:
            body = self._body(line, digests)
            if body is None:
                line = line.removeprefix(b"#")
                digests.append(hashlib.sha256(line).hexdigest())
                out.append(segments.pack_item(segments.BLOB, line))
            else:
                digests.append(hashlib.sha256(body).hexdigest())
                out.append(entry(body))
        file = segments.raw_chunk(b"".join(out))
        stored = {
            "content": {
                "offset": len(file),
                "op": "stored",
                "segment": 0,
                "sha256": hashlib.sha256(file).hexdigest(),
            },
            "context": {},
            "v": 1,
        }
        file += segments.raw_chunk(entry(canonical.dumps(stored)))
        text = notes.Checkpoint(self.origin, index, leaves.root()).to_text()
        note = notes.sign_note(text, self.origin, self.identity)
        return file + segments.raw_chunk(segments.pack_item(segments.NOTE, note.encode()))

    def _body(self, line: bytes, digests: list[str]) -> bytes | None:
        if line.startswith(b"#"):
            return None
        try:
            value = _named(orjson.loads(line), digests)
            if type(value) is dict and "_type" in value:
                payload = canonical.dumps(value)
                return Envelope.sign(payload, self.identity).to_bytes()
            return canonical.dumps(value)
        except (orjson.JSONDecodeError, CounterfoilError):
            return None

    @contextlib.contextmanager
    def holding(self, data: bytes) -> Any:
        """The evidence with other bytes, for the code inside."""
        self.write(data)
        try:
            yield self.evidence
        finally:
            self.write(self.whole)


@functools.cache
def place() -> Place:
    """The home and evidence of this process."""
    root = Path(tempfile.mkdtemp(prefix="counterfoil-fuzz-"))
    os.chdir(root)
    return Place(root)


def _named(value: Any, digests: list[str]) -> Any:
    if type(value) is dict:
        return {key: _named(one, digests) for key, one in value.items()}
    if type(value) is list:
        return [_named(one, digests) for one in value]
    if (
        type(value) is str
        and value[:1] == "@"
        and value[1:].isascii()
        and value[1:].isdigit()
        and len(value) < 4
    ):
        return digests[int(value[1:])] if int(value[1:]) < len(digests) else "00" * 32
    return value
