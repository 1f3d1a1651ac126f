"""The front table of a reproduction, and its page: claims, then a section for each study."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any

import polars

from armtriage._numbers import short
from armtriage.experiments.identity import code_version, versions
from armtriage.report.html import (
    NONE,
    Figure,
    document,
    drawing,
    folded,
    paragraphs,
    preformatted,
    section,
    state,
    table,
)
from armtriage.reproduce.judges import ROOM
from armtriage.reproduce.study import LEVEL, SEED, Finding, Report, Size

HEAD = ("claim", "predicted", "measured", "verdict")
"""The columns of the front table."""
_TITLE = "The paper, measured"
_LEAD = (
    "Wen, Han and Zhou (2025), Optimal arm elimination algorithms for combinatorial bandits, has theorems and no "
    "experiments. This is what each theorem says at sizes that can be played. Every number and every verdict on "
    "this page is worked out from the runs. A fitted power is the slope of the logarithm of the mean regret; it "
    f"agrees if its interval holds the predicted one, and is undecided if it misses it by no more than {ROOM}, for "
    "the logarithms that a rate leaves out. Rows that say what something costs claim nothing. A bound above what any "
    "policy can lose is called vacuous."
)
_KINDS = {True: "good", False: "bad", None: "silent"}
_LONGEST = 60  # rows of a table on the page

Reports = Mapping[str, Report]
"""Reports by the names of their studies."""


def command(size: Size, names: Sequence[str] = ()) -> str:
    """Return the command that makes a page of this size, of these studies alone if there are names.

    Examples
    --------
    >>> command("full", ["gap-rates"])
    'armtriage reproduce --full --only gap-rates'
    """
    if size == "tiny":
        return "python -c \"from armtriage.reproduce import reproduce; reproduce('FOLDER', size='tiny')\""
    return " ".join(["armtriage reproduce", f"--{size}", *(f"--only {name}" for name in names)])


def tally(findings: Sequence[Finding]) -> str:
    """Return how many claims agree with what was measured, and how many of these are of the paper, in words.

    Examples
    --------
    >>> tally([Finding("c", "Theorem 1", "p", "m", "v", True), Finding("c", "this library", "p", "m", "v", None)])
    '2 claims: 1 agrees with what was measured, 0 do not, 1 is undecided. Of the paper are 1: 1, 0 and 0.'
    >>> tally([Finding("c", "this library", "p", "m", "v", None, claims=False)])
    '0 claims: 0 agree with what was measured, 0 do not, 0 are undecided. 1 more row claims nothing.'
    """
    claims = [one for one in findings if one.claims]
    paper, rest = [one for one in claims if one.of_paper], len(findings) - len(claims)
    agree, differ, open_ = _counts(claims)
    said = [
        f"{len(claims)} claims: {agree} {'agrees' if agree == 1 else 'agree'} with what was measured, {differ} "
        f"{'does not' if differ == 1 else 'do not'}, {open_} {'is' if open_ == 1 else 'are'} undecided."
    ]
    if paper:
        parts = _counts(paper)
        said.append(f"Of the paper are {len(paper)}: {parts[0]}, {parts[1]} and {parts[2]}.")
    if rest:
        said.append(f"{rest} more {'row claims' if rest == 1 else 'rows claim'} nothing.")
    return " ".join(said)


def _counts(claims: Sequence[Finding]) -> list[int]:
    """Return how many agree, do not, and are undecided."""
    return [sum(one.agrees is kind for one in claims) for kind in _KINDS]


def _findings(reports: Reports) -> list[Finding]:
    return [finding for report in reports.values() for finding in report.findings]


def claims_table(reports: Reports) -> polars.DataFrame:
    """Return the findings as a table, with the name of their study."""
    made = [{"study": name, **one._asdict()} for name, report in reports.items() for one in report.findings]
    return polars.DataFrame(made, schema_overrides={"agrees": polars.Boolean})


def claims_text(reports: Reports, size: Size, only: Sequence[str] = ()) -> str:
    """Return the front table as Markdown, with the command that made it."""
    everything = _findings(reports)
    made = f"Made by `{command(size, only)}` with seed {SEED} and armtriage {code_version()}."
    lines = ["# Claims", "", made, "", tally(everything)]
    for _, title, findings in _parts(reports):
        lines += ["", f"## {title}", "", f"| {' | '.join(HEAD)} |", "|---|---|---|---|"]
        for one in findings:
            cells = f"{one.claim} ({one.source})", one.predicted, one.measured, one.verdict
            lines.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")
    return "\n".join(lines) + "\n"


def _parts(reports: Reports) -> list[tuple[str, str, list[Finding]]]:
    """Return each study's claims, and then its rows that claim nothing, with its name and a title."""
    made = []
    for name, report in reports.items():
        for title, claims in ((report.title, True), (f"{report.title}: what claims nothing", False)):
            if found := [one for one in report.findings if one.claims is claims]:
                made.append((name, title, found))
    return made


def make_page(reports: Reports, drawings: Mapping[str, str], size: Size, only: Sequence[str] = ()) -> str:
    """Return the page as HTML that needs no network; `drawings` are the charts as SVG, by their names."""
    everything, numbers = _findings(reports), count(1)
    failed = any(one.agrees is False for one in everything)
    body = [state(tally(everything), "warn" if failed else ""), _overview(reports), section("Claims", _front(reports))]
    for name, report in reports.items():
        parts = [paragraphs(*report.paragraphs)]
        for chart in report.charts:
            parts.append(drawing(Figure(drawings[chart.name], chart.caption), next(numbers)))
        parts += [folded(f"Table: {_spoken(title)}", _rows(made, name, title)) for title, made in report.tables.items()]
        body.append(section(report.title, "".join(parts), name))
    return document(_TITLE, _LEAD, [*body, _origin(size, only)], f"armtriage {code_version()}; seed {SEED}")


def _overview(reports: Reports) -> str:
    """Return how many claims of each study agree, with links to the studies."""
    head = "".join(f'<th scope="col">{name}</th>' for name in ("study", "agree", "do not", "undecided"))
    rows = []
    for name, report in reports.items():
        counts = _counts([one for one in report.findings if one.claims])
        cells = "".join(f"<td>{count or NONE}</td>" for count in counts)
        rows.append(f'<tr><th scope="row"><a href="#{name}">{html.escape(report.title)}</a></th>{cells}</tr>')
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{"".join(rows)}</tbody></table></div>'


def _front(reports: Reports) -> str:
    """Return the front table; on a narrow screen each row becomes a card."""
    head = "".join(f'<th scope="col">{name}</th>' for name in HEAD)
    rows = []
    for name, title, findings in _parts(reports):
        link = f'<a href="#{name}">{html.escape(title)}</a>'
        rows.append(f'<tr class="group"><th colspan="{len(HEAD)}" scope="colgroup">{link}</th></tr>')
        for one in findings:
            claim = f"{html.escape(one.claim)} <small>{html.escape(one.source)}</small>"
            cells = zip(HEAD[1:], (one.predicted, one.measured, one.verdict), strict=True)
            rest = "".join(f'<td data-name="{name}">{html.escape(text)}</td>' for name, text in cells)
            rows.append(f'<tr class="{_KINDS[one.agrees]}"><th scope="row">{claim}</th>{rest}</tr>')
    return f'<table class="words claims"><thead><tr>{head}</tr></thead><tbody>{"".join(rows)}</tbody></table>'


def _rows(made: polars.DataFrame, study: str, title: str) -> str:
    """Return a data frame as a table of the page; what is left out is in the file."""
    rows = [[_said(value) for value in row] for row in made.head(_LONGEST).iter_rows()]
    left = made.height - _LONGEST
    where = f"tables/{study}-{title}.parquet"
    said = f"{left} more rows are in {where}." if left > 0 else f"The same is in {where}."
    return table([_spoken(name) for name in made.columns], rows) + paragraphs(said)


def _said(value: Any) -> str:
    if value is None:
        return NONE
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return short(value)
    return f"{value:,}" if isinstance(value, int) else str(value)


def _spoken(name: str) -> str:
    return name.replace("_", " ").replace("-", " ")


def _origin(size: Size, only: Sequence[str]) -> str:
    """Return how to make the page again, and what made it."""
    text = (
        f"All runs have seed {SEED}, and all intervals a level of {100 * LEVEL:.4g}%. The same command with the same "
        "versions makes the same numbers; begun again in the same folder, it plays only what is missing."
    )
    used = ", ".join(f"{name} {version}" for name, version in versions().items())
    inside = paragraphs(text) + preformatted(command(size, only)) + paragraphs(f"Made with {used}.")
    return section("Versions and seed", inside)
