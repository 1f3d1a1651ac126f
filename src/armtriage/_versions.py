"""What made a number: the versions of the libraries, and one for all sources that numbers depend on."""

from __future__ import annotations

import hashlib
import platform
from functools import cache
from importlib import metadata
from pathlib import Path

__all__ = ["PRESENTATION", "code_version", "versions"]

PRESENTATION = (
    "__init__",
    "_check_cases",
    "_cli_report",
    "_cli_run",
    "_definition",
    "_engines",
    "_folder",
    "_grid",
    "_plan",
    "_rehearsal",
    "_rows",
    "_schema",
    "_statistics",
    "_story",
    "_tables",
    "_terminal",
    "_versions",
    "checks",
    "cli",
    "comparison",
    "demo",
    "experiment",
    "plots",
    "report",
    "results",
)
"""Modules and packages that choose, keep or show numbers, but change none of a cell; all others count as its code."""
_LIBRARIES = ("armtriage", "numpy", "numba", "scipy", "polars")


@cache
def code_version() -> str:
    """Return the version of armtriage with a hash of the sources that the numbers of a cell depend on."""
    folder, digest = Path(__file__).parent, hashlib.blake2b(digest_size=8)
    for path in sorted(folder.rglob("*.py")):
        place = path.relative_to(folder).with_suffix("")
        if place.parts[0] not in PRESENTATION:
            digest.update(place.as_posix().encode() + b"\n" + path.read_bytes())
    return f"{metadata.version('armtriage')}+{digest.hexdigest()}"


@cache
def versions() -> dict[str, str]:
    """Return the versions of what a number depends on, by name."""
    return {"python": platform.python_version(), **{name: metadata.version(name) for name in _LIBRARIES}}
