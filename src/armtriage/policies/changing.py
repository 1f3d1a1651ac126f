"""What lies under all parts of a policy: its fields, its lock, and its arms, who is eligible and how they come and go.

There is one lock for each policy: calls from several threads take turns, and a fork waits until none is under way.
"""

from __future__ import annotations

import copy
import functools
import os
import threading
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from armtriage._arguments import check_flag
from armtriage.arms import Arms, Name, Roster
from armtriage.graphs.feedback import FeedbackGraph
from armtriage.kernels.record import Ints

if TYPE_CHECKING:
    from armtriage.alarm import DriftAlarm
    from armtriage.certificate import Tally
    from armtriage.decisions import Decision, DecisionSet, Falling
    from armtriage.policies.delays import Delays
    from armtriage.policies.rewards import AboveCap

F = TypeVar("F", bound=Callable[..., Any])

_locks: weakref.WeakSet[Any] = weakref.WeakSet()
_held: list[Any] = []
_PATIENCE = 5.0  # seconds: a proposer that forks while another thread waits for its policy would wait for ever


def new_lock() -> Any:
    """Return a lock that a thread may take several times, and that a forked process finds free."""
    lock = threading.RLock()
    _locks.add(lock)
    return lock


def locked(method: F) -> F:
    """Let a method of a policy have the policy's lock while it runs."""

    @functools.wraps(method)
    def alone(self: Any, *arguments: Any, **named: Any) -> Any:
        with self._lock:
            return method(self, *arguments, **named)

    return alone  # type: ignore[return-value]


def _take_all() -> None:
    _held.extend(lock for lock in list(_locks) if lock.acquire(timeout=_PATIENCE))


def _free_all() -> None:
    while _held:
        _held.pop().release()


if hasattr(os, "register_at_fork"):
    # The child has the forking thread only: a lock that another one held would never be free there, and what that one
    # was writing would stay half written.
    os.register_at_fork(before=_take_all, after_in_parent=_free_all, after_in_child=_free_all)


class ChangingPolicy:
    """The part of every `armtriage.Policy` that knows which arms there are, and the fields that all parts share."""

    budget: int
    cap: float | None
    decisions: DecisionSet | None
    direction: str
    floor_arms: str
    learns_at_once: bool
    logging_floor: float | Falling
    reward_range: tuple[float, float]
    _above: AboveCap
    _alarm: DriftAlarm | None = None
    _asked: int
    _before: Tally | None
    _began: int = 0  # the decision from which on anything is known
    _clock: int | None  # milliseconds
    _complete: set[int]  # open decisions of which all was told in parts, and older ones are open
    _delays: Delays | None  # of rewards, once they have been told in parts
    _exposed_before: Ints
    _graph: FeedbackGraph
    _id: str
    _lock: Any
    _missed: Ints | None  # rewards in a row that did not come, once one did not
    _new_edges: list[tuple[int, int]]
    _oldest: int  # no decision before it is open
    _open: dict[int, Decision]
    _parts: dict[int, dict[int, float]]  # unit rewards that were told of decisions still open
    _plain: bool
    _roster: Roster
    _since: int
    _trusted: Any = None  # what an old log says of the arms

    @property
    def graph(self) -> FeedbackGraph:
        """Which arms a chosen arm reveals, with the arms that were added."""
        return self._graph_before(self._roster.n_arms)

    @property
    def n_arms(self) -> int:
        """Number of arms, retired ones included."""
        return self._roster.n_arms

    @property
    def names(self) -> list[Name] | None:
        """What the arms are called, by their numbers; None if they have no names."""
        return None if self._roster.names is None else self._roster.names.copy()

    @property
    @locked
    def arms(self) -> Arms:
        """What is known of each arm beside its rewards: name, first decision, whether it is retired, share of delta."""
        return self._roster.view()

    def _eligible(self, eligible: Any) -> Ints | None:
        """Return the eligible arms, ascending; None if those are all there are, and it has never been otherwise."""
        roster = self._roster
        if eligible is None:
            return roster.live if roster.changed else None
        found = np.flatnonzero(self._mask(eligible))
        if not found.size:
            raise ValueError("eligible must name an arm or more, got none")
        everybody = found.size == roster.n_arms and not roster.changed
        return None if everybody else found

    def _mask(self, eligible: Any) -> NDArray[np.bool_]:
        """Return a boolean for each arm, whether it may be chosen; by default all that are not retired."""
        roster, n = self._roster, self._roster.n_arms
        if eligible is not None and is_mask(eligible):
            mask = np.asarray(eligible)
            if mask.shape != (n,):
                raise ValueError(f"eligible must have a boolean for each of {n} arms, got {mask.shape}")
        else:
            mask = np.zeros(n, np.bool_)
            mask[roster.live if eligible is None else roster.numbers(eligible, "eligible")] = True
        for arm in roster.retired if roster.retired and eligible is not None else ():
            if mask[arm]:
                raise ValueError(f"eligible has {roster.said(arm)}, which is retired")
        return mask

    @locked
    def add_arms(
        self,
        names: Sequence[Name] | int,
        *,
        shows: Mapping[Any, Iterable[Any]] | None = None,
        shown_by: Mapping[Any, Iterable[Any]] | None = None,
        like: Any = None,
    ) -> Ints:
        """Take up new arms, about which nothing is known, and return their numbers.

        Intervals of the arms that were there from the beginning share `delta`, and those of all that come later share
        a second one: from the first on, certificates hold with probability 1 - 2 delta.

        Parameters
        ----------
        names : sequence or int
            What they are called; how many there are, if the arms have no names.
        shows, shown_by : mapping, optional
            For new arms, the arms whose rewards they reveal, and the arms that reveal theirs; new ones by name or, if
            there are no names, by number.
        like : name or int, optional
            An arm whose clique they join: they reveal what it reveals and each other, and are revealed by the same.

        Examples
        --------
        >>> from armtriage import ThompsonSampling
        >>> policy = ThompsonSampling(2, budget=1, names=["tea", "milk"])
        >>> policy.add_arms(["jam"])
        array([2])
        >>> policy.ask(eligible=["jam"]).names
        ('jam',)
        """
        self._check_change()
        self._check_eligible_allowed()
        roster = copy.deepcopy(self._roster) if shows or shown_by else self._roster
        model = None if like is None else roster.number(like, "like")
        new = roster.add(names, self._asked)
        edges: list[tuple[int, int]] = []
        for argument, given in (("shows", shows), ("shown_by", shown_by)):
            for name, others in (given or {}).items():
                arm = roster.number(name, argument)
                if arm < new[0]:
                    raise ValueError(f"{argument} must be of new arms, got {roster.said(arm)}")
                pairs = [(arm, other) for other in roster.numbers(others, argument).tolist()]
                edges += pairs if argument == "shows" else [(b, a) for a, b in pairs]
        self._roster = roster
        if model is not None:
            graph = self._graph_before(int(new[0]))
            sight = graph.revealed_by(model)
            showing = [arm for arm in sight.tolist() if model in graph.revealed_by(arm)]
            edges += [(a, b) for a in new.tolist() for b in [*sight.tolist(), *new.tolist()] if a != b]
            edges += [(a, b) for a in showing for b in new.tolist()]
        if edges:
            self._new_edges += edges
            self._plain = False
        self._take_in_arms()
        return new

    def _take_in_arms(self) -> None:
        """Have rows for arms that were added, whose rewards may come before the next ask."""

    def _graph_before(self, n_arms: int) -> FeedbackGraph:
        """Return the graph of the first `n_arms` arms, of which some may just have been added."""
        if self._graph.n_arms < n_arms:
            self._graph = self._graph.with_arms(n_arms - self._graph.n_arms, self._new_edges)
            self._new_edges = []
        return self._graph

    def _check_change(self) -> None:
        """Refuse new arms where there can be none."""
        if self.decisions is not None:
            raise ValueError(f"arms cannot be added to {self.decisions!r}: make a policy for the larger set")
        if not self._may_change:
            raise NotImplementedError(f"the arms of a {type(self).__name__} cannot change: it has one set of arms")

    @property
    def _may_change(self) -> bool:
        """Whether arms may be added, and other arms be eligible in every round."""
        return False

    @locked
    def retire_arms(self, arms: Iterable[Any]) -> None:
        """Let arms be in no decision from now on; rewards that are on their way still count.

        Over a decision set, some decision must be left without them.

        Examples
        --------
        >>> from armtriage import ThompsonSampling
        >>> policy = ThompsonSampling(2, budget=2, names=["tea", "milk"])
        >>> policy.retire_arms(["milk"])
        >>> policy.ask().names
        ('tea',)
        """
        found, gone = self._roster.numbers(arms, "arms").tolist(), self._roster.retired
        nothing, decisions = np.zeros(self.n_arms), self.decisions
        if decisions is not None and found and decisions.maximise(nothing, exclude=[*gone.union(found)]) is None:
            named, beside = list(map(self._roster.name, found)), f" beside {len(gone)} retired ones" if gone else ""
            raise ValueError(f"arms must leave a decision of {decisions!r}, got {named}{beside}")
        self._retire(found)

    def _retire(self, found: list[int]) -> None:
        """Retire arms by number, though no decision may be left: logs of earlier versions have such retirements."""
        for arm in self._roster.retired.intersection(found):
            raise ValueError(f"arms has {self._roster.said(arm)}, which is retired already")
        if found:
            self._check_eligible_allowed()
        self._roster.retire(found)
        self._note_live()

    def _note_live(self) -> None:
        """Follow arms that have been retired or restored, which is rare, so that no ask has to look."""

    def _check_eligible_allowed(self) -> None:
        """Refuse requests that differ, where the policy's guarantee is about one set of arms."""

    @locked
    def restore_arms(self, arms: Iterable[Any], *, forget: bool = False) -> None:
        """Let retired arms be played again: with all that was known of them, or as new ones.

        Parameters
        ----------
        arms : iterable
            Names, or numbers if the arms have no names.
        forget : bool
            Begin again with nothing known, for an arm that is no longer what it was. It then has a share of delta as an
            added arm has, and rewards of decisions from before are ignored.

        Examples
        --------
        >>> from armtriage import ThompsonSampling
        >>> policy = ThompsonSampling(2, budget=1, names=["tea", "milk"])
        >>> policy.retire_arms(["milk"])
        >>> policy.restore_arms(["milk"], forget=True)
        >>> policy.arms.retired
        array([False, False])
        """
        check_flag("forget", forget)
        found = self._roster.numbers(arms, "arms").tolist()
        for arm in found:
            if arm not in self._roster.retired:
                raise ValueError(f"arms has {self._roster.said(arm)}, which is not retired")
        if forget and found:
            self._check_change()
            self._take_in_arms()
            # A window would compare what the arm was with what it is.
            self._since, self._before = 0, None
            for part in self._parts.values():
                for arm in found:
                    part.pop(arm, None)
            if self._delays is not None:
                self._delays.forget(found)
            self._forget(found)
        self._roster.restore(found, self._asked if forget else None)
        if forget and found:
            self._share_again(found)
        self._note_live()

    def _forget(self, arms: list[int]) -> None:
        """Let nothing be known of arms."""

    def _share_again(self, arms: list[int]) -> None:
        """Let arms have the shares of delta that they have been given."""


def is_mask(eligible: Any) -> bool:
    """Whether eligible arms are given as a boolean for each arm."""
    if isinstance(eligible, np.ndarray):
        return bool(eligible.dtype == np.bool_)
    return isinstance(eligible, list) and bool(eligible) and all(isinstance(one, bool | np.bool_) for one in eligible)
