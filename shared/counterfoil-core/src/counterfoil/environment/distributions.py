"""Every installed distribution with the SHA-256 of its RECORD, so that an exchanged library shows.

RECORD lists the SHA-256 of every installed file: its own digest names the installed state in one number. It is not the
digest of the wheel. Read off the ``*.dist-info`` folders; no METADATA is parsed (fifteen times dearer).
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
from typing import Any, Final
from urllib.parse import urlsplit, urlunsplit

from counterfoil.environment._reading import data, plain, text

__all__ = ["RECORD_LIMIT", "Found", "capture", "find", "normal"]

_SUFFIX: Final = ".dist-info"
RECORD_LIMIT: Final = 64 << 20

Found = tuple[str, str, str]
"""Normal name, version, path of the dist-info folder."""


def normal(name: str) -> str:
    """A project's name as the packaging specification writes it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def find(paths: list[str] | None = None) -> list[Found]:
    """Distributions on the path, by name; of two with one name the first on the path, which is imported."""
    found: dict[str, Found] = {}
    for entry in sys.path if paths is None else paths:
        try:
            names = os.listdir(entry or ".")
        except OSError:
            continue
        for name in sorted(names):
            if name.endswith(_SUFFIX) and plain(name):
                project, _, version = name[: -len(_SUFFIX)].partition("-")
                if version:
                    key = normal(project)
                    found.setdefault(key, (key, version, os.path.join(entry or ".", name)))
    return [found[key] for key in sorted(found)]


def capture(paths: list[str] | None = None) -> dict[str, Any]:
    """``items``: name to {version, record?, direct?}."""
    return {
        "items": {name: _item(version, folder) for name, version, folder in find(paths)},
        "source": "probed",
    }


def _item(version: str, folder: str) -> dict[str, Any]:
    item: dict[str, Any] = {"version": version}
    try:
        item["record"] = hashlib.sha256(data(folder + "/RECORD", RECORD_LIMIT)).hexdigest()
    except OSError:
        pass  # some installers write none: the version is all there is
    direct = text(folder + "/direct_url.json", 65536)
    if direct:
        found = _direct(direct)
        if found:
            item["direct"] = found
    return item


def _direct(written: str) -> dict[str, Any]:
    """What direct_url.json (PEP 610) says, without user names, passwords, queries and folders of this machine."""
    try:
        value = json.loads(written)
        parts = urlsplit(value["url"])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}
    if type(value) is not dict:
        return {}
    if parts.scheme == "file":
        out: dict[str, Any] = {"url": "file:" + parts.path.rstrip("/").rpartition("/")[2]}
    else:
        try:
            host = parts.hostname or ""
            port = f":{parts.port}" if parts.port else ""
        except ValueError:
            return {}
        out = {"url": urlunsplit((parts.scheme, host + port, parts.path, "", ""))}
    folder, source = value.get("dir_info"), value.get("vcs_info")
    if type(folder) is dict and folder.get("editable") is True:
        out["editable"] = True
    if type(source) is dict:
        out |= {
            name: source[name]
            for name in ("commit_id", "requested_revision", "vcs")
            if plain(source.get(name))
        }
    return {name: one for name, one in out.items() if one is True or plain(one)}
