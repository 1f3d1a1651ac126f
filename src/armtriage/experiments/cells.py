"""The cells of an experiment: a policy in an environment, for a block of replications, with seeds by name."""

from __future__ import annotations

import hashlib
import inspect
import io
import platform
import threading
import time
import traceback
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np

from armtriage.catalogue import build_instance, build_policy, instance_parameters, policy_parameters
from armtriage.environments import Environment, LinearEnvironment
from armtriage.experiments.identity import canonical, code_version, digest, identity, named_seed, versions
from armtriage.kernels.record import Ints
from armtriage.simulation.simulate import check_points, simulate
from armtriage.simulation.trace import Trace

FORMAT = 1
"""The number of the form in which cells are named and kept."""
MOST = 1_000_000
"""The most replications in a cell, and the most checkpoints: more would fill the memory."""
COLUMNS = ("cell", "replication", "round", "regret", "committed_at")
"""The columns of a cell's table without certificates; the first names the cell in every row."""


@dataclass(frozen=True)
class Spec:
    """An environment or a policy of an experiment, before it is built.

    Parameters
    ----------
    label : str
        What it is called in tables; the key does not depend on it.
    what : str or callable
        A name of an instance or of a policy; or a function that returns an environment, or a subclass of `Policy`.
    options : mapping of str
        What it is built with, one value each; leaving an option out and giving its default are the same.
    horizon : int
        Rounds in a replication, of an environment; 0 makes it a policy.
    key : str
        Identifies all but the label; worked out unless it is read from a file.
    path : str
        Where it stands in the definition of the experiment, for messages.
    """

    label: str
    what: Any
    options: Mapping[str, Any]
    horizon: int = 0
    key: str = ""
    path: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        if not self.key:
            parameters = instance_parameters(self.what, self.options) if self.horizon else policy_parameters(self.what)
            made = digest([identity(self.word, self.what), _given(self.options, parameters)])
            object.__setattr__(self, "key", f"{made}-{self.horizon}" if self.horizon else made)

    def __hash__(self) -> int:
        return hash(self.key)

    @property
    def word(self) -> str:
        """What `what` is called in definitions and manifests."""
        return "instance" if self.horizon else "policy"

    @property
    def instance(self) -> Any:
        """What makes the environment."""
        return self.what

    @property
    def policy(self) -> Any:
        """What makes the policy."""
        return self.what

    @property
    def stream(self) -> str:
        """Identifies what chance decides: not the horizon, so that a longer run meets what a shorter one met."""
        return self.key.partition("-")[0]


def _given(options: Mapping[str, Any], parameters: Mapping[str, inspect.Parameter]) -> dict[str, Any]:
    """Return the options that say something else than the defaults."""
    given = {key: canonical(key, value) for key, value in options.items()}
    return {key: one for key, one in given.items() if key not in parameters or not _same(one, parameters[key].default)}


def _same(value: Any, default: Any) -> bool:
    try:
        return digest(value) == digest(canonical("default", default))
    except TypeError:
        return False


def blocks(replications: int, block: int) -> Iterator[tuple[int, int]]:
    """Return the first replication and the number of them in each block; only the last one may be shorter.

    Examples
    --------
    >>> list(blocks(10, 4))
    [(0, 4), (4, 4), (8, 2)]
    """
    return ((first, min(block, replications - first)) for first in range(0, replications, block))


@dataclass(frozen=True)
class Cell:
    """The unit of an experiment: what is played, kept and done again as a whole.

    Everything about its numbers follows from its fields, so that neither its neighbours nor the order of play matter.

    Parameters
    ----------
    environment, policy
        What plays, and where.
    first, count : int
        The block of replications.
    checkpoints : int or tuple of int
        See `armtriage.simulate`.
    root : int
        The seed of the experiment, of which all others are made.
    redraw : bool
        Draw a new environment in each replication.
    code : str
        The version of the code that is to play it.
    certificate : float
        With which probability the certificates that are kept beside the regret may fail; 0 keeps none.

    Examples
    --------
    >>> env = Spec("easy", "random", {"n_arms": 10, "budget": 2}, horizon=100)
    >>> cell = Cell(env, Spec("UCB", "comb_ucb1", {}), 0, 4, 10, root=7, redraw=False, code=code_version())
    >>> len(cell.id), cell.environment_seed(0) == cell.environment_seed(3)
    (32, True)
    """

    environment: Spec
    policy: Spec
    first: int
    count: int
    checkpoints: int | tuple[int, ...]
    root: int
    redraw: bool
    code: str
    certificate: float = 0.0

    @cached_property
    def id(self) -> str:
        """The name of the cell: any difference in what is played makes another one."""
        keys = self.environment.key, self.policy.key
        points = canonical("checkpoints", self.checkpoints)
        parts = [FORMAT, self.code, self.root, *keys, self.first, self.count, points, self.redraw]
        return digest([*parts, self.certificate] if self.certificate else parts)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of its table."""
        return (*COLUMNS, "certificate") if self.certificate else COLUMNS

    @property
    def rounds(self) -> Ints:
        """The rounds after which its regret is kept."""
        return check_points(self.checkpoints, self.environment.horizon)

    @property
    def replications(self) -> range:
        """The numbers of its replications."""
        return range(self.first, self.first + self.count)

    @property
    def policy_seed(self) -> int:
        """The seed of the policy's own randomness."""
        return named_seed(self.root, "policy", self.environment.stream, self.policy.key)

    def environment_seed(self, replication: int) -> int:
        """Return the seed of the instance and its rewards, the same for all policies."""
        if (pinned := self.environment.options.get("seed")) is not None:
            return int(pinned)
        words = (replication,) if self.redraw else ()
        return named_seed(self.root, "environment", self.environment.stream, *words)


class Outcome(NamedTuple):
    """What is left of a cell that was played.

    The table, as the bytes of a Parquet file, is the same wherever and however often the cell is played; it is empty
    if the play failed. The record is about this play: times, versions, and the traceback of a failure in "error".
    """

    table: bytes
    record: dict[str, Any]


class _Stopped(Exception):
    pass


def play(cell: Cell, stop: threading.Event | None = None) -> Outcome | None:
    """Play a cell; failures are kept in the outcome, and None means that it was stopped before its end.

    Examples
    --------
    >>> env = Spec("easy", "random", {"n_arms": 10, "budget": 2}, horizon=100)
    >>> cell = Cell(env, Spec("UCB", "comb_ucb1", {}), 0, 4, 10, root=7, redraw=False, code=code_version())
    >>> play(cell).record["error"]
    """
    started, began = datetime.now(UTC), time.perf_counter()
    table, n_arms, error = b"", None, None
    try:
        if cell.code != code_version():
            raise RuntimeError(f"the code here is {code_version()}, and that of the experiment {cell.code}")
        traces = _traces(cell, stop)
        table, n_arms = _parquet(cell, traces), traces[0].n_arms
    except _Stopped:
        return None
    except (Exception, SystemExit):
        error = traceback.format_exc()
    about = {"seconds": time.perf_counter() - began, "n_arms": n_arms, "error": error}
    return Outcome(table, _record(cell, started, table, **about))


def failure(cell: Cell, error: str) -> Outcome:
    """Return the outcome of a cell that could not be played."""
    return Outcome(b"", _record(cell, datetime.now(UTC), b"", seconds=0.0, n_arms=None, error=error))


def _record(cell: Cell, started: datetime, table: bytes, **about: Any) -> dict[str, Any]:
    return {
        "cell": cell.id,
        "environment": cell.environment.label,
        "environment_key": cell.environment.key,
        "policy": cell.policy.label,
        "policy_key": cell.policy.key,
        "first": cell.first,
        "count": cell.count,
        "horizon": cell.environment.horizon,
        "environment_seeds": [cell.environment_seed(replication) for replication in cell.replications],
        "policy_seed": cell.policy_seed,
        "seed": cell.root,
        "started": started.isoformat(timespec="microseconds"),
        "host": platform.node(),
        "code": cell.code,
        "versions": versions(),
        "digest": table_digest(table) if table else None,
        **about,
    }


def table_digest(table: bytes) -> str:
    """Return the checksum that a record keeps of its cell's table."""
    return hashlib.blake2b(table, digest_size=16).hexdigest()


def _traces(cell: Cell, stop: threading.Event | None) -> list[Trace]:
    def watch(share: float) -> None:
        if stop is not None and stop.is_set():
            raise _Stopped

    def one(first: int, count: int) -> Trace:
        horizon = cell.environment.horizon
        environment, budget = _built(cell.environment, cell.environment_seed(first))
        policy = build_policy(cell.policy.what, cell.policy.options, environment, budget, horizon, cell.policy_seed)
        return simulate(
            policy,
            environment,
            horizon=horizon,
            replications=count,
            first_replication=first,
            checkpoints=cell.checkpoints,
            certificate=cell.certificate or False,
            workers=1,
            progress=watch,
        )

    watch(0.0)
    return [one(number, 1) for number in cell.replications] if cell.redraw else [one(cell.first, cell.count)]


@lru_cache(maxsize=2)
def _built(spec: Spec, seed: int) -> tuple[Environment | LinearEnvironment, int]:
    """Return the environment and the budget; neighbouring cells share them, and more would fill the memory."""
    return build_instance(spec.what, spec.options, spec.horizon, seed)


def _parquet(cell: Cell, traces: list[Trace]) -> bytes:
    import polars

    rounds = traces[0].rounds
    columns: list[Any] = [
        polars.repeat(cell.id, cell.count * rounds.size, eager=True),
        np.repeat(np.arange(cell.first, cell.first + cell.count), rounds.size),
        np.tile(rounds, cell.count),
        np.concatenate([trace.regret.ravel() for trace in traces]),
        np.repeat(np.concatenate([trace.committed_at for trace in traces]), rounds.size),
    ]
    if cell.certificate:
        columns.append(np.concatenate([one.ravel() for trace in traces if (one := trace.certificate) is not None]))
    buffer = io.BytesIO()
    polars.DataFrame(dict(zip(cell.columns, columns, strict=True))).write_parquet(buffer, compression="zstd")
    return buffer.getvalue()
