"""Keeps credentials out of the evidence: fields of a call's settings and headers whose name says what they hold.

Prompts, messages and tool data are kept as they are. What is replaced leaves ``{"$redacted": {"rule": ...}}``.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any, Final

from counterfoil import values
from counterfoil.capture import content_key

__all__ = ["Redacted", "Redactor", "register", "register_components"]

_RULE: Final = "credential field"
_EXACT: Final = frozenset(
    {"auth", "authorization", "bearer", "cookie", "cookies", "credential", "credentials", "jwt", "token"}
)
_ENDS: Final = (
    "accesskey",
    "accesskeyid",
    "accesstoken",
    "adtoken",
    "apikey",
    "apitoken",
    "authorization",
    "authtoken",
    "bearertoken",
    "connectionstring",
    "hubtoken",
    "idtoken",
    "passphrase",
    "passwd",
    "password",
    "privatekey",
    "refreshtoken",
    "secret",
    "secretkey",
    "securitytoken",
    "sessiontoken",
    "setcookie",
    "subscriptionkey",
    "usertoken",
)
"""Read without case, hyphens and underscores: ``X-Api-Key``, ``openai_api_key`` and ``apiKey`` end alike."""
_NAMESPACES: Final = frozenset({"$defs", "definitions", "patternProperties", "properties"})
"""Under these a JSON Schema keeps names of its own: a parameter called ``password`` is no password."""
_DEPTH: Final = 60
_MEMO: Final = 512
_SCALARS: Final = frozenset({str, int, float, bool, type(None)})


class Redacted:
    """Stands where a credential stood."""

    __slots__ = ("rule",)

    def __init__(self, rule: str) -> None:
        self.rule = rule


class _Behind:
    """A value that is no plain dict or list: its fields are looked at in canonical form."""

    __slots__ = ("redactor", "value")

    def __init__(self, value: object, redactor: Redactor) -> None:
        self.value, self.redactor = value, redactor


class Redactor:
    """Replaces credential fields before anything is stored; ``extra`` are (key, rule) pairs of plugins."""

    __slots__ = ("_extra", "_found", "_harmless")

    def __init__(self, extra: Iterable[tuple[str, str]] = ()) -> None:
        self._extra = {key.lower(): rule for key, rule in extra}
        self._found: dict[str, str | None] = {}
        self._harmless: dict[bytes, None] = {}

    def rule(self, key: object) -> str | None:
        """The rule that hides what stands under ``key``, if any."""
        if not isinstance(key, str):
            return None
        try:
            return self._found[key]
        except KeyError:
            low = key.lower()
            plain = low.replace("-", "").replace("_", "").replace(" ", "")
            rule = self._extra.get(low)
            if rule is None and (plain in _EXACT or plain.endswith(_ENDS)):
                rule = _RULE
            if len(self._found) < 8 * _MEMO:
                self._found[key] = rule
            return rule

    def clean(self, value: Any) -> Any:
        """A copy with credential values replaced; the value itself when there are none."""
        return self.settle(value)[0]

    def settle(self, value: Any) -> tuple[Any, bytes | None]:
        """``clean(value)`` and, when nothing was replaced in a JSON value, its content key.

        What came before with nothing to hide is known by that key: settings come again with every call.
        """
        key = content_key(value)
        if key is None or key in self._harmless:
            return (value if key is not None else self._clean(value, 0, {}, names=False)), key
        out = self._clean(value, 0, {}, names=False)
        if out is not value:
            return out, None
        if len(key) < 1 << 20:
            if len(self._harmless) >= _MEMO:
                self._harmless.clear()
            self._harmless[key] = None
        return out, key

    def _clean(self, value: Any, depth: int, seen: dict[int, Any], *, names: bool) -> Any:
        kind = type(value)
        if kind in _SCALARS:
            return value
        if (kind is not dict and kind is not list) or depth > _DEPTH:
            return _Behind(value, self)
        if id(value) in seen:
            return _Behind(value, self) if seen[id(value)] is None else seen[id(value)]
        seen[id(value)] = None  # met again below itself: a cycle
        out: Any
        if kind is list:
            rules = self._pairs(value)
            out = [
                self._clean(one, depth + 1, seen, names=False)
                if rule is None
                else type(one)((one[0], Redacted(rule)))
                for one, rule in zip(value, rules, strict=True)
            ]
            same = all(one is other for one, other in zip(out, value, strict=True))
        else:
            out = {}
            for key, one in value.items():
                rule = self.rule(key)
                if rule is None or one is None or (names and type(one) in (dict, list, bool)):
                    out[key] = self._clean(one, depth + 1, seen, names=not names and key in _NAMESPACES)
                else:
                    out[key] = Redacted(rule)
            same = all(out[key] is one for key, one in value.items())
        out = value if same else out
        seen[id(value)] = out
        return out

    def _pairs(self, value: list[Any]) -> list[str | None]:
        """Rules for the elements of a list of (name, value) pairs, as headers and odd dicts are listed."""
        if all(type(one) in (list, tuple) and len(one) == 2 and type(one[0]) is str for one in value):
            return [self.rule(name) if one is not None else None for name, one in value]
        return [None] * len(value)

    def canonical(self, value: Any, *, names: bool = False) -> Any:
        """The same for a canonical value, whose tagged forms keep fields under other names."""
        if type(value) is list:
            rules = self._pairs([_untagged(one) for one in value])
            return [
                self.canonical(one) if rule is None else [_untagged(one)[0], _mark(rule)]
                for one, rule in zip(value, rules, strict=True)
            ]
        if type(value) is not dict:
            return value
        done: dict[str, Any] = {}
        for key, one in value.items():
            rule = self.rule(key)
            if rule is None or one is None or (names and type(one) in (dict, list, bool)):
                done[key] = self.canonical(one, names=not names and key in _NAMESPACES)
            else:
                done[key] = _mark(rule)
        return done


def _untagged(value: Any) -> Any:
    """A tuple's canonical form as a list."""
    return value["$tuple"] if type(value) is dict and value.keys() == {"$tuple"} else value


def _mark(rule: str) -> dict[str, Any]:
    return {"$redacted": {"rule": rule}}


def _encode_redacted(value: Any, go: Any) -> object:
    return _mark(value.rule)


def _encode_behind(value: Any, go: Any) -> object:
    return value.redactor.canonical(go(value.value))


def _encode_component(value: Any, go: Any) -> object:
    """A model, tool or chain that is itself a value: its fields, which may be keys and headers, cleaned."""
    fields = getattr(value, "__dict__", None)
    if not hasattr(type(value), "model_fields") or type(fields) is not dict:
        return {"$opaque": values.type_name(value)}
    return {"$model": values.type_name(value), "fields": _PLAIN.canonical(go(fields))}


def _encode_validation_error(value: Any, go: Any) -> object:
    """pydantic keeps what was wrong outside ``args``."""
    listed = value.errors(include_url=False, include_context=False)
    return {"$exception": values.type_name(value), "args": [], "errors": go(listed), "title": go(value.title)}


_PLAIN: Final = Redactor()
_components = False


def register() -> None:
    """Teach the core these forms."""
    from pydantic_core import ValidationError

    values.register(Redacted, _encode_redacted)
    values.register(_Behind, _encode_behind)
    values.register(ValidationError, _encode_validation_error)


def register_components() -> bool:
    """Teach the core LangChain's models, tools and chains once they are imported (the handler is made before)."""
    global _components
    if not _components:
        runnable = getattr(sys.modules.get("langchain_core.runnables.base"), "Runnable", None)
        if runnable is not None:
            values.register(runnable, _encode_component)
            _components = True
    return _components
