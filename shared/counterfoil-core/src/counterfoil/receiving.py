"""What a receiver checks before it acts on a handoff, in the order of ``shared/spec/statement.md``.

Each step refuses by raising; a refusal is a signed receipt in the receiver's log. What a step accepts never makes this
log wrong for a verifier: whatever is appended has passed the rules that verification applies to it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NoReturn

from counterfoil import keys, records, statements
from counterfoil.authority import Grant, why_not
from counterfoil.dsse import Envelope
from counterfoil.errors import CounterfoilError, HandoffError, HandoffRefusedError
from counterfoil.openlog import OpenLog
from counterfoil.peers import TWO, PeerHead, contradiction
from counterfoil.trust import SKEW, Policy
from counterfoil.trust_checks import judge
from counterfoil.writer import Writer

__all__ = ["Receiving", "Sent", "not_durable", "program", "receipt"]

Sent = Envelope | bytes | str | dict[str, Any]
"""An envelope as it came: read already, or its JSON."""

MAX_GRANTS: Final = 65
"""Longer chains cannot be: every link may be handed on less far than the one before."""
_COMPARE: Final = "compare both logs: one of them was cut or rewritten"
_DENIED: Final = {"CF-TRUST-055": "CF-HANDOFF-022", "CF-TRUST-056": "CF-HANDOFF-021"}


class Receiving:
    """One envelope on its way in; ``policy`` takes the place of the pinned keys."""

    def __init__(self, log: OpenLog, sent: Sent, policy: Policy | None, *, what: str = "handoff") -> None:
        self.log = log
        self.policy = policy
        self.what = what
        self.checks: list[str] = []
        self.chain: tuple[Envelope, ...] = ()
        self.skew = SKEW if policy is None else policy.skew
        try:
            self.envelope = sent if isinstance(sent, Envelope) else Envelope.parse(sent)
        except CounterfoilError as exc:
            raise HandoffRefusedError(
                f"refused: {exc.message}",
                code="CF-HANDOFF-010",
                where=exc.where,
                hint=f"ask the sender for its {what}",
            ) from None

    def refuse(self, code: str, reason: str, hint: str, *, withdraws: str | None = None) -> NoReturn:
        """Sign the refusal into the log and raise it; with the nonce that it ``withdraws``, an acceptance before it
        does not count.
        """
        if self.what == "handoff" and self.log.refusing(is_known=bool(self.checks)):
            receipt(
                self.log,
                self.envelope.digest,
                "refused",
                checks=[],
                nonce=withdraws,
                reason=f"{code} {reason}",
                policy=self.policy,
            )
            self.log.flush()
        raise HandoffRefusedError(
            f"refused: {reason}", code=code, where=f"{self.what} {self.envelope.digest[:12]}", hint=hint
        ) from None

    def statement(self) -> tuple[statements.Statement, list[str]]:
        """The statement and the keys that signed it: nothing is read before a known key's signature holds."""
        try:
            signers = self.envelope.verify(self._ring())
        except CounterfoilError:
            self.refuse(
                "CF-HANDOFF-011",
                f"no pinned key signed this {self.what}",
                "pin the sender's fingerprint: counterfoil keys pin",
            )
        try:
            found = statements.parse(self.envelope.payload)
        except CounterfoilError as exc:
            self.refuse(
                "CF-HANDOFF-012", exc.message, f"the sender runs another version, or this is no {self.what}"
            )
        self.checks += ["signature", "statement"]
        return found, signers

    def speaks(
        self, predicate: statements.Handoff | statements.Receipt, signers: list[str], now: int
    ) -> None:
        """Whether the policy lets these keys say this, then and now."""
        if self.policy is None:
            return
        for code, message, _, hint in judge(self.policy, predicate, signers, ""):
            self.refuse(_DENIED.get(code, "CF-HANDOFF-020"), message, hint)
        if not self.policy.speaks_now(predicate.sender.actor, predicate.sender.key, signers, now):
            self.refuse(
                "CF-HANDOFF-020", "the key of the sender is not valid now", "ask the sender for its new key"
            )
        self.checks.append("policy")

    def time(self, handoff: statements.Handoff, now: int) -> None:
        """Whether the handoff may be accepted at this time."""
        if handoff.issued > now + self.skew:
            self.refuse("CF-HANDOFF-015", "issued in the future", "check the clocks of both machines")
        if handoff.expires is None or now > handoff.expires + self.skew:
            self.refuse("CF-HANDOFF-015", "expired", "ask the sender to seal it again")
        self.checks.append("time")

    def heads(self, predicate: statements.Handoff | statements.Receipt) -> None:
        """Whether what is said of logs fits what is known of them; the sender's word about its own is remembered."""
        told = PeerHead.of(predicate, self.envelope)
        if told is not None:
            if not told.origin.startswith(f"{predicate.sender.key}/"):
                self.refuse(
                    "CF-HANDOFF-024",
                    "the sender tells another's head as its own",
                    "do not trust this message",
                )
            why, hint = self._settle(told)
            if why is not None:
                self.refuse("CF-HANDOFF-024", why, hint)
        for head in predicate.seen or ():
            if self.log.standing.had(head) is False:
                self.refuse(
                    "CF-HANDOFF-024", "the sender was told a checkpoint that is not in this log", _COMPARE
                )
        if told is not None or predicate.seen:
            self.checks.append("head")

    def _settle(self, told: PeerHead) -> tuple[str | None, str]:
        """Why a head cannot be true, and what to do; it is remembered where it can.

        It has to fit what the home keeps, which may have let go, and all that stands in this evidence, or is about to.
        """
        try:
            index = self.log.nonces.told
            with index.settling:
                kept = self.log.peers.kept(told.origin)
                why, first = contradiction(told, kept), kept
                if why is None and index.remembered(told.origin, told.size) != told.root:
                    self.log.nonces.catch_up()
                    root = index.root(told.origin, told.size)
                    if root is None and self.log.standing.had(told.head) is False:
                        return "it names a checkpoint of a log of this evidence that it never had", _COMPARE
                    if root not in (None, told.root) or not index.take(told):
                        why, first = TWO, index.against(told)
                if why is None:
                    self.log.peers.learn(told)
                elif first is not None and first.size == told.size:
                    self.log.peers.keep_fork(first, told)
        except (CounterfoilError, OSError) as exc:
            code, message, hint = _of(exc)
            return f"nobody can tell ({code}): {message}", hint or _COMPARE
        return why, _COMPARE

    def authority(self, handoff: statements.Handoff, sent: Iterable[Sent], now: int) -> None:
        """Whether what the handoff allows was its sender's to give, up to whoever started it."""
        if handoff.authority is None:
            return
        if handoff.authority.expires + self.skew < now:
            self._denied("its authority has expired")
        if self.policy is None and handoff.authority.grant is not None:
            self.refuse(
                "CF-HANDOFF-022",
                "nobody can tell without a trust policy whose grant it hands on",
                "open the log with policy=...: it says which key speaks for which name",
            )
        grants = self._grants(sent)
        chain: list[Envelope] = []
        link = handoff
        while link.authority is not None and link.authority.grant is not None:
            found = grants.pop(link.authority.grant, None)
            grant = None if found is None else self._grant(found)
            why = why_not(link, None if grant is None else Grant.of(_handoff(grant)))
            if why is not None or found is None or grant is None:
                self._denied(why or "its grant is not there")
            chain.append(found)
            link = _handoff(grant)
            self._fits(link, found)
            self.taint(link)
        self.chain = tuple(chain)
        self.checks.append("authority")

    def _fits(self, grant: statements.Handoff, envelope: Envelope) -> None:
        """What a link says of logs fits what is known of them: it becomes a part of this log."""
        told = PeerHead.of(grant, envelope)
        why: str | None = None
        hint = _COMPARE
        if told is not None and told.origin.startswith(f"{grant.sender.key}/"):
            why, hint = self._settle(told)
        if why is None and any(self.log.standing.had(head) is False for head in grant.seen or ()):
            why = "a grant was told a checkpoint that is not in this log"
        if why is not None:
            self.refuse("CF-HANDOFF-024", why, hint)

    def taint(self, handoff: statements.Handoff) -> None:
        """Whether the handoff has every taint of what it follows from, as far as that stands here."""
        own = set(handoff.taint or ())
        parents = [*handoff.parents, *self.log.standing.listed(handoff.parentSet)]
        if any(not own.issuperset(self.log.standing.taint(parent.digest)) for parent in parents):
            self.refuse(
                "CF-HANDOFF-023",
                "it drops a taint of what it follows from",
                "do not act on it: ask its sender",
            )

    def unknowable(self, *, withdraws: str | None = None) -> NoReturn:
        """Refuse, because the home or the evidence cannot be asked."""
        self.refuse(
            "CF-HANDOFF-019",
            "nobody can tell whether it was used before",
            "check COUNTERFOIL_HOME and the evidence",
            withdraws=withdraws,
        )

    def alone(self, digest: str, nonce: str) -> None:
        """After the receipt is on disk: whether another process with this identity wrote one at the same time.

        Each of two that do sees the other's, as both are on disk by now: neither acts. Who does not act takes its
        receipt back.
        """
        try:
            twice = self.log.nonces.twice(digest)
        except (CounterfoilError, OSError):
            self.unknowable(withdraws=nonce)
        if twice:
            self.refuse(
                "CF-HANDOFF-018",
                "another process accepted this handoff at the same time",
                "ask the sender to seal it again",
                withdraws=nonce,
            )

    def _grants(self, sent: Iterable[Sent]) -> dict[str, Envelope]:
        found: dict[str, Envelope] = {}
        for one in sent:
            if len(found) >= MAX_GRANTS:
                self._denied("more grants came along than a chain can have")
            try:
                envelope = one if isinstance(one, Envelope) else Envelope.parse(one)
            except CounterfoilError as exc:
                self._denied(exc.message)
            found[envelope.digest] = envelope
        return found

    def _grant(self, envelope: Envelope) -> statements.Statement:
        """A link of the chain, signed by its own sender's known key."""
        try:
            signers = envelope.verify(self._ring())
            found = statements.parse(envelope.payload)
        except CounterfoilError as exc:
            self._denied(f"a grant does not hold: {exc.message}")
        handoff = found.predicate
        if not isinstance(handoff, statements.Handoff) or handoff.sender.key not in signers:
            self._denied("a grant does not hold: it is no handoff by its sender")
        if self.policy is not None:
            for _, message, _, _ in judge(self.policy, handoff, signers, ""):
                self._denied(f"a grant does not hold: {message}")
        return found

    def _ring(self) -> keys.Keyring:
        return keys.Keyring.load() if self.policy is None else self.policy.keyring

    def _denied(self, why: str) -> NoReturn:
        self.refuse("CF-HANDOFF-022", why, "ask the sender for what it may give, with all grants")


def _of(exc: CounterfoilError | OSError) -> tuple[str, str, str | None]:
    if isinstance(exc, CounterfoilError):
        return exc.code, exc.message, exc.hint
    return "CF-KEYS-008", exc.strerror or type(exc).__name__, None


def _handoff(statement: statements.Statement) -> statements.Handoff:
    assert isinstance(statement.predicate, statements.Handoff)
    return statement.predicate


def receipt(
    log: OpenLog,
    handoff: str,
    status: str,
    *,
    checks: list[str],
    nonce: str | None = None,
    reason: str | None = None,
    seen: statements.Head | None = None,
    policy: Policy | None = None,
    writer: Writer | None = None,
) -> Envelope | None:
    """Append a receipt to the log (of this ``writer``, where what it is about stands there) and return it, None when
    the log did not take it.
    """
    writer = writer or log.recorder.open()
    issued, head = log.moment()
    predicate: dict[str, Any] = {
        "checks": checks,
        "handoff": handoff,
        "issued": issued,
        "sender": {"actor": records.actor_text([log.actor or program()]), "key": writer.identity.keyid},
        "status": status,
    }
    if nonce is not None:
        predicate["nonce"] = nonce
    if reason is not None:
        predicate["reason"] = reason.encode("utf-8", "backslashreplace").decode()[:1024]
    # The recorder may write another log by now; a receipt that named that one would pass for a copy of one there.
    if head is not None and head["origin"] == writer.origin:
        predicate["own"] = head
    if policy is not None:
        predicate["policy"] = log.cited(policy)
    if seen is not None:
        predicate["seen"] = [seen.model_dump()]
    subject = {"digest": {"sha256": handoff}, "name": "handoff"}
    payload = statements.build(statements.RECEIPT, subject, predicate)
    envelope = Envelope.sign(payload, writer.identity, carry_key=status == "accepted")
    return envelope if writer.entry(envelope.to_bytes()) else None


def program() -> str:
    """The name of this process where it has no other."""
    from counterfoil.environment import program as name

    return name()


def not_durable(error: CounterfoilError | None) -> HandoffError:
    """Why nothing is acted on: what was decided could not be written."""
    return HandoffError(
        f"the handoff is not on disk: {error or 'the writer stopped'}",
        code="CF-HANDOFF-003",
        hint="see the cause",
    )
