"""What is asserted of a case, by its name, and which of the many cases `make test` plays."""

from __future__ import annotations

import re
import zlib
from collections import Counter
from collections.abc import Callable, Container, Iterable
from functools import cache
from typing import Any

import numpy as np
import pytest

from armtriage import Trace
from twins.cases import case_of
from twins.harness import Played, decisions_of, first_difference, play, regret_of, simulated

KEPT: set[str] = set()


def split(
    names: Iterable[str],
    *,
    first: int,
    also: Container[str] = (),
    small: Container[str] = (),
    rest: Iterable[str] = (),
    group: str,
) -> list[Any]:
    """Return cases: of each kind `make test` plays the first and some, and leaves the others to `make test-long`.

    The former are kept for other tests of the group, so that one process should have them all; small ones are plain.
    """
    seen: Counter[str] = Counter()
    cases = []
    for name in names:
        kind = re.sub(r"\d+", "", name)
        seen[kind] += 1
        if seen[kind] > first and name not in also:
            cases.append(pytest.param(name, marks=pytest.mark.long))
        else:
            KEPT.add(name)
            marks = [pytest.mark.xdist_group(group), *[pytest.mark.plain] * (name in small)]
            cases.append(pytest.param(name, marks=marks))
    return cases + [pytest.param(name, marks=pytest.mark.long) for name in rest]


@cache
def trace(name: str) -> Trace:
    return simulated(case_of(name))


@cache
def played(name: str) -> Played:
    return play(case_of(name))


@cache
def played_late(name: str) -> Played:
    return play(case_of(name), late=zlib.crc32(name.encode()))


def share(names: Iterable[str], fact: Callable[[Any], Any], of: Callable[[str], Any] = trace) -> float:
    return float(np.mean([bool(fact(of(name))) for name in names]))


def assert_as_twin(name: str) -> None:
    """The facts of one case, all from one run by ask and tell and one of `simulate`."""
    done = played(name) if name in KEPT else play(case_of(name))
    assert done.fault is None
    if hasattr(done.twin, "total"):
        certified = done.policy.certificate(eligible=np.arange(done.policy.n_arms))
        expected = np.inf if certified.contradictions else done.twin.total
        assert np.isclose(certified.sum_of_certificates, expected, rtol=1e-9)
    if not done.case.in_simulate:
        return
    found = trace(name) if name in KEPT else simulated(done.case)
    assert first_difference(decisions_of(found), done.decisions) is None
    regret = regret_of(done.case, done.decisions)
    assert np.abs(found.regret[-1] - regret).max() <= 1e-9 * (1 + abs(regret[-1]))
    if hasattr(done.twin, "log"):
        assert_log_as_twin(done, found)


def assert_log_as_twin(done: Played, trace: Trace) -> None:
    """A trace logs what was decided until the round from which there is no choice left, and says which that is."""
    assert trace.triage is not None
    found, log, committed = trace.triage[-1], done.twin.log, int(trace.committed_at[-1])
    until = done.case.rounds if committed < 0 else committed + 1
    expected = [entry for entry in log if entry[1] <= until]
    assert list(zip(found.arms.tolist(), found.rounds.tolist(), found.confirmed.tolist(), strict=True)) == expected
    first, budget, n = -1, done.policy.budget, done.policy.n_arms
    for t in reversed(range(done.case.rounds)):
        decided = [confirmed for _, played_before, confirmed in log if played_before <= t]
        if sum(decided) == budget or n - (len(decided) - sum(decided)) == budget:
            first = t
    assert committed == first


def assert_as_twin_when_late(name: str) -> None:
    late = played_late if name in KEPT else played_late.__wrapped__
    assert late(name).fault is None
