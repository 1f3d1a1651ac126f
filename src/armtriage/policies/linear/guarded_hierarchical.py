"""GuardedLinear with hierarchical elimination where the account is full, for the bound of order sqrt(d S T).

The bound needs two kinds of rewards that know nothing of each other. Those of admitted rounds teach the proposer, the
ellipsoid and the account, which therefore decide without any other which rounds are forced. Those of forced rounds
teach the stages, and nobody else. What is learned from the first may guide the stages; nothing goes back.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from armtriage.kernels.jit import kernel
from armtriage.kernels.order import best_arms
from armtriage.kernels.random import uniform
from armtriage.kernels.record import Record
from armtriage.kernels.ridge import Ridge, add, new_ridge, shrink
from armtriage.policies.compiled import Kernels
from armtriage.policies.facts import require, within
from armtriage.policies.linear import hierarchical
from armtriage.policies.linear.adaptive import Fit, adapt, schedule_open, settle_open
from armtriage.policies.linear.guarded_linear import GuardedLinear, Params, find_widths, learn_one
from armtriage.policies.linear.joint import Joint, book_slate
from armtriage.policies.linear.pricing import Book, Boxes, PriceParams, find_boxes, price_of, try_slate
from armtriage.policies.linear.repeated import Repeated, Squares, note_change
from armtriage.policies.rewards import Told

__all__ = ["GuardedHierarchical"]

_MOST_STAGES = 20  # for 10^12 pulls in forced rounds
_ADMITTED, _NOWHERE = 0, -1
_FAR = 1e100


class State(Record):
    """What `GuardedLinear` keeps, of admitted rounds, and the stages, of forced ones."""

    facts = ("ridge", "fit", "book", "joint", "repeated", "own", "sure", "staged", "most")
    ridge: Ridge
    fit: Fit
    book: Book
    joint: Joint
    repeated: Repeated
    own: Squares
    sure: Squares
    staged: hierarchical.State
    boxes: Boxes
    arms: NDArray[np.int64]  # (K,)
    values: NDArray[np.float64]  # (K,)
    squares: NDArray[np.float64]  # (K,)
    most: int  # candidates that a round had
    aside: bool  # whether what is told or lost now belongs to a forced round


@kernel
def _stages_of(size: int, forced: int) -> int:
    return min(max(1, math.ceil(0.5 * math.log2(size * forced))), _MOST_STAGES)


@kernel
def _multiple(params: PriceParams, n_arms: int, stages: int, rounds: int) -> float:
    """Return by how much of its norm an estimate of a stage may be wrong, in all rounds, stages and arms."""
    union = math.log(2.0 * n_arms * stages) + math.log(float(rounds)) + math.log(rounds + 1.0)
    return params.noise * math.sqrt(2.0 * (union - params.log_delta)) + params.norm_bound


@kernel
def allowance_of_stages(params: PriceParams, n_arms: int, rounds: int) -> float:
    """Return F: what elimination in stages can lose in so many rounds."""
    pulls, d = params.budget * float(rounds), params.dimension
    grown = d * math.log1p(pulls / d)
    multiple = _multiple(params, n_arms, _stages_of(params.budget, rounds), rounds)
    staged = 30.6 * multiple * math.sqrt(grown * pulls) + 17.4 * grown * params.budget + 12.0 * math.sqrt(pulls)
    return min((params.high - params.low) * pulls, staged)


@kernel
def _force(params: PriceParams, state: State, contexts: NDArray[np.float64], arms: NDArray[np.int64]) -> None:
    """Play a round of elimination in stages, from what the boxes leave open."""
    staged, boxes, n, free = state.staged, state.boxes, contexts.shape[0], arms.size
    hierarchical.begin(staged, n)
    for arm in range(n):
        staged.low[arm], staged.high[arm] = boxes.lower[arm], boxes.upper[arm]
        staged.estimate[arm], staged.width[arm] = 0.0, np.inf
    stages = _stages_of(params.budget, state.book.forced)
    multiple = _multiple(params, n, stages, state.book.forced)
    free -= hierarchical.judge_by_bounds(staged, n, free, 0, stages)
    n = hierarchical.keep_open(staged, n)
    if free > 0:
        n, free = hierarchical.run_stages(staged, contexts, hierarchical.TIGHT, stages, multiple, n, free)
    if free > 0:
        hierarchical.fill_by(staged, boxes.estimates, n, free)


@kernel
def select(
    params: Params,
    state: State,
    contexts: NDArray[np.float64],
    number: int,
    luck: np.uint64,
    arms: NDArray[np.int64],
    notes: NDArray[np.int64],
) -> None:
    """Choose as `GuardedLinear` does, or in stages; `notes` says who learns from each arm."""
    fit, boxes, price, n = state.fit, state.boxes, params.price, contexts.shape[0]
    values, squares = state.values[:n], state.squares[:n]
    again = find_widths(params, state, contexts)
    width = uniform(luck, 0) * fit.noise * math.sqrt(math.log(number + 2.0))
    for arm in range(n):
        values[arm] += width * math.sqrt(squares[arm])
    best_arms(values, squares, arms)
    reach = find_boxes(price, boxes, state.book, state.ridge.log_det[0], n)
    state.most = max(state.most, n)
    allowed = price.factor * allowance_of_stages(price, state.most, number + 1)
    cost = try_slate(price, boxes, state.book, allowed, n, arms)
    if cost >= 0.0:
        for i in range(arms.size):
            notes[i] = _ADMITTED
    else:
        state.book.forced += 1
        _force(price, state, contexts, arms)
        place = 0
        for arm in range(n):
            if hierarchical.is_chosen(state.staged, arm):
                arms[place], home = arm, state.staged.home[arm]
                notes[place] = home + 1 if home >= 0 else _NOWHERE
                place += 1
        cost = price_of(boxes, n, arms)
        state.book.total += cost
    book_slate(state.joint, boxes, state.ridge, contexts, reach, price.noise, cost, number, again)


@kernel
def update(
    params: Params,
    state: State,
    contexts: NDArray[np.float64],
    notes: NDArray[np.int64],
    rewards: NDArray[np.float64],
    n: int,
) -> None:
    """Give rewards of admitted rounds to the sums, and those of forced ones to their stages."""
    stages = state.staged.ridge
    for i in range(n):
        if notes[i] == _ADMITTED:
            learn_one(params, state, contexts[i], rewards[i])
        elif notes[i] > 0:
            add(stages, notes[i] - 1, contexts[i], rewards[i])
            shrink(stages, notes[i] - 1, contexts[i], 1.0)
    if adapt(params.fit, state.fit, state.ridge):
        note_change(state.own)


@kernel
def schedule(params: Params, state: State, contexts: NDArray[np.float64]) -> None:
    """Note that rewards of these contexts are on their way."""
    if not state.aside:
        schedule_open(state.fit, state.ridge, contexts)


@kernel
def release(params: Params, state: State, contexts: NDArray[np.float64], told: int) -> None:
    """Note that the first `told` of the rewards of these contexts have come, and the others will not."""
    if not state.aside:
        settle_open(state.fit, contexts, told)


class GuardedHierarchical(GuardedLinear):
    """What `GuardedLinear` with ``fallback="hierarchical"`` makes: see there."""

    kernels = Kernels(select, update, schedule, release)

    _shown_name = "GuardedLinear"

    def new_state(self) -> Any:
        """Return the state of a policy that has learned nothing."""
        plain = super().new_state()._asdict()
        staged = hierarchical.new_state(self.n_arms, self.budget, new_ridge(_MOST_STAGES, self.dimension, 1.0))
        return State(**plain, staged=staged, most=0, aside=False)

    def _grow(self) -> None:
        old = self._cached_state
        super()._grow()
        if old is not None:
            new = self._cached_state
            new.most = old.most
            self._cached_state = new._replace(staged=new.staged._replace(ridge=old.staged.ridge))

    def _allowance(self, rounds: int) -> float:
        most = max(int(self._state.most), 1)
        return float(allowance_of_stages(self._params.price, most, rounds)) if rounds else 0.0

    def _is_admitted(self, number: int) -> bool:
        return not self._notes[number].any()

    def _schedule(self, arms: NDArray[np.int64], contexts: NDArray[np.float64]) -> None:  # type: ignore[override]
        number = self._asked - 1
        decision = self._open[number]
        own = self._chosen if decision.eligible is None else decision.eligible[self._chosen]
        if not np.array_equal(arms, own):
            # Chosen by somebody else, who may have seen anything: nobody learns from it.
            self._notes[number] = np.full(arms.size, _NOWHERE)
        self._state.aside = not self._is_admitted(number)
        super()._schedule(arms, contexts)

    def _settle(self, told: Told) -> None:
        self._state.aside = not self._is_admitted(told.number)
        super()._settle(told)

    def _teach(self, number: int, arms: NDArray[np.int64], rewards: NDArray[np.float64]) -> None:
        self._state.aside = not self._is_admitted(number)
        super()._teach(number, arms, rewards)

    def _pulls_without_reward(self) -> int:
        open_now = ((number, one) for number, one in self._open.items() if self._is_admitted(number))
        return sum(one.arms.size - len(self._parts.get(number, ())) for number, one in open_now)

    _largest_note = _MOST_STAGES

    def _rebuild(self) -> None:
        super()._rebuild()
        state = self._state
        ridge = state.staged.ridge
        for name, array in ridge._asdict().items():
            if ridge.is_fact(name) and name != "counts":
                within(name, array, -_FAR, _FAR)
        within("rewards of a stage", ridge.counts[:, 0], 0, self.budget * self._asked)
        within("whether a stage is stale", ridge.counts[:, 1], 0, 1)
        within("fate", state.staged.fate, hierarchical.OPEN, hierarchical.ELIMINATED)
        within("stage", state.staged.stage, 0, _MOST_STAGES)
        within("most", state.most, 0, self.n_arms)
        for notes in self._notes.values():
            require(self._all_or_none(notes), "notes of a decision must all be of an admitted round, or none")

    @staticmethod
    def _all_or_none(notes: NDArray[np.int64]) -> bool:
        return bool((notes == _ADMITTED).all() or (notes != _ADMITTED).all())
