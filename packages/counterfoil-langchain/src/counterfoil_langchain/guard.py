"""Keeps a failure of the recording away from the application it records."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from counterfoil_langchain.handler import Handler

__all__ = ["guarded"]

_Method = TypeVar("_Method", bound=Callable[..., None])


def guarded(method: _Method) -> _Method:
    """An internal failure becomes a loss in the log: in observe the application never notices."""

    @functools.wraps(method)
    def call(self: Handler, *args: Any, **kwargs: Any) -> None:
        if not self.enabled:
            return
        try:
            method(self, *args, **kwargs)
        except Exception as exc:
            with contextlib.suppress(Exception):
                self.recorder.loss(f"{method.__name__}: {type(exc).__name__}")

    return call  # type: ignore[return-value]
