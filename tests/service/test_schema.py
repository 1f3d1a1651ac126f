"""Requests that a fuzzer makes of the OpenAPI document: no server error, nothing that the document does not say."""

from __future__ import annotations

import asyncio

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_schema_conformance,
    status_code_conformance,
)

from armtriage.service.openapi import document
from conftest import score
from service.journal import TRIED, make_slate, serving

ARMS = [f"item-{arm}" for arm in range(8)]
_APART = ("stream",)  # it never ends
CHECKS = (
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
    negative_data_rejection,
)


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    with serving(str(tmp_path_factory.mktemp("schema") / "decisions.db")) as server:

        async def begin():
            async with server.client() as call:
                await make_slate(call, **TRIED)
                await server.ready(call)
                for number in range(5):
                    await call.post("/v1/policies/slate/decisions", json={"id": f"visit-{number}"})

        asyncio.run(begin())
        yield server.url


def _operations():
    schema = schemathesis.openapi.from_dict(document())
    return [one.ok() for one in schema.get_all_operations()]


OPERATIONS = {one.definition.raw["operationId"]: one for one in _operations()}


def _knowing(body, draw):
    """Return a body in which some names are those of the decisions and arms that are there."""
    if isinstance(body, list):
        return [_knowing(one, draw) for one in body]
    if not isinstance(body, dict):
        return body
    arms, found = st.sampled_from(ARMS), {}
    for key, value in body.items():
        if key in ("decision", "id") and isinstance(value, str):
            found[key] = draw(st.sampled_from([value, "visit-1", "visit-2"]))
        elif key in ("hits", "exclude", "eligible", "retire", "restore", "add") and isinstance(value, list):
            found[key] = [draw(st.one_of(st.just(one), arms)) for one in value]
        elif key in ("rewards", "meta", "contexts", "rows") and isinstance(value, dict):
            found[key] = {draw(arms): one for one in value.values()}
        elif key == "metrics" and isinstance(value, dict):
            found[key] = dict.fromkeys(["gone"] * bool(value), next(iter(value.values()), None))
        else:
            found[key] = _knowing(value, draw)
    return found


def _fuzz(url: str, name: str, examples: int) -> None:
    @settings(
        max_examples=examples, database=None, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(case=OPERATIONS[name].as_strategy(), known=st.booleans(), data=st.data())
    def fuzz(case, known: bool, data: st.DataObject) -> None:
        if known:
            for where, value in {"name": "slate", "id": "visit-1"}.items():
                if where in (case.path_parameters or {}):
                    case.path_parameters[where] = value
            case.body = _knowing(case.body, data.draw)
        # A body that was wrong may have become right.
        checks = [one for one in CHECKS if not (known and one is negative_data_rejection)]
        case.call_and_validate(base_url=url, checks=checks, timeout=120)

    fuzz()


@pytest.mark.parametrize("name", [name for name in OPERATIONS if name not in _APART])
def test_no_request_fails_or_surprises(url, name):
    _fuzz(url, name, 10)


@pytest.mark.long
@pytest.mark.parametrize("name", [name for name in OPERATIONS if name not in _APART])
def test_no_request_fails_or_surprises_for_long(url, name):
    _fuzz(url, name, 500)
    score("requests that a fuzzer made of the OpenAPI document", 500, "no server error, nothing undocumented")
