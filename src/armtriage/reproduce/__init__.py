"""Reproduce: what each theorem of the paper says at real sizes, in one command and one report."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

try:
    import polars  # noqa: F401
except ImportError as error:
    raise ImportError("reproduce needs polars: pip install 'armtriage[experiments]'") from error

from armtriage import plots
from armtriage._arguments import check_choice
from armtriage.errors import ExperimentError
from armtriage.experiments.identity import code_version
from armtriage.reproduce.extensions import Constrained, Counterexamples, Linear
from armtriage.reproduce.guard import Certificates, Guarded, GuardedSets
from armtriage.reproduce.library import Families, Rewards, Slates, Tightenings
from armtriage.reproduce.page import claims_table, claims_text, make_page
from armtriage.reproduce.rates import Failure, FullInformation, GapRates, MinimaxRates
from armtriage.reproduce.study import SIZES, Finding, Report, Size, Study

__all__ = ["STUDIES", "Reproduction", "reproduce"]

STUDIES: dict[str, type[Study]] = {
    study.name: study
    for study in (
        GapRates, MinimaxRates, Failure, FullInformation, Linear, Constrained, Counterexamples, Tightenings, Families,
        Guarded, GuardedSets, Certificates, Rewards, Slates,
    )
}  # fmt: skip
"""The studies, by the names they have on the command line."""


class Reproduction(NamedTuple):
    """What `reproduce` leaves behind: the page, and the findings by the name of their study."""

    page: Path
    findings: dict[str, Sequence[Finding]]


def reproduce(
    folder: str | os.PathLike[str],
    *,
    size: Size = "quick",
    only: Sequence[str] = (),
    engine: str = "auto",
    workers: int | None = None,
    progress: Callable[[str, int, int], None] | None = None,
) -> Reproduction:
    """Play what the studies need and the folder lacks, and write the page, the figures and the tables.

    Parameters
    ----------
    folder : path
        Gets ``index.html``, ``claims.md``, ``figures`` (SVG and PNG), ``tables`` (Parquet), and ``experiments``, from
        which it resumes.
    size : {"tiny", "quick", "full"}
        How large: for tests, in minutes, or within an hour.
    only : sequence of str
        Names of studies; by default all.
    engine, workers
        See `armtriage.Experiment.run`.
    progress : callable, optional
        Called with what is played, its cells done, and all its cells.

    Raises
    ------
    ExperimentError
        If cells have failed: a study says nothing from part of its runs.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     made = reproduce(folder, size="tiny", only=["full-information"])
    ...     sorted(path.name for path in made.page.parent.iterdir())
    ['claims.md', 'experiments', 'figures', 'index.html', 'tables']
    """
    check_choice("size", size, SIZES)
    for name in only:
        check_choice("only", name, tuple(STUDIES))
    plots.require()
    place = Path(folder)
    for part in ("figures", "tables"):
        (place / part).mkdir(parents=True, exist_ok=True)
    reports = {
        name: _report(study(size), place / "experiments", engine, workers, progress)
        for name, study in STUDIES.items()
        if not only or name in only
    }
    drawings = {}
    for name, report in reports.items():
        for chart in report.charts:
            ax = chart.draw()
            plots.sign(ax, chart.origin, code_version())
            drawings[chart.name] = plots.svg_text(ax)
            (place / "figures" / f"{chart.name}.svg").write_text(drawings[chart.name], encoding="utf-8")
            plots.save(ax, place / "figures" / f"{chart.name}.png")
        for title, table in report.tables.items():
            table.write_parquet(place / "tables" / f"{name}-{title}.parquet")
    claims_table(reports).write_parquet(place / "tables" / "claims.parquet")
    (place / "claims.md").write_text(claims_text(reports, size, only), encoding="utf-8")
    page = place / "index.html"
    page.write_text(make_page(reports, drawings, size, only), encoding="utf-8")
    return Reproduction(page, {name: report.findings for name, report in reports.items()})


def _report(
    study: Study,
    place: Path,
    engine: str = "auto",
    workers: int | None = None,
    progress: Callable[[str, int, int], None] | None = None,
) -> Report:
    results = {}
    for name, experiment in study.experiments().items():

        def tell(done: int, failed: int, total: int, name: str = name) -> None:
            if progress is not None:
                progress(f"{study.title}, {name}", done, total)

        folder = place / f"{study.name}-{name}-{study.size}"
        results[name] = experiment.run(folder, engine=engine, workers=workers, progress=tell)
        if results[name].failed:
            errors = results[name].runs["error"].drop_nulls()
            last = errors[0].strip().splitlines()[-1]
            raise ExperimentError(f"{results[name].failed} cells of {study.name} failed, see {folder}: {last}")
    return study.report(results)
