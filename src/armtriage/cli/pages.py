"""The commands `report` and `reproduce`: pages about an experiment, and about the paper's claims."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from armtriage._files import write_whole
from armtriage.cli.terminal import AsJson, offering, plain_warnings, print_json, progress_bar, refusing, say, stopping
from armtriage.experiments import Results
from armtriage.experiments.engines import ENGINES
from armtriage.experiments.manifest import MAX_CELLS

if TYPE_CHECKING:
    from armtriage.reproduce import Reproduction


def report(
    folder: Annotated[Path, typer.Argument(help="The folder of an experiment.", metavar="FOLDER")],
    out: Annotated[Path | None, typer.Option(help="The page; by default report.html in FOLDER.")] = None,
    baseline: Annotated[
        str | None, typer.Option(help="Policy to compare the others with; by default the best of each environment.")
    ] = None,
    max_cells: Annotated[int, typer.Option(help="Refuse an experiment of more cells.")] = MAX_CELLS,
) -> None:
    """Write one page about an experiment.

    It has tables, figures, configuration, versions and seeds, and needs no network and no other file. Cells that
    are missing or failed are named; the rest is shown.
    """
    from armtriage import plots
    from armtriage.report import experiment_page

    with refusing():
        results = Results.load(folder, max_cells=max_cells)
        plots.require()
        page = folder / "report.html" if out is None else out
        text = experiment_page(results, baseline=baseline, folder=folder.resolve().name)
        # The folder may belong to another user, and lead by a link to any file of ours.
        write_whole(page, text.encode(), durable=False, through_link=out is not None)
    say(f"The page is {page}")


def _studies(incomplete: str) -> list[str]:
    from armtriage.reproduce import STUDIES

    return offering(STUDIES)(incomplete)


def reproduce(
    full: Annotated[bool, typer.Option("--full/--quick", help="Within an hour, or within minutes.")] = False,
    out: Annotated[Path, typer.Option(help="Folder for the page, figures, tables and runs.")] = Path(
        "armtriage-reproduce"
    ),
    only: Annotated[
        list[str] | None,
        typer.Option(help="One study, by name; can be given several times.", metavar="STUDY", autocompletion=_studies),
    ] = None,
    engine: Annotated[
        str, typer.Option(help="Where cells are played; see armtriage run.", autocompletion=offering(ENGINES))
    ] = "auto",
    workers: Annotated[int | None, typer.Option(help="Cells at a time; by default one for each processor.")] = None,
    as_json: AsJson = False,
) -> None:
    """Measure what each theorem of the paper claims.

    It writes one page. For each claim the page shows the instances that the claim is about, the regret with intervals,
    the fitted exponent beside the predicted one, the bounds in the same figure, and a verdict. Ctrl+C stops it, and
    the same command resumes it.

    Studies are gap-rates, minimax-rates, ucb-failure, full-information, linear, constrained, counterexamples,
    tightenings, families, guarded, guarded-sets, certificates, rewards and slates.
    """
    with refusing(), plain_warnings():
        from armtriage.reproduce import reproduce as run

        with stopping(lambda: f"what was played is kept in {out}. The same command goes on."), progress_bar() as bar:
            made = run(
                out,
                size="full" if full else "quick",
                only=only or (),
                engine=engine,
                workers=workers,
                progress=lambda what, done, total: bar(what, done / max(total, 1)),
            )
    if as_json:
        facts = [{"study": name, **one._asdict()} for name, those in made.findings.items() for one in those]
        print_json({"page": str(made.page), "claims": facts})
    else:
        _show(made)


def _show(made: Reproduction) -> None:
    from armtriage.reproduce import STUDIES
    from armtriage.reproduce.page import HEAD, tally

    table = Table(*HEAD)
    for name, findings in made.findings.items():
        table.add_row(f"[bold]{escape(STUDIES[name].title)}[/bold]", end_section=True)
        for one in findings:
            cells = f"{one.claim} ({one.source})", one.predicted, one.measured, one.verdict
            table.add_row(*map(escape, cells), end_section=True)
    Console().print(table)
    say(tally([one for those in made.findings.values() for one in those]))
    say(f"The page is {made.page}; figures and tables are beside it")
