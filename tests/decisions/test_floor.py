"""The logging floor: its probabilities are those of what is played, and nothing else changes."""

from __future__ import annotations

import math
from collections import Counter
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from armtriage import (
    C2UCB,
    CombinatorialElimination,
    Falling,
    FeedbackGraph,
    Greedy,
    GuardedThompson,
    Policy,
    SlateLog,
    StochasticEnvironment,
    ThompsonSampling,
    TopS,
    evaluate,
    simulate,
)
from armtriage.decisions import Floored, swap


@pytest.mark.parametrize(("slots", "n_arms"), [(3, 9), (3, 5), (3, 4), (3, 3), (1, 2), (4, 6)])
def test_probabilities_of_all_arms_sum_to_the_slots(slots: int, n_arms: int) -> None:
    one = Floored(np.arange(slots), 0.3, n_arms - slots)
    assert one.inclusion(np.arange(n_arms)).sum() == pytest.approx(slots, abs=1e-12)


@pytest.mark.parametrize(("slots", "n_arms"), [(2, 6), (3, 4)])
def test_swaps_have_the_probabilities_that_are_logged(slots: int, n_arms: int) -> None:
    # 5,000 draws; every arm within 4.5 standard errors, which fails once in 10,000 such tests.
    one, draws = Floored(np.arange(slots), 0.3, n_arms - slots), 5000
    seen = Counter[int]()
    for number in range(draws):
        seen.update(swap(np.arange(slots), np.arange(n_arms), 0.3, 7, number).tolist())
    expected = one.inclusion(np.arange(n_arms))
    for arm in range(n_arms):
        error = math.sqrt(expected[arm] * (1 - expected[arm]) / draws)
        assert abs(seen[arm] / draws - expected[arm]) < 4.5 * error


@pytest.mark.parametrize(("slots", "n_arms"), [(2, 5), (3, 5), (2, 3)])
def test_observation_by_enumeration(slots: int, n_arms: int) -> None:
    floor, others = 0.3, range(slots, n_arms)
    one = Floored(np.arange(slots), floor, n_arms - slots)
    for size in range(1, n_arms + 1):
        for showing in combinations(range(n_arms), size):
            seen = 0.0
            for wanted in range(slots + 1):
                chance = math.comb(slots, wanted) * floor**wanted * (1 - floor) ** (slots - wanted)
                swaps = min(wanted, len(others))
                outs, ins = list(combinations(range(slots), swaps)), list(combinations(others, swaps))
                for out in outs:
                    for new in ins:
                        slate = {*range(slots)} - {*out} | {*new}
                        seen += chance / len(outs) / len(ins) * bool(slate & {*showing})
            assert one.observation(np.array(showing)) == pytest.approx(seen, abs=1e-12)


POLICIES = [ThompsonSampling, Greedy, CombinatorialElimination, GuardedThompson]


@pytest.mark.parametrize("kind", POLICIES)
def test_a_policy_with_a_floor_goes_on_after_it_is_saved_or_recorded(kind: type[Any]) -> None:
    policy: Policy = kind(8, budget=2, logging_floor=0.4, seed=7)
    again: Policy = kind(8, budget=2, logging_floor=0.4, seed=7)
    swapped = 0
    for number in range(40):
        eligible = [0, 1, 2, 3, 4] if number % 3 == 0 else None
        decision = policy.ask(eligible=eligible)
        assert decision.inclusion is not None
        rewards = (decision.arms % 2).astype(float)
        recorded = again.record(decision.arms, eligible=eligible, proposal=decision.proposal)
        assert recorded.inclusion is not None
        assert recorded.inclusion.tolist() == decision.inclusion.tolist()
        assert again.digest() == policy.digest()
        again.tell(recorded, rewards)
        assert decision.proposal is not None
        swapped += not np.array_equal(decision.proposal, decision.arms)
        others = 3 if eligible else 6
        inside = np.isin(decision.arms, decision.proposal)
        assert decision.inclusion.tolist() == pytest.approx(np.where(inside, 0.6, 0.8 / others).tolist())
        if number == 20:
            policy = Policy.from_bytes(policy.to_bytes())
            kept = policy.decision(number)
            assert np.array_equal(kept.proposal, decision.proposal)
            assert np.array_equal(kept.inclusion, decision.inclusion)
        policy.tell(decision.number, rewards)
    assert swapped > 10
    assert policy.tally.pulls.tolist() == again.tally.pulls.tolist()
    assert np.array_equal(policy.tally.sums, again.tally.sums)
    assert policy.certificate().regret_bound == again.certificate().regret_bound
    assert policy.digest() == again.digest()


def test_a_falling_floor_is_that_of_each_decision_and_is_saved() -> None:
    floor = Falling(0.5, power=0.25)
    policy = Greedy(8, budget=2, logging_floor=floor, seed=7)
    for number in range(20):
        decision = policy.ask()
        assert decision.floor == 0.5 / (number + 1) ** 0.25
        assert decision.proposal is not None
        assert decision.inclusion is not None
        inside = np.isin(decision.arms, decision.proposal)
        expected = np.where(inside, 1 - decision.floor, decision.floor * 2 / 6)
        assert decision.inclusion.tolist() == pytest.approx(expected.tolist())
        policy.tell(decision, [0.0, 1.0])
    policy.ask()
    again = Policy.from_bytes(policy.to_bytes())
    assert again.logging_floor == floor
    assert again.digest() == policy.digest()
    assert again.decision(20).floor == policy.decision(20).floor
    assert again.fresh().logging_floor == floor
    as_json: Any = {"start": 0.5}
    assert Greedy(8, budget=2, logging_floor=as_json).logging_floor == floor


def test_a_decision_knows_how_many_arms_there_were() -> None:
    for names in (None, ["a", "b", "c"]):
        policy = Greedy(3, budget=2, names=names, logging_floor=0.1, seed=7)
        before = policy.ask()
        policy.add_arms(2 if names is None else ["d", "e"])
        after = policy.ask()
        assert (before.n_arms, after.n_arms) == (3, 5)
        assert before.all_names == names
        again = Policy.from_bytes(policy.to_bytes())
        assert [one.n_arms for one in again.open_decisions] == [3, 5]


def test_rewards_that_arms_reveal_have_their_own_probability() -> None:
    policy = Greedy(FeedbackGraph.cliques([2, 2, 2]), budget=1, logging_floor=0.5, seed=7)
    decision = policy.ask()
    assert decision.proposal is not None
    inside = decision.proposal[0] // 2
    expected = [0.5 + 0.1 if arm // 2 == inside else 0.2 for arm in decision.revealed.tolist()]
    assert decision.observation is not None
    assert decision.observation.tolist() == pytest.approx(expected)


def test_an_arm_gets_the_rank_of_the_one_whose_slot_it_has() -> None:
    policy, swapped = Greedy(6, budget=3, logging_floor=0.5, seed=7), 0
    policy.tell(policy.record([0, 1, 2]), [0.9, 0.3, 0.6])
    policy.tell(policy.record([3, 4, 5]), [0.0, 0.1, 0.2])
    for _ in range(40):
        decision = policy.ask()
        ranked = list(decision.ranked)
        assert sorted(ranked) == decision.arms.tolist()
        assert [arm for arm in (0, 2, 1) if arm in ranked] == [arm for arm in ranked if arm in (0, 1, 2)]
        for place, arm in enumerate((0, 2, 1)):
            assert arm not in ranked or ranked.index(arm) == place
        swapped += not {0, 1, 2} <= set(ranked)
    assert swapped > 20


def test_without_a_floor_nothing_is_there() -> None:
    policy = Greedy(6, budget=2, seed=7)
    decision = policy.ask()
    assert (decision.proposal, decision.inclusion, decision.observation, decision.floor) == (None, None, None, 0.0)
    assert "logging_floor" not in repr(policy)
    assert "inclusion" not in decision.to_dict()
    floored = Greedy(6, budget=2, logging_floor=0.2, seed=7).ask().to_dict()
    assert {name: floored[name] for name in ("proposal", "arms", "floor", "inclusion", "observation")} == {
        "proposal": [0, 1],
        "arms": [1, 3],
        "floor": 0.2,
        "inclusion": [0.8, 0.1],
        "observation": [0.8, 0.1],
    }


def test_a_log_with_a_floor_answers(tmp_path: Path) -> None:
    luck, means = np.random.default_rng(7), np.linspace(0.1, 0.8, 8)
    policy = ThompsonSampling(8, budget=2, logging_floor=0.2, seed=7)
    with SlateLog(tmp_path / "log") as log:
        for _ in range(1500):
            decision = policy.ask()
            rewards = (luck.random(2) < means[decision.arms]).astype(float)
            policy.tell(decision, rewards)
            log.append(decision, rewards)
    found = evaluate(SlateLog.read(tmp_path / "log"), [3, 4])
    assert log.missing == ()
    assert found.low <= means[3] + means[4] <= found.high
    assert found.high - found.low < 0.8
    assert found.warnings == ()


def test_a_log_refuses_probabilities_below_the_floor(tmp_path: Path) -> None:
    log, decision = SlateLog(tmp_path / "log"), Greedy(6, budget=2, logging_floor=0.2, seed=7).ask()
    with pytest.raises(
        ValueError, match=r"inclusion must be at least 0\.1, which the floor gives every arm, got 0\.05"
    ):
        log.append(decision, inclusion=[0.5, 0.05])
    log.append(decision, inclusion=[0.5, 0.1])
    assert log.frame().collect()["floor"].to_list() == [0.2]
    assert Floored(np.arange(3), 0.2, 0).least == Floored(np.arange(3), 0.0, 0).least == 1.0


@pytest.mark.filterwarnings("ignore:A logging_floor is not compiled")
@pytest.mark.parametrize("kind", [ThompsonSampling, GuardedThompson])
def test_a_simulation_plays_the_floor(kind: type[Any]) -> None:
    graph, means = FeedbackGraph.semi_bandit(6), np.linspace(0.1, 0.9, 6)
    policy, world = kind(graph, budget=2, logging_floor=0.3, seed=7), StochasticEnvironment(means, graph, seed=7)
    trace = simulate(policy, world, horizon=400, record_decisions=True, certificate=True)
    assert trace.decisions is not None
    assert trace.certificate is not None
    again = policy.fresh()
    for number, arms in enumerate(trace.decisions[0].tolist()):
        decision = again.ask()
        assert decision.arms.tolist() == arms
        again.tell(decision, world.rewards(number, decision.arms))
    # Three tenths of the slots go to others, which lose 0.48 on average once the best two are known: 115 in all.
    assert trace.regret[0, -1] > 80
    assert (trace.certificate[0] >= trace.regret[0]).all()


def test_what_is_refused() -> None:
    for floor in (-0.1, 1.0, math.nan):
        with pytest.raises(ValueError, match=r"logging_floor must lie in \[0, 1\), got"):
            Greedy(6, budget=2, logging_floor=floor)
    for wrong in ({"start": 1.0}, {"start": 0.1, "power": 0.0}):
        with pytest.raises(ValueError, match=r"(start|power) must lie above 0 and below 1, got"):
            Falling(**wrong)
    with pytest.raises(ValueError, match="logging_floor that falls must have start and power, got speed"):
        Greedy(6, budget=2, logging_floor={"speed": 1.0})  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"proposal must be left out without a logging_floor, got \[0, 1\]"):
        Greedy(6, budget=2).record([0, 1], proposal=[0, 1])
    with pytest.raises(ValueError, match=r"proposal must be 2 different arms, got \[0\]"):
        Greedy(6, budget=2, logging_floor=0.1).record([0, 1], proposal=[0])
    with pytest.raises(NotImplementedError, match=r"logging_floor is for slates without contexts, got 0.1 over"):
        ThompsonSampling(6, decisions=TopS(6, 2), logging_floor=0.1)
    with pytest.raises(NotImplementedError, match=r"got 0.1 for a C2UCB"):
        C2UCB(6, dimension=2, budget=2, logging_floor=0.1)


class TestOpenArms:
    """A floor that exchanges arms of which it is open whether they belong to the best, and no others."""

    def test_probabilities_are_those_of_swaps(self) -> None:
        # 5,000 draws; every arm within 4.5 standard errors, which fails once in 10,000 such tests.
        one, draws = Floored(np.array([0, 1, 2, 3]), 0.3, 3, np.array([1, 3, 5, 6, 8])), 5000
        expected = one.inclusion(np.arange(9))
        assert expected.tolist() == pytest.approx([1, 0.7, 1, 0.7, 0, 0.2, 0.2, 0, 0.2])
        seen = Counter[int]()
        for number in range(draws):
            seen.update(one.swap(np.arange(4), np.arange(9), 7, number).tolist())
        for arm in range(9):
            error = math.sqrt(expected[arm] * (1 - expected[arm]) / draws)
            assert abs(seen[arm] / draws - expected[arm]) <= 4.5 * error
        assert one.observation(np.array([2, 4])) == 1.0
        assert one.observation(np.array([4, 7])) == 0.0
        assert one.observation(np.array([1, 4])) == pytest.approx(0.7)
        assert Floored(np.array([0, 1]), 0.3, 0, np.zeros(0, np.int64)).inclusion(np.arange(3)).tolist() == [1, 1, 0]

    @pytest.mark.parametrize("kind", POLICIES)
    def test_it_costs_less_and_less_and_goes_on_after_it_is_saved_or_recorded(self, kind: type[Any]) -> None:
        options: Any = {"budget": 2, "logging_floor": 0.5, "floor_arms": "open", "seed": 7}
        policy, again = kind(6, **options), kind(6, **options)
        env = StochasticEnvironment([0.95, 0.9, 0.5, 0.1, 0.05, 0.02], 6, seed=3)
        swapped = []
        for number in range(600):
            eligible = [0, 1, 2, 3] if number % 50 == 0 and kind is not CombinatorialElimination else None
            open_arms = policy.triage_of(eligible).active
            decision = policy.ask(eligible=eligible)
            twin = again.record(decision.arms, eligible=eligible, proposal=decision.proposal)
            assert np.array_equal(twin.inclusion, decision.inclusion)
            assert decision.proposal is not None
            moved = np.setxor1d(decision.proposal, decision.arms)
            assert np.isin(moved, open_arms).all()
            swapped.append(moved.size)
            if number % 97 == 0:
                policy = Policy.from_bytes(policy.to_bytes())
                loaded = policy.decision(number)
                assert np.array_equal(loaded.inclusion, decision.inclusion)
                decision = loaded
            rewards = env.rewards(number, decision.revealed)
            policy.tell(decision, rewards)
            again.tell(twin, rewards)
        assert policy.digest() == again.digest()
        assert sum(swapped[:60]) > 20
        assert policy.triage.active.size == 0 or sum(swapped[-60:]) < sum(swapped[:60])
        assert "floor_arms='open'" in repr(policy)

    def test_logs_have_its_probabilities_and_no_proposals(self, tmp_path: Path) -> None:
        policy = ThompsonSampling(5, budget=2, logging_floor=0.3, floor_arms="open", seed=7)
        env = StochasticEnvironment([0.9, 0.7, 0.5, 0.3, 0.1], 5, seed=3)
        with SlateLog(tmp_path / "log") as log:
            for number in range(2000):
                decision = policy.ask()
                rewards = env.rewards(number, decision.revealed)
                policy.tell(decision, rewards)
                log.append(decision, rewards)
        found = evaluate(SlateLog.read(tmp_path / "log"), target=[0, 1])
        assert abs(found.value - 1.6) < 0.15
        assert SlateLog.read(tmp_path / "log").frame().collect()["proposal"].is_null().all()
        assert "The probabilities do not match the log" not in str(found)
        # Arm 4 is eliminated on the way, and then has none.
        assert "The probabilities do not match the log" in str(evaluate(SlateLog.read(tmp_path / "log"), target=[0, 4]))

    def test_refusals(self) -> None:
        with pytest.raises(ValueError, match="floor_arms must be \"all\" without a logging_floor, got 'open'"):
            ThompsonSampling(5, budget=2, floor_arms="open")
        with pytest.raises(ValueError, match="floor_arms must be"):
            ThompsonSampling(5, budget=2, logging_floor=0.1, floor_arms="some")
        policy = ThompsonSampling(5, budget=2, logging_floor=0.1, floor_arms="open", seed=7)
        with pytest.raises(NotImplementedError, match="marginals are of floor_arms"):
            policy.marginals()
        assert policy.ask().marginal is None
