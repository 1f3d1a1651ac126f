"""What is known of policies that are served: shared by all who ask, and for a share of the time at most."""

from __future__ import annotations

import time

from armtriage.service import viewer
from armtriage.service.dashboard.site import Site
from service.calls import run, served


def test_arms_have_a_status(sqlite_address):
    async def work():
        async with served(sqlite_address) as call:
            feedback = {"kind": "full_information"}
            await call.make(arms=["tea", "milk", "jam", "rice"], budget=1, feedback=feedback)
            for _ in range(60):
                made = await call.decide()
                await call.reward(made["id"], {name: float(name == "tea") for name in made["show"]})
            await call.patch("/v1/policies/slate/arms", json={"retire": ["rice"]})
            arms = {one["id"]: one for one in (await call.get("/v1/policies/slate/arms")).json()["arms"]}
            assert arms["tea"]["status"] == "confirmed"
            assert {arms[name]["status"] for name in ("milk", "jam")} == {"eliminated"}
            assert arms["rice"]["status"] is None

    run(work)


def test_looks_take_a_share_of_the_time_at_most(sqlite_address, monkeypatch):
    async def work():
        async with served(sqlite_address) as call:
            await call.make()
            loop, facts = call.service.loop("slate"), Site(call.service).facts
            looked = []
            whole = viewer._timed_view

            def slow(state):
                looked.append(time.monotonic())
                return whole(state)[0], 60.0  # as if it had taken a minute

            monkeypatch.setattr(viewer, "_timed_view", slow)
            began = time.monotonic()
            first = await facts.view(loop)
            loop.seen = began - 5.0, first
            assert await facts.view(loop) is first  # old, and there is no time for another
            assert len(looked) == 1
            call.service.viewer._free_at = 0.0
            assert await facts.view(loop) is not first
            assert call.service.viewer._free_at >= began + 300.0

    run(work)
