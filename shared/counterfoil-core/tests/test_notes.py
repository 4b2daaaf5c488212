"""C2SP signed notes and checkpoints: outside vectors, strict form, every small change of an own note."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from counterfoil import notes, tree
from counterfoil.errors import CounterfoilError, NoteError, WeakKeyError
from counterfoil.keys import PublicKey, SigningKey

TLOG = Path(__file__).resolve().parents[2] / "vectors" / "outside" / "tlog"
GO = json.loads((TLOG / "go_note.json").read_text())
KEY = SigningKey(Ed25519PrivateKey.from_private_bytes(b"\x07" * 32))
OTHER = SigningKey(Ed25519PrivateKey.from_private_bytes(b"\x08" * 32))
ORIGIN = "0123abcd/log-1"
CHECKPOINT = notes.Checkpoint(ORIGIN, 20852163, tree.leaf_hash(b"root"))
OWN = notes.sign_note(CHECKPOINT.to_text(), ORIGIN, KEY)
OWN_KEY = notes.vkey(ORIGIN, KEY.public)
SIGNATURE = OWN.splitlines()[-1]


def code_of(call: Any, *arguments: Any) -> str | None:
    try:
        call(*arguments)
    except CounterfoilError as exc:
        return exc.code
    return None


# --- outside vectors ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", GO["cases"], ids=lambda case: case["name"])
def test_go_note_cases(case: dict[str, Any]) -> None:
    keys = [GO["verifierKeys"][number] for number in case["keys"]]
    if case.get("error"):
        with pytest.raises(NoteError):
            notes.Note.parse(case["note"]).verify(keys)
    else:
        note = notes.Note.parse(case["note"])
        assert [signature.name for signature in note.verify(keys)] == case["verified"]
        assert note.to_text() == case["note"]


@pytest.mark.parametrize("key", GO["badVerifierKeys"])
def test_go_bad_verifier_keys(key: str) -> None:
    note = notes.Note.parse(GO["cases"][0]["note"])
    assert code_of(note.verify, [key]) == "CF-NOTE-010"
    assert code_of(note.verify, [*GO["verifierKeys"], key]) == "CF-NOTE-010"


def test_c2sp_example() -> None:
    example = json.loads((TLOG / "c2sp_signed_note_example.json").read_text())
    note = notes.Note.parse(example["note"].encode())
    assert [signature.name for signature in note.verify([example["vkey"]])] == ["example.com/foo"]
    assert note.text == "This is an example message.\n"


def test_tessera_checkpoints() -> None:
    log = json.loads((TLOG / "tessera_log.json").read_text())
    for size, text in log["checkpoints"].items():
        note = notes.Note.parse(text)
        note.verify([log["vkey"]])
        checkpoint = notes.Checkpoint.parse(note.text)
        assert (checkpoint.origin, checkpoint.size) == ("example.com/log/testdata", int(size))
        assert notes.parse_own_checkpoint(text.encode(), log["vkey"]) == checkpoint
    assert notes.Checkpoint.parse(notes.Note.parse(log["checkpoints"]["0"]).text).root == tree.EMPTY_ROOT


# --- notes -------------------------------------------------------------------------------------------------


def test_sign_and_verify() -> None:
    note = notes.Note.parse(OWN)
    [signature] = note.verify([OWN_KEY])
    assert (signature.name, note.text, note.to_text()) == (ORIGIN, CHECKPOINT.to_text(), OWN)
    assert notes.Note.parse(OWN.encode()) == note
    assert notes.sign_note(note.text, ORIGIN, Ed25519PrivateKey.from_private_bytes(b"\x07" * 32)) == OWN
    assert notes.vkey(ORIGIN, Ed25519PrivateKey.from_private_bytes(b"\x07" * 32).public_key()) == OWN_KEY


def test_text_may_hold_empty_lines_and_what_looks_like_a_signature() -> None:
    for text in ("a\n\nb\n", "\n\na\n", "a\n\n", f"a\n\n{SIGNATURE}\n"):
        note = notes.Note.parse(notes.sign_note(text, "n", KEY))
        assert note.text == text
        assert len(note.verify([notes.vkey("n", KEY.public)])) == 1


def test_unknown_signatures_are_kept_and_ignored() -> None:
    foreign = notes.sign_note(CHECKPOINT.to_text(), "witness.example/w", OTHER).splitlines()[-1]
    cosignature = notes.NoteSignature("mirror.example", b"\x01\x02\x03\x04", bytes(72)).line()
    text = OWN + foreign + "\n" + cosignature + "\n"
    note = notes.Note.parse(text)
    assert note.to_text() == text
    assert [signature.name for signature in note.verify([OWN_KEY])] == [ORIGIN]
    names = [each.name for each in note.verify([notes.vkey("witness.example/w", OTHER.public), OWN_KEY])]
    assert names == [ORIGIN, "witness.example/w"]
    assert code_of(notes.parse_own_checkpoint, text.encode(), OWN_KEY) == "CF-NOTE-021"


def test_a_failed_signature_of_a_known_key_refuses_the_whole_note() -> None:
    bad = notes.Note.parse(notes.sign_note("other text\n", "w", OTHER)).signatures[0].line()
    note = notes.Note.parse(OWN + bad + "\n")
    assert code_of(note.verify, [OWN_KEY, notes.vkey("w", OTHER.public)]) == "CF-NOTE-012"
    assert len(note.verify([OWN_KEY])) == 1


def test_a_key_counts_once() -> None:
    note = notes.Note.parse(OWN + SIGNATURE + "\n")
    assert len(note.verify([OWN_KEY, OWN_KEY])) == 1
    bad = notes.NoteSignature(ORIGIN, note.signatures[0].key_id, bytes(64)).line()
    assert code_of(notes.Note.parse(OWN + bad + "\n").verify, [OWN_KEY]) == "CF-NOTE-012"


def test_names_and_key_ids_alone_prove_nothing() -> None:
    note = notes.Note.parse(OWN)
    assert code_of(note.verify, []) == "CF-NOTE-011"
    assert code_of(note.verify, [notes.vkey(ORIGIN, OTHER.public)]) == "CF-NOTE-011"
    assert code_of(note.verify, [notes.vkey("other", KEY.public)]) == "CF-NOTE-011"
    blob = note.signatures[0].key_id + bytes(64)
    forged = notes.Note(note.text, (notes.NoteSignature(ORIGIN, blob[:4], blob[4:]),))
    assert code_of(forged.verify, [OWN_KEY]) == "CF-NOTE-012"
    short = notes.Note(note.text, (notes.NoteSignature(ORIGIN, blob[:4], b"x"),))
    assert code_of(short.verify, [OWN_KEY]) == "CF-NOTE-012"


BLOB = SIGNATURE.split(" ")[2]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (b"\xff\n\n", "CF-NOTE-001"),
        pytest.param("a" * 1_000_001, "CF-NOTE-001", id="too large"),
        pytest.param("\u00e9" * 500_001, "CF-NOTE-001", id="too large in bytes"),
        ("\ud800\n\n", "CF-NOTE-001"),
        (f"a\r\n\n{SIGNATURE}\n", "CF-NOTE-002"),
        (f"a\tb\n\n{SIGNATURE}\n", "CF-NOTE-002"),
        (f"a\x00\n\n{SIGNATURE}\n", "CF-NOTE-002"),
        ("", "CF-NOTE-003"),
        ("a\n", "CF-NOTE-003"),
        (f"a\n{SIGNATURE}\n", "CF-NOTE-003"),
        (f"\n\n{SIGNATURE}\n", "CF-NOTE-003"),
        (f"a\n\n{SIGNATURE}", "CF-NOTE-003"),
        ("a\n\n", "CF-NOTE-003"),
        ("a\n\n\n", "CF-NOTE-003"),
        (f"a\n\n{SIGNATURE}\n\n", "CF-NOTE-003"),
        (f"a\n\nx{SIGNATURE}\n", "CF-NOTE-004"),
        (f"a\n\n{SIGNATURE.replace(chr(0x2014), '-')}\n", "CF-NOTE-004"),
        (f"a\n\n\u2014  {BLOB}\n", "CF-NOTE-004"),
        (f"a\n\n\u2014 {BLOB}\n", "CF-NOTE-004"),
        (f"a\n\n\u2014 n m {BLOB}\n", "CF-NOTE-004"),
        (f"a\n\n\u2014 n+m {BLOB}\n", "CF-NOTE-004"),
        (f"a\n\n\u2014 n\u00a0m {BLOB}\n", "CF-NOTE-004"),
        (f"a\n\n\u2014 n {BLOB} \n", "CF-NOTE-004"),
        (f"a\n\n\u2014 n {BLOB[:-1]}\n", "CF-NOTE-004"),
        (f"a\n\n\u2014 n {BLOB}=\n", "CF-NOTE-004"),
        (f"a\n\n\u2014 n {BLOB[:-2]}{chr(ord(BLOB[-2]) + 1)}=\n", "CF-NOTE-004"),
        (f"a\n\n\u2014 n {BLOB[:8]}.{BLOB[8:]}\n", "CF-NOTE-004"),
        ("a\n\n\u2014 n AAAA\n", "CF-NOTE-004"),
        ("a\n\n\u2014 n AAAAAA==\n", "CF-NOTE-004"),
        pytest.param("a\n\n" + (SIGNATURE + "\n") * 101, "CF-NOTE-005", id="101 lines"),
    ],
)
def test_malformed_notes(text: str | bytes, code: str) -> None:
    assert code_of(notes.Note.parse, text) == code


def test_a_hundred_signature_lines_are_read() -> None:
    assert len(notes.Note.parse("a\n\n" + (SIGNATURE + "\n") * 100).signatures) == 100


@pytest.mark.parametrize(
    "name", ["", "a b", "a+b", "a\u2003b", "a\nb", "a\x00b", "a\u2028b", "a\ud800", "\udfff"]
)
def test_malformed_key_names(name: str) -> None:
    assert code_of(notes.sign_note, "a\n", name, KEY) == "CF-NOTE-006"
    assert code_of(notes.vkey, name, KEY.public) == "CF-NOTE-006"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", "CF-NOTE-002"),
        ("\n", "CF-NOTE-002"),
        ("a", "CF-NOTE-002"),
        ("a\r\n", "CF-NOTE-002"),
        ("\ud800\n", "CF-NOTE-001"),
    ],
)
def test_texts_that_cannot_be_signed(text: str, code: str) -> None:
    assert code_of(notes.sign_note, text, "n", KEY) == code


@pytest.mark.parametrize(
    "text",
    [
        "",
        "n",
        "n+00000000",
        OWN_KEY + "A",
        OWN_KEY[:-1],
        OWN_KEY.replace("+", "-"),
        OWN_KEY.replace(ORIGIN, "other"),
        "+" + OWN_KEY.split("+", 1)[1],
        OWN_KEY.upper(),
        "\ud800" + OWN_KEY,
        f"{ORIGIN}+{OWN_KEY.split('+')[1].upper()}+{OWN_KEY.split('+', 2)[2]}",
    ],
)
def test_malformed_verifier_keys(text: str) -> None:
    assert code_of(notes.Note.parse(OWN).verify, [text]) == "CF-NOTE-010"


def test_weak_verifier_keys_are_refused() -> None:
    weak = "n+00000000+AQEAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
    with pytest.raises(WeakKeyError):
        notes.Note.parse(OWN).verify([weak])


# --- checkpoints -------------------------------------------------------------------------------------------


ROOT = CHECKPOINT.to_text().splitlines()[2]


def test_checkpoint_text() -> None:
    assert CHECKPOINT.to_text() == f"{ORIGIN}\n20852163\n{ROOT}\n"
    assert notes.Checkpoint.parse(CHECKPOINT.to_text()) == CHECKPOINT
    extended = f"o\n0\n{ROOT}\nextension one\nx\n"
    assert notes.Checkpoint.parse(extended).extensions == ("extension one", "x")
    assert notes.Checkpoint.parse(extended).to_text() == extended
    assert notes.Checkpoint.parse(f"o\n{2**64 - 1}\n{ROOT}\n").size == 2**64 - 1


@pytest.mark.parametrize(
    "text",
    [
        "",
        "o\n1\n",
        f"o\n1\n{ROOT}",
        f"\n1\n{ROOT}\n",
        f"o\n01\n{ROOT}\n",
        f"o\n+1\n{ROOT}\n",
        f"o\n-1\n{ROOT}\n",
        f"o\n 1\n{ROOT}\n",
        f"o\n1_0\n{ROOT}\n",
        f"o\n\u0661\n{ROOT}\n",
        f"o\n\n{ROOT}\n",
        f"o\n0x1\n{ROOT}\n",
        f"o\n{2**64}\n{ROOT}\n",
        f"o\n{'9' * 5000}\n{ROOT}\n",
        f"o\n1\n{ROOT[:-1]}\n",
        f"o\n1\n{ROOT}=\n",
        f"o\n1\n{ROOT[:-2]}{chr(ord(ROOT[-2]) + 1)}=\n",
        "o\n1\nAAAA\n",
        "o\n1\n\n",
        f"o\n1\n{ROOT}\n\n",
        f"o\n1\n{ROOT}\n\nx\n",
        f"o\n1\n{ROOT}\nx\ty\n",
        f"o\n1\n{ROOT}\nx",
        f"DSSEv1 28 x\n1\n{ROOT}\n",
    ],
)
def test_malformed_checkpoints(text: str) -> None:
    assert code_of(notes.Checkpoint.parse, text) == "CF-NOTE-020"


@pytest.mark.parametrize(
    "checkpoint",
    [
        notes.Checkpoint("", 1, bytes(32)),
        notes.Checkpoint("a\nb", 1, bytes(32)),
        notes.Checkpoint("o", -1, bytes(32)),
        notes.Checkpoint("o", 2**64, bytes(32)),
        notes.Checkpoint("o", 1, bytes(31)),
        notes.Checkpoint("o", 1, bytes(32), ("",)),
        notes.Checkpoint("DSSEv1 x", 1, bytes(32)),
    ],
)
def test_checkpoints_that_cannot_be_written(checkpoint: notes.Checkpoint) -> None:
    assert code_of(checkpoint.to_text) == "CF-NOTE-020"


# --- own checkpoints ---------------------------------------------------------------------------------------


def test_own_checkpoint_is_read_back() -> None:
    assert notes.parse_own_checkpoint(OWN.encode(), OWN_KEY) == CHECKPOINT


def test_every_other_byte_at_every_place_is_refused() -> None:
    data = OWN.encode()
    accepted = []
    for at, byte in enumerate(data):
        for other in range(256):
            if other != byte:
                changed = data[:at] + bytes([other]) + data[at + 1 :]
                if code_of(notes.parse_own_checkpoint, changed, OWN_KEY) is None:
                    accepted.append((at, other))
    assert accepted == []


def test_every_single_byte_change_is_refused_by_the_plain_note_reader_too() -> None:
    data = OWN.encode()

    def read(changed: bytes) -> None:
        notes.Note.parse(changed).verify([OWN_KEY])

    for at in range(len(data)):
        for bit in range(8):
            changed = data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :]
            assert code_of(read, changed)


def test_every_deleted_doubled_or_inserted_byte_is_refused() -> None:
    data = OWN.encode()
    changes = [data[:at] + data[at + 1 :] for at in range(len(data))]
    changes += [data[:at] + data[at : at + 1] + data[at:] for at in range(len(data))]
    changes += [
        data[:at] + new + data[at:] for at in range(len(data) + 1) for new in (b"\n", b" ", b"=", b"\0")
    ]
    changes += [data[:at] for at in range(len(data))]
    assert [
        changed for changed in changes if code_of(notes.parse_own_checkpoint, changed, OWN_KEY) is None
    ] == []


@pytest.mark.parametrize(
    ("note", "code"),
    [
        (notes.sign_note(CHECKPOINT.to_text() + "x\n", ORIGIN, KEY), "CF-NOTE-021"),
        (notes.sign_note(notes.Checkpoint("other", 1, bytes(32)).to_text(), ORIGIN, KEY), "CF-NOTE-021"),
        (notes.sign_note("hello\n", ORIGIN, KEY), "CF-NOTE-020"),
        (notes.sign_note(CHECKPOINT.to_text(), ORIGIN, OTHER), "CF-NOTE-011"),
        (OWN + SIGNATURE + "\n", "CF-NOTE-021"),
    ],
)
def test_notes_that_are_no_own_checkpoint(note: str, code: str) -> None:
    assert code_of(notes.parse_own_checkpoint, note.encode(), OWN_KEY) == code


def test_a_public_key_is_all_a_verifier_key_needs() -> None:
    assert notes.vkey(ORIGIN, PublicKey.from_spki(KEY.spki)) == OWN_KEY
