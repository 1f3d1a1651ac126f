"""The page of a reproduction: a front table of claims, then a section a study."""

from __future__ import annotations

import html
from collections.abc import Mapping

from armtriage import plots
from armtriage._experiments.versions import code_version, versions
from armtriage.reproduce.study import SEED, Finding, Report, Size
from armtriage.report._html import document, drawing, paragraphs, table

__all__ = ["HEAD", "front_rows", "make_page"]

HEAD = ("claim", "source", "predicted", "measured", "verdict")
"""The columns of the front table."""

_LEAD = (
    "What each theorem of the paper says at sizes that can be played. Every number and every verdict on this page is worked "
    "out from runs; intervals have a level of 95%. A bound that is above what any policy can lose is called vacuous."
)


def front_rows(findings: Mapping[str, list[Finding] | tuple[Finding, ...]]) -> list[tuple[str, ...]]:
    """Return the rows of the front table, in the order of the studies."""
    return [tuple(finding[: len(HEAD)]) for those in findings.values() for finding in those]


def make_page(reports: Mapping[str, Report], size: Size) -> str:
    """Return the page as HTML that needs no network."""
    everything = [finding for report in reports.values() for finding in report.findings]
    counts = {
        "agree": sum(one.agrees is True for one in everything),
        "do not": sum(one.agrees is False for one in everything),
        "say nothing at this size": sum(one.agrees is None for one in everything),
    }
    said = ", ".join(f"{count} {what}" for what, count in counts.items() if count)
    body = [
        "<h1>The paper, measured</h1>",
        f'<p class="lead">{html.escape(_LEAD)}</p>',
        f'<p class="state{" warn" if counts["do not"] else ""}">{len(everything)} claims: {said}.</p>',
        "<nav>" + "".join(f'<a href="#s{n}">{html.escape(title)}</a>' for n, title in enumerate(reports)) + "</nav>",
        "<h2>Claims</h2>",
        table(HEAD, [[str(cell) for cell in one[: len(HEAD)]] for one in everything], words=True),
    ]
    drawn = 0
    for number, (title, report) in enumerate(reports.items()):
        body.append(f'<section><h2 id="s{number}">{html.escape(title)}</h2>')
        rows = [[one.claim, one.predicted, one.measured, one.verdict] for one in report.findings]
        body += [paragraphs(*report.paragraphs), table(("claim", "predicted", "measured", "verdict"), rows, words=True)]
        for chart in report.charts:
            drawn += 1
            body.append(drawing(plots.svg_text(chart.axes), chart.caption, f"f{drawn}"))
        body.append("</section>")
    used = ", ".join(f"{name} {version}" for name, version in versions().items())
    flag = {"quick": "", "full": " --full", "tiny": ""}[size]
    body.append(
        f"<footer>{html.escape(f'armtriage reproduce{flag}; size {size}, seed {SEED}; code {code_version()}; {used}')}</footer>"
    )
    return document("The paper, measured", "\n".join(body))
