"""Run a command in an empty network namespace: loopback works, nothing else exists.

    python netns.py COMMAND [ARGUMENT ...]

As root it needs no more than a new network namespace; otherwise it makes a user namespace as well, where the
system allows that. Exit code 125: the namespace could not be made and the command was not run. Linux only.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import struct
import sys
from collections.abc import Sequence

CLONE_NEWUSER = 0x10000000
CLONE_NEWNET = 0x40000000
SIOCGIFFLAGS = 0x8913
SIOCSIFFLAGS = 0x8914
IFF_UP = 0x1
NOT_RUN = 125


def enter() -> None:
    """Move this process into an empty network namespace and bring its loopback up; OSError when it cannot."""
    flags, user, group = CLONE_NEWNET, os.geteuid(), os.getegid()
    if user != 0:
        flags |= CLONE_NEWUSER
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(flags) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"unshare: {os.strerror(number)}")
    if user != 0:
        for path, text in (
            ("setgroups", "deny"),
            ("uid_map", f"{user} {user} 1"),
            ("gid_map", f"{group} {group} 1"),
        ):
            with open(f"/proc/self/{path}", "w") as file:
                file.write(text)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        request = struct.pack("16sH14x", b"lo", 0)
        (current,) = struct.unpack("16xH14x", fcntl.ioctl(sock, SIOCGIFFLAGS, request))
        fcntl.ioctl(sock, SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", current | IFF_UP))


def main(command: Sequence[str]) -> int:
    if not command:
        print(__doc__, file=sys.stderr)
        return NOT_RUN
    try:
        enter()
    except (AttributeError, OSError) as error:
        print(f"netns: {error}", file=sys.stderr)
        return NOT_RUN
    os.execvp(command[0], list(command))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
