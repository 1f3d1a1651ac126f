"""Regret curves: lines, bands, certificates, and labels that can be read."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from armtriage import plots
from plots.drawn import assert_readable, trace


def places(ax):
    figure = ax.get_figure(root=True)
    figure.draw_without_rendering()
    return sorted((text.get_window_extent() for text in ax.texts), key=lambda box: box.y0)


def test_curves_have_a_line_a_band_and_a_label_each():
    traces = {"one": trace(5.0, 6.0), "two": trace(50.0, 70.0)}
    ax = plots.regret_curves(traces)
    assert [line.get_label() for line in ax.lines] == ["one", "two"]
    assert [to_hex(line.get_color()).upper() for line in ax.lines] == list(plots.CURVE_COLOURS[:2])
    assert len(ax.collections) == 2
    assert {text.get_text(): to_hex(text.get_color()).upper() for text in ax.texts} == dict(
        zip(traces, plots.CURVE_COLOURS, strict=False)
    )
    assert ax.get_xscale() == ax.get_yscale() == "log"
    assert ax.lines[0].get_ydata() == pytest.approx(traces["one"].mean)


def test_one_replication_has_no_band():
    assert len(plots.regret_curves({"one": trace(5.0)}).collections) == 0


def test_labels_do_not_overlap_and_keep_the_order():
    finals = {f"policy {i}": trace(100.0 + i / 10, 100.0 + i / 10) for i in range(8)}
    ax = plots.regret_curves({**finals, "far": trace(1e5, 1e5)})
    boxes = places(ax)
    assert all(low.y1 <= high.y0 + 1 for low, high in pairwise(boxes))
    heights = {text.get_text(): text.get_window_extent().y0 for text in ax.texts}
    assert sorted(heights, key=heights.get) == [*finals, "far"]
    right = ax.get_figure(root=True).bbox.x1
    assert max(box.x1 for box in boxes) <= right


def test_more_curves_than_colours_differ_in_their_dashes():
    ax = plots.regret_curves({str(i): trace(float(i + 1)) for i in range(len(plots.CURVE_COLOURS) + 1)})
    first, last = ax.lines[0], ax.lines[-1]
    assert first.get_color() == last.get_color()
    assert first.get_linestyle() != last.get_linestyle()


@pytest.mark.parametrize("width", [None, 3.4])
@pytest.mark.parametrize("number", [2, 12, 30])
def test_any_number_of_curves_is_readable(width, number):
    names = [f"elimination:interval=kl,delta={i / 100}" if i % 3 else f"policy {i}" for i in range(number)]
    traces = {name: trace(5.0 + i, 6.0 + i) for i, name in enumerate(names)}
    ax = plots.regret_curves(traces, None if width is None else plots.new_axes(width, 2.6))
    assert len({text.get_text() for text in ax.texts}) == number
    assert_readable(ax)


@pytest.mark.parametrize("scale", [1e-9, 1e12])
def test_regret_of_any_size_is_readable(scale):
    assert_readable(plots.regret_curves({"a": trace(scale, 2 * scale), "b": trace(3 * scale)}))


def certified(times, *finals):
    one = trace(*finals)
    return replace(one, certificate=times * one.regret)


def test_certificates_are_dashed_above_their_regret_in_its_colour():
    traces = {"one": certified(3.0, 5.0, 7.0), "two": certified(10.0, 50.0, 70.0)}
    ax = plots.regret_curves(traces, certificate=True)
    lines = {line.get_label(): line for line in ax.lines}
    assert list(lines) == ["one", "one: certificate", "two", "two: certificate"]
    for label, made in traces.items():
        regret, bound = lines[label], lines[f"{label}: certificate"]
        assert regret.get_color() == bound.get_color()
        assert (regret.get_linestyle(), bound.get_linestyle()) == ("-", "--")
        assert bound.get_ydata() == pytest.approx(made.certificate.mean(axis=0))
    assert {text.get_text() for text in ax.texts} == set(lines)
    assert ax.get_ylim()[1] > traces["two"].certificate.mean(axis=0)[-1]
    assert "dashed: certificates" in ax.figure.get_supxlabel().replace("\n", " ")
    assert_readable(ax)
    assert_readable(plots.regret_curves(traces, plots.new_axes(3.4, 2.4), certificate=True))


def test_certificates_are_drawn_only_if_asked_for():
    ax = plots.regret_curves({"one": certified(3.0, 5.0)})
    assert [line.get_label() for line in ax.lines] == ["one"]


@pytest.mark.parametrize("log", [True, False])
def test_a_certificate_of_no_regret_and_one_that_is_0_are_drawn(log, tmp_path):
    best = replace(trace(0.0, 0.0), certificate=np.full((2, 3), 4.0))
    ax = plots.regret_curves(
        {"best": best, "sure": certified(1.0, 0.0), "other": certified(2.0, 3.0)}, log=log, certificate=True
    )
    assert_readable(ax)
    plots.save(ax, tmp_path / "zero.svg", tmp_path / "zero.png")


def test_a_missing_certificate_is_named():
    with pytest.raises(ValueError, match=r"certificate=True to draw it, got none for 'two'"):
        plots.regret_curves({"one": certified(2.0, 1.0), "two": trace(1.0)}, certificate=True)


def test_order_gives_out_the_colours():
    ax = plots.regret_curves({"b": trace(5.0)}, order=["a", "b"])
    assert to_hex(ax.lines[0].get_color()).upper() == plots.CURVE_COLOURS[1]


def test_no_regret_at_all_is_drawn_on_a_plain_scale(tmp_path):
    ax = plots.regret_curves({"best": trace(0.0, 0.0), "also": trace(0.0, 0.0)})
    assert ax.get_yscale() == "linear"
    plots.save(ax, tmp_path / "zero.png")


def test_some_zero_regret_is_left_out_on_a_log_scale(tmp_path):
    ax = plots.regret_curves({"best": trace(0.0, 0.0), "other": trace(3.0, 4.0)})
    assert ax.get_yscale() == "log"
    assert {text.get_text() for text in ax.texts} == {"best (0)", "other"}
    plots.save(ax, tmp_path / "zero.png", tmp_path / "zero.svg")


def test_curves_draw_where_they_are_told():
    ax = Figure().add_subplot()
    assert plots.regret_curves({"one": trace(5.0)}, ax, log=False) is ax
    assert ax.get_yscale() == "linear"


@pytest.mark.parametrize("draw", [plots.regret_curves, plots.final_regret])
def test_traces_without_labels_are_called_by_their_policies(draw):
    one, two = (replace(trace(5.0 * n, 6.0 * n), policy=name) for n, name in ((1, "Greedy"), (2, "Random")))

    def labels(ax):
        return [text.get_text() for text in (ax.texts if draw is plots.regret_curves else ax.get_yticklabels())]

    assert labels(draw([one, two])) == labels(draw((one, two))) == ["Greedy", "Random"]
    assert labels(draw(one)) == ["Greedy"]
    assert labels(draw([one, two, one]))[::2] == ["Greedy 1", "Random"]


def test_differences_of_traces_without_labels():
    one, two = (replace(trace(5.0 * n, 6.0 * n), policy=name) for n, name in ((1, "Greedy"), (2, "Random")))
    ax = plots.paired_differences([one, two], "Random")
    assert [text.get_text() for text in ax.get_yticklabels()] == ["Greedy"]


def test_what_no_trace_is_refused():
    with pytest.raises(ValueError, match="traces must hold one trace or more"):
        plots.regret_curves({})
    for draw in (plots.regret_curves, plots.final_regret):
        for given in ([3], {"one": 3}):
            with pytest.raises(TypeError, match=r"traces must be a Trace, a list of them, or a mapping .*, got 3"):
                draw(given)
    with pytest.raises(
        TypeError, match=r"table must be a polars.DataFrame with columns policy, mean, low, high, got None"
    ):
        plots.final_regret(None)


def test_a_reward_seed_that_there_is_none_of_is_not_signed():
    ax = plots.regret_curves(replace(trace(5.0, 6.0), environment_seed=None))
    assert "policy seed 7; armtriage" in ax.get_figure(root=True).get_supxlabel().replace("\n", " ")
