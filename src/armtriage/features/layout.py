"""What a context is made of, and the checks of what is said about it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.feature_extraction import FeatureHasher
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from armtriage._arguments import as_number, check_count
from armtriage.features.rows import Column, column_of, few

MOST = 2**20
"""The most dimensions: a policy keeps matrices of their square."""

FAR = 1e100
"""The largest number that is told from others: nothing overflows."""


class Layout:
    """What a context is made of, in order: the intercept, columns alone, products; refused if it makes no sense."""

    def __init__(
        self,
        scales: dict[Column, tuple[float, float]],
        values: dict[Column, tuple[str, ...]],
        hashed: dict[Column, int],
        alone: Any,
        products: Any,
        intercept: bool,
        steps: int,
    ) -> None:
        self.scales, self.values, self.hashed, self.intercept = scales, values, hashed, intercept
        self.steps = steps  # that come with each number
        self.columns: tuple[Column, ...] = tuple(dict.fromkeys((*scales, *values, *hashed)))
        self.by_name = any(isinstance(column, str) for column in self.columns)
        self.place = {column: place for place, column in enumerate(self.columns)}
        self.alone = self.columns if alone is None else _side_of("alone", alone, self.place)
        self.products = tuple(_product_of(pair, self.place) for pair in _pairs_of(products))
        used = {*self.alone, *(column for pair in self.products for side in pair for column in side)}
        for column in self.columns:
            if column not in used:
                raise ValueError(f"each column must stand alone or in a product, got {column!r} that does not")
        for column, buckets in hashed.items():
            check_count(f"hashed[{column!r}]", buckets, 1, MOST)
        self.width = dict.fromkeys(scales, 1 + steps) | {column: len(one) + 1 for column, one in values.items()}
        self.width |= hashed
        # Each has a norm of at most 1, so this many of them have at most its root.
        self.groups = intercept + len(self.alone) + sum(len(left) * len(right) for left, right in self.products)
        self.dimension = int(intercept) + self._wide(self.alone)
        self.dimension += sum(self._wide(left) * self._wide(right) for left, right in self.products)
        if not self.columns or not 1 <= self.dimension <= MOST:
            raise ValueError(f"there must be columns, and at most {MOST} dimensions, got {self.dimension}")

    def _wide(self, columns: Iterable[Column]) -> int:
        return sum(self.width[column] for column in columns)

    def transformers(self) -> tuple[Any, Any, dict[Column, Any]]:
        """Return scikit-learn's transformers for the columns: one of all numbers, one of all categories, others."""
        scaler = encoder = None
        if self.scales:
            scaler = StandardScaler()
            scaler.mean_, scaler.scale_ = np.array(list(self.scales.values())).T.copy()
            scaler.var_, scaler.n_features_in_ = scaler.scale_**2, len(self.scales)
        if self.values:
            each = [np.array(one, object) for one in self.values.values()]
            encoder = OneHotEncoder(categories=each, handle_unknown="ignore", sparse_output=False)
            encoder.fit(np.array([[one[0] for one in each]], object))
        # With signs, values in one place would have opposite weights, and nothing could be known of a new one.
        hashers = {
            column: FeatureHasher(buckets, input_type="string", alternate_sign=False)
            for column, buckets in self.hashed.items()
        }
        return scaler, encoder, hashers

    def names(self, called: Callable[[Column], str]) -> list[str]:
        """Return what each number stands for."""
        steps = [f" step {number}" for number in range(1, self.steps + 1)]
        own: dict[Column, list[str]] = {
            column: [called(column) + more for more in ("", *steps)] for column in self.scales
        }
        for column, values in self.values.items():
            own[column] = [*(f"{called(column)}={value}" for value in values), f"{called(column)} unknown"]
        for column, buckets in self.hashed.items():
            own[column] = [f"{called(column)}#{place}" for place in range(buckets)]
        names = ["1"] * self.intercept + [name for column in self.alone for name in own[column]]
        for left, right in self.products:
            sides = [[name for column in side for name in own[column]] for side in (left, right)]
            names += [f"{one}*{other}" for one in sides[0] for other in sides[1]]
        return names


def given_of(name: str, columns: Any, default: Any) -> dict[Column, Any]:
    """Return the columns of a kind, each with what is given of it."""
    if columns is None:
        return {}
    if isinstance(columns, str) or not isinstance(columns, Iterable):
        raise TypeError(f"{name} must be a list of columns or a mapping, got {columns!r}")
    if isinstance(columns, Mapping):
        return {column_of(column): given for column, given in columns.items()}
    listed = [column_of(column) for column in columns]
    if len(set(listed)) < len(listed):
        raise ValueError(f"{name} must name each column once, got {few(listed)}")
    return dict.fromkeys(listed, default)


def scale_of(column: Column, given: Any) -> tuple[float, float]:
    """Return centre and scale of a column, if they are numbers that can be used."""
    accepted = f"centre and scale of {column!r} must be two numbers"
    if isinstance(given, str) or not isinstance(given, Sequence) or len(given) != 2:
        raise TypeError(f"{accepted}, got {given!r}")
    centre, scale = (as_number(f"numeric[{column!r}]", one) for one in given)
    if not (abs(centre) <= FAR and 1 / FAR <= scale <= FAR):
        raise ValueError(f"{accepted}, the scale from 1e-100 to 1e100, got {given!r}")
    return centre, scale


def _side_of(name: str, columns: Any, known: Mapping[Column, int]) -> tuple[Column, ...]:
    """Return one column, or several, as a tuple."""
    one = isinstance(columns, str | int | np.integer)
    if not one and not isinstance(columns, Iterable):
        raise TypeError(f"{name} must name columns, got {columns!r}")
    side = tuple(column_of(column) for column in ([columns] if one else columns))
    if any(column not in known for column in side) or len(set(side)) < len(side):
        raise ValueError(f"{name} must name columns once each among {few(known)}, got {few(side)}")
    return side


def _pairs_of(products: Any) -> list[Any]:
    if isinstance(products, str) or not isinstance(products, Iterable):
        raise TypeError(f"products must be a list of pairs, got {products!r}")
    return list(products)


def _product_of(pair: Any, known: Mapping[Column, int]) -> tuple[tuple[Column, ...], tuple[Column, ...]]:
    if isinstance(pair, str) or not isinstance(pair, Sequence) or len(pair) != 2:
        raise TypeError(f"products must be pairs of columns or of lists of them, got {pair!r}")
    left, right = (_side_of("products", side, known) for side in pair)
    if not left or not right or set(left) & set(right):
        raise ValueError(f"products must have different columns on their two sides, got {pair!r}")
    return left, right
