"""What of an environment that stands in evidence can be shown: anybody may have written it there."""

from __future__ import annotations

from typing import Any, Final

__all__ = ["readable"]

_TEXTS: Final = {
    "application": ("commit", "program", "revision"),
    "cpu": ("machine", "model"),
    "image": ("digest",),
    "os": ("distribution", "distribution_version", "libc", "release", "system"),
    "python": ("implementation", "version"),
}
"""Members that are read as texts."""


def readable(found: dict[str, Any]) -> dict[str, Any]:
    """An environment record without what has another form than ``shared/spec/environment.md`` gives it.

    What it does not name is kept as it is; a record that was made as it says is returned whole.
    """
    out = {name: dict(one) for name, one in found.items() if type(one) is dict}
    for name, members in _TEXTS.items():
        _keep(out.get(name, {}), str, *members)
    _keep(out.get("python", {}), list, "build")
    distributions, variables, gpu = (out.get(name, {}) for name in ("distributions", "variables", "gpu"))
    _keep(distributions, dict, "items")
    if "items" in distributions:
        items = {name: one for name, one in distributions["items"].items() if type(one) is dict}
        distributions["items"] = {name: _distribution(one) for name, one in items.items()}
    _keep(variables, dict, "fingerprints", "values")
    if "fingerprints" in variables:
        prints = variables["fingerprints"]
        variables["fingerprints"] = {name: one for name, one in prints.items() if type(one) is str}
    _keep(gpu, list, "devices")
    if "devices" in gpu:
        gpu["devices"] = [_kept(one, str, "name") for one in gpu["devices"] if type(one) is dict]
    return out


def _distribution(one: dict[str, Any]) -> dict[str, Any]:
    found = _kept(_kept(one, str, "record", "version"), dict, "direct")
    return found if found.get("version") is not None else {**found, "version": ""}


def _kept(one: dict[str, Any], kind: type, *members: str) -> dict[str, Any]:
    out = dict(one)
    _keep(out, kind, *members)
    return out


def _keep(one: dict[str, Any], kind: type, *members: str) -> None:
    for name in members:
        if name in one and type(one[name]) is not kind and not (one[name] is None and kind is str):
            del one[name]
