"""Careful NumPy loops, as a good practitioner would write them: the baselines of the published table."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray


def comb_ucb1(means: NDArray[np.float64], budget: int, horizon: int, seed: int) -> float:
    """Return the cumulative pseudo-regret of CombUCB1 under semi-bandit feedback on Bernoulli arms."""
    rng = np.random.default_rng(seed)
    arms = means.size
    counts, sums = np.zeros(arms), np.zeros(arms)
    # Only played arms change, so that a round over all arms is one product and one sum. Negated, since
    # argpartition finds the smallest faster where many are tied; -inf plays an unobserved arm first.
    negated, inv_root = np.full(arms, -np.inf), np.zeros(arms)
    index, uniforms = np.empty(arms), np.empty(budget)
    best = float(np.sort(means)[arms - budget :].sum())
    regret = 0.0
    for t in range(1, horizon + 1):
        np.multiply(inv_root, -math.sqrt(1.5 * math.log(t)), out=index)
        np.add(index, negated, out=index)
        chosen = index.argpartition(budget - 1)[:budget]
        luck = means[chosen]
        regret += best - float(luck.sum())
        rng.random(out=uniforms)
        seen = counts[chosen]
        seen += 1.0
        total = sums[chosen]
        total += uniforms < luck
        counts[chosen] = seen
        sums[chosen] = total
        total /= seen
        negated[chosen] = np.negative(total, out=total)
        np.sqrt(seen, out=seen)
        np.reciprocal(seen, out=seen)
        inv_root[chosen] = seen
    return regret


def thompson(means: NDArray[np.float64], budget: int, horizon: int, seed: int) -> float:
    """Return the cumulative pseudo-regret of Thompson sampling from Beta posteriors, at first uniform."""
    rng = np.random.default_rng(seed)
    arms = means.size
    wins, losses = np.ones(arms), np.ones(arms)
    uniforms = np.empty(budget)
    best, cut = float(np.sort(means)[arms - budget :].sum()), arms - budget
    regret = 0.0
    for _ in range(horizon):
        sample = rng.beta(wins, losses)
        chosen = sample.argpartition(cut)[cut:]
        luck = means[chosen]
        regret += best - float(luck.sum())
        rng.random(out=uniforms)
        won = uniforms < luck
        wins[chosen] += won
        losses[chosen] += ~won
    return regret
