"""What each tightening of Algorithm 1 is worth: taken alone into the printed form, and alone out of the default."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import polars

from armtriage.experiments import Results
from armtriage.reproduce.figures import heat
from armtriage.reproduce.judges import compared, times, told
from armtriage.reproduce.lines import against
from armtriage.reproduce.study import LEVEL, Chart, Claim, Played, Row, Rows, Scale, Study, Tables, Verdict, plan

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


_PARTS = (
    _Part("1 half width", "half-Hoeffding width", "up to 2 times less: half the observations for a width",
          (("print", "print, Hoeffding"), ("default, printed width", "default, Hoeffding"))),
    _Part("2 benchmark", "reduced benchmark, own intervals", "about 8/6 times less: arms within 6 widths, not 8",
          (("print", "print, reduced"), ("default, printed benchmark", "default, printed width, index ties"))),
    _Part("3 KL", "KL in place of Hoeffding", "not more: never wider, by Pinsker's inequality",
          (("print, reduced, Hoeffding", "print, reduced, KL"), ("default, Hoeffding", "default, KL"))),
    _Part("4 mixture", "time-uniform mixture in place of KL", "less: no union over rounds",
          (("print, reduced, KL", "print, reduced, mixture"), ("default, KL", "default"))),
    _Part("5 Bernstein", "empirical Bernstein in place of Hoeffding", "less only where variances are small",
          (("print, reduced, Hoeffding", "print, reduced, Bernstein"), ("default, Hoeffding", "default, Bernstein"))),
    _Part("6 revealed", "skip what confirmed arms reveal", "not more: it only removes picks",
          (("print", "print, skip revealed"), ("default, explore revealed", "default"))),
    _Part("7 ties", "ties to the largest upper bound", "no promise: the proof allows any tie",
          (("print, reduced", "print, reduced, upper ties"), ("default, index ties", "default"))),
    _Part("8 fill", "fill by largest average", "no promise: the proof allows any fill",
          (("print, random fill", "print"), ("default, random fill", "default"))),
    _Part("all", "all together", "about 128/24.75 = 5.2 times less: the constants of the bound",
          (("print", "default"),)),
)  # fmt: skip
_GRAPHS: dict[str, dict[str, Any]] = {
    "semi-bandit": {"graph": "semi_bandit"},
    "cliques of 10": {"graph": "cliques", "size": 10},
    "random digraph": {"graph": "erdos_renyi", "p": 0.1},
}
_LEVEL = 0.99  # a part is looked at in six places


def _worth(rows: Rows) -> Verdict:
    """Return what a part is worth, over all graphs and both starts."""
    least, most = rows[0], rows[-1]
    seen = f"{times(least)} as much without it ({_place(least)}) to {times(most)} ({_place(most)})"
    agrees, because = compared(rows, True, "it helps", "it costs")
    if agrees is False:
        gains, losses = ([row for row in rows if told(row) is more] for more in (True, False))
        cost = f"{1.0 / losses[0]['ratio']:.2f} times as much with it, {_place(losses[0])}"
        helps = f"; it helps in {len(gains)}" if gains else ""
        because = f"it costs in {len(losses)} of {len(rows)} places ({cost}){helps}"
    return Verdict(rows[0]["predicted"], seen, agrees, because)


def _place(row: Row) -> str:
    return f"{row['environment']}, from the {row['start']}"


class Tightenings(Study):
    """The parts of the tight variant, one by one."""

    name, title = "tightenings", "What each tightening is worth"
    sizes: ClassVar = {
        "tiny": Scale(arms=20, horizon=500, runs=4),
        "quick": Scale(arms=50, horizon=20_000, runs=8),
        "full": Scale(arms=100, horizon=100_000, runs=24),
    }
    claims = tuple(
        Claim("gains", "{what}: less regret", "same guarantee, smaller constants", _worth,
              where=polars.col("part") == part.name, order="ratio") for part in _PARTS
    )  # fmt: skip

    def plans(self) -> dict[str, dict[str, Any]]:
        scale = self.scale
        arms = {"instance": "random", "n_arms": scale.arms, "budget": scale.arms // 10}
        places = {name: {**arms, **graph} for name, graph in _GRAPHS.items()}
        forms = {name: {"policy": "elimination", **options} for name, options in _FORMS.items()}
        return {"parts": plan(places, forms, scale.horizon, scale.runs, redraw=True)}

    def tables(self, results: Played) -> Tables:
        regrets = results["parts"].summary(level=LEVEL)
        regrets = regrets.select("environment", "policy", "horizon", "runs", "mean", "low", "high")
        return {"gains": _gains(results["parts"]), "regrets": regrets}

    def charts(self, results: Played, tables: Tables) -> list[Chart]:
        made, gains = [], tables["gains"]
        for start in ("print", "default"):
            table = gains.filter((gains["start"] == start) & (gains["part"] != "all"))
            caption = f"What each part is worth, from the {start}: above 1 it helps. Intervals are in the table."
            name, title = f"tightenings-{start}", "regret without / with"
            made.append(heat(name, caption, table, "environment", "part", title, 5.2))
        return made

    def paragraphs(self, tables: Tables) -> list[str]:
        scale, gains = self.scale, tables["gains"]
        whole = [f"{times(row)} on {row['environment']}" for row in gains.filter(gains["part"] == "all").to_dicts()]
        return [
            "The default of Algorithm 1 differs from the print in parts that keep its guarantee. Each is taken alone "
            "into the print (with the reduced benchmark where it needs one), and alone out of the default. What counts "
            f"is the regret without a part over that with it: above 1 it helps. There are {scale.arms} arms with "
            f"random means, {scale.arms // 10} slots, {scale.horizon:,} rounds and {scale.runs} instances of each "
            f"graph. Each part is looked at in six places, so intervals have a level of {_LEVEL:.0%}.",
            f"All together, the print has {', '.join(whole)} the regret of the default.",
        ]


def _gains(results: Results) -> polars.DataFrame:
    """Return how many times the regret with a part that without it is, for each part, start and graph."""
    made = []
    for part in _PARTS:
        for start, (without, with_) in zip(("print", "default"), part.pairs, strict=False):
            about = {"part": part.name, "what": part.what, "start": start, "predicted": part.predicted}
            named = [polars.lit(value).alias(key) for key, value in about.items()]
            made.append(against(results, with_, without, level=_LEVEL).select(*named, polars.all()))
    return polars.concat(made)
