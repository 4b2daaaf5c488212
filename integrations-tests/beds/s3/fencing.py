"""One of two processes that create the same keys at the same moments; here, where a new process can import it."""

from __future__ import annotations

import hashlib
import threading
from typing import Any

from counterfoil.stores.s3.address import Address
from counterfoil.stores.s3.bucket import Bucket
from counterfoil.stores.s3.options import Options

NAMES = 1000
LANES = 25


def key(name: int) -> str:
    return f"team/evidence/log/{name:08d}.seg"


def body(me: int, name: int) -> bytes:
    return f"{me}:{name}".encode() * 50


def create(me: int, bucket: str, endpoint: str, barriers: list[Any], results: Any) -> None:
    """Create every key when the other process does; put into ``results`` which were won, and what failed."""
    ours = Bucket(Address(bucket), Options(endpoint=endpoint, patience=60))
    won: list[int] = []
    failed: list[str] = []

    def lane(number: int) -> None:
        for name in range(number, NAMES, LANES):
            barriers[number].wait(120)
            data = body(me, name)
            try:
                put = ours.put(key(name), data, sha256=hashlib.sha256(data).digest())
            except Exception as exc:
                failed.append(f"{name}: {exc}")
            else:
                if put == "created":
                    won.append(name)

    threads = [threading.Thread(target=lane, args=(number,)) for number in range(LANES)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    results.put((me, won, failed))
