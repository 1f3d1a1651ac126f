"""The command `run`: an experiment from a file, or what is left of it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from armtriage._arguments import check_choice, check_count
from armtriage._numbers import short, spread
from armtriage.cli.terminal import AsJson, offering, plain_warnings, print_json, refusing, say, stopping
from armtriage.experiments.engines import ENGINES, processors
from armtriage.experiments.experiment import Experiment, read_file
from armtriage.experiments.folder import Folder
from armtriage.experiments.manifest import MAX_CELLS
from armtriage.experiments.plan import Plan, duration
from armtriage.experiments.results import Results

_MOST_REASONS = 10


def run(
    file: Annotated[Path, typer.Argument(help="The experiment, a TOML file.", metavar="FILE")],
    folder: Annotated[
        Path | None, typer.Option(help="Where the results are kept; by default beside FILE, without its ending.")
    ] = None,
    engine: Annotated[
        str, typer.Option(help=f"Where cells are played: {', '.join(ENGINES)}.", autocompletion=offering(ENGINES))
    ] = "auto",
    workers: Annotated[int | None, typer.Option(help="Cells at a time; by default one for each processor.")] = None,
    shard: Annotated[str | None, typer.Option(help="Play the i-th of n parts only.", metavar="I/N")] = None,
    seed: Annotated[int | None, typer.Option(help="The root of all seeds, instead of the one in FILE.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be played, and play nothing.")] = False,
    code: Annotated[
        bool,
        typer.Option("--code", help="Run code that FILE names as module:name, so trust FILE as you would a program."),
    ] = False,
    max_cells: Annotated[
        int | None, typer.Option(help=f"Refuse more cells than this; by default {MAX_CELLS:,}, or what FILE says.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run an experiment, or resume it.

    Cells that are in the folder are not played again. A file says which environments, which policies and how long;
    any option may be a list, and every combination of them is played:

    \b
    horizon = 10000
    replications = 16
    seed = 7
    policies = ["elimination", "comb_ucb1", "thompson"]
    [[environments]]
    instance = "random"
    graph = "cliques"
    n_arms = [50, 100]
    size = 10
    budget = 5

    Ctrl+C stops it, and the same command resumes it. For a batch queue, give each job --shard 1/8 to --shard 8/8 and
    one --folder, or copy their folders together afterwards. A dry run plays some rounds to estimate the time.
    """  # noqa: D301 - the character \b keeps the lines of the example apart
    with refusing(), plain_warnings():
        check_choice("engine", engine, ENGINES)
        if workers is not None:
            check_count("workers", workers, 1)
        place = _folder(file, folder)
        part = None if shard is None else _shard(shard)
        changes = {} if max_cells is None else {"max_cells": max_cells}
        if (root := _seed(file, place, seed, alone=part is None)) is not None:
            changes["seed"] = root
        experiment = Experiment.from_file(file, code=code, **changes)
        if dry_run:
            _show_plan(experiment, experiment.plan(place, shard=part), engine, workers, as_json)
            return
        results = _played(experiment, place, engine, workers, part)
    if as_json:
        print_json(_facts(results, place))
    else:
        _show(results, place)
    if results.failed:
        raise typer.Exit(1)


def _folder(file: Path, folder: Path | None) -> Path:
    if folder is None and not file.suffix:
        raise ValueError(f"--folder must be given for a file without an ending, got {str(file)!r}")
    return file.with_suffix("") if folder is None else folder


def _shard(text: str) -> tuple[int, int]:
    found = re.fullmatch(r"(\d+)/(\d+)", text)
    if not found or not 1 <= int(found[1]) <= int(found[2]):
        raise ValueError(f"--shard must be written I/N, with I from 1 to N, got {text!r}")
    return int(found[1]), int(found[2])


def _seed(file: Path, folder: Path, seed: int | None, alone: bool) -> int | None:
    """Return the seed that is given here, or else, if the file has none, that of the folder; None for a fresh one."""
    if seed is None and read_file(file).get("seed") is None:
        try:
            return Folder(folder).manifest().seed
        except FileNotFoundError:
            if not alone:
                raise ValueError(
                    "--shard needs a seed, in the file or by --seed: all parts must have the same"
                ) from None
    return seed


def _played(
    experiment: Experiment, folder: Path, engine: str, workers: int | None, shard: tuple[int, int] | None
) -> Results:
    def kept() -> str:
        done = Folder(folder).ids() & {cell.id for cell in experiment.cells}
        share = f"{len(done)} of {len(experiment.cells)} cells"
        return f"{share} are done and kept in {folder}. The same command goes on from there."

    typer.echo(f"{experiment!r}; results in {folder}", err=True)
    with stopping(kept):
        return experiment.run(folder, engine=engine, workers=workers, shard=shard, progress=True)


def _print(columns: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> None:
    """Print rows of an environment, a policy and numbers, under a line for each environment."""
    table = Table()
    table.add_column("environment and policy", overflow="fold")
    for column in columns:
        table.add_column(column, justify="right", no_wrap=True)
    for environment, those in groupby(rows, key=itemgetter(0)):
        table.add_row(escape(environment))
        for _, policy, *numbers in those:
            table.add_row(f"  {escape(policy)}", *numbers)
        table.add_section()
    Console().print(table)


def _show_plan(experiment: Experiment, plan: Plan, engine: str, workers: int | None, as_json: bool) -> None:
    at_once = 1 if engine == "serial" else max(min(workers or processors(), plan.cells - plan.done), 1)
    if as_json:
        facts = [{**vars(row), "missing": row.missing} for row in plan.rows]
        whole = {"name": experiment.name, "seed": experiment.seed, "cells": plan.cells}
        whole |= {"done": plan.done, "missing": plan.missing, "seconds": plan.seconds}
        whole |= {"workers": at_once, "rows": facts}
        print_json(whole)
        return
    rows = [
        (row.environment, row.policy, *map(str, (row.cells, row.done, row.missing)), duration(row.seconds))
        for row in plan.rows
    ]
    _print(("cells", "done", "missing", "time"), rows)
    say(f"{plan}, with {at_once} at a time: {duration(plan.seconds / at_once)}; seed {experiment.seed}")


def _errors(results: Results) -> list[dict[str, Any]]:
    """Return the failed cells, with their tracebacks."""
    failed = results.runs.filter(results.runs["error"].is_not_null())
    return failed.unique("cell", maintain_order=True).select("environment", "policy", "cell", "error").to_dicts()


def _facts(results: Results, folder: Path) -> dict[str, Any]:
    return {
        "name": results.name,
        "folder": str(folder),
        "seed": results.manifest.seed,
        "cells": len(results.manifest.cells),
        "missing": results.missing,
        "failed": results.failed,
        "stale": results.stale,
        "summary": results.summary().to_dicts(),
        "errors": _errors(results),
    }


def _show(results: Results, folder: Path) -> None:
    rows = []
    for row in results.summary().to_dicts():
        reached, mean = (f"{row['round']:,}", short(row["mean"])) if row["runs"] else ("", "none")
        ends = spread(row["low"], row["high"])
        rows.append((row["environment"], row["policy"], reached, str(row["runs"]), mean, ends))
    _print(("round", "runs", "mean regret", "95% interval"), rows)
    reasons: dict[str, list[dict[str, Any]]] = {}
    for one in _errors(results):
        reasons.setdefault(one["error"].strip().splitlines()[-1], []).append(one)
    for reason, those in list(reasons.items())[:_MOST_REASONS]:
        say(f"{len(those)} failed, such as {those[0]['policy']} in {those[0]['environment']}: {reason}")
    counts = (
        (results.failed, "cells failed; the next run tries them again"),
        (results.missing, "cells are missing"),
        (results.stale, "cells of other settings or other code are left out"),
    )
    parts = [f"{count} {what}" for count, what in counts if count]
    say("; ".join((*parts, f"seed {results.manifest.seed}", f"results in {folder}")))
