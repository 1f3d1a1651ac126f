"""The figures of an experiment's page."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from armtriage import plots
from armtriage.experiments.results import Results
from armtriage.plots._sources import counted
from armtriage.report._contests import Contest
from armtriage.report.sections import Figure

if TYPE_CHECKING:
    import polars
    from matplotlib.axes import Axes

__all__ = ["contest_figures", "maps", "parameters", "powers"]

_WIDE = 50.0  # ratio of values from which colours have a log scale


def contest_figures(results: Results, contest: Contest, level: float) -> list[Figure]:
    """Return the curves of an environment, its bars, and its paired differences where there is something to pair."""
    order = [policy.label for policy in results.manifest.policies]
    percent = f"{100 * level:.4g}%"
    curves = plots.regret_curves(results.traces(contest.environment), level=level, order=order)
    bars = plots.final_regret(contest.summary, level=level, order=order)
    made = [
        _figure(results, curves, f"{percent} bands", contest.summary, "Mean cumulative regret over the rounds."),
        _figure(results, bars, f"{percent} intervals", contest.summary, "Mean regret at the end, least first."),
    ]
    if contest.differences.height:
        ax = plots.paired_differences(contest.differences, contest.baseline, level=level, order=order)
        caption = (
            f"Regret at the end minus that of {contest.baseline}, replication by replication; left of 0 is better."
        )
        made.append(_figure(results, ax, f"{percent} intervals, paired", contest.differences, caption))
    return made


def parameters(summary: polars.DataFrame, least: int) -> list[str]:
    """Return the parameters of the environments that are numbers and have so many values or more, most first."""
    numbers = [
        name
        for name in summary.columns
        if (name == "horizon" or name.startswith("environment.")) and summary[name].dtype.is_numeric()
    ]
    values = {name: summary[name].drop_nulls().n_unique() for name in numbers if name != "environment.seed"}
    return sorted((name for name in values if values[name] >= least), key=lambda name: -values[name])


def powers(results: Results, summary: polars.DataFrame, level: float) -> Iterator[Callable[[], Figure]]:
    """Return what draws the regret against each parameter with three values or more, with the fitted power."""
    for name in parameters(summary, 3):
        by = _others(summary, name)
        slopes = results.slopes(name, by=by, level=level)
        for values, part in _groups(results.scaling(name, by=by, level=level).drop_nulls("mean"), by):
            shown = part.filter(part[name] > 0)
            if shown.filter(shown["mean"] > 0)[name].n_unique() > 2:
                same = [all(row[key] == one for key, one in values.items()) for row in slopes.to_dicts()]
                yield partial(_power, results, shown, slopes.filter(same), name, values, level)


def _power(
    results: Results, part: polars.DataFrame, fits: polars.DataFrame, name: str, values: dict[str, Any], level: float
) -> Figure:
    ax = plots.scaling(part, fits, parameter=name, level=level, order=[one.label for one in results.manifest.policies])
    caption = f"Regret at the end against {_spoken(name)}{_where(values)}, on log scales; the slope is the power."
    return _figure(results, ax, f"{100 * level:.4g}% intervals", part, caption)


def maps(results: Results, summary: polars.DataFrame) -> Iterator[Callable[[], Figure]]:
    """Return what draws the regret of each policy over the two parameters with the most values."""
    names = parameters(summary, 2)
    if len(names) < 2:
        return
    x, y = names[:2]
    for values, part in _groups(summary.drop_nulls(["mean", x, y]), _others(summary, x, y)):
        for table in part.partition_by("policy", maintain_order=True):
            if table.height > max(table[x].n_unique(), table[y].n_unique()):
                yield partial(_map, results, table, x, y, values)


def _map(results: Results, table: polars.DataFrame, x: str, y: str, values: dict[str, Any]) -> Figure:
    least, *_, most = sorted(table["mean"].to_list())
    ax = plots.heat_map(table, x, y, log=most > _WIDE * least > 0)
    caption = f"Mean regret of {table['policy'][0]} at the end{_where(values)}; every map has colours of its own."
    return _figure(results, ax, "means", table, caption)


def _figure(results: Results, ax: Axes, shown: str, table: polars.DataFrame, caption: str) -> Figure:
    about, runs = results.manifest, table["runs"].to_list()
    shown = shown if max(runs) > 1 else "no intervals"
    plots.sign(ax, f"{shown}; {counted(runs)}, seed {about.seed}", about.code)
    return Figure(plots.svg_text(ax), caption)


def _others(summary: polars.DataFrame, *names: str) -> list[str]:
    """Return the columns that tell apart environments besides the named parameters.

    Words always do; numbers only where the named parameters do not settle them.
    """
    table = summary.drop_nulls(names)
    parts = table.partition_by("policy", *names)
    found = []
    for name in table.columns:
        if name not in names and (name == "horizon" or name.startswith("environment.")):
            among = parts if table[name].dtype.is_numeric() else [table]
            found += [name] if any(part[name].n_unique() > 1 for part in among) else []
    return found


def _groups(table: polars.DataFrame, by: Sequence[str]) -> Iterator[tuple[dict[str, Any], polars.DataFrame]]:
    if not by:
        yield {}, table
        return
    for key, part in table.partition_by(by, maintain_order=True, as_dict=True).items():
        yield dict(zip(by, key, strict=True)), part


def _spoken(name: str) -> str:
    return name.removeprefix("environment.")


def _where(values: dict[str, Any]) -> str:
    said = ", ".join(f"{_spoken(name)} {value}" for name, value in values.items() if value is not None)
    return f", with {said}" if said else ""
