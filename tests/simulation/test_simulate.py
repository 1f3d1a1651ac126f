"""simulate gives the same numbers however it is run, for every kind of policy and problem."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from armtriage import (
    C2UCB,
    CombinatorialElimination,
    CombinatorialUCB,
    CombUCB1,
    FeedbackGraph,
    LinearEnvironment,
    StochasticEnvironment,
    Trace,
    UniformRandom,
    simulate,
)
from armtriage.environments import linear as linear_module
from conftest import GRAPH, POLICIES, SIMPLE, PlainContextual, ask, each_kind, play, snapshot, with_face

RANDOM = ("ThompsonSampling", "UniformRandom", "GuardedThompson", "Guard", "LinearThompson", "GuardedLinear")
RANDOM += ("ThompsonSampling-set", "GuardedThompson-set", "Guard-set")
IN_LOOP = [name for name in SIMPLE if POLICIES[name].in_loop]
COMMITTING = [name for name in IN_LOOP if POLICIES[name].face == "arms"]
pytestmark = pytest.mark.filterwarnings("ignore:Guard is not compiled")


def environment(graph: FeedbackGraph = GRAPH, seed: int = 5, reward: str = "bernoulli") -> StochasticEnvironment:
    return StochasticEnvironment(np.linspace(0.05, 0.95, graph.n_arms), graph, reward, seed=seed)


ROUNDS = np.array([np.random.default_rng(number).uniform(-0.5, 0.5, (6, 3)) for number in range(600)])
WORLDS: dict[str, Any] = {
    "sphere": "sphere",
    "cube": "cube",
    "fixed": ROUNDS[0],
    "given": ROUNDS,
    "function": lambda number, replication: ROUNDS[(number + 11 * replication) % 600],
}
each_world = pytest.mark.parametrize("world", WORLDS)


def linear_world(contexts: Any = "cube", seed: int = 3, **more: Any) -> LinearEnvironment:
    given = WORLDS.get(contexts, contexts) if isinstance(contexts, str) else contexts
    return LinearEnvironment([0.7, -0.4, 0.3], given, 6, seed=seed, **more)


def horizon_of(name: str) -> int:
    """Long enough for the compiled loop to be cut into pieces, and short where Python plays."""
    return 600 if POLICIES[name].in_loop else 30


def run(name: str, *, seed: int = 3, env: Any = None, **more: Any) -> Trace:
    entry = POLICIES[name]
    replications = 8 if entry.in_loop else 4
    arguments = {"horizon": horizon_of(name), "replications": replications, "seed": seed, "record_decisions": True}
    return simulate(entry.make(seed=9), env or entry.environment, **{**arguments, **more})


def numbers(trace: Trace, replications: slice = slice(None)) -> list[Any]:
    assert trace.decisions is not None
    logs = [[part.tolist() for part in log] for log in trace.triage or ()]
    parts = [trace.regret, trace.decisions, trace.committed_at]
    return [trace.rounds.tolist(), *(part[replications].tolist() for part in parts), logs[replications]]


@each_kind
def test_numbers_do_not_depend_on_the_workers(name: str) -> None:
    alone = numbers(run(name, workers=1))
    for workers in (5, None):
        assert numbers(run(name, workers=workers)) == alone


@each_world
def test_numbers_do_not_depend_on_the_workers_in(world: str) -> None:
    env = linear_world(world)
    assert numbers(run("C2UCB", env=env, workers=4)) == numbers(run("C2UCB", env=env, workers=1))


@each_kind
def test_numbers_do_not_depend_on_the_chunks(name: str, small_chunks: Any) -> None:
    whole = numbers(run(name))
    for chunk in (1, 599):
        small_chunks(chunk)
        assert numbers(run(name)) == whole


@pytest.mark.parametrize("chunk", [1, 40, 6000])
@each_world
def test_numbers_do_not_depend_on_the_chunks_in(
    world: str, chunk: int, small_chunks: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    env = linear_world(world)
    whole = numbers(run("LinearThompson", env=env, horizon=300))
    small_chunks(chunk)
    monkeypatch.setattr(linear_module, "_TABLE_SIZE", 7 * chunk)
    assert numbers(run("LinearThompson", env=env, horizon=300)) == whole


@each_world
@pytest.mark.parametrize("name", with_face("contexts", SIMPLE))
def test_fresh_policy_of_a_replication_decides_as_simulate_does_in(name: str, world: str) -> None:
    replication = 3
    env = linear_world(world, reward="uniform")
    policy = POLICIES[name].make(reward_range=(-1, 4), context_bound=1.25)
    trace = simulate(policy, env, horizon=100, replications=4, seed=3, record_decisions=True, checkpoints=range(1, 101))
    decisions = play(policy.fresh(3, replication), env, 100, replication=replication)
    assert trace.decisions is not None
    assert trace.decisions[replication].tolist() == decisions
    lost = [env.regret(number, arms, replication) for number, arms in enumerate(decisions)]
    assert trace.regret[replication] == pytest.approx(np.cumsum(lost), abs=1e-9)


@each_kind
def test_replications_depend_neither_on_those_before_nor_on_those_after_them(name: str) -> None:
    whole = run(name, workers=1)
    n = len(whole.regret)
    assert numbers(run(name, replications=n - 2)) == numbers(whole, slice(n - 2))
    for workers in (1, 2):
        part = run(name, replications=2, first_replication=n - 2, workers=workers)
        assert numbers(part) == numbers(whole, slice(n - 2, None))


@pytest.mark.filterwarnings("ignore:Own is not compiled")
def test_replications_of_an_own_environment_do_not_depend_on_those_before_them() -> None:
    arguments: dict[str, Any] = {"env": Own(environment()), "horizon": 50}
    part = run("ThompsonSampling", replications=2, first_replication=3, **arguments)
    assert np.array_equal(part.decisions, run("ThompsonSampling", replications=5, **arguments).decisions[3:])


@each_kind
def test_first_rounds_do_not_depend_on_the_horizon(name: str) -> None:
    third = horizon_of(name) // 3
    assert np.array_equal(run(name, horizon=third).decisions, run(name).decisions[:, :third])


@each_kind
def test_regret_does_not_depend_on_checkpoints_or_recording(name: str) -> None:
    horizon = horizon_of(name)
    few = run(name, checkpoints=[17, horizon])
    many = run(name, checkpoints=range(1, horizon + 1), record_decisions=False)
    assert np.array_equal(few.regret, many.regret[:, [16, horizon - 1]])
    assert many.decisions is None


@each_kind
def test_given_policy_is_not_changed_and_what_it_has_learned_does_not_count(name: str) -> None:
    entry = POLICIES[name]
    policy, env, horizon = entry.make(seed=9), entry.environment, 100 if entry.in_loop else 30
    before = simulate(policy, env, horizon=horizon, record_decisions=True)
    for number in range(20):
        decision = ask(policy, env, number)
        policy.tell(decision, sum(policy.reward_range) - env.rewards(number, decision.revealed))
    ask(policy, env, 20)
    state = snapshot(policy)
    assert numbers(simulate(policy, env, horizon=horizon, record_decisions=True)) == numbers(before)
    assert snapshot(policy) == state


def test_cumulative_regret_is_the_sum_of_the_decisions_regrets() -> None:
    env, trace = environment(), run("ThompsonSampling", checkpoints=[1, 100, 600])
    lost = np.array([[env.regret(arms) for arms in rows] for rows in trace.decisions])
    assert trace.regret == pytest.approx(np.cumsum(lost, axis=1)[:, [0, 99, 599]], abs=1e-9)


@pytest.mark.parametrize("reward_range", [(0.0, 10.0), (-1.0, 1.0)])
@pytest.mark.parametrize("name", ["CombUCB1", "CombUCB1-set", "KLUCB-set", "ThompsonSampling-set"])
def test_rewards_mean_the_same_to_simulate_as_to_tell(name: str, reward_range: tuple[float, float]) -> None:
    policy, env = POLICIES[name].make(reward_range=reward_range), POLICIES[name].environment
    trace = simulate(policy, env, horizon=60, record_decisions=True)
    assert trace.decisions is not None
    played = [[arm for arm in row if arm >= 0] for row in trace.decisions[0].tolist()]
    assert play(policy.fresh(), env, 60) == played


@pytest.mark.parametrize("name", RANDOM)
def test_seed_of_simulate_changes_the_decisions_of_random_policies(name: str) -> None:
    assert not np.array_equal(run(name, seed=1).decisions, run(name, seed=2).decisions)


@pytest.mark.parametrize("name", [name for name in SIMPLE if name not in RANDOM])
def test_seed_of_simulate_changes_nothing_for_policies_without_luck(name: str) -> None:
    assert numbers(run(name, seed=1)) == numbers(run(name, seed=2))


def test_seed_of_the_environment_changes_nothing_for_a_policy_that_learns_nothing() -> None:
    traces = [run("UniformRandom", env=environment(seed=seed)) for seed in (1, 2)]
    assert numbers(traces[0]) == numbers(traces[1])


@pytest.mark.parametrize("name", [name for name in IN_LOOP if name != "UniformRandom"])
def test_seed_of_the_environment_changes_the_decisions(name: str) -> None:
    world = linear_world if POLICIES[name].face == "contexts" else environment
    traces = [run(name, env=world(seed=seed)) for seed in (1, 2)]
    assert not np.array_equal(traces[0].decisions, traces[1].decisions)


@each_kind
def test_decisions_rise_and_replications_differ(name: str) -> None:
    decisions = run(name).decisions
    assert decisions is not None
    assert np.all((np.diff(decisions, axis=2) > 0) | (decisions[:, :, 1:] < 0))
    # As printed, covers of a set come in the same order whatever the first rewards are.
    assert name == "constrained-paper" or not np.array_equal(decisions[0], decisions[1])


def test_seed_of_the_policy_is_the_default() -> None:
    policy = UniformRandom(GRAPH, budget=3, seed=9)
    given = simulate(policy, environment(), horizon=50, seed=9, record_decisions=True)
    assert numbers(simulate(policy, environment(), horizon=50, record_decisions=True)) == numbers(given)


def test_trace_names_policy_arms_and_seeds() -> None:
    trace = run("hierarchical", seed=77)
    assert (trace.policy, trace.n_arms, trace.seed, trace.environment_seed) == ("HierarchicalElimination", 6, 77, 3)


def test_decisions_of_every_round_are_recorded() -> None:
    assert run("CombUCB1").decisions.shape == (8, 600, 3)


def test_policies_that_decide_no_arms_have_no_triage() -> None:
    assert run("CombUCB1").triage is None


def test_elimination_has_a_triage_log_for_each_replication() -> None:
    assert len(run("tight").triage) == 8


def committing(**more: Any) -> Trace:
    graph = FeedbackGraph.semi_bandit(4)
    env = StochasticEnvironment([0.9, 0.8, 0.3, 0.1], graph, "deterministic", seed=1)
    return simulate(CombinatorialElimination(graph, 2), env, horizon=10**9, **more)


def test_committed_horizon_of_a_thousand_million_rounds_is_closed_at_once() -> None:
    calls: list[float] = []
    committing(progress=calls.append)
    assert calls == [1.0]


def test_regret_after_commitment_to_the_best_decision_stands_still() -> None:
    trace = committing(checkpoints=[1000, 10**6, 10**9])
    assert trace.regret[0, 0] == trace.regret[0, 2] > 0


def wrong_commitment() -> tuple[Trace, StochasticEnvironment]:
    """A generous delta makes some of a thousand replications commit to the worse arm."""
    graph = FeedbackGraph.semi_bandit(2)
    env = StochasticEnvironment([0.55, 0.45], graph, seed=2)
    policy = CombinatorialElimination(graph, 1, delta=0.99, interval="hoeffding", horizon=2)
    return simulate(policy, env, horizon=10**9, replications=1000, checkpoints=[10**5, 10**6, 10**9]), env


def test_regret_after_commitment_grows_by_that_of_the_last_decision() -> None:
    trace, env = wrong_commitment()
    rates = {round(float(rate), 9) for rate in np.diff(trace.regret)[:, 0] / (10**6 - 10**5)}
    assert rates == {round(env.regret([arm]), 9) for arm in (0, 1)}


def test_regret_after_commitment_is_linear() -> None:
    trace, _ = wrong_commitment()
    first, second = (np.diff(trace.regret) / np.diff(trace.rounds)).T
    assert np.allclose(first, second, rtol=1e-9, atol=1e-12)


def test_commitment_is_the_round_from_which_the_decision_stays() -> None:
    trace = run("tight", env=environment(reward="deterministic"), horizon=5000)
    same = [np.all(rows == rows[-1], axis=1) for rows in trace.decisions]
    stays = [int(np.flatnonzero(~one)[-1]) + 1 for one in same]
    assert np.all((trace.committed_at > 0) & (trace.committed_at >= stays))


@pytest.mark.parametrize("name", COMMITTING)
def test_budget_of_all_arms_commits_at_once_and_has_no_regret(name: str) -> None:
    trace = simulate(POLICIES[name].make(budget=10), environment(), horizon=10**9, replications=2)
    assert trace.committed_at.tolist() == [0, 0]
    assert np.all(trace.regret == 0.0)


@pytest.mark.parametrize("name", with_face("contexts", SIMPLE))
def test_budget_of_all_arms_with_contexts_has_no_regret(name: str) -> None:
    trace = simulate(POLICIES[name].make(budget=6), linear_world(), horizon=200, replications=2)
    assert np.all(trace.regret == 0.0)


def test_policy_that_never_commits_says_so() -> None:
    assert run("CombUCB1").committed_at.tolist() == [-1] * 8


@pytest.mark.parametrize("count", [1, 2, 10, 50, 600, 5000])
def test_numbered_checkpoints_end_at_the_horizon(count: int) -> None:
    assert run("CombUCB1", checkpoints=count).rounds[-1] == 600


@pytest.mark.parametrize("count", [2, 10, 50, 5000])
def test_numbered_checkpoints_begin_at_the_first_round(count: int) -> None:
    assert run("CombUCB1", checkpoints=count).rounds[0] == 1


@pytest.mark.parametrize("count", [1, 2, 10, 50, 5000])
def test_numbered_checkpoints_rise_and_are_no_more_than_asked(count: int) -> None:
    rounds = run("CombUCB1", checkpoints=count).rounds
    assert np.all(np.diff(rounds) > 0)
    assert rounds.size <= count


def test_listed_checkpoints_are_kept() -> None:
    assert run("CombUCB1", checkpoints=[5, 20, 600]).rounds.tolist() == [5, 20, 600]


def limited(calls: int) -> Callable[[float], None]:
    """A progress callback that gives up instead of letting a test run for ever."""
    left = iter(range(calls))

    def report(share: float) -> None:
        if next(left, None) is None:
            raise TimeoutError("the simulation does not end")

    return report


@pytest.mark.parametrize("name", IN_LOOP)
def test_last_checkpoint_may_come_before_the_horizon(name: str) -> None:
    early = run(name, checkpoints=[5, 20], progress=limited(10_000), workers=1)
    assert np.array_equal(early.regret, run(name, checkpoints=[5, 20, 600]).regret[:, :2])
    assert early.decisions.shape[1] == 600


def test_last_checkpoint_may_come_before_the_commitment() -> None:
    env = environment(reward="deterministic")
    arguments: dict[str, Any] = {"env": env, "horizon": 5000, "progress": limited(10_000), "workers": 1}
    early = run("tight", checkpoints=[5, 20], **arguments)
    assert np.array_equal(early.decisions, run("tight", checkpoints=[5, 5000], **arguments).decisions)


@pytest.mark.filterwarnings("ignore:Own is not compiled")
def test_last_checkpoint_may_come_before_the_horizon_of_an_own_environment() -> None:
    early = simulate(CombUCB1(GRAPH, 3), Own(environment()), horizon=50, checkpoints=[5, 20])
    assert early.regret.shape == (1, 2)


class Own:
    """An environment that is not compiled."""

    def __init__(self, inner: StochasticEnvironment) -> None:
        self.n_arms, self.graph, self.rewards, self.regret = inner.n_arms, inner.graph, inner.rewards, inner.regret


BAD: list[tuple[str, Any, type[Exception]]] = [
    ("horizon", 0, ValueError),
    ("horizon", 10.0, TypeError),
    ("horizon", True, TypeError),
    ("replications", 0, ValueError),
    ("replications", 1.5, TypeError),
    ("first_replication", -1, ValueError),
    ("first_replication", 1.5, TypeError),
    ("workers", 0, ValueError),
    ("workers", "2", TypeError),
    ("seed", -1, ValueError),
    ("seed", 0.5, TypeError),
    ("checkpoints", 0, ValueError),
    ("checkpoints", -5, ValueError),
    ("checkpoints", True, TypeError),
    ("checkpoints", 2.5, TypeError),
    ("checkpoints", "50", TypeError),
    ("checkpoints", [], TypeError),
    ("checkpoints", [[1, 2]], TypeError),
    ("checkpoints", [1.0, 2.0], TypeError),
    ("checkpoints", [0, 5], ValueError),
    ("checkpoints", [5, 601], ValueError),
    ("checkpoints", [5, 5], ValueError),
    ("checkpoints", [20, 5], ValueError),
]


@pytest.mark.parametrize(("argument", "value", "error"), BAD, ids=lambda value: str(value)[:20])
def test_bad_argument_is_refused_by_name_and_value(argument: str, value: Any, error: type[Exception]) -> None:
    with pytest.raises(error) as caught:
        run("CombUCB1", **{argument: value})
    assert all(part in str(caught.value) for part in (argument, f"got {value!r}"))


def test_what_is_no_policy_is_refused() -> None:
    with pytest.raises(TypeError, match="policy must be a Policy, got ABCMeta"):
        simulate(CombUCB1, environment(), horizon=5)  # type: ignore[arg-type]


def test_what_is_no_environment_is_refused() -> None:
    with pytest.raises(TypeError, match="environment must be an Environment, got NoneType"):
        simulate(CombUCB1(GRAPH, 3), None, horizon=5)  # type: ignore[arg-type]


def test_environment_with_another_number_of_arms_is_refused() -> None:
    with pytest.raises(ValueError, match="environment has 4 arms and policy 10"):
        simulate(CombUCB1(GRAPH, 3), environment(FeedbackGraph.semi_bandit(4)), horizon=5)


def test_environment_with_another_graph_is_refused() -> None:
    with pytest.raises(ValueError, match="must have the same feedback graph"):
        simulate(CombUCB1(GRAPH, 3), environment(FeedbackGraph.semi_bandit(10)), horizon=5)


def test_equal_graph_need_not_be_the_same_object() -> None:
    assert simulate(CombUCB1(GRAPH, 3), environment(FeedbackGraph.cliques([3, 1, 4, 2])), horizon=5).n_arms == 10


def shares(name: str = "CombUCB1", workers: int = 1) -> list[float]:
    told: list[float] = []
    run(name, workers=workers, progress=told.append)
    return told


def test_progress_of_one_worker_never_falls(small_chunks: Any) -> None:
    small_chunks(10)
    assert np.all(np.diff(shares()) >= 0)


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("name", ["CombUCB1", "tight", "C2UCB"])
def test_progress_reaches_one(name: str, workers: int, small_chunks: Any) -> None:
    small_chunks(10)
    assert max(shares(name, workers)) == 1.0


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("name", ["CombUCB1", "C2UCB"])
def test_progress_is_told_in_between(name: str, workers: int, small_chunks: Any) -> None:
    small_chunks(6)
    assert len({share for share in shares(name, workers) if 0.0 < share < 1.0}) > 50


def test_progress_with_a_function_of_contexts_is_told_in_between(small_chunks: Any) -> None:
    small_chunks(6)
    told: list[float] = []
    run("C2UCB", env=linear_world("function"), workers=1, progress=told.append)
    assert len(set(told)) > 50
    assert np.all(np.diff(told) >= 0)
    assert told[-1] == 1.0


@pytest.mark.parametrize("name", ["CombUCB1", "C2UCB"])
def test_progress_bar_changes_no_numbers(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert numbers(run(name, progress=True)) == numbers(run(name))


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
@pytest.mark.parametrize("name", ["CombUCB1", "C2UCB"])
def test_interrupt_in_the_callback_comes_through_and_leaves_no_thread(
    name: str, error: type[BaseException], workers: int, small_chunks: Any
) -> None:
    def report(share: float) -> None:
        raise error("stop")

    small_chunks(10)
    before = threading.active_count()
    with pytest.raises(error, match="stop"):
        run(name, workers=workers, horizon=10**4, record_decisions=False, progress=report)
    assert threading.active_count() == before


@pytest.mark.filterwarnings("ignore:PlainContextual is not compiled")
@each_world
def test_policy_in_plain_python_is_simulated_as_it_is_asked(world: str) -> None:
    env, policy = linear_world(world), PlainContextual(6, 3, 2, seed=7)
    trace = simulate(policy, env, horizon=60, replications=2, record_decisions=True, checkpoints=[60])
    assert trace.decisions is not None
    decisions = play(policy.fresh(7, 1), env, 60, replication=1)
    assert trace.decisions[1].tolist() == decisions
    lost = sum(env.regret(number, arms, 1) for number, arms in enumerate(decisions))
    assert trace.regret[1, 0] == pytest.approx(lost, abs=1e-9)


def test_policy_in_plain_python_is_named_in_the_warning() -> None:
    class Unheard(PlainContextual):
        """Nobody has been warned of it yet: each kind is named once."""

    with pytest.warns(UserWarning, match="Unheard is not compiled"):
        simulate(Unheard(6, 3, 2), linear_world(), horizon=3)


def test_an_environment_of_ones_own_is_asked_and_not_looked_up() -> None:
    class Turning(LinearEnvironment):
        def contexts(self, round: int, replication: int = 0) -> np.ndarray:
            return np.roll(super().contexts(round, replication), round, axis=0)

        def rewards(self, round: int, arms: object, replication: int = 0) -> np.ndarray:
            return np.roll(self.means(0), round)[np.asarray(arms)]

    world = Turning([0.9], [[0.1], [0.9]], seed=1)
    with pytest.warns(UserWarning, match="Turning is not compiled"):
        trace = simulate(C2UCB(2, 1, 1, seed=1), world, horizon=6, record_decisions=True)
    assert trace.decisions is not None
    assert trace.decisions[0, :, 0].tolist() == [1, 0, 1, 0, 1, 0]


@pytest.mark.parametrize("workers", [1, 2])
def test_error_in_a_function_of_contexts_comes_through(workers: int) -> None:
    def failing(number: int, replication: int) -> np.ndarray:
        if (number, replication) == (20, 1):
            raise RuntimeError("no contexts today")
        return ROUNDS[number]

    with pytest.raises(RuntimeError, match="no contexts today"):
        run("C2UCB", env=linear_world(failing), workers=workers)


def test_bad_contexts_of_a_function_are_refused_by_round_and_replication() -> None:
    env = linear_world(lambda number, replication: (1.0 + number) * np.eye(6, 3))
    with pytest.raises(ValueError, match=r"got norm 2\.0 for arm 0 in round 1 of replication 0"):
        run("C2UCB", env=env, workers=1)


c2ucb = POLICIES["C2UCB"].make
MISMATCH: list[tuple[Callable[[], Any], Callable[[], Any], type[Exception], str]] = [
    (
        lambda: c2ucb(dimension=4),
        linear_world,
        ValueError,
        "dimension 3 and policy 4; they must agree",
    ),
    (lambda: c2ucb(n_arms=7), linear_world, ValueError, "environment has 6 arms and policy 7"),
    (
        lambda: c2ucb(reward_range=(0, 1)),
        linear_world,
        ValueError,
        r"reward_range must contain \[-1, 1\]",
    ),
    (
        lambda: c2ucb(reward_range=(-1, 0.9)),
        linear_world,
        ValueError,
        r"reward_range must contain.*-1.0, 0.9",
    ),
    (
        lambda: c2ucb(context_bound=0.999),
        linear_world,
        ValueError,
        "context_bound must be 1 or more.*0.999",
    ),
    (
        c2ucb,
        lambda: linear_world(ROUNDS[:299]),
        ValueError,
        "horizon must be at most the 299 rounds of contexts, got 300",
    ),
    (
        lambda: CombUCB1(FeedbackGraph.semi_bandit(6), 2, reward_range=(-1, 1)),
        linear_world,
        TypeError,
        "environment must be an environment without contexts for a CombUCB1, got LinearEnvironment",
    ),
    (
        lambda: POLICIES["hierarchical"].make(),
        lambda: StochasticEnvironment(np.full(6, 0.5), FeedbackGraph.semi_bandit(6)),
        TypeError,
        "environment must be a LinearEnvironment for a HierarchicalElimination, got StochasticEnvironment",
    ),
    (lambda: POLICIES["hierarchical"].make(), lambda: None, TypeError, "environment must be .*got NoneType"),
    (lambda: C2UCB, linear_world, TypeError, "policy must be a Policy, got ABCMeta"),
]


@pytest.mark.parametrize(("policy", "env", "error", "message"), MISMATCH, ids=range(len(MISMATCH)))
def test_policy_and_environment_that_do_not_belong_together_are_refused(
    policy: Callable[[], Any], env: Callable[[], Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        simulate(policy(), env(), horizon=300)


@pytest.mark.filterwarnings("ignore:PlainContextual is not compiled")
def test_horizon_of_exactly_the_rounds_of_contexts_is_played() -> None:
    assert simulate(POLICIES["C2UCB"].make(), linear_world(ROUNDS), horizon=300).rounds[-1] == 300
    assert simulate(PlainContextual(6, 3, 2), linear_world(ROUNDS[:20]), horizon=20).rounds[-1] == 20


@pytest.mark.parametrize("horizon", [2**53 + 1, 10**400])
def test_a_horizon_whose_rounds_are_no_exact_floats_is_refused(horizon: int) -> None:
    graph = FeedbackGraph.semi_bandit(2)
    env = StochasticEnvironment([0.5, 0.4], graph, seed=1)
    with pytest.raises(ValueError, match=f"horizon must be at most {2**53}, got"):
        simulate(CombUCB1(graph, 1), env, horizon=horizon)
    with pytest.raises(ValueError, match=f"horizon must be at most {2**53}, got"):
        CombinatorialUCB(graph, 1, horizon=horizon)
