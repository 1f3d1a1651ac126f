"""Policy: ask for a decision, tell its rewards, let arms come and go."""

from __future__ import annotations

import copy
import inspect
import secrets
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, cached_property
from itertools import takewhile
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from armtriage._arguments import DIRECTIONS, as_numbers, check_choice, check_count, check_flag, check_range
from armtriage.arms import Name, Roster
from armtriage.certificate import Tally, offset_of
from armtriage.decisions import ArmSet, Decision, DecisionSet, Falling, check_floor
from armtriage.errors import AlreadyTold, UnknownDecision
from armtriage.graphs.feedback import FeedbackGraph, as_graph
from armtriage.kernels.random import check_seed, replication_seed, stream
from armtriage.kernels.record import Floats, Ints
from armtriage.policies.cascade import CascadePolicy
from armtriage.policies.changing import locked, new_lock
from armtriage.policies.facts import is_inside
from armtriage.policies.options import Options, spelled_out
from armtriage.policies.rewards import AboveCap, Told, capped, cut, from_array, from_mapping, paired
from armtriage.policies.saved import SavedPolicy, kinds_of

__all__ = ["LISTENS", "Policy", "in_order", "kinds_of"]

LISTENS = 1024
"""After so many decisions a policy looks whether their rewards come."""

_EITHER = ("budget", "decisions", "price")
_NONE = np.empty(0, np.int64)
Rewards = Mapping[Any, float] | ArrayLike


class Policy(CascadePolicy, SavedPolicy):
    """Chooses some arms each round, `budget` of them or a decision of a set, and learns from what they reveal.

    Any number of decisions may be open. Rewards come late, in any order, in parts, or never: exploration goes by
    what has been asked, confidence by what has been told. A call that raises has changed nothing.

    To write a policy of your own, subclass this with `_select` and `_update` (and `_arrays`, `_restore` if it has
    more state than its constructor arguments), then run `armtriage.check_policy` on it.

    Parameters
    ----------
    graph : FeedbackGraph or int
        Which arms a chosen arm reveals; a number of arms stands for arms that reveal themselves only.
    budget : int, optional
        How many arms a decision has (S in the paper), from 1 to ``graph.n_arms``. With `decisions` it is not given, and
        the attribute is the size of their largest.
    decisions : DecisionSet, optional
        Which decisions are allowed, instead of all those of `budget` arms; for policies whose constructor has it.
    names : sequence, optional
        What the arms are called: different str, int or tuples of them. Then arms are named wherever they are given, and
        come back named.
    seed : int, optional
        Fixes the policy's own randomness; None draws a fresh one, kept in `seed`.
    reward_range : tuple of float
        Smallest and largest possible reward, from -1e100 to 1e100; rewards are mapped from it to [0, 1].
    cap : float, optional
        For rewards without a largest one, such as revenue: those above it are told as they are and count as the cap,
        which is then the upper end of `reward_range`; certificates are of rewards that are cut, and `above_cap` says
        how much that left out. Choose it once, such as the 99% quantile of an old log. Not with contexts.
    direction : {"maximize", "minimize"}
        With ``"minimize"`` what is told are costs, of which as few as possible are wanted.
    sleepers_seen : bool
        Whether a decision also shows the rewards of arms that were not eligible in its round.
    logging_floor : float or Falling
        With this probability, each slot of a decision is given to another eligible arm at random, so that every one
        has a known probability (`Decision.inclusion`), and a log can say what others would have earned. It costs up to
        this share of what is earned, for ever, or less and less with a `Falling` one; 0 by default. For policies over
        slates without contexts.
    floor_arms : {"all", "open"}
        ``"open"`` exchanges open arms of the triage alone: it costs less and less, and eliminated arms are not logged.

    Examples
    --------
    >>> class First(Policy):
    ...     def _select(self, number):
    ...         return np.arange(self.budget)
    ...     def _update(self, number, arms, rewards):
    ...         pass
    >>> First(FeedbackGraph.semi_bandit(5), budget=2, seed=7).ask().arms
    array([0, 1])
    """

    _takes_floor: ClassVar[bool] = False
    learns_at_once: bool = False
    """Whether rewards that are told in parts are learned before their decision is closed."""

    def __init__(
        self,
        graph: FeedbackGraph | int,
        budget: int | None = None,
        *,
        decisions: DecisionSet | None = None,
        names: Sequence[Name] | None = None,
        seed: int | None = None,
        reward_range: tuple[float, float] = (0.0, 1.0),
        direction: str = "maximize",
        sleepers_seen: bool = False,
        cap: float | None = None,
        logging_floor: float | Falling = 0.0,
        floor_arms: str = "all",
        **unknown: Any,
    ) -> None:
        for name in unknown:
            takes = list(inspect.signature(type(self).__init__).parameters)[1:]
            raise TypeError(
                f"{type(self).__name__} takes no {name}, got {unknown[name]!r:.100}; it takes {', '.join(takes)}"
            )
        graph = as_graph(graph)
        own: Any = type(self).__init__
        if decisions is not None and (own is Policy.__init__ or "decisions" not in inspect.signature(own).parameters):
            # A policy that was not written for decision sets would play decisions that are in none.
            raise TypeError(f"{type(self).__name__} takes no decisions, got {decisions!r}")
        self._graph = graph
        self._new_edges: list[tuple[int, int]] = []
        self._plain = graph.n_edges == graph.n_arms
        self.decisions = decisions
        self.budget = _check_size(graph, budget, decisions)
        self.seed = check_seed(seed)
        self.reward_range = check_range(reward_range if cap is None else capped(reward_range, cap))
        self.cap = None if cap is None else self.reward_range[1]
        self._above = AboveCap()
        self.direction = check_choice("direction", direction, DIRECTIONS)
        self.sleepers_seen = check_flag("sleepers_seen", sleepers_seen)
        refused = "over a decision set" if decisions is not None else f"for a {type(self).__name__}"
        refused = "" if decisions is None and self._takes_floor else refused
        self.logging_floor, self.floor_arms = check_floor(logging_floor, floor_arms, refused)
        self._roster = Roster(graph.n_arms, names)
        low, high = self.reward_range
        if decisions is not None and max(-low, high) > 1e9 * (high - low):
            # Decisions of different sizes are compared in units of the width, counted from 0.
            raise ValueError(f"reward_range must not lie 1e9 widths from 0 with decisions, got {reward_range!r}")
        if decisions is not None:
            decisions.check_direction(self.direction, self.reward_range)
        self._id = secrets.token_hex(8)
        self._asked = 0
        self._open: dict[int, Decision] = {}
        self._parts: dict[int, dict[int, float]] = {}  # unit rewards that were told of decisions still open
        self._oldest = 0  # no decision before it is open
        self._complete: set[int] = set()  # open decisions of which all was told in parts, and older ones are open
        self._since = 0
        self._before: Tally | None = None
        self._missed: Ints | None = None  # rewards in a row that did not come, once one did not
        self._delays = None
        self._clock = None
        self._lock = new_lock()

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "__init__" in vars(cls):
            function: Any = cls.__init__
            function.__signature__ = spelled_out(function, super(cls, cls).__init__)

    @locked
    def __getstate__(self) -> dict[str, Any]:
        """Return a copy of all that is known, for pickle and copy, which does not change any more."""
        if self._roster.extra:
            self._take_in_arms()
        memo = {id(one): one for one in (self._graph, self.decisions)}
        return {
            name: copy.deepcopy(value, memo) for name, value in vars(self).items() if name not in self._of_this_process
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _lock=new_lock())

    _of_this_process: ClassVar[frozenset[str]] = frozenset({"_lock"})
    _books_sets = False  # whether `_book_set` is called for each decision

    @abstractmethod
    def _select(self, number: int) -> Ints:
        """Return the arms of round `number`, ascending."""

    @abstractmethod
    def _update(self, number: int, arms: Ints, rewards: Floats) -> None:
        """Learn the rewards, mapped to [0, 1], of arms that decision `number` revealed."""

    def _chosen(self, number: int, among: Ints | None) -> tuple[Ints, Floats | None]:
        """Return the arms of round `number` among those given, or all, ascending, and what is believed of them."""
        if among is not None:
            raise NotImplementedError(f"{type(self).__name__} cannot be asked with eligible: it has one set of arms")
        return self._select(number), None

    def _schedule(self, arms: Ints) -> None:
        """Note that rewards of these arms are on their way."""

    def _release(self, arms: Ints) -> None:
        """Note that rewards of these arms will never come."""

    def _adopt(self, number: int, own: Ints, arms: Ints, among: Any) -> None:
        """Note that `arms` are played instead of one's own choice."""

    @property
    def asked(self) -> int:
        """How many decisions have been made."""
        return self._asked

    @property
    @locked
    def open_decisions(self) -> tuple[Decision, ...]:
        """The decisions that have been asked and not closed, oldest first."""
        return tuple(one for number, one in self._open.items() if number not in self._complete)

    @locked
    def decision(self, number: int) -> Decision:
        """Return an open decision by its number.

        Examples
        --------
        >>> from armtriage import ThompsonSampling
        >>> policy = ThompsonSampling(3, budget=1, seed=7)
        >>> policy.ask() is policy.decision(0)
        True
        """
        return self._open[self._find(number)]

    @locked
    def ask(self, eligible: ArrayLike | Iterable[Any] | None = None) -> Decision:
        """Return the next decision; it stays open until it is told or closed.

        Parameters
        ----------
        eligible : array_like, optional
            The arms that may be chosen: a boolean for each arm, or their names (their numbers, if they have no names);
            by default all that are not retired. If there are no more than `budget` of them, the decision is all of
            them. Who is eligible may depend on everything but the rewards of this round.

        Examples
        --------
        >>> from armtriage import ThompsonSampling
        >>> policy = ThompsonSampling(3, budget=2, names=["tea", "milk", "jam"])
        >>> policy.ask(eligible=["jam"]).names
        ('jam',)
        """
        if self._delays is not None or self._clock is not None:
            self._eligible(eligible)  # what is refused has changed nothing
            self._grow_older()
        if eligible is None and not (self._roster.extra or self._roster.retired):
            return self._ask_all()
        among = self._eligible(eligible)
        self._check_some(among)
        return self._ask_all() if among is None else self._ask_among(among)

    @locked
    def ask_many(self, count: int) -> list[Decision]:
        """Return as many decisions as `count` calls of `ask` would.

        Examples
        --------
        >>> from armtriage import CombUCB1
        >>> [decision.arms.tolist() for decision in CombUCB1(4, budget=2).ask_many(2)]
        [[0, 1], [2, 3]]
        """
        return [self.ask() for _ in range(check_count("count", count))]

    @locked
    def record(
        self,
        arms: ArrayLike | Iterable[Any],
        contexts: Any = None,
        eligible: ArrayLike | Iterable[Any] | None = None,
    ) -> Decision:
        """Adopt a decision that was made elsewhere as the next one, and return it.

        Policies with the same seed that were told the same make the same decisions. So recording the decisions
        of a log, and telling its rewards, gives the policy that made them, `digest` included.

        Parameters
        ----------
        arms : array_like
            What was played: names, or numbers if the arms have no names. A list of rewards has their order.
        contexts : array_like, optional
            As they were given to `ask`.
        eligible : array_like, optional
            As it was given to `ask`.

        Examples
        --------
        >>> from armtriage import ThompsonSampling
        >>> one, other = ThompsonSampling(3, budget=1, seed=7), ThompsonSampling(3, budget=1, seed=7)
        >>> other.record(one.ask().arms).number
        0
        >>> one.digest() == other.digest()
        True
        """
        if contexts is not None:
            raise TypeError(f"contexts are for policies with contexts, got {contexts!r}")
        among = self._eligible(eligible)
        self._check_some(among)
        order = self._roster.numbers(arms, "arms")
        given = np.sort(order)
        self._check_decision(given, among)
        if self._delays is not None or self._clock is not None:
            self._grow_older()
            among = self._eligible(eligible)
        return self._recorded(self._ask_all(given) if among is None else self._ask_among(among, given), order)

    def _recorded(self, decision: Decision, order: Ints) -> Decision:
        """Return a decision in the order in which it was recorded."""
        return in_order(decision, order)

    def _check_some(self, among: Ints | None) -> None:
        """Refuse a request where there is no arm that could be chosen."""
        if among is not None and not among.size:
            raise ValueError(f"all {self.n_arms} arms are retired: restore or add some before the next decision")

    def _check_decision(self, arms: Ints, among: Ints | None, name: str = "arms") -> None:
        """Refuse arms, an argument of this name, that are no decision."""
        live = self._roster.live if among is None else among
        for arm in arms[~is_inside(arms, live)][:1] if among is not None else ():
            raise ValueError(f"{name} has {self._roster.said(arm)}, which is not eligible")
        if self.decisions is not None:
            if not self.decisions.contains(arms):
                raise ValueError(f"arms must be a decision of {self.decisions!r}, got {arms.tolist()}")
        elif arms.size != min(self.budget, live.size):
            raise ValueError(f"{name} must be {min(self.budget, live.size)} different arms, got {arms.tolist()}")

    def _ask_all(self, given: Ints | None = None) -> Decision:
        """Return the next decision where all arms are eligible."""
        return self._ask_slowly(None, given)

    def _ask_among(self, among: Ints, given: Ints | None = None) -> Decision:
        """Return the next decision among eligible arms."""
        self._check_eligible_allowed()
        return self._ask_slowly(among, given)

    def _ask_slowly(self, among: Ints | None, given: Ints | None) -> Decision:
        """Return the next decision, step by step; `given` are arms that were played in its place."""
        own, beliefs = self._chosen(self._asked, among)
        arms, beliefs, known = self._replaced(own, beliefs, among, given)
        if among is None:
            decision = self._begin(arms, beliefs=beliefs)
        else:
            shown = self._shown_among(arms, among)
            decision = self._begin(arms, among=ArmSet.of(among), shown=shown, beliefs=beliefs)
        self._note(among, arms, decision.shown)
        vars(decision).update(known)
        return decision

    def _replaced(
        self, own: Ints, beliefs: Floats | None, among: Ints | None, given: Ints | None
    ) -> tuple[Ints, Floats | None, dict[str, Any]]:
        """Return the arms that are played, what is believed of them, and what a decision keeps besides."""
        if given is None or np.array_equal(own, given):
            return own, beliefs, {}
        self._adopt(self._asked, own, given, among)
        return given, None, {}

    def _note(self, among: Ints | None, arms: Ints, shown: Ints) -> None:
        """Count a decision, and the rewards that it shows as on their way."""
        self.tally.pulls[arms] += 1
        self._schedule(shown)

    def _shown_among(self, arms: Ints, among: Ints) -> Ints:
        """Return the arms that a decision reveals: no retired ones, and no others asleep unless they are seen."""
        if self._plain:
            return arms
        shown = self.graph.revealed_by(arms)
        awake = self._roster.live if self.sleepers_seen else among
        return shown if awake.size == self.n_arms else np.intersect1d(shown, awake, assume_unique=True)

    def _begin(
        self,
        arms: Ints,
        *,
        contexts: Floats | None = None,
        among: ArmSet | None = None,
        shown: Ints | None = None,
        beliefs: Floats | None = None,
    ) -> Decision:
        """Open the next decision."""
        number = self._asked
        shown = arms if shown is None and self._plain else shown
        roster = self._roster
        decision = Decision(
            number, arms, self._graph, self._id, contexts, roster.names, among, shown, beliefs, roster.n_arms
        )
        self._open[number] = decision
        self._asked = number + 1
        if self._delays is not None:
            self._delays.begin(number, decision.shown.tolist())
        if self._books_sets:
            self._book_set(decision, among)
        if self._asked % LISTENS == 0:
            self._listen()
        return decision

    def _listen(self) -> None:
        """Look now and then whether rewards come, where something is to be said if they do not."""

    def _book_set(self, decision: Decision, among: ArmSet | None) -> None:
        """Book a decision by the set of arms that were eligible, where that is kept."""

    @locked
    def tell(
        self,
        decision: Decision | int,
        rewards: Rewards,
        *,
        arms: ArrayLike | Iterable[Any] | None = None,
        last: bool = True,
    ) -> None:
        """Learn the rewards of a decision, each once.

        Parameters
        ----------
        decision : Decision or int
            What `ask` returned, or its number.
        rewards : array_like or mapping
            ``{arm: reward}``, by name if the arms have names. Where they have none, also one reward for each arm of
            ``decision.revealed``, in its order. Which rewards arrive must not depend on their values, or means and
            intervals are those of the rewards that do.
        arms : array_like, optional
            The arms that a list of rewards is of, in its order, such as ``decision.ranked``.
        last : bool
            Whether this closes the decision: arms that are missing are then taken as never observed (``{}`` gives the
            whole decision up). With False others may follow, until all are there, or `close` says that no more will.
            Policies that play by samples or indices learn at once; intervals, and so triage and certificates, take all
            rewards of a decision together when it is closed. One that is closed because all have come waits for the
            decisions before it: which come early may then depend on their values.
        """
        number = self._find(decision)
        if last is not True:
            check_flag("last", last)
        one = self._open[number]
        if arms is not None:
            rewards = paired(arms, rewards, self._roster)
        if isinstance(rewards, Mapping):
            seen, values, missing = from_mapping(rewards, one.shown, self._roster)
        elif self._roster.names is not None:
            raise TypeError(
                "rewards must be {name: reward} where the arms have names, or have the names that they are of in arms, "
                f"got {rewards!r:.100}"
            )
        else:
            seen, values, missing = one.shown, from_array(rewards, one), _NONE
        self._tell(number, seen, values, missing, last)

    @locked
    def tell_revealed(self, decision: Decision, rewards: ArrayLike) -> None:
        """Learn one reward for each arm of ``decision.revealed``, in its order, also where the arms have names.

        For programs that look rewards up by the numbers of the arms, as `simulate` does.

        Examples
        --------
        >>> from armtriage import FeedbackGraph, ThompsonSampling
        >>> policy = ThompsonSampling(FeedbackGraph.cliques([2]), budget=1, names=["tea", "milk"])
        >>> policy.tell_revealed(policy.ask(), [0.2, 0.7])
        >>> policy.tally.sums
        array([0.2, 0.7])
        """
        number = self._find(decision)
        one = self._open[number]
        self._tell(number, one.shown, from_array(rewards, one), _NONE, True)

    def _tell(self, number: int, seen: Ints, values: Floats, missing: Ints, last: bool) -> None:
        """Learn rewards of arms, ascending."""
        above = None
        if self.cap is not None:
            if (bad := np.flatnonzero(~np.isfinite(values))).size:
                raise self._out_of_range(values[bad[0]], seen[bad[0]])
            values, above = cut(values, self.cap)
        if last and number not in self._parts and number >= self._roster.newest:
            self._learn(number, seen, values, missing)
            if self._delays is not None:
                self._delays.tell(number, dict(zip(seen.tolist(), self._to_unit(values).tolist(), strict=True)))
                self._delays.close(number)
            if missing.size or self._missed is not None:
                self._count_missed(seen, missing)
            if self._complete:
                self._settle_complete()
        else:
            self._tell_part(number, seen, values, last)
        if above is not None:
            self._above = AboveCap(self._above.rewards + above.rewards, self._above.excess + above.excess)
        if self._alarm is not None or self._trusted is not None:
            self._heed()

    def _count_missed(self, seen: Ints, missing: Ints) -> None:
        """Count rewards in a row that did not come."""
        if missing.size and self._missed is None:
            self._missed = np.zeros(self.n_arms, np.int64)
        if self._missed is not None:
            self._missed[seen] = 0
            self._missed[missing] += 1

    def _tell_part(self, number: int, seen: Ints, values: Floats, last: bool) -> None:
        """Learn some rewards of a decision, and close it if there are no more."""
        told = self._parts.get(number, {})
        for arm in seen.tolist():
            if arm in told:
                raise AlreadyTold(f"{self._roster.said(arm)} of decision {number} has been told already")
        scaled = self._to_unit(self._check_rewards(values, seen))
        counts = np.array([not self._roster.is_newer(arm, number) for arm in seen.tolist()], np.bool_)
        new = dict(zip(seen[counts].tolist(), scaled[counts].tolist(), strict=True))
        ignored = set(seen[~counts].tolist())
        if last:
            if self._delays is not None:
                self._delays.tell(number, new)
            self._close_with(number, new)
            if self._complete:
                self._settle_complete()
            return
        self._follow_delays()
        if self._delays is not None:
            self._delays.tell(number, new)
        if new and self.learns_at_once:
            self._teach(number, np.array(list(new), np.int64), np.array(list(new.values())))
        self._parts[number] = told | new | dict.fromkeys(ignored, 0.0)
        if set(self._still_shown(number)) <= set(self._parts[number]):
            self._complete.add(number)
            self._settle_complete()

    def _settle_complete(self) -> None:
        """Close decisions of which all was told in parts, as soon as no older one is open."""
        while self._open:
            while self._oldest not in self._open:
                # Step by step: a dict finds its first key slowly once many before it are gone.
                self._oldest += 1
            if self._oldest not in self._complete:
                return
            self._close_with(self._oldest, {})

    def _teach(self, number: int, arms: Ints, rewards: Floats) -> None:
        """Learn unit rewards of a decision that stays open."""
        self._update(number, arms, rewards)

    def _close_with(self, number: int, new: dict[int, float]) -> None:
        """Close a decision with the unit rewards that were told before and these; all others are lost.

        What is missing of one that is complete was not looked at.
        """
        old = {a: r for a, r in self._parts.pop(number, {}).items() if not self._roster.is_newer(a, number)}
        arms = np.array([*old, *new], np.int64)
        rewards = np.array([*old.values(), *new.values()])
        missing = np.array([arm for arm in self._still_shown(number) if arm not in old and arm not in new], np.int64)
        if self._delays is not None:
            self._delays.close(number)
        unseen = number in self._complete
        self._complete.discard(number)
        self._settle(Told(number, arms, rewards, len(old), missing, unseen))
        self._count_missed(arms, missing[:0] if unseen else missing)

    def _settle(self, told: Told) -> None:
        """Close a decision."""
        arms, rewards = told.arms, told.rewards
        self._count_before(told.number, arms, rewards)
        self.tally.counts[arms] += 1
        self.tally.sums[arms] += rewards
        self.tally.between[arms] += rewards * (1.0 - rewards)
        self._catch_up(told)
        if told.missing.size:
            self._release(told.missing)
        del self._open[told.number]

    def _catch_up(self, told: Told) -> None:
        """Learn the rewards of a decision that is closed, but for those that have been learned already."""
        arms, rewards, first = told.arms, told.rewards, told.known if self.learns_at_once else 0
        if first == 0:
            # As if all had been told together.
            order = np.argsort(arms)
            arms, rewards = arms[order], rewards[order]
        self._update(told.number, arms[first:], rewards[first:])

    def _count_before(self, number: int, arms: Ints, rewards: Floats) -> None:
        """Leave unit rewards of decisions before the window out of it."""
        if number < self._since and self._before is not None:
            self._before.counts[arms] += 1
            self._before.sums[arms] += rewards
            self._before.between[arms] += rewards * (1.0 - rewards)

    @locked
    def close(self, decision: Decision | int, *, default: float | None = None) -> None:
        """Give up what has not been told of a decision, or fill it; nothing happens to one that is closed already.

        A decision of which all rewards came in parts has been closed by the last of them.

        Parameters
        ----------
        decision : Decision or int
            What `ask` returned, or its number.
        default : float, optional
            The reward of every arm that has not been told, such as 0 for no click; by default they count as lost.

        Examples
        --------
        >>> from armtriage import ThompsonSampling
        >>> policy = ThompsonSampling(2, budget=2, names=["tea", "milk"])
        >>> decision = policy.ask()
        >>> policy.tell(decision, {"tea": 1}, last=False)
        >>> policy.close(decision, default=0)
        >>> policy.tally.counts, policy.tally.sums
        (array([1, 1]), array([1., 0.]))
        """
        number = self._number_of(decision)
        rest = self._checked_default(default)
        if self._is_open(number):
            self._close(number, rest)

    def _checked_default(self, default: float | None) -> float | None:
        """Return the reward of what was not told, if it may be one."""
        if default is None:
            return None
        values = np.array([float(as_numbers("default", default))])
        return float(self._check_rewards(values, np.zeros(1, np.int64), "default")[0])

    def _close(self, number: int, rest: float | None) -> None:
        if rest is not None:
            self._follow_delays()
            if self._delays is not None and not self._to_unit(np.array(rest)):
                # Of delays, a least reward that is filled in says nothing.
                self._delays.close(number)
        shown = self._open[number].shown
        told = self._parts.get(number)
        if told:
            shown = np.array([arm for arm in shown.tolist() if arm not in told], np.int64)
        if rest is None:
            self._tell(number, _NONE, np.empty(0), shown, True)
        else:
            self._tell(number, shown, np.full(shown.size, rest), _NONE, True)

    @locked
    def close_before(self, number: int, *, default: float | None = None) -> int:
        """Close every open decision before decision `number`, as `close` does; return how many there were.

        Examples
        --------
        >>> from armtriage import ThompsonSampling
        >>> policy = ThompsonSampling(2, budget=1)
        >>> decisions = policy.ask_many(3)
        >>> policy.close_before(2, default=0), len(policy.open_decisions)
        (2, 1)
        """
        limit = check_count("number", number)
        rest = self._checked_default(default)
        old = [one for one in takewhile(lambda one: one < limit, self._open) if one not in self._complete]
        for one in old:
            self._close(one, rest)
        return len(old)

    def _learn(self, number: int, arms: Ints, rewards: Floats, missing: Ints) -> None:
        """Close a decision with the rewards that came, all at once, and without those that did not."""
        scaled = self._to_unit(self._check_rewards(rewards, arms))
        self._settle(Told(number, arms, scaled, 0, missing))

    def _find(self, decision: Decision | int) -> int:
        """Return the number of an open decision."""
        number = self._number_of(decision)
        if not self._is_open(number):
            raise AlreadyTold(f"decision {number} has been told already")
        return number

    def _is_open(self, number: int) -> bool:
        """Whether anything of a decision may still be told."""
        return number in self._open and number not in self._complete

    def _number_of(self, decision: Decision | int) -> int:
        """Return the number of a decision that was made here."""
        if isinstance(decision, Decision):
            number = decision.number
            if decision.policy_id != self._id:
                raise UnknownDecision(f"decision {number} was made by another policy")
        elif isinstance(decision, int | np.integer) and not isinstance(decision, bool):
            number = int(decision)
        else:
            raise TypeError(f"decision must be a Decision or its number, got {decision!r}")
        if not 0 <= number < self._asked:
            raise UnknownDecision(f"decision {number} is unknown; this policy has made {self._asked}, from number 0")
        return number

    def _check_rewards(self, values: Floats, arms: Ints, argument: str = "rewards") -> Floats:
        low, high = self.reward_range
        good = (values >= low) & (values <= high)
        if not good.all():
            bad = np.flatnonzero(~good)[0]
            raise self._out_of_range(values[bad], arms[bad], argument)
        return values

    def _out_of_range(self, value: float, arm: int, argument: str = "rewards") -> ValueError:
        low, high = self.reward_range
        whose = "" if argument == "default" else f" for {self._roster.said(int(arm))}"
        if self.cap is not None and argument == "rewards":
            return ValueError(f"{argument} must be finite numbers from {low}, got {value}{whose}")
        return ValueError(f"{argument} must lie in [{low}, {high}] (reward_range), got {value}{whose}")

    @cached_property
    def _scale(self) -> tuple[float, float]:
        """Where the unit scale begins, and its width: what is wanted least is 0 on it, what is wanted most is 1."""
        low, high = self.reward_range
        return (low, high - low) if self.direction == "maximize" else (high, low - high)

    def _to_unit(self, values: Floats) -> Floats:
        """Return the rewards in the units of `_update`."""
        zero, width = self._scale
        if (zero, width) == (0.0, 1.0):
            return values
        return np.clip((values - zero) / width, 0.0, 1.0)

    @cached_property
    def _offset(self) -> float:
        """What a reward of 0 on the unit scale is worth on it; where all decisions have the same size, no matter."""
        return 0.0 if self.decisions is None else offset_of(self.decisions, self.reward_range, self.direction)

    @cached_property
    def _stream(self) -> np.uint64:
        """Where the policy's own random numbers come from."""
        return stream(self.seed, "policy")

    @property
    def config(self) -> dict[str, Any]:
        """The constructor's arguments, but for the graph: the attributes of the same names."""
        names = inspect.signature(type(self).__init__).parameters
        given = {name: getattr(self, name) for name in names if name not in ("self", "graph")}
        return given if self.decisions is None or "budget" not in given else {**given, "budget": None}

    def _shown_config(self) -> dict[str, Any]:
        """Return the arguments without those options that few have any use for, unless they are used."""
        quiet = {name: value for name, value in _defaults().items() if name not in ("seed", "reward_range")}
        quiet |= dict.fromkeys(("forget", "expected", "spread", "old_log", "bias"))
        return {name: value for name, value in self.config.items() if name not in quiet or value != quiet[name]}

    def fresh(self, seed: int | None = None, replication: int = 0) -> Self:
        """Return a new policy with the same arguments that has learned nothing, for a replication of a seed.

        Arms that were added since the policy was made are there from the beginning.
        """
        own = replication_seed(self.seed if seed is None else check_seed(seed), replication)
        return self._make(self.graph, {**self.config, "seed": own})

    def __repr__(self) -> str:
        given = {
            name: value for name, value in self._shown_config().items() if name not in _EITHER or value is not None
        }
        listed = ", ".join(f"{name}={value!r}" for name, value in given.items())
        return f"{type(self).__name__}({self.graph!r}, {listed})"


# What is refused by name is no argument.
_own = inspect.signature(Policy.__init__)
vars(Policy.__init__)["__signature__"] = _own.replace(parameters=list(_own.parameters.values())[:-1])


def in_order(decision: Decision, order: Ints) -> Decision:
    """Return a decision, of which lists of rewards have the order in which it was recorded."""
    vars(decision)["_beliefs"] = None  # what it would have been ranked by
    order.setflags(write=False)
    vars(decision)["order"] = None if order.tobytes() == decision.arms.tobytes() else order
    return decision


@cache
def _defaults() -> dict[str, Any]:
    """Return the options of every policy, with what they are by default."""
    given = inspect.signature(Policy.__init__).parameters
    return {name: given[name].default for name in Options.__annotations__}


def _check_size(graph: FeedbackGraph, budget: int | None, decisions: DecisionSet | None) -> int:
    """Return how many arms a decision has, at most."""
    if (budget is None) == (decisions is None):
        raise ValueError(f"either budget or decisions must be given, got budget={budget!r} and decisions={decisions!r}")
    if decisions is not None:
        if not isinstance(decisions, DecisionSet):
            raise TypeError(f"decisions must be a DecisionSet, got {type(decisions).__name__}")
        if decisions.n_arms != graph.n_arms:
            raise ValueError(f"decisions must have the {graph.n_arms} arms of graph, got {decisions.n_arms}")
        return decisions.size
    if isinstance(budget, bool) or not isinstance(budget, int | np.integer):
        raise TypeError(f"budget must be a whole number from 1 to {graph.n_arms}, got {budget!r}")
    if not 1 <= budget <= graph.n_arms:
        raise ValueError(f"budget must be a whole number from 1 to {graph.n_arms}, got {budget!r}")
    return int(budget)
