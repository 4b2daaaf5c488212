"""Diagrams as text: what two small pictures look like, that no name does anything, and that a page is a page."""

from __future__ import annotations

import html
import re

import pytest

from counterfoil.report.diagrams import LINKS, NODES, SIZE, Diagram, dot, mermaid, visible
from counterfoil.report.picture import Group, Link, Node

SMALL = [
    Group(
        "run_1",
        "run 1: desk",
        [
            Node("n1", "planner", ["2 chat", "open"]),
            Node("n2", "writer"),
            Node("n3", "reviewer", ["send dropped"], lost=True),
        ],
        [
            Link("n1", "n2", "control"),
            Link("n1", "n2", "data", exact=False),
            Link("n1", "n2", "call", words="via clear"),
            Link("n2", "n1", "return"),
            Link("n2", "n3", "control", lost=True),
        ],
    ),
    Group("run_2", "run 2"),
]
MERMAID = """\
flowchart TB
%% runs in which no agent acted: 1
subgraph run_1["run 1#58; desk"]
  n1["planner<br/>2 chat<br/>open"]
  n2["writer"]
  n3(["reviewer<br/>send dropped"])
end
n1 -->|"control"| n2
n1 --o|"data#44; not exact"| n2
linkStyle 1 stroke-dasharray:2 6
n1 ==>|"call#44; via clear"| n2
n2 -.->|"return"| n1
n2 --x|"control"| n3
"""
DOT = """\
digraph counterfoil {
graph [charset="UTF-8"];
node [shape=box];
// runs in which no agent acted: 1
subgraph "cluster_run_1" { label="run 1&#58; desk";
  "n1" [label="planner\\n2 chat\\nopen"];
  "n2" [label="writer"];
  "n3" [label="reviewer\\nsend dropped", style=dashed];
}
"n1" -> "n2" [label="control", style=solid, arrowhead=normal];
"n1" -> "n2" [label="data&#44; not exact", style=dotted, arrowhead=empty];
"n1" -> "n2" [label="call&#44; via clear", style=bold, arrowhead=normal];
"n2" -> "n1" [label="return", style=dashed, arrowhead=normal];
"n2" -> "n3" [label="control", style=solid, arrowhead=tee];
}
"""
HOSTILE = [
    'a"]',
    "a\\",
    '\\"];evil',
    "a\nclick n1 href",
    "a\r\nend",
    "--> n2",
    'click n1 "https://a.example"',
    "%%{init: {}}%%",
    "%% gone",
    "</script><script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "<b>bold</b>",
    "`**md**`",
    "1. list",
    "#quot;",
    "&quot;&#34;",
    "\\N\\G\\l",
    "style x:#fff;",
    "javascript:alert(1)",
    "fa:fa-car",
    "end",
    "\u202eevil\u202c",
    "\u2066x\u2069",
    "a\x00b\x1b[31mc\x85\u2028d",
    "\ud800",
    "\U0001f980 中文 é",
    "\ufb02°°60¶ß",
    "|a|",
    "{{a}}",
    "$$x$$",
    "subgraph x",
    "",
    "   ",
    "x" * 10_000,
]
QUOTED = re.compile(r'"[^"]*"')


def drawing(name: str) -> list[Group]:
    """A name in every place that takes one."""
    return [
        Group(
            "run_1",
            name,
            [Node("n1", name, [name, name]), Node("n2", name, [name], lost=True)],
            [Link("n1", "n2", "control", exact=False, words=name), Link("n1", "n2", "call", lost=True)],
        )
    ]


def bare(text: str) -> str:
    """A diagram without what stands in quotes."""
    return QUOTED.sub('""', text)


def test_a_small_picture_for_mermaid() -> None:
    assert mermaid(SMALL) == Diagram(MERMAID)


def test_a_small_picture_for_graphviz() -> None:
    assert dot(SMALL) == Diagram(DOT)


@pytest.mark.parametrize("form", [mermaid, dot])
@pytest.mark.parametrize("name", HOSTILE)
def test_no_name_changes_anything_outside_its_quotes(form: object, name: str) -> None:
    assert callable(form)
    text = form(drawing(name)).text
    # Identifiers of Graphviz stand in quotes as well; they are ours, and the same in both.
    assert bare(text) == bare(form(drawing("plain")).text)
    assert text.isascii() or form is dot
    inside = r"[A-Za-z0-9 ]|[^\x00-\x7f]|#\d+;|&#\d+;|<br/>|\\n|cluster_run_1|UTF-8"
    assert all(re.fullmatch(f"(?:{inside})*", one[1:-1]) for one in QUOTED.findall(text)), text


@pytest.mark.parametrize("name", [one for one in HOSTILE if one.strip() and len(one) < 40])
def test_a_reader_sees_the_name_as_it_is_or_as_escapes(name: str) -> None:
    shown = visible(name, 48)
    assert shown.isprintable()
    first = QUOTED.findall(mermaid(drawing(name)).text)[0][1:-1]
    assert re.sub(r"#(\d+);", lambda found: chr(int(found[1])), first) == shown
    doubled = shown.replace("\\", "\\\\")  # Graphviz replaces references before it reads escapes
    assert f'label="{doubled}"' in html.unescape(dot(drawing(name)).text)


@pytest.mark.parametrize("form", [mermaid, dot])
def test_a_long_name_is_cut_and_says_so(form: object) -> None:
    assert callable(form)
    text = form(drawing("x" * 10_000)).text
    assert len(text) < 1500
    assert (f"{ord('…')};" if form is mermaid else "…") in text


@pytest.mark.parametrize("form", [mermaid, dot])
@pytest.mark.parametrize(("count", "name"), [(NODES + 1, "a"), (3 * NODES, "\U0001f980" * 100)])
def test_a_page_is_bounded_and_tells_what_is_left_out(form: object, count: int, name: str) -> None:
    assert callable(form)
    nodes = [Node(f"n{number}", name, [name]) for number in range(count)]
    links = [Link(f"n{a}", f"n{(a + step) % count}", "control") for a in range(count) for step in (1, 2, 3)]
    drawn = form([Group("run_1", name, nodes, links)])
    there = set(re.findall(r'^  "?(n\d+)', drawn.text, re.MULTILINE))
    assert drawn.nodes == count - len(there) > 0
    lines = re.findall(r"^\"?n\d+\"? (?:-->|->)", drawn.text, re.MULTILINE)
    assert drawn.links == len(links) - len(lines) > 0
    assert len(there) <= NODES
    assert len(lines) <= LINKS
    assert len(drawn.text) < SIZE + 2000
    told = f"not drawn: {drawn.nodes} nodes, {drawn.links} links"
    assert told in drawn.text.splitlines()[1 if form is mermaid else 3]
    assert told.replace(":", "").replace(",", "") in re.sub(r"&?#\d+;", "", drawn.text.replace(told, ""))


@pytest.mark.parametrize("form", [mermaid, dot])
def test_nothing_drawn_is_said(form: object) -> None:
    assert callable(form)
    assert "no agent acted" in form([]).text


def test_every_link_stands_between_nodes_that_are_there() -> None:
    one = [Group("run_1", "a", [Node("n1", "a")], [Link("n1", "n9", "control")])]
    assert mermaid(one).links == dot(one).links == 1
    assert "n9" not in mermaid(one).text + dot(one).text
