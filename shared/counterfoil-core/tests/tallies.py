"""What stands in an evidence folder, counted."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import counterfoil
from counterfoil import log


def entries(evidence: Path) -> list[log.Entry]:
    return list(counterfoil.read(evidence).entries())


def named(evidence: Path, op: str) -> list[str]:
    return [one.body["content"].get("name", "") for one in entries(evidence) if one.op == op]


def ops(evidence: Path) -> Counter[str]:
    return Counter(one.op for one in entries(evidence))
