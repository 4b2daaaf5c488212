"""The pieces of a token stream as bytes: frames, the parts they are stored in, and the digests over them.

A stream is what a model said piece by piece. Its digests are three: of what was said on each channel, whatever pieces
it came in; of the pieces (frames) in their order; of the times between them. ``Running`` has them while the stream
goes on, for who writes it and for who reads it again. Source: ``shared/spec/streams.md``.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable, Sequence
from itertools import chain, repeat
from typing import Any, Final

from counterfoil import canonical, records
from counterfoil.digest import sha256_hex

__all__ = [
    "FRAMES",
    "MAGIC",
    "MAX_CHANNELS",
    "MAX_PART",
    "REST",
    "Candidate",
    "Frame",
    "Running",
    "channel",
    "sample",
]

MAGIC: Final = b"cfstream\x01"
"""How a part begins."""
FRAMES: Final = 256
"""Frames of a part at most."""
MAX_PART: Final = 64 << 20
"""Bytes of a part that is looked into."""
MAX_CHANNELS: Final = 64
REST: Final = "rest"
"""The channel of what comes on a further one."""
MAX_NAME: Final = 128
"""Characters of a channel's name."""

Frame = tuple[str, bytes, int]
"""Channel, bytes, and microseconds since the frame before (the first: since the call began)."""
Candidate = tuple[int | None, float | None, bytes | None]
"""A token that could be chosen: its id, its log probability, its bytes; what is not known is None."""

_ONE: Final = [bytes([number]) for number in range(128)]


def channel(choice: int, kind: str, key: str = "") -> str:
    """Name of a channel: ``0:text``, ``0:tool_args:call_1``; a name that is too long is told by its digest."""
    name = f"{choice}:{kind}:{records.actor_text((key,))}" if key else f"{choice}:{kind}"
    return name if len(name) <= MAX_NAME else f"{name[:60]}~{sha256_hex(name.encode())[:32]}"


def varint(number: int) -> bytes:
    """A number from 0 as unsigned LEB128."""
    if number < 1 << 7:
        return _ONE[number]
    if number < 1 << 14:
        return bytes((number & 127 | 128, number >> 7))
    if number < 1 << 21:
        return bytes((number & 127 | 128, number >> 7 & 127 | 128, number >> 14))
    return bytes((number & 127 | 128,)) + varint(number >> 7)


def sample(choice: int, candidates: Sequence[Candidate]) -> bytes:
    """One sampled token, the chosen one first, then those it was chosen from."""
    out = [varint(choice), varint(len(candidates))]
    for number, logprob, data in candidates:
        known = number is not None and 0 <= number <= canonical.MAX_INTEGER
        out.append(_ONE[known | (logprob is not None) << 1 | (data is not None) << 2])
        if known:
            assert number is not None
            out.append(varint(number))
        if logprob is not None:
            out.append(struct.pack(">d", logprob))
        if data is not None:
            out += (varint(len(data)), data)
    return b"".join(out)


class Running:
    """Digests of one call's stream so far; ``number`` parts with ``count`` frames went into them."""

    __slots__ = (
        "_call",
        "_content",
        "_frames",
        "_listed",
        "_names",
        "_sampling",
        "_timing",
        "count",
        "number",
        "samples",
        "size",
    )

    def __init__(self, call: str) -> None:
        self._call = call.encode()
        self._names: dict[str, int] = {}
        self._content: list[Any] = []
        self._frames = hashlib.sha256()
        self._timing = hashlib.sha256()
        self._sampling = hashlib.sha256()
        self._listed = hashlib.sha256()
        self.number = self.count = self.samples = self.size = 0

    # -- what it says -------------------------------------------------------------------------------------------------

    def frames(self) -> dict[str, Any]:
        """How many frames there were, and their digest."""
        return {"count": self.count, "sha256": self._frames.hexdigest()}

    def stated(self) -> dict[str, Any]:
        """The digests, as a record states them."""
        out: dict[str, Any] = {
            "bytes": self.size,
            "content": {name: self._content[at].hexdigest() for name, at in self._names.items()},
            "frames": self.frames(),
            "timing": self._timing.hexdigest(),
            "v": 1,
        }
        if self.samples:
            out["sampling"] = {"count": self.samples, "sha256": self._sampling.hexdigest()}
        return out

    def lists(self, digests: Iterable[str]) -> bool:
        """Whether these are the digests of the parts that went into it."""
        return self._listed.digest() == hashlib.sha256("".join(digests).encode()).digest()

    # -- writing ------------------------------------------------------------------------------------------------------

    def write(
        self,
        names: Sequence[str],
        pieces: Sequence[bytes],
        after: Sequence[int],
        samples: Sequence[bytes] = (),
        *,
        keep: bool = True,
    ) -> tuple[str, bytes]:
        """Take frames (by columns) and sampled tokens, at most 256 of each.

        Returns the part that holds them, its digest first; both are empty unless ``keep``.
        """
        sizes = list(map(len, pieces))
        if names and names.count(names[0]) == len(names) and names[0] in self._names and max(sizes) < 128:
            at = self._names[names[0]]
            said = b"".join(pieces)
            self._content[at].update(said)
            self.size += len(said)
            head = _ONE[at]
            # Most parts are of one channel and short pieces: they are put together without a look at each.
            frames = b"".join(chain.from_iterable(zip(repeat(head), map(_ONE.__getitem__, sizes), pieces)))
        else:
            frames = self._rows(names, pieces)
        before = self.count
        timing, sampled = (
            b"".join([_ONE[one] if one < 128 else varint(one) for one in after]),
            b"".join(samples),
        )
        self._take(len(names), frames, timing, len(samples), sampled)
        if not keep:
            return "", b""
        part = b"".join(
            (
                MAGIC,
                varint(len(self._call)),
                self._call,
                varint(self.number),
                varint(before),
                varint(len(names)),
                varint(len(timing)),
                timing,
                varint(len(samples)),
                varint(len(sampled)),
                sampled,
                frames,
            )
        )
        digest = sha256_hex(part)
        self._listed.update(digest.encode())
        return digest, part

    def _rows(self, names: Sequence[str], pieces: Sequence[bytes]) -> bytes:
        known = self._names
        rows: list[bytes] = []
        said: dict[int, list[bytes]] = {}
        for name, data in zip(names, pieces, strict=True):
            at = known.get(name)
            if at is None:
                at = self._named(name, rows)
            else:
                rows.append(_ONE[at])
            rows += (varint(len(data)), data)
            said.setdefault(at, []).append(data)
        for at, listed in said.items():
            whole = b"".join(listed)
            self._content[at].update(whole)
            self.size += len(whole)
        return b"".join(rows)

    def _named(self, name: str, rows: list[bytes]) -> int:
        """The number of a channel that is new, or of the one that takes what is beyond the most."""
        if len(self._names) - (REST in self._names) >= MAX_CHANNELS - 1 or not _is_name(name):
            name = REST
            if name in self._names:
                rows.append(_ONE[self._names[name]])
                return self._names[name]
        at = self._add(name)
        text = name.encode()
        rows += (_ONE[at], varint(len(text)), text)
        return at

    def _add(self, name: str) -> int:
        at = self._names[name] = len(self._content)
        self._content.append(hashlib.sha256())
        return at

    def _take(self, count: int, frames: bytes, timing: bytes, samples: int, sampled: bytes) -> None:
        self._frames.update(frames)
        self._timing.update(timing)
        self._sampling.update(sampled)
        self.count += count
        self.samples += samples
        self.number += 1

    # -- reading ------------------------------------------------------------------------------------------------------

    def read(self, part: bytes) -> list[Frame]:
        """Take the next part of the same call; its frames. Raises ValueError for what is no such part.

        What raised took nothing of the digests, but names of channels: who meets it goes on with another one.
        """
        if not part.startswith(MAGIC):
            raise ValueError("no part of a stream")
        row = _Row(part, len(MAGIC))
        call = row.take(row.number())
        number, before, count = row.number(), row.number(), row.number()
        if call != self._call or number != self.number + 1 or before != self.count:
            raise ValueError("a part of another stream, or another part of this one")
        timing = row.take(row.number())
        samples = row.number()
        sampled = row.take(row.number())
        start = row.at
        if count > FRAMES or samples > FRAMES:
            raise ValueError("a part of too many frames")
        times = _Row(timing, 0)
        found: list[Frame] = []
        names = list(self._names)
        for _ in range(count):
            at = row.number()
            if at == len(names):
                names.append(self._new(row.take(row.number())))
            elif at > len(names):
                raise ValueError("a channel without a name")
            found.append((names[at], row.take(row.number()), times.number()))
        row.ends()
        times.ends()
        _check_samples(_Row(sampled, 0), samples)
        for name, data, _ in found:
            self._content[self._names[name]].update(data)
            self.size += len(data)
        self._take(count, part[start:], timing, samples, sampled)
        self._listed.update(sha256_hex(part).encode())
        return found

    def _new(self, text: bytes) -> str:
        name = text.decode()
        if not (name == REST or _is_name(name)) or name in self._names:
            raise ValueError("no name of a channel")
        if len(self._content) >= MAX_CHANNELS:
            raise ValueError("too many channels")
        self._add(name)
        return name


class _Row:
    """Bytes that are read from left to right; ValueError where they end too soon or a number has another spelling."""

    __slots__ = ("at", "data")

    def __init__(self, data: bytes, at: int) -> None:
        self.data, self.at = data, at

    def number(self) -> int:
        """A varint of at most 2^53 - 1."""
        data, at = self.data, self.at
        if at >= len(data):
            raise ValueError("cut off")
        byte = data[at]
        self.at = at = at + 1
        if byte < 128:
            return byte
        out, shift = byte & 127, 7
        while True:
            if at >= len(data) or shift > 49:
                raise ValueError("no number")
            byte = data[at]
            at += 1
            out |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                break
        self.at = at
        if byte == 0 or out > canonical.MAX_INTEGER:
            raise ValueError("no number in its one spelling")
        return out

    def take(self, size: int) -> bytes:
        """So many bytes."""
        end = self.at + size
        if end > len(self.data):
            raise ValueError("cut off")
        start, self.at = self.at, end
        return self.data[start:end]

    def ends(self) -> None:
        """Nothing is left."""
        if self.at != len(self.data):
            raise ValueError("bytes are left over")


def _is_name(name: str) -> bool:
    """Whether a channel may be called so: with a colon, so that no record's member is taken for something else."""
    return ":" in name and len(name) <= MAX_NAME and not any("\ud800" <= one <= "\udfff" for one in name)


def _check_samples(row: _Row, count: int) -> None:
    for _ in range(count):
        row.number()
        for _ in range(row.number()):
            flags = row.number()
            if flags > 7:
                raise ValueError("a flag that is not known")
            if flags & 1:
                row.number()
            if flags & 2:
                row.take(8)
            if flags & 4:
                row.take(row.number())
    row.ends()
