"""`GuardedIndex` beside `GuardedThompson` on families of slates, none of which either was tuned on.

A run draws new means, or new luck where means are those of a table, and both policies meet the same. Rounds in which
the tables of scikit-learn are played show, for each of some measurements, the value of a case drawn at random.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn import datasets

from armtriage import (
    FeedbackGraph,
    GuardedIndex,
    GuardedThompson,
    Policy,
    RandomRounds,
    StochasticEnvironment,
    revealing_hubs,
    simulate,
)

SEED = 60_000
"""Runs on which rules were chosen have other seeds."""
Array = NDArray[np.float64]


class Family(NamedTuple):
    """Worlds of a kind: `world` makes that of a run, from its seed."""

    budget: int
    rounds: int
    world: Callable[[int], StochasticEnvironment]


def drawn(means: Callable[[np.random.Generator], Array], graph: FeedbackGraph | int, **options: Any) -> Any:
    """Return worlds with other means in every run."""
    return lambda seed: StochasticEnvironment(means(np.random.default_rng(seed)), graph, seed=seed, **options)


def mixed(rng: np.random.Generator, n: int, *values: tuple[int, float]) -> Array:
    """Return n means in random order: so many of each value given, and the last for all others."""
    means = np.full(n, values[-1][1])
    means[: sum(count for count, _ in values[:-1])] = np.repeat(*zip(*((v, c) for c, v in values[:-1]), strict=True))
    return rng.permutation(means)


def table(load: Callable[[], Any], *, coins: bool = False) -> Any:
    """Return worlds whose arms are the measurements of a data set, scaled to [0, 1], or whether they are above 1/2."""
    data = np.asarray(load().data, np.float64)
    low, width = data.min(axis=0), np.ptp(data, axis=0)
    scaled = ((data - low) / np.where(width > 0, width, 1.0)).clip(0.0, 1.0)
    outcomes = (scaled > 0.5).astype(np.float64) if coins else scaled
    return lambda seed: StochasticEnvironment.from_outcomes(outcomes, outcomes.shape[1], seed=seed)


def _half_near_1(rng: np.random.Generator) -> Array:
    return np.append(rng.uniform(0.9, 1.0, 100), rng.beta(1, 5, 100))


FAMILIES: Mapping[str, Family] = {
    "one of 20, uniform means": Family(1, 20_000, drawn(lambda rng: rng.random(20), 20)),
    "one of 50, means of Beta(20, 20)": Family(1, 20_000, drawn(lambda rng: rng.beta(20, 20, 50), 50)),
    "2 of 20, a gap of 0.05": Family(2, 20_000, drawn(lambda rng: mixed(rng, 20, (2, 0.5), (0, 0.45)), 20)),
    "5 of 50, uniform, long": Family(5, 200_000, drawn(lambda rng: rng.random(50), 50)),
    "5 of 200, means of Beta(20, 20)": Family(5, 20_000, drawn(lambda rng: rng.beta(20, 20, 200), 200)),
    "8 of 300, three values": Family(
        8, 20_000, drawn(lambda rng: mixed(rng, 300, (30, 0.35), (90, 0.2), (0, 0.05)), 300)
    ),
    "2 needles of 0.25 in 300 of 0.03": Family(
        2, 20_000, drawn(lambda rng: mixed(rng, 300, (2, 0.25), (0, 0.03)), 300)
    ),
    "10 of 200, half near 1": Family(10, 20_000, drawn(_half_near_1, 200)),
    "10 of 500, log-normal around 3%": Family(
        10, 20_000, drawn(lambda rng: np.minimum(0.03 * np.exp(0.8 * rng.standard_normal(500)), 1.0), 500)
    ),
    "5 of 50, clicks around 2%": Family(5, 50_000, drawn(lambda rng: rng.beta(2, 98, 50), 50)),
    "20 of 300, clicks around 3%": Family(20, 20_000, drawn(lambda rng: rng.beta(2, 60, 300), 300)),
    "20 of 100, means of Beta(2, 2)": Family(20, 20_000, drawn(lambda rng: rng.beta(2, 2, 100), 100)),
    "10 of 200, cliques of 5": Family(
        10, 20_000, drawn(lambda rng: rng.beta(2, 8, 200), FeedbackGraph.cliques([5] * 40))
    ),
    "5 of 150, random digraph": Family(
        5, 20_000, drawn(lambda rng: rng.beta(2, 2, 150), FeedbackGraph.erdos_renyi(150, 0.03, seed=7))
    ),
    "4 of 60 behind 3 hubs": Family(4, 20_000, lambda seed: revealing_hubs(60, 3, 4, 0.15, seed=seed)),
    "2 of 40 behind one hub": Family(2, 20_000, lambda seed: revealing_hubs(40, 1, 2, 0.15, seed=seed)),
    "6 of 120 behind 6 hubs": Family(6, 20_000, lambda seed: revealing_hubs(120, 6, 6, 0.2, hub_mean=0.2, seed=seed)),
    "6 of 60, quiet": Family(6, 10_000, drawn(lambda rng: rng.beta(2, 2, 60), 60, reward="beta", concentration=30.0)),
    "5 of 80, each there in half of the rounds": Family(
        5, 10_000, drawn(lambda rng: rng.beta(2, 6, 80), 80, availability=RandomRounds(0.5))
    ),
    "digits: 5 of 64 pixels, on or off": Family(5, 20_000, table(datasets.load_digits, coins=True)),
    "digits: one of 64 pixels, grey": Family(1, 20_000, table(datasets.load_digits)),
    "breast cancer: 5 of 30": Family(5, 20_000, table(datasets.load_breast_cancer)),
    "wine: 3 of 13": Family(3, 20_000, table(datasets.load_wine)),
    "diabetes: 2 of 10, on or off": Family(2, 20_000, table(datasets.load_diabetes, coins=True)),
}


class Played(NamedTuple):
    """What a policy lost in each run, and what its certificate said of it."""

    regret: Array
    certificate: Array


def play(kind: Callable[..., Policy], family: Family, runs: int, rounds: int, first: int = SEED) -> Played:
    """Play so many runs of a family, with one seed for the luck of the world and of the policy."""
    found = []
    for seed in range(first, first + runs):
        env = family.world(seed)
        policy = kind(env.graph, family.budget, seed=seed)
        trace = simulate(policy, env, horizon=rounds, checkpoints=[rounds], certificate=True, workers=1)
        assert trace.certificate is not None
        found.append((trace.regret[0, -1], trace.certificate[0, -1]))
    return Played(*np.array(found).T)


def compared(old: Played, new: Played) -> dict[str, float]:
    """Return what the new policy lost over what the old one did: mean, with its standard error, 90% quantile, worst."""
    mean = float(old.regret.mean())
    paired = new.regret - new.regret.mean() / mean * old.regret
    return {
        "old": mean,
        "new": float(new.regret.mean()),
        "ratio": float(new.regret.mean()) / mean,
        "error": float(paired.std(ddof=1)) / math.sqrt(paired.size) / mean,
        "quantile": float(np.quantile(new.regret, 0.9) / np.quantile(old.regret, 0.9)),
        "worst": float(new.regret.max() / old.regret.max()),
        "certificate": float(new.certificate.mean() / old.certificate.mean()),
    }


def main(arguments: Sequence[str]) -> None:
    """Play all families, or those whose names contain a word, and print a line for each, the worst first."""
    parser = argparse.ArgumentParser(prog="make compare ARGS=slates", description=__doc__)
    parser.add_argument("--runs", type=int, default=64)
    parser.add_argument("--first", type=int, default=SEED, help="seed of the first run")
    parser.add_argument("--rounds", type=int, help="at most so many rounds in a run")
    parser.add_argument("--only", nargs="*", default=[""], help="families whose name contains one of these")
    parser.add_argument("--json", type=Path, help="write the figures here, too")
    given = parser.parse_args(arguments)
    found = dict[str, dict[str, float]]()
    for name, family in FAMILIES.items():
        if any(word in name for word in given.only):
            rounds = min(family.rounds, given.rounds or family.rounds)
            found[name] = compared(
                *(play(kind, family, given.runs, rounds, given.first) for kind in (GuardedThompson, GuardedIndex))
            )
            if given.json is not None:
                given.json.write_text(json.dumps(found, indent=1), encoding="utf-8")
    print(f"{given.runs} runs each; regret of GuardedIndex over that of GuardedThompson")
    print("| family | `GuardedThompson` | `GuardedIndex` | ratio | 90% quantile | worst run | certificate |")
    print("|---|---|---|---|---|---|---|")
    for name, one in sorted(found.items(), key=lambda item: -item[1]["ratio"]):
        lost, ratio = f"{one['old']:,.0f} | {one['new']:,.0f}", f"{one['ratio']:.2f} ±{one['error']:.2f}"
        print(f"| {name} | {lost} | {ratio} | {one['quantile']:.2f} | {one['worst']:.2f} | {one['certificate']:.2f} |")
    for key in ("ratio", "quantile", "worst", "certificate") if found else ():
        print(f"geometric mean of {key}: {np.exp(np.mean(np.log([one[key] for one in found.values()]))):.3f}")
