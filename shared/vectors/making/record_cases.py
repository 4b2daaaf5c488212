"""Records, addresses, entries and content roots."""

from __future__ import annotations

from typing import Any

from making import formats
from making.formats import Blobs, jcs, leaf, root, sha256
from making.logs import AT, RUN, ZERO


def records() -> list[dict[str, Any]]:
    """A record of every form."""
    request = Blobs().reference({"messages": [], "model": "small-1", "params": {}})
    about = {"at": AT, "call": "b" * 32, "parent": "a" * 32, "run": RUN}
    chat = {
        "actor": "team/writer",
        "address": "invoke_workflow:team/step:writer@1/chat:small-1@" + request["sha256"][:16],
        "name": "small-1",
        "op": "chat",
        "request": request,
    }
    response = Blobs().reference({"message": {"$msg": {"content": [], "type": "ai"}}})
    stopped = {"good": 4242, "segment": 3, "sha256": "d" * 64, "size": 4300}
    peaks = {"peaks": ["e" * 64, "f" * 64], "size": 6}
    listed: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
        ("a start", {**chat, "phase": "start"}, about),
        (
            "an end",
            {**chat, "phase": "end", "response": response, "status": "ok"},
            {
                "at": AT + 900000,
                "call": "b" * 32,
                "provider": {"finish_reason": "stop", "id": "r-1", "model": "small-1-0930"},
                "run": RUN,
                "took": 900000,
                "usage": {"input_tokens": 12, "input_tokens.cached": 4, "output_tokens": 3},
            },
        ),
        (
            "an activation that received a handoff",
            {
                "actor": "reviewer",
                "address": "invoke_workflow:team/step:reviewer@2",
                "name": "reviewer",
                "op": "step",
                "parents": [{"address": "invoke_workflow:team/step:writer@1", "rel": "control"}],
                "phase": "start",
            },
            {
                "at": AT,
                "call": "c" * 32,
                "handoffs": ["9" * 64],
                "parent": RUN,
                "parents": [{"digest": "8" * 64, "rel": "control"}],
                "run": RUN,
            },
        ),
        (
            "the end of a run",
            {
                "actor": "team",
                "address": "invoke_workflow:team",
                "error": Blobs().reference({"$exception": "TimeoutError", "args": ["late"]}),
                "name": "team",
                "op": "invoke_workflow",
                "phase": "end",
                "status": "error",
                "totals": {"ended": 5, "started": 5},
            },
            {"at": AT, "call": RUN, "run": RUN, "took": 5},
        ),
        (
            "a point",
            {
                "actor": "team",
                "address": "invoke_workflow:team/custom:note",
                "name": "note",
                "op": "custom",
                "phase": "point",
            },
            {"at": AT, "parent": RUN, "run": RUN},
        ),
        (
            "a decision",
            {
                "handoff": "9" * 64,
                "name": "check_transfer",
                "op": "decision",
                "phase": "point",
                "status": "deny",
            },
            {"at": AT, "reason": Blobs().reference("policy: not today"), "run": RUN},
        ),
        ("a loss", {"name": "disk full", "op": "loss", "phase": "point"}, {"at": AT, "count": 3}),
        ("a segment", {"op": "segment", "phase": "point"}, {"at": AT, "tree": peaks}),
        (
            "a recovery",
            {"op": "recovered", "phase": "point", "segments": [stopped]},
            {"at": AT, "tree": peaks},
        ),
        ("stored", {"offset": 4242, "op": "stored", "segment": 3, "sha256": "d" * 64}, {}),
    ]
    out = []
    for name, content, context in listed:
        text = jcs({"content": content, "context": context, "v": 1})
        out.append({"name": name, "sha256": sha256(text), "size": len(text), "text": text.decode()})
    return out


def actors() -> list[dict[str, Any]]:
    """Paths of names and their text."""
    listed: dict[str, list[str]] = {
        "writer": ["writer"],
        "team/writer": ["team", "writer"],
        "a%2Fb/c": ["a/b", "c"],
        "100%25": ["100%"],
        "r%C3%A9dacteur": ["r\u00e9dacteur"],
        "%E5%86%99": ["\u5199"],
        "%F0%9F%98%80": ["\U0001f600"],
        "%ED%A0%80": ["\ud800"],
        "Plan & write": ["Plan & write"],
        "tab%09%0A%7F": ["tab\t\n\x7f"],
        "-_.~<>()[]{}=+*&$!,;'|^": ["-_.~<>()[]{}=+*&$!,;'|^"],
        "%23%40%3A%3F%22%5C%60%25": ['#@:?"\\`%'],
    }
    assert all(formats.actor(path) == text for text, path in listed.items())
    long = [["n" * 1024], ["n" * 1025], ["t" * 600, "n" * 512], ["t" * 600, "n" * 513], ["a"] * 513]
    return [{"path": path, "text": formats.actor(path)} for path in [*listed.values(), *long]]


def steps() -> list[dict[str, Any]]:
    """Steps of addresses."""
    listed = [
        ("invoke_workflow", "team", "", 1, "invoke_workflow:team"),
        ("step", "writer", "3", 1, "step:writer@3"),
        ("step", "writer", "3", 2, "step:writer@3#2"),
        ("step", "map", "2.0.True", 1, "step:map@2.0.True"),
        ("execute_tool", "search/web", "0", 11, "execute_tool:search%2Fweb@0#11"),
        ("chat", "provider:model@7", "", 2, "chat:provider%3Amodel%407#2"),
    ]
    assert all(formats.step(*one[:4]) == one[4] for one in listed)
    long = [("chat", "m" * 256, "", 1), ("chat", "m" * 257, "", 1), ("step", "\u00e9" * 43, "k" * 257, 2)]
    names = ("op", "name", "key", "occurrence", "text")
    made = [(*one, formats.step(*one)) for one in [*(one[:4] for one in listed), *long]]
    return [dict(zip(names, one, strict=True)) for one in made]


def addresses() -> list[dict[str, str]]:
    """An address and what stands below it; a long one is told by its digest."""
    above = "invoke_workflow:team"
    listed = [above, above + "/step:x" * 142, above + "/step:x" * 143, above + "/step:x" * 200]
    return [{"above": one, "address": formats.below(one, "step:y@1"), "step": "step:y@1"} for one in listed]


def labels() -> list[dict[str, str]]:
    """Names as records tell them."""
    listed = ["writer", "r\u00e9dacteur / \U0001f600", "cut \ud83d", "n" * 512, "n" * 513, "\u00e9" * 513]
    return [{"label": formats.label(name), "name": name} for name in listed]


def entries() -> list[dict[str, Any]]:
    """The first entries of a log."""
    out: list[dict[str, Any]] = []
    prev = ZERO
    for number in range(3):
        body = {
            "content": {"name": "n", "op": "custom", "phase": "point"},
            "context": {"at": AT + number},
            "v": 1,
        }
        text = jcs({"body": body, "i": number, "prev": prev})
        prev = sha256(text)
        out.append({"digest": prev, "leaf": leaf(text).hex(), "text": text.decode()})
    return out


def roots() -> list[dict[str, Any]]:
    """Content roots: in whatever order the parts came."""
    parts = [jcs({"n": number, "op": "chat"}).decode() for number in (3, 1, 2, 10, 1)]
    out = []
    for size in range(len(parts) + 1):
        listed = parts[:size]
        leaves = [leaf(one) for one in sorted(part.encode() for part in listed)]
        out.append({"contents": listed, "root": root(leaves).hex()})
    return out


def refused() -> list[dict[str, Any]]:
    """Bodies that are no record."""
    content = {"name": "n", "op": "custom", "phase": "point"}
    listed: list[tuple[str, Any, str]] = [
        ("a list", [], "CF-LOG-021"),
        ("a text", "record", "CF-LOG-021"),
        ("without context", {"content": content, "v": 1}, "CF-LOG-021"),
        ("a further member", {"content": content, "context": {}, "v": 1, "x": 1}, "CF-LOG-021"),
        ("without op", {"content": {}, "context": {}, "v": 1}, "CF-LOG-021"),
        ("an op that is a number", {"content": {"op": 1}, "context": {}, "v": 1}, "CF-LOG-021"),
        ("a content that is a list", {"content": [], "context": {}, "v": 1}, "CF-LOG-021"),
        ("a context that is null", {"content": content, "context": None, "v": 1}, "CF-LOG-021"),
        ("version 2", {"content": content, "context": {}, "v": 2}, "CF-LOG-022"),
        ("version false", {"content": content, "context": {}, "v": False}, "CF-LOG-022"),
    ]
    return [{"body": body, "code": code, "name": name} for name, body, code in listed]


def build() -> dict[str, Any]:
    """The file."""
    return {
        "actors": actors(),
        "addresses": addresses(),
        "content_roots": roots(),
        "entries": entries(),
        "labels": labels(),
        "records": records(),
        "refused": refused(),
        "steps": steps(),
    }
