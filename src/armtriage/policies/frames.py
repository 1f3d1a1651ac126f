"""Rows of a pandas or polars frame, matched with the arms that they are of by name."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
from numpy.typing import NDArray

from armtriage.arms import Roster

_COLUMNS = ("arm", "name")  # what a column with the names of the arms may be called


def is_frame(rows: Any) -> bool:
    """Whether rows are a frame of pandas or polars."""
    return hasattr(rows, "columns") and (hasattr(rows, "iloc") or hasattr(rows, "get_column"))


def names_in(frame: Any, roster: Roster, used: Collection[Any]) -> list[Any] | None:
    """Return the arms that the rows of a frame are of: its index, or a column `arm` or `name` that is not `used`.

    An index of whole numbers counts only if arms have such names: pandas numbers rows, and a part of them has gaps.
    """
    index = getattr(frame, "index", None)
    found = None if index is None or _is_default(index) else index.tolist()
    if found is not None and all(isinstance(one, int) for one in found) and not set(found) & set(roster.names or ()):
        found = None
    if found is None and (column := _column(frame, used)) is not None:
        found = list(frame[column])
    if found is not None and len(set(found)) < len(found):
        twice = next(one for place, one in enumerate(found) if one in found[:place])
        raise ValueError(f"contexts must have one row for each arm, got more for {twice!r}")
    if found is None and roster.names is not None:
        raise TypeError(
            "contexts must have the names of the arms as index, or in a column 'arm' or 'name', since the arms have "
            f"names, got a frame with the columns {list(frame.columns)!r:.200}"
        )
    return found


def numbers_in(frame: Any) -> NDArray[Any]:
    """Return all of a frame but a column with the names of the arms."""
    column = _column(frame, ())
    return np.column_stack([np.asarray(frame[one]) for one in frame.columns if one != column])


def _column(frame: Any, used: Collection[Any]) -> str | None:
    return next((one for one in _COLUMNS if one in frame.columns and one not in used), None)


def _is_default(index: Any) -> bool:
    """Whether an index is what pandas numbers rows with, if nothing is said."""
    return type(index).__name__ == "RangeIndex" and index.start == 0 and index.step == 1
