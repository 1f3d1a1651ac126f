"""The page: text, results and drawings in one HTML file that needs no network."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from typing import NamedTuple

from armtriage.comparison import COLUMNS, Result

__all__ = ["Figure", "Section", "inline_svg", "page"]

INK = "#222222"


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
  table { font-size: .72rem; }
  th, td { padding: .3rem .15rem; white-space: normal; }
}
</style>
</head>
<body>
{body}
</body>
</html>
"""
