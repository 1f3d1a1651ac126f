"""SlateLog: what was decided, with which probability, and what came of it."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from armtriage._arguments import DIRECTIONS, as_numbers, check_choice, check_count, check_range
from armtriage._files import write_whole
from armtriage.arms import Name, Roster
from armtriage.certificate import Certificate, certify
from armtriage.decisions import Decision
from armtriage.logs.batch import Batch, Counts, batch_of, check_batch, counts_of
from armtriage.logs.parts import PartWriter, list_column, require_polars
from armtriage.logs.sources import ABOUT, EXPORTED, About, Folder, Source, Table, schema
from armtriage.logs.tables import MISSING, lazy_of, listed, table_of
from armtriage.policies import OldLog

if TYPE_CHECKING:
    from polars import LazyFrame, Series

_PATTERNS = 65_536  # sets of eligible arms that are remembered as written; one more is written again


class Looks(NamedTuple):
    """What can be seen of a log before its rewards."""

    most: int  # rewards of a decision
    floors: bool  # whether all decisions have one


class SlateLog:
    """A log of decisions: which arms could be chosen and were, with which probability, and what came of it.

    It is a folder of Parquet files, one row for each decision, which any tool can read. Decisions are kept in memory
    and written many at a time; what `flush` has written is there whenever the process is killed. Late rewards are told
    by the number of their decision. `SlateLog.read` reads a log, or a table from another system; `armtriage.evaluate`
    finds out what another policy would have earned.

    Parameters
    ----------
    path : path
        The folder; decisions are added to those of a log that is there.
    reward_range : tuple of float, optional
        Smallest and largest possible reward, by default (0, 1).
    direction : str, optional
        ``"minimize"`` if what is told are costs, by default ``"maximize"``.
    rows : int
        Decisions, or late rewards, that are kept in memory until they are written.
    seconds : float
        After how long `append` and `tell` write them, however few they are.

    Examples
    --------
    >>> import tempfile
    >>> from armtriage import UniformRandom
    >>> policy = UniformRandom(3, budget=2, names=["tea", "milk", "jam"], seed=7)
    >>> with tempfile.TemporaryDirectory() as folder, SlateLog(f"{folder}/page") as log:
    ...     decision = policy.ask()
    ...     log.append(decision, {"tea": 1, "jam": 0}, inclusion=2 / 3)
    ...     print(log, log.names)
    SlateLog of 1 decision, 3 arms ('tea', 'milk', 'jam')
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        reward_range: tuple[float, float] | None = None,
        direction: str | None = None,
        rows: int = 8192,
        seconds: float = 10.0,
    ) -> None:
        require_polars()
        self._rows, self._seconds = check_count("rows", rows, 1), float(seconds)
        given = None if reward_range is None else check_range(reward_range)
        if direction is not None:
            check_choice("direction", direction, DIRECTIONS)
        folder = Path(path)
        if (folder / ABOUT).exists():
            about = About.read(folder / ABOUT)
            for name, value, kept in (
                ("reward_range", given, about.reward_range),
                ("direction", direction, about.direction),
            ):
                if value is not None and value != kept:
                    raise ValueError(f"{name} must be that of the log, {kept!r}, got {value!r}")
        else:
            if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
                raise FileExistsError(f"path must be a log, an empty folder or nothing, got {os.fspath(path)!r}")
            folder.mkdir(exist_ok=True)
            about = About(reward_range=given or (0.0, 1.0), direction=direction or "maximize")
            write_whole(folder / ABOUT, about.to_json(), durable=True)
        self._begin(about, folder)

    def _begin(self, about: About, folder: Path | None, source: Source | None = None, missing: Any = None) -> None:
        self._about, self._folder, self._source = about, folder, source
        self._missing: tuple[str, ...] | None = missing
        self._names: tuple[Name, ...] | None = None if about.names is None else tuple(about.names)
        self._roster: Roster | None = None
        self._new = _Unwritten()
        self._known: set[int] = set()
        self._writers: dict[str, PartWriter] = {}
        self._written = time.monotonic()

    @classmethod
    def read(cls, path: str | os.PathLike[str], **columns: Any) -> SlateLog:
        """Open a log to read it: a folder that a `SlateLog` wrote, or a Parquet or CSV file.

        What the service exports is read with its names and rewards, one file or a folder of them;
        `armtriage.service.read_log` reads its store.

        Parameters
        ----------
        path : path
            The folder or file. A CSV file has a row for each arm of a decision, and the decision's number.
        **columns
            What a file from another system calls our columns, and all else that `from_frame` takes.
        """
        pl, place = require_polars(), Path(path)
        if (place / ABOUT).exists():
            if columns:
                raise ValueError(f"columns cannot be named in a folder that has a log, got {', '.join(columns)}")
            log = cls.__new__(cls)
            log._rows, log._seconds = 8192, 10.0
            log._begin(About.read(place / ABOUT), place)
            return log
        if not place.exists():
            raise FileNotFoundError(2, "There is no such log", os.fspath(path))
        kind, pages = place.suffix.lower(), sorted(place.glob("*.parquet")) if place.is_dir() else [place]
        if not pages or (not place.is_dir() and kind not in (".parquet", ".csv")):
            raise ValueError(f"path must be a log's folder, a .parquet or a .csv file, got {os.fspath(path)!r}")
        try:
            if place.is_dir() or kind == ".parquet":
                rows, said = pl.scan_parquet(pages), [pl.read_parquet_metadata(one).get(EXPORTED) for one in pages]
                if all(said):
                    if columns:
                        raise ValueError(f"columns cannot be named in an export, got {', '.join(columns)}")
                    abouts = [About.from_json(text, place) for text in said]
                    return cls._of_export(rows, max(abouts, key=lambda one: one.n_arms))
            else:
                rows = pl.scan_csv(place)
            return cls.from_frame(rows, **columns)
        except pl.exceptions.ComputeError as error:
            raise ValueError(f"{os.fspath(path)} cannot be read: {error}") from error

    @classmethod
    def _of_export(cls, rows: LazyFrame, about: About) -> SlateLog:
        """Return the log that the service has exported: where no set of arms is named, those of the beginning were."""
        taken = table_of(rows, {}, None, about.names)
        missing = tuple(one for one in taken.missing if not one.startswith("eligible:"))
        log = cls.__new__(cls)
        log._begin(about, None, Table(taken.rows), missing)
        return log

    @classmethod
    def from_columns(
        cls,
        *,
        arms: Any,
        rewards: Any,
        inclusion: Any = None,
        eligible: Any = None,
        observed: Any = None,
        observation: Any = None,
        proposal: Any = None,
        floor: Any = None,
        number: Any = None,
        n_arms: int | None = None,
        names: Sequence[Name] | None = None,
        reward_range: tuple[float, float] = (0.0, 1.0),
        direction: str = "maximize",
    ) -> SlateLog:
        """Make a log of columns that have an entry for each decision.

        Parameters
        ----------
        arms : sequence of sequences
            The arms of each decision, by number or name.
        rewards : sequence of sequences
            Their rewards, in the same order; None or nan for one that never came.
        inclusion : sequence of sequences, optional
            The probability with which each of them was chosen, as it was known when they were.
        eligible : sequence of sequences, optional
            The arms that could be chosen; None for all.
        observed, observation : sequence of sequences, optional
            The arms whose rewards were seen, if not those of the decision, and with which probability they were.
        proposal, floor : sequence, optional
            What was proposed, and the share of its slots that were given to others at random. The floor alone, beside
            `inclusion`, says that no probability is below it times S / (K - S).
        number : sequence of int, optional
            The number of each decision; by default they are in their order.
        n_arms : int, optional
            How many arms there are, by default those that occur.
        names : sequence, optional
            What they are called, in the order of their numbers.
        reward_range, direction
            As for `SlateLog`.

        Examples
        --------
        >>> log = SlateLog.from_columns(arms=[["tea", "jam"], ["milk", "jam"]], rewards=[[1, 0], [0, 0]])
        >>> log.names
        ('jam', 'milk', 'tea')
        >>> for one in log.missing:
        ...     print(one)
        number: the rows are taken to be in the order in which the decisions were made
        inclusion, the probability with which each arm was chosen: only estimator='bracket' needs none
        eligible: all arms are taken to have been eligible in every decision
        floor, which no probability is below: intervals are wider without it, and there is no estimator='total'
        n_arms: there are taken to be no other arms than those that occur
        """
        given = {"number": number, "arms": arms, "rewards": rewards, "inclusion": inclusion, "eligible": eligible}
        given |= {"observed": observed, "observation": observation, "proposal": proposal, "floor": floor}
        present = {name: listed(name, values) for name, values in given.items() if name == "arms" or values is not None}
        for name, values in present.items():
            if len(values) != len(present["arms"]):
                accepted = f"{name} must have an entry for each of the {len(present['arms'])} decisions"
                raise ValueError(f"{accepted}, got {len(values)}")
        if not present["arms"]:
            raise ValueError("arms must have a decision or more, got none")
        log = cls.from_frame(present, n_arms=n_arms, names=names, reward_range=reward_range, direction=direction)
        for _ in log.batches():  # what is wrong with a decision is said here
            pass
        return log

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        *,
        n_arms: int | None = None,
        names: Sequence[Name] | None = None,
        reward_range: tuple[float, float] = (0.0, 1.0),
        direction: str = "maximize",
        **columns: str,
    ) -> SlateLog:
        """Make a log of a frame of polars or pandas.

        It has a row for each decision, with lists, or a row for each arm of a decision, with the decision's number.

        Parameters
        ----------
        frame : DataFrame or LazyFrame
            The table; a lazy one is read piece by piece.
        n_arms, names, reward_range, direction
            As for `from_columns`.
        **columns : str
            What the frame calls our columns, where it has other names for them: ``arms="slate"``.

        Examples
        --------
        >>> import polars
        >>> clicks = polars.DataFrame({"visit": [1, 1, 2], "item": [3, 0, 3], "click": [0, 1, 0], "p": [0.5, 0.5, 1.0]})
        >>> log = SlateLog.from_frame(clicks, number="visit", arms="item", rewards="click", inclusion="p", n_arms=4)
        >>> print(log)
        SlateLog of 2 decisions, 4 arms
        """
        ends = check_range(reward_range)
        check_choice("direction", direction, DIRECTIONS)
        taken = table_of(lazy_of(frame), columns, n_arms, names)
        log = cls.__new__(cls)
        log._begin(
            About(taken.n_arms, taken.n_arms, taken.names, ends, direction), None, Table(taken.rows), taken.missing
        )
        return log

    @property
    def n_arms(self) -> int:
        """How many arms there are."""
        return self._about.n_arms

    @property
    def names(self) -> tuple[Name, ...] | None:
        """What they are called, by number; None if they have no names."""
        return self._names

    @property
    def reward_range(self) -> tuple[float, float]:
        """Smallest and largest possible reward."""
        return self._about.reward_range

    @property
    def direction(self) -> str:
        """Whether rewards or costs are told."""
        return self._about.direction

    @property
    def missing(self) -> tuple[str, ...]:
        """What the log does not say, and what follows from that."""
        if self._missing is not None:
            return self._missing
        pl, said = require_polars(), self.frame()
        names = ("inclusion", "proposal", "observation", "floor")
        inclusion, proposal, observation, floor = (
            said.select(pl.col(one).is_null().all() for one in names).collect().row(0)
        )
        found = ["inclusion"] if inclusion and observation else []
        found += ["floor"] if floor else ["proposal"] if proposal else []
        return tuple(MISSING[one] for one in found)

    def __len__(self) -> int:
        pl = require_polars()
        return int(self.frame().select(pl.len()).collect().item())

    def __repr__(self) -> str:
        n = len(self)
        return f"SlateLog of {n:,} decision{'' if n == 1 else 's'}, {self.n_arms:,} arms"

    def __enter__(self) -> SlateLog:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def append(
        self,
        decision: Decision,
        rewards: Any = None,
        *,
        inclusion: ArrayLike | None = None,
        observation: ArrayLike | None = None,
    ) -> None:
        """Add a decision, with its rewards if they are known; others may be told later.

        Parameters
        ----------
        decision : Decision
            What a policy has answered.
        rewards : array_like or mapping, optional
            As for `armtriage.Policy.tell`.
        inclusion : float or array_like, optional
            With which probability each of its arms was chosen, given what was known then. The decisions of a policy
            with a `logging_floor` know it.
        observation : array_like, optional
            With which probability each reward of `decision.revealed` was seen, where arms reveal others.
        """
        if not isinstance(decision, Decision):
            raise TypeError(f"decision must be a Decision, got {type(decision).__name__}")
        about, new = self._of(decision), self._new
        arms, revealed = decision.arms.tolist(), decision.revealed.tolist()
        # Probabilities that are given are not those that follow from the proposal, which is then no use, but the floor
        # is below them; neither holds where open arms alone are exchanged.
        floor = None if decision.proposal is None or decision.floors_open else decision.floor
        known = inclusion is None and observation is None and decision.proposal is not None
        proposal = decision.proposal if known and floor is not None else None
        if known:
            inclusion = decision.inclusion
            observation = decision.observation if arms != revealed else None
        chances = [] if inclusion is None else _chances("inclusion", inclusion, len(arms))
        views = [] if observation is None else _chances("observation", observation, len(revealed))
        least = 0.0 if known or floor is None else (1.0 - 1e-9) * vars(decision)["floored"].least
        for one in (*chances, *views):
            if one < least:
                raise ValueError(f"inclusion must be at least {least:g}, which the floor gives every arm, got {one!r}")
        came = [] if rewards is None else self._aligned(rewards, revealed, about)
        if about is not self._about:
            self._adopt(about)
        new.numbers.append(decision.number)
        new.times.append(time.time_ns() // 1000)
        all_first = decision.among is None and self._about.n_arms == self._about.n_first
        new.patterns.append(None if all_first else self._pattern(decision))
        new.proposal.add([] if proposal is None else proposal.tolist())
        new.floors.append(floor)
        new.arms.add(arms)
        new.inclusion.add(chances)
        new.observed.add(revealed)
        new.observation.add(views)
        new.rewards.add(came)
        self._flush_if_due(len(new.numbers))

    def tell(self, decision: Decision | int, rewards: Any) -> None:
        """Add rewards of a decision that was appended before; of two for the same arm, the first one counts.

        Parameters
        ----------
        decision : Decision or int
            The decision or its number.
        rewards : mapping, or array_like beside a Decision
            As for `armtriage.Policy.tell`.
        """
        self._writable()
        if isinstance(decision, Decision):
            number, revealed = decision.number, decision.revealed.tolist()
            values = self._aligned(rewards, revealed, self._of(decision))
            told = [(arm, value) for arm, value in zip(revealed, values, strict=True) if value == value]
        else:
            number = check_count("decision", decision)
            if not isinstance(rewards, Mapping):
                raise TypeError(f"rewards must be a mapping of arms beside a number, got {type(rewards).__name__}")
            roster = self._roster_of(self._about)
            arms = [roster.number(arm, "rewards") for arm in rewards]
            told = list(zip(arms, self._checked(_floats("rewards", [*rewards.values()])), strict=True))
        self._new.late += [(number, arm, value) for arm, value in told]
        self._flush_if_due(len(self._new.late))

    def flush(self) -> None:
        """Write what is in memory, and wait until it is on the disk."""
        if self._folder is None:
            return
        pl, new = require_polars(), self._new
        if new.numbers or new.late:
            self._source = None
        # What others refer to is written first, and what is written is forgotten at once: a full disk may come between.
        self._writer("patterns").add(new.pattern_frame(pl))
        new.sets, new.eligible = [], _Lists()
        self._writer("decisions").add(new.frame(pl))
        self._new = _Unwritten(late=new.late)
        self._writer("rewards").add(new.late_frame(pl))
        self._new, self._written = _Unwritten(), time.monotonic()

    def close(self) -> None:
        """Write what is in memory; the log can still be read and appended to."""
        self.flush()

    def frame(self) -> LazyFrame:
        """Return the decisions as a lazy frame of polars, in the order of their numbers, with late rewards."""
        return self._opened().lazy()

    def batches(self) -> Iterator[Batch]:
        """Yield the decisions as arrays, some at a time, after a check of arms and rewards."""
        source = self._opened()
        for rows in source.frames():
            batch = batch_of(rows, source.pattern)
            if self._about.n_first < self.n_arms:
                sets: list[Any] = [np.arange(self._about.n_first) if one is None else one for one in batch.sets]
                batch = batch._replace(sets=sets)
            check_batch(batch, self.n_arms, self.reward_range)
            yield batch

    def looks(self) -> Looks:
        """Return how many rewards a decision shows at most, and whether all have a floor."""
        pl = require_polars()
        known = pl.col("floor").is_not_null().all()
        most, floors = self.frame().select(pl.col("observed").list.len().max(), known).collect().row(0)
        return Looks(int(most or 0), bool(floors))

    def counts(self) -> Counts:
        """Return how often each arm was eligible, played and observed, and the sums of its rewards."""
        return counts_of(self.batches(), self.n_arms)

    def certificate(self, *, budget: int | None = None, delta: float = 0.05) -> Certificate:
        """Return what the decisions have lost at most, against the best eligible arms of every round.

        Parameters
        ----------
        budget : int, optional
            How many arms a decision may have; by default as many as the longest has.
        delta : float
            As for `armtriage.certify`.

        Examples
        --------
        >>> log = SlateLog.from_columns(arms=[[0]] * 60 + [[1]] * 40, rewards=[[1]] * 60 + [[0]] * 40, n_arms=2)
        >>> round(log.certificate().regret_bound, 1)
        40.0
        """
        found = self.counts()
        return certify(
            found.pulls,
            found.counts,
            found.sums,
            budget=found.budget if budget is None else budget,
            squares=found.squares,
            delta=delta,
            reward_range=self.reward_range,
            rounds=found.rounds,
            exposures=None if (found.exposures == found.rounds).all() else found.exposures,
            names=self.names,
            direction=self.direction,
        )

    def old_log(self, *, bias: Any, arms: Sequence[Name] | None = None) -> OldLog:
        """Return what the log says of each arm, for a policy to begin with.

        Parameters
        ----------
        bias : float, array_like or mapping
            How far a mean of the log may be from that of today, at most: see `armtriage.OldLog`.
        arms : sequence, optional
            The arms that count, such as ``policy.names``, which need not all be in the log; by default all of the log.

        Examples
        --------
        >>> log = SlateLog.from_columns(arms=[["tea", "jam"], ["milk", "jam"]], rewards=[[1, 0], [0, 0]])
        >>> log.old_log(bias=0.02, arms=["tea", "jam", "rum"])
        OldLog of 3 rewards, bias=0.02
        """
        found = self.counts()
        if self.names is None:
            if arms is not None:
                raise ValueError(f"arms must be None, since those of the log have no names, got {arms!r:.100}")
            return OldLog(found.counts, found.sums, bias, found.squares)
        wanted = set(self.names if arms is None else arms)
        places = [place for place, name in enumerate(self.names) if name in wanted]
        columns: Any = ({self.names[at]: one[at] for at in places} for one in (found.counts, found.sums, found.squares))
        counts, sums, squares = columns
        return OldLog(counts, sums, bias, squares)

    def _opened(self) -> Source:
        self.flush()
        if self._source is None:
            assert self._folder is not None
            self._source = Folder(self._folder)
        return self._source

    def _writable(self) -> None:
        if self._folder is None:
            raise ValueError("a log that was made of a table cannot be added to: open SlateLog(path)")

    def _of(self, decision: Decision) -> About:
        """Return what the log says of itself once it has this decision."""
        self._writable()
        about = self._about
        if about.policy is not None and decision.policy_id != about.policy:
            raise ValueError(f"decision must be of the policy of the log, {about.policy}, got {decision.policy_id}")
        n = max(decision.n_arms, int(decision.arms[-1]) + 1)
        if about.policy is None or n > about.n_arms:
            first = n if about.policy is None else about.n_first
            return about._replace(n_arms=n, n_first=first, names=decision.all_names, policy=decision.policy_id)
        return about

    def _adopt(self, about: About) -> None:
        assert self._folder is not None
        write_whole(self._folder / ABOUT, about.to_json(), durable=True)
        self._about, self._names, self._roster = about, None if about.names is None else tuple(about.names), None

    def _roster_of(self, about: About) -> Roster:
        if about is not self._about:
            return Roster(about.n_arms, about.names)
        if self._roster is None:
            self._roster = Roster(about.n_arms, about.names)
        return self._roster

    def _aligned(self, rewards: Any, revealed: list[int], about: About) -> list[float]:
        """Return a reward for each arm that is revealed, nan for those that have not come."""
        if not isinstance(rewards, Mapping):
            values = self._checked(_floats("rewards", rewards))
            if len(values) != len(revealed):
                accepted = f"one entry for each of the {len(revealed)} revealed arms"
                raise ValueError(f"rewards must have {accepted}, got {len(values)}")
            return values
        roster = self._roster_of(about)
        found = dict.fromkeys(revealed, math.nan)
        for arm, value in zip(rewards, self._checked(_floats("rewards", [*rewards.values()])), strict=True):
            number = roster.number(arm, "rewards")
            if number not in found:
                shown = f"arms that the decision reveals, {revealed!r:.60}"
                raise ValueError(f"rewards must be of {shown}, got {roster.said(number)}")
            found[number] = value
        return list(found.values())

    def _checked(self, rewards: list[float]) -> list[float]:
        low, high = self._about.reward_range
        for one in rewards:
            if not low <= one <= high:
                raise ValueError(f"rewards must lie in [{low:g}, {high:g}] (reward_range), got {one!r}")
        return rewards

    def _pattern(self, decision: Decision) -> int:
        arms = np.arange(self._about.n_arms) if decision.eligible is None else decision.eligible
        number = int.from_bytes(blake2b(arms.astype("<i4").tobytes(), digest_size=8).digest(), "little", signed=True)
        if number not in self._known:
            if len(self._known) >= _PATTERNS:
                self._known.clear()
            self._known.add(number)
            self._new.sets.append(number)
            self._new.eligible.add(arms.tolist())
        return number

    def _writer(self, table: str) -> PartWriter:
        assert self._folder is not None
        if table not in self._writers:
            self._writers[table] = PartWriter(self._folder / table, {"armtriage.log": "3"})
        return self._writers[table]

    def _flush_if_due(self, waiting: int) -> None:
        if waiting >= self._rows or time.monotonic() - self._written >= self._seconds:
            self.flush()


class _Lists:
    """Lists one after the other, and how long each is."""

    def __init__(self) -> None:
        self._values: list[float] = []
        self._sizes: list[int] = []

    def add(self, values: list[Any]) -> None:
        self._values += values
        self._sizes.append(len(values))

    def column(self, name: str, kind: Any) -> Series:
        whole = np.int64 if kind.is_integer() else np.float64
        return list_column(name, np.array(self._values, whole), np.array(self._sizes, np.int64), kind)


@dataclass
class _Unwritten:
    """Decisions and rewards that are in memory only, column by column."""

    numbers: list[int] = field(default_factory=list)
    times: list[int] = field(default_factory=list)
    patterns: list[int | None] = field(default_factory=list)
    proposal: _Lists = field(default_factory=_Lists)
    floors: list[float | None] = field(default_factory=list)
    arms: _Lists = field(default_factory=_Lists)
    inclusion: _Lists = field(default_factory=_Lists)
    observed: _Lists = field(default_factory=_Lists)
    observation: _Lists = field(default_factory=_Lists)
    rewards: _Lists = field(default_factory=_Lists)
    sets: list[int] = field(default_factory=list)
    eligible: _Lists = field(default_factory=_Lists)
    late: list[tuple[int, int, float]] = field(default_factory=list)  # number, arm and reward

    def frame(self, pl: Any) -> Any:
        """Return the decisions."""
        kinds = schema(pl)
        columns: dict[str, Any] = {"number": self.numbers, "time": self.times, "pattern": self.patterns}
        columns["floor"] = self.floors
        for name in ("proposal", "arms", "inclusion", "observed", "observation", "rewards"):
            columns[name] = getattr(self, name).column(name, kinds[name].inner)
        plain = {"number": pl.Int64, "pattern": pl.Int64, "time": pl.Int64, "floor": pl.Float64}
        made = pl.DataFrame(columns, schema_overrides=plain)
        when = pl.from_epoch("time", time_unit="us").dt.replace_time_zone("UTC")
        return made.with_columns(when).select(list(kinds))

    def pattern_frame(self, pl: Any) -> Any:
        """Return the sets of eligible arms that decisions refer to."""
        return pl.DataFrame(
            {"pattern": pl.Series(self.sets, dtype=pl.Int64), "arms": self.eligible.column("", pl.Int32)}
        )

    def late_frame(self, pl: Any) -> Any:
        """Return the rewards that came later."""
        return pl.DataFrame(self.late, {"number": pl.Int64, "arm": pl.Int32, "reward": pl.Float64}, orient="row")


def _floats(name: str, values: Any) -> list[float]:
    """Return numbers as a list."""
    if type(values) is list and all(type(one) is float or type(one) is int for one in values):
        return values
    found: list[float] = np.atleast_1d(np.asarray(as_numbers(name, values), np.float64)).tolist()
    return found


def _chances(name: str, values: ArrayLike, size: int) -> list[float]:
    found = [values] * size if type(values) is float else _floats(name, values)
    if len(found) == 1 < size:
        found *= size
    if len(found) != size:
        raise ValueError(f"{name} must be a number, or one for each of {size} arms, got {len(found)}")
    for one in found:
        if not 0.0 < one <= 1.0:
            raise ValueError(f"{name} must lie in (0, 1], got {one!r}")
    return found
