"""check_policy: the contract of ask and tell, as a check that anybody's policy can be put through."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from armtriage._check_cases import Case, LinearCase, Stretch, cases
from armtriage.decisions import Decision
from armtriage.errors import AlreadyTold, UnknownDecision
from armtriage.policies.policy import Policy
from armtriage.simulation.simulate import simulate

__all__ = ["check_policy"]


def check_policy(policy_class: Callable[..., Policy], **options: Any) -> None:
    """Put a policy through the contract of ask and tell; raise `AssertionError` saying what it breaks.

    Parameters
    ----------
    policy_class : class, or callable
        Called as ``policy_class(graph, budget=..., seed=..., **options)``; if it has a parameter `dimension`, as
        ``policy_class(n_arms, dimension, budget=..., seed=..., **options)``, and asked with contexts. If its
        constructor has a parameter `decisions`, it is called with it instead of `budget` as well; only with it, if it
        has no default.
    **options
        Further arguments it needs.

    Examples
    --------
    >>> from armtriage import C2UCB, CombUCB1, check_policy
    >>> check_policy(CombUCB1)
    >>> check_policy(C2UCB, width=0.5)
    """
    with tempfile.TemporaryDirectory() as folder:
        for case in cases(policy_class, options):
            _check_decisions(case)
            _check_determinism(case)
            _check_late_tells(case)
            _check_refused_tells(case)
            _check_refused_questions(case)
            _check_saving(case, Path(folder, "policy"))
            _check_simulation(case)
            for stretch in case.stretches(case.make()):
                _check_units(case, stretch)
            if isinstance(case, LinearCase):
                _check_contexts(case)


def _step(case: Case, policy: Policy, number: int) -> Decision:
    decision = case.ask(policy, number)
    policy.tell(decision, case.rewards(decision.revealed, number))
    return decision


def _future(case: Case, policy: Policy, first: int = 0, rounds: int = 12) -> list[list[int]]:
    return [_step(case, policy, number).arms.tolist() for number in range(first, first + rounds)]


def _expect(condition: bool, policy: Policy, fact: str) -> None:
    if not condition:
        raise AssertionError(f"{policy!r}: {fact}")


def _expect_refusal(error: type[Exception], policy: Policy, action: str, *given: Any) -> None:
    try:
        getattr(policy, action)(*given)
    except error:
        return
    raise AssertionError(f"{policy!r}: {action}({', '.join(map(repr, given))}) should raise {error.__name__}")


def _check_decisions(case: Case) -> None:
    policy = case.make()
    for number in range(40):
        decision = _step(case, policy, number)
        arms, budget, allowed = decision.arms, case.budget, policy.decisions
        _expect(decision.number == number, policy, f"decision {number} has the number {decision.number}")
        _expect(arms.dtype == np.int64 and arms.ndim == 1, policy, "arms must be a 1-D array of int64")
        _expect(allowed is not None or arms.size == budget, policy, f"a decision must have {budget} arms")
        _expect(bool(np.all(np.diff(arms) > 0)), policy, f"arms must rise, got {arms}")
        _expect(bool(np.all((arms >= 0) & (arms < case.n_arms))), policy, f"arms out of range: {arms}")
        _expect(allowed is None or allowed.contains(arms), policy, f"{arms} is no decision of the set")


def _check_determinism(case: Case) -> None:
    policy = case.make()
    first = _future(case, policy)
    _expect(_future(case, case.make()) == first, policy, "the same seed gave other decisions")
    _expect(_future(case, policy.fresh()) == first, policy, "fresh() did not forget what was learned")


def _check_late_tells(case: Case) -> None:
    policy = case.make()
    decisions = [case.ask(policy, number) for number in range(9)]
    _expect(len(policy.open_decisions) == 9, policy, "nine decisions should be open")
    for place in (4, 0, 8, 2):
        policy.tell(decisions[place].number, case.rewards(decisions[place].revealed, place))
    part = decisions[6].revealed[::2]
    policy.tell(decisions[6], dict(zip(part.tolist(), case.rewards(part, 6).tolist(), strict=True)))
    policy.tell(decisions[5], {})
    _expect([d.number for d in policy.open_decisions] == [1, 3, 7], policy, "decisions 1, 3 and 7 should be open")
    _future(case, policy, 9, 30)


def _check_refused_tells(case: Case) -> None:
    policy, twin = case.make(), case.make()
    told, twin_told = _step(case, policy, 0), _step(case, twin, 0)
    waiting, twin_waiting = case.ask(policy, 1), case.ask(twin, 1)
    for one, other in ((told, twin_told), (waiting, twin_waiting)):
        _expect(one.arms.tolist() == other.arms.tolist(), policy, "the same seed gave other decisions")
    good = case.rewards(waiting.revealed, 1)
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
        (ValueError, waiting, {int(waiting.arms[0]): high, case.n_arms: high}),
        (ValueError, waiting, {int(waiting.arms[0]): np.nan}),
    ]
    for error, decision, rewards in bad:
        _expect_refusal(error, policy, "tell", decision, rewards)
    policy.tell(waiting, good)
    # The twin is told the same by arm, in another order.
    twin.tell(twin_waiting, dict(zip(waiting.revealed.tolist()[::-1], good.tolist()[::-1], strict=True)))
    _expect(_future(case, policy, 2) == _future(case, twin, 2), policy, "a refused tell changed the future")


def _check_refused_questions(case: Case) -> None:
    policy, twin = case.make(), case.make()
    _future(case, policy)
    _future(case, twin)
    for error, question in case.bad_questions(policy):
        _expect_refusal(error, policy, "ask", question)
    _expect(not policy.open_decisions, policy, "a refused ask left a decision open")
    _expect(_future(case, policy, 12) == _future(case, twin, 12), policy, "a refused ask changed the future")


def _check_saving(case: Case, path: Path) -> None:
    policy = case.make()
    _future(case, policy)
    waiting = case.ask(policy, 12)
    policy.save(path)
    loaded = type(policy).load(path)
    kept = loaded.open_decisions
    _expect([one.number for one in kept] == [waiting.number], policy, "load lost an open decision")
    _expect(np.array_equal(kept[0].arms, waiting.arms), policy, "load changed the arms of an open decision")
    if waiting.contexts is not None:
        same = kept[0].contexts is not None and np.array_equal(kept[0].contexts, waiting.contexts)
        _expect(same, policy, "load changed the contexts of an open decision")
    rewards = case.rewards(waiting.revealed, 12)
    policy.tell(waiting, rewards)
    loaded.tell(waiting, rewards)
    _expect(_future(case, loaded, 13) == _future(case, policy, 13), policy, "the loaded policy went another way")


def _check_simulation(case: Case) -> None:
    policy, reference = case.make(), case.make()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        trace = simulate(policy, case.environment, horizon=60, record_decisions=True)
    assert trace.decisions is not None
    for number in range(60):
        played = trace.decisions[0, number]
        same = _step(case, reference, number).arms.tolist() == played[played >= 0].tolist()
        _expect(same, policy, f"ask and tell differ from simulate in round {number}")
    same = _future(case, policy) == _future(case, case.make())
    _expect(same, policy, "simulate changed the policy that it was given")


def _check_units(case: Case, stretch: Stretch) -> None:
    plain, wide = case.make(), case.make(**stretch.arguments)
    for number in range(30):
        left, right = case.ask(plain, number), case.ask(wide, number, stretch.of_contexts)
        _expect(left.arms.tolist() == right.arms.tolist(), wide, f"{stretch.argument} changed the decisions")
        rewards = case.rewards(left.revealed, number)
        plain.tell(left, rewards)
        wide.tell(right, stretch.rewards(rewards))


def _check_contexts(case: LinearCase) -> None:
    policy, twin = case.make(), case.make()
    for number in range(30):
        contexts = case.contexts(number)
        decision, other = policy.ask(contexts), case.ask(twin, number)
        _expect(np.array_equal(contexts, case.contexts(number)), policy, "ask wrote on the contexts")
        for one in (decision, policy.open_decisions[-1]):
            same = one.contexts is not None and np.array_equal(one.contexts, contexts[decision.arms])
            _expect(same, policy, "a decision must have the contexts of its arms as they were given")
        # What the caller does with its arrays afterwards is its own business.
        contexts[:] = np.nan
        assert decision.contexts is not None
        decision.contexts[:] = np.nan
        same = np.array_equal(decision.arms, other.arms)
        _expect(same, policy, "contexts that were written on after ask changed what was learned")
        rewards = case.rewards(other.arms, number)
        policy.tell(decision, rewards)
        twin.tell(other, rewards)
