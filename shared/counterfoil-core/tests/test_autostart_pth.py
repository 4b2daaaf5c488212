"""The .pth file: nothing when off, one call when on, one line when it fails."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

CORE = Path(__file__).resolve().parents[1]
PTH = CORE / "counterfoil-autostart.pth"
STARTED = "import sys; print('recording', file=sys.stderr)"


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A site folder with the real .pth file and guard, and no counterfoil yet."""
    shutil.copy(PTH, tmp_path)
    shutil.copy(CORE / "src" / "_counterfoil_autostart.py", tmp_path)
    return tmp_path


def package(site: Path, *, boot: str) -> None:
    folder = site / "counterfoil"
    folder.mkdir()
    (folder / "__init__.py").write_text("", encoding="utf-8")
    body = "\n    ".join(boot.splitlines())
    (folder / "autostart.py").write_text(f"def boot():\n    {body}\n", encoding="utf-8")


def start(site: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """An interpreter that handles the .pth files of `site` as it does those of site-packages."""
    seen = "[name for name in sys.modules if 'counterfoil' in name]"
    # Twice, as site.py does in a virtual environment.
    code = f"import site, sys; [site.addsitedir({str(site)!r}) for _ in range(2)]; print('app', *{seen})"
    command = [sys.executable, "-I", "-S", "-c", code]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_the_file_is_one_line() -> None:
    assert PTH.read_text(encoding="ascii").count("\n") == 1


@pytest.mark.parametrize("value", [None, "", "0", "false", "off", "False", "OFF", " off "])
def test_off_imports_nothing(site: Path, value: str | None) -> None:
    package(site, boot=STARTED)
    done = start(site, **({} if value is None else {"COUNTERFOIL": value}))
    assert (done.returncode, done.stdout, done.stderr) == (0, "app\n", "")


@pytest.mark.parametrize("value", ["evidence/", "1", "s3://bucket/prefix"])
def test_on_boots(site: Path, value: str) -> None:
    package(site, boot=STARTED)
    done = start(site, COUNTERFOIL=value)
    assert (done.returncode, done.stderr) == (0, "recording\n")
    assert "counterfoil.autostart" in done.stdout.split()


@pytest.mark.parametrize(
    "failure", ["raise ValueError('a\\nb')", "raise SystemExit('a b')", "import no_such_module", "1 / 0"]
)
@pytest.mark.parametrize("mode", ["", "observe"])
def test_a_failure_is_one_line_and_the_application_runs(site: Path, failure: str, mode: str) -> None:
    package(site, boot=failure)
    done = start(site, COUNTERFOIL="evidence", COUNTERFOIL_MODE=mode)
    assert (done.returncode, done.stdout.split()[0]) == (0, "app")
    assert done.stderr.startswith("counterfoil: cannot record (")
    assert done.stderr.endswith("); going on without a record\n")
    assert done.stderr.count("\n") == 1


def test_a_missing_package_is_one_line(site: Path) -> None:
    done = start(site, COUNTERFOIL="evidence")
    assert (done.returncode, done.stdout.split()[0]) == (0, "app")
    assert done.stderr == (
        "counterfoil: cannot record (ModuleNotFoundError: No module named 'counterfoil');"
        " going on without a record\n"
    )


@pytest.mark.parametrize("mode", ["enforce", "hold"])
def test_an_application_that_must_be_guarded_does_not_run_unguarded(site: Path, mode: str) -> None:
    package(site, boot="raise ValueError('no key')")
    done = start(site, COUNTERFOIL="evidence", COUNTERFOIL_MODE=mode)
    assert (done.returncode, done.stdout) == (2, "")
    assert (
        done.stderr
        == f"counterfoil: cannot record (ValueError: no key); stopping, because COUNTERFOIL_MODE={mode}\n"
    )
