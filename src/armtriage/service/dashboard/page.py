"""The page as one answer: markup, style, script and the first numbers, under a policy that lets nothing else run."""

from __future__ import annotations

import base64
import hashlib
import json
from functools import cache
from importlib import resources
from typing import Any

_SCRIPTS = ("dom.js", "charts.js", "parts.js", "items.js", "pages.js", "live.js")  # each needs those before it


def as_json(facts: Any) -> bytes:
    """Return facts in JSON, without spaces; what is not finite is refused."""
    return json.dumps(facts, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode("utf-8", "replace")


def _file(name: str) -> str:
    return (resources.files("armtriage.service.dashboard") / "static" / name).read_text(encoding="utf-8")


@cache
def _parts() -> tuple[tuple[bytes, bytes], str]:
    """Return the markup before and after the first numbers, and the policy that names style and script by digest."""
    style = _file("style.css")
    script = '"use strict";(() => {\n' + "".join(_file(name) for name in _SCRIPTS) + "})();\n"
    page = _file("index.html").replace("/*style*/", style).replace("/*script*/", script)
    before, after = page.split("/*facts*/")
    allowed = {
        "default-src": "'none'",
        "script-src": _digest(script),
        "style-src": _digest(style),
        "connect-src": "'self'",
        "img-src": "data:",
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
        "require-trusted-types-for": "'script'",
    }
    return (before.encode(), after.encode()), "; ".join(f"{what} {where}" for what, where in allowed.items())


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def headers() -> list[tuple[bytes, bytes]]:
    """Return the headers of the page."""
    return [
        (b"content-type", b"text/html; charset=utf-8"),
        (b"content-security-policy", _parts()[1].encode()),
        *HEADERS,
    ]


HEADERS = [
    (b"cache-control", b"no-store"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
]
"""What every answer of the dashboard has."""

# No text can end the element in which the facts stand.
_ESCAPED = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"})


def render(facts: Any) -> bytes:
    """Return the page with its first numbers.

    Examples
    --------
    >>> b"</script><b>" in render({"name": "</script><b>"})
    False
    """
    (before, after), _ = _parts()
    return before + as_json(facts).decode().translate(_ESCAPED).encode() + after
