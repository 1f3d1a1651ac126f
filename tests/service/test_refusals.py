"""What a refusal says over HTTP: which value is wrong, and what is accepted; shortened, and harmless in a page."""

import json

import pytest

from armtriage.service.keys import new_key
from service.calls import SLATE, run, served

POLICIES, DECISIONS, REWARDS = "/v1/policies", "/v1/policies/slate/decisions", "/v1/policies/slate/rewards"
ARMS = "/v1/policies/slate/arms"
REFUSED = [
    ("POST", DECISIONS, {"exclude": ["tae"]}, 'No arm is called "tae"; the arms are "tea", "milk", "jam", "bread"'),
    ("POST", DECISIONS, {"eligible": ["jam"]}, 'eligible must have arms that are not retired, got "jam"'),
    ("POST", DECISIONS, {"id": "v0", "exclude": ["tea"]}, 'The id "v0" belongs to a decision'),
    ("POST", DECISIONS, {"id": "v 1"}, 'at `$.id`, got "v 1"'),
    ("POST", DECISIONS, {"decisions": 3}, "unknown field `decisions`; known are id, exclude, eligible"),
    ("POST", DECISIONS, {"contexts": [[1.0]]}, "contexts must be left out: guarded_thompson takes none"),
    ("POST", f"{DECISIONS}/batch", {"decisions": [{}]}, "unknown field `decisions`; known are requests"),
    ("POST", REWARDS, {"decision": "v0", "rewards": {"egg": 1, "bread": 1, "tea": 1}}, "The decision does not show"),
    ("POST", REWARDS, {"decision": "v0", "rewards": {"SHOWN": 7}}, "rewards must lie in [0, 1], got 7.0 for "),
    ("POST", REWARDS, {"decision": "v0"}, "give either rewards or hits, got none"),
    ("POST", POLICIES, SLATE | {"name": "x", "arms": ["a", "b", "a"]}, 'arms has the same id twice: "a"'),
    ("POST", POLICIES, SLATE | {"name": "x", "policy": {"kind": "<b>"}}, 'got "\\u003cb\\u003e"'),
    ("POST", POLICIES, SLATE | {"name": "x", "policy": {"detla": 1}}, 'guarded_thompson has not: "detla"'),
    ("POST", POLICIES, SLATE | {"name": "x", "budget": 9}, "got 9"),
    ("POST", POLICIES, SLATE | {"name": "x", "join_window": "31d"}, "join_window must be at most 30d, got 31d"),
    ("POST", POLICIES, SLATE, 'There is a policy "slate" already.'),
    ("PATCH", ARMS, {"add": ["tea", "rye"]}, 'add must have new arms, each once, got "tea"'),
    ("PATCH", ARMS, {"retire": ["egg", "egg"]}, 'retire must have each arm once, got "egg" twice'),
    ("PATCH", ARMS, {"restore": ["egg"]}, 'restore must have arms that are retired, got "egg"'),
    ("PATCH", ARMS, {"meta": {"x" * 100: {}}}, 'No arm is called "xxxxx'),
    ("PATCH", "/v1/policies/slate", {"status": "off"}, "accepted are archived, observing, paused, running"),
    ("GET", "/v1/policies/salte", None, 'There is no policy "salte"; GET /v1/policies lists them.'),
    ("GET", f"{DECISIONS}/v9", None, 'There is no decision "v9".'),
    ("GET", "/v1/policies/slate/events?limit=0", None, 'limit must be a whole number from 1 to 1000000000, got "0"'),
    ("GET", "/v1/policies/slate/events?most=1", None, 'the address takes after, limit, not "most"'),
    ("DELETE", "/v1/policies/slate", None, 'This address takes GET, PATCH, not "DELETE".'),
]  # fmt: skip


def test_refusals_name_the_value_and_what_is_accepted(sqlite_address):
    async def work():
        async with served(sqlite_address) as call:
            await call.make()
            made = await call.decide(id="v0")
            await call.patch(ARMS, json={"retire": ["jam"]})
            before = await call.digest()
            for method, path, body, says in REFUSED:
                text = json.dumps(body).replace("SHOWN", made["arms"][0]).encode() if body is not None else None
                answer = await call.request(method, path, content=text)
                assert 400 <= answer.status_code < 500, (path, answer.text)
                assert says in answer.json()["detail"], (says, answer.text)
                assert "<" not in answer.text
                assert len(answer.json()["detail"]) < 500
            assert await call.digest() == before

    run(work)


@pytest.mark.parametrize(
    ("header", "status", "says"),
    [
        (None, 401, "send the header Authorization: Bearer at_..."),
        ("Bearer at_00c0ffee_secret-text", 401, "The key at_00c0ffee_... is not known; it may have been revoked."),
        ("Basic secret-text", 401, "of the header Authorization (Bearer at_...)"),
        ("KEY", 403, "has read, not admin"),
    ],
)
def test_a_key_that_does_not_open_is_named_without_its_secret(sqlite_address, header, status, says):
    async def work():
        async with served(sqlite_address) as call:
            text, row = new_key(["read"])
            await call.service.store.put_key(row)
            call.service.access.update([row])
            given = {} if header is None else {"authorization": f"Bearer {text}" if header == "KEY" else header}
            answer = await call.post("/v1/policies", json=SLATE, headers=given)
            assert answer.status_code == status
            assert says in answer.json()["detail"]
            assert "secret-text" not in answer.text
            assert text[12:] not in answer.text

    run(work)
