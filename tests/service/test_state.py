"""A log gives one state, however often somebody looked at it on the way."""

from __future__ import annotations

import zlib

import pytest

pytest.importorskip("msgspec")

from armtriage.service import events as log
from armtriage.service.events import ArmsChanged, Decided, Event, Expired, Rewarded
from armtriage.service.messages import Create, read
from armtriage.service.recipe import Recipe
from armtriage.service.state import PolicyState


@pytest.mark.parametrize("kind", ["guarded_thompson", "thompson", "elimination"])
def test_a_replay_learns_rewards_of_decisions_that_are_older_than_an_arm(kind: str) -> None:
    recipe = Recipe(Create(name="slate", arms=["tea", "milk", "jam"], budget=1, seed=7, policy={"kind": kind}))
    live, replayed = PolicyState(recipe), PolicyState(recipe)
    arms = [live.recipe.make().ask().arms.tolist() for _ in range(2)]
    bodies = [
        (log.DECISION, "a", 0, 0, Decided(arms[0], None, b"")),
        (log.DECISION, "b", 0, 1, Decided(arms[1], None, b"")),
        (log.ARMS, "", 3, None, ArmsChanged(["egg"], [], [], {})),
        (log.REWARD, "a", 1, 0, Rewarded(arms[0], [1.0], "", True)),
        (log.EXPIRE, "", 5, 2, Expired(2)),
    ]
    for seq, (what, key, turn, number, body) in enumerate(bodies, 1):
        event = Event(seq, what, key, turn, number, seq, log.pack(body))
        live.apply(event)
        assert live.policy.unsound() == ""
        replayed.apply(event)
    assert replayed.digest() == live.digest()
    assert PolicyState.from_bytes(recipe, replayed.to_bytes()).digest() == live.digest()
    assert replayed.policy.tally.counts.sum() == 1


def test_a_log_of_before_may_have_retired_all_decisions_of_a_set() -> None:
    decisions = b'{"kind": "explicit", "decisions": [[0, 1], [2, 3]]}'
    create = b'{"name": "set", "arms": ["a", "b", "c", "d"], "seed": 7, "decisions": ' + decisions + b"}"
    state = PolicyState(Recipe(read(Create, create)))
    for seq, body in enumerate((ArmsChanged([], ["a", "c"], [], {}), ArmsChanged([], [], ["a"], {})), 1):
        state.apply(Event(seq, log.ARMS, "", seq, None, seq, log.pack(body)))
        assert state.retired.tolist() == [seq == 1, False, True, False]
    assert state.policy.ask().names == ("a", "b")


def test_a_snapshot_is_compressed_and_those_of_before_are_read() -> None:
    recipe = Recipe(Create(name="slate", arms=["tea", "milk", "jam"], budget=1, seed=7))
    state = PolicyState(recipe)
    for number in range(100):
        state.opened(f"visit-{number}", state.policy.ask(), at=0)
    saved = state.to_bytes()
    plain = zlib.decompress(saved)
    assert len(saved) < len(plain) / 2
    for payload in (saved, plain):
        assert PolicyState.from_bytes(recipe, payload).digest() == state.digest()
    with pytest.raises(ValueError, match="a snapshot is damaged"):
        PolicyState.from_bytes(recipe, saved[: len(saved) // 2])
