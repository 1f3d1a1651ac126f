"""The command `report`: the page of an experiment."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from armtriage.cli.terminal import refusing, say
from armtriage.experiments.results import Results

__all__ = ["report"]


def report(
    folder: Annotated[Path, typer.Argument(help="The folder of an experiment.", metavar="FOLDER")],
    out: Annotated[Path | None, typer.Option(help="The page; by default report.html in FOLDER.")] = None,
    baseline: Annotated[
        str | None, typer.Option(help="Policy that others are held against; by default the best of each environment.")
    ] = None,
) -> None:
    """Write one page about an experiment: tables, figures, configuration, versions and seeds.

    The page needs no network and no other file. Cells that are missing or failed are named; the rest is shown.
    """
    from armtriage import plots
    from armtriage.report import experiment_page

    with refusing():
        plots.require()
        results = Results.load(folder)
        page = folder / "report.html" if out is None else out
        text = experiment_page(results, baseline=baseline, folder=folder.resolve().name)
        page.write_text(text, encoding="utf-8")
    say(f"The page is {page}")
