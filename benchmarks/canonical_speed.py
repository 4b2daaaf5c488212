"""Time to write and to check RFC 8785 bytes, against ``rfc8785``, in one run.

    python benchmarks/canonical_speed.py [--rounds 9] [--documents records,history] [--json FILE]

Writing: ``counterfoil.canonical.dumps`` against ``rfc8785.dumps``. Checking: ``counterfoil.canonical.loads_canonical``
of the written bytes against reading them with ``json`` and writing them with ``rfc8785`` again. Both write every
document and the bytes are compared before anything is timed. Bare orjson (sorted keys) is no RFC 8785, but the bound of
it. Rounds are interleaved, each a block of ``--block`` seconds at least; printed are medians over the rounds. Compare
rows of one run only: machines are noisy.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import orjson
import rfc8785
from _documents import DOCUMENTS

from counterfoil import canonical
from counterfoil.errors import CanonicalError

# Of the time rfc8785 needs, how many times less is aimed at: a record, a history without floats, anything else.
TARGETS = {"records": 8.0, "history": 20.0}
FLOOR = 0.9


def _loops(go: Callable[[], object], block: float) -> int:
    loops = 1
    while True:
        start = time.perf_counter()
        for _ in range(loops):
            go()
        if (took := time.perf_counter() - start) >= block / 2:
            return max(1, round(loops * block / took))
        loops *= 2


def _each(way: Callable[[Any], object], documents: list[Any]) -> Callable[[], None]:
    def go() -> None:
        for document in documents:
            way(document)

    return go


def _rounds(ways: dict[str, Callable[[], object]], rounds: int, block: float) -> dict[str, float]:
    """Median microseconds of every way, blocks interleaved."""
    loops = {name: _loops(go, block) for name, go in ways.items()}
    found: dict[str, list[float]] = {name: [] for name in ways}
    gc.collect()
    gc.disable()
    try:
        for _ in range(rounds):
            for name, go in ways.items():
                start = time.perf_counter()
                for _ in range(loops[name]):
                    go()
                found[name].append((time.perf_counter() - start) / loops[name] * 1e6)
    finally:
        gc.enable()
    return {name: statistics.median(each) for name, each in found.items()}


def _readable(document: Any) -> bool:
    """Whether its text can be checked: a double from 2^53 up has an integer's, which the strict reader refuses."""
    try:
        canonical.loads_canonical(canonical.dumps(document), max_depth=128)
    except CanonicalError:
        return False
    return True


def measure(documents: list[Any], rounds: int, block: float) -> dict[str, float]:
    """Figures for these documents, each written by its own call, and their size."""
    size = 0
    for document in documents:
        text = canonical.dumps(document)
        size += len(text)
        if text != rfc8785.dumps(document):
            raise SystemExit("the two do not write the same bytes")
    writing: dict[str, Callable[[Any], object]] = {
        "orjson": lambda document: orjson.dumps(document, option=orjson.OPT_SORT_KEYS),
        "rfc8785": rfc8785.dumps,
        "counterfoil": canonical.dumps,
    }
    found = _rounds({name: _each(way, documents) for name, way in writing.items()}, rounds, block)
    if all(map(_readable, documents)):
        texts = [canonical.dumps(document) for document in documents]
        checking: dict[str, Callable[[Any], object]] = {
            "check_rfc8785": lambda text: rfc8785.dumps(json.loads(text)) == text,
            "check_counterfoil": lambda text: canonical.loads_canonical(text, max_depth=128),
        }
        found |= _rounds({name: _each(way, texts) for name, way in checking.items()}, rounds, block)
    return {"bytes": size, **found}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--documents", default=",".join(DOCUMENTS))
    parser.add_argument("--block", type=float, default=0.02, help="seconds that one timing takes at least")
    parser.add_argument("--json", help="write the figures to this file")
    arguments = parser.parse_args()
    if not canonical.fast_path_enabled():
        print("the fast path is off: the installed orjson failed the self-test", file=sys.stderr)
    print("| documents | bytes | rfc8785, us | counterfoil, us | times faster | aim | check | bare orjson |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    everything: dict[str, Any] = {}
    for name in arguments.documents.split(","):
        row = measure(DOCUMENTS[name](), arguments.rounds, arguments.block)
        ratio = row["rfc8785"] / row["counterfoil"]
        target = TARGETS.get(name, FLOOR)
        check = f"{row['check_rfc8785'] / row['check_counterfoil']:.1f}" if "check_rfc8785" in row else "-"
        reached = f"{target:g}" if ratio >= target else f"{target:g}, missed"
        print(
            f"| {name} | {row['bytes']:,} | {row['rfc8785']:,.1f} | {row['counterfoil']:,.1f} | {ratio:.1f}"
            f" | {reached} | {check} | {row['rfc8785'] / row['orjson']:.1f} |"
        )
        everything[name] = {**row, "ratio": ratio, "target": target}
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(everything, indent=1))


if __name__ == "__main__":
    main()
