"""The errata of the paper: each has a number, the tests that it names exist, and what no other test shows is here."""

from __future__ import annotations

import ast
import itertools
import math
import re
from collections import Counter
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import armtriage
from armtriage import (
    CombinatorialElimination,
    CombinatorialUCB,
    FeedbackGraph,
    HierarchicalElimination,
    StochasticEnvironment,
    confidence_interval,
    hidden_arm,
    random_linear,
    simulate,
    star,
    ucb_failure,
)
from armtriage.intervals import kl
from armtriage.theory import cover_number, gap_lower, linear_lower, ucb_lower

TESTS = Path(__file__).parents[1]
DOCS = TESTS.parent / "docs"
NUMBER = re.compile(r"[GBUKN]\d+")
LAST = {"G": 18, "B": 8, "U": 7, "K": 8, "N": 22}


# --- The page ---
def rows(page: str, first: str) -> list[list[str]]:
    """The cells of the rows of all tables of a page whose first column has this name."""
    found, wanted = [], False
    for line in (DOCS / page).read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if not line.startswith("|"):
            wanted = False
        elif not wanted:
            wanted = cells[0] == first
        elif not line.startswith("|---"):
            found.append(cells)
    return found


def errata() -> list[list[str]]:
    return rows("errata.md", "#") + rows("constrained-elimination.md", "#")


def test_every_erratum_has_a_number_of_its_own() -> None:
    counts = Counter(cells[0] for cells in errata())
    assert set(counts) == {f"{letter}{i}" for letter, last in LAST.items() for i in range(1, last + 1)}
    assert set(counts.values()) == {1}
    heads = re.findall(r"^\| *([^|]*?) *\|.*\n\|---", (DOCS / "errata.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert heads == ["#"] * 5 + ["erratum"]


def test_every_erratum_says_how_much_it_weighs_how_it_is_known_and_names_its_tests() -> None:
    tested = []
    for cells in errata():
        assert len(cells) == 7
        assert cells[1] in ("**false**", "gap", "scope", "constant", "undefined", "slip")
        assert any(word in cells[6] for word in ("misprint", "definition", "proved", "[test"))
        tested += [cells[0]] * ("#tests)" in cells[6])
    listed = [cells[0] for cells in rows("errata.md", "erratum")]
    assert sorted(listed) == sorted(tested)


def test_named_tests_exist() -> None:
    tests: dict[str, set[str]] = {}
    for path in TESTS.rglob("test_*.py"):
        body = ast.parse(path.read_text(encoding="utf-8")).body
        tests.setdefault(path.name, set()).update(node.name for node in body if isinstance(node, ast.FunctionDef))
    for number, names in rows("errata.md", "erratum"):
        assert re.fullmatch(r"`test_\w+\.py::test_\w+`(<br>`test_\w+\.py::test_\w+`)*", names), number
    for page in DOCS.glob("*.md"):
        for file, name in re.findall(r"(test_\w+\.py)(?:::(\w+))?", page.read_text(encoding="utf-8")):
            assert file in tests, (page.name, file)
            assert not name or name in tests[file], (page.name, file, name)


def test_cited_numbers_are_on_the_page() -> None:
    texts = [path.read_text(encoding="utf-8") for path in Path(armtriage.__file__).parent.rglob("*.py")]
    texts.append((DOCS / "audit.md").read_text(encoding="utf-8"))
    cited = {
        number
        for text in texts
        for part in re.findall(r"errat(?:um|a) ([^\"';]*)", text)
        for number in NUMBER.findall(part)
    }
    assert cited
    assert cited <= {cells[0] for cells in errata()}


# --- Graph feedback ---
def test_hoeffdings_inequality_needs_half_the_square_of_the_printed_width() -> None:
    n_arms, horizon, delta, n = 5, 1000, 0.1, 700
    common = {"n_arms": n_arms, "delta": delta, "horizon": horizon}
    widths = {}
    for kind in ("printed", "hoeffding"):
        lower, upper = confidence_interval(n, n / 2, kind=kind, **common)
        widths[kind] = (upper - lower) / 2
        missed = 2 * math.exp(-2 * n * widths[kind] ** 2)
        share = delta / (n_arms * horizon)
        assert missed == pytest.approx(share if kind == "hoeffding" else share**2 / 2)
    assert widths["printed"] == pytest.approx(math.sqrt(2) * widths["hoeffding"])


def test_slots_are_filled_with_active_arms_when_nobody_is_left_to_explore() -> None:
    """One arm reveals all, so the second slot has no arm of A_0; arm 3 is bad, and leaves."""
    graph = FeedbackGraph.full_information(4)
    policy = CombinatorialElimination(graph, 2, variant="paper", horizon=1000, delta=0.9, seed=1)
    means = np.array([0.9, 0.9, 0.9, 0.0])
    for _ in range(300):
        decision = policy.ask()
        assert decision.arms.size == 2
        assert not set(decision.arms.tolist()) & set(policy.triage.eliminated.tolist())
        policy.tell(decision, means[decision.revealed])
    assert policy.triage.eliminated.tolist() == [3]
    assert policy.triage.active.tolist() == [0, 1, 2]


def test_averages_of_confirmed_arms_can_be_further_from_their_rank_than_two_widths() -> None:
    """Arms 2 and 3 are seen in every round. Arm 0 has too small an average, arm 1 too large a one.

    All averages stay within their widths. When the rest leaves, N jumps to the count of arms 2 and 3.
    """
    n_arms, horizon, delta = 11, 5000, 0.9
    graph = FeedbackGraph.from_edges(n_arms, [(a, b) for a in range(n_arms) for b in (2, 3)])
    policy = CombinatorialElimination(graph, 3, variant="paper", horizon=horizon, delta=delta, seed=1)
    means = np.array([0.88, 0.879, 0.26, 0.26, *[0.0] * 7])
    told = np.array([0.78, 0.936, 0.26, 0.26, *[0.0] * 7])
    counts, logarithm = np.zeros(n_arms, np.int64), math.log(2 * n_arms * horizon / delta)
    for _ in range(horizon):
        decision = policy.ask()
        counts[decision.revealed] += 1
        policy.tell(decision, told[decision.revealed])
        assert np.all(np.abs(told - means) * np.sqrt(counts) <= math.sqrt(logarithm))
        least = counts[policy.triage.active].min()
        if told[0] < told[1] - 2 * math.sqrt(logarithm / max(least, 1)):
            break
    assert policy.triage.confirmed.tolist() == [0, 1]
    assert 1 < counts[0] < least


def test_regret_is_what_best_arms_left_out_are_worth_more_than_others_played() -> None:
    means = [0.9, 0.7, 0.4, 0.3, 0.1]
    env = StochasticEnvironment(means, FeedbackGraph.semi_bandit(5))
    best = {0, 1, 2}
    for arms in itertools.combinations(range(5), 3):
        lost = sum(means[a] for a in best - set(arms)) - sum(means[a] for a in set(arms) - best)
        assert env.regret(arms) == pytest.approx(lost)


def test_last_round_of_a_layer_is_padded() -> None:
    """Three arms in two slots: two rounds, so four pulls, more than the larger of three picks and two slots."""
    policy = CombinatorialElimination(FeedbackGraph.semi_bandit(3), 2, variant="paper", horizon=100, seed=1)
    pulls, seen = 0, set()
    while len(seen) < 3:
        decision = policy.ask()
        pulls += decision.arms.size
        seen |= set(decision.arms.tolist())
        policy.tell(decision, np.full(decision.revealed.size, 0.5))
    assert pulls == 4 == 3 + 2 - 1 > max(3, 2)


# --- Lower bounds for graph feedback ---
GAPS = np.geomspace(1e-3, 0.25, 60)


def test_divergence_of_a_hidden_arm_is_more_than_printed_and_less_than_quoted() -> None:
    for gap in GAPS:
        assert 16 * gap**2 / 3 < kl(0.25, 0.25 + 2 * gap) < 32 * gap**2 / 3
        mean = 0.25 + 2 * gap
        assert 16 * gap**2 - 1e-12 <= (2 * gap) ** 2 / (mean * (1 - mean)) <= 64 * gap**2 / 3


def test_divergence_of_a_pair_is_at_most_the_printed_one() -> None:
    for gap in 2 * GAPS:
        both = kl(0.25, 0.25 + gap) + kl(0.25 + gap, 0.25)
        assert both < 16 * gap**2 / 3
    assert both == pytest.approx(math.log(3))


@pytest.mark.parametrize("gap", [0.001, 0.0125, 0.05, 0.25])
def test_worst_number_of_looks_from_outside_is_none_or_all(gap: float) -> None:
    budget, alpha, horizon, constant, exponent = 2, 20, 10**9, 0.5, 0.25
    x = math.log(gap * horizon ** (1 - exponent) / (16 * constant)) / kl(0.25, 0.25 + 2 * gap)
    outside = np.linspace(0, x, 1001)
    least = (gap * (alpha - budget) * (x - outside) + outside / 4).min()
    bound = gap_lower(budget=budget, alpha=alpha, horizon=horizon, gap=gap, constant=constant, exponent=exponent).value
    assert bound == pytest.approx(least)


def test_text_claims_a_logarithm_where_the_appendix_has_none() -> None:
    """At a gap of 16 T^-(1-p) the appendix says nothing yet; the text, which has p = 0 inside, says p ln(T)."""
    sizes = {"budget": 2, "alpha": 20, "horizon": 10**12, "constant": 1.0, "gap": 16e-6}
    assert gap_lower(**sizes, exponent=0.5).reason == "needs gap T^(1 - p) > 16 C"
    text = gap_lower(**sizes).value
    m, information = 18 * 16e-6, kl(0.25, 0.25 + 32e-6)
    assert text == pytest.approx(m / information * 0.5 * math.log(10**12))


@pytest.mark.parametrize(("gap", "cheaper"), [(0.01, False), (0.1, True)])
def test_an_arm_outside_can_be_the_cheaper_way_to_look(gap: float, cheaper: bool) -> None:
    """To see the 19 other leaves of a star once costs 19 gaps from within, and a quarter and a gap from the centre."""
    graph = FeedbackGraph.from_edges(21, [(0, leaf) for leaf in range(1, 21)])
    env = hidden_arm(graph, 1, independent=range(1, 21), gap=gap)
    within = sum(env.regret([leaf]) for leaf in range(2, 21))
    outside = env.regret([0])
    assert graph.revealed_by([0]).size == 21
    assert (within, outside) == (pytest.approx(19 * gap), pytest.approx(0.25 + gap))
    assert (outside < within) is cheaper
    common = {"budget": 1, "alpha": 20, "horizon": 10**9, "gap": gap}
    assert (gap_lower(**common, n_arms=21).value < gap_lower(**common, n_arms=20).value) is cheaper


# --- UCB ---
def test_unobserved_arms_come_first() -> None:
    policy = CombinatorialUCB(FeedbackGraph.semi_bandit(5), 2, width=0.01)
    played = []
    for _ in range(3):
        decision = policy.ask()
        played += decision.arms.tolist()
        policy.tell(decision, [1.0, 1.0])
    assert set(played[:4]) == {0, 1, 2, 3}
    assert 4 in played[4:]


def test_ucb_loses_more_by_a_root_and_not_by_the_whole_ratio() -> None:
    """With S = alpha the ratio of S sqrt(alpha T) to sqrt(alpha S T) + S sqrt(T) is sqrt(S) / 2; printed is S / 2."""
    horizon = 10**9
    for side in (4, 16, 64, 256):
        lost = ucb_lower(n_arms=side**2, budget=side, alpha=side, horizon=horizon, width=1.0, constants="printed").value
        rate = side * math.sqrt(horizon) + math.sqrt(side * side * horizon)
        assert 32 * lost / rate == pytest.approx(math.sqrt(side) / 2)


def test_bound_for_ucb_exceeds_all_that_can_be_lost_before_its_condition_holds() -> None:
    budget, alpha, width = 3, 4, 2.0
    least = alpha * width**2
    for horizon in (int(least) - 1, int(least), int(least) + 1):
        value = width * budget * math.sqrt(alpha * horizon)
        assert (value > budget * horizon) is (horizon < least)
        met = ucb_lower(n_arms=12, budget=budget, alpha=alpha, horizon=horizon, width=width).value is not None
        assert met is (horizon >= least)


def test_cliques_of_different_means_can_have_equal_indices() -> None:
    """Alpha = 3, T = 432, L = 1: means are 1 / (2 sqrt(alpha T)) = 1/72 apart. Counts of 81 and 64 make up for it."""
    alpha, horizon, step = 3, 432, Fraction(1, 72)
    assert 4 * alpha * horizon * step**2 == 1
    second, third = Fraction(1, 2) - step, Fraction(1, 2) - 2 * step
    assert second > third
    assert second + Fraction(1, 9) == third + Fraction(1, 8)
    assert horizon > 81 + 64


def test_ucb_fails_where_a_clique_shares_its_noise_and_not_where_each_arm_has_its_own() -> None:
    lost = {}
    for noise in ("deterministic", "shared", "independent"):
        env = ucb_failure(16, 16, horizon=20_000, noise=noise, seed=1)
        policy = CombinatorialUCB(env.graph, 16, horizon=20_000)
        trace = simulate(policy, env, horizon=20_000, replications=4, checkpoints=1)
        lost[noise] = trace.regret[:, -1]
    assert lost["shared"].min() > 0.9 * lost["deterministic"].min()
    assert lost["independent"].max() < 0.25 * lost["shared"].min()


# --- Linear contexts ---
def test_divergence_of_one_dimension_is_more_than_printed() -> None:
    for gap in 2 * GAPS:
        exact = kl((1 - gap) / 2, (1 + gap) / 2)
        assert 4 * gap**2 / 3 < exact <= 16 * gap**2 / 3
        assert kl(0.5, (1 + gap) / 2) < 4 * gap**2 / 3


def test_value_of_one_dimension_is_smaller_than_printed() -> None:
    rewards = 4 * 1024
    printed_gap = 1 / math.sqrt(12 * rewards)
    value = printed_gap * rewards / 2 * (1 - math.sqrt(4 / 3 * printed_gap**2 * rewards))
    assert value == pytest.approx(math.sqrt(rewards) / (3 * math.sqrt(12)))
    gaps = np.linspace(1e-4, 0.05, 100_001)
    best = (gaps * rewards / 2 * (1 - np.sqrt(8 / 3 * gaps**2 * rewards))).max()
    ours = linear_lower(n_arms=8, dimension=1, budget=4, horizon=1024).value
    assert ours == pytest.approx(best)
    assert ours / math.sqrt(rewards) == pytest.approx(0.0765, abs=5e-5)


def test_few_of_the_printed_stages_are_reached() -> None:
    """Stage h is through after about m^2 d 4^h rewards, m being the multiple of the width. This run ends in stage 4."""
    n_arms, dimension, budget, horizon = 20, 2, 5, 20_000
    env = random_linear(n_arms, dimension, seed=1)
    policy = HierarchicalElimination(n_arms, dimension, budget, horizon=horizon, variant="paper", seed=1)
    explored = np.zeros(policy.stages + 1, np.int64)
    for t in range(3500):
        decision = policy.ask(env.contexts(t))
        explored += np.bincount(policy.triage.stages[policy.triage.explored], minlength=explored.size)
        policy.tell(decision, env.rewards(t, decision.arms))

    def needed(n_arms: int, dimension: int) -> np.ndarray:
        return 4 * (1 + math.sqrt(math.log(2 * n_arms * horizon))) ** 2 * dimension * 4.0 ** np.arange(1, 10)

    assert policy.stages == 9
    assert explored[1:4] == pytest.approx(needed(n_arms, dimension)[:3], rel=0.01)
    # At K = 100 and d = 10 the rewards of a whole run are enough for three of nine stages.
    assert np.count_nonzero(needed(100, 10).cumsum() <= budget * horizon) == 3


# --- Decision sets ---
def test_cover_from_which_nothing_can_be_left_out_can_be_far_from_smallest() -> None:
    env = star(6)
    leaves = list(range(1, 7))
    everything = set(range(7))
    assert set(env.graph.revealed_by(leaves).tolist()) >= set(leaves)
    for leaf in leaves:
        fewer = [other for other in leaves if other != leaf]
        assert leaf not in env.graph.revealed_by(fewer)
    assert set(env.graph.revealed_by([0]).tolist()) == everything
    assert cover_number(env.decisions, env.graph).upper == 1
