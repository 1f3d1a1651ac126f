"""The command `reproduce`: the paper's claims, measured."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from armtriage import __version__
from armtriage._terminal import plain_warnings, progress_bar, refusing, say, say_if_cold

__all__ = ["reproduce"]


def reproduce(
    out: Annotated[Path, typer.Option(help="Folder for the page, figures, tables and runs.")] = Path(
        "armtriage-reproduce"
    ),
    full: Annotated[bool, typer.Option("--full/--quick", help="Within an hour, or within minutes.")] = False,
    only: Annotated[list[str] | None, typer.Option(help="A study, by name; may be given again.")] = None,
    engine: Annotated[str, typer.Option(help="Where cells are played; see armtriage run.")] = "auto",
    workers: Annotated[int | None, typer.Option(help="Cells at a time; by default one a processor.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Measure what each theorem of the paper claims, and write one page about it.

    For each claim: the instances that it speaks of, regret with intervals, the fitted power beside the predicted
    one, bounds in the same figure, and a verdict. Ctrl+C stops it, and the same command goes on.
    """
    with refusing(), plain_warnings():
        from armtriage.reproduce import reproduce as run
        from armtriage.reproduce.page import HEAD

        say_if_cold()
        with progress_bar() as bar:
            made = run(
                out,
                size="full" if full else "quick",
                only=only or (),
                engine=engine,
                workers=workers,
                progress=lambda title, done, total: bar(title, done / max(total, 1)),
            )
    if as_json:
        facts = [{"study": title, **one._asdict()} for title, those in made.findings.items() for one in those]
        typer.echo(json.dumps({"version": __version__, "page": str(made.page), "findings": facts}, indent=2))
        return
    table = Table(*HEAD, show_lines=True)
    for title, those in made.findings.items():
        for one in those:
            table.add_row(*(escape(str(cell)) for cell in one[: len(HEAD)]))
    Console().print(table)
    say(f"The page is {made.page}; figures and tables are beside it")
