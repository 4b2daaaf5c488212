"""Keeps every test away from the user's own recording, keys and accounts, and from the network."""

from __future__ import annotations

import ipaddress
import os
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator

import pytest

# Before anything imports counterfoil or a framework: both read their environment at import or at first use.
for _name in list(os.environ):
    if _name.startswith(("COUNTERFOIL", "LANGSMITH_", "LANGCHAIN_", "LANGFUSE_", "OTEL_", "AWS_")):
        del os.environ[_name]
_home = tempfile.TemporaryDirectory(prefix="counterfoil-tests-")
os.environ["COUNTERFOIL_HOME"] = _home.name


def _is_local(address: object) -> bool:
    """True for loopback addresses, Unix sockets and everything else that is not an IP host and port."""
    if not isinstance(address, tuple) or not isinstance(address[0], str):
        return True
    host = address[0]
    if host in ("", "localhost"):
        return True
    try:
        return ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return False


@pytest.fixture(autouse=True)
def _offline(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test that would leave this machine fails at once, with or without a network."""
    connect, connect_ex = socket.socket.connect, socket.socket.connect_ex

    def guarded(real: Callable[[socket.socket, object], object]) -> Callable[[socket.socket, object], object]:
        def call(self: socket.socket, address: object) -> object:
            if not _is_local(address):
                pytest.fail(f"a test tried to reach {address!r}")
            return real(self, address)

        return call

    monkeypatch.setattr(socket.socket, "connect", guarded(connect))
    monkeypatch.setattr(socket.socket, "connect_ex", guarded(connect_ex))


@pytest.fixture(autouse=True)
def _same_home() -> Iterator[None]:
    """A test that works in another home leaves this one to the next."""
    keys = sys.modules.get("counterfoil.keys")
    before = None if keys is None else keys.home()
    yield
    if keys is not None:
        keys.set_home(before)


def pytest_unconfigure() -> None:
    _home.cleanup()
