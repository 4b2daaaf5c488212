"""Checks of what statements say about authority, taint, other logs and, where there is a policy, who may say it.

Source: ``shared/spec/trust.md``.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, Literal

from counterfoil import statements
from counterfoil.authority import Grant, why_not
from counterfoil.dsse import Check
from counterfoil.evidence_checks import behind
from counterfoil.findings import Finding, Verdict
from counterfoil.moulds import Known
from counterfoil.trust import Judged, Policy

__all__ = ["Acceptances", "Heads", "Lineage", "Said", "Shared", "judge"]

Said = tuple[str, str, Verdict, str]
"""Code, message, verdict and hint of a finding."""

_Teller = Literal["itself", "owner", "witness"]
"""Who tells a head: the log in its own statements, its owner in another log, or anybody."""

_TAINTS_MAX: Final = 16
"""Taints of one handoff."""
_REVOKED: Final = "ask its owner what else that key signed"
_UNPROVEN: Final = "a time stamp or cosignature from outside would show that it is older"


@dataclass(slots=True)
class Shared:
    """What the checks of all logs of one evidence have in common."""

    heads: Heads
    policy: Policy | None = None
    check: Check | None = None
    acceptances: Acceptances = field(default_factory=lambda: Acceptances())
    known: Known = field(default_factory=Known)


class Lineage:
    """Grants and taints of one log's handoffs, as far as they have passed by."""

    __slots__ = ("_grants", "_taints")

    def __init__(self) -> None:
        self._grants: dict[bytes, Grant] = {}
        self._taints: dict[bytes, tuple[str, ...]] = {}

    def __bool__(self) -> bool:
        """Whether there are taints that others might drop."""
        return bool(self._taints)

    def add(self, statement: statements.Statement) -> None:
        """Note a handoff that others may cite."""
        handoff = statement.predicate
        if not isinstance(handoff, statements.Handoff):
            return
        grant = Grant.of(handoff)
        if grant is not None:
            self._grants[bytes.fromhex(statement.digest)] = grant
        if handoff.taint:
            self._taints[bytes.fromhex(statement.digest)] = tuple(handoff.taint)

    def taints(self, parents: Iterable[str]) -> frozenset[str]:
        """Taints of these parents; of more than a handoff can have, one more than that."""
        found: set[str] = set()
        for digest in parents if self._taints else ():
            found.update(self._taints.get(bytes.fromhex(digest), ()))
            if len(found) > _TAINTS_MAX:
                break
        return frozenset(found)

    def check(self, handoff: statements.Handoff, taints: frozenset[str]) -> Iterator[Said]:
        """Whether a handoff gives no more than it was given, and hides none of its parents' taints."""
        if handoff.authority is not None and handoff.authority.grant is not None:
            why = why_not(handoff, self._grants.get(bytes.fromhex(handoff.authority.grant)))
            if why is not None:
                message = f"a handoff gives authority that its sender does not have: {why}"
                yield "CF-TRUST-040", message, "broken", "do not act on it"
        if not taints.issubset(handoff.taint or ()):
            yield (
                "CF-TRUST-041",
                "a handoff drops a taint of what it follows from",
                "broken",
                "do not rely on it",
            )


@dataclass(slots=True)
class Heads:
    """What statements say of where logs stood; they must agree with each other and with the logs in the evidence."""

    _told: dict[tuple[str, int, bytes, _Teller], str] = field(default_factory=dict)

    def note(self, log: str, origin: str, predicate: statements.Handoff | statements.Receipt) -> None:
        """Note the heads in a verified statement that stands in a log."""
        own = predicate.own
        if own is not None and own.origin.startswith(f"{predicate.sender.key}/"):
            # Before a session names the log's origin, its name is all that is known of it.
            here = own.origin == origin or (not origin and own.origin.endswith(f"/{log}"))
            told = origin if here and origin else own.origin  # one text for all of them
            self._told.setdefault(
                (told, own.size, bytes.fromhex(own.root), "itself" if here else "owner"), log
            )
        for head in predicate.seen or ():
            self._told.setdefault((head.origin, head.size, bytes.fromhex(head.root), "witness"), log)

    def findings(self, logs: dict[str, dict[int, str]], *, lags: bool = False) -> Iterator[Finding]:
        """Findings, given the checkpoints (size to root) of the logs that were read, by origin.

        ``lags``: what is told of the end of a log may still be on its way here.
        """
        roots: dict[tuple[str, int], bytes] = {}
        reported: set[tuple[str, int, bytes]] = set()
        for (origin, size, root, by), log in self._told.items():
            forked = by != "witness" and roots.setdefault((origin, size), root) != root
            # What a log's own statements say of it was compared where they stand.
            never = by != "itself" and origin in logs and logs[origin].get(size) != root.hex()
            if not (forked or never) or (origin, size, root) in reported:
                continue
            reported.add((origin, size, root))
            name = origin.rpartition("/")[2]
            end = max(logs.get(origin, ()), default=0)
            if never and lags and not forked and size > end:
                yield behind(log, name, size, end)
            elif never:
                yield Finding(
                    "CF-TRUST-043",
                    log,
                    f"a statement names a checkpoint that log {name} never had (size {size})",
                    "one of the two was rewritten or cut: compare with another copy of both",
                )
            else:
                yield Finding(
                    "CF-TRUST-042",
                    log,
                    f"a peer told two histories of its log {name} (size {size})",
                    "both statements are signed by it: keep them, they prove it to anybody",
                )

    def forks(self, judged: Container[str]) -> Iterator[Finding]:
        """Two histories that were told of logs other than these, which were judged entry by entry."""
        left = Heads({told: log for told, log in self._told.items() if told[0] not in judged})
        yield from left.findings({})


@dataclass(slots=True)
class Acceptances:
    """What identities accepted by receipts in their own logs: of all logs of one identity only one accepts a handoff.

    A receipt that names another log by ``own`` is a copy of what was accepted, or taken back, there; it is not noted.
    """

    _taken: set[tuple[bytes, bytes]] = field(default_factory=set)
    _again: list[str] = field(default_factory=list)
    _log: str = ""
    _here: set[tuple[bytes, bytes]] = field(default_factory=set)

    def note(self, log: str, receipt: statements.Receipt) -> None:
        """Note a receipt `accepted` by the identity of the log (an origin) it stands in; one log after another."""
        self._go_on(log)
        self._here.add(_taken(receipt))

    def withdraw(self, log: str, receipt: statements.Receipt) -> bool:
        """Take back what stands in this log; False where nothing does, or it was taken back before."""
        self._go_on(log)
        known = _taken(receipt) in self._here
        self._here.discard(_taken(receipt))
        return known

    def leave_out(self, log: str) -> None:
        """Count nothing of a log that could not be read to its end: what it accepted may be taken back there."""
        if log == self._log:
            self._log, self._here = "", set()

    def _go_on(self, log: str) -> None:
        if log == self._log:
            return
        self._again += [self._log] * len(self._here & self._taken)
        self._taken |= self._here
        self._log, self._here = log, set()

    def findings(self) -> Iterator[Finding]:
        """A finding for each handoff that was accepted in an earlier log as well."""
        self._go_on("")
        for log in self._again:
            message = "a handoff was accepted in another log of this identity as well"
            where = log.rpartition("/")[2]
            yield Finding("CF-VERIFY-048", where, message, "find out which of the two acted on it")


def _taken(receipt: statements.Receipt) -> tuple[bytes, bytes]:
    return bytes.fromhex(receipt.sender.key), bytes.fromhex(receipt.handoff)


def judge(
    policy: Policy, predicate: statements.Predicate, signers: list[str], identity: str
) -> Iterator[Said]:
    """The first rule of a policy that a verified statement breaks, if it breaks one."""
    if isinstance(predicate, statements.Weights):
        inside, key = True, predicate.key
    elif isinstance(predicate, statements.Binding | statements.Archive) or (
        isinstance(predicate, statements.Handoff) and predicate.proof == "recorded"
    ):
        inside, key = True, identity
    else:
        inside, key = False, predicate.sender.key
    worth = policy.judge(key, predicate.issued)
    if worth == "unknown" and key == identity:
        return  # the log itself is by a key that is not known here, which is told of the whole of it
    said = _judged(worth)
    if said is None and isinstance(predicate, statements.Handoff) and inside:
        actor = predicate.sender.key
        said = _judged(policy.judge(actor, predicate.issued)) if policy.lists(actor) else None
    if said is not None:
        yield said
    if said is not None or inside or not isinstance(predicate, statements.Handoff | statements.Receipt):
        return
    sender = predicate.sender
    if not policy.speaks(sender.actor, sender.key, signers, predicate.issued):
        message = "a statement by keys that do not speak for its sender"
        yield "CF-TRUST-050", message, "broken", "do not rely on it"
    elif isinstance(predicate, statements.Handoff):
        yield from _permitted(policy, predicate)


def _permitted(policy: Policy, handoff: statements.Handoff) -> Iterator[Said]:
    granted = handoff.authority
    if granted is not None and granted.grant is None and not policy.starts(handoff.sender.actor):
        message = "a handoff gives authority of its own accord, and its sender may not"
        yield "CF-TRUST-055", message, "broken", "do not act on it"
        return
    why = policy.denies(handoff)
    if why is not None:
        message = f"the policy does not permit this handoff: {why}"
        yield "CF-TRUST-056", message, "broken", "do not act on it"


def _judged(found: Judged) -> Said | None:
    if found == "outside":
        message = "a statement from outside the time of its key"
        return "CF-TRUST-051", message, "broken", "do not rely on it"
    if found == "revoked":
        message = "a statement by a key that was compromised by then"
        return "CF-TRUST-052", message, "broken", _REVOKED
    if found == "unproven":
        message = "a statement by a key that counts no more, and nothing but itself says how old it is"
        return "CF-TRUST-053", message, "cannot-tell", _UNPROVEN
    return None
