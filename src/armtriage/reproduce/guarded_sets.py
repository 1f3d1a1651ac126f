"""The guard over decision sets against Thompson sampling: ordinary families, and those on which either can fail."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

import polars

from armtriage.decisions import DecisionSet
from armtriage.experiments import Results
from armtriage.graphs import FeedbackGraph
from armtriage.policies import Guard, ThompsonSampling
from armtriage.reproduce.figures import curves, intervals
from armtriage.reproduce.judges import RARE, chance, cost, spread, target, times, told
from armtriage.reproduce.lines import against
from armtriage.reproduce.policies import GUARDED, ORACLE, SHADOW, THOMPSON, chosen
from armtriage.reproduce.study import Chart, Claim, Played, Rows, Scale, Study, Tables, Verdict, of, plan
from armtriage.simulation.comparison import short

_SOURCE, _DELTA = "this library", 0.05
_AIMED = 5000
"""The rounds that the targets are for."""
_FAMILIES: dict[str, tuple[float, dict[str, Any]]] = {
    "slates, 8 groups of 9": (1.2, {"instance": "categories", "groups": 8, "size": 9}),
    "matchings, 8 x 20": (1.2, {"instance": "assignment", "left": 8, "right": 20}),
    "trees, 24 nodes, 90 edges": (1.2, {"instance": "tree", "nodes": 24, "edges": 90}),
    "routes on a grid, 9 x 5": (1.35, {"instance": "grid", "rows": 9, "columns": 5}),
    "bags, 45 items": (1.2, {"instance": "knapsack", "items": 45, "capacity": 120}),
}
"""How many times the regret of Thompson sampling is aimed at, at most, and how each family is made."""
_HARD: dict[str, dict[str, Any]] = {
    "disjoint, shared luck": {"instance": "partition", "n_arms": 64, "budget": 8, "gap": 0.8},
    "disjoint, independent": {"instance": "partition", "n_arms": 64, "budget": 8, "gap": 0.8, "shared": False},
    "hub family": {"instance": "hub_family"},
    "star, 20 leaves": {"instance": "star", "n_leaves": 20},
}
_LONG = "two long decisions"
_AROUND, _FREE = "guard around Thompson, shadow", "guarded Thompson, unlimited budget"
_LASTING = ("slates, 8 groups of 9", "routes on a grid, 9 x 5", "matchings, 8 x 20")
"""The families that are played for long."""


class ThompsonInsideGuard(Guard):
    """Thompson sampling over a decision set, with the guard around it."""

    def __init__(
        self, graph: FeedbackGraph | int, *, decisions: DecisionSet, mode: str = "shadow", seed: int | None = None
    ) -> None:
        proposer = ThompsonSampling(graph, decisions=decisions, seed=seed)
        super().__init__(proposer, graph, decisions=decisions, mode=mode, seed=seed)

    @classmethod
    def _make(cls, graph: FeedbackGraph, config: Mapping[str, Any]) -> Self:
        return cls(graph, **config)


def _beside(rows: Rows) -> Verdict:
    worse = sum(told(row) is True for row in rows)
    return cost(spread(rows), f"more regret in {worse} of {len(rows)} families")


def _truth(rows: Rows) -> Verdict:
    wrong, runs = (sum(row[name] for row in rows) for name in ("wrong", "runs"))
    mine = [row["above"] for row in rows if row["policy"] == GUARDED]
    seen = f"{wrong} of {runs} runs lost more; {GUARDED} certifies {min(mine):.1f} to {max(mine):.1f} times its regret"
    because = f"{wrong} failures, where {_DELTA * runs:.1f} are allowed for"
    return Verdict("95 of 100 runs, at least", seen, chance(wrong, runs, _DELTA) >= RARE, because)


def _lasting(rows: Rows) -> Verdict:
    """Return whether the loss of a round falls: by how much more or less is lost late than on average."""
    (row,) = rows
    seen = f"{short(row['mean'])} in all, {row['late']:.2f} times the average late"
    predicted = "less is lost in late rounds than in early ones"
    return Verdict(predicted, seen, row["late"] < 0.9, f"over {row['horizon']:,} rounds")


def _price(rows: Rows) -> Verdict:
    """Return what the guard, or the whole policy, costs over many rounds."""
    (row,) = rows
    seen = f"{times(row)}, {short(abs(row['difference']))} {'more' if row['difference'] >= 0 else 'less'}"
    return cost(seen, {True: "more is lost", False: "less is lost", None: "nothing that can be told"}[told(row)])


def _stuck(rows: Rows) -> Verdict:
    (row,) = rows
    seen = f"{short(row['mean'])} on average, {short(row['most'])} at most"
    stuck = row["most"] >= 2 * row["horizon"]
    if row["policy"] == THOMPSON:
        said = f"{'a run is' if stuck else 'no run is'} stuck"
        return Verdict("some runs lose for ever", seen, None, said, "Says what happens")
    return Verdict("no run loses for ever", seen, not stuck)


class GuardedSets(Study):
    """GuardedThompson over decision sets."""

    name, title = "guarded-sets", "Guarded sampling over decision sets"
    sizes: ClassVar = {
        "tiny": Scale(families=2, hard=1, horizon=150, size=20, runs=3, compared=4, lasting=1, long=300, long_runs=3),
        "quick": Scale(families=5, hard=4, horizon=2000, size=50, runs=4, compared=16,
                       lasting=2, long=50_000, long_runs=4),
        "full": Scale(families=5, hard=4, horizon=_AIMED, size=50, runs=8, compared=64,
                      lasting=3, long=100_000, long_runs=16),
    }  # fmt: skip
    claims = (
        Claim("ratios", "{environment}: regret against Thompson sampling", _SOURCE, target(_AIMED), "environment",
              of(GUARDED)),
        *(Claim("ratios", f"{name}: its price against Thompson sampling", _SOURCE, _beside, where=of(name))
          for name in (SHADOW, ORACLE)),
        Claim("certificates", "certificates over decision sets hold", _SOURCE, _truth),
        Claim("hard", "{environment}: no linear loss", _SOURCE, _lasting, "environment", of(GUARDED)),
        Claim("long", lambda row: f"{row['environment']}: {row['horizon']:,} rounds, against "
              f"{'itself with an unlimited budget' if row['against'] == _FREE else THOMPSON}", _SOURCE, _price,
              ("environment", "against")),
        Claim("failure", f"{{policy}} on {_LONG}",
              lambda row: "Zhang, Combes (2021)" if row["policy"] == THOMPSON else _SOURCE, _stuck, "policy"),
    )  # fmt: skip

    def plans(self) -> dict[str, dict[str, Any]]:
        scale, rest = self.scale, {"redraw": True, "block": 2}
        horizon, runs = scale.horizon, scale.runs
        families = {label: one for label, (_, one) in list(_FAMILIES.items())[: scale.families]}
        hard = dict(list(_HARD.items())[: scale.hard])
        lasting = {label: _FAMILIES[label][1] for label in _LASTING[: scale.lasting]}
        long = {_LONG: {"instance": "long_decisions", "size": scale.size}}
        ours = chosen(GUARDED, THOMPSON)
        others: dict[str, Any] = {
            SHADOW: {"policy": "guarded_thompson", "mode": "shadow"},
            ORACLE: {"policy": "constrained"},
        }
        around, free = {_AROUND: {"policy": ThompsonInsideGuard}}, {"policy": "guarded_thompson", "factor": 1e6}
        return {
            # Regrets of single runs differ by a factor of ten: what both lose is told apart by many, which cost little.
            "compared": plan(families, ours, horizon, scale.compared, **rest),
            "families": plan(families, ours | others, horizon, runs, certificate=True, **rest),
            "hard": plan(hard, ours | others, horizon, runs, checkpoints=30, certificate=True, **rest),
            "failure": plan(long, ours | around, horizon, runs, checkpoints=30, **rest),
            "long": plan(lasting, ours | {_FREE: free}, scale.long, scale.long_runs, checkpoints=30, **rest),
        }

    def tables(self, results: Played) -> Tables:
        targets = {label: aim for label, (aim, _) in _FAMILIES.items()}
        aim = polars.when(of(GUARDED)).then(polars.col("environment").replace_strict(targets, default=None))
        others = against(results["families"], THOMPSON).filter(~of(GUARDED))
        against_both = [against(results["long"], other, GUARDED) for other in (THOMPSON, _FREE)]
        return {
            "ratios": polars.concat([against(results["compared"], THOMPSON), others]).with_columns(target=aim),
            "certificates": _certificates(results["families"]),
            "hard": _growth(results["hard"]),
            "failure": _failure(results["failure"]),
            "long": polars.concat(against_both),
        }

    def charts(self, results: Played, tables: Tables) -> list[Chart]:
        label = polars.format("{}, {}", "policy", "environment")
        ratios = tables["ratios"].sort("environment", maintain_order=True).with_columns(label=label)
        caption = f"Regret over decision sets against Thompson sampling, T = {self.scale.horizon:,}; ticks are targets."
        words = f"Two disjoint decisions of {self.scale.size} arms: Thompson sampling, the guard around it, and ours."
        made = [
            intervals("guarded-sets-ratios", caption, ratios, "times the regret of Thompson sampling", "policy"),
            curves("guarded-sets-failure", words, results["failure"].traces(_LONG)),
        ]
        for kind in ("hard", "long"):
            for place in dict.fromkeys(tables[kind]["environment"]):
                name = "-".join("".join(c if c.isalnum() else " " for c in place).split())
                said = f"{place[0].upper()}{place[1:]}."
                made.append(curves(f"guarded-sets-{kind}-{name}", said, results[kind].traces(place)))
        return made

    def paragraphs(self, tables: Tables) -> list[str]:
        return [
            "Over a decision set GuardedThompson draws all arms with a common part, plays the best decision by "
            "posterior means in half of the rounds, and the guard asks the set's oracle. Ratios are those of mean "
            "regrets to that of Thompson sampling with independent draws, on the same rewards, "
            f"{self.scale.compared} runs with an instance each. Targets are for T = {_AIMED:,}; elimination by oracle "
            f"and a shadow budget stand beside it, with {self.scale.runs} runs.",
            "Certificates are compared with the regret that they bound, for all policies alike.",
            "On disjoint decisions whose arms share their noise no policy can do well; on the star and the hub family "
            "a bad decision reveals all others. Two long decisions are where Thompson sampling can play the worse one "
            "for ever; the guard around it ends that.",
            "Over many rounds the budget, which grows like the root of the rounds, may bind. Beside Thompson sampling "
            "is the same policy with a budget that never does: what lies between is the price of the guarantee.",
        ]


def _ends(results: Results) -> polars.DataFrame:
    return results.regret.filter(polars.col("round") == polars.col("round").max())


def _certificates(results: Results) -> polars.DataFrame:
    """Return how many times the truth is certified, and how often less than the truth was."""
    means = polars.col("certificate").mean() / polars.col("regret").mean()
    wrong = (polars.col("certificate") < polars.col("regret") - 1e-9).sum().cast(polars.Int64)
    grouped = _ends(results).group_by("environment", "policy", maintain_order=True)
    return grouped.agg(runs=polars.len(), above=means, wrong=wrong)


def _failure(results: Results) -> polars.DataFrame:
    """Return mean and largest regret of each policy."""
    regret, rounds = polars.col("regret"), polars.col("round").max()
    grouped = _ends(results).group_by("policy", maintain_order=True)
    return grouped.agg(horizon=rounds, runs=polars.len(), mean=regret.mean(), most=regret.max())


def _growth(results: Results) -> polars.DataFrame:
    """Return the mean regret, and how much more or less of it than on average came in the last half of the rounds."""
    rows = []
    for (place, policy), part in results.regret.group_by("environment", "policy", maintain_order=True):
        curve = part.group_by("round").agg(polars.col("regret").mean()).sort("round")
        rounds, means = curve["round"].to_list(), curve["regret"].to_list()
        half = max(place for place, number in enumerate(rounds[:-1]) if 2 * number <= rounds[-1] or place == 0)
        late = (means[-1] - means[half]) / max(means[-1], 1e-12) / (1.0 - rounds[half] / rounds[-1])
        about = {"environment": place, "policy": policy, "horizon": rounds[-1], "runs": part["replication"].n_unique()}
        rows.append({**about, "mean": means[-1], "late": late})
    return polars.DataFrame(rows)
