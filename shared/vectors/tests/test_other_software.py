"""Other people's software reads what these formats write: securesystemslib, in-toto-attestation, sigstore."""

from __future__ import annotations

import base64
import copy
import json
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from google.protobuf import json_format
from in_toto_attestation.v1 import statement_pb2
from in_toto_attestation.v1.statement import Statement as InTotoStatement
from securesystemslib import dsse as sslib
from securesystemslib.exceptions import VerificationError
from securesystemslib.signer import SSlibKey
from sigstore.dsse import Error as SigstoreError
from sigstore.dsse import Statement as SigstoreStatement
from sigstore.hashes import HashAlgorithm, Hashed

import counterfoil
from counterfoil import canonical, keys, statements
from counterfoil.dsse import PAYLOAD_TYPE, Envelope, pae
from counterfoil.errors import EnvelopeError
from counterfoil.reader import read

VECTORS = Path(__file__).resolve().parents[1]
FILE = json.loads((VECTORS / "statement.json").read_text(encoding="ascii"))
GOLDEN = FILE["statements"]
KEYS = {one["fingerprint"]: base64.b64decode(one["spki"]) for one in FILE["keys"].values()}
NAMES = [case["name"] for case in GOLDEN]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> list[Envelope]:
    """Envelopes of a run and of a handoff between processes, as this version writes them."""
    folder = tmp_path_factory.mktemp("recorded")
    keys.set_home(folder / "home")
    try:
        with counterfoil.open(folder / "evidence", actor="writer") as log:
            recorder = log.recorder
            root = recorder.start("invoke_workflow", "app", actor=("app",))
            payload = recorder.value({"text": "draft " * 100})
            recorder.handoff(
                senders=[("app",)],
                to=("reader",),
                signer=("app",),
                kind="edge",
                basis="observed",
                payload=payload,
                parents=[("control", root)],
                run=root.run,
            )
            recorder.end(root)
            counterfoil.accept(log, counterfoil.seal(log, "pass on", to="writer"), "pass on")
        return [Envelope.parse(entry.body) for entry, _ in read(folder / "evidence").statements()]
    finally:
        keys.set_home(None)


def their_key(public: keys.PublicKey, keyid: str | None = None) -> SSlibKey:
    return SSlibKey.from_crypto(Ed25519PublicKey.from_public_bytes(public.raw), keyid or public.keyid)


def theirs(envelope: Envelope) -> sslib.Envelope:
    return sslib.Envelope.from_dict(envelope.to_dict())


@pytest.mark.parametrize("case", GOLDEN, ids=NAMES)
def test_securesystemslib_verifies_our_envelopes(case: dict[str, Any]) -> None:
    envelope = Envelope.parse(case["envelope"])
    public = [keys.PublicKey.from_spki(KEYS[one.keyid]) for one in envelope.signatures]
    assert theirs(envelope).pae() == bytes.fromhex(case["pae"])
    found = theirs(envelope).verify([their_key(key) for key in public], len(public))
    assert sorted(found) == sorted(key.keyid for key in public)
    payload = bytearray(envelope.payload)
    for at in range(0, len(payload), 37):
        payload[at] ^= 1
        with pytest.raises(VerificationError):
            theirs(Envelope(bytes(payload), envelope.signatures)).verify([their_key(public[0])], 1)
        payload[at] ^= 1
    stranger = keys.SigningKey.generate().public
    with pytest.raises(VerificationError):
        theirs(envelope).verify([their_key(stranger)], 1)
    with pytest.raises(VerificationError):
        theirs(envelope).verify([their_key(stranger, envelope.signatures[0].keyid)], 1)


def test_securesystemslib_verifies_what_was_recorded(recorded: list[Envelope]) -> None:
    kinds = {json.loads(envelope.payload)["predicateType"] for envelope in recorded}
    assert kinds == {statements.HANDOFF, statements.RECEIPT, statements.BINDING}
    bound = {}
    for envelope in recorded:
        predicate = json.loads(envelope.payload)["predicate"]
        if "spki" in predicate:
            public = keys.PublicKey.from_spki(base64.b64decode(predicate["spki"]))
            bound[public.keyid] = public
    checked = 0
    for envelope in recorded:
        for key in [bound[one.keyid] for one in envelope.signatures if one.keyid in bound]:
            assert list(theirs(envelope).verify([their_key(key)], 1)) == [key.keyid]
            checked += 1
    assert checked


def test_one_key_under_two_names() -> None:
    """securesystemslib counts names, so one key fills a threshold of two; here it is one signer."""
    key = keys.SigningKey.generate()
    signature = Envelope.sign(b"{}", key).to_dict()["signatures"][0]
    members = {
        **Envelope.sign(b"{}", key).to_dict(),
        "signatures": [signature, {**signature, "keyid": "alias"}],
    }
    known = [their_key(key.public), their_key(key.public, "alias")]
    # If a later version learns to count keys, this fails and the remark in SOURCES.md goes.
    assert len(sslib.Envelope.from_dict(copy.deepcopy(members)).verify(known, 2)) == 2
    ours = Envelope.parse(members)
    assert ours.verify({key.keyid: key.public, "alias": key.public}) == [key.keyid]
    only = Envelope.parse({**members, "signatures": [{**signature, "keyid": "alias"}]})
    with pytest.raises(EnvelopeError) as caught:
        only.verify({"alias": key.public})
    assert caught.value.code == "CF-DSSE-010"


def payloads(recorded: list[Envelope]) -> list[bytes]:
    return [*(case["payload"].encode() for case in GOLDEN), *(envelope.payload for envelope in recorded)]


def test_the_golden_statements_are_of_every_type() -> None:
    assert {json.loads(case["payload"])["predicateType"] for case in GOLDEN} == set(statements._PREDICATES)


def test_in_toto_attestation_accepts_our_statements(recorded: list[Envelope]) -> None:
    for payload in payloads(recorded):
        message = json_format.Parse(payload, statement_pb2.Statement())
        found = InTotoStatement.copy_from_pb(message)
        found.validate()
        value = json.loads(payload)
        assert found.pb.predicate_type == value["predicateType"]
        # Their numbers are doubles; ours are integers that a double holds, so nothing is lost on the way.
        again = json_format.MessageToDict(found.pb)
        assert canonical.dumps(again) == payload


@pytest.mark.parametrize(
    "change",
    [
        {"_type": "https://in-toto.io/Statement/v0.1"},
        {"subject": []},
        {"subject": [{"name": "payload"}]},
        {"predicateType": ""},
    ],
    ids=lambda change: next(iter(change)),
)
def test_both_refuse_what_is_no_statement(change: dict[str, Any]) -> None:
    value = {**json.loads(GOLDEN[0]["payload"]), **change}
    payload = canonical.dumps(value)
    with pytest.raises(ValueError, match=r".+"):
        InTotoStatement.copy_from_pb(json_format.Parse(payload, statement_pb2.Statement())).validate()
    with pytest.raises(counterfoil.CounterfoilError):
        statements.parse(payload)


def test_sigstore_accepts_our_statements(recorded: list[Envelope]) -> None:
    """All but one member: sigstore knows a fixed list of digest algorithms, where in-toto leaves the names open.

    So it reads receipts and bindings as they are, and a handoff only without ``counterfoil-v1``.
    """
    matched = refused = 0
    for payload in payloads(recorded):
        value = json.loads(payload)
        digests = [subject["digest"] for subject in value["subject"]]
        if any(digest.pop("counterfoil-v1", None) for digest in digests):
            with pytest.raises(SigstoreError, match=r"subject\.0\.digest\.counterfoil-v1"):
                SigstoreStatement(payload)
            refused += 1
            payload = canonical.dumps(value)
        found = SigstoreStatement(payload)
        assert found._pae() == pae(PAYLOAD_TYPE, payload)
        for digest in digests:
            if "sha256" in digest:
                known = Hashed(algorithm=HashAlgorithm.SHA2_256, digest=bytes.fromhex(digest["sha256"]))
                assert found._matches_digest(known)
                assert not found._matches_digest(Hashed(algorithm=HashAlgorithm.SHA2_256, digest=bytes(32)))
                matched += 1
    assert matched
    assert refused
    with pytest.raises(SigstoreError):
        SigstoreStatement(b'{"_type":"x"}')
