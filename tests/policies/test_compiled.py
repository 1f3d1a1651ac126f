"""Compiled policies over decision sets: every round they play the best decision for their weights."""

from __future__ import annotations

import json
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from armtriage import (
    KLUCB,
    CombinatorialElimination,
    CombinatorialUCB,
    CombUCB1,
    DecisionSet,
    Explicit,
    FeedbackGraph,
    Greedy,
    Matchings,
    PartitionMatroid,
    Policy,
    ReplayEnvironment,
    StochasticEnvironment,
    ThompsonSampling,
    TopS,
    Trace,
    UniformRandom,
    simulate,
)
from armtriage.simulation.comparison import compare, facts
from conftest import play
from twins import eligible
from twins.cases import SETS

KINDS: dict[str, tuple[type[Policy], dict[str, Any]]] = {
    "CombUCB1": (CombUCB1, {"exploration": 0.4}),
    "KLUCB": (KLUCB, {"log_log": 0.5}),
    "ThompsonSampling": (ThompsonSampling, {}),
}
both = pytest.mark.parametrize(("kind", "family"), [(kind, family) for kind in KINDS for family in SETS])
each_kind = pytest.mark.parametrize("kind", KINDS)
each_family = pytest.mark.parametrize("family", SETS)


def graph_of(n_arms: int) -> FeedbackGraph:
    return FeedbackGraph.erdos_renyi(n_arms, 0.15, seed=n_arms)


def make(kind: str, decisions: DecisionSet, seed: int = 7, graph: FeedbackGraph | None = None, **more: Any) -> Any:
    built, options = KINDS[kind]
    return built(graph or graph_of(decisions.n_arms), decisions=decisions, seed=seed, **options, **more)


def world(decisions: DecisionSet, reward: str = "bernoulli", graph: FeedbackGraph | None = None) -> Any:
    means = np.random.default_rng(decisions.n_arms).uniform(0.2, 0.8, decisions.n_arms)
    return StochasticEnvironment(means, graph or graph_of(decisions.n_arms), reward, seed=5, decisions=decisions)


@pytest.mark.parametrize("reward", ["deterministic", "bernoulli"])
def test_ties_go_to_the_first_decision_of_a_list(reward: str) -> None:
    decisions = SETS["explicit"]
    policy = make("CombUCB1", decisions)
    index = partial(eligible.comb_ucb1, exploration=0.4)
    twin = eligible.OverSet(decisions, eligible.Index(policy.graph, decisions.size, seed=7, index=index))
    env = StochasticEnvironment(np.full(7, 0.5), policy.graph, reward, seed=5, decisions=decisions)
    for t in range(150):
        weights = twin.weights(t, decisions.size).tolist()
        decision = policy.ask()
        totals = [sum(weights[a] for a in one) for one in decisions]
        assert decision.arms.tolist() == list(decisions)[totals.index(max(totals))].tolist()
        rewards = env.rewards(t, decision.revealed)
        policy.tell(decision, rewards)
        twin.play(t, decision.arms.tolist())
        twin.update(t, dict(zip(decision.revealed.tolist(), rewards.tolist(), strict=True)))


@pytest.mark.parametrize("kind", ["CombUCB1", "KLUCB"])
@each_family
def test_every_arm_of_some_decision_is_soon_observed(kind: str, family: str) -> None:
    decisions = SETS[family]
    graph = FeedbackGraph.semi_bandit(decisions.n_arms)
    policy = make(kind, decisions, graph=graph)
    useful = {int(a) for one in decisions for a in one}
    seen: set[int] = set()
    for _ in range(len(useful)):
        decision = policy.ask()
        most = max(len(set(one.tolist()) - seen) for one in decisions)
        assert len(set(decision.arms.tolist()) - seen) == most
        seen |= set(decision.arms.tolist())
        policy.tell(decision, np.ones(decision.revealed.size))
    assert seen == useful


@pytest.mark.parametrize("kind", ["CombUCB1", "KLUCB"])
@each_family
def test_open_decisions_spread_over_arms_never_asked(kind: str, family: str) -> None:
    decisions = SETS[family]
    policy = make(kind, decisions, graph=FeedbackGraph.semi_bandit(decisions.n_arms))
    asked: set[int] = set()
    for _ in range(len({int(a) for one in decisions for a in one})):
        arms = set(policy.ask().arms.tolist())
        assert len(arms - asked) == max(len(set(one.tolist()) - asked) for one in decisions)
        asked |= arms


def test_arm_whose_reward_was_lost_is_asked_again() -> None:
    policy = CombUCB1(FeedbackGraph.semi_bandit(4), decisions=PartitionMatroid([0, 0, 1, 1], 1))
    lost = policy.ask()
    policy.tell(policy.ask(), [1.0, 1.0])
    policy.tell(lost, {})
    assert policy.ask().arms.tolist() == lost.arms.tolist()


def test_arms_in_no_decision_do_not_stop_learning() -> None:
    decisions = Explicit([[0], [1]], n_arms=4)
    graph = FeedbackGraph.semi_bandit(4)
    env = StochasticEnvironment([0.9, 0.1, 1.0, 1.0], graph, "deterministic", decisions=decisions)
    trace = simulate(CombUCB1(graph, decisions=decisions), env, horizon=2000, record_decisions=True)
    assert trace.decisions is not None
    assert np.mean(trace.decisions[0] == 0) > 0.95


def simulated(policy: Policy, env: StochasticEnvironment, horizon: int = 400, **more: Any) -> Trace:
    return simulate(policy, env, horizon=horizon, record_decisions=True, **more)


# Where an oracle needs every draw, Thompson sampling draws in another way: see `tests/twins`.
@pytest.mark.parametrize(
    ("kind", "sort"),
    [(kind, sort) for kind in KINDS for sort in ("top", "group") if (kind, sort) != ("ThompsonSampling", "group")],
)
@pytest.mark.parametrize("reward", ["bernoulli", "beta"])
def test_decisions_without_a_constraint_are_those_of_a_budget(kind: str, reward: str, sort: str) -> None:
    n, budget = 260, 4
    graph = FeedbackGraph.erdos_renyi(n, 0.01, seed=1)
    decisions = TopS(n, budget) if sort == "top" else PartitionMatroid(np.zeros(n, int), [budget])
    means = np.random.default_rng(2).uniform(0.2, 0.8, n)
    built, options = KINDS[kind]
    free = simulated(built(graph, budget, seed=7, **options), StochasticEnvironment(means, graph, reward, seed=5))
    env = StochasticEnvironment(means, graph, reward, seed=5, decisions=decisions)
    tied = simulated(built(graph, decisions=decisions, seed=7, **options), env)
    assert np.array_equal(free.decisions, tied.decisions)
    assert np.array_equal(free.regret, tied.regret) if sort == "top" else np.allclose(free.regret, tied.regret)


@each_kind
def test_open_decisions_of_top_s_are_those_of_a_budget(kind: str) -> None:
    built, options = KINDS[kind]
    graph = graph_of(8)
    free, tied = built(graph, 3, seed=7, **options), built(graph, decisions=TopS(8, 3), seed=7, **options)
    for t in range(60):
        left, right = free.ask(), tied.ask()
        assert left.arms.tolist() == right.arms.tolist()
        if t % 3 == 2:
            rewards = dict.fromkeys(left.revealed.tolist()[: t % 4], 1.0)
            free.tell(left, rewards)
            tied.tell(right, rewards)


@both
def test_simulate_plays_as_ask_and_tell_in_a_later_replication(kind: str, family: str) -> None:
    decisions = SETS[family]
    env, horizon = world(decisions, "uniform"), 10 if family == "constraints" else 25  # solved, which takes long
    trace = simulated(make(kind, decisions), env, horizon, replications=3, checkpoints=[horizon], seed=9)
    assert trace.decisions is not None
    played = play(make(kind, decisions).fresh(9, 2), env, horizon, replication=2)
    assert trace.decisions[2].tolist() == [arms + [-1] * (decisions.size - len(arms)) for arms in played]
    assert trace.regret[2, 0] == pytest.approx(sum(map(env.regret, played)), abs=1e-9)


@each_kind
def test_larger_decisions_are_not_better_where_rewards_are_negative(kind: str) -> None:
    decisions = Explicit([[0, 1, 2], [3]])
    graph = FeedbackGraph.semi_bandit(4)
    policy = KINDS[kind][0](graph, decisions=decisions, seed=7, reward_range=(-1.0, 0.0))
    chosen = []
    for _ in range(400):
        decision = policy.ask()
        policy.tell(decision, [-0.4] * decision.arms.size)
        chosen.append(decision.arms.tolist())
    assert chosen[-100:].count([3]) > 80


@each_kind
def test_shifted_rewards_change_nothing_where_decisions_have_the_same_size(kind: str) -> None:
    decisions = SETS["matchings"]
    env = world(decisions)
    plain, low = make(kind, decisions), make(kind, decisions, reward_range=(-4.0, 4.0))
    for t in range(60):
        left, right = plain.ask(), low.ask()
        assert left.arms.tolist() == right.arms.tolist()
        rewards = env.rewards(t, left.revealed)
        plain.tell(left, rewards)
        low.tell(right, 8.0 * rewards - 4.0)


def test_decision_of_all_arms_is_not_the_last_where_others_are_allowed() -> None:
    decisions = Explicit([[0], [0, 1]])
    graph = FeedbackGraph.semi_bandit(2)
    env = StochasticEnvironment([0.5, 0.5], graph, seed=5, decisions=decisions)
    trace = simulated(ThompsonSampling(graph, decisions=decisions, seed=7), env)
    assert trace.committed_at.tolist() == [-1]


def test_empty_decision_may_be_played() -> None:
    decisions = Explicit([[], [0]], n_arms=1)
    graph = FeedbackGraph.semi_bandit(1)
    policy = CombUCB1(graph, decisions=decisions, exploration=0.0, seed=7)
    env = StochasticEnvironment([0.0], graph, decisions=decisions, seed=5)
    trace = simulated(policy, env, 3)
    assert trace.decisions is not None
    assert trace.decisions[0].tolist() == [[0], [-1], [-1]]
    policy.tell(policy.ask(), [0.0])
    empty = policy.ask()
    assert empty.arms.tolist() == empty.revealed.tolist() == []
    with pytest.raises(ValueError, match="arm 0, which the decision does not reveal"):
        policy.tell(empty, {0: 1.0})
    policy.tell(empty, [])


def test_comparison_is_json() -> None:
    decisions = SETS["trees"]
    policies = {kind: make(kind, decisions) for kind in KINDS}
    results = compare(policies, world(decisions), horizon=20, replications=2)
    text = json.loads(json.dumps([facts(result) for result in results]))
    assert [one["options"]["decisions"] for one in text] == [repr(decisions)] * 3


def test_regret_over_matchings_grows_slower_than_the_rounds() -> None:
    decisions = Matchings(4, 4)
    graph = FeedbackGraph.semi_bandit(16)
    means = np.full(16, 0.2)
    means[::5] = 0.8
    env = StochasticEnvironment(means, graph, seed=5, decisions=decisions)
    for kind in KINDS:
        trace = simulate(make(kind, decisions, graph=graph), env, horizon=2000, checkpoints=[200, 2000])
        assert trace.regret[0, 1] < 3 * trace.regret[0, 0]


def test_file_holds_the_set_as_arrays(tmp_path: Path) -> None:
    from armtriage._files import read_archive

    make("CombUCB1", SETS["groups"]).save(tmp_path / "policy")
    header, arrays = read_archive(tmp_path / "policy")
    assert "decisions" not in header["config"]
    assert arrays["decisions.groups"].tolist() == [0, 0, 0, 1, 1, 2, 2, 2, 2]


@both
def test_fresh_policy_has_the_same_set(kind: str, family: str) -> None:
    policy = make(kind, SETS[family])
    fresh = policy.fresh(3)
    assert fresh.decisions is policy.decisions
    assert fresh.budget == SETS[family].size
    assert fresh.config == {**policy.config, "seed": 3}


def test_repr_shows_what_was_given() -> None:
    assert "decisions=TopS(n_arms=4, budget=2)" in repr(make("CombUCB1", TopS(4, 2)))
    assert "budget" not in repr(make("CombUCB1", Matchings(2, 2)))
    assert "decisions" not in repr(CombUCB1(FeedbackGraph.semi_bandit(4), 2))


@each_kind
@pytest.mark.parametrize(
    ("given", "error", "said"),
    [
        ({}, ValueError, "either budget or decisions must be given, got budget=None and decisions=None"),
        ({"budget": 2, "decisions": TopS(4, 2)}, ValueError, r"budget=2 and decisions=TopS\(n_arms=4, budget=2\)"),
        ({"decisions": TopS(5, 2)}, ValueError, "decisions must have the 4 arms of graph, got 5"),
        ({"decisions": [[0, 1]]}, TypeError, "decisions must be a DecisionSet, got list"),
    ],
)
def test_wrong_sets_are_refused(kind: str, given: dict[str, Any], error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        KINDS[kind][0](FeedbackGraph.semi_bandit(4), **given)


@pytest.mark.parametrize("kind", [Greedy, UniformRandom, CombinatorialUCB, CombinatorialElimination])
def test_policies_for_a_number_of_arms_take_no_set(kind: type[Policy]) -> None:
    options = {"horizon": 10} if kind is CombinatorialUCB else {}
    with pytest.raises(TypeError, match="takes no decisions"):
        kind(FeedbackGraph.semi_bandit(4), None, decisions=TopS(4, 2), **options)


@pytest.mark.parametrize(
    ("mine", "theirs"),
    [
        (None, TopS(4, 2)),
        (TopS(4, 2), None),
        (TopS(4, 2), PartitionMatroid([0, 0, 1, 1], 1)),
        (Matchings(2, 2), TopS(4, 2)),
    ],
)
def test_policy_and_environment_must_have_the_same_set(mine: DecisionSet | None, theirs: DecisionSet | None) -> None:
    graph = FeedbackGraph.semi_bandit(4)
    policy = CombUCB1(graph, 2) if mine is None else CombUCB1(graph, decisions=mine)
    env = StochasticEnvironment([0.1, 0.2, 0.3, 0.4], graph, decisions=theirs)
    with pytest.raises(ValueError, match="must have the same decisions") as caught:
        simulate(policy, env, horizon=3)
    assert repr(mine) in str(caught.value)
    assert repr(theirs) in str(caught.value)


def test_replay_has_no_set() -> None:
    graph = FeedbackGraph.semi_bandit(4)
    with pytest.raises(ValueError, match="must have the same decisions"):
        simulate(CombUCB1(graph, decisions=Matchings(2, 2)), ReplayEnvironment(np.ones((3, 4)), graph), horizon=3)


def test_equal_sets_need_not_be_the_same_object() -> None:
    env = world(Matchings(2, 2))
    assert simulate(CombUCB1(env.graph, decisions=Matchings(2, 2)), env, horizon=3).regret.min() >= 0


class Own:
    """An environment of somebody's own."""

    def __init__(self, inner: StochasticEnvironment) -> None:
        self.inner, self.n_arms, self.graph, self.decisions = inner, inner.n_arms, inner.graph, inner.decisions

    def rewards(self, round: int, arms: np.ndarray, replication: int = 0) -> np.ndarray:
        return self.inner.rewards(round, arms, replication)

    def regret(self, arms: np.ndarray) -> float:
        return self.inner.regret(arms)


@each_kind
def test_environment_of_ones_own_gives_the_same_numbers(kind: str) -> None:
    decisions = SETS["explicit"]
    env = world(decisions)
    mine, theirs = (simulated(make(kind, decisions), one, 60) for one in (Own(env), env))  # type: ignore[arg-type]
    assert np.array_equal(mine.decisions, theirs.decisions)
    assert mine.regret == pytest.approx(theirs.regret)


@each_family
def test_regret_is_against_the_best_decision_of_the_set(family: str) -> None:
    decisions = SETS[family]
    env = world(decisions)
    values = [float(env.means[one].sum()) for one in decisions]
    regrets = [env.regret(one) for one in decisions]
    assert regrets == pytest.approx([max(values) - value for value in values], abs=1e-11)
    assert min(regrets) == 0.0


@pytest.mark.parametrize("seed", range(20))
def test_equally_good_decisions_cost_nothing(seed: int) -> None:
    rng = np.random.default_rng(seed)
    decisions = Matchings(5, 5)
    # Every assignment sums the same row and column parts, in another order.
    rows, columns = np.rint(np.ldexp(rng.random((2, 5)), 39))
    means = np.ldexp(rows[:, None] + columns, -40)
    env = StochasticEnvironment(means.ravel(), FeedbackGraph.semi_bandit(25), decisions=decisions)
    assert {env.regret(one) for one in decisions} == {0.0}


@pytest.mark.parametrize("arms", [[0, 1], [2, 3], [4], [], [0, 1, 2, 3, 4]])
def test_what_is_no_decision_of_the_set_has_no_regret(arms: list[int]) -> None:
    env = world(PartitionMatroid([0, 0, 1, 1, 1], 1))
    with pytest.raises(ValueError, match="arms must be a decision of PartitionMatroid"):
        env.regret(np.array(arms, int))


def test_environment_refuses_other_sets() -> None:
    graph = FeedbackGraph.semi_bandit(3)
    with pytest.raises(ValueError, match="decisions must have the 3 arms of graph, got 4"):
        StochasticEnvironment([0.1, 0.2, 0.3], graph, decisions=TopS(4, 2))
    with pytest.raises(TypeError, match="decisions must be a DecisionSet or None, got list"):
        StochasticEnvironment([0.1, 0.2, 0.3], graph, decisions=[[0]])  # type: ignore[arg-type]


def test_repr_of_an_environment_shows_its_set() -> None:
    assert "decisions=TopS(n_arms=3, budget=2)" in repr(world(TopS(3, 2)))


def test_simulate_does_not_call_a_policy_over_a_set_slow() -> None:
    class InTurn(Policy):
        def __init__(self, graph: FeedbackGraph, decisions: DecisionSet, *, seed: int | None = None) -> None:
            super().__init__(graph, decisions=decisions, seed=seed)

        def _select(self, number: int) -> np.ndarray:
            return list(self.decisions)[number % 2]

        def _update(self, number: int, arms: np.ndarray, rewards: np.ndarray) -> None:
            pass

    env = world(SETS["groups"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        simulate(InTurn(env.graph, SETS["groups"]), env, horizon=5)
