"""Constrained decisions: S^2 kappa / gap on disjoint decisions whose arms share their noise."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import polars

from armtriage.experiments import Results
from armtriage.reproduce.figures import lines
from armtriage.reproduce.judges import above_bound, below_bound, power, times, told
from armtriage.reproduce.lines import Instance, against, fitted, line, with_each
from armtriage.reproduce.policies import ORACLE, PAPER, REPAIRED, THOMPSON, chosen
from armtriage.reproduce.study import LEVEL, Chart, Claim, Played, Row, Rows, Scale, Study, Tables, Verdict, of, plan
from armtriage.theory import constrained_lower, constrained_upper, oracle_upper

_HORIZON = 100_000  # that widths are made for, whatever is played: they are then the same on all of a line
_ELIMINATION: dict[str, Any] = {
    ORACLE: {"policy": "constrained", "horizon": _HORIZON},
    REPAIRED: {"policy": "constrained", "variant": "repaired", "horizon": _HORIZON},
}
_PRINTED = {PAPER: {"policy": "constrained", "variant": "paper", "horizon": _HORIZON}}
_LATE = 0.02  # of the regret since the last checkpoint but one: up to here elimination counts as over
_GAP = 0.8  # where it is not the parameter; below S / 2, where the other arms would never pay
_FILES = {"S": "slots", "1 / gap": "gap", "kappa - 1": "decisions"}


def _partition(budget: int, blocks: int, gap: float) -> Instance:
    """Return blocks of S arms, of which one is chosen, and one is better by the gap.

    It has half as many rounds again as elimination with the printed width takes on average.
    """
    looks = 4.0 * budget**2 * math.log(200 * blocks * budget * _HORIZON) / gap**2
    about = {"instance": "partition", "n_arms": blocks * budget, "budget": budget, "gap": gap}
    return f"S={budget}, kappa={blocks}, gap={gap:g}", {**about, "horizon": math.ceil(1.5 * looks) * blocks}


def _why_less(row: Row) -> str:
    if row["late"] >= _LATE:
        return "Elimination is not over everywhere when the runs end"
    narrower = "Its interval is narrower where means are far apart, and widens with the logarithm of the count"
    return narrower if row["policy"] == ORACLE else ""


def _contest(rows: Rows) -> Verdict:
    """Return how elimination by oracle does against another policy, the first of those given."""
    row = rows[0]
    other, more = row["policy"], told(row)
    because = {
        None: "no difference can be told",
        True: "it loses at least {ratio_low:.2g} times as much",
        False: f"elimination loses {1.0 / row['ratio']:.2g} times what {other} loses",
    }
    return Verdict(f"{other} loses more", f"{other} loses {times(row)} as much", more, because[more].format(**row))


class Constrained(Study):
    """Theorem 7."""

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
        Claim("rates", "{policy}: regret is below its bound", "Theorem 7, repaired", below_bound, where=of(REPAIRED)),
        Claim("rates", "{policy}: regret is below its bound", "its derivation", below_bound, where=of(ORACLE)),
        Claim("rates", "no policy loses less than order K S ln(T) / gap", "Theorem 7, lower bound", above_bound,
              where=polars.col("lower").is_not_null()),
        Claim("ratios", f"{ORACLE} loses less than {{policy}}",
              "widths of the arms that differ, in place of S times the largest",
              _contest, "policy", of(REPAIRED, PAPER), "ratio"),
        Claim("ratios", f"{ORACLE} loses less than {{policy}}",
              "none: the best of the policies without a set of active decisions",
              _contest, where=~of(REPAIRED, PAPER), order="ratio"),
    )  # fmt: skip

    def instances(self) -> dict[str, list[tuple[float, Instance]]]:
        """Return for each parameter the instances along which it alone changes, and its values."""
        scale = self.scale
        return {
            "S": [(one, _partition(one, 2, _GAP)) for one in scale.slots],
            "1 / gap": [(1.0 / one, _partition(scale.slots[1], 2, one)) for one in scale.gaps],
            "kappa - 1": [(one - 1, _partition(2, one, _GAP)) for one in scale.blocks],
        }

    def plans(self) -> dict[str, dict[str, Any]]:
        scale, rest = self.scale, {"checkpoints": 50, "block": 2}
        places = dict(instance for points in self.instances().values() for _, instance in points)
        label, options = _partition(2, 4, _GAP)
        one = {label: {**options, "horizon": scale.contest}}
        players = _ELIMINATION | _PRINTED | chosen("CombUCB1", THOMPSON)
        return {
            "rates": plan(places, _ELIMINATION, _HORIZON, scale.runs, **rest),
            "contest": plan(one, players, scale.contest, scale.runs, **rest),
        }

    def tables(self, results: Played) -> Tables:
        rates, contest, regrets = results["rates"], results["contest"], _regrets(results["rates"])
        late, powers = polars.col("late").max(), []
        for name, points in self.instances().items():
            own = line(regrets, name, {label: at for at, (label, _) in points})
            powers.append(fitted(rates, own, name, 2.0 if name == "S" else 1.0, late))
        return {
            "rates": regrets,
            "powers": polars.concat(powers).with_columns(whole=polars.max_horizontal("whole", "predicted")),
            "contest": contest.summary(level=LEVEL).select("policy", "horizon", "runs", "mean", "low", "high"),
            "ratios": against(contest, ORACLE),
        }

    def charts(self, results: Played, tables: Tables) -> list[Chart]:
        made, bounds = [], {"Theorem 7, above": (REPAIRED, "upper"), "below": (REPAIRED, "lower")}
        regrets = tables["rates"].with_columns(most=polars.col("budget") * float(_HORIZON))
        for name, points in self.instances().items():
            at = {label: value for value, (label, _) in points}
            first, *_, last = at
            caption = f"Partition: regret against {name}, from {first} to {last}."
            own = line(regrets, name, at)
            made.append(
                lines(f"constrained-{_FILES[name]}", caption, own, name, tables["powers"], bounds=bounds, order=None)
            )
        return made

    def paragraphs(self, tables: Tables) -> list[str]:
        regrets, ratios = tables["rates"], dict(tables["ratios"].select("policy", "ratio").iter_rows())
        vacuous = regrets.filter(regrets["upper"] >= regrets["budget"] * _HORIZON).height
        return [
            "A partition has kappa disjoint decisions of S arms, of which one is better by the gap. Arms of a decision "
            "share their noise, which makes S^2 necessary. By Theorem 7 elimination loses order S^2 kappa ln(T) / gap, "
            "and no policy less. The best decision costs nothing, so regret is drawn against kappa - 1. Widths are "
            f"made for {_HORIZON:,} rounds, and a run ends soon after elimination does.",
            f"On a partition the printed algorithm has {ratios[PAPER] / ratios[REPAIRED]:.2f} times the regret of the "
            "repaired one: its covers are the active decisions. Where they are not, it fails: see the counterexamples. "
            f"Of the upper bounds {vacuous} of {regrets.height} in the table of rates are vacuous for so many rounds.",
        ]


def _regrets(results: Results) -> polars.DataFrame:
    """Return mean regrets with their bounds, and the share of them that came between the last two checkpoints."""
    runs = results.regret.sort("round").group_by("environment", "policy", "replication")
    last, before = polars.col("regret").get(-1), polars.col("regret").get(-2)
    ends = runs.agg(last.alias("last"), (last - before).alias("lost")).group_by("environment", "policy")
    late = ends.agg(late=polars.col("lost").sum() / polars.col("last").sum())
    table = results.summary(level=LEVEL).rename(lambda name: name.removeprefix("environment."))
    table = table.join(late, on=["environment", "policy"], maintain_order="left")
    about = ("environment", "policy", "n_arms", "budget", "gap", "horizon", "runs", "mean", "low", "high", "late")
    return with_each(table.select(about), _bounds)


def _bounds(row: Row) -> dict[str, float | None]:
    """Return the bounds of Theorem 7 for an instance; each decision reveals itself, so kappa is their number."""
    size = {"n_arms": row["n_arms"], "budget": row["budget"], "gap": row["gap"]}
    if row["policy"] == ORACLE:
        upper = oracle_upper(**size, alpha=row["n_arms"], horizon=_HORIZON, undirected=True)
    else:
        upper = constrained_upper(**size, cover=row["n_arms"] // row["budget"], horizon=_HORIZON)
    return {"upper": upper.value, "lower": constrained_lower(**size, horizon=row["horizon"]).value}
