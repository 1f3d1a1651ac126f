"""The command `demo`: a week in a shop, or the contests of the paper, as a page."""

from __future__ import annotations

import webbrowser
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from armtriage.cli.contests import play_contests
from armtriage.cli.shop import play_week
from armtriage.cli.terminal import print_rows, progress_bar, refusing, say
from armtriage.simulation.comparison import Result, table


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the page and the figures.")] = Path("armtriage-demo"),
    quick: Annotated[bool, typer.Option("--quick", help="A small form that takes seconds.")] = False,
    paper: Annotated[bool, typer.Option("--paper", help="Play the contests of the paper instead.")] = False,
    open_page: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
) -> None:
    """Play a week in a shop, and write a page about who earned what."""
    console = Console()

    def say_all(text: Sequence[str]) -> None:
        for sentence in text:
            console.print(sentence, highlight=False, markup=False)

    def show_contest(title: str, results: Sequence[Result], text: Sequence[str]) -> None:
        console.print()
        console.print(table(results, title))
        say_all(text)

    def show_week(columns: Sequence[str], rows: Sequence[Sequence[str]], text: Sequence[str]) -> None:
        print_rows(columns, rows)
        say_all(text)

    with refusing(), progress_bar() as progress:
        if paper:
            page = play_contests(out, quick=quick, show=show_contest, progress=progress)
        else:
            page = play_week(out, quick=quick, show=show_week, progress=progress)
    say(f"\nFigures (PNG, SVG) are in {out}; the page is {page}")
    if open_page:
        webbrowser.open(page.absolute().as_uri())
