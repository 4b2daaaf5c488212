"""Evidence opened for writing by this process, and what it accepted."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Iterable
from contextvars import ContextVar
from types import TracebackType
from typing import Any, Final

from counterfoil import records, statements, trust
from counterfoil.authority import Grant
from counterfoil.dsse import Envelope
from counterfoil.errors import ConfigError, CounterfoilError
from counterfoil.nonces import Nonces
from counterfoil.peers import Peers
from counterfoil.recorder import Recorder
from counterfoil.settings import load
from counterfoil.standing import Standing
from counterfoil.writer import Writer

__all__ = ["Accepted", "OpenLog", "open"]

UNKNOWN_A_MINUTE: Final = 60
"""Refusals of messages that no known key signed, each with a receipt of its own."""


class OpenLog:
    """Evidence opened for writing by this process: the first argument of ``seal`` and ``accept``.

    ``actor`` is the name this process answers to; a receiver that has one refuses handoffs for anybody else.
    ``policy`` is the trust policy it goes by: a path is looked at again whenever the file changed.
    """

    def __init__(
        self,
        recorder: Recorder,
        actor: str | None,
        policy: str | os.PathLike[str] | bytes | trust.Policy | None = None,
    ) -> None:
        self.recorder = recorder
        self.actor = actor
        self._source = policy
        self._seen: tuple[int, int, int] | None = None
        self._policy = None if policy is None else self._believed(policy)
        recorder.open()
        self.accepted: ContextVar[str | None] = ContextVar("counterfoil_accepted", default=None)
        self.nonces = Nonces(recorder)
        self._fresh()

    def _fresh(self) -> None:
        self._peers = Peers()
        self._standing = Standing(self.recorder)
        self._clock = threading.Lock()
        self._keeping = threading.RLock()
        self._refused = (0.0, 0)
        self._last = 0
        self._pending: dict[str, tuple[Writer, Envelope]] = {}
        self._pid = os.getpid()

    def _forked(self) -> None:
        """A forked child begins anew: another thread of the parent may have held a lock."""
        if self._pid != os.getpid():
            self._fresh()

    @property
    def pending(self) -> dict[str, tuple[Writer, Envelope]]:
        """Receipts of what was accepted and not on disk then, by handoff, with the writer that was to put them there.

        The parent's are none of a forked child's, which has not used the handoff's nonce.
        """
        self._forked()
        return self._pending

    @property
    def peers(self) -> Peers:
        """What is remembered of others' logs."""
        self._forked()
        return self._peers

    @property
    def standing(self) -> Standing:
        """What stands in this evidence."""
        self._forked()
        return self._standing

    @property
    def keeping(self) -> threading.RLock:
        """Held while it is decided whether a receipt is kept: of two threads with one receipt only one does."""
        self._forked()
        return self._keeping

    @property
    def policy(self) -> trust.Policy | None:
        """The trust policy now; raises TrustError when the file changed into one that is not believed here."""
        if self._source is not None and isinstance(self._source, (str, os.PathLike)):
            try:
                changed = _stamp(self._source) != self._seen
            except OSError:
                changed = True
            if changed:
                self._policy = self._believed(self._source)
        return self._policy

    def cited(self, policy: trust.Policy | None) -> str | None:
        """The digest of a policy for a statement to cite; what it says is in the log from then on."""
        if policy is None:
            return None
        self.recorder.open().blob(policy.digest, policy.envelope.payload)
        return policy.digest

    def _believed(self, source: str | os.PathLike[str] | bytes | trust.Policy) -> trust.Policy:
        seen = None
        if isinstance(source, (str, os.PathLike)):
            with contextlib.suppress(OSError):
                seen = _stamp(source)  # before it is read: what changes meanwhile is read again
        found = trust.load(source)
        self._seen = seen
        return found

    def moment(self) -> tuple[int, dict[str, Any] | None]:
        """The time in milliseconds and the log's last checkpoint, for a statement to tell.

        A later time never comes with an earlier checkpoint: a peer takes that for a log that was cut.
        """
        self._forked()
        writer = self.recorder.open()
        with self._clock:
            self._last = max(self._last, time.time_ns() // 1_000_000)
            head = writer.last_checkpoint()
            self.standing.said(head)
            return self._last, head

    def anchor(self) -> bool:
        """See that the log has a checkpoint, so that what is signed from now on names the log it stands in.

        Two logs of one identity never hold one and the same receipt by chance then. False when there is none on disk.
        """
        writer = self.recorder.open()
        if writer.last_checkpoint() is None:
            writer.checkpoint()
            writer.flush()
        return writer.last_checkpoint() is not None

    def place(self, writer: Writer, chain: Iterable[Envelope]) -> bool:
        """Append the handoffs that do not stand in this writer's log yet, the first one first; False on failure."""
        for envelope in chain:
            if not self.standing.placed(envelope.digest, writer.origin):
                if not writer.entry(envelope.to_bytes()):
                    return False
                self.standing.add(statements.parse(envelope.payload), writer.origin)
        return True

    def refusing(self, *, is_known: bool) -> bool:
        """Whether a refusal is written down: of messages that no known key signed only so many in a minute, so that
        nobody without a key fills the disk; the caller is told of every one.
        """
        if is_known:
            return True
        with self._clock:
            began, count = self._refused
            over = time.monotonic() - began >= 60
            if over or not count:
                self._refused = (time.monotonic(), 1)
            else:
                self._refused = (began, count + 1)
        if over:
            self._tell_refused(count)
        return over or count < UNKNOWN_A_MINUTE

    def _tell_refused(self, count: int) -> None:
        """One record for the refusals of a minute that were not written down each; it costs no verdict anything."""
        more = count - UNKNOWN_A_MINUTE
        if more > 0:
            content = {"name": "refused by no known key", "op": "custom", "phase": "point"}
            self.recorder.open().entry(records.build(content, {"at": records.now(), "count": more}))

    @property
    def fingerprint(self) -> str:
        """Fingerprint of this process's identity: what the other side pins."""
        return self.recorder.open().identity.keyid

    @property
    def origin(self) -> str:
        """Origin of the log that is written."""
        return self.recorder.open().origin

    def flush(self) -> bool:
        """Wait until everything is on disk."""
        return self.recorder.flush()

    def close(self) -> None:
        """Write a last checkpoint and release the log."""
        self._forked()
        (_, count), self._refused = self._refused, (0.0, 0)
        with contextlib.suppress(CounterfoilError):
            self._tell_refused(count)
        self.recorder.close()

    def __enter__(self) -> OpenLog:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"OpenLog({self.recorder.evidence!r}, actor={self.actor!r})"


class Accepted:
    """An accepted handoff: who sent it, what it follows from, and the payload as verified.

    ``answer`` is the signed receipt, for the sender to keep; ``chain`` holds the envelopes to send along when what this
    handoff allows is handed on; ``allow``, ``purpose`` and ``taint`` are the sender's words, verified as such.
    """

    __slots__ = (
        *("allow", "answer", "chain", "digest", "grant", "parents", "payload", "purpose", "receipt"),
        *("sender", "sender_key", "taint"),
    )

    def __init__(
        self, statement: statements.Statement, payload: object, answer: Envelope, chain: tuple[Envelope, ...]
    ) -> None:
        handoff = statement.predicate
        assert isinstance(handoff, statements.Handoff)
        self.answer = answer
        self.chain = chain
        self.grant = Grant.of(handoff)
        self.allow = () if handoff.authority is None else tuple(handoff.authority.allow)
        self.purpose = handoff.purpose
        self.taint = tuple(handoff.taint or ())
        self.digest = statement.digest
        self.sender = records.actor_path(handoff.sender.actor)
        self.sender_key = handoff.sender.key
        self.parents = tuple((parent.rel, parent.digest) for parent in handoff.parents)
        self.payload = payload
        self.receipt = answer.digest

    def __repr__(self) -> str:
        return f"Accepted(sender={'/'.join(self.sender)!r}, digest={self.digest[:12]!r})"


def open(
    evidence: str | os.PathLike[str] | None = None,
    *,
    actor: str | None = None,
    policy: str | os.PathLike[str] | bytes | trust.Policy | None = None,
) -> OpenLog:
    """Open evidence for writing; raises StoreError, KeyringError or LogError when that cannot be done, ConfigError
    (CF-CONFIG-004) for an actor without a name.

    Default evidence: ``$COUNTERFOIL``, then ``counterfoil-evidence/``. ``policy`` (file, its bytes, or object; default:
    the setting) is gone by instead of the pinned keys; raises TrustError when this machine does not believe it.
    """
    if actor is not None and not actor:
        raise ConfigError(
            "an actor's name is not empty", code="CF-CONFIG-004", hint="leave actor out, or name it"
        )
    found = load(evidence=None if evidence is None else os.fspath(evidence))
    chosen = found.policy if policy is None else policy
    return OpenLog(Recorder(found.evidence, mode="observe", durability=found.durability), actor, chosen)


def _stamp(path: str | os.PathLike[str]) -> tuple[int, int, int]:
    status = os.stat(path)
    return status.st_mtime_ns, status.st_size, status.st_ino
