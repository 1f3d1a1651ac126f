"""Linear contexts: sqrt(d S T) by hierarchical elimination, against C2UCB, where the theorems say so and elsewhere."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import polars

from armtriage.environments import LinearEnvironment
from armtriage.experiments import Results
from armtriage.reproduce.lines import line, line_chart, power_finding, powers, steepness
from armtriage.reproduce.policies import PAPER, REPAIRED, THOMPSON, TIGHT
from armtriage.reproduce.study import LEVEL, Chart, Finding, Scale, Study, Tables, finding, measured, times, told
from armtriage.simulation.comparison import short
from armtriage.theory import linear_lower, linear_upper

__all__ = ["STUDY", "findings", "orthogonal"]

UCB = "C2UCB"
_POLICIES: dict[str, Any] = {
    TIGHT: {"policy": "hierarchical"},
    REPAIRED: {"policy": "hierarchical", "variant": "repaired"},
    UCB: {"policy": "c2ucb"},
    THOMPSON: {"policy": "linear_thompson"},
}
# With the printed width nothing is learned in the shorter horizons, so only the full size has it along the lines.
_SIZES = {
    "tiny": Scale(shortest=100, longer=(1, 4, 16), horizon=1000, runs=2, whole=False),
    "quick": Scale(shortest=16_000, longer=(1, 4, 16), horizon=8000, runs=4, whole=False),
    "full": Scale(shortest=25_000, longer=(1, 4, 16, 64), horizon=20_000, runs=8, whole=True),
}
SPHERE, PROOF, WIDER = "contexts on a sphere", "blocks, gap of the proof", "blocks, 64 times that gap"
_SLOTS, _DIRECTIONS = 20, 100
_GAP = 0.33  # of one task in the shortest horizon: between 1/4 and 1/2, and close to neither
_GUESSES = 0.9  # of what guessing loses: from here on a policy has learned next to nothing
_HAIR = 0.01  # that a share may be below 1 and still count as 1


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


class _Tasks(NamedTuple):
    """Tasks one after the other, with a gap that is a fixed multiple of 1 / sqrt(rounds of a task)."""

    number: int
    budget: int
    longer: int
    shortest: int

    @property
    def options(self) -> dict[str, Any]:
        """The instance, for an experiment."""
        about = {"dimension": 2 * self.budget * self.number + 1, "budget": self.budget}
        gap = _GAP * math.sqrt(self.number / self.longer)
        return {"instance": "linear_blocks", **about, "horizon": self.longer * self.shortest, "gap": gap}

    @property
    def label(self) -> str:
        """The sizes, in the letters of the paper."""
        about = self.options
        return f"d={about['dimension']}, S={self.budget}, T={about['horizon']:,}"


def _lines(scale: Scale) -> dict[str, dict[_Tasks, float]]:
    """Return for each parameter the tasks along which it alone changes, and its values."""
    least, longer = scale.shortest, scale.longer
    return {
        "T": {_Tasks(1, 2, one, least): one * least for one in longer},
        "d - 1": {_Tasks(one, 2, longer[-1], least): 4 * one for one in (1, 4)},
        "S": {_Tasks(4 // one, one, 4, least): one for one in (1, 4)},
    }


def _labels(scale: Scale) -> dict[str, dict[str, float]]:
    return {name: {point.label: at for point, at in points.items()} for name, points in _lines(scale).items()}


def _plans(scale: Scale) -> dict[str, dict[str, Any]]:
    places = {point.label: point.options for points in _lines(scale).values() for point in points}
    tasks = {"instance": "linear_blocks", "dimension": 31, "budget": 5}
    worlds: dict[str, Any] = {
        SPHERE: {"instance": "linear", "n_arms": 100, "dimension": 10, "budget": 5},
        PROOF: tasks,
        WIDER: {**tasks, "gap": math.sqrt(6.0 / scale.horizon)},
    }
    if scale.whole:
        worlds["orthogonal contexts"] = {"instance": orthogonal, "budget": _SLOTS}
    learning = {name: one for name, one in _POLICIES.items() if scale.whole or name != REPAIRED}
    everybody = {PAPER: {"policy": "hierarchical", "variant": "paper"}, **_POLICIES}
    shared = {"replications": scale.runs, "checkpoints": 1, "redraw": True, "block": 2}
    return {
        "rates": {"environments": places, "policies": learning, "horizon": scale.shortest, **shared},
        "worlds": {"environments": worlds, "policies": everybody, "horizon": scale.horizon, **shared},
    }


def _tables(results: Mapping[str, Results], scale: Scale) -> Tables:
    rates, worlds = results["rates"], results["worlds"]
    return {
        "rates": _regrets(rates),
        "worlds": _regrets(worlds),
        "powers": _powers(rates, _labels(scale)),
        "rates-ratios": _ratios(rates),
        "worlds-ratios": _ratios(worlds),
    }


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


def _powers(results: Results, lines: Mapping[str, Mapping[str, float]]) -> polars.DataFrame:
    """Return the fitted powers, between which theory has them, and the largest share of guessing on the line."""
    regrets, made = _regrets(results), []
    for name, at in lines.items():
        points = regrets.filter(regrets["environment"].is_in(list(at)))
        bound = {at[row["environment"]]: float(_bound(linear_upper, row).value) for row in points.iter_rows(named=True)}
        share = points.group_by("policy").agg(polars.col("share").max())
        table = powers(results, line(results, name, at), name).join(share, on="policy", maintain_order="left")
        ucb = polars.col("policy") == UCB
        most = polars.when(ucb & polars.lit(name.startswith("d"))).then(1.0).otherwise(max(0.5, steepness(bound)))
        made.append(table.select(polars.lit(name).alias("parameter"), polars.all(), least=0.5, most=most))
    return polars.concat(made)


def _ratios(results: Results) -> polars.DataFrame:
    table = results.differences(UCB, level=LEVEL)
    return table.select("environment", "policy", "horizon", "runs", "ratio", "ratio_low", "ratio_high", "better")


def findings(tables: Tables) -> list[Finding]:
    """Return what the tables say of Theorems 5 and 6."""
    contests = _contests(tables["rates-ratios"], tables["worlds-ratios"])
    return [*_rates(tables["powers"]), *contests, _proof(tables["worlds"]), _lower(tables["worlds"])]


def _rates(table: polars.DataFrame) -> list[Finding]:
    made = []
    for row in table.iter_rows(named=True):
        ucb = row["policy"] == UCB
        if row["policy"] == THOMPSON or (ucb and not row["parameter"].startswith("d")):
            continue
        learned = row["share"] < _GUESSES
        why = "" if learned else "It loses what guessing loses somewhere, so the power is the instance's own."
        claim = f"{row['policy']}: growth with {row['parameter']}, on tasks in blocks"
        source = "its bound d sqrt(S T), and Theorem 6" if ucb else "Theorems 5 and 6, sqrt(d S T)"
        made.append(power_finding(claim, source, row, row["least"], whole=row["most"], known=learned, why=why))
    return made


def _contests(rates: polars.DataFrame, worlds: polars.DataFrame) -> list[Finding]:
    """Return whether elimination is ahead of C2UCB, as sqrt(d S T) is of d sqrt(S T)."""
    rows = rates.filter(rates["policy"] == TIGHT).sort("ratio").to_dicts()
    ends = {"ratio_low": rows[0]["ratio_low"], "ratio_high": rows[-1]["ratio_high"]}
    seen = f"{rows[0]['ratio']:.3g} to {rows[-1]['ratio']:.3g} times its regret, on {len(rows)} instances"
    made = [_contest("tasks in blocks that can be learned", ends, seen)]
    # At the gap of the proof the means are the same for all, so that a difference would be luck.
    for row in worlds.filter((worlds["policy"] == TIGHT) & (worlds["environment"] != PROOF)).iter_rows(named=True):
        made.append(_contest(row["environment"], row, f"{times(row)} its regret"))
    return made


def _contest(place: str, ends: Mapping[str, Any], seen: str) -> Finding:
    because = {
        None: "no difference can be told",
        True: "at this size elimination loses at least {ratio_low:.2f} times as much",
        False: "elimination loses at most {ratio_high:.2f} times as much",
    }
    more = told(ends)
    claim = f"elimination, tight, loses less than C2UCB: {place}"
    said = claim, "Theorem 5, against d sqrt(S T)", "less than once its regret", seen
    return finding(*said, None if more is None else not more, because[more].format(**ends))


def _proof(worlds: polars.DataFrame) -> Finding:
    """Return whether anybody is better than guessing at the gap that the proof takes."""
    best = worlds.filter(worlds["environment"] == PROOF).sort("share").row(0, named=True)
    shares = {end: best[end] and best[end] / best["guessing"] for end in ("mean", "low", "high")}
    agrees = None if shares["high"] is None else shares["high"] >= 1.0 - _HAIR
    because = {None: "no interval", True: "no policy is told from guessing", False: f"{best['policy']} does better"}
    seen = f"least share of what guessing loses: {measured(shares)}, {best['policy']}"
    claim = "at the gap of the proof nobody can be better than guessing"
    return finding(claim, "Theorem 6, proof", "a share of 1", seen, agrees, because[agrees])


def _lower(worlds: polars.DataFrame) -> Finding:
    """Return whether even the best policy loses what the lower bound says."""
    best = worlds.filter(worlds["environment"] == WIDER).sort("mean").row(0, named=True)
    bound = _bound(linear_lower, best)
    said = "some instance costs every policy order sqrt(d S T)", "Theorem 6"
    seen = f"least: {measured(best)}, {best['policy']}"
    if bound.value is None:
        return finding(*said, "no bound", seen, None, bound.reason)
    holds = best["high"] is None or best["high"] >= bound.value
    because = f"the best of them loses {best['mean'] / bound.value:.1f} times the bound"
    because = because if holds else f"{best['policy']} loses less"
    return finding(*said, f"at least {short(bound.value)}", seen, holds, because)


def _bound(bound: Any, row: Mapping[str, Any]) -> Any:
    size = {"dimension": row["dimension"], "budget": row["budget"], "horizon": row["horizon"]}
    return bound(n_arms=2 * size["budget"], **size)


def _paragraphs(tables: Tables, scale: Scale) -> list[str]:
    gaps, ratios = tables["rates"]["gap"].to_list(), tables["worlds-ratios"]
    sphere = ratios.filter((ratios["policy"] == TIGHT) & (ratios["environment"] == SPHERE)).row(0, named=True)
    bounds = [_bound(linear_upper, row) for row in tables["rates"].iter_rows(named=True)]
    vacuous = sum(bound.vacuous for bound in bounds)
    return [
        "Theorem 5 promises hierarchical elimination a regret of order sqrt(d S T), where C2UCB has d sqrt(S T). By "
        "Theorem 6 nobody can have less, because of tasks one after the other that share nothing. With the gap of its "
        f"proof nothing can be learned; on the lines below gaps are {min(gaps):.2g} to {max(gaps):.2g}, always the "
        "same multiple of 1 / sqrt(rounds of a task).",
        "Widths halve from stage to stage, so regret is a staircase in the gap. On these lines the gap is halved from "
        "point to point, which keeps all points on the same place of a stair. A policy that loses what guessing loses "
        "shows the instance's own power; of such lines nothing is said.",
        f"On contexts from a sphere, of which no theorem speaks, tight elimination has {times(sphere)} the regret of "
        f"C2UCB. The bound of Theorem 5 is vacuous in {vacuous} of {len(bounds)} rows of the table of rates.",
    ]


def _charts(results: Mapping[str, Results], tables: Tables, scale: Scale) -> list[Chart]:
    lines = _labels(scale)
    return [_chart(results["rates"], tables["rates"], name, lines[name]) for name in ("T", "d - 1")]


def _chart(results: Results, regrets: polars.DataFrame, name: str, at: Mapping[str, float]) -> Chart:
    """Draw a line with its bounds."""
    rows = {at[row["environment"]]: row for row in regrets.iter_rows(named=True) if row["environment"] in at}
    first, *_, last = at
    points = line(results, name, at)
    return line_chart(
        results,
        f"linear-{name[0]}",
        f"Tasks in blocks: regret against {name}, from {first} to {last}.",
        points,
        name,
        powers(results, points, name),
        bounds={
            "guessing": lambda value: float(rows[value]["guessing"]),
            "Theorem 6": lambda value: _bound(linear_lower, rows[value]).value,
            "Theorem 5": lambda value: float(_bound(linear_upper, rows[value]).value),
        },
        ceiling=lambda value: 2.0 * rows[value]["budget"] * rows[value]["horizon"],
    )


STUDY = Study(
    "linear", "Linear contexts: sqrt(d S T), and C2UCB", _SIZES, _plans, _tables, findings, _paragraphs, _charts
)
