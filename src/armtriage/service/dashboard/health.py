"""The checks of a policy: each says what was looked at, and what to do where it fails."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from armtriage.service import clock
from armtriage.service.dashboard.recorder import Pulse, Recorder
from armtriage.service.loop import Loop
from armtriage.service.view import PolicyView

_SLOW = 0.1  # seconds that a commit may take, for 99% of them
_FULL = 0.1  # of the disk that should be free
_DAY = 24 * 60
_FEWEST = 30  # decisions of an hour that say something of their rewards


class Check(NamedTuple):
    """What was looked at, and what was found: "ok", "warn", "bad", or "none" where nothing can be said yet."""

    level: str
    title: str
    detail: str
    at: int | None = None  # microseconds since 1970


def checks(
    loop: Loop,
    recorder: Recorder,
    view: PolicyView | None,
    facts: Mapping[str, Any],
    minutes: Mapping[int, Mapping[str, int]],
) -> list[Check]:
    """Return all checks of a policy, the worst first."""
    pulse = recorder.pulse(loop.name)
    found = [
        _ready(loop),
        _drift(view),
        *_old_log(view),
        *_trial(view),
        _missing(minutes, told_by_default=loop.recipe.create.reward.default is not None),
        _replay(loop, pulse),
        _commits(loop, pulse, facts),
        _disk(facts),
        _clock(recorder),
        _shed(loop, pulse),
    ]
    order = {"bad": 0, "warn": 1, "ok": 2, "none": 3}
    return sorted((one for one in found if one is not None), key=lambda one: order[one.level])


def _ready(loop: Loop) -> Check | None:
    if loop.ready:
        return None
    if loop.trouble == "disk_full":
        return Check("bad", "The disk is full", "Requests get 507 until there is room; what was acknowledged is kept.")
    if loop.trouble == "loading":
        return Check("warn", "Loading", "The state is being made from the log; decisions wait until it is there.")
    return Check("bad", "The store does not answer", "Requests get 503; the state is rebuilt when it answers again.")


def _drift(view: PolicyView | None) -> Check:
    made, health = (None, None) if view is None else (view.certificate, view.health)
    if health is not None and health.alarms:
        return Check("bad", "Drift", str(health))
    if view is not None and view.positions is not None:
        return _places(view)
    contradictions = None if made is None else int(made.contradictions)
    if health is not None and health.false_alarm is not None and not contradictions:
        return Check("ok", "No drift noticed", str(health))
    if contradictions is None:
        return Check("none", "Drift is not watched", "This kind of policy keeps no intervals that could contradict.")
    if contradictions:
        times = "interval contradicts its" if contradictions == 1 else "intervals contradict their"
        said = f"{contradictions:,} {times} past: a mean has changed, so nothing is certified any more."
        return Check("bad", "Drift", said)
    return Check("ok", "No drift seen", "No interval contradicts its past.")


def _places(view: PolicyView) -> Check:
    """Return what swaps of neighbours say of the weights of places."""
    made, weights = view.certificate, ", ".join(f"{one:.3g}" for one in view.positions.weights)  # type: ignore[union-attr]
    if made is not None and made.assumptions.learnt:
        return Check("none", "Weights of places are learnt", f"So far {weights}; nothing is certified with them.")
    if made is not None and made.contradictions:
        said = f"Swaps of neighbours contradict the weights {weights}, so nothing is certified any more."
        return Check("bad", "Weights of places are wrong", said)
    return Check("ok", "Weights of places are not contradicted", f"By swaps of neighbours, of {weights}.")


def _old_log(view: PolicyView | None) -> list[Check]:
    """Return whether the old log still stands, if there is one."""
    if view is None or view.old_log is None:
        return []
    if view.old_withdrawn is None:
        return [Check("ok", "The old log stands", f"{view.old_log!r}: no reward contradicts it so far.")]
    said = f"Rewards contradicted it after {view.old_withdrawn:,} decisions; all that is said comes from live ones."
    return [Check("warn", "The old log is withdrawn", said)]


def _trial(view: PolicyView | None) -> list[Check]:
    """Return what the control group and the metrics say, if there are any."""
    trial = None if view is None else view.trial
    if trial is None:
        return []
    then = "" if not trial.in_force else " Every decision is the control's until the policy is resumed."
    found = [
        Check("bad", f"{one.name} is beyond its limit", one.text + then)
        if one.breached
        else Check("ok", f"{one.name} keeps its limit", one.text)
        for one in trial.metrics
    ]
    lift = trial.interval
    if lift is not None:
        if not lift.share_ok:
            said = "A client may ask again under other ids when it dislikes its group; the lift says nothing now."
            found.append(Check("bad", "Groups are not drawn by the coin", said))
        elif lift.worse:
            found.append(Check("bad", "Worse than the control", f"{lift}{then}"))
        elif lift.decisions:
            share = trial.control.share if trial.control is not None else 0.0
            said = f"{lift.controls:,} of {lift.decisions:,} decisions that count; {share:.3g} of them should be."
            found.append(Check("ok", "Control group", said))
    return found


def _missing(minutes: Mapping[int, Mapping[str, int]], *, told_by_default: bool) -> Check:
    """Compare the share of decisions that nothing was told of in the last hour with that of the day before.

    Where what is not told has a default, running out of time is how decisions end, and no sign of anything.
    """
    now = clock.wall() // 60_000_000

    def share(first: int, last: int) -> tuple[int, int]:
        some = [of for minute, of in minutes.items() if first <= minute < last]
        made = sum(of.get("decisions", 0) for of in some)
        if told_by_default:
            return made - min(sum(of.get("heard", 0) for of in some), made), made
        return sum(of.get("expired", 0) for of in some), made

    (lost, made), (lost_before, made_before) = share(now - 59, now + 1), share(now - _DAY, now - 59)
    if made < _FEWEST:
        said = f"Only {made:,} decisions in the last hour." if made else "No decisions in the last hour."
        return Check("none", "Missing rewards cannot be judged", said)
    gone = min(lost / made, 1.0)
    here = f"{gone:.0%} of the last hour's decisions ran out of time"
    if told_by_default:
        here = f"{1.0 - gone:.0%} of the last hour's decisions have told a reward; the others end with the default"
    # Earlier versions did not count what was told.
    if made_before >= _FEWEST and not (told_by_default and lost_before == made_before):
        before = lost_before / made_before
        noise = 3.0 * ((before * (1.0 - min(before, 1.0)) + 0.01) / made) ** 0.5
        was = f"{1.0 - before if told_by_default else before:.0%} in the day before"
        worse = lost / made > 1.5 * before + noise
        if told_by_default:
            worse = 1.0 - gone < (1.0 - before) / 1.5 - noise
        if worse:
            return Check("warn", "Missing rewards rise", f"{here}, {was}. Rewards may be getting lost on their way.")
        return Check("ok", "Rewards come as before", f"{here}; {was}.")
    return Check("ok", "Rewards come", f"{here}; there is no day before to compare with.")


def _replay(loop: Loop, pulse: Pulse) -> Check:
    seq, at = pulse.verified
    if loop.metrics.counts[loop.name]["diverged"]:
        said = "A replay of the log gave another state than the snapshot. Run armtriage store check."
        return Check("bad", "State differs from its log", said)
    if not seq:
        said = "It is, whenever there is a new snapshot after another: after some 20,000 events."
        return Check("none", "State not yet compared with its log", said)
    return Check("ok", "State equals its log", f"Replayed to event {seq:,}: the same digest.", at)


def _commits(loop: Loop, pulse: Pulse, facts: Mapping[str, Any]) -> Check:
    kind = "SQLite" if facts.get("kind") == "sqlite" else "PostgreSQL" if facts else "The store"
    half, most = pulse.latency(loop.metrics.commits[loop.name], "commits")
    if half is None or most is None:
        return Check("ok", "Store", f"{kind} answers; nothing was written in the last minute.")
    said = f"{kind}: half of the commits within {1e3 * half:.2g} ms, 99% within {1e3 * most:.2g} ms."
    return Check("warn", "Slow commits", said) if most > _SLOW else Check("ok", "Store", said)


def _disk(facts: Mapping[str, Any]) -> Check:
    free = facts.get("disk_free")
    if not isinstance(free, float):
        return Check("none", "Disk not known", "The database keeps its own disk: watch it there.")
    said = f"{free:.0%} of the store's disk is free."
    return Check("bad", "Disk nearly full", said) if free < _FULL else Check("ok", "Disk", said)


def _clock(recorder: Recorder) -> Check:
    if recorder.last_jump and clock.wall() - recorder.last_jump < 3_600_000_000:
        said = f"It was set by {recorder.jump:+,.0f} s. Rewards are joined by a steady clock, and none is lost."
        return Check("warn", "The system's clock jumped", said, recorder.last_jump)
    return Check("ok", "Clock", "No jump in the last hour.")


def _shed(loop: Loop, pulse: Pulse) -> Check:
    now, ever = pulse.lately("shed"), loop.metrics.counts[loop.name]["shed"]
    if now:
        said = f"{now:,} refused in the last minute, since more waited than could be answered soon."
        return Check("bad", "Requests are shed", said)
    since = "since the server started"
    return Check("ok", "No request shed", f"{f'{ever:,} were' if ever else 'None was'} refused {since}.")
