"""Ed25519 keys: Wycheproof, CCTV edge cases, and keys under which one signature would fit any message."""

from __future__ import annotations

import copy
import hashlib
import json
import pickle
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed448
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from counterfoil import keys
from counterfoil._ed25519 import LOW_ORDER
from counterfoil.errors import KeyringError, WeakKeyError
from counterfoil.keys import PublicKey, SigningKey

OUTSIDE = Path(__file__).resolve().parents[2] / "vectors" / "outside"
WYCHEPROOF = json.loads((OUTSIDE / "wycheproof" / "ed25519.json").read_text())
CCTV = json.loads((OUTSIDE / "cctv" / "ed25519.json").read_text())
PRIME = 2**255 - 19
SEED = bytes(range(32))
KEY = SigningKey(Ed25519PrivateKey.from_private_bytes(SEED))


def wycheproof() -> list[Any]:
    return [
        pytest.param(group["publicKey"]["pk"], test, id=f"tc{test['tcId']}")
        for group in WYCHEPROOF["testGroups"]
        for test in group["tests"]
    ]


@pytest.mark.parametrize(("key", "test"), wycheproof())
def test_wycheproof(key: str, test: dict[str, Any]) -> None:
    public = PublicKey(bytes.fromhex(key))
    accepted = public.verify(bytes.fromhex(test["sig"]), bytes.fromhex(test["msg"]))
    assert accepted == (test["result"] == "valid")


@pytest.mark.parametrize("case", CCTV, ids=lambda case: str(case["number"]))
def test_cctv_edge_cases(case: dict[str, Any]) -> None:
    flags = set(case["flags"] or [])
    key = bytes.fromhex(case["key"])
    if flags & {"low_order_A", "non_canonical_A"}:
        with pytest.raises(WeakKeyError) as caught:
            PublicKey(key)
        assert caught.value.code == "CF-KEYS-031"
    else:
        accepted = PublicKey(key).verify(bytes.fromhex(case["sig"]), case["msg"].encode())
        assert accepted == (not flags & {"low_order_R", "non_canonical_R", "low_order_residue"})


def test_how_much_of_the_outside_cases_is_accepted() -> None:
    """The policy in numbers: a change of it is noticed here."""
    counts = {"key refused": 0, "refused": 0, "accepted": 0}
    for case in CCTV:
        try:
            public = PublicKey(bytes.fromhex(case["key"]))
        except WeakKeyError:
            counts["key refused"] += 1
            continue
        accepted = public.verify(bytes.fromhex(case["sig"]), case["msg"].encode())
        counts["accepted" if accepted else "refused"] += 1
    assert counts == {"key refused": 196, "refused": 129, "accepted": 15}
    results = [test["result"] for group in WYCHEPROOF["testGroups"] for test in group["tests"]]
    assert (results.count("valid"), len(results)) == (52, 95)


def test_cctv_covers_every_low_order_encoding() -> None:
    seen = {bytes.fromhex(case["key"]) for case in CCTV if "low_order_A" in case["flags"]}
    assert seen <= LOW_ORDER
    assert {bytes.fromhex(case["sig"])[:32] for case in CCTV if "low_order_R" in case["flags"]} <= LOW_ORDER


def points_of_low_order() -> set[tuple[int, int]]:
    """All points P of the curve with 8P = 0, by doubling what has y as the table says."""
    d = -121665 * pow(121666, -1, PRIME) % PRIME

    def add(p: tuple[int, int], q: tuple[int, int]) -> tuple[int, int]:
        (x1, y1), (x2, y2) = p, q
        t = d * x1 * x2 * y1 * y2
        x = (x1 * y2 + x2 * y1) * pow(1 + t, -1, PRIME) % PRIME
        y = (y1 * y2 + x1 * x2) * pow(1 - t, -1, PRIME) % PRIME
        return x, y

    found = set()
    for encoding in LOW_ORDER:
        y = (int.from_bytes(encoding, "little") & (2**255 - 1)) % PRIME
        square = (y * y - 1) * pow(d * y * y + 1, -1, PRIME) % PRIME
        root = pow(square, (PRIME + 3) // 8, PRIME)
        if root * root % PRIME != square:
            root = root * pow(2, (PRIME - 1) // 4, PRIME) % PRIME
        assert root * root % PRIME == square
        for x in (root, -root % PRIME):
            point = (x, y)
            for _ in range(3):
                point = add(point, point)
            assert point == (0, 1)
            found.add((x, y))
    return found


def test_the_table_holds_the_eight_points_of_low_order_in_all_their_encodings() -> None:
    points = points_of_low_order()
    assert len(points) == 8
    assert len(LOW_ORDER) == 14
    for x, y in points:
        for spelled in (y, y + PRIME):
            if spelled < 2**255:
                signs = {x & 1} if x else {0, 1}
                for sign in signs:
                    assert (spelled | sign << 255).to_bytes(32, "little") in LOW_ORDER


@pytest.mark.parametrize("raw", sorted(LOW_ORDER), ids=bytes.hex)
def test_low_order_keys_are_refused_at_every_door(raw: bytes) -> None:
    spki = KEY.spki[:12] + raw
    doors: list[tuple[Any, Any]] = [
        (PublicKey, raw),
        (PublicKey.from_spki, spki),
        (keys.fingerprint, spki),
        (keys.fingerprint, Ed25519PublicKey.from_public_bytes(raw)),
    ]
    for door, argument in doors:
        with pytest.raises(WeakKeyError) as caught:
            door(argument)
        assert caught.value.hint


@pytest.mark.parametrize("y", [PRIME + extra for extra in range(19)])
@pytest.mark.parametrize("sign", [0, 1])
def test_keys_that_are_not_reduced_are_refused(y: int, sign: int) -> None:
    with pytest.raises(WeakKeyError):
        PublicKey((y | sign << 255).to_bytes(32, "little"))


def test_the_library_alone_would_accept_a_signature_for_any_message() -> None:
    identity = (1).to_bytes(32, "little")
    bare = Ed25519PublicKey.from_public_bytes(identity)
    assert bare.verify(identity + bytes(32), b"anything at all") is None
    assert bare.verify(identity + bytes(32), b"and anything else") is None


def test_sign_and_verify() -> None:
    signature = KEY.sign(b"message")
    assert len(signature) == 64
    assert KEY.public.verify(signature, b"message")
    assert not KEY.public.verify(signature, b"messagE")
    assert not SigningKey.generate().public.verify(signature, b"message")
    for length in (0, 32, 63, 65):
        assert not KEY.public.verify((signature + b"\0")[:length], b"message")


def test_s_beyond_the_group_order_is_refused() -> None:
    order = 2**252 + 27742317777372353535851937790883648493
    signature = KEY.sign(b"message")
    again = (int.from_bytes(signature[32:], "little") + order).to_bytes(32, "little")
    assert not KEY.public.verify(signature[:32] + again, b"message")


def test_names_of_a_key() -> None:
    private = Ed25519PrivateKey.from_private_bytes(SEED)
    spki = private.public_key().public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    expected = hashlib.sha256(spki).hexdigest()
    assert KEY.spki == KEY.public.spki == spki
    assert KEY.keyid == KEY.public.keyid == expected
    for named in (spki, KEY, KEY.public, private.public_key()):
        assert keys.fingerprint(named) == expected
    assert PublicKey.from_spki(spki) == KEY.public
    assert len({PublicKey.from_spki(spki), KEY.public, SigningKey.generate().public}) == 2


def other_keys() -> list[bytes]:
    der, spki = serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    p256 = ec.generate_private_key(ec.SECP256R1()).public_key().public_bytes(der, spki)
    return [p256, ed448.Ed448PrivateKey.generate().public_key().public_bytes(der, spki)]


@pytest.mark.parametrize(
    "der",
    [
        b"",
        KEY.public.raw,
        KEY.spki[:-1],
        KEY.spki + b"\0",
        KEY.spki[:8] + b"\x6e" + KEY.spki[9:],
        b"\x30\x81\x2a" + KEY.spki[2:],
        *other_keys(),
    ],
    ids=["empty", "raw", "cut", "longer", "x25519", "other-der", "p256", "ed448"],
)
def test_anything_but_the_spki_of_an_ed25519_key_is_refused(der: bytes) -> None:
    with pytest.raises(KeyringError) as caught:
        PublicKey.from_spki(der)
    assert caught.value.code == "CF-KEYS-030"


def test_a_signing_key_shows_nothing_but_its_fingerprint() -> None:
    assert repr(KEY) == str(KEY) == f"SigningKey({KEY.keyid})"
    assert repr(KEY.public) == f"PublicKey({KEY.keyid})"
    with pytest.raises(TypeError, match="stays in this process"):
        pickle.dumps(KEY)
    assert copy.copy(KEY) is KEY
    assert copy.deepcopy({"key": KEY})["key"] is KEY
    assert pickle.loads(pickle.dumps(KEY.public)) == KEY.public  # noqa: S301 - made on this line
    with pytest.raises(AttributeError):
        KEY.extra = 1  # type: ignore[attr-defined]
