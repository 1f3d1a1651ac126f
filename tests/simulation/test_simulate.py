"""simulate gives the same numbers however it is run, and its traces say what happened."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.stats import t as student

from armtriage import (
    C2UCB,
    KLUCB,
    CombinatorialElimination,
    CombinatorialUCB,
    CombUCB1,
    FeedbackGraph,
    Greedy,
    LinearEnvironment,
    Matchings,
    Policy,
    ReplayEnvironment,
    StochasticEnvironment,
    ThompsonSampling,
    Trace,
    UniformRandom,
    random_constrained,
    simulate,
    simulator,
)
from armtriage.simulation.loop import loop

GRAPH = FeedbackGraph.cliques([3, 1, 4, 2])
MEANS = np.linspace(0.05, 0.95, 10)
KINDS: dict[str, Callable[..., Policy]] = {
    "KLUCB": KLUCB,
    "CombUCB1": CombUCB1,
    "CombinatorialUCB": lambda *a, **k: CombinatorialUCB(*a, horizon=1000, **k),
    "Greedy": Greedy,
    "ThompsonSampling": ThompsonSampling,
    "UniformRandom": UniformRandom,
    "tight": CombinatorialElimination,
    "paper": lambda *a, **k: CombinatorialElimination(*a, variant="paper", horizon=1000, **k),
}
RANDOM = ("ThompsonSampling", "UniformRandom")


def environment(graph: FeedbackGraph = GRAPH, seed: int = 5, reward: str = "bernoulli") -> StochasticEnvironment:
    return StochasticEnvironment(np.linspace(0.05, 0.95, graph.n_arms), graph, reward, seed=seed)


def run(name: str, *, seed: int = 3, env: Any = None, **more: Any) -> Trace:
    policy = KINDS[name](GRAPH, budget=3, seed=9)
    arguments = {"horizon": 600, "replications": 8, "seed": seed, "record_decisions": True, **more}
    return simulate(policy, env or environment(), **arguments)


def numbers(trace: Trace, replications: int | None = None) -> list[Any]:
    assert trace.decisions is not None
    logs = [[part.tolist() for part in log] for log in trace.triage or ()]
    parts = [trace.regret, trace.decisions, trace.committed_at]
    return [trace.rounds.tolist(), *(part[:replications].tolist() for part in parts), logs[:replications]]


# --- The same numbers ---
@pytest.mark.parametrize("workers", [2, 5, None])
@pytest.mark.parametrize("name", KINDS)
def test_numbers_do_not_depend_on_the_workers(name: str, workers: int | None) -> None:
    assert numbers(run(name, workers=workers)) == numbers(run(name, workers=1))


@pytest.mark.parametrize("chunk", [1, 7, 599])
@pytest.mark.parametrize("name", KINDS)
def test_numbers_do_not_depend_on_the_chunks(name: str, chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = numbers(run(name))
    monkeypatch.setattr(simulator, "_FIRST_CHUNK", chunk)
    monkeypatch.setattr(simulator, "_CHUNK_SECONDS", 0.0)
    assert numbers(run(name)) == whole


@pytest.mark.parametrize("name", KINDS)
def test_first_replications_do_not_depend_on_how_many_follow(name: str) -> None:
    assert numbers(run(name, replications=3)) == numbers(run(name, replications=8), 3)


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("name", KINDS)
def test_replications_do_not_depend_on_those_before_them(name: str, workers: int) -> None:
    whole, part = run(name), run(name, replications=3, first_replication=5, workers=workers)
    assert numbers(part) == [whole.rounds.tolist(), *(rows[5:] for rows in numbers(whole)[1:])]


@pytest.mark.filterwarnings("ignore:Own is not compiled")
def test_replications_of_an_own_environment_do_not_depend_on_those_before_them() -> None:
    arguments: dict[str, Any] = {"env": Own(environment()), "horizon": 50}
    part = run("ThompsonSampling", replications=2, first_replication=3, **arguments)
    assert np.array_equal(part.decisions, run("ThompsonSampling", replications=5, **arguments).decisions[3:])


@pytest.mark.parametrize(
    ("policy", "env"),
    [
        (C2UCB(5, 2, 2, seed=1), LinearEnvironment([0.6, 0.0], "sphere", n_arms=5, seed=2)),
        (
            ThompsonSampling(FeedbackGraph.semi_bandit(4), decisions=Matchings(2, 2), seed=1),
            random_constrained(Matchings(2, 2), seed=2),
        ),
    ],
    ids=["contexts", "decisions"],
)
def test_replications_of_other_kinds_do_not_depend_on_those_before_them(policy: Policy, env: Any) -> None:
    part = simulate(policy, env, horizon=60, replications=2, first_replication=3)
    assert np.array_equal(part.regret, simulate(policy, env, horizon=60, replications=5).regret[3:])


@pytest.mark.parametrize("name", KINDS)
def test_first_rounds_do_not_depend_on_the_horizon(name: str) -> None:
    short, long = run(name, horizon=200), run(name, horizon=600)
    assert np.array_equal(short.decisions, long.decisions[:, :200])


@pytest.mark.parametrize("name", KINDS)
def test_regret_does_not_depend_on_the_checkpoints(name: str) -> None:
    few, many = run(name, checkpoints=[37, 600]), run(name, checkpoints=range(1, 601))
    assert np.array_equal(few.regret, many.regret[:, [36, 599]])


@pytest.mark.parametrize("name", KINDS)
def test_recording_decisions_does_not_change_the_regret(name: str) -> None:
    assert np.array_equal(run(name).regret, run(name, record_decisions=False).regret)


def state_of(policy: Policy) -> list[Any]:
    return [{name: array.tolist() for name, array in policy._arrays().items()}, len(policy.open_decisions)]


@pytest.mark.parametrize("name", KINDS)
def test_given_policy_is_not_changed(name: str) -> None:
    policy, env = KINDS[name](GRAPH, budget=3, seed=9), environment()
    for number in range(20):
        decision = policy.ask()
        policy.tell(decision, env.rewards(number, decision.revealed))
    policy.ask()
    before = state_of(policy)
    simulate(policy, env, horizon=100)
    assert state_of(policy) == before


@pytest.mark.parametrize("name", KINDS)
def test_what_the_given_policy_has_learned_does_not_count(name: str) -> None:
    policy, env = KINDS[name](GRAPH, budget=3, seed=9), environment()
    before = simulate(policy, env, horizon=100, record_decisions=True)
    for number in range(20):
        decision = policy.ask()
        policy.tell(decision, 1.0 - env.rewards(number, decision.revealed))
    assert numbers(simulate(policy, env, horizon=100, record_decisions=True)) == numbers(before)


@pytest.mark.parametrize("replication", [0, 3])
@pytest.mark.parametrize("name", KINDS)
def test_fresh_policy_of_a_replication_decides_as_simulate_does(name: str, replication: int) -> None:
    policy, env = KINDS[name](GRAPH, budget=3, seed=9).fresh(3, replication), environment()
    played = []
    for number in range(600):
        decision = policy.ask()
        played.append(decision.arms.tolist())
        policy.tell(decision, env.rewards(number, decision.revealed, replication))
    assert played == run(name).decisions[replication].tolist()


def test_cumulative_regret_is_the_sum_of_the_decisions_regrets() -> None:
    env, trace = environment(), run("ThompsonSampling", checkpoints=[1, 100, 600])
    lost = np.array([[env.regret(arms) for arms in rows] for rows in trace.decisions])
    assert trace.regret == pytest.approx(np.cumsum(lost, axis=1)[:, [0, 99, 599]], abs=1e-9)


@pytest.mark.parametrize("reward_range", [(0.0, 10.0), (-1.0, 1.0)])
def test_rewards_mean_the_same_to_simulate_as_to_tell(reward_range: tuple[float, float]) -> None:
    policy, env = CombUCB1(GRAPH, budget=3, reward_range=reward_range), environment()
    trace, twin, played = simulate(policy, env, horizon=300, record_decisions=True), policy.fresh(), []
    for number in range(300):
        decision = twin.ask()
        played.append(decision.arms.tolist())
        twin.tell(decision, env.rewards(number, decision.revealed))
    assert trace.decisions[0].tolist() == played


# --- Seeds ---
@pytest.mark.parametrize("name", RANDOM)
def test_seed_of_simulate_changes_the_decisions_of_random_policies(name: str) -> None:
    assert not np.array_equal(run(name, seed=1).decisions, run(name, seed=2).decisions)


@pytest.mark.parametrize("name", [name for name in KINDS if name not in RANDOM])
def test_seed_of_simulate_changes_nothing_for_policies_without_luck(name: str) -> None:
    assert numbers(run(name, seed=1)) == numbers(run(name, seed=2))


def test_seed_of_the_environment_changes_nothing_for_a_policy_that_learns_nothing() -> None:
    traces = [run("UniformRandom", env=environment(seed=seed)) for seed in (1, 2)]
    assert numbers(traces[0]) == numbers(traces[1])


@pytest.mark.parametrize("name", [name for name in KINDS if name != "UniformRandom"])
def test_seed_of_the_environment_changes_the_decisions(name: str) -> None:
    traces = [run(name, env=environment(seed=seed)) for seed in (1, 2)]
    assert not np.array_equal(traces[0].decisions, traces[1].decisions)


@pytest.mark.parametrize("name", KINDS)
def test_replications_differ(name: str) -> None:
    decisions = run(name).decisions
    assert not np.array_equal(decisions[0], decisions[1])


def test_seed_of_the_policy_is_the_default() -> None:
    policy = UniformRandom(GRAPH, budget=3, seed=9)
    given = simulate(policy, environment(), horizon=50, seed=9, record_decisions=True)
    assert numbers(simulate(policy, environment(), horizon=50, record_decisions=True)) == numbers(given)


def test_trace_names_the_seed() -> None:
    assert run("CombUCB1", seed=77).seed == 77


# --- Commitment ---
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


@pytest.mark.parametrize("name", KINDS)
def test_budget_of_all_arms_commits_at_once(name: str) -> None:
    trace = simulate(KINDS[name](GRAPH, budget=10, seed=1), environment(), horizon=10**9, replications=2)
    assert trace.committed_at.tolist() == [0, 0]


@pytest.mark.parametrize("name", KINDS)
def test_budget_of_all_arms_has_no_regret(name: str) -> None:
    trace = simulate(KINDS[name](GRAPH, budget=10, seed=1), environment(), horizon=10**9, replications=2)
    assert np.all(trace.regret == 0.0)


def test_policy_that_never_commits_says_so() -> None:
    assert run("CombUCB1").committed_at.tolist() == [-1] * 8


# --- Checkpoints ---
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


@pytest.mark.parametrize("name", KINDS)
def test_last_checkpoint_may_come_before_the_horizon(name: str) -> None:
    early = run(name, checkpoints=[5, 20], progress=limited(10_000), workers=1)
    assert np.array_equal(early.regret, run(name, checkpoints=[5, 20, 600]).regret[:, :2])


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


# --- What a trace holds ---
@pytest.mark.parametrize("name", KINDS)
def test_decisions_rise(name: str) -> None:
    assert np.all(np.diff(run(name).decisions, axis=2) > 0)


def test_decisions_of_every_round_are_recorded() -> None:
    assert run("CombUCB1").decisions.shape == (8, 600, 3)


def test_decisions_are_not_recorded_unless_asked() -> None:
    assert run("CombUCB1", record_decisions=False).decisions is None


def test_policies_that_decide_no_arms_have_no_triage() -> None:
    assert run("CombUCB1").triage is None


def test_elimination_has_a_triage_log_for_each_replication() -> None:
    assert len(run("tight").triage) == 8


@pytest.mark.parametrize("level", [0.5, 0.95, 0.999])
def test_interval_is_students(level: float) -> None:
    trace = run("ThompsonSampling")
    error = trace.regret.std(axis=0, ddof=1) / np.sqrt(8)
    expected = student.interval(level, 7, loc=trace.regret.mean(axis=0), scale=np.maximum(error, 1e-300))
    assert np.allclose(trace.interval(level), expected, rtol=1e-9, atol=1e-12)


def test_interval_is_at_95_percent_by_default() -> None:
    trace = run("ThompsonSampling")
    assert np.array_equal(trace.interval(), trace.interval(0.95))


def test_interval_of_one_replication_is_infinite() -> None:
    low, high = run("ThompsonSampling", replications=1).interval()
    assert set(low) | set(high) == {-np.inf, np.inf}


@pytest.mark.parametrize("level", [0.0, 1.0, -0.5, 95, float("nan")])
def test_bad_level_is_refused_by_its_value(level: float) -> None:
    with pytest.raises(ValueError, match=f"level must be .* got {level}"):
        run("CombUCB1").interval(level)


def test_mean_is_over_the_replications() -> None:
    trace = run("ThompsonSampling")
    assert np.array_equal(trace.mean, trace.regret.sum(axis=0) / 8)


def test_table_has_a_row_for_each_replication_and_checkpoint() -> None:
    trace = run("CombUCB1", checkpoints=[5, 600], replications=2)
    assert trace.to_polars().to_dict(as_series=False) == {
        "policy": ["CombUCB1"] * 4,
        "replication": [0, 0, 1, 1],
        "rounds": [5, 600, 5, 600],
        "regret": trace.regret.ravel().tolist(),
    }


def test_table_numbers_the_replications_as_simulate_does() -> None:
    table = run("CombUCB1", checkpoints=[600], replications=2, first_replication=5).to_polars()
    assert table["replication"].to_list() == [5, 6]


def test_repr_tells_policy_arms_replications_and_seed() -> None:
    first = repr(run("CombUCB1")).splitlines()[0]
    assert first == "Trace of CombUCB1: 10 arms, 8 runs, policy seed 3, reward seed 5"


def test_repr_ends_with_the_regret_at_the_horizon() -> None:
    trace = run("ThompsonSampling")
    low, high = (end[-1] for end in trace.interval())
    assert repr(trace).splitlines()[-1].split() == f"600 {trace.mean[-1]:.6g} [{low:.6g}, {high:.6g}]".split()


def test_repr_of_one_replication_has_no_interval() -> None:
    assert "inf" not in repr(run("CombUCB1", replications=1))


# --- Progress ---
def shares(monkeypatch: pytest.MonkeyPatch, name: str = "CombUCB1", workers: int = 1) -> list[float]:
    monkeypatch.setattr(simulator, "_FIRST_CHUNK", 10)
    told: list[float] = []
    run(name, workers=workers, progress=told.append)
    return told


def test_progress_of_one_worker_never_falls(monkeypatch: pytest.MonkeyPatch) -> None:
    assert np.all(np.diff(shares(monkeypatch)) >= 0)


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("name", ["CombUCB1", "tight"])
def test_progress_reaches_one(name: str, workers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    assert max(shares(monkeypatch, name, workers)) == 1.0


@pytest.mark.parametrize("workers", [1, 3])
def test_progress_is_told_in_between(workers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    assert len({share for share in shares(monkeypatch, workers=workers) if 0.0 < share < 1.0}) > 8


def test_progress_bar_changes_no_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    assert numbers(run("CombUCB1", progress=True)) == numbers(run("CombUCB1"))


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_interrupt_in_the_callback_comes_through(error: type[BaseException], workers: int) -> None:
    def report(share: float) -> None:
        raise error("stop")

    with pytest.raises(error, match="stop"):
        run("CombUCB1", workers=workers, progress=report)


def test_interrupt_leaves_no_thread_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    def report(share: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(simulator, "_FIRST_CHUNK", 10)
    before = threading.active_count()
    with pytest.raises(KeyboardInterrupt):
        run("CombUCB1", workers=2, horizon=10**5, record_decisions=False, progress=report)
    assert threading.active_count() == before


# --- Compilation ---
@pytest.mark.parametrize("name", KINDS)
def test_loop_is_compiled_once_for_all_problems(name: str) -> None:
    graphs = [
        FeedbackGraph.semi_bandit(1),
        FeedbackGraph.semi_bandit(300),
        FeedbackGraph.full_information(5),
        FeedbackGraph.threshold(6),
        FeedbackGraph.erdos_renyi(90, 0.9, seed=1),
        FeedbackGraph.from_edges(7, []),
    ]
    for graph in graphs:
        policy: Any = KINDS[name](graph, budget=min(2, graph.n_arms), seed=1)
        groups = np.zeros(graph.n_arms, int)
        means = np.full(graph.n_arms, 0.5)
        for env in (
            environment(graph),
            StochasticEnvironment(means, graph, "beta", noise_groups=groups, seed=1),
            ReplayEnvironment(np.ones((30, graph.n_arms)), graph),
        ):
            simulate(policy, env, horizon=30, replications=2, record_decisions=graph.n_arms < 10)
    assert len(loop(policy.kernels).signatures) == 1


@pytest.mark.parametrize(
    "options",
    [
        {"interval": "kl"},
        {"interval": "bernstein"},
        {"tie_break": "random", "fill": "random"},
        {"tie_break": "index", "fill": "index", "skip_revealed": False},
        {"variant": "paper", "horizon": 100},
        {"reward_range": (-1, 3), "delta": 0.5},
    ],
    ids=str,
)
def test_loop_is_compiled_once_for_all_variants_of_elimination(options: dict[str, Any]) -> None:
    for policy in (CombinatorialElimination(GRAPH, 3), CombinatorialElimination(GRAPH, 3, **options)):
        simulate(policy, environment(), horizon=30)
    assert len(loop(policy.kernels).signatures) == 1


@pytest.mark.parametrize("horizon", [2**53 + 1, 10**400])
def test_a_horizon_whose_rounds_are_no_exact_floats_is_refused(horizon: int) -> None:
    graph = FeedbackGraph.semi_bandit(2)
    env = StochasticEnvironment([0.5, 0.4], graph, seed=1)
    with pytest.raises(ValueError, match=f"horizon must be at most {2**53}, got"):
        simulate(CombUCB1(graph, 1), env, horizon=horizon)
    with pytest.raises(ValueError, match=f"horizon must be at most {2**53}, got"):
        CombinatorialUCB(graph, 1, horizon=horizon)
