"""compare: which of several policies would have earned most, as certainly as a log can say it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from armtriage._arguments import check_flag, check_kind, check_probability
from armtriage._numbers import short
from armtriage._tables import html_table
from armtriage.arms import Roster
from armtriage.logs.evaluate import followed
from armtriage.logs.evaluation import Evaluation
from armtriage.logs.slate_log import SlateLog
from armtriage.logs.targets import Difference, Target, target_of


@dataclass(frozen=True)
class LogComparison:
    """Targets, sorted by what they would have earned, and what is certain of them.

    Attributes
    ----------
    evaluations : dict of Evaluation
        What each would have earned, by name, the best first.
    differences : dict
        For each pair of names, the interval of what the first earns more than the second. All hold together, at all
        times, with probability `confidence`.
    best : str or None
        The one that certainly earns most, if there is one.
    open : tuple of str
        Those that may earn most.
    beaten : dict
        Those that certainly do not, and by which other each is certainly beaten.
    confidence : float
        The probability with which all of this is true.

    Examples
    --------
    >>> from armtriage import SlateLog, compare
    >>> log = SlateLog.from_columns(
    ...     arms=[[0], [1]] * 500, rewards=[[1], [0]] * 500, inclusion=[[0.5]] * 1000, n_arms=2
    ... )
    >>> found = compare(log, {"first": [0], "second": [1]})
    >>> found.best, found.beaten, found.verdict("second")
    ('first', {'second': 'first'}, 'beaten by first')
    """

    evaluations: dict[str, Evaluation]
    differences: dict[tuple[str, str], tuple[float, float]]
    best: str | None
    open: tuple[str, ...]
    beaten: dict[str, str]
    confidence: float

    def __str__(self) -> str:
        sure = f"With {100 * self.confidence:.10g}% confidence at any time"
        if self.best is not None:
            first = f"{sure}, {self.best!r} would have been best."
        elif self.beaten:
            first = f"{sure}, one of {_listed(self.open)} would have been best."
        else:
            first = f"Nothing is certain yet: any of {_listed(self.open)} may be best."
        beaten = [f"{one!r} is certainly beaten by {by!r}." for one, by in self.beaten.items()]
        lines = [self._line(name, one) for name, one in self.evaluations.items()]
        return "\n".join([" ".join([first, *beaten]), *lines])

    def _line(self, name: str, one: Evaluation) -> str:
        value = "" if one.value is None else f"{short(one.value)}, "
        return f"{name}: {value}between {short(one.low)} and {short(one.high)}" + "".join(
            f" {text}" for text in one.warnings
        )

    def _repr_html_(self) -> str:
        """Return a table for notebooks."""
        rows = [
            (
                name,
                "" if one.value is None else short(one.value),
                f"{short(one.low)} to {short(one.high)}",
                self.verdict(name),
            )
            for name, one in self.evaluations.items()
        ]
        return html_table(["target", "estimate", "interval", "verdict"], rows)

    def verdict(self, name: str) -> str:
        """Return what is certain of a target, in a word or two."""
        if name == self.best:
            return "certainly best"
        return f"beaten by {self.beaten[name]}" if name in self.beaten else "open"

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON knows it."""
        return {
            "confidence": self.confidence,
            "best": self.best,
            "open": list(self.open),
            "beaten": self.beaten,
            "evaluations": {name: one.to_dict() for name, one in self.evaluations.items()},
            "differences": [
                {"first": one, "second": two, "low": low, "high": high}
                for (one, two), (low, high) in self.differences.items()
            ],
            "text": str(self),
        }


def compare(log: SlateLog, targets: Mapping[str, Any], *, alpha: float = 0.05, restrict: bool = False) -> LogComparison:
    """Sort targets into the one that would certainly have been best, those that may be, and those that are beaten.

    Differences are estimated from the same looks, so what two targets have in common cancels.

    Parameters
    ----------
    log : SlateLog
        What was decided.
    targets : mapping
        Two or more targets by name, each as in `armtriage.evaluate`.
    alpha : float
        The probability that anything of what is said is wrong, however often one looks.
    restrict : bool
        Leave arms of a target out where they were not eligible, instead of refusing.

    Examples
    --------
    >>> from armtriage import SlateLog, compare
    >>> log = SlateLog.from_columns(
    ...     arms=[[0], [1]] * 500, rewards=[[1], [0]] * 500, inclusion=[[0.5]] * 1000, n_arms=2
    ... )
    >>> print(compare(log, {"first": [0], "second": [1]}))
    With 95% confidence at any time, 'first' would have been best. 'second' is certainly beaten by 'first'.
    first: 1, between 0.892 and 1
    second: 0, between 0 and 0.108
    """
    check_kind("log", log, SlateLog)
    check_probability("alpha", alpha)
    check_flag("restrict", restrict)
    if not isinstance(targets, Mapping) or len(targets) < 2:
        raise ValueError(f"targets must be a mapping of two targets or more, got {targets!r:.100}")
    roster, names = Roster(log.n_arms, log.names), list(targets)
    for name in names:
        if not isinstance(name, str):
            raise TypeError(f"targets must have names that are text, got {name!r}")
    ones: list[Target] = [target_of(targets[name], roster, restrict=restrict) for name in names]
    pairs = list(combinations(range(len(names)), 2))
    known = followed(log, [*ones, *(Difference(ones[a], ones[b]) for a, b in pairs)], "dr")
    differences = {}
    for place, (a, b) in enumerate(pairs, len(ones)):
        low, high = known.runs[place].interval(alpha / len(pairs))
        differences[names[a], names[b]] = known.in_units(place, low), known.in_units(place, high)
    sign = -1.0 if log.direction == "minimize" else 1.0
    beaten = dict[str, str]()
    for (one, two), (low, high) in differences.items():
        if low > 0.0 or high < 0.0:
            first_wins = (low > 0.0) == (sign > 0.0)
            beaten.setdefault(*((two, one) if first_wins else (one, two)))
    left = tuple(name for name in names if name not in beaten)
    found = {name: known.evaluation(place, "dr", alpha, True) for place, name in enumerate(names)}
    order = sorted(names, key=lambda name: -sign * float(found[name].value or 0.0))
    return LogComparison(
        evaluations={name: found[name] for name in order},
        differences=differences,
        best=left[0] if len(left) == 1 else None,
        open=left if len(left) > 1 else (),
        beaten={name: beaten[name] for name in order if name in beaten},
        confidence=1.0 - alpha,
    )


def _listed(names: tuple[str, ...]) -> str:
    called = [repr(one) for one in names]
    return f"{', '.join(called[:-1])} and {called[-1]}"
