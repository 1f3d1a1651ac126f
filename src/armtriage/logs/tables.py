"""Tables of others as logs: which columns they have, names instead of numbers, and one row an arm or a decision."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from armtriage._arguments import LARGEST, check_count
from armtriage.arms import Name, Roster
from armtriage.logs.parts import require_polars
from armtriage.logs.sources import schema

if TYPE_CHECKING:
    from polars import LazyFrame

COLUMNS = ("number", "arms", "rewards", "inclusion", "eligible", "observed", "observation", "proposal", "floor", "time")
"""What a table may say of each decision."""

_SHORT = {"arm": "arms", "reward": "rewards", "probability": "inclusion", "propensity": "inclusion"}
_ARMS = ("arms", "eligible", "observed", "proposal")
_ONCE = ("number", "floor", "time")  # what a decision has one of
MISSING = {
    "number": "number: the rows are taken to be in the order in which the decisions were made",
    "rewards": "rewards: nothing can be estimated without them",
    "inclusion": "inclusion, the probability with which each arm was chosen: only estimator='bracket' needs none",
    "eligible": "eligible: all arms are taken to have been eligible in every decision",
    "floor": "floor, which no probability is below: intervals are wider without it, and there is no estimator='total'",
    "proposal": "proposal: there is no estimator='total' without it",
    "n_arms": "n_arms: there are taken to be no other arms than those that occur",
}
"""What a log may lack, and what follows from that."""


class Taken(NamedTuple):
    """A table with our columns, its arms, and what it does not say."""

    rows: LazyFrame
    n_arms: int
    names: list[Name] | None
    missing: tuple[str, ...]


def lazy_of(frame: Any) -> LazyFrame:
    """Return a frame of polars or pandas, or a mapping of columns, as a lazy frame of polars."""
    pl = require_polars()
    if type(frame).__module__.split(".")[0] == "pandas" and hasattr(frame, "columns"):
        frame = pl.DataFrame({str(name): frame[name].to_list() for name in frame.columns}, strict=False)
    elif isinstance(frame, Mapping):
        frame = pl.DataFrame({name: listed(name, values) for name, values in frame.items()}, strict=False)
    if not isinstance(frame, pl.DataFrame | pl.LazyFrame):
        raise TypeError(f"frame must be a frame of polars or pandas, got {type(frame).__name__}")
    found: LazyFrame = frame.lazy()
    return found


def listed(name: str, values: Any) -> list[Any]:
    """Return a column as lists: an array of two dimensions has a row for each decision."""
    scalar = not hasattr(values, "__iter__") or getattr(values, "ndim", None) == 0
    if scalar or isinstance(values, str | bytes | Mapping):
        raise TypeError(f"{name} must be a sequence with an entry for each decision, got {values!r:.100}")
    return [one.tolist() if isinstance(one, np.ndarray) else one for one in values]


def table_of(
    rows: LazyFrame,
    columns: Mapping[str, str],
    n_arms: int | None = None,
    names: Sequence[Name] | None = None,
) -> Taken:
    """Return a table as a log has it.

    Parameters
    ----------
    rows : LazyFrame
        One row for each decision, with lists; or one for each arm of a decision, with the decision's number.
    columns : mapping
        What the table calls our columns, where it has other names for them.
    n_arms : int, optional
        How many arms there are, by default those that occur.
    names : sequence, optional
        What they are called, in the order of their numbers.

    Examples
    --------
    >>> pl = require_polars()
    >>> clicks = pl.LazyFrame({"visit": [7, 7, 8], "arm": ["tea", "jam", "jam"], "reward": [1, 0, 0]})
    >>> taken = table_of(clicks, {"number": "visit"})
    >>> taken.rows.collect()["arms"].to_list(), taken.names
    ([[1, 0], [0]], ['jam', 'tea'])
    """
    pl = require_polars()
    kinds = rows.collect_schema()
    chosen = _chosen(kinds, columns)
    empty = (
        rows.select(pl.col(old).is_null().all().alias(new) for new, old in chosen.items()).collect().row(0, named=True)
    )
    chosen = {new: old for new, old in chosen.items() if new == "arms" or not empty[new]}
    whole = isinstance(kinds[chosen["arms"]], pl.List | pl.Array)
    _check_kinds(rows, chosen, whole)
    found = rows.select(_column(kinds, old, new) for new, old in chosen.items())
    if not whole:
        found = _by_decision(found, list(chosen))
    if "number" not in chosen:
        found = found.with_row_index("number")
    given = found.select("number").collect()["number"]
    numbers = given.cast(pl.Int64, strict=False)
    for value in given.filter((numbers != given).fill_null(True)).head(1):
        raise ValueError(f"number must be a whole number for each decision, got {value}")
    for value in numbers.filter(numbers.is_duplicated()).head(1):
        raise ValueError(f"number must be different for each decision, got {value} twice")
    if not numbers.is_sorted():
        found = found.sort("number")
    found, called = _numbered(found, names, n_arms)
    missing = [name for name in ("number", "rewards", "inclusion", "eligible") if name not in chosen]
    missing += ["floor"] if "floor" not in chosen else ["proposal"] if "proposal" not in chosen else []
    if "inclusion" in missing and ("observation" in chosen or {"proposal", "floor"} <= set(chosen)):
        missing.remove("inclusion")
    if n_arms is None:
        n_arms = len(called) if called is not None else _most(found) + 1
        missing += [] if names is not None else ["n_arms"]
    else:
        check_count("n_arms", n_arms, 1, LARGEST)
        if called is not None and len(called) != n_arms:
            raise ValueError(f"n_arms must be the {len(called)} arms that have names, got {n_arms}")
    return Taken(_filled(found), n_arms, called, tuple(MISSING[name] for name in missing))


def _chosen(kinds: Mapping[str, Any], columns: Mapping[str, str]) -> dict[str, str]:
    """Return what the table calls each of our columns that it has."""
    for name, old in columns.items():
        if name not in COLUMNS:
            raise ValueError(f"columns must be some of {', '.join(COLUMNS)}, got {name!r}")
        if old not in kinds:
            raise ValueError(f"{name} must be a column of the table ({', '.join(kinds)}), got {old!r}")
    found = {name: name for name in COLUMNS if name in kinds}
    found |= {new: old for old, new in _SHORT.items() if old in kinds and new not in found}
    found |= columns
    if "arms" not in found:
        raise ValueError(f"arms must be a column of the table, got {', '.join(kinds) or 'no column'}")
    return found


def _check_kinds(rows: LazyFrame, chosen: Mapping[str, str], whole: bool) -> None:
    """Refuse columns that do not have what they must; `whole` if a row is a decision, and not one arm of it."""
    pl = require_polars()
    kinds: Mapping[str, Any] = rows.collect_schema()
    for new, old in chosen.items():
        if new == "time":
            continue
        kind, accepted = kinds[old], "numbers"
        listed = isinstance(kind, pl.List | pl.Array)
        inner = kind.inner if listed else kind
        right = inner.is_numeric() or inner == pl.Null or (inner == pl.Boolean and new == "rewards")
        if new in _ARMS:
            accepted = "whole numbers, or names, of arms"
            right = inner.is_integer() or inner == pl.Null or isinstance(inner, pl.String | pl.Categorical | pl.Enum)
        many = new == "eligible" or (whole and new not in _ONCE)
        if right and listed == many:
            continue
        accepted = f"{accepted}, a list for each decision" if many else f"{accepted}, one in a row"
        given = pl.col(old).drop_nulls()
        if kind == pl.String and not many:  # a column is text because of some of its values
            given = given.sort_by(given.cast(pl.Float64, strict=False).is_not_null(), maintain_order=True)
        got = rows.select(given.first()).collect().item()
        shown = got.to_list() if isinstance(got, pl.Series) else got
        raise TypeError(f"{new} must be {accepted}, got {shown!r:.100} of kind {kind}")


def _column(kinds: Mapping[str, Any], old: str, new: str) -> Any:
    """Return a column by our name; arrays of one length are lists, too."""
    pl = require_polars()
    kind, found = kinds[old], pl.col(old)
    return (found.cast(pl.List(kind.inner)) if isinstance(kind, pl.Array) else found).alias(new)


def _by_decision(rows: LazyFrame, chosen: Sequence[str]) -> LazyFrame:
    """Return one row for each decision of a table that has one for each arm of it."""
    pl = require_polars()
    if "number" not in chosen:
        raise ValueError("number must be a column where a row is one arm of a decision: which rows belong together")
    once = [name for name in chosen if name in ("eligible", *_ONCE) and name != "number"]
    lists = [name for name in chosen if name not in ("number", *once)]
    return rows.group_by("number", maintain_order=True).agg(*lists, *(pl.col(one).first() for one in once))


def _numbered(rows: LazyFrame, names: Sequence[Name] | None, n_arms: int | None) -> tuple[LazyFrame, list[Name] | None]:
    """Return the table with numbers of arms, and their names if it has names."""
    pl = require_polars()
    kinds: Mapping[str, Any] = rows.collect_schema()
    present = [name for name in _ARMS if name in kinds]
    inner = kinds["arms"].inner
    called: list[Any] | None = None if names is None else list(names)
    if called is not None:
        Roster(len(called), called)
    if inner == pl.String or isinstance(inner, pl.Categorical | pl.Enum) or called is not None:
        if called is None:
            seen = pl.concat([rows.select(pl.col(one).explode().cast(pl.String).alias("name")) for one in present])
            called = sorted(seen.drop_nulls().unique().collect()["name"].to_list())
        kind = pl.Int64 if all(isinstance(one, int) for one in called) else pl.String
        keys = pl.Series([str(one) if kind == pl.String else one for one in called], dtype=kind)
        numbers = pl.element().cast(kind).replace_strict(keys, pl.Series(range(len(called))), return_dtype=pl.Int64)
        strange = rows.select(pl.col("arms").explode().cast(kind)).collect().to_series()
        for name in strange.filter(~strange.is_in(keys.implode())).drop_nulls().head(1):
            raise ValueError(f"names must have every arm of the table, got none for {name!r}")
        return rows.with_columns(pl.col(one).list.eval(numbers) for one in present), called
    return rows, None


def _most(rows: LazyFrame) -> int:
    """Return the largest number of an arm."""
    pl = require_polars()
    present = [name for name in _ARMS if name in rows.collect_schema()]
    found = rows.select(pl.max_horizontal(pl.col(one).list.max().max() for one in present)).collect().item()
    if found is None:
        raise ValueError("arms must have an arm or more, got none")
    if found >= LARGEST:
        raise ValueError(f"arms must be numbers below {LARGEST}, got {found}")
    return int(found)


def _filled(rows: LazyFrame) -> LazyFrame:
    """Return the table with all columns, of the kinds that a log has."""
    pl = require_polars()
    kinds = {**schema(pl), "eligible": None} | dict.fromkeys(_ARMS, pl.List(pl.Int64))
    del kinds["pattern"]
    present = rows.collect_schema()
    filled = rows.with_columns(
        pl.col(name).cast(kind, strict=False) if name in present else pl.lit(None, kind).alias(name)
        for name, kind in kinds.items()
    )
    return filled.with_columns(pl.coalesce("observed", "arms").alias("observed")).select(list(kinds))
