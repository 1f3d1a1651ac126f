"""plan: how many decisions it takes until something is known, and what is lost by then, from simulation."""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from armtriage._arguments import LONGEST, check_count, check_number, check_probability
from armtriage._numbers import short
from armtriage.certificate import Log, Slates, Tally, Watch
from armtriage.environments import StochasticEnvironment
from armtriage.graphs.feedback import FeedbackGraph
from armtriage.kernels.random import check_seed
from armtriage.policies import GuardedThompson, Policy, ThompsonSampling, UniformRandom
from armtriage.simulation.loop import Output
from armtriage.simulation.players import Run, player_for
from armtriage.triage import triage_among

_FIRST = 100  # decisions at the first look
_STEP = 1.1  # from one look to the next, so that a milestone is found at most some 10% too late
_SHORT, _LONG = 20_000, 1_000_000  # the least and the largest horizon that is found here


class Milestone(NamedTuple):
    """When something came true in each run, -1 if it did not, and what had been lost by then, or by the end."""

    decisions: NDArray[np.int64]
    lost: NDArray[np.float64]

    @property
    def reached(self) -> int:
        """In how many runs it came true."""
        return int((self.decisions >= 0).sum())

    def spread(self) -> tuple[float, float, float]:
        """Return the median, the least and the largest number of decisions; infinite for runs where it did not come."""
        return _spread(np.where(self.decisions >= 0, self.decisions, np.inf))

    def spread_of_loss(self) -> tuple[float, float, float]:
        """Return the median, the least and the largest loss by then; by the end, for runs where it did not come."""
        return _spread(self.lost)


class Strategy(NamedTuple):
    """How one way to decide fared; the last two have a row for each run, nan after its end."""

    name: str
    informative: Milestone
    known: Milestone
    bounds: NDArray[np.float64]
    regret: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Plan:
    """How many decisions it takes until the certificate speaks and until the best arms are known.

    Attributes
    ----------
    n_arms, budget, rate, gap, horizon, replications, confidence, seed
        What was simulated, with the horizon that was found if none was given.
    strategies : tuple of Strategy
        ``"guarded"`` is `GuardedThompson`, ``"thompson"`` is `ThompsonSampling`, and ``"equal shares"`` shows all arms
        equally often, as an A/B/n test does. Each has two milestones: `informative`, when the certificate begins to
        say something (see `armtriage.Certificate`), and `known`, when the best arms are known for certain.
    rounds : ndarray
        The numbers of decisions at which was looked.

    Examples
    --------
    >>> made = plan(4, budget=1, rate=0.3, gap=0.4, horizon=2000, replications=2, seed=7)
    >>> made.strategies[2].name, made.strategies[2].known.reached
    ('equal shares', 2)
    """

    n_arms: int
    budget: int
    rate: float
    gap: float
    horizon: int
    replications: int
    confidence: float
    seed: int
    rounds: NDArray[np.int64]
    strategies: tuple[Strategy, ...]

    @property
    def best(self) -> float:
        """What the best decision earns."""
        return self.budget * (self.rate + self.gap)

    def rows(self) -> list[tuple[str, str, str, str, str]]:
        """Return a row of text for each strategy: its name, both milestones, and what was lost by each."""
        return [(one.name, *self._said(one.informative), *self._said(one.known)) for one in self.strategies]

    def _said(self, milestone: Milestone) -> tuple[str, str]:
        """Return when a milestone was reached and what was lost by then, as medians with their ranges."""
        lost, runs = _text(*milestone.spread_of_loss()), milestone.decisions.size
        middle, least, most = milestone.spread()
        if math.isinf(least):
            return f"not within {self.horizon:,}", f"{lost} by the end"
        if math.isinf(middle):
            return f"{short(least)} or more in {milestone.reached} of {runs} runs", lost
        return _text(middle, least, most if math.isfinite(most) else f"over {self.horizon:,}"), lost

    def __str__(self) -> str:
        rows = [self.columns, *self.rows()]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [
            "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
        ]
        return "\n".join([self.title, *lines])

    @property
    def columns(self) -> tuple[str, str, str, str, str]:
        """What the columns of `rows` are called."""
        best = "best is" if self.budget == 1 else f"best {self.budget:,} are"
        return "strategy", "certificate speaks after", "lost by then", f"{best} known after", "lost by then"

    @property
    def title(self) -> str:
        """What was simulated, as a sentence."""
        spread = "the only run" if self.replications == 1 else f"median [range] of {self.replications} runs"
        best, sure = f"mean {self.rate + self.gap:g} for the best {self.budget:,}", f"{100 * self.confidence:g}%"
        return (
            f"{self.n_arms:,} arms, {self.budget:,} in a decision; {best}, {self.rate:g} for all others; "
            f"{sure} confidence; {spread}, seed {self.seed}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as JSON knows it; None stands for runs in which a milestone was not reached.

        Examples
        --------
        >>> facts = plan(4, budget=1, rate=0.3, gap=0.4, horizon=20_000, replications=2, seed=7).to_dict()
        >>> facts["best"], [one["policy"] for one in facts["strategies"]]
        (0.7, ['guarded', 'thompson', 'equal shares'])
        """
        names = ("n_arms", "budget", "rate", "gap", "horizon", "replications", "confidence", "seed", "best")
        return {
            **{name: getattr(self, name) for name in names},
            "strategies": [
                {
                    "policy": one.name,
                    "informative": _facts(one.informative),
                    "known": _facts(one.known),
                }
                for one in self.strategies
            ],
        }


def plan(
    n_arms: int,
    budget: int,
    *,
    rate: float,
    gap: float,
    horizon: int | None = None,
    replications: int = 6,
    delta: float = 0.01,
    seed: int | None = None,
    workers: int | None = None,
    progress: Callable[[str, float], None] | None = None,
) -> Plan:
    """Simulate how many decisions it takes until something is known, and what is lost by then.

    All arms have the mean `rate` but for the best `budget` of them, which have `gap` more: of all worlds with that gap
    it is the one in which they are hardest to tell apart. Rewards are 0 or 1 and come at once.

    Parameters
    ----------
    n_arms, budget : int
        How many arms there are, and how many a decision has, fewer than there are.
    rate, gap : float
        Mean reward of an ordinary arm, and by how much the best ones are better; their sum is at most 1.
    horizon : int, optional
        Decisions after which a run ends, from 100. It ends before, when all is known. By default a third more than it
        takes until the certificate of equal shares speaks in every run, but from 20,000 to a million. Certainty about
        the best arms often takes longer than that.
    replications : int
        Runs of each strategy. The range of 6 holds the median with probability 0.97, that of 8 with 0.99.
    delta : float
        Probability with which certificates may fail.
    seed : int, optional
        Fixes rewards and policies; None draws a fresh one.
    workers : int, optional
        Threads; by default one for each processor. The numbers do not depend on it.
    progress : callable, optional
        Called with a strategy's name and the share of it that is done.

    Examples
    --------
    >>> print(plan(4, budget=1, rate=0.3, gap=0.4, horizon=20_000, replications=4, seed=7))
    4 arms, 1 in a decision; mean 0.7 for the best 1, 0.3 for all others; 99% confidence; median [range] of 4 runs,
    seed 7
    strategy      certificate speaks after  lost by then      best is known after            lost by then
    guarded       100                       8.8 [4.8 to 12]   16,000 [8,800 to over 20,000]  24 [20.8 to 36.8]
    thompson      105 [100 to 130]          13 [7.2 to 20.8]  16,000 or more in 1 of 4 runs  22.2 [20 to 33.6]
    equal shares  535 [510 to 670]          161 [150 to 204]  535 [290 to 740]               159 [89.6 to 222]
    """
    n_arms = check_count("n_arms", n_arms, 2)
    budget = check_count("budget", budget, 1, n_arms - 1)
    rate, gap = check_probability("rate", rate), check_number("gap", gap, positive=True)
    if rate + gap > 1.0:
        raise ValueError(f"gap must be at most {1.0 - rate:g}, so that rate + gap is a mean, got {gap!r}")
    if horizon is not None:
        horizon = check_count("horizon", horizon, _FIRST, LONGEST)
    replications, delta = check_count("replications", replications, 1), check_probability("delta", delta)
    seed = check_seed(seed)
    workers = check_count("workers", workers, 1) if workers is not None else os.cpu_count() or 1
    means = np.full(n_arms, rate)
    means[:budget] += gap
    graph = FeedbackGraph.semi_bandit(n_arms)
    world = StochasticEnvironment(means, graph, seed=seed)
    policies: dict[str, Policy] = {
        "guarded": GuardedThompson(graph, budget, delta=delta, seed=seed),
        "thompson": ThompsonSampling(graph, budget, seed=seed),
        "equal shares": UniformRandom(graph, budget, seed=seed),
    }
    equal = Run(policies["equal shares"], world, _LONG, _looks(_LONG)[::3], seed, False, delta)
    if horizon is None:
        horizon = _horizon(equal, replications, workers)
    points, found = _looks(horizon), []
    for name, policy in policies.items():
        report = None if progress is None else _labelled(progress, name)
        run = Run(policy, world, horizon, points, seed, False, delta)
        found.append(_strategy(name, run, _played(run, replications, workers, report)))
    return Plan(n_arms, budget, rate, gap, horizon, replications, 1.0 - delta, seed, points, tuple(found))


def _looks(horizon: int) -> NDArray[np.int64]:
    """Return the numbers of decisions at which is looked, of two digits but for the last."""
    n = 1 + math.ceil(math.log(horizon / _FIRST) / math.log(_STEP))
    points = _FIRST * _STEP ** np.arange(n)
    units = 10.0 ** (np.floor(np.log10(points)) - 1.0)
    rounded = np.rint(points / units) * units
    return np.unique(np.append(rounded[rounded < horizon], horizon)).astype(np.int64)


def _horizon(equal: Run, replications: int, workers: int) -> int:
    """Return at which look after that the certificate of equal shares, a late one, speaks in all runs."""
    played = _played(equal, replications, workers, None, lambda lookout: lookout.informative >= 0)
    looks = [lookout.informative for lookout, _ in played]
    return _LONG if min(looks) < 0 else max(int(np.append(equal.points, _LONG)[max(looks) + 1]), _SHORT)


class _Lookout(Watch):
    """Notes at each look what is certified, and when both milestones are reached."""

    def __init__(self, run: Run) -> None:
        super().__init__(run.policy.n_arms, Slates(run.policy.budget), run.delta)
        self.found: list[float] = []
        self.informative = self.known = -1  # at which look

    def bound(
        self, tally: Tally, rounds: int, exposures: NDArray[np.int64] | None = None, slots: int | None = None
    ) -> float:
        bound, look = super().bound(tally, rounds, exposures, slots), len(self.found)
        self.found.append(bound)
        if self.informative < 0:
            log = Log(self.rivals, tally, rounds, self.delta)
            self.informative = look if bound < log.worth().at_stake else -1
        if self.known < 0:
            sure = triage_among(*self.ends, np.arange(tally.pulls.size), self.rivals.size).confirmed
            self.known = look if sure.size == self.rivals.size else -1
        return bound


def _done(lookout: _Lookout) -> bool:
    """Whether both milestones are reached."""
    return lookout.informative >= 0 and lookout.known >= 0


def _played(
    run: Run,
    replications: int,
    workers: int,
    report: Callable[[float], None] | None,
    done: Callable[[_Lookout], bool] = _done,
) -> list[tuple[_Lookout, Output]]:
    """Play all runs of a strategy, each until it is done."""
    play, shares, halt = player_for(run.policy, run.environment), np.zeros(replications), threading.Event()

    def one(replication: int) -> tuple[_Lookout, Output]:
        lookout = _Lookout(run)

        def track(_: int, output: Output) -> bool:
            shares[replication] = 1.0 if done(lookout) else output.round / run.horizon
            if report is not None:
                report(float(shares.mean()))
            return not (done(lookout) or halt.is_set())

        return lookout, play(run._replace(watcher=lookout), replication, track)[0]

    with ThreadPoolExecutor(min(workers, replications)) as pool:
        try:
            return list(pool.map(one, range(replications)))
        except BaseException:
            halt.set()
            raise


def _strategy(name: str, run: Run, played: list[tuple[_Lookout, Output]]) -> Strategy:
    """Return how a strategy fared in its runs."""
    bounds, regret = np.full((2, len(played), run.points.size), np.nan)
    for row, (lookout, output) in enumerate(played):
        looks = len(lookout.found)
        bounds[row, :looks], regret[row, :looks] = lookout.found, output.regret[:looks]
    informative, known = (
        _milestone(np.array([getattr(lookout, what) for lookout, _ in played]), run.points, regret)
        for what in ("informative", "known")
    )
    return Strategy(name, informative, known, bounds, regret)


def _milestone(looks: NDArray[np.int64], points: NDArray[np.int64], regret: NDArray[np.float64]) -> Milestone:
    rows = np.arange(looks.size)
    return Milestone(np.where(looks >= 0, points[looks], -1), regret[rows, looks])


def _labelled(progress: Callable[[str, float], None], name: str) -> Callable[[float], None]:
    return lambda share: progress(name, share)


def _spread(values: NDArray[np.float64]) -> tuple[float, float, float]:
    order = np.sort(values)
    with np.errstate(invalid="ignore"):
        middle = 0.5 * (order[(order.size - 1) // 2] + order[order.size // 2])
    return float(middle), float(order[0]), float(order[-1])


def _text(middle: float, least: float, most: float | str) -> str:
    """Return a median with its range."""
    if least == most:
        return short(least)
    return f"{short(middle)} [{short(least)} to {most if isinstance(most, str) else short(most)}]"


def _facts(milestone: Milestone) -> dict[str, Any]:
    def finite(values: tuple[float, float, float]) -> dict[str, float | None]:
        named = zip(("median", "least", "most"), values, strict=True)
        return {name: value if math.isfinite(value) else None for name, value in named}

    return {
        "reached": milestone.reached,
        "decisions": finite(milestone.spread()),
        "lost": finite(milestone.spread_of_loss()),
        "runs": [None if one < 0 else one for one in milestone.decisions.tolist()],
    }
