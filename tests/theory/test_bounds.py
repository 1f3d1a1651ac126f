"""Bounds on regret: hand-worked values, their proofs in numbers, and runs that obey them."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.stats import binom

from armtriage import (
    C2UCB,
    CombinatorialElimination,
    CombinatorialUCB,
    ConstrainedElimination,
    FeedbackGraph,
    Greedy,
    GuardedLinear,
    HierarchicalElimination,
    ReplayEnvironment,
    StochasticEnvironment,
    ThompsonSampling,
    hidden_arm,
    hidden_pairs,
    hidden_parts,
    linear_blocks,
    partition,
    random_bernoulli,
    random_linear,
    simulate,
    star,
    ucb_failure,
)
from armtriage import theory as bounds
from armtriage.intervals import kl
from armtriage.theory.bounds.bound import two_point_regret

# K = 10, S = 2, T = 1000, and delta such that L = ln(2KT/delta) = 10.
DELTA = 20_000 * math.exp(-10)
SIZES = {"n_arms": 10, "budget": 2, "alpha": 5, "horizon": 1000, "delta": DELTA}
PRINTED_LAYER = 500 * math.log(10) ** 2  # 100 alpha ln(K)^2, about 2651

CLIQUES = FeedbackGraph.cliques([4] * 5)
WORLDS = {
    "semi-bandit": random_bernoulli(FeedbackGraph.semi_bandit(12), seed=1),
    "cliques": random_bernoulli(CLIQUES, seed=2),
    "digraph": random_bernoulli(FeedbackGraph.erdos_renyi(20, 0.2, seed=3), seed=3),
    "full": random_bernoulli(FeedbackGraph.full_information(10), seed=4),
    # Two arms tie at rank 3 = S; the footnote of the paper says that this changes nothing.
    "ties": StochasticEnvironment([0.9, 0.8, 0.5, 0.5, 0.1], FeedbackGraph.semi_bandit(5), seed=5),
    "nothing worse": StochasticEnvironment([0.9, 0.8, 0.5, 0.5], FeedbackGraph.semi_bandit(4), seed=6),
}
ALPHA = {"semi-bandit": 12, "cliques": 5, "full": 1, "ties": 5, "nothing worse": 4}


def test_layer_sizes_by_hand():
    assert bounds.layer_size(10, 5, undirected=True) == 5
    assert bounds.layer_size(100, 5) == 5 + 30  # 10 ln(20) = 29.96
    assert bounds.layer_size(10, 5) == 10  # 5 + ceil(6.93) = 12, but there are no more than 10 arms
    assert bounds.layer_size(10, 10) == 10  # semi-bandit
    assert bounds.layer_size(10, 1) == 6  # 1 + ceil(4.6)
    assert bounds.layer_size(10, 5, constants="printed") == pytest.approx(PRINTED_LAYER)


@pytest.mark.parametrize(
    ("rule", "value"),
    [
        # B = 5 + 2 = 7 and L / gap = 20.
        ({"benchmark": "printed", "interval": "printed"}, 7 * (1 + 64 * 20)),
        ({"benchmark": "printed", "interval": "hoeffding"}, 7 * (1 + 32 * 20)),
        ({"benchmark": "reduced", "interval": "printed"}, 7 * (1 + 49.5 * 20)),
        ({"benchmark": "reduced", "interval": "hoeffding"}, 7 * (1 + 24.75 * 20)),
        ({"benchmark": "reduced", "interval": "kl"}, 7 * (1 + 24.75 * 20)),
        # ln(2K/delta) + ln(T)/2 = 10 - ln(1000)/2 in place of L.
        ({}, 7 * (1 + 24.75 * 2 * (10 - 0.5 * math.log(1000)))),
        ({"constants": "printed"}, (PRINTED_LAYER + 2) * (1 + 128 * 20)),
    ],
)
def test_gap_bound_by_hand(rule, value):
    assert bounds.gap_upper(**SIZES, gap=0.5, undirected=True, **rule).value == pytest.approx(value)


def test_gap_bound_with_ties_by_hand():
    # 4 widths must fall below 0.5, and 8 widths below 0.25: 2 * 8 * 10 * max(4 / 0.5, 8 / 0.25) = 5120.
    rule = {"benchmark": "printed", "interval": "printed", "undirected": True, "gap": 0.5}
    assert bounds.gap_upper(**SIZES, **rule, tie_gap=0.25).value == pytest.approx(7 * 5121)
    # Where nothing is worse, or nothing is better, the other one counts; without both, nothing is lost after layer 0.
    assert bounds.gap_upper(**SIZES, **rule | {"gap": math.inf}, tie_gap=0.25).value == pytest.approx(7 * 5121)
    assert bounds.gap_upper(**SIZES, **rule, tie_gap=math.inf).value == pytest.approx(7 * 1281)
    assert bounds.gap_upper(**SIZES, **rule | {"gap": math.inf}).value == 7
    printed = bounds.gap_upper(**SIZES, gap=0.5, tie_gap=0.25, constants="printed")
    assert (printed.value, printed.reason) == (None, "needs means that do not tie at rank S")


@pytest.mark.parametrize(
    ("rule", "value"),
    [
        # L B S T = 10 * 7 * 2000 = 140000.
        ({"benchmark": "printed", "interval": "printed"}, 7 + 16 * math.sqrt(140_000)),
        ({"benchmark": "printed", "interval": "hoeffding"}, 7 + 16 * math.sqrt(70_000)),
        ({"interval": "hoeffding"}, 7 + 12 * math.sqrt(33 / 32) * math.sqrt(70_000)),
        ({}, 7 + 12 * math.sqrt(33 / 32) * math.sqrt(14_000 * (10 - 0.5 * math.log(1000)) / 2)),
        (
            {"constants": "printed"},
            (PRINTED_LAYER + 2) * (1 + 16 * math.sqrt(10 * (2 + 2000 / PRINTED_LAYER))),
        ),
    ],
)
def test_minimax_bound_by_hand(rule, value):
    assert bounds.minimax_upper(**SIZES, undirected=True, **rule).value == pytest.approx(value)


def test_time_uniform_widths_by_hand():
    # Scale v of the half-width sqrt(v / n) at n = T = 1000; the bound is 7 + 12 sqrt(v 14000).
    stitched = 0.85**2 * (math.log(math.log(2000)) + 0.72 * math.log(104 / DELTA))
    peeled = 1.1 * math.log(16 * 10 * 10 * 11 / DELTA) / 2  # 2^9 <= 1000 < 2^10
    for interval, scale in (("hoeffding", stitched), ("kl", peeled)):
        bound = bounds.minimax_upper(**SIZES, undirected=True, interval=interval, anytime=True)
        assert bound.value == pytest.approx(7 + 12 * math.sqrt(33 / 32 * 14_000 * scale))
    uniform = bounds.minimax_upper(**SIZES, undirected=True, anytime=True)
    assert uniform.value == bounds.minimax_upper(**SIZES, undirected=True).value  # the mixture always is


def test_full_information_bound_of_ucb_by_hand():
    sizes = {"n_arms": 10, "budget": 2, "horizon": 1000, "delta": DELTA}
    assert bounds.ucb_full_information_upper(**sizes, constants="printed").value == pytest.approx(4 * 2 * 100 + 4)
    assert bounds.ucb_full_information_upper(**sizes).value == pytest.approx(2 + 4 * math.sqrt(2) * 100)


def test_lower_bound_with_gap_by_hand():
    # gap 1/4, S = 2, alpha = 4: kl(1/4, 3/4) = ln(3)/2, and min(gap (alpha - S), 1/4) = 1/4.
    sizes = {"budget": 2, "alpha": 4, "gap": 0.25}
    # C = 1/16, p = 0, T = 12: ln(12 / 4) / (ln(3)/2) = 2 observations.
    family = {**sizes, "horizon": 12, "constant": 1 / 16}
    assert bounds.gap_lower(**family).value == pytest.approx(0.5)
    assert bounds.gap_lower(**family, constants="printed").value == pytest.approx(3 * 16 / 136 * math.log(3))
    # gap 1/32 <= 1 / (4 alpha), T = 96: the printed 3 alpha / (32 gap) ln(3).
    flat = {"budget": 2, "alpha": 4, "gap": 1 / 32, "horizon": 96, "constant": 1 / 16, "constants": "printed"}
    assert bounds.gap_lower(**flat).value == pytest.approx(12 * math.log(3))
    # p = 1/2 takes the root of T.
    root = {**sizes, "horizon": 144, "constant": 1 / 16, "exponent": 0.5}
    assert bounds.gap_lower(**root).value == pytest.approx(0.5)
    # Where all arms are independent there is no 1/4: gap (alpha - S) = 1/2.
    assert bounds.gap_lower(**family, n_arms=4).value == pytest.approx(1.0)
    assert bounds.gap_lower(**family, n_arms=5).value == pytest.approx(0.5)
    # For any policy: R = (1/4) ln(T / (32 R)) / (ln(3)/2); R = 1/(2 ln 3) solves it for T = 16 e / ln(3).
    value = float(two_point_regret(0.25, 0.5 * math.log(3), 0.25, 16 * math.e / math.log(3)))
    assert value == pytest.approx(0.5 / math.log(3))


def test_lower_bound_with_full_information_by_hand():
    # gap 1/2: kl(3/4, 1/4) + kl(1/4, 3/4) = ln(3), so q = 1/3; S gap / 4 = 1/4.
    value = bounds.full_information_lower(n_arms=4, budget=2, horizon=[1, 2, 3], gap=0.5).value
    assert value == pytest.approx([1 / 4, 1 / 4 + 1 / 12, 1 / 4 + 1 / 12 + 1 / 36])
    printed = bounds.full_information_lower(n_arms=4, budget=2, horizon=[3, 9], gap=0.5, constants="printed").value
    assert printed == pytest.approx(np.array([3, 4]) * math.exp(-16 / 3) / 4)


def test_lower_bound_for_ucb_by_hand():
    # L = 2, S = 3, alpha = 4, T = 100: L S sqrt(alpha T) = 120; 3 / (4 * 6) = 1/8.
    sizes = {"n_arms": 12, "budget": 3, "alpha": 4, "horizon": 100, "width": 2.0}
    assert bounds.ucb_lower(**sizes).value == pytest.approx(15)
    assert bounds.ucb_lower(**sizes, constants="printed").value == pytest.approx(3.75)
    default = bounds.ucb_lower(n_arms=10, budget=2, alpha=5, horizon=1000, delta=DELTA)
    assert default.value == pytest.approx(4 / 28 * 2 * math.sqrt(5 * 10 * 1000))


def test_linear_bounds_by_hand():
    # S T = 4 * 1024 = 2^12 makes 6 stages; 2KT = 20480.
    sizes = {"n_arms": 10, "dimension": 9, "budget": 4, "horizon": 1024}
    # a = d ln(1 + S T / d) / ln 2; in units of the spread 3 / sqrt(2) m sqrt(a S T) + a S + sqrt(S T).
    a = 9 * math.log2(1 + 4096 / 9)
    width = 2 * (1 + math.sqrt(math.log(20_480)))
    expected = 16 * (64 + 4 * a + 3 / math.sqrt(2) * width * math.sqrt(a) * 64)
    assert bounds.linear_upper(**sizes, variant="repaired").value == pytest.approx(expected)
    tight = 0.5 * math.sqrt(2 * math.log(20_480 * 6 / 0.05)) + 1
    value = bounds.linear_upper(**sizes, delta=0.05, noise_scale=0.5).value
    assert value == pytest.approx(12 * (64 + 4 * a + 3 / math.sqrt(2) * tight * math.sqrt(a) * 64))
    # d = 1: D = sqrt(3 / (32 S T)), and D S T / 4 is lost.
    lower = {"n_arms": 10, "budget": 4, "horizon": 1024}
    assert bounds.linear_lower(**lower, dimension=1).value == pytest.approx(math.sqrt(3 / 32) * 64 / 4)
    assert bounds.linear_lower(**lower, dimension=1, constants="printed").value == pytest.approx(64 / 3)
    # d = 3: 3 groups of 1 arm, theta sqrt(9 / (32 * 4096)); a quarter of 3 T pulls is lost, or d = 1 is more.
    groups = 3 * 1024 * math.sqrt(9 / (32 * 4096)) / 4
    assert bounds.linear_lower(**lower, dimension=3).value == pytest.approx(max(groups, math.sqrt(3 / 32) * 16))
    # d = 4: 4 groups of 1 arm: 4 * 1024 * sqrt(12 / (32 * 4096)) / 4.
    assert bounds.linear_lower(**lower, dimension=4).value == pytest.approx(1024 * math.sqrt(12 / (32 * 4096)))


def test_lower_bound_of_linear_blocks_by_hand():
    # d = 9, S = 2: 2 blocks of 5000 rounds. With gap g a round tells kl + kl between coins of 5/8 and 5/8 + g/2.
    value = bounds.linear_lower(n_arms=4, dimension=9, budget=2, horizon=10_000).value
    best = 0.0
    for gap in np.linspace(0.001, 0.1, 500):
        told = kl(0.625, 0.625 + gap / 2) + kl(0.625 + gap / 2, 0.625)
        best = max(best, 2 * 2 * gap / 4 * sum(math.exp(-told * t) for t in range(0, 5000, 10)) * 10)
    assert value == pytest.approx(best, rel=0.01)
    assert 0.09 < value / math.sqrt(9 * 2 * 10_000) < 0.12


def test_constrained_bounds_by_hand():
    sizes = {"n_arms": 10, "budget": 2, "horizon": 1000, "delta": DELTA, "gap": 0.5}
    # S kappa (1 + 32 L S / gap) = 6 (1 + 32 * 10 * 4).
    assert bounds.constrained_upper(**sizes, cover=3).value == pytest.approx(6 * 1281)
    assert bounds.constrained_upper(**sizes, cover=3, constants="printed").value == pytest.approx(6 * 1281)
    assert bounds.constrained_upper(**sizes, cover=3, interval="hoeffding").value == pytest.approx(6 * 641)
    greedy = bounds.constrained_upper(**sizes, cover=3, exact=False).value
    assert greedy == pytest.approx(6 * 1281 * (1 + math.log(10)))
    # 2 S B + 40 S^2 B L / gap with B = 5, and L = 10 - ln(1000)/2 for the mixture.
    mixture = 20 + 40 * 4 * 5 * 2 * (10 - 0.5 * math.log(1000))
    assert bounds.oracle_upper(**sizes, alpha=5, undirected=True).value == pytest.approx(mixture)
    hoeffding = bounds.oracle_upper(**sizes, alpha=5, undirected=True, interval="hoeffding").value
    assert hoeffding == pytest.approx(20 + 40 * 4 * 5 * 2 * 10)
    # R = m ln(gap T / (8 R)) / kl(1/4, 3/4) with m = (1/2)(10/2 - 1) = 2.
    lower = bounds.constrained_lower(n_arms=10, budget=2, horizon=1000, gap=0.5).value
    assert lower == pytest.approx(2 * math.log(500 / (8 * lower)) / kl(0.25, 0.75))


@pytest.mark.parametrize("gap", [0.02, 0.1, 0.3, 0.5])
def test_pairs_are_mistaken_as_often_as_the_bound_says(gap):
    # Under full information the best that can be done is to take from each pair the arm with more successes. Its
    # chance of error after n rounds is computed exactly, and the regret of n + 1 rounds sums it up.
    errors = []
    for n in range(40):
        x = np.arange(n + 1)
        good, bad = binom.pmf(x, n, 0.25 + gap), binom.pmf(x, n, 0.25)
        errors.append(0.5 * np.minimum(np.outer(good, bad), np.outer(bad, good)).sum())
    best = 3 * gap * np.cumsum(errors)  # 3 pairs
    bound = bounds.full_information_lower(n_arms=6, budget=3, horizon=np.arange(1, 41), gap=gap).value
    assert np.all(bound <= best)
    assert bound[0] == pytest.approx(best[0] / 2)


def test_regret_on_pairs_is_half_the_sum_of_both_mistakes():
    # Good arms not played, plus bad arms played: the identity that repairs the step (a) of the proof of (L2).
    env = hidden_pairs(FeedbackGraph.full_information(7), 2, gap=0.25, good=[0, 1])
    good, bad = {0, 3}, {1, 2}
    for arms in itertools.combinations(range(7), 2):
        mistakes = len(good - set(arms)) + len(bad & set(arms))
        exact = not set(arms) - good - bad
        assert env.regret(arms) >= 0.25 * mistakes / 2
        assert not exact or env.regret(arms) == pytest.approx(0.25 * mistakes / 2)


def test_two_point_regret_solves_its_equation():
    for slope, told, gap, horizon in itertools.product([0.01, 2.0], [1e-6, 0.3], [0.001, 0.5], [10, 1e9]):
        value = float(two_point_regret(slope, told, gap, horizon))
        assert value == pytest.approx(slope * math.log(gap * horizon / (8 * value)) / told, rel=1e-6)


def test_any_policy_loses_less_than_one_that_promises_much():
    # If nobody loses more than R, the bound for C T^p = R is at most R: it is the same equation with 16 for 8.
    sizes = {"budget": 2, "alpha": 20, "horizon": 10**6, "gap": 0.01}
    value = bounds.gap_lower(**sizes).value
    promise = bounds.gap_lower(**sizes, constant=value).value
    assert 0.5 * value < promise < value


def test_lower_bound_of_one_dimension_with_the_exact_divergence_is_no_smaller():
    # (D S T / 2) (1 - sqrt(S T kl / 2)) with the divergence of Bern((1-D)/2) from Bern((1+D)/2) in place of 16 D^2 / 3.
    for rewards in (4, 100, 10**6):
        gap = math.sqrt(3 / (32 * rewards))
        exact = 0.5 * gap * rewards * (1 - math.sqrt(0.5 * rewards * kl((1 - gap) / 2, (1 + gap) / 2)))
        assert exact >= bounds.linear_lower(n_arms=2, dimension=1, budget=1, horizon=rewards).value


def test_minimax_lower_bound_is_the_best_of_its_formula():
    def formula(gap, share, budget, size, horizon):
        outside = 4 * gap * budget * horizon * (1 - 1 / share)
        seen = (share * horizon + budget) / size + outside + 1
        found = (share + budget / horizon) / size + math.sqrt(kl(0.25, 0.25 + gap) * seen / 2)
        return gap * budget * horizon * (1 - 1 / share - found)

    for budget, alpha, horizon in ((1, 100, 10**6), (3, 200, 10**5), (5, 1000, 10**8)):
        size = alpha // budget
        tried = itertools.product(np.linspace(0.02, 0.3, 50), np.linspace(1.5, 9, 50))
        best = max(formula(x * math.sqrt(size / horizon), y, budget, size, horizon) for x, y in tried)
        value = bounds.minimax_lower(n_arms=alpha, budget=budget, alpha=alpha, horizon=horizon).value
        assert value == pytest.approx(best, rel=0.02)
        assert value >= 0.03 * math.sqrt(alpha * budget * horizon)


def test_minimax_lower_bound_is_that_of_pairs_for_few_independent_arms():
    tried = [
        bounds.full_information_lower(n_arms=20, budget=5, horizon=10**4, gap=gap).value
        for gap in np.linspace(0.002, 0.05, 200)
    ]
    value = bounds.minimax_lower(n_arms=20, budget=5, alpha=20, horizon=10**4).value
    assert value == pytest.approx(max(tried), rel=0.01)
    assert value == pytest.approx(0.069 * 5 * 100, rel=0.01)


def layers(means, budget, layer, scale, horizon, spread, above):
    """The sum over layers of `instance_upper`, one layer and one arm after the other."""
    order = sorted(means, reverse=True)
    rank, rest = order[budget - 1], order[budget:]
    whole = slots = 0.0
    left = budget * horizon
    for n in range(horizon):
        width = math.sqrt(scale / n) if n else math.inf
        active = [rank - m for m in rest if rank - m <= 4 * width]
        excess = max(m - rank for m in order[:budget] if m - rank <= above * width)
        picks, fill = sorted(active)[::-1][:layer], sorted(active)[::-1][: budget - 1]
        price = min(spread * width, excess + max(active)) if active else 0.0
        pulls = len(picks) + len(fill)
        whole += min(pulls * price, pulls * excess + sum(picks) + sum(fill))
        slots += min(pulls, left) * price
        left -= min(pulls, left)
    return min(whole, slots)


@pytest.mark.parametrize("number", range(8))
def test_instance_bound_is_the_sum_over_layers(number):
    rng = np.random.default_rng([7, number])
    n_arms = int(rng.integers(3, 12))
    budget = int(rng.integers(1, n_arms))
    means = rng.random(n_arms) if number % 2 else rng.integers(0, 4, n_arms) / 4
    horizon = (50, 500, 5000)[number % 3]
    rule = {"benchmark": ("reduced", "printed")[number % 2], "interval": "hoeffding"}
    spread, above = ((6, 4), (8, 6))[number % 2]
    scale = (33 / 32, 1)[number % 2] * math.log(2 * n_arms * horizon / 0.05) / 2
    bound = bounds.instance_upper(means, budget, alpha=n_arms, undirected=True, horizon=horizon, delta=0.05, **rule)
    expected = layers(means, budget, n_arms, scale, horizon, spread, above)
    assert bound.value == pytest.approx(expected, rel=1e-3)
    assert bound.value >= expected * (1 - 1e-9)


GRID = [
    {"n_arms": n_arms, "budget": budget, "alpha": alpha, "horizon": horizon}
    for n_arms, budget, alpha in [(4, 1, 2), (20, 5, 20), (20, 5, 1), (100, 3, 40), (1000, 10, 300), (1000, 100, 250)]
    for horizon in (10**3, 10**6, 10**9)
]
GAPS = (0.001, 0.02, 0.25)


@pytest.mark.parametrize("constants", ["printed", "repaired"])
def test_upper_bounds_grow_with_what_makes_it_harder(constants):
    base = {"n_arms": 100, "budget": 5, "alpha": 20, "horizon": 10**5, "delta": 0.05, "constants": constants}
    harder = [{"alpha": 30}, {"budget": 6}, {"n_arms": 200}, {"horizon": 2 * 10**5}, {"delta": 0.01}]
    for more in harder:
        assert bounds.gap_upper(**base | more, gap=0.1).value > bounds.gap_upper(**base, gap=0.1).value
        assert bounds.minimax_upper(**base | more).value > bounds.minimax_upper(**base).value
    assert bounds.gap_upper(**base, gap=0.05).value > bounds.gap_upper(**base, gap=0.1).value


def test_lower_bounds_grow_with_what_makes_it_harder():
    sizes = {"budget": 2, "alpha": 20, "horizon": 10**5, "gap": 0.01}
    one = bounds.gap_lower(**sizes).value
    assert bounds.gap_lower(**sizes | {"alpha": 24}).value > one
    assert bounds.gap_lower(**sizes | {"horizon": 10**6}).value > one
    many = bounds.minimax_lower(n_arms=500, budget=2, alpha=400, horizon=[10**4, 10**5, 10**6]).value
    assert np.all(np.diff(many) > 0)
    assert bounds.minimax_lower(n_arms=500, budget=2, alpha=500, horizon=10**5).value > many[1]
    wide = [bounds.linear_lower(n_arms=20, dimension=d, budget=3, horizon=10**6).value for d in (1, 3, 7, 13, 31)]
    assert wide == sorted(wide)


@pytest.mark.parametrize("sizes", GRID)
@pytest.mark.parametrize("undirected", [True, False])
def test_printed_upper_bounds_are_larger(sizes, undirected):
    rule = {"benchmark": "printed", "interval": "printed", "undirected": undirected}
    assert bounds.minimax_upper(**sizes, constants="printed").value > bounds.minimax_upper(**sizes, **rule).value
    for gap in GAPS:
        printed = bounds.gap_upper(**sizes, gap=gap, constants="printed").value
        assert printed > bounds.gap_upper(**sizes, gap=gap, **rule).value


def test_printed_lower_bounds_can_be_larger_than_what_holds_or_smaller():
    family = {"budget": 2, "alpha": 20, "horizon": 10**9, "constant": 1.0, "exponent": 0.5}
    small, large = {"gap": 0.01}, {"gap": 0.25}
    assert bounds.gap_lower(**family, **small).value < bounds.gap_lower(**family, **small, constants="printed").value
    assert bounds.gap_lower(**family, **large).value > bounds.gap_lower(**family, **large, constants="printed").value
    pairs = {"n_arms": 20, "budget": 5, "horizon": 10**4, "gap": 0.1}
    assert (
        bounds.full_information_lower(**pairs, constants="printed").value < bounds.full_information_lower(**pairs).value
    )


@pytest.mark.parametrize("sizes", GRID)
def test_lower_bounds_lie_below_upper_bounds(sizes):
    # An upper bound holds with probability 1 - delta, and in the rest no more than S T is lost.
    n_arms, budget, alpha, horizon = sizes.values()
    delta = 1 / horizon
    rule = {"delta": delta, "undirected": True, "interval": "hoeffding"}
    slack = delta * budget * horizon
    minimax = bounds.minimax_upper(**sizes, **rule).value + slack
    lower = bounds.minimax_lower(**sizes).value
    assert lower is None or 0 < lower < minimax
    for gap in GAPS:
        upper = min(bounds.gap_upper(**sizes, **rule, gap=gap).value + slack, minimax, budget * horizon)
        hidden = bounds.gap_lower(budget=budget, alpha=alpha, horizon=horizon, gap=gap).value
        pairs = bounds.full_information_lower(n_arms=n_arms, budget=budget, horizon=horizon, gap=gap).value
        assert all(0 < one < upper for one in (hidden, pairs) if one is not None)
        assert (hidden is None) == (alpha < 2 * budget)
        assert pairs is not None


def test_bounds_of_guards_with_contexts_by_hand():
    # sigma = 1, B = 1, d = 4: the ridge is 4, and L = 4 ln(1 + 3 * 2^20 / 16).
    grown = 4 * math.log(1 + 3 * 2**20 / 16)
    reach = math.sqrt(grown + 2 * math.log(100) + 4)
    pulls = 3 * 2**20
    expected = 2 * reach * math.sqrt(grown / math.log(2) * pulls) + 2 * 3 * grown / math.log(2)
    sizes = {"dimension": 4, "budget": 3, "horizon": 2**20}
    assert bounds.guarded_linear_upper(**sizes, factor=0.5).value == pytest.approx(1.5 * expected)
    assert bounds.guarded_linear_upper(**{**sizes, "horizon": 2}).value == 2 * 2 * 3 * 2


def test_the_bound_by_counting_is_below_the_one_by_stages():
    times = np.array([1, 2, 3, 10, 10**3, 10**6, 10**9, 10**12])
    for n_arms, d, budget in itertools.product([1, 20, 10**4], [1, 3, 10, 50, 20_000], [1, 5, 20, 1000]):
        if budget > n_arms:
            continue
        stages = np.maximum(1, np.ceil(np.log2(np.sqrt(budget * times))))
        potential = math.sqrt(10) * np.log(times + 1) * (np.sqrt(d * budget * times) + d * budget)
        sizes = {"n_arms": n_arms, "dimension": d, "budget": budget, "horizon": times}
        for noise, delta in [(0.0, 0.01), (0.1, 0.5), (1.0, 1e-6)]:
            multiple = noise * np.sqrt(2 * np.log(2 * n_arms * times * stages / delta)) + 1
            before = 12 * (np.sqrt(budget * times) + multiple * stages * potential)
            assert (bounds.linear_upper(**sizes, noise_scale=noise, delta=delta).value < before).all()
        before = 16 * (np.sqrt(budget * times) + 2 * (1 + np.sqrt(np.log(2 * n_arms * times))) * stages * potential)
        assert (bounds.linear_upper(**sizes, variant="repaired").value < before).all()


def test_linear_and_constrained_lower_bounds_lie_below_upper_bounds():
    for dimension, budget, horizon in itertools.product([1, 4, 40], [1, 5], [10**5, 10**8]):
        sizes = {"n_arms": 20, "dimension": dimension, "budget": budget, "horizon": horizon}
        upper = bounds.linear_upper(**sizes, delta=1 / horizon).value + 2 * budget
        assert 0 < bounds.linear_lower(**sizes).value < min(upper, 2 * budget * horizon)
    for budget, gap, horizon in itertools.product([1, 5], [0.01, 0.4], [10**3, 10**7]):
        sizes = {"n_arms": 20, "budget": budget, "horizon": horizon, "gap": gap}
        upper = bounds.constrained_upper(**sizes, cover=20 // budget, delta=1 / horizon).value + budget
        assert 0 < bounds.constrained_lower(**sizes).value < min(upper, budget * horizon)


def test_instance_bound_is_the_sharpest():
    rng = np.random.default_rng(3)
    for _ in range(20):
        n_arms = int(rng.integers(2, 30))
        budget, alpha = int(rng.integers(1, n_arms)), int(rng.integers(1, n_arms + 1))
        means, horizon = rng.random(n_arms), int(10 ** rng.uniform(1, 7))
        rule = {"alpha": alpha, "horizon": horizon, "benchmark": str(rng.choice(["reduced", "printed"]))}
        order = np.sort(means)[::-1]
        sharp = bounds.instance_upper(means, budget, **rule, interval="hoeffding").value
        sizes = {"n_arms": n_arms, "budget": budget, "interval": "hoeffding", **rule}
        # Blocks of layers are charged at the price of their first one.
        assert sharp <= 1.001 * bounds.minimax_upper(**sizes).value
        assert sharp <= 1.001 * bounds.gap_upper(**sizes, gap=order[budget - 1] - order[budget]).value


def test_instance_bound_is_zero_where_nothing_can_be_lost():
    assert bounds.instance_upper([0.3, 0.7, 0.5], 3, alpha=3, horizon=1000).value == 0.0
    assert bounds.instance_upper([0.5, 0.5, 0.5], 2, alpha=3, horizon=1000).value == 0.0


def test_arrays_of_horizons_give_the_values_of_each():
    horizons = np.array([10, 1000, 10**6])
    graph = {"n_arms": 40, "budget": 3, "alpha": 18}
    linear = {"n_arms": 40, "budget": 3, "dimension": 4}
    cases = [
        (bounds.gap_upper, {**graph, "gap": 0.1}),
        (bounds.minimax_upper, graph),
        (bounds.minimax_upper, {**graph, "constants": "printed"}),
        (bounds.minimax_upper, {**graph, "interval": "kl", "anytime": True}),
        (bounds.minimax_lower, graph),
        (bounds.ucb_full_information_upper, {"n_arms": 40, "budget": 3}),
        (bounds.gap_lower, {"budget": 3, "alpha": 18, "gap": 0.1}),
        (bounds.full_information_lower, {"n_arms": 40, "budget": 3, "gap": 0.1}),
        (bounds.linear_upper, linear),
        (bounds.guarded_linear_upper, {"budget": 3, "dimension": 4}),
        (bounds.guarded_by_arm_upper, linear),
        (bounds.linear_lower, linear),
        (bounds.constrained_upper, {"n_arms": 40, "budget": 3, "cover": 5, "gap": 0.1}),
        (bounds.oracle_upper, {**graph, "gap": 0.1}),
        (bounds.constrained_lower, {"n_arms": 39, "budget": 3, "gap": 0.1}),
    ]
    for function, sizes in cases:
        whole = function(**sizes, horizon=horizons)
        single = [function(**sizes, horizon=int(horizon)) for horizon in horizons]
        assert np.array_equal(whole.vacuous, [one.vacuous for one in single])
        assert np.array_equal(whole.most, [one.most for one in single])
        numbers = [math.nan if one.value is None else one.value for one in single]
        assert whole.value == pytest.approx(numbers, nan_ok=True)
        assert all(isinstance(one.value, float | None) and isinstance(one.vacuous, bool) for one in single)
    many = bounds.instance_upper(np.linspace(0, 1, 40), 3, alpha=18, horizon=horizons).value
    assert many[1] == bounds.instance_upper(np.linspace(0, 1, 40), 3, alpha=18, horizon=1000).value


def test_rounds_before_the_horizon_have_widths_of_the_horizon():
    sizes = {"n_arms": 40, "budget": 3, "alpha": 18, "interval": "hoeffding"}
    curve = bounds.minimax_upper(**sizes, horizon=10**6, rounds=[100, 10**6])
    assert curve.value[1] == bounds.minimax_upper(**sizes, horizon=10**6).value
    assert curve.value[0] > bounds.minimax_upper(**sizes, horizon=100).value
    assert curve.most.tolist() == [300, 3 * 10**6]
    means = np.linspace(0, 1, 40)
    flat = bounds.instance_upper(means, 3, alpha=18, horizon=10**6, rounds=[100, 10**6]).value
    assert flat[1] == bounds.instance_upper(means, 3, alpha=18, horizon=10**6).value


@pytest.mark.parametrize(
    ("bound", "reason"),
    [
        (bounds.gap_lower(budget=3, alpha=5, horizon=100, gap=0.1), "needs alpha >= 2 S"),
        (bounds.gap_lower(budget=3, alpha=6, horizon=100, gap=0.3), "needs gap <= 1/4"),
        (
            bounds.gap_lower(budget=3, alpha=6, horizon=100, gap=0.1, constants="printed"),
            "needs constant and exponent, if printed",
        ),
        (
            bounds.gap_lower(budget=3, alpha=6, horizon=100, gap=0.1, constant=1.0, exponent=0.5),
            "needs gap > T^-(1 - p) and gap T^(1 - p) > 16 C",
        ),
        (bounds.full_information_lower(n_arms=5, budget=3, horizon=100, gap=0.1), "needs K >= 2 S"),
        (bounds.full_information_lower(n_arms=6, budget=3, horizon=100, gap=0.6), "needs gap <= 1/2"),
        (bounds.minimax_lower(n_arms=5, budget=3, alpha=5, horizon=100), "needs K >= 2 S"),
        (
            bounds.minimax_lower(n_arms=6, budget=3, alpha=5, horizon=100, constants="printed"),
            "needs a constant; none is printed",
        ),
        (bounds.ucb_lower(n_arms=10, budget=3, alpha=4, horizon=10**4), "needs S alpha <= K"),
        (bounds.ucb_lower(n_arms=10, budget=3, alpha=1, horizon=10**4), "needs alpha > 1"),
        (bounds.ucb_lower(n_arms=12, budget=3, alpha=4, horizon=15, width=2.0), "needs T >= alpha L^2"),
        (
            bounds.linear_upper(n_arms=5, dimension=2, budget=2, horizon=100, constants="printed"),
            "needs a constant; none is printed",
        ),
        (bounds.linear_lower(n_arms=5, dimension=2, budget=3, horizon=1000), "needs K >= 2 S"),
        (bounds.linear_lower(n_arms=6, dimension=9, budget=1, horizon=728), "needs T >= 4 d S and d^3 / S"),
        (
            bounds.linear_lower(n_arms=6, dimension=2, budget=1, horizon=728, constants="printed"),
            "needs d = 1; no other constant is printed",
        ),
        (bounds.constrained_lower(n_arms=7, budget=2, horizon=100, gap=0.1), "needs K a multiple of S, from 2 S on"),
        (bounds.constrained_lower(n_arms=8, budget=2, horizon=100, gap=1.0), "needs gap < S / 2"),
        (
            bounds.minimax_upper(n_arms=8, budget=2, alpha=3, horizon=100, interval="bernstein"),
            "needs an interval of known width, which bernstein is not here",
        ),
        (
            bounds.oracle_upper(n_arms=8, budget=2, alpha=3, horizon=100, gap=0.1, interval="printed", anytime=True),
            "needs an interval of known width, which printed is not here",
        ),
    ],
)
def test_bounds_say_which_condition_fails(bound, reason):
    assert (bound.value, bound.reason, bound.vacuous) == (None, reason, False)


def test_bounds_hold_for_the_horizons_that_meet_their_conditions():
    bound = bounds.ucb_lower(n_arms=12, budget=3, alpha=4, horizon=[15, 16, 100], width=2.0)
    assert np.isnan(bound.value).tolist() == [True, False, False]
    assert bound.reason == "needs T >= alpha L^2"
    assert not bound.vacuous.any()


def test_upper_bounds_say_when_they_are_vacuous():
    bound = bounds.minimax_upper(n_arms=10, budget=2, alpha=5, horizon=[10, 10**8])
    assert bound.vacuous.tolist() == [True, False]
    assert bound.most.tolist() == [20, 2 * 10**8]
    assert bounds.linear_upper(n_arms=10, dimension=2, budget=2, horizon=100).most == 400  # rewards in [-1, 1]


def test_brackets_count_at_the_end_that_is_safe():
    class Bracket:
        lower, upper = 10, 14

    sizes = {"n_arms": 40, "budget": 3, "horizon": 1000}
    assert bounds.minimax_upper(**sizes, alpha=Bracket()).value == bounds.minimax_upper(**sizes, alpha=14).value
    assert bounds.gap_lower(budget=3, alpha=Bracket(), horizon=1000, gap=0.01) == bounds.gap_lower(
        budget=3, alpha=10, horizon=1000, gap=0.01
    )


@pytest.mark.parametrize(
    ("change", "error", "says"),
    [
        ({"alpha": 0}, ValueError, "alpha must be a whole number from 1, got 0"),
        ({"alpha": 11}, ValueError, "alpha must be at most 10, got 11"),
        ({"alpha": 2.0}, TypeError, "alpha must be a whole number"),
        ({"budget": 11}, ValueError, "budget must be at most 10, got 11"),
        ({"horizon": 0}, ValueError, "horizon must be whole numbers from 1 to"),
        ({"horizon": 10.5}, TypeError, "horizon must be a whole number from 1, or an array of such, got 10.5"),
        ({"horizon": []}, TypeError, "horizon must be"),
        ({"rounds": [5, 0]}, ValueError, "rounds must be whole numbers from 1"),
        ({"delta": 1.0}, ValueError, "delta must be a number strictly between 0 and 1"),
        ({"gap": 0.0}, ValueError, "gap must be a number above 0, got 0.0"),
        ({"gap": math.nan}, ValueError, "gap must be a number above 0, got nan"),
        ({"gap": "0.1"}, TypeError, "gap must be a number above 0, got '0.1'"),
        ({"tie_gap": -1.0}, ValueError, "tie_gap must be a number above 0, got -1.0"),
        ({"interval": "normal"}, ValueError, "interval must be one of printed, hoeffding"),
        ({"benchmark": "best"}, ValueError, "benchmark must be one of reduced, printed, got 'best'"),
        ({"constants": "mine"}, ValueError, "constants must be one of repaired, printed, got 'mine'"),
        ({"undirected": 1}, TypeError, "undirected must be True or False"),
    ],
)
def test_bounds_refuse(change, error, says):
    with pytest.raises(error, match=says):
        bounds.gap_upper(**SIZES | {"gap": 0.1} | change)


@pytest.mark.parametrize("means", [[0.5, 1.5], [[0.5]], [], [0.5, math.nan]])
def test_instance_bound_refuses_means(means):
    with pytest.raises(ValueError, match=r"means must be a list of numbers in \[0, 1\]"):
        bounds.instance_upper(means, 1, alpha=1, horizon=10)


def test_ties_have_a_gap_of_their_own():
    assert bounds.tie_gap([0.5, 0.9, 0.5, 0.7], 3) == pytest.approx(0.2)
    assert bounds.tie_gap([0.5, 0.9, 0.5, 0.7], 2) is None
    assert bounds.tie_gap([0.5, 0.5], 2) is None
    assert bounds.tie_gap([0.5, 0.5, 0.1], 1) == math.inf


def listed(found):
    return [(bound.name, bound.constants) for bound in found]


GRAPH_LOWER = [("gap_lower", "repaired"), ("full_information_lower", "repaired"), ("minimax_lower", "repaired")]


def test_bounds_of_an_environment_with_a_graph():
    env = random_bernoulli(FeedbackGraph.semi_bandit(8), seed=1)
    found = bounds.bounds_for(env, 2, horizon=1000)
    both = [(name, one) for name in ("gap_upper", "minimax_upper") for one in ("repaired", "printed")]
    assert listed(found) == [*both, ("instance_upper", "repaired"), *GRAPH_LOWER, ("ucb_lower", "repaired")]
    order = np.sort(env.means)[::-1]
    sizes = {"n_arms": 8, "budget": 2, "alpha": 8, "horizon": 1000}
    gap = order[1] - order[2]
    assert found[0] == bounds.gap_upper(**sizes, gap=gap, undirected=True)
    assert found[4].value == bounds.instance_upper(env.means, 2, alpha=8, horizon=1000, undirected=True).value
    assert found[5] == bounds.gap_lower(**sizes, gap=gap)
    assert bounds.bounds_for(env, 2, horizon=1000, alpha=8)[:4] == found[:4]
    assert bounds.bounds_for(env, 2, horizon=1000, alpha=4)[2].value < found[2].value
    assert bounds.bounds_for(env, 2, horizon=1000, delta=0.5)[2].value < found[2].value


def test_bounds_of_an_environment_with_full_information():
    found = bounds.bounds_for(WORLDS["full"], 3, horizon=[100, 1000])
    assert ("ucb_full_information_upper", "printed") in listed(found)
    assert all(bound.value is None or bound.value.shape == (2,) for bound in found)


def test_bounds_of_an_environment_with_ties():
    found = {(bound.name, bound.constants): bound for bound in bounds.bounds_for(WORLDS["ties"], 3, horizon=1000)}
    assert found["gap_upper", "printed"].reason == "needs means that do not tie at rank S"
    sizes = {"n_arms": 5, "budget": 3, "alpha": 5, "horizon": 1000, "undirected": True}
    expected = bounds.gap_upper(**sizes, gap=0.4, tie_gap=0.3).value
    assert found["gap_upper", "repaired"].value == pytest.approx(expected)
    nothing = bounds.bounds_for(WORLDS["nothing worse"], 3, horizon=1000)
    assert not {"gap_lower", "full_information_lower"} & {bound.name for bound in nothing}


def test_bounds_of_a_policy_have_its_widths():
    env = WORLDS["cliques"]
    paper = CombinatorialElimination(env.graph, 3, horizon=5000, delta=0.1, variant="paper")
    found = bounds.bounds_for(env, 3, horizon=[100, 5000], policy=paper)
    assert listed(found)[:5] == [
        ("gap_upper", "repaired"),
        ("gap_upper", "printed"),
        ("minimax_upper", "repaired"),
        ("minimax_upper", "printed"),
        ("instance_upper", "repaired"),
    ]
    rule = {"benchmark": "printed", "interval": "printed", "delta": 0.1, "undirected": True}
    sizes = {"n_arms": 20, "budget": 3, "alpha": 5, "horizon": 5000, "rounds": [100, 5000]}
    assert np.array_equal(found[2].value, bounds.minimax_upper(**sizes, **rule).value)
    tight = bounds.bounds_for(env, 3, horizon=100, policy=CombinatorialElimination(env.graph, 3, interval="kl"))
    assert listed(tight)[:2] == [("gap_upper", "repaired"), ("minimax_upper", "repaired")]
    sizes = {"n_arms": 20, "budget": 3, "alpha": 5, "horizon": 100}
    assert tight[1].value == bounds.minimax_upper(**sizes, undirected=True, interval="kl", anytime=True).value
    assert listed(bounds.bounds_for(env, 3, horizon=100, policy=ThompsonSampling(env.graph, 3))) == GRAPH_LOWER
    ucb = bounds.bounds_for(env, 3, horizon=1000, policy=CombinatorialUCB(env.graph, 3, width=2.0))
    assert ucb[-1] == bounds.ucb_lower(n_arms=20, budget=3, alpha=5, horizon=1000, width=2.0)


def test_bounds_of_an_environment_with_decisions():
    env = partition(6, 2, gap=0.6, seed=1)
    found = bounds.bounds_for(env, horizon=1000)
    assert listed(found) == [
        ("constrained_upper", "printed"),
        ("constrained_upper", "repaired"),
        ("oracle_upper", "repaired"),
        ("constrained_lower", "repaired"),
    ]
    sizes = {"n_arms": 6, "budget": 2, "horizon": 1000, "gap": 0.6}
    assert found[1].value == pytest.approx(bounds.constrained_upper(**sizes, cover=3).value)
    assert found[2].value == pytest.approx(bounds.oracle_upper(**sizes, alpha=6, undirected=True).value)
    for variant, name in (("paper", 0), ("repaired", 1), ("oracle", 2)):
        policy = ConstrainedElimination(env.graph, env.decisions, horizon=1000, variant=variant)
        one = bounds.bounds_for(env, horizon=1000, policy=policy)
        assert listed(one) == [listed(found)[name], ("constrained_lower", "repaired")]
        assert one[0].value == pytest.approx(found[name].value)


def test_bounds_on_the_star_know_both_covers():
    # The centre alone covers the whole family; but the leaves need one decision each.
    found = bounds.bounds_for(star(5, gap=0.5, seed=1), horizon=1000)
    assert found[1].value == pytest.approx(5 * found[0].value)


def test_bounds_of_an_environment_with_contexts():
    env = random_linear(10, 2, seed=3)
    found = bounds.bounds_for(env, 3, horizon=1000)
    assert [bound.name for bound in found] == ["linear_upper", "linear_upper", "linear_lower"]
    policy = HierarchicalElimination(10, 2, 3, horizon=1000, noise_scale=0.5)
    one = bounds.bounds_for(env, 3, horizon=1000, policy=policy)
    sizes = {"n_arms": 10, "dimension": 2, "budget": 3, "horizon": 1000}
    assert one == [bounds.linear_upper(**sizes, noise_scale=0.5), bounds.linear_lower(**sizes)]
    guarded = GuardedLinear(10, 2, 3, noise_scale=0.5, norm_bound=2.0, factor=0.1)
    found = bounds.bounds_for(env, 3, horizon=1000, policy=guarded)
    about = {"dimension": 2, "budget": 3, "horizon": 1000, "noise_scale": 0.5, "norm_bound": 2.0, "factor": 0.1}
    assert found[0] == bounds.guarded_linear_upper(**about)
    paper = HierarchicalElimination(10, 2, 3, horizon=1000, variant="paper")
    assert bounds.bounds_for(env, 3, horizon=1000, policy=paper) == one[1:]


def test_bounds_of_an_environment_refuse():
    with pytest.raises(
        ValueError, match="budget must be given for an environment without a set of decisions, got None"
    ):
        bounds.bounds_for(WORLDS["full"], horizon=100)
    wide = CombinatorialElimination(WORLDS["full"].graph, 3, reward_range=(0.0, 10.0))
    with pytest.raises(
        ValueError, match=r"policy must have the reward_range \(0, 1\) of the bounds, got \(0.0, 10.0\)"
    ):
        bounds.bounds_for(WORLDS["full"], 3, horizon=100, policy=wide)
    with pytest.raises(TypeError, match="environment must be one with known means, got ReplayEnvironment"):
        bounds.bounds_for(ReplayEnvironment([[0, 1]], FeedbackGraph.semi_bandit(2)), 1, horizon=1)


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"interval": "hoeffding"},
        {"interval": "kl"},
        {"variant": "paper"},
        {"variant": "paper", "interval": "hoeffding"},
        {"variant": "paper", "fill": "random"},
    ],
    ids=lambda options: "-".join(options.values()) or "tight",
)
def test_regret_of_elimination_lies_below_its_bounds(world, options):
    # Each run may break its bounds with probability 0.01, far less in truth; these do not.
    env, horizon, budget = WORLDS[world], 30_000, 3
    policy = CombinatorialElimination(env.graph, budget, horizon=horizon, delta=0.01, seed=1, **options)
    trace = simulate(policy, env, horizon=horizon, replications=4, seed=1, checkpoints=20)
    order = np.sort(env.means)[::-1]
    smaller = order[order < order[budget - 1]]
    rule = {
        "alpha": ALPHA.get(world, 20),
        "horizon": horizon,
        "rounds": trace.rounds,
        "undirected": env.graph.is_undirected,
        "benchmark": policy.benchmark,
        "interval": policy.interval,
    }
    gaps = {
        "gap": order[budget - 1] - smaller[0] if smaller.size else math.inf,
        "tie_gap": bounds.tie_gap(env.means, budget),
    }
    sizes = {"n_arms": env.n_arms, "budget": budget, **rule}
    limits = [
        bounds.gap_upper(**sizes, **gaps),
        bounds.minimax_upper(**sizes),
        bounds.instance_upper(env.means, budget, **rule),
    ]
    assert all(np.all(trace.regret <= limit.value) for limit in limits)
    assert limits[2].value[-1] < budget * horizon


def test_regret_with_ties_exceeds_what_the_printed_footnote_allows():
    # No arm is worse than rank S, so with the gap of the footnote nothing would be lost after the first layer.
    env = WORLDS["nothing worse"]
    policy = CombinatorialElimination(env.graph, 3, horizon=30_000, variant="paper")
    lost = simulate(policy, env, horizon=30_000, replications=4, checkpoints=1).regret.min()
    sizes = {"n_arms": 4, "budget": 3, "alpha": 4, "horizon": 30_000, "undirected": True}
    assert lost > 10 * bounds.gap_upper(**sizes, gap=math.inf, benchmark="printed", interval="printed").value


@pytest.mark.parametrize("policy", [CombinatorialUCB, Greedy])
def test_regret_with_full_information_lies_below_its_bound(policy):
    env = WORLDS["full"]
    options = {"horizon": 10_000} if policy is CombinatorialUCB else {}
    trace = simulate(policy(env.graph, 3, **options), env, horizon=10_000, replications=10, checkpoints=20)
    bound = bounds.ucb_full_information_upper(n_arms=10, budget=3, horizon=trace.rounds)
    assert np.all(trace.regret <= bound.value)


def mean_regret(policies, environments, horizon, replications):
    """The regret of each policy on average over environments and runs, and its standard error."""
    lost = [
        [simulate(make(env), env, horizon=horizon, replications=replications, seed=3, checkpoints=1).regret[:, 0]]
        for make in policies
        for env in environments
    ]
    table = np.reshape(lost, (len(policies), len(environments), replications))
    return table.mean(axis=2), table.std(axis=2, ddof=1) / math.sqrt(replications)


def test_no_policy_beats_the_bound_of_hidden_arms():
    # Regret is pseudo-regret, so its mean over 8 runs is known to a few percent; 5 standard errors of slack.
    graph, horizon, gap = FeedbackGraph.semi_bandit(12), 20_000, 0.1
    family = [hidden_arm(graph, 2, independent=range(12), gap=gap, hidden=i, seed=i) for i in (0, 5, 10)]
    makers = [
        lambda env: ThompsonSampling(env.graph, 2, seed=1),
        lambda env: CombinatorialElimination(env.graph, 2, seed=1),
        lambda env: CombinatorialUCB(env.graph, 2, width=0.5, seed=1),
    ]
    mean, error = mean_regret(makers, family, horizon, 8)
    bound = bounds.gap_lower(n_arms=12, budget=2, alpha=12, horizon=horizon, gap=gap).value
    assert bound > 20
    assert np.all((mean + 5 * error).max(axis=1) >= bound)


def test_no_policy_beats_the_bound_of_hidden_pairs():
    graph, horizon, gap = FeedbackGraph.full_information(4), 400, 0.1
    family = [hidden_pairs(graph, 2, gap=gap, good=good, seed=7) for good in itertools.product([0, 1], repeat=2)]
    makers = [lambda env: Greedy(env.graph, 2, seed=1), lambda env: ThompsonSampling(env.graph, 2, seed=1)]
    mean, error = mean_regret(makers, family, horizon, 200)
    bound = bounds.full_information_lower(n_arms=4, budget=2, horizon=horizon, gap=gap).value
    slack = 5 * np.sqrt((error**2).sum(axis=1)) / 4
    assert np.all(mean.mean(axis=1) + slack >= bound)
    assert mean.mean(axis=1).min() < 10 * bound


def test_no_policy_beats_the_minimax_bound_on_hidden_parts():
    # The gap that makes the bound largest, about 0.15 sqrt(alpha / (S T)).
    graph, horizon = FeedbackGraph.semi_bandit(120), 5000
    gap = 0.15 * math.sqrt(120 / (2 * horizon))
    options = {"independent": range(120), "horizon": horizon, "gap": gap}
    family = [hidden_parts(graph, 2, **options, seed=seed) for seed in range(5)]
    makers = [
        lambda env: ThompsonSampling(env.graph, 2, seed=1),
        lambda env: CombinatorialElimination(env.graph, 2, seed=1),
    ]
    mean, error = mean_regret(makers, family, horizon, 5)
    bound = bounds.minimax_lower(n_arms=120, budget=2, alpha=120, horizon=horizon).value
    slack = 5 * np.sqrt((error**2).sum(axis=1)) / 5
    assert np.all(mean.mean(axis=1) + slack >= bound)


@pytest.mark.parametrize(("budget", "alpha"), [(2, 2), (4, 8), (16, 16)])
def test_ucb_loses_what_its_lower_bound_says(budget, alpha):
    horizon = 20_000
    env = ucb_failure(budget, alpha, horizon=horizon)
    policy = CombinatorialUCB(env.graph, budget, horizon=horizon)
    lost = simulate(policy, env, horizon=horizon, checkpoints=1).regret[0, 0]
    sizes = {"n_arms": env.n_arms, "budget": budget, "alpha": alpha, "horizon": horizon}
    assert bounds.ucb_lower(**sizes, constants="printed").value < bounds.ucb_lower(**sizes).value <= lost


def test_no_policy_beats_the_linear_bound_on_blocks():
    horizon, budget, dimension = 4000, 2, 13  # 3 blocks
    gap = 1.085 / math.sqrt(horizon // 3)
    family = [linear_blocks(dimension, budget, horizon=horizon, gap=gap, seed=seed) for seed in range(10)]
    makers = [lambda env: C2UCB(env.n_arms, env.dimension, budget, width=0.3, seed=1)]
    mean, error = mean_regret(makers, family, horizon, 5)
    bound = bounds.linear_lower(n_arms=4, dimension=dimension, budget=budget, horizon=horizon).value
    assert mean.mean() + 5 * np.sqrt((error**2).sum()) / 10 >= bound


@pytest.mark.parametrize(
    ("variant", "env", "budget", "horizon"),
    [
        ("tight", random_linear(20, 4, norm=0.9, reward="uniform", half_width=0.1, seed=3), 3, 20_000),
        ("tight", random_linear(10, 1, seed=3), 5, 60_000),
        ("repaired", random_linear(10, 1, seed=3), 5, 200_000),
    ],
    ids=["quiet", "line", "repaired"],
)
def test_regret_of_hierarchical_elimination_lies_below_its_bound(variant, env, budget, horizon):
    sizes = {"n_arms": env.n_arms, "dimension": env.dimension, "budget": budget}
    noise = {"noise_scale": env.noise_scale} if variant == "tight" else {}
    policy = HierarchicalElimination(**sizes, **noise, horizon=horizon, variant=variant)
    bound = bounds.linear_upper(**sizes, **noise, horizon=horizon, variant=variant)
    assert not bound.vacuous  # so that it says something of these sizes
    assert simulate(policy, env, horizon=horizon, replications=2, checkpoints=1).regret.max() <= bound.value


@pytest.mark.parametrize("variant", ["oracle", "repaired"])
def test_regret_on_a_partition_lies_between_its_bounds(variant):
    horizon, gap = 5000, 0.6
    lost = []
    for env in (partition(6, 2, gap=gap, seed=1), partition(6, 2, gap=gap, seed=2)):
        policy = ConstrainedElimination(env.graph, env.decisions, horizon=horizon, variant=variant)
        lost.append(simulate(policy, env, horizon=horizon, checkpoints=1).regret[0, 0])
    sizes = {"n_arms": 6, "budget": 2, "horizon": horizon, "gap": gap}
    upper = {
        "oracle": bounds.oracle_upper(**sizes, alpha=6, undirected=True),
        "repaired": bounds.constrained_upper(**sizes, cover=3),
    }
    assert bounds.constrained_lower(**sizes).value <= min(lost) <= max(lost) <= upper[variant].value
