"""Scaling: regret against a parameter on log scales, with slopes and bounds."""

import numpy as np
import polars
import pytest
from matplotlib.figure import Figure

from armtriage import plots
from plots.drawn import assert_readable, boxes, said

HORIZONS = [100, 1000, 10_000]


def points(policies=("ucb",), power=0.5, scale=1.0, spread=0.1, name="horizon", values=HORIZONS):
    rows = []
    for number, policy in enumerate(policies):
        for value in values:
            mean = scale * (number + 1) * value**power
            low, high = (mean * (1 - spread), mean * (1 + spread)) if spread else (None, None)
            rows.append({"policy": policy, name: value, "mean": mean, "low": low, "high": high, "runs": 8})
    return polars.DataFrame(rows, schema_overrides={"low": polars.Float64, "high": polars.Float64})


def slopes(policies=("ucb",), slope=0.5, half=0.02):
    ends = {"low": slope - half, "high": slope + half} if half else {"low": None, "high": None}
    return polars.DataFrame([{"policy": policy, "slope": slope, **ends} for policy in policies])


def test_scaling_is_drawn_on_log_scales_with_its_slope():
    ax = plots.scaling(points(), slopes())
    assert ax.get_xscale() == ax.get_yscale() == "log"
    assert said(ax) == ["ucb\nslope 0.50 ± 0.02"]
    marks, fit = ax.lines
    assert marks.get_ydata() == pytest.approx(np.sqrt(HORIZONS))
    assert fit.get_ydata() == pytest.approx(np.sqrt(HORIZONS))
    assert "95% intervals; 8 runs" in ax.figure.get_supxlabel()


def test_the_fitted_line_has_the_slope_that_is_given():
    ax = plots.scaling(points(power=0.5), slopes(slope=0.7))
    x, y = np.log(ax.lines[1].get_xdata()), np.log(ax.lines[1].get_ydata())
    assert np.diff(y) / np.diff(x) == pytest.approx([0.7, 0.7])
    assert y.mean() == pytest.approx(0.5 * x.mean())


@pytest.mark.parametrize(
    ("half", "text"), [(0.02, "0.50 ± 0.02"), (0.003, "0.500 ± 0.003"), (0.4, "0.50 ± 0.40"), (0, "0.50")]
)
def test_slopes_have_the_digits_of_their_error(half, text):
    assert said(plots.scaling(points(), slopes(half=half))) == [f"ucb\nslope {text}"]


def test_without_slopes_points_are_joined():
    ax = plots.scaling(points(spread=0))
    assert said(ax) == ["ucb"]
    assert list(ax.lines[1].get_xdata()) == HORIZONS


def test_what_is_not_positive_is_left_out():
    table = points().with_columns(mean=polars.Series([0.0, 2.0, 3.0]))
    assert list(plots.scaling(table).lines[0].get_ydata()) == [2.0, 3.0]
    with pytest.raises(ValueError, match="above 0"):
        plots.scaling(table.with_columns(mean=polars.lit(0.0)))
    with pytest.raises(ValueError, match="horizon must be above 0 to be drawn on a log scale, got 0"):
        plots.scaling(table.with_columns(horizon=polars.Series([0, 0, 5])))


def test_lines_are_told_apart_by_all_columns():
    both = [points(scale=k).with_columns(polars.lit(k).alias("environment.n_arms")) for k in (1, 2)]
    table = polars.concat(both)
    fits = polars.concat([slopes().with_columns(polars.lit(k).alias("environment.n_arms")) for k in (1, 2)])
    ax = plots.scaling(table, fits, parameter="horizon")
    assert said(ax) == ["ucb, n_arms=1\nslope 0.50 ± 0.02", "ucb, n_arms=2\nslope 0.50 ± 0.02"]


def test_the_parameter_is_the_column_before_the_mean():
    table = points(name="environment.n_arms")
    assert plots.scaling(table).get_xlabel() == "number of arms"
    with pytest.raises(ValueError, match="must have a column 'other'"):
        plots.scaling(table, parameter="other")


@pytest.mark.parametrize(
    ("bound", "text"),
    [
        (lambda T: 3 * T**0.5, "bound"),
        (lambda T: 50 * T, "bound (vacuous)"),
        (lambda T: 300 * T**0.5, "bound (vacuous below 1,000)"),
        (lambda T: T**1.5 / 5, "bound (vacuous in part)"),
        (lambda T: 0.0, "bound (vacuous)"),
        (lambda T: None, None),
    ],
)
def test_bounds_are_named_and_called_vacuous_where_they_are(bound, text):
    ax = plots.scaling(points(), bounds={"bound": bound}, ceiling=lambda T: 10 * T)
    assert [one.replace("\n", " ") for one in said(ax) if one != "ucb"] == ([text] if text else [])
    assert_readable(ax)


def test_bounds_are_drawn_at_the_values_of_the_parameter():
    ax = plots.scaling(points(), bounds={"upper": lambda T: None if T == 100 else 2.0 * T})
    assert ax.lines[-1].get_xydata().tolist() == [[1000, 2000], [10_000, 20_000]]


@pytest.mark.parametrize("width", [None, 3.4])
@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e12])
def test_many_policies_are_readable(width, scale):
    policies = [f"elimination:interval=hoeffding,delta=0.0{i}" for i in range(9)] + ["a", "b", "c"]
    ax = plots.scaling(
        points(policies, scale=scale), slopes(policies), None if width is None else plots.new_axes(width, 2.6)
    )
    assert_readable(ax)
    assert len(set(said(ax))) == 12


def test_axes_of_a_width_have_text_of_its_size():
    column, page = (plots.scaling(points(), ax=plots.new_axes(width)) for width in (3.4, 6.5))
    assert column.xaxis.label.get_fontsize() == 7.5
    assert page.xaxis.label.get_fontsize() == 9.5
    assert len(boxes(column)) > 3


@pytest.mark.parametrize("values", [[1000, 1001, 1002], [5, 6, 7, 1000], list(range(5, 35)), [0.001, 0.01, 0.1]])
def test_any_values_of_the_parameter_are_readable(values):
    assert_readable(plots.scaling(points(values=values), slopes(), plots.new_axes(3.4, 2.4)))


def test_scaling_is_drawn_where_it_is_told():
    ax = Figure().add_subplot()
    assert plots.scaling(points(), ax=ax) is ax
    assert ax.figure.get_supxlabel() == ""
