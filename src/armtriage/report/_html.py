"""The parts of a page that needs no network: tables, drawings, text that unfolds, and the page around them."""

from __future__ import annotations

import html
import re
from collections.abc import Collection, Sequence

from armtriage.plots import INK

__all__ = ["document", "drawing", "folded", "inline_svg", "paragraphs", "preformatted", "table"]


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


def drawing(svg: str, caption: str, name: str) -> str:
    """Return an SVG file as a figure with its caption; the name is this figure's own on the page."""
    said = html.escape(caption)
    body = inline_svg(svg, name).replace("<svg", f'<svg role="img" aria-label="{said}"', 1)
    return f"<figure>{body}<figcaption>{said}</figcaption></figure>"


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


def document(title: str, body: str) -> str:
    """Return the page around its body, with a style for light and dark screens, small ones, and paper."""
    return _PAGE.replace("{title}", html.escape(title)).replace("{body}", body)


_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<style>
:root { --paper: #ffffff; --ink: #222222; --soft: #5d6470; --line: #d8dce2; --mark: #e0f1e8; --block: #f5f6f8;
  --good: #009E73; --warn: #E69F00; --bad: #D55E00; }
@media (prefers-color-scheme: dark) {
  :root { --paper: #16181c; --ink: #e6e8ea; --soft: #a3aab5; --line: #3a3f47; --mark: #1d322a; --block: #1f2227; }
  figure svg { filter: brightness(1.25); }
}
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.2rem 1rem 3rem; max-width: 46rem;
  color: var(--ink); background: var(--paper);
  font: 1rem/1.55 system-ui, -apple-system, "Segoe UI", sans-serif; }
h1 { font-size: 1.6rem; line-height: 1.2; margin: .5rem 0; }
h2 { font-size: 1.25rem; line-height: 1.3; margin: 2.6rem 0 .4rem; }
h3 { font-size: 1.05rem; line-height: 1.3; margin: 2rem 0 .4rem; }
h1, h2, h3, p, figcaption { overflow-wrap: anywhere; }
a { color: inherit; }
.lead, figcaption, footer, nav { color: var(--soft); }
.state { border-left: .3rem solid var(--good); padding: .2rem .8rem; margin: 1rem 0; background: var(--block); }
.state.warn { border-color: var(--warn); }
.state.bad { border-color: var(--bad); }
nav { font-size: .92rem; display: flex; flex-wrap: wrap; gap: .2rem 1rem; }
.scroll { overflow-x: auto; margin: 1rem 0; }
table { border-collapse: collapse; width: 100%; font-size: .92rem; font-variant-numeric: tabular-nums; }
th, td { padding: .35rem .5rem; text-align: right; white-space: nowrap; }
tr { border-bottom: 1px solid var(--line); }
th { white-space: normal; overflow-wrap: break-word; }
th:first-child { text-align: left; padding-left: .3rem; min-width: 7rem; }
th[scope=col] { color: var(--soft); font-weight: 600; vertical-align: bottom; }
td small { display: inline-block; min-width: 8.5em; padding-left: .6em; text-align: left; color: var(--soft);
  font-weight: 400; font-size: .88em; }
th[scope=row] { font-weight: 500; }
.words th, .words td { text-align: left; white-space: normal; overflow-wrap: break-word; vertical-align: top; }
.claims td, .claims th { padding: .45rem .5rem; }
.claims th[scope=row] { width: 34%; }
.claims small { display: block; color: var(--soft); font-weight: 400; }
.claims .group th { padding-top: 1.4rem; font-weight: 700; text-align: left; }
.claims td:last-child { border-left: .25rem solid var(--line); }
.claims .good td:last-child { border-color: var(--good); }
.claims .bad td:last-child { border-color: var(--bad); }
.best { background: var(--mark); font-weight: 600; }
tr.best th { font-weight: 700; }
figure { margin: 1.4rem 0; break-inside: avoid; }
figure svg { width: 100%; max-width: 34rem; height: auto; display: block; }
figcaption, footer { font-size: .9rem; }
.pair { display: grid; grid-template-columns: repeat(auto-fit, minmax(19rem, 1fr)); gap: 0 1.5rem; align-items: start; }
pre { overflow-x: auto; background: var(--block); padding: .8rem; margin: .8rem 0; font-size: .82rem; }
details { border-top: 1px solid var(--line); padding: .5rem 0; }
summary { cursor: pointer; overflow-wrap: anywhere; }
footer { margin-top: 3rem; border-top: 1px solid var(--line); padding-top: .8rem; overflow-wrap: anywhere; }
@media (min-width: 66rem) { .claims { width: calc(100% + 14rem); margin-left: -7rem; } }
@media (max-width: 34rem) {
  body { padding: .8rem .8rem 2rem; }
  table { font-size: .76rem; }
  th, td { padding: .3rem .2rem; }
  td small { display: block; text-align: right; min-width: 0; }
  pre { font-size: .72rem; }
  .claims { font-size: .88rem; }
  .claims thead { display: none; }
  .claims tr, .claims th[scope=row], .claims td { display: block; width: auto; }
  .claims tr { padding: .3rem 0; }
  .claims td { padding: .1rem .5rem; }
  .claims td::before { content: attr(data-name) ": "; color: var(--soft); }
  .claims td:last-child { padding-left: .6rem; margin: .2rem 0; }
}
@media print {
  :root { --paper: #ffffff; --ink: #000000; --soft: #444444; --line: #bbbbbb; --mark: #e9e9e9; --block: #f5f5f5; }
  body { max-width: none; padding: 0; font-size: 10pt; }
  figure svg { filter: none; }
  nav { display: none; }
  h2, h3 { break-after: avoid; }
  tr, .part { break-inside: avoid; }
  thead { display: table-header-group; }
  figure svg { max-width: 12cm; }
  .scroll { overflow: visible; }
  table { font-size: 8.5pt; }
  pre { white-space: pre-wrap; overflow-wrap: anywhere; }
  .best { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
  details::details-content { content-visibility: visible; block-size: auto; }
}
</style>
</head>
<body>
{body}
</body>
</html>
"""
