"""The codes the formats' modules raise and the table of `errors.md` are the same set."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

SHARED = Path(__file__).resolve().parents[2]
SOURCE = SHARED / "counterfoil-core" / "src" / "counterfoil"
TABLE = (SHARED / "spec" / "errors.md").read_text(encoding="utf-8")

# Modules that put a family before a number, and how they spell the number.
FAMILIES = {
    "CF-CANON": ("_jcs.py", "_ijson.py"),
    "CF-PROOF": ("tree.py",),
    "CF-NOTE": ("notes.py",),
    "CF-DSSE": ("dsse.py",),
    "CF-BUNDLE": ("bundles/scanner.py", "bundles/lines.py", "bundles/blobtext.py", "bundles/content.py"),
    "CF-KEYS": (
        "_ed25519.py",
        "_heads.py",
        "_home.py",
        "_identity.py",
        "_keyring.py",
        "_locks.py",
        "_secret.py",
    ),
}
NUMBER = re.compile(r'"(0\d\d)"')


@pytest.mark.parametrize("family", FAMILIES)
def test_every_code_is_listed_once_and_raised_somewhere(family: str) -> None:
    listed = re.findall(rf"^\| ({family}-\d{{3}}) \|", TABLE, re.MULTILINE)
    assert listed == sorted(set(listed))
    code = "\n".join(
        re.sub(r'""".*?"""', "", (SOURCE / name).read_text(encoding="utf-8"), flags=re.DOTALL)
        for name in FAMILIES[family]
    )
    raised = {f"{family}-{number}" for number in NUMBER.findall(code)}
    raised |= set(re.findall(rf"{family}-\d{{3}}", code))
    assert raised <= set(listed)
    # Higher numbers of a family may belong to other modules.
    assert {each for each in listed if each <= max(raised)} == raised


LITERAL = re.compile(r"CF-[A-Z0-9]+-\d{3}")
LISTED = re.findall(r"^\| (CF-[A-Z0-9]+-\d{3}) \|", TABLE, re.MULTILINE)


def in_code() -> set[str]:
    """Codes written out in the code of every package, comments and docstrings left aside."""
    sources = [*SOURCE.rglob("*.py"), *SHARED.parent.glob("packages/*/src/**/*.py")]
    found: set[str] = set()
    for path in sources:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        docstrings = {
            id(node.value)
            for node in ast.walk(tree)
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
                found |= set(LITERAL.findall(node.value))
    return found


def test_every_code_in_the_code_is_listed() -> None:
    assert in_code() - set(LISTED) == set()


def test_every_listed_code_is_in_the_code_once() -> None:
    assert len(LISTED) == len(set(LISTED))
    written = {code for code in LISTED if not any(code.startswith(f"{family}-0") for family in FAMILIES)}
    assert written - in_code() == set()
