"""What a reader makes of entries: calls with start and end joined, and runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from urllib.parse import unquote

from counterfoil import records, statements, tree
from counterfoil.digest import Reference, sha256_hex
from counterfoil.dsse import Envelope
from counterfoil.errors import CounterfoilError
from counterfoil.log import Entry

__all__ = ["CallView", "RunView", "Runs", "actor_name", "belongs", "join", "of_run"]


@dataclass(slots=True)
class CallView:
    """A call: its start record joined with its end record, if it ended."""

    id: str
    run: str
    op: str
    name: str
    actor: str
    address: str
    start: Entry
    start_digest: str
    end: Entry | None = None
    end_digest: str | None = None

    @property
    def request(self) -> Reference | None:
        """Reference of what went in; a call that was streamed its input tells it at its end."""
        found = self.start.body["content"].get("request")
        if found is None and self.end is not None:
            found = self.end.body["content"].get("request")
        return _reference(found)

    @property
    def response(self) -> Reference | None:
        """Reference of what came out."""
        return None if self.end is None else _reference(self.end.body["content"].get("response"))

    @property
    def error(self) -> Reference | None:
        """Reference of the error it ended with."""
        return None if self.end is None else _reference(self.end.body["content"].get("error"))

    @property
    def status(self) -> str:
        """``open``, or how it ended: ok, error, cancelled, interrupted, abandoned."""
        return "open" if self.end is None else str(self.end.body["content"].get("status", "ok"))

    @property
    def parent(self) -> str | None:
        """Identifier of the enclosing call."""
        parent = self.start.body["context"].get("parent")
        return parent if isinstance(parent, str) else None

    @property
    def handoffs(self) -> list[str]:
        """Digests of the handoffs this call received."""
        found = self.start.body["context"].get("handoffs")
        return [one for one in found if isinstance(one, str)] if isinstance(found, list) else []


@dataclass(slots=True)
class RunView:
    """A run: its root call and the numbers of its entries."""

    id: str
    log: str
    first: int
    root: CallView | None = None
    entries: list[tuple[str, int]] = field(default_factory=list)
    content: list[bytes] = field(default_factory=list)

    @property
    def content_root(self) -> str:
        """RFC 6962 root over the repeatable part of each entry, sorted bytewise: equal in two equal runs."""
        return tree.root_of([tree.leaf_hash(one) for one in sorted(self.content)]).hex()

    @property
    def ended(self) -> bool:
        """Whether the root call has ended."""
        return self.root is not None and self.root.end is not None


def join(found: dict[str, CallView], entry: Entry) -> CallView | None:
    """Add a start or end record to ``found``; the call it belongs to, None for other records."""
    content, context = entry.body["content"], entry.body["context"]
    id, phase = context.get("call"), content.get("phase")
    if not isinstance(id, str):
        return None
    if phase == "start" and id not in found:
        found[id] = CallView(
            id,
            str(context.get("run", "")),
            str(content["op"]),
            str(content.get("name", "")),
            str(content.get("actor", "")),
            str(content.get("address", "")),
            entry,
            sha256_hex(entry.body_bytes),
        )
    elif phase == "end" and id in found and found[id].end is None:
        found[id].end, found[id].end_digest = entry, sha256_hex(entry.body_bytes)
    return found.get(id)


def actor_name(actor: str) -> str:
    """An actor path as people read it: names decoded, joined by ``/``."""
    return "/".join(unquote(name) for name in actor.split("/"))


def belongs(predicate: statements.Handoff | statements.Receipt, origin: str) -> bool:
    """Whether what a statement says of runs counts in the log of that origin.

    What others signed, or what was signed into another log, stands here as it came: its sender could name any run.
    """
    if isinstance(predicate, statements.Handoff) and predicate.proof == "recorded":
        return True
    own = predicate.own
    return predicate.sender.key == origin.partition("/")[0] and (own is None or own.origin == origin)


class Runs:
    """Tells the run of each entry; the entries of a log have to pass by in order, from its first."""

    __slots__ = ("_origins",)

    def __init__(self) -> None:
        self._origins: dict[str, str] = {}

    def of(self, entry: Entry) -> tuple[str | None, object]:
        """(run, repeatable part) of an entry; None for entries outside every run of this evidence."""
        if records.is_record(entry.body):
            context = entry.body["context"]
            if entry.op == "session":
                self._origins[entry.log] = str(context.get("origin"))
            run = context.get("run")
            return (run if isinstance(run, str) else None), entry.body["content"]
        statement = _statement(entry)
        predicate = None if statement is None else statement.predicate
        if not isinstance(predicate, statements.Handoff | statements.Receipt):
            return None, None
        if predicate.run is None or not belongs(predicate, self._origins.get(entry.log, "")):
            return None, None
        if isinstance(predicate, statements.Receipt):
            return predicate.run, None
        return predicate.run, predicate.content.model_dump(by_alias=True, exclude_none=True)


def of_run(entries: Iterable[Entry], run: str) -> Iterator[tuple[Entry, statements.Statement]]:
    """The handoffs of a run, and all receipts: they tell of handoffs from wherever they stand."""
    told = Runs()
    for entry in entries:
        found = told.of(entry)[0]
        statement = None if records.is_record(entry.body) else _statement(entry)
        if statement is not None and (found == run or isinstance(statement.predicate, statements.Receipt)):
            yield entry, statement


def _statement(entry: Entry) -> statements.Statement | None:
    try:
        return statements.parse(Envelope.parse(entry.body).payload)
    except CounterfoilError:
        return None


def _reference(value: object) -> Reference | None:
    try:
        return None if value is None else Reference.from_dict(value)
    except CounterfoilError:
        return None
