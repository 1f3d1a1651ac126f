"""Constrained decisions: S^2 kappa / gap on disjoint decisions whose arms share their luck."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import polars

from armtriage.experiments import Results
from armtriage.reproduce.lines import above_bound, below_bound, line, line_chart, power_finding, powers, steepness
from armtriage.reproduce.policies import ORACLE, PAPER, REPAIRED, THOMPSON
from armtriage.reproduce.study import LEVEL, Chart, Finding, Scale, Study, Tables, finding, times, told
from armtriage.theory import constrained_lower, constrained_upper, oracle_upper

__all__ = ["STUDY", "findings"]

_HORIZON = 100_000  # that widths are made for, whatever is played: they are then the same on all of a line
_ELIMINATION: dict[str, Any] = {
    ORACLE: {"policy": "constrained", "horizon": _HORIZON},
    REPAIRED: {"policy": "constrained", "variant": "repaired", "horizon": _HORIZON},
}
_CONTEST: dict[str, Any] = {
    **_ELIMINATION,
    PAPER: {"policy": "constrained", "variant": "paper", "horizon": _HORIZON},
    "CombUCB1": {"policy": "comb_ucb1"},
    THOMPSON: {"policy": "thompson"},
}
_SIZES = {
    "tiny": Scale(slots=(2, 3), gaps=(0.8, 1.25), blocks=(2, 4), contest=500, runs=2),
    "quick": Scale(slots=(2, 3, 5), gaps=(0.625, 0.8, 1.25), blocks=(2, 4, 6), contest=2500, runs=4),
    "full": Scale(slots=(2, 4, 8), gaps=(0.4, 0.8, 1.6), blocks=(2, 4, 8, 16), contest=10_000, runs=8),
}
_INTERVAL = "Its interval is narrower where means are far apart, and widens with the logarithm of the count."
_LATE = 0.02  # of the regret since the last checkpoint but one: up to here elimination counts as over
_GAP = 0.8  # where it is not the parameter; below S / 2, where the other arms would never pay


class _Partition(NamedTuple):
    """Blocks of S arms, of which one is chosen, and one is better by the gap."""

    budget: int
    blocks: int
    gap: float

    @property
    def options(self) -> dict[str, Any]:
        """The instance, for half as many rounds again as elimination with the printed width takes on average."""
        looks = 4.0 * self.budget**2 * math.log(200 * self.blocks * self.budget * _HORIZON) / self.gap**2
        about = {"n_arms": self.blocks * self.budget, "budget": self.budget, "gap": self.gap}
        return {"instance": "partition", **about, "horizon": math.ceil(1.5 * looks) * self.blocks}

    @property
    def label(self) -> str:
        return f"S={self.budget}, kappa={self.blocks}, gap={self.gap:g}"


def _lines(scale: Scale) -> dict[str, dict[_Partition, float]]:
    """Return for each parameter the instances along which it alone changes, and its values."""
    return {
        "S": {_Partition(one, 2, _GAP): one for one in scale.slots},
        "1 / gap": {_Partition(scale.slots[1], 2, one): 1.0 / one for one in scale.gaps},
        "kappa - 1": {_Partition(2, one, _GAP): one - 1 for one in scale.blocks},
    }


def _labels(scale: Scale) -> dict[str, dict[str, float]]:
    return {name: {point.label: at for point, at in points.items()} for name, points in _lines(scale).items()}


def _plans(scale: Scale) -> dict[str, dict[str, Any]]:
    points = dict.fromkeys(point for one in _lines(scale).values() for point in one)
    shared = {"replications": scale.runs, "block": 2}
    places = {point.label: point.options for point in points}
    contest = _Partition(2, 4, _GAP)
    one = {contest.label: {**contest.options, "horizon": scale.contest}}
    return {
        "rates": {"environments": places, "policies": _ELIMINATION, "horizon": _HORIZON, **shared},
        "contest": {"environments": one, "policies": _CONTEST, "horizon": scale.contest, **shared},
    }


def _tables(results: Mapping[str, Results], scale: Scale) -> Tables:
    rates, contest = results["rates"], results["contest"]
    ratios, regrets = contest.differences(ORACLE, level=LEVEL), _regrets(rates)
    return {
        "rates": regrets,
        "powers": _powers(rates, regrets, _labels(scale)),
        "contest": contest.summary(level=LEVEL).select("policy", "horizon", "runs", "mean", "low", "high"),
        "ratios": ratios.select("policy", "horizon", "runs", "ratio", "ratio_low", "ratio_high", "better"),
    }


def _regrets(results: Results) -> polars.DataFrame:
    """Return mean regrets with their bounds, and the share of them that came between the last two checkpoints."""
    runs = results.regret.sort("round").group_by("environment", "policy", "replication")
    last, before = polars.col("regret").get(-1), polars.col("regret").get(-2)
    ends = runs.agg(last.alias("last"), (last - before).alias("lost")).group_by("environment", "policy")
    late = ends.agg(late=polars.col("lost").sum() / polars.col("last").sum())
    table = results.summary(level=LEVEL).rename(lambda name: name.removeprefix("environment."))
    table = table.join(late, on=["environment", "policy"], maintain_order="left")
    bounds = polars.DataFrame([_bounds(row) for row in table.iter_rows(named=True)])
    about = ("environment", "policy", "n_arms", "budget", "gap", "horizon", "runs", "mean", "low", "high", "late")
    return table.select(about).hstack(bounds)


def _bounds(row: Mapping[str, Any]) -> dict[str, float | None]:
    """Return the bounds of Theorem 7 for an instance; each decision reveals itself, so kappa is their number."""
    size = {"n_arms": row["n_arms"], "budget": row["budget"], "gap": row["gap"]}
    if row["policy"] == ORACLE:
        upper = oracle_upper(**size, alpha=row["n_arms"], horizon=_HORIZON, undirected=True)
    else:
        upper = constrained_upper(**size, cover=row["n_arms"] // row["budget"], horizon=_HORIZON)
    lower = constrained_lower(**size, horizon=row["horizon"])
    return {"upper": float(upper.value), "lower": None if lower.value is None else float(lower.value)}


def _powers(results: Results, regrets: polars.DataFrame, lines: Mapping[str, Mapping[str, float]]) -> polars.DataFrame:
    """Return the fitted powers, between which theory has them, and the largest share of late losses on the line."""
    made = []
    for name, at in lines.items():
        least = 2.0 if name == "S" else 1.0
        points = regrets.filter(regrets["environment"].is_in(list(at)))
        late = points.group_by("policy").agg(polars.col("late").max())
        most = {
            policy: steepness({at[row["environment"]]: row["upper"] for row in part.iter_rows(named=True)})
            for (policy,), part in points.partition_by("policy", as_dict=True).items()
        }
        bound = polars.col("policy").replace_strict(most, return_dtype=polars.Float64)
        table = powers(results, line(results, name, at), name).join(late, on="policy", maintain_order="left")
        table = table.select(polars.lit(name).alias("parameter"), polars.all(), least=least, most=bound)
        made.append(table.with_columns(polars.max_horizontal("least", "most").alias("most")))
    return polars.concat(made)


def findings(tables: Tables) -> list[Finding]:
    """Return what the tables say of Theorem 7."""
    return [*_rates(tables["powers"]), *_bound_findings(tables["rates"]), *_contests(tables["ratios"])]


def _rates(table: polars.DataFrame) -> list[Finding]:
    made = []
    for row in table.iter_rows(named=True):
        over, why = row["late"] < _LATE, "Elimination is not over everywhere when the runs end."
        source = "Theorem 7, S^2 kappa / gap"
        if row["policy"] == ORACLE:
            source = "its bound, S^2 B / gap"
            why = _INTERVAL if over else why
        claim = f"{row['policy']}: growth with {row['parameter']}"
        made.append(power_finding(claim, source, row, row["least"], whole=row["most"], known=over, why=why))
    return made


def _bound_findings(regrets: polars.DataFrame) -> list[Finding]:
    """Return whether the regrets lie between the bounds."""
    made = []
    for policy, source in ((REPAIRED, "Theorem 7, repaired"), (ORACLE, "its derivation")):
        rows = regrets.filter(regrets["policy"] == policy).to_dicts()
        made.append(below_bound(f"{policy}: regret is below its bound", source, rows))
    rows = regrets.drop_nulls("lower").to_dicts()
    claim = "no policy loses less than order K S ln(T) / gap"
    return [*made, above_bound(claim, "Theorem 7, lower bound", rows)]


def _contests(ratios: polars.DataFrame) -> list[Finding]:
    """Return how elimination by oracle does against the other forms, and against the best of the other policies."""
    rows = ratios.sort("ratio").to_dicts()
    best = next(row for row in rows if not row["policy"].startswith("elimination"))
    forms = [row for row in rows if row["policy"] in (REPAIRED, PAPER)]
    rest = [_contest(row, "widths of the arms that differ, in place of S times the largest") for row in forms]
    return [*rest, _contest(best, "none: the best of the policies without a set of active decisions")]


def _contest(row: Mapping[str, Any], source: str) -> Finding:
    other, more = row["policy"], told(row)
    because = {
        None: "no difference can be told",
        True: "it loses at least {ratio_low:.2g} times as much",
        False: f"elimination loses {1.0 / row['ratio']:.2g} times what {other} loses",
    }
    said = f"{ORACLE} loses less than {other}", source, f"{other} loses more", f"{other} loses {times(row)} as much"
    return finding(*said, more, because[more].format(**row))


def _paragraphs(tables: Tables, scale: Scale) -> list[str]:
    regrets, ratios = tables["rates"], tables["ratios"]
    printed, repaired = (ratios.filter(ratios["policy"] == one)["ratio"][0] for one in (PAPER, REPAIRED))
    vacuous = regrets.filter(regrets["upper"] >= regrets["budget"] * _HORIZON).height
    return [
        "A partition has kappa disjoint decisions of S arms, of which one is better by the gap. Arms of a decision "
        "share their luck, which makes S^2 necessary. By Theorem 7 elimination loses order S^2 kappa ln(T) / gap, and "
        "no policy less. The best decision costs nothing, so regret is drawn against kappa - 1. Widths are made for "
        f"{_HORIZON:,} rounds, and a run ends soon after elimination does.",
        f"On a partition the printed algorithm has {printed / repaired:.2f} times the regret of the repaired one: its "
        "covers are the active decisions. Where they are not, it fails: see the counterexamples. Of the upper bounds "
        f"{vacuous} of {regrets.height} in the table of rates are vacuous for so many rounds.",
    ]


def _charts(results: Mapping[str, Results], tables: Tables, scale: Scale) -> list[Chart]:
    return [_chart(results["rates"], tables["rates"], name, at) for name, at in _labels(scale).items()]


def _chart(results: Results, regrets: polars.DataFrame, name: str, at: Mapping[str, float]) -> Chart:
    """Draw a line with the bounds of the repaired variant."""
    own = regrets.filter(regrets["policy"] == REPAIRED)
    rows = {at[row["environment"]]: row for row in own.iter_rows(named=True) if row["environment"] in at}
    files = {"S": "constrained-slots", "1 / gap": "constrained-gap", "kappa - 1": "constrained-decisions"}
    first, *_, last = at
    points = line(results, name, at)
    return line_chart(
        results,
        files[name],
        f"Partition: regret against {name}, from {first} to {last}.",
        points,
        name,
        powers(results, points, name),
        bounds={"Theorem 7, above": lambda value: rows[value]["upper"], "below": lambda value: rows[value]["lower"]},
        ceiling=lambda value: float(rows[value]["budget"] * _HORIZON),
    )


STUDY = Study(
    "constrained", "Constrained decisions: S^2 kappa / gap", _SIZES, _plans, _tables, findings, _paragraphs, _charts
)
