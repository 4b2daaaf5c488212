"""A tree of 4 GB: one flipped byte in it is named. About ten seconds on two cores."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from counterfoil.weights import adding, comparing

GIB = 1 << 30


@pytest.mark.slow
def test_one_flipped_byte_in_four_gigabytes_is_named(lab: Any, tmp_path: Path) -> None:
    tree = tmp_path / "model"
    tree.mkdir()
    for number in range(8):  # holes: they are hashed as what they read as, and take no room
        with open(tree / f"model-{number:05d}-of-00008.safetensors", "wb") as file:
            file.write(bytes([number]) * 4096)
            file.truncate(GIB // 2)
    (tree / "config.json").write_text("{}")
    made = adding.add(tree, evidence=lab.evidence)
    assert made.says.files.size == 4 * GIB + 2
    assert comparing.compare(tree, made).result == "same"
    with open(tree / "model-00005-of-00008.safetensors", "r+b") as file:
        file.seek(GIB // 2 - 777)
        file.write(b"\1")
    (one,) = comparing.compare(tree, made).differences
    assert (one.name, one.state) == ("model-00005-of-00008.safetensors", "differs")
    assert lab.verify().verdict == "intact"
