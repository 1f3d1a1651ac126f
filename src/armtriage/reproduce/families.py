"""All policies on random instances of all kinds, where no theorem says who is best."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from armtriage import plots
from armtriage.experiments.experiment import Experiment
from armtriage.experiments.results import Results
from armtriage.plots._style import short
from armtriage.reproduce._policies import PAPER, POLICIES, TIGHT
from armtriage.reproduce.study import LEVEL, SEED, Chart, Finding, Report, Size, Study, chart

if TYPE_CHECKING:
    import polars

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


class _Sizes(NamedTuple):
    n_arms: int
    budget: int
    horizons: dict[str, int]
    runs: dict[str, int]


_SIZES: dict[Size, _Sizes] = {
    "tiny": _Sizes(10, 2, {"graphs": 200, "linear": 200, "constrained": 40}, dict.fromkeys(_TITLES, 2)),
    "quick": _Sizes(
        50, 5, {"graphs": 10_000, "linear": 5000, "constrained": 500}, {"graphs": 8, "linear": 8, "constrained": 4}
    ),
    "full": _Sizes(
        100,
        10,
        {"graphs": 100_000, "linear": 50_000, "constrained": 2000},
        {"graphs": 16, "linear": 16, "constrained": 8},
    ),
}


def _experiments(size: Size) -> dict[str, Experiment]:
    own = _SIZES[size]
    arms: dict[str, Any] = {"instance": "random", "n_arms": own.n_arms, "budget": own.budget}
    linear: dict[str, Any] = {"instance": "linear", "n_arms": own.n_arms, "budget": own.budget}
    places: dict[str, dict[str, Any]] = {
        "graphs": {
            "semi-bandit": {**arms, "graph": "semi_bandit"},
            "cliques": {**arms, "graph": "cliques", "size": own.budget},
            "random digraph": {**arms, "graph": "erdos_renyi", "p": 0.1},
            "star": {**arms, "graph": "star"},
            "tournament": {**arms, "graph": "tournament"},
        },
        "linear": {
            "5 dimensions": {**linear, "dimension": 5},
            "20 dimensions": {**linear, "dimension": 20},
        },
        "constrained": {
            "assignment": {"instance": "assignment", "left": 4, "right": 4},
            "routing": {"instance": "routing", "layers": 3, "width": 3},
            "tree": {"instance": "tree", "nodes": 6, "edges": 10},
            "categories": {"instance": "categories", "groups": 4, "size": 4},
        },
    }
    players = {"graphs": POLICIES, "linear": _LINEAR, "constrained": _CONSTRAINED}
    return {
        name: Experiment(
            places[name],
            players[name],
            horizon=own.horizons[name],
            name=f"families-{name}",
            replications=own.runs[name],
            seed=SEED,
            checkpoints=1,
            redraw=True,
            block=2,
        )
        for name in places
    }


def _report(results: Mapping[str, Results], size: Size) -> Report:
    tables = {name: _ratios(one) for name, one in results.items()}
    charts = [_chart(results[name], name, table) for name, table in tables.items()]
    return Report(_paragraphs(tables), findings(tables), charts, tables)


def _ratios(results: Results) -> polars.DataFrame:
    """Return mean regrets, each as a multiple of the least in its family, with the interval of that ratio."""
    import polars

    made, names = [], ["environment", "policy"]
    for part in results.summary(level=LEVEL).partition_by("environment", maintain_order=True):
        best = part.sort("mean")["policy"][0]
        against = results.differences(best, level=LEVEL).select(*names, "ratio", "ratio_low", "ratio_high")
        table = part.join(against, on=names, how="left", maintain_order="left").with_columns(best=polars.lit(best))
        made.append(table.with_columns(polars.col("ratio").fill_null(1.0)))
    kept = ("policy", "horizon", "mean", "low", "high", "runs", "ratio", "ratio_low", "ratio_high", "best")
    return polars.concat(made).select(polars.col("environment").alias("family"), *kept)


def findings(tables: Mapping[str, polars.DataFrame]) -> list[Finding]:
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
    behind = [row for row in rows if row["ratio_low"] is not None and row["ratio_low"] > 1.0]
    claim = f"{policy}: regret on random instances with {title}"
    measured = f"{short(least['ratio'])} to {short(most['ratio'])} times the least"
    verdict = f"Loses more than the best in {len(behind)} of {len(rows)} families"
    verdict += f"; most on {most['family']}, {most['ratio']:.1f} times {most['best']}." if behind else "."
    return Finding(claim, "no theorem", "nothing: guarantees are for the worst case", measured, verdict, None)


def _paragraphs(tables: Mapping[str, polars.DataFrame]) -> list[str]:
    import polars

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


def _chart(results: Results, name: str, table: polars.DataFrame) -> Chart:
    """Draw the regret of all policies as multiples of the least of each family; the best on the whole stands on top."""
    import polars

    families, mean = list(dict.fromkeys(table["family"])), polars.col("ratio").log().mean()
    order = table.group_by("policy").agg(mean).sort("ratio", "policy", descending=True)["policy"].to_list()
    kinds: dict[Any, Any] = {"family": polars.Enum(families), "policy": polars.Enum(order)}
    ax = plots.new_axes(5.2, 1.3 + 0.27 * len(order))
    plots.heat_map(table.cast(kinds), "family", "policy", "ratio", ax, log=True, title="times the least")
    ax.set_yticks(range(len(order)), order)
    ax.set_xlabel("")
    ax.set_ylabel("")
    caption = f"Regret on random instances with {_TITLES[name]}, as a multiple of the least of each family."
    return chart(results, ax, f"families-{name}", caption, table["runs"], "ratios of means")


STUDY = Study("families", "Random instances: all policies", _experiments, _report)
