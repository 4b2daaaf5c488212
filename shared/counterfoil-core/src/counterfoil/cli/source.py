"""Evidence as the reading commands see it: what is damaged is told, and what people type becomes a choice."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import unquote

from counterfoil import verification
from counterfoil.bundles.store import BundleStore
from counterfoil.cli import output
from counterfoil.errors import BundleError, ConfigError
from counterfoil.log import CheckpointSeen, Entry, LogScan, Problem, covered
from counterfoil.reader import Reader, read
from counterfoil.settings import load as settings
from counterfoil.stores import FolderStore
from counterfoil.views import Runs, actor_name

__all__ = ["Choice", "RunInfo", "Source", "actor_name", "choose", "open_source", "short"]

_TOLD = 8
_JUDGED = 32 << 20
"""Bytes of a bundle up to which it is verified by the way."""
_DOUBTS = {"broken": "this bundle is broken", "cannot-tell": "nothing here says whether this bundle is right"}
_WAITING = 4096
SHORT = 8


@dataclass(slots=True)
class RunInfo:
    """A run as people choose it: its number from 1 (oldest), what started it, and how many entries it has."""

    id: str
    at: int
    number: int = 0
    op: str = ""
    name: str = ""
    entries: int = 0


class Source(Reader):
    """A reader that keeps what it could not read, so that nothing is skipped in silence."""

    def __init__(self, store: FolderStore) -> None:
        super().__init__(store)
        self.damage: dict[str, Problem] = {}

    def entries(self) -> Iterator[Entry]:
        """As ``Reader.entries``; where a log cannot be read on stands in ``damage``."""
        for name in self.ordered_logs():
            for event in LogScan(self.store, name).events():
                if isinstance(event, Entry):
                    yield event
                elif isinstance(event, Problem):
                    self.damage[name] = event

    def marked(self) -> Iterator[tuple[Entry, bool]]:
        """The same entries, each with whether a checkpoint stands behind it: until then nothing signed covers it."""
        for name in self.ordered_logs():
            waiting: list[Entry] = []
            known = -1
            for event in LogScan(self.store, name).events():
                if isinstance(event, Entry) and known >= 0:
                    yield event, event.index < known
                elif isinstance(event, Entry):
                    waiting.append(event)
                    if (
                        len(waiting) > _WAITING
                    ):  # far more than a writer leaves: look ahead instead of keeping them
                        known = covered(self.store, name)
                        yield from ((one, one.index < known) for one in waiting)
                        waiting = []
                elif isinstance(event, CheckpointSeen):
                    yield from ((one, True) for one in waiting)
                    waiting = []
                elif isinstance(event, Problem):
                    self.damage[name] = event
            yield from ((one, False) for one in waiting)

    def close(self, *, judge: bool = True) -> int:
        """Tell what could not be read, and of a bundle whether it is to be believed; 1 when something is damaged or
        broken, 0 for a tail that is only unfinished."""
        for problem in self.damage.values():
            level = "note" if problem.torn else "unknown" if problem.unknown else "damaged"
            message = (
                f"{problem.message}; {'it' if problem.unknown else 'what follows in this log'} is not shown"
            )
            for line in output.plain_error(level, problem.code, problem.where, message, "counterfoil verify"):
                output.note(line)
        damaged = any(not problem.torn for problem in self.damage.values())
        return int(damaged or (judge and not self.damage and self._doubted()))

    def _doubted(self) -> bool:
        """Tell of a bundle, which somebody else may have made, why it is not to be believed; True when it is broken."""
        if not isinstance(self.store, BundleStore):
            return False
        place = str(self.store.root)
        if self.store.size() > _JUDGED:
            output.note(
                f"note: this bundle is large and was not verified: counterfoil verify {output.clean(place)}"
            )
            return False
        found = settings()
        judged = verification.verify(self.store, policy=found.policy, full=not found.cache)
        verdict = judged.verdict
        one = next((one for one in judged.findings if one.verdict == verdict), None)
        if one is None or verdict not in _DOUBTS:
            return False
        message = f"{_DOUBTS[verdict]}: {one.message}"
        for line in output.plain_error(
            "warning", one.code, one.where, message, f"counterfoil verify {place}"
        ):
            output.note(line)
        return verdict == "broken"

    def run_list(self) -> list[RunInfo]:
        """All runs, the oldest first."""
        found, told = dict[str, RunInfo](), Runs()
        for entry in self.entries():
            run, _ = told.of(entry)
            if run is None:
                continue
            about = found.get(run)
            if about is None:
                about = found[run] = RunInfo(run, _at(entry))
            about.entries += 1
            if entry.op != "statement":
                content, context = entry.body["content"], entry.body["context"]
                if context.get("call") == run and content.get("phase") == "start":
                    about.at, about.op, about.name = _at(entry), entry.op, str(content.get("name", ""))
        runs = sorted(found.values(), key=lambda one: one.at)
        for number, about in enumerate(runs, 1):
            about.number = number
        return runs

    def run_id(self, text: str | None) -> str | None:
        """The identifier behind ``--run``; raises ConfigError (CF-CLI-010 to 012). None stays None."""
        return None if text is None else choose(self.run_list(), text).id


def choose(runs: list[RunInfo], text: str) -> RunInfo:
    """The run that ``last``, a number or the start of an identifier names."""
    if not runs:
        raise ConfigError("there is no run in this evidence", code="CF-CLI-010", where=text)
    if text == "last":
        return runs[-1]
    numbered = text.isascii() and text.isdigit() and len(text) < SHORT
    if numbered:
        found = runs[int(text) - 1 : int(text)] if int(text) else []
    else:
        found = [one for one in runs if text and one.id.startswith(text.lower())]
    if len(found) == 1:
        return found[0]
    listed = found or runs
    told = ", ".join(f"{one.number} {short(one.id)} {one.name}".rstrip() for one in listed[-_TOLD:])
    more = "" if len(listed) <= _TOLD else f" (the last {_TOLD} of {len(listed)})"
    if found:
        raise ConfigError(
            "more than one run begins like this", code="CF-CLI-012", where=text, hint=f"runs: {told}{more}"
        )
    raise ConfigError("there is no such run", code="CF-CLI-011", where=text, hint=f"runs: {told}{more}")


class Choice:
    """``--actor`` and ``--op``: passes what fits, and afterwards complains about a name that never came."""

    def __init__(self, actor: str | None, op: str | None) -> None:
        self.actor = actor
        self.op = op
        self._actors: set[str] = set()
        self._ops: set[str] = set()
        self._hit = [actor is None, op is None]

    def __call__(self, actor: str | None, op: str) -> bool:
        """Whether something of this actor (or these, with one call each) and operation was asked for."""
        by_actor = self.actor is None or (actor is not None and _is(actor, self.actor))
        by_op = self.op is None or op == self.op
        if actor:
            self._actors.add(actor)
        self._ops.add(op)
        self._hit[0] |= by_actor
        self._hit[1] |= by_op
        return by_actor and by_op

    def check(self, *, kind: str = "operation") -> None:
        """Raise ConfigError (CF-CLI-013, CF-CLI-014) when nothing at all has the actor or the operation."""
        for hit, code, what, name, known in (
            (self._hit[0], "CF-CLI-013", "actor", self.actor, {actor_name(one) for one in self._actors}),
            (self._hit[1], "CF-CLI-014", kind, self.op, self._ops),
        ):
            if not hit:
                listed = ", ".join(sorted(known)[:40]) or "none"
                raise ConfigError(
                    f"there is no such {what} here", code=code, where=name, hint=f"there are: {listed}"
                )


def open_source(evidence: str) -> Source:
    """Evidence with at least one log; raises StoreError (no evidence), ConfigError (CF-CLI-007: no log) or
    BundleError (a bundle of which no log can be read)."""
    source = Source(read(evidence).store)
    if not source.logs():
        if isinstance(source.store, BundleStore):
            for event in source.store.events(""):
                if isinstance(event, Problem):
                    hint = f"counterfoil verify {source.store.root}"
                    raise BundleError(event.message, code=event.code, where=event.where, hint=hint)
        raise ConfigError(
            "there is no log in this evidence",
            code="CF-CLI-007",
            where=source.store.place,
            hint="name the folder that a run wrote",
        )
    return source


def short(digest: str) -> str:
    """The start of a digest or identifier."""
    return digest[:SHORT]


def _is(actor: str, wanted: str) -> bool:
    if wanted.endswith("/") and len(wanted) > 1:
        return actor_name(actor).startswith(wanted) or actor.startswith(wanted)
    return wanted in (actor, actor_name(actor), unquote(actor.rpartition("/")[2]))


def _at(entry: Entry) -> int:
    if entry.op == "statement":
        return 0
    at = entry.body["context"].get("at")
    return at if type(at) is int else 0
