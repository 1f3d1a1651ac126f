"""A decision: the arms that were chosen in one round, among which, and what they will reveal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from armtriage._tables import html_facts
from armtriage.arms import Name
from armtriage.decisions.floor import Floored
from armtriage.graphs import FeedbackGraph
from armtriage.kernels.beta import beta_quantile
from armtriage.kernels.jit import kernel
from armtriage.kernels.record import Floats, Ints

_RECENT = 64  # sets that are kept though no decision has them
_SHORT = 2**14  # bytes, so that they are a megabyte at most


class ArmSet:
    """Some of the arms in few bytes: a bit for each, or their numbers where that is shorter; equal sets are one object.

    Examples
    --------
    >>> one = ArmSet.of(np.array([0, 2, 5]))
    >>> one.arms, one is ArmSet.of(np.array([0, 2, 5]))
    (array([0, 2, 5]), True)
    """

    __slots__ = ("__weakref__", "_bits", "_kept", "size")

    _known: ClassVar[WeakValueDictionary[tuple[bool, bytes], ArmSet]] = WeakValueDictionary()
    _recent: ClassVar[dict[bytes, ArmSet]] = {}  # sets of requests often come again, and a weak dictionary is slow

    def __init__(self, bits: bool, kept: bytes, size: int) -> None:
        self._bits, self._kept, self.size = bits, kept, size

    @classmethod
    def of(cls, arms: Ints) -> ArmSet:
        """Return the set of different arms, which ascend."""
        span = int(arms[-1]) + 1 if arms.size else 0
        bits = span <= 32 * arms.size
        if bits:
            mask = np.zeros(span, np.bool_)
            mask[arms] = True
            kept = np.packbits(mask).tobytes()
        else:
            kept = arms.astype(np.int32).tobytes()
        return cls._shared(bits, kept, arms.size)

    @classmethod
    def of_bits(cls, bits: bytes, size: int) -> ArmSet:
        """Return the set of as many arms as there are bits, at most 32 bits for each; the first bit is the highest."""
        found = cls._recent.get(bits)
        if found is None:
            found = cls._shared(True, bits.rstrip(b"\0"), size)
            if len(cls._recent) >= _RECENT:
                cls._recent.clear()
            if len(bits) <= _SHORT:
                cls._recent[bits] = found
        return found

    @classmethod
    def _shared(cls, bits: bool, kept: bytes, size: int) -> ArmSet:
        found = cls._known.get((bits, kept))
        if found is None:
            found = cls._known[bits, kept] = cls(bits, kept, size)
        return found

    def __reduce__(self) -> tuple[Any, ...]:
        return ArmSet._shared, (self._bits, self._kept, self.size)

    @property
    def nbytes(self) -> int:
        """How many bytes the arms take, however many decisions share them."""
        return len(self._kept)

    @property
    def arms(self) -> Ints:
        """The arms, ascending, in an array of one's own."""
        if self._bits:
            return np.flatnonzero(np.unpackbits(np.frombuffer(self._kept, np.uint8)))
        return np.frombuffer(self._kept, np.int32).astype(np.int64)


def pack_sets(sets: Sequence[ArmSet | None]) -> dict[str, NDArray[Any]]:
    """Return sets as arrays for a file, each that comes again once; None stands for all arms."""
    found = {one: place for place, one in enumerate(dict.fromkeys(one for one in sets if one is not None))}
    return {
        "set_of": np.array([-1 if one is None else found[one] for one in sets], np.int64),
        "set_bits": np.array([one._bits for one in found], np.int64),
        "set_bytes": np.array([len(one._kept) for one in found], np.int64),
        "sets": np.frombuffer(b"".join(one._kept for one in found), np.uint8),
    }


def unpack_sets(arrays: Mapping[str, NDArray[Any]], n_arms: int) -> list[ArmSet | None]:
    """Return the sets that `pack_sets` wrote, of some of so many arms; refuse anything else."""
    which, bits, lengths, content = (arrays[name] for name in ("set_of", "set_bits", "set_bytes", "sets"))
    ends = np.cumsum(lengths)
    if content.dtype != np.uint8 or content.ndim != 1 or bits.size != lengths.size or np.any(lengths < 1):
        raise ValueError("sets of eligible arms must be bytes, one or more for each")
    if content.size != (ends[-1] if ends.size else 0) or np.any((which < -1) | (which >= lengths.size)):
        raise ValueError("sets of eligible arms are too many or few")
    found: list[ArmSet | None] = []
    for bit, kept in zip(bits.tolist(), np.split(content, ends[:-1]) if ends.size else [], strict=True):
        if bit not in (0, 1) or (not bit and kept.size % 4):
            raise ValueError("a set of eligible arms must be bits, or numbers of 4 bytes")
        arms = ArmSet(bool(bit), kept.tobytes(), 0).arms
        if not arms.size or arms[0] < 0 or arms[-1] >= n_arms or np.any(np.diff(arms) <= 0):
            raise ValueError(f"sets of eligible arms must rise from 0 to {n_arms - 1}")
        found.append(ArmSet.of(arms))
    return [None if place < 0 else found[place] for place in which.tolist()]


@kernel
def _drawn(beliefs: Floats) -> Floats:
    """Return draws that are kept as a uniform number and the Beta law on [x, 1] that it follows from.

    Most are never asked for.
    """
    values = np.empty(beliefs.shape[1])
    for i in range(values.size):
        least = beliefs[1, i]
        values[i] = least + (1.0 - least) * beta_quantile(beliefs[0, i], beliefs[2, i], beliefs[3, i])
    return values


class Decision:
    """One answer of `Policy.ask`; hand it, or its `number`, back to `Policy.tell`.

    Attributes
    ----------
    number : int
        The round it was asked in, counted from 0; names the decision within its policy.
    arms : ndarray
        The chosen arms, ascending.
    names : tuple
        What they are called, in the same order; their numbers, if they have no names.
    ranked : tuple
        The same arms, by name or number, best first by what the policy believed when it chose them; those of a decision
        that was recorded, in the order in which they were given.
    revealed : ndarray
        The arms whose rewards this decision shows, in the order of a list of rewards: ascending, but the arms of a
        decision that was recorded come first, in the order in which they were given.
    eligible : ndarray or None
        The arms that could be chosen, ascending; None for all.
    contexts : ndarray, (S, d), or None
        The contexts of `arms` as they were given, for policies that are asked with contexts.

    Examples
    --------
    >>> from armtriage import CombUCB1, FeedbackGraph
    >>> decision = CombUCB1(FeedbackGraph.cliques([2, 2]), budget=1).ask()
    >>> decision
    Decision(number=0, arms=array([0]))
    >>> decision.revealed
    array([0, 1])
    """

    number: int
    arms: Ints
    contexts: Floats | None
    policy_id: str
    among: ArmSet | None
    """The set of the arms that could be chosen; None for all."""
    order: Ints | None
    """The arms in the order in which they were recorded; None where that is ascending."""
    n_arms: int
    """How many arms the policy had, chosen or not."""
    floored: Floored | None = None
    """What was proposed before slots were given to others; None without a logging floor."""

    def __init__(
        self,
        number: int,
        arms: Ints,
        graph: FeedbackGraph,
        policy_id: str,
        contexts: Floats | None = None,
        names: list[Name] | None = None,
        among: ArmSet | None = None,
        shown: Ints | None = None,
        beliefs: Floats | None = None,
        n_arms: int | None = None,
    ) -> None:
        # The policy keeps this very object, so it must not change.
        arms.setflags(write=False)
        if contexts is not None:
            contexts.setflags(write=False)
        if shown is not None and shown is not arms:
            shown.setflags(write=False)
        own = self.__dict__
        own["number"], own["arms"], own["policy_id"] = number, arms, policy_id
        own["contexts"], own["among"] = contexts, among
        own["_graph"], own["_names"], own["_shown"], own["_beliefs"] = graph, names, shown, beliefs
        own["order"], own["n_arms"] = None, graph.n_arms if n_arms is None else n_arms

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{name} of a decision is fixed")

    @property
    def revealed(self) -> Ints:
        """The arms whose rewards this decision shows, in the order of a list of rewards.

        Examples
        --------
        >>> from armtriage import CombUCB1, FeedbackGraph
        >>> CombUCB1(FeedbackGraph.cliques([2, 2]), budget=2).record([2, 1]).revealed
        array([2, 1, 0, 3])
        """
        if self.order is None or self.order.size == self.shown.size:
            return self.shown if self.order is None else self.order
        found = np.concatenate([self.order, np.setdiff1d(self.shown, self.order, assume_unique=True)])
        found.flags.writeable = False
        return found

    @property
    def shown(self) -> Ints:
        """The arms of `revealed`, ascending."""
        own: dict[str, Any] = self.__dict__
        shown: Ints | None = own["_shown"]
        if shown is None:
            own["_shown"] = shown = own["_graph"].revealed_by(self.arms)
            shown.flags.writeable = False
        return shown

    @property
    def eligible(self) -> Ints | None:
        """The arms that could be chosen, ascending; None for all."""
        return None if self.among is None else self.among.arms

    @property
    def names(self) -> tuple[Name, ...]:
        """What the arms are called, in their order; their numbers, if they have no names."""
        names: list[Name] | None = self.__dict__["_names"]
        arms = self.arms.tolist()
        return tuple(arms if names is None else [names[arm] for arm in arms])

    @property
    def proposal(self) -> Ints | None:
        """What the policy chose before slots were given to others by its `logging_floor`; None without one.

        Examples
        --------
        >>> from armtriage import Greedy
        >>> decision = Greedy(6, budget=2, logging_floor=0.2, seed=7).ask()
        >>> decision.proposal, decision.arms, decision.inclusion
        (array([0, 1]), array([1, 3]), array([0.8, 0.1]))
        """
        return None if self.floored is None else self.floored.proposal

    @property
    def floor(self) -> float:
        """The probability with which each slot was given to another arm."""
        return 0.0 if self.floored is None else self.floored.floor

    @property
    def floors_open(self) -> bool:
        """Whether slots were exchanged among open arms alone: probabilities do not follow from proposal and floor."""
        return self.floored is not None and self.floored.open is not None

    @property
    def inclusion(self) -> Floats | None:
        """The probability of each of `arms`, given the proposal; None without a `logging_floor`."""
        return None if self.floored is None else self.floored.inclusion(self.arms)

    @property
    def marginal(self) -> Floats | None:
        """The probability of each of `arms`, given all but the policy's own luck: over its draws, too.

        For `armtriage.ThompsonSampling` with a `logging_floor`, exactly, for up to 1,000 arms; None for all others, and
        after a decision was loaded. It takes some milliseconds, and must be asked for before the policy is told more.
        ``log.append(decision, rewards, inclusion=decision.marginal)`` has less variance than the probabilities given
        the proposal.

        Examples
        --------
        >>> from armtriage import ThompsonSampling
        >>> ThompsonSampling(6, budget=2, logging_floor=0.2, seed=7).ask().marginal.round(6)  # all are alike
        array([0.333333, 0.333333])
        """
        own: dict[str, Any] = self.__dict__
        if own.get("_marginal") is None and own.get("later") is not None:
            own["_marginal"] = own["later"].marginal(self)
        found: Floats | None = own.get("_marginal")
        return found

    @property
    def observation(self) -> Floats | None:
        """The probability that each reward of `revealed` is seen, given the proposal; None without a `logging_floor`.

        Examples
        --------
        >>> from armtriage import FeedbackGraph, Greedy
        >>> Greedy(FeedbackGraph.full_information(3), budget=1, logging_floor=0.2, seed=7).ask().observation
        array([1., 1., 1.])
        """
        if (floored := self.floored) is None:
            return None
        graph: FeedbackGraph = self.__dict__["_graph"]
        seen = self.revealed
        if self.shown is self.arms:
            return floored.inclusion(seen)
        eligible = np.arange(graph.n_arms) if self.among is None else self.among.arms
        if graph.is_undirected:
            showing = [np.intersect1d(graph.revealed_by([arm]), eligible, assume_unique=True) for arm in seen.tolist()]
        else:
            by = {arm: list[int]() for arm in seen.tolist()}
            for arm in eligible.tolist():
                for other in graph.revealed_by([arm]).tolist():
                    if other in by:
                        by[other].append(arm)
            showing = [np.array(arms, np.int64) for arms in by.values()]
        return np.array([floored.observation(arms) for arms in showing])

    @property
    def all_names(self) -> list[Name] | None:
        """What all arms of the policy are called, by number; None if they have no names."""
        names: list[Name] | None = self.__dict__["_names"]
        return None if names is None else names[: self.n_arms]

    @property
    def ranked(self) -> tuple[Name, ...]:
        """The arms, by name or number, best first by the draw, index or mean that the policy went by.

        A decision that was recorded has the order in which it was given. Shown in this order where the first place gets
        more rewards than others, an arm's mean depends on its place, and certificates are wrong: tell a cascade, state
        the weights of places, or shuffle the arms; see `docs/positions.md`.

        Examples
        --------
        >>> from armtriage import Greedy
        >>> policy = Greedy(2, budget=2, names=["tea", "milk"])
        >>> policy.tell(policy.ask(), {"tea": 0.1, "milk": 0.7})
        >>> policy.ask().ranked
        ('milk', 'tea')
        """
        names: list[Name] | None = self.__dict__["_names"]
        arms = self.ranked_arms.tolist()
        return tuple(arms if names is None else [names[arm] for arm in arms])

    @property
    def ranked_arms(self) -> Ints:
        """The numbers of the arms of `ranked`, in its order."""
        beliefs: Floats | None = self.__dict__["_beliefs"]
        if beliefs is None:
            return self.arms if self.order is None else self.order
        values = beliefs[0] if len(beliefs) == 1 else _drawn(beliefs)
        return self.arms[np.argsort(-values, kind="stable")]

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON knows it, probabilities where there are any; `Policy.tell` takes the number.

        Examples
        --------
        >>> from armtriage import CombUCB1, FeedbackGraph
        >>> CombUCB1(FeedbackGraph.cliques([2, 2]), budget=1).ask().to_dict()
        {'number': 0, 'arms': [0], 'names': [0], 'ranked': [0], 'revealed': [0, 1], 'eligible': None, 'contexts': None}
        """
        known: dict[str, Any] = {}
        if self.proposal is not None and self.inclusion is not None and self.observation is not None:
            known = {
                "proposal": self.proposal.tolist(),
                "floor": self.floor,
                "inclusion": self.inclusion.tolist(),
                "observation": self.observation.tolist(),
            }
        return {
            "number": int(self.number),
            "arms": self.arms.tolist(),
            "names": list(self.names),
            "ranked": list(self.ranked),
            "revealed": self.revealed.tolist(),
            "eligible": None if self.among is None else self.among.arms.tolist(),
            "contexts": None if self.contexts is None else self.contexts.tolist(),
            **known,
        }

    def _repr_html_(self) -> str:
        """Return a table for notebooks."""
        facts = {"decision": f"{self.number:,}", "arms": ", ".join(map(str, self.ranked))}
        if self.among is not None:
            facts["eligible"] = f"{self.among.arms.size:,} of {self.n_arms:,} arms"
        if self.shown.size > self.arms.size:
            facts["reveals"] = f"{self.shown.size:,} arms"
        return html_facts(facts)

    def __repr__(self) -> str:
        names = "" if self.__dict__["_names"] is None else f", names={self.names!r}"
        return f"Decision(number={self.number}, arms={self.arms!r}{names})"
