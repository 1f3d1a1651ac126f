"""ThompsonSampling: play what a draw from the posterior likes best.

Each arm keeps bounds on its distribution function at two levels: below the lower one it is out, above the upper one it
is in, and only the few arms between them are really drawn (see `policies.sampler`).
"""

from __future__ import annotations

from typing import Unpack

import numpy as np
from numpy.typing import NDArray

from armtriage.decisions import DecisionSet
from armtriage.graphs.feedback import FeedbackGraph, GraphArrays
from armtriage.kernels.beta import beta_cdf, beta_draw, beta_tail_bound
from armtriage.kernels.jit import kernel
from armtriage.kernels.order import kth_largest, top_first
from armtriage.kernels.random import uniform
from armtriage.kernels.record import Record
from armtriage.policies.compiled import Kernels, OraclePolicy
from armtriage.policies.eligible import Among
from armtriage.policies.eligible.choosing import believe_draws, choose_by_draws
from armtriage.policies.eligible.rows import Rows
from armtriage.policies.facts import require, within
from armtriage.policies.lost import PATIENCE, as_least
from armtriage.policies.options import Options
from armtriage.policies.sampler import BELOW, FAR, STALE, band, draw, follow, won

__all__ = ["ThompsonSampling"]

_ABOVE = 2.0  # spreads up to the upper level: an arm above it is in without a draw, too many have all drawn anew


class Params(Record, frozen=True):
    """Parameters of the kernels."""

    n_arms: int


class State(Record):
    """Posterior and cut-offs of each arm: u below `out` is no candidate, u above `sure` is certainly chosen."""

    facts = ("wins", "losses", "missed")
    wins: NDArray[np.float64]
    losses: NDArray[np.float64]
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
def _cut(state: State, arm: int) -> None:
    """Compute an arm's cut-offs; for one that is far from the levels a Chernoff bound will do."""
    state.skipped[arm] = 0
    a, b = 1.0 + state.wins[arm], 1.0 + _losses(state, arm)
    rounding = band(a, b)
    above = beta_tail_bound(state.low, a, b)
    if above < FAR:
        state.out[arm], state.sure[arm] = 1.0 - above - rounding, 1.0
        return
    below = beta_tail_bound(1.0 - state.high, b, a)
    if below < FAR:
        state.out[arm], state.sure[arm] = 0.0, below + rounding
        return
    state.out[arm] = beta_cdf(state.low, a, b) - rounding
    state.sure[arm] = beta_cdf(state.high, a, b) + rounding


@kernel
def _draw_all(state: State, luck: np.uint64, arms: NDArray[np.int64]) -> None:
    """Draw every arm, and set the levels around the S-th largest draw."""
    n = state.wins.size
    for a in range(n):
        state.chosen[a] = a
        state.values[a] = draw(uniform(luck, a), state.wins[a], _losses(state, a))
    top_first(state.values, state.chosen, n, arms.size)
    for i in range(arms.size):
        arms[i] = state.chosen[i]
    near = min(n, 2 * arms.size + 8)
    level = kth_largest(state.values, n, arms.size)
    state.centre = level
    state.spread = max(state.spread, 0.5 * (level - kth_largest(state.values, n, near)), 1e-9)
    _set_levels(state)


@kernel
def _set_levels(state: State) -> None:
    """Put the levels on both sides of where the S-th largest draw has been."""
    state.low = max(0.0, state.centre - BELOW * state.spread)
    state.high = min(1.0, state.centre + _ABOVE * state.spread)
    state.waste = 0.0
    for a in range(state.wins.size):
        _cut(state, a)


@kernel
def _settle(state: State, arms: NDArray[np.int64], sure: int, n: int) -> float:
    """Draw the doubtful candidates, `chosen[:n]`, and take the best for the slots after `sure`; return the least.

    Return -1, if more draws pass the upper level than there are slots: cut-offs err on the safe side, so a doubtful
    draw may pass it as well, and a sure arm is then no longer sure to be chosen.
    """
    passed = sure
    for i in range(n):
        a = state.chosen[i]
        state.values[i] = draw(state.luck[i], state.wins[a], _losses(state, a))
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
        _draw_all(state, luck, arms)
        return False
    least = _settle(state, arms, sure, n)
    if least < state.low:
        _draw_all(state, luck, arms)
        return False
    follow(state, least)
    # Drawing everybody anew costs K draws; loose levels cost the doubtful ones. Pay the former for the latter.
    state.waste += n
    if state.waste > 4.0 * n_arms and n > arms.size:
        _set_levels(state)
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
    """Add a win or a loss for each of the first n arms of `seen`; a coin decides for rewards between 0 and 1."""
    for i in range(n):
        a, reward = seen[i], rewards[i]
        # A win moves the posterior up: `sure` stays safe, and so does an `out` of 0. A loss does the opposite.
        if won(luck, a, reward):
            state.wins[a] += 1.0
            safe = state.out[a] <= 0.0
        else:
            state.losses[a] += 1.0
            safe = state.sure[a] >= 1.0
        state.skipped[a] += 1
        if not safe or state.skipped[a] > STALE or state.missed[a] > 0:
            state.missed[a] = 0
            _cut(state, a)


@kernel
def release(params: Params, state: State, graph: GraphArrays, arms: NDArray[np.int64]) -> None:
    """Note that rewards of these arms will not come."""
    for i in range(arms.size):
        state.missed[arms[i]] += 1
        if state.missed[arms[i]] >= PATIENCE:
            _cut(state, arms[i])


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
    for a in range(weights.size):
        weights[a] = beta_draw(luck, a, 1.0 + state.wins[a], 1.0 + _losses(state, a)) + offset


@kernel
def believe(
    params: Params, state: State, number: int, luck: np.uint64, arms: NDArray[np.int64], beliefs: NDArray[np.float64]
) -> None:
    """Write what the draws of the arms chosen follow from."""
    for i in range(arms.size):
        arm = arms[i]
        beliefs[0, i], beliefs[1, i], beliefs[2, i] = uniform(luck, arm), state.wins[arm], _losses(state, arm)


class ThompsonSampling(OraclePolicy):
    """Draw each arm's mean from its Beta posterior, play the S largest draws or the decision of largest sum.

    Use it first on ordinary instances: no horizon, no tuning, and the least regret in practice. It has
    O(sum ln T / gap) regret for independent arms under semi-bandit feedback, but no worst-case guarantee under
    graph feedback, and it is blind to arms that are informative but bad.

    Parameters
    ----------
    graph, budget, decisions, seed, reward_range
        See `armtriage.Policy`. A reward r strictly between 0 and 1 counts as a win with probability r.

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
        **options: Unpack[Options],
    ) -> None:
        super().__init__(graph, budget, decisions=decisions, **options)

    def params(self) -> Params:
        """Return the parameters of the kernels."""
        return Params(self.n_arms)

    def _fill(self, rows: Rows) -> None:
        rows.wins[: self._state.wins.size] = self._state.wins

    def _rebuild(self) -> None:
        wins, losses = self._state.wins, self._state.losses
        within("wins", wins, 0.0, self.tally.counts + self._early())
        require(wins == np.floor(wins), "wins must be whole numbers")
        self._check_tallied(wins + losses)
        within("missed", self._state.missed, 0, self._asked)

    def new_state(self) -> State:
        """Return the state before the first round: uniform posteriors, and levels that rule nobody in or out."""
        n = self.n_arms
        return State(
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
