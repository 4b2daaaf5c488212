"""The machine: processor, operating system, Python, container. Read from files of the system; no program is run."""

from __future__ import annotations

import hashlib
import os
import platform
import re
import sys
import sysconfig
from functools import cache
from typing import Any

from counterfoil.environment._reading import plain, text

__all__ = ["container", "cpu", "python", "system"]

_ID = re.compile(r"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])")


@cache
def cpu() -> dict[str, Any]:
    """Model, SHA-256 over the sorted feature flags, counts, memory in bytes and the container's CPU quota."""
    out: dict[str, Any] = {"count": os.cpu_count() or 0, "machine": platform.machine(), "source": "probed"}
    if hasattr(os, "sched_getaffinity"):
        out["usable"] = len(os.sched_getaffinity(0))
    info = text("/proc/cpuinfo", 1 << 16)  # the first processor is enough
    for line in info.partition("\n\n")[0].splitlines():
        name, _, value = line.partition(":")
        name, value = name.strip(), value.strip()
        if name == "model name":
            out["model"] = value
        elif name in ("flags", "Features"):
            out["flags"] = hashlib.sha256(" ".join(sorted(value.split())).encode()).hexdigest()
        elif name == "microcode":
            out["microcode"] = value
    try:
        out["memory"] = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        pass
    quota = text("/sys/fs/cgroup/cpu.max", 64).split()
    if quota and quota[0] != "max":
        out["quota"] = "/".join(quota)
    return out


@cache
def system() -> dict[str, Any]:
    """System, kernel, distribution and C library."""
    out: dict[str, Any] = {
        "release": platform.release(),
        "source": "probed",
        "system": platform.system(),
        "version": platform.version(),
    }
    fields = dict(line.split("=", 1) for line in text("/etc/os-release", 1 << 16).splitlines() if "=" in line)
    for name, field in (("distribution", "ID"), ("distribution_version", "VERSION_ID")):
        if fields.get(field):
            out[name] = fields[field].strip("\"'")
    try:
        libc = os.confstr("CS_GNU_LIBC_VERSION")
    except (AttributeError, OSError, ValueError):
        libc = None
    if libc:
        out["libc"] = libc
    return out


@cache
def python() -> dict[str, Any]:
    """Implementation, version, build, compiler, and the switches that change how a program runs."""
    return {
        "build": list(platform.python_build()),
        "compiler": platform.python_compiler(),
        "debug": bool(sysconfig.get_config_var("Py_DEBUG")),
        "flags": {
            name: int(getattr(sys.flags, name))
            for name in ("dev_mode", "hash_randomization", "optimize", "utf8_mode")
        },
        "implementation": platform.python_implementation(),
        "source": "probed",
        "version": platform.python_version(),
        "virtual": sys.prefix != sys.base_prefix,
    }


@cache
def container() -> dict[str, Any]:
    """Signs of a container and its id. The digest of its image cannot be seen from inside (see ``image``)."""
    if not sys.platform.startswith("linux"):
        return {"source": "unknown"}
    mounts = text("/proc/self/mountinfo", 1 << 18)
    signs = {
        "containerenv": os.path.exists("/run/.containerenv"),
        "dockerenv": os.path.exists("/.dockerenv"),
        "kubernetes": "KUBERNETES_SERVICE_HOST" in os.environ,
        "overlay": any(
            line.split(" - ")[-1].startswith("overlay ")
            for line in mounts.splitlines()
            if line.split(" ")[4:5] == ["/"]
        ),
    }
    out: dict[str, Any] = {"signs": sorted(name for name, seen in signs.items() if seen), "source": "probed"}
    for place in (text("/proc/self/cgroup", 1 << 14), mounts):
        found = _ID.search(place)
        if found:
            out["id"] = found.group()
            break
    runtime = text("/proc/1/environ", 1 << 14)
    for variable in runtime.split("\0"):
        if variable.startswith("container=") and plain(variable):
            out["runtime"] = variable.removeprefix("container=")[:64]
    return out
