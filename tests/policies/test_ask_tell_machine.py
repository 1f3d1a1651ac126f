"""Any sequence of asks, tells, losses, refusals and saves leaves a policy consistent with what it was told."""

from __future__ import annotations

import math
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from armtriage import (
    KLUCB,
    AlreadyTold,
    CombinatorialElimination,
    CombinatorialUCB,
    CombUCB1,
    Decision,
    FeedbackGraph,
    Greedy,
    Policy,
    ThompsonSampling,
    UniformRandom,
    UnknownDecision,
)
from armtriage.policies.elimination.layers import WAITING
from armtriage.policies.elimination.sets import LAGGING, LEAST, UNDERWAY

GRAPHS = {
    "one": FeedbackGraph.semi_bandit(1),
    "semi": FeedbackGraph.semi_bandit(7),
    "full": FeedbackGraph.full_information(5),
    "cliques": FeedbackGraph.cliques([3, 1, 4]),
    "up": FeedbackGraph.threshold(6),
    "random": FeedbackGraph.erdos_renyi(12, 0.2, seed=3),
    "star": FeedbackGraph.from_edges(90, [(45, a) for a in range(90)], undirected=True),
    "wide": FeedbackGraph.cliques([60] * 5),
}
SETTINGS = settings(max_examples=30, stateful_step_count=25, deadline=None, derandomize=True, database=None)
PLACE = st.integers(0, 10**6)
LUCK = st.integers(0, 2**32 - 1)


def held(policy: Policy) -> dict[str, Any]:
    """All that a policy is made of, copied."""
    arrays = {name: array.copy() for name, array in policy._arrays().items()}
    open_ = {decision.number: decision.arms for decision in policy.open_decisions}
    return arrays | {f"open {number}": arms for number, arms in open_.items()} | {"asked": np.array(policy._asked)}


def assert_same(left: dict[str, Any], right: dict[str, Any]) -> None:
    assert left.keys() == right.keys()
    for name in left:
        np.testing.assert_array_equal(left[name], right[name], err_msg=name)


class Machine(RuleBasedStateMachine):
    """A policy beside a model: what was told of each arm, and which decisions are open."""

    options: tuple[dict[str, Any], ...] = ({},)
    kind: type[Policy]

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()

    def teardown(self) -> None:
        self.folder.cleanup()

    @initialize(graph=st.sampled_from(sorted(GRAPHS)), place=PLACE, which=PLACE, seed=st.integers(0, 5))
    def begin(self, graph: str, place: int, which: int, seed: int) -> None:
        self.graph = GRAPHS[graph]
        n = self.graph.n_arms
        self.budget = min(n, (1, 2, 3, n)[place % 4])
        options = self.options[which % len(self.options)]
        self.policy: Any = self.kind(self.graph, budget=self.budget, seed=seed, **options)
        self.open: dict[int, Decision] = {}
        self.told: list[int] = []
        self.counts, self.sums = np.zeros(n, np.int64), np.zeros(n)

    # --- Rules ---
    @rule()
    def ask(self) -> None:
        expected = self.expected()
        decision = self.policy.ask()
        arms = decision.arms
        assert decision.number == len(self.open) + len(self.told)
        assert arms.shape == (self.budget,)
        assert np.all(np.diff(arms) > 0)
        assert arms[0] >= 0
        assert arms[-1] < self.graph.n_arms
        if expected is not None:
            assert arms.tolist() == expected
        self.open[decision.number] = decision

    def expected(self) -> list[int] | None:
        """The arms that the next decision must have, where the model can say."""
        return None

    def pick(self, place: int) -> Decision:
        return list(self.open.values())[place % len(self.open)]

    def learn(self, decision: Decision, arms: np.ndarray, rewards: np.ndarray, by_number: bool = False) -> None:
        whole = arms.size == decision.revealed.size
        given = rewards if whole else dict(zip(arms.tolist(), rewards.tolist(), strict=True))
        self.policy.tell(decision.number if by_number else decision, given)
        self.counts[arms] += 1
        self.sums[arms] += rewards
        del self.open[decision.number]
        self.told.append(decision.number)

    def rewards(self, arms: np.ndarray, luck: int) -> np.ndarray:
        """Quarters, whose sums are exact; or clear cases, in which the first or the last arms alone pay."""
        if luck % 4 == 1:
            return (arms < self.budget).astype(np.float64)
        if luck % 4 == 2:
            return (arms < max(1, self.budget - 1)).astype(np.float64)
        if luck % 4 == 3:
            return (arms > self.graph.n_arms - 1 - self.budget).astype(np.float64)
        return np.random.default_rng(luck).integers(0, 5, arms.size) / 4

    @precondition(lambda self: self.open)
    @rule(place=PLACE, luck=LUCK, by_number=st.booleans())
    def tell_all(self, place: int, luck: int, by_number: bool) -> None:
        decision = self.pick(place)
        self.learn(decision, decision.revealed, self.rewards(decision.revealed, luck), by_number)

    @precondition(lambda self: self.open)
    @rule(place=PLACE, luck=LUCK)
    def tell_some(self, place: int, luck: int) -> None:
        decision = self.pick(place)
        arms = decision.revealed[np.random.default_rng(luck).random(decision.revealed.size) < 0.5]
        self.learn(decision, arms, self.rewards(arms, luck))

    @precondition(lambda self: self.open)
    @rule(place=PLACE)
    def lose(self, place: int) -> None:
        self.learn(self.pick(place), np.zeros(0, np.int64), np.zeros(0))

    @rule(rounds=st.integers(1, 25), luck=LUCK)
    def play(self, rounds: int, luck: int) -> None:
        for step in range(rounds):
            self.ask()
            decision = self.open[max(self.open)]
            self.learn(decision, decision.revealed, self.rewards(decision.revealed, luck + 4 * step))

    @precondition(lambda self: self.told)
    @rule(place=PLACE)
    def repeat_a_tell(self, place: int) -> None:
        before = held(self.policy)
        with pytest.raises(AlreadyTold):
            self.policy.tell(self.told[place % len(self.told)], {})
        assert_same(held(self.policy), before)

    @rule(ahead=st.integers(0, 3))
    def tell_what_was_never_asked(self, ahead: int) -> None:
        before = held(self.policy)
        with pytest.raises(UnknownDecision):
            self.policy.tell(len(self.open) + len(self.told) + ahead, {})
        assert_same(held(self.policy), before)

    @precondition(lambda self: self.open)
    @rule(place=PLACE, bad=st.sampled_from([math.nan, math.inf, -0.25, 1.25, "x", None]), where=PLACE)
    def tell_a_bad_reward(self, place: int, bad: Any, where: int) -> None:
        decision, before = self.pick(place), held(self.policy)
        arms = decision.revealed.tolist()
        rewards: dict[int, Any] = dict.fromkeys(arms, 0.5)
        rewards[arms[where % len(arms)]] = bad
        for given in (rewards, list(rewards.values())):
            with pytest.raises((TypeError, ValueError)):
                self.policy.tell(decision, given)
        assert_same(held(self.policy), before)

    @precondition(lambda self: self.open)
    @rule(place=PLACE)
    def tell_of_an_arm_that_was_not_revealed(self, place: int) -> None:
        before = held(self.policy)
        with pytest.raises(ValueError, match="does not reveal"):
            self.policy.tell(self.pick(place), {self.graph.n_arms: 0.5})
        assert_same(held(self.policy), before)

    @rule()
    def save_and_load(self) -> None:
        path = Path(self.folder.name, "policy")
        self.policy.save(path)
        loaded = Policy.load(path)
        assert_same(held(loaded), held(self.policy))
        self.policy = loaded

    # --- Invariants ---
    @invariant()
    def open_decisions_are_those_not_told(self) -> None:
        assert [one.number for one in self.policy.open_decisions] == sorted(self.open)

    def pending(self) -> np.ndarray:
        waiting = np.zeros(self.graph.n_arms, np.int64)
        for decision in self.open.values():
            waiting[decision.revealed] += 1
        return waiting


class Counting(Machine):
    """Policies that keep counts, sums and what is on its way."""

    @invariant()
    def counts_are_what_was_told(self) -> None:
        np.testing.assert_array_equal(self.policy._state.counts[: self.graph.n_arms], self.counts)

    @invariant()
    def sums_are_what_was_told(self) -> None:
        np.testing.assert_array_equal(self.policy._state.sums[: self.graph.n_arms], self.sums)

    @invariant()
    def pending_is_what_is_open(self) -> None:
        np.testing.assert_array_equal(self.policy._state.pending, self.pending())


class EliminationMachine(Counting):
    kind = CombinatorialElimination
    options = (
        {"delta": 0.5},
        {"delta": 0.5, "interval": "kl"},
        {"delta": 0.5, "interval": "bernstein", "tie_break": "random", "fill": "random"},
        {"delta": 0.5, "interval": "hoeffding", "tie_break": "index", "fill": "index", "skip_revealed": False},
        {"delta": 0.5, "intersect": False},
        {"delta": 0.9, "interval": "printed", "horizon": 1},
    )
    printed = False

    def ask(self) -> None:
        sets = self.policy.triage
        super().ask()
        chosen = set(self.open[max(self.open)].arms.tolist())
        assert not chosen & set(sets.eliminated.tolist())
        if sets.confirmed.size <= self.budget:
            assert set(sets.confirmed.tolist()) <= chosen

    ask = rule()(ask)

    @rule(rounds=st.integers(50, 150), luck=LUCK)
    def play_long(self, rounds: int, luck: int) -> None:
        self.play(rounds, luck)

    @invariant()
    def three_sets_part_the_arms(self) -> None:
        assert np.sort(np.concatenate(self.policy.triage)).tolist() == list(range(self.graph.n_arms))

    @invariant()
    def a_decision_is_left(self) -> None:
        sets = self.policy.triage
        assert sets.confirmed.size + sets.active.size >= self.budget

    @invariant()
    def no_more_is_confirmed_than_fits(self) -> None:
        assert self.printed or self.policy.triage.confirmed.size <= self.budget

    @invariant()
    def log_holds_what_was_decided(self) -> None:
        sets, log = self.policy.triage, self.policy.triage_log()
        assert sorted(log.arms[log.confirmed].tolist()) == sets.confirmed.tolist()
        assert sorted(log.arms[~log.confirmed].tolist()) == sets.eliminated.tolist()

    @invariant()
    def underway_is_what_is_open(self) -> None:
        assert self.policy._state.whole[UNDERWAY] == self.pending().sum()

    @invariant()
    def lagging_is_how_many_active_arms_are_at_the_least_count(self) -> None:
        state = self.policy._state
        active = self.counts[self.policy.triage.active]
        assert state.whole[LAGGING] == np.count_nonzero(active == state.whole[LEAST])

    @invariant()
    def waiting_arms_are_counted(self) -> None:
        layer = self.policy._state.layer
        blocks = np.add.reduceat(layer.waiting, np.arange(0, self.graph.n_arms, 256), dtype=np.int64)
        assert layer.whole[WAITING] == layer.waiting.sum()
        assert layer.crowd[: blocks.size].tolist() == blocks.tolist()


class PrintedMachine(EliminationMachine):
    options = (
        {"variant": "paper", "horizon": 1, "delta": 0.99},
        {"variant": "paper", "horizon": 1, "delta": 0.99, "tie_break": "random", "fill": "random"},
        {"variant": "paper", "interval": "hoeffding", "delta": 0.99, "skip_revealed": True, "fill": "index"},
    )
    printed = True


class IndexMachine(Counting):
    """Index policies decide as a full scan would: unseen arms, the least asked first, then the largest index."""

    def scale(self, number: int) -> float:
        raise NotImplementedError

    def index(self, number: int) -> np.ndarray:
        means = self.sums / np.maximum(self.counts, 1)
        return means + self.scale(number) * (1.0 / np.sqrt(np.maximum(self.counts, 1)))

    def expected(self) -> list[int]:
        number = len(self.open) + len(self.told)
        pending, index = self.pending(), self.index(number)
        seen = self.counts > 0
        order = sorted(range(self.graph.n_arms), key=lambda a: (seen[a], -index[a] if seen[a] else pending[a], a))
        return sorted(order[: self.budget])


class CombUCB1Machine(IndexMachine):
    kind = CombUCB1
    options = ({}, {"exploration": 0.1})

    def scale(self, number: int) -> float:
        return math.sqrt(self.policy.exploration * math.log(number + 1.0))


class CombinatorialUCBMachine(IndexMachine):
    kind = CombinatorialUCB
    options = ({"horizon": 1000}, {"width": 0.25})

    def scale(self, number: int) -> float:
        return float(self.policy.width)


class GreedyMachine(IndexMachine):
    kind = Greedy

    def scale(self, number: int) -> float:
        return 0.0


class KLUCBMachine(Counting):
    kind = KLUCB
    options = ({}, {"log_log": 3.0})


class ThompsonMachine(Machine):
    kind = ThompsonSampling

    @invariant()
    def wins_and_losses_are_what_was_told(self) -> None:
        state = self.policy._state
        np.testing.assert_array_equal(state.wins + state.losses, self.counts)


class RandomMachine(Machine):
    kind = UniformRandom

    @invariant()
    def order_holds_every_arm_once(self) -> None:
        assert np.sort(self.policy._state.order).tolist() == list(range(self.graph.n_arms))


TestElimination = EliminationMachine.TestCase
TestPrintedElimination = PrintedMachine.TestCase
TestCombUCB1 = CombUCB1Machine.TestCase
TestCombinatorialUCB = CombinatorialUCBMachine.TestCase
TestGreedy = GreedyMachine.TestCase
TestKLUCB = KLUCBMachine.TestCase
TestThompsonSampling = ThompsonMachine.TestCase
TestUniformRandom = RandomMachine.TestCase

for case in (
    TestElimination,
    TestPrintedElimination,
    TestCombUCB1,
    TestCombinatorialUCB,
    TestGreedy,
    TestKLUCB,
    TestThompsonSampling,
    TestUniformRandom,
):
    case.settings = SETTINGS
del case
