"""The policy that this library recommends against Thompson sampling: ordinary, hard and revealing instances."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from armtriage import plots
from armtriage.experiments.experiment import Experiment
from armtriage.experiments.results import Results
from armtriage.experiments.statistics import ratio_interval
from armtriage.plots._style import dress, number_ticks, short
from armtriage.reproduce._guarded_places import AIMED, FREE, PARTS, SIZES, TARGETS, places_of
from armtriage.reproduce._policies import GUARDED, THOMPSON, chosen
from armtriage.reproduce.study import LEVEL, SEED, Chart, Finding, Report, Size, Study, chart, times

if TYPE_CHECKING:
    import polars

__all__ = ["STUDY", "findings"]

_SOURCE = "this library"
_LEVEL = 0.99  # a part is looked at in several places


def _experiments(size: Size) -> dict[str, Experiment]:
    own = SIZES[size]
    places = {label: one for label, (_, one) in places_of(own).items()}
    gap = f"gap {own.gaps[-1]}"
    some = {label: places[label] for label in (f"{gap}, semi-bandit", f"{gap}, cliques", f"100 arms, a hub, {gap}")}
    parts = {name: {"policy": "guarded_thompson", **options} for name, options in PARTS.items()}
    alone = {f"gap {one}": places[f"gap {one}, semi-bandit"] for one in own.gaps}
    shared: dict[str, Any] = {"seed": SEED, "redraw": True, "block": 2}
    short_runs = {"horizon": own.horizon, "replications": own.runs, "checkpoints": 1, **shared}
    return {
        "thompson": Experiment(places, chosen(GUARDED, THOMPSON), name="guarded-thompson", **short_runs),
        "parts": Experiment(some, chosen(GUARDED) | parts, name="guarded-parts", certificate=True, **short_runs),
        "long": Experiment(
            alone,
            chosen(GUARDED) | {FREE: {"policy": "guarded_thompson", "factor": 1e9}},
            horizon=own.long,
            replications=own.long_runs,
            checkpoints=40,
            name="guarded-long",
            **shared,
        ),
    }


def _report(results: Mapping[str, Results], size: Size) -> Report:
    own = SIZES[size]
    tables = {
        "ratios": _ratios(results["thompson"], {label: kind for label, (kind, _) in places_of(own).items()}),
        "parts": _parts(results["parts"]),
        "long": _price(results["long"]),
    }
    charts = [_rows_chart(results["thompson"], tables["ratios"]), *_curves(results["long"])]
    return Report(_paragraphs(tables), findings(tables), charts, tables)


def _ratios(results: Results, kinds: Mapping[str, str]) -> polars.DataFrame:
    """Return the regret of the guarded policy as a multiple of Thompson sampling's, with its target."""
    import polars

    place = polars.col("environment")
    table = results.differences(THOMPSON, level=LEVEL).with_columns(kind=place.replace_strict(kinds))
    target = polars.col("kind").replace_strict(TARGETS, return_dtype=polars.Float64)
    kept = ("environment", "horizon", "runs", "ratio", "ratio_low", "ratio_high", "better")
    return table.select("kind", *kept, target.alias("target"))


def _parts(results: Results) -> polars.DataFrame:
    """Return what each change of the policy does to its regret, and how many times less it certifies."""
    import polars

    rows = []
    for row in results.differences(GUARDED, level=_LEVEL).iter_rows(named=True):
        here = results.regret.filter(results.regret["environment"] == row["environment"])
        before, after = (here.filter(here["policy"] == one).sort("replication") for one in (GUARDED, row["policy"]))
        one, other = before["certificate"].to_numpy(), after["certificate"].to_numpy()
        low, high = ratio_interval(one, other, _LEVEL)
        kept = {name: row[name] for name in ("policy", "environment", "horizon", "runs")}
        kept |= {name: row[name] for name in ("ratio", "ratio_low", "ratio_high")}
        rows.append({**kept, "tighter": one.mean() / other.mean(), "tighter_low": low, "tighter_high": high})
    return polars.DataFrame(rows)


def _price(results: Results) -> polars.DataFrame:
    """Return the regret as a multiple of what the policy loses with an unlimited budget."""
    table = results.differences(FREE, level=LEVEL)
    return table.select("environment", "horizon", "runs", "difference", "ratio", "ratio_low", "ratio_high")


def findings(tables: Mapping[str, polars.DataFrame]) -> list[Finding]:
    """Return whether the targets are met, what each part is worth, and what the guard costs in the long run."""
    made = [_target(part.to_dicts()) for part in tables["ratios"].partition_by("kind", maintain_order=True)]
    parts = {rows[0]["policy"]: rows for rows in _by_policy(tables["parts"])}
    made += [_part(rows) for name, rows in parts.items() if name.startswith("no ")]
    made += [_cost(rows) for name, rows in parts.items() if not name.startswith("no ")]
    return [*made, *(_long(row) for row in tables["long"].iter_rows(named=True))]


def _by_policy(table: polars.DataFrame) -> list[list[dict[str, Any]]]:
    return [part.to_dicts() for part in table.partition_by("policy", maintain_order=True)]


def _range(rows: Sequence[Mapping[str, Any]]) -> str:
    least, most = (edge(rows, key=lambda row: row["ratio"]) for edge in (min, max))
    if least is most:
        return times(least)
    return f"{times(least)}, {least['environment']}, to {times(most)}, {most['environment']}"


def _target(rows: Sequence[Mapping[str, Any]]) -> Finding:
    """Return whether the ratio is at most the target at every place of a kind."""
    target, horizon, n = rows[0]["target"], rows[0]["horizon"], len(rows)
    predicted = f"{'below' if target == 1.0 else 'at most'} {target:g} times, at T = {AIMED:,}"
    said = f"{rows[0]['kind']}: regret against Thompson sampling", _SOURCE, predicted, _range(rows)
    over = [row for row in rows if row["ratio"] > target]
    within = f"{n - len(over)} of {n} places are within it"
    if n == 1:
        within = f"it is {'not ' if over else ''}within it"
    if horizon < AIMED:
        return Finding(*said, f"Says nothing: the target is for T = {AIMED:,}; at T = {horizon:,} {within}.", None)
    clear = [row for row in over if row["ratio_low"] is not None and row["ratio_low"] > target]
    if clear:
        most = max(clear, key=lambda row: row["ratio"])
        where = f"{most['ratio']:.2f} times, {most['environment']}" if n > 1 else f"{most['ratio']:.2f} times"
        return Finding(*said, f"Does not agree: {within}; the most is {where}.", False)
    if over:
        return Finding(*said, f"Says nothing: {within}, but the intervals reach the target.", None)
    sure = sum(row["ratio_high"] is not None and row["ratio_high"] <= target for row in rows)
    return Finding(*said, f"Agrees: {within}, {sure} of {n} with the whole interval.", True)


def _part(rows: Sequence[Mapping[str, Any]]) -> Finding:
    """Return whether a part of the proposals lowers the regret: it rises without it."""
    part = rows[0]["policy"].removeprefix("no ")
    said = f"{part}: less regret", _SOURCE, "more regret without it, or the same", f"without it {_range(rows)}"
    helps = [row for row in rows if row["ratio_low"] is not None and row["ratio_low"] > 1.0]
    costs = [row for row in rows if row["ratio_high"] is not None and row["ratio_high"] < 1.0]
    if costs:
        where = ", ".join(row["environment"] for row in costs)
        return Finding(*said, f"Does not agree: it costs on {where}.", False)
    if not helps:
        return Finding(*said, f"Says nothing: no difference can be told in any of {len(rows)} places.", None)
    return Finding(*said, f"Agrees: it helps in {len(helps)} of {len(rows)} places, and costs in none.", True)


def _cost(rows: Sequence[Mapping[str, Any]]) -> Finding:
    """Return what another budget does to regret and certificate; nothing is promised of it."""
    tighter = [row["tighter"] for row in rows]
    measured = f"regret {_range(rows)}; certificate {min(tighter):.2f} to {max(tighter):.2f} times tighter"
    told = [row for row in rows if row["ratio_low"] is not None and (row["ratio_low"] > 1.0 or row["ratio_high"] < 1.0)]
    verdict = f"Says what it costs: the regret changes in {len(told)} of {len(rows)} places."
    return Finding(f"{rows[0]['policy']}: its price", _SOURCE, "no target", measured, verdict, None)


def _long(row: Mapping[str, Any]) -> Finding:
    claim = f"the price of the guard after {row['horizon']:,} rounds, {row['environment']}, semi-bandit"
    apart = f"{short(abs(row['difference']))} {'more' if row['difference'] > 0.0 else 'less'}"
    measured = f"{times(row)} the regret with an unlimited budget, {apart}"
    binds = row["ratio_low"] is not None and row["ratio_low"] > 1.0
    verdict = "the guard steps in" if binds else "nothing that can be told"
    return Finding(claim, _SOURCE, "no target", measured, f"Says what it costs: {verdict}.", None)


def _paragraphs(tables: Mapping[str, polars.DataFrame]) -> list[str]:
    ratios, long = tables["ratios"], tables["long"]
    horizon, runs = ratios["horizon"][0], ratios["runs"][0]
    met = sum(row["ratio"] <= row["target"] for row in ratios.iter_rows(named=True))
    smaller = f" These runs have T = {horizon:,} only, so that they say nothing of them." if horizon < AIMED else ""
    return [
        "GuardedThompson draws as Thompson sampling does, uses what arms reveal of each other, and stays within twice "
        "the guarantee of elimination. Targets are ratios of its mean regret to that of Thompson sampling, on the same "
        f"rewards; they were set before these runs, and are those of T = {AIMED:,}.{smaller} There are {runs} runs a "
        f"place, each with an instance of its own; {met} of {ratios.height} ratios are within their target.",
        "Parts are taken out one by one, and the budget of the guard is made smaller, or tied to the layers that a "
        "run has completed (shadow). Certificates are compared as means: 2 times tighter is half as much.",
        "Where arms are hard to tell apart the budget can run out, and the guard then plays rounds of elimination. The "
        f"price of that after {long['horizon'][0]:,} rounds is measured against the same policy without limit.",
    ]


def _rows_chart(results: Results, table: polars.DataFrame) -> Chart:
    """Draw all ratios with their intervals, and the target of each as a tick."""
    kinds, rows = list(dict.fromkeys(table["kind"])), table.to_dicts()
    ax = plots.new_axes(6.4, 1.0 + 0.2 * len(rows))
    for place, row in enumerate(rows):
        colour = plots.CURVE_COLOURS[kinds.index(row["kind"]) % len(plots.CURVE_COLOURS)]
        low, high = (row["ratio"] if row[end] is None else row[end] for end in ("ratio_low", "ratio_high"))
        ax.plot([max(low, 0.05 * row["ratio"]), high], [place, place], color=colour, linewidth=1.6)
        ax.plot(row["ratio"], place, "o", color=colour, markersize=4.5)
        ax.plot([row["target"]] * 2, [place - 0.4, place + 0.4], color=plots.INK, linewidth=1.4)
    ax.set_xscale("log")
    dress(ax, "regret over that of Thompson sampling; ticks are targets", "")
    number_ticks(ax.xaxis)
    ax.set_yticks(range(len(rows)), [row["environment"] for row in rows])
    ax.set_ylim(len(rows) - 0.4, -0.6)
    ax.grid(True, axis="x", color=plots.INK, alpha=0.13, linewidth=0.6)
    caption = f"Regret of {GUARDED} against Thompson sampling, T = {table['horizon'][0]:,}."
    return chart(results, ax, "guarded-ratios", caption, table["runs"])


def _curves(results: Results) -> list[Chart]:
    charts = []
    for one in results.manifest.environments:
        ax = plots.regret_curves(results.traces(one.label), level=LEVEL)
        caption = f"Regret in the long run, {one.label}: what the guard costs."
        charts.append(chart(results, ax, f"guarded-long-{one.label.replace(' ', '-')}", caption))
    return charts


STUDY = Study("guarded", "Guarded sampling against Thompson sampling", _experiments, _report)
