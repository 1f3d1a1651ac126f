"""Set covers: as few decisions as possible that reveal all arms that are needed."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from armtriage.kernels.jit import kernel
from armtriage.kernels.record import Floats, Ints


class Rows(NamedTuple):
    """Several sets of arms, one after another; set i is ``arms[starts[i]:starts[i + 1]]``."""

    arms: Ints
    starts: Ints

    @classmethod
    def of(cls, sets: list[Ints]) -> Rows:
        """Return the sets in this form."""
        sizes = np.array([one.size for one in sets], np.int64)
        return cls(np.concatenate([np.empty(0, np.int64), *sets]), np.append(0, np.cumsum(sizes)))


@kernel
def _restrict(rows: Rows, chosen: Ints, place: Ints) -> tuple[Ints, Ints]:
    """Return the places of the arms of the chosen sets that have one, and where each set begins."""
    starts = np.zeros(chosen.size + 1, np.int64)
    for i in range(chosen.size):
        starts[i + 1] = starts[i]
        for arm in rows.arms[rows.starts[chosen[i]] : rows.starts[chosen[i] + 1]]:
            starts[i + 1] += place[arm] >= 0
    arms = np.empty(starts[chosen.size], np.int64)
    filled = 0
    for i in range(chosen.size):
        for arm in rows.arms[rows.starts[chosen[i]] : rows.starts[chosen[i] + 1]]:
            if place[arm] >= 0:
                arms[filled] = place[arm]
                filled += 1
    return arms, starts


def _useful(shows: Rows, chosen: Ints, need: Ints, n_arms: int) -> Rows:
    """Return what each chosen set shows of the needed arms, which are renumbered."""
    place = np.full(n_arms, -1, np.int64)
    place[need] = np.arange(need.size)
    return Rows(*_restrict(shows, chosen, place))


def _greedy(useful: Rows, n_needed: int, worth: Floats) -> list[int]:
    """Return places of a cover: each has most of what is missing, then largest worth, then smallest place."""
    sizes = np.diff(useful.starts)
    owner = np.repeat(np.arange(sizes.size), sizes)
    order = np.argsort(useful.arms, kind="stable")
    begins = np.append(0, np.cumsum(np.bincount(useful.arms, minlength=n_needed)))
    gain, missing = sizes.copy(), np.ones(n_needed, np.bool_)
    picks = []
    while missing.any():
        best = np.flatnonzero(gain == gain.max())
        pick = int(best[np.argmax(worth[best])])
        if gain[pick] == 0:
            raise ValueError("need must lie in what the candidates show, got an arm that none shows")
        shown = useful.arms[useful.starts[pick] : useful.starts[pick + 1]]
        for arm in shown[missing[shown]]:
            gain[owner[order[begins[arm] : begins[arm + 1]]]] -= 1
        missing[shown] = False
        picks.append(pick)
    return picks


def greedy_cover(shows: Rows, chosen: Ints, need: Ints, worth: Floats) -> Ints:
    """Return sets of `chosen` that show all of `need`, at most 1 + ln(len(need)) times the fewest, in order of choice.

    Parameters
    ----------
    shows : Rows
        The arms that each set shows.
    chosen : ndarray
        The sets that may be taken.
    need : ndarray
        The arms to show.
    worth : ndarray
        A number for each of `chosen`: among sets that show equally many missing arms the largest goes first.
    """
    useful = _useful(shows, chosen, need, int(shows.arms.max()) + 1)
    return chosen[_greedy(useful, need.size, worth)]


def exact_cover(shows: Rows, chosen: Ints, need: Ints, worth: Floats) -> Ints:
    """Return as few sets of `chosen` as possible that show all of `need`; arguments as for `greedy_cover`.

    The greedy answer stands if no cover can be smaller for its size alone. Otherwise HiGHS finds one and proves it.
    """
    useful = _useful(shows, chosen, need, int(shows.arms.max()) + 1)
    picks = _greedy(useful, need.size, worth)
    if len(picks) <= max(2, -(-need.size // int(np.diff(useful.starts).max()))):
        return chosen[picks]
    return np.sort(chosen[_solve(useful, need.size, worth)])


def _solve(useful: Rows, n_needed: int, worth: Floats) -> Ints:
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import csc_array

    first: dict[bytes, int] = {}
    for i in np.lexsort((np.arange(worth.size), -worth)):
        first.setdefault(np.sort(useful.arms[useful.starts[i] : useful.starts[i + 1]]).tobytes(), int(i))
    kept = np.array(sorted(first.values()))
    arms, starts = _restrict(useful, kept, np.arange(n_needed))
    matrix = csc_array((np.ones(arms.size), arms, starts), shape=(n_needed, kept.size))
    answer = milp(
        np.ones(kept.size),
        integrality=np.ones(kept.size, np.int64),
        bounds=Bounds(0.0, 1.0),
        constraints=LinearConstraint(matrix, 1.0, np.inf),
        options={"mip_rel_gap": 0.0},
    )
    if answer.status != 0:
        raise RuntimeError(f"the solver found no smallest cover of {n_needed} arms: {answer.message}")
    found: Ints = kept[answer.x > 0.5]
    return found
