"""Records what a model says piece by piece, while it says it, at the price of an append for each piece.

An adapter opens the stream of a call (``Recorder.stream``), gives it pieces (``add``) and ends the call; whatever ends
the call ends the stream, so none is left open. Hashing waits until 256 frames, 64 KiB or a second are together: then a
checkpoint goes into the log with the frames themselves, and a process that is killed leaves all but the last of them.
A stream holds no more in memory than what waits, however long it goes on. Source: ``shared/spec/streams.md``.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Sequence
from itertools import accumulate
from operator import sub
from time import monotonic_ns
from typing import TYPE_CHECKING, Any, Final

from counterfoil import records
from counterfoil.digest import MEDIA_BYTES, Reducer, Reference
from counterfoil.frames import FRAMES, Candidate, Running, sample

if TYPE_CHECKING:
    from counterfoil.calls import Call
    from counterfoil.intake import Intake
    from counterfoil.writer import Writer

__all__ = ["REASONS", "Stream", "Streams"]

REASONS: Final = frozenset(
    {"stop", "length", "tool_calls", "content_filter", "cancelled", "error", "abandoned"}
)
"""Why a stream ends."""
TICK: Final = 1.0
"""Seconds after which frames that wait go into the log."""
HELD: Final = 64 << 10
"""Bytes of long frames and of sampled tokens that make a checkpoint (what is short is counted by frames)."""
LONG: Final = 256
MOST_PARTS: Final = 16_384
"""Parts of a stream that are remembered; of a longer one the checkpoints tell, and its end states digests alone."""
INLINE: Final = 32
"""Parts that stand in a record; of more the list stands apart."""
MOST_FRAME: Final = 16 << 20
"""Bytes of a frame that is kept."""
_BY_STATUS: Final = {
    "cancelled": "cancelled",
    "error": "error",
    "abandoned": "abandoned",
    "interrupted": "cancelled",
}


class Stream:
    """One call's stream; ``add`` may be called from any thread and never waits for the disk.

    ``reason`` is why it ended, where the adapter knows better than the call's status tells.
    """

    __slots__ = (
        "_carry",
        "_held",
        "_ill",
        "_intake",
        "_kept",
        "_last",
        "_log",
        "_parts",
        "_queue",
        "_running",
        "_samples",
        "_streams",
        "call",
        "reason",
    )

    def __init__(self, streams: Streams, intake: Intake, call: Call) -> None:
        self.call = call
        self.reason = ""
        self._streams = streams
        self._intake = intake
        self._running = Running(call.id)
        self._queue: deque[tuple[str, str | bytes, int]] = deque()
        self._samples: deque[bytes] = deque()
        self._held = 0
        self._last = call.began // 1000
        self._carry: dict[str, str] = {}
        self._ill: set[str] = set()
        self._parts: list[tuple[str, int]] = []
        self._kept = bool(call.start)
        self._log = call.log

    def add(self, channel: str, data: str | bytes) -> None:
        """A piece came on a channel (``frames.channel``); an empty one is none."""
        if not data:
            return
        queue = self._queue
        queue.append((channel, data, monotonic_ns()))
        if len(queue) >= FRAMES or len(data) > LONG:
            if len(data) > LONG:
                self._held += len(data)
            if len(queue) >= FRAMES or self._held >= HELD:
                self.checkpoint()

    def sample(self, choice: int, candidates: Sequence[Candidate]) -> None:
        """A token was sampled: the chosen one first, then what else it was chosen from."""
        data = sample(choice, candidates)
        self._samples.append(data)
        self._held += len(data)
        if self._held >= HELD or len(self._samples) >= FRAMES:
            self.checkpoint()

    def restart(self) -> bool:
        """Forget the pieces that wait, because all of it comes again another way; False once a checkpoint was made.

        What is known of sampled tokens stays.
        """
        with self._intake._lock:
            if self._running.number:
                return False
            self._queue.clear()
            self._held = sum(map(len, self._samples))
            return True

    def checkpoint(self, *, older: int | None = None) -> None:
        """Put the frames that wait into the log; with ``older`` only if the first came before (monotonic, ns)."""
        with self._intake._lock:
            queue = self._queue
            if older is not None and (not queue or queue[0][2] > older) and (queue or not self._samples):
                return
            writer = self._intake._open()
            part = self._write(writer)
            if part is None or not self.call.start or self.call.log is not writer:
                return
            stream: dict[str, Any] = {
                "call": self.call.id,
                "frames": self._running.frames(),
                "number": self._running.number,
                "run": self.call.run.id,
                "v": 1,
            }
            if part.size:
                stream["part"] = part.to_dict()
            about = {"at": records.now(), "stream": stream}
            content = {"name": records.label(self.call.name), "op": "stream", "phase": "point"}
            if not self._intake._record(content, about):
                self._kept = False  # who reads it would miss one: then the end states digests alone

    def drop(self) -> None:
        """What comes from here on is nobody's."""
        self._queue, self._samples = deque(maxlen=0), deque(maxlen=0)

    def close(self, writer: Writer | None, status: str) -> dict[str, Any]:
        """End it with its call, whose recorder holds its lock; what the call's end states of it."""
        while self._queue or self._samples:
            self._write(writer)
        for channel, text in self._carry.items():
            self._ill.add(channel)
            self._queue.append((channel, text.encode("utf-8", "surrogatepass"), monotonic_ns()))
        self._carry = {}
        if self._queue:
            self._write(writer)
        self.drop()
        self._streams.closed(self)
        out = self._running.stated()
        out["end"] = self.reason or _BY_STATUS.get(status, "stop")
        if self._ill:
            out["ill"] = sorted(self._ill)
        if self._kept and self._parts and self._log is writer and writer is not None:
            parts = self._listed(writer)
            if parts is not None:
                out["parts"] = parts
        return out

    def _listed(self, writer: Writer) -> Any:
        """The parts: a list of references, or the reference of one; None where it was not taken."""
        parts = [Reference(digest, size, MEDIA_BYTES).to_dict() for digest, size in self._parts]
        if len(parts) <= INLINE:
            return parts
        taken: list[bool] = []
        reducer = Reducer(lambda digest, data: taken.append(writer.blob(digest, data)))
        listed = reducer.reference([{"$ref": part} for part in parts]).to_dict()
        return listed if all(taken) else None

    def _write(self, writer: Writer | None) -> Reference | None:
        """Take what waits (at most a part of it); the part, of no size where it is not kept; None: nothing waits."""
        queue, samples = self._queue, self._samples
        took = [queue.popleft() for _ in range(min(len(queue), FRAMES))]
        tokens = [samples.popleft() for _ in range(min(len(samples), FRAMES))]
        held = sum([len(one[1]) for one in took]) + sum(map(len, tokens))
        self._held = (
            0  # a piece that another thread adds just now may not count: then the next part is made later
        )
        if not took and not tokens:
            return None
        names = [one[0] for one in took]
        pieces: list[bytes]
        try:
            if self._carry:
                raise ValueError
            pieces = [one[1].encode() if isinstance(one[1], str) else one[1] for one in took]
        except ValueError:
            pieces = [self._bytes(one[0], one[1]) for one in took]
        times = [self._last, *[one[2] // 1000 for one in took]]
        after = list(map(sub, times[1:], times))
        if (
            after and min(after) < 0
        ):  # two threads may have been told in another order than they asked the clock
            times = list(accumulate(times, max))
            after = list(map(sub, times[1:], times))
        self._last = times[-1]
        kept = self._kept and writer is not None and self._log is writer and held <= MOST_FRAME
        digest, part = self._running.write(names, pieces, after, tokens, keep=kept)
        if not kept or len(self._parts) >= MOST_PARTS:
            self._kept = False
            return Reference("", 0, MEDIA_BYTES)
        assert writer is not None
        if not writer.blob(digest, part):
            self._kept = False
            return Reference("", 0, MEDIA_BYTES)
        self._parts.append((digest, len(part)))
        return Reference(digest, len(part), MEDIA_BYTES)

    def _bytes(self, channel: str, text: str | bytes) -> bytes:
        """UTF-8 of a text; half of a surrogate pair waits for the other half."""
        if isinstance(text, bytes):
            return text
        if self._carry and channel in self._carry:
            text = self._carry.pop(channel) + text
        try:
            return text.encode()
        except UnicodeEncodeError:
            pass
        if "\ud800" <= text[-1] <= "\udbff":
            self._carry[channel] = text[-1]
            text = text[:-1]
        joined = text.encode("utf-16-be", "surrogatepass").decode("utf-16-be", "surrogatepass")
        data = joined.encode("utf-8", "surrogatepass")
        try:
            data.decode()
        except UnicodeDecodeError:
            self._ill.add(channel)
        return data


class Streams:
    """The open streams of one recorder, and the clock that puts what waits into the log."""

    def __init__(self, intake: Intake) -> None:
        self._intake = intake
        self._open: dict[Stream, None] = {}
        self._thread: threading.Thread | None = None
        self._stop = threading.Event()

    def open(self, call: Call) -> Stream:
        """The stream of a call, opened at the first time."""
        with self._intake._lock:
            if call.stream is None:
                stream = Stream(self, self._intake, call)
                if call.end is not None or call.run.closed:
                    stream.drop()
                    return stream
                call.stream = stream
                self._open[stream] = None
                if self._thread is None and not self._stop.is_set():
                    self._thread = thread = threading.Thread(
                        target=self._run, name="counterfoil-streams", daemon=True
                    )
                    try:
                        thread.start()
                    except RuntimeError:
                        self._thread = None  # no room for one more: then checkpoints wait for 256 frames
            return call.stream

    def closed(self, stream: Stream) -> None:
        """One ended."""
        self._open.pop(stream, None)

    def stop(self) -> None:
        """No more of it: the recorder closes."""
        self._stop.set()

    def tick(self, now: int) -> None:
        """Put into the log what waits for a second at this time (monotonic, ns)."""
        with self._intake._lock:
            due = list(self._open)
        for stream in due:
            if not self._stop.is_set():
                stream.checkpoint(older=now - int(TICK * 1e9))

    def _run(self) -> None:
        while not self._stop.wait(TICK):
            with self._intake._lock:
                if not self._open:
                    self._thread = None
                    return
            try:
                self.tick(time.monotonic_ns())
            except Exception as exc:
                self._intake.loss(f"a stream's checkpoint: {type(exc).__name__}")
