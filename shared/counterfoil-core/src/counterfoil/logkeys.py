"""The keys that a statement of one log may be signed with."""

from __future__ import annotations

from counterfoil import keys

__all__ = ["LogKeys"]


class LogKeys:
    """Keys a statement of this log may be signed with: the identity, bound actors, pinned senders."""

    __slots__ = ("_bound", "_identity", "_keyring")

    def __init__(
        self,
        identity: keys.PublicKey | None,
        bound: dict[str, tuple[str, keys.PublicKey]],
        keyring: keys.Keyring,
    ) -> None:
        self._identity = identity
        self._bound = bound
        self._keyring = keyring

    def get(self, keyid: str) -> keys.PublicKey | None:
        """The key behind a keyid, None when it is unknown here."""
        if self._identity is not None and keyid == self._identity.keyid:
            return self._identity
        if keyid in self._bound:
            return self._bound[keyid][1]
        return self._keyring.get(keyid)

    def resolve(self, keyid: str, spki: bytes) -> keys.PublicKey | None:
        """A pinned key that the envelope carries along."""
        return self._keyring.resolve(keyid, spki)
