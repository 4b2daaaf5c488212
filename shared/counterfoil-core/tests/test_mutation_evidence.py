"""Every change of a small folder of evidence: none is ever called intact, and a finding names the file."""

from __future__ import annotations

import io
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from counterfoil import keys, segments, verify
from counterfoil.findings import Verification

Change = Callable[[bytes, int], bytes]
"""What becomes of a file's bytes, at one place."""

CHANGES: dict[str, Change] = {
    f"bit {bit} of": lambda data, at, bit=bit: data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :]  # type: ignore[misc]
    for bit in range(8)
}
CHANGES |= {
    "one added to": lambda data, at: data[:at] + bytes([(data[at] + 1) % 256]) + data[at + 1 :],
    "00 instead of": lambda data, at: data[:at] + b"\x00" + data[at + 1 :],
    "ff instead of": lambda data, at: data[:at] + b"\xff" + data[at + 1 :],
    "without": lambda data, at: data[:at] + data[at + 1 :],
    "00 before": lambda data, at: data[:at] + b"\x00" + data[at:],
    "twice": lambda data, at: data[: at + 1] + data[at:],
    "cut before": lambda data, at: data[:at],
}
MACHINES = ("its own machine", "another machine")


def edges(data: bytes) -> list[tuple[int, int]]:
    """Where the chunks of a segment begin and end."""
    with io.BytesIO(data) as file:
        return [(one.start, one.end) for one in segments.read_chunks(file, where="")]


class Folder:
    """A small folder of evidence under attack, judged where it was written and where only its key is known."""

    def __init__(self, lab: Any) -> None:
        self.lab = lab
        self.verdicts: Counter[str] = Counter()
        self.files = [path for path in lab.files() if path.stat().st_size]
        self.segments: list[Path] = lab.segments()
        identity = keys.load_identity()
        assert identity is not None
        self._ring = keys.Keyring.of([identity.public])

    def judge(self, machine: str) -> Verification:
        with self.lab.at(self.lab.home if machine == MACHINES[0] else self.lab.elsewhere):
            return verify(self.lab.evidence, keyring=self._ring)

    def found(self, machine: str, what: object) -> Verification:
        """The verdict on what was changed: never intact, and everything said is whole."""
        found = self.judge(machine)
        assert found.verdict in ("broken", "incomplete"), what
        assert all(one.code and one.where and one.message for one in found.findings), what
        self.verdicts[found.verdict] += 1
        return found

    def attack(self, path: Path, data: bytes, machine: str, what: object) -> None:
        """One change of one file."""
        before = path.read_bytes()
        if data == before:
            return
        path.write_bytes(data)
        found = self.found(machine, what)
        path.write_bytes(before)
        # The one change that leaves nothing wrong in the file itself: the last segment, cut where a chunk ends. That
        # is what an unclean stop leaves, so that the finding is about the log: its end is not signed.
        harmless = path == self.segments[-1] and data in (before[:start] for start, _ in edges(before))
        name = path.parent.name if harmless else str(path.relative_to(self.lab.evidence))
        assert any(name in one.where for one in found.findings), (what, found.findings)

    def bytes(self, kind: str, machine: str, stride: int = 1) -> None:
        """A change at every place of every file, or at every ``stride``-th."""
        for path in self.files:
            data = path.read_bytes()
            for at in range(0, len(data), stride):
                self.attack(path, CHANGES[kind](data, at), machine, (kind, path.name, at))

    def chunks(self, machine: str) -> None:
        """Chunks left out, doubled, exchanged; segments cut at and within every chunk."""
        for path in self.segments:
            data = path.read_bytes()
            self.attack(path, data + b"\x00", machine, ("grown", path.name))
            parts = edges(data)
            for start, end in parts:
                self.attack(path, data[:start] + data[end:], machine, ("left out", start))
                self.attack(path, data[:end] + data[start:end] + data[end:], machine, ("doubled", start))
                for length in (start, start + 1, start + 15, (start + end) // 2, end - 1):
                    self.attack(path, data[:length], machine, ("cut", length))
                for low, high in parts:
                    if high <= start:
                        swapped = (
                            data[:low] + data[start:end] + data[high:start] + data[low:high] + data[end:]
                        )
                        self.attack(path, swapped, machine, ("exchanged", low, start))

    def whole(self, machine: str) -> Iterator[tuple[str, str]]:
        """Whole files and folders removed, copied, exchanged: what was done, and the place that must be named."""
        saved = self.lab.root / "saved"
        shutil.copytree(self.lab.evidence, saved)
        first, last = self.segments
        log, behind, other = first.parent, last.with_name("00000002.seg"), first.parent.with_name("0" * 16)
        one, two = first.read_bytes(), last.read_bytes()
        changes: list[tuple[str, Path, Callable[[], object]]] = [
            (f"{path.name} removed", log if path == last else path, path.unlink) for path in self.files
        ]
        for path in self.segments:
            changes += [
                (f"{path.name} again, as the next", behind, lambda path=path: shutil.copyfile(path, behind)),  # type: ignore[misc]
                (f"{path.name} made the next", path, lambda path=path: path.rename(behind)),  # type: ignore[misc]
                (
                    f"{path.name} under another name too",
                    log / "copy.seg",
                    lambda path=path: shutil.copyfile(path, log / "copy.seg"),  # type: ignore[misc]
                ),
            ]
        changes += [
            ("segments exchanged", first, lambda: (first.write_bytes(two), last.write_bytes(one))),
            ("segments joined", first, lambda: (first.write_bytes(one + two), last.unlink())),
            ("the log twice", other, lambda: shutil.copytree(log, other)),
            ("the log under another name", other, lambda: log.rename(other)),
            ("the log removed", log if machine == MACHINES[0] else self.lab.root, lambda: shutil.rmtree(log)),
        ]
        for what, place, change in changes:
            change()
            where = "evidence" if place == self.lab.root else str(place.relative_to(self.lab.evidence))
            yield what, where
            shutil.rmtree(self.lab.evidence)
            shutil.copytree(saved, self.lab.evidence)


@pytest.fixture
def small(lab: Any, monkeypatch: pytest.MonkeyPatch) -> Folder:
    """Evidence of a few kilobytes: two segments of one log."""
    monkeypatch.setattr("counterfoil.environment.capture", lambda **_: {})
    for number in range(2):
        recorder = lab.recorder()
        root = recorder.start("invoke_workflow", "app", actor=("app",), request=recorder.value({"n": number}))
        recorder.end(root, response=recorder.value("done " * 60))
        recorder.close()
    folder = Folder(lab)
    assert [folder.judge(machine).verdict for machine in MACHINES] == ["intact", "intact"]
    assert len(folder.segments) == 2
    return folder


def test_bytes_of_every_file_changed_here_and_there(small: Folder) -> None:
    for number, kind in enumerate(CHANGES):
        small.bytes(kind, MACHINES[number % 2], stride=113 + number)


@pytest.mark.parametrize("machine", MACHINES)
def test_chunks_of_every_file_changed(small: Folder, machine: str) -> None:
    small.chunks(machine)
    assert small.judge(machine).verdict == "intact"


@pytest.mark.parametrize("machine", MACHINES)
def test_whole_files_changed(small: Folder, machine: str) -> None:
    unseen = []
    for what, where in small.whole(machine):
        found = small.judge(machine)
        if found.verdict == "intact":
            unseen.append(what)
        else:
            # Where nothing is left or remembered there is nothing to judge.
            bare = what == "the log removed" and machine != MACHINES[0]
            assert found.verdict == ("cannot-tell" if bare else "broken"), what
            assert where in found.findings[0].where, (what, found.findings)
    # An older state of a log is whole: who neither remembers how far it went nor reads it elsewhere cannot see more.
    assert unseen == ([] if machine == MACHINES[0] else [f"{small.segments[-1].name} removed"])
    assert small.judge(machine).verdict == "intact"


@pytest.mark.long
@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("kind", CHANGES)
def test_every_byte_of_every_file_changed(small: Folder, kind: str, machine: str) -> None:
    small.bytes(kind, machine)
    print(f"{kind} every byte, on {machine}: {sum(small.verdicts.values())} changes; {dict(small.verdicts)}")
