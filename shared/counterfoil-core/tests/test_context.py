"""What runs here, and the way back to the root of everything that led to it, over several parents."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from typing import Any

import counterfoil
from counterfoil import context
from counterfoil.ancestry import Ancestry


def diamond(recorder: Any, foreign: str = "f" * 64) -> dict[str, Any]:
    """root -> plan -> (left, right) -> join, with a tool call inside join and a message from outside."""
    root = recorder.start("invoke_workflow", "app", actor=("app",))
    plan = recorder.start("step", "plan", actor=("plan",), parent=root)
    recorder.end(plan)
    left = recorder.start("step", "left", actor=("left",), parent=root, parents=[("control", plan)])
    right = recorder.start(
        "step",
        "right",
        actor=("right",),
        parent=root,
        parents=[("control", plan)],
        foreign=[("data", foreign)],
    )
    recorder.end(left)
    recorder.end(right)
    join = recorder.start(
        "step", "join", actor=("join",), parent=root, parents=[("control", left), ("control", right)]
    )
    tool = recorder.start("execute_tool", "search", actor=("join",), parent=join, parents=[("data", left)])
    return {"root": root, "plan": plan, "left": left, "right": right, "join": join, "tool": tool}


def test_ancestry_of_a_join(lab: Any) -> None:
    recorder = lab.recorder()
    calls = diamond(recorder)
    found = Ancestry.of(calls["tool"])
    assert [(one.op, one.address.rpartition("/")[2], one.depth) for one in found] == [
        ("execute_tool", "execute_tool:search", 0),
        ("step", "step:left", 1),
        ("step", "step:join", 1),
        ("step", "step:plan", 2),
        ("invoke_workflow", "invoke_workflow:app", 2),
        ("step", "step:right", 2),
    ]
    assert found.actors == (("join",), ("left",), ("plan",), ("app",), ("right",))
    assert [one.op for one in found.roots] == ["invoke_workflow"]
    by_digest = {one.digest for one in found}
    cited = {digest for one in found for _, digest in one.parents}
    assert cited - by_digest == {"f" * 64}
    right = next(one for one in found if one.actor == ("right",))
    assert right.parents == (
        ("control", calls["plan"].digest),
        ("call", calls["root"].digest),
        ("data", "f" * 64),
    )
    assert len(found) == 6


def test_ancestry_names_what_the_log_has(lab: Any) -> None:
    recorder = lab.recorder()
    other = recorder.start("invoke_workflow", "other", actor=("other",))
    handed = recorder.handoff(
        senders=[("other",)],
        to=("right",),
        signer=("other",),
        kind="edge",
        basis="sealed",
        payload=recorder.value("what came from outside stands in the log as well"),
        parents=[("control", other)],
        run=other.run,
    )
    recorder.end(other)
    calls = diamond(recorder, foreign=handed)
    found = Ancestry.of(calls["tool"])
    recorder.end(calls["root"])
    recorder.close()
    assert lab.verify().verdict == "intact"
    known = set()
    for call in counterfoil.read(lab.evidence).calls():
        known |= {call.start_digest, call.end_digest}
    assert {one.digest for one in found} <= known


def test_ancestry_of_a_long_way_needs_no_stack(lab: Any) -> None:
    recorder = lab.recorder()
    root = recorder.start("invoke_workflow", "app", actor=("app",))
    last = recorder.start("step", "0", actor=("n",), parent=root)
    for number in range(1, 5000):
        recorder.end(last)
        last = recorder.start("step", str(number), actor=("n",), parent=root, parents=[("control", last)])
    found = Ancestry.of(last)
    assert len(found) == 5001
    assert max(one.depth for one in found) == 4999


def test_current_is_what_was_entered_and_is_not_over(lab: Any) -> None:
    recorder = lab.recorder()
    assert counterfoil.current() is None
    calls = diamond(recorder)
    context.enter(calls["tool"])
    here = counterfoil.current()
    assert here is not None
    assert (here.actor, here.run, here.address, here.digest) == (
        ("join",),
        calls["root"].id,
        calls["tool"].address,
        calls["tool"].start,
    )
    assert "join" in repr(here)
    assert len(here.ancestry()) == 6
    recorder.end(calls["tool"])
    now = counterfoil.current()
    assert now is not None
    assert now.address == calls["join"].address
    recorder.end(calls["root"])
    assert counterfoil.current() is None


def test_current_is_of_its_task_and_thread(lab: Any) -> None:
    recorder = lab.recorder()
    root = recorder.start("invoke_workflow", "app", actor=("app",))
    context.enter(root)
    seen: list[tuple[str, ...]] = []

    async def agent(name: str) -> None:
        context.enter(recorder.start("step", name, actor=(name,), parent=root))
        await asyncio.sleep(0)
        here = counterfoil.current()
        assert here is not None
        seen.append(here.actor)

    async def main() -> None:
        await asyncio.gather(*(agent(str(number)) for number in range(5)))
        here = counterfoil.current()
        assert here is not None
        seen.append(here.actor)

    asyncio.run(main())
    assert seen == [("0",), ("1",), ("2",), ("3",), ("4",), ("app",)]
    other: list[Any] = []
    thread = threading.Thread(target=lambda: other.append(counterfoil.current()))
    thread.start()
    thread.join()
    assert other == [None]
    copied = contextvars.copy_context()
    thread = threading.Thread(target=lambda: other.append(copied.run(counterfoil.current)))
    thread.start()
    thread.join()
    assert other[1].actor == ("app",)


def test_current_without_a_log(lab: Any) -> None:
    """Where nothing can be recorded, code that asks where it runs still gets its answer."""
    lab.evidence.write_text("in the way")
    recorder = lab.recorder()
    calls = diamond(recorder)
    context.enter(calls["tool"])
    here = counterfoil.current()
    assert here is not None
    assert here.actor == ("join",)
    assert here.digest == ""
    assert here.ancestry().actors == (("join",), ("left",), ("plan",), ("app",), ("right",))
