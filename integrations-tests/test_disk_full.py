"""The disk fills up under the recording: the application notices nothing, and the evidence tells the truth about it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import counterfoil

APP = """
import json, os, resource, subprocess, sys, time
from langchain_core.language_models import FakeListChatModel
from langgraph.graph import START, MessagesState, StateGraph

graph = StateGraph(MessagesState)
model = FakeListChatModel(responses=["said"])
graph.add_node("asker", lambda state: {"messages": [model.invoke(state["messages"])]})
graph.add_edge(START, "asker")
app = graph.compile(name="app")


def ask(times, length):
    noise = [os.urandom(length // 2).hex() for _ in range(times)]  # nothing that compresses
    return [app.invoke({"messages": [("user", text)]})["messages"][-1].content for text in noise]


said = ask(3, 1_000) + ask(40, 60_000)
MAKE_ROOM
said += ask(3, 1_000)
import counterfoil
counterfoil.uninstall()
found = counterfoil.verify(os.environ["COUNTERFOIL"])
calls = [call for call in counterfoil.read(os.environ["COUNTERFOIL"]).calls() if call.op == "chat"]
print(json.dumps({
    "said": said == ["said"] * 46,
    "verdict": found.verdict,
    "codes": sorted({finding.code for finding in found.findings}),
    "counts": found.counts,
    "chats": len(calls),
}))
"""
LIMIT = """
import resource, runpy, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, resource.RLIM_INFINITY))
runpy.run_path(sys.argv[1], run_name="__main__")
"""
SMALL_DISK = """
import ctypes, os, runpy, subprocess, sys
NEWNS, NEWUSER, folder = 0x20000, 0x10000000, sys.argv[2]
user, group = os.geteuid(), os.getegid()
if ctypes.CDLL(None, use_errno=True).unshare(NEWNS | (NEWUSER if user else 0)):
    sys.exit(125)
if user:
    for name, text in (("setgroups", "deny"), ("uid_map", f"0 {user} 1"), ("gid_map", f"0 {group} 1")):
        open(f"/proc/self/{name}", "w").write(text)
done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=400k", "tmpfs", folder], capture_output=True)
if done.returncode:
    sys.exit(125)
runpy.run_path(sys.argv[1], run_name="__main__")
"""


def run(program: str, app: Path, folder: Path) -> dict[str, Any]:
    """What the application says at its end."""
    environment = {**os.environ, "COUNTERFOIL": str(folder / "evidence")}
    command = [sys.executable, "-W", "error", "-c", program, str(app), str(folder)]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=120, cwd=app.parent, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert "Traceback" not in done.stderr
    assert len(done.stderr.splitlines()) < 5, done.stderr
    return dict(json.loads(done.stdout))


def written(tmp_path: Path, room: str) -> tuple[Path, Path]:
    app, folder = tmp_path / "app.py", tmp_path / "disk"
    app.write_text(APP.replace("MAKE_ROOM", room))
    folder.mkdir()
    return app, folder


ROOM = {
    "never": "",
    "limit": "resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2); time.sleep(1.2)",
    "disk": "subprocess.run(['mount', '-o', 'remount,size=64m', sys.argv[2]], check=True); time.sleep(1.2)",
}


def _may_mount() -> bool:
    """Whether this process may have a small disk of its own (as root, or in a user namespace)."""
    with tempfile.TemporaryDirectory() as folder:
        nothing, disk = Path(folder, "nothing.py"), Path(folder, "disk")
        nothing.write_text("", encoding="utf-8")
        disk.mkdir()
        command = [sys.executable, "-c", SMALL_DISK, str(nothing), str(disk)]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0


if _may_mount():  # where it may not, these two are not collected, and nothing stands in for them

    def test_a_disk_that_stays_full(tmp_path: Path) -> None:
        found = run(SMALL_DISK, *written(tmp_path, ROOM["never"]))
        assert found["said"]
        assert found["verdict"] == "incomplete"
        assert 3 <= found["chats"] < 46

    def test_a_disk_that_has_room_again(tmp_path: Path) -> None:
        """What waited meanwhile is written: nothing is lost, and nobody claims that nothing happened."""
        found = run(SMALL_DISK, *written(tmp_path, ROOM["disk"]))
        assert found["said"]
        assert found["chats"] == 46
        assert found["counts"]["losses"] == 0
        assert found["codes"] in ([], ["CF-VERIFY-020"])


def test_files_that_never_grow(tmp_path: Path) -> None:
    """Recording goes on in further files, so that nothing is lost."""
    found = run(LIMIT, *written(tmp_path, ROOM["never"]))
    assert found["said"]
    assert (found["chats"], found["counts"]["losses"]) == (46, 0)
    assert found["codes"] in ([], ["CF-VERIFY-020"])


def test_a_file_that_may_not_grow(tmp_path: Path) -> None:
    app, folder = written(tmp_path, ROOM["limit"])
    found = run(LIMIT, app, folder)
    assert found["said"]
    assert found["chats"] == 46
    assert counterfoil.verify(folder / "evidence").verdict == found["verdict"]
    assert found["verdict"] in ("intact", "incomplete")
