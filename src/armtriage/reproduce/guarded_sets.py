"""The guard over decision sets against Thompson sampling: ordinary families, and those on which either can fail."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import polars

from armtriage import plots
from armtriage.decisions import DecisionSet
from armtriage.experiments import Results
from armtriage.graphs import FeedbackGraph
from armtriage.plots.style import dress, number_ticks
from armtriage.policies import Guard, ThompsonSampling
from armtriage.reproduce.policies import GUARDED, ORACLE, THOMPSON
from armtriage.reproduce.study import LEVEL, Chart, Finding, Scale, Study, Tables, chart, finding, times, told
from armtriage.simulation.comparison import short

__all__ = ["STUDY", "ThompsonInsideGuard", "findings"]

_SOURCE = "this library"
_AIMED = 5000
"""The rounds that the targets are for."""
_FAMILIES: dict[str, tuple[float, dict[str, Any]]] = {
    "slates, 8 groups of 9": (1.2, {"instance": "categories", "groups": 8, "size": 9}),
    "matchings, 8 x 20": (1.2, {"instance": "assignment", "left": 8, "right": 20}),
    "trees, 24 nodes, 90 edges": (1.2, {"instance": "tree", "nodes": 24, "edges": 90}),
    "routes on a grid, 9 x 5": (1.35, {"instance": "grid", "rows": 9, "columns": 5}),
    "bags, 45 items": (1.2, {"instance": "knapsack", "items": 45, "capacity": 120}),
}
"""How many times the regret of Thompson sampling is aimed at, at most, and how each family is made."""
_HARD: dict[str, dict[str, Any]] = {
    "disjoint, shared luck": {"instance": "partition", "n_arms": 64, "budget": 8, "gap": 0.8},
    "disjoint, independent": {"instance": "partition", "n_arms": 64, "budget": 8, "gap": 0.8, "shared": False},
    "hub family": {"instance": "hub_family"},
    "star, 20 leaves": {"instance": "star", "n_leaves": 20},
}
_LONG = "two long decisions"
_SHADOW, _AROUND = "guarded Thompson, shadow", "guard around Thompson, shadow"
_FREE = "guarded Thompson, unlimited budget"
_LASTING = ("slates, 8 groups of 9", "routes on a grid, 9 x 5", "matchings, 8 x 20")
"""The families that are played for long."""
_OURS: dict[str, Any] = {GUARDED: {"policy": "guarded_thompson"}, THOMPSON: {"policy": "thompson"}}
_SIZES = {
    "tiny": Scale(families=2, hard=1, horizon=150, size=20, runs=3, compared=4, lasting=1, long=300, long_runs=3),
    "quick": Scale(families=5, hard=4, horizon=2000, size=50, runs=4, compared=16, lasting=2, long=50_000, long_runs=4),
    "full": Scale(
        families=5, hard=4, horizon=_AIMED, size=50, runs=8, compared=64, lasting=3, long=100_000, long_runs=16
    ),
}


class ThompsonInsideGuard(Guard):
    """Thompson sampling over a decision set, with the guard around it."""

    def __init__(
        self, graph: FeedbackGraph | int, *, decisions: DecisionSet, mode: str = "shadow", seed: int | None = None
    ) -> None:
        proposer = ThompsonSampling(graph, decisions=decisions, seed=seed)
        super().__init__(proposer, graph, decisions=decisions, mode=mode, seed=seed)

    @classmethod
    def _make(cls, graph: FeedbackGraph, config: Mapping[str, Any]) -> Self:
        return cls(graph, **config)


def _plans(scale: Scale) -> dict[str, dict[str, Any]]:
    families = {label: one for label, (_, one) in list(_FAMILIES.items())[: scale.families]}
    hard = dict(list(_HARD.items())[: scale.hard])
    shared: dict[str, Any] = {"horizon": scale.horizon, "replications": scale.runs, "redraw": True, "block": 2}
    all_of_them = _OURS | {_SHADOW: {"policy": "guarded_thompson", "mode": "shadow"}, ORACLE: {"policy": "constrained"}}
    failing = _OURS | {_AROUND: {"policy": ThompsonInsideGuard}}
    lasting = {label: _FAMILIES[label][1] for label in _LASTING[: scale.lasting]}
    return {
        # Regrets of single runs differ by a factor of ten: what both lose is told apart by many, which cost little.
        "compared": {
            "environments": families,
            "policies": _OURS,
            "checkpoints": 1,
            **shared,
            "replications": scale.compared,
        },
        "families": {
            "environments": families,
            "policies": all_of_them,
            "certificate": True,
            "checkpoints": 1,
            **shared,
        },
        "hard": {"environments": hard, "policies": all_of_them, "certificate": True, "checkpoints": 30, **shared},
        "failure": {
            "environments": {_LONG: {"instance": "long_decisions", "size": scale.size}},
            "policies": failing,
            "checkpoints": 30,
            **shared,
        },
        "long": {
            "environments": lasting,
            "policies": _OURS | {_FREE: {"policy": "guarded_thompson", "factor": 1e6}},
            "checkpoints": 30,
            **shared,
            "horizon": scale.long,
            "replications": scale.long_runs,
        },
    }


def _tables(results: Mapping[str, Results], scale: Scale) -> Tables:
    families = results["families"]
    targets = {label: target for label, (target, _) in _FAMILIES.items()}
    target = polars.col("environment").replace_strict(targets, return_dtype=polars.Float64)
    kept = ("policy", "environment", "horizon", "runs", "ratio", "ratio_low", "ratio_high")
    ours, others = (results[plan].differences(THOMPSON, level=LEVEL).select(*kept) for plan in ("compared", "families"))
    ratios = polars.concat([ours, others.filter(polars.col("policy") != GUARDED)])
    return {
        "ratios": ratios.with_columns(target.alias("target")),
        "certificates": _certificates(families),
        "hard": _growth(results["hard"]),
        "failure": _failure(results["failure"]),
        "long": _against(results["long"]),
    }


def _certificates(results: Results) -> polars.DataFrame:
    """Return how many times the truth is certified, and how often less than the truth was."""
    last = results.regret.filter(polars.col("round") == polars.col("round").max())
    means = polars.col("certificate").mean() / polars.col("regret").mean()
    wrong = (polars.col("certificate") < polars.col("regret") - 1e-9).sum()
    grouped = last.group_by("environment", "policy", maintain_order=True)
    return grouped.agg(runs=polars.len(), above=means, wrong=wrong.cast(polars.Int64))


def _growth(results: Results) -> polars.DataFrame:
    """Return the mean regret, and how much more or less of it than on average came in the last half of the rounds."""
    rows = []
    for (place, policy), part in results.regret.group_by("environment", "policy", maintain_order=True):
        curve = part.group_by("round").agg(polars.col("regret").mean()).sort("round")
        rounds, means = curve["round"].to_list(), curve["regret"].to_list()
        half = max(place for place, number in enumerate(rounds[:-1]) if 2 * number <= rounds[-1] or place == 0)
        steady = (means[-1] - means[half]) / max(means[-1], 1e-12) / (1.0 - rounds[half] / rounds[-1])
        runs = part["replication"].n_unique()
        rows.append({"environment": place, "policy": policy, "horizon": rounds[-1], "runs": runs, "mean": means[-1]})
        rows[-1]["late"] = steady
    return polars.DataFrame(rows)


def _against(results: Results) -> polars.DataFrame:
    """Return the regret of the guarded policy against Thompson sampling, and against itself without a budget."""
    parts = []
    for other in (THOMPSON, _FREE):
        found = results.differences(other, level=LEVEL).filter(polars.col("policy") == GUARDED)
        parts.append(found.with_columns(against=polars.lit(other)))
    kept = ("environment", "against", "horizon", "runs", "difference", "ratio", "ratio_low", "ratio_high")
    return polars.concat(parts).select(*kept)


def _failure(results: Results) -> polars.DataFrame:
    """Return mean and largest regret of each policy."""
    last = results.regret.filter(polars.col("round") == polars.col("round").max())
    grouped = last.group_by("policy", maintain_order=True)
    regret = polars.col("regret")
    return grouped.agg(horizon=polars.col("round").max(), runs=polars.len(), mean=regret.mean(), most=regret.max())


def findings(tables: Tables) -> list[Finding]:
    """Return whether the targets are met, certificates true, and nothing lost for ever."""
    ratios = tables["ratios"]
    ours = ratios.filter(polars.col("policy") == GUARDED)
    made = [_target(row) for row in ours.iter_rows(named=True)]
    made += [_cost(name, ratios.filter(polars.col("policy") == name).to_dicts()) for name in (_SHADOW, ORACLE)]
    made.append(_truth(tables["certificates"].to_dicts()))
    made += [_lasting(row) for row in tables["hard"].iter_rows(named=True) if row["policy"] == GUARDED]
    made += [_price(row) for row in tables["long"].iter_rows(named=True)]
    return [*made, *(_stuck(row) for row in tables["failure"].iter_rows(named=True))]


def _price(row: Mapping[str, Any]) -> Finding:
    """Return what the guard, or the whole policy, costs over many rounds."""
    whom = "Thompson sampling" if row["against"] == THOMPSON else "itself with an unlimited budget"
    claim = f"{row['environment']}: {row['horizon']:,} rounds, against {whom}"
    more = "more" if row["difference"] >= 0 else "less"
    seen = f"{times(row)}, {short(abs(row['difference']))} {more}"
    verdict = {True: "more is lost", False: "less is lost", None: "nothing that can be told"}[told(row)]
    return Finding(claim, _SOURCE, "no target", seen, f"Says what it costs: {verdict}.", None)


def _target(row: Mapping[str, Any]) -> Finding:
    predicted = f"at most {row['target']:g} times, at T = {_AIMED:,}"
    said = f"{row['environment']}: regret against Thompson sampling", _SOURCE, predicted, times(row)
    if row["horizon"] < _AIMED:
        return finding(*said, None, f"the target is for T = {_AIMED:,}, these runs have {row['horizon']:,}")
    if row["ratio"] <= row["target"]:
        return finding(*said, True, f"at T = {row['horizon']:,}")
    clear = row["ratio_low"] is not None and row["ratio_low"] > row["target"]
    return finding(*said, False if clear else None, "" if clear else "above it, but the interval reaches the target")


def _cost(name: str, rows: Sequence[Mapping[str, Any]]) -> Finding:
    least, most = (edge(rows, key=lambda row: row["ratio"]) for edge in (min, max))
    seen = f"{times(least)}, {least['environment']}, to {times(most)}, {most['environment']}"
    worse = sum(told(row) is True for row in rows)
    verdict = f"Says what it costs: more regret in {worse} of {len(rows)} families."
    return Finding(f"{name}: its price against Thompson sampling", _SOURCE, "no target", seen, verdict, None)


def _truth(rows: Sequence[Mapping[str, Any]]) -> Finding:
    wrong, runs = sum(row["wrong"] for row in rows), sum(row["runs"] for row in rows)
    mine = [row["above"] for row in rows if row["policy"] == GUARDED]
    seen = f"{wrong} of {runs} runs lost more; {GUARDED} certifies {min(mine):.1f} to {max(mine):.1f} times its regret"
    allowed = 0.05 * runs
    said = "certificates over decision sets hold", _SOURCE, "95 of 100 runs, at least", seen
    return finding(*said, wrong <= max(1.0, 2.0 * allowed), f"{wrong} failures, where {allowed:.1f} are allowed for")


def _lasting(row: Mapping[str, Any]) -> Finding:
    """Return whether the loss of a round falls: by how much more or less is lost late than on average."""
    said = f"{row['environment']}: no linear loss", _SOURCE, "less is lost in late rounds than in early ones"
    seen = f"{short(row['mean'])} in all, {row['late']:.2f} times the average late"
    return finding(*said, seen, row["late"] < 0.9, f"over {row['horizon']:,} rounds")


def _stuck(row: Mapping[str, Any]) -> Finding:
    seen = f"{short(row['mean'])} on average, {short(row['most'])} at most"
    claim = f"{row['policy']} on {_LONG}"
    if row["policy"] == THOMPSON:
        verdict = f"Says what happens: {'a run is' if row['most'] > 2 * row['horizon'] else 'no run is'} stuck."
        return Finding(claim, "Zhang, Combes (2021)", "some runs lose for ever", seen, verdict, None)
    return finding(claim, _SOURCE, "no run loses for ever", seen, row["most"] < 2 * row["horizon"])


def _paragraphs(tables: Tables, scale: Scale) -> list[str]:
    ours, others = (tables["ratios"].filter(polars.col("policy") == name)["runs"][0] for name in (GUARDED, _SHADOW))
    return [
        "Over a decision set GuardedThompson draws all arms with a common part, plays the best decision by posterior "
        "means in half of the rounds, and the guard asks the set's oracle. Ratios are those of mean regrets to that of "
        f"Thompson sampling with independent draws, on the same rewards, {ours} runs with an instance each. Targets "
        f"are for T = {_AIMED:,}; elimination by oracle and a shadow budget stand beside it, with {others} runs.",
        "Certificates are compared with the regret that they bound, for all policies alike.",
        "On disjoint decisions whose arms share luck nobody can do well; on the star and the hub family a bad decision "
        "reveals all others. Two long decisions are where Thompson sampling can play the worse one for ever; the guard "
        "around it ends that.",
        "Over many rounds the budget, which grows like the root of the rounds, may bind. Beside Thompson sampling is "
        "the same policy with a budget that never does: what lies between the two is the price of the guarantee.",
    ]


def _charts(results: Mapping[str, Results], tables: Tables, scale: Scale) -> list[Chart]:
    failure = results["failure"]
    curves = plots.regret_curves(failure.traces(_LONG), level=LEVEL)
    caption = f"Two disjoint decisions of {scale.size} arms: Thompson sampling, the guard around it, and ours."
    return [
        _rows_chart(results["families"], tables["ratios"]),
        chart(failure, curves, "guarded-sets-failure", caption, tables["failure"]["runs"]),
        *(_curves(results["hard"], place, "hard") for place in dict.fromkeys(tables["hard"]["environment"])),
        *(_curves(results["long"], place, "long") for place in dict.fromkeys(tables["long"]["environment"])),
    ]


def _curves(results: Results, place: str, kind: str) -> Chart:
    """Draw the regret of all policies in one place."""
    ax = plots.regret_curves(results.traces(place), level=LEVEL)
    name = "-".join("".join(c if c.isalnum() else " " for c in place).split())
    return chart(results, ax, f"guarded-sets-{kind}-{name}", f"{place[0].upper()}{place[1:]}.")


def _rows_chart(results: Results, table: polars.DataFrame) -> Chart:
    """Draw all ratios with their intervals, and the targets as ticks."""
    names, rows = list(dict.fromkeys(table["policy"])), table.sort("environment", maintain_order=True).to_dicts()
    ax = plots.new_axes(7.6, 1.0 + 0.24 * len(rows))
    for place, row in enumerate(rows):
        colour = plots.CURVE_COLOURS[names.index(row["policy"]) % len(plots.CURVE_COLOURS)]
        low, high = (row["ratio"] if row[end] is None else row[end] for end in ("ratio_low", "ratio_high"))
        ax.plot([max(low, 0.05 * row["ratio"]), high], [place, place], color=colour, linewidth=1.6)
        ax.plot(row["ratio"], place, "o", color=colour, markersize=4.5)
        if row["policy"] == GUARDED:
            ax.plot([row["target"]] * 2, [place - 0.4, place + 0.4], color=plots.INK, linewidth=1.4)
    ax.set_xscale("log")
    dress(ax, "times the regret of Thompson sampling", "", grid="x")
    number_ticks(ax.xaxis)
    ax.set_yticks(range(len(rows)), [f"{row['policy']}, {row['environment']}" for row in rows])
    ax.set_ylim(len(rows) - 0.4, -0.6)
    caption = f"Regret over decision sets against Thompson sampling, T = {table['horizon'][0]:,}; ticks are targets."
    return chart(results, ax, "guarded-sets-ratios", caption, table["runs"])


STUDY = Study(
    "guarded-sets",
    "Guarded sampling over decision sets",
    _SIZES,
    _plans,
    _tables,
    findings,
    _paragraphs,
    _charts,
)
