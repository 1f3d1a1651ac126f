"""Write docs/http.md from docs/openapi.json: ``python docs/http_reference.py``."""

import json
import re
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PAGE = HERE / "http.md"
DOCUMENT = json.loads((HERE / "openapi.json").read_text(encoding="utf-8"))
SCHEMAS = DOCUMENT["components"]["schemas"]
_MOST = 3  # kinds of a field that are spelled out


def linked(schema: dict[str, Any]) -> str:
    """Return the name of a schema, with a link to it."""
    name = schema["$ref"].rsplit("/", 1)[1]
    return f"[{name}](#{name.lower()})"


def kind(schema: dict[str, Any]) -> str:
    """Return in a few words what may stand in a field."""
    if "$ref" in schema:
        return linked(schema)
    if "enum" in schema:
        return " or ".join(f"`{json.dumps(one)}`" for one in schema["enum"])
    if "anyOf" in schema:
        found = list(dict.fromkeys(map(kind, schema["anyOf"])))
        return " or ".join(found) if len(found) <= _MOST else "string, number, boolean or null"
    if schema.get("type") == "array":
        return f"list of {kind(schema['items'])}" if isinstance(schema.get("items"), dict) else "list"
    if schema.get("type") == "object" and isinstance(schema.get("additionalProperties"), dict):
        return f"object of {kind(schema['additionalProperties'])}"
    low, high = schema.get("minimum"), schema.get("maximum")
    span = f" from {low:,} to {high:,}" if isinstance(low, int) and isinstance(high, int) and high < 2**53 else ""
    return f"{schema.get('type', 'anything')}{span}"


def flat(text: str) -> str:
    """Return a text in one line."""
    return re.sub(r"\s+", " ", text).strip()


def body_of(content: dict[str, Any]) -> str:
    """Return what a body is, by its kind."""
    ((media, one),) = content["content"].items()
    schema = one.get("schema", {})
    return linked(schema) if "$ref" in schema else f"`{media}`"


def operation(method: str, path: str, one: dict[str, Any]) -> list[str]:
    """Return the section of an operation."""
    lines = [f"### {method.upper()} {path}", "", f"{one['summary']} {one.get('description', '')}".strip(), ""]
    asked = [
        f"- `{given['name']}` in the {given['in']}: {kind(given['schema'])}{', needed' * given.get('required', False)}"
        for given in one.get("parameters", ())
        if given["in"] != "path"
    ]
    if "requestBody" in one:
        asked.append(f"- body: {body_of(one['requestBody'])}")
    for status, answer in one["responses"].items():
        if status.startswith("2") and "content" in answer:
            asked.append(f"- {status}: {body_of(answer)}")
    refused = [status for status in one["responses"] if not status.startswith("2")]
    asked.append(f"- refusals: {', '.join(refused)}")
    return [*lines, *asked, ""]


def text() -> str:
    """Return the page."""
    lines = [
        "# HTTP",
        "",
        f"Everything that `armtriage serve` answers, version {DOCUMENT['info']['version']}. This page is made from "
        "[openapi.json](openapi.json), which a running server has at `/openapi.json`; [Serve decisions](serve.md) "
        "explains how to use it. Bodies are JSON. A field that is not known is refused. Keys are sent as "
        "`Authorization: Bearer at_...`, as soon as there is one.",
        "",
        "| request | what it does |",
        "|---|---|",
    ]
    every = [(method, path, one) for path, of in DOCUMENT["paths"].items() for method, one in of.items()]
    for method, path, one in every:
        anchor = re.sub(r"[^a-z0-9_ -]", "", f"{method} {path}".lower()).replace(" ", "-")
        lines.append(f"| {method.upper()} [`{path}`](#{anchor}) | {one['summary']} |")
    lines += ["", "## Operations", ""]
    for method, path, one in every:
        lines += operation(method, path, one)
    lines += ["## Refusals", "", "A refusal is an [Error](#error). `error` is one of these codes:", ""]
    lines += ["| status | code | meaning |", "|---|---|---|"]
    codes: dict[tuple[str, str], str] = {}
    for _, _, one in every:
        for status, answer in one["responses"].items():
            for code, meaning in re.findall(r"`(\w+)`: (.+?)(?= `\w+`: |$)", answer["description"]):
                codes.setdefault((status, code), meaning)
    lines += [f"| {status} | `{code}` | {meaning} |" for (status, code), meaning in sorted(codes.items())]
    lines += ["", "## Bodies", "", "In bold: fields that must be there.", ""]
    for name, schema in sorted(SCHEMAS.items()):
        lines += [f"### {name}", "", flat(schema.get("description", "")), "", "| field | kind | default |", "|---|---|---|"]
        for field, one in schema.get("properties", {}).items():
            shown = f"**`{field}`**" if field in schema.get("required", ()) else f"`{field}`"
            default = f"`{json.dumps(one['default'])}`" if "default" in one else ""
            lines.append(f"| {shown} | {kind(one)} | {default} |")
        lines.append("")
    return "\n".join(lines)


if __name__ == "__main__":
    PAGE.write_text(text(), encoding="utf-8")
