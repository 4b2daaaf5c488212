"""The writer's process: verifies each handoff it is sent before it does the work.

python receiver.py EVIDENCE     prints its address, then one line for each message; ends with its input
"""

from __future__ import annotations

import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import counterfoil
from counterfoil.errors import CounterfoilError

MAX_BODY = 64 * 1024


def write(task: dict[str, Any]) -> str:
    """The work itself; it is done for accepted handoffs only."""
    return f"This {task['day']} the library closes at {task['hour']}:00."


class Handler(BaseHTTPRequestHandler):
    log: counterfoil.OpenLog

    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        if length > MAX_BODY:
            self.answer(413, {"code": "too large"})
            return
        try:
            message = json.loads(self.rfile.read(length))
            envelope, payload = message["envelope"].encode(), message["payload"]
        except (ValueError, KeyError, TypeError, AttributeError):
            self.answer(400, {"code": "not a handoff"})
            return
        try:
            accepted = counterfoil.accept(self.log, envelope, payload)
        except CounterfoilError as error:
            print(error.message, flush=True)
            self.answer(403, {"code": error.code})
            return
        print(f"accepted a task from {'/'.join(accepted.sender)}", flush=True)
        self.answer(200, {"text": write(accepted.payload)})

    def answer(self, status: int, value: dict[str, str]) -> None:
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        """Quiet."""


def main(evidence: str) -> None:
    with counterfoil.open(evidence, actor="writer") as log, HTTPServer(("127.0.0.1", 0), Handler) as server:
        Handler.log = log
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        print(f"http://127.0.0.1:{server.server_address[1]}/handoff", flush=True)
        sys.stdin.read()
        server.shutdown()


if __name__ == "__main__":
    main(*sys.argv[1:])
