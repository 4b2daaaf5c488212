"""Plain envelopes by their text: one signature, normal form, which has one spelling."""

from __future__ import annotations

import binascii
import re
from typing import Any, Final, NamedTuple

__all__ = ["Opened", "opened"]

_ENVELOPE: Final = re.compile(
    rb'\{"payload":"([A-Za-z0-9+/]++={0,2})","payloadType":"application/vnd\.in-toto\+json",'
    rb'"signatures":\[\{"keyid":"([0-9a-f]{64})","sig":"([A-Za-z0-9+/]{86}==)"\}\]\}'
).fullmatch
_MOST: Final = 32 * 1024
"""Bytes of an envelope that is opened here: half of what one may have."""


class Opened(NamedTuple):
    """An envelope with one signature: whose it says it is, the signature, and what is signed."""

    keyid: bytes
    sig: bytes
    payload: bytes

    def body(self) -> dict[str, Any]:
        """The envelope again, read."""
        sig, payload = (binascii.b2a_base64(one, newline=False).decode() for one in self[1:])
        signatures = [{"keyid": self.keyid.decode(), "sig": sig}]
        return {"payload": payload, "payloadType": "application/vnd.in-toto+json", "signatures": signatures}


def opened(body: bytes) -> Opened | None:
    """The envelope that a text is the normal form of; None for all but plain ones with one signature."""
    found = _ENVELOPE(body) if len(body) <= _MOST else None
    if found is None:
        return None
    payload, keyid, sig = found.groups()
    signed, signature = _decoded(payload), _decoded(sig)
    return None if signed is None or signature is None else Opened(keyid, signature, signed)


def _decoded(text: bytes) -> bytes | None:
    """Bytes of a base64 text, None where they are written in another way."""
    try:
        data = binascii.a2b_base64(text, strict_mode=True)
    except ValueError:
        return None
    # Only the last four characters can hide bits that are not read.
    last = data[-(len(data) % 3 or 3) :]
    return data if binascii.b2a_base64(last, newline=False) == text[-4:] else None
