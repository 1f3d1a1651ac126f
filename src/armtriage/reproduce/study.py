"""What a study of a claim is: experiments to run, and a report whose sentences are worked out from their numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from armtriage import plots
from armtriage.experiments.experiment import Experiment
from armtriage.experiments.results import Results
from armtriage.plots._sources import counted
from armtriage.plots._style import short

if TYPE_CHECKING:
    import polars
    from matplotlib.axes import Axes

__all__ = [
    "LEVEL",
    "ROOM",
    "SEED",
    "SIZES",
    "Chart",
    "Finding",
    "Report",
    "Size",
    "Study",
    "chart",
    "power",
    "power_finding",
    "spread",
    "times",
]

Size = Literal["tiny", "quick", "full"]
SIZES: tuple[Size, ...] = ("tiny", "quick", "full")
SEED = 7
LEVEL = 0.95
ROOM = 0.05
"""How far a fitted power may lie from the predicted one, beyond its interval: rates leave out logarithms."""


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
    tables: Mapping[str, polars.DataFrame]


@dataclass(frozen=True)
class Study:
    """A study: what is run in each size, and the report on it.

    Attributes
    ----------
    name : str
        What it is called on the command line, such as "gap-rates".
    title : str
        What it is called on the page.
    experiments : callable
        Takes a size and returns experiments by name; there may be none.
    report : callable
        Takes their results by name, and the size; returns a `Report`.
    """

    name: str
    title: str
    experiments: Callable[[Size], Mapping[str, Experiment]]
    report: Callable[[Mapping[str, Results], Size], Report]


def spread(row: Mapping[str, Any], value: str = "mean") -> str:
    """Return a number of a table's row with its interval, in words; the ends are in `low` and `high`.

    Examples
    --------
    >>> spread({"mean": 1234.5, "low": 1200.0, "high": 1269.0})
    '1,234 (1,200 to 1,269)'
    """
    return _with_ends(row[value], row["low"], row["high"], short)


def times(row: Mapping[str, Any]) -> str:
    """Return the ratio of a row of `Results.differences`, with its interval, in words.

    Examples
    --------
    >>> times({"ratio": 2.0, "ratio_low": 1.9, "ratio_high": 2.125})
    '2.00 times (1.90 to 2.12)'
    """
    return _with_ends(row["ratio"], row["ratio_low"], row["ratio_high"], lambda one: f"{one:.2f}", " times")


def power(row: Mapping[str, Any]) -> str:
    """Return the slope of a row of `Results.slopes`, with its interval, in words.

    Examples
    --------
    >>> power({"slope": 0.512, "low": 0.49, "high": 0.534})
    '0.51 (0.49 to 0.53)'
    """
    return _with_ends(row["slope"], row["low"], row["high"], lambda one: f"{one:.2f}")


def _with_ends(
    value: float | None, low: float | None, high: float | None, words: Callable[[float], str], unit: str = ""
) -> str:
    if value is None:
        return "none"
    if low is None or high is None:
        return f"{words(value)}{unit} (no interval)"
    return f"{words(value)}{unit} ({words(low)} to {words(high)})"


def power_finding(
    claim: str,
    source: str,
    row: Mapping[str, Any],
    predicted: float,
    *,
    whole: float | None = None,
    side: Literal["equal", "at most", "at least"] = "equal",
    room: float = ROOM,
    why: str = "",
    known: bool = True,
) -> Finding:
    """Return the finding about a fitted power; it agrees if its interval, widened by `room`, holds the predicted one.

    Parameters
    ----------
    claim, source : str
        See `Finding`.
    row : mapping
        Of `Results.slopes`: slope, low and high.
    predicted : float
        The power of the theorem.
    whole : float, optional
        The power by which the bound itself grows over the same points, with the logarithms and the smaller terms that a
        rate leaves out; what lies between the two agrees as well.
    side : {"equal", "at most", "at least"}
        Whether the theorem has the power itself, or bounds it.
    room : float
        How far off counts as agreement.
    why : str
        The reason, if one is known, in case they disagree: a sentence.
    known : bool
        Whether the size of the study lets the power be seen at all.

    Examples
    --------
    >>> row = {"slope": 0.61, "low": 0.6, "high": 0.62}
    >>> finding = power_finding("grows as sqrt(T)", "Theorem 3", row, 0.5, whole=0.52)
    >>> finding.agrees, finding.predicted, finding.verdict
    (False, 'power 0.50, or 0.52 with all terms', 'Does not agree: the power is larger by 0.09.')
    """
    least, most = (predicted, predicted) if whole is None else (min(predicted, whole), max(predicted, whole))
    aim = f"power {predicted:.2f}" if side == "equal" else f"power {side} {predicted:.2f}"
    aim += "" if whole is None else f", or {whole:.2f} with all terms"
    said = (claim, source, aim, f"power {power(row)}")
    slope, low, high = row["slope"], row["low"], row["high"]
    if slope is None or not known:
        return Finding(*said, f"Says nothing at this size.{_after(why)}", None)
    low, high = (slope if low is None else low) - room, (slope if high is None else high) + room
    above, below = low > most and side != "at least", high < least and side != "at most"
    if above or below:
        apart = f"larger by {slope - most:.2f}" if above else f"smaller by {least - slope:.2f}"
        return Finding(*said, f"Does not agree: the power is {apart}.{_after(why)}", False)
    if low > most or high < least:
        return Finding(*said, f"Agrees: {'less' if side == 'at most' else 'more'} than the theorem says.", True)
    if least < slope < most:
        return Finding(*said, "Agrees: the power lies between the two.", True)
    return Finding(*said, f"Agrees: the power is off by {max(slope - most, least - slope):.2f}.", True)


def _after(why: str) -> str:
    return f" {why}" if why else ""


def chart(
    results: Results, ax: Axes, name: str, caption: str, runs: Iterable[int] = (), shown: str = "intervals"
) -> Chart:
    """Return a figure, signed with what is shown, the number of runs, the seed and the code."""
    about = results.manifest
    said = f"{100 * LEVEL:.4g}% intervals" if shown == "intervals" else shown
    plots.sign(ax, f"{said}; {counted(list(runs) or [about.replications])}, seed {about.seed}", about.code)
    return Chart(name, ax, caption)
