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
from service.journal import make_slate, serving

# A stream never ends, and a file for a whole log is not JSON.
_APART = ("stream", "export", "events", "metrics")
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
                await make_slate(call)
                await server.ready(call)

        asyncio.run(begin())
        yield server.url


def _operations():
    schema = schemathesis.openapi.from_dict(document())
    return [one.ok() for one in schema.get_all_operations()]


OPERATIONS = {one.definition.raw["operationId"]: one for one in _operations()}


def _fuzz(url: str, name: str, examples: int) -> None:
    @settings(
        max_examples=examples, database=None, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(case=OPERATIONS[name].as_strategy(), known=st.booleans())
    def fuzz(case, known: bool) -> None:
        if known and "name" in (case.path_parameters or {}):
            case.path_parameters["name"] = "slate"
        case.call_and_validate(base_url=url, checks=CHECKS, timeout=20)

    fuzz()


@pytest.mark.parametrize("name", [name for name in OPERATIONS if name not in _APART])
def test_no_request_fails_or_surprises(url, name):
    _fuzz(url, name, 10)


@pytest.mark.long
@pytest.mark.parametrize("name", [name for name in OPERATIONS if name not in _APART])
def test_no_request_fails_or_surprises_for_long(url, name):
    _fuzz(url, name, 500)
    score("requests that a fuzzer made of the OpenAPI document", 500, "no server error, nothing undocumented")
