"""Logs whose chain, tree and signatures hold, with something odd in them: by patterns and at length they read alike."""

from __future__ import annotations

import importlib.util
import json
import random
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import counterfoil
from counterfoil import canonical, dsse, keys, moulds

MAKER = Path(__file__).parents[3] / "benchmarks" / "_evidence.py"
ODD: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 2, 1.5, 2**53 - 1, "", "x", "é", "x" * 300, 'q"', "b\\", [], {}, [None]),
    *("start", "end", "session", "stored", "loss", "closed", "segment", "recovered", "chat"),
    *({"ended": 1, "started": 1}, {"media": "m", "sha256": "0" * 64, "size": 1}, {"$ref": 1}, {"$msg": 1}),
    *(
        [{"digest": "0" * 64, "rel": "data"}],
        ["0" * 64],
        "0" * 64,
        "countersigned",
        "application/octet-stream",
    ),
)
NAMES = (
    "late",
    "totals",
    "parents",
    "handoffs",
    "phase",
    "call",
    "run",
    "own",
    "taint",
    "seen",
    "authority",
    "nonce",
)


def _maker() -> Any:
    spec = importlib.util.spec_from_file_location("_evidence", MAKER)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["_evidence"] = module
    spec.loader.exec_module(module)
    return module.Maker


Maker = _maker()


class Odd(Maker):  # type: ignore[misc,valid-type]
    """Puts something odd into some entries and blobs, and makes all around them right."""

    def __init__(self, root: Path, identity: keys.SigningKey, chance: random.Random, often: float) -> None:
        self.chance, self.often = chance, 0.0
        super().__init__(root, "0" * 15 + "1", identity, group=8, seed=chance.randrange(99))
        self.often = often

    def _chain(self, body: bytes) -> bytes:
        if self.chance.random() < self.often:
            value = json.loads(body)
            if "payload" in value:
                payload = json.loads(dsse.Envelope.parse(body).payload)
                key = self.identity if self.chance.random() < 0.1 else self._actor
                body = dsse.Envelope.sign(canonical.dumps(self._changed(payload)), key).to_bytes()
            elif value["content"].get("op") not in ("stored", "session"):
                body = canonical.dumps(self._changed(value))
        return bytes(super()._chain(body))

    def _blob(self, data: bytes, media: str) -> dict[str, Any]:
        if data[:1] == b"{" and self.chance.random() < self.often:
            data = canonical.dumps(self._changed(json.loads(data)))
        found: dict[str, Any] = super()._blob(data, media)
        if self.chance.random() < self.often / 8:
            found = found | {"size": found["size"] + 1}
        return found

    def _changed(self, value: Any) -> Any:
        """A value with one place changed, left out, added or doubled."""
        chance = self.chance
        if type(value) is dict and value and chance.random() < 0.9:
            name = chance.choice(sorted(value))
            if type(value[name]) in (dict, list) and chance.random() < 0.8:
                return value | {name: self._changed(value[name])}
            how = chance.random()
            if how < 0.15:
                return {other: one for other, one in value.items() if other != name}
            if how < 0.35:
                return value | {chance.choice(NAMES): chance.choice(ODD)}
            if how < 0.5 and type(value[name]) is str:
                text = value[name]
                at = chance.randrange(len(text) + 1)
                return value | {
                    name: text[:at] + chance.choice(["0", "f", "F", "é", '"', ""]) + text[at + 1 :]
                }
            if how < 0.6 and type(value[name]) is int:
                return value | {name: value[name] + chance.choice([1, -1, 10**15])}
            return value | {name: chance.choice(ODD)}
        if type(value) is list and value:
            at = chance.randrange(len(value))
            return [*value[:at], self._changed(value[at]), *value[at + chance.randrange(2) :]]
        return chance.choice(ODD)


def test_odd_logs_are_judged_alike(tmp_path: Path) -> None:
    codes = _judged_alike(tmp_path, range(60))
    assert codes.keys() >= {f"CF-VERIFY-0{number}" for number in (10, 22, 23, 45, 46)} | {"CF-LOG-022"}


@pytest.mark.slow
def test_many_odd_logs_are_judged_alike(tmp_path: Path) -> None:
    codes = _judged_alike(tmp_path, range(1000, 3000))
    assert len(codes) > 15


def _judged_alike(place: Path, seeds: range) -> Counter[str]:
    codes: Counter[str] = Counter()
    before, taken = keys.home(), 0
    match = moulds.Moulds.match

    def counted(self: Any, text: bytes) -> Any:
        nonlocal taken
        found = match(self, text)
        taken += found is not None
        return found

    try:
        keys.set_home(place / "home")
        identity = keys.load_or_create_identity()
        ring = keys.Keyring.of([identity.public])
        for seed in seeds:
            chance = random.Random(seed)
            root = place / f"{seed}"
            maker = Odd(root, identity, chance, chance.choice([0.01, 0.03, 0.1]))
            while maker.entries < 150:
                maker.turn()
            maker.close()
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(moulds.Moulds, "match", counted)
                short = counterfoil.verify(root, keyring=ring, full=True, jobs=1)
                patch.setattr(moulds.Moulds, "match", lambda self, text: None)
                long = counterfoil.verify(root, keyring=ring, full=True, jobs=1)
            assert short == long, seed
            codes.update({finding.code for finding in long.findings})
    finally:
        keys.set_home(before)
    assert taken > 50 * len(seeds)
    return codes
