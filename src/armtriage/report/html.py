"""The parts of a page that needs no network: tables, drawings, text that unfolds, and the page around them."""

from __future__ import annotations

import html
import re
from collections.abc import Collection, Iterable, Sequence
from importlib.resources import files
from itertools import count
from typing import Literal, NamedTuple

from armtriage.plots import INK
from armtriage.simulation.comparison import COLUMNS, Result

NONE = "\u2013"
"""What a table says where it has nothing to say."""


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
    numbers = count(1)
    parts = []
    for one in sections:
        drawn = [drawing(figure, next(numbers)) for figure in one.figures]
        parts.append(section(one.title, paragraphs(*one.paragraphs) + _results(one.results) + "".join(drawn)))
    return document(title, lead, parts, footer)


def _results(results: Sequence[Result]) -> str:
    if not results:
        return ""
    best = min(result.mean for result in results)
    marked = [place for place, result in enumerate(results) if result.mean == best]
    return table(COLUMNS, [result.cells for result in results], marked)


def document(title: str, lead: str, parts: Iterable[str], footer: str) -> str:
    """Return the page around its parts, with a style for light and dark screens, small ones, and paper."""
    name, style = html.escape(title), files("armtriage.report").joinpath("page.css").read_text(encoding="utf-8")
    body = [f"<h1>{name}</h1>", f'<p class="lead">{html.escape(lead)}</p>', *parts]
    body.append(f"<footer>{html.escape(footer)}</footer>")
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{name}</title>
<style>
{style}</style>
</head>
<body>
{chr(10).join(body)}
</body>
</html>
"""


def inline_svg(svg: str, name: str) -> str:
    """Return an SVG file as an element for a page: names of its own, ink of the page's colour, no needless digits.

    Examples
    --------
    >>> inline_svg('<?xml version="1.0"?><svg><g id="a" style="fill: #222222"/><use href="#a"/></svg>', "f1")
    '<svg><g id="f1-a" style="fill: currentColor"/><use href="#f1-a"/></svg>'
    """
    body = svg[svg.index("<svg") :].strip()
    body = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->", "", body, flags=re.DOTALL)
    body = re.sub(r' d="[^"]*"', _rounded, body)
    body = re.sub(r'\bid="', f'id="{name}-', body)
    body = re.sub(r'href="#', f'href="#{name}-', body)
    return body.replace("url(#", f"url(#{name}-").replace(INK, "currentColor")


def _rounded(path: re.Match[str]) -> str:
    """Return a path with a hundredth of a point as its finest step."""
    return re.sub(r"\.(\d\d)\d+", r".\1", path[0]).replace("\n", "")


def paragraphs(*texts: str) -> str:
    """Return texts as paragraphs."""
    return "".join(f"<p>{html.escape(text)}</p>" for text in texts)


def preformatted(text: str) -> str:
    """Return text with its lines as they are."""
    return f'<pre tabindex="0">{html.escape(text)}</pre>'


def folded(title: str, inside: str) -> str:
    """Return HTML that is shown once its title is chosen."""
    return f"<details><summary>{html.escape(title)}</summary>{inside}</details>"


def drawing(figure: Figure, number: int) -> str:
    """Return a figure with its caption; the number is its own on the page."""
    said = html.escape(figure.caption)
    body = inline_svg(figure.svg, f"f{number}").replace("<svg", f'<svg role="img" aria-label="{said}"', 1)
    return f"<figure>{body}<figcaption>{said}</figcaption></figure>"


def section(title: str, body: str, name: str = "") -> str:
    """Return a part of the page under its title; links find it by its name."""
    own = f' id="{name}"' if name else ""
    return f"<section{own}><h2>{html.escape(title)}</h2>{body}</section>"


def state(text: str, kind: Literal["", "warn", "bad"] = "") -> str:
    """Return a line that says how things stand, with a bar in the colour of its kind."""
    return f'<p class="{f"state {kind}".strip()}">{html.escape(text)}</p>'


def table(
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    best: Collection[int] = (),
    *,
    marks: Collection[tuple[int, int]] = (),
    words: bool = False,
) -> str:
    """Return a table whose first column names the rows.

    Parameters
    ----------
    head : sequence of str
        Names of the columns.
    rows : sequence of sequence of str
        Their cells; what follows a line's end is smaller.
    best : collection of int
        Rows that are marked.
    marks : collection of tuple of int
        Cells that are marked, by row and column.
    words : bool
        Whether cells hold words, which begin at the left and may break.

    Examples
    --------
    >>> '<tr class="best"><th scope="row">a &lt; b</th><td>1</td></tr>' in table(["", ""], [["a < b", "1"]], [0])
    True
    """
    parts = "".join(f'<th scope="col">{_breakable(one)}</th>' for one in head)
    lines = []
    for place, (first, *rest) in enumerate(rows):
        cells = "".join(f"<td{_kind((place, column) in marks)}>{_cell(one)}</td>" for column, one in enumerate(rest, 1))
        lines.append(f'<tr{_kind(place in best)}><th scope="row">{_breakable(first)}</th>{cells}</tr>')
    kind = ' class="words"' if words else ""
    body = f"<table{kind}><thead><tr>{parts}</tr></thead><tbody>{''.join(lines)}</tbody></table>"
    return f'<div class="scroll">{body}</div>'


def _breakable(label: str) -> str:
    """Return a label that may be broken where its parts end."""
    return re.sub(r"([:,])(?=\w)", r"\1<wbr>", html.escape(label))


def _cell(text: str) -> str:
    value, _, rest = text.partition("\n")
    return html.escape(value) + (f" <small>{html.escape(rest)}</small>" if rest else "")


def _kind(best: bool) -> str:
    return ' class="best"' if best else ""
