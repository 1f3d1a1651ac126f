"""Certificates where the arms of a round are independent: how often they fail, and that they do if arms are not."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from armtriage import GuardedThompson, Matchings, ThompsonSampling, certify
from armtriage.certificate import Slates, Tally
from armtriage.certificate.bounds import shares_of
from armtriage.certificate.independent import _CELL, is_feasible, lost_together
from armtriage.certificate.totals import kept_by
from armtriage.intervals import one_sided_ends
from conftest import most_failures

LOOKS = [20, 50, 100, 200, 400]


def misses(*, shared: bool, independent: bool, delta: float, runs: int) -> int:
    """Runs in which a bound is below the truth at some look.

    Ten arms of mean 1/2 are played, with one luck for all or not; the best ten, of mean 1, are not.
    """
    rng, failed, slates = np.random.default_rng(7), 0, Slates(10, independent)
    for _ in range(runs):
        luck = rng.random((400, 1 if shared else 10)) < 0.5
        sums = np.broadcast_to(luck, (400, 10)).cumsum(axis=0)
        for look in LOOKS:
            pulls = np.repeat([look, 0], 10)
            tally = Tally(pulls, pulls, np.append(sums[look - 1], np.zeros(10)), np.zeros(20))
            if slates.lost_of_all(tally, look, slates.ends_of(tally, delta), delta) < 5.0 * look:
                failed += 1
                break
    return failed


def test_one_luck_for_all_arms_breaks_what_independence_promises_and_nothing_else() -> None:
    """delta = 0.05, 150 runs of five looks: each of the three statements is wrong in one of 10,000 such tests."""
    runs, delta = 150, 0.05
    assert misses(shared=True, independent=True, delta=delta, runs=runs) > most_failures(runs, delta)
    assert misses(shared=False, independent=True, delta=delta, runs=runs) <= most_failures(runs, delta)
    assert misses(shared=True, independent=False, delta=delta, runs=runs) <= most_failures(runs, delta)


@pytest.mark.parametrize("means", [[0.5, 0.45, 0.55, 0.4, 0.5, 0.5], [0.02, 0.03, 0.01, 0.05, 0.04, 0.02]])
def test_bounds_hold_for_independent_arms_that_are_dropped_when_they_look_bad(means: list[float]) -> None:
    """delta = 0.5, 150 runs: the best arms are dropped after bad luck, which is when upper ends fail."""
    rng, truth, runs, size, failed = np.random.default_rng(7), np.array(means), 150, 3, 0
    for _ in range(runs):
        pulls, sums = np.zeros(6, np.int64), np.zeros(6)
        wrong = False
        for step in range(1, 201):
            guess = np.where(pulls > 0, sums / np.maximum(pulls, 1), 1.0) + 1e-6 * rng.random(6)
            played = np.argsort(-guess)[:size]
            pulls[played] += 1
            sums[played] += rng.random(size) < truth[played]
            if step in (5, 20, 60, 200):
                bound = certify(pulls, pulls, sums, budget=size, delta=0.5, independent=True).regret_bound
                wrong |= bound < step * np.sort(truth)[-size:].sum() - pulls @ truth - 1e-9
        failed += wrong
    assert failed <= most_failures(runs, 0.5)


def test_the_knapsack_finds_the_most_that_a_budget_of_nats_allows() -> None:
    """Against all ways to share the cells among the arms of every slate."""
    rng = np.random.default_rng(7)
    for _ in range(3):
        pulls = rng.integers(1, 60, 4)
        tally = Tally(pulls, pulls, pulls * rng.random(4), np.zeros(4))
        rounds, kept, upper = 80, pulls * 0.1, rng.random(4) * 0.5 + 0.5
        found = lost_together(tally, rounds, upper, 2, kept, 0.5)
        share, cells = 0.5, int((np.log(2.0) + 2 * np.log(2.0)) / _CELL)
        bases = np.maximum(np.log(np.expm1(_CELL * np.arange(1, cells + 2)) * (1 - share) / share), 0.0)
        chances = np.exp(-bases)
        ends = np.array(
            [
                np.minimum(one_sided_ends(pulls, tally.sums, np.zeros(4), below=0.5, above=chance)[1], upper)
                for chance in chances
            ]
        ).T
        gains = (rounds - pulls)[:, None] * ends + kept[:, None]
        best = max((gains[a, : cells + 1] + gains[b, cells::-1]).max() for a, b in itertools.combinations(range(4), 2))
        assert found == pytest.approx(best - kept.sum(), rel=1e-3)  # ends that are sought together, or alone


def test_independence_tightens_what_was_lost_and_is_said() -> None:
    pulls = np.append(np.full(5, 9000), np.full(45, 120))
    sums = pulls * np.append(np.full(5, 0.6), np.full(45, 0.4))
    rounds = int(pulls.sum()) // 5
    given = {"pulls": pulls, "counts": pulls, "sums": sums, "budget": 5, "rounds": rounds + 1}
    apart, any_ = certify(**given, independent=True), certify(**given)
    assert apart.regret_bound < 0.9 * any_.regret_bound
    assert "independent: one luck for all arms breaks it" in str(apart)
    assert "independent" not in str(any_)
    assert apart.to_dict()["assumptions"]["independent"]


def test_one_arm_or_too_many_share_nothing() -> None:
    pulls = np.array([60, 40])
    one = certify(pulls, pulls, [30.0, 10.0], budget=1, independent=True)
    assert one.next_bound == certify(pulls, pulls, [30.0, 10.0], budget=1).next_bound
    assert not is_feasible(5000, 100, 0.05)
    tally = Tally(np.full(5000, 2), np.full(5000, 2), np.ones(5000), np.zeros(5000))
    slates = Slates(100, independent=True)
    ends = slates.ends_of(tally, 0.05)
    assert np.array_equal(ends.upper, Slates(100).ends_of(tally, 0.05).upper)
    assert slates.lost_of_all(tally, 100, ends, 0.05) <= Slates(100).lost_of_all(tally, 100, ends, 0.05)
    assert len(kept_by(tally, ends.lower, 100, 4900, 0.05)) == 9
    assert sum(shares_of(100, 4900, 0.05)) == pytest.approx(0.95 * 0.05)


@pytest.mark.parametrize("more", [{"decisions": Matchings(1, 2)}, {"budget": 1, "exposures": [100, 100]}])
def test_independence_is_refused_where_nothing_is_proved(more: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="independent must be False with decisions or exposures"):
        certify([60, 40], [60, 40], [30.0, 10.0], independent=True, **more)  # type: ignore[arg-type]


def test_policies_have_it_for_slates_among_all_arms_only() -> None:
    free, guarded = ThompsonSampling(12, 3, seed=7), GuardedThompson(12, 3, seed=7)
    for policy in (free, guarded):
        for _ in range(300):
            decision = policy.ask()
            policy.tell(decision, (decision.revealed < 3).astype(float))
        made = policy.certificate(independent=True)
        tally = policy.tally
        same = certify(tally.pulls, tally.counts, tally.sums, budget=3, delta=1 - made.confidence, independent=True)
        assert made.regret_bound == pytest.approx(same.regret_bound)
        assert made.assumptions.independent
        with pytest.raises(ValueError, match="independent must be False unless decisions are slates among all arms"):
            policy.certificate(eligible=[0, 1, 2, 3], independent=True)
    over = GuardedThompson(4, decisions=Matchings(2, 2), seed=7)
    with pytest.raises(ValueError, match="independent must be False unless decisions are slates among all arms"):
        over.certificate(independent=True)
