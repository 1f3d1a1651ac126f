"""CombinatorialElimination: Algorithm 1 of the paper, to the letter and tightened."""

from __future__ import annotations

from typing import Any, Unpack

import numpy as np
from numpy.typing import NDArray

from armtriage._arguments import check_choice, check_flag, check_horizon, check_probability
from armtriage.certificate import Bounds
from armtriage.graphs.feedback import FeedbackGraph, GraphArrays
from armtriage.intervals import INTERVALS
from armtriage.kernels.jit import kernel
from armtriage.kernels.order import top_first
from armtriage.kernels.random import uniform
from armtriage.policies.compiled import CompiledPolicy, Kernels
from armtriage.policies.eligible import Among, Rules
from armtriage.policies.eligible.choosing import believe_means
from armtriage.policies.eligible.exploring import choose_by_elimination
from armtriage.policies.eligible.rows import Rows
from armtriage.policies.elimination.layers import (
    close_layer,
    cover,
    leave,
    new_layer,
    next_pick,
    open_layer,
    rebuild_layer,
)
from armtriage.policies.elimination.sets import (
    ACTIVE,
    CHOSEN,
    CONFIRMED,
    ELIMINATED,
    MEMO,
    Params,
    State,
    sort_printed,
    sort_reduced,
    tries,
)
from armtriage.policies.facts import require, within
from armtriage.policies.lock import locked
from armtriage.policies.lost import as_tries
from armtriage.policies.options import Options
from armtriage.triage import Triage, TriageLog

__all__ = ["CombinatorialElimination", "lose", "rebuild"]

TIE_BREAKS = ("index", "upper", "random")
FILLS = ("best", "random", "index")
VARIANTS: dict[str, dict[str, Any]] = {
    "tight": {
        "benchmark": "reduced",
        "interval": "mixture",
        "intersect": True,
        "skip_revealed": True,
        "tie_break": "upper",
        "fill": "best",
    },
    "paper": {
        "benchmark": "printed",
        "interval": "printed",
        "intersect": False,
        "skip_revealed": False,
        "tie_break": "index",
        "fill": "best",
    },
}
RANDOM = TIE_BREAKS.index("random")


@kernel
def _renew(params: Params, state: State, graph: GraphArrays, luck: np.uint64) -> None:
    """Begin a new layer: the active arms that have been scheduled least often (A_0)."""
    layer = state.layer
    close_layer(layer)
    n = state.n_active
    least = tries(state, state.active[0]) + state.pending[state.active[0]]
    for i in range(1, n):
        least = min(least, tries(state, state.active[i]) + state.pending[state.active[i]])
    printed_gap = not params.reduced and state.advanced > 0 and state.underway == 0
    state.dirty = 0
    state.advanced = 0
    if printed_gap and least > state.least:
        # As printed, N is older than the sets: if all arms observed N times have left, this round has no A_0.
        return
    for i in range(n):
        arm = state.active[i]
        if tries(state, arm) + state.pending[arm] == least:
            layer.members[layer.n_members] = arm
            layer.n_members += 1
            layer.waiting[arm] = 1
            layer.crowd[arm >> 8] += 1
    layer.n_waiting = layer.n_members
    if params.skip_revealed:
        for i in range(state.n_confirmed):
            cover(layer, graph, state.confirmed[i])
        m = 0
        for i in range(layer.n_members):
            arm = layer.members[i]
            if layer.waiting[arm] > 0:
                layer.members[m] = arm
                m += 1
        layer.n_members = m
    if params.tie_break == RANDOM:
        for i in range(layer.n_members):
            state.preference[layer.members[i]] = uniform(luck, layer.members[i])
    open_layer(layer, graph)


@kernel
def _fill(params: Params, state: State, luck: np.uint64, arms: NDArray[np.int64], first: int, filled: int) -> None:
    """Fill the slots from `filled` on with active arms that are not among those from `first` on."""
    for i in range(first, filled):
        state.status[arms[i]] = CHOSEN
    n = 0
    for i in range(state.n_active):
        arm = state.active[i]
        if state.status[arm] == ACTIVE:
            state.chosen[n] = arm
            if params.fill == 0:
                state.values[n] = state.sums[arm] / state.counts[arm] if state.counts[arm] > 0 else 0.0
            elif params.fill == 1:
                state.values[n] = uniform(luck, -1 - arm)
            else:
                state.values[n] = 0.0
            n += 1
    for i in range(first, filled):
        state.status[arms[i]] = ACTIVE
    top_first(state.values, state.chosen, n, arms.size - filled)
    for i in range(filled, arms.size):
        arms[i] = state.chosen[i - filled]


@kernel
def _best_confirmed(state: State, arms: NDArray[np.int64]) -> None:
    """Choose among more confirmed arms than slots, which happens only when the printed good event has failed."""
    n = state.n_confirmed
    for i in range(n):
        arm = state.confirmed[i]
        state.chosen[i] = arm
        state.values[i] = state.sums[arm] / state.counts[arm]
    top_first(state.values, state.chosen, n, arms.size)
    for i in range(arms.size):
        arms[i] = state.chosen[i]


@kernel
def select(
    params: Params, state: State, graph: GraphArrays, number: int, luck: np.uint64, arms: NDArray[np.int64]
) -> bool:
    """Fill `arms` with the confirmed arms, exploration picks and fill; True if that can never change again."""
    state.clock = number
    confirmed = state.n_confirmed
    if confirmed > arms.size:
        _best_confirmed(state, arms)
        return False
    for i in range(confirmed):
        arms[i] = state.confirmed[i]
    if confirmed + state.n_active == arms.size or confirmed == arms.size:
        for i in range(confirmed, arms.size):
            arms[i] = state.active[i - confirmed]
        return True
    if state.dirty > 0 or state.layer.n_waiting == 0:
        _renew(params, state, graph, luck)
    filled = confirmed
    while filled < arms.size:
        arm = next_pick(state.layer, graph, state.preference)
        if arm < 0:
            _fill(params, state, luck, arms, confirmed, filled)
            break
        cover(state.layer, graph, arm)
        arms[filled] = arm
        filled += 1
    return False


@kernel
def _sort(params: Params, state: State) -> None:
    if params.reduced:
        sort_reduced(params, state)
    else:
        sort_printed(params, state)


@kernel
def update(
    params: Params,
    state: State,
    graph: GraphArrays,
    number: int,
    luck: np.uint64,
    seen: NDArray[np.int64],
    rewards: NDArray[np.float64],
    n: int,
    scheduled: bool,
) -> None:
    """Record the rewards of the first n arms of `seen`; when every active arm has one more, sort them anew."""
    least, lagging = state.least, state.n_lagging
    # Several short loops: one with branches would wait for every cache miss in turn.
    for i in range(n):
        arm = seen[i]
        count = state.counts[arm]
        state.counts[arm] = count + 1
        state.sums[arm] += rewards[i]
        lagging -= (count + state.credit[arm] == least) & (state.status[arm] == ACTIVE)
    if state.mute > 0:
        for i in range(n):
            state.missed[seen[i]] = 0
    if state.between.size > 0:
        for i in range(n):
            state.between[seen[i]] += rewards[i] * (1.0 - rewards[i])
    if scheduled:
        for i in range(n):
            state.pending[seen[i]] -= 1
        state.underway -= n
    else:
        for i in range(n):
            leave(state.layer, seen[i])
    state.n_lagging = lagging
    if lagging == 0:
        _sort(params, state)


@kernel
def schedule(params: Params, state: State, graph: GraphArrays, arms: NDArray[np.int64]) -> None:
    """Note that rewards of these arms are on their way, so that open decisions explore other arms."""
    for i in range(arms.size):
        state.pending[arms[i]] += 1
        state.underway += 1
        leave(state.layer, arms[i])


@kernel
def lose(state: State, arms: NDArray[np.int64]) -> None:
    """Count lost rewards as tries, the more of them in a row the more."""
    state.mute = 1
    for i in range(arms.size):
        arm = arms[i]
        state.pending[arm] -= 1
        state.underway -= 1
        state.missed[arm] += 1
        more = as_tries(state.missed[arm])
        if more > 0:
            state.n_lagging -= (tries(state, arm) == state.least) & (state.status[arm] == ACTIVE)
            state.credit[arm] += more


@kernel
def release(params: Params, state: State, graph: GraphArrays, arms: NDArray[np.int64]) -> None:
    """Note that rewards of these arms will not come; the next layer begins with those who are behind."""
    lose(state, arms)
    if state.n_lagging == 0:
        _sort(params, state)


@kernel
def believe(
    params: Params, state: State, number: int, luck: np.uint64, arms: NDArray[np.int64], beliefs: NDArray[np.float64]
) -> None:
    """Write the means of the arms chosen."""
    for i in range(arms.size):
        beliefs[0, i] = state.sums[arms[i]] / max(state.counts[arms[i]], 1)


def fill_rows(state: State, rows: Rows) -> None:
    """Write what elimination knows into the rows of the arms."""
    n = state.lower.size
    rows.lower[:n], rows.upper[:n], rows.due[:n], rows.credit[:n] = state.lower, state.upper, state.due, state.credit
    rows.failures = state.failures


def rebuild(
    params: Params, state: State, graph: FeedbackGraph, awaited: NDArray[np.int64], asked: int, counted: bool = True
) -> None:
    """Check the facts of a state that was loaded, and compute what follows; `counted` if N is kept up."""
    n, logged = params.n_arms, state.n_logged
    within("status", state.status, ACTIVE, ELIMINATED)
    within("lower", state.lower, 0.0, 1.0)
    within("upper", state.upper, state.lower, 1.0)
    within("due", state.due, 1, 2 * asked + 2)
    within("between", state.between, 0.0, state.counts[: state.between.size] / 4.0)
    within("preference", state.preference, 0.0, 1.0)
    within("the number of decided arms", logged, 0, n)
    for name in ("clock", "failures"):
        within(name, getattr(state, name), 0, n * asked if name == "failures" else asked)
    within("missed", state.missed, 0, asked)
    within("credit", state.credit, 0, asked * (asked + 1))
    for name in ("dirty", "advanced", "mute"):
        within(name, getattr(state, name), 0, 1)
    arms, rounds = state.log_arms[:logged], state.log_rounds[:logged]
    active = np.flatnonzero(state.status == ACTIVE)
    require(np.sort(arms) == np.setdiff1d(np.arange(n), active), "log_arms must be the decided arms")
    within("log_rounds", rounds, 1, asked + 1)
    require(np.diff(rounds) >= 0, "log_rounds must not fall")
    confirmed = arms[state.status[arms] == CONFIRMED]
    require(active.size + confirmed.size >= params.budget, "too few arms are left")
    require(not params.reduced or confirmed.size <= params.budget, "too many arms are confirmed")
    if counted and active.size:
        within("least", state.least, 0, (state.counts[:n] + state.credit)[active].min())
    state.active[: active.size], state.confirmed[: confirmed.size] = active, confirmed
    state.n_active, state.n_confirmed = active.size, confirmed.size
    state.n_lagging = int(np.count_nonzero((state.counts[:n] + state.credit)[active] == state.least))
    state.pending[:], state.underway = awaited, int(awaited.sum())
    # Late rewards may decide arms that wait; then the sets have changed, and the next decision begins another layer.
    rebuild_layer(state.layer, graph, np.arange(n) if state.dirty else active)


class CombinatorialElimination(CompiledPolicy):
    """Algorithm 1: play confirmed arms always, eliminated arms never, and explore the active ones evenly.

    Use it where a worst-case guarantee counts: noise that arms may share, rewards that nobody vouches for, or a
    commitment that can be explained ("these arms are decided"). On ordinary instances `ThompsonSampling` loses less.

    ``variant="paper"`` is the printed algorithm; regret O(ln(2KT/delta) (alpha ln^2 K + S) / gap) and
    O(sqrt(alpha S T) + S sqrt(T)) up to logarithms, with probability 1 - delta. ``variant="tight"`` keeps these
    rates with smaller constants, and needs no horizon. The parts that differ can be chosen one by one.

    Parameters
    ----------
    graph, names, seed, reward_range, direction, sleepers_seen
        See `armtriage.Policy`.
    budget : int
        How many arms a decision has (S in the paper), from 1 to ``graph.n_arms``.
    horizon : int, optional
        Number of rounds, for intervals that hold for a horizon; without one the time-uniform form is used.
        ``"printed"`` needs it, ``"mixture"`` has no use for it.
    delta : float
        Probability with which the guarantee may fail.
    variant : {"tight", "paper"}
        Where the arguments below come from when they are None.
    benchmark : {"reduced", "printed"}, optional
        Compare each arm's interval with the rank bounds of the free slots, or its mean with the S-th best mean
        (+4w confirms, -2w eliminates); the latter needs an interval whose width depends on the count alone.
    interval : {"mixture", "kl", "hoeffding", "bernstein", "printed"}, optional
        See `armtriage.confidence_interval`.
    intersect : bool, optional
        Keep the intersection of an arm's intervals over time (reduced benchmark only).
    skip_revealed : bool, optional
        Do not explore arms that the confirmed ones reveal anyway.
    tie_break : {"upper", "index", "random"}, optional
        Among arms of largest out-degree take the largest upper bound, the smallest number, or a random one.
    fill : {"best", "random", "index"}, optional
        What fills slots that exploration leaves free: active arms of largest mean, random ones, or the first.

    References
    ----------
    Wen, Han, Zhou (2025), Optimal arm elimination algorithms for combinatorial bandits, Algorithm 1, Theorems 1, 3.

    Examples
    --------
    >>> from armtriage import FeedbackGraph, StochasticEnvironment
    >>> graph = FeedbackGraph.cliques([2, 2])
    >>> env = StochasticEnvironment([0.9, 0.8, 0.1, 0.0], graph, seed=7)
    >>> policy = CombinatorialElimination(graph, budget=2)
    >>> for t in range(100):
    ...     decision = policy.ask()
    ...     policy.tell(decision, env.rewards(t, decision.revealed))
    >>> policy.triage.eliminated
    array([2, 3])
    """

    kernels = Kernels(select, update, schedule, release, believe=believe)
    among = Among(choose_by_elimination, believe_means)

    def __init__(
        self,
        graph: FeedbackGraph | int,
        budget: int,
        *,
        horizon: int | None = None,
        delta: float = 0.01,
        variant: str = "tight",
        benchmark: str | None = None,
        interval: str | None = None,
        intersect: bool | None = None,
        skip_revealed: bool | None = None,
        tie_break: str | None = None,
        fill: str | None = None,
        **options: Unpack[Options],
    ) -> None:
        super().__init__(graph, budget, **options)
        default = VARIANTS[check_choice("variant", variant, tuple(VARIANTS))]
        self.horizon = check_horizon(horizon)
        self.delta = check_probability("delta", delta)
        self.variant = variant
        benchmark = default["benchmark"] if benchmark is None else benchmark
        self.benchmark = check_choice("benchmark", benchmark, ("reduced", "printed"))
        reduced = self.benchmark == "reduced"
        if not reduced:
            default = VARIANTS["paper"] | {"skip_revealed": default["skip_revealed"]}
        self.interval = check_choice("interval", default["interval"] if interval is None else interval, INTERVALS)
        self.intersect = check_flag("intersect", default["intersect"] if intersect is None else intersect)
        skip = default["skip_revealed"] if skip_revealed is None else skip_revealed
        self.skip_revealed = check_flag("skip_revealed", skip)
        self.tie_break = check_choice("tie_break", default["tie_break"] if tie_break is None else tie_break, TIE_BREAKS)
        self.fill = check_choice("fill", default["fill"] if fill is None else fill, FILLS)
        if self.interval == "printed" and self.horizon is None:
            raise ValueError("horizon must be given with the printed interval, got None")
        if not reduced and self.interval not in ("printed", "hoeffding"):
            raise ValueError(f"interval must be printed or hoeffding with benchmark='printed', got {self.interval!r}")
        if not reduced and (self.intersect or self.tie_break == "upper"):
            name, value = ("intersect", True) if self.intersect else ("tie_break", "upper")
            raise ValueError(f"{name} needs intervals, which benchmark='printed' has not, got {value!r}")

    @property
    @locked
    def triage(self) -> Triage:
        """The confirmed, active and eliminated arms as of what has been told."""
        if self._crowd is not None or self._roster.changed:
            return self.triage_of()
        status = self._state.status
        kinds = (CONFIRMED, ACTIVE, ELIMINATED)
        return Triage(*(self._roster.named(np.flatnonzero(status == kind)) for kind in kinds))

    @property
    def interval_failures(self) -> int:
        """How often an arm's new interval contradicted its old ones: a sign of drift, or of bad luck."""
        return int(self._state.failures) if self._crowd is None else super().interval_failures

    def _check_eligible_allowed(self) -> None:
        if self.benchmark == "printed":
            raise ValueError(
                f"variant={self.variant!r} compares every arm with one mean of all arms, so it cannot be asked with "
                "eligible arms or others than at first; use variant='tight'"
            )

    def _rules(self) -> Rules:
        kind, horizon = INTERVALS.index(self.interval), float(self.horizon or 0)
        return Rules(self._params, self.budget, kind, horizon, self.delta)

    def _fill(self, rows: Rows) -> None:
        fill_rows(self._state, rows)

    def _bounds(self, delta: float = 0.05) -> Bounds:
        if self._crowd is not None:
            return super()._bounds(delta)
        return Bounds(self._state.lower, self._state.upper)

    @locked
    def triage_log(self, state: Any = None) -> TriageLog:
        """Return when arms were confirmed or eliminated, in order."""
        state = self._state if state is None else state
        n = int(state.n_logged)
        arms = state.log_arms[:n].copy()
        return TriageLog(arms, state.log_rounds[:n].copy(), state.status[arms] == CONFIRMED)

    def params(self) -> Params:
        """Return the parameters of the kernels."""
        return Params(
            self.budget,
            self.n_arms,
            float(self.horizon or 0),
            self.delta,
            INTERVALS.index(self.interval),
            self.benchmark == "reduced",
            self.intersect,
            self.skip_revealed,
            TIE_BREAKS.index(self.tie_break),
            FILLS.index(self.fill),
        )

    def _rebuild(self) -> None:
        state = self._state
        self._check_tallied(state.counts[: self.n_arms], state.sums[: self.n_arms])
        rebuild(self._params, state, self.graph, self._awaited(), self._asked)

    def new_state(self) -> State:
        """Return the state before the first round: every arm active and unobserved."""
        n = self.n_arms
        # The numbers of an arm stand side by side in memory: a revealed arm costs one cache miss, not three.
        # A single row would count as contiguous, and have every kernel compiled again for one arm.
        known = np.zeros((max(n, 2), 4))
        upper = np.ones(n)
        preference = {"upper": upper, "random": np.zeros(n), "index": np.zeros(0)}[self.tie_break]
        return State(
            known.view(np.int64)[:, 0],
            known[:, 1],
            known[: None if self.interval in ("mixture", "bernstein") else 0, 2],
            np.zeros(n, np.int64),
            np.zeros(n, np.int64),
            np.zeros(n, np.int64),
            np.zeros(n, np.uint8),
            np.zeros(n),
            upper,
            np.ones(n, np.int64),
            np.arange(n, dtype=np.int64),
            np.zeros(n, np.int64),
            preference,
            new_layer(self.graph),
            np.full((MEMO, MEMO, 2), -1.0),
            np.zeros(n),
            np.zeros(n, np.int64),
            np.zeros(n, np.int64),
            np.zeros(n, np.int64),
            least=0,
            n_active=n,
            n_confirmed=0,
            n_lagging=n,
            dirty=1,
            advanced=0,
            clock=0,
            n_logged=0,
            failures=0,
            underway=0,
            mute=0,
        )
