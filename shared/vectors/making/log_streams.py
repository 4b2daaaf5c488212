"""Logs with token streams: right ones, and ones whose records state what is not stored."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from making.cases import Case, begun, broken, ending
from making.formats import VALUE, jcs, sha256
from making.logs import RUN, Log
from making.stream_cases import MEDIA, Stream, token

CALL: Final = RUN
"""The call is a run of its own, so that it can be cut out."""
WRONG: Final = "CF-VERIFY-013"
_PIECES: Final = [("0:text", b"piece %d " % number, 18_000 + number) for number in range(12)]


class Talk:
    """A log in which one call is answered piece by piece."""

    def __init__(self, call: str = CALL, log: Log | None = None) -> None:
        self.log = log or begun()
        self.stream = Stream(call)
        self.call = call
        self.parts: list[dict[str, Any]] = []
        self.log.start("chat", "m", call)

    def part(self, count: int = 3, *, keep: bool = True, **wrong: Any) -> dict[str, Any]:
        """Store the next part."""
        at = len(self.stream.frames)
        tokens = wrong.pop("tokens", [])
        data = self.stream.part(_PIECES[at : at + count], tokens, **wrong)
        reference = {"media": MEDIA, "sha256": sha256(data), "size": len(data)}
        if keep:
            self.log.blob(data)
        self.parts.append(reference)
        return reference

    def checkpoint(self, *, without: str = "", **changes: Any) -> None:
        """The record behind a part."""
        told = {
            "call": self.call,
            "frames": self.stream.so_far(),
            "number": self.stream.number,
            "part": self.parts[-1] if self.parts else None,
            "run": RUN,
            "v": 1,
        } | changes
        told = {name: one for name, one in told.items() if name != without}
        self.log.record({"op": "stream", "phase": "point"}, {"at": self.log.now(), "stream": told})

    def stated(self, **changes: Any) -> dict[str, Any]:
        """What the end states."""
        found = {**self.stream.stated(), "end": "stop", "parts": self.parts} | changes
        return {name: one for name, one in found.items() if one is not None}

    def end(self, *, context: dict[str, Any] | None = None, **changes: Any) -> Log:
        """The end of the call, and of the log."""
        self.log.end("chat", "m", self.call, context={"stream": self.stated(**changes), **(context or {})})
        return ending(self.log)


def said(*counts: int) -> Talk:
    """A call that was answered in parts, a checkpoint behind each but the last."""
    talk = Talk()
    for number, count in enumerate(counts):
        talk.part(count)
        if number < len(counts) - 1:
            talk.checkpoint()
    return talk


def apart(talk: Talk, listed: Any = None) -> dict[str, Any]:
    """The reference of a list of parts."""
    data = jcs([{"$ref": one} for one in talk.parts] if listed is None else listed)
    return {**talk.log.blob(data), "media": VALUE}


def stream_cases() -> Iterator[Case]:
    """Streams in logs."""
    yield from right_cases()
    yield from end_cases()
    yield from checkpoint_cases()


def right_cases() -> Iterator[Case]:
    """What is to be believed, or passed over."""
    for name, counts in (("in one part", (3,)), ("in four parts", (3, 4, 1, 2)), ("of no frame", (0,))):
        yield Case(f"a stream {name}", said(*counts).end().evidence(), "intact", [])
    talk = said(3, 3)
    yield Case("a stream whose parts stand apart", talk.end(parts=apart(talk)).evidence(), "intact", [])
    talk = Talk()
    talk.part(3, tokens=[token(0, [(7, -0.25, b"x"), (8, -1.5, None)])])
    yield Case(
        "a stream with the probabilities of a token", talk.end(ill=["0:text"]).evidence(), "intact", []
    )
    yield Case("a stream that is not kept", said(3).end(parts=None).evidence(), "intact", [])
    talk = said(3, 3)
    talk.checkpoint(without="part")
    yield Case("a stream that is not kept to its end", talk.end(parts=None).evidence(), "intact", [])
    yield Case("a stream with more to say", said(3).end(more={"x": [1]}).evidence(), "intact", [])
    yield Case(
        "a stream that ended for a reason nobody knows", said(3).end(end="bored").evidence(), "intact", []
    )
    killed = said(3, 3)
    killed.checkpoint()
    yield Case("a stream that never ended", ending(killed.log).evidence(), "incomplete", ["CF-VERIFY-025"])
    first, second = Talk(), None
    second = Talk("6" * 32, first.log)
    for talk in (first, second, first, second):
        talk.part(2)
        talk.checkpoint()
    first.log.end("chat", "m", first.call, context={"stream": first.stated()})
    yield Case("two streams at once", second.end().evidence(), "intact", [])
    again = said(3, 3)
    again.log.end("chat", "m", CALL, context={"stream": again.stated()})
    yield Case("a wrong stream of another call of the same name", said_again(again).evidence(), "intact", [])
    for name, other in (("of a later version", {"v": 2}), ("that is a text", "x"), ("that is a list", [1])):
        talk = said(3)
        talk.log.end("chat", "m", CALL, context={"stream": other})
        yield Case(f"a stream {name}", ending(talk.log).evidence(), "intact", [])
    talk = said(3)
    late = {**talk.stated(), "bytes": 999}
    talk.log.end("chat", "m", CALL)
    talk.log.end("chat", "m", CALL, context={"late": True, "stream": late})
    yield Case("a wrong stream of an end that came late", ending(talk.log).evidence(), "intact", [])
    talk = said(3)
    talk.log.record({"name": "n", "op": "custom", "phase": "point"}, {"at": talk.log.now(), "stream": late})
    yield Case("a wrong stream where none is looked for", talk.end().evidence(), "intact", [])


def said_again(talk: Talk) -> Log:
    """The same call once more, with parts of its own."""
    more = Talk(CALL, talk.log)
    more.part(1)
    more.checkpoint(frames={"count": 7, "sha256": "0" * 64})
    more.part(1)
    return more.end(bytes=999)


def end_cases() -> Iterator[Case]:
    """Ends that state what is not so."""
    changed = {
        "bytes": 1,
        "content": {"0:text": "0" * 64},
        "content of another channel": {"0:reasoning": sha256(b"")},
        "content of no channel": {},
        "frames": {"count": 3, "sha256": "0" * 64},
        "frames of another number": {"count": 4, "sha256": "0" * 64},
        "timing": "0" * 64,
        "sampling": {"count": 1, "sha256": sha256(b"")},
        "sampling of nothing": {"count": 0, "sha256": sha256(b"")},
    }
    for name, value in changed.items():
        yield broken(
            f"a stream with another {name}", said(3, 3).end(**{name.partition(" ")[0]: value}), WRONG
        )
    for name, value in (
        ("bytes", True),
        ("bytes", -1),
        ("content", []),
        ("content", {"0:text": 7}),
        ("end", ""),
        ("end", 1),
        ("frames", "0" * 64),
        ("frames", {"count": 3}),
        ("frames", {"count": 3, "more": 1, "sha256": "0" * 64}),
        ("timing", {"sha256": "0" * 64}),
        ("timing", "0" * 63),
        ("sampling", 1),
    ):
        yield broken(f"a stream whose {name} is {jcs(value).decode()}", said(3).end(**{name: value}), WRONG)
    for name in ("bytes", "content", "end", "frames", "timing"):
        yield broken(
            f"a stream without {name}, and not kept", said(3).end(**{name: None, "parts": None}), WRONG
        )
    talk = said(3)
    talk.log.end("chat", "m", CALL, context={"call": 5, "stream": talk.stated()})
    yield Case(
        "a stream of no call",
        ending(talk.log).evidence(),
        "broken",
        [WRONG, "CF-VERIFY-025"],
        counts={"open": 1},
    )

    for name, changes in (
        ("no list", {"parts": 1}),
        ("no references", {"parts": ["x"]}),
        ("none", {"parts": []}),
        ("other bytes", {"parts": "text"}),
        ("in another order", {"parts": "turned"}),
        ("twice", {"parts": "twice"}),
        ("too few", {"parts": "few"}),
        ("of another call", {"parts": "other"}),
    ):
        talk = said(3, 3)
        if changes["parts"] == "text":
            changes = {"parts": [{**talk.log.blob(b"text"), "media": MEDIA}]}
        elif changes["parts"] == "turned":
            changes = {"parts": talk.parts[::-1]}
        elif changes["parts"] == "twice":
            changes = {"parts": [*talk.parts, talk.parts[-1]]}
        elif changes["parts"] == "few":
            changes = {"parts": talk.parts[:1]}
        elif changes["parts"] == "other":
            data = Stream("6" * 32).part(_PIECES[:6])
            changes = {"parts": [{**talk.log.blob(data), "media": MEDIA}]}
        yield broken(f"a stream whose parts are {name}", talk.end(**changes), WRONG)
    talk = said(3)
    text = {**talk.parts[0], "media": "text/plain"}
    yield broken("a stream whose part is cited as something else", talk.end(parts=[text]), WRONG)
    talk = Talk()
    talk.part(3, keep=False)
    yield broken("a stream whose part is missing", talk.end(), "CF-VERIFY-010")
    talk = Talk()
    talk.part(3, keep=False)
    yield broken("a stream whose part is missing, and more is wrong", talk.end(bytes=999), "CF-VERIFY-010")
    talk = said(3)
    size = [{**talk.parts[0], "size": 5}]
    yield broken("a stream whose part has another size", talk.end(parts=size), "CF-VERIFY-010")
    talk = said(3)
    size = [{**talk.parts[0], "size": "5"}]
    yield broken("a stream whose part is cited by no number", talk.end(parts=size), "CF-VERIFY-010")
    talk = said(3)
    none = {**talk.parts[0], "size": "5"}
    yield broken("a stream whose list is cited by no number", talk.end(parts=none), "CF-VERIFY-010", WRONG)

    for name, listed, codes in (
        ("is no list", {"x": 1}, [WRONG]),
        ("holds something else", [1], [WRONG]),
        ("holds bare references", "bare", [WRONG]),
    ):
        talk = said(3)
        listed = talk.parts if listed == "bare" else listed
        yield broken(f"a list of parts that {name}", talk.end(parts=apart(talk, listed)), *codes)
    talk = said(3)
    yield broken("a part in the place of a list", talk.end(parts=talk.parts[0]), WRONG)
    talk = Talk()
    talk.part(3, keep=False)
    yield broken("a list of a part that is missing", talk.end(parts=apart(talk)), "CF-VERIFY-010")
    first = said(3)
    listed = apart(first)
    first.log.end("chat", "m", CALL, context={"stream": first.stated(parts=listed)})
    second = Talk("6" * 32, first.log)
    yield broken("a list of parts that two streams name", second.end(parts=listed), WRONG)
    talk = said(3, 3)
    talk.checkpoint(number=1, frames={"count": 7, "sha256": "0" * 64})
    yield Case("a wrong checkpoint that is the first once more", talk.end().evidence(), "intact", [])
    talk = Talk()
    talk.part(3, number=b"\x02")
    yield broken("a part with another number", talk.end(), WRONG)


def checkpoint_cases() -> Iterator[Case]:
    """Checkpoints that tell what is not so; the end behind them is right."""
    for name, changes in (
        ("other frames", {"frames": {"count": 3, "sha256": "0" * 64}}),
        ("frames of another number", {"frames": {"count": 2, "sha256": "0" * 64}}),
        ("no frames", {"without": "frames"}),
        ("no call", {"without": "call"}),
        ("a number that is none", {"number": True}),
        ("the number 0", {"number": 0}),
        ("a number that is too large", {"number": 2}),
        ("a part that is none", {"part": "x"}),
        ("another call", {"call": "6" * 32}),
    ):
        talk = Talk()
        talk.part(3)
        talk.checkpoint(**changes)
        talk.part(3)
        yield broken(f"a checkpoint of a stream with {name}", talk.end(), WRONG)
    talk = Talk()
    talk.part(3)
    talk.checkpoint(part={**talk.parts[0], "sha256": "0" * 64})
    talk.part(3)
    yield broken("a checkpoint of a stream whose part is missing", talk.end(), "CF-VERIFY-010")
    talk = said(3, 3)
    talk.part(3)
    talk.checkpoint()
    talk.part(1)
    yield broken("a checkpoint of a stream that lacks the one before", talk.end(), WRONG)
    talk = said(3, 3)
    talk.checkpoint()
    talk.checkpoint()
    yield broken("a checkpoint of a stream that comes twice", talk.end(), WRONG)
    talk = said(3, 3)
    talk.log.checkpoint()
    talk.log.segment()
    talk.log.session()
    talk.checkpoint()
    yield Case(
        "a checkpoint of a stream that goes on in another session",
        ending(talk.log).evidence(),
        "incomplete",
        ["CF-VERIFY-025"],
    )
    talk = said(3, 3)
    talk.log.checkpoint()
    talk.log.segment()
    talk.log.opening()
    talk.checkpoint()
    talk.part(2)
    yield Case("a stream that goes on in the next segment", talk.end().evidence(), "intact", [])
    talk = said(3, 3)
    talk.log.end("chat", "m", CALL, context={"stream": talk.stated()})
    talk.part(1)
    talk.checkpoint()
    yield Case("a checkpoint of a stream that ended", ending(talk.log).evidence(), "intact", [])
