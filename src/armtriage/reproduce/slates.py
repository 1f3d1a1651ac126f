"""GuardedLinear against five others on slates as they are met, and its certificates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import polars
from scipy.special import bdtrc

from armtriage import plots
from armtriage.experiments import Results
from armtriage.reproduce.study import LEVEL, Chart, Finding, Scale, Study, Tables, chart, finding, told

__all__ = ["STUDY", "findings"]

GUARDED = "GuardedLinear"
_DELTA = 0.01
_RARE = 1e-3
_SIGNED = {
    "cube": (60, 30, 10),
    "anisotropic": (60, 30, 2),
    "user_item": (80, 25, 5),
    "fixed": (150, 15, 3),
    "few": (20, 30, 3),
    "jittered": (40, 8, 5),
    "drifting": (40, 8, 5),
}
_CLICKS = {"one_hot": (60, 60, 10), "clicks": (100, 20, 5), "fresh_clicks": (200, 30, 10), "sparse": (60, 60, 5)}
"""Arms, dimensions and slots of each family, with rewards of -1 and 1, and with clicks."""

_SIZES = {
    "tiny": Scale(horizon=100, runs=2, signed=("fixed", "jittered"), clicks=("clicks",)),
    "quick": Scale(horizon=3000, runs=8, signed=tuple(_SIGNED), clicks=tuple(_CLICKS)),
    "full": Scale(horizon=10_000, runs=16, signed=tuple(_SIGNED), clicks=tuple(_CLICKS)),
}


def _policies(noise: float) -> dict[str, dict[str, Any]]:
    """Return the six; constant widths are multiples of the scale of the noise."""
    return {
        GUARDED: {"policy": "guarded_linear"},
        "greedy": {"policy": "c2ucb", "width": 0.0},
        "C2UCB": {"policy": "c2ucb"},
        "C2UCB, half": {"policy": "c2ucb", "width": 0.5 * noise},
        "Thompson": {"policy": "linear_thompson"},
        "Thompson, half": {"policy": "linear_thompson", "scale": 0.5 * noise},
    }


def _places(sizes: Mapping[str, tuple[int, int, int]], chosen: tuple[str, ...]) -> dict[str, dict[str, Any]]:
    places = {}
    for family in chosen:
        n_arms, dimension, budget = sizes[family]
        about = {"n_arms": n_arms, "dimension": dimension, "budget": budget}
        places[family.replace("_", " ")] = {"instance": "slates", "family": family, **about}
    return places


def _plans(scale: Scale) -> dict[str, dict[str, Any]]:
    shared = {"horizon": scale.horizon, "replications": scale.runs, "redraw": True, "block": 2}
    signed, clicks = _places(_SIGNED, scale.signed), _places(_CLICKS, scale.clicks)
    # Where arms share their noise, certificates hold for a scale that is larger by the root of S.
    covered = {name: place for name, place in (signed | clicks).items() if name != "drifting"}
    return {
        "signed": {"environments": signed, "policies": _policies(1.0), "checkpoints": 1, **shared},
        "clicks": {"environments": clicks, "policies": _policies(0.5), "checkpoints": 1, **shared},
        "certified": {
            "environments": covered,
            "policies": {GUARDED: {"policy": "guarded_linear", "delta": _DELTA}},
            "checkpoints": 8,
            "certificate": _DELTA,
            **shared,
        },
    }


def _tables(results: Mapping[str, Results], scale: Scale) -> Tables:
    return {
        "regrets": polars.concat([_ratios(results[name]) for name in ("signed", "clicks")]),
        "certificates": results["certified"]
        .certificates(level=LEVEL)
        .select(polars.col("environment").alias("family"), "runs", "certificate", "ratio", "exceeded"),
    }


def _ratios(results: Results) -> polars.DataFrame:
    """Return mean regrets, and that of GuardedLinear as a multiple of the least of the others, with an interval."""
    made, names = [], ["environment", "policy"]
    for part in results.summary(level=LEVEL).partition_by("environment", maintain_order=True):
        best = part.filter(part["policy"] != GUARDED).sort("mean")["policy"][0]
        against = results.differences(best, level=LEVEL).select(*names, "ratio", "ratio_low", "ratio_high")
        table = part.join(against, on=names, how="left", maintain_order="left").with_columns(best=polars.lit(best))
        made.append(table.with_columns(polars.col("ratio").fill_null(1.0)))
    kept = ("policy", "horizon", "mean", "low", "high", "runs", "ratio", "ratio_low", "ratio_high", "best")
    return polars.concat(made).select(polars.col("environment").alias("family"), *kept)


def findings(tables: Tables) -> list[Finding]:
    """Return how GuardedLinear does against the best of five others, and whether its certificates hold."""
    return [_against_all(tables["regrets"]), _certified(tables["certificates"])]


def _against_all(table: polars.DataFrame) -> Finding:
    rows = table.filter(table["policy"] == GUARDED).sort("ratio").to_dicts()
    mean = float(np.exp(np.mean([np.log(row["ratio"]) for row in rows])))
    behind, ahead = ([row for row in rows if told(row) is more] for more in (True, False))
    least, most = rows[0], rows[-1]
    seen = f"{mean:.2f} in geometric mean, from {least['ratio']:.2f} ({least['family']}) to {most['ratio']:.2f}"
    seen += f" ({most['family']})"
    verdict = f"Clearly less than the best of the others in {len(ahead)} of {len(rows)} families, clearly more in "
    names = ", ".join(row["family"] for row in behind)
    verdict += f"{len(behind)}{f' ({names})' if behind else ''}."
    claim = f"{GUARDED}: regret, as a multiple of the best of five others, chosen in hindsight"
    return Finding(claim, "no theorem", "nothing: its guarantee is for the worst case", seen, verdict, None)


def _certified(table: polars.DataFrame) -> Finding:
    runs, over = int(table["runs"].sum()), int(table["exceeded"].sum())
    low, *_, high = sorted(table["ratio"].to_list())
    claim = f"{GUARDED}: no run loses more than its certificate says, at any time"
    seen = f"{over} of {runs} runs did; certificates are {low:.0f} to {high:.0f} times the regret"
    chance = float(bdtrc(over - 1, runs, _DELTA)) if over else 1.0
    because = f"if each may with probability {_DELTA:g}, so many or more do with probability {chance:.2g}"
    return finding(claim, "Lemma of the ellipsoid", f"a share of {_DELTA:g} may", seen, chance >= _RARE, because)


def _paragraphs(tables: Tables, scale: Scale) -> list[str]:
    table = tables["regrets"]
    mine = table.filter(table["policy"] == GUARDED)
    lines = [
        f"{row['family']} {row['ratio']:.2f} times {row['best']}" for row in mine.sort("ratio").iter_rows(named=True)
    ]
    return [
        "Contexts that are uneven, sparse, repeated or slowly moving, and clicks with rates of 2 to 50 percent; theta "
        f"and contexts are drawn anew in each of {scale.runs} runs of {scale.horizon:,} rounds. The others are greedy "
        "choice, C2UCB and linear Thompson sampling, and the latter two with half their width, which has no guarantee. "
        "Which of them is best differs from family to family, and is known in hindsight only.",
        f"The regret of {GUARDED}, by family: {', '.join(lines)}.",
    ]


def _charts(results: Mapping[str, Results], tables: Tables, scale: Scale) -> list[Chart]:
    table = tables["regrets"]
    families, mean = list(dict.fromkeys(table["family"])), polars.col("ratio").log().mean()
    order = table.group_by("policy").agg(mean).sort("ratio", "policy", descending=True)["policy"].to_list()
    kinds: dict[Any, Any] = {"family": polars.Enum(families), "policy": polars.Enum(order)}
    ax = plots.new_axes(7.0, 1.3 + 0.27 * len(order))
    plots.heat_map(table.cast(kinds), "family", "policy", "ratio", ax, log=True, title="times the best of five")
    ax.set_xlabel("")
    ax.set_ylabel("")
    caption = f"Regret as a multiple of the least among the five policies beside {GUARDED}, by family."
    return [chart(results["signed"], ax, "slates", caption, table["runs"], "ratios of means")]


STUDY = Study("slates", "Slates with contexts: GuardedLinear", _SIZES, _plans, _tables, findings, _paragraphs, _charts)
