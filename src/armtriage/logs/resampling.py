"""resampled_weights: one over the probability of each arm of a decision, from asking again with other luck."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from armtriage._arguments import check_count, check_kind
from armtriage.decisions import Decision
from armtriage.kernels.random import check_seed
from armtriage.policies import Guard, Policy
from armtriage.policies.slate import SlatePolicy


def resampled_weights(
    before: bytes, decision: Decision, *, times: int = 4, seed: int = 0, most: int = 10_000
) -> NDArray[np.float64]:
    """Estimate one over the probability of each arm of a decision: geometric resampling, for policies without formulas.

    The policy is asked again with other luck, as it stood before the decision, until each arm has come up `times`
    times; the number of tries that this takes, divided by `times`, is unbiased for one over its probability. Its
    variance adds a share of 1 / `times` to that of a weighted look. It takes about `times` x K tries of a millisecond
    or two, so it is for a hundred arms or fewer. `Decision.inclusion` needs none of this, but varies more.

    Parameters
    ----------
    before : bytes
        What `armtriage.Policy.to_bytes` returned before the policy was asked: of a policy over slates, no `Guard`.
    decision : Decision
        What it then answered.
    times : int
        How often each arm must come up.
    seed : int
        Fixes the luck; take another for each decision.
    most : int
        Tries after which an arm that has not come up so often is refused. Set a `logging_floor`, and none is so rare.

    References
    ----------
    Neu, Bartok (2016), Importance weighting without importance weights.

    Examples
    --------
    >>> from armtriage import UniformRandom
    >>> policy = UniformRandom(4, budget=2, seed=7)
    >>> before = policy.to_bytes()
    >>> resampled_weights(before, policy.ask(), times=50).round(1)  # 2 in truth
    array([2. , 1.8])
    """
    check_kind("before", before, bytes)
    check_kind("decision", decision, Decision)
    check_count("times", times, 1)
    check_count("most", most, 1)
    asked = Policy.from_bytes(before)
    if not isinstance(asked, SlatePolicy) or isinstance(asked, Guard):
        raise TypeError(f"before must be of a policy over slates, and of no Guard, got a {type(asked).__name__}")
    if asked.asked != decision.number:
        raise ValueError(f"decision must be the next after {asked.asked} decisions, got number {decision.number}")
    mask = None
    if decision.eligible is not None:
        mask = np.zeros(asked.n_arms, np.bool_)
        mask[decision.eligible] = True
    luck = np.random.default_rng(check_seed(seed))
    came, tries = np.zeros(decision.arms.size, np.int64), np.zeros(decision.arms.size, np.int64)
    for number in range(1, most + 1):
        one = Policy.from_bytes(before)
        one.seed = int(luck.integers(2**62))
        came += np.isin(decision.arms, one.ask(eligible=mask).arms)
        tries[(came == times) & (tries == 0)] = number
        if tries.all():
            return np.asarray(tries / times)
    rare = decision.arms[came < times]
    raise ValueError(f"arm {rare[0]} came up {came.min()} times of {times} in {most:,} tries: set a logging_floor")
