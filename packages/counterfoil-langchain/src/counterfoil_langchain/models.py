"""What goes into a model call and what comes out, as requests and responses of records."""

from __future__ import annotations

from typing import Any, Final

from counterfoil import records, values
from counterfoil.recorder import Recorder
from counterfoil_langchain.encode import raw_of
from counterfoil_langchain.redact import Redactor

__all__ = ["calls_tools", "chat_request", "chat_response", "model_name", "text_request"]

_NAMES: Final = ("model", "model_name", "model_id", "deployment_name")
_COUNTERS: Final = 64


def model_name(params: dict[str, Any], metadata: dict[str, Any]) -> str:
    """The model as the application asked for it."""
    for name in _NAMES:
        if isinstance(params.get(name), str):
            return str(params[name])
    found = metadata.get("ls_model_name")
    return found if isinstance(found, str) else ""


def _settings(params: dict[str, Any], metadata: dict[str, Any]) -> dict[str, Any]:
    """The model, what it was told beside the messages, and the tool definitions it was offered."""
    dropped = {"_type", "tools", *(name for name in _NAMES if isinstance(params.get(name), str))}
    tools = params.get("tools")
    if not tools and params.get("functions"):
        tools = params["functions"]
        dropped.add("functions")
    out: dict[str, Any] = {
        "model": model_name(params, metadata),
        "params": {key: value for key, value in params.items() if key not in dropped},
    }
    provider = metadata.get("ls_provider")
    if isinstance(provider, str):
        out["provider"] = provider
    if tools:
        out["tools"] = tools
    return out


def chat_request(
    recorder: Recorder,
    messages: list[Any],
    params: dict[str, Any],
    metadata: dict[str, Any],
    redactor: Redactor,
) -> Any:
    """Reference of ``{"messages", "model", "params", "provider", "tools"}``; ``messages`` is one list a prompt."""
    capture = recorder.capture
    settled = {key: redactor.settle(value) for key, value in _settings(params, metadata).items()}
    parts = {key: capture.cached(value, known) for key, (value, known) in settled.items()}
    parts["messages"] = capture.reduce(messages[0]) if len(messages) == 1 else capture.reduce(messages)
    return capture.composed(parts)


def text_request(
    recorder: Recorder,
    prompts: list[str],
    params: dict[str, Any],
    metadata: dict[str, Any],
    redactor: Redactor,
) -> Any:
    """Reference of ``{"model", "params", "prompts", "provider"}``."""
    return recorder.value({**redactor.clean(_settings(params, metadata)), "prompts": list(prompts)})


def chat_response(recorder: Recorder, result: Any, redactor: Redactor) -> tuple[Any, dict[str, Any]]:
    """Reference of the answer and the context about it: usage, model as answered, finish reason, raw delta."""
    generations = [list(one) for one in result.generations]
    capture = recorder.capture
    context: dict[str, Any] = {}
    if len(generations) == 1 and len(generations[0]) == 1 and hasattr(generations[0][0], "message"):
        generation = generations[0][0]
        response = capture.composed({"message": capture.reduce(generation.message)})
        _about(recorder, generation, context, redactor)
    else:
        listed = [
            [getattr(one, "message", None) or {"text": one.text} for one in group] for group in generations
        ]
        response = recorder.value({"generations": listed})
        raw = [[_raw(one) for one in group] for group in generations]
        if any(one for group in raw for one in group):
            context["raw"] = recorder.value(redactor.clean(raw)).to_dict()
    output = getattr(result, "llm_output", None)
    if isinstance(output, dict) and "usage" not in context and isinstance(output.get("token_usage"), dict):
        context["usage"] = _integers(output["token_usage"])
    return response, context


def calls_tools(result: Any) -> bool:
    """Whether an answer ends in calls of tools."""
    return any(
        bool(getattr(getattr(one, "message", None), "tool_calls", None))
        for group in result.generations
        for one in group
    )


def _about(recorder: Recorder, generation: Any, context: dict[str, Any], redactor: Redactor) -> None:
    message = generation.message
    usage = getattr(message, "usage_metadata", None)
    if usage:
        context["usage"] = _integers(usage)
    metadata = getattr(message, "response_metadata", None) or {}
    info = getattr(generation, "generation_info", None) or {}
    provider = {
        "finish_reason": metadata.get("finish_reason")
        or metadata.get("stop_reason")
        or info.get("finish_reason"),
        "fingerprint": metadata.get("system_fingerprint"),
        "id": metadata.get("id"),
        "model": metadata.get("model_name") or metadata.get("model"),
    }
    provider = {
        key: records.label(value) for key, value in provider.items() if isinstance(value, str) and value
    }
    if provider:
        context["provider"] = provider
    raw = raw_of(message)
    if raw.keys() - {"id"}:
        context["raw"] = recorder.value(redactor.clean(raw)).to_dict()
    elif isinstance(raw.get("id"), str):
        context["message"] = records.label(raw["id"])


def _raw(generation: Any) -> dict[str, Any]:
    """What a generation that is not the only one has beside its text or message's payload."""
    message, info = getattr(generation, "message", None), getattr(generation, "generation_info", None)
    found = {} if message is None else raw_of(message)
    return {**found, "generation_info": info} if info else found


def _integers(usage: Any) -> dict[str, int]:
    """Integer counters of a usage object, one level of details flattened with a dot; the raw form has all of it."""
    out: dict[str, int] = {}
    for key, value in dict(usage).items():
        for name, one in value.items() if isinstance(value, dict) else ((None, value),):
            if type(one) is int and abs(one) <= values.MAX_INT and len(out) < _COUNTERS:
                out[records.label(str(key) if name is None else f"{key}.{name}")] = one
    return out
