"""Policies whose kernels also run inside the simulation loop."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from functools import cache, cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from armtriage.decisions import ArmSet, Decision, TopS
from armtriage.graphs.feedback import GraphArrays
from armtriage.kernels.jit import Opener, bind, compile_now, compiling_for, kernel
from armtriage.kernels.order import sort_arms
from armtriage.kernels.random import row, row_of, stream
from armtriage.kernels.record import Record, RecordLayout
from armtriage.policies.contextual import ContextualPolicy
from armtriage.policies.eligible import Among, Crowd, Rules
from armtriage.policies.eligible.rows import Rows
from armtriage.policies.facts import arrays_of, facts_of, restore_arrays, take_facts
from armtriage.policies.lock import locked
from armtriage.policies.policy import Policy
from armtriage.policies.rewards import Told
from armtriage.triage import TriageLog

__all__ = ["CompiledContextualPolicy", "CompiledPolicy", "Kernels", "OraclePolicy", "name_of"]

_NONE = np.empty(0, np.int64)


class Kernels(NamedTuple):
    """The compiled functions of a policy; `simulate` puts `select` and `update` into its loop.

    ``believe(params, state, number, luck, arms, beliefs)`` writes what was believed of the arms chosen: a value for
    each, or the luck, the wins and the losses that a draw follows from.
    """

    select: Callable[..., Any]
    update: Callable[..., None]
    schedule: Callable[..., None] | None = None
    release: Callable[..., None] | None = None
    believe: Callable[..., None] | None = None
    teach: Callable[..., None] | None = None  # for rewards in parts, where `update` has more to do than to learn


class Seat(Record):
    """Everything that a policy works on between two calls from Python, which hand it over as one address."""

    params: Record
    state: Record
    graph: GraphArrays
    streams: NDArray[np.uint64]  # (1,) where the policy's random numbers come from
    arms: NDArray[np.int64]  # (S,) the decision, ascending
    beliefs: NDArray[np.float64]  # (4, S) or (1, S) what was believed of it
    seen: NDArray[np.int64]  # (K,) arms whose rewards are told, then those whose rewards will not come
    rewards: NDArray[np.float64]  # (K,)
    pulls: NDArray[np.int64]  # (K,) the tally
    counts: NDArray[np.int64]
    sums: NDArray[np.float64]
    between: NDArray[np.float64]
    low: float  # of rewards
    high: float
    zero: float  # the reward that is 0 on the unit scale
    width: float  # from there to 1


def name_of(kernels: Kernels) -> str:
    """Return a name for machine code that is made of a policy's kernels: where the first of them comes from."""
    return kernels.select.__module__.replace(".", "_")


@kernel
def _nothing(params: Any, state: Any, graph: GraphArrays, arms: NDArray[np.int64]) -> None:
    pass


@kernel
def _believe_nothing(
    params: Any, state: Any, number: int, luck: np.uint64, arms: NDArray[np.int64], beliefs: NDArray[np.float64]
) -> None:
    pass


@kernel
def _teach_nothing(
    params: Any,
    state: Any,
    luck: np.uint64,
    arms: NDArray[np.int64],
    rewards: NDArray[np.float64],
    closing: bool,
) -> None:
    pass


def open_seat(address: Any) -> Any:
    """Stand for the function that finds a seat by its address, which `bind` puts here."""
    raise NotImplementedError


def select(*arguments: Any) -> bool:
    """Stand for the policy's kernel, which `bind` puts here."""
    raise NotImplementedError


def update(*arguments: Any) -> None:
    """Stand for the policy's kernel, which `bind` puts here."""
    raise NotImplementedError


def schedule(*arguments: Any) -> None:
    """Stand for the policy's kernel, which `bind` puts here."""
    raise NotImplementedError


def release(*arguments: Any) -> None:
    """Stand for the policy's kernel, which `bind` puts here."""
    raise NotImplementedError


def believe(*arguments: Any) -> None:
    """Stand for the policy's kernel, which `bind` puts here."""
    raise NotImplementedError


def _ask(address: int, number: int, own: bool) -> None:
    """Choose the arms of a round; where they are what is revealed and `own`, count and schedule them, too."""
    seat = open_seat(address)
    luck = row(seat.streams[0], number)
    select(seat.params, seat.state, seat.graph, number, luck, seat.arms)
    sort_arms(seat.arms)
    believe(seat.params, seat.state, number, luck, seat.arms, seat.beliefs)
    if own:
        for i in range(seat.arms.size):
            seat.pulls[seat.arms[i]] += 1
        schedule(seat.params, seat.state, seat.graph, seat.arms)


def _note(address: int, n: int) -> None:
    """Schedule the first n arms that are seen."""
    seat = open_seat(address)
    schedule(seat.params, seat.state, seat.graph, seat.seen[:n])


def teach(*arguments: Any) -> None:
    """Stand for the policy's kernel, which `bind` puts here."""
    raise NotImplementedError


_UNIT, _RAW, _TEACH, _CLOSE = range(4)


def _tell(address: int, number: int, told: int, n: int, mode: int) -> int:
    """Learn the rewards of the first arms that are seen, and release those up to the n-th; -1 tells none.

    Raw rewards are checked, mapped to [0, 1] and tallied. Return -1; if one is out of range, its place, and nothing has
    changed. Rewards of a decision that stays open are only taught, and settled when it is closed.
    """
    seat = open_seat(address)
    zero, width = seat.zero, seat.width
    if mode >= _TEACH:
        luck = row(seat.streams[0], number)
        teach(seat.params, seat.state, luck, seat.seen[:told], seat.rewards[:told], mode == _CLOSE)
        return -1
    if mode == _RAW:
        for i in range(told):
            if not seat.low <= seat.rewards[i] <= seat.high:
                return i
        if zero != 0.0 or width != 1.0:
            for i in range(told):
                seat.rewards[i] = min(1.0, max(0.0, (seat.rewards[i] - zero) / width))
        for i in range(told):
            seat.counts[seat.seen[i]] += 1
            seat.sums[seat.seen[i]] += seat.rewards[i]
            seat.between[seat.seen[i]] += seat.rewards[i] * (1.0 - seat.rewards[i])
    if told >= 0:
        luck = row(seat.streams[0], number)
        update(seat.params, seat.state, seat.graph, number, luck, seat.seen, seat.rewards, told, True)
    if told < n:
        release(seat.params, seat.state, seat.graph, seat.seen[max(told, 0) : n])
    return -1


class _Entries(NamedTuple):
    """What Python calls: kernels that take the address of a seat."""

    ask: Callable[..., None]
    note: Callable[..., None]
    tell: Callable[..., int]


@cache
def _entries(kernels: Kernels, kind: RecordLayout) -> _Entries:
    """Return the entries for a policy's kernels, compiled: no call compiles anything later."""
    name, open_one = name_of(kernels), Opener(kind)
    schedule, release = kernels.schedule or _nothing, kernels.release or _nothing
    believe, teach = kernels.believe or _believe_nothing, kernels.teach or _teach_nothing
    entries = _Entries(
        bind(_ask, f"ask_{name}", open_seat=open_one, select=kernels.select, schedule=schedule, believe=believe),
        bind(_note, f"note_{name}", open_seat=open_one, schedule=schedule),
        bind(_tell, f"tell_{name}", open_seat=open_one, update=kernels.update, release=release, teach=teach),
    )
    compile_now(entries.ask, int, int, bool)
    compile_now(entries.note, int, int)
    compile_now(entries.tell, int, int, int, int, int)
    return entries


class _Compiled(Policy):
    """`Params`, `State` and kernels, however the policy is asked."""

    kernels: ClassVar[Kernels]
    _cached_state: Any = None
    # Records hold addresses, and views of one array that a copy would part: they are made anew, and filled.
    _of_this_process = Policy._of_this_process | {"_cached_state", "_params", "_seat", "_entries"}

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

    @cached_property
    def _stream(self) -> np.uint64:
        return stream(self.seed, "policy")

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


class CompiledPolicy(_Compiled):
    """A policy whose `Params`, `State` and kernels also run inside the compiled simulation loop.

    Requests that differ are answered by the kernels of `among`, which see eligible arms only.
    """

    among: ClassVar[Among | None] = None
    draws: ClassVar[bool] = False
    """Whether beliefs are luck and a posterior."""

    @property
    def in_loop(self) -> bool:
        """Whether the kernels alone choose decisions, all of the same size, as the loop needs it."""
        return True

    def triage_log(self, state: Any = None) -> TriageLog | None:
        """Return when arms were decided, for policies that decide arms."""
        return None

    @cached_property
    def _seat(self) -> Seat:
        n, tally = self.n_arms, self.tally
        return Seat(
            self._params,
            self._state,
            self.graph.arrays,
            np.array([self._stream]),
            np.zeros(self.budget, np.int64),
            np.zeros((4 if self.draws else 1, self.budget)),
            np.zeros(n, np.int64),
            np.zeros(n),
            tally.pulls,
            tally.counts,
            tally.sums,
            tally.between,
            *self.reward_range,
            *self._scale,
        )

    @cached_property
    def _entries(self) -> _Entries:
        with compiling_for(self):
            return _entries(self.kernels, self._seat.layout)

    @cached_property
    def _asks_at_once(self) -> bool:
        """Whether one kernel may choose, count and schedule: where arms reveal themselves, and no subclass steps in."""
        kind, own = type(self), (CompiledPolicy._select, OraclePolicy._select)
        return self.in_loop and self._plain and kind._select in own and kind._schedule is CompiledPolicy._schedule

    @cached_property
    def _tells_at_once(self) -> bool:
        """Whether one kernel may check, count, learn and release."""
        kind = type(self)
        return kind._update is CompiledPolicy._update and kind._release is CompiledPolicy._release

    def _ask_all(self, given: NDArray[np.int64] | None = None) -> Decision:
        if given is not None or not self._asks_at_once:
            return super()._ask_all(given)
        seat = self._seat
        self._entries.ask(seat.handle, self._asked, True)
        return self._begin(seat.arms.copy(), beliefs=seat.beliefs.copy())

    def _select(self, number: int) -> NDArray[np.int64]:
        self._entries.ask(self._seat.handle, number, False)
        return self._seat.arms.copy()

    def _beliefs(self, number: int, arms: NDArray[np.int64]) -> NDArray[np.float64] | None:
        seat = self._seat
        return seat.beliefs.copy() if np.array_equal(arms, seat.arms) else None

    def _select_among(
        self, number: int, among: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.float64] | None]:
        return self._gather().choose(number, among)

    def _ask_among(self, among: NDArray[np.int64], given: NDArray[np.int64] | None = None) -> Decision:
        if given is not None or self.decisions is not None or not self._plain:
            return super()._ask_among(among, given)
        if self._crowd is None:
            self._check_eligible_allowed()
        arms, beliefs = self._gather().choose(self._asked, among, own=True)
        return self._begin(arms, among=ArmSet.of(among), beliefs=beliefs)

    def _leave_fixed(self) -> None:
        for name in ("_cached_state", "_seat", "_entries"):
            vars(self).pop(name, None)

    def _rules(self) -> Rules:
        """Return what the kernels of `among` must know."""
        return Rules(self._params, self.budget)

    def _fill(self, rows: Rows) -> None:
        """Write what the state knows beyond the tally into the rows of the arms."""

    @property
    def _may_change(self) -> bool:
        return self.among is not None

    def _new_crowd(self) -> Crowd:
        assert self.among is not None
        crowd = Crowd(self.among, self._rules(), self._graph, self._stream)
        if self._cached_state is not None:
            self._fill(crowd.rows)
        return crowd

    def _learn(
        self, number: int, arms: NDArray[np.int64], rewards: NDArray[np.float64], missing: NDArray[np.int64]
    ) -> None:
        if self._crowd is not None or not self._tells_at_once:
            super()._learn(number, arms, rewards, missing)
            return
        seat, told, n = self._seat, arms.size, arms.size + missing.size
        seat.seen[:told], seat.rewards[:told], seat.seen[told:n] = arms, rewards, missing
        bad = self._entries.tell(seat.handle, number, told, n, _RAW)
        if bad >= 0:
            raise self._out_of_range(rewards[bad], arms[bad])
        if number < self._since:
            self._count_before(number, arms, self._to_unit(rewards))
        del self._open[number]

    def _teach(self, number: int, arms: NDArray[np.int64], rewards: NDArray[np.float64]) -> None:
        if self._crowd is not None or self.kernels.teach is None:
            super()._teach(number, arms, rewards)
        else:
            self._teach_some(number, arms, rewards, False)

    def _teach_some(self, number: int, arms: NDArray[np.int64], rewards: NDArray[np.float64], closing: bool) -> None:
        seat, n = self._seat, arms.size
        seat.seen[:n], seat.rewards[:n] = arms, rewards
        self._entries.tell(seat.handle, number, n, n, _CLOSE if closing else _TEACH)

    def _catch_up(self, told: Told) -> None:
        if self.kernels.teach is not None and told.known:
            self._teach_some(told.number, told.arms[: told.known], told.rewards[: told.known], True)
        super()._catch_up(told)

    def _update(self, number: int, arms: NDArray[np.int64], rewards: NDArray[np.float64]) -> None:
        seat, n = self._seat, arms.size
        seat.seen[:n], seat.rewards[:n] = arms, rewards
        self._entries.tell(seat.handle, number, n, n, _UNIT)

    def _schedule(self, arms: NDArray[np.int64]) -> None:
        if self.kernels.schedule is not None:
            self._seat.seen[: arms.size] = arms
            self._entries.note(self._seat.handle, arms.size)

    def _release(self, arms: NDArray[np.int64]) -> None:
        if self.kernels.release is not None:
            self._seat.seen[: arms.size] = arms
            self._entries.tell(self._seat.handle, 0, -1, arms.size, _UNIT)


class OraclePolicy(CompiledPolicy):
    """A policy whose decisions of a set are chosen with questions to the set's oracle, between which kernels run."""

    @property
    def in_loop(self) -> bool:
        """Whether the kernels choose decisions, and not an oracle."""
        return self.decisions is None or isinstance(self.decisions, TopS)

    @abstractmethod
    def choose(self, params: Any, state: Any, number: int, luck: np.uint64) -> NDArray[np.int64]:
        """Return the decision of round `number` of a set, as `simulate` also asks for it."""

    def _select(self, number: int) -> NDArray[np.int64]:
        if self.in_loop:
            return super()._select(number)
        return self.choose(self._params, self._state, number, row_of(self._stream, number))


class LinearSeat(Record):
    """Everything that a contextual policy works on between two calls from Python."""

    params: Record
    state: Record
    streams: NDArray[np.uint64]  # (1,) where the policy's random numbers come from
    arms: NDArray[np.int64]  # (S,) the decision
    notes: NDArray[np.int64]  # (S,) what `select` writes for each chosen arm
    rewards: NDArray[np.float64]  # (S,)


def _ask_linear(address: int, contexts: NDArray[np.float64], number: int) -> None:
    """Choose the arms of a round."""
    seat = open_seat(address)
    size = min(seat.arms.size, contexts.shape[0])
    luck = row(seat.streams[0], number)
    select(seat.params, seat.state, contexts, number, luck, seat.arms[:size], seat.notes[:size])


def _note_linear(address: int, contexts: NDArray[np.float64]) -> None:
    """Schedule the pulls of arms with these contexts."""
    seat = open_seat(address)
    schedule(seat.params, seat.state, contexts, seat.notes)


def _tell_linear(address: int, contexts: NDArray[np.float64], told: int) -> None:
    """Learn the rewards of the first arms with these contexts, and release them all."""
    seat = open_seat(address)
    release(seat.params, seat.state, contexts, seat.notes, told)
    update(seat.params, seat.state, contexts, seat.notes, seat.rewards, told)


@kernel
def _nothing_released(
    params: Any, state: Any, contexts: NDArray[np.float64], notes: NDArray[np.int64], told: int
) -> None:
    pass


class _LinearEntries(NamedTuple):
    """What Python calls: kernels that take the address of a seat."""

    ask: Callable[..., None]
    note: Callable[..., None] | None
    tell: Callable[..., None]


@cache
def _linear_entries(kernels: Kernels, kind: RecordLayout) -> _LinearEntries:
    """Return the entries for a policy's kernels, compiled: no call compiles anything later."""
    name, open_one = name_of(kernels), Opener(kind)
    schedule, release, contexts = kernels.schedule, kernels.release or _nothing_released, np.zeros((1, 1))
    ask = bind(_ask_linear, f"ask_{name}", open_seat=open_one, select=kernels.select)
    compile_now(ask, int, contexts, int)
    note = schedule and bind(_note_linear, f"note_{name}", open_seat=open_one, schedule=schedule)
    if note is not None:
        compile_now(note, int, contexts)
    tell = bind(_tell_linear, f"tell_{name}", open_seat=open_one, update=kernels.update, release=release)
    compile_now(tell, int, contexts, int)
    return _LinearEntries(ask, note, tell)


class CompiledContextualPolicy(ContextualPolicy, _Compiled):
    """A contextual policy whose kernels also run inside the compiled simulation loop.

    ``select(params, state, contexts, number, luck, arms, notes)`` also writes a whole number for each chosen arm, which
    ``update(params, state, contexts, notes, rewards, n)`` gets back beside the arm's context and reward. Arms ascend.
    Where pulls count before their rewards come, ``schedule(params, state, contexts, notes)`` is told of them, and
    ``release(params, state, contexts, notes, told)`` that the first `told` rewards have come and the others will not.
    """

    @cached_property
    def _notes(self) -> dict[int, NDArray[np.int64]]:
        """What `select` wrote for the arms of each open decision."""
        return {}

    @cached_property
    def _seat(self) -> LinearSeat:
        arms, notes = np.zeros((2, self.budget), np.int64)
        return LinearSeat(self._params, self._state, np.array([self._stream]), arms, notes, np.zeros(self.budget))

    in_loop: ClassVar[bool] = True
    """Whether the kernels choose decisions without asking anybody."""

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
        vars(self).pop("_seat", None)

    @cached_property
    def _entries(self) -> _LinearEntries:
        with compiling_for(self):
            return _linear_entries(self.kernels, self._seat.layout)

    def _select(self, number: int, contexts: NDArray[np.float64]) -> NDArray[np.int64]:  # type: ignore[override]
        size = min(self.budget, contexts.shape[0])
        self._entries.ask(self._seat.handle, contexts, number)
        self._notes[number] = self._seat.notes[:size].copy()
        return self._seat.arms[:size].copy()

    def _update(  # type: ignore[override]
        self, number: int, arms: NDArray[np.int64], contexts: NDArray[np.float64], rewards: NDArray[np.float64]
    ) -> None:
        notes, seat, n = self._notes[number], self._seat, arms.size
        # Of a decision told in part, the notes of the arms that were told.
        seat.notes[:n] = notes if n == notes.size else notes[np.searchsorted(self._open[number].arms, arms)]
        seat.rewards[:n] = rewards
        self._entries.tell(seat.handle, contexts, n)

    def _schedule(self, arms: NDArray[np.int64], contexts: NDArray[np.float64]) -> None:  # type: ignore[override]
        if (note := self._entries.note) is not None:
            note(self._seat.handle, contexts)

    def _release(self, arms: NDArray[np.int64], contexts: NDArray[np.float64]) -> None:  # type: ignore[override]
        if self.kernels.release is not None:
            self._entries.tell(self._seat.handle, contexts, 0)

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
