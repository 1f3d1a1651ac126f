"""Policies whose kernels also run inside the simulation loop."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from functools import cache, cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from armtriage.kernels.jit import Opener, bind, compile_now, compiling_for, kernel, unbound
from armtriage.kernels.random import row
from armtriage.kernels.record import Floats, Ints, Record, RecordLayout
from armtriage.policies.changing import locked
from armtriage.policies.contextual import ContextualPolicy
from armtriage.policies.facts import arrays_of, check_facts, facts_of, restore_arrays, take_facts, within
from armtriage.policies.policy import Policy
from armtriage.policies.rewards import Told

_NONE = np.empty(0, np.int64)

open_post = select = update = schedule = release = unbound
"""What `bind` replaces: how a post is found by its address, and the kernels of a policy."""


class Kernels(NamedTuple):
    """The compiled functions of a policy with contexts; `simulate` puts `select` and `update` into its loop."""

    select: Callable[..., Any]
    update: Callable[..., None]
    schedule: Callable[..., None] | None = None
    release: Callable[..., None] | None = None


def name_of(kernels: Kernels) -> str:
    """Return a name for machine code that is made of a policy's kernels: where the first of them comes from."""
    return kernels.select.__module__.replace(".", "_")


class Post(Record):
    """Everything that a contextual policy works on between two calls from Python."""

    params: Record
    state: Record
    streams: NDArray[np.uint64]  # (1,) where the policy's random numbers come from
    arms: Ints  # (S,) the decision
    notes: Ints  # (S,) what `select` writes for each chosen arm
    rewards: Floats  # (S,)


def _ask_linear(address: int, contexts: Floats, number: int) -> None:
    """Choose the arms of a round."""
    post = open_post(address)
    size = min(post.arms.size, contexts.shape[0])
    luck = row(post.streams[0], number)
    select(post.params, post.state, contexts, number, luck, post.arms[:size], post.notes[:size])


def _note_linear(address: int, contexts: Floats) -> None:
    """Schedule the pulls of arms with these contexts."""
    post = open_post(address)
    schedule(post.params, post.state, contexts, post.notes)


def _tell_linear(address: int, contexts: Floats, told: int) -> None:
    """Learn the rewards of the first arms with these contexts, and release them all."""
    post = open_post(address)
    release(post.params, post.state, contexts, post.notes, told)
    update(post.params, post.state, contexts, post.notes, post.rewards, told)


@kernel
def _nothing_released(params: Any, state: Any, contexts: Floats, notes: Ints, told: int) -> None:
    pass


class _LinearEntries(NamedTuple):
    """What Python calls: kernels that take the address of a post."""

    ask: Callable[..., None]
    note: Callable[..., None] | None
    tell: Callable[..., None]


@cache
def _linear_entries(kernels: Kernels, kind: RecordLayout) -> _LinearEntries:
    """Return the entries for a policy's kernels, compiled: no call compiles anything later."""
    name, open_one = name_of(kernels), Opener(kind)
    schedule, release, contexts = kernels.schedule, kernels.release or _nothing_released, np.zeros((1, 1))
    ask = bind(_ask_linear, f"ask_{name}", open_post=open_one, select=kernels.select)
    compile_now(ask, int, contexts, int)
    note = schedule and bind(_note_linear, f"note_{name}", open_post=open_one, schedule=schedule)
    if note is not None:
        compile_now(note, int, contexts)
    tell = bind(_tell_linear, f"tell_{name}", open_post=open_one, update=kernels.update, release=release)
    compile_now(tell, int, contexts, int)
    return _LinearEntries(ask, note, tell)


class CompiledContextualPolicy(ContextualPolicy):
    """A contextual policy whose kernels also run inside the compiled simulation loop.

    ``select(params, state, contexts, number, luck, arms, notes)`` also writes a whole number for each chosen arm, which
    ``update(params, state, contexts, notes, rewards, n)`` gets back beside the arm's context and reward. Arms ascend.
    Where pulls count before their rewards come, ``schedule(params, state, contexts, notes)`` is told of them, and
    ``release(params, state, contexts, notes, told)`` that the first `told` rewards have come and the others will not.
    """

    kernels: ClassVar[Kernels]
    _cached_state: Any = None
    # Records hold addresses, and views of one array that a copy would part: they are made again, and filled.
    _of_this_process = Policy._of_this_process | {"_cached_state", "_params", "_post", "_entries"}

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
    def _params(self) -> Any:
        return self.params()

    @locked
    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        if self._cached_state is not None:
            state["_kept"] = {name: array.copy() for name, array in arrays_of(self._state).items()}
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        kept = state.pop("_kept", None)
        super().__setstate__(state)
        if kept is not None:
            restore_arrays(arrays_of(self._state), kept)

    def _arrays(self) -> dict[str, NDArray[Any]]:
        return facts_of(self._state)

    def _restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        for name in self._of_this_process - Policy._of_this_process:
            vars(self).pop(name, None)
        take_facts(self._state, arrays)
        self._rebuild()

    def _rebuild(self) -> None:
        """Check the facts of a state that was loaded, and compute from them what follows."""

    @cached_property
    def _notes(self) -> dict[int, Ints]:
        """What `select` wrote for the arms of each open decision."""
        return {}

    @cached_property
    def _post(self) -> Post:
        arms, notes = np.zeros((2, self.budget), np.int64)
        return Post(self._params, self._state, np.array([self._stream]), arms, notes, np.zeros(self.budget))

    in_loop: ClassVar[bool] = True
    """Whether the kernels choose decisions by themselves."""

    def _grow(self) -> None:
        super()._grow()
        if self._cached_state is not None:
            self._enlarge()

    def _enlarge(self) -> None:
        """Have a state with room for all arms that there are, which begins with the facts of the present one."""
        facts, self._cached_state = facts_of(self._state), self.new_state()
        own = arrays_of(self._state)
        for name, array in facts.items():
            own[name][tuple(map(slice, array.shape))] = array
        vars(self).pop("_post", None)

    @cached_property
    def _entries(self) -> _LinearEntries:
        with compiling_for(self):
            return _linear_entries(self.kernels, self._post.layout)

    def _select(self, number: int, contexts: Floats) -> Ints:  # type: ignore[override]
        size = min(self.budget, contexts.shape[0])
        self._entries.ask(self._post.handle, contexts, number)
        self._notes[number] = self._post.notes[:size].copy()
        return self._post.arms[:size].copy()

    def _update(  # type: ignore[override]
        self, number: int, arms: Ints, contexts: Floats, rewards: Floats
    ) -> None:
        notes, post, n = self._notes[number], self._post, arms.size
        # Of a decision told in part, the notes of the arms that were told.
        post.notes[:n] = notes if n == notes.size else notes[np.searchsorted(self._open[number].arms, arms)]
        post.rewards[:n] = rewards
        self._entries.tell(post.handle, contexts, n)

    def _schedule(self, arms: Ints, contexts: Floats) -> None:  # type: ignore[override]
        if (note := self._entries.note) is not None:
            note(self._post.handle, contexts)

    def _release(self, arms: Ints, contexts: Floats) -> None:  # type: ignore[override]
        if self.kernels.release is not None:
            self._entries.tell(self._post.handle, contexts, 0)

    def _settle(self, told: Told) -> None:
        super()._settle(told)
        del self._notes[told.number]

    def _open_arrays(self) -> dict[str, NDArray[Any]]:
        notes = [self._notes[number] for number in self._open]
        return {**super()._open_arrays(), "notes": np.concatenate([_NONE, *notes])}

    def _reopen(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        super()._reopen({name: array for name, array in arrays.items() if name != "notes"})
        notes = np.zeros(sum(decision.arms.size for decision in self._open.values()), np.int64)
        self._notes = dict(zip(self._open, self._parted("notes", arrays, notes), strict=True))


class RidgePolicy(CompiledContextualPolicy):
    """A contextual policy whose state has regressions in `ridge`, and notes which of them a reward belongs to."""

    @property
    @locked
    def weights(self) -> Floats:
        """The estimate of theta by all rewards so far: what a context's number adds to the mean reward, for each of d.

        It is a ridge regression's, shrunk towards 0, and comes without any promise.

        Examples
        --------
        >>> from armtriage import C2UCB
        >>> policy = C2UCB(2, dimension=2, budget=1, ridge=0.01)
        >>> for _ in range(50):
        ...     policy.tell(policy.ask([[1.0, 0.0], [0.0, 1.0]]), [0.5])
        >>> policy.weights.round(2)
        array([0.5, 0.5])
        """
        ridge = self._state.ridge
        gram, moment = ridge.gram + ridge.carry + ridge.recent, ridge.moment + ridge.moment_carry
        theta = np.linalg.solve(gram.sum(axis=0), moment.sum(axis=0))
        sign = -1.0 if self.direction == "minimize" else 1.0
        return np.asarray(sign * self.reward_unit / self.context_bound * theta)

    @locked
    def unsound(self) -> str:  # noqa: D102 - as in every policy
        ridge = self._state.ridge
        for name in ("gram", "recent", "inverse", "moment", "weights", "log_det"):
            if not np.isfinite(getattr(ridge, name)).all():
                return f"{name} of a regression"
        return "" if (ridge.inverse.diagonal(axis1=1, axis2=2) > 0.0).all() else "inverse of a regression"

    def _quantities(self) -> dict[str, Any]:
        """Return what the limits of facts name."""
        pulls = self.budget * self._asked
        return {"arms": self.n_arms, "asked": self._asked, "pulls": pulls, "counts": np.array([pulls, 1])}

    def _rebuild(self) -> None:
        check_facts(self._state, self._quantities())
        for notes in self._notes.values():
            within("notes", notes, -1, self._state.ridge.counts.shape[0] - 1)
