"""One log with everything in it: three segments, two sessions, two runs, every kind of statement and of blob."""

from __future__ import annotations

from typing import Any

from making import formats
from making.formats import b64, jcs, sha256
from making.logs import ACTOR, AT, IDENTITY, PEER, RUN, Log

RUN2 = "2" * 32
PROMPT = "Write one line about rain. " * 12
PAYLOAD = "Please count the drops. " * 12
LONG = "It rained on the river, and the river did not mind. " * 6


def message(kind: str, text: str, **more: Any) -> dict[str, Any]:
    """A message in normal form."""
    return {"$msg": {"content": [{"text": text, "type": "text"}], "type": kind, **more}}


def complete() -> tuple[Log, dict[str, list[bytes]]]:
    """The log, and the repeatable parts of each run."""
    log = Log()
    contents: dict[str, list[bytes]] = {RUN: [], RUN2: []}

    def record(content: dict[str, Any], context: dict[str, Any], run: str = RUN) -> str:
        contents[run].append(jcs(content))
        return log.record(content, {"at": log.now(), "run": run, **context})

    def call(op: str, name: str, actor: str, address: str, **more: Any) -> dict[str, Any]:
        return {"actor": actor, "address": address, "name": name, "op": op, "phase": "start", **more}

    def ended(start: dict[str, Any], **more: Any) -> dict[str, Any]:
        kept = {name: value for name, value in start.items() if name != "parents"}
        return {**kept, "phase": "end", "status": "ok", **more}

    # Segment 0: a team of two steps, one handoff between them.
    log.segment()
    log.session()
    log.flush()
    history = [message("system", PROMPT), message("human", "Begin.")]
    request = log.value({"messages": history, "model": "small-1", "params": {"temperature": 0.5}})
    root = call(
        "invoke_workflow", "team", "team", "invoke_workflow:team", request=log.value({"task": "rain"})
    )
    record(root, {"call": RUN})
    at = "invoke_workflow:team/step:writer@1"
    writer = call("step", "writer", "writer", at, request=log.value({"task": "rain"}))
    record(writer, {"call": "a" * 32, "parent": RUN})
    chat = call("chat", "small-1", "writer", f"{at}/chat:small-1@{request['sha256'][:16]}", request=request)
    record(chat, {"call": "b" * 32, "parent": "a" * 32})
    log.flush()
    answer = log.value({"message": message("ai", LONG)})
    usage = {"input_tokens": 90, "output_tokens": 66}
    record(ended(chat, response=answer), {"call": "b" * 32, "took": 900000, "usage": usage})
    draft = log.value({"draft": LONG, "history": [*history, message("ai", LONG)]})
    last = record(ended(writer, response=draft), {"call": "a" * 32, "took": 950000})
    log.checkpoint()

    log.bind("team", ACTOR)
    head = {"origin": log.origin, "root": log.checkpoints[-1]["root"], "size": log.checkpoints[-1]["size"]}
    content = {
        "basis": "observed",
        "from": ["writer"],
        "kind": "edge",
        "parents": [{"address": at, "rel": "control"}],
        "payload": draft["sha256"],
        "to": "reviewer",
    }
    predicate = {
        "content": content,
        "exact": True,
        "issued": log.now() // 1000,
        "own": head,
        "parents": [{"digest": last, "rel": "control"}],
        "payload": {"media": draft["media"], "size": draft["size"]},
        "proof": "recorded",
        "run": RUN,
        "sender": {"actor": "team", "key": ACTOR.keyid},
    }
    subject = {"digest": {"counterfoil-v1": draft["sha256"]}, "name": "payload"}
    contents[RUN].append(jcs(content))
    handed = log.sign(formats.statement("handoff", subject, predicate), ACTOR)
    at = "invoke_workflow:team/step:reviewer@2"
    reviewer = call(
        "step",
        "reviewer",
        "reviewer",
        at,
        parents=[{"address": "invoke_workflow:team/step:writer@1", "rel": "control"}],
        request=draft,
    )
    context = {"call": "c" * 32, "handoffs": [handed], "parent": RUN}
    record(reviewer, context | {"parents": [{"digest": last, "rel": "control"}]})
    asked = log.value({"arguments": {"file": "cover.png"}, "id": "call_1", "name": "read_file"})
    tool = call("execute_tool", "read_file", "reviewer", f"{at}/execute_tool:read_file@0", request=asked)
    record(tool, {"call": "d" * 32, "parent": "c" * 32})
    image = {"$bytes": b64(bytes(range(256)) * 2)}
    record(ended(tool, response=log.value(image)), {"call": "d" * 32, "took": 1200})
    note = {
        "actor": "reviewer",
        "address": f"{at}/custom:seen",
        "name": "seen",
        "op": "custom",
        "phase": "point",
    }
    record(note | {"request": log.value("cover.png")}, {"parent": "c" * 32})
    record(ended(reviewer, response=log.value({"verdict": "good"})), {"call": "c" * 32, "took": 40000})
    done = ended(root, response=log.value(LONG), totals={"ended": 5, "started": 5})
    record(done, {"call": RUN, "took": 1900000})
    log.checkpoint()

    # Segment 1: the same session goes on; a call that never came back was closed by the writer.
    log.segment()
    log.opening()
    log.flush()
    root = call("invoke_agent", "helper", "helper", "invoke_agent:helper")
    record(root, {"call": RUN2}, RUN2)
    slow = call("chat", "small-1", "helper", "invoke_agent:helper/chat:small-1", request=request)
    record(slow, {"call": "e" * 32, "parent": RUN2}, RUN2)
    record({**ended(slow), "status": "abandoned"}, {"call": "e" * 32, "took": 9}, RUN2)
    stop = log.value({"$exception": "TimeoutError", "args": []})
    failed = {**ended(root, error=stop, totals={"ended": 2, "started": 2}), "status": "error"}
    record(failed, {"call": RUN2, "took": 12}, RUN2)
    record(ended(slow), {"call": "e" * 32, "late": True, "took": 15}, RUN2)
    log.checkpoint()

    # Segment 2: another process of the same identity takes a handoff from a peer.
    log.segment()
    log.session(pid=4343)
    log.flush()
    received(log)
    log.checkpoint()
    return log, contents


def received(log: Log, *, by: formats.Key = PEER, carry: bool = True, **changes: Any) -> str:
    """A handoff of another process, its payload, and our receipt for it; the handoff's digest."""
    text = PAYLOAD
    payload = log.value(text)
    issued = log.now() // 1000
    predicate = {
        "audience": "counter",
        "content": {
            "basis": "sealed",
            "from": ["weather"],
            "kind": "message",
            "payload": payload["sha256"],
            "to": "counter",
        },
        "exact": True,
        "expires": issued + 300_000,
        "issued": issued,
        "nonce": "5" * 32,
        "own": {"origin": f"{PEER.keyid}/{'c' * 16}", "root": sha256(b"a root of theirs"), "size": 3},
        "parents": [],
        "payload": {"media": payload["media"], "size": payload["size"]},
        "proof": "countersigned",
        "sender": {"actor": "weather", "key": PEER.keyid},
    }
    # The payload is one text, so its two digests are one.
    subject = {
        "digest": {"counterfoil-v1": payload["sha256"], "sha256": sha256(text.encode())},
        "name": "payload",
    }
    digest = log.sign(formats.statement("handoff", subject, predicate | changes), by, carry=carry)
    accepted(log, digest)
    return digest


def accepted(log: Log, handoff: str, **changes: Any) -> str:
    """Our receipt for a handoff; None leaves a member out."""
    receipt = {
        "checks": ["signature", "statement", "audience", "time", "payload", "replay"],
        "handoff": handoff,
        "issued": log.now() // 1000,
        "nonce": "5" * 32,
        "sender": {"actor": "counter", "key": IDENTITY.keyid},
        "status": "accepted",
    }
    subject = {"digest": {"sha256": handoff}, "name": "handoff"}
    whole = {name: value for name, value in (receipt | changes).items() if value is not None}
    return log.sign(formats.statement("receipt", subject, whole), IDENTITY)


def details() -> dict[str, Any]:
    """The complete log as it stands in the vectors: files, and what a reader finds in them."""
    log, contents = complete()
    leaves = {run: [formats.leaf(one) for one in sorted(listed)] for run, listed in contents.items()}
    return {
        "blobs": {digest: len(data) for digest, data in sorted(log.blobs.items())},
        "checkpoints": log.checkpoints,
        "chunks": log.chunks,
        "clock": AT,
        "content_roots": {run: formats.root(listed).hex() for run, listed in leaves.items()},
        "entries": log.entries,
        "files": {name: b64(data) for name, data in sorted(log.evidence().items())},
        "origin": log.origin,
        "vkey": formats.vkey(log.origin, IDENTITY),
    }
