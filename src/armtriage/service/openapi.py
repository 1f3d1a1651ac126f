"""The interface in OpenAPI's words, made from the table of routes."""

from __future__ import annotations

import functools
import re
from http import HTTPStatus
from typing import Any

import msgspec

from armtriage import __version__
from armtriage.service.messages import Error
from armtriage.service.refusal import CODES
from armtriage.service.routes import JSON, ROUTES, Route

_ALWAYS = ("internal", "forbidden")
_NAME = {"type": "string", "maxLength": 64, "pattern": "^[A-Za-z0-9][A-Za-z0-9._-]*$"}
_ID = {"type": "string", "minLength": 1, "maxLength": 128, "pattern": "^[\\x21-\\x2e\\x30-\\x7e]+$"}
_PATH = {"name": (_NAME, "The policy."), "id": (_ID, "The decision.")}


@functools.cache
def document() -> dict[str, Any]:
    """Return the OpenAPI 3.1 document of this version.

    Examples
    --------
    >>> document()["openapi"], document()["paths"]["/healthz"]["get"]["operationId"]
    ('3.1.0', 'healthz')
    """
    kinds = {one for route in ROUTES for one in (route.takes, *route.answers.values()) if _is_struct(one)}
    ordered = sorted(kinds | {Error}, key=lambda kind: kind.__name__)
    _, components = msgspec.json.schema_components(ordered, ref_template="#/components/schemas/{name}")
    paths: dict[str, Any] = {}
    for route in ROUTES:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "armtriage",
            "version": __version__,
            "description": "Choose S of K arms for every request, and learn from the rewards. "
            "What is answered with 2xx is stored.",
            "license": {"name": "MIT", "identifier": "MIT"},
        },
        "paths": paths,
        "components": {
            "schemas": _for_everybody(components),
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
    }


def _for_everybody(schema: Any) -> Any:
    r"""Return a schema whose patterns end as other languages have it, where `\Z` is no end and `$` is."""
    if isinstance(schema, dict):
        return {
            key: value.removesuffix(r"\Z") + "$"
            if key == "pattern" and isinstance(value, str) and value.endswith(r"\Z")
            else _for_everybody(value)
            for key, value in schema.items()
        }
    return [_for_everybody(one) for one in schema] if isinstance(schema, list) else schema


def _is_struct(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def _operation(route: Route) -> dict[str, Any]:
    found: dict[str, Any] = {
        "operationId": route.handler.__name__,
        "summary": route.summary,
        "responses": _responses(route),
    }
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": _PATH[name][0], "description": _PATH[name][1]}
        for name in re.findall(r"{(\w+)}", route.path)
    ] + [
        {
            "name": name,
            "in": "query",
            "required": False,
            "description": one.meaning,
            "schema": {"type": "integer", "minimum": one.least, "maximum": one.most, "default": one.default},
        }
        for name, one in route.query.items()
    ]
    if parameters:
        found["parameters"] = parameters
    if route.takes is not None:
        content = {JSON: {"schema": {"$ref": f"#/components/schemas/{route.takes.__name__}"}}}
        found["requestBody"] = {"required": route.takes.__name__ != "Decide", "content": content}
    if route.scope is not None:
        found["security"] = [{"key": []}]
        found["description"] = f"Needs a key with the scope {route.scope}, as soon as there is a key."
    return found


def _responses(route: Route) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for status, kind in route.answers.items():
        if isinstance(kind, str):
            content: dict[str, Any] = {kind: {"schema": {}}}
        elif _is_struct(kind):
            content = {JSON: {"schema": {"$ref": f"#/components/schemas/{kind.__name__}"}}}
        else:
            content = {JSON: {"schema": {"type": "object"}}}
        found[str(status)] = {"description": HTTPStatus(status).phrase, "content": content}
    codes = [*route.refusals, *_ALWAYS]
    if route.scope is not None:
        codes += ["unauthorized", "too_many"]
    by_status: dict[int, list[str]] = {}
    for code in codes:
        by_status.setdefault(CODES[code][0], []).append(code)
    for status, some in sorted(by_status.items()):
        if str(status) not in found:
            text = " ".join(f"`{code}`: {CODES[code][1]}" for code in some)
            content = {JSON: {"schema": {"$ref": "#/components/schemas/Error"}}}
            found[str(status)] = {"description": text, "content": content}
    return found
