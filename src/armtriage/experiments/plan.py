"""What is left to do of an experiment, and about how long it takes."""

from __future__ import annotations

import time
import warnings
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from statistics import mean
from typing import Any

from armtriage.catalogue import build_instance, build_policy
from armtriage.experiments.cells import Cell
from armtriage.simulation.simulate import simulate

_MOST_PROBES = 64
_PROBE_SECONDS = 0.05
_FIRST_ROUNDS = 16
_Pair = tuple[str, str]


@dataclass(frozen=True)
class PlanRow:
    """What one policy has to do in one environment."""

    environment: str
    policy: str
    cells: int
    done: int
    seconds: float

    @property
    def missing(self) -> int:
        """Cells that are still to be played."""
        return self.cells - self.done


@dataclass(frozen=True)
class Plan:
    """What is left to do of an experiment: a row for each policy in each environment.

    Attributes
    ----------
    rows : tuple of PlanRow
        environment, policy, cells, done, missing, and the seconds that the missing ones take.
    """

    rows: tuple[PlanRow, ...]

    @property
    def cells(self) -> int:
        """All cells."""
        return sum(row.cells for row in self.rows)

    @property
    def done(self) -> int:
        """Cells that are there already."""
        return sum(row.done for row in self.rows)

    @property
    def missing(self) -> int:
        """Cells that are still to be played."""
        return self.cells - self.done

    @property
    def seconds(self) -> float:
        """About how long the missing cells take, one after another."""
        return sum(row.seconds for row in self.rows)

    def __str__(self) -> str:
        counts = f"{self.cells} cells, {self.done} done, {self.missing} missing"
        return f"{counts}; time on one processor: {duration(self.seconds)}"


def duration(seconds: float) -> str:
    """Return about how long that is.

    Examples
    --------
    >>> duration(0.2), duration(75), duration(5400), duration(200_000)
    ('< 1 s', '75 s', '90 min', '56 h')
    """
    if seconds < 100:
        return f"{seconds:.0f} s" if seconds >= 1 else "< 1 s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.0f} h"


def make_plan(cells: Iterable[Cell], done: Collection[str], records: Iterable[Mapping[str, Any]]) -> Plan:
    """Return what is left of the cells, with the time by what earlier plays took, else by short trials."""
    pairs: dict[_Pair, list[Cell]] = defaultdict(list)
    for cell in cells:
        pairs[cell.environment.key, cell.policy.key].append(cell)
    missing = {pair: [one for one in those if one.id not in done] for pair, those in pairs.items()}
    costs = _costs({pair: those[0] for pair, those in missing.items() if those}, records)
    return Plan(
        tuple(
            PlanRow(
                those[0].environment.label,
                those[0].policy.label,
                len(those),
                len(those) - len(missing[pair]),
                sum(one.count for one in missing[pair]) * costs.get(pair, 0.0),
            )
            for pair, those in pairs.items()
        )
    )


def _costs(wanted: Mapping[_Pair, Cell], records: Iterable[Mapping[str, Any]]) -> dict[_Pair, float]:
    """Return the seconds of a replication for each pair."""
    seconds: dict[_Pair, list[float]] = defaultdict(list)
    for record in records:
        if record["error"] is None and (count := record.get("count")):
            pair = record.get("environment_key", ""), record.get("policy_key", "")
            seconds[pair].append((record.get("seconds") or 0.0) / count)
    costs = {pair: mean(seconds[pair]) for pair in wanted if pair in seconds}
    # A trial for each policy first, then a second one, and so on: none is left to a guess from others.
    seen: Counter[str] = Counter()
    turns = {}
    for pair in wanted:
        turns[pair] = seen[pair[1]]
        seen[pair[1]] += 1
    for pair in sorted((pair for pair in wanted if pair not in costs), key=turns.__getitem__)[:_MOST_PROBES]:
        costs[pair] = _probe(wanted[pair])
    a_round: dict[str, list[float]] = defaultdict(list)
    for pair, cost in costs.items():
        a_round[pair[1]].append(cost / wanted[pair].environment.horizon)
        a_round[""].append(cost / wanted[pair].environment.horizon)
    for pair, cell in wanted.items():
        costs.setdefault(pair, mean(a_round.get(pair[1], a_round[""])) * cell.environment.horizon)
    return costs


def _probe(cell: Cell) -> float:
    """Return about how many seconds a replication takes, by some of its rounds; 0 if it fails."""
    spec, seed = cell.environment, cell.environment_seed(cell.first)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            began = time.perf_counter()
            environment, budget = build_instance(spec.what, spec.options, spec.horizon, seed)
            built = time.perf_counter() - began
            policy = build_policy(cell.policy.what, cell.policy.options, environment, budget, spec.horizon, seed)
            simulate(policy, environment, horizon=1, workers=1)  # compiles
            rounds, seconds = min(_FIRST_ROUNDS, spec.horizon), 0.0
            while True:
                began = time.perf_counter()
                simulate(policy, environment, horizon=rounds, checkpoints=1, workers=1)
                seconds = time.perf_counter() - began
                if seconds > _PROBE_SECONDS or rounds == spec.horizon:
                    break
                rounds = min(4 * rounds, spec.horizon)
        except Exception:
            return 0.0
    return seconds / rounds * spec.horizon + (built if cell.redraw else built / cell.count)
