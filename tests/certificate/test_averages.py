"""Capital that many arms share, and rewards that were played where arms reveal others."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from scipy.special import betainc, betaln, logsumexp

from armtriage import FeedbackGraph, GuardedThompson, Policy, StochasticEnvironment, ThompsonSampling
from armtriage.certificate import Slates, Tally, log_bound
from armtriage.certificate.averages import _PRICES, _bases, _ends_at, kept_on_average, lost_on_average
from armtriage.certificate.bounds import WHOLE, ends_of, intervals_of, shares_of
from armtriage.certificate.independent import _ALONE, _CELL, _cells, _hedge
from armtriage.certificate.slates import _PART
from armtriage.certificate.totals import BETS, PART, kept_by, values_of
from conftest import most_failures

WORLDS: dict[str, list[float]] = {
    "shared luck": [0.5, 0.45, 0.55, 0.4, 0.5, 0.5],
    "opposed luck": [0.5, 0.45, 0.55, 0.4, 0.5, 0.5],
    "two points": [0.3, 0.25, 0.28, 0.35, 0.2, 0.3],
    "rare rewards": [0.02, 0.03, 0.01, 0.02, 0.04, 0.02],
    "means at the ends": [0.0, 1.0, 0.5, 1.0, 0.0, 0.5],
    "independent": [0.5, 0.45, 0.55, 0.4, 0.5, 0.5],
}


def rewards_in(world: str, rng: np.random.Generator, means: np.ndarray, runs: int) -> np.ndarray:
    """Rewards of all arms in a round: with one luck for all, with opposed ones, or of two values by themselves."""
    apart = rng.random((runs, means.size))
    if world == "two points":
        return np.where(apart < means / (10.0 - 9.0 * means), 1.0, 0.9 * means)
    luck = apart if world == "independent" else np.repeat(apart[:, :1], means.size, axis=1)
    if world in ("opposed luck", "rare rewards", "means at the ends"):
        luck[:, 1::2] = 1.0 - luck[:, 1::2]
    return (luck < means).astype(float)


def failures(world: str, *, runs: int, cliques: bool) -> int:
    """Runs of 300 rounds in which a bound at delta = 0.5 is ever below the truth; arms that look bad are dropped."""
    rng, means, size = np.random.default_rng(7), np.array(WORLDS[world]), 2
    slates, shape = Slates(size, independent=world == "independent"), (runs, means.size)
    pulls, failed = np.zeros(shape, np.int64), np.zeros(runs, np.bool_)
    # Rewards that were seen, and of these the ones that were played: how many, their sum, and that of r (1 - r).
    seen, played = ((np.zeros(shape, np.int64), np.zeros(shape), np.zeros(shape)) for _ in range(2))
    for step in range(1, 301):
        guess = np.where(seen[0] > 0, seen[1] / np.maximum(seen[0], 1), 1.0) + 0.3 * (rng.random(shape) < 0.1)
        arms = np.argsort(-guess + 1e-6 * rng.random(shape), axis=1)[:, :size]
        chosen = (np.arange(means.size) == arms[:, :, None]).any(axis=1)
        shown = chosen.reshape(runs, 2, 3).any(axis=2).repeat(3, axis=1) if cliques else chosen
        rewards = rewards_in(world, rng, means, runs)
        pulls += chosen
        for some, columns in ((shown, seen), (chosen, played)):
            for column, more in zip(columns, (1, rewards, rewards * (1.0 - rewards)), strict=True):
                np.add(column, more, out=column, where=some, casting="unsafe")
        if step in (3, 10, 30, 100, 300):
            lost = step * np.sort(means)[-size:].sum() - pulls @ means
            for i in np.flatnonzero(~failed):
                one, own = (Tally(pulls[i], *(column[i] for column in columns)) for columns in (seen, played))
                tally = one._replace(played=own) if cliques else one
                bound = slates.lost_of_all(tally, step, slates.ends_of(tally, 0.5), 0.5)
                failed[i] = bound < lost[i] - 1e-9
    return int(failed.sum())


@pytest.mark.parametrize(("world", "cliques"), [("shared luck", False), ("rare rewards", True)])
def test_what_was_lost_is_bounded_however_arms_depend(world: str, cliques: bool) -> None:
    """delta = 0.5, 30 runs of five looks: wrong in one of 10,000 such tests."""
    assert failures(world, runs=30, cliques=cliques) <= most_failures(30, 0.5)


@pytest.mark.long
@pytest.mark.parametrize("cliques", [False, True])
@pytest.mark.parametrize("world", WORLDS)
def test_what_was_lost_is_bounded_in_hostile_worlds(world: str, cliques: bool) -> None:
    """delta = 0.5, 2,000 runs; the last world has arms that are independent, and says so."""
    assert failures(world, runs=2000, cliques=cliques) <= most_failures(2000, 0.5)


def a_log(rng: np.random.Generator) -> Tally:
    pulls = rng.integers(1, 400, 5)
    return Tally(pulls, pulls, np.rint(pulls * rng.random(5)), np.zeros(5))


def test_capital_is_divided_among_the_arms_of_a_slate_as_badly_as_it_can_be() -> None:
    """Against all ways to divide it; prices leave a little, since they need not fit."""
    rng = np.random.default_rng(7)
    for _ in range(5):
        tally, rounds, kept, upper = a_log(rng), 500, 0.1 * np.arange(5), rng.random(5) * 0.3 + 0.7
        bases, paid = _bases(2 / 0.2)
        ends = np.minimum(_ends_at(tally.pulls, tally.sums, np.zeros(5), bases), upper[:, None])
        gains = (rounds - tally.pulls)[:, None] * ends + kept[:, None]
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


def exact_ends(counts: np.ndarray, sums: np.ndarray, bases: np.ndarray, *, in_bets: bool = False) -> np.ndarray:
    """Where the capital of bets on smaller means reaches each base, by the integral, rounded down on a fine grid.

    Or that of the eight bets alone.
    """
    ends = np.ones((counts.size, bases.size))
    for a, (n, s) in enumerate(zip(counts.tolist(), sums.tolist(), strict=True)):
        if s == n:
            continue
        p = np.linspace(s / n, 1.0, 10_001)[1:-1]
        whole = betaln(s + 0.5, n - s + 0.5) + np.log(betainc(s + 0.5, n - s + 0.5, p))
        coin = s * np.log(p) + (n - s) * np.log1p(-p)
        bets = np.geomspace(0.01, 0.9, 8)[:, None] * -p + p
        few = logsumexp(s * np.log(bets) + (n - s) * np.log1p(-bets), axis=0) - np.log(8) - coin
        mixed = np.logaddexp(whole - np.log(2 * np.arcsin(np.sqrt(p))) - coin + np.log(2 / 3), few - np.log(3))
        reached = np.searchsorted(np.maximum.accumulate(few if in_bets else mixed), bases)
        ends[a] = np.append(p, 1.0)[np.maximum(reached - 1, 0)]
    return ends


def most_of_slates(gains: np.ndarray, values: np.ndarray, size: int) -> float:
    """The most that a slate gains, less what the pulls of all arms were worth."""
    slates = itertools.combinations(range(values.size), size)
    return max(gains[list(arms)].sum() for arms in slates) - values.sum()


def slow_bound(tally: Tally, rounds: int, size: int, delta: float) -> float:
    """What `lost_of_all` looks for, with no arm and no base left out, and every slate tried."""
    n, (above, below) = tally.counts.size, shares_of(size, tally.counts.size - size, delta)
    others = n - size
    ones = exact_ends(tally.counts, tally.sums, np.array([np.log(size / above)]))[:, 0]
    ends = ends_of(tally, size, others, delta, part=PART)
    assert (ends.upper >= ones).all()
    kept = kept_by(tally, ends.lower, intervals_of(tally, n, WHOLE * delta), size, others, delta)
    bases, paid = _bases(others / (PART[1] * below))
    lower = np.maximum(1.0 - exact_ends(tally.counts, tally.counts - tally.sums, bases), ends.lower[:, None])
    worth = tally.pulls[:, None] * lower
    for price in _PRICES * (worth[:, 0] - worth[:, -1]).sum() * PART[1] * below / others:
        kept.append(((worth + price * paid).min(1), price * others / (PART[1] * below)))
    left = rounds - tally.pulls
    values, less = min(kept, key=lambda one: most_of_slates(left * ones + one[0], one[0], size) + one[1])
    bounds = [most_of_slates(left * ones + values, values, size)]
    capital = size / above
    bases, paid = _bases(capital)
    grid = exact_ends(tally.counts, tally.sums, bases)
    gains = left[:, None] * np.minimum(grid, ones[:, None]) + values[:, None]
    widest = np.sort(gains[:, -1] - gains[:, 0])[-size:].sum()
    bounds += [
        most_of_slates((gains - x * paid).max(1), values, size) + x * capital for x in _PRICES * widest / capital
    ]
    return min(bounds) + less


def slow_bound_together(tally: Tally, rounds: int, size: int, delta: float) -> float:
    """The same where arms are independent: every bet on totals, and every slate with every way to use its nats."""
    n, (above, below) = tally.counts.size, shares_of(size, tally.counts.size - size, delta)
    together = (1.0 - _PART[0]) * above + (1.0 - _PART[1]) * below
    ends = ends_of(tally, size, n - size, delta, part=_PART)
    share, cells = _hedge(size), _cells(size, together)
    nats = -np.log(together) - size * np.log(1 - share)
    assert cells == int((nats - np.log(_ALONE)) / _CELL)
    bases = np.maximum(np.log(np.expm1(_CELL * np.arange(1, cells + 2)) * (1 - share) / share), 0.0)
    upper = np.minimum(exact_ends(tally.counts, tally.sums, bases, in_bets=True), ends.upper[:, None])
    found = []
    for values, bet in values_of(tally, intervals_of(tally, n, WHOLE * delta)):
        rest = (nats + np.log(BETS.size / (1 - _ALONE)) - _CELL * np.arange(cells + 1)) / bet
        gains = (rounds - tally.pulls)[:, None] * upper + values[:, None]
        ways = [
            gains[a, i] + gains[b, j] + rest[i + j]
            for a, b in itertools.combinations(range(n), size)
            for i in range(cells + 1)
            for j in range(cells + 1 - i)
        ]
        found.append(max(ways) - values.sum())
    return min(found)


@pytest.mark.parametrize("shared", [False, True])
def test_a_bound_leaves_nothing_out_that_would_make_it_larger(shared: bool) -> None:
    """Ends that are sought from base to base, arms and bases that are left out, and prices that are not tried."""
    rng = np.random.default_rng(7)
    for n, rounds in ((5, 40), (8, 3000), (8, 300)):
        others = rng.multinomial(rounds - n + 1, rng.dirichlet(np.full(n - 1, 0.5)))
        pulls = np.append(rounds, others + 1)
        tally = Tally(pulls, pulls, rng.binomial(pulls, np.append(0.6, np.full(n - 1, 0.4))) + 0.0, np.zeros(n))
        slates = Slates(2, independent=shared)
        found = slates.lost_of_all(tally, rounds, slates.ends_of(tally, 0.2), 0.2)
        slow = (slow_bound_together if shared else slow_bound)(tally, rounds, 2, 0.2)
        assert slow <= found <= 1.01 * slow


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
