"""The linear policies decide as the slow twins of `linear_reference` do, round by round."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from armtriage import C2UCB, HierarchicalElimination, LinearEnvironment, LinearThompsonSampling, Trace, simulate
from twins.linear_reference import TIE, C2UCBTwin, HierarchicalTwin, LinearThompsonTwin

HERE = Path(__file__).parent
VARIANTS = ("paper", "repaired", "tight")
POLICIES = (*VARIANTS, "C2UCB", "LinearThompsonSampling")
RICH = 10_000  # problems from this number on let all variants confirm arms
RANGES = ((-1.0, 1.0), (-3.0, 2.0), (0.0, 1.0))


def ball(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Uniform points of the unit ball; unlike those of a sphere, no two have the same length."""
    x = rng.normal(size=shape)
    return x * rng.random((*shape[:-1], 1)) ** (1 / shape[-1]) / np.linalg.norm(x, axis=-1, keepdims=True)


KINDS = ("array", "fixed", "callable", "cube", "copies", "zeros", "short", "sphere")


def make_contexts(kind: str, rounds: int, n_arms: int, dimension: int, rng: np.random.Generator) -> Any:
    """What LinearEnvironment takes as contexts."""
    if kind in ("cube", "sphere"):
        return kind
    if kind == "fixed":
        return ball(rng, n_arms, dimension)
    x = ball(rng, rounds, n_arms, dimension)
    if kind == "copies":
        return x[:, rng.integers(0, n_arms, n_arms)]  # the same arms are alike in every round
    if kind == "zeros":
        return x * (rng.random((rounds, n_arms, 1)) < rng.choice([0.0, 0.5, 0.9], (rounds, 1, 1)))
    if kind == "short":
        return 0.02 * x  # narrow from the beginning, so that the last stage and the fill are reached
    if kind == "callable":
        return lambda t, replication: x[(t + 7 * replication) % rounds]
    return x


class Case(NamedTuple):
    """A policy, how to make its twin, and where they play."""

    policy: Any
    twin: Any
    environment: Any
    rounds: int
    replication: int
    ties: bool  # whether rounding decides between arms of the same length
    raw: bool  # whether contexts and rewards go to the policy as the environment has them, as `simulate` does it
    drift: bool  # whether rewards change sign halfway, which no model survives

    @property
    def unit(self) -> float:
        return max(map(abs, self.policy.reward_range))

    def contexts(self, t: int) -> np.ndarray:
        return self.environment.contexts(t, self.replication) * (1.0 if self.raw else self.policy.context_bound)

    def rewards(self, t: int, arms: np.ndarray) -> np.ndarray:
        r = self.environment.rewards(t, arms, self.replication)
        if self.raw:
            return r
        r = -r if self.drift and 2 * t >= self.rounds else r
        low, high = self.policy.reward_range
        return (r + 1) / 2 if low == 0.0 else high * r


def make_environment(number: int, rounds: int) -> tuple[Any, int, str]:
    """A random linear environment, a budget and the kind of its contexts."""
    rng = np.random.default_rng([29, number])
    if number >= RICH:
        # In few dimensions, with little noise and many slots, even printed widths become small enough to confirm.
        dimension = 1 + number % 2
        theta = 0.95 * np.eye(dimension)[0]
        return LinearEnvironment(theta, ball(rng, rounds, 8, dimension), reward="deterministic"), 5, "array"
    kind = KINDS[number // 2 % len(KINDS)]
    dimension = (1, 2, 5, 8)[number // 3 % 4]
    n_arms = 1 if number % 17 == 16 else int(rng.integers(2, 13))
    budget = 1 if number % 7 == 1 else n_arms if number % 11 == 10 else int(rng.integers(1, n_arms + 1))
    reward = ("uniform", "binary", "uniform", "deterministic")[number % 4]
    theta = rng.normal(size=dimension)
    env = LinearEnvironment(
        theta * 0.95 / np.linalg.norm(theta),
        make_contexts(kind, rounds, n_arms, dimension, rng),
        n_arms,
        reward,
        half_width=0.05 if reward == "uniform" else None,
        noise="shared" if number % 5 == 4 else "independent",
        seed=number,
    )
    return env, budget, kind


def make_case(name: str, number: int, rounds: int, raw: bool = False) -> Case:
    """A random problem for a policy, in which every option has its turn."""
    rounds = 1 if number % 19 == 18 else rounds
    env, budget, kind = make_environment(number, rounds)
    sizes = (env.n_arms, env.dimension, budget)
    seed, replication, drift = 100 + number, number % 2, number % 6 == 5 and number < RICH
    low, high = RANGES[0 if number >= RICH else number % (2 if raw else 3)]
    unit = max(-low, high)
    noise = None if name in ("paper", "repaired") else (None, 0.05, 0.2)[number // 4 % 3]
    sigma = (0.5 * (high - low) if noise is None else noise) / unit
    options: dict[str, Any] = {"seed": seed, "noise_scale": noise, "reward_range": (low, high)}
    options["context_bound"] = (1.0, 2.5, 1.0 if raw else 0.5)[number // 2 % 3]
    ridge, delta = (1.0, 0.1, 4.0)[number // 3 % 3], (0.01, 0.9)[number // 5 % 2]
    policy: Any
    if name in VARIANTS:
        horizon = (rounds, 4 * rounds, 10**6)[number // 2 % 3 if number < RICH else 0]
        policy = HierarchicalElimination(*sizes, horizon=horizon, delta=delta, variant=name, **options)
        make = partial(HierarchicalTwin, *sizes, horizon, delta, name, sigma)
    elif name == "C2UCB":
        width = (None, None, 0.7)[number // 7 % 3]
        options["noise_scale"] = noise if width is None else None
        policy = C2UCB(*sizes, delta=delta, width=width, ridge=ridge, **options)
        make = partial(C2UCBTwin, *sizes[1:], delta, width, ridge, sigma)
    else:
        scale = (None, 0.3)[number // 2 % 2]
        options["noise_scale"] = noise if scale is None else None
        policy = LinearThompsonSampling(*sizes, scale=scale, ridge=ridge, **options)
        spread = sigma if scale is None else scale / unit
        make = partial(LinearThompsonTwin, *sizes[1:], spread, ridge, seed=seed, replication=replication)
    ties = kind == "sphere" and env.dimension > 1  # in one dimension widths are exactly the same
    return Case(policy, make, env, rounds, replication, ties, raw, drift)


class Played(NamedTuple):
    """The decisions of ask and tell and those of the twin, with their triages."""

    case: Case
    twin: Any
    asked: list[list[list[int]]]
    expected: list[list[list[int]]]


def play(case: Case, late: np.random.Generator | None = None) -> Played:
    """Play side by side; with `late`, rewards come late, out of order and in part, and some never."""
    told, twin = case.policy.fresh(replication=case.replication), case.twin()
    done, waiting = Played(case, twin, [], []), {}
    for t in range(case.rounds):
        x = case.contexts(t)
        decision = told.ask(x)
        arms = twin.select(t, x / case.policy.context_bound, decision.arms.tolist() if case.ties else None)
        assert twin.margin(t) > TIE, "rounding would decide: choose another problem"
        staged = isinstance(twin, HierarchicalTwin)
        done.asked.append([decision.arms.tolist(), *(part.tolist() for part in (told.triage if staged else ()))])
        done.expected.append([arms, *(twin.rounds[t].triage() if staged else ())])
        if done.asked[t] != done.expected[t]:
            break
        waiting[t] = decision
        for number in [t] if late is None else late.permutation(list(waiting))[: late.integers(3)].tolist():
            rewards = case.rewards(number, waiting[number].arms)
            pairs = dict(zip(waiting[number].arms.tolist(), rewards.tolist(), strict=True))
            if late is None or late.random() < 0.3:
                told.tell(waiting[number], rewards)
            else:
                pairs = {a: r for a, r in pairs.items() if late.random() < 0.8}
                told.tell(waiting[number] if late.random() < 0.5 else number, pairs)
            twin.update(number, {a: r / case.unit for a, r in pairs.items()})
            del waiting[number]
    return done


def case_of(name: str) -> Case:
    """The case of a name such as tight/7/120/scaled; raw, if `simulate` shall play it too."""
    policy, number, rounds, how = name.split("/")
    return make_case(policy, int(number), int(rounds), how == "raw")


@cache
def played(name: str) -> Played:
    return play(case_of(name), np.random.default_rng(41) if name.endswith("late") else None)


def names(numbers: range, rounds: int, how: str, policies: tuple[str, ...] = POLICIES) -> list[str]:
    return [f"{policy}/{number}/{rounds}/{how}" for policy in policies for number in numbers]


# The printed width is so large that it takes long to learn enough for the later stages.
CASES = names(range(32), 120, "scaled") + names(range(353, 378, 24), 120, "scaled", VARIANTS)
CASES += names(range(0, 21, 7), 800, "scaled", VARIANTS)
RAW = names(range(100, 124), 120, "raw") + names(range(RICH, RICH + 2), 1500, "raw", VARIANTS)
LATE = names(range(200, 212), 120, "late") + names(range(RICH, RICH + 1), 1500, "late", VARIANTS)


def first_difference(mine: list[Any], theirs: list[Any]) -> tuple[int, Any, Any] | None:
    pairs = zip(mine, theirs, strict=True)
    return next(((t, a, b) for t, (a, b) in enumerate(pairs) if a != b), None)


@pytest.mark.parametrize("name", CASES + RAW)
def test_decisions_and_triage_of_ask_and_tell_are_those_of_the_twin(name: str) -> None:
    one = played(name)
    assert first_difference(one.asked, one.expected) is None


@pytest.mark.parametrize("name", LATE)
def test_decisions_and_triage_with_late_and_missing_rewards_are_those_of_the_twin(name: str) -> None:
    one = played(name)
    assert first_difference(one.asked, one.expected) is None


@cache
def simulated(name: str) -> Trace:
    case = case_of(name)
    return simulate(
        case.policy,
        case.environment,
        horizon=case.rounds,
        replications=case.replication + 1,
        checkpoints=range(1, case.rounds + 1),
        record_decisions=True,
        workers=1,
    )


@pytest.mark.parametrize("name", RAW)
def test_simulated_decisions_and_regret_are_those_of_the_twin(name: str) -> None:
    one, lost = played(name), []
    for t, (arms, *_) in enumerate(one.expected):
        means = one.case.environment.contexts(t, one.case.replication) @ one.case.environment.theta
        lost.append(np.sort(means)[::-1][: len(arms)].sum() - means[arms].sum())
    trace = simulated(name)
    decisions = trace.decisions[-1, : len(lost)].tolist()
    assert first_difference(decisions, [arms for arms, *_ in one.expected]) is None
    np.testing.assert_allclose(trace.regret[-1, : len(lost)], np.cumsum(lost), rtol=0, atol=1e-9)


# --- The cases do exercise what they should ---
ALL_CASES = CASES + RAW + LATE
# Enough of them to see it: replaying all would take as long as the tests above.
TELLING = (10, 11, 12, 13, 353, 377)
TOLD = [name for name in ALL_CASES if int(name.split("/")[2]) >= 800 or int(name.split("/")[1]) in TELLING]


def events(variant: str, fact: Any) -> int:
    """How many of the rounds of the runs of a variant have it."""
    runs = [played(name) for name in TOLD if name.startswith(variant + "/")]
    return sum(bool(fact(r)) for one in runs for r in one.twin.rounds.values())


def stage_events(variant: str, fact: Any) -> int:
    return events(variant, lambda r: any(fact(s) for s in r.stages))


variants = pytest.mark.parametrize("variant", VARIANTS)


@variants
def test_some_rounds_explore_only_some_of_the_wide_arms(variant: str) -> None:
    assert stage_events(variant, lambda s: sum(w > 2.0**-s.h for w in s.wid.values()) > len(s.explored)) >= 100


@variants
def test_some_stages_explore_arms_and_go_on(variant: str) -> None:
    assert stage_events(variant, lambda s: s.explored and s.free) >= 100


@variants
def test_some_rounds_confirm_arms(variant: str) -> None:
    assert stage_events(variant, lambda s: s.confirmed) >= 100


@variants
def test_some_rounds_eliminate_arms(variant: str) -> None:
    assert stage_events(variant, lambda s: s.eliminated) >= 100


@variants
def test_some_rounds_fill_the_slate_at_the_end(variant: str) -> None:
    assert events(variant, lambda r: r.filled and len(r.filled) < len(r.stages[-1].kept)) >= 100


@variants
def test_some_rounds_explore_in_their_fourth_stage(variant: str) -> None:
    assert stage_events(variant, lambda s: s.explored and s.h >= 4) >= 20


def test_drift_makes_the_ends_of_some_arms_cross() -> None:
    assert sum(played(name).twin.contradictions for name in TOLD if name.startswith("tight/")) > 0


def test_sizes_and_horizons_have_their_turns() -> None:
    cases = [case_of(name) for name in ALL_CASES if name.startswith("tight/")]
    assert {case.policy.dimension for case in cases} == {1, 2, 5, 8}
    assert any(case.policy.n_arms == 1 for case in cases)
    assert any(case.policy.budget == 1 < case.policy.n_arms for case in cases)
    assert any(case.policy.budget == case.policy.n_arms > 1 for case in cases)
    assert any(1 < case.policy.budget < case.policy.n_arms for case in cases)
    assert {1, 10**6} <= {case.policy.horizon for case in cases}
    assert {case.policy.reward_range for case in cases} == set(RANGES)
    assert {case.policy.context_bound for case in cases} == {0.5, 1.0, 2.5}


@pytest.mark.parametrize(("budget", "horizon"), [(1, 1), (1, 4), (1, 5), (3, 1), (4, 4), (5, 1000), (8, 2**21)])
def test_number_of_stages_is_that_of_the_twin(budget: int, horizon: int) -> None:
    policy = HierarchicalElimination(9, 2, budget, horizon=horizon)
    assert policy.stages == HierarchicalTwin(9, 2, budget, horizon, 0.01, "tight").stages


@pytest.mark.long
@pytest.mark.parametrize("name", names(range(1000, 1120), 300, "raw") + names(range(2000, 2120), 300, "late"))
def test_decisions_are_those_of_the_twin_on_many_more_problems(name: str) -> None:
    one = played(name)
    assert first_difference(one.asked, one.expected) is None
    if one.case.raw:
        decisions = simulated(name).decisions[-1, : len(one.expected)].tolist()
        assert first_difference(decisions, [arms for arms, *_ in one.expected]) is None


# --- Without compilation ---
SHORT = names(range(100, 112), 30, "raw")


def short_decisions() -> dict[str, list[list[int]]]:
    return {name: simulated(name).decisions[-1].tolist() for name in SHORT}


def test_decisions_do_not_depend_on_compilation() -> None:
    code = "import json, test_linear_reference as tests; print(json.dumps(tests.short_decisions()))"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=HERE,
        env={**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONPATH": os.pathsep.join([str(HERE), *sys.path])},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    plain, compiled = json.loads(done.stdout), short_decisions()
    assert {name for name in compiled if plain[name] != compiled[name]} == set()
