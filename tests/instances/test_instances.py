import numpy as np
import pytest

from armtriage import CombinatorialElimination, FeedbackGraph
from armtriage.instances import (
    GRAPHS,
    NOISES,
    gap_instance,
    hidden_arm,
    hidden_pairs,
    hidden_parts,
    random_bernoulli,
    revealing_hubs,
    three_arms,
    two_hubs,
    ucb_failure,
)
from twins.linear import stage_rule


def test_random_means_come_from_the_seed():
    graph = FeedbackGraph.cliques([3, 4])
    env = random_bernoulli(graph, low=0.2, high=0.6, seed=11)
    assert np.array_equal(env.means, np.random.default_rng(11).uniform(0.2, 0.6, 7))
    assert env.seed == 11
    assert env.graph == graph
    assert env.reward == "bernoulli"
    assert random_bernoulli(graph).seed != random_bernoulli(graph).seed


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        (
            {"low": 0.7, "high": 0.6},
            ValueError,
            "low and high must satisfy 0 <= low <= high <= 1, got 0.7 and 0.6",
        ),
        ({"low": -0.1}, ValueError, "low and high .* got -0.1"),
        ({"high": float("nan")}, ValueError, "low and high .* nan"),
        ({"high": "1"}, TypeError, "high must be a number, got '1'"),
        ({"reward": "cauchy"}, ValueError, "reward must be one of .* got 'cauchy'"),
        ({"seed": -1}, ValueError, "seed must be"),
    ],
)
def test_random_refuses(options, error, says):
    with pytest.raises(error, match=says):
        random_bernoulli(FeedbackGraph.semi_bandit(2), **options)


def test_random_needs_a_graph():
    with pytest.raises(TypeError, match="graph must be a FeedbackGraph, got int"):
        random_bernoulli(3)


def test_failure_means_by_hand():
    # L = 6, alpha = 4, T = 900: D = 6 sqrt(4 / 3600) = 0.2 and e = 6 / sqrt(16 * 900) = 0.05.
    env = ucb_failure(2, 4, horizon=900, width=6.0, n_arms=10)
    assert env.means == pytest.approx([0.7, 0.7, 0.45, 0.45, 0.4, 0.4, 0.35, 0.35, 0.0, 0.0])
    assert env.graph == FeedbackGraph.cliques([2, 2, 2, 4])
    assert env.reward == "deterministic"
    assert env.regret([0, 1]) == 0.0
    assert env.regret([2, 3]) == pytest.approx(0.5)


def test_failure_width_is_the_policys_own():
    from armtriage import CombinatorialUCB

    env = ucb_failure(4, 4, horizon=5000, delta=0.05)
    width = CombinatorialUCB(env.graph, 4, horizon=5000, delta=0.05).width
    assert env.means[0] == pytest.approx(0.5 + width * np.sqrt(4 / 20_000))


@pytest.mark.parametrize("alpha", [2, 3, 50])
def test_failure_means_reach_the_ends_at_the_least_horizon(alpha):
    env = ucb_failure(1, alpha, horizon=alpha * 9, width=3.0)
    assert env.means[0] == pytest.approx(1.0)
    assert env.means.min() >= 0.0


@pytest.mark.parametrize(
    ("arguments", "options", "says"),
    [
        ((2, 1), {}, "alpha must be a whole number from 2"),
        ((0, 2), {}, "budget must be a whole number from 1"),
        ((2, 3), {"n_arms": 5}, r"n_arms must be at least budget \* alpha = 6, got 5"),
        ((2, 3), {"noise": "loud"}, "noise must be one of deterministic, shared, independent, got 'loud'"),
        ((2, 3), {"width": 0.0}, "width must be a positive number, got 0.0"),
        ((2, 3), {"width": float("inf")}, "width must be a positive number, got inf"),
        ((2, 3), {"delta": 1.0}, "delta must be a number strictly between 0 and 1, got 1.0"),
        (
            (2, 3),
            {"horizon": 26, "width": 3.0},
            r"horizon must be at least alpha \* width\*\*2 = 27 .* got 26",
        ),
        ((2, 3), {"horizon": 0}, "horizon must be a whole number from 1"),
    ],
)
def test_failure_refuses(arguments, options, says):
    with pytest.raises(ValueError, match=says):
        ucb_failure(*arguments, **{"horizon": 10_000, **options})


def _rewards(noise, rounds=2000):
    env = ucb_failure(3, 3, horizon=10_000, noise=noise, seed=5)
    return env, np.array([env.rewards(t, np.arange(9)) for t in range(rounds)]).reshape(rounds, 3, 3)


def test_deterministic_rewards_are_the_means():
    env, rewards = _rewards("deterministic", 3)
    assert np.array_equal(rewards.reshape(3, 9), np.tile(env.means, (3, 1)))


def test_shared_noise_is_equal_inside_a_clique_and_not_across():
    env, rewards = _rewards("shared")
    assert np.all(rewards == rewards[:, :, :1])
    assert abs(np.corrcoef(rewards[:, 0, 0], rewards[:, 1, 0])[0, 1]) < 0.1
    assert rewards.mean(axis=0).ravel() == pytest.approx(env.means, abs=0.05)


def test_independent_noise_differs_inside_a_clique():
    env, rewards = _rewards("independent")
    assert set(np.unique(rewards)) == {0.0, 1.0}
    assert abs(np.corrcoef(rewards[:, 0, 0], rewards[:, 0, 1])[0, 1]) < 0.1
    assert rewards.mean(axis=0).ravel() == pytest.approx(env.means, abs=0.05)


def test_every_noise_is_known():
    assert {ucb_failure(1, 2, horizon=100, noise=noise, width=1.0).n_arms for noise in NOISES} == {2}


def test_graph_families():
    assert GRAPHS["semi_bandit"](n_arms=3) == FeedbackGraph.semi_bandit(3)
    assert GRAPHS["full_information"](n_arms=3) == FeedbackGraph.full_information(3)
    assert GRAPHS["cliques"](n_arms=7, size=3) == FeedbackGraph.cliques([3, 3, 1])
    assert GRAPHS["cliques"](n_arms=6, size=3) == FeedbackGraph.cliques([3, 3])
    assert GRAPHS["threshold"](n_arms=4, direction="down") == FeedbackGraph.threshold(4, "down")
    assert GRAPHS["erdos_renyi"](n_arms=9, p=0.3, seed=2) == FeedbackGraph.erdos_renyi(9, 0.3, 2)
    star = GRAPHS["star"](n_arms=4)
    assert star.revealed_by(0).tolist() == [0, 1, 2, 3]
    assert star.revealed_by(2).tolist() == [0, 2]
    assert GRAPHS["star"](n_arms=4, undirected=False).revealed_by(2).tolist() == [2]
    assert GRAPHS["star"](n_arms=1).n_arms == 1
    with pytest.raises(ValueError, match="size must be a whole number from 1 to 4, got 5"):
        GRAPHS["cliques"](n_arms=4, size=5)


def test_random_tournaments():
    graph = GRAPHS["tournament"](n_arms=40, seed=3)
    matrix = graph.to_sparse().toarray()
    assert np.array_equal(matrix ^ matrix.T, ~np.eye(40, dtype=bool))
    assert graph == GRAPHS["tournament"](n_arms=40, seed=3) != GRAPHS["tournament"](n_arms=40, seed=4)
    # 780 fair coins: off by more than 100 with probability below 1e-11.
    assert abs(int(np.triu(matrix, 1).sum()) - 390) < 100
    assert GRAPHS["tournament"](n_arms=1).n_arms == 1
    with pytest.raises(ValueError, match="n_arms must be a whole number from 1 to 10000, got 10001"):
        GRAPHS["tournament"](n_arms=10_001)


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


def test_gap_instance_by_hand():
    graph = FeedbackGraph.cliques([2, 2, 3])
    env = gap_instance(graph, 3, 0.25, seed=3)
    assert env.means.tolist() == [0.75] * 3 + [0.5] * 4
    assert (env.seed, env.reward, env.graph) == (3, "bernoulli", graph)
    assert gap_instance(graph, 3, 0.5, mean=0.25, spread=True).means.tolist() == [0.75, 0.25] * 2 + [0.75, 0.25, 0.25]


@pytest.mark.parametrize(("n_arms", "budget"), [(7, 3), (100, 10), (5, 5), (11, 1)])
def test_spread_arms_lie_one_in_each_part(n_arms, budget):
    means = gap_instance(FeedbackGraph.semi_bandit(n_arms), budget, 0.1, spread=True).means
    parts = np.array_split(means > 0.5, budget) if n_arms % budget == 0 else [means > 0.5]
    assert sum(part.sum() for part in parts) == budget
    assert n_arms % budget or all(part.sum() == 1 for part in parts)


def test_hubs_by_hand():
    env = revealing_hubs(9, 2, 3, 0.3, seed=3)
    assert sorted(env.means.tolist()) == pytest.approx([0.1] * 2 + [0.5] * 4 + [0.8] * 3)
    assert env.means[:2].tolist() == [0.1, 0.1]
    revealed = [env.graph.revealed_by([hub]).tolist() for hub in (0, 1)]
    assert revealed == [[0, 2, 3, 4, 5], [1, 6, 7, 8]]
    assert all(env.graph.revealed_by([arm]).tolist() == [arm] for arm in range(2, 9))
    assert env.reward == "bernoulli"


def test_good_arms_lie_anywhere_behind_the_hubs():
    drawn = np.array([revealing_hubs(12, 2, 2, 0.4, mean=0.2, seed=seed).means > 0.5 for seed in range(300)])
    assert np.all(drawn.sum(axis=1) == 2)
    # Each of ten arms is good in 60 of 300 draws on average; none at all has probability below 1e-28.
    assert np.all(drawn[:, 2:].any(axis=0))
    assert np.array_equal(revealing_hubs(12, 2, 2, 0.4, seed=5).means, revealing_hubs(12, 2, 2, 0.4, seed=5).means)


@pytest.mark.parametrize(
    ("build", "arguments", "options", "says"),
    [
        (gap_instance, (FeedbackGraph.semi_bandit(3), 4, 0.1), {}, "budget must be at most 3, got 4"),
        (gap_instance, (FeedbackGraph.semi_bandit(3), 1, 0.6), {}, "gap must be a number from 0 to 0.5, got 0.6"),
        (gap_instance, (FeedbackGraph.semi_bandit(3), 1, 0.0), {}, "gap must be above 0, got 0.0"),
        (gap_instance, (FeedbackGraph.semi_bandit(3), 1, 0.1), {"mean": 1.5}, "mean must be a number from 0 to 1"),
        (revealing_hubs, (5, 0, 2, 0.1), {}, "n_hubs must be a whole number from 1"),
        (revealing_hubs, (5, 4, 2, 0.1), {}, "n_hubs must be at most 3, got 4"),
        (revealing_hubs, (2, 1, 2, 0.1), {}, "n_arms must be a whole number from 3"),
        (revealing_hubs, (5, 1, 2, 0.6), {}, "gap must be a number from 0 to 0.5, got 0.6"),
        (revealing_hubs, (5, 1, 2, 0.1), {"hub_mean": 0.6}, "hub_mean must be a number from 0 to 0.5, got 0.6"),
        (revealing_hubs, (5, 1, 2, 0.1), {"seed": -1}, "seed must be"),
    ],
)
def test_gaps_and_hubs_refuse(build, arguments, options, says):
    with pytest.raises(ValueError, match=says):
        build(*arguments, **options)


def test_gap_instance_needs_a_graph_and_a_truth_value():
    with pytest.raises(TypeError, match="graph must be a FeedbackGraph, got int"):
        gap_instance(3, 1, 0.1)
    with pytest.raises(TypeError, match="spread must be"):
        gap_instance(FeedbackGraph.semi_bandit(3), 1, 0.1, spread=1)


def test_hidden_arm_means_by_hand():
    # Arms 1 and 4 are worth nothing, and reveal what is theirs; S = 2.
    graph = FeedbackGraph.from_edges(7, [(1, 0), (1, 2), (4, 3), (4, 5)])
    independent = [6, 0, 5, 2, 3]
    plain = hidden_arm(graph, 2, independent=independent, gap=0.2, seed=3)
    assert plain.means == pytest.approx([0.45, 0, 0.25, 0.25, 0, 0.25, 1])
    assert (plain.seed, plain.reward, plain.graph) == (3, "bernoulli", graph)
    assert plain.regret([0, 6]) == 0.0
    for hidden, arm in ((1, 5), (2, 2), (3, 3)):
        env = hidden_arm(graph, 2, independent=independent, gap=0.2, hidden=hidden)
        assert np.flatnonzero(env.means != plain.means).tolist() == [arm]
        assert env.means[arm] == pytest.approx(0.65)
        assert env.regret([0, 6]) == pytest.approx(0.2)


def test_hidden_pairs_by_hand():
    graph = FeedbackGraph.semi_bandit(7)
    env = hidden_pairs(graph, 3, gap=0.5, good=[1, 0, 0])
    assert env.means.tolist() == [0.25, 0.75, 0.75, 0.25, 0.75, 0.25, 0.0]
    drawn = np.array([hidden_pairs(graph, 3, gap=0.5, seed=seed).means for seed in range(200)])
    assert np.all(drawn[:, :6].reshape(200, 3, 2).sum(axis=2) == 1.0)
    # Each of three fair coins: off by more than 50 of 200 with probability below 1e-11.
    assert np.all(np.abs((drawn[:, :6:2] > 0.5).sum(axis=0) - 100) < 50)


def test_hidden_parts_by_hand():
    graph, alpha = FeedbackGraph.cliques([2] * 11), 11
    options = {"independent": range(0, 22, 2), "horizon": 2000}
    gap = np.sqrt(alpha / (3 * 2000)) / 64
    for seed in range(20):
        means = hidden_parts(graph, 3, **options, seed=seed).means
        parts = means[0:18:2].reshape(3, 3)
        assert np.sort(parts, axis=1) == pytest.approx(np.tile([0.25, 0.25, 0.25 + gap], (3, 1)))
        assert not means[1::2].any()
        assert not means[18:].any()
    good = {tuple(hidden_parts(graph, 3, **options, gap=0.3, seed=seed).means[0:6:2] > 0.5) for seed in range(40)}
    assert len(good) == 3


@pytest.mark.parametrize("build", [hidden_arm, hidden_parts])
@pytest.mark.parametrize(
    ("change", "error", "says"),
    [
        ({"graph": 5}, TypeError, "graph must be a FeedbackGraph, got int"),
        ({"budget": 0}, ValueError, "budget must be a whole number from 1, got 0"),
        ({"budget": 8}, ValueError, "budget must be at most 7, got 8"),
        ({"independent": [0, 3, 5]}, ValueError, r"independent must have at least 2 \* budget = 4 arms, got 3"),
        ({"independent": [0, 3, 5, 5]}, ValueError, "independent must name each arm once"),
        ({"independent": [0, 3, 5, 7]}, ValueError, r"independent must lie in 0\.\.6"),
        ({"independent": [0, 2, 3, 5]}, ValueError, "arms that do not reveal each other, got 3, which reveals others"),
        ({"independent": [0, 1, 3, 5]}, ValueError, "arms that do not reveal each other, got 0, which reveals others"),
        ({"gap": 0.0}, ValueError, "gap must lie above 0"),
        ({"gap": 0.9}, ValueError, "gap must be a number from 0 to"),
        ({"seed": -1}, ValueError, "seed must be"),
    ],
)
def test_hidden_instances_refuse(build, change, error, says):
    graph = FeedbackGraph.from_edges(7, [(0, 1), (3, 6), (3, 2)])
    options = {"graph": graph, "budget": 2, "independent": [0, 3, 4, 5], "gap": 0.1}
    if build is hidden_parts:
        options["horizon"] = 100
    assert build(**options).n_arms == 7
    with pytest.raises(error, match=says):
        build(**options | change)


@pytest.mark.parametrize(
    ("build", "options", "says"),
    [
        (hidden_arm, {"independent": range(6), "gap": 0.1, "hidden": 5}, "hidden must be at most 4, got 5"),
        (hidden_arm, {"independent": range(6), "gap": 0.26}, "gap must be a number from 0 to 0.25"),
        (hidden_pairs, {"gap": 0.51}, "gap must be a number from 0 to 0.5"),
        (hidden_pairs, {"gap": 0.1, "good": [0]}, "good must have an entry for each of the 2 pairs, got 1"),
        (hidden_pairs, {"gap": 0.1, "good": [0, 2]}, r"good must lie in 0\.\.1"),
        (
            hidden_parts,
            {"independent": range(6), "horizon": 107},
            r"horizon must be at least alpha\^3 / budget = 108 if no gap is given, got 107",
        ),
    ],
)
def test_hidden_instances_refuse_what_their_bound_does_not_cover(build, options, says):
    with pytest.raises(ValueError, match=says):
        build(FeedbackGraph.semi_bandit(6), 2, **options)


def test_hidden_pairs_need_two_arms_a_slot():
    with pytest.raises(ValueError, match=r"graph must have at least 2 \* budget = 6 arms, got 5"):
        hidden_pairs(FeedbackGraph.semi_bandit(5), 3, gap=0.1)


def test_hidden_instances_of_a_million_arms():
    graph = FeedbackGraph.cliques([1000] * 1000)
    env = hidden_arm(graph, 5, independent=np.arange(1000) * 1000, gap=0.1)
    assert np.count_nonzero(env.means) == 1000
