"""What an ask costs as problems grow: half of them, and all but the slowest hundredth."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from armtriage import Constraints, GuardedLinear, GuardedThompson, Matchings, PartitionMatroid, Paths, Policy

__all__ = ["Ask", "asks"]

_FEWEST, _MOST, _SECONDS = 20, 400, 2.0  # rounds, as many as fit into so much CPU


class Ask(NamedTuple):
    """The CPU milliseconds of asks, told each time."""

    what: str
    half: float
    most: float  # of all but the slowest hundredth; of fewer than a hundred, the slowest
    rounds: int
    limit: float | None


def _road(links: int = 914, nodes: int = 416) -> Paths:
    """Return paths across a network as large as that of a town: a ring, and links to near nodes."""
    rng = np.random.default_rng(7)
    edges = {(node, (node + 1) % nodes) for node in range(nodes)}
    while len(edges) < links:
        start = int(rng.integers(nodes))
        edges.add((start, int(start + rng.integers(2, 40)) % nodes))
    return Paths.from_edges(sorted(edges), 0, nodes // 2)


def _measured(what: str, policy: Policy, limit: float | None, *given: Any) -> Ask:
    rng, spent = np.random.default_rng(1), []
    policy.tell(policy.ask(*given), {})
    began = time.thread_time()
    while len(spent) < _FEWEST or (len(spent) < _MOST and time.thread_time() - began < _SECONDS):
        before = time.thread_time()
        decision = policy.ask(*given)
        spent.append(1e3 * (time.thread_time() - before))
        policy.tell(decision, (rng.random(decision.revealed.size) < 0.3).astype(float))
    spent.sort()
    return Ask(what, spent[len(spent) // 2], spent[len(spent) * 99 // 100], len(spent), limit)


def asks() -> Iterator[Ask]:
    """Yield what asks cost, by size."""
    for n_arms in (10, 100, 1_000, 10_000):
        for budget in (1, 5, 20):
            if budget < n_arms:
                what = f"GuardedThompson, K={n_arms:,} S={budget}"
                yield _measured(what, GuardedThompson(n_arms, budget=budget, seed=1), None)
    rng = np.random.default_rng(0)
    for n_arms in (10, 100, 1_000, 10_000):
        for dimension in (5, 50, 200):
            rows = rng.normal(size=(n_arms, dimension))
            rows /= np.linalg.norm(rows, axis=1, keepdims=True)
            linear = GuardedLinear(dimension=dimension, budget=5, seed=1)
            limit = 5.0 if (n_arms, dimension) == (1_000, 50) else None
            yield _measured(f"GuardedLinear, K={n_arms:,} S=5 d={dimension}", linear, limit, rows)
    road = _road()
    rules = Constraints((rng.random((20, 100)) < 0.3).astype(float), -np.inf, 3)
    sets = {
        f"paths on {road.n_arms} links": (road, 10.0),
        "matchings, 50 x 50": (Matchings(50, 50), None),
        "one of each of 42 parts of 10": (PartitionMatroid(np.repeat(np.arange(42), 10), np.ones(42, int)), None),
        "20 rows of 30 of 100 arms, at most three each": (rules, 20.0),
    }
    for what, (decisions, limit) in sets.items():
        way = "minimize" if decisions is road else "maximize"
        policy = GuardedThompson(decisions.n_arms, decisions=decisions, direction=way, seed=1)
        yield _measured(f"GuardedThompson, {what}", policy, limit)
