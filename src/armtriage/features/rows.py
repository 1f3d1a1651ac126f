"""Raw rows, of whatever kind they come as, to be had by column: as numbers or as text."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from armtriage._arguments import check_count

Column = str | int
_NUMBER = (Real, Decimal)  # databases give decimals


class Table(NamedTuple):
    """Rows, to be had by column."""

    rows: int
    columns: list[Any]
    get: Callable[[Column], Any]


def column_of(column: Any) -> Column:
    """Return the name of a column, or its number."""
    if isinstance(column, str):
        return str(column)
    return check_count("a column", column)


def few(columns: Iterable[Any]) -> str:
    """Return columns for a message, not too many of them."""
    shown = [repr(column) for column in columns]
    return ", ".join(shown if len(shown) <= 8 else [*shown[:7], f"... ({len(shown)} in all)"])


def of_records(rows: Sequence[Mapping[Any, Any]], column: Column) -> list[Any]:
    """Return a column of mappings, each of which must have it."""
    try:
        return [row[column] for row in rows]
    except KeyError:
        place = next(i for i, row in enumerate(rows) if column not in row)
        raise ValueError(f"every row must have the column {column!r}, got none in row {place}") from None


def of_frame(frame: Any, column: Column) -> Any:
    """Return a column of a frame of pandas or polars."""
    if column not in frame.columns:
        raise ValueError(f"rows must have the column {column!r}, got {few(frame.columns)}")
    return frame[column].to_numpy()


def columns_of(matrix: Any, used: tuple[Column, ...] | None) -> Callable[[Column], Any]:
    """Return what returns a column of an array, or of a sparse matrix, of which no more is filled than is used."""
    if isinstance(matrix, np.ndarray):
        return lambda column: matrix[:, int(column)]
    if used is None:
        by_column = matrix.tocsc()
        return lambda column: by_column[:, [column]].toarray().ravel()
    dense = dict(zip(used, matrix[:, list(used)].toarray().T, strict=True))
    return dense.__getitem__


def _is_missing(value: Any) -> bool:
    """Whether a value is None, NaN, or what pandas has instead."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    if isinstance(value, np.datetime64):
        return bool(np.isnat(value))
    return isinstance(value, float | np.floating | Decimal) and value != value


def _float(value: Any) -> float:
    """Return a number as a float; what is too large for one is infinite."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def holds_numbers(values: Any) -> bool:
    """Whether a column is one of numbers, as far as one can see."""
    if isinstance(values, np.ndarray) and values.dtype.kind != "O":
        return values.dtype.kind in "iuf"
    found = [value for value in values if not _is_missing(value)]
    return bool(found) and all(isinstance(value, _NUMBER) and not isinstance(value, bool) for value in found)


def numbers_of(column: Column, values: Any) -> NDArray[np.float64]:
    """Return a column of numbers, NaN where they are missing."""
    try:
        given = np.asarray(values)
    except ValueError:  # lists of different lengths in it
        given = np.empty(0, object)
    if given.dtype.kind in "biuf" and given.ndim == 1:
        return given.astype(np.float64)
    found = np.empty(len(values))
    for place, value in enumerate(values):
        if _is_missing(value):
            found[place] = np.nan
        elif isinstance(value, bool | np.bool_):
            found[place] = bool(value)
        elif isinstance(value, _NUMBER):
            found[place] = _float(value)
        else:
            raise TypeError(f"column {column!r} must hold numbers, got {value!r:.100} in row {place}")
    return found


def texts_of(column: Column, values: Any) -> list[str | None]:
    """Return a column of categories as text, None where they are missing: a 3 is the same as a 3.0, or "3"."""
    found: list[str | None] = []
    for place, value in enumerate(values):
        if isinstance(value, str):
            found.append(str(value))
        elif _is_missing(value):
            found.append(None)
        elif isinstance(value, bool | np.bool_):
            found.append(str(bool(value)))
        elif isinstance(value, _NUMBER):
            number: Any = value
            whole = isinstance(value, Integral) or _float(value).is_integer()
            found.append(str(int(number)) if whole else repr(_float(value)))
        elif isinstance(value, np.datetime64) or type(value).__module__ in ("datetime", "pandas"):
            found.append(str(value))
        else:
            kind = type(value).__name__
            raise TypeError(f"argument must be a string or a number in column {column!r}, got a {kind} in row {place}")
    return found
