"""What a later version wrote may belong to any run: no run is judged as if it were not there."""

from __future__ import annotations

import base64
from pathlib import Path

from golden import load

import counterfoil
from counterfoil import keys


def test_a_log_with_a_record_of_a_later_version_is_looked_at_for_every_run(tmp_path: Path) -> None:
    vectors = load("log")
    name = "a run, and another log with a record of a later version"
    case = next(one for one in vectors["cases"] if one["name"] == name)
    for path, data in case["files"].items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_bytes(base64.b64decode(data))
    spki = base64.b64decode(vectors["keys"]["identity"]["spki"])
    ring = keys.Keyring.of([keys.PublicKey.from_spki(spki)])
    found = counterfoil.verify(tmp_path, keyring=ring, run="1" * 32)
    assert (found.verdict, found.counts["logs"]) == ("cannot-tell", 2)
    (log,) = (one.name for one in tmp_path.iterdir() if one.name.endswith("b2"))
    for path in (tmp_path / log).iterdir():
        path.unlink()
    (tmp_path / log).rmdir()
    assert counterfoil.verify(tmp_path, keyring=ring, run="1" * 32).verdict == "intact"
