"""Plugins decide of a handoff: the strictest wins, and one that fails refuses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from sides import Side

import counterfoil
from counterfoil import hooks, plugins


def checker(answer: Callable[[hooks.Transfer], Any]) -> Any:
    class Plugin:
        @hooks.hookimpl
        def counterfoil_check_transfer(self, transfer: hooks.Transfer) -> Any:
            return answer(transfer)

    return Plugin()


def fail(transfer: hooks.Transfer) -> Any:
    raise RuntimeError("the policy server is down")


@pytest.mark.parametrize(
    "answer",
    [
        lambda transfer: hooks.Deny("not today"),
        lambda transfer: hooks.Deny("\ud800" * 3000),
        lambda transfer: True,
        lambda transfer: "yes",
        fail,
    ],
    ids=["denies", "denies at length", "true", "text", "raises"],
)
def test_a_plugin_that_does_not_allow_it(
    sides: tuple[Side, Side], no_plugins: plugins.Plugins, answer: Any
) -> None:
    sender, receiver = sides
    envelope = sender.seal("x")
    no_plugins.register(checker(answer), "policy")
    assert receiver.refused(envelope, "x") == "CF-HANDOFF-017"
    assert "policy" in receiver.receipts()[-1].reason
    assert receiver.verdict().verdict == "intact"


def test_the_strictest_plugin_decides_and_sees_everything(
    sides: tuple[Side, Side], no_plugins: plugins.Plugins
) -> None:
    sender, receiver = sides
    seen: list[hooks.Transfer] = []

    def allow(transfer: hooks.Transfer) -> None:
        seen.append(transfer)

    no_plugins.register(checker(allow), "first")
    envelope = sender.seal("x", parents=["1" * 64])
    accepted = receiver.accept(envelope, "x")
    (transfer,) = seen
    assert (transfer.sender, transfer.to, transfer.kind) == (("sender",), ("receiver",), "message")
    assert (transfer.parents, transfer.proof) == (("1" * 64,), "countersigned")
    assert accepted.parents == (("control", "1" * 64),)
    no_plugins.register(checker(lambda transfer: hooks.Deny("no")), "second")
    assert receiver.refused(sender.seal("y"), "y") == "CF-HANDOFF-017"
    assert len(seen) == 2


def test_a_denied_handoff_inside_a_process_is_told(
    lab: Any, no_plugins: plugins.Plugins, one_run: Any
) -> None:
    no_plugins.register(checker(lambda transfer: hooks.Deny("not this one")), "policy")
    recorder = lab.recorder()
    one_run(recorder)
    recorder.close()
    assert lab.verify().verdict == "intact"
    reader = counterfoil.read(lab.evidence)
    (decision,) = [entry for entry in reader.records() if entry.op == "decision"]
    assert decision.body["content"]["status"] == "deny"
    assert reader.value(decision.body["context"]["reason"]) == "policy: not this one"
