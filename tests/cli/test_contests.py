"""The contests of the paper: their files, and sentences that follow the results."""

import re
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from armtriage import CombUCB1, FeedbackGraph, __version__, simulate
from armtriage.cli import app
from armtriage.cli.contests import (
    GUARDED,
    PAPER,
    QUICK,
    SEED,
    THOMPSON,
    TIGHT,
    UCB,
    certified,
    compared,
    cured_story,
    failure_story,
    slate_story,
    winner,
)
from armtriage.instances import random_bernoulli
from armtriage.simulation.comparison import Result


def test_demo_writes_everything(tmp_path):
    out = tmp_path / "new" / "demo"
    result = CliRunner().invoke(app, ["demo", "--paper", "--quick", "--out", str(out)])
    assert result.exit_code == 0, result.output
    stems = ("slate-regret", "slate-certificate", "slate-triage", "cliques-regret", "independent-regret")
    assert {path.name for path in out.iterdir()} == {"index.html"} | {
        f"{stem}.{ending}" for stem in stems for ending in ("png", "svg")
    }
    page = (out / "index.html").read_text()
    assert not re.search(r"""(src|href)\s*=\s*["'](?!#)""", page)
    assert "@import" not in page
    assert set(re.findall(r"url\((.)", page)) <= {"#"}
    assert page.count("<svg") == len(stems)
    assert page.count("<table") == 3
    assert f"armtriage {__version__}; seed {SEED}" in page
    names = re.findall(r'\bid="([^"]+)"', page)
    assert len(names) == len(set(names))
    assert set(re.findall(r'href="#([^"]+)"', page)) | set(re.findall(r"url\(#([^)]+)\)", page)) <= set(names)


def _result(label, *finals, certificate=None):
    graph = FeedbackGraph.semi_bandit(2)
    trace = simulate(CombUCB1(graph, 1), random_bernoulli(graph, seed=1), horizon=1)
    bound = None if certificate is None else np.array(certificate, dtype=float)[:, None]
    made = replace(trace, regret=np.array(finals, dtype=float)[:, None], certificate=bound)
    return Result(label, CombUCB1(graph, 1), made, 1.0)


def contest(tight, paper, ucb, thompson, guarded=(75, 75)):
    finals = {TIGHT: tight, PAPER: paper, UCB: ucb, THOMPSON: thompson, GUARDED: guarded}
    return {label: _result(label, *values) for label, values in finals.items()}


def test_the_winner_is_named_and_told_from_the_next():
    assert winner(contest((60, 60), (600, 600), (90, 90), (30, 30))) == (
        "Thompson loses least: 30. Next is Elimination with 60."
    )
    unclear = winner(contest((10, 12), (60, 60), (11, 13), (90, 90)))
    assert "Elimination loses least: 11. Next is UCB with 12; their intervals overlap" in unclear
    assert unclear.endswith("this does not settle which is better.")


@pytest.mark.parametrize(
    ("one", "other", "said"),
    [
        (60, 30, "A loses 60, 2 times as much as B (30)."),
        (30, 75, "B loses 75, 2.5 times as much as A (30)."),
        (30, 30, "B loses 30, as much as A (30)."),
        (0, 5, "B loses 5, more than A (0)."),
    ],
)
def test_two_policies_are_compared(one, other, said):
    assert compared(_result("A", one, one), _result("B", other, other)) == said


def test_sentences_follow_the_results():
    usual = contest((60, 60), (600, 600), (90, 90), (30, 30))
    certified_ones = usual | {GUARDED: _result(GUARDED, 75, 75, certificate=(80, 80))}
    text = slate_story(QUICK, certified_ones)
    assert text[1].startswith("Thompson loses least")
    assert "Guarded Thompson loses 75, 2.5 times as much as Thompson (30)" in text[2]
    assert "lost at most 80 on average; the truth is 75" in text[3]
    assert "Elimination loses 60, 2 times as much as Thompson (30)" in text[4]
    assert "Elimination (paper) loses 600, 10 times as much as Elimination (60)" in text[5]
    text = failure_story(QUICK, usual, 0.5)
    assert "UCB loses 90, 1.5 times as much as Elimination (60)" in text[2]
    assert "in 50% of its rounds" in text[2]
    assert "Elimination loses 60, 2 times as much as Thompson (30)" in text[3]
    cured = contest((60, 60), (600, 600), (20, 20), (30, 30))
    [text] = cured_story(usual[UCB], cured, 0.1)
    assert "UCB loses 20, and 90 where the observations inside a clique are identical" in text
    assert "10% of its slates" in text
    assert "Elimination loses 60, 3 times as much as UCB (20)" in text


@pytest.mark.parametrize(("bound", "said"), [((30, 30), "none of the 2"), ((11, 30), "1 of the 2")])
def test_certificates_below_the_truth_are_counted(bound, said):
    text = certified(_result(GUARDED, 10, 12, certificate=bound[::-1]))
    assert f"lost at most {sum(bound) / 2:.3g} on average" in text
    assert f"it did in {said}" in text
