"""Statements keep to their profile: one meaning per digest, nothing unknown, nothing long."""

from __future__ import annotations

import json
from typing import Any

import pytest

from counterfoil import canonical, statements
from counterfoil.errors import StatementError

HANDOFF: dict[str, Any] = {
    "content": {"basis": "sealed", "from": ["a"], "kind": "edge", "payload": "0" * 64, "to": "b"},
    "exact": True,
    "issued": 1,
    "parents": [{"digest": "1" * 64, "rel": "data"}],
    "payload": {"media": "m", "size": 1},
    "proof": "recorded",
    "sender": {"actor": "a", "key": "2" * 64},
}
SUBJECT = {"digest": {"counterfoil-v1": "0" * 64}, "name": "payload"}
HEAD = {"origin": "o", "root": "3" * 64, "size": 1}


def made(predicate: Any = HANDOFF, subject: Any = SUBJECT, kind: str = statements.HANDOFF) -> bytes:
    return canonical.dumps(
        {"_type": statements.TYPE, "predicate": predicate, "predicateType": kind, "subject": [subject]}
    )


def refused(payload: bytes) -> str:
    with pytest.raises(StatementError) as caught:
        statements.parse(payload)
    return caught.value.code


def test_a_statement_reads_as_it_was_built() -> None:
    payload = statements.build(statements.HANDOFF, SUBJECT, HANDOFF)
    assert payload == made()
    parsed = statements.parse(payload)
    assert isinstance(parsed.predicate, statements.Handoff)
    assert parsed.predicate.content.senders == ["a"]
    assert parsed.predicate.model_dump(by_alias=True, exclude_none=True) == HANDOFF
    full = HANDOFF | {
        "audience": "b",
        "call": "c",
        "expires": 2,
        "nonce": "0" * 32,
        "own": HEAD,
        "seen": [HEAD],
        "run": "r",
        "reason": "why",
        "parentSet": {"count": 1, "sha256": "4" * 64, "size": 1},
    }
    full["content"] = full["content"] | {"parents": [{"address": "x", "rel": "control"}]}
    assert isinstance(statements.parse(made(full)).predicate, statements.Handoff)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"extra": 1}, "CF-STMT-005"),
        ({"exact": 1}, "CF-STMT-005"),
        ({"issued": "1"}, "CF-STMT-005"),
        ({"issued": -1}, "CF-STMT-005"),
        ({"issued": None}, "CF-STMT-006"),
        ({"issued": 1.5}, "CF-STMT-006"),
        ({"proof": "guessed"}, "CF-STMT-005"),
        ({"parents": [{"digest": "1" * 64, "rel": "data"}] * 17}, "CF-STMT-005"),
        ({"parents": [{"digest": "1" * 63, "rel": "data"}]}, "CF-STMT-005"),
        ({"parents": [{"digest": "1" * 64 + "\n", "rel": "data"}]}, "CF-STMT-005"),
        ({"sender": {"actor": "", "key": "2" * 64}}, "CF-STMT-005"),
        ({"sender": {"actor": "a" * 1025, "key": "2" * 64}}, "CF-STMT-005"),
        ({"nonce": "0" * 31}, "CF-STMT-005"),
        ({"own": HEAD | {"size": 0}}, "CF-STMT-005"),
        ({"content": HANDOFF["content"] | {"from": []}}, "CF-STMT-005"),
        ({"content": HANDOFF["content"] | {"kind": "other"}}, "CF-STMT-005"),
        ({"reason": "x" * 9000}, "CF-STMT-001"),
        ({"reason": [[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]}, "CF-STMT-002"),
    ],
    ids=str,
)
def test_members_outside_the_profile(change: dict[str, Any], code: str) -> None:
    assert refused(made(HANDOFF | change)) == code


def test_every_member_is_needed() -> None:
    for name in HANDOFF:
        assert refused(made({key: value for key, value in HANDOFF.items() if key != name})) == "CF-STMT-005"


def test_the_frame() -> None:
    value = canonical.loads(made())
    for changed, code in (
        (value | {"_type": "https://in-toto.io/Statement/v0.1"}, "CF-STMT-003"),
        (value | {"more": 1}, "CF-STMT-003"),
        ({key: one for key, one in value.items() if key != "subject"}, "CF-STMT-003"),
        (value | {"subject": []}, "CF-STMT-005"),
        (value | {"subject": [SUBJECT, SUBJECT]}, "CF-STMT-005"),
        (value | {"subject": SUBJECT}, "CF-STMT-005"),
        (value | {"predicateType": "urn:counterfoil:handoff:v2"}, "CF-STMT-004"),
        (value | {"predicateType": 5}, "CF-STMT-004"),
        (value | {"predicate": []}, "CF-STMT-005"),
        ([], "CF-STMT-003"),
    ):
        assert refused(canonical.dumps(changed)) == code
    assert refused(made(kind=statements.RECEIPT)) == "CF-STMT-005"
    assert refused(made(subject={"digest": {"sha256": "0" * 64}, "name": "payload"})) == "CF-STMT-005"


def test_the_text() -> None:
    value = canonical.loads(made())
    for text in (
        json.dumps(value).encode(),
        made() + b"\n",
        b"\xef\xbb\xbf" + made(),
        made().replace(b'"exact":true', b'"exact":true,"exact":true'),
        made().replace(b'"issued":1', b'"issued":1.0'),
        made().replace(b'"issued":1', b'"issued":9007199254740993'),
        b"\xff",
        b"",
    ):
        assert refused(text) == "CF-STMT-002"
    assert refused(b" " * 8193) == "CF-STMT-001"


def test_no_message_repeats_what_was_given() -> None:
    with pytest.raises(StatementError) as caught:
        statements.parse(made(HANDOFF | {"proof": "sk-secret-text"}))
    assert "sk-secret" not in f"{caught.value} {caught.value.where} {caught.value.hint}"


def test_what_is_too_long_to_build() -> None:
    with pytest.raises(StatementError) as caught:
        statements.build(statements.HANDOFF, SUBJECT, HANDOFF | {"reason": "x" * 9000})
    assert (caught.value.code, bool(caught.value.hint)) == ("CF-STMT-001", True)


def test_parents_inline_or_apart() -> None:
    parents = [{"digest": f"{number:064x}", "rel": "data"} for number in range(5)]
    inline, listed = statements.split_parents([*reversed(parents), parents[0]], 5)
    assert (inline, listed) == (parents, None)
    inline, listed = statements.split_parents(parents, 4)
    assert inline == []
    assert listed is not None
    assert [one.digest for one in statements.parse_parents(listed)] == [one["digest"] for one in parents]
    for bad in (b"", b"{}", b"[1]", b'[{"digest":"x","rel":"data"}]', b" []", b'[{"rel":"data"}]', b"\xff"):
        with pytest.raises(StatementError) as caught:
            statements.parse_parents(bad)
        assert caught.value.code == "CF-STMT-007"
