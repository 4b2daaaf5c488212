"""Owners of names: each with a home, evidence, and whatever statements it signs."""

from __future__ import annotations

import base64
import contextlib
import secrets
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

import counterfoil
from counterfoil import canonical, keys, policy_form, statements
from counterfoil.dsse import Envelope
from counterfoil.errors import HandoffRefusedError
from counterfoil.findings import Verification
from counterfoil.openlog import OpenLog


class Party:
    """One owner of one name: a home, evidence, and a log opened for writing when it is needed."""

    def __init__(self, lab: Any, name: str, *, home: str | None = None) -> None:
        self.lab = lab
        self.name = name
        self.home = lab.root / f"home of {home or name}"
        self.evidence = lab.root / f"evidence of {name}"
        self.policy: bytes | Path | None = None
        self._log: OpenLog | None = None

    @contextlib.contextmanager
    def inside(self) -> Iterator[OpenLog]:
        """This owner's home for the code inside, its log open."""
        with self.lab.at(self.home):
            if self._log is None:
                self._log = counterfoil.open(self.evidence, actor=self.name, policy=self.policy)
            yield self._log

    @property
    def key(self) -> keys.SigningKey:
        with self.lab.at(self.home):
            return keys.load_or_create_identity()

    def trust(self, *others: Party, admin: bool = False) -> None:
        """Pin others' fingerprints, obtained from them."""
        with self.lab.at(self.home):
            for other in others:
                keys.Keyring.load().pin(other.key.keyid, admin=admin)

    # -- messages -----------------------------------------------------------------------------------------------------

    def seal(self, payload: object = "task", *, to: str = "receiver", **more: Any) -> Envelope:
        with self.inside() as log:
            return counterfoil.seal(log, payload, to=to, **more)

    def accept(self, envelope: Any, payload: object = "task", **more: Any) -> counterfoil.Accepted:
        with self.inside() as log:
            return counterfoil.accept(log, envelope, payload, **more)

    def refuses(self, envelope: Any, payload: object = "task", **more: Any) -> str:
        """The code of the refusal; whatever is refused leaves this owner's evidence as good as it was."""
        with pytest.raises(HandoffRefusedError) as caught:
            self.accept(envelope, payload, **more)
        assert caught.value.hint
        return caught.value.code

    def take(self, receipt: Any) -> statements.Receipt:
        with self.inside() as log:
            return counterfoil.take_receipt(log, receipt)

    def message(self, payload: object = "task", *, to: str = "receiver", **changes: Any) -> dict[str, Any]:
        """The predicate of a handoff, for one who signs whatever he likes; None leaves a member out."""
        with self.inside() as log:
            reference = log.recorder.value(payload)
        now = time.time_ns() // 1_000_000
        content = {
            "basis": "sealed",
            "from": [self.name],
            "kind": "message",
            "payload": reference.sha256,
            "to": to,
        }
        made: dict[str, Any] = {
            "audience": to,
            "content": content,
            "exact": True,
            "expires": now + 60_000,
            "issued": now,
            "nonce": secrets.token_hex(16),
            "parents": [],
            "payload": {"media": reference.media, "size": reference.size},
            "proof": "countersigned",
            "sender": {"actor": self.name, "key": self.key.keyid},
        }
        return {name: value for name, value in (made | changes).items() if value is not None}

    def sign(self, predicate: dict[str, Any], *, kind: str = statements.HANDOFF) -> Envelope:
        """A statement by this owner's identity, whatever it says."""
        if kind == statements.HANDOFF:
            payload = predicate["content"]["payload"]
            subject: dict[str, Any] = {"digest": {"counterfoil-v1": payload}, "name": "payload"}
        else:
            subject = {"digest": {"sha256": predicate["handoff"]}, "name": "handoff"}
        return self.sign_bytes(statements.build(kind, subject, predicate))

    def sign_bytes(self, payload: bytes) -> Envelope:
        return Envelope.sign(payload, self.key, carry_key=True)

    def append(self, *envelopes: Envelope) -> None:
        """Put statements into the own log, past every check."""
        with self.inside() as log:
            for envelope in envelopes:
                assert log.recorder.open().entry(envelope.to_bytes())

    # -- the log ------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Close the log: its last checkpoint is on disk."""
        with self.lab.at(self.home):
            if self._log is not None:
                self._log.close()
                self._log = None

    def verify(self, **more: Any) -> Verification:
        """The verdict on the own evidence, in the own home."""
        self.close()
        with self.lab.at(self.home):
            return counterfoil.verify(self.evidence, **more)

    def verdict(self, **more: Any) -> tuple[str, list[str]]:
        """Verdict and codes."""
        found = self.verify(**more)
        return found.verdict, [one.code for one in found.findings]

    def save(self) -> Callable[[], None]:
        """Keep evidence and home as they are; what is returned puts both back."""
        self.close()
        kept = self.lab.root / f"kept {secrets.token_hex(4)}"
        for folder in (self.evidence, self.home):
            shutil.copytree(folder, kept / folder.name)

        def restore() -> None:
            self.close()
            for folder in (self.evidence, self.home):
                shutil.rmtree(folder)
                shutil.copytree(kept / folder.name, folder)

        return restore

    def statements(self) -> list[statements.Predicate]:
        """What stands in the own evidence."""
        self.close()
        return [statement.predicate for _, statement in counterfoil.read(self.evidence).statements()]

    # -- policies -----------------------------------------------------------------------------------------------------

    def policy_of(self, *others: Party, cosigners: Iterable[Party] = (), **changes: Any) -> bytes:
        """A trust policy signed by this owner: it and others speak for their names; None leaves a member out."""
        parties = sorted((self, *others), key=lambda one: one.key.keyid)
        made: dict[str, Any] = {
            "admins": {"keys": [self.key.keyid], "threshold": 1},
            "agents": sorted(
                ({"id": one.name, "keys": [one.key.keyid], "threshold": 1} for one in parties),
                key=lambda one: str(one["id"]),
            ),
            "keys": [one.listed() for one in parties],
            "name": "test",
            "validFrom": 0,
            "version": 1,
        }
        predicate = {name: value for name, value in (made | changes).items() if value is not None}
        digest = sha256(canonical.dumps(predicate)).hexdigest()
        subject = {"digest": {"sha256": digest}, "name": predicate["name"]}
        payload = statements.build(policy_form.KIND, subject, predicate, limit=policy_form.MAX_POLICY)
        envelope = Envelope.sign(payload, self.key, carry_key=True, limit=policy_form.MAX_ENVELOPE)
        for one in cosigners:
            envelope = envelope.cosigned(one.key, limit=policy_form.MAX_ENVELOPE)
        return envelope.to_bytes()

    def agree(self, *others: Party, **changes: Any) -> None:
        """One policy of this owner's for all of them: each speaks for its own name."""
        policy = self.policy_of(*others, **{"name": "agreed"} | changes)
        for one in (self, *others):
            one.close()
            one.policy = policy
            if one is not self:
                one.trust(self, admin=True)

    def listed(self, **changes: Any) -> dict[str, Any]:
        """This owner's key as a policy lists it."""
        spki = base64.b64encode(self.key.spki).decode()
        whole = {"alg": "ed25519", "key": self.key.keyid, "notBefore": 0, "spki": spki, "status": "active"}
        return whole | changes
