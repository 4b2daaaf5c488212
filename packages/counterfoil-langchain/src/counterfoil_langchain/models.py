"""What goes into a model call and what comes out, as requests and responses of records."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from counterfoil.recorder import Recorder
from counterfoil_langchain.encode import raw_of

__all__ = ["Redactor", "chat_request", "chat_response", "model_name", "text_request"]

_NAMES: Final = ("model", "model_name", "model_id", "deployment_name")
_DROPPED: Final = frozenset({"_type", "tools", "functions", *_NAMES})
_CREDENTIALS: Final = frozenset(
    {
        "access_token",
        "api_key",
        "apikey",
        "authorization",
        "aws_access_key_id",
        "aws_secret_access_key",
        "aws_session_token",
        "client_secret",
        "cookie",
        "credentials",
        "password",
        "proxy-authorization",
        "secret",
        "set-cookie",
        "x-api-key",
        "x-goog-api-key",
    }
)
"""Field names whose values are never stored, in settings and headers (``api-key`` is read as ``api_key``)."""


class Redactor:
    """Replaces credential fields in a call's settings before anything is stored."""

    __slots__ = ("_keys",)

    def __init__(self, extra: Iterable[tuple[str, str]] = ()) -> None:
        self._keys = {name: "credential field" for name in _CREDENTIALS}
        self._keys.update({key.lower(): rule for key, rule in extra})

    def rule(self, key: object) -> str | None:
        """The rule that hides what stands under ``key``, if any."""
        if not isinstance(key, str):
            return None
        low = key.lower()
        found = self._keys.get(low) or self._keys.get(low.replace("-", "_"))
        if found is None and (
            low.endswith(("_api_key", "_secret", "_password", "_token")) and "max" not in low
        ):
            found = "credential field"
        return found

    def clean(self, value: Any, depth: int = 0) -> Any:
        """A copy with credential values replaced; other values are the same objects."""
        if depth > 20:
            return value
        if type(value) is dict:
            return {key: self._one(key, one, depth) for key, one in value.items()}
        if type(value) is list:
            return [self.clean(one, depth + 1) for one in value]
        return value

    def _one(self, key: object, value: Any, depth: int) -> Any:
        rule = self.rule(key)
        if rule is not None and value is not None:
            return Redacted(rule)
        return self.clean(value, depth + 1)


class Redacted:
    """Stands where a credential stood."""

    __slots__ = ("rule",)

    def __init__(self, rule: str) -> None:
        self.rule = rule


def encode_redacted(value: Redacted, go: Any) -> object:
    """``{"$redacted": {"rule": ...}}``."""
    return {"$redacted": {"rule": value.rule}}


def model_name(params: dict[str, Any], metadata: dict[str, Any]) -> str:
    """The model as the application asked for it."""
    for name in _NAMES:
        if isinstance(params.get(name), str):
            return str(params[name])
    found = metadata.get("ls_model_name")
    return found if isinstance(found, str) else ""


def _settings(params: dict[str, Any], metadata: dict[str, Any], redactor: Redactor) -> dict[str, Any]:
    tools = params.get("tools") or params.get("functions")
    out: dict[str, Any] = {
        "model": model_name(params, metadata),
        "params": redactor.clean({key: value for key, value in params.items() if key not in _DROPPED}),
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
    parts = {key: capture.cached(value) for key, value in _settings(params, metadata, redactor).items()}
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
    return recorder.value({**_settings(params, metadata, redactor), "prompts": list(prompts)})


def chat_response(recorder: Recorder, result: Any) -> tuple[Any, dict[str, Any]]:
    """Reference of the answer and the context about it: usage, model as answered, finish reason, raw delta."""
    generations = [list(one) for one in result.generations]
    capture = recorder.capture
    context: dict[str, Any] = {}
    if len(generations) == 1 and len(generations[0]) == 1 and hasattr(generations[0][0], "message"):
        generation = generations[0][0]
        response = capture.composed({"message": capture.reduce(generation.message)})
        _about(recorder, generation, context)
    else:
        listed = [
            [getattr(one, "message", None) or {"text": one.text} for one in group] for group in generations
        ]
        response = recorder.value({"generations": listed})
    output = getattr(result, "llm_output", None)
    if output and "usage" not in context and isinstance(output.get("token_usage"), dict):
        context["usage"] = _integers(output["token_usage"])
    return response, context


def _about(recorder: Recorder, generation: Any, context: dict[str, Any]) -> None:
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
    provider = {key: value for key, value in provider.items() if isinstance(value, str) and value}
    if provider:
        context["provider"] = provider
    raw = raw_of(message)
    if raw.keys() - {"id"}:
        context["raw"] = recorder.value(raw).to_dict()
    elif isinstance(raw.get("id"), str):
        context["message"] = raw["id"]


def _integers(usage: Any) -> dict[str, int]:
    """Integer counters of a usage object, one level of details flattened with a dot."""
    out: dict[str, int] = {}
    for key, value in dict(usage).items():
        if type(value) is int:
            out[str(key)] = value
        elif isinstance(value, dict):
            out.update({f"{key}.{name}": one for name, one in value.items() if type(one) is int})
    return out
