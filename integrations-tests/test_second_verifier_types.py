"""Both verifiers agree on evidence in which one member is of another type, or gone; needs Node (`-s verifier`)."""

from __future__ import annotations

import base64
import copy
import io
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.append(str(Path(__file__).resolve().parent))
sys.path.append(str(Path(__file__).resolve().parent.parent / "shared" / "vectors"))

from making import formats, log_complete, log_trust
from making.cases import begun
from making.formats import BLOB, sha256
from making.logs import KEYS, OTHER, PEER, Log
from seconded import Second, first

from counterfoil import canonical, segments

pytestmark = pytest.mark.verifier

Route = tuple[str | int, ...]
GONE = object()
VALUES: list[Any] = [GONE, None, True, False, 0, -1, 1, 0.5, "", "x", "0" * 64, [], ["x"], [[]], {}, {"x": 1}]
REFERENCE = {"media": formats.TEXT, "sha256": "0" * 64, "size": 1}
VALUES += [
    REFERENCE,
    {**REFERENCE, "size": True},
    [REFERENCE],
    "constructor",
    "__proto__",
    {"segment": {}},
    2**53 - 1,
]
KEY_OF = {key.keyid: key for key in KEYS.values()}


@pytest.fixture(scope="module")
def second() -> Iterator[Second]:
    verifier = Second()
    yield verifier
    verifier.close()


def _whole() -> Log:
    """A log with every operation and every kind of statement, an unclean stop, and another log's checkpoint cited."""
    log, _ = log_complete.complete()
    others = begun(Log(OTHER, PEER))
    others.checkpoint()
    note = others.checkpoints[-1]["note"]
    log.segment()
    log.session(
        closes=True,
        seen=[{"log": OTHER, "note": log.blob(note.encode())}],
        replaced=[{"origin": others.origin, "root": "0" * 64, "size": 3}],
    )
    log.flush()
    log_trust.given(log)
    log.record({"name": "x", "op": "loss", "phase": "point"}, {"at": log.now(), "count": 2})
    log.record({"op": "closed", "phase": "point"}, {"at": log.now()})
    log.checkpoint()
    good = len(log.files[-1])
    log.flush(raw=True, more=formats.item(BLOB, b"left behind"))
    log.segment()
    log.recovered(len(log.files) - 2, good)
    listed = [{"log": OTHER, "note": log.blob(note.encode())}]
    log.session(tree=False, seen=log.value(listed))
    log.checkpoint()
    return log


Part = tuple[str, Any]


def _parts(log: Log) -> list[Part]:
    """What a log is made of: segments begun, blobs, bodies, checkpoints."""
    out: list[Part] = []
    for data in log.files:
        out.append(("segment", None))
        for chunk in segments.read_chunks(io.BytesIO(data), where=""):
            for one in segments.items(chunk, where=""):
                if one.kind == segments.BLOB:
                    out.append(("blob", one.data))
                elif one.kind == segments.ENTRY:
                    body = canonical.loads(one.data)["body"]
                    if body.get("content", {}).get("op") != "stored":
                        out.append(("body", body))
                else:
                    out.append(("checkpoint", None))
    return out


def _until(parts: list[Part]) -> Log:
    """The beginning of the same log; what is not written yet waits."""
    log = Log()
    for kind, one in parts:
        if kind == "segment":
            if log._items:
                log.flush()
            log.segment()
        elif kind == "blob":
            log._items.append((BLOB, one))
        elif kind == "checkpoint":
            log.checkpoint()
        else:
            log.entry(_recovering(log, one))
    return log


def _recovering(log: Log, body: dict[str, Any]) -> dict[str, Any]:
    """A body whose tree, and what it says of segments, is true of this log."""
    body = copy.deepcopy(body)
    if "tree" in body.get("context", {}):
        body["context"] |= log.tree()
    for found in body["content"]["segments"] if body.get("content", {}).get("op") == "recovered" else ():
        data = bytes(log.files[found["segment"]])
        found |= {"good": len(data), "sha256": sha256(data), "size": len(data)}
    return body


def _routes(value: Any, route: Route = ()) -> Iterator[Route]:
    if route:
        yield route
    inner = value.items() if type(value) is dict else enumerate(value) if type(value) is list else ()
    for name, one in inner:
        yield from _routes(one, (*route, name))


def _put(value: Any, route: Route, new: Any) -> Any:
    """The value with another one in a place, or with none there."""
    name, rest = route[0], route[1:]
    out = dict(value) if type(value) is dict else list(value)
    if rest:
        out[name] = _put(out[name], rest, new)
    elif new is GONE:
        del out[name]
    else:
        out[name] = new
    return out


def _signed(body: dict[str, Any]) -> dict[str, Any] | None:
    """The statement in an envelope."""
    return json.loads(base64.b64decode(body["payload"])) if "payload" in body else None


def _changes(body: dict[str, Any]) -> Iterator[tuple[Route, Any, Any]]:
    """Each place in a body, a value for it, and the body with that; statements are signed anew by the same keys."""
    for route in _routes(body):
        for new in VALUES if len(route) < 4 else VALUES[::4]:
            yield route, new, _put(body, route, new)
    statement = _signed(body)
    for route in _routes(statement) if statement is not None else ():
        for new in VALUES if len(route) < 3 else VALUES[::4]:
            payload = formats.jcs(_put(statement, route, new))
            keys = [KEY_OF[one["keyid"]] for one in body["signatures"]]
            carried = any("spki" in one for one in body["signatures"])
            yield ("payload", *route), new, formats.envelope(payload, *keys, carry=carried)


def _kind(body: dict[str, Any]) -> tuple[Any, ...]:
    statement = _signed(body)
    if statement is None:
        return body["content"]["op"], body["content"].get("phase"), *sorted(body["context"])
    return statement["predicateType"], statement["predicate"].get("proof"), *sorted(statement["predicate"])


def _bodies() -> list[int]:
    """The first body of each form, of those that are judged."""
    forms: dict[tuple[Any, ...], int] = {}
    for at, (kind, body) in enumerate(_PARTS):
        if kind == "body":
            forms.setdefault(_kind(body), at)
    return list(forms.values())


_PARTS = _parts(_whole())


@pytest.mark.parametrize("at", _bodies())
def test_they_agree_whatever_stands_in_a_member(second: Callable[..., Any], tmp_path: Path, at: int) -> None:
    keyring = tmp_path / "keyring.json"
    pins = {KEYS[name].keyid: {"spki": formats.b64(KEYS[name].spki)} for name in ("identity", "peer")}
    keyring.write_bytes(formats.jcs({"pins": pins, "version": 0}) + b"\n")
    keyring.chmod(0o600)
    before = _until(_PARTS[:at])
    (tmp_path / "evidence").mkdir()
    place, told = tmp_path / "evidence", []
    for route, new, body in _changes(_recovering(before, _PARTS[at][1])):
        log = copy.deepcopy(before)
        log.entry(body)
        log.checkpoint()
        for name, data in log.evidence().items():
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            (place / name).write_bytes(data)
        one, two = first(place, keyring), second(place, keyring)
        if one != two:
            told.append((route, new, one, two))
    assert not told, f"{len(told)}: {told[:3]}"
