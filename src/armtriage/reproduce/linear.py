"""Linear contexts: sqrt(d S T) by hierarchical elimination, against C2UCB, where the theorems say so and elsewhere."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
import polars

from armtriage.environments import LinearEnvironment
from armtriage.experiments import Results
from armtriage.reproduce.figures import lines
from armtriage.reproduce.judges import measured, power, times, told
from armtriage.reproduce.lines import Instance, against, fitted, line, with_each
from armtriage.reproduce.policies import PAPER, REPAIRED, THOMPSON, TIGHT
from armtriage.reproduce.study import LEVEL, Chart, Claim, Played, Row, Rows, Scale, Study, Tables, Verdict, of, plan
from armtriage.simulation.comparison import short
from armtriage.theory import linear_lower, linear_upper

UCB = "C2UCB"
_POLICIES: dict[str, Any] = {
    TIGHT: {"policy": "hierarchical"},
    REPAIRED: {"policy": "hierarchical", "variant": "repaired"},
    UCB: {"policy": "c2ucb"},
    THOMPSON: {"policy": "linear_thompson"},
}
SPHERE, PROOF, WIDER = "contexts on a sphere", "blocks, gap of the proof", "blocks, 64 times that gap"
_SLOTS, _DIRECTIONS = 20, 100
_GAP = 0.33  # of one task in the shortest horizon: between 1/4 and 1/2, and close to neither
_GUESSES = 0.9  # of what guessing loses: from here on a policy has learned next to nothing
_HAIR = 0.01  # that a share may be below 1 and still count as 1
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


def _tasks(number: int, budget: int, longer: int, shortest: int) -> Instance:
    """Return tasks one after the other, with a gap that is a fixed multiple of 1 / sqrt(rounds of a task)."""
    dimension, horizon = 2 * budget * number + 1, longer * shortest
    about = {"instance": "linear_blocks", "dimension": dimension, "budget": budget, "horizon": horizon}
    return f"d={dimension}, S={budget}, T={horizon:,}", {**about, "gap": _GAP * math.sqrt(number / longer)}


def _contest(rows: Rows) -> Verdict:
    """Return whether elimination is ahead of C2UCB in all places, as sqrt(d S T) is of d sqrt(S T)."""
    ends = {"ratio_low": rows[0]["ratio_low"], "ratio_high": rows[-1]["ratio_high"]}
    seen = f"{times(rows[0])} its regret"
    if len(rows) > 1:
        seen = f"{rows[0]['ratio']:.3g} to {rows[-1]['ratio']:.3g} times its regret, on {len(rows)} instances"
    because = {
        None: "no difference can be told",
        True: "at this size elimination loses at least {ratio_low:.2f} times as much",
        False: "elimination loses at most {ratio_high:.2f} times as much",
    }
    more = told(ends)
    agrees = None if more is None else not more
    return Verdict("less than once its regret", seen, agrees, because[more].format(**ends))


def _proof(rows: Rows) -> Verdict:
    """Return whether any policy is better than guessing at the gap that the proof takes."""
    best = rows[0]
    shares = {end: best[end] and best[end] / best["guessing"] for end in ("mean", "low", "high")}
    agrees = None if shares["high"] is None else shares["high"] >= 1.0 - _HAIR
    because = {None: "no interval", True: "no policy is told from guessing", False: f"{best['policy']} does better"}
    seen = f"least share of what guessing loses: {measured(shares)}, {best['policy']}"
    return Verdict("a share of 1", seen, agrees, because[agrees])


def _lower(rows: Rows) -> Verdict:
    """Return whether even the best policy loses what the lower bound says."""
    best, bound = rows[0], _bound(linear_lower, rows[0])
    seen = f"least: {measured(best)}, {best['policy']}"
    if bound.value is None:
        return Verdict("no bound", seen, None, bound.reason)
    holds = best["high"] is None or best["high"] >= bound.value
    because = f"the best of them loses {best['mean'] / bound.value:.1f} times the bound"
    because = because if holds else f"{best['policy']} loses less"
    return Verdict(f"at least {short(bound.value)}", seen, holds, because)


def _guessed(row: Row) -> str:
    guessed = row["share"] >= _GUESSES
    return "It loses what guessing loses somewhere, so the power is the instance's own" if guessed else ""


class Linear(Study):
    """Theorems 5 and 6."""

    name, title = "linear", "Linear contexts: sqrt(d S T), and C2UCB"
    # With the printed width nothing is learned in the shorter horizons, so only the full size has it along the lines.
    sizes: ClassVar = {
        "tiny": Scale(shortest=100, longer=(1, 4, 16), horizon=1000, runs=2, whole=False),
        "quick": Scale(shortest=16_000, longer=(1, 4, 16), horizon=8000, runs=4, whole=False),
        "full": Scale(shortest=25_000, longer=(1, 4, 16, 64), horizon=20_000, runs=8, whole=True),
    }
    claims = (
        Claim("powers", "{policy}: growth with {parameter}, on tasks in blocks",
              lambda row: "its bound d sqrt(S T), and Theorem 6" if row["policy"] == UCB
              else "Theorems 5 and 6, sqrt(d S T)", power(known=lambda row: row["share"] < _GUESSES, why=_guessed),
              ("parameter", "policy"), of(TIGHT, REPAIRED) | (of(UCB) & (polars.col("parameter") == "d - 1"))),
        Claim("rates-ratios", "elimination, tight, loses less than C2UCB: tasks in blocks that can be learned",
              "Theorem 5, against d sqrt(S T)", _contest, where=of(TIGHT), order="ratio"),
        # At the gap of the proof the means are the same for all, so that a difference would be chance.
        Claim("worlds-ratios", "elimination, tight, loses less than C2UCB: {environment}",
              "Theorem 5, against d sqrt(S T)", _contest, "environment", of(TIGHT) & (_PLACE != PROOF)),
        Claim("worlds", "at the gap of the proof no policy can be better than guessing", "Theorem 6, proof", _proof,
              where=_PLACE == PROOF, order="share"),
        Claim("worlds", "some instance costs every policy order sqrt(d S T)", "Theorem 6", _lower,
              where=_PLACE == WIDER, order="mean"),
    )  # fmt: skip

    def instances(self) -> dict[str, list[tuple[float, Instance]]]:
        """Return for each parameter the tasks along which it alone changes, and its values."""
        least, longer = self.scale.shortest, self.scale.longer
        return {
            "T": [(one * least, _tasks(1, 2, one, least)) for one in longer],
            "d - 1": [(4 * one, _tasks(one, 2, longer[-1], least)) for one in (1, 4)],
            "S": [(one, _tasks(4 // one, one, 4, least)) for one in (1, 4)],
        }

    def plans(self) -> dict[str, dict[str, Any]]:
        scale, rest = self.scale, {"redraw": True, "block": 2}
        places = dict(instance for points in self.instances().values() for _, instance in points)
        tasks = {"instance": "linear_blocks", "dimension": 31, "budget": 5}
        worlds: dict[str, Any] = {
            SPHERE: {"instance": "linear", "n_arms": 100, "dimension": 10, "budget": 5},
            PROOF: tasks,
            WIDER: {**tasks, "gap": math.sqrt(6.0 / scale.horizon)},
        }
        if scale.whole:
            worlds["orthogonal contexts"] = {"instance": orthogonal, "budget": _SLOTS}
        learning = {name: one for name, one in _POLICIES.items() if scale.whole or name != REPAIRED}
        all_forms = {PAPER: {"policy": "hierarchical", "variant": "paper"}, **_POLICIES}
        return {
            "rates": plan(places, learning, scale.shortest, scale.runs, **rest),
            "worlds": plan(worlds, all_forms, scale.horizon, scale.runs, **rest),
        }

    def tables(self, results: Played) -> Tables:
        rates, worlds = results["rates"], results["worlds"]
        regrets = with_each(_regrets(rates), _bounds)
        share, powers = polars.col("share").max(), []
        for name, points in self.instances().items():
            own = line(regrets, name, {label: at for at, (label, _) in points})
            powers.append(fitted(rates, own, name, 0.5, share))
        steeper = polars.when(of(UCB) & (polars.col("parameter") == "d - 1")).then(1.0)
        whole = steeper.otherwise(polars.max_horizontal("whole", "predicted"))
        return {
            "rates": regrets,
            "worlds": _regrets(worlds),
            "powers": polars.concat(powers).with_columns(whole=whole),
            "rates-ratios": against(rates, UCB),
            "worlds-ratios": against(worlds, UCB),
        }

    def charts(self, results: Played, tables: Tables) -> list[Chart]:
        made, instances = [], self.instances()
        bounds = {"guessing": (TIGHT, "guessing"), "Theorem 6": (TIGHT, "lower"), "Theorem 5": (TIGHT, "upper")}
        for name in ("T", "d - 1"):
            at = {label: value for value, (label, _) in instances[name]}
            first, *_, last = at
            caption = f"Tasks in blocks: regret against {name}, from {first} to {last}."
            own = line(tables["rates"], name, at)
            made.append(lines(f"linear-{name[0]}", caption, own, name, tables["powers"], bounds=bounds, order=None))
        return made

    def paragraphs(self, tables: Tables) -> list[str]:
        rates, ratios = tables["rates"], tables["worlds-ratios"]
        sphere = ratios.filter(of(TIGHT) & (_PLACE == SPHERE)).row(0, named=True)
        gaps = rates["gap"].to_numpy()
        vacuous = rates.filter(rates["upper"] >= rates["most"]).height
        return [
            "Theorem 5 promises hierarchical elimination a regret of order sqrt(d S T), where C2UCB has d sqrt(S T). "
            "By Theorem 6 no policy can have less, because of tasks one after the other that share nothing. With the "
            f"gap of its proof nothing can be learned; on the lines below gaps are {gaps.min():.2g} to "
            f"{gaps.max():.2g}, always the same multiple of 1 / sqrt(rounds of a task).",
            "Widths halve from stage to stage, so regret is a staircase in the gap. On these lines the gap is halved "
            "from point to point, which keeps all points on the same place of a stair. A policy that loses what "
            "guessing loses shows the instance's own power; of such lines nothing is said.",
            f"On contexts from a sphere, of which no theorem speaks, tight elimination has {times(sphere)} the regret "
            f"of C2UCB. The bound of Theorem 5 is vacuous in {vacuous} of {rates.height} rows of the table of rates.",
        ]


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


def _bound(bound: Any, row: Row) -> Any:
    size = {"dimension": row["dimension"], "budget": row["budget"], "horizon": row["horizon"]}
    return bound(n_arms=2 * size["budget"], **size)


def _bounds(row: Row) -> dict[str, float | None]:
    upper, lower = (_bound(one, row).value for one in (linear_upper, linear_lower))
    return {"upper": float(upper), "lower": lower, "most": 2.0 * row["budget"] * row["horizon"]}
