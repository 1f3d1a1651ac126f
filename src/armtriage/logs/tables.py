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
_MISSING = {
    "number": "number: the rows are taken to be in the order in which the decisions were made",
    "rewards": "rewards: nothing can be estimated without them",
    "inclusion": "inclusion, the probability with which each arm was chosen: only estimator='bracket' needs none",
    "eligible": "eligible: all arms are taken to have been eligible in every decision",
    "proposal": "proposal and floor: intervals are wider without them, and there is no estimator='total'",
    "n_arms": "n_arms: there are taken to be no other arms than those that occur",
}


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
        frame = pl.DataFrame({name: _plain(values) for name, values in frame.items()}, strict=False)
    if not isinstance(frame, pl.DataFrame | pl.LazyFrame):
        raise TypeError(f"frame must be a frame of polars or pandas, got {type(frame).__name__}")
    found: LazyFrame = frame.lazy()
    return found


def _plain(values: Any) -> Any:
    """Return a column as lists: an array of two dimensions has a row for each decision."""
    if isinstance(values, np.ndarray):
        return values.tolist()
    if isinstance(values, str | bytes | Mapping) or not hasattr(values, "__iter__"):
        raise TypeError(f"a column must be a sequence with an entry for each decision, got {values!r:.100}")
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
    if not isinstance(kinds[chosen["arms"]], pl.List | pl.Array):
        found = _by_decision(rows, chosen)
    else:
        found = rows.select(pl.col(old).alias(new) for new, old in chosen.items())
    if "number" not in chosen:
        found = found.with_row_index("number")
    numbers = found.select(pl.col("number").cast(pl.Int64)).collect()["number"]
    if numbers.null_count() or numbers.n_unique() != numbers.len():
        twice = numbers.filter(numbers.is_duplicated())
        raise ValueError(f"number must be different for each decision, got {twice[0] if twice.len() else None} twice")
    if not numbers.is_sorted():
        found = found.sort("number")
    found, called = _numbered(found, names, n_arms)
    missing = [name for name in ("number", "rewards", "inclusion", "eligible") if name not in chosen]
    missing += [] if {"proposal", "floor"} <= set(chosen) else ["proposal"]
    if "inclusion" in missing and ("observation" in chosen or "proposal" not in missing):
        missing.remove("inclusion")
    if n_arms is None:
        n_arms = len(called) if called is not None else _most(found) + 1
        missing += [] if names is not None else ["n_arms"]
    else:
        check_count("n_arms", n_arms, 1, LARGEST)
        if called is not None and len(called) != n_arms:
            raise ValueError(f"n_arms must be the {len(called)} arms that have names, got {n_arms}")
    return Taken(_filled(found), n_arms, called, tuple(_MISSING[name] for name in missing))


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


def _by_decision(rows: LazyFrame, chosen: Mapping[str, str]) -> LazyFrame:
    """Return one row for each decision of a table that has one for each arm of it."""
    pl = require_polars()
    if "number" not in chosen:
        raise ValueError("number must be a column where a row is one arm of a decision: which rows belong together")
    each = [pl.col(old).alias(new) for new, old in chosen.items() if new != "eligible"]
    once = [name for name in ("floor", "time") if name in chosen]
    lists = [name for name in chosen if name not in ("number", "eligible", *once)]
    return rows.select(each).group_by("number", maintain_order=True).agg(*lists, *(pl.col(one).first() for one in once))


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
    if not inner.is_integer():
        raise TypeError(f"arms must be whole numbers or names, got {inner}")
    return rows, None


def _most(rows: LazyFrame) -> int:
    """Return the largest number of an arm."""
    pl = require_polars()
    present = [name for name in _ARMS if name in rows.collect_schema()]
    found = rows.select(pl.max_horizontal(pl.col(one).list.max().max() for one in present)).collect().item()
    if found is None:
        raise ValueError("arms must have an arm or more, got none")
    return int(found)


def _filled(rows: LazyFrame) -> LazyFrame:
    """Return the table with all columns, of the kinds that a log has."""
    pl = require_polars()
    kinds = {**schema(pl), "eligible": pl.List(pl.Int32)}
    del kinds["pattern"]
    present = rows.collect_schema()
    filled = rows.with_columns(
        pl.col(name).cast(kind, strict=False) if name in present else pl.lit(None, kind).alias(name)
        for name, kind in kinds.items()
    )
    return filled.with_columns(pl.coalesce("observed", "arms").alias("observed")).select(list(kinds))
