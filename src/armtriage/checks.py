"""check_policy: the contract of ask and tell, as a check that anybody's policy can be put through."""

from __future__ import annotations

import inspect
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from armtriage._random import row_of, stream, uniform
from armtriage.decisions import Decision
from armtriage.environments import StochasticEnvironment
from armtriage.errors import AlreadyTold, UnknownDecision
from armtriage.feedback import FeedbackGraph
from armtriage.policy import Policy
from armtriage.simulator import simulate

__all__ = ["check_policy"]

Maker = Callable[..., Policy]


def check_policy(policy_class: Callable[..., Policy], **options: Any) -> None:
    """Put a policy through the contract of ask and tell; raise `AssertionError` saying what it breaks.

    Parameters
    ----------
    policy_class : class, or callable
        Called as ``policy_class(graph, budget=..., seed=..., **options)``.
    **options
        Further arguments it needs.

    Examples
    --------
    >>> from armtriage import CombUCB1, check_policy
    >>> check_policy(CombUCB1)
    """

    def make(graph: FeedbackGraph, budget: int, seed: int = 7, **more: Any) -> Policy:
        return policy_class(graph, budget=budget, seed=seed, **{**options, **more})

    with tempfile.TemporaryDirectory() as folder:
        for graph, budget in _problems():
            _check_decisions(make, graph, budget)
            _check_determinism(make, graph, budget)
            _check_late_tells(make, graph, budget)
            _check_refusals(make, graph, budget)
            _check_saving(make, graph, budget, Path(folder, "policy"))
            _check_simulation(make, graph, budget)
        if "reward_range" in inspect.signature(policy_class).parameters:
            _check_reward_range(make)


def _problems() -> Iterator[tuple[FeedbackGraph, int]]:
    yield FeedbackGraph.semi_bandit(1), 1
    yield FeedbackGraph.semi_bandit(7), 3
    yield FeedbackGraph.full_information(6), 1
    yield FeedbackGraph.cliques([3, 1, 4]), 8
    yield FeedbackGraph.erdos_renyi(12, 0.2, seed=3), 4


def _rewards(arms: NDArray[np.int64], number: int) -> NDArray[np.float64]:
    luck = row_of(stream(11, "check"), number)
    return np.array([float(uniform(luck, arm) < (arm + 1) / 20) for arm in arms.tolist()])


def _step(policy: Policy) -> Decision:
    decision = policy.ask()
    policy.tell(decision, _rewards(decision.revealed, decision.number))
    return decision


def _future(policy: Policy, rounds: int = 12) -> list[list[int]]:
    return [_step(policy).arms.tolist() for _ in range(rounds)]


def _expect(condition: bool, policy: Policy, fact: str) -> None:
    if not condition:
        raise AssertionError(f"{policy!r}: {fact}")


def _check_decisions(make: Maker, graph: FeedbackGraph, budget: int) -> None:
    policy = make(graph, budget)
    for number in range(40):
        decision = _step(policy)
        arms = decision.arms
        _expect(decision.number == number, policy, f"decision {number} has the number {decision.number}")
        _expect(arms.dtype == np.int64 and arms.shape == (budget,), policy, f"a decision must have {budget} arms")
        _expect(bool(np.all(np.diff(arms) > 0)), policy, f"arms must rise, got {arms}")
        _expect(arms[0] >= 0 and arms[-1] < graph.n_arms, policy, f"arms out of range: {arms}")


def _check_determinism(make: Maker, graph: FeedbackGraph, budget: int) -> None:
    policy = make(graph, budget)
    first = _future(policy)
    _expect(_future(make(graph, budget)) == first, policy, "the same seed gave other decisions")
    _expect(_future(policy.fresh()) == first, policy, "fresh() did not forget what was learned")


def _check_late_tells(make: Maker, graph: FeedbackGraph, budget: int) -> None:
    policy = make(graph, budget)
    decisions = [policy.ask() for _ in range(9)]
    _expect(len(policy.open_decisions) == 9, policy, "nine decisions should be open")
    for place in (4, 0, 8, 2):
        policy.tell(decisions[place].number, _rewards(decisions[place].revealed, place))
    part = decisions[6].revealed[::2]
    policy.tell(decisions[6], dict(zip(part.tolist(), _rewards(part, 6).tolist(), strict=True)))
    policy.tell(decisions[5], {})
    _expect([d.number for d in policy.open_decisions] == [1, 3, 7], policy, "decisions 1, 3 and 7 should be open")
    _future(policy, 30)


def _check_refusals(make: Maker, graph: FeedbackGraph, budget: int) -> None:
    policy, twin = make(graph, budget), make(graph, budget)
    told, twin_told = _step(policy), _step(twin)
    waiting, twin_waiting = policy.ask(), twin.ask()
    good = _rewards(waiting.revealed, 1)
    high = policy.reward_range[1]
    bad: list[tuple[type[Exception], Any, Any]] = [
        (AlreadyTold, told, good),
        (UnknownDecision, 99, good),
        (UnknownDecision, twin_waiting, good),
        (TypeError, "0", good),
        (TypeError, waiting, ["x"] * good.size),
        (TypeError, waiting, {"x": 0.5}),
        (ValueError, waiting, np.append(good, 0.5)),
        (ValueError, waiting, np.full(good.size, np.nan)),
        (ValueError, waiting, np.full(good.size, np.inf)),
        (ValueError, waiting, np.full(good.size, high + 0.5)),
        (ValueError, waiting, {int(waiting.arms[0]): high, graph.n_arms: high}),
        (ValueError, waiting, {int(waiting.arms[0]): np.nan}),
    ]
    for error, decision, rewards in bad:
        try:
            policy.tell(decision, rewards)
        except error:
            continue
        raise AssertionError(f"{policy!r}: tell({decision!r}, {rewards!r}) should raise {error.__name__}")
    policy.tell(waiting, good)
    twin.tell(twin_waiting, good)
    _expect(told.arms.tolist() == twin_told.arms.tolist(), policy, "the same seed gave other decisions")
    _expect(_future(policy) == _future(twin), policy, "a refused tell changed the future")


def _check_saving(make: Maker, graph: FeedbackGraph, budget: int, path: Path) -> None:
    policy = make(graph, budget)
    _future(policy)
    waiting = policy.ask()
    policy.save(path)
    loaded = type(policy).load(path)
    _expect([d.number for d in loaded.open_decisions] == [waiting.number], policy, "load lost an open decision")
    rewards = _rewards(waiting.revealed, 0)
    policy.tell(waiting, rewards)
    loaded.tell(waiting, rewards)
    _expect(_future(loaded) == _future(policy), policy, "the loaded policy went another way")


def _check_simulation(make: Maker, graph: FeedbackGraph, budget: int) -> None:
    policy, reference = make(graph, budget), make(graph, budget)
    environment = StochasticEnvironment(np.linspace(0.1, 0.9, graph.n_arms), graph, seed=5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        trace = simulate(policy, environment, horizon=60, record_decisions=True)
    assert trace.decisions is not None
    for number in range(60):
        decision = reference.ask()
        reference.tell(decision, environment.rewards(number, decision.revealed))
        same = decision.arms.tolist() == trace.decisions[0, number].tolist()
        _expect(same, policy, f"ask and tell differ from simulate in round {number}")
    _expect(
        _future(policy) == _future(make(graph, budget)),
        policy,
        "simulate changed the policy that it was given",
    )


def _check_reward_range(make: Maker) -> None:
    graph = FeedbackGraph.semi_bandit(7)
    plain, wide = make(graph, 3), make(graph, 3, reward_range=(-4.0, 4.0))
    for _ in range(30):
        left, right = plain.ask(), wide.ask()
        _expect(left.arms.tolist() == right.arms.tolist(), wide, "reward_range changed the decisions")
        rewards = _rewards(left.revealed, left.number)
        plain.tell(left, rewards)
        wide.tell(right, 8.0 * rewards - 4.0)
