"""A small OpenAI- and Anthropic-compatible model server on 127.0.0.1.

Chat Completions, Responses and Messages (streaming and not, with tool calls), embeddings (hash vectors) and a
model list, under any path prefix. Every exchange is appended to ``FakeServer.wire`` as {path, request,
response}: the ground truth that a recording is compared with.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import json
import struct
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from dialects import DIALECTS, Dialect
from scripted import Ids, Policy, ask, tokens

DIMENSIONS = 64


class FakeServer(ThreadingHTTPServer):
    """Answers with `policy`; at most `max_calls` times, so that a policy that loops comes to an end."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(
        self, policy: Policy, *, port: int = 0, latency_s: float = 0.0, max_calls: int = 2000
    ) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.policy, self.latency_s, self.max_calls = policy, latency_s, max_calls
        self.wire: list[dict] = []
        self.ids = Ids()
        self.lock = threading.Lock()

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"

    def start(self) -> Self:
        threading.Thread(target=self.serve_forever, daemon=True).start()
        return self

    def log_exchange(self, path: str, request: dict, response: dict) -> None:
        with self.lock:
            self.wire.append({"path": path, "request": request, "response": response})


def _embedding(text: str) -> list[float]:
    data = b"".join(hashlib.sha256(f"{i}:{text}".encode()).digest() for i in range(DIMENSIONS // 8))
    return [struct.unpack_from("<i", data, 4 * i)[0] / 2**31 for i in range(DIMENSIONS)]


def _embeddings(body: dict) -> dict:
    texts = body.get("input")
    texts = texts if isinstance(texts, list) else [texts]
    data = [{"object": "embedding", "index": i, "embedding": _embedding(str(t))} for i, t in enumerate(texts)]
    usage = {"prompt_tokens": 1, "total_tokens": 1}
    return {"object": "list", "model": body.get("model"), "data": data, "usage": usage}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: FakeServer

    def log_message(self, format: str, *args: object) -> None:
        """Quiet."""

    def do_HEAD(self) -> None:
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def do_GET(self) -> None:
        if self.path.split("?")[0].endswith("/models"):
            self._json(200, {"object": "list", "data": [{"id": "scripted", "object": "model"}]})
        else:
            self._error(404, f"no route {self.path}")

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("content-length") or 0))
        path = self.path.split("?")[0]
        try:
            body = json.loads(raw or b"{}")
        except ValueError:
            self._error(400, "bad json")
            return
        if path.endswith("/embeddings"):
            response = _embeddings(body)
            self.server.log_exchange(path, body, response)
            self._json(200, response)
        elif path.endswith("/count_tokens"):
            self._json(200, {"input_tokens": tokens(json.dumps(body))})
        else:
            dialect = next((d for ending, d in DIALECTS.items() if path.endswith(ending)), None)
            if dialect is None:
                self._error(404, f"no route {path}")
            else:
                self._complete(path, body, dialect)

    def _complete(self, path: str, body: dict, dialect: Dialect) -> None:
        server = self.server
        if len(server.wire) >= server.max_calls:
            self._error(400, "fake server: max_calls reached")
            return
        try:
            reply = ask(server.policy, dialect.read(body))
        except Exception as error:
            # A gap in the policy must show up in the application, whatever it is.
            self._error(400, f"policy: {type(error).__name__}: {error}")
            return
        response = dialect.body(
            body, reply, server.ids.base({k: v for k, v in body.items() if k != "metadata"})
        )
        server.log_exchange(path, body, response)
        if server.latency_s:
            time.sleep(server.latency_s)
        if body.get("stream"):
            self._stream(dialect.events(body, response), dialect)
        else:
            self._json(200, response)

    def _error(self, code: int, message: str) -> None:
        self._json(code, {"error": {"message": message, "type": "policy"}})

    def _json(self, code: int, value: Any) -> None:
        data = json.dumps(value).encode()
        self.send_response(code)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _stream(self, events: Iterator[dict], dialect: Dialect) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for event in events:
            name = f"event: {event['type']}\n" if dialect.named else ""
            self._chunk(f"{name}data: {json.dumps(event)}\n\n")
        if dialect.done:
            self._chunk("data: [DONE]\n\n")
        self.wfile.write(b"0\r\n\r\n")

    def _chunk(self, text: str) -> None:
        data = text.encode()
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--policy", required=True, help="FILE.py:NAME of a policy callable")
    parser.add_argument("--port", type=int, default=8089)
    parser.add_argument("--latency-ms", type=float, default=0)
    args = parser.parse_args()
    file, _, name = args.policy.partition(":")
    spec = importlib.util.spec_from_file_location("policy_module", file)
    if spec is None or spec.loader is None:
        parser.error(f"not a Python file: {file}")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    server = FakeServer(getattr(module, name or "policy"), port=args.port, latency_s=args.latency_ms / 1000)
    print(server.base_url, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
