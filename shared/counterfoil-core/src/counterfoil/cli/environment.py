"""``counterfoil environment``: what runs here, or what a recorded run ran on."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any, Final

import typer
from rich.console import Console
from rich.progress import Progress

from counterfoil import environment as environments
from counterfoil import keys
from counterfoil.cli import output
from counterfoil.cli.options import Debug, E, Evidence, Json, Run, evidence_path
from counterfoil.cli.rows import moment as at_moment
from counterfoil.cli.source import Source, open_source
from counterfoil.environment import cyclonedx, deep
from counterfoil.environment.form import misshapen
from counterfoil.errors import ConfigError
from counterfoil.views import Runs

__all__ = ["environment"]

_BYTES: Final = frozenset({"memory"})
_UNITS: Final = {"error": "us", "max_error": "us", "offset": "us", "resolution": "ns"}


def environment(
    e: E = None,
    run: Run = None,
    deep_check: Annotated[
        bool, typer.Option("--deep", help="Hash every installed file and compare it with its RECORD.")
    ] = False,
    as_cyclonedx: Annotated[
        bool, typer.Option("--cyclonedx", help="Print a CycloneDX 1.6 bill of materials.")
    ] = False,
    json: Json = False,
    evidence: Evidence = None,
    debug: Debug = False,
) -> int:
    """Print what runs here, or what a run ran on.

    \b
    Examples:
      counterfoil environment                         here and now
      counterfoil environment --deep                  is every installed file what its RECORD says?
      counterfoil environment evidence/ --run last    what a run ran on
      counterfoil environment evidence/ --cyclonedx > bom.json

    Without E, --evidence and --run it shows this interpreter and machine as they are now, and reads no evidence;
    with one of them, what a run was recorded on (default: the last one).
    Values of variables are not printed or stored, but for a short list that can hold no secret. --deep exits
    with 1 when a file differs or is missing.
    """
    recorded = e is not None or evidence is not None or run is not None
    if deep_check and (recorded or as_cyclonedx):
        raise ConfigError(
            "--deep looks at the files installed here",
            code="CF-CLI-080",
            where="--deep",
            hint="leave E, --run and --cyclonedx out",
        )
    if recorded:
        found, at = _recorded(open_source(evidence_path(e, evidence)), run)
        wrong_at = None if json and not as_cyclonedx else misshapen(found)
        if wrong_at is not None:
            raise _unknown_form(wrong_at)
    else:
        found, at = environments.capture(key=_key()), int(time.time() * 1_000_000)
    if as_cyclonedx:
        moment = at_moment(at, utc=True)
        if moment is None:
            raise _unknown_form("at")
        when = moment.strftime("%Y-%m-%dT%H:%M:%SZ")
        output.out(output.json_text(cyclonedx.document(found, at=when), indent=2))
        return 0
    wrong: list[str] = []
    if deep_check:
        with _progress() as tell:
            found["deep"] = deep.check(tell=tell)
        found["application"] = deep.work_tree()
        wrong = found["deep"]["wrong"]
    if json:
        output.out(output.json_text(found, indent=2))
    else:
        for line in _lines(found):
            output.out(line)
    return int(bool(wrong))


def _unknown_form(where: str) -> ConfigError:
    return ConfigError(
        "what was recorded as the environment is none that can be printed",
        code="CF-CLI-083",
        where=where,
        hint="--json prints it as it is; whoever recorded it wrote it so",
    )


def _key() -> bytes | None:
    return keys.load_secret()


def _recorded(source: Source, wanted: str | None) -> tuple[dict[str, Any], object]:
    """The environment cited by the session (or a later capture) that the run began in, and when that was."""
    run = source.run_id(wanted if wanted is not None else "last")
    cited: dict[str, tuple[Any, object]] = {}
    chosen: tuple[Any, object] | None = None
    told = Runs()
    for entry in source.entries():
        found = told.of(entry)[0]
        if entry.op == "statement":
            continue
        context = entry.body["context"]
        at = context.get("at")
        if entry.op == "session":
            cited[entry.log] = (context.get("about"), at)
        if found == run:
            chosen = chosen or cited.get(entry.log)
            if "environment" in context:  # the run loaded what its session had not
                chosen, known = (None, at), source.value(context["environment"])
                break
    else:
        about = None if chosen is None else source.value(chosen[0])
        known = about.get("environment") if type(about) is dict else None
    if chosen is None or type(known) is not dict:
        raise ConfigError(
            "no environment was recorded for this run", code="CF-CLI-081", where=wanted or "last"
        )
    return known, chosen[1]


@contextmanager
def _progress() -> Iterator[Callable[[int, int], None] | None]:
    if sys.stderr is None or not sys.stderr.isatty():
        yield None
        return
    with Progress(console=Console(file=sys.stderr), transient=True) as progress:
        task = progress.add_task("hashing", total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)


def _lines(found: dict[str, Any]) -> Iterator[str]:
    for name in sorted(found):
        item = found[name]
        if name == "deep":
            yield from _deep_lines(item)
        elif type(item) is not dict:
            yield f"{name:<14}{_told(name, item)}"
        elif name == "distributions":
            yield f"{name:<14}{len(item.get('items', {}))} installed"
            for project, about in item.get("items", {}).items():
                record = str(about.get("record", ""))[:16]
                yield f"  {output.clean(project):<36} {output.clean(about.get('version')):<16} {record}".rstrip()
        elif name == "variables":
            prints, values = item.get("fingerprints", {}), item.get("values", {})
            yield f"{name:<14}{len(prints)} names"
            for variable in prints:
                shown = values.get(
                    variable, "(fingerprint " + prints[variable][:16] + ")" if prints[variable] else ""
                )
                yield f"  {output.clean(variable):<36} {output.clean(shown)}".rstrip()
        else:
            told = ", ".join(
                f"{key} {_told(key, value)}" for key, value in sorted(item.items()) if key != "source"
            )
            yield f"{name:<14}{told} ({item.get('source', 'unknown')})".replace("  (", " (")


def _told(name: str, value: Any) -> str:
    """A value with its unit; texts as they are, everything else as JSON has it."""
    if type(value) is int and name in _BYTES:
        return f"{value / (1 << 30):.1f} GiB"
    if type(value) is int and name in _UNITS:
        return f"{value} {_UNITS[name]}"
    return output.clean(value if type(value) is str else output.json_text(value))


def _deep_lines(item: dict[str, Any]) -> Iterator[str]:
    yield f"{'files':<14}{item['files']} hashed, {len(item['wrong'])} distributions differ"
    for project in item["wrong"]:
        for what in ("changed", "missing"):
            about = item["items"][project].get(what)
            if about:
                for file in about["names"]:
                    yield f"  {what} {output.clean(project)}: {output.clean(file)}"
                if about["count"] > len(about["names"]):
                    yield f"  {what} {output.clean(project)}: and {about['count'] - len(about['names'])} more"
