"""Evidence: what is told and what is settled, arms that come and begin again, and what a file may say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from armtriage import CombUCB1, DamagedFile, Policy, ThompsonSampling
from armtriage._files import pack_archive, unpack_archive
from armtriage.policies.evidence import grown, new_evidence, part, record, settle, start_again, tally_of

ARMS, STREAM = np.array([1, 3]), np.array([7], np.uint64)


def test_told_and_settled_are_the_same_numbers_until_a_reward_comes_early() -> None:
    evidence, rewards = new_evidence(5), np.array([1.0, 0.25])
    record(evidence, STREAM, 3, ARMS, rewards)
    settle(evidence, ARMS, rewards)
    assert np.shares_memory(tally_of(evidence).sums, evidence.sums)
    part(evidence)
    record(evidence, STREAM, 3, ARMS[:1], rewards[:1])
    assert evidence.counts[:5].tolist() == [0, 2, 0, 1, 0]
    assert tally_of(evidence).counts.tolist() == [0, 1, 0, 1, 0]
    settle(evidence, ARMS[:1], rewards[:1])
    assert tally_of(evidence).counts.tolist() == [0, 2, 0, 1, 0]
    assert tally_of(evidence).between.tolist() == [0.0, 0.0, 0.0, 0.1875, 0.0]


def test_coins_are_columns_of_their_own_only_where_they_are_thrown() -> None:
    exact, coins = new_evidence(5), new_evidence(5, coin=True)
    for one in (exact, coins, grown(coins, 100), grown(exact, 100)):
        record(one, STREAM, 3, ARMS, np.array([0.5, 1.0]))
        assert (one.wins is one.sums) == (not one.coin)
        assert one.sums[:5].tolist() == [0.0, 0.5, 0.0, 1.0, 0.0]
    assert coins.wins[1] in (0.0, 1.0)
    assert coins.doubts[1] == 0.0


@pytest.mark.parametrize("room", [8, 64])
def test_an_arm_that_comes_later_was_no_candidate_before(room: int) -> None:
    evidence = new_evidence(5, room=room)
    evidence.rounds, evidence.pulls[2] = 7, 3
    evidence = grown(evidence, 12)
    assert (evidence.exposures + evidence.rounds)[:12].tolist() == [7] * 5 + [0] * 7
    assert evidence.pulls[2] == 3
    start_again(evidence, [2])
    assert (evidence.exposures[2] + evidence.rounds, evidence.pulls[2]) == (0, 0)


def used() -> Any:
    policy = CombUCB1(12, 3, seed=7)
    for number in range(30):
        decision = policy.ask(eligible=range(number % 4, 12))
        policy.tell(decision, {int(decision.arms[0]): 0.5}, last=False)
        policy.close(decision, default=0.0)
    policy.tell(policy.ask(), {}, last=False)
    return policy


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("counts", -1, "counts"),
        ("counts", 30, "told"),
        ("sums", 99.0, "sums"),
        ("between", 9.0, "between"),
        ("pulls", 10**6, "pulls"),
        ("exposures", 10**6, "exposures"),
        ("missed", -1, "missed"),
        ("credit", -1, "credit"),
        ("rounds", 99, "rounds"),
        ("settled_counts", 10**6, "settled_counts"),
        ("settled_sums", np.nan, "settled_sums"),
    ],
)
def test_evidence_that_cannot_be_is_refused(name: str, value: float, said: str) -> None:
    header, arrays = unpack_archive("content", used().to_bytes())
    forged = {key: array.copy() for key, array in arrays.items()}
    forged[f"evidence.{name}"][0] = value
    with pytest.raises(DamagedFile, match=said):
        Policy.from_bytes(pack_archive(header, forged))


def test_a_file_has_the_evidence_and_nothing_that_follows_from_it() -> None:
    _, arrays = unpack_archive("content", used().to_bytes())
    assert not [name for name in arrays if name.startswith(("tally.", "rows.", "state."))]
    plain = unpack_archive("content", ThompsonSampling(4, 2, seed=7).to_bytes())[1]
    assert sorted(name for name in plain if name.startswith("evidence.")) == [
        "evidence.between",
        "evidence.counts",
        "evidence.credit",
        "evidence.exposures",
        "evidence.missed",
        "evidence.pulls",
        "evidence.rounds",
        "evidence.sums",
    ]
