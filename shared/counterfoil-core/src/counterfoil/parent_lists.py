"""Lists of parents that stand apart because they are long, as handoffs of one log name them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from counterfoil import statements
from counterfoil.digest import MEDIA_JSON, Reference
from counterfoil.errors import CounterfoilError, StoreError

if TYPE_CHECKING:
    from counterfoil.stored import Stored
    from counterfoil.trust_checks import Lineage

__all__ = ["Listed", "ParentLists"]


class Listed(NamedTuple):
    """What a list holds: how many parents, 0 where it is none or not all of them are there; and their taints."""

    number: int
    taints: frozenset[str]


_NOTHING: Final = Listed(0, frozenset())


class ParentLists:
    """Looks into each list once, where a handoff names it first: what it lacks then, it lacks for good.

    So what many handoffs say by one long list costs no more than to read it. Source: ``shared/spec/log.md``.
    """

    def __init__(self, stored: Stored, lineage: Lineage) -> None:
        self._stored = stored
        self._lineage = lineage
        self._seen: dict[tuple[str, int], Listed] = {}

    def look(self, named: statements.ParentSet | None) -> Listed:
        """What the list that a handoff names holds."""
        if named is None:
            return _NOTHING
        key = (named.sha256, named.size)
        if key not in self._seen:
            self._seen[key] = self._read(Reference(named.sha256, named.size, MEDIA_JSON))
        return self._seen[key]

    def _read(self, reference: Reference) -> Listed:
        if not self._stored.there(reference):
            return _NOTHING
        try:
            parents = statements.parse_parents(self._stored.read(reference))
        except StoreError:
            raise  # what the system does not let be read accuses nobody
        except CounterfoilError:
            return _NOTHING
        whole = all(self._stored.knows(one.digest) for one in parents)
        return Listed(len(parents) if whole else 0, self._lineage.taints(one.digest for one in parents))
