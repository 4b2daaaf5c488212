"""Every error of Counterfoil carries a stable code, the place, and what to do about it.

The tree (codes are listed in ``shared/spec/errors.md``)::

    CounterfoilError
      ConfigError            settings, arguments, unsupported modes
      CanonicalError         (ValueError) no RFC 8785 form, or not canonical / not strict JSON
      KeyringError           identity key, keyring, pins
        WeakKeyError         low-order or non-canonical public key
      EnvelopeError          DSSE envelope malformed or not signed by a known key
      StatementError         in-toto statement outside the profile
      NoteError              C2SP signed note malformed or not signed by a known key
      ProofError             inclusion or consistency proof does not hold
      LogError               a log cannot be read or continued
      BundleError            a bundle cannot be cut, or is none
      ArchiveError           logs cannot be archived
      StoreError             the evidence place cannot be read or written
      HandoffError           a handoff cannot be made
        HandoffRefusedError  a receiver refused a handoff
      TrustError             a trust policy cannot be used
      WeightsError           a tree of model weights cannot be hashed, or a manifest is none
      EngineError            segments cannot be checked where they should be
      PluginError            a plugin failed to load or broke its contract
"""

from __future__ import annotations

__all__ = [
    "ArchiveError",
    "BundleError",
    "CanonicalError",
    "ConfigError",
    "CounterfoilError",
    "EngineError",
    "EnvelopeError",
    "HandoffError",
    "HandoffRefusedError",
    "KeyringError",
    "LogError",
    "NoteError",
    "PluginError",
    "ProofError",
    "StatementError",
    "StoreError",
    "TrustError",
    "WeakKeyError",
    "WeightsError",
]


class CounterfoilError(Exception):
    """Base of all errors, so that one ``except`` catches what this library raises on purpose.

    ``code`` is stable (``CF-LOG-010``), ``where`` is a path, index or JSON pointer, ``hint`` says what to do.
    """

    def __init__(self, message: str, *, code: str, where: str | None = None, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.where = where
        self.hint = hint
        if hint:
            self.add_note(f"hint: {hint}")  # a traceback shows notes, the message stays one line

    def __str__(self) -> str:
        place = f" ({self.where})" if self.where else ""
        return f"{self.code}: {self.message}{place}"

    def __reduce__(self) -> tuple[object, ...]:
        # Keyword-only arguments do not survive the default pickling of exceptions (process pools need it).
        return (_rebuild, (type(self), self.message, self.code, self.where, self.hint))


def _rebuild(
    cls: type[CounterfoilError], message: str, code: str, where: str | None, hint: str | None
) -> CounterfoilError:
    return cls(message, code=code, where=where, hint=hint)


class ConfigError(CounterfoilError):
    """A setting or argument cannot be used."""


class CanonicalError(CounterfoilError, ValueError):
    """A value has no RFC 8785 form, or a text is not the strict I-JSON the formats ask for."""


class KeyringError(CounterfoilError):
    """The identity key or the keyring cannot be used."""


class WeakKeyError(KeyringError):
    """A public key is of low order or not canonically encoded, so its signatures prove nothing."""


class EnvelopeError(CounterfoilError):
    """A DSSE envelope is malformed, or no known key signed it."""


class StatementError(CounterfoilError):
    """A statement is outside the in-toto profile of these formats."""


class NoteError(CounterfoilError):
    """A C2SP signed note is malformed, or no known key signed it."""


class ProofError(CounterfoilError):
    """A Merkle proof does not hold."""


class LogError(CounterfoilError):
    """A log cannot be read or continued."""


class BundleError(CounterfoilError):
    """A bundle cannot be cut from this evidence, or a file is no bundle."""


class ArchiveError(CounterfoilError):
    """Logs cannot be moved to an archive."""


class StoreError(CounterfoilError):
    """The place of the evidence cannot be read or written."""


class HandoffError(CounterfoilError):
    """A handoff cannot be made."""


class HandoffRefusedError(HandoffError):
    """A receiver refused a handoff; the refusal is in its log."""


class TrustError(CounterfoilError):
    """A trust policy is malformed, not signed by those who may, or older than one that was used before."""


class WeightsError(CounterfoilError):
    """A tree of model weights cannot be hashed as it is, or what should be a manifest of one is none."""


class EngineError(CounterfoilError):
    """The processes or the cluster that should check segments are not there, or cannot."""


class PluginError(CounterfoilError):
    """A plugin cannot be loaded or broke its contract."""
