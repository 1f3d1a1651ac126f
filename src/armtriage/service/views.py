"""What the service shows of a policy: for people, for programs and for a dashboard."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
from msgspec import Struct

from armtriage import __version__
from armtriage._numbers import short
from armtriage.alarm import Health
from armtriage.certificate import Certificate, in_units, intervals_of
from armtriage.service import events as log
from armtriage.service.events import KINDS, Event, History, unpack, unpack_stray
from armtriage.service.loop import Loop
from armtriage.service.messages import Fact, Propensity, read_answer, rfc3339
from armtriage.service.service import Service
from armtriage.service.state import PolicyState, unbits
from armtriage.service.timeline import finite
from armtriage.service.trial import MetricView, TrialView
from armtriage.service.view import PolicyView
from armtriage.service.viewer import MOST_ALARMS, view_of
from armtriage.service.watch import WatchView, WeightedView

_SHOWN = 1000  # arms of one answer
_UNKNOWN = Health((), None, None, 0, None, 0)  # of a policy that is not loaded
_DELTA = 0.05  # what the arms' intervals may fail with, all together
_STATUS = ("active", "confirmed", "eliminated", None)  # of an arm, by the number of its state; None if it is retired


class Live(Struct):
    """The process runs."""

    live: bool


class Readiness(Struct):
    """Whether all policies answer; `waiting` says why some do not, and `store` why nothing can be written."""

    ready: bool
    version: str
    waiting: dict[str, str]
    store: str = ""


class Made(Struct):
    """A policy that was just made; its arms can be asked for when it is ready."""

    name: str
    created: str
    config: dict[str, Any]


class TriageCounts(Struct):
    """How many arms are certainly among the best, open, and certainly not."""

    confirmed: int
    active: int
    eliminated: int


class Brief(Struct, kw_only=True):
    """A policy in a list."""

    name: str
    kind: str
    status: str
    ready: bool
    head: int
    decisions: int
    open_decisions: int
    arms: int
    budget: int
    triage: TriageCounts | None


class Policies(Struct):
    """All policies."""

    policies: list[Brief]


class CertificateView(Struct):
    """What the decisions can have lost, in numbers and in words; bounds are null where nothing can be said.

    While it is not `informative`, the bound is no smaller than what doing nothing would have lost; about so many more
    decisions are `needed`, null if that cannot be foreseen.
    """

    text: str
    confidence: float | None
    rounds: int
    regret_bound: float | None
    next_bound: float | None
    contradictions: int
    informative: bool
    needed: int | None

    @classmethod
    def of(cls, made: Certificate) -> CertificateView:
        """Return the view of a certificate."""
        return cls(str(made), *(getattr(made, name) for name in cls.__struct_fields__[1:]))


class LiftView(Struct):
    """What the policy earns more than the control, in words and in numbers, at any time with probability 1 - alpha.

    While `in_force` is not empty, an alarm of this kind lets every decision be the control's. `cut` totals lay above
    what counts at most.
    """

    text: str
    share: float
    by: str
    on_worse: str
    in_force: str
    decisions: int
    controls: int
    waiting: int
    since: int
    policy_mean: float | None
    control_mean: float | None
    lift: float | None
    low: float
    high: float
    alpha: float
    better: bool
    worse: bool
    share_ok: bool
    cut: int

    @classmethod
    def of(cls, trial: TrialView) -> LiftView | None:
        """Return the view of a trial's control group; None if it has none."""
        found, control = trial.interval, trial.control
        if found is None or control is None:
            return None
        known: dict[str, Any] = {"share": control.share, "by": control.by, "on_worse": control.on_worse}
        known |= {"in_force": trial.in_force, "cut": trial.cut}
        return cls(**{name: one for name, one in found.to_dict().items() if name != "direction"}, **known)


class BracketView(Struct):
    """What `arms` earn more in each decision than what was shown: from `low` to `high`, if arms' means are constant."""

    arms: list[str]
    low: float
    high: float


class SwitchView(Struct):
    """The event that ended observing, by which key or by which rule."""

    seq: int
    at: str
    by: str
    rule: str


class ObservingView(Struct):
    """What is known from watching another system, in words and in numbers.

    `agreement` is the share of slots in which the policy would have shown the same, and `old_mean` what a decision has
    earned. Each bound ever fails with probability `delta`. The `bracket` is null with contexts, and `weighted` where no
    probabilities came.
    """

    text: str
    decisions: int
    waiting: int
    agreement: float | None
    old_mean: float | None
    delta: float
    bracket: BracketView | None
    weighted: WeightedView | None
    switched: SwitchView | None

    @classmethod
    def of(cls, view: PolicyView) -> ObservingView | None:
        """Return the view of a policy that observes or did; None of another."""
        watch = view.watch
        if watch is None:
            return None
        bracket, switch = watch.bracket, watch.switch
        called = [] if bracket is None else [view.names[arm] for arm in bracket.arms]
        return cls(
            _observed(watch, view.names),
            *watch[:5],
            None if bracket is None else BracketView(called, bracket.low, bracket.high),
            watch.weighted,
            None if switch is None else SwitchView(switch.seq, rfc3339(switch.at), switch.by, switch.rule),
        )


def _observed(watch: WatchView, names: Sequence[str]) -> str:
    """Say what watching has found."""
    if watch.agreement is None:
        return "Nothing was observed yet."
    said = f"In {watch.decisions:,} observed decisions the policy would have shown the same in {watch.agreement:.0%}"
    found, sure = [f"{said} of the slots."], f"with {1.0 - watch.delta:.0%} confidence at any time"
    if watch.weighted is not None:
        known = watch.weighted
        found.append(
            f"By the probabilities of {known.decisions:,} of them, what it would have shown gains {short(known.gain)}"
            f" in each, {sure} {short(known.gain_low)} or more."
        )
    if watch.bracket is not None:
        arms = ", ".join(names[arm] for arm in watch.bracket.arms)
        found.append(
            f"If means are constant, and what was shown did not depend on who saw it, always showing {arms} gains"
            f" {short(watch.bracket.low)} or more in each, {sure}."
        )
    if watch.takeover is not None and watch.switch is None:
        which = "by the probabilities" if watch.takeover.by == "dr" else "of one slate"
        found.append(
            f"The policy takes over once the gain {which} is above {short(watch.takeover.margin)} for certain."
        )
    if watch.switch is not None:
        found.append(f"Since event {watch.switch.seq:,} the policy decides.")
    return " ".join(found)


class AlarmView(Struct):
    """An alarm of the log: its event, its kind, and of which metric or arm it is."""

    seq: int
    at: str
    kind: str
    what: str


class DriftView(Struct):
    """A change of an arm's mean: after how many decisions it was noticed, and near which one it was."""

    arm: str
    decision: int
    change_near: int


class HealthView(Struct):
    """Whether rewards are what certificates take them for, in words and in numbers.

    `false_alarm` is the probability with which there is ever a false alarm, null if the policy is not watched.
    """

    text: str
    false_alarm: float | None
    drift: list[DriftView]
    contradictions: int
    since: int

    @classmethod
    def of(cls, health: Health) -> HealthView:
        """Return the view of a policy's health: of many alarms the latest."""
        drift = [DriftView(str(one.arm), one.decision, one.change_near) for one in health.alarms[-MOST_ALARMS:]]
        return cls(str(health), health.false_alarm, drift, health.contradictions, health.since)


class AboveCapView(Struct):
    """What lay above the cap: how many rewards, by how much in all, and as a share of all that was told."""

    rewards: int
    excess: float
    share: float


class OldLogView(Struct):
    """The old log that a policy began with: how many rewards it has, and by how much its means may be off at most.

    `withdrawn` is after how many decisions rewards had contradicted it; null while they have not.
    """

    rewards: int
    bias: float
    withdrawn: int | None

    @classmethod
    def of(cls, view: PolicyView) -> OldLogView | None:
        """Return the view of an old log; None without one."""
        old = view.old_log
        return None if old is None else cls(int(old.counts.sum()), float(old.bias.max(initial=0.0)), view.old_withdrawn)


class PositionsView(Struct):
    """The weights of places, as given or as learnt so far, and the ratio of each to the one before, by swaps alone.

    The ratios lie between `low` and `high`, with 95% confidence for all at any time; null is no end.
    """

    weights: list[float]
    learnt: bool
    low: list[float]
    high: list[float | None]

    @classmethod
    def of(cls, view: PolicyView, learnt: bool) -> PositionsView | None:
        """Return the view of places; None where they are alike."""
        found = view.positions
        if found is None:
            return None
        return cls(found.weights.tolist(), learnt, found.low.tolist(), [finite(one) for one in found.high.tolist()])


class Full(Brief, kw_only=True):
    """All about a policy but its arms."""

    created: str
    version: str
    config: dict[str, Any]
    counts: dict[str, int]
    snapshot_lag: int
    queue: int
    request_p50: float
    request_p99: float
    commit_p99: float
    certificate: CertificateView | None
    health: HealthView
    above_cap: AboveCapView | None
    old_log: OldLogView | None
    positions: PositionsView | None
    lift: LiftView | None
    observing: ObservingView | None
    metrics: list[MetricView]
    alarms: list[AlarmView]


class ArmView(Struct):
    """An arm, and what is known of it.

    Its mean lies between `low` and `high`: with 95% confidence for all arms and at all times, if rewards are as the
    certificate needs them. With contexts arms have no means.
    """

    id: str
    meta: dict[str, Fact]
    retired: bool
    added: int
    status: str | None
    pulls: int
    observed: int
    mean: float | None
    low: float | None
    high: float | None


class Arms(Struct):
    """The arms, in the order in which they came; of more than a thousand the first."""

    arms: list[ArmView]
    total: int
    seq: int


class DecisionView(Struct):
    """A decision and what came of it; rewards that were stored and not learnt are `late`.

    One of the control has no number, and its total is among the rewards; metrics are, too.
    """

    id: str
    seq: int
    number: int | None
    at: str
    arms: list[str] | None
    show: list[str]
    eligible: list[str] | None
    contexts: list[list[float]] | None
    tags: dict[str, Fact]
    rewards: dict[str, dict[str, float]]
    late: list[dict[str, Any]]
    status: str
    propensity: Propensity
    group: str | None
    would_show: list[str] | None


class Digest(Struct):
    """A digest of the state after an event: replicas and replays have the same."""

    seq: int
    digest: str


class Traffic(Struct):
    """Counts by minute since 1970."""

    minutes: dict[str, dict[str, int]]


class System(Struct):
    """The server and its store."""

    version: str
    policies: int
    ready: bool
    store: dict[str, str | int | float]
    answers: dict[str, int]


def made(loop: Loop) -> Made:
    """Return a policy that was just made."""
    return Made(loop.name, rfc3339(loop.row.created), _config(loop))


def _config(loop: Loop) -> dict[str, Any]:
    config: dict[str, Any] = msgspec.to_builtins(loop.recipe.public())
    # What has an entry for each arm would be too long.
    return {key: value for key, value in config.items() if key not in ("arms", "name", "old_log")} | {
        "arms": len(loop.recipe.names)
    }


async def brief(service: Service, loop: Loop) -> Brief:
    """Return a policy for a list; one that is not ready is there, too."""
    return _brief(loop, await service.viewer.view(loop))


async def full(service: Service, loop: Loop) -> Full:
    """Return all about a policy."""
    view = await service.viewer.view(loop)
    counts = await loop.store.counters(loop.row.id, 0)
    seconds, commits = loop.metrics.seconds[loop.name], loop.metrics.commits[loop.name]
    made = None if view is None or loop.problem else view.certificate
    return Full(
        **msgspec.structs.asdict(_brief(loop, view)),
        created=rfc3339(loop.row.created),
        version=__version__,
        config=_config(loop),
        counts=dict(counts),
        snapshot_lag=loop.lag,
        queue=loop.queued,
        request_p50=seconds.quantile(0.5),
        request_p99=seconds.quantile(0.99),
        commit_p99=commits.quantile(0.99),
        certificate=None if made is None else CertificateView.of(made),
        health=HealthView.of(_UNKNOWN if view is None else view.health),
        above_cap=None if view is None or view.above_cap is None else AboveCapView(*view.above_cap),
        old_log=None if view is None else OldLogView.of(view),
        positions=None if view is None else PositionsView.of(view, loop.recipe.learns_places),
        lift=None if view is None or view.trial is None else LiftView.of(view.trial),
        observing=None if view is None else ObservingView.of(view),
        metrics=[] if view is None or view.trial is None else view.trial.metrics,
        alarms=[] if view is None else [AlarmView(seq, rfc3339(at), *which) for seq, at, *which in view.alarms],
    )


def _brief(loop: Loop, view: PolicyView | None) -> Brief:
    """Return what the list says of a policy, from the view of its state, if there is one."""
    budget = loop.recipe.create.budget
    return Brief(
        name=loop.name,
        kind=str(loop.recipe.kind),
        status="running" if view is None else view.status,
        ready=loop.ready,
        head=0 if view is None else view.head,
        decisions=0 if view is None else view.decisions,
        open_decisions=0 if view is None else view.open,
        arms=len(loop.recipe.names if view is None else view.names),
        budget=view.budget if view is not None else budget if isinstance(budget, int) else 0,
        triage=None if view is None or view.triage is None else TriageCounts(*view.triage),
    )


def arms(state: PolicyState) -> Arms:
    """Return the arms."""
    view, policy = view_of(state), state.policy
    known, tally, sorted_ = policy.arms, policy.tally, view.triage is not None
    lower = upper = np.full(len(view.names), np.nan)
    if not state.contextual:
        placed = view.positions is not None
        ends = policy._bounds(_DELTA) if placed else intervals_of(tally, 1.0 / known.share, _DELTA)
        lower, upper = in_units(ends, policy.reward_range, policy.direction)
    found = [
        ArmView(
            name,
            state.meta.get(name, {}),
            bool(known.retired[arm]),
            int(known.added[arm]),
            _STATUS[view.states[arm]] if sorted_ else None,
            int(tally.pulls[arm]),
            int(tally.counts[arm]),
            finite(view.means[arm]),
            finite(lower[arm]),
            finite(upper[arm]),
        )
        for arm, name in enumerate(view.names[:_SHOWN])
    ]
    return Arms(found, len(view.names), state.head)


def decision(state: PolicyState, known: History) -> DecisionView:
    """Return a decision, and what came of it."""
    first = next(event for event in known.events if event.kind == log.DECISION)
    body = unpack(first)
    shown = body.arms if body.show is None else body.show
    rewards: dict[str, dict[str, float]] = {}
    for one in known.events:
        if one.kind == log.REWARD:
            told = unpack(one)
            for arm, value in zip(told.arms, told.values, strict=True):
                rewards.setdefault(state.labels[arm], {})[told.reward] = value
    late = [
        {"id": stray.reward, "at": rfc3339(one.at), "rewards": stray.rewards}
        for one in known.strays
        for stray in [unpack_stray(one)]
    ]
    opened = state.open.get(first.key)
    mask = None if body.eligible is None else unbits(body.eligible, 8 * len(body.eligible))
    contexts = None
    if body.contexts is not None:
        contexts = np.frombuffer(body.contexts, "<f8").reshape(-1, int(state.recipe.create.dimension)).tolist()  # type: ignore[arg-type]
    known_as = read_answer(body.answer)
    tried = body.control is not None and state.recipe.create.control is not msgspec.UNSET
    return DecisionView(
        first.key,
        first.seq,
        first.number,
        rfc3339(first.at),
        known_as.arms,
        [state.names[arm] for arm in shown],
        None if mask is None else [state.names[arm] for arm in np.flatnonzero(mask).tolist()],
        contexts,
        body.tags or {},
        rewards,
        late,
        "open" if opened is not None else "closed",
        known_as.propensity,
        None if not tried else "control" if body.control else "policy",
        None if body.would is None else [state.names[arm] for arm in body.would],
    )


def event(one: Event) -> dict[str, Any]:
    """Return a line of the log, for reading; arms are numbers, in the order of the policy's arms."""
    body = unpack(one)
    found = dict(zip(body.__struct_fields__, msgspec.to_builtins(body), strict=True))
    found.pop("answer", None)
    found.pop("request", None)
    if found.get("contexts") is not None:
        found["contexts"] = np.frombuffer(body.contexts, "<f8").tolist()
    if found.get("eligible") is not None:
        found["eligible"] = np.flatnonzero(unbits(body.eligible, 8 * len(body.eligible))).tolist()
    head = {"seq": one.seq, "kind": KINDS[one.kind], "at": rfc3339(one.at)}
    if one.key:
        head["decision"] = one.key
    if one.number is not None and one.kind != log.EXPIRE:
        head["number"] = one.number
    return head | found


def traffic(rows: Sequence[tuple[int, str, int]]) -> Traffic:
    """Return counts by minute."""
    found: dict[str, dict[str, int]] = {}
    for minute, name, value in rows:
        found.setdefault(rfc3339(minute * 60_000_000), {})[name] = value
    return Traffic(found)


async def system(service: Service) -> System:
    """Return the server and its store."""
    answers = {str(status): count for status, count in service.metrics.requests.items()}
    return System(__version__, len(service.loops), service.readiness()[0], dict(await service.store.facts()), answers)
