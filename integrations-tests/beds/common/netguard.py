"""Refuse every connection that does not stay on this machine.

A data source without a stand-in then fails loudly and is listed in ``attempts``. It guards what goes through
Python's ``socket`` module; an empty network namespace (``netns``) is the stronger proof.
"""

from __future__ import annotations

import ipaddress
import socket
from typing import Any

attempts: list[str] = []


def _local(host: Any) -> bool:
    if isinstance(host, bytes):
        host = host.decode()
    if host in (None, "", "localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def install() -> None:
    connect, connect_ex, getaddrinfo = socket.socket.connect, socket.socket.connect_ex, socket.getaddrinfo

    def check(sock: socket.socket, address: Any) -> None:
        if sock.family in (socket.AF_INET, socket.AF_INET6) and not _local(address[0]):
            attempts.append(str(address[0]))
            raise OSError(f"netguard: {address[0]} is not loopback")

    def guarded_connect(self: socket.socket, address: Any) -> None:
        check(self, address)
        connect(self, address)

    def guarded_connect_ex(self: socket.socket, address: Any) -> int:
        check(self, address)
        return connect_ex(self, address)

    def guarded_getaddrinfo(host: Any, *args: Any, **kwargs: Any) -> Any:
        if not _local(host):
            attempts.append(str(host))
            raise socket.gaierror(f"netguard: {host} is not loopback")
        return getaddrinfo(host, *args, **kwargs)

    socket.socket.connect = guarded_connect
    socket.socket.connect_ex = guarded_connect_ex
    socket.getaddrinfo = guarded_getaddrinfo
