"""A place of its own for every test that writes evidence: home, evidence folder, child processes."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

# importlib mode puts no folder on the path: this makes the kits importable, and those of the fuzzers.
sys.path.extend(str(Path(__file__).resolve().parent / name) for name in (".", "fuzzing"))

from parties import Party
from rotting import Pair
from sides import Side

from counterfoil import _walk, autostart, context, keys, moulds, plugins, values, verify
from counterfoil.findings import Verification
from counterfoil.recorder import Call, Recorder

NURSERY = Path(__file__).with_name("nursery.py")

# Small evidence is read the short way too, from the second entry of a form on: nothing may differ by it.
moulds.often = 1


class Lab:
    """One test's home (the machine under test), another one (any other machine) and evidence."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.home = root / "home"
        self.elsewhere = root / "elsewhere"
        self.evidence = root / "evidence"
        self._open: list[Recorder] = []

    # -- writing ------------------------------------------------------------------------------------------------------

    def recorder(self, evidence: Path | str | None = None, **settings: Any) -> Recorder:
        """A recorder that is closed with the test."""
        recorder = Recorder(evidence or self.evidence, **settings)
        self._open.append(recorder)
        return recorder

    def record(self, runs: int = 1, *, evidence: Path | None = None, calls: int = 2) -> None:
        """Evidence of some complete runs with a handoff each, from a session of its own."""
        recorder = self.recorder(evidence)
        for number in range(runs):
            run(recorder, calls=calls, number=number)
        recorder.close()

    @staticmethod
    def run(recorder: Recorder, *, calls: int = 2, number: int = 0) -> Call:
        """One complete run."""
        return run(recorder, calls=calls, number=number)

    def close(self) -> None:
        for recorder in self._open:
            recorder.close()

    # -- judging ------------------------------------------------------------------------------------------------------

    def verify(self, evidence: Path | None = None, **arguments: Any) -> Verification:
        """The verdict on this machine."""
        return verify(evidence or self.evidence, **arguments)

    def verify_elsewhere(self, evidence: Path | None = None) -> Verification:
        """The verdict of a machine that pinned this one's identity and remembers nothing."""
        identity = keys.load_identity()
        assert identity is not None
        with self.at(self.elsewhere):
            return verify(evidence or self.evidence, keyring=keys.Keyring.of([identity.public]))

    @contextlib.contextmanager
    def at(self, home: Path) -> Iterator[None]:
        """Another home for the code inside."""
        before = keys.home()
        keys.set_home(home)
        try:
            yield
        finally:
            keys.set_home(before)

    # -- files --------------------------------------------------------------------------------------------------------

    def files(self, evidence: Path | None = None) -> list[Path]:
        """Every file of the evidence."""
        return sorted(path for path in (evidence or self.evidence).rglob("*") if path.is_file())

    def segments(self, evidence: Path | None = None) -> list[Path]:
        """Every segment, in order."""
        return sorted((evidence or self.evidence).glob("*/*.seg"))

    # -- other processes ----------------------------------------------------------------------------------------------

    def environment(self, **more: str) -> dict[str, str]:
        """Environment of a child process: this test's home, this checkout's code."""
        environment = {**os.environ, "COUNTERFOIL_HOME": str(self.home), "PYTHONHASHSEED": "random"}
        environment["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
        return environment | more

    def start(
        self, code: str, *arguments: object, before: Sequence[str] = (), **more: str
    ) -> subprocess.Popen[str]:
        """A child process that runs ``code`` with the evidence folder as first argument, by the command ``before``."""
        words = [sys.executable, "-c", textwrap.dedent(code), str(self.evidence), *map(str, arguments)]
        command = [*before, *words]
        return subprocess.Popen(
            command,
            env=self.environment(**more),
            cwd=self.root,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            stdin=subprocess.PIPE,
            text=True,
        )

    def nursery(self) -> subprocess.Popen[str]:
        """A process that has everything loaded, and forks one that records for every order it reads."""
        return subprocess.Popen(
            [sys.executable, str(NURSERY)],
            env=self.environment(),
            cwd=self.root,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def python(
        self, code: str, *arguments: object, before: Sequence[str] = (), timeout: float = 300, **more: str
    ) -> str:
        """As ``start``, waited for; must end well; what it printed."""
        child = self.start(code, *arguments, before=before, **more)
        out, err = child.communicate(timeout=timeout)
        assert child.returncode == 0, err
        return out


def run(recorder: Recorder, *, calls: int = 2, number: int = 0) -> Call:
    """One complete run: a workflow, two agents with model calls, a handoff between them."""
    root = recorder.start("invoke_workflow", "app", actor=("app",), request=recorder.value({"n": number}))
    first = recorder.start("step", "writer", actor=("writer",), parent=root, key="1")
    for turn in range(calls):
        asked = recorder.value({"messages": [f"question {number} {turn} " * 40]})
        model = recorder.start("chat", "model", actor=("writer",), parent=first, request=asked)
        recorder.end(model, response=recorder.value(f"answer {number} {turn} " * 40))
    payload = recorder.value({"text": f"draft {number} " * 40})
    recorder.end(first, response=payload)
    handed = recorder.handoff(
        senders=[("writer",)],
        to=("reader",),
        signer=("app",),
        kind="edge",
        basis="observed",
        payload=payload,
        parents=[("control", first)],
        run=root.run,
    )
    second = recorder.start(
        "step",
        "reader",
        actor=("reader",),
        parent=root,
        key="2",
        request=payload,
        parents=[("control", first)],
        handoffs=[handed] if handed else [],
    )
    recorder.end(second)
    recorder.end(root, response=payload)
    return root


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    """A home and an evidence folder of this test alone."""
    place = Lab(tmp_path)
    before = keys.home()
    keys.set_home(place.home)
    yield place
    place.close()
    autostart.uninstall()
    context.enter(None)
    keys.set_home(before)


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """A home that nothing made yet."""
    path = tmp_path / "private" / "home"
    keys.set_home(path)
    yield path
    keys.set_home(None)


@pytest.fixture
def _unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Homes take turns in one process: on a busy machine a checkpoint that is due would be kept in another's home."""
    monkeypatch.setattr("counterfoil.writer.DELAY", 3600.0)


@pytest.fixture
def party(lab: Lab, no_plugins: Any, _unhurried: None) -> Iterator[Callable[..., Party]]:
    """``party(name, trusts=[...])``: an owner of a name with a home of its own, closed with the test."""
    made: list[Party] = []

    def make(name: str, *, trusts: Iterable[Party] = (), home: str | None = None) -> Party:
        one = Party(lab, name, home=home)
        one.trust(*trusts)
        made.append(one)
        return one

    yield make
    for one in made:
        one.close()


@pytest.fixture
def sender(party: Callable[..., Party]) -> Party:
    """An owner who sends."""
    return party("sender")


@pytest.fixture
def receiver(party: Callable[..., Party], sender: Party) -> Party:
    """An owner who trusts the sender."""
    return party("receiver", trusts=[sender])


@pytest.fixture
def sides(lab: Lab, no_plugins: Any, _unhurried: None) -> Iterator[tuple[Side, Side]]:
    """A sender, and a receiver that trusts it."""
    sender, receiver = Side(lab, "sender"), Side(lab, "receiver")
    receiver.trust(sender)
    yield sender, receiver
    sender.close()
    receiver.close()


@pytest.fixture
def valid(lab: Lab) -> Lab:
    """Evidence of one run, intact."""
    lab.record()
    assert lab.verify().verdict == "intact"
    return lab


@pytest.fixture
def pair(lab: Lab) -> Pair:
    """Evidence and a copy of it."""
    lab.record(calls=1)
    return Pair(lab)


@pytest.fixture
def one_run() -> Any:
    """``run(recorder)``: records one complete run."""
    return run


@pytest.fixture
def no_plugins(monkeypatch: pytest.MonkeyPatch) -> plugins.Plugins:
    """Plugins of this test alone: none, until it registers one."""
    found = plugins.Plugins(points=[])
    monkeypatch.setattr(plugins, "_loaded", found)
    return found


@pytest.fixture
def forms() -> Iterator[None]:
    """Forms that the test registers with ``values`` are gone afterwards."""
    before = dict(_walk.registered)
    yield
    _walk.registered.clear()
    _walk.registered.update(before)
    _walk.dispatch.clear()
    values._messages.clear()
