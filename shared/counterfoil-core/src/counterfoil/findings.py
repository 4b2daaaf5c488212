"""What verification says: verdicts, findings and counts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final, Literal

from counterfoil.errors import LogError

__all__ = ["EXIT_CODES", "Finding", "Verdict", "Verification"]

Verdict = Literal["intact", "broken", "incomplete", "cannot-tell"]

EXIT_CODES: Final[dict[str, int]] = {"intact": 0, "broken": 3, "incomplete": 4, "cannot-tell": 5}
_ORDER: Final[list[Verdict]] = ["broken", "cannot-tell", "incomplete", "intact"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One reason why evidence is not intact: stable code, place, what, and what to do."""

    code: str
    where: str
    message: str
    hint: str
    verdict: Verdict = "broken"


@dataclass(slots=True)
class Verification:
    """The verdict, the findings behind it, what was counted, and notes that do not touch the verdict."""

    findings: list[Finding] = field(default_factory=list)
    notes: list[Finding] = field(default_factory=list)
    continues: list[Any] = field(default_factory=list)
    """For every checkpoint that was given and is continued: a ``counterfoil.continuing.Continuation``."""
    counts: dict[str, int] = field(
        default_factory=lambda: dict.fromkeys(
            ("records", "statements", "logs", "runs", "handoffs", "blobs", "losses", "open", "tail"), 0
        )
    )

    @property
    def verdict(self) -> Verdict:
        """The gravest verdict of any finding; ``intact`` when there is none."""
        return min((finding.verdict for finding in self.findings), key=_ORDER.index, default="intact")

    def raise_for_status(self) -> None:
        """Raise LogError with the first of the gravest findings unless the evidence is intact."""
        verdict = self.verdict
        for finding in self.findings:
            if finding.verdict == verdict:
                raise LogError(
                    f"{verdict}: {finding.message}", code=finding.code, where=finding.where, hint=finding.hint
                )
