"""Viewer: the views of running policies, shared by all who ask for them."""

from __future__ import annotations

import time

from armtriage.service.loop import Loop
from armtriage.service.refusal import Refused
from armtriage.service.state import PolicyState
from armtriage.service.view import PolicyView, look

_FRESH = 1.0  # seconds for which a view is good
MOST_ALARMS = 100
"""Alarms that a view has: the latest."""


class Viewer:
    """Looks at states; however many ask, each is looked at once a second at most."""

    def __init__(self) -> None:
        self._free_at = 0.0  # when the next look is within the share of those that have one

    async def view(self, loop: Loop, share: float | None = None) -> PolicyView | None:
        """Return the view of a policy, or the last one while its state is not there; None if there never was one.

        It is at most a second old, or with `share` older where all looks together would take more of the time.
        """
        now, known = time.monotonic(), loop.seen
        if known is not None:
            when, view = known
            is_fresh = now - when < _FRESH
            if share is None:
                is_fresh = is_fresh and view.head > 0  # a program that has written the first event looks at once
            if is_fresh or (share is not None and now < self._free_at):
                return view
        try:
            if loop.problem:
                raise Refused("starting")
            found: tuple[PolicyView, float] = await loop.look(_timed_view)
        except Refused:
            return None if known is None else known[1]
        (view, cost), done = found, time.monotonic()
        if share is not None:
            # Cheap looks at many policies count as dear ones at one, with a second's worth in advance.
            self._free_at = max(self._free_at, done - _FRESH) + cost / share
        loop.seen = done, view
        return view


def view_of(state: PolicyState) -> PolicyView:
    """Return the view of a policy that is served."""
    oldest = state.oldest()
    return look(
        state.policy,
        state.timeline,
        head=state.head,
        status=state.shown_status,
        open=len(state.open),
        oldest=None if oldest is None else oldest.at,
        trial=None if state.trial is None else state.trial.view(),
        watch=None if state.watch is None else state.watch.view(state.policy, state.contextual),
        alarms=state.alarms[-MOST_ALARMS:],
    )


def _timed_view(state: PolicyState) -> tuple[PolicyView, float]:
    began = time.thread_time()
    return view_of(state), time.thread_time() - began
