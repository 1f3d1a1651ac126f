"""Trace: what a simulation leaves behind."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from armtriage._tables import html_table, latex_table
from armtriage.kernels.record import Floats, Ints
from armtriage.triage import TriageLog

if TYPE_CHECKING:
    import polars

_HEAD = ("rounds", "mean regret", "95% interval")


@dataclass(frozen=True, eq=False)
class Trace:
    """Cumulative regret of a policy at the checkpoints of a simulation.

    Attributes
    ----------
    rounds : ndarray, (checkpoints,)
        Rounds played at each checkpoint.
    regret : ndarray, (replications, checkpoints)
        Cumulative pseudo-regret; against the best fixed decision in hindsight for a replay.
    committed_at : ndarray, (replications,)
        The round from which the decision could never change again; -1 if it never came, or if the simulation went
        through ask and tell, where it goes unnoticed.
    decisions : ndarray, (replications, horizon, S), or None
        The arms of every round, ascending, if they were recorded. Where decisions differ in size, S is the largest
        and -1 fills the rest of the shorter ones.
    triage : tuple of TriageLog, or None
        For elimination policies, when each arm was confirmed or eliminated, one log per replication. It ends when the
        decision can never change again.
    certificate : ndarray, (replications, checkpoints), or None
        If asked for, what the regret was at most, by what the policy had pulled and seen.
    policy, n_arms, seed, environment_seed
        What was simulated; the seeds of the policies' randomness and of the rewards (None if it has none).
    first_replication : int
        The number of the first replication.

    Examples
    --------
    >>> from armtriage import FeedbackGraph, Greedy, StochasticEnvironment, simulate
    >>> graph = FeedbackGraph.full_information(2)
    >>> env = StochasticEnvironment([0.9, 0.1], graph, reward="deterministic", seed=7)
    >>> simulate(Greedy(graph, budget=1, seed=7), env, horizon=100, replications=2, checkpoints=[100])
    Trace of Greedy: 2 arms, 2 runs, policy seed 7, reward seed 7
          rounds   mean regret  95% interval
             100             0  all runs alike
    """

    rounds: Ints
    regret: Floats
    committed_at: Ints
    decisions: NDArray[np.int32] | None
    triage: tuple[TriageLog, ...] | None
    policy: str
    n_arms: int
    seed: int
    environment_seed: int | None
    first_replication: int = 0
    certificate: Floats | None = None

    @property
    def origin(self) -> str:
        """Where the numbers come from: runs and seeds."""
        n = self.regret.shape[0]
        luck = "" if self.environment_seed is None else f", reward seed {self.environment_seed}"
        return f"{n} run{'s' if n > 1 else ''}, policy seed {self.seed}{luck}"

    @property
    def mean(self) -> Floats:
        """Mean regret over the replications, at each checkpoint."""
        return np.asarray(self.regret.mean(axis=0))

    def interval(self, level: float = 0.95) -> tuple[Floats, Floats]:
        """Return the ends of Student's t interval for the mean at each checkpoint.

        One replication tells nothing of the spread: the interval is then infinite.
        """
        if not 0.0 < level < 1.0:
            raise ValueError(f"level must be a number strictly between 0 and 1, got {level!r}")
        n = self.regret.shape[0]
        if n == 1:
            return np.full(self.rounds.shape, -np.inf), np.full(self.rounds.shape, np.inf)
        from scipy.special import stdtrit

        half = stdtrit(n - 1, 0.5 + level / 2) * self.regret.std(axis=0, ddof=1) / np.sqrt(n)
        return self.mean - half, self.mean + half

    def to_polars(self) -> polars.DataFrame:
        """Return a tidy table: policy, replication, rounds, regret, and certificate if there is one.

        Needs the extra ``armtriage[tables]``.
        """
        try:
            import polars
        except ImportError as error:
            raise ImportError("to_polars needs polars: pip install 'armtriage[tables]'") from error
        replications, points = self.regret.shape
        columns = {
            "policy": [self.policy] * (replications * points),
            "replication": np.repeat(self.first_replication + np.arange(replications), points),
            "rounds": np.tile(self.rounds, replications),
            "regret": self.regret.ravel(),
        }
        if self.certificate is not None:
            columns["certificate"] = self.certificate.ravel()
        return polars.DataFrame(columns)

    def to_pandas(self) -> Any:
        """Return the table of `to_polars` as a frame of pandas.

        Needs the extra ``armtriage[pandas]``.
        """
        return self.to_polars().to_pandas()

    def to_latex(self) -> str:
        r"""Return the table that `print` shows as a tabular, for the package booktabs.

        Examples
        --------
        >>> from armtriage import StochasticEnvironment, UniformRandom, simulate
        >>> world = StochasticEnvironment([0.5, 0.5], 2, seed=7)
        >>> trace = simulate(UniformRandom(2, budget=1, seed=7), world, horizon=10, replications=2, checkpoints=[10])
        >>> print(trace.to_latex())
        \begin{tabular}{rrl}
        \toprule
        rounds & mean regret & 95\% interval \\
        \midrule
        10 & 0 & all runs alike \\
        \bottomrule
        \end{tabular}
        """
        return latex_table(_HEAD, self._rows(), "rrl")

    def _rows(self) -> Iterator[tuple[str, str, str]]:
        """Yield rounds, mean and interval at some of the checkpoints, as text."""
        replications, points = self.regret.shape
        low, high = self.interval()
        alike = "all runs alike" if replications > 1 else "one replication: none"
        for p in np.unique(np.linspace(0, points - 1, min(points, 6)).astype(int)):
            spread = f"[{low[p]:.6g}, {high[p]:.6g}]" if np.ptp(self.regret[:, p]) > 0.0 else alike
            yield str(self.rounds[p]), f"{self.mean[p]:.6g}", spread

    @property
    def _title(self) -> str:
        return f"Trace of {self.policy}: {self.n_arms} arms, {self.origin}"

    def _repr_html_(self) -> str:
        """Return a table for notebooks."""
        return html_table(_HEAD, self._rows(), self._title)

    def __repr__(self) -> str:
        lines = [f"{rounds:>12}  {mean:>12}  {spread}" for rounds, mean, spread in (_HEAD, *self._rows())]
        return "\n".join([self._title, *lines])
