"""What a study of a claim is: experiments to run, and a report whose sentences are worked out from their numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import polars

from armtriage import plots
from armtriage.experiments import Experiment, Results
from armtriage.plots.style import counted
from armtriage.simulation.comparison import short

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "LEVEL",
    "SEED",
    "SIZES",
    "Chart",
    "Finding",
    "Report",
    "Scale",
    "Size",
    "Study",
    "Tables",
    "chart",
    "finding",
    "measured",
    "times",
    "told",
]

Size = Literal["tiny", "quick", "full"]
SIZES: tuple[Size, ...] = ("tiny", "quick", "full")
SEED = 7
LEVEL = 0.95
Tables = Mapping[str, polars.DataFrame]
Scale = SimpleNamespace
"""What differs from size to size: numbers of arms, rounds and runs, by names of the study's own."""


class Finding(NamedTuple):
    """A claim of the paper, and what was measured.

    Attributes
    ----------
    claim : str
        What is claimed, in one line.
    source : str
        Where, such as "Theorem 1".
    predicted, measured : str
        The number that follows from the claim, and the one that was found, with its interval.
    verdict : str
        One sentence, worked out from the numbers.
    agrees : bool or None
        Whether they agree; None if the numbers say nothing at this size.
    """

    claim: str
    source: str
    predicted: str
    measured: str
    verdict: str
    agrees: bool | None


class Chart(NamedTuple):
    """A figure: the name of its files, the axes, and a caption."""

    name: str
    axes: Axes
    caption: str


class Report(NamedTuple):
    """What a study has to say: text, findings, figures, and tables by name."""

    paragraphs: Sequence[str]
    findings: Sequence[Finding]
    charts: Sequence[Chart]
    tables: Tables


@dataclass(frozen=True)
class Study:
    """A study: what is run in each size, and the report on it.

    Attributes
    ----------
    name : str
        What it is called on the command line, such as "gap-rates".
    title : str
        What it is called on the page.
    sizes : mapping of str to Scale
        How large it is in each size.
    plans : callable
        Takes the scale and returns the arguments of its experiments, by their names.
    tables : callable
        Takes their results by name, and the scale; returns tables by name.
    findings : callable
        Takes the tables alone.
    paragraphs : callable
        Takes the tables and the scale, and returns the text.
    charts : callable
        Takes results, tables and scale.
    """

    name: str
    title: str
    sizes: Mapping[str, Scale]
    plans: Callable[[Scale], Mapping[str, Mapping[str, Any]]]
    tables: Callable[[Mapping[str, Results], Scale], Tables]
    findings: Callable[[Tables], list[Finding]]
    paragraphs: Callable[[Tables, Scale], Sequence[str]]
    charts: Callable[[Mapping[str, Results], Tables, Scale], list[Chart]]

    def experiments(self, size: Size) -> dict[str, Experiment]:
        """Return the experiments of a size, by name."""
        plans = self.plans(self.sizes[size])
        names = {plan: f"{self.name}-{plan}" if len(plans) > 1 else self.name for plan in plans}
        return {plan: Experiment(name=names[plan], seed=SEED, **given) for plan, given in plans.items()}

    def report(self, results: Mapping[str, Results], size: Size) -> Report:
        """Return what the results of a size say."""
        scale = self.sizes[size]
        tables = self.tables(results, scale)
        charts = self.charts(results, tables, scale)
        return Report(self.paragraphs(tables, scale), self.findings(tables), charts, tables)


def finding(claim: str, source: str, predicted: str, measured: str, agrees: bool | None, because: str = "") -> Finding:
    """Return a finding whose verdict says whether they agree, and why.

    Examples
    --------
    >>> finding("all runs are alike", "Theorem 0", "none differs", "3 differ", False, "3 of 8 runs differ").verdict
    'Does not agree: 3 of 8 runs differ.'
    """
    verdict = {True: "Agrees", False: "Does not agree", None: "Says nothing"}[agrees]
    return Finding(claim, source, predicted, measured, f"{verdict}: {because}." if because else f"{verdict}.", agrees)


def measured(row: Mapping[str, Any], value: str = "mean", words: Callable[[float], str] = short) -> str:
    """Return a number of a table's row with its interval, in words; the ends are in `low` and `high`.

    Examples
    --------
    >>> measured({"mean": 1234.5, "low": 1200.0, "high": 1269.0})
    '1,234 (1,200 to 1,269)'
    """
    return _with_ends(row[value], row["low"], row["high"], words)


def times(row: Mapping[str, Any]) -> str:
    """Return the ratio of a row of `Results.differences`, with its interval, in words.

    Examples
    --------
    >>> times({"ratio": 2.0, "ratio_low": 1.9, "ratio_high": 2.125})
    '2.00 times (1.90 to 2.12)'
    """
    return _with_ends(row["ratio"], row["ratio_low"], row["ratio_high"], lambda one: f"{one:.2f}", " times")


def _with_ends(
    value: float | None, low: float | None, high: float | None, words: Callable[[float], str], unit: str = ""
) -> str:
    if value is None:
        return "none"
    ends = "no interval" if low is None or high is None else f"{words(low)} to {words(high)}"
    return f"{words(value)}{unit} ({ends})"


def told(row: Mapping[str, Any]) -> bool | None:
    """Return whether the ratio of a row of `Results.differences` is above 1; None if its interval does not tell.

    Examples
    --------
    >>> told({"ratio_low": 1.1, "ratio_high": None}), told({"ratio_low": 0.9, "ratio_high": 1.2})
    (True, None)
    """
    if row["ratio_low"] is not None and row["ratio_low"] > 1.0:
        return True
    return False if row["ratio_high"] is not None and row["ratio_high"] < 1.0 else None


def chart(
    results: Results, ax: Axes, name: str, caption: str, runs: Iterable[int] = (), shown: str = f"{LEVEL:.0%} intervals"
) -> Chart:
    """Return a figure, signed with what is shown, the number of runs, the seed and the code."""
    about = results.manifest
    plots.sign(ax, f"{shown}; {counted(list(runs) or [about.replications])}, seed {about.seed}", about.code)
    return Chart(name, ax, caption)
