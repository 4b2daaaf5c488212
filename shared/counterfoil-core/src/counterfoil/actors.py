"""Keys of actors: fresh in memory, bound by the identity at an actor's first signature in a session.

They attribute within the process and let one agent be revoked; they prove nothing against the holder of the identity
key.
"""

from __future__ import annotations

import base64
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from counterfoil import records, statements
from counterfoil.dsse import Envelope
from counterfoil.errors import LogError
from counterfoil.keys import SigningKey

__all__ = ["ActorKeys"]

HELD: Final = 1024
"""Keys held at once; an actor whose key was dropped is bound again."""


class ActorKeys:
    """The actors' keys of one session; ``log`` takes the bytes of binding envelopes."""

    __slots__ = ("_identity", "_keys", "_lock", "_log", "_origin")

    def __init__(self, identity: SigningKey, origin: str, log: Callable[[bytes], object]) -> None:
        self._identity = identity
        self._origin = origin
        self._log = log
        self._keys: OrderedDict[tuple[str, ...], SigningKey] = OrderedDict()
        self._lock = threading.Lock()

    def key(self, actor: tuple[str, ...]) -> SigningKey:
        """The actor's key; its binding stands in the log before anything the caller signs with it.

        Raises LogError (CF-LOG-036) when the log takes no binding, StatementError for a name that cannot be signed.
        """
        with self._lock:
            key = self._keys.get(actor)
            if key is not None:
                self._keys.move_to_end(actor)
                return key
            key = SigningKey.generate()
            if self._log(self._bind(actor, key)) is False:
                raise LogError("an actor's key could not be bound", code="CF-LOG-036", where="/".join(actor))
            self._keys[actor] = key
            if len(self._keys) > HELD:
                self._keys.popitem(last=False)
            return key

    def _bind(self, actor: tuple[str, ...], key: SigningKey) -> bytes:
        text = records.actor_text(actor)
        payload = statements.build(
            statements.BINDING,
            {"digest": {"sha256": key.keyid}, "name": text},
            {
                "actor": text,
                "issued": time.time_ns() // 1_000_000,
                "key": key.keyid,
                "origin": self._origin,
                "spki": base64.b64encode(key.spki).decode(),
            },
        )
        statements.parse(payload)  # nothing is signed that a reader would refuse
        return Envelope.sign(payload, self._identity).to_bytes()
