"""What those who print an environment rely on: somebody else may have recorded it, and anything may stand in it.

Members that nobody here knows may have any form (``shared/spec/environment.md``).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

__all__ = ["misshapen"]

_MEMBERS: Final[dict[str, dict[str, type]]] = {
    "application": {"commit": str, "program": str, "revision": str},
    "cpu": {"machine": str, "model": str},
    "distributions": {"items": dict},
    "gpu": {"cuda": str, "devices": list, "driver": str},
    "image": {"digest": str},
    "os": {"distribution": str, "distribution_version": str, "libc": str, "release": str, "system": str},
    "python": {"build": list, "implementation": str, "version": str},
    "variables": {"fingerprints": dict, "values": dict},
}
_TEXTS: Final = ("capability", "name", "uuid", "vbios")


def misshapen(environment: dict[str, Any]) -> str | None:
    """Where an environment first has another form than it must have to be printed, or None."""
    return next(_wrong(environment), None)


def _wrong(environment: dict[str, Any]) -> Iterator[str]:
    for part, members in _MEMBERS.items():
        value = environment.get(part, {})
        if type(value) is not dict:
            yield part
            return
        for name, kind in members.items():
            if name in value and type(value[name]) is not kind:
                yield f"{part}/{name}"
                return
    for name, item in environment.get("distributions", {}).get("items", {}).items():
        place = f"distributions/items/{name}"
        if type(item) is not dict or type(item.get("version")) is not str:
            yield place
        elif type(item.get("direct", {})) is not dict or type(item.get("record", "")) is not str:
            yield place
    for number, device in enumerate(environment.get("gpu", {}).get("devices", [])):
        if type(device) is not dict or any(type(device.get(name, "")) is not str for name in _TEXTS):
            yield f"gpu/devices/{number}"
    for name, value in environment.get("variables", {}).get("fingerprints", {}).items():
        if type(value) is not str:
            yield f"variables/fingerprints/{name}"
