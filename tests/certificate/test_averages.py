"""Capital that many arms share, and rewards that were played where arms reveal others."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from armtriage import FeedbackGraph, GuardedThompson, Policy, StochasticEnvironment, ThompsonSampling
from armtriage.certificate import Slates, Tally, log_bound
from armtriage.certificate.averages import _bases, _ends_at, gains_at, kept_on_average, lost_on_average
from conftest import most_failures

WORLDS: dict[str, list[float]] = {
    "shared luck": [0.5, 0.45, 0.55, 0.4, 0.5, 0.5],
    "opposed luck": [0.5, 0.45, 0.55, 0.4, 0.5, 0.5],
    "two points": [0.3, 0.25, 0.28, 0.35, 0.2, 0.3],
    "rare rewards": [0.02, 0.03, 0.01, 0.02, 0.04, 0.02],
    "means at the ends": [0.0, 1.0, 0.5, 1.0, 0.0, 0.5],
}


def rewards_in(world: str, rng: np.random.Generator, means: np.ndarray) -> np.ndarray:
    """Rewards of all arms in a round: with one luck for all, with opposed ones, or of two values by themselves."""
    if world == "two points":
        return np.where(rng.random(means.size) < means / (10.0 - 9.0 * means), 1.0, 0.9 * means)
    luck = np.full(means.size, rng.random())
    if world != "shared luck":
        luck[1::2] = 1.0 - luck[1::2]
    return (luck < means).astype(float)


def failures(world: str, *, runs: int, cliques: bool, independent: bool = False) -> int:
    """Runs of 300 rounds in which a bound at delta = 0.5 is ever below the truth; arms that look bad are dropped."""
    rng, means, size, failed = np.random.default_rng(7), np.array(WORLDS[world]), 2, 0
    slates = Slates(size, independent)
    for _ in range(runs):
        pulls, counts, sums, between = np.zeros(6, np.int64), np.zeros(6, np.int64), np.zeros(6), np.zeros(6)
        played = Tally(pulls, np.zeros(6, np.int64), np.zeros(6), np.zeros(6))
        for step in range(1, 301):
            guess = np.where(counts > 0, sums / np.maximum(counts, 1), 1.0) + 0.3 * (rng.random(6) < 0.1)
            arms = np.argsort(-guess + 1e-6 * rng.random(6))[:size]
            shown = np.flatnonzero(np.isin(np.arange(6) // 3, arms // 3)) if cliques else arms
            rewards = rewards_in(world, rng, means) if not independent else (rng.random(6) < means).astype(float)
            pulls[arms] += 1
            for some, (n, s, d) in ((shown, (counts, sums, between)), (arms, played[1:4])):
                n[some] += 1
                s[some] += rewards[some]
                d[some] += rewards[some] * (1.0 - rewards[some])
            if step in (3, 10, 30, 100, 300):
                tally = Tally(pulls, counts, sums, between, played if cliques else None)
                lost = step * np.sort(means)[-size:].sum() - pulls @ means
                if slates.lost_of_all(tally, step, slates.ends_of(tally, 0.5), 0.5) < lost - 1e-9:
                    failed += 1
                    break
    return failed


@pytest.mark.parametrize(("world", "cliques"), [("shared luck", False), ("rare rewards", True)])
def test_what_was_lost_is_bounded_however_arms_depend(world: str, cliques: bool) -> None:
    """delta = 0.5, 30 runs of five looks: wrong in one of 10,000 such tests."""
    assert failures(world, runs=30, cliques=cliques) <= most_failures(30, 0.5)


@pytest.mark.long
@pytest.mark.parametrize("cliques", [False, True])
@pytest.mark.parametrize("world", [*WORLDS, "independent"])
def test_what_was_lost_is_bounded_in_hostile_worlds(world: str, cliques: bool) -> None:
    """delta = 0.5, 2,000 runs; the last world has arms that are independent, and says so."""
    alone = world == "independent"
    found = failures("shared luck" if alone else world, runs=2000, cliques=cliques, independent=alone)
    assert found <= most_failures(2000, 0.5)


def a_log(rng: np.random.Generator) -> Tally:
    pulls = rng.integers(1, 400, 5)
    return Tally(pulls, pulls, np.rint(pulls * rng.random(5)), np.zeros(5))


def test_capital_is_divided_among_the_arms_of_a_slate_as_badly_as_it_can_be() -> None:
    """Against all ways to divide it; prices leave a little, since they need not fit."""
    rng = np.random.default_rng(7)
    for _ in range(5):
        tally, rounds, kept, upper = a_log(rng), 500, 0.1 * np.arange(5), rng.random(5) * 0.3 + 0.7
        bases, paid = _bases(2 / 0.2)
        gains = gains_at(tally, rounds, upper, 2, kept, bases)
        ways = [
            gains[a, i] + gains[b, j]
            for a, b in itertools.combinations(range(gains.shape[0]), 2)
            for i, j in itertools.product(range(bases.size), repeat=2)
            if paid[i] + paid[j] <= 2 / 0.2
        ]
        truth = max(ways) - kept.sum()
        found = lost_on_average(tally, rounds, upper, 2, kept, 0.2)
        assert truth - 1e-9 <= found <= truth + 0.1 * abs(truth) + 1.0


def test_lower_ends_share_capital_whatever_it_costs() -> None:
    rng = np.random.default_rng(7)
    for _ in range(5):
        tally = a_log(rng)
        lower = Slates(2).ends_of(tally, 0.2).lower
        bases, paid = _bases(3 / 0.1)
        above = _ends_at(tally.pulls, tally.pulls - tally.sums, np.zeros(5), bases)
        ends = np.maximum(1.0 - above, lower[:, None])
        for outside in itertools.combinations(range(5), 3):
            least = min(
                sum(tally.pulls[a] * ends[a, i] for a, i in zip(outside, cells, strict=True))
                for cells in itertools.product(range(bases.size), repeat=3)
                if sum(paid[i] for i in cells) <= 3 / 0.1
            )
            for values, less in kept_on_average(tally, lower, 3, 0.1):
                assert values[list(outside)].sum() - less <= least + 1e-9
    assert kept_on_average(tally, lower, 1, 0.1) == []


def in_cliques(policy: Policy, rounds: int, seed: int = 7) -> Tally:
    """Play a policy, some of whose rewards come in parts, late, or never; return what was played and told."""
    n, rng, late = policy.n_arms, np.random.default_rng(seed), []
    counts, sums, between = np.zeros(n, np.int64), np.zeros(n), np.zeros(n)
    for t in range(rounds):
        late.append(policy.ask())
        if t % 5 == 4:
            for decision in late[:: 1 if t % 2 else -1]:
                told = {int(arm): float(rng.random()) for arm in decision.revealed if rng.random() < 0.9}
                first = dict(list(told.items())[::2])
                if len(first) < len(told):
                    policy.tell(decision, first, last=False)
                    policy.tell(decision, {arm: x for arm, x in told.items() if arm not in first})
                else:
                    policy.tell(decision, told)
                for arm in set(decision.arms.tolist()) & set(told):
                    counts[arm] += 1
                    sums[arm] += told[arm]
                    between[arm] += told[arm] * (1.0 - told[arm])
            late = []
    return Tally(policy.tally.pulls, counts, sums, between)


@pytest.mark.parametrize("kind", [ThompsonSampling, GuardedThompson])
def test_rewards_that_were_played_are_kept_apart(kind: Any) -> None:
    policy = kind(FeedbackGraph.cliques([3, 3, 2]), budget=3, seed=7)
    told = in_cliques(policy, 60)
    for one in (policy, Policy.from_bytes(policy.to_bytes())):
        for found, kept in zip(one.tally.played[:4], told[:4], strict=True):
            np.testing.assert_allclose(found, kept)
        assert (one.tally.counts >= told.counts).all()
    policy.start_window()
    assert not policy.certificate(since=60).rounds
    assert kind(8, budget=3).tally.played is None


def test_arms_that_begin_to_reveal_others_have_been_played_before() -> None:
    policy = ThompsonSampling(3, budget=2, seed=7)
    before = in_cliques(policy, 20)
    policy.add_arms(2, shows={3: [4]})
    played = policy.tally.played
    np.testing.assert_array_equal(played.counts, np.append(before.counts, [0, 0]))
    policy.tell(policy.record([3, 0]), {3: 1.0, 4: 1.0, 0: 0.0})
    assert policy.tally.played.counts.tolist() == [before.counts[0] + 1, *before.counts[1:], 1, 0]


def test_played_rewards_bound_what_was_lost_on_graphs() -> None:
    graph = FeedbackGraph.cliques([10] * 4)
    world = StochasticEnvironment(np.linspace(0.3, 0.7, 40), graph, seed=7)
    policy = ThompsonSampling(graph, budget=4, seed=7)
    for t in range(3000):
        decision = policy.ask()
        policy.tell(decision, world.rewards(t, decision.revealed))
    tally, rivals = policy.tally, Slates(4, independent=True)
    ends = rivals.ends_of(tally, 0.05)
    found = rivals.lost_of_all(tally, 3000, ends, 0.05)
    unknown = tally.played._replace(counts=0 * tally.counts, sums=0 * tally.sums, between=0 * tally.sums)
    none = rivals.lost_of_all(tally._replace(played=unknown), 3000, ends, 0.05)
    assert found < 0.95 * none == 0.95 * rivals.lost_of_all(tally._replace(played=None), 3000, ends, 0.05)
    assert none < log_bound(tally.pulls, 3000, 4, ends)
    old = dict(policy._contents()[1])
    for name in ("counts", "sums", "between"):
        old.pop(f"evidence.played_{name}")
    again = ThompsonSampling._from_archive("a file of before", policy._contents()[0], old)
    assert again.certificate(independent=True).regret_bound == pytest.approx(none)
