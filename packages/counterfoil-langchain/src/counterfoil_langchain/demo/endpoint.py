"""An OpenAI-compatible chat-completions server on 127.0.0.1, so that an application runs without a provider.

It answers ``POST /v1/chat/completions`` (plain and streamed, with tool calls) and ``GET /v1/models``. What
the model says comes from a script: a function from the request body to a ``Reply``. Replies, ids and usage
depend on the request alone; no clock is read. Every accepted body is kept in ``Endpoint.wire``, which is the
ground truth a recording can be compared with.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

MAX_BODY_BYTES = 1 << 20
MAX_CALLS = 1_000
MAX_CONNECTIONS = 32
SOCKET_TIMEOUT_S = 30.0
CHUNK_CHARACTERS = 24
CREATED = 1_700_000_000

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Reply:
    """One scripted answer: text, tool calls as (name, arguments), or both."""

    content: str = ""
    tool_calls: tuple[tuple[str, Mapping[str, Any]], ...] = ()


Script = Callable[[Json], Reply]


class ScriptError(LookupError):
    """The script has no answer for a request; the client gets it as an HTTP 400."""


class _Rejected(Exception):
    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Endpoint:
    """Serve `script` on a free loopback port between ``with`` and its end.

    ``base_url`` is what a client takes as ``OPENAI_BASE_URL``. ``wire`` holds the request bodies in the order
    they arrived and ``replies`` the completion object given to each, streamed or not.
    """

    def __init__(self, script: Script, *, port: int = 0) -> None:
        self.wire: list[Json] = []
        self.replies: list[Json] = []
        self._script = script
        self._lock = threading.Lock()
        self._server = _Server(self, port)
        self._thread: threading.Thread | None = None

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def environment(self) -> dict[str, str]:
        """Variables that send an unchanged application here and nowhere else."""
        return {
            "OPENAI_BASE_URL": self.base_url,
            "OPENAI_API_KEY": "placeholder",
            "NO_PROXY": "127.0.0.1",
            "no_proxy": "127.0.0.1",
            "LANGSMITH_TRACING": "false",
            "LANGCHAIN_TRACING_V2": "false",
        }

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        if self._thread is not None:
            self._server.shutdown()
            self._thread.join()
            self._thread = None
        self._server.server_close()

    def answer(self, request: Json) -> Json:
        """The completion for one checked request body; `_Rejected` when the script or a limit says no."""
        try:
            reply = self._script(request)
        except LookupError as error:
            raise _Rejected(400, f"script: {error}") from None
        body = _completion(request, reply)
        with self._lock:
            if len(self.wire) >= MAX_CALLS:
                raise _Rejected(429, f"more than {MAX_CALLS} calls")
            self.wire.append(request)
            self.replies.append(body)
        return body


def _parse(raw: bytes) -> Json:
    try:
        request = json.loads(raw, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        raise _Rejected(400, "the body is not JSON") from None
    if not isinstance(request, dict):
        raise _Rejected(400, "the body is not an object")
    messages = request.get("messages")
    if not isinstance(messages, list) or not messages or not all(isinstance(m, dict) for m in messages):
        raise _Rejected(400, "messages is not a list of objects")
    if not isinstance(request.get("model"), str):
        raise _Rejected(400, "model is missing")
    return request


def _no_constant(name: str) -> None:
    raise ValueError(name)


def _completion(request: Json, reply: Reply) -> Json:
    canonical = json.dumps(request, sort_keys=True, ensure_ascii=False).encode("utf-8", "surrogatepass")
    seed = hashlib.sha256(canonical).hexdigest()
    message: Json = {"role": "assistant", "content": reply.content or None, "refusal": None}
    if reply.tool_calls:
        message["tool_calls"] = [
            {
                "id": f"call_{seed[:20]}{index:02d}",
                "type": "function",
                "function": {"name": name, "arguments": json.dumps(dict(arguments), ensure_ascii=False)},
            }
            for index, (name, arguments) in enumerate(reply.tool_calls)
        ]
    asked, given = len(canonical) // 4, len(json.dumps(message)) // 4
    return {
        "id": f"chatcmpl-{seed[:24]}",
        "object": "chat.completion",
        "created": CREATED,
        "model": f"{request['model']}-scripted",
        "system_fingerprint": "fp_scripted",
        "choices": [
            {
                "index": 0,
                "message": message,
                "logprobs": None,
                "finish_reason": "tool_calls" if reply.tool_calls else "stop",
            }
        ],
        "usage": {"prompt_tokens": asked, "completion_tokens": given, "total_tokens": asked + given},
    }


def _chunks(body: Json, *, usage: bool) -> Iterator[Json]:
    head = {key: body[key] for key in ("id", "created", "model", "system_fingerprint")}
    head["object"] = "chat.completion.chunk"
    choice = body["choices"][0]
    message = choice["message"]

    def chunk(delta: Json, finish: str | None = None) -> Json:
        return {**head, "choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}]}

    yield chunk({"role": "assistant", "content": ""})
    for part in _pieces(message["content"] or ""):
        yield chunk({"content": part})
    for index, call in enumerate(message.get("tool_calls", ())):
        function = {"name": call["function"]["name"], "arguments": ""}
        opened = {"index": index, "id": call["id"], "type": "function", "function": function}
        yield chunk({"tool_calls": [opened]})
        for part in _pieces(call["function"]["arguments"]):
            yield chunk({"tool_calls": [{"index": index, "function": {"arguments": part}}]})
    yield chunk({}, choice["finish_reason"])
    if usage:
        yield {**head, "choices": [], "usage": body["usage"]}


def _pieces(text: str) -> Iterator[str]:
    for start in range(0, len(text), CHUNK_CHARACTERS):
        yield text[start : start + CHUNK_CHARACTERS]


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    # A client that keeps its connection open must not hold up close().
    block_on_close = False

    def __init__(self, endpoint: Endpoint, port: int) -> None:
        self.endpoint = endpoint
        self.slots = threading.BoundedSemaphore(MAX_CONNECTIONS)
        super().__init__(("127.0.0.1", port), _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self.slots.acquire(blocking=False):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.slots.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no news."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = SOCKET_TIMEOUT_S
    server: _Server

    def log_message(self, format: str, *args: object) -> None:
        """Quiet: the application's own output is what the user came for."""

    def do_GET(self) -> None:
        if self._local() and self.path == "/v1/models":
            self._send(200, {"object": "list", "data": [{"id": "scripted", "object": "model"}]})
        else:
            self._refuse(404, "no such route")

    def do_POST(self) -> None:
        try:
            if not self._local() or self.path != "/v1/chat/completions":
                raise _Rejected(404, "no such route")
            request = _parse(self._body())
            body = self.server.endpoint.answer(request)
        except _Rejected as error:
            self._refuse(error.status, str(error))
            return
        if request.get("stream") is True:
            options = request.get("stream_options")
            usage = isinstance(options, dict) and options.get("include_usage") is True
            self._stream(_chunks(body, usage=usage))
        else:
            self._send(200, body)

    def _local(self) -> bool:
        # A page in a browser can reach loopback under a name of its own; its Host gives it away.
        host = self.headers.get("Host", "").rpartition(":")[0]
        return host in ("127.0.0.1", "localhost")

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") is not None:
            raise _Rejected(411, "a length is required")
        length = self.headers.get("Content-Length", "")
        if not (length.isascii() and length.isdigit()):
            raise _Rejected(411, "a length is required")
        if len(length) > 9 or int(length) > MAX_BODY_BYTES:
            raise _Rejected(413, f"the body is larger than {MAX_BODY_BYTES} bytes")
        raw = self.rfile.read(int(length))
        if len(raw) != int(length):
            raise _Rejected(400, "the body is shorter than its length")
        return raw

    def _refuse(self, status: int, message: str) -> None:
        # The body may be unread: the connection cannot be used again.
        self.close_connection = True
        self._send(status, {"error": {"message": message, "type": "invalid_request_error", "code": None}})

    def _send(self, status: int, value: Json) -> None:
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(data)

    def _stream(self, chunks: Iterator[Json]) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for text in (*(json.dumps(chunk) for chunk in chunks), "[DONE]"):
            data = f"data: {text}\n\n".encode()
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.write(b"0\r\n\r\n")
