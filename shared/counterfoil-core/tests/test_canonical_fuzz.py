"""Canonical JSON against its definition and an independent implementation, on documents made to tell them apart."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import differential
import documents
import orjson
import pytest
import rfc8785

from counterfoil import canonical
from counterfoil.errors import CanonicalError

FUZZING = Path(__file__).parent / "fuzzing"


def test_written_as_rfc8785_and_jcs_admit_write_or_refused_as_they_refuse() -> None:
    found = differential.writing(0, 2_000)
    # The generator must keep reaching every outcome.
    assert found["fast"] > 1_200
    assert found["slow"] > 60
    assert found["refused"] > 200
    assert found["admitted"] > 1_000
    assert found["stricter"] > 5


def test_read_and_checked_as_jcs_admit_reads_and_checks() -> None:
    found = differential.reading(0, 8_000)
    assert found["read"] > 1_600
    assert found["canonical"] > 1_200
    assert found["refused"] > 3_200
    assert found["stricter"] > 40


def test_a_difference_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    real = canonical.dumps
    monkeypatch.setattr(canonical, "dumps", lambda value: real(value).replace(b"e+", b"e"))
    with pytest.raises(differential.DifferenceError, match=r"^document "):
        differential.writing(0, 2_000)
    monkeypatch.setattr(canonical, "dumps", real)
    monkeypatch.setattr(canonical, "loads_canonical", canonical.loads)
    with pytest.raises(differential.DifferenceError, match=r"^text "):
        differential.reading(0, 2_000)


def test_the_generator_finds_what_a_bare_orjson_gets_wrong() -> None:
    wrong = 0
    for number in range(1_000):
        document = documents.document(number)
        try:
            bare: bytes | None = orjson.dumps(document, option=orjson.OPT_SORT_KEYS)
        except TypeError:
            bare = None
        try:
            wrong += bare != canonical.dumps(document)
        except CanonicalError:
            wrong += bare is not None
    assert wrong > 100


@pytest.mark.parametrize(
    "pair", [("\U00010000", "\ue000"), ("\U0010ffff", "\uffff"), ("\U0001f600", "\ufb33")]
)
@pytest.mark.parametrize("wrap", ["{}", "a{}", "{}a"])
def test_keys_where_code_point_and_utf16_order_part(pair: tuple[str, str], wrap: str) -> None:
    document = {wrap.format(key): key for key in pair}
    assert canonical.dumps(document) == rfc8785.dumps(document)
    assert canonical.dumps_record(document) == rfc8785.dumps(document)
    assert canonical.dumps([{"x": document, "a": 1.5}]) == rfc8785.dumps([{"x": document, "a": 1.5}])


@pytest.mark.long
@pytest.mark.parametrize("way", ["writing", "reading"])
def test_a_million(way: str) -> None:
    workers, each = 2, 500_000
    script = str(FUZZING / "differential.py")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    started = [
        subprocess.Popen(
            [sys.executable, script, way, str(10_000_000 + worker * each), str(each)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
        )
        for worker in range(workers)
    ]
    found: Counter[str] = Counter()
    for child in started:
        out, err = child.communicate()
        assert child.returncode == 0, err.decode()[-2_000:]
        found.update(json.loads(out))
    print(f"\n{way}: {dict(found)}")
    assert sum(found[name] for name in ("fast", "slow", "read", "refused")) == workers * each
