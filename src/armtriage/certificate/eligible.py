"""What decisions have lost at most, eligible set by eligible set."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from armtriage._arguments import check_count
from armtriage.certificate.bounds import Bounds, Tally, cut, narrowed
from armtriage.certificate.sets import Sets, log_bound_over
from armtriage.certificate.slates import Slates, log_bound
from armtriage.decisions import DecisionSet


@dataclass
class _Pattern:
    """An eligible set: how often it occurred, how often each of its arms was pulled then, and certificates so far."""

    eligible: NDArray[np.int64]
    size: int
    rounds: int
    pulls: NDArray[np.int64]
    certificates: float

    def bound(self, bounds: Bounds, decisions: DecisionSet | None) -> float:
        """Return what its rounds have lost at most."""
        if decisions is not None:
            n = bounds.lower.size
            pulls, exclude = np.zeros(n, np.int64), np.setdiff1d(np.arange(n), self.eligible, assume_unique=True)
            pulls[self.eligible] = self.pulls
            return min(log_bound_over(decisions, pulls, self.rounds, bounds, exclude), self.certificates)
        inside = Bounds(bounds.lower[self.eligible], bounds.upper[self.eligible])
        return min(max(log_bound(self.pulls, self.rounds, self.size, inside), 0.0), self.certificates)


class PatternBook:
    """What decisions have lost at most, by eligible set: a closer bound than `by_exposure` where there are few of them.

    The rounds with the same eligible set are a problem of their own, with the same means. At most `most` sets are kept:
    the bound of the one that has not occurred for longest is then frozen, which holds for ever. Over `decisions` a
    bound is one question to their oracle, and `pulls` and `rounds` are those of all that was booked.

    Examples
    --------
    >>> book, bounds = PatternBook(), Bounds(np.array([0.4, 0.3, 0.0]), np.array([0.6, 0.7, 1.0]))
    >>> book.add(np.array([0, 1]), np.array([0]), 0.3, bounds)
    >>> book.add(np.array([0, 2]), np.array([2]), 0.6, bounds)
    >>> round(book.bound(bounds), 3)
    0.9
    """

    def __init__(self, most: int = 64, decisions: DecisionSet | None = None) -> None:
        self.most = check_count("most", most, 1)
        self.decisions = decisions
        self.frozen = 0.0
        self.rounds, self.pulls = 0, np.zeros(0 if decisions is None else decisions.n_arms, np.int64)
        self._patterns: dict[tuple[int, bytes], _Pattern] = {}  # the one that occurred last is the last

    def add(self, eligible: NDArray[np.int64], arms: NDArray[np.int64], certificate: float, bounds: Bounds) -> None:
        """Book a decision among eligible arms, ascending, with what it could lose at the time, by today's bounds."""
        size = arms.size if self.decisions is None else 0
        key = (size, eligible.tobytes())
        pattern = self._patterns.pop(key, None)
        if pattern is None:
            if len(self._patterns) == self.most:
                self._freeze(next(iter(self._patterns)), bounds)
            pattern = _Pattern(eligible.copy(), size, 0, np.zeros(eligible.size, np.int64), 0.0)
        pattern.rounds += 1
        pattern.pulls[np.searchsorted(eligible, arms)] += 1
        pattern.certificates += certificate
        self._patterns[key] = pattern
        if self.decisions is not None:
            self.rounds += 1
            self.pulls[arms] += 1

    def _freeze(self, key: tuple[int, bytes], bounds: Bounds) -> None:
        pattern = self._patterns.pop(key)
        # A question about a single round would hardly tell more than what was known when it was asked.
        single = self.decisions is not None and pattern.rounds == 1 and pattern.certificates < np.inf
        self.frozen += pattern.certificates if single else pattern.bound(bounds, self.decisions)

    def bound(self, bounds: Bounds) -> float:
        """Return what all decisions have lost at most, by today's bounds."""
        return self.frozen + sum(pattern.bound(bounds, self.decisions) for pattern in self._patterns.values())

    def close(self, arm: int, bounds: Bounds) -> None:
        """Freeze the bounds of all sets that have this arm, which is to be forgotten: its next bounds are another's."""
        for key, pattern in list(self._patterns.items()):
            if arm in pattern.eligible:
                self._freeze(key, bounds)

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return everything as arrays, for a file."""
        kept = list(self._patterns.values())
        none = [np.empty(0, np.int64)]
        return {
            "arms": np.concatenate(none + [one.eligible for one in kept]),
            "pulls": np.concatenate(none + [one.pulls for one in kept]),
            "eligible": np.array([one.eligible.size for one in kept], np.int64),
            "sizes": np.array([one.size for one in kept], np.int64),
            "rounds": np.array([one.rounds for one in kept], np.int64),
            "certificates": np.array([one.certificates for one in kept], np.float64),
            "frozen": np.array([self.frozen]),
        } | ({} if self.decisions is None else {"all_pulls": self.pulls, "all_rounds": np.array([self.rounds])})

    @classmethod
    def from_arrays(
        cls, arrays: Mapping[str, NDArray[Any]], n_arms: int, most: int = 64, decisions: DecisionSet | None = None
    ) -> PatternBook:
        """Return the book that `to_arrays` wrote, after a check."""
        book = cls(most, decisions)
        kinds = {name: array.dtype for name, array in book.to_arrays().items()}
        _require(set(arrays) == set(kinds), f"patterns must have {', '.join(kinds)}, got {', '.join(arrays)}")
        for name, kind in kinds.items():
            _require(arrays[name].ndim == 1 and arrays[name].dtype == kind, f"{name} of the patterns is odd")
        held, sizes, rounds, certificates = (arrays[name] for name in ("eligible", "sizes", "rounds", "certificates"))
        _require(held.size == sizes.size == rounds.size == certificates.size, "patterns must each have all they need")
        _require(held.size <= book.most, f"patterns must be at most {book.most}, got {held.size}")
        _require((held >= 1) & (held <= n_arms), "patterns must have an arm or more")
        _require(held.sum() == arrays["arms"].size == arrays["pulls"].size, "patterns must have all their arms")
        _require(
            (sizes >= (decisions is None)) & (sizes <= held), "decisions of a pattern must have an arm or more of it"
        )
        _require((rounds >= 1) & (rounds < 2**53), "patterns must have occurred")
        _require(certificates >= 0.0, "certificates of patterns must be from 0")
        _require(arrays["frozen"].size == 1 and arrays["frozen"][0] >= 0.0, "frozen must be a number from 0")
        cuts = np.cumsum(held)[:-1]
        parts = zip(np.split(arrays["arms"], cuts), np.split(arrays["pulls"], cuts), strict=True) if held.size else ()
        for (arms, pulls), size, made, lost in zip(parts, sizes.tolist(), rounds.tolist(), certificates, strict=True):
            _require((arms >= 0) & (arms < n_arms), "arms of a pattern must exist")
            _require(np.diff(arms) > 0, "arms of a pattern must rise")
            _require((pulls >= 0) & (pulls <= made), "pulls of a pattern must fit its rounds")
            if decisions is None:
                _require(pulls.sum() == size * made, "pulls of a pattern must be those of whole decisions")
            else:
                _require(size == 0, "decisions of a pattern may have any size")
            key = (size, arms.tobytes())
            _require(key not in book._patterns, "patterns must differ")
            book._patterns[key] = _Pattern(arms.copy(), size, made, pulls.copy(), float(lost))
        book.frozen = float(arrays["frozen"][0])
        if decisions is not None:
            all_pulls, all_rounds = arrays["all_pulls"], arrays["all_rounds"]
            _require(all_pulls.size == n_arms and all_rounds.size == 1, "patterns must have all pulls")
            _require(all_rounds >= rounds.sum(), "patterns must not occur more often than any did")
            _require((all_pulls >= 0) & (all_pulls <= all_rounds[0]), "pulls must fit their rounds")
            book.pulls, book.rounds = all_pulls.copy(), int(all_rounds[0])
        return book


class Watch:
    """Bounds on the loss of a run as it goes on, with the intersection of each arm's intervals so far.

    As long as all arms are eligible, `ends` are the upper ends of the best decision and the lower ends of other arms;
    `bounds` are those of all arms, which eligible sets need.

    Examples
    --------
    >>> watch = Watch(2, Slates(1), delta=0.05)
    >>> tally = Tally(np.array([60, 40]), np.array([60, 40]), np.array([30.0, 10.0]), np.zeros(2))
    >>> round(watch.bound(tally, rounds=100), 1)
    25.4
    """

    def __init__(
        self, n_arms: int, rivals: Slates | Sets, delta: float, divisors: NDArray[np.float64] | None = None
    ) -> None:
        self.rivals, self.delta, self.divisors = rivals, delta, divisors
        self.bounds = self.ends = Bounds(np.zeros(n_arms), np.ones(n_arms))
        self.sets = PatternBook(decisions=rivals.decisions) if isinstance(rivals, Sets) else None

    def note(self, among: NDArray[np.int64], arms: NDArray[np.int64]) -> None:
        """Book a decision of a round in which not all arms were eligible, where exposures do not tell enough."""
        if isinstance(self.rivals, Sets) and self.sets is not None:
            self.sets.add(among, arms, np.inf, self.rivals.shifted(self.bounds))

    def bound(
        self, tally: Tally, rounds: int, exposures: NDArray[np.int64] | None = None, slots: int | None = None
    ) -> float:
        """Return what `rounds` decisions have lost at most, on the unit scale of the rewards.

        With `exposures`, against the best arms that were eligible in each round, `slots` in all.
        """
        rivals, sets = self.rivals, self.sets
        fixed = exposures is None and self.divisors is None and (sets is None or not sets.rounds)
        if not fixed or sets is not None:
            self.bounds = narrowed(self.bounds, tally, self.delta, self.divisors)[0]
        if fixed:
            self.ends = cut(self.ends, rivals.ends_of(tally, self.delta))[0]
            return max(rivals.lost_of_all(tally, rounds, self.ends, self.delta), 0.0)
        places = int(tally.pulls.sum()) if slots is None else slots
        best = max(rivals.lost(tally.pulls, rounds, self.bounds, exposures, places), 0.0)
        if not isinstance(rivals, Sets) or sets is None or not sets.rounds:
            return best
        whole = rivals.lost(tally.pulls - sets.pulls, rounds - sets.rounds, self.bounds, None, 0)
        return min(best, whole + sets.bound(rivals.shifted(self.bounds)))


def _require(right: Any, fact: str) -> None:
    if not np.all(right):
        raise ValueError(fact)
