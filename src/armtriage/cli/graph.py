"""The command `graph`: the numbers of a graph in a file, as a table or as JSON."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from armtriage.cli.terminal import AsJson, print_json, refusing, say
from armtriage.graphs.files import read_graph

if TYPE_CHECKING:
    from armtriage.theory import Bracket


@refusing()
def graph(
    file: Annotated[
        Path, typer.Argument(help="Edges, one per line, or a .graphml, .npz or .mtx file.", metavar="FILE")
    ],
    undirected: Annotated[bool, typer.Option("--undirected", help="Take edges to go both ways.")] = False,
    arms: Annotated[int | None, typer.Option(help="Arms are 0 to this number - 1; for lists of edges.")] = None,
    time_limit: Annotated[float, typer.Option(help="Seconds of search for each number.")] = 10.0,
    as_json: AsJson = False,
) -> None:
    """Print the numbers of a feedback graph that regret depends on.

    A line of FILE has the name of an arm and that of an arm it reveals, separated by a comma, semicolon, tab or blanks;
    lines that begin with #, % or // are comments. Every arm reveals itself. In a matrix, every entry
    other than 0 is an edge. Numbers are exact, or between two limits if that takes too long. An example:

    armtriage graph friends.csv --undirected
    """
    from armtriage.theory import (
        chvatal_dominating_set,
        domination_number,
        greedy_dominating_set,
        independence_number,
        layer_size,
    )

    read = read_graph(file, undirected=undirected, n_arms=arms).graph
    with Console(stderr=True).status("Searching"):
        alpha = independence_number(read, time_limit=time_limit)
        domination = domination_number(read, time_limit=time_limit)
        greedy, chvatal = greedy_dominating_set(read).size, chvatal_dominating_set(read).size
    most = int(layer_size(read.n_arms, alpha, undirected=read.is_undirected))
    if as_json:
        whole = {"file": str(file), "n_arms": read.n_arms, "n_edges": read.n_edges}
        whole |= {"undirected": read.is_undirected, "independence_number": _facts(alpha)}
        whole |= {"domination_number": _facts(domination), "greedy_dominating_set": greedy}
        whole |= {"greedy_at_most": most, "chvatal_dominating_set": chvatal}
        print_json(whole)
        return
    table = Table("number", "value", "how")
    for name, value, how in (
        ("independence number", _show(alpha), alpha.how),
        ("domination number", _show(domination), domination.how),
        ("greedy dominating set", f"{greedy:,}", f"the paper's; at most {most:,} by the independence number"),
        ("Chvatal's dominating set", f"{chvatal:,}", "greedy over all arms"),
    ):
        table.add_row(name, value, how)
    edges = read.n_edges - read.n_arms
    shown = f"{edges // 2:,} undirected" if read.is_undirected else f"{edges:,} directed"
    size = f"{read.n_arms:,} arms, {shown} edges"
    say(f"{file}: {size}")
    Console().print(table)


def _show(number: Bracket) -> str:
    return f"{number.lower:,}" if number.exact else f"{number.lower:,} to {number.upper:,}"


def _facts(number: Bracket) -> dict[str, Any]:
    return {**number._asdict(), "exact": number.exact}
