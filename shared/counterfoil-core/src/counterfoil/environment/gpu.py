"""Graphics processors as the driver tells of them (NVML); where there is no driver this costs one failed dlopen."""

from __future__ import annotations

import ctypes
import ctypes.util
import hashlib
import importlib
import sys
from collections.abc import Callable
from typing import Any, Final

__all__ = ["capture"]

_LIBRARY: Final = "libnvidia-ml.so.1"


def capture() -> dict[str, Any]:
    """``driver``, ``cuda`` and ``devices``; ``unknown`` without NVML, or without the package that speaks to it.

    Each device: name, SHA-256 of its UUID, VBIOS, memory in bytes, compute capability, ECC and MIG modes. The library
    is loaded first: on a machine without it nothing is imported.
    """
    if not sys.platform.startswith("linux"):
        return {"source": "unknown"}
    try:
        ctypes.CDLL(_LIBRARY)
    except OSError:
        return {"reason": f"{_LIBRARY} is not there", "source": "unknown"}
    try:
        pynvml = importlib.import_module("pynvml")
    except ImportError:
        return {"reason": "the extra gpu is not installed", "source": "unknown"}
    pynvml.nvmlInit()
    try:
        return _devices(pynvml)
    finally:
        pynvml.nvmlShutdown()


def _devices(nvml: Any) -> dict[str, Any]:
    out: dict[str, Any] = {"devices": [], "source": "probed"}
    driver = _told(nvml.nvmlSystemGetDriverVersion)
    if driver is not None:
        out["driver"] = _text(driver)
    cuda = _told(nvml.nvmlSystemGetCudaDriverVersion_v2)
    if cuda is not None:
        out["cuda"] = f"{cuda // 1000}.{cuda % 1000 // 10}"
    confidential = _told(lambda: nvml.nvmlSystemGetConfComputeState().ccFeature)
    if confidential is not None:
        out["confidential_compute"] = bool(confidential)
    for number in range(_told(nvml.nvmlDeviceGetCount) or 0):
        out["devices"].append(_device(nvml, nvml.nvmlDeviceGetHandleByIndex(number)))
    return out


def _device(nvml: Any, handle: Any) -> dict[str, Any]:
    identifier = _told(lambda: nvml.nvmlDeviceGetUUID(handle))
    capability = _told(lambda: nvml.nvmlDeviceGetCudaComputeCapability(handle))
    ecc = _told(lambda: nvml.nvmlDeviceGetEccMode(handle))
    mig = _told(lambda: nvml.nvmlDeviceGetMigMode(handle))
    found: dict[str, Any] = {
        "capability": None if capability is None else f"{capability[0]}.{capability[1]}",
        "ecc": None if ecc is None else bool(ecc[0]),
        "memory": _told(lambda: int(nvml.nvmlDeviceGetMemoryInfo(handle).total)),
        "mig": None if mig is None else bool(mig[0]),
        "name": _text(_told(lambda: nvml.nvmlDeviceGetName(handle))),
        "uuid": None if identifier is None else hashlib.sha256(str(_text(identifier)).encode()).hexdigest(),
        "vbios": _text(_told(lambda: nvml.nvmlDeviceGetVbiosVersion(handle))),
    }
    return {name: value for name, value in found.items() if value is not None}


def _told(ask: Callable[[], Any]) -> Any:
    """What the driver answers; nothing where it does not know the question (NVMLError, older library)."""
    try:
        return ask()
    except Exception:
        return None


def _text(value: object) -> str | None:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return None if value is None else str(value)
