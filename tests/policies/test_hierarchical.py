"""What is proved of hierarchical elimination holds on every run: its sets, widths and regret, and the good event."""

from __future__ import annotations

import itertools
import math
from functools import cache, partial
from typing import NamedTuple

import numpy as np
import pytest

from armtriage import C2UCB, HierarchicalElimination, LinearEnvironment, LinearThompsonSampling, simulate
from conftest import FALSE_ALARM, most_failures
from twins.cases import ball
from twins.linear import TIE, HierarchicalTwin, Ridge, Round, Stage, stage_rule

RUNS = 6
pytestmark = pytest.mark.xdist_group("hierarchical")  # the runs are kept, so that one process should have them
ROUNDING = 1e-9
# How many widths 2^-h the arms of stage h can differ on the good event.
SPREAD = {"repaired": 16, "tight": 12}
VARIANTS = ("paper", "repaired", "tight")
variants = pytest.mark.parametrize("variant", VARIANTS)
sound = pytest.mark.parametrize("variant", tuple(SPREAD))


class Run(NamedTuple):
    """A run of the policy and, beside it, of its twin, which tells what happened in the stages."""

    make: partial[HierarchicalTwin]
    twin: HierarchicalTwin
    means: np.ndarray  # (rounds, K)
    rewards: list[dict[int, float]]
    good: bool

    @property
    def rounds(self) -> list[Round]:
        return list(self.twin.rounds.values())

    def best(self, t: int) -> list[int]:
        """The S best arms of a round, best first."""
        return np.argsort(-self.means[t])[: self.twin.budget].tolist()

    def stages(self) -> list[tuple[int, Stage]]:
        return [(t, s) for t, r in enumerate(self.rounds) for s in r.stages]


def covered(r: Round, means: np.ndarray, scale: float = 1.0) -> bool:
    """Whether all evaluated intervals of a round, scaled, contain the means."""
    return all(abs(s.est[a] - means[a]) <= scale * s.wid[a] + ROUNDING for s in r.stages for a in s.est)


@cache
def run(variant: str, number: int) -> Run:
    rng = np.random.default_rng([53, number])
    dimension, rounds = (1, 2, 2, 4)[number % 4], 800
    n_arms = int(rng.integers(5, 10))
    budget = int(rng.integers(2, n_arms))
    theta = rng.normal(size=dimension)
    x = ball(rng, rounds, n_arms, dimension)
    law = ("uniform", "binary")[number % 3 == 2]
    env = LinearEnvironment(
        0.9 * theta / np.linalg.norm(theta), x, reward=law, half_width=0.1 if law == "uniform" else None, seed=number
    )
    noise = env.noise_scale if variant == "tight" else None
    policy = HierarchicalElimination(
        n_arms, dimension, budget, horizon=rounds, delta=0.05, variant=variant, noise_scale=noise, seed=1
    )
    make = partial(HierarchicalTwin, n_arms, dimension, budget, rounds, 0.05, variant, env.noise_scale)
    means = np.array([env.means(t) for t in range(rounds)])
    twin, told, good = make(), [], True
    for t in range(rounds):
        arms = twin.select(t, x[t])
        assert twin.margin(t) > TIE
        decision = policy.ask(x[t])
        assert decision.arms.tolist() == arms
        assert [part.tolist() for part in policy.triage] == twin.rounds[t].triage()
        told.append(dict(zip(arms, env.rewards(t, decision.arms).tolist(), strict=True)))
        policy.tell(decision, told[t])
        twin.update(t, told[t])
        good = good and covered(twin.rounds[t], means[t])
    return Run(make, twin, means, told, good)


@cache
def runs(variant: str) -> list[Run]:
    return [run(variant, number) for number in range(RUNS)]


def good_runs(variant: str) -> list[Run]:
    return [one for one in runs(variant) if one.good]


@variants
def test_most_runs_are_good(variant: str) -> None:
    assert len(good_runs(variant)) >= RUNS - 2


@variants
def test_runs_explore_confirm_and_eliminate(variant: str) -> None:
    stages = [s for one in good_runs(variant) for _, s in one.stages()]
    assert sum(len(s.explored) for s in stages) >= 1000
    assert sum(len(s.confirmed) for s in stages) >= 100
    assert sum(len(s.eliminated) for s in stages) >= 1000


@sound
def test_best_arms_that_are_not_taken_stay_in_question_on_the_good_event(variant: str) -> None:
    for one in good_runs(variant):
        for t, s in one.stages():
            left = [a for a in one.best(t) if a not in s.taken]
            assert set(left[: one.twin.budget - len(s.taken)]) <= set(s.active)
            if s.rule is not None:
                taken = s.taken + s.explored + s.confirmed
                left = [a for a in one.best(t) if a not in taken]
                assert set(left[: one.twin.budget - len(taken)]) <= set(s.kept)


@variants
def test_confirmed_arms_are_among_the_best_on_the_good_event(variant: str) -> None:
    # As printed, this claim leans on the first, which can fail, but does not in these runs.
    for one in good_runs(variant):
        assert all(set(s.confirmed) <= set(one.best(t)) for t, s in one.stages())


@sound
def test_arms_in_question_are_near_the_best_of_them_on_the_good_event(variant: str) -> None:
    for one in good_runs(variant):
        for t, s in one.stages():
            assert np.ptp(one.means[t][s.active]) <= SPREAD[variant] * 2.0**-s.h + ROUNDING
            if s.kept:
                assert np.ptp(one.means[t][s.kept]) <= SPREAD[variant] * 2.0 ** -(s.h + 1) + ROUNDING


@sound
def test_regret_of_a_round_is_what_its_explored_and_filled_arms_may_lose_on_the_good_event(variant: str) -> None:
    for one in good_runs(variant):
        for t, r in enumerate(one.rounds):
            lost = one.means[t][one.best(t)].sum() - one.means[t][r.arms].sum()
            most = sum(2.0**-s.h * len(s.explored) for s in r.stages) + 2.0 ** -(one.twin.stages + 1) * len(r.filled)
            assert lost <= SPREAD[variant] * most + ROUNDING


def three_arms(h: int) -> tuple[dict[int, float], dict[int, float], list[float]]:
    """Estimates, widths and means in units of 2^-h: two slots, and arm 1 is second best by a hair."""
    u, hair = 2.0**-h, 2.0**-h / 1000
    est = {0: 2 * u - 2 * hair, 1: -u, 2: u - hair}
    wid = {0: 0.0, 1: u, 2: u}
    return est, wid, [2 * u - 2 * hair, 0.0, -hair]


@pytest.mark.parametrize("h", [1, 2, 5])
def test_state_of_three_arms_is_on_the_good_event(h: int) -> None:
    est, wid, means = three_arms(h)
    assert all(abs(est[a] - means[a]) <= wid[a] <= 2.0**-h for a in est)
    assert sorted(est, key=lambda a: -means[a]) == [0, 1, 2]


@pytest.mark.parametrize("h", [1, 2, 5])
def test_printed_rule_eliminates_the_second_best_of_three_arms(h: int) -> None:
    est, wid, _ = three_arms(h)
    assert stage_rule(est, wid, 2, h, "paper") == ([], [0, 2])


@pytest.mark.parametrize("h", [1, 2, 5])
def test_repaired_rule_keeps_the_second_best_of_three_arms(h: int) -> None:
    est, wid, _ = three_arms(h)
    assert stage_rule(est, wid, 2, h, "repaired") == ([], [0, 1, 2])


@pytest.mark.parametrize("h", [1, 2, 5])
def test_tight_rule_confirms_the_best_of_three_arms_and_keeps_the_others(h: int) -> None:
    est, wid, _ = three_arms(h)
    assert stage_rule(est, wid, 2, h, "tight") == ([0], [1, 2])


class Forced(NamedTuple):
    """A policy and its twin after rewards that lead them to a state like that of the three arms."""

    policy: HierarchicalElimination
    twin: HierarchicalTwin
    good: bool


@cache
def forced(variant: str) -> Forced:
    """One arm a direction; rewards are possible ones, though unlikely, and keep every interval right.

    Then the second stage has widths just below 1/4, the estimate of the second direction, whose mean is 0.001, is
    nearly a width too low, and that of the third, whose mean is -0.001, nearly a width too high. In the last round the
    context of the first arm is short: its width is small, and its estimate below the third arm's upper end.
    """
    rounds, theta, told = 2157, np.array([0.97, 0.001, -0.001]), np.array([0.97, -0.95 / 4, 0.95 / 4])
    policy = HierarchicalElimination(3, 3, 2, horizon=6000, variant=variant)
    twin, good = HierarchicalTwin(3, 3, 2, 6000, 0.01, variant), True
    for t in range(rounds):
        x = np.eye(3) if t < rounds - 1 else np.diag([0.35 / 0.97, 0.97, 0.97])
        decision = policy.ask(x)
        assert twin.select(t, x, decision.arms.tolist()) == decision.arms.tolist()
        good = good and covered(twin.rounds[t], x @ theta)
        policy.tell(decision, told[decision.arms])
        twin.update(t, {a: told[a] for a in decision.arms.tolist()})
    return Forced(policy, twin, good)


@pytest.mark.parametrize("variant", ["paper", "repaired"])
def test_forced_run_is_on_the_good_event(variant: str) -> None:
    assert forced(variant).good


def test_printed_policy_eliminates_the_second_best_arm_on_the_good_event() -> None:
    triage = forced("paper").policy.triage
    assert (triage.eliminated.tolist(), triage.stages[1]) == ([1], 2)
    assert triage.explored.tolist() == [0, 2]


def test_repaired_policy_eliminates_nobody_there() -> None:
    assert forced("repaired").policy.triage.eliminated.tolist() == []


class Hostile(NamedTuple):
    """Rewards that have nothing to do with the contexts, told to a policy that expects hardly any noise."""

    policy: HierarchicalElimination
    twin: HierarchicalTwin
    decisions: list[np.ndarray]


@cache
def hostile(variant: str) -> Hostile:
    rng = np.random.default_rng(61)
    policy = HierarchicalElimination(
        7, 2, 3, horizon=600, delta=0.9, variant=variant, noise_scale=1e-3 if variant == "tight" else None
    )
    twin, decisions = HierarchicalTwin(7, 2, 3, 600, 0.9, variant, 1e-3), []
    for t in range(600):
        x = ball(rng, 7, 2)
        decisions.append(policy.ask(x).arms)
        assert twin.select(t, x) == decisions[t].tolist()
        # First the sign of one coordinate, then that of the other, then chance.
        rewards = np.sign(x[decisions[t], t // 200]) if t < 400 else rng.choice([-1.0, 1.0], 3)
        policy.tell(t, rewards)
        twin.update(t, dict(zip(decisions[t].tolist(), rewards.tolist(), strict=True)))
    return Hostile(policy, twin, decisions)


@variants
def test_decisions_have_the_budget_of_arms_whatever_the_rewards_are(variant: str) -> None:
    assert all(np.unique(arms).size == 3 and 0 <= arms.min() <= arms.max() < 7 for arms in hostile(variant).decisions)


def test_hostile_rewards_make_intervals_contradict_each_other() -> None:
    assert hostile("tight").twin.contradictions > 0


def everything(variant: str) -> list[Stage]:
    """All stages of all runs, good or not."""
    twins = [*(one.twin for one in runs(variant)), hostile(variant).twin]
    return [s for twin in twins for r in twin.rounds.values() for s in r.stages]


@variants
def test_no_more_arms_are_confirmed_than_slots_are_free_and_fewer_unless_tight(variant: str) -> None:
    spare = 0 if variant == "tight" else 1
    assert all(len(s.confirmed) <= s.free - spare for s in everything(variant) if s.rule)


@variants
def test_arms_that_a_stage_judges_have_widths_of_its_unit_at_most(variant: str) -> None:
    assert all(s.wid[a] <= 2.0**-s.h for s in everything(variant) if s.rule for a in s.rest)


@variants
def test_as_many_arms_stay_as_slots_are_left(variant: str) -> None:
    assert all(len(s.kept) >= s.free - len(s.confirmed) for s in everything(variant) if s.rule)


@variants
def test_arms_of_a_full_slate_leave_nobody_in_question(variant: str) -> None:
    assert all(not s.kept for s in everything(variant) if s.rule and len(s.confirmed) == s.free)


def stored(twin: HierarchicalTwin, delay: int | None) -> dict[int, set[tuple[int, int]]]:
    """The explored arms of each stage, with the arms confirmed `delay` stages before, unless it is None."""
    expected: dict[int, set[tuple[int, int]]] = {h: set() for h in twin.phi}
    for t, r in twin.rounds.items():
        for s in r.stages:
            expected[s.h] |= {(t, a) for a in s.explored}
            if delay is not None and s.h + delay in expected:
                expected[s.h + delay] |= {(t, a) for a in s.confirmed}
    return expected


@pytest.mark.parametrize(("variant", "delay"), [("paper", 0), ("repaired", None), ("tight", 1)])
def test_stages_store_what_they_explore_and_as_the_variant_says_what_is_confirmed(
    variant: str, delay: int | None
) -> None:
    for one in runs(variant):
        assert {h: set(pairs) for h, pairs in one.twin.phi.items()} == stored(one.twin, delay)


@variants
def test_no_reward_is_stored_twice(variant: str) -> None:
    for one in runs(variant):
        pairs = list(itertools.chain(*one.twin.phi.values()))
        assert len(pairs) == len(set(pairs))


@pytest.mark.parametrize(("variant", "other"), [("paper", "stores nothing"), ("tight", "stores at once")])
def test_storing_confirmed_arms_otherwise_would_change_decisions(variant: str, other: str) -> None:
    """The runs above hold the policies to their twins; here it is seen that they would notice the difference."""
    noticed = 0
    for one in runs(variant):
        twin = one.make()
        for t, r in one.twin.rounds.items():
            if twin.select(t, r.contexts) != r.arms:
                noticed += 1
                break
            for s in twin.rounds[t].stages:
                for a in s.confirmed:
                    twin.home.pop((t, a), None)
                    if other == "stores at once":
                        twin.home[t, a] = s.h
            twin.update(t, one.rewards[t])
    assert noticed >= 1


def potential(batches: list[np.ndarray]) -> float:
    """The sum over rounds of the root of the squared norms of a batch, by the Gram matrix of those before."""
    gram, total = np.eye(batches[0].shape[1]), 0.0
    for x in batches:
        total += math.sqrt(np.trace(x @ np.linalg.solve(gram, x.T)))
        gram += x.T @ x
    return total


def potential_bound(batches: list[np.ndarray]) -> float:
    rounds, dimension = len(batches), batches[0].shape[1]
    largest = max(len(x) for x in batches)
    return math.sqrt(10) * math.log(rounds + 1) * (math.sqrt(dimension * rounds) + dimension * math.sqrt(largest))


@variants
def test_widths_of_what_a_stage_stores_add_up_to_the_potential_bound_at_most(variant: str) -> None:
    checked = 0
    for one in runs(variant):
        for pairs in one.twin.phi.values():
            by_round = itertools.groupby(pairs, key=lambda pair: pair[0])
            batches = [one.twin.rounds[t].contexts[[a for _, a in group]] for t, group in by_round]
            if batches:
                checked += 1
                assert potential(batches) <= potential_bound(batches)
    assert checked >= 2 * RUNS


@pytest.mark.parametrize("dimension", [1, 3, 10])
@pytest.mark.parametrize("largest", [1, 4, 100])
@pytest.mark.parametrize("kind", ["random", "one direction", "axes in turn", "new axis in each batch"])
def test_potential_bound_holds_for_batches_of_any_kind(kind: str, largest: int, dimension: int) -> None:
    rng = np.random.default_rng(71)
    axes = np.eye(dimension)
    if kind == "random":
        batches = [ball(rng, int(rng.integers(1, largest + 1)), dimension) for _ in range(300)]
    elif kind == "one direction":
        batches = [np.repeat(axes[:1], largest, axis=0)] * 300
    elif kind == "axes in turn":
        batches = [axes[np.arange(t * largest, (t + 1) * largest) % dimension] for t in range(300)]
    else:
        batches = [np.repeat(axes[[t % dimension]], largest, axis=0) for t in range(300)]
    for n in (1, 2, 10, 300):
        assert potential(batches[:n]) <= potential_bound(batches[:n])


DELTA, SAMPLE = 0.05, 80


class Sample(NamedTuple):
    """Many short runs: their largest errors in units of the width, and what noise does to each stage at their ends.

    The noise in the estimate of a stage for a fixed context is divided by its standard deviation given which arms
    the stage has stored. If that does not depend on the stage's own rewards, it is 1-sub-Gaussian.
    """

    worst: np.ndarray
    noise: dict[int, np.ndarray]


@cache
def sample() -> Sample:
    theta, half, probe = np.array([0.5, 0.0]), 0.5, np.array([0.6, 0.8])
    sigma = half / math.sqrt(3)
    worst, noise = np.zeros(SAMPLE), {}
    for number in range(SAMPLE):
        x = ball(np.random.default_rng([83, number]), 100, 6, 2)
        env = LinearEnvironment(theta, x, reward="uniform", half_width=half, seed=number)
        twin = HierarchicalTwin(6, 2, 2, 100, DELTA, "tight", sigma)
        for t in range(100):
            arms, means = twin.select(t, x[t]), env.means(t)
            stages = twin.rounds[t].stages
            worst[number] = max(worst[number], *(abs(s.est[a] - means[a]) / s.wid[a] for s in stages for a in s.est))
            twin.update(t, dict(zip(arms, env.rewards(t, arms).tolist(), strict=True)))
        for h, model in twin.models.items():
            if model.r.size:
                weights = model.x @ np.linalg.solve(model.gram(), probe)
                luck = weights @ (model.r - model.x @ theta) / (sigma * np.linalg.norm(weights))
                noise.setdefault(h, []).append(luck)
    return Sample(worst, {h: np.array(values) for h, values in noise.items()})


def test_intervals_of_a_run_miss_with_probability_delta_at_most() -> None:
    assert (sample().worst > 1).sum() <= most_failures(SAMPLE, DELTA)


def test_intervals_of_a_third_of_the_width_would_be_caught() -> None:
    assert (sample().worst > 1 / 3).sum() > most_failures(SAMPLE, DELTA)


def test_three_stages_are_sampled() -> None:
    assert [h for h, noise in sample().noise.items() if noise.size >= SAMPLE / 2] == [1, 2, 3]


@pytest.mark.parametrize("h", [1, 2, 3])
def test_noise_of_a_stage_exceeds_its_bound_as_seldom_as_promised(h: int) -> None:
    noise = sample().noise[h]
    for share in (0.5, 0.2, 0.05):
        assert (np.abs(noise) > math.sqrt(2 * math.log(2 / share))).sum() <= most_failures(noise.size, share)


@pytest.mark.parametrize("h", [1, 2, 3])
def test_noise_of_a_stage_has_mean_zero(h: int) -> None:
    noise = sample().noise[h]
    assert abs(noise.mean()) <= math.sqrt(2 * math.log(2 / FALSE_ALARM) / noise.size)


SHOCKS, SLOTS = 40, 32


@cache
def missing(policy: str, noise: str, factor: float) -> int:
    """In how many of 40 runs of 32 slots for 32 like arms an interval misses, its noise scale multiplied."""
    missed = 0
    for number in range(SHOCKS):
        x = np.random.default_rng([79, number]).uniform(0.9, 1.0, (60, SLOTS, 1))
        env = LinearEnvironment([0.1], x, noise=noise, seed=number)
        model, scale = Ridge(1), HierarchicalTwin(SLOTS, 1, SLOTS, 60, DELTA, "tight", factor).scale
        miss = False
        for t in range(60):
            if policy == "C2UCB":
                grown = math.log(np.linalg.det(model.gram()))
                scale = math.sqrt(factor**2 * (2 * math.log(1 / DELTA) + grown) + 1)
            arms, means = range(SLOTS), env.means(t)
            est, norms = model.estimates(x[t], arms), model.norms(x[t], arms)
            miss = miss or any(abs(est[a] - means[a]) > scale * norms[a] for a in arms)
            model.add(x[t], env.rewards(t, arms).tolist())
        missed += miss
    return missed


radii = pytest.mark.parametrize("policy", ["HierarchicalElimination", "C2UCB"])


@radii
def test_intervals_hold_for_many_slots_of_independent_noise(policy: str) -> None:
    assert missing(policy, "independent", 1.0) <= most_failures(SHOCKS, DELTA)


@radii
def test_intervals_fail_if_the_arms_of_a_round_share_their_noise(policy: str) -> None:
    """Neither radius is made for that: given one arm's noise, that of the others is known."""
    assert missing(policy, "shared", 1.0) >= SHOCKS / 2


@radii
def test_noise_scale_times_the_root_of_the_slots_is_enough_for_shared_noise(policy: str) -> None:
    assert missing(policy, "shared", math.sqrt(SLOTS)) <= most_failures(SHOCKS, DELTA)


@cache
def regrets(name: str) -> np.ndarray:
    """Regret of eight replications with 30 arms on the sphere in 5 dimensions, 3 slots and 3000 rounds.

    Means were 4422 as printed and repaired, 1336 tight, 60 for C2UCB and 106 for LinearThompsonSampling.
    """
    theta = np.array([0.6, -0.4, 0.4, 0.4, -0.4])
    env = LinearEnvironment(theta / np.linalg.norm(theta), "sphere", 30, seed=1)
    makers = {v: partial(HierarchicalElimination, horizon=3000, variant=v) for v in VARIANTS}
    makers |= {"C2UCB": C2UCB, "LinearThompsonSampling": LinearThompsonSampling}
    policy = makers[name](30, 5, 3, seed=1)
    return simulate(policy, env, horizon=3000, replications=8, checkpoints=1, workers=1).regret[:, -1]


@pytest.mark.parametrize("loose", ["paper", "repaired"])
def test_tight_width_loses_less_than_half_of_the_printed_one(loose: str) -> None:
    assert 2 * regrets("tight").max() < regrets(loose).min()


def test_repair_costs_no_more_than_a_twentieth() -> None:
    assert regrets("repaired").mean() <= 1.05 * regrets("paper").mean()


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["C2UCB", "LinearThompsonSampling"])
def test_policies_without_stages_lose_less_than_a_fifth_of_tight_elimination(name: str) -> None:
    """Stages pay for a better worst case: their bound grows with the root of the dimension only."""
    assert 5 * regrets(name).max() < regrets("tight").min()
