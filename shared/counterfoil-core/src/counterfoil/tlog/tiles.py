"""The files of a transparency log as C2SP tlog-tiles lays them out, made while the entries pass by.

Hash tiles hold up to 256 hashes of one level (every eighth level of the tree), entry bundles up to 256 entries, each
behind its length in two bytes. Memory is one tile a level.

Source: C2SP tlog-tiles (https://c2sp.org), RFC 6962 section 2.1.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from counterfoil import tree
from counterfoil.entries import MAX_ENTRY
from counterfoil.errors import LogError

__all__ = ["ENTRIES", "WIDTH", "TileWriter", "tile_path"]

WIDTH: Final = 256
"""Hashes of a full tile, entries of a full bundle."""
ENTRIES: Final = "entries"
_THOUSAND: Final = 1000

Emit = Callable[[str, bytes], None]


def tile_path(level: int | str, number: int, width: int = WIDTH) -> str:
    """Path of a tile (``level`` 0 to 7) or bundle (``level`` ``entries``): ``tile/0/x001/x234/067.p/8``."""
    groups = [f"{number % _THOUSAND:03d}"]
    while number >= _THOUSAND:
        number //= _THOUSAND
        groups.insert(0, f"x{number % _THOUSAND:03d}")
    path = f"tile/{level}/{'/'.join(groups)}"
    return path if width == WIDTH else f"{path}.p/{width}"


class TileWriter:
    """Takes entries in order and gives each file to ``emit`` (path, bytes) once it is full; ``finish`` the rest.

    ``tree`` is the RFC 6962 tree over what was added.
    """

    def __init__(self, emit: Emit) -> None:
        self.tree = tree.Tree()
        self._emit = emit
        self._levels: list[tuple[int, list[bytes]]] = []
        self._bundle: list[bytes] = []

    def add(self, entry: bytes) -> None:
        """The next entry.

        Raises:
            LogError: CF-LOG-016: too long for an entry bundle.
        """
        if len(entry) > MAX_ENTRY:
            raise LogError("an entry is too long", code="CF-LOG-016", where=f"entry {self.tree.size}")
        leaf = tree.leaf_hash(entry)
        self.tree.append(leaf)
        self._bundle.append(len(entry).to_bytes(2, "big") + entry)
        if len(self._bundle) == WIDTH:
            self._emit(tile_path(ENTRIES, self.tree.size // WIDTH - 1), b"".join(self._bundle))
            self._bundle = []
        self._hash(0, leaf)

    def finish(self) -> None:
        """The partial tiles and the partial bundle at the tree's right edge."""
        for level, (number, hashes) in enumerate(self._levels):
            if hashes:
                self._emit(tile_path(level, number, len(hashes)), b"".join(hashes))
        if self._bundle:
            number = self.tree.size // WIDTH
            self._emit(tile_path(ENTRIES, number, len(self._bundle)), b"".join(self._bundle))

    def _hash(self, level: int, node: bytes) -> None:
        if level == len(self._levels):
            self._levels.append((0, []))
        number, hashes = self._levels[level]
        hashes.append(node)
        if len(hashes) == WIDTH:
            self._emit(tile_path(level, number), b"".join(hashes))
            self._levels[level] = (number + 1, [])
            self._hash(level + 1, tree.root_of(hashes))
