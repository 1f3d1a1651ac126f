"""Guarded sampling against Thompson sampling, over slates and decision sets; certificates, and hostile proposers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np
import polars

from armtriage._numbers import short
from armtriage.decisions import DecisionSet
from armtriage.environments import StochasticEnvironment
from armtriage.experiments import Results
from armtriage.graphs.feedback import FeedbackGraph
from armtriage.instances import gap_instance
from armtriage.policies import Greedy, Guard, GuardedThompson, ThompsonSampling
from armtriage.reproduce.figures import curves, intervals, lines
from armtriage.reproduce.judges import certified, ratios, target
from armtriage.reproduce.lines import RATIO, against
from armtriage.reproduce.policies import GUARDED, ORACLE, SHADOW, THOMPSON, TIGHT, UCB, chosen
from armtriage.reproduce.study import (
    DELTA,
    LEVEL,
    REDRAWN,
    SEED,
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
from armtriage.simulation import Trace, simulate

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


class Guarded(Study):
    """GuardedThompson over slates.

    GuardedThompson draws as Thompson sampling does, uses what arms reveal of each other, and stays within twice the
    guarantee of elimination. Targets are ratios of its mean regret to that of Thompson sampling, on the same rewards;
    they were set before these runs, and are those of T = {_AIMED:,}; shorter runs say nothing of them. There are {runs}
    runs in each place, each with an instance of its own.

    Parts are taken out one by one, and the budget of the guard is made smaller, or tied to the layers that a run has
    completed (shadow).

    Where arms are hard to tell apart the budget can run out, and the guard then plays rounds of elimination. The price
    of that after {long:,} rounds is measured against the same policy without limit.
    """

    name, title = "guarded", "Guarded sampling against Thompson sampling"
    # The long runs, which show the price of the guard, have rounds and numbers of their own.
    sizes: ClassVar = {
        "tiny": Scale(look_alikes=(2,), gaps=(0.2,), horizon=300, runs=3, long=1000, long_runs=3),
        "quick": Scale(look_alikes=(16,), gaps=(0.1, 0.2), horizon=5000, runs=6, long=100_000, long_runs=4),
        "full": Scale(look_alikes=(16, 32), gaps=(0.05, 0.1, 0.2), horizon=_AIMED, runs=16, long=10**6, long_runs=16),
    }
    claims = (
        Claim("ratios", "{kind}: regret against Thompson sampling", SOURCE, target(_AIMED), "kind"),
        Claim("parts", lambda row: f"{row['policy'].removeprefix('no ')}: less regret", SOURCE,
              ratios(True, "more regret without it, or the same"), "policy", _LESS),
        Claim("parts", "{policy}: its price", SOURCE, ratios(), "policy", ~_LESS),
        Claim("long", "the price of the guard after {horizon:,} rounds, {environment}, semi-bandit", SOURCE, ratios(),
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
        scale, rest = self.scale, REDRAWN
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
            "parts": against(results["parts"], GUARDED, level=STRICT),
            "parts-certificates": results["parts"].certificates(level=STRICT),
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


_AIMED_SETS = 5000
"""The rounds that the targets over decision sets are for."""
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
_AROUND = "guard around Thompson, shadow"
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


def _lasting(rows: Rows) -> Verdict:
    """Return whether the loss of a round falls: by how much more or less is lost late than on average."""
    (row,) = rows
    seen = f"{short(row['mean'])} in all, {row['late']:.2f} times the average late"
    predicted = "less is lost in late rounds than in early ones"
    return Verdict(predicted, seen, row["late"] < 0.9, f"over {row['horizon']:,} rounds")


def _stuck(rows: Rows) -> Verdict:
    (row,) = rows
    seen = f"{short(row['mean'])} on average, {short(row['most'])} at most"
    stuck = row["most"] >= 2 * row["horizon"]
    if row["policy"] == THOMPSON:
        said = f"{'a run is' if stuck else 'no run is'} stuck"
        return Verdict("some runs lose for ever", seen, None, said, "Says what happens")
    return Verdict("no run loses for ever", seen, not stuck)


class GuardedSets(Study):
    """GuardedThompson over decision sets.

    Over a decision set GuardedThompson draws all arms with a common part, plays the best decision by posterior means in
    half of the rounds, and the guard asks the set's oracle. Ratios are those of mean regrets to that of Thompson
    sampling with independent draws, on the same rewards, {compared} runs with an instance each. Targets are for T =
    {_AIMED_SETS:,}; elimination by oracle and a shadow budget stand beside it, with {runs} runs. Certificates are
    compared with the regret that they bound, for all policies alike.

    On disjoint decisions whose arms share their noise no policy can do well; on the star and the hub family a bad
    decision reveals all others. Two long decisions are where Thompson sampling can play the worse one for ever; the
    guard around it ends that.

    Over many rounds the budget, which grows like the root of the rounds, may bind. Beside Thompson sampling is the same
    policy with a budget that never does: what lies between is the price of the guarantee.
    """

    name, title = "guarded-sets", "Guarded sampling over decision sets"
    sizes: ClassVar = {
        "tiny": Scale(families=2, hard=1, horizon=150, size=20, runs=3, compared=4, lasting=1, long=300, long_runs=3),
        "quick": Scale(families=5, hard=4, horizon=2000, size=50, runs=4, compared=16,
                       lasting=2, long=50_000, long_runs=4),
        "full": Scale(families=5, hard=4, horizon=_AIMED_SETS, size=50, runs=8, compared=64,
                      lasting=3, long=100_000, long_runs=16),
    }  # fmt: skip
    claims = (
        Claim("ratios", "{environment}: regret against Thompson sampling", SOURCE, target(_AIMED_SETS), "environment",
              of(GUARDED)),
        *(Claim("ratios", f"{name}: its price against Thompson sampling", SOURCE, ratios(), where=of(name))
          for name in (SHADOW, ORACLE)),
        Claim("certificates", "certificates over decision sets hold", SOURCE, certified(DELTA)),
        Claim("hard", "{environment}: no linear loss", SOURCE, _lasting, "environment", of(GUARDED)),
        Claim("long", lambda row: f"{row['environment']}: {row['horizon']:,} rounds, against "
              f"{'itself with an unlimited budget' if row['against'] == _FREE else THOMPSON}", SOURCE, ratios(),
              ("environment", "against")),
        Claim("failure", f"{{policy}} on {_LONG}",
              lambda row: "Zhang, Combes (2021)" if row["policy"] == THOMPSON else SOURCE, _stuck, "policy"),
    )  # fmt: skip

    def plans(self) -> dict[str, dict[str, Any]]:
        scale, rest = self.scale, REDRAWN
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
            "certificates": results["families"].certificates(level=LEVEL),
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


def _ends(results: Results) -> polars.DataFrame:
    return results.regret.filter(polars.col("round") == polars.col("round").max())


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


_FACTOR = 0.25  # a small budget, so that the guard has to step in soon
_ARMS, _BUDGET = 8, 2
_EXACT = 1e-9  # of the rounds, by which rounding may put a regret above its certificate
_WORLDS: dict[str, tuple[list[float], dict[str, Any]]] = {
    "Bernoulli near 1/2": ([0.6, 0.6, 0.5, 0.5, 0.5, 0.5], {}),
    "small means": ([0.05, 0.04, 0.02, 0.01, 0.01, 0.0], {}),
    "Beta rewards": ([0.6, 0.55, 0.5, 0.45, 0.4, 0.4], {"reward": "beta", "concentration": 2.0}),
    "uniform rewards": ([0.6, 0.55, 0.5, 0.45, 0.4, 0.4], {"reward": "uniform"}),
    "shared noise": ([0.6, 0.6, 0.5, 0.5, 0.5, 0.5], {"noise_groups": [0, 0, 1, 1, 2, 2]}),
}
"""Small instances with rewards of many kinds: their means, and the rest of them."""
_KINDS = ", ".join(_WORLDS)


def _kept(rows: Rows) -> Verdict:
    """Return whether regret is within the budget and the loss of elimination rounds, at all times and in all runs."""
    rounds = max(row["round"] for row in rows)
    ends = [row for row in rows if row["round"] == rounds]
    most = max(row["regret"] / (row["allowed"] + row["forced"]) for row in rows)
    broken = {row["run"] for row in rows if row["regret"] > (row["allowed"] + row["forced"]) * (1.0 + 1e-9)}
    forced, lost, alone = (np.mean([row[name] for row in ends]) for name in ("forced_rounds", "regret", "alone"))
    seen = f"at most {most:.2f} times; {100 * forced / rounds:.2g}% of rounds forced; regret {lost:.4g}, and "
    seen += f"{alone:.4g} without the guard"
    more = len(broken) > DELTA * len(ends)
    because = f"{len(broken)} of {len(ends)} runs lost more{'' if more else ', at any time'}"
    return Verdict(f"at most 1 times, in {1 - DELTA:.0%} of runs", seen, not more, because)


class Certificates(Study):
    """Certificates of all policies, and the guard around any proposer.

    A certificate bounds what was lost so far, from pulls and rewards alone. It may fail in a share delta of all runs,
    over all rounds together. It is tried in {covered[1]:,} runs of {covered[0]:,} rounds on each of these small
    instances: {_KINDS}. What can be told from that many runs is the exact binomial interval.

    How far certificates are above the truth is measured on 100 arms and 10 slots. A policy that observes all arms often
    has tight ones; a policy that stops looking at bad arms, as Thompson sampling does, knows less about what it lost,
    though it lost less.

    Last, two proposers that should not be followed are put inside a guard: a saboteur that always proposes the worst
    arms, and the greedy one that never explores. The bound is proved for any.
    """

    name, title = "certificates", "Certificates, and hostile proposers inside the guard"
    # Certificates are held against the truth after the rounds in `points`. The many short runs, and those with hostile
    # proposers, have rounds and numbers of their own.
    sizes: ClassVar = {
        "tiny": Scale(points=(50, 200), runs=2, covered=(100, 4), hostile=(100, 2)),
        "quick": Scale(points=(100, 1000, 10_000), runs=6, covered=(500, 60), hostile=(1500, 4)),
        "full": Scale(points=(1000, 10_000, 100_000), runs=16, covered=(2000, 500), hostile=(5000, 16)),
    }
    claims = (
        Claim("coverage", "a best arm is eliminated, or more is lost than certified at any time, rarely; delta = "
              f"{DELTA}", SOURCE, certified(DELTA, "either", exact=True)),
        Claim("tightness", "{policy}: the certificate over the regret", SOURCE, certified(DELTA), "policy",
              polars.col("round") == polars.col("round").max()),
        Claim("hostile", "{proposer} inside the guard: regret within its budget and the loss of elimination rounds, "
              f"factor {_FACTOR}", SOURCE, _kept, "proposer"),
    )  # fmt: skip

    def plans(self) -> dict[str, dict[str, Any]]:
        points, arms = self.scale.points, {"n_arms": 100, "budget": 10}
        places: dict[str, Any] = {
            "random means": {"instance": "random", **arms},
            "gap 0.1": {"instance": "gap_instance", **arms, "gap": 0.1},
        }
        policies = chosen(GUARDED, THOMPSON, TIGHT, UCB) | {SHADOW: {"policy": "guarded_thompson", "mode": "shadow"}}
        rest = {**REDRAWN, "checkpoints": points, "certificate": DELTA}
        return {"tightness": plan(places, policies, points[-1], self.scale.runs, **rest)}

    def tables(self, results: Played) -> Tables:
        kept = ("environment", "policy", "round", "runs", "certificate", *RATIO, "exceeded")
        at = [results["tightness"].certificates(level=LEVEL, at=point) for point in self.scale.points]
        return {
            "coverage": _coverage(*self.scale.covered),
            "tightness": polars.concat(at).select(kept),
            "hostile": polars.concat([_hostile(name, *self.scale.hostile) for name in ("saboteur", "greedy")]),
        }

    def charts(self, results: Played, tables: Tables) -> list[Chart]:
        made = []
        table = tables["tightness"].rename(dict(zip(RATIO, ("mean", "low", "high"), strict=True)) | {"round": "rounds"})
        for place in ("random means", "gap 0.1"):
            own = table.filter(table["environment"] == place).drop_nulls(["mean", "low", "high"])
            name, caption = (
                f"certificates-{place.split()[0]}",
                f"How many times the regret its certificate is, {place}.",
            )
            made.append(lines(name, caption, own, "rounds", y="certificate as a multiple of the regret"))
        caption = f"A saboteur and greedy play, alone and inside the guard with factor {_FACTOR}; bands of the mean."
        return [*made, curves("certificates-hostile", caption, _traces(tables["hostile"]))]


def _coverage(horizon: int, runs: int) -> polars.DataFrame:
    """Return in how many runs a best arm is eliminated, or more is lost than a certificate says.

    Examples
    --------
    >>> _coverage(100, 2).columns
    ['environment', 'horizon', 'runs', 'eliminated', 'exceeded', 'either']
    """
    graphs, rows = [FeedbackGraph.semi_bandit(6), FeedbackGraph.cliques([2, 2, 2])], []
    for place, (name, (means, given)) in enumerate(_WORLDS.items()):
        env = StochasticEnvironment(means, graphs[place % 2], seed=SEED + place, **given)
        policy = GuardedThompson(env.graph, _BUDGET, delta=DELTA, seed=SEED)
        trace = simulate(policy, env, horizon=horizon, replications=runs, checkpoints=20, certificate=DELTA)
        assert trace.certificate is not None
        assert trace.triage is not None
        best = np.argsort(-env.means, kind="stable")[:_BUDGET]
        out = np.array([np.isin(best, log.arms[~log.confirmed]).any() for log in trace.triage])
        over = (trace.regret > trace.certificate + _EXACT * trace.rounds).any(axis=1)
        counts = {"eliminated": int(out.sum()), "exceeded": int(over.sum()), "either": int((out | over).sum())}
        rows.append({"environment": name, "horizon": horizon, "runs": runs, **counts})
    return polars.DataFrame(rows)


def _hostile(name: str, horizon: int, runs: int) -> polars.DataFrame:
    """Return what a proposer loses inside a guard and alone, at rounds on a log scale, run by run.

    The saboteur always proposes the worst arms. Greedy plays the largest means so far, and may be stuck for ever.

    Examples
    --------
    >>> _hostile("saboteur", 10, 1).columns
    ['proposer', 'run', 'round', 'alone', 'regret', 'forced', 'allowed', 'forced_rounds']
    """
    points = np.unique(np.geomspace(1, horizon, 40).astype(np.int64)).tolist()
    rows = []
    for run in range(runs):
        env = gap_instance(FeedbackGraph.semi_bandit(_ARMS), _BUDGET, 0.3, seed=SEED + run)
        worst = np.arange(_ARMS - _BUDGET, _ARMS)
        greedy = Greedy(env.graph, _BUDGET, seed=SEED + run)
        alone = simulate(greedy, env, horizon=horizon, checkpoints=points).regret[0].tolist()
        if name == "saboteur":
            alone = [point * env.regret(worst) for point in points]
        proposer: Any = greedy if name == "greedy" else lambda number, worst=worst: worst
        guard = Guard(proposer, env.graph, _BUDGET, delta=DELTA, factor=_FACTOR, seed=SEED + run)
        kept, regret, forced = dict(zip(points, alone, strict=True)), 0.0, 0.0
        for number in range(horizon):
            before = guard.account.forced_rounds
            decision = guard.ask()
            loss = env.regret(decision.arms)
            regret += loss
            forced += loss if guard.account.forced_rounds > before else 0.0
            guard.tell(decision, env.rewards(number, decision.revealed))
            if number + 1 in kept:
                about = {"proposer": name, "run": run, "round": number + 1, "alone": kept[number + 1]}
                book = guard.account
                own = {"allowed": book.allowed, "forced_rounds": book.forced_rounds}
                rows.append({**about, "regret": regret, "forced": forced, **own})
    return polars.DataFrame(rows)


def _traces(table: polars.DataFrame) -> dict[str, Trace]:
    """Return what the proposers lose inside the guard and alone, and the bound for the saboteur."""
    bound = table.with_columns(bound=table["allowed"] + table["forced"])
    labels = {
        "saboteur": ("saboteur", "alone"),
        "saboteur, guarded": ("saboteur", "regret"),
        "greedy": ("greedy", "alone"),
        "greedy, guarded": ("greedy", "regret"),
        "bound, saboteur": ("saboteur", "bound"),
    }
    made = {}
    for label, (proposer, column) in labels.items():
        own = bound.filter(bound["proposer"] == proposer).sort("run", "round")
        runs, rounds = own["run"].n_unique(), own["round"].unique().sort().to_numpy()
        values = own[column].to_numpy().reshape(runs, -1)
        made[label] = Trace(rounds, values, np.full(runs, -1), None, None, label, 0, SEED, None)
    return made
