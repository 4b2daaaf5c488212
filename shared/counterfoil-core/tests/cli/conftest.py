"""Evidence to read, an adapter to record with, and the command as a process of its own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import counterfoil
from counterfoil import keys
from counterfoil.cli import main
from counterfoil.recorder import Recorder

CORE = Path(__file__).resolve().parents[2]
SRC = CORE / "src"
ANSWER = "The report says that checkout waited from 09:44 on, and that nothing was lost. " * 6


@contextmanager
def at_home(folder: Path) -> Iterator[None]:
    """This process's keys in a folder of the test's own."""
    keys.set_home(folder)
    try:
        yield
    finally:
        keys.set_home(None)


@dataclass
class Command:
    """``counterfoil`` as a process, in a working folder, with a home of its own."""

    folder: Path
    home: Path
    environment: dict[str, str] = field(default_factory=dict)

    def start(self, *words: object, **more: str) -> subprocess.Popen[str]:
        pipe = subprocess.PIPE
        command = [sys.executable, "-P", "-m", "counterfoil", *map(str, words)]
        return subprocess.Popen(
            command,
            cwd=self.folder,
            env=self.variables(**more),
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            text=True,
        )

    def variables(self, **more: str) -> dict[str, str]:
        own = {"COUNTERFOIL_HOME": str(self.home), "PYTHONPATH": str(SRC), "COLUMNS": "80", "PYTHONUTF8": "1"}
        return {**os.environ, **own, **self.environment, **more}

    def run(self, words: list[str], stdin: str, more: dict[str, str]) -> tuple[int, str, str]:
        process = self.start(*words, **more)
        out, err = process.communicate(stdin, timeout=120)
        return process.returncode, out, err

    def __call__(self, *words: object, stdin: str = "", **more: str) -> subprocess.CompletedProcess[str]:
        done = subprocess.CompletedProcess(words, *self.run([str(word) for word in words], stdin, more))
        assert "Traceback" not in done.stdout + done.stderr, done.stderr
        return done

    def json(self, *words: object, code: int = 0) -> Any:
        done = self(*words, "--json")
        assert (done.returncode, done.stderr) == (code, ""), done.stderr
        return json.loads(done.stdout)


class Inside(Command):
    """The same in this process, where starting an interpreter is not what is tested."""

    capture: pytest.CaptureFixture[str]

    def run(self, words: list[str], stdin: str, more: dict[str, str]) -> tuple[int, str, str]:
        assert not stdin
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(self.folder)
            for name, value in self.variables(**more).items():
                patch.setenv(name, value)
            with at_home(Path(more.get("COUNTERFOIL_HOME", self.home))):
                code = main(words)
        return code, *self.capture.readouterr()


@dataclass(frozen=True)
class Desk:
    """Evidence of two equal runs: planner > clear > writer > reviewer and back; ``calls`` are the last run's."""

    home: Path
    evidence: Path
    calls: Mapping[str, Any]
    handoffs: Mapping[str, str]

    def copy(self, to: Path) -> Path:
        shutil.copytree(self.evidence, to)
        return to

    @property
    def segment(self) -> str:
        (log,) = (path for path in self.evidence.iterdir() if path.is_dir())
        return f"{log.name}/00000000.seg"


def work(recorder: Recorder, question: str) -> tuple[dict[str, Any], dict[str, str]]:
    """One run of the desk."""
    value = recorder.value
    root = recorder.start("invoke_workflow", "desk", actor=("desk",), request=value({"question": question}))
    calls: dict[str, Any] = {"desk": root}
    handoffs: dict[str, str] = {}

    def act(name: str, key: str, **more: Any) -> Any:
        call = recorder.start(
            "step", name, actor=(name,), parent=root, key=key, request=value({"question": question}), **more
        )
        calls[name] = call
        return call

    def chat(agent: Any, answer: str) -> None:
        request = value({"model": "m-1", "messages": [question, *([ANSWER] if answer != ANSWER else [])]})
        call = recorder.start("chat", "m-1", actor=agent.actor, parent=agent, request=request)
        calls[f"{agent.name} chat"] = call
        recorder.end(call, response=value({"answer": answer}))

    def hand(sender: Any, to: str, kind: str, basis: str, rel: str = "control", **more: Any) -> str:
        digest = recorder.handoff(
            senders=[sender.actor],
            to=(to,),
            signer=sender.actor,
            kind=kind,
            basis=basis,
            payload=value({"from": sender.name, "text": ANSWER}),
            parents=[(rel, sender)],
            run=root.run,
            **more,
        )
        assert digest is not None
        handoffs[f"{sender.name} {to}"] = digest
        return digest

    planner = act("planner", "1")
    chat(planner, "look it up")
    tool = recorder.start(
        "execute_tool", "lookup", actor=("planner",), parent=planner, request=value({"arguments": {"id": 7}})
    )
    recorder.end(tool, response=value("seven"))
    recorder.end(planner)
    first = hand(planner, "clear", "command", "sealed")
    clear = act("clear", "2", parents=[("control", planner)], handoffs=[first])
    recorder.end(clear)
    second = hand(clear, "writer", "edge", "observed")
    writer = act("writer", "3", parents=[("control", clear)], handoffs=[second])
    chat(writer, ANSWER)
    third = hand(writer, "reviewer", "call", "sealed", "call")
    reviewer = act("reviewer", "4", parents=[("call", writer)], handoffs=[third])
    chat(reviewer, "good")
    recorder.end(reviewer)
    hand(reviewer, "writer", "return", "sealed", "return", call=writer.id)
    recorder.end(writer)
    recorder.end(root, response=value({"report": ANSWER}))
    return calls, handoffs


@pytest.fixture(scope="session")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Desk:
    folder = tmp_path_factory.mktemp("desk")
    with at_home(folder / "home"):
        recorder = counterfoil.Recorder(folder / "evidence")
        work(recorder, "what happened?")
        calls, handoffs = work(recorder, "and then?")
        recorder.close()
    return Desk(folder / "home", folder / "evidence", calls, handoffs)


@pytest.fixture
def process(desk: Desk, tmp_path: Path) -> Command:
    """The command as a process, with the desk's own home, so that its evidence is intact."""
    return Command(tmp_path, desk.home)


@pytest.fixture
def cli(desk: Desk, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Command:
    """The command inside this process, with the desk's own home."""
    inside = Inside(tmp_path, desk.home)
    inside.capture = capsys
    return inside


@pytest.fixture
def newcomer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Command:
    """The command inside this process, with a home in which nothing is yet."""
    inside = Inside(tmp_path, tmp_path / "home")
    inside.capture = capsys
    return inside


@pytest.fixture
def stranger(tmp_path: Path) -> Command:
    """The command as a process, with a home in which nothing is yet."""
    return Command(tmp_path, tmp_path / "home")


FRAME = '''
"""A framework that knows nothing of recording."""
observer = None


def work(answer):
    if observer is not None:
        observer(answer)
    print(answer)
'''
PLUGIN = '''
"""The adapter of the framework ``fakeframe``, and what the demo runs."""
import contextlib

import counterfoil
from counterfoil.hooks import Instrumentation


def install(recorder):
    import fakeframe

    def observer(answer):
        value = recorder.value
        root = recorder.start("invoke_workflow", "fake", actor=("fake",), request=value({"a": 1}))
        agent = recorder.start("step", "asker", actor=("asker",), parent=root, key="1", request=value({"a": 1}))
        chat = recorder.start("chat", "m", actor=("asker",), parent=agent, request=value({"a": 1}))
        recorder.end(chat, response=value({"answer": answer}))
        tool = recorder.start("execute_tool", "t", actor=("asker",), parent=agent, request=value({"a": 1}))
        recorder.end(tool, response=value("done"))
        recorder.end(agent)
        handed = recorder.handoff(senders=[("asker",)], to=("teller",), signer=("asker",), kind="edge",
            basis="observed", payload=value({"a": answer}), parents=[("control", agent)], run=root.run)
        teller = recorder.start("invoke_agent", "teller", actor=("teller",), parent=root, key="2",
            request=value({"a": answer}), parents=[("control", agent)], handoffs=[handed])
        recorder.end(teller)
        recorder.end(root, response=value(answer))

    fakeframe.observer = observer


def uninstall():
    pass


@counterfoil.hookimpl
def counterfoil_instrumentations():
    return [Instrumentation("fake", "fakeframe", install, uninstall)]


@contextlib.contextmanager
def serve():
    yield ["-m", "fakeapp"], {"FAKE_ANSWER": "The pool of 100 connections was in use since 09:44."}
'''
APP = """
import os
import fakeframe
if os.environ.get("FAKE_SILENT"):
    fakeframe.observer = None
fakeframe.work(os.environ.get("FAKE_ANSWER", "forty-one is the answer to that"))
"""


@pytest.fixture(scope="session")
def fakes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for PYTHONPATH that holds a framework, its adapter as an installed plugin, and an application."""
    folder = tmp_path_factory.mktemp("fakes")
    for name, text in (("fakeframe", FRAME), ("fakeplug", PLUGIN), ("fakeapp", APP)):
        (folder / f"{name}.py").write_text(text, encoding="utf-8")
    info = folder / "fakeplug-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: fakeplug\nVersion: 1\n", encoding="utf-8")
    points = "[counterfoil]\nfake = fakeplug\n\n[counterfoil.demo]\nfake = fakeplug:serve\n"
    (info / "entry_points.txt").write_text(points, encoding="utf-8")
    return folder


@pytest.fixture
def recording(stranger: Command, fakes: Path) -> Command:
    """The command where the fake adapter is the only one, in an empty home."""
    stranger.environment = {
        "PYTHONPATH": os.pathsep.join([str(SRC), str(fakes)]),
        "COUNTERFOIL_PLUGINS": "fake",
    }
    return stranger


@pytest.fixture
def home() -> Callable[[Path], Any]:
    """A context in which this process's keys are in a folder."""
    return at_home
