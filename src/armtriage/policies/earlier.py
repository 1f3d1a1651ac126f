"""What files of formats 2 and 3 kept of policies that keep `policies.evidence` now, read as evidence.

While all arms were always eligible, they kept a tally and the policy's own counts; after that, a row for each arm.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from armtriage.certificate import Tally
from armtriage.policies.facts import facts_of, require

if TYPE_CHECKING:
    from armtriage.policies.slate import SlatePolicy

__all__ = ["evidence_before", "is_before"]

Arrays = Mapping[str, NDArray[Any]]


def is_before(parts: Mapping[str, Arrays]) -> bool:
    """Whether what a file says of the arms is of format 2 or 3."""
    return not parts["evidence"] and bool(parts["tally"] or parts["rows"])


def evidence_before(parts: Mapping[str, Arrays], policy: SlatePolicy) -> dict[str, Arrays]:
    """Return the parts of such a file as those of today's."""
    rows, n, own = parts["rows"], policy.n_arms, facts_of(policy._own)
    if rows:
        require(not parts["tally"], "there must be no tally beside the rows")
        require(all(array.ndim == 1 for array in rows.values()), "there must be a number for each arm")
        require(rows["pulls"].size == n + rows["ghost_divisors"].size, "there must be a row for each arm")
        arms = {name: array[:n] for name, array in rows.items()}
        closed = Tally(arms["pulls"], arms["counts"], arms["sums"], _or_zeros(arms, "between", n))
        told = {"counts": arms["learned"], "sums": arms["gained"], "wins": arms["wins"]}
        told["between"] = _or_zeros(arms, "told_between", n)
        lost = {name: arms.get(name, np.zeros(n, np.int64)) for name in ("missed", "credit")}
        require(not parts["state"], "there must be no state beside the rows")
        exposures, rounds, state = arms["exposures"], 0, own
    else:
        tally = parts["tally"]
        closed = Tally(tally["pulls"], tally["counts"], tally["sums"], _or_zeros(tally, "between", n))
        told = _told_to(parts["state"], closed, policy)
        missed = parts["state"].get("missed", tally.get("missed", np.zeros(n, np.int64)))
        lost = {"missed": missed, "credit": np.zeros(n, np.int64)}
        exposures, rounds = np.zeros(n, np.int64), policy._asked
        state = {name: parts["state"][name] for name in own}
    if policy.throws_coins:
        # What was counted between 0 and 1 is of coins, which never are.
        told["between"] = closed.between + _early(policy)[2]
    else:
        del told["wins"]
    found: dict[str, NDArray[Any]] = {"pulls": closed.pulls, **told, **lost, "exposures": exposures}
    found["rounds"] = np.array([rounds], np.int64)
    names = ("counts", "sums", "between")
    if not all(np.array_equal(told[name], getattr(closed, name)) for name in names):
        found |= {f"settled_{name}": getattr(closed, name) for name in names}
    ghosts = _ghosts(rows, n) if rows else {}
    return {**parts, "evidence": found, "ghosts": ghosts, "rows": {}, "tally": {}, "state": state}


def _told_to(state: Arrays, closed: Tally, policy: SlatePolicy) -> dict[str, NDArray[Any]]:
    """Return what a policy has been told, of closed decisions and in parts of open ones."""
    counts, sums, between = _early(policy)
    told: dict[str, Any] = {"counts": closed.counts + counts, "sums": closed.sums + sums}
    told["between"] = state["between"] if state.get("between", _NONE).size else closed.between + between
    if "wins" in state:
        told["wins"] = state["wins"]
        told["sums"] = told["sums"] if policy.throws_coins else state["wins"]
    elif "sums" in state:
        told["counts"], told["sums"] = state["counts"], state["sums"]
    return {"wins": told["sums"], **told}


def _early(policy: SlatePolicy) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]:
    """Return count, sum and sum of r (1 - r) of the rewards that were learned of open decisions."""
    n = policy.n_arms
    counts, sums, between = np.zeros(n, np.int64), np.zeros(n), np.zeros(n)
    for number, part in policy._parts.items() if policy.learns_at_once else ():
        for arm, reward in part.items():
            if not policy._roster.is_newer(arm, number):
                counts[arm] += 1
                sums[arm] += reward
                between[arm] += reward * (1.0 - reward)
    return counts, sums, between


def _ghosts(rows: Arrays, n: int) -> dict[str, NDArray[Any]]:
    """Return the rows of arms that had begun again, which stood behind the others."""
    if rows["pulls"].size == n:
        return {}
    names = ("pulls", "counts", "sums", "exposures")
    found = {name: rows[name][n:] for name in names}
    return {**found, "between": _or_zeros(rows, "between", rows["pulls"].size)[n:], "divisors": rows["ghost_divisors"]}


def _or_zeros(arrays: Arrays, name: str, size: int) -> NDArray[np.float64]:
    return arrays[name] if name in arrays else np.zeros(size)


_NONE = np.empty(0)
