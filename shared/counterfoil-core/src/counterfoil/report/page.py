"""The page: first whether the evidence can be believed and by whose word, then what it tells.

One file without script, picture, font or anything else from elsewhere; a policy in it forbids all of that to the
browser as well, so that even a mistake in escaping could load and run nothing.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

from counterfoil._version import __version__
from counterfoil.environment.form import misshapen
from counterfoil.findings import Finding, Verification
from counterfoil.keys import Keyring
from counterfoil.reader import Reader
from counterfoil.report.excerpts import Excerpts
from counterfoil.report.gathering import Case, Part, RunFacts, environment
from counterfoil.report.markup import Html, anchor, code, digest, link, listed, name, table, text
from counterfoil.report.style import CSS
from counterfoil.report.tables import Room, moment, of_part
from counterfoil.views import actor_name

__all__ = ["Judged", "page"]

POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
FINDINGS: Final = 100
LISTED: Final = 500
"""Runs and distributions that are listed."""
ACTORS: Final = 40
_MEANS: Final = {
    "intact": "Everything below is what was signed, by the keys named here, and nothing is missing.",
    "broken": "Something was changed, cut or forged. What stands below is what can still be read: it may be false.",
    "incomplete": "What is here is what was signed, but something is missing.",
    "cannot-tell": "Nothing known on the machine that wrote this page says whether this evidence is right. What "
    "stands below is what the evidence says of itself.",
}
_GRAVEST: Final = ["broken", "cannot-tell", "incomplete", "intact"]
_NAV: Final = (
    '<nav aria-label="On this page"><a href="#verdict">Verdict</a> | <a href="#left">Left out</a> | '
    '<a href="#runs">Runs</a> | <a href="#environment">Environment</a> | <a href="#check">How to check</a></nav>'
)
_TITLES: Final = {
    "intact": "Intact",
    "broken": "Broken",
    "incomplete": "Incomplete",
    "cannot-tell": "Cannot tell: not verified",
}


@dataclass(frozen=True, slots=True)
class Judged:
    """The verdict, by whose word it was reached, and when."""

    verification: Verification
    ring: Keyring
    at: int
    """Unix time in microseconds."""
    policy: str | None = None
    """The trust policy gone by, if any."""
    damage: tuple[str, ...] = ()
    """Where logs could not be read on, each with its reason."""


def page(reader: Reader, case: Case, judged: Judged, *, place: str, run: str | None, content: bool) -> str:
    """The whole page as text; ``place`` names the evidence, ``run`` is set where one run was asked for.

    ``content`` shows excerpts of requests and responses.
    """
    room = Room(Excerpts(reader) if content else None, case.covered)
    parts = [
        (part, f"{_heading(part, number)}{of_part(part, room)}") for number, part in enumerate(case.parts, 1)
    ]
    shown = {part.facts.id: number for number, part in enumerate(case.parts, 1) if part.facts is not None}
    title = f"Counterfoil: {place}" if run is None else f"Counterfoil: run {run} of {place}"
    left = _left(case, room, place, content=content)
    sections = [
        _verdict(judged, case, run),
        left,
        '<h2 id="runs">Runs</h2>' + _runs(case.runs, shown),
        *(markup for _, markup in parts),
        _environments(reader, case),
        _check(place),
    ]
    body = "\n".join(sections)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n'
        f"<title>{text(title)}</title>\n<style>{CSS}</style>\n</head>\n<body>\n"
        f"<header><h1>Evidence of {name(place)}</h1></header>\n{_NAV}\n<main>\n{body}\n</main>\n</body>\n</html>\n"
    )


# -- can it be believed -----------------------------------------------------------------------------------------------


def _verdict(judged: Judged, case: Case, run: str | None) -> str:
    found = judged.verification
    verdict = found.verdict
    of = "the logs that hold this run" if run is not None else "all of it"
    by = (
        f"the trust policy {judged.policy}"
        if judged.policy
        else "the keys pinned on the machine that wrote this page"
    )
    told = [
        f'<section class="verdict {verdict}" aria-labelledby="verdict"><h2 id="verdict"><strong>{_TITLES[verdict]}'
        f"</strong></h2><p>{text(_MEANS[verdict])}</p>",
        f"<p>Verified {text(moment(judged.at)[:19])} UTC by counterfoil {text(__version__)}: {text(of)}, by {text(by)}."
        " This page is a copy of what that said; it is not signed, and proves nothing by itself.</p></section>",
        _signers(judged, case),
    ]
    told += [f'<p class="note">A log cannot be read on: {text(one)}</p>' for one in judged.damage]
    told.append(_findings("Findings", found.findings))
    told.append(_findings("Notes, which do not change the verdict", found.notes))
    counts = [(key, f"{count:,}") for key, count in found.counts.items()]
    told.append(f"<h3>Counts</h3>{listed(counts)}")
    return "\n".join(told)


def _signers(judged: Judged, case: Case) -> str:
    pins = {pin.fingerprint: pin for pin in judged.ring.entries()}
    rows = []
    for log in case.logs[:LISTED]:
        pin = pins.get(log.signer)
        own = " (this machine's own)" if log.signer and log.signer == judged.ring.own else ""
        word = f"pinned{own}" if judged.ring.trusts(log.signer) else "not pinned: anybody may have made it"
        note = f", {pin.note}" if pin is not None and pin.note else ""
        rows.append([code(log.name), digest(log.signer), text(word + note), text(f"{log.entries:,}")])
    more = _more(len(case.logs) - LISTED, "logs", "counterfoil log lists them")
    heads = ["Log", "Signer", "Key", "Entries"]
    return f"<h3>Whose word this is</h3>{table('Logs and the keys that sign them', heads, rows)}{more}"


def _findings(caption: str, found: list[Finding]) -> str:
    if not found:
        return ""
    rows = [
        [text(one.verdict), code(one.code), code(one.where), text(one.message), text(one.hint)]
        for one in sorted(found, key=lambda one: _GRAVEST.index(one.verdict))[:FINDINGS]
    ]
    more = _more(len(found) - FINDINGS, "findings", "counterfoil verify lists them")
    return f"<h3>{text(caption)}</h3>{table(caption, ['Verdict', 'Code', 'Where', 'What', 'What to do'], rows)}{more}"


# -- what is here -----------------------------------------------------------------------------------------------------


def _left(case: Case, room: Room, place: str, *, content: bool) -> str:
    """What the page leaves out, and where it is."""
    steps = sum(1 for part in case.parts if part.facts is not None)
    runs = len(case.runs) - steps
    e = f" {place}" if place else ""
    told = []
    if runs > 0:
        told.append(f"{runs} earlier runs are listed, not shown: counterfoil report{e} --run NUMBER")
    for kind, command in (("steps", "log"), ("calls", "log"), ("handoffs", "handoffs --hops")):
        if room.left[kind]:
            told.append(f"{room.left[kind]:,} {kind} did not fit: counterfoil {command}{e}")
    if room.excerpts is not None and room.excerpts.refused:
        told.append(f"{room.excerpts.refused:,} excerpts did not fit: counterfoil show DIGEST")
    if content:
        told.append(
            "Of requests and responses the page shows excerpts; counterfoil show DIGEST prints them whole"
        )
    else:
        told.append("Requests and responses were left out on request; their digests are here")
    items = "".join(f"<li>{text(one)}</li>" for one in told)
    return f'<h2 id="left">What this page leaves out</h2><ul>{items}</ul>'


def _runs(runs: list[RunFacts], shown: dict[str, int]) -> str:
    if not runs:
        return "<p>No run is recorded here.</p>"
    rows = [
        [
            link("run", shown.get(one.id), str(one.number)),
            name(one.name),
            text(one.op),
            text(moment(one.at)),
            text(f"{one.entries:,}"),
            code(one.id),
        ]
        for one in runs[-LISTED:]
    ]
    more = _more(len(runs) - LISTED, "earlier runs", "counterfoil log lists them")
    return (
        table("Runs, the oldest first", ["Run", "Name", "What", "Began (UTC)", "Entries", "Identifier"], rows)
        + more
    )


def _heading(part: Part, number: int) -> str:
    facts = part.facts
    if facts is None:
        return f'<h2 id="{anchor("run", number)}">Outside every run</h2>'
    root = next((call for call in part.graph.calls if call.id == facts.id), None)
    actors = list(dict.fromkeys(call.actor for call in part.graph.calls))
    told = [
        ("identifier", code(facts.id)),
        ("began", text(f"{moment(facts.at)} UTC")),
        ("status", text(root.status) if root is not None else None),
        ("log", code(facts.log)),
        ("actors", _names(actors)),
    ]
    return f'<h2 id="{anchor("run", number)}">Run {facts.number}: {name(facts.name)}</h2>{listed(told)}'


def _names(actors: list[str]) -> Html:
    more = f" and {len(actors) - ACTORS:,} more" if len(actors) > ACTORS else ""
    return Html(", ".join(name(actor_name(one)) for one in actors[:ACTORS]) + more)


def _environments(reader: Reader, case: Case) -> str:
    """What the runs say they ran on; once for runs that say the same."""
    groups: dict[str, tuple[RunFacts, list[int]]] = {}
    for part in case.parts:
        if part.facts is not None:
            key = str(part.facts.own or part.facts.session)
            groups.setdefault(key, (part.facts, []))[1].append(part.facts.number)
    told = ['<h2 id="environment">Environment</h2><p>As the writer recorded it, signed with the rest.</p>']
    for facts, numbers in groups.values():
        runs = ", ".join(map(str, numbers))
        found = environment(reader, facts)
        told.append(f"<h3>{'Runs' if len(numbers) > 1 else 'Run'} {runs}</h3>")
        wrong = None if found is None else misshapen(found)
        if found is None or wrong is not None:
            told.append("<p>None was recorded that this page can show: counterfoil environment --json</p>")
        else:
            told.append(_environment(found, runs))
    return "\n".join(told)


def _environment(found: dict[str, Any], runs: str) -> str:
    rows = []
    for part in sorted(found):
        value = found[part]
        if part == "distributions":
            value = f"{len(value.get('items', {})):,} installed, listed below"
        elif part == "variables":
            value = f"{len(value.get('fingerprints', {})):,} names; counterfoil environment lists them"
        elif type(value) is dict:
            value = ", ".join(f"{key} {_plain(one)}" for key, one in sorted(value.items()))
        rows.append([text(part), text(value, most=600)])
    items = found.get("distributions", {}).get("items", {})
    listed_items = sorted(items.items())[:LISTED]
    installed = [[name(project), text(about["version"])] for project, about in listed_items]
    more = _more(len(items) - LISTED, "distributions", "counterfoil environment lists them")
    below = (
        table(f"Distributions installed for run {runs}", ["Name", "Version"], installed) + more
        if installed
        else ""
    )
    return table(f"Environment of run {runs}", ["Part", "What was found"], rows) + below


def _plain(value: Any) -> str:
    return value if type(value) is str else json.dumps(value)


def _check(place: str) -> str:
    return (
        '<h2 id="check">How to check this</h2><p>Ask for the evidence itself, or for a bundle of it, and run '
        f"<code>counterfoil verify {text(place)}</code>. Ask the signer for the fingerprint of the key by another way "
        "than this page came.</p>"
    )


def _more(count: int, what: str, how: str) -> str:
    return (
        f'<p class="small">{count:,} more {text(what)} are not listed: {text(how)}</p>' if count > 0 else ""
    )
