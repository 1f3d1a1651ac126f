"""Who loses least in each environment of an experiment, and who is tied with it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from armtriage._numbers import short, spread
from armtriage.experiments import Results

if TYPE_CHECKING:
    import polars


class Contest(NamedTuple):
    """One environment: its rows of the summary, and of the differences from a baseline, which may be its best."""

    environment: str
    summary: polars.DataFrame
    differences: polars.DataFrame
    baseline: str
    best: str
    ties: tuple[str, ...]  # whose paired difference from the best may be 0
    sure: bool  # whether there are intervals to tell ties by
    absent: tuple[str, ...]  # who plays here, but has no finished run

    @property
    def verdict(self) -> str:
        """Who loses least, in a sentence."""
        row = next(row for row in self.summary.to_dicts() if row["policy"] == self.best)
        if self.summary.height == 1:
            return f"{self.best} loses {short(row['mean'])} ({spread(row['low'], row['high'])})."
        text = f"{self.best} loses least: {short(row['mean'])} ({spread(row['low'], row['high'])})."
        if not self.sure:
            return f"{text} One run cannot show whether it is better than the others."
        if not self.ties:
            return f"{text} The paired difference is clear of 0 with every other policy."
        named = ", ".join(self.ties[:-1]) + (" and " if self.ties[1:] else "") + self.ties[-1]
        return f"{text} These runs cannot distinguish it from {named}: the paired difference may be 0."


def contests(results: Results, baseline: str | None, level: float) -> list[Contest]:
    """Return the environments that have runs, in the order of the experiment.

    Parameters
    ----------
    results : Results
        What is told of.
    baseline : str, optional
        The policy of the differences, where it has runs; by default and elsewhere the best of each environment.
    level : float
        Level of all intervals.
    """
    import polars

    everything = results.summary(level=level)
    summary = everything.filter(polars.col("runs") > 0)
    absent = everything.filter(polars.col("runs") == 0).select("environment", "policy").rows()
    against: dict[str, dict[str, polars.DataFrame]] = {}

    def differences(base: str, environment: str) -> polars.DataFrame:
        if base not in against:
            table = results.differences(base, level=level).drop_nulls("difference")
            parts = table.partition_by("environment", as_dict=True)
            against[base] = {str(name): part for (name,), part in parts.items()}
            against[base][""] = table.clear()
        return against[base].get(environment, against[base][""])

    made = []
    for part in summary.partition_by("environment", maintain_order=True):
        environment, best = part["environment"][0], part.sort("mean", maintain_order=True)["policy"][0]
        from_best = differences(best, environment)
        known = from_best.drop_nulls("low")
        ties = known.filter(known["low"] <= 0)["policy"].to_list()
        base = best if baseline is None or baseline not in part["policy"] else baseline
        made.append(
            Contest(
                environment,
                summary=part,
                differences=differences(base, environment),
                baseline=base,
                best=best,
                ties=tuple(ties),
                sure=known.height > 0,
                absent=tuple(policy for where, policy in absent if where == environment),
            )
        )
    return made


def winners(made: Sequence[Contest], policies: Sequence[str]) -> list[list[str]]:
    """Return for each policy in how many environments it plays, loses least, and is tied with the least."""
    rows = []
    for policy in policies:
        plays = [one for one in made if policy in one.summary["policy"]]
        first = sum(one.best == policy for one in plays)
        tied = sum(policy in one.ties for one in plays)
        rows.append([policy, str(len(plays)), str(first), str(tied)])
    return rows


def common(labels: Sequence[str]) -> tuple[str, dict[str, str]]:
    """Return what all labels share, and each by what it has besides; nothing is shared where they would be alike.

    Examples
    --------
    >>> common(["random:n_arms=5,budget=2", "random:n_arms=9,budget=2"])
    ('random:budget=2', {'random:n_arms=5,budget=2': 'n_arms=5', 'random:n_arms=9,budget=2': 'n_arms=9'})
    """
    heads = {label.partition(":")[0] for label in labels}
    parts = {label: label.partition(":")[2].split(",") for label in labels}
    shared = [part for part in parts[labels[0]] if all(part in one for one in parts.values())] if labels else []
    names = {label: ", ".join(part for part in one if part not in shared) for label, one in parts.items()}
    if len(heads) > 1 or len(labels) < 2 or not all(names.values()) or len(set(names.values())) < len(names):
        return "", {label: label for label in labels}
    return f"{heads.pop()}:{','.join(shared)}".removesuffix(":"), names
