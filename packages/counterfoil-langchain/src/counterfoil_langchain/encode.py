"""LangChain and LangGraph objects in canonical form: one digest for a message however it was reached.

The normal form of a message (``shared/spec/values.md``, ``$msg``) has its type, content blocks, name, tool calls,
status and other payload fields, and none of the volatile ones: no id (but a RemoveMessage's that is not random), no
response metadata, no usage.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from typing import Any, Final

from langchain_core.messages import BaseMessage, RemoveMessage

from counterfoil import values
from counterfoil.capture import content_key
from counterfoil_langchain import redact

__all__ = ["control", "encode_message", "message_key", "raw_of", "register", "removed", "write_message"]

_VOLATILE: Final = frozenset(
    {"id", "response_metadata", "usage_metadata", "example", "tool_call_chunks", "chunk_position"}
)
_KNOWN: Final = _VOLATILE | {
    "additional_kwargs",
    "artifact",
    "content",
    "invalid_tool_calls",
    "name",
    "role",
    "status",
    "tool_call_id",
    "tool_calls",
    "type",
}
_CARRIED: Final = frozenset({"tool_call", "tool_use", "function_call", "tool_call_chunk"})
"""Content blocks that repeat what ``tool_calls`` says."""

_RANDOM: Final = re.compile(r"(?:lc_)?(?:run-{1,2})?[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?:-\d+)?")

Go = Callable[[object], object]


def register() -> None:
    """Teach the core LangChain's messages, and what may hold credentials."""
    redact.register()
    values.register(BaseMessage, encode_message, key=message_key, writer=write_message)


_control: tuple[Any, Any, Any] | None = None


def control() -> tuple[Any, Any, Any] | None:
    """LangGraph's Command, Send and Interrupt once the application has imported them; the core learns them then.

    Never imports LangGraph: the handler is made while LangChain itself is being imported.
    """
    global _control
    redact.register_components()
    if _control is None:
        module = sys.modules.get("langgraph.types")
        command, send = getattr(module, "Command", None), getattr(module, "Send", None)
        interrupt = getattr(module, "Interrupt", None)
        if command is None or send is None or interrupt is None:
            return None
        values.register(command, _command)
        values.register(send, _send)
        values.register(interrupt, _interrupt)
        _control = (command, send, interrupt)
    return _control


def encode_message(message: Any, go: Go) -> object:
    """``{"$msg": {...}}``: the message's payload without volatile fields."""
    fields = message.__dict__
    out: dict[str, object] = {
        "content": [go(block) for block in blocks(fields.get("content"), fields.get("tool_calls"))],
        "type": str(fields.get("type", "")).removesuffix("MessageChunk").lower(),
    }
    for name in ("name", "role", "tool_call_id", "artifact"):
        value = fields.get(name)
        if not _nothing(value):
            out[name] = go(value)
    if fields.get("status") == "error":
        out["status"] = "error"
    calls = fields.get("tool_calls")
    if calls:
        out["tool_calls"] = [go(_tool_call(call)) for call in calls]
    if fields.get("invalid_tool_calls"):
        out["invalid_tool_calls"] = go(fields["invalid_tool_calls"])
    given = fields.get("additional_kwargs")
    extra = (
        {key: value for key, value in given.items() if value is not None} if type(given) is dict else given
    )
    if extra:
        out["additional_kwargs"] = go(extra)
    others = {key: value for key, value in fields.items() if key not in _KNOWN}
    others.update(getattr(message, "__pydantic_extra__", None) or {})
    if others:
        out["extra"] = go(others)
    if isinstance(message, RemoveMessage) and not _random(fields.get("id")):
        out["id"] = go(fields.get("id"))
    return {"$msg": out}


def _random(id: Any) -> bool:
    """Whether an id was made for one run, as LangGraph and LangChain make a message's that has none."""
    return type(id) is str and _RANDOM.fullmatch(id) is not None


def removed(output: Any) -> list[str]:
    """Ids that the normal form of a node's or tool's output leaves out, though they say what was removed."""
    kinds = control()
    update = output.update if kinds is not None and issubclass(type(output), kinds[0]) else output
    parts = update.values() if type(update) is dict else [update]
    return [
        one.id
        for part in parts
        for one in (part if type(part) is list else [part])
        if issubclass(type(one), RemoveMessage) and _random(one.id)
    ]


def _tool_call(call: Any) -> Any:
    """A tool call without its constant type and its place in a stream."""
    if type(call) is not dict:
        return call
    return {key: value for key, value in call.items() if key not in ("index", "type")}


def write_message(message: Any, parts: values.Parts) -> bytes | None:
    """Reduced form of a message that is only text, without the detour; equal to what ``encode_message`` gives."""
    fields = message.__dict__
    content, extra = fields.get("content"), fields.get("additional_kwargs")
    if type(content) is not str or (extra and any(value is not None for value in extra.values())):
        return None
    if fields.get("tool_calls") or fields.get("invalid_tool_calls") or fields.get("artifact") is not None:
        return None
    if (
        fields.get("status") == "error"
        or isinstance(message, RemoveMessage)
        or fields.keys() - _KNOWN
        or getattr(message, "__pydantic_extra__", None)
    ):
        return None
    listed = b"[]"
    if content:
        listed = parts.composite(
            b"[" + parts.composite(b'{"text":%b,"type":"text"}' % parts.text(content)) + b"]"
        )
    out = [b'"content":' + listed]
    for name in ("name", "role", "tool_call_id"):
        value = fields.get(name)
        if not _nothing(value):
            if type(value) is not str:
                return None
            out.append(b'"%b":%b' % (name.encode(), parts.text(value)))
    kind = str(fields.get("type", "")).removesuffix("MessageChunk").lower()
    out.append(b'"type":' + parts.text(kind))
    return parts.composite(b'{"$msg":' + parts.composite(b"{" + b",".join(out) + b"}") + b"}")


def blocks(content: Any, tool_calls: Any = None) -> list[Any]:
    """Content as a list of blocks; stream positions, empty texts and what ``tool_calls`` repeats left out."""
    listed = content if isinstance(content, list) else [] if _nothing(content) else [content]
    calls = tool_calls if type(tool_calls) is list else []
    carried = [call.get("id") for call in calls if type(call) is dict and type(call.get("id")) is str]
    out: list[Any] = []
    for block in listed:
        if isinstance(block, str):
            block = {"type": "text", "text": block}
        if type(block) is dict:
            block = {
                key: value
                for key, value in block.items()
                if key != "index" and not (key == "id" and type(value) is str and value.startswith("lc_"))
            }
            kind, text = block.get("type"), block.get("text", "")
            if kind == "text" and type(text) is str and not text:
                continue
            if type(kind) is str and kind in _CARRIED and _carried(block, carried):
                continue
            block = _image(block)
        out.append(block)
    return out


def _carried(block: dict[str, Any], ids: list[Any]) -> bool:
    named = [block[name] for name in ("call_id", "id") if type(block.get(name)) is str]
    return any(name in ids for name in named) if named else bool(ids)


def _image(block: dict[str, Any]) -> dict[str, Any]:
    """The spellings of an inline image or file as one: tracing rewrites them to older shapes."""
    image = block.get("image_url")
    url = image.get("url") if type(image) is dict else None
    if type(url) is str and url.startswith("data:") and block.keys() == {"image_url", "type"}:
        mime, mark, data = url[5:].partition(";base64,")
        if mark and type(image) is dict and image.keys() == {"url"}:
            return {"base64": data, "mime_type": mime, "type": "image"}
    if block.get("source_type") == "base64" and "data" in block:
        rest = {key: value for key, value in block.items() if key not in ("source_type", "data")}
        return {**rest, "base64": block["data"]}
    return block


def message_key(message: Any) -> object:
    """A key that is equal only for messages of equal normal form, or None when there is no cheap one."""
    fields = message.__dict__
    if fields.get("artifact") is not None or getattr(message, "__pydantic_extra__", None):
        return None
    content = fields.get("content")
    try:
        key = (
            (
                type(message),
                content if type(content) is str else _packed(content),
                fields.get("name"),
                fields.get("tool_call_id"),
                fields.get("status"),
                _packed(fields.get("tool_calls")),
                _packed(fields.get("invalid_tool_calls")),
                _packed(fields.get("additional_kwargs")),
                fields.get("id") if isinstance(message, RemoveMessage) else None,
                fields.get("role"),
            )
            if len(fields.keys() - _KNOWN) == 0
            else None
        )
        hash(key)
    except (TypeError, ValueError):  # an object marshal does not know, or an unhashable one in a text's place
        return None
    return key


def _packed(value: object) -> bytes | None:
    """Exact bytes of a JSON value; ValueError for others."""
    if not value:
        return None
    key = content_key(value)
    if key is None:
        raise ValueError
    return key


def raw_of(message: Any) -> dict[str, Any]:
    """What the normal form leaves out of a message: the delta that rebuilds the original."""
    fields = message.__dict__
    found = {name: fields.get(name) for name in ("id", "response_metadata", "usage_metadata")}
    return {name: value for name, value in found.items() if value}


def _command(command: Any, go: Go) -> object:
    fields = {name: getattr(command, name, None) for name in ("goto", "graph", "resume", "update")}
    if type(fields["graph"]) is str:
        # On its way up LangGraph names the graph by a namespace, whose task ids are new in every run.
        fields["graph"] = "|".join(part.partition(":")[0] for part in fields["graph"].split("|"))
    return {"$command": {name: go(value) for name, value in fields.items() if not _nothing(value)}}


def _nothing(value: object) -> bool:
    """None, an empty text or tuple: asked without comparing, which arrays and foreign objects may refuse."""
    return value is None or ((type(value) is str or type(value) is tuple) and not value)


def _send(send: Any, go: Go) -> object:
    out = {"arg": go(send.arg), "node": go(send.node)}
    timeout = getattr(send, "timeout", None)
    return {"$send": out if timeout is None else {**out, "timeout": go(timeout)}}


def _interrupt(interrupt: Any, go: Go) -> object:
    out = {"value": go(getattr(interrupt, "value", None))}
    schema = getattr(interrupt, "response_schema", None)
    return {"$interrupt": out if schema is None else {**out, "response_schema": go(schema)}}
