"""The page of an experiment says what was played, what came of it and what is not there."""

import re
import tomllib

import numpy as np
import polars
import pytest

from armtriage import Experiment, FeedbackGraph, Policy, StochasticEnvironment
from armtriage._numbers import short
from armtriage.experiments import Results
from armtriage.report import experiment_page
from armtriage.report.experiment import _others, parameters
from report.pages import Reader


class Faulty(Policy):
    """Plays the first arms, and fails where it has to play three."""

    def __init__(self, graph, budget, *, seed=None, reward_range=(0.0, 1.0)):
        super().__init__(graph, budget, seed=seed, reward_range=reward_range)

    def _select(self, number):
        if self.budget == 3:
            raise RuntimeError("the <b>sensor</b> & its cable")
        return np.arange(self.budget)

    def _update(self, number, arms, rewards):
        pass

    def _arrays(self):
        return {}

    def _restore(self, arrays):
        pass


def flat(n_arms):
    """Return an environment without anything to lose."""
    return StochasticEnvironment([0.5] * n_arms, FeedbackGraph.semi_bandit(n_arms), seed=1)


@pytest.fixture(scope="module")
def page(swept):
    return experiment_page(swept, folder="swept")


@pytest.fixture(scope="module")
def broken(tmp_path_factory):
    """A folder with failed, missing and stale cells, environments of every kind, and names that must be escaped."""
    folder = tmp_path_factory.mktemp("results") / "broken"
    environments = [
        {"instance": "random", "n_arms": 6, "budget": [2, 3]},
        {"instance": flat, "n_arms": 6, "budget": 2, "label": "<i>flat</i> & easy"},
        "linear:n_arms=8,dimension=3,budget=2,norm=0.5",
    ]
    made = {"horizon": 100, "replications": 3, "block": 2, "name": "A <b>broken</b> one"}
    Experiment(environments, ["greedy", "c2ucb"], seed=6, **made).run(folder)
    with pytest.warns(UserWarning, match="ask and tell"):
        Experiment(environments, ["greedy", Faulty, "c2ucb"], seed=7, **made).run(folder, engine="serial")
    results = Results.load(folder)
    gone = results.runs.filter((polars.col("policy") == "c2ucb") & (polars.col("replication") == 2))["cell"][0]
    (folder / "cells" / f"{gone}.parquet").unlink()
    return folder


def test_page_needs_nothing_else(page):
    reader = Reader(page)
    outside = [link for link in reader.links if not link.startswith("data:")]
    assert {link.removeprefix("#") for link in outside} <= set(reader.names)
    assert not set(reader.tags) & {"script", "link", "img", "iframe"}
    outside = {one for one in re.findall(r"https?://[^\"' ]+", page) if "www.w3.org" not in one}
    assert outside == set()
    assert "@import" not in page
    assert "url(" not in page.replace("url(#", "")


def test_page_says_what_was_run(page):
    text = Reader(page).text
    assert "3 policies in 9 environments, 4 replications of 50 to 800 rounds each, seed 7." in text
    assert "Complete: all 27 cells are there." in text
    assert "All environments are random:budget=2; the table says how they differ." in text


def test_page_has_the_numbers(swept, page):
    text = Reader(page).text
    for row in swept.summary().head(9).to_dicts():
        assert short(row["mean"]) in text
    assert "tied with the least" in Reader(page).text


def test_page_has_its_figures(page):
    reader = Reader(page)
    assert "Growth" in reader.text
    assert "Regret at the end against horizon, with n_arms 5" in reader.text
    assert "Mean regret of thompson at the end" in reader.text
    assert reader.tags.count("figure") == 9 * 3 + 6 + 3


def test_page_can_be_run_again(swept, page):
    [file] = re.findall(r'<pre tabindex="0">(horizon.*?)</pre>', page, re.DOTALL)
    given = tomllib.loads(file.replace("&quot;", '"'))
    again = Experiment(**given)
    assert [cell.id for cell in again.cells] == [cell.id for cell in swept.manifest.cells]
    assert "armtriage run experiment.toml --folder swept" in page


def test_figures_say_where_they_come_from(swept, undrawn):
    text = Reader(experiment_page(swept, level=0.9)).text
    for shown in ("90% bands", "90% intervals", "90% intervals, paired", "means"):
        assert f"[{shown}; 4 runs, seed 7; armtriage {swept.manifest.code}]" in text


def test_page_is_the_same_again():
    results = Experiment(["random:n_arms=5,budget=2"], ["greedy", "random"], horizon=50, replications=2, seed=7).run()
    assert experiment_page(results) == experiment_page(results)


def test_page_of_one_environment_and_one_policy():
    results = Experiment(["random:n_arms=5,budget=2"], ["greedy"], horizon=50, replications=1, seed=7).run()
    text = Reader(experiment_page(results)).text
    assert "greedy loses" in text
    assert "Who loses least" not in text
    assert "Growth" not in text


def test_page_of_one_run_does_not_choose():
    results = Experiment(["random:n_arms=5,budget=2"], ["greedy", "random"], horizon=50, replications=1, seed=7).run()
    assert "One run cannot show whether it is better than the others." in Reader(experiment_page(results)).text


def test_page_of_a_broken_sweep(broken):
    page = experiment_page(Results.load(broken), baseline="greedy")
    text = Reader(page).text
    assert "A <b>broken</b> one" in text
    assert "<i>flat</i> & easy" in text
    assert "1 of 14 cells are missing" in text
    assert "2 of 14 cells failed" in text
    assert "The folder has 8 cells of other settings or code" in text
    assert "2 cells: RuntimeError: the <b>sensor</b> & its cable" in text
    assert 'raise RuntimeError("the <b>sensor</b> & its cable")' in text
    assert "no runs" in text
    assert "greedy has no runs here, so the best policy is the baseline." in text


def test_page_of_nothing(tmp_path):
    Experiment(["random:n_arms=5,budget=2"], ["greedy"], horizon=50, replications=2, seed=7).run(tmp_path)
    for file in (tmp_path / "cells").iterdir():
        file.unlink()
    text = Reader(experiment_page(Results.load(tmp_path))).text
    assert "1 of 1 cells are missing" in text
    assert "No cell is finished yet." in text


def test_a_large_sweep_is_cut_and_says_so(monkeypatch, swept, undrawn):
    for name, most in {"_DRAWN": 1, "_OPEN": 2, "_LISTED": 4, "_PARAMETERS": 2}.items():
        monkeypatch.setattr(f"armtriage.report.experiment.{name}", most)
    reader = Reader(experiment_page(swept))
    assert reader.tags.count("figure") == 3 + 2 + 2
    assert "5 more environments are left out here" in reader.text
    assert "4 more figures are left out here" in reader.text
    assert "Figures are drawn for the first 1 environments" in reader.text


def test_a_heavy_page_is_cut_and_says_so(monkeypatch, swept, undrawn):
    monkeypatch.setattr("armtriage.report.experiment._LETTERS", 10)
    reader = Reader(experiment_page(swept))
    assert reader.tags.count("figure") == 3 + 6 + 3
    assert "Figures are drawn for the first 1 environments" in reader.text


def test_unknown_baseline_is_refused(swept):
    with pytest.raises(ValueError, match="baseline must be one of comb_ucb1, thompson, random, got 'ucb'"):
        experiment_page(swept, baseline="ucb")


def test_parameters_that_follow_another_do_not_part_lines():
    rows = [
        {"policy": "p", "environment.n_arms": n, "environment.budget": n // 10, "environment.graph": "g", "horizon": t}
        for n in (10, 20, 30)
        for t in (100, 200)
    ]
    summary = polars.DataFrame(rows)
    assert parameters(summary, 3) == ["environment.n_arms", "environment.budget"]
    assert _others(summary, "environment.n_arms") == ["horizon"]
    words = summary.with_columns(polars.Series("environment.graph", ["a", "a", "b", "b", "c", "c"]))
    assert _others(words, "environment.n_arms", "horizon") == ["environment.graph"]
