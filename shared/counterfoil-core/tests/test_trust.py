"""Trust policies: whom this machine believes, which version, and what it remembers of them."""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import counterfoil
from counterfoil import Allow, keys, policy_form, trust
from counterfoil.dsse import Envelope
from counterfoil.errors import CounterfoilError, HandoffError, KeyringError, TrustError


@pytest.fixture
def admin(party: Callable[..., Any]) -> Any:
    return party("admin")


@pytest.fixture
def user(party: Callable[..., Any], admin: Any) -> Any:
    one = party("user")
    assert one.key
    return one


def load(user: Any, policy: bytes, **more: Any) -> trust.Policy:
    with user.lab.at(user.home):
        return trust.load(policy, **more)


def refused(user: Any, policy: bytes, **more: Any) -> str:
    with pytest.raises(TrustError) as caught:
        load(user, policy, **more)
    assert caught.value.hint
    return caught.value.code


def digest(policy: bytes) -> str:
    return Envelope.parse(policy, limit=policy_form.MAX_ENVELOPE).digest


# -- who signs --------------------------------------------------------------------------------------------------------


def test_the_own_identity_signs_its_own_policy(user: Any) -> None:
    found = load(user, user.policy_of())
    assert (found.content.name, found.content.version) == ("test", 1)
    assert load(user, user.policy_of()).digest == found.digest


def test_only_an_admin_s_word_counts(user: Any, admin: Any) -> None:
    policy = admin.policy_of(user)
    assert refused(user, policy) == "CF-TRUST-004"
    user.trust(admin)  # pinned for its handoffs, not for its policies
    assert refused(user, policy) == "CF-TRUST-004"
    user.trust(admin, admin=True)
    load(user, policy)
    with user.lab.at(user.home):
        keys.Keyring.load().pin(admin.key.keyid, admin=False)
    assert refused(user, policy) == "CF-TRUST-004"
    # A pin that is made again for another reason keeps what it was.
    user.trust(admin, admin=True)
    with user.lab.at(user.home):
        assert keys.Keyring.load().pin(admin.key.keyid, note="by phone").admin
        assert admin.key.keyid in keys.Keyring.load().admins


def test_an_admin_that_the_policy_does_not_name(user: Any, admin: Any, party: Callable[..., Any]) -> None:
    other = party("other")
    user.trust(admin, other, admin=True)
    named = {"keys": [other.key.keyid], "threshold": 1}
    assert refused(user, admin.policy_of(admins=named)) == "CF-TRUST-004"
    load(user, other.policy_of(admins=named))


def test_as_many_admins_as_the_policy_asks_for(user: Any, admin: Any, party: Callable[..., Any]) -> None:
    other, stranger = party("other"), party("stranger")
    user.trust(admin, other, admin=True)
    named = {"keys": sorted([admin.key.keyid, other.key.keyid, stranger.key.keyid]), "threshold": 2}
    assert refused(user, admin.policy_of(admins=named)) == "CF-TRUST-004"
    # Somebody whom the policy calls an admin is none here.
    assert refused(user, admin.policy_of(admins=named, cosigners=[stranger])) == "CF-TRUST-004"
    load(user, admin.policy_of(admins=named, cosigners=[other, stranger]))


def test_a_changed_policy_is_signed_by_nobody(user: Any) -> None:
    policy = json.loads(user.policy_of(name="a"))
    policy["payload"] = json.loads(user.policy_of(name="b"))["payload"]
    assert refused(user, json.dumps(policy).encode()) == "CF-TRUST-004"


# -- which version ----------------------------------------------------------------------------------------------------


def test_an_older_version_is_not_believed_again(user: Any) -> None:
    first = user.policy_of()
    second = user.policy_of(version=2, previous=digest(first), roots=[])
    third = user.policy_of(version=3, previous=digest(second))
    load(user, first)
    load(user, second)
    load(user, second)
    assert refused(user, first) == "CF-TRUST-005"
    load(user, third)
    assert refused(user, second) == "CF-TRUST-005"
    load(user, user.policy_of(name="another"))  # of another name: nothing to do with it


def test_two_policies_of_one_version(user: Any) -> None:
    load(user, user.policy_of())
    assert refused(user, user.policy_of(roots=[])) == "CF-TRUST-006"


def test_a_version_that_does_not_follow(user: Any, admin: Any) -> None:
    user.trust(admin, admin=True)
    load(user, user.policy_of())
    assert refused(user, user.policy_of(version=2, previous="0" * 64)) == "CF-TRUST-007"
    # Another admin, pinned here as well, cannot take the policy over alone.
    taken = {"admins": {"keys": [admin.key.keyid], "threshold": 1}}
    assert refused(user, admin.policy_of(version=9, previous="0" * 64, **taken)) == "CF-TRUST-007"
    # Versions may be left out, as long as the admins of the last one known agree.
    over = admin.policy_of(version=9, previous="0" * 64, cosigners=[user], **taken)
    load(user, over)
    load(user, admin.policy_of(version=10, previous=digest(over), **taken))


def test_a_lower_threshold_needs_the_higher_one(user: Any, admin: Any) -> None:
    user.trust(admin, admin=True)
    two = {"keys": sorted([user.key.keyid, admin.key.keyid]), "threshold": 2}
    first = user.policy_of(admins=two, cosigners=[admin])
    load(user, first)
    lower = {"version": 2, "previous": digest(first), "admins": two | {"threshold": 1}}
    assert refused(user, user.policy_of(**lower)) == "CF-TRUST-007"
    load(user, user.policy_of(**lower, cosigners=[admin]))


def test_a_policy_of_tomorrow(user: Any) -> None:
    policy = user.policy_of(validFrom=1_000_000)
    assert refused(user, policy, now=900_000) == "CF-TRUST-008"
    load(user, policy, now=950_000)  # clocks differ by up to a minute


def test_what_is_remembered_is_damaged(user: Any) -> None:
    policy = user.policy_of()
    load(user, policy)
    (kept,) = (user.home / "policies").iterdir()
    whole = kept.read_bytes()
    for wrong in (b"", b"{}", whole[:-1], whole.replace(b'"policy":1', b'"policy":"1"'), b"[" * 100):
        kept.write_bytes(wrong)
        with pytest.raises(KeyringError, match="CF-KEYS-043"):
            load(user, policy)
    kept.unlink()
    load(user, policy)


def test_looking_makes_no_home(user: Any, tmp_path: Path) -> None:
    ring = keys.Keyring.of([], admins=[user.key.public])
    with user.lab.at(tmp_path / "nowhere"):
        trust.load(user.policy_of(), keyring=ring)
    assert not (tmp_path / "nowhere").exists()


# -- what is no policy ------------------------------------------------------------------------------------------------


def test_files_that_are_none(user: Any, tmp_path: Path) -> None:
    place = tmp_path / "policy.json"
    with pytest.raises(TrustError, match="CF-TRUST-001"):
        trust.read(place)
    with pytest.raises(TrustError, match="CF-TRUST-001"):
        trust.read(tmp_path)
    place.write_bytes(user.policy_of() + b" " * policy_form.MAX_ENVELOPE)
    with pytest.raises(TrustError, match="CF-TRUST-001"):
        trust.read(place)
    place.write_bytes(user.policy_of()[:-1])
    with pytest.raises(TrustError, match=r"CF-TRUST-002.*policy\.json"):
        trust.read(place)
    place.write_bytes(user.policy_of() + b"\n")
    assert trust.read(place).digest == trust.parse(user.policy_of()).digest


def test_nothing_but_a_trust_error_whatever_a_policy_holds(user: Any) -> None:
    """Every member replaced by every kind of value, signed again: read or refused, never anything else."""
    whole = user.policy_of(
        edges=[{"from": "a", "to": "b", "allow": ["x"], "purposes": ["p"], "maxDepth": 1, "ttlMs": 1}],
        roots=["a"],
        limits={"ttlMs": 1},
        time={"skewMs": 1},
    )
    predicate = json.loads(Envelope.parse(whole).payload)["predicate"]
    values: list[Any] = [
        None,
        0,
        -1,
        1,
        2**53,
        1.5,
        True,
        "",
        "a",
        "*",
        [],
        [[]],
        {},
        ["a", "a"],
        [None],
        "\x00",
    ]
    chosen = random.Random(5)
    places = [([], key) for key in predicate]
    places += [(["keys", 0], key) for key in predicate["keys"][0]]
    places += [(["agents", 0], key) for key in predicate["agents"][0]]
    places += [(["edges", 0], key) for key in predicate["edges"][0]]
    places += [(["admins"], "keys"), (["admins"], "threshold"), (["limits"], "ttlMs"), (["time"], "skewMs")]
    codes: set[str] = set()
    for path, key in places:
        for value in chosen.sample(values, 8):
            changed = json.loads(json.dumps(predicate))
            node = changed
            for step in path:
                node = node[step]
            node[key] = value
            codes.add(_outcome(changed))
    # CF-CANON: nobody could sign it.
    assert codes == {"read", "CF-TRUST-002", "CF-TRUST-003", "CF-CANON-002"}


def _outcome(predicate: dict[str, Any]) -> str:
    try:
        policy_form.build(predicate)
    except CounterfoilError as exc:
        return exc.code
    return "read"


# -- going by one -----------------------------------------------------------------------------------------------------


def test_a_sender_does_not_seal_what_its_policy_denies(user: Any, admin: Any) -> None:
    user.policy = user.policy_of(edges=[{"from": "user", "to": "admin"}])
    with pytest.raises(HandoffError, match="CF-HANDOFF-007"):
        user.seal(to="other")
    sealed = user.seal(to="admin", authority=Allow("x"), purpose="fun")
    told = counterfoil.trust.statements.parse(sealed.payload).predicate
    assert (told.policy, told.purpose) == (digest(user.policy), "fun")
    assert user.verdict(policy=user.policy) == ("intact", [])
    # What the policy said is in the log that cites it.
    assert counterfoil.read(user.evidence).blob(told.policy) == Envelope.parse(user.policy).payload
    user.policy = admin.policy_of()
    with pytest.raises(TrustError, match="CF-TRUST-004"):
        user.seal(to="admin")


def test_a_policy_for_one_acceptance(user: Any, admin: Any) -> None:
    envelope = admin.seal(to="user")
    assert user.refuses(envelope) == "CF-HANDOFF-011"
    with pytest.raises(TrustError, match="CF-TRUST-004"):
        user.accept(envelope, policy=admin.policy_of(user))
    policy = user.policy_of(admin)
    receipt = counterfoil.trust.statements.parse(
        user.accept(envelope, policy=policy).answer.payload
    ).predicate
    assert ("policy" in receipt.checks, receipt.policy) == (True, digest(policy))
    user.close()
    assert counterfoil.read(user.evidence).blob(receipt.policy) == Envelope.parse(policy).payload


def test_the_setting(user: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "policy.json"
    place.write_bytes(user.policy_of())
    monkeypatch.setenv("COUNTERFOIL_POLICY", str(place))
    with user.inside() as log:
        assert log.policy is not None
        assert log.policy.content.name == "test"
    place.write_bytes(b"{}")
    with pytest.raises(TrustError, match="CF-TRUST-002"):
        user.seal()
    user.close()
    with pytest.raises(TrustError, match="CF-TRUST-002"):
        user.seal()


def test_a_new_version_counts_without_a_restart(user: Any, admin: Any, tmp_path: Path) -> None:
    place = tmp_path / "policy.json"
    first = user.policy_of(admin)
    place.write_bytes(first)
    user.policy = place
    user.accept(admin.seal(to="user"))
    lost = admin.listed(status="compromised", since=0)
    listed = sorted([user.listed(), lost], key=lambda one: str(one["key"]))
    place.write_bytes(user.policy_of(admin, version=2, previous=digest(first), keys=listed))
    assert user.refuses(admin.seal(to="user")) == "CF-HANDOFF-020"
    for gone in (lambda: place.write_bytes(first), place.unlink):
        gone()
        with pytest.raises(TrustError):
            user.accept(admin.seal(to="user"))


def test_a_policy_that_is_not_believed_turns_nothing_off(user: Any, admin: Any) -> None:
    admin.trust(user)
    user.seal(to="admin")
    user.close()
    admin.append(admin.sign(admin.message()))
    assert admin.verdict(policy=user.policy_of(admin)) == ("cannot-tell", ["CF-TRUST-004"])
    forged = admin.seal(to="user").to_dict()
    forged["signatures"][0]["sig"] = "A" * 86 + "=="
    admin.append(Envelope.parse(forged))
    assert admin.verdict(policy=user.policy_of(admin)) == ("broken", ["CF-TRUST-004", "CF-DSSE-011"])
    with pytest.raises(TrustError, match="CF-TRUST-002"):
        admin.verify(policy=b"{}")


def test_the_agent_that_decides_is_the_closest(user: Any, admin: Any) -> None:
    entries = [
        {"id": "*", "keys": [admin.key.keyid], "threshold": 1},
        {"id": "team/*", "keys": [user.key.keyid], "threshold": 1},
        {"id": "team/a/*", "keys": [admin.key.keyid], "threshold": 1},
        {"id": "team/a/b", "keys": [user.key.keyid], "threshold": 1},
    ]
    policy = trust.parse(user.policy_of(admin, agents=entries))
    found = {
        actor: entry.id
        for actor in ("team", "team/x", "team/a", "team/a/x", "team/a/b", "team/a/b/c", "teams/x", "*", "")
        if (entry := policy.agent(actor)) is not None
    }
    assert found == {
        **{"team": "*", "team/x": "team/*", "team/a": "team/*", "team/a/x": "team/a/*"},
        **{"team/a/b": "team/a/b", "team/a/b/c": "team/a/*", "teams/x": "*", "*": "*", "": "*"},
    }


def test_a_large_policy(user: Any) -> None:
    made = [keys.SigningKey.generate() for _ in range(600)]
    listed = sorted(
        [user.listed(), *(user.listed(key=one.keyid, spki=_spki(one)) for one in made)],
        key=lambda one: str(one["key"]),
    )
    policy = user.policy_of(keys=listed)
    assert len(policy) > 150_000
    found = load(user, policy)
    assert found.keyring.get(made[0].keyid) == made[0].public
    edges = [{"from": f"{n:0200d}", "to": "*"} for n in range(1400)]
    with pytest.raises(CounterfoilError, match="CF-STMT-001"):
        user.policy_of(edges=edges)


def _spki(key: keys.SigningKey) -> str:
    return base64.b64encode(key.spki).decode()
