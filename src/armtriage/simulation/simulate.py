"""simulate: one compiled loop plays a policy against an environment, many times over."""

from __future__ import annotations

import logging
import os
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import numpy as np

from armtriage._arguments import LONGEST, check_count, check_probability
from armtriage.environments import (
    DriftingEnvironment,
    Environment,
    LinearEnvironment,
    PageEnvironment,
    ReplayEnvironment,
)
from armtriage.kernels.random import check_seed
from armtriage.kernels.record import Ints
from armtriage.policies.compiled import CompiledContextualPolicy
from armtriage.policies.contextual import ContextualPolicy
from armtriage.policies.linear import LinearGuard
from armtriage.policies.policy import Policy
from armtriage.policies.slate import SlatePolicy
from armtriage.simulation.loop import Output
from armtriage.simulation.players import Run, by_ask_and_tell, player_for, sleeps
from armtriage.simulation.progress import progress_bar
from armtriage.simulation.trace import Trace
from armtriage.triage import TriageLog

_LOG = logging.getLogger("armtriage")


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
        `decisions`, if any, and the same `direction`; the policy's `reward_range` must contain the environment's.
    horizon : int
        Rounds in a replication.
    replications : int
        Independent repetitions.
    first_replication : int
        The number of the first one: replications 8 to 11 meet the same rewards whether they are played alone or after
        the eight before them.
    seed : int, optional
        Fixes the policies' own randomness; by default the policy's seed.
    checkpoints : int or sequence of int
        At how many rounds, spaced on a log scale, the regret is kept; or after which numbers of rounds.
    workers : int, optional
        Threads; by default one for each processor. The numbers do not depend on it.
    record_decisions : bool
        Keep every decision: replications x horizon x budget numbers.
    certificate : bool or float
        Keep a bound on the regret at each checkpoint, from pulls and rewards alone (see `armtriage.certify`). It holds
        with probability 0.95, or 1 minus this number. With contexts, for a `GuardedLinear`: by its own `delta`, which
        must not be larger.
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
    if isinstance(policy, ContextualPolicy) and isinstance(environment, LinearEnvironment):
        policy = policy.for_arms(environment.n_arms)
    check_match(policy, environment, horizon)
    seed = policy.seed if seed is None else check_seed(seed)
    delta = certificate_delta(certificate)
    check_certificate(certificate, policy, environment)
    run = Run(policy, environment, horizon, points, seed, record_decisions, delta)
    began = time.perf_counter()
    with _bar(progress) as report:
        outputs = _play(run, first_replication, replications, workers, report)
    spent, name = time.perf_counter() - began, type(policy).__name__
    _LOG.info("simulated %s in %s: %d x %d rounds, %.3g s", name, environment, replications, horizon, spent)
    regret = np.array([output.regret for output, _ in outputs])
    return Trace(
        rounds=points,
        regret=regret,
        committed_at=np.array([output.committed for output, _ in outputs]),
        decisions=np.array([output.decisions for output, _ in outputs]) if record_decisions else None,
        triage=None if outputs[0][1] is None else tuple(log for _, log in outputs if log is not None),
        policy=type(policy).__name__,
        n_arms=policy.n_arms,
        seed=seed,
        environment_seed=getattr(environment, "seed", None),
        first_replication=first_replication,
        certificate=np.array([output.certificate for output, _ in outputs]) if delta else None,
    )


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
    if getattr(environment, "gaps", False) and policy.sleepers_seen and policy.graph.n_edges > policy.n_arms:
        raise ValueError("sleepers_seen must be False for recorded outcomes with gaps, which show nothing, got True")
    direction = getattr(environment, "direction", "maximize")
    if policy.direction != direction:
        raise ValueError(f"direction must be {direction!r} like the environment's, got {policy.direction!r}")
    span: tuple[float, float] | None = getattr(environment, "reward_range", None)
    low, high = policy.reward_range
    if span is not None and not low <= span[0] <= span[1] <= high:
        accepted = f"[{span[0]:g}, {span[1]:g}], the environment's rewards"
        raise ValueError(f"reward_range must contain {accepted}, got {policy.reward_range}")
    if isinstance(policy, ContextualPolicy) and isinstance(environment, LinearEnvironment):
        if environment.dimension != policy.dimension:
            have = f"{environment.dimension} and policy {policy.dimension}"
            raise ValueError(f"environment has contexts of dimension {have}; they must agree")
        if policy.context_bound < 1.0:
            raise ValueError(f"context_bound must be 1 or more, as the environment's norms, got {policy.context_bound}")
        if environment.n_rounds is not None and horizon > environment.n_rounds:
            raise ValueError(f"horizon must be at most the {environment.n_rounds} rounds of contexts, got {horizon}")
        return
    if environment.graph is not policy.graph and environment.graph != policy.graph:
        raise ValueError("environment and policy must have the same feedback graph")
    if sleeps(environment):
        policy._check_eligible_allowed()
    weights = environment.weights if isinstance(environment, PageEnvironment) else None
    if weights is not None and policy.budget != weights.size:
        raise ValueError(f"budget must be {weights.size}, the places of the page, got {policy.budget}")
    allowed = getattr(environment, "decisions", None)
    if allowed is not policy.decisions and allowed != policy.decisions:
        raise ValueError(
            f"environment and policy must have the same decisions, got {allowed!r} and {policy.decisions!r}"
        )


def _play(
    run: Run, first: int, replications: int, workers: int, report: Callable[[float], None]
) -> list[tuple[Output, TriageLog | None]]:
    """Play all replications, in threads where compiled code lets several run."""
    one = player_for(run.policy, run.environment)
    if one is by_ask_and_tell:
        # With a decision set there is no faster way: an oracle is asked in every round.
        if run.policy.decisions is None:
            _warn_slow(run.policy, run.environment)
        workers = 1
    played = np.zeros(replications)
    halt = threading.Event()

    def track(replication: int, output: Output) -> bool:
        played[replication - first] = output.round
        report(float(played.sum()) / (replications * run.horizon))
        return not halt.is_set()

    numbers = range(first, first + replications)
    if workers == 1 or replications == 1:
        return [one(run, replication, track) for replication in numbers]
    with ThreadPoolExecutor(min(workers, replications)) as pool:
        futures = [pool.submit(one, run, replication, track) for replication in numbers]
        try:
            return [future.result() for future in futures]
        except BaseException:
            halt.set()
            pool.shutdown(cancel_futures=True)
            raise


def certificate_delta(certificate: bool | float) -> float:
    """Return the probability with which certificates may fail, 0 for none."""
    if isinstance(certificate, bool):
        return 0.05 if certificate else 0.0
    return check_probability("certificate", certificate)


def check_certificate(certificate: bool | float, policy: Policy, environment: Environment | LinearEnvironment) -> None:
    """Refuse a certificate where there can be none."""
    if certificate is False:
        return
    if isinstance(policy, LinearGuard) and policy.certified:
        if certificate_delta(certificate) < policy.delta:
            raise ValueError(f"certificate must be at least delta = {policy.delta} of the policy, got {certificate!r}")
        return
    if isinstance(policy, ContextualPolicy):
        accepted = "a policy with contexts, but for GuardedLinear"
        raise ValueError(f"certificate must be False for {accepted}, got {certificate!r}")
    if isinstance(environment, ReplayEnvironment) and (environment.gaps or not environment.resample):
        reason = "that are not resampled, or have gaps: their means are not constant"
        raise ValueError(f"certificate must be False for recorded outcomes {reason}, got {certificate!r}")
    if isinstance(environment, PageEnvironment) and environment.weights is not None:
        raise ValueError(f"certificate must be False where places have weights, got {certificate!r}")
    if isinstance(environment, DriftingEnvironment):
        raise ValueError(f"certificate must be False for means that change, of which none holds, got {certificate!r}")


def check_points(checkpoints: int | Sequence[int], horizon: int) -> Ints:
    """Return the rounds to look at: those given, or so many on a log scale."""
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


def _warn_slow(policy: Policy, environment: Environment | LinearEnvironment) -> None:
    kinds = (type(policy), type(environment))
    if kinds not in _SLOW_SAID:
        _SLOW_SAID.add(kinds)
        whole = isinstance(policy, CompiledContextualPolicy) and policy.in_loop
        slow = kinds[(isinstance(policy, SlatePolicy) and policy.in_simulation) or whole].__name__
        what = "A logging_floor" if policy.logging_floor else slow
        warnings.warn(
            f"{what} is not compiled, so simulate goes through ask and tell: right, but much slower",
            stacklevel=4,
        )
