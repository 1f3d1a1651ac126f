"""Several threads may share a policy: calls take turns, and copies, pickles and forks are whole."""

from __future__ import annotations

import copy
import os
import pickle
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from armtriage import CombinatorialElimination, ContextualPolicy, Decision, FeedbackGraph, Policy
from conftest import POLICIES, each_kind, every_policy, play, score, snapshot, used

pytestmark = pytest.mark.thorough

THREADS = 8


@pytest.fixture(autouse=True)
def impatient() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def together(work: Callable[[int], None], threads: int = THREADS) -> None:
    """Let threads do the work side by side, and raise what any of them raises."""
    errors: list[BaseException] = []

    def one(place: int) -> None:
        try:
            work(place)
        except BaseException as error:
            errors.append(error)

    started = [threading.Thread(target=one, args=(place,)) for place in range(threads)]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()
    for error in errors:
        raise error


def while_others_play(policy: Any, look: Callable[[], None], times: int) -> None:
    """Look at a policy again and again, while two other threads play it."""
    stop = threading.Event()

    def work(place: int) -> None:
        if place:
            while not stop.is_set():
                play(policy, POLICIES["GuardedThompson"].environment, 5)
            return
        try:
            for _ in range(times):
                look()
        finally:
            stop.set()

    together(work, 3)


class Diary:
    """Notes what is asked and told, in the order in which the policy itself gets to it."""

    def __init__(self, policy: Any) -> None:
        self.policy, self.events = policy, list[tuple[Any, ...]]()
        self._begin, self._learn, self._select = policy._begin, policy._learn, policy._select
        policy._begin, policy._learn = self.begin, self.learn
        self.contexts: Any = None
        if isinstance(policy, ContextualPolicy):
            policy._select = self.select

    def select(self, number: int, contexts: np.ndarray) -> np.ndarray:
        self.contexts = contexts.copy()
        return self._select(number, contexts)

    def begin(self, arms: np.ndarray, **more: Any) -> Decision:
        self.events.append(("ask", self.contexts, arms.copy()))
        return self._begin(arms, **more)

    def learn(self, number: int, arms: np.ndarray, rewards: np.ndarray, missing: np.ndarray) -> None:
        self.events.append(("tell", number, dict(zip(arms.tolist(), rewards.tolist(), strict=True))))
        self._learn(number, arms, rewards, missing)

    def repeat(self, policy: Any) -> None:
        """Do the same with another policy, one call after another."""
        for kind, first, second in self.events:
            if kind == "ask":
                decision = policy.ask(*([first] if isinstance(policy, ContextualPolicy) else []))
                assert decision.arms.tolist() == second.tolist()
            else:
                policy.tell(first, second)


def share(name: str, rounds: int) -> None:
    """Let threads play a policy, and compare it with one that does the same in one thread."""
    entry = POLICIES[name]
    policy, env = entry.make(), entry.environment
    diary = Diary(policy)

    def work(place: int) -> None:
        for step in range(rounds // THREADS):
            number = THREADS * step + place
            given = [env.contexts(number)] if isinstance(policy, ContextualPolicy) else []
            decision = policy.ask(*given)
            arms = decision.arms
            assert np.all(np.diff(arms) > 0), arms
            assert policy.decisions is not None or arms.size == policy.budget
            rewards = env.rewards(number, decision.revealed)
            if step % 5 == 0:
                kept = dict(zip(decision.revealed.tolist(), rewards.tolist(), strict=True))
                policy.tell(decision, dict(list(kept.items())[1:]))
            else:
                policy.tell(decision, rewards)
            if step % 64 == place:
                assert len(policy.open_decisions) <= THREADS
                if hasattr(policy, "triage"):
                    assert policy.triage
                if entry.face == "arms":
                    assert policy.certificate().rounds >= 1

    together(work)
    twin = entry.make()
    diary.repeat(twin)
    assert policy._asked == rounds // THREADS * THREADS
    assert policy.open_decisions == ()
    for mine, theirs in zip(policy.tally[:4], twin.tally[:4], strict=True):
        np.testing.assert_array_equal(mine, theirs)
    mine, theirs = snapshot(policy), snapshot(twin)
    assert mine == theirs


@every_policy
def test_threads_take_turns(name: str) -> None:
    share(name, 160)


@pytest.mark.long
@each_kind
def test_threads_take_turns_for_long(name: str) -> None:
    share(name, 20_000)
    score("rounds by eight threads on one policy", 20_000, "as in some serial order")


def test_threads_that_share_a_large_policy_decide_no_arm_twice() -> None:
    graph = FeedbackGraph.cliques([3] * 100)
    policy = CombinatorialElimination(graph, 10, seed=7)

    def work(place: int) -> None:
        for _ in range(150):
            decision = policy.ask()
            assert np.unique(decision.arms).size == 10
            policy.tell(decision, (decision.revealed % 7 == 0).astype(float))

    together(work)
    assert policy.tally.pulls.sum() == THREADS * 150 * 10


@each_kind
def test_copies_are_whole_and_apart(name: str) -> None:
    entry = POLICIES[name]
    for duplicate in (copy.copy, copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))):
        policy = used(name)
        before = snapshot(policy)
        other = duplicate(policy)
        assert snapshot(other) == before
        ahead = play(other, entry.environment, 12, first=100)
        assert snapshot(policy) == before
        assert play(policy, entry.environment, 12, first=100) == ahead


@each_kind
def test_a_copy_compiles_nothing(name: str) -> None:
    from armtriage.kernels.jit import compilations

    policy = used(name)
    before = compilations()
    play(copy.copy(policy), POLICIES[name].environment, 3, first=100)
    assert compilations() == before


def test_a_copy_is_taken_between_two_calls() -> None:
    policy = POLICIES["GuardedThompson"].make()

    def look() -> None:
        other = pickle.loads(pickle.dumps(policy))
        # Every pull has been asked: no copy stands between the two.
        assert other.tally.pulls.sum() == other.budget * other._asked
        assert other._evidence.counts[: other.n_arms].tolist() == other.tally.counts.tolist()

    while_others_play(policy, look, 50)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_forked_process_goes_on_with_a_whole_policy() -> None:
    entry = POLICIES["GuardedThompson"]
    policy = entry.make()
    play(policy, entry.environment, 2)

    def look() -> None:
        child = os.fork()
        if child == 0:
            sound = policy.tally.pulls.sum() == policy.budget * policy._asked
            play(policy, entry.environment, 5)
            os._exit(0 if sound else 1)
        assert os.waitpid(child, 0)[1] == 0

    while_others_play(policy, look, 8)


def test_a_proposer_may_look_at_its_guard() -> None:
    from armtriage import Guard

    graph = FeedbackGraph.semi_bandit(4)
    guard: Any = Guard(lambda number: guard.triage.active[:1], graph, 1, seed=7)
    assert guard.ask().arms.size == 1


def test_policies_of_ones_own_are_locked_too() -> None:
    class Slow(Policy):
        inside = 0

        def _select(self, number: int) -> np.ndarray:
            self.inside += 1
            assert self.inside == 1
            for _ in range(100):
                pass
            self.inside -= 1
            return np.arange(self.budget)

        def _update(self, number: int, arms: np.ndarray, rewards: np.ndarray) -> None:
            pass

    policy = Slow(FeedbackGraph.semi_bandit(5), 2)
    together(lambda place: [policy.tell(policy.ask(), [0, 1]) for _ in range(100)] and None)
    assert policy.tally.pulls.sum() == 2 * THREADS * 100


@pytest.mark.parametrize("name", ["GuardedThompson", "ThompsonSampling", "tight", "CombUCB1", "Guard"])
def test_threads_let_arms_come_and_go(name: str) -> None:
    policy, sizes = POLICIES[name].make(), list[int]()

    def work(place: int) -> None:
        rng = np.random.default_rng(place)
        for step in range(40):
            decision = policy.ask(eligible=np.flatnonzero(rng.random(10) < 0.7).tolist() or None)
            sizes.append(decision.arms.size)
            policy.tell(decision, {int(decision.arms[0]): 1.0}, last=False)
            if decision.revealed.size > 1:
                policy.close(decision, default=0.0)
            if step % 20 == place:
                new = policy.add_arms(1).tolist()
                policy.retire_arms(new)
                policy.restore_arms(new, forget=True)
            assert policy.certificate(delta=0.1).rounds >= 1

    together(work)
    policy.close_before(policy._asked, default=0.0)
    assert policy._asked == 40 * THREADS
    assert policy.tally.pulls.sum() + policy._forgotten()["pulls"].sum() == sum(sizes)
    assert Policy.from_bytes(policy.to_bytes()).digest() == policy.digest()
