"""A fault that many entries share is found in each of them: no form is learnt from an entry with a fault."""

from __future__ import annotations

from typing import Any

import pytest
from forging import handoff

from counterfoil import moulds, records

REFERENCE = {"media": "text/plain;charset=utf-8", "sha256": "1" * 64, "size": 1}
ABSENT = {"digest": "0" * 64, "rel": "data"}


@pytest.mark.parametrize("often", [1, 24])
@pytest.mark.parametrize(
    ("context", "code"),
    [
        ({"handoffs": REFERENCE}, "CF-VERIFY-011"),
        ({"handoffs": [REFERENCE]}, "CF-VERIFY-011"),
        ({"handoffs": ["0" * 64]}, "CF-VERIFY-011"),
        ({"handoffs": [7]}, "CF-VERIFY-011"),
        ({"handoffs": {}}, "CF-VERIFY-011"),
        ({"parents": [REFERENCE]}, "CF-VERIFY-045"),
        ({"parents": [ABSENT | {"digest": REFERENCE}]}, "CF-VERIFY-045"),
        ({"parents": [ABSENT | {"rel": REFERENCE}]}, "CF-VERIFY-045"),
        ({"parents": [ABSENT | {"rel": ""}]}, "CF-VERIFY-045"),
        ({"parents": [ABSENT]}, "CF-VERIFY-045"),
        ({"parents": "text"}, "CF-VERIFY-045"),
        ({"note": REFERENCE}, "CF-VERIFY-010"),
        ({"call": "c", "phase": "end"}, "CF-VERIFY-022"),
        ({"call": "c", "phase": "end", "run": "r"}, "CF-VERIFY-022"),
    ],
    ids=str,
)
def test_records(
    lab: Any, context: dict[str, Any], code: str, often: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(moulds, "often", often)
    recorder = lab.recorder()
    root = recorder.start("invoke_workflow", "app", actor=("app",))
    recorder.end(root)
    context = dict(context)
    phase = context.pop("phase", "point")
    for number in range(60):
        entry = records.build(
            {"name": f"n{number}", "op": "custom", "phase": phase}, {"at": number} | context
        )
        recorder.open().entry(entry)
    recorder.close()
    found = [one.code for one in lab.verify().findings]
    assert found.count(code) == 60


@pytest.mark.parametrize("often", [1, 24])
@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"parents": [ABSENT]}, "CF-VERIFY-045"),
        ({"sender": {"actor": "b", "key": "the actor's"}}, "CF-VERIFY-044"),
        ({"payload": {"media": "text/plain;charset=utf-8", "size": 1}}, "CF-VERIFY-046"),
        ({"own": {"origin": "the log's", "root": "0" * 64, "size": 2}}, "CF-VERIFY-047"),
    ],
    ids=str,
)
def test_handoffs(
    lab: Any, changes: dict[str, Any], code: str, often: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(moulds, "often", often)
    recorder = lab.recorder()
    root = recorder.start("invoke_workflow", "app", actor=("app",))
    recorder.end(root)
    key = recorder.actor_key(("a",))
    changes = dict(changes)
    if "sender" in changes:
        changes["sender"] = {"actor": "b", "key": key.keyid}
    if "own" in changes:
        changes["own"] = changes["own"] | {"origin": recorder.open().origin}
    for number in range(60):
        recorder.open().entry(handoff(recorder, root, key, issued=number, **changes))
    recorder.close()
    found = [one.code for one in lab.verify().findings]
    assert found == [code] * 60
