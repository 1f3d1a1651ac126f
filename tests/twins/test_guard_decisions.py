"""The guard over a decision set decides as its slow twin, with all arms and among eligible ones."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

from armtriage import GuardedThompson, PartitionMatroid, TopS
from armtriage.policies.policy import Policy
from twins.cases import SET_RANGES, set_problem
from twins.facts import assert_as_twin, assert_as_twin_when_late, split
from twins.guard_decisions import GuardedDecisions

SETS = [f"guard-set/{i}" for i in range(600)] + [f"guard-exchange/{i}" for i in range(8)]


@pytest.mark.parametrize("name", split(SETS, first=16, group="guarded sets"))
def test_policy_plays_as_its_twin(name: str) -> None:
    assert_as_twin(name)


@pytest.mark.parametrize("name", split(SETS[:84:2] + SETS[600::2], first=8, group="guarded sets"))
def test_policy_plays_as_its_twin_when_rewards_are_late_or_lost(name: str) -> None:
    assert_as_twin_when_late(name)


def setting(number: int) -> tuple[Any, Any, Any]:
    """A world, a policy and its twin: small factors and large deltas make the guard step in within few rounds."""
    env = set_problem(30_000 + number)
    decisions = env.decisions
    if isinstance(decisions, TopS):
        decisions = PartitionMatroid(np.zeros(decisions.n_arms, np.int64), decisions.size)
    options: dict[str, Any] = {
        "delta": (0.9, 0.5, 0.01)[number % 3],
        "mode": ("time", "shadow")[number // 2 % 2],
        "factor": (1.0, 0.02, 0.0, 0.1)[number // 3 % 4],
        "reveal": number % 4 == 1,
        "sleepers_seen": number % 5 < 2,
        "reward_range": SET_RANGES[number % len(SET_RANGES)],
    }
    policy = GuardedThompson(env.graph, decisions=decisions, seed=number, **options)
    return env, policy, GuardedDecisions(env.graph, decisions, seed=number, **options)


def eligible_sets(decisions: Any, rng: Any) -> list[list[int]]:
    """Sets of arms that leave a decision, some of which come again."""
    found: list[list[int]] = []
    for _ in range(40):
        some = np.flatnonzero(rng.random(decisions.n_arms) < 0.75)
        asleep = np.setdiff1d(np.arange(decisions.n_arms), some)
        if some.size and decisions.maximise(np.zeros(decisions.n_arms), (), asleep) is not None:
            found.append(some.tolist())
    return found[: int(rng.integers(1, 12))] or [list(range(decisions.n_arms))]


def play(number: int, rounds: int) -> tuple[Any, Any, str | None]:
    env, policy, twin = setting(number)
    rng = np.random.default_rng([45, number])
    sets, patience = eligible_sets(policy.decisions, rng), int(rng.integers(0, 5))
    waiting: dict[int, Any] = {}
    for t in range(rounds):
        among = None if rng.random() < 0.2 else sets[int(rng.integers(len(sets)))]
        decision, expected = policy.ask(eligible=among), twin.select(t, among)
        if decision.arms.tolist() != expected:
            return policy, twin, f"round {t}: {decision.arms} instead of {expected}"
        if decision.revealed.tolist() != list(twin.shown[t]):
            return policy, twin, f"round {t}: reveals {decision.revealed}, not {twin.shown[t]}"
        waiting[t] = decision
        while len(waiting) > patience:
            one = waiting.pop(int(rng.choice(list(waiting))))
            rewards = env.rewards(one.number, one.revealed)
            kept = rng.random(rewards.size) < 0.9
            pairs = dict(zip(one.revealed[kept].tolist(), rewards[kept].tolist(), strict=True))
            policy.tell(one, pairs)
            twin.update(one.number, pairs)
        if fault := twin.differs(policy):
            return policy, twin, f"round {t}: {fault}"
        if t == rounds // 2:
            policy = Policy.from_bytes(policy.to_bytes())
            waiting = {one.number: one for one in policy.open_decisions}
    return policy, twin, None


@cache
def played(number: int) -> tuple[Any, Any, str | None]:
    return play(number, 120)


@pytest.mark.plain
@pytest.mark.parametrize("number", range(12))
def test_the_guard_decides_among_eligible_arms_as_its_twin(number: int) -> None:
    assert played(number)[2] is None


def test_the_cases_have_everything_in_them() -> None:
    twins = [played(number)[1] for number in range(12)]
    assert sum(twin.forced for twin in twins) > 100
    assert any(page["committed"] is not None for twin in twins for page in twin.pages.values())
    assert max(len(twin.pages) for twin in twins) > 5


@pytest.mark.long
@pytest.mark.parametrize("number", range(12, 120))
def test_the_guard_decides_among_eligible_arms_as_its_twin_for_longer(number: int) -> None:
    assert play(number, 300)[2] is None
