"""Every fault that the field's recorders were measured to have, tried here; one test a kind.

Those about canonical JSON stand in ``test_canonical_peers.py``, those about frameworks (parallel branches, awkward tool
values, token streams) with the adapters.
"""

from __future__ import annotations

import base64
import secrets
from pathlib import Path
from typing import Any

import pytest
from forging import Forger, bodies, chunk, chunks, identity, item, items, nowhere_intact

import counterfoil
from counterfoil import canonical, keys, segments, statements, tree
from counterfoil.dsse import Envelope


def origin_of(path: Path) -> str:
    return f"{identity().keyid}/{path.parent.name}"


def poll(recorder: Any, times: int, *, middle: str = "") -> None:
    """Equal calls with equal answers around one that matters."""
    root = recorder.start("invoke_workflow", "app", actor=("app",))
    for turn in range(times):
        name = middle if middle and turn == times // 2 else "poll"
        call = recorder.start(
            "execute_tool", name, actor=("app",), parent=root, request=recorder.value({"id": 1})
        )
        recorder.end(call, response=recorder.value("pending"))
    recorder.end(root)


def test_an_entry_between_equal_ones_cannot_vanish(lab: Any) -> None:
    """Seen elsewhere: the link is the payload's hash alone, so between two equal ones a call can be taken out."""
    recorder = lab.recorder()
    poll(recorder, 5, middle="delete_all_customers")
    recorder.close()
    (path,) = lab.segments()
    listed = bodies(path)
    kept = [one for one in listed if b"delete_all_customers" not in one[1]]
    assert len(kept) < len(listed)
    forger = Forger(origin_of(path), None)
    forger.add(kept)
    note = items(path)[-1][1]
    forger.checkpoint(note)
    path.write_bytes(forger.out)
    nowhere_intact(lab)


@pytest.mark.parametrize("cut", [1, 2, 3])
def test_the_tail_cannot_be_cut_at_a_chunk(lab: Any, cut: int) -> None:
    """Seen elsewhere: the last records can be dropped and what is left still verifies."""
    lab.record(runs=2)
    (path,) = lab.segments()
    parts = chunks(path)
    kept = parts[-cut].start
    path.write_bytes(path.read_bytes()[:kept])
    assert lab.verify().verdict == "broken"


def test_a_root_over_an_odd_number_of_leaves_is_no_other_list_s_root() -> None:
    """Seen elsewhere: root(a, b, c) equals root(a, b, c, c), since an odd leaf is doubled."""
    leaves = [tree.leaf_hash(text) for text in (b"a", b"b", b"c")]

    def root(listed: list[bytes]) -> bytes:
        made = tree.Tree()
        for one in listed:
            made.append(one)
        return made.root()

    assert root(leaves) != root([*leaves, leaves[-1]])
    # Nor is a leaf that holds two hashes the node over them.
    assert tree.leaf_hash(leaves[0] + leaves[1]) != root(leaves[:2])


def test_nothing_verifies_once_the_signatures_are_stripped(lab: Any) -> None:
    """Seen elsewhere: without its signature fields, and the chain made anew, a log still verifies."""
    lab.record()
    (path,) = lab.segments()
    forger = Forger(origin_of(path), None)
    forger.add(bodies(path))
    path.write_bytes(forger.out)
    nowhere_intact(lab)


def test_no_member_of_an_envelope_can_be_stripped(lab: Any) -> None:
    lab.record()
    (path,) = lab.segments()
    listed = bodies(path)
    for change in (
        lambda body: body.pop("signatures"),
        lambda body: body.update(signatures=[]),
        lambda body: body["signatures"][0].pop("sig"),
        lambda body: body["signatures"][0].update(sig=""),
        lambda body: body["signatures"][0].update(sig=body["signatures"][0]["sig"][::-1]),
        lambda body: body["signatures"][0].pop("keyid"),
    ):
        forger = Forger(origin_of(path), identity())  # even by the owner of the log
        changed = []
        for kind, data in listed:
            body = canonical.loads(data) if kind == segments.ENTRY else None
            if type(body) is dict and "payload" in body:
                change(body)
                data = canonical.dumps(body)
            changed.append((kind, data))
        forger.add(changed)
        forger.checkpoint()
        path.write_bytes(forger.out)
        assert lab.verify_elsewhere().verdict == "broken"


@pytest.mark.parametrize("size", [0, 64])
def test_a_bogus_signature_is_looked_at(lab: Any, size: int) -> None:
    """Seen elsewhere: an edited chain with a signature of random bytes passes, since nobody checks it."""
    lab.record()
    (path,) = lab.segments()
    forger = Forger(origin_of(path), keys.SigningKey.generate())
    forger.add(bodies(path))
    forger.checkpoint()
    good = items(path)[-1][1].decode()
    body, _, line = good.rpartition("\n\n")
    name, _, blob = line.rstrip("\n").rpartition(" ")

    raw = base64.b64decode(blob)
    bogus = raw[:4] + secrets.token_bytes(size)
    note = f"{body}\n\n{name} {base64.b64encode(bogus).decode()}\n".encode()
    data = path.read_bytes()
    last = chunks(path)[-1].start
    path.write_bytes(data[:last] + chunk(item(segments.NOTE, note)))
    nowhere_intact(lab)


def test_a_key_that_the_log_brings_along_is_not_believed(lab: Any) -> None:
    """Seen elsewhere: the key stands inside the record, so a log signed anew by any key verifies."""
    lab.record()
    (path,) = lab.segments()
    thief = keys.SigningKey.generate()
    renamed = [
        (kind, data.replace(identity().keyid.encode(), thief.keyid.encode())) for kind, data in bodies(path)
    ]
    forger = Forger(f"{thief.keyid}/{path.parent.name}", thief)
    forger.add(renamed)
    forger.checkpoint()
    path.write_bytes(forger.out)
    nowhere_intact(lab)


def leaves_of(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Where every single value of a record stands."""
    if type(value) is dict:
        return [place for name, one in value.items() for place in leaves_of(one, (*at, name))]
    if type(value) is list:
        return [place for number, one in enumerate(value) for place in leaves_of(one, (*at, number))]
    return [at]


def test_no_member_of_a_record_is_outside_its_hash(lab: Any) -> None:
    """Seen elsewhere: decision, approver, argument hash, policy version and more can be changed at will."""
    lab.record(calls=1)
    (path,) = lab.segments()
    original, listed = path.read_bytes(), bodies(path)
    note = items(path)[-1][1]
    tried = set()
    for number, (kind, data) in enumerate(listed):
        if kind != segments.ENTRY:
            continue
        for place in leaves_of(canonical.loads(data)):
            body = canonical.loads(data)
            holder: Any = body
            for name in place[:-1]:
                holder = holder[name]
            old = holder[place[-1]]
            holder[place[-1]] = old + 1 if type(old) is int else (not old if type(old) is bool else f"{old}x")
            forger = Forger(origin_of(path), None)
            try:
                forger.add([*listed[:number], (kind, canonical.dumps(body)), *listed[number + 1 :]])
            except counterfoil.CounterfoilError:
                continue
            forger.checkpoint(note)
            path.write_bytes(forger.out)
            # A record that says it is of a later version is nothing that this one can judge.
            assert lab.verify().verdict == (
                "cannot-tell" if place == ("v",) and b'"op":"session"' in data else "broken"
            ), place
            tried.add(place[-1])
    path.write_bytes(original)
    assert {"at", "call", "name", "op", "status", "run", "address", "actor", "sha256", "size"} <= tried
    assert lab.verify().verdict == "intact"


def test_an_older_copy_of_log_and_head_together_is_seen(lab: Any) -> None:
    """Seen elsewhere: log and signed head both put back to an older state pass."""
    lab.record()
    (path,) = lab.segments()
    older = path.read_bytes()
    recorder = lab.recorder()
    poll(recorder, 2)
    recorder.close()
    for one in lab.segments():
        one.unlink()
    path.write_bytes(older)
    assert lab.verify().verdict == "broken"


def test_a_chain_of_handoffs_costs_the_same_at_every_hop(lab: Any) -> None:
    """Seen elsewhere: each hop signs all earlier ones again, 800 hops take 12.8 s; and hops can be dropped."""
    recorder = lab.recorder()
    root = recorder.start("invoke_workflow", "app", actor=("app",))
    sizes = []
    before = recorder.start("step", "n0", actor=("n0",), parent=root, key="0")
    recorder.end(before)
    for hop in range(1, 200):
        payload = recorder.value({"hop": hop})
        digest = recorder.handoff(
            senders=[(f"n{hop - 1}",)],
            to=(f"n{hop}",),
            signer=("app",),
            kind="edge",
            basis="observed",
            payload=payload,
            parents=[("control", before)],
            run=root.run,
        )
        assert digest
        call = recorder.start(
            "step",
            f"n{hop}",
            actor=(f"n{hop}",),
            parent=root,
            key=str(hop),
            parents=[("control", before)],
            handoffs=[digest],
        )
        recorder.end(call)
        before = call
    recorder.end(root)
    recorder.close()
    for entry in counterfoil.read(lab.evidence).entries():
        if entry.op == "statement":
            envelope = Envelope.parse(entry.body_bytes)
            if statements.parse(envelope.payload).kind == statements.HANDOFF:
                sizes.append(len(envelope.payload))
    assert len(sizes) == 199
    # Names of one to three digits, and `own` once there is a checkpoint: nothing grows with the number of hops.
    assert max(sizes) <= min(sizes) + 256
    assert lab.verify().counts["handoffs"] == 199


def test_processes_that_append_at_once_do_not_fork_a_log(lab: Any) -> None:
    """Seen elsewhere: a second process or recorder on one log breaks its chain, a false alarm."""
    code = """
    import sys
    from counterfoil.recorder import Recorder
    recorder = Recorder(sys.argv[1])
    sys.stdin.readline()
    for turn in range(50):
        root = recorder.start("invoke_workflow", sys.argv[2], actor=("app",), request=recorder.value(turn))
        recorder.end(root)
    recorder.close()
    """
    children = [lab.start(code, number) for number in range(4)]
    for child in children:
        assert child.stdin is not None
        child.stdin.write("go\n")
        child.stdin.flush()
    for child in children:
        _, err = child.communicate(timeout=60)
        assert (child.returncode, err) == (0, "")
    result = lab.verify()
    assert (result.verdict, result.counts["runs"], result.counts["losses"]) == ("intact", 200, 0)


def test_reopening_a_log_does_not_break_it(lab: Any) -> None:
    """Seen elsewhere: opening the same log file again breaks the chain."""
    for _ in range(5):
        lab.record()
    result = lab.verify()
    assert (result.verdict, result.counts["logs"], result.counts["runs"]) == ("intact", 1, 5)


AWKWARD: list[Any] = [
    2**53 + 1,
    float("nan"),
    float("-inf"),
    "\ud800",
    b"\xff",
    {1: "int key", None: "none"},
    {"a", 1},
    10**5000,
]


def test_an_awkward_value_is_recorded_or_counted_never_dropped(lab: Any) -> None:
    """Seen elsewhere: the record of such a call is silently missing, and the log still verifies."""
    cycle: list[Any] = []
    cycle.append(cycle)
    recorder = lab.recorder()
    root = recorder.start("invoke_workflow", "app", actor=("app",))
    listed = [*AWKWARD, cycle]
    for value in listed:
        call = recorder.start(
            "execute_tool", "tool", actor=("app",), parent=root, request=recorder.value(value)
        )
        recorder.end(call, response=recorder.value({"got": value}))
    recorder.end(root)
    recorder.close()
    calls = [call for call in counterfoil.read(lab.evidence).calls() if call.op == "execute_tool"]
    assert len(calls) == len(listed)
    assert all(call.request is not None and call.response is not None for call in calls)
    assert len({call.request.sha256 for call in calls if call.request}) == len(listed)
    result = lab.verify()
    assert (result.verdict, result.counts["losses"]) == ("intact", 0)
