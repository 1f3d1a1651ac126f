"""Policies that papers compare with, as they are published, mostly in plain Python: for studies, not for a page.

`simulate` plays them by ask and tell. They take slates and decision sets. An arm that has not been seen comes first.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import Any, Unpack

import numpy as np
from numpy.typing import NDArray
from scipy import special

from armtriage._arguments import check_count, check_number
from armtriage.decisions import TopS
from armtriage.graphs.feedback import FeedbackGraph
from armtriage.kernels.record import Floats, Ints
from armtriage.policies import CombUCB1, Policy, ThompsonSampling
from armtriage.policies.options import SetOptions

_LISTED = 5000  # decisions up to which ESCB looks at each
_SLOPES = 12  # linear questions that it asks otherwise


class CTS(ThompsonSampling):
    """Combinatorial Thompson sampling as published: `ThompsonSampling` whose rewards inside (0, 1) are coins.

    Parameters
    ----------
    graph, budget, decisions, names, seed, reward_range, direction, sleepers_seen, cap, logging_floor, floor_arms
        See `armtriage.Policy`.

    References
    ----------
    Wang, Chen (2018), Thompson sampling for combinatorial semi-bandits, Algorithm 1.

    Examples
    --------
    >>> CTS(3, budget=1, seed=7).fractional
    'coin'
    """

    def __init__(self, graph: FeedbackGraph | int, budget: int | None = None, **options: Unpack[SetOptions]) -> None:
        super().__init__(graph, budget, fractional="coin", **options)


class _Counting(Policy):
    """Counts and sums of the rewards of each arm, on the unit scale."""

    def __init__(self, graph: FeedbackGraph | int, budget: int | None = None, **options: Unpack[SetOptions]) -> None:
        super().__init__(graph, budget, **options)
        self._counts, self._sums = np.zeros((2, self.n_arms))

    def _update(self, number: int, arms: Ints, rewards: Floats) -> None:
        self._counts[arms] += 1
        self._sums[arms] += rewards

    def _arrays(self) -> dict[str, NDArray[Any]]:
        return {"counts": self._counts, "sums": self._sums}

    def _restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        self._counts[:], self._sums[:] = arrays["counts"], arrays["sums"]

    def _means(self) -> Floats:
        return np.asarray(self._sums / np.maximum(self._counts, 1))

    def _best(self, values: Floats) -> Ints:
        """Return the decision of largest value; an arm that was never seen is worth more than all that were."""
        seen = self._counts > 0
        values = np.where(seen, values, max(1.0, float(values.max(initial=1.0, where=seen))))
        if self.direction == "minimize":
            values = np.minimum(values, 1.0)  # no cost is below the least
        if self.decisions is None:
            return np.sort(np.lexsort((np.arange(self.n_arms), -values, seen))[: self.budget])
        found = self.decisions.maximise(values + self._offset)
        assert found is not None
        return found

    def _rng(self, number: int) -> np.random.Generator:
        return np.random.default_rng([self.seed, number])


class ESCB(_Counting):
    """Efficient sampling for combinatorial bandits: optimism for a decision instead of its arms (ESCB-2).

    The index of a decision is the sum of its means plus the root of f(t) / 2 times the sum of 1 / n over its arms, with
    f(t) = ln t + 4 m ln ln t and m the size of a decision. Up to 5,000 slates are compared one by one. Where there
    are more, or other decisions, it takes the best of those that lead for one of twelve linear trades of the two sums.

    Parameters
    ----------
    graph, budget, decisions, names, seed, reward_range, direction, sleepers_seen, cap, logging_floor, floor_arms
        See `armtriage.Policy`.

    References
    ----------
    Combes, Talebi, Proutiere, Lelarge (2015), Combinatorial bandits revisited.

    Examples
    --------
    >>> from armtriage import StochasticEnvironment
    >>> policy, env = ESCB(5, budget=2, seed=7), StochasticEnvironment([0.9, 0.2, 0.8, 0.1, 0.3], 5, seed=7)
    >>> for _ in range(300):
    ...     decision = policy.ask()
    ...     policy.tell(decision, env.rewards(decision.number, decision.arms))
    >>> np.sort(np.argsort(policy.tally.pulls)[-2:])  # what it has played most
    array([0, 2])
    """

    def _all(self) -> list[tuple[int, ...]] | None:
        """Return all decisions, if they are few."""
        slates = self.decisions is None or isinstance(self.decisions, TopS)
        if slates and math.comb(self.n_arms, self.budget) <= _LISTED:
            return list(combinations(range(self.n_arms), self.budget))
        return None

    def _select(self, number: int) -> Ints:
        means, t = self._means(), number + 1
        if (self._counts == 0).any():
            least = self._best(means)
            if (self._counts[least] == 0).any():
                return least
        bonus = 0.5 * (math.log(t) + 4.0 * self.budget * math.log(max(math.log(t), 1.0))) / np.maximum(self._counts, 1)
        known = self._all()
        candidates: list[Any] = known if known is not None else list(self._leading(means, bonus))
        worth = [(means + self._offset)[list(one)].sum() + math.sqrt(bonus[list(one)].sum()) for one in candidates]
        return np.array(candidates[int(np.argmax(worth))], np.int64)

    def _leading(self, means: Floats, bonus: Floats) -> Iterator[Ints]:
        """Yield the decisions that lead where the root of z is replaced by z / 2y + y / 2, for some y."""
        low, high = math.sqrt(bonus.min()), math.sqrt(self.budget * bonus.max())
        for root in np.geomspace(max(low, 1e-12), max(high, 1e-12), _SLOPES):
            yield self._best(means + bonus / (2.0 * root))


class BGCTS(_Counting):
    """BG-CTS: Thompson sampling from normal laws whose variance is boosted, for a regret polynomial in the size.

    Parameters
    ----------
    graph, budget, decisions, names, seed, reward_range, direction, sleepers_seen, cap, logging_floor, floor_arms
        See `armtriage.Policy`.
    excess : float
        The number lambda of the paper, above 0.

    References
    ----------
    Zhang, Combes (2024), Thompson sampling for combinatorial bandits: polynomial regret and mismatched sampling
    paradox.

    Examples
    --------
    >>> BGCTS(5, budget=2, seed=7).ask().arms
    array([0, 1])
    """

    def __init__(
        self,
        graph: FeedbackGraph | int,
        budget: int | None = None,
        *,
        excess: float = 0.01,
        **options: Unpack[SetOptions],
    ) -> None:
        super().__init__(graph, budget, **options)
        self.excess = check_number("excess", excess, positive=True)

    def _boost(self, number: int) -> float:
        """Return 2 g(t), where rewards in [0, 1] have the variance proxy 1/4."""
        log, m = math.log(max(number + 1, math.e)), self.budget
        most = log + (m + 2) * math.log(log) + m / 2 * math.log(1.0 + math.e / self.excess)
        return 2.0 * (1.0 + self.excess) * most / log

    def _select(self, number: int) -> Ints:
        spread = np.sqrt(0.25 * self._boost(number) / np.maximum(self._counts, 1))
        return self._best(self._means() + spread * self._rng(number).standard_normal(self.n_arms))


class CTS3(_Counting):
    """CTS with a single seed: all arms are drawn at the same quantile of their posteriors, so they are lucky together.

    Parameters
    ----------
    graph, budget, decisions, names, seed, reward_range, direction, sleepers_seen, cap, logging_floor, floor_arms
        See `armtriage.Policy`.

    References
    ----------
    Jin, Zhao, Tan, Gu (2026), Avoiding exp(k*) scaling for Thompson sampling in combinatorial semi-bandits: from
    multiple seeds to a single seed. COLT 2026.

    Examples
    --------
    >>> CTS3(5, budget=2, seed=7).ask().arms
    array([0, 1])
    """

    def _select(self, number: int) -> Ints:
        quantile = self._rng(number).random()
        drawn = special.betaincinv(1.0 + self._sums, 1.0 + self._counts - self._sums, quantile)
        return self._best(np.asarray(drawn, np.float64))


class CLSG(_Counting):
    """CL-SG: normal laws with one shared draw for all arms in a round.

    Its regret is of the order of the root of S K T also where arms come and go.

    Parameters
    ----------
    graph, budget, decisions, names, seed, reward_range, direction, sleepers_seen, cap, logging_floor, floor_arms
        See `armtriage.Policy`.
    variance : float
        Variance of an arm's law times its number of rewards.

    Notes
    -----
    The shared draw is the paper's; the constant of its variance is a parameter here, by default that of Agrawal and
    Goyal (2017) for rewards in [0, 1].

    References
    ----------
    Hu, Pan, Huang (2026), Worst-case regret bounds for combinatorial Thompson sampling in sleeping semi-bandits,
    arXiv:2605.09277.

    Examples
    --------
    >>> CLSG(5, budget=2, seed=7).ask().arms
    array([0, 1])
    """

    def __init__(
        self,
        graph: FeedbackGraph | int,
        budget: int | None = None,
        *,
        variance: float = 1.0,
        **options: Unpack[SetOptions],
    ) -> None:
        super().__init__(graph, budget, **options)
        self.variance = check_number("variance", variance, positive=True)

    def _select(self, number: int) -> Ints:
        shared = self._rng(number).standard_normal()
        return self._best(self._means() + shared * np.sqrt(self.variance / np.maximum(self._counts, 1)))


class WindowCUCB(CombUCB1):
    """CUCB on the rewards of the last `window` decisions, where means drift (CUCB-SW): `CombUCB1` that forgets so.

    Parameters
    ----------
    graph, budget, decisions, names, seed, reward_range, direction, sleepers_seen, cap, logging_floor, floor_arms
        See `armtriage.Policy`.
    window : int
        How many decisions it looks back on.

    References
    ----------
    Chen, Wang, Zhao, Zheng (2021), Combinatorial semi-bandit in the non-stationary environment.

    Examples
    --------
    >>> WindowCUCB(5, budget=2, window=1000, seed=7).forget
    1000
    """

    def __init__(
        self,
        graph: FeedbackGraph | int,
        budget: int | None = None,
        *,
        window: int = 2000,
        **options: Unpack[SetOptions],
    ) -> None:
        self.window = check_count("window", window, least=1)
        super().__init__(graph, budget, forget=self.window, **options)
