"""What made a number: the versions of the libraries, and one for all sources that numbers depend on."""

from __future__ import annotations

import hashlib
import platform
from functools import cache
from importlib import metadata
from pathlib import Path

__all__ = ["PRESENTATION", "code_version", "counts", "versions"]

PRESENTATION = (
    "__init__",
    "_check_cases",
    "_cli_graph",
    "_cli_report",
    "_cli_reproduce",
    "_cli_run",
    "_experiments.definition",
    "_experiments.engines",
    "_experiments.folder",
    "_experiments.grid",
    "_experiments.plan",
    "_experiments.rehearsal",
    "_experiments.rows",
    "_experiments.schema",
    "_experiments.statistics",
    "_experiments.tables",
    "_experiments.versions",
    "_graph_files",
    "_story",
    "_terminal",
    "checks",
    "cli",
    "comparison",
    "demo",
    "experiment",
    "plots",
    "report",
    "reproduce",
    "results",
)
"""Modules and packages that choose, keep or show numbers, but change none of a cell; all others count as its code."""
_LIBRARIES = ("armtriage", "numpy", "numba", "scipy", "polars")


def counts(module: str) -> bool:
    """Whether a module of armtriage, by its name without the package's, is code that numbers depend on.

    Examples
    --------
    >>> counts("policies.greedy"), counts("plots.curves")
    (True, False)
    """
    return not any(module == one or module.startswith(one + ".") for one in PRESENTATION)


@cache
def code_version() -> str:
    """Return the version of armtriage with a hash of the sources that the numbers of a cell depend on."""
    folder, digest = Path(__file__).parents[1], hashlib.blake2b(digest_size=8)
    for path in sorted(folder.rglob("*.py")):
        name = ".".join(path.relative_to(folder).with_suffix("").parts)
        if counts(name):
            digest.update(name.encode() + b"\n" + path.read_bytes())
    return f"{metadata.version('armtriage')}+{digest.hexdigest()}"


@cache
def versions() -> dict[str, str]:
    """Return the versions of what a number depends on, by name."""
    return {"python": platform.python_version(), **{name: metadata.version(name) for name in _LIBRARIES}}
