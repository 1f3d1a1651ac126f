"""The one list of policies that tests play, and the problems that they are played on.

A policy that is entered here is put through `check_policy`, the state machine, ask and tell against `simulate`, saving
and loading, and a run without the JIT: ``from conftest import POLICIES, every_policy``.
"""

from __future__ import annotations

import gc
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from scipy.special import bdtr

from armtriage import (
    C2UCB,
    KLUCB,
    CombinatorialElimination,
    CombinatorialUCB,
    CombUCB1,
    ConstrainedElimination,
    ContextualPolicy,
    Decision,
    DecisionSet,
    FeedbackGraph,
    Greedy,
    Guard,
    GuardedIndex,
    GuardedLinear,
    GuardedThompson,
    HierarchicalElimination,
    LinearEnvironment,
    LinearThompsonSampling,
    PartitionMatroid,
    Policy,
    StochasticEnvironment,
    ThompsonSampling,
    UniformRandom,
)
from armtriage.certificate import Tally

# No test may depend on time: a first call compiles, and the machine may be busy. `make test` has the same examples each
# time; `make test-long` many more, and others each time.
relaxed = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("armtriage", relaxed, max_examples=20, derandomize=True)
settings.register_profile("long", relaxed, max_examples=200)
if settings.get_current_profile_name() != "long":  # which the command has asked for before tests import this again
    settings.load_profile("armtriage")


def seeds(count: int, *, step: int) -> range:
    """Return the numbers of random problems: all of them in `make test-long`, and every `step`-th in `make test`."""
    return range(0, count, 1 if settings.get_current_profile_name() == "long" else step)


class Problem(NamedTuple):
    """What a policy is made for, and where it plays."""

    arguments: dict[str, Any]
    environment: Any


GRAPH = FeedbackGraph.cliques([3, 1, 4, 2])
GROUPS = PartitionMatroid([0, 0, 0, 1, 1, 2, 2, 2, 2], [1, 1, 2])
GROUPS_GRAPH = FeedbackGraph.erdos_renyi(9, 0.15, seed=9)
PROBLEMS = {
    "arms": Problem(
        {"graph": GRAPH, "budget": 3},
        StochasticEnvironment(np.linspace(0.05, 0.95, 10), GRAPH, seed=5),
    ),
    "set": Problem(
        {"graph": GROUPS_GRAPH, "decisions": GROUPS},
        StochasticEnvironment(np.linspace(0.2, 0.8, 9), GROUPS_GRAPH, seed=5, decisions=GROUPS),
    ),
    "contexts": Problem(
        {"n_arms": 6, "dimension": 3, "budget": 2},
        LinearEnvironment([0.7, -0.4, 0.3], "cube", 6, seed=3),
    ),
}


class Entry(NamedTuple):
    """A policy with options, and the kind of problem that it is for."""

    kind: Callable[..., Any]
    options: dict[str, Any]
    face: str = "arms"

    @property
    def environment(self) -> Any:
        return PROBLEMS[self.face].environment

    @property
    def in_loop(self) -> bool:
        """Whether the compiled loop of `simulate` plays it, and not Python."""
        return self.face != "set" and self.kind is not guard

    def make(self, seed: int = 7, **more: Any) -> Any:
        return self.kind(**{**PROBLEMS[self.face].arguments, "seed": seed, **self.options, **more})


def guard(
    graph: FeedbackGraph, budget: int, *, seed: int, reward_range: tuple[float, float] = (0.0, 1.0), **options: Any
) -> Guard:
    proposer = ThompsonSampling(graph, budget, seed=seed, reward_range=reward_range)
    return Guard(proposer, graph, budget, seed=seed, reward_range=reward_range, **options)


def guard_of_set(
    graph: FeedbackGraph,
    decisions: DecisionSet,
    *,
    seed: int,
    reward_range: tuple[float, float] = (0.0, 1.0),
    **options: Any,
) -> Guard:
    proposer = ThompsonSampling(graph, decisions=decisions, seed=seed, reward_range=reward_range)
    return Guard(proposer, graph, decisions=decisions, seed=seed, reward_range=reward_range, **options)


POLICIES: dict[str, Entry] = {
    "KLUCB": Entry(KLUCB, {}),
    "KLUCB-log-log": Entry(KLUCB, {"log_log": 3.0}),
    "CombUCB1": Entry(CombUCB1, {}),
    "CombUCB1-no-exploration": Entry(CombUCB1, {"exploration": 0.0}),
    "CombinatorialUCB": Entry(CombinatorialUCB, {"horizon": 1000}),
    "CombinatorialUCB-width": Entry(CombinatorialUCB, {"width": 0.25}),
    "Greedy": Entry(Greedy, {}),
    "ThompsonSampling": Entry(ThompsonSampling, {}),
    "UniformRandom": Entry(UniformRandom, {}),
    "tight": Entry(CombinatorialElimination, {}),
    "tight-loose": Entry(CombinatorialElimination, {"delta": 0.5, "intersect": False, "skip_revealed": False}),
    "tight-fixed": Entry(CombinatorialElimination, {"delta": 0.4, "interval": "mixture", "horizon": 1000}),
    "tight-kl": Entry(CombinatorialElimination, {"delta": 0.5, "interval": "kl"}),
    "tight-bernstein": Entry(
        CombinatorialElimination,
        {"delta": 0.5, "interval": "bernstein", "horizon": 1000, "tie_break": "random", "fill": "random"},
    ),
    "tight-hoeffding": Entry(
        CombinatorialElimination,
        {"delta": 0.5, "interval": "hoeffding", "tie_break": "index", "fill": "index", "skip_revealed": False},
    ),
    "tight-printed": Entry(CombinatorialElimination, {"delta": 0.9, "interval": "printed", "horizon": 1}),
    "paper": Entry(CombinatorialElimination, {"variant": "paper", "horizon": 1000}),
    "paper-sure": Entry(CombinatorialElimination, {"variant": "paper", "horizon": 1, "delta": 0.99}),
    "paper-random": Entry(
        CombinatorialElimination,
        {"variant": "paper", "horizon": 1, "delta": 0.99, "tie_break": "random", "fill": "random"},
    ),
    "paper-hoeffding": Entry(
        CombinatorialElimination,
        {"variant": "paper", "interval": "hoeffding", "delta": 0.99, "skip_revealed": True, "fill": "index"},
    ),
    "GuardedThompson": Entry(GuardedThompson, {}),
    "GuardedThompson-strict": Entry(GuardedThompson, {"factor": 0.05, "delta": 0.5}),
    "GuardedThompson-shadow": Entry(GuardedThompson, {"mode": "shadow", "delta": 0.5}),
    "GuardedThompson-certify": Entry(GuardedThompson, {"mode": "certify", "price": 70.0, "delta": 0.5}),
    "GuardedThompson-draws": Entry(GuardedThompson, {"free_look": False, "delta": 0.5}),
    "GuardedThompson-apart": Entry(GuardedThompson, {"reveal": False}),
    "GuardedIndex": Entry(GuardedIndex, {}),
    "GuardedIndex-strict": Entry(GuardedIndex, {"factor": 0.05, "delta": 0.5, "prior": "uniform"}),
    "GuardedIndex-certify": Entry(GuardedIndex, {"mode": "certify", "delta": 0.5}),
    "Guard": Entry(guard, {}),
    "Guard-strict": Entry(guard, {"factor": 0.05, "delta": 0.5}),
    "Guard-shadow": Entry(guard, {"mode": "shadow", "delta": 0.5}),
    "Guard-certify": Entry(guard, {"mode": "certify", "price": 70.0, "delta": 0.5}),
    "CombUCB1-set": Entry(CombUCB1, {"exploration": 0.4}, "set"),
    "KLUCB-set": Entry(KLUCB, {"log_log": 0.5}, "set"),
    "ThompsonSampling-set": Entry(ThompsonSampling, {}, "set"),
    "GuardedThompson-set": Entry(GuardedThompson, {}, "set"),
    "GuardedThompson-set-strict": Entry(GuardedThompson, {"factor": 0.02, "delta": 0.5, "reveal": True}, "set"),
    "GuardedThompson-set-shadow": Entry(GuardedThompson, {"mode": "shadow", "factor": 0.1, "delta": 0.5}, "set"),
    "Guard-set": Entry(guard_of_set, {"factor": 0.1, "delta": 0.5}, "set"),
    "constrained": Entry(ConstrainedElimination, {}, "set"),
    "constrained-bernstein": Entry(ConstrainedElimination, {"interval": "bernstein"}, "set"),
    "constrained-hoeffding": Entry(ConstrainedElimination, {"interval": "hoeffding", "horizon": 500}, "set"),
    "constrained-repaired": Entry(ConstrainedElimination, {"variant": "repaired", "horizon": 500}, "set"),
    "constrained-paper": Entry(
        ConstrainedElimination, {"variant": "paper", "horizon": 1, "delta": 0.9, "cover": "greedy"}, "set"
    ),
    "GuardedLinear": Entry(GuardedLinear, {}, "contexts"),
    "GuardedLinear-strict": Entry(GuardedLinear, {"factor": 0.02, "delta": 0.5}, "contexts"),
    "GuardedLinear-free": Entry(GuardedLinear, {"certificate": False, "noise_scale": 0.3}, "contexts"),
    "GuardedLinear-disjoint": Entry(GuardedLinear, {"model": "disjoint", "factor": 0.02, "delta": 0.5}, "contexts"),
    "GuardedLinear-hybrid": Entry(GuardedLinear, {"model": "hybrid"}, "contexts"),
    "C2UCB": Entry(C2UCB, {}, "contexts"),
    "C2UCB-width": Entry(C2UCB, {"width": 0.5}, "contexts"),
    "C2UCB-ridge": Entry(C2UCB, {"ridge": 0.01, "delta": 0.5, "noise_scale": 0.1}, "contexts"),
    "LinearThompson": Entry(LinearThompsonSampling, {}, "contexts"),
    "LinearThompson-scale": Entry(LinearThompsonSampling, {"scale": 0.2, "ridge": 3.0}, "contexts"),
    "LinearThompson-noise": Entry(LinearThompsonSampling, {"noise_scale": 0.3}, "contexts"),
    "hierarchical": Entry(HierarchicalElimination, {"horizon": 100}, "contexts"),
    "hierarchical-noise": Entry(
        HierarchicalElimination, {"horizon": 1000, "noise_scale": 0.05, "delta": 0.5}, "contexts"
    ),
    "hierarchical-repaired": Entry(HierarchicalElimination, {"horizon": 100, "variant": "repaired"}, "contexts"),
    "hierarchical-paper": Entry(HierarchicalElimination, {"horizon": 100, "variant": "paper"}, "contexts"),
}

SIMPLE = [name for name in POLICIES if "-" not in name or name.endswith(("-set", "-repaired", "-paper"))]
"""One of each kind and variant, where other options would show nothing more."""


def with_face(face: str, names: Any = POLICIES) -> list[str]:
    return [name for name in names if POLICIES[name].face == face]


every_policy = pytest.mark.parametrize("name", POLICIES)
each_kind = pytest.mark.parametrize("name", SIMPLE)


# The files that take longest come first: a process plays whole files, and one that got one last would be waited for.
# The browser comes when most kernels are compiled, which leaves it little time.
LONGEST = (
    "policies/test_contract", "reproduce/test_reproduce", "twins/test_index", "experiments/test_engines",
    "kernels/test_jit", "simulation/test_simulate", "simulation/test_eligible", "test_examples",
    "twins/test_guard", "experiments/test_resume", "theory/test_audit", "twins/test_linear",
    "service/test_observing", "service/test_postgres", "service/test_pages", "service/test_control",
    "service/test_faults", "service/test_dashboard", "service/test_groups", "service/test_dashboard_live",
    "service/test_guardrails", "service/test_machine",
)  # fmt: skip


def turns(files: list[Path]) -> dict[Path, float]:
    """Return when each file has its turn: tests of the service, which wait for servers, beside others that compute."""
    here = Path(__file__).parent
    ranks = {here / f"{name}.py": rank for rank, name in enumerate(LONGEST)}
    found = {}
    for waits in (False, True):
        kind = [file for file in files if (file.parent == here / "service") is waits]
        kind.sort(key=lambda file: ranks.get(file, len(ranks)))
        found |= {file: (place + 0.5) / len(kind) for place, file in enumerate(kind)}
    return found


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the longest files; of other options than the usual, `make test` has the contract alone."""
    place = turns(list(dict.fromkeys(item.path for item in items)))
    items.sort(key=lambda item: place[item.path])
    contract = Path(__file__).parent / "policies" / "test_contract.py"
    for item in items:
        name = getattr(item, "callspec", None) and item.callspec.params.get("name")
        if name in POLICIES and name not in SIMPLE:
            item.add_marker("thorough" if item.path == contract else "long")


def is_unwanted(config: pytest.Config, marks: Any) -> bool:
    """Whether a test, or a case of one, is long where long ones are not asked for."""
    unwanted = "not long" in config.option.markexpr.split(" and ")
    return unwanted and isinstance(marks, list | tuple) and any(mark.name == "long" for mark in marks)


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem(collector: pytest.Collector, obj: Any) -> list[pytest.Item] | None:
    """Make no items of long tests that are not wanted: there are thousands, and each process would make its own."""
    return [] if is_unwanted(collector.config, getattr(obj, "pytestmark", [])) else None


@pytest.hookimpl(tryfirst=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Leave out long cases in the same way, unless all of a list are long, or they have ids beside them."""
    for marker in metafunc.definition.iter_markers("parametrize"):
        given = marker.args[1] if len(marker.args) > 1 and "ids" not in marker.kwargs else ()
        cases = given if isinstance(given, list) else []
        if kept := [one for one in cases if not is_unwanted(metafunc.config, getattr(one, "marks", ()))]:
            cases[:] = kept


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[Any]:
    """Search for garbage only when tests run, and never among all that is collected."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


class Plain(Policy):
    """A policy in plain Python: the S arms of largest smoothed mean, plus a little that the seed fixes."""

    def __init__(
        self,
        graph: FeedbackGraph,
        budget: int,
        *,
        seed: int | None = None,
        reward_range: tuple[float, float] = (0.0, 1.0),
    ) -> None:
        super().__init__(graph, budget, seed=seed, reward_range=reward_range)
        self.sums, self.counts = np.zeros(self.n_arms), np.zeros(self.n_arms)
        self.taste = self._taste()

    def _taste(self) -> np.ndarray:
        return np.random.default_rng(self.seed).random(self.n_arms)

    def _select(self, number: int) -> np.ndarray:
        score = (self.sums + 1.0) / (self.counts + 1.0) + 0.3 * self.taste
        return np.sort(np.argsort(-score, kind="stable")[: self.budget]).astype(np.int64)

    def _update(self, number: int, arms: np.ndarray, rewards: np.ndarray) -> None:
        self.sums[arms] += rewards
        self.counts[arms] += 1

    def _arrays(self) -> dict[str, np.ndarray]:
        return {"sums": self.sums, "counts": self.counts}

    def _restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        self.sums, self.counts = arrays["sums"].copy(), arrays["counts"].copy()


class PlainContextual(ContextualPolicy):
    """The S arms of largest estimate and norm, plus a little that the seed fixes."""

    def __init__(
        self,
        n_arms: int,
        dimension: int,
        budget: int,
        *,
        seed: int | None = None,
        reward_range: tuple[float, float] = (-1.0, 1.0),
        context_bound: float = 1.0,
    ) -> None:
        super().__init__(n_arms, dimension, budget, seed=seed, reward_range=reward_range, context_bound=context_bound)
        self.gram, self.moment = np.eye(self.dimension), np.zeros(self.dimension)
        self.taste = self._taste()

    def _taste(self) -> np.ndarray:
        return np.random.default_rng(self.seed).random(self.n_arms)

    def _select(self, number: int, contexts: np.ndarray) -> np.ndarray:  # type: ignore[override]
        length = np.linalg.norm(contexts, axis=1)
        score = contexts @ np.linalg.solve(self.gram, self.moment) + 0.1 * length + 0.02 * self.taste
        return np.sort(np.argsort(-score, kind="stable")[: self.budget]).astype(np.int64)

    def _update(  # type: ignore[override]
        self, number: int, arms: np.ndarray, contexts: np.ndarray, rewards: np.ndarray
    ) -> None:
        self.gram += contexts.T @ contexts
        self.moment += rewards @ contexts

    def _arrays(self) -> dict[str, np.ndarray]:
        return {"gram": self.gram, "moment": self.moment}

    def _restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        self.gram, self.moment = arrays["gram"].copy(), arrays["moment"].copy()


def ask(policy: Any, environment: Any, number: int, replication: int = 0) -> Decision:
    """Ask a policy, with the contexts of the round if it takes any."""
    given = [environment.contexts(number, replication)] if isinstance(policy, ContextualPolicy) else []
    decision: Decision = policy.ask(*given)
    return decision


def play(policy: Any, environment: Any, rounds: int, first: int = 0, replication: int = 0) -> list[list[int]]:
    """Ask and tell for some rounds; return the decisions."""
    played = []
    for number in range(first, first + rounds):
        decision = ask(policy, environment, number, replication)
        policy.tell(decision, environment.rewards(number, decision.revealed, replication))
        played.append(decision.arms.tolist())
    return played


def used(name: str, **more: Any) -> Any:
    """A policy in the middle of things: much told, two decisions open, one of them asked before others were told."""
    entry = POLICIES[name]
    policy = entry.make(**more)
    ask(policy, entry.environment, 77)
    play(policy, entry.environment, 40)
    ask(policy, entry.environment, 78)
    return policy


def columns_of(tally: Tally) -> dict[str, Any]:
    """What a tally has for each arm, of played rewards too."""
    played = {} if tally.played is None else tally.played.columns
    return {**tally.columns, **{f"played {name}": array for name, array in played.items()}}


def snapshot(policy: Policy) -> dict[str, Any]:
    """Everything that a policy is made of, as plain values."""
    held: dict[str, Any] = {name: array.tolist() for name, array in policy._arrays().items()}
    held |= {f"tally {name}": array.tolist() for name, array in columns_of(policy.tally).items()}
    for one in policy.open_decisions:
        held[f"open {one.number}"] = one.arms.tolist(), None if one.contexts is None else one.contexts.tolist()
    return held | {"asked": policy._asked}


FALSE_ALARM = 1e-6
"""How often a test of a probability may fail though all is well."""


def most_failures(runs: int, share: float) -> int:
    """Return the most failures that independent runs may show, each of which fails with probability `share`."""
    return int(np.argmax(bdtr(np.arange(runs + 1), runs, share) >= 1 - FALSE_ALARM))


def score(what: str, tried: int, outcome: str) -> None:
    """Note for the scoreboard what a test has tried without a failure; `make test-long` collects it."""
    if folder := os.environ.get("ARMTRIAGE_SCORES"):
        Path(folder).mkdir(parents=True, exist_ok=True)
        line = json.dumps({"what": what, "tried": tried, "outcome": outcome})
        with open(Path(folder, f"{os.getpid()}.jsonl"), "a", encoding="utf-8") as file:
            file.write(f"{line}\n")


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Make `simulate` play so many rounds at a time, and never more, wherever it keeps that number."""

    def set_chunks(size: int) -> None:
        rooms = [module for name, module in sys.modules.items() if name.startswith("armtriage.simulation.")]
        for constant, value in (("_FIRST_CHUNK", size), ("_CHUNK_SECONDS", 0.0)):
            homes = [module for module in rooms if hasattr(module, constant)]
            assert homes, f"no module has {constant}"
            for module in homes:
                monkeypatch.setattr(module, constant, value)

    return set_chunks
