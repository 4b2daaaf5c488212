"""What a record may name by digest: what its own log took before it.

What another process of the same identity wrote, an earlier writer, or the parent of a fork, stands in another log. A
record that named it would make this log wrong for every verifier, so it is left out and counted.
Source: ``shared/spec/record.md``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from counterfoil.calls import Parent
from counterfoil.digest import Reference, is_reference
from counterfoil.writer import Writer

__all__ = ["given", "handoffs_here", "holds_all", "parents_here", "sorted_once"]

Made = Reference | dict[str, Any] | None
"""What callers of a recorder made, maybe with references from anywhere."""
Loss = Callable[[str, int], None]
"""Takes a reason and how many."""

_NO_HANDOFF: Final = "a handoff that a call received is not in this log"
_NO_PARENT: Final = "a parent of a record is not in this log"


def parents_here(
    writer: Writer, parents: Iterable[Parent], foreign: Iterable[tuple[str, str]], loss: Loss
) -> list[dict[str, str]]:
    """Parents by digest: calls that are recorded in this log, and ``foreign`` statements that stand in it.

    A call that is recorded elsewhere is told by its address all the same, so it is no loss.
    """
    found = [
        {"digest": one.digest, "rel": rel} for rel, one in parents if one.digest and one.log is writer and rel
    ]
    if foreign:
        found += _kept(writer, [{"digest": digest, "rel": rel} for rel, digest in foreign], loss)
    return sorted_once(found)


def handoffs_here(writer: Writer, handoffs: Iterable[object], loss: Loss) -> list[str]:
    """The digests among these of statements that stand in this log."""
    listed = list(handoffs)
    found = [one for one in listed if type(one) is str and _stands(writer, one)]
    if len(found) < len(listed):
        loss(_NO_HANDOFF, len(listed) - len(found))
    return found


def given(writer: Writer | None, context: dict[str, Any] | None, loss: Loss) -> dict[str, Any]:
    """A context that a caller made, without digests of what stands in no log, or in another."""
    context = context or {}
    if writer is None or not ("handoffs" in context or "parents" in context):
        return context
    context = dict(context)
    handoffs, parents = context.pop("handoffs", None), context.pop("parents", None)
    if handoffs is not None:
        context["handoffs"] = handoffs_here(writer, _listed(handoffs), loss)
    if is_reference(parents):
        context["parents"] = parents  # looked up as all stored bytes are, not looked into
    elif parents is not None:
        context["parents"] = _kept(writer, _listed(parents), loss)
    return {name: one for name, one in context.items() if one or name not in ("handoffs", "parents")}


def holds_all(writer: Writer, made: Iterable[Made]) -> bool:
    """Whether the log took the bytes under every reference here, as far as a quick look can tell."""
    has = writer.has
    for one in made:
        if type(one) is Reference:
            if not has(one.sha256):
                return False
        elif one and not _all_held(has, one.values()):  # type: ignore[union-attr]
            return False
    return True


def _all_held(has: Callable[[str], bool], values: Iterable[Any]) -> bool:
    for one in values:
        kind = type(one)
        if kind is dict:
            sha256 = one.get("sha256") if len(one) == 3 else None
            if sha256 is None:
                if not _all_held(has, one.values()):
                    return False
            elif type(sha256) is not str or not has(sha256):
                return False
        elif kind is list and not _all_held(has, one):
            return False
    return True


def sorted_once(listed: list[dict[str, str]]) -> list[dict[str, str]]:
    """Parents in their order, each once."""
    seen: dict[tuple[str, ...], dict[str, str]] = {tuple(one.values()): one for one in listed}
    return [seen[key] for key in sorted(seen)]


def _kept(writer: Writer, listed: Sequence[Any], loss: Loss) -> list[dict[str, str]]:
    kept = [
        one
        for one in listed
        if type(one) is dict
        and one.keys() == {"digest", "rel"}
        and type(one["rel"]) is str
        and one["rel"]
        and _stands(writer, one["digest"])
    ]
    if len(kept) < len(listed):
        loss(_NO_PARENT, len(listed) - len(kept))
    return kept


def _listed(value: Any) -> Sequence[Any]:
    return list(value) if type(value) in (list, tuple) else [value]


def _stands(writer: Writer, digest: object) -> bool:
    return type(digest) is str and writer.stated.has(digest)
