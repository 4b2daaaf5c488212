"""Keys and what is remembered about others: everything this user keeps in ``$COUNTERFOIL_HOME``.

The identity key signs for this machine's user, the keyring says whose signatures count, the remembered heads
tell when a log lost entries. Only writers make or pin keys; readers never change anything here.

Source: RFC 8032 (Ed25519), RFC 8410 (SPKI, PKCS#8); ``shared/spec/keys.md``.
"""

from __future__ import annotations

from counterfoil._closed import close_log, is_closed
from counterfoil._ed25519 import PublicKey, SigningKey, fingerprint
from counterfoil._heads import (
    Head,
    forget_head,
    head_name,
    remember_head,
    remembered_head,
    remembered_heads,
    sweep_heads,
)
from counterfoil._home import home, lock_path, prepare_lock, set_home
from counterfoil._identity import load_identity, load_or_create_identity
from counterfoil._keyring import Keyring, Pin
from counterfoil._secret import load_or_create_secret, load_secret

__all__ = [
    "Head",
    "Keyring",
    "Pin",
    "PublicKey",
    "SigningKey",
    "close_log",
    "fingerprint",
    "forget_head",
    "head_name",
    "home",
    "is_closed",
    "load_identity",
    "load_or_create_identity",
    "load_or_create_secret",
    "load_secret",
    "lock_path",
    "prepare_lock",
    "remember_head",
    "remembered_head",
    "remembered_heads",
    "set_home",
    "sweep_heads",
]
