"""Heat maps: a value over two parameters."""

import polars
import pytest
from matplotlib.figure import Figure

from armtriage import plots
from plots.drawn import assert_readable, said


def cells(columns=(10, 20, 40), rows=(1, 2), value=lambda x, y: x * y / 3):
    return polars.DataFrame([{"x": x, "y": y, "mean": value(x, y)} for x in columns for y in rows])


def test_heat_map_places_the_values():
    ax = plots.heat_map(cells().reverse(), "x", "y")
    [mesh] = ax.collections
    assert mesh.get_array().tolist() == [[10 / 3, 20 / 3, 40 / 3], [20 / 3, 40 / 3, 80 / 3]]
    assert said(ax) == ["3.33", "6.67", "13.3", "6.67", "13.3", "26.7"]
    assert [text.get_text() for text in ax.get_xticklabels()] == ["10", "20", "40"]
    assert [text.get_text() for text in ax.get_yticklabels()] == ["1", "2"]


def test_heat_map_leaves_gaps_empty():
    ax = plots.heat_map(cells().slice(1), "x", "y")
    assert ax.collections[0].get_array().mask.tolist() == [[True, False, False], [False, False, False]]
    assert len(said(ax)) == 5


def test_heat_map_colours_may_be_logarithmic():
    ax = plots.heat_map(cells(value=lambda x, y: 0.0 if x == 10 else 10.0 ** (x / 10)), "x", "y", log=True)
    mesh = ax.collections[0]
    assert mesh.norm(1000.0) == pytest.approx(0.5)
    assert mesh.get_array().mask[:, 0].all()


def test_heat_map_writes_numbers_only_where_they_fit():
    assert said(plots.heat_map(cells(range(10, 40), range(30)), "x", "y")) == []


def test_heat_map_takes_words():
    table = cells().with_columns(x=polars.col("x").replace_strict({10: "cliques", 20: "star", 40: "erdos_renyi"}))
    ax = plots.heat_map(table, "x", "y")
    assert [text.get_text() for text in ax.get_xticklabels()] == ["cliques", "erdos_renyi", "star"]


def test_heat_map_names_every_row_and_folds_words_above_wide_columns():
    policies, places = ["guarded, uniform prior", "Thompson sampling", "greedy"], [f"law number {i}" for i in range(20)]
    ax = plots.heat_map(cells(policies, places, lambda x, y: 1.5), "x", "y", ax=plots.new_axes(6.4, 6.0))
    assert [text.get_text() for text in ax.get_yticklabels()] == sorted(places)
    found = [text.get_text() for text in ax.get_xticklabels()]
    assert [text.replace("\n", " ") for text in found] == sorted(policies)
    assert "\n" in found[2]
    assert_readable(ax)


def test_heat_map_names_fewer_rows_where_they_would_touch():
    places = [f"law number {i}" for i in range(40)]
    ax = plots.heat_map(cells([1, 2], places, lambda x, y: 1.5), "x", "y", ax=plots.new_axes(3.4, 2.4))
    assert 5 < len(ax.get_yticklabels()) < 40
    assert_readable(ax)


def test_heat_map_refuses():
    twice = polars.concat([cells(), cells()])
    with pytest.raises(ValueError, match="each pair of x and y once; filter it to one policy"):
        plots.heat_map(twice, "x", "y")
    with pytest.raises(ValueError, match="must have a column 'z'"):
        plots.heat_map(cells(), "x", "z")
    with pytest.raises(ValueError, match="a value of mean to be drawn above 0"):
        plots.heat_map(cells(value=lambda x, y: -1.0), "x", "y", log=True)


@pytest.mark.parametrize("width", [None, 3.4])
@pytest.mark.parametrize(
    "table",
    [
        cells(),
        cells([10 * 2**i for i in range(30)], range(20)),
        cells([1], [1]),
        cells(value=lambda x, y: 1e-9 * x),
        cells(value=lambda x, y: 1e12 * x * y),
        cells(value=lambda x, y: 5.0),
        cells(["semi_bandit", "full_information", "a_directed_erdos_renyi_graph"], value=lambda x, y: 1.5 * y),
    ],
    ids=["small", "large", "one", "tiny", "huge", "same", "words"],
)
def test_heat_map_is_readable(table, width):
    assert_readable(plots.heat_map(table, "x", "y", ax=None if width is None else plots.new_axes(width, 2.4)))


def test_a_heat_map_is_drawn_where_it_is_told():
    ax = Figure().add_subplot()
    assert plots.heat_map(cells(), "x", "y", ax=ax) is ax
    assert ax.figure.get_supxlabel() == ""
