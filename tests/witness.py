"""A witness for restructuring: play every policy on fixed problems, and keep digests of all that can be seen of it.

Write the digests before a change that must not alter any behaviour, and check them after it::

    python tests/witness.py --write build/witness.json
    python tests/witness.py --check build/witness.json --only GuardedThompson

It uses what `armtriage` exports alone, so modules may move. Digests are of exact bytes: they hold for one machine and
one set of installed packages, and a saved array that is only scratch counts as well.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import armtriage
from armtriage import (
    C2UCB,
    KLUCB,
    CombinatorialElimination,
    CombinatorialUCB,
    CombUCB1,
    ConstrainedElimination,
    Constraints,
    ContextualPolicy,
    Decision,
    DecisionSet,
    Explicit,
    FeedbackGraph,
    Greedy,
    Guard,
    GuardedLinear,
    GuardedThompson,
    HierarchicalElimination,
    Knapsack,
    LinearEnvironment,
    LinearThompsonSampling,
    Matchings,
    PartitionMatroid,
    Paths,
    Policy,
    ReplayEnvironment,
    SpanningTrees,
    StochasticEnvironment,
    ThompsonSampling,
    TopS,
    UniformRandom,
    hub_family,
    linear_blocks,
    random_bernoulli,
    random_linear,
    revealing_hubs,
    simulate,
    two_hubs,
)

SEED = 7
OPEN = 6
"""How many decisions are open before some of them are told."""

ENDS = ("triage", "account", "interval_failures", "oracle_calls", "oracle_batches", "stages")
"""What some policies tell about themselves."""

SHIFTED: dict[str, Any] = {"reward_range": (-2.0, 3.0)}
LONG: dict[str, Any] = {"horizon": 20_000}
PAPER: dict[str, Any] = {"variant": "paper", **LONG}
BRIEF: dict[str, Any] = {"horizon": 50, "delta": 0.3}

SOME = ("cliques", "hubs")
MORE = ("semi", *SOME)
MOST = ("single", "everything", "random", "full", "thousand", "thousand connected", *MORE)
ALL = ("threshold", "two hubs", "shared noise", "certain", "recorded", "hundreds", *MOST)
LINEAR = ("cube", "fixed", "line", "wide", "sphere", "blocks")
LISTED = ("top", "menus", "quotas", "assignments", "trees", "routes")
SETS = (*LISTED, "bag", "teams")

PLAN: list[tuple[type[Policy], tuple[str, ...], list[dict[str, Any]]]] = [
    (GuardedThompson, ALL, [{}]),
    (
        GuardedThompson,
        MORE,
        [
            {"mode": "shadow"},
            {"free_look": False},
            {"reveal": False},
            {"free_look": False, "reveal": False, "factor": 0.01},
            {"factor": 0.01},
            {"factor": 0.0, "mode": "shadow"},
            {"delta": 0.3, **SHIFTED},
        ],
    ),
    (CombinatorialElimination, ALL, [{}]),
    (
        CombinatorialElimination,
        SOME,
        [
            PAPER,
            {**PAPER, "delta": 0.3, "skip_revealed": True, "fill": "best"},
            {**PAPER, "benchmark": "reduced"},
            {"variant": "paper", "interval": "hoeffding", "tie_break": "random"},
            {"benchmark": "printed", "interval": "hoeffding", **LONG},
            {"interval": "printed", **LONG},
            {"interval": "hoeffding"},
            {"interval": "kl"},
            {"interval": "kl", "delta": 0.3, **LONG},
            {"interval": "bernstein"},
            {"interval": "bernstein", **LONG},
            {"tie_break": "index", "fill": "index"},
            {"tie_break": "random", "fill": "random"},
            {"skip_revealed": False},
            {"intersect": False},
            SHIFTED,
        ],
    ),
    (ThompsonSampling, MOST, [{}]),
    (ThompsonSampling, SOME, [SHIFTED]),
    (CombUCB1, MOST, [{}]),
    (CombUCB1, SOME, [{"exploration": 0.2, **SHIFTED}]),
    (KLUCB, MOST, [{}]),
    (KLUCB, SOME, [{"log_log": 3.0}, SHIFTED]),
    (CombinatorialUCB, MOST, [LONG]),
    (CombinatorialUCB, SOME, [{"width": 0.5}, {"delta": 0.3, **LONG, **SHIFTED}]),
    (Greedy, ("single", "full", "thousand", *SOME), [{}]),
    (Greedy, SOME, [SHIFTED]),
    (UniformRandom, ("single", "everything", "thousand", *SOME), [{}]),
    (C2UCB, LINEAR, [{}]),
    (C2UCB, ("sphere", "blocks"), [{"width": 0.3, "ridge": 0.5}, {"noise_scale": 0.2, "delta": 0.2, **SHIFTED}]),
    (GuardedLinear, LINEAR, [{}]),
    (GuardedLinear, ("sphere", "blocks"), [{"factor": 0.02, "delta": 0.5, **SHIFTED}, {"certificate": False}]),
    (LinearThompsonSampling, LINEAR, [{}]),
    (
        LinearThompsonSampling,
        ("sphere", "blocks"),
        [{"scale": 0.2, "ridge": 3.0, **SHIFTED}, {"noise_scale": 0.1, "context_bound": 2.0}],
    ),
    (HierarchicalElimination, LINEAR, [LONG]),
    (
        HierarchicalElimination,
        ("sphere", "line"),
        [
            {"variant": "paper", **BRIEF},
            {"variant": "repaired", **BRIEF, **SHIFTED},
            {"noise_scale": 0.01, "context_bound": 2.0, **BRIEF},
        ],
    ),
    (CombUCB1, SETS, [{}]),
    (CombUCB1, ("menus", "routes"), [SHIFTED]),
    (KLUCB, SETS, [{"log_log": 1.0}]),
    (KLUCB, ("menus", "routes"), [SHIFTED]),
    (ThompsonSampling, SETS, [{}]),
    (ThompsonSampling, ("menus", "routes"), [SHIFTED]),
    (ConstrainedElimination, ("hub family", *SETS), [{}]),
    (ConstrainedElimination, ("hub family", *LISTED), [{"variant": "repaired", "cover": "greedy", **BRIEF}]),
    (ConstrainedElimination, ("hub family", *LISTED), [{"variant": "paper", "cover": "greedy", **BRIEF}]),
    (
        ConstrainedElimination,
        ("hub family", "menus"),
        [
            {"variant": "repaired", **BRIEF},
            {"variant": "paper", **BRIEF},
            {"variant": "repaired", "interval": "hoeffding", "delta": 0.3, **SHIFTED},
        ],
    ),
    (
        ConstrainedElimination,
        ("menus", "routes"),
        [
            {"interval": "kl", **BRIEF, **SHIFTED},
            {"interval": "hoeffding", **BRIEF},
            {"interval": "bernstein"},
            {"interval": "printed", **BRIEF},
        ],
    ),
]
"""Which policy plays which problems, with each of these options."""

GUARDS: list[tuple[type[Policy] | None, dict[str, Any]]] = [
    (ThompsonSampling, {}),
    (UniformRandom, {"factor": 0.2}),
    (CombUCB1, {"mode": "shadow"}),
    (GuardedThompson, {"factor": 0.1, **SHIFTED}),
    (None, {"delta": 0.3}),
    (None, {"mode": "shadow", "factor": 0.05}),
]
"""Whom a guard is put around, a function for None, and its options."""


class Problem(NamedTuple):
    """What is played against, which decisions are allowed, and how many rounds are asked and simulated."""

    environment: Any
    within: int | DecisionSet
    asked: int = 300
    simulated: int = 4000
    detailed: bool = False  # keep a digest of each array of the saved state, not one of all


class Case(NamedTuple):
    """A policy on a problem."""

    name: str
    problem: Problem
    make: Callable[[], Policy]


def graph_problems() -> dict[str, Problem]:
    """Return problems with feedback graphs, from one arm to a thousand, with whole and fractional rewards."""
    graph = FeedbackGraph
    outcomes = np.random.default_rng(SEED).random((2000, 12)) ** np.linspace(0.5, 2.0, 12)
    steps = np.repeat([0.95, 0.75, 0.4, 0.05], [2, 2, 8, 20])[13 * np.arange(32) % 32]
    tied = np.repeat([0.95, 0.6, 0.05], [3, 3, 12])

    def random(kind: FeedbackGraph, reward: str = "bernoulli") -> StochasticEnvironment:
        return random_bernoulli(kind, low=0.05, high=0.95, reward=reward, seed=SEED)

    return {
        "single": Problem(random(graph.semi_bandit(1)), 1, 40, 200),
        "everything": Problem(random(graph.cliques([3, 1, 4]), "beta"), 8, 40, 200),
        "semi": Problem(random(graph.semi_bandit(30)), 4),
        "cliques": Problem(StochasticEnvironment(steps, graph.cliques([4] * 8), "beta", seed=SEED), 4, 500, 20_000),
        "full": Problem(random(graph.full_information(25), "uniform"), 3),
        "random": Problem(random(graph.erdos_renyi(60, 0.08, seed=SEED)), 5),
        "threshold": Problem(random(graph.threshold(40, "down")), 2),
        "hubs": Problem(revealing_hubs(150, 2, 3, 0.4, seed=SEED), 3, 500, detailed=True),
        "two hubs": Problem(random(two_hubs(160), "uniform"), 6),
        "shared noise": Problem(
            StochasticEnvironment(tied, graph.cliques([6] * 3), noise_groups=np.arange(18) % 4, seed=SEED), 5
        ),
        "certain": Problem(random(graph.erdos_renyi(20, 0.1, seed=SEED), "deterministic"), 3),
        "recorded": Problem(ReplayEnvironment(outcomes, graph.semi_bandit(12)), 3, 200, 2000),
        "hundreds": Problem(random(graph.erdos_renyi(300, 0.02, seed=SEED)), 10),
        "thousand": Problem(random(graph.semi_bandit(1000)), 20, 400),
        "thousand connected": Problem(random(graph.erdos_renyi(1000, 0.004, seed=SEED), "beta"), 12, 400),
    }


def linear_problems() -> dict[str, Problem]:
    """Return problems with contexts: drawn for each round, fixed, and the blocks of a lower bound."""
    fixed = random_linear(8, 3, seed=SEED).contexts(0)
    return {
        "sphere": Problem(random_linear(12, 4, seed=SEED), 3, 200, 1500, detailed=True),
        "cube": Problem(random_linear(9, 5, contexts="cube", reward="uniform", norm=0.7, seed=SEED), 2, 200, 1500),
        "fixed": Problem(LinearEnvironment([0.5, 0.4, -0.3], fixed, noise="shared", seed=SEED), 8, 60, 300),
        "line": Problem(random_linear(5, 1, norm=0.9, seed=SEED), 2, 500, 20_000),
        "blocks": Problem(linear_blocks(13, 2, horizon=1500, seed=SEED), 2, 200, 1500),
        "wide": Problem(random_linear(400, 40, reward="uniform", norm=0.9, seed=SEED), 20, 100, 300),
    }


def set_problems() -> dict[str, Problem]:
    """Return problems with decision sets; those whose oracle is slow are short."""
    roads = [(0, 1), (0, 1), (0, 2), (1, 2), (1, 3), (2, 3), (3, 4), (1, 4), (2, 4)]
    menus = Explicit([[0, 1], [2], [1, 2, 3], [0, 3, 4], [5], [4, 5]], n_arms=7)
    teams = Constraints([[1, 1, 1, 1, 1, 1], [1, 1, 0, 0, 0, 2]], lower=[2, 0], upper=[3, 2])
    quotas = PartitionMatroid([0, 0, 0, 1, 1, 2, 2, 2, 2], [1, 1, 2])
    graphs = {"menus": FeedbackGraph.cliques([2, 2, 3]), "quotas": FeedbackGraph.erdos_renyi(9, 0.2, seed=SEED)}
    sets: dict[str, DecisionSet] = {
        "top": TopS(8, budget=3),
        "menus": menus,
        "quotas": quotas,
        "assignments": Matchings(3, 4),
        "trees": SpanningTrees(5, [*roads[1:], (0, 4)]),
        "routes": Paths(5, roads, source=0, target=4),
        "bag": Knapsack([3.0, 4.0, 5.0, 2.0, 6.0], capacity=9.0),
        "teams": teams,
    }
    hubs = hub_family(seed=SEED)
    problems = {"hub family": Problem(hubs, hubs.decisions, 450, 1500)}
    for name, one in sets.items():
        graph = graphs.get(name, FeedbackGraph.semi_bandit(one.n_arms))
        means = np.random.default_rng(SEED).permutation(np.linspace(0.02, 0.98, one.n_arms))
        env = StochasticEnvironment(means, graph, decisions=one, seed=SEED)
        rounds = (40, 60) if name in ("bag", "teams") else (400, 1500)
        problems[name] = Problem(env, one, *rounds, detailed=name == "menus")
    return problems


def cases() -> Iterator[Case]:
    """Yield all cases; their names are those of the policy, its options and the problem."""
    problems = graph_problems() | linear_problems() | set_problems()
    for kind, names, variants in PLAN:
        for name in names:
            yield from (_case(kind, options, name, problems[name]) for options in variants)
    for proposer, options in GUARDS:
        # A guard is not compiled, so its simulations are slow.
        yield from (_guard_case(proposer, options, name, problems[name]._replace(simulated=1000)) for name in MORE)


def _case(kind: type[Policy], options: dict[str, Any], name: str, problem: Problem) -> Case:
    env, within = problem.environment, problem.within
    first: tuple[Any, ...] = (env.n_arms, env.dimension) if isinstance(env, LinearEnvironment) else (env.graph,)
    size = {"budget": within} if isinstance(within, int) else {"decisions": within}
    return Case(_name(kind.__name__, options, name), problem, lambda: kind(*first, **size, seed=SEED, **options))


def _guard_case(kind: type[Policy] | None, options: dict[str, Any], name: str, problem: Problem) -> Case:
    graph, budget = problem.environment.graph, problem.within
    assert isinstance(budget, int)
    units = {key: value for key, value in options.items() if key == "reward_range"}

    def make() -> Policy:
        proposer = (lambda number: (7 * number + np.arange(budget)) % graph.n_arms) if kind is None else None
        inner = proposer if kind is None else kind(graph, budget=budget, seed=SEED + 1, **units)
        return Guard(inner, graph, budget, seed=SEED, **options)

    inside = "function" if kind is None else kind.__name__
    return Case(_name(f"Guard of {inside}", options, name), problem, make)


def _name(policy: str, options: dict[str, Any], problem: str) -> str:
    return f"{policy}({', '.join(f'{key}={value}' for key, value in options.items())}) on {problem}"


def ask(problem: Problem, policy: Policy, number: int) -> Decision:
    """Ask for the decision of a round, with its contexts if there are any."""
    if isinstance(policy, ContextualPolicy):
        return policy.ask(problem.environment.contexts(number))
    return policy.ask()


def play_in_order(problem: Problem, policy: Policy) -> Iterator[np.ndarray]:
    """Yield the arms of each decision, which is told before the next one is asked."""
    for number in range(problem.asked):
        decision = ask(problem, policy, number)
        yield decision.arms
        policy.tell(decision, problem.environment.rewards(number, decision.revealed))


def play_late(problem: Problem, policy: Policy, rounds: range) -> Iterator[np.ndarray]:
    """Yield the arms of each decision, several of which are open: told out of order, wholly, in part or not at all."""
    for number in rounds:
        yield ask(problem, policy, number).arms
        luck, waiting = np.random.default_rng([SEED, number]), policy.open_decisions
        order = luck.permutation(len(waiting))
        for place in order[: luck.integers(1, OPEN)] if len(waiting) >= OPEN else ():
            decision = waiting[place]
            rewards = problem.environment.rewards(decision.number, decision.revealed)
            fate = luck.random()
            if fate < 0.6:
                policy.tell(decision, rewards)
            else:
                kept = luck.random(rewards.size) < (0.5 if fate < 0.9 else 0.0)
                policy.tell(decision.number, dict(zip(decision.revealed[kept].tolist(), rewards[kept], strict=True)))


def digest(*values: Any) -> str:
    """Return a short digest of arrays, numbers and text, and of tuples and data classes of them."""
    total = hashlib.sha256()
    for part in _parts(values):
        total.update(part)
    return total.hexdigest()[:16]


def _parts(value: Any) -> Iterator[bytes]:
    if isinstance(value, np.ndarray):
        yield f"{value.dtype.str}{value.shape}".encode()
        yield value.tobytes()
    elif is_dataclass(value):
        yield from _parts([getattr(value, field.name) for field in fields(value)])
    elif isinstance(value, tuple | list):
        yield f"({len(value)}".encode()
        for one in value:
            yield from _parts(one)
    else:
        yield f"{value!r};".encode()


def saved(path: Path, detailed: bool) -> dict[str, str]:
    """Return digests of a saved policy: its header, but for the random identity, and its arrays.

    Arrays go together by the first part of their names, except that each one of a detailed state has its own.
    """
    _, rest = path.read_bytes().split(b"\n", 1)
    groups: dict[str, list[Any]] = {}
    with np.load(io.BytesIO(rest[hashlib.sha256().digest_size :]), allow_pickle=False) as archive:
        header = json.loads(archive["header"].tobytes())
        for name in sorted(archive.files):
            part = name.removeprefix("array.")
            group = part if detailed and part.startswith("state.") else part.split(".")[0]
            groups.setdefault(group, []).append((part, archive[name]))
    del header["id"]
    groups["header"] = [json.dumps(header, sort_keys=True)]
    return {group: digest(*parts) for group, parts in groups.items()}


def simulated(problem: Problem, policy: Policy) -> dict[str, str]:
    """Return digests of what the simulation leaves behind, with certificates where there are any."""
    certified = isinstance(problem.environment, StochasticEnvironment) and policy.decisions is None
    trace = simulate(
        policy,
        problem.environment,
        horizon=problem.simulated,
        replications=2,
        checkpoints=10,
        workers=1,
        record_decisions=True,
        certificate=certified,
    )
    found = {
        "simulated": digest(trace.decisions, trace.committed_at, trace.triage),
        "regret": digest(trace.rounds, trace.regret),
    }
    if trace.certificate is not None:
        found["certified"] = digest(trace.certificate)
    return found


def end_of(policy: Policy) -> str:
    """Return a digest of what a policy tells about itself, certificates included."""
    known = [getattr(policy, name, None) for name in ENDS]
    if policy.decisions is None and not isinstance(policy, ContextualPolicy):
        arms = np.arange(policy.budget)
        known += [policy.certificate(), policy.certificate(delta=0.2, next_decision=arms)]
    return digest(known)


def evidence(case: Case, path: Path) -> dict[str, Any]:
    """Play a case in every way, with `path` for its saved file, and return the digests."""
    problem, policy, late = case.problem, case.make(), case.make()
    found: dict[str, Any] = simulated(problem, case.make())
    found["in order"] = digest(*play_in_order(problem, policy))
    found["end"] = end_of(policy)
    policy.save(path)
    found["end saved"] = digest(sorted(saved(path, problem.detailed).items()))
    middle = 2 * problem.asked // 3
    found["late"] = digest(*play_late(problem, late, range(middle)))
    late.save(path)
    found["saved"] = saved(path, problem.detailed)
    loaded = type(late).load(path)
    if isinstance(late, Guard) and isinstance(loaded, Guard) and loaded.proposer is None:
        loaded.proposer = late.proposer
    rest = range(middle, problem.asked)
    found["later"], again = (digest(*play_late(problem, one, rest), end_of(one)) for one in (late, loaded))
    if found["later"] != again:
        found["loaded"] = again
        print(f"{case.name}: the loaded policy went another way than the saved one")
    return found


def differences(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """Return the names of the digests that differ, or that only one side has; dotted for those inside another."""
    names = []
    for name in sorted(old.keys() | new.keys()):
        one, other = old.get(name), new.get(name)
        if isinstance(one, dict) and isinstance(other, dict):
            names += [f"{name}.{inner}" for inner in differences(one, other)]
        elif one != other:
            names.append(name if one and other else f"{name} ({'gone' if one else 'new'})")
    return names


def main() -> int:
    """Write digests or check them; return 1 if any differs."""
    parser = argparse.ArgumentParser(description="Play every policy on fixed problems; write or check digests.")
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--write", metavar="FILE", type=Path, help="keep the digests here")
    action.add_argument("--check", metavar="FILE", type=Path, help="compare with the digests that were kept here")
    parser.add_argument("--only", metavar="TEXT", default="", help="play the cases whose names contain this")
    given = parser.parse_args()
    if given.write and given.only:
        parser.error("--only is for --check: the file that is written holds all cases")
    # Policies that are not compiled say so, once each.
    warnings.simplefilter("ignore", UserWarning)
    began = time.process_time()
    chosen = [case for case in cases() if given.only in case.name]
    print(f"playing {len(chosen)} cases with {Path(armtriage.__file__).parent}")
    with tempfile.TemporaryDirectory() as folder:
        found = {case.name: evidence(case, Path(folder, "policy")) for case in chosen}
    print(f"{len(found)} cases in {time.process_time() - began:.0f} seconds of processor time")
    if given.write:
        lines = [f"{json.dumps(name)}: {json.dumps(one, separators=(',', ':'))}" for name, one in found.items()]
        given.write.parent.mkdir(parents=True, exist_ok=True)
        given.write.write_text("{\n" + ",\n".join(lines) + "\n}\n")
        return 0
    kept = {name: one for name, one in json.loads(given.check.read_text()).items() if given.only in name}
    wrong = 0
    for name in sorted(kept.keys() | found.keys()):
        if names := differences(kept.get(name, {}), found.get(name, {})):
            wrong += 1
            print(f"{name}: {', '.join(names)}")
    print(f"{wrong} of {len(kept.keys() | found.keys())} cases differ")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
