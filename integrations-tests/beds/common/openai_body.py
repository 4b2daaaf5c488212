"""Is a recorded model call what went over the wire? Both are brought to one form and compared whole.

The recorded side is the canonical value of a chat record's request, ``{"messages": [{"$msg": ...}],
"tools": [...], "model": ..., "params": {...}}``; the wire side is the body of an OpenAI Chat Completions
request. This is written from the two formats and shares nothing with the adapter that made the record.
"""

from __future__ import annotations

import json
from typing import Any

ROLES = {"human": "user", "ai": "assistant", "AIMessageChunk": "assistant", "developer": "system"}
# Of the parameters: what LangChain adds for itself, and what has a field of its own in the record.
OURS = {"_type", "model_name", "model", "tools", "messages", "stream", "stream_options"}
# Content blocks that repeat what a message's tool calls say.
CALL_BLOCKS = {"tool_call", "tool_use", "function_call"}

Json = dict[str, Any]


def plain(value: Any) -> Any:
    """A canonical value as the JSON it stands for; integral floats as integers, as in RFC 8785."""
    if isinstance(value, dict):
        if value.keys() == {"$map"}:
            return {plain(k): plain(v) for k, v in value["$map"]}
        return {k: plain(v) for k, v in value.items()}
    if isinstance(value, list):
        return [plain(v) for v in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value


def form(value: Any) -> str:
    """A text that is equal for equal JSON values; unlike ``==`` it tells True from 1."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


def blocks(content: Any) -> list[Any]:
    """Message content as a list of blocks, without empty text and without tool calls."""
    listed = content if isinstance(content, list) else [content or ""]
    typed = [{"type": "text", "text": b} if isinstance(b, str) else b for b in listed]
    kept = [b for b in typed if b.get("type") not in CALL_BLOCKS]
    return [b for b in kept if b.get("type") != "text" or b.get("text")]


def _message(role: str, content: Any, name: Any, calls: list[Json], answers: Any) -> Json:
    message = {"role": role, "content": blocks(content), "name": name, "calls": calls, "answers": answers}
    return {k: v for k, v in message.items() if v or k in ("role", "content")}


def wire_message(message: Json) -> Json:
    calls = [
        {"id": c["id"], "name": c["function"]["name"], "args": plain(json.loads(c["function"]["arguments"]))}
        for c in message.get("tool_calls") or []
    ]
    role = ROLES.get(message["role"], message["role"])
    return _message(role, message.get("content"), message.get("name"), calls, message.get("tool_call_id"))


def recorded_message(value: Json) -> Json:
    message = plain(value["$msg"])
    role = ROLES.get(message["type"], message["type"])
    calls = [{k: c.get(k) for k in ("id", "name", "args")} for c in message.get("tool_calls") or []]
    # LangChain gives a tool's answer the tool's name and does not send it.
    name = None if role == "tool" else message.get("name")
    return _message(role, message.get("content"), name, calls, message.get("tool_call_id"))


def wire_request(body: Json) -> Json:
    return {
        "model": body["model"],
        "messages": [wire_message(m) for m in body["messages"]],
        "tools": plain(body.get("tools") or []),
        "stream": body.get("stream") is True,
        "params": plain({k: v for k, v in body.items() if k not in OURS and v is not None}),
    }


def recorded_request(value: Json) -> Json:
    params = plain(value.get("params") or {})
    return {
        "model": value["model"],
        "messages": [recorded_message(m) for m in value["messages"]],
        "tools": plain(value.get("tools") or []),
        "stream": params.get("stream") is True,
        "params": {k: v for k, v in params.items() if k not in OURS and v is not None},
    }


def wire_reply(completion: Json) -> Json:
    return wire_message(completion["choices"][0]["message"])


def recorded_reply(value: Any) -> Json:
    """The reply's message, wherever the record's response holds it; LookupError when nowhere.

    ``create_agent`` writes its agent's name onto the message after the call: it is no part of the reply.
    """
    found = _first_message(value)
    if found is None:
        raise LookupError("the response holds no $msg")
    return {k: v for k, v in recorded_message(found).items() if k != "name"}


def _first_message(value: Any) -> Json | None:
    if isinstance(value, dict):
        if "$msg" in value:
            return value
        value = list(value.values())
    for part in value if isinstance(value, list) else []:
        found = _first_message(part)
        if found is not None:
            return found
    return None


def unmatched(recorded: list[Any], wire: list[Any], what: str) -> list[str]:
    """Problems that keep the two lists from holding equal values, in whatever order."""
    left = list(recorded)
    missing = []
    for value in wire:
        equal = next((i for i, other in enumerate(left) if form(other) == form(value)), None)
        if equal is None:
            missing.append(value)
        else:
            del left[equal]
    problems = (
        [f"{what}: {len(recorded)} recorded, {len(wire)} expected"] if len(recorded) != len(wire) else []
    )
    for index, value in enumerate(missing):
        nearest = left[index] if index < len(left) else None
        problems.append(f"{what}: not recorded as it was: {difference(nearest, value)}")
    return problems


def difference(recorded: Any, wire: Any, path: str = "") -> str:
    """The first place where two values differ, and how."""
    if isinstance(recorded, dict) and isinstance(wire, dict):
        for key in sorted(recorded.keys() | wire.keys()):
            if form(recorded.get(key)) != form(wire.get(key)):
                return difference(recorded.get(key), wire.get(key), f"{path}.{key}")
    if isinstance(recorded, list) and isinstance(wire, list) and len(recorded) == len(wire):
        for index, (one, other) in enumerate(zip(recorded, wire, strict=True)):
            if form(one) != form(other):
                return difference(one, other, f"{path}[{index}]")
    return f"{path or '.'}: recorded {_clip(recorded)}, on the wire {_clip(wire)}"


def _clip(value: Any) -> str:
    text = form(value)
    return text if len(text) <= 160 else f"{text[:160]}... ({len(text)} characters)"
