"""The policy that this library recommends against Thompson sampling: ordinary, hard and revealing instances."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars

from armtriage import plots
from armtriage.experiments import Results
from armtriage.experiments.statistics import ratio_interval
from armtriage.plots.style import dress, number_ticks
from armtriage.reproduce.policies import GUARDED, THOMPSON, chosen
from armtriage.reproduce.study import LEVEL, Chart, Finding, Scale, Study, Tables, chart, finding, times, told
from armtriage.simulation.comparison import short

__all__ = ["STUDY", "findings"]

_SOURCE = "this library"
_LEVEL = 0.99  # a part is looked at in several places
_AIMED = 100_000
"""The rounds that the targets are for."""
_TARGETS = {
    "random means, semi-bandit": 1.05,
    "random means, 10 cliques": 1.0,
    "random means, random digraph": 1.0,
    "cliques of look-alikes": 1.1,
    "one gap, semi-bandit": 1.1,
    "one gap, cliques with one good arm each": 0.6,
    "bad hubs that reveal all, 100 arms": 0.5,
    "bad hubs that reveal all, 400 arms": 0.15,
}
"""How many times the regret of Thompson sampling is aimed at, at most, by the kind of instance."""
_FREE = "unlimited budget"
"""The policy that the guard never stops."""
_PARTS: dict[str, dict[str, Any]] = {
    "no free look": {"free_look": False},
    "no revealing": {"reveal": False},
    "a quarter of the budget": {"factor": 0.25},
    "shadow budget": {"mode": "shadow"},
}
# The long runs, which show the price of the guard, have rounds and numbers of their own.
_SIZES = {
    "tiny": Scale(look_alikes=(2,), gaps=(0.2,), horizon=300, runs=3, long=1000, long_runs=3),
    "quick": Scale(look_alikes=(16,), gaps=(0.1, 0.2), horizon=5000, runs=6, long=100_000, long_runs=4),
    "full": Scale(look_alikes=(16, 32), gaps=(0.05, 0.1, 0.2), horizon=_AIMED, runs=16, long=1_000_000, long_runs=16),
}


def _plans(scale: Scale) -> dict[str, dict[str, Any]]:
    places = {label: one for label, (_, one) in _places(scale).items()}
    gap = f"gap {scale.gaps[-1]}"
    some = {label: places[label] for label in (f"{gap}, semi-bandit", f"{gap}, cliques", f"100 arms, a hub, {gap}")}
    parts = {name: {"policy": "guarded_thompson", **options} for name, options in _PARTS.items()}
    alone = {f"gap {one}": places[f"gap {one}, semi-bandit"] for one in scale.gaps}
    unlimited = {_FREE: {"policy": "guarded_thompson", "factor": 1e9}}
    shared: dict[str, Any] = {"redraw": True, "block": 2}
    few = {"horizon": scale.horizon, "replications": scale.runs, "checkpoints": 1, **shared}
    many = {"horizon": scale.long, "replications": scale.long_runs, "checkpoints": 40, **shared}
    return {
        "thompson": {"environments": places, "policies": chosen(GUARDED, THOMPSON), **few},
        "parts": {"environments": some, "policies": chosen(GUARDED) | parts, "certificate": True, **few},
        "long": {"environments": alone, "policies": chosen(GUARDED) | unlimited, **many},
    }


def _tables(results: Mapping[str, Results], scale: Scale) -> Tables:
    kinds = {label: kind for label, (kind, _) in _places(scale).items()}
    return {
        "ratios": _ratios(results["thompson"], kinds),
        "parts": _parts(results["parts"]),
        "long": _price(results["long"]),
    }


def _places(scale: Scale) -> dict[str, tuple[str, dict[str, Any]]]:
    """Return the kind of each instance, and how it is made, by label."""
    arms: dict[str, Any] = {"n_arms": 100, "budget": 10}
    graphs: tuple[dict[str, Any], ...] = (
        {"graph": "semi_bandit"},
        {"graph": "cliques", "size": 10},
        {"graph": "erdos_renyi", "p": 0.1},
    )
    kinds = list(_TARGETS)
    made = {kind: (kind, {"instance": "random", **arms, **one}) for kind, one in zip(kinds, graphs, strict=False)}
    for budget in scale.look_alikes:
        for noise in ("deterministic", "shared", "independent"):
            one = {"instance": "ucb_failure", "budget": budget, "alpha": budget, "noise": noise}
            made[f"look-alikes, S = {budget}, {noise}"] = kinds[3], one
    for gap in scale.gaps:
        one = {"instance": "gap_instance", **arms, "gap": gap}
        made[f"gap {gap}, semi-bandit"] = kinds[4], one
        made[f"gap {gap}, cliques"] = kinds[5], {**one, "graph": "cliques", "size": 10, "spread": True}
    for kind, n_arms in zip(kinds[6:], (100, 400), strict=True):
        for hubs in (1, 4):
            for gap in scale.gaps[-2:]:
                one = {"instance": "revealing_hubs", **arms, "n_arms": n_arms, "n_hubs": hubs, "gap": gap}
                made[f"{n_arms} arms, {'a hub' if hubs == 1 else f'{hubs} hubs'}, gap {gap}"] = kind, one
    return made


def _ratios(results: Results, kinds: Mapping[str, str]) -> polars.DataFrame:
    """Return the regret of the guarded policy as a multiple of Thompson sampling's, with its target."""
    place = polars.col("environment")
    table = results.differences(THOMPSON, level=LEVEL).with_columns(kind=place.replace_strict(kinds))
    target = polars.col("kind").replace_strict(_TARGETS, return_dtype=polars.Float64)
    kept = ("environment", "horizon", "runs", "ratio", "ratio_low", "ratio_high", "better")
    return table.select("kind", *kept, target.alias("target"))


def _parts(results: Results) -> polars.DataFrame:
    """Return what each change of the policy does to its regret, and how many times less it certifies."""
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
    table = results.differences(_FREE, level=LEVEL)
    return table.select("environment", "horizon", "runs", "difference", "ratio", "ratio_low", "ratio_high")


def findings(tables: Tables) -> list[Finding]:
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
    predicted = f"{'below' if target == 1.0 else 'at most'} {target:g} times, at T = {_AIMED:,}"
    said = f"{rows[0]['kind']}: regret against Thompson sampling", _SOURCE, predicted, _range(rows)
    over = [row for row in rows if row["ratio"] > target]
    within = f"{n - len(over)} of {n} places are within it"
    if n == 1:
        within = f"it is {'not ' if over else ''}within it"
    if horizon < _AIMED:
        return finding(*said, None, f"the target is for T = {_AIMED:,}; at T = {horizon:,} {within}")
    clear = [row for row in over if row["ratio_low"] is not None and row["ratio_low"] > target]
    if clear:
        most = max(clear, key=lambda row: row["ratio"])
        where = f"{most['ratio']:.2f} times, {most['environment']}" if n > 1 else f"{most['ratio']:.2f} times"
        return finding(*said, False, f"{within}; the most is {where}")
    if over:
        return finding(*said, None, f"{within}, but the intervals reach the target")
    sure = sum(row["ratio_high"] is not None and row["ratio_high"] <= target for row in rows)
    return finding(*said, True, f"{within}, {sure} of {n} with the whole interval")


def _part(rows: Sequence[Mapping[str, Any]]) -> Finding:
    """Return whether a part of the proposals lowers the regret: it rises without it."""
    part = rows[0]["policy"].removeprefix("no ")
    said = f"{part}: less regret", _SOURCE, "more regret without it, or the same", f"without it {_range(rows)}"
    helps, costs = ([row for row in rows if told(row) is more] for more in (True, False))
    if costs:
        return finding(*said, False, f"it costs on {', '.join(row['environment'] for row in costs)}")
    if not helps:
        return finding(*said, None, f"no difference can be told in any of {len(rows)} places")
    return finding(*said, True, f"it helps in {len(helps)} of {len(rows)} places, and costs in none")


def _cost(rows: Sequence[Mapping[str, Any]]) -> Finding:
    """Return what another budget does to regret and certificate; nothing is promised of it."""
    tighter = [row["tighter"] for row in rows]
    seen = f"regret {_range(rows)}; certificate {min(tighter):.2f} to {max(tighter):.2f} times tighter"
    changed = sum(told(row) is not None for row in rows)
    verdict = f"Says what it costs: the regret changes in {changed} of {len(rows)} places."
    return Finding(f"{rows[0]['policy']}: its price", _SOURCE, "no target", seen, verdict, None)


def _long(row: Mapping[str, Any]) -> Finding:
    claim = f"the price of the guard after {row['horizon']:,} rounds, {row['environment']}, semi-bandit"
    apart = f"{short(abs(row['difference']))} {'more' if row['difference'] > 0.0 else 'less'}"
    seen = f"{times(row)} the regret with an unlimited budget, {apart}"
    verdict = "the guard steps in" if told(row) else "nothing that can be told"
    return Finding(claim, _SOURCE, "no target", seen, f"Says what it costs: {verdict}.", None)


def _paragraphs(tables: Tables, scale: Scale) -> list[str]:
    ratios, long = tables["ratios"], tables["long"]
    horizon, runs = ratios["horizon"][0], ratios["runs"][0]
    met = sum(row["ratio"] <= row["target"] for row in ratios.iter_rows(named=True))
    smaller = f" These runs have T = {horizon:,} only, so that they say nothing of them." if horizon < _AIMED else ""
    return [
        "GuardedThompson draws as Thompson sampling does, uses what arms reveal of each other, and stays within twice "
        "the guarantee of elimination. Targets are ratios of its mean regret to that of Thompson sampling, on the same "
        f"rewards; they were set before these runs, and are those of T = {_AIMED:,}.{smaller} There are {runs} runs in "
        f"each place, each with an instance of its own; {met} of {ratios.height} ratios are within their target.",
        "Parts are taken out one by one, and the budget of the guard is made smaller, or tied to the layers that a "
        "run has completed (shadow). Certificates are compared as means: 2 times tighter is half as much.",
        "Where arms are hard to tell apart the budget can run out, and the guard then plays rounds of elimination. The "
        f"price of that after {long['horizon'][0]:,} rounds is measured against the same policy without limit.",
    ]


def _charts(results: Mapping[str, Results], tables: Tables, scale: Scale) -> list[Chart]:
    charts, long = [_rows_chart(results["thompson"], tables["ratios"])], results["long"]
    for one in long.manifest.environments:
        ax = plots.regret_curves(long.traces(one.label), level=LEVEL)
        caption = f"Regret in the long run, {one.label}: what the guard costs."
        charts.append(chart(long, ax, f"guarded-long-{one.label.replace(' ', '-')}", caption))
    return charts


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
    dress(ax, "regret over that of Thompson sampling; ticks are targets", "", grid="x")
    number_ticks(ax.xaxis)
    ax.set_yticks(range(len(rows)), [row["environment"] for row in rows])
    ax.set_ylim(len(rows) - 0.4, -0.6)
    caption = f"Regret of {GUARDED} against Thompson sampling, T = {table['horizon'][0]:,}."
    return chart(results, ax, "guarded-ratios", caption, table["runs"])


STUDY = Study(
    "guarded",
    "Guarded sampling against Thompson sampling",
    _SIZES,
    _plans,
    _tables,
    findings,
    _paragraphs,
    _charts,
)
