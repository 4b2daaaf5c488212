"""The pages of the formats: indexed, linked, with samples from the vectors."""

from __future__ import annotations

import json
import re

import pytest
from golden import FILES, VECTORS

from counterfoil import canonical

SPEC = VECTORS.parent / "spec"
PAGES = sorted(path.name for path in SPEC.glob("*.md"))


def test_every_page_is_in_the_index() -> None:
    listed = re.findall(r"^\| \[(\w+\.md)\]", (SPEC / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted([*listed, "README.md"]) == PAGES


@pytest.mark.parametrize("page", PAGES)
def test_samples_and_links_of_a_page_hold(page: str) -> None:
    text = (SPEC / page).read_text(encoding="utf-8")
    for block in re.findall(r"^```jcs\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        for line in block.splitlines():
            canonical.loads_canonical(line.encode())
    for target in re.findall(r"\]\(([^)]+)\)", text):
        assert (SPEC / target).is_file(), target


@pytest.mark.parametrize("page", ["references.md", "values.md", "record.md", "statement.md", "log.md"])
def test_samples_of_a_page_are_from_the_vectors(page: str) -> None:
    vectors = "".join(
        json.dumps(json.loads((VECTORS / f"{name}.json").read_text(encoding="ascii"))) for name in FILES
    )
    text = (SPEC / page).read_text(encoding="utf-8")
    samples = [
        line
        for block in re.findall(r"^```jcs\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
        for line in block.splitlines()
    ]
    assert samples
    assert [
        line
        for line in samples
        if json.dumps(line)[1:-1] not in vectors and json.dumps(json.loads(line)) not in vectors
    ] == []
