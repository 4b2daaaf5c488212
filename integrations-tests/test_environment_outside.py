"""The environment against the outside: a driver library as NVML's header declares it, and CycloneDX's own schema."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from counterfoil import environment
from counterfoil.environment import cyclonedx

# What NVML's header promises of these functions; anything else is not there, as in an older driver.
DRIVER = r"""
#include <string.h>
typedef struct { unsigned long long total, free, used; } memory_t;
static int say(char *out, unsigned size, const char *text) { strncpy(out, text, size); return 0; }
int nvmlInitWithFlags(unsigned flags) { return 0; }
int nvmlInit_v2(void) { return 0; }
int nvmlShutdown(void) { return 0; }
const char *nvmlErrorString(int code) { return "no"; }
int nvmlSystemGetDriverVersion(char *out, unsigned size) { return say(out, size, "580.65.06"); }
int nvmlSystemGetCudaDriverVersion_v2(int *out) { *out = 13020; return 0; }
int nvmlDeviceGetCount_v2(unsigned *out) { *out = 2; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **out) { *out = (void *)(long)(index + 1); return 0; }
int nvmlDeviceGetName(void *device, char *out, unsigned size) { return say(out, size, "NVIDIA H100 PCIe"); }
int nvmlDeviceGetUUID(void *device, char *out, unsigned size) {
  return say(out, size, device == (void *)1 ? "GPU-one" : "GPU-two");
}
int nvmlDeviceGetVbiosVersion(void *device, char *out, unsigned size) { return say(out, size, "96.00.74"); }
int nvmlDeviceGetMemoryInfo(void *device, memory_t *out) { out->total = 85899345920ULL; return 0; }
int nvmlDeviceGetCudaComputeCapability(void *device, int *major, int *minor) { *major = 9; *minor = 0; return 0; }
int nvmlDeviceGetEccMode(void *device, int *now, int *later) { *now = 1; *later = 1; return 0; }
int nvmlDeviceGetMigMode(void *device, unsigned *now, unsigned *later) {
  *now = *later = 0;
  return device == (void *)1 ? 0 : 3;
}
"""


def probe(folder: Path) -> dict[str, Any]:
    code = "import json; from counterfoil.environment import gpu; print(json.dumps(gpu.capture()))"
    path = os.pathsep.join(filter(None, [str(folder), os.environ.get("LD_LIBRARY_PATH")]))
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "LD_LIBRARY_PATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_processors_as_a_driver_tells_of_them(tmp_path: Path) -> None:
    compiler = shutil.which("cc")
    assert compiler is not None, "a C compiler is needed to build the driver library of this test"
    source = tmp_path / "driver.c"
    source.write_text(DRIVER)
    library = tmp_path / "libnvidia-ml.so.1"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", str(library), str(source)], check=True)
    found = probe(tmp_path)
    assert found["source"] == "probed"
    assert (found["driver"], found["cuda"]) == ("580.65.06", "13.2")
    first, second = found["devices"]
    assert first == {
        "capability": "9.0",
        "ecc": True,
        "memory": 85899345920,
        "mig": False,
        "name": "NVIDIA H100 PCIe",
        "uuid": hashlib.sha256(b"GPU-one").hexdigest(),
        "vbios": "96.00.74",
    }
    # A question that the card cannot answer is left out; it does not hide the others.
    assert "mig" not in second
    assert second["uuid"] == hashlib.sha256(b"GPU-two").hexdigest()


def test_a_library_that_is_no_driver_is_unknown(tmp_path: Path) -> None:
    (tmp_path / "libnvidia-ml.so.1").write_bytes(b"not an ELF file")
    assert probe(tmp_path)["source"] == "unknown"


def test_the_bill_of_materials_is_what_cyclonedx_says() -> None:
    found = environment.capture(key=b"k" * 32)
    found["gpu"] = {
        "cuda": "13.2",
        "devices": [{"capability": "9.0", "ecc": True, "name": "NVIDIA H100 PCIe"}],
        "driver": "580.65.06",
        "source": "probed",
    }
    for record in (found, {}):
        document = json.dumps(cyclonedx.document(record, at="2026-01-01T00:00:00Z"))
        assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(document) is None
