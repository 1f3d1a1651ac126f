"""Tables for notebooks, papers and pandas say what the objects say."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from armtriage import Experiment, FeedbackGraph, GuardedThompson, StochasticEnvironment, ThompsonSampling, simulate


def cells(html: str) -> list[str]:
    assert html.count("<tr>") == html.count("</tr>") > 0
    return re.findall(r"<t[hd]>([^<]*)</t[hd]>", html)


@pytest.fixture(scope="module")
def trace() -> Any:
    graph = FeedbackGraph.semi_bandit(4)
    world = StochasticEnvironment([0.9, 0.6, 0.3, 0.1], graph, seed=7)
    policy = ThompsonSampling(graph, budget=2, seed=7)
    return simulate(policy, world, horizon=200, replications=4, checkpoints=[100, 200], certificate=True)


@pytest.fixture(scope="module")
def results() -> Any:
    pytest.importorskip("polars")
    worlds = {"few_arms": "random:n_arms=5,budget=2", "50%": "random:n_arms=6,budget=2"}
    return Experiment(worlds, ["greedy", "random"], horizon=200, replications=4, seed=7).run()


def test_a_trace_is_a_table(trace: Any) -> None:
    rows = [line.split(maxsplit=2) for line in str(trace).splitlines()[2:]]
    html = trace._repr_html_()
    assert cells(html) == ["rounds", "mean regret", "95% interval", *(cell for row in rows for cell in row)]
    assert f"<p>{str(trace).splitlines()[0]}</p>" in html
    latex = trace.to_latex().splitlines()
    assert latex[2] == r"rounds & mean regret & 95\% interval \\"
    assert latex[4:6] == [" & ".join(row) + r" \\" for row in rows]


def test_a_trace_is_a_frame(trace: Any) -> None:
    pytest.importorskip("pandas")
    frame = trace.to_pandas()
    assert list(frame.columns) == ["policy", "replication", "rounds", "regret", "certificate"]
    np.testing.assert_array_equal(frame["regret"].to_numpy().reshape(4, 2), trace.regret)


def test_results_are_a_table(results: Any) -> None:
    found = cells(results._repr_html_())
    assert found[:6] == ["environment", "policy", "rounds", "runs", "mean regret", "95% interval"]
    assert [found[at : at + 2] for at in range(6, 30, 6)] == [
        ["few_arms", "greedy"], ["few_arms", "random"], ["50%", "greedy"], ["50%", "random"],
    ]  # fmt: skip
    assert found[10] in str(results)
    latex = results.to_latex(level=0.9)
    assert r"90\% interval \\" in latex
    assert latex.count(r"few\_arms & ") == latex.count(r"50\% & ") == 2
    assert results.to_latex().count(r" \\") == 5


def test_results_are_a_frame(results: Any) -> None:
    pytest.importorskip("pandas")
    assert results.to_pandas(at=200)["mean"].tolist() == results.summary()["mean"].to_list()


def test_a_decision_a_graph_and_a_certificate_are_tables() -> None:
    graph = FeedbackGraph.cliques([2, 2])
    policy = GuardedThompson(graph, budget=1, names=["tea", "<b>", "jam", "rum"], seed=7)
    decision = policy.ask(eligible=["<b>"])
    assert cells(decision._repr_html_()) == [
        "decision", "0", "arms", "&lt;b&gt;", "eligible", "1 of 4 arms",
    ]  # fmt: skip
    assert cells(graph._repr_html_())[::2] == [
        "arms", "edges, with those of an arm to itself", "revealed by an arm, on average",
    ]  # fmt: skip
    assert cells(graph._repr_html_())[1::2] == ["4", "8", "2"]
    assert cells(policy.ask()._repr_html_())[-2:] == ["reveals", "2 arms"]
    facts = policy.certificate()._repr_html_()
    assert cells(facts)[:4] == ["decisions", "2", "confidence", "99%"]
    assert "lost at most" in cells(facts)
    assert "<p>With 99% confidence" in facts
