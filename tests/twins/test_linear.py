"""Policies with contexts decide as their slow twins do: ask and tell, `simulate`, late."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from armtriage import HierarchicalElimination
from twins.cases import BY_ARM, LINEAR, RANGES, RICH, VARIANTS, case_of
from twins.facts import assert_as_twin, assert_as_twin_when_late, played, split
from twins.linear import HierarchicalTwin

GROUP = "twins with contexts"
exercised = pytest.mark.xdist_group(GROUP)


def linear(numbers: range, rounds: int, how: str, policies: tuple[str, ...] = LINEAR) -> list[str]:
    return [f"linear/{policy}/{number}/{rounds}/{how}" for policy in policies for number in numbers]


# The printed width is so large that it takes long to learn enough for the later stages.
SCALED = linear(range(32), 120, "scaled") + linear(range(353, 378, 24), 120, "scaled", VARIANTS)
SCALED += linear(range(0, 21, 7), 800, "scaled", VARIANTS)
SCALED += linear(range(0, 32, 5), 60, "scaled", BY_ARM)
RAW = linear(range(100, 124), 120, "raw") + linear(range(RICH, RICH + 2), 1500, "raw", VARIANTS)
RAW += linear(range(101, 125, 5), 60, "raw", BY_ARM)
MANY = linear(range(1000, 1120), 300, "raw")
LATE = linear(range(200, 212), 120, "scaled") + linear(range(RICH, RICH + 1), 1500, "scaled", VARIANTS)
LATE += linear(range(205, 217, 2), 60, "scaled", BY_ARM)
MANY_LATE = linear(range(2000, 2120), 300, "scaled")
SMALL = {*linear(range(100, 106), 120, "raw"), *linear(range(101, 107, 5), 60, "raw", BY_ARM)}

# The runs whose twins are asked afterwards whether cases exercise what they should, and one arm, and one round.
TELLING = [name for name in SCALED + RAW if int(name.split("/")[3]) >= 800]
TELLING += [name for name in SCALED if int(name.split("/")[2]) in (10, 11, 12, 13, 353, 377)]
ODD = [name for name in SCALED if int(name.split("/")[2]) in (16, 18)]


@pytest.mark.parametrize(
    "name", split([*SCALED, *RAW, *MANY], first=2, also={*TELLING, *ODD}, small=SMALL, group=GROUP)
)
def test_policy_plays_as_its_twin(name: str) -> None:
    assert_as_twin(name)


@pytest.mark.parametrize("name", split([*LATE, *MANY_LATE], first=2, also={*LATE[-15::2]}, group=GROUP))
def test_policy_plays_as_its_twin_when_rewards_are_late_or_lost(name: str) -> None:
    assert_as_twin_when_late(name)


@pytest.mark.parametrize(("budget", "horizon"), [(1, 1), (1, 4), (1, 5), (3, 1), (4, 4), (5, 1000), (8, 2**21)])
def test_number_of_stages_is_that_of_the_twin(budget: int, horizon: int) -> None:
    policy = HierarchicalElimination(9, 2, budget, horizon=horizon)
    assert policy.stages == HierarchicalTwin(9, 2, budget, horizon, 0.01, "tight").stages


def stage_events(variant: str, fact: Callable[[Any], Any]) -> int:
    """In how many rounds of the runs of a variant a stage has it."""
    runs = [played(name) for name in TELLING if name.startswith(f"linear/{variant}/")]
    return sum(any(fact(s) for s in r.stages) for one in runs for r in one.twin.rounds.values())


@exercised
@pytest.mark.parametrize("variant", VARIANTS)
def test_stages_explore_confirm_eliminate_and_fill(variant: str) -> None:
    assert stage_events(variant, lambda s: sum(w > 2.0**-s.h for w in s.wid.values()) > len(s.explored)) >= 100
    assert stage_events(variant, lambda s: s.explored and s.free) >= 100
    assert stage_events(variant, lambda s: s.confirmed) >= 100
    assert stage_events(variant, lambda s: s.eliminated) >= 100
    assert stage_events(variant, lambda s: s.explored and s.h >= 4) >= 20
    runs = [played(name) for name in TELLING if name.startswith(f"linear/{variant}/")]
    rounds = [r for one in runs for r in one.twin.rounds.values()]
    assert sum(bool(r.filled) and len(r.filled) < len(r.stages[-1].kept) for r in rounds) >= 100


@exercised
def test_drift_makes_the_ends_of_some_arms_cross() -> None:
    assert sum(played(name).twin.contradictions for name in TELLING if name.startswith("linear/tight/")) > 0


@exercised
def test_sizes_and_horizons_have_their_turns() -> None:
    policies = [case_of(name).policy for name in SCALED + RAW if name.startswith("linear/tight/")]
    assert {policy.dimension for policy in policies} == {1, 2, 5, 8}
    assert any(policy.n_arms == 1 for policy in policies)
    assert any(policy.budget == 1 < policy.n_arms for policy in policies)
    assert any(policy.budget == policy.n_arms > 1 for policy in policies)
    assert any(1 < policy.budget < policy.n_arms for policy in policies)
    assert {1, 10**6} <= {policy.horizon for policy in policies}
    assert {policy.reward_range for policy in policies} == set(RANGES)
    assert {policy.context_bound for policy in policies} == {0.5, 1.0, 2.5}
