"""``counterfoil run``: the application is recorded, and otherwise as if it had been started alone."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from counterfoil.cli import launch, preflight, summary
from counterfoil.errors import StoreError
from counterfoil.stores import open_store

CORE = Path(__file__).resolve().parents[2]
ANSWER = "forty-one is the answer to that\n"
SUMMARY = "counterfoil: 1 run, 1 model call, 1 tool call, 1 handoff, intact -> counterfoil-evidence\n"


@pytest.mark.parametrize(
    "words",
    [
        ["-m", "fakeapp"],
        ["--", "-m", "fakeapp"],
        ["fakeapp.py"],
        [sys.executable, "fakeapp.py"],
        ["--durability", "call", "--mode", "observe", "fakeapp.py"],
        ["sh", "-c", f"exec '{sys.executable}' -m fakeapp"],
    ],
)
def test_an_application_is_recorded_unchanged(recording: Any, fakes: Path, words: list[str]) -> None:
    (recording.folder / "fakeapp.py").write_bytes((fakes / "fakeapp.py").read_bytes())
    done = recording("run", *words)
    assert (done.returncode, done.stdout, done.stderr) == (0, ANSWER, SUMMARY)
    assert recording("verify").stdout.startswith("intact: 1 log, ")
    done = recording("run", *words)
    assert done.stderr == SUMMARY  # what this run added, not what is there


def test_evidence_is_where_it_was_asked_for(recording: Any) -> None:
    done = recording("run", "-e", "deep/er", "-m", "fakeapp")
    assert done.stderr.endswith("intact -> deep/er\n")
    assert recording("verify", "deep/er").returncode == 0
    done = recording("run", "-m", "fakeapp", COUNTERFOIL="by-variable")
    assert done.stderr.endswith("intact -> by-variable\n")
    assert recording("verify", "by-variable").returncode == 0


def bare_python(folder: Path) -> Path:
    """An interpreter with empty site folders: no .pth file is read."""
    (folder / "bin").mkdir(parents=True)
    real = Path(sys.executable).resolve()
    (folder / "bin" / "python").symlink_to(real)
    (folder / "pyvenv.cfg").write_text(f"home = {real.parent}\ninclude-system-site-packages = false\n")
    return folder / "bin" / "python"


SITE = 'import sys; print("site", file=sys.stderr)\n'


@pytest.mark.parametrize("other", ["", SITE, "raise ValueError('no')\n"])
def test_it_works_without_a_start_up_file_and_beside_another_sitecustomize(
    recording: Any, fakes: Path, tmp_path: Path, other: str
) -> None:
    """From a checkout on PYTHONPATH: a private folder comes first, and hands on to what it hides."""
    python = bare_python(tmp_path / "bare")
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    if other:
        (theirs / "sitecustomize.py").write_text(other, encoding="utf-8")
    import cryptography

    packages = Path(cryptography.__file__).parents[1]
    path = os.pathsep.join(map(str, (CORE / "src", fakes, theirs, packages)))
    code = "import fakeapp, json, sys; print([p for p in sys.path if '_launch' in p])"
    words = [str(python), "-m", "counterfoil", "run", "--", str(python), "-c", code]
    env = {**recording.variables(PYTHONPATH=path), "COUNTERFOIL_PLUGINS": "fake"}
    done = subprocess.run(words, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, f"{ANSWER}[]\n"), done.stderr
    assert done.stderr.endswith(SUMMARY)
    assert ("site\n" in done.stderr) == (other == SITE)
    assert ("ValueError" in done.stderr) == other.startswith("raise")


def test_what_is_on_the_path_already_is_not_added(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "start_file", lambda: False)
    first, *rest = launch.environment({"PYTHONPATH": str(CORE / "src")}, {})["PYTHONPATH"].split(os.pathsep)
    assert Path(first, "sitecustomize.py").is_file()
    assert rest == [str(CORE / "src")]
    monkeypatch.setattr(launch, "start_file", lambda: True)
    assert launch.environment({"A": "1"}, {"B": "2"}) == {"A": "1", "B": "2"}


def test_the_application_keeps_streams_arguments_and_exit_code(recording: Any) -> None:
    code = "import sys; sys.stdout.write(sys.stdin.read() + repr(sys.argv[1:])); sys.exit(17)"
    done = recording("run", sys.executable, "-c", code, "-e", "x", "--", "--json", stdin="in\n")
    assert (done.returncode, done.stdout) == (17, "in\n['-e', 'x', '--', '--json']")
    assert done.stderr == (
        "counterfoil: nothing was recorded (no call reached the installed adapters: fake)\n"
    )


def test_nothing_recorded_says_why(recording: Any) -> None:
    done = recording("run", "true", COUNTERFOIL_PLUGINS="none")
    assert done.returncode == 0
    assert done.stderr.startswith("counterfoil: nothing was recorded (no adapter is installed: pip install ")


@pytest.mark.parametrize(
    ("words", "exit_code", "code"),
    [
        (["no-such-command"], 127, "CF-CLI-040"),
        (["no/such/app.py"], 127, "CF-CLI-040"),
        ([""], 127, "CF-CLI-040"),
        (["./plain"], 126, "CF-CLI-041"),
        (["-e", "plain", "touch", "started"], 2, "CF-STORE-003"),
        (["-e", "plain/below", "touch", "started"], 2, "CF-STORE-003"),
        (["-e", "loop/below", "touch", "started"], 2, "CF-STORE-003"),
        (["-e", "x" * 300, "touch", "started"], 2, "CF-STORE-003"),
        ([], 2, "CF-CLI-001"),
        (["-m"], 2, "CF-CLI-001"),
        (["--evidnce", "x", "true"], 2, "CF-CLI-001"),
        (["--mode", "loud", "true"], 2, "CF-CONFIG-001"),
        (["--durability", "later", "true"], 2, "CF-CONFIG-001"),
        (["-e", "gs://bucket/prefix", "true"], 2, "CF-CONFIG-010"),
        (["-e", "", "true"], 2, "CF-CONFIG-0"),
    ],
)
def test_what_cannot_be_started(recording: Any, words: list[str], exit_code: int, code: str) -> None:
    (recording.folder / "plain").write_text("no program")
    (recording.folder / "loop").symlink_to("loop")
    done = recording("run", *words)
    assert not (recording.folder / "started").exists()
    assert (done.returncode, done.stdout) == (exit_code, "")
    assert done.stderr.startswith(f"error {code}")


def test_a_signal_ends_it_as_a_shell_tells(recording: Any) -> None:
    code = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
    done = recording("run", sys.executable, "-c", code)
    assert done.returncode == 128 + signal.SIGKILL


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1])
def test_signals_reach_the_application(recording: Any, number: signal.Signals) -> None:
    code = (
        "import signal, sys, time\n"
        f"signal.signal({int(number)}, lambda *a: sys.exit(33))\n"
        "print('ready', flush=True)\n"
        "time.sleep(60)\n"
    )
    process = recording.start("run", sys.executable, "-c", code)
    assert process.stdout.readline() == "ready\n"
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 33
    assert err.count("\n") == 1


def test_ctrl_c_on_a_terminal_reaches_the_application_once(recording: Any) -> None:
    code = (
        "import signal, time\n"
        "count = []\n"
        "signal.signal(signal.SIGINT, lambda *a: count.append(1))\n"
        "print('ready', flush=True)\n"
        "while not count: time.sleep(0.01)\n"
        "time.sleep(0.5)\n"
        "print('times', len(count), flush=True)\n"
    )
    leader, follower = pty.openpty()
    words = [sys.executable, "-P", "-m", "counterfoil", "run", sys.executable, "-c", code]
    take = "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"
    process = subprocess.Popen(
        [sys.executable, "-c", take, *words],
        cwd=recording.folder,
        env=recording.variables(),
        stdin=follower,
        stdout=follower,
        stderr=follower,
        start_new_session=True,
    )
    os.close(follower)
    text = b""
    while b"ready" not in text:
        text += os.read(leader, 4096)
    os.write(leader, b"\x03")
    assert process.wait(60) == 0
    text += os.read(leader, 65536)
    os.close(leader)
    assert b"times 1\r\n" in text


def test_an_application_that_dies_leaves_an_honest_verdict(recording: Any) -> None:
    code = (
        "import os, signal, fakeframe, fakeplug\n"
        "import counterfoil.autostart as a\n"
        "recorder = a.recorder()\n"
        "recorder.start('invoke_workflow', 'w', actor=('w',))\n"
        "recorder.flush()\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = recording("run", sys.executable, "-c", code)
    assert done.returncode == 137
    assert (
        done.stderr
        == "counterfoil: 1 run, 0 model calls, 0 tool calls, 0 handoffs, incomplete -> counterfoil-evidence\n"
    )
    assert recording("verify").returncode == 4


def wide_key(recording: Any) -> str:
    assert recording("run", "-e", "before", "-m", "fakeapp").returncode == 0
    (recording.home / "identity.pem").chmod(0o644)
    return "CF-KEYS-006"


def evidence_is_a_file(recording: Any) -> str:
    (recording.folder / "counterfoil-evidence").write_text("a file")
    return "CF-STORE-003"


def below_a_file(recording: Any) -> str:
    (recording.folder / "file").write_text("a file")
    recording.environment["COUNTERFOIL"] = "file/evidence"
    return "CF-STORE-00"


def home_is_a_file(recording: Any) -> str:
    recording.home.write_text("a file")
    return "CF-KEYS-003"


@pytest.mark.parametrize("problem", [wide_key, evidence_is_a_file, below_a_file, home_is_a_file])
def test_a_problem_is_told_first_and_observe_lets_the_application_run(recording: Any, problem: Any) -> None:
    code = problem(recording)
    app = "import sys; print('app', file=sys.stderr); import fakeapp; sys.exit(3)"
    done = recording("run", sys.executable, "-c", app)
    assert (done.returncode, done.stdout) == (3, ANSWER)
    first, middle, last = done.stderr.splitlines()
    assert first.startswith(f"counterfoil: not recording: {code}")
    assert "; " in first
    assert middle == "app"
    assert last.startswith(f"counterfoil: nothing was recorded ({code}")
    done = recording("run", "--mode", "enforce", sys.executable, "-c", app)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"error {code}")


class Disk:
    """What statvfs tells of a disk."""

    f_flag, f_blocks, f_bavail, f_files, f_favail = 0, 100, 50, 100, 50


@pytest.mark.parametrize(
    ("about", "code"),
    [
        ({"f_bavail": 0}, "CF-STORE-004"),
        ({"f_favail": 0}, "CF-STORE-004"),
        ({"f_flag": os.ST_RDONLY}, "CF-STORE-005"),
    ],
)
def test_a_full_or_read_only_disk_is_seen_before(
    home: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, about: dict[str, int], code: str
) -> None:
    with home(tmp_path / "home"):
        assert preflight.check(str(tmp_path / "new" / "evidence")) is None
        monkeypatch.setattr(os, "statvfs", lambda place: type("D", (Disk,), about)())
        problem = preflight.check(str(tmp_path / "new" / "evidence"))
    assert isinstance(problem, StoreError)
    assert problem.code == code
    assert not (tmp_path / "new").exists()


def test_losses_are_in_the_line(recording: Any) -> None:
    code = (
        "import counterfoil.autostart as a\n"
        "recorder = a.recorder()\n"
        "recorder.end(recorder.start('invoke_workflow', 'w', actor=('w',)))\n"
        "recorder.loss('a stream was cut', count=2)\n"
    )
    done = recording("run", sys.executable, "-c", code)
    assert re.search(r" 0 handoffs, 2 losses, incomplete -> ", done.stderr), done.stderr


def test_a_broken_plugin_is_named(recording: Any, tmp_path: Path) -> None:
    folder = tmp_path / "more"
    (folder / "bad-1.dist-info").mkdir(parents=True)
    (folder / "bad-1.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: bad\nVersion: 1\n")
    (folder / "bad-1.dist-info" / "entry_points.txt").write_text("[counterfoil]\nbad = no_such_module\n")
    path = os.pathsep.join([recording.environment["PYTHONPATH"], str(folder)])
    done = recording("run", "true", PYTHONPATH=path, COUNTERFOIL_PLUGINS="fake,bad")
    assert "nothing was recorded (plugin bad is broken: ModuleNotFoundError" in done.stderr


def test_an_empty_place_has_an_empty_snapshot(tmp_path: Path) -> None:
    assert summary.snapshot(str(tmp_path / "nothing")) == {}
    (tmp_path / "file").write_text("")
    assert summary.snapshot(str(tmp_path / "file")) == {}


def test_a_file_that_is_not_there_and_a_folder_are_called_so(recording: Any) -> None:
    done = recording("run", "nofile.py")
    assert done.stderr.splitlines()[0].endswith(": no such file: nofile.py")
    assert done.returncode == 127
    done = recording("run", "./")
    assert done.stderr.splitlines()[0] == "error CF-CLI-041 ./: is a folder"
    assert done.returncode == 126


def test_an_unwritable_place_that_was_asked_for_is_told_and_the_application_runs(
    home: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda *given: False)
    with home(tmp_path / "home"):
        assert preflight.never(str(tmp_path / "new")) is None
        problem = preflight.check(str(tmp_path / "new"))
    assert problem is not None
    assert problem.code == "CF-STORE-006"


def test_the_summary_tells_when_other_logs_make_the_whole_broken(
    recording: Any, home: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert recording("run", "-m", "fakeapp").stderr == SUMMARY
    evidence = recording.folder / "counterfoil-evidence"
    (evidence / "mine.txt").write_text("mine")
    done = recording("run", "-m", "fakeapp")
    assert done.stderr == f"{SUMMARY.rstrip()}; the evidence as a whole: broken, see counterfoil verify\n"
    logs = [path.name for path in evidence.iterdir() if path.is_dir()]
    with home(recording.home):
        assert summary._verdicts(open_store(str(evidence)), logs) == ("intact", "broken")
        monkeypatch.setattr(summary, "_WHOLE", 1)
        assert summary._verdicts(open_store(str(evidence)), logs) == ("intact", "intact")


def test_a_mode_that_is_refused_is_the_reason(recording: Any) -> None:
    done = recording("run", "--mode", "enforce", "-m", "fakeapp")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines()[-1] == (
        "counterfoil: nothing was recorded "
        "(mode enforce is refused by the installed adapters: fake; use mode observe)"
    )


BESIDE = """
import sys, counterfoil.autostart as a
recorder = a.recorder()
recorder.end(recorder.start("invoke_workflow", "w", actor=("w",)))
print("ready", flush=True)
sys.stdin.readline()
for _ in range(int(sys.argv[1])):
    recorder.end(recorder.start("invoke_workflow", "w", actor=("w",)))
"""


def test_two_at_once_count_their_own(recording: Any) -> None:
    children = [recording.start("run", sys.executable, "-c", BESIDE, count) for count in (1, 4)]
    for child in children:
        assert child.stdout.readline() == "ready\n"
    ends = [child.communicate("go\n", timeout=60)[1] for child in children]
    assert [re.search(r": (\d+) runs, .* intact -> ", end)[1] for end in ends] == ["2", "5"]
    assert recording.json("verify")["counts"]["runs"] == 7


def test_one_inside_another_counts_for_both(recording: Any) -> None:
    code = (
        "import subprocess, sys\n"
        "import counterfoil.autostart as a\n"
        "recorder = a.recorder()\n"
        "recorder.end(recorder.start('invoke_workflow', 'w', actor=('w',)))\n"
        "inner = [sys.executable, '-P', '-m', 'counterfoil', 'run', '-m', 'fakeapp']\n"
        "done = subprocess.run(inner, capture_output=True, text=True)\n"
        "print(done.stderr)\n"
    )
    done = recording("run", sys.executable, "-c", code)
    inner, outer = (re.search(r": (\d+) runs?, ", text)[1] for text in (done.stdout, done.stderr))
    assert int(outer) == int(inner) + 1
