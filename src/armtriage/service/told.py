"""Rewards of decisions, by arm, totals and metrics, read against a policy's state and the past."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf

from msgspec import UNSET

from armtriage.service import events as log
from armtriage.service.events import Decided, History, StrayBody, unpack, unpack_stray
from armtriage.service.messages import Reward
from armtriage.service.refusal import Refused, quoted, some_of
from armtriage.service.state import PolicyState
from armtriage.service.trial import TOTAL


class Past:
    """What was told of the arms of a decision that is closed or unknown, each by its name."""

    def __init__(self, state: PolicyState, known: History) -> None:
        names, self._arms = state.labels, state.index
        self.told: dict[str, dict[str, float]] = {}  # by the rewards' ids
        self.stored: dict[tuple[str, str], float] = {}  # late and orphans: by name and id
        self.filled: dict[str, set[str]] = {}  # ids of hits that left the arm out
        for event in known.events:
            if event.kind == log.REWARD:
                body = unpack(event)
                for arm, value in zip(body.arms, body.values, strict=True):
                    if body.hits and not value and arm >= 0:
                        self.filled.setdefault(names[arm], set()).add(body.reward)
                    else:
                        self.told.setdefault(names[arm], {})[body.reward] = value
        self.strays = 0
        self.next_turn = max((one.turn for one in known.strays), default=-1) + 1
        for stray in known.strays:
            self.note(unpack_stray(stray))
        decided = next((event for event in known.events if event.kind == log.DECISION), None)
        self.decided: Decided | None = None if decided is None else unpack(decided)
        self.apart = decided is not None and decided.number is None  # whether the policy knows nothing of it

    def note(self, stray: StrayBody) -> None:
        """Add rewards that are stored and not learnt."""
        self.strays += 1
        for name, value in stray.rewards.items():
            if stray.hits and not value and name in self._arms:
                self.filled.setdefault(name, set()).add(stray.reward)
            else:
                self.stored.setdefault((name, stray.reward), value)


def arms_of(state: PolicyState, names: Sequence[str]) -> list[int]:
    """Return the numbers of arms; refuse names that are no arm's."""
    index = state.index
    try:
        return [index[name] for name in names]
    except KeyError:
        raise unknown(state, names) from None


def unknown(state: PolicyState, names: Iterable[str]) -> Refused:
    """Return the refusal of names of which some are no arm's."""
    missing = some_of(name for name in names if name not in state.index)
    return Refused("unknown_arm", f"No arm is called {missing}; the arms are {some_of(state.names)}.")


def values_of(state: PolicyState, request: Reward, show: Sequence[int], *, control: bool | None) -> dict[int, float]:
    """Return the rewards by arm, if the decision shows them all and they are in range; totals and metrics, too.

    Whether an unknown decision is one of the control, of which the policy knows nothing, is not known.
    """
    shown = set(show)
    values: dict[int, float] = {}
    if request.first is not UNSET or (state.recipe.cascade and (request.rewards or request.hits is not UNSET)):
        values = _looked_at(state, request, show, control)
    elif request.hits is not UNSET:
        hits = set(arms_of(state, request.hits))
        if not hits <= shown:
            raise _not_shown(state, hits, show)
        values = {arm: float(arm in hits) for arm in show}
    elif request.rewards is not UNSET:
        values = dict(zip(arms_of(state, list(request.rewards)), request.rewards.values(), strict=True))
        if not shown.issuperset(values):
            raise _not_shown(state, values, show)
    for arm, value in values.items():
        if not state.low <= value <= state.high:
            got = f"got {value!r} for {quoted(state.names[arm])}"
            span = f"lie in [{state.low:g}, {state.high:g}]" if state.high < inf else f"be {state.low:g} or more"
            raise Refused("out_of_range", f"rewards must {span}, {got}")
    if request.total is not UNSET or request.metrics is not UNSET:
        values |= _second_numbers(state, request, control)
    return values


def _looked_at(state: PolicyState, request: Reward, show: Sequence[int], control: bool | None) -> dict[int, float]:
    """Return the rewards of the arms down to the first click; those below it were not looked at."""
    if not state.recipe.cascade:
        raise Refused("invalid", "first must be left out: it is for feedback of the kind cascade")
    if request.first is UNSET:
        raise Refused("invalid", "tell first, the arm that was clicked first, or null: the feedback is a cascade")
    if control and not show:
        raise _not_shown(state, (), show)
    if request.first is None:
        return dict.fromkeys(show, 0.0)
    (clicked,) = arms_of(state, [request.first])
    if clicked not in show:
        raise _not_shown(state, [clicked], show)
    seen = show[: list(show).index(clicked) + 1]
    return {arm: float(arm == clicked) for arm in seen}


def _second_numbers(state: PolicyState, request: Reward, control: bool | None) -> dict[int, float]:
    """Return the total and the metrics of a request, by their numbers, if the policy has them in this range."""
    trial, values = state.trial, dict[int, float]()
    if request.total is not UNSET:
        if trial is None or trial.control is None or control is False:
            text = "total must be left out: it is for decisions of a control group that are not learned from"
            raise Refused("invalid", text)
        if request.total < trial.least:
            raise Refused("out_of_range", f"total must be at least {trial.least:g}, got {request.total!r}")
        values[TOTAL] = request.total
    if request.metrics is not UNSET:
        if trial is None or not trial.metrics:
            raise Refused("invalid", "metrics must be left out: the policy has none")
        for name, value in request.metrics.items():
            number = trial.number_of(name)
            low, high = trial.metrics[TOTAL - 1 - number].range
            if not low <= value <= high:
                got = f"got {value!r}"
                raise Refused("out_of_range", f"metrics.{name} must lie in [{low:g}, {high:g}], {got}")
            values[number] = value
    return values


def _not_shown(state: PolicyState, arms: Iterable[int], show: Sequence[int]) -> Refused:
    names, wrong = state.names, sorted(set(arms) - set(show))
    if not show:
        raise Refused("not_shown", "The decision is the control's, which shows no arms: tell its total.")
    shows = some_of(names[arm] for arm in show)
    return Refused("not_shown", f"The decision does not show {some_of(names[arm] for arm in wrong)}, but {shows}.")
