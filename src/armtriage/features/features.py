"""Features: contexts from raw columns, scaled, coded and multiplied, with norms that a policy can count on."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from sklearn import config_context
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.preprocessing import OneHotEncoder, RobustScaler, StandardScaler
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted, validate_data

from armtriage._arguments import check_choice, check_count, check_flag, check_number
from armtriage.features.layout import FAR, MOST, Layout, given_of, scale_of
from armtriage.features.rows import (
    Column,
    Table,
    column_of,
    columns_of,
    few,
    holds_numbers,
    numbers_of,
    of_frame,
    of_records,
    texts_of,
)

_SCALERS = {"standard": StandardScaler, "robust": RobustScaler}
_WEIGHTS = 2.0  # least squares gave 2.0 for ten digits by their pixels, and 0.8 for clicks of 1 to 5 percent
_SLACK = 1.0 - 1e-12  # so that rounding takes no row beyond the bound
# Steps are where a normal law has its quartiles, and half so high, in scales. On tables for choosing of `make compare
# ARGS=tables`, other heights and numbers of them did worse, and squares or products no better.
_STEPS, _HALF_HEIGHT = np.array([-0.67, 0.0, 0.67]), 0.3


class FeatureReport(NamedTuple):
    """What had to be done to values so that rows became contexts, by column; columns without any are left out.

    Attributes
    ----------
    rows : int
        How many rows there were.
    clipped : dict
        Numbers that lay beyond the clip.
    unknown : dict
        Categories without a place of their own.
    missing : dict
        Values that were not there: None, NaN and the like.

    Examples
    --------
    >>> from armtriage import Features
    >>> Features(numeric={"price": (10, 2)}).fit().report([{"price": 11}, {"price": 99}, {"price": None}])
    FeatureReport(rows=3, clipped={'price': 1}, unknown={}, missing={'price': 1})
    """

    rows: int
    clipped: dict[Column, int]
    unknown: dict[Column, int]
    missing: dict[Column, int]


class Features(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Makes contexts of raw rows: numbers scaled and clipped, categories coded, columns multiplied with each other.

    A scikit-learn transformer, with the extra ``armtriage[features]``. Rows may be a pandas or polars frame, a list of
    dicts, an array or a SciPy sparse matrix; columns go by name, in arrays by their number. Hand it to a policy, and
    `ask` takes such rows, one for each candidate. The policy keeps and saves it. No row becomes longer than
    `context_bound`, whatever is in it: every column, product and the intercept has norm 1 at most, and the whole is
    divided by the root of their number, so that rewards stay linear in what is shown.

    Parameters
    ----------
    numeric : sequence or mapping, optional
        Columns of numbers. A mapping gives centre and scale, ``{"age": (40, 15)}``; with None they are fitted.
    categories : sequence or mapping, optional
        Columns with a place for each value, and one for all other values. A mapping gives the values,
        ``{"device": ["phone", "desktop"]}``; with None they are fitted.
    hashed : sequence or mapping, optional
        Columns with too many values for a place each: those with the same hash share one. A mapping gives the number
        of places, ``{"article": 64}``. If none of the three is given, columns of numbers in the sample are numeric,
        and all others categories.
    products : sequence of pairs
        ``[("age", "topic"), (["country", "device"], "topic")]``: every column on the left times every one on the right.
        What is to differ from visitor to visitor *and* from item to item must be a product.
    alone : sequence, optional
        The columns that also stand for themselves; by default all.
    intercept : bool
        Whether there is a 1 in every row: with clicks, the rate that all have in common.
    scaler : {"standard", "robust"}
        Scale by mean and standard deviation, or by median and distance of the quartiles.
    clip : float
        How many scales from its centre a number is clipped. Missing numbers are at the centre.
    steps : bool
        Whether each number comes with three steps, at its centre and 0.67 scales below and above, so that rewards need
        not be linear in it; in products, too. The intercept is then as long as a number one scale from its centre.
        Contexts have up to four times as many numbers, and policies take up to sixteen times as long.
    max_categories : int
        If a column of the sample has more values, those that are rarer than the most frequent share the place of
        unknown values; as for ``OneHotEncoder``.
    buckets : int
        The number of places of a hashed column, where it is not given.
    context_bound : float
        The norm that no row exceeds.

    Attributes
    ----------
    dimension : int
        The length of a context.
    norm_bound : float
        What `GuardedLinear` takes the norm of theta to be at most, if nothing else is said.
    n_features_in_, feature_names_in_
        As for every scikit-learn transformer.

    Examples
    --------
    >>> from armtriage import Features, GuardedLinear
    >>> sample = [{"age": 20, "topic": "sport"}, {"age": 40, "topic": "news"}, {"age": 60, "topic": "news"}]
    >>> features = Features(products=[("age", "topic")], alone=["topic"]).fit(sample)
    >>> features.get_feature_names_out().tolist()
    ['1', 'topic=news', 'topic=sport', 'topic unknown', 'age*topic=news', 'age*topic=sport', 'age*topic unknown']
    >>> policy = GuardedLinear(budget=1, features=features, reward_range=(0, 1), seed=7)
    >>> decision = policy.ask([{"age": 51, "topic": "news"}, {"age": 510, "topic": "opera"}])
    >>> policy.feature_report
    FeatureReport(rows=2, clipped={'age': 1}, unknown={'topic': 1}, missing={})
    """

    def __init__(
        self,
        numeric: Sequence[Column] | Mapping[Column, tuple[float, float] | None] | None = None,
        categories: Sequence[Column] | Mapping[Column, Sequence[Any] | None] | None = None,
        hashed: Sequence[Column] | Mapping[Column, int] | None = None,
        products: Sequence[tuple[Any, Any]] = (),
        *,
        alone: Sequence[Column] | None = None,
        intercept: bool = True,
        scaler: str = "standard",
        clip: float = 3.0,
        steps: bool = False,
        max_categories: int = 100,
        buckets: int = 32,
        context_bound: float = 1.0,
    ) -> None:
        self.numeric = numeric
        self.categories = categories
        self.hashed = hashed
        self.products = products
        self.alone = alone
        self.intercept = intercept
        self.scaler = scaler
        self.clip = clip
        self.steps = steps
        self.max_categories = max_categories
        self.buckets = buckets
        self.context_bound = context_bound

    def fit(self, X: Any = None, y: Any = None) -> Self:
        """Learn centres, scales and categories that were not given; without a sample, all must have been.

        Parameters
        ----------
        X : rows, optional
            A sample of what requests look like.
        y : ignored
            For scikit-learn.
        """
        before = dict(vars(self))
        try:
            self._fit(X)
        except BaseException:
            self.__dict__ = before
            raise
        return self

    def _fit(self, X: Any) -> None:
        self._check_settings()
        table = None if X is None else self._table(X, reset=True)
        numeric, categories, hashed = self._columns(table)
        scales = self._fit_scales(numeric, table)
        values = {column: self._fit_values(column, given, table) for column, given in categories.items()}
        steps = len(_STEPS) if self.steps else 0
        layout = Layout(scales, values, hashed, self.alone, self.products, bool(self.intercept), steps)
        if table is None:
            self.n_features_in_ = len(layout.columns) if layout.by_name else 1 + max(map(int, layout.columns))
            self.feature_names_in_ = np.array(layout.columns, object)
        if not layout.by_name and hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        self._layout = layout
        self.scaler_, self.encoder_, self.hashers_ = layout.transformers()

    def transform(self, X: Any) -> NDArray[np.float64]:
        """Return the contexts of rows, each of norm at most `context_bound`."""
        return self.read(X)[0]

    def read(self, X: Any) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Return the contexts, and for each column how many values were clipped or unknown, and how many missing."""
        check_is_fitted(self, "scaler_")
        layout, table = self._layout, self._table(X, reset=False)
        odd = np.zeros((2, len(layout.columns)), np.int64)
        blocks: dict[Column, NDArray[np.float64]] = {}
        with config_context(assume_finite=True, skip_parameter_validation=True, transform_output="default"):
            if layout.scales:
                self._read_numbers(table, blocks, odd)
            if layout.values:
                self._read_categories(table, blocks, odd)
            for column, hasher in self.hashers_.items():
                texts = texts_of(column, table.get(column))
                odd[1, layout.place[column]] = texts.count(None)
                # No text is hashed as itself that was not there: all others begin with a sign that this one lacks.
                named = [["" if text is None else f"={text}"] for text in texts]
                blocks[column] = hasher.transform(named).toarray()
        return self._assemble(blocks, table.rows), odd

    def report(self, X: Any) -> FeatureReport:
        """Return how many values of these rows would be clipped, unknown or missing, by column."""
        contexts, odd = self.read(X)
        return self.report_of(len(contexts), odd)

    def report_of(self, rows: int, odd: NDArray[np.int64]) -> FeatureReport:
        """Return the counts of `read`, or sums of them, by the names of the columns."""
        layout, (first, missing) = self._layout, odd.tolist()
        clipped = {column: first[layout.place[column]] for column in layout.scales}
        unknown = {column: first[layout.place[column]] for column in layout.values}
        absent = dict(zip(layout.columns, missing, strict=True))
        some = ({key: n for key, n in one.items() if n} for one in (clipped, unknown, absent))
        return FeatureReport(rows, *some)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """Return what each number of a context stands for, in order."""
        check_is_fitted(self, "scaler_")
        given = _check_feature_names_in(self, input_features)
        return np.array(self._layout.names(lambda column: given[column] if isinstance(column, int) else column), object)

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns of which something is made: numbers, categories, hashed ones."""
        check_is_fitted(self, "scaler_")
        return self._layout.columns

    @property
    def dimension(self) -> int:
        """The length of a context."""
        check_is_fitted(self, "scaler_")
        return self._layout.dimension

    @property
    def norm_bound(self) -> float:
        """A bound on theta's norm that is plausible for these contexts, after rewards are scaled to at most 1.

        Contexts are divided by the root of the number of parts, so theta is as many times longer. It supposes that the
        weights of all parts, before, have a norm of at most 2.
        """
        check_is_fitted(self, "scaler_")
        return _WEIGHTS * math.sqrt(self._layout.groups)

    def facts(self) -> dict[str, Any]:
        """Return all that was given and fitted as JSON values, from which `from_facts` makes the same again.

        Examples
        --------
        >>> features = Features(numeric={"age": (40, 15)}, categories={"device": ["phone"]}).fit()
        >>> rows = [{"age": 31, "device": "desktop"}]
        >>> bool((Features.from_facts(features.facts()).transform(rows) == features.transform(rows)).all())
        True
        """
        check_is_fitted(self, "scaler_")
        layout = self._layout
        return {
            "numeric": [[column, centre, scale] for column, (centre, scale) in layout.scales.items()],
            "categories": [[column, list(values)] for column, values in layout.values.items()],
            "hashed": [[column, buckets] for column, buckets in layout.hashed.items()],
            "products": [[list(left), list(right)] for left, right in layout.products],
            "alone": list(layout.alone),
            "intercept": layout.intercept,
            "clip": float(self.clip),
            "steps": bool(self.steps),
            "context_bound": float(self.context_bound),
            "n_columns": int(self.n_features_in_),
        }

    @classmethod
    def from_facts(cls, facts: Any) -> Self:
        """Return what `facts` described; anything else is refused."""
        facts = {"steps": False, **facts} if isinstance(facts, dict) else facts  # which earlier files lack
        if not isinstance(facts, dict) or set(facts) != _FACTS:
            raise ValueError(f"features must have {', '.join(sorted(_FACTS))}, and nothing else")
        try:
            made = cls(
                {column_of(column): (centre, scale) for column, centre, scale in facts["numeric"]},
                {column_of(column): values for column, values in facts["categories"]},
                {column_of(column): buckets for column, buckets in facts["hashed"]},
                **{name: facts[name] for name in _HANDED_ON},
            )
        except (TypeError, ValueError) as error:
            raise ValueError(f"features must be what facts gave: {error}") from error
        given = len(made.numeric) + len(made.categories) + len(made.hashed)  # type: ignore[arg-type]
        if given < sum(len(facts[name]) for name in _COLUMNS):
            raise ValueError("features must name each column once")
        made.fit()
        # A sample may have had columns of which nothing is made.
        made.n_features_in_ = check_count("n_columns", facts["n_columns"], made.n_features_in_)
        return made

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = tags.input_tags.sparse = tags.input_tags.string = tags.input_tags.categorical = True
        return tags

    def _check_settings(self) -> None:
        check_choice("scaler", self.scaler, _SCALERS)
        clip = check_number("clip", self.clip, positive=True)
        if not 1e-6 <= clip <= 1e6:
            raise ValueError(f"clip must lie in [1e-06, 1e+06], got {self.clip!r}")
        check_count("max_categories", self.max_categories, 2)
        check_count("buckets", self.buckets, 1, MOST)
        check_flag("intercept", self.intercept)
        check_flag("steps", self.steps)
        bound = check_number("context_bound", self.context_bound, positive=True)
        if not 1 / FAR <= bound <= FAR:
            raise ValueError(f"context_bound must lie in [1e-100, 1e100], got {self.context_bound!r}")

    def _columns(self, table: Table | None) -> tuple[dict[Column, Any], dict[Column, Any], dict[Column, Any]]:
        """Return the columns of each kind, with what is given of them, or None."""
        if self.numeric is None and self.categories is None and self.hashed is None:
            if table is None:
                raise ValueError("X must be a sample where no columns are given, got None")
            numbers = [column for column in table.columns if holds_numbers(table.get(column))]
            others = dict.fromkeys(table.columns)
            for column in numbers:
                del others[column]
            return dict.fromkeys(numbers), others, {}
        numeric = given_of("numeric", self.numeric, None)
        categories = given_of("categories", self.categories, None)
        hashed = given_of("hashed", self.hashed, self.buckets)
        columns = [*numeric, *categories, *hashed]
        if len(set(columns)) < len(columns):
            raise ValueError(f"each column must be of one kind, got {few(columns)}")
        for column in columns if table is not None else ():
            if column not in table.columns:  # type: ignore[union-attr]
                raise ValueError(f"columns must be among {few(table.columns)}, got {column!r}")  # type: ignore[union-attr]
        if len({type(column) for column in columns}) > 1:
            raise TypeError(f"columns must all be names or all be numbers, got {few(columns)}")
        if table is None and any(given is None for given in (*numeric.values(), *categories.values())):
            column = next(key for key, given in (*numeric.items(), *categories.items()) if given is None)
            raise ValueError(f"X must be a sample where nothing is given of {column!r}, got None")
        return numeric, categories, hashed

    def _fit_scales(self, numeric: dict[Column, Any], table: Table | None) -> dict[Column, tuple[float, float]]:
        """Return centre and scale of each column of numbers."""
        scales: dict[Column, tuple[float, float]] = {}
        for column, given in numeric.items():
            if given is None:
                assert table is not None
                values = numbers_of(column, table.get(column))
                values = values[np.isfinite(values) & (np.abs(values) <= FAR)]
                if not values.size:
                    raise ValueError(f"column {column!r} must have numbers in the sample, got none")
                one = _SCALERS[self.scaler]().fit(values[:, np.newaxis])
                centre = one.mean_ if self.scaler == "standard" else one.center_
                given = float(centre[0]), float(one.scale_[0])
            scales[column] = scale_of(column, given)
        return scales

    def _fit_values(self, column: Column, given: Any, table: Table | None) -> tuple[str, ...]:
        """Return the categories of a column that have a place of their own."""
        if given is None:
            assert table is not None
            texts = [text for text in texts_of(column, table.get(column)) if text is not None]
            if not texts:
                raise ValueError(f"column {column!r} must have values in the sample, got none")
            encoder = OneHotEncoder(max_categories=self.max_categories, handle_unknown="infrequent_if_exist")
            encoder.fit(np.array(texts, object)[:, np.newaxis])
            rare = encoder.infrequent_categories_[0]
            return tuple(one for one in encoder.categories_[0].tolist() if rare is None or one not in rare)
        if isinstance(given, str) or not isinstance(given, Iterable):
            raise TypeError(f"categories of {column!r} must be a list of values, got {given!r}")
        listed = [text for text in texts_of(column, list(given)) if text is not None]
        if not listed or len(set(listed)) < len(list(given)):
            raise ValueError(f"categories of {column!r} must be one or more different values, got {given!r:.100}")
        return tuple(listed)

    def _table(self, X: Any, reset: bool) -> Table:
        """Return rows by column, of whatever kind they came as."""
        if X is None or (isinstance(X, Mapping) and not hasattr(X, "tocsr")):  # some sparse matrices are mappings
            raise TypeError(f"rows must be a frame, an array or a list of mappings, got {type(X).__name__}")
        records = isinstance(X, list | tuple) and bool(X) and all(isinstance(row, Mapping) for row in X)
        labels = list(X[0] if records else getattr(X, "columns", ()))
        named = bool(labels) and all(isinstance(label, str) for label in labels)
        if records and not named:
            raise TypeError(f"columns of mappings must be names, got {few(labels)}")
        if len(set(map(str, labels))) < len(labels):
            raise ValueError(f"columns must have different names, got {few(labels)}")
        by_name = named if reset else self._layout.by_name
        if by_name and not named:
            raise ValueError(f"rows must have the columns {few(self._layout.columns)} by name, got {type(X).__name__}")
        if not by_name and records:
            raise ValueError("rows must be an array, like those that were fitted, got mappings")
        if not by_name:
            if isinstance(X, list | tuple) and np.asarray(X).dtype.kind in "US":
                X = np.array(X, dtype=object)  # or numbers beside text would be text
            X = validate_data(self, X, reset=reset, dtype=None, accept_sparse="csr", ensure_all_finite=False)
            return Table(X.shape[0], list(range(X.shape[1])), columns_of(X, None if reset else self._layout.columns))
        if not len(X):
            raise ValueError("rows must be one or more, got none")
        if reset:
            self.n_features_in_, self.feature_names_in_ = len(labels), np.array(labels, object)
        return Table(len(X), labels, lambda column: of_records(X, column) if records else of_frame(X, column))

    def _read_numbers(self, table: Table, blocks: dict[Column, NDArray[np.float64]], odd: NDArray[np.int64]) -> None:
        columns = self._layout.scales
        values = np.column_stack([numbers_of(column, table.get(column)) for column in columns])
        # What is farther away than that is clipped all the same, and nothing overflows.
        scaled = self.scaler_.transform(np.clip(values, -FAR, FAR))
        missing, far = np.isnan(scaled), np.abs(scaled) > self.clip
        odd[0, : len(columns)], odd[1, : len(columns)] = far.sum(axis=0), missing.sum(axis=0)
        parts = [np.where(missing, 0.0, np.clip(scaled, -self.clip, self.clip))]
        if self.steps:
            # What is missing, or just at a step, is halfway up.
            parts += [_HALF_HEIGHT * np.sign(parts[0] - at) for at in _STEPS]
        for place, column in enumerate(columns):
            blocks[column] = np.column_stack([part[:, place] for part in parts]) / self._longest

    @property
    def _longest(self) -> float:
        """The norm of a number at the clip, with its steps, in scales."""
        return math.sqrt(self.clip**2 + self._layout.steps * _HALF_HEIGHT**2)

    def _read_categories(self, table: Table, blocks: dict[Column, NDArray[np.float64]], odd: NDArray[np.int64]) -> None:
        first, columns = len(self._layout.scales), self._layout.values
        texts = np.empty((table.rows, len(columns)), object)
        for place, column in enumerate(columns):
            texts[:, place] = texts_of(column, table.get(column))
        coded, start = self.encoder_.transform(texts), 0
        for place, (column, values) in enumerate(columns.items()):
            own = coded[:, start : start + len(values)]
            start += len(values)
            other = 1.0 - own.sum(axis=1, keepdims=True)
            blocks[column] = np.concatenate([own, other], axis=1)
            missing = int(np.sum(texts[:, place] == None))  # noqa: E711 - of each element
            odd[:, first + place] = int(other.sum()) - missing, missing

    def _assemble(self, blocks: dict[Column, NDArray[np.float64]], rows: int) -> NDArray[np.float64]:
        layout = self._layout
        # Beside steps it is as long as a number one scale from its centre: what is believed at first of all is alike.
        level = 1.0 / max(self._longest, 1.0) if layout.steps else 1.0
        parts = [np.full((rows, int(layout.intercept)), level)] + [blocks[column] for column in layout.alone]
        for left, right in layout.products:
            one, other = (np.concatenate([blocks[column] for column in side], axis=1) for side in (left, right))
            parts.append((one[:, :, np.newaxis] * other[:, np.newaxis, :]).reshape(rows, -1))
        return np.concatenate(parts, axis=1) * (self.context_bound * _SLACK / math.sqrt(layout.groups))


_COLUMNS = ("numeric", "categories", "hashed")
_HANDED_ON = ("products", "alone", "intercept", "clip", "steps", "context_bound")
_FACTS = {*_COLUMNS, *_HANDED_ON, "n_columns"}
