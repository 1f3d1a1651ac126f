"""A week in a shop: its files, and sentences that follow the numbers."""

import re
import webbrowser
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from armtriage import __version__
from armtriage.cli import app
from armtriage.cli.shop import BEST, GREEDY, GUARDED, ITEMS, OLD, SLOTS, THOMPSON, WORTH, Week, click_rates, story


def test_the_demo_writes_a_page_by_itself_and_opens_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    out = tmp_path / "new" / "shop"
    result = CliRunner().invoke(app, ["demo", "--quick", "--open", "--out", str(out)])
    assert result.exit_code == 0, result.output
    assert {path.name for path in out.iterdir()} == {"index.html", "week.png", "week.svg"}
    assert opened == [(out / "index.html").as_uri()]
    page = (out / "index.html").read_text(encoding="utf-8")
    assert not re.search(r"""(src|href)\s*=\s*["'](?!#)""", page)
    assert "@import" not in page
    assert (page.count("<svg"), page.count("<table")) == (2, 1)
    assert f"armtriage {__version__}; seed 7" in page
    for label in (GUARDED, THOMPSON, GREEDY, OLD, BEST):
        assert label in page
        assert label in result.output


def made(guarded: float, thompson: float, certified: float, decided: tuple[tuple[str, float, bool], ...] = ()) -> Week:
    looks = np.arange(1, 71) * 100
    lost = {GUARDED: guarded, THOMPSON: thompson, GREEDY: 400.0, OLD: 800.0}
    grown = {label: np.tile(value * looks / 7000, (2, 1)) for label, value in lost.items()}
    return Week(looks, grown, np.tile(certified * looks / 7000, (2, 1)), 0.2, decided)


def test_sentences_follow_the_numbers() -> None:
    week = made(70.0, 140.0, 210.0, (("tea", 2.5, True), ("jam", 3.1, False)))
    assert week.earned(BEST) == pytest.approx(WORTH * 1400)
    assert week.earned(GUARDED) == pytest.approx(WORTH * 1330)
    first, second, third = story(week, click_rates())
    assert "In a week of 7,000 visitors the page as it was" in first
    assert "earns €180" in first
    assert "earns €399, 95% of what the best page" in first
    assert "lost at most 30 after day 1 and 210 after day 7, in clicks; the truth is 10 and 70" in second
    assert second.endswith("In none of the 2 simulated weeks was the certificate ever below the truth.")
    assert third.endswith("of them: tea is among the best 4 (since day 3); jam is not among the best 4 (since day 4).")


def test_what_is_not_as_hoped_is_said() -> None:
    _, second, third, fourth = story(made(70.0, 35.0, 60.0), click_rates())
    assert second.endswith("In 2 of the 2 simulated weeks the certificate was at some time below the truth.")
    assert third.startswith("At the end of the first of them it was not certain of any item")
    assert fourth.startswith("Thompson earned more, €410")


def test_items_are_different_and_the_old_page_is_ordinary() -> None:
    assert len(set(ITEMS)) == len(ITEMS) == 30
    means = click_rates()
    assert 0.0 < means.min() < means.max() < 0.1
    assert SLOTS == 4
