"""Certificates bound what was lost, whoever decided, and say so plainly."""

from __future__ import annotations

import copy
import dataclasses
import itertools
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import armtriage
from armtriage import (
    C2UCB,
    KLUCB,
    CombinatorialElimination,
    CombUCB1,
    FeedbackGraph,
    Greedy,
    Guard,
    GuardedLinear,
    GuardedThompson,
    Matchings,
    Policy,
    ReplayEnvironment,
    StochasticEnvironment,
    ThompsonSampling,
    UniformRandom,
    certify,
    random_bernoulli,
    simulate,
)
from armtriage.certificate import Bounds, Certificate, Log, Slates, Tally
from armtriage.triage import triage_among

ANY_POLICY = (ThompsonSampling, KLUCB, CombUCB1, Greedy, UniformRandom, CombinatorialElimination, GuardedThompson)


def of_bounds(lower: Any, upper: Any, budget: int, decisions: Any, next_decision: Any = None) -> Certificate:
    """The certificate of a list of decisions, with intervals that are given."""
    n = len(lower)
    pulls = np.bincount(np.ravel(decisions).astype(int), minlength=n) if len(decisions) else np.zeros(n, int)
    tally = Tally(pulls, np.zeros(n, np.int64), np.zeros(n), np.zeros(n))
    bounds = Bounds(np.array(lower, float), np.array(upper, float))
    log = Log(Slates(budget), tally, len(decisions), 0.05, bounds=bounds, next_decision=next_decision)
    return log.certificate()


@st.composite
def problems(draw: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray, int, list[list[int]]]:
    """Intervals, means inside them, a budget and decisions; coarse grids make ties, and ends that meet."""
    n = draw(st.integers(1, 7))
    budget = draw(st.integers(1, n))
    grid = st.integers(0, 8).map(lambda x: x / 8)
    ends = np.array([sorted(draw(st.tuples(grid, grid))) for _ in range(n)])
    shares = np.array([draw(grid) for _ in range(n)])
    means = ends[:, 0] + shares * (ends[:, 1] - ends[:, 0])
    decisions = st.permutations(range(n)).map(lambda order: sorted(order[:budget]))
    return ends[:, 0], ends[:, 1], means, budget, draw(st.lists(decisions, min_size=1, max_size=6))


def loss(means: np.ndarray, arms: Any, budget: int) -> float:
    return float(np.sort(means)[::-1][:budget].sum() - means[list(arms)].sum())


@given(problems())
def test_next_bound_is_the_best_exchange_over_all_decisions(problem: Any) -> None:
    lower, upper, _, budget, decisions = problem
    mine = set(decisions[0])
    best = max(
        sum(upper[a] for a in set(other) - mine) - sum(lower[a] for a in mine - set(other))
        for other in itertools.combinations(range(len(lower)), budget)
    )
    one = of_bounds(lower, upper, budget, decisions, decisions[0])
    assert one.next_bound == pytest.approx(best, abs=1e-12)
    assert {pair.inside for pair in one.exchanges} <= mine
    assert not {pair.outside for pair in one.exchanges} & mine
    assert all(pair.amount == upper[pair.outside] - lower[pair.inside] > 0 for pair in one.exchanges)


@given(problems())
def test_retrospective_is_the_best_exchange_of_the_whole_log(problem: Any) -> None:
    lower, upper, _, budget, decisions = problem
    best = max(
        sum(
            sum(upper[a] for a in set(other) - set(mine)) - sum(lower[a] for a in set(mine) - set(other))
            for mine in decisions
        )
        for other in itertools.combinations(range(len(lower)), budget)
    )
    assert of_bounds(lower, upper, budget, decisions).retrospective == pytest.approx(best, abs=1e-12)


@given(problems())
def test_no_bound_is_below_the_truth_when_the_intervals_hold(problem: Any) -> None:
    lower, upper, means, budget, decisions = problem
    one = of_bounds(lower, upper, budget, decisions, decisions[0])
    assert loss(means, decisions[0], budget) <= one.next_bound + 1e-12
    assert sum(loss(means, arms, budget) for arms in decisions) <= one.regret_bound + 1e-12
    ranked = np.sort(means)[::-1]
    if budget < means.size:
        assert one.gap[0] - 1e-12 <= ranked[budget - 1] - ranked[budget] <= one.gap[1] + 1e-12
    # A confirmed arm is in every best decision, and an eliminated one in none.
    assert all(np.sum(means >= means[a]) <= budget for a in one.triage.confirmed)
    assert all(np.sum(means > means[a]) >= budget for a in one.triage.eliminated)


@given(problems(), st.randoms(use_true_random=False))
def test_names_of_arms_do_not_matter(problem: Any, random: Any) -> None:
    lower, upper, _, budget, decisions = problem
    name = list(range(len(lower)))
    random.shuffle(name)
    order = np.argsort(name)
    one = of_bounds(lower, upper, budget, decisions, decisions[0])
    renamed = [[name[a] for a in arms] for arms in decisions]
    other = of_bounds(lower[order], upper[order], budget, renamed, renamed[0])
    assert other.next_bound == pytest.approx(one.next_bound, abs=1e-12)
    assert other.retrospective == pytest.approx(one.retrospective, abs=1e-12)
    assert other.gap == one.gap
    for mine, theirs in zip(one.triage, other.triage, strict=True):
        assert sorted(name[a] for a in mine) == theirs.tolist()


@given(problems(), st.integers(1, 3))
def test_confirmed_arms_that_are_always_played_cancel(problem: Any, more: int) -> None:
    lower, upper, _, budget, decisions = problem
    n = len(lower)
    sure = list(range(n, n + more))
    wider = [[*arms, *sure] for arms in decisions]
    one = of_bounds(lower, upper, budget, decisions, decisions[0])
    lower, upper = np.append(lower, [1.5] * more), np.append(upper, [2.0] * more)
    other = of_bounds(lower, upper, budget + more, wider, wider[0])
    assert other.next_bound == pytest.approx(one.next_bound, abs=1e-12)
    assert other.retrospective == pytest.approx(one.retrospective, abs=1e-12)
    # Where all arms fit, none is decided: there is nothing to decide.
    assert n == budget or set(sure) <= set(other.triage.confirmed.tolist())


def test_eliminated_arms_that_are_never_played_cancel() -> None:
    one = of_bounds([0.4, 0.3, 0.2], [0.6, 0.7, 0.5], 2, [[0, 1], [0, 2]])
    other = of_bounds([0.4, 0.3, 0.2, 0.0], [0.6, 0.7, 0.5, 0.1], 2, [[0, 1], [0, 2]])
    assert (other.next_bound, other.retrospective) == (one.next_bound, one.retrospective)
    assert other.triage.eliminated.tolist() == [3]


def test_narrower_intervals_refund_old_decisions() -> None:
    log = [[0], [1], [0]]
    wide, narrow = of_bounds([0.2, 0.1], [0.9, 0.8], 1, log), of_bounds([0.5, 0.3], [0.6, 0.4], 1, log)
    assert narrow.retrospective == pytest.approx(0.3)
    assert narrow.retrospective < wide.retrospective


def test_slates_with_empty_slots_need_the_number_of_rounds() -> None:
    with pytest.raises(ValueError, match="pulls must be those of whole decisions of 2 different arms"):
        certify([3, 2, 0], [3, 2, 0], [3.0, 1.0, 0.0], budget=2)
    one = certify([3, 2, 0], [3, 2, 0], [3.0, 1.0, 0.0], budget=2, rounds=4)
    pulls, sums = np.array([3, 2, 0]), np.array([3.0, 1.0, 0.0])
    lower, upper = Slates(2).ends_of(Tally(pulls, pulls, sums, np.zeros(3)), 0.05)
    best = max(
        sum((4 - pulls[a]) * upper[a] for a in both) - sum(pulls[a] * lower[a] for a in {0, 1, 2} - set(both))
        for both in itertools.combinations(range(3), 2)
    )
    assert one.regret_bound == pytest.approx(best)


def test_units_of_rewards_are_those_of_the_bounds() -> None:
    pulls, counts, sums = [30, 50, 20], np.array([40, 50, 20]), np.array([20.0, 31.5, 3.0])
    one = certify(pulls, counts, sums, budget=1)
    wide = certify(pulls, counts, 8.0 * sums - 4.0 * counts, budget=1, reward_range=(-4.0, 4.0))
    assert wide.regret_bound == pytest.approx(8.0 * one.regret_bound)
    assert wide.next_bound == pytest.approx(8.0 * one.next_bound)
    assert wide.gap == pytest.approx([8.0 * end for end in one.gap])


GOOD: dict[str, Any] = {"pulls": [5, 5], "counts": [6, 5], "sums": [3.0, 2.0], "budget": 1}


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"pulls": [5.5, 4.5]}, ValueError, "pulls must be whole numbers from 0, got 5.5 for arm 0"),
        ({"pulls": [-1, 11]}, ValueError, "pulls must be whole numbers from 0, got -1 for arm 0"),
        ({"pulls": []}, ValueError, "pulls must be a list with a number for each of 1 arms, got shape (0,)"),
        ({"pulls": ["a", "b"]}, TypeError, "pulls must be an array of numbers"),
        ({"counts": [6]}, ValueError, "counts must be a list with a number for each of 2 arms, got shape (1,)"),
        ({"counts": [6, np.nan]}, ValueError, "counts must be whole numbers from 0, got nan for arm 1"),
        ({"sums": [7.0, 2.0]}, ValueError, "sums must lie in [0, 6] for the 6 rewards of arm 0, got 7.0"),
        ({"sums": [3.0, -0.5]}, ValueError, "sums must lie in [0, 5] for the 5 rewards of arm 1, got -0.5"),
        ({"sums": [3.0, np.inf]}, ValueError, "sums must be finite, got inf for arm 1"),
        ({"budget": 3}, ValueError, "budget must be at most 2, got 3"),
        ({"budget": 0}, ValueError, "budget must be a whole number from 1, got 0"),
        ({"delta": 0.0}, ValueError, "delta must be a number strictly between 0 and 1, got 0.0"),
        (
            {"reward_range": (1, 0)},
            ValueError,
            "reward_range must be two finite numbers, the smaller first, got (1, 0)",
        ),
        (
            {"rounds": 9},
            ValueError,
            "rounds must allow for all pulls, got 10 pulls, up to 5 of an arm, for 9 decisions",
        ),
        ({"rounds": 9.5}, TypeError, "rounds must be a whole number"),
        ({"next_decision": [0, 1]}, ValueError, "next_decision must be 1 different arms, got [0, 1]"),
        ({"next_decision": [2]}, ValueError, "next_decision must lie in 0..1, got [2]"),
    ],
)
def test_bad_logs_are_refused_by_name(change: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=re.escape(message)):
        certify(**{**GOOD, **change})


def test_sentences_say_what_was_lost_what_will_be_and_what_is_known() -> None:
    text = str(certify([60, 60, 80], [60, 60, 80], [40.0, 20.0, 10.0], budget=2))
    assert text.count(". ") == 3
    assert text.startswith("With 95% confidence, the 100 decisions so far have lost at most ")
    assert "Playing arms 0 and 1 next loses at most " in text
    assert "are still open. All this takes an arm's mean to be constant" in text


def test_sentences_before_the_first_decision_promise_nothing() -> None:
    assert "no decision has been made yet" in str(certify([0, 0], [0, 0], [0, 0], budget=1))


def test_contradictions_void_the_certificate() -> None:
    policy = GuardedThompson(FeedbackGraph.full_information(3), budget=1, delta=0.5, seed=7)
    for t in range(400):
        rewards = [0.5, 0.5, float(t < 200)]
        policy.tell(policy.ask(), rewards)
    one = policy.certificate()
    assert one.contradictions > 0
    assert str(one).startswith("Nothing can be certified")
    assert_withdrawn(one)
    assert policy.certificate(delta=0.1).regret_bound == np.inf


def assert_withdrawn(one: Certificate) -> None:
    assert {one.regret_bound, one.retrospective, one.next_bound} == {np.inf}
    assert one.sum_of_certificates in (None, np.inf)
    assert one.account is None or one.account.spent == np.inf
    assert one.gap == (0.0, np.inf)
    assert one.exchanges == ()
    assert one.triage.active.tolist() == list(range(3))


def test_elimination_withdraws_when_its_intervals_fail() -> None:
    """Means that jump after 1,500 rounds; nobody but the policy's own intervals can tell."""
    policy = CombinatorialElimination(FeedbackGraph.full_information(3), budget=1, seed=7)
    for t in range(4000):
        policy.tell(policy.ask(), [float(t % 2) if t < 1500 else float(t % 5 == 0)] * 3)
    assert policy.interval_failures > 0
    one = policy.certificate()
    assert one.contradictions == policy.interval_failures
    assert_withdrawn(one)


def test_contradictions_that_a_certificate_finds_stay() -> None:
    """The look comes between two of the guard's own, and a later one finds nothing of its own."""
    graph = FeedbackGraph.full_information(3)
    policy = GuardedThompson(graph, budget=1, seed=7)
    for t in range(4000):
        policy.tell(policy.ask(), [0.5, 0.5, 0.9 if t < 3000 else 0.1])
        if policy.interval_failures == 0 and policy.certificate().contradictions:
            break
    found = policy.interval_failures
    assert found > 0
    for _ in range(20):
        policy.tell(policy.ask(), [0.5, 0.5, 0.9])
    assert policy.certificate().contradictions >= found


def test_looking_changes_no_decision() -> None:
    env = random_bernoulli(FeedbackGraph.cliques([3] * 3), seed=7)
    looked, left = (GuardedThompson(env.graph, budget=2, factor=0.02, seed=7) for _ in range(2))
    for t in range(300):
        mine, other = looked.ask(), left.ask()
        assert mine.arms.tolist() == other.arms.tolist()
        looked.tell(mine, env.rewards(t, mine.revealed))
        left.tell(other, env.rewards(t, other.revealed))
        looked.certificate()
        looked.start_window()


@pytest.mark.parametrize("kind", [ThompsonSampling, GuardedThompson, CombinatorialElimination, UniformRandom])
def test_window_is_certified_by_its_own_decisions_alone(kind: Any, tmp_path: Path) -> None:
    graph = FeedbackGraph.full_information(3)
    policy = kind(graph, budget=1, seed=7)
    for _ in range(400):
        policy.tell(policy.ask(), [1.0, 0.0, 0.5])
    late = policy.ask()
    since = policy.start_window()
    assert since == 401
    pulls = np.zeros(3, int)
    for t in range(300):
        decision = policy.ask()
        pulls[decision.arms] += 1
        policy.tell(decision, [0.0, 1.0, float(t % 2)])
        if t == 100:
            policy.save(tmp_path / "policy")
            policy = kind.load(tmp_path / "policy")
            policy.tell(late.number, [1.0, 0.0, 1.0])  # of a decision before the window
    expected = certify(pulls, [300] * 3, [0.0, 300.0, 150.0], budget=1, delta=0.03)
    one = policy.certificate(delta=0.03, since=since)
    assert (one.rounds, one.since, one.contradictions) == (300, 401, 0)
    assert one.regret_bound == pytest.approx(expected.regret_bound)
    assert one.triage.confirmed.tolist() == [1]
    assert "the 300 decisions since number 401 have lost at most " in str(one)
    with pytest.raises(ValueError, match="since must be 0 or 401, where the last window starts, got 7"):
        policy.certificate(since=7)


def test_numbers_in_sentences_are_those_of_people_and_still_bounds() -> None:
    one = certify([90_000, 10_000], [90_000, 10_000], [45_000.0, 100.0], budget=1)
    stated = re.search(r"at most ([\d,.]+) in all, ([\d,.]+) each", str(one))
    assert stated is not None
    said, each = (float(number.replace(",", "")) for number in stated.groups())
    assert "," in stated.group(1)
    assert one.regret_bound <= said <= one.regret_bound + 1
    assert one.regret_bound / 1e5 <= each <= 1.01 * one.regret_bound / 1e5
    assert "e+" not in str(one)


def test_one_best_arm_is_not_a_group() -> None:
    text = str(certify([30, 30, 30], [30, 30, 30], [15.0, 14.0, 0.0], budget=1))
    assert "Of the 3 arms, 1 is certain not to be the best, and 2 are still open." in text
    assert "none is certain to be among the best 2 arms" in str(certify([5] * 4, [5] * 4, [1.0] * 4, budget=2))


def test_one_decision_of_all_arms_has_lost_nothing() -> None:
    policy = GuardedThompson(FeedbackGraph.semi_bandit(2), budget=2, delta=0.5, seed=7)
    policy.tell(policy.ask(), [0.0, 1.0])
    text = str(policy.certificate())
    assert text.startswith("With 50% confidence, the first decision has lost at most 0 in all")
    assert "The best 2 arms are known for certain." in text


@pytest.mark.parametrize("kind", ANY_POLICY)
def test_every_policy_certifies_what_certify_would(kind: type[Policy], tmp_path: Path) -> None:
    graph = FeedbackGraph.cliques([2, 2, 1])
    env = StochasticEnvironment([0.9, 0.2, 0.7, 0.4, 0.1], graph, seed=3)
    policy = kind(graph, budget=2, seed=7, reward_range=(-1.0, 1.0))
    pulls, counts, sums, squares, lost = np.zeros(5, int), np.zeros(5, int), np.zeros(5), np.zeros(5), 0.0
    for t in range(120):
        decision = policy.ask()
        pulls[decision.arms] += 1
        lost += env.regret(decision.arms)
        if t < 110:
            rewards = env.rewards(t, decision.revealed)
            policy.tell(decision, rewards)
            counts[decision.revealed] += 1
            sums[decision.revealed] += rewards
            squares[decision.revealed] += rewards**2
    one = policy.certificate(delta=0.03)
    other = certify(pulls, counts, sums, budget=2, delta=0.03, reward_range=(-1.0, 1.0), squares=squares)
    assert one.regret_bound == pytest.approx(other.regret_bound)
    assert one.next_bound == pytest.approx(other.next_bound)
    assert one.rounds == 120
    assert lost <= one.regret_bound
    policy.save(tmp_path / "policy")
    again = kind.load(tmp_path / "policy").certificate(delta=0.03)
    assert (again.regret_bound, again.next_bound) == (one.regret_bound, one.next_bound)


def test_policies_with_contexts_have_no_certificate() -> None:
    with pytest.raises(NotImplementedError, match="constant mean"):
        C2UCB(3, 2, budget=1).certificate()


@pytest.mark.parametrize("kind", ANY_POLICY)
def test_simulated_certificates_are_above_the_regret(kind: type[Policy]) -> None:
    """Each of 8 runs may fail with probability 1e-6."""
    env = random_bernoulli(FeedbackGraph.cliques([5] * 4), seed=7)
    trace = simulate(kind(env.graph, budget=3, seed=7), env, horizon=2000, replications=8, certificate=1e-6)
    assert trace.certificate.shape == trace.regret.shape
    assert np.all(trace.regret <= trace.certificate + 1e-9)
    plain = simulate(kind(env.graph, budget=3, seed=7), env, horizon=2000, replications=8)
    assert plain.certificate is None
    assert np.allclose(plain.regret, trace.regret)


def test_simulated_certificates_do_not_depend_on_how_they_were_played() -> None:
    class Plain(Policy):
        """Thompson sampling through ask and tell."""

        def _select(self, number: int) -> np.ndarray:
            return self.inner._select(number)

        def _update(self, number: int, arms: np.ndarray, rewards: np.ndarray) -> None:
            self.inner._update(number, arms, rewards)

        @property
        def inner(self) -> ThompsonSampling:
            if not hasattr(self, "_inner"):
                self._inner = ThompsonSampling(self.graph, self.budget, seed=self.seed)
            return self._inner

    env = random_bernoulli(FeedbackGraph.cliques([3] * 3), seed=7)
    options: dict[str, Any] = {"horizon": 200, "certificate": True, "checkpoints": [1, 7, 60, 200], "replications": 2}
    fast = simulate(ThompsonSampling(env.graph, budget=2, seed=7), env, **options)
    with pytest.warns(UserWarning, match="not compiled"):
        slow = simulate(Plain(env.graph, budget=2, seed=7), env, **options)
    assert np.allclose(fast.certificate, slow.certificate)


def test_simulated_certificates_need_means() -> None:
    replay = ReplayEnvironment(np.zeros((5, 2)), FeedbackGraph.semi_bandit(2))
    with pytest.raises(ValueError, match="certificate must be False for recorded outcomes"):
        simulate(Greedy(replay.graph, budget=1), replay, horizon=5, certificate=True)


def test_certificate_of_simulate_is_a_probability() -> None:
    env = random_bernoulli(FeedbackGraph.semi_bandit(3), seed=7)
    with pytest.raises(ValueError, match="certificate must be a number strictly between 0 and 1"):
        simulate(Greedy(env.graph, budget=1), env, horizon=5, certificate=1.5)


@pytest.mark.parametrize("kind", [CombUCB1, GuardedThompson])
def test_certificate_is_a_dictionary_that_json_keeps(kind: type[Policy]) -> None:
    environment = random_bernoulli(FeedbackGraph.semi_bandit(6), seed=7)
    policy = kind(environment.graph, 2, seed=7)  # type: ignore[call-arg]
    for number in range(50):
        decision = policy.ask()
        policy.tell(decision, environment.rewards(number, decision.revealed))
    made = policy.certificate()
    said = made.to_dict()
    assert json.loads(json.dumps(said, allow_nan=False)) == said
    kept = {one.name for one in dataclasses.fields(Certificate) if one.name != "intervals"}
    read = {name for name, one in vars(Certificate).items() if isinstance(one, property) and not name.startswith("_")}
    assert set(said) == {*kept, *read, "text"}
    assert {"retrospective", "sum_of_certificates", "by_pattern", "joint"} < read
    assert said["next_decision"] == made.next_decision.tolist()
    assert said["exchanges"] == [one._asdict() for one in made.exchanges]
    assert said["triage"] == {name: arms.tolist() for name, arms in made.triage._asdict().items()}
    assert said["account"] == (None if made.account is None else made.account._asdict())
    assert (said["gap"], said["regret_bound"], said["text"]) == (list(made.gap), made.regret_bound, str(made))


@pytest.mark.parametrize("direction", ["maximize", "minimize"])
@pytest.mark.parametrize("kind", [CombUCB1, GuardedThompson])
def test_a_certificate_shows_the_intervals_that_its_triage_is_read_from(kind: type[Policy], direction: str) -> None:
    policy = kind(8, 3, seed=7, reward_range=(2.0, 4.0), direction=direction)  # type: ignore[call-arg]
    for _ in range(400):
        decision = policy.ask()
        policy.tell(decision, 2.0 + decision.revealed % 3)
    made = policy.certificate(eligible=np.arange(8))
    assert made.intervals is not None
    lower, upper = made.intervals
    means = 2.0 + np.arange(8) % 3
    assert (lower <= means).all()
    assert (means <= upper).all()
    good = (lower, upper) if direction == "maximize" else (-upper, -lower)
    for ours, theirs in zip(triage_among(*good, np.arange(8), 3), made.triage, strict=True):
        assert ours.tolist() == theirs.tolist()
    pulls, best = policy.tally.pulls, np.sort(means)[-3:] if direction == "maximize" else np.sort(means)[:3]
    assert made.estimate == pytest.approx(abs(400 * best.sum() - (pulls * means).sum()))
    assert made.estimate <= made.regret_bound


@pytest.mark.parametrize("more", [{"budget": 1}, {"decisions": Matchings(1, 3)}])
def test_a_glance_says_the_same_and_changes_nothing(more: Any) -> None:
    policy = GuardedThompson(FeedbackGraph.full_information(3), seed=7, **more)
    withdrawn = False
    for number in range(900):
        policy.tell(policy.ask(), [number >= 600, 0, 0])
        if number % 20 == 0:
            before = policy.digest()
            seen = policy.glance()
            assert policy.digest() == before
            assert str(seen) == str(copy.deepcopy(policy).certificate())
            withdrawn |= seen.contradictions > 0
    assert withdrawn


def test_what_is_not_finite_in_a_certificate_is_none() -> None:
    made = certify(pulls=[6, 4], counts=[6, 4], sums=[3.0, 1.0], budget=1)
    said = dataclasses.replace(made, gap=(0.0, np.inf), bounds={"retrospective": np.float64(2.0)}).to_dict()
    assert said["gap"] == [0.0, None]
    assert type(said["regret_bound"]) is float


@pytest.mark.parametrize("kind", ["thompson", "function"])
def test_one_arm_is_certified_alone(kind: str) -> None:
    """The guard's counts and sums have a second row when there is one arm; it is nobody's."""
    graph = FeedbackGraph.semi_bandit(1)
    policy = GuardedThompson(graph, budget=1, seed=7) if kind == "thompson" else Guard(lambda number: [0], graph, 1)
    policy.tell(policy.ask(), [0.25])
    one = policy.certificate()
    assert (one.regret_bound, one.next_bound, one.exchanges) == (0.0, 0.0, ())
    assert sum(arms.size for arms in one.triage) == 1
    assert "arm 1" not in str(one)


@pytest.mark.parametrize("kind", [ThompsonSampling, CombinatorialElimination, GuardedThompson])
@pytest.mark.parametrize("range_", [(1e16, 1e16 + 2.0), (-1e16 - 2.0, -1e16), (1e100 - 2e84, 1e100)])
def test_narrow_ranges_far_from_0_are_certified_as_the_unit_range(kind: Any, range_: tuple[float, float]) -> None:
    low, high = range_
    graph = FeedbackGraph.semi_bandit(3)
    far, near = kind(graph, budget=1, seed=7, reward_range=range_), kind(graph, budget=1, seed=7)
    for t in range(200):
        there, here = far.ask(), near.ask()
        assert there.arms.tolist() == here.arms.tolist()
        far.tell(there, [low if t % 2 else high])
        near.tell(here, [0.0 if t % 2 else 1.0])
    one, other = far.certificate(), near.certificate()
    width = high - low
    assert one.regret_bound == pytest.approx(width * other.regret_bound)
    assert one.next_bound == pytest.approx(width * other.next_bound)
    assert one.gap == pytest.approx([width * end for end in other.gap])
    assert one.regret_bound <= 200 * width
    assert [arms.tolist() for arms in one.triage] == [arms.tolist() for arms in other.triage]


def test_log_whose_sums_are_too_coarse_is_refused() -> None:
    with pytest.raises(ValueError, match=re.escape("take off the same number from every reward")):
        certify(**{**GOOD, "sums": [6e16, 5e16], "reward_range": (1e16, 1e16 + 2)})


def test_empty_slots_lose_what_the_best_arm_pays_in_its_own_units() -> None:
    """A slot that stays empty earns 0, not the least reward."""
    counts, sums = np.array([400, 400]), np.array([400.0, 0.0])
    one = certify([400, 0], counts, sums, budget=1, rounds=500)
    dear = certify([400, 0], counts, 2.0 * sums + 10.0 * counts, budget=1, rounds=500, reward_range=(10.0, 12.0))
    assert dear.regret_bound == pytest.approx(2.0 * one.regret_bound + 10.0 * 100)


def test_one_class_says_the_same_of_slates_sets_and_contexts() -> None:
    rows = np.array([[0.1, 0.2], [0.3, 0.1], [0.2, 0.4]])
    linear = GuardedLinear(3, dimension=2, budget=1, seed=7, names=["tea", "milk", "jam"])
    for _ in range(20):
        linear.tell(linear.ask(rows), {linear.open_decisions[0].names[0]: 0.5})
    made = {
        "slates": GuardedThompson(3, budget=1, seed=7).certificate(),
        "eligible": GuardedThompson(3, budget=1, seed=7).certificate(eligible=[0, 1]),
        "sets": GuardedThompson(4, decisions=Matchings(2, 2), seed=7).certificate(),
        "contexts": linear.certificate(rows),
    }
    assert {type(one) for one in made.values()} == {Certificate}
    assert armtriage.DecisionCertificate is armtriage.ContextualCertificate is Certificate
    kept = {kind: set(one.bounds) for kind, one in made.items()}
    assert kept == {
        "slates": {"retrospective"},
        "eligible": {"retrospective", "sum_of_certificates"},
        "sets": {"retrospective"},
        "contexts": {"joint", "sum_of_certificates"},
    }
    for one in made.values():
        assert one.regret_bound == min(one.bounds.values())
        assert set(one.entering.tolist()) == set(one.challenger.tolist()) - set(one.next_decision.tolist())
        assert set(one.leaving.tolist()) == set(one.next_decision.tolist()) - set(one.challenger.tolist())
        said = one.to_dict()
        assert json.loads(json.dumps(said, allow_nan=False)) == said
    for one in (made["slates"], made["contexts"]):
        assert [pair.outside for pair in one.exchanges] == one.entering.tolist()
    assert (made["sets"].family, made["slates"].family) == ("Matchings", "")
    assert made["contexts"].assumptions[:6] == ("linear", "shared", linear.norm_bound, 1.0, linear.reward_range, False)
    assert made["slates"].assumptions[:5:4] == ("constant", (0.0, 1.0))
