"""The arms of a policy for a page of the table: sorted, searched, and with the reason of each state in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from armtriage.service.asgi import whole_number
from armtriage.service.view import ACTIVE, CONFIRMED, RARE, RETIRED, STATES, PolicyView

# Where the intervals that are shown, of all items together, do not say it by themselves.
_ONE_END = "It takes one end of each item's interval only, and these are narrower than shown: it is certainly"

PAGE = 25
"""Arms on a page of the table."""


def asked_for(view: PolicyView, chosen: Mapping[str, str]) -> dict[str, Any]:
    """Return the page of arms that an address asks for; the address is untrusted."""
    return items(
        view,
        sort=chosen.get("sort", "mean"),
        up=chosen.get("up") == "1",
        search=chosen.get("search", "")[:128],
        state=chosen.get("state", ""),
        page=whole_number(chosen.get("page", "0"), 7) or 0,
    )


def items(
    view: PolicyView, *, sort: str = "mean", up: bool = False, search: str = "", state: str = "", page: int = 0
) -> dict[str, Any]:
    """Return a page of arms: those whose names contain a text, and that are in a state, best first.

    Examples
    --------
    >>> from armtriage import GuardedThompson
    >>> from armtriage.service.view import look
    >>> view = look(GuardedThompson(3, budget=1, names=["tea", "milk", "jam"], seed=7))
    >>> found = items(view, search="m")
    >>> found["found"], [row["id"] for row in found["rows"]]
    (2, ['milk', 'jam'])
    >>> found["rows"][0]["why"]
    'Never seen yet, so its mean may be anything.'
    """
    wanted = search.casefold()
    keep = np.array([wanted in name.casefold() for name in view.names], np.bool_) if wanted else None
    kept = np.arange(len(view.names)) if keep is None else np.flatnonzero(keep)
    if state in STATES:
        kept = kept[view.states[kept] == STATES.index(state)]
    order = _ordered(view, kept, sort, up)
    page = max(0, min(page, (order.size - 1) // PAGE))
    shown = order[page * PAGE : (page + 1) * PAGE]
    return {
        "rows": _rows(view, shown),
        "found": int(order.size),
        "total": len(view.names),
        "page": page,
        "pages": max((order.size + PAGE - 1) // PAGE, 1),
        "line": _line(view),
        "axis": _axis(view, shown),
        "lately": view.latest,
    }


def table(view: PolicyView) -> list[tuple[Any, ...]]:
    """Return all arms, for a file; with a row of headings."""
    head = ("item", "state", "mean", "low", "high", "share", "seen", "reason")
    rows = _rows(view, np.arange(len(view.names)))
    names = ("id", "state", "mean", "low", "high", "share", "seen", "why")
    return [head, *(tuple(row[name] for name in names) for row in rows)]


def _ordered(view: PolicyView, kept: NDArray[np.int64], sort: str, up: bool) -> NDArray[np.int64]:
    """Return arms in the order that is asked for; retired ones and those without a value come last."""
    if sort == "name":
        found = np.array(sorted(kept.tolist(), key=lambda arm: view.names[arm].casefold()), np.int64)
        return found[::-1] if up else found
    if sort in ("mean", "open", "interval") and view.lower is None:
        sort = "share"
    good = -view.means if view.direction == "minimize" else view.means
    if sort == "interval":
        assert view.lower is not None
        assert view.upper is not None
        value = view.upper - view.lower
    else:
        value = {"share": view.shares, "seen": view.counts.astype(np.float64)}.get(sort, good)
    value = np.where(np.isfinite(value), value, -np.inf)[kept]
    first = np.zeros(kept.size)
    if sort == "open":
        first = np.where(view.states[kept] == ACTIVE, 0.0, 1.0)
    gone = view.states[kept] == RETIRED
    return kept[np.lexsort((kept, value if up else -value, first, gone))]


def _rows(view: PolicyView, arms: NDArray[np.int64]) -> list[dict[str, Any]]:
    said = reasons(view, arms)

    def number(values: NDArray[np.float64] | None, arm: int) -> float | None:
        return None if values is None or not np.isfinite(values[arm]) else round(float(values[arm]), 9)

    return [
        {
            "id": view.names[arm],
            "state": STATES[view.states[arm]] if view.lower is not None or view.states[arm] == RETIRED else "",
            "mean": number(view.means, arm),
            "low": number(view.lower, arm),
            "high": number(view.upper, arm),
            "share": round(float(view.shares[arm]), 6),
            "pulls": int(view.pulls[arm]),
            "seen": int(view.counts[arm]),
            "why": why,
        }
        for arm, why in zip(arms.tolist(), said, strict=True)
    ]


def _line(view: PolicyView) -> float | None:
    """Return the mean of the last arm of the best decision by means, where decisions are slates."""
    live = view.live
    if view.lower is None or view.family or live.size <= view.budget:
        return None
    means = view.means[live]
    known = np.sort(means[np.isfinite(means)])
    if known.size < view.budget:
        return None
    return float(known[view.budget - 1] if view.direction == "minimize" else known[-view.budget])


def _axis(view: PolicyView, arms: NDArray[np.int64]) -> list[float] | None:
    """Return where the drawing of intervals begins and ends."""
    if view.lower is None or view.upper is None or not arms.size:
        return None
    low, high = float(view.lower[arms].min()), float(view.upper[arms].max())
    line = _line(view)
    if line is not None:
        low, high = min(low, line), max(high, line)
    return [low, high if high > low else low + 1.0]


def reasons(view: PolicyView, arms: NDArray[np.int64]) -> list[str]:
    """Return for each of some arms why it is in its state."""
    if view.certificate is not None and view.certificate.contradictions:
        withdrawn = "Open again: its or another interval contradicted its past, so no mean is certain."
        return [_retired() if view.states[arm] == RETIRED else withdrawn for arm in arms.tolist()]
    if view.lower is None or view.upper is None:
        kind = "Judged by its context in every request, so it has no mean of its own."
        return [_retired() if view.states[arm] == RETIRED else kind for arm in arms.tolist()]
    if view.family:
        return [_of_sets(view, arm) for arm in arms.tolist()]
    costs, live, size = view.direction == "minimize", view.live, view.budget
    best = f"the {'cheapest' if costs else 'best'}{f' {size:,}' if size > 1 else ''}"
    if live.size <= size:
        fits = "All items that may be shown fit into one decision."
        return [_retired() if view.states[arm] == RETIRED else fits for arm in arms.tolist()]
    # By how good an arm is at least and at most; with costs less is better.
    least, most = (-view.upper, -view.lower) if costs else (view.lower, view.upper)
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
        state = view.states[arm]
        if state == RETIRED:
            why = _retired()
        elif state == CONFIRMED and least[arm] <= ceiling:
            why = f"{_ONE_END} {place}."
        elif state == CONFIRMED:
            why = (
                f"Its {mean} is {at_least} {shown(least[arm])}, and {others:,} of the {live.size:,} items have "
                f"{at_most} {shown(ceiling)}: it is certainly {place}."
            )
        elif state != ACTIVE and most[arm] >= floor:
            why = f"{_ONE_END} not {place}.{_still_shown(view, arm)}"
        elif state != ACTIVE:
            why = (
                f"Its {mean} is {at_most} {shown(most[arm])}, and {rivals} {at_least} {shown(floor)}: "
                f"it is certainly not {place}.{_still_shown(view, arm)}"
            )
        elif not view.counts[arm]:
            why = f"Never seen yet, so its {mean} may be anything.{_silence(view, arm)}"
        elif arm in view.chosen:
            why = (
                f"{place[0].upper()}{place[1:]} so far, and not for certain: its {mean} may be "
                f"{'as high as' if costs else 'only'} {shown(least[arm])}, while others may reach {shown(ceiling)}."
                f"{_silence(view, arm)}"
            )
        else:
            why = (
                f"Its {mean} may still be {shown(most[arm])}, {'below' if costs else 'above'} the {shown(floor)} "
                f"that would rule it out.{_silence(view, arm)}"
            )
        found.append(why)
    return found


def _retired() -> str:
    return "Retired: it is shown no more. What it cost counts in what was lost."


def _silence(view: PolicyView, arm: int) -> str:
    return " Its last rewards did not come, so it is hardly tried." if arm in view.silent else ""


def _still_shown(view: PolicyView, arm: int) -> str:
    """Return why an arm is shown that is certainly not among the best."""
    share, waiting = float(view.shares[arm]), int(view.waiting[arm])
    if share < RARE:
        return ""
    shown = f" Yet it was in {share:.0%} of the last {view.latest:,} decisions: "
    if not waiting:
        return f"{shown}some came before this was certain, and items are chosen by what seems best."
    which = "1 decision with it is" if waiting == 1 else f"{waiting:,} decisions with it are"
    return (
        f"{shown}what is certain waits until decisions are closed, while choosing also counts what open ones have "
        f"told; {which} open."
    )


def _of_sets(view: PolicyView, arm: int) -> str:
    state = view.states[arm]
    if state == RETIRED:
        return _retired()
    if state == CONFIRMED:
        return "In every decision that may still be the best."
    if state == ACTIVE:
        where = "In the best decision by the means so far" if arm in view.chosen else "Not in the best decision so far"
        return f"{where}; some decisions that may still be the best have it, and some have not.{_silence(view, arm)}"
    return f"In no decision that may still be the best.{_still_shown(view, arm)}"
