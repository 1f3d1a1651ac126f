"""Policies by an index, by draws or by nothing decide as their slow twins do, over slates and decision sets."""

from __future__ import annotations

import numpy as np
import pytest

from armtriage import FeedbackGraph, StochasticEnvironment
from twins import cases
from twins.cases import INDEX, MEDIUM, OVER_SETS, SETS
from twins.facts import assert_as_twin, assert_as_twin_when_late, split
from twins.harness import decisions_of, first_difference, play, simulated

INDEXED = [f"index/{name}/{i}" for name in INDEX for i in range(60)]
WHOLE = [f"medium/{name}/{kind}" for kind in MEDIUM for name in ("CombinatorialUCB", "CombUCB1", "ThompsonSampling")]
WHOLE += [f"medium/KLUCB/{kind}" for kind in MEDIUM if "digraph" not in kind]  # its rewards are not tame
MIDDLE = [f"{name}/15" for name in WHOLE]
OVER = [f"over-set/{policy}/{family}/beta" for policy in OVER_SETS for family in SETS]
LATE = [f"over-set/{policy}/{family}/bernoulli" for policy in OVER_SETS for family in SETS if family != "top"]
LATE += [f"index/{name}/{i}" for name in INDEX for i in range(1, 18, 4)]
SMALL = {f"index/{name}/{i}" for name in INDEX for i in range(4)}
SMALL |= {f"over-set/{one}/{family}/beta" for one in OVER_SETS for family in ("trees", "paths", "knapsack")}


@pytest.mark.parametrize(
    "name", split([*INDEXED, *MIDDLE, *OVER], first=4, also={*MIDDLE}, small=SMALL, rest=WHOLE, group="index")
)
def test_policy_plays_as_its_twin(name: str) -> None:
    assert_as_twin(name)


@pytest.mark.parametrize("name", split(LATE, first=2, group="index"))
def test_policy_plays_as_its_twin_when_rewards_are_late_or_lost(name: str) -> None:
    assert_as_twin_when_late(name)


@pytest.mark.parametrize("budget", [1, 10, 19])
def test_thompson_draws_like_its_twin_when_good_arms_abound(budget: int) -> None:
    """Arms far above the levels, where cut-offs are only bounds, compete for too few slots."""
    env = StochasticEnvironment(np.full(20, 0.9), FeedbackGraph.semi_bandit(20), seed=budget)
    for seed in range(12):
        case = cases.indexed("ThompsonSampling", env, budget, 60, seed)
        done = play(case)
        assert done.fault is None
        assert first_difference(decisions_of(simulated(case)), done.decisions) is None
