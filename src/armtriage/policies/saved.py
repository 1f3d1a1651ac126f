"""Saving and loading: everything that a policy knows, as a header and arrays, and what is checked of a file."""

from __future__ import annotations

import hashlib
import inspect
import json
import logging
import os
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from armtriage._arguments import LONGEST, check_arms, check_count, check_number
from armtriage._files import pack_archive, read_archive, unpack_archive, write_archive
from armtriage.arms import Roster
from armtriage.certificate import Tally
from armtriage.decisions import (
    ArmSet,
    Decision,
    DecisionSet,
    Falling,
    Floored,
    floor_at,
    pack_sets,
    unpack_sets,
)
from armtriage.errors import DamagedFile
from armtriage.graphs.feedback import FeedbackGraph, as_graph
from armtriage.kernels.record import Floats, Ints
from armtriage.policies.certified import CertifiedPolicy
from armtriage.policies.changing import locked
from armtriage.policies.delays import AgeingPolicy, Delays
from armtriage.policies.facts import is_inside, require, restore_arrays, with_later, within, without_squares
from armtriage.policies.old_log import old_log_from

_LOG = logging.getLogger("armtriage")
_FORMATS = (2, 3, 4)
_NONE = np.empty(0, np.int64)
_RENAMED = {"GuardedByArm": "GuardedLinear"}  # classes of before that are part of another one
_ISOLATED = 64  # nodes that a saved network may have for each of its links: most have fewer than two
_PARTS = (
    "graph",
    "decisions",
    "arms",
    "open",
    "evidence",
    "ghosts",
    "tally",
    "window",
    "rows",
    "features",
    "state",
    "delays",
    "alarm",
    "old_log",
    "fading",
)


class SavedPolicy(AgeingPolicy, CertifiedPolicy):
    """The part of every `armtriage.Policy` that saves, loads and compares."""

    if TYPE_CHECKING:

        @property
        def config(self) -> dict[str, Any]: ...  # noqa: D102
        def __getstate__(self) -> dict[str, Any]: ...
        def __setstate__(self, state: dict[str, Any]) -> None: ...

    def _arrays(self) -> dict[str, NDArray[Any]]:
        """Return the state that `save` keeps, beside the tally and open decisions."""
        return {}

    def _restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take back what `_arrays` returned."""

    def _saved_config(self) -> dict[str, Any]:
        """Return the arguments as `save` writes them, and `_make` reads them."""
        left_out = {"decisions", "names", "old_log"}
        # Files without these are as they were before there were any; a price or a cap of 0 is one.
        left_out |= {name for name in ("price", "forget", "cap", "expected", "spread") if self.config.get(name) is None}
        if not self.config.get("logging_floor"):
            left_out.add("logging_floor")
        if self.config.get("floor_arms") == "all":
            left_out.add("floor_arms")
        saved = {name: value for name, value in self.config.items() if name not in left_out}
        if isinstance(self.logging_floor, Falling):
            saved["logging_floor"] = self.logging_floor.facts()
        return saved

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the constructor's arguments by name, as scikit-learn has them; `deep` changes nothing.

        Examples
        --------
        >>> from armtriage import CombUCB1
        >>> CombUCB1(5, budget=2, exploration=0.5).get_params()["exploration"]
        0.5
        """
        own = {"graph": self.graph} if "graph" in inspect.signature(type(self).__init__).parameters else {}
        return own | self.config

    def set_params(self, **params: Any) -> Self:
        """Change arguments of the constructor before the first decision, and return the policy.

        Parameters
        ----------
        **params
            The arguments that change, by name.

        Raises
        ------
        ValueError
            If an argument has no such name, or the policy has made decisions: what it learned would be lost.

        Examples
        --------
        >>> from armtriage import CombUCB1
        >>> CombUCB1(5, budget=2, seed=7).set_params(exploration=0.5, budget=3)
        CombUCB1(FeedbackGraph(n_arms=5, n_edges=5), budget=3, exploration=0.5, ...)
        """
        if self._asked:
            say = "set_params must be called before the first decision"
            raise ValueError(f"{say}, this policy has made {self._asked:,}: make another one with fresh()")
        given = self.get_params()
        for name in params:
            if name not in given:
                raise ValueError(f"{name!r} is no argument of {type(self).__name__}, which takes {', '.join(given)}")
        changed = given | params
        graph = as_graph(changed.pop("graph", self.graph))
        state = self._make(graph, changed).__getstate__()
        vars(self).clear()
        self.__setstate__(state)
        return self

    def __sklearn_clone__(self) -> Self:
        """Return a policy with the same arguments, the seed among them, that has learned nothing."""
        return self._make(self.graph, self.config)

    @classmethod
    def _make(cls, graph: FeedbackGraph, config: Mapping[str, Any]) -> Self:
        make: Any = cls
        return make(graph, **config)  # type: ignore[no-any-return]

    def _contents(self, with_open: bool = True) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return all that a file keeps; open decisions come last."""
        known = self._known()
        header = {
            "format": self._format,
            "policy": type(self).__name__,
            "config": self._saved_config(),
            "id": self._id,
            "asked": self._asked,
            "since": self._since,
        }
        if self.cap is not None:
            header["above"] = [self._above.rewards, self._above.excess]
        arrays = {f"graph.{name}": array for name, array in self.graph.to_arrays().items()}
        if self.decisions is not None:
            arrays |= {f"decisions.{name}": array for name, array in self.decisions.to_arrays().items()}
        arrays |= {f"arms.{name}": array for name, array in self._roster.to_arrays().items()}
        arrays |= known
        if self._before is not None:
            window = {**self._before.columns, "exposures": self._exposed_before}
            arrays |= {f"window.{name}": array for name, array in window.items()}
        arrays |= {f"features.{name}": array for name, array in self._feature_arrays().items()}
        if with_open:
            arrays |= self._all_of_open()
        return header, arrays

    _format: int = 3
    """Of the files that `save` writes."""

    def _known(self) -> dict[str, NDArray[Any]]:
        """Return what a file keeps of the arms, and of the policy's own state."""
        known = {f"tally.{name}": array for name, array in self.tally.columns.items()}
        if self._missed is not None:
            known["tally.missed"] = self._missed
        return known | {f"state.{name}": array for name, array in self._arrays().items()}

    def _all_of_open(self) -> dict[str, NDArray[Any]]:
        """Return what a file keeps of open decisions, and of how long their rewards take."""
        arrays = {f"open.{name}": array for name, array in self._open_arrays().items()}
        if self._delays is not None:
            arrays |= {f"delays.{name}": array for name, array in self._delays.arrays().items()}
        return arrays

    def _feature_arrays(self) -> dict[str, NDArray[Any]]:
        """Return what was counted in raw rows, for policies that are asked with them."""
        return {}

    def _restore_features(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take back what `_feature_arrays` returned."""
        require(not arrays, "there must be no counts of features without any")

    @locked
    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything, open decisions included, to `path`; an interrupted save leaves the old file whole."""
        write_archive(path, *self._contents())
        _LOG.info("saved %s after %d decisions to %s", type(self).__name__, self._asked, os.fspath(path))

    @locked
    def to_bytes(self) -> bytes:
        """Return what `save` would write.

        Examples
        --------
        >>> from armtriage import Policy, ThompsonSampling
        >>> policy = ThompsonSampling(3, budget=1, seed=7)
        >>> Policy.from_bytes(policy.to_bytes()).digest() == policy.digest()
        True
        """
        return pack_archive(*self._contents())

    @locked
    def freeze(self) -> Callable[[], bytes]:
        """Return a function that makes what `to_bytes` would return now, later and in any thread.

        The policy may go on meanwhile: what takes long, the open decisions, is not copied but shared.

        Examples
        --------
        >>> from armtriage import Policy, ThompsonSampling
        >>> policy = ThompsonSampling(3, budget=1, seed=7)
        >>> before, later = policy.digest(), policy.freeze()
        >>> policy.ask().number
        0
        >>> Policy.from_bytes(later()).digest() == before
        True
        """
        shared = object.__new__(type(self))
        vars(shared).update(vars(self))
        # Decisions, notes and parts are never changed, but replaced.
        copies = {name: vars(self).get(name) for name in self._of_open}
        vars(shared).update({name: kept.copy() for name, kept in copies.items() if kept is not None})
        header, arrays = self._contents(with_open=False)
        copied = {name: array.copy() for name, array in arrays.items()}

        def later() -> bytes:
            return pack_archive(header, copied | shared._all_of_open())

        return later

    _of_open: ClassVar[tuple[str, ...]] = ("_open", "_parts", "_complete", "_notes", "_delays")
    """What belongs to open decisions: containers of things that do not change."""

    @locked
    def unsound(self) -> str:
        """Return which of the numbers that all else follows from cannot be; nothing, if all is well.

        Examples
        --------
        >>> from armtriage import ThompsonSampling
        >>> policy = ThompsonSampling(3, budget=1)
        >>> policy.tally.sums[1] = float("nan")
        >>> policy.unsound()
        'sums of rewards'
        """
        sums = self.tally.sums
        return "" if ((sums >= 0.0) & (sums <= self.tally.counts)).all() else "sums of rewards"

    @locked
    def digest(self) -> str:
        """Return a name of all that is known: policies that decided and were told the same have the same.

        What only saves time, and the `id` by which a policy knows its own decisions, do not count.
        """
        header, arrays = self._contents()
        text = json.dumps({**header, "id": None}, sort_keys=True, default=str)
        total = hashlib.sha256(text.encode())
        shapes: dict[str, tuple[int, ...]] = {}
        if "open.set_of" in arrays:
            # As lists one behind the other, which no file has any more: what is known has the same name as before.
            arrays = {name: array for name, array in arrays.items() if not name.startswith("open.set")}
            sizes = np.array([0 if one.among is None else one.among.size for one in self._open.values()], np.int64)
            arrays |= {"open.eligible": _NONE, "open.eligible_sizes": sizes}
            shapes["open.eligible"] = (int(sizes.sum()),)
        for name, array in sorted(arrays.items()):
            total.update(f"{name} {array.dtype.str} {shapes.get(name, array.shape)}".encode())
            total.update(np.ascontiguousarray(array).tobytes())
            for one in self._open.values() if name in shapes else ():
                if one.among is not None:
                    total.update(one.among.arms.tobytes())
        return total.hexdigest()

    def _open_arrays(self) -> dict[str, NDArray[Any]]:
        """Return what `save` keeps of the open decisions, oldest first."""
        decisions, told = list(self._open.values()), [*self._parts.items()]
        arrays = {
            "numbers": np.array(list(self._open), dtype=np.int64),
            "sizes": np.array([one.arms.size for one in decisions], dtype=np.int64),
            "arms": _joined([one.arms for one in decisions]),
        }
        if any(one.among is not None for one in decisions):
            arrays |= pack_sets([one.among for one in decisions])
        if not self._plain and (self._roster.extra or "set_of" in arrays):
            arrays["shown_sizes"] = np.array([one.shown.size for one in decisions], np.int64)
            arrays["shown"] = _joined([one.shown for one in decisions])
        if ordered := [one for one in decisions if one.order is not None]:
            arrays["ordered"] = np.array([one.number for one in ordered], np.int64)
            arrays["orders"] = _joined([one.order for one in ordered if one.order is not None])
        if floored := [one for one in decisions if one.proposal is not None]:
            arrays["floor_numbers"] = np.array([one.number for one in floored], np.int64)
            arrays["floor_outsiders"] = np.array([vars(one)["floored"].outsiders for one in floored], np.int64)
            arrays["floor_proposals"] = _joined([vars(one)["floored"].proposal for one in floored])
            if self.floor_arms == "open":
                swapped = [vars(one)["floored"].open for one in floored]
                arrays["floor_open_sizes"] = np.array([one.size for one in swapped], np.int64)
                arrays["floor_open"] = _joined(swapped)
        if told:
            arrays["told_numbers"] = np.array([number for number, _ in told], np.int64)
            arrays["told_sizes"] = np.array([len(part) for _, part in told], np.int64)
            arrays["told_complete"] = np.array([number in self._complete for number, _ in told], np.int64)
            arrays["told_arms"] = np.array([arm for _, part in told for arm in part], np.int64)
            arrays["told_rewards"] = np.array([reward for _, part in told for reward in part.values()], np.float64)
        return arrays

    def _reopen(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take back what `_open_arrays` returned."""
        given = dict(arrays)
        for name, array in given.items():
            kind = {"told_rewards": np.float64, "sets": np.uint8}.get(name, np.int64)
            require(array.ndim == 1 and array.dtype == kind, f"{name} of open decisions must be a list of numbers")
        numbers = given.pop("numbers")
        within("numbers of open decisions", numbers, 0, self._asked - 1)
        require(np.diff(numbers) > 0, "numbers of open decisions must rise")
        everybody: list[Any] = [None] * numbers.size
        arms = self._lists(given, "sizes", "arms", numbers.size)
        eligible = self._sets(given, numbers.size)
        shown = self._lists(given, "shown_sizes", "shown", numbers.size) if "shown" in given else everybody
        most = np.array([self.n_arms if one is None else one.size for one in eligible], np.int64)
        most = np.minimum(most, self.budget)
        least = 1 if any(one is not None for one in eligible) else most
        sizes = np.array([one.size for one in arms], np.int64)
        within("sizes of open decisions", sizes, 0 if self.decisions is not None else least, most)
        inside, graph, names = _NONE, self.graph, self._roster.names
        for i, number in enumerate(numbers.tolist()):
            if (among := eligible[i]) is not None:
                inside = inside if i and among is eligible[i - 1] else among.arms
                require(is_inside(arms[i], inside), "arms of open decisions must be eligible")
            if self.decisions is not None:
                require(self.decisions.contains(arms[i]), f"{arms[i]} is no decision of the set")
            seen = shown[i]
            if seen is not None:
                visible = graph.revealed_by(arms[i])
                require(np.isin(arms[i], seen).all() and np.isin(seen, visible).all(), "arms shown must be revealed")
            elif self._plain:
                seen = arms[i]
            self._open[number] = Decision(
                number,
                arms[i],
                graph,
                self._id,
                None,
                names,
                eligible[i],
                seen,
                n_arms=self._roster.n_arms_at(number),
            )
            vars(self._open[number])["loaded"] = True  # what it was ranked by is not kept
        self._oldest = int(numbers[0]) if numbers.size else self._asked
        if "ordered" in given:
            self._reopen_orders(given.pop("ordered"), given.pop("orders"))
        if "floor_numbers" in given:
            swapped: list[Any] = [None] * given["floor_numbers"].size
            if self.floor_arms == "open":
                swapped = self._lists(given, "floor_open_sizes", "floor_open", len(swapped))
            parts = [given.pop(f"floor_{name}") for name in ("numbers", "outsiders", "proposals")]
            self._reopen_floors(parts[0], parts[1], parts[2], swapped)
        if "told_numbers" in given:
            self._reopen_parts(given)
        require(not given, f"open decisions must have no {', '.join(given)}")

    def _sets(self, given: dict[str, NDArray[Any]], count: int) -> list[ArmSet | None]:
        """Return the set of eligible arms of each open decision."""
        if "set_of" in given:
            names = ("set_of", "set_bits", "set_bytes", "sets")
            found = unpack_sets({name: given.pop(name) for name in names}, self.n_arms)
            require(len(found) == count, "sets of eligible arms must be as many as open decisions")
            return found
        # Files of before have a list for each decision.
        listed = self._lists(given, "eligible_sizes", "eligible", count) if "eligible" in given else [_NONE] * count
        return [ArmSet.of(one) if one.size else None for one in listed]

    def _reopen_orders(self, numbers: Ints, members: Ints) -> None:
        """Take back the orders in which decisions were recorded."""
        for one, order in self._by_decision("orders", numbers, members):
            require(np.array_equal(np.sort(order), one.arms), "orders must be of the arms of their decisions")
            vars(one)["order"] = order

    def _by_decision(self, what: str, numbers: Ints, members: Ints) -> list[tuple[Decision, Ints]]:
        """Return some open decisions with as many arms each as they have, of a list for all of them."""
        require(np.diff(numbers) > 0, f"numbers of {what} must rise")
        require(all(number in self._open for number in numbers.tolist()), f"{what} are of open decisions only")
        decisions = [self._open[number] for number in numbers.tolist()]
        ends = np.cumsum([one.arms.size for one in decisions])
        require(ends.size and members.size == ends[-1], f"{what} of decisions are too long or short")
        return list(zip(decisions, np.split(members, ends[:-1]), strict=True))

    def _reopen_floors(self, numbers: Ints, outsiders: Ints, members: Ints, swapped: list[Any]) -> None:
        """Take back what was proposed before slots were given to others."""
        require(outsiders.size == numbers.size, "proposals must each have a number of other arms")
        within("other arms of proposals", outsiders, 0, self.n_arms)
        within("proposals", members, 0, self.n_arms - 1)
        found = self._by_decision("proposals", numbers, members)
        for (one, proposal), others, some in zip(found, outsiders.tolist(), swapped, strict=True):
            require(np.diff(proposal) > 0, "arms of proposals must rise")
            outside = others if some is None else int((~np.isin(some, proposal)).sum())
            require(others == outside, "other arms of proposals must be those that are exchanged")
            vars(one)["floored"] = Floored(proposal, floor_at(self.logging_floor, one.number), others, some)

    def _lists(self, given: dict[str, NDArray[Any]], sizes: str, name: str, count: int) -> list[Ints]:
        """Return lists of arms, each ascending, that stand one behind the other."""
        each, members = given.pop(sizes), given.pop(name)
        within(f"{sizes} of open decisions", each, 0, self.n_arms)
        require(each.size == count and each.sum() == members.size, f"{name} of open decisions are too many or few")
        check_arms(members, self.n_arms)
        first = np.zeros(members.size + 1, np.bool_)
        first[np.cumsum(each)] = True
        # Where a list begins, the last of the one before does not matter.
        rising = (np.diff(members) > 0) | first[1:-1] if members.size else True
        require(rising, f"{name} of an open decision must rise")
        ends = np.cumsum(each).tolist()
        return [members[start:stop] for start, stop in zip([0, *ends], ends, strict=False)]

    def _reopen_parts(self, given: dict[str, NDArray[Any]]) -> None:
        numbers, sizes, arms, complete = (
            given.pop(f"told_{name}") for name in ("numbers", "sizes", "arms", "complete")
        )
        rewards = given.pop("told_rewards")
        low = -1.0 if self._signed else 0.0
        within("rewards of open decisions", rewards, low, 1.0)
        within("told_sizes", sizes, 0, self.n_arms)
        within("told_complete", complete, 0, 1)
        require(
            complete.size == sizes.size == numbers.size and sizes.sum() == arms.size == rewards.size,
            "told rewards are odd",
        )
        require(np.unique(numbers).size == numbers.size, "told_numbers must be different")
        ends = np.cumsum(sizes)[:-1]
        for number, some, values in zip(numbers.tolist(), np.split(arms, ends), np.split(rewards, ends), strict=True):
            require(number in self._open, "rewards are told of open decisions only")
            right = np.unique(some).size == some.size and np.isin(some, self._open[number].shown).all()
            require(right, "rewards must be of arms that the decision reveals")
            self._parts[number] = dict(zip(some.tolist(), values.tolist(), strict=True))

        for number in numbers[complete > 0].tolist():
            require(
                set(self._still_shown(number)) <= set(self._parts[number]) or self._may_be_cascade(number),
                "complete decisions must have all rewards",
            )
            require(number != next(iter(self._open)), "the oldest open decision must have rewards to come")
            self._complete.add(number)

    def _may_be_cascade(self, number: int) -> bool:
        """Whether what was told of a decision can be a first click and what was above it."""
        told = [*self._parts[number].values()]
        plain = self.decisions is None and self._plain
        return plain and len(told) > 0 and set(told) <= {0.0, 1.0} and sum(told) <= 1.0

    _signed = False
    """Whether unit rewards may be negative."""

    def _awaited(self) -> Ints:
        """Return how many rewards of each arm open decisions have still to bring, by what is kept of the arms."""
        shown = [one.shown for one in self._open.values()]
        found = np.bincount(np.concatenate([_NONE, *shown]), minlength=self.n_arms)
        for number, one in self._open.items() if self._roster.extra else ():
            for arm in one.shown.tolist():
                found[arm] -= self._roster.is_newer(arm, number)
        return found - self._early() if self._settles_at_once else found

    @property
    def _settles_at_once(self) -> bool:
        """Whether a reward that is told in part is no longer on its way, before its decision is closed."""
        return self.learns_at_once

    def _early(self) -> Ints:
        """Return how many rewards of each arm were told of decisions that are still open."""
        newer = self._roster.is_newer
        told = [arm for number, part in self._parts.items() for arm in part if not newer(arm, number)]
        return np.bincount(np.array(told, np.int64), minlength=self.n_arms)

    def _restore_tally(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        own: dict[str, NDArray[Any]] = self.tally.columns
        if "missed" in arrays:
            self._missed = own["missed"] = np.zeros(self.n_arms, np.int64)
        restore_arrays(own, with_later(own, arrays))
        within("missed", own.get("missed", _NONE), 0, self._asked)
        pulls, counts, sums, between, _ = self.tally
        within("pulls", pulls, 0, self._asked)
        within("counts", counts, 0, self._asked)
        within("sums", sums, 0.0, counts)
        within("between", between, 0.0, counts / 4.0)
        # Contextual policies keep no tally.
        if self.decisions is None and pulls.any():
            require(pulls.sum() == self.budget * self._asked, "pulls must be those of all decisions")

    def _check_tallied(self, counts: Ints, sums: Floats | None = None) -> None:
        """Refuse counts and sums of rewards that are not those of the tally, and of what was told in parts."""
        early = self._early() if self._settles_at_once else 0
        require(np.array_equal(counts, self.tally.counts + early), "counts must be those of the tally")
        if sums is not None:
            total = self.tally.sums.copy()
            for part in self._parts.values() if self._settles_at_once else ():
                for arm, reward in part.items():
                    total[arm] += reward
            # Rewards in parts were added in another order.
            require(np.abs(sums - total) <= 1e-9 * (1.0 + counts), "sums must be those of the tally")

    @classmethod
    def _check_sizes(cls, config: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        """Refuse a file that would have more made than it holds, before anything is made."""
        kept = next((part for part in ("evidence", "rows") if f"{part}.pulls" in arrays), "tally")
        pulls, starts = arrays[f"{kept}.pulls"], arrays["graph.start"]
        if kept == "rows":
            require(pulls.ndim == 1 and pulls.size >= starts.size, "there must be a row for each arm of the graph")
        else:
            require(pulls.shape == starts.shape, f"the tally has {pulls.size} arms, and the graph {starts.size}")
        if "decisions.n_arms" in arrays:
            require(np.array_equal(arrays["decisions.n_arms"], pulls.size), "decisions must be about the graph's arms")
        for name in {"decisions.left", "decisions.right", "decisions.n_nodes"} & set(arrays):
            within(name, arrays[name], 1, _ISOLATED * (pulls.size + 16))

    def _restore_window(self, since: int, arrays: Mapping[str, NDArray[Any]]) -> None:
        self.start_window()
        now, self._since = self.tally, since
        names = [*now.columns, "exposures"]
        # Files of before do not say how often an arm was eligible: it always was. Nor how far rewards are from 0 and 1.
        size = arrays["pulls"].size
        given = {"exposures": np.full(size, since), "between": np.zeros(size), **arrays}
        require(set(given) == set(names), f"a window must have {', '.join(names)}")
        require(1 <= size <= self.n_arms, "a window must be about the arms that there were")
        before = Tally(np.zeros(size, np.int64), np.zeros(size, np.int64), np.zeros(size), np.zeros(size))
        self._before, self._exposed_before = before, np.zeros(size, np.int64)
        restore_arrays({**before.columns, "exposures": self._exposed_before}, given)
        within("pulls before the window", before.pulls, 0, self._asked)
        within("counts before the window", before.counts, 0, self._asked)
        within("sums before the window", before.sums, 0.0, before.counts)
        within("between before the window", before.between, 0.0, before.counts / 4.0)
        within("exposures before the window", self._exposed_before, before.pulls, since)
        if self._exposures is None:
            within("pulls before the window", before.pulls, 0, now.pulls)
            within("counts before the window", before.counts, 0, now.counts)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Return the policy that `save` wrote; its future is the one the saved policy would have had."""
        policy = cls._from_archive(os.fspath(path), *read_archive(path))
        _LOG.info("loaded %s after %d decisions from %s", type(policy).__name__, policy._asked, os.fspath(path))
        return policy

    @classmethod
    def from_bytes(cls, content: bytes) -> Self:
        """Return the policy that `to_bytes` gave."""
        if not isinstance(content, bytes | bytearray | memoryview):
            raise TypeError(f"content must be bytes, got {type(content).__name__}")
        return cls._from_archive("content", *unpack_archive("content", bytes(content)))

    @classmethod
    def _from_archive(cls, what: str, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        if header.get("format") not in _FORMATS:
            read = " and ".join(map(str, _FORMATS))
            raise DamagedFile(f"{what} has format {header.get('format')!r}; this version reads {read}")
        kinds, name = kinds_of(cls), str(header.get("policy"))[:80]
        name = _RENAMED.get(name, name)
        if name not in kinds:
            raise DamagedFile(f"{what} holds a {name}, not a {cls.__name__}")
        try:
            policy: Self = kinds[name]._from_parts(header, arrays)
        except (KeyError, TypeError, ValueError, OverflowError, RecursionError, MemoryError) as error:
            said = f"{error} is missing" if isinstance(error, KeyError) else str(error) or type(error).__name__
            raise DamagedFile(f"{what} does not hold a whole {name}: {said}") from error
        return policy

    @classmethod
    def _from_parts(cls, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Return the policy that a file describes, if everything in it fits together."""
        arrays = without_squares(arrays)
        parts = {part: part_of(arrays, f"{part}.") for part in _PARTS}
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
        if parts["old_log"]:
            config = {**config, "old_log": old_log_from(parts["old_log"])}
        policy = cls._make(graph, config)
        policy._id, policy._asked = own, asked
        policy._roster = Roster.from_arrays(parts["arms"], graph.n_arms, asked)
        policy._reopen(parts["open"])
        policy._restore_features(parts["features"])
        state = policy._restore_known(parts)
        if parts["delays"]:
            waiting = {number: policy._waiting(number) for number in policy._open}
            policy._delays = Delays.from_arrays(parts["delays"], waiting)
        if parts["window"]:
            policy._restore_window(check_count("since", header["since"], 0, asked), parts["window"])
        policy._restore(state)
        policy._restore_above(header.get("above"))
        return policy

    def _restore_above(self, above: Any) -> None:
        """Take back what was told above the cap."""
        require((above is not None) == (self.cap is not None), "what was above the cap must be there with a cap alone")
        if above is not None:
            require(isinstance(above, list) and len(above) == 2, f"above must be a number and a sum, got {above!r}")
            count, excess = check_count("above", above[0], 0, LONGEST), check_number("above", above[1])
            require(count > 0 or excess == 0.0, f"nothing can be above the cap in no reward, got {excess}")
            self._above = self._above._replace(rewards=count, excess=excess)

    def _restore_known(self, parts: Mapping[str, Mapping[str, NDArray[Any]]]) -> Mapping[str, NDArray[Any]]:
        """Take back what a file keeps of the arms; return what it keeps of the policy's own state."""
        require(not parts["evidence"] and not parts["ghosts"], f"a {type(self).__name__} keeps no evidence")
        require(not parts["rows"], f"a {type(self).__name__} keeps no rows of arms")
        require(not parts.get("alarm"), f"a {type(self).__name__} is not watched")
        require(not parts.get("old_log"), f"a {type(self).__name__} has no old log")
        self._restore_tally(parts["tally"])
        return parts["state"]


def kinds_of(kind: type[Any]) -> dict[str, type[Any]]:
    """Return the class and all that descend from it, by name."""
    kinds = {kind.__name__: kind}
    for child in kind.__subclasses__():
        kinds |= kinds_of(child)
    return kinds


def _joined(arrays: Sequence[Ints], size: int = 500) -> Ints:
    """Return arrays one after another; in pieces, so that other threads run in between."""
    pieces = [np.concatenate(arrays[at : at + size]) for at in range(0, len(arrays), size)]
    return np.concatenate([_NONE, *pieces])


def part_of(arrays: Mapping[str, NDArray[Any]], prefix: str) -> dict[str, NDArray[Any]]:
    """Return the arrays whose names begin with a prefix, without it."""
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
