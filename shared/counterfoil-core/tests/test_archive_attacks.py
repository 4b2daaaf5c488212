"""What somebody without the identity key may try with archives, and what the holder of it cannot hide."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from archives import Aged, aged, run

import counterfoil
from counterfoil import keys, records, segments, statements
from counterfoil.archived import Archived, Manifest
from counterfoil.digest import sha256_hex
from counterfoil.dsse import Envelope
from counterfoil.log import LogScan, entry_bytes
from counterfoil.stores import FolderStore
from counterfoil.stores.joined import JoinedStore


@pytest.fixture
def logs(lab: Any) -> Aged:
    return aged(lab)


def codes(found: Any) -> list[str]:
    return [one.code for one in found.findings]


def excuse(evidence: Path, victim: str, *, signed_by: keys.SigningKey | None = None) -> tuple[bytes, bytes]:
    """A statement and its list about a log that is still whole, as its identity would make them."""
    store = FolderStore(evidence)
    scan = LogScan(store, victim)
    roots: dict[int, str] = {}
    origin = ""
    for event in scan.events():
        if hasattr(event, "stored_ok"):
            roots[event.size] = event.root.hex()
        elif getattr(event, "op", "") == "session":
            origin = event.body["context"]["origin"]
    pieces = []
    for number in store.segments(victim):
        data = (evidence / store.segment_name(victim, number)).read_bytes()
        pieces.append((sha256_hex(data), len(data)))
    listed = Manifest(roots, (), tuple(pieces)).to_bytes()
    size = max(roots)
    said = {
        "bytes": sum(size for _, size in pieces),
        "first": 1,
        "issued": 2,
        "last": 1,
        "log": {"origin": origin, "root": roots[size], "size": size},
        "manifest": {"sha256": sha256_hex(listed), "size": len(listed)},
        "place": "/nowhere",
        "runs": 0,
        "verdict": "intact",
    }
    subject = {"digest": {"sha256": sha256_hex(listed)}, "name": origin}
    payload = statements.build(statements.ARCHIVE, subject, said)
    return Envelope.sign(payload, signed_by or keys.load_or_create_identity()).to_bytes(), listed


def append(evidence: Path, log: str, body: bytes, blob: bytes) -> None:
    """Put an entry behind the end of a log, as anybody can who may write there."""
    store = FolderStore(evidence)
    scan = LogScan(store, log)
    for _ in scan.events():
        pass
    entry = entry_bytes(body, scan.index, scan.prev)
    items = segments.pack_item(segments.BLOB, blob) + segments.pack_item(segments.ENTRY, entry)
    number = store.segments(log)[-1]
    with open(evidence / store.segment_name(log, number), "ab") as file:
        file.write(segments.raw_chunk(items))


@pytest.mark.parametrize("key", ["a stranger's", "a pinned colleague's"])
def test_an_excuse_by_another_key_excuses_nothing(lab: Any, logs: Aged, key: str) -> None:
    with lab.at(lab.elsewhere):
        other = keys.load_or_create_identity()
    ring = keys.Keyring.of([keys.load_or_create_identity().public])
    if "pinned" in key:
        ring = keys.Keyring.of([keys.load_or_create_identity().public, other.public])
    body, listed = excuse(lab.evidence, logs.old[0], signed_by=other)
    stays = next(name for name in FolderStore(lab.evidence).logs() if name not in logs.old)
    append(lab.evidence, stays, body, listed)
    shutil.rmtree(lab.evidence / logs.old[0])
    found = lab.verify(keyring=ring)
    assert found.verdict == "broken"
    assert "CF-VERIFY-004" in codes(found)
    assert "CF-VERIFY-003" in codes(found)
    assert ("CF-VERIFY-070" if "pinned" in key else "CF-DSSE-010") in codes(found)


def test_an_excuse_in_a_log_of_ones_own_excuses_nothing(lab: Any, logs: Aged) -> None:
    with lab.at(lab.elsewhere):
        other = keys.load_or_create_identity()
        recorder = lab.recorder()
        body, listed = excuse(lab.evidence, logs.old[0], signed_by=other)
        writer = recorder.open()
        assert writer.blob(sha256_hex(listed), listed)
        assert writer.entry(body)
        lab.close()
    shutil.rmtree(lab.evidence / logs.old[0])
    ring = keys.Keyring.of([keys.load_or_create_identity().public, other.public])
    found = lab.verify(keyring=ring)
    assert found.verdict == "broken"
    assert {"CF-VERIFY-003", "CF-VERIFY-004", "CF-VERIFY-070"} <= set(codes(found))


def test_an_old_excuse_does_not_cover_what_came_later(lab: Any, logs: Aged) -> None:
    """A log is archived, put back, written on by a home that does not know, and then deleted."""
    logs.archive()
    name = logs.old[0]
    shutil.copytree(logs.place / name, lab.evidence / name)
    for path in (lab.home / "closed").iterdir():
        path.unlink()
    for other in FolderStore(lab.evidence).logs():
        if other != name:
            (lab.evidence / other).rename(lab.root / f"hidden-{other}")
    recorder = lab.recorder()
    run(recorder, "later")
    assert recorder.open().log == name
    recorder.close()
    for path in lab.root.glob("hidden-*"):
        path.rename(lab.evidence / path.name.removeprefix("hidden-"))
    assert lab.verify().verdict == "intact"
    shutil.rmtree(lab.evidence / name)
    assert codes(lab.verify()) == ["CF-VERIFY-003"]


def test_an_archive_that_was_altered_or_thinned_out_is_found(lab: Any, logs: Aged) -> None:
    logs.archive()
    path = logs.place / logs.old[1] / "00000000.seg"
    whole = path.read_bytes()
    for at in range(5, len(whole), len(whole) // 7):
        changed = bytearray(whole)
        changed[at] ^= 4
        path.write_bytes(bytes(changed))
        found = lab.verify(archives=[logs.place])
        assert found.verdict == "broken"
        assert codes(found)[0] == "CF-VERIFY-073"
    path.write_bytes(whole)
    assert lab.verify(archives=[logs.place]).verdict == "intact"
    (logs.place / logs.old[1] / "00000001.seg").unlink()
    assert "CF-VERIFY-073" in codes(lab.verify(archives=[logs.place]))
    shutil.rmtree(logs.place / logs.old[1])
    assert "CF-VERIFY-073" in codes(lab.verify(archives=[logs.place]))


def test_bytes_behind_the_end_of_an_archived_log_are_found(lab: Any, logs: Aged) -> None:
    logs.archive()
    last = sorted((logs.place / logs.old[0]).iterdir())[-1]
    last.write_bytes(last.read_bytes() + segments.raw_chunk(segments.pack_item(segments.BLOB, b"more")))
    assert codes(lab.verify(archives=[logs.place]))[0] == "CF-VERIFY-073"


def test_an_archive_of_other_evidence_does_not_do(lab: Any, logs: Aged) -> None:
    logs.archive()
    lab.record(evidence=lab.root / "others")
    found = lab.verify(archives=[lab.root / "others"])
    assert "CF-VERIFY-073" in codes(found)


def test_a_rewritten_log_in_the_archive_is_another_history(lab: Any, logs: Aged) -> None:
    """The holder of the key makes another log of that name: what stays tells what it was."""
    logs.archive()
    assert lab.verify(archives=[logs.place]).verdict == "intact"
    name = logs.old[0]
    shutil.rmtree(logs.place / name)
    (logs.place / name).mkdir()
    for path in (logs.place / logs.old[1]).iterdir():
        shutil.copy(path, logs.place / name)
    found = lab.verify(archives=[logs.place])
    assert found.verdict == "broken"
    assert "CF-VERIFY-073" in codes(found)


def test_the_word_in_an_archived_log_excuses_no_other_log(lab: Any, logs: Aged) -> None:
    """Archived logs that are put back do not hide that a log that stays was deleted."""
    logs.archive()
    for name in logs.old:
        shutil.copytree(logs.place / name, lab.evidence / name)
    assert lab.verify().verdict == "intact"
    stays = [one.name for one in logs.survey().logs if one.state not in ("index", "left")]
    shutil.rmtree(lab.evidence / stays[0])
    assert {"CF-VERIFY-003", "CF-VERIFY-004"} <= set(codes(lab.verify()))
    assert codes(lab.verify_elsewhere()) == ["CF-VERIFY-004"]  # the log of the statements cites it


def test_a_word_behind_the_last_checkpoint_is_nobodys(lab: Any) -> None:
    first, second = lab.recorder(), lab.recorder()
    run(first, "one")
    run(second, "two")
    names = [first.open().log, second.open().log]
    for recorder in (first, second):
        recorder.close()
    lab.record()
    citing = next(name for name in names if _cites(lab.evidence, name))
    (gone,) = set(names) - {citing}
    shutil.rmtree(lab.evidence / gone)
    assert "CF-VERIFY-004" in codes(lab.verify_elsewhere())
    word = records.build({"op": "archived", "phase": "point"}, {"at": records.now()})
    append(lab.evidence, citing, word, b"blob")
    assert "CF-VERIFY-004" in codes(lab.verify_elsewhere())


def _cites(evidence: Path, name: str) -> bool:
    for entry in counterfoil.read(evidence).entries():
        if entry.log == name and entry.op == "session" and "seen" in entry.body["context"]:
            return True
    return False


def test_two_statements_of_one_log_the_larger_counts(logs: Aged) -> None:
    done = logs.archive()
    one = done.archived[0]
    less = one.said.model_copy(update={"log": one.said.log.model_copy(update={"size": 1})})
    from counterfoil.archived import largest

    found = largest([one, Archived(less, one.manifest)])
    assert found[one.origin].size == one.size


def test_joined_places_read_each_log_from_the_first_that_has_it(lab: Any, logs: Aged) -> None:
    logs.archive()
    joined = JoinedStore(FolderStore(lab.evidence), [FolderStore(logs.place)])
    assert set(logs.old) < set(joined.logs())
    assert joined.size() == FolderStore(lab.evidence).size() + FolderStore(logs.place).size()
    (logs.place / "stray").write_text("x")
    assert ("stray", "does not belong to evidence") in list(joined.foreign())
    assert json.dumps(sorted(joined.names)) == json.dumps(sorted({str(lab.evidence), str(logs.place)}))
