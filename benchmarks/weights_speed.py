"""Hashing model weights against ``openssl speed``, and two threads against one, in one run.

    python benchmarks/weights_speed.py [--size 1024] [--rounds 7] [--json FILE]

A tree of four equal files (``--size`` MiB in all), in the page cache, hashed by ``counterfoil.weights`` as by ``weights
verify``: by one thread, by two. Against it SHA-256 of OpenSSL by itself, over 16 KiB that stay in the cache:
``openssl speed``, which counts its own CPU time; so one thread is counted in CPU time too, its reading of the files
included. Without an ``openssl`` command ``hashlib`` takes its part. Two threads against one are counted by the wall,
and need two cores that nobody else uses; on a busy machine the best of several rounds says more than the middle.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from counterfoil import keys
from counterfoil.weights import adding

FILES = 4
BLOCK = 16 * 1024


def openssl() -> float:
    """MB a second of CPU."""
    command = shutil.which("openssl")
    if command is not None:
        words = [command, "speed", "-seconds", "1", "-bytes", str(BLOCK), "-evp", "sha256"]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if found := re.search(r"([\d.]+)k\s*$", done.stdout):
            return float(found[1]) / 1000
    block, hasher = bytes(BLOCK), hashlib.sha256()
    began, count = time.process_time(), 0
    while time.process_time() < began + 1:
        hasher.update(block)
        count += 1
    return count * BLOCK / (time.process_time() - began) / 1e6


def timed(do: Callable[[], object]) -> tuple[float, float]:
    """Seconds of wall and of CPU."""
    wall, cpu = time.perf_counter(), time.process_time()
    do()
    return time.perf_counter() - wall, time.process_time() - cpu


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="Hashing model weights against openssl speed.")
    parser.add_argument("--size", type=int, default=1024, metavar="MIB")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        keys.set_home(place / "home")
        tree = place / "tree"
        tree.mkdir()
        each = options.size * (1 << 20) // FILES
        for number in range(FILES):
            with open(tree / f"{number}.bin", "wb") as file:
                for _ in range(each >> 20):
                    file.write(os.urandom(1 << 20))
        total = each * FILES
        adding.take(tree)
        rounds: list[dict[str, float]] = []
        for number in range(options.rounds):
            plain = openssl()
            one_wall, one_cpu = timed(lambda: adding.take(tree, threads=1))
            two_wall, two_cpu = timed(lambda: adding.take(tree, threads=2))
            one = {
                "openssl": plain,
                "one": total / one_cpu / 1e6,
                "one by the wall": total / one_wall / 1e6,
                "two by the wall": total / two_wall / 1e6,
                "of openssl": total / one_cpu / 1e6 / plain,
                "two of one": one_wall / two_wall,
                "cpu of two of one": two_cpu / one_cpu,
            }
            rounds.append(one)
            print(
                f"round {number + 1}: " + ", ".join(f"{key} {value:.2f}" for key, value in one.items()),
                flush=True,
            )
    result: dict[str, Any] = {"bytes": total, "rounds": rounds}
    print(f"\n{total / 1e9:.2f} GB in {FILES} files, page cache warm, {options.rounds} rounds\n")
    print(f"{'':<42}{'best':>8}{'median':>8}  aim")
    # The best of each, one against the other: what else the machine does in a round is in one of them alone.
    best = {
        "of openssl": max(one["one"] for one in rounds) / max(one["openssl"] for one in rounds),
        "two of one": max(one["two by the wall"] for one in rounds)
        / max(one["one by the wall"] for one in rounds),
        "cpu of two of one": min(one["cpu of two of one"] for one in rounds),
    }
    for key, what, aim in (
        ("of openssl", "one thread of openssl speed, by CPU", "0.90"),
        ("two of one", "two threads of one, by wall", "1.85"),
        ("cpu of two of one", "CPU of two threads of one's", "1.05"),
    ):
        middle = statistics.median(one[key] for one in rounds)
        result[key] = {"best": best[key], "median": middle}
        print(f"{what:<42}{best[key]:>8.2f}{middle:>8.2f}  {aim}")
    for key in ("openssl", "one", "one by the wall", "two by the wall"):
        values = [one[key] for one in rounds]
        print(f"{key + ', MB/s':<42}{max(values):>8.0f}{statistics.median(values):>8.0f}")
    if options.json is not None:
        options.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
