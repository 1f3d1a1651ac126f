"""One end for each arm: what is still true if only these hold, and how often they fail."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.special import betainc, betaln, logsumexp

from armtriage import GuardedThompson, Knapsack, Matchings, StochasticEnvironment, ThompsonSampling, certify, simulate
from armtriage.certificate import Bounds, Log, Sets, Slates, Tally, cert_among, ends_of, intervals_of, log_bound
from armtriage.certificate.bounds import WHOLE, shares_of
from armtriage.certificate.slates import gap_of
from armtriage.certificate.totals import totals
from armtriage.intervals import confidence_interval, one_sided_ends
from armtriage.triage import triage_among
from conftest import most_failures


def halfway(rng: np.random.Generator, means: np.ndarray, best: np.ndarray) -> Bounds:
    """Ends of which only the upper ones of the best arms hold, and the lower ones of the others."""
    wide = rng.choice([0.01, 0.1, 0.5])
    hold, other = wide * rng.random(means.size), 2 * wide * rng.random(means.size)
    upper = np.where(best, means + hold, means - hold + other)
    return Bounds(upper - other, upper)


def test_one_end_for_each_arm_is_all_that_statements_about_the_best_slate_need() -> None:
    rng, decided, wrong_gaps = np.random.default_rng(7), 0, 0
    for _ in range(4000):
        n = int(rng.integers(2, 9))
        size = int(rng.integers(1, n))
        means = rng.random(n) * rng.choice([1.0, 0.1])
        order = np.argsort(-means)
        best = np.isin(np.arange(n), order[:size])
        bounds = halfway(rng, means, best)
        found = triage_among(*bounds, np.arange(n), size)
        assert best[found.confirmed].all()
        assert not best[found.eliminated].any()
        decided += found.confirmed.size + found.eliminated.size
        arms = np.sort(rng.permutation(n)[:size])
        lost = means[best].sum() - means[arms].sum()
        assert cert_among(*bounds, arms, np.arange(n)) >= lost - 1e-12
        rounds = int(rng.integers(1, 30))
        pulls = np.bincount(np.concatenate([rng.permutation(n)[:size] for _ in range(rounds)]), minlength=n)
        assert log_bound(pulls, rounds, size, bounds) >= rounds * means[best].sum() - pulls @ means - 1e-9
        gap, (least, most) = means[order[size - 1]] - means[order[size]], gap_of(bounds, np.arange(n), size)
        assert most >= gap - 1e-12
        wrong_gaps += least > gap + 1e-12
    assert decided > 4000
    assert wrong_gaps > 100, "the lower end of the gap needs the other ends, so it must not be read from these"


@pytest.mark.parametrize("decisions", [Matchings(2, 3), Knapsack([1, 2, 2, 3, 1], 4)])
def test_the_same_holds_for_the_best_decision_of_a_set(decisions: Any) -> None:
    rng, n, decided = np.random.default_rng(7), decisions.n_arms, 0
    rivals = Sets(decisions)
    for _ in range(150):
        means = rng.random(n)
        first = decisions.maximise(means)
        best = np.isin(np.arange(n), first)
        bounds = halfway(rng, means, best)
        arms = decisions.maximise(rng.random(n))
        assert rivals.challenge(arms, bounds, np.arange(n)).amount >= means[first].sum() - means[arms].sum() - 1e-9
        found, _ = rivals.sort(arms, bounds, np.arange(n), np.arange(n), np.inf)
        assert best[found.confirmed].all()
        assert not best[found.eliminated].any()
        decided += found.confirmed.size + found.eliminated.size
        played = [decisions.maximise(rng.random(n)) for _ in range(5)]
        pulls = np.bincount(np.concatenate(played), minlength=n)
        lost = 5 * means[first].sum() - pulls @ means
        assert rivals.lost(pulls, 5, bounds, None, 0) >= lost - 1e-9
    assert decided > 100


def capital(count: int, total: float, mean: float) -> float:
    """The logarithm of the capital of bets on smaller means: two thirds by the integral, a third in eight bets."""
    below = betaln(total + 0.5, count - total + 0.5) + math.log(betainc(total + 0.5, count - total + 0.5, mean))
    coin = total * math.log(mean) + (count - total) * math.log1p(-mean)
    bets = mean * (1.0 - np.geomspace(0.01, 0.9, 8))
    few = total * np.log(bets) + (count - total) * np.log1p(-bets) - coin - math.log(8)
    whole = below - math.log(2 * math.asin(math.sqrt(mean))) - coin
    return float(logsumexp([whole, *few], b=[2 / 3, *[1 / 3] * 8]))


def test_a_single_end_excludes_only_means_at_which_bets_have_won() -> None:
    rng = np.random.default_rng(7)
    for _ in range(300):
        count = int(rng.integers(1, 2000))
        total = float(rng.binomial(count, rng.random() * rng.choice([1.0, 0.05])))
        delta = float(rng.choice([0.5, 0.05, 1e-4]))
        sums = np.array([count]), np.array([total]), np.zeros(1)
        (lower,), (upper,) = one_sided_ends(*sums, below=delta, above=delta)
        least, most = confidence_interval(count, total, delta=2 / 3 * delta)
        assert least - 1e-12 <= lower <= total / count <= upper <= most + 1e-12
        for mean in np.linspace(upper, 1.0, 20)[1:-1]:
            assert capital(count, total, mean) >= math.log(1 / delta) - 1e-9
        for mean in np.linspace(0.0, lower, 20)[1:-1] if lower > 1e-9 else ():
            assert capital(count, count - total, 1.0 - mean) >= math.log(1 / delta) - 1e-9


def test_quiet_rewards_have_narrower_ends_too() -> None:
    count, total = np.array([400]), np.array([200.0])
    loud, quiet = (one_sided_ends(count, total, np.array([d]), below=0.01, above=0.01) for d in (0.0, 99.0))
    assert quiet[1] - quiet[0] < 0.5 * (loud[1] - loud[0])


Law = Callable[[np.random.Generator, np.ndarray, int], np.ndarray]


def shared(rng: np.random.Generator, means: np.ndarray, runs: int) -> np.ndarray:
    """All arms of a round have the same luck."""
    return rng.random((runs, 1)) < means


def opposed(rng: np.random.Generator, means: np.ndarray, runs: int) -> np.ndarray:
    """Arms of even number win when the others lose."""
    luck = rng.random((runs, 1))
    return np.where(np.arange(means.size) % 2, luck, 1 - luck) < means


def two_points(rng: np.random.Generator, means: np.ndarray, runs: int) -> np.ndarray:
    """A little less than the mean nearly always, and else 1."""
    least = 0.9 * means
    return np.where(rng.random((runs, means.size)) < (means - least) / (1 - least), 1.0, least)


WORLDS: dict[str, tuple[Law, list[float]]] = {
    "shared luck": (shared, [0.5, 0.45, 0.55, 0.4, 0.5]),
    "opposed luck": (opposed, [0.5, 0.45, 0.55, 0.4, 0.5]),
    "two points": (two_points, [0.3, 0.25, 0.28, 0.35, 0.2]),
    "rare rewards": (shared, [0.02, 0.03, 0.01, 0.02, 0.04]),
    "means at the ends": (opposed, [0.0, 1.0, 0.5, 1.0, 0.0]),
}


@pytest.mark.parametrize("world", WORLDS)
def test_ends_fail_no_more_often_than_they_may_in_hostile_worlds(world: str) -> None:
    """delta = 0.5, 2,000 runs, 16 looks in each; arms that look bad are hardly played again. Error rate 1e-4."""
    law, values = WORLDS[world]
    rng, means, runs, size, delta = np.random.default_rng(7), np.array(values), 2000, 2, 0.5
    n = means.size
    best = np.isin(np.arange(n), np.argsort(-means, kind="stable")[:size])
    pulls, sums, between = np.zeros((runs, n), np.int64), np.zeros((runs, n)), np.zeros((runs, n))
    missed, missed_loss = np.zeros((2, runs), np.bool_)
    share = 0.5 * shares_of(size, n - size, delta)[1]
    looks = set(np.rint(np.geomspace(2, 400, 16)).astype(int).tolist())
    for step in range(1, 401):
        guess = np.where(pulls > 0, sums / np.maximum(pulls, 1), 1.0) + 0.3 * (rng.random((runs, n)) < 0.1)
        played = np.argsort(-guess + 1e-6 * rng.random((runs, n)), axis=1)[:, :size]
        rewards = np.take_along_axis(np.asarray(law(rng, means, runs), float), played, axis=1)
        for column, more in ((pulls, 1), (sums, rewards), (between, rewards * (1 - rewards))):
            np.put_along_axis(column, played, np.take_along_axis(column, played, axis=1) + more, axis=1)
        if step in looks:
            flat = Tally(pulls.ravel(), pulls.ravel(), sums.ravel(), between.ravel())
            ends = ends_of(flat, size, n - size, delta, part=(1.0, 0.5))
            lower, upper = (one.reshape(runs, n) for one in ends)
            missed |= np.where(best, upper < means - 1e-12, lower > means + 1e-12).any(axis=1)
            lost = step * means[best].sum() - (pulls * means).sum(axis=1)
            found = totals(flat, intervals_of(flat, n, WHOLE * delta), size, share)
            for values, less in [(flat.pulls * ends.lower, 0.0), *found]:
                kept = values.reshape(runs, n)
                missed |= kept[:, ~best].sum(axis=1) - less > (pulls * means)[:, ~best].sum(axis=1) + 1e-9
                gains = np.sort((step - pulls) * upper + kept, axis=1)[:, n - size :].sum(axis=1)
                missed_loss |= gains - kept.sum(axis=1) + less < lost - 1e-9
    assert missed_loss.sum() <= missed.sum() <= most_failures(runs, delta)


def test_totals_are_worth_more_than_lower_ends_and_need_played_rewards() -> None:
    pulls = np.append(np.full(4, 9000), np.full(60, 400))
    tally = Tally(pulls, pulls, pulls * np.append(np.full(4, 0.6), np.full(60, 0.5)), np.zeros(64))
    rounds, ends = int(pulls.sum()) // 4, Slates(4).ends_of(tally, 0.05)
    by_ends = log_bound(pulls, rounds, 4, ends)
    assert Slates(4).lost_of_all(tally, rounds, ends, 0.05) < 0.9 * by_ends
    shown = tally._replace(counts=pulls + 1)
    assert totals(shown, ends, 4, 0.05) == []
    late = tally._replace(counts=pulls - 1)
    whole = intervals_of(late, 64, 0.05)
    for (fewer, _), (more, _) in zip(totals(late, whole, 4, 0.05), totals(tally, whole, 4, 0.05), strict=True):
        assert (fewer < more + 1.0).all()


def test_certificates_of_fixed_arms_are_tighter_and_those_of_eligible_arms_are_not() -> None:
    means = np.append(np.full(3, 0.6), np.full(27, 0.4))
    world = StochasticEnvironment(means, 30, seed=7)
    guarded = GuardedThompson(30, budget=3, seed=7)
    for visit in range(1500):
        decision = guarded.ask()
        guarded.tell(decision, world.rewards(visit, decision.revealed))
    whole = guarded.certificate()
    among = guarded.certificate(eligible=np.arange(30))
    assert whole.regret_bound < 0.95 * among.regret_bound
    upper = among.intervals.upper
    assert np.array_equal(guarded.certificate(eligible=[0, 1, 2, 3]).intervals.upper, upper)
    assert (upper >= guarded._evidence.lower[:30]).all()
    free = ThompsonSampling(30, budget=3, seed=7)
    for visit in range(1500):
        decision = free.ask(eligible=np.arange(30) != visit % 30)
        free.tell(decision, world.rewards(visit, decision.revealed))
    tally = free.tally
    ends = intervals_of(tally, 30, 0.05)
    assert np.array_equal(free.certificate().intervals.upper, ends.upper)


def test_a_log_reads_the_lower_end_of_the_gap_from_intervals_of_all_arms() -> None:
    pulls = np.array([900, 80, 20, 30, 40])
    made = certify(pulls, pulls, 0.01 * np.array([80, 20, 20, 20, 20]) * pulls, budget=1)
    lower, upper = made.intervals
    assert 0.0 < made.gap[0] == pytest.approx(lower[0] - upper[1:].max())
    tally = Tally(pulls, pulls, 0.01 * np.array([80, 20, 20, 20, 20]) * pulls, np.zeros(5))
    ends = Slates(1).ends_of(tally, 0.05)
    assert made.gap[0] < ends.lower[0] - ends.upper[1:].max()
    assert made.gap[1] == pytest.approx(np.sort(ends.upper)[-1] - np.sort(ends.lower)[-2])
    assert made.regret_bound <= log_bound(pulls, pulls.sum(), 1, ends) + 1e-9
    assert Log(Slates(1), tally, int(pulls.sum()), 0.05).past()["retrospective"] == made.regret_bound


def test_a_simulation_keeps_the_narrowest_ends_so_far() -> None:
    world = StochasticEnvironment(np.append(np.full(2, 0.7), np.full(18, 0.4)), 20, seed=7)
    policy = ThompsonSampling(20, 2, seed=7)
    trace = simulate(policy, world, horizon=4000, replications=2, seed=7, certificate=True, checkpoints=[500, 4000])
    assert (trace.certificate >= trace.regret).all()
    last = simulate(policy, world, horizon=4000, replications=2, seed=7, certificate=True, checkpoints=[4000])
    assert (trace.certificate[:, -1] <= last.certificate[:, -1]).all()


def test_squares_far_from_zero_that_were_added_up_one_by_one_make_no_interval_too_narrow() -> None:
    rewards = 300_000.0 + (np.random.default_rng(7).random(1_000_000) < 0.5)
    sums, squares = (float(np.cumsum(one)[-1]) for one in (rewards, rewards * rewards))
    log: Any = {"pulls": [rewards.size], "counts": [rewards.size], "sums": [sums], "budget": 1}
    with_squares, without = (
        certify(**log, reward_range=(300_000, 300_001), **more).intervals for more in ({"squares": [squares]}, {})
    )
    assert with_squares.upper - with_squares.lower >= 0.999 * (without.upper - without.lower)
    near = rewards - 300_000.0
    quiet = certify(**{**log, "sums": [near.sum() / 2]}, squares=[(near**2).sum() / 4]).intervals
    assert quiet.upper - quiet.lower < 0.7 * (without.upper - without.lower)
