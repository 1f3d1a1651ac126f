"""Small cells that the tests of experiments play, with policies and environments of a user's own."""

from __future__ import annotations

import io
import os
import signal
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars

from armtriage import FeedbackGraph, Policy, ReplayEnvironment, StochasticEnvironment
from armtriage.experiments.cells import Cell, Outcome, Spec, play
from armtriage.experiments.identity import code_version
from armtriage.experiments.manifest import Manifest

__all__ = [
    "RANDOM",
    "First",
    "Impatient",
    "Killed",
    "Leaving",
    "Loud",
    "Meeting",
    "Moody",
    "Raising",
    "Slow",
    "cell",
    "environment",
    "manifest",
    "numbers",
    "other_two_arms",
    "outcome",
    "played",
    "policy",
    "record",
    "two_arms",
]

RANDOM = {"n_arms": 8, "budget": 2}


def environment(label: str = "easy", instance: Any = "random", horizon: int = 60, **options: Any) -> Spec:
    return Spec(label, instance, options or RANDOM, horizon)


def policy(label: str = "ours", policy: Any = "comb_ucb1", **options: Any) -> Spec:
    return Spec(label, policy, options)


def cell(**changes: Any) -> Cell:
    made = Cell(environment(), policy(), 0, 4, 10, root=7, redraw=False, code=code_version())
    return replace(made, **changes)


def manifest(**changes: Any) -> Manifest:
    made = Manifest(
        name="trial",
        seed=7,
        code=code_version(),
        environments=(environment(),),
        policies=(policy(), policy("theirs", "thompson")),
        pairs=((0, 0), (0, 1)),
        replications=6,
        block=4,
        checkpoints=10,
        redraw=False,
        definition={"horizon": 60},
    )
    return replace(made, **changes)


def outcome(one: Cell) -> Outcome:
    made = play(one)
    assert made is not None
    return made


def played(one: Cell) -> polars.DataFrame:
    """Return the table of a cell without the cell's name, which is in every row."""
    made = outcome(one)
    assert made.record["error"] is None
    return numbers(one, made.table)


def numbers(one: Cell, content: bytes) -> polars.DataFrame:
    """Return what the file of a cell's table holds besides the cell's name."""
    table = polars.read_parquet(io.BytesIO(content))
    assert table["cell"].unique().to_list() == [one.id]
    return table.drop("cell")


class First(Policy):
    """Always the first arms."""

    def _select(self, number: int) -> Any:
        return np.arange(self.budget)

    def _update(self, number: int, arms: Any, rewards: Any) -> None:
        pass


class Raising(First):
    """Fails in its first round."""

    def _select(self, number: int) -> Any:
        raise ZeroDivisionError("no arm is good enough")


class Impatient(First):
    """Presses Ctrl+C in its first round."""

    def _select(self, number: int) -> Any:
        raise KeyboardInterrupt


class Leaving(First):
    """Ends the process."""

    def _select(self, number: int) -> Any:
        sys.exit("enough")


def two_arms(gap: float = 0.2, seed: int | None = None) -> StochasticEnvironment:
    return StochasticEnvironment([0.5 + gap, 0.5], FeedbackGraph.semi_bandit(2), seed=seed)


def other_two_arms(gap: float = 0.2, seed: int | None = None) -> StochasticEnvironment:
    return StochasticEnvironment([0.5, 0.5 + gap], FeedbackGraph.semi_bandit(2), seed=seed)


def record(seed: int | None = None) -> ReplayEnvironment:
    return ReplayEnvironment([[1, 0], [0, 1], [1, 1]] * 2, 2)


class Killed(First):
    """Ends its process at once, as when there is no memory left; given a file, only until that is there."""

    def __init__(self, graph: FeedbackGraph, budget: int, *, mark: str = "", seed: int | None = None) -> None:
        super().__init__(graph, budget, seed=seed)
        self.mark = mark

    def _select(self, number: int) -> Any:
        if not self.mark or not os.path.exists(self.mark):
            if self.mark:
                Path(self.mark).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return super()._select(number)


class Loud(First):
    """Prints in every round, and reads what there is to read."""

    def _select(self, number: int) -> Any:
        sys.stdin.read()
        print("round", number, flush=True)
        os.write(1, b"and past Python\n")
        return super()._select(number)


class Slow(First):
    """Leaves the number of its process in a folder, and takes an hour a round."""

    def __init__(self, graph: FeedbackGraph, budget: int, *, folder: str, seed: int | None = None) -> None:
        super().__init__(graph, budget, seed=seed)
        self.folder = folder

    def _select(self, number: int) -> Any:
        Path(self.folder, str(os.getpid())).touch()
        time.sleep(3600.0)
        return super()._select(number)


class Moody(First):
    """Fails until a file is there."""

    def __init__(self, graph: FeedbackGraph, budget: int, *, mark: str, seed: int | None = None) -> None:
        super().__init__(graph, budget, seed=seed)
        self.mark = mark

    def _select(self, number: int) -> Any:
        if not os.path.exists(self.mark):
            raise RuntimeError("not today")
        return super()._select(number)


class Meeting(First):
    """Signs in a folder with its process and thread, and waits until another one has signed."""

    def __init__(self, graph: FeedbackGraph, budget: int, *, folder: str, seed: int | None = None) -> None:
        super().__init__(graph, budget, seed=seed)
        self.folder = folder

    def _select(self, number: int) -> Any:
        Path(self.folder, f"{os.getpid()}-{threading.get_ident()}").touch()
        end = time.monotonic() + 120.0
        while len(os.listdir(self.folder)) < 2:
            if time.monotonic() > end:
                raise TimeoutError("nobody came")
            time.sleep(0.01)
        return super()._select(number)
