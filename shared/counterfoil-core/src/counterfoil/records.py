"""A record is one entry about one thing that happened; its ``content`` repeats in a replay, its ``context`` does not.

JSON form (version 1, ``shared/spec/record.md``)::

    {"content": {"actor", "address", "name", "op", "phase", "request", "response", "parents", "status", ...},
     "context": {"at", "call", "run", "parent", "parents", "usage", "provider", ...},
     "v": 1}

Integers only, references for values, at most 32 KiB. ``at`` is Unix time in microseconds.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, Final
from urllib.parse import quote, unquote

from counterfoil import canonical
from counterfoil.digest import is_reference, sha256_hex
from counterfoil.errors import LogError

__all__ = [
    "ACTIVATIONS",
    "MAX_RECORD",
    "VERSION",
    "actor_path",
    "actor_text",
    "below",
    "build",
    "fits",
    "is_record",
    "label",
    "look",
    "now",
    "parse_body",
    "step",
    "without",
]

VERSION: Final = 1
MAX_RECORD: Final = 32 * 1024
MAX_ACTOR: Final = 1024
MAX_ADDRESS: Final = 1024
MAX_NAME: Final = 512
_MAX_PART: Final = 256

ACTIVATIONS: Final = frozenset({"invoke_agent", "step"})
"""Operations that are an activation of an actor: control edges join these only."""


def now() -> int:
    """The wall clock in microseconds, as ``at`` can say it: a clock set beyond (the year 2255) stands at its ends.

    It may jump: entries stand in the order of their index, never of this.
    """
    return min(max(time.time_ns() // 1000, 0), canonical.MAX_INTEGER)


def build(content: dict[str, Any], context: dict[str, Any]) -> bytes:
    """RFC 8785 bytes of a record; raises LogError (CF-LOG-020) past 32 KiB."""
    body = canonical.dumps_record({"content": content, "context": context, "v": VERSION})
    if len(body) > MAX_RECORD:
        raise LogError(
            f"a record of {len(body)} bytes exceeds {MAX_RECORD}",
            code="CF-LOG-020",
            hint="pass long values as values",
        )
    return body


def fits(data: bytes, body: dict[str, Any]) -> bool:
    """Whether a record keeps to its limits: at most 32 KiB, no float, no null (two readers must agree on numbers)."""
    _, nulls, floats = look(body)
    return not nulls and not floats and len(data) <= MAX_RECORD


def look(value: Any) -> tuple[list[tuple[str, int, str]], bool, bool]:
    """What is looked for in a record, in one walk: references (SHA-256, size, media; each once), a null, a float.

    What has the members of a reference and is none is one without a SHA-256.
    """
    found: list[tuple[str, int, str]] = []
    nulls = floats = False
    stack: list[Any] = [value]
    pop, push = stack.pop, stack.append
    while stack:
        node = pop()
        if type(node) is dict:
            if len(node) == 3 and "sha256" in node and "size" in node and "media" in node:
                if is_reference(node):
                    found.append((node["sha256"], node["size"], node["media"]))
                    continue
                # It stands where a reference would, and nothing can be there under it.
                found.append(("", -1, canonical.dumps(node).decode()))
                _, inner_nulls, inner_floats = look(list(node.values()))
                nulls, floats = nulls or inner_nulls, floats or inner_floats
                continue
            node = node.values()
        elif type(node) is not list:
            node = (node,)
        for child in node:
            kind = type(child)
            if kind is str or kind is int:
                continue
            if kind is dict or kind is list:
                push(child)
            elif child is None:
                nulls = True
            elif kind is float:
                floats = True
    if len(found) > 1:
        found = list(dict.fromkeys(found))
    return found, nulls, floats


def is_record(body: dict[str, Any]) -> bool:
    """Whether an entry's body is a record (and not a DSSE envelope)."""
    return "content" in body and "payload" not in body


def parse_body(body: object, where: str) -> dict[str, Any]:
    """Check the outer shape of an entry's body; raises LogError: CF-LOG-021: no known form; CF-LOG-022: a later one."""
    if type(body) is not dict:
        raise LogError("an entry's body is no object", code="CF-LOG-021", where=where)
    if "payload" in body:
        return body
    if body.keys() != {"content", "context", "v"}:
        raise LogError("an entry is neither a record nor an envelope", code="CF-LOG-021", where=where)
    if body["v"] != VERSION or type(body["v"]) is not int:
        raise LogError(
            "the version of a record is unknown",
            code="CF-LOG-022",
            where=where,
            hint="read this evidence with a newer Counterfoil",
        )
    content, context = body["content"], body["context"]
    if type(content) is not dict or type(context) is not dict or type(content.get("op")) is not str:
        raise LogError("a record lacks content, context or op", code="CF-LOG-021", where=where)
    return body


_SAFE = " -_.~<>()[]{}=+*&$!,;'|^"


def label(name: str) -> str:
    """A name as it stands in a record: well-formed, and past 512 characters its beginning and its digest."""
    text = name if name.isascii() else name.encode("utf-8", "backslashreplace").decode()
    return text if len(text) <= MAX_NAME else f"{text[:400]}~{_short(text)}"


def actor_text(path: Iterable[str]) -> str:
    """A path of actor names as one percent-encoded text (``team/writer``).

    A path past 1,024 characters (deeply nested teams) is its digest and the last name.
    """
    return _actor_text(tuple(path))


@lru_cache(maxsize=4096)
def _actor_text(path: tuple[str, ...]) -> str:
    text = "/".join(quote(name, safe=_SAFE, errors="surrogatepass") for name in path)
    if len(text) <= MAX_ACTOR:
        return text
    last = text.rpartition("/")[2]
    return f"~{_short(text)}/{last}" if len(last) <= MAX_ACTOR // 2 else f"~{_short(text)}"


def actor_path(text: str) -> tuple[str, ...]:
    """The names of a percent-encoded actor path."""
    return tuple(unquote(name, errors="surrogatepass") for name in text.split("/")) if text else ()


def step(op: str, name: str, key: str, occurrence: int) -> str:
    """One step of an address: ``op:name@key#occurrence`` (``#1`` is left out), names percent-encoded."""
    text = f"{op}:{_part(name)}"
    if key:
        text += f"@{_part(key)}"
    return text if occurrence == 1 else f"{text}#{occurrence}"


def below(address: str, step: str) -> str:
    """Address of a step below ``address``; one that is nested too deeply tells where it stands by a digest."""
    full = f"{address}/{step}"
    return full if len(full) <= MAX_ADDRESS else f"~{_short(address)}/{step}"


def _part(name: str) -> str:
    if name.isascii() and name.isalnum() and len(name) <= _MAX_PART:
        return name
    return _quoted_part(name)


@lru_cache(maxsize=4096)
def _quoted_part(name: str) -> str:
    text = quote(name, safe=_SAFE, errors="surrogatepass")
    if len(text) <= _MAX_PART:
        return text
    return f"{quote(name[:24], safe=_SAFE, errors='surrogatepass')}~{_short(text)}"


def _short(text: str) -> str:
    return sha256_hex(text.encode())[:32]


def without(value: Any, lacking: set[str]) -> Any:
    """A copy of a value without the references to bytes that are not stored."""
    if type(value) is dict:
        kept = {
            name: one for name, one in value.items() if not (is_reference(one) and one["sha256"] in lacking)
        }
        return {name: without(one, lacking) for name, one in kept.items()}
    if type(value) is list:
        kept_list = [one for one in value if not (is_reference(one) and one["sha256"] in lacking)]
        return [without(one, lacking) for one in kept_list]
    return value
