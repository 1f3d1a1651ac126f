"""Features: raw rows become contexts that a policy can count on, and scikit-learn's transformers agree."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction import FeatureHasher
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, RobustScaler, StandardScaler
from sklearn.utils.estimator_checks import estimator_checks_generator

from armtriage import Features

Rows = list[dict[str, Any]]


def visits(n: int, seed: int = 7) -> Rows:
    """Rows as they come: a visitor's age and device, an article's topic, price and name."""
    rng = np.random.default_rng(seed)
    return [
        {
            "age": int(rng.integers(18, 80)),
            "price": float(rng.lognormal()),
            "device": str(rng.choice(["phone", "tablet", "desktop"])),
            "topic": str(rng.choice(["sport", "news", "opera"])),
            "article": int(rng.integers(10**6)),
            "mood": "unused",
        }
        for _ in range(n)
    ]


ROWS = visits(60)
MIXED = Features(
    ["age", "price"],
    ["device", "topic"],
    {"article": 8},
    [(["age", "device"], ["topic", "article"]), ("price", "topic")],
)


def fitted(**more: Any) -> Features:
    return sklearn.base.clone(MIXED).set_params(**more).fit(ROWS)


SETTINGS = [Features(), Features(scaler="robust", intercept=False, clip=1.0, steps=True, context_bound=5.0)]
# Features are no array API estimators, and that check skips itself.
CHECKS = [
    pytest.param(one, check, id=f"{check.func.__name__}-{place}")
    for place, estimator in enumerate(SETTINGS)
    for one, check in estimator_checks_generator(estimator)
    if check.func.__name__ != "check_array_api_input"
]


@pytest.mark.parametrize(("estimator", "check"), CHECKS)
def test_scikit_learns_own_checks(estimator: Any, check: Any) -> None:
    check(estimator)


FORMS: dict[str, Callable[[Rows], Any]] = {
    "dicts": lambda rows: rows,
    "tuple of dicts": tuple,
    "pandas": pd.DataFrame,
    "pandas, categorical": lambda rows: pd.DataFrame(rows).astype({"topic": "category", "device": "string"}),
    "pandas, own integers": lambda rows: pd.DataFrame(rows).astype({"age": "Int64", "article": "Int32"}),
    "pandas, other order": lambda rows: pd.DataFrame(rows).iloc[:, ::-1].set_index("mood"),
    "polars": pl.DataFrame,
    "polars, categorical": lambda rows: pl.DataFrame(rows).with_columns(pl.col("topic").cast(pl.Categorical)),
}


@pytest.mark.parametrize("form", FORMS)
def test_rows_may_be_given_as(form: str) -> None:
    expected = fitted().transform(ROWS)
    assert np.array_equal(fitted().transform(FORMS[form](ROWS)), expected)
    assert np.array_equal(sklearn.base.clone(MIXED).fit(FORMS[form](ROWS)).transform(ROWS), expected)


@pytest.mark.parametrize(
    "kind", [sparse.csr_matrix, sparse.csc_array, sparse.coo_array, sparse.dok_array, np.ndarray.tolist]
)
def test_arrays_may_be_sparse_or_lists(kind: Any) -> None:
    rng = np.random.default_rng(7)
    matrix = rng.normal(size=(30, 6)) * (rng.random((30, 6)) < 0.3)
    features = Features(numeric=[0, 3, 5], products=[(0, [3, 5])]).fit(matrix)
    expected = features.transform(matrix)
    assert np.array_equal(features.transform(kind(matrix)), expected)
    assert np.array_equal(sklearn.base.clone(features).fit(kind(matrix)).transform(matrix), expected)


def test_numbers_beside_text_in_lists_stay_numbers() -> None:
    features = Features().fit([[1.0, "a"], [3.0, "b"], [5.0, "a"]])
    assert features.get_feature_names_out().tolist() == ["1", "x0", "x1=a", "x1=b", "x1 unknown"]


@pytest.mark.parametrize(("scaler", "theirs"), [("standard", StandardScaler), ("robust", RobustScaler)])
def test_contexts_are_what_a_column_transformer_makes(scaler: str, theirs: Any) -> None:
    features = Features(["age", "price"], ["device", "topic"], scaler=scaler, clip=3.0, intercept=False).fit(ROWS)
    frame = pd.DataFrame(ROWS)
    other = ColumnTransformer([("n", theirs(), ["age", "price"]), ("c", OneHotEncoder(), ["device", "topic"])])
    expected = np.asarray(other.fit_transform(frame))
    found = features.transform(frame) * 2.0  # four columns
    known = [not name.endswith("unknown") for name in features.get_feature_names_out()]
    assert np.allclose(found[:, known][:, :2], np.clip(expected[:, :2], -3, 3) / 3, rtol=1e-11)
    assert np.allclose(found[:, known][:, 2:], expected[:, 2:], rtol=1e-11)
    assert not found[:, np.logical_not(known)].any()


def test_hashed_columns_are_what_a_feature_hasher_makes() -> None:
    features = Features(hashed={"article": 8}, intercept=False).fit(ROWS)
    theirs = FeatureHasher(8, input_type="string", alternate_sign=False)
    expected = theirs.transform([[f"={row['article']}"] for row in ROWS]).toarray()
    assert np.allclose(features.transform(ROWS), expected, rtol=1e-11)


def test_products_are_outer_products_of_their_columns() -> None:
    features = fitted()
    contexts, names = features.transform(ROWS), features.get_feature_names_out().tolist()
    root = np.sqrt(1 + 5 + 2 * 2 + 1)
    column = dict(zip(names, contexts.T * root, strict=True))
    assert len(column) == features.dimension == contexts.shape[1]
    for name, values in column.items():
        if "*" in name:
            left, right = name.split("*")
            assert np.allclose(values, column[left] * column[right], atol=1e-9)


def test_steps_make_rewards_linear_that_rise_and_fall_with_a_number() -> None:
    features = Features({"age": (40, 15)}, ["topic"], products=[("age", "topic")], steps=True)
    rows = [{"age": age, "topic": topic} for age in (25, 35, 45, 55) for topic in ("news", "opera")]
    contexts = features.fit(rows).transform(rows)
    names = features.get_feature_names_out().tolist()
    assert names[:5] == ["1", "age", "age step 1", "age step 2", "age step 3"]
    assert "age step 3*topic=opera" in names
    assert np.linalg.matrix_rank(contexts[:, :5]) == 4  # one level for each of the four places
    # A number one scale from its centre, and the level of all rows, are as long as each other, and a step 0.3 of it.
    assert contexts[0, 1:5] / contexts[0, 0] == pytest.approx([-1.0, -0.3, -0.3, -0.3])
    assert contexts[4, 2:5] / contexts[4, 0] == pytest.approx([0.3, 0.3, -0.3])


ANYTHING = st.one_of(
    st.none(), st.booleans(), st.floats(), st.integers(), st.text(max_size=4), st.sampled_from(["phone", "news"])
)
NUMBER = st.one_of(st.none(), st.floats(), st.integers(), st.booleans(), st.just(10**400))


@given(
    st.lists(st.tuples(NUMBER, NUMBER, ANYTHING, ANYTHING, ANYTHING), min_size=1, max_size=4),
    st.floats(1e-3, 1e3),
    st.booleans(),
)
def test_no_row_is_longer_than_the_bound_whatever_is_in_it(rows: Any, bound: float, steps: bool) -> None:
    features = Features(
        {"age": (40, 15), "price": (1e-3, 1e-9)},
        {"device": ["phone"], "topic": ["news", "opera"]},
        {"article": 3},
        [(["age", "device"], ["topic", "article"]), ("price", "topic")],
        steps=steps,
        context_bound=bound,
    ).fit()
    given = [dict(zip(("age", "price", "device", "topic", "article"), row, strict=True)) for row in rows]
    contexts = features.transform(given)
    assert np.isfinite(contexts).all()
    assert (np.sqrt(np.square(contexts).sum(axis=1)) <= bound).all()
    report = features.report(given)
    assert report.rows == len(rows)
    assert all(0 < n <= len(rows) for part in report[1:] for n in part.values())


def test_the_bound_is_reached_by_rows_at_the_clip() -> None:
    features = Features({"a": (0, 1), "b": (0, 1)}, products=[("a", "b")], context_bound=2.0).fit()
    assert np.linalg.norm(features.transform([{"a": 9, "b": -9}])) == pytest.approx(2.0)


def test_outliers_unknown_and_missing_values_are_counted() -> None:
    features = fitted(clip=2.0)
    good = {"age": 45, "price": 1.0, "device": "phone", "topic": "news", "article": 5}
    rows = [
        good,
        {**good, "age": 450, "price": np.inf},
        {**good, "age": None, "price": -np.inf, "topic": "war"},
        {**good, "device": None, "article": None, "topic": float("nan")},
    ]
    report = features.report(rows)
    assert report == (4, {"age": 1, "price": 2}, {"topic": 1}, {"age": 1, "device": 1, "topic": 1, "article": 1})
    assert features.report([good]) == (1, {}, {}, {})
    # A missing number is at the centre, and far ones at the clip.
    column = dict(zip(features.get_feature_names_out(), features.transform(rows).T, strict=True))
    assert column["age"][2] == 0.0
    assert column["price"][1] == -column["price"][2] == column["age"][1] == column["topic unknown"][2]
    assert column["topic unknown"][3] == column["device unknown"][3] > 0 == column["device unknown"][0]


def test_a_category_is_the_same_however_it_is_written() -> None:
    features = Features(categories={"n": [1, 2.5, True]}).fit()
    same = [1, 1.0, np.int8(1), np.float32(1), "1"]
    assert features.get_feature_names_out().tolist()[1:4] == ["n=1", "n=2.5", "n=True"]
    assert features.transform([{"n": one} for one in same])[:, 1].all()
    assert not features.transform([{"n": one} for one in (2.5, True, "one")])[:, 1].any()


def test_numbers_are_taken_as_databases_and_frames_have_them() -> None:
    features = Features({"n": (0, 10)}, intercept=False, clip=1.0).fit()
    rows = [{"n": one} for one in (Decimal("2.5"), Fraction(5, 2), True, 10**400, Decimal("NaN"), pd.NA)]
    assert features.transform(rows).ravel() == pytest.approx([0.25, 0.25, 0.1, 1.0, 0.0, 0.0])
    frame = pd.DataFrame({"n": pd.array([5, None], dtype="Int64")})
    assert features.transform(frame).ravel() == pytest.approx([0.5, 0.0])
    assert features.report(frame).missing == {"n": 1}
    for odd in ([[1], [2]], [[1], [2, 3]]):
        with pytest.raises(TypeError, match="column 'n' must hold numbers"):
            features.transform([{"n": one} for one in odd])
    assert Features().fit([{"n": Decimal(3)}, {"n": Decimal(5)}]).get_feature_names_out().tolist() == ["1", "n"]


def test_days_are_categories() -> None:
    days = pd.DataFrame({"day": pd.to_datetime(["2026-01-05", "2026-01-06", None])})
    features = Features(categories=["day"]).fit(days)
    assert features.dimension == 4
    assert features.report(days).missing == {"day": 1}


def test_rare_categories_share_the_place_of_unknown_ones() -> None:
    rows = [{"topic": one} for one in "aaaabbbccd"]
    features = Features(max_categories=3).fit(rows)
    assert features.get_feature_names_out().tolist() == ["1", "topic=a", "topic=b", "topic unknown"]
    assert features.report(rows).unknown == {"topic": 3}


def test_kinds_of_columns_are_seen_in_the_sample() -> None:
    features = Features().fit([{"a": 1, "b": "x", "c": True, "d": None}, {"a": None, "b": None, "c": False, "d": 2.5}])
    assert features.get_feature_names_out().tolist() == [
        *("1", "a", "d", "b=x", "b unknown", "c=False", "c=True", "c unknown")
    ]


def test_what_is_given_needs_no_sample_and_is_not_fitted() -> None:
    one = Features({"age": (40, 15), "price": None}, {"device": ["phone"], "topic": None})
    with pytest.raises(ValueError, match="X must be a sample where nothing is given of 'price', got None"):
        one.fit()
    facts = one.fit(ROWS).facts()
    assert facts["numeric"][0] == ["age", 40.0, 15.0]
    assert facts["categories"] == [["device", ["phone"]], ["topic", ["news", "opera", "sport"]]]
    assert facts["numeric"][1][1] == pytest.approx(np.mean([row["price"] for row in ROWS]))


def test_outliers_in_the_sample_do_not_move_a_robust_scale_and_infinite_ones_none() -> None:
    rows = [{"age": float(age)} for age in range(20, 61)]
    for scaler in ("standard", "robust"):
        clean = Features(scaler=scaler).fit(rows).facts()["numeric"]
        assert Features(scaler=scaler).fit([*rows, {"age": np.inf}, {"age": None}]).facts()["numeric"] == clean
    wild = Features(scaler="robust").fit([*rows, {"age": 1e9}]).facts()["numeric"][0]
    assert wild[1:] == pytest.approx([40.5, 20.5], abs=0.6)


def test_facts_are_json_from_which_the_same_is_made() -> None:
    for features in (fitted(), fitted(steps=True), Features(numeric=[0, 2]).fit(np.arange(12.0).reshape(4, 3))):
        facts = json.loads(json.dumps(features.facts(), allow_nan=False))
        again = Features.from_facts(facts)
        rows = ROWS if features.n_features_in_ > 3 else np.arange(12.0).reshape(4, 3) / 7
        assert np.array_equal(again.transform(rows), features.transform(rows))
        assert again.facts() == facts
        if not facts.pop("steps"):
            assert Features.from_facts(facts).facts() == again.facts()  # files of before steps
        assert again.n_features_in_ == features.n_features_in_
        assert again.get_feature_names_out().tolist() == features.get_feature_names_out().tolist()


def test_it_stands_in_a_pipeline_and_gives_frames_where_asked() -> None:
    rewards = np.arange(60) % 2
    model = make_pipeline(fitted(), Ridge()).fit(ROWS, rewards)
    assert model.predict(ROWS).shape == (60,)
    frame = fitted().set_output(transform="pandas").transform(ROWS)
    assert list(frame.columns) == fitted().get_feature_names_out().tolist()
    # Inside, scikit-learn's own transformers give arrays all the same.
    with sklearn.config_context(transform_output="polars"):
        assert isinstance(fitted().transform(ROWS), pl.DataFrame)


BAD: list[tuple[dict[str, Any], Any, type[Exception], str]] = [
    ({"scaler": "minmax"}, ROWS, ValueError, "scaler must be one of standard, robust, got 'minmax'"),
    ({"clip": 0}, ROWS, ValueError, "clip must be a positive number, got 0"),
    ({"clip": 1e9}, ROWS, ValueError, r"clip must lie in \[1e-06, 1e\+06\]"),
    ({"max_categories": 1}, ROWS, ValueError, "max_categories must be a whole number from 2, got 1"),
    ({"buckets": 2.0}, ROWS, TypeError, "buckets must be a whole number"),
    ({"intercept": 1}, ROWS, TypeError, "intercept must be True or False"),
    ({"steps": 3}, ROWS, TypeError, "steps must be True or False"),
    ({"context_bound": 1e200}, ROWS, ValueError, "context_bound must lie in"),
    ({}, None, ValueError, "X must be a sample where no columns are given"),
    ({}, [], ValueError, "[Ee]xpected 2D array"),
    ({}, pd.DataFrame({"age": []}), ValueError, "rows must be one or more, got none"),
    ({}, {"age": [1, 2]}, TypeError, "rows must be a frame, an array or a list of mappings, got dict"),
    ({}, [{"age": 1}, {"ages": 1}], ValueError, "every row must have the column 'age', got none in row 1"),
    ({}, [{"age": [1]}], TypeError, "string or a number in column 'age', got a list in row 0"),
    ({}, pd.DataFrame([[1, 2]], columns=["a", "a"]), ValueError, "columns must have different names, got 'a', 'a'"),
    ({}, [{1: 1}], TypeError, "columns of mappings must be names, got 1"),
    ({"numeric": "age"}, ROWS, TypeError, "numeric must be a list of columns or a mapping, got 'age'"),
    ({"numeric": ["age", "age"]}, ROWS, ValueError, "numeric must name each column once"),
    ({"numeric": ["age"], "hashed": ["age"]}, ROWS, ValueError, "each column must be of one kind, got 'age', 'age'"),
    ({"numeric": ["ages"]}, ROWS, ValueError, "columns must be among 'age', 'price', .*, got 'ages'"),
    ({"numeric": ["age", 0]}, None, TypeError, "columns must all be names or all be numbers"),
    ({"numeric": [0]}, ROWS, ValueError, "columns must be among 'age', .*, got 0"),
    ({"numeric": [-1]}, np.zeros((2, 2)), ValueError, "a column must be a whole number from 0"),
    ({"numeric": ["topic"]}, ROWS, TypeError, "column 'topic' must hold numbers, got '.*' in row 0"),
    ({"numeric": {"age": (1, 0)}}, None, ValueError, "centre and scale of 'age' must be two numbers, the scale from"),
    ({"numeric": {"age": (1, float("nan"))}}, None, ValueError, "centre and scale of 'age'"),
    ({"numeric": {"age": 3}}, None, TypeError, "centre and scale of 'age' must be two numbers, got 3"),
    ({"numeric": ["age"]}, [{"age": None}], ValueError, "column 'age' must have numbers in the sample"),
    ({"categories": ["age"]}, [{"age": None}], ValueError, "column 'age' must have values in the sample"),
    ({"categories": {"age": "young"}}, None, TypeError, "categories of 'age' must be a list of values"),
    ({"categories": {"age": [1, "1"]}}, None, ValueError, "categories of 'age' must be one or more different values"),
    ({"categories": {"age": [None]}}, None, ValueError, "categories of 'age' must be one or more different values"),
    ({"hashed": {"age": 0}}, None, ValueError, r"hashed\['age'\] must be a whole number from 1"),
    ({"hashed": {"age": 2**30}}, None, ValueError, "must be at most 1048576"),
    ({"hashed": {"a": 2**15, "b": 2**15}, "products": [("a", "b")]}, None, ValueError, "at most 1048576 dimensions"),
    ({"numeric": []}, ROWS, ValueError, "there must be columns"),
    ({"products": "age"}, ROWS, TypeError, "products must be a list of pairs, got 'age'"),
    ({"products": ["age"]}, ROWS, TypeError, "products must be pairs of columns or of lists of them, got 'age'"),
    ({"products": [("age", "age")]}, ROWS, ValueError, "products must have different columns on their two sides"),
    ({"products": [("age", "shoe")]}, ROWS, ValueError, "products must name columns once each among .*, got 'shoe'"),
    ({"products": [("age", None)]}, ROWS, TypeError, "products must name columns, got None"),
    ({"alone": ["age"]}, ROWS, ValueError, "each column must stand alone or in a product, got 'price' that does not"),
]


@pytest.mark.parametrize(("given", "sample", "kind", "message"), BAD)
def test_what_cannot_be_fitted_is_refused_and_changes_nothing(
    given: dict[str, Any], sample: Any, kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        Features(**given).fit(sample)
    features = fitted()
    before = features.transform(ROWS)
    settings = sklearn.base.clone(features).get_params()
    features.set_params(**{**Features().get_params(), **given})
    with pytest.raises(kind, match=message):
        features.fit(sample)
    assert np.array_equal(features.set_params(**settings).transform(ROWS), before)


def test_rows_without_a_column_or_without_names_are_refused() -> None:
    features = fitted()
    with pytest.raises(ValueError, match="rows must have the column 'age', got 'price'"):
        features.transform(pd.DataFrame({"price": [1.0]}))
    with pytest.raises(ValueError, match=r"rows must have the columns 'age', .* by name, got ndarray"):
        features.transform(np.zeros((2, 6)))
    with pytest.raises(ValueError, match="rows must be an array, like those that were fitted, got mappings"):
        Features().fit(np.zeros((2, 2))).transform(ROWS)
    with pytest.raises(NotFittedError):
        Features().transform(ROWS)
    with pytest.raises(NotFittedError):
        Features().dimension  # noqa: B018
