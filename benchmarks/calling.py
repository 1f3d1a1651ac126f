"""What an ask and a tell cost from Python, beside the plain NumPy loop that one would write oneself."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["asks_alone", "cpu_us", "milliseconds", "numpy_thompson", "whole", "with_a_partial_tell"]


def cpu_us(*kinds: Callable[[], Callable[[int], Any]], rounds: int = 3000, repeats: int = 5) -> list[float]:
    """Return the CPU microseconds of a step of each kind, on average over the first rounds.

    It is the least of some fresh starts, which take turns so that all kinds meet the same machine.
    """
    best = [float("inf")] * len(kinds)
    for _ in range(repeats):
        for place, made in enumerate(kinds):
            step = made()
            step(0)
            began = time.thread_time()
            for number in range(1, rounds):
                step(number)
            best[place] = min(best[place], (time.thread_time() - began) / (rounds - 1))
    return [1e6 * one for one in best]


def numpy_thompson(n_arms: int, budget: int) -> Callable[[int], None]:
    """Return a step of Thompson sampling in NumPy: K Beta draws, argpartition, two updates."""
    rng = np.random.default_rng(1)
    means, wins, losses = rng.random(n_arms), np.ones(n_arms), np.ones(n_arms)

    def step(number: int) -> None:
        arms = np.argpartition(rng.beta(wins, losses), -budget)[-budget:]
        rewards = rng.random(budget) < means[arms]
        wins[arms] += rewards
        losses[arms] += ~rewards

    return step


def whole(policy: Any, rewards: np.ndarray[Any, Any], *asked: Any) -> Callable[[int], None]:
    """Return an ask and the tell of all its rewards, which are drawn beforehand."""

    def step(number: int) -> None:
        decision = policy.ask(*asked)
        policy.tell(decision, rewards[number, decision.arms])

    return step


def with_a_partial_tell(policy: Any, rewards: np.ndarray[Any, Any]) -> Callable[[int], None]:
    """Return an ask, and a tell without the reward of the last arm."""

    def step(number: int) -> None:
        decision = policy.ask()
        told = decision.arms[:-1].tolist()
        policy.tell(decision, dict(zip(told, rewards[number, told].tolist(), strict=True)))

    return step


def asks_alone(policy: Any, means: np.ndarray[Any, Any], eligible: list[Any], rounds: int = 1500) -> float:
    """Return the CPU microseconds of an ask among eligible arms, told each time, without the tells."""
    rng, best = np.random.default_rng(1), float("inf")
    for _ in range(3):
        spent = 0
        for number in range(rounds):
            given = eligible[number % len(eligible)]
            began = time.thread_time_ns()
            decision = policy.ask() if given is None else policy.ask(eligible=given)
            spent += time.thread_time_ns() - began
            policy.tell(decision, (rng.random(decision.arms.size) < means[decision.arms]).astype(float))
        best = min(best, spent / rounds / 1e3)
    return best


def milliseconds(job: Callable[[], Any], repeats: int = 5) -> float:
    """Return the most milliseconds that a job took."""
    worst = 0.0
    for _ in range(repeats):
        began = time.perf_counter()
        job()
        worst = max(worst, 1e3 * (time.perf_counter() - began))
    return worst
