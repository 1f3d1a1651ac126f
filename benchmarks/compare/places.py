"""Pages whose places have weights: Thompson sampling that knows or learns them, beside one that takes places alike.

All meet the same items and the same luck; what counts are clicks that were lost against the best page. Orders by draws
and by means were compared on other seeds; the page of 60 items was named before any policy had played it.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from armtriage import PageEnvironment, ThompsonSampling
from benchmarks.compare.routes import ratio

Array = NDArray[np.float64]
SEED = 3000
DELTA = 0.01
ALIKE, GIVEN, LEARNT = "alike", "given", "learnt"


class Page(NamedTuple):
    """How many items there are, the weights of places, how rates are drawn, and after how many pages is looked."""

    items: int
    weights: Sequence[float]
    rates: Callable[[np.random.Generator, int], Array]
    looks: tuple[int, ...]

    def world(self, seed: int) -> PageEnvironment:
        """Return the page of a run."""
        return PageEnvironment(self.rates(np.random.default_rng(seed), self.items), self.weights, seed=seed)


def few_percent(luck: np.random.Generator, n: int) -> Array:
    """Return rates between 2% and 10%."""
    return luck.uniform(0.02, 0.10, n)


def skewed(luck: np.random.Generator, n: int) -> Array:
    """Return rates of 6% on average, most of them below."""
    return luck.beta(2.0, 30.0, n)


PAGES = {
    "100 items, 6 places": Page(100, [1, 0.6, 0.4, 0.3, 0.2, 0.15], few_percent, (15_000, 40_000, 200_000)),
    "40 items, 6 places": Page(40, [1, 0.6, 0.4, 0.3, 0.2, 0.15], few_percent, (2000, 15_000)),
    "60 items, 4 places": Page(60, [1, 0.7, 0.5, 0.35], skewed, (5000, 40_000)),
    "10 items, 2 places": Page(10, [1, 0.05], few_percent, (5000, 40_000)),
}


def play(page: Page, given: Any, seed: int, looks: Sequence[int]) -> list[tuple[float, float]]:
    """Return the clicks lost, and with given weights what the certificate said, after some numbers of pages."""
    world, found, lost = page.world(seed), [], 0.0
    policy = ThompsonSampling(page.items, len(page.weights), positions=given, prior=(0.5, 4.5), seed=seed)
    for number in range(max(looks)):
        decision = policy.ask()
        lost += world.regret(decision.ranked_arms)
        world.play(policy, decision, number)
        if number + 1 in looks:
            certain = isinstance(given, Sequence) and not isinstance(given, str)
            found.append((lost, policy.certificate(delta=DELTA).regret_bound if certain else 0.0))
    return found


def measure(page: Page, first: int, runs: int, most: int) -> dict[str, dict[int, list[tuple[float, float]]]]:
    """Return what each lost and certified in each run, by the number of pages."""
    looks = [one for one in page.looks if one <= most] or [most]
    found = {}
    for name, given in ((ALIKE, None), (GIVEN, page.weights), (LEARNT, "learn")):
        each = [play(page, given, seed, looks) for seed in range(first, first + runs)]
        found[name] = dict(zip(looks, zip(*each, strict=True), strict=True))
    return found  # type: ignore[return-value]


def show(results: dict[str, dict[str, dict[int, list[tuple[float, float]]]]]) -> None:
    """Print a line for each page and number of pages, with 95% intervals of ratios."""
    heads = ["page", "pages", "places taken alike", "weights given", "given / alike", "learnt / given", "certified"]
    print(f"| {' | '.join(heads)} |\n|{'---|' * len(heads)}")
    for name, by in results.items():
        for look in by[ALIKE]:
            lost = {one: [run[0] for run in each[look]] for one, each in by.items()}
            cells = [f"{np.mean(lost[one]):,.0f}" for one in (ALIKE, GIVEN)]
            for one, other in ((GIVEN, ALIKE), (LEARNT, GIVEN)):
                middle, error = ratio(lost, one, other)
                cells.append(f"{middle:.2f} ({middle - 1.96 * error:.2f} to {middle + 1.96 * error:.2f})")
            certified = np.mean([run[1] for run in by[GIVEN][look]])
            print(f"| {name} | {int(look):,} | {' | '.join(cells)} | {certified:,.0f} |")


def main(arguments: Sequence[str]) -> None:
    """Play all pages, or those whose name contains a word."""
    parser = argparse.ArgumentParser(prog="make compare ARGS=places", description=__doc__)
    parser.add_argument("--runs", type=int, default=16)
    parser.add_argument("--first", type=int, default=SEED, help="seed of the first run")
    parser.add_argument("--rounds", type=int, default=200_000, help="at most so many pages in a run")
    parser.add_argument("--only", default="", help="pages whose name contains this")
    parser.add_argument("--json", type=Path, help="write the figures here, too")
    given = parser.parse_args(arguments)
    results = {}
    for name, page in PAGES.items():
        if given.only in name:
            results[name] = measure(page, given.first, given.runs, given.rounds)
            if given.json is not None:
                given.json.write_text(json.dumps(results), encoding="utf-8")
    print(f"{given.runs} runs each; certificates at {1 - DELTA:.0%}")
    show(results)
