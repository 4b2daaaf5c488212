"""Whatever is wrong with evidence, reading its segments side by side says of it what reading them in order says."""

from __future__ import annotations

import base64
import errno
import io
import os
import threading
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from forging import Forger, Item, identity

import counterfoil
from counterfoil import appending, canonical, keys, notes, parts, segments, tree
from counterfoil.engines import pool, work
from counterfoil.findings import Verification
from counterfoil.stores import folder

NAME = "00000000000000a1"
RUN = "1" * 32


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch) -> None:
    """What other processes do, done in this one."""

    class Here:
        """An answer that is found when it is asked for."""

        def __init__(self, task: bytes) -> None:
            self._task = task

        def result(self) -> bytes:
            return work.verify_segment(self._task)

        def cancel(self) -> None:
            pass

    monkeypatch.setattr(pool.PoolEngine, "submit", lambda self, task, told=None: Here(task))


def same(evidence: Path, **arguments: Any) -> Verification:
    """The outcome, which is the same in both ways."""
    one, two = (counterfoil.verify(evidence, jobs=jobs, full=True, **arguments) for jobs in (1, 2))
    assert two.findings == one.findings
    assert (two.verdict, two.notes, two.counts) == (one.verdict, one.notes, one.counts)
    return one


def codes(result: Verification) -> list[str]:
    return [one.code for one in result.findings]


# -- a log of four segments, everything computed anew -----------------------------------------------------------------


class Row(Forger):
    """Segments of one log; ``lie`` changes what the opening of a segment tells of the tree, and believes it."""

    def __init__(self, lies: dict[int, Callable[[dict[str, Any]], Any]], *, believed: bool = False) -> None:
        super().__init__(f"{identity().keyid}/{NAME}", identity())
        self.files: list[bytes] = []
        self.lies, self.believed = lies, believed

    def record(self, content: dict[str, Any], context: dict[str, Any]) -> Item:
        return segments.ENTRY, canonical.dumps({"content": content, "context": context, "v": 1})

    def opening(self, op: str = "segment", **context: Any) -> Item:
        told: Any = {"peaks": [peak.hex() for peak in self.tree.peaks()], "size": self.tree.size}
        lie = self.lies.get(len(self.files))
        told = told if lie is None else lie(told)
        if lie is not None and self.believed:
            self.tree = tree.Tree.from_peaks(told["size"], [bytes.fromhex(peak) for peak in told["peaks"]])
        return self.record({"op": op, "phase": "point"}, {"at": 1, "tree": told, **context})

    def session(self, **changes: Any) -> list[Item]:
        about = canonical.dumps({"broken": {}, "capabilities": {}, "environment": {}, "plugins": {}})
        spki = keys.PublicKey(identity().public.raw).spki
        context = {"about": _ref(about), "origin": self.origin, "spki": _b64(spki), **changes}
        return [(segments.BLOB, about), self.opening("session", **context)]

    def call(self, phase: str, call: str, op: str = "step", **content: Any) -> Item:
        return self.record({"op": op, "phase": phase, **content}, {"at": 1, "call": call, "run": RUN})

    def next(self, *listed: Item, note: bytes | None = None) -> None:
        """One segment: what is in it, and a checkpoint."""
        self.add(list(listed))
        self.checkpoint(note, segment=len(self.files))
        self.files.append(self.out)
        self.out = b""

    def put(self, evidence: Path) -> Path:
        place = evidence / NAME
        place.mkdir(parents=True)
        (evidence / ".gitignore").write_bytes(b"*\n")
        for number, data in enumerate(self.files):
            (place / f"{number:08d}.seg").write_bytes(data)
        return evidence


def _b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _ref(data: bytes, media: str = "application/vnd.counterfoil.value+json") -> dict[str, Any]:
    return {"media": media, "sha256": sha256(data).hexdigest(), "size": len(data)}


def _written(row: Row) -> Row:
    """Four segments of which each needs those before: what it cites, calls that are open, totals of a run."""
    text = b"cited later"
    row.next(*row.session(), (segments.BLOB, text), row.call("start", RUN), row.call("start", "a"))
    row.next(
        row.opening(),
        row.call("end", "a", response=_ref(text, "text/plain;charset=utf-8")),
        row.call("start", "b"),
    )
    row.next(row.opening(), row.call("end", "b", request=_ref(text, "text/plain;charset=utf-8")))
    totals = {"ended": 3, "started": 3}
    closed = row.record({"op": "closed", "phase": "point"}, {"at": 1})
    row.next(row.opening(), row.call("end", RUN, totals=totals), closed)
    return row


@pytest.fixture
def pinned(lab: Any) -> Any:
    """This home has an identity."""
    keys.load_or_create_identity()
    return lab


def test_what_is_forged_below_is_whole(pinned: Any) -> None:
    result = same(_written(Row({})).put(pinned.evidence))
    assert (result.verdict, codes(result)) == ("intact", [])


# -- what an opening tells of the tree --------------------------------------------------------------------------------

LIES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "one more": lambda told: {**told, "size": told["size"] + 1},
    "one less": lambda told: {**told, "size": told["size"] - 1},
    "as many peaks, smaller": lambda told: {**told, "size": (1 << len(told["peaks"])) - 1},
    "as many peaks, larger": lambda told: {**told, "size": told["size"] << 1},
    "of a size beyond all": lambda told: {**told, "size": 2**53 - 1},
    "of a negative size": lambda told: {**told, "size": -1},
    "of no size": lambda told: {"peaks": told["peaks"]},
    "a size that is a text": lambda told: {**told, "size": str(told["size"])},
    "a size that is a float": lambda told: {**told, "size": told["size"] + 0.5},
    "a size that is true": lambda told: {**told, "size": True},
    "a size that is null": lambda told: {**told, "size": None},
    "no peaks": lambda told: {"size": told["size"]},
    "peaks that are none": lambda told: {**told, "peaks": []},
    "one peak more": lambda told: {**told, "peaks": [*told["peaks"], "0" * 64]},
    "another peak": lambda told: {**told, "peaks": [*told["peaks"][:-1], "0" * 64]},
    "the peaks turned round": lambda told: {**told, "peaks": [*told["peaks"][1:], "f" * 64]},
    "peaks in capitals": lambda told: {**told, "peaks": [peak.upper() for peak in told["peaks"]]},
    "peaks with spaces": lambda told: {**told, "peaks": [f"{peak} " for peak in told["peaks"]]},
    "short peaks": lambda told: {**told, "peaks": [peak[2:] for peak in told["peaks"]]},
    "peaks that are numbers": lambda told: {**told, "peaks": [1] * len(told["peaks"])},
    "peaks that are an object": lambda told: {**told, "peaks": dict.fromkeys(told["peaks"], 1)},
    "peaks that are a text": lambda told: {**told, "peaks": "".join(told["peaks"])},
    "one member more": lambda told: {**told, "more": 1},
    "a list": lambda told: [told],
    "a text": lambda told: "tree",
    "null": lambda told: None,
}


@pytest.mark.parametrize("segment", [1, 2, 3])
@pytest.mark.parametrize("lie", LIES)
def test_a_lie_about_the_tree(pinned: Any, lie: str, segment: int) -> None:
    row = _written(Row({segment: LIES[lie]}))
    result = same(row.put(pinned.evidence))
    assert (result.verdict, codes(result)[:1]) == ("broken", ["CF-LOG-018"])


@pytest.mark.parametrize("segment", [1, 2, 3])
@pytest.mark.parametrize("lie", ["as many peaks, smaller", "as many peaks, larger", "another peak"])
def test_a_lie_about_the_tree_that_later_checkpoints_sign(pinned: Any, lie: str, segment: int) -> None:
    row = _written(Row({segment: LIES[lie]}, believed=True))
    result = same(row.put(pinned.evidence))
    assert (result.verdict, codes(result)[:1]) == ("broken", ["CF-LOG-018"])


@pytest.mark.parametrize("lie", [None, "as many peaks, smaller", "as many peaks, larger"])
def test_a_writer_goes_on_only_where_the_tree_is_right(pinned: Any, lie: str | None) -> None:
    row = _written(Row({} if lie is None else {3: LIES[lie]}, believed=True))
    pinned.record(evidence=row.put(pinned.evidence))
    logs = {path.parent.name for path in pinned.evidence.rglob("*.seg")}
    assert (logs == {NAME}) == (lie is None)


# -- what is said of calls, keys and records --------------------------------------------------------------------------


def _two(row: Row, first: list[Item], second: list[Item]) -> Verification:
    """What is said of two segments that hold this and that."""
    row.next(*row.session(), *first)
    row.next(row.opening(), *second)
    return same(row.put(keys.home().parent / "evidence"))


@pytest.mark.parametrize("op", ["loss", "closed", "step"])
@pytest.mark.parametrize(("one", "other"), [("start", "end"), ("end", "start"), ("start", "start")])
def test_records_of_the_log_itself_that_are_calls(pinned: Any, op: str, one: str, other: str) -> None:
    row = Row({})
    mixed = [row.call(one, "a", op), row.call(other, "a"), row.call(one, "b"), row.call(other, "b", op)]
    ended = op != "loss" and (one, other) == ("start", "end")
    assert _two(row, mixed[:1], mixed).verdict == ("intact" if ended else "incomplete")


@pytest.mark.parametrize("spki", ["é" * 60, "A" * 57 + "===", "=" * 60, " " * 60, 60, None, ["A" * 60], {}])
def test_a_session_whose_key_is_none(pinned: Any, spki: Any) -> None:
    row = Row({})
    row.next(*row.session(spki=spki))
    row.next(row.opening())
    row.next(*row.session(spki=spki))
    assert same(row.put(pinned.evidence)).verdict == "broken"


def test_a_fault_behind_many_that_nobody_can_judge_alone(pinned: Any) -> None:
    row = Row({})
    starts = [row.call("start", f"{number}") for number in range(1100)]
    known = [sha256(data).hexdigest() for _, data in starts]
    ends = [
        row.record(
            {"op": "step", "phase": "end"},
            {"call": f"{number}", "parents": [{"digest": digest, "rel": "control"}], "run": RUN},
        )
        for number, digest in enumerate(known)
    ]
    result = _two(row, starts, [*ends, row.record({"op": "x", "phase": "point", "x": 0.5}, {})])
    assert (result.verdict, codes(result)) == ("broken", ["CF-VERIFY-012"])


@pytest.mark.parametrize("wrong", [999, 1000, 1001, 1500])
def test_more_faults_than_are_listed(pinned: Any, wrong: int) -> None:
    row = Row({})
    ends = [row.call("end", f"{number}") for number in range(wrong)]
    parent = {"parents": [{"digest": "0" * 64, "rel": "data"}]}
    result = _two(row, ends, [row.record({"op": "x", "phase": "point"}, parent), *ends[:700]])
    assert result.verdict == "broken"
    assert len(result.findings) == 1001


_RECORDS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "bytes that are not there": ({"request": _ref(b"nowhere")}, {}),
    "bytes of another size": ({"request": {**_ref(b"twice"), "size": 4}}, {}),
    "bytes that are no value": ({"request": _ref(b"no value")}, {}),
    "a parent that is not there": ({}, {"parents": [{"digest": "0" * 64, "rel": "data"}]}),
    "parents that are no list": ({}, {"parents": {"digest": "0" * 64, "rel": "data"}}),
    "a handoff that is not there": ({}, {"handoffs": ["0" * 64, 1, None]}),
    "handoffs that are no list": ({}, {"handoffs": "0" * 64}),
    "totals of other calls": (
        {"phase": "end", "totals": {"ended": 9, "started": 9}},
        {"call": "a", "run": RUN},
    ),
    "totals that are true": (
        {"phase": "end", "totals": {"ended": True, "started": 1}},
        {"call": "a", "run": RUN},
    ),
    "totals of other names": ({"phase": "end", "totals": {"started": 1}}, {"call": "a", "run": RUN}),
    "totals below nothing": (
        {"phase": "end", "totals": {"ended": -1, "started": 1}},
        {"call": "a", "run": RUN},
    ),
    "a float": ({"x": 0.5}, {}),
    "a null": ({}, {"x": None}),
}


@pytest.mark.parametrize("segment", [0, 1])
@pytest.mark.parametrize("case", _RECORDS)
def test_a_record(pinned: Any, case: str, segment: int) -> None:
    content, context = _RECORDS[case]
    row = Row({})
    blobs: list[Item] = [(segments.BLOB, b"no value"), (segments.BLOB, b'"twice"'), (segments.BLOB, b"twice")]
    wrong = [row.record({"op": "x", "phase": "point"} | content, context), row.call("start", "z")]
    listed = [[*blobs, row.call("start", "a")], []]
    listed[segment] += wrong
    assert _two(row, *listed).verdict in ("broken", "incomplete")


@pytest.mark.parametrize(
    "body", [{"content": {}, "context": {}, "v": 2}, {"content": {}, "context": {}, "v": 1}, []]
)
@pytest.mark.parametrize("segment", [0, 1, 2])
def test_what_is_no_record_of_this_version(pinned: Any, body: Any, segment: int) -> None:
    row = Row({})
    later = (segments.ENTRY, canonical.dumps(body))
    for number in range(3):
        first = row.session() if number == 0 else [row.opening()]
        row.next(*([later, *first] if segment == number else first), later)
    assert same(row.put(pinned.evidence)).verdict in ("broken", "cannot-tell")


@pytest.mark.parametrize("op", ["session", "segment", "recovered", "step", "stored", "closed"])
@pytest.mark.parametrize("inside", [False, True])
def test_an_opening_out_of_place(pinned: Any, op: str, inside: bool) -> None:
    row = Row({})
    row.next(*row.session())
    row.next(*([row.opening()] if inside else []), row.opening(op))
    row.next(row.opening(), row.call("start", "a"))
    result = same(row.put(pinned.evidence))
    assert (result.verdict == "intact") <= (op == "segment" and not inside)


@pytest.mark.parametrize("segment", [0, 1, 2])
@pytest.mark.parametrize(
    "kind", ["empty", "of another size", "of another key", "one bit", "of the log before"]
)
def test_a_note(pinned: Any, kind: str, segment: int) -> None:
    row, told = Row({}), b""
    for number in range(3):
        if number == segment:
            row.add(row.session() if number == 0 else [row.opening()])
            before = row.tree
            size, root = before.size + (kind != "of another size"), b"\1" * 32
            key = keys.SigningKey.generate() if kind == "of another key" else identity()
            note = notes.sign_note(
                notes.Checkpoint(row.origin, size, root).to_text(), row.origin, key
            ).encode()
            wrong = {
                "empty": b"",
                "one bit": note[:-9] + bytes([note[-9] ^ 1]) + note[-8:],
                "of the log before": told,
            }
            row.next(note=wrong.get(kind, note))
        else:
            row.next(*(row.session() if number == 0 else [row.opening()]))
            told = told or row.files[-1][-300:]
    assert same(row.put(pinned.evidence)).verdict == "broken"


# -- what the system does not let be read -----------------------------------------------------------------------------


class _Bad(io.FileIO):
    """A file whose disk cannot be read from an offset on."""

    until = 0

    def readinto(self, buffer: Any) -> int:
        if self.tell() + len(memoryview(buffer)) > self.until:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return super().readinto(buffer)

    def readall(self) -> bytes:
        raise OSError(errno.EIO, os.strerror(errno.EIO))


def _failing(
    monkeypatch: pytest.MonkeyPatch,
    victim: Path,
    *,
    number: int,
    until: int = 0,
    there: Callable[[], bool] = lambda: True,
) -> None:
    """Opening or reading one file fails, wherever ``there`` says so."""
    real = folder._open_regular

    def opened(path: Path) -> Any:
        if path != victim or not there():
            return real(path)
        if number != errno.EIO:
            raise OSError(number, os.strerror(number), str(path))
        file = _Bad(path)
        file.until = until
        return io.BufferedReader(file, 512)

    monkeypatch.setattr(folder, "_open_regular", opened)


@pytest.fixture
def long(lab: Any, one_run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> Path:
    """Evidence of two logs of several segments, the second of which cites the first, both remembered here."""
    monkeypatch.setattr(appending, "SEGMENT_SIZE", 6000)
    for _ in range(2):
        recorder = lab.recorder()
        for number in range(4):
            one_run(recorder, number=number)
            recorder.open().checkpoint()
            assert recorder.flush()
        recorder.close()
    evidence: Path = lab.evidence
    assert len(list(evidence.rglob("*.seg"))) > 5
    return evidence


@pytest.mark.parametrize("share", [0, 0.3, 0.6, 0.99])
@pytest.mark.parametrize("number", [errno.EIO, errno.EACCES])
def test_a_segment_that_cannot_be_read(
    long: Path, monkeypatch: pytest.MonkeyPatch, number: int, share: float
) -> None:
    for victim in sorted(long.rglob("*.seg")):
        with monkeypatch.context() as patched:
            _failing(patched, victim, number=number, until=int(victim.stat().st_size * share))
            result = same(long)
        assert result.verdict == "cannot-tell", victim
        assert set(codes(result)) == {"CF-STORE-001" if number == errno.EIO else "CF-STORE-006"}, victim


@pytest.mark.parametrize("times", [1, 2, 3])
def test_a_disk_that_fails_some_other_process_only(
    long: Path, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    """What another process could not read is read here before anything is said."""
    check, local = parts.check_part, threading.local()
    victim = sorted(long.rglob("*.seg"))[1]

    def there() -> bool:
        left = getattr(local, "left", 0)
        local.left = max(left - 1, 0)
        return left > 0

    def elsewhere(task: parts.Task, told: Any) -> parts.Part | None:
        local.left = times
        try:
            return check(task, told)
        finally:
            local.left = 0

    _failing(monkeypatch, victim, number=errno.EIO, until=victim.stat().st_size // 2, there=there)
    monkeypatch.setattr(work, "check_part", elsewhere)
    assert same(long).verdict == "intact"
