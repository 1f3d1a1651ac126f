"""The policy that this library recommends against Thompson sampling: ordinary, hard and revealing instances."""

from __future__ import annotations

from typing import Any, ClassVar

import polars

from armtriage.experiments import Results
from armtriage.experiments.statistics import ratio_interval
from armtriage.reproduce.figures import curves, intervals
from armtriage.reproduce.judges import compared, cost, spread, target, times, told
from armtriage.reproduce.lines import against, with_each
from armtriage.reproduce.policies import GUARDED, THOMPSON, chosen
from armtriage.reproduce.study import Chart, Claim, Played, Row, Rows, Scale, Study, Tables, Verdict, plan
from armtriage.simulation.comparison import short

_SOURCE = "this library"
_LEVEL = 0.99  # a part is looked at in several places
_AIMED = 100_000
"""The rounds that the targets are for."""
_TARGETS = {
    "random means, semi-bandit": 1.05,
    "random means, 10 cliques": 1.0,
    "random means, random digraph": 1.0,
    "cliques of look-alikes": 1.1,
    "one gap, semi-bandit": 1.1,
    "one gap, cliques with one good arm each": 0.6,
    "bad hubs that reveal all, 100 arms": 0.5,
    "bad hubs that reveal all, 400 arms": 0.15,
}
"""How many times the regret of Thompson sampling is aimed at, at most, by the kind of instance."""
_FREE = "unlimited budget"
"""The policy that the guard never stops."""
_PARTS: dict[str, dict[str, Any]] = {
    "no free look": {"free_look": False},
    "no revealing": {"reveal": False},
    "a quarter of the budget": {"factor": 0.25},
    "shadow budget": {"mode": "shadow"},
}
_LESS = polars.col("policy").str.starts_with("no ")


def _part(rows: Rows) -> Verdict:
    """Return whether a part of the proposals lowers the regret: it rises without it."""
    said = "more regret without it, or the same", f"without it {spread(rows)}"
    return Verdict(*said, *compared(rows, True, "it helps", "it costs"))


def _other_budget(rows: Rows) -> Verdict:
    """Return what another budget does to regret and certificate; nothing is promised of it."""
    tighter = [row["tighter"] for row in rows]
    seen = f"regret {spread(rows)}; certificate {min(tighter):.2f} to {max(tighter):.2f} times tighter"
    changed = sum(told(row) is not None for row in rows)
    return cost(seen, f"the regret changes in {changed} of {len(rows)} places")


def _long(rows: Rows) -> Verdict:
    (row,) = rows
    apart = f"{short(abs(row['difference']))} {'more' if row['difference'] > 0.0 else 'less'}"
    because = "the guard steps in" if told(row) else "nothing that can be told"
    return cost(f"{times(row)} the regret with an unlimited budget, {apart}", because)


class Guarded(Study):
    """GuardedThompson over slates."""

    name, title = "guarded", "Guarded sampling against Thompson sampling"
    # The long runs, which show the price of the guard, have rounds and numbers of their own.
    sizes: ClassVar = {
        "tiny": Scale(look_alikes=(2,), gaps=(0.2,), horizon=300, runs=3, long=1000, long_runs=3),
        "quick": Scale(look_alikes=(16,), gaps=(0.1, 0.2), horizon=5000, runs=6, long=100_000, long_runs=4),
        "full": Scale(look_alikes=(16, 32), gaps=(0.05, 0.1, 0.2), horizon=_AIMED, runs=16, long=10**6, long_runs=16),
    }
    claims = (
        Claim("ratios", "{kind}: regret against Thompson sampling", _SOURCE, target(_AIMED), "kind"),
        Claim("parts", lambda row: f"{row['policy'].removeprefix('no ')}: less regret", _SOURCE, _part,
              "policy", _LESS),
        Claim("parts", "{policy}: its price", _SOURCE, _other_budget, "policy", ~_LESS),
        Claim("long", "the price of the guard after {horizon:,} rounds, {environment}, semi-bandit", _SOURCE, _long,
              "environment"),
    )  # fmt: skip

    def places(self) -> dict[str, tuple[str, dict[str, Any]]]:
        """Return the kind of each instance, and how it is made, by label."""
        arms: dict[str, Any] = {"n_arms": 100, "budget": 10}
        graphs: tuple[dict[str, Any], ...] = (
            {"graph": "semi_bandit"},
            {"graph": "cliques", "size": 10},
            {"graph": "erdos_renyi", "p": 0.1},
        )
        kinds = list(_TARGETS)
        made = {kind: (kind, {"instance": "random", **arms, **one}) for kind, one in zip(kinds, graphs, strict=False)}
        for budget in self.scale.look_alikes:
            for noise in ("deterministic", "shared", "independent"):
                one = {"instance": "ucb_failure", "budget": budget, "alpha": budget, "noise": noise}
                made[f"look-alikes, S = {budget}, {noise}"] = kinds[3], one
        for gap in self.scale.gaps:
            one = {"instance": "gap_instance", **arms, "gap": gap}
            made[f"gap {gap}, semi-bandit"] = kinds[4], one
            made[f"gap {gap}, cliques"] = kinds[5], {**one, "graph": "cliques", "size": 10, "spread": True}
        for kind, n_arms in zip(kinds[6:], (100, 400), strict=True):
            for hubs, words in ((1, "a hub"), (4, "4 hubs")):
                for gap in self.scale.gaps[-2:]:
                    one = {"instance": "revealing_hubs", **arms, "n_arms": n_arms, "n_hubs": hubs, "gap": gap}
                    made[f"{n_arms} arms, {words}, gap {gap}"] = kind, one
        return made

    def plans(self) -> dict[str, dict[str, Any]]:
        scale, rest = self.scale, {"redraw": True, "block": 2}
        places = {label: one for label, (_, one) in self.places().items()}
        gap = f"gap {scale.gaps[-1]}"
        some = {label: places[label] for label in (f"{gap}, semi-bandit", f"{gap}, cliques", f"100 arms, a hub, {gap}")}
        parts = {name: {"policy": "guarded_thompson", **options} for name, options in _PARTS.items()}
        alone = {f"gap {one}": places[f"gap {one}, semi-bandit"] for one in scale.gaps}
        free = {_FREE: {"policy": "guarded_thompson", "factor": 1e9}}
        ours = chosen(GUARDED)
        return {
            "thompson": plan(places, chosen(GUARDED, THOMPSON), scale.horizon, scale.runs, **rest),
            "parts": plan(some, ours | parts, scale.horizon, scale.runs, certificate=True, **rest),
            "long": plan(alone, ours | free, scale.long, scale.long_runs, checkpoints=40, **rest),
        }

    def tables(self, results: Played) -> Tables:
        kinds = {label: kind for label, (kind, _) in self.places().items()}
        kind, target = polars.col("environment").replace_strict(kinds), polars.col("kind").replace_strict(_TARGETS)
        ratios = against(results["thompson"], THOMPSON).select(kind.alias("kind"), polars.all())
        return {
            "ratios": ratios.with_columns(target=target),
            "parts": _parts(results["parts"]),
            "long": against(results["long"], _FREE),
        }

    def charts(self, results: Played, tables: Tables) -> list[Chart]:
        ratios, places = tables["ratios"].with_columns(label="environment"), tables["long"]["environment"]
        caption = f"Regret of {GUARDED} against Thompson sampling, T = {self.scale.horizon:,}."
        words = "regret over that of Thompson sampling; ticks are targets"
        made = [intervals("guarded-ratios", caption, ratios, words, "kind")]
        for place in places:
            caption = f"Regret in the long run, {place}: what the guard costs."
            made.append(curves(f"guarded-long-{place.replace(' ', '-')}", caption, results["long"].traces(place)))
        return made

    def paragraphs(self, tables: Tables) -> list[str]:
        ratios, horizon = tables["ratios"], self.scale.horizon
        met = ratios.filter(ratios["ratio"] <= ratios["target"]).height
        smaller = (
            f" These runs have T = {horizon:,} only, so that they say nothing of them." if horizon < _AIMED else ""
        )
        return [
            "GuardedThompson draws as Thompson sampling does, uses what arms reveal of each other, and stays within "
            "twice the guarantee of elimination. Targets are ratios of its mean regret to that of Thompson sampling, "
            "on the same rewards; they were set before these runs, and are those of T = "
            f"{_AIMED:,}.{smaller} There are {self.scale.runs} runs in each place, each with an instance of its own; "
            f"{met} of {ratios.height} ratios are within their target.",
            "Parts are taken out one by one, and the budget of the guard is made smaller, or tied to the layers that a "
            "run has completed (shadow). Certificates are compared as means: 2 times tighter is half as much.",
            "Where arms are hard to tell apart the budget can run out, and the guard then plays rounds of elimination. "
            f"The price of that after {self.scale.long:,} rounds is measured against the same policy without limit.",
        ]


def _parts(results: Results) -> polars.DataFrame:
    """Return what each change of the policy does to its regret, and how many times less it certifies."""
    certificates = dict(results.regret.group_by("environment", "policy"))

    def tighter(row: Row) -> dict[str, float]:
        one, other = (
            certificates[row["environment"], policy].sort("replication")["certificate"].to_numpy()
            for policy in (GUARDED, row["policy"])
        )
        low, high = ratio_interval(one, other, _LEVEL)
        return {"tighter": one.mean() / other.mean(), "tighter_low": low, "tighter_high": high}

    return with_each(against(results, GUARDED, level=_LEVEL), tighter)
