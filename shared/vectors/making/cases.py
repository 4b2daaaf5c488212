"""What a case of the log vectors is, and the logs they begin from."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from making.formats import b64
from making.logs import RUN, Log


@dataclass
class Case:
    """One evidence; the keyring holds the named keys, `~name` only by fingerprint, `name+` as an admin.

    Heads are remembered for the evidence (`.`), for no place (empty), or for another folder (`there`), which is there
    if the case has files or folders for it.
    """

    name: str
    files: dict[str, bytes]
    verdict: str
    findings: list[str]
    keyring: tuple[str, ...] = ("identity", "peer")
    heads: list[dict[str, Any]] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    folders: list[str] = field(default_factory=list)
    policy: str = ""
    there: dict[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """As it stands in the vectors."""
        out: dict[str, Any] = {
            "files": {name: b64(data) for name, data in sorted(self.files.items())},
            "findings": self.findings,
            "keyring": list(self.keyring),
            "name": self.name,
            "verdict": self.verdict,
        }
        for name in ("counts", "folders", "heads", "notes", "policy"):
            if getattr(self, name):
                out[name] = getattr(self, name)
        if self.there:
            files = self.there.get("files", {})
            out["there"] = self.there | {"files": {name: b64(data) for name, data in sorted(files.items())}}
        return out


def begun(log: Log | None = None, **session: Any) -> Log:
    """A log with its session record."""
    log = log or Log()
    log.segment()
    log.session(**session)
    return log


def run(log: Log, **more: Any) -> Log:
    """One whole run."""
    log.start("invoke_workflow", "team", RUN, **more)
    log.end("invoke_workflow", "team", RUN)
    return log


def small() -> Log:
    """The smallest useful log."""
    log = run(begun())
    log.checkpoint()
    return log


def broken(name: str, log: Log, *codes: str, **more: Any) -> Case:
    """A case that is broken."""
    return Case(name, log.evidence(), "broken", list(codes), **more)


def changed(log: Log, *edits: tuple[int, bytes], number: int = 0) -> Log:
    """The log with bytes of a segment replaced."""
    for at, data in edits:
        log.files[number][at : at + len(data)] = data
    return log


def ending(log: Log) -> Log:
    """The log, with a checkpoint."""
    log.checkpoint()
    return log


def flushed(log: Log) -> Log:
    """The log, everything written."""
    log.flush()
    return log
