"""A page of sections, each with text, results and drawings."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import NamedTuple

from armtriage.report._html import document, drawing, paragraphs, table
from armtriage.simulation.comparison import COLUMNS, Result

__all__ = ["Figure", "Section", "page"]


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
        parts += [f"<section><h2>{html.escape(section.title)}</h2>", paragraphs(*section.paragraphs)]
        if section.results:
            parts.append(_results(section.results))
        for figure in section.figures:
            drawn += 1
            parts.append(drawing(figure.svg, figure.caption, f"f{drawn}"))
        parts.append("</section>")
    parts.append(f"<footer>{html.escape(footer)}</footer>")
    return document(title, "\n".join(parts))


def _results(results: Sequence[Result]) -> str:
    best = min(result.mean for result in results)
    marked = [place for place, result in enumerate(results) if result.mean == best]
    return table(COLUMNS, [result.cells for result in results], marked)
