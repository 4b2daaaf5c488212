"""The layer rule: the core knows no framework, adapters use the public door, imports make no circle."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
CORE = ROOT / "shared" / "counterfoil-core"
ADAPTERS = {
    path.name: path
    for path in sorted(ROOT.glob("packages/*/src/*"))
    if path.is_dir() and "." not in path.name
}

# Import names of distributions whose name differs from it.
IMPORT_NAMES: dict[str, str] = {}

# Longer than 350 lines, for a reason; 500 is the ceiling all the same.
LONGER: dict[str, str] = {}


@dataclass(frozen=True, slots=True)
class Import:
    """One imported module, and the name taken from it (None: the module itself)."""

    module: str
    name: str | None
    line: int


def modules(folder: Path) -> dict[str, Path]:
    """Dotted names of every module below a package's folder."""
    found = {}
    for path in sorted(folder.rglob("*.py")):
        parts = path.relative_to(folder.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def statements(node: ast.AST) -> Iterator[ast.AST]:
    """Every node that can run, now or later; TYPE_CHECKING blocks never do."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test):
            for other in child.orelse:
                yield other
                yield from statements(other)
            continue
        yield child
        yield from statements(child)


def imports(module: str, path: Path) -> list[Import]:
    """Every import of a module, relative ones resolved, `import_module("x")` and the like included."""
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    found = []
    for node in statements(parse(path)):
        if isinstance(node, ast.Import):
            found += [Import(alias.name, None, node.lineno) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            source = ".".join([*base, *([node.module] if node.module else [])])
            found += [Import(source, alias.name, node.lineno) for alias in node.names]
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if called in ("import_module", "__import__") and isinstance(node.args[0].value, str):
                found.append(Import(node.args[0].value, None, node.lineno))
    return found


def exported(path: Path) -> set[str] | None:
    """The names in a module's literal `__all__`; None without one."""
    for node in parse(path).body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(isinstance(target, ast.Name) and target.id == "__all__" for target in targets):
                return set(ast.literal_eval(node.value))
    return None


def declared(project: Path) -> tuple[set[str], dict[str, set[str]]]:
    """Import names of a project's dependencies, and of each extra's."""

    def names(requirements: list[str]) -> set[str]:
        found = set()
        for requirement in requirements:
            name = requirement
            for mark in "[<>=!~; ":
                name = name.partition(mark)[0]
            found.add(IMPORT_NAMES.get(name, name.replace("-", "_")))
        return found

    table = tomllib.loads((project / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = {extra: names(lines) for extra, lines in table.get("optional-dependencies", {}).items()}
    return names(table["dependencies"]), extras


CORE_MODULES = modules(CORE / "src" / "counterfoil")


def test_the_scan_sees_the_tree() -> None:
    assert "counterfoil.errors" in CORE_MODULES
    assert "counterfoil_langchain" in ADAPTERS


OPTIONAL = {
    "counterfoil._checksum": {"zlib_ng"},  # zlib does where it is not installed
    "counterfoil.environment.gpu": {"pynvml"},  # imported only where a driver's library was found
}


def test_core_imports_only_the_standard_library_and_its_dependencies() -> None:
    dependencies, extras = declared(CORE)
    allowed = dependencies | {"counterfoil"} | sys.stdlib_module_names
    wrong = []
    for module, path in {
        **CORE_MODULES,
        "_counterfoil_autostart": CORE / "src/_counterfoil_autostart.py",
    }.items():
        if module.startswith("counterfoil.cli"):
            here = allowed | extras["cli"]
        elif module.startswith("counterfoil.stores.s3."):  # imported only for an s3:// address
            here = allowed | extras["s3"]
        else:
            here = allowed | OPTIONAL.get(module, set())
        taken = [(found.module, found.line) for found in imports(module, path)]
        wrong += [f"{module}:{line} {name}" for name, line in taken if name.partition(".")[0] not in here]
    assert wrong == []


def test_importing_the_core_loads_no_adapter_and_no_framework() -> None:
    code = """
import importlib, json, sys
sys.path.insert(0, sys.argv[1])
before = set(sys.modules)
for name in json.loads(sys.argv[2]):
    importlib.import_module(name)
print(json.dumps(sorted({name.partition(".")[0] for name in set(sys.modules) - before})))
"""
    names = [
        name for name in CORE_MODULES if "__main__" not in name and not name.startswith("counterfoil.cli")
    ]
    command = [sys.executable, "-c", code, str(CORE / "src"), json.dumps(names)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    loaded = set(json.loads(done.stdout))
    assert "counterfoil" in loaded
    frameworks = {
        "langchain",
        "langchain_core",
        "langgraph",
        "langsmith",
        "llama_index",
        "llama_index_instrumentation",
    }
    frameworks |= {
        "openai",
        "anthropic",
        "opentelemetry",
        "pytest",
        "typer",
        "rich",
        "httpx",
        "requests",
        "boto3",
        "botocore",
        "obstore",
    }
    assert loaded & (frameworks | set(ADAPTERS)) == set()


def test_core_has_no_import_circle() -> None:
    """Imports inside functions count: a circle that is only put off is still one."""
    graph: dict[str, set[str]] = {}
    for module, path in CORE_MODULES.items():
        edges = set()
        for found in imports(module, path):
            submodule = f"{found.module}.{found.name}"
            target = submodule if submodule in CORE_MODULES else found.module
            if target in CORE_MODULES and target != module:
                edges.add(target)
        graph[module] = edges
    done: set[str] = set()

    def circle(module: str, trail: tuple[str, ...]) -> tuple[str, ...]:
        if module in trail:
            return (*trail[trail.index(module) :], module)
        if module in done:
            return ()
        for target in sorted(graph[module]):
            if found := circle(target, (*trail, module)):
                return found
        done.add(module)
        return ()

    for module in graph:
        found = circle(module, ())
        assert not found, " -> ".join(found)


def private_uses(module: str, path: Path) -> list[str]:
    """What a module outside the core takes from `counterfoil` that is not public."""
    wrong = []
    bound: dict[str, str] = {}
    for node in ast.walk(parse(path)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.partition(".")[0] == "counterfoil":
                    bound[alias.asname or "counterfoil"] = alias.name if alias.asname else "counterfoil"
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            for alias in node.names:
                if f"{node.module}.{alias.name}" in CORE_MODULES:
                    bound[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    found = [found for found in imports(module, path) if found.module.partition(".")[0] == "counterfoil"]
    taken = [(one.module, one.name, one.line) for one in found]
    for node in ast.walk(parse(path)):
        if isinstance(node, ast.Attribute):
            dotted, value = [node.attr], node.value
            while isinstance(value, ast.Attribute):
                dotted.insert(0, value.attr)
                value = value.value
            if isinstance(value, ast.Name) and value.id in bound:
                source = bound[value.id]
                while f"{source}.{dotted[0]}" in CORE_MODULES and len(dotted) > 1:
                    source = f"{source}.{dotted.pop(0)}"
                taken.append((source, dotted[0], node.lineno))
    for source, name, line in taken:
        where = f"{module}:{line} {source}{f'.{name}' if name else ''}"
        parts = [*source.split("."), *([name] if name else [])]
        if any(part.startswith("_") and part != "__version__" for part in parts):
            wrong.append(f"{where} is private")
        elif source not in CORE_MODULES:
            wrong.append(f"{where} does not exist")
        elif (
            name
            and f"{source}.{name}" not in CORE_MODULES
            and name not in (exported(CORE_MODULES[source]) or ())
        ):
            wrong.append(f"{where} is not in __all__")
    return wrong


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_adapters_use_only_public_names_of_the_core(adapter: str) -> None:
    wrong = [use for module, path in modules(ADAPTERS[adapter]).items() for use in private_uses(module, path)]
    assert wrong == []


@pytest.mark.parametrize(
    ("code", "complaint"),
    [
        ("from counterfoil.errors import _rebuild", "is private"),
        ("from counterfoil.errors import CounterfoilError as E", ""),
        ("from counterfoil.errors import annotations", "is not in __all__"),
        ("import counterfoil.errors as e\ne._rebuild", "is private"),
        ("import counterfoil.errors\ncounterfoil.errors.ConfigError", ""),
        ("from counterfoil import errors\nerrors.nothing", "is not in __all__"),
        ("def later():\n    from counterfoil._hidden import x", "is private"),
        ("from counterfoil.no_such_module import x", "does not exist"),
    ],
)
def test_the_scan_for_private_names_finds_them(tmp_path: Path, code: str, complaint: str) -> None:
    path = tmp_path / "adapter.py"
    path.write_text(code, encoding="utf-8")
    wrong = private_uses("adapter", path)
    assert bool(wrong) == bool(complaint), wrong
    assert all(complaint in use for use in wrong)


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_adapters_register_through_the_hook_specs_entry_points(adapter: str) -> None:
    table = tomllib.loads((ADAPTERS[adapter].parents[1] / "pyproject.toml").read_text(encoding="utf-8"))[
        "project"
    ]
    targets = [target.partition(":")[0] for target in table["entry-points"]["counterfoil"].values()]
    assert targets
    assert all(target in modules(ADAPTERS[adapter]) for target in targets), targets


@pytest.mark.parametrize("leaf", ["counterfoil_replay", "counterfoil_audit"])
def test_nothing_imports_replay_or_audit(leaf: str) -> None:
    everything = dict(CORE_MODULES)
    for adapter, folder in ADAPTERS.items():
        everything.update(modules(folder) if adapter != leaf else {})
    wrong = [
        f"{module}:{found.line}"
        for module, path in everything.items()
        for found in imports(module, path)
        if found.module.partition(".")[0] == leaf
    ]
    assert wrong == []


def test_the_map_names_every_module() -> None:
    """``docs/core.md``: a newcomer finds what a module is for beside its neighbours, and no name that is gone."""
    text = (ROOT / "docs" / "core.md").read_text(encoding="utf-8")
    tables = "\n".join(line for line in text.splitlines() if line.startswith("| "))
    named = set(re.findall(r"`(\w+/?)`", tables))
    core = CORE / "src" / "counterfoil"
    there = {path.stem for path in core.glob("*.py")} | {
        f"{path.parent.name}/" for path in core.glob("*/__init__.py")
    }
    assert named == there - {"__init__"}


def test_modules_stay_short() -> None:
    long = {}
    for folder in (CORE / "src", *(path.parent for path in ADAPTERS.values())):
        for path in folder.rglob("*.py"):
            lines = len(path.read_text(encoding="utf-8").splitlines())
            name = str(path.relative_to(ROOT))
            if lines > (500 if name in LONGER else 350):
                long[name] = lines
    assert long == {}
