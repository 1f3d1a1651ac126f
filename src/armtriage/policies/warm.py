"""Beginning with an old log: what it adds to draws and intervals, the check of it, and how it is withdrawn.

Under the statement of the log each reward has a mean inside the arm's old interval, widened by the bias. So for bets l,
products of 1 + l (lower - r) and of 1 + l (r - upper) over all decisions, each with the average over its arms, are
supermartingales, and their average ever reaches 100 with probability 0.01 at most: one check of all arms together,
which sees what none of them shows alone. With a factor for each arm it would not hold where arms share their luck.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from armtriage.certificate import Bounds
from armtriage.kernels.betting import BETS
from armtriage.kernels.record import Floats, Ints
from armtriage.policies.evidence import Evidence
from armtriage.policies.facts import FAR, require, within
from armtriage.policies.fading import FadingPolicy
from armtriage.policies.old_log import SHARE, OldLog, Trusted

_ALARM = math.log(2 * BETS.size / 0.01)
_DELTA = 0.05  # of policies that have none of their own, as in certificates


class WarmPolicy(FadingPolicy):
    """The part of every `SlatePolicy` that may begin with an old log."""

    old_log: OldLog | None = None
    keeps_intervals: bool
    _trusted: Trusted | None = None
    _kept: NDArray[np.bool_]  # (K,) arms of which the log still counts
    _between: Bounds  # where it says that means are, at the policy's own delta; [0, 1] where it does not count
    _capital: Floats  # (2, bets) logarithms: against means that are too low, and too high
    _withdrawn = -1  # the decision at which all of it was withdrawn
    _refuted = False  # whether it must be
    _failed = 0  # contradictions that are not the log's

    def _check_old_log(self, old_log: OldLog | None) -> OldLog | None:
        """Return the log in the order of the arms, after a check, and begin with it."""
        if old_log is None:
            return None
        if not isinstance(old_log, OldLog):
            raise TypeError(f"old_log must be an OldLog or None, got {type(old_log).__name__}")
        if self.decisions is not None:
            raise NotImplementedError(f"old_log is for slates without contexts, got {old_log!r} over a decision set")
        if self._fades:
            raise NotImplementedError(f"old_log cannot be used with rewards that fade, got forget={self.forget!r}")
        old_log = old_log.in_order(self._roster)
        self._trusted = old_log.on_unit_scale(*self._scale)
        self._kept = old_log.counts > 0
        self._capital, self._sees = np.zeros((2, BETS.size)), True
        self._place()
        return old_log

    @property
    def _own_delta(self) -> float:
        found: float = getattr(self, "delta", _DELTA)
        return found

    @property
    def _live(self) -> float:
        return 1.0 if self._trusted is None else 1.0 - SHARE

    def _place(self) -> None:
        """Find where the log says that means are."""
        self._between = self._old_bounds(self._own_delta) or Bounds(np.zeros(self.n_arms), np.ones(self.n_arms))

    def _old_bounds(self, delta: float) -> Bounds | None:
        if self._trusted is None or not self._kept.any():
            return None
        lower, upper = self._trusted.bounds(self._roster.n_first, delta)
        return Bounds(np.where(self._kept, lower, 0.0), np.where(self._kept, upper, 1.0))

    def _about_old(self) -> dict[str, Any]:
        if self.old_log is None:
            return {}
        bias = float(self.old_log.bias.max(initial=0.0))
        return {"old_bias": bias, "old_withdrawn": None if self._withdrawn < 0 else self._withdrawn}

    def _with_old_log(self, evidence: Evidence, *, begin: bool = False) -> Evidence:
        """Let draws, and at the beginning intervals, have what the log says, and return the evidence."""
        if self._trusted is None:
            return evidence
        n = self.n_arms
        wins, losses = self._trusted.as_coins()
        evidence.old_wins[:n], evidence.old_losses[:n] = np.where(self._kept, (wins, losses), 0.0)
        evidence.warm = int(self._kept.any())
        if begin and self.keeps_intervals:
            evidence.lower[:n], evidence.upper[:n] = self._between
        return evidence

    def _watch(self, number: int, arms: Ints, rewards: Floats) -> None:
        super()._watch(number, arms, rewards)
        if self._trusted is None or self._withdrawn >= 0:
            return
        told = self._kept[arms]
        if not told.any():
            return
        seen, values = arms[told], rewards[told]
        gains = (self._between.lower[seen] - values).mean(), (values - self._between.upper[seen]).mean()
        self._capital += np.log1p(np.outer(gains, BETS))
        most = float(self._capital.max())
        self._refuted |= most + math.log(float(np.exp(self._capital - most).sum())) >= _ALARM

    def _heed(self) -> None:
        super()._heed()
        if self._trusted is not None and self._withdrawn < 0:
            if self._refuted or self._is_contradicted():
                self._withdraw()
            else:
                self._failed = int(self._evidence.failures)

    def _is_contradicted(self) -> bool:
        """Whether an arm's live interval lies outside of what the log says.

        Where intervals are kept, the newest stands if it contradicts those before; of intervals that have a point in
        common two by two all have one, so that it contradicts the log, or another live one. Where none are kept, all
        are computed now and then, for no more than one of them a decision.
        """
        evidence, n = self._evidence, self.n_arms
        if self.keeps_intervals:
            if int(evidence.failures) == self._failed:
                return False
            lower, upper = evidence.lower[:n], evidence.upper[:n]
        elif self._asked % max(64, n):
            return False
        else:
            lower, upper = self._live_bounds(self._own_delta)
        return bool(((lower > self._between.upper) | (upper < self._between.lower)).any())

    def _withdraw(self) -> None:
        """Go on without the log: draws lose what it added, and intervals are those of live rewards."""
        self._refuted, self._withdrawn = False, self._asked
        self._kept = np.zeros(self.n_arms, np.bool_)
        self._place()
        evidence, n = self._evidence, self.n_arms
        if self.keeps_intervals:
            evidence.lower[:n], evidence.upper[:n] = self._live_bounds(self._own_delta)
            evidence.failures = self._failed
        self._change(self._with_old_log(evidence))
        self._restart_account()

    def _restart_account(self) -> None:
        """Book again, by the intervals of today, what was booked by those of the log."""

    def _drop(self, arms: list[int]) -> None:
        """Let the log say nothing of arms that have begun again."""
        super()._drop(arms)
        if self._trusted is not None:
            self._kept[arms] = False
            self._place()

    def _begin_again(self) -> None:
        if self._trusted is not None and self._withdrawn < 0:
            self._withdrawn = self._asked
            self._drop(list(range(self.n_arms)))
            self._with_old_log(self._evidence)
        super()._begin_again()
        self._failed = 0

    def _grow_watch(self) -> None:
        super()._grow_watch()
        if self.old_log is not None and self.old_log.counts.size < self.n_arms:
            self.old_log = self.old_log.longer(self.n_arms)
            self._trusted = self.old_log.on_unit_scale(*self._scale)
            self._kept = np.append(self._kept, np.zeros(self.n_arms - self._kept.size, np.bool_))
            self._place()

    def _old_log_arrays(self) -> dict[str, NDArray[Any]]:
        """Return what a file keeps of the log; nothing without one."""
        if self.old_log is None:
            return {}
        numbers = np.array([self._withdrawn, self._failed], np.int64)
        own: dict[str, NDArray[Any]] = {
            "kept": self._kept.astype(np.uint8),
            "capital": self._capital,
            "numbers": numbers,
        }
        for name, array in self.old_log.to_arrays().items():
            own["of_squares" if name == "squares" else name] = array
        return {f"old_log.{name}": array for name, array in own.items()}

    def _restore_old_log(self, given: dict[str, NDArray[Any]]) -> None:
        """Take back what `_old_log_arrays` returned; the log itself came with the arguments."""
        if self.old_log is None:
            require(not given, "there must be nothing of an old log without one")
            return
        kept, capital, numbers = given["kept"], given["capital"], given["numbers"]
        require(kept.shape == (self.n_arms,) and kept.dtype == np.uint8, "kept must be a number for each arm")
        within("kept", kept, 0, 1)
        require(self.old_log.counts[kept > 0] > 0, "only what the old log has can be kept of it")
        require(capital.shape == self._capital.shape and capital.dtype == np.float64, "capital must be a row a side")
        within("capital", capital, -FAR, _ALARM)
        require(numbers.shape == (2,) and numbers.dtype == np.int64, "numbers of an old log must be two")
        within("when an old log was withdrawn", numbers[0], -1, self._asked)
        within("contradictions beside an old log", numbers[1], 0, (self.n_arms + 1) * (self._asked + 1))
        require(numbers[0] < 0 or not kept.any(), "nothing of an old log can be kept that was withdrawn")
        self._kept, self._capital = kept > 0, capital.copy()
        self._withdrawn, self._failed = numbers.tolist()
        self._place()
