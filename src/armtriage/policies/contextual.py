"""ContextualPolicy: a policy that is asked with a context vector for each arm."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, Self, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from armtriage._arguments import LONGEST, check_contexts, check_count, check_number
from armtriage.arms import Roster
from armtriage.decisions import ArmSet, Decision
from armtriage.graphs.feedback import FeedbackGraph
from armtriage.kernels.record import Floats, Ints
from armtriage.policies.changing import is_mask, locked
from armtriage.policies.facts import require, restore_arrays, within
from armtriage.policies.options import Options
from armtriage.policies.policy import Policy, in_order
from armtriage.policies.rewards import Told
from armtriage.triage import Triage

if TYPE_CHECKING:
    from armtriage.features import FeatureReport

Contexts = ArrayLike | Mapping[Any, Any] | Sequence[Mapping[str, Any]]
"""Rows of numbers, or whatever features take, one for each arm or by name; frames of pandas and polars are arrays."""

_SMALL = 1024  # dimensions up to which matrices are no burden, whatever a file says


class ContextualPolicy(Policy):
    """Chooses `budget` arms by their contexts, and learns one parameter that all arms share.

    A chosen arm reveals its own reward. Everything but `ask` is as for every `Policy`, except that exploration, too,
    goes by what has been told. An open decision keeps the contexts of its arms until it is told.

    To write one of your own, subclass this with ``_select(number, contexts)`` and
    ``_update(number, arms, contexts, rewards)``, then run `armtriage.check_policy` on it.

    Parameters
    ----------
    n_arms : int or None
        Number of arms (K in the paper). None, for policies that allow it: each request has as many candidates as
        contexts, which are numbered by their rows, or named by a mapping; if there are fewer than `budget`, all are
        played.
    dimension : int
        Length of a context (d in the paper).
    budget : int
        How many arms a decision has (S in the paper), from 1 to `n_arms`.
    seed : int, optional
        Fixes the policy's own randomness; None draws a fresh one, kept in `seed`.
    reward_range : tuple of float
        Smallest and largest possible reward. Rewards are divided by the larger of their absolute values, never
        shifted, which would not leave them linear.
    context_bound : float
        Largest possible norm of a context; contexts are divided by it.
    features : Features, optional
        Makes the contexts: then `ask` takes raw rows, of whatever kind `armtriage.Features` takes, and `dimension` must
        be that of the features. They are copied, and saved with the policy.
    names, direction, sleepers_seen, cap, logging_floor, floor_arms
        See `armtriage.Policy`.

    Examples
    --------
    >>> class Shortest(ContextualPolicy):
    ...     def _select(self, number, contexts):
    ...         return np.sort(np.argsort(np.linalg.norm(contexts, axis=1))[: self.budget])
    ...     def _update(self, number, arms, contexts, rewards):
    ...         pass
    >>> policy = Shortest(3, dimension=2, budget=1)
    >>> decision = policy.ask([[1.0, 0.0], [0.6, 0.0], [0.6, 0.8]])
    >>> decision.arms, decision.contexts
    (array([1]), array([[0.6, 0. ]]))
    >>> policy.tell(decision, [0.5])
    """

    learns_from_chosen_only: ClassVar[bool] = False
    """Whether all that is known follows from the contexts of the arms that were chosen, so that others may be lost."""

    def __init__(  # type: ignore[misc]  # an option that has another default here
        self,
        n_arms: int | None,
        dimension: int,
        budget: int,
        *,
        reward_range: tuple[float, float] = (-1.0, 1.0),
        context_bound: float = 1.0,
        features: Any = None,
        **options: Unpack[Options],
    ) -> None:
        self.features = None if features is None else _own_features(features)
        if self.features is not None and isinstance(dimension, int) and dimension == 0:
            dimension = self.features.dimension
        self.any_number = n_arms is None and self.takes_any_number
        if self.any_number and options.get("names") is not None:
            raise ValueError(
                f"names must be None where n_arms is None, got {options['names']!r:.100}: give n_arms, too, or ask "
                "with {name: row}, which names the candidates of each request"
            )
        if not isinstance(budget, bool) and budget == 0:
            raise ValueError(f"budget must be given, a whole number from 1 to {n_arms or 'any'}, got none or 0")
        if not isinstance(dimension, bool) and dimension == 0:
            raise ValueError(
                "dimension must be given, a whole number from 1, where there are no features, got none or 0"
            )
        if options.get("cap") is not None:
            raise NotImplementedError(f"cap is for policies without contexts, got {options['cap']!r}")
        name, room = ("budget", budget) if n_arms is None and self.any_number else ("n_arms", n_arms)
        graph = FeedbackGraph.semi_bandit(check_count(name, room, 1))  # type: ignore[arg-type]
        super().__init__(graph, budget, reward_range=reward_range, **options)
        self.dimension = check_count("dimension", dimension, 1)
        self.context_bound = check_number("context_bound", context_bound, positive=True)
        if not 1e-100 <= self.context_bound <= 1e100:
            raise ValueError(f"context_bound must lie in [1e-100, 1e100], got {context_bound!r}")
        self._odd, self._rows_read = np.zeros((2, 0), np.int64), 0  # what was counted in raw rows
        if self.features is not None:
            self._check_features(self.features)

    def _check_features(self, features: Any) -> None:
        if self.dimension != features.dimension:
            raise ValueError(f"dimension must be that of the features, {features.dimension}, got {self.dimension}")
        if self.context_bound < features.context_bound:
            least = f"at least that of the features, {features.context_bound}"
            raise ValueError(f"context_bound must be {least}, got {self.context_bound}")
        self._odd = np.zeros((2, len(features.columns)), np.int64)

    learns_at_once = True
    takes_any_number: ClassVar[bool] = False
    """Whether `n_arms` may be None."""
    _signed = True

    # A contextual policy is asked with contexts, and chooses and learns with them; in all else it is a Policy.
    @abstractmethod
    def _select(self, number: int, contexts: Floats) -> Ints:  # type: ignore[override]
        """Return the arms of round `number`, ascending; `contexts` (K, d) have norms of at most 1."""

    @abstractmethod
    def _update(  # type: ignore[override]
        self, number: int, arms: Ints, contexts: Floats, rewards: Floats
    ) -> None:
        """Learn the rewards, in [-1, 1], of arms of decision `number`, whose contexts are the rows of `contexts`."""

    def _schedule(self, arms: Ints, contexts: Floats) -> None:  # type: ignore[override]
        """Note that rewards of these arms, with these contexts, are on their way."""

    def _release(self, arms: Ints, contexts: Floats) -> None:  # type: ignore[override]
        """Note that rewards of these arms, with these contexts, will never come."""

    @locked
    def ask(self, contexts: Contexts, eligible: ArrayLike | Iterable[Any] | None = None) -> Decision:  # type: ignore[override]
        """Return the next decision; it stays open, with the contexts of its arms, until it is told or closed.

        Parameters
        ----------
        contexts : array_like, (n_arms, dimension), or mapping
            A row for each arm, of norm at most `context_bound`; or, with `eligible`, for each arm that is named there,
            in that order. ``{arm: row}`` says both at once. With ``n_arms=None``, a row for each candidate; or such a
            mapping, in which names that are new are new arms. With `features`, rows are whatever these take: a frame,
            dicts, an array, or ``{arm: dict}``. Where arms have names, the rows of a frame of pandas or polars are
            matched by its index, or by a column `arm` or `name`.
        eligible : array_like, optional
            The arms that may be chosen, see `armtriage.Policy.ask`.
        """
        return self._ask_raw(contexts, eligible, None)

    @locked
    def record(  # noqa: D102 - as in every policy
        self,
        arms: ArrayLike | Iterable[Any],
        contexts: Contexts | None = None,
        eligible: ArrayLike | Iterable[Any] | None = None,
    ) -> Decision:
        if contexts is None:
            raise TypeError("contexts must be given as they were to ask, got None")
        return self._ask_raw(contexts, eligible, arms)

    def _ask_raw(self, contexts: Any, eligible: Any, arms: Any) -> Decision:
        """Return the decision of a request in any form, or if they are given that of arms that were played."""
        contexts, eligible, odd = self._translated(contexts, eligible)
        contexts, eligible = self._request(contexts, eligible)
        order = None if arms is None else self._roster.numbers(arms, "arms")
        decision = self._ask_with(contexts, eligible, None if order is None else np.sort(order))
        if odd is not None:
            self._rows_read += odd[0]
            self._odd += odd[1]
        return decision if order is None else in_order(decision, order)

    def _translated(self, contexts: Any, eligible: Any) -> tuple[Any, Any, tuple[int, Ints] | None]:
        """Return a request with the contexts that the features make of raw rows, and what is to be counted of these."""
        names = self._names_in(contexts)
        if names is not None and eligible is not None:
            contexts, names, eligible = self._part_of(contexts, names, eligible)
        named = isinstance(contexts, Mapping) and not hasattr(contexts, "tocsr")  # some sparse matrices are mappings
        if self.features is None:
            return contexts if names is None else dict(zip(names, numbers_in(contexts), strict=True)), eligible, None
        rows, odd = self.features.read(list(contexts.values()) if named else contexts)
        found = list(contexts) if named else names
        return rows if found is None else dict(zip(found, rows, strict=True)), eligible, (len(rows), odd)

    def _names_in(self, contexts: Any) -> list[Any] | None:
        """Return the names of the arms that rows of a frame are of; None where rows go by their places."""
        if not is_frame(contexts) or (self.names is None and not (self.any_number and not self._asked)):
            return None
        return names_in(contexts, self._roster, () if self.features is None else self.features.columns)

    def _part_of(self, frame: Any, names: list[Any], eligible: Any) -> tuple[Any, list[Any], None]:
        """Return the rows of eligible arms, and their names."""
        among = self._eligible(eligible)
        wanted = self._roster.named(self._roster.live if among is None else among).tolist()
        place = {name: at for at, name in enumerate(names)}
        for name in wanted:
            if name not in place:
                raise ValueError(f"contexts must have a row for each eligible arm, got none for {name!r}")
        rows = [place[name] for name in wanted]
        return frame.iloc[rows] if hasattr(frame, "iloc") else frame[rows], wanted, None

    @property
    @locked
    def feature_report(self) -> FeatureReport:
        """How many values of the rows that were asked with had to be clipped, or were unknown or missing, by column."""
        if self.features is None:
            raise AttributeError(f"{type(self).__name__} has a feature_report with features only")
        report: FeatureReport = self.features.report_of(self._rows_read, self._odd)
        return report

    def _request(self, contexts: Any, eligible: Any) -> tuple[Any, Any]:
        """Return contexts and eligible arms of a request in one form, with room for all its candidates."""
        if isinstance(contexts, Mapping):
            if eligible is not None:
                raise ValueError("eligible must be None beside a mapping of contexts, which names the arms")
            if self.any_number:
                self._take_up(contexts)
            names = list(contexts)
            order = np.argsort(self._roster.numbers(names, "contexts")).tolist()
            given = list(contexts.values())
            return [given[place] for place in order], [names[place] for place in order]
        if self.any_number and self.names is not None:
            raise TypeError("contexts must be a mapping from arm to row, as before: the arms have names")
        if not self.any_number:
            return contexts, eligible
        if eligible is not None:
            raise ValueError("eligible must be None where n_arms is: leave out the rows of the others")
        shape = np.shape(contexts)
        if len(shape) != 2 or not shape[0]:
            raise ValueError(f"contexts must have a row of {self.dimension} numbers for each candidate, got {shape}")
        # Refused before anything is made larger.
        rows = check_contexts(contexts, shape[0], self.dimension, self.context_bound)
        if shape[0] > self.n_arms:
            self._make_room(max(shape[0], 2 * self.n_arms))
        return rows, None if shape[0] == self.n_arms else np.arange(shape[0])

    def _take_up(self, contexts: Mapping[Any, Any]) -> None:
        """Let the arms of a mapping have names, and new ones a place behind the others."""
        if self.names is None and self._asked:
            raise TypeError("contexts must be rows, as before: the arms have no names")
        # Refused before anything is made larger.
        check_contexts(list(contexts.values()), len(contexts), self.dimension, self.context_bound)
        old = self.names or []
        known = set(old)
        if new := [name for name in contexts if name not in known]:
            retired, roster = self._roster.retired, Roster(len(old) + len(new), [*old, *new])
            roster.retire(retired)
            self._graph, self._roster = FeedbackGraph.semi_bandit(roster.n_arms), roster
            self._grow()

    def _grow(self) -> None:
        """Make room for all arms there are."""
        vars(self).pop("_own_tally", None)
        if self._missed is not None:
            self._missed = np.append(self._missed, np.zeros(self.n_arms - self._missed.size, np.int64))

    def for_arms(self, n_arms: int) -> Self:
        """Return a new policy for so many arms if it is for any number of them, or else itself."""
        return self._make(self.graph, {**self.config, "n_arms": n_arms}) if self.any_number else self

    def _make_room(self, n_arms: int) -> None:
        """Let requests have up to so many candidates."""
        self._graph, self._roster = FeedbackGraph.semi_bandit(n_arms), Roster(n_arms)
        self._grow()

    @property
    def config(self) -> dict[str, Any]:
        """The constructor's arguments: the attributes of the same names, with no number of arms where there is none."""
        return {**super().config, "n_arms": None, "names": None} if self.any_number else super().config

    def _eligible(self, eligible: Any) -> Ints | None:
        found = super()._eligible(eligible)
        # All arms that there are now may be few of those that there will be.
        return self._roster.live if found is None and self.any_number and self.names is not None else found

    def _ask_with(self, contexts: Any, eligible: Any, given: Ints | None) -> Decision:
        among = self._eligible(eligible)
        self._check_some(among)
        rows = self._rows(contexts, eligible, among)
        if given is not None:
            self._check_decision(given, among)
        number = self._asked
        candidates = np.arange(self.n_arms) if among is None else among
        if given is None:
            chosen = self._choose(number, rows, candidates)
        else:
            chosen = np.searchsorted(candidates, given)
            self._overrule(number, rows, candidates, chosen)
        arms = candidates[chosen]
        decision = self._begin(arms, contexts=rows[chosen], among=None if among is None else ArmSet.of(among))
        self._schedule(arms, self._contexts_of(number, arms))
        return decision

    def _choose(self, number: int, contexts: Floats, candidates: Ints) -> Ints:
        """Return the rows of the candidates that are chosen, ascending."""
        return self._select(number, self._scaled(contexts))

    def _overrule(self, number: int, contexts: Floats, candidates: Ints, given: Ints) -> None:
        """Choose as always, though the rows in `given` are played."""
        self._choose(number, contexts, candidates)

    def _rows(self, contexts: ArrayLike, eligible: Any, among: Ints | None) -> Floats:
        """Return the contexts of the candidates, in the order of their numbers."""
        if among is None or np.shape(contexts)[:1] == (self.n_arms,):
            given = check_contexts(contexts, self.n_arms, self.dimension, self.context_bound)
            return given if among is None else given[among]
        given = check_contexts(contexts, among.size, self.dimension, self.context_bound)
        if eligible is None or is_mask(eligible):
            return given
        return given[np.argsort(self._roster.numbers(eligible, "eligible"))]

    def _check_change(self) -> None:
        raise NotImplementedError("arms cannot be added here: with contexts, ask with those of the arms there are")

    def certificate(self, *given: Any, **more: Any) -> NoReturn:
        """Refuse: with contexts an arm has no mean of its own to certify, and few policies keep what it takes."""
        raise NotImplementedError(
            "certificates need a constant mean for each arm, which arms with contexts have not; GuardedLinear has one"
        )

    @property
    def triage(self) -> Triage:
        """Nothing that a policy with contexts has: no arm is best in every round."""
        raise AttributeError(f"{type(self).__name__} has no triage: with contexts no arm is best in every round")

    def triage_of(self, eligible: ArrayLike | Iterable[Any] | None = None) -> Triage:
        """Refuse: with contexts no arm is best in every round."""
        raise NotImplementedError("a triage needs a constant mean for each arm, which arms with contexts have not")

    def _scaled(self, contexts: Floats) -> Floats:
        return contexts if self.context_bound == 1.0 else contexts / self.context_bound

    def _contexts_of(self, number: int, arms: Ints) -> Floats:
        """Return the scaled contexts of arms of an open decision."""
        decision = self._open[number]
        assert decision.contexts is not None
        rows = decision.contexts
        # A copy: for an array that cannot be written on, kernels would be compiled once more.
        return self._scaled(rows.copy() if arms.size == rows.shape[0] else rows[np.searchsorted(decision.arms, arms)])

    def _teach(self, number: int, arms: Ints, rewards: Floats) -> None:
        order = np.argsort(arms)
        arms, rewards = arms[order], rewards[order]
        self._update(number, arms, self._contexts_of(number, arms), rewards)

    def _settle(self, told: Told) -> None:
        number, known = told.number, told.known
        if known < told.arms.size or not told.arms.size:
            self._teach(number, told.arms[known:], told.rewards[known:])
        if told.missing.size:
            self._release(told.missing, self._contexts_of(number, told.missing))
        del self._open[number]

    def _to_unit(self, values: Floats) -> Floats:
        return values / (self.reward_unit if self.direction == "maximize" else -self.reward_unit)

    @property
    def reward_unit(self) -> float:
        """What rewards are divided by: the largest absolute value they can have."""
        return max(abs(end) for end in self.reward_range)

    def noise_in_units(self, noise_scale: float | None) -> float:
        """Return the sub-Gaussian scale of the noise after the division; half the range will always do."""
        low, high = self.reward_range
        scale = (high / 2 - low / 2 if noise_scale is None else noise_scale) / self.reward_unit
        return min(scale, 1e100)

    def _saved_config(self) -> dict[str, Any]:
        given = super()._saved_config()
        features = given.pop("features", None)
        return given if features is None else {**given, "features": features.facts()}

    def _shown_config(self) -> dict[str, Any]:
        return {name: one for name, one in super()._shown_config().items() if name != "features" or one is not None}

    def _feature_arrays(self) -> dict[str, NDArray[Any]]:
        return {} if self.features is None else {"rows": np.array(self._rows_read), "odd": self._odd}

    def _restore_features(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        if self.features is None:
            return super()._restore_features(arrays)
        rows = np.array(0)
        require(set(arrays) == {"rows", "odd"}, "features must have rows and odd")
        restore_arrays({"rows": rows, "odd": self._odd}, arrays)
        within("rows of features", rows, self._asked, LONGEST)
        within("odd values", self._odd, 0, rows - self._odd[::-1])  # a value is odd or missing, not both
        self._rows_read = int(rows)

    @classmethod
    def _make(cls, graph: FeedbackGraph, config: Mapping[str, Any]) -> Self:
        if isinstance(config.get("features"), Mapping):
            from armtriage.features import Features

            config = {**config, "features": Features.from_facts(config["features"])}
        policy = cls(**config)
        if policy.any_number and graph.n_arms != policy.n_arms:
            policy._make_room(graph.n_arms)
        return policy

    def _open_arrays(self) -> dict[str, NDArray[Any]]:
        kept = [decision.contexts for decision in self._open.values() if decision.contexts is not None]
        return {**super()._open_arrays(), "contexts": np.concatenate([np.empty((0, self.dimension)), *kept])}

    def _reopen(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        super()._reopen({name: array for name, array in arrays.items() if name != "contexts"})
        rows = np.zeros((sum(decision.arms.size for decision in self._open.values()), self.dimension))
        for decision, own in zip(self._open.values(), self._parted("contexts", arrays, rows), strict=True):
            vars(decision)["contexts"] = own
        check_contexts(rows, rows.shape[0], self.dimension, self.context_bound)

    def _parted(self, name: str, arrays: Mapping[str, NDArray[Any]], rows: NDArray[Any]) -> list[NDArray[Any]]:
        """Return the rows of a file that belong to each open decision, written into one array for all of them."""
        kept = arrays[name]
        if kept.size or rows.size:
            # Up to format 2 each decision had an array of its own.
            restore_arrays({name: rows}, {name: kept.reshape(-1, *kept.shape[kept.ndim - rows.ndim + 1 :])})
        return np.split(rows, np.cumsum([decision.arms.size for decision in self._open.values()]))[:-1]

    @classmethod
    def _check_sizes(cls, config: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        super()._check_sizes(config, arrays)
        held = arrays["tally.pulls"].size
        right = config["n_arms"] is None or config["n_arms"] == held
        require(right, f"n_arms is {config['n_arms']!r}, and the tally has {held} arms")
        room = max((array.size for array in arrays.values()), default=0)
        dimension = check_count("dimension", config["dimension"], 1)
        require(dimension**2 <= room or dimension <= _SMALL, f"no array has room for {dimension} dimensions")

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value!r}" for name, value in self._shown_config().items())
        return f"{type(self).__name__}({shown})"


def _own_features(features: Any) -> Any:
    """Return a copy of features, which cannot be fitted again elsewhere."""
    from armtriage.features import Features

    if type(features) is not Features:
        raise TypeError(f"features must be Features, got {type(features).__name__}")
    return Features.from_facts(features.facts())


_COLUMNS = ("arm", "name")  # what a column with the names of the arms may be called


def is_frame(rows: Any) -> bool:
    """Whether rows are a frame of pandas or polars."""
    return hasattr(rows, "columns") and (hasattr(rows, "iloc") or hasattr(rows, "get_column"))


def names_in(frame: Any, roster: Roster, used: Collection[Any]) -> list[Any] | None:
    """Return the arms that the rows of a frame are of: its index, or a column `arm` or `name` that is not `used`.

    An index of whole numbers counts only if arms have such names: pandas numbers rows, and a part of them has gaps.
    """
    index = getattr(frame, "index", None)
    found = None if index is None or _is_default(index) else index.tolist()
    if found is not None and all(isinstance(one, int) for one in found) and not set(found) & set(roster.names or ()):
        found = None
    if found is None and (column := _column(frame, used)) is not None:
        found = list(frame[column])
    if found is not None and len(set(found)) < len(found):
        twice = next(one for place, one in enumerate(found) if one in found[:place])
        raise ValueError(f"contexts must have one row for each arm, got more for {twice!r}")
    if found is None and roster.names is not None:
        raise TypeError(
            "contexts must have the names of the arms as index, or in a column 'arm' or 'name', since the arms have "
            f"names, got a frame with the columns {list(frame.columns)!r:.200}"
        )
    return found


def numbers_in(frame: Any) -> NDArray[Any]:
    """Return all of a frame but a column with the names of the arms."""
    column = _column(frame, ())
    return np.column_stack([np.asarray(frame[one]) for one in frame.columns if one != column])


def _column(frame: Any, used: Collection[Any]) -> str | None:
    return next((one for one in _COLUMNS if one in frame.columns and one not in used), None)


def _is_default(index: Any) -> bool:
    """Whether an index is what pandas numbers rows with, if nothing is said."""
    return type(index).__name__ == "RangeIndex" and index.start == 0 and index.step == 1
