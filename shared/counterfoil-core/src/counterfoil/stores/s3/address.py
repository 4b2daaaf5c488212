"""What an ``s3://bucket/prefix`` names: a bucket, and the keys below a prefix of it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from counterfoil.errors import ConfigError

__all__ = ["SCHEME", "Address"]

SCHEME: Final = "s3://"
_BUCKET: Final = re.compile(r"[a-z0-9](?:[a-z0-9-]|\.(?!\.)){1,61}[a-z0-9]\Z")
_NUMBERS: Final = re.compile(r"[0-9.]+\Z")
_PART: Final = re.compile(r"[A-Za-z0-9!_.*'()=+,:@-]+\Z")
_LONGEST: Final = 900
"""Bytes of a prefix: a key has 1,024, and the log and the segment need theirs."""


@dataclass(frozen=True, slots=True)
class Address:
    """A bucket and a prefix in it, which may be empty; ``prefix`` neither begins nor ends with a slash."""

    bucket: str
    prefix: str = ""

    @property
    def uri(self) -> str:
        """The address as people write it, one spelling for each place."""
        return f"{SCHEME}{self.bucket}" + (f"/{self.prefix}" if self.prefix else "")

    def __str__(self) -> str:
        return self.uri

    @property
    def root(self) -> str:
        """What every key of this evidence begins with."""
        return f"{self.prefix}/" if self.prefix else ""

    def key(self, name: str) -> str:
        """The key of a relative name, such as ``<log>/00000000.seg``."""
        return self.root + name

    @classmethod
    def parse(cls, text: str) -> Address:
        """Read a URI.

        What Amazon's naming rules and its "safe characters" do not allow is refused: other programs would escape it
        each in its own way, and one place would have two names.

        Raises:
            ConfigError: CF-CONFIG-013: no such address can be. The text is not repeated where it may hold a secret.
        """
        if not text.startswith(SCHEME):
            raise _bad("an address of a bucket begins with s3://", text)
        bucket, _, prefix = text.removeprefix(SCHEME).partition("/")
        if "@" in bucket:
            raise _bad("an address of a bucket holds no user and no password", None)
        if "?" in text or "#" in text:
            raise _bad("an address of a bucket has no query and no fragment", None)
        if not _BUCKET.match(bucket) or _NUMBERS.match(bucket) or bucket.startswith("xn--"):
            raise _bad("this is no name of a bucket", text)
        prefix = prefix.removesuffix("/")
        for part in prefix.split("/") if prefix else ():
            if not _PART.match(part) or part in (".", ".."):
                raise _bad(f"{part!a} cannot stand in a prefix", text)
        if len(prefix) > _LONGEST:
            raise _bad(f"the prefix is longer than {_LONGEST} bytes", text[:80])
        return cls(bucket, prefix)


def _bad(message: str, where: str | None) -> ConfigError:
    return ConfigError(
        message,
        code="CF-CONFIG-013",
        where=where,
        hint="write s3://bucket/prefix, the prefix of letters, digits and ! _ . * ' ( ) = + , : @ -",
    )
