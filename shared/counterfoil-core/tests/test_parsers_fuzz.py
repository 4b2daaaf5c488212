"""Every parser of the core on hostile bytes: a CounterfoilError or an answer, never anything else, never a hang."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import dictionary
import documents
import mutation
import parsers
import pytest
import surroundings
import wholes
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from counterfoil import keys, segments, verify
from counterfoil.log import LogScan, Problem
from counterfoil.recorder import Recorder
from counterfoil.signatures import Signatures
from counterfoil.stored import Stored
from counterfoil.stores import FolderStore

FUZZING = Path(__file__).parent / "fuzzing"

HEAVY = (
    {"segment_file", "log_entries", "log_printed", "log_page", "selectors"}
    | wholes.WHOLE
    | surroundings.WHOLE
)
"""Targets that read a whole evidence folder per input."""
SECONDS = 8
"""Of a fuzzer on each parser: all of them take less than four minutes on two cores."""


@pytest.fixture(autouse=True)
def _own_place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    before, folder = keys.home(), Path.cwd()
    keys.set_home(parsers.place().home)
    os.chdir(parsers.place().evidence.parent)
    yield
    os.chdir(folder)
    keys.set_home(before)


@pytest.mark.parametrize("name", sorted(parsers.TARGETS))
def test_well_formed_inputs_are_taken(name: str) -> None:
    taken = 0
    for seed in parsers.SEEDS(name):
        try:
            parsers.TARGETS[name](seed)
            taken += 1
        except parsers.CounterfoilError:
            continue
    assert taken


@pytest.mark.parametrize("name", sorted(parsers.TARGETS))
def test_changed_inputs_give_an_answer_or_an_error_of_ours(name: str) -> None:
    for number in range(12 if name in HEAVY else 150):
        parsers.run(name, mutation.inputs(number, parsers.SEEDS(name)))


@pytest.mark.parametrize("name", sorted(set(parsers.TARGETS) - HEAVY))
def test_any_bytes_give_an_answer_or_an_error_of_ours(name: str) -> None:
    words = st.sampled_from([word.encode() for word in dictionary.DICTIONARY])
    characters = st.sampled_from([*documents.CHARACTERS, *documents.SURROGATES])
    texts = characters.map(lambda character: character.encode("utf-8", "surrogatepass"))
    bytes_ = st.lists(st.one_of(st.binary(max_size=40), words, texts), max_size=12).map(b"".join)

    @settings(
        max_examples=25,
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
    )
    @given(data=bytes_)
    def go(data: bytes) -> None:
        parsers.run(name, data)

    go()


def test_what_is_no_error_of_ours_comes_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(data: bytes) -> None:
        raise KeyError("of a parser")

    monkeypatch.setitem(parsers.TARGETS, "note", broken)
    with pytest.raises(KeyError):
        parsers.run("note", b"")


# --- what was found so ----------------------------------------------------------------------------------------------


def test_a_segment_that_opens_with_a_statement_is_nobody_s_to_continue() -> None:
    place = parsers.place()
    statement = next(line for line in place.bodies if line.startswith(b'{"_type"'))
    with place.holding(place.build(statement + b"\n" + place.bodies[0])) as evidence:
        events = list(LogScan(FolderStore(evidence), place.log).tail())
        assert isinstance(events[0], Problem)
        recorder = Recorder(evidence)
        recorder.end(recorder.start("step", "a", actor=("a",)))
        recorder.close()
        logs = FolderStore(evidence).logs()
        assert len(logs) == 2
        for name in set(logs) - {place.log}:
            shutil.rmtree(evidence / name)


def test_an_unknown_version_does_not_stand_in_the_finding() -> None:
    place = parsers.place()
    body = b'{"content":{"op":"custom"},"context":{},"v":"hunter2"}'
    with place.holding(place.build(place.bodies[0] + b"\n" + body)) as evidence:
        found = verify(evidence, keyring=place.ring)
    assert "CF-LOG-022" in [one.code for one in found.findings]
    assert "hunter2" not in repr(found.findings)


@pytest.mark.parametrize("spell", [str.upper, lambda text: f"{text[:2]} {text[2:]}", lambda text: f"{text} "])
def test_a_digest_spelled_otherwise_is_not_known(spell: Callable[[str], str]) -> None:
    stored = Stored(FolderStore(parsers.place().evidence), parsers.place().log)
    digest = "ab" * 32
    stored.add(digest)
    assert stored.knows(digest)
    assert not stored.knows(spell(digest))
    assert not stored.knows("x" * 64)


def test_a_header_that_claims_more_than_is_there_costs_no_memory() -> None:
    class File(io.BytesIO):
        largest = 0

        def read(self, size: int | None = -1, /) -> bytes:
            self.largest = max(self.largest, size or 0)
            return super().read(size)

    file = File(
        segments.CHUNK_HEADER.pack(segments.RAW, segments.MAX_CHUNK, segments.MAX_CHUNK, 0) + b"x" * 99
    )
    with pytest.raises(segments.TornChunk, match="a chunk is cut"):
        list(segments.read_chunks(file, where="here"))
    assert file.largest < 1 << 20
    # What is there is read, however large.
    whole = segments.raw_chunk(segments.pack_item(segments.BLOB, bytes(3 << 20)))
    assert [chunk.end for chunk in segments.read_chunks(io.BytesIO(whole), where="here")] == [len(whole)]


@pytest.mark.parametrize("before", [0, 100, (1 << 20) - 200, (1 << 20) - 90, (1 << 20) - 5, 1 << 20, 3 << 20])
def test_a_checkpoint_behind_damage_is_found_wherever_it_stands(before: int) -> None:
    place = parsers.place()
    lines = b"\n".join(place.bodies[:1])
    made = place.build(lines)
    first = next(segments.read_chunks(io.BytesIO(made), where="here")).end
    torn = made[:first] + b"\xff" * 40
    with place.holding(torn + b"\xff" * before + made[first:]) as evidence:
        assert verify(evidence, keyring=place.ring).verdict == "broken"
    with place.holding(torn + b"\xff" * before) as evidence:
        codes = {one.code for one in verify(evidence, keyring=place.ring).findings if one.verdict == "broken"}
    assert "CF-LOG-010" not in codes


def test_a_damaged_schema_of_the_signatures_file_is_dropped() -> None:
    """SQLite tells of it in a text that need not be UTF-8."""
    (whole,) = parsers.SEEDS("home_signatures")
    start = whole.index(b"CREATE TABLE valid")
    for at in range(start - 12, start + 30):
        wholes.home_signatures(whole[:at] + b"\xa8" + whole[at + 1 :])


def test_a_signatures_file_of_other_columns_is_begun_anew() -> None:
    path = keys.home() / "cache" / "signatures.sqlite"
    parsers.SEEDS("home_signatures")
    path.unlink()
    with contextlib.closing(sqlite3.connect(path)) as other:
        other.execute("CREATE TABLE valid (other TEXT)")
        other.execute("PRAGMA user_version=1")
    identity = parsers.place().identity
    for known in (0, 0, 1):
        with Signatures() as checker:
            assert checker.check(identity.public, identity.sign(b"text"), b"text")
            assert checker.known == known


@pytest.mark.slow
@pytest.mark.parametrize("half", [0, 1])
def test_under_a_fuzzer(half: int) -> None:
    """Half of the parsers, two at a time, each in a process with limits of memory, time and of one input's time."""
    try:
        import atheris  # noqa: F401

        engine = "atheris"
    except ImportError:
        engine = "mutation"  # there is no atheris for this platform or Python
    names = sorted(parsers.TARGETS)[half::2]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    running: list[tuple[str, subprocess.Popen[str]]] = []
    failed = []
    while names or running:
        while names and len(running) < 2:
            name = names.pop()
            words = [sys.executable, str(FUZZING / "explore.py"), name, str(SECONDS), "--engine", engine]
            with open(Path(os.environ["COUNTERFOIL_HOME"], f"fuzz-{name}"), "w") as log:
                child = subprocess.Popen(words, stdout=log, stderr=log, env=environment, text=True)
            running.append((name, child))
        time.sleep(0.2)
        for name, child in list(running):
            if child.poll() is None:
                continue
            running.remove((name, child))
            out = Path(os.environ["COUNTERFOIL_HOME"], f"fuzz-{name}").read_text(errors="replace")
            tried = [int(line.split()[1]) for line in out.splitlines() if "number_of_executed_units" in line]
            print(f"{name}: {tried[0] if tried else 0} inputs, exit code {child.returncode}")
            if child.returncode or not tried or tried[0] < SECONDS * (1 if name in HEAVY else 20):
                failed.append(f"{name}: exit code {child.returncode}, {tried} inputs\n{out[-3_000:]}")
    assert not failed, "\n\n".join(failed)
