"""Old logs are moved to an archive: what stays verifies, what went verifies, and both do together."""

from __future__ import annotations

import shutil
from typing import Any

import pytest
from archives import Aged, aged, run

import counterfoil
from counterfoil import keys, records
from counterfoil.archiving.ending import end_log
from counterfoil.archiving.moving import archive
from counterfoil.archiving.places import FolderPlace
from counterfoil.archiving.surveying import survey
from counterfoil.errors import ArchiveError, LogError
from counterfoil.stores import FolderStore


@pytest.fixture
def logs(lab: Any) -> Aged:
    return aged(lab)


def told(found: Any) -> tuple[str, list[str], list[str]]:
    return found.verdict, [one.code for one in found.findings], [one.code for one in found.notes]


def runs_in(*places: Any) -> set[str]:
    return {one.id for place in places for one in counterfoil.read(place).runs()}


def test_what_stays_what_went_and_both_together_are_intact(lab: Any, logs: Aged) -> None:
    before = {path.name: path.read_bytes() for path in (lab.evidence / logs.old[0]).iterdir()}
    done = logs.archive(retain=86_400)
    assert [one.name for one in done.archived] == logs.old
    assert not done.skipped
    assert logs.there() == logs.old
    assert not set(logs.old) & set(FolderStore(lab.evidence).logs())
    for name, data in before.items():
        assert (logs.place / logs.old[0] / name).read_bytes() == data
    assert told(lab.verify()) == ("intact", [], ["CF-VERIFY-072"])
    assert told(lab.verify(logs.place)) == ("intact", [], [])
    both = lab.verify(archives=[logs.place])
    assert told(both) == ("intact", [], [])
    assert both.counts["runs"] == len(logs.runs) == 3
    assert runs_in(lab.evidence, logs.place) == logs.runs
    assert lab.verify_elsewhere().verdict == "intact"
    assert lab.verify_elsewhere(logs.place).verdict == "intact"
    said = done.archived[0].said
    assert (said.runs, said.verdict, said.place) == (1, "intact", str(logs.place))
    assert said.bytes == sum(path.stat().st_size for path in (logs.place / logs.old[0]).iterdir())
    assert said.first <= said.last <= logs.before // 1000
    assert said.retain is not None
    assert said.retain > said.issued + 86_000_000


def test_the_home_remembers_where_the_logs_went(lab: Any, logs: Aged) -> None:
    logs.archive()
    places = {one.origin.rpartition("/")[2]: one.evidence for one in keys.remembered_heads().values()}
    assert {places[name] for name in logs.old} == {str(logs.place)}
    shutil.rmtree(logs.place / logs.old[0])
    assert "CF-VERIFY-003" in told(lab.verify(logs.place))[1]
    assert lab.verify().verdict == "intact"


def test_a_log_that_is_gone_without_a_word_is_still_broken(lab: Any, logs: Aged) -> None:
    shutil.rmtree(lab.evidence / logs.old[0])
    codes = told(lab.verify())[1]
    assert {"CF-VERIFY-003", "CF-VERIFY-004"} <= set(codes)
    with pytest.raises(ArchiveError, match="does not verify") as caught:
        logs.archive()
    assert caught.value.code == "CF-ARCHIVE-002"
    assert not logs.place.exists()


def test_recording_and_archiving_go_on(lab: Any, logs: Aged) -> None:
    logs.archive()
    lab.record(runs=2)
    later = records.now() + 1
    lab.record()  # goes on with the young log: it has old and new entries
    found = logs.archive(before=later)
    assert [len(found.archived), len(found.closed)] == [0, 1]
    lab.record()  # opens another
    second = logs.archive(before=records.now() + 1)
    assert len(second.archived) == 2
    assert told(lab.verify()) == ("intact", [], ["CF-VERIFY-072"])
    assert told(lab.verify(archives=[logs.place])) == ("intact", [], [])
    assert told(lab.verify(logs.place)) == ("intact", [], [])
    assert len(FolderStore(lab.evidence).logs()) == 1  # the statements, no application's
    states = [one.state for one in logs.survey(records.now() + 1).logs]
    assert states == ["index"]


def test_what_a_writer_holds_stays(lab: Any, logs: Aged) -> None:
    held = lab.recorder()
    run(held, "held")
    later = records.now() + 1
    found = {one.name: one.state for one in logs.survey(later).logs}
    assert [found.pop(name) for name in logs.old] == ["due", "due"]
    assert list(found.values()) == ["live"]
    done = logs.archive(before=later)
    assert [why for _, why in done.skipped] == ["a writer has it"]
    assert len(done.archived) == 2
    held.close()
    assert lab.verify().verdict == "intact"


def test_what_does_not_verify_stays(lab: Any, logs: Aged) -> None:
    last = sorted((lab.evidence / logs.old[1]).iterdir())[-1]
    data = bytearray(last.read_bytes())
    data[len(data) // 2] ^= 1
    last.write_bytes(bytes(data))
    done = logs.archive()
    assert [one.name for one in done.archived] == logs.old[:1]
    assert [(one.name, one.state) for one, _ in done.skipped] == [(logs.old[1], "unfit")]
    assert last.read_bytes() == bytes(data)


def test_nothing_is_due_by_a_moment_before_all(logs: Aged) -> None:
    done = logs.archive(before=1)
    assert [*done.archived, *done.closed, *done.skipped] == []
    assert not logs.place.exists()


def test_a_killed_writers_log_is_archived_as_what_it_is(lab: Any, logs: Aged) -> None:
    last = sorted((lab.evidence / logs.old[0]).iterdir())[-1]
    whole = last.read_bytes()
    keys.forget_head(f"{keys.load_or_create_identity().keyid}/{logs.old[0]}")
    last.write_bytes(whole + b"\x02torn")
    assert lab.verify().verdict == "incomplete"
    done = logs.archive()
    assert [one.said.verdict for one in done.archived] == ["incomplete", "intact"]
    assert told(lab.verify()) == ("intact", [], ["CF-VERIFY-072"])
    assert "1 of them not intact" in lab.verify().notes[0].message
    assert told(lab.verify(logs.place))[1] == ["CF-VERIFY-020"]


def test_no_writer_goes_on_with_what_was_ended_or_archived(lab: Any, logs: Aged) -> None:
    logs.archive()
    recorder = lab.recorder(logs.place)
    run(recorder, "misled")
    recorder.close()
    assert len(FolderStore(logs.place).logs()) == 3
    for name in logs.old:
        shutil.copytree(logs.place / name, lab.evidence / name)
    lab.record()
    for name in logs.old:
        assert sorted(path.name for path in (lab.evidence / name).iterdir()) == sorted(
            path.name for path in (logs.place / name).iterdir()
        )
    assert lab.verify().verdict == "intact"


def test_the_rest_of_an_interrupted_removal_is_told_and_goes(lab: Any, logs: Aged) -> None:
    logs.archive()
    name = logs.old[0]
    (lab.evidence / name).mkdir()
    shutil.copy(logs.place / name / "00000000.seg", lab.evidence / name)
    assert told(lab.verify()) == ("incomplete", ["CF-VERIFY-071"], ["CF-VERIFY-072"])
    done = logs.archive()
    assert [one.name for one in done.finished] == [name]
    assert told(lab.verify()) == ("intact", [], ["CF-VERIFY-072"])


def test_what_the_archive_lost_is_not_taken_away_here(lab: Any, logs: Aged) -> None:
    logs.archive()
    name = logs.old[0]
    shutil.move(logs.place / name, lab.evidence / name)
    done = logs.archive()
    assert not done.finished
    assert "does not hold it" in done.skipped[0][1]
    assert runs_in(lab.evidence, logs.place) == logs.runs


def test_what_was_put_back_and_written_on_is_not_taken_away(lab: Any, logs: Aged) -> None:
    """The archive holds what was stated, but not what came since."""
    logs.archive()
    name = logs.old[0]
    shutil.copytree(logs.place / name, lab.evidence / name)
    end_log(FolderStore(lab.evidence), keys.load_or_create_identity(), name)
    size = sum(path.stat().st_size for path in (lab.evidence / name).iterdir())
    done = logs.archive()
    assert not done.finished
    assert [one.name for one, _ in done.skipped] == [name]
    assert sum(path.stat().st_size for path in (lab.evidence / name).iterdir()) == size


@pytest.mark.parametrize("where", ["evidence", "evidence/inside", "."])
def test_an_archive_is_no_part_of_the_evidence(lab: Any, logs: Aged, where: str) -> None:
    with pytest.raises(ArchiveError) as caught:
        logs.archive(to=str(lab.root / where))
    assert caught.value.code == "CF-ARCHIVE-003"
    assert lab.verify().verdict == "intact"


def test_a_folder_with_something_else_is_no_archive(lab: Any, logs: Aged) -> None:
    logs.place.mkdir()
    (logs.place / "notes.txt").write_text("mine")
    with pytest.raises(ArchiveError) as caught:
        logs.archive()
    assert caught.value.code == "CF-ARCHIVE-004"
    assert sorted(path.name for path in logs.place.iterdir()) == ["notes.txt"]


def test_other_bytes_in_the_archive_are_never_replaced(lab: Any, logs: Aged) -> None:
    FolderStore(logs.place).prepare()
    (logs.place / logs.old[0]).mkdir()
    other = logs.place / logs.old[0] / "00000000.seg"
    other.write_bytes(b"x" * 50_000)
    with pytest.raises(ArchiveError) as caught:
        logs.archive()
    assert caught.value.code == "CF-ARCHIVE-005"
    assert other.read_bytes() == b"x" * 50_000
    assert lab.verify().verdict == "intact"


def test_a_link_in_the_archive_is_no_log(lab: Any, logs: Aged) -> None:
    FolderStore(logs.place).prepare()
    (lab.root / "aside").mkdir()
    (logs.place / logs.old[0]).symlink_to(lab.root / "aside")
    with pytest.raises(ArchiveError) as caught:
        logs.archive()
    assert caught.value.code == "CF-ARCHIVE-004"
    assert set(logs.old) < set(FolderStore(lab.evidence).logs())


def test_what_changes_behind_its_back_is_not_signed(
    lab: Any, logs: Aged, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody writes into a log between the moment it is verified and the moment it is copied."""
    path = sorted((lab.evidence / logs.old[0]).iterdir())[0]
    put = FolderPlace.put

    def late(self: Any, store: Any, log: str, pieces: Any, **more: Any) -> None:
        if log == logs.old[0]:
            path.write_bytes(path.read_bytes()[:-1] + b"x")
        put(self, store, log, pieces, **more)

    monkeypatch.setattr(FolderPlace, "put", late)
    with pytest.raises(ArchiveError) as caught:
        logs.archive()
    assert caught.value.code == "CF-ARCHIVE-006"
    assert set(logs.old) < set(FolderStore(lab.evidence).logs())
    assert logs.there() == []


def test_another_identitys_log_is_left(lab: Any, logs: Aged) -> None:
    with lab.at(lab.elsewhere):
        lab.record()
    done = logs.archive(before=records.now() + 1)
    assert [one.state for one, _ in done.skipped] == ["foreign"]
    assert len(done.archived) == 3


def test_without_an_identity_nothing_is_archived(lab: Any, logs: Aged) -> None:
    with lab.at(lab.elsewhere), pytest.raises(ArchiveError) as caught:
        logs.archive()
    assert caught.value.code == "CF-ARCHIVE-001"


def test_a_handoff_that_can_still_be_accepted_keeps_its_log(lab: Any) -> None:
    with counterfoil.open(lab.evidence, actor="team") as log:
        counterfoil.seal(log, {"report": "x" * 400}, to="elsewhere")
    found = survey(FolderStore(lab.evidence), before=records.now() + 1)
    assert [one.state for one in found.logs] == ["waiting"]


def test_a_log_that_is_wanted_and_held_is_told(lab: Any, logs: Aged) -> None:
    held = lab.recorder()
    run(held, "held")
    name = held.open().log
    with pytest.raises(LogError) as caught:
        end_log(FolderStore(lab.evidence), keys.load_or_create_identity(), name)
    assert caught.value.code == "CF-LOG-037"
    held.close()


def test_a_log_ends_although_a_segment_is_larger_than_a_block(lab: Any) -> None:
    recorder = lab.recorder()
    call = recorder.start("custom", "big", actor=("big",), request=recorder.value("0123456789abcdef" * 1))
    for number in range(40):
        recorder.value(f"{number}" + "".join(chr(33 + (number * at * 7919) % 90) for at in range(60_000)))
    recorder.end(call)
    recorder.close()
    before = records.now() + 1
    done = archive(FolderStore(lab.evidence), to=str(lab.root / "archive"), before=before)
    assert len(done.archived) == 1
    assert lab.verify(archives=[lab.root / "archive"]).verdict == "intact"
