"""Batch: decisions of a log as arrays, and how rows of a table become one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from armtriage.kernels.record import Floats, Ints

if TYPE_CHECKING:
    from polars import DataFrame, Series


class Rows(NamedTuple):
    """Values of all decisions one after the other: those of decision i are ``values[starts[i]:starts[i + 1]]``."""

    starts: Ints
    values: NDArray[Any]

    @property
    def sizes(self) -> Ints:
        """How many values each decision has."""
        return np.diff(self.starts)

    @property
    def owners(self) -> Ints:
        """The decision of each value."""
        return np.repeat(np.arange(self.starts.size - 1), self.sizes)

    def kept(self, keep: NDArray[np.bool_]) -> Rows:
        """Return the values that are kept."""
        sizes = np.bincount(self.owners[keep], minlength=self.starts.size - 1)
        return Rows(_starts(sizes), self.values[keep])


class Batch(NamedTuple):
    """Decisions of a log, with the rewards that came.

    Examples
    --------
    >>> from armtriage.logs import SlateLog
    >>> log = SlateLog.from_columns(arms=[[0, 2], [1, 2]], rewards=[[1, 0], [0, None]], n_arms=3)
    >>> batch = next(log.batches())
    >>> batch.arms.values, batch.seen.values, batch.rewards
    (array([0, 2, 1, 2]), array([0, 2, 1]), array([1., 0., 0.]))
    """

    numbers: Ints
    arms: Rows  # those that were played
    seen: Rows  # those whose rewards came
    rewards: Floats  # beside `seen`
    chances: Floats  # probability that the reward was seen, beside `seen`; nan where it is not known
    proposal: Rows  # what was proposed before slots were swapped; none where it is not known
    floors: Floats  # share of swapped slots; nan where it is not known
    sets: list[Ints | None]  # of eligible arms, that occur; None for all
    which: Ints  # the set of each decision


def batch_of(rows: DataFrame, pattern: Callable[[int], Ints]) -> Batch:
    """Return rows of a log as arrays; `pattern` finds the eligible arms by the number of their set."""
    numbers = rows["number"].to_numpy().astype(np.int64)
    arms = _rows(rows["arms"])
    seen = _rows(rows["observed"])
    rewards = _beside(rows, "rewards", seen, numbers, "observed")
    chances = _beside(rows, "observation", seen, numbers, "observed")
    inclusion = _beside(rows, "inclusion", arms, numbers, "arms")
    chances = _by_inclusion(chances, seen, arms, inclusion)
    came = ~np.isnan(rewards)
    sets, which = _sets(rows, pattern)
    floors = rows["floor"].cast(float).fill_null(float("nan")).to_numpy()
    told = seen.kept(came)
    return Batch(numbers, arms, told, rewards[came], chances[came], _rows(rows["proposal"]), floors, sets, which)


def _starts(sizes: Ints) -> Ints:
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def _rows(column: Series) -> Rows:
    sizes = column.list.len().fill_null(0).cast(int)
    values = column.filter(sizes > 0).explode()
    if values.null_count():
        raise ValueError(f"{column.name} must have no missing arms")
    return Rows(_starts(sizes.to_numpy()), values.to_numpy().astype(np.int64))


def _beside(rows: DataFrame, name: str, arms: Rows, numbers: Ints, what: str) -> Floats:
    """Return a number for each arm, nan where a decision has none."""
    column = rows[name]
    sizes = column.list.len().fill_null(0).cast(int)
    found, given = np.full(arms.values.size, np.nan), sizes.to_numpy()
    for row in np.flatnonzero((given > 0) & (given != arms.sizes))[:1]:
        accepted = f"{name} must have an entry for each of {what}"
        raise ValueError(f"{accepted}, got {given[row]} for {arms.sizes[row]} in decision {numbers[row]}")
    values = column.filter(sizes > 0).explode().cast(float).fill_null(float("nan")).to_numpy()
    found[(given > 0)[arms.owners]] = values
    return found


def _by_inclusion(chances: Floats, seen: Rows, arms: Rows, inclusion: Floats) -> Floats:
    """Return the probabilities of being seen; where there are none, those of being played, which show themselves."""
    unknown = np.flatnonzero(np.isnan(chances))
    if not unknown.size or np.isnan(inclusion).all():
        return chances
    if np.array_equal(seen.starts, arms.starts) and np.array_equal(seen.values, arms.values):
        return np.where(np.isnan(chances), inclusion, chances)
    span = 1 + max(int(seen.values.max()), int(arms.values.max()))
    keys = arms.owners * span + arms.values
    order = np.argsort(keys)
    wanted = seen.owners[unknown] * span + seen.values[unknown]
    places = np.minimum(np.searchsorted(keys, wanted, sorter=order), keys.size - 1)
    played = keys[order[places]] == wanted
    chances[unknown[played]] = inclusion[order[places[played]]]
    return chances


def _sets(rows: DataFrame, pattern: Callable[[int], Ints]) -> tuple[list[Ints | None], Ints]:
    if rows["pattern" if "pattern" in rows.columns else "eligible"].null_count() == rows.height:
        return [None], np.zeros(rows.height, np.int64)
    sets: list[Ints | None] = []
    known: dict[Any, int] = {}
    which = np.empty(rows.height, np.int64)
    by_number = "pattern" in rows.columns
    for row, key in enumerate(rows["pattern"].to_list() if by_number else rows["eligible"].to_list()):
        name: Any = key if by_number or key is None else tuple(key)
        if name not in known:
            known[name] = len(sets)
            sets.append(None if name is None else pattern(name) if by_number else np.unique(np.array(key, np.int64)))
        which[row] = known[name]
    return sets, which


def check_batch(batch: Batch, n_arms: int, reward_range: tuple[float, float]) -> None:
    """Refuse what no decision has: unknown arms, arms twice or not eligible, and numbers out of range."""
    allowed = _allowed(batch, n_arms)
    limited = np.array([one is not None for one in batch.sets])[batch.which]
    for name, rows in (("arms", batch.arms), ("observed", batch.seen), ("proposal", batch.proposal)):
        owners, arms = rows.owners, rows.values
        for item in np.flatnonzero((arms < 0) | (arms >= n_arms))[:1]:
            raise ValueError(f"{name} must lie in 0..{n_arms - 1}, got {arms[item]} {_where(batch, owners[item])}")
        keys = np.sort(owners * n_arms + arms)
        for item in np.flatnonzero(keys[1:] == keys[:-1])[:1]:
            row, arm = divmod(int(keys[item]), n_arms)
            raise ValueError(f"{name} must have each arm once, got {arm} twice {_where(batch, row)}")
        if name == "observed" or not allowed.size:  # an arm may show another that was not eligible
            continue
        wanted = batch.which[owners] * n_arms + arms
        places = np.minimum(np.searchsorted(allowed, wanted), allowed.size - 1)
        for item in np.flatnonzero(limited[owners] & (allowed[places] != wanted))[:1]:
            raise ValueError(f"{name} must be eligible, got {arms[item]}, which was not {_where(batch, owners[item])}")
    for row in np.flatnonzero((batch.proposal.sizes > 0) & (batch.proposal.sizes != batch.arms.sizes))[:1]:
        sizes = f"{batch.proposal.sizes[row]} for {batch.arms.sizes[row]} arms {_where(batch, row)}"
        raise ValueError(f"proposal must have as many arms as the decision, got {sizes}")
    low, high = reward_range
    owners = batch.seen.owners
    for item in np.flatnonzero(~((batch.rewards >= low) & (batch.rewards <= high)))[:1]:
        accepted = f"rewards must lie in [{low:g}, {high:g}] (reward_range)"
        raise ValueError(f"{accepted}, got {batch.rewards[item]} {_where(batch, owners[item])}")
    for item in np.flatnonzero((batch.chances < 0.0) | (batch.chances > 1.0))[:1]:
        what = f"{batch.chances[item]} for arm {batch.seen.values[item]} {_where(batch, owners[item])}"
        raise ValueError(f"inclusion and observation must lie in (0, 1], got {what}")
    for row in np.flatnonzero((batch.floors < 0.0) | (batch.floors >= 1.0))[:1]:
        raise ValueError(f"floor must lie in [0, 1), got {batch.floors[row]} {_where(batch, row)}")


def _allowed(batch: Batch, n_arms: int) -> Ints:
    """Return, ascending, set times the number of arms plus arm, for all eligible arms."""
    keys = [np.zeros(0, np.int64)]
    for place, arms in enumerate(batch.sets):
        if arms is None:
            continue
        for arm in arms[(arms < 0) | (arms >= n_arms)][:1]:
            row = int(np.argmax(batch.which == place))
            raise ValueError(f"eligible must lie in 0..{n_arms - 1}, got {arm} {_where(batch, row)}")
        keys.append(place * n_arms + arms)
    return np.concatenate(keys)


def _where(batch: Batch, row: int) -> str:
    return f"in decision {batch.numbers[row]}"


class Counts(NamedTuple):
    """How often each arm was eligible, played and observed, the sums of its rewards and of their squares."""

    exposures: Ints
    pulls: Ints
    counts: Ints
    sums: Floats
    squares: Floats
    rounds: int
    untold: int  # decisions of which no reward came
    budget: int  # arms of the longest decision


def counts_of(batches: Iterable[Batch], n_arms: int) -> Counts:
    """Return what all decisions come to for each arm."""
    exposures, pulls, counts = np.zeros((3, n_arms), np.int64)
    sums, squares = np.zeros((2, n_arms))
    rounds = untold = budget = 0
    for batch in batches:
        pulls += np.bincount(batch.arms.values, minlength=n_arms)
        counts += np.bincount(batch.seen.values, minlength=n_arms)
        sums += np.bincount(batch.seen.values, batch.rewards, minlength=n_arms)
        squares += np.bincount(batch.seen.values, batch.rewards**2, minlength=n_arms)
        rounds += batch.numbers.size
        untold += int((batch.seen.sizes == 0).sum())
        budget = max(budget, int(batch.arms.sizes.max(initial=0)))
        for arms, times in zip(batch.sets, np.bincount(batch.which, minlength=len(batch.sets)), strict=True):
            exposures[slice(None) if arms is None else arms] += times
    return Counts(exposures, pulls, counts, sums, squares, rounds, untold, budget)
