"""What the commands print: plain lines that git fsck's readers know, JSON, colour only where a person looks.

Names and values come out of evidence that anybody may have written, so nothing of it reaches a terminal as a
control sequence.
"""

from __future__ import annotations

import functools
import json
import os
import re
import sys
import traceback
from typing import Any, Final, TextIO

from rich.color import ColorSystem
from rich.console import Console
from rich.style import Style

from counterfoil.errors import CounterfoilError

__all__ = [
    "Closed",
    "clean",
    "finish",
    "json_text",
    "note",
    "out",
    "paint",
    "plain_error",
    "prepare",
    "raw",
    "report",
    "set_debug",
    "silence",
    "unicode_lines",
]

# Control and format characters beyond ASCII that JSON leaves as they are, though a terminal may act on them.
_UNSAFE: Final = re.compile(
    "[\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff]"
)
_debug = False


class Closed(BaseException):
    """The reader of stdout went away (``| head``); a BaseException so that no layer makes an error of it."""


def set_debug(value: bool) -> None:
    """Show tracebacks from now on."""
    global _debug
    _debug = _debug or value


def prepare() -> None:
    """Make both streams take any text: what their encoding lacks is written as an escape."""
    global _debug
    _debug = False
    _colours.cache_clear()
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")


def out(text: str = "") -> None:
    """Print one line on stdout."""
    if sys.stdout is None:
        return
    try:
        sys.stdout.write(text + "\n")
    except BrokenPipeError:
        raise Closed from None


def raw(data: bytes) -> None:
    """Write bytes on stdout as they are."""
    if sys.stdout is None:
        return
    try:
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
    except BrokenPipeError:
        raise Closed from None


def finish() -> None:
    """Write out what is buffered, while a failure can still be told."""
    if sys.stdout is None:
        return
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        raise Closed from None


def silence(stream: TextIO | None) -> None:
    """Point a stream that cannot be written at nowhere, so that the interpreter's own last flush is quiet."""
    try:
        if stream is not None:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    except (OSError, ValueError):
        pass


def note(text: str) -> None:
    """One line on stderr."""
    try:
        if sys.stderr is not None:
            sys.stderr.write(text + "\n")
            sys.stderr.flush()
    except OSError:
        silence(sys.stderr)


def report(error: CounterfoilError) -> None:
    """An error on stderr: code, where, message, and below it what to do; with ``--debug`` where it came from."""
    if _debug:
        note(clean(traceback.format_exc(), lines=True).rstrip())
    for line in plain_error("error", error.code, error.where, error.message, error.hint):
        note(line)


def plain_error(level: str, code: str, where: str | None, message: str, hint: str | None) -> list[str]:
    """``broken CF-VERIFY-052 <where>: message`` and the hint on a line of its own."""
    place = f"{code} {clean(where)}" if where else code
    lines = [f"{level} {place}: {clean(message)}"]
    if hint:
        lines.append(f"  hint: {clean(hint)}")
    return lines


def clean(text: object, *, lines: bool = False) -> str:
    """Text as a terminal may have it: what is not printable becomes an escape; ``lines`` keeps line ends."""
    text = str(text)
    if text.isprintable():
        return text
    kept = "\n" if lines else ""
    return "".join(char if char.isprintable() or char in kept else _escape(char) for char in text)


def _escape(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")


def json_text(value: Any, *, indent: int | None = None) -> str:
    """JSON in which no character can steer a terminal; the same value to every JSON reader."""
    text = json.dumps(value, ensure_ascii=False, indent=indent, separators=None if indent else (",", ":"))
    return _UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def paint(text: str, style: str) -> str:
    """Text in a style of rich's, when stdout is a terminal that shows colours and NO_COLOR is not set."""
    return Style.parse(style).render(text, color_system=ColorSystem.STANDARD) if _colours() else text


def unicode_lines() -> bool:
    """Whether stdout can show box-drawing characters."""
    encoding = getattr(sys.stdout, "encoding", None) or "ascii"
    return encoding.lower().replace("-", "").startswith("utf")


@functools.cache
def _colours() -> bool:
    console = Console(file=sys.stdout)
    return console.color_system is not None and not console.no_color
