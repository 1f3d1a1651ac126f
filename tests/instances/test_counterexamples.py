"""The counterexamples refute what they are meant to refute."""

import numpy as np
import pytest

from armtriage import CombinatorialElimination
from armtriage.instances import GRAPHS, three_arms, two_hubs
from twins.linear import stage_rule


@pytest.mark.parametrize("n_arms", [5, 6, 7, 20, 103])
def test_two_hubs_reveal_all_but_the_greedy_needs_half(n_arms):
    graph, leaves = two_hubs(n_arms), (n_arms - 3) // 2
    assert GRAPHS["two_hubs"](n_arms=n_arms) == graph
    assert graph.is_undirected
    assert graph.revealed_by([0, 1]).size == n_arms
    assert graph.revealed_by(1).tolist() == [0, 1, *range(n_arms - leaves, n_arms)]
    assert graph.out_degrees[2:].tolist() == [2] * (n_arms - 2)
    for budget, missing in ((leaves + 1, 0), (leaves, 1)):
        chosen = CombinatorialElimination(graph, budget, tie_break="index").ask()
        assert chosen.arms[0] == 0
        assert n_arms - chosen.revealed.size == missing


def test_two_hubs_need_five_arms():
    with pytest.raises(ValueError, match="n_arms must be a whole number from 5, got 4"):
        two_hubs(4)


@pytest.mark.parametrize("stage", [1, 2, 5, 30])
def test_three_arms_are_on_the_good_event_and_break_the_printed_rule(stage):
    state = three_arms(stage)
    assert np.all(np.abs(state.estimates - state.means) <= state.widths)
    assert np.all(state.widths <= 2.0**-stage)
    assert np.argsort(-state.means).tolist() == [0, 1, 2]
    est, wid = dict(enumerate(state.estimates)), dict(enumerate(state.widths))
    assert stage_rule(est, wid, state.budget, stage, "paper") == ([], [0, 2])
    assert stage_rule(est, wid, state.budget, stage, "repaired") == ([], [0, 1, 2])
    assert stage_rule(est, wid, state.budget, stage, "tight") == ([0], [1, 2])


def test_three_arms_need_a_stage():
    with pytest.raises(ValueError, match="stage must be a whole number from 1, got 0"):
        three_arms(0)
