"""Evidence of a million records, of a thousand logs, and ten thousand single bits turned over."""

from __future__ import annotations

import importlib.util
import json
import random
import sys
from pathlib import Path
from typing import Any

import pytest

import counterfoil
from counterfoil import keys

pytestmark = pytest.mark.long

MAKER = Path(__file__).parents[3] / "benchmarks" / "_evidence.py"
VERIFY = """
    import json, sys
    import counterfoil
    from counterfoil import keys
    from peaks import peak
    ring = keys.Keyring.of([keys.load_identity().public])
    found = counterfoil.verify(sys.argv[1], keyring=ring, jobs=int(sys.argv[2]), full=True)
    print(json.dumps({"peak": peak() >> 20, "verdict": found.verdict, **found.counts}))
"""


def made(lab: Any, **how: Any) -> dict[str, int]:
    spec = importlib.util.spec_from_file_location("_evidence", MAKER)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["_evidence"] = module
    spec.loader.exec_module(module)
    return module.make(lab.evidence, keys.load_or_create_identity(), **how)


def told(lab: Any, jobs: int) -> dict[str, Any]:
    child = lab.start(VERIFY, jobs)
    out, err = child.communicate(timeout=1200)
    assert child.returncode == 0, err
    return json.loads(out)


def test_a_million_records_are_verified_in_300_mib(lab: Any) -> None:
    held = made(lab, entries=1_000_000, segment_bytes=16 << 20)
    found = told(lab, 2)
    assert (found["verdict"], found["records"] + found["statements"]) == ("intact", held["entries"])
    assert found["records"] > 870_000
    assert found["blobs"] == held["blobs"] > 240_000
    assert found["peak"] < 300, found


def test_a_thousand_logs_are_verified_in_200_mib(lab: Any) -> None:
    held = made(lab, entries=100_000, logs=1000)
    found = told(lab, 1)
    assert (found["verdict"], found["logs"], found["records"] + found["statements"]) == (
        "intact",
        1000,
        held["entries"],
    )
    assert found["peak"] < 200, found


def test_ten_thousand_bits_turned_over(lab: Any) -> None:
    lab.record(2)
    lab.record(1)
    assert lab.verify().verdict == "intact"
    files = lab.files()
    sizes = [path.stat().st_size for path in files]
    chance = random.Random(20_000)
    for number in range(10_000):
        path = chance.choices(files, weights=sizes)[0]
        data = bytearray(path.read_bytes())
        at, bit = chance.randrange(len(data)), chance.randrange(8)
        data[at] ^= 1 << bit
        path.write_bytes(data)
        try:
            verdict = counterfoil.verify(lab.evidence, jobs=1).verdict
        finally:
            data[at] ^= 1 << bit
            path.write_bytes(data)
        assert verdict in ("broken", "incomplete", "cannot-tell"), (number, path, at, bit)
    assert lab.verify().verdict == "intact"
