"""What many entries say by one long list is read once: neither time nor memory goes by how often it is named."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from forging import handoff

import counterfoil
from counterfoil import canonical, statements, stored
from counterfoil.digest import sha256_hex
from counterfoil.dsse import Envelope


@contextmanager
def counted(monkeypatch: pytest.MonkeyPatch, *places: tuple[Any, str]) -> Iterator[list[int]]:
    """Calls of functions, counted together."""
    calls = [0]

    def counting(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **more: Any) -> Any:
            calls[0] += 1
            return real(*arguments, **more)

        return call

    with monkeypatch.context() as patch:
        for owner, name in places:
            patch.setattr(owner, name, counting(getattr(owner, name)))
        yield calls


@pytest.mark.parametrize("times", [3, 30])
def test_a_list_of_parents_that_many_handoffs_name(
    lab: Any, times: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = lab.recorder()
    root = recorder.start("invoke_workflow", "app", actor=("app",))
    steps = [recorder.start("step", f"s{n}", actor=("a",), parent=root, key=str(n)) for n in range(20)]
    payload = recorder.value("payload")
    for number in range(times):
        assert recorder.handoff(
            senders=[("a",)],
            to=(f"b{number}",),
            signer=("app",),
            kind="edge",
            basis="observed",
            payload=payload,
            parents=[("data", step) for step in steps],
            run=root.run,
        )
    for one in [*reversed(steps), root]:
        recorder.end(one)
    recorder.close()
    reads = []
    with counted(monkeypatch, (statements, "parse_parents")) as calls:
        assert lab.verify().verdict == "intact"
    reads.append(calls[0])
    out = tmp_path / "run.bundle"
    with counted(monkeypatch, (statements, "parse_parents")) as calls:
        counterfoil.bundle(lab.evidence, out, run=root.run.id)
    reads.append(calls[0])
    with counted(monkeypatch, (statements, "parse_parents")) as calls:
        assert counterfoil.verify(out).verdict == "intact"
    reads.append(calls[0])
    assert reads == [1, 3, 2]


def test_what_a_list_of_parents_lacks_when_it_is_named_first(lab: Any) -> None:
    """It lacks that for good: a handoff that names it later is refused as well."""
    recorder = lab.recorder()
    root = recorder.start("invoke_workflow", "app", actor=("app",))
    recorder.end(root)
    key = recorder.actor_key(("a",))
    late = handoff(recorder, root, key, issued=7)
    data = canonical.dumps([{"digest": Envelope.parse(late).digest, "rel": "data"}])
    recorder.open().blob(sha256_hex(data), data)
    apart = {"count": 1, "sha256": sha256_hex(data), "size": len(data)}
    writer = recorder.open()
    for entry in (
        handoff(recorder, root, key, parents=[], parentSet=apart, issued=1),
        late,
        handoff(recorder, root, key, parents=[], parentSet=apart, issued=2),
    ):
        writer.entry(entry)
    recorder.close()
    assert [one.code for one in lab.verify().findings] == ["CF-VERIFY-045"] * 2


def test_a_list_of_other_logs_that_many_sessions_cite(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    others = [counterfoil.open(lab.evidence, actor="a") for _ in range(66)]
    for one in others:
        counterfoil.seal(one, "x", to="b")
    for one in others:
        one.close()
    for _ in range(3):
        with counterfoil.open(lab.evidence, actor="a") as first:
            counterfoil.seal(first, "y", to="b")
    with counted(monkeypatch, (stored, "read_blob")) as calls:
        assert lab.verify().verdict == "intact"
    assert calls == [1]  # the list, and none of the 66 notes


def test_a_list_that_the_disk_gives_no_more(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """What cannot be read a second time accuses nobody: it is neither missing nor malformed."""
    others = [counterfoil.open(lab.evidence, actor="a") for _ in range(66)]
    for one in others:
        counterfoil.seal(one, "x", to="b")
    for one in others:
        one.close()
    with counterfoil.open(lab.evidence, actor="a") as first:
        counterfoil.seal(first, "y", to="b")

    def failing(*arguments: Any) -> bytes:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(stored, "read_blob", failing)
    result = lab.verify()
    assert (result.verdict, [one.code for one in result.findings]) == ("cannot-tell", ["CF-STORE-001"])
