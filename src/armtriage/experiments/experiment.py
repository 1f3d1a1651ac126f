"""Experiment: policies in environments, many times over, on one machine or many, and never twice."""

from __future__ import annotations

import logging
import os
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Self

from armtriage._arguments import check_choice, check_count
from armtriage.experiments import engines
from armtriage.experiments.cells import Cell, Spec
from armtriage.experiments.folder import Folder
from armtriage.experiments.manifest import MAX_CELLS, Manifest
from armtriage.experiments.plan import Plan, make_plan
from armtriage.experiments.results import Results
from armtriage.simulation.progress import progress_bar

_LOG = logging.getLogger("armtriage")
_Path = str | os.PathLike[str]
_Entries = Sequence[Any] | Mapping[str, Any]
_Progress = bool | Callable[[int, int, int], None]


class Experiment:
    """Policies that play in environments, over grids of their options, in cells that are kept and never played twice.

    Everything is checked before anything is played: each environment and each policy is built once, and every problem
    is told by its key. Seeds go by name, so adding an environment or a policy changes no other number, and all
    policies of a replication meet the same rewards. Needs the extra ``armtriage[experiments]``.

    Parameters
    ----------
    environments : list, or mapping from labels
        Each is text such as ``"random:graph=cliques,n_arms=100,size=10,budget=10"``, or a mapping with an `instance`,
        which is a name, a function that returns an environment, or where it is imported from as ``"module:name"``, and
        its options; besides them a `label`, a `horizon` of its own, and a `seed` that fixes the instance.
        Options are those of the instance's builder. A list is a grid: every combination is an environment. The options
        of a `graph` may stand in a table of its own, with its name as `family`. Functions get their options, and
        `horizon` and `seed` if they take them.
    policies : list, or mapping from labels
        The same, with `policy` as a name, a subclass of `Policy`, or ``"module:name"``. Each plays in all environments
        of its kind: without more, with contexts, or with a set of decisions.
    horizon : int or list of int
        Rounds in a replication.
    replications : int
        Independent repetitions.
    seed : int, optional
        The root of all seeds; None draws a fresh one, kept in `seed`.
    name : str
        What the experiment is called; a folder keeps one of a name.
    checkpoints : int or sequence of int
        At how many rounds, spaced on a log scale, the regret is kept; or after which numbers of rounds.
    block : int
        Replications in a cell, which is what is played, kept and done again as a whole.
    redraw : bool
        Draw new instances in each replication, instead of once.
    certificate : bool or float
        Keep a bound on the regret beside it, from pulls and rewards alone; see `armtriage.simulate`. Not for contexts
        and sets of decisions.
    max_cells : int
        An experiment of more cells is refused with its size, before any grid is written out.

    Examples
    --------
    >>> from armtriage import Experiment
    >>> experiment = Experiment(
    ...     [{"instance": "random", "n_arms": [5, 10], "budget": 2}],
    ...     ["comb_ucb1", {"policy": "elimination", "delta": [0.01, 0.1], "label": "elimination"}],
    ...     horizon=200, replications=4, seed=7,
    ... )
    >>> [environment.label for environment in experiment.environments]
    ['random:n_arms=5,budget=2', 'random:n_arms=10,budget=2']
    >>> [policy.label for policy in experiment.policies]
    ['comb_ucb1', 'elimination:delta=0.01', 'elimination:delta=0.1']
    >>> len(experiment.cells)
    6
    >>> experiment.run().summary()["runs"].to_list()
    [4, 4, 4, 4, 4, 4]
    """

    def __init__(
        self,
        environments: _Entries,
        policies: _Entries,
        *,
        horizon: int | Sequence[int],
        replications: int = 16,
        seed: int | None = None,
        name: str = "experiment",
        checkpoints: int | Sequence[int] = 50,
        block: int = 4,
        redraw: bool = False,
        certificate: bool | float = False,
        max_cells: int = MAX_CELLS,
    ) -> None:
        given: dict[str, Any] = {"horizon": horizon, "replications": replications, "seed": seed, "name": name}
        given |= {"checkpoints": checkpoints, "block": block, "redraw": redraw, "certificate": certificate}
        given |= {} if max_cells == MAX_CELLS else {"max_cells": max_cells}
        given = {**given, "environments": environments, "policies": policies}
        self._manifest = _manifest(given, True)

    @classmethod
    def from_file(cls, path: _Path, *, code: bool = False, **changes: Any) -> Self:
        r"""Return the experiment that a TOML file defines, in the words of the constructor.

        Functions and classes of one's own are given as ``"module:name"``, and found beside the file too. A file that
        names them is a program: it can do whatever you can, so read it, and what it names, before you allow it.

        Parameters
        ----------
        path : path
            The file.
        code : bool
            Whether to import and call what the file names as ``"module:name"``. If not, a file that names any is
            refused.
        **changes
            What is to be otherwise than the file says, such as ``replications=64``.

        Raises
        ------
        ValueError
            If it is no TOML, or has problems as a definition; all are named.

        Examples
        --------
        >>> import tempfile
        >>> with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
        ...     _ = file.write('horizon = 9\npolicies = ["greedy"]\nenvironments = ["random:n_arms=5,budget=2"]')
        ...     file.flush()
        ...     len(Experiment.from_file(file.name, replications=64).cells)
        16
        """
        made = cls.__new__(cls)
        given = {**read_file(path), **changes}
        beside = str(Path(path).resolve().parent)
        if code and beside not in sys.path:
            sys.path.append(beside)
        try:
            made._manifest = _manifest(given, code)
        except ValueError as error:
            raise ValueError(f"{os.fspath(path)}: {error}") from error
        return made

    @property
    def name(self) -> str:
        """What it is called."""
        return self._manifest.name

    @property
    def seed(self) -> int:
        """The root of all seeds."""
        return self._manifest.seed

    @property
    def environments(self) -> tuple[Spec, ...]:
        """The environments, each with a label, an instance, options, a horizon and a key."""
        return self._manifest.environments

    @property
    def policies(self) -> tuple[Spec, ...]:
        """The policies, each with a label, a policy, options and a key."""
        return self._manifest.policies

    @property
    def cells(self) -> tuple[Cell, ...]:
        """The cells, in the order of environments, policies and replications."""
        return self._manifest.cells

    @property
    def definition(self) -> Mapping[str, Any]:
        """What was given, as JSON knows it."""
        return self._manifest.definition

    def plan(self, folder: _Path | None = None, *, shard: tuple[int, int] | None = None) -> Plan:
        """Return what is left to do, and about how long it takes: nothing is written.

        Times are those of earlier plays in the folder; otherwise some rounds are played to take them.

        Parameters
        ----------
        folder, shard
            See `run`.

        Examples
        --------
        >>> from armtriage import Experiment
        >>> plan = Experiment(["random:n_arms=5,budget=2"], ["greedy"], horizon=100, replications=8).plan()
        >>> plan.cells, plan.done, plan.missing
        (2, 0, 2)
        """
        cells = _part(self.cells, shard)
        if folder is None:
            return make_plan(cells, (), ())
        there = Folder(folder)
        records = there.records()
        return make_plan(cells, there.whole(cells, records), records)

    def run(
        self,
        folder: _Path | None = None,
        *,
        engine: str = "auto",
        workers: int | None = None,
        shard: tuple[int, int] | None = None,
        progress: _Progress = False,
    ) -> Results:
        """Play the cells that the folder lacks, and return the results of all that it has then.

        A cell that fails is noted with its traceback, and is tried again by the next run. Whatever ends a run, Ctrl+C
        or a power cut, the cells that are finished stay.

        Parameters
        ----------
        folder : path, optional
            Where the cells are kept; it is made if need be. By default nothing is kept on disk.
        engine : {"auto", "serial", "threads", "processes", "ray"}
            Threads are best for the policies of armtriage, processes for others and for sets of decisions; "auto"
            chooses. "ray" plays on a cluster, with the extra ``armtriage[ray]``. The numbers are the same.
        workers : int, optional
            How many cells are played at a time; by default one per processor.
        shard : tuple of int, optional
            (i, n), to play only the i-th of n parts, from 1; folders of parts are merged by copying them together.
        progress : bool or callable
            Show a bar where there is a terminal, or call with the cells done, those of them that failed, and all.
        """
        check_choice("engine", engine, engines.ENGINES)
        if workers is not None:
            check_count("workers", workers, 1)
        if folder is None:
            with tempfile.TemporaryDirectory(prefix="armtriage-") as temporary:
                return self.run(temporary, engine=engine, workers=workers, shard=shard, progress=progress)
        wanted = _part(self.cells, shard)
        with Folder(folder) as kept:
            kept.begin(self._manifest)
            done = kept.whole(wanted)
            missing = [cell for cell in wanted if cell.id not in done]
            failed, finished = 0, len(wanted) - len(missing)
            with _reporting(progress) as report, closing(engines.run(missing, engine, workers)) as outcomes:
                report(finished, failed, len(wanted))
                for cell, outcome in outcomes:
                    kept.keep(cell, outcome)
                    error = outcome.record["error"]
                    finished, failed = finished + 1, failed + (error is not None)
                    said = f"failed: {error}" if error is not None else "is played"
                    _LOG.info("cell %s of %r %s (%d of %d)", cell.id, self.name, said, finished, len(wanted))
                    report(finished, failed, len(wanted))
        return Results.load(folder, max_cells=max(len(self.cells), MAX_CELLS))

    def __repr__(self) -> str:
        parts = f"{len(self.environments)} environments, {len(self.policies)} policies, {len(self.cells)} cells"
        return f"Experiment {self.name!r}: {parts}, seed {self.seed}"


def read_file(path: _Path) -> dict[str, Any]:
    """Return what a TOML file says; refuse one that is none, with the line."""
    try:
        return tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{os.fspath(path)} is not a TOML file: {error}") from error
    except RecursionError:
        raise ValueError(f"{os.fspath(path)} is nested too deeply to be an experiment") from None


def _manifest(given: Mapping[str, Any], code: bool) -> Manifest:
    try:
        import polars  # noqa: F401 - or every cell would fail for it

        from armtriage.experiments.rehearsal import manifest_of
    except ImportError as error:
        raise ImportError("experiments need pydantic and polars: pip install 'armtriage[experiments]'") from error
    try:
        return manifest_of(given, code)
    except RecursionError:
        raise ValueError("the definition is nested too deeply to be an experiment") from None


def _part(cells: tuple[Cell, ...], shard: tuple[int, int] | None) -> tuple[Cell, ...]:
    """Return the cells of a shard, which does not depend on what other cells there are."""
    if shard is None:
        return cells
    if not isinstance(shard, tuple | list) or len(shard) != 2:
        raise TypeError(f"shard must be two whole numbers, (i, n), got {shard!r}")
    number = check_count("n of shard", shard[1], 1)
    place = check_count("i of shard", shard[0], 1, number)
    return tuple(cell for cell in cells if int(cell.id, 16) % number == place - 1)


@contextmanager
def _reporting(progress: _Progress) -> Iterator[Callable[[int, int, int], None]]:
    """Yield what is called with the cells done, failed and all."""
    if callable(progress):
        yield progress
        return
    if not progress:
        yield lambda done, failed, total: None
        return
    with progress_bar() as show:
        began, first = time.monotonic(), -1

        def report(done: int, failed: int, total: int) -> None:
            nonlocal first
            first = done if first < 0 else first
            rate = (done - first) / max(time.monotonic() - began, 1e-9)
            failures = f", {failed} failed" if failed else ""
            show(done, total, after=f"{done}/{total} cells{failures}, {rate:.3g} a second")

        yield report
