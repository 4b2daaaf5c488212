"""Bytes that runs leave, against a naive log of the same sessions.

    python benchmarks/sizes.py [--json FILE]

A session (``_session.py``) is run in LangChain with a scripted model and recorded by ``counterfoil_langchain.Handler``,
as an application does it. ``evidence`` is what ``du -b`` counts in the folder: chunks, chain, tree, checkpoints,
signatures, what the process runs on (14 KB where 190 distributions are installed), the folders themselves (8 KB).
``naive`` writes every event with its whole payload as one JSON text; ``each compressed`` compresses each of them by
itself (zstd 3). Several runs are sessions of different seeds in one process, all figures a run. How far they go down
depends on the texts as well: single runs of 25 calls are between 1/32 and 1/42 of their naive log.

``growth``: what the last quarter of the calls adds to the segments against the first, beside the same of the texts that
came in. They are equal where a call costs the same however long the history is.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import _session
import zstandard


def measure(
    calls: int, folder: Path, *, seeds: Sequence[int] = (1,), compressed: bool = True
) -> dict[str, Any]:
    """Record a session of each seed into ``folder`` in one process, and tell the sizes of them all."""
    from counterfoil_langchain import Handler

    zstd = zstandard.ZstdCompressor(level=3)
    handler = Handler(folder)
    plain = packed = 0
    for seed in seeds:
        given = _session.session(calls, seed=seed)
        for event in _session.naive(given):
            plain += len(event)
            packed += len(zstd.compress(event)) if compressed else 0
        _session.run(given, [handler])
    handler.close()
    size = sum(path.lstat().st_size for path in (folder, *folder.rglob("*")))
    return {"calls": calls, "each_compressed": packed, "evidence": size, "naive": plain, "runs": len(seeds)}


def growth(calls: int, folder: Path, *, seed: int = 1) -> tuple[float, float]:
    """Stored bytes, and new bytes of text, of the last quarter of the calls as multiples of the first quarter's."""
    from counterfoil_langchain import Handler

    given = _session.session(calls, seed=seed)
    marks: list[int] = []
    handler = Handler(folder)

    def mark() -> None:
        if not handler.flush():
            raise SystemExit("counterfoil could not write its evidence")
        marks.append(sum(path.stat().st_size for path in folder.rglob("*.seg")))

    _session.run(given, [handler], each=mark)
    handler.close()
    texts = [len(turn.content) + len(turn.output) for turn in given.turns]
    quarter = calls // 4
    stored = (marks[-1] - marks[-1 - quarter]) / (marks[quarter] - marks[0])
    return stored, sum(texts[-quarter:]) / sum(texts[1 : quarter + 1])


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", type=Path, help="write the figures here as well")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        from counterfoil import keys

        keys.set_home(Path(place, "home"))
        rows = []
        print(
            f"{'calls':>5}{'runs':>5}{'naive':>13}{'of it':>7}{'each compressed':>17}{'of it':>6}{'evidence':>11}"
        )
        for calls, runs in ((25, 1), (25, 5), (200, 1)):
            row = measure(calls, Path(place, f"{calls}-{runs}"), seeds=range(1, runs + 1))
            rows.append(row)
            naive, packed, size = (row[name] // runs for name in ("naive", "each_compressed", "evidence"))
            shares = f"1/{naive / size:.1f}", f"1/{packed / size:.0f}"
            print(
                f"{calls:>5}{runs:>5}{naive:>13,}{shares[0]:>7}{packed:>17,}{shares[1]:>6}{size:>11,}",
                flush=True,
            )
        row["growth"], row["texts"] = growth(200, Path(place, "growth"))
        print(f"growth over 200 calls: stored {row['growth']:.2f}, texts {row['texts']:.2f}")
    if options.json is not None:
        options.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
