"""A TCP proxy in front of an S3 server that fails as networks and servers do, and says so to nobody."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
from dataclasses import dataclass, field

__all__ = ["ANSWERS", "Faulty"]

ANSWERS = {
    "409": (409, "ConditionalRequestConflict"),
    "412": (412, "PreconditionFailed"),
    "500": (500, "InternalError"),
    "503": (503, "SlowDown"),
    "expired": (403, "ExpiredToken"),
    "denied": (403, "AccessDenied"),
    "skewed": (403, "RequestTimeTooSkewed"),
}
"""What a server answers by the names of modes."""


@dataclass
class Faulty:
    """Passes everything on to ``port``, until ``mode`` says otherwise.

    ``refuse``: nobody listens; ``hang``: nothing is answered; ``reset``: the connection breaks when a request has come;
    ``lost``: the server did what it was asked, and the answer is lost; else a name in ``ANSWERS``.
    """

    port: int
    here: int = 0
    seen: list[str] = field(default_factory=list)
    """Request lines that came while something failed."""

    def __post_init__(self) -> None:
        self._mode = "pass"
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._listen()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.here}"

    @property
    def mode(self) -> str:
        return self._mode

    @mode.setter
    def mode(self, mode: str) -> None:
        before, self._mode = self._mode, mode
        if mode == "refuse":
            self._close()
        elif before == "refuse":
            self._listen()
        with self._lock:
            broken, self._open = self._open, set()
        for one in broken:
            _break(one)

    def close(self) -> None:
        self.mode = "refuse"

    def _listen(self) -> None:
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.bind(("127.0.0.1", self.here))
        self.here = self._socket.getsockname()[1]
        self._socket.listen(64)
        threading.Thread(target=self._accept, args=(self._socket,), daemon=True).start()

    def _close(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _accept(self, listening: socket.socket) -> None:
        while True:
            try:
                found, _ = listening.accept()
            except OSError:
                return
            with self._lock:
                self._open.add(found)
            threading.Thread(target=self._serve, args=(found,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with contextlib.suppress(OSError):
            if self._mode == "pass":
                self._pass(client)
            elif self._mode == "hang":
                while client.recv(1 << 16):
                    pass
            else:
                self._fail(client)
        with self._lock:
            self._open.discard(client)
        client.close()

    def _pass(self, client: socket.socket) -> None:
        server = socket.create_connection(("127.0.0.1", self.port))
        with self._lock:
            self._open.add(server)
        back = threading.Thread(target=_pump, args=(server, client), daemon=True)
        back.start()
        _pump(client, server)
        back.join()
        with self._lock:
            self._open.discard(server)
        server.close()

    def _fail(self, client: socket.socket) -> None:
        request = _request(client)
        if not request:
            return
        line = request.split(b"\r\n", 1)[0].decode("latin-1")
        self.seen.append(line)
        if self._mode == "reset":
            _break(client)
        elif self._mode == "lost":
            with socket.create_connection(("127.0.0.1", self.port)) as server:
                server.sendall(request)
                server.settimeout(30)
                server.recv(1 << 16)
            _break(client)
        elif self._mode in ANSWERS:
            status, code = ANSWERS[self._mode]
            body = (
                f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>made up</Message></Error>".encode()
            )
            if line.startswith("HEAD"):
                body = b""
            head = f"HTTP/1.1 {status} No\r\nContent-Type: application/xml\r\nContent-Length: {len(body)}\r\n"
            client.sendall(f"{head}Connection: close\r\n\r\n".encode() + body)
            with contextlib.suppress(OSError):
                client.shutdown(socket.SHUT_WR)
                client.settimeout(1)
                client.recv(1)


def _request(client: socket.socket) -> bytes:
    """One whole request, with its body; a client that waits for leave to send it is given that."""
    data = b""
    while b"\r\n\r\n" not in data:
        more = client.recv(1 << 16)
        if not more:
            return b""
        data += more
    head, _, body = data.partition(b"\r\n\r\n")
    fields = {
        name.strip().lower(): value.strip()
        for name, _, value in (line.partition(b":") for line in head.split(b"\r\n")[1:])
    }
    if fields.get(b"expect", b"").lower() == b"100-continue":
        client.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
    wanted = int(fields.get(b"content-length", b"0"))
    while len(body) < wanted:
        more = client.recv(1 << 16)
        if not more:
            return b""
        body += more
    return head + b"\r\n\r\n" + body


def _pump(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(1 << 16):
            target.sendall(data)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)


def _break(one: socket.socket) -> None:
    """Close a connection so that the other side is told that it broke."""
    with contextlib.suppress(OSError):
        one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    with contextlib.suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
    with contextlib.suppress(OSError):
        one.close()
    time.sleep(0)
