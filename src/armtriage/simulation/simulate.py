"""simulate: one compiled loop plays a policy against an environment, many times over."""

from __future__ import annotations

import os
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from armtriage._arguments import LONGEST, check_count, check_probability
from armtriage.certificate import Tally, Watch
from armtriage.environments import Environment, LinearEnvironment, ReplayEnvironment, StochasticEnvironment
from armtriage.environments.tables import loss
from armtriage.kernels.random import check_seed, replication_seed, row_of, stream
from armtriage.policies.compiled import CompiledContextualPolicy, CompiledPolicy, OraclePolicy
from armtriage.policies.contextual import ContextualPolicy
from armtriage.policies.policy import Policy
from armtriage.simulation.linear_loop import LinearDesk, linear_loop
from armtriage.simulation.loop import COMMITTED, POINT, ROUND, TOTAL, Desk, loop, settle
from armtriage.simulation.progress import progress_bar
from armtriage.simulation.trace import Trace
from armtriage.triage import TriageLog

__all__ = ["simulate"]

_FIRST_CHUNK = 4096
_CHUNK_SECONDS = 0.25

_Track = Callable[[int, Desk | LinearDesk], bool]


def simulate(
    policy: Policy,
    environment: Environment | LinearEnvironment,
    *,
    horizon: int,
    replications: int = 1,
    first_replication: int = 0,
    seed: int | None = None,
    checkpoints: int | Sequence[int] = 50,
    workers: int | None = None,
    record_decisions: bool = False,
    certificate: bool | float = False,
    progress: bool | Callable[[float], None] = False,
) -> Trace:
    """Play a fresh copy of the policy against the environment in each replication.

    Parameters
    ----------
    policy : Policy
        Taken as a recipe: its arguments count, what it has learned does not, and it is not changed.
    environment : Environment or LinearEnvironment
        Its own seed and the replication's number fix the rewards, and the contexts. A `ContextualPolicy` plays
        against a `LinearEnvironment`, every other policy against every other environment. Both must have the same
        `decisions`, if any.
    horizon : int
        Rounds in a replication.
    replications : int
        Independent repetitions.
    first_replication : int
        The number of the first one: replications 8 to 11 have the same luck whether they are played alone or after the
        eight before them.
    seed : int, optional
        Fixes the policies' own randomness; by default the policy's seed.
    checkpoints : int or sequence of int
        At how many rounds, spaced on a log scale, the regret is kept; or after which numbers of rounds.
    workers : int, optional
        Threads; by default one a processor. The numbers do not depend on it.
    record_decisions : bool
        Keep every decision: replications x horizon x budget numbers.
    certificate : bool or float
        Keep a bound on the regret at each checkpoint, from pulls and rewards alone (see `armtriage.certify`). It holds
        with probability 0.95, or 1 minus this number.
    progress : bool or callable
        Show a bar, or call with the share done from 0 to 1.

    Examples
    --------
    >>> from armtriage import CombUCB1, FeedbackGraph, StochasticEnvironment, simulate
    >>> graph = FeedbackGraph.semi_bandit(3)
    >>> env = StochasticEnvironment([0.9, 0.5, 0.1], graph, seed=7)
    >>> trace = simulate(CombUCB1(graph, budget=1), env, horizon=1000, replications=4, checkpoints=[10, 1000])
    >>> trace.regret.shape
    (4, 2)
    """
    if not isinstance(policy, Policy):
        raise TypeError(f"policy must be a Policy, got {type(policy).__name__}")
    horizon = check_count("horizon", horizon, 1, LONGEST)
    replications = check_count("replications", replications, 1)
    first_replication = check_count("first_replication", first_replication, 0, LONGEST)
    points = check_points(checkpoints, horizon)
    workers = check_count("workers", workers, 1) if workers is not None else os.cpu_count() or 1
    check_match(policy, environment, horizon)
    seed = policy.seed if seed is None else check_seed(seed)
    delta = certificate_delta(certificate)
    check_certificate(certificate, policy, environment)
    run = _Run(policy, environment, horizon, points, seed, record_decisions, delta)
    with _bar(progress) as report:
        desks = run.play(first_replication, replications, workers, report)
    regret = np.array([desk.regret for desk, _ in desks])
    return Trace(
        rounds=points,
        regret=regret,
        committed_at=np.array([desk.place[COMMITTED] for desk, _ in desks]),
        decisions=np.array([desk.decisions for desk, _ in desks]) if record_decisions else None,
        triage=None if desks[0][1] is None else tuple(log for _, log in desks if log is not None),
        policy=type(policy).__name__,
        n_arms=policy.n_arms,
        seed=seed,
        environment_seed=getattr(environment, "seed", None),
        first_replication=first_replication,
        certificate=np.array([desk.certificate for desk, _ in desks]) if delta else None,
    )


def _results(desk: Desk) -> Desk:
    """Sort the decisions, and let go of what was only written on: over many replications it would be gigabytes."""
    desk.decisions.sort(axis=-1)
    return desk._replace(stamps=desk.stamps[:0].copy(), seen=desk.seen[:0].copy(), rewards=desk.rewards[:0].copy())


def check_match(policy: Policy, environment: Environment | LinearEnvironment, horizon: int) -> None:
    """Refuse a policy and an environment that do not belong together."""
    linear = isinstance(environment, LinearEnvironment)
    if not linear and not isinstance(environment, Environment):
        raise TypeError(f"environment must be an Environment, got {type(environment).__name__}")
    if isinstance(policy, ContextualPolicy) != linear:
        wanted = "a LinearEnvironment" if isinstance(policy, ContextualPolicy) else "an environment without contexts"
        raise TypeError(f"environment must be {wanted} for a {type(policy).__name__}, got {type(environment).__name__}")
    if environment.n_arms != policy.n_arms:
        raise ValueError(f"environment has {environment.n_arms} arms and policy {policy.n_arms}; they must agree")
    low, high = policy.reward_range
    if isinstance(policy, ContextualPolicy) and isinstance(environment, LinearEnvironment):
        if environment.dimension != policy.dimension:
            have = f"{environment.dimension} and policy {policy.dimension}"
            raise ValueError(f"environment has contexts of dimension {have}; they must agree")
        if policy.context_bound < 1.0:
            raise ValueError(f"context_bound must be 1 or more, as the environment's norms, got {policy.context_bound}")
        if not low <= -1.0 <= 1.0 <= high:
            raise ValueError(f"reward_range must contain [-1, 1], the environment's rewards, got {policy.reward_range}")
        if environment.n_rounds is not None and horizon > environment.n_rounds:
            raise ValueError(f"horizon must be at most the {environment.n_rounds} rounds of contexts, got {horizon}")
        return
    if environment.graph is not policy.graph and environment.graph != policy.graph:
        raise ValueError("environment and policy must have the same feedback graph")
    allowed = getattr(environment, "decisions", None)
    if allowed is not policy.decisions and allowed != policy.decisions:
        raise ValueError(
            f"environment and policy must have the same decisions, got {allowed!r} and {policy.decisions!r}"
        )
    if isinstance(environment, StochasticEnvironment | ReplayEnvironment) and not low <= 0.0 <= 1.0 <= high:
        raise ValueError(f"reward_range must contain [0, 1], the environment's rewards, got {policy.reward_range}")


class _Run(NamedTuple):
    """One call of `simulate`: what all its replications share."""

    policy: Policy
    environment: Environment | LinearEnvironment
    horizon: int
    points: NDArray[np.int64]
    seed: int
    record: bool
    delta: float = 0.0  # of the certificates, 0 without

    def play(
        self, first: int, replications: int, workers: int, report: Callable[[float], None]
    ) -> list[tuple[Desk, TriageLog | None]]:
        one = self._interpreted
        # Loops are made once, before there are threads.
        if isinstance(self.policy, CompiledContextualPolicy) and _is_plain(self.environment):
            linear_loop(self.policy.kernels)
            one = self._linear
        elif (
            isinstance(self.policy, CompiledPolicy)
            and self.policy.in_loop
            and isinstance(self.environment, StochasticEnvironment | ReplayEnvironment)
        ):
            loop(self.policy.kernels)
            one = self._compiled
        elif isinstance(self.policy, OraclePolicy) and isinstance(self.environment, StochasticEnvironment):
            settle(self.policy.kernels)
            one = self._by_oracle
        else:
            # With a decision set there is no faster way: an oracle is asked in every round.
            if self.policy.decisions is None:
                _warn_slow(self.policy, self.environment)
            workers = 1
        played = np.zeros(replications)
        halt = threading.Event()

        def track(replication: int, desk: Desk | LinearDesk) -> bool:
            played[replication - first] = desk.place[ROUND]
            report(float(played.sum()) / (replications * self.horizon))
            return not halt.is_set()

        numbers = range(first, first + replications)
        if workers == 1 or replications == 1:
            return [one(replication, track) for replication in numbers]
        with ThreadPoolExecutor(min(workers, replications)) as pool:
            futures = [pool.submit(one, replication, track) for replication in numbers]
            try:
                return [future.result() for future in futures]
            except BaseException:
                halt.set()
                pool.shutdown(cancel_futures=True)
                raise

    def _desk(self) -> Desk:
        n_arms, budget = self.policy.n_arms, self.policy.budget
        low, high = self.policy.reward_range
        counted = n_arms if self.delta else 0
        return Desk(
            np.zeros(budget, np.int64),
            np.zeros(n_arms, np.int32),
            np.zeros(n_arms, np.int64),
            np.zeros(n_arms),
            self.points,
            np.zeros(self.points.size),
            np.full((self.horizon if self.record else 0, budget), -1, np.int32),
            np.zeros(1),
            np.array([0, 0, -1, self.horizon], np.int64),
            np.array([low, high - low]),
            np.zeros(counted, np.int64),
            np.zeros(counted, np.int64),
            np.zeros(counted),
            np.zeros(self.points.size if self.delta else 0),
        )

    def _watch(self) -> Watch | None:
        return Watch(self.policy.n_arms, self.policy.budget, self.delta) if self.delta else None

    def _certify(self, watch: Watch, desk: Desk, tally: Tally) -> None:
        """Certify the regret if this is a checkpoint."""
        rounds = int(desk.place[ROUND])
        width = self.policy.reward_range[1] - self.policy.reward_range[0]
        desk.certificate[self.points == rounds] = width * watch.bound(tally, rounds)

    def _compiled(self, replication: int, track: _Track) -> tuple[Desk, TriageLog | None]:
        policy, environment, desk = self.policy, self.environment, self._desk()
        assert isinstance(policy, CompiledPolicy)
        assert isinstance(environment, StochasticEnvironment | ReplayEnvironment)
        table = environment.table(policy.budget, self.horizon)
        state, arrays = policy.new_state(), policy.graph.arrays
        luck = stream(replication_seed(self.seed, replication), "policy")
        plain = policy.graph.n_edges == policy.n_arms
        play, params = loop(policy.kernels), policy.params()

        watch = self._watch()

        def go(first: int, stop: int) -> None:
            stop = stop if watch is None else min(stop, int(self.points[self.points > first].min(initial=stop)))
            play(params, state, arrays, table, desk, luck, environment.luck(replication), plain, stop)
            if watch is not None:
                self._certify(watch, desk, Tally(desk.pulls, desk.counts, desk.sums))

        self._in_chunks(replication, desk, go, track, self.horizon)
        return _results(desk), policy.triage_log(state)

    def _by_oracle(self, replication: int, track: _Track) -> tuple[Desk, TriageLog | None]:
        policy, environment = self.policy, self.environment
        assert isinstance(policy, OraclePolicy)
        assert isinstance(environment, StochasticEnvironment)
        # With a stamp too many no decision counts as that of all arms, after which there would be no other.
        desk = self._desk()._replace(stamps=np.zeros(policy.n_arms + 1, np.int32))
        table, reward_luck = environment.table(policy.budget), environment.luck(replication)
        state, params, arrays = policy.new_state(), policy.params(), policy.graph.arrays
        luck = stream(replication_seed(self.seed, replication), "policy")
        plain = policy.graph.n_edges == policy.n_arms
        play = settle(policy.kernels)

        def go(first: int, stop: int) -> None:
            for number in range(first, stop):
                on_desk = desk._replace(arms=policy.choose(params, state, number, row_of(luck, number)))
                play(params, state, arrays, table, on_desk, luck, reward_luck, plain, number + 1)

        self._in_chunks(replication, desk, go, track, self.horizon, policy.n_arms)
        return desk, None

    def _linear(self, replication: int, track: _Track) -> tuple[Desk, TriageLog | None]:
        policy, environment = self.policy, self.environment
        assert isinstance(policy, CompiledContextualPolicy)
        assert isinstance(environment, LinearEnvironment)
        n_arms, budget, dimension = policy.n_arms, policy.budget, policy.dimension
        base = self._desk()
        scaled = 0 if policy.context_bound == 1.0 else n_arms
        desk = LinearDesk(
            base.arms,
            np.zeros(budget, np.int64),
            np.zeros((n_arms, dimension)),
            np.zeros((scaled, dimension)),
            np.zeros(n_arms),
            np.zeros(n_arms),
            np.zeros((budget, dimension)),
            np.zeros(budget),
            base.points,
            base.regret,
            base.decisions,
            base.total,
            base.place,
            policy.context_bound,
            policy.reward_unit,
        )
        state, params, play = policy.new_state(), policy.params(), linear_loop(policy.kernels)
        luck = stream(replication_seed(self.seed, replication), "policy")
        lucks = luck, environment.luck(replication), environment.context_luck(replication)

        def go(first: int, stop: int) -> None:
            play(params, state, environment.table(replication, first, stop), desk, *lucks, stop)

        self._in_chunks(replication, desk, go, track, environment.rounds_per_table, n_arms)
        return _results(base), None

    def _in_chunks(
        self,
        replication: int,
        desk: Desk | LinearDesk,
        go: Callable[[int, int], None],
        track: _Track,
        most: int,
        effort: int = 1,
    ) -> None:
        """Play in chunks of a fraction of a second: Ctrl+C and the progress bar work, the overhead is nil.

        The first chunk is the smaller, the more `effort` a round is.
        """
        chunk = 1 + _FIRST_CHUNK // effort
        while (first := int(desk.place[ROUND])) < self.horizon:
            began = time.perf_counter()
            go(first, min(first + min(chunk, most), self.horizon))
            if time.perf_counter() - began < _CHUNK_SECONDS:
                chunk *= 2
            if not track(replication, desk):
                break

    def _interpreted(self, replication: int, track: _Track) -> tuple[Desk, TriageLog | None]:
        desk, environment = self._desk(), self.environment
        policy = self.policy.fresh(self.seed, replication)
        watch = self._watch()
        table = None
        if isinstance(environment, StochasticEnvironment | ReplayEnvironment):
            table = environment.table(policy.budget, self.horizon)

        def go(first: int, stop: int) -> None:
            for number in range(first, stop):
                if isinstance(environment, LinearEnvironment):
                    assert isinstance(policy, ContextualPolicy)
                    decision = policy.ask(environment.contexts(number, replication))
                    lost = environment.regret(number, decision.arms, replication)
                else:
                    decision = policy.ask()
                    lost = environment.regret(decision.arms) if table is None else loss(table, number, decision.arms)
                desk.total[TOTAL] += lost
                policy.tell(decision, environment.rewards(number, decision.revealed, replication))
                if self.record:
                    desk.decisions[number, : decision.arms.size] = decision.arms
                desk.place[ROUND] = number + 1
                if desk.place[POINT] < self.points.size and number + 1 == self.points[desk.place[POINT]]:
                    desk.regret[desk.place[POINT]] = desk.total[TOTAL]
                    desk.place[POINT] += 1
                    if watch is not None:
                        self._certify(watch, desk, policy.tally)

        self._in_chunks(replication, desk, go, track, self.horizon, _FIRST_CHUNK)
        return desk, policy.triage_log() if isinstance(policy, CompiledPolicy) else None


def certificate_delta(certificate: bool | float) -> float:
    """Return the probability with which certificates may fail, 0 for none."""
    if isinstance(certificate, bool):
        return 0.05 if certificate else 0.0
    return check_probability("certificate", certificate)


def check_certificate(certificate: bool | float, policy: Policy, environment: Environment | LinearEnvironment) -> None:
    """Refuse a certificate where there can be none."""
    if certificate is False:
        return
    if isinstance(policy, ContextualPolicy) or policy.decisions is not None:
        raise ValueError(f"certificate must be False for a policy with contexts or decisions, got {certificate!r}")
    if isinstance(environment, ReplayEnvironment):
        raise ValueError(f"certificate must be False for recorded outcomes, which have no means, got {certificate!r}")


def check_points(checkpoints: int | Sequence[int], horizon: int) -> NDArray[np.int64]:
    if isinstance(checkpoints, int | np.integer):
        count = min(check_count("checkpoints", checkpoints, 1), horizon)
        return (
            np.unique(np.rint(np.geomspace(1, horizon, count)).astype(np.int64))
            if count > 1
            else np.array([horizon], np.int64)
        )
    points = np.asarray(checkpoints)
    if points.ndim != 1 or not points.size or points.dtype.kind not in "iu":
        raise TypeError(f"checkpoints must be a whole number or a list of them, got {checkpoints!r}")
    if points.min() < 1 or points.max() > horizon or np.any(np.diff(points) <= 0):
        raise ValueError(f"checkpoints must rise from 1 or more to at most the horizon {horizon}, got {checkpoints!r}")
    return points.astype(np.int64)


@contextmanager
def _bar(progress: bool | Callable[[float], None]) -> Iterator[Callable[[float], None]]:
    if callable(progress):
        yield progress
    elif progress:
        with progress_bar() as show:
            yield lambda share: show(share, before="simulating")
    else:
        yield lambda share: None


_SLOW_SAID: set[tuple[type, type]] = set()


def _is_plain(environment: Environment | LinearEnvironment) -> bool:
    """Whether a linear environment answers as its own class does, and so may be looked up by compiled code."""
    asked = ("contexts", "means", "rewards", "regret")
    return all(getattr(type(environment), name, None) is getattr(LinearEnvironment, name) for name in asked)


def _warn_slow(policy: Policy, environment: Environment | LinearEnvironment) -> None:
    kinds = (type(policy), type(environment))
    if kinds not in _SLOW_SAID:
        _SLOW_SAID.add(kinds)
        slow = kinds[isinstance(policy, CompiledPolicy | CompiledContextualPolicy)]
        warnings.warn(
            f"{slow.__name__} is not compiled, so simulate goes through ask and tell: right, but much slower",
            stacklevel=4,
        )
