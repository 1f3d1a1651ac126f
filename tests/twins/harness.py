"""The one harness: a policy and its twin play the same problem, and every decision is compared."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from armtriage import ContextualPolicy, LinearEnvironment, Policy, ReplayEnvironment, Trace, simulate


class Case(NamedTuple):
    """One problem: a policy, how its twin is made, and where, how long and as what replication they play."""

    policy: Any
    twin: Callable[[], Any]
    environment: Any
    rounds: int
    replication: int = 0
    in_simulate: bool = True  # whether `simulate` can play it, too


class Played(NamedTuple):
    """What ask and tell did beside the twin, and the first thing that the twin had against it."""

    case: Case
    policy: Policy
    twin: Any
    decisions: list[list[int]]
    fault: str | None


def play(case: Case, late: int | None = None) -> Played:
    """Ask, judge and tell; with `late`, a seed, rewards come late, out of order and in part, and some never.

    In half of the late runs an arm is mute until two thirds of them have passed: no reward of it comes.
    """
    policy, twin = case.policy.fresh(replication=case.replication), case.twin()
    rng = np.random.default_rng([42, late or 0])
    patience = 0 if late is None else int(rng.integers(1, 9))
    loss = 0.0 if late is None else float(rng.choice([0.0, 0.1, 0.4]))
    mute = int(rng.integers(policy.n_arms)) if late is not None and rng.random() < 0.5 else -1
    waiting: dict[int, Any] = {}
    done = Played(case, policy, twin, [], None)
    for t in range(case.rounds):
        given = [case.environment.contexts(t, case.replication)] if isinstance(policy, ContextualPolicy) else []
        waiting[t] = policy.ask(*given)
        done.decisions.append(waiting[t].arms.tolist())
        fault = twin.judge(t, done.decisions[t], *given) or twin.differs(policy)
        while waiting and (len(waiting) > patience or rng.random() < 0.4) and not fault:
            number = t if late is None else int(rng.choice(list(waiting)))
            decision = waiting.pop(number)
            rewards = case.environment.rewards(number, decision.revealed, case.replication)
            kept = (rng.random(rewards.size) >= loss) & ((decision.revealed != mute) | (3 * t > 2 * case.rounds))
            pairs = dict(zip(decision.revealed[kept].tolist(), rewards[kept].tolist(), strict=True))
            by_arm = late is not None and (not kept.all() or rng.random() < 0.5)
            policy.tell(number if by_arm else decision, pairs if by_arm else rewards)
            twin.update(number, pairs)
            fault = twin.differs(policy)
        if fault:
            return done._replace(fault=f"round {t}: {fault}")
    return done


def simulated(case: Case) -> Trace:
    """What `simulate` makes of the case; the replication that counts is the last."""
    return simulate(
        case.policy,
        case.environment,
        horizon=case.rounds,
        replications=case.replication + 1,
        checkpoints=range(1, case.rounds + 1),
        record_decisions=True,
        workers=1,
    )


def decisions_of(trace: Trace) -> list[list[int]]:
    assert trace.decisions is not None
    return [[arm for arm in row if arm >= 0] for row in trace.decisions[-1].tolist()]


def regret_of(case: Case, decisions: list[list[int]]) -> np.ndarray:
    """The cumulative regret of decisions, from the means or the outcomes themselves."""
    env, policy = case.environment, case.policy
    if isinstance(env, ReplayEnvironment):
        paid = env.outcomes[: case.rounds]
        fixed = np.argsort(-paid.sum(axis=0), kind="stable")[: policy.budget]
        return np.cumsum([row[fixed].sum() - row[arms].sum() for row, arms in zip(paid, decisions, strict=True)])
    if isinstance(env, LinearEnvironment):
        rows = [env.contexts(t, case.replication) @ env.theta for t in range(case.rounds)]
    else:
        rows = [env.means] * case.rounds
    if policy.decisions is None:
        best = [np.sort(row)[::-1][: policy.budget].sum() for row in rows]
    else:
        best = [max(env.means[one].sum() for one in policy.decisions)] * case.rounds
    chosen = [row[arms].sum() for row, arms in zip(rows, decisions, strict=True)]
    return np.cumsum(np.subtract(best, chosen))


def first_difference(mine: list[Any], theirs: list[Any]) -> tuple[int, Any, Any] | None:
    pairs = zip(mine, theirs, strict=True)
    return next(((t, a, b) for t, (a, b) in enumerate(pairs) if a != b), None)
