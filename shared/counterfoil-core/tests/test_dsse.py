"""DSSE envelopes: strict parsing, one normal form, and nobody counted who did not sign."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from counterfoil import dsse
from counterfoil.dsse import PAYLOAD_TYPE, Envelope
from counterfoil.errors import EnvelopeError
from counterfoil.keys import Keyring, PublicKey, SigningKey

VECTOR = json.loads(
    (
        Path(__file__).resolve().parents[2] / "vectors" / "outside" / "dsse" / "protocol_vector.json"
    ).read_text()
)
KEY, OTHER, THIRD = (
    SigningKey(Ed25519PrivateKey.from_private_bytes(bytes([number]) * 32)) for number in (1, 2, 3)
)
PAYLOAD = b'{"_type":"https://in-toto.io/Statement/v1","n":1}'
ENVELOPE = Envelope.sign(PAYLOAD, KEY)
MEMBERS = ENVELOPE.to_dict()


def code_of(call: Any, *arguments: Any) -> str | None:
    try:
        call(*arguments)
    except EnvelopeError as exc:
        return exc.code
    return None


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def signed_by(*keys: SigningKey, payload: bytes = PAYLOAD) -> dict[str, Any]:
    signatures = [each for key in keys for each in Envelope.sign(payload, key).to_dict()["signatures"]]
    return {"payload": b64(payload), "payloadType": PAYLOAD_TYPE, "signatures": signatures}


def test_protocol_vector() -> None:
    payload = VECTOR["payloadUtf8"].encode()
    assert dsse.pae(VECTOR["payloadType"], payload) == VECTOR["pae"].encode()
    # Its payload type is not ours, so as an envelope it is refused.
    assert code_of(Envelope.parse, VECTOR["envelope"]) == "CF-DSSE-003"


def test_pae_counts_bytes() -> None:
    assert dsse.pae("\u00e9", b"\xff\x00") == b"DSSEv1 2 \xc3\xa9 2 \xff\x00"
    assert dsse.pae("", b"") == b"DSSEv1 0  0 "


def test_sign_parse_verify() -> None:
    assert ENVELOPE.verify({KEY.keyid: KEY.public}) == [KEY.keyid]
    assert ENVELOPE.verify(Keyring.of([OTHER.public, KEY.public])) == [KEY.keyid]
    data = ENVELOPE.to_bytes()
    for form in (data, data.decode(), json.loads(data), json.dumps(json.loads(data), indent=1)):
        assert Envelope.parse(form) == ENVELOPE
        assert Envelope.parse(form).to_bytes() == data
    assert ENVELOPE.payload == PAYLOAD
    assert ENVELOPE.payload_type == PAYLOAD_TYPE
    assert ENVELOPE.digest == "db683ac1759dd787fb264232ccc16191f1d05accc9e85d0d084f395109f18c67"


def test_the_normal_form_has_one_spelling() -> None:
    members = signed_by(OTHER, KEY, THIRD)
    members["signatures"].sort(key=lambda each: each["keyid"], reverse=True)
    members["extra"] = {"ignored": [1]}
    members["signatures"][0]["cert"] = "ignored"
    members["payload"] = members["payload"].replace("+", "-").replace("/", "_")
    envelope = Envelope.parse(json.dumps(members))
    assert [each.keyid for each in envelope.signatures] == sorted([KEY.keyid, OTHER.keyid, THIRD.keyid])
    assert set(envelope.to_dict()) == {"payload", "payloadType", "signatures"}
    assert Envelope.parse(signed_by(THIRD, OTHER, KEY)).to_bytes() == envelope.to_bytes()
    assert b"ignored" not in envelope.to_bytes()


def test_there_is_no_way_to_a_parsed_payload() -> None:
    assert {name for name in dir(ENVELOPE) if not name.startswith("_")} == {
        *("digest", "parse", "parse_compact", "payload", "payload_type", "sign", "signatures"),
        *("cosigned", "is_normal", "to_bytes", "to_compact", "to_dict", "verify"),
    }


# --- what is refused ---------------------------------------------------------------------------------------


def changed(**members: Any) -> dict[str, Any]:
    return {**MEMBERS, **members}


SIGNATURE = MEMBERS["signatures"][0]
PLUS = b64(b"\xfb\xff\xfe")


@pytest.mark.parametrize(
    ("members", "code"),
    [
        (changed(payload=None), "CF-DSSE-002"),
        (changed(payload=1), "CF-DSSE-002"),
        (changed(payloadType=None), "CF-DSSE-002"),
        ({key: MEMBERS[key] for key in ("payload", "signatures")}, "CF-DSSE-002"),
        ([], "CF-DSSE-002"),
        ("x", "CF-DSSE-002"),
        (changed(payloadType="application/vnd.in-toto+json; charset=utf-8"), "CF-DSSE-003"),
        (changed(payloadType="APPLICATION/vnd.in-toto+json"), "CF-DSSE-003"),
        (changed(payloadType=""), "CF-DSSE-003"),
        (changed(payload=""), "CF-DSSE-004"),
        (changed(payload=PLUS[:-1]), "CF-DSSE-004"),
        (changed(payload="YQ"), "CF-DSSE-004"),
        (changed(payload="YQ="), "CF-DSSE-004"),
        (changed(payload="YQ==="), "CF-DSSE-004"),
        (changed(payload="YR=="), "CF-DSSE-004"),
        (changed(payload="YW E="), "CF-DSSE-004"),
        (changed(payload="YWE=\n"), "CF-DSSE-004"),
        (changed(payload="YWE=YWE="), "CF-DSSE-004"),
        (changed(payload="+-8="), "CF-DSSE-004"),
        (changed(payload="\uff21\uff21=="), "CF-DSSE-004"),
        (changed(signatures=[]), "CF-DSSE-005"),
        (changed(signatures={}), "CF-DSSE-005"),
        (changed(signatures=None), "CF-DSSE-005"),
        (changed(signatures=[SIGNATURE, SIGNATURE]), "CF-DSSE-005"),
        (changed(signatures=[{**SIGNATURE, "keyid": str(at)} for at in range(5)]), "CF-DSSE-005"),
        (changed(signatures=[{"sig": SIGNATURE["sig"]}]), "CF-DSSE-005"),
        (changed(signatures=[{**SIGNATURE, "keyid": ""}]), "CF-DSSE-005"),
        (changed(signatures=[{**SIGNATURE, "keyid": None}]), "CF-DSSE-005"),
        (changed(signatures=[{**SIGNATURE, "keyid": "k" * 129}]), "CF-DSSE-005"),
        (changed(signatures=[{**SIGNATURE, "keyid": "k\n"}]), "CF-DSSE-005"),
        (changed(signatures=[{**SIGNATURE, "keyid": "k\u00e9"}]), "CF-DSSE-005"),
        (changed(signatures=[{**SIGNATURE, "sig": None}]), "CF-DSSE-005"),
        (changed(signatures=[None]), "CF-DSSE-005"),
        (changed(signatures=["x"]), "CF-DSSE-005"),
        (changed(signatures=[{**SIGNATURE, "sig": ""}]), "CF-DSSE-004"),
        (changed(signatures=[{**SIGNATURE, "sig": SIGNATURE["sig"].rstrip("=")}]), "CF-DSSE-004"),
    ],
)
def test_malformed_envelopes(members: Any, code: str) -> None:
    assert code_of(Envelope.parse, json.dumps(members)) == code
    if isinstance(members, dict):
        assert code_of(Envelope.parse, members) == code


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (b"", "CF-DSSE-002"),
        (b"{", "CF-DSSE-002"),
        (b"\xff", "CF-DSSE-002"),
        (ENVELOPE.to_bytes() + b"x", "CF-DSSE-002"),
        (b"\xef\xbb\xbf" + ENVELOPE.to_bytes(), "CF-DSSE-002"),
        (ENVELOPE.to_bytes().replace(b'{"payload"', b'{"payload":"YQ==","payload"', 1), "CF-DSSE-002"),
        (ENVELOPE.to_bytes().replace(b'"sig"', b'"keyid":"a","sig"', 1), "CF-DSSE-002"),
        (b'{"x":' * 40 + b"1" + b"}" * 40, "CF-DSSE-002"),
        pytest.param(b"[" * 60_000, "CF-DSSE-002", id="deep"),
        pytest.param(b" " * 70_000, "CF-DSSE-001", id="large"),
    ],
)
def test_malformed_texts(text: bytes, code: str) -> None:
    assert code_of(Envelope.parse, text) == code


def test_size_limit_holds_for_every_door() -> None:
    large = b"x" * 49_200
    assert code_of(Envelope.sign, large, KEY) == "CF-DSSE-001"
    assert code_of(Envelope.parse, changed(payload=b64(large))) == "CF-DSSE-001"
    assert code_of(Envelope.parse, changed(payload=b64(large * 2))) == "CF-DSSE-001"
    assert (
        code_of(Envelope.parse, changed(signatures=[{**SIGNATURE, "sig": b64(large * 2)}])) == "CF-DSSE-001"
    )
    assert code_of(Envelope.parse_compact, "A" * 70_000) == "CF-DSSE-001"
    fitting = b"x" * 48_500
    assert len(Envelope.sign(fitting, KEY).to_bytes()) <= dsse.MAX_NORMAL
    assert Envelope.parse(Envelope.sign(fitting, KEY).to_bytes()).payload == fitting
    assert code_of(Envelope.sign, b"", KEY) == "CF-DSSE-002"


def test_many_signatures_are_refused_before_work() -> None:
    # Endless signatures (python-tuf CVE-2020-6173).
    members = changed(signatures=[{"keyid": str(at), "sig": "YQ=="} for at in range(100_000)])
    assert code_of(Envelope.parse, members) == "CF-DSSE-005"
    assert code_of(Envelope.parse, json.dumps(members)) == "CF-DSSE-001"


# --- verification ------------------------------------------------------------------------------------------


def test_no_known_key() -> None:
    assert code_of(ENVELOPE.verify, {}) == "CF-DSSE-010"
    assert code_of(ENVELOPE.verify, {OTHER.keyid: OTHER.public}) == "CF-DSSE-010"
    assert code_of(ENVELOPE.verify, Keyring()) == "CF-DSSE-010"


def test_a_known_key_that_did_not_sign_this() -> None:
    forged = Envelope.parse(changed(payload=b64(PAYLOAD + b" ")))
    assert code_of(forged.verify, {KEY.keyid: KEY.public}) == "CF-DSSE-011"
    renamed = Envelope.parse(changed(signatures=[{**SIGNATURE, "keyid": OTHER.keyid}]))
    assert code_of(renamed.verify, {OTHER.keyid: OTHER.public, KEY.keyid: KEY.public}) == "CF-DSSE-011"


def test_a_signature_over_the_bare_payload_or_another_type_does_not_count() -> None:
    for message in (PAYLOAD, dsse.pae("application/json", PAYLOAD)):
        sig = b64(KEY.sign(message))
        envelope = Envelope.parse(changed(signatures=[{"keyid": KEY.keyid, "sig": sig}]))
        assert code_of(envelope.verify, {KEY.keyid: KEY.public}) == "CF-DSSE-011"


def test_every_bit_of_payload_and_signature_counts() -> None:
    keyring = {KEY.keyid: KEY.public}
    for at in range(len(PAYLOAD) * 8):
        flipped = bytearray(PAYLOAD)
        flipped[at // 8] ^= 1 << at % 8
        assert code_of(Envelope(bytes(flipped), ENVELOPE.signatures).verify, keyring) == "CF-DSSE-011"
    sig = ENVELOPE.signatures[0].sig
    for at in range(len(sig) * 8):
        flipped = bytearray(sig)
        flipped[at // 8] ^= 1 << at % 8
        other = Envelope(PAYLOAD, (dsse.Signature(KEY.keyid, bytes(flipped)),))
        assert code_of(other.verify, keyring) == "CF-DSSE-011"


def test_one_key_under_two_names_counts_once() -> None:
    alias = "another-name"
    members = changed(signatures=[SIGNATURE, {"keyid": alias, "sig": SIGNATURE["sig"]}])
    keyring: dict[str, PublicKey] = {KEY.keyid: KEY.public, alias: KEY.public}
    assert Envelope.parse(members).verify(keyring) == [KEY.keyid]
    only_alias = Envelope.parse(changed(signatures=[{"keyid": alias, "sig": SIGNATURE["sig"]}]))
    assert code_of(only_alias.verify, keyring) == "CF-DSSE-010"


def test_several_signers() -> None:
    envelope = Envelope.parse(signed_by(OTHER, KEY))
    both = Keyring.of([KEY.public, OTHER.public])
    assert envelope.verify(both) == sorted([KEY.keyid, OTHER.keyid])
    assert envelope.verify({OTHER.keyid: OTHER.public}) == [OTHER.keyid]
    members = signed_by(OTHER, KEY)
    members["signatures"][1]["sig"] = b64(bytes(64))
    assert Envelope.parse(members).verify(both) == [OTHER.keyid]


def test_key_material_inside_an_envelope_is_ignored() -> None:
    members = changed(
        signatures=[{**SIGNATURE, "keyid": OTHER.keyid, "publicKey": b64(KEY.spki), "alg": "none"}]
    )
    assert (
        code_of(Envelope.parse({**members, "jwk": {}}).verify, {OTHER.keyid: OTHER.public}) == "CF-DSSE-011"
    )


# --- compact form ------------------------------------------------------------------------------------------


def test_compact_form() -> None:
    text = ENVELOPE.to_compact()
    assert text.count(".") == 2
    assert "=" not in text
    assert Envelope.parse_compact(text) == ENVELOPE == Envelope.parse_compact(text.encode())
    assert Envelope.parse_compact(text).to_compact() == text
    odd = Envelope.sign(b"\xfb\xff\xfe\xff", KEY)
    assert Envelope.parse_compact(odd.to_compact()) == odd


COMPACT = ENVELOPE.to_compact()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "..",
        "a.b",
        COMPACT + ".",
        COMPACT + "=",
        COMPACT + " ",
        " " + COMPACT,
        COMPACT[:-1],
        COMPACT + "A",
        "." + COMPACT.split(".", 1)[1],
        COMPACT.replace(".", "..", 1),
        COMPACT.replace("A", "+", 1),
        COMPACT.rsplit(".", 1)[0] + ".YWJj",
        COMPACT.replace(".", "\u00e9.", 1),
        COMPACT.rsplit(".", 2)[0] + ".." + COMPACT.rsplit(".", 1)[1],
    ],
)
def test_malformed_compact_forms(text: str) -> None:
    assert code_of(Envelope.parse_compact, text) == "CF-DSSE-006"
    assert code_of(Envelope.parse_compact, text.encode()) == "CF-DSSE-006"


def test_compact_form_has_no_second_spelling() -> None:
    keyring = {KEY.keyid: KEY.public}
    data = COMPACT.encode()
    for at in range(len(data)):
        for bit in range(8):
            text = data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :]
            try:
                envelope = Envelope.parse_compact(text)
            except EnvelopeError:
                continue
            assert code_of(envelope.verify, keyring) in ("CF-DSSE-010", "CF-DSSE-011")


def test_what_has_no_compact_form() -> None:
    assert code_of(Envelope.parse(signed_by(KEY, OTHER)).to_compact) == "CF-DSSE-006"
    named = Envelope(PAYLOAD, (dsse.Signature("name", b"x"),))
    assert code_of(named.to_compact) == "CF-DSSE-006"
