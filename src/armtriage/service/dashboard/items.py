"""The arms of a policy for a page of the table: sorted, searched, and with the reason of each state in words."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from armtriage.service.dashboard.sight import ACTIVE, CONFIRMED, RETIRED, STATES, Sight

__all__ = ["PAGE", "SORTS", "items", "reasons", "table"]

PAGE = 25
"""Arms on a page of the table."""

_RARE = 0.01  # of the latest decisions: an arm that is in fewer need not be explained

SORTS = ("mean", "open", "interval", "share", "seen", "name")
"""By what the table can be sorted."""


def items(
    sight: Sight, *, sort: str = "mean", up: bool = False, search: str = "", state: str = "", page: int = 0
) -> dict[str, Any]:
    """Return a page of arms: those whose names contain a text, and that are in a state, best first.

    Examples
    --------
    >>> from armtriage import GuardedThompson
    >>> from armtriage.service.dashboard.sight import look
    >>> sight = look(GuardedThompson(3, budget=1, names=["tea", "milk", "jam"], seed=7))
    >>> found = items(sight, search="m")
    >>> found["found"], [row["id"] for row in found["rows"]]
    (2, ['milk', 'jam'])
    >>> found["rows"][0]["why"]
    'Never seen yet, so its mean may be anything.'
    """
    wanted = search.casefold()
    keep = np.array([wanted in name.casefold() for name in sight.names], np.bool_) if wanted else None
    kept = np.arange(len(sight.names)) if keep is None else np.flatnonzero(keep)
    if state in STATES:
        kept = kept[sight.states[kept] == STATES.index(state)]
    order = _ordered(sight, kept, sort, up)
    page = max(0, min(page, (order.size - 1) // PAGE))
    shown = order[page * PAGE : (page + 1) * PAGE]
    return {
        "rows": _rows(sight, shown),
        "found": int(order.size),
        "total": len(sight.names),
        "page": page,
        "pages": max((order.size + PAGE - 1) // PAGE, 1),
        "line": _line(sight),
        "axis": _axis(sight, shown),
        "lately": sight.lately,
    }


def table(sight: Sight) -> list[tuple[Any, ...]]:
    """Return all arms, for a file; with a row of headings."""
    head = ("item", "state", "mean", "low", "high", "share", "seen", "reason")
    rows = _rows(sight, np.arange(len(sight.names)))
    names = ("id", "state", "mean", "low", "high", "share", "seen", "why")
    return [head, *(tuple(row[name] for name in names) for row in rows)]


def _ordered(sight: Sight, kept: NDArray[np.int64], sort: str, up: bool) -> NDArray[np.int64]:
    """Return arms in the order that is asked for; retired ones and those without a value come last."""
    if sort == "name":
        found = np.array(sorted(kept.tolist(), key=lambda arm: sight.names[arm].casefold()), np.int64)
        return found[::-1] if up else found
    if sort in ("mean", "open", "interval") and sight.lower is None:
        sort = "share"
    good = -sight.means if sight.direction == "minimize" else sight.means
    if sort == "interval":
        assert sight.lower is not None
        assert sight.upper is not None
        value = sight.upper - sight.lower
    else:
        value = {"share": sight.shares, "seen": sight.counts.astype(np.float64)}.get(sort, good)
    value = np.where(np.isfinite(value), value, -np.inf)[kept]
    first = np.zeros(kept.size)
    if sort == "open":
        first = np.where(sight.states[kept] == ACTIVE, 0.0, 1.0)
    gone = sight.states[kept] == RETIRED
    return kept[np.lexsort((kept, value if up else -value, first, gone))]


def _rows(sight: Sight, arms: NDArray[np.int64]) -> list[dict[str, Any]]:
    said = reasons(sight, arms)

    def number(values: NDArray[np.float64] | None, arm: int) -> float | None:
        return None if values is None or not np.isfinite(values[arm]) else round(float(values[arm]), 9)

    return [
        {
            "id": sight.names[arm],
            "state": STATES[sight.states[arm]] if sight.lower is not None or sight.states[arm] == RETIRED else "",
            "mean": number(sight.means, arm),
            "low": number(sight.lower, arm),
            "high": number(sight.upper, arm),
            "share": round(float(sight.shares[arm]), 6),
            "pulls": int(sight.pulls[arm]),
            "seen": int(sight.counts[arm]),
            "why": why,
        }
        for arm, why in zip(arms.tolist(), said, strict=True)
    ]


def _line(sight: Sight) -> float | None:
    """Return the mean of the last arm of the best decision by means, where decisions are slates."""
    live = sight.live
    if sight.lower is None or sight.family or live.size <= sight.budget:
        return None
    means = sight.means[live]
    known = np.sort(means[np.isfinite(means)])
    if known.size < sight.budget:
        return None
    return float(known[sight.budget - 1] if sight.direction == "minimize" else known[-sight.budget])


def _axis(sight: Sight, arms: NDArray[np.int64]) -> list[float] | None:
    """Return where the drawing of intervals begins and ends."""
    if sight.lower is None or sight.upper is None or not arms.size:
        return None
    low, high = float(sight.lower[arms].min()), float(sight.upper[arms].max())
    line = _line(sight)
    if line is not None:
        low, high = min(low, line), max(high, line)
    return [low, high if high > low else low + 1.0]


def reasons(sight: Sight, arms: NDArray[np.int64]) -> list[str]:
    """Return for each of some arms why it is in its state."""
    if sight.certificate is not None and sight.certificate.contradictions:
        withdrawn = "Open again: its or another interval contradicted its past, so no mean is certain."
        return [_retired() if sight.states[arm] == RETIRED else withdrawn for arm in arms.tolist()]
    if sight.lower is None or sight.upper is None:
        kind = "Judged by its context in every request, so it has no mean of its own."
        return [_retired() if sight.states[arm] == RETIRED else kind for arm in arms.tolist()]
    if sight.family:
        return [_of_sets(sight, arm) for arm in arms.tolist()]
    costs, live, size = sight.direction == "minimize", sight.live, sight.budget
    best = f"the {'cheapest' if costs else 'best'}{f' {size:,}' if size > 1 else ''}"
    if live.size <= size:
        fits = "All items that may be shown fit into one decision."
        return [_retired() if sight.states[arm] == RETIRED else fits for arm in arms.tolist()]
    # By how good an arm is at least and at most; with costs less is better.
    least, most = (-sight.upper, -sight.lower) if costs else (sight.lower, sight.upper)
    others = live.size - size
    floor = float(np.partition(least[live], others)[others])
    ceiling = float(np.partition(most[live], others - 1)[others - 1])

    def shown(value: float) -> str:
        return f"{0.0 - value if costs else value:.4g}"

    at_least, at_most = ("at most", "at least") if costs else ("at least", "at most")
    mean, place = "mean cost" if costs else "mean", f"among {best}" if size > 1 else best
    rivals = f"{size:,} items have" if size > 1 else "another item has"
    found = []
    for arm in arms.tolist():
        state = sight.states[arm]
        if state == RETIRED:
            why = _retired()
        elif state == CONFIRMED:
            why = (
                f"Its {mean} is {at_least} {shown(least[arm])}, and {others:,} of the {live.size:,} items have "
                f"{at_most} {shown(ceiling)}: it is certainly {place}."
            )
        elif state != ACTIVE:
            why = (
                f"Its {mean} is {at_most} {shown(most[arm])}, and {rivals} {at_least} {shown(floor)}: "
                f"it is certainly not {place}.{_still_shown(sight, arm)}"
            )
        elif not sight.counts[arm]:
            why = f"Never seen yet, so its {mean} may be anything.{_silence(sight, arm)}"
        elif arm in sight.chosen:
            why = (
                f"{place[0].upper()}{place[1:]} so far, and not for certain: its {mean} may be "
                f"{'as high as' if costs else 'only'} {shown(least[arm])}, while others may reach {shown(ceiling)}."
                f"{_silence(sight, arm)}"
            )
        else:
            why = (
                f"Its {mean} may still be {shown(most[arm])}, {'below' if costs else 'above'} the {shown(floor)} "
                f"that would rule it out.{_silence(sight, arm)}"
            )
        found.append(why)
    return found


def _retired() -> str:
    return "Retired: it is shown no more. What it cost counts in what was lost."


def _silence(sight: Sight, arm: int) -> str:
    return " Its last rewards did not come, so it is hardly tried." if arm in sight.silent else ""


def _still_shown(sight: Sight, arm: int) -> str:
    """Return why an arm is shown that is certainly not among the best."""
    share, waiting = float(sight.shares[arm]), int(sight.waiting[arm])
    if share < _RARE:
        return ""
    shown = f" Yet it was in {share:.0%} of the last {sight.lately:,} decisions: "
    if not waiting:
        return f"{shown}some came before this was certain, and items are chosen by what seems best."
    which = "1 decision with it is" if waiting == 1 else f"{waiting:,} decisions with it are"
    return (
        f"{shown}what is certain waits until decisions are closed, while choosing also counts what open ones have "
        f"told; {which} open."
    )


def _of_sets(sight: Sight, arm: int) -> str:
    state = sight.states[arm]
    if state == RETIRED:
        return _retired()
    if state == CONFIRMED:
        return "In every decision that may still be the best."
    if state == ACTIVE:
        where = "In the best decision by the means so far" if arm in sight.chosen else "Not in the best decision so far"
        return f"{where}; some decisions that may still be the best have it, and some have not.{_silence(sight, arm)}"
    return f"In no decision that may still be the best.{_still_shown(sight, arm)}"
