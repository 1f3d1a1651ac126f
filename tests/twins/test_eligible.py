"""Policies whose requests differ decide as their slow twins do: sets, additions, retirements, late and lost rewards."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pytest

from armtriage import (
    KLUCB,
    CombinatorialElimination,
    CombUCB1,
    FeedbackGraph,
    Greedy,
    Guard,
    GuardedIndex,
    GuardedThompson,
    ThompsonSampling,
    UniformRandom,
)
from twins import eligible as twins
from twins.delays import Delays

GRAPHS = {
    "plain": FeedbackGraph.semi_bandit(9),
    "cliques": FeedbackGraph.cliques([3, 1, 4, 2]),
    "path": FeedbackGraph.from_edges(8, [(a, b) for a in range(8) for b in (a - 1, a + 1) if 0 <= b < 8]),
    "digraph": FeedbackGraph.erdos_renyi(10, 0.25, seed=4),
}
MANY = FeedbackGraph.semi_bandit(90)  # some of which have never been seen when the prior is fitted
LOOSE: dict[str, Any] = {"delta": 0.5}  # for intervals that decide something in so few rounds
CERTIFY = {"delta": 0.5, "mode": "certify", "price": 70.0}


def hostile(number: int, eligible: Any = None) -> Any:
    """Propose the arms of smallest number, which are the worst."""
    return [0, 1, 2] if eligible is None else eligible[:3]


def guard(graph: FeedbackGraph, budget: int, *, seed: int, **options: Any) -> Guard:
    return Guard(hostile, graph, budget, seed=seed, **options)


def guarded(graph: FeedbackGraph, budget: int, *, seed: int, **options: Any) -> Guard:
    return Guard(ThompsonSampling(graph, budget, seed=seed), graph, budget, seed=seed, **options)


def proposing(graph: FeedbackGraph, budget: int, *, seed: int, **options: Any) -> twins.GuardedPolicy:
    seen = options.get("sleepers_seen", False)
    proposer = twins.Thompson(graph, budget, seed=seed, sleepers_seen=seen)
    return twins.GuardedPolicy(graph, budget, seed=seed, proposer=proposer, **options)


class Pair(NamedTuple):
    """A policy, its twin, options of both, and options of the twin."""

    policy: Callable[..., Any]
    twin: Callable[..., Any]
    both: Mapping[str, Any] = MappingProxyType({})
    twins: Mapping[str, Any] = MappingProxyType({})


PAIRS = {
    "CombUCB1": Pair(CombUCB1, twins.Index, twins={"index": twins.comb_ucb1}),
    "KLUCB": Pair(KLUCB, twins.Index, twins={"index": twins.kl_ucb}),
    "Greedy": Pair(Greedy, twins.Index, twins={"index": twins.greedy}),
    "Thompson": Pair(ThompsonSampling, twins.Thompson),
    "Thompson-coin": Pair(ThompsonSampling, twins.Thompson, {"fractional": "coin", "prior": (2.0, 5.0)}),
    "random": Pair(UniformRandom, twins.Random),
    "elimination": Pair(CombinatorialElimination, twins.Elimination, {"delta": 0.01}),
    "elimination-loose": Pair(CombinatorialElimination, twins.Elimination, LOOSE),
    "elimination-kl": Pair(CombinatorialElimination, twins.Elimination, {**LOOSE, "interval": "kl"}),
    "elimination-bernstein": Pair(
        CombinatorialElimination, twins.Elimination, {**LOOSE, "interval": "bernstein", "horizon": 200}
    ),
    "guarded": Pair(GuardedThompson, twins.Guarded, {"prior": "learned"}),
    "guarded-uniform": Pair(GuardedThompson, twins.Guarded, {"prior": "uniform", "fractional": "coin"}),
    "guarded-strict": Pair(GuardedThompson, twins.Guarded, {**LOOSE, "factor": 0.05, "prior": "learned"}),
    "guarded-shadow": Pair(GuardedThompson, twins.Guarded, {**LOOSE, "mode": "shadow", "prior": "uniform"}),
    "guarded-certify": Pair(GuardedThompson, twins.Guarded, {**CERTIFY, "prior": "learned"}),
    "guarded-draws": Pair(GuardedThompson, twins.Guarded, {**LOOSE, "free_look": False, "prior": "learned"}),
    "index": Pair(GuardedIndex, twins.GuardedByIndex, {"prior": "learned"}),
    "index-uniform": Pair(GuardedIndex, twins.GuardedByIndex, {"prior": "uniform", "fractional": "coin"}),
    "index-strict": Pair(GuardedIndex, twins.GuardedByIndex, {**LOOSE, "factor": 0.05, "prior": "learned"}),
    "index-certify": Pair(GuardedIndex, twins.GuardedByIndex, {**CERTIFY, "prior": "learned"}),
    "guard-hostile": Pair(guard, twins.Guarded, {**LOOSE, "factor": 0.2}, twins={"proposer": hostile}),
    "guard-shadow": Pair(guard, twins.Guarded, {**LOOSE, "mode": "shadow"}, twins={"proposer": hostile}),
    "guard-Thompson": Pair(guarded, proposing, {**LOOSE, "factor": 0.05}),
    "guard-Thompson-shadow": Pair(guarded, proposing, {**LOOSE, "mode": "shadow"}),
    "guard-Thompson-certify": Pair(guarded, proposing, CERTIFY),
}


@cache
def reward(number: int, arm: int) -> float:
    """Mostly 0 or 1, the same whoever asks; arms of large number are the better ones."""
    u, kind = np.random.default_rng((number, arm)).random(2)
    return float(u) if kind < 0.1 else float(u < 0.02 + 0.96 * (arm % 10 > 5))


class Wanderer:
    """Asks a policy and its twin with random eligible sets, changes the arms, tells late, in parts and not at all."""

    def __init__(self, name: str, graph: str, seen: bool, seed: int) -> None:
        pair, given = PAIRS[name], (GRAPHS.get(graph, MANY), 3)
        self.policy = pair.policy(*given, seed=7, sleepers_seen=seen, **pair.both)
        self.twin = pair.twin(*given, seed=7, sleepers_seen=seen, **pair.both, **pair.twins)
        self.rng = np.random.default_rng([seed, len(name)])
        self.live, self.retired = list(range(self.policy.n_arms)), list[int]()
        self.began = [0] * self.policy.n_arms
        self.open: dict[int, list[int]] = {}
        self.parts: dict[int, dict[int, float]] = {}
        self.complete: set[int] = set()
        self.decisions: list[list[int]] = []
        self.counts = {"adds": 0, "forgets": 0, "losses": 0, "parts": 0, "defaults": 0, "weighed": 0}
        self.delays = Delays() if self.twin.learns_at_once else None

    def change(self) -> None:
        """Let arms come and go."""
        chance, policy, twin = self.rng.random(), self.policy, self.twin
        now = policy._asked
        if chance < 0.04 and policy.n_arms < 24:
            like = {} if twin.plain or chance < 0.02 else {"like": int(self.rng.choice(self.live))}
            new = policy.add_arms(int(self.rng.integers(1, 3)), **like).tolist()
            twin.add(len(new), policy.graph)
            self.live, self.began = sorted([*self.live, *new]), [*self.began, *(now for _ in new)]
            self.counts["adds"] += 1
        elif chance < 0.1 and len(self.live) > 5:
            arm = int(self.rng.choice(self.live))
            policy.retire_arms([arm])
            self.live = [one for one in self.live if one != arm]
            self.retired.append(arm)
        elif chance < 0.16 and self.retired:
            arm = self.retired.pop()
            forget = bool(self.rng.random() < 0.6)
            policy.restore_arms([arm], forget=forget)
            self.live = sorted([*self.live, arm])
            if forget:
                twin.forget(arm)
                if self.delays is not None:
                    self.delays.forget(arm)
                self.began[arm] = now
                for part in self.parts.values():
                    part.pop(arm, None)
                self.counts["forgets"] += 1

    def is_known(self, number: int, arm: int) -> bool:
        """Whether an arm is still what it was when the decision was made."""
        return number >= self.began[arm]

    def close(self, number: int, new: dict[int, float], told: bool = True) -> None:
        """Close a decision in the twin, as a tell of `new` does in the policy, or a close that fills them in."""
        if self.delays is not None:
            if told:
                self.delays.tell(number, {a: r for a, r in new.items() if self.is_known(number, a)})
            self.delays.close(number)
        shown = [a for a in self.open.pop(number) if self.is_known(number, a)]
        parts = {a: r for a, r in self.parts.pop(number, {}).items() if self.is_known(number, a)}
        rewards = parts | {a: r for a, r in new.items() if self.is_known(number, a)}
        missing = [a for a in shown if a not in rewards]
        self.counts["losses"] += len(missing)
        self.twin.close(number, rewards, set(parts), missing)
        # What was completed in parts waits for older decisions.
        while self.open and (oldest := next(iter(self.open))) in self.complete:
            self.complete.remove(oldest)
            self.close(oldest, {})

    def tell(self) -> None:
        """Tell one of the open decisions: in full, in part, or never."""
        free = [number for number in self.open if number not in self.complete]
        number, chance = int(self.rng.choice(free)), self.rng.random()
        told = self.parts.get(number, {})
        rest = [a for a in self.open[number] if a not in told]
        kept = {a: reward(number, a) for a in rest if self.rng.random() < (1.0 if chance < 0.5 else 0.4)}
        if chance > 0.9:
            rest_value = 0.0 if chance < 0.95 else 0.25
            self.policy.close(number, default=rest_value)
            if self.delays is not None:
                self.delays.activate()
            self.close(number, dict.fromkeys(rest, rest_value), told=rest_value > 0.0)
            self.counts["defaults"] += 1
            return
        if chance < 0.7:
            self.policy.tell(number, kept)
            self.close(number, kept)
            return
        self.policy.tell(number, kept, last=False)
        new = {a: r for a, r in kept.items() if self.is_known(number, a)}
        if self.delays is not None:
            self.delays.activate()
            self.delays.tell(number, new)
            self.twin.teach(number, new)
        self.parts[number] = told | kept
        self.counts["parts"] += 1
        if {a for a in self.open[number] if self.is_known(number, a)} <= set(self.parts[number]):
            self.complete.add(number)
            if number == next(iter(self.open)):
                self.complete.remove(number)
                self.close(number, {})

    def go(self, rounds: int) -> str | None:
        """Return the first thing that the twin has against the policy."""
        for t in range(rounds):
            if t > 5:
                self.change()
            some = [a for a in self.live if self.rng.random() < 0.7] or self.live[:1]
            among = self.live[:-1] if t == 0 else self.live if self.rng.random() < 0.1 else some
            unheard = {} if self.delays is None else self.delays.ask()
            self.counts["weighed"] += any(weight not in (0.0, 1.0) for weight in unheard.values())
            self.twin.weigh(unheard)
            decision, expected = self.policy.ask(eligible=among), self.twin.ask(t, among, self.live)
            self.decisions.append(decision.arms.tolist())
            if self.decisions[-1] != expected:
                return f"round {t}: {self.decisions[-1]} instead of {expected}"
            shown = self.twin.shown(expected, among, self.live)
            if decision.revealed.tolist() != shown:
                return f"round {t}: reveals {decision.revealed} instead of {shown}"
            self.twin.count(among, expected, shown)
            self.open[t] = shown
            if self.delays is not None:
                self.delays.begin(t, shown)
            while len(self.open) - len(self.complete) > 0 and self.rng.random() < 0.55:
                self.tell()
            if fault := self.twin.differs(self.policy):
                return f"round {t}: {fault}"
        return None


def pairs_on_graphs() -> list[Any]:
    """Each pair with a graph where sleepers are seen and one where not, and two more of each in `make test-long`."""
    return [
        pytest.param(
            *(name, graph, (i + j) % 2 == 1),
            marks=[] if (j - i // 2) % len(GRAPHS) in (0, 1) else [pytest.mark.long],
            id=f"{name}-{graph}",
        )
        for i, name in enumerate(PAIRS)
        for j, graph in enumerate(GRAPHS)
    ]


@pytest.mark.plain
@pytest.mark.parametrize(("name", "graph", "seen"), pairs_on_graphs())
def test_policy_decides_as_its_twin(name: str, graph: str, seen: bool) -> None:
    assert Wanderer(name, graph, seen, 1).go(150) is None


@pytest.mark.parametrize("rounds", [120, pytest.param(300, marks=pytest.mark.long)])
@pytest.mark.parametrize("name", ["CombUCB1", "KLUCB", "Greedy", "Thompson", "Thompson-coin"])
def test_caches_hold_for_any_candidates(name: str, rounds: int) -> None:
    """Of 400 arms few are looked at: decisions are those of a full scan, whichever arms the last requests had."""
    pair, rng = PAIRS[name], np.random.default_rng(5)
    policy = pair.policy(400, 6, seed=7, **pair.both)
    twin = pair.twin(FeedbackGraph.semi_bandit(400), 6, seed=7, **pair.both, **pair.twins)
    everybody, sets = list(range(400)), [np.flatnonzero(rng.random(400) < 0.5).tolist() for _ in range(4)]
    for t in range(rounds):
        kind = rng.integers(5)
        half = np.flatnonzero(rng.random(400) < 0.5).tolist()
        few = np.sort(rng.choice(400, 15, replace=False)).tolist()
        among = (everybody, everybody, half, few, sets[t % 4])[kind]
        expected = twin.ask(t, among, everybody)
        decision = policy.ask(eligible=among)
        assert decision.arms.tolist() == expected, t
        twin.count(among, expected, expected)
        told = {arm: reward(t, arm) for arm in expected}
        policy.tell(decision, told)
        twin.close(t, told, set(), [])
    assert twin.differs(policy) is None


@pytest.mark.plain
@pytest.mark.parametrize("name", ["guarded", "guarded-draws"])
def test_unseen_arms_are_believed_in_as_by_the_twin(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert Wanderer(name, "many", False, 2).go(100) is None
    monkeypatch.setattr(twins.Crowd, "weak", False)
    assert Wanderer(name, "many", False, 2).go(100) is not None


def test_the_cases_have_everything_in_them() -> None:
    strict = Wanderer("guarded-strict", "cliques", False, 1)
    hostile, shadow = Wanderer("guard-hostile", "plain", False, 1), Wanderer("guard-shadow", "path", True, 1)
    for one in (strict, hostile, shadow):
        one.go(200)
        assert min(count for name, count in one.counts.items() if name != "weighed") > 0
        assert (one.counts["weighed"] > 0) == (one is strict)
        assert one.twin.forced > 0
        assert one.twin.offered_slots > 0
    assert strict.twin.decided > 0
    found = Wanderer("elimination-loose", "digraph", True, 1)
    found.go(200)
    assert found.twin.decided > 0


@pytest.mark.long
@pytest.mark.parametrize("name", PAIRS)
def test_policy_decides_as_its_twin_for_longer(name: str) -> None:
    for seed, graph in enumerate([*GRAPHS, *GRAPHS], 2):
        assert Wanderer(name, graph, seed < 6, seed).go(500) is None
