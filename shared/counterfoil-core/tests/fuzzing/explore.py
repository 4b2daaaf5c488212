"""One parser under a fuzzer for some seconds, in a process of its own with limits.

    python explore.py TARGET SECONDS [--memory MIB] [--engine atheris|mutation]

Fails, with the input in hexadecimal, when anything but a CounterfoilError comes out, when one input takes longer than
ten seconds, or when memory runs out. ``atheris`` (libFuzzer) follows coverage of the code; where it is not installed,
``mutation`` makes seeded changes to well-formed inputs. The last line printed says how many inputs were tried.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NoReturn

_ONE_INPUT = 10
_LONGEST = 8192


def _limited(megabytes: int, seconds: int) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (megabytes << 20, megabytes << 20))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds * 4 + 60, seconds * 4 + 60))


def _mutation(name: str, seconds: int) -> int:
    import mutation
    import parsers

    seeds = parsers.SEEDS(name)
    end, tried = time.process_time() + seconds, 0  # on a busy machine as many inputs as on any
    while time.process_time() < end:
        data = mutation.inputs(tried, seeds)
        signal.alarm(_ONE_INPUT)
        _try(parsers, name, data)
        tried += 1
    signal.alarm(0)
    return tried


def _try(parsers: Any, name: str, data: bytes) -> None:
    try:
        parsers.run(name, data)
    except BaseException:
        sys.stderr.write(f"{name} on {data.hex()}\n")
        raise


def _atheris(name: str, seconds: int) -> NoReturn:
    import atheris

    with atheris.instrument_imports(include=["counterfoil"]):
        import dictionary
        import mutation
        import parsers

    folder = Path(tempfile.mkdtemp(prefix="counterfoil-corpus-"))
    for number, seed in enumerate(parsers.SEEDS(name)):
        (folder / f"seed{number}").write_bytes(seed)
    words = folder.parent / f"{folder.name}.dict"
    escaped = ("".join(f"\\x{byte:02x}" for byte in word.encode("utf-8")) for word in dictionary.DICTIONARY)
    words.write_text("".join(f'"{word}"\n' for word in escaped))
    tried = 0

    def one(data: bytes) -> None:
        nonlocal tried
        tried += 1
        _try(parsers, name, data)

    def change(data: bytes, most: int, seed: int) -> bytes:
        # libFuzzer's own changes seldom leave JSON that parses.
        rng = random.Random(seed)
        made: bytes = mutation.of_json(rng, data) if seed % 2 else atheris.Mutate(data, most)
        return made[:most]

    longest = max(_LONGEST, *(len(seed) for seed in parsers.SEEDS(name)))
    options = {
        "max_total_time": seconds,
        "timeout": _ONE_INPUT,
        "max_len": longest,
        "rss_limit_mb": 0,  # the limit of the process holds
        "seed": 1,
        "print_final_stats": 1,
        "dict": words,
        "artifact_prefix": f"{folder.parent}{os.sep}",
    }
    atheris.Setup(
        [sys.argv[0], str(folder), *(f"-{key}={value}" for key, value in options.items())],
        one,
        custom_mutator=change,
    )
    atheris.Fuzz()
    raise AssertionError("libFuzzer ends the process itself")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("target")
    parser.add_argument("seconds", type=int)
    parser.add_argument("--memory", type=int, default=2048, help="MiB of address space")
    parser.add_argument("--engine", choices=["atheris", "mutation"], default="mutation")
    arguments = parser.parse_args()
    sys.path.insert(0, str(Path(__file__).parent))
    _limited(arguments.memory, arguments.seconds)
    if arguments.engine == "atheris":
        _atheris(arguments.target, arguments.seconds)
    print(f"stat::number_of_executed_units: {_mutation(arguments.target, arguments.seconds)}")


if __name__ == "__main__":
    main()
