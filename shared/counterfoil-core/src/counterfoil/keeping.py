"""The sender's side of a receipt: kept in the log that sealed the handoff, or beside a copy of the handoff.

Processes with one identity write a log each. A receipt may come back to another one than sealed the handoff: then the
handoff, and the grants it rests on, are put into its log before the receipt.
"""

from __future__ import annotations

import time

from counterfoil import statements
from counterfoil.openlog import OpenLog
from counterfoil.receiving import Receiving, Sent, not_durable

__all__ = ["take_receipt"]


def take_receipt(log: OpenLog, answer: Sent) -> statements.Receipt:
    """Keep the receipt of a handoff that was sealed here: then this log holds the receiver's word about it.

    Raises HandoffRefusedError when the receipt does not hold, is for no handoff sealed here, or was kept before. It is
    on disk when this returns.
    """
    writer = log.recorder.open()
    policy = log.policy
    coming = Receiving(log, answer, policy, what="receipt")
    statement, signers = coming.statement()
    found = statement.predicate
    if not isinstance(found, statements.Receipt) or found.status == "refused":
        coming.refuse(
            "CF-HANDOFF-012", "the statement is no receipt that something was accepted", "ask for it"
        )
    if found.sender.key not in signers:
        coming.refuse(
            "CF-HANDOFF-013",
            "the receipt names another key than the one that signed",
            "do not trust this message",
        )
    now = time.time_ns() // 1_000_000
    coming.speaks(found, signers, now)
    with log.keeping:
        standing = log.standing
        audience = standing.audience(found.handoff, origin=writer.origin)
        known = log.peers.keys(audience) if audience is not None and policy is None else frozenset()
        if audience is None or audience != found.sender.actor or (known and found.sender.key not in known):
            coming.refuse(
                "CF-HANDOFF-025",
                "the receipt is for no handoff that was sealed here for its signer",
                "keep it where the handoff was sealed",
            )
        if found.sender.key == writer.identity.keyid and found.own is None:
            coming.refuse(
                "CF-HANDOFF-025",
                "the receipt is this identity's own and does not say in which log it accepted",
                "nothing: it stands where the handoff was accepted",
            )
        if found.issued > now + coming.skew:
            coming.refuse("CF-HANDOFF-015", "issued in the future", "check the clocks of both machines")
        if found.status == "accepted" and standing.is_accepted(found.handoff, found.sender.key):
            coming.refuse(
                "CF-HANDOFF-018", "a receipt that accepts this handoff was kept before", "nothing: it is here"
            )
        coming.heads(found)
        chain = [] if standing.placed(found.handoff, writer.origin) else standing.chain(found.handoff)
        if not log.place(writer, reversed(chain)) or not writer.entry(coming.envelope.to_bytes()):
            raise not_durable(writer.error)
        standing.add(statement, writer.origin)
    if not writer.flush():
        raise not_durable(writer.error)
    return found
