"""Targets that need more than bytes: bundles, trust policies, files of a home, exports and copies of evidence."""

from __future__ import annotations

import base64
import contextlib
import functools
import io
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from evidence import Place, place

from counterfoil import _folders, canonical, keys, notes, statements, tree, trust, values
from counterfoil._policies import Remembered, _bytes, _path, remembered
from counterfoil.bundles.cutting import bundle
from counterfoil.bundles.lines import Lines
from counterfoil.bundles.store import open_place
from counterfoil.decoding import decode
from counterfoil.dsse import Envelope
from counterfoil.errors import CounterfoilError
from counterfoil.nonces import Nonces
from counterfoil.peers import PeerHead, Peers
from counterfoil.policy_form import build, content_of
from counterfoil.reader import read
from counterfoil.scrub.damage import Copy, faults
from counterfoil.scrub.mending import claims, read_copy
from counterfoil.scrub.scrubbing import scrub
from counterfoil.signatures import Signatures
from counterfoil.stores import FolderStore
from counterfoil.tlog.continuing import continues, parse_checkpoint
from counterfoil.tlog.exporting import export_log
from counterfoil.verification import Judging, examine, verify

__all__ = ["TARGETS", "WHOLE", "seeds"]

Target = Callable[[bytes], None]
_MANY = 1 << 20


@contextlib.contextmanager
def _file(path: Path, data: bytes) -> Iterator[Path]:
    """A file with these bytes for the code inside, as it was before (or not there) behind it."""
    before = path.read_bytes() if path.exists() else None
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.write_bytes(data)
    path.chmod(0o600)
    try:
        yield path
    finally:
        if before is None:
            path.unlink(missing_ok=True)
        else:
            path.write_bytes(before)


# -- bundles ----------------------------------------------------------------------------------------------------------


def bundle_lines(data: bytes) -> None:
    """The lines of a bundle, blobs among them, up to the first that is wrong."""
    for _ in Lines(io.BytesIO(data), len(data)).events():
        pass


def bundle_verified(data: bytes) -> None:
    """A bundle as a whole: ``verify`` finds everything and raises nothing."""
    with _file(place().home.parent / "a.bundle", data) as path:
        if data.startswith(b'{"counterfoil":"bundle"'):
            found = verify(path, keyring=place().ring)
            assert found.verdict != "intact" or not found.findings
        else:
            with contextlib.suppress(CounterfoilError):
                verify(path, keyring=place().ring)


def bundle_read(data: bytes) -> None:
    """A bundle as evidence to read from."""
    with _file(place().home.parent / "a.bundle", data) as path:
        store = open_place(path)
        reader = read(store)
        for call in reader.calls():
            for ref in (call.request, call.response, call.error):
                with contextlib.suppress(CounterfoilError):
                    reader.value(ref)
        with contextlib.suppress(CounterfoilError):
            reader.graph().to_json()


# -- trust ------------------------------------------------------------------------------------------------------------


def policy(data: bytes) -> None:
    """A policy's envelope as a file, and what the policy says once it is read."""
    with _file(place().home.parent / "policy.json", data) as path:
        _asked(trust.read(path))


def policy_said(data: bytes) -> None:
    """Any payload, signed by somebody who is an admin here."""
    envelope = Envelope.sign(data, place().identity, carry_key=True)
    _asked(trust.Policy(content_of(envelope.payload), envelope))
    trust.load(envelope.to_bytes(), keyring=_admins(), now=1_700_000_000_000)


def _admins() -> keys.Keyring:
    public = place().identity.public
    return keys.Keyring.of([public], admins=[public])


def _asked(found: trust.Policy) -> None:
    key = found.content.keys[0].key
    assert found.lists(key)
    assert len(found.keyring.entries()) == len(found.content.keys)
    for at in (0, found.content.keys[0].notBefore, 1 << 53):
        for proven in (None, at):
            found.judge(key, at, proven=proven)
        found.usable(key, at)
    for actor in ("app", "a/b/c", "", "/", "*", found.content.agents[0].id):
        found.agent(actor)
        found.speaks(actor, key, [key], 0)
        found.starts(actor)
    handoff = statements.parse(_handoff(place())).predicate
    assert isinstance(handoff, statements.Handoff)
    found.denies(handoff)


# -- the home ---------------------------------------------------------------------------------------------------------


def home_policy(data: bytes) -> None:
    """A remembered policy."""
    with _file(_path("team"), data):
        found = remembered("team")
        assert found is not None
        assert found.name == "team"


def home_peer(data: bytes) -> None:
    """The remembered head of a peer's log; what reads all of them, and what writes beside it."""
    told = _peer(place())
    path = place().home / "peers" / f"{keys.head_name(told.origin)}"
    with _file(path, data):
        for work in (
            lambda: Peers().kept(told.origin),
            lambda: Peers().heads("app"),
            lambda: Peers().learn(told),
        ):
            with contextlib.suppress(CounterfoilError):
                work()
        Peers().kept(told.origin)


def home_fork(data: bytes) -> None:
    """A file where the proof of two histories goes: it stays as it is."""
    told = _peer(place())
    path = place().home / "forks" / f"{keys.head_name(told.origin)[:-5]}-{told.size}.json"
    with _file(path, data):
        with contextlib.suppress(CounterfoilError):
            assert Peers().keep_fork(told, told) == path
        assert path.read_bytes() == data


def home_signatures(data: bytes) -> None:
    """The file of signatures that were valid before, under the right secret: no bytes of it make one valid."""
    identity = place().identity
    with Signatures() as before:
        before.check(identity.public, identity.sign(b"first"), b"first")
    folder = place().home / "cache"
    with _file(folder / "signatures.sqlite", data):
        for _ in range(2):
            with Signatures() as checker:
                assert checker.check(identity.public, identity.sign(b"right"), b"right")
                assert not checker.check(identity.public, identity.sign(b"right"), b"wrong")
        # The marks of this process's secret count nothing in a folder with another one.
    with _file(folder / "key", data), Signatures() as checker:
        assert not checker.check(identity.public, identity.sign(b"right"), b"wrong")


class _NoReceipts:
    """What other processes accepted: nothing."""

    def __init__(self) -> None:
        self.nonces: set[str] = set()
        self.elsewhere: set[str] = set()

    def read(self) -> None:
        """Nothing to read."""


def home_nonces(data: bytes) -> None:
    """Nonces by any name, told to expire at any time, and whatever lies in their folder."""
    place()
    sender, _, nonce = data[8:].decode("utf-8", "replace").partition("/")
    expires = int.from_bytes(data[:8], "big") % (1 << 53)
    used = Nonces(None)  # type: ignore[arg-type]  # the evidence is not asked
    used._receipts = _NoReceipts()  # type: ignore[assignment]
    if used.take(sender, nonce, expires=expires):
        assert not used.take(sender, nonce, expires=expires)
        used._taken.clear()
        assert not used.take(sender, nonce, expires=expires)
        used.free(sender, nonce)
    name = data.hex()[:60] or "x"
    with _file(place().home / "nonces" / name, data):
        _folders.remove_older(place().home / "nonces", 60.0)


# -- values -----------------------------------------------------------------------------------------------------------


def decoded(data: bytes) -> None:
    """Python objects from a canonical value, and a value from them again."""
    value = canonical.loads(data)
    canonical.dumps(values.encode(decode(value)))


# -- tiles ------------------------------------------------------------------------------------------------------------


@functools.cache
def _checked() -> tuple[FolderStore, dict[str, object]]:
    store = FolderStore(place().evidence)
    return store, dict(examine(store, Judging(place().ring)).checks)


def checkpoint_file(data: bytes) -> None:
    """A checkpoint kept elsewhere, against the log it may be of."""
    note, checkpoint = parse_checkpoint(data)
    assert note.text == checkpoint.to_text()
    store, checks = _checked()
    continues(store, checks, data)  # type: ignore[arg-type]


def export_over(data: bytes) -> None:
    """An export into a folder in which a checkpoint or a tile stands already: it is continued, or stays as it is."""
    here = place()
    folder = here.home.parent / "tiles"
    shutil.rmtree(folder, ignore_errors=True)
    for name in ("checkpoint", "tile/entries/000.p/1"):
        with _file(folder / here.log / name, data) as path:
            with contextlib.suppress(CounterfoilError):
                export_log(FolderStore(here.evidence), here.log, folder)
                continue
            assert path.read_bytes() == data


def export_of(data: bytes) -> None:
    """An export of a log with anything as its entries: what is written has the root of its checkpoint."""
    here = place()
    folder = here.home.parent / "tiles"
    shutil.rmtree(folder, ignore_errors=True)
    with here.holding(here.build(data)) as evidence:
        export_log(FolderStore(evidence), here.log, folder)
    checkpoint = parse_checkpoint((folder / here.log / "checkpoint").read_bytes())[1]
    (bundle,) = (folder / here.log).glob("tile/entries/000.p/*")
    texts, left = [], bundle.read_bytes()
    while left:
        size = 2 + int.from_bytes(left[:2], "big")
        texts.append(left[2:size])
        left = left[size:]
    grown = tree.Tree()
    for text in texts:
        grown.append(tree.leaf_hash(text))
    assert (grown.size, grown.root()) == (checkpoint.size, checkpoint.root)


# -- copies -----------------------------------------------------------------------------------------------------------


def segment_copy(data: bytes) -> None:
    """A copy of a segment as ``scrub`` looks at it."""
    here = place()
    with here.holding(data) as evidence:
        copy = read_copy(FolderStore(evidence), here.log, 0, "copy")
        read_copy(FolderStore(evidence), here.log, 0, "copy", head=True)
        assert copy is not None
        assert b"".join(copy.data[one.start : one.end] for one in copy.regions) == data
        for one in copy.parts.values():
            copy.stored(one, 0)  # type: ignore[arg-type]
        copy.notes()
        copy.ends_clean()
        claims(copy.openings())
        listed, _ = faults(copy, 0, before=None)
        assert all(0 <= one.start <= one.end <= len(data) for one in listed)
        Copy("copy", data)


def scrub_mirror(data: bytes) -> None:
    """Whole evidence with a hostile mirror stays whole; a damaged one takes nothing wrong from it."""
    here = place()
    mirror = here.home.parent / "mirror"
    (mirror / here.log).mkdir(parents=True, exist_ok=True)
    (mirror / here.log / here.segment.name).write_bytes(data)
    assert scrub(here.evidence, mirrors=[mirror], keyring=here.ring).result == "clean"
    at = len(here.whole) // 2
    torn = here.whole[:at] + bytes([here.whole[at] ^ 1]) + here.whole[at + 1 :]
    keep = here.home.parent / "kept"
    shutil.rmtree(keep, ignore_errors=True)
    with here.holding(torn) as evidence:
        done = scrub(evidence, mirrors=[mirror], repair=True, keep=keep, keyring=here.ring)
        assert done.verdict != "intact" or here.segment.read_bytes() == here.whole


WHOLE = {
    "home_signatures",
    "bundle_verified",
    "bundle_read",
    "export_over",
    "export_of",
    "segment_copy",
    "scrub_mirror",
}
"""Those that read a whole evidence, or a file of some size, for each input."""
TARGETS: dict[str, Target] = {
    made.__name__: made
    for made in (
        *(bundle_lines, bundle_verified, bundle_read, policy, policy_said, home_policy, home_peer, home_fork),
        *(
            home_signatures,
            home_nonces,
            decoded,
            checkpoint_file,
            export_over,
            export_of,
            segment_copy,
            scrub_mirror,
        ),
    )
}


# -- what to begin with -----------------------------------------------------------------------------------------------


def _handoff(here: Place) -> bytes:
    return next(one for one in here.bodies if one.startswith(b'{"_type"') and b'"basis"' in one)


def _peer(here: Place) -> PeerHead:
    """The head in a handoff that somebody told."""
    value = canonical.loads(_handoff(here))
    value["predicate"]["own"] = {"origin": here.origin, "root": "0" * 64, "size": 7}
    told = canonical.dumps(value)
    envelope = Envelope.sign(told, here.identity)
    predicate = statements.parse(told).predicate
    assert isinstance(predicate, statements.Handoff)
    found = PeerHead.of(predicate, envelope)
    assert found is not None
    return found


def _policy(here: Place) -> bytes:
    key = here.identity
    listed = [
        {
            "alg": "ed25519",
            "key": key.keyid,
            "notBefore": 0,
            "spki": base64.b64encode(key.spki).decode(),
            "status": "active",
        }
    ]
    return build(
        {
            "admins": {"keys": [key.keyid], "threshold": 1},
            "agents": [{"id": "*", "keys": [key.keyid], "threshold": 1}],
            "edges": [{"from": "app/*", "to": "*", "purposes": ["p"], "ttlMs": 1000, "maxDepth": 1}],
            "keys": listed,
            "limits": {"maxDepth": 2, "ttlMs": 60_000},
            "name": "team",
            "roots": ["app"],
            "validFrom": 0,
            "version": 1,
        }
    )


def _database(here: Place) -> bytes:
    with Signatures() as checker:
        for number in range(3):
            message = b"%d" % number
            checker.check(here.identity.public, here.identity.sign(message), message)
    return (here.home / "cache" / "signatures.sqlite").read_bytes()


_VALUES = (
    b'{"$datetime":"2026-01-02T03:04:05+01:00","fold":1,"zone":"Europe/Berlin"}',
    b'[{"$map":[[1,{"$set":[1,2]}]]},{"$pattern":"[a-z]+","flags":32},{"$int":"0x20000000000000"},{"$num":"0x1.8p+1"}]',
    b'[{"$bytes":"AAAA"},{"$memoryview":{"$bytes":"AAAA"},"format":"B","shape":[3]},{"$decimal":"1.50"},{"$range":[0,9,2]}]',
    b'[{"$path":"a/b","type":"pathlib.PurePosixPath"},{"$uuid":"00000000000000000000000000000005"},{"$fraction":[1,3]}]',
    b'[{"$ipnetwork":"10.0.0.0/8"},{"$timedelta":[1,2,3]},{"$timezone":[0,3600],"name":"x"},{"$constant":"Ellipsis"}]',
    b'[{"$deque":[1],"maxlen":3},{"$ordereddict":[["a",1]]},{"$namespace":{"a":1}},{"$complex":[1.5,2]},{"$slice":[1,2,null]}]',
)


def seeds(name: str) -> list[bytes]:
    """Well-formed inputs of one of these targets; nothing for another name."""
    here = place()
    if name.startswith("bundle"):
        path = here.home.parent / "seed.bundle"
        reader = read(here.evidence)
        with contextlib.suppress(FileNotFoundError):
            path.unlink()
        bundle(here.evidence, path, run=reader.runs()[0].id, keyring=here.ring)
        return [path.read_bytes()]
    note = notes.sign_note(notes.Checkpoint(here.origin, 7, bytes(32)).to_text(), here.origin, here.identity)
    if name in ("checkpoint_file", "export_over"):
        signed = Copy("", here.whole).notes()
        return [note.encode(), *signed]
    if name == "home_peer":
        from counterfoil.peers import _bytes as written

        return [written(_peer(here))]
    found: dict[str, Callable[[], list[bytes]]] = {
        "policy": lambda: [Envelope.sign(_policy(here), here.identity, carry_key=True).to_bytes()],
        "policy_said": lambda: [_policy(here)],
        "home_policy": lambda: [_bytes(Remembered("team", 1, "0" * 64, (here.identity.keyid,), 1))],
        "home_fork": lambda: [b'{"first":{},"origin":"a","second":{},"size":7,"version":0}'],
        "home_signatures": lambda: [_database(here)],
        "home_nonces": lambda: [bytes(8) + b"0" * 64 + b"/" + b"7" * 32],
        "decoded": lambda: list(_VALUES),
        "export_of": lambda: [b"\n".join(here.bodies)],
        "segment_copy": lambda: [here.whole],
        "scrub_mirror": lambda: [here.whole],
    }
    return found[name]() if name in found else []
