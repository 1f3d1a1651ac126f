"""Results: the tables of an experiment, and what can be said from them with an interval."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from armtriage._arguments import check_choice, check_count, check_probability
from armtriage._numbers import counted
from armtriage._tables import html_table, latex_table
from armtriage.experiments.cells import Cell
from armtriage.experiments.folder import Folder
from armtriage.experiments.manifest import MAX_CELLS
from armtriage.experiments.statistics import INTERVALS, slope_interval
from armtriage.experiments.tables import (
    Runs,
    beside,
    certificate_row,
    difference_row,
    joined,
    mean_row,
    options_table,
    plays_table,
    read_runs,
)
from armtriage.simulation.trace import Trace

if TYPE_CHECKING:
    import polars

_SHOWN = 20  # rows of the overview
_HEAD = ("environment", "policy", "rounds", "runs", "mean regret", "95% interval")


class Results:
    """The results of an experiment, as tables; made by `Experiment.run` and `Results.load`.

    All tables list the environments and policies in the order of the experiment, whatever the order of play. Cells
    that failed or are missing have no rows of regret, and every number says how many runs it is made of. Options are
    columns, such as ``environment.n_arms`` and ``policy.delta``: null where they were not given, and text where they
    are neither all numbers nor all truth values.

    Attributes
    ----------
    manifest
        What the experiment is: its name, seed, code, environments, policies, replications, checkpoints, definition.
    runs : polars.DataFrame
        One row for each run, also of cells that failed: environment, policy, replication, cell, committed_at (null:
        never), seconds (its share of the cell's), rounds_per_second, environment_seed, policy_seed, seed (the root),
        version, code, python, numpy, numba, scipy, polars, host, engine, started, error (the traceback of a failed
        cell).
    missing, failed, stale : int
        Cells that are not there yet; that failed when they were last played; and that are in the folder, but not of
        this experiment: it was changed, or the code was.

    Examples
    --------
    >>> from armtriage import Experiment
    >>> experiment = Experiment(
    ...     {"few": "random:n_arms=5,budget=2", "many": "random:n_arms=20,budget=2"},
    ...     ["greedy", "random"], horizon=1000, replications=8, seed=7,
    ... )
    >>> results = experiment.run()
    >>> results
    Results of 'experiment': 2 environments, 2 policies, 8 replications, seed 7
                rounds  runs   mean regret  95% interval
    few
      greedy      1000     8 ...
      random      1000     8 ...
    many
      greedy      1000     8 ...
      random      1000     8 ...
    >>> results.regret.select("environment.n_arms", "policy", "replication", "round").row(-1)
    (20, 'random', 7, 1000)
    """

    def __init__(self, folder: Folder, max_cells: int = MAX_CELLS) -> None:
        self.manifest = folder.manifest()
        if self.manifest.size > check_count("max_cells", max_cells, 1):
            say = f"max_cells must be at least the {self.manifest.size:,} cells of {folder.path}"
            raise ValueError(f"{say}, got {max_cells:,}")
        cells, records = self.manifest.cells, folder.records()
        whole = folder.whole(cells, records)
        latest = {record["cell"]: record for record in records}
        failed = {name: record for name, record in latest.items() if record["error"] and name not in whole}
        played = {record["cell"]: record for record in records if not record["error"]} | failed
        there = [cell for cell in cells if cell.id in whole]
        runs = {cell.id: one for cell, one in zip(there, read_runs(folder, there, played), strict=True)}
        known = [cell for cell in cells if cell.id in runs or cell.id in failed]
        self.runs: polars.DataFrame = plays_table(known, runs, played)
        self.missing, self.failed = len(cells) - len(known), len(known) - len(runs)
        self.stale = len(folder.ids() - {cell.id for cell in cells})
        self._blocks = len(cells) // len(self.manifest.pairs)
        groups = (cells[first : first + self._blocks] for first in range(0, len(cells), self._blocks))
        self._pairs = [joined([runs[cell.id] for cell in group if cell.id in runs]) for group in groups]
        self._options = options_table(self.manifest)

    @classmethod
    def load(cls, folder: str | os.PathLike[str], *, max_cells: int = MAX_CELLS) -> Self:
        """Return the results that a folder holds so far; the code that made them is not needed.

        Parameters
        ----------
        folder : path
            The folder.
        max_cells : int
            An experiment of more cells is refused with its size.

        Raises
        ------
        FileNotFoundError
            If it is not the folder of an experiment.
        DamagedFile
            If it was altered in a way that cannot be mended by playing cells again.
        """
        try:
            import polars  # noqa: F401
        except ImportError as error:
            raise ImportError("results need polars: pip install 'armtriage[experiments]'") from error
        return cls(Folder(folder), max_cells)

    @property
    def name(self) -> str:
        """What the experiment is called."""
        return self.manifest.name

    @cached_property
    def regret(self) -> polars.DataFrame:
        """The cumulative regret, one row for each checkpoint of each run: options, replication, round, regret.

        If the experiment keeps certificates, they stand beside it in `certificate`.
        """
        import polars

        empty = Runs(*(np.empty(0, np.int64),) * 2, np.empty((0, 0)), np.empty(0, np.int64), 0)
        pairs = [runs or empty for runs in self._pairs]
        places = np.repeat(np.arange(len(pairs)), [runs.regret.size for runs in pairs])
        replications = np.concatenate([np.repeat(runs.replications, runs.rounds.size) for runs in pairs])
        rounds = np.concatenate([np.tile(runs.rounds, runs.replications.size) for runs in pairs])
        regret = np.concatenate([runs.regret.ravel() for runs in pairs])
        columns = {"replication": replications, "round": rounds, "regret": regret}
        if self.manifest.certificate:
            kept = [one.ravel() for runs in pairs if (one := runs.certificate) is not None]
            columns["certificate"] = np.concatenate([np.empty(0), *kept])
        return self._options[places].with_columns(polars.Series(*one) for one in columns.items())

    def summary(
        self, *, level: float = 0.95, interval: str = "t", at: int | None = None, baseline: str | None = None
    ) -> polars.DataFrame:
        """Return a row for each policy in each environment: its mean regret, with an interval.

        Parameters
        ----------
        level : float
            How often the interval holds the mean that endless replications would have.
        interval : {"t", "bootstrap"}
            Student's t; or the studentised bootstrap, which is wider but right for skewed regrets, where t covers too
            little and other bootstraps even less. It is seeded, and says nothing from 3 runs or fewer.
        at : int, optional
            After how many rounds, one of the checkpoints; by default the last.
        baseline : str, optional
            A policy that the others are held against, replication by replication.

        Returns
        -------
        polars.DataFrame
            The columns of labels and options, round, runs, mean, low, high, std; the mean certificate if the experiment
            keeps them; with a baseline also difference, difference_low, difference_high and ratio, as in
            `differences`. What cannot be told is null, such as the interval of a single run.

        Examples
        --------
        >>> from armtriage import Experiment
        >>> results = Experiment(["random:n_arms=5,budget=2"], ["greedy"], horizon=100, replications=8, seed=7).run()
        >>> results.summary().select("policy", "round", "runs", "mean", "low", "high").rows()
        [('greedy', 100, 8, ..., ..., ...)]
        """
        samples = self._samples(at, level, interval)
        rows = [mean_row(one, level, interval) for one in samples]
        if baseline is not None:
            for row, pair in zip(rows, self._paired(samples, baseline, level, interval), strict=True):
                row |= {"difference": pair.get("difference"), "ratio": pair.get("ratio")}
                row |= {f"difference_{end}": pair.get(end) for end in ("low", "high")}
        added: tuple[str, ...] = ("certificate",) if self.manifest.certificate else ()
        added += ("difference", "difference_low", "difference_high", "ratio") if baseline is not None else ()
        return beside(self._options, rows, "round", "runs", "mean", "low", "high", "std", *added)

    def differences(
        self, baseline: str, *, level: float = 0.95, interval: str = "t", at: int | None = None
    ) -> polars.DataFrame:
        """Return how much more regret than a baseline each policy has, replication by replication.

        All policies of a replication meet the same rewards, so chance that helps or hurts both drops out, and the
        interval of the difference is often far sharper than those of the two means suggest.

        Parameters
        ----------
        baseline : str
            The label of the policy that the others are held against, in every environment that it plays in.
        level, interval, at
            See `summary`.

        Returns
        -------
        polars.DataFrame
            The columns of labels and options, round, runs (that both have), difference (of the means, below 0 if the
            policy has less regret), low, high, better (share of the replications with less regret), ratio (of the
            means), ratio_low, ratio_high. The interval of the ratio is Fieller's, with Student's t or with the
            bootstrap; an end that it does not have is null.

        Examples
        --------
        >>> from armtriage import Experiment
        >>> results = Experiment(
        ...     ["random:n_arms=5,budget=2"], ["greedy", "random"], horizon=1000, replications=8, seed=7
        ... ).run()
        >>> results.differences("random").select("policy", "runs", "better").rows()
        [('greedy', 8, 1.0)]
        """
        rows = self._paired(self._samples(at, level, interval), baseline, level, interval)
        others = [place for place, row in enumerate(rows) if row and self._labels[place][1] != baseline]
        names = ("round", "runs", "difference", "low", "high", "better", "ratio", "ratio_low", "ratio_high")
        return beside(self._options[others], [rows[place] for place in others], *names)

    def certificates(self, *, level: float = 0.95, interval: str = "t", at: int | None = None) -> polars.DataFrame:
        """Return the mean certificate of each policy in each environment, beside what was truly lost.

        Parameters
        ----------
        level, interval, at
            See `summary`.

        Returns
        -------
        polars.DataFrame
            The columns of labels and options, round, runs, certificate, ratio (of the mean certificate to the mean
            regret), ratio_low, ratio_high, exceeded (runs that lost more than their certificate says, at any
            checkpoint).

        Raises
        ------
        ValueError
            If the experiment keeps no certificates.

        Examples
        --------
        >>> from armtriage import Experiment
        >>> experiment = Experiment(
        ...     ["random:n_arms=5,budget=2"], ["guarded_thompson"],
        ...     horizon=1000, replications=8, seed=7, certificate=True,
        ... )
        >>> experiment.run().certificates().select("policy", "runs", "exceeded").rows()
        [('guarded_thompson', 8, 0)]
        """
        if not self.manifest.certificate:
            raise ValueError("certificate must be given to the experiment, for its results to have certificates")
        samples = self._samples(at, level, interval)
        rows = [certificate_row(*one, level, interval) for one in zip(samples, self._pairs, strict=True)]
        names = ("round", "runs", "certificate", "ratio", "ratio_low", "ratio_high", "exceeded")
        return beside(self._options, rows, *names)

    def scaling(
        self,
        parameter: str,
        *,
        by: Sequence[str] | None = None,
        level: float = 0.95,
        interval: str = "t",
        at: int | None = None,
    ) -> polars.DataFrame:
        """Return how the mean regret of each policy changes with a parameter of the environments.

        Parameters
        ----------
        parameter : str
            ``"horizon"``, or a column with numbers such as ``"environment.n_arms"``. Environments without it are left
            out.
        by : sequence of str, optional
            Columns that tell one line from another; by default all in which environments differ besides.
        level, interval, at
            See `summary`.

        Returns
        -------
        polars.DataFrame
            policy, those columns, the parameter, mean, low, high, runs; in the order of the parameter.

        Examples
        --------
        >>> from armtriage import Experiment
        >>> env = {"instance": "random", "n_arms": 5, "budget": 2, "seed": 1}
        >>> results = Experiment([env], ["random"], horizon=[100, 1000], replications=8, seed=7).run()
        >>> results.scaling("horizon").columns
        ['policy', 'horizon', 'mean', 'low', 'high', 'runs']
        """
        by, lines = self._lines(parameter, by)
        table = self.summary(level=level, interval=interval, at=at)
        order = [place for line in lines for place in line["place"].to_list()]
        return table[order].select("policy", *by, parameter, "mean", "low", "high", "runs")

    def slopes(
        self, parameter: str, *, by: Sequence[str] | None = None, level: float = 0.95, at: int | None = None
    ) -> polars.DataFrame:
        """Return by which power of a parameter the mean regret of each policy grows.

        It is the slope of the line through the logarithms of the means by least squares. Its interval is that of the
        replications: the errors of the means, carried over to the slope to first order, with Student's t. Whether it
        is a line, a plot shows. Each environment is an instance of its own; how it was drawn is not part of the
        interval, unless the experiment has ``redraw=True``, or a `seed` that makes them alike.

        Parameters
        ----------
        parameter, by, level, at
            See `scaling`.

        Returns
        -------
        polars.DataFrame
            policy, the columns of `by`, slope, low, high, points; null where a mean is not above 0, or one alone.

        Examples
        --------
        >>> import polars
        >>> from armtriage import Experiment
        >>> env = {"instance": "random", "n_arms": 5, "budget": 2, "seed": 1}
        >>> results = Experiment([env], ["random"], horizon=[100, 1000, 10_000], replications=8, seed=7).run()
        >>> results.slopes("horizon").select("policy", polars.col("slope").round(1), "points").rows()
        [('random', 1.0, 3)]
        """
        import polars

        samples = self._samples(at, level, "t")
        by, lines = self._lines(parameter, by)
        rows: list[dict[str, Any]] = []
        for line in lines:
            if (least := min(line[parameter].to_list())) <= 0:
                raise ValueError(f"{parameter} must be above 0 to have a logarithm, got {least}")
            line = line.filter([samples[place] is not None for place in line["place"]])
            chosen = [one for place in line["place"] if (one := samples[place]) is not None]
            values, numbers = [one.regret[:, 0] for one in chosen], [one.replications for one in chosen]
            shared = [self._cell(place).environment_seed(0) for place in line["place"]]
            ends = slope_interval(line[parameter], values, numbers, shared, level) if chosen else (math.nan,) * 3
            rows.append(dict(zip(("slope", "low", "high"), ends, strict=True)) | {"points": len(chosen)})
        heads = polars.concat([line.head(1) for line in lines]).select("policy", *by)
        return beside(heads, rows, "slope", "low", "high", "points")

    def traces(self, environment: str | None = None) -> dict[str, Trace]:
        """Return the runs of each policy in an environment, by its label, for the plots.

        Parameters
        ----------
        environment : str, optional
            Its label; needed where there are several.

        Examples
        --------
        >>> from armtriage import Experiment
        >>> results = Experiment(["random:n_arms=5,budget=2"], ["greedy"], horizon=100, replications=8, seed=7).run()
        >>> results.traces()["greedy"]
        Trace of greedy: 5 arms, 8 runs, ...
        """
        labels = tuple(one.label for one in self.manifest.environments)
        if environment is None and len(labels) > 1:
            raise ValueError(f"environment must be one of {', '.join(labels)}, got None")
        environment = check_choice("environment", labels[0] if environment is None else environment, labels)
        made = {}
        for place, runs in enumerate(self._pairs):
            if runs is not None and self._labels[place][0] == environment:
                cell, policy = self._cell(place), self._labels[place][1]
                seed = None if cell.redraw else cell.environment_seed(0)
                made[policy] = Trace(
                    rounds=runs.rounds,
                    regret=runs.regret,
                    committed_at=runs.committed_at,
                    decisions=None,
                    triage=None,
                    policy=policy,
                    n_arms=runs.n_arms,
                    seed=cell.policy_seed,
                    environment_seed=seed,
                    first_replication=int(runs.replications[0]),
                    certificate=runs.certificate,
                )
        return made

    @cached_property
    def _labels(self) -> list[tuple[str, str]]:
        environments, policies = self.manifest.environments, self.manifest.policies
        return [(environments[one].label, policies[other].label) for one, other in self.manifest.pairs]

    def _cell(self, place: int) -> Cell:
        """Return the first cell of a pair."""
        return self.manifest.cells[place * self._blocks]

    def _samples(self, at: int | None, level: float, interval: str) -> list[Runs | None]:
        """Return the regrets of each pair, None where there are none."""
        check_probability("level", level)
        check_choice("interval", interval, INTERVALS)
        if at is not None:
            at = check_count("at", at, 1)
        return [
            None if runs is None else runs.at(at, environment)
            for runs, (environment, _) in zip(self._pairs, self._labels, strict=True)
        ]

    def _paired(
        self, samples: Sequence[Runs | None], baseline: str, level: float, interval: str
    ) -> list[dict[str, Any]]:
        """Return each pair against the baseline's of its environment; nothing where the baseline does not play."""
        check_choice("baseline", baseline, tuple(one.label for one in self.manifest.policies))
        bases = {
            environment: one
            for (environment, policy), one in zip(self._labels, samples, strict=True)
            if policy == baseline
        }
        return [
            difference_row(one, bases[environment], level, interval) if environment in bases else {}
            for (environment, _), one in zip(self._labels, samples, strict=True)
        ]

    def _lines(self, parameter: str, by: Sequence[str] | None) -> tuple[list[str], list[polars.DataFrame]]:
        """Return the columns that tell lines apart, and for each line its pairs by the parameter, with their places."""
        table = self._options.with_row_index("place")
        about = [name for name in table.columns if name == "horizon" or name.startswith("environment.")]
        numbers = [name for name in about if table[name].dtype.is_numeric()]
        check_choice("parameter", parameter, tuple(numbers))
        table = table.drop_nulls(parameter)
        labels = [one.label for one in self.manifest.policies if one.label in table["policy"]]
        by_policy = [table.filter(table["policy"] == label) for label in labels]
        if by is None:
            by = [name for name in about if name != parameter and any(part[name].n_unique() > 1 for part in by_policy)]
        for name in by:
            check_choice("by", name, tuple(about))
        lines = [line for part in by_policy for line in (part.partition_by(by, maintain_order=True) if by else [part])]
        for line in lines:
            if line[parameter].is_duplicated().any():
                say = f"by must tell apart the environments that have the same {parameter}"
                raise ValueError(f"{say}, got {', '.join(by) or 'nothing'}")
        return list(by), [line.sort(parameter) for line in lines]

    def to_pandas(self, **options: Any) -> Any:
        """Return `summary`, with its options, as a frame of pandas; needs the extra ``armtriage[pandas]``."""
        return self.summary(**options).to_pandas()

    def to_latex(self, **options: Any) -> str:
        r"""Return `summary`, with its options, as a tabular for the package booktabs.

        Examples
        --------
        >>> from armtriage import Experiment
        >>> results = Experiment(["random:n_arms=5,budget=2"], ["greedy"], horizon=100, replications=8, seed=7).run()
        >>> print(results.to_latex())
        \begin{tabular}{llrrrl}
        \toprule
        environment & policy & rounds & runs & mean regret & 95\% interval \\
        \midrule
        random:n\_arms=5,budget=2 & greedy & 100 & 8 & ... & ... \\
        \bottomrule
        \end{tabular}
        """
        head = (*_HEAD[:-1], f"{100 * options.get('level', 0.95):.10g}% interval")
        return latex_table(head, self._rows(self.summary(**options)), "llrrrl")

    def _rows(self, table: polars.DataFrame) -> Iterator[tuple[str, ...]]:
        """Yield the rows of a summary as text; of what was not played, there are runs alone."""
        for row in table.iter_rows(named=True):
            labels = row["environment"], row["policy"]
            if row["runs"] == 0:
                yield *labels, "", "0", "", ""
                continue
            alike = "all runs alike" if row["runs"] > 1 else "one run: none"
            spread = alike if row["low"] == row["high"] else f"[{row['low']:.6g}, {row['high']:.6g}]"
            yield *labels, str(row["round"]), str(row["runs"]), f"{row['mean']:.6g}", spread

    def _repr_html_(self) -> str:
        """Return a table for notebooks."""
        title, table = next(self._overview()), self.summary()
        more = f"; the first {_SHOWN} of {table.height} rows" if table.height > _SHOWN else ""
        return html_table(_HEAD, self._rows(table.head(_SHOWN)), title + more)

    def __repr__(self) -> str:
        return "\n".join(self._overview())

    def _overview(self) -> Iterator[str]:
        about = self.manifest
        parts = (
            counted(len(about.environments), "environment"),
            counted(len(about.policies), "policy", "policies"),
            counted(about.replications, "replication"),
        )
        yield f"Results of {self.name!r}: {', '.join(parts)}, seed {about.seed}"
        for count, what in ((self.failed, "failed: see runs"), (self.missing, "missing: run it again")):
            if count:
                yield f"  {counted(count, 'cell')} of {len(about.cells)} {what}"
        width = max(len(one.label) for one in about.policies) + 2
        table, before = self.summary(), ""
        for environment, policy, rounds, runs, mean, spread in (("", "", *_HEAD[2:]), *self._rows(table.head(_SHOWN))):
            if environment != before:
                yield environment
            before, label = environment, f"  {policy}" if policy else ""
            yield f"{label:<{width}}{rounds:>10}{runs:>6}{mean:>14}  {spread}".rstrip()
        if table.height > _SHOWN:
            yield f"... and {table.height - _SHOWN} more: see summary()"
