"""Odd requests to the dashboard's own addresses: each has an answer, and none of them is a failure."""

from __future__ import annotations

import asyncio
import json
from urllib.parse import quote

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from armtriage.service.keys import SCOPES, new_key
from conftest import score
from service.calls import served

PAGES = ["/", "/keys", "/system", "/policies/slate", "/policies/nobody", "/dashboard/page", "/dashboard/items/slate",
         "/dashboard/items.csv/slate", "/dashboard/nothing", "/dashboard/"]  # fmt: skip
NAMES = st.sampled_from(["page", "path", "sort", "up", "search", "state", "policy", "x"])
ODD = st.one_of(
    st.sampled_from(["²", "٣", "-1", "9" * 3000, "1e9", "\x00", "\ufffd", "/keys", "//", "mean", "=", "%", "\u202e"]),
    st.text(max_size=20).filter(lambda text: text.isprintable()),
)
FIELDS = st.one_of(st.lists(st.tuples(NAMES, ODD), max_size=4), st.tuples(NAMES, ODD).map(lambda one: [one] * 17)).map(
    lambda pairs: "&".join(f"{name}={quote(value)}" for name, value in pairs)
)
VALUES = st.one_of(
    st.sampled_from([None, True, 10**400, -1, 0.5, float("nan"), float("inf"), "read", "\ud800", "\x00", [], {}]),
    st.lists(st.sampled_from(["read", "admin", "", 7, None, {}, [], "\ud800"]), max_size=3),
    st.text(max_size=70),
)
BODIES = st.dictionaries(st.sampled_from(["scopes", "label", "rate", "key", "x"]), VALUES, max_size=4)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """What sends requests to a service, with a key for everything."""
    with asyncio.Runner() as runner:
        context = served(str(tmp_path_factory.mktemp("site") / "decisions.db"))
        call = runner.run(context.__aenter__())
        runner.run(call.make())
        key, row = new_key(SCOPES, rate=0)
        runner.run(call.service.store.put_key(row))
        call.service.access.update([row])
        headers = {"authorization": f"Bearer {key}", "x-armtriage": "1"}
        yield lambda method, path, **more: runner.run(call.request(method, path, headers=headers, **more))
        runner.run(context.__aexit__(None, None, None))


def _look(site, examples: int) -> None:
    @settings(max_examples=examples)
    @example("/", "page=%C2%B2")
    @example("/keys", "&".join(["x=1"] * 17))
    @given(st.sampled_from(PAGES), FIELDS)
    def look(path: str, query: str) -> None:
        answer = site("GET", f"{path}?{query}")
        assert answer.status_code in (200, 404, 422), answer.text

    look()


def _change_keys(site, examples: int) -> None:
    @settings(max_examples=examples)
    @example({"scopes": ["read"], "rate": 10**400})
    @example({"scopes": ["read"], "label": "\ud800"})
    @given(BODIES)
    def change(body: dict[str, object]) -> None:
        answer = site("POST", "/dashboard/keys", content=json.dumps(body))
        assert answer.status_code in (200, 422), answer.text

    change()


def test_no_address_of_the_dashboard_fails(site):
    _look(site, 60)


def test_no_key_that_is_asked_for_fails(site):
    _change_keys(site, 60)


@pytest.mark.long
def test_no_request_to_the_dashboard_fails_for_long(site):
    _look(site, 2000)
    _change_keys(site, 2000)
    score("odd requests to the dashboard", 4000, "no server error")
