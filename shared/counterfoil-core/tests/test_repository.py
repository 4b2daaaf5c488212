"""What holds for the repository as a whole: one version, one licence, nothing of any machine in it."""

from __future__ import annotations

import os
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PROJECTS = {path.parent.name: path.parent for path in sorted(ROOT.glob("*/*/pyproject.toml"))}
TABLES = {
    name: tomllib.loads((path / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for name, path in PROJECTS.items()
}
VERSION = TABLES["counterfoil-core"]["version"]

# Put together here, so that this file does not hold what it forbids.
HOSTS = [
    ".".join(parts)
    for parts in (
        ("pypi", "org"),
        ("pythonhosted", "org"),
        ("registry", "npmjs", "org"),
        ("registry", "yarnpkg", "com"),
        ("deb", "debian", "org"),
        ("proxy", "golang", "org"),
        ("crates", "io"),
        ("repo", "maven", "apache", "org"),
    )
]
HOME = re.compile(rb"(?<![\w.$}-])/(?:home/[a-z_][\w.-]*|Users/[A-Za-z][\w.-]*|root)/")


def files() -> list[Path]:
    """Every file that is or would be tracked: git's own answer, or a walk where this is no git work tree."""
    listing = ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        done = subprocess.run(listing, capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        passed = {
            ".git",
            ".nox",
            ".venv",
            "__pycache__",
            ".mypy_cache",
            ".ruff_cache",
            ".pytest_cache",
            ".hypothesis",
        }
        found = []
        for folder, folders, names in os.walk(ROOT):
            folders[:] = [name for name in folders if name not in passed]
            found += [Path(folder, name) for name in names]
        return found
    return [
        path for name in done.stdout.split(b"\0") if name and (path := ROOT / os.fsdecode(name)).is_file()
    ]


def findings(data: bytes) -> list[str]:
    """What of a machine stands in a file."""
    found = [host for host in HOSTS if host.encode() in data]
    found += [match.group().decode() for match in HOME.finditer(data)]
    if len(ROOT.parts) > 2 and f"{ROOT}/".encode() in data:
        found.append(f"{ROOT}/")
    return found


def test_versions_are_in_lockstep() -> None:
    assert {name: table["version"] for name, table in TABLES.items()} == dict.fromkeys(TABLES, VERSION)


def test_siblings_are_pinned_to_the_same_version() -> None:
    wrong = []
    for name, table in TABLES.items():
        extras = table.get("optional-dependencies", {})
        for requirement in (*table["dependencies"], *(line for lines in extras.values() for line in lines)):
            sibling, _, version = re.sub(r"\[.*?\]", "", requirement).partition("==")
            if sibling.startswith("counterfoil") and sibling != name and version != VERSION:
                wrong.append(f"{name}: {requirement}")
    assert wrong == []


def test_packages_tell_the_version_of_their_distribution() -> None:
    written = re.compile(r"^__version__(?:: [\w.\[\]]+)? = [\"'](.*)[\"']$", re.MULTILINE)
    texts = {path: path.read_text(encoding="utf-8") for path in ROOT.glob("*/*/src/*/_*.py")}
    told = {path.parent.name: match[1] for path, text in texts.items() if (match := written.search(text))}
    assert "counterfoil" in told
    assert set(told.values()) == {VERSION}


def test_the_changelog_knows_the_version() -> None:
    assert f"## {VERSION}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", PROJECTS)
def test_every_distribution_is_complete(name: str) -> None:
    project, table = PROJECTS[name], TABLES[name]
    assert table["name"] == name
    assert table["requires-python"] == ">=3.11"
    assert (project / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()
    assert (project / "README.md").read_text(encoding="utf-8").startswith(f"# {name}\n")
    assert [
        path
        for path in project.glob("src/*/")
        if not (path / "py.typed").is_file() and path.name != "__pycache__"
    ] == []


def test_every_package_with_an_extra_is_in_all() -> None:
    extras = TABLES["counterfoil"]["optional-dependencies"]
    # Clusters and columns are hundreds of megabytes that few need.
    packages = sorted(set(extras) - {"all", "demo", "dask", "parquet", "ray"})
    assert extras["all"] == [f"counterfoil[{','.join(packages)}]"]


def test_constraints_hold_names_and_versions_only() -> None:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = [line for line in lines if not line.startswith("#")]
    assert [line for line in pins if not re.fullmatch(r"[a-z0-9-]+==[0-9A-Za-z.!]+", line)] == []
    names = [line.partition("==")[0] for line in pins]
    assert names == sorted(set(names))
    needed = {
        re.split(r"[\[<>=!~; ]", line)[0] for table in TABLES.values() for line in table["dependencies"]
    }
    assert {name for name in needed if not name.startswith("counterfoil")} - set(names) == set()


def test_no_file_names_a_registry_host_or_a_home_directory() -> None:
    looked_at = files()
    assert ROOT / "constraints.txt" in looked_at
    assert {
        str(path.relative_to(ROOT)): found for path in looked_at if (found := findings(path.read_bytes()))
    } == {}


@pytest.mark.parametrize(
    "data", [*HOSTS, "see /" + "home/ann/x", "/" + "Users/Ann/y", "cd /" + "root/z", f"{ROOT}/noxfile.py"]
)
def test_the_scan_for_hosts_and_homes_finds_them(data: str) -> None:
    assert findings(data.encode())


@pytest.mark.parametrize(
    "data", ["https://example.com/" + "home/ann/x", "$DIR/" + "root/z", "/" + "home/", "a/" + "root/b"]
)
def test_the_scan_for_hosts_and_homes_leaves_others(data: str) -> None:
    assert findings(data.encode()) == []
