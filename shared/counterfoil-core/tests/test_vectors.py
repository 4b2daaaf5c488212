"""The golden vectors hold for this implementation, and the script beside them makes them again byte for byte."""

from __future__ import annotations

import base64
import importlib.util
import json
import os
import struct
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from golden import (
    CANONICAL,
    FILES,
    RECORD,
    REFERENCES,
    STATEMENT,
    VALUES,
    VECTORS,
    code_of,
    load,
    named,
    public,
    signing,
)

import counterfoil
from counterfoil import (
    canonical,
    digest,
    dsse,
    keys,
    log,
    patterns,
    policy_form,
    records,
    statements,
    tree,
    trust,
    values,
)
from counterfoil.capture import Capture

# -- the script -------------------------------------------------------------------------------------------------------


def test_the_script_makes_the_committed_files_again(tmp_path: Path) -> None:
    script = [sys.executable, str(VECTORS / "make.py")]
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    subprocess.run([*script, "--to", str(tmp_path)], check=True, env=environment, timeout=120)
    made = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert made == {path.name: path.read_bytes() for path in VECTORS.glob("*.json")}
    assert sorted(made) == [f"{name}.json" for name in FILES]
    compared = subprocess.run(script, capture_output=True, env=environment, timeout=120, check=False)
    assert (compared.returncode, compared.stderr) == (0, b"")


def test_the_script_does_not_use_what_is_tested_against_it() -> None:
    sources = [VECTORS / "make.py", *(VECTORS / "making").glob("*.py")]
    assert len(sources) > 10
    assert [path.name for path in sources if "import counterfoil" in path.read_text(encoding="utf-8")] == []
    assert [path.name for path in sources if "from counterfoil" in path.read_text(encoding="utf-8")] == []


@pytest.mark.parametrize("name", FILES)
def test_a_file_is_of_this_version(name: str) -> None:
    assert load(name)["version"] == records.VERSION


# -- canonical.json ---------------------------------------------------------------------------------------------------


@named(CANONICAL["reading"])
def test_a_text_is_read_and_written(case: dict[str, Any]) -> None:
    text = bytes.fromhex(case["hex"]) if "hex" in case else case["text"].encode()
    limits = {name: case[name] for name in ("max_depth", "max_bytes") if name in case}
    if "code" in case:
        assert code_of(canonical.loads, text, **limits) == case["code"]
        return
    form = canonical.dumps(canonical.loads(text, **limits))
    assert (form.hex(), digest.sha256_hex(form)) == (case["canonical"], case["sha256"])


@named(CANONICAL["exact"])
def test_only_the_canonical_text_is_exact(case: dict[str, Any]) -> None:
    assert code_of(canonical.loads_canonical, case["text"].encode()) == case.get("code")


@pytest.mark.parametrize("case", CANONICAL["numbers"], ids=lambda case: case["text"])
def test_a_double_is_written(case: dict[str, str]) -> None:
    (number,) = struct.unpack(">d", bytes.fromhex(case["ieee754"]))
    assert canonical.dumps(number).decode() == case["text"]


# -- values.json ------------------------------------------------------------------------------------------------------


def samples() -> ModuleType:
    """The classes that the Python expressions of the vectors name."""
    spec = importlib.util.spec_from_file_location("samples", VECTORS / "making" / "samples.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["samples"] = module
    try:
        spec.loader.exec_module(module)
    finally:
        del sys.modules["samples"]
    return module


@named(VALUES["values"])
def test_an_object_has_its_value(case: dict[str, Any]) -> None:
    obj = eval(case["python"], dict(vars(samples())))  # noqa: S307 - our own file
    value = values.encode(obj)
    assert canonical.dumps(value).decode() == case["value"]
    blobs: dict[str, bytes] = {}
    reference = digest.Reducer(blobs.setdefault).reference(value)
    assert reference.to_dict() == case["reference"]
    assert digest.digest_of(value) == case["reference"]["sha256"]
    assert reference.sha256 in blobs


# -- references.json --------------------------------------------------------------------------------------------------


@named(REFERENCES["values"])
def test_a_value_has_its_reference(case: dict[str, Any]) -> None:
    value = canonical.loads(case["value"])
    assert digest.Reducer().reduce(value).decode() == case["reduced"]
    blobs: dict[str, bytes] = {}
    assert digest.Reducer(blobs.setdefault).reference(value).to_dict() == case["reference"]
    stored = [(one["sha256"], one["size"], _bytes(one)) for one in case["blobs"]]
    assert [(sha256, len(data), data) for sha256, data in blobs.items()] == stored
    assert [digest.sha256_hex(data) for data in blobs.values()] == list(blobs)


def _bytes(blob: dict[str, Any]) -> bytes:
    return base64.b64decode(blob["base64"]) if "base64" in blob else blob["text"].encode()


@named([case for case in REFERENCES["values"] if '"$' not in case["value"]])
def test_plain_values_have_the_same_reference_when_captured(case: dict[str, Any]) -> None:
    capture = Capture(lambda sha256, data: True)
    assert capture.reference(canonical.loads(case["value"])).to_dict() == case["reference"]


def test_a_message_list_is_folded_however_it_was_reached() -> None:
    reducer = digest.Reducer()
    elements = [reducer.reduce(canonical.loads(one["message"])) for one in REFERENCES["folds"]]
    nodes = list(digest.fold_nodes(elements, 1, ""))
    assert [(sha256, text.decode()) for sha256, text in nodes] == [
        (one["sha256"], one["node"]) for one in REFERENCES["folds"]
    ]
    first = reducer.fold(elements[:1])
    assert reducer.fold_from(elements[1:], 2, first.sha256) == reducer.fold(elements)
    last = REFERENCES["folds"][-1]
    assert reducer.fold(elements) == digest.Reference(last["sha256"], last["size"], digest.MEDIA_FOLD)


@named(REFERENCES["refused"])
def test_what_is_no_canonical_value_has_no_reference(case: dict[str, Any]) -> None:
    assert code_of(digest.Reducer().reference, canonical.loads(case["value"])) == case["code"]


# -- record.json ------------------------------------------------------------------------------------------------------


@named(RECORD["records"])
def test_a_record_is_written(case: dict[str, Any]) -> None:
    body = canonical.loads(case["text"])
    assert records.parse_body(body, "") is body
    built = records.build(body["content"], body["context"])
    assert (built.decode(), len(built)) == (case["text"], case["size"])
    assert digest.sha256_hex(built) == case["sha256"]


@named(RECORD["refused"])
def test_what_is_no_record_is_refused(case: dict[str, Any]) -> None:
    assert code_of(records.parse_body, case["body"], "") == case["code"]


@pytest.mark.parametrize("case", RECORD["actors"], ids=lambda case: case["text"][:40])
def test_an_actor_has_its_text(case: dict[str, Any]) -> None:
    assert records.actor_text(case["path"]) == case["text"]
    if not case["text"].startswith("~"):
        assert list(records.actor_path(case["text"])) == case["path"]


@pytest.mark.parametrize("case", RECORD["steps"], ids=lambda case: case["text"][:40])
def test_a_step_has_its_text(case: dict[str, Any]) -> None:
    assert records.step(case["op"], case["name"], case["key"], case["occurrence"]) == case["text"]


@pytest.mark.parametrize("case", RECORD["addresses"], ids=lambda case: str(len(case["above"])))
def test_an_address_goes_on(case: dict[str, Any]) -> None:
    assert records.below(case["above"], case["step"]) == case["address"]


@pytest.mark.parametrize("case", RECORD["labels"], ids=lambda case: ascii(case["label"][:40]))
def test_a_name_has_its_label(case: dict[str, Any]) -> None:
    assert records.label(case["name"]) == case["label"]


def test_entries_are_chained_and_hashed() -> None:
    prev = log.ZERO
    for index, case in enumerate(RECORD["entries"]):
        body = canonical.dumps(canonical.loads(case["text"])["body"])
        entry = log.entry_bytes(body, index, prev)
        prev = digest.sha256_hex(entry)
        assert (entry.decode(), prev, tree.leaf_hash(entry).hex()) == (
            case["text"],
            case["digest"],
            case["leaf"],
        )


@pytest.mark.parametrize("case", RECORD["content_roots"], ids=lambda case: str(len(case["contents"])))
def test_a_content_root_does_not_depend_on_the_order(case: dict[str, Any]) -> None:
    contents = [one.encode() for one in case["contents"]]
    run = counterfoil.reader.RunView("r", "l", 0, content=contents)
    assert run.content_root == case["root"]
    run.content.reverse()
    assert run.content_root == case["root"]


@named(STATEMENT["statements"])
def test_a_statement_is_built_signed_and_read(case: dict[str, Any]) -> None:
    payload = case["payload"].encode()
    value = canonical.loads(payload)
    assert statements.build(value["predicateType"], value["subject"][0], value["predicate"]) == payload
    assert dsse.pae(dsse.PAYLOAD_TYPE, payload).hex() == case["pae"]
    carried = '"spki"' in case["envelope"]
    envelope = dsse.Envelope.sign(payload, signing("identity"), carry_key=carried)
    assert envelope.to_bytes().decode() == case["envelope"]
    read = dsse.Envelope.parse(case["envelope"])
    assert read == envelope
    ring = {public("identity").keyid: public("identity")}
    assert read.verify(ring) == [public("identity").keyid]
    statement = statements.parse(read.payload)
    assert statement.digest == read.digest == case["digest"]
    assert statement.kind == value["predicateType"]
    if "compact" in case:
        assert envelope.to_compact() == case["compact"]
        assert dsse.Envelope.parse_compact(case["compact"]) == envelope


@named(STATEMENT["refused_statements"])
def test_what_is_no_statement_is_refused(case: dict[str, Any]) -> None:
    assert code_of(statements.parse, case["payload"].encode()) == case["code"]


@named(STATEMENT["envelopes"])
def test_spellings_of_an_envelope_have_one_normal_form(case: dict[str, Any]) -> None:
    envelope = dsse.Envelope.parse(case["envelope"])
    assert envelope.to_bytes().decode() == case["normal"]
    assert public("identity").keyid in envelope.verify({public("identity").keyid: public("identity")})


@named(STATEMENT["refused_envelopes"])
def test_a_wrong_envelope_is_refused(case: dict[str, Any]) -> None:
    if "known" not in case:
        assert code_of(dsse.Envelope.parse, case["envelope"]) == case["code"]
        return
    ring = keys.Keyring.of([public(name) for name in case["known"]])
    assert code_of(dsse.Envelope.parse(case["envelope"]).verify, ring) == case["code"]


@pytest.mark.parametrize("case", STATEMENT["parents"], ids=lambda case: str(len(case["given"])))
def test_parents_stand_inline_or_in_a_list(case: dict[str, Any]) -> None:
    inline, listed = statements.split_parents(case["given"], statements.PARENTS_INLINE)
    assert inline == case["inline"]
    if "parentSet" not in case:
        assert listed is None
        return
    assert listed is not None
    found = {"count": len(json.loads(listed)), "sha256": digest.sha256_hex(listed), "size": len(listed)}
    assert found == case["parentSet"]


@named(STATEMENT["policies"])
def test_a_policy_is_read(case: dict[str, Any]) -> None:
    found = trust.parse(case["envelope"])
    assert found.digest == case["digest"]
    assert found.envelope.to_bytes().decode() == case["envelope"]
    content = found.content.model_dump(by_alias=True, exclude_none=True)
    assert policy_form.build(content) == found.envelope.payload


@named(STATEMENT["refused_policies"])
def test_what_is_no_policy_is_refused(case: dict[str, Any]) -> None:
    assert code_of(trust.parse, case["envelope"] + " " * case.get("spaces", 0)) == case["code"]


@pytest.mark.parametrize("case", STATEMENT["judged"], ids=lambda one: one["worth"])
def test_a_key_is_worth_what_the_policy_says(case: dict[str, Any]) -> None:
    policy = trust.parse(STATEMENT["policies"][1]["envelope"])
    assert policy.judge(case["key"], case["issued"], proven=case.get("proven")) == case["worth"]


@pytest.mark.parametrize("case", STATEMENT["covers"], ids=lambda one: f"{one['granted']} {one['asked']}")
def test_a_pattern_covers(case: dict[str, Any]) -> None:
    assert patterns.covers(case["granted"], case["asked"]) is case["covered"]


@pytest.mark.parametrize("case", STATEMENT["capabilities"], ids=lambda one: one["text"][:20])
def test_a_capability_is_one(case: dict[str, Any]) -> None:
    assert patterns.is_capability(case["text"]) is case["good"]
