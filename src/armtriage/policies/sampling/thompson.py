"""ThompsonSampling: play what a draw from the posterior likes best.

Each arm keeps bounds on its distribution function at two levels: below the lower one it is out, above the upper one it
is in, and only the few arms between them are really drawn (see `policies.sampler`).
"""

from __future__ import annotations

from typing import Unpack

import numpy as np
from numpy.typing import NDArray

from armtriage._arguments import check_choice
from armtriage.decisions import DecisionSet
from armtriage.graphs.feedback import FeedbackGraph, GraphArrays
from armtriage.kernels.beta import beta_cdf, beta_draws, beta_tail_bound
from armtriage.kernels.jit import kernel
from armtriage.kernels.order import kth_largest, top_first
from armtriage.kernels.random import uniform
from armtriage.kernels.record import Record
from armtriage.policies.compiled import Kernels, OraclePolicy
from armtriage.policies.eligible import Among, Rules
from armtriage.policies.eligible.choosing import believe_draws, choose_by_draws
from armtriage.policies.eligible.rows import Rows
from armtriage.policies.facts import require, within
from armtriage.policies.lost import PATIENCE, as_least
from armtriage.policies.options import Options
from armtriage.policies.prior import Prior, check_prior, starts_at
from armtriage.policies.sampler import BELOW, FAR, FRACTIONAL, STALE, band, draw, follow, gain, posterior, scaled

__all__ = ["ThompsonSampling"]

_ABOVE = 2.0  # spreads up to the upper level: an arm above it is in without a draw, too many have all drawn anew


class Params(Record, frozen=True):
    """Parameters of the kernels."""

    n_arms: int
    coin: bool  # whether rewards between 0 and 1 are made 0 or 1
    prior_wins: float
    prior_losses: float


class State(Record):
    """Posterior and cut-offs of each arm: u below `out` is no candidate, u above `sure` is certainly chosen."""

    facts = ("wins", "losses", "between", "missed")
    wins: NDArray[np.float64]  # sums of rewards
    losses: NDArray[np.float64]  # and of what they lack of 1
    between: NDArray[np.float64]  # sums of r (1 - r)
    missed: NDArray[np.int64]  # rewards in a row that did not come
    out: NDArray[np.float64]
    sure: NDArray[np.float64]
    skipped: NDArray[np.uint8]  # rewards since the cut-offs were computed
    chosen: NDArray[np.int64]
    values: NDArray[np.float64]
    luck: NDArray[np.float64]
    low: float  # levels
    high: float
    centre: float  # of the S-th largest draw
    spread: float  # around it
    waste: float  # draws that loose levels have cost


@kernel
def _losses(state: State, arm: int) -> float:
    """Return an arm's losses, with what lost rewards count for."""
    return state.losses[arm] + as_least(state.missed[arm])  # type: ignore[no-any-return]


@kernel
def _posterior(params: Params, state: State, arm: int) -> tuple[float, float, float]:
    wins, between = state.wins[arm], state.between[arm]
    return posterior(wins, _losses(state, arm), between, params.prior_wins, params.prior_losses)


@kernel
def _draw(params: Params, state: State, arm: int, u: float) -> float:
    """Return an arm's draw with this luck."""
    least, a, b = _posterior(params, state, arm)
    return draw(u, least, a, b)


@kernel
def _cut(params: Params, state: State, arm: int) -> None:
    """Compute an arm's cut-offs; for one that is far from the levels a Chernoff bound will do."""
    state.skipped[arm] = 0
    least, a, b = _posterior(params, state, arm)
    low, high = scaled(state.low, least), scaled(state.high, least)
    rounding = band(a, b)
    above = beta_tail_bound(low, a, b)
    if above < FAR:
        state.out[arm], state.sure[arm] = 1.0 - above - rounding, 1.0
        return
    below = beta_tail_bound(1.0 - high, b, a)
    if below < FAR:
        state.out[arm], state.sure[arm] = 0.0, below + rounding
        return
    state.out[arm] = beta_cdf(low, a, b) - rounding
    state.sure[arm] = beta_cdf(high, a, b) + rounding


@kernel
def _draw_all(params: Params, state: State, luck: np.uint64, arms: NDArray[np.int64]) -> None:
    """Draw every arm, and set the levels around the S-th largest draw."""
    n = state.wins.size
    for a in range(n):
        state.chosen[a] = a
        state.values[a] = _draw(params, state, a, uniform(luck, a))
    top_first(state.values, state.chosen, n, arms.size)
    for i in range(arms.size):
        arms[i] = state.chosen[i]
    near = min(n, 2 * arms.size + 8)
    level = kth_largest(state.values, n, arms.size)
    state.centre = level
    state.spread = max(state.spread, 0.5 * (level - kth_largest(state.values, n, near)), 1e-9)
    _set_levels(params, state)


@kernel
def _set_levels(params: Params, state: State) -> None:
    """Put the levels on both sides of where the S-th largest draw has been."""
    state.low = max(0.0, state.centre - BELOW * state.spread)
    state.high = min(1.0, state.centre + _ABOVE * state.spread)
    state.waste = 0.0
    for a in range(state.wins.size):
        _cut(params, state, a)


@kernel
def _settle(params: Params, state: State, arms: NDArray[np.int64], sure: int, n: int) -> float:
    """Draw the doubtful candidates, `chosen[:n]`, and take the best for the slots after `sure`; return the least.

    Return -1, if more draws pass the upper level than there are slots: cut-offs err on the safe side, so a doubtful
    draw may pass it as well, and a sure arm is then no longer sure to be chosen.
    """
    passed = sure
    for i in range(n):
        a = state.chosen[i]
        state.values[i] = _draw(params, state, a, state.luck[i])
        passed += state.values[i] > state.high
    if sure > 0 and passed > arms.size:
        return -1.0
    k = arms.size - sure
    top_first(state.values, state.chosen, n, k)
    least = state.high
    for i in range(k):
        arms[sure + i] = state.chosen[i]
        least = min(least, state.values[i])
    return least


@kernel
def select(
    params: Params, state: State, graph: GraphArrays, number: int, luck: np.uint64, arms: NDArray[np.int64]
) -> bool:
    """Fill `arms` with the S largest posterior draws; never committed."""
    sure, n, n_arms = 0, 0, state.wins.size
    for a in range(n_arms):
        u = uniform(luck, a)
        if u > state.out[a]:
            if u > state.sure[a]:
                if sure == arms.size:
                    sure += 1
                    break
                arms[sure] = a
                sure += 1
            else:
                state.chosen[n] = a
                state.luck[n] = u
                n += 1
    if sure > arms.size or sure + n < arms.size:
        _draw_all(params, state, luck, arms)
        return False
    least = _settle(params, state, arms, sure, n)
    if least < state.low:
        _draw_all(params, state, luck, arms)
        return False
    follow(state, least)
    # Drawing everybody anew costs K draws; loose levels cost the doubtful ones. Pay the former for the latter.
    state.waste += n
    if state.waste > 4.0 * n_arms and n > arms.size:
        _set_levels(params, state)
    return False


@kernel
def update(
    params: Params,
    state: State,
    graph: GraphArrays,
    number: int,
    luck: np.uint64,
    seen: NDArray[np.int64],
    rewards: NDArray[np.float64],
    n: int,
    scheduled: bool,
) -> None:
    """Add the rewards of the first n arms of `seen`."""
    for i in range(n):
        a = seen[i]
        reward = gain(params.coin, luck, a, rewards[i])
        state.wins[a] += reward
        state.losses[a] += 1.0 - reward
        state.between[a] += reward * (1.0 - reward)
        # A win moves the posterior up: `sure` stays safe, and so does an `out` of 0. A loss does the opposite. What is
        # between may do either.
        mixed = state.between[a] > 0.0
        safe = (state.out[a] <= 0.0 or (reward <= 0.0 and not mixed)) and (
            state.sure[a] >= 1.0 or (reward > 0.0 and not mixed)
        )
        state.skipped[a] += 1
        if not safe or state.skipped[a] > STALE or state.missed[a] > 0:
            state.missed[a] = 0
            _cut(params, state, a)


@kernel
def release(params: Params, state: State, graph: GraphArrays, arms: NDArray[np.int64]) -> None:
    """Note that rewards of these arms will not come."""
    for i in range(arms.size):
        state.missed[arms[i]] += 1
        if state.missed[arms[i]] >= PATIENCE:
            _cut(params, state, arms[i])


@kernel
def weigh(
    params: Params,
    state: State,
    number: int,
    luck: np.uint64,
    size: int,
    offset: float,
    weights: NDArray[np.float64],
) -> None:
    """Draw every arm; where an oracle needs all of them, what a draw costs is what a round costs."""
    least, wins, losses = np.empty(weights.size), state.values, state.luck
    for a in range(weights.size):
        least[a], wins[a], losses[a] = _posterior(params, state, a)
    beta_draws(luck, wins, losses, weights)
    for a in range(weights.size):
        weights[a] = least[a] + (1.0 - least[a]) * weights[a] + offset


@kernel
def believe(
    params: Params, state: State, number: int, luck: np.uint64, arms: NDArray[np.int64], beliefs: NDArray[np.float64]
) -> None:
    """Write what the draws of the arms chosen follow from."""
    for i in range(arms.size):
        beliefs[0, i] = uniform(luck, arms[i])
        beliefs[1, i], beliefs[2, i], beliefs[3, i] = _posterior(params, state, arms[i])


class ThompsonSampling(OraclePolicy):
    """Draw each arm's mean from its Beta posterior, play the S largest draws or the decision of largest sum.

    Use it first on ordinary instances: no horizon, no tuning, and the least regret in practice. It has
    O(sum ln T / gap) regret for independent arms under semi-bandit feedback, but no worst-case guarantee under
    graph feedback, and it is blind to arms that are informative but bad.

    Parameters
    ----------
    graph, budget, decisions, names, seed, reward_range, direction, sleepers_seen
        See `armtriage.Policy`.
    prior : {"uniform"} or tuple of float
        What is believed of an arm that nobody has seen: a uniform law of its mean, or Beta(a, b).
    fractional : {"exact", "coin"}
        What becomes of a reward r strictly between 0 and 1. By default the posterior follows mean and variance of such
        rewards, so that quiet ones are recognised. As published it counts as 1 with probability r, and else as 0. For
        rewards of 0 and 1 both are the same.

    References
    ----------
    Wang, Chen (2018), Thompson sampling for combinatorial semi-bandits, Algorithm 1.

    Examples
    --------
    >>> from armtriage import FeedbackGraph
    >>> policy = ThompsonSampling(FeedbackGraph.semi_bandit(3), budget=1, seed=7)
    >>> for _ in range(100):
    ...     decision = policy.ask()
    ...     policy.tell(decision, decision.arms == 2)
    >>> policy.ask().arms
    array([2])
    """

    kernels = Kernels(select, update, release=release, weigh=weigh, believe=believe)
    among = Among(choose_by_draws, believe_draws, draws=True)
    draws = True
    learns_at_once = True

    def __init__(
        self,
        graph: FeedbackGraph | int,
        budget: int | None = None,
        *,
        decisions: DecisionSet | None = None,
        prior: Prior = "uniform",
        fractional: str = "exact",
        **options: Unpack[Options],
    ) -> None:
        super().__init__(graph, budget, decisions=decisions, **options)
        self.prior = check_prior("prior", prior, learned=False)
        self.fractional = check_choice("fractional", fractional, FRACTIONAL)

    def params(self) -> Params:
        """Return the parameters of the kernels."""
        return Params(self.n_arms, self.fractional == "coin", *starts_at(self.prior))

    def _rules(self) -> Rules:
        return Rules(self._params, self.budget, coin=self.fractional == "coin", prior=starts_at(self.prior))

    def _fill(self, rows: Rows) -> None:
        state, n = self._state, self._state.wins.size
        rows.wins[:n], rows.told_between[:n] = state.wins, state.between

    def _rebuild(self) -> None:
        state, counts = self._state, self.tally.counts + self._early()
        within("wins", state.wins, 0.0, counts)
        within("losses", state.losses, 0.0, counts)
        within("between", state.between, 0.0, counts / 4.0)
        off = np.abs(state.wins + state.losses - counts)
        require(off <= 1e-9 * (1.0 + counts), "wins and losses must be those of the tally")
        within("missed", state.missed, 0, self._asked)

    def new_state(self) -> State:
        """Return the state before the first round: uniform posteriors, and levels that rule nobody in or out."""
        n = self.n_arms
        return State(
            np.zeros(n),
            np.zeros(n),
            np.zeros(n),
            np.zeros(n, np.int64),
            np.zeros(n),
            np.ones(n),
            np.zeros(n, np.uint8),
            np.zeros(n, np.int64),
            np.zeros(n),
            np.zeros(n),
            low=0.0,
            high=1.0,
            centre=1.0,
            spread=0.0,
            waste=0.0,
        )
