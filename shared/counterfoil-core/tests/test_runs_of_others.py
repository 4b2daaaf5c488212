"""A run of this evidence is what was recorded and sealed in its logs: nobody else's word adds to one, or makes one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import counterfoil
from counterfoil import statements
from counterfoil.bundles.cutting import bundle as cut
from counterfoil.diff.sides import Side
from counterfoil.errors import LogError


@pytest.fixture
def pair(party: Callable[..., Any]) -> tuple[Any, Any]:
    """A sender and a receiver that trust each other; the receiver recorded two runs in one log."""
    sender, receiver = party("sender"), party("receiver")
    sender.trust(receiver)
    receiver.trust(sender)
    return sender, receiver


def runs(receiver: Any) -> dict[str, tuple[str, int]]:
    """Content root and number of entries by run, as a reader finds them."""
    receiver.close()
    return {
        run.id: (run.content_root, len(run.entries)) for run in counterfoil.read(receiver.evidence).runs()
    }


def bundle(receiver: Any, run: str) -> bytes:
    receiver.close()
    out: Path = receiver.lab.root / "one.bundle"
    out.unlink(missing_ok=True)
    with receiver.lab.at(receiver.home):
        cut(receiver.evidence, out=out, run=run)
    return out.read_bytes()


def test_a_peer_that_names_a_run_is_no_part_of_it(pair: tuple[Any, Any], one_run: Any) -> None:
    sender, receiver = pair
    with receiver.inside() as log:
        first = one_run(log.recorder, number=1).run.id
        receiver_handed = counterfoil.seal(log, "task", to="sender")
    receiver.close()
    with receiver.inside() as log:
        second = one_run(log.recorder, number=2).run.id
    before, cut_before = runs(receiver), {one: bundle(receiver, one) for one in (first, second)}
    assert before.keys() == {first, second}
    graph = counterfoil.read(receiver.evidence).graph(run=first).to_json()
    handed = counterfoil.read(receiver.evidence).handoffs(hops=True, run=first)
    for named in (first, second, f"{first[:8]}{'0' * 24}", "x" * 64):
        receiver.accept(sender.sign(sender.message(run=named)))
        assert receiver.refuses(sender.sign(sender.message("other", run=named))) == "CF-HANDOFF-016"
    answer = sender.accept(receiver_handed)
    predicate = statements.parse(answer.answer.payload).predicate.model_dump(by_alias=True, exclude_none=True)
    receiver.take(sender.sign({**predicate, "run": first}, kind=statements.RECEIPT))
    assert receiver.verdict() == ("intact", [])
    assert runs(receiver) == before
    assert {one: bundle(receiver, one) for one in (first, second)} == cut_before
    reader = counterfoil.read(receiver.evidence)
    assert reader.graph(run=first).to_json() == graph
    assert reader.handoffs(hops=True, run=first) == handed
    assert Side.of(reader, first).content_root == before[first][0]
    with pytest.raises(LogError, match="CF-LOG-045"):
        Side.of(reader, "x" * 64)
    assert reader.handoffs(hops=True, run="x" * 64) == []


def test_what_is_sealed_in_a_run_is_a_part_of_it_where_it_was_sealed(
    pair: tuple[Any, Any], one_run: Any, party: Callable[..., Any]
) -> None:
    """Another process of the same identity that accepts it has a copy, which is no part of the run there."""
    sender, _ = pair
    with sender.inside() as log:
        one_run(log.recorder)
        call = log.recorder.start("invoke_workflow", "app", actor=("sender",))
        run = call.run.id
        log.recorder.open().checkpoint()
        assert log.flush()
        with sender.lab.at(sender.home):
            sealed = sender.sign(
                sender.message(to="sender", run=run, own=log.recorder.open().last_checkpoint())
            )
            sender.append(sealed)
            with counterfoil.open(sender.evidence, actor="sender") as other:
                counterfoil.accept(other, sealed, "task")
        log.recorder.end(call)
    assert sender.verdict() == ("intact", [])
    found = {one.id: one for one in counterfoil.read(sender.evidence).runs()}
    assert len(counterfoil.read(sender.evidence).logs()) == 2
    assert len(found) == 2
    assert {name for name, _ in found[run].entries} == {found[run].log}
    assert len(found[run].content) == 3
    parts = [
        entry for entry, statement in counterfoil.read(sender.evidence).statements() if run in str(statement)
    ]
    assert len(parts) == 2
