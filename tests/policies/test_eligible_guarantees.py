"""What is proved of arms that come and go, asserted on runs: triage, layers, fill, budgets, certificates, regret."""

from __future__ import annotations

import math
import runpy
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from armtriage import (
    CombinatorialElimination,
    FeedbackGraph,
    Guard,
    GuardedThompson,
    Patterns,
    Policy,
    RandomRounds,
    StochasticEnvironment,
    ThompsonSampling,
    simulate,
)
from conftest import score
from twins.eligible import Elimination

pytestmark = pytest.mark.thorough

DELTA = 0.01


@cache
def contest() -> dict[str, Any]:
    """The regimes of the table in `docs/arms-that-come-and-go.md`."""
    return runpy.run_path(str(Path(__file__).parents[2] / "examples" / "eligible_contest.py"))


def bound(n_arms: int, budget: int, horizon: int) -> float:
    """Theorem A for any graph: 8.8 instead of 8.49, since intervals wait until counts have grown by 1/32."""
    b = math.log(n_arms / DELTA) + math.log(horizon) / 2 + math.log(2)
    return n_arms + 8.8 * math.sqrt(b * n_arms * budget * horizon)


def play(policy: Policy, env: StochasticEnvironment, horizon: int) -> None:
    """Ask and tell."""
    for t in range(horizon):
        decision = policy.ask(eligible=env.eligible(t))
        policy.tell(decision, env.rewards(t, decision.revealed))


def wrong(policy: Policy, env: StochasticEnvironment, horizon: int) -> int:
    """How many arms are confirmed or eliminated wrongly in eligible sets of some rounds."""
    faults = 0
    for t in np.linspace(0, horizon - 1, 12).astype(int):
        among = env.eligible(int(t))
        triage, order = policy.triage_of(among), among[np.argsort(-env.means[among])]
        best, rest = set(order[: policy.budget].tolist()), set(order[policy.budget :].tolist())
        faults += len(set(triage.confirmed.tolist()) - best) + len(set(triage.eliminated.tolist()) - rest)
    return faults


def check_regime(name: str, horizon: int, runs: int) -> tuple[int, int, int]:
    """Runs with a wrong statement, with a certificate below the truth, and above what is proved."""
    regime, bad, low, above = contest()["REGIMES"][name], 0, 0, 0
    for run in range(runs):
        for kind in (CombinatorialElimination, GuardedThompson):
            env = contest()["world"](regime, run, horizon)
            policy = kind(regime.graph, 6, delta=DELTA, seed=run, sleepers_seen=regime.sleepers_seen)
            trace = simulate(policy, env, horizon=horizon, certificate=DELTA, checkpoints=20)
            if env.availability is None:
                assert trace.triage is not None
                best = np.isin(trace.triage[0].arms, np.argsort(-env.means)[:6])
                bad += bool(np.any(trace.triage[0].confirmed != best))
            else:
                play(policy, env, horizon)
                bad += wrong(policy, env, horizon) > 0
            low += bool(np.any(trace.certificate < trace.regret - 1e-9))
            factor = 2.0 if kind is GuardedThompson else 1.0
            above += bool(trace.regret[0, -1] > factor * bound(60, 6, horizon))
    return bad, low, above


REGIMES = (
    "all arms always",
    "8 patterns",
    "each arm in half of the rounds",
    "half of the arms added on the way",
    "8 patterns, 10 cliques, sleepers seen",
    "half of the rounds, 10 cliques",
)


@pytest.mark.parametrize("name", REGIMES)
def test_statements_and_certificates_hold_and_regret_is_what_is_proved(name: str) -> None:
    """Each run may fail with probability 0.01; two of four with probability below 1e-3."""
    bad, low, above = check_regime(name, 1500, 2)
    assert max(bad, low, above) <= 1


@pytest.mark.long
@pytest.mark.parametrize("name", REGIMES)
def test_statements_and_certificates_hold_for_longer(name: str) -> None:
    """Each of 24 runs may fail with probability 0.01; more than two with probability below 2e-3."""
    bad, low, above = check_regime(name, 20_000, 12)
    assert max(bad, low, above) <= 2
    score("certificates among eligible arms", 24, f"{low} below the truth, {bad} wrong statements")


@pytest.mark.long
@pytest.mark.parametrize("name", REGIMES)
def test_guarded_loses_no_more_than_thompson_sampling(name: str) -> None:
    regime = contest()["REGIMES"][name]
    guarded, thompson = (contest()["play"](regime, kind, 20_000, 12)[0] for kind in (GuardedThompson, ThompsonSampling))
    assert guarded.mean() <= 1.15 * thompson.mean()


@pytest.mark.parametrize("name", ["each arm in half of the rounds", "half of the rounds, 10 cliques"])
def test_guarded_loses_about_what_thompson_sampling_does(name: str) -> None:
    regime = contest()["REGIMES"][name]
    guarded, thompson = (contest()["play"](regime, kind, 4000, 4)[0] for kind in (GuardedThompson, ThompsonSampling))
    assert guarded.mean() <= 1.15 * thompson.mean()


class Layers(Elimination):
    """The twin of elimination, which counts picks and padded rounds of each layer, and checks the slot lemma."""

    def __init__(self, *given: Any, **options: Any) -> None:
        super().__init__(*given, **options)
        self.picks: Counter[int] = Counter()
        self.padded: Counter[int] = Counter()
        self.explored = 0

    def explore(self, confirmed: list[int], open_arms: list[int]) -> list[int]:
        arms = super().explore(confirmed, open_arms)
        least = min(self.rows[a].tries for a in open_arms)
        k = self.S - len(confirmed)
        behind = {a for a in open_arms if self.rows[a].tries == least}
        rest = behind.difference(*(self.reveals[c] for c in confirmed)) if not self.plain else set(behind)
        n = 0
        for a in arms[len(confirmed) :]:
            # Picks come first; the cover is full when nobody waits any more.
            if n and not rest:
                break
            rest -= self.reveals[a]
            n += 1
        self.picks[least] += n
        self.padded[least] += n < k
        self.explored += 1
        widths = {a: (self.rows[a].upper - self.rows[a].lower) / 2 for a in open_arms}
        picks, fill = arms[len(confirmed) : len(confirmed) + n], arms[len(confirmed) + n :]
        inside = sorted(self.rows[a].lower for a in arms)
        outside = sorted((self.rows[a].upper for a in open_arms if a not in arms), reverse=True)
        cost = sum(max(0.0, high - low) for high, low in zip(outside, inside, strict=False))
        assert cost <= 6 * len(picks) * max(widths.values()) + 2 * sum(widths[a] for a in fill) + 1e-9
        return arms


def layers(env: StochasticEnvironment, rounds: int, *, budget: int, seen: bool = False, delta: float = 0.5) -> Layers:
    """Play elimination beside its twin, which must decide the same."""
    policy = CombinatorialElimination(env.graph, budget, delta=delta, seed=7, sleepers_seen=seen)
    twin, live = Layers(env.graph, budget, delta=delta, seed=7, sleepers_seen=seen), list(range(env.n_arms))
    for t in range(rounds):
        among = env.eligible(t).tolist()
        decision = policy.ask(eligible=among)
        assert decision.arms.tolist() == twin.ask(t, among, live)
        twin.count(among, decision.arms.tolist(), decision.revealed.tolist())
        rewards = env.rewards(t, decision.revealed)
        policy.tell(decision, rewards)
        told = dict(zip(decision.revealed.tolist(), rewards.tolist(), strict=True))
        twin.close(t, told, set(), [])
    return twin


def halves(n_arms: int, sets: int) -> Patterns:
    rng = np.random.default_rng(15)
    return Patterns([rng.permutation(n_arms)[: n_arms // 2] for _ in range(sets)])


def test_a_layer_has_a_padded_round_for_each_eligible_set_at_most() -> None:
    means = np.random.default_rng(3).random(24)
    twin = layers(StochasticEnvironment(means, 24, seed=5, availability=halves(24, 8)), 1500, budget=4)
    assert max(twin.padded.values()) <= 8
    assert max(twin.picks.values()) <= 24
    assert len(twin.picks) > 20
    assert twin.explored > 500


def test_a_layer_on_cliques_has_a_pick_for_each_where_sleepers_are_seen() -> None:
    means, graph = np.random.default_rng(3).random(30), FeedbackGraph.cliques([3] * 10)
    env = StochasticEnvironment(means, graph, seed=5, availability=halves(30, 8))
    seen, unseen = layers(env, 800, budget=3, seen=True), layers(env, 800, budget=3)
    assert max(seen.picks.values()) <= 10
    assert max(seen.padded.values()) <= 8
    # The cover of an eligible set shows nothing of the others, so that a clique needs more than one pick.
    assert max(unseen.picks.values()) > 10


def test_a_tournament_offered_sink_first_needs_a_pick_for_every_arm() -> None:
    """No two arms are independent, but nobody who is offered shows what will be offered later."""
    n = 12
    graph = FeedbackGraph.from_edges(n + 1, [(a, b) for a in range(n) for b in range(a + 1, n)])
    policy = CombinatorialElimination(graph, 1, seed=7, sleepers_seen=True)
    known = policy.ask(eligible=[n])
    policy.tell(known, [0.5])
    for arm in range(n - 1, -1, -1):
        assert policy.tally.counts[arm] == 0
        decision = policy.ask(eligible=[arm, n])
        assert decision.arms.tolist() == [arm]
        policy.tell(decision, np.full(decision.revealed.size, 0.5))


def test_slots_that_are_left_are_filled_by_upper_bound() -> None:
    """Nine arms known to be at 1, two unknown ones, and a hundred known to be at 0; ten slots."""
    policy = CombinatorialElimination(112, 10, seed=7)
    known = policy._evidence
    known.lower[:9], known.counts[:111] = 0.99, 100
    known.upper[11:111], known.counts[9:11] = 0.01, 0
    known.counts[:9], known.due[:111] = 1000, 2000
    decision = policy.ask(eligible=range(111))
    best, means = 9.0, np.append(np.ones(9), np.zeros(102))
    assert {9, 10} <= set(decision.arms.tolist())
    assert best - means[decision.arms].sum() <= 2
    # The least observed ones would be a bad choice, in every such round.
    least = np.argsort(known.counts[:111], kind="stable")[:10]
    assert best - means[least].sum() >= 8


@pytest.mark.parametrize("patterns", [8, 0])
def test_a_hostile_proposer_loses_no_more_than_twice_the_forced_rounds(patterns: int) -> None:
    means = np.sort(np.random.default_rng(3).random(30))
    availability = halves(30, patterns) if patterns else RandomRounds(0.5)
    env = StochasticEnvironment(means, 30, seed=5, availability=availability)

    def worst(number: int, eligible: Any = None) -> Any:
        return eligible[:4]

    policy = Guard(worst, 30, 4, mode="shadow", delta=DELTA, seed=7)
    lost = 0.0
    for t in range(1500):
        decision = policy.ask(eligible=env.eligible(t))
        policy.tell(decision, env.rewards(t, decision.revealed))
        lost += env.regret(decision.arms, t)
        book = policy._book
        assert book.spent <= book.allowed
        assert lost <= 2 * book.forced_cost + 4
    assert policy.account.forced_rounds > 300
    assert policy.certificate().regret_bound >= lost


@pytest.mark.parametrize("kind", [CombinatorialElimination, GuardedThompson])
def test_regret_is_what_is_proved_when_rewards_are_late(kind: Any) -> None:
    """A delay of tau rounds adds S tau, and twice that for the guard."""
    means, tau = np.random.default_rng(3).random(20), 40
    env = StochasticEnvironment(means, 20, seed=5, availability=halves(20, 6))
    policy, lost, waiting = kind(20, 3, delta=DELTA, seed=7), 0.0, []
    for t in range(1500):
        decision = policy.ask(eligible=env.eligible(t))
        lost += env.regret(decision.arms, t)
        waiting.append(decision)
        if len(waiting) > tau:
            old = waiting.pop(0)
            policy.tell(old, env.rewards(old.number, old.revealed))
        factor = 2 if kind is GuardedThompson else 1
        assert lost <= factor * (bound(20, 3, t + 1) + 3 * tau)
    assert policy.certificate().regret_bound >= lost


def test_a_loaded_guard_has_the_budget_of_the_saved_one() -> None:
    """How many picks cover the arms must not depend on what is known of them: on a path, two or three of six."""
    graph = FeedbackGraph.from_edges(6, [(a, b) for a in range(6) for b in (a - 1, a + 1) if 0 <= b < 6])
    policy = GuardedThompson(graph, 1, seed=7, sleepers_seen=True, delta=0.5)
    rng = np.random.default_rng(1)
    for _ in range(300):
        decision = policy.ask(eligible=rng.permutation(6)[: rng.integers(1, 7)])
        policy.tell(decision, (decision.revealed % 3 == 2).astype(float))
    loaded = Policy.from_bytes(policy.to_bytes())
    for both in (policy, loaded):
        both.ask(eligible=[0, 1, 2, 3])
    assert loaded._book.cover == policy._book.cover
    assert loaded.digest() == policy.digest()


def test_late_rewards_of_eligible_sets_can_cost_more_than_those_of_fixed_arms() -> None:
    """Ten pairs of arms of mean 1 and 0 take turns: nothing is told of a pair until it is gone."""
    late, pairs = 100, 10

    def lost(delay: int) -> float:
        policy, told, total = CombinatorialElimination(2 * pairs, 1, seed=7), [], 0.0
        for number in range(pairs * late):
            if number >= delay and told:
                decision = told.pop(0)
                policy.tell(decision, 1.0 - decision.revealed % 2)
            first = 2 * (number // late)
            told.append(policy.ask(eligible=[first, first + 1]))
            total += float(told[-1].arms[0] % 2)
        return total

    at_once, later = lost(1), lost(late)
    assert later > at_once + 2 * late
    assert later <= at_once + 2 * pairs * late
