"""Policies whose kernels also run inside the simulation loop."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from armtriage.decisions import TopS
from armtriage.kernels.random import row_of, stream
from armtriage.policies.contextual import ContextualPolicy
from armtriage.policies.policy import Policy, restore_arrays
from armtriage.triage import TriageLog

__all__ = ["CompiledContextualPolicy", "CompiledPolicy", "Kernels", "OraclePolicy", "arrays_of"]


class Kernels(NamedTuple):
    """The compiled functions of a policy; `simulate` puts `select` and `update` into its loop."""

    select: Callable[..., Any]
    update: Callable[..., None]
    schedule: Callable[..., None] | None = None
    release: Callable[..., None] | None = None
    weigh: Callable[..., None] | None = None


class _Compiled(Policy):
    """`Params`, `State` and kernels, however the policy is asked."""

    kernels: ClassVar[Kernels]
    _cached_state: Any = None

    @abstractmethod
    def params(self) -> Any:
        """Return the `Params` for the kernels."""

    @abstractmethod
    def new_state(self) -> Any:
        """Return the `State` of a policy that has learned nothing."""

    @property
    def _state(self) -> Any:
        # Made when first needed: a policy that is only simulated never fills a million arms of its own.
        if self._cached_state is None:
            self._cached_state = self.new_state()
        return self._cached_state

    @cached_property
    def _stream(self) -> np.uint64:
        return stream(self.seed, "policy")

    def _arrays(self) -> dict[str, NDArray[Any]]:
        return arrays_of(self._state)

    def _restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        restore_arrays(arrays_of(self._state), arrays)


class CompiledPolicy(_Compiled):
    """A policy whose `Params`, `State` and kernels also run inside the compiled simulation loop."""

    @property
    def in_loop(self) -> bool:
        """Whether the kernels alone choose decisions, all of the same size, as the loop needs it."""
        return True

    def triage_log(self, state: Any = None) -> TriageLog | None:
        """Return when arms were decided, for policies that decide arms."""
        return None

    def _select(self, number: int) -> NDArray[np.int64]:
        arms = np.empty(self.budget, np.int64)
        self.kernels.select(self.params(), self._state, self.graph.arrays, number, row_of(self._stream, number), arms)
        arms.sort()
        return arms

    def _update(self, number: int, arms: NDArray[np.int64], rewards: NDArray[np.float64]) -> None:
        luck = row_of(self._stream, number)
        self.kernels.update(self.params(), self._state, self.graph.arrays, number, luck, arms, rewards, arms.size, True)

    def _schedule(self, arms: NDArray[np.int64]) -> None:
        if self.kernels.schedule is not None:
            self.kernels.schedule(self.params(), self._state, self.graph.arrays, arms)

    def _release(self, arms: NDArray[np.int64]) -> None:
        if self.kernels.release is not None:
            self.kernels.release(self.params(), self._state, self.graph.arrays, arms)


class OraclePolicy(CompiledPolicy):
    """A policy with a kernel `weigh`, whose weights the decision of largest sum is played by.

    ``weigh(params, state, number, luck, size, offset, weights)`` writes a weight for each arm. Without a
    decision set, and with `TopS`, the kernel `select` finds the same decision in less time.
    """

    @property
    def in_loop(self) -> bool:
        """Whether the kernels choose decisions, and not an oracle."""
        return self.decisions is None or isinstance(self.decisions, TopS)

    def _select(self, number: int) -> NDArray[np.int64]:
        if self.in_loop:
            return super()._select(number)
        return self.choose(self.params(), self._state, number, row_of(self._stream, number))

    def choose(self, params: Any, state: Any, number: int, luck: np.uint64) -> NDArray[np.int64]:
        """Return the decision of round `number` that the oracle finds best, as `simulate` also asks for it."""
        assert self.decisions is not None
        assert self.kernels.weigh is not None
        weights = np.empty(self.n_arms)
        self.kernels.weigh(params, state, number, luck, self.budget, self._offset, weights)
        arms = self.decisions.maximise(weights)
        assert arms is not None
        return arms


class CompiledContextualPolicy(ContextualPolicy, _Compiled):
    """A contextual policy whose kernels also run inside the compiled simulation loop.

    ``select(params, state, contexts, number, luck, arms, notes)`` also writes a whole number for each chosen arm, which
    ``update(params, state, contexts, notes, rewards, n)`` gets back beside the arm's context and reward. Arms ascend.
    """

    def __init__(
        self,
        n_arms: int,
        dimension: int,
        budget: int,
        *,
        seed: int | None = None,
        reward_range: tuple[float, float] = (-1.0, 1.0),
        context_bound: float = 1.0,
    ) -> None:
        super().__init__(n_arms, dimension, budget, seed=seed, reward_range=reward_range, context_bound=context_bound)
        self._notes: dict[int, NDArray[np.int64]] = {}

    def _select(self, number: int, contexts: NDArray[np.float64]) -> NDArray[np.int64]:  # type: ignore[override]
        arms, notes = np.empty(self.budget, np.int64), np.empty(self.budget, np.int64)
        luck = row_of(self._stream, number)
        self.kernels.select(self.params(), self._state, contexts, number, luck, arms, notes)
        self._notes[number] = notes
        return arms

    def _learn(self, number: int, arms: NDArray[np.int64], rewards: NDArray[np.float64]) -> None:
        self._notes[number] = self._notes[number][np.searchsorted(self._open[number], arms)]
        super()._learn(number, arms, rewards)

    def _update(  # type: ignore[override]
        self, number: int, arms: NDArray[np.int64], contexts: NDArray[np.float64], rewards: NDArray[np.float64]
    ) -> None:
        self.kernels.update(self.params(), self._state, contexts, self._notes.pop(number), rewards, arms.size)

    def _open_arrays(self) -> dict[str, NDArray[Any]]:
        notes = np.array([self._notes[number] for number in self._open], dtype=np.int64)
        return {**super()._open_arrays(), "notes": notes.reshape(-1, self.budget)}

    def _reopen(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        super()._reopen(arrays)
        if arrays["notes"].dtype != np.int64 or arrays["notes"].shape != (len(self._open), self.budget):
            raise ValueError(f"notes have shape {arrays['notes'].shape}, expected {(len(self._open), self.budget)}")
        self._notes = dict(zip(self._open, arrays["notes"], strict=True))


def arrays_of(state: Any) -> dict[str, NDArray[Any]]:
    """Return the arrays of a NamedTuple, those of one inside it under a dotted name."""
    arrays: dict[str, NDArray[Any]] = {}
    for name, value in state._asdict().items():
        parts = arrays_of(value) if isinstance(value, tuple) else {"": value}
        arrays |= {f"{name}.{part}".rstrip("."): array for part, array in parts.items()}
    return arrays
