"""Certificates where the arms of a round are independent: how often they fail, and that they do if arms are not."""

from __future__ import annotations

import numpy as np
import pytest

from armtriage import GuardedThompson, Matchings, ThompsonSampling, certify
from armtriage.certificate import Slates, Tally
from armtriage.certificate.bounds import WHOLE, intervals_of, shares_of
from armtriage.certificate.independent import _ALONE, _hedge, is_feasible
from armtriage.certificate.slates import _PART
from armtriage.certificate.totals import BETS, kept_by
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


def capital(pulls: np.ndarray, sums: np.ndarray, means: np.ndarray, size: int) -> float:
    """The logarithm of the capital of bets against true means of coins, of which the last `size` are the best."""
    bets, won, lost = np.geomspace(0.01, 0.9, 8)[:, None], sums[-size:], (pulls - sums)[-size:]
    odds = means[-size:] / (1.0 - means[-size:])
    against = np.exp(won * np.log1p(-bets) + lost * np.log1p(bets * odds)).mean(axis=0)
    share, others = _hedge(size), BETS[:, None]
    rest = sums * np.log1p(others * (1.0 - means)) + (pulls - sums) * np.log1p(-others * means)
    on_totals = np.exp(rest[:, :-size].sum(axis=1)).mean()
    return float(np.log1p(share * (against - 1.0)).sum() + np.log(_ALONE + (1.0 - _ALONE) * on_totals))


def test_what_was_lost_is_bounded_as_long_as_the_capital_of_all_bets_is_small() -> None:
    """delta = 0.5, 300 runs of five looks; the capital is large in few of them. It fails once in 10,000 times."""
    rng, means, size, delta, runs = np.random.default_rng(7), np.array([0.1, 0.2, 0.3, 0.35, 0.4, 0.5]), 2, 0.5, 300
    above, below = shares_of(size, 4, delta)
    together, slates = (1.0 - _PART[0]) * above + (1.0 - _PART[1]) * below, Slates(size, independent=True)
    large, missed = 0, 0
    for _ in range(runs):
        pulls, sums, ever, most = np.zeros(6, np.int64), np.zeros(6), False, 0.0
        for step in range(1, 301):
            guess = np.where(pulls > 0, sums / np.maximum(pulls, 1), 1.0) + 0.3 * (rng.random(6) < 0.1)
            played = np.argsort(-guess + 1e-6 * rng.random(6))[:size]
            pulls[played] += 1
            sums[played] += rng.random(size) < means[played]
            if step in (3, 10, 30, 100, 300):
                most = max(most, capital(pulls, sums, means, size))
                tally = Tally(pulls, pulls, sums, np.zeros(6))
                ends, whole = slates.ends_of(tally, delta), intervals_of(tally, 6, WHOLE * delta)
                lost = step * means[-size:].sum() - pulls @ means
                inside = (ends.upper[-size:] >= means[-size:]).all() and (ends.lower[:-size] <= means[:-size]).all()
                inside &= (whole.lower <= means).all() and (means <= whole.upper).all()
                if inside and most < -np.log(together):
                    assert slates.lost_of_all(tally, step, ends, delta) >= lost - 1e-9
                ever |= not inside
        large, missed = large + (most >= -np.log(together)), missed + ever
    assert large <= most_failures(runs, together)
    assert missed <= most_failures(runs, delta - together)
    assert large + missed > 0


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
    assert len(kept_by(tally, ends.lower, intervals_of(tally, 5000, WHOLE * 0.05), 100, 4900, 0.05)) == 9
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
