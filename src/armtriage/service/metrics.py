"""Counters for Prometheus, and its text format."""

from __future__ import annotations

import logging
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from typing import Any

from armtriage.service.logs import note

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
_SIZES = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0)

STORE_FAILURES = ("disk_full", "store")
DURING = ("group", "probe", "snapshot", "refresh", "create", "read")
"""What the store was asked for when it failed."""

Sample = tuple[str, Mapping[str, str], float]
"""A suffix of the name, labels, and a value."""


class Histogram:
    """How often values lay below each of some limits.

    Examples
    --------
    >>> histogram = Histogram((0.1, 1.0))
    >>> histogram.add(0.5)
    >>> histogram.counts, histogram.total
    ([0, 1, 0], 0.5)
    """

    def __init__(self, limits: Sequence[float]) -> None:
        self.limits, self.counts, self.total = limits, [0] * (len(limits) + 1), 0.0

    def add(self, value: float) -> None:
        """Count a value."""
        self.counts[bisect_left(self.limits, value)] += 1
        self.total += value

    def samples(self, labels: Mapping[str, str]) -> Iterable[Sample]:
        """Return what Prometheus wants of it."""
        below = 0
        for limit, count in zip((*self.limits, float("inf")), self.counts, strict=True):
            below += count
            yield "_bucket", {**labels, "le": "+Inf" if limit == float("inf") else f"{limit:g}"}, below
        yield "_sum", labels, self.total
        yield "_count", labels, below

    def quantile(self, share: float) -> float:
        """Return the limit below which this share of the values lies; 0 if there are none."""
        wanted, below = share * sum(self.counts), 0
        if not wanted:
            return 0.0
        for limit, count in zip((*self.limits, self.limits[-1]), self.counts, strict=True):
            below += count
            if below >= wanted:
                return limit
        return self.limits[-1]


class Metrics:
    """What this process has seen since it started, by policy; what is stored is counted in the store as well."""

    def __init__(self) -> None:
        self.counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self.seconds: defaultdict[str, Histogram] = defaultdict(lambda: Histogram(_SECONDS))
        self.commits: defaultdict[str, Histogram] = defaultdict(lambda: Histogram(_SECONDS))
        self.sizes: defaultdict[str, Histogram] = defaultdict(lambda: Histogram(_SIZES))
        self.answers: Counter[tuple[str, int]] = Counter()  # by what was asked for, and the status of the answer
        self.store_failures: Counter[tuple[str, str]] = Counter(dict.fromkeys(product(STORE_FAILURES, DURING), 0))

    @property
    def requests(self) -> dict[int, int]:
        """How many answers had each status."""
        found: Counter[int] = Counter()
        for (_, status), many in self.answers.items():
            found[status] += many
        return dict(sorted(found.items()))

    def group(self, policy: str, size: int, commit: float, counts: Mapping[str, int], waited: Sequence[float]) -> None:
        """Count a group that was stored."""
        self.counts[policy].update(counts)
        self.sizes[policy].add(size)
        self.commits[policy].add(commit)
        seconds = self.seconds[policy]
        for one in waited:
            seconds.add(one)

    def shed(self, policy: str) -> None:
        """Count a request that was refused since too many waited."""
        self.counts[policy]["shed"] += 1

    def diverged(self, policy: str, seq: int) -> None:
        """Count a state that is not its log replayed, and say which."""
        self.counts[policy]["diverged"] += 1
        text = "The state is not what its log gives."
        note(logging.ERROR, "diverged", text, policy=policy, after_event=seq)

    def store_failed(
        self, kind: str, during: str, error: BaseException, policy: str = "", *, again: bool = False
    ) -> None:
        """Count that the store did not do what was asked, and say why, unless it fails `again` as it did before."""
        self.store_failures[kind, during] += 1
        facts: dict[str, Any] = {"kind": kind, "during": during} | ({"policy": policy} if policy else {})
        note(logging.DEBUG if again else logging.ERROR, "store_failed", str(error), **facts)

    def fault(self, policy: str, error: BaseException) -> None:
        """Count a fault of the program itself, and say where it happened."""
        self.counts[policy]["fault"] += 1
        note(logging.ERROR, "fault", "The policy failed.", error=error, policy=policy)


def write_text(families: Iterable[tuple[str, str, str, Iterable[Sample]]]) -> bytes:
    r"""Return metrics in Prometheus's text format; a family is a name, a kind, what it means, and its samples.

    Examples
    --------
    >>> write_text([("up", "gauge", "Whether it runs.", [("", {"policy": 'a"b'}, 1)])])
    b'# HELP up Whether it runs.\n# TYPE up gauge\nup{policy="a\\"b"} 1\n'
    """
    lines = []
    for name, kind, meaning, samples in families:
        lines += [f"# HELP {name} {meaning}", f"# TYPE {name} {kind}"]
        for suffix, labels, value in samples:
            inside = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
            number = "+Inf" if value == float("inf") else f"{value:.17g}" if value != int(value) else f"{int(value)}"
            lines.append(f"{name}{suffix}{{{inside}}} {number}" if inside else f"{name}{suffix} {number}")
    return "\n".join([*lines, ""]).encode()


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
