"""Changes one character of a stored message in a copy of evidence, for ``counterfoil demo``.

The chunk is compressed again and its checksum is right again, as whoever can write the file would do it: what
is left to notice the change are the digests and signatures.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from counterfoil import canonical, segments
from counterfoil.digest import MEDIA_FOLD, MEDIA_JSON, Reference, references_in
from counterfoil.errors import ConfigError
from counterfoil.log import BlobSeen, LogScan
from counterfoil.reader import Reader, read
from counterfoil.stores import FolderStore

__all__ = ["Change", "change_one_character"]

_MODEL: Final = ("chat", "text_completion")
_FIGURE: Final = re.compile(rb"[A-Za-z,;:.] ([0-9])[0-9 :.%]")
_WORDS: Final = re.compile(rb"[A-Za-z]{3,} [a-z]([a-z])[a-z]* [a-z]{3,}")
_AROUND: Final = 28


@dataclass(frozen=True, slots=True)
class Change:
    """What was changed: the entry whose answer it is, the stored bytes, and the text around it."""

    log: str
    entry: int
    op: str
    actor: str
    blob: str
    before: str
    after: str


def change_one_character(evidence: Path) -> Change:
    """Change the answer of the last model call that says something; raises ConfigError (CF-CLI-053) if none does."""
    reader = read(evidence)
    answered = [call for call in reader.calls() if call.response is not None and call.op in _MODEL]
    for wanted, call in ((pattern, call) for pattern in (_FIGURE, _WORDS) for call in reversed(answered)):
        if call.end is None or call.response is None:
            continue
        for sha256, data in _blobs(reader, call.response):
            found = wanted.search(data)
            if found is None:
                continue
            at = found.start(1)
            old = data[at : at + 1]
            new = b"%d" % ((int(old) + 1) % 10) if old.isdigit() else (b"x" if old != b"x" else b"y")
            changed = data[:at] + new + data[at + 1 :]
            _replace(reader.store, call.end.log, sha256, changed)
            texts = [_around(text, at) for text in (data, changed)]
            return Change(call.end.log, call.end.index, call.op, call.actor, sha256, *texts)
    raise ConfigError("no model call has an answer to change", code="CF-CLI-053", where=str(evidence))


def _blobs(reader: Reader, ref: Reference) -> Iterator[tuple[str, bytes]]:
    """Stored bytes behind a reference: the texts it is made of first, then itself."""
    data = reader.blob(ref.sha256)
    if ref.media in (MEDIA_JSON, MEDIA_FOLD):
        value: Any = canonical.loads(data, max_depth=256)
        for inner in references_in(value):
            yield from _blobs(reader, inner)
    yield ref.sha256, data


def _replace(store: FolderStore, name: str, sha256: str, changed: bytes) -> None:
    for event in LogScan(store, name).events():
        if isinstance(event, BlobSeen) and event.sha256 == sha256:
            number, _, start, position = event.place
            break
    else:
        raise ConfigError("the bytes to change are gone", code="CF-CLI-053", where=name)
    where = store.segment_name(name, number)
    compressor = segments.Compressor()
    out = bytearray()
    with store.open_segment(name, number) as file:
        for chunk in segments.read_chunks(file, where=where):
            data = chunk.data
            if chunk.start == start:
                parts = enumerate(segments.items(chunk, where=where))
                data = b"".join(
                    segments.pack_item(item.kind, changed if at == position else item.data)
                    for at, item in parts
                )
            out += segments.raw_chunk(data) if chunk.form == segments.RAW else compressor.chunk(data)
    (store.root / where).write_bytes(out)


def _around(data: bytes, at: int) -> str:
    start = max(at - _AROUND, 0)
    text = data[start : at + _AROUND].decode("utf-8", "replace").strip("\ufffd")
    return " ".join(text.split())
