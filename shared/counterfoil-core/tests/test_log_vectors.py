"""The golden logs get the verdicts that stand beside them, and the complete one is read in every way."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from golden import LOG, named, public, signing

import counterfoil
from counterfoil import digest, keys, log, notes, segments, tree
from counterfoil.stores import FolderStore


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """An evidence folder, beside a home of this test alone."""
    before = keys.home()
    keys.set_home(tmp_path / "home")
    folder = tmp_path / "evidence"
    folder.mkdir()
    yield folder
    keys.set_home(before)


def laid_out(place: Path, files: dict[str, str], folders: list[str] = []) -> Path:  # noqa: B006 - never changed
    for name, data in files.items():
        (place / name).parent.mkdir(exist_ok=True)
        (place / name).write_bytes(base64.b64decode(data))
    for name in folders:
        (place / name).mkdir()
    return place


def keyring(names: list[str]) -> keys.Keyring:
    """The keys named; `~name` is pinned by its fingerprint alone, `name+` may sign policies."""
    plain = [public(name) for name in names if name[0] != "~" and name[-1] != "+"]
    ring = keys.Keyring.of(plain, admins=[public(name[:-1]) for name in names if name[-1] == "+"])
    for name in names:
        if name.startswith("~"):
            ring.pin(LOG["keys"][name[1:]]["fingerprint"])
    return ring


@named(LOG["cases"])
def test_evidence_gets_its_verdict(place: Path, case: dict[str, Any]) -> None:
    laid_out(place, case["files"], case.get("folders", []))
    there = place.with_name("there")
    if "there" in case:
        there.mkdir()
        laid_out(there, case["there"]["files"], case["there"].get("folders", []))
    places = {".": FolderStore(place).uri, "": "", "there": FolderStore(there).uri}
    for head in case.get("heads", []):
        keys.remember_head(**head | {"evidence": places[head["evidence"]]})
    policy = case["policy"].encode() if "policy" in case else None
    found = counterfoil.verify(place, keyring=keyring(case["keyring"]), policy=policy)
    assert (found.verdict, [one.code for one in found.findings]) == (case["verdict"], case["findings"])
    # What this machine remembers is not in the evidence: the note that it remembers nothing is no part of a vector.
    told = [one.code for one in found.notes if one.code != "CF-VERIFY-062"]
    assert told == case.get("notes", [])
    assert {name: found.counts[name] for name in case.get("counts", {})} == case.get("counts", {})
    assert all(one.hint for one in found.findings if one.verdict in ("broken", "cannot-tell"))


@pytest.fixture
def complete(place: Path) -> Path:
    return laid_out(place, LOG["complete"]["files"])


def test_the_complete_log_is_intact(complete: Path) -> None:
    found = counterfoil.verify(complete, keyring=keyring(["identity", "peer"]))
    assert (found.verdict, found.findings) == ("intact", [])
    assert [one.code for one in found.notes] == ["CF-VERIFY-062"]  # made elsewhere
    bodies = [json.loads(one["text"])["body"] for one in LOG["complete"]["entries"]]
    assert found.counts == {
        "records": sum("content" in body for body in bodies),
        "statements": sum("payload" in body for body in bodies),
        "logs": 1,
        "runs": len(LOG["complete"]["content_roots"]),
        "handoffs": 2,
        "blobs": len(LOG["complete"]["blobs"]),
        "losses": 0,
        "open": 0,
        "tail": 0,
    }


def test_the_complete_log_is_read_as_it_was_made(complete: Path) -> None:
    reader = counterfoil.read(complete)
    expected = LOG["complete"]
    (name,) = reader.logs()
    assert expected["origin"] == f"{public('identity').keyid}/{name}"
    found = []
    for entry in reader.entries():
        text = log.entry_bytes(entry.body_bytes, entry.index, found[-1]["digest"] if found else log.ZERO)
        leaf = tree.leaf_hash(text).hex()
        found.append({"digest": entry.digest, "index": entry.index, "leaf": leaf, "text": text.decode()})
    assert found == expected["entries"]
    assert dict(reader.blobs()) == expected["blobs"]
    assert {run.id: run.content_root for run in reader.runs()} == expected["content_roots"]
    for sha256, size in expected["blobs"].items():
        data = reader.blob(sha256)
        assert (digest.sha256_hex(data), len(data)) == (sha256, size)


def test_the_checkpoints_of_the_complete_log_hold(complete: Path) -> None:
    expected = LOG["complete"]
    leaves = [bytes.fromhex(one["leaf"]) for one in expected["entries"]]
    assert expected["vkey"] == notes.vkey(expected["origin"], public("identity"))
    for one in expected["checkpoints"]:
        assert tree.root_of(leaves[: one["size"]]).hex() == one["root"]
        checkpoint = notes.parse_own_checkpoint(one["note"].encode(), expected["vkey"])
        assert (checkpoint.origin, checkpoint.size, checkpoint.root.hex()) == (
            expected["origin"],
            one["size"],
            one["root"],
        )
    seen = [one for one in log.LogScan(FolderStore(complete), "00000000000000a1").events()]
    passed = [one for one in seen if isinstance(one, log.CheckpointSeen)]
    assert [(one.note.decode(), one.size, one.root.hex(), one.stored_ok) for one in passed] == [
        (one["note"], one["size"], one["root"], True) for one in expected["checkpoints"]
    ]


def test_the_chunks_of_the_complete_log_are_found(complete: Path) -> None:
    found = []
    for number, path in enumerate(sorted(complete.glob("*/*.seg"))):
        with path.open("rb") as file:
            for chunk in segments.read_chunks(file, where=""):
                items = [
                    {"kind": item.kind, "sha256": digest.sha256_hex(item.data), "size": len(item.data)}
                    for item in segments.items(chunk, where="")
                ]
                found.append(
                    {
                        "end": chunk.end,
                        "form": chunk.form,
                        "items": items,
                        "raw": len(chunk.data),
                        "segment": number,
                        "start": chunk.start,
                    }
                )
    assert found == LOG["complete"]["chunks"]


@pytest.mark.parametrize("case", LOG["streams"], ids=lambda case: str(len(case["parts"])))
def test_a_compressed_stream_is_read(case: dict[str, Any]) -> None:
    data = b"".join(base64.b64decode(chunk) for chunk in case["chunks"])
    chunks = list(segments.read_chunks(io.BytesIO(data), where=""))
    assert [chunk.data.decode() for chunk in chunks] == case["parts"]
    assert [chunk.form for chunk in chunks] == [1] + [2] * (len(chunks) - 1)


def test_a_writer_goes_on_with_a_log_like_this(complete: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from counterfoil.recorder import Recorder

    monkeypatch.setattr(keys, "load_or_create_identity", lambda: signing("identity"))
    recorder = Recorder(complete)
    root = recorder.start("invoke_workflow", "more", actor=("more",), request=recorder.value({"n": 1}))
    recorder.end(root, response=recorder.value("done"))
    recorder.close()
    assert [path.name for path in sorted(complete.glob("*/*"))] == [
        f"{number:08d}.seg" for number in range(4)
    ]
    found = counterfoil.verify(complete, keyring=keyring(["identity", "peer"]))
    assert (found.verdict, found.counts["runs"]) == ("intact", 3)
