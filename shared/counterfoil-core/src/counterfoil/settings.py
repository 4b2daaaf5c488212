"""Settings in one place: arguments win over ``COUNTERFOIL_*``, those over the project's TOML file."""

from __future__ import annotations

import json
import os
import tomllib
from pathlib import Path
from typing import Any, Final, Literal, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from counterfoil import switches
from counterfoil._files import read_given
from counterfoil.errors import ConfigError
from counterfoil.switches import DEFAULT_EVIDENCE, OFF

__all__ = ["DEFAULT_EVIDENCE", "OFF", "Durability", "Mode", "Settings", "load"]

Mode = Literal["observe", "enforce", "hold"]
Durability = Literal["group", "call", "remote"]

_LIMIT: Final = 16 << 20
"""Bytes of a settings file."""


class Settings(BaseModel):
    """What can be set; unknown names are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    evidence: str = DEFAULT_EVIDENCE
    mode: Mode = "observe"
    durability: Durability = "group"
    plugins: str | None = None
    policy: str | None = None
    """File of the trust policy to go by."""
    cache: bool = True
    """Whether ``verify`` uses what it remembers of signatures found valid before."""
    s3_endpoint: str | None = None
    """Address of a server that speaks S3; Amazon's own without."""
    s3_region: str | None = None
    s3_mode: Literal["COMPLIANCE", "GOVERNANCE"] = "COMPLIANCE"
    s3_retain: str | None = None
    """How long an object is locked from its upload: ``365d``; without, the bucket's default decides."""
    s3_legal_hold: bool = False
    s3_upload_after: float = Field(default=10.0, gt=0, le=86_400)
    """Seconds after its first entry at which a segment is sealed and uploaded."""
    s3_close_wait: float = Field(default=30.0, ge=0, le=86_400)
    """Seconds that closing waits for the uploads."""
    models: dict[str, str] = {}
    """Models by name, and the weights they run on: root, digest or name of a manifest."""


_FROM_ENVIRONMENT: Final = tuple(name for name in Settings.model_fields if name not in ("evidence", "models"))
"""Settings that ``COUNTERFOIL_<NAME>`` may give."""


def load(
    *, evidence: str | Path | None = None, mode: str | None = None, durability: str | None = None
) -> Settings:
    """Settings from file, environment and arguments; raises ConfigError (CF-CONFIG-001..003) for a bad one."""
    found: dict[str, Any] = _from_file()
    env = os.environ
    if (named := switches.evidence()) is not None:
        found["evidence"] = named
    for name in _FROM_ENVIRONMENT:
        if value := env.get(f"COUNTERFOIL_{name.upper()}"):
            found[name] = value
    if (models := env.get("COUNTERFOIL_MODELS")) is not None:
        found["models"] = _models(models)
    given = {"evidence": None if evidence is None else str(evidence), "mode": mode, "durability": durability}
    found.update({name: value for name, value in given.items() if value is not None})
    try:
        return Settings.model_validate(found)
    except ValidationError as exc:
        first = exc.errors(include_url=False)[0]
        name = ".".join(map(str, first["loc"]))
        raise ConfigError(
            f"setting {name}: {first['msg']}",
            code="CF-CONFIG-001",
            where=name,
            hint="mode is observe, enforce or hold; durability is group, call or remote",
        ) from exc


def _models(text: str) -> dict[str, str]:
    """``llama-3=ROOT, other=NAME``, or a JSON object of texts."""
    if text.lstrip().startswith("{"):
        try:
            return cast("dict[str, str]", json.loads(text))
        except (ValueError, RecursionError):
            raise _no_models() from None
    found: dict[str, str] = {}
    for pair in filter(None, map(str.strip, text.split(","))):
        model, mark, weights = (part.strip() for part in pair.rpartition("="))
        if not mark or not model or not weights:
            raise _no_models()
        found[model] = weights
    return found


def _no_models() -> ConfigError:
    return ConfigError(
        "COUNTERFOIL_MODELS is no list of models and weights",
        code="CF-CONFIG-001",
        where="models",
        hint="write MODEL=ROOT,MODEL=NAME, or a JSON object of texts",
    )


def _from_file() -> dict[str, Any]:
    for name in ("counterfoil.toml", "pyproject.toml"):
        path = Path(name)
        try:
            data = tomllib.loads(read_given(path, limit=_LIMIT).decode())
        except (FileNotFoundError, NotADirectoryError):
            continue
        except (ValueError, OSError, RecursionError) as exc:
            # ValueError: no TOML, no UTF-8, or an integer of more digits than Python reads.
            if name == "pyproject.toml":
                continue  # somebody else's file: not ours to complain about
            raise ConfigError(
                f"{name} cannot be read: {exc}", code="CF-CONFIG-002", where=name, hint="mend the file"
            ) from exc
        tools = data.get("tool")
        table = (
            data
            if name == "counterfoil.toml"
            else tools.get("counterfoil")
            if isinstance(tools, dict)
            else None
        )
        if isinstance(table, dict):
            return cast("dict[str, Any]", dict(table))
        if table is not None:
            raise ConfigError(
                "tool.counterfoil is no table",
                code="CF-CONFIG-002",
                where=name,
                hint="write [tool.counterfoil]",
            )
    return {}
