"""Where the rows of a log come from: a folder of parts, or a table from elsewhere. Each yields the same columns."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from armtriage.arms import Name, as_name
from armtriage.errors import DamagedFile
from armtriage.logs.parts import require_polars, whole_parts

if TYPE_CHECKING:
    from polars import DataFrame, LazyFrame

ABOUT = "log.json"
"""The file of a log that says what it is."""

EXPORTED = "armtriage.about"
"""Where a file that the service has exported says the same, in its metadata."""

_ROWS = 65_536  # decisions in memory at a time


class About(NamedTuple):
    """What a log says of itself."""

    n_arms: int = 0
    n_first: int = 0  # arms that were there at the first decision: where no set of arms is named, these were eligible
    names: list[Name] | None = None
    reward_range: tuple[float, float] = (0.0, 1.0)
    direction: str = "maximize"
    policy: str | None = None

    def to_json(self) -> bytes:
        """Return it as the text of a file."""
        return json.dumps({"armtriage.log": 3, **self._asdict()}, ensure_ascii=False, indent=1).encode()

    @classmethod
    def read(cls, path: Path) -> About:
        """Return what a file says."""
        return cls.from_json(path.read_bytes(), path)

    @classmethod
    def from_json(cls, text: bytes | str, path: Path) -> About:
        """Return what `to_json` wrote, found at a path."""
        try:
            facts = json.loads(text)
            if facts.pop("armtriage.log") != 3:
                raise ValueError("it is of another format")
            low, high = facts.pop("reward_range")
            names = facts.pop("names")
            named = None if names is None else [as_name(one) for one in names]
            return cls(**facts, names=named, reward_range=(float(low), float(high)))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise DamagedFile(f"{path} is damaged: {error}") from error


def schema(pl: Any) -> dict[str, Any]:
    """Return the columns of a decision in the files of a log."""
    arms, numbers = pl.List(pl.Int32), pl.List(pl.Float64)
    return {
        "number": pl.Int64,
        "time": pl.Datetime("us", "UTC"),
        "pattern": pl.Int64,
        "proposal": arms,
        "arms": arms,
        "inclusion": numbers,
        "floor": pl.Float64,
        "observed": arms,
        "observation": numbers,
        "rewards": numbers,
    }


class Source(Protocol):
    """Decisions in the order of their numbers."""

    def lazy(self) -> LazyFrame:
        """Return all of them."""
        ...

    def frames(self) -> Iterator[DataFrame]:
        """Yield them, some at a time."""
        ...

    def pattern(self, number: int) -> NDArray[np.int64]:
        """Return the eligible arms of a set."""
        ...


class Folder:
    """The files of a log: decisions, rewards that came later, and sets of eligible arms."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @cached_property
    def _parts(self) -> list[Path]:
        return whole_parts(self._path / "decisions")

    @cached_property
    def _late(self) -> list[Path]:
        return whole_parts(self._path / "rewards")

    @cached_property
    def _patterns(self) -> dict[int, NDArray[np.int64]]:
        parts = whole_parts(self._path / "patterns")
        if not parts:
            return {}
        rows = require_polars().read_parquet(parts)
        return {number: np.array(arms, np.int64) for number, arms in rows.iter_rows()}

    @cached_property
    def _ordered(self) -> bool:
        """Whether parts follow each other by number; refuse a number that comes twice."""
        if not self._parts:
            return True
        numbers = self._decisions().select("number").collect()["number"]
        steps = np.diff(numbers.to_numpy())
        if (steps > 0).all():
            return True
        twice = numbers.filter(numbers.is_duplicated())
        if twice.len():
            raise DamagedFile(f"{self._path} has decision {twice[0]} more than once")
        return False

    def _decisions(self) -> LazyFrame:
        """Return all decisions as they were written; others may have added columns to some parts."""
        pl = require_polars()
        found: LazyFrame = pl.concat([pl.scan_parquet(one) for one in self._parts], how="diagonal")
        return found

    def lazy(self) -> LazyFrame:
        """Return all decisions with their rewards, also those that came later."""
        pl = require_polars()
        if not self._parts:
            empty: LazyFrame = pl.LazyFrame(schema=schema(pl))
            return empty
        rows = self._decisions()
        return self._joined(rows if self._ordered else rows.sort("number"))

    def frames(self) -> Iterator[DataFrame]:
        """Yield decisions part by part, in the order of their numbers."""
        pl = require_polars()
        if not self._ordered:
            yield from _sliced(self.lazy().collect())
            return
        for part in self._parts:
            rows = pl.read_parquet(part)
            between = pl.col("number").is_between(rows["number"][0], rows["number"][-1])
            yield self._joined(rows.lazy(), between).collect()

    def pattern(self, number: int) -> NDArray[np.int64]:
        """Return the eligible arms of a set."""
        if number not in self._patterns:
            raise DamagedFile(f"{self._path / 'patterns'} lacks the eligible arms of set {number}")
        return self._patterns[number]

    def _joined(self, rows: LazyFrame, only: Any = True) -> LazyFrame:
        """Return decisions with the rewards that came later; of those that came twice, the first one counts."""
        pl = require_polars()
        if not self._late:
            return rows
        came = pl.scan_parquet(self._late).filter(only).unique(["number", "arm"], keep="first", maintain_order=True)
        item = ["observed", "observation", "rewards"]
        none = pl.lit(None, pl.Float64).repeat_by(pl.col("observed").list.len())
        told = (
            rows.select("number", *item)
            .with_columns(pl.col("observation").fill_null(none), pl.col("rewards").fill_null(none))
            .explode(item)
            .join(came, left_on=["number", "observed"], right_on=["number", "arm"], how="left", maintain_order="left")
            .group_by("number", maintain_order=True)
            .agg("observation", pl.coalesce("rewards", "reward").alias("rewards"))
        )
        kept = rows.drop("observation", "rewards").join(told, on="number", how="left", maintain_order="left")
        return kept.select(rows.collect_schema().names())


class Table:
    """Decisions of a table from another system: its columns have been given our names."""

    def __init__(self, rows: LazyFrame) -> None:
        self._rows = rows

    def lazy(self) -> LazyFrame:
        """Return all decisions."""
        return self._rows

    def frames(self) -> Iterator[DataFrame]:
        """Yield some decisions at a time."""
        first = 0
        while (rows := self._rows.slice(first, _ROWS).collect()).height:
            yield rows
            first += rows.height

    def pattern(self, number: int) -> NDArray[np.int64]:
        """Return the eligible arms of a set: these are in the rows themselves."""
        raise NotImplementedError


def _sliced(rows: DataFrame) -> Iterator[DataFrame]:
    for first in range(0, rows.height, _ROWS):
        yield rows.slice(first, _ROWS)
