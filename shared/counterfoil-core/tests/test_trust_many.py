"""Very many statements are verified in bounded memory, and again at the cost of what is new."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from counterfoil import canonical, statements
from counterfoil.dsse import Envelope

MANY = 100_000
MORE = 1_000
PEAK = 256 << 20
"""Bytes that the verifying process may hold at most, interpreter and all."""

VERIFY = """
    import json, sys
    from counterfoil import keys, verify
    from peaks import peak

    computed = 0
    whole = keys.PublicKey.verify

    def counted(self, sig, data):
        global computed
        computed += data.startswith(b"DSSEv1 ")
        return whole(self, sig, data)

    keys.PublicKey.verify = counted
    found = verify(sys.argv[1])
    print(json.dumps({"verdict": found.verdict, "counts": found.counts, "computed": computed, "peak": peak()}))
"""


def messages(one: Any, count: int, start: int) -> None:
    """Handoffs with authority, heads of a peer and a taint, each signed, appended as fast as the log takes them."""
    predicate = one.message(taint=["web"], purpose="many")
    predicate["authority"] = {"allow": ["repo:read"], "expires": 4_000_000_000_000, "maxDepth": 3}
    key = one.key
    subject = {"digest": {"counterfoil-v1": predicate["content"]["payload"]}, "name": "payload"}
    with one.inside() as log:
        writer = log.recorder.open()
        for number in range(start, start + count):
            predicate["nonce"] = f"{number:032x}"
            peer = {"origin": f"{'b' * 64}/{'c' * 16}", "root": f"{number:064x}", "size": number + 1}
            predicate["seen"] = [peer]
            payload = statements.build(statements.HANDOFF, subject, predicate)
            assert writer.entry(Envelope.sign(payload, key).to_bytes())
            if number % 4096 == 0:
                assert writer.flush()
    one.close()


@pytest.mark.slow
def test_very_many_statements(party: Callable[..., Any], capsys: pytest.CaptureFixture[str]) -> None:
    sender = party("sender")
    messages(sender, MANY, 0)

    def verified() -> dict[str, Any]:
        began = time.monotonic()
        lab = sender.lab
        lab.evidence = sender.evidence
        told = lab.python(VERIFY, timeout=600, COUNTERFOIL_HOME=str(sender.home))
        found: dict[str, Any] = json.loads(told)
        with capsys.disabled():
            seconds = time.monotonic() - began
            print(
                f"\n{found['computed']} signatures computed, {seconds:.1f} s, peak {found['peak'] >> 20} MiB"
            )
        return found

    first = verified()
    assert (first["verdict"], first["counts"]["handoffs"]) == ("intact", MANY)
    assert first["computed"] == MANY
    assert first["peak"] < PEAK
    messages(sender, MORE, MANY)
    second = verified()
    assert (second["verdict"], second["counts"]["handoffs"]) == ("intact", MANY + MORE)
    assert second["computed"] == MORE
    assert second["peak"] < PEAK
    # The file of what is remembered is damaged: everything is verified, and remembered anew.
    (sender.home / "cache" / "signatures.sqlite").write_bytes(b"damage" * 1000)
    third = verified()
    assert (third["verdict"], third["computed"]) == ("intact", MANY + MORE)
    assert canonical.loads(json.dumps(third["counts"]))["statements"] == MANY + MORE
