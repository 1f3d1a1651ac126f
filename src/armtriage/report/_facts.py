"""What an experiment's page says besides its results: configuration, failures, versions, seeds and times."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from armtriage.experiments.results import Results
from armtriage.plots._style import short
from armtriage.report._html import folded, paragraphs, preformatted, table

__all__ = ["failures", "origins", "seeds", "times", "toml_text"]

_TRACEBACKS, _SEEDS = 10, 100  # shown at most
_LINE = 64


def failures(results: Results) -> str:
    """Return the failed cells, and their tracebacks, each once."""
    import polars

    failed = results.runs.filter(polars.col("error").is_not_null())
    cells = failed.group_by("cell", maintain_order=True).agg(
        polars.col("environment", "policy", "error").first(), polars.col("replication").count()
    )
    parts = [paragraphs("Their tracebacks are kept, and running the experiment again tries them again.")]
    alike = cells.partition_by("error", maintain_order=True)
    for part in alike[:_TRACEBACKS]:
        last = part["error"][0].strip().splitlines()[-1]
        where = [[row["environment"], row["policy"], str(row["replication"])] for row in part.head(20).to_dicts()]
        inside = table(["environment", "policy", "runs"], where, words=True)
        if part.height > 20:
            inside += paragraphs(f"And {part.height - 20} more.")
        inside += preformatted(part["error"][0].strip())
        parts.append(folded(f"{part.height} cell{'s' if part.height > 1 else ''}: {last}", inside))
    if len(alike) > _TRACEBACKS:
        parts.append(
            paragraphs(f"{len(alike) - _TRACEBACKS} other tracebacks are left out here; Results.runs has all.")
        )
    return "".join(parts)


def times(results: Results) -> str:
    """Return how long the policies took."""
    import polars

    played = results.runs.filter(polars.col("error").is_null() & polars.col("seconds").is_not_null())
    rows = [
        [row["policy"], str(row["runs"]), short(row["seconds"]), short(row["rounds"])]
        for row in played.group_by("policy", maintain_order=True)
        .agg(
            polars.len().alias("runs"),
            polars.col("seconds").mean(),
            polars.col("rounds_per_second").median().alias("rounds"),
        )
        .iter_rows(named=True)
    ]
    return table(["policy", "runs", "seconds a run", "rounds a second"], rows) if rows else ""


def origins(results: Results) -> str:
    """Return which versions, machines and seed the numbers come from."""
    runs, about = results.runs, results.manifest
    rows = [["seed", str(about.seed)], ["code", about.code]]
    for name in ("python", "numpy", "numba", "scipy", "polars", "engine", "host"):
        found = runs[name].drop_nulls().unique(maintain_order=True).to_list()
        if found:
            rows.append([name, ", ".join(map(str, found[:5])) + (f" and {len(found) - 5} more" if found[5:] else "")])
    started = runs["started"].drop_nulls().sort().to_list()
    if started:
        first, last = (f"{when:%Y-%m-%d %H:%M} UTC" for when in (started[0], started[-1]))
        rows.append(["played", first if first == last else f"{first} to {last}"])
        rows.append(["time of all runs", f"{short(float(runs['seconds'].sum()))} s"])
    return table(["what", "which"], rows, words=True)


def seeds(results: Results) -> str:
    """Return the seeds of environments and policies, which follow from the root seed and what they are called."""
    columns = ("environment", "policy", "environment_seed", "policy_seed")
    shown = results.runs.select(columns).unique(["environment", "policy"], maintain_order=True, keep="first")
    rows = [[str(cell) for cell in row] for row in shown.head(_SEEDS).iter_rows()]
    said = "Every seed follows from the root seed and the names of what it is for."
    if results.manifest.redraw:
        said += " Instances are drawn anew in each replication; the first one's seed is shown."
    if shown.height > _SEEDS:
        said += f" {shown.height - _SEEDS} more pairs are left out here; Results.runs has all."
    return paragraphs(said) + table(
        ["environment", "policy", "seed of the rewards", "seed of the policy"], rows, words=True
    )


def toml_text(definition: Mapping[str, Any]) -> str:
    """Return a definition as the text of a TOML file; what is None is left out.

    Examples
    --------
    >>> print(toml_text({"horizon": [10, 20], "policies": ["ucb"], "environments": [{"instance": "random", "n": 5}]}))
    horizon = [10, 20]
    policies = ["ucb"]
    <BLANKLINE>
    [[environments]]
    instance = "random"
    n = 5
    """
    plain, tables = [], []
    for key, value in definition.items():
        if isinstance(value, Mapping):
            tables.append("\n".join([f"[{_key(key)}]", *_pairs(value)]))
        elif isinstance(value, Sequence) and value and all(isinstance(one, Mapping) for one in value):
            tables += ["\n".join([f"[[{_key(key)}]]", *_pairs(one)]) for one in value]
        elif value is not None:
            plain += _pairs({key: value})
    return "\n\n".join(["\n".join(plain), *tables]).strip()


def _pairs(values: Mapping[str, Any]) -> list[str]:
    lines = []
    for key, value in values.items():
        if value is None:
            continue
        line = f"{_key(key)} = {_value(value)}"
        if len(line) > _LINE and isinstance(value, list):
            line = "\n".join([f"{_key(key)} = [", *(f"  {_value(one)}," for one in value), "]"])
        lines.append(line)
    return lines


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else json.dumps(name, ensure_ascii=False)


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_key(key)} = {_value(one)}" for key, one in value.items() if one is not None) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_value, value)) + "]"
    if isinstance(value, float) and not isinstance(value, bool):
        return str(value)
    return json.dumps(value, ensure_ascii=False)
