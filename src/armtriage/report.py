"""Results of a comparison: a table for people, facts for programs, and a page that needs no network."""

from __future__ import annotations

import html
import math
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from rich.markup import escape
from rich.table import Table

from armtriage.environments import Environment
from armtriage.policy import Policy
from armtriage.simulator import simulate
from armtriage.trace import Trace

__all__ = ["Figure", "Result", "Section", "compare", "facts", "inline_svg", "page", "table"]

INK = "#222222"
COLUMNS = ("policy", "mean regret", "95% interval", "rounds/s", "committed")


@dataclass(frozen=True, eq=False)
class Result:
    """How one policy of a comparison did."""

    label: str
    policy: Policy
    trace: Trace
    seconds: float

    @property
    def mean(self) -> float:
        """Mean regret at the end."""
        return float(self.trace.mean[-1])

    @property
    def interval(self) -> tuple[float, float] | None:
        """The 95% interval of that mean; None from one replication."""
        low, high = (float(end[-1]) for end in self.trace.interval())
        return (low, high) if math.isfinite(low) else None

    @property
    def committed(self) -> float:
        """Share of the replications in which the decision became final."""
        return float(np.mean(self.trace.committed_at >= 0))

    @property
    def rounds_per_second(self) -> float:
        """Rounds a second over all replications; those after a commitment cost nothing, and count."""
        return float(self.trace.rounds[-1] * self.trace.regret.shape[0] / max(self.seconds, 1e-9))

    @property
    def cells(self) -> tuple[str, ...]:
        """The result as a row of a table."""
        if self.interval is None:
            spread = "one run: none"
        elif self.interval[0] == self.interval[1]:
            spread = f"all {self.trace.regret.shape[0]} runs alike"
        else:
            spread = f"{number(self.interval[0])} to {number(self.interval[1])}"
        return self.label, number(self.mean), spread, number(self.rounds_per_second), f"{self.committed:.0%}"


def number(value: float) -> str:
    """Return a number with three digits or more, and commas.

    Examples
    --------
    >>> number(1234.56), number(6.54321), number(0.0)
    ('1,235', '6.54', '0')
    """
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def compare(
    policies: Mapping[str, Policy],
    environment: Environment,
    *,
    horizon: int,
    replications: int = 1,
    seed: int | None = None,
    checkpoints: int | Sequence[int] = 50,
    workers: int | None = None,
    progress: Callable[[str, float], None] | None = None,
) -> list[Result]:
    """Play every policy against the environment, with the same luck, and take the time without compilation.

    Parameters
    ----------
    policies : mapping of str to Policy
        The policies, by the label they are shown under.
    environment, horizon, replications, seed, checkpoints, workers
        See `armtriage.simulate`.
    progress : callable, optional
        Called with a label and the share of it that is done.

    Examples
    --------
    >>> from armtriage import FeedbackGraph, Greedy, StochasticEnvironment
    >>> graph = FeedbackGraph.full_information(2)
    >>> env = StochasticEnvironment([0.9, 0.1], graph, "deterministic", seed=7)
    >>> [result] = compare({"Greedy": Greedy(graph, 1)}, env, horizon=10, seed=7)
    >>> result.mean
    0.0
    """
    results = []
    for label, policy in policies.items():
        simulate(policy, environment, horizon=1, seed=seed)
        began = time.perf_counter()
        trace = simulate(
            policy,
            environment,
            horizon=horizon,
            replications=replications,
            seed=seed,
            checkpoints=checkpoints,
            workers=workers,
            progress=partial(progress, label) if progress else False,
        )
        results.append(Result(label, policy, trace, time.perf_counter() - began))
    return results


def table(results: Sequence[Result], title: str | None = None) -> Table:
    """Return the results as a table for a terminal.

    Examples
    --------
    >>> table([]).row_count
    0
    """
    shown = Table(title=title, title_justify="left", title_style="bold")
    for column in COLUMNS:
        first = column == COLUMNS[0]
        shown.add_column(column, justify="left" if first else "right", no_wrap=not first, overflow="fold")
    for result in results:
        shown.add_row(*map(escape, result.cells))
    return shown


def facts(result: Result) -> dict[str, Any]:
    """Return the result as JSON values."""
    low, high = result.interval or (None, None)
    options = {name: value for name, value in result.policy.config.items() if name != "seed"}
    return {
        "label": result.label,
        "policy": type(result.policy).__name__,
        "options": options,
        "mean": result.mean,
        "interval": {"level": 0.95, "low": low, "high": high},
        "checkpoints": {"rounds": result.trace.rounds.tolist(), "mean": result.trace.mean.tolist()},
        "committed": result.committed,
        "seconds": result.seconds,
        "rounds_per_second": result.rounds_per_second,
    }


class Figure(NamedTuple):
    """A drawing of the page, as the text of an SVG file."""

    svg: str
    caption: str


class Section(NamedTuple):
    """A part of the page: text, results and drawings, in this order."""

    title: str
    paragraphs: Sequence[str]
    results: Sequence[Result] = ()
    figures: Sequence[Figure] = ()


def inline_svg(svg: str, name: str) -> str:
    """Return an SVG file as an element for a page: names of its own, and ink that follows the page's colour.

    Examples
    --------
    >>> inline_svg('<?xml version="1.0"?><svg><g id="a" style="fill: #222222"/><use href="#a"/></svg>', "f1")
    '<svg><g id="f1-a" style="fill: currentColor"/><use href="#f1-a"/></svg>'
    """
    body = svg[svg.index("<svg") :].strip()
    body = re.sub(r"<metadata>.*?</metadata>", "", body, flags=re.DOTALL)
    body = re.sub(r'\bid="', f'id="{name}-', body)
    body = re.sub(r'href="#', f'href="#{name}-', body)
    return body.replace("url(#", f"url(#{name}-").replace(INK, "currentColor")


def page(title: str, lead: str, sections: Sequence[Section], footer: str) -> str:
    """Return a self-contained HTML page; every text is escaped.

    Examples
    --------
    >>> "<h1>S &lt; K</h1>" in page("S < K", "", [], "")
    True
    """
    parts = [f"<h1>{html.escape(title)}</h1>", f'<p class="lead">{html.escape(lead)}</p>']
    drawn = 0
    for section in sections:
        parts.append(f"<section><h2>{html.escape(section.title)}</h2>")
        parts += [f"<p>{html.escape(paragraph)}</p>" for paragraph in section.paragraphs]
        if section.results:
            parts.append(_html_table(section.results))
        for figure in section.figures:
            drawn += 1
            caption = html.escape(figure.caption)
            drawing = inline_svg(figure.svg, f"f{drawn}").replace("<svg", '<svg role="img"', 1)
            parts.append(f"<figure>{drawing}<figcaption>{caption}</figcaption></figure>")
        parts.append("</section>")
    parts.append(f"<footer>{html.escape(footer)}</footer>")
    return _PAGE.replace("{title}", html.escape(title)).replace("{body}", "\n".join(parts))


def _html_table(results: Sequence[Result]) -> str:
    head = "".join(f'<th scope="col">{html.escape(column)}</th>' for column in COLUMNS)
    best = min(result.mean for result in results)
    rows = []
    for result in results:
        first, *rest = (html.escape(cell) for cell in result.cells)
        kind = ' class="best"' if result.mean == best else ""
        cells = "".join(f"<td>{cell}</td>" for cell in rest)
        rows.append(f'<tr{kind}><th scope="row">{first}</th>{cells}</tr>')
    return f'<div class="scroll"><table><tr>{head}</tr>{"".join(rows)}</table></div>'


_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<style>
:root { --paper: #ffffff; --ink: #222222; --soft: #5d6470; --line: #d8dce2; --mark: #e9f4ef; }
@media (prefers-color-scheme: dark) {
  :root { --paper: #16181c; --ink: #e6e8ea; --soft: #a3aab5; --line: #3a3f47; --mark: #1d322a; }
}
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.2rem 1rem 3rem; max-width: 46rem;
  color: var(--ink); background: var(--paper);
  font: 1rem/1.55 system-ui, -apple-system, "Segoe UI", sans-serif; }
h1 { font-size: 1.6rem; line-height: 1.2; margin: .5rem 0; }
h2 { font-size: 1.2rem; line-height: 1.3; margin: 2.4rem 0 .4rem; }
.lead, figcaption, footer { color: var(--soft); }
.scroll { overflow-x: auto; margin: 1rem 0; }
table { border-collapse: collapse; width: 100%; font-size: .92rem; font-variant-numeric: tabular-nums; }
th, td { padding: .35rem .5rem; text-align: right; white-space: nowrap; }
tr { border-bottom: 1px solid var(--line); }
th:first-child { text-align: left; padding-left: .3rem; }
th[scope=col] { color: var(--soft); font-weight: 600; }
th[scope=row] { font-weight: 500; }
tr.best { background: var(--mark); }
figure { margin: 1.4rem 0; }
figure svg { width: 100%; height: auto; display: block; }
figcaption, footer { font-size: .9rem; }
footer { margin-top: 3rem; border-top: 1px solid var(--line); padding-top: .8rem; overflow-wrap: anywhere; }
@media (max-width: 34rem) {
  body { padding: .8rem .8rem 2rem; }
  table { font-size: .8rem; }
  th, td { padding: .3rem .25rem; white-space: normal; }
}
</style>
</head>
<body>
{body}
</body>
</html>
"""
