"""In what a step that both runs have differs: model calls member by member, everything else by its value."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from counterfoil.diff.sides import MOST, Difference, Side, name_of, values_of
from counterfoil.diff.valuediff import MISSING, Change, changes
from counterfoil.views import CallView

__all__ = ["step_differences"]

_MODEL: Final = frozenset({"chat", "text_completion", "embeddings"})
_OUTPUTS: Final = ("response", "error")


def step_differences(one: Side, other: Side, left: CallView, right: CallView) -> Iterator[Difference]:
    """What differs between two calls that were matched: actor, request, answers, and only else the rest of the record.

    ``one`` and ``other`` are the two runs, ``left`` and ``right`` a call of each. A value that cannot be read makes a
    Difference with its ``problem``; nothing is raised for it.
    """

    def told(kind: str, *found: Change, ended: bool = False, problem: str = "") -> Difference:
        ends = [call.end if ended and call.end is not None else call.start for call in (left, right)]
        return Difference(
            kind,
            left.op,
            left.actor,
            left.address,
            name_of(ends[0]),
            name_of(ends[1]),
            found[:MOST],
            problem,
        )

    before = 0
    for each in _parts(one, other, left, right, told):
        before += 1
        yield each
    if not before:
        for phase in ("start", "end"):
            pair = [getattr(call, phase) for call in (left, right)]
            bodies = [entry.body["content"] if entry is not None else MISSING for entry in pair]
            rest = [_rest(body) for body in bodies]
            found = tuple(changes(rest[0], rest[1]))
            if found:
                before += 1
                yield told("content", *found, ended=phase == "end")
        steps = [call.address.rpartition("/")[2] for call in (left, right)]
        if not before and steps[0] != steps[1]:
            yield told("content", Change("/address", left.address, right.address))


def _parts(one: Side, other: Side, left: CallView, right: CallView, told: Any) -> Iterator[Difference]:
    if left.actor != right.actor:
        yield told("actor", Change("/actor", left.actor, right.actor))
    if left.name != right.name:
        yield told("model" if left.op in _MODEL else "content", Change("/name", left.name, right.name))
    parents = [call.start.body["content"].get("parents", MISSING) for call in (left, right)]
    if parents[0] != parents[1]:
        yield told("parents", *changes(parents[0], parents[1], "/parents"))
    if left.request != right.request:
        values, problem = values_of((one, other), (left.request, right.request))
        if problem:
            yield told("request", problem=problem)
        else:
            yield from _request(left, right, values, told)
    for name in _OUTPUTS:
        refs = getattr(left, name), getattr(right, name)
        if refs[0] != refs[1]:
            values, problem = values_of((one, other), refs)
            yield told(name, *changes(*values, f"/{name}"), ended=True, problem=problem)
    if left.status != right.status:
        yield told("status", Change("/status", left.status, right.status), ended=True)
    answered = [_answered(call) for call in (left, right)]
    if answered[0] != answered[1]:
        yield told("answered", Change("/provider/model", *answered), ended=True)


def _request(left: CallView, right: CallView, values: tuple[Any, Any], told: Any) -> Iterator[Difference]:
    """Of a model call member by member, so that a changed prompt and a changed tool are two differences."""
    one, other = values
    if left.op not in _MODEL or type(one) is not dict or type(other) is not dict:
        yield told("request", *changes(one, other, "/request"))
        return
    for member in sorted(one.keys() | other.keys()):
        pair = one.get(member, MISSING), other.get(member, MISSING)
        if pair[0] == pair[1]:
            continue
        at = f"/request/{member}"
        if member in ("messages", "prompts"):
            yield told("messages", *_messages(*pair, at))
        elif member == "tools":
            yield told("tools", *_tools(*pair, at))
        elif member == "model" and left.name != right.name:
            continue  # said already, by the name
        else:
            yield told(member if member in ("model", "params") else "request", *changes(*pair, at))


def _messages(one: Any, other: Any, at: str) -> Iterator[Change]:
    """The first message that differs; all that follow it are answers to something else."""
    if type(one) is not list or type(other) is not list:
        yield from changes(one, other, at)
        return
    for place in range(max(len(one), len(other))):
        pair = [side[place] if place < len(side) else MISSING for side in (one, other)]
        if pair[0] != pair[1]:
            yield from changes(pair[0], pair[1], f"{at}/{place}")
            return


def _tools(one: Any, other: Any, at: str) -> Iterator[Change]:
    """Tools by name, not by place."""
    named = [_named(side) for side in (one, other)]
    if None in named:
        yield from changes(one, other, at)
    else:
        yield from changes(named[0], named[1], at)


def _named(tools: Any) -> dict[str, Any] | None:
    if tools is MISSING:
        return {}
    found: dict[str, Any] = {}
    for tool in tools if type(tools) is list else [None]:
        inner = tool.get("function") if type(tool) is dict else None
        name = inner.get("name") if type(inner) is dict else tool.get("name") if type(tool) is dict else None
        if type(name) is not str or name in found:
            return None
        found[name] = tool
    return found


def _answered(call: CallView) -> Any:
    provider = call.end.body["context"].get("provider") if call.end is not None else None
    return provider.get("model") if type(provider) is dict else None


def _rest(content: Any) -> Any:
    """A record's repeatable half without what has its own kind, and without the digest in the address."""
    if type(content) is not dict:
        return content
    return {key: value for key, value in content.items() if key not in ("address", "request", "parents")}
