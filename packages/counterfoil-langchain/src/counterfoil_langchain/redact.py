"""Keeps credentials out of the evidence: what a name or a shape in a call's settings and headers gives away.

Prompts, messages and tool data are kept as they are. What is replaced leaves ``{"$redacted": {"rule": ...}}``; inside
a URL or a connection string only the secret part is replaced.
"""

from __future__ import annotations

import itertools
import json
import re
import sys
from collections.abc import Callable, Iterable
from typing import Any, Final
from urllib.parse import unquote_plus

from counterfoil import values
from counterfoil.capture import content_key
from counterfoil_langchain._credentials import (
    _ANY_LINE,
    _ASSIGNED,
    _DEPTH,
    _GONE,
    _HEADERS,
    _JSON,
    _KEEP,
    _LINE,
    _MEMO,
    _NAMED,
    _NAMES,
    _NAMING,
    _PLAIN_MODE,
    _QUERY,
    _QUIET,
    _RULE,
    _SCALARS,
    _SCHEME,
    _USERINFO,
    _is_schema,
    _is_scheme,
    _mark,
    _Name,
    _read,
    _text_of,
)

__all__ = ["Redacted", "Redactor", "register", "register_components"]


class Redacted:
    """Stands where a credential stood."""

    __slots__ = ("rule",)

    def __init__(self, rule: str) -> None:
        self.rule = rule


class _Behind:
    """A value that is no plain dict or list: its fields are looked at in canonical form."""

    __slots__ = ("mode", "redactor", "value")

    def __init__(self, value: object, redactor: Redactor, mode: int) -> None:
        self.value, self.redactor, self.mode = value, redactor, mode


class Redactor:
    """Replaces credential fields before anything is stored; ``extra`` are (key, rule) pairs of plugins."""

    __slots__ = ("_extra", "_found", "_harmless")

    def __init__(self, extra: Iterable[tuple[str, str]] = ()) -> None:
        self._extra = {key.lower(): rule for key, rule in extra}
        self._found: dict[str, _Name] = {}
        self._harmless: dict[bytes, None] = {}

    def rule(self, key: object) -> str | None:
        """The rule that hides what stands under ``key``, if any."""
        text = _text_of(key)
        return None if text is None else self.name(text).rule

    def name(self, key: str) -> _Name:
        """What a name says, remembered: the same names come with every call."""
        found = self._found.get(key)
        if found is None:
            found = _read(key, self._extra.get(key.lower()))
            if len(self._found) < 8 * _MEMO and len(key) <= 256:
                self._found[key] = found
        return found

    def clean(self, value: Any) -> Any:
        """A copy with credential values replaced; the value itself when there are none."""
        return self.settle(value)[0]

    def settle(self, value: Any) -> tuple[Any, bytes | None]:
        """``clean(value)`` and, when nothing was replaced in a JSON value, its content key.

        What came before with nothing to hide is known by that key: settings come again with every call.
        """
        key = content_key(value)
        if key is not None and key in self._harmless:
            return value, key
        out = _Walk(self, Redacted, limit=_DEPTH, tagged=False).go(value, _PLAIN_MODE)
        if key is None or out is not value:
            return out, None
        if len(key) < 1 << 20:
            if len(self._harmless) >= _MEMO:
                self._harmless.clear()
            self._harmless[key] = None
        return out, key

    def canonical(self, value: Any, mode: int = _PLAIN_MODE) -> Any:
        """The same for a canonical value, whose tagged forms keep fields under other names."""
        return _Walk(self, _mark, limit=sys.maxsize, tagged=True).go(value, mode)


class _Walk:
    """One walk over a value; ``tagged`` over a canonical one, which the core has cut already."""

    __slots__ = ("_limit", "_mark", "_name", "_redactor", "_seen", "_tagged")

    def __init__(self, redactor: Redactor, mark: Callable[[str], Any], *, limit: int, tagged: bool) -> None:
        self._redactor, self._mark, self._tagged = redactor, mark, tagged
        self._name, self._limit = redactor.name, limit
        self._seen: dict[tuple[int, int], Any] = {}

    def go(self, value: Any, mode: int, depth: int = 0) -> Any:
        kind = type(value)
        if kind in _SCALARS or mode == _KEEP:
            return value
        if kind is str:
            return self._text(value, mode)
        if kind is bytes:
            text = value.decode("latin-1")
            return value if self._text(text, mode) is text else self._mark(_RULE)
        if (kind is not dict and kind is not list) or (depth > self._limit):
            return value if self._tagged or kind is Redacted else _Behind(value, self._redactor, mode)
        mark = (id(value), mode)
        if mark in self._seen:
            found = self._seen[mark]
            return _Behind(value, self._redactor, mode) if found is None else found
        self._seen[mark] = None  # met again below itself: a cycle
        out = self._list(value, mode, depth) if kind is list else self._dict(value, mode, depth)
        self._seen[mark] = out
        return out

    def _list(self, value: list[Any], mode: int, depth: int) -> list[Any]:
        inner = _PLAIN_MODE if mode == _NAMES else mode
        out = [self._element(one, inner, depth) for one in value]
        if mode == _HEADERS or (mode == _PLAIN_MODE and len(value) == 2):
            # A name and its value beside each other, not in a pair of their own.
            texts = [_text_of(one) for one in value]
            for at, (before, text) in enumerate(itertools.pairwise(texts), 1):
                if before is None or text is None or ":" in before or (mode == _HEADERS and at % 2 == 0):
                    continue
                name = self._name(before)
                if name.flat or (mode == _HEADERS and self._rule(name, text, mode) and ":" not in text):
                    out[at] = self._mark(name.rule or _RULE)
        return value if all(one is other for one, other in zip(out, value, strict=True)) else out

    def _element(self, one: Any, mode: int, depth: int) -> Any:
        """An element of a list, which may be a pair of name and value as headers and odd dicts are listed."""
        pair = one
        if self._tagged and type(one) is dict and one.keys() == {"$tuple"}:
            pair = one["$tuple"]
        if type(pair) not in (list, tuple) or len(pair) != 2 or mode == _QUIET:
            return self.go(one, mode, depth + 1)
        text = _text_of(pair[0])
        if text is None:
            return self.go(one, mode, depth + 1)
        first = self.go(pair[0], _PLAIN_MODE, depth + 1)
        second = self._member(text, pair[1], mode, depth + 1)
        if first is pair[0] and second is pair[1]:
            return one
        return {"$tuple": [first, second]} if pair is not one else type(pair)((first, second))

    def _dict(self, value: dict[Any, Any], mode: int, depth: int) -> dict[Any, Any]:
        out: dict[Any, Any]
        tag = next((key for key in value if key.startswith("$")), None) if self._tagged else None
        if tag is not None:
            out = self._tag(tag, value, mode, depth)
        else:
            named = self._named(value) if mode not in (_NAMES, _QUIET) else None
            others = _PLAIN_MODE if named is not None and mode != _QUERY else mode
            out = {}
            for key, one in value.items():
                if named is not None and key in _NAMED:
                    out[key] = self._member(named, one, mode, depth)
                else:
                    out[key] = self._member(_text_of(key), one, others, depth)
        return value if all(out[key] is one for key, one in value.items()) else out

    def _tag(self, tag: str, value: dict[Any, Any], mode: int, depth: int) -> dict[Any, Any]:
        if tag in ("$msg", "$redacted", "$ndarray"):
            return value
        if tag in ("$map", "$ordereddict"):
            done = [[key, self._member(_text_of(key), one, mode, depth + 1)] for key, one in value[tag]]
            same = all(new[1] is old[1] for new, old in zip(done, value[tag], strict=True))
            return value if same else {**value, tag: done}
        text = _text_of(value)
        if text is not None:
            return value if self._text(text, mode) is text else self._mark(_RULE)
        return {
            key: one
            if type(one) is str and key not in ("value", "$url", "$user")
            else self.go(one, mode, depth + 1)
            for key, one in value.items()
        }

    def _named(self, value: dict[Any, Any]) -> str | None:
        """The name in ``{"name": ..., "value": ...}``."""
        if any(key in value for key in _NAMED):
            for key in _NAMING:
                if (text := _text_of(value.get(key))) is not None:
                    return text
        return None

    def _member(self, key: str | None, value: Any, mode: int, depth: int) -> Any:
        """What stands under a name, or the mark that hides it."""
        if key is None:
            return self.go(value, _PLAIN_MODE if mode == _NAMES else mode, depth + 1)
        name = self._name(key)
        schema = mode == _NAMES and _is_schema(value)
        if not schema and (rule := self._rule(name, value, mode)) is not None:
            return self._mark(rule)
        inner = _QUIET if mode == _QUIET else _PLAIN_MODE
        if name.opens is not None and not (mode == _QUIET and name.opens in (_HEADERS, _QUERY)):
            inner = name.opens
        if schema and inner != _NAMES:
            inner = _QUIET
        return self.go(value, inner, depth + 1)

    def _rule(self, name: _Name, value: Any, mode: int) -> str | None:
        if value is None:
            return None
        if name.rule is not None and not (name.weak and type(value) in _SCALARS):
            return name.rule
        if (mode == _HEADERS and not name.header and type(value) is not bool) or (
            mode == _QUERY and name.query
        ):
            return _RULE
        return None

    def _text(self, text: str, mode: int) -> Any:
        """A text without the secrets that its shape gives away."""
        if mode == _QUIET or len(text) < 6:
            return text
        if ((found := _SCHEME.match(text)) is not None and _is_scheme(*found.groups())) or _LINE.match(text):
            return self._mark(_RULE)
        if mode == _HEADERS:
            for line in _ANY_LINE.finditer(text):
                if self._rule(self._name(line[1]), text, mode) is not None:
                    return self._mark(_RULE)
        if text.lstrip()[:1] in ("{", "[") and len(text) <= _JSON:
            try:
                told = json.loads(text)
            except (ValueError, RecursionError):
                told = None
            if told is not None:
                return self._told(text, told, mode)
        out = text
        if "://" in text:
            out = _USERINFO.sub(rf"\1{_GONE}@", out)
        if "=" in text:
            out = _ASSIGNED.sub(lambda found: self._assigned(found, mode), out)
        return text if out == text else out

    def _told(self, text: str, told: Any, mode: int) -> Any:
        """JSON text again when there was something to hide in it."""
        try:
            out = _Walk(self._redactor, _mark, limit=sys.maxsize, tagged=False).go(told, mode)
            return text if out is told else json.dumps(out, ensure_ascii=False)
        except RecursionError:
            return self._mark(_RULE)

    def _assigned(self, found: re.Match[str], mode: int) -> str:
        """``name=value`` of a query, a form or a connection string."""
        before, name, value = found.groups()
        asked = mode == _QUERY or before in ("?", "&", "#")
        number: Any = 0 if value.isdigit() else value
        if self._rule(self._name(unquote_plus(name)), number, _QUERY if asked else _PLAIN_MODE) is None:
            return found[0]
        return f"{before}{name}={_GONE}"


def _encode_redacted(value: Any, go: Any) -> object:
    return _mark(value.rule)


def _encode_behind(value: Any, go: Any) -> object:
    return value.redactor.canonical(go(value.value), value.mode)


def _encode_component(value: Any, go: Any) -> object:
    """A model, tool or chain that is itself a value: its fields, which may be keys and headers, cleaned."""
    fields = getattr(value, "__dict__", None)
    if not hasattr(type(value), "model_fields") or type(fields) is not dict:
        return {"$opaque": values.type_name(value)}
    return {"$model": values.type_name(value), "fields": _PLAIN.canonical(go(fields))}


def _encode_addable(value: Any, go: Any) -> object:
    """A dict that streams pass where a call passes a plain one: what is in it counts, not how it came."""
    return go(dict.copy(value))


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
            addable = getattr(sys.modules.get("langchain_core.runnables.utils"), "AddableDict", None)
            if addable is not None:
                values.register(addable, _encode_addable)
            _components = True
    return _components
