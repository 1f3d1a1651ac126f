"""One step of a policy's loop: what a group of requests does to the state, and what it writes."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, groupby, repeat
from typing import Any, NamedTuple

import numpy as np
from msgspec import UNSET
from msgspec.structs import replace

from armtriage.decisions import Decision
from armtriage.service import events as log
from armtriage.service.asked import Asked, check_possible, contexts_of, digest_of, eligible_of, group_of, shown_by
from armtriage.service.events import (
    Alarmed,
    ArmsChanged,
    Decided,
    Event,
    History,
    Lived,
    Rewarded,
    Stray,
    StrayBody,
    Windowed,
    unpack,
    unpack_stray,
)
from armtriage.service.messages import (
    UNKNOWN,
    Answer,
    Arm,
    ArmsChange,
    Control,
    Decide,
    Fates,
    Propensity,
    Reward,
    Status,
    encode,
    rfc3339,
)
from armtriage.service.refusal import Refused, quoted, repeated, said, some_of
from armtriage.service.state import Open, PolicyState, bits
from armtriage.service.stores import Write
from armtriage.service.told import Past, arms_of, unknown, values_of
from armtriage.service.trial import Trial

MOST_HELD = 2**31
"""The most bytes of memory that the open decisions of a policy may take: more than a million, if they are plain."""

MOST_STRAYS = 64
"""The most rewards of a decision that are stored without being learnt."""

MOST_ORPHANS = 2**26
"""The most bytes of rewards that a policy holds for decisions that are not known."""

UNLOGGED = ("duplicate", "repeated", "conflict", "rejected")
"""What is counted without an event that says so: the server that a client asked counts it, whichever answers."""

_NOTHING = History([], [])
_RANDOM = 5  # bytes of an id that are random


class Reply(NamedTuple):
    """The answer to a request, which is sent when the group is stored."""

    status: int
    body: bytes


class Step:
    """A group of requests, on a state that is up to date.

    Parameters
    ----------
    state : PolicyState
        The state; it is changed.
    now : int
        The time that all of the group's events have.
    found, recent : mapping
        What is known of decisions, by id: what the store has found, and what groups have done that are not stored yet.
    room : int
        Bytes of rewards of unknown decisions that may still be held.
    """

    def __init__(
        self,
        state: PolicyState,
        now: int,
        found: Mapping[str, History],
        recent: Mapping[str, History],
        room: int = MOST_ORPHANS,
    ) -> None:
        self.state, self.now, self.room = state, now, room
        self._found, self._recent = found, recent
        self.own: dict[str, History] = {}  # what this step itself adds
        self.events: list[Event] = []
        self.strays: list[Stray] = []
        self.adopted: list[str] = []
        self.counts: Counter[str] = Counter()
        self._pasts: dict[str, Past] = {}  # made once, though many rewards of a decision may come together
        self._spare: list[bytes] = []  # what makes ids different
        self._deadline = rfc3339(now + state.recipe.window)

    def write(self) -> Write:
        """Return what the store has to write."""
        return Write(self.events, self.strays, self.adopted, self.counts, self.now // 60_000_000)

    def history(self, key: str) -> History:
        """Return all that is known of a decision, in the order in which it happened."""
        parts = [one[key] for one in (self._found, self._recent, self.own) if key in one]
        if len(parts) <= 1:
            return parts[0] if parts else _NOTHING
        # A group that has just been stored may be among what was found as well as among what is recent.
        events = {event.seq: event for part in parts for event in part.events}
        strays = {stray.turn: stray for part in parts for stray in part.strays}
        return History(list(events.values()), list(strays.values()))

    def _log(self, event: Event) -> None:
        self.events.append(event)
        if event.key:
            self._pasts.pop(event.key, None)
            self.own.setdefault(event.key, History([], [])).events.append(event)

    def decide(
        self, batches: Sequence[Sequence[Decide]], aparts: Sequence[Counter[str] | None] = ()
    ) -> list[Reply | Refused | list[bytes]]:
        """Answer requests for decisions; each batch of several is answered whole, or refused whole.

        What is repeated in a batch is counted in its one of `aparts`, if it has one.
        """
        plans: list[Refused | list[bytes | str]] = []
        asked: dict[str, Asked] = {}
        held = self.state.held
        for requests, apart in zip(batches, chain(aparts, repeat(None)), strict=False):
            mine: dict[str, Asked] = {}
            more = held
            plan: list[bytes | str] = []
            try:
                for request in requests:
                    known = self._repeated(request, asked, mine)
                    if known is None:
                        one = self._checked(request, more)
                        mine[one.id] = one
                        more += one.weight
                        known = one.id
                    plan.append(known)
            except Refused as refused:
                plans.append(refused)
                continue
            repeated = len(plan) - len(mine)
            if apart is not None:
                apart["repeated"] = repeated
            elif repeated:
                self.counts["repeated"] += repeated
            asked |= mine
            held = more
            plans.append(plan)
        made = self._make(list(asked.values()))
        fresh = set(made)
        replies: list[Reply | Refused | list[bytes]] = []
        for requests, answers in zip(batches, plans, strict=True):
            if isinstance(answers, Refused):
                replies.append(answers)
                continue
            bodies = [made[one] if isinstance(one, str) else one for one in answers]
            first = answers[0]
            status = 201 if isinstance(first, str) and first in fresh else 200
            fresh -= {one for one in answers if isinstance(one, str)}
            replies.append(Reply(status, bodies[0]) if len(requests) == 1 else bodies)
        return replies

    def _repeated(self, request: Decide, asked: Mapping[str, Asked], mine: Mapping[str, Asked]) -> bytes | str | None:
        """Return the answer to a request that was made before, or the id of one of this step that it repeats."""
        if request.id is UNSET:
            return None
        same = asked.get(request.id) or mine.get(request.id)
        if same is not None:
            if same.request != digest_of(request):
                raise _taken(request.id)
            return same.id
        for event in self.history(request.id).events:
            if event.kind == log.DECISION:
                body = unpack(event)
                if body.request != digest_of(request):
                    raise _taken(request.id)
                answer: bytes = body.answer
                return answer
        return None

    def _checked(self, request: Decide, held: int, made_elsewhere: bool = False) -> Asked:
        """Return the request in the policy's terms; after this it cannot fail."""
        state = self.state
        if state.status not in ("running", "observing"):
            raise Refused(state.status)
        if held >= MOST_HELD:
            raise Refused("too_many_open")
        mask, contexts, odd = eligible_of(self.state, request), None, dict[str, int]()
        if state.contextual:
            contexts, mask, odd = contexts_of(self.state, request, mask)
        elif request.contexts is not UNSET or request.rows is not UNSET:
            given = "contexts" if request.contexts is not UNSET else "rows"
            raise Refused("invalid", f"{given} must be left out: {state.recipe.kind} takes none")
        if mask is not None:
            check_possible(self.state, mask)
        elif state.stuck:
            raise Refused("nothing_eligible", "no decision can be made of the arms that are not retired")
        if request.id is UNSET:
            made, digest = self._new_id(), None
        else:
            made, digest = request.id, digest_of(request)
        tags = None if request.tags is UNSET else request.tags
        if made_elsewhere:
            return Asked(made, digest, mask, contexts, tags, odd)
        group = group_of(self.state, request, made, self.now)
        if state.status != "observing":
            return Asked(made, digest, mask, contexts, tags, odd, *group)
        shown, inclusion = shown_by(self.state, request, ~state.retired if mask is None else mask)
        return Asked(made, digest, mask, contexts, tags, odd, shown=shown, inclusion=inclusion)

    def _new_id(self) -> str:
        if not self._spare:
            # The system is asked once for many: that takes longer than all else that a new id needs.
            some = os.urandom(64 * _RANDOM)
            self._spare = [some[place : place + _RANDOM] for place in range(0, len(some), _RANDOM)]
        return new_id(self.now, self._spare.pop())

    def _make(self, asked: Sequence[Asked]) -> dict[str, bytes]:
        """Let the policy decide, unless the control does, and return the answers."""
        if self.state.status == "observing":
            return {one.id: self._observed(one) for one in asked}
        trial = self.state.trial
        if trial is not None and trial.control is not None and trial.control.learn is True:
            # What the control shows is a decision of the policy, too, and has its number in turn.
            runs = [list(run) for _, run in groupby(asked, lambda one: bool(one.control))]
        else:
            runs = [list(asked)]
        answers: dict[str, bytes] = {}
        for run in runs:
            made = self._decisions([one for one in run if not one.control])
            answers |= {one.id: self._controlled(one) if one.control else self._decided(one, next(made)) for one in run}
        return answers

    def _observed(self, one: Asked) -> bytes:
        """Let the policy adopt what another system shows, and answer with what it would have shown."""
        state, watch = self.state, self.state.watch
        assert watch is not None
        assert one.shown is not None
        state.tick(self.now)
        would = watch.would_show(state.policy, ~state.retired if one.mask is None else one.mask, one.contexts)
        decision = self._recorded(one.shown, one.mask, one.contexts)
        chances = None if one.inclusion is None else [one.inclusion.get(state.names[arm], 0.0) for arm in would]
        return self._decided(one, decision, (would, chances))

    def _recorded(self, names: Sequence[str], mask: Any, contexts: Any = None) -> Decision:
        """Let the policy adopt a decision that was made elsewhere."""
        given: dict[str, Any] = {} if mask is None else {"eligible": mask}
        if contexts is not None:
            given["contexts"] = contexts
        return self.state.policy.record(self.state.recordable(arms_of(self.state, names)), **given)

    def _decisions(self, asked: Sequence[Asked]) -> Iterator[Decision]:
        """Yield the decisions of the policy; runs of plain requests take one call."""
        start = 0
        while start < len(asked):
            stop = start + 1
            if asked[start].plain:
                while stop < len(asked) and asked[stop].plain:
                    stop += 1
            yield from self._ask(asked[start:stop])
            start = stop

    def _ask(self, asked: Sequence[Asked]) -> Sequence[Decision]:
        policy, first = self.state.policy, asked[0]
        self.state.tick(self.now)
        if first.plain:
            return [policy.ask()] if len(asked) == 1 else policy.ask_many(len(asked))
        given: dict[str, Any] = {} if first.mask is None else {"eligible": first.mask}
        if first.contexts is not None:
            return [policy.ask(first.contexts, **given)]
        return [policy.ask(**given)]

    def _decided(
        self,
        one: Asked,
        decision: Decision,
        watched: tuple[list[int], list[float] | None] | None = None,
        own: bool = True,
    ) -> bytes:
        """Note a decision of the policy, of another system or of the control, and return the answer."""
        state = self.state
        arms, order = decision.arms.tolist(), None
        if state.recipe.ordered:
            arms = order = decision.ranked_arms.tolist() if one.shown is None else arms_of(state, one.shown)
        opened = state.opened(one.id, decision, self.now, one.control, one.unit, watched, order)
        names = [state.names[arm] for arm in arms]
        alike = tuple(arms) == opened.show
        show = names if alike else [state.names[arm] for arm in opened.show]
        ranked = one.shown or [str(name) for name in decision.ranked]
        known = UNKNOWN if decision.proposal is None else self._propensity(decision)
        proposal = None if decision.proposal is None else decision.proposal.tolist()
        if own and state.recipe.create.positions is not UNSET:
            proposal = arms  # the policy's own coin has put them into this order
        if one.inclusion is not None:
            chances = [one.inclusion[name] for name in names]
            known = Propensity("given", inclusion=chances, observation=chances if alike else UNSET)
        would, would_chances = (None, None) if watched is None else watched
        tried = one.control is not None and state.recipe.create.control is not UNSET
        head, group = state.head, ("control" if one.control else "policy") if tried else UNSET
        answer = Answer(one.id, head + 1, decision.number, names, show, known, head, self._deadline, ranked, group)  # type: ignore[arg-type]
        if would is not None:
            answer.would_show = [state.names[arm] for arm in would]
        sent = encode(answer)
        body = Decided(
            arms,
            None if alike else list(opened.show),
            sent,
            one.request,
            None if one.mask is None else bits(one.mask),
            None if one.contexts is None else state.packed(one.contexts, arms),
            one.tags,
            proposal,
            one.control,
            one.unit,
            would,
            would_chances,
        )
        self._decision_made(one, decision.number, body)
        return sent

    def _controlled(self, one: Asked) -> bytes:
        """Answer with what the control shows, of which the policy learns nothing unless it is to."""
        state, items = self.state, one.incumbent
        arms = [state.index[name] for name in items or () if name in state.index]
        show = arms if items is not None and len(arms) == len(items) else []
        if items and show and state.is_learnable(show, one.mask):
            self.counts["controls"] += 1
            state.tick(self.now)
            decision = self._recorded(items, one.mask, one.contexts)
            return self._decided(one._replace(shown=items), decision, own=False)
        state.opened_control(one.id, show, one.unit, self.now)
        names = [state.names[arm] for arm in show]
        head = state.head
        answer = Answer(one.id, head + 1, None, items, names, UNKNOWN, head, self._deadline, items or [], "control")
        sent = encode(answer)
        self._decision_made(one, None, Decided([], show, sent, one.request, tags=one.tags, control=True, unit=one.unit))
        self.counts["controls"] += 1
        return sent

    def _decision_made(self, one: Asked, number: int | None, body: Decided) -> None:
        self._log(self.state.next_event(log.DECISION, one.id, 0, number, self.now, body))
        self.counts["decisions"] += 1
        if one.odd:
            self.counts.update(one.odd)
        if one.request is not None:
            self._adopt(one.id)

    def _propensity(self, decision: Decision) -> Propensity:
        """Return the probabilities of a decision with a logging floor."""
        assert decision.proposal is not None
        assert decision.inclusion is not None
        assert decision.observation is not None
        proposal = [self.state.names[arm] for arm in decision.proposal.tolist()]
        inclusion, observation = decision.inclusion, decision.observation
        if self.state.recipe.ordered:
            places = np.searchsorted(decision.arms, decision.ranked_arms)
            inclusion, observation = inclusion[places], observation[places]
        return Propensity("floor", decision.floor, proposal, inclusion.tolist(), observation.tolist())

    def adopt(self, request: Decide, names: Sequence[str], rewards: Reward) -> Reply | None:
        """Take over a decision that was made elsewhere, with its rewards; None if its id is there already.

        Nothing has changed if it is refused.
        """
        if any(event.kind == log.DECISION for event in self.history(str(request.id)).events):
            return None
        asked, state = self._checked(request, self.state.held, made_elsewhere=True), self.state
        mask = None if asked.mask is None or (asked.mask == ~state.retired).all() else asked.mask
        arms = arms_of(self.state, names)
        values_of(self.state, rewards, arms, control=False)
        try:
            state.tick(self.now)
            decision = self._recorded(names, mask)
        except ValueError as error:
            raise Refused("invalid", said(error)) from None
        self._decided(
            asked._replace(mask=mask, shown=list(names) if state.recipe.ordered else None), decision, own=False
        )
        return self._reward(rewards)

    def _adopt(self, key: str) -> None:
        """Apply rewards that came before their decision, as far as they fit it."""
        held = [unpack_stray(one) for one in self.history(key).strays if one.fate == "orphan"]
        fitting = [self._adopt_one(self._as_request(key, one)) for one in held]
        # A request that was the last did not know of the others, so that the end comes after all of them.
        ends = [one for one, fits in zip(held, fitting, strict=True) if fits and (one.hits or one.last)]
        if any(one.hits for one in ends):
            self._adopt_one(Reward(decision=key, hits=[]))
        elif ends:
            self._adopt_one(Reward(decision=key, rewards={}, last=True))
        if held and all(fitting):  # else it stays what it is, and is forgotten when its day is over
            self.adopted.append(key)

    def _as_request(self, key: str, held: StrayBody) -> Reward:
        """Return the request by which rewards came that are held."""
        rewards, extra = dict(held.rewards), {}
        if self.state.trial is not None:
            extra = {name: rewards.pop(name) for name in self.state.trial.labels if name in rewards}
        total = extra.pop("total", UNSET)
        metrics = {name.removeprefix("metrics."): value for name, value in extra.items()}
        if self.state.recipe.cascade and rewards:
            clicked = next(name for name, value in rewards.items() if value)
            return Reward(decision=key, first=clicked, id=held.reward or UNSET, metrics=metrics or UNSET)
        return Reward(
            decision=key,
            rewards=rewards if rewards or not (metrics or total is not UNSET) else UNSET,
            id=held.reward or UNSET,
            total=total,
            metrics=metrics or UNSET,
        )

    def _adopt_one(self, request: Reward) -> bool:
        """Apply a reward that came early; return False if it does not fit its decision."""
        one = self.state.open.get(request.decision)
        if one is None:
            return True  # all that the decision waits for has come
        try:
            fates, rewarded = self._fates(request, one)
        except Refused:
            return False
        if rewarded is not None:
            self._apply(request.decision, one, rewarded)
        self.counts.update("adopted" for fate in fates.values() if fate == "applied")
        return True

    def reward(self, request: Reward) -> Reply | Refused:
        """Apply rewards, each of which ends as one of six fates; refuse all of a request, or nothing."""
        try:
            return self._reward(request)
        except Refused as refused:
            fates = refused.fates if refused.fates is not None else self._all_of(request, "rejected")
            self.counts.update(fates.values())
            return refused

    def reward_batch(self, requests: Sequence[Reward | Refused]) -> Reply:
        """Apply rewards of several decisions, one by one; what could not be read was refused before."""
        results = []
        for request in requests:
            if isinstance(request, Refused):
                self.counts["rejected"] += 1
                reply: Reply | Refused = request
            else:
                reply = self.reward(request)
            results.append(reply.body() if isinstance(reply, Refused) else reply.body)
        return Reply(200, b'{"results":[' + b",".join(results) + b"]}")

    @staticmethod
    def _all_of(request: Reward, fate: str) -> dict[str, str]:
        given = request.rewards if request.rewards is not UNSET else request.hits
        metrics = () if request.metrics is UNSET else request.metrics
        names = [*(() if given is UNSET else given), *(f"metrics.{name}" for name in metrics)]
        names += [request.first] if isinstance(request.first, str) else []
        return dict.fromkeys([*names, *(() if request.total is UNSET else ("total",))], fate)

    def _reward(self, request: Reward) -> Reply:
        ways = [name for name in ("rewards", "hits", "total", "first") if getattr(request, name) is not UNSET]
        if len(ways) > 1 or not (ways or request.metrics is not UNSET):
            what = "first" if self.state.recipe.cascade else "rewards or hits"
            what = what if self.state.trial is None else "rewards, hits, total, first or metrics alone"
            raise Refused("invalid", f"give either {what}, got {' and '.join(ways) or 'none'}")
        if request.hits is not UNSET and request.last is False:
            # Hits that others may follow say nothing of the arms that they leave out.
            request = replace(request, hits=UNSET, rewards=dict.fromkeys(request.hits, 1.0))
        if self.state.status == "archived":
            raise Refused("archived")
        one = self.state.open.get(request.decision)
        if one is None:
            return self._late_or_orphan(request)
        fates, rewarded = self._fates(request, one)
        if rewarded is not None:
            self._apply(request.decision, one, rewarded)
        self.counts.update(fates.values())
        still = self.state.open.get(request.decision)
        awaited = [] if still is None else [self.state.names[arm] for arm in still.show if arm not in still.told]
        if still is not None and not still.show:
            awaited = ["total"]
        return Reply(200, encode(Fates(request.decision, fates, awaited, self.state.head)))  # type: ignore[arg-type]

    def _fates(self, request: Reward, one: Open) -> tuple[dict[str, str], Rewarded | None]:
        """Return what becomes of rewards of an open decision, and what is applied."""
        state = self.state
        values = values_of(self.state, request, one.show, control=state.is_apart(request.decision))
        reward = "" if request.id is UNSET else request.id
        hits, fates = request.hits is not UNSET, dict[str, str]()
        last = hits or request.last is True or request.first is not UNSET
        for arm, value in values.items():
            known = one.told.get(arm)
            told = one.gathered.get(arm, {}) if known is None else {known[0]: known[1]}
            before = self._before(told, reward, value, filled=hits and not value and arm >= 0)
            fates[state.labels[arm]] = "applied" if before is None else "duplicate" if before == value else "conflict"
        _refuse_conflict(fates)
        fresh = [(arm, value) for arm, value in values.items() if fates[state.labels[arm]] == "applied"]
        if not fresh and not last:
            return fates, None
        fresh.sort()
        return fates, Rewarded([arm for arm, _ in fresh], [value for _, value in fresh], reward, last, hits)

    def _apply(self, key: str, one: Open, rewarded: Rewarded) -> None:
        """Learn rewards, and count the decision of which they are the first."""
        self.counts["heard"] += not (one.told or one.gathered)
        self._log(self.state.happen(log.REWARD, rewarded, self.now, key))

    def _late_or_orphan(self, request: Reward) -> Reply:
        """Store rewards of a decision that is closed or unknown, without learning from them."""
        state, past = self.state, self._past(request.decision)
        decided = past.decided
        reward, hits = "" if request.id is UNSET else request.id, request.hits is not UNSET
        if decided is not None:
            show = decided.arms if decided.show is None else decided.show
            values = values_of(self.state, request, show, control=past.apart)
        else:
            named = request.hits if request.hits is not UNSET else request.rewards
            named = [request.first] if isinstance(request.first, str) else named
            values = values_of(state, request, arms_of(state, [] if named is UNSET else list(named)), control=None)
            if not values:
                raise Refused("unknown_decision", fates={})
        given = {state.labels[arm]: value for arm, value in values.items()}
        fate = "orphan" if decided is None else "late"
        fates = {}
        for name, value in given.items():
            filled = hits and not value and name in state.index
            before = self._before_closed(past, name, reward, value, filled=filled)
            fates[name] = fate if before is None else "duplicate" if before == value else "conflict"
        _refuse_conflict(fates)
        fresh = {name: value for name, value in given.items() if fates[name] == fate}
        if fresh:
            self._keep(request.decision, past, fate, StrayBody(fresh, reward, request.last is True, hits))
        if decided is None:
            raise Refused("orphan", fates=fates)
        self.counts.update(fates.values())
        return Reply(200, encode(Fates(request.decision, fates, [], state.head)))  # type: ignore[arg-type]

    def _past(self, key: str) -> Past:
        """Return the past of a decision that is closed or unknown."""
        if key not in self._pasts:
            self._pasts[key] = Past(self.state, self.history(key))
        return self._pasts[key]

    def _keep(self, key: str, past: Past, fate: str, body: StrayBody) -> None:
        """Store rewards that are not learnt, if there is room for them."""
        if past.strays >= MOST_STRAYS:
            raise Refused("too_many_rewards")
        stray = Stray(key, past.next_turn, self.now, fate, log.pack(body))
        if fate == "orphan":
            if stray.size > self.room:
                raise Refused("unknown_decision", "There is no such decision, and no room to hold more rewards for it.")
            self.room -= stray.size
        past.next_turn += 1
        past.note(body)
        self.strays.append(stray)
        self.own.setdefault(key, History([], [])).strays.append(stray)

    def _before(self, told: Mapping[str, float], reward: str, value: float, *, filled: bool) -> float | None:
        """Return what an arm's reward with this id was before, if there was one.

        A 0 that `hits` fill in contradicts nothing, unless the client has given its request the id of another.
        """
        if filled and told:
            return told.get(reward, value) if reward else value
        if told and self.state.rule == "first":
            return told.get(reward, value)
        return told.get(reward)

    def _before_closed(self, past: Past, name: str, reward: str, value: float, *, filled: bool) -> float | None:
        """Return the same for a decision that is closed or unknown, of which all is in the past."""
        before = self._before(past.told.get(name, {}), reward, value, filled=filled)
        if before is None:
            stored = past.stored.get((name, reward))
            before = value if stored is not None and filled and not reward else stored
        if before is None and name in past.filled:
            # What hits left out counts as 0 for learning, and as unknown for rewards that are told later.
            before = 0.0 if not value or (reward and reward in past.filled[name]) else None
        return before

    def change_arms(self, change: ArmsChange, by: str = "") -> Reply | Refused:
        """Add, retire and restore arms, all or nothing."""
        state = self.state
        added = [Arm(id=one) if isinstance(one, str) else one for one in change.add]
        names = [one.id for one in added]
        try:
            if state.status == "archived":
                raise Refused("archived")
            if len({*names, *state.names}) < len(names) + len(state.names):
                there = some_of(repeated([*state.names, *names]))
                raise Refused("invalid", f"add must have new arms, each once, got {there}")
            state.recipe.check_names(names)
            if names and state.policy.decisions is not None:
                raise Refused("invalid", "add must be left out: a policy over a set of decisions takes no new arms")
            if names and state.contextual:
                raise Refused("invalid", "add must be left out: a policy with contexts takes no new arms")
            if (names or change.retire) and state.refuses_choice:
                raise Refused("invalid", state.refuses_choice)
            if names and state.recipe.create.feedback.kind != "semi_bandit":
                kind = state.recipe.create.feedback.kind
                raise Refused("invalid", f"add must be left out unless feedback is semi_bandit; here it is {kind}")
            retire, restore = arms_of(self.state, change.retire), arms_of(self.state, change.restore)
            for what, arms in (("retire", retire), ("restore", restore)):
                if len(set(arms)) < len(arms):
                    twice = some_of(repeated(state.names[arm] for arm in arms))
                    raise Refused("invalid", f"{what} must have each arm once, got {twice} twice")
            if any(name not in state.index and name not in names for name in change.meta):
                raise unknown(state, [name for name in change.meta if name not in names])
            if both := set(retire) & set(restore):
                twice = some_of(state.names[arm] for arm in sorted(both))
                raise Refused("invalid", f"retire and restore must have no arm in common, got {twice} in both")
            for what, arms, gone in (("retire", retire, True), ("restore", restore, False)):
                if wrong := [state.names[arm] for arm in arms if state.retired[arm] == gone]:
                    wanted = "not retired" if gone else "retired"
                    raise Refused("invalid", f"{what} must have arms that are {wanted}, got {some_of(wrong)}")
            left = ~state.retired
            left[restore], left[retire] = True, False
            if not names and not state.can_decide(left):
                what = "one arm or more" if state.policy.decisions is None else "one decision of the set or more"
                raise Refused("invalid", f"retire must leave {what}, got {some_of(change.retire)}")
        except Refused as refused:
            return refused
        meta = {one.id: dict(one.meta) for one in added if one.meta} | {
            name: dict(of) for name, of in change.meta.items()
        }
        body = ArmsChanged(names, change.retire, change.restore, meta, by)
        if names or retire or restore or meta:
            self._log(state.happen(log.ARMS, body, self.now))
        return Reply(200, encode({"arms": len(state.names), "retired": int(state.retired.sum()), "seq": state.head}))

    def change(self, wanted: Status, by: str = "") -> Reply | Refused:
        """Pause, resume or archive the policy, and change its control group, all or nothing; archived it stays so."""
        state = self.state
        trial, status = state.trial, wanted.status
        if state.status == "archived" and (status != "archived" or wanted.control is not UNSET):
            return Refused("archived")
        control = None
        if wanted.control is not UNSET or wanted.window is not UNSET:
            if trial is None or trial.control is None:
                return Refused("invalid", "control and window must be left out: the policy has no control group")
            if wanted.control is not UNSET:
                control = trial.changed(wanted.control)
            try:
                if control is not None:
                    Trial.of(replace(state.recipe.create, control=control), state.policy.budget)
            except Refused as refused:
                return refused
            if control is not None and wanted.window is UNSET:
                return Refused("window_missing")
            control = control or (None if wanted.window is UNSET else trial.control)
        elif status is UNSET:
            return Refused("invalid", "give status, control or window, or some of them")
        if status == "observing" and (state.watch is None or state.watch.switch is not None):
            return Refused("invalid", "status must not be observing: the policy decides already")
        if status is not UNSET and status != state.shown_status:
            self._log(state.happen(log.LIFE, Lived(status, by), self.now))
        if control is not None:
            self._start_window(control, by)
        return Reply(200, encode({"status": state.shown_status, "seq": state.head}))

    def raise_alarms(self) -> None:
        """Note alarms that have gone off: what they change is the same on every server from this event on."""
        for kind, what in self.state.news():
            self._log(self.state.happen(log.ALARM, Alarmed(kind, what), self.now))

    def take_over(self) -> None:
        """End observing, if the policy's rule says so: into a trial, where the rule has a share of the control."""
        state, watch = self.state, self.state.watch
        if watch is None or state.status != "observing" or not watch.is_due(state.policy):
            return
        assert watch.takeover is not None
        self._log(state.happen(log.LIFE, Lived("running", rule=watch.takeover.by), self.now))
        if watch.takeover.control is not UNSET:
            assert state.trial is not None
            assert state.trial.control is not None
            self._start_window(replace(state.trial.control, share=watch.takeover.control))

    def _start_window(self, control: Control, by: str = "") -> None:
        """Let the lift count from now on, perhaps of another control group."""
        most = None if control.most is UNSET else control.most
        body = Windowed(control.share, control.by, control.period, most, by)
        self._log(self.state.happen(log.WINDOW, body, self.now))

    def expire(self, most: int) -> None:
        """Close the decisions whose time has passed, the oldest of them if there are many."""
        due = self.state.due(self.now, most)
        if due is not None:
            were = len(self.state.open)
            self._log(self.state.happen(log.EXPIRE, due, self.now))
            self.counts["expired"] += were - len(self.state.open)


def new_id(now: int, random: bytes) -> str:
    """Return a new id of a decision; later ones come later in the order of ids, so that an index grows at its end."""
    return f"{now:014x}{random.hex()}"


def _refuse_conflict(fates: Mapping[str, str]) -> None:
    """Refuse a request of which a part contradicts an earlier one; then nothing of it is applied."""
    if "conflict" in fates.values():
        kept = {name: fate if fate in ("conflict", "duplicate") else "rejected" for name, fate in fates.items()}
        arms = some_of(name for name, fate in fates.items() if fate == "conflict")
        text = f"The reward of {arms} has another value under this id; nothing was changed."
        raise Refused("conflict", text, fates=kept)


def _taken(key: str) -> Refused:
    return Refused("id_taken", f"The id {quoted(key)} belongs to a decision that was asked for with another body.")
