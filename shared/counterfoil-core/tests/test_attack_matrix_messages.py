"""The attack matrix, rows about messages on their way: each attacks a valid handoff and is refused by name."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import tracemalloc
import unicodedata
from collections.abc import Callable
from typing import Any

import pytest

import counterfoil
from counterfoil import canonical, keys, notes, statements
from counterfoil.dsse import PAYLOAD_TYPE, Envelope, pae
from counterfoil.errors import NoteError, TrustError, WeakKeyError

ORDER = 2**252 + 27742317777372353535851937790883648493


def spliced(envelope: Envelope, **changes: Any) -> dict[str, Any]:
    """The envelope with members of its one signature changed."""
    (signature,) = envelope.to_dict()["signatures"]
    return {**envelope.to_dict(), "signatures": [signature | changes]}


def resigned(sender: Any, envelope: Envelope, edit: Callable[[bytes], bytes]) -> Envelope:
    """The sender's own signature over an edited payload: only the payload's form can be wrong."""
    changed = edit(envelope.payload)
    assert changed != envelope.payload
    return sender.sign_bytes(changed)


# -- to whom and how often --------------------------------------------------------------------------------------------


def test_row_01_replay_to_another_audience(sender: Any, receiver: Any, party: Callable[..., Any]) -> None:
    other = party("other", trusts=[sender])
    envelope = sender.seal()
    assert other.refuses(envelope) == "CF-HANDOFF-014"
    receiver.accept(envelope)


def test_row_02_replay_to_the_same_audience(sender: Any, receiver: Any, party: Callable[..., Any]) -> None:
    envelope = sender.seal()
    receiver.accept(envelope)
    assert receiver.refuses(envelope) == "CF-HANDOFF-018"
    receiver.close()
    assert receiver.refuses(envelope) == "CF-HANDOFF-018"
    # A replica with the same home and other evidence knows as well.
    replica = party("receiver", home="receiver")
    replica.evidence = receiver.lab.root / "evidence of a replica"
    assert replica.refuses(envelope) == "CF-HANDOFF-018"
    assert receiver.verdict() == ("intact", [])


def test_row_03_a_nonce_used_twice_by_its_sender(sender: Any, receiver: Any) -> None:
    first = sender.message(nonce="a" * 32)
    receiver.accept(sender.sign(first))
    second = sender.sign(first | {"expires": first["expires"] + 1})
    assert receiver.refuses(second) == "CF-HANDOFF-018"


# -- ancestry ---------------------------------------------------------------------------------------------------------


def granted(giver: Any, to: str, **more: Any) -> Envelope:
    authority = counterfoil.Allow("repo:read", "repo:write:tests/*", depth=3)
    return giver.seal("grant", to=to, authority=authority, **more)


def test_row_04_ancestry_cut_and_pasted(sender: Any, receiver: Any, party: Callable[..., Any]) -> None:
    giver = party("giver")
    for one in (sender, receiver):
        one.trust(giver)
    mine, theirs = granted(giver, "sender"), granted(giver, "somebody else")
    sender.accept(mine, "grant")
    authority = {"allow": ["repo:read"], "expires": 4_000_000_000_000, "maxDepth": 0}
    # A grant that was somebody else's, cited and sent along.
    stolen = sender.sign(sender.message(authority=authority | {"from": theirs.digest, "expires": 1}))
    assert receiver.refuses(stolen, grants=[theirs]) == "CF-HANDOFF-022"
    # Another parent put into signed bytes.
    whole = sender.seal(parents=[mine.digest]).to_dict()
    value = canonical.loads(base64.b64decode(whole["payload"]))
    value["predicate"]["parents"][0]["digest"] = theirs.digest
    pasted = whole | {"payload": base64.b64encode(canonical.dumps(value)).decode()}
    assert receiver.refuses(pasted) == "CF-HANDOFF-011"


def test_row_05_ancestry_cut_off_on_the_way(sender: Any, receiver: Any, party: Callable[..., Any]) -> None:
    giver, middle = party("giver"), party("middle")
    for one in (middle, sender, receiver):
        one.trust(giver, middle)
    giver.agree(middle, sender, receiver)
    first = middle.accept(granted(giver, "middle"), "grant")
    under = counterfoil.Allow("repo:read", under=first)
    second = sender.accept(middle.seal("grant", to="sender", authority=under), "grant", grants=first.chain)
    envelope = sender.seal(authority=counterfoil.Allow("repo:read", under=second))
    assert len(second.chain) == 2
    for left in ([], second.chain[:1], second.chain[1:]):
        assert receiver.refuses(envelope, grants=left) == "CF-HANDOFF-022"
    receiver.accept(envelope, grants=second.chain)
    assert receiver.verdict() == ("intact", [])


def test_row_06_an_input_that_the_sender_leaves_out(
    sender: Any, receiver: Any, party: Callable[..., Any]
) -> None:
    """Nobody can prove it from the message alone; whoever gave the input holds the sender's word that it had it."""
    giver = party("giver", trusts=[sender])
    sender.trust(giver)
    given = giver.seal("input", to="sender", taint=["web"])
    accepted = sender.accept(given, "input")
    kept = giver.take(accepted.answer)
    hidden = sender.sign(sender.message(taint=None))
    receiver.accept(hidden)
    assert (kept.status, kept.handoff) == ("accepted", given.digest)
    assert kept.sender.key == sender.key.keyid
    assert giver.verdict() == ("intact", [])
    # Left to itself the library leaves nothing out, in its parents and in its taint.
    honest = statements.parse(sender.seal().payload).predicate
    assert isinstance(honest, statements.Handoff)
    assert [one.digest for one in honest.parents] == [given.digest]
    assert honest.taint == ["web"]


def test_row_23_a_cycle_of_ancestors(sender: Any, receiver: Any) -> None:
    """A digest cannot be cited before it is known, so a loop of grants has a link that is not there."""
    authority = {"allow": ["repo:read"], "expires": 4_000_000_000_000, "maxDepth": 5}
    first = sender.sign(sender.message(to="sender", authority=authority | {"from": "0" * 64}))
    second = sender.sign(
        sender.message(to="sender", authority=authority | {"from": first.digest, "maxDepth": 4})
    )
    closing = sender.sign(
        sender.message(to="sender", authority=authority | {"from": second.digest, "maxDepth": 3})
    )
    last = sender.sign(sender.message(authority=authority | {"from": closing.digest, "maxDepth": 2}))
    assert receiver.refuses(last, grants=[first, second, closing]) == "CF-HANDOFF-022"
    assert receiver.refuses(last, grants=[closing, second, closing]) == "CF-HANDOFF-022"


# -- the form ---------------------------------------------------------------------------------------------------------


def test_row_12_one_signed_thing_taken_for_another(sender: Any, receiver: Any) -> None:
    envelope = sender.seal()
    assert receiver.refuses({**envelope.to_dict(), "payloadType": "application/json"}) == "CF-HANDOFF-010"
    # Statements of other kinds, rightly signed.
    receipt = {
        "checks": [],
        "handoff": envelope.digest,
        "issued": 1,
        "sender": {"actor": "sender", "key": sender.key.keyid},
        "status": "accepted",
    }
    assert receiver.refuses(sender.sign(receipt, kind=statements.RECEIPT)) == "CF-HANDOFF-012"
    assert receiver.refuses(sender.sign_bytes(Envelope.parse(sender.policy_of()).payload)) == "CF-HANDOFF-012"
    other = resigned(sender, envelope, lambda data: data.replace(b"handoff:v1", b"gift:v1"))
    assert receiver.refuses(other) == "CF-HANDOFF-012"
    # The right kind about another payload than it says.
    value = canonical.loads(envelope.payload)
    value["subject"][0]["digest"]["counterfoil-v1"] = "0" * 64
    assert receiver.refuses(sender.sign_bytes(canonical.dumps(value))) == "CF-HANDOFF-012"
    # A signature over a checkpoint is none over a statement, and the other way round.
    origin = f"{sender.key.keyid}/{'a' * 16}"
    text = notes.Checkpoint(origin, 1, bytes(32)).to_text()
    raw = base64.b64encode(sender.key.sign(text.encode())).decode()
    spoofed = {**envelope.to_dict(), "payload": base64.b64encode(text.encode()).decode()}
    spoofed["signatures"] = [{"keyid": sender.key.keyid, "sig": raw}]
    assert receiver.refuses(spoofed | {}) == "CF-HANDOFF-011"
    with pytest.raises(NoteError):
        notes.sign_note(pae(PAYLOAD_TYPE, envelope.payload).decode(), "DSSEv1 28", sender.key)


def test_row_15_a_key_twice(sender: Any, receiver: Any) -> None:
    envelope = sender.seal()
    twice = resigned(
        sender, envelope, lambda data: data.replace(b'"exact":true', b'"exact":true,"exact":true')
    )
    assert receiver.refuses(twice) == "CF-HANDOFF-012"
    whole = envelope.to_bytes().decode()
    assert receiver.refuses(whole[:-1] + ',"payload":"e30="}') == "CF-HANDOFF-010"
    for text in ("\ufeff" + whole, whole + "{}", whole.replace("payloadType", "payload\\u0000Type")):
        assert receiver.refuses(text) == "CF-HANDOFF-010"
    policy = sender.policy_of().decode()
    with pytest.raises(TrustError, match="CF-TRUST-002"):
        counterfoil.trust.parse(policy[:-1] + ',"payload":"e30="}')


@pytest.mark.parametrize(
    ("name", "alike"),
    [
        ("receiver", "re\u0441eiver"),
        ("receiver", "receiver\u200b"),
        ("receiver", "Receiver"),
        ("caf\u00e9", unicodedata.normalize("NFD", "caf\u00e9")),
    ],
)
def test_row_16_names_that_look_alike(sender: Any, party: Callable[..., Any], name: str, alike: str) -> None:
    receiver = party(name, trusts=[sender])
    assert receiver.refuses(sender.seal(to=alike)) == "CF-HANDOFF-014"
    receiver.accept(sender.seal(to=name))
    impostor = party(alike)
    receiver.policy = receiver.policy_of(
        impostor, agents=[{"id": name, "keys": [impostor.key.keyid], "threshold": 1}]
    )
    receiver.close()
    assert receiver.refuses(impostor.seal(to=name)) == "CF-HANDOFF-020"


def issued(sender: Any, number: str) -> Envelope:
    """A handoff that says it was issued at this number, spelled like this."""
    envelope = sender.sign(sender.message(issued=1))
    return resigned(
        sender, envelope, lambda data: data.replace(b'"issued":1,', f'"issued":{number},'.encode())
    )


def test_row_17_numbers_that_readers_read_differently(sender: Any, receiver: Any) -> None:
    for number in ("9007199254740993", "1.0", "1e3", "-0", "1.5", "00001", "9" * 400):
        assert receiver.refuses(issued(sender, number)) == "CF-HANDOFF-012"


def test_row_18_numbers_that_are_none(sender: Any, receiver: Any) -> None:
    whole = sender.seal().to_bytes().decode()
    for number in ("NaN", "Infinity", "-Infinity", "1e999"):
        assert receiver.refuses(issued(sender, number)) == "CF-HANDOFF-012"
        assert receiver.refuses(whole[:-1] + f',"x":{number}}}') == "CF-HANDOFF-010"


def test_row_19_more_than_anybody_should_read(sender: Any, receiver: Any) -> None:
    envelope = sender.seal()
    whole = envelope.to_dict()
    (signature,) = whole["signatures"]
    hostile: list[Any] = [
        {**whole, "signatures": [signature | {"keyid": f"{n}"} for n in range(100_000)]},
        {**whole, "payload": "QQ" * (16 << 20)},
        json.dumps({**whole, "x": "x" * (16 << 20)}),
        envelope.to_bytes().decode()[:-1] + ',"x":' + "[" * 100_000 + "]" * 100_000 + "}",
        envelope.to_bytes().decode()[:-1] + ',"x":' + "9" * 1_000_000 + "}",
    ]
    for one in hostile:
        tracemalloc.start()
        try:
            assert receiver.refuses(one) == "CF-HANDOFF-010"
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert peak < 8 << 20  # refused before the bulk of it was copied
    many = [{"digest": f"{n:064x}", "rel": "data"} for n in range(10_000)]
    value = canonical.loads(envelope.payload)
    value["predicate"]["parents"] = many
    with pytest.raises(counterfoil.CounterfoilError, match="CF-DSSE-001"):
        sender.sign_bytes(canonical.dumps(value))
    value["predicate"]["parents"] = many[:100]
    assert receiver.refuses(sender.sign_bytes(canonical.dumps(value))) == "CF-HANDOFF-012"
    assert receiver.verdict() == ("intact", [])


# -- the signature ----------------------------------------------------------------------------------------------------


def test_row_11_another_algorithm_than_the_key_s(sender: Any, receiver: Any) -> None:
    envelope = sender.seal()
    raw = sender.key.public.raw
    mac = hmac.digest(raw, pae(PAYLOAD_TYPE, envelope.payload), hashlib.sha256)
    for name in ("none", "HS256", "ES256"):
        forged = spliced(envelope, sig=base64.b64encode(mac).decode(), alg=name) | {"alg": name}
        assert receiver.refuses(forged) == "CF-HANDOFF-011"
    listed = [sender.listed(alg="none")]
    with pytest.raises(TrustError, match="CF-TRUST-002"):
        counterfoil.trust.parse(sender.policy_of(keys=listed))
    # What an envelope says about algorithms changes nothing.
    receiver.accept(spliced(envelope, alg="none") | {"alg": "none", "crit": ["alg"]})


def test_row_20_a_signature_with_the_order_added(sender: Any, receiver: Any) -> None:
    envelope = sender.seal()
    sig = envelope.signatures[0].sig
    other = int.from_bytes(sig[32:], "little") + ORDER
    malleable = base64.b64encode(sig[:32] + other.to_bytes(32, "little")).decode()
    assert receiver.refuses(spliced(envelope, sig=malleable)) == "CF-HANDOFF-011"


def test_row_21_a_key_that_signs_everything(sender: Any, receiver: Any) -> None:
    prefix = bytes.fromhex("302a300506032b6570032100")
    weak = prefix + b"\1" + bytes(31)
    fingerprint = hashlib.sha256(weak).hexdigest()
    with receiver.lab.at(receiver.home):
        with pytest.raises(WeakKeyError, match="CF-KEYS-031"):
            keys.Keyring.load().pin(fingerprint, spki=weak)
        keys.Keyring.load().pin(fingerprint)  # by its fingerprint nobody can see what it is
    forged = spliced(
        sender.seal(),
        keyid=fingerprint,
        sig=base64.b64encode(b"\1" + bytes(63)).decode(),
        spki=base64.b64encode(weak).decode(),
    )
    assert receiver.refuses(forged) == "CF-HANDOFF-011"
    listed = sender.listed(key=fingerprint, spki=base64.b64encode(weak).decode())
    with pytest.raises(TrustError, match="CF-TRUST-003"):
        counterfoil.trust.parse(
            sender.policy_of(keys=sorted([sender.listed(), listed], key=lambda k: k["key"]))
        )


def test_row_22_two_envelopes_of_one_statement(sender: Any, receiver: Any) -> None:
    envelope = sender.seal()
    again = envelope.cosigned(receiver.key)
    bare = spliced(envelope)
    del bare["signatures"][0]["spki"]
    assert again.to_bytes() != envelope.to_bytes()
    assert again.digest == envelope.digest
    receiver.accept(again)
    for other in (envelope, again, bare):
        assert receiver.refuses(other) in ("CF-HANDOFF-018", "CF-HANDOFF-011")
    assert receiver.refuses(envelope) == "CF-HANDOFF-018"


def test_row_24_a_key_that_speaks_for_itself(sender: Any, receiver: Any, party: Callable[..., Any]) -> None:
    attacker = party("sender", home="attacker")
    attacker.evidence = receiver.lab.root / "evidence of the attacker"
    forged = attacker.seal()
    assert receiver.refuses(forged) == "CF-HANDOFF-011"
    spki = base64.b64encode(attacker.key.spki).decode()
    jwk = {"crv": "Ed25519", "kty": "OKP", "x": base64.b64encode(attacker.key.public.raw).decode()}
    for extra in ({"spki": spki}, {"jwk": jwk}, {"jku": "https://keys.example/"}, {"cert": spki}):
        assert receiver.refuses(spliced(forged, keyid=sender.key.keyid, **extra)) == "CF-HANDOFF-011"
    receiver.policy = receiver.policy_of(sender)
    receiver.close()
    assert receiver.refuses(forged) == "CF-HANDOFF-011"
    assert receiver.refuses(spliced(forged, keyid=sender.key.keyid, spki=spki)) == "CF-HANDOFF-011"


def test_row_25_a_clock_that_lies(sender: Any, receiver: Any, party: Callable[..., Any]) -> None:
    def at(shift: int, **more: Any) -> Envelope:
        now = sender.message()["issued"]
        return sender.sign(sender.message(issued=now + shift, expires=now + shift + 60_000, **more))

    assert receiver.refuses(at(120_000)) == "CF-HANDOFF-015"
    assert receiver.refuses(at(-180_000)) == "CF-HANDOFF-015"
    receiver.accept(at(30_000))
    giver = party("giver")
    receiver.trust(giver)
    grant = granted(giver, "sender")
    authority = {"allow": ["repo:read"], "expires": 1, "from": grant.digest, "maxDepth": 0}
    now = sender.message()["issued"]
    old = sender.message(issued=now - 90_000, authority=authority | {"expires": now + 60_000})
    assert receiver.refuses(sender.sign(old), grants=[grant]) == "CF-HANDOFF-022"
