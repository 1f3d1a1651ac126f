"""Feedback graphs from files: lists of edges, GraphML, SciPy and Matrix Market matrices."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from armtriage._arguments import LARGEST, check_count
from armtriage.graphs.feedback import FeedbackGraph

_COMMENTS = ("#", "%", "//")
_SEPARATORS = ("\t", ",", ";")
_HEADERS = {"source", "target", "from", "to", "src", "dst", "tail", "head", "arm", "reveals", "u", "v"}


class NamedGraph(NamedTuple):
    """A feedback graph, and what its arms are called in the file."""

    graph: FeedbackGraph
    names: tuple[str, ...]


def read_graph(path: str | Path, *, undirected: bool = False, n_arms: int | None = None) -> NamedGraph:
    r"""Return the graph in a file; every arm reveals itself, whether the file says so or not.

    The ending says what the file is: ``.graphml``, ``.npz`` (a SciPy sparse matrix), ``.mtx`` (Matrix Market), and
    anything else a list of edges. There a line has two names, that of an arm and that of one it reveals, parted by
    commas, semicolons, tabs or blanks, and maybe more columns, which are ignored; or one name, of an arm. Lines that
    begin with #, % or // are comments, and a header such as ``source,target`` is known. If all names are whole
    numbers, the arms are in their order, else in that in which they appear.

    Parameters
    ----------
    path : str or Path
        The file.
    undirected : bool
        Whether to take all edges to go both ways. Otherwise a GraphML file and a symmetric matrix say so themselves.
    n_arms : int, optional
        The names are then the numbers 0 to ``n_arms - 1``, also of arms that have no edge. For lists of edges.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "roads.csv"
    ...     _ = file.write_text("from,to\nnorth,east\neast,south\n")
    ...     read_graph(file)
    NamedGraph(graph=FeedbackGraph(n_arms=3, n_edges=5), names=('north', 'east', 'south'))
    """
    file = Path(path)
    if n_arms is not None:
        n_arms = check_count("n_arms", n_arms, 1, LARGEST)
        if file.suffix.lower() in _READERS:
            raise ValueError(f"n_arms must be left out for {file.name}, which has its own, got {n_arms}")
    if not file.is_file():
        raise FileNotFoundError(f"path must be a file that can be read, got {str(path)!r}")
    read = _READERS.get(file.suffix.lower())
    if read is None:
        return _read_edges(file, undirected, n_arms)
    try:
        return read(file, undirected)
    except ImportError:
        raise
    except Exception as error:  # a damaged file makes the libraries raise anything
        raise ValueError(f"{file.name} must be a whole {file.suffix} file: {error}") from error


def _of_matrix(matrix: Any, undirected: bool) -> NamedGraph:
    graph = FeedbackGraph.from_sparse(matrix)
    if undirected:
        graph = FeedbackGraph.from_sparse(graph.to_sparse() + graph.to_sparse().T)
    return NamedGraph(graph, tuple(map(str, range(graph.n_arms))))


def _read_npz(file: Path, undirected: bool) -> NamedGraph:
    from scipy.sparse import load_npz

    return _of_matrix(load_npz(file), undirected)


def _read_mtx(file: Path, undirected: bool) -> NamedGraph:
    from scipy.io import mmread

    return _of_matrix(mmread(file), undirected)


def _read_graphml(file: Path, undirected: bool) -> NamedGraph:
    try:
        import networkx
    except ImportError as error:
        raise ImportError("GraphML needs networkx: pip install 'armtriage[graphs]'") from error
    found = networkx.read_graphml(file)
    if undirected:
        found = found.to_undirected()
    return NamedGraph(FeedbackGraph.from_networkx(found), tuple(map(str, found.nodes())))


_READERS: dict[str, Callable[[Path, bool], NamedGraph]] = {
    ".graphml": _read_graphml,
    ".mtx": _read_mtx,
    ".npz": _read_npz,
}


def _rows(file: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield the number of each line that is neither empty nor a comment, and the one or two names on it."""
    separator: str | None = ""
    number = 0
    with file.open(encoding="utf-8-sig") as lines:
        try:
            for number, line in enumerate(lines, 1):
                text = line.strip()
                if not text or text.startswith(_COMMENTS):
                    continue
                if separator == "":
                    separator = next((one for one in _SEPARATORS if one in text), None)
                fields = text.split() if separator is None else next(csv.reader([text], delimiter=separator))
                names = [field.strip() for field in fields[:2]]
                if not all(names):
                    raise ValueError(f"{file.name}, line {number}: a line must have two names, or one, got {text!r}")
                yield number, names
        except (UnicodeDecodeError, csv.Error) as error:
            accepted = "text in UTF-8, or a .graphml, .npz or .mtx file"
            raise ValueError(f"{file.name} must be {accepted}; after line {number}: {error}") from error


def _is_number(name: str) -> bool:
    return name.isascii() and name.isdecimal()


def _has_header(rows: list[tuple[int, list[str]]]) -> bool:
    """Return whether the first line names the columns: by known words, or by words where all else is numbers."""
    head, others = rows[0][1], {name for _, names in rows[1:] for name in names}
    if len(head) < 2 or others.intersection(head):
        return False
    if {name.lower() for name in head} <= _HEADERS:
        return True
    return bool(others) and all(map(_is_number, others)) and not any(map(_is_number, head))


def _read_edges(file: Path, undirected: bool, n_arms: int | None) -> NamedGraph:
    rows = list(_rows(file))
    if rows and _has_header(rows):
        del rows[0]
    if n_arms is not None:
        for number, names in rows:
            if not all(_is_number(name) and int(name) < n_arms for name in names):
                accepted = f"names must be whole numbers in 0..{n_arms - 1}, as n_arms has it"
                raise ValueError(f"{file.name}, line {number}: {accepted}, got {' '.join(names)!r}")
    elif not rows:
        raise ValueError(f"{file.name} must have a line with an edge or an arm, got none")
    found: dict[Any, None] = dict.fromkeys(name for _, names in rows for name in names)
    read: Callable[[str], Any] = int if all(map(_is_number, found)) else str
    if read is int:
        found = dict.fromkeys(range(n_arms) if n_arms is not None else sorted(map(int, found)))
    place = {name: arm for arm, name in enumerate(found)}
    pairs = np.array([(place[read(names[0])], place[read(names[-1])]) for _, names in rows], np.int64).reshape(-1, 2)
    graph = FeedbackGraph.from_edges(len(place), pairs, undirected=undirected)
    return NamedGraph(graph, tuple(map(str, place)))
