"""One verification on every engine, with one worker and with two, over the same evidence, in one run.

    python benchmarks/engines.py [--entries 1000000] [--rounds 3] [--engines pool,dask,ray] [--handoffs] [--json FILE]

Evidence of records and stored values with a checkpoint every 256 entries; with ``--handoffs`` one entry in eight is a
signed statement. Rows of one round follow each other, each in a process of its own that starts the engine, has it
verify once (workers import what they need), and times the next verification: printed are medians. ``start`` is what
starting took. The last columns are ratios inside this run: one worker over two of the same engine, and the engine's
time over the pool's with as many workers. CPU is that of the parent and of the workers while they verified: it tells
the same where other work keeps the machine busy.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil

sys.path.insert(0, str(Path(__file__).parent))


def _cpu() -> float:
    """Seconds of CPU of this process and of all that it started and that still run."""
    total = 0.0
    own = psutil.Process()
    for one in (own, *own.children(recursive=True)):
        try:
            times = one.cpu_times()
        except psutil.Error:
            continue
        total += times.user + times.system
    return total


def child(engine: str, root: Path, jobs: int) -> dict[str, Any]:
    """Time one row in this process."""
    from counterfoil import keys, verify
    from counterfoil.engines.choosing import choose

    identity = keys.load_identity()
    assert identity is not None
    ring = keys.Keyring.of([identity.public])
    begun = time.perf_counter()
    held = None if engine == "here" else choose(engine, jobs=jobs)
    start = time.perf_counter() - begun
    try:
        for _ in range(2):
            wall, cpu = time.perf_counter(), _cpu()
            result = verify(root, keyring=ring, full=True, engine=held, jobs=1 if held is None else None)
            wall, cpu = time.perf_counter() - wall, _cpu() - cpu
    finally:
        if held is not None:
            held.close()
    assert result.verdict == "intact", result.findings[:3]
    assert held is None or (result.elsewhere.here, result.elsewhere.failed) == (0, {}), result.elsewhere
    entries = result.counts["records"] + result.counts["statements"]
    return {"entries": entries, "start": start, "wall": wall, "cpu": cpu}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--entries", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--engines", default="pool,dask,ray")
    parser.add_argument("--handoffs", action="store_true")
    parser.add_argument("--segment-mb", type=int, default=8)
    parser.add_argument("--json")
    parser.add_argument("--child")
    parser.add_argument("--root")
    parser.add_argument("--jobs", type=int, default=2)
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
        identity = keys.load_or_create_identity()
        held = make(
            root,
            identity,
            entries=given.entries,
            segment_bytes=given.segment_mb << 20,
            handoffs=given.handoffs,
        )
        held["bytes"] = sum(path.stat().st_size for path in root.rglob("*.seg"))
        held["segments"] = len(list(root.rglob("*.seg")))
        print(", ".join(f"{count:,} {name}" for name, count in held.items()), flush=True)
        names = given.engines.split(",")
        rows = [("here", 1), *((name, jobs) for name in names for jobs in (1, 2))]
        found: dict[tuple[str, int], list[dict[str, Any]]] = {row: [] for row in rows}
        for _ in range(given.rounds):
            for name, jobs in rows:
                words = [sys.executable, __file__, "--child", name, "--root", str(root), "--jobs", str(jobs)]
                done = subprocess.run(words, check=True, capture_output=True, text=True)
                found[name, jobs].append(json.loads(done.stdout.splitlines()[-1]))
    told = {
        row: {key: statistics.median(one[key] for one in ones) for key in ones[0]}
        for row, ones in found.items()
    }
    print(
        f"{'engine':<8}{'workers':>8}{'start s':>9}{'wall s':>9}{'records/s':>12}{'CPU us/rec':>12}"
        f"{'1 over this':>13}{'of pool':>9}{'CPU of pool':>13}"
    )
    for (name, jobs), one in told.items():
        base = told.get((name, 1), one)
        pool = told.get(("pool", jobs), one)
        print(
            f"{name:<8}{jobs:>8}{one['start']:>9.2f}{one['wall']:>9.2f}{one['entries'] / one['wall']:>12,.0f}"
            f"{one['cpu'] / one['entries'] * 1e6:>12.2f}{base['wall'] / one['wall']:>13.2f}"
            f"{one['wall'] / pool['wall']:>9.2f}{one['cpu'] / pool['cpu']:>13.2f}"
        )
    if given.json:
        rows_told = {f"{name} {jobs}": one for (name, jobs), one in told.items()}
        Path(given.json).write_text(json.dumps({"held": held, "rows": rows_told}, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
