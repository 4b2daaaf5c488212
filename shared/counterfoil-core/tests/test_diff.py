"""Two runs compared: what repeats is equal, and what does not is named by step, kind and place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import counterfoil
from counterfoil import values
from counterfoil.diff.comparing import Comparison, compare
from counterfoil.diff.valuediff import MISSING, changes, text_lines
from counterfoil.errors import LogError

TOOL = {"name": "look_up", "parameters": {"type": "object", "properties": {"amount": {"type": "integer"}}}}
PROMPT = "".join(f"{number}. You answer in one line.\n{number}. You are polite.\n" for number in range(8))


def message(kind: str, text: str) -> dict[str, Any]:
    return {"content": [{"text": text, "type": "text"}], "type": kind}


def request(**changes: Any) -> dict[str, Any]:
    messages = [message("system", PROMPT), message("human", "How much?")]
    return {
        "messages": messages,
        "model": "small-1",
        "params": {"temperature": 0},
        "tools": [TOOL],
        **changes,
    }


def record(recorder: Any, **changed: Any) -> str:
    """One run of a planner that asks a model and a tool, and hands over to a writer; its identifier."""
    value = recorder.value
    asked = changed.get("request") or request()
    root = recorder.start("invoke_workflow", "app", actor=("app",), request=value({"task": "sum"}))
    planner = recorder.start("step", "planner", actor=("planner",), parent=root, key="1")
    name = changed.get("model", "small-1")
    chat = recorder.start("chat", name, actor=("planner",), parent=planner, request=value(asked))
    answer = {"message": message("ai", changed.get("answer", "Seven. " * 60))}
    provider = {"provider": {"model": changed.get("answered", "small-1-0301")}}
    recorder.end(chat, response=value(answer), status=changed.get("status", "ok"), context=provider)
    for number in range(changed.get("tools", 1)):
        tool = recorder.start(
            "execute_tool",
            "look_up",
            actor=("planner",),
            parent=planner,
            key=str(number),
            request=value({"n": 1}),
        )
        recorder.end(tool, response=value(changed.get("output", {"rows": [1, 2, 3]})))
    recorder.point(
        "custom", "seen", parent=planner, content={"request": value(changed.get("seen", "all")).to_dict()}
    )
    draft = value({"draft": changed.get("draft", "It is seven. " * 40)})
    recorder.end(planner, response=draft)
    handed = recorder.handoff(
        senders=[("planner",)],
        to=changed.get("to", ("writer",)),
        signer=("app",),
        kind="edge",
        basis="observed",
        payload=draft,
        parents=[("control", planner)],
        run=root.run,
    )
    writer = recorder.start(
        "step", "writer", actor=("writer",), parent=root, key="2", request=draft, handoffs=[handed]
    )
    recorder.end(writer)
    recorder.end(root)
    return str(root.id)


def two(lab: Any, **changed: Any) -> Comparison:
    """A run, and the same with something changed, compared."""
    recorder = lab.recorder()
    left, right = record(recorder), record(recorder, **changed)
    recorder.close()
    reader = counterfoil.read(lab.evidence)
    return compare(reader, left, reader, right)


def kinds(found: Comparison) -> list[tuple[str, str]]:
    return [(one.kind, one.op) for one in found.differences]


def test_a_run_repeated_is_equal(lab: Any) -> None:
    found = two(lab)
    assert found.equal
    assert (found.differences, found.first, found.environment) == ((), None, ())
    assert found.left.content_root == found.right.content_root
    assert len(found.left.calls) == len(found.right.calls) == 5


def test_a_prompt_names_the_first_message_that_differs(lab: Any) -> None:
    messages = [
        message("system", PROMPT.replace("3. You are polite", "3. You are brief")),
        message("human", "How many?"),
    ]
    found = two(lab, request=request(messages=messages))
    assert not found.equal
    assert kinds(found) == [("messages", "chat")]
    (change,) = found.differences[0].changes
    assert change.path == "/request/messages/0/content/0/text"
    lines = text_lines(change.left, change.right)
    assert [line for line in lines if line[0] in "-+"] == ["-3. You are polite.", "+3. You are brief."]
    assert found.first == found.differences[0]
    assert found.first.left is not None


def test_a_message_more_is_one_difference(lab: Any) -> None:
    messages = [*request()["messages"], message("human", "And now?")]
    (one,) = two(lab, request=request(messages=messages)).differences
    assert (one.kind, [change.path for change in one.changes]) == ("messages", ["/request/messages/2"])
    assert one.changes[0].left is MISSING


def test_tools_compare_by_name(lab: Any) -> None:
    changed = {
        "name": "look_up",
        "parameters": {"type": "object", "properties": {"amount": {"type": "number"}}},
    }
    other = {"name": "another", "parameters": {}}
    (one,) = two(lab, request=request(tools=[other, changed])).differences
    assert one.kind == "tools"
    assert [(change.path, change.left, change.right) for change in one.changes] == [
        ("/request/tools/another", MISSING, other),
        ("/request/tools/look_up/parameters/properties/amount/type", "integer", "number"),
    ]


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"request": request(params={"temperature": 1})}, [("params", "chat")]),
        ({"request": request(model="small-2"), "model": "small-2"}, [("model", "chat")]),
        ({"request": request(model="small-2")}, [("model", "chat")]),
        ({"answer": "Eight. " * 60}, [("response", "chat")]),
        ({"status": "error"}, [("status", "chat")]),
        ({"output": {"rows": [1, 2, 4]}}, [("response", "execute_tool")]),
        ({"seen": "none"}, [("point", "custom")]),
        ({"tools": 2}, [("added", "execute_tool"), ("content", "invoke_workflow")]),
        ({"tools": 0}, [("removed", "execute_tool"), ("content", "invoke_workflow")]),
    ],
    ids=["params", "model", "model-in-request", "answer", "status", "output", "point", "added", "removed"],
)
def test_what_changed_is_named(lab: Any, changed: dict[str, Any], told: list[tuple[str, str]]) -> None:
    found = two(lab, **changed)
    assert not found.equal
    assert kinds(found) == told
    assert all(one.changes or one.kind in ("added", "removed") for one in found.differences)


def test_what_follows_from_a_change_comes_after_it(lab: Any) -> None:
    found = two(lab, draft="It is eight. " * 40)
    assert kinds(found) == [("response", "step"), ("handoff", "edge"), ("request", "step")]
    assert [change.path for one in found.differences for change in one.changes][:2] == [
        "/response/draft",
        "/payload/draft",
    ]
    found = two(lab, to=("editor",))
    assert kinds(found) == [("handoff", "edge"), ("handoff", "edge")]
    assert {one.left is None for one in found.differences} == {True, False}


def test_the_model_that_answered_is_told_beside_other_differences(lab: Any) -> None:
    """It is context, which need not repeat: alone it leaves two runs equal."""
    assert two(lab, answered="small-1-0614").equal
    found = two(lab, answered="small-1-0614", answer="Eight. " * 60)
    assert kinds(found) == [("response", "chat"), ("answered", "chat")]


def test_what_they_ran_on_is_told_and_decides_nothing(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = []
    for version, names in (("1.0", ["A", "B"]), ("1.1", ["A", "C"])):
        about = {"distributions": {"items": {"framework": version}}, "names": names}
        monkeypatch.setattr("counterfoil.environment.capture", lambda about=about, **_: about)
        recorder = lab.recorder()
        monkeypatch.setattr("counterfoil.environment.state", lambda: None)
        ids.append(record(recorder))
        recorder.close()
    reader = counterfoil.read(lab.evidence)
    found = compare(reader, ids[0], reader, ids[1])
    assert found.equal
    assert [(one.path, one.left, one.right) for one in found.environment] == [
        ("/environment/distributions/items/framework", "1.0", "1.1"),
        ("/environment/names/B", True, MISSING),
        ("/environment/names/C", MISSING, True),
    ]


def test_a_bundle_compares_as_the_evidence_it_was_cut_from(lab: Any) -> None:
    recorder = lab.recorder()
    left, right = record(recorder), record(recorder, answer="Eight. " * 60)
    recorder.close()
    reader = counterfoil.read(lab.evidence)
    counterfoil.bundle(lab.evidence, lab.root / "left.bundle", run=left)
    bundle = counterfoil.read(lab.root / "left.bundle")
    assert compare(bundle, left, reader, left).equal
    there, here = compare(bundle, left, reader, right), compare(reader, left, reader, right)
    assert there.differences == here.differences


def test_bytes_that_are_missing_are_said(lab: Any, tmp_path: Path) -> None:
    recorder = lab.recorder()
    left, right = record(recorder), record(recorder, answer="Eight. " * 60)
    recorder.close()
    reader = counterfoil.read(lab.evidence)
    lost = {
        one.response.sha256
        for one in reader.calls()
        if one.run == right and one.op == "chat" and one.response
    }

    class Lacking(counterfoil.reader.Reader):
        def blob(self, sha256: str) -> bytes:
            return super().blob("0" * 64 if sha256 in lost else sha256)

    found = compare(reader, left, Lacking(reader.store), right)
    (one,) = found.differences
    assert (one.kind, one.problem.partition(":")[0]) == ("response", "CF-LOG-040")


def test_a_run_that_is_not_there(lab: Any) -> None:
    lab.record(1)
    reader = counterfoil.read(lab.evidence)
    (run,) = reader.runs()
    with pytest.raises(LogError) as caught:
        compare(reader, run.id, reader, "0" * 32)
    assert (caught.value.code, caught.value.where) == ("CF-LOG-045", "0" * 32)


# -- values and texts -------------------------------------------------------------------------------------------------


def test_changes_are_the_smallest_parts_in_order() -> None:
    left = {"a/b": 1, "list": [1, 2, {"x": None}], "same": [1.0], "t": "1", "~": True}
    right = {"a/b": 2, "list": [1, 3, {"x": False}, 4], "same": [1], "t": 1, "~": 1}
    assert [(one.path, one.left, one.right) for one in changes(left, right)] == [
        ("/a~1b", 1, 2),
        ("/list/1", 2, 3),
        ("/list/2/x", None, False),
        ("/list/3", MISSING, 4),
        ("/t", "1", 1),
        ("/~0", True, 1),
    ]
    deep: Any = 1
    other: Any = 2
    for _ in range(50_000):
        deep, other = [deep], [other]
    assert [len(one.path) for one in changes(deep, other)] == [100_000]
    assert list(changes(values.encode(left), values.encode(left))) == []


def test_texts_are_told_in_few_lines() -> None:
    one = "\n".join(f"line {number}" for number in range(3000))
    assert text_lines(one, one.replace("line 1500", "LINE 1500"))[1:] == [
        " line 1498",
        " line 1499",
        "-line 1500",
        "+LINE 1500",
        " line 1501",
        " line 1502",
    ]
    assert text_lines("short", "other") == ["-short", "+other"]
    long = "word " * 100_000
    told = text_lines(long, long[:250_000] + "X" + long[250_000:])
    assert told[0] == "@@ character 250001 @@"
    assert max(map(len, told)) < 140
    huge = "a\n" * 200_000
    assert text_lines(huge, huge[:200_001] + "b" + huge[200_001:])[0] == "@@ line 100001 @@"
    assert len(text_lines("\n".join("ab" * 100), "\n".join("cd" * 100), most=10)) == 11
    assert text_lines("a\nb\n", "a\nb") != []
