"""The golden vectors, as the tests read them."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from counterfoil import keys
from counterfoil.errors import CounterfoilError

VECTORS = Path(__file__).resolve().parents[2] / "vectors"
FILES = ("bundle", "canonical", "log", "record", "references", "statement", "streams", "tiles", "values")


def load(name: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((VECTORS / f"{name}.json").read_text(encoding="ascii"))
    return content


CANONICAL, LOG, RECORD, REFERENCES, STATEMENT, STREAMS, _, VALUES = (load(name) for name in FILES[1:])


def named(cases: list[dict[str, Any]]) -> Any:
    return pytest.mark.parametrize(
        "case", cases, ids=[case.get("name", str(at)) for at, case in enumerate(cases)]
    )


def code_of(call: Any, *arguments: Any, **named: Any) -> str | None:
    """Code of the error a call raises, None when it raises none."""
    try:
        call(*arguments, **named)
    except CounterfoilError as exc:
        return exc.code
    return None


def public(name: str) -> keys.PublicKey:
    key = keys.PublicKey.from_spki(base64.b64decode(LOG["keys"][name]["spki"]))
    assert key.keyid == LOG["keys"][name]["fingerprint"]
    return key


def signing(name: str) -> keys.SigningKey:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    seed = bytes.fromhex(STATEMENT["keys"][name]["seed"])
    return keys.SigningKey(Ed25519PrivateKey.from_private_bytes(seed))
