"""Graphs from files, and ``armtriage graph``."""

from __future__ import annotations

import builtins
import json

import networkx as nx
import numpy as np
import pytest
import scipy.io
import scipy.sparse
from typer.testing import CliRunner

from armtriage import FeedbackGraph, __version__
from armtriage.cli import app as cli
from armtriage.graphs.files import read_graph
from armtriage.theory import domination_number, greedy_dominating_set, independence_number


@pytest.fixture
def write(tmp_path):
    def write(text, name="graph.txt", encoding="utf-8"):
        path = tmp_path / name
        path.write_text(text, encoding=encoding)
        return path

    return write


def run(*arguments):
    return CliRunner().invoke(cli, ["graph", *map(str, arguments)])


def refused(*arguments):
    result = run(*arguments)
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    return result.stderr


# --- Lists of edges ---
@pytest.mark.parametrize(
    "text",
    [
        "0 1\n1 2\n",
        "0\t1\n1\t2",
        "0,1\n1,2\n",
        "0 ; 1\n1 ; 2\n",
        "# a comment\n% another\n// a third\n\n  0   1  \n\n1 2\n",
        "source target\n0 1\n1 2\n",
        "FROM,TO\n0,1\n1,2\n",
        "begin,end,weight\n0,1,0.5\n1,2,7\n",
        "0 1 2.5\n1 2 0\n1 2\n",
        "10 20\n20 30\n",
        "007 8\n8 9\n",
        "0 1\r\n1 2\r\n",
        "1 2\n0 1\n0\n",
    ],
)
def test_edges_are_read(write, text):
    assert read_graph(write(text)).graph == FeedbackGraph.from_edges(3, [(0, 1), (1, 2)])


def test_edges_with_a_byte_order_mark(write):
    assert read_graph(write("0 1\n", encoding="utf-8-sig")).names == ("0", "1")


def test_names_are_arms_in_the_order_in_which_they_appear(write):
    found = read_graph(write("north,east\neast,south\nwest\n", "roads.csv"))
    assert found.names == ("north", "east", "south", "west")
    assert found.graph == FeedbackGraph.from_edges(4, [(0, 1), (1, 2)])


def test_numbers_are_arms_in_their_order(write):
    found = read_graph(write("30 5\n5 17\n"))
    assert found.names == ("5", "17", "30")
    assert found.graph == FeedbackGraph.from_edges(3, [(2, 0), (0, 1)])


def test_names_may_hold_blanks_and_quoted_commas(write):
    found = read_graph(write('"Paris, France",New York\nNew York,Bonn\n', "towns.csv"))
    assert found.names == ("Paris, France", "New York", "Bonn")


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("u v\nv w\n", ("u", "v", "w")),
        ("source target\nsource sink\n", ("source", "target", "sink")),
        ("a b\nc d\n", ("a", "b", "c", "d")),
        ("a 1\n2 3\n", ("a", "1", "2", "3")),
        ("a\n1 2\n", ("a", "1", "2")),
    ],
)
def test_a_first_line_of_names_is_not_mistaken_for_a_header(write, text, names):
    assert read_graph(write(text)).names == names


def test_edges_may_go_both_ways(write):
    path = write("0 1\n1 2\n")
    assert read_graph(path, undirected=True).graph == FeedbackGraph.from_edges(3, [(0, 1), (1, 2)], undirected=True)


def test_the_number_of_arms_may_be_given(write):
    found = read_graph(write("0 3\n"), n_arms=5)
    assert found.graph == FeedbackGraph.from_edges(5, [(0, 3)])
    assert found.names == ("0", "1", "2", "3", "4")
    assert read_graph(write("# nothing\n"), n_arms=2).graph == FeedbackGraph.semi_bandit(2)


@pytest.mark.parametrize(
    ("text", "options", "says"),
    [
        ("0,1\n\n1,\n", {}, r"graph.txt, line 3: a line must have two names, or one, got '1,'"),
        (",1\n", {}, "line 1: a line must have two names"),
        ("", {}, "graph.txt must have a line with an edge or an arm, got none"),
        ("source,target\n", {}, "must have a line with an edge or an arm, got none"),
        ("0 1\n1 5\n", {"n_arms": 5}, "line 2: names must be whole numbers in 0..4, as n_arms has it, got '1 5'"),
        ("0 1\nx 1\n", {"n_arms": 5}, "line 2: names must be whole numbers in 0..4"),
        ("0 1\n", {"n_arms": 0}, "n_arms must be a whole number from 1, got 0"),
    ],
)
def test_edges_are_refused(write, text, options, says):
    with pytest.raises(ValueError, match=says):
        read_graph(write(text), **options)


def test_what_is_no_text_is_refused(tmp_path):
    path = tmp_path / "graph.bin"
    path.write_bytes(b"0 1\n1 2\n\xff\xfe\x00 3\n")
    with pytest.raises(ValueError, match=r"graph.bin must be text in UTF-8, or a .graphml, .npz or .mtx file"):
        read_graph(path)


@pytest.mark.parametrize("name", ["nothing.txt", "nothing.npz", "."])
def test_a_missing_file_is_refused(tmp_path, name):
    with pytest.raises(FileNotFoundError, match="path must be a file that can be read"):
        read_graph(tmp_path / name)


# --- Matrices and GraphML ---
MATRIX = np.array([[0, 2, 0], [0, 0, -1.5], [0, 0, 0]])


def save_npz(path):
    scipy.sparse.save_npz(path, scipy.sparse.coo_array(MATRIX))


def save_mtx(path):
    scipy.io.mmwrite(path, scipy.sparse.coo_array(MATRIX))


def save_dense(path):
    with path.open("wb") as file:
        scipy.io.mmwrite(file, MATRIX)


def save_graphml(path):
    nx.write_graphml(nx.DiGraph([("a", "b"), ("b", "c")]), path)


@pytest.mark.parametrize(
    ("save", "name"),
    [(save_npz, "g.npz"), (save_mtx, "g.mtx"), (save_dense, "g.MTX"), (save_graphml, "g.graphml")],
)
@pytest.mark.parametrize("undirected", [False, True])
def test_files_of_other_kinds(tmp_path, save, name, undirected):
    path = tmp_path / name
    save(path)
    found = read_graph(path, undirected=undirected)
    assert found.graph == FeedbackGraph.from_edges(3, [(0, 1), (1, 2)], undirected=undirected)
    assert found.names == (("a", "b", "c") if "graphml" in name else ("0", "1", "2"))


def test_a_symmetric_matrix_market_file_goes_both_ways(tmp_path):
    scipy.io.mmwrite(tmp_path / "g.mtx", scipy.sparse.coo_array(MATRIX != 0).astype(int), symmetry="general")
    scipy.io.mmwrite(tmp_path / "s.mtx", scipy.sparse.coo_array((MATRIX != 0) | (MATRIX.T != 0)).astype(int))
    assert "symmetric" in (tmp_path / "s.mtx").read_text().splitlines()[0]
    assert not read_graph(tmp_path / "g.mtx").graph.is_undirected
    assert read_graph(tmp_path / "s.mtx").graph.is_undirected


def test_graphml_knows_its_direction(tmp_path):
    nx.write_graphml(nx.path_graph(3), tmp_path / "g.graphml")
    assert read_graph(tmp_path / "g.graphml").graph.is_undirected


@pytest.mark.parametrize("name", ["g.npz", "g.mtx", "g.graphml"])
def test_damaged_files_are_refused(write, name):
    with pytest.raises(ValueError, match=rf"{name} must be a whole .{name[2:]} file: "):
        read_graph(write("0 1\n", name))


def test_a_matrix_that_is_not_square_is_refused(tmp_path):
    scipy.sparse.save_npz(tmp_path / "g.npz", scipy.sparse.coo_array(MATRIX[:2]))
    with pytest.raises(ValueError, match=r"matrix must be square, got shape \(2, 3\)"):
        read_graph(tmp_path / "g.npz")


def test_the_number_of_arms_of_a_matrix_is_its_own(tmp_path):
    save_npz(tmp_path / "g.npz")
    with pytest.raises(ValueError, match=r"n_arms must be left out for g.npz, which has its own, got 9"):
        read_graph(tmp_path / "g.npz", n_arms=9)


def test_graphml_without_networkx_says_what_to_install(tmp_path, monkeypatch):
    save_graphml(tmp_path / "g.graphml")
    real = builtins.__import__

    def without(name, *rest, **others):
        if name == "networkx":
            raise ImportError(name)
        return real(name, *rest, **others)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ImportError, match=r"GraphML needs networkx: pip install 'armtriage\[graphs\]'"):
        read_graph(tmp_path / "g.graphml")


# --- The command ---
@pytest.fixture
def petersen(tmp_path):
    path = tmp_path / "petersen.csv"
    path.write_text("\n".join(f"{a},{b}" for a, b in nx.petersen_graph().edges))
    return path


def test_table(petersen):
    result = run(petersen, "--undirected")
    assert result.exit_code == 0, result.output
    assert "petersen.csv: 10 arms, 15 undirected edges" in result.stdout
    rows = {
        row[1].strip(): [cell.strip() for cell in row[2:4]] for row in map(_cells, result.stdout.splitlines()) if row
    }
    assert rows["independence number"] == ["4", "exact: integer programming"]
    assert rows["domination number"][0] == "3"
    assert rows["greedy dominating set"][0] == "3"
    assert "10 arms, 15 directed edges" in run(petersen).stdout


def _cells(line):
    return line.split("│") if line.count("│") == 4 else None


def test_json(petersen):
    result = run(petersen, "--json")
    assert result.exit_code == 0, result.output
    said = json.loads(result.stdout)
    graph = read_graph(petersen).graph
    alpha, domination = independence_number(graph), domination_number(graph)
    assert said == {
        "version": __version__,
        "file": str(petersen),
        "n_arms": 10,
        "n_edges": 25,
        "undirected": False,
        "independence_number": {"lower": 4, "upper": 4, "how": alpha.how, "exact": True},
        "domination_number": {**domination._asdict(), "exact": True},
        "greedy_dominating_set": greedy_dominating_set(graph).size,
        "greedy_at_most": 10,
        "chvatal_dominating_set": said["chvatal_dominating_set"],
    }


def test_a_search_that_is_stopped_gives_limits(tmp_path):
    path = tmp_path / "g.npz"
    scipy.sparse.save_npz(path, FeedbackGraph.erdos_renyi(300, 0.1, seed=7, directed=False).to_sparse())
    said = json.loads(run(path, "--time-limit", 0, "--json").stdout)
    assert said["undirected"]
    assert said["independence_number"]["lower"] < said["independence_number"]["upper"]
    assert " to " in run(path, "--time-limit", 0).stdout


def test_arms_without_edges(write):
    said = json.loads(run(write("0 1\n"), "--arms", 4, "--json").stdout)
    assert (said["n_arms"], said["independence_number"]["lower"]) == (4, 3)


def test_refusals(write, tmp_path):
    assert "path must be a file that can be read" in refused(tmp_path / "nothing.csv")
    assert "line 2: a line must have two names" in refused(write("0,1\n2,\n"))
    assert "n_arms must be a whole number from 1, got 0" in refused(write("0 1\n"), "--arms", 0)
    assert "time_limit must be a finite number from 0, got -1.0" in refused(write("0 1\n"), "--time-limit", -1)


def test_help_says_what_a_file_is():
    text = run("--help").stdout
    assert all(word in text for word in (".graphml", ".npz", ".mtx", "--undirected", "--time-limit", "--json"))
