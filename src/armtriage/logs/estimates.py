"""What a log says of a target, decision by decision: estimates, weights, and the capital of those who bet against."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from armtriage.decisions import swaps_of
from armtriage.kernels.betting import BETS, margin
from armtriage.kernels.jit import kernel
from armtriage.kernels.record import Floats, Ints
from armtriage.logs.batch import Batch
from armtriage.logs.targets import Target, Weights

_CUTS = np.maximum(1.0, 0.8 / BETS)  # with 0.5, intervals of 4,000 decisions were 2% to 7% wider
_ROOMS = np.maximum(0.97 / BETS - _CUTS, 0.0)  # what else a bet may expect: it keeps 3% of its capital
_THIN = 0.01  # a probability below which an arm hardly counts as tried


@kernel
def _expect(size: float, mean: float, q: float, cuts: Floats, centre: Floats, sign: float, side: int) -> None:
    """Add what is expected of an arm, for each bet, to the centres of the bets on much and on little."""
    for j in range(cuts.size):
        most = cuts[j] * q
        centre[side, j] += sign * size * min(mean, most)
        centre[1 - side, j] += sign * size * min(1.0 - mean, most)


@kernel
def _follow(
    starts: Ints,
    seen: Ints,
    rewards: Floats,
    chances: Floats,
    proposal_starts: Ints,
    proposed: Ints,
    inside: Floats,
    outside: Floats,
    rows: Ints,
    row_starts: Ints,
    row_arms: Ints,
    row_weights: Floats,
    counts: Floats,
    sums: Floats,
    weight: Floats,
    marked: Ints,
    bets: Floats,
    cuts: Floats,
    rooms: Floats,
    capital: Floats,
    centre: Floats,
    gain: Floats,
    found: Floats,
    weights: Floats,
) -> None:
    """Go through decisions in their order; rewards are on the unit scale, bets are per unit.

    A row of `found` gets the doubly robust and the plain estimate, the sum of weights, and its variance where the
    logged probabilities are right. `counts` and `sums` are those of earlier decisions: what is expected of an arm must
    not know the decision's own rewards. Where it is known beforehand that the probability of an arm is q or more, a bet
    expects q times its cut at most, so that no look costs it more than a share of its capital. Where all that is known
    is the least q of any arm, it also expects, whatever comes, as much of the rest as its room is.
    """
    for t in range(starts.size - 1):
        known, proposal = not math.isnan(inside[t]), proposal_starts[t + 1] > proposal_starts[t]
        for k in range(proposal_starts[t], proposal_starts[t + 1]):
            marked[proposed[k]] = 1
        robust = plain = match = variance = good = bad = 0.0
        centre[:] = 0.0
        gain[:] = 0.0
        first, last = row_starts[rows[t]], row_starts[rows[t] + 1]
        for k in range(first, last):
            arm, e = row_arms[k], row_weights[k]
            weight[arm] = e
            mean = (sums[arm] + 0.5) / (counts[arm] + 1.0)
            robust += e * mean
            q = math.inf
            if known:
                q = inside[t] if marked[arm] == 1 else outside[t]
                if proposal and q > 0.0:
                    variance += e * e * (1.0 - q) / q
            _expect(abs(e), mean, q, cuts, centre, 1.0, 1 if e < 0.0 else 0)
            good += abs(e) * (mean if e > 0.0 else 1.0 - mean)
            bad += abs(e) * (1.0 - mean if e > 0.0 else mean)
        if not known:
            gain[:] = -centre
        elif not proposal:
            for side in range(2):
                for j in range(rooms.size):
                    rest = min((bad if side else good) - centre[side, j], rooms[j])
                    gain[side, j] = -rest
                    centre[side, j] += rest
        for i in range(starts[t], starts[t + 1]):
            arm = seen[i]
            e = weight[arm]
            if e != 0.0:
                mean, q, reward = (sums[arm] + 0.5) / (counts[arm] + 1.0), chances[i], rewards[i]
                share, side = abs(e) / q, 1 if e < 0.0 else 0
                weights[i] = share
                match += share
                robust += e * (reward - mean) / q
                plain += e * reward / q
                gain[side] += share * reward
                gain[1 - side] += share * (1.0 - reward)
                if known:
                    before = inside[t] if marked[arm] == 1 else outside[t]
                    _expect(share, mean, before, cuts, gain, -1.0, side)
                if not (known and proposal):
                    variance += share * share * (1.0 - q)
        for side in range(2):
            for j in range(bets.size):
                capital[side, j] += math.log1p(bets[j] * gain[side, j]) + bets[j] * centre[side, j]
        found[t, 0], found[t, 1], found[t, 2], found[t, 3] = robust, plain, match, variance
        for k in range(first, last):
            weight[row_arms[k]] = 0.0
        for k in range(proposal_starts[t], proposal_starts[t + 1]):
            marked[proposed[k]] = 0
        for i in range(starts[t], starts[t + 1]):
            counts[seen[i]] += 1.0
            sums[seen[i]] += rewards[i]


@kernel
def _overlap(
    proposal_starts: Ints,
    proposed: Ints,
    starts: Ints,
    played: Ints,
    rows: Ints,
    row_starts: Ints,
    row_arms: Ints,
    row_weights: Floats,
    weight: Floats,
    marked: Ints,
    found: Floats,
) -> None:
    """Give a row the played arms and weights inside the proposal and outside, and the weights of those played."""
    for t in range(starts.size - 1):
        for k in range(proposal_starts[t], proposal_starts[t + 1]):
            marked[proposed[k]] = 1
        for k in range(row_starts[rows[t]], row_starts[rows[t] + 1]):
            weight[row_arms[k]] = row_weights[k]
            found[t, 3 - marked[row_arms[k]]] += row_weights[k]
        for i in range(starts[t], starts[t + 1]):
            found[t, 1 - marked[played[i]]] += 1.0
            found[t, 5 - marked[played[i]]] += weight[played[i]]
        for k in range(row_starts[rows[t]], row_starts[rows[t] + 1]):
            weight[row_arms[k]] = 0.0
        for k in range(proposal_starts[t], proposal_starts[t + 1]):
            marked[proposed[k]] = 0


class Wald(NamedTuple):
    """A mean and its standard error."""

    mean: float
    error: float

    @classmethod
    def of(cls, rounds: int, total: float, square: float) -> Wald:
        """Return those of so many numbers with this sum and this sum of squares."""
        mean = total / rounds
        spread = max(square / rounds - mean * mean, 0.0) * rounds / max(rounds - 1, 1)
        return cls(mean, math.sqrt(spread / rounds))


class Running:
    """What a target comes to in the decisions so far, on the unit scale."""

    def __init__(
        self,
        target: Target,
        n_arms: int,
        looks: int | None,
        *,
        totals: bool = False,
        weighted: bool = True,
    ) -> None:
        self.target, self._totals, self._weighted = target, totals, weighted
        # With a floor, a look is below what is expected by the weights of the arms that are seen, times the cut.
        self._bounded = looks is not None
        self._scale = target.size if looks is None else target.most(looks)
        self.rounds = 0
        self._counts, self._sums = np.zeros((2, n_arms))
        self._weight, self._marked = np.zeros(n_arms), np.zeros(n_arms, np.int64)
        self._capital = np.zeros((2, BETS.size))
        self._moments = np.zeros((5, 2))  # sums and sums of squares of what a decision comes to
        self.mass = np.zeros(n_arms)  # of each arm, positive and negative weights alike
        self.signed = np.zeros(n_arms)
        self._positive = self._negative = 0.0
        self.weights = np.zeros(2)  # sum and sum of squares
        self.largest = self.thin = 0.0
        self.per_arm = np.zeros((6, n_arms))  # sums of 1/q, r/q, 1/q^2, r/q^2, r^2/q^2, and of looks

    def add(self, batch: Batch, rewards: Floats) -> None:
        """Go on with decisions of which rewards have come; these are on the unit scale."""
        given = self.target.weights(batch)
        n = batch.numbers.size
        self.rounds += n
        times = np.bincount(given.rows, minlength=given.starts.size - 1).astype(np.float64)
        share = given.weights * np.repeat(times, np.diff(given.starts))
        self.signed += np.bincount(given.arms, share, minlength=self.mass.size)
        self.mass += np.bincount(given.arms, np.abs(share), minlength=self.mass.size)
        self._positive += share[share > 0.0].sum()
        self._negative -= share[share < 0.0].sum()
        if not self._weighted:
            return
        chances, inside, outside = _chances_of(batch, self.mass.size)
        if not self._bounded:
            inside = np.full(n, np.nan)
        found, weights = np.zeros((n, 4)), np.zeros(batch.seen.values.size)
        _follow(
            batch.seen.starts,
            batch.seen.values,
            rewards,
            chances,
            batch.proposal.starts,
            batch.proposal.values,
            inside,
            outside,
            given.rows,
            given.starts,
            given.arms,
            given.weights,
            self._counts,
            self._sums,
            self._weight,
            self._marked,
            BETS / self._scale,
            _CUTS,
            _ROOMS * self._scale,
            self._capital,
            np.zeros((2, BETS.size)),
            np.zeros((2, BETS.size)),
            found,
            weights,
        )
        self._moments[:4, 0] += found.sum(axis=0)
        self._moments[:4, 1] += (found**2).sum(axis=0)
        if self._totals:
            each = self._by_total(batch, rewards, given)
            self._moments[4] += each.sum(), (each**2).sum()
        self.weights += weights.sum(), (weights**2).sum()
        self.largest = max(self.largest, float(weights.max(initial=0.0)))
        self.thin += float(weights[chances < _THIN].sum())
        inverse, arms = 1.0 / chances, batch.seen.values
        for row, value in enumerate(
            (inverse, rewards * inverse, inverse**2, rewards * inverse**2, (rewards * inverse) ** 2, None)
        ):
            self.per_arm[row] += np.bincount(arms, value, minlength=self.mass.size)

    def _by_total(self, batch: Batch, rewards: Floats, given: Weights) -> Floats:
        """Return the estimate of each decision from the sum of its rewards alone."""
        n = batch.numbers.size
        if np.isnan(batch.floors).any() or not batch.proposal.sizes.all():
            raise ValueError("estimator 'total' needs the proposal and floor of every decision: use another one")
        if not np.array_equal(batch.seen.sizes, batch.arms.sizes):
            raise ValueError("estimator 'total' needs the rewards of all arms of a decision, and of no others")
        overlap = np.zeros((n, 6))
        _overlap(
            batch.proposal.starts,
            batch.proposal.values,
            batch.arms.starts,
            batch.arms.values,
            given.rows,
            given.starts,
            given.arms,
            given.weights,
            self._weight,
            self._marked,
            overlap,
        )
        slots = batch.proposal.sizes
        outsiders = _outsiders(batch, slots, self.mass.size)
        earned = np.bincount(batch.seen.owners, rewards, minlength=n)
        factor, known = np.empty(n), dict[tuple[int, int, float], tuple[Floats, float, float]]()
        for t in range(n):
            key = int(slots[t]), int(outsiders[t]), float(batch.floors[t])
            if key not in known:
                known[key] = _inverse(*key)
            factor[t] = _of_total(overlap[t], key[0], key[1], known[key])
        return np.asarray(earned * factor)

    @property
    def expected(self) -> float:
        """How many arms the target plays in a decision, on average."""
        return (self._positive - self._negative) / max(self.rounds, 1)

    def wald(self, estimator: str) -> Wald:
        """Return an estimate of what the target earns in a decision, and its standard error."""
        if estimator == "snips":
            return self._snips()
        return Wald.of(self.rounds, *self._moments[{"dr": 0, "ips": 1, "total": 4}[estimator]])

    def _snips(self) -> Wald:
        ones, gains, squares, cross, both, _ = self.per_arm
        weights = self.signed / self.rounds
        seen = ones > 0.0
        mean = np.where(seen, gains / np.where(seen, ones, 1.0), 0.5)
        spread = np.where(seen, (both - 2.0 * mean * cross + mean**2 * squares) / np.where(seen, ones, 1.0) ** 2, 0.0)
        return Wald(float(weights @ mean), math.sqrt(max(float(weights**2 @ spread), 0.0)))

    def interval(self, alpha: float) -> tuple[float, float]:
        """Return bounds on what the target earns in a decision on average, at all times with probability 1 - alpha."""
        n = self.rounds
        low, high = (margin(self._capital[side], n, self._scale, alpha / 2.0) for side in (0, 1))
        return max(low, 0.0) - self._negative / n, self._positive / n - max(high, 0.0)

    def calibration(self) -> float:
        """Return how many standard errors the weights are off the sum that they have if the probabilities are right."""
        n = self.rounds
        off = self._moments[2, 0] / n - float(self.mass.sum()) / n
        empirical = Wald.of(n, *self._moments[2]).error
        error = max(empirical, math.sqrt(self._moments[3, 0]) / n)
        if abs(off) <= 1e-9:
            return 0.0
        return off / error if error > 1e-12 else math.copysign(math.inf, off)


def _outsiders(batch: Batch, slots: Ints, n_arms: int) -> Ints:
    """Return how many eligible arms there are beside the slots of each decision."""
    sizes = np.array([n_arms if one is None else one.size for one in batch.sets], np.int64)
    return np.asarray(sizes[batch.which] - slots)


def _chances_of(batch: Batch, n_arms: int) -> tuple[Floats, Floats, Floats]:
    """Return the probability of each look, and those of playing an arm inside the proposal and one outside it.

    Where there is a floor without a proposal, the latter two are the less of them, which every arm has; nan where there
    is no floor.
    """
    proposals, owners = batch.proposal.sizes > 0, batch.seen.owners
    slots = np.where(proposals, batch.proposal.sizes, batch.arms.sizes)
    outsiders = _outsiders(batch, slots, n_arms)
    inside, outside = np.full((2, slots.size), np.nan)
    known = (slots > 0) & ~np.isnan(batch.floors)
    many, few = known & (outsiders >= slots), np.flatnonzero(known & (outsiders < slots))
    inside[many], outside[many] = 1.0 - batch.floors[many], (slots * batch.floors)[many] / outsiders[many]
    for row, size, others, floor in zip(few, slots[few], outsiders[few], batch.floors[few], strict=True):
        mean = swaps_of(int(size), int(others), float(floor)).mean
        inside[row], outside[row] = 1.0 - mean / size, mean / others if others else 1.0
    inside[~proposals] = outside[~proposals] = np.minimum(inside, outside)[~proposals]
    chances = batch.chances
    proposed = np.isin(owners * n_arms + batch.seen.values, batch.proposal.owners * n_arms + batch.proposal.values)
    derived = np.where(proposed, inside[owners], outside[owners])
    unknown = np.isnan(chances) & proposals[owners]
    chances = np.where(unknown, derived, chances)
    for item in np.flatnonzero(~((chances > 0.0) & (chances <= 1.0)))[:1]:
        raise ValueError(
            f"inclusion must lie in (0, 1], got {_look(batch, chances, item)}: log with a floor, or use "
            "estimator='bracket'"
        )
    for item in np.flatnonzero(chances < derived * (1.0 - 1e-9))[:1]:
        least = f"{derived[item]:g}, which follows from the floor"
        raise ValueError(f"inclusion must be at least {least}, got {_look(batch, chances, item)}")
    return chances, inside, outside


def _look(batch: Batch, chances: Floats, item: int) -> str:
    number = batch.numbers[batch.seen.owners[item]]
    return f"{chances[item]} for arm {batch.seen.values[item]} of decision {number}"


def _inverse(slots: int, outsiders: int, floor: float) -> tuple[Floats, float, float]:
    """Return what inverts the second moments of a decision: on block means, and beside them inside and outside."""
    mean, square = swaps_of(slots, outsiders, floor)
    stay, enter = 1.0 - mean / slots, mean / outsiders if outsiders else 0.0
    both_stay = (slots * (slots - 1) - (2 * slots - 1) * mean + square) / max(slots * (slots - 1), 1)
    both_enter = (square - mean) / max(outsiders * (outsiders - 1), 1)
    mixed = (slots * mean - square) / math.sqrt(slots * max(outsiders, 1))
    means = np.array([[stay + (slots - 1) * both_stay, mixed], [mixed, enter + max(outsiders - 1, 0) * both_enter]])
    beside = [1.0 / one if one > 1e-12 else 0.0 for one in (stay - both_stay, enter - both_enter)]
    return np.linalg.pinv(means, rcond=1e-12, hermitian=True), beside[0], beside[1]


def _of_total(overlap: Floats, slots: int, outsiders: int, inverse: tuple[Floats, float, float]) -> float:
    """Return by what the sum of a decision's rewards is multiplied."""
    means, beside_in, beside_out = inverse
    played_in, played_out, weight_in, weight_out, both_in, both_out = overlap.tolist()
    roots = math.sqrt(slots), math.sqrt(max(outsiders, 1))
    weight = np.array([weight_in / roots[0], weight_out / roots[1]])
    played = np.array([played_in / roots[0], played_out / roots[1]])
    apart = beside_in * (both_in - weight_in * played_in / slots)
    apart += beside_out * (both_out - weight_out * played_out / max(outsiders, 1))
    return float(weight @ means @ played + apart)
