"""Play several policies against the same rewards: results as a table for people and as facts for programs."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from rich.markup import escape
from rich.table import Table

from armtriage._numbers import short
from armtriage.environments import Environment, LinearEnvironment
from armtriage.policies.policy import Policy
from armtriage.simulation.simulate import simulate
from armtriage.simulation.trace import Trace

COLUMNS = ("policy", "mean regret", "95% interval", "rounds/s", "committed")


@dataclass(frozen=True, eq=False)
class Result:
    """How one policy of a comparison did."""

    label: str
    policy: Policy
    trace: Trace
    seconds: float

    @property
    def mean(self) -> float:
        """Mean regret at the end."""
        return float(self.trace.mean[-1])

    @property
    def interval(self) -> tuple[float, float] | None:
        """The 95% interval of that mean; None from one replication."""
        low, high = (float(end[-1]) for end in self.trace.interval())
        return (low, high) if math.isfinite(low) else None

    @property
    def committed(self) -> float:
        """Share of the replications in which the decision became final."""
        return float(np.mean(self.trace.committed_at >= 0))

    @property
    def rounds_per_second(self) -> float:
        """Rounds a second over all replications; those after a commitment cost nothing, and count."""
        return float(self.trace.rounds[-1] * self.trace.regret.shape[0] / max(self.seconds, 1e-9))

    @property
    def cells(self) -> tuple[str, ...]:
        """The result as a row of a table."""
        if self.interval is None:
            spread = "one run: none"
        elif self.interval[0] == self.interval[1]:
            spread = f"all {self.trace.regret.shape[0]} runs alike"
        else:
            spread = f"{short(self.interval[0])} to {short(self.interval[1])}"
        return self.label, short(self.mean), spread, f"{self.rounds_per_second:,.0f}", f"{self.committed:.0%}"


def compare(
    policies: Mapping[str, Policy],
    environment: Environment | LinearEnvironment,
    *,
    horizon: int,
    replications: int = 1,
    seed: int | None = None,
    checkpoints: int | Sequence[int] = 50,
    workers: int | None = None,
    certificate: bool | float = False,
    progress: Callable[[str, float], None] | None = None,
) -> list[Result]:
    """Play every policy against the environment, with the same rewards, and take the time without compilation.

    Parameters
    ----------
    policies : mapping of str to Policy
        The policies, by the label they are shown under.
    environment, horizon, replications, seed, checkpoints, workers, certificate
        See `armtriage.simulate`.
    progress : callable, optional
        Called with a label and the share of it that is done.

    Examples
    --------
    >>> from armtriage import FeedbackGraph, Greedy, StochasticEnvironment
    >>> graph = FeedbackGraph.full_information(2)
    >>> env = StochasticEnvironment([0.9, 0.1], graph, "deterministic", seed=7)
    >>> [result] = compare({"Greedy": Greedy(graph, 1)}, env, horizon=10, seed=7)
    >>> result.mean
    0.0
    """
    results = []
    for label, policy in policies.items():
        simulate(policy, environment, horizon=1, seed=seed)
        began = time.perf_counter()
        trace = simulate(
            policy,
            environment,
            horizon=horizon,
            replications=replications,
            seed=seed,
            checkpoints=checkpoints,
            workers=workers,
            certificate=certificate,
            progress=partial(progress, label) if progress else False,
        )
        results.append(Result(label, policy, trace, time.perf_counter() - began))
    return results


def table(results: Sequence[Result], title: str | None = None) -> Table:
    """Return the results as a table for a terminal.

    Examples
    --------
    >>> table([]).row_count
    0
    """
    shown = Table(title=title, title_justify="left", title_style="bold")
    for column in COLUMNS:
        first = column == COLUMNS[0]
        shown.add_column(column, justify="left" if first else "right", no_wrap=not first, overflow="fold")
    for result in results:
        shown.add_row(*map(escape, result.cells))
    return shown


def facts(result: Result) -> dict[str, Any]:
    """Return the result as JSON values."""
    low, high = result.interval or (None, None)
    options = {
        name: value for name, value in result.policy.config.items() if name not in ("seed", "decisions", "features")
    }
    if result.policy.decisions is not None:
        options["decisions"] = repr(result.policy.decisions)
    return {
        "label": result.label,
        "policy": type(result.policy).__name__,
        "options": options,
        "mean": result.mean,
        "interval": {"level": 0.95, "low": low, "high": high},
        "checkpoints": {"rounds": result.trace.rounds.tolist(), "mean": result.trace.mean.tolist()},
        "committed": result.committed,
        "seconds": result.seconds,
        "rounds_per_second": result.rounds_per_second,
    }
