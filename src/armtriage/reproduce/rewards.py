"""Rewards that are not 0 or 1, and rates that are small: what following the variance and learning a prior are worth."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import polars

from armtriage.instances.rewards import RATE_LAWS, REWARD_LAWS
from armtriage.reproduce.figures import heat
from armtriage.reproduce.judges import RARE, chance, compared, cost, spread, told
from armtriage.reproduce.lines import against
from armtriage.reproduce.policies import GREEDY, GUARDED, THOMPSON, chosen
from armtriage.reproduce.study import LEVEL, Chart, Claim, Played, Rows, Scale, Study, Tables, Verdict, of, plan
from armtriage.simulation.comparison import short

_SOURCE, _DELTA = "this library", 0.05
_COIN, _UNIFORM = "Thompson sampling, coin", "guarded, uniform prior"
_POLICIES: dict[str, dict[str, Any]] = {
    **chosen(GUARDED),
    _UNIFORM: {"policy": "guarded_thompson", "prior": "uniform"},
    **chosen(THOMPSON),
    _COIN: {"policy": "thompson", "fractional": "coin"},
    **chosen("KL-UCB", GREEDY),
}
_COINS, _WEAK = (polars.col("environment").str.starts_with(one) for one in ("coins", "quiet best"))
"""Where all agree; and where exact rewards are known to be no help: quiet arms among coins that are nearly as good."""
_RATES = {"rates-100": "100 arms", "rates-many": "many arms"}


def _less(rows: Rows) -> Verdict:
    """Return whether the regret is nowhere above that of another policy, and somewhere below."""
    return Verdict("less regret, or the same", spread(rows), *compared(rows, False, "less", "more"))


def _price(rows: Rows) -> Verdict:
    """Return how the regret compares where nothing is promised."""
    more, less = (sum(told(row) is above for row in rows) for above in (True, False))
    return cost(spread(rows), f"more in {more} of {len(rows)} places, less in {less}")


def _certified(rows: Rows) -> Verdict:
    """Return how many times the truth the certificates are, and whether runs lost more than was certified."""
    ratios = [row["ratio"] for row in rows if row["ratio"] is not None]
    runs, over = (sum(row[name] for row in rows) for name in ("runs", "exceeded"))
    seen = f"{short(min(ratios))} to {short(max(ratios))} times the regret"
    holds, because = chance(over, runs, _DELTA) >= RARE, f"{over} of {runs} runs lost more than certified"
    return Verdict("at least the regret, but for 5% of runs", seen, holds, because)


def _claim(table: str, words: str, judge: Callable[[Rows], Verdict], where: polars.Expr) -> Claim:
    return Claim(table, f"{words}, against {{against}}", _SOURCE, judge, where=where)


_LEARNED = "learned prior and fewer draws"


class Rewards(Study):
    """Laws of rewards, and small rates."""

    name, title = "rewards", "Rewards that are no coins, rates that are small"
    sizes: ClassVar = {
        "tiny": Scale(laws=("coins", "beta 10", "quiet best"), horizon=200, runs=3, rates=(0.05,), many=60, short=100),
        "quick": Scale(laws=REWARD_LAWS, horizon=10_000, runs=8, rates=(0.5, 0.05, 0.01), many=2000, short=2000),
        "full": Scale(laws=REWARD_LAWS, horizon=100_000, runs=16, rates=(0.5, 0.05, 0.01), many=2000, short=5000),
    }
    claims = (
        *(_claim("laws", f"{name}: rewards that are no coins", _less, ~_COINS & ~_WEAK & of(name))
          for name in (GUARDED, _UNIFORM, THOMPSON)),
        _claim("laws", "quiet arms among coins, a weak spot", _price, _WEAK & of(_UNIFORM)),
        *(_claim("laws", f"{name}: all laws of rewards", _price, of(name)) for name in ("KL-UCB", GREEDY)),
        *(one for name, words in _RATES.items() for one in (
            _claim(f"{name}-prior", f"{_LEARNED}: rates, {words}", _less, of(GUARDED)),
            _claim(name, f"{GREEDY}: rates, {words}", _price, of(GREEDY)),
        )),
        _claim("laws-prior", f"{_LEARNED}: all laws of rewards", _price, of(GUARDED)),
        *(Claim(f"{name}-certificates", f"{GUARDED}: certificates, {name}", _SOURCE, _certified, where=of(GUARDED))
          for name in ("laws", *_RATES)),
    )  # fmt: skip

    def plans(self) -> dict[str, dict[str, Any]]:
        scale = self.scale
        graphs: Any = {"": {"graph": "semi_bandit"}, ", cliques": {"graph": "cliques", "size": 10}}
        laws = {
            f"{law}{where}": {"instance": "rewards", "n_arms": 100, "budget": 10, "law": law, **graph}
            for law in scale.laws
            for where, graph in graphs.items()
        }

        def rates(n_arms: int, budget: int) -> dict[str, dict[str, Any]]:
            sizes = {"instance": "rates", "graph": "semi_bandit", "n_arms": n_arms, "budget": budget}
            pairs = [(rate, law) for rate in scale.rates for law in RATE_LAWS]
            return {f"{law}, rate {rate}": {**sizes, "rate": rate, "law": law} for rate, law in pairs}

        worlds = {"laws": (laws, scale.horizon), "rates-100": (rates(100, 10), scale.horizon)}
        worlds |= {"rates-many": (rates(scale.many, 20), scale.short)}
        rest = {"redraw": True, "block": 2, "certificate": True}
        return {name: plan(one, _POLICIES, rounds, scale.runs, **rest) for name, (one, rounds) in worlds.items()}

    def tables(self, results: Played) -> Tables:
        made = {}
        for name, one in results.items():
            made[name] = against(one, _COIN)
            made[f"{name}-prior"] = against(one, _UNIFORM, GUARDED)
            made[f"{name}-certificates"] = one.certificates(level=LEVEL)
        return made

    def charts(self, results: Played, tables: Tables) -> list[Chart]:
        caption = "Regret over that of Thompson sampling with a coin: {}."
        return [
            heat(f"rewards-{name}", caption.format(name.replace("-", ", ")), tables[name], "policy", "environment",
                 "times the coin's")
            for name in results
        ]  # fmt: skip

    def paragraphs(self, tables: Tables) -> list[str]:
        return [
            "Ratings, revenue and waiting times are not 0 or 1. As published, Thompson sampling makes a coin of such a "
            "reward; here posteriors and intervals follow mean and variance. Regret is compared with that of Thompson "
            f"sampling with the coin, on the same rewards, over {self.scale.horizon:,} rounds with 100 arms and ten "
            f"slots, {self.scale.runs} runs in each place, each with means of its own.",
            "Rates of clicks are small, and arms many. The prior is learned from all arms, and only a share of them is "
            "drawn in a round. That is compared with the same policy under a uniform prior that draws them all.",
            "Where the best arms are quiet among coins that are nearly as good, exact rewards are no help, and greedy "
            "play is ahead where rounds are few and many arms are good: both are shown.",
        ]
