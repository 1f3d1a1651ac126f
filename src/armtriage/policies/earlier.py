"""What files of formats 2 and 3 kept of policies that keep `policies.evidence` now, read as evidence.

While all arms were always eligible, they kept a tally and the policy's own counts; after that, a row for each arm. Of
numbers they kept the whole ones of a record in one array and the others in a second one, in the order named here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from armtriage.certificate import Tally
from armtriage.kernels.record import Floats, Ints, Record
from armtriage.policies.facts import facts_of, require, within
from armtriage.policies.saved import part_of

if TYPE_CHECKING:
    from armtriage.policies.slate import SlatePolicy

Arrays = Mapping[str, NDArray[Any]]

_SETS = ("least", "", "", "", "dirty", "advanced", "clock", "n_logged", "failures")
_BOOK = (
    ("", "n_admitted", "layer", "time", "", "", "", "forced", "", "rest"),
    ("spent", "allowed", "gap", "spread", "total"),
)
_SAMPLER = ("", "", "", "", "", "next_fit"), ("", "", "", "", "", "", "prior_wins", "prior_losses")
_ROWS = (
    (
        *("", "", "", "clock", "", "failures", "", "", "", "n_admitted", "", "forced", "", "", "", "resume"),
        "",
        "next_fit",
    ),
    (
        *("", "", "", "", "", "", "", "", "", "spent", "allowed", "", "", "gap", "total", "forced_cost", "floor"),
        *("prior_wins", "prior_losses"),
    ),
)


_FAILURES = 6  # where the book of a decision set counted contradictions


def is_before(parts: Mapping[str, Arrays]) -> bool:
    """Whether what a file says of the arms is of format 2 or 3."""
    return not parts["evidence"] and bool(parts["tally"] or parts["rows"])


def evidence_before(parts: Mapping[str, Arrays], policy: SlatePolicy) -> dict[str, Arrays]:
    """Return the parts of such a file as those of today's."""
    rows, n, own = parts["rows"], policy.n_arms, facts_of(policy._own)
    ends: dict[str, NDArray[Any]] = {}
    if rows:
        require(not parts["tally"], "there must be no tally beside the rows")
        require(all(array.ndim == 1 for array in rows.values()), "there must be a number for each arm")
        require(rows["pulls"].size == n + rows["ghost_divisors"].size, "there must be a row for each arm")
        arms = {name: array[:n] for name, array in rows.items()}
        closed = Tally(arms["pulls"], arms["counts"], arms["sums"], _or_zeros(arms, "between", n))
        told = {"counts": arms["learned"], "sums": arms["gained"], "wins": arms["wins"]}
        told["between"] = _or_zeros(arms, "told_between", n)
        lost = {name: arms.get(name, np.zeros(n, np.int64)) for name in ("missed", "credit")}
        exposures, rounds = arms["exposures"], 0
        numbers = _numbers(rows, *_ROWS)
        state = _state_of_rows(rows, numbers, parts["state"], own, policy)
        ends = {name: arms[name] for name in ("lower", "upper", "due")}
    else:
        tally, old = parts["tally"], parts["state"]
        closed = Tally(tally["pulls"], tally["counts"], tally["sums"], _or_zeros(tally, "between", n))
        sets = (
            {name: old[name] for name in old}
            if "status" in old
            else part_of(old, "sets.") or part_of(old, "guard.sets.")
        )
        told = _told_to(part_of(old, "sampler.") or ({} if sets else old), closed, policy)
        missed = sets.get("missed", old.get("missed", tally.get("missed", np.zeros(n, np.int64))))
        lost = {"missed": missed, "credit": sets.get("credit", np.zeros(n, np.int64))}
        exposures, rounds = np.zeros(n, np.int64), policy._asked
        numbers = _numbers(sets, _SETS, ())
        own_names = [name for name in old if name in own or name.startswith("book.")]
        state = _state_of_sets(old, sets, numbers, own, policy) if sets else {name: old[name] for name in own_names}
        state |= {name: old[name] for name in old if name.startswith(("pages.", "by_set.", "proposer."))}
        ends = {name: sets[name] for name in ("lower", "upper", "due") if name in sets}
    if policy.throws_coins:
        # What was counted between 0 and 1 is of coins, which never are.
        told["between"] = closed.between + _early(policy)[2]
    else:
        del told["wins"]
    found: dict[str, NDArray[Any]] = {"pulls": closed.pulls, **told, **lost, "exposures": exposures}
    found["rounds"] = np.array([rounds], np.int64)
    if policy.keeps_intervals:
        found |= {**ends, "failures": np.array([numbers.get("failures", 0)], np.int64)}
    names = ("counts", "sums", "between")
    if not all(np.array_equal(told[name], getattr(closed, name)) for name in names):
        found |= {f"settled_{name}": getattr(closed, name) for name in names}
    ghosts = _ghosts(rows, n, policy) if rows else {}
    return {**parts, "evidence": found, "ghosts": ghosts, "rows": {}, "tally": {}, "state": state}


def with_ends(parts: Mapping[str, Arrays], policy: SlatePolicy) -> Mapping[str, Arrays]:
    """Return the parts of a file in which a guard over a decision set kept the evidence and its intervals itself."""
    state, n = dict(parts["state"]), policy.n_arms
    if "book.due" not in state:
        return parts
    kept = {name: state.pop(f"book.{name}") for name in ("lower", "upper", "due", "counts", "sums", "whole")}
    require(
        all(kept[name].shape == (n,) for name in ("lower", "upper", "due", "counts", "sums")),
        "the book must have a number for each arm",
    )
    require(kept["whole"].shape == (_FAILURES + 2,), "the book must have its numbers")
    require(np.array_equal(kept["counts"], parts["evidence"]["counts"]), "counts must be those of the tally")
    for name in ("between", "missed"):
        state.pop(f"book.{name}", None)
    state["book.whole"] = np.delete(kept["whole"], _FAILURES)
    ends = {name: np.clip(kept[name] - policy._offset, 0.0, 1.0) for name in ("lower", "upper")}
    failures = kept["whole"][_FAILURES : _FAILURES + 1]
    return {
        **parts,
        "state": state,
        "evidence": {**parts["evidence"], **ends, "due": kept["due"], "failures": failures},
    }


def _numbers(arrays: Arrays, whole: tuple[str, ...], real: tuple[str, ...]) -> dict[str, Any]:
    """Return the numbers that an array of each kind has, by name; the oldest files have fewer."""
    found: dict[str, Any] = {}
    for names, kind in ((whole, "whole"), (real, "real")):
        for name, value in zip(names, arrays.get(kind, _NONE).tolist(), strict=False):
            if name:
                found[name] = value
    return found


def _with_numbers(record: Record, prefix: str, numbers: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
    """Return the facts of a new record that are numbers, some of which are given."""
    for name, number in numbers.items():
        if name in record._numbers and record.is_fact(name):
            setattr(record, name, number)
    return {f"{prefix}{bag}": array.copy() for bag, array in facts_of(record).items() if bag in ("whole", "real")}


def _state_of_sets(
    old: Arrays, sets: Arrays, numbers: Mapping[str, Any], own: Arrays, policy: SlatePolicy
) -> dict[str, NDArray[Any]]:
    """Return the state of elimination, or of a guard, while all arms were always eligible."""
    record, n = policy._own, policy.n_arms
    new = {name: array.copy() for name, array in own.items()}
    if hasattr(record, "sets"):
        new |= {f"sets.{name}": sets[name] for name in ("status", "log_arms", "log_rounds", "layer.waiting")}
        if new["sets.preference"].size:
            new["sets.preference"] = sets["preference"]
        return new | _with_numbers(record.sets, "sets.", numbers)
    whole = "guard.book." if "guard.book.pulls" in old else "book."
    book = part_of(old, whole)
    known = {**numbers, **_numbers(book, *_BOOK), "renewed": int(book["marks"].sum())}
    known |= {"offered_rounds": known["n_admitted"], "wholes": int(policy._asked > 0), "is_new": int(not policy._asked)}
    known |= {"floor": known["allowed"], "layer_size": known["time"], "layer_pulls": known["time"]}
    size = min(n, new["book.ceiling"].size)
    ceiling = book["ceiling"][:size]
    within("ceiling", ceiling, 0, n - 1)
    upper = sets["upper"][ceiling]
    order = np.argsort(-upper, kind="stable")
    new["book.ceiling"][:size], new["book.ends"][:size] = ceiling[order], upper[order]
    new |= {f"book.{name}": sets[name] for name in ("status", "log_arms", "log_rounds")}
    new["book.admitted"] = book["admitted"]
    new |= _with_numbers(policy._book, "book.", known)  # type: ignore[attr-defined]
    if hasattr(record, "sampler"):
        new |= _with_numbers(record.sampler, "sampler.", _numbers(part_of(old, "sampler."), *_SAMPLER))
        new |= {f"looks.{name}": array for name, array in part_of(old, "looks.").items()}
    return {**new, "patterns": np.zeros(0, np.uint64), **_by_pattern({}, known["total"], policy)}


def _state_of_rows(
    rows: Arrays, numbers: dict[str, Any], old: Arrays, own: Arrays, policy: SlatePolicy
) -> dict[str, NDArray[Any]]:
    """Return the state of elimination, or of a guard, once requests have differed."""
    record, n = policy._own, policy.n_arms
    new = {name: array.copy() for name, array in own.items()}
    if hasattr(record, "sets"):
        return new | _with_numbers(record.sets, "sets.", {"clock": numbers["clock"]})
    if not hasattr(policy, "_book"):
        require(not old, "there must be no state beside the rows")
        return new
    # All arms are sorted again before the next decision among them.
    known = {**numbers, "of_all": 0, "renewed": n}
    known["layer"] = policy.budget * policy._asked // max(n * policy.budget, 1)
    new |= {f"book.{name}": rows[name][:n] for name in ("admitted", "offered")}
    new |= _with_numbers(policy._book, "book.", known)
    if hasattr(record, "sampler"):
        new |= _with_numbers(record.sampler, "sampler.", numbers)
    kept = {name: array for name, array in old.items() if name.startswith("proposer.")}
    by_pattern = _by_pattern(part_of(old, "patterns."), 0.0, policy)
    return {**new, **kept, "patterns": rows["patterns"], **by_pattern}


def _by_pattern(old: Arrays, total: float, policy: Any) -> dict[str, NDArray[Any]]:
    """Return the certificate's book of eligible sets, if there is one; what was lost before it is known as a number."""
    if policy._patterns is None:
        return {}
    if not old:
        policy._patterns.frozen += total
        old = policy._patterns.to_arrays()
    return {f"by_pattern.{name}": array for name, array in old.items()}


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


def _early(policy: SlatePolicy) -> tuple[Ints, Floats, Floats]:
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


def _ghosts(rows: Arrays, n: int, policy: SlatePolicy) -> dict[str, NDArray[Any]]:
    """Return the rows of arms that had begun again, which stood behind the others."""
    if rows["pulls"].size == n:
        return {}
    names = tuple(name for name in policy._ghosts if name not in ("between", "divisors"))
    found = {name: rows[name][n:] for name in names}
    return {**found, "between": _or_zeros(rows, "between", rows["pulls"].size)[n:], "divisors": rows["ghost_divisors"]}


def _or_zeros(arrays: Arrays, name: str, size: int) -> Floats:
    return arrays[name] if name in arrays else np.zeros(size)


_NONE = np.empty(0)
