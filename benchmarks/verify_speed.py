"""Verification against a bare loop over the same evidence, and two processes against one, in one run.

    python benchmarks/verify_speed.py [--entries 200000] [--rounds 3] [--jobs 2] [--json FILE]

The bare loop does what no verifier can leave out and nothing else: it reads and decompresses the same files, parses
every entry, chains and hashes it (SHA-256, RFC 6962), hashes every blob, verifies every signature (one entry in eight
is signed, and every checkpoint), and raises at the first thing that is wrong. It does not check the canonical form,
references, statements, calls or totals. It parses with orjson; another row shows it with the standard library's json.
Rows of one round follow each other in one process each (`verify` with several jobs starts more of its own); printed are
medians. Peak memory is that of the process, and with all others that it started.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import resource
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import orjson
import zstandard
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

sys.path.insert(0, str(Path(__file__).parent))

_CHUNK = struct.Struct("<B3xIII")
_ITEM = struct.Struct("<BI")


def bare(root: Path, loads: Callable[[bytes], Any] = orjson.loads) -> int:
    """The bare loop; how many entries it read."""
    return sum(_bare_log(folder, loads) for folder in sorted(root.iterdir()) if folder.is_dir())


def _bare_log(folder: Path, loads: Callable[[bytes], Any]) -> int:
    seen: dict[str, Ed25519PublicKey] = {}
    peaks: list[bytes] = []
    size, prev, identity = 0, "0" * 64, ""
    for path in sorted(folder.iterdir()):
        data, at, stream, awaiting = path.read_bytes(), 0, None, b""
        stored_hash = sha256()
        hashed = 0
        while at < len(data):
            form, length, raw_length, _ = _CHUNK.unpack_from(data, at)
            stored = data[at + 16 : at + 16 + length]
            if form == 1:
                stream = zstandard.ZstdDecompressor().decompressobj()
            raw = stored if form == 0 else stream.decompress(stored)  # type: ignore[union-attr]
            if len(raw) != raw_length:
                raise ValueError("length")
            offset = 0
            while offset < len(raw):
                kind, length_of = _ITEM.unpack_from(raw, offset)
                item = raw[offset + 5 : offset + 5 + length_of]
                offset += 5 + length_of
                if kind == 2:
                    sha256(item).hexdigest()
                elif kind == 3:
                    text, _, tail = item.rpartition(b"\n\n")
                    node = peaks[-1]
                    for peak in reversed(peaks[:-1]):
                        node = sha256(b"\x01" + peak + node).digest()
                    if (
                        base64.b64encode(node) != text.split(b"\n")[2]
                        or awaiting != stored_hash.hexdigest().encode()
                    ):
                        raise ValueError("root")
                    seen[identity].verify(base64.b64decode(tail.split(b" ")[2])[4:], text + b"\n")
                else:
                    entry = loads(item)
                    body = entry["body"]
                    if entry["prev"] != prev or entry["i"] != size:
                        raise ValueError("chain")
                    prev = sha256(item).hexdigest()
                    node, rest = sha256(b"\x00" + item).digest(), size
                    while rest & 1:
                        node = sha256(b"\x01" + peaks.pop() + node).digest()
                        rest >>= 1
                    peaks.append(node)
                    size += 1
                    if "payload" in body:
                        payload = base64.b64decode(body["payload"])
                        signed = body["signatures"][0]
                        message = b"DSSEv1 28 application/vnd.in-toto+json %d %b" % (len(payload), payload)
                        seen[signed["keyid"]].verify(base64.b64decode(signed["sig"]), message)
                        statement = loads(payload)["predicate"]
                        if "spki" in statement:
                            seen[statement["key"]] = _key(statement["spki"])
                    elif body["content"]["op"] == "session":
                        identity = body["context"]["origin"][:64]
                        seen[identity] = _key(body["context"]["spki"])
                    elif body["content"]["op"] == "stored":
                        stored_hash.update(data[hashed:at])
                        hashed, awaiting = at, body["content"]["sha256"].encode()
            at += 16 + length
    return size


def _key(spki: str) -> Ed25519PublicKey:
    return Ed25519PublicKey.from_public_bytes(base64.b64decode(spki)[-32:])


def _cpu() -> float:
    """Seconds of CPU of this process and of its children that ended."""
    found = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in found)


def child(what: str, root: Path, jobs: int) -> dict[str, Any]:
    """Time one row in this process."""
    from counterfoil import keys, verify

    identity = keys.load_identity()
    assert identity is not None
    ring = keys.Keyring.of([identity.public])
    wall, cpu = time.perf_counter(), _cpu()
    if what != "verify":
        entries = bare(root, orjson.loads if what == "bare" else json.loads)
    else:
        result = verify(root, keyring=ring, full=True, jobs=jobs)
        assert result.verdict == "intact", result.findings[:3]
        entries = result.counts["records"] + result.counts["statements"]
    rss, others = (
        resource.getrusage(who).ru_maxrss / 1024 for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    return {
        "entries": entries,
        "wall": time.perf_counter() - wall,
        "cpu": _cpu() - cpu,
        "rss_mib": rss,
        "rss_all_mib": rss + (others * jobs if what == "verify" else 0),
    }


def main() -> None:
    """Make the evidence, time the rows, print them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--entries", type=int, default=200_000)
    parser.add_argument("--logs", type=int, default=1)
    parser.add_argument("--segment-mb", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--json")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--root", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        print(json.dumps(child(given.child, Path(given.root), given.jobs)))
        return
    with tempfile.TemporaryDirectory() as place:
        os.environ["COUNTERFOIL_HOME"] = f"{place}/home"
        from _evidence import make

        from counterfoil import keys

        keys.set_home(Path(place, "home"))
        root = Path(place, "evidence")
        held = make(
            root,
            keys.load_or_create_identity(),
            entries=given.entries,
            logs=given.logs,
            segment_bytes=given.segment_mb << 20,
        )
        held["bytes"] = sum(path.stat().st_size for path in root.rglob("*.seg"))
        held["segments"] = len(list(root.rglob("*.seg")))
        print(", ".join(f"{count:,} {name}" for name, count in held.items()))
        rows = {
            "bare loop": ("bare", 1),
            "bare loop, json": ("plain", 1),
            "verify, 1 job": ("verify", 1),
            f"verify, {given.jobs} jobs": ("verify", given.jobs),
        }
        found: dict[str, list[dict[str, Any]]] = {name: [] for name in rows}
        for _ in range(given.rounds):
            for name, (what, jobs) in rows.items():
                words = [sys.executable, __file__, "--child", what, "--root", str(root), "--jobs", str(jobs)]
                done = subprocess.run(words, check=True, capture_output=True, text=True)
                found[name].append(json.loads(done.stdout))
    told = {
        name: {key: statistics.median(one[key] for one in ones) for key in ones[0]}
        for name, ones in found.items()
    }
    print(
        f"{'row':<18}{'records/s':>12}{'CPU us/record':>15}{'of bare':>9}{'by CPU':>9}{'MiB peak':>10}{'all':>6}"
    )
    base = told["bare loop"]
    for name, one in told.items():
        rate, cpu = one["entries"] / one["wall"], one["cpu"] / one["entries"] * 1e6
        of_wall, of_cpu = base["wall"] / one["wall"], base["cpu"] / one["cpu"]
        print(
            f"{name:<18}{rate:>12,.0f}{cpu:>15.1f}{of_wall:>9.2f}{of_cpu:>9.2f}{one['rss_mib']:>10.0f}"
            f"{one['rss_all_mib']:>6.0f}"
        )
    single, several = (told[name]["wall"] for name in list(rows)[2:])
    print(f"{given.jobs} jobs over one: {single / several:.2f}x")
    if given.json:
        Path(given.json).write_text(json.dumps({"held": held, "rows": told}, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
