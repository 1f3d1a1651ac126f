"""The page and the table of claims."""

from __future__ import annotations

import polars

from armtriage.reproduce.page import claims_text, make_page
from armtriage.reproduce.study import Finding, Report


def test_texts_are_escaped() -> None:
    finding = Finding("a < b | c", "s", "p", "m", "Agrees.", True)
    report = Report("S < K", ["x < y"], [finding], [], {"t": polars.DataFrame({"a": [1.5, None]})})
    page, text = make_page({"one": report}, {}, "quick"), claims_text({"one": report}, "quick")
    assert "<p>x &lt; y</p>" in page
    assert "a &lt; b | c" in page
    assert r"| a < b \| c (s) |" in text
    assert "`armtriage reproduce --quick`" in text
