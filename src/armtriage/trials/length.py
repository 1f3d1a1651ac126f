"""How many decisions it takes until a trial shows a difference, from simulation."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from armtriage._arguments import as_number, check_count, check_probability
from armtriage._numbers import short
from armtriage.kernels.random import check_seed
from armtriage.trials.contrast import Contrast

_FIRST = 100  # decisions at the first look
_STEP = 1.05  # from one look to the next, so that a difference is seen at most 5% too late


class TrialLength(NamedTuple):
    """How many decisions it took in each run until the interval excluded no difference, and of what trial.

    Examples
    --------
    >>> print(trial_length(0.05, budget=6, lift=0.5, share=0.1, replications=5, seed=7))
    A lift of 50% on 0.3 in a decision is seen after 3,619 decisions [1,823, 4,851] (median [range] of 5 runs) with
    10% of them for the control, 95% confidence, at any time.
    """

    decisions: NDArray[np.int64]
    rate: float
    budget: int
    lift: float
    share: float
    alpha: float
    horizon: int
    seed: int

    def __str__(self) -> str:
        found = np.where(self.decisions < 0, math.inf, self.decisions)
        runs, reached = found.size, int(np.isfinite(found).sum())
        middle, least, most = float(np.median(found)), float(found.min()), float(found.max())
        what = f"A lift of {100 * self.lift:g}% on {short(self.rate * self.budget)} in a decision is"
        how = f"with {100 * self.share:g}% of them for the control, {100 * (1 - self.alpha):g}% confidence, at any time"
        if not math.isfinite(middle):
            return f"{what} seen within {self.horizon:,} decisions in {reached} of {runs} runs, {how}."
        last = short(most) if math.isfinite(most) else f"over {self.horizon:,}"
        spread = f"{short(middle)} decisions [{short(least)}, {last}] (median [range] of {runs} runs)"
        return f"{what} seen after {spread} {how}."

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as JSON knows it; None stands for runs in which no difference was seen."""
        return {
            **self._asdict(),
            "decisions": [None if n < 0 else n for n in self.decisions.tolist()],
            "text": str(self),
        }


def trial_length(
    rate: float,
    *,
    budget: int = 1,
    lift: float,
    share: float = 0.05,
    alpha: float = 0.05,
    horizon: int = 1_000_000,
    replications: int = 15,
    seed: int | None = None,
    progress: Callable[[str, float], None] | None = None,
) -> TrialLength:
    """Return how many decisions it takes until `Lift` shows that the policy is better, or worse, than the control.

    Parameters
    ----------
    rate : float
        The mean reward of an arm that the control shows, as a click rate of 0.05.
    budget : int
        Arms in a decision, whose rewards are 0 or 1, independent of each other.
    lift : float
        By which part the policy is better: 0.1 stands for 10%, -0.1 for 10% worse.
    share : float
        Probability of the control.
    alpha : float
        Probability with which an interval ever fails.
    horizon : int
        Decisions after which a run ends.
    replications : int
        Independent runs.
    seed : int, optional
        Fixes the runs; None draws a fresh one.
    progress : callable, optional
        Called with a name and the share of the runs that are done.

    Examples
    --------
    >>> found = trial_length(0.3, lift=0.5, share=0.5, replications=3, seed=7)
    >>> bool((found.decisions > 0).all())
    True
    """
    check_probability("rate", rate)
    check_count("budget", budget, 1)
    better = rate * (1.0 + as_number("lift", lift))
    if not 0.0 <= better <= 1.0 or lift == 0.0:
        raise ValueError(f"lift must not be 0 and leave a rate from 0 to 1, got {lift!r} on {rate!r}")
    check_count("horizon", horizon, 1)
    check_count("replications", replications, 1)
    chosen = check_seed(seed)
    found = np.full(replications, -1, np.int64)
    for run in range(replications):
        rng, contrast = np.random.default_rng([chosen, run]), Contrast(share, float(budget), alpha=alpha)
        look = min(_FIRST, horizon)
        while True:
            groups = rng.random(look - contrast.decisions) < share
            contrast.add(groups, rng.binomial(budget, np.where(groups, rate, better)).astype(np.float64))
            if contrast.exceeds(alpha / 2.0, upper=lift < 0.0):
                found[run] = look
                break
            if look == horizon:
                break
            look = min(math.ceil(look * _STEP), horizon)
        if progress is not None:
            progress("trial", (run + 1) / replications)
    return TrialLength(found, rate, budget, lift, share, alpha, horizon, chosen)
