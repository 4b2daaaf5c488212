"""What a trust policy says, as lines: every member of it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from counterfoil.cli import output
from counterfoil.policy_form import Edge, Key, Limits
from counterfoil.trust import Policy

__all__ = ["policy_lines"]


def policy_lines(found: Policy) -> Iterator[str]:
    """One line for each thing a policy says; a member that is left out is not limited."""
    content = found.content
    yield f"policy {content.name} version {content.version} {found.digest}"
    yield f"from   {_when(content.validFrom)}"
    if content.previous is not None:
        yield f"before {content.previous}"
    for one in found.envelope.signatures:
        yield f"signed {one.keyid}"
    yield f"admins {content.admins.threshold} of {' '.join(one[:16] for one in content.admins.keys)}"
    for key in content.keys:
        yield f"key    {key.key} {key.status}{_key(key)}"
    for agent in content.agents:
        yield f"agent  {agent.id}: {agent.threshold} of {' '.join(one[:16] for one in agent.keys)}"
    if content.roots is not None:
        yield f"roots  {' '.join(content.roots) or 'none: nobody may start authority'}"
    if content.limits is not None:
        yield f"limits{_bounds(content.limits)}"
    if content.time is not None and content.time.skewMs is not None:
        yield f"clocks may differ by {content.time.skewMs} ms"
    if content.edges is None:
        yield "edges  none: any agent may hand to any other"
    elif not content.edges:
        yield "edges  an empty list: no agent may hand to another"
    for edge in content.edges or ():
        yield f"edge   {edge.sender} -> {edge.to}{_edge(edge)}"
    if content.ext is not None:
        yield f"ext    {output.json_text(content.ext)}"


def _key(key: Key) -> str:
    told = f" from {_when(key.notBefore)}" if key.notBefore else ""
    told += f" to {_when(key.notAfter)}" if key.notAfter is not None else ""
    return told + (f" since {_when(key.since)}" if key.since is not None else "")


def _edge(edge: Edge) -> str:
    parts: list[tuple[str, Any]] = [
        ("can", edge.allow),
        ("for", None if edge.purposes is None else list(map(output.json_text, edge.purposes))),
        ("taint", edge.acceptTaint),
    ]
    told = "".join(f" {name} {' '.join(each) or 'nothing'}" for name, each in parts if each is not None)
    return told + _bounds(edge)


def _bounds(one: Edge | Limits) -> str:
    told = f" depth {one.maxDepth}" if one.maxDepth is not None else ""
    return told + (f" ttl {one.ttlMs} ms" if one.ttlMs is not None else "")


def _when(at: int) -> str:
    """Milliseconds as a time, where the calendar has one."""
    try:
        return datetime.fromtimestamp(at / 1000, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    except (OverflowError, ValueError, OSError):
        return f"{at} ms"
