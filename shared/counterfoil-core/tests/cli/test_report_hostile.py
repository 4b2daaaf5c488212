"""The page of evidence that somebody wrote to attack its reader: text stays text, and a page stays a page."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

import counterfoil
from counterfoil import values
from counterfoil.digest import MEDIA_FOLD, MEDIA_JSON, MEDIA_TEXT, Reducer, Reference, sha256_hex
from counterfoil.errors import LogError
from counterfoil.report import excerpts
from counterfoil.report.excerpts import CHARACTERS, PAGE, Excerpts, bounded
from counterfoil.report.markup import Html, link, table, text

HOSTILE = [
    "</script><script>alert(1)</script>",
    "</style><style>body{display:none}</style>",
    "</title></head><body onload=alert(1)>",
    "<img src=x onerror=alert(1)>",
    '" onmouseover="alert(1)',
    "' onfocus='alert(1)' autofocus='",
    '"><svg onload=alert(1)>',
    "<!-- ",
    "-->",
    "<![CDATA[",
    "&lt;script&gt;",
    "&#60;b&#62;",
    "javascript:alert(1)",
    '<a href="https://a.example">press here</a>',
    "</code></td></tr></table>",
    "</pre><h1>Intact</h1>",
    "<plaintext>",
    "\u202egnp.exe\u202c",
    "\u2066left\u2069",
    "\x00\x07\x1b[2J\x7f\x85",
    "a\nb\r\nc\u2028d",
    "\ufeff\u200b\u200d\u00ad",
    "\U000e0041\U000e0042",
    "\U0001f980 مرحبا 中文",
    "long " + "<" * 5_000,
]
CONTROLS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\U000e0000-\U000e0fff]"
)


class Skeleton(HTMLParser):
    """Tags and names of attributes in order, without what stands in them; and all text."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.shape: list[str] = []
        self.text = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.shape.append(" ".join([tag, *(key for key, _ in attrs)]))

    def handle_endtag(self, tag: str) -> None:
        self.shape.append(f"/{tag}")

    def handle_comment(self, data: str) -> None:
        self.shape.append("comment")

    def handle_data(self, data: str) -> None:
        self.text += data


def record(evidence: Path, names: list[str]) -> None:
    """A run in which each name stands wherever a name, a value or an error can."""
    recorder = counterfoil.Recorder(evidence)
    value = recorder.value
    root = recorder.start("invoke_workflow", names[0], actor=("app",), request=value({"q": names}))
    before: Any = None
    for key, one in enumerate(names):
        handed = []
        if before is not None:
            digest = recorder.handoff(
                senders=[before.actor],
                to=(one,),
                signer=before.actor,
                kind="command",
                basis="sealed",
                payload=value({one: one}),
                parents=[("control", before)],
                run=root.run,
            )
            handed = [digest] if digest is not None else []
        agent = recorder.start(
            "invoke_agent",
            one,
            actor=(one,),
            parent=root,
            key=str(key),
            request=value({one: [one]}),
            handoffs=handed,
        )
        chat = recorder.start("chat", one, actor=(one,), parent=agent, request=value([one, {one: one}]))
        recorder.end(chat, status="error", error=value({"message": one}))
        recorder.end(agent, response=value(one))
        before = agent
    recorder.end(root, response=value(names))
    recorder.close()


@pytest.fixture
def pages(cli: Any, home: Any, tmp_path: Path) -> tuple[str, str]:
    """The page of hostile names, and that of as many plain ones."""
    found = []
    for place, names in (("hostile", HOSTILE), ("plain", [f"agent{n}" for n in range(len(HOSTILE))])):
        with home(cli.home):
            record(tmp_path / place, names)
        done = cli("report", tmp_path / place, "-o", f"{place}.html")
        assert done.returncode == 0, done.stderr
        found.append((tmp_path / f"{place}.html").read_text(encoding="utf-8"))
    return found[0], found[1]


def test_names_and_values_change_no_tag_and_no_attribute(pages: tuple[str, str]) -> None:
    hostile, plain = map(Skeleton, pages)
    assert hostile.shape == plain.shape
    assert "comment" not in hostile.shape


def test_everything_is_told_and_nothing_steers_the_reader(pages: tuple[str, str]) -> None:
    page = pages[0]
    assert CONTROLS.search(page) is None
    shown = Skeleton(page).text
    for one in HOSTILE:
        printable = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in one)
        assert printable[:190] in shown, one
    assert "<script" not in page.lower()
    assert "\\u202egnp.exe\\u202c" in shown


def test_long_names_leave_a_page_of_bounded_size(pages: tuple[str, str]) -> None:
    assert len(pages[0]) < 4 * len(pages[1])
    assert "more characters]" in pages[0]


def test_without_content_values_are_not_there(cli: Any, home: Any, tmp_path: Path) -> None:
    with home(cli.home):
        record(tmp_path / "evidence", ["a", "b"])
    cli("report", tmp_path / "evidence", "-o", "x.html", "--no-content")
    assert "<pre" not in (tmp_path / "x.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("one", HOSTILE)
def test_a_text_is_one_piece_of_text(one: str) -> None:
    made = Skeleton(f'<p title="{text(one)}">{text(one)}</p>')
    assert made.shape == ["p title", "/p"]
    assert Skeleton(table(one, [one], [[one, one]])).shape == Skeleton(table("a", ["a"], [["a", "a"]])).shape
    assert Skeleton(link("step", 1, one)).shape == ["a href", "/a"]
    assert type(text(one)) is Html


# -- excerpts ---------------------------------------------------------------------------------------------------------


class Blobs:
    """A reader that has nothing but stored bytes, and counts what is asked of it."""

    def __init__(self) -> None:
        self.held: dict[str, bytes] = {}
        self.read = 0

    def blob(self, sha256: str) -> bytes:
        self.read += 1
        if sha256 not in self.held:
            raise LogError("this evidence holds no such bytes", code="CF-LOG-040", where=sha256[:12])
        return self.held[sha256]

    def put(self, data: bytes, media: str = MEDIA_JSON, size: int | None = None) -> Reference:
        self.held[sha256_hex(data)] = data
        return Reference(sha256_hex(data), len(data) if size is None else size, media)

    def value(self, value: Any) -> Reference:
        return Reducer(self.held.__setitem__).reference(values.encode(value))


def excerpt(reader: Blobs, reference: Reference) -> str:
    found = Excerpts(reader).of(reference)  # type: ignore[arg-type]
    assert found is not None
    assert len(found) <= CHARACTERS + len("\n[shortened]")
    return found


def test_a_value_is_shown_member_by_member() -> None:
    reader = Blobs()
    shown = excerpt(reader, reader.value({"a": 1, "b": ["x\ny", {"c": True}], "d": {}}))
    assert shown.splitlines() == ["a: 1", "b:", "  - x", "    y", "  -", "    c: true", "d: {}"]


def test_of_long_texts_and_lists_the_page_says_what_is_missing() -> None:
    reader = Blobs()
    assert "[600 more characters]" in excerpt(reader, reader.value("x" * 1000))
    messages = [{"$msg": {"role": "user", "text": f"message {n} " + "y" * 300}} for n in range(50)]
    folded = Reducer(reader.held.__setitem__).reference(messages)
    assert folded.media == MEDIA_FOLD
    reader.read = 0
    shown = bounded(reader, folded, last=6)  # type: ignore[arg-type]
    assert [one["$msg"]["text"][:10] for one in shown[1:]] == [f"message {n}" for n in range(44, 50)]
    assert shown[0] == "[44 before]"
    assert reader.read < 20


def test_what_cannot_be_read_is_said() -> None:
    reader = Blobs()
    assert "holds no such bytes" in excerpt(reader, Reference("0" * 64, 10, MEDIA_JSON))
    assert "not what they are cited as" in excerpt(reader, reader.put(b"\xff\xfe", MEDIA_TEXT))
    assert "cannot be shown" in excerpt(reader, reader.put(b'{"a":1,"a":2}'))
    assert "not what they are cited as" in excerpt(reader, reader.put(b"[]", MEDIA_FOLD))
    assert "application/zip" in excerpt(reader, reader.put(b"x", "application/zip"))
    huge = reader.put(b'"x"', size=1 << 40)
    reader.read = 0
    assert f"[{1 << 40} bytes" in excerpt(reader, huge)
    assert reader.read == 0


def test_few_bytes_that_stand_for_very_many_cost_little() -> None:
    reader = Blobs()
    reference = reader.put(json.dumps("z" * 300).encode())
    for _ in range(40):
        again = json.dumps({"$ref": reference.to_dict()}, sort_keys=True, separators=(",", ":"))
        reference = reader.put(f"[{','.join([again] * 20)}]".encode())
    reader.read = 0
    excerpt(reader, reference)
    assert reader.read <= 500


def test_deep_nesting_ends() -> None:
    reader = Blobs()
    assert "nested too deeply" in json.dumps(bounded(reader, reader.put(b"[" * 200 + b"]" * 200)))  # type: ignore[arg-type]


def test_excerpts_end_when_the_page_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(excerpts, "PAGE", 3 * CHARACTERS)
    reader = Blobs()
    made = Excerpts(reader)  # type: ignore[arg-type]
    one = reader.value(["w" * 390] * 9)
    found = [made.of(one) for _ in range(10)]
    assert found[0] is not None
    assert found[-1] is None
    assert made.refused == found.count(None) > 5
    assert PAGE > excerpts.PAGE
