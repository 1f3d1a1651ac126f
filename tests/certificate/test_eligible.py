"""Certificates of decisions among eligible arms: by exposure, by eligible set, with names, for costs."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from armtriage import UnknownArm, certify, confidence_interval
from armtriage.certificate import (
    Bounds,
    Certificate,
    Log,
    PatternBook,
    Slates,
    Tally,
    Watch,
    by_exposure,
    cert_among,
    narrowed,
)
from armtriage.kernels.jit import JIT
from armtriage.triage import triage_among

Round = tuple[np.ndarray, np.ndarray]  # the eligible arms and the decision


class Rounds(NamedTuple):
    """Decisions among eligible arms, and intervals that are given."""

    bounds: Bounds
    rounds: list[Round]
    pulls: np.ndarray
    exposures: np.ndarray
    slots: int

    def lost(self, means: np.ndarray) -> float:
        best = sum(np.sort(means[eligible])[::-1][: arms.size].sum() for eligible, arms in self.rounds)
        return float(best - sum(means[arms].sum() for _, arms in self.rounds))

    def corners(self) -> Any:
        for ends in itertools.product((False, True), repeat=self.pulls.size):
            yield np.where(ends, self.bounds.upper, self.bounds.lower)


def random_box(rng: np.random.Generator, n: int) -> Bounds:
    grid = int(rng.integers(1, 9)) if rng.random() < 0.5 else 10**6
    ends = np.sort(rng.integers(0, grid + 1, (n, 2)), axis=1) / grid
    return Bounds(ends[:, 0].copy(), ends[:, 1].copy())


def random_log(rng: np.random.Generator, most: int = 6, sleepy: float = 0.3, length: int = 15) -> Rounds:
    n = int(rng.integers(1, most + 1))
    budget = int(rng.integers(1, n + 1))
    sets = [one for one in (np.flatnonzero(rng.random(n) >= sleepy) for _ in range(4)) if one.size] or [np.arange(n)]
    rounds = []
    for _ in range(int(rng.integers(1, length))):
        eligible = sets[rng.integers(len(sets))]
        rounds.append((eligible, np.sort(rng.choice(eligible, min(budget, eligible.size), replace=False))))
    pulls, exposures = (np.bincount(np.concatenate([one[i] for one in rounds]), minlength=n) for i in (1, 0))
    return Rounds(random_box(rng, n), rounds, pulls, exposures, int(pulls.sum()))


def test_no_means_in_the_box_lose_more_than_the_bounds_by_exposure_and_by_set() -> None:
    """At every corner of 600 boxes; the loss is convex in the means, so the corners are all that matters."""
    rng = np.random.default_rng(1)
    tight = 0
    for trial in range(600):
        log = random_log(rng, most=8 if trial % 50 == 0 else 5)
        book = PatternBook(most=int(rng.integers(1, 5)))
        exposed = by_exposure(log.bounds, log.pulls, log.exposures, log.slots)
        for eligible, arms in log.rounds:
            book.add(eligible, arms, cert_among(*log.bounds, arms, eligible), log.bounds)
        most = max(log.lost(means) for means in log.corners())
        assert most <= exposed + 1e-9
        assert most <= book.bound(log.bounds) + 1e-9
        assert book.bound(log.bounds) <= sum(cert_among(*log.bounds, arms, one) for one, arms in log.rounds) + 1e-9
        tight += most > 0.5 * exposed > 0
    assert tight > 100  # not because the bound is far away


def test_bound_by_exposure_is_the_knapsack_that_it_says() -> None:
    """Against a linear program over how often each arm was in the best slate."""
    from scipy.optimize import linprog

    rng = np.random.default_rng(2)
    for _ in range(200):
        log = random_log(rng, most=8)
        e, m, (lower, upper) = log.exposures, log.pulls, log.bounds
        places = int(rng.integers(log.slots, e.sum() + 1))  # some of which may have been left empty
        slopes = np.where(e > 0, ((e - m) * upper + m * lower) / np.maximum(e, 1), 0.0)
        solved = linprog(-slopes, A_eq=np.ones((1, e.size)), b_eq=[places], bounds=[(0, one) for one in e])
        assert by_exposure(log.bounds, m, e, places) == pytest.approx(-solved.fun - m @ lower, abs=1e-9)


@pytest.mark.parametrize("scale", [1, 10**4])
def test_bound_by_exposure_is_the_usual_one_when_nothing_sleeps(scale: int) -> None:
    rng = np.random.default_rng(3)
    for _ in range(500):
        log = random_log(rng, most=8, sleepy=0.0)
        pulls, rounds, budget = scale * log.pulls, scale * len(log.rounds), log.rounds[0][1].size
        tally = Tally(pulls, np.zeros_like(pulls), np.zeros(pulls.size), np.zeros(pulls.size))
        common: dict[str, Any] = {"delta": 0.05, "reward_range": (0.0, 1.0), "bounds": log.bounds}
        usual = Log(Slates(budget), tally, rounds, **common).certificate()
        exposed = Log(Slates(budget), tally, rounds, **common, exposures=np.full_like(pulls, rounds)).certificate()
        assert exposed.retrospective == pytest.approx(usual.retrospective, abs=1e-9, rel=1e-12)
        assert (usual.per_round, exposed.per_round) == (False, True)


def test_one_decision_can_lose_its_best_exchange_among_the_eligible() -> None:
    rng = np.random.default_rng(4)
    for _ in range(2000):
        log = random_log(rng, most=7, length=2)
        (eligible, arms), (lower, upper), mine = log.rounds[0], log.bounds, set(log.rounds[0][1].tolist())
        best = max(
            sum(upper[a] for a in set(other) - mine) - sum(lower[a] for a in mine - set(other))
            for other in itertools.combinations(eligible.tolist(), arms.size)
        )
        assert cert_among(lower, upper, arms, eligible) == pytest.approx(best, abs=1e-12)


def test_a_round_loses_little_for_each_slot_that_explores_or_fills() -> None:
    """The slot lemma: at most 6 largest half-widths for a pick, and twice its own for an arm of largest upper bound."""
    rng = np.random.default_rng(5)
    largest, explored = 0.0, 0
    for _ in range(20_000):
        n = int(rng.integers(2, 14))
        budget = int(rng.integers(1, n))
        middle, width = rng.random(n), rng.choice([0.01, 0.1, 0.3]) * rng.random(n)
        bounds = Bounds(middle - width, middle + width)
        confirmed, active, _ = triage_among(*bounds, np.arange(n), budget)
        free = budget - confirmed.size
        if active.size <= free:
            continue
        picks = rng.permutation(active)[: rng.integers(0, free + 1)]
        rest = np.setdiff1d(active, picks)
        fill = rest[np.argsort(-bounds.upper[rest], kind="stable")][: free - picks.size]
        decision = np.sort(np.concatenate([confirmed, picks, fill]))
        loss = cert_among(*bounds, decision, np.arange(n))
        allowed = 6.0 * picks.size * width[active].max() + 2.0 * width[fill].sum()
        assert loss <= allowed + 1e-12
        largest, explored = max(largest, loss / allowed), explored + 1
    assert explored > 5_000
    assert largest > 0.95


@given(st.integers(0, 2**32))
def test_sets_that_were_closed_stay_bounded(seed: int) -> None:
    """A forgotten arm is another one from then on: its old rounds are closed with what was known of the old."""
    rng = np.random.default_rng(seed)
    log = random_log(rng, most=4)
    forgotten = int(rng.integers(log.pulls.size))
    half = int(rng.integers(len(log.rounds) + 1))
    book, bounds = PatternBook(most=3), log.bounds
    for eligible, arms in log.rounds[:half]:
        book.add(eligible, arms, cert_among(*bounds, arms, eligible), bounds)
    book.close(forgotten, bounds)
    fresh = random_box(rng, 1)
    after = Bounds(bounds.lower.copy(), bounds.upper.copy())
    after.lower[forgotten], after.upper[forgotten] = fresh.lower[0], fresh.upper[0]
    for eligible, arms in log.rounds[half:]:
        book.add(eligible, arms, cert_among(*after, arms, eligible), after)
    old, new = log._replace(rounds=log.rounds[:half]), log._replace(rounds=log.rounds[half:])
    for means in log.corners():
        for again in fresh:
            changed = means.copy()
            changed[forgotten] = again[0]
            assert old.lost(means) + new.lost(changed) <= book.bound(after) + 1e-9


def test_forgotten_arm_keeps_a_row_for_what_it_was() -> None:
    """Arm 0 had mean 1 for 500 rounds, is forgotten, and then has mean 0; row 2 is what it was."""
    tally = Tally(np.array([30, 470, 500]), np.array([30, 470, 500]), np.array([0.0, 235.0, 500.0]), np.zeros(3))
    exposures, divisors = np.array([500, 1000, 500]), np.array([4.0, 2.0, 2.0])
    log = Log(Slates(1), tally, 1000, 0.01, exposures=exposures, divisors=divisors, later=True, arms=np.array([0, 1]))
    one = log.certificate(names=["tea", "milk"])
    assert 30 * 0.5 <= one.regret_bound < 80
    assert (one.next_decision.tolist(), one.triage.active.tolist(), one.least_observed) == (["milk"], [], 30)
    assert one.confidence == 0.98


class Runs(NamedTuple):
    """Many runs of Thompson sampling among eligible arms: bounds, what was lost, and what certificates said."""

    above: float  # the least of bound minus truth, over runs and times
    exposed: np.ndarray
    summed: np.ndarray
    refunded: np.ndarray
    lost: np.ndarray


def play(runs: int, n: int, budget: int, rounds: int, awake: Callable[..., Any], seed: int, looks: int = 20) -> Runs:
    """Play all runs at once; intervals, certificates and the best slates are computed as they are defined."""
    rng = np.random.default_rng(seed)
    means, shape = rng.random((runs, n)), (runs, n)
    count, total, lower, upper = np.zeros(shape, np.int64), np.zeros(shape), np.zeros(shape), np.ones(shape)
    pulls, exposures, slots = np.zeros(shape, np.int64), np.zeros(shape, np.int64), np.zeros(runs, np.int64)
    lost, summed, refunded, exposed, above = np.zeros(runs), np.zeros(runs), np.zeros(runs), np.zeros(runs), np.inf
    for t in range(rounds):
        eligible = awake(rng, shape, t)
        eligible[~eligible.any(axis=1), t % n] = True
        sizes = np.minimum(eligible.sum(axis=1), budget)
        inside = np.arange(n) < sizes[:, None]

        def top(values: Any, eligible: Any = eligible, inside: Any = inside) -> Any:
            ranked = -np.sort(-np.where(eligible, values, -1.0), axis=1)
            return np.where(inside, ranked, 0.0).sum(axis=1)

        draws = np.where(eligible, rng.beta(1.0 + total, 1.0 + count - total), -1.0)
        chosen = np.zeros(shape, bool)
        np.put_along_axis(chosen, np.argsort(-draws, axis=1, kind="stable"), inside, axis=1)
        lost += top(means) - (means * chosen).sum(axis=1)
        now = top(np.where(chosen, lower, upper)) - (lower * chosen).sum(axis=1)
        summed, refunded = summed + now, refunded + now
        pulls, exposures, slots = pulls + chosen, exposures + eligible, slots + sizes
        count += chosen
        total += chosen * (rng.random(shape) < means)
        low, high = confidence_interval(count[chosen], total[chosen], n_arms=n, delta=0.05)
        lower[chosen], upper[chosen] = np.maximum(lower[chosen], low), np.minimum(upper[chosen], high)
        if (t + 1) % max(rounds // looks, 1) == 0:
            exposed = np.array(
                [by_exposure(Bounds(*one), *two) for one, two in zip(
                    zip(lower, upper, strict=True), zip(pulls, exposures, slots.tolist(), strict=True), strict=True)]
            )  # fmt: skip
            refunded = np.minimum(refunded, exposed)
            above = min(above, float((np.minimum(refunded, np.minimum(exposed, summed)) - lost).min()))
    return Runs(above, exposed, summed, refunded, lost)


def always(rng: np.random.Generator, shape: tuple[int, int], t: int) -> np.ndarray:
    return np.ones(shape, bool)


def half(rng: np.random.Generator, shape: tuple[int, int], t: int) -> np.ndarray:
    return rng.random(shape) < 0.5


def added(rng: np.random.Generator, shape: tuple[int, int], t: int) -> np.ndarray:
    return np.broadcast_to(np.arange(shape[1]) < 4 + t // 30, shape).copy()


compiled = pytest.mark.skipif(not JIT, reason="hundreds of thousands of intervals need compilation")


@compiled
@pytest.mark.parametrize("awake", [always, half, added])
def test_certificates_stay_above_the_truth(awake: Any) -> None:
    """In 150 runs each, at 20 times; each run may fail with probability at most 0.05, and none does."""
    assert play(150, 12, 3, 400, awake, seed=7).above >= -1e-9


@compiled
def test_bound_by_exposure_is_far_below_the_sum_when_every_round_has_its_own_set() -> None:
    found = play(6, 60, 6, 5000, half, seed=7)
    assert found.exposed.mean() <= 0.7 * found.summed.mean()
    assert (found.refunded <= np.minimum(found.exposed, found.summed) + 1e-9).all()


def book_of(log: Rounds, most: int = 64) -> PatternBook:
    book = PatternBook(most)
    for eligible, arms in log.rounds:
        book.add(eligible, arms, cert_among(*log.bounds, arms, eligible), log.bounds)
    return book


def test_book_comes_back_from_its_arrays_and_goes_on_alike() -> None:
    rng = np.random.default_rng(6)
    for _ in range(100):
        log, wider = random_log(rng), random_log(rng)
        n = max(log.pulls.size, wider.pulls.size)
        bounds = random_box(rng, n)
        book = book_of(log, most=3)
        again = PatternBook.from_arrays(book.to_arrays(), n, most=3)
        assert again.bound(log.bounds) == book.bound(log.bounds)
        for eligible, arms in wider.rounds:
            for one in (book, again):
                one.add(eligible, arms, 0.5, bounds)
            assert again.bound(bounds) == book.bound(bounds)
        for mine, other in zip(book.to_arrays().values(), again.to_arrays().values(), strict=True):
            assert mine.tobytes() == other.tobytes()


def test_empty_book_has_lost_nothing() -> None:
    book = PatternBook.from_arrays(PatternBook().to_arrays(), 3)
    assert book.bound(Bounds(np.zeros(3), np.ones(3))) == 0.0


def test_full_book_closes_the_set_that_has_not_occurred_for_longest() -> None:
    book, unknown, known = PatternBook(2), Bounds(np.zeros(3), np.ones(3)), Bounds(np.ones(3), np.ones(3))
    sets = [np.array([0, 1]), np.array([0, 2]), np.array([1, 2])]
    for eligible in (sets[0], sets[1], sets[0], sets[2]):
        book.add(eligible, eligible[:1], 1.0, unknown)
    assert book.frozen == 1.0  # of the second set
    assert book.to_arrays()["rounds"].tolist() == [2, 1]
    assert (book.bound(unknown), book.bound(known)) == (4.0, 1.0)


ARRAYS: dict[str, Any] = {
    "arms": [0, 2, 1, 2], "pulls": [2, 1, 0, 1], "eligible": [2, 2], "sizes": [1, 1], "rounds": [3, 1],
    "certificates": [0.5, np.inf], "frozen": [1.0],
}  # fmt: skip


def as_arrays(**changes: Any) -> dict[str, np.ndarray]:
    kinds = {name: array.dtype for name, array in PatternBook().to_arrays().items()}
    return {name: np.array(value, kinds[name]) for name, value in {**ARRAYS, **changes}.items()}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"arms": [0, 3, 1, 2]}, "arms of a pattern must exist"),
        ({"arms": [-1, 2, 1, 2]}, "arms of a pattern must exist"),
        ({"arms": [2, 0, 1, 2]}, "arms of a pattern must rise"),
        ({"arms": [0, 2, 0, 2]}, "patterns must differ"),
        ({"arms": [0, 2, 1]}, "patterns must have all their arms"),
        ({"pulls": [4, -1, 0, 1]}, "pulls of a pattern must fit its rounds"),
        ({"pulls": [2, 0, 0, 1]}, "pulls of a pattern must be those of whole decisions"),
        ({"eligible": [4, 0]}, "patterns must have an arm or more"),
        ({"eligible": [3, 2]}, "patterns must have all their arms"),
        ({"sizes": [0, 1]}, "decisions of a pattern must have an arm or more of it"),
        ({"sizes": [3, 1]}, "decisions of a pattern must have an arm or more of it"),
        ({"sizes": [1]}, "patterns must each have all they need"),
        ({"rounds": [0, 1]}, "patterns must have occurred"),
        ({"certificates": [-0.1, 0.0]}, "certificates of patterns must be from 0"),
        ({"certificates": [np.nan, 0.0]}, "certificates of patterns must be from 0"),
        ({"frozen": [-1.0]}, "frozen must be a number from 0"),
        ({"frozen": [np.nan]}, "frozen must be a number from 0"),
        ({"frozen": []}, "frozen must be a number from 0"),
        ({"frozen": [[1.0]]}, "frozen of the patterns is odd"),
    ],
)
def test_bad_books_are_refused(changes: dict[str, Any], message: str) -> None:
    assert PatternBook.from_arrays(as_arrays(), 3).bound(Bounds(np.zeros(3), np.ones(3))) == 1.5 + 1.0
    with pytest.raises(ValueError, match=message):
        PatternBook.from_arrays(as_arrays(**changes), 3)


def test_books_with_missing_or_too_many_sets_are_refused() -> None:
    arrays = as_arrays()
    with pytest.raises(ValueError, match="patterns must be at most 1, got 2"):
        PatternBook.from_arrays(arrays, 3, most=1)
    del arrays["pulls"]
    with pytest.raises(ValueError, match="patterns must have arms, pulls"):
        PatternBook.from_arrays(arrays, 3)
    with pytest.raises(ValueError, match="most must be a whole number from 1, got 0"):
        PatternBook(0)


def test_watch_follows_eligible_arms() -> None:
    watch, plain = Watch(3, Slates(1), 0.05), Watch(3, Slates(1), 0.05)
    tally = Tally(np.array([50, 30, 20]), np.array([50, 30, 20]), np.array([40.0, 15.0, 2.0]), np.zeros(3))
    exposures = np.array([60, 90, 100])
    expected = certify(*tally[:3], budget=1, exposures=exposures)
    assert watch.bound(tally, 100, exposures) == pytest.approx(expected.regret_bound)
    assert watch.bound(tally, 100, exposures, 110) > expected.regret_bound
    assert plain.bound(tally, 100) == pytest.approx(certify(*tally[:3], budget=1).regret_bound)


def test_shares_of_delta_are_each_arms_own() -> None:
    divisors, counts, sums = np.array([3.0, 3.0, 36.0]), np.array([50, 70, 5]), np.array([25.0, 60.0, 1.0])
    tally = Tally(counts, counts, sums, np.zeros(3))
    bounds, empty = narrowed(Bounds(np.zeros(3), np.ones(3)), tally, 0.01, divisors)
    assert not empty.any()
    for arm in range(3):
        alone = confidence_interval(int(counts[arm]), sums[arm], n_arms=int(divisors[arm]), delta=0.01)
        assert (bounds.lower[arm], bounds.upper[arm]) == alone
    watch = Watch(3, Slates(1), 0.01, divisors)
    watch.bound(Tally(counts, counts, sums, np.zeros(counts.size)), 125)
    assert np.array_equal(watch.bounds, bounds)
    one = Log(Slates(1), tally, 125, 0.01, divisors=divisors, later=True).certificate()
    other = Log(Slates(1), tally, 125, 0.01, bounds=bounds).certificate()
    assert one.next_bound == other.next_bound
    assert (one.confidence, other.confidence) == (0.98, 0.99)
    assert str(one).startswith("With 98% confidence, ")


def of_arms(**options: Any) -> Certificate:
    tally = Tally(np.array([40, 30, 20, 10]), np.array([40, 30, 20, 10]), np.array([30.0, 15.0, 8.0, 1.0]), np.zeros(4))
    common: dict[str, Any] = {"delta": 0.05, "reward_range": (0.0, 1.0), "exposures": np.array([50, 45, 40, 45])}
    given = {name: options.pop(name) for name in ("names", "contradictions") if name in options}
    kept = {name: options.pop(name) for name in ("sum_of_certificates", "by_pattern") if name in options}
    return Log(Slates(2), tally, 50, kept=kept, **{**common, **options}).certificate(**given)


def test_retired_arms_count_in_the_past_alone() -> None:
    one, all_ = of_arms(arms=np.array([1, 2, 3]), silent=(0, 3)), of_arms()
    assert one.regret_bound == all_.regret_bound
    assert one.next_decision.tolist() == [1, 2]
    assert sorted(np.concatenate(one.triage).tolist()) == [1, 2, 3]
    assert 0 not in {arm for pair in one.exchanges for arm in pair[:2]}
    assert (one.silent, one.least_observed) == ((3,), 10)
    assert one.gap != all_.gap
    assert of_arms(arms=np.array([1, 2])).gap == (np.inf, np.inf)
    assert of_arms(contradictions=1, arms=np.array([1, 3])).triage.active.tolist() == [1, 3]


def test_next_decision_is_one_of_eligible_arms() -> None:
    one = of_arms(eligible=np.array([1, 3]))
    assert (one.next_decision.tolist(), one.next_bound, one.exchanges) == ([1, 3], 0.0, ())
    assert sum(arms.size for arms in one.triage) == 4
    fewer = of_arms(eligible=np.array([2]))
    assert (fewer.next_decision.tolist(), fewer.next_bound) == ([2], 0.0)
    chosen = of_arms(eligible=np.array([0, 2, 3]), next_decision=[3, 2])
    assert [(pair.outside, pair.inside) for pair in chosen.exchanges] == [(0, 3)]
    with pytest.raises(ValueError, match=re.escape("next_decision must be 1 different arms, got [0, 2]")):
        of_arms(eligible=np.array([2]), next_decision=[0, 2])
    with pytest.raises(ValueError, match=re.escape("next_decision must be arms that may be played, got [0, 1]")):
        of_arms(arms=np.array([1, 2, 3]), next_decision=[0, 1])


def test_no_arm_may_be_left() -> None:
    one = of_arms(arms=np.array([], np.int64))
    assert (one.next_decision.size, one.next_bound) == (0, 0.0)
    assert "No arm may be played next. All arms that may be played fit into one decision." in str(one)


def test_smallest_of_three_bounds_counts() -> None:
    past = of_arms().retrospective
    assert of_arms(sum_of_certificates=past + 1, by_pattern=past - 1).regret_bound == past - 1
    assert of_arms(sum_of_certificates=past - 2, by_pattern=past - 1).regret_bound == past - 2
    assert of_arms(sum_of_certificates=past + 2, by_pattern=past + 1).regret_bound == past
    gone = of_arms(by_pattern=past - 1, contradictions=1)
    assert {gone.by_pattern, gone.regret_bound} == {np.inf}


NAMES = ["tea", 7, ("cake", 2), "jam"]


def test_certificate_speaks_in_names() -> None:
    one, plain = of_arms(names=NAMES, silent=(2,)), of_arms(silent=(2,))
    assert one.next_decision.tolist() == [NAMES[arm] for arm in plain.next_decision]
    assert one.next_decision.dtype == object
    for mine, other in zip(one.triage, plain.triage, strict=True):
        assert mine.tolist() == [NAMES[arm] for arm in other]
    assert [pair.outside for pair in one.exchanges] == [NAMES[int(pair.outside)] for pair in plain.exchanges]
    assert one.silent == (("cake", 2),)
    text = str(one)
    assert "Playing arms 'tea' and 7 next loses at most " in text
    assert re.search(r"because arm \('cake', 2\) may still be better than arm (7|'tea'), by up to", text)
    assert "Nothing has been heard of arm ('cake', 2) for some time" in text
    said = one.to_dict()
    assert json.loads(json.dumps(said, allow_nan=False)) == said
    assert said["silent"] == [["cake", 2]]
    withdrawn = of_arms(names=NAMES, contradictions=2)
    assert withdrawn.triage.active.tolist() == NAMES


LOG: dict[str, Any] = {"pulls": [60, 60, 80], "counts": [60, 60, 80], "budget": 2}


def test_sentences_compare_with_what_was_eligible() -> None:
    text = str(certify(**LOG, sums=[40.0, 20.0, 10.0], exposures=[80, 90, 100]))
    assert re.search(r"have lost at most [\d.]+ in all, [\d.]+ each, against the best eligible 2 arms of every", text)
    text = str(certify([6, 4], [6, 4], [3.0, 1.0], budget=1, exposures=[6, 10]))
    assert "against the best eligible arm of every round." in text


def test_sentences_of_costs() -> None:
    costs: dict[str, Any] = {**LOG, "sums": [20.0, 40.0, 70.0], "direction": "minimize"}
    text = str(certify(**costs))
    stated = r"have cost at most [\d.]+ more in all, [\d.]+ each, than always playing the cheapest 2 arms\. "
    assert re.search(stated, text)
    assert re.search(
        r"Playing arms 0 and 1 next costs at most [\d.]+ more than need be, mostly because arm 2 may", text
    )
    assert "may still be cheaper than arm 1, by up to" in text
    assert "certain to be among the cheapest 2 arms" in text
    assert "and costs to be told whatever they are." in text
    assert "reward" not in text
    assert "than the cheapest eligible 2 arms of every round." in str(certify(**costs, exposures=[80, 90, 100]))
    assert "so none has cost too much." in str(certify([0], [0], [0.0], budget=1, direction="minimize"))
    assert "is a cheapest decision. The cheapest arm is known" in str(
        certify([500, 9], [500, 9], [0.0, 9.0], budget=1, direction="minimize")
    )


@given(st.integers(0, 2**32))
def test_costs_are_rewards_turned_round(seed: int) -> None:
    rng = np.random.default_rng(seed)
    log = random_log(rng)
    n, budget, rounds = log.pulls.size, max(arms.size for _, arms in log.rounds), len(log.rounds)
    counts = rng.integers(0, 50, n)
    paid = np.floor(rng.random(n) * (counts + 1)) * 5.0 + 3.0 * counts  # each cost is 3 or 8
    common: dict[str, Any] = {"budget": budget, "rounds": rounds, "exposures": log.exposures, "slots": log.slots}
    cost = certify(log.pulls, counts, paid, **common, reward_range=(3.0, 8.0), direction="minimize")
    gain = certify(log.pulls, counts, -paid, **common, reward_range=(-8.0, -3.0))
    assert cost.regret_bound == pytest.approx(gain.regret_bound, abs=1e-9)
    assert cost.next_decision.tolist() == gain.next_decision.tolist()
    assert [arms.tolist() for arms in cost.triage] == [arms.tolist() for arms in gain.triage]
    assert cost.gap == pytest.approx(gain.gap)


def test_slots_left_empty_are_paid_for_in_the_units_of_the_log() -> None:
    """An empty slot earns nothing and costs nothing; the best slate has an arm there."""
    counts = np.array([400, 400])
    common: dict[str, Any] = {"budget": 1, "rounds": 500, "exposures": [500, 500], "slots": 500}
    gain = certify([400, 0], counts, 2.0 * np.array([400.0, 0.0]) + 10.0 * counts, **common, reward_range=(10.0, 12.0))
    unit = certify([400, 0], counts, [400.0, 0.0], **common)
    assert gain.regret_bound == pytest.approx(2.0 * unit.regret_bound + 10.0 * 100)
    cost = certify(
        [400, 0], counts, 12.0 * counts - 2.0 * np.array([400.0, 0.0]), **common, reward_range=(10.0, 12.0),
        direction="minimize",
    )  # fmt: skip
    assert cost.regret_bound == max(2.0 * unit.regret_bound - 12.0 * 100, 0.0)
    dear = certify([400, 0], counts, [-400.0, 0.0], **common, reward_range=(-1.0, 0.0), direction="minimize")
    assert dear.regret_bound == pytest.approx(unit.regret_bound)


GOOD: dict[str, Any] = {"pulls": [5, 5], "counts": [6, 5], "sums": [3.0, 2.0], "budget": 1, "exposures": [7, 10]}


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"exposures": [4, 10]}, ValueError, "exposures must be from its 5 pulls to the 10 rounds for arm 0, got 4"),
        ({"exposures": [7, 11]}, ValueError, "exposures must be from its 5 pulls to the 10 rounds for arm 1, got 11"),
        ({"exposures": [7]}, ValueError, "exposures must be a list with a number for each of 2 arms, got shape (1,)"),
        ({"exposures": [7.5, 9]}, ValueError, "exposures must be whole numbers from 0, got 7.5 for arm 0"),
        ({"slots": 9}, ValueError, "slots must be from the 10 pulls to 10, got 9"),
        ({"slots": 11}, ValueError, "slots must be from the 10 pulls to 10, got 11"),
        ({"slots": 18, "rounds": 20}, ValueError, "slots must be from the 10 pulls to 17, got 18"),
        ({"slots": 10.0}, TypeError, "slots must be a whole number from 0, got 10.0"),
        ({"slots": 10, "exposures": None}, ValueError, "slots must be None without exposures, got 10"),
        ({"names": ["tea"]}, ValueError, "names must name each of the 2 arms, got 1"),
        ({"names": ["tea", "tea"]}, ValueError, "'tea' is an arm already"),
        ({"names": ["tea", 1.5]}, TypeError, "names must be str, int or tuples of them, got 1.5"),
        ({"names": ["tea", "jam"], "next_decision": [0]}, UnknownArm, "next_decision has 0, which is no arm's name"),
        ({"names": ["tea", "jam"], "next_decision": ["tea", "jam"]}, ValueError, "next_decision must be 1 different"),
        ({"direction": "down"}, ValueError, "direction must be one of maximize, minimize, got 'down'"),
    ],
)
def test_bad_logs_are_refused_by_name(change: dict[str, Any], error: type[Exception], message: str) -> None:
    certify(**GOOD)
    with pytest.raises(error, match=re.escape(message)):
        certify(**{**GOOD, **change})


def test_sums_that_are_not_exact_are_refused() -> None:
    many = [2**52] * 3
    with pytest.raises(ValueError, match=r"pulls must sum to less than 9007199254740992, got 1\.35108e\+16"):
        certify(many, [0] * 3, [0.0] * 3, budget=3)
    with pytest.raises(ValueError, match="exposures must sum to less than"):
        certify([2**50] * 3, [0] * 3, [0.0] * 3, budget=3, rounds=2**52, exposures=many)


def test_next_decision_is_given_by_name() -> None:
    one = certify(**GOOD, names=["tea", "jam"], next_decision=["jam"])
    assert one.next_decision.tolist() == ["jam"]
    assert one.exchanges[0][:2] == ("tea", "jam")
