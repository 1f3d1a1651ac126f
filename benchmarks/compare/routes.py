"""Routes, assignments and trees with costs: `GuardedThompson` beside samplers and optimists, on drawn networks.

A run draws a network, its means and its luck from a seed, and all players meet the same. The kinds follow what real
road times and latencies look like: means that span an order of magnitude, costs that are quiet beside their range, a
range that is far wider than most costs, and for each edge a baseline, such as a free-flow time, that is off by some
factor.

The kinds of `CHOOSING` served to choose how priors are learned. Those of `JUDGING`, with other networks, laws and
seeds, were named before any policy had played them, and were played when the choice was made. `HARD` are decision sets
on which samplers fail, with rewards of 0 and 1: there the question is whether anything is lost.
"""

from __future__ import annotations

import argparse
import json
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from armtriage import (
    CombUCB1,
    DecisionSet,
    Explicit,
    GuardedThompson,
    Matchings,
    Paths,
    Policy,
    SpanningTrees,
    StochasticEnvironment,
    ThompsonSampling,
    simulate,
)

CHOOSING_SEED, JUDGING_SEED = 71_000, 72_000
Array = NDArray[np.float64]
Rng = np.random.Generator
_OUTCOMES = 400  # costs of each edge, of which a round draws one


class Network(NamedTuple):
    """A world of costs, and what a map says of each edge."""

    world: StochasticEnvironment
    expected: Array


class Kind(NamedTuple):
    """Networks of a kind: `network` makes that of a run, from its seed."""

    rounds: int
    network: Callable[[int], Network]


def costs_of(decisions: DecisionSet, mean: Array, luck: Array, top: float, expected: Array, seed: int) -> Network:
    """Return a network whose edge a costs ``mean[a]`` times a draw from column a of `luck`, cut off at `top`."""
    outcomes = np.minimum(mean * luck / luck.mean(axis=0), top)
    world = StochasticEnvironment.from_outcomes(
        outcomes,
        decisions.n_arms,
        decisions=decisions,
        reward_range=(0.0, top),
        direction="minimize",
        seed=seed,
    )
    return Network(world, np.minimum(expected, top))


def gamma(rng: Rng, n: int, variation: float) -> Array:
    """Return luck with this coefficient of variation."""
    return rng.gamma(variation**-2, variation**2, (_OUTCOMES, n))


def spikes(rng: Rng, n: int, variation: float, share: float, height: float) -> Array:
    """Return luck that is log-normal, with a share of outcomes that are `height` times as large."""
    return np.exp(variation * rng.standard_normal((_OUTCOMES, n))) * np.where(
        rng.random((_OUTCOMES, n)) < share, height, 1.0
    )


def both_ways(edges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return each edge in both directions."""
    return [*edges, *((b, a) for a, b in edges)]


def streets(seed: int) -> Network:
    """Return a grid of 6 x 6 junctions, log-normal free-flow times, slower by 1 + Exp(0.4), variation 0.25."""
    rng = np.random.default_rng(seed)
    at = [(x, y) for y in range(6) for x in range(6)]
    near = [
        (i, j) for i, a in enumerate(at) for j, b in enumerate(at) if (b[0] - a[0], b[1] - a[1]) in ((1, 0), (0, 1))
    ]
    decisions = Paths(36, both_ways(near), 0, 35)
    free = np.exp(0.5 * rng.standard_normal(decisions.n_arms))
    mean = free * (1.0 + rng.exponential(0.4, free.size))
    return costs_of(decisions, mean, gamma(rng, free.size, 0.25), 4.0 * float(mean.max()), free, seed)


def overlay(seed: int) -> Network:
    """Return all pairs of 14 hosts, latencies of their distance times a log-normal detour, 2% spikes, cut at 1000."""
    rng = np.random.default_rng(seed)
    place = rng.random((14, 2))
    pairs = [(i, j) for i in range(14) for j in range(14) if i != j]
    distance = np.array([np.hypot(*(place[i] - place[j])) for i, j in pairs])
    expected = 10.0 + 150.0 * distance
    mean = expected * np.exp(0.6 * rng.standard_normal(len(pairs)))
    return costs_of(Paths(14, pairs, 0, 13), mean, spikes(rng, len(pairs), 0.08, 0.02, 3.0), 1000.0, expected, seed)


def layers(seed: int) -> Network:
    """Return 6 layers of 4 machines, where a leg costs all or nothing, with probability 0.2 to 0.8."""
    rng = np.random.default_rng(seed)
    edges = [(0, 1 + j) for j in range(4)]
    edges += [(1 + 4 * layer + i, 5 + 4 * layer + j) for layer in range(5) for i in range(4) for j in range(4)]
    edges += [(21 + i, 25) for i in range(4)]
    mean, decisions = rng.uniform(0.2, 0.8, len(edges)), Paths(26, edges, 0, 25)
    world = StochasticEnvironment(mean, mean.size, decisions=decisions, direction="minimize", seed=seed)
    return Network(world, np.full(mean.size, 0.5))


def shifts(seed: int) -> Network:
    """Return assignments of 8 people to 8 shifts, list prices that are off by a log-normal factor, variation 0.15."""
    rng = np.random.default_rng(seed)
    expected = rng.uniform(30.0, 120.0, 64)
    mean = expected * np.exp(0.3 * rng.standard_normal(64))
    return costs_of(Matchings(8, 8), mean, gamma(rng, 64, 0.15), 500.0, expected, seed)


def rings(seed: int) -> Network:
    """Return 4 rings with 8 spokes, times free (1 + 0.15 (volume / capacity)^4) with a ratio from 0.3 to 1.6."""
    rng = np.random.default_rng(seed)
    at = lambda ring, spoke: 1 + 8 * ring + spoke % 8  # noqa: E731 - a node
    edges = [(0, at(0, spoke)) for spoke in range(8)]
    edges += [(at(ring, spoke), at(ring, spoke + 1)) for ring in range(4) for spoke in range(8)]
    edges += [(at(ring, spoke), at(ring + 1, spoke)) for ring in range(3) for spoke in range(8)]
    decisions = Paths(33, both_ways(edges), at(3, 0), at(3, 3))
    free = rng.uniform(2.0, 10.0, decisions.n_arms)
    mean = free * (1.0 + 0.15 * rng.uniform(0.3, 1.6, free.size) ** 4)
    return costs_of(decisions, mean, gamma(rng, free.size, 0.3), 60.0, free, seed)


def country(seed: int) -> Network:
    """Return 40 towns joined to their 4 nearest, a third of the roads fast, variation 0.12, a range of 600."""
    rng = np.random.default_rng(seed)
    place = 100.0 * rng.random((40, 2))
    far = np.hypot(*(place[:, None] - place[None]).transpose(2, 0, 1))
    edges = {(min(i, int(j)), max(i, int(j))) for i in range(40) for j in np.argsort(far[i])[1:5]}
    order = np.argsort(place[:, 0])
    edges |= {(min(int(a), int(b)), max(int(a), int(b))) for a, b in pairwise(order)}
    known = sorted(edges)
    length = np.array([far[i, j] for i, j in known])
    speed = np.where(rng.random(len(known)) < 1.0 / 3.0, 1.6, 0.7)
    mean = length / speed * np.exp(0.2 * rng.standard_normal(len(known)))
    decisions = Paths(40, known, int(order[0]), int(order[-1]), directed=False)
    return costs_of(decisions, mean, gamma(rng, len(known), 0.12), 600.0, length, seed)


def hosts(seed: int) -> Network:
    """Return all pairs of 20 hosts, latencies between 5 regions with a heavy tail of detours, cut at 1000."""
    rng = np.random.default_rng(seed)
    region, base = rng.integers(5, size=20), rng.uniform(20.0, 250.0, (5, 5))
    pairs = [(i, j) for i in range(20) for j in range(20) if i != j]
    expected = np.array([base[region[i], region[j]] for i, j in pairs])
    mean = np.minimum(expected * (0.6 + 0.4 * rng.pareto(1.5, len(pairs))), 800.0)
    return costs_of(Paths(20, pairs, 0, 19), mean, spikes(rng, len(pairs), 0.15, 0.01, 2.0), 1000.0, expected, seed)


def backbone(seed: int) -> Network:
    """Return a ring of 30 routers with 30 chords: propagation, and queues that are exponential and known to no map."""
    rng = np.random.default_rng(seed)
    edges = [(i, (i + 1) % 30) for i in range(30)]
    while len(edges) < 60:
        a, b = sorted(rng.choice(30, 2, replace=False).tolist())
        if (a, b) not in edges:
            edges.append((a, b))
    still, queue = rng.uniform(1.0, 20.0, 60), rng.exponential(6.0, 60)
    luck = (still + queue * rng.exponential(1.0, (_OUTCOMES, 60))) / (still + queue)
    decisions = Paths(30, edges, 0, 15, directed=False)
    return costs_of(decisions, still + queue, luck, 200.0, still, seed)


def buses(seed: int) -> Network:
    """Return 7 legs with 3 lines from each of 3 stops, waits that are exponential: as loud as they are long."""
    rng = np.random.default_rng(seed)
    edges = [(0, 1 + j) for j in range(3)]
    edges += [(1 + 3 * leg + i, 4 + 3 * leg + j) for leg in range(5) for i in range(3) for j in range(3)]
    edges += [(16 + i, 19) for i in range(3)]
    timetable = rng.uniform(3.0, 20.0, len(edges))
    mean = timetable * rng.uniform(0.8, 1.5, len(edges))
    return costs_of(Paths(20, edges, 0, 19), mean, gamma(rng, len(edges), 1.0), 90.0, timetable, seed)


def quotes(seed: int) -> Network:
    """Return assignments of 10 loads to 12 carriers, quotes off by 30%, variation 0.05, a range of 10 means."""
    rng = np.random.default_rng(seed)
    expected = np.exp(rng.normal(4.0, 0.5, 120))
    mean = expected * rng.uniform(0.7, 1.3, 120)
    return costs_of(Matchings(10, 12), mean, gamma(rng, 120, 0.05), 10.0 * float(mean.mean()), expected, seed)


def cables(seed: int) -> Network:
    """Return trees that span 15 sites, costs by distance off by a log-normal factor, variation 0.2."""
    rng = np.random.default_rng(seed)
    place = rng.random((15, 2))
    pairs = [(i, j) for i in range(15) for j in range(i + 1, 15)]
    expected = np.array([5.0 + 100.0 * np.hypot(*(place[i] - place[j])) for i, j in pairs])
    mean = expected * np.exp(0.4 * rng.standard_normal(len(pairs)))
    return costs_of(SpanningTrees(15, pairs), mean, gamma(rng, len(pairs), 0.2), 600.0, expected, seed)


def long_decisions(seed: int) -> Network:
    """Return two disjoint decisions of 50 coins, 0.7 and 0.9: Thompson sampling can play the worse one for ever."""
    return coins(np.arange(100).reshape(2, 50), np.repeat([0.7, 0.9], 50), None, seed)


def shared_luck(seed: int) -> Network:
    """Return 5 disjoint decisions of 10 coins that fall alike."""
    means = np.repeat(np.random.default_rng(seed).uniform(0.3, 0.7, 5), 10)
    return coins(np.arange(50).reshape(5, 10), means, np.repeat(np.arange(5), 10), seed)


def coins(family: Any, means: Array, alike: Any, seed: int) -> Network:
    """Return a world of rewards of 0 and 1 over listed decisions."""
    decisions = Explicit(family)
    world = StochasticEnvironment(means, means.size, noise_groups=alike, decisions=decisions, seed=seed)
    return Network(world, np.full(means.size, 0.5))


CHOOSING: Mapping[str, Kind] = {
    "streets": Kind(3000, streets),
    "overlay": Kind(3000, overlay),
    "layers of coins": Kind(3000, layers),
    "shifts": Kind(3000, shifts),
}
JUDGING: Mapping[str, Kind] = {
    "rings and spokes": Kind(3000, rings),
    "country roads": Kind(3000, country),
    "hosts": Kind(3000, hosts),
    "backbone": Kind(3000, backbone),
    "buses": Kind(3000, buses),
    "quotes": Kind(3000, quotes),
    "cables": Kind(3000, cables),
}
HARD: Mapping[str, Kind] = {
    "2 decisions of 50": Kind(3000, long_decisions),
    "shared luck": Kind(3000, shared_luck),
}


class Player(Policy):
    """Counts, means and squares of unit rewards, for the rivals below."""

    def __init__(
        self, graph: Any, *, decisions: DecisionSet, reward_range: Any, direction: str, seed: int | None = None
    ) -> None:
        super().__init__(graph, decisions=decisions, reward_range=reward_range, direction=direction, seed=seed)
        self.counts, self.sums, self.squares = np.zeros((3, self.n_arms))
        self.rng = np.random.default_rng(seed)

    def _update(self, number: int, arms: NDArray[np.int64], rewards: Array) -> None:
        self.counts[arms] += 1
        self.sums[arms] += rewards
        self.squares[arms] += rewards**2

    def best(self, values: Array) -> NDArray[np.int64]:
        """Return the decision of largest value, where an arm that was never seen is worth all that it can be."""
        assert self.decisions is not None
        values = np.where(self.counts > 0, np.clip(values, 0.0, 1.0), 1.0)
        arms = self.decisions.maximise(values + self._offset)
        assert arms is not None
        return arms

    def means(self) -> Array:
        """Return the mean of each arm."""
        return self.sums / np.maximum(self.counts, 1)


class OptimisticGreedy(Player):
    """The best decision by the means so far; an edge that was never used is free."""

    def _select(self, number: int) -> NDArray[np.int64]:
        return self.best(self.means())


class GaussianThompson(Player):
    """Draws from normal laws with the variance of each arm, that of all arms for one reward; unseen edges are free."""

    def _select(self, number: int) -> NDArray[np.int64]:
        means = self.means()
        spread = np.maximum(self.squares - self.counts * means**2, 0.0)
        pooled = spread.sum() / max(np.maximum(self.counts - 1, 0).sum(), 1.0)
        variance = np.where(self.counts > 1, spread / np.maximum(self.counts - 1, 1), pooled)
        return self.best(means + np.sqrt(variance / np.maximum(self.counts, 1)) * self.rng.standard_normal(means.size))


TODAY = '`GuardedThompson(prior="uniform")`'
LEARNED = "`GuardedThompson`"
BASELINE = "`GuardedThompson(expected=)`"
Maker = Callable[..., Policy]
PLAYERS: Mapping[str, tuple[Maker, dict[str, Any]]] = {
    TODAY: (GuardedThompson, {"prior": "uniform"}),
    LEARNED: (GuardedThompson, {}),
    BASELINE: (GuardedThompson, {}),
    "Gaussian Thompson, empirical variance": (GaussianThompson, {}),
    "optimistic greedy": (OptimisticGreedy, {}),
    "CTS, a coin for each cost": (ThompsonSampling, {"fractional": "coin"}),
    "`CombUCB1`": (CombUCB1, {}),
}


def play(name: str, network: Network, rounds: int, seed: int) -> float:
    """Return what a player loses on a network."""
    kind, options = PLAYERS[name]
    world = network.world
    given = {"decisions": world.decisions, "reward_range": world.reward_range, "direction": world.direction}
    if name == BASELINE:
        given["expected"] = network.expected
    policy = kind(world.graph, **given, **options, seed=seed)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*is not compiled")
        return float(simulate(policy, world, horizon=rounds, checkpoints=[rounds], workers=1).regret[0, -1])


def measure(kind: Kind, first: int, runs: int, rounds: int) -> dict[str, list[float]]:
    """Return what each player lost in each run."""
    networks = [kind.network(seed) for seed in range(first, first + runs)]
    return {name: [play(name, one, rounds, run) for run, one in enumerate(networks)] for name in PLAYERS}


def ratio(lost: Mapping[str, Sequence[float]], name: str, other: str = TODAY) -> tuple[float, float]:
    """Return what a player lost over what another did, by sums over runs, and its standard error; NaN over nothing."""
    old, new = np.array(lost[other]), np.array(lost[name])
    if old.size < 2 or old.sum() <= 0.0:
        return math.nan, math.nan
    found = float(new.sum() / old.sum())
    return found, float((new - found * old).std(ddof=1)) / math.sqrt(old.size) / float(old.mean())


def show(results: Mapping[str, Mapping[str, Sequence[float]]]) -> None:
    """Print what players lost, beginning with the networks on which a learned prior loses most against the best."""
    rivals = [name for name in PLAYERS if not name.startswith("`GuardedThompson")]

    def behind(name: str) -> float:
        return float(np.nanmax([0.0, *(ratio(results[name], LEARNED, other)[0] for other in rivals)]))

    heads = ["regret", *PLAYERS, "learned / uniform", "expected / uniform", "learned / best rival"]
    print(f"| {' | '.join(heads)} |\n|{'---|' * len(heads)}")
    for name in sorted(results, key=lambda one: -behind(one)):
        lost = results[name]
        cells = [f"{np.mean(lost[player]):,.4g}" for player in PLAYERS]
        cells += ["{:.2f} ±{:.2f}".format(*ratio(lost, player)) for player in (LEARNED, BASELINE)]
        print(f"| {name} | {' | '.join(cells)} | {behind(name):.2f} |")
    for player in PLAYERS:
        each = np.array([ratio(lost, player)[0] for lost in results.values()])
        each = each[each > 0.0]
        if each.size:
            mean = math.exp(float(np.log(each).mean()))
            print(f"{player} over {TODAY}: geometric mean {mean:.2f}, worst {each.max():.2f}")


def main(arguments: Sequence[str]) -> None:
    """Play the networks for judging, or those for choosing, or the hard sets."""
    parser = argparse.ArgumentParser(prog="make compare ARGS=routes", description=__doc__)
    parser.add_argument("--choosing", action="store_true", help="the networks that served to choose")
    parser.add_argument("--hard", action="store_true", help="long decisions, and shared luck")
    parser.add_argument("--runs", type=int, default=16)
    parser.add_argument("--first", type=int, help="seed of the first run")
    parser.add_argument("--rounds", type=int, help="at most so many rounds")
    parser.add_argument("--only", default="", help="networks whose name contains this")
    parser.add_argument("--json", type=Path, help="write the figures here, too")
    given = parser.parse_args(arguments)
    kinds = HARD if given.hard else CHOOSING if given.choosing else JUDGING
    first = given.first or (CHOOSING_SEED if given.choosing else JUDGING_SEED)
    results = dict[str, dict[str, list[float]]]()
    for name, kind in kinds.items():
        if given.only in name:
            results[name] = measure(kind, first, given.runs, min(kind.rounds, given.rounds or kind.rounds))
            if given.json is not None:
                given.json.write_text(json.dumps(results, indent=1), encoding="utf-8")
    if results:
        print(f"{given.runs} runs each")
        show(results)
