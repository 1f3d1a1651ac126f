"""Certificates over decision sets: exact against brute force, and true on runs."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from armtriage import (
    Certificate,
    CombUCB1,
    ConstrainedElimination,
    Explicit,
    FeedbackGraph,
    Knapsack,
    Matchings,
    PartitionMatroid,
    Paths,
    StochasticEnvironment,
    ThompsonSampling,
    TopS,
    certify,
    simulate,
)
from armtriage.certificate import Bounds, Log, Sets, Tally, Watch, challenge, log_bound_over


def of_bounds(family: Any, lower: Any, upper: Any, played: Any, reward_range: Any = (0.0, 1.0), **more: Any) -> Any:
    """The certificate of a list of decisions, with intervals that are given."""
    n = len(lower)
    pulls = np.bincount(np.concatenate([np.empty(0, int), *played]).astype(int), minlength=n)
    tally = Tally(pulls, np.full(n, 4), np.full(n, 2.0), np.zeros(n))
    bounds = Bounds(np.array(lower), np.array(upper))
    names, contradictions = more.pop("names", None), more.pop("contradictions", 0)
    rivals = Sets(family, reward_range, more.get("direction", "maximize"))
    log = Log(rivals, tally, len(played), **{"delta": 0.05, "reward_range": reward_range, "bounds": bounds, **more})
    return log.certificate(names=names, contradictions=contradictions)


@st.composite
def problems(draw: Any) -> Any:
    """A family of unequal sizes, intervals, a range of rewards of either sign, and decisions of the family."""
    n = draw(st.integers(1, 5))
    arms = st.sets(st.integers(0, n - 1), min_size=0, max_size=n)
    lists = [sorted(one) for one in draw(st.lists(arms, min_size=1, max_size=6))]
    if not any(lists):
        lists.append([0])
    grid = st.integers(0, 8).map(lambda i: i / 8)
    ends = np.sort(np.array([[draw(grid), draw(grid)] for _ in range(n)]), axis=1)
    family = Explicit(lists, n_arms=n)
    played = draw(st.lists(st.sampled_from(lists), min_size=1, max_size=5))
    reward_range = draw(st.sampled_from([(0.0, 1.0), (-1.0, 1.0), (-3.0, -1.0), (2.0, 2.5)]))
    return family, lists, ends[:, 0], ends[:, 1], played, reward_range


def corners(lower: Any, upper: Any, reward_range: Any) -> Any:
    low, high = reward_range
    return [low + (high - low) * np.array(one) for one in product(*zip(lower, upper, strict=True))]


def best(means: Any, lists: Any) -> float:
    return max(float(means[one].sum()) for one in lists)


@given(problems())
def test_bounds_are_the_largest_loss_over_all_corners_of_the_box(problem: Any) -> None:
    family, lists, lower, upper, played, reward_range = problem
    one = of_bounds(family, lower, upper, played, reward_range, next_decision=played[0])
    box = corners(lower, upper, reward_range)
    coming = max(best(mu, lists) - mu[played[0]].sum() for mu in box)
    assert one.next_bound == pytest.approx(coming, abs=1e-9)
    past = max(len(played) * best(mu, lists) - sum(mu[arms].sum() for arms in played) for mu in box)
    assert one.regret_bound == one.retrospective == pytest.approx(past, abs=1e-9)


@given(problems())
def test_challenger_and_sides_make_up_the_bound(problem: Any) -> None:
    family, _, lower, upper, played, reward_range = problem
    one = of_bounds(family, lower, upper, played, reward_range, next_decision=played[0])
    assert one.challenger in family
    assert set(one.entering.tolist()) == set(one.challenger.tolist()) - set(played[0])
    assert set(one.leaving.tolist()) == set(played[0]) - set(one.challenger.tolist())
    low, high = reward_range
    worth = low + (high - low) * np.array([lower, upper])
    amount = worth[1][one.entering].sum() - worth[0][one.leaving].sum()
    assert one.next_bound == pytest.approx(amount, abs=1e-9)
    assert (one.next_bound == 0.0) == (not one.entering.size and not one.leaving.size)


@given(problems())
def test_triage_and_gap_are_those_of_every_corner(problem: Any) -> None:
    family, lists, lower, upper, played, reward_range = problem
    one = of_bounds(family, lower, upper, played, reward_range)
    different = sorted(set(map(tuple, lists)))
    for mu in corners(lower, upper, reward_range):
        values = sorted((float(mu[list(arms)].sum()) for arms in different), reverse=True)
        gap = values[0] - values[1] if len(values) > 1 else np.inf
        assert one.gap[0] - 1e-9 <= gap <= one.gap[1] + 1e-9
        for arms in different:
            if mu[list(arms)].sum() >= values[0] - 1e-12:
                assert set(one.triage.confirmed.tolist()) <= set(arms)
                assert not set(one.triage.eliminated.tolist()) & set(arms)


@given(problems(), st.data())
def test_retrospective_bound_never_exceeds_the_sum_of_certificates(problem: Any, data: Any) -> None:
    """Boxes that shrink from decision to decision; each certificate is taken when its decision is."""
    family, _, lower, upper, played, _ = problem
    pulls, total, before = np.zeros(len(lower), np.int64), 0.0, 0.0
    for rounds, arms in enumerate(played, 1):
        bounds = Bounds(lower, upper)
        total += challenge(family, np.array(arms, np.int64), bounds).amount
        step = before + challenge(family, np.array(arms, np.int64), bounds).amount
        pulls[arms] += 1
        before = log_bound_over(family, pulls, rounds, bounds)
        assert before <= min(step, total) + 1e-9
        middle = (lower + upper) / 2
        share = data.draw(st.sampled_from([0.0, 0.5, 1.0]))
        lower, upper = lower + share * (middle - lower), upper - share * (upper - middle)


def test_slates_have_the_certificate_that_they_have_without_a_set() -> None:
    """The next bound, the retrospective, the triage and the gap are the same things for all sets of two arms."""
    pulls, counts, sums = [30, 20, 25, 25], [30, 20, 25, 25], [28.0, 4.0, 20.0, 9.0]
    one = certify(pulls, counts, sums, budget=2, reward_range=(-1.0, 2.0))
    other = certify(pulls, counts, sums, decisions=PartitionMatroid([0, 0, 0, 0], 2), reward_range=(-1.0, 2.0))
    assert isinstance(other, Certificate)
    assert other.next_bound == pytest.approx(one.next_bound)
    # Slates share capital among arms, which sets do not.
    assert one.retrospective <= other.retrospective == pytest.approx(one.retrospective, rel=0.03)
    assert other.gap[0] == pytest.approx(one.gap[0])
    for mine, theirs in zip(other.triage, one.triage, strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_shorter_decisions_than_allowed_are_priced_by_what_they_left_out() -> None:
    wide = {"counts": [400, 400], "sums": [390.0, 395.0], "rounds": 10, "reward_range": (0.0, 1.0)}
    short = certify([10, 0], decisions=Explicit([[0, 1]]), **wide).regret_bound  # type: ignore[arg-type]
    assert short == pytest.approx(certify([10, 0], budget=2, **wide).regret_bound)  # type: ignore[arg-type]


def test_certain_decision_is_said_to_be_best() -> None:
    one = certify([9, 0, 0, 9], [900] * 4, [880.0, 8.0, 4.0, 880.0], decisions=Matchings(2, 2))
    assert isinstance(one, Certificate)
    assert one.next_bound == 0.0
    np.testing.assert_array_equal(one.next_decision, one.challenger)
    assert one.gap[0] > 1.0
    assert "Playing arms 0 and 3 next is a best decision. The best decision is known for certain." in str(one)


def test_text_says_what_may_be_better_where_nothing_leaves_or_enters() -> None:
    bag = Knapsack([1.0, 1.0], capacity=2.0)
    assert "it may be better with arms 0 and 1." in str(
        of_bounds(bag, [0.2, 0.2], [0.6, 0.6], [[0]], next_decision=[], reward_range=(0.0, 1.0))
    )
    assert "Playing arms 0 and 1 next loses at most 0.8, because it may be better without arms 0 and 1." in str(
        of_bounds(bag, [0.1, 0.1], [0.6, 0.6], [[0]], next_decision=[0, 1], reward_range=(-0.5, 0.5))
    )
    assert of_bounds(bag, [0.2, 0.2], [0.6, 0.6], [[0]]).to_dict()["entering"] == []


@pytest.mark.parametrize(
    ("given_", "says"),
    [
        ({}, "either budget or decisions must be given"),
        ({"budget": 1, "decisions": TopS(2, 1)}, "either budget or decisions must be given"),
        ({"decisions": TopS(3, 1)}, "decisions must have the 2 arms of pulls, got 3"),
        ({"decisions": Explicit([[0], [0, 1]])}, "rounds must be given for decisions of different sizes"),
        ({"decisions": Explicit([[0], [1]]), "next_decision": [0, 1]}, "next_decision must be a decision of"),
        ({"decisions": Explicit([[0], [1]]), "rounds": 1}, "rounds must allow for all pulls"),
    ],
)
def test_bad_arguments_are_refused(given_: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        certify([1, 1], [1, 1], [1.0, 0.0], **given_)


def test_decisions_that_are_no_set_are_refused() -> None:
    with pytest.raises(TypeError, match="decisions must be a DecisionSet, got list"):
        certify([1, 1], [1, 1], [1.0, 0.0], decisions=[[0], [1]])  # type: ignore[arg-type]


ARMS = FeedbackGraph.semi_bandit(6)
ROUTES = Paths(5, [(0, 1), (1, 2), (2, 4), (0, 3), (3, 4), (0, 4)], source=0, target=4)


@pytest.mark.parametrize("kind", [ThompsonSampling, CombUCB1, ConstrainedElimination])
def test_policies_certify_their_own_runs(kind: Any) -> None:
    env = StochasticEnvironment([0.9, 0.8, 0.7, 0.2, 0.5, 0.6], ARMS, decisions=ROUTES, seed=3)
    policy = kind(ARMS, decisions=ROUTES, seed=3)
    lost = 0.0
    for number in range(300):
        decision = policy.ask()
        policy.tell(decision, env.rewards(number, decision.revealed))
        lost += env.regret(decision.arms)
        if number % 50 == 49:
            one = policy.certificate()
            assert isinstance(one, Certificate)
            assert one.rounds == number + 1
            assert lost <= one.regret_bound
            assert env.regret(one.next_decision) <= one.next_bound + 1e-12
    assert policy.certificate(since=policy.start_window()).rounds == 0


@pytest.mark.parametrize("kind", [ThompsonSampling, ConstrainedElimination])
def test_simulate_keeps_certificates_over_decision_sets(kind: Any) -> None:
    """Both ways to play; the last checkpoint agrees with what ask and tell, asked at the same rounds, would say."""
    env = StochasticEnvironment([0.9, 0.8, 0.7, 0.2, 0.5, 0.6], ARMS, decisions=ROUTES, seed=3)
    trace = simulate(kind(ARMS, decisions=ROUTES, seed=3), env, horizon=200, replications=3, certificate=0.1)
    assert trace.certificate is not None
    assert (trace.regret <= trace.certificate).all()
    policy, watch = kind(ARMS, decisions=ROUTES, seed=3), Watch(6, Sets(ROUTES), 0.1)
    bounds = []
    for number in range(200):
        decision = policy.ask()
        policy.tell(decision, env.rewards(number, decision.revealed))
        if number + 1 in trace.rounds:
            bounds.append(watch.bound(policy.tally, number + 1))
    np.testing.assert_allclose(trace.certificate[0], bounds)
