"""Every public name of the core says what it is for."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[1] / "src" / "counterfoil"
MODULES = sorted(path for path in SOURCE.rglob("*.py") if path.name != "__main__.py")
Defined = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def listed(tree: ast.Module) -> set[str]:
    """What ``__all__`` names."""
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else []
        if any(isinstance(target, ast.Name) and target.id == "__all__" for target in targets):
            return set(ast.literal_eval(node.value))  # type: ignore[attr-defined]
    return set()


def silent(tree: ast.Module, *, private: bool = False) -> Iterator[str]:
    """Definitions without a docstring that are listed or, but in a private module, have no underscore before them."""
    names = listed(tree)
    for node in tree.body:
        if isinstance(node, Defined) and (node.name in names or (node.name[0] != "_" and not private)):
            if not ast.get_docstring(node):
                yield f"{node.lineno} {node.name}"


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_public_names_have_docstrings(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    assert ast.get_docstring(tree), "the module itself"
    assert list(silent(tree, private=path.name[0] == "_")) == []


def test_a_silent_name_is_found() -> None:
    told = '__all__ = ["_listed", "told"]\ndef told():\n    "Yes."\n'
    text = told + "def _listed(): ...\nclass Public: ...\ndef _own(): ...\n"
    assert list(silent(ast.parse(text))) == ["4 _listed", "5 Public"]
    assert list(silent(ast.parse(text), private=True)) == ["4 _listed"]
