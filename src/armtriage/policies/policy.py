"""Policy: ask for a decision, tell its rewards, save and load."""

from __future__ import annotations

import copy
import inspect
import math
import os
import re
import secrets
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import cache, cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from armtriage._arguments import (
    LONGEST,
    as_numbers,
    check_arms,
    check_choice,
    check_count,
    check_flag,
    check_range,
)
from armtriage._files import read_archive, write_archive
from armtriage.arms import Name, Roster
from armtriage.certificate import Certificate, Tally, certificate_of
from armtriage.decisions import Decision, DecisionSet
from armtriage.errors import AlreadyTold, DamagedFile, UnknownDecision
from armtriage.graphs.feedback import FeedbackGraph, as_graph
from armtriage.kernels.random import check_seed, replication_seed
from armtriage.policies.facts import require, restore_arrays, within
from armtriage.policies.lock import locked, new_lock
from armtriage.policies.lost import PATIENCE
from armtriage.policies.options import DIRECTIONS, Options, spelled_out

__all__ = ["Policy", "kinds_of"]

_FORMAT = 2
_EITHER = ("budget", "decisions")
_NONE = np.empty(0, np.int64)
_ISOLATED = 64  # nodes that a saved network may have for each of its links: most have fewer than two


class Policy(ABC):
    """Chooses some arms each round, `budget` of them or a decision of a set, and learns from what they reveal.

    Any number of decisions may be open. Rewards come late, in any order, partly, or never: exploration goes by
    what has been asked, confidence by what has been told. A tell that raises has changed nothing.

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
    direction : {"maximize", "minimize"}
        With ``"minimize"`` what is told are costs, of which as few as possible are wanted.
    sleepers_seen : bool
        Whether a decision also shows the rewards of arms that were not eligible in its round.

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
    ) -> None:
        graph = as_graph(graph)
        if decisions is not None and type(self).__init__ is Policy.__init__:
            # Whoever has not thought of decision sets would play decisions that are in none.
            raise TypeError(f"{type(self).__name__} takes no decisions, got {decisions!r}")
        self.graph = graph
        self.decisions = decisions
        self.budget = _check_size(graph, budget, decisions)
        self.seed = check_seed(seed)
        self.reward_range = check_range(reward_range)
        self.direction = check_choice("direction", direction, DIRECTIONS)
        self.sleepers_seen = check_flag("sleepers_seen", sleepers_seen)
        self._roster = Roster(graph.n_arms, names)
        low, high = self.reward_range
        if decisions is not None and max(-low, high) > 1e9 * (high - low):
            # Decisions of different sizes are compared in units of the width, counted from 0.
            raise ValueError(f"reward_range must not lie 1e9 widths from 0 with decisions, got {reward_range!r}")
        self._id = secrets.token_hex(8)
        self._asked = 0
        self._open: dict[int, NDArray[np.int64]] = {}
        self._since = 0
        self._before: Tally | None = None
        self._missed: NDArray[np.int64] | None = None  # rewards in a row that did not come, once one did not
        self._last_shown = -1, _NONE
        self._lock = new_lock()

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "__init__" in vars(cls):
            function: Any = cls.__init__
            function.__signature__ = spelled_out(function, **(_defaults() | cls._own_defaults))

    _own_defaults: ClassVar[dict[str, Any]] = {}

    @property
    def names(self) -> list[Name] | None:
        """What the arms are called, by their numbers; None if they have no names."""
        return None if self._roster.names is None else self._roster.names.copy()

    @locked
    def __getstate__(self) -> dict[str, Any]:
        """Return a copy of all that is known, for pickle and copy: nobody changes it any more."""
        memo = {id(one): one for one in (self.graph, self.decisions)}
        return {
            name: copy.deepcopy(value, memo) for name, value in vars(self).items() if name not in self._of_this_process
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _lock=new_lock())

    _of_this_process: ClassVar[frozenset[str]] = frozenset({"_lock"})

    @abstractmethod
    def _select(self, number: int) -> NDArray[np.int64]:
        """Return the arms of round `number`, ascending."""

    @abstractmethod
    def _update(self, number: int, arms: NDArray[np.int64], rewards: NDArray[np.float64]) -> None:
        """Learn the rewards, mapped to [0, 1], of arms that decision `number` revealed."""

    def _schedule(self, arms: NDArray[np.int64]) -> None:  # noqa: B027 - optional
        """Note that rewards of these arms are on their way."""

    def _release(self, arms: NDArray[np.int64]) -> None:  # noqa: B027 - optional
        """Note that rewards of these arms will never come."""

    def _arrays(self) -> dict[str, NDArray[Any]]:
        """Return the state that `save` keeps."""
        return {}

    def _restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:  # noqa: B027 - optional
        """Take back what `_arrays` returned."""

    @property
    def n_arms(self) -> int:
        """Number of arms."""
        return self.graph.n_arms

    @property
    @locked
    def open_decisions(self) -> tuple[Decision, ...]:
        """The decisions that have been asked and not told, oldest first."""
        return tuple(self._decision(number) for number in self._open)

    def _decision(self, number: int) -> Decision:
        return Decision(number, self._open[number].copy(), self.graph, self._id)

    @locked
    def ask(self) -> Decision:
        """Return the next decision; it stays open until it is told."""
        decision = self._begin(self._select(self._asked))
        self.tally.pulls[self._open[decision.number]] += 1
        self._schedule(self._shown(decision.number))
        return decision

    def _begin(self, arms: NDArray[np.int64]) -> Decision:
        """Open the next decision."""
        number = self._asked
        self._open[number] = arms
        self._asked = number + 1
        return self._decision(number)

    @cached_property
    def _plain(self) -> bool:
        """Whether every arm reveals itself only."""
        return self.graph.n_edges == self.n_arms

    def _shown(self, number: int) -> NDArray[np.int64]:
        """Return the arms that an open decision reveals."""
        if self._plain:
            return self._open[number]
        # Mostly the decision that is told is the last one, and need not be looked up in the graph again.
        if number != self._last_shown[0]:
            self._last_shown = number, self.graph.revealed_by(self._open[number])
        return self._last_shown[1]

    @locked
    def tell(self, decision: Decision | int, rewards: Mapping[int, float] | ArrayLike) -> None:
        """Learn the rewards of a decision, once.

        Parameters
        ----------
        decision : Decision or int
            What `ask` returned, or its number.
        rewards : array_like or mapping
            One reward for each arm of ``decision.revealed``, in its order; or ``{arm: reward}``, where arms that
            are missing are taken as never observed (``{}`` gives the whole decision up). Which rewards arrive must not
            depend on their values, or means and intervals are those of the rewards that do.
        """
        number = self._find(decision)
        revealed = self._shown(number)
        if isinstance(rewards, Mapping):
            seen, values, missing = _from_mapping(rewards, revealed)
        else:
            seen, values, missing = revealed, _from_array(rewards, revealed), _NONE
        self._learn(number, seen, values, missing)
        if number < self._since and self._before is not None:
            self._before.counts[seen] += 1
            self._before.sums[seen] += self._to_unit(values)
        if missing.size and self._missed is None:
            self._missed = np.zeros(self.n_arms, np.int64)
        if self._missed is not None:
            self._missed[seen] = 0
            self._missed[missing] += 1

    def _learn(
        self, number: int, arms: NDArray[np.int64], rewards: NDArray[np.float64], missing: NDArray[np.int64]
    ) -> None:
        """Close a decision with the rewards that came, and without those that did not."""
        scaled = self._to_unit(self._check_rewards(rewards, arms))
        self.tally.counts[arms] += 1
        self.tally.sums[arms] += scaled
        self._update(number, arms, scaled)
        del self._open[number]
        if missing.size:
            self._release(missing)

    @cached_property
    def tally(self) -> Tally:
        """How often each arm was pulled and observed, and its rewards' sum on the unit scale, for certificates."""
        n = self.n_arms
        return Tally(np.zeros(n, np.int64), np.zeros(n, np.int64), np.zeros(n))

    @property
    def interval_failures(self) -> int:
        """How often an arm's new interval contradicted its old ones: a sign of drift, or of bad luck.

        0 for policies that keep no intervals, which notice nothing.
        """
        return 0

    @property
    def _silent(self) -> tuple[int, ...]:
        """The arms whose rewards have not come for some time."""
        return () if self._missed is None else tuple(np.flatnonzero(self._missed >= PATIENCE).tolist())

    @locked
    def start_window(self) -> int:
        """Begin a window with a certificate of its own, and return the number of its first decision, the next one.

        ``certificate(since=number)`` then is that of the decisions from there on, by their own rewards alone: also
        after the whole run's has withdrawn. Given all that came before, it fails with probability at most `delta`;
        so n windows fail with probability at most n `delta`. It knows sums only, and notices no drift inside the
        window. The last window is kept; start it before you know what it will show.

        Examples
        --------
        >>> from armtriage import ThompsonSampling
        >>> policy = ThompsonSampling(FeedbackGraph.semi_bandit(3), budget=1, seed=7)
        >>> policy.tell(policy.ask(), [1])
        >>> policy.certificate(since=policy.start_window()).rounds
        0
        """
        pulls, counts, sums = self.tally
        self._since, self._before = self._asked, Tally(pulls.copy(), counts.copy(), sums.copy())
        return self._since

    @locked
    def certificate(
        self, *, delta: float = 0.05, next_decision: ArrayLike | None = None, since: int = 0
    ) -> Certificate:
        """Return what the decisions so far, and one to come, can have lost; see `armtriage.certify`.

        Decisions that are still open count as made. When a reward is told, and whether, must not depend on its value.
        With `since`, the number that `start_window` returned, only the decisions from there on count.

        Examples
        --------
        >>> from armtriage import ThompsonSampling
        >>> policy = ThompsonSampling(FeedbackGraph.semi_bandit(3), budget=1, seed=7)
        >>> for _ in range(1000):
        ...     decision = policy.ask()
        ...     policy.tell(decision, decision.arms == 2)
        >>> policy.certificate().next_bound
        0.0
        """
        if self.decisions is not None:
            raise NotImplementedError("certificates are for decisions of budget arms, not yet for decision sets")
        tally = self.tally
        if since:
            if since != self._since or self._before is None:
                raise ValueError(f"since must be 0 or {self._since}, where the last window starts, got {since!r}")
            then = self._before
            tally = Tally(tally.pulls - then.pulls, tally.counts - then.counts, tally.sums - then.sums)
        return certificate_of(
            tally,
            self._asked - since,
            self.budget,
            delta=delta,
            reward_range=self.reward_range,
            next_decision=next_decision,
            contradictions=0 if since else self.interval_failures,
            since=since,
            silent=self._silent,
        )

    def _find(self, decision: Decision | int) -> int:
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
        if number not in self._open:
            raise AlreadyTold(f"decision {number} has been told already")
        return number

    def _check_rewards(self, values: NDArray[np.float64], arms: NDArray[np.int64]) -> NDArray[np.float64]:
        low, high = self.reward_range
        good = (values >= low) & (values <= high)
        if not good.all():
            bad = np.flatnonzero(~good)[0]
            raise self._out_of_range(values[bad], arms[bad])
        return values

    def _out_of_range(self, value: float, arm: int) -> ValueError:
        low, high = self.reward_range
        return ValueError(f"rewards must lie in [{low}, {high}] (reward_range), got {value} for arm {arm}")

    def _to_unit(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the rewards in the units of `_update`."""
        low, high = self.reward_range
        if (low, high) == (0.0, 1.0):
            return values
        return np.clip((values - low) / (high - low), 0.0, 1.0)

    @cached_property
    def _offset(self) -> float:
        """What a reward of 0 on the unit scale is worth on it; where all decisions have the same size, no matter."""
        low, high = self.reward_range
        if self.decisions is None or low == 0.0:
            return 0.0
        smallest = self.decisions.maximise(-np.ones(self.n_arms))
        assert smallest is not None
        return 0.0 if smallest.size == self.budget else low / (high - low)

    @property
    def config(self) -> dict[str, Any]:
        """The constructor's arguments, but for the graph: the attributes of the same names."""
        names = inspect.signature(type(self).__init__).parameters
        given = {name: getattr(self, name) for name in names if name not in ("self", "graph")}
        return given if self.decisions is None or "budget" not in given else {**given, "budget": None}

    def _saved_config(self) -> dict[str, Any]:
        """Return the arguments as `save` writes them, and `_make` reads them."""
        return {name: value for name, value in self.config.items() if name not in ("decisions", "names")}

    def _shown_config(self) -> dict[str, Any]:
        """Return the arguments without those options that few have any use for, unless they are used."""
        quiet = {name: _defaults()[name] for name in ("names", "direction", "sleepers_seen")}
        return {name: value for name, value in self.config.items() if name not in quiet or value != quiet[name]}

    def fresh(self, seed: int | None = None, replication: int = 0) -> Self:
        """Return a new policy with the same arguments that has learned nothing, for a replication of a seed."""
        own = replication_seed(self.seed if seed is None else check_seed(seed), replication)
        return self._make(self.graph, {**self.config, "seed": own})

    @classmethod
    def _make(cls, graph: FeedbackGraph, config: Mapping[str, Any]) -> Self:
        return cls(graph, **config)

    @locked
    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything, open decisions included, to `path`; an interrupted save leaves the old file whole."""
        header = {
            "format": _FORMAT,
            "policy": type(self).__name__,
            "config": self._saved_config(),
            "id": self._id,
            "asked": self._asked,
            "since": self._since,
        }
        arrays = {f"graph.{name}": array for name, array in self.graph.to_arrays().items()}
        if self.decisions is not None:
            arrays |= {f"decisions.{name}": array for name, array in self.decisions.to_arrays().items()}
        arrays |= {f"tally.{name}": array for name, array in self.tally._asdict().items()}
        if self._missed is not None:
            arrays["tally.missed"] = self._missed
        if self._before is not None:
            arrays |= {f"window.{name}": array for name, array in self._before._asdict().items()}
        arrays |= {f"open.{name}": array for name, array in self._open_arrays().items()}
        arrays |= {f"state.{name}": array for name, array in self._arrays().items()}
        write_archive(path, header, arrays)

    def _open_arrays(self) -> dict[str, NDArray[Any]]:
        """Return what `save` keeps of the open decisions, oldest first."""
        return {
            "numbers": np.array(list(self._open), dtype=np.int64),
            "sizes": np.array([arms.size for arms in self._open.values()], dtype=np.int64),
            "arms": np.concatenate([np.empty(0, np.int64), *self._open.values()]),
        }

    def _reopen(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take back what `_open_arrays` returned."""
        own = self._open_arrays()
        require(set(arrays) == set(own), f"open decisions must have {', '.join(own)}, got {', '.join(arrays)}")
        numbers, sizes, members = arrays["numbers"], arrays["sizes"], arrays["arms"]
        for name, array in (("numbers", numbers), ("sizes", sizes), ("arms", members)):
            require(array.ndim == 1 and array.dtype == np.int64, f"{name} of open decisions must be whole numbers")
        within("numbers of open decisions", numbers, 0, self._asked - 1)
        require(np.diff(numbers) > 0, "numbers of open decisions must rise")
        within("sizes of open decisions", sizes, self.budget if self.decisions is None else 0, self.budget)
        require(sizes.size == numbers.size and sizes.sum() == members.size, "open decisions have arms too many or few")
        parts = np.split(members, np.cumsum(sizes))[:-1]
        for arms in parts:
            require(np.diff(check_arms(arms, self.n_arms)) > 0, f"arms of an open decision must rise, got {arms}")
            if self.decisions is not None:
                require(self.decisions.contains(arms), f"{arms} is no decision of the set")
        self._open = dict(zip(numbers.tolist(), parts, strict=True))

    def _awaited(self) -> NDArray[np.int64]:
        """Return how many rewards of each arm open decisions have still to bring."""
        shown = [self._shown(number) for number in self._open]
        return np.bincount(np.concatenate([_NONE, *shown]), minlength=self.n_arms)

    def _restore_tally(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        own: dict[str, NDArray[Any]] = self.tally._asdict()
        if "missed" in arrays:
            self._missed = own["missed"] = np.zeros(self.n_arms, np.int64)
        require(set(arrays) == set(own), f"the tally must have {', '.join(own)}")
        restore_arrays(own, arrays)
        within("missed", own.get("missed", _NONE), 0, self._asked)
        pulls, counts, sums = self.tally
        within("pulls", pulls, 0, self._asked)
        within("counts", counts, 0, self._asked)
        within("sums", sums, 0.0, counts)
        # Contextual policies keep no tally.
        if self.decisions is None and pulls.any():
            require(pulls.sum() == self.budget * self._asked, "pulls must be those of all decisions")

    def _check_tallied(self, counts: NDArray[np.int64], sums: NDArray[np.float64] | None = None) -> None:
        """Refuse counts and sums of rewards that are not those of the tally."""
        require(np.array_equal(counts, self.tally.counts), "counts must be those of the tally")
        require(sums is None or np.array_equal(sums, self.tally.sums), "sums must be those of the tally")

    @classmethod
    def _check_sizes(cls, config: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        """Refuse a file that would have more made than it holds, before anything is made."""
        pulls, starts = arrays["tally.pulls"], arrays["graph.start"]
        require(pulls.shape == starts.shape, f"the tally has {pulls.size} arms, and the graph {starts.size}")
        if "decisions.n_arms" in arrays:
            require(np.array_equal(arrays["decisions.n_arms"], pulls.size), "decisions must be about the graph's arms")
        for name in {"decisions.left", "decisions.right", "decisions.n_nodes"} & set(arrays):
            within(name, arrays[name], 1, _ISOLATED * (pulls.size + 16))

    def _restore_window(self, since: int, arrays: Mapping[str, NDArray[Any]]) -> None:
        self.start_window()
        self._since, before = since, self._before
        assert before is not None
        require(set(arrays) == set(Tally._fields), f"a window must have {', '.join(Tally._fields)}")
        restore_arrays(before._asdict(), arrays)
        within("pulls before the window", before.pulls, 0, self.tally.pulls)
        within("counts before the window", before.counts, 0, self.tally.counts)
        within("sums before the window", before.sums, 0.0, before.counts)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Return the policy that `save` wrote; its future is the one the saved policy would have had."""
        header, arrays = read_archive(path)
        if header.get("format") != _FORMAT:
            raise DamagedFile(f"{os.fspath(path)} has format {header.get('format')!r}; this version reads {_FORMAT}")
        kinds, name = kinds_of(cls), str(header.get("policy"))[:80]
        if name not in kinds:
            raise DamagedFile(f"{os.fspath(path)} holds a {name}, not a {cls.__name__}")
        try:
            policy: Self = kinds[name]._from_parts(header, arrays)
        except (KeyError, TypeError, ValueError, OverflowError, RecursionError, MemoryError) as error:
            said = f"{error} is missing" if isinstance(error, KeyError) else str(error) or type(error).__name__
            raise DamagedFile(f"{os.fspath(path)} does not hold a whole {name}: {said}") from error
        return policy

    @classmethod
    def _from_parts(cls, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Return the policy that a file describes, if everything in it fits together."""
        parts = {part: _part(arrays, f"{part}.") for part in ("graph", "decisions", "open", "tally", "window", "state")}
        require(sum(map(len, parts.values())) == len(arrays), f"parts must be {', '.join(parts)}, and no others")
        config, asked, own = header["config"], header["asked"], header["id"]
        require(isinstance(config, dict), f"the arguments must have names, got {config!r}")
        if isinstance(asked, bool) or not isinstance(asked, int) or not 0 <= asked < LONGEST:
            raise ValueError(f"the number of decisions must be a whole number from 0, got {asked!r}")
        require(isinstance(own, str) and re.fullmatch("[0-9a-f]{16}", own), f"id must be 16 hex digits, got {own!r}")
        cls._check_sizes(config, arrays)
        graph = FeedbackGraph.from_arrays(parts["graph"])
        if parts["decisions"]:
            config = {**config, "decisions": DecisionSet.from_arrays(parts["decisions"])}
        policy = cls._make(graph, config)
        policy._id, policy._asked = own, asked
        policy._reopen(parts["open"])
        policy._restore_tally(parts["tally"])
        if parts["window"]:
            policy._restore_window(check_count("since", header["since"], 0, asked), parts["window"])
        policy._restore(parts["state"])
        return policy

    def __repr__(self) -> str:
        given = {
            name: value for name, value in self._shown_config().items() if name not in _EITHER or value is not None
        }
        shown = ", ".join(f"{name}={value!r}" for name, value in given.items())
        return f"{type(self).__name__}({self.graph!r}, {shown})"


@cache
def _defaults() -> dict[str, Any]:
    """Return the options of every policy, with what they are by default."""
    given = inspect.signature(Policy.__init__).parameters
    return {name: given[name].default for name in Options.__annotations__}


def kinds_of(kind: type[Any]) -> dict[str, type[Any]]:
    """Return the class and all that descend from it, by name."""
    kinds = {kind.__name__: kind}
    for child in kind.__subclasses__():
        kinds |= kinds_of(child)
    return kinds


def _part(arrays: Mapping[str, NDArray[Any]], prefix: str) -> dict[str, NDArray[Any]]:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


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


def _from_mapping(
    rewards: Mapping[int, float], revealed: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.int64]]:
    """Return the arms that are told, ascending, their rewards, and the revealed arms that are not."""
    for arm, reward in rewards.items():
        if isinstance(arm, bool) or not isinstance(arm, int | np.integer):
            raise TypeError(f"rewards must be keyed by arm numbers, got {arm!r}")
        if not isinstance(reward, int | float | np.integer | np.floating | np.bool_):
            raise TypeError(f"rewards must be numbers, got {reward!r} for arm {arm}")
        if not revealed.size or not 0 <= arm <= revealed[-1]:
            raise ValueError(f"rewards has arm {arm}, which the decision does not reveal")
    arms = np.array(sorted(rewards), dtype=np.int64)
    places = revealed.searchsorted(arms)
    if not np.array_equal(revealed[places], arms):
        stranger = arms[revealed[places] != arms][0]
        raise ValueError(f"rewards has arm {stranger}, which the decision does not reveal")
    missing = np.ones(revealed.size, bool)
    missing[places] = False
    return arms, np.array([_as_float(rewards[arm]) for arm in arms.tolist()]), revealed[missing]


def _as_float(reward: float) -> float:
    """Return the reward; an int that no float can hold is infinite, and out of every range."""
    try:
        return float(reward)
    except OverflowError:
        return math.inf if reward > 0 else -math.inf


def _from_array(rewards: ArrayLike, revealed: NDArray[np.int64]) -> NDArray[np.float64]:
    if isinstance(rewards, np.ma.MaskedArray) and np.ma.is_masked(rewards):
        raise ValueError("rewards has masked entries: tell {arm: reward} instead, without the arms that are masked")
    array = as_numbers("rewards", rewards)
    if array.shape != revealed.shape:
        raise ValueError(
            f"rewards must have one entry for each of the {revealed.size} revealed arms, got shape {array.shape}"
        )
    return np.array(array, dtype=np.float64)
