"""The table of attacks and the tests that carry them out are the same list."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).parent
TABLE = (TESTS.parents[2] / "docs" / "attacks.md").read_text(encoding="utf-8")
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in TABLE.splitlines()
    if re.match(r"\| \d+ \|", line)
]
CODES = (TESTS.parents[1] / "spec" / "errors.md").read_text(encoding="utf-8")


def functions() -> list[str]:
    """Every function named after a row, in all files of the matrix."""
    found: list[str] = []
    for path in sorted(TESTS.glob("test_attack_matrix_*.py")):
        found += re.findall(r"^def (test_row_\w+)\(", path.read_text(encoding="utf-8"), re.MULTILINE)
    return found


def test_every_row_is_there_once() -> None:
    assert [int(row[0]) for row in ROWS] == list(range(1, 38))
    assert all(len(row) == 4 and row[1] and row[2] for row in ROWS)


def test_the_table_names_the_tests_that_are_there() -> None:
    named = [name for row in ROWS for name in re.findall(r"`(test_row_\w+)`", row[3])]
    assert sorted(named) == sorted(functions())
    for row in ROWS:
        for name in re.findall(r"`(test_row_\w+)`", row[3]):
            assert name.startswith(f"test_row_{int(row[0]):02d}_")


def test_a_row_without_a_test_says_why() -> None:
    for row in ROWS:
        excused = "**open**" in row[2] or "**cannot be defeated**" in row[2]
        assert "`test_row_" in row[3] or excused, row[0]
    needs = [row for row in ROWS if row[2].startswith("**open**")]
    assert all(re.search("ML-DSA|witnesses|time stamps", row[2]) for row in needs)


def test_codes_of_the_table_are_listed_codes() -> None:
    for row in ROWS:
        family = ""
        for full, short in re.findall(r"`(CF-[A-Z]+-\d{3})`|`-(\d{3})`", row[2]):
            family = full.rpartition("-")[0] or family
            assert f"| {full or f'{family}-{short}'} |" in CODES
