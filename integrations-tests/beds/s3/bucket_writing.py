"""Processes that record into a bucket, and what stands in it afterwards: for the tests of the writing side."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import textwrap
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
import pytest
from faulty import Faulty
from seaweed import ADMIN

from counterfoil import keys

WRITER = """
import os, sys
from counterfoil.recorder import Recorder

uri, name, durability = sys.argv[1:4]
recorder = Recorder(uri, durability=durability)
print("log", recorder.open().log, flush=True)
number = 0
for line in sys.stdin:
    word = line.split()
    if word[0] == "record":
        for _ in range(int(word[1])):
            root = recorder.start("invoke_workflow", f"{name}.{number}", actor=("app",), wait=durability == "remote")
            recorder.end(root, response=recorder.value({"n": number, "text": name * 50}))
            number += 1
        ok = recorder.flush()
        print("flushed" if ok else "failed", number, recorder.open().log, recorder.losses, flush=True)
    elif word[0] == "close":
        recorder.close()
        print("closed", flush=True)
    elif word[0] == "exit":
        sys.exit(int(word[1]))
    elif word[0] == "_exit":
        os._exit(int(word[1]))
"""


@dataclass
class Place:
    """A bucket with a lock on everything, a home, and processes that record from there."""

    server: Any
    root: Path
    endpoint: str = ""
    more: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # One bucket for all: the server keeps files of its own for each.
        self.bucket, self.prefix = "evidence-writing", f"some/{uuid.uuid4().hex[:12]}"
        self.uri = f"s3://{self.bucket}/{self.prefix}"
        self.home = self.root / "home"
        self.endpoint = self.endpoint or self.server.endpoint
        self.children: list[subprocess.Popen[str]] = []
        self.client = self.server.client()
        if self.bucket not in {row["Name"] for row in self.client.list_buckets()["Buckets"]}:
            self.client.create_bucket(Bucket=self.bucket, ObjectLockEnabledForBucket=True)

    def variables(self, *, home: Path | None = None, **more: str) -> dict[str, str]:
        found = {
            name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "COUNTERFOIL"))
        }
        found |= self.server.variables(ADMIN)
        found |= {
            "AWS_ENDPOINT_URL_S3": self.endpoint,
            "COUNTERFOIL_HOME": str(home or self.home),
            "COUNTERFOIL_S3_RETAIN": "2d",
            "COUNTERFOIL_S3_UPLOAD_AFTER": "0.2",
            "COUNTERFOIL_S3_CLOSE_WAIT": "20",
        }
        return found | self.more | more

    def writer(
        self, name: str, *, durability: str = "group", home: Path | None = None, **more: str
    ) -> Writer:
        errors = open(self.root / f"{name}.err", "ab")
        child = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(WRITER), self.uri, name, durability],
            env=self.variables(home=home, **more),
            cwd=self.root,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
        errors.close()
        self.children.append(child)
        return Writer(child, name)

    def python(self, code: str, *arguments: object, home: Path | None = None, **more: str) -> str:
        """What a process prints that runs ``code`` and must end well."""
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)],
            env=self.variables(home=home, **more),
            cwd=self.root,
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def command(self, *words: str, home: Path | None = None, **more: str) -> subprocess.CompletedProcess[str]:
        program = Path(sys.executable).with_name("counterfoil")
        return subprocess.run(
            [str(program), *words],
            env=self.variables(home=home, **more),
            cwd=self.root,
            capture_output=True,
            text=True,
            timeout=300,
        )

    @property
    def python_program(self) -> str:
        return sys.executable

    def close(self) -> None:
        for child in self.children:
            child.kill()
            child.wait()
            for stream in (child.stdin, child.stdout):
                if stream is not None:
                    stream.close()

    # -- what is in the bucket ----------------------------------------------------------------------------------------

    def objects(self) -> dict[str, int]:
        pages = self.client.get_paginator("list_object_versions").paginate(
            Bucket=self.bucket, Prefix=f"{self.prefix}/"
        )
        return {row["Key"]: row["Size"] for page in pages for row in page.get("Versions", ())}

    def verify(self, *, home: Path | None = None) -> dict[str, Any]:
        done = self.command("verify", self.uri, "--json", home=home)
        assert done.stdout, done.stderr
        return dict(orjson.loads(done.stdout))

    def names(self) -> set[str]:
        """The names of the runs whose start is in the bucket."""
        code = "import sys, counterfoil; print([call.name for call in counterfoil.read(sys.argv[1]).calls()])"
        return set(ast.literal_eval(self.python(code, self.uri)))

    def waiting(self, *, home: Path | None = None) -> int:
        """Segments in the spool that are not in the bucket."""
        before = keys.home()
        keys.set_home(home or self.home)
        try:
            from counterfoil.stores.s3.spool import spools

            return sum(one.backlog().segments for one in spools())
        finally:
            keys.set_home(before)


@dataclass
class Writer:
    """A process that records when it is told to; ``acknowledged`` are the runs it said are flushed."""

    child: subprocess.Popen[str]
    name: str
    acknowledged: set[str] = field(default_factory=set)
    log: str = ""
    losses: int = 0

    def hear(self) -> str:
        assert self.child.stdout is not None
        words = self.child.stdout.readline().split()
        if not words:
            return ""
        if words[0] == "log":
            self.log = words[1]
            return self.hear()
        if words[0] in ("flushed", "failed"):
            self.log, self.losses = words[2], int(words[3])
            if words[0] == "flushed":
                self.acknowledged = {f"{self.name}.{number}" for number in range(int(words[1]))}
        return words[0]

    def say(self, line: str) -> None:
        assert self.child.stdin is not None
        self.child.stdin.write(f"{line}\n")
        self.child.stdin.flush()

    def record(self, count: int = 1) -> str:
        self.say(f"record {count}")
        return self.hear()

    def close(self) -> int:
        self.say("close")
        self.hear()
        self.say("exit 0")
        return self.child.wait(120)

    def kill(self) -> None:
        self.child.kill()
        self.child.wait()


def wait(condition: Callable[[], object], *, seconds: float = 60) -> None:
    ends = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < ends, "it did not happen"
        time.sleep(0.02)


@pytest.fixture
def place(s3_bed: Any, tmp_path: Path) -> Iterator[Place]:
    """A prefix, a home and processes of this test alone."""
    found = Place(s3_bed.server, tmp_path)
    yield found
    found.close()


@pytest.fixture
def faulty(s3_bed: Any, place: Place) -> Iterator[Faulty]:
    """A network in front of the server, for all processes of the test."""
    found = Faulty(s3_bed.server.port)
    place.endpoint = found.endpoint
    yield found
    found.close()


__all__ = ["Place", "Writer", "faulty", "place", "wait"]
