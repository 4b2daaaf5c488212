"""Signed JSON of other projects: receipts of agent-toolprint, a W3C credential, the DSSE protocol's own vector."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

from counterfoil import canonical, dsse
from counterfoil.dsse import Envelope
from counterfoil.errors import CanonicalError, EnvelopeError
from counterfoil.keys import Keyring, PublicKey, SigningKey

OUTSIDE = Path(__file__).resolve().parents[2] / "vectors" / "outside"
CASES = sorted((OUTSIDE / "agent-toolprint").glob("*/*.json"))
RECEIPTS = [path for path in CASES if path.parent.name != "c4-chain"]
ALPHABET = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"


def base58(text: str) -> bytes:
    number = 0
    for char in text:
        number = number * 58 + ALPHABET.index(char)
    return number.to_bytes((number.bit_length() + 7) // 8, "big")


def did_key(text: str) -> PublicKey:
    """Key of a did:key or multibase text: z, base58, 0xed 0x01, 32 bytes."""
    data = base58(text.rpartition("did:key:")[2].removeprefix("z"))
    assert data[:2] == b"\xed\x01"
    return PublicKey(data[2:])


def key_of(seed: int) -> SigningKey:
    return SigningKey(Ed25519PrivateKey.from_private_bytes(bytes([seed]) * 32))


def both_signed(envelope: Envelope, receipt: dict[str, Any]) -> bool:
    """What a receipt of that project asks for: the agent's and the tool's key, each under its own name."""
    signers = [did_key(receipt[who]["did"]) for who in ("agent", "tool")]
    try:
        return sorted(envelope.verify(Keyring.of(signers))) == sorted(key.keyid for key in signers)
    except EnvelopeError:
        return False


def signed(payload: bytes, *keys: SigningKey) -> Envelope:
    signatures = [Envelope.sign(payload, key).signatures[0] for key in keys]
    return Envelope(payload, tuple(sorted(signatures, key=lambda one: one.keyid)))


def accepted(case: dict[str, Any]) -> bool:
    given = case["input"]
    receipt, mutation = given["receipt"], given.get("mutation", {})
    payload = canonical.dumps(receipt)
    if mutation.get("target") == "non-canonical-payload":
        payload = json.dumps(dict(reversed(receipt.items()))).encode()
        assert json.loads(payload) == receipt
    keys = [key_of(given[name]) for name in ("agent_sk_seed", "tool_sk_seed") if name in given]
    envelope = signed(payload, *keys)
    if mutation.get("target") == "payload":
        envelope = Envelope(payload[:30] + bytes([payload[30] ^ 1]) + payload[31:], envelope.signatures)
    elif "index" in mutation:
        name = keys[mutation["index"]].keyid
        changed = []
        for one in envelope.signatures:
            if one.keyid != name:
                changed.append(one)
            elif mutation["target"] == "signature":
                changed.append(dsse.Signature(name, bytes([one.sig[0] ^ 1]) + one.sig[1:]))
            else:
                changed.append(dsse.Signature("someone-else", one.sig))
        envelope = Envelope(envelope.payload, tuple(changed))
    again = Envelope.parse(envelope.to_bytes())
    try:
        canonical.loads_canonical(again.payload)
    except CanonicalError:
        return False
    return both_signed(again, receipt)


@pytest.mark.parametrize("path", RECEIPTS, ids=lambda path: path.stem)
def test_agent_toolprint_receipts(path: Path) -> None:
    case = json.loads(path.read_text(encoding="utf-8"))
    receipt, expected = case["input"]["receipt"], case["expected"]
    if "canonical_payload_sha256" in expected:
        digest = sha256(canonical.dumps(receipt)).hexdigest()
        assert f"sha256:{digest}" == expected["canonical_payload_sha256"]
    assert key_of(case["input"]["agent_sk_seed"]).public == did_key(receipt["agent"]["did"])
    assert accepted(case) == expected["verify_ok"]


def test_what_their_tampered_receipts_fail_on() -> None:
    """Each on its own account: without that one check it would pass."""
    by_name = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in RECEIPTS}
    assert len(by_name) == 7
    bad = by_name["non-canonical-payload"]
    keys = [key_of(1), key_of(2)]
    text = json.dumps(dict(reversed(bad["input"]["receipt"].items()))).encode()
    assert both_signed(signed(text, *keys), bad["input"]["receipt"])
    with pytest.raises(CanonicalError):
        canonical.loads_canonical(text)
    single = by_name["agent-only"]["input"]["receipt"]
    envelope = signed(canonical.dumps(single), key_of(1))
    assert envelope.verify(Keyring.of([key.public for key in keys])) == [key_of(1).keyid]
    assert not both_signed(envelope, single)


def test_their_chains_link_names_where_ours_link_digests() -> None:
    """A parent named by an id that its producer chose can be cut out and put elsewhere: two receipts, one id."""
    case = json.loads((OUTSIDE / "agent-toolprint/c4-chain/linked.json").read_text(encoding="utf-8"))["input"]
    assert case["child"]["parent"] == case["parent"]["id"]
    other = {**case["parent"], "call": {**case["parent"]["call"], "name": "delete"}}
    assert other["id"] == case["parent"]["id"]
    digests = {signed(canonical.dumps(one), key_of(1)).digest for one in (other, case["parent"])}
    assert len(digests) == 2


W3C = OUTSIDE / "vc-eddsa-jcs-2022"


def w3c(name: str) -> str:
    return (W3C / name).read_text(encoding="utf-8").strip()


def test_eddsa_jcs_2022() -> None:
    """Canonical form, hashes and signature of a W3C credential secured with JCS and Ed25519."""
    document = json.loads(w3c("signedJCS.json"))
    proof = document.pop("proof")
    assert canonical.dumps(document).decode() == w3c("canonDocJCS.txt")
    options = json.loads(w3c("proofConfigJCS.json"))
    assert canonical.dumps(options).decode() == w3c("proofCanonJCS.txt")
    hashed = [sha256(canonical.dumps(one)) for one in (options, document)]
    assert [one.hexdigest() for one in hashed] == [w3c("proofHashJCS.txt"), w3c("docHashJCS.txt")]
    message = b"".join(one.digest() for one in hashed)
    assert message.hex() == w3c("combinedHashJCS.txt")
    key = did_key(json.loads(w3c("keyPair.json"))["publicKeyMultibase"])
    signature = base58(w3c("sigBTC58JCS.txt").removeprefix("z"))
    assert signature.hex() == w3c("sigHexJCS.txt")
    assert proof["proofValue"] == w3c("sigBTC58JCS.txt")
    assert key.verify(signature, message)
    private = base58(json.loads(w3c("keyPair.json"))["privateKeyMultibase"].removeprefix("z"))
    assert private[:2] == b"\x80\x26"
    assert SigningKey(Ed25519PrivateKey.from_private_bytes(private[2:])).sign(message) == signature
    for other in (hashed[1].digest() + hashed[0].digest(), message[:-1], message + b"\0"):
        assert not key.verify(signature, other)


def test_the_signature_of_the_dsse_vector_is_over_our_encoding() -> None:
    """P-256 is no algorithm of these formats; the bytes it signed there are the ones our signatures cover."""
    vector = json.loads((OUTSIDE / "dsse" / "protocol_vector.json").read_text(encoding="utf-8"))
    numbers = ec.EllipticCurvePublicNumbers(int(vector["key"]["x"]), int(vector["key"]["y"]), ec.SECP256R1())
    raw = dsse._decode(vector["envelope"]["signatures"][0]["sig"], "sig")
    r, s = int.from_bytes(raw[:32], "big"), int.from_bytes(raw[32:], "big")
    message = dsse.pae(vector["payloadType"], vector["payloadUtf8"].encode())
    numbers.public_key().verify(encode_dss_signature(r, s), message, ec.ECDSA(hashes.SHA256()))
