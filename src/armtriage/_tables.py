"""Small tables as HTML, for notebooks, and as LaTeX, for papers."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Mapping, Sequence

_SPECIAL = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
_SPECIAL |= {letter: f"\\{letter}" for letter in "&%$#_{}"}


def html_facts(facts: Mapping[str, str], text: str = "") -> str:
    """Return a table of names and values, with a text below it.

    Examples
    --------
    >>> html_facts({"arms": "3 < 4"}, "So it is.")
    '<table><tr><th>arms</th><td>3 &lt; 4</td></tr></table><p>So it is.</p>'
    """
    rows = "".join(f"<tr><th>{html.escape(name)}</th><td>{html.escape(one)}</td></tr>" for name, one in facts.items())
    return f"<table>{rows}</table>" + (f"<p>{html.escape(text)}</p>" if text else "")


def html_table(head: Sequence[str], rows: Iterable[Sequence[str]], text: str = "") -> str:
    """Return a table with a line of names above it, and a text above that.

    Examples
    --------
    >>> html_table(["policy", "regret"], [["greedy", "7"]])
    '<table><tr><th>policy</th><th>regret</th></tr><tr><td>greedy</td><td>7</td></tr></table>'
    """
    lines = ["".join(f"<th>{html.escape(name)}</th>" for name in head)]
    lines += ["".join(f"<td>{html.escape(cell)}</td>" for cell in row) for row in rows]
    above = f"<p>{html.escape(text)}</p>" if text else ""
    return f"{above}<table>{''.join(f'<tr>{line}</tr>' for line in lines)}</table>"


def latex_table(head: Sequence[str], rows: Iterable[Sequence[str]], columns: str) -> str:
    r"""Return a tabular for the package booktabs; `columns` has l or r for each of them.

    Examples
    --------
    >>> print(latex_table(["policy", "regret"], [["all_arms", "50%"]], "lr"))
    \begin{tabular}{lr}
    \toprule
    policy & regret \\
    \midrule
    all\_arms & 50\% \\
    \bottomrule
    \end{tabular}
    """
    line = [" & ".join(map(_latex, row)) + r" \\" for row in (head, *rows)]
    top = [rf"\begin{{tabular}}{{{columns}}}", r"\toprule", line[0], r"\midrule"]
    return "\n".join([*top, *line[1:], r"\bottomrule", r"\end{tabular}"])


def _latex(text: str) -> str:
    return re.sub(r"[\\~^&%$#_{}]", lambda found: _SPECIAL[found[0]], text)
