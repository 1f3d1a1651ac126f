"""HierarchicalElimination: the paper's Algorithms 3 and 4, printed, repaired and tight.

In stage h = 1, 2, ... of a round, with the regression of stage h: (1) arms whose width exceeds 2^-h are explored;
(2) arms that are surely among the best are confirmed; (3) arms that surely are not are eliminated; the others go on.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple, Unpack

import numpy as np

from armtriage._arguments import LONGEST, check_choice, check_count, check_optional, check_probability
from armtriage.kernels.jit import kernel
from armtriage.kernels.order import best_arms, inner, kth_largest, top_first
from armtriage.kernels.record import Floats, Ints, Record, blank, fact
from armtriage.kernels.ridge import Ridge, add, forms, new_ridge, refit, shrink, solve
from armtriage.policies.changing import locked
from armtriage.policies.compiled import Kernels, RidgePolicy
from armtriage.policies.options import ContextOptions

PAPER, REPAIRED, TIGHT = range(3)
VARIANTS = ("paper", "repaired", "tight")
OPEN, EXPLORED, CONFIRMED, FILLED, ELIMINATED = range(5)
_NOWHERE = -1


class Params(Record, frozen=True):
    """Parameters of the kernels."""

    variant: int
    stages: int  # H
    multiple: float  # of the norm of a context, for its width


class State(Record):
    """A regression for each stage (and one of all rewards, if tight), the fate of each arm in this round, scratch."""

    ridge: Ridge = fact()
    fate: Ints = fact(OPEN, ELIMINATED)  # (K,) OPEN, EXPLORED, ...
    stage: Ints = fact(0, "stages")  # (K,) at which that happened, from 1
    home: Ints  # (K,) the regression that gets the reward of a chosen arm, or NOWHERE
    active: Ints  # (K,) the arms still in question lead, ascending; then the arrays beside it:
    estimate: Floats
    width: Floats
    low: Floats  # (K,) largest lower and least upper end so far in this round; by arm, tight only
    high: Floats
    values: Floats  # (K,)
    order: Ints  # (K,)
    places: Ints  # (S,)
    scratch: Floats  # (K,)


@kernel
def _put(state: State, arm: int, fate: int, stage: int, home: int) -> None:
    state.fate[arm], state.stage[arm], state.home[arm] = fate, stage, home


@kernel
def _keep_open(state: State, n: int) -> int:
    """Drop decided arms from the first n active ones; return how many are left."""
    left = 0
    for i in range(n):
        arm = state.active[i]
        state.active[left], state.estimate[left], state.width[left] = arm, state.estimate[i], state.width[i]
        left += state.fate[arm] == OPEN
    return left


@kernel
def _explore(state: State, variant: int, n: int, free: int, stage: int) -> int:
    """Choose arms of width above 2^-h, step (1); return how many.

    If there are too many, the choice may not look at the rewards of this stage: it takes the widest or, if tight, from
    the second stage on those of largest upper end in the stages before.
    """
    wide, limit, by_width = 0, 0.5**stage, variant != TIGHT or stage == 1
    for i in range(n):
        arm = state.active[i]
        state.values[wide], state.order[wide] = state.width[i] if by_width else state.high[arm], arm
        wide += state.width[i] > limit
    if wide <= free:
        for i in range(wide):
            _put(state, state.order[i], EXPLORED, stage, stage - 1)
        return wide
    widest = state.places[:free]
    best_arms(state.values[:wide], state.scratch, widest)
    for i in range(free):
        _put(state, state.order[widest[i]], EXPLORED, stage, stage - 1)
    return free


@kernel
def _benchmark(state: State, variant: int, n: int, k: int) -> float:
    """Return the estimate of the k-th arm: by upper bound as printed, or by estimate, which the proof needs."""
    if variant == REPAIRED:
        for i in range(n):
            state.values[i] = state.estimate[i]
        return kth_largest(state.values, n, k)
    for i in range(n):
        state.values[i], state.order[i] = state.estimate[i] + state.width[i], i
    top_first(state.values, state.order, n, k)
    last = 0
    for i in range(1, k):
        value, least = state.values[i], state.values[last]
        if value < least or (value == least and state.order[i] > state.order[last]):
            last = i
    return state.estimate[state.order[last]]  # type: ignore[no-any-return]


@kernel
def _judge_by_slack(state: State, variant: int, n: int, k: int, stage: int) -> int:
    """Confirm and eliminate, steps (2) and (3), with the slack 2^-h; return how many were confirmed."""
    benchmark, unit = _benchmark(state, variant, n, k), 0.5**stage
    home = stage - 1 if variant == PAPER else _NOWHERE
    confirmed = 0
    for i in range(n):
        if state.estimate[i] > benchmark + 4.0 * unit:
            _put(state, state.active[i], CONFIRMED, stage, home)
            confirmed += 1
        elif state.estimate[i] < benchmark - 2.0 * unit:
            _put(state, state.active[i], ELIMINATED, stage, _NOWHERE)
    return confirmed


@kernel
def _judge_by_bounds(state: State, n: int, k: int, stage: int, stages: int) -> int:
    """Confirm and eliminate with the interval of each arm; return how many were confirmed.

    The interval is what the stages of this round leave together. A confirmed arm was chosen by the rewards of this
    stage and those before it, so its own reward may go to the next one.
    """
    low, high = state.low, state.high
    for i in range(n):
        arm, middle, half = state.active[i], state.estimate[i], state.width[i]
        low[arm], high[arm] = max(low[arm], middle - half), min(high[arm], middle + half)
        if low[arm] > high[arm]:
            low[arm], high[arm] = middle - half, middle + half
    for i in range(n):
        state.values[i] = low[state.active[i]]
    kth_low = kth_largest(state.values, n, k)
    for i in range(n):
        state.values[i] = high[state.active[i]]
    next_high = kth_largest(state.values, n, k + 1)
    home = stage if stage < stages else _NOWHERE
    confirmed = 0
    for i in range(n):
        arm = state.active[i]
        if low[arm] > next_high:
            _put(state, arm, CONFIRMED, stage, home)
            confirmed += 1
        elif high[arm] < kth_low:
            _put(state, arm, ELIMINATED, stage, _NOWHERE)
    return confirmed


@kernel
def _fill(params: Params, state: State, contexts: Floats, n: int, free: int) -> None:
    """Choose the rest of the decision among the arms that no stage could part, by estimate."""
    ridge, model = state.ridge, params.stages
    if params.variant == TIGHT:
        solve(ridge, model, 1.0)
    for i in range(n):
        arm = state.active[i]
        if params.variant == TIGHT:
            state.estimate[i] = inner(contexts[arm], ridge.weights[model])
        state.values[i], state.order[i] = state.estimate[i], arm
    top_first(state.values, state.order, n, free)
    for i in range(free):
        _put(state, state.order[i], FILLED, 0, _NOWHERE)


@kernel
def select(
    params: Params, state: State, contexts: Floats, number: int, luck: np.uint64, arms: Ints, notes: Ints
) -> None:
    """Choose the arms of a round stage by stage; `notes` says which regression learns from each."""
    n, free, variant = contexts.shape[0], arms.size, params.variant
    for arm in range(n):
        _put(state, arm, OPEN, 0, _NOWHERE)
        state.active[arm], state.low[arm], state.high[arm] = arm, -np.inf, np.inf
    for stage in range(1, params.stages + 1):
        refit(state.ridge, stage - 1)
        forms(state.ridge, stage - 1, contexts, state.active, n, state.estimate, state.width)
        for i in range(n):
            state.width[i] = params.multiple * math.sqrt(state.width[i])
        free -= _explore(state, variant, n, free, stage)
        if free == 0:
            break
        n = _keep_open(state, n)
        if variant == TIGHT:
            free -= _judge_by_bounds(state, n, free, stage, params.stages)
        else:
            free -= _judge_by_slack(state, variant, n, free, stage)
        n = _keep_open(state, n)
        if free == 0:
            break
    if free > 0:
        _fill(params, state, contexts, n, free)
    place = 0
    for arm in range(contexts.shape[0]):
        if (state.fate[arm] != OPEN) & (state.fate[arm] != ELIMINATED):
            arms[place], notes[place] = arm, state.home[arm]
            place += 1


@kernel
def update(params: Params, state: State, contexts: Floats, notes: Ints, rewards: Floats, n: int) -> None:
    """Give each reward to the regression of its stage, and all of them to the one that orders the fill."""
    for i in range(n):
        if (notes[i] >= 0) & (notes[i] < params.stages):
            add(state.ridge, notes[i], contexts[i], rewards[i])
            shrink(state.ridge, notes[i], contexts[i], 1.0)
        if params.variant == TIGHT:
            add(state.ridge, params.stages, contexts[i], rewards[i])


class StageTriage(NamedTuple):
    """How the last decision of a `HierarchicalElimination` came about; arms ascending.

    Examples
    --------
    >>> from armtriage import HierarchicalElimination
    >>> policy = HierarchicalElimination(3, dimension=1, budget=1, horizon=100)
    >>> policy.ask([[0.1], [0.9], [0.5]]).arms
    array([1])
    >>> policy.triage.explored, policy.triage.stages
    (array([1]), array([0, 1, 0]))
    """

    explored: Ints  # chosen because little is known of them
    confirmed: Ints  # chosen because they are surely among the best
    filled: Ints  # chosen by estimate, after the last stage
    eliminated: Ints  # surely not among the best
    stages: Ints  # (K,) at which an arm was explored, confirmed or eliminated, from 1; else 0


class HierarchicalElimination(RidgePolicy):
    """Sort the arms again each round, in stages of ever finer resolution that do not share rewards.

    The policy with the best known worst case for linear rewards: regret of order sqrt(d S T) up to logarithms, where
    `C2UCB` has d sqrt(S T). It needs noise that is independent over arms and rounds, and contexts that do not depend
    on past rewards. At ordinary sizes it explores for the whole horizon, and `C2UCB` and `LinearThompsonSampling` lose
    far less; see the page on contextual slates.

    Parameters
    ----------
    n_arms, dimension, budget
        See `armtriage.ContextualPolicy`.
    horizon : int
        Rounds it will be asked for (T): it sets the number of stages, ceil(log2 sqrt(S T)), and the widths.
    delta : float
        Probability that a width may fail in any round or stage, if tight. The printed width has its own: at most H / T.
    variant : {"tight", "repaired", "paper"}
        ``"paper"``: Algorithms 3 and 4 to the letter. ``"repaired"``: the benchmark is the k-th largest estimate and a
        stage learns from width-selected pulls only, which the proof needs. ``"tight"``: repaired, with a tight
        width, own bounds of each arm in place of the slack 2^-h, and confirmed pulls that teach the next stage.
    noise_scale : float, optional
        Sub-Gaussian scale of the noise, if tight; by default half the width of `reward_range`, which always holds.
    names, reward_range, direction, sleepers_seen, cap, logging_floor, floor_arms, context_bound, features
        See `armtriage.ContextualPolicy`.
    seed : int, optional
        Of no effect here: the policy draws nothing at random.

    References
    ----------
    Wen, Han, Zhou (2025), Optimal arm elimination algorithms for combinatorial bandits, Algorithms 3 and 4.

    Examples
    --------
    >>> from armtriage import HierarchicalElimination, LinearEnvironment, simulate
    >>> env = LinearEnvironment([0.6, 0.3], "sphere", n_arms=10, reward="uniform", half_width=0.1, seed=7)
    >>> policy = HierarchicalElimination(10, 2, budget=2, horizon=5000, noise_scale=env.noise_scale)
    >>> bool(simulate(policy, env, horizon=5000).mean[-1] < 200)
    True
    """

    kernels = Kernels(select, update)

    def __init__(
        self,
        n_arms: int,
        dimension: int,
        budget: int,
        *,
        horizon: int,
        delta: float = 0.01,
        variant: str = "tight",
        noise_scale: float | None = None,
        **options: Unpack[ContextOptions],
    ) -> None:
        super().__init__(n_arms, dimension, budget, **options)
        self.horizon = check_count("horizon", horizon, 1, LONGEST)
        self.delta = check_probability("delta", delta)
        self.variant = check_choice("variant", variant, VARIANTS)
        self.noise_scale = check_optional("noise_scale", noise_scale)
        if noise_scale is not None and variant != "tight":
            raise ValueError(f"noise_scale is for variant='tight' and must be None here, got {noise_scale!r}")

    @property
    def stages(self) -> int:
        """Number of stages (H in the paper)."""
        return max(1, math.ceil(0.5 * math.log2(self.budget * self.horizon)))

    @property
    @locked
    def triage(self) -> StageTriage:  # type: ignore[override] # of one round, not for good
        """How the last decision came about; nothing before the first."""
        explored, confirmed, filled, eliminated = (
            np.flatnonzero(self._state.fate == fate) for fate in (EXPLORED, CONFIRMED, FILLED, ELIMINATED)
        )
        return StageTriage(explored, confirmed, filled, eliminated, self._state.stage.copy())

    def _quantities(self) -> dict[str, Any]:
        return super()._quantities() | {"stages": self.stages + 1}

    def params(self) -> Params:
        """Return the parameters for the kernels."""
        union = 2.0 * self.n_arms * self.horizon
        if self.variant == "tight":
            noise = self.noise_in_units(self.noise_scale)
            multiple = noise * math.sqrt(2.0 * (math.log(union * self.stages) - math.log(self.delta))) + 1.0
        else:
            multiple = 2.0 * (1.0 + math.sqrt(math.log(union)))
        return Params(VARIANTS.index(self.variant), self.stages, multiple)

    def new_state(self) -> State:
        """Return the state of a policy that has learned nothing."""
        ridge = new_ridge(self.stages + (self.variant == "tight"), self.dimension, 1.0)
        return blank(State, self.n_arms, ridge=ridge, places=np.zeros(self.budget, np.int64))
