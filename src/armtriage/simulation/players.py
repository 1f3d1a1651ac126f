"""The ways to play a replication: in compiled code with or without contexts, around an oracle, and by ask and tell."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from armtriage.certificate import Sets, Slates, Tally, Watch
from armtriage.decisions.compiled import compiled_oracle, has_compiled_oracle
from armtriage.environments import (
    DriftingEnvironment,
    Environment,
    LinearEnvironment,
    PageEnvironment,
    ReplayEnvironment,
    StochasticEnvironment,
)
from armtriage.environments.tables import REPLAY, loss
from armtriage.kernels.jit import compiling_for
from armtriage.kernels.random import replication_seed, stream
from armtriage.kernels.record import Ints, blank
from armtriage.policies.compiled import CompiledContextualPolicy
from armtriage.policies.contextual import ContextualPolicy
from armtriage.policies.evidence import tally_of
from armtriage.policies.linear import LinearGuard
from armtriage.policies.policy import Policy
from armtriage.policies.slate import SlatePolicy
from armtriage.simulation.loop import LinearGame, Output, linear_loop
from armtriage.simulation.slates import SlateGame, eligible_loop, given_loop, guarded_loop, heaviest_loop, slate_loop
from armtriage.triage import TriageLog

# A chunk of rounds is long beside the call of a kernel, and short for a person who presses Ctrl+C.
_FIRST_CHUNK = 4096
_CHUNK_SECONDS = 0.25

Played = tuple[Output, TriageLog | None]
Track = Callable[[int, Output], bool]
"""Called after each chunk with the replication and its output; False stops it."""
Player = Callable[["Run", int, Track], Played]


class Run(NamedTuple):
    """One call of `simulate`: what all its replications share."""

    policy: Policy
    environment: Environment | LinearEnvironment
    horizon: int
    points: Ints
    seed: int
    record: bool
    delta: float = 0.0  # of the certificates, 0 without
    watcher: Watch | None = None  # certifies the one replication that is played with it, instead of a watch of its own

    def output(self) -> Output:
        """Return room for what a replication writes."""
        size = self.points.size
        return blank(
            Output,
            size,
            arms=np.zeros(self.policy.budget, np.int64),
            points=self.points,
            certificate=np.zeros(size if self.delta else 0),
            decisions=np.full((self.horizon if self.record else 0, self.policy.budget), -1, np.int32),
            size=self.policy.budget,
            committed=-1,
            horizon=self.horizon,
        )

    def luck(self, replication: int) -> np.uint64:
        """Return where the policy's random numbers come from."""
        return stream(replication_seed(self.seed, replication), "policy")

    def watch(self) -> Watch | None:
        """Return what certifies the regret, if it is asked for and nothing but counts and sums is needed."""
        if self.watcher is not None:
            return self.watcher
        if not self.delta or isinstance(self.policy, ContextualPolicy):
            return None
        policy, sets = self.policy, self.policy.decisions
        rivals = Slates(policy.budget) if sets is None else Sets(sets, policy.reward_range, policy.direction)
        return Watch(policy.n_arms, rivals, self.delta)

    def certify(self, watch: Watch, output: Output, tally: Tally, exposures: Ints | None = None) -> None:
        """Certify the regret if this is a checkpoint; where chunks end depends on the clock, and must not matter."""
        here = self.points == output.round
        if here.any():
            width = self.policy.reward_range[1] - self.policy.reward_range[0]
            output.certificate[here] = width * watch.bound(tally, int(output.round), exposures)

    def certify_linear(self, output: Output, state: Any) -> None:
        """Certify the regret with contexts, by the state of the policy, if this is a checkpoint."""
        here = self.points == output.round
        if self.delta and here.any():
            assert isinstance(self.policy, LinearGuard)
            output.certificate[here] = self.policy.regret_bound(state)

    def in_chunks(
        self, replication: int, output: Output, go: Callable[[int, int], None], track: Track, most: int, effort: int = 1
    ) -> None:
        """Play in chunks of a fraction of a second: Ctrl+C and the progress bar work, the overhead is nil.

        The first chunk is the smaller, the more `effort` a round is.
        """
        chunk = 1 + _FIRST_CHUNK // effort
        while (first := int(output.round)) < self.horizon:
            began = time.perf_counter()
            with compiling_for(self.policy):
                go(first, min(first + min(chunk, most), self.horizon))
            if time.perf_counter() - began < _CHUNK_SECONDS:
                chunk *= 2
            if not track(replication, output):
                break


def player_for(policy: Policy, environment: Environment | LinearEnvironment) -> Player:
    """Return the fastest way to play the policy against the environment."""
    if isinstance(policy, CompiledContextualPolicy) and policy.in_loop and _is_plain(environment):
        return _linear
    if isinstance(policy, SlatePolicy):
        whole = policy.in_simulation and not policy.logging_floor
        return _slates if whole and _is_in_loop(policy, environment) else by_ask_and_tell
    return by_ask_and_tell


def sleeps(environment: Environment | LinearEnvironment) -> bool:
    """Whether not all arms of a world are always eligible."""
    return getattr(environment, "availability", None) is not None


def _is_in_loop(policy: SlatePolicy, environment: Environment | LinearEnvironment) -> bool:
    """Whether compiled code can look up what the world answers, and a decision set does not meet sleeping arms."""
    if sleeps(environment):
        known = type(environment) in (StochasticEnvironment, DriftingEnvironment, ReplayEnvironment)
        return known and policy.decisions is None
    return isinstance(environment, StochasticEnvironment | DriftingEnvironment | ReplayEnvironment)


def _is_plain(environment: Environment | LinearEnvironment) -> bool:
    """Whether a linear environment answers as its own class does, and so may be looked up by compiled code."""
    asked = ("contexts", "means", "rewards", "regret")
    return all(getattr(type(environment), name, None) is getattr(LinearEnvironment, name) for name in asked)


def _slate_game(run: Run, replication: int, output: Output, found: Any, counted: bool) -> SlateGame:
    policy, environment = run.policy, run.environment
    assert isinstance(policy, SlatePolicy)
    assert isinstance(environment, StochasticEnvironment | DriftingEnvironment | ReplayEnvironment)
    n_arms, asleep = policy.n_arms, sleeps(environment)
    luck = environment.availability_luck(replication) if asleep else np.uint64(0)
    drifts = isinstance(environment, DriftingEnvironment)
    if isinstance(environment, DriftingEnvironment):
        table = environment.table(policy.budget, 0, replication)
    else:
        table = environment.table(policy.budget, run.horizon)
    evidence = policy.new_evidence()
    return SlateGame(
        policy.params(),
        evidence,
        policy.new_own(evidence),
        policy.new_request(evidence.counts.size, output.arms, run.luck(replication)),
        policy.graph.arrays,
        table,
        table if found is None else found,
        output,
        np.array([environment.luck(replication), luck]),
        np.zeros(n_arms, np.int32),
        np.zeros(n_arms),
        plain=policy.graph.n_edges == n_arms,
        sleepers=policy.sleepers_seen,
        # Looks for a certificate follow what pulls have lost.
        counted=counted or getattr(run.policy, "price", None) is not None,
        closable=not asleep and table.kind != REPLAY and not counted and not drifts,
    )


def _slates(run: Run, replication: int, track: Track) -> Played:
    """Play a policy with one `choose` and one `learn`: in compiled code, but for oracles that are not."""
    policy, environment, output, watch = run.policy, run.environment, run.output(), run.watch()
    assert isinstance(policy, SlatePolicy)
    kernels, oracle, effort = policy.kernels, None, 1
    if sleeps(environment):
        game = _slate_game(run, replication, output, environment.availability_table(), watch is not None)  # type: ignore[union-attr]
        play = eligible_loop(kernels, game.layout)
    elif policy.in_loop:
        game = _slate_game(run, replication, output, None, watch is not None)
        play = slate_loop(kernels, game.layout)
    else:
        assert policy.decisions is not None
        # Where looks are shared, other questions are asked than for a best decision.
        alone = has_compiled_oracle(policy.decisions) and not getattr(policy.params(), "reveal", False)
        oracle = compiled_oracle(policy.decisions, policy._offset) if alone else None
        game = _slate_game(run, replication, output, oracle and oracle.record, watch is not None)
        if oracle is not None:
            loop = guarded_loop if kernels.weigh is None else heaviest_loop
            play, effort = loop(kernels, oracle.best, game.layout), 1 + policy.n_arms // 8
        else:
            play, effort = given_loop(kernels, game.layout), policy.n_arms

    def ask_oracle(number: int) -> None:
        arms = policy.decision_of_set(game.params, game.evidence, game.own, game.request, number)
        output.size = arms.size
        output.arms[: arms.size], output.arms[arms.size :] = arms, -1

    def go(first: int, stop: int) -> None:
        nonlocal game
        if isinstance(environment, DriftingEnvironment):
            stop = min(stop, environment.drift.end(first))
            table = environment.table(policy.budget, first, replication)
            game = game._replace(table=table, found=table if game.found is game.table else game.found)
        if not policy.in_loop and oracle is None:
            for number in range(first, stop):
                ask_oracle(number)
                play(game.handle, number + 1)
                certify()
            return
        play(game.handle, stop if watch is None else min(stop, int(run.points[run.points > first].min(initial=stop))))
        certify()

    def certify() -> None:
        if watch is not None:
            evidence, n = game.evidence, policy.n_arms
            always = not sleeps(environment) or evidence.rounds == output.round
            run.certify(watch, output, tally_of(evidence), None if always else evidence.exposures[:n] + evidence.rounds)

    run.in_chunks(replication, output, go, track, run.horizon, effort)
    if policy.in_loop:
        output.decisions.sort(axis=-1)
    return output, None if sleeps(environment) else policy.triage_log(game.own)


def _linear(run: Run, replication: int, track: Track) -> Played:
    """Play with contexts, in compiled code."""
    policy, environment, output = run.policy, run.environment, run.output()
    assert isinstance(policy, CompiledContextualPolicy)
    assert isinstance(environment, LinearEnvironment)
    n_arms, budget, dimension = policy.n_arms, policy.budget, policy.dimension
    lucks = run.luck(replication), environment.luck(replication), environment.context_luck(replication)
    game = LinearGame(
        policy.params(),
        policy.new_state(),
        environment.table(replication, 0, 1),
        output,
        np.array(lucks),
        np.zeros(budget, np.int64),
        np.zeros((n_arms, dimension)),
        np.zeros((0 if policy.context_bound == 1.0 else n_arms, dimension)),
        np.zeros(n_arms),
        np.zeros(n_arms),
        np.zeros((budget, dimension)),
        np.zeros(budget),
        begun=0,
        closable=False,
        bound=policy.context_bound,
        unit=policy.reward_unit,
    )

    def go(first: int, stop: int) -> None:
        if run.delta:
            stop = min(stop, int(run.points[run.points > first].min(initial=stop)))
        part = game._replace(table=environment.table(replication, first, stop), begun=first)
        linear_loop(policy.kernels, part.layout)(part.handle, stop)
        run.certify_linear(output, game.state)

    run.in_chunks(replication, output, go, track, environment.rounds_per_table, n_arms)
    output.decisions.sort(axis=-1)
    return output, None


def by_ask_and_tell(run: Run, replication: int, track: Track) -> Played:
    """Play as a caller would: ask, look up the rewards, tell."""
    output, policy = run.output(), run.policy.fresh(run.seed, replication)
    go = _by_hand(run, replication, policy, output, run.watch())
    run.in_chunks(replication, output, go, track, run.horizon, _FIRST_CHUNK)
    return output, policy.triage_log() if isinstance(policy, SlatePolicy) and not sleeps(run.environment) else None


def _by_hand(
    run: Run, replication: int, policy: Policy, output: Output, watch: Watch | None
) -> Callable[[int, int], None]:
    """Return what plays rounds by ask and tell."""
    environment: Any = run.environment
    table, drifts = None, isinstance(run.environment, DriftingEnvironment)
    if isinstance(environment, StochasticEnvironment | ReplayEnvironment):
        table = environment.table(policy.budget, run.horizon)

    def go(first: int, stop: int) -> None:
        for number in range(first, stop):
            if isinstance(environment, LinearEnvironment):
                assert isinstance(policy, ContextualPolicy)
                decision = policy.ask(environment.contexts(number, replication))
                lost = environment.regret(number, decision.arms, replication)
            elif sleeps(environment):
                mask, among = np.zeros(policy.n_arms, np.bool_), environment.eligible(number, replication)
                mask[among] = True
                decision = policy.ask(eligible=mask)
                lost = environment.regret(decision.arms, number, replication)
                if watch is not None and among.size < policy.n_arms:
                    watch.note(among, decision.arms)
            elif isinstance(environment, PageEnvironment):
                decision = policy.ask()
                lost = environment.regret(decision.ranked_arms)
            else:
                decision = policy.ask()
                here = environment.table(policy.budget, number, replication) if drifts else table
                lost = environment.regret(decision.arms) if here is None else loss(here, number, decision.arms)
            output.total += lost
            if isinstance(environment, PageEnvironment):
                environment.play(policy, decision, number, replication)
            else:
                policy.tell_revealed(decision, environment.rewards(number, decision.revealed, replication))
            if run.record:
                output.decisions[number, : decision.arms.size] = decision.arms
            output.round = number + 1
            if output.point < run.points.size and number + 1 == run.points[output.point]:
                output.regret[output.point] = output.total
                output.point += 1
                if watch is not None:
                    run.certify(watch, output, policy.tally, policy._exposures)
                elif isinstance(policy, LinearGuard):
                    run.certify_linear(output, policy._state)

    return go
