"""Final regret and paired differences: rows of values with their intervals."""

import numpy as np
import polars
import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from scipy import stats

from armtriage import plots
from plots.drawn import assert_readable, boxes, trace

LONG = [f"hierarchical_elimination:dimension=20,norm=0.5,confidence=0.0{i}" for i in range(4)]


def labels(ax):
    return [text.get_text() for text in ax.get_yticklabels()]


def dots(ax):
    """Return the values of the dots, from the top."""
    return [float(line.get_xdata()[0]) for line in ax.lines if len(line.get_xdata()) == 1]


def intervals(ax):
    return [tuple(map(float, line.get_xdata())) for line in ax.lines if len(set(line.get_xdata())) == 2]


def summary(**columns):
    return polars.DataFrame(columns, schema_overrides={"low": polars.Float64, "high": polars.Float64})


def test_final_regret_has_the_least_at_the_top_with_intervals():
    traces = {"bad": trace(50.0, 70.0), "good": trace(5.0, 6.0, 7.0)}
    ax = plots.final_regret(traces)
    assert labels(ax) == ["good", "bad"]
    assert dots(ax) == [6.0, 60.0]
    low, high = (float(end[-1]) for end in traces["good"].interval())
    assert intervals(ax)[0] == pytest.approx((low, high))
    assert {text.get_text() for text in ax.texts} == {"6", "60"}


def test_final_regret_keeps_the_colours_of_the_curves():
    traces = {"bad": trace(50.0, 70.0), "good": trace(5.0, 6.0)}
    ax = plots.final_regret(traces)
    shown = [to_hex(line.get_color()).upper() for line in ax.lines if len(line.get_xdata()) == 1]
    assert shown == [plots.CURVE_COLOURS[1], plots.CURVE_COLOURS[0]]
    ax = plots.final_regret({"good": traces["good"]}, order=["bad", "good"])
    assert to_hex(ax.lines[0].get_color()).upper() == plots.CURVE_COLOURS[1]


def test_final_regret_of_a_table():
    table = summary(policy=["a", "b"], mean=[2.0, 1.0], low=[1.5, None], high=[2.5, None], runs=[3, 1])
    ax = plots.final_regret(table)
    assert labels(ax) == ["b", "a"]
    assert intervals(ax) == [(1.5, 2.5)]
    assert "1 to 3 runs" in ax.figure.get_supxlabel()


def test_final_regret_without_runs_is_left_out():
    table = summary(policy=["a", "b"], mean=[2.0, None], low=[1.5, None], high=[2.5, None])
    assert labels(plots.final_regret(table)) == ["a"]


def test_bars_are_for_plain_scales():
    near = plots.final_regret({"a": trace(1.0), "b": trace(2.0)})
    far = plots.final_regret({"a": trace(1.0), "b": trace(2000.0)})
    assert (near.get_xscale(), len(near.patches)) == ("linear", 2)
    assert (far.get_xscale(), len(far.patches)) == ("log", 0)
    assert plots.final_regret({"a": trace(1.0), "b": trace(2000.0)}, log=False).get_xscale() == "linear"


def test_no_regret_on_a_log_scale_is_a_hollow_mark_at_the_left():
    ax = plots.final_regret({"none": trace(0.0, 0.0), "some": trace(1.0, 1.1), "much": trace(999.0, 999.0)})
    first = next(line for line in ax.lines if len(line.get_xdata()) == 1)
    assert first.get_xdata()[0] == ax.get_xlim()[0]
    assert first.get_markerfacecolor() == "none"
    assert ax.texts[0].get_text() == "0"


def test_all_zero_is_drawn():
    ax = plots.final_regret({"a": trace(0.0, 0.0), "b": trace(0.0, 0.0)})
    assert ax.get_xscale() == "linear"
    assert dots(ax) == [0.0, 0.0]
    assert_readable(ax)


def test_tables_of_several_environments_are_refused():
    table = summary(policy=["a", "a"], mean=[2.0, 1.0], low=[1.0, 0.5], high=[3.0, 2.0])
    with pytest.raises(ValueError, match="each policy once; filter it to one environment"):
        plots.final_regret(table)
    with pytest.raises(ValueError, match="must have a column 'low', got policy, mean"):
        plots.final_regret(polars.DataFrame({"policy": ["a"], "mean": [1.0]}))
    with pytest.raises(ValueError, match="one row or more"):
        plots.final_regret(table.clear())
    with pytest.raises(ValueError, match="must hold a value of mean, got none"):
        plots.final_regret(table.head(1).with_columns(mean=polars.lit(None, polars.Float64)))


def test_differences_are_taken_replication_by_replication():
    base, other = np.array([10.0, 20.0, 40.0]), np.array([11.0, 22.0, 43.0])
    ax = plots.paired_differences({"base": trace(*base), "other": trace(*other)}, "base")
    assert labels(ax) == ["other"]
    assert dots(ax) == [2.0]
    expected = stats.t.interval(0.95, 2, 2.0, stats.sem(other - base))
    assert intervals(ax) == [pytest.approx(expected)]
    assert "95% intervals, paired; 3 runs" in ax.figure.get_supxlabel()


def test_differences_show_the_line_at_zero():
    ax = plots.paired_differences({"base": trace(1.0, 1.0), "other": trace(31.0, 32.0)}, "base")
    left, right = ax.get_xlim()
    assert left < 0 < right
    assert [0, 0] in [list(line.get_xdata()) for line in ax.lines]


def test_differences_keep_the_colours_of_the_curves():
    traces = {"base": trace(1.0, 1.0), "other": trace(3.0, 4.0)}
    colours = {to_hex(line.get_color()).upper() for line in plots.paired_differences(traces, "base").lines}
    assert plots.CURVE_COLOURS[1] in colours
    assert plots.CURVE_COLOURS[0] not in colours


def test_differences_of_a_table():
    table = summary(policy=["a", "b"], difference=[2.0, -1.0], low=[1.5, -3.0], high=[2.5, 1.0], runs=[8, 8])
    ax = plots.paired_differences(table, "base")
    assert labels(ax) == ["b", "a"]
    assert [text.get_text() for text in ax.texts] == ["-1", "+2"]


def test_differences_of_many_sizes_have_a_log_scale_on_both_sides():
    traces = {"base": trace(0.0), "near": trace(-0.5), "far": trace(4000.0)}
    ax = plots.paired_differences(traces, "base")
    assert ax.get_xscale() == "symlog"
    assert "log scale beyond ±0.1" in ax.get_xlabel()
    assert 0.0 in ax.get_xticks()
    assert_readable(ax)
    assert plots.paired_differences(traces, "base", log=False).get_xscale() == "linear"


def test_differences_refuse():
    with pytest.raises(ValueError, match="baseline must be one of a, got 'b'"):
        plots.paired_differences({"a": trace(1.0)}, "b")
    with pytest.raises(ValueError, match="other than the baseline 'a'"):
        plots.paired_differences({"a": trace(1.0)}, "a")
    with pytest.raises(ValueError, match="same replications and horizon to be paired, got others for 'b'"):
        plots.paired_differences({"a": trace(1.0), "b": trace(1.0, 2.0)}, "a")
    with pytest.raises(ValueError, match="same replications and horizon to be paired, got others for 'b'"):
        plots.paired_differences({"a": trace(1.0), "b": trace(1.0, points=(1, 50))}, "a")


def draw(kind, traces, ax=None):
    if kind == "bars":
        return plots.final_regret(traces, ax)
    return plots.paired_differences(traces, next(iter(traces)), ax)


SETS = {
    "twelve": {f"policy-{i:02d}": trace(100.0 * 1.2**i, 101.0 * 1.2**i) for i in range(12)},
    "long": {label: trace(9.0 + 10.0 * 3**i, 10.0 * 3**i) for i, label in enumerate(LONG)},
    "single": {"a": trace(3.0), "b": trace(5.0)},
    "tiny": {"a": trace(1e-7, 2e-7), "b": trace(3e-6, 4e-6)},
    "huge": {"a": trace(4.0, 5.0), "b": trace(1e12, 1.1e12)},
}


@pytest.mark.parametrize("kind", ["bars", "differences"])
@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("width", [None, 3.4])
def test_rows_are_readable(kind, name, width):
    ax = draw(kind, SETS[name], None if width is None else plots.new_axes(width, 3.2))
    assert_readable(ax)


@pytest.mark.parametrize("kind", ["bars", "differences"])
def test_long_labels_stay_different(kind):
    said = [text for text, _ in boxes(draw(kind, SETS["long"])) if "…" in text and "regret" not in text]
    assert len(set(said)) == len(said) == {"bars": 4, "differences": 3}[kind]


@pytest.mark.parametrize("kind", ["bars", "differences"])
def test_rows_draw_where_they_are_told(kind):
    ax = Figure().add_subplot()
    assert draw(kind, SETS["single"], ax) is ax
    assert ax.figure.get_supxlabel() == ""
