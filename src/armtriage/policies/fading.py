"""Forgetting all the time: rewards that count for less with the age of their decision, or not at all from some age on.

What was told of a decision counts by how many decisions came after it, however late it was told. The sums of the
evidence are those of what still counts; its counts stay whole, and `unheard` has what is missing from them, so that
kernels read the weight of an arm as they do where decisions are open. What is settled is kept apart, and never fades.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from armtriage._arguments import LONGEST, check_choice
from armtriage.alarm import DriftAlarm
from armtriage.certificate import Bounds, Certificate
from armtriage.decisions import Decision
from armtriage.kernels.random import row_of
from armtriage.kernels.record import Floats, Ints
from armtriage.policies.beliefs import gain
from armtriage.policies.evidence import Evidence, part
from armtriage.policies.facts import require, within
from armtriage.policies.request import WEIGH
from armtriage.policies.watched import Rising, WatchedPolicy

_LEAST = 1e-6  # rewards: an arm of which less counts is as one that was never seen
_NONE = np.empty(0, np.int64)
_SAVED = ("weight", "numbers", "arms", "rewards", "wins")


class _Told(NamedTuple):
    """Rewards of a decision, with what they count for in draws."""

    arms: Ints
    rewards: Floats
    wins: Floats


class FadingPolicy(WatchedPolicy):
    """The part of every `SlatePolicy` that may forget all the time, by a discount or a window."""

    forget: str | float | None = None
    keeps_intervals: bool
    _weight: Floats  # (K,) rewards of each arm that still count
    _last: dict[int, list[_Told]]  # what was told of the decisions in the window

    if TYPE_CHECKING:

        @property
        def throws_coins(self) -> bool: ...  # noqa: D102
        def _send(self, number: int, arms: Any, rewards: Any, known: int, missing: Any, mode: int) -> int: ...

    def _check_forget(self, forget: str | float | None) -> str | float | None:
        """Return the argument, after a check, and begin to watch or to fade if it says so."""
        if forget is None:
            return None
        if isinstance(forget, str):
            check_choice("forget", forget, ("alarm",))
            if self.decisions is not None:
                accepted = "a discount, a window or None over a decision set, where no arm is looked at by itself"
                raise NotImplementedError(f"forget must be {accepted}, got {forget!r}")
            self._alarm, self._rising = DriftAlarm(self.n_arms), Rising(self.n_arms)
            return forget
        number = isinstance(forget, int | float | np.integer | np.floating) and not isinstance(forget, bool)
        whole = number and isinstance(forget, int | np.integer)
        if not number or not (1 <= forget < LONGEST if whole else 0.0 < forget < 1.0):
            say = 'forget must be "alarm", a discount in (0, 1), or a window of 1 decision or more as a whole number'
            raise (ValueError if number else TypeError)(f"{say}, got {forget!r}")
        if self.keeps_intervals:
            raise ValueError(
                f'forget must be "alarm" in a guard: no interval holds for rewards that fade, got {forget!r}'
            )
        self._weight, self._last, self._books_sets = np.zeros(self.n_arms), {}, True
        return int(forget) if whole else float(forget)

    @property
    def _fades(self) -> bool:
        return isinstance(self.forget, int | float)

    @property
    def _memory(self) -> float:
        """How many decisions count, for indices that grow with their number: all, those of the window, or as many."""
        if isinstance(self.forget, float):
            return 1.0 / (1.0 - self.forget)
        return float(self.forget) if isinstance(self.forget, int) else np.inf

    @property
    def _weighs_open(self) -> bool:
        return super()._weighs_open and not self._fades

    def _parted(self, evidence: Evidence) -> Evidence:
        """Keep what is settled apart from the beginning, if told rewards fade, and return the evidence."""
        if self._fades:
            part(evidence)
        return evidence

    def _book_set(self, decision: Decision, among: Any) -> None:
        """Let what was told count for less, now that there is a decision more."""
        if isinstance(self.forget, float):
            evidence, n = self._evidence, self.n_arms
            for column in (self._weight, evidence.sums[:n], evidence.between[:n]):
                column *= self.forget
            if self.throws_coins:
                evidence.wins[:n] *= self.forget
            seen = np.flatnonzero(self._weight)
            self._clear(seen[self._weight[seen] < _LEAST])
            self._follow_weight(seen)
        elif isinstance(self.forget, int):
            old = decision.number - self.forget
            for told in self._last.pop(old, ()):
                self._take_off(old, told, 1.0)

    def _take_off(self, number: int, told: _Told, share: float) -> None:
        """Let rewards of a decision count for less, by a share of what they were."""
        counts = np.array([not self._roster.is_newer(arm, number) for arm in told.arms.tolist()], np.bool_)
        arms, rewards, wins = told.arms[counts], told.rewards[counts], told.wins[counts]
        evidence = self._evidence
        self._weight[arms] -= share
        evidence.sums[arms] = np.maximum(evidence.sums[arms] - share * rewards, 0.0)
        evidence.between[arms] = np.maximum(evidence.between[arms] - share * rewards * (1.0 - rewards), 0.0)
        if self.throws_coins:
            evidence.wins[arms] = np.maximum(evidence.wins[arms] - share * wins, 0.0)
        self._clear(arms[self._weight[arms] < _LEAST])
        self._follow_weight(arms)

    def _clear(self, arms: Ints) -> None:
        """Leave nothing of arms that hardly count, not even what was rounded."""
        for column in (self._weight, self._evidence.sums, self._evidence.between, self._evidence.wins):
            column[arms] = 0.0

    def _follow_weight(self, arms: Ints) -> None:
        """Bring the evidence of arms, and the caches, in line with what counts."""
        evidence = self._evidence
        evidence.unheard[arms] = self._weight[arms] - evidence.counts[arms]
        self._send(0, arms, evidence.unheard[arms], 0, _NONE, WEIGH)

    def _weigh_told(self, number: int, arms: Ints, rewards: Floats) -> None:
        """Let new unit rewards count by the age of their decision."""
        if not self._fades:
            return
        wins = rewards
        if self.throws_coins:
            luck = row_of(self._stream, number)
            wins = np.array([gain(True, luck, *one) for one in zip(arms.tolist(), rewards.tolist(), strict=True)])
        told, age = _Told(arms.copy(), rewards, wins), self._asked - 1 - number
        self._weight[arms] += 1.0
        if isinstance(self.forget, float):
            self._take_off(number, told, 1.0 - self.forget**age)
        elif age >= self._memory:
            self._take_off(number, told, 1.0)
        else:
            self._last.setdefault(number, []).append(told)
            self._follow_weight(arms)

    def _certified(self, **given: Any) -> Certificate:
        if not isinstance(self.forget, int | float):
            return super()._certified(**given)
        found = super()._certified(**given | {"contradictions": 1})
        return replace(found, assumptions=found.assumptions._replace(forget=self.forget))

    def _bounds(self, delta: float = 0.05) -> Bounds:
        return Bounds(np.zeros(self.n_arms), np.ones(self.n_arms)) if self._fades else super()._bounds(delta)

    def _ends(self, among: Ints | None) -> Bounds:
        return self._bounds() if self._fades else super()._ends(among)

    def _drop(self, arms: list[int]) -> None:
        """Let nothing count of arms that have begun again."""
        super()._drop(arms)
        if self._fades:
            self._weight[arms] = 0.0

    def _grow_watch(self) -> None:
        super()._grow_watch()
        if self._fades:
            self._weight = np.append(self._weight, np.zeros(self.n_arms - self._weight.size))

    def _fading_arrays(self) -> dict[str, NDArray[Any]]:
        """Return what a file keeps of what counts; nothing where nothing fades."""
        if not self._fades:
            return {}
        told = [(number, one) for number, parts in self._last.items() for one in parts]
        kept: dict[str, NDArray[Any]] = {"weight": self._weight}
        kept["numbers"] = np.repeat(
            np.array([number for number, _ in told], np.int64), [one.arms.size for _, one in told]
        )
        for name, kind in (("arms", np.int64), ("rewards", np.float64), ("wins", np.float64)):
            kept[name] = np.concatenate([np.empty(0, kind), *(getattr(one, name) for _, one in told)])
        return {f"fading.{name}": array for name, array in kept.items()}

    def _restore_fading(self, given: Mapping[str, NDArray[Any]], evidence: Evidence) -> None:
        """Take back what `_fading_arrays` returned."""
        if not self._fades:
            require(not given, "nothing can fade without a discount or a window")
            return
        n, (weight, numbers, arms, rewards, wins) = self.n_arms, (given[name] for name in _SAVED)
        require(set(given) == set(_SAVED), f"what fades must be {', '.join(_SAVED)}, got {', '.join(given)}")
        require(weight.shape == (n,) and weight.dtype == np.float64, "weight must be a number for each arm")
        within("weight", weight, 0.0, evidence.counts[:n])
        within("sums of what counts", evidence.sums[:n], 0.0, weight + _LEAST)
        require(numbers.ndim == 1 and numbers.dtype == arms.dtype == np.int64, "decisions of a window must be numbers")
        require(rewards.dtype == wins.dtype == np.float64, "rewards of a window must be numbers")
        require(numbers.shape == arms.shape == rewards.shape == wins.shape, "rewards of a window must each have an arm")
        first = self._asked if isinstance(self.forget, float) else self._asked - int(self._memory)
        within("decisions of the window", numbers, max(first, 0), self._asked - 1)
        within("arms of the window", arms, 0, n - 1)
        within("rewards of the window", rewards, 0.0, 1.0)
        within("wins of the window", wins, 0.0, 1.0)
        self._weight, self._last = weight.copy(), {}
        for number in dict.fromkeys(numbers.tolist()):
            here = numbers == number
            self._last[number] = [_Told(arms[here], rewards[here], wins[here])]
        evidence.unheard[:n], evidence.weighed = weight - evidence.counts[:n], 1
