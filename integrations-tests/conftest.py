"""Gives the journeys the adapter's test kit and the test beds' comparison with the wire, and each its own evidence."""

from __future__ import annotations

import os
import sys
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).resolve().parent
sys.path += [
    str(HERE / "beds" / "common"),
    str(HERE / "beds" / "s3"),
    str(HERE.parent / "packages" / "counterfoil-langchain" / "tests"),
]


@pytest.fixture
def evidence(tmp_path: Path) -> Path:
    return tmp_path / "evidence"


@pytest.fixture
def recording(evidence: Path) -> Iterator[Path]:
    """Recording is on, by the configure hook, while the test runs; its log is closed by ``counterfoil.uninstall``."""
    import counterfoil

    counterfoil.install(evidence)
    yield evidence
    counterfoil.uninstall()


@dataclass
class S3Bed:
    """A running S3 server that keeps its word: every check of ``lock_conformance`` was made of it before."""

    server: Any
    rows: list[Any]


@dataclass
class S3Place:
    """A new bucket with Object Lock, and this process set up to write into it; ``admin`` may do everything there."""

    server: Any
    name: str
    folder: Path
    admin: Any

    @property
    def uri(self) -> str:
        return f"s3://{self.name}/team/evidence"

    def keys(self) -> list[str]:
        """Keys of all versions, each once, without the prefix."""
        found = self.admin.list_object_versions(Bucket=self.name, Prefix="team/evidence/").get("Versions", ())
        return sorted({row["Key"].removeprefix("team/evidence/") for row in found})

    def become(self, who: tuple[str, str]) -> None:
        """Use other credentials from now on, until the test ends."""
        os.environ["AWS_ACCESS_KEY_ID"], os.environ["AWS_SECRET_ACCESS_KEY"] = who

    def key(self, name: str) -> str:
        return f"team/evidence/{name}"


@pytest.fixture(scope="session")
def s3_bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Bed]:
    """The server; no test gets it that would prove nothing on it."""
    import lock_conformance
    import seaweed

    with seaweed.running(tmp_path_factory.mktemp("s3")) as server, pytest.MonkeyPatch.context() as patch:
        for name, value in server.variables(seaweed.ADMIN).items():
            patch.setenv(name, value)
        rows = lock_conformance.run(server.endpoint, *seaweed.ADMIN)
        failed = [f"{row.by}: {row.name}: {row.got}" for row in rows if row.critical and not row.holds]
        if failed:
            pytest.fail(
                "this S3 server does not enforce Object Lock, so nothing is tested on it:\n"
                + "\n".join(failed)
            )
        yield S3Bed(server, rows)


@pytest.fixture
def s3_place(s3_bed: S3Bed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[S3Place]:
    """A bucket, a home and a working folder of this test alone; the credentials are the writer's."""
    from counterfoil import keys

    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name, value in s3_bed.server.variables().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("COUNTERFOIL_S3_RETAIN", "2d")
    monkeypatch.setenv("COUNTERFOIL_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    keys.set_home(tmp_path / "home")
    admin = s3_bed.server.client()
    name = f"evidence-{uuid.uuid4().hex[:10]}"
    admin.create_bucket(Bucket=name, ObjectLockEnabledForBucket=True)
    yield S3Place(s3_bed.server, name, tmp_path, admin)
    keys.set_home(None)
