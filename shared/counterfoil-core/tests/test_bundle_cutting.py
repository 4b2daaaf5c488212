"""What is cut from which evidence: the run with all it follows from, the same bytes every time, and nothing else."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

import counterfoil
from counterfoil import appending, keys, values
from counterfoil.digest import Reference
from counterfoil.errors import BundleError, StoreError


def cut(lab: Any, name: str = "cut.bundle", **asked: Any) -> Any:
    evidence = asked.pop("evidence", lab.evidence)
    return counterfoil.bundle(evidence, lab.root / name, **asked)


def lines(lab: Any, name: str = "cut.bundle") -> list[dict[str, Any]]:
    return [json.loads(line) for line in (lab.root / name).read_bytes().splitlines()]


def entries(lab: Any, name: str = "cut.bundle") -> list[dict[str, Any]]:
    return [line for line in lines(lab, name) if "body" in line]


def ops(lab: Any, name: str = "cut.bundle") -> list[str]:
    bodies = [line["body"] for line in entries(lab, name)]
    return [body["content"]["op"] if "content" in body else "statement" for body in bodies]


def runs(lab: Any) -> list[str]:
    return [one.id for one in counterfoil.read(lab.evidence).runs()]


def elsewhere(lab: Any, file: Path) -> Any:
    """The verdict of another machine that pinned this identity, with nothing but the file."""
    identity = keys.load_identity()
    assert identity is not None
    with lab.at(lab.elsewhere):
        return counterfoil.verify(file, keyring=keys.Keyring.of([identity.public]))


def test_a_run_is_intact_alone_on_another_machine(lab: Any) -> None:
    lab.record(3)
    middle = runs(lab)[1]
    made = cut(lab, run=middle)
    assert (made.kind, made.asked, made.unchanged) == ("run", middle, False)
    assert made.fillers == ops(lab).count("stored")  # on a slow machine a checkpoint falls into the run
    assert made.size == (lab.root / "cut.bundle").stat().st_size
    found = elsewhere(lab, lab.root / "cut.bundle")
    assert (found.verdict, found.notes) == ("intact", [])
    assert {key: found.counts[key] for key in ("logs", "runs", "handoffs", "open")} == {
        "logs": 1,
        "runs": 1,
        "handoffs": 1,
        "open": 0,
    }
    # Everything of the run is in it, and the session and the binding that its statement needs.
    whole = next(one for one in counterfoil.read(lab.evidence).runs() if one.id == middle)
    shown = {line["i"] for line in entries(lab)}
    assert {index for _, index in whole.entries} < shown
    assert ops(lab).count("session") == 1
    assert len(shown) == len(whole.entries) + 2 + made.fillers
    assert (lab.root / "cut.bundle").stat().st_mode & 0o777 == 0o600


def test_values_and_content_roots_are_those_of_the_evidence(lab: Any) -> None:
    lab.record(2)
    last = runs(lab)[-1]
    cut(lab, run=last)
    here, there = counterfoil.read(lab.evidence), counterfoil.read(lab.root / "cut.bundle")
    (run,) = there.runs()
    assert run.content_root == here.runs()[-1].content_root
    ours = [call for call in here.calls() if call.run == last]
    theirs = there.calls()
    assert [call.address for call in theirs] == [call.address for call in ours]
    for one, other in zip(ours, theirs, strict=True):
        assert (here.value(one.request), here.value(one.response)) == (
            there.value(other.request),
            there.value(other.response),
        )
    assert there.handoffs(hops=True) == here.handoffs(hops=True, run=last)
    assert there.graph().to_json() == here.graph(run=last).to_json()
    assert set(dict(there.blobs())) < set(dict(here.blobs()))
    assert all(there.find(sha256) == sha256 for sha256, _ in there.blobs())


def test_the_same_content_gives_the_same_bytes(lab: Any) -> None:
    """Whenever it is cut, wherever, and however far the log has grown since."""
    lab.record(2)
    first = runs(lab)[0]
    cut(lab, "one.bundle", run=first)
    lab.record(3)
    cut(lab, "two.bundle", run=first)
    assert (lab.root / "one.bundle").read_bytes() == (lab.root / "two.bundle").read_bytes()
    with lab.at(lab.elsewhere):
        identity = keys.load_identity()
        assert identity is None
        made = cut(lab, "three.bundle", run=first)
        assert made.verification.verdict == "cannot-tell"
    assert (lab.root / "one.bundle").read_bytes() == (lab.root / "three.bundle").read_bytes()


def test_a_handoff_brings_its_ancestors_and_no_more(lab: Any) -> None:
    lab.record(2)
    digests = [one.digest for _, one in counterfoil.read(lab.evidence).statements() if "handoff" in one.kind]
    made = cut(lab, handoff=digests[1][:8])
    assert made.asked == digests[1]
    assert made.verification.verdict == "intact"
    # The writer's step that it follows from, the workflow around it, their ends; not the model's calls or the reader.
    told = [line["body"]["content"] for line in entries(lab) if "content" in line["body"]]
    assert [(one["op"], one["phase"]) for one in told] == [
        ("session", "point"),
        ("invoke_workflow", "start"),
        ("step", "start"),
        ("step", "end"),
        ("invoke_workflow", "end"),
    ]
    assert {one.get("name") for one in told} == {None, "app", "writer"}
    assert made.verification.counts["statements"] == 2  # the binding, and the handoff


def test_ancestry_crosses_runs_and_logs(lab: Any) -> None:
    """A handoff accepted from another log brings what that log has of its past, and each is the other's witness."""
    sender = counterfoil.open(lab.evidence, actor="weather")
    root = sender.recorder.start("invoke_workflow", "rain", actor=("weather",))
    cited = root.digest  # of its start: once it ends, that of its end
    with_parent = counterfoil.seal(sender, "Rain.", to="counter", parents=[cited])
    assert sender.flush()
    with lab.at(lab.elsewhere):  # a receiver of its own identity, in the same folder
        receiver = counterfoil.open(lab.evidence, actor="counter")
        own = keys.load_or_create_identity()
        ring = keys.Keyring.load()
        with lab.at(lab.home):
            identity = keys.load_identity()
            assert identity is not None
        ring.pin(identity.keyid, spki=identity.spki)
        accepted = counterfoil.accept(receiver, with_parent, "Rain.")
        recorder = receiver.recorder
        work = recorder.start("invoke_agent", "counter", actor=("counter",), handoffs=[accepted.digest])
        recorder.end(work)
        receiver.close()
    sender.recorder.end(root)
    sender.close()
    both = keys.Keyring.of([identity.public, own.public])
    made = cut(lab, run=work.id, keyring=both)
    assert (made.verification.verdict, made.counts["logs"]) == ("intact", 2)
    assert made.counts["absent"] == 0
    statements = [line for line in entries(lab) if "payload" in line["body"]]
    assert len(statements) == 3  # the handoff in both logs, and its receipt
    # The sender's log alone has no run of the receiver's; the receiver's log alone says that ancestors are elsewhere.
    name = next(one.log for one in counterfoil.read(lab.evidence).entries() if one.op == "invoke_agent")
    alone = lab.root / "alone"
    alone.mkdir()
    os.rename(lab.evidence / name, alone / name)
    (alone / ".gitignore").write_bytes(b"*\n")
    made = cut(lab, "alone.bundle", evidence=alone, run=work.id, keyring=both)
    assert made.verification.verdict == "intact"
    assert [one.code for one in made.verification.notes] == ["CF-BUNDLE-025"]
    gone = [line["digest"] for line in lines(lab, "alone.bundle") if line.get("kind") == "absent"]
    assert gone == [cited]


def test_a_checkpoint_inside_a_run_is_of_no_other_run(lab: Any) -> None:
    recorder = lab.recorder()
    root = recorder.start("invoke_workflow", "one", actor=("a",))
    recorder.open().checkpoint()
    assert recorder.flush()
    recorder.end(root)
    recorder.close()
    made = cut(lab, run=root.id)
    assert (made.fillers, made.others, made.verification.verdict) == (1, 0, "intact")


def test_other_runs_at_the_same_time_are_told_without_what_they_hold(lab: Any) -> None:
    recorder = lab.recorder()
    one = recorder.start("invoke_workflow", "one", actor=("a",), request=recorder.value("asked " * 60))
    two = recorder.start("invoke_workflow", "two", actor=("b",), request=recorder.value("secret " * 60))
    recorder.end(one, response=recorder.value("said"))
    recorder.end(two)
    recorder.close()
    made = cut(lab, run=one.id)
    assert (made.fillers, made.others, made.verification.verdict) == (1, 1, "intact")
    assert "secret" not in (lab.root / "cut.bundle").read_text(encoding="utf-8")
    made = cut(lab, "only.bundle", run=one.id, only=True)
    assert (made.fillers, made.verification.verdict) == (0, "incomplete")
    assert [found.code for found in made.verification.findings] == ["CF-BUNDLE-023"]
    assert two.digest not in (lab.root / "only.bundle").read_text(encoding="utf-8")


def test_a_run_that_goes_on_is_cut_as_far_as_it_is_covered(lab: Any) -> None:
    recorder = lab.recorder()
    call = recorder.start("invoke_workflow", "app", actor=("app",))
    assert recorder.flush()
    deadline = time.monotonic() + 120
    while not any(one.id == call.id for one in covered(lab)):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    made = cut(lab, run=call.id)
    assert (made.verification.verdict, made.verification.counts["open"]) == ("incomplete", 1)
    assert [one.code for one in made.verification.findings] == ["CF-VERIFY-025"]
    recorder.end(call)
    recorder.close()
    assert cut(lab, run=call.id, force=True).verification.verdict == "intact"


def covered(lab: Any) -> list[Any]:
    """Runs of which a checkpoint covers something."""
    try:
        return (
            counterfoil.read(lab.evidence).runs()
            if counterfoil.verify(lab.evidence).counts["tail"] == 0
            else []
        )
    except StoreError:
        return []


def test_blobs_of_every_size_come_back(lab: Any) -> None:
    told = [
        "",
        "x" * 131_072,
        "x" * 131_071 + "\u00e9",
        "\u00e9" * 200_000,
        "\U0001f600" * 40_000,
        "\ufeffbom\r\n\u2028",
    ]
    binary = [b"\xff", bytes(131_072) + b"\x80", b"\xc3", b"\xed\xa0\x80"]
    recorder = lab.recorder()
    root = recorder.start("invoke_workflow", "app", actor=("app",))
    for number, value in enumerate([*told, *binary]):
        one = recorder.start(
            "execute_tool", f"t{number}", actor=("app",), parent=root, request=recorder.value(value)
        )
        recorder.end(one)
    recorder.end(root)
    recorder.close()
    made = cut(lab, run=root.id)
    assert made.verification.verdict == "intact"
    reader = counterfoil.read(lab.root / "cut.bundle")
    back = [reader.value(call.request) for call in reader.calls()[1:]]
    assert back == [values.encode(value) for value in [*told, *binary]]
    assert max(map(len, (lab.root / "cut.bundle").read_bytes().splitlines())) < 1 << 20


# -- what is refused --------------------------------------------------------------------------------------------------


def refused(code: str, lab: Any, **asked: Any) -> BundleError:
    before = sorted(lab.root.iterdir())
    with pytest.raises(BundleError) as caught:
        cut(lab, **asked)
    assert caught.value.code == code
    assert caught.value.hint
    assert sorted(lab.root.iterdir()) == before  # nothing is left behind
    return caught.value


def test_what_cannot_be_cut(lab: Any) -> None:
    lab.record(2)
    first, second = runs(lab)
    refused("CF-BUNDLE-030", lab)
    refused("CF-BUNDLE-030", lab, run=first, handoff="0" * 64)
    refused("CF-BUNDLE-031", lab, handoff="zz")
    refused("CF-BUNDLE-031", lab, handoff="")
    refused("CF-BUNDLE-032", lab, run="nobody's")
    with pytest.raises(BundleError) as caught:
        counterfoil.bundle(lab.evidence, lab.evidence / "x.bundle", run=first)
    assert caught.value.code == "CF-BUNDLE-035"
    assert lab.verify().verdict == "intact"
    cut(lab, run=first)
    assert cut(lab, run=first).unchanged
    refused("CF-BUNDLE-035", lab, run=second)
    assert not cut(lab, run=second, force=True).unchanged
    with pytest.raises(BundleError) as caught:
        counterfoil.bundle(lab.root / "cut.bundle", lab.root / "again.bundle", run=second)
    assert caught.value.code == "CF-BUNDLE-036"
    (lab.root / "taken").mkdir()
    with pytest.raises(BundleError) as caught:
        counterfoil.bundle(lab.evidence, lab.root / "taken", run=first, force=True)
    assert caught.value.code == "CF-BUNDLE-035"
    with pytest.raises(StoreError) as told:
        counterfoil.bundle(lab.evidence, lab.root / "no" / "folder.bundle", run=first)
    assert told.value.code == "CF-STORE-001"
    with pytest.raises(StoreError) as told:
        counterfoil.bundle(lab.root / "nothing", lab.root / "x.bundle", run=first)
    assert told.value.code == "CF-STORE-002"


def test_damaged_evidence_is_cut_with_force_as_far_as_it_can_be_proved(lab: Any) -> None:
    lab.record(1)
    first = runs(lab)[0]
    cut(lab, "before.bundle", run=first)
    lab.record(1)
    second = runs(lab)[1]
    damaged = lab.segments()[-1]
    data = bytearray(damaged.read_bytes())
    data[len(data) // 2] ^= 1
    damaged.write_bytes(data)
    assert lab.verify().verdict == "broken"
    refused("CF-BUNDLE-033", lab, run=first)
    made = cut(lab, run=first, force=True)
    assert made.damage
    assert made.verification.verdict == "intact"
    assert (lab.root / "cut.bundle").read_bytes() == (lab.root / "before.bundle").read_bytes()
    refused("CF-BUNDLE-032", lab, run=second, force=True)


def test_a_blob_that_the_evidence_lost_makes_the_bundle_broken(
    lab: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What verifies nowhere is cut with force only, and says so."""
    recorder = lab.recorder()
    gone = recorder.value("gone " * 60)
    monkeypatch.setattr(type(recorder), "_lacking", lambda *parts: set(), raising=True)
    root = recorder.start("invoke_workflow", "app", actor=("app",))
    lost = counterfoil.canonical.loads(counterfoil.canonical.dumps(gone.to_dict()))
    lost["sha256"] = "0" * 64
    recorder.end(root, response=Reference.from_dict(lost))
    recorder.close()
    assert "CF-VERIFY-010" in {one.code for one in lab.verify().findings}
    refused("CF-BUNDLE-034", lab, run=root.id)
    made = cut(lab, run=root.id, force=True)
    assert made.verification.verdict == "broken"
    assert {one.code for one in made.verification.findings} == {"CF-VERIFY-010"}


def test_many_logs_that_a_session_cites_apart(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """More logs than a session can name: the list stands apart, and the notes in it are in the bundle."""
    monkeypatch.setattr(appending, "SEEN_MAX", 2)
    recorders = [lab.recorder() for _ in range(5)]
    for recorder in recorders:
        recorder.end(recorder.start("invoke_workflow", "app", actor=("app",)))
        recorder.flush()
    for recorder in recorders:
        recorder.close()
    lab.record(1, calls=0)
    made = cut(lab, run=runs(lab)[-1])
    assert made.verification.verdict == "intact"
    sessions = [line for line in entries(lab) if line["body"].get("content", {}).get("op") == "session"]
    assert "sha256" in sessions[-1]["body"]["context"]["seen"]
    notes = [line for line in lines(lab) if line.get("kind") == "blob" and "\u2014" in line.get("text", "")]
    assert len(notes) >= 4


def test_a_kept_checkpoint_is_held_against_the_heads_that_a_bundle_shows(lab: Any) -> None:
    lab.record(1)
    first = runs(lab)[0]
    cut(lab, run=first)
    note = next(line["note"] for line in lines(lab) if line.get("kind") == "log")
    assert counterfoil.verify(lab.root / "cut.bundle", checkpoints=[note]).verdict == "intact"
    lab.record(1)
    cut(lab, "next.bundle", run=runs(lab)[1])  # its handoff names that checkpoint as its log's last one
    assert counterfoil.verify(lab.root / "next.bundle", checkpoints=[note]).verdict == "intact"
    lab.record(1)
    cut(lab, "later.bundle", run=runs(lab)[2])
    found = counterfoil.verify(lab.root / "later.bundle", checkpoints=[note])
    assert [one.code for one in found.findings] == ["CF-BUNDLE-027"]
    assert found.verdict == "cannot-tell"
    other = lab.root / "other"
    with lab.at(lab.elsewhere):
        lab.record(1, evidence=other)
        run = counterfoil.read(other).runs()[0].id
        counterfoil.bundle(other, lab.root / "other.bundle", run=run)
        found = counterfoil.verify(lab.root / "other.bundle", checkpoints=[note])
    assert [one.code for one in found.findings] == ["CF-VERIFY-007"]


def test_a_policy_judges_a_bundle(lab: Any) -> None:
    lab.record(1)
    cut(lab, run=runs(lab)[0])
    with pytest.raises(counterfoil.errors.CounterfoilError) as caught:
        counterfoil.verify(lab.root / "cut.bundle", policy=b"{}")
    assert caught.value.code.startswith("CF-TRUST-00")
