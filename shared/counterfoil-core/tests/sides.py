"""Two owners that hand over, and statements that either signs whatever they say."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import counterfoil
from counterfoil import handoff, keys, statements
from counterfoil.dsse import Envelope
from counterfoil.errors import HandoffRefusedError
from counterfoil.handoff import OpenLog


class Side:
    """One owner: a home, evidence and a log opened for writing."""

    def __init__(self, lab: Any, name: str) -> None:
        self.lab = lab
        self.name = name
        self.home: Path = lab.root / f"home of {name}"
        self.evidence: Path = lab.root / f"evidence of {name}"
        self._log: OpenLog | None = None

    @contextlib.contextmanager
    def inside(self) -> Iterator[OpenLog]:
        with self.lab.at(self.home):
            if self._log is None:
                self._log = counterfoil.open(self.evidence, actor=self.name)
            yield self._log

    def seal(self, payload: object, **arguments: Any) -> Envelope:
        with self.inside() as log:
            return counterfoil.seal(log, payload, **{"to": "receiver"} | arguments)

    def accept(self, envelope: Any, payload: object) -> handoff.Accepted:
        with self.inside() as log:
            return counterfoil.accept(log, envelope, payload)

    def refused(self, envelope: Any, payload: object) -> str:
        """Code of the refusal, which must be in the log."""
        before = self.receipts()
        with pytest.raises(HandoffRefusedError) as caught:
            self.accept(envelope, payload)
        assert caught.value.hint
        (receipt,) = [one for one in self.receipts() if one not in before]
        assert receipt.status == "refused"
        assert receipt.reason.startswith(caught.value.code)
        return caught.value.code

    def receipts(self) -> list[Any]:
        if not self.evidence.exists():
            return []
        found = [statement.predicate for _, statement in counterfoil.read(self.evidence).statements()]
        return [predicate for predicate in found if isinstance(predicate, statements.Receipt)]

    def trust(self, other: Side) -> None:
        with other.inside() as log:
            fingerprint = log.fingerprint
        with self.lab.at(self.home):
            keys.Keyring.load().pin(fingerprint)

    def sign(self, predicate: dict[str, Any], subject: dict[str, Any] | None = None, **more: Any) -> Envelope:
        """A statement by this side's identity, whatever it says."""
        with self.inside() as log:
            key = log.recorder.open().identity
            kind = more.pop("kind", statements.HANDOFF)
            return Envelope.sign(statements.build(kind, subject or {}, predicate), key, carry_key=True)

    def close(self) -> None:
        with self.lab.at(self.home):
            if self._log is not None:
                self._log.close()
                self._log = None

    def verdict(self) -> Any:
        self.close()
        with self.lab.at(self.home):
            return counterfoil.verify(self.evidence)


def predicate(side: Side, given: object, **changes: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Predicate and subject of a good handoff, with changes (None takes a member out)."""
    with side.inside() as log:
        reference = log.recorder.value(given)
        now = time.time_ns() // 1_000_000
        made: dict[str, Any] = {
            "audience": "receiver",
            "content": {
                "basis": "sealed",
                "from": ["sender"],
                "kind": "message",
                "payload": reference.sha256,
                "to": "receiver",
            },
            "exact": True,
            "expires": now + 60_000,
            "issued": now,
            "nonce": "0123456789abcdef" * 2,
            "parents": [],
            "payload": {"media": reference.media, "size": reference.size},
            "proof": "countersigned",
            "sender": {"actor": "sender", "key": log.fingerprint},
        } | changes
        made = {name: value for name, value in made.items() if value is not None}
        subject = {"digest": {"counterfoil-v1": reference.sha256}, "name": "payload"}
        return made, subject
