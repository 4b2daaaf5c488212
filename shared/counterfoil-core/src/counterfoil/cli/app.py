"""Puts the commands together, and turns every failure into lines on stderr and an exit code."""

from __future__ import annotations

import errno
import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from counterfoil._version import __version__
from counterfoil.cli import (
    archive,
    bundle,
    demo,
    diff,
    digest,
    doctor,
    environment,
    export,
    graph,
    handoffs,
    init,
    keys,
    log,
    output,
    policy,
    pull,
    push,
    report,
    scrub,
    show,
    verify,
    weights,
)
from counterfoil.cli import run as run_command
from counterfoil.cli.options import Debug
from counterfoil.errors import ConfigError, CounterfoilError, LogError, StoreError

__all__ = ["run"]

SIGPIPE_EXIT = 141
INTERRUPT_EXIT = 130


def _version(value: bool) -> None:
    if value:
        output.out(f"counterfoil {__version__}")
        raise typer.Exit


def _root(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_version, is_eager=True)
    ] = False,
    debug: Debug = False,
) -> int:
    """Signed, verifiable records of what agents did and handed to each other.

    \b
    Examples:
      counterfoil run app.py          record an application, unchanged
      counterfoil verify              can the record be believed?
      counterfoil graph --run last    who acted after whom
      counterfoil demo                all of it, offline, in a minute

    The evidence E is $COUNTERFOIL, else counterfoil-evidence/, unless a command is given another one.
    Exit codes: 0 intact or clean, 1 findings, 2 usage, 3 broken, 4 incomplete, 5 cannot tell.
    """
    if context.invoked_subcommand is None:
        output.out(context.get_help())
        return 2
    return 0


def _build() -> typer.Typer:
    # Plain help: `\b` keeps the examples' lines, and there is nothing for NO_COLOR to switch off.
    options: dict[str, Any] = {
        "add_completion": False,
        "rich_markup_mode": None,
        "pretty_exceptions_enable": False,
        "context_settings": {"help_option_names": ["-h", "--help"]},
    }
    app = typer.Typer(name="counterfoil", invoke_without_command=True, callback=_root, **options)
    # What stands behind the command of `run` belongs to that command, options and all.
    rest = {"allow_interspersed_args": False, "ignore_unknown_options": True}
    app.command("run", context_settings={**options["context_settings"], **rest})(run_command.run)
    app.command("init")(init.init)
    app.command("verify")(verify.verify)
    app.command("log")(log.log)
    app.command("show")(show.show)
    app.command("graph")(graph.graph)
    app.command("handoffs")(handoffs.handoffs)
    app.command("bundle")(bundle.bundle)
    app.command("report")(report.report)
    app.command("diff")(diff.diff)
    app.command("digest")(digest.digest)
    app.command("doctor")(doctor.doctor)
    app.command("environment")(environment.environment)
    app.command("export")(export.export)
    app.command("scrub")(scrub.scrub)
    app.command("archive")(archive.archive)
    app.command("push")(push.push)
    app.command("pull")(pull.pull)
    group = typer.Typer(invoke_without_command=True, callback=keys.keys, **options)
    group.command("show")(keys.show)
    group.command("pin")(keys.pin)
    group.command("unpin")(keys.unpin)
    group.command("forget")(keys.forget)
    app.add_typer(group, name="keys")
    trust = typer.Typer(invoke_without_command=True, callback=policy.policy, **options)
    trust.command("init")(policy.init)
    trust.command("show")(policy.show)
    trust.command("check")(policy.check)
    trust.command("sign")(policy.sign)
    trust.command("allow")(policy.allow)
    trust.command("deny")(policy.deny)
    app.add_typer(trust, name="policy")
    models = typer.Typer(invoke_without_command=True, callback=weights.weights, **options)
    models.command("add")(weights.add)
    models.command("verify")(weights.verify)
    models.command("list")(weights.list_)
    app.add_typer(models, name="weights")
    app.command("demo")(demo.demo)
    return app


def run(arguments: Sequence[str] | None) -> int:
    """Run the command line and return its exit code."""
    output.prepare()
    try:
        code = _call(list(sys.argv[1:] if arguments is None else arguments))
        output.finish()
    except output.Closed:
        output.silence(sys.stdout)
        return SIGPIPE_EXIT
    except KeyboardInterrupt:
        return INTERRUPT_EXIT
    except OSError as exc:
        output.silence(sys.stdout)
        output.report(
            StoreError(f"cannot write the output: {exc.strerror}", code="CF-CLI-004", where="stdout")
        )
        return 2
    return code


def _call(arguments: list[str]) -> int:
    try:
        code = _build()(args=arguments, prog_name="counterfoil", standalone_mode=False)
        return code if type(code) is int else 0
    except SystemExit as exc:  # typer's own answer to a closed pipe
        return exc.code if type(exc.code) is int else 0
    except CounterfoilError as exc:
        output.report(exc)
        return 2
    except (typer.Abort, EOFError):
        return INTERRUPT_EXIT
    except OSError as exc:
        if exc.filename is None:
            if exc.errno in (errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EBADF):
                raise  # what a stream says that is written to has no name
            output.report(_internal(exc))
            return 2
        where = str(exc.filename)
        output.report(StoreError(f"{exc.strerror}", code="CF-CLI-006", where=where, hint="check the path"))
        return 2
    except Exception as exc:
        output.report(_usage(exc) or _internal(exc))
        return 2


def _usage(exc: Exception) -> ConfigError | None:
    """The error for what typer did not understand; its classes are recognised by what they can do."""
    told = getattr(exc, "format_message", None)
    if told is None:
        return None
    context = getattr(exc, "ctx", None)
    path = getattr(context, "command_path", None) or "counterfoil"
    return ConfigError(str(told()), code="CF-CLI-001", where=path, hint=f"{path} --help")


def _internal(exc: Exception) -> CounterfoilError:
    return LogError(
        f"an error in Counterfoil itself: {type(exc).__name__}",
        code="CF-CLI-005",
        hint="the same command with --debug shows where; please report it",
    )
