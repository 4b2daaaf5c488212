"""Every parser of the core as a target for a fuzzer: bytes go in, nothing but a CounterfoilError may come out."""

from __future__ import annotations

import contextlib
import functools
import io
import os
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import surroundings
import wholes
from evidence import MEDIA, Place, place

from counterfoil import (
    canonical,
    cli,
    digest,
    keys,
    log,
    notes,
    records,
    segments,
    settings,
    statements,
    tails,
    tree,
)
from counterfoil.cli import select
from counterfoil.dsse import Envelope
from counterfoil.errors import CounterfoilError, LogError
from counterfoil.reader import _Value, read
from counterfoil.report import diagrams
from counterfoil.report.gathering import gather
from counterfoil.report.page import Judged, page
from counterfoil.report.picture import Group, picture
from counterfoil.stores import FolderStore
from counterfoil.verification import verify

Target = Callable[[bytes], None]


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


# -- texts ------------------------------------------------------------------------------------------------------------


def canonical_loads(data: bytes) -> None:
    """Strict JSON; what is read can be written, and reads the same again."""
    value = canonical.loads(data, max_bytes=1 << 20)
    try:
        again = canonical.loads(canonical.dumps(value))
    except CounterfoilError as exc:
        # A double from 2^53 up is written as an integer's text.
        if exc.code != "CF-CANON-014":
            raise AssertionError(exc.code) from exc
    else:
        assert again == value


def canonical_check(data: bytes) -> None:
    """Canonical JSON: accepted texts are exactly what their value is written as."""
    assert canonical.dumps(canonical.loads_canonical(data, max_bytes=1 << 20)) == data


def envelope(data: bytes) -> None:
    """A DSSE envelope; its normal form is read as the same envelope."""
    read_one = Envelope.parse(data)
    assert Envelope.parse(read_one.to_bytes()) == read_one
    read_one.verify(place().ring)


def envelope_mapping(data: bytes) -> None:
    """An envelope from JSON that somebody else parsed."""
    value = canonical.loads(data)
    if isinstance(value, dict):
        Envelope.parse(value)


def compact(data: bytes) -> None:
    """An envelope in its compact form, as bytes and as text; it is written back as it was read."""
    for one in (data, _text(data)):
        read_one = Envelope.parse_compact(one)
        assert read_one.to_compact().encode() == data
    read_one.verify(place().ring)


def statement(data: bytes) -> None:
    """A statement's payload."""
    assert statements.parse(data).digest == digest.sha256_hex(data)


def parents(data: bytes) -> None:
    """A stored list of parents."""
    statements.parse_parents(data)


def note(data: bytes) -> None:
    """A signed note and the checkpoint in it; both are written back as they were read."""
    made = notes.Note.parse(data)
    assert made.to_text().encode() == data
    checkpoint = notes.Checkpoint.parse(made.text)
    assert checkpoint.to_text() == made.text
    made.verify([notes.vkey(place().origin, place().identity.public)])


def own_checkpoint(data: bytes) -> None:
    """A log's own checkpoint."""
    notes.parse_own_checkpoint(data, notes.vkey(place().origin, place().identity.public))


def verifier_key(data: bytes) -> None:
    """A verifier key."""
    signed = notes.sign_note("text\n", "a", place().identity)
    notes.Note.parse(signed).verify([_text(data)])


def proof(data: bytes) -> None:
    """Inclusion and consistency proofs: sizes, index and hashes from the bytes."""
    sizes = [int.from_bytes(data[at : at + 2], "big") for at in (0, 2)]
    hashes = [data[at : at + 32] for at in range(4, len(data), 32)]
    root = hashes[0] if hashes else b""
    for check in (
        lambda: tree.verify_inclusion(root, sizes[0], sizes[1], hashes[1:], root),
        lambda: tree.verify_consistency(sizes[0], sizes[1], hashes[1:], root, root),
        lambda: tree.Tree.from_peaks(sizes[0], hashes),
    ):
        with contextlib.suppress(CounterfoilError):
            check()


def record(data: bytes) -> None:
    """A record's body, its references, its actor and its limits."""
    body = records.parse_body(canonical.loads(data), "here")
    list(digest.references_in(body))
    records.fits(data, body)
    actor = body["content"].get("actor") if records.is_record(body) else None
    if isinstance(actor, str):
        records.actor_text(records.actor_path(actor))


def reduced(data: bytes) -> None:
    """Reducing a value that was read."""
    stored: dict[str, bytes] = {}
    reducer = digest.Reducer(lambda sha256, blob: stored.update({sha256: blob}))
    value = canonical.loads(data)
    reference = reducer.reference(value)
    if b"$ref" not in data:  # what names a reference itself is taken for one
        assert digest.sha256_hex(stored[reference.sha256]) == reference.sha256


def value_of(data: bytes) -> None:
    """A value put together from bytes that cite earlier ones (``"@N"`` is line N), by every media type."""
    place()
    blobs: dict[str, bytes] = {}
    for line in data.split(b"\n")[:64]:
        made = re.sub(rb'"@([0-9]{1,2})"', functools.partial(_digest_at, list(blobs)), line)
        blobs[digest.sha256_hex(made)] = made

    def blob(sha256: str) -> bytes:
        if sha256 not in blobs:
            raise LogError("no such bytes", code="CF-LOG-040")
        return blobs[sha256]

    for sha256, made in list(blobs.items())[-4:]:
        for media in MEDIA:
            with contextlib.suppress(CounterfoilError):
                _Value(blob).of(digest.Reference(sha256, len(made), media))


def _digest_at(names: list[str], found: re.Match[bytes]) -> bytes:
    number = int(found[1])
    return b'"%b"' % (names[number] if number < len(names) else "0" * 64).encode()


# -- files ------------------------------------------------------------------------------------------------------------


def chunks(data: bytes) -> None:
    """Chunks of a segment, and the items in them."""
    for chunk in segments.read_chunks(io.BytesIO(data), where="here"):
        with contextlib.suppress(CounterfoilError):
            list(segments.items(chunk, where="here"))
    if len(data) >= segments.CHUNK_HEADER.size:
        tails.is_note(data, 0)


def items(data: bytes) -> None:
    """Items of a chunk whose checksum holds."""
    for chunk in segments.read_chunks(io.BytesIO(segments.raw_chunk(data)), where="here"):
        list(segments.items(chunk, where="here"))


def stream(data: bytes) -> None:
    """A compressed chunk whose checksum holds: what it says of its size need not."""
    head = segments._header(data[0] % 3 if data else 0, data[3:], int.from_bytes(data[1:3], "big"))
    for chunk in segments.read_chunks(io.BytesIO(head + data[3:]), where="here"):
        list(segments.items(chunk, where="here"))


def _look_at(evidence: Path) -> None:
    """All that a reader and ``verify`` do with evidence: verify finds everything and raises nothing."""
    verify(evidence, keyring=place().ring)
    store = FolderStore(evidence)
    for name in store.logs():
        list(log.LogScan(store, name).tail())
    reader = read(evidence)
    for work in (
        reader.calls,
        reader.runs,
        lambda: reader.graph().to_json(),
        lambda: reader.handoffs(hops=True),
    ):
        with contextlib.suppress(CounterfoilError):
            work()
    for call in reader.calls():
        for ref in (call.request, call.response, call.error):
            with contextlib.suppress(CounterfoilError):
                reader.value(ref)
    for run in reader.runs():
        assert len(run.content_root) == 64
    for sha256, size in list(reader.blobs())[:8]:
        for media in MEDIA:
            with contextlib.suppress(CounterfoilError):
                reader.value(digest.Reference(sha256, size, media))


def segment_file(data: bytes) -> None:
    """A whole segment file."""
    with place().holding(data) as evidence:
        _look_at(evidence)


def log_entries(data: bytes) -> None:
    """A log whose structure holds, with anything as its entries."""
    with place().holding(place().build(data)) as evidence:
        _look_at(evidence)


def log_page(data: bytes) -> None:
    """The same log as a page and as diagrams: whatever is in it, there is a page."""
    with place().holding(place().build(data)) as evidence:
        judged = Judged(verify(evidence, keyring=place().ring), place().ring, 0)
        reader = read(evidence)
        case = gather(reader)
        made = page(reader, case, judged, place="here", run=None, content=True)
        assert made.encode().endswith(b"</html>\n")
        for draw in (diagrams.mermaid, diagrams.dot):
            draw([picture(part.graph, Group("run", "run"), hops=True) for part in case.parts])


_VIEWS = (
    ("verify",),
    ("log",),
    ("graph",),
    ("handoffs", "--hops"),
    ("show", "--last"),
    ("show", "0"),
    ("show", "run/1"),
)


def log_printed(data: bytes) -> None:
    """The same log in a view of the command line, as lines and as JSON."""
    with place().holding(place().build(data)) as evidence:
        for more in ((), ("--json",)):
            _command([*_one_of(_VIEWS, data), "--evidence", str(evidence), *more])


def home_keyring(data: bytes) -> None:
    """The keyring in a home, and a keyring file somebody names."""
    path = place().home / "keyring.json"
    with _instead(path, data):
        ring = keys.Keyring.load(path)
        assert all(one.fingerprint for one in ring.entries())
        keys.Keyring.load()


def home_head(data: bytes) -> None:
    """A remembered head."""
    path = next((place().home / "heads").glob("*.json"))
    with _instead(path, data):
        keys.remembered_head(place().origin)
        keys.remembered_heads()


def home_identity(data: bytes) -> None:
    """The identity key's file."""
    with _instead(place().home / "identity.pem", data):
        keys.load_identity()


def settings_file(data: bytes) -> None:
    """``counterfoil.toml`` and, never complained about, ``pyproject.toml``."""
    place()
    for name in ("pyproject.toml", "counterfoil.toml"):
        path = Path(name)
        path.write_bytes(data)
        try:
            settings.load()
        finally:
            path.unlink()


def settings_environment(data: bytes) -> None:
    """The variables of the environment."""
    place()
    words = [part for part in data.replace(b"\0", b"").split(b"\n")[:4]]
    names = ("COUNTERFOIL", "COUNTERFOIL_MODE", "COUNTERFOIL_DURABILITY", "COUNTERFOIL_PLUGINS")
    try:
        for name, word in zip(names, words, strict=False):
            os.environ[name] = _text(word)
        settings.load()
    finally:
        for name in names:
            os.environ.pop(name, None)


# -- the command line -------------------------------------------------------------------------------------------------


def selectors(data: bytes) -> None:
    """Everything a user may type to name an entry, a run, an actor, a key or a log."""
    text = _text(data).replace("\0", "")
    select.is_selector(text)
    evidence = ["--evidence", str(place().evidence)]
    ways = (
        ["show", *evidence, "--", text],
        ["log", *evidence, f"--run={text}"],
        ["log", *evidence, f"--actor={text}", f"--op={text}"],
        ["show", *evidence, "--last", f"--run={text}"],
        ["handoffs", *evidence, f"--run={text}"],
        ["graph", *evidence, f"--run={text}"],
        ["keys", "unpin", "--", text],
        ["keys", "forget", "--", text],
        [word for word in text.split() if word not in ("demo", "run")],
    )
    _command(_one_of(ways, data))


def _one_of(ways: Sequence[Sequence[str]], data: bytes) -> list[str]:
    return list(ways[zlib.crc32(data) % len(ways)])


def _command(words: list[str]) -> None:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = cli.main(words)
    assert 0 <= code <= 5, code
    # The command line turns what it did not expect into this; here it must have expected everything.
    assert "CF-CLI-005" not in err.getvalue(), err.getvalue()


@contextlib.contextmanager
def _instead(path: Path, data: bytes) -> Iterator[None]:
    before = path.read_bytes()
    path.write_bytes(data)
    try:
        yield
    finally:
        path.write_bytes(before)


# -- what to begin with -----------------------------------------------------------------------------------------------


def _records_of(here: Place) -> list[bytes]:
    """Some of the records."""
    return [line for line in here.bodies if line.startswith(b'{"content"')][:3]


def _seeds(name: str) -> list[bytes]:
    here = place()
    lines = b"\n".join(here.bodies)
    signed = [line for line in here.bodies if b'"_type"' in line[:300]]
    sealed = Envelope.sign(signed[0], here.identity, carry_key=True)
    head = next((here.home / "heads").glob("*.json")).read_bytes()
    text = notes.Checkpoint(here.origin, 7, bytes(32)).to_text()
    found: dict[str, list[bytes]] = {
        "envelope": [sealed.to_bytes()],
        "envelope_mapping": [sealed.to_bytes()],
        "compact": [Envelope.sign(signed[0], here.identity).to_compact().encode()],
        "statement": signed,
        "parents": [canonical.dumps([{"digest": "0" * 64, "rel": "data"}])],
        "note": [notes.sign_note(text, here.origin, here.identity).encode()],
        "own_checkpoint": [notes.sign_note(text, here.origin, here.identity).encode()],
        "verifier_key": [notes.vkey("a", here.identity.public).encode()],
        "proof": [bytes([0, 1, 0, 2]) + bytes(96)],
        "chunks": [here.whole],
        "items": [segments.pack_item(segments.ENTRY, b"{}") + segments.pack_item(segments.BLOB, b"x")],
        "stream": [b"\x01\x00\x07" + segments.Compressor().chunk(b"\x02\x02\x00\x00\x00xx")[16:]],
        "segment_file": [here.whole],
        "log_entries": [lines],
        "log_printed": [lines],
        "log_page": [lines],
        "home_keyring": [(here.home / "keyring.json").read_bytes()],
        "home_head": [head],
        "home_identity": [(here.home / "identity.pem").read_bytes()],
        "settings_file": [
            b'evidence = "e"\nmode = "observe"\n',
            b'[tool.counterfoil]\ndurability = "call"\n',
        ],
        "settings_environment": [b"e\nobserve\ngroup\na,b"],
        "selectors": [
            b"last",
            b"run/2",
            b"show 0",
            b"0",
            here.identity.keyid[:8].encode(),
            b"log --limit 3 --json",
        ],
        "value_of": [
            b'{"add":{"$msg":1},"n":1,"parent":""}\n{"add":{"$msg":2},"n":2,"parent":"@0"}\n'
            b'{"a":[{"$ref":{"media":"%b","sha256":"@1","size":3}}]}\n{"$ref":{"media":"%b","sha256":"@2","size":3}}'
            % (MEDIA[3].encode(), MEDIA[2].encode())
        ],
    }
    for more in (wholes, surroundings):
        if name in more.TARGETS:
            return more.seeds(name)
    documents = [
        b'{"a":[1,-2.5,"\xc3\xa9\\n"],"b":{"c":null,"d":true}}',
        b'{"$bytes":"AAAA"}',
        *_records_of(here),
    ]
    return found.get(name, documents)


TARGETS: dict[str, Target] = (
    wholes.TARGETS
    | surroundings.TARGETS
    | {
        made.__name__: made
        for made in (
            *(
                canonical_loads,
                canonical_check,
                envelope,
                envelope_mapping,
                compact,
                statement,
                parents,
                note,
            ),
            *(
                own_checkpoint,
                verifier_key,
                proof,
                record,
                reduced,
                value_of,
                chunks,
                items,
                stream,
                segment_file,
            ),
            *(log_entries, log_printed, log_page, home_keyring, home_head, home_identity, settings_file),
            *(settings_environment, selectors),
        )
    }
)
"""name -> parser; each raises CounterfoilErrors only."""
SEEDS: Callable[[str], list[bytes]] = functools.cache(_seeds)
"""name -> well-formed inputs."""


def run(name: str, data: bytes) -> None:
    """One input through one parser; anything but a CounterfoilError comes out."""
    with contextlib.suppress(CounterfoilError):
        TARGETS[name](data)
