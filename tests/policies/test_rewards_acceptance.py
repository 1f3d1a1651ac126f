"""What exact rewards and learned priors must reach, on means of 8 to 512 runs; minutes, so `make test-long` plays it.

Limits are those that we set ourselves before measuring, with what was measured beside them. Seeds are fixed. Where the
luck is drawn anew, a mean that is right misses its limit by chance in less than one case of a thousand, but where said.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from armtriage import (
    FeedbackGraph,
    GuardedThompson,
    StochasticEnvironment,
    ThompsonSampling,
    Trace,
    random_rewards,
    simulate,
    ucb_failure,
)
from armtriage.kernels.jit import JIT

pytestmark = [pytest.mark.long, pytest.mark.skipif(not JIT, reason="millions of rounds need compilation")]
SEED = 5


def world(law: str, graph: str) -> StochasticEnvironment:
    """100 arms, alone or in ten cliques, with rewards of a law; "ratings" are like those of jokes."""
    arms = FeedbackGraph.semi_bandit(100) if graph == "alone" else FeedbackGraph.cliques([10] * 10)
    if law != "ratings":
        return random_rewards(arms, law=law, seed=SEED)
    from scipy import stats  # here, since it takes most of a second

    rng, u = np.random.default_rng(SEED), (np.arange(1024)[:, None] + 0.5) / 1024
    means, deviations = rng.uniform(0.4, 0.67, 100), rng.uniform(0.2, 0.25, 100)
    size = means * (1.0 - means) / deviations**2 - 1.0
    return StochasticEnvironment.from_outcomes(stats.beta.ppf(u, size * means, size * (1 - means)), arms, seed=SEED)


def as_coins(env: StochasticEnvironment) -> StochasticEnvironment:
    """The same means, had a coin made 0 or 1 of every reward: intervals and draws then know no variance."""
    return StochasticEnvironment(env.means, env.graph, seed=env.seed)


def played(env: StochasticEnvironment, prior: str, horizon: int, runs: int, certificate: bool = False) -> Trace:
    policy = GuardedThompson(env.graph, 10, prior=prior, seed=1)
    return simulate(
        policy, env, horizon=horizon, replications=runs, seed=7, checkpoints=1, certificate=certificate, workers=1
    )


def lost(env: StochasticEnvironment, prior: str, horizon: int = 10_000, runs: int = 8) -> np.ndarray:
    return played(env, prior, horizon, runs).regret[:, -1]


@pytest.mark.parametrize(
    ("law", "graph", "most"),
    [
        ("beta 2", "alone", 0.65),
        ("beta 10", "alone", 0.42),
        ("uniform 0.05", "alone", 0.28),
        ("two points", "alone", 0.50),
        ("ratings", "alone", 0.52),
        ("lognormal", "alone", 0.37),
        ("beta 2", "cliques", 0.65),
        ("beta 10", "cliques", 0.25),
        ("uniform 0.05", "cliques", 0.08),
        ("ratings", "cliques", 0.55),
        ("lognormal", "cliques", 0.22),
    ],
)
def test_quiet_laws_over_ten_thousand_rounds(law: str, graph: str, most: float) -> None:
    """Against coins for draws and intervals, with either prior.

    Measured with the uniform one, about 0.54, 0.33, 0.22, 0.42, 0.42, 0.29; in cliques 0.49, 0.18, 0.05, 0.35, 0.13.
    """
    env = world(law, graph)
    coins = lost(as_coins(env), "uniform").mean()
    assert lost(env, "uniform").mean() <= most * coins
    assert lost(env, "learned").mean() <= most * coins


@pytest.mark.parametrize(
    ("law", "most"), [("beta 2", 0.62), ("beta 10", 0.32), ("uniform 0.05", 0.21), ("ratings", 0.46)]
)
def test_quiet_laws_over_a_hundred_thousand_rounds(law: str, most: float) -> None:
    env = world(law, "alone")
    coins = lost(as_coins(env), "uniform", 100_000).mean()
    assert lost(env, "uniform", 100_000).mean() <= most * coins
    assert lost(env, "learned", 100_000).mean() <= most * coins


@pytest.mark.parametrize("prior", ["uniform", "learned"])
def test_jackpots_are_found_in_every_run(prior: str) -> None:
    """Measured 418 and 362, at most 461 in a run; over 100,000 rounds 542 and 504, at most 860 in 32 runs."""
    env = world("jackpots", "alone")
    short, long = lost(env, prior), lost(env, prior, 100_000, 32)
    assert short.mean() <= 560
    assert short.max() <= 700
    assert long.mean() <= 750
    assert long.max() <= 1500


@pytest.mark.parametrize("prior", ["uniform", "learned"])
def test_coins_that_are_best_among_quiet_arms(prior: str) -> None:
    """Measured, in 64 runs, 588 and 703: fewer draws cost a fifth where the only arms to look at again are noisy."""
    assert lost(world("quiet others", "alone"), prior, runs=32).mean() <= 800


@pytest.mark.parametrize(
    ("law", "coins", "most"), [("beta 10", 26_458, 0.4), ("uniform 0.05", 27_633, 0.28), ("ratings", 25_945, 0.52)]
)
def test_certificates_of_quiet_laws(law: str, coins: float, most: float) -> None:
    """Against what was certified with coins for draws and intervals by sums alone, as it was before."""
    found = played(world(law, "alone"), "uniform", 10_000, 8, certificate=True).certificate
    assert found is not None
    assert found[:, -1].mean() <= most * coins


Rates = Callable[[np.random.Generator], np.ndarray]


def beta(a: float, b: float, n: int) -> Rates:
    return lambda rng: rng.beta(a, b, n)


def needles(n: int, few: int, low: float, high: float) -> Rates:
    return lambda rng: np.where(rng.permutation(n) < few, high, low)


def ratio(rates: Rates, size: int, budget: int, horizon: int, runs: int) -> float:
    """The regret with the learned prior over that with the uniform one; every run has means of its own."""
    found = {"learned": 0.0, "uniform": 0.0}
    for run in range(3000, 3000 + runs):
        means = rates(np.random.default_rng(run))
        graph = FeedbackGraph.cliques([size] * (means.size // size))
        env = StochasticEnvironment(means, graph, seed=run)
        for prior in found:
            policy = GuardedThompson(graph, budget, prior=prior, seed=run)
            trace = simulate(policy, env, horizon=horizon, seed=run, checkpoints=1, workers=1)
            found[prior] += float(trace.regret[0, -1])
    return found["learned"] / found["uniform"]


@pytest.mark.parametrize(
    ("rates", "sizes", "most"),
    [
        (beta(1, 14, 2000), (1, 20, 5000, 16), 0.52),
        (beta(2, 60, 2000), (1, 20, 50_000, 16), 0.60),
        (beta(1, 1, 100), (1, 10, 20_000, 48), 1.03),
        (beta(1, 1, 10), (1, 3, 20_000, 512), 1.05),
        (beta(1, 1, 5), (1, 2, 20_000, 512), 1.05),
        (needles(2000, 20, 0.02, 0.5), (1, 20, 5000, 16), 0.75),
        (needles(2000, 5, 0.02, 0.3), (1, 20, 5000, 16), 0.50),
        (lambda rng: rng.uniform(0.005, 0.02, 200), (1, 5, 100_000, 16), 0.75),
        (beta(1, 14, 500), (10, 10, 20_000, 32), 0.90),
        (beta(1, 1, 500), (10, 10, 20_000, 32), 1.03),
    ],
    ids=["beta 1 14", "beta 2 60", "uniform", "10 arms", "5 arms", "needles", "5 needles", "clicks", "cliques", "even"],
)
def test_learned_priors_of_rates(rates: Rates, sizes: tuple[int, int, int, int], most: float) -> None:
    """Measured 0.44, 0.51, 0.89, 0.95, 0.98, 0.59, 0.42, 0.70, 0.79 and 0.93, in this order."""
    assert ratio(rates, *sizes) <= most


def test_a_learned_prior_of_two_arms_costs_nothing() -> None:
    """Measured 1.008 with a standard error of 0.0095 in 4,096 runs; 2,048 exceed 1.05 by chance once in a thousand."""
    env = StochasticEnvironment([0.3, 0.4], 2, seed=SEED)
    found = [
        simulate(GuardedThompson(2, 1, prior=prior, seed=1), env, horizon=20_000, replications=2048, seed=7).mean[-1]
        for prior in ("learned", "uniform")
    ]
    assert found[0] <= 1.05 * found[1]


def test_a_learned_prior_keeps_no_unseen_arm_from_being_looked_at() -> None:
    """Rewards never vary here, so one look at an arm says all. Measured 0.88; with a firm prior of unseen arms 1.5."""
    env = ucb_failure(32, 32, horizon=20_000, noise="deterministic", seed=7)
    found = [
        simulate(kind(env.graph, 32, seed=7), env, horizon=20_000, replications=4, seed=7, workers=1).mean[-1]
        for kind in (GuardedThompson, ThompsonSampling)
    ]
    assert found[0] <= 1.1 * found[1]
