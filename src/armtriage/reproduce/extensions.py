"""Contexts, decision sets and counterexamples: sqrt(d S T), S^2 kappa / gap, and what is false as printed."""

from __future__ import annotations

import math
from functools import partial
from typing import Any, ClassVar

import numpy as np
import polars

from armtriage.environments import LinearEnvironment, StochasticEnvironment
from armtriage.experiments import Results
from armtriage.experiments.statistics import mean_interval
from armtriage.graphs.feedback import FeedbackGraph
from armtriage.instances import hub_family, star, three_arms, two_hubs, ucb_failure
from armtriage.kernels.record import Floats
from armtriage.policies import CombinatorialElimination, CombinatorialUCB, HierarchicalElimination
from armtriage.reproduce.figures import along as drawn_along
from armtriage.reproduce.figures import curves
from armtriage.reproduce.judges import above_bound, below_bound, guessing, measured, power, ratios
from armtriage.reproduce.lines import Lines, against, along, with_each
from armtriage.reproduce.policies import ORACLE, PAPER, REPAIRED, THOMPSON, TIGHT, chosen
from armtriage.reproduce.study import (
    LEVEL,
    SEED,
    SOURCE,
    Chart,
    Claim,
    Played,
    Row,
    Rows,
    Scale,
    Study,
    Tables,
    Verdict,
    of,
    plan,
)
from armtriage.simulation import simulate
from armtriage.theory import (
    audit,
    constrained_lower,
    constrained_upper,
    cover_number,
    domination_number,
    gap,
    greedy_dominating_set,
    independence_number,
    linear_lower,
    linear_upper,
    oracle_upper,
)

Instances = dict[str, dict[str, tuple[float, dict[str, Any]]]]
"""For each parameter the instances along which it alone changes, by label: its value, and their options."""


def _lines(instances: Instances) -> Lines:
    return {name: {label: at for label, (at, _) in points.items()} for name, points in instances.items()}


def _places(instances: Instances) -> dict[str, dict[str, Any]]:
    return {label: options for points in instances.values() for label, (_, options) in points.items()}


C2UCB = "C2UCB"
_NO_ORDER = "no order on an instance"
_CONTEXTUAL: dict[str, Any] = {
    TIGHT: {"policy": "hierarchical"},
    REPAIRED: {"policy": "hierarchical", "variant": "repaired"},
    C2UCB: {"policy": "c2ucb"},
    THOMPSON: {"policy": "linear_thompson"},
}
SPHERE, PROOF, WIDER = "contexts on a sphere", "blocks, gap of the proof", "blocks, 64 times that gap"
_SLOTS, _DIRECTIONS = 20, 100
_TASK = 0.33  # the gap of one task in the shortest horizon: between 1/4 and 1/2, and close to neither
_GUESSES = 0.9  # of what guessing loses: from here on a policy has learned next to nothing
_PLACE = polars.col("environment")


def orthogonal(seed: int | None = None) -> LinearEnvironment:
    """Return 20 good arms that share a context, after 99 of mean 0 with a direction each to themselves.

    Examples
    --------
    >>> env = orthogonal(seed=7)
    >>> env.n_arms, env.means(0)[[0, 99]]
    (119, array([0. , 0.6]))
    """
    contexts = np.zeros((_DIRECTIONS - 1 + _SLOTS, _DIRECTIONS))
    contexts[: _DIRECTIONS - 1, 1:] = np.eye(_DIRECTIONS - 1)
    contexts[_DIRECTIONS - 1 :, 0] = 1.0
    return LinearEnvironment(0.6 * np.eye(_DIRECTIONS)[0], contexts, seed=seed)


def _tasks(at: float, number: int, budget: int, longer: int, shortest: int) -> tuple[str, tuple[float, dict[str, Any]]]:
    """Return tasks one after the other, with a gap that is a fixed multiple of 1 / sqrt(rounds of a task)."""
    dimension, horizon = 2 * budget * number + 1, longer * shortest
    about = {"instance": "linear_blocks", "dimension": dimension, "budget": budget, "horizon": horizon}
    return f"d={dimension}, S={budget}, T={horizon:,}", (at, {**about, "gap": _TASK * math.sqrt(number / longer)})


def _guessed(row: Row) -> str:
    guessed = row["share"] >= _GUESSES
    return "It loses what guessing loses somewhere, so the power is the instance's own" if guessed else ""


class Linear(Study):
    """Theorems 5 and 6: hierarchical elimination against C2UCB, where the theorems say so and elsewhere.

    Theorem 5 promises hierarchical elimination a regret of order sqrt(d S T), where C2UCB has d sqrt(S T). By Theorem 6
    no policy can have less, because of tasks one after the other that share nothing. With the gap of its proof nothing
    can be learned; on the lines below gaps are always the same multiple of 1 / sqrt(rounds of a task).

    Widths halve from stage to stage, so regret is a staircase in the gap. On these lines the gap is halved from point
    to point, which keeps all points on the same place of a stair. A policy that loses what guessing loses shows the
    instance's own power; of such lines nothing is said. No theorem speaks of contexts from a sphere.
    """

    name, title = "linear", "Linear contexts: sqrt(d S T), and C2UCB"
    # With the printed width nothing is learned in the shorter horizons, so only the full size has it along the lines.
    sizes: ClassVar = {
        "tiny": Scale(shortest=100, longer=(1, 4, 16), horizon=1000, runs=2, whole=False),
        "quick": Scale(shortest=16_000, longer=(1, 4, 16), horizon=8000, runs=4, whole=False),
        "full": Scale(shortest=25_000, longer=(1, 4, 16, 64), horizon=20_000, runs=8, whole=True),
    }
    claims = (
        Claim("powers", "{policy}: growth with {parameter}, on tasks in blocks",
              lambda row: "its bound d sqrt(S T), and Theorem 6" if row["policy"] == C2UCB
              else "Theorems 5 and 6, sqrt(d S T)", power(known=lambda row: row["share"] < _GUESSES, why=_guessed),
              ("parameter", "policy"), of(TIGHT, REPAIRED) | (of(C2UCB) & (polars.col("parameter") == "d - 1"))),
        # Theorem 5 compares bounds from above, which says nothing of which policy loses less on an instance.
        Claim("rates-ratios", "elimination, tight, against C2UCB: tasks in blocks that can be learned",
              SOURCE, ratios(None, _NO_ORDER), where=of(TIGHT)),
        # At the gap of the proof the means are the same for all, so that a difference would be chance.
        Claim("worlds-ratios", "elimination, tight, against C2UCB: {environment}", SOURCE, ratios(None, _NO_ORDER),
              "environment", of(TIGHT) & (_PLACE != PROOF)),
        Claim("proof", "at the gap of the proof no policy can be better than guessing", "Theorem 6, proof", guessing),
        Claim("wider", "some instance costs every policy order sqrt(d S T)", "Theorem 6", above_bound),
    )  # fmt: skip

    def instances(self) -> Instances:
        """Return the tasks along each line."""
        least, longer = self.scale.shortest, self.scale.longer
        return {
            "T": dict(_tasks(one * least, 1, 2, one, least) for one in longer),
            "d - 1": dict(_tasks(4 * one, one, 2, longer[-1], least) for one in (1, 4)),
            "S": dict(_tasks(one, 4 // one, one, 4, least) for one in (1, 4)),
        }

    def plans(self) -> dict[str, dict[str, Any]]:
        scale, rest = self.scale, {"redraw": True, "block": 2}
        tasks = {"instance": "linear_blocks", "dimension": 31, "budget": 5}
        worlds: dict[str, Any] = {
            SPHERE: {"instance": "linear", "n_arms": 100, "dimension": 10, "budget": 5},
            PROOF: tasks,
            WIDER: {**tasks, "gap": math.sqrt(6.0 / scale.horizon)},
        }
        if scale.whole:
            worlds["orthogonal contexts"] = {"instance": orthogonal, "budget": _SLOTS}
        learning = {name: one for name, one in _CONTEXTUAL.items() if scale.whole or name != REPAIRED}
        all_forms = {PAPER: {"policy": "hierarchical", "variant": "paper"}, **_CONTEXTUAL}
        return {
            "rates": plan(_places(self.instances()), learning, scale.shortest, scale.runs, **rest),
            "worlds": plan(worlds, all_forms, scale.horizon, scale.runs, **rest),
        }

    def tables(self, results: Played) -> Tables:
        rates, worlds = with_each(_regrets(results["rates"]), _linear_bounds), _regrets(results["worlds"])
        predicted, share = dict.fromkeys(("T", "d - 1", "S"), 0.5), polars.col("share").max()
        powers = along(results["rates"], rates, _lines(self.instances()), predicted, share)
        steeper = polars.when(of(C2UCB) & (polars.col("parameter") == "d - 1")).then(1.0)
        guessed = polars.col("mean", "low", "high") / polars.col("guessing")
        return {
            "rates": rates,
            "worlds": worlds,
            "powers": powers.with_columns(whole=steeper.otherwise("whole")),
            "rates-ratios": against(results["rates"], C2UCB),
            "worlds-ratios": against(results["worlds"], C2UCB),
            "proof": worlds.filter(_PLACE == PROOF).select("policy", "runs", guessed),
            "wider": with_each(worlds.filter(_PLACE == WIDER), _linear_bounds),
        }

    def charts(self, results: Played, tables: Tables) -> list[Chart]:
        bounds = {"guessing": (TIGHT, "guessing"), "Theorem 6": (TIGHT, "lower"), "Theorem 5": (TIGHT, "upper")}
        at, names = _lines(self.instances()), {"T": "linear-T", "d - 1": "linear-d"}
        return drawn_along(names, "Tasks in blocks", tables["rates"], at, tables["powers"], bounds)


def _regrets(results: Results) -> polars.DataFrame:
    """Return mean regrets; on tasks in blocks also what guessing loses, S T gap / 2, and the share of it."""
    table = results.summary(level=LEVEL).rename(lambda name: name.removeprefix("environment."))
    column, rounds, size = polars.col, polars.col("horizon"), polars.col("budget")
    proof = (2.0 / (rounds // ((column("dimension") - 1) // (2 * size)))).sqrt() / 64.0
    gap = polars.when(column("instance") == "linear_blocks").then(column("gap").fill_null(proof))
    table = table.with_columns(gap=gap).with_columns(guessing=size * rounds * column("gap") / 2.0)
    table = table.with_columns(share=column("mean") / column("guessing"))
    about = ("environment", "policy", "dimension", "budget", "horizon", "gap")
    return table.select(*about, "runs", "mean", "low", "high", "guessing", "share")


def _linear_bounds(row: Row) -> dict[str, float | None]:
    size = {"dimension": row["dimension"], "budget": row["budget"], "horizon": row["horizon"]}
    upper, lower = (bound(n_arms=2 * size["budget"], **size).value for bound in (linear_upper, linear_lower))
    return {"upper": float(upper), "lower": lower, "most": 2.0 * row["budget"] * row["horizon"]}


_HORIZON = 100_000  # that widths are made for, whatever is played: they are then the same on all of a line
_ELIMINATION: dict[str, Any] = {
    ORACLE: {"policy": "constrained", "horizon": _HORIZON},
    REPAIRED: {"policy": "constrained", "variant": "repaired", "horizon": _HORIZON},
}
_PRINTED = {PAPER: {"policy": "constrained", "variant": "paper", "horizon": _HORIZON}}
_LATE = 0.02  # of the regret since the last checkpoint but one: up to here elimination counts as over
_GAP = 0.8  # where it is not the parameter; below S / 2, where the other arms would never pay
_FILES = {"S": "constrained-slots", "1 / gap": "constrained-gap", "kappa - 1": "constrained-decisions"}


def _partition(at: float, budget: int, blocks: int, gap: float) -> tuple[str, tuple[float, dict[str, Any]]]:
    """Return blocks of S arms, of which one is chosen, and one is better by the gap.

    It has half as many rounds again as elimination with the printed width takes on average.
    """
    looks = 4.0 * budget**2 * math.log(200 * blocks * budget * _HORIZON) / gap**2
    about = {"instance": "partition", "n_arms": blocks * budget, "budget": budget, "gap": gap}
    return f"S={budget}, kappa={blocks}, gap={gap:g}", (at, {**about, "horizon": math.ceil(1.5 * looks) * blocks})


def _why_less(row: Row) -> str:
    if row["late"] >= _LATE:
        return "Elimination is not over everywhere when the runs end"
    narrower = "Its interval is narrower where means are far apart, and widens with the logarithm of the count"
    return narrower if row["policy"] == ORACLE else ""


class Constrained(Study):
    """Theorem 7: disjoint decisions whose arms share their noise.

    A partition has kappa disjoint decisions of S arms, of which one is better by the gap. Arms of a decision share
    their noise, which makes S^2 necessary. By Theorem 7 elimination loses order S^2 kappa ln(T) / gap, and no policy
    less. The best decision costs nothing, so regret is drawn against kappa - 1. Widths are made for {_HORIZON:,}
    rounds, and a run ends soon after elimination does.

    On a partition the covers of the printed algorithm are the active decisions. Where they are not, it fails: see the
    counterexamples.
    """

    name, title = "constrained", "Constrained decisions: S^2 kappa / gap"
    sizes: ClassVar = {
        "tiny": Scale(slots=(2, 3), gaps=(0.8, 1.25), blocks=(2, 4), contest=500, runs=1),
        "quick": Scale(slots=(2, 3, 5), gaps=(0.625, 0.8, 1.25), blocks=(2, 4, 6), contest=2500, runs=4),
        "full": Scale(slots=(2, 4, 8), gaps=(0.4, 0.8, 1.6), blocks=(2, 4, 8, 16), contest=10_000, runs=8),
    }
    claims = (
        Claim("powers", "{policy}: growth with {parameter}",
              lambda row: "its bound, S^2 B / gap" if row["policy"] == ORACLE else "Theorem 7, S^2 kappa / gap",
              power(known=lambda row: row["late"] < _LATE, why=_why_less), ("parameter", "policy")),
        Claim("rates", "{policy}: regret is below its bound",
              lambda row: "its derivation" if row["policy"] == ORACLE else "Theorem 7, repaired",
              below_bound, "policy"),
        Claim("rates", "no policy loses less than order K S ln(T) / gap", "Theorem 7, lower bound", above_bound),
        Claim("ratios", f"{ORACLE} loses less than {{policy}}",
              "widths of the arms that differ, in place of S times the largest",
              ratios(True, "more than once its regret"), "policy", of(REPAIRED, PAPER)),
        Claim("ratios", f"{ORACLE} against {{policy}}", SOURCE, ratios(), "policy", ~of(ORACLE, REPAIRED, PAPER)),
    )  # fmt: skip

    def instances(self) -> Instances:
        """Return the instances along each line."""
        scale = self.scale
        return {
            "S": dict(_partition(one, one, 2, _GAP) for one in scale.slots),
            "1 / gap": dict(_partition(1.0 / one, scale.slots[1], 2, one) for one in scale.gaps),
            "kappa - 1": dict(_partition(one - 1, 2, one, _GAP) for one in scale.blocks),
        }

    def plans(self) -> dict[str, dict[str, Any]]:
        scale, rest = self.scale, {"checkpoints": 50, "block": 2}
        label, (_, options) = _partition(3, 2, 4, _GAP)
        one = {label: {**options, "horizon": scale.contest}}
        players = _ELIMINATION | _PRINTED | chosen("CombUCB1", THOMPSON)
        return {
            "rates": plan(_places(self.instances()), _ELIMINATION, _HORIZON, scale.runs, **rest),
            "contest": plan(one, players, scale.contest, scale.runs, **rest),
        }

    def tables(self, results: Played) -> Tables:
        rates, contest, regrets = results["rates"], results["contest"], _rates(results["rates"])
        predicted, late = {"S": 2.0, "1 / gap": 1.0, "kappa - 1": 1.0}, polars.col("late").max()
        return {
            "rates": regrets,
            "powers": along(rates, regrets, _lines(self.instances()), predicted, late),
            "contest": contest.summary(level=LEVEL).select("policy", "horizon", "runs", "mean", "low", "high"),
            "ratios": against(contest, ORACLE),
        }

    def charts(self, results: Played, tables: Tables) -> list[Chart]:
        bounds = {"Theorem 7, above": (REPAIRED, "upper"), "below": (REPAIRED, "lower")}
        regrets = tables["rates"].with_columns(most=polars.col("budget") * float(_HORIZON))
        return drawn_along(_FILES, "Partition", regrets, _lines(self.instances()), tables["powers"], bounds)


def _rates(results: Results) -> polars.DataFrame:
    """Return mean regrets with their bounds, and the share of them that came between the last two checkpoints."""
    runs = results.regret.sort("round").group_by("environment", "policy", "replication")
    last, before = polars.col("regret").get(-1), polars.col("regret").get(-2)
    ends = runs.agg(last.alias("last"), (last - before).alias("lost")).group_by("environment", "policy")
    late = ends.agg(late=polars.col("lost").sum() / polars.col("last").sum())
    table = results.summary(level=LEVEL).rename(lambda name: name.removeprefix("environment."))
    table = table.join(late, on=["environment", "policy"], maintain_order="left")
    about = ("environment", "policy", "n_arms", "budget", "gap", "horizon", "runs", "mean", "low", "high", "late")
    return with_each(table.select(about), _constrained_bounds)


def _constrained_bounds(row: Row) -> dict[str, float | None]:
    """Return the bounds of Theorem 7 for an instance; each decision reveals itself, so kappa is their number."""
    size = {"n_arms": row["n_arms"], "budget": row["budget"], "gap": row["gap"]}
    if row["policy"] == ORACLE:
        upper = oracle_upper(**size, alpha=row["n_arms"], horizon=_HORIZON, undirected=True)
    else:
        upper = constrained_upper(**size, cover=row["n_arms"] // row["budget"], horizon=_HORIZON)
    return {"upper": upper.value, "lower": constrained_lower(**size, horizon=row["horizon"]).value}


COUNTS, KEPT = "confirmed arms have N observations", "(A) best arms stay in question"
"""Two claims of the paper, by their names in an audit."""
_POLICIES: dict[str, Any] = {
    PAPER: {"policy": "constrained", "variant": "paper"},
    REPAIRED: {"policy": "constrained", "variant": "repaired"},
    ORACLE: {"policy": "constrained"},
}
_LINEAR = 0.45  # of all regret in the second half of the rounds: from here on it grows like the rounds


def _forever(rows: Rows) -> Verdict:
    (row,) = rows
    half = row["horizon"] // 2
    agrees, because = None, "they have not ended yet at this size"
    if row["mean"] == 0.0:
        agrees, because = True, "nothing is lost any more"
    elif row["mean"] >= _LINEAR * row["regret"]:
        agrees, because = False, f"{row['mean'] / half:.2g} is lost in every round, for ever"
    return Verdict("0 in the end", f"{measured(row)} in the last {half:,} rounds", agrees, because)


def _three_arms(rows: Rows) -> Verdict:
    """Return whether one of the best arms leaves though all intervals hold."""
    lost = [row["arm"] for row in rows if row["best"] and row["leaves"]]
    said = "none leaves", f"arm {lost[0]} leaves" if lost else "none leaves"
    if not all(row["holds"] for row in rows):
        return Verdict(*said, None, "an interval fails")
    return Verdict(*said, not lost, "(A) is false" if lost else "")


def _audited(rows: Rows) -> Verdict:
    (row,) = rows
    if row["status"] == "not applicable" or row["failures"]:
        return Verdict("never violated", "nothing to check", None, "it did not come up while intervals held")
    seen = f"violated {row['violations']:,} times in {row['checked']:,}"
    detail = f", {row['detail']}" if row["detail"] else ""
    because = f"first in round {row['round']:,}{detail}" if row["violations"] else ""
    return Verdict("never violated", seen, not row["violations"], because)


def _lemma(rows: Rows) -> Verdict:
    row = rows[-1]
    seen = f"{row['picks']:,} picks for {row['arms']:,} arms, of which {row['enough']} would be enough"
    because = f"{row['picks'] / row['lemma']:.1f} times as many"
    if row["picks"] <= row["independent"]:
        because += f". The repair, at most alpha = {row['independent']:,}, holds"
    return Verdict(f"at most {row['lemma']:.1f} picks", seen, row["picks"] <= row["lemma"], because)


def _tied(rows: Rows) -> Verdict:
    row, because = rows[-1], ""
    seen = f"equal in {row['tied']} of {row['horizon']:,} rounds, with {row['cliques']} cliques"
    if row["tied"]:
        kept = "it matters:" if row["mixed"] else "harmless, since with ties to the smallest arm"
        because = f"{kept} {row['mixed']} decisions mix cliques"
    return Verdict("never equal", seen, not row["tied"], because)


class Counterexamples(Study):
    """What is false as printed.

    Algorithm 5 as printed takes its covers from all decisions, also from those that it has eliminated. In the hub
    family a bad decision reveals everything, on the star the centre does. Both are the smallest cover of all that is
    left, and are played for ever. With covers from the active decisions losses end.

    The other counterexamples are against lemmas. They change proofs and, but for the benchmark of Algorithm 3, no
    algorithm.
    """

    name, title = "counterexamples", "Counterexamples: printed against repaired"
    sizes: ClassVar = {
        "tiny": Scale(horizon=1500, runs=1, arms=(23, 53), audited=False),
        "quick": Scale(horizon=3000, runs=3, arms=(23, 53, 103, 203), audited=True),
        "full": Scale(horizon=10_000, runs=4, arms=(23, 53, 103, 203, 403, 803), audited=True),
    }
    claims = (
        Claim("forever", "{policy}: losses end, on the {environment}", "Theorem 7",
              _forever, ("environment", "policy")),
        Claim("forever", "{policy}: regret is below the printed bound, kappa = 1, on the {environment}", "Theorem 7",
              partial(below_bound, column="regret"), "environment", of(PAPER)),
        Claim("three arms", "{policy}: no arm among the best leaves while intervals hold, three arms in a stage",
              "lemma of Algorithm 3, (A)", _three_arms, "policy"),
        Claim("audits", "{policy}: {claim}, in a run",
              lambda row: {COUNTS: "Lemma 2, proof", KEPT: "lemma of Algorithm 3, (A)"}[row["claim"]],
              _audited, ("policy", "claim")),
        Claim("greedy", "the greedy of Algorithm 1 covers all arms with few picks, two hubs", "greedy lemma", _lemma),
        Claim("ties", "cliques of different means never have the same index under UCB", "Theorem 4, proof", _tied,
              order="tied"),
    )  # fmt: skip

    def plans(self) -> dict[str, dict[str, Any]]:
        horizon = self.scale.horizon
        points = sorted({max(1, horizon * share // 40) for share in (1, 2, 4, 8, 14, 20, 28, 40)})
        worlds = {"hub family": {"instance": "hub_family"}, "star": {"instance": "star", "n_leaves": 5, "gap": 0.5}}
        return {"forever": plan(worlds, _POLICIES, horizon, self.scale.runs, checkpoints=points, block=1)}

    def tables(self, results: Played) -> Tables:
        return {
            "forever": _halves(results["forever"]),
            "greedy": polars.DataFrame([_greedy_picks(n) for n in self.scale.arms]),
            "three arms": _three_arms_of_a_stage(),
            "ties": polars.DataFrame([_index_ties(9, 3600), _index_ties(9, 3601)]),
            "audits": polars.DataFrame(_audits(self.scale.audited)),
        }

    def charts(self, results: Played, tables: Tables) -> list[Chart]:
        caption = "Regret over the rounds, {}: as printed, losses never end."
        return [
            curves(f"forever-{place.split()[0]}", caption.format(place), results["forever"].traces(place))
            for place in ("hub family", "star")
        ]


def _halves(results: Results) -> polars.DataFrame:
    """Return what is lost in the second half of the rounds, and the printed bound on all of it."""
    worlds = {"hub family": hub_family(seed=SEED), "star": star(5, gap=0.5, seed=SEED)}
    rows = []
    for (place, policy), part in results.regret.group_by("environment", "policy", maintain_order=True):
        env, horizon = worlds[str(place)], part["horizon"][0]
        half, whole = (
            part.filter(part["round"] == end).sort("replication")["regret"] for end in (horizon // 2, horizon)
        )
        low, high = (end if math.isfinite(end) else None for end in mean_interval(whole - half, LEVEL))
        assert env.decisions is not None
        bound = constrained_upper(
            n_arms=env.n_arms,
            budget=env.decisions.size,
            cover=cover_number(env.decisions, env.graph),
            horizon=horizon,
            gap=gap(env),
            constants="printed",
        )
        about = {"environment": place, "policy": policy, "horizon": horizon, "runs": whole.len()}
        lost = {"mean": (whole - half).mean(), "low": low, "high": high}
        rows.append({**about, "regret": whole.mean(), **lost, "upper": float(bound.value)})
    return polars.DataFrame(rows, schema_overrides={"low": polars.Float64, "high": polars.Float64})


def _greedy_picks(n: int) -> dict[str, Any]:
    """Return how many arms the greedy of Algorithm 1 picks to see all of two hubs, and what the lemma allows."""
    graph = two_hubs(n)
    enough, alpha = domination_number(graph).upper, independence_number(graph).upper
    about = {"arms": n, "picks": greedy_dominating_set(graph).size, "enough": enough}
    return {**about, "lemma": (1.0 + math.log(n)) * enough, "independent": alpha}


def _three_arms_of_a_stage() -> polars.DataFrame:
    """Return three arms in a stage, all intervals of which hold, and which of them leave by which rule."""
    state, made = three_arms(), []
    best = np.argsort(np.argsort(-state.means)) < state.budget
    holds = np.abs(state.estimates - state.means) <= state.widths
    about = {"arm": np.arange(3), "mean": state.means, "estimate": state.estimates, "width": state.widths}
    # As printed, the benchmark is the estimate of the arm whose upper end is the S-th largest.
    for name, order in ((PAPER, state.estimates + state.widths), (REPAIRED, state.estimates)):
        benchmark = state.estimates[np.argsort(-order)[state.budget - 1]]
        leaves = state.estimates < benchmark - 2.0 * 0.5**state.stage
        made.append(polars.DataFrame({"policy": [name] * 3, **about, "holds": holds, "best": best, "leaves": leaves}))
    return polars.concat(made)


def _index_ties(cliques: int, horizon: int, budget: int = 4, width: float = 3.0) -> dict[str, Any]:
    """Return in how many rounds two cliques of UCB's failure have the same largest index, and are played together."""
    env = ucb_failure(budget, cliques, horizon=horizon, width=width, seed=SEED)
    policy = CombinatorialUCB(env.graph, budget, width=width, seed=SEED)
    decisions = simulate(policy, env, horizon=horizon, record_decisions=True, checkpoints=1).decisions
    assert decisions is not None
    played = decisions[0] // budget
    counts = np.zeros(cliques)
    tied = 0
    for row in played:
        if counts.all():
            index = np.sort(env.means[::budget] + width / np.sqrt(counts))
            tied += bool(index[-1] - index[-2] < 1e-12)
        counts[np.unique(row)] += 1
    mixed = int((played != played[:, :1]).any(axis=1).sum())
    return {"cliques": cliques, "horizon": horizon, "tied": tied, "mixed": mixed}


class _Forced(LinearEnvironment):
    """Rewards that are possible, though unlikely: nearly a width too little for arm 1, too much for arm 2."""

    def rewards(self, round: int, arms: Any, replication: int = 0) -> Floats:
        pay: Floats = np.array([0.97, -0.2375, 0.2375])
        return pay[np.asarray(arms, np.int64)]


def _audits(longer: bool) -> list[dict[str, Any]]:
    """Return what audits say of two claims that are known to fail; the longer one, of three arms, only if `longer`."""
    # Arms 1 and 2 are seen in every round; when the others leave, N jumps over the count of the confirmed arm 0.
    graph = FeedbackGraph.from_edges(6, [(one, other) for one in range(6) for other in (1, 2)])
    env = StochasticEnvironment([1, 1 / 3, 1 / 3, 0, 0, 0], graph, "deterministic", seed=SEED)
    counting = CombinatorialElimination(graph, 2, variant="paper", horizon=800, delta=0.9, seed=SEED)
    found = {(PAPER, COUNTS): audit(counting, env, horizon=800)}
    rounds = 2157
    contexts = np.tile(np.eye(3), (rounds, 1, 1))
    # In the last round the first context is short: small width, and an estimate below the third arm's upper end.
    contexts[-1] = np.diag([0.35 / 0.97, 0.97, 0.97])
    forced = _Forced([0.97, 0.001, -0.001], contexts, seed=SEED)
    for label, variant in ((PAPER, "paper"), (REPAIRED, "repaired")) if longer else ():
        policy = HierarchicalElimination(3, 3, 2, horizon=6000, variant=variant, seed=SEED)
        found[label, KEPT] = audit(policy, forced, horizon=rounds)
    rows = []
    for (label, name), one in found.items():
        claim = one[name]
        about = {key: getattr(claim, key) for key in ("status", "checked", "violations", "round", "detail")}
        rows.append({"policy": label, "claim": name, **about, "failures": one.failures})
    return rows
