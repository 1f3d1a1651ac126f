"""Every policy keeps the contract of ask, tell, save, load and simulate."""

from __future__ import annotations

import inspect
import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import armtriage
from armtriage import AlreadyTold, FeedbackGraph, Policy, UnknownDecision, check_policy, simulate
from conftest import POLICIES, SIMPLE, ask, each_kind, every_policy, play, snapshot, used, with_face

NAN, INF = float("nan"), float("inf")
pytestmark = pytest.mark.filterwarnings("ignore:Guard is not compiled")


# With a set or without, `check_policy` is called with the same: it makes its own problems of both kinds.
CHECKED = {str((entry.kind, entry.options)): name for name, entry in reversed(POLICIES.items())}.values()
# Other options change numbers, not what a policy answers to whom: they are left to `make test-long`.
OPTIONS = [name for name in CHECKED if name not in SIMPLE]
CHECKS = [pytest.param(name, marks=[pytest.mark.long] * (name in OPTIONS)) for name in POLICIES if name in CHECKED]


@pytest.mark.plain
@pytest.mark.parametrize("name", CHECKS)
def test_contract_is_kept_by(name: str) -> None:
    kind, options, _ = POLICIES[name]

    def on_slates(graph: FeedbackGraph, budget: int, **more: Any) -> Policy:
        return kind(graph, budget, **more)  # type: ignore[no-any-return]

    # Looks for a certificate are at slates, and a maker without `decisions` is not asked for sets.
    check_policy(on_slates if options.get("mode") == "certify" else kind, **options)


@pytest.mark.parametrize("name", ["C2UCB-width", "LinearThompson-noise", "hierarchical-noise"])
def test_contract_is_kept_in_other_units_by(name: str) -> None:
    check_policy(POLICIES[name].kind, **POLICIES[name].options, reward_range=(-3.0, 2.0), context_bound=2.5)


ROUNDS = 300


@pytest.mark.parametrize("replication", [0, 3])
@every_policy
def test_fresh_policy_of_a_replication_decides_as_simulate_does(name: str, replication: int) -> None:
    entry, horizon = POLICIES[name], ROUNDS if POLICIES[name].in_loop else 50
    policy, env = entry.make(), entry.environment
    trace = simulate(policy, env, horizon=horizon, replications=4, seed=3, record_decisions=True, checkpoints=1)
    decisions = [[arm for arm in row if arm >= 0] for row in trace.decisions[replication].tolist()]
    assert play(policy.fresh(3, replication), env, horizon, replication=replication) == decisions
    if entry.face == "contexts":
        lost = sum(env.regret(number, arms, replication) for number, arms in enumerate(decisions))
    else:
        lost = sum(map(env.regret, decisions))
    assert trace.regret[replication, -1] == pytest.approx(lost, abs=1e-9)


def short_decisions() -> dict[str, list[list[int]]]:
    """Some rounds of every policy, by ask and tell and in `simulate`."""
    made = {}
    for name, entry in POLICIES.items():
        made[name] = play(entry.make(), entry.environment, 25)
        if entry.in_loop:
            trace = simulate(entry.make(), entry.environment, horizon=25, record_decisions=True, workers=1)
            assert trace.decisions is not None
            assert trace.decisions[0].tolist() == made[name], name
    return made


def test_decisions_do_not_depend_on_compilation() -> None:
    code = "import json; from policies.test_contract import short_decisions; print(json.dumps(short_decisions()))"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        env={**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    plain, compiled = json.loads(done.stdout), short_decisions()
    assert {name for name in compiled if plain[name] != compiled[name]} == set()


ARMS: list[tuple[str, Any, type[Exception]]] = [
    ("budget", 0, ValueError),
    ("budget", 11, ValueError),
    ("budget", -1, ValueError),
    ("budget", 2.0, TypeError),
    ("budget", True, TypeError),
    ("budget", "2", TypeError),
    ("seed", -1, ValueError),
    ("seed", 1.5, TypeError),
    ("seed", False, TypeError),
    ("seed", "7", TypeError),
    ("reward_range", (1.0, 0.0), ValueError),
    ("reward_range", (0.5, 0.5), ValueError),
    ("reward_range", (-1e308, 1e308), ValueError),
    ("reward_range", (1e308, 1.1e308), ValueError),
    ("reward_range", (0, 10**400), ValueError),
    ("reward_range", (0.0, INF), ValueError),
    ("reward_range", (NAN, 1.0), ValueError),
    ("reward_range", (0.0, 1.0, 2.0), ValueError),
    ("reward_range", None, TypeError),
]
CONTEXTS: list[tuple[str, Any, type[Exception]]] = [
    ("n_arms", 0, ValueError),
    ("n_arms", -3, ValueError),
    ("n_arms", 6.0, TypeError),
    ("n_arms", True, TypeError),
    ("dimension", 0, ValueError),
    ("dimension", -1, ValueError),
    ("dimension", 3.0, TypeError),
    ("dimension", "3", TypeError),
    ("dimension", True, TypeError),
    ("budget", 0, ValueError),
    ("budget", 7, ValueError),
    ("budget", 2.0, TypeError),
    ("budget", True, TypeError),
    ("seed", -1, ValueError),
    ("seed", 1.5, TypeError),
    ("reward_range", (1.0, -1.0), ValueError),
    ("reward_range", (0.0, 0.0), ValueError),
    ("reward_range", (-1.0, INF), ValueError),
    ("reward_range", (NAN, 1.0), ValueError),
    ("reward_range", None, TypeError),
    ("context_bound", 0.0, ValueError),
    ("context_bound", -1.0, ValueError),
    ("context_bound", INF, ValueError),
    ("context_bound", NAN, ValueError),
    ("context_bound", "1", TypeError),
    ("context_bound", None, TypeError),
    ("context_bound", True, TypeError),
]
NUMBERS: list[tuple[Any, type[Exception]]] = [
    (-1.0, ValueError),
    (INF, ValueError),
    (NAN, ValueError),
    ("1", TypeError),
    (True, TypeError),
]
POSITIVE = [(0, ValueError), (0.0, ValueError), (None, TypeError), *NUMBERS]
SHARE = [(0.0, ValueError), (1.0, ValueError), (None, TypeError), *NUMBERS]
BAD: dict[str, list[tuple[str, Any, type[Exception]]]] = {
    "KLUCB": [
        ARMS[0],
        ("log_log", -1.0, ValueError),
        ("log_log", NAN, ValueError),
        ("log_log", "3", TypeError),
    ],
    "CombUCB1": [
        *ARMS,
        ("exploration", -0.1, ValueError),
        ("exploration", INF, ValueError),
        ("exploration", "1", TypeError),
    ],
    "CombinatorialUCB": [
        ARMS[0],
        ("horizon", 0, ValueError),
        ("horizon", 10.0, TypeError),
        ("horizon", None, ValueError),
        ("delta", 0.0, ValueError),
        ("delta", 1.0, ValueError),
        ("delta", "0.1", TypeError),
        ("width", -1.0, ValueError),
        ("width", INF, ValueError),
        ("width", "1", TypeError),
    ],
    "Greedy": [ARMS[0]],
    "ThompsonSampling": [ARMS[0]],
    "UniformRandom": [ARMS[0]],
    "tight": [
        *ARMS,
        ("horizon", 0, ValueError),
        ("horizon", True, TypeError),
        ("delta", 0.0, ValueError),
        ("delta", NAN, ValueError),
        ("delta", None, TypeError),
        ("variant", "loose", ValueError),
        ("benchmark", "median", ValueError),
        ("benchmark", "", ValueError),
        ("interval", "exact", ValueError),
        ("interval", "", ValueError),
        ("tie_break", "last", ValueError),
        ("fill", "worst", ValueError),
        ("fill", "", ValueError),
        ("intersect", "no", TypeError),
        ("skip_revealed", "no", TypeError),
    ],
    "paper": [
        ARMS[0],
        ("horizon", None, ValueError),
        ("interval", "mixture", ValueError),
        ("interval", "bernstein", ValueError),
        ("intersect", True, ValueError),
        ("tie_break", "upper", ValueError),
    ],
    "C2UCB": [
        *CONTEXTS,
        *(("delta", *bad) for bad in SHARE),
        *(("width", *bad) for bad in NUMBERS),
        *(("ridge", *bad) for bad in POSITIVE),
        *(("noise_scale", *bad) for bad in NUMBERS),
    ],
    "LinearThompson": [
        *CONTEXTS,
        *(("scale", *bad) for bad in NUMBERS),
        *(("ridge", *bad) for bad in POSITIVE),
        *(("noise_scale", *bad) for bad in NUMBERS),
    ],
    "hierarchical": [
        *CONTEXTS,
        ("horizon", 0, ValueError),
        ("horizon", -5, ValueError),
        ("horizon", 100.0, TypeError),
        ("horizon", True, TypeError),
        ("horizon", None, TypeError),
        ("horizon", 2**53 + 1, ValueError),
        *(("delta", *bad) for bad in SHARE),
        ("variant", "loose", ValueError),
        ("variant", "", ValueError),
        ("variant", None, ValueError),
        ("variant", 2, ValueError),
        *(("noise_scale", *bad) for bad in NUMBERS),
    ],
    "hierarchical-paper": [("noise_scale", 0.5, ValueError)],
    "hierarchical-repaired": [("noise_scale", 0.5, ValueError)],
}


@pytest.mark.parametrize(
    ("name", "argument", "value", "error"),
    [pytest.param(name, *bad, id=f"{name}-{bad[0]}-{bad[1]}") for name, several in BAD.items() for bad in several],
)
def test_bad_argument_is_refused_by_name_and_value(
    name: str, argument: str, value: Any, error: type[Exception]
) -> None:
    with pytest.raises(error, match=rf"\b{argument}\b.*got .*{re.escape(repr(value))}"):
        POLICIES[name].make(**{argument: value})


@pytest.mark.parametrize("name", [*with_face("arms", SIMPLE), *with_face("set", SIMPLE)])
def test_what_is_no_graph_is_refused(name: str) -> None:
    with pytest.raises(TypeError, match="graph must be a FeedbackGraph or a number of arms, got list"):
        POLICIES[name].make(graph=[[0, 1]])


@each_kind
def test_config_holds_every_argument_but_the_graph(name: str) -> None:
    policy = POLICIES[name].make()
    assert set(policy.config) == set(inspect.signature(type(policy)).parameters) - {"graph"}


@pytest.mark.parametrize("name", with_face("contexts"))
def test_repr_makes_an_equal_policy(name: str) -> None:
    policy = POLICIES[name].make()
    assert eval(repr(policy), dict(vars(armtriage))).config == policy.config


@each_kind
def test_refused_tells_change_nothing(name: str) -> None:
    policy, env = POLICIES[name].make(), POLICIES[name].environment
    play(policy, env, 9)
    decision = ask(policy, env, 9)
    arm, n = int(decision.arms[0]), decision.revealed.size
    before = snapshot(policy)
    several = ([1] * (n - 1), [2] * n, [NAN] * n, ["x"] * n, {arm: NAN}, {arm: 1, 99: 1}, {arm: 1, "x": 1}, {arm: "x"})
    for rewards in several:
        with pytest.raises((TypeError, ValueError)):
            policy.tell(decision, rewards)
    assert snapshot(policy) == before


@each_kind
def test_second_tell_and_unknown_decisions_are_refused(name: str) -> None:
    policy, env = POLICIES[name].make(), POLICIES[name].environment
    decision = ask(policy, env, 0)
    rewards = [1] * decision.revealed.size
    policy.tell(decision, rewards)
    with pytest.raises(AlreadyTold, match="decision 0 has been told already"):
        policy.tell(decision, rewards)
    with pytest.raises(UnknownDecision, match="decision 1 is unknown"):
        policy.tell(1, rewards)
    ask(policy, env, 1)
    with pytest.raises(UnknownDecision, match="made by another policy"):
        policy.tell(ask(POLICIES[name].make(), env, 0), rewards)


@each_kind
def test_fresh_policy_starts_as_the_first_one_did_and_leaves_it_alone(name: str) -> None:
    policy, env = used(name), POLICIES[name].environment
    before = snapshot(policy)
    assert play(policy.fresh(), env, 20) == play(POLICIES[name].make(), env, 20)
    assert snapshot(policy) == before


@pytest.mark.parametrize("name", ["UniformRandom", "ThompsonSampling", "LinearThompson"])
def test_fresh_policies_of_two_replications_differ(name: str) -> None:
    policy, env = POLICIES[name].make(), POLICIES[name].environment
    assert play(policy.fresh(3, 1), env, 20) != play(policy.fresh(3, 2), env, 20)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "policy.bin"


@every_policy
def test_loaded_policy_is_the_saved_one(name: str, path: Path) -> None:
    units = {"context_bound": 1.5} if POLICIES[name].face == "contexts" else {}
    policy = used(name, reward_range=(-1, 3), **units)
    before = snapshot(policy)
    policy.save(path)
    assert snapshot(policy) == before
    loaded = Policy.load(path)
    assert snapshot(loaded) == before
    assert type(loaded) is type(policy)
    assert repr(loaded) == repr(policy)
    assert loaded.graph == policy.graph
    assert loaded.decisions == policy.decisions


@every_policy
def test_loaded_policy_learns_and_goes_on_as_the_saved_one(name: str, path: Path) -> None:
    policy, env = used(name), POLICIES[name].environment
    early, late = policy.open_decisions
    policy.save(path)
    loaded: Any = type(policy).load(path)
    for one in (policy, loaded):
        one.tell(late, {int(late.arms[-1]): 1.0})
        one.tell(early.number, [1.0, *[0.5] * (early.revealed.size - 1)])
    assert snapshot(loaded) == snapshot(policy)
    assert play(loaded, env, 60, 42) == play(policy, env, 60, 42)


@each_kind
def test_policy_that_was_never_asked_can_be_saved(name: str, path: Path) -> None:
    POLICIES[name].make().save(path)
    env = POLICIES[name].environment
    assert play(Policy.load(path), env, 20) == play(POLICIES[name].make(), env, 20)


@pytest.mark.parametrize("replication", [0, 1, 5])
@pytest.mark.parametrize("name", ["UniformRandom", "ThompsonSampling", "tight-bernstein"])
def test_fresh_policy_of_a_replication_has_the_same_future_when_loaded(name: str, replication: int, path: Path) -> None:
    policy, env = POLICIES[name].make().fresh(11, replication), POLICIES[name].environment
    policy.save(path)
    assert play(Policy.load(path), env, 30) == play(policy, env, 30)


@every_policy
def test_saved_arrays_need_no_pickle(name: str, path: Path) -> None:
    used(name).save(path)
    content = path.read_bytes()
    with np.load(io.BytesIO(content[content.index(b"PK\x03\x04") :]), allow_pickle=False) as archive:
        kinds = {archive[entry].dtype.kind for entry in archive.files}
    assert kinds <= set("biufU")


@pytest.mark.parametrize("name", with_face("arms", SIMPLE))
def test_a_million_arms_can_be_asked_for(name: str) -> None:
    policy = POLICIES[name].make(graph=FeedbackGraph.full_information(10**6), budget=3)
    assert policy.ask().revealed.size == 10**6


@pytest.mark.parametrize("name", with_face("contexts", SIMPLE))
def test_a_million_arms_with_contexts_can_be_asked_for(name: str) -> None:
    policy = POLICIES[name].make(n_arms=10**6, budget=10)
    contexts = np.random.default_rng(1).uniform(-0.57, 0.57, (10**6, 3))
    for _ in range(2):
        decision = policy.ask(contexts)
        policy.tell(decision, np.ones(10))
    assert np.array_equal(decision.contexts, contexts[decision.arms])
