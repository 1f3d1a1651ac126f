"""The triage chart: who was decided when."""

import numpy as np
import pytest
from matplotlib.colors import to_hex

from armtriage import TriageLog, plots
from plots.drawn import assert_readable


def spans(ax):
    """Return state -> {row: (from, to)}."""
    found = {}
    for part in ax.collections:
        boxes = [path.vertices for path in part.get_paths()]
        found[part.get_label()] = {int(np.floor(box[:, 1].mean())): (box[:, 0].min(), box[:, 0].max()) for box in boxes}
        assert all(to_hex(c).upper() == plots.STATE_COLOURS[part.get_label()] for c in part.get_facecolor())
    return found


def test_triage_rows_are_ranked_by_mean_and_coloured_by_state():
    log = TriageLog(np.array([2, 0]), np.array([20, 50]), np.array([False, True]))
    ax = plots.triage_chart(log, [0.5, 0.9, 0.1], 100)
    # Arm 1 is the best and never decided, arm 0 is confirmed, arm 2 eliminated.
    assert spans(ax) == {
        "confirmed": {1: (50, 100)},
        "active": {0: (1, 100), 1: (1, 50), 2: (1, 20)},
        "eliminated": {2: (20, 100)},
    }
    assert [tick.get_text() for tick in ax.get_yticklabels()] == ["0.90", "0.50", "0.10"]
    assert ax.get_ylim() == (3, 0)
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["confirmed", "active", "eliminated"]


def test_triage_marks_the_budget():
    log = TriageLog(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.bool_))
    ax = plots.triage_chart(log, [0.5, 0.9], 100, budget=1)
    assert ax.lines[0].get_ydata() == [1, 1]
    assert len(spans(ax)["active"]) == 2


@pytest.mark.parametrize("n", [1, 2, 160, 3000])
def test_triage_of_any_number_of_arms(n, tmp_path):
    rng = np.random.default_rng(1)
    arms = rng.permutation(n)[: n // 2]
    log = TriageLog(arms, np.sort(rng.integers(1, 1000, arms.size)), rng.random(arms.size) < 0.3)
    ax = plots.triage_chart(log, rng.random(n), 1000)
    assert_readable(ax)
    assert_readable(plots.triage_chart(log, rng.random(n), 1000, plots.new_axes(3.4, 2.4), budget=1))
    plots.save(ax, tmp_path / "chart.svg", tmp_path / "chart.png")
    assert (tmp_path / "chart.svg").stat().st_size < 1_000_000


@pytest.mark.parametrize(
    ("means", "horizon", "says"),
    [([], 5, "means must hold"), ([0.1], 5, "1 with arm 3"), ([0.1] * 4, 0, "horizon must be")],
)
def test_triage_refuses(means, horizon, says):
    log = TriageLog(np.array([3]), np.array([2]), np.array([True]))
    with pytest.raises(ValueError, match=says):
        plots.triage_chart(log, means, horizon)
