"""What verification says: verdicts, findings and counts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from counterfoil.errors import LogError

__all__ = ["EXIT_CODES", "MOST", "Finding", "Findings", "Verdict", "Verification"]

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


MOST: Final = 1000
"""Findings (and notes) that are listed; of more only how many there are is told."""


@dataclass(slots=True)
class Findings:
    """Findings in order: the first thousand, and of the rest how many of each verdict."""

    listed: list[Finding] = field(default_factory=list)
    more: dict[Verdict, int] = field(default_factory=dict)

    def add(self, finding: Finding) -> None:
        """Add one."""
        if len(self.listed) < MOST:
            self.listed.append(finding)
        else:
            self.more[finding.verdict] = self.more.get(finding.verdict, 0) + 1

    def extend(self, findings: Findings | Iterable[Finding]) -> None:
        """Add several, or those of a part."""
        for finding in findings.listed if isinstance(findings, Findings) else findings:
            self.add(finding)
        if isinstance(findings, Findings):
            self.count(findings.more)

    def count(self, more: Mapping[Verdict, int]) -> None:
        """Count what is not listed."""
        for verdict, count in more.items():
            self.more[verdict] = self.more.get(verdict, 0) + count

    def has(self, verdict: Verdict | None = None) -> bool:
        """Whether there is one, of this verdict."""
        if verdict is None:
            return bool(self.listed)
        return verdict in self.more or any(finding.verdict == verdict for finding in self.listed)

    def whole(self) -> list[Finding]:
        """What is listed, and last how much is not."""
        if not self.more:
            return list(self.listed)
        gravest = min(self.more, key=_ORDER.index)
        count = sum(self.more.values())
        told = ", ".join(f"{self.more[verdict]} {verdict}" for verdict in _ORDER if verdict in self.more)
        what = "1 more finding is not listed" if count == 1 else f"{count} more findings are not listed"
        hint = "mend or explain those that are, then verify again"
        return [*self.listed, Finding("CF-VERIFY-009", "", f"{what} ({told})", hint, gravest)]


@dataclass(slots=True)
class Verification:
    """The verdict, the findings behind it, what was counted, and notes that do not touch the verdict."""

    findings: list[Finding] = field(default_factory=list)
    notes: list[Finding] = field(default_factory=list)
    continues: list[Any] = field(default_factory=list)
    """For every checkpoint that was given and is continued: a ``counterfoil.tlog.continuing.Continuation``."""
    elsewhere: Any = None
    """What other processes or a cluster did of it, if any: a ``counterfoil.sidebyside.Elsewhere``."""
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
