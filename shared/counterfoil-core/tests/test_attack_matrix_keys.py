"""The attack matrix, rows about keys: stolen, backdated, counted twice, needed by nobody."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from counterfoil import trust
from counterfoil.dsse import Envelope
from counterfoil.errors import TrustError


def under(receiver: Any, policy: bytes) -> Any:
    """The receiver, going by a policy from now on."""
    receiver.close()
    receiver.policy = policy
    return receiver


def now(sender: Any) -> int:
    found = sender.message()["issued"]
    assert isinstance(found, int)
    return found


def test_row_08_a_stolen_key_used_now(sender: Any, receiver: Any, party: Callable[..., Any]) -> None:
    first = receiver.policy_of(sender)
    under(receiver, first).accept(sender.seal())
    # The next version says so: from then on nobody acts on what the thief signs.
    stolen = sender.listed(status="compromised", since=now(sender))
    both = sorted([receiver.listed(), stolen], key=lambda one: str(one["key"]))
    following = {"version": 2, "previous": Envelope.parse(first).digest}
    second = receiver.policy_of(sender, keys=both, **following)
    assert under(receiver, second).refuses(sender.seal()) == "CF-HANDOFF-020"
    # Or one key is not enough from the start, and the thief has but one.
    cosigner = party("cosigner")
    agents = sorted(
        (
            {"id": "receiver", "keys": [receiver.key.keyid], "threshold": 1},
            {"id": "sender", "keys": sorted([sender.key.keyid, cosigner.key.keyid]), "threshold": 2},
        ),
        key=lambda one: str(one["id"]),
    )
    third = receiver.policy_of(sender, cosigner, agents=agents, name="two-keys")
    assert under(receiver, third).refuses(sender.seal()) == "CF-HANDOFF-020"
    under(receiver, third).accept(sender.seal(cosigners=[cosigner.key]))


def test_row_09_a_stolen_key_used_for_the_past(sender: Any, receiver: Any) -> None:
    """What a time stamp would prove is open; until then nothing that such a key signed counts by its own word."""
    first = receiver.policy_of(sender)
    under(receiver, first).accept(sender.seal("old"), "old")
    since = now(sender) + 1000
    keys = [receiver.listed(), sender.listed(status="compromised", since=since)]
    changes = {
        "keys": sorted(keys, key=lambda one: str(one["key"])),
        "previous": Envelope.parse(first).digest,
    }
    second = receiver.policy_of(sender, version=2, **changes)
    backdated = sender.sign(sender.message(issued=since - 30_000))
    assert under(receiver, second).refuses(backdated) == "CF-HANDOFF-020"
    # In the evidence: before that time it may be genuine, and nobody can tell; after it, it is not.
    assert receiver.verdict(policy=second) == ("cannot-tell", ["CF-TRUST-053"])
    receiver.append(sender.sign(sender.message("new", issued=since)))
    assert receiver.verdict(policy=second) == ("broken", ["CF-TRUST-053", "CF-TRUST-052"])
    policy = trust.parse(second)
    assert policy.judge(sender.key.keyid, since - 1, proven=since - 1) == "valid"
    assert policy.judge(sender.key.keyid, since - 1, proven=since) == "unproven"


def test_row_09_a_superseded_key(sender: Any, receiver: Any) -> None:
    until = now(sender) + 3_600_000
    keys = [receiver.listed(), sender.listed(status="superseded", notAfter=until)]
    policy = receiver.policy_of(sender, keys=sorted(keys, key=lambda one: str(one["key"])))
    under(receiver, policy)
    assert receiver.refuses(sender.seal()) == "CF-HANDOFF-020"
    receiver.append(sender.seal())
    assert receiver.verdict(policy=policy) == ("cannot-tell", ["CF-TRUST-053"])


@pytest.mark.parametrize("ended", ["no", "superseded", "over", "not begun", "compromised"])
def test_row_09_of_a_threshold_only_keys_that_count_now(
    sender: Any, receiver: Any, party: Callable[..., Any], ended: str
) -> None:
    """Two signatures of which one is by a key that counts no more are one."""
    cosigner = party("cosigner")
    at = now(sender)
    changes: dict[str, dict[str, Any]] = {
        "no": {},
        "superseded": {"status": "superseded", "notAfter": at + 3_600_000},
        "over": {"notAfter": at - 600_000},
        "not begun": {"notBefore": at + 600_000},
        "compromised": {"status": "compromised", "since": at},
    }
    listed = [receiver.listed(), sender.listed(), cosigner.listed(**changes[ended])]
    agents = [
        {"id": "receiver", "keys": [receiver.key.keyid], "threshold": 1},
        {"id": "sender", "keys": sorted([sender.key.keyid, cosigner.key.keyid]), "threshold": 2},
    ]
    keys = sorted(listed, key=lambda one: str(one["key"]))
    under(receiver, receiver.policy_of(sender, cosigner, agents=agents, keys=keys))
    envelope = sender.seal(cosigners=[cosigner.key])
    if ended == "no":
        receiver.accept(envelope)
    else:
        assert receiver.refuses(envelope) == "CF-HANDOFF-020"


def test_row_13_one_key_counted_twice(sender: Any, receiver: Any, party: Callable[..., Any]) -> None:
    cosigner = party("cosigner")
    agents = sorted(
        (
            {"id": "receiver", "keys": [receiver.key.keyid], "threshold": 1},
            {"id": "sender", "keys": sorted([sender.key.keyid, cosigner.key.keyid]), "threshold": 2},
        ),
        key=lambda one: str(one["id"]),
    )
    policy = receiver.policy_of(sender, cosigner, agents=agents)
    envelope = sender.seal()
    whole = envelope.to_dict()
    (signature,) = whole["signatures"]
    for keyid in (sender.key.keyid.upper(), cosigner.key.keyid, "another"):
        twice = {**whole, "signatures": [signature, {**signature, "keyid": keyid}]}
        assert under(receiver, policy).refuses(twice) == "CF-HANDOFF-020"
    doubled = {**whole, "signatures": [signature, signature]}
    assert under(receiver, policy).refuses(doubled) == "CF-HANDOFF-010"
    # Nor does one key enter a policy under two names.
    spki = sender.listed()["spki"]
    alias = sorted([sender.listed(), sender.listed(key="f" * 64, spki=spki)], key=lambda one: str(one["key"]))
    with pytest.raises(TrustError, match="CF-TRUST-003"):
        trust.parse(sender.policy_of(keys=alias))
    # Nor does one admin sign a policy for two.
    both = {"keys": sorted([receiver.key.keyid, cosigner.key.keyid]), "threshold": 2}
    alone = json.loads(receiver.policy_of(admins=both))
    (first,) = alone["signatures"]
    alone["signatures"] = [first, {**first, "keyid": cosigner.key.keyid}]
    receiver.trust(cosigner, admin=True)
    with receiver.lab.at(receiver.home), pytest.raises(TrustError, match="CF-TRUST-004"):
        trust.load(json.dumps(alone).encode())
    with receiver.lab.at(receiver.home):
        trust.load(receiver.policy_of(admins=both, cosigners=[cosigner], name="both"))


def test_row_14_a_threshold_of_nothing(sender: Any, receiver: Any) -> None:
    for threshold in (0, -1, True, "1", 5):
        admins = {"keys": [receiver.key.keyid], "threshold": threshold}
        with pytest.raises(TrustError, match="CF-TRUST-002"):
            trust.parse(receiver.policy_of(admins=admins))
        agents = [{"id": "*", "keys": [receiver.key.keyid], "threshold": threshold}]
        with pytest.raises(TrustError, match="CF-TRUST-002"):
            trust.parse(receiver.policy_of(agents=agents))
    for listed in ([], None):
        with pytest.raises(TrustError, match="CF-TRUST-002"):
            trust.parse(receiver.policy_of(admins={"keys": listed or [], "threshold": 1}))


def test_no_cache_and_no_file_turns_verification_off(sender: Any, receiver: Any) -> None:
    """Whatever stands in the cache of signatures: a statement that nobody signed is not taken for signed."""
    receiver.accept(sender.seal())
    assert receiver.verdict() == ("intact", [])
    cache = receiver.home / "cache" / "signatures.sqlite"
    kept = cache.read_bytes()
    assert len(kept) > 4096
    forged = sender.seal("more").to_dict()
    forged["signatures"][0]["sig"] = sender.seal("other").to_dict()["signatures"][0]["sig"]
    receiver.append(Envelope.parse(forged))
    for content in (kept, b"", b"no database" * 1000, kept[: len(kept) // 2], bytes(len(kept)), None):
        cache.unlink(missing_ok=True)
        if content is not None:
            cache.write_bytes(content)
        for _ in range(2):
            assert receiver.verdict() == ("broken", ["CF-DSSE-011"])
