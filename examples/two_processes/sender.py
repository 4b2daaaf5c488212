"""The planner's process: seals a task for the writer and sends it over HTTP.

python sender.py EVIDENCE fingerprint     prints what the receiver has to pin
python sender.py EVIDENCE URL             sends one task
python sender.py EVIDENCE URL twice       sends the same message a second time
python sender.py EVIDENCE URL changed     changes the payload on its way
"""

from __future__ import annotations

import json
import sys
import urllib.error
import urllib.request
from typing import Any

import counterfoil

TASK = {"task": "Announce the early closing of the library", "day": "Friday", "hour": 15, "words": 40}


def post(url: str, envelope: bytes, payload: object) -> str:
    """Send a payload with its envelope; the answer as one line."""
    body = json.dumps({"envelope": envelope.decode(), "payload": payload}).encode()
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"})  # noqa: S310
    # No proxy: the address is this machine's own.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=30) as response:
            answer: dict[str, Any] = json.load(response)
            return f"accepted: {answer['text']}"
    except urllib.error.HTTPError as error:
        refusal = json.load(error)
        return f"refused: {refusal['code']}"


def main(evidence: str, where: str, what: str = "once") -> None:
    with counterfoil.open(evidence, actor="planner") as log:
        if where == "fingerprint":
            print(log.fingerprint)
            return
        envelope = counterfoil.seal(log, TASK, to="writer").to_bytes()
        payload = {**TASK, "hour": 12} if what == "changed" else TASK
        for _ in range(2 if what == "twice" else 1):
            print(post(where, envelope, payload))


if __name__ == "__main__":
    main(*sys.argv[1:])
