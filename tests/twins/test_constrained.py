"""`ConstrainedElimination` decides as its slow twins do, and what is promised of it holds for the twins themselves."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import Any

import numpy as np
import pytest

from armtriage import Explicit, FeedbackGraph
from twins import independence
from twins.cases import LISTED, set_problem
from twins.constrained import Arms, Listed, Oracle, smallest_cover
from twins.elimination import width
from twins.facts import assert_as_twin, assert_as_twin_when_late, played, share, split

GROUP = "twins over sets"
exercised = pytest.mark.xdist_group(GROUP)

ORACLE = [f"oracle/{i}" for i in range(1200)]
EXCHANGE = [f"exchange/{i}" for i in range(16)]
WIDE = [f"wide/{i}" for i in range(44, 150)]
LISTS = {kind: [f"listed/{kind[0]}/{kind[1]}/{i}" for i in range(300)] for kind in LISTED}
LISTED_CASES = [name for names in LISTS.values() for name in names]
ALL = [*ORACLE, *EXCHANGE, *WIDE, *LISTED_CASES]
LATE = ORACLE[:80:2] + EXCHANGE[::2] + WIDE[::2] + [name for names in LISTS.values() for name in names[:24:2]]
LATE += [*ORACLE[80:], *LISTED_CASES]
SMALL = {"exchange/0", "wide/44", *ORACLE[:8], *(names[i] for names in LISTS.values() for i in range(4))}


@pytest.mark.parametrize("name", split(ALL, first=5, also={*ORACLE[:10]}, small=SMALL, group=GROUP))
def test_policy_plays_as_its_twin(name: str) -> None:
    assert_as_twin(name)


@pytest.mark.parametrize("name", split(dict.fromkeys(LATE), first=4, group=GROUP))
def test_policy_plays_as_its_twin_when_rewards_are_late_or_lost(name: str) -> None:
    assert_as_twin_when_late(name)


# The cases do exercise what they should, which is asked of those that `make test` plays.
@exercised
def test_an_exchange_makes_intervals_contradict_each_other() -> None:
    assert any(played(name).twin.failures for name in EXCHANGE)


@exercised
def test_oracle_runs_confirm_eliminate_and_commit() -> None:
    some = ORACLE[:16]
    assert share(some, lambda one: one.twin.confirmed, played) >= 1 / 3
    assert share(some, lambda one: one.twin.eliminated, played) >= 1 / 2
    assert share(some, lambda one: not one.twin.undecided, played) >= 1 / 4
    assert share(some, lambda one: one.twin.counted, played) >= 0.8


@exercised
@pytest.mark.parametrize("kind", LISTED, ids="/".join)
def test_a_third_of_the_listed_runs_eliminate_a_decision_and_have_covers_of_several(kind: tuple[str, str]) -> None:
    some = LISTS[kind][:8]
    assert share(some, lambda one: len(one.twin.active) < len(one.twin.family), played) >= 1 / 3
    assert share(some, lambda one: max(one.twin.cover_sizes, default=0) > 1, played) >= 1 / 3


def test_smallest_cover_is_that_of_trying_all() -> None:
    rng = np.random.default_rng(5)
    for _ in range(60):
        sets = [frozenset(np.flatnonzero(rng.random(7) < 0.35).tolist()) for _ in range(7)]
        need = frozenset[int]().union(*sets)
        sizes = (m for m in range(8) for one in combinations(sets, m) if need <= frozenset().union(*one))
        assert smallest_cover(need, sets) == next(sizes)


def alone(twin: Any, means: np.ndarray, rounds: int, seed: int) -> Iterator[Arms]:
    """Let a twin play by itself, and hand out each decision when it has been chosen, before it is played."""
    rng = np.random.default_rng([43, seed])
    for t in range(rounds):
        decision = twin.choose()
        yield decision
        assert twin.judge(t, decision) is None
        luck = rng.random(twin.n_arms)
        twin.update(t, {arm: float(luck[arm] < means[arm]) for arm in sorted(twin.shown_by(decision))})


def gaps_of(twin: Any, means: np.ndarray) -> dict[Arms, float]:
    values = {one: float(means[sorted(one)].sum()) for one in twin.family}
    return {one: max(values.values()) - value for one, value in values.items()}


@pytest.mark.parametrize("number", range(40))
def test_twin_of_the_oracle_keeps_what_is_promised(number: int) -> None:
    """While all intervals hold: optimal decisions stay, the gap of a decision is bounded, and so is a layer."""
    env = set_problem(number)
    twin = Oracle(env.graph, env.decisions, delta=0.5, interval="hoeffding")
    gaps = gaps_of(twin, env.means)
    alpha = independence(env.graph)
    longest = alpha + np.ceil(2 * alpha * np.log(twin.n_arms / alpha))
    layer: dict[int, int] = {}
    for decision in alone(twin, env.means, 300, number):
        assert twin.incumbent in twin.alive()
        if not all(low <= mean <= up for low, mean, up in zip(twin.lower, env.means, twin.upper, strict=True)):
            break
        alive = twin.alive()
        assert all(one in alive for one, gap in gaps.items() if gap <= 1e-9)
        if not twin.undecided:
            assert gaps[decision] <= 1e-9
            continue
        # At most 2 S arms differ from the incumbent, or it from the best: 4 S w for the former, 2 S w for the latter.
        if twin.checked_at:
            narrow = width("hoeffding", twin.checked_at, twin.n_arms, None, 0.5)
            assert gaps[decision] <= 6 * twin.size * narrow + 1e-9
        least = min(map(twin.scheduled, twin.undecided))
        layer[least] = layer.get(least, 0) + 1
        assert layer[least] <= longest


@pytest.mark.parametrize("number", range(24))
def test_twin_of_the_repaired_algorithm_keeps_what_is_promised(number: int) -> None:
    """While all means are within their widths: optimal decisions stay, and active ones have a gap of 4 S w at most."""
    env = set_problem(number)
    cover = ("exact", "greedy")[number % 2]
    twin = Listed(env.graph, env.decisions, horizon=300, delta=0.5, variant="repaired", cover=cover)
    gaps = gaps_of(twin, env.means)
    for decision in alone(twin, env.means, 300, number):
        seen = [arm for arm in twin.used if twin.counts[arm]]
        if any(abs(twin.mean(arm) - env.means[arm]) > twin.width(twin.counts[arm]) for arm in seen):
            break
        assert all(one in twin.active for one, gap in gaps.items() if gap <= 1e-9)
        assert max(gaps[one] for one in twin.active) <= 4 * twin.size * twin.width(twin.N)
        assert decision in twin.active


def test_printed_algorithm_goes_on_playing_a_decision_that_it_has_eliminated() -> None:
    hub, family = 4, Explicit([[0, 1], [2, 3], [4, 5]])
    graph = FeedbackGraph.from_edges(6, [(hub, arm) for arm in range(6)])
    means = np.array([0.9, 0.9, 0.8, 0.8, 0.0, 0.0])
    plays = {}
    for variant in ("paper", "repaired"):
        twin = Listed(graph, family, horizon=1, delta=0.9, variant=variant)
        chosen = list(alone(twin, means, 400, 1))
        assert frozenset([4, 5]) not in twin.active
        plays[variant] = chosen[-200:].count(frozenset([4, 5]))
    assert plays["repaired"] == 0
    assert plays["paper"] >= 100
