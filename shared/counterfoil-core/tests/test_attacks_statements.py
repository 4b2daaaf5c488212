"""Statements and records that the identity's log holds, by somebody else, are found out."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable
from typing import Any

import pytest
from forging import chunk, codes, handoff, item, items, nowhere_intact

import counterfoil
from counterfoil import canonical, keys, log, records, segments, statements
from counterfoil.dsse import Envelope


def entered(lab: Any, make: Callable[[Any, Any], bytes]) -> Any:
    """Evidence whose writer was made to take one more entry: what code inside the process could do."""
    recorder = lab.recorder()
    root = recorder.start("invoke_workflow", "app", actor=("app",))
    recorder.end(root, response=recorder.value("x" * 300))
    recorder.open().entry(make(recorder, root))
    recorder.close()
    return lab.verify()


def binding(
    recorder: Any, actor: str, key: keys.SigningKey, signer: keys.SigningKey, changes: Any = None
) -> bytes:
    predicate = {
        "actor": actor,
        "issued": 1,
        "key": key.keyid,
        "origin": recorder.open().origin,
        "spki": base64.b64encode(key.spki).decode(),
    }
    subject = {"digest": {"sha256": key.keyid}, "name": actor}
    return Envelope.sign(
        statements.build(statements.BINDING, subject, predicate | (changes or {})), signer
    ).to_bytes()


def test_a_handoff_by_a_key_that_nobody_bound(lab: Any) -> None:
    result = entered(lab, lambda recorder, root: handoff(recorder, root, keys.SigningKey.generate()))
    assert (result.verdict, codes(result)) == ("broken", {"CF-DSSE-010"})


def test_a_handoff_appended_after_the_last_checkpoint(valid: Any) -> None:
    (path,) = valid.segments()
    last = [canonical.loads(data) for kind, data in items(path) if kind == segments.ENTRY][-1]
    prev = hashlib.sha256(canonical.dumps(last)).hexdigest()
    body = b'{"content":{"op":"custom","phase":"point"},"context":{},"v":1}'
    data = log.entry_bytes(body, last["i"] + 1, prev)
    path.write_bytes(path.read_bytes() + chunk(item(segments.ENTRY, data)))
    assert nowhere_intact(valid)[:2] == ("incomplete", "incomplete")


def test_a_binding_by_an_actor_s_key(lab: Any) -> None:
    def make(recorder: Any, root: Any) -> bytes:
        key = recorder.actor_key(("a",))
        return binding(recorder, "b", keys.SigningKey.generate(), key)

    result = entered(lab, make)
    assert (result.verdict, codes(result)) == ("broken", {"CF-VERIFY-043"})


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"key": "0" * 64}, "CF-STMT-005"),
        ({"actor": "b"}, "CF-STMT-005"),
        ({"origin": "0" * 64 + "/0123456789abcdef"}, "CF-VERIFY-043"),
        ({"spki": "AAAA"}, "CF-VERIFY-043"),
        ({"spki": base64.b64encode(keys.SigningKey.generate().spki).decode()}, "CF-VERIFY-043"),
    ],
    ids=["another key", "another actor", "another log", "no key", "the key of somebody else"],
)
def test_a_binding_of_the_identity_that_does_not_fit(lab: Any, changes: dict[str, str], code: str) -> None:
    def make(recorder: Any, root: Any) -> bytes:
        return binding(recorder, "a", keys.SigningKey.generate(), recorder.open().identity, changes)

    result = entered(lab, make)
    assert (result.verdict, codes(result)) == ("broken", {code})


def test_a_binding_of_the_identity_key_to_an_actor(lab: Any) -> None:
    def make(recorder: Any, root: Any) -> bytes:
        own = recorder.open().identity
        return binding(recorder, "a", own, own)

    assert codes(entered(lab, make)) == {"CF-VERIFY-043"}


def test_a_handoff_by_the_key_of_another_actor(lab: Any) -> None:
    result = entered(lab, lambda recorder, root: handoff(recorder, root, recorder.actor_key(("other",))))
    assert (result.verdict, codes(result)) == ("broken", {"CF-VERIFY-044"})


def test_a_handoff_by_the_identity_itself(lab: Any) -> None:
    result = entered(lab, lambda recorder, root: handoff(recorder, root, recorder.open().identity))
    assert (result.verdict, codes(result)) == ("broken", {"CF-VERIFY-044"})


def test_an_actor_s_key_of_an_earlier_session(lab: Any) -> None:
    recorder = lab.recorder()
    key = recorder.actor_key(("a",))
    recorder.close()
    result = entered(lab, lambda recorder, root: handoff(recorder, root, key))
    assert (result.verdict, codes(result)) == ("broken", {"CF-DSSE-010"})


def test_a_handoff_that_names_another_key_than_its_own(lab: Any) -> None:
    def make(recorder: Any, root: Any) -> bytes:
        key = recorder.actor_key(("a",))
        return handoff(recorder, root, key, sender={"actor": "a", "key": "0" * 64})

    assert codes(entered(lab, make)) == {"CF-VERIFY-041"}


def test_a_handoff_from_parents_that_are_not_there(lab: Any) -> None:
    def make(recorder: Any, root: Any) -> bytes:
        return handoff(
            recorder, root, recorder.actor_key(("a",)), parents=[{"digest": "0" * 64, "rel": "data"}]
        )

    assert codes(entered(lab, make)) == {"CF-VERIFY-045"}

    def many(recorder: Any, root: Any) -> bytes:
        listed = {"count": 20, "sha256": "0" * 64, "size": 9}
        return handoff(recorder, root, recorder.actor_key(("a",)), parents=[], parentSet=listed)

    assert codes(entered(lab, many)) == {"CF-VERIFY-045"}


def test_a_list_of_parents_that_are_not_there(lab: Any) -> None:
    def make(recorder: Any, root: Any) -> bytes:
        data = canonical.dumps([{"digest": f"{number:064x}", "rel": "data"} for number in range(20)])
        sha256 = hashlib.sha256(data).hexdigest()
        recorder.open().blob(sha256, data)
        listed = {"count": 20, "sha256": sha256, "size": len(data)}
        return handoff(recorder, root, recorder.actor_key(("a",)), parents=[], parentSet=listed)

    assert codes(entered(lab, make)) == {"CF-VERIFY-045"}


def test_a_handoff_whose_payload_is_not_there(lab: Any) -> None:
    def make(recorder: Any, root: Any) -> bytes:
        key = recorder.actor_key(("a",))
        content = {"basis": "sealed", "from": ["a"], "kind": "message", "payload": "0" * 64, "to": "b"}
        return handoff(recorder, root, key, content=content)

    assert codes(entered(lab, make)) == {"CF-VERIFY-046"}


def test_a_handoff_that_claims_another_head_of_its_log(lab: Any) -> None:
    def make(recorder: Any, root: Any) -> bytes:
        own = {"origin": recorder.open().origin, "root": "0" * 64, "size": 2}
        return handoff(recorder, root, recorder.actor_key(("a",)), own=own)

    assert codes(entered(lab, make)) == {"CF-VERIFY-047"}


def test_an_envelope_that_is_not_in_its_normal_form(lab: Any) -> None:
    def make(recorder: Any, root: Any) -> bytes:
        body = canonical.loads(handoff(recorder, root, recorder.actor_key(("a",))))
        return canonical.dumps(body | {"extra": 1})

    assert codes(entered(lab, make)) == {"CF-VERIFY-040"}


def test_a_record_that_cites_bytes_that_are_not_there(lab: Any) -> None:
    def missing(recorder: Any, root: Any) -> bytes:
        ref = {"media": "text/plain;charset=utf-8", "sha256": "0" * 64, "size": 1}
        return records.build({"op": "custom", "phase": "point", "request": ref}, {})

    assert codes(entered(lab, missing)) == {"CF-VERIFY-010"}

    def another_size(recorder: Any, root: Any) -> bytes:
        ref = recorder.value("x" * 300).to_dict()
        return records.build({"op": "custom", "phase": "point", "request": ref | {"size": 299}}, {})

    assert codes(entered(lab, another_size)) == {"CF-VERIFY-010"}

    def hollow(recorder: Any, root: Any) -> bytes:
        inner = {"$ref": {"media": "text/plain;charset=utf-8", "sha256": "1" * 64, "size": 1}}
        data = canonical.dumps({"a": inner})
        sha256 = hashlib.sha256(data).hexdigest()
        recorder.open().blob(sha256, data)
        ref = {"media": "application/vnd.counterfoil.value+json", "sha256": sha256, "size": len(data)}
        return records.build({"op": "custom", "phase": "point", "request": ref}, {})

    assert codes(entered(lab, hollow)) == {"CF-VERIFY-010"}


def test_a_text_that_looks_like_a_hollow_composite_harms_nobody(lab: Any) -> None:
    """A prompt may hold the text of a composite that is recorded as one later: that must not break the evidence."""
    recorder = lab.recorder()
    later = {"a": "b" * 300, "c": "d" * 300}
    text = recorder.capture.reduce(later)
    recorder.capture.forget()
    fresh = lab.root / "fresh"
    recorder.close()
    recorder = lab.recorder(fresh)
    root = recorder.start("invoke_workflow", "app", actor=("app",))
    sha256 = canonical.loads(text)["$ref"]["sha256"]
    composite = canonical.dumps(
        {name: {"$ref": recorder_reference(value)} for name, value in later.items()}
    ).decode()
    assert hashlib.sha256(composite.encode()).hexdigest() == sha256
    recorder.end(recorder.start("chat", "m", actor=("app",), parent=root, request=recorder.value(composite)))
    recorder.end(recorder.start("chat", "m", actor=("app",), parent=root, request=recorder.value(later)))
    recorder.end(root)
    recorder.close()
    result = lab.verify(fresh)
    assert (result.verdict, result.findings) == ("intact", [])
    reader = counterfoil.read(fresh)
    assert [reader.value(call.request) for call in reader.calls()[1:]] == [composite, later]


def recorder_reference(text: str) -> dict[str, Any]:
    return {
        "media": "text/plain;charset=utf-8",
        "sha256": hashlib.sha256(text.encode()).hexdigest(),
        "size": len(text),
    }
