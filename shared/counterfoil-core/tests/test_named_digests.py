"""Whatever digest a recorder is handed, its records name only what stands in the log that takes them.

Another process of the identity, the parent of a fork, a log that was given up, another recorder of the same process, or
nothing at all: left out and counted, so that honest evidence is incomplete at most.
"""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable
from typing import Any

import pytest

import counterfoil
from counterfoil import keys, statements
from counterfoil.digest import Reference, references_in, sha256_hex
from counterfoil.findings import Verification
from counterfoil.recorder import Call, Recorder

NO_HANDOFF = "a handoff that a call received is not in this log"
NO_PARENT = "a parent of a record is not in this log"
NO_VALUE = "a value was not stored"


def hand(recorder: Recorder, root: Call, text: str = "a draft") -> str:
    digest = recorder.handoff(
        senders=[("writer",)],
        to=("reader",),
        signer=("app",),
        kind="edge",
        basis="sealed",
        payload=recorder.value(text),
        parents=[("control", root)],
        run=root.run,
    )
    assert digest is not None
    return digest


def losses(evidence: Any) -> dict[str, int]:
    found: dict[str, int] = {}
    for one in counterfoil.read(evidence).records():
        if one.op == "loss":
            name = one.body["content"]["name"]
            found[name] = found.get(name, 0) + one.body["context"]["count"]
    return found


def named(evidence: Any) -> set[str]:
    """Every digest that a record names: of handoffs it received and of parents."""
    return set().union(*named_by_log(evidence).values())


def named_by_log(evidence: Any) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for one in counterfoil.read(evidence).records():
        here, context = found.setdefault(one.log, set()), one.body["context"]
        here.update(context.get("handoffs", ()))
        parents = context.get("parents", ())
        here.update(parent["digest"] for parent in (parents if type(parents) is list else ()))
    return found


def only_losses(found: Verification) -> None:
    assert (found.verdict, {one.code for one in found.findings}) == ("incomplete", {"CF-VERIFY-021"})


# -- every door -------------------------------------------------------------------------------------------------------

Door = Callable[[Recorder, Call, str], Call | None]


def by_handoffs(recorder: Recorder, root: Call, digest: str) -> Call | None:
    return recorder.start("step", "n", actor=("n",), parent=root, handoffs=[digest])


def by_a_run_of_its_own(recorder: Recorder, root: Call, digest: str) -> Call | None:
    return recorder.start("invoke_workflow", "n", actor=("n",), handoffs=[digest])


def by_foreign(recorder: Recorder, root: Call, digest: str) -> Call | None:
    return recorder.start("step", "n", actor=("n",), parent=root, foreign=[("data", digest)])


def by_the_context_of_a_start(recorder: Recorder, root: Call, digest: str) -> Call | None:
    about = {"handoffs": [digest], "parents": [{"digest": digest, "rel": "data"}]}
    return recorder.start("step", "n", actor=("n",), parent=root, context=about)


def by_the_context_of_an_end(recorder: Recorder, root: Call, digest: str) -> Call | None:
    call = recorder.start("step", "n", actor=("n",), parent=root)
    recorder.end(call, context={"handoffs": [digest], "parents": [{"digest": digest, "rel": "data"}]})
    return None


def by_the_context_of_a_point(recorder: Recorder, root: Call, digest: str) -> Call | None:
    about = {"handoffs": [digest], "parents": [{"digest": digest, "rel": "data"}]}
    recorder.point("custom", "p", parent=root, content={}, context=about)
    return None


DOORS: dict[str, tuple[Door, dict[str, int]]] = {
    "handoffs": (by_handoffs, {NO_HANDOFF: 1}),
    "a run's own": (by_a_run_of_its_own, {NO_HANDOFF: 1}),
    "foreign": (by_foreign, {NO_PARENT: 1}),
    "start": (by_the_context_of_a_start, {NO_HANDOFF: 1, NO_PARENT: 1}),
    "end": (by_the_context_of_an_end, {NO_HANDOFF: 1, NO_PARENT: 1}),
    "point": (by_the_context_of_a_point, {NO_HANDOFF: 1, NO_PARENT: 1}),
}
doors = pytest.mark.parametrize(("door", "lost"), DOORS.values(), ids=DOORS)


def through(door: Door, recorder: Recorder, root: Call, digest: str) -> None:
    call = door(recorder, root, digest)
    if call is not None:
        recorder.end(call)


@doors
def test_a_statement_of_this_log_is_named(lab: Any, door: Door, lost: dict[str, int]) -> None:
    recorder = lab.recorder()
    root = recorder.start("invoke_workflow", "app", actor=("app",))
    digest = hand(recorder, root)
    through(door, recorder, root, digest)
    recorder.end(root)
    recorder.close()
    assert (lab.verify().verdict, recorder.losses) == ("intact", 0)
    assert digest in named(lab.evidence)


def record_of(recorder: Recorder, root: Call) -> str:
    return root.start


NOTHINGS: dict[str, Callable[[Recorder, Call], Any]] = {
    "invented": lambda recorder, root: "0" * 64,
    "a record": record_of,
    "a blob": lambda recorder, root: recorder.value("a text").sha256,
    "capitals": lambda recorder, root: hand(recorder, root).upper(),
    "spaces": lambda recorder, root: " ".join(["0" * 32] * 2),
    "short": lambda recorder, root: hand(recorder, root)[:63],
    "empty": lambda recorder, root: "",
    "bytes": lambda recorder, root: bytes.fromhex(hand(recorder, root)),
    "nothing": lambda recorder, root: None,
    "a list": lambda recorder, root: [hand(recorder, root)],
}


@doors
@pytest.mark.parametrize("made", NOTHINGS.values(), ids=NOTHINGS)
def test_a_digest_of_no_statement_is_left_out(
    lab: Any, door: Door, lost: dict[str, int], made: Callable[[Recorder, Call], Any]
) -> None:
    recorder = lab.recorder()
    root = recorder.start("invoke_workflow", "app", actor=("app",))
    through(door, recorder, root, made(recorder, root))
    recorder.end(root)
    recorder.close()
    only_losses(lab.verify())
    only_losses(lab.verify_elsewhere())
    assert losses(lab.evidence) == lost
    assert recorder.losses == sum(lost.values())


@pytest.mark.parametrize("parents", ["0" * 64, {"digest": "0" * 64}, [{"digest": "1" * 64, "rel": ""}], 7])
def test_parents_of_another_form_are_left_out(lab: Any, parents: Any) -> None:
    recorder = lab.recorder()
    root = recorder.start(
        "invoke_workflow", "app", actor=("app",), context={"parents": parents, "note": "kept"}
    )
    recorder.end(root)
    recorder.close()
    only_losses(lab.verify())
    assert losses(lab.evidence) == {NO_PARENT: 1}
    (call,) = counterfoil.read(lab.evidence).calls()
    context = call.start.body["context"]
    assert "parents" not in context
    assert context["note"] == "kept"


def test_the_good_among_them_are_named(lab: Any) -> None:
    recorder = lab.recorder()
    root = recorder.start("invoke_workflow", "app", actor=("app",))
    first, second = hand(recorder, root, "one"), hand(recorder, root, "two")
    call = recorder.start(
        "step",
        "n",
        actor=("n",),
        parent=root,
        parents=[("control", root)],
        handoffs=[first, "0" * 64, second],
        foreign=[("data", "1" * 64), ("data", second)],
    )
    recorder.end(call)
    recorder.end(root)
    recorder.close()
    only_losses(lab.verify())
    assert losses(lab.evidence) == {NO_HANDOFF: 1, NO_PARENT: 1}
    assert named(lab.evidence) == {first, second, root.start}


# -- other logs -------------------------------------------------------------------------------------------------------


def test_what_another_process_accepted(party: Any) -> None:
    """A web process accepts, a worker of the same identity and evidence does the work."""
    sender = party("sender")
    receiver = party("receiver", trusts=[sender])
    accepted = receiver.accept(sender.seal())
    code = """
    import sys
    sys.path.insert(0, sys.argv[2])
    from test_named_digests import DOORS, through
    from counterfoil.recorder import Recorder
    recorder = Recorder(sys.argv[3])
    root = recorder.start("invoke_workflow", "app", actor=("app",))
    for door, _ in DOORS.values():
        through(door, recorder, root, sys.argv[4])
    recorder.end(root)
    recorder.close()
    print(recorder.losses)
    """
    lost = {name: sum(of.get(name, 0) for _, of in DOORS.values()) for name in (NO_HANDOFF, NO_PARENT)}
    arguments = (os.path.dirname(__file__), receiver.evidence, accepted.digest)
    out = receiver.lab.python(code, *arguments, COUNTERFOIL_HOME=str(receiver.home))
    assert int(out) == sum(lost.values())
    found = receiver.verify()
    only_losses(found)
    assert found.counts["logs"] == 2
    assert losses(receiver.evidence) == lost
    assert accepted.digest not in named(receiver.evidence)


@doors
def test_what_the_parent_of_a_fork_took(lab: Any, door: Door, lost: dict[str, int]) -> None:
    """A server accepts and forks; and the child's own handoffs are named as ever."""
    recorder = lab.recorder()
    root = recorder.start("invoke_workflow", "app", actor=("app",))
    digest = hand(recorder, root)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            own = recorder.start("invoke_workflow", "worker", actor=("worker",))
            through(door, recorder, own, digest)
            through(door, recorder, own, hand(recorder, own, "of the child"))
            recorder.end(own)
            recorder.close()
            status = recorder.losses != sum(lost.values())
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    through(door, recorder, root, digest)
    recorder.end(root)
    recorder.close()
    assert recorder.losses == 0
    found = lab.verify()
    only_losses(found)
    assert found.counts["logs"] == 2
    assert losses(lab.evidence) == lost
    # The parent's own in the parent's log, the child's in the child's.
    parents, childs = sorted(named_by_log(lab.evidence).values(), key=lambda one: digest not in one)
    assert digest in parents
    assert childs
    assert digest not in childs


def test_what_was_accepted_before_a_fork(party: Any) -> None:
    sender = party("sender")
    receiver = party("receiver", trusts=[sender])
    accepted = receiver.accept(sender.seal())
    with receiver.inside() as log:
        child = os.fork()
        if child == 0:
            status = 1
            try:
                call = log.recorder.start("invoke_workflow", "w", actor=("w",), handoffs=[accepted.digest])
                log.recorder.end(call)
                log.recorder.close()
                status = 0
            finally:
                os._exit(status)
        assert os.waitpid(child, 0)[1] == 0
    only_losses(receiver.verify())
    assert losses(receiver.evidence) == {NO_HANDOFF: 1}


@doors
def test_what_another_recorder_of_this_process_took(lab: Any, door: Door, lost: dict[str, int]) -> None:
    """Two logs of one identity in one evidence, and a log of another evidence."""
    first, second, third = lab.recorder(), lab.recorder(), lab.recorder(lab.root / "another")
    roots = [one.start("invoke_workflow", "app", actor=("app",)) for one in (first, second, third)]
    digest = hand(first, roots[0])
    for recorder, root in zip((second, third), roots[1:], strict=True):
        through(door, recorder, root, digest)
    for recorder, root in zip((first, second, third), roots, strict=True):
        recorder.end(root)
        recorder.close()
    for evidence in (lab.evidence, lab.root / "another"):
        only_losses(lab.verify(evidence))
        assert losses(evidence) == lost


@doors
def test_what_a_log_took_that_was_removed(lab: Any, door: Door, lost: dict[str, int]) -> None:
    """The folder goes away under the writer, another log is opened: what stood in the first stands nowhere."""
    recorder = lab.recorder()
    root = recorder.start("invoke_workflow", "app", actor=("app",))
    digest = hand(recorder, root)
    assert recorder.flush()
    before = recorder.open().log
    shutil.rmtree(lab.evidence)
    again = recorder.start("invoke_workflow", "app", actor=("app",))
    recorder.flush()
    own = recorder.start("invoke_workflow", "app", actor=("app",))
    assert recorder.open().log != before
    through(door, recorder, own, digest)
    for call in (own, again, root):
        recorder.end(call)
    recorder.close()
    assert "broken" not in {one.verdict for one in lab.verify().findings}
    found = losses(lab.evidence)
    assert {name: found[name] for name in lost} == lost
    assert digest not in named(lab.evidence)


# -- all kinds of statements ------------------------------------------------------------------------------------------


def test_what_was_sealed_accepted_and_answered_here_is_named(party: Any) -> None:
    sender = party("sender")
    receiver = party("receiver", trusts=[sender])
    sender.trust(receiver)
    envelope = sender.seal()
    accepted = receiver.accept(envelope)
    kept = sender.take(accepted.answer)
    for one, digests in (
        (sender, [envelope.digest, accepted.receipt]),
        (receiver, [accepted.digest, accepted.receipt]),
    ):
        with one.inside() as log:
            recorder = log.recorder
            foreign = [("data", digest) for digest in digests]
            call = recorder.start("invoke_workflow", "w", actor=("w",), handoffs=digests[:1], foreign=foreign)
            recorder.end(call)
            assert recorder.losses == 0
        assert one.verdict() == ("intact", [])
        assert named(one.evidence) == set(digests)
    assert kept.status == "accepted"


def test_a_handoff_far_back_is_named(lab: Any) -> None:
    """More than a writer has at hand at once."""
    recorder = lab.recorder()
    root = recorder.start("invoke_workflow", "app", actor=("app",))
    first = hand(recorder, root)
    stated = recorder.open().stated
    for number in range(40_000):
        stated._known.add(number.to_bytes(32, "big"))
    assert stated.has(first)
    call = recorder.start("step", "n", actor=("n",), parent=root, handoffs=[first, "f" * 64])
    recorder.end(call)
    recorder.end(root)
    recorder.close()
    only_losses(lab.verify())
    assert (losses(lab.evidence), named(lab.evidence)) == ({NO_HANDOFF: 1}, {first})


def test_threads_name_what_they_handed(lab: Any) -> None:
    recorder = lab.recorder()
    root = recorder.start("invoke_workflow", "app", actor=("app",))

    def work(number: int) -> None:
        for turn in range(50):
            digest = hand(recorder, root, f"{number} {turn}")
            recorder.end(recorder.start("step", "n", actor=("n",), parent=root, handoffs=[digest]))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    recorder.end(root)
    recorder.close()
    assert (lab.verify().verdict, recorder.losses, len(named(lab.evidence))) == ("intact", 0, 200)


# -- references -------------------------------------------------------------------------------------------------------

USES: dict[str, Callable[[Recorder, Call, Reference], object]] = {
    "request": lambda recorder, root, ref: recorder.end(
        recorder.start("chat", "m", actor=("n",), parent=root, request=ref)
    ),
    "response": lambda recorder, root, ref: recorder.end(
        recorder.start("chat", "m", actor=("n",), parent=root), response=ref
    ),
    "error": lambda recorder, root, ref: recorder.end(
        recorder.start("chat", "m", actor=("n",), parent=root), status="error", error=ref
    ),
    "context of a start": lambda recorder, root, ref: recorder.end(
        recorder.start("chat", "m", actor=("n",), parent=root, context={"deep": [{"raw": ref.to_dict()}]})
    ),
    "content of an end": lambda recorder, root, ref: recorder.end(
        recorder.start("chat", "m", actor=("n",), parent=root), content={"stream": ref.to_dict()}
    ),
    "context of an end": lambda recorder, root, ref: recorder.end(
        recorder.start("chat", "m", actor=("n",), parent=root), context={"raw": ref.to_dict()}
    ),
    "content of a point": lambda recorder, root, ref: recorder.point(
        "custom", "p", parent=root, content={"value": ref.to_dict()}
    ),
    "context of a point": lambda recorder, root, ref: recorder.point(
        "custom", "p", parent=root, content={}, context={"value": ref.to_dict()}
    ),
    "parents that stand apart": lambda recorder, root, ref: recorder.end(
        recorder.start("chat", "m", actor=("n",), parent=root, context={"parents": ref.to_dict()})
    ),
    "payload": lambda recorder, root, ref: recorder.handoff(
        senders=[("n",)],
        to=("m",),
        signer=("n",),
        kind="edge",
        basis="sealed",
        payload=ref,
        parents=[("control", root)],
        run=root.run,
    ),
}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
@pytest.mark.parametrize("whose", ["another's", "nobody's"])
def test_a_reference_of_bytes_that_are_not_in_this_log(
    lab: Any, use: Callable[[Recorder, Call, Reference], object], whose: str
) -> None:
    recorder, other = lab.recorder(), lab.recorder(lab.root / "another")
    ref = (
        other.value("a text of another log") if whose == "another's" else Reference("0" * 64, 3, "text/plain")
    )
    root = recorder.start("invoke_workflow", "app", actor=("app",))
    use(recorder, root, ref)
    use(recorder, root, recorder.value("a text of this log"))
    recorder.end(root)
    recorder.close()
    only_losses(lab.verify())
    assert losses(lab.evidence).keys() <= {NO_VALUE, "handoff not recorded"}
    cited = {
        ref.sha256 for one in counterfoil.read(lab.evidence).records() for ref in references_in(one.body)
    }
    signed = {one.payload for one in payloads(lab.evidence)}
    assert sha256_hex(b"a text of this log") in cited | signed
    assert ref.sha256 not in cited | signed


def payloads(evidence: Any) -> list[Any]:
    return [
        statement.predicate.content
        for _, statement in counterfoil.read(evidence).statements()
        if isinstance(statement.predicate, statements.Handoff)
    ]


# -- what a bundle cuts out -------------------------------------------------------------------------------------------


def test_a_bundle_of_a_run_that_was_handed_too_much(lab: Any) -> None:
    """A reader with the file alone finds nothing missing."""
    recorder = lab.recorder()
    root = recorder.start("invoke_workflow", "app", actor=("app",), handoffs=["0" * 64])
    digest = hand(recorder, root)
    for door, _ in DOORS.values():
        through(door, recorder, root, digest)
        through(door, recorder, root, "1" * 64)
    recorder.end(root)
    recorder.close()
    counterfoil.bundle(lab.evidence, lab.root / "cut.bundle", run=root.run.id)
    identity = keys.load_identity()
    assert identity is not None
    with lab.at(lab.elsewhere):
        found = counterfoil.verify(lab.root / "cut.bundle", keyring=keys.Keyring.of([identity.public]))
    assert {one.code for one in found.findings} <= {"CF-VERIFY-021"}
    assert (found.counts["handoffs"], found.counts["runs"]) == (1, 1)
