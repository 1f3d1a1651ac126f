"""Logs of Vowpal Wabbit: what another system decided becomes part of a log, once."""

import json

import pytest

from armtriage.service.dsjson import adopt_log, read_line
from armtriage.service.refusal import Refused
from armtriage.service.stores import open_store
from armtriage.service.upkeep import check
from service.calls import run, served


def _line(number, arm, cost, among=("tea", "milk", "jam", "bread", "egg"), **more):
    """As the decision service of VW writes it: one action of several."""
    return json.dumps({
        "_label_cost": cost, "_label_probability": 0.8, "_label_Action": among.index(arm) + 1,
        "_labelIndex": among.index(arm), "o": [{"v": -cost, "EventId": f"e{number}", "ActionTaken": False}],
        "Timestamp": "2019-11-12T14:22:37.2290000Z", "Version": "1", "EventId": f"e{number}", "a": [1, 2],
        "c": {"GUser": {"id": "rnc"}, "_multi": [{"TAction": {"topic": name}} for name in among]},
        "p": [0.8, 0.2], "VWState": {"m": "N/A"}, **more,
    })  # fmt: skip


def _slots(number, arms, costs, among=("tea", "milk", "jam", "bread", "egg")):
    outcomes = [
        {"_label_cost": cost, "_id": f"s{number}-{place}", "_a": [among.index(arm)], "_p": [1.0]}
        for place, (arm, cost) in enumerate(zip(arms, costs, strict=True))
    ]
    actions = [{"TAction": {"topic": name}} for name in among]
    return json.dumps({"Timestamp": "2019-09-10T14:43:37Z", "c": {"_multi": actions}, "_outcomes": outcomes})


@pytest.mark.parametrize("budget", [1, 2])
def test_a_log_is_adopted_once_and_goes_on(sqlite_address, budget):
    few = ("tea", "jam", "egg")
    if budget == 1:
        good = [_line(number, "tea", -1.0) for number in range(4)] + [_line(4, "jam", 0.0, few)]
        first, odd = "e0", _line(9, "tea", 7.0)
    else:
        good = [_slots(number, ["tea", "egg"], [-1.0, 0.0]) for number in range(4)]
        good.append(_slots(4, ["jam", "tea"], [0.0, -1.0], few))
        first, odd = "s0-0", _slots(9, ["tea", "jam"], [0.0, 7.0])
    bad = ["", "{", "[]", '{"c": {}}', odd, _line(10, "x", 0.0, ("x", "y"))]

    async def work():
        async with served(sqlite_address) as call:
            await call.make(budget=budget)
        store = open_store(sqlite_address)
        await store.open()
        (row,) = await store.policies()
        found = await adopt_log(store, row, [*good, *bad, good[0]], "TAction.topic")
        assert found["lines"] == {"adopted": 5, "unreadable": 3, "out_of_range": 1, "unknown_arm": 1, "repeated": 1}
        assert found["head"] == 10
        again = await adopt_log(store, row, good, "TAction.topic")
        assert (again["lines"], again["digest"]) == ({"repeated": 5}, found["digest"])
        assert await check(store) == ([], {"slate": {"head": 10, "digest": found["digest"]}})
        await store.close()
        async with served(sqlite_address) as call:
            assert (await call.digest())["digest"] == found["digest"]
            seen = (await call.get(f"/v1/policies/slate/decisions/{first}")).json()
            assert (seen["status"], seen["tags"]["imported"][:4], seen["rewards"]["tea"]) == (
                "closed",
                "2019",
                {"": 1.0},
            )
            assert seen["eligible"] is None
            arms = {one["id"]: one for one in (await call.get("/v1/policies/slate/arms")).json()["arms"]}
            assert (arms["tea"]["observed"], arms["tea"]["mean"]) == (3 + budget, 1.0)
            assert (await call.decide(id="next"))["number"] == 5

    run(work)


HOSTILE = [
    "[" * 100_000,
    '{"a":' * 50_000,
    *(
        json.dumps(json.loads(_line(0, "tea", 0.0)) | {key: "HERE"}).replace('"HERE"', value)
        for key in ("_labelIndex", "_label_cost", "EventId", "Timestamp", "c", "_outcomes")
        for value in (
            "1e400",
            "-1e400",
            "NaN",
            "9" * 400,
            "9" * 5000,
            r'"\ud800"',
            r'"a\u0000b"',
            '""',
            "null",
            "[]",
            "{}",
        )
    ),
    _line(1, "tea", 0.0).replace('"topic": "tea"', r'"topic": "\ud800"'),
    _line(2, "tea", 0.0).replace('"topic": "tea"', r'"topic": "\u0000"'),
    _slots(3, ["tea"], [0.0]).replace("s3-0", r"\ud800"),
    _slots(4, [], []),
]


def test_every_line_has_its_end(address):
    """Whatever stands in it: it is counted, and those before and after it are adopted."""

    async def work():
        async with served(address) as call:
            await call.make(budget=1)
        store = open_store(address)
        await store.open()
        (row,) = await store.policies()
        good = [_line(f"good{number}", "tea", 0.0) for number in range(len(HOSTILE))]
        lines = [line for pair in zip(good, HOSTILE, strict=True) for line in pair]
        found = (await adopt_log(store, row, lines, "TAction.topic"))["lines"]
        assert sum(found.values()) == len(lines)
        assert found["adopted"] >= len(good)
        assert (await check(store))[0] == []
        await store.close()

    run(work)


def test_policies_with_contexts_take_no_names_of_features(sqlite_address):
    async def work():
        async with served(sqlite_address) as call:
            await call.make(policy={"kind": "c2ucb"}, dimension=2)
        store = open_store(sqlite_address)
        await store.open()
        with pytest.raises(Refused, match="cannot learn from features"):
            await adopt_log(store, (await store.policies())[0], [_line(0, "tea", 0.0)], "TAction.topic")
        await store.close()

    run(work)


@pytest.mark.parametrize(
    ("field", "said"), [("TAction", "must be the name"), ("TAction.other", "other"), ("GUser.id", "GUser")]
)
def test_a_field_that_names_no_arm_is_said(field, said):
    with pytest.raises(ValueError, match=said):
        read_line(_line(0, "tea", 0.0), field)
