"""Token streams a second time, from ``shared/spec/streams.md``: parts, digests, and parts that are none."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Any, Final

from making.formats import sha256

MEDIA: Final = "application/octet-stream"
MAGIC: Final = b"cfstream\x01"

Frame = tuple[str, bytes, int]
Candidate = tuple[int | None, float | None, bytes | None]


def leb(number: int) -> bytes:
    """A varint."""
    low, rest = number & 127, number >> 7
    return bytes([low | 128]) + leb(rest) if rest else bytes([low])


def counted(data: bytes) -> bytes:
    """Bytes behind their length."""
    return leb(len(data)) + data


def token(choice: int, candidates: Sequence[Candidate]) -> bytes:
    """The row of a sampled token."""
    out = leb(choice) + leb(len(candidates))
    for number, chance, data in candidates:
        flags = (number is not None) + 2 * (chance is not None) + 4 * (data is not None)
        out += bytes([flags])
        out += b"" if number is None else leb(number)
        out += b"" if chance is None else struct.pack(">d", chance)
        out += b"" if data is None else counted(data)
    return out


class Stream:
    """A stream in the making; ``part`` appends one, keywords make it wrong."""

    def __init__(self, call: str) -> None:
        self.call = call
        self.names: list[str] = []
        self.frames: list[Frame] = []
        self.rows = self.times = self.tokens = b""
        self.sampled = self.number = 0

    def part(self, frames: Sequence[Frame] = (), tokens: Sequence[bytes] = (), **wrong: Any) -> bytes:
        """The next part."""
        before, rows = len(self.frames), b""
        for name, data, _ in frames:
            new = name not in self.names
            if new:
                self.names.append(name)
            rows += leb(self.names.index(name)) + (counted(name.encode()) if new else b"") + counted(data)
        times, sampled = b"".join(leb(after) for _, _, after in frames), b"".join(tokens)
        self.frames += frames
        self.rows += rows
        self.times += times
        self.tokens += sampled
        self.sampled += len(tokens)
        self.number += 1
        made = {
            "magic": MAGIC,
            "call": counted(self.call.encode()),
            "number": leb(self.number),
            "before": leb(before),
            "count": leb(len(frames)),
            "times": counted(times),
            "samples": leb(len(tokens)),
            "sampled": counted(sampled),
            "rows": rows,
            "more": b"",
        }
        return b"".join((made | wrong).values())

    def so_far(self) -> dict[str, Any]:
        """How many frames, and their digest."""
        return {"count": len(self.frames), "sha256": sha256(self.rows)}

    def stated(self) -> dict[str, Any]:
        """What a record states, without its end and its parts."""
        content = {
            name: sha256(b"".join(data for one, data, _ in self.frames if one == name)) for name in self.names
        }
        out = {
            "bytes": sum(len(data) for _, data, _ in self.frames),
            "content": content,
            "frames": self.so_far(),
            "timing": sha256(self.times),
            "v": 1,
        }
        sampling = {"count": self.sampled, "sha256": sha256(self.tokens)}
        return {**out, "sampling": sampling} if self.sampled else out


def build() -> dict[str, Any]:
    """The file."""
    return {"refused": list(refused()), "streams": list(streams())}


_TALK: Final[list[Frame]] = [
    ("0:reasoning", b"hm", 250_000),
    ("0:text", b"It ", 18_000),
    ("0:text", "is \u2603".encode(), 127),
    ("0:text", b"4", 128),
    ("0:tool_name:call_1", b"add", 16_383),
    ("0:tool_args:call_1", b'{"a":', 16_384),
    ("1:text", b"Four", 0),
    ("0:tool_args:call_1", b"1}", 3_600_000_000),
]
_TOKENS: Final = [
    token(0, [(1234, -0.5, b"It"), (99, -1.25, b"Er"), (None, float("-inf"), None)]),
    token(0, [(None, -0.0, b"\xe2\x98")]),
    token(1, [((1 << 53) - 1, None, None)]),
    token(0, []),
]


def streams() -> Iterator[dict[str, Any]]:
    """Streams, part by part."""
    many = [("0:text", b"word%d " % number, number * 7) for number in range(300)]
    wide = [(f"{number}:text", b"x", 1) for number in range(63)] + [("rest", b"y", 1), ("rest", b"z", 2)]
    for name, call, parts in (
        ("nothing was said", "c1", [([], [])]),
        ("one piece", "c1", [([("0:text", b"Hello", 1000)], [])]),
        ("channels, times and tokens", "0" * 32, [(_TALK, _TOKENS)]),
        (
            "the same in three parts",
            "0" * 32,
            [(_TALK[:3], _TOKENS[:1]), (_TALK[3:4], []), (_TALK[4:], _TOKENS[1:])],
        ),
        (
            "two parts, the first of them full",
            "c\u00e9",
            [(many[at : at + 256], []) for at in (0, 256)],
        ),
        ("as many channels as there can be", "c1", [(wide, [])]),
        (
            "a long piece, and one of no text",
            "c1",
            [([("0:text", b"x" * 20_000, 1), ("0:audio", b"\xff\x00", 2)], [])],
        ),
        ("half a surrogate pair", "c1", [([("0:text", b"\xed\xa0\xbd", 5)], [])]),
    ):
        stream, out = Stream(call), []
        for frames, tokens in parts:
            data = stream.part(frames, tokens)
            told = [{"after": after, "channel": one, "hex": piece.hex()} for one, piece, after in frames]
            out.append(
                {
                    "frames": told,
                    "hex": data.hex(),
                    "sha256": sha256(data),
                    "stated": stream.stated(),
                    "tokens": [one.hex() for one in tokens],
                }
            )
        yield {"call": call, "name": name, "parts": out}


def refused() -> Iterator[dict[str, Any]]:
    """Parts that are none of the call ``c1``, each behind those before it."""
    hello: list[Frame] = [("0:text", b"Hello", 5)]
    wrong: dict[str, dict[str, Any]] = {
        "another beginning": {"magic": b"cfstream\x02"},
        "another call": {"call": counted(b"c2")},
        "another number": {"number": leb(3)},
        "other frames before": {"before": leb(0)},
        "more frames than it holds": {"count": leb(2)},
        "fewer frames than it holds": {"count": leb(0)},
        "more times than frames": {"times": counted(leb(5) * 2)},
        "fewer times than frames": {"times": counted(b"")},
        "a time that is cut off": {"times": counted(b"\x85")},
        "a time in another spelling": {"times": counted(b"\x85\x00")},
        "a time beyond 2^53": {"times": counted(leb(1 << 53))},
        "a time of nine bytes": {"times": counted(b"\x80" * 8 + b"\x01")},
        "tokens that it does not tell": {"sampled": counted(_TOKENS[0])},
        "a token with an unknown flag": {"samples": leb(1), "sampled": counted(b"\x00\x01\x08")},
        "a token that is cut off": {"samples": leb(1), "sampled": counted(_TOKENS[1][:-1])},
        "257 tokens": {"samples": leb(257), "sampled": counted(_TOKENS[3] * 257)},
        "257 frames": {"count": leb(257), "times": counted(b"\x01" * 257), "rows": b"\x00\x01x" * 257},
        "bytes behind its frames": {"more": b"\x00"},
        "a channel without a name": {"rows": b"\x02\x01x"},
        "a channel named twice": {"rows": b"\x01" + counted(b"0:text") + counted(b"x")},
        "a channel without a colon": {"rows": b"\x01" + counted(b"text") + counted(b"x")},
        "a channel of no text": {"rows": b"\x01" + counted(b"0:\xff") + counted(b"x")},
        "a channel of 129 characters": {"rows": b"\x01" + counted(b"0:" + b"x" * 127) + counted(b"x")},
        "a piece that is cut off": {"rows": b"\x00\x05Hell"},
    }
    for name, how in wrong.items():
        stream = Stream("c1")
        before = stream.part(hello)
        part = stream.part(hello, **how)
        yield {"before": [before.hex()], "hex": part.hex(), "name": name}
    wide = [(f"{number}:text", b"x", 1) for number in range(65)]
    yield {"before": [], "hex": Stream("c1").part(wide).hex(), "name": "65 channels"}
    yield {"before": [], "hex": "", "name": "nothing"}
    yield {"before": [], "hex": MAGIC.hex(), "name": "a beginning alone"}
    whole = Stream("c1").part(_TALK, _TOKENS)
    yield {"before": [], "hex": whole[:-1].hex(), "name": "cut off"}
