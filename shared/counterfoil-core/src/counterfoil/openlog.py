"""Evidence opened for writing by this process, and what it accepted."""

from __future__ import annotations

import os
from contextvars import ContextVar
from types import TracebackType

from counterfoil import records, statements
from counterfoil.errors import ConfigError
from counterfoil.nonces import Nonces
from counterfoil.recorder import Recorder
from counterfoil.settings import load

__all__ = ["Accepted", "OpenLog", "open"]


class OpenLog:
    """Evidence opened for writing by this process: the first argument of ``seal`` and ``accept``.

    ``actor`` is the name this process answers to; a receiver that has one refuses handoffs for anybody else.
    """

    def __init__(self, recorder: Recorder, actor: str | None) -> None:
        self.recorder = recorder
        self.actor = actor
        recorder.open()
        self.accepted: ContextVar[str | None] = ContextVar("counterfoil_accepted", default=None)
        self.nonces = Nonces(recorder)
        self.pending: dict[str, str] = {}

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
    """An accepted handoff: who sent it, what it follows from, and the payload as verified."""

    __slots__ = ("digest", "parents", "payload", "receipt", "sender", "sender_key")

    def __init__(self, statement: statements.Statement, payload: object, receipt: str) -> None:
        handoff = statement.predicate
        assert isinstance(handoff, statements.Handoff)
        self.digest = statement.digest
        self.sender = records.actor_path(handoff.sender.actor)
        self.sender_key = handoff.sender.key
        self.parents = tuple((parent.rel, parent.digest) for parent in handoff.parents)
        self.payload = payload
        self.receipt = receipt

    def __repr__(self) -> str:
        return f"Accepted(sender={'/'.join(self.sender)!r}, digest={self.digest[:12]!r})"


def open(evidence: str | os.PathLike[str] | None = None, *, actor: str | None = None) -> OpenLog:
    """Open evidence for writing; raises StoreError, KeyringError or LogError when that cannot be done.

    Default evidence: ``$COUNTERFOIL``, then ``counterfoil-evidence/``.
    """
    if actor is not None and not actor:
        raise ConfigError(
            "an actor's name is not empty", code="CF-CONFIG-004", hint="leave actor out, or name it"
        )
    found = load(evidence=None if evidence is None else os.fspath(evidence))
    return OpenLog(Recorder(found.evidence, mode="observe", durability=found.durability), actor)
