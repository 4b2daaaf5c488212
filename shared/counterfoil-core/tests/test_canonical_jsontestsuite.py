"""The strict reader on the whole of JSONTestSuite: what must be read, what must not, and every choice it leaves."""

from __future__ import annotations

import base64
import hashlib
import json
from pathlib import Path

import pytest

from counterfoil import canonical
from counterfoil.errors import CanonicalError

SUITE = Path(__file__).resolve().parents[2] / "vectors" / "outside" / "jsontestsuite"
PARSING = {
    name: base64.b64decode(text)
    for name, text in json.loads((SUITE / "test_parsing_b64.json").read_text()).items()
}
TRANSFORM = {
    name: base64.b64decode(text)
    for name, text in json.loads((SUITE / "test_transform_b64.json").read_text()).items()
}
LARGE = json.loads((SUITE / "test_parsing_large.json").read_text())

# Stricter than the suite: readers disagree on which of two equal keys counts.
STRICTER = {
    "y_object_duplicated_key.json": "CF-CANON-012",
    "y_object_duplicated_key_and_value.json": "CF-CANON-012",
}
# What the suite leaves to the reader: the canonical text of what is read, or the code of the refusal.
CHOSEN: dict[str, bytes | str] = {
    # An underflow is zero, as every double's reader has it; an overflow has no double.
    "i_number_double_huge_neg_exp.json": b"[0]",
    "i_number_real_underflow.json": b"[0]",
    "i_number_huge_exp.json": "CF-CANON-013",
    "i_number_neg_int_huge_exp.json": "CF-CANON-013",
    "i_number_pos_double_huge_exp.json": "CF-CANON-013",
    "i_number_real_neg_overflow.json": "CF-CANON-013",
    "i_number_real_pos_overflow.json": "CF-CANON-013",
    # An integer that a double does not hold is read differently from language to language.
    "i_number_too_big_neg_int.json": "CF-CANON-014",
    "i_number_too_big_pos_int.json": "CF-CANON-014",
    "i_number_very_big_negative_int.json": "CF-CANON-014",
    # A lone surrogate is no character: some readers keep it, some replace it, some refuse.
    "i_object_key_lone_2nd_surrogate.json": "CF-CANON-015",
    "i_string_1st_surrogate_but_2nd_missing.json": "CF-CANON-015",
    "i_string_1st_valid_surrogate_2nd_invalid.json": "CF-CANON-015",
    "i_string_incomplete_surrogate_and_escape_valid.json": "CF-CANON-015",
    "i_string_incomplete_surrogate_pair.json": "CF-CANON-015",
    "i_string_incomplete_surrogates_escape_valid.json": "CF-CANON-015",
    "i_string_invalid_lonely_surrogate.json": "CF-CANON-015",
    "i_string_invalid_surrogate.json": "CF-CANON-015",
    "i_string_inverted_surrogates_U+1D11E.json": "CF-CANON-015",
    "i_string_lone_second_surrogate.json": "CF-CANON-015",
    # Only UTF-8, and only its one spelling of a character, without byte order mark.
    "i_string_UTF-16LE_with_BOM.json": "CF-CANON-010",
    "i_string_UTF-8_invalid_sequence.json": "CF-CANON-010",
    "i_string_UTF8_surrogate_U+D800.json": "CF-CANON-010",
    "i_string_invalid_utf-8.json": "CF-CANON-010",
    "i_string_iso_latin_1.json": "CF-CANON-010",
    "i_string_lone_utf8_continuation_byte.json": "CF-CANON-010",
    "i_string_not_in_unicode_range.json": "CF-CANON-010",
    "i_string_overlong_sequence_2_bytes.json": "CF-CANON-010",
    "i_string_overlong_sequence_6_bytes.json": "CF-CANON-010",
    "i_string_overlong_sequence_6_bytes_null.json": "CF-CANON-010",
    "i_string_truncated-utf-8.json": "CF-CANON-010",
    "i_string_utf16BE_no_BOM.json": "CF-CANON-010",
    "i_string_utf16LE_no_BOM.json": "CF-CANON-010",
    "i_structure_UTF-8_BOM_empty_object.json": "CF-CANON-010",
    # Deeper than the default limit of 64.
    "i_structure_500_nested_arrays.json": "CF-CANON-016",
}
# What readers make different things of.
TRANSFORMED: dict[str, bytes | str] = {
    "number_-9223372036854775808.json": "CF-CANON-014",
    "number_-9223372036854775809.json": "CF-CANON-014",
    "number_1.0.json": b"[1]",
    "number_1.000000000000000005.json": b"[1]",
    "number_1000000000000000.json": b"[1000000000000000]",
    "number_10000000000000000999.json": "CF-CANON-014",
    "number_1e-999.json": b"[0]",
    "number_1e6.json": b"[1000000]",
    "number_9223372036854775807.json": "CF-CANON-014",
    "number_9223372036854775808.json": "CF-CANON-014",
    # Two spellings of one letter are two keys: nothing is normalised.
    "object_key_nfc_nfd.json": b'{"e\xcc\x81":"NFD","\xc3\xa9":"NFC"}',
    "object_key_nfd_nfc.json": b'{"e\xcc\x81":"NFD","\xc3\xa9":"NFC"}',
    "object_same_key_different_values.json": "CF-CANON-012",
    "object_same_key_same_value.json": "CF-CANON-012",
    "object_same_key_unclear_values.json": "CF-CANON-012",
    "string_1_escaped_invalid_codepoint.json": "CF-CANON-015",
    "string_1_invalid_codepoint.json": "CF-CANON-010",
    "string_2_escaped_invalid_codepoints.json": "CF-CANON-015",
    "string_2_invalid_codepoints.json": "CF-CANON-010",
    "string_3_escaped_invalid_codepoints.json": "CF-CANON-015",
    "string_3_invalid_codepoints.json": "CF-CANON-010",
    "string_with_escaped_NULL.json": b'["A\\u0000B"]',
}
# No JSON (011) nearly always; some are no UTF-8 (010), say NaN or an infinity (013), or nest too deeply (016).
REFUSALS = {"CF-CANON-010", "CF-CANON-011", "CF-CANON-013", "CF-CANON-016"}


def outcome(data: bytes) -> bytes | str:
    try:
        return canonical.dumps(canonical.loads(data))
    except CanonicalError as exc:
        return exc.code if exc.hint else "without a hint"


def of(prefix: str) -> list[str]:
    return sorted(name for name in PARSING if name.startswith(prefix))


def test_the_suite_is_complete_and_every_choice_is_made() -> None:
    assert (len(of("y_")), len(of("n_")) + len(LARGE), len(of("i_"))) == (95, 188, 35)
    assert CHOSEN.keys() == set(of("i_"))
    assert TRANSFORMED.keys() == TRANSFORM.keys()
    assert set(STRICTER) < set(of("y_"))


@pytest.mark.parametrize("name", of("y_"))
def test_what_must_be_read(name: str) -> None:
    data = PARSING[name]
    if name in STRICTER:
        assert outcome(data) == STRICTER[name]
        return
    read = canonical.loads(data)
    assert read == json.loads(data)
    assert canonical.loads_canonical(canonical.dumps(read)) == read


@pytest.mark.parametrize("name", of("n_"))
def test_what_must_be_refused(name: str) -> None:
    assert outcome(PARSING[name]) in REFUSALS


@pytest.mark.parametrize("name", sorted(LARGE))
def test_what_must_be_refused_and_is_too_large_to_stand_here(name: str) -> None:
    made = LARGE[name]
    data = (made["unit"] * made["times"] + made["tail"]).encode()
    assert hashlib.sha256(data).hexdigest() == made["sha256"]
    assert outcome(data) == "CF-CANON-016"
    with pytest.raises(CanonicalError) as caught:
        canonical.loads(data, max_depth=1_000_000)
    assert caught.value.code in ("CF-CANON-011", "CF-CANON-016")


@pytest.mark.parametrize("name", of("i_"))
def test_what_is_left_to_the_reader(name: str) -> None:
    assert outcome(PARSING[name]) == CHOSEN[name]


@pytest.mark.parametrize("name", sorted(TRANSFORM))
def test_what_readers_make_different_things_of(name: str) -> None:
    assert outcome(TRANSFORM[name]) == TRANSFORMED[name]
