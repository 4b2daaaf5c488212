"""``counterfoil log`` and ``counterfoil show``: what is listed, and how one of it is named."""

from __future__ import annotations

import hashlib
import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import counterfoil

KEYS = [
    "index",
    "log",
    "digest",
    "op",
    "phase",
    "call",
    "run",
    "actor",
    "address",
    "at",
    "request",
    "response",
    "covered",
]


def listed(cli: Any, *words: object) -> list[dict[str, Any]]:
    done = cli("log", *words, "--json")
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_log_has_every_entry_once_in_order(cli: Any, desk: Any) -> None:
    entries = listed(cli, desk.evidence)
    real = list(counterfoil.read(desk.evidence).entries())
    assert [list(entry) for entry in entries] == [KEYS] * len(real)
    assert [(entry["log"], entry["index"]) for entry in entries] == [(one.log, one.index) for one in real]
    for entry, one in zip(entries, real, strict=True):
        if one.op != "statement":
            assert entry["digest"] == hashlib.sha256(one.body_bytes).hexdigest()
            assert entry["op"] == one.op


def test_a_call_has_a_start_and_an_end_with_the_same_request(cli: Any, desk: Any) -> None:
    chat = desk.calls["writer chat"]
    start, end = (entry for entry in listed(cli, desk.evidence) if entry["call"] == chat.id)
    assert (start["phase"], end["phase"]) == ("start", "end")
    assert start["digest"] == chat.start
    assert end["digest"] == chat.end
    assert start["request"] == end["request"] == chat.request.sha256
    assert start["response"] is None
    assert len(end["response"]) == 64
    assert (start["op"], start["actor"], start["run"]) == ("chat", "writer", chat.run.id)
    assert start["address"] == chat.address
    assert start["at"] <= end["at"]


def test_statements_are_points_with_their_own_digest(cli: Any, desk: Any) -> None:
    entries = [entry for entry in listed(cli, desk.evidence) if entry["op"] in ("handoff", "binding")]
    assert {entry["phase"] for entry in entries} == {"point"}
    digests = [entry["digest"] for entry in entries if entry["op"] == "handoff"]
    assert digests == [
        statement.digest
        for _, statement in counterfoil.read(desk.evidence).statements()
        if statement.kind.endswith("handoff:v1")
    ]
    assert digests[-4:] == list(desk.handoffs.values())
    assert {entry["actor"] for entry in entries} == {"planner", "clear", "writer", "reviewer"}


def test_choices_narrow_the_list(cli: Any, desk: Any) -> None:
    everything = listed(cli, desk.evidence)
    run = desk.calls["desk"].run.id
    assert listed(cli, desk.evidence, "--run", "last") == [one for one in everything if one["run"] == run]
    assert listed(cli, desk.evidence, "--run", run[:10]) == listed(cli, desk.evidence, "--run", "2")
    assert listed(cli, desk.evidence, "--op", "chat") == [one for one in everything if one["op"] == "chat"]
    both = listed(cli, desk.evidence, "--actor", "writer", "--op", "chat", "--run", "1")
    assert [(one["actor"], one["phase"]) for one in both] == [("writer", "start"), ("writer", "end")]
    assert listed(cli, desk.evidence, "--actor", "clear", "--op", "chat") == []


def test_log_lines_name_who_and_what(process: Any, desk: Any) -> None:
    done = process("log", desk.evidence, "--run", "last")
    lines = [line.split() for line in done.stdout.splitlines()]
    chat = next(words for words in lines if words[3:6] == ["chat", "end", "writer"])
    assert chat[1] == desk.calls["writer chat"].end[:8]
    assert any("planner -> clear (command)" in line for line in done.stdout.splitlines())
    assert max(map(len, done.stdout.splitlines())) <= 100


def test_show_json_is_the_record_with_its_values(process: Any, desk: Any) -> None:
    chat = desk.calls["writer chat"]
    found = process.json("show", chat.end[:12], "-e", desk.evidence)
    assert found["digest"] == chat.end
    assert found["v"] == 1
    assert found["content"]["op"] == "chat"
    assert found["content"]["request"]["model"] == "m-1"
    assert found["content"]["request"]["messages"][0] == "and then?"
    assert found["content"]["response"]["answer"].startswith("The report says that checkout")
    assert found["references"]["request"] == chat.request.to_dict()


def test_show_json_is_the_statement_with_its_payload(cli: Any, desk: Any) -> None:
    digest = desk.handoffs["planner clear"]
    found = cli.json("show", digest, "-e", desk.evidence)
    assert found["digest"] == digest
    assert found["_type"] == "https://in-toto.io/Statement/v1"
    assert found["predicate"]["content"]["to"] == "clear"
    assert found["payload"]["from"] == "planner"


def test_show_by_every_selector(cli: Any, desk: Any) -> None:
    entries = listed(cli, desk.evidence)
    run = desk.calls["desk"].run.id
    first = next(entry for entry in entries if entry["run"] is not None)["run"]
    of_run = [entry["index"] for entry in entries if entry["run"] == run]
    of_first = [entry["index"] for entry in entries if entry["run"] == first]
    log = entries[0]["log"]
    chosen = {
        ("12",): 12,
        (f"{log[:6]}/12",): 12,
        ("run/7",): of_run[6],
        (f"{run}/7",): of_run[6],
        ("run/7", "--run", "1"): of_first[6],
        ("--last",): of_run[-1],
        ("--last", "--run", "1", "--op", "chat"): max(
            entry["index"] for entry in entries if entry["run"] == first and entry["op"] == "chat"
        ),
        (entries[9]["digest"][:16].upper(),): 9,
        (f"sha256:{entries[9]['digest']}",): 9,
    }
    for words, index in chosen.items():
        assert cli.json("show", *words, "-e", desk.evidence)["index"] == index, words


def test_show_prints_prompt_and_answer(cli: Any, desk: Any) -> None:
    done = cli("show", "--last", "--op", "chat", "-e", desk.evidence)
    assert done.returncode == 0
    lines = [line.strip() for line in done.stdout.splitlines()]
    assert lines[0].startswith("entry ")
    assert {"actor    reviewer", "model: m-1", "- and then?", "answer: good"} <= set(lines)


def test_raw_bytes_are_what_their_digest_says(cli: Any, desk: Any) -> None:
    chat = desk.calls["writer chat"]

    def raw(selector: str) -> bytes:
        words = [
            sys.executable,
            "-P",
            "-m",
            "counterfoil",
            "show",
            selector,
            "--raw",
            "-e",
            str(desk.evidence),
        ]
        return subprocess.run(words, env=cli.variables(), capture_output=True, check=True).stdout

    assert hashlib.sha256(raw(chat.end)).hexdigest() == chat.end
    reference = chat.request.sha256
    assert hashlib.sha256(raw(reference[:16])).hexdigest() == reference
    found = cli.json("show", reference, "-e", desk.evidence)
    assert hashlib.sha256(found["text"].encode()).hexdigest() == found["sha256"] == reference
    assert f"sha256 {reference}" in cli("show", reference[:20], "-e", desk.evidence).stdout


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["show"], "CF-CLI-024"),
        (["show", "3", "--last"], "CF-CLI-024"),
        (["show", "3", "--op", "chat"], "CF-CLI-024"),
        (["show", "99999"], "CF-CLI-021"),
        (["show", "run/0"], "CF-CLI-021"),
        (["show", "run/500"], "CF-CLI-021"),
        (["show", "run/x"], "CF-CLI-020"),
        (["show", "abc"], "CF-CLI-020"),
        (["show", "nothing at all"], "CF-CLI-020"),
        (["show", ""], "CF-CLI-020"),
        (["show", "f" * 64], "CF-CLI-021"),
        (["show", "zz/3"], "CF-CLI-020"),
        (["show", "run/1", "--run", "77777"], "CF-CLI-011"),
        (["log", "--run", "nobody"], "CF-CLI-011"),
        (["log", "--run", ""], "CF-CLI-011"),
        (["log", "--actor", "nobody"], "CF-CLI-013"),
        (["log", "--op", "nothing"], "CF-CLI-014"),
        (["graph", "--run", "9"], "CF-CLI-011"),
        (["handoffs", "--op", "send"], "CF-CLI-014"),
        (["verify", "--run", "9"], "CF-CLI-011"),
    ],
)
def test_a_selector_that_names_nothing_is_an_error(cli: Any, desk: Any, words: list[str], code: str) -> None:
    done = cli(*words, COUNTERFOIL=str(desk.evidence))
    assert (done.returncode, done.stdout) == (2, "")
    first, hint = done.stderr.splitlines()
    assert first.startswith(f"error {code}")
    assert hint.startswith("  hint: ")


def test_what_is_ambiguous_is_listed(cli: Any, home: Any, tmp_path: Path) -> None:
    """Two logs: an index names one entry in each of them."""
    evidence = tmp_path / "evidence"
    with home(tmp_path / "home"):
        for name in ("first", "second"):
            recorders = [counterfoil.Recorder(evidence) for _ in range(2)]
            for recorder in recorders:
                recorder.end(recorder.start("invoke_workflow", name, actor=(name,)))
            for recorder in recorders:
                recorder.close()
    done = cli("show", "0", "-e", evidence)
    assert done.returncode == 2
    assert "CF-CLI-022" in done.stderr
    logs = sorted(path.name for path in evidence.iterdir() if path.is_dir())
    assert all(f"{log}/0 session" in done.stderr for log in logs)
    assert cli("show", f"{logs[0]}/0", "-e", evidence).returncode == 0
    assert cli("log", evidence).stdout.count("log ") == 2
    runs = {entry["run"] for entry in listed(cli, evidence) if entry["run"]}
    starts = [run[0] for run in runs]
    shared = next((start for start in starts if starts.count(start) > 1 and start.isalpha()), None)
    if shared is not None:
        assert "CF-CLI-012" in cli("log", evidence, "--run", shared).stderr


def test_values_that_are_missing_are_told(cli: Any, desk: Any, tmp_path: Path) -> None:
    from counterfoil.cli import tamper

    copy = desk.copy(tmp_path / "copy")
    change = tamper.change_one_character(copy)
    done = cli("show", change.entry, "-e", copy, "--json")
    assert done.returncode == 1
    assert json.loads(done.stdout)["index"] == change.entry
    assert done.stderr.startswith("error CF-LOG-040 ")


def test_reading_stops_where_a_log_is_damaged_and_says_so(cli: Any, desk: Any, tmp_path: Path) -> None:
    copy = desk.copy(tmp_path / "copy")
    path = copy / desk.segment
    data = bytearray(path.read_bytes())
    data[-2000] ^= 1
    path.write_bytes(data)
    for command in ("log", "graph", "handoffs"):
        done = cli(command, copy)
        assert done.stdout or command != "log"
        assert "note CF-LOG-010 " in done.stderr or "damaged CF-LOG-010 " in done.stderr, command


def test_names_cannot_steer_a_terminal(cli: Any, home: Any, tmp_path: Path) -> None:
    evil = "\x1b[31mred\x07\u202e\x9b2J"
    with home(tmp_path / "home"):
        recorder = counterfoil.Recorder(tmp_path / "evidence")
        root = recorder.start("invoke_workflow", evil, actor=(evil,), request=recorder.value({evil: evil}))
        agent = recorder.start("step", evil, actor=(evil,), parent=root, key="1")
        recorder.end(recorder.start("chat", evil, actor=(evil,), parent=agent), response=recorder.value(evil))
        recorder.end(agent)
        recorder.end(root)
        recorder.close()
    for words in (
        ["log"],
        ["graph"],
        ["handoffs", "--hops"],
        ["show", "1"],
        ["show", "--last", "--op", "chat"],
    ):
        for json_too in ([], ["--json"]):
            done = cli(*words, *json_too, "-e", tmp_path / "evidence")
            assert done.returncode == 0
            assert not set("\x1b\x07\u202e\x9b") & set(done.stdout + done.stderr), words
    assert cli.json("show", "1", "-e", tmp_path / "evidence")["content"]["request"] == {evil: evil}


def test_a_reader_that_goes_away_ends_it_quietly(cli: Any, desk: Any) -> None:
    process = cli.start("log", desk.evidence)
    process.stdout.close()
    assert process.wait(60) == 128 + signal.SIGPIPE
    assert process.stderr.read() == ""
    process.stdin.close()
    process.stderr.close()


def test_a_full_disk_is_an_error_and_not_a_traceback(cli: Any, desk: Any) -> None:
    words = [sys.executable, "-P", "-m", "counterfoil", "log", str(desk.evidence)]
    with open("/dev/full", "wb") as full:
        done = subprocess.run(words, env=cli.variables(), stdout=full, stderr=subprocess.PIPE, check=False)
    assert done.returncode == 2
    assert done.stderr.decode().startswith("error CF-CLI-004 stdout: ")
    assert b"Traceback" not in done.stderr


def test_ctrl_c_is_quiet(cli: Any, tmp_path: Path) -> None:
    process = cli.start("digest", "-")
    assert process.stdin is not None
    process.stdin.write(
        "x" * 500_000
    )  # more than a pipe holds: the command has begun to read, and waits for more
    process.stdin.flush()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (130, "", "")


def test_last_finds_statements_that_belong_to_no_run(cli: Any, desk: Any, home: Any, tmp_path: Path) -> None:
    """What is sealed and accepted without a recorder has no runs."""
    evidence = tmp_path / "sealed"
    with home(tmp_path / "home"), counterfoil.open(evidence, actor="planner") as opened:
        note = counterfoil.seal(opened, {"order": 1}, to="writer")
        with counterfoil.open(tmp_path / "theirs", actor="writer") as theirs:
            counterfoil.accept(theirs, note, {"order": 1})
    for place, kind in ((evidence, "handoff"), (tmp_path / "theirs", "receipt")):
        for words in ([], ["--op", kind]):
            assert kind in cli.json("show", "--last", *words, "-e", place)["predicateType"]
    assert "binding" in cli.json("show", "--last", "--op", "binding", "-e", desk.evidence)["predicateType"]
    done = cli("show", "--last", "--op", "chat", "-e", evidence)
    assert (done.returncode, done.stderr.split()[1]) == (2, "CF-CLI-014")


def test_a_folder_for_a_selector_is_answered_with_the_option(cli: Any, desk: Any) -> None:
    desk.copy(cli.folder / "mine")
    for words in (["mine"], ["mine", "--last"]):
        done = cli("show", *words)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith("error CF-CLI-020 mine: this is a folder")
        assert done.stderr.endswith(": -e mine\n")


TAIL = """
import sys, time
from counterfoil import writer as module
from counterfoil.recorder import Recorder
recorder = Recorder("evidence")
for number in range(int(sys.argv[1])):
    recorder.end(recorder.start("invoke_workflow", "covered", actor=("app",)))
    recorder.flush()
writer = recorder.open()
while writer._covered < writer._index: time.sleep(0.01)
module.DELAY = 100
for _ in range(int(sys.argv[2])):
    recorder.start("invoke_workflow", "not yet", actor=("app",))
assert recorder.flush()
print("ready", flush=True)
sys.stdin.readline()
recorder.close()
"""


@pytest.fixture
def tail(newcomer: Any) -> Iterator[Callable[[int, int], Any]]:
    """A process that has so many runs covered by a checkpoint and so many entries that are not yet."""
    made: list[subprocess.Popen[str]] = []

    def start(covered: int, uncovered: int) -> subprocess.Popen[str]:
        pipe = subprocess.PIPE
        command = [sys.executable, "-c", TAIL, str(covered), str(uncovered)]
        child = subprocess.Popen(
            command, cwd=newcomer.folder, env=newcomer.variables(), stdin=pipe, stdout=pipe, text=True
        )
        made.append(child)
        assert child.stdout.readline() == "ready\n"
        return child

    yield start
    for child in [one for one in made if one.poll() is None]:
        child.communicate("go\n", timeout=120)


def test_what_no_checkpoint_covers_is_marked(newcomer: Any, tail: Any) -> None:
    """The live writer's tail: it is there and nothing signed says so yet."""
    child = tail(1, 1)
    entries = listed(newcomer, "evidence")
    lines = newcomer("log", "evidence").stdout.splitlines()
    shown = newcomer("show", "--last", "-e", "evidence").stdout
    told = [newcomer.json("show", one, "-e", "evidence")["covered"] for one in ("0", str(len(entries) - 1))]
    marks = [entry["covered"] for entry in entries]
    assert marks == [True] * (len(marks) - 1) + [False]
    assert [line.endswith(" (unsigned)") for line in lines] == [not mark for mark in marks]
    assert "\nunsigned no checkpoint covers it yet" in shown
    assert told == [True, False]
    child.communicate("go\n", timeout=120)
    assert all(entry["covered"] for entry in listed(newcomer, "evidence"))
    assert "unsigned" not in newcomer("log", "evidence").stdout


def test_a_long_tail_is_marked_too(newcomer: Any, tail: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("counterfoil.cli.source._WAITING", 7)
    tail(12, 20)
    marks = [entry["covered"] for entry in listed(newcomer, "evidence")]
    assert marks == [True] * (len(marks) - 20) + [False] * 20
