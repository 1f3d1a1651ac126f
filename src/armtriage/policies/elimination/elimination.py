"""CombinatorialElimination: Algorithm 1 of the paper, to the letter and tightened."""

from __future__ import annotations

from typing import Any, Unpack

import numpy as np
from numpy.typing import NDArray

from armtriage._arguments import check_choice, check_flag, check_horizon, check_probability
from armtriage.graphs.feedback import FeedbackGraph
from armtriage.intervals import INTERVALS
from armtriage.kernels.jit import kernel, lowest_bit
from armtriage.kernels.order import top_first
from armtriage.kernels.random import uniform
from armtriage.kernels.record import Floats, Ints, Record, blank
from armtriage.policies.changing import locked
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
    Params,
    Sets,
    sort_again,
    sort_printed,
    sort_reduced,
)
from armtriage.policies.evidence import (
    LOST,
    TOLD,
    UNSEEN,
    Evidence,
    Intervals,
    as_tries,
    new_intervals,
    refresh,
    settled_count,
    tries,
)
from armtriage.policies.facts import check_facts, require, within
from armtriage.policies.options import Options
from armtriage.policies.request import ALL, Kernels, Request, believe_means, list_candidates, luck_of
from armtriage.policies.slate import SlatePolicy
from armtriage.policies.views import Scratch, View, explore, new_scratch, new_view, sort_view, take_certain
from armtriage.triage import Triage, TriageLog

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
UPPER, RANDOM = TIE_BREAKS.index("upper"), TIE_BREAKS.index("random")


class Own(Record):
    """The sets among all arms, and room to sort those of other requests."""

    facts = ()
    sets: Sets
    intervals: Intervals
    view: View
    scratch: Scratch
    ripe: NDArray[np.uint8]  # (room,) whether an arm's interval may be due
    words: NDArray[np.uint64]  # the same memory, eight arms a word


@kernel
def _preference(params: Params, evidence: Evidence, sets: Sets) -> Floats:
    """Return what breaks ties among out-degrees; nothing for the smallest arm first."""
    return evidence.upper if params.tie_break == UPPER else sets.preference


@kernel
def _renew(params: Params, evidence: Evidence, sets: Sets, luck: np.uint64) -> None:
    """Begin a new layer: the active arms that have been scheduled least often (A_0)."""
    layer, graph = sets.layer, params.graph
    close_layer(layer)
    n = sets.n_active
    least = tries(evidence, sets.active[0]) + evidence.pending[sets.active[0]]
    for i in range(1, n):
        least = min(least, tries(evidence, sets.active[i]) + evidence.pending[sets.active[i]])
    printed_gap = not params.reduced and sets.advanced > 0 and sets.underway == 0
    sets.dirty = 0
    sets.advanced = 0
    if printed_gap and least > sets.least:
        # As printed, N is older than the sets: if all arms observed N times have left, this round has no A_0.
        return
    for i in range(n):
        arm = sets.active[i]
        if tries(evidence, arm) + evidence.pending[arm] == least:
            layer.members[layer.n_members] = arm
            layer.n_members += 1
            layer.waiting[arm] = 1
            layer.crowd[arm >> 8] += 1
    layer.n_waiting = layer.n_members
    if params.skip_revealed:
        for i in range(sets.n_confirmed):
            cover(layer, graph, sets.confirmed[i])
        m = 0
        for i in range(layer.n_members):
            arm = layer.members[i]
            if layer.waiting[arm] > 0:
                layer.members[m] = arm
                m += 1
        layer.n_members = m
    if params.tie_break == RANDOM:
        for i in range(layer.n_members):
            sets.preference[layer.members[i]] = uniform(luck, layer.members[i])
    open_layer(layer, graph)


@kernel
def _fill(params: Params, evidence: Evidence, sets: Sets, luck: np.uint64, arms: Ints, first: int, filled: int) -> None:
    """Fill the slots from `filled` on with active arms that are not among those from `first` on."""
    for i in range(first, filled):
        sets.status[arms[i]] = CHOSEN
    n = 0
    for i in range(sets.n_active):
        arm = sets.active[i]
        if sets.status[arm] == ACTIVE:
            sets.chosen[n] = arm
            if params.fill == 0:
                sets.values[n] = evidence.sums[arm] / evidence.counts[arm] if evidence.counts[arm] > 0 else 0.0
            elif params.fill == 1:
                sets.values[n] = uniform(luck, -1 - arm)
            else:
                sets.values[n] = 0.0
            n += 1
    for i in range(first, filled):
        sets.status[arms[i]] = ACTIVE
    top_first(sets.values, sets.chosen, n, arms.size - filled)
    for i in range(filled, arms.size):
        arms[i] = sets.chosen[i - filled]


@kernel
def _best_confirmed(evidence: Evidence, sets: Sets, arms: Ints) -> None:
    """Choose among more confirmed arms than slots, which happens only when the printed good event has failed."""
    n = sets.n_confirmed
    for i in range(n):
        arm = sets.confirmed[i]
        sets.chosen[i] = arm
        sets.values[i] = evidence.sums[arm] / evidence.counts[arm]
    top_first(sets.values, sets.chosen, n, arms.size)
    for i in range(arms.size):
        arms[i] = sets.chosen[i]


@kernel
def _choose_of_all(params: Params, evidence: Evidence, sets: Sets, luck: np.uint64, arms: Ints) -> bool:
    """Fill `arms` with the confirmed arms, exploration picks and fill; True if that can never change again."""
    confirmed = sets.n_confirmed
    if confirmed > arms.size:
        _best_confirmed(evidence, sets, arms)
        return False
    for i in range(confirmed):
        arms[i] = sets.confirmed[i]
    if confirmed + sets.n_active == arms.size or confirmed == arms.size:
        for i in range(confirmed, arms.size):
            arms[i] = sets.active[i - confirmed]
        return True
    if sets.dirty > 0 or sets.layer.n_waiting == 0:
        _renew(params, evidence, sets, luck)
    filled = confirmed
    while filled < arms.size:
        arm = next_pick(sets.layer, params.graph, _preference(params, evidence, sets))
        if arm < 0:
            _fill(params, evidence, sets, luck, arms, confirmed, filled)
            break
        cover(sets.layer, params.graph, arm)
        arms[filled] = arm
        filled += 1
    return False


@kernel
def choose(params: Params, evidence: Evidence, own: Own, request: Request) -> bool:
    """Fill `arms` with a round of elimination; True if that can never change again.

    Among all arms the sets are those of the last time that every active arm had one more reward. Among others they
    follow from the intervals, which are brought up to date for that.
    """
    own.sets.clock = own.scratch.clock = request.number
    arms = request.arms[: request.size]
    if request.epoch == ALL:
        return _choose_of_all(params, evidence, own.sets, luck_of(request), arms)
    list_candidates(evidence, request)
    # Few intervals are due, and to ask each of the candidates would take as long as to sort them.
    for w in range((evidence.n_arms + 7) >> 3):
        word = own.words[w] & request.words[w]
        while word != 0:
            arm = 8 * w + (lowest_bit(word) >> 3)
            word &= word - np.uint64(1)
            refresh(own.intervals, evidence, arm)
            own.ripe[arm] = 0
    sort_view(evidence, own.scratch, own.view, request.among[: request.n], request.size, True)
    if not take_certain(own.view, arms):
        explore(evidence, own.scratch, own.view, params.graph, params.plain, arms)
    return False


@kernel
def _sort(params: Params, evidence: Evidence, own: Own) -> None:
    if params.reduced:
        sort_reduced(params, evidence, own.sets, own.intervals)
    else:
        sort_printed(params, evidence, own.sets)


@kernel
def learn(
    params: Params, evidence: Evidence, own: Own, request: Request, seen: Ints, rewards: Floats, event: int
) -> None:
    """Bring the sets in line with new rewards, or lost ones; when every active arm has had one more, sort again."""
    sets, least = own.sets, own.sets.least
    lagging, underway = sets.n_lagging, sets.underway
    if event == TOLD:
        status, pending = sets.status, evidence.pending
        for i in range(seen.size):
            arm = seen[i]
            lagging -= (tries(evidence, arm) - 1 == least) & (status[arm] == ACTIVE)
            if pending[arm] > 0:
                underway -= 1
            else:
                leave(sets.layer, arm)  # in a loop that schedules nothing
    elif event == LOST:
        for i in range(seen.size):
            arm = seen[i]
            more = as_tries(evidence.missed[arm])
            lagging -= (more > 0) & (tries(evidence, arm) - more == least) & (sets.status[arm] == ACTIVE)
        underway -= seen.size
    elif event == UNSEEN:
        underway -= seen.size
    sets.n_lagging, sets.underway = lagging, underway
    if lagging == 0:
        _sort(params, evidence, own)


@kernel
def settled(params: Params, evidence: Evidence, own: Own, request: Request, seen: Ints) -> None:
    """Note whose intervals are due, until a request or a sort brings them up to date."""
    for i in range(seen.size):
        own.ripe[seen[i]] = settled_count(evidence, seen[i]) >= evidence.due[seen[i]]


@kernel
def expect(params: Params, evidence: Evidence, own: Own, arms: Ints) -> None:
    """Note that rewards of these arms are on their way, so that open decisions explore other arms."""
    own.sets.underway += arms.size
    for i in range(arms.size):
        leave(own.sets.layer, arms[i])


class CombinatorialElimination(SlatePolicy):
    """Algorithm 1: play confirmed arms always, eliminated arms never, and explore the active ones evenly.

    Use it where a worst-case guarantee counts: noise that arms may share, rewards of an unknown law, or a
    commitment that can be explained ("these arms are decided"). On ordinary instances `ThompsonSampling` loses less.

    ``variant="paper"`` is the printed algorithm; regret O(ln(2KT/delta) (alpha ln^2 K + S) / gap) and
    O(sqrt(alpha S T) + S sqrt(T)) up to logarithms, with probability 1 - delta. ``variant="tight"`` keeps these
    rates with smaller constants, and needs no horizon. The parts that differ can be chosen one by one.

    Parameters
    ----------
    graph, names, seed, reward_range, direction, sleepers_seen, cap, logging_floor, floor_arms
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

    kernels = Kernels(choose, learn, believe_means, expect=expect, settled=settled)
    keeps_intervals = True

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
        if "positions" in options:
            raise NotImplementedError(
                "positions cannot be used: elimination's bound is proved for slots that are alike"
            )
        super().__init__(graph, budget, **options)
        default = VARIANTS[check_choice("variant", variant, tuple(VARIANTS))]
        self.horizon = check_horizon(horizon)
        self.delta = check_probability("delta", delta)
        self.variant = variant
        benchmark = default["benchmark"] if benchmark is None else benchmark
        self.benchmark = check_choice("benchmark", benchmark, ("reduced", "printed"))
        reduced = self.benchmark == "reduced"
        self._all_alone = not reduced
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
        if not self._always_all:
            return self.triage_of()
        status = self._own.sets.status
        kinds = (CONFIRMED, ACTIVE, ELIMINATED)
        return Triage(*(self._roster.named(np.flatnonzero(status == kind)) for kind in kinds))

    def _check_eligible_allowed(self) -> None:
        if self.benchmark == "printed":
            raise ValueError(
                f"variant={self.variant!r} compares every arm with one mean of all arms, so it cannot be asked with "
                "eligible arms or others than at first; use variant='tight'"
            )

    @locked
    def triage_log(self, own: Any = None) -> TriageLog:
        """Return when arms were confirmed or eliminated, in order."""
        sets = (self._own if own is None else own).sets
        n = int(sets.n_logged)
        arms = sets.log_arms[:n].copy()
        return TriageLog(arms, sets.log_rounds[:n].copy(), sets.status[arms] == CONFIRMED)

    def params(self) -> Params:
        """Return the parameters of the kernels."""
        return Params(
            self.graph.arrays,
            self._plain,
            self.budget,
            self._roster.n_first,
            float(self.horizon or 0),
            self.delta,
            INTERVALS.index(self.interval),
            self.benchmark == "reduced",
            self.intersect,
            self.skip_revealed,
            TIE_BREAKS.index(self.tie_break),
            FILLS.index(self.fill),
        )

    def new_own(self, evidence: Evidence) -> Own:
        """Return the sets before anything was told: every arm is active."""
        n, room = int(evidence.n_arms), evidence.counts.size
        kind, horizon = INTERVALS.index(self.interval), float(self.horizon or 0)
        first = self._roster.n_first
        return Own(
            blank(
                Sets,
                n,
                active=np.arange(n),
                preference=np.zeros(n if self.tie_break == "random" else 0),
                layer=new_layer(self.graph),
                n_active=n,
                n_lagging=n,
                dirty=1,
            ),
            new_intervals(kind, horizon, self.delta, first, intersect=self.intersect),
            new_view(room, self.budget),
            new_scratch(room),
            ripe := np.ones(room, np.uint8),
            ripe.view(np.uint64),
        )

    def renewed_own(self, old: Own) -> Own:
        """Return the sets of other arms, by the intervals as they are."""
        own, evidence = self.new_own(self._evidence), self._evidence
        own.sets.clock, own.sets.underway = old.sets.clock, int(evidence.pending.sum())
        sort_again(self._params, evidence, own.sets)
        return own

    def _check_own(self) -> None:
        sets, evidence, n, asked = self._own.sets, self._evidence, self.n_arms, self._asked
        check_facts(sets, {"arms": n, "asked": asked})
        arms, rounds = sets.log_arms[: sets.n_logged], sets.log_rounds[: sets.n_logged]
        active = np.flatnonzero(sets.status == ACTIVE)
        require(np.sort(arms) == np.setdiff1d(np.arange(n), active), "log_arms must be the decided arms")
        within("log_rounds", rounds, 1, asked + 1)
        require(np.diff(rounds) >= 0, "log_rounds must not fall")
        confirmed = arms[sets.status[arms] == CONFIRMED]
        require(active.size + confirmed.size >= self.budget, "too few arms are left")
        reduced = self.benchmark == "reduced"
        require(not reduced or confirmed.size <= self.budget, "too many arms are confirmed")
        tried = (evidence.counts + evidence.credit)[active]
        if active.size:
            within("least", sets.least, 0, tried.min())
        sets.active[: active.size], sets.confirmed[: confirmed.size] = active, confirmed
        sets.n_active, sets.n_confirmed = active.size, confirmed.size
        sets.n_lagging, sets.underway = int(np.count_nonzero(tried == sets.least)), int(evidence.pending.sum())
        # Late rewards may decide arms that wait; then the sets have changed, and the next decision begins a new layer.
        rebuild_layer(sets.layer, self.graph, np.arange(n) if sets.dirty else active)
