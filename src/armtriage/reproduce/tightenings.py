"""What each tightening of Algorithm 1 is worth: taken alone into the printed form, and alone out of the default."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from armtriage import plots
from armtriage.experiments.experiment import Experiment
from armtriage.experiments.results import Results
from armtriage.reproduce.study import LEVEL, SEED, Chart, Finding, Report, Size, Study, times

if TYPE_CHECKING:
    import polars

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
_WHOLE = _Part("all", WHOLE, "about 128/24 = 5.3 times less: the constants of the bound", (("print", "default"),))
_GRAPHS: dict[str, dict[str, Any]] = {
    "semi-bandit": {"graph": "semi_bandit"},
    "cliques of 10": {"graph": "cliques", "size": 10},
    "random digraph": {"graph": "erdos_renyi", "p": 0.1},
}
_SIZES: dict[Size, tuple[int, int, int]] = {"tiny": (20, 500, 4), "quick": (50, 20_000, 8), "full": (100, 100_000, 24)}
"""Arms, rounds and runs."""
_LEVEL = 0.99


def _experiments(size: Size) -> dict[str, Experiment]:
    arms, horizon, runs = _SIZES[size]
    places = {
        name: {"instance": "random", **graph, "n_arms": arms, "budget": arms // 10} for name, graph in _GRAPHS.items()
    }
    forms = {name: {"policy": "elimination", **options} for name, options in _FORMS.items()}
    shared: dict[str, Any] = {"replications": runs, "seed": SEED, "checkpoints": 1, "redraw": True}
    return {"parts": Experiment(places, forms, horizon=horizon, name="tightenings", **shared)}


def _report(results: Mapping[str, Results], size: Size) -> Report:
    parts = results["parts"]
    tables = {"gains": _gains(parts), "regrets": _regrets(parts)}
    return Report(_paragraphs(tables["gains"], size), findings(tables), _charts(parts, tables["gains"]), tables)


def _regrets(results: Results) -> polars.DataFrame:
    return results.summary(level=LEVEL).select("environment", "policy", "horizon", "runs", "mean", "low", "high")


def _gains(results: Results) -> polars.DataFrame:
    """Return how many times the regret with a part that without it is, for each part, start and graph."""
    import polars

    made = []
    for part in (*PARTS, _WHOLE):
        for start, (without, with_) in zip(("print", "default"), part.pairs, strict=False):
            table = results.differences(with_, level=_LEVEL)
            table = table.filter(table["policy"] == without)
            about = {
                "part": part.name,
                "what": part.what,
                "start": start,
                "without": without,
                "with": with_,
                "predicted": part.predicted,
            }
            named = [polars.lit(value).alias(key) for key, value in about.items()]
            made.append(table.select(*named, "environment", "runs", "ratio", "ratio_low", "ratio_high", "better"))
    return polars.concat(made)


def findings(tables: Mapping[str, polars.DataFrame]) -> list[Finding]:
    """Return what each part is worth, over all graphs and both starts."""
    gains = tables["gains"]
    return [_finding(rows.to_dicts()) for rows in gains.partition_by("part", maintain_order=True)]


def _finding(rows: list[dict[str, Any]]) -> Finding:
    rows = sorted(rows, key=lambda row: row["ratio"])
    least, most = rows[0], rows[-1]
    measured = f"{times(least)} as much without it ({_place(least)}) to {times(most)} ({_place(most)})"
    said = f"{rows[0]['what']}: less regret", "same guarantee, smaller constants", rows[0]["predicted"], measured
    gains = [row for row in rows if row["ratio_low"] is not None and row["ratio_low"] > 1.0]
    losses = [row for row in rows if row["ratio_high"] is not None and row["ratio_high"] < 1.0]
    if losses:
        cost = f"{1.0 / losses[0]['ratio']:.2f} times as much with it, {_place(losses[0])}"
        helps = f"; it helps in {len(gains)}" if gains else ""
        return Finding(
            *said, f"Does not agree: it costs in {len(losses)} of {len(rows)} places ({cost}){helps}.", False
        )
    if not gains:
        return Finding(*said, f"Says nothing: no difference can be told in any of {len(rows)} places.", None)
    return Finding(*said, f"Agrees: it helps in {len(gains)} of {len(rows)} places, and costs in none.", True)


def _place(row: Mapping[str, Any]) -> str:
    return f"{row['environment']}, from the {row['start']}"


def _paragraphs(gains: polars.DataFrame, size: Size) -> list[str]:
    arms, horizon, runs = _SIZES[size]
    whole = ", ".join(
        f"{times(row)} on {row['environment']}" for row in gains.filter(gains["what"] == WHOLE).to_dicts()
    )
    return [
        "The default of Algorithm 1 differs from the print in parts that keep its guarantee. Each is taken alone into "
        "the print (with the reduced benchmark where it needs one), and alone out of the default. What counts is the "
        f"regret without a part over that with it: above 1 it helps. There are {arms} arms with random means, "
        f"{arms // 10} slots, {horizon:,} rounds and {runs} instances of each graph. Each part is looked at in six "
        f"places, so intervals have a level of {_LEVEL:.0%}.",
        f"All together, the print has {whole} the regret of the default.",
    ]


def _charts(results: Results, gains: polars.DataFrame) -> list[Chart]:
    charts = []
    for start in ("print", "default"):
        table = gains.filter((gains["start"] == start) & (gains["what"] != WHOLE)).rename({"environment": "graph"})
        ax = plots.heat_map(table, "graph", "part", "ratio", log=True, title="regret without / with")
        caption = f"What each part is worth, from the {start}: above 1 it helps. Intervals are in the table."
        about = results.manifest
        plots.sign(ax, f"ratios of means of {about.replications} runs, seed {about.seed}", about.code)
        charts.append(Chart(f"tightenings-{start}", ax, caption))
    return charts


STUDY = Study("tightenings", "What each tightening is worth", _experiments, _report)
