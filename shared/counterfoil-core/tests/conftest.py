"""A place of its own for every test that writes evidence: home, evidence folder, child processes."""

from __future__ import annotations

import base64
import contextlib
import os
import secrets
import shutil
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

# importlib mode puts no folder on the path: this makes the kit (forging) importable.
sys.path.append(str(Path(__file__).resolve().parent))

from rotting import Pair
from sides import Side

import counterfoil
from counterfoil import (
    _walk,
    autostart,
    canonical,
    context,
    keys,
    moulds,
    plugins,
    policy_form,
    statements,
    values,
    verify,
)
from counterfoil.dsse import Envelope
from counterfoil.errors import HandoffRefusedError
from counterfoil.findings import Verification
from counterfoil.openlog import OpenLog
from counterfoil.recorder import Call, Recorder

# Small evidence is read the short way too, from the second entry of a form on: nothing may differ by it.
moulds.often = 1


class Lab:
    """One test's home (the machine under test), another one (any other machine) and evidence."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.home = root / "home"
        self.elsewhere = root / "elsewhere"
        self.evidence = root / "evidence"
        self._open: list[Recorder] = []

    # -- writing ------------------------------------------------------------------------------------------------------

    def recorder(self, evidence: Path | None = None, **settings: Any) -> Recorder:
        """A recorder that is closed with the test."""
        recorder = Recorder(evidence or self.evidence, **settings)
        self._open.append(recorder)
        return recorder

    def record(self, runs: int = 1, *, evidence: Path | None = None, calls: int = 2) -> None:
        """Evidence of some complete runs with a handoff each, from a session of its own."""
        recorder = self.recorder(evidence)
        for number in range(runs):
            run(recorder, calls=calls, number=number)
        recorder.close()

    def close(self) -> None:
        for recorder in self._open:
            recorder.close()

    # -- judging ------------------------------------------------------------------------------------------------------

    def verify(self, evidence: Path | None = None, **arguments: Any) -> Verification:
        """The verdict on this machine."""
        return verify(evidence or self.evidence, **arguments)

    def verify_elsewhere(self, evidence: Path | None = None) -> Verification:
        """The verdict of a machine that pinned this one's identity and remembers nothing."""
        identity = keys.load_identity()
        assert identity is not None
        with self.at(self.elsewhere):
            return verify(evidence or self.evidence, keyring=keys.Keyring.of([identity.public]))

    @contextlib.contextmanager
    def at(self, home: Path) -> Iterator[None]:
        """Another home for the code inside."""
        before = keys.home()
        keys.set_home(home)
        try:
            yield
        finally:
            keys.set_home(before)

    # -- files --------------------------------------------------------------------------------------------------------

    def files(self, evidence: Path | None = None) -> list[Path]:
        """Every file of the evidence."""
        return sorted(path for path in (evidence or self.evidence).rglob("*") if path.is_file())

    def segments(self, evidence: Path | None = None) -> list[Path]:
        """Every segment, in order."""
        return sorted((evidence or self.evidence).glob("*/*.seg"))

    # -- other processes ----------------------------------------------------------------------------------------------

    def environment(self, **more: str) -> dict[str, str]:
        """Environment of a child process: this test's home, this checkout's code."""
        environment = {**os.environ, "COUNTERFOIL_HOME": str(self.home), "PYTHONHASHSEED": "random"}
        environment["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
        return environment | more

    def start(
        self, code: str, *arguments: object, before: Sequence[str] = (), **more: str
    ) -> subprocess.Popen[str]:
        """A child process that runs ``code`` with the evidence folder as first argument, by the command ``before``."""
        words = [sys.executable, "-c", textwrap.dedent(code), str(self.evidence), *map(str, arguments)]
        command = [*before, *words]
        return subprocess.Popen(
            command,
            env=self.environment(**more),
            cwd=self.root,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            stdin=subprocess.PIPE,
            text=True,
        )

    def python(
        self, code: str, *arguments: object, before: Sequence[str] = (), timeout: float = 60, **more: str
    ) -> str:
        """As ``start``, waited for; must end well; what it printed."""
        child = self.start(code, *arguments, before=before, **more)
        out, err = child.communicate(timeout=timeout)
        assert child.returncode == 0, err
        return out


class Party:
    """One owner of one name: a home, evidence, and a log opened for writing when it is needed."""

    def __init__(self, lab: Lab, name: str, *, home: str | None = None) -> None:
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


def run(recorder: Recorder, *, calls: int = 2, number: int = 0) -> Call:
    """One complete run: a workflow, two agents with model calls, a handoff between them."""
    root = recorder.start("invoke_workflow", "app", actor=("app",), request=recorder.value({"n": number}))
    first = recorder.start("step", "writer", actor=("writer",), parent=root, key="1")
    for turn in range(calls):
        asked = recorder.value({"messages": [f"question {number} {turn} " * 40]})
        model = recorder.start("chat", "model", actor=("writer",), parent=first, request=asked)
        recorder.end(model, response=recorder.value(f"answer {number} {turn} " * 40))
    payload = recorder.value({"text": f"draft {number} " * 40})
    recorder.end(first, response=payload)
    handed = recorder.handoff(
        senders=[("writer",)],
        to=("reader",),
        signer=("app",),
        kind="edge",
        basis="observed",
        payload=payload,
        parents=[("control", first)],
        run=root.run,
    )
    second = recorder.start(
        "step",
        "reader",
        actor=("reader",),
        parent=root,
        key="2",
        request=payload,
        parents=[("control", first)],
        handoffs=[handed] if handed else [],
    )
    recorder.end(second)
    recorder.end(root, response=payload)
    return root


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    """A home and an evidence folder of this test alone."""
    place = Lab(tmp_path)
    before = keys.home()
    keys.set_home(place.home)
    yield place
    place.close()
    autostart.uninstall()
    context.enter(None)
    keys.set_home(before)


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """A home that nothing made yet."""
    path = tmp_path / "private" / "home"
    keys.set_home(path)
    yield path
    keys.set_home(None)


@pytest.fixture
def party(lab: Lab, no_plugins: Any) -> Iterator[Callable[..., Party]]:
    """``party(name, trusts=[...])``: an owner of a name with a home of its own, closed with the test."""
    made: list[Party] = []

    def make(name: str, *, trusts: Iterable[Party] = (), home: str | None = None) -> Party:
        one = Party(lab, name, home=home)
        one.trust(*trusts)
        made.append(one)
        return one

    yield make
    for one in made:
        one.close()


@pytest.fixture
def sides(lab: Lab, no_plugins: Any) -> Iterator[tuple[Side, Side]]:
    """A sender, and a receiver that trusts it."""
    sender, receiver = Side(lab, "sender"), Side(lab, "receiver")
    receiver.trust(sender)
    yield sender, receiver
    sender.close()
    receiver.close()


@pytest.fixture
def valid(lab: Lab) -> Lab:
    """Evidence of one run, intact."""
    lab.record()
    assert lab.verify().verdict == "intact"
    return lab


@pytest.fixture
def pair(lab: Lab) -> Pair:
    """Evidence and a copy of it."""
    lab.record(calls=1)
    return Pair(lab)


@pytest.fixture
def one_run() -> Any:
    """``run(recorder)``: records one complete run."""
    return run


@pytest.fixture
def no_plugins(monkeypatch: pytest.MonkeyPatch) -> plugins.Plugins:
    """Plugins of this test alone: none, until it registers one."""
    found = plugins.Plugins(points=[])
    monkeypatch.setattr(plugins, "_loaded", found)
    return found


@pytest.fixture
def forms() -> Iterator[None]:
    """Forms that the test registers with ``values`` are gone afterwards."""
    before = dict(_walk.registered)
    yield
    _walk.registered.clear()
    _walk.registered.update(before)
    _walk.dispatch.clear()
    values._messages.clear()
