"""Where no theorem says what is best: tightenings, random instances, slates with contexts, laws of rewards."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NamedTuple

import polars

from armtriage.experiments import Results
from armtriage.instances.rewards import RATE_LAWS, REWARD_LAWS
from armtriage.reproduce.figures import heat
from armtriage.reproduce.judges import certified, ratios
from armtriage.reproduce.lines import against, against_best
from armtriage.reproduce.policies import GREEDY, GUARDED, PAPER, POLICIES, THOMPSON, TIGHT, chosen
from armtriage.reproduce.study import (
    DELTA,
    LEVEL,
    REDRAWN,
    SOURCE,
    STRICT,
    Chart,
    Claim,
    Played,
    Rows,
    Scale,
    Study,
    Tables,
    Verdict,
    of,
    plan,
)

_WORST = "nothing: guarantees are for the worst case"

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
    less: bool | None = True  # whether less regret is claimed, here, with coins: no less, or nothing


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
          (("print, reduced, Hoeffding", "print, reduced, Bernstein"), ("default, Hoeffding", "default, Bernstein")),
          less=False),
    _Part("6 revealed", "skip what confirmed arms reveal", "not more: it only removes picks",
          (("print", "print, skip revealed"), ("default, explore revealed", "default"))),
    _Part("7 ties", "ties to the largest upper bound", "no promise: the proof allows any tie",
          (("print, reduced", "print, reduced, upper ties"), ("default, index ties", "default")), less=None),
    _Part("8 fill", "fill by largest average", "no promise: the proof allows any fill",
          (("print, random fill", "print"), ("default, random fill", "default")), less=None),
    _Part("all", "all together", "about 128/24.75 = 5.2 times less: the constants of the bound",
          (("print", "default"),)),
)  # fmt: skip
_SAID = {True: "less regret", False: "no less regret with coins", None: "what it brings"}
_GRAPHS: dict[str, dict[str, Any]] = {
    "semi-bandit": {"graph": "semi_bandit"},
    "cliques of 10": {"graph": "cliques", "size": 10},
    "random digraph": {"graph": "erdos_renyi", "p": 0.1},
}


class Tightenings(Study):
    """The parts of Algorithm 1's tight variant: each alone taken into the printed form, and out of the default.

    The default of Algorithm 1 differs from the print in parts that keep its guarantee. Each is taken alone into the
    print (with the reduced benchmark where it needs one), and alone out of the default. What counts is the regret
    without a part over that with it: above 1 it helps. There are {arms} arms with random means, a tenth as many slots,
    {horizon:,} rounds and {runs} instances of each graph. Each part is looked at in six places, so intervals have a
    level of {STRICT:.0%}.
    """

    name, title = "tightenings", "What each tightening is worth"
    sizes: ClassVar = {
        "tiny": Scale(arms=20, horizon=500, runs=4),
        "quick": Scale(arms=50, horizon=20_000, runs=8),
        "full": Scale(arms=100, horizon=100_000, runs=24),
    }
    claims = tuple(
        Claim("gains", f"{{what}}: {_SAID[part.less]}", "same guarantee, smaller constants",
              ratios(part.less, part.predicted), where=polars.col("part") == part.name) for part in _PARTS
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


def _gains(results: Results) -> polars.DataFrame:
    """Return how many times the regret with a part that without it is, for each part, start and graph."""
    made = []
    for part in _PARTS:
        for start, (without, with_) in zip(("print", "default"), part.pairs, strict=False):
            place = polars.format("{}, from the {}", "environment", polars.lit(start))
            about = {"part": part.name, "what": part.what, "start": start, "predicted": part.predicted}
            named = [polars.lit(value).alias(key) for key, value in about.items()]
            made.append(against(results, with_, without, level=STRICT).select(*named, polars.all(), place=place))
    return polars.concat(made)


def ranked(table: polars.DataFrame) -> list[str]:
    """Return the policies of `against_best`, the one that is best on the whole last."""
    means = table.group_by("policy").agg(polars.col("ratio").log().mean())
    return means.sort("ratio", "policy", descending=True)["policy"].to_list()


class Families(Study):
    """The price of guarantees on ordinary instances; `linear` and `guarded-sets` have it for contexts and sets.

    Means and graphs are drawn at random, again for each run. No theorem says which policy is best here: a guarantee for
    the worst case costs something on ordinary instances, and this is how much. Ratios are to the policy with the least
    mean regret of the family, judged by the same runs.
    """

    name, title = "families", "Random instances: all policies"
    sizes: ClassVar = {
        "tiny": Scale(n_arms=10, budget=2, horizon=200, runs=2),
        "quick": Scale(n_arms=50, budget=5, horizon=10_000, runs=8),
        "full": Scale(n_arms=100, budget=10, horizon=100_000, runs=16),
    }
    claims = tuple(
        Claim("graphs", f"{policy}: regret on random instances with graph feedback", "no theorem",
              ratios(None, _WORST), where=of(policy)) for policy in (TIGHT, PAPER)
    )  # fmt: skip

    def plans(self) -> dict[str, dict[str, Any]]:
        scale = self.scale
        arms = {"instance": "random", "n_arms": scale.n_arms, "budget": scale.budget}
        places: dict[str, dict[str, Any]] = {
            "semi-bandit": {**arms, "graph": "semi_bandit"},
            "cliques": {**arms, "graph": "cliques", "size": scale.budget},
            "random digraph": {**arms, "graph": "erdos_renyi", "p": 0.1},
            "star": {**arms, "graph": "star"},
            "tournament": {**arms, "graph": "tournament"},
        }
        return {"graphs": plan(places, POLICIES, scale.horizon, scale.runs, **REDRAWN)}

    def tables(self, results: Played) -> Tables:
        return {"graphs": against_best(results["graphs"])}

    def charts(self, results: Played, tables: Tables) -> list[Chart]:
        caption = "Regret on random instances with graph feedback, as a multiple of the least of each family."
        table, title = tables["graphs"], "times the least"
        return [heat("families-graphs", caption, table, "environment", "policy", title, 5.2, ranked(table))]


LINEAR = "GuardedLinear"
_RARELY = 0.01
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


def _policies(noise: float) -> dict[str, dict[str, Any]]:
    """Return the six; constant widths are multiples of the scale of the noise."""
    return {
        LINEAR: {"policy": "guarded_linear"},
        "greedy": {"policy": "c2ucb", "width": 0.0},
        "C2UCB": {"policy": "c2ucb"},
        "C2UCB, half": {"policy": "c2ucb", "width": 0.5 * noise},
        "Thompson": {"policy": "linear_thompson"},
        "Thompson, half": {"policy": "linear_thompson", "scale": 0.5 * noise},
    }


def _places(sizes: Mapping[str, tuple[int, int, int]], chosen: tuple[str, ...]) -> dict[str, dict[str, Any]]:
    places = {}
    for family in chosen:
        about = dict(zip(("n_arms", "dimension", "budget"), sizes[family], strict=True))
        places[family.replace("_", " ")] = {"instance": "slates", "family": family, **about}
    return places


class Slates(Study):
    """Contexts, with and without clicks.

    Contexts that are uneven, sparse, repeated or slowly moving, and clicks with rates of 2 to 50 percent; theta and
    contexts are drawn again for each of {runs} runs of {horizon:,} rounds. The others are greedy choice, C2UCB and
    linear Thompson sampling, and the latter two with half their width, which has no guarantee. Which of them is best
    differs from family to family, and is known in hindsight only.
    """

    name, title = "slates", "Slates with contexts: GuardedLinear"
    sizes: ClassVar = {
        "tiny": Scale(horizon=100, runs=2, signed=("fixed", "jittered"), clicks=("clicks",)),
        "quick": Scale(horizon=3000, runs=8, signed=tuple(_SIGNED), clicks=tuple(_CLICKS)),
        "full": Scale(horizon=10_000, runs=16, signed=tuple(_SIGNED), clicks=tuple(_CLICKS)),
    }
    claims = (
        Claim("regrets", f"{LINEAR}: regret, as a multiple of the best of five others, chosen in hindsight",
              "no theorem", ratios(None, _WORST), where=of(LINEAR)),
        Claim("certificates", f"{LINEAR}: no run loses more than its certificate says, at any time",
              "Lemma of the ellipsoid", certified(_RARELY)),
    )  # fmt: skip

    def plans(self) -> dict[str, dict[str, Any]]:
        horizon, runs, rest = self.scale.horizon, self.scale.runs, REDRAWN
        signed, clicks = _places(_SIGNED, self.scale.signed), _places(_CLICKS, self.scale.clicks)
        # Where arms share their noise, certificates hold for a scale that is larger by the root of S.
        covered = {name: place for name, place in (signed | clicks).items() if name != "drifting"}
        ours = {LINEAR: {"policy": "guarded_linear", "delta": _RARELY}}
        return {
            "signed": plan(signed, _policies(1.0), horizon, runs, **rest),
            "clicks": plan(clicks, _policies(0.5), horizon, runs, **rest),
            "certified": plan(covered, ours, horizon, runs, checkpoints=8, certificate=_RARELY, **rest),
        }

    def tables(self, results: Played) -> Tables:
        return {
            "regrets": polars.concat([against_best(results[name], LINEAR) for name in ("signed", "clicks")]),
            "certificates": results["certified"].certificates(level=LEVEL),
        }

    def charts(self, results: Played, tables: Tables) -> list[Chart]:
        table, title = tables["regrets"], "times the best of five"
        caption = f"Regret as a multiple of the least among the five policies beside {LINEAR}."
        return [heat("slates", caption, table, "environment", "policy", title, 7.0, ranked(table))]


_NOT_MORE = ratios(False, "less regret, or the same")
_COIN, _UNIFORM = "Thompson sampling, coin", "guarded, uniform prior"
_SAMPLERS: dict[str, dict[str, Any]] = {
    **chosen(GUARDED),
    _UNIFORM: {"policy": "guarded_thompson", "prior": "uniform"},
    **chosen(THOMPSON),
    _COIN: {"policy": "thompson", "fractional": "coin"},
    **chosen("KL-UCB", GREEDY),
}
_COINS, _WEAK = (polars.col("environment").str.starts_with(one) for one in ("coins", "quiet best"))
"""Where all agree; and where exact rewards are known to be no help: quiet arms among coins that are nearly as good."""
_RATES = {"rates-100": "100 arms", "rates-many": "many arms"}


def _claim(table: str, words: str, judge: Callable[[Rows], Verdict], where: polars.Expr) -> Claim:
    return Claim(table, f"{words}, against {{against}}", SOURCE, judge, where=where)


_LEARNED = "learned prior and fewer draws"


class Rewards(Study):
    """Laws of rewards, and small rates.

    Ratings, revenue and waiting times are not 0 or 1. As published, Thompson sampling makes a coin of such a reward;
    here posteriors and intervals follow mean and variance. Regret is compared with that of Thompson sampling with the
    coin, on the same rewards, over {horizon:,} rounds with 100 arms and ten slots, {runs} runs in each place, each with
    means of its own.

    Rates of clicks are small, and arms many. The prior is learned from all arms, and only a share of them is drawn in a
    round. That is compared with the same policy under a uniform prior that draws them all.

    Where the best arms are quiet among coins that are nearly as good, exact rewards are no help, and greedy play is
    ahead where rounds are few and many arms are good: both are shown.
    """

    name, title = "rewards", "Rewards that are no coins, rates that are small"
    sizes: ClassVar = {
        "tiny": Scale(laws=("coins", "beta 10", "quiet best"), horizon=200, runs=3, rates=(0.05,), many=60, short=100),
        "quick": Scale(laws=REWARD_LAWS, horizon=10_000, runs=8, rates=(0.5, 0.05, 0.01), many=2000, short=2000),
        "full": Scale(laws=REWARD_LAWS, horizon=100_000, runs=16, rates=(0.5, 0.05, 0.01), many=2000, short=5000),
    }
    claims = (
        *(_claim("laws", f"{name}: rewards that are no coins", _NOT_MORE, ~_COINS & ~_WEAK & of(name))
          for name in (GUARDED, _UNIFORM, THOMPSON)),
        _claim("laws", "quiet arms among coins, a weak spot", ratios(), _WEAK & of(_UNIFORM)),
        *(_claim("laws", f"{name}: all laws of rewards", ratios(), of(name)) for name in ("KL-UCB", GREEDY)),
        *(one for name, words in _RATES.items() for one in (
            _claim(f"{name}-prior", f"{_LEARNED}: rates, {words}", _NOT_MORE, of(GUARDED)),
            _claim(name, f"{GREEDY}: rates, {words}", ratios(), of(GREEDY)),
        )),
        _claim("laws-prior", f"{_LEARNED}: all laws of rewards", ratios(), of(GUARDED)),
        *(Claim(f"{name}-certificates", f"{GUARDED}: certificates, {name}", SOURCE, certified(DELTA),
                where=of(GUARDED)) for name in ("laws", *_RATES)),
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
        rest = {**REDRAWN, "certificate": True}
        return {name: plan(one, _SAMPLERS, rounds, scale.runs, **rest) for name, (one, rounds) in worlds.items()}

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
