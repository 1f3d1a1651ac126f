"""`GuardedThompson` and `GuardedIndex` over slates decide as their slow twins do: ask and tell, `simulate`, late."""

from __future__ import annotations

import numpy as np
import pytest

from twins.facts import assert_as_twin, assert_as_twin_when_late, played, played_late, share, split

GROUP = "twins of the guard"
exercised = pytest.mark.xdist_group(GROUP)

GUARD = [f"guard/{i}" for i in range(84)]
BY_INDEX = [f"index-guard/{i}" for i in range(60)]
HUBS = ["guard-hubs/1", "guard-hubs/4", "index-guard-hubs/1", "index-guard-hubs/4"]
WHOLE = [f"{name}-medium/{kind}" for kind in ("semi-bandit", "cliques", "digraph") for name in ("guard", "index-guard")]
MIDDLE = [f"{name}/{12 if 'semi' in name else 30}" for name in WHOLE]
MIDDLE += ["guard-medium/quiet", "index-guard-medium/quiet"]
LATE = [*GUARD[::4], *BY_INDEX[1::4], "guard-hubs/4", "index-guard-hubs/4", "guard-drift"]
SMALL = {"guard-hubs/1", *GUARD[:12], *BY_INDEX[:9]}


@pytest.mark.parametrize(
    "name", split([*GUARD, *BY_INDEX, *HUBS, "guard-drift", *MIDDLE], first=9, small=SMALL, rest=WHOLE, group=GROUP)
)
def test_policy_plays_as_its_twin(name: str) -> None:
    assert_as_twin(name)


@pytest.mark.parametrize("name", split(LATE, first=4, group=GROUP))
def test_policy_plays_as_its_twin_when_rewards_are_late_or_lost(name: str) -> None:
    assert_as_twin_when_late(name)


# The cases do exercise what they should, which is asked of those that `make test` plays.
@exercised
@pytest.mark.parametrize("part", ["forced", "second", "revealed", "waited", "confirmed", "eliminated"])
def test_a_tenth_of_the_guarded_runs_uses(part: str) -> None:
    assert share(GUARD[:14], lambda one: getattr(one.twin, part), played) >= 0.1


@exercised
@pytest.mark.parametrize("part", ["revealed", "waited", "impatient"])
def test_both_hub_runs_use(part: str) -> None:
    assert min(getattr(played(name).twin, part) for name in HUBS[:2]) > 0


@exercised
def test_a_tenth_of_the_late_runs_counts_lost_rewards_as_tries() -> None:
    assert np.mean([any(played_late(name).twin.schedule.credit) for name in GUARD[:24:4]]) >= 0.1
