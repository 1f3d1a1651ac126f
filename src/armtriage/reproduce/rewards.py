"""Rewards that are no coins, and rates that are small: what following the variance and learning a prior are worth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars

from armtriage import plots
from armtriage.experiments import Results
from armtriage.instances.rewards import RATE_LAWS, REWARD_LAWS
from armtriage.reproduce.policies import GREEDY, GUARDED, THOMPSON
from armtriage.reproduce.study import LEVEL, Chart, Finding, Scale, Study, Tables, chart, finding, times, told
from armtriage.simulation.comparison import short

__all__ = ["STUDY", "findings"]

_SOURCE = "this library"
_COIN = "Thompson sampling, coin"
_UNIFORM = "guarded, uniform prior"
_POLICIES: dict[str, dict[str, Any]] = {
    GUARDED: {"policy": "guarded_thompson"},
    _UNIFORM: {"policy": "guarded_thompson", "prior": "uniform"},
    THOMPSON: {"policy": "thompson"},
    _COIN: {"policy": "thompson", "fractional": "coin"},
    "KL-UCB": {"policy": "kl_ucb"},
    GREEDY: {"policy": "greedy"},
}
_WEAK = "quiet best"
"""Where exact rewards are known to be no help: quiet arms among coins that are nearly as good."""
_COINS = "coins"
_SIZES = {
    "tiny": Scale(laws=("coins", "beta 10", "quiet best"), horizon=200, runs=3, rates=(0.05,), many=60, short=100),
    "quick": Scale(laws=REWARD_LAWS, horizon=10_000, runs=8, rates=(0.5, 0.05, 0.01), many=2000, short=2000),
    "full": Scale(laws=REWARD_LAWS, horizon=100_000, runs=16, rates=(0.5, 0.05, 0.01), many=2000, short=5000),
}


def _plans(scale: Scale) -> dict[str, dict[str, Any]]:
    graphs: dict[str, dict[str, Any]] = {"": {"graph": "semi_bandit"}, ", cliques": {"graph": "cliques", "size": 10}}
    laws = {
        f"{law}{where}": {"instance": "rewards", "n_arms": 100, "budget": 10, "law": law, **graph}
        for law in scale.laws
        for where, graph in graphs.items()
    }

    def rates(n_arms: int, budget: int) -> dict[str, dict[str, Any]]:
        sizes = {"instance": "rates", "graph": "semi_bandit", "n_arms": n_arms, "budget": budget}
        return {f"{law}, rate {rate}": {**sizes, "rate": rate, "law": law} for rate in scale.rates for law in RATE_LAWS}

    few: dict[str, Any] = {
        "replications": scale.runs,
        "checkpoints": 1,
        "redraw": True,
        "block": 2,
        "certificate": True,
    }
    return {
        "laws": {"environments": laws, "policies": _POLICIES, "horizon": scale.horizon, **few},
        "rates-100": {"environments": rates(100, 10), "policies": _POLICIES, "horizon": scale.horizon, **few},
        "rates-many": {"environments": rates(scale.many, 20), "policies": _POLICIES, "horizon": scale.short, **few},
    }


def _tables(results: Mapping[str, Results], scale: Scale) -> Tables:
    made: dict[str, polars.DataFrame] = {}
    for name, one in results.items():
        made[name] = _ratios(one, _COIN)
        made[f"{name}-prior"] = _ratios(one, _UNIFORM).filter(polars.col("policy") == GUARDED)
        made[f"{name}-certificates"] = one.certificates(level=LEVEL)
    return made


def _ratios(results: Results, against: str) -> polars.DataFrame:
    """Return the regret of each policy as a multiple of that of another one."""
    kept = ("policy", "environment", "horizon", "runs", "ratio", "ratio_low", "ratio_high")
    return results.differences(against, level=LEVEL).select(kept)


def findings(tables: Tables) -> list[Finding]:
    """Return what each of the two is worth, where it is worth nothing, and how far certificates are above the truth."""
    laws = tables["laws"]
    coins, weak = (polars.col("environment").str.starts_with(one) for one in (_COINS, _WEAK))
    made = [
        _less(laws.filter(~coins & ~weak, polars.col("policy") == name), f"{name}: rewards that are no coins", _COIN)
        for name in (GUARDED, _UNIFORM, THOMPSON)
    ]
    made.append(
        _price(laws.filter(weak, polars.col("policy") == _UNIFORM), "quiet arms among coins, a weak spot", _COIN)
    )
    made += [
        _price(laws.filter(polars.col("policy") == name), f"{name}: all laws of rewards", _COIN)
        for name in ("KL-UCB", GREEDY)
    ]
    for name, words in (("rates-100", "100 arms"), ("rates-many", "many arms")):
        made.append(_less(tables[f"{name}-prior"], f"learned prior and fewer draws: rates, {words}", _UNIFORM))
        greedy = tables[name].filter(polars.col("policy") == GREEDY)
        made.append(_price(greedy, f"{GREEDY}: rates, {words}", _COIN))
    made.append(_price(tables["laws-prior"], "learned prior and fewer draws: all laws of rewards", _UNIFORM))
    return [*made, *(_certified(tables[f"{name}-certificates"], name) for name in ("laws", "rates-100", "rates-many"))]


def _range(rows: Sequence[Mapping[str, Any]]) -> str:
    least, most = (edge(rows, key=lambda row: row["ratio"]) for edge in (min, max))
    return f"{times(least)}, {least['environment']}, to {times(most)}, {most['environment']}"


def _less(table: polars.DataFrame, claim: str, against: str) -> Finding:
    """Return whether the regret is nowhere above that of another policy, and somewhere below."""
    rows = table.to_dicts()
    more, less = ([row for row in rows if told(row) is above] for above in (True, False))
    said = f"{claim}, against {against}", _SOURCE, "less regret, or the same", _range(rows)
    if more:
        return finding(*said, False, f"more on {', '.join(row['environment'] for row in more)}")
    if not less:
        return finding(*said, None, f"no difference can be told in any of {len(rows)} places")
    return finding(*said, True, f"less in {len(less)} of {len(rows)} places, and more in none")


def _price(table: polars.DataFrame, claim: str, against: str) -> Finding:
    """Return how the regret compares where nothing is promised."""
    rows = table.to_dicts()
    more, less = (sum(told(row) is above for row in rows) for above in (True, False))
    verdict = f"Says what it costs: more in {more} of {len(rows)} places, less in {less}."
    return Finding(f"{claim}, against {against}", _SOURCE, "no target", _range(rows), verdict, None)


def _certified(table: polars.DataFrame, name: str) -> Finding:
    """Return how many times the truth the certificates are, and whether any run lost more than was certified."""
    ours = table.filter(polars.col("policy") == GUARDED)
    ratios, missed = ours["ratio"].drop_nulls(), int(ours["exceeded"].sum())
    seen = f"{short(float(ratios.min()))} to {short(float(ratios.max()))} times the regret"  # type: ignore[arg-type]
    total = int(ours["runs"].sum())
    allowed = missed <= 0.05 * total + 3.0 * (0.05 * 0.95 * total) ** 0.5
    said = f"{GUARDED}: certificates, {name}", _SOURCE, "at least the regret, but for 5% of runs", seen
    return finding(*said, allowed, f"{missed} of {total} runs lost more than certified")


def _paragraphs(tables: Tables, scale: Scale) -> list[str]:
    laws = tables["laws"]
    return [
        "Ratings, revenue and waiting times are not 0 or 1. As published, Thompson sampling makes a coin of such a "
        "reward; here posteriors and intervals follow mean and variance. Regret is compared with that of Thompson "
        f"sampling with the coin, on the same rewards, over {laws['horizon'][0]:,} rounds with 100 arms and ten slots, "
        f"{laws['runs'][0]} runs in each place, each with means of its own.",
        "Rates of clicks are small, and arms many. The prior is learned from all arms, and only a share of them is "
        "drawn in a round. That is compared with the same policy under a uniform prior that draws them all.",
        "Where the best arms are quiet among coins that are nearly as good, exact rewards are no help, and greedy play "
        "is ahead where rounds are few and many arms are good: both are shown.",
    ]


def _charts(results: Mapping[str, Results], tables: Tables, scale: Scale) -> list[Chart]:
    made = []
    for name, one in results.items():
        table = tables[name]
        places = list(dict.fromkeys(table["environment"]))[::-1]
        kinds: dict[Any, Any] = {"environment": polars.Enum(places), "policy": polars.Enum(list(_POLICIES))}
        ax = plots.new_axes(6.4, 0.9 + 0.24 * len(places))
        plots.heat_map(table.cast(kinds), "policy", "environment", "ratio", ax, log=True, title="times the coin's")
        ax.set_xlabel("")
        ax.set_ylabel("")
        caption = f"Regret over that of Thompson sampling with a coin: {name.replace('-', ', ')}."
        made.append(chart(one, ax, f"rewards-{name}", caption, table["runs"], "ratios of means"))
    return made


STUDY = Study(
    "rewards",
    "Rewards that are no coins, rates that are small",
    _SIZES,
    _plans,
    _tables,
    findings,
    _paragraphs,
    _charts,
)
