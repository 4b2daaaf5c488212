# /// script
# requires-python = ">=3.11"
# dependencies = ["nox>=2025.5.1"]
# ///
"""Every task of this repository.

    python3 noxfile.py            lint, types, tests, wheels: needs Python 3.11 and pip, nothing else
    python3 noxfile.py -s demo    the main job, shown
    python3 noxfile.py -l         all sessions

It is an ordinary noxfile as well (`nox -s tests`, `uv run noxfile.py -s tests`). Without nox it makes itself
one under .nox/.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent
CONSTRAINTS = ROOT / "constraints.txt"

# A developer's own recording must not reach into the sessions, nor the sessions into it.
for _name in [name for name in os.environ if name.startswith("COUNTERFOIL")]:
    del os.environ[_name]


def _bootstrap() -> int:
    """Run this file again under a nox of its own; returns the exit code.

    `pip install --target` works where the system's Python is externally managed (PEP 668), and virtualenv
    needs neither the venv module nor ensurepip, which Debian leaves out. nox itself must live in an
    environment, not under --target: its sessions call `python -m virtualenv` in processes of their own.
    """
    if sys.version_info < (3, 11):  # noqa: UP036 - this is where an older one is told
        sys.exit("counterfoil: Python 3.11 or newer is needed; this is " + sys.version.split()[0])
    pins = [
        line
        for line in CONSTRAINTS.read_text(encoding="utf-8").splitlines()
        if line.partition("==")[0] in ("nox", "virtualenv")
    ]
    key = hashlib.sha256("\n".join([sys.executable, sys.version, *pins]).encode()).hexdigest()[:12]
    home = ROOT / ".nox" / "_boot" / key
    tools, env, ready = home / "tools", home / "env", home / "ready"
    python = env / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    if not ready.exists():
        print("counterfoil: nox is not installed; making one under .nox/ (once)", flush=True)
        shutil.rmtree(home, ignore_errors=True)
        pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-c", str(CONSTRAINTS)]
        # PIP_USER: a user's own `user = true` cannot be combined with --target. COUNTERFOIL is off already.
        quiet = {**os.environ, "PIP_USER": "0", "PIP_ROOT_USER_ACTION": "ignore"}
        with_tools = {**quiet, "PYTHONPATH": str(tools)}
        for command, variables in (
            ([sys.executable, *pip, "--target", str(tools), "virtualenv"], quiet),
            ([sys.executable, "-m", "virtualenv", "--quiet", str(env)], with_tools),
            ([str(python), *pip, "nox"], quiet),
        ):
            done = subprocess.run(command, env=variables, check=False)
            if done.returncode:
                print(f"counterfoil: could not make nox: {' '.join(command)}", file=sys.stderr)
                return done.returncode
        ready.touch()
    return subprocess.run([str(python), str(ROOT / "noxfile.py"), *sys.argv[1:]], check=False).returncode


try:
    import nox
except ImportError:
    if __name__ != "__main__":
        raise
    sys.exit(_bootstrap())

nox.needs_version = ">=2025.5.1"
nox.options.sessions = ["lint", "types", "tests", "wheels"]
nox.options.default_venv_backend = "uv" if shutil.which("uv") else "virtualenv"

PROJECTS = sorted([path.parent for path in ROOT.glob("*/*/pyproject.toml")])
SOURCES = sorted(
    str(path.relative_to(ROOT)) for project in PROJECTS for path in project.glob("src/*counterfoil*")
)
_QUICK = "not slow and not long and not engines"
UNIT = ["shared", "packages", "examples"]
LARGE = {"dask", "parquet", "ray"}
"""Extras that only the session `engines` installs."""


class _Environment:
    """A virtualenv kept between runs and shared by the sessions it fits: installing is most of their time."""

    def __init__(self, session: nox.Session, name: str) -> None:
        if sys.version_info < (3, 11):  # noqa: UP036
            session.error("Python 3.11 or newer is needed to run nox here")
        self.session = session
        self.home = ROOT / ".nox" / f"{name}-{sys.version_info.major}.{sys.version_info.minor}"
        self.bin = self.home / ("Scripts" if os.name == "nt" else "bin")
        self.stamp = self.home / "counterfoil-installed.json"
        self.uv = shutil.which("uv")

    def run(self, command: str, *arguments: str, **variables: str) -> None:
        """Run a command of this environment with its folder first on PATH."""
        path = f"{self.bin}{os.pathsep}{os.environ['PATH']}"
        env = {"VIRTUAL_ENV": str(self.home), "PATH": path, **variables}
        self.session.run(str(self.bin / command), *arguments, env=env)

    def create(self) -> None:
        if self.uv:
            self.session.run(
                self.uv, "venv", "--quiet", "--clear", "--python", sys.executable, str(self.home)
            )
        else:
            self.session.run(sys.executable, "-m", "virtualenv", "--quiet", "--clear", str(self.home))

    def pip(self, *arguments: str) -> None:
        if self.uv:
            self.session.run(
                self.uv, "pip", "install", "--quiet", "--python", str(self.bin / "python"), *arguments
            )
        else:
            self.run("python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *arguments)

    def install(self, *groups: str) -> None:
        """Install this repository (editable) and dependency groups, unless that is done already."""
        decisive = [CONSTRAINTS, ROOT / "pyproject.toml"]
        for project in PROJECTS:
            decisive += [project / "pyproject.toml", *sorted(project.glob("*.pth"))]
        place = f"{ROOT} {sys.base_prefix} {sys.version}".encode()
        state = hashlib.sha256(b"\0".join([place, *(path.read_bytes() for path in decisive)])).hexdigest()
        known = json.loads(self.stamp.read_text(encoding="utf-8")) if self.stamp.exists() else {}
        done = set(known["groups"]) if known.get("state") == state else set()
        wanted = [group for group in ("build", *groups) if group not in done]
        if not wanted:
            return
        constrained = ("-c", str(CONSTRAINTS))
        if not done:
            self.create()
            self.pip(*constrained, *_requirements("build"))
            # No build isolation: one hatchling for all of them, instead of one environment each.
            self.pip(*constrained, "--no-build-isolation", *_editables(), *_requirements(*groups))
        else:
            self.pip(*constrained, *_requirements(*wanted))
        self.stamp.write_text(
            json.dumps({"state": state, "groups": sorted(done | set(wanted))}), encoding="utf-8"
        )


def _requirements(*groups: str) -> list[str]:
    """The requirements of dependency groups in the root pyproject.toml."""
    project = nox.project.load_toml(ROOT / "pyproject.toml")
    return list(dict.fromkeys(nox.project.dependency_groups(project, *groups)))


def _editables() -> list[str]:
    """`-e PATH[EXTRAS]` for every project with code, with all of its extras but the large ones."""
    arguments = []
    for project in PROJECTS:
        if (project / "src").is_dir():
            declared = nox.project.load_toml(project / "pyproject.toml")["project"]
            extras = set(declared.get("optional-dependencies", {})) - LARGE
            arguments += ["-e", f"{project}[{','.join(sorted(extras))}]" if extras else str(project)]
    return arguments


def _prepared(session: nox.Session, name: str, *groups: str) -> _Environment:
    environment = _Environment(session, name)
    environment.install(*groups)
    return environment


# The shared environments make sessions of their own needless.
shared = functools.partial(nox.session, venv_backend="none")


@shared
def lint(session: nox.Session) -> None:
    """ruff: rules, then layout (`-s format` mends both)."""
    dev = _prepared(session, "dev", "lint")
    dev.run("ruff", "check", ".")
    dev.run("ruff", "format", "--check", ".")


@shared
def format(session: nox.Session) -> None:
    """Mend what ruff can mend."""
    dev = _prepared(session, "dev", "lint")
    dev.run("ruff", "check", "--fix", ".")
    dev.run("ruff", "format", ".")


@shared
def types(session: nox.Session) -> None:
    """mypy --strict on every src tree."""
    _prepared(session, "dev", "types").run("mypy", *SOURCES)


@shared
def tests(session: nox.Session) -> None:
    """Unit tests of the core, the packages and the examples; arguments go to pytest."""
    # A file's tests stay in one process, in order; named tests run in this one, where a debugger works.
    spread = [] if session.posargs else ["-n", "auto", "--dist", "loadfile"]
    _prepared(session, "dev", "test").run("pytest", "-m", _QUICK, *spread, *(session.posargs or UNIT))


@shared
def wheels(session: nox.Session) -> None:
    """Build the wheels, install them in a clean environment, run the README's quick start there."""
    dev = _prepared(session, "dev", "test")
    dev.run("pytest", "integrations-tests/test_fresh_install.py", *session.posargs)


@shared
def demo(session: nox.Session) -> None:
    """The main job, shown: `counterfoil demo`; arguments go to it."""
    # The demo's identity is nobody's: it must not land among the user's own keys.
    home = str(ROOT / ".nox" / "home")
    _prepared(session, "dev").run("counterfoil", "demo", *session.posargs, COUNTERFOIL_HOME=home)


@shared
def integrations(session: nox.Session) -> None:
    """By journey: real frameworks, real sockets, real processes; arguments go to pytest."""
    others = ("wheels", "interop", "verifier", "s3", "engines", "tradingagents")
    chosen = " and ".join([_QUICK, *(f"not {mark}" for mark in others)])
    # What needs a cluster's packages cannot even be imported here.
    found = sorted((ROOT / "integrations-tests").glob("test_*.py"))
    files = [path for path in found if "pytest.mark.engines" not in path.read_text(encoding="utf-8")]
    paths = session.posargs or [str(path) for path in files]
    _prepared(session, "frameworks", "integrations").run("pytest", "-m", chosen, *paths)


@shared
def slow(session: nox.Session) -> None:
    """Every test marked slow: a quarter of an hour."""
    _marked(session, "slow")


@shared
def long(session: nox.Session) -> None:
    """Every test marked long, exhaustive or by the million: more than an hour."""
    _marked(session, "long")


def _marked(session: nox.Session, mark: str) -> None:
    files = [path for folder in (*UNIT, "integrations-tests") for path in (ROOT / folder).rglob("test_*.py")]
    chosen = sorted(str(path) for path in files if f"pytest.mark.{mark}" in path.read_text(encoding="utf-8"))
    frameworks = _prepared(session, "frameworks", "integrations")
    spread = [] if session.posargs else ["-n", "auto", "--dist", "load"]
    frameworks.run("pytest", "-m", f"{mark} and not tradingagents", *spread, *(session.posargs or chosen))


@shared
def interop(session: nox.Session) -> None:
    """Go's own packages for transparency logs read an exported log (Debian: golang-go, golang-golang-x-mod-dev)."""
    packages = ["golang-go", "golang-golang-x-mod-dev"]
    there = shutil.which("go") and Path("/usr/share/gocode/src/golang.org/x/mod/sumdb/tlog").is_dir()
    if not there and os.geteuid() == 0 and shutil.which("apt-get"):
        quiet = {"DEBIAN_FRONTEND": "noninteractive"}
        session.run("apt-get", "-qq", "update", external=True, env=quiet)
        install = ("apt-get", "-qq", "install", "-y", "--no-install-recommends", *packages)
        session.run(*install, external=True, env=quiet, silent=True)
    elif not there:
        session.error(
            f"not run: Go is missing, and only root can install it: apt-get install {' '.join(packages)}"
        )
    paths = session.posargs or ["integrations-tests/test_tlog_go.py"]
    _prepared(session, "dev", "test").run("pytest", "-m", "interop", *paths)


@shared
def verifier(session: nox.Session) -> None:
    """The second verifier: every golden vector, then both on fresh, damaged and bundled evidence; needs Node >= 20."""
    node = shutil.which("node")
    said = session.run(node, "--version", silent=True, external=True) if node else None
    version = re.match(r"v(\d+)", str(said))
    if not node or not version or int(version[1]) < 20:
        session.error(
            f"not run: Node 20 or newer is needed, and this is {str(said).strip() if said else 'missing'}"
        )
    files = sorted(str(path) for path in (ROOT / "shared" / "verifier-js" / "test").glob("*.test.mjs"))
    session.run(node, "--test", *files, external=True)
    paths = session.posargs or [
        "integrations-tests/test_second_verifier.py",
        "integrations-tests/test_second_verifier_types.py",
        "integrations-tests/test_second_verifier_fuzz.py",
    ]
    _prepared(session, "dev", "test").run("pytest", "-m", "verifier", *paths)


@shared
def s3(session: nox.Session) -> None:
    """Evidence in a bucket: an S3 server from a wheel, first tried whether it enforces Object Lock, then every test."""
    paths = session.posargs or sorted(
        str(path) for path in (ROOT / "integrations-tests").glob("test_s3_*.py")
    )
    _prepared(session, "dev", "s3").run("pytest", "-m", "s3", *paths)


@shared
def engines(session: nox.Session) -> None:
    """Verification on Dask and Ray with workers that are killed, and exports to Parquet audited by SQL."""
    folders = (ROOT / "integrations-tests", ROOT / "shared" / "counterfoil-core" / "tests")
    found = [path for folder in folders for path in sorted(folder.glob("test_*.py"))]
    files = [path for path in found if "pytest.mark.engines" in path.read_text(encoding="utf-8")]
    paths = session.posargs or [str(path) for path in files]
    _prepared(session, "engines", "engines").run("pytest", "-m", "engines", *paths)


@shared
def tradingagents(session: nox.Session) -> None:
    """The real application, unmodified; TRADINGAGENTS_CHECKOUT names a checkout of it."""
    checkout = os.environ.get("TRADINGAGENTS_CHECKOUT", "")
    if not checkout:
        session.log("TRADINGAGENTS_CHECKOUT names no checkout of TauricResearch/TradingAgents: nothing run.")
        return
    if not Path(checkout, "tradingagents").is_dir():
        session.error(f"TRADINGAGENTS_CHECKOUT={checkout} holds no folder named tradingagents")
    paths = session.posargs or ["integrations-tests/test_tradingagents.py"]
    _prepared(session, "frameworks", "tradingagents").run("pytest", "-m", "tradingagents", *paths)


@shared
def bench(session: nox.Session) -> None:
    """Run the benchmarks: all, or those named (`-s bench -- NAME`)."""
    names = session.posargs or [path.stem for path in sorted((ROOT / "benchmarks").glob("[!_]*.py"))]
    if not names:
        session.error("benchmarks/ holds no script")
    for name in names:
        group = "engines" if name == "engines" else "integrations"
        frameworks = _prepared(session, "engines" if name == "engines" else "frameworks", group)
        frameworks.run("python", str(ROOT / "benchmarks" / f"{name}.py"))


@nox.session
def floors(session: nox.Session) -> None:
    """The core's tests on the lowest versions that its pyproject allows."""
    core = ROOT / "shared" / "counterfoil-core"
    project = nox.project.load_toml(core / "pyproject.toml")["project"]
    declared = [*project["dependencies"], *project["optional-dependencies"]["cli"]]
    lowest = [requirement.replace(">=", "==") for requirement in declared]
    session.install("--quiet", *lowest, *_requirements("pytest"), "-e", str(core))
    session.run("pytest", "-m", _QUICK, *(session.posargs or [str(core / "tests")]))


@nox.session
def constraints(session: nox.Session) -> None:
    """Resolve everything anew, unconstrained, and write constraints.txt: names and versions only."""
    groups = nox.project.load_toml(ROOT / "pyproject.toml")["dependency-groups"]
    session.install("--quiet", *_requirements("build"))
    session.install("--quiet", "--no-build-isolation", "nox", "pip", *_requirements(*groups), *_editables())
    listing = session.run("python", "-m", "pip", "list", "--format", "json", silent=True)
    versions = {
        re.sub(r"[-_.]+", "-", item["name"]).lower(): item["version"] for item in json.loads(str(listing))
    }
    head = "# Tested versions, for `-c`. Written by `python3 noxfile.py -s constraints`.\n"
    ours = ("pip", *(project.name for project in PROJECTS))
    lines = [f"{name}=={version}\n" for name, version in sorted(versions.items()) if name not in ours]
    CONSTRAINTS.write_text(head + "".join(lines), encoding="utf-8")


if __name__ == "__main__":
    nox.main()
