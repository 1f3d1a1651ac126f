"""How what is known came about: points between decisions, kept by snapshots, and made again by the log."""

from __future__ import annotations

import json

from armtriage import GuardedThompson
from armtriage.service import timeline
from armtriage.service.loop import load
from armtriage.service.state import PolicyState
from armtriage.service.timeline import MOST, Timeline
from service.calls import run, served


def test_a_timeline_has_a_few_hundred_points_whatever_the_history():
    class Ancient:
        asked = 0
        reward_range = (0.0, 1.0)
        tally = GuardedThompson(8, 3, seed=7).tally

        def glance(self):
            return self

        regret_bound, estimate, triage = 5.0, 1.0, ([1], [2, 3], [4])

        @property
        def rounds(self):
            return self.asked

    policy, past = Ancient(), Timeline()
    while policy.asked < 10**12:
        policy.asked = max(past.next, policy.asked + 1)
        past.note(policy, at=policy.asked)  # type: ignore[arg-type]
        if policy.asked > 10**4:
            policy.asked = int(policy.asked * 1.01)
    numbers = [point.decisions for point in past.points]
    assert 50 < len(numbers) <= MOST
    assert numbers == sorted(numbers)
    assert past.points[-1].decisions > 10**11
    again = Timeline(*json.loads(json.dumps(past.to_row())))
    assert again.points == past.points


def test_a_timeline_is_kept_by_snapshots_and_made_again_by_the_log(sqlite_address):
    async def work():
        async with served(sqlite_address) as call:
            await call.make()
            for _ in range(30):
                made = await call.decide()
                await call.reward(made["id"], dict.fromkeys(made["arms"], 0.5))
            loop = call.service.loop("slate")
            points = [point.decisions for point in loop.state.timeline.points]
            assert points == [1, 6, 11, 16, 21, 26]
            copy = PolicyState.from_bytes(loop.recipe, loop.state.to_bytes())
            assert [point.decisions for point in copy.timeline.points] == points
            assert copy.digest() == loop.state.digest()
            replayed = await load(loop.store, loop.row, snapshots=False)
            assert [point.decisions for point in replayed.timeline.points] == points

    run(work)


def test_no_certificate_is_computed_while_a_decision_waits(sqlite_address, monkeypatch):
    async def work():
        async with served(sqlite_address) as call:
            await call.make()
            computed, whole = [], timeline.certificate_if_any
            monkeypatch.setattr(timeline, "certificate_if_any", lambda one: computed.append(one.asked) or whole(one))
            before = [(await call.decide(), len(computed))[1] for _ in range(12)]
            assert before == [0, *[1] * 5, *[2] * 5, 3]  # the answers of decisions 1, 6 and 11 came first
            assert computed == [1, 6, 11]

    run(work)
