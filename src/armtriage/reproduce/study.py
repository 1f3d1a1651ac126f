"""What a study is: what is played, tables of the results, claims about the tables, figures and text."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

import polars

from armtriage.experiments import Experiment, Results

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Size = Literal["tiny", "quick", "full"]
SIZES: tuple[Size, ...] = ("tiny", "quick", "full")
SEED = 7
LEVEL, STRICT = 0.95, 0.99  # of intervals, and of those where a part is looked at in several places
_OF_PAPER = re.compile(r"Theorem|Lemma \d|lemma of Algorithm|greedy lemma|proof|appendix|the paper cites")
SOURCE, DELTA = "this library", 0.05  # of claims about certificates of our own
REDRAWN: Mapping[str, Any] = {"redraw": True, "block": 2}
Tables = Mapping[str, polars.DataFrame]
Played = Mapping[str, Results]
"""The results of a study's experiments, by their names."""
Row = Mapping[str, Any]
Rows = Sequence[Row]
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
        Whether they agree; None if the numbers do not settle it at this size.
    claims : bool
        False where nothing is claimed, and the row says what something costs.
    """

    claim: str
    source: str
    predicted: str
    measured: str
    verdict: str
    agrees: bool | None
    claims: bool = True

    @property
    def of_paper(self) -> bool:
        """Whether the source is a theorem, a lemma, a proof or an appendix of the paper, as printed or repaired.

        Examples
        --------
        >>> [Finding("c", s, "p", "m", "v", True).of_paper for s in ("Theorem 1, repaired constants", "this library")]
        [True, False]
        """
        return self.claims and bool(_OF_PAPER.search(self.source))


class Verdict(NamedTuple):
    """What the rows of a table say of a claim; with an `opening` nothing is claimed, and the verdict begins with it.

    Examples
    --------
    >>> Verdict("none differs", "3 differ", False, "3 of 8 runs differ").text
    'Does not agree: 3 of 8 runs differ.'
    """

    predicted: str
    measured: str
    agrees: bool | None
    because: str = ""
    opening: str = ""

    @property
    def text(self) -> str:
        """One sentence: whether they agree, and why."""
        said = self.opening or {True: "Agrees", False: "Does not agree", None: "Undecided"}[self.agrees]
        return f"{said}: {self.because}." if self.because else f"{said}."


@dataclass(frozen=True)
class Claim:
    """What is asserted of the rows of a table, and how they are judged.

    Attributes
    ----------
    table : str or sequence of str
        The name of the table, or of several whose rows are judged together.
    words, source : str or callable
        What is claimed, and where. Columns of the first row may stand in braces, and `places`, the number of rows; a
        callable gets that row.
    judge : callable
        Takes the rows.
    by : str or sequence of str
        Columns: the claim is made once for each of their values.
    where : polars.Expr
        The rows that it is about; by default all.
    order : str
        A column that they are sorted by; by default they stay as they are.

    Examples
    --------
    >>> table = polars.DataFrame({"policy": ["ucb", "ucb", "greedy"], "mean": [1.0, 2.0, 9.0]})
    >>> small = lambda rows: Verdict("below 5", f"{rows[-1]['mean']}", rows[-1]["mean"] < 5)
    >>> claim = Claim("regret", "{policy} loses little, in {places} places", "Theorem 0", small, "policy")
    >>> [(one.claim, one.verdict) for one in claim.findings({"regret": table})]
    [('ucb loses little, in 2 places', 'Agrees.'), ('greedy loses little, in 1 places', 'Does not agree.')]
    """

    table: str | Sequence[str]
    words: str | Callable[[Row], str]
    source: str | Callable[[Row], str]
    judge: Callable[[Rows], Verdict]
    by: str | Sequence[str] = ()
    where: polars.Expr | None = None
    order: str = ""

    def findings(self, tables: Tables) -> list[Finding]:
        """Return what the table says, once for each part of it."""
        names = [self.table] if isinstance(self.table, str) else self.table
        table = polars.concat([tables[name] for name in names])
        table = table if self.where is None else table.filter(self.where)
        table = table.sort(self.order, maintain_order=True) if self.order else table
        parts = table.partition_by(self.by, maintain_order=True) if self.by else [table]
        return [self._finding(part.to_dicts()) for part in parts]

    def _finding(self, rows: Rows) -> Finding:
        about = {**rows[0], "places": len(rows)} if rows else {}
        claim, source = (one(about) if callable(one) else one.format_map(about) for one in (self.words, self.source))
        found = self.judge(rows)
        return Finding(claim, source, found.predicted, found.measured, found.text, found.agrees, not found.opening)


class Chart(NamedTuple):
    """A figure: the name of its files, a caption, a function that draws it, and what it is signed with."""

    name: str
    caption: str
    draw: Callable[[], Axes]
    origin: str


class Report(NamedTuple):
    """What a study has to say: its title, text, findings, figures, and tables by name."""

    title: str
    paragraphs: Sequence[str]
    findings: Sequence[Finding]
    charts: Sequence[Chart]
    tables: Tables


class Study:
    """A study of a size: a subclass declares what is played, the tables, the claims about them, and figures.

    Its docstring has the text of its page, all but the first line; what the scale says, and constants beside the class,
    may stand in braces there.

    Attributes
    ----------
    name, title : str
        What it is called on the command line, such as "gap-rates", and on the page.
    sizes : mapping of str to Scale
        How large it is in each size.
    claims : sequence of Claim
        What is asserted of the tables.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    sizes: ClassVar[Mapping[str, Scale]]
    claims: ClassVar[Sequence[Claim]]

    def __init__(self, size: Size) -> None:
        self.size, self.scale = size, self.sizes[size]

    def plans(self) -> Mapping[str, Mapping[str, Any]]:
        """Return the arguments of its experiments, by their names; see `plan`."""
        raise NotImplementedError

    def tables(self, results: Played) -> Tables:
        """Return tables of the results, by name."""
        raise NotImplementedError

    def charts(self, results: Played, tables: Tables) -> Sequence[Chart]:
        """Return the figures."""
        raise NotImplementedError

    def experiments(self) -> dict[str, Experiment]:
        """Return the experiments, by name."""
        plans = self.plans()
        names = {plan: f"{self.name}-{plan}" if len(plans) > 1 else self.name for plan in plans}
        return {plan: Experiment(name=names[plan], seed=SEED, **given) for plan, given in plans.items()}

    @classmethod
    def findings(cls, tables: Tables) -> list[Finding]:
        """Return what the tables say of the claims."""
        return [one for claim in cls.claims for one in claim.findings(tables)]

    @property
    def text(self) -> list[str]:
        """The paragraphs of its page."""
        known = {**vars(sys.modules[type(self).__module__]), **vars(self.scale)}
        _, *paragraphs = inspect.cleandoc(type(self).__doc__ or "").split("\n\n")
        return [" ".join(one.split()).format_map(known) for one in paragraphs]

    def report(self, results: Played) -> Report:
        """Return what the results say."""
        tables = self.tables(results)
        return Report(self.title, self.text, self.findings(tables), self.charts(results, tables), tables)


def plan(worlds: Any, policies: Any, horizon: Any, runs: int, *, checkpoints: Any = 1, **rest: Any) -> dict[str, Any]:
    """Return the arguments of an experiment; by default it keeps the regret at the end alone."""
    given = {"environments": worlds, "policies": policies, "horizon": horizon, "replications": runs}
    return {**given, "checkpoints": checkpoints, **rest}


def of(*policies: str) -> polars.Expr:
    """Return which rows are about these policies."""
    return polars.col("policy").is_in(policies)
