"""Bodies: what is not exactly what is asked for is refused by name, and changes nothing."""

from __future__ import annotations

import json
from typing import Any, get_args, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

from armtriage.decisions import SETS
from armtriage.service.messages import (
    ArmsChange,
    Create,
    Decide,
    DecideBatch,
    DecisionFamily,
    Reward,
    RewardBatch,
    Status,
    read,
)
from armtriage.service.refusal import Refused
from armtriage.service.routes import ROUTES
from service.calls import run, served

POISON = {
    "NaN": (400, "malformed"),
    "Infinity": (400, "malformed"),
    "-Infinity": (400, "malformed"),
    "01": (400, "malformed"),
    "+1": (400, "malformed"),
    "1e400": (422, "invalid"),
    "-1e400": (422, "invalid"),
    "1e308": (422, "invalid"),
    "9" * 400: (422, "invalid"),
    '"NaN"': (422, "invalid"),
    '"inf"': (422, "invalid"),
    "true": (422, "invalid"),
    "null": (422, "invalid"),
    "[]": (422, "invalid"),
    "{}": (422, "invalid"),
    '"\\ud800"': (400, "malformed"),
    "[" * 5000 + "]" * 5000: (422, "invalid"),
}
PLACES = {
    "reward": ("/v1/policies/slate/rewards", '{"decision": "visit-1", "rewards": {"ARM": HERE}}'),
    "context": ("/v1/policies/linear/decisions", '{"contexts": [[0.5, HERE], [0, 0], [0, 0]]}'),
    "context by arm": ("/v1/policies/linear/decisions", '{"contexts": {"a": [HERE, 0]}}'),
    "range": ("/v1/policies", '{"name": "x", "arms": ["a"], "budget": 1, "reward": {"range": [0, HERE]}}'),
    "default": ("/v1/policies", '{"name": "x", "arms": ["a", "b"], "budget": 1, "reward": {"default": HERE}}'),
}


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    """What the service answers to every poison in every place, and the digests before and after."""
    found: dict[str, Any] = {"answers": {}}

    async def work():
        async with served(str(tmp_path_factory.mktemp("poison") / "decisions.db")) as call:
            await call.make()
            await call.make(
                name="linear", arms=["a", "b", "c"], budget=1, dimension=2, policy={"kind": "c2ucb"},
                reward={"range": [-1, 1]},
            )  # fmt: skip
            arm = (await call.decide(id="visit-1"))["arms"][0]
            before = await call.digest(), await call.digest("linear")
            for place, (address, text) in PLACES.items():
                for value in POISON:
                    if (place, value) == ("default", "null"):
                        continue  # that is a default: none
                    body = text.replace("HERE", value).replace("ARM", arm).encode()
                    answer = await call.post(address, content=body)
                    found["answers"][place, value] = answer.status_code, answer.json()["error"], answer.text
            found["digests"] = before, (await call.digest(), await call.digest("linear"))
            found["names"] = set(call.service.loops)

    run(work)
    return found


@pytest.mark.parametrize("place", PLACES)
def test_poison_is_refused_by_name(answers, place):
    for (where, value), (status, code, text) in answers["answers"].items():
        if where == place:
            assert (status, code) == POISON[value], value[:20]
            assert "99999" not in text


def test_poison_changes_nothing(answers):
    before, after = answers["digests"]
    assert before == after
    assert answers["names"] == {"slate", "linear"}


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", "malformed"),
        (b"\xef\xbb\xbf{}", "malformed"),
        (b"{} {}", "malformed"),
        (b'{"id": "\xff"}', "malformed"),
        (b'{"id": "a", "id": "a"}', "duplicate_key"),
        (b'{"id": "a", "i\\u0064": "b"}', "duplicate_key"),
        (b'{"tags": {"a": 1, "a": 2}}', "duplicate_key"),
        (b'{"id": ""}', "invalid"),
        (b'{"id": "a b"}', "invalid"),
        (b'{"id": "a\\u0000"}', "invalid"),
        (b'{"id": "caf\xc3\xa9"}', "invalid"),
        (b'{"id": "' + b"a" * 129 + b'"}', "invalid"),
        (b'{"surprise": 1}', "invalid"),
        (b"[]", "invalid"),
        (b'{"exclude": "tea"}', "invalid"),
        (b'{"exclude": ["\\u0007"]}', "invalid"),
    ],
)
def test_bodies_that_are_none(body, code):
    with pytest.raises(Refused) as caught:
        read(Decide, body)
    assert caught.value.code == code
    assert caught.value.body().isascii()


@pytest.mark.parametrize(
    ("kind", "body", "ends"),
    [
        (Reward, {"decision": "a", "rewards": {"tea": 1, "milk": "x", "jam": "y"}}, '`$.rewards["milk"]`: "x"'),
        (Reward, {"decision": "a", "rewards": {"tea": 1, "milk": 1e200}}, '`$.rewards["milk"]`, got 1e+200'),
        (Reward, {"decision": "a", "rewards": {"tea": 1, "": 1, "jam": 0}}, '`key` in `$.rewards`, got ""'),
        (Reward, {"decision": "a", "rewards": {"<b>": None}}, '`$.rewards["\\u003cb\\u003e"]`: null'),
        (Decide, {"contexts": {"tea": [1, 2], "milk": [1, "x"]}}, '`$.contexts["milk"][1]`: "x"'),
        (Decide, {"rows": {"tea": {"a": 1}, "milk": {"b": 1, "a": [2]}}}, '`$.rows["milk"]["a"]`: [2]'),
        (DecideBatch, {"requests": [{}, {"tags": {"a": 1, "b": []}}]}, '`$.requests[1].tags["b"]`: []'),
        (Reward, {"decision": "a", "rewards": {f"{n}": n - (n == 999) * 1e101 for n in range(1000)}}, "got -1e+101"),
    ],
)
def test_a_wrong_value_inside_a_mapping_is_named(kind, body, ends):
    with pytest.raises(Refused) as caught:
        read(kind, json.dumps(body).encode())
    assert caught.value.detail.endswith(ends), caught.value.detail


def test_a_wrong_value_that_a_later_key_hides_has_no_name():
    with pytest.raises(Refused, match=r"at `\$\.rewards\[\.\.\.\]`$"):
        read(Reward, b'{"decision": "a", "rewards": {"tea": "x", "milk": 1, "tea": 1}}')


def test_colons_in_strings_are_no_keys():
    assert read(Decide, b'{"id": "a:b:c", "tags": {"x:y": ":::"}}').id == "a:b:c"
    assert read(Reward, b'{"decision": "a:b", "rewards": {"x:y": 1}}').rewards == {"x:y": 1.0}


@pytest.mark.parametrize("value", ["-0.0", "5e-324", "1e-401", "1"])
def test_small_numbers_are_numbers(value):
    (found,) = read(Reward, f'{{"decision": "a", "rewards": {{"b": {value}}}}}'.encode()).rewards.values()
    assert isinstance(found, float)
    assert found == float(value)


def _text(pairs):
    inside = ", ".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in pairs)
    return f'{{"decision": "d:1", "rewards": {{{inside}}}}}'.encode()


@given(
    st.lists(st.tuples(st.sampled_from(["a", "b", "a:b", "\\", '"', ":", "é"]), st.sampled_from([0, 1])), max_size=5)
)
def test_a_body_is_taken_if_and_only_if_no_key_is_there_twice(pairs):
    names = [name for name, _ in pairs]
    if len(set(names)) == len(names):
        assert read(Reward, _text(pairs)).rewards == dict(pairs)
    else:
        with pytest.raises(Refused) as caught:
            read(Reward, _text(pairs))
        assert caught.value.code == "duplicate_key"


FULL = {
    Decide: {"id": "a:b", "exclude": ["a"], "eligible": ["b"], "contexts": {"a": [1], "b": [2]},
             "rows": {"a": {"x": 1}, "b": {"x": "::"}}, "tags": {"t": 1, "u": None}},
    DecideBatch: {"requests": [{}, {"id": "a", "tags": {"t": 1}}, {"rows": [{"x": 1, "y": 2}]}]},
    Reward: {"decision": "a", "rewards": {"a": 1, "b": 0}, "hits": [], "id": "r", "last": True},
    RewardBatch: {"requests": [{"decision": "a", "rewards": {"a": 1, "b": 0}}, {"decision": "b", "hits": []}]},
    Create: {"name": "x", "arms": ["a", {"id": "b", "meta": {"m": 1}}], "policy": {"kind": "thompson"}, "budget": 1,
             "decisions": {"kind": "partition", "groups": [0, 0]}, "dimension": 2, "features": {"clip": 3.0},
             "feedback": {"kind": "semi_bandit"}, "seed": 1, "reward": {"range": [0, 1], "default": None},
             "join_window": "24h", "log_contexts": "all"},
    ArmsChange: {"add": ["x", {"id": "y", "meta": {"m": 1}}], "retire": ["a"], "restore": ["b"], "meta": {"c": {}}},
    Status: {"status": "paused"},
}  # fmt: skip


def _repeating(value, times):
    """Yield JSON of a value, once for each key of all its objects, with that key so many times."""
    if isinstance(value, dict):
        whole = {key: json.dumps(inner) for key, inner in value.items()}
        for key, inner in value.items():
            yield (
                "{"
                + ",".join([f'"{name}":{text}' for name, text in whole.items()] + [f'"{key}":{whole[key]}'] * times)
                + "}"
            )
            for text in _repeating(inner, times):
                yield (
                    "{" + ",".join(f'"{name}":{text if name == key else other}' for name, other in whole.items()) + "}"
                )
    elif isinstance(value, list):
        for place, inner in enumerate(value):
            for text in _repeating(inner, times):
                yield "[" + ",".join(text if at == place else json.dumps(one) for at, one in enumerate(value)) + "]"


def test_every_kind_of_body_is_tried():
    assert set(FULL) == {route.takes for route in ROUTES} - {None}


@pytest.mark.parametrize("kind", FULL)
@pytest.mark.parametrize("left_out", [False, True])
def test_no_kind_of_body_may_have_a_key_twice(kind, left_out):
    """However often, and however many fields are left out: the one must not make up for the other."""
    needed = {name: FULL[kind][name] for name in ("name", "arms", "decision", "requests") if name in FULL[kind]}
    bodies = [FULL[kind]] if not left_out else [needed | {name: value} for name, value in FULL[kind].items()]
    for body in bodies:
        read(kind, json.dumps(body).encode())
        for times in range(1, len(FULL[kind]) + 5):
            for text in _repeating(body, times):
                with pytest.raises(Refused) as caught:
                    read(kind, text.encode())
                assert caught.value.code == "duplicate_key", text


@pytest.mark.parametrize("path", ["/dashboard/session", "/dashboard/keys"])
def test_no_body_of_the_dashboard_may_have_a_key_twice(sqlite_address, path):
    async def work():
        async with served(sqlite_address) as call:
            body = b'{"key": "x", "key": "y", "scopes": ["read"], "scopes": ["admin"]}'
            answer = await call.post(path, content=body, headers={"x-armtriage": "1"})
            assert (answer.status_code, answer.json()["error"]) == (400, "duplicate_key")
            assert call.service.access.open

    run(work)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"arms": []}, "Expected `array` of length >= 1"),
        ({"arms": ["a", "a"]}, "same id twice"),
        ({"budget": 3}, "budget must be"),
        ({"budget": 0}, "Expected `int` >= 1"),
        ({"policy": {"kind": "magic"}}, "policy.kind must be one of guarded_thompson"),
        ({"policy": {"kind": "thompson", "delta": 0.1}}, "an option that thompson has not"),
        ({"policy": {"kind": "guarded_thompson", "delta": 2}}, "delta must be"),
        ({"policy": {"kind": "c2ucb"}}, "dimension must be given"),
        ({"dimension": 3}, "dimension must be given"),
        ({"reward": {"range": [1, 0]}}, "reward_range must be"),
        ({"reward": {"default": 7}}, "reward.default"),
        ({"join_window": "31d"}, "at most 30d"),
        ({"join_window": "0s"}, "matching regex"),
        ({"feedback": {"kind": "cliques"}}, "feedback.sizes"),
        ({"feedback": {"kind": "cliques", "sizes": [3]}}, "must sum to the 2 arms"),
        ({"feedback": {"kind": "edges", "edges": [["a", "x"]]}}, "not among arms"),
        ({"name": "../x"}, "matching regex"),
        ({"seed": -1}, "Expected `int` >= 0"),
    ],
)
def test_recipes_that_make_no_policy(change, said):
    from armtriage.service.recipe import Recipe

    body = {"name": "x", "arms": ["a", "b"], "budget": 1, **change}
    with pytest.raises(Refused) as caught:
        Recipe(read(Create, json.dumps(body).encode())).make()
    assert said in caught.value.detail
    assert caught.value.status == 422


TEXTS = {
    "control": "a\x01b", "nul": "a\x00b", "line break": "ab\n", "composed": "caf\u00e9",
    "decomposed": "cafe\u0301", "emoji": "\U0001f600",
    "right to left": "\u202eabc", "sql": "'; DROP TABLE event; --", "path": "../../etc/passwd",
    "markup": "<script>alert(1)</script>", "space": " ", "separator": "\u2028", "percent": "%00%s{0}",
}  # fmt: skip


def test_text_comes_back_as_it_was_or_is_refused(address):
    """Arms, ids and tags with any text: the same characters come back, from both stores, or a 422."""

    async def work():
        async with served(address) as call:
            await call.make()
            for number, text in enumerate(TEXTS.values()):
                made = await call.post(
                    "/v1/policies", json={"name": f"p{number}", "arms": [text, "other"], "budget": 2, "seed": 1}
                )
                assert made.status_code in (201, 422), (text, made.text)
                assert (made.status_code == 422) == any(ord(one) < 32 for one in text)
                if made.status_code == 201:
                    await call.ready()
                    assert (await call.decide(f"p{number}", id="x"))["arms"] == [text, "other"]
                    told = (await call.reward("x", {text: 1}, name=f"p{number}")).json()
                    assert told["fates"] == {text: "applied"}
                    shown = (await call.get(f"/v1/policies/p{number}/arms")).json()["arms"]
                    assert shown[0]["id"] == text
                tagged = await call.post("/v1/policies/slate/decisions", json={"id": f"t{number}", "tags": {"x": text}})
                assert tagged.status_code == (422 if "\x00" in text else 201)
                if tagged.status_code == 201:
                    seen = (await call.get(f"/v1/policies/slate/decisions/t{number}")).json()
                    assert seen["tags"] == {"x": text}
                named = await call.post("/v1/policies/slate/decisions", json={"id": text})
                visible = all(33 <= ord(one) <= 126 for one in text)
                assert named.status_code == (201 if visible else 422), text
                assert visible == (named.status_code == 201 and named.json()["id"] == text)

    run(work)


def test_every_family_by_name_can_be_asked_for() -> None:
    assert get_args(get_type_hints(DecisionFamily)["kind"]) == tuple(SETS)
