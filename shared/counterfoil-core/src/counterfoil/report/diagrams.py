"""Diagrams as text for Mermaid and Graphviz. Names come from evidence that anybody may have written: they are text.

A name stands in double quotes, and of ASCII nothing in it stays as it is but letters, digits and single blanks: every
other character is a numeric character reference, which both programs show as the character. So no name can end its
quotes, begin a statement, a directive or a comment, or be markup, a link or an escape. What cannot be printed, and
what turns the direction of text, is shown as an escape. Sources: Mermaid's "entity codes", Graphviz's "escString".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from counterfoil.report.picture import Group, Link, Node

__all__ = ["Diagram", "dot", "mermaid", "visible"]

NODES: Final = 200
LINKS: Final = 400
"""Beyond 500 Mermaid refuses to draw."""
SIZE: Final = 48_000
"""Characters of a diagram: beyond 50,000 Mermaid refuses to draw."""
_FOR_NODES: Final = 30_000
_TITLE: Final = 48
_WORDS: Final = 80


@dataclass(slots=True)
class Diagram:
    """The text, and what did not fit in: nodes, links."""

    text: str
    nodes: int = 0
    links: int = 0


@dataclass(slots=True)
class _Form:
    """How one of the two languages writes things down."""

    group: Callable[[Group], str]
    node: Callable[[Node], str]
    link: Callable[[Link, int], list[str]]
    end: str
    left: Callable[[str], str]
    note: str


@dataclass(slots=True)
class _Page:
    """Lines as long as they fit."""

    form: _Form
    lines: list[str] = field(default_factory=list)
    used: int = 0
    nodes: int = 0
    links: int = 0
    left_nodes: int = 0
    left_links: int = 0

    def fill(self, groups: Iterable[Group]) -> None:
        kept: set[str] = set()
        every = list(groups)
        for group in every:
            fitting = [line for node in group.nodes for line in self._node(node, kept)]
            if fitting:
                self.lines += [self.form.group(group), *fitting, self.form.end]
        for group in every:
            for link in group.links:
                self._link(link, kept)

    def _node(self, node: Node, kept: set[str]) -> list[str]:
        line = self.form.node(node)
        if node.id in kept:
            return []
        if self.nodes == NODES or self.used + len(line) > _FOR_NODES:
            self.left_nodes += 1
            return []
        self.nodes += 1
        self.used += len(line)
        kept.add(node.id)
        return [line]

    def _link(self, link: Link, kept: set[str]) -> None:
        written = self.form.link(link, self.links)
        size = sum(map(len, written))
        if not {link.source, link.target} <= kept or self.links == LINKS or self.used + size > SIZE:
            self.left_links += 1
            return
        self.links += 1
        self.used += size
        self.lines += written

    def done(self, first: str, last: str, idle: int) -> Diagram:
        head, foot = [first], []
        if not self.nodes:
            foot.append(self.form.left("no agent acted"))
        if idle:
            head.append(f"{self.form.note} runs in which no agent acted: {idle}")
        if self.left_nodes or self.left_links:
            head.append(f"{self.form.note} not drawn: {self.left_nodes} nodes, {self.left_links} links")
            foot.append(self.form.left(f"not drawn: {self.left_nodes} nodes, {self.left_links} links"))
        text = "\n".join([*head, *self.lines, *foot, *([last] if last else [])]) + "\n"
        return Diagram(text, self.left_nodes, self.left_links)


# -- Mermaid ----------------------------------------------------------------------------------------------------------

_ARROWS: Final = {"control": "-->", "data": "--o", "call": "==>", "return": "-.->"}
_LOST: Final = {"control": "--x", "data": "--x", "call": "==x", "return": "-.-x"}


def mermaid(groups: Iterable[Group]) -> Diagram:
    """A Mermaid flowchart of at most a page (``NODES``, ``LINKS``, ``SIZE``).

    Solid is control, thick call, dotted return, a line that ends in a circle data; a cross is a handoff that nobody
    took up; sparse dashes are a way that is not exact.
    """
    every = list(groups)
    form = _Form(
        lambda group: f'subgraph {_id(group.id)}["{_mermaid(group.title, _WORDS)}"]',
        _mermaid_node,
        _mermaid_link,
        "end",
        lambda text: f'more["{_mermaid(text)}"]',
        "%%",
    )
    page = _Page(form)
    page.fill(every)
    return page.done("flowchart TB", "", sum(not group.nodes for group in every))


def _mermaid_node(node: Node) -> str:
    text = "<br/>".join([_mermaid(node.title), *(_mermaid(one, _WORDS) for one in node.words)])
    return f'  {node.id}(["{text}"])' if node.lost else f'  {node.id}["{text}"]'


def _mermaid_link(link: Link, number: int) -> list[str]:
    arrow = (_LOST if link.lost else _ARROWS)[link.kind]
    line = f'{link.source} {arrow}|"{_mermaid(_told(link), _WORDS)}"| {link.target}'
    return [line] if link.exact else [line, f"linkStyle {number} stroke-dasharray:2 6"]


def _mermaid(text: str, most: int = _TITLE) -> str:
    # A blank label would be none. `#` and `;` are the marks of references themselves: both are written as such.
    return "".join(one if _plain(one) else f"#{ord(one)};" for one in visible(text, most)) or "#32;"


# -- Graphviz ---------------------------------------------------------------------------------------------------------

_STYLES: Final = {
    "control": "style=solid",
    "data": "style=dotted",
    "call": "style=bold",
    "return": "style=dashed",
}


def dot(groups: Iterable[Group]) -> Diagram:
    """A Graphviz digraph of at most a page (``NODES``, ``LINKS``, ``SIZE``).

    Solid is control, bold call, dashed return, dotted data; a bar is a handoff that nobody took up; an empty head is a
    way that is not exact.
    """
    every = list(groups)
    form = _Form(
        lambda group: f'subgraph "cluster_{_id(group.id)}" {{ label="{_dot(group.title, _WORDS)}";',
        _dot_node,
        _dot_link,
        "}",
        lambda text: f'"more" [label="{_dot(text)}", shape=plaintext];',
        "//",
    )
    page = _Page(form)
    page.fill(every)
    first = 'digraph counterfoil {\ngraph [charset="UTF-8"];\nnode [shape=box];'
    return page.done(first, "}", sum(not group.nodes for group in every))


def _dot_node(node: Node) -> str:
    text = "\\n".join([_dot(node.title), *(_dot(one, _WORDS) for one in node.words)])
    shape = ", style=dashed" if node.lost else ""
    return f'  "{node.id}" [label="{text}"{shape}];'


def _dot_link(link: Link, number: int) -> list[str]:
    head = "tee" if link.lost else "normal" if link.exact else "empty"
    look = f'label="{_dot(_told(link), _WORDS)}", {_STYLES[link.kind]}, arrowhead={head}'
    return [f'"{link.source}" -> "{link.target}" [{look}];']


def _dot(text: str, most: int = _TITLE) -> str:
    # References are replaced before escapes are: a backslash is two. Beyond the first 65,536 characters Graphviz
    # replaces wrongly, and nothing beyond ASCII means anything to it: such characters stay.
    return "".join(_dot_char(one) for one in visible(text, most)) or " "


def _dot_char(char: str) -> str:
    if _plain(char) or not char.isascii():
        return char
    return "&#92;&#92;" if char == "\\" else f"&#{ord(char)};"


# -- both -------------------------------------------------------------------------------------------------------------


def visible(text: str, most: int) -> str:
    """At most ``most`` characters of a text in one line: what is not printable is shown as an escape."""
    shown = "".join(
        one if one.isprintable() else one.encode("unicode_escape").decode("ascii") for one in text[: most + 1]
    )
    shown = " ".join(shown.split())
    return shown if len(shown) <= most else shown[: most - 1] + "\u2026"


def _plain(char: str) -> bool:
    return char == " " or (char.isascii() and char.isalnum())


def _id(name: str) -> str:
    """Our own names only: a letter, then letters, digits and underscores."""
    return "".join(one for one in name if one.isascii() and (one.isalnum() or one == "_"))


def _told(link: Link) -> str:
    words = [link.kind] if link.exact else [link.kind, "not exact"]
    return ", ".join([*words, *([link.words] if link.words else [])])
