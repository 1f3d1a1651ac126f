"""What each tightening of Algorithm 1 is worth: taken alone into the printed form, and alone out of the default."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import polars

from armtriage import plots
from armtriage.experiments import Results
from armtriage.reproduce.study import LEVEL, Chart, Finding, Scale, Study, Tables, chart, finding, times, told

__all__ = ["STUDY", "findings"]

_PRINT: dict[str, Any] = {"variant": "paper"}
_REDUCED: dict[str, Any] = {**_PRINT, "benchmark": "reduced", "intersect": True}
_INDEX: dict[str, Any] = {"tie_break": "index"}
_FORMS: dict[str, dict[str, Any]] = {
    "print": _PRINT,
    "print, Hoeffding": {**_PRINT, "interval": "hoeffding"},
    "print, skip revealed": {**_PRINT, "skip_revealed": True},
    "print, random fill": {**_PRINT, "fill": "random"},
    "print, reduced": _REDUCED,
    "print, reduced, Hoeffding": {**_REDUCED, "interval": "hoeffding"},
    "print, reduced, KL": {**_REDUCED, "interval": "kl"},
    "print, reduced, mixture": {**_REDUCED, "interval": "mixture"},
    "print, reduced, Bernstein": {**_REDUCED, "interval": "bernstein"},
    "print, reduced, upper ties": {**_REDUCED, "tie_break": "upper"},
    "default": {},
    "default, Hoeffding": {"interval": "hoeffding"},
    "default, KL": {"interval": "kl"},
    "default, Bernstein": {"interval": "bernstein"},
    "default, printed width": {"interval": "printed"},
    "default, printed width, index ties": {"interval": "printed", **_INDEX},
    "default, printed benchmark": {"benchmark": "printed"},
    "default, explore revealed": {"skip_revealed": False},
    "default, index ties": _INDEX,
    "default, random fill": {"fill": "random"},
}


class _Part(NamedTuple):
    """A tightening: what theory says of it, and the forms without and with it, from the print and from the default."""

    name: str
    what: str
    predicted: str
    pairs: tuple[tuple[str, str], ...]


PARTS = (
    _Part(
        "1 half width",
        "half-Hoeffding width",
        "up to 2 times less: half the observations for a width",
        (("print", "print, Hoeffding"), ("default, printed width", "default, Hoeffding")),
    ),
    _Part(
        "2 benchmark",
        "reduced benchmark, own intervals",
        "about 8/6 times less: arms within 6 widths, not 8",
        (("print", "print, reduced"), ("default, printed benchmark", "default, printed width, index ties")),
    ),
    _Part(
        "3 KL",
        "KL in place of Hoeffding",
        "not more: never wider, by Pinsker's inequality",
        (("print, reduced, Hoeffding", "print, reduced, KL"), ("default, Hoeffding", "default, KL")),
    ),
    _Part(
        "4 mixture",
        "time-uniform mixture in place of KL",
        "less: no union over rounds",
        (("print, reduced, KL", "print, reduced, mixture"), ("default, KL", "default")),
    ),
    _Part(
        "5 Bernstein",
        "empirical Bernstein in place of Hoeffding",
        "less only where variances are small",
        (("print, reduced, Hoeffding", "print, reduced, Bernstein"), ("default, Hoeffding", "default, Bernstein")),
    ),
    _Part(
        "6 revealed",
        "skip what confirmed arms reveal",
        "not more: it only removes picks",
        (("print", "print, skip revealed"), ("default, explore revealed", "default")),
    ),
    _Part(
        "7 ties",
        "ties to the largest upper bound",
        "no promise: the proof allows any tie",
        (("print, reduced", "print, reduced, upper ties"), ("default, index ties", "default")),
    ),
    _Part(
        "8 fill",
        "fill by largest average",
        "no promise: the proof allows any fill",
        (("print, random fill", "print"), ("default, random fill", "default")),
    ),
)
WHOLE = "all together"
_WHOLE = _Part("all", WHOLE, "about 128/24.75 = 5.2 times less: the constants of the bound", (("print", "default"),))
_GRAPHS: dict[str, dict[str, Any]] = {
    "semi-bandit": {"graph": "semi_bandit"},
    "cliques of 10": {"graph": "cliques", "size": 10},
    "random digraph": {"graph": "erdos_renyi", "p": 0.1},
}
_SIZES = {
    "tiny": Scale(arms=20, horizon=500, runs=4),
    "quick": Scale(arms=50, horizon=20_000, runs=8),
    "full": Scale(arms=100, horizon=100_000, runs=24),
}
_LEVEL = 0.99  # a part is looked at in six places


def _plans(scale: Scale) -> dict[str, dict[str, Any]]:
    arms = {"instance": "random", "n_arms": scale.arms, "budget": scale.arms // 10}
    places = {name: {**arms, **graph} for name, graph in _GRAPHS.items()}
    forms = {name: {"policy": "elimination", **options} for name, options in _FORMS.items()}
    rounds = {"horizon": scale.horizon, "replications": scale.runs, "checkpoints": 1, "redraw": True}
    return {"parts": {"environments": places, "policies": forms, **rounds}}


def _tables(results: Mapping[str, Results], scale: Scale) -> Tables:
    summary = results["parts"].summary(level=LEVEL)
    regrets = summary.select("environment", "policy", "horizon", "runs", "mean", "low", "high")
    return {"gains": _gains(results["parts"]), "regrets": regrets}


def _gains(results: Results) -> polars.DataFrame:
    """Return how many times the regret with a part that without it is, for each part, start and graph."""
    made = []
    for part in (*PARTS, _WHOLE):
        for start, (without, with_) in zip(("print", "default"), part.pairs, strict=False):
            table = results.differences(with_, level=_LEVEL)
            table = table.filter(table["policy"] == without)
            about = {"part": part.name, "what": part.what, "start": start}
            about |= {"without": without, "with": with_, "predicted": part.predicted}
            named = [polars.lit(value).alias(key) for key, value in about.items()]
            made.append(table.select(*named, "environment", "runs", "ratio", "ratio_low", "ratio_high", "better"))
    return polars.concat(made)


def findings(tables: Tables) -> list[Finding]:
    """Return what each part is worth, over all graphs and both starts."""
    gains = tables["gains"]
    return [_finding(rows.to_dicts()) for rows in gains.partition_by("part", maintain_order=True)]


def _finding(rows: list[dict[str, Any]]) -> Finding:
    rows = sorted(rows, key=lambda row: row["ratio"])
    least, most = rows[0], rows[-1]
    seen = f"{times(least)} as much without it ({_place(least)}) to {times(most)} ({_place(most)})"
    said = f"{rows[0]['what']}: less regret", "same guarantee, smaller constants", rows[0]["predicted"], seen
    gains, losses = ([row for row in rows if told(row) is more] for more in (True, False))
    if losses:
        cost = f"{1.0 / losses[0]['ratio']:.2f} times as much with it, {_place(losses[0])}"
        helps = f"; it helps in {len(gains)}" if gains else ""
        return finding(*said, False, f"it costs in {len(losses)} of {len(rows)} places ({cost}){helps}")
    if not gains:
        return finding(*said, None, f"no difference can be told in any of {len(rows)} places")
    return finding(*said, True, f"it helps in {len(gains)} of {len(rows)} places, and costs in none")


def _place(row: Mapping[str, Any]) -> str:
    return f"{row['environment']}, from the {row['start']}"


def _paragraphs(tables: Tables, scale: Scale) -> list[str]:
    gains = tables["gains"]
    whole = ", ".join(
        f"{times(row)} on {row['environment']}" for row in gains.filter(gains["what"] == WHOLE).to_dicts()
    )
    return [
        "The default of Algorithm 1 differs from the print in parts that keep its guarantee. Each is taken alone into "
        "the print (with the reduced benchmark where it needs one), and alone out of the default. What counts is the "
        f"regret without a part over that with it: above 1 it helps. There are {scale.arms} arms with random means, "
        f"{scale.arms // 10} slots, {scale.horizon:,} rounds and {scale.runs} instances of each graph. Each part is "
        f"looked at in six places, so intervals have a level of {_LEVEL:.0%}.",
        f"All together, the print has {whole} the regret of the default.",
    ]


def _charts(results: Mapping[str, Results], tables: Tables, scale: Scale) -> list[Chart]:
    charts, gains = [], tables["gains"]
    for start in ("print", "default"):
        table = gains.filter((gains["start"] == start) & (gains["what"] != WHOLE)).rename({"environment": "graph"})
        ax = plots.heat_map(table, "graph", "part", "ratio", log=True, title="regret without / with")
        caption = f"What each part is worth, from the {start}: above 1 it helps. Intervals are in the table."
        charts.append(chart(results["parts"], ax, f"tightenings-{start}", caption, shown="ratios of means"))
    return charts


STUDY = Study("tightenings", "What each tightening is worth", _SIZES, _plans, _tables, findings, _paragraphs, _charts)
