"""Checks of the statements in one log: who signed, whether the key was bound, whether what is cited is there."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from hashlib import sha256
from typing import Any, Final

from counterfoil import keys, statements
from counterfoil.archived import Archived, archived_by
from counterfoil.digest import Reference
from counterfoil.dsse import PAYLOAD_TYPE, Envelope, pae
from counterfoil.errors import CounterfoilError
from counterfoil.log import Entry
from counterfoil.logkeys import LogKeys
from counterfoil.opening import Opened, opened
from counterfoil.parent_lists import ParentLists
from counterfoil.recorded import mould_of
from counterfoil.shapes import Part
from counterfoil.stored import HANDOFF, STATEMENT, Stored
from counterfoil.trust_checks import Lineage, Said, Shared, judge
from counterfoil.weights.checking import Manifests

__all__ = ["UNKNOWN", "StatementCheck"]

UNKNOWN: Final = frozenset({"CF-LOG-022", "CF-STMT-004"})
"""Codes that say: written by a newer version."""


class StatementCheck:
    """Statements of one log, in order; ``say`` takes each finding (code, place, message; verdict, hint).

    ``origin`` and ``identity`` are set by the log's first session; ``shared`` is the same for all logs of an evidence.
    """

    def __init__(
        self,
        stored: Stored,
        keyring: keys.Keyring,
        checkpoints: dict[int, str],
        say: Callable[..., None],
        shared: Shared,
    ) -> None:
        self.origin = ""
        self.identity: keys.PublicKey | None = None
        self.handoffs = self.count = 0
        self.blind = False
        self._stored = stored
        self._keyring = keyring
        self._checkpoints = checkpoints
        self._faultless = True

        def fault(code: str, at: str, message: str, **more: Any) -> None:
            self._faultless = False
            say(code, at, message, **more)

        self._say = fault
        self._bound: dict[str, tuple[str, keys.PublicKey]] = {}
        self._accepted: set[tuple[bytes, bytes]] = set()
        self._shared = shared
        self._lineage = Lineage()
        self._lists = ParentLists(stored, self._lineage)
        self._manifests = Manifests(stored)
        self._payloads: dict[str, tuple[Reference, bool]] = {}
        self._begun = False
        self.archived: list[Archived] = []
        self._moulds = shared.known.of(mould_of)

    @property
    def is_blind(self) -> bool:
        """Whether the session that would name the identity may be of a later version, which nobody here can read."""
        return self.blind and self.identity is None

    def new_session(self) -> None:
        """Actors are bound anew in every session."""
        self._bound.clear()
        policy = self._shared.policy
        if not self._begun and policy is not None and self.identity is not None:
            if policy.retired(self.identity.keyid):
                self._say(
                    "CF-TRUST-054",
                    self.origin.rpartition("/")[2],
                    "signed by a key that counts no more, and nothing outside shows how old its checkpoints are",
                    verdict="cannot-tell",
                    hint="a time stamp or cosignature from outside would show it",
                )
        self._begun = True

    def short(self, body: bytes) -> bool:
        """Judge a statement by its text, if it is like others and there is nothing to say; else False, nothing done."""
        envelope = opened(body)
        return envelope is not None and self.plain(envelope)

    def plain(self, envelope: Opened) -> bool:
        """The same of an envelope that was opened."""
        if self.identity is None or self._shared.policy is not None or self._lineage:
            return False
        got = self._moulds.match(envelope.payload)
        if got is None:
            return False
        mould, found = got
        bound = self._bound.get(envelope.keyid.decode())
        if bound is None or found[mould.key] != envelope.keyid or found[mould.actor].decode() != bound[0]:
            return False
        stored = self._stored
        if mould.own:
            origin, root, size = (one.decode() for one in found.group(*mould.own))
            if origin != self.origin or self._checkpoints.get(int(size)) != root:
                return False
        payload = Part(bytes.fromhex(found[mould.payload].decode()), int(found[mould.size]), mould.need)
        if not stored.has(payload):
            return False
        if not all(stored.knows_raw(bytes.fromhex(found[parent].decode())) for parent in mould.parents):
            return False
        key, message, check = bound[1], pae(PAYLOAD_TYPE, envelope.payload), self._shared.check
        if not (key.verify(envelope.sig, message) if check is None else check(key, envelope.sig, message)):
            return False
        stored.add_raw(sha256(envelope.payload).digest(), HANDOFF)
        self.handoffs += 1
        self.count += 1
        return True

    def check(self, entry: Entry, at: str) -> None:
        """Judge one entry that is an envelope."""
        self.count += 1
        self._faultless = True
        try:
            envelope = Envelope.parse(entry.body)
            if not envelope.is_normal(entry.body):
                self._say("CF-VERIFY-040", at, "an envelope is not in its normal form")
                return
            ring = LogKeys(self.identity, self._bound, self._keyring)
            signers = envelope.verify(ring, check=self._shared.check)
            statement = statements.parse(envelope.payload)
        except CounterfoilError as exc:
            self._unverified(entry, at, exc)
            return
        predicate = statement.predicate
        self._stand(statement)
        if isinstance(predicate, statements.Binding):
            self._binding(predicate, signers, at)
        elif isinstance(predicate, statements.Archive):
            self._archive(predicate, signers, at)
        elif signer_of(predicate) not in signers:
            self._say("CF-VERIFY-041", at, "a statement names another key than the one that signed it")
        elif isinstance(predicate, statements.Handoff):
            self.handoffs += 1
            self._handoff(statement.digest, predicate, at)
        elif isinstance(predicate, statements.Weights):
            self._manifests.check(predicate, at, self._say)
        else:
            self._receipt(predicate, at)
        self._lineage.add(statement)
        self._trusted(predicate, signers, at)
        # A form is learnt from statements without a fault only, so that none that is always a fault passes for good.
        if self._faultless and isinstance(predicate, statements.Handoff) and predicate.proof == "recorded":
            self._moulds.learn(envelope.payload, None)

    def _stand(self, statement: statements.Statement) -> None:
        """What could be read stands in the log from here on, whoever signed it."""
        predicate = statement.predicate
        handoff = isinstance(predicate, statements.Handoff)
        self._stored.add(statement.digest, HANDOFF if handoff else STATEMENT)
        if isinstance(predicate, statements.Weights):
            self._stored.weights[statement.digest] = predicate.root

    def _trusted(self, predicate: statements.Predicate, signers: list[str], at: str) -> None:
        """Authority, taint, heads and the policy, for a statement that names one of the keys that signed it."""
        if isinstance(predicate, statements.Weights):
            if predicate.key not in signers:
                return
        elif isinstance(predicate, statements.Handoff | statements.Receipt):
            if predicate.sender.key not in signers:
                return
            if predicate.own is not None or predicate.seen:
                self._shared.heads.note(at.partition(" ")[0], self.origin, predicate)
        found: Iterator[Said] = iter(())
        if isinstance(predicate, statements.Handoff):
            key = None if self.identity is None else self.identity.keyid
            taints: frozenset[str] = frozenset()
            if (
                predicate.proof == "recorded"
                or predicate.sender.key == key
                or predicate.sender.key in self._bound
            ):
                taints = self._lists.look(predicate.parentSet).taints
                taints |= self._lineage.taints(one.digest for one in predicate.parents)
            found = self._lineage.check(predicate, taints)
        if self._shared.policy is not None and self.identity is not None:
            rules = judge(self._shared.policy, predicate, signers, self.identity.keyid)
            found = itertools.chain(found, rules)
        for code, message, verdict, hint in found:
            self._say(code, at, message, verdict=verdict, hint=hint)

    def _unverified(self, entry: Entry, at: str, exc: CounterfoilError) -> None:
        """A statement nobody known signed is a forgery, unless it came from a signer who is simply not pinned here."""
        if exc.code in UNKNOWN:
            self._say(exc.code, at, exc.message, verdict="cannot-tell", hint=exc.hint or "")
            return
        try:
            envelope = Envelope.parse(entry.body)
            statement = statements.parse(envelope.payload)
        except CounterfoilError as inner:
            self._say(inner.code, at, inner.message)
            return
        predicate = statement.predicate
        self._stand(statement)
        self._lineage.add(statement)
        theirs = isinstance(predicate, statements.Receipt | statements.Weights) or (
            isinstance(predicate, statements.Handoff) and predicate.proof == "countersigned"
        )
        # Signed under the sender's own name, by a key that nobody here can look up.
        if (
            exc.code == "CF-DSSE-010"
            and theirs
            and not isinstance(predicate, statements.Binding | statements.Archive)
            and signer_of(predicate) in {one.keyid for one in envelope.signatures}
        ):
            self.handoffs += isinstance(predicate, statements.Handoff)
            self._say(
                "CF-VERIFY-042",
                at,
                f"a {statements.word_for(statement.kind)} by a key that is not known here",
                verdict="cannot-tell",
                hint="get the fingerprint from its owner, then: counterfoil keys pin FINGERPRINT",
            )
            return
        if not (self.is_blind and exc.code == "CF-DSSE-010"):
            self._say(exc.code, at, exc.message)

    def _binding(self, binding: statements.Binding, signers: list[str], at: str) -> None:
        if self.is_blind:
            return
        try:
            public = keys.PublicKey.from_text(binding.spki)
        except CounterfoilError:
            self._say("CF-VERIFY-043", at, "a binding names no usable key")
            return
        if self.identity is None or self.identity.keyid not in signers or binding.origin != self.origin:
            self._say("CF-VERIFY-043", at, "a binding is not the identity's own for this log")
        elif public.keyid != binding.key or public.keyid == self.identity.keyid:
            self._say("CF-VERIFY-043", at, "a binding's key and digest differ")
        else:
            self._bound[public.keyid] = (binding.actor, public)

    def _archive(self, archive: statements.Archive, signers: list[str], at: str) -> None:
        if self.is_blind:
            return
        keyid = "" if self.identity is None else self.identity.keyid
        found = archived_by(archive, signers, identity=keyid, origin=self.origin, stored=self._stored)
        if found is None:
            self._say(
                "CF-VERIFY-070",
                at,
                "an archive statement is not the identity's own, or its list does not fit",
            )
        else:
            self.archived.append(found)

    def _handoff(self, digest: str, handoff: statements.Handoff, at: str) -> None:
        payload = Reference(handoff.content.payload, handoff.payload.size, handoff.payload.media)
        ours = self.identity is not None and handoff.sender.key == self.identity.keyid
        # A grant that came along has its payload elsewhere, whoever gave it; what was accepted here is here.
        came = handoff.proof == "countersigned" and not (
            ours and handoff.own is not None and handoff.own.origin == self.origin
        )
        if came:
            elsewhere = ours and handoff.own is not None
            self._payloads[digest] = (payload, elsewhere)
        elif not self._stored.there(payload):
            self._say("CF-VERIFY-046", at, "the payload of a handoff is not in this log")
        if (handoff.proof == "recorded" and not self.is_blind) or ours:
            self._own(handoff, at, "a handoff")
        if handoff.proof != "recorded":
            return
        bound = self._bound.get(handoff.sender.key)
        if not self.is_blind and (bound is None or bound[0] != handoff.sender.actor):
            self._say("CF-VERIFY-044", at, "a handoff is signed by a key bound to another actor")
        for parent in handoff.parents:
            if not self._stored.knows(parent.digest):
                self._say("CF-VERIFY-045", at, "a handoff cites a parent that is not in this log")
        apart = handoff.parentSet
        if apart is not None and self._lists.look(apart).number != apart.count:
            self._say(
                "CF-VERIFY-045",
                at,
                "a handoff cites a list of parents that is not, or not whole, in this log",
            )

    def _own(self, predicate: statements.Handoff | statements.Receipt, at: str, what: str) -> None:
        """What this identity says of its own log; in another log of its own it names a checkpoint of that one."""
        own = predicate.own
        if own is None:
            return
        here = own.origin == self.origin
        recorded = isinstance(predicate, statements.Handoff) and predicate.proof == "recorded"
        if (recorded and not here) or (here and self._checkpoints.get(own.size) != own.root):
            self._say("CF-VERIFY-047", at, f"{what} names a checkpoint that this log never had")

    def _receipt(self, receipt: statements.Receipt, at: str) -> None:
        ours = self.identity is not None and receipt.sender.key == self.identity.keyid
        if ours:
            self._own(receipt, at, "a receipt")
        if receipt.status == "refused" and receipt.nonce is not None and ours:
            if self._shared.acceptances.withdraw(self.origin, receipt):
                self._say(
                    "CF-VERIFY-049",
                    at,
                    "an acceptance was taken back: another process accepted as well, or nobody could tell",
                    verdict="incomplete",
                    hint="let all processes of one identity use one COUNTERFOIL_HOME",
                )
        if receipt.status != "accepted":
            return
        # What names another log of this identity is a copy of the receipt that stands, or was taken back, there.
        here = ours and (receipt.own is None or receipt.own.origin == self.origin)
        taken = (bytes.fromhex(receipt.sender.key), bytes.fromhex(receipt.handoff))
        if not self._stored.knows(receipt.handoff, least=HANDOFF):
            self._say("CF-VERIFY-048", at, "a receipt accepts a handoff that is not in this log")
        elif taken in self._accepted:
            self._say("CF-VERIFY-048", at, "a handoff was accepted twice")
        elif here:
            self._shared.acceptances.note(self.origin, receipt)
        self._accepted.add(taken)
        payload, elsewhere = self._payloads.get(receipt.handoff, (None, False))
        # What this identity sealed in another log has its payload there, also when its receipt came back to this one.
        if payload is None or (elsewhere and not here):
            return
        del self._payloads[receipt.handoff]
        if not self._stored.there(payload):
            self._say("CF-VERIFY-046", at, "the payload of a handoff is not in this log")


def signer_of(predicate: statements.Handoff | statements.Receipt | statements.Weights) -> str:
    """The fingerprint of the key that a statement names as its signer's."""
    return predicate.key if isinstance(predicate, statements.Weights) else predicate.sender.key
