"""The environment record as a CycloneDX 1.6 bill of materials, for the tools that read nothing else.

Written as plain values: a library costs 180 ms to import and only checks
in the tests. Source: ECMA-424 (CycloneDX 1.6).
"""

from __future__ import annotations

import uuid
from typing import Any, Final
from urllib.parse import quote

from counterfoil import canonical
from counterfoil._version import __version__
from counterfoil.digest import sha256_hex

__all__ = ["document"]

_NAMESPACE: Final = uuid.UUID("6f1d6d6c-9c0e-5b9a-9a3e-0c0f3f0a5d11")
_SCHEMA: Final = "http://cyclonedx.org/schema/bom-1.6.schema.json"


def document(environment: dict[str, Any], *, at: str) -> dict[str, Any]:
    """The bill of materials; the same record and time give the same document.

    Args:
        environment: the environment record, as ``environment.capture`` makes it.
        at: time of the record, RFC 3339.

    The SHA-256 of a RECORD file is no hash of a distribution file: it stands under ``properties``, not ``hashes``.
    """
    digest = sha256_hex(canonical.dumps(environment))
    application = environment.get("application", {})
    subject: dict[str, Any] = {
        "bom-ref": "application",
        "name": application.get("program", "python"),
        "type": "application",
    }
    revision = application.get("revision") or application.get("commit")
    if revision:
        subject["version"] = revision
    return {
        "$schema": _SCHEMA,
        "bomFormat": "CycloneDX",
        "components": [*_libraries(environment), *_platform(environment)],
        "metadata": {
            "component": subject,
            "properties": _properties(
                {"environment": digest, "image": environment.get("image", {}).get("digest")}
            ),
            "timestamp": at,
            "tools": {"components": [{"name": "counterfoil", "type": "application", "version": __version__}]},
        },
        "serialNumber": f"urn:uuid:{uuid.uuid5(_NAMESPACE, f'{digest} {at}')}",
        "specVersion": "1.6",
        "version": 1,
    }


def _libraries(environment: dict[str, Any]) -> list[dict[str, Any]]:
    out = []
    for name, item in sorted(environment.get("distributions", {}).get("items", {}).items()):
        reference = f"pkg:pypi/{quote(name)}@{quote(item['version'], safe='')}"
        component: dict[str, Any] = {
            "bom-ref": reference,
            "name": name,
            "purl": reference,
            "type": "library",
            "version": item["version"],
        }
        direct = item.get("direct", {})
        properties = _properties(
            {"record:sha256": item.get("record"), **{f"direct:{k}": v for k, v in direct.items()}}
        )
        if properties:
            component["properties"] = properties
        out.append(component)
    return out


def _platform(environment: dict[str, Any]) -> list[dict[str, Any]]:
    system, python, cpu = (environment.get(name, {}) for name in ("os", "python", "cpu"))
    out: list[dict[str, Any]] = [
        {
            "bom-ref": "python",
            "name": python.get("implementation", "python"),
            "properties": _properties({"build": " ".join(map(str, python.get("build", [])))}),
            "type": "platform",
            "version": python.get("version", "unknown"),
        },
        {
            "bom-ref": "os",
            "name": system.get("distribution") or system.get("system", "unknown"),
            "properties": _properties(
                {"kernel": system.get("release"), "libc": system.get("libc"), "machine": cpu.get("machine")}
            ),
            "type": "operating-system",
            "version": system.get("distribution_version") or system.get("release", "unknown"),
        },
    ]
    if cpu.get("model"):
        out.append({"bom-ref": "cpu", "name": cpu["model"], "type": "device"})
    gpu = environment.get("gpu", {})
    for number, device in enumerate(gpu.get("devices", [])):
        properties = {
            name: device[name]
            for name in ("capability", "ecc", "memory", "mig", "uuid", "vbios")
            if name in device
        }
        about = {**properties, "cuda": gpu.get("cuda"), "driver": gpu.get("driver")}
        out.append(
            {
                "bom-ref": f"gpu-{number}",
                "name": device.get("name", "gpu"),
                "properties": _properties(about),
                "type": "device",
            }
        )
    return out


def _properties(values: dict[str, Any]) -> list[dict[str, str]]:
    return [
        {"name": f"counterfoil:{name}", "value": str(value)}
        for name, value in sorted(values.items())
        if value is not None and value != ""
    ]
