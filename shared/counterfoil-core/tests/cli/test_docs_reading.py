"""``docs/reading.md`` and ``docs/report.md``: examples are run one after the other, and print what the pages say."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

DOCS = Path(__file__).resolve().parents[4] / "docs"
PAGE = (DOCS / "reading.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
VARIES = re.compile(r"\\\.\\\.\\\.|\b(?=[0-9a-f]*[0-9])[0-9a-f]{8,}\b|\d+")
"""In a page as it is escaped: what is left out, identifiers and digests, numbers."""


def examples(page: str = PAGE) -> list[tuple[list[str], str]]:
    """The words of each command, and what is printed below it."""
    found = []
    for block in BLOCK.findall(page):
        for part in re.split(r"^\$ counterfoil ", block, flags=re.MULTILINE)[1:]:
            command, _, printed = part.partition("\n")
            found.append((command.split(), printed))
    return found


def pattern(printed: str) -> str:
    """What was printed, but for what differs from one recording to the next; ``...`` is anything, alone any lines."""

    def varies(match: re.Match[str]) -> str:
        text = match[0]
        return r".*" if "." in text else r"\d+" if text.isdigit() and len(text) < 8 else "[0-9a-f]+"

    lines = [
        r"(?:.*\n)*?" if line == "..." else VARIES.sub(varies, re.escape(line)) + r"\n"
        for line in printed.splitlines()
    ]
    return "".join(lines)


def test_the_page_has_an_example_of_each_command() -> None:
    named = set(re.findall(r"^\| .* \| \[`(\w+)`\]\(#\w+\) \|$", PAGE, re.MULTILINE))
    assert named == {"bundle", "diff", "environment", "doctor", "scrub", "export"}
    assert named <= {words[0] for words, _ in examples()}


@pytest.mark.parametrize("page", ["reading", "report"])
def test_examples_print_what_the_page_says(cli: Any, desk: Any, tmp_path: Path, page: str) -> None:
    desk.copy(tmp_path / "evidence")
    found = examples((DOCS / f"{page}.md").read_text(encoding="utf-8"))
    assert found
    for words, printed in found:
        done = cli(*words)
        assert done.returncode == (1 if printed.endswith("different: ...\n") else 0), (words, done.stderr)
        assert done.stderr == "", words
        assert re.fullmatch(pattern(printed), done.stdout), (words, pattern(printed), done.stdout)


def test_what_differs_is_still_matched() -> None:
    assert re.fullmatch(pattern("run 4b9ed9b9, 9 calls\n"), "run 00000000, 12 calls\n")
    assert not re.fullmatch(pattern("run 4b9ed9b9, 9 calls\n"), "run 4b9ed9b9, no calls\n")
    assert not re.fullmatch(pattern("equal ...\n"), "different\n")
    assert re.fullmatch(pattern("a\n...\nb ...\n"), "a\nx\ny\nb c\n")


@pytest.mark.parametrize("name", ["reading", "report"])
def test_links_lead_somewhere(name: str) -> None:
    text = (DOCS / f"{name}.md").read_text(encoding="utf-8")
    for target, anchor in re.findall(r"\]\(([\w./-]*)(?:#([\w-]+))?\)", text):
        page = text if not target else (DOCS / target).read_text(encoding="utf-8")
        heads = {
            re.sub(r"[^\w -]", "", head).strip().lower().replace(" ", "-")
            for head in re.findall(r"^#+ (.*)$", page, re.MULTILINE)
        }
        assert not anchor or anchor in heads, (target, anchor)
