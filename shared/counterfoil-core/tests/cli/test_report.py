"""``counterfoil report``: what the page says, of which evidence, and into which file it goes."""

from __future__ import annotations

import itertools
import re
import stat
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

import counterfoil
from counterfoil import keys
from counterfoil.report.gathering import gather
from counterfoil.report.page import Judged, page
from counterfoil.report.style import CSS
from counterfoil.report.tables import UNSIGNED

VOID = {"meta"}


class Page(HTMLParser):
    """A page taken apart; what is not well formed fails at once."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, key, value or "") for key, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.words.append(data)

    def values(self, key: str) -> list[str]:
        return [value for _, name, value in self.attributes if name == key]

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


def written(cli: Any, *words: object, code: int = 0) -> Page:
    """The page of one report, which must be a whole document that lets nothing in."""
    done = cli("report", *words, "-o", cli.folder / "case.html", "--force")
    assert done.returncode == code, done.stderr
    text = (cli.folder / "case.html").read_text(encoding="utf-8")
    assert text.startswith('<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n')
    page = Page(text)
    policies = [value for tag, key, value in page.attributes if (tag, key) == ("meta", "content")]
    assert policies[0].startswith("default-src 'none'; style-src 'unsafe-inline'")
    assert set(page.tags).isdisjoint({"script", "img", "link", "iframe", "object", "form", "base", "svg"})
    assert {key for _, key, _ in page.attributes}.isdisjoint(
        {"src", "style", "onclick", "onload", "srcset", "action"}
    )
    ids = page.values("id")
    assert len(ids) == len(set(ids))
    assert {one[0] for one in page.values("href")} <= {"#"}
    assert {one[1:] for one in page.values("href")} <= set(ids)
    assert "url(" not in CSS
    assert "@import" not in CSS
    return page


def test_the_page_of_intact_evidence(cli: Any, desk: Any) -> None:
    page = written(cli, desk.evidence)
    text = page.text
    with_key = keys_of(desk)
    assert text.index("Intact") < text.index(with_key) < text.index("Runs, the oldest first")
    assert f"{with_key} pinned (this machine's own)" in text
    assert "Run 1: desk" in text
    assert "Run 2: desk" in text
    for digest in desk.handoffs.values():
        assert digest in text
    assert "planner clear command sealed recorded accepted yes" in text
    assert "Distributions installed for run 1, 2" in text
    assert "counterfoil-core" in text
    assert "what happened?" in text
    assert "and then?" in text
    assert page.values("lang") == ["en"]


def keys_of(desk: Any) -> str:
    """The fingerprint of the desk's identity."""
    keys.set_home(desk.home)
    try:
        found = keys.load_identity()
    finally:
        keys.set_home(None)
    assert found is not None
    return str(found.keyid)


def test_headings_captions_and_heads_of_columns(cli: Any, desk: Any) -> None:
    page = written(cli, desk.evidence)
    levels = [int(tag[1]) for tag in page.tags if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in itertools.pairwise(levels))
    assert page.tags.count("caption") == page.tags.count("table") > 5
    assert page.values("scope").count("row") > 20
    assert page.tags.count("h4") == 18


def test_every_request_and_response_has_its_digest(cli: Any, desk: Any) -> None:
    text = written(cli, desk.evidence, "--run", "last").text
    for entry in cli("log", desk.evidence, "--run", "last", "--json").stdout.splitlines():
        for digest in re.findall(r'"re(?:quest|sponse)":"([0-9a-f]{64})"', entry):
            assert digest in text


def test_a_handoff_leads_to_its_steps_and_back(cli: Any, desk: Any) -> None:
    page = written(cli, desk.evidence, "--run", "2")
    links = page.values("href")
    for kind in ("step", "call", "handoff"):
        assert any(one.startswith(f"#{kind}-") for one in links)
    assert "hands over to reviewer" in page.text


def test_one_run_alone(cli: Any, desk: Any) -> None:
    text = written(cli, desk.evidence, "--run", "1").text
    assert "Run 1: desk" in text
    assert "Run 2: desk" not in text
    assert "what happened?" in text
    assert "and then?" not in text
    assert cli("report", desk.evidence, "--run", "9", "-o", "no.html").returncode == 2


def test_without_content(cli: Any, desk: Any) -> None:
    page = written(cli, desk.evidence, "--no-content")
    assert "pre" not in page.tags
    assert "what happened?" not in page.text
    assert "checkout waited" not in page.text
    assert "left out on request" in page.text


def test_a_bundle(cli: Any, desk: Any) -> None:
    assert cli("bundle", desk.evidence, "-o", "run.bundle").returncode == 0
    text = written(cli, "run.bundle").text
    assert "Intact" in text
    assert "Run 1: desk" in text
    assert "and then?" in text


def test_a_stranger_is_told_that_nothing_is_verified(newcomer: Any, desk: Any) -> None:
    page = written(newcomer, desk.evidence, code=5)
    first = page.text[:1500]
    assert "Cannot tell: not verified" in first
    assert "not pinned: anybody may have made it" in first
    assert "cannot-tell" in "".join(page.values("class"))


def test_broken_evidence_says_so_first(cli: Any, desk: Any, tmp_path: Path) -> None:
    evidence = desk.copy(tmp_path / "evidence")
    segment = evidence / desk.segment
    data = bytearray(segment.read_bytes())
    data[len(data) // 2] ^= 1
    segment.write_bytes(data)
    page = written(cli, evidence, code=3)
    assert "Broken Something was changed, cut or forged." in page.text[:800]
    assert "CF-" in page.text[:3000]
    assert "A log cannot be read on" in page.text


@pytest.mark.parametrize(
    "place", ["evidence/case.html", "evidence/new/../case.html", "other/case.html", "home/x.html"]
)
@pytest.mark.parametrize("force", [(), ("--force",)])
def test_never_into_evidence_or_the_home(
    cli: Any, desk: Any, tmp_path: Path, place: str, force: tuple[str, ...]
) -> None:
    desk.copy(tmp_path / "evidence")
    desk.copy(tmp_path / "other")
    (tmp_path / "home").mkdir()
    done = cli("report", "evidence", "-o", place, *force, COUNTERFOIL_HOME=str(tmp_path / "home"))
    assert done.returncode == 2
    assert done.stderr.startswith("error CF-CLI-112 ")
    assert not (tmp_path / place).exists()


def test_never_over_a_segment_whatever_it_is_called(cli: Any, desk: Any, tmp_path: Path) -> None:
    evidence = desk.copy(tmp_path / "evidence")
    segment = evidence / desk.segment
    before = segment.read_bytes()
    (tmp_path / "link").symlink_to(evidence)
    (tmp_path / "file").symlink_to(segment)
    for place in (segment, tmp_path / "link" / desk.segment, tmp_path / "file"):
        done = cli("report", evidence, "-o", place, "--force")
        assert (done.returncode, done.stderr[:17]) == (2, "error CF-CLI-112 ")
    assert segment.read_bytes() == before
    assert cli("verify", evidence).returncode == 0


def test_never_over_the_bundle_it_reads(cli: Any, desk: Any, tmp_path: Path) -> None:
    cli("bundle", desk.evidence, "-o", "run.bundle")
    before = (tmp_path / "run.bundle").read_bytes()
    done = cli("report", "run.bundle", "-o", "run.bundle", "--force")
    assert (done.returncode, done.stderr[:17]) == (2, "error CF-CLI-112 ")
    assert (tmp_path / "run.bundle").read_bytes() == before


def test_another_file_stays_without_force(cli: Any, desk: Any, tmp_path: Path) -> None:
    path = tmp_path / "case.html"
    path.write_text("mine", encoding="utf-8")
    done = cli("report", desk.evidence, "-o", path)
    assert (done.returncode, done.stderr[:17]) == (2, "error CF-CLI-112 ")
    assert "--force" in done.stderr
    assert path.read_text(encoding="utf-8") == "mine"
    assert cli("report", desk.evidence, "-o", path, "--force").returncode == 0
    assert path.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [one.name for one in tmp_path.iterdir()] == ["case.html"]


def test_what_is_no_file_stays(cli: Any, desk: Any, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    assert cli("report", desk.evidence, "-o", "folder", "--force").stderr.startswith("error CF-CLI-112 ")
    assert cli("report", desk.evidence, "-o", "nowhere/case.html").stderr.startswith("error CF-CLI-006 ")


def test_a_report_needs_a_file_and_evidence(cli: Any, desk: Any) -> None:
    assert cli("report", desk.evidence).stderr.startswith("error CF-CLI-111")
    assert cli("report", "nothing", "-o", "case.html").returncode == 2


def test_the_same_evidence_gives_the_same_page_but_for_the_time(cli: Any, desk: Any) -> None:
    pages = []
    for _ in range(2):
        written(cli, desk.evidence)
        text = (cli.folder / "case.html").read_text(encoding="utf-8")
        pages.append(re.sub(r"Verified [-0-9 :]+ UTC", "", text))
    assert pages[0] == pages[1]


def test_what_no_checkpoint_covers_is_told(cli: Any, home: Any, tmp_path: Path) -> None:
    with home(cli.home):
        recorder = counterfoil.Recorder(tmp_path / "evidence")
        root = recorder.start("invoke_workflow", "w", actor=("w",), request=recorder.value(1))
        recorder.end(root, response=recorder.value("first"))
        recorder.close()
    reader = counterfoil.read(tmp_path / "evidence")
    (log,) = reader.logs()
    before = gather(reader)
    start = before.parts[0].steps[0].index
    assert before.covered[log] > start
    judged = Judged(counterfoil.verify(tmp_path / "evidence"), keys.Keyring(), 0)

    def told(known: int) -> str:
        case = gather(reader, known={log: known})
        return page(reader, case, judged, place="here", run=None, content=False)

    assert UNSIGNED not in told(before.covered[log])
    assert told(start + 1).count(UNSIGNED) == 1  # its end
    assert told(start).count(UNSIGNED) == 2
