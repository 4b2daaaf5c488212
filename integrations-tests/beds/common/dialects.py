"""The wire formats of the fake server: request to `Request`, `Reply` to response body and stream events."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from scripted import Reply, Request, flat, tokens, tool_call_ids

CREATED = 1_700_000_000
TEXT_CHUNK = 200
ARGUMENT_CHUNK = 60


def _choice(choice: Any) -> str | None:
    if isinstance(choice, dict):
        if "function" in choice:
            return choice["function"].get("name")
        return "any" if choice.get("type") == "any" else choice.get("name")
    return {"required": "any", "any": "any"}.get(choice)


def _pieces(text: str, size: int) -> Iterator[str]:
    for start in range(0, len(text), size):
        yield text[start : start + size]


def _calls(reply: Reply, base: str) -> list[tuple[str, str, dict]]:
    ids = tool_call_ids(base, len(reply.tool_calls))
    return [(i, name, args) for i, (name, args) in zip(ids, reply.tool_calls, strict=True)]


def _openai_call(call_id: str, name: str, arguments: str) -> dict:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


# OpenAI Chat Completions


def from_chat(body: dict) -> Request:
    tools = [t.get("function", t) for t in body.get("tools") or []]
    forced = _choice(body.get("tool_choice"))
    return Request(body["messages"], tools, forced, body.get("model", ""), body.get("response_format"))


def chat_body(body: dict, reply: Reply, base: str) -> dict:
    message: dict = {"role": "assistant", "content": reply.content or (None if reply.tool_calls else "")}
    if reply.tool_calls:
        message["tool_calls"] = [_openai_call(i, n, json.dumps(a)) for i, n, a in _calls(reply, base)]
    asked, given = tokens(json.dumps(body["messages"])), tokens(json.dumps(message))
    finish = "tool_calls" if reply.tool_calls else "stop"
    return {
        "id": "chatcmpl-" + base[:24],
        "object": "chat.completion",
        "created": CREATED,
        "model": body.get("model"),
        "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": finish}],
        "usage": {"prompt_tokens": asked, "completion_tokens": given, "total_tokens": asked + given},
        "system_fingerprint": "fp_scripted",
    }


def chat_events(request: dict, body: dict) -> Iterator[dict]:
    choice = body["choices"][0]
    head = {key: body[key] for key in ("id", "created", "model", "system_fingerprint")}
    head["object"] = "chat.completion.chunk"

    def event(delta: dict, finish: str | None = None) -> dict:
        return {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}

    yield event({"role": "assistant", "content": ""})
    for part in _pieces(choice["message"].get("content") or "", TEXT_CHUNK):
        yield event({"content": part})
    for index, call in enumerate(choice["message"].get("tool_calls") or []):
        opened = _openai_call(call["id"], call["function"]["name"], "")
        yield event({"tool_calls": [{"index": index, **opened}]})
        for part in _pieces(call["function"]["arguments"], ARGUMENT_CHUNK):
            yield event({"tool_calls": [{"index": index, "function": {"arguments": part}}]})
    yield event({}, choice["finish_reason"])
    if (request.get("stream_options") or {}).get("include_usage"):
        yield {**head, "choices": [], "usage": body["usage"]}


# OpenAI Responses (text and function calls)


def from_responses(body: dict) -> Request:
    messages: list[dict] = []
    if body.get("instructions"):
        messages.append({"role": "system", "content": body["instructions"]})
    items = body.get("input")
    if isinstance(items, str):
        items = [{"role": "user", "content": items}]
    for item in items or []:
        kind = item.get("type", "message")
        if kind == "function_call":
            call = _openai_call(item["call_id"], item["name"], item["arguments"])
            messages.append({"role": "assistant", "content": "", "tool_calls": [call]})
        elif kind == "function_call_output":
            result = flat(item.get("output"))
            messages.append({"role": "tool", "tool_call_id": item["call_id"], "content": result})
        elif kind == "message":
            role = "system" if item.get("role") == "developer" else item.get("role", "user")
            messages.append({"role": role, "content": flat(item.get("content"))})
    tools = [t for t in body.get("tools") or [] if t.get("type", "function") == "function" and "name" in t]
    wanted = (body.get("text") or {}).get("format")
    return Request(messages, tools, _choice(body.get("tool_choice")), body.get("model", ""), wanted)


def responses_body(body: dict, reply: Reply, base: str) -> dict:
    output: list[dict] = []
    if reply.content or not reply.tool_calls:
        text = {"type": "output_text", "text": reply.content, "annotations": []}
        head = {"type": "message", "id": "msg_" + base[:20], "role": "assistant", "status": "completed"}
        output.append({**head, "content": [text]})
    for call_id, name, arguments in _calls(reply, base):
        head = {"type": "function_call", "id": "fc_" + call_id[5:], "call_id": call_id, "status": "completed"}
        output.append({**head, "name": name, "arguments": json.dumps(arguments)})
    asked, given = tokens(json.dumps(body.get("input"))), tokens(json.dumps(output))
    return {
        "id": "resp_" + base[:24],
        "object": "response",
        "created_at": CREATED,
        "status": "completed",
        "model": body.get("model"),
        "output": output,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": body.get("tools") or [],
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "temperature": 1.0,
        "top_p": 1.0,
        "usage": {
            "input_tokens": asked,
            "output_tokens": given,
            "total_tokens": asked + given,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens_details": {"reasoning_tokens": 0},
        },
    }


def responses_events(request: dict, body: dict) -> Iterator[dict]:
    events = _responses_events(body)
    for number, (kind, fields) in enumerate(events):
        yield {"type": kind, "sequence_number": number, **fields}


def _responses_events(body: dict) -> Iterator[tuple[str, dict]]:
    yield "response.created", {"response": {**body, "status": "in_progress", "output": []}}
    for index, item in enumerate(body["output"]):
        at = {"output_index": index, "item_id": item["id"]}
        if item["type"] == "message":
            part = item["content"][0]
            inner = {**at, "content_index": 0}
            opened = {**item, "content": [], "status": "in_progress"}
            yield "response.output_item.added", {"output_index": index, "item": opened}
            yield "response.content_part.added", {**inner, "part": {**part, "text": ""}}
            for piece in _pieces(part["text"], TEXT_CHUNK):
                yield "response.output_text.delta", {**inner, "delta": piece}
            yield "response.output_text.done", {**inner, "text": part["text"]}
            yield "response.content_part.done", {**inner, "part": part}
        else:
            opened = {**item, "arguments": "", "status": "in_progress"}
            yield "response.output_item.added", {"output_index": index, "item": opened}
            yield "response.function_call_arguments.delta", {**at, "delta": item["arguments"]}
            done = {**at, "arguments": item["arguments"], "name": item["name"]}
            yield "response.function_call_arguments.done", done
        yield "response.output_item.done", {"output_index": index, "item": item}
    yield "response.completed", {"response": body}


# Anthropic Messages


def from_messages(body: dict) -> Request:
    messages: list[dict] = []
    if body.get("system"):
        messages.append({"role": "system", "content": flat(body["system"])})
    for message in body["messages"]:
        content = message["content"]
        if isinstance(content, str):
            messages.append({"role": message["role"], "content": content})
            continue
        parts: dict[str, list[dict]] = {"text": [], "tool_use": [], "tool_result": []}
        for part in content:
            parts.setdefault(part.get("type"), []).append(part)
        for result in parts["tool_result"]:
            text = flat(result.get("content"))
            messages.append({"role": "tool", "tool_call_id": result["tool_use_id"], "content": text})
        if parts["text"] or parts["tool_use"]:
            said: dict = {"role": message["role"], "content": flat(parts["text"])}
            calls = [_openai_call(u["id"], u["name"], json.dumps(u["input"])) for u in parts["tool_use"]]
            messages.append({**said, "tool_calls": calls} if calls else said)
    tools = [
        {"name": t["name"], "description": t.get("description", ""), "parameters": t.get("input_schema", {})}
        for t in body.get("tools") or []
    ]
    return Request(messages, tools, _choice(body.get("tool_choice")), body.get("model", ""))


def messages_body(body: dict, reply: Reply, base: str) -> dict:
    content: list[dict] = []
    if reply.content or not reply.tool_calls:
        content.append({"type": "text", "text": reply.content})
    for call_id, name, arguments in _calls(reply, base):
        content.append({"type": "tool_use", "id": "toolu_" + call_id[5:], "name": name, "input": arguments})
    return {
        "id": "msg_" + base[:24],
        "type": "message",
        "role": "assistant",
        "model": body.get("model"),
        "content": content,
        "stop_reason": "tool_use" if reply.tool_calls else "end_turn",
        "stop_sequence": None,
        "usage": {
            "input_tokens": tokens(json.dumps(body["messages"])),
            "output_tokens": tokens(json.dumps(content)),
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0,
        },
    }


def messages_events(request: dict, body: dict) -> Iterator[dict]:
    opened = {**body, "content": [], "stop_reason": None, "usage": {**body["usage"], "output_tokens": 1}}
    yield {"type": "message_start", "message": opened}
    for index, block in enumerate(body["content"]):
        at = {"index": index}
        if block["type"] == "text":
            yield {"type": "content_block_start", **at, "content_block": {"type": "text", "text": ""}}
            for piece in _pieces(block["text"], TEXT_CHUNK):
                delta = {"type": "text_delta", "text": piece}
                yield {"type": "content_block_delta", **at, "delta": delta}
        else:
            yield {"type": "content_block_start", **at, "content_block": {**block, "input": {}}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
            yield {"type": "content_block_delta", **at, "delta": delta}
        yield {"type": "content_block_stop", **at}
    end = {"stop_reason": body["stop_reason"], "stop_sequence": None}
    yield {"type": "message_delta", "usage": {"output_tokens": body["usage"]["output_tokens"]}, "delta": end}
    yield {"type": "message_stop"}


@dataclass(frozen=True)
class Dialect:
    """One provider's wire format; `named` streams carry an ``event:`` line, `done` ones end in ``[DONE]``."""

    read: Callable[[dict], Request]
    body: Callable[[dict, Reply, str], dict]
    events: Callable[[dict, dict], Iterator[dict]]
    named: bool
    done: bool


DIALECTS = {
    "/chat/completions": Dialect(from_chat, chat_body, chat_events, named=False, done=True),
    "/responses": Dialect(from_responses, responses_body, responses_events, named=True, done=False),
    "/messages": Dialect(from_messages, messages_body, messages_events, named=True, done=False),
}
