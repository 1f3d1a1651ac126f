"""All policies on random instances of all kinds, where no theorem says who is best."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars

from armtriage import plots
from armtriage.experiments import Results
from armtriage.reproduce.policies import PAPER, POLICIES, TIGHT
from armtriage.reproduce.study import LEVEL, Chart, Finding, Scale, Study, Tables, chart, told
from armtriage.simulation.comparison import short

__all__ = ["STUDY", "findings"]

_LINEAR: dict[str, dict[str, Any]] = {
    TIGHT: {"policy": "hierarchical"},
    PAPER: {"policy": "hierarchical", "variant": "paper"},
    "C2UCB": {"policy": "c2ucb"},
    "linear Thompson": {"policy": "linear_thompson"},
}
_CONSTRAINED: dict[str, dict[str, Any]] = {
    TIGHT: {"policy": "constrained"},
    **{name: POLICIES[name] for name in ("CombUCB1", "KL-UCB", "Thompson sampling")},
}
_TITLES = {"graphs": "graph feedback", "linear": "linear contexts", "constrained": "sets of decisions"}


_SIZES = {
    "tiny": Scale(n_arms=10, budget=2, graphs=(200, 2), linear=(200, 2), constrained=(40, 2)),
    "quick": Scale(n_arms=50, budget=5, graphs=(10_000, 8), linear=(5000, 8), constrained=(500, 4)),
    "full": Scale(n_arms=100, budget=10, graphs=(100_000, 16), linear=(50_000, 16), constrained=(2000, 8)),
}
"""Arms and slots, and for each kind rounds and runs."""


def _plans(scale: Scale) -> dict[str, dict[str, Any]]:
    sizes = {"n_arms": scale.n_arms, "budget": scale.budget}
    arms, linear = {"instance": "random", **sizes}, {"instance": "linear", **sizes}
    places: dict[str, dict[str, Any]] = {
        "graphs": {
            "semi-bandit": {**arms, "graph": "semi_bandit"},
            "cliques": {**arms, "graph": "cliques", "size": scale.budget},
            "random digraph": {**arms, "graph": "erdos_renyi", "p": 0.1},
            "star": {**arms, "graph": "star"},
            "tournament": {**arms, "graph": "tournament"},
        },
        "linear": {"5 dimensions": {**linear, "dimension": 5}, "20 dimensions": {**linear, "dimension": 20}},
        "constrained": {
            "assignment": {"instance": "assignment", "left": 4, "right": 4},
            "routing": {"instance": "routing", "layers": 3, "width": 3},
            "tree": {"instance": "tree", "nodes": 6, "edges": 10},
            "categories": {"instance": "categories", "groups": 4, "size": 4},
        },
    }
    players = {"graphs": POLICIES, "linear": _LINEAR, "constrained": _CONSTRAINED}
    made = {}
    for name in _TITLES:
        horizon, runs = getattr(scale, name)
        made[name] = {"environments": places[name], "policies": players[name], "horizon": horizon, "replications": runs}
        made[name] |= {"checkpoints": 1, "redraw": True, "block": 2}
    return made


def _tables(results: Mapping[str, Results], scale: Scale) -> Tables:
    return {name: _ratios(one) for name, one in results.items()}


def _ratios(results: Results) -> polars.DataFrame:
    """Return mean regrets, each as a multiple of the least in its family, with the interval of that ratio."""
    made, names = [], ["environment", "policy"]
    for part in results.summary(level=LEVEL).partition_by("environment", maintain_order=True):
        best = part.sort("mean")["policy"][0]
        against = results.differences(best, level=LEVEL).select(*names, "ratio", "ratio_low", "ratio_high")
        table = part.join(against, on=names, how="left", maintain_order="left").with_columns(best=polars.lit(best))
        made.append(table.with_columns(polars.col("ratio").fill_null(1.0)))
    kept = ("policy", "horizon", "mean", "low", "high", "runs", "ratio", "ratio_low", "ratio_high", "best")
    return polars.concat(made).select(polars.col("environment").alias("family"), *kept)


def findings(tables: Tables) -> list[Finding]:
    """Return where elimination loses more than the best policy, and by how much; no theorem speaks of it."""
    return [
        _elimination(table, _TITLES[name], policy)
        for name, table in tables.items()
        for policy in (TIGHT, PAPER)
        if policy in table["policy"]
    ]


def _elimination(table: polars.DataFrame, title: str, policy: str) -> Finding:
    rows = table.filter(table["policy"] == policy).sort("ratio").to_dicts()
    least, most = rows[0], rows[-1]
    behind = [row for row in rows if told(row)]
    claim = f"{policy}: regret on random instances with {title}"
    seen = f"{short(least['ratio'])} to {short(most['ratio'])} times the least"
    verdict = f"Loses more than the best in {len(behind)} of {len(rows)} families"
    verdict += f"; most on {most['family']}, {most['ratio']:.1f} times {most['best']}." if behind else "."
    return Finding(claim, "no theorem", "nothing: guarantees are for the worst case", seen, verdict, None)


def _paragraphs(tables: Tables, scale: Scale) -> list[str]:
    best = polars.concat([table.filter(table["policy"] == table["best"]) for table in tables.values()])
    wins = best.group_by("policy").len().sort(["len", "policy"], descending=[True, False])
    said = ", ".join(f"{policy} in {count}" for policy, count in wins.iter_rows())
    rounds = [f"{short(table['horizon'][0])} with {_TITLES[name]}" for name, table in tables.items()]
    return [
        "Means, graphs and contexts are drawn at random, anew in each run. No theorem says who is best here: a "
        "guarantee for the worst case costs something on ordinary instances, and this is how much. Ratios are to "
        f"the policy with the least mean regret of the family, judged by the same runs. T is {', '.join(rounds)}.",
        f"Of {best.height} families, the least regret has {said}.",
    ]


def _charts(results: Mapping[str, Results], tables: Tables, scale: Scale) -> list[Chart]:
    return [_chart(results[name], name, table) for name, table in tables.items()]


def _chart(results: Results, name: str, table: polars.DataFrame) -> Chart:
    """Draw the regret of all policies as multiples of the least of each family; the best on the whole stands on top."""
    families, mean = list(dict.fromkeys(table["family"])), polars.col("ratio").log().mean()
    order = table.group_by("policy").agg(mean).sort("ratio", "policy", descending=True)["policy"].to_list()
    kinds: dict[Any, Any] = {"family": polars.Enum(families), "policy": polars.Enum(order)}
    ax = plots.new_axes(5.2, 1.3 + 0.27 * len(order))
    plots.heat_map(table.cast(kinds), "family", "policy", "ratio", ax, log=True, title="times the least")
    ax.set_xlabel("")
    ax.set_ylabel("")
    caption = f"Regret on random instances with {_TITLES[name]}, as a multiple of the least of each family."
    return chart(results, ax, f"families-{name}", caption, table["runs"], "ratios of means")


STUDY = Study("families", "Random instances: all policies", _SIZES, _plans, _tables, findings, _paragraphs, _charts)
