"""What every bed does around its application: a quiet offline environment before, result files after."""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import netguard

PLACEHOLDER_KEYS = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GOOGLE_API_KEY")


def arguments(parser: argparse.ArgumentParser, app: str) -> None:
    """Add the options every bed has."""
    variable = f"{app.upper()}_CHECKOUT"
    known = os.environ.get(variable)
    parser.add_argument("--checkout", type=Path, default=known, required=not known, help=f"or {variable}")
    parser.add_argument("--out", type=Path, help="folder for the result files (default: a new one)")
    parser.add_argument("--latency-ms", type=float, default=0, help="of each model call")


def prepare(args: argparse.Namespace, app: str, keys: tuple[str, ...] = ()) -> Path:
    """Make OUT the working folder and home, plant placeholder keys, refuse the network, open the checkout.

    A real key in the environment is overwritten: nothing an application does here may be paid for.
    """
    args.checkout = args.checkout.resolve()
    out = (args.out or Path(tempfile.mkdtemp(prefix=f"{app}_"))).resolve()
    home = out / "home"
    home.mkdir(parents=True, exist_ok=True)
    for name in (*PLACEHOLDER_KEYS, *keys):
        os.environ[name] = "placeholder"
    os.environ["LANGSMITH_TRACING"] = os.environ["LANGCHAIN_TRACING_V2"] = "false"
    os.environ["HOME"] = str(home)
    os.chdir(out)  # so that no .env of the caller's is loaded
    netguard.install()
    sys.path.insert(0, str(args.checkout))
    return out


def finish(out: Path, summary: dict[str, Any], *, wire: list[dict], events: list[dict] | None = None) -> None:
    """Write ``wire.jsonl``, ``events.jsonl`` (if recorded) and ``summary.json``; print the summary."""
    summary = {
        **summary,
        "llm_requests_on_wire": len(wire),
        "wire_bytes": sum(len(json.dumps(exchange)) for exchange in wire),
        "blocked_connections": netguard.attempts,
    }
    write_lines(out / "wire.jsonl", wire)
    if events is not None:
        write_lines(out / "events.jsonl", events)
    write_json(out / "summary.json", summary)
    print(json.dumps(summary, indent=1, default=str))


def write_lines(path: Path, values: list[dict]) -> None:
    path.write_text("".join(json.dumps(value, default=str) + "\n" for value in values))


def write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=1, default=str) + "\n")
