"""HTML from text. Nothing of evidence is ever markup: it comes in as text, and goes out escaped and printable."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from typing import Final

__all__ = ["Html", "Lane", "anchor", "code", "digest", "link", "listed", "name", "table", "text"]

MOST: Final = 200
"""Characters of a name or a message."""


LANE: Final = ' class="lane"'


class Html(str):
    """Markup that this package made; every other string is text."""

    __slots__ = ()


class Lane(Html):
    """What stands in a lane of a table."""

    __slots__ = ()


def text(value: object, *, most: int = MOST, lines: bool = False) -> Html:
    """Text of at most ``most`` characters; what cannot be printed, or turns the direction of text, is an escape.

    ``lines`` keeps line ends. Of a longer text the number of characters left out is told.
    """
    whole = value if isinstance(value, str) else str(value)
    kept = "\n" if lines else ""
    shown = "".join(one if one.isprintable() or one in kept else _escape(one) for one in whole[:most])
    more = f" [{len(whole) - most} more characters]" if len(whole) > most else ""
    return Html(html.escape(shown + more, quote=True))


def name(value: object) -> Html:
    """A name: isolated, so that one written from right to left moves nothing around it."""
    return Html(f"<bdi>{text(value)}</bdi>")


def code(value: object) -> Html:
    """A short text in the typeface of the machine."""
    return Html(f"<code>{text(value)}</code>")


def digest(value: str | None) -> Html:
    """A digest as a whole, for it is what everything else is found by."""
    return Html("") if value is None else Html(f'<code class="d">{text(value)}</code>')


def anchor(kind: str, number: int) -> str:
    """The name of a place in the page; never one out of evidence."""
    return f"{kind}-{number}"


def link(kind: str, number: int | None, label: str) -> Html:
    """A link within the page; the label alone where there is nothing to lead to."""
    return text(label) if number is None else Html(f'<a href="#{anchor(kind, number)}">{text(label)}</a>')


def listed(pairs: Iterable[tuple[str, str | None]]) -> Html:
    """Terms and what is said of them; without those that have nothing."""
    rows = "".join(
        f"<div><dt>{text(term)}</dt><dd>{_safe(value)}</dd></div>" for term, value in pairs if value
    )
    return Html(f"<dl>{rows}</dl>")


def table(
    caption: str,
    heads: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    ids: Sequence[str] = (),
    kind: str = "",
) -> Html:
    """A table with a caption; ``ids`` are anchors of the rows, the first cell of a row is its heading."""
    head = "".join(f'<th scope="col">{_safe(one)}</th>' for one in heads)
    body = []
    for place, row in enumerate(rows):
        own = f' id="{ids[place]}"' if ids else ""
        first, *rest = row
        cells = "".join(f"<td{LANE if isinstance(one, Lane) else ''}>{_safe(one)}</td>" for one in rest)
        body.append(f'<tr{own}><th scope="row">{_safe(first)}</th>{cells}</tr>\n')
    shape = f' class="{kind}"' if kind else ""
    return Html(
        f'<div class="wide" role="region" tabindex="0" aria-label="{text(caption)}"><table{shape}>'
        f"<caption>{text(caption)}</caption><thead><tr>{head}</tr></thead>"
        f"<tbody>\n{''.join(body)}</tbody></table></div>\n"
    )


def _safe(value: str) -> Html:
    return value if isinstance(value, Html) else text(value)


def _escape(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")
