"""What a writer asks of a place whose logs go on to another one, segment by segment.

The folder that such a store names is where entries are on disk; a segment goes on once it is sealed, which means that
it ends in its checkpoint and nothing more is written to it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from counterfoil.errors import CounterfoilError

if TYPE_CHECKING:
    from counterfoil.stores.folder import FolderStore

__all__ = ["Remote"]


class Remote(Protocol):
    """The other place, as one process knows it; nothing here raises."""

    @property
    def seal_after(self) -> float:
        """Seconds after its first entry at which a segment is sealed."""
        ...

    def written(self) -> FolderStore:
        """Both places as one, for reading; what is asked of it may raise StoreError."""
        ...

    def start(self) -> None:
        """A writer begins; each ``start`` has its ``finish``."""
        ...

    def ready(self, log: str) -> bool | None:
        """Whether a log can be gone on with there: all that is here of it is there, and nothing follows.

        None: nobody can tell now.
        """
        ...

    def claim(self, log: str, number: int) -> bool | None:
        """Put a segment there at once, before anything builds on it.

        False: another one stands there under its name, so the log is somebody else's. None: nobody can tell now.
        """
        ...

    def sealed(self, log: str, number: int) -> None:
        """A segment can go; so can all before it in its log."""
        ...

    def is_there(self, log: str, number: int) -> bool:
        """Whether a segment is known to be there."""
        ...

    def taken(self, log: str) -> CounterfoilError | None:
        """Why a log cannot be gone on with: somebody else put a segment of their own into it."""
        ...

    def wait(self, log: str, number: int, timeout: float | None = None) -> bool:
        """Wait until a sealed segment is there; at most ``timeout`` seconds, or as long as the settings say."""
        ...

    def finish(self, log: str, number: int) -> None:
        """A writer ends: wait, as long as the settings say, for what it sealed last, and say what stays here."""
        ...
