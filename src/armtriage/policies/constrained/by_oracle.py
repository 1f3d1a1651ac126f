"""Elimination by questions to an oracle: the default of `ConstrainedElimination`, for families too large to list."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from armtriage._arguments import LONGEST, check_arms
from armtriage.decisions import DecisionSet
from armtriage.graphs.feedback import FeedbackGraph, GraphArrays
from armtriage.intervals import BERNSTEIN, MIXTURE, interval
from armtriage.kernels.jit import kernel
from armtriage.kernels.record import Floats, Ints, Record
from armtriage.policies.evidence import PATIENCE
from armtriage.policies.facts import require, restore_arrays, with_later, within

Flags = NDArray[np.bool_]
Status = NDArray[np.uint8]

UNDECIDED, CONFIRMED, ELIMINATED = range(3)
GUARD = 1e-9
"""By what share two values must differ to count as different: sums in another order do by less."""
_STRAYS = 8
"""After so many arms that left one by one, all are looked at: it costs less than as many questions again."""


class Limits(NamedTuple):
    """What the intervals need; `horizon` 0 stands for validity at all times, `offset` is a reward of 0 in units."""

    kind: int
    n_arms: int
    horizon: float
    delta: float
    offset: float


class Evidence(NamedTuple):
    """What is known of each arm, in units of the reward range, counted from a reward of 0."""

    counts: Ints
    sums: Floats
    between: Floats  # sums of r (1 - r); empty where no interval needs them
    centre: Floats  # the mean, inside the interval
    lower: Floats
    upper: Floats


class Progress(Record):
    """Where elimination stands, and what it has asked the oracle."""

    due: int  # observations of every undecided arm at which all are looked at again
    strays: int  # arms that left one by one since
    opened: int  # whether arms in all decisions or none have been decided
    failures: int  # new intervals that contradicted old ones
    calls: int  # best decisions that were asked for
    batches: int  # questions, of which one may ask for many


@kernel
def _learn(limits: Limits, evidence: Evidence, arms: Ints, rewards: Floats) -> int:
    """Record rewards; return how many intervals contradicted themselves."""
    failed = 0
    for i in range(arms.size):
        arm = arms[i]
        evidence.counts[arm] += 1
        evidence.sums[arm] += rewards[i]
        count, total, between = evidence.counts[arm], evidence.sums[arm], 0.0
        if evidence.between.size > 0:
            evidence.between[arm] += rewards[i] * (1.0 - rewards[i])
            between = evidence.between[arm]
        low, high = interval(limits.kind, count, total, between, limits.n_arms, limits.horizon, limits.delta)
        low, high = low + limits.offset, high + limits.offset
        before = evidence.lower[arm], evidence.upper[arm]
        if max(low, before[0]) <= min(high, before[1]):
            low, high = max(low, before[0]), min(high, before[1])
        else:
            # The good event has failed, or the rewards are not stationary: trust the newest interval.
            failed += 1
        evidence.lower[arm], evidence.upper[arm] = low, high
        evidence.centre[arm] = min(max(total / count + limits.offset, low), high)
    return failed


@kernel
def _least(status: Status, counts: Ints) -> int:
    """Return the least count of an undecided arm, -1 if there is none."""
    least = -1
    for arm in range(counts.size):
        if status[arm] == UNDECIDED and (least < 0 or counts[arm] < least):
            least = counts[arm]
    return least


@kernel
def _degree(graph: GraphArrays, arm: int, before: Ints) -> int:
    """Return how many waiting arms an arm reveals; `before` counts those below each arm."""
    degree = before[graph.stop[arm]] - before[graph.start[arm]]
    for e in range(graph.indptr[arm], graph.indptr[arm + 1]):
        other = graph.indices[e]
        degree += before[other + 1] - before[other]
    return degree  # type: ignore[no-any-return]


@kernel
def _pick(
    graph: GraphArrays,
    status: Status,
    scheduled: Ints,
    least: int,
    upper: Floats,
    bound: Ints,
    shown: Flags,
    before: Ints,
) -> tuple[int, bool]:
    """Return the arm to explore, and whether the incumbent shows all waiting arms that it reveals.

    The undecided arms that have been scheduled least often wait. The one that reveals most of them is explored; ties
    go to the largest upper end, then to the smallest arm. `bound` keeps how many each revealed when last looked at:
    within a layer that only falls, so most arms need no look.
    """
    for arm in range(status.size):
        before[arm + 1] = before[arm] + (status[arm] == UNDECIDED and scheduled[arm] == least)
    best, most = -1, 0
    for arm in range(status.size):
        if before[arm + 1] == before[arm] or bound[arm] < most or (bound[arm] == most and upper[arm] <= upper[best]):
            continue
        if bound[arm] > 1:
            bound[arm] = _degree(graph, arm, before)
        if bound[arm] > most or (bound[arm] == most and upper[arm] > upper[best]):
            best, most = arm, bound[arm]
    for arm in range(graph.start[best], graph.stop[best]):
        if not shown[arm] and before[arm + 1] > before[arm]:
            return best, False
    for e in range(graph.indptr[best], graph.indptr[best + 1]):
        arm = graph.indices[e]
        if not shown[arm] and before[arm + 1] > before[arm]:
            return best, False
    return best, True


def next_check(count: int) -> int:
    """Return the smallest ``ceil(1.1 ** j)`` above `count`: widths shrink by 5 percent from one to the next."""
    power = max(0, int(math.log(max(count, 1)) / math.log(1.1)) - 1)
    while math.ceil(1.1**power) <= count:
        power += 1
    return math.ceil(1.1**power)


class Awaited:
    """What elimination over a set knows of rewards that are on their way, and of those that were lost."""

    def __init__(self, n_arms: int) -> None:
        self.pending, self.missed, self.credit = np.zeros((3, n_arms), np.int64)

    def schedule(self, arms: Ints) -> None:
        """Note that rewards of these arms are on their way."""
        self.pending[arms] += 1

    def _arrive(self, arms: Ints) -> None:
        self.pending[arms] -= 1
        self.missed[arms] = 0

    def _lose(self, arms: Ints) -> None:
        """Count lost rewards as tries, the more of them in a row the more: as `policies.evidence.lose` does."""
        self.pending[arms] -= 1
        self.missed[arms] += 1
        late = self.missed[arms] - PATIENCE
        self.credit[arms] += np.where(late >= 0, 1 + late // 2, 0)

    def _check_awaited(self, awaited: Ints) -> None:
        """Refuse numbers that were loaded and cannot be."""
        require(self.pending == awaited, "pending must be the rewards that open decisions bring")
        within("missed", self.missed, 0, 2**31)
        within("credit", self.credit, 0, 2**62)


class OracleElimination(Awaited):
    """Arms are confirmed and eliminated by what the best decisions with and without them could be worth.

    Weights are lower ends of intervals on the incumbent's arms and upper ends elsewhere. A decision is *plausible* if
    its weight reaches the incumbent's; one that is not is worse. An arm in no plausible decision is eliminated, one in
    all of them is confirmed, and only plausible decisions are played.
    """

    def __init__(self, graph: FeedbackGraph, decisions: DecisionSet, limits: Limits) -> None:
        n = graph.n_arms
        self.graph, self.decisions, self.limits = graph, decisions, limits
        super().__init__(n)
        self.status = np.zeros(n, np.uint8)
        self.evidence = Evidence(
            np.zeros(n, np.int64),
            np.zeros(n),
            np.zeros(n if limits.kind in (BERNSTEIN, MIXTURE) else 0),
            np.full(n, limits.offset),
            np.full(n, limits.offset),
            np.full(n, limits.offset + 1.0),
        )
        self.incumbent = np.empty(0, np.int64)
        self.progress = Progress(due=0, strays=0, opened=0, failures=0, calls=0, batches=0)
        self._layer = -1
        self._bound = np.zeros(n, np.int64)
        self._before = np.zeros(n + 1, np.int64)
        self._refresh()

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return all state but what follows from it."""
        names = ("status", "pending", "missed", "credit", "incumbent")
        own: dict[str, NDArray[Any]] = {name: getattr(self, name) for name in names}
        return own | {"whole": self.progress.whole} | self.evidence._asdict()

    def restore(self, arrays: Mapping[str, NDArray[Any]], awaited: Ints) -> None:
        """Take back what `arrays` returned, with rewards on their way; refuse what cannot be."""
        arrays = with_later(self.arrays(), arrays)
        if arrays["whole"].size == self.progress.whole.size + 1:
            # The files of before have whether an interval has moved, which is no longer needed.
            arrays["whole"] = np.delete(arrays["whole"], 1)
        self.incumbent = np.zeros(min(arrays["incumbent"].size, self.decisions.size), np.int64)
        restore_arrays(self.arrays(), arrays)
        counts, _, between, centre, lower, upper = self.evidence
        offset, progress = self.limits.offset, self.progress
        within("between", between, 0.0, counts[: between.size] / 4.0)
        within("lower", lower, offset, offset + 1.0)
        within("upper", upper, lower, offset + 1.0)
        within("centre", centre, offset, offset + 1.0)
        within("status", self.status, UNDECIDED, ELIMINATED)
        within("the numbers of its progress", progress.whole, 0, LONGEST)
        within("opened", progress.opened, 0, 1)
        self._check_awaited(awaited)
        require(
            np.diff(check_arms(self.incumbent, self.status.size, "incumbent")) > 0, "the incumbent's arms must rise"
        )
        if progress.opened or (self.status != UNDECIDED).any():
            # Rewards of decisions among eligible arms may decide before the first question about all.
            require(self.decisions.contains(self.incumbent), "the incumbent must be a decision")
            inside = np.isin(np.arange(self.status.size), self.incumbent)
            require(inside[self.status == CONFIRMED], "the incumbent must have the confirmed arms")
            require(~inside[self.status == ELIMINATED], "the incumbent must not have eliminated arms")
        self._refresh()

    @property
    def status_of_arms(self) -> Status:
        """What has been decided of each arm; those in all decisions or none are decided before the first round."""
        self._open()
        return self.status

    def select(self) -> Ints:
        """Return the arms of the next decision."""
        self._open()
        while True:
            scheduled = self.evidence.counts + self.credit + self.pending
            least = _least(self.status, scheduled)
            if least < 0:
                return self.incumbent.copy()
            if least != self._layer:
                self._layer, self._bound = least, self.graph.out_degrees.astype(np.int64)
            arm, covered = _pick(
                self.graph.arrays,
                self.status,
                scheduled,
                least,
                self.evidence.upper,
                self._bound,
                self._shown,
                self._before,
            )
            if covered:
                return self.incumbent.copy()
            found = self._explore(arm)
            if found is not None:
                return found
            self._eliminate(arm)

    def update(self, arms: Ints, rewards: Floats) -> None:
        """Record rewards, and look at all undecided arms when the last of them has been seen often enough."""
        self._arrive(arms)
        self.progress.failures += _learn(self.limits, self.evidence, arms, rewards)
        if self._is_due():
            self._check()

    def release(self, arms: Ints) -> None:
        """Note that rewards of these arms will not come."""
        self._lose(arms)
        self._layer = -1
        if self._is_due():
            self._check()

    def _refresh(self) -> None:
        """Compute what follows from status and incumbent."""
        self._confirmed = np.flatnonzero(self.status == CONFIRMED)
        self._eliminated = np.flatnonzero(self.status == ELIMINATED)
        self._inside, self._shown = np.zeros((2, self.status.size), np.bool_)
        self._inside[self.incumbent] = True
        self._shown[self.graph.revealed_by(self.incumbent)] = True

    def _open(self) -> None:
        if not self.progress.opened:
            self.progress.opened = 1
            self._check()

    def _estimates(self) -> Floats:
        """Return the means; arms that were never asked count their upper ends, so that they come first."""
        unasked = self.evidence.counts + self.pending + self.missed == 0
        return np.where(unasked, self.evidence.upper, self.evidence.centre)

    def _weights(self) -> Floats:
        return np.where(self._inside, self.evidence.lower, self.evidence.upper)

    def _benchmark(self, weights: Floats) -> float:
        """Return the weight that a plausible decision has."""
        value = float(weights[self.incumbent].sum())
        return value - GUARD * (1.0 + abs(value))

    def _maximise(self, weights: Floats, include: ArrayLike) -> Ints | None:
        self.progress.calls += 1
        self.progress.batches += 1
        return self.decisions.maximise(weights, include, self._eliminated)

    def _explore(self, arm: int) -> Ints | None:
        """Return the decision with this arm of largest mean, or of largest weight, whichever is plausible first."""
        weights = self._weights()
        benchmark = self._benchmark(weights)
        for one in (self._estimates(), weights):
            arms = self._maximise(one, np.append(self._confirmed, arm))
            if arms is None:
                return None
            if weights[arms].sum() >= benchmark:
                return arms
        return None

    def _eliminate(self, arm: int) -> None:
        """Take out an arm that no plausible decision has."""
        self.status[arm] = ELIMINATED
        self._refresh()
        self.progress.strays += 1
        outside = ((self.status == UNDECIDED) & ~self._inside).any()
        if self.progress.strays == _STRAYS or not outside or self._is_due():
            self._check()

    def _is_due(self) -> bool:
        """Return whether the undecided arms have been seen often enough for the next check.

        Also where no interval has moved: averages have, and with them the incumbent that the regret bound counts on.
        """
        return _least(self.status, self.evidence.counts + self.credit) >= self.progress.due

    def _check(self) -> None:
        """Choose the incumbent again, and decide all arms that can be."""
        best = self._maximise(self._estimates(), self._confirmed)
        assert best is not None, "the last incumbent is a decision that obeys"
        self.incumbent = best
        self._refresh()
        weights = self._weights()
        benchmark = self._benchmark(weights)
        free = self.status == UNDECIDED
        outside, inside = np.flatnonzero(free & ~self._inside), np.flatnonzero(free & self._inside)
        within = {"include": self._confirmed, "exclude": self._eliminated}
        if outside.size:
            values = self.decisions.maximise_each_including(weights, outside, **within)
            self.status[outside[values < benchmark]] = ELIMINATED
        if inside.size:
            values = self.decisions.maximise_each_excluding(weights, inside, **within)
            self.status[inside[values < benchmark]] = CONFIRMED
        self.progress.calls += outside.size + inside.size
        self.progress.batches += (outside.size > 0) + (inside.size > 0)
        self.progress.strays = 0
        self.progress.due = next_check(_least(self.status, self.evidence.counts + self.credit))
        self._refresh()
