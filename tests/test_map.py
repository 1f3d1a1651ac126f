"""The map of the paper leads somewhere: names, studies, tests and errata are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import armtriage
from armtriage import theory
from armtriage.reproduce import STUDIES

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "map-of-the-paper.md").read_text(encoding="utf-8")
ROWS = [
    line.strip("| ").split(" | ") for line in PAGE.splitlines() if line.startswith("| ") and "in the paper" not in line
]
ERRATA = (ROOT / "docs" / "errata.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_row_leads_somewhere(row: list[str]) -> None:
    for name in re.findall(r"`([A-Za-z]\w+)`", row[1]):
        assert hasattr(armtriage, name) or hasattr(theory, name), name
    cells = [one.strip() for one in row[2:]]
    for test in re.findall(r"`([\w/]+\.py)`", " ".join(cells)):
        assert (ROOT / "tests" / test).is_file(), test
    if len(cells) == 3:
        studies = re.findall(r"`([\w-]+)`", cells[0])
        assert set(studies) <= set(STUDIES), studies
        for number in re.findall(r"\b([GBUN]\d+)\b", cells[2]):
            assert f"| {number} |" in ERRATA, number


def test_every_algorithm_and_theorem_has_a_row() -> None:
    first = " ".join(row[0] for row in ROWS)
    for one in (*(f"Algorithm {i}" for i in range(1, 6)), *(f"Theorem {i}" for i in range(1, 8)), "Lemma 1", "Lemma 2"):
        assert one in first, one


def test_the_note_to_the_authors_has_every_false_statement_and_nothing_that_the_errata_lack() -> None:
    note = (ROOT / "docs" / "note-to-the-authors.md").read_text(encoding="utf-8")
    repaired = (ROOT / "docs" / "constrained-elimination.md").read_text(encoding="utf-8")
    cited = set(re.findall(r"\b([GBUNK]\d+)\b", " ".join(re.findall(r"\[([GBUNK]\d+[^\]]*)\]", note))))
    false = set(re.findall(r"^\| ([GBUNK]\d+) \| \*\*false\*\*", ERRATA + repaired, re.M))
    assert {"G10", "N1", "K1"} <= false <= cited
    assert cited <= set(re.findall(r"^\| ([GBUNK]\d+) \|", ERRATA + repaired, re.M))
