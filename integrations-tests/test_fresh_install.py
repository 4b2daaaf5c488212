"""The promise `pip install "counterfoil[langchain]"`: wheels, a clean environment, the quick start."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest

pytestmark = pytest.mark.wheels

ROOT = Path(__file__).resolve().parents[1]
PROJECTS = sorted(path.parent for path in ROOT.glob("*/*/pyproject.toml"))

APP = """
from typing import TypedDict

from langchain_core.language_models import FakeListChatModel
from langgraph.graph import END, START, StateGraph


class State(TypedDict):
    question: str
    answer: str


def ask(state: State) -> dict:
    return {"answer": FakeListChatModel(responses=["41"]).invoke(state["question"]).content}


graph = StateGraph(State).add_node("asker", ask).add_edge(START, "asker").add_edge("asker", END).compile()
print(graph.invoke({"question": "6 * 7?", "answer": ""})["answer"])
"""


def run(*command: str | Path, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    variables = {**os.environ, **environment}
    for name in {"PYTHONPATH", "VIRTUAL_ENV"} - set(environment):
        variables.pop(name, None)
    words = [str(word) for word in command]
    return subprocess.run(words, cwd=cwd, env=variables, capture_output=True, text=True, check=False)


def succeed(*command: str | Path, cwd: Path, **environment: str) -> str:
    done = run(*command, cwd=cwd, **environment)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def readme() -> str:
    path = ROOT / "README.md"
    assert path.is_file(), "the repository has no README.md"
    return path.read_text(encoding="utf-8")


def readme_install_line(text: str) -> list[str]:
    """What the README's own `pip install` line installs."""
    lines = re.findall(r"^\s*(?:\$ )?pip install (.*counterfoil\[.*)$", text, re.MULTILINE)
    assert lines, 'README.md has no line `pip install "counterfoil[...]"`'
    return shlex.split(lines[0], comments=True)


def readme_quick_start(text: str) -> str:
    """The Python block that follows the marker `<!-- quick-start -->`."""
    blocks = re.findall(r"<!-- quick-start -->\s*```python\n(.*?)\n```", text, re.DOTALL)
    assert len(blocks) == 1, f"README.md has {len(blocks)} Python blocks after `<!-- quick-start -->`, not 1"
    return str(blocks[0])


@dataclass(frozen=True, slots=True)
class Fresh:
    """Wheels, and an environment that holds what they bring and nothing else of this repository."""

    wheels: Path
    bin: Path
    home: Path

    def wheel(self, name: str) -> zipfile.ZipFile:
        (path,) = self.wheels.glob(f"{name}-[0-9]*.whl")
        return zipfile.ZipFile(path)

    @property
    def python(self) -> Path:
        return self.bin / "python"


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Wheels of every project, built from its sdist as for a release."""
    out = tmp_path_factory.mktemp("dist")
    for project in PROJECTS:
        succeed(sys.executable, "-m", "build", "--no-isolation", "--outdir", out, project, cwd=ROOT)
    return out


@pytest.fixture(scope="module")
def fresh(wheels: Path, tmp_path_factory: pytest.TempPathFactory) -> Fresh:
    folder = tmp_path_factory.mktemp("fresh")
    succeed(sys.executable, "-m", "virtualenv", "--quiet", folder / "env", cwd=folder)
    scripts = folder / "env" / ("Scripts" if os.name == "nt" else "bin")
    wanted = readme_install_line(readme())
    pip = (scripts / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    succeed(*pip, "-c", ROOT / "constraints.txt", "--find-links", wheels, *wanted, cwd=folder)
    return Fresh(wheels=wheels, bin=scripts, home=folder / "home")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An empty working folder outside the repository."""
    assert ROOT not in tmp_path.parents
    return tmp_path


def test_the_core_wheel_brings_types_licence_and_autostart(fresh: Fresh) -> None:
    with fresh.wheel("counterfoil_core") as wheel:
        names = set(wheel.namelist())
        autostart = wheel.read("counterfoil-autostart.pth")
    assert autostart == (ROOT / "shared" / "counterfoil-core" / "counterfoil-autostart.pth").read_bytes()
    assert {"counterfoil/py.typed", "counterfoil/errors.py", "_counterfoil_autostart.py"} <= names
    assert any(name.endswith("licenses/LICENSE") for name in names)
    tops = {name.partition("/")[0] for name in names if ".dist-info/" not in name}
    assert tops == {"counterfoil", "_counterfoil_autostart.py", "counterfoil-autostart.pth"}


def test_the_wheel_people_install_has_no_code(fresh: Fresh) -> None:
    with fresh.wheel("counterfoil") as wheel:
        assert [name for name in wheel.namelist() if ".dist-info/" not in name] == []


def test_the_langchain_wheel_is_typed_and_found_by_entry_point(fresh: Fresh) -> None:
    with fresh.wheel("counterfoil_langchain") as wheel:
        assert "counterfoil_langchain/py.typed" in wheel.namelist()
    code = "from importlib.metadata import entry_points; print(*entry_points(group='counterfoil').names)"
    assert "langchain" in succeed(fresh.python, "-c", code, cwd=fresh.bin).split()


def test_what_is_installed_fits_together(fresh: Fresh, folder: Path) -> None:
    succeed(fresh.python, "-m", "pip", "--disable-pip-version-check", "check", cwd=folder)
    code = "import counterfoil, counterfoil_langchain; print(counterfoil.__file__)"
    assert "site-packages" in succeed(fresh.python, "-c", code, cwd=folder)
    assert "usage" in succeed(fresh.bin / "counterfoil", "--help", cwd=folder).lower()


@pytest.mark.parametrize("value", ["", "0", "false", "off"])
def test_autostart_off_costs_no_import(fresh: Fresh, folder: Path, value: str) -> None:
    code = "import sys; print([name for name in sys.modules if 'counterfoil' in name])"
    assert succeed(fresh.python, "-c", code, cwd=folder, COUNTERFOIL=value) == "[]\n"
    assert list(folder.iterdir()) == []


def test_autostart_that_fails_is_one_line(fresh: Fresh, folder: Path) -> None:
    broken = folder / "counterfoil"
    broken.mkdir()
    (broken / "__init__.py").write_text("raise RuntimeError('broken')\n", encoding="utf-8")
    done = run(fresh.python, "-c", "print('app')", cwd=folder, COUNTERFOIL="evidence", PYTHONPATH=str(folder))
    assert (done.returncode, done.stdout) == (0, "app\n")
    assert done.stderr == "counterfoil: cannot record (RuntimeError: broken); going on without a record\n"


def verified(fresh: Fresh, evidence: Path, home: Path) -> dict[str, object]:
    command = (fresh.bin / "counterfoil", "verify", evidence, "--json")
    result = json.loads(succeed(*command, cwd=evidence.parent, COUNTERFOIL_HOME=str(home)))
    assert result["verdict"] == "intact", result
    return dict(result)


def test_an_unchanged_application_is_recorded_by_the_variable_alone(fresh: Fresh, folder: Path) -> None:
    app = folder / "app.py"
    app.write_text(APP, encoding="utf-8")
    evidence, home = folder / "evidence", folder / "home"
    assert succeed(fresh.python, app, cwd=folder, COUNTERFOIL_HOME=str(home)) == "41\n"
    assert not evidence.exists()
    assert (
        succeed(fresh.python, app, cwd=folder, COUNTERFOIL=str(evidence), COUNTERFOIL_HOME=str(home))
        == "41\n"
    )
    counts = verified(fresh, evidence, home)["counts"]
    assert isinstance(counts, dict)
    assert counts["runs"] >= 1
    assert counts["losses"] == 0


def test_the_readmes_quick_start_runs_and_leaves_intact_evidence(fresh: Fresh, folder: Path) -> None:
    script = folder / "quick_start.py"
    script.write_text(readme_quick_start(readme()), encoding="utf-8")
    home = folder / "home"
    succeed(fresh.python, script, cwd=folder, COUNTERFOIL_HOME=str(home))
    made = [path for path in folder.iterdir() if path.is_dir() and path != home]
    assert made, "the quick start left no evidence in its working folder"
    for evidence in made:
        verified(fresh, evidence, home)


def test_a_readme_without_its_blocks_is_an_error() -> None:
    with pytest.raises(AssertionError, match="0 Python blocks"):
        readme_quick_start("# counterfoil\n```python\nprint()\n```\n")
    with pytest.raises(AssertionError, match="no line"):
        readme_install_line("pip install something-else\n")
    assert readme_quick_start("<!-- quick-start -->\n\n```python\na = 1\nb = 2\n```\n") == "a = 1\nb = 2"
    both = readme_install_line('    pip install "counterfoil[langchain]" langgraph  # both\n')
    assert both == ["counterfoil[langchain]", "langgraph"]
