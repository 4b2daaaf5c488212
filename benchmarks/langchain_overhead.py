"""Time that recording adds to an iteration, against a no-op handler and OpenInference, in one run.

    python benchmarks/langchain_overhead.py [--rounds 5] [--shapes A,B,C,G] [--scale 1.0] [--json FILE]

Every (handler, round) is its own process, rounds interleaved. A process times the bare workload, sets the handler up,
warms it and times the same workload again; the handler is flushed inside the timed block, so that what is deferred to
a thread counts too. Compare rows of one run only: machines are noisy. Printed are medians over the rounds.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import statistics
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from _handlers import HANDLERS
from _shapes import SHAPES

DEFAULT = ["none", "noop", "openinference", "counterfoil"]


def child(handler: str, shape: str, iterations: int) -> dict[str, float]:
    """Time one handler in this process: seconds of wall and of CPU (all threads), bare and with it."""
    warnings.filterwarnings("ignore")  # other projects' warnings are not what is measured here
    make = SHAPES[shape][2]
    go = make()
    make()(20, [])

    def block(callbacks: list[Any], flush: Any) -> tuple[float, float]:
        gc.collect()
        wall, cpu = time.perf_counter(), time.process_time()
        go(iterations, callbacks)
        flush()
        return time.perf_counter() - wall, time.process_time() - cpu

    bare = block([], lambda: None)
    callbacks, flush = HANDLERS[handler]()
    make()(20, callbacks)
    flush()
    with_it = block(callbacks, flush)
    return {"bare": bare[0], "bare_cpu": bare[1], "wall": with_it[0], "cpu": with_it[1]}


def measure(shape: str, handlers: list[str], rounds: int, iterations: int) -> dict[str, dict[str, float]]:
    """Medians by handler, microseconds an iteration."""
    found: dict[str, list[dict[str, float]]] = {name: [] for name in handlers}
    for _ in range(rounds):
        for name in handlers:
            words = [
                sys.executable,
                __file__,
                "--child",
                name,
                "--shapes",
                shape,
                "--iterations",
                str(iterations),
            ]
            env = {**os.environ, "LANGSMITH_TRACING": "false", "LANGCHAIN_TRACING_V2": "false"}
            env.pop("COUNTERFOIL", None)
            done = subprocess.run(words, capture_output=True, text=True, env=env, check=False)
            if done.returncode:
                raise SystemExit(f"{name}: {done.stderr.strip().splitlines()[-1:]}")
            found[name].append(json.loads(done.stdout))
    out: dict[str, dict[str, float]] = {}
    for name, runs in found.items():
        out[name] = {
            "bare": statistics.median(run["bare"] for run in runs) / iterations * 1e6,
            "wall": statistics.median(run["wall"] - run["bare"] for run in runs) / iterations * 1e6,
            "cpu": statistics.median(run["cpu"] - run["bare_cpu"] for run in runs) / iterations * 1e6,
        }
    return out


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--shapes", default="A,B,C,G")
    parser.add_argument("--handlers", default=",".join(DEFAULT))
    parser.add_argument("--scale", type=float, default=1.0, help="factor on the number of iterations")
    parser.add_argument("--json", help="write the figures to this file")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--iterations", type=int, default=0, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        print(json.dumps(child(arguments.child, arguments.shapes, arguments.iterations)))
        return
    everything: dict[str, Any] = {}
    for shape in arguments.shapes.split(","):
        what, iterations, _ = SHAPES[shape]
        iterations = max(20, int(iterations * arguments.scale))
        found = measure(shape, arguments.handlers.split(","), arguments.rounds, iterations)
        everything[shape] = found
        peer = found.get("openinference", {}).get("wall")
        print(f"\n{shape}: {what} ({iterations} iterations, medians of {arguments.rounds} rounds)\n")
        print("| handler | added wall, us | added CPU, us | of OpenInference's wall |")
        print("| --- | --- | --- | --- |")
        for name, row in found.items():
            share = f"{row['wall'] / peer:.2f}" if peer else "-"
            print(f"| {name} | {row['wall']:.0f} | {row['cpu']:.0f} | {share} |")
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(everything, indent=1))


if __name__ == "__main__":
    main()
