"""Who is eligible is a pure function of seed, replication and round, and regret is against the best of them."""

from __future__ import annotations

import re
from itertools import combinations
from typing import Any

import numpy as np
import pytest

from armtriage import Arrivals, Availability, Explicit, Patterns, RandomRounds, StochasticEnvironment

MEANS = np.array([0.3, 0.9, 0.5, 0.7, 0.1, 0.8])


def world(availability: Availability | None, **more: Any) -> StochasticEnvironment:
    return StochasticEnvironment(MEANS, 6, seed=5, availability=availability, **more)


def test_without_availability_all_arms_are_always_there() -> None:
    assert world(None).eligible(3).tolist() == [0, 1, 2, 3, 4, 5]


def test_patterns_in_turn_follow_one_another() -> None:
    env = world(Patterns([[5, 0], [1], [2, 4, 3]], in_turn=True))
    assert [env.eligible(t).tolist() for t in range(4)] == [[0, 5], [1], [2, 3, 4], [0, 5]]


def test_patterns_are_drawn_equally_often() -> None:
    """Of 9,000 rounds a set has 3,000 with standard deviation 45: six of them happen with probability 6e-9."""
    env = world(Patterns([[0], [1], [2]]))
    found = np.bincount([int(env.eligible(t)[0]) for t in range(9000)])
    assert np.abs(found - 3000).max() < 6 * 45


def test_arms_have_their_shares_and_are_independent() -> None:
    """Shares and products of two of them, each within six standard errors."""
    shares = np.array([0.1, 0.3, 0.5, 0.7, 0.9, 1.0])
    env, there = world(RandomRounds(shares)), np.zeros((4000, 6))
    for t in range(4000):
        there[t, env.eligible(t)] = 1
    assert there[:, 5].all()
    assert np.abs(there.mean(axis=0) - shares).max() < 6 * 0.5 / np.sqrt(4000)
    for a, b in combinations(range(6), 2):
        assert abs((there[:, a] * there[:, b]).mean() - shares[a] * shares[b]) < 6 * 0.5 / np.sqrt(4000)


def test_an_arm_has_its_own_luck_whoever_else_there_is() -> None:
    few, many = RandomRounds(0.5), RandomRounds(0.5)
    small = StochasticEnvironment(MEANS[:4], 4, seed=5, availability=few)
    for t in range(50):
        others = [arm for arm in world(many).eligible(t).tolist() if arm < 4]
        assert small.eligible(t).tolist() == (others or [0, 1, 2, 3])


def test_arms_come_and_go() -> None:
    env = world(Arrivals([0, 2, 0, 1, 0, 3], [9, 9, 1, 2, 9, 9]))
    assert [env.eligible(t).tolist() for t in (0, 1, 2, 3)] == [[0, 2, 4], [0, 2, 3, 4], [0, 1, 3, 4], [0, 1, 4, 5]]


def test_a_round_without_anybody_has_everybody() -> None:
    assert world(Arrivals([4] * 6, [9] * 6)).eligible(0).size == 6
    assert world(RandomRounds(1e-9)).eligible(0).size == 6


def test_sets_differ_between_replications_and_seeds_and_not_between_calls() -> None:
    env = world(RandomRounds(0.5))
    other = StochasticEnvironment(MEANS, 6, seed=6, availability=RandomRounds(0.5))
    rounds = range(20)
    mine = [env.eligible(t).tolist() for t in rounds]
    assert mine == [env.eligible(t).tolist() for t in rounds]
    assert mine != [env.eligible(t, 1).tolist() for t in rounds]
    assert mine != [other.eligible(t).tolist() for t in rounds]


def test_rewards_do_not_depend_on_who_is_there() -> None:
    some, all_arms = world(RandomRounds(0.5)), world(None)
    for t in range(20):
        assert some.rewards(t, range(6)).tolist() == all_arms.rewards(t, range(6)).tolist()


@pytest.mark.parametrize("costs", [False, True])
def test_regret_is_against_the_best_eligible_arms(costs: bool) -> None:
    more: dict[str, Any] = {"direction": "minimize"} if costs else {}
    env = world(RandomRounds(0.6), **more)
    for t in range(40):
        among = env.eligible(t).tolist()
        size = min(3, len(among))
        sums = {arms: MEANS[list(arms)].sum() * (-1 if costs else 1) for arms in combinations(among, size)}
        best = max(sums.values())
        for arms, total in sums.items():
            assert env.regret(list(arms), t) == pytest.approx(best - total, abs=1e-12)
            assert (env.regret(list(arms), t) == 0.0) == (total == best)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: Patterns([]), ValueError, "sets must have a set or more, got none"),
        (lambda: Patterns([[]]), ValueError, "sets must each have an arm or more"),
        (lambda: Patterns([[1, 1]]), ValueError, "sets must name each arm once"),
        (lambda: Patterns(5), TypeError, "sets must be a list of sets of arms, got 5"),
        (lambda: Patterns([["a"]]), TypeError, "sets must be a list of whole numbers"),
        (lambda: Patterns([[0]], in_turn=1), TypeError, "in_turn must be True or False, got 1"),
        (lambda: world(Patterns([[0, 6]])), ValueError, "sets must have arms in 0..5, got 6"),
        (lambda: RandomRounds(0.0), ValueError, "share must lie above 0 and be at most 1, got 0.0"),
        (lambda: RandomRounds([0.5, np.nan]), ValueError, "share must lie above 0 and be at most 1, got nan"),
        (lambda: RandomRounds("half"), TypeError, "share must be an array of numbers, got 'half'"),
        (lambda: RandomRounds(np.ones((2, 2))), ValueError, "share must be a number, or one for each arm"),
        (lambda: world(RandomRounds([0.5, 0.5])), ValueError, "share must be a number, or one for each of 6 arms"),
        (lambda: Arrivals([]), ValueError, "first must be a list with a number for each"),
        (lambda: Arrivals([-1]), ValueError, "first must be whole numbers from 0, got"),
        (lambda: Arrivals([5], [4]), ValueError, "last must be no round before first, 5, got 4 for arm 0"),
        (lambda: Arrivals([5], [6, 7]), ValueError, "last must be a list with a number for each of 1 arms"),
        (lambda: world(Arrivals([0] * 5)), ValueError, "first must have a round for each of 6 arms, got 5"),
        (lambda: world("half"), TypeError, "availability must be Patterns, RandomRounds or Arrivals, got str"),
        (lambda: world(RandomRounds(0.5)).regret([0]), ValueError, "round must be given"),
        (lambda: world(Patterns([[1]])).regret([0], 3), ValueError, "arms must be eligible in round 3, got 0"),
        (
            lambda: world(Patterns([[2, 3, 4]]), decisions=Explicit([[0, 1], [2, 3]], n_arms=6)).regret([3, 4], 0),
            ValueError,
            "arms must be a decision of Explicit",
        ),
    ],
)
def test_bad_input_is_refused(make: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=re.escape(message)):
        make()


def test_regret_over_a_decision_set_is_against_the_best_eligible_decision() -> None:
    pairs = Explicit([[0, 1], [2, 3], [4, 5], [0, 3, 5]], n_arms=6)
    env = world(RandomRounds(0.7), decisions=pairs)
    family, whole = [one.tolist() for one in pairs], 0
    for t in range(60):
        among = set(env.eligible(t).tolist())
        there = [one for one in family if among.issuperset(one)]
        drawn = set(world(RandomRounds(0.7)).eligible(t).tolist())
        whole += not any(drawn.issuperset(one) for one in family)
        assert among == drawn if any(drawn.issuperset(one) for one in family) else among == set(range(6))
        best = max(MEANS[one].sum() for one in there)
        for one in there:
            assert env.regret(one, t) == pytest.approx(best - MEANS[one].sum(), abs=1e-12)
        assert min(env.regret(one, t) for one in there) == 0.0
    assert 0 < whole < 30


def test_a_world_says_who_is_there() -> None:
    assert "availability=RandomRounds(0.5)" in repr(world(RandomRounds(0.5)))
    assert "availability=Patterns(1 sets, in_turn=True)" in repr(world(Patterns([[0]], in_turn=True)))
    assert "availability=Arrivals(6 arms)" in repr(world(Arrivals(np.zeros(6, int))))
