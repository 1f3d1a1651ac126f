"""Any sequence of asks among eligible arms, parts, closes, additions, retirements and saves agrees with a slow model.

The model keeps, for each arm, what was told of decisions that are closed, how often it was pulled and eligible, and,
for each open decision, what has been told of it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from armtriage import (
    AlreadyTold,
    CombinatorialElimination,
    CombUCB1,
    FeedbackGraph,
    Guard,
    GuardedThompson,
    Policy,
    ThompsonSampling,
    UnknownArm,
)

pytestmark = pytest.mark.thorough

LUCK = st.integers(0, 2**32 - 1)
KINDS: dict[str, Any] = {
    "thompson": lambda graph: ThompsonSampling(graph, 2, names=names(5), seed=7),
    "ucb": lambda graph: CombUCB1(graph, 2, names=names(5), seed=7),
    "elimination": lambda graph: CombinatorialElimination(graph, 2, names=names(5), seed=7, delta=0.5),
    "guarded": lambda graph: GuardedThompson(graph, 2, names=names(5), seed=7, delta=0.5),
    "seen": lambda graph: GuardedThompson(graph, 2, names=names(5), seed=7, sleepers_seen=True, mode="shadow"),
    "guard": lambda graph: Guard(ThompsonSampling(graph, 2, names=names(5)), graph, 2, names=names(5), seed=7),
}
GRAPHS = [FeedbackGraph.semi_bandit(5), FeedbackGraph.cliques([2, 3])]


def names(n: int) -> list[Any]:
    return [f"arm {i}" if i % 2 else ("arm", i) for i in range(n)]


class Row:
    """What is known of an arm."""

    def __init__(self, born: int) -> None:
        self.counts = self.pulls = self.exposures = 0
        self.sums, self.retired, self.born = 0.0, False, born


class Changing(RuleBasedStateMachine):
    kind = "thompson"

    @initialize(graph=st.sampled_from(range(len(GRAPHS))))
    def begin(self, graph: int) -> None:
        self.policy = KINDS[self.kind](GRAPHS[graph])
        self.rows = {name: Row(0) for name in names(5)}
        self.open: dict[int, dict[Any, float | None]] = {}  # of each decision what it shows, and what was told of it
        self.complete: set[int] = set()  # decisions of which all was told in parts, that wait for older ones
        self.asked, self.added = 0, 5

    def live(self) -> list[Any]:
        return [name for name, row in self.rows.items() if not row.retired]

    @precondition(lambda self: any(not row.retired for row in self.rows.values()))
    @rule(luck=LUCK, form=st.sampled_from(["all", "names", "mask"]))
    def ask(self, luck: int, form: str) -> None:
        live = self.live()
        rng = np.random.default_rng(luck)
        some = [name for name in live if form == "all" or rng.random() < 0.6] or live
        given: Any = None if form == "all" else some
        if form == "mask":
            given = np.array([name in some for name in self.rows])
        decision = self.policy.ask(eligible=given)
        assert decision.number == self.asked
        assert len(set(decision.names)) == min(2, len(some))
        assert set(decision.names) <= set(some)
        assert sorted(map(str, decision.ranked)) == sorted(map(str, decision.names))
        shown = [self.policy.names[arm] for arm in decision.revealed.tolist()]
        visible = {self.policy.names[b] for a in decision.arms for b in self.policy.graph.revealed_by(int(a))}
        awake = live if self.policy.sleepers_seen else some
        assert set(shown) == visible & set(awake)
        for name in some:
            self.rows[name].exposures += 1
        for name in decision.names:
            self.rows[name].pulls += 1
        self.open[self.asked] = dict.fromkeys(shown)
        self.asked += 1

    def pick(self, place: int) -> int | None:
        """One of the open decisions that the policy still shows."""
        ready = [number for number in self.open if number not in self.complete]
        return ready[place % len(ready)] if ready else None

    def settle(self, number: int, rest: float | None) -> None:
        self.complete.discard(number)
        for name, value in self.open.pop(number).items():
            reward = rest if value is None else value
            if reward is not None and number >= self.rows[name].born:
                self.rows[name].counts += 1
                self.rows[name].sums += reward

    def settle_complete(self) -> None:
        while self.open and next(iter(self.open)) in self.complete:
            self.settle(next(iter(self.open)), None)

    @rule(luck=LUCK, last=st.booleans())
    def tell(self, luck: int, last: bool) -> None:
        number = self.pick(luck)
        if number is None:
            return
        rng, told = np.random.default_rng(luck), self.open[number]
        some = [name for name, value in told.items() if value is None and rng.random() < 0.7]
        new = {name: float(rng.choice([0.0, 0.25, 1.0])) for name in some}
        twice = [name for name, value in told.items() if value is not None and number >= self.rows[name].born]
        if twice:
            with pytest.raises(AlreadyTold):
                self.policy.tell(number, {twice[0]: 1.0}, last=last)
        self.policy.tell(number, new, last=last)
        told.update(new)
        if last:
            self.settle(number, None)
        elif all(value is not None or number < self.rows[name].born for name, value in told.items()):
            self.complete.add(number)
        self.settle_complete()

    @rule(luck=LUCK, rest=st.sampled_from([None, 0.0, 0.5]))
    def close(self, luck: int, rest: float | None) -> None:
        number = self.pick(luck)
        if number is not None:
            self.policy.close(number, default=rest)
            self.settle(number, rest)
            self.settle_complete()

    @rule(share=st.floats(0, 1), rest=st.sampled_from([None, 0.0]))
    def close_old(self, share: float, rest: float | None) -> None:
        limit = int(share * self.asked)
        old = [one for one in self.open if one < limit and one not in self.complete]
        assert self.policy.close_before(limit, default=rest) == len(old)
        for number in old:
            self.settle(number, rest)
        self.settle_complete()

    @precondition(lambda self: self.added < 12)
    @rule(how=st.sampled_from(["alone", "shows", "like"]))
    def add(self, how: str) -> None:
        name, old = names(self.added + 1)[-1], next(iter(self.rows))
        more: dict[str, Any] = {"shows": {"shows": {name: [old]}, "shown_by": {name: [old]}}, "like": {"like": old}}
        assert self.policy.add_arms([name], **more.get(how, {})).tolist() == [self.added]
        self.rows[name] = Row(self.asked)
        self.added += 1

    @precondition(lambda self: self.added < 12 and self.pick(0) is not None)
    @rule(how=st.sampled_from(["alone", "shows", "like"]), luck=LUCK, last=st.booleans(), closing=st.booleans())
    def add_and_tell(self, how: str, luck: int, last: bool, closing: bool) -> None:
        """Nothing is asked or looked at between the new arm and a reward of a decision from before."""
        self.add(how)
        if closing:
            self.close(luck, 0.0)
        else:
            self.tell(luck, last)

    @precondition(lambda self: len(self.live()) > 1)
    @rule(luck=LUCK)
    def retire(self, luck: int) -> None:
        live = self.live()
        name = live[luck % len(live)]
        self.policy.retire_arms([name])
        self.rows[name].retired = True

    @rule(luck=LUCK, forget=st.booleans())
    def restore(self, luck: int, forget: bool) -> None:
        gone = [name for name, row in self.rows.items() if row.retired]
        if gone:
            name = gone[luck % len(gone)]
            self.policy.restore_arms([name], forget=forget)
            self.rows[name].retired = False
            if forget:
                self.rows[name] = Row(self.asked)
                for told in self.open.values():
                    if name in told:
                        told[name] = None

    @rule()
    def refuse(self) -> None:
        before = self.policy.digest()
        with pytest.raises(UnknownArm):
            self.policy.ask(eligible=["nobody"])
        with pytest.raises(ValueError, match="already"):
            self.policy.add_arms([next(iter(self.rows))])
        assert self.policy.digest() == before

    @rule()
    def save(self) -> None:
        loaded = Policy.from_bytes(self.policy.to_bytes())
        assert loaded.digest() == self.policy.digest()
        self.policy = loaded

    @rule()
    def certify(self) -> None:
        certificate = self.policy.certificate()
        assert certificate.rounds == self.asked
        assert certificate.regret_bound >= 0.0
        sets = self.policy.triage
        assert {name for part in sets for name in part.tolist()} == set(self.live())

    @invariant()
    def tally(self) -> None:
        if not hasattr(self, "policy"):
            return
        tally, rows = self.policy.tally, list(self.rows.values())
        assert tally.counts.tolist() == [row.counts for row in rows]
        assert tally.pulls.tolist() == [row.pulls for row in rows]
        np.testing.assert_allclose(tally.sums, [row.sums for row in rows])
        if (exposures := self.policy._exposures) is not None:
            assert exposures.tolist() == [row.exposures for row in rows]
        ready = [number for number in self.open if number not in self.complete]
        assert [one.number for one in self.policy.open_decisions] == ready
        assert self.policy.arms.share.sum() <= 2.0 + 1e-9


def machine(kind: str) -> Any:
    return type(f"Changing_{kind}", (Changing,), {"kind": kind}).TestCase


for one in KINDS:
    case = machine(one)
    case.settings = settings(max_examples=12, stateful_step_count=40)
    globals()[f"Test_{one}"] = case
del case
