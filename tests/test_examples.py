"""The examples run, and end as they should."""

from __future__ import annotations

import re
import runpy
from functools import partial
from pathlib import Path

import pytest

from armtriage.service import Client

EXAMPLES = Path(__file__).parent.parent / "examples"


def test_late_rewards_confirm_the_three_best_items(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(EXAMPLES / "late_rewards.py"))["main"]()
    confirmed = capsys.readouterr().out.splitlines()[1]
    assert confirmed.startswith("confirmed [9, 10, 11]")


def test_routes_find_the_best_way_around_closed_streets(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(EXAMPLES / "routes.py"))["main"](days=900)
    first, *phases = capsys.readouterr().out.splitlines()
    assert first.startswith("usually best: 00 ")
    lost = [[float(part.split(" more")[0].split()[-1]) for part in line.split(", ")[1:]] for line in phases]
    assert len(lost) == 3
    assert lost[0][0] > 4 > 1 > lost[0][1]
    assert lost[1][1] < lost[1][0]
    # What is known of the streets that were open all along is not forgotten.
    assert lost[2][0] < 1


def test_what_each_part_is_worth_prints_every_setting_on_every_graph(capsys: pytest.CaptureFixture[str]) -> None:
    example = runpy.run_path(str(EXAMPLES / "what_each_part_is_worth.py"))
    example["main"](horizon=50, replications=2)
    assert len(capsys.readouterr().out.splitlines()) == 3 * (1 + len(example["WITHOUT"]))


def test_contextual_contest_prints_every_policy_in_every_world(capsys: pytest.CaptureFixture[str]) -> None:
    example = runpy.run_path(str(EXAMPLES / "contextual_contest.py"))
    example["main"](horizon=820, replications=2)
    assert sum(line.startswith("|") for line in capsys.readouterr().out.splitlines()) == 7 * 9


def test_a_real_table_is_not_linear_and_saying_so_makes_the_certificate_wider(
    capsys: pytest.CaptureFixture[str],
) -> None:
    runpy.run_path(str(EXAMPLES / "bias_on_a_real_table.py"))["main"](rounds=300)
    first, *played = capsys.readouterr().out.splitlines()
    off, least, safe = (float(one) for one in re.findall(r"\d+\.\d+", first))
    assert least <= off <= safe
    most = [float(line.split("at most ")[1].split()[0].replace(",", "")) for line in played]
    lost = [float(line.split("lost ")[1].split(",")[0]) for line in played]
    assert most == sorted(most)
    assert all(bound >= one for bound, one in zip(most, lost, strict=True))


def test_inside_the_guard_prints_every_proposer_and_draws(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    example = runpy.run_path(str(EXAMPLES / "inside_the_guard.py"))
    example["main"](horizon=60, replications=2, figure=str(tmp_path / "guard.png"))
    rows = [line.split(" | ") for line in capsys.readouterr().out.splitlines() if line.startswith("| ")]
    assert [row[0] for row in rows[1:]] == [f"| {name}" for name in example["policies"]()]
    assert all(len(row) == 4 for row in rows)
    assert (tmp_path / "guard.png").stat().st_size > 1000


def test_serve_an_audience_ends_with_a_store_that_is_as_it_should_be(capsys: pytest.CaptureFixture[str]) -> None:
    main = runpy.run_path(str(EXAMPLES / "serve_an_audience.py"))["main"]
    main.__globals__["Client"] = partial(Client, deadline=120.0)  # a slow machine is no reason for a fallback
    main(seconds=2.0)
    said = capsys.readouterr().out
    assert "decisions: 120, 0 fallbacks" in said
    assert said.endswith("Everything is as it should be\n")


def test_a_news_page_is_certified_and_loses_less_than_its_certificate(capsys: pytest.CaptureFixture[str]) -> None:
    example = runpy.run_path(str(EXAMPLES / "news_page.py"))
    day = example["main"](visits=3000)
    assert day.certificate.rounds == 3000
    assert day.certificate.confidence == pytest.approx(0.98)
    assert day.lost <= day.certificate.regret_bound
    assert day.lost < 0.4 * day.lost_at_random
    assert "against the best eligible 6 arms of every round" in capsys.readouterr().out
    # Clicks that are told before their absence do no harm: open decisions count by their age.
    early = example["main"](visits=3000, at_once=True)
    assert early.lost < 1.05 * day.lost
    assert early.lost <= early.certificate.regret_bound


def test_clicks_are_learned_from_raw_features(capsys: pytest.CaptureFixture[str]) -> None:
    day = runpy.run_path(str(EXAMPLES / "clicks_from_raw_features.py"))["main"](visits=1500)
    assert day.lost < 0.8 * day.lost_at_random
    assert day.lost <= day.certified
    assert day.report.rows == 1500 * 20
    assert day.report.unknown == {"kind": 1}
    assert list(day.report.clipped) == ["price"]
    assert 0.03 < day.report.missing["age"] / day.report.rows < 0.07
    assert "45 numbers for each candidate" in capsys.readouterr().out


def test_the_contest_among_eligible_arms_prints_every_policy_in_every_regime(
    capsys: pytest.CaptureFixture[str],
) -> None:
    example = runpy.run_path(str(EXAMPLES / "eligible_contest.py"))
    example["main"](horizon=200, runs=2)
    rows = [line.split(" | ") for line in capsys.readouterr().out.splitlines() if line.startswith("| ")]
    assert [row[0] for row in rows[1:]] == [f"| {name}" for name in example["REGIMES"]]
    assert all(len(row) == 2 + len(example["POLICIES"]) for row in rows)


def test_campaigns_within_a_budget_are_found(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(EXAMPLES / "campaign_budget.py"))["main"](days=600)
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == "best campaigns [1, 3, 5]"
    assert lines[3].startswith("day 600: campaigns [1, 3, 5] for 95 of 100")
