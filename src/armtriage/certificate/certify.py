"""certify: the certificate of any log."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from armtriage._arguments import (
    DIRECTIONS,
    LONGEST,
    as_numbers,
    check_choice,
    check_count,
    check_per_arm,
    check_range,
)
from armtriage.arms import Name, Roster
from armtriage.certificate.bounds import Tally
from armtriage.certificate.certificate import Certificate
from armtriage.certificate.log import Log
from armtriage.certificate.sets import Sets
from armtriage.certificate.slates import Slates
from armtriage.decisions import DecisionSet


def certify(
    pulls: ArrayLike,
    counts: ArrayLike,
    sums: ArrayLike,
    *,
    budget: int | None = None,
    decisions: DecisionSet | None = None,
    squares: ArrayLike | None = None,
    delta: float = 0.05,
    reward_range: tuple[float, float] = (0.0, 1.0),
    rounds: int | None = None,
    next_decision: ArrayLike | None = None,
    exposures: ArrayLike | None = None,
    slots: int | None = None,
    names: Sequence[Name] | None = None,
    direction: str = "maximize",
    independent: bool = False,
) -> Certificate:
    """Certify the decisions of a log against always playing the best `budget` arms, or the best one of `decisions`.

    Where not all arms could be played in all rounds, `exposures` says how often each could, and every round is compared
    with the best `budget` of the arms that were eligible in it.

    It assumes that an arm's mean is constant given all that could be seen when it was chosen: a recommender that
    personalises breaks it, and its log must be certified for each segment of visitors by itself. When a reward was
    recorded, and whether, must not depend on its value. See `docs/what-must-be-true.md`.

    Parameters
    ----------
    pulls : array_like of int
        How often each arm was in a decision.
    counts : array_like of int
        How many rewards of each arm were observed, whether it was pulled or revealed by another.
    sums : array_like of float
        Their sums.
    budget : int
        How many arms a decision has.
    decisions : DecisionSet
        Which decisions are allowed, instead of `budget`.
    squares : array_like of float, optional
        The sums of the squared rewards: the certificate is narrower then, the more the smaller their variance is. Where
        all rewards are ends of `reward_range` it is the same.
    delta : float
        The probability with which any certificate of this log, now or later, may fail.
    reward_range : tuple of float
        Smallest and largest possible reward, from -1e100 to 1e100 and no farther from 0 than a million widths.
    rounds : int, optional
        Number of decisions; needed only if some had fewer than `budget` arms, or decisions may differ in size.
    next_decision : array_like, optional
        The arms of a decision to come, by default those of largest mean. By their names, if they have some.
    exposures : array_like of int, optional
        In how many rounds each arm was eligible, by default in all. Eligibility may depend on all that came before,
        and not on the rewards of the round.
    slots : int, optional
        With `exposures`, how many arms the decisions could have had in all: `budget` of each round, or as many as were
        eligible. Needed only if some had fewer, by default the sum of the pulls.
    names : sequence, optional
        The name of each arm: text, a whole number, or a tuple of such.
    direction : str
        ``"minimize"`` if `sums` are those of costs, ``"maximize"`` for rewards.
    independent : bool
        Whether the rewards of different arms in the same round are independent, given all that came before. What was
        lost is then bounded more tightly. If they share luck, as on a good day or with an eager visitor, that is false,
        and the certificate fails more often than `delta`. Not with `decisions` or `exposures`.

    Examples
    --------
    >>> log = certify(pulls=[60, 40], counts=[60, 40], sums=[30.0, 10.0], budget=1)
    >>> round(log.regret_bound, 1), log.next_decision
    (25.4, array([0]))
    >>> print(certify([60, 40], [60, 40], [30.0, 10.0], budget=1, exposures=[60, 100], names=["tea", "milk"]))
    With 95% confidence, the 100 decisions so far have lost at most 13.6 in all, 0.136 each, against the best eligible
    arm of every round. Playing arm 'tea' next loses at most 0.226, ...
    """
    if independent and (decisions is not None or exposures is not None):
        raise ValueError("independent must be False with decisions or exposures, got True")
    n_arms = as_numbers("pulls", pulls).size
    given = check_per_arm("pulls", pulls, n_arms, whole=True)
    size = _check_size(budget, decisions, n_arms)
    observed = check_per_arm("counts", counts, n_arms, whole=True)
    _countable("pulls", given)
    totals = check_per_arm("sums", sums, n_arms)
    tally = Tally(given, observed, totals, np.zeros(n_arms))
    if decisions is not None and rounds is None and not decisions.same_size:
        raise ValueError("rounds must be given for decisions of different sizes, got None")
    made = _rounds(given, size, rounds)
    shown = None if exposures is None else _exposures(exposures, given, made)
    units = _slots(slots, given, shown, size * made)
    check_choice("direction", direction, DIRECTIONS)
    roster = Roster(n_arms, names)
    if names is not None and next_decision is not None:
        next_decision = roster.numbers(next_decision, "next_decision")
    low, high = check_range(reward_range)
    if max(-low, high) > 1e6 * (high - low):
        accepted = "reward_range must not lie 1e6 widths from 0, where sums are too coarse: take off the same number"
        raise ValueError(f"{accepted} from every reward, got {reward_range!r}")
    slack = 1e-9 * (1.0 + tally.counts) * max(abs(low), abs(high))
    short, long = tally.sums < low * tally.counts - slack, tally.sums > high * tally.counts + slack
    for arm in np.flatnonzero(short | long)[:1]:
        most = f"[{low * tally.counts[arm]:g}, {high * tally.counts[arm]:g}]"
        raise ValueError(
            f"sums must lie in {most} for the {tally.counts[arm]} rewards of arm {arm}, got {float(tally.sums[arm])}"
        )
    gained = high * tally.counts - tally.sums if direction == "minimize" else tally.sums - low * tally.counts
    unit = tally._replace(sums=gained / (high - low))
    if squares is not None:
        unit = unit._replace(between=_between(check_per_arm("squares", squares, n_arms), tally, unit.sums, low, high))
    log = Log(
        Slates(size, independent) if decisions is None else Sets(decisions, (low, high), direction),
        unit,
        made,
        delta,
        (low, high),
        direction,
        exposures=shown if decisions is None else None,
        slots=units,
        next_decision=next_decision,
    )
    return log.certificate(names=roster.names)


def _check_size(budget: int | None, decisions: DecisionSet | None, n_arms: int) -> int:
    """Return how many arms a decision has, at most."""
    if (budget is None) == (decisions is None):
        raise ValueError(f"either budget or decisions must be given, got budget={budget!r} and decisions={decisions!r}")
    if budget is not None:
        return check_count("budget", budget, 1, n_arms)
    if not isinstance(decisions, DecisionSet):
        raise TypeError(f"decisions must be a DecisionSet, got {type(decisions).__name__}")
    if decisions.n_arms != n_arms:
        raise ValueError(f"decisions must have the {n_arms} arms of pulls, got {decisions.n_arms}")
    return decisions.size


def _rounds(pulls: NDArray[np.int64], budget: int, rounds: int | None) -> int:
    """Return how many decisions there were."""
    total = int(pulls.sum())
    if rounds is None:
        if total % budget or pulls.max() > total // budget:
            accepted = f"pulls must be those of whole decisions of {budget} different arms, unless rounds is given"
            raise ValueError(f"{accepted}, got {total} pulls, up to {pulls.max()} of an arm")
        return total // budget
    made = check_count("rounds", rounds)
    if total > budget * made or pulls.max() > made:
        most = f"{made} decisions of at most {budget} different arms"
        raise ValueError(
            f"rounds must allow for all pulls, got {total} pulls, up to {pulls.max()} of an arm, for {most}"
        )
    return made


def _countable(name: str, values: NDArray[np.int64]) -> None:
    """Refuse what has a sum that is no longer exact."""
    if values.sum(dtype=np.float64) >= LONGEST:
        raise ValueError(f"{name} must sum to less than {LONGEST}, got {values.sum(dtype=np.float64):g}")


def _between(
    squares: NDArray[np.float64], tally: Tally, unit: NDArray[np.float64], low: float, high: float
) -> NDArray[np.float64]:
    """Return the sums of r (1 - r) on the unit scale, from those of squares of rewards in their own units."""
    width, n = high - low, tally.counts
    between = (tally.sums * (low + high) - low * high * n - squares) / width**2
    slack = 1e-9 * (1.0 + n) * max(low * low, high * high, 1.0) / width**2
    most = np.clip(unit * (n - unit) / np.maximum(n, 1), 0.0, None)
    for arm in np.flatnonzero(~((between >= -slack) & (between <= most + slack)))[:1]:
        least = tally.sums[arm] ** 2 / max(n[arm], 1)
        ends = f"[{least:g}, {tally.sums[arm] * (low + high) - low * high * n[arm]:g}]"
        raise ValueError(f"squares must lie in {ends} for the sum of arm {arm}, got {squares[arm]!r}")
    # More than is true would make intervals too narrow, less is always valid: so sums are taken to be rounded as badly
    # as those of numbers that are added up one by one.
    rounding = 2.0**-53 * (4.0 + n) * (squares + np.abs(tally.sums * (low + high)) + abs(low * high) * n) / width**2
    return np.clip(between - rounding, 0.0, most)


def _exposures(exposures: ArrayLike, pulls: NDArray[np.int64], rounds: int) -> NDArray[np.int64]:
    """Return in how many rounds each arm was eligible."""
    found = check_per_arm("exposures", exposures, pulls.size, whole=True)
    _countable("exposures", found)
    for arm in np.flatnonzero((found < pulls) | (found > rounds))[:1]:
        most = f"from its {pulls[arm]} pulls to the {rounds} rounds"
        raise ValueError(f"exposures must be {most} for arm {arm}, got {found[arm]}")
    return found


def _slots(slots: int | None, pulls: NDArray[np.int64], exposures: NDArray[np.int64] | None, most: int) -> int | None:
    """Return how many places there were."""
    if slots is None:
        return None
    if exposures is None:
        raise ValueError(f"slots must be None without exposures, got {slots!r}")
    places, least = check_count("slots", slots), int(pulls.sum())
    most = min(most, int(exposures.sum()))
    if not least <= places <= most:
        raise ValueError(f"slots must be from the {least} pulls to {most}, got {slots!r}")
    return places
