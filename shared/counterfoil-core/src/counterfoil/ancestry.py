"""The graph of what led to a call: several parents, walked from the receiver to the root."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from counterfoil.recorder import Call

__all__ = ["Ancestor", "Ancestry"]


@dataclass(frozen=True, slots=True)
class Ancestor:
    """One activation, call or foreign statement on the way to the root.

    ``digest`` is a record's or a statement's SHA-256, ``parents`` pairs of (relation, digest).
    """

    digest: str
    actor: tuple[str, ...]
    op: str
    address: str
    depth: int
    parents: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Ancestry:
    """Ancestors nearest first; every parent cited inside is an ancestor here or a foreign statement's digest."""

    ancestors: tuple[Ancestor, ...]

    def __iter__(self) -> Iterator[Ancestor]:
        return iter(self.ancestors)

    def __len__(self) -> int:
        return len(self.ancestors)

    @property
    def actors(self) -> tuple[tuple[str, ...], ...]:
        """Actors nearest first, each once."""
        return tuple(dict.fromkeys(ancestor.actor for ancestor in self.ancestors))

    @property
    def roots(self) -> tuple[Ancestor, ...]:
        """Ancestors without parents."""
        return tuple(ancestor for ancestor in self.ancestors if not ancestor.parents)

    @classmethod
    def of(cls, call: Call) -> Ancestry:
        """Walk breadth first over control, call and return parents and the enclosing calls."""
        seen: set[int] = {id(call)}
        level, depth, out = [call], 0, []
        while level:
            following: list[Call] = []
            for one in level:
                links = list(one.parents)
                if one.parent is not None and not any(link is one.parent for _, link in links):
                    links.append(("call", one.parent))
                cited = tuple((rel, link.digest) for rel, link in links) + tuple(one.foreign)
                out.append(Ancestor(one.digest, one.actor, one.op, one.address, depth, cited))
                for _, link in links:
                    if id(link) not in seen:
                        seen.add(id(link))
                        following.append(link)
            level, depth = following, depth + 1
        return cls(tuple(out))
