"""A certificate that says nothing says so, and how many more decisions it takes until it speaks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from armtriage import (
    KLUCB,
    CombinatorialElimination,
    FeedbackGraph,
    GuardedLinear,
    GuardedThompson,
    Knapsack,
    Matchings,
    Policy,
    StochasticEnvironment,
    ThompsonSampling,
    UniformRandom,
    certify,
)
from armtriage.certificate import Certificate, Log, Slates, Tally, Watch
from armtriage.simulation.players import Run, player_for

RANGES = ((0.0, 1.0), (1.0, 5.0), (-1.0, 1.0), (-3.0, 0.0), (-3.0, -1.0), (0.0, 10.0))
EMPTY = "nothing useful is certified yet"


def equal_shares(rates: Any, pulls: int, **options: Any) -> Certificate:
    """The certificate of a log in which every arm was shown equally often, and has the mean that it should have."""
    shown = np.full(len(rates), pulls)
    return certify(shown, shown, np.rint(np.asarray(rates) * shown), **options)


def test_few_clicks_of_two_percent_certify_nothing() -> None:
    rates = np.linspace(0.01, 0.03, 30)
    early, late = (equal_shares(rates, n, budget=3) for n in (600, 60_000))
    assert early.regret_bound > early.earned == pytest.approx(30 * 0.02 * 600)
    assert not early.informative
    assert "This is more than all rewards so far: nothing useful is certified yet; about" in str(early)
    assert late.informative
    assert late.needed == 0
    assert EMPTY not in str(late)
    assert early.to_dict()["informative"] is False
    assert early.to_dict()["needed"] == early.needed


def test_the_forecast_is_exact_where_shares_stay_equal() -> None:
    rates, n = np.linspace(0.01, 0.03, 30), 600
    early = equal_shares(rates, n, budget=3)
    assert early.needed is not None
    more = n * (1.0 + early.needed / early.rounds)
    assert not equal_shares(rates, int(0.9 * more), budget=3).informative
    assert equal_shares(rates, int(1.1 * more), budget=3).informative


@st.composite
def logs(draw: Any) -> tuple[np.ndarray, np.ndarray, int, int]:
    """Pulls, unit means, a budget and how many rounds there were."""
    n = draw(st.integers(2, 6))
    budget, rounds = draw(st.integers(1, n - 1)), draw(st.sampled_from((3, 40, 1000, 4000)))
    picks = np.random.default_rng(draw(st.integers(0, 99))).random((rounds, n)).argsort(axis=1)[:, :budget]
    means = np.array([draw(st.sampled_from((0.0, 0.02, 0.3, 0.5, 1.0))) for _ in range(n)])
    return np.bincount(picks.ravel(), minlength=n), means, budget, rounds


@given(logs(), st.sampled_from(RANGES))
def test_what_is_informative_beats_doing_nothing(log: Any, ends: tuple[float, float]) -> None:
    pulls, unit, budget, rounds = log
    low, high = ends
    sums = np.rint(unit * pulls) * (high - low) + low * pulls
    made = certify(pulls, pulls, sums, budget=budget, reward_range=ends, rounds=rounds)
    assert made.intervals is not None
    assert made.earned == pytest.approx(float(sums.sum()), abs=1e-6)
    if high > 0:
        least = max(low, 0.0)
        most = rounds * float(np.sort(made.intervals.upper - least)[-budget:].sum())
    else:
        most = float((high * pulls - sums).sum())
    if made.informative:
        assert made.regret_bound < most + 1e-9
        assert EMPTY not in str(made)
    else:
        assert EMPTY in str(made)
        assert "more than all rewards so far" not in str(made) or made.regret_bound >= made.earned
    if made.needed is not None:
        assert (made.needed == 0) == made.informative
    turned = certify(
        pulls, pulls, -sums, budget=budget, reward_range=(-high, -low), rounds=rounds, direction="minimize"
    )
    assert turned.informative == made.informative
    assert turned.earned == pytest.approx(-made.earned)
    assert turned.needed == made.needed


def test_costs_that_may_all_be_too_much_certify_nothing() -> None:
    rare = equal_shares(np.linspace(0.01, 0.03, 20), 500, budget=2, direction="minimize")
    assert not rare.informative
    assert "This is more than all costs so far: nothing useful is certified yet" in str(rare)
    assert equal_shares(np.linspace(0.2, 0.8, 20), 5000, budget=2, direction="minimize").informative


def test_ranges_that_do_not_begin_at_zero_count_from_their_least() -> None:
    rates, shown = np.linspace(0.01, 0.03, 30), np.full(30, 600)
    clicks, stars = np.rint(rates * shown), np.rint(rates * shown) + shown
    moved = certify(shown, shown, stars, budget=3, reward_range=(1.0, 2.0))
    assert moved.regret_bound < moved.earned
    assert not moved.informative
    assert moved.needed == certify(shown, shown, clicks, budget=3).needed
    assert "all rewards so far:" not in str(moved)


def test_a_tight_certificate_of_bad_decisions_is_informative() -> None:
    pulls, sums = np.array([1000, 99_000]), np.array([900.0, 9_900.0])
    made = certify(pulls, pulls, sums, budget=1)
    assert made.regret_bound > 2 * made.earned
    assert made.informative


def test_eligible_sets_have_their_own_comparison() -> None:
    shown, clicks = np.full(30, 600), np.full(30, 12.0)
    made = certify(shown, shown, clicks, budget=3, exposures=np.full(30, 4000))
    assert made.per_round
    assert not made.informative
    assert made.needed is not None
    later = int(1 + made.needed / made.rounds) + 1
    assert certify(
        later * shown, later * shown, later * clicks, budget=3, exposures=np.full(30, 4000 * later)
    ).informative


@pytest.mark.parametrize("sets", [Matchings(2, 3), Knapsack([1.0] * 6, 2.0)])
def test_decision_sets_say_it_too(sets: Any) -> None:
    pulls, rounds = np.full(6, 400), 1200
    few, many = (certify(n * pulls, n * pulls, n * pulls * 0.02, decisions=sets, rounds=n * rounds) for n in (1, 1000))
    assert not few.informative
    assert EMPTY in str(few)
    assert few.needed is not None
    assert many.informative


def test_what_cannot_be_foreseen_is_not() -> None:
    never_seen = certify([500, 0], [500, 0], [10.0, 0.0], budget=1)
    assert never_seen.needed is None
    assert "how many more decisions are needed cannot be foreseen" in str(never_seen)
    assert certify([5, 5], [5, 5], [1.0, 0.0], budget=1).needed is None
    fresh = GuardedThompson(3, budget=1, seed=7).certificate()
    assert (fresh.informative, fresh.needed) == (False, None)
    assert EMPTY not in str(fresh)


def test_a_certificate_that_withdraws_informs_of_nothing() -> None:
    tally = Tally(*(np.array([500, 500]),) * 2, np.array([400.0, 100.0]), np.zeros(2))
    made = Log(Slates(1), tally, 1000, 0.05).certificate(contradictions=1)
    assert (made.informative, made.needed) == (False, None)
    assert EMPTY not in str(made)


@pytest.mark.parametrize("options", [{}, {"model": "disjoint"}])
@pytest.mark.parametrize("direction", ["maximize", "minimize"])
def test_contexts_say_it_too(options: Any, direction: str) -> None:
    rng, rows = np.random.default_rng(7), np.array([[0.5, 0.1], [0.5, 0.4]])
    policy = GuardedLinear(2, dimension=2, budget=1, reward_range=(0, 1), direction=direction, seed=7, **options)
    for _ in range(200):
        policy.tell(policy.ask(rows), (rng.random(1) < 0.02).astype(float))
    few = policy.certificate()
    assert not few.informative
    assert few.needed is None
    assert f"{EMPTY}; how many more decisions are needed cannot be foreseen" in str(few)
    assert few.to_dict()["informative"] is False


def test_contexts_are_informative_when_the_bound_is_small() -> None:
    policy = GuardedLinear(2, dimension=1, budget=1, noise_scale=0.01, seed=7)
    for _ in range(100):
        policy.tell(policy.ask([[0.5], [1.0]]), [0.5])
    made = policy.certificate()
    assert made.informative
    assert made.needed == 0
    assert EMPTY not in str(made)
    assert made.earned == pytest.approx(50.0, rel=0.02)


class Diary(Watch):
    """Keeps the certificate of every look."""

    def __init__(self, run: Run) -> None:
        super().__init__(run.policy.n_arms, Slates(run.policy.budget), run.delta)
        self.made: list[Certificate] = []

    def bound(self, tally: Tally, rounds: int, exposures: Any = None, slots: Any = None) -> float:
        bound = super().bound(tally, rounds)
        self.made.append(Log(self.rivals, tally, rounds, self.delta).certificate())
        return bound


def forecasts(policy: Policy, rates: np.ndarray, horizon: int, replications: int) -> list[float]:
    """Forecasts from a 16th to half of the way, as multiples of what was needed."""
    world = StochasticEnvironment(rates, FeedbackGraph.semi_bandit(rates.size), seed=7)
    points = np.unique(np.rint(np.geomspace(50, horizon, 60)).astype(np.int64))
    found = []
    for replication in range(replications):
        run = Run(policy, world, horizon, points, 7, False, 0.05)
        diary = Diary(run)
        player_for(policy, world)(
            run._replace(watcher=diary),
            replication,
            lambda _, desk, diary=diary: len(diary.made) < 3 or not all(one.informative for one in diary.made[-3:]),
        )
        silent = [one.rounds for one in diary.made if not one.informative]
        at = min(one.rounds for one in diary.made if one.rounds > max(silent))
        for part in (16, 8, 4, 2):
            before = [one for one in diary.made if one.rounds <= at / part]
            if before and before[-1].needed:
                found.append(before[-1].needed / (at - before[-1].rounds))
    return found


SAME = np.append(np.full(27, 0.02), [0.025] * 3)
OTHERS = [
    np.random.default_rng(3).beta(2, 98, 30),
    np.random.default_rng(4).beta(2, 30, 60),
    np.linspace(0.05, 0.01, 10),
]
LEARNERS = (GuardedThompson, CombinatorialElimination, ThompsonSampling, KLUCB)


@pytest.mark.parametrize(
    ("kinds", "worlds", "runs"),
    [
        ((UniformRandom, GuardedThompson, CombinatorialElimination), [SAME], 2),
        pytest.param((UniformRandom, *LEARNERS), [SAME, *OTHERS], 4, marks=pytest.mark.long),
    ],
)
def test_nine_in_ten_forecasts_are_right_within_a_factor_of_five(kinds: Any, worlds: Any, runs: int) -> None:
    """From a 16th of the way on, for rules that learn and for one that does not."""
    found = [
        np.array(forecasts(kind(rates.size, 3, seed=7), rates, 200_000, runs)) for kind in kinds for rates in worlds
    ]
    ratios = np.concatenate(found)
    assert ratios.size > 3 * runs * len(found)
    assert np.mean((ratios > 0.2) & (ratios < 5.0)) >= 0.9
