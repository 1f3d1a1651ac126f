"""Crowd: the arms of a policy whose requests differ, and the compiled code that chooses among them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from armtriage._arguments import LONGEST
from armtriage.arms import Roster
from armtriage.graphs.feedback import FeedbackGraph
from armtriage.kernels.jit import Opener, bind, compile_now
from armtriage.kernels.order import sort_arms
from armtriage.kernels.random import row
from armtriage.kernels.record import Record, RecordLayout
from armtriage.policies.eligible.exploring import cover_size
from armtriage.policies.eligible.rows import COLUMNS, Request, Rows, expose, grown, learn, lose, new_rows, settle
from armtriage.policies.facts import facts_of, is_later, require, restore_arrays, with_later, within
from armtriage.policies.prior import LARGEST
from armtriage.policies.rewards import Told

__all__ = ["Among", "Crowd", "Rules", "decide", "decider", "name_among"]

_COVERED = 20_000  # arms up to which a cover is counted, which looks at all of them for each pick
_SCRATCH = {"pending", "divisors", "out", "cut", "skipped", "marks", "values", "keys", "chosen", "open", "ceiling"}
_SCRATCH |= {"best", "degrees", "flags", "hashes", "unheard"}
_KEPT = tuple(name for name in COLUMNS if name not in _SCRATCH)


class Among(NamedTuple):
    """How a policy chooses among eligible arms; `armtriage.Policy` classes name theirs as `among`."""

    choose: Callable[..., None]  # (request, number, luck, among, arms), for more arms than slots
    believe: Callable[..., None]  # (request, number, luck, arms, beliefs)
    draws: bool = False  # whether beliefs are luck and posteriors


class Rules(NamedTuple):
    """What kernels must know of a policy beside its rows."""

    params: Record
    budget: int
    interval: int = -1  # none
    horizon: float = 0.0
    delta: float = 0.01
    factor: float = 0.0
    shadow: bool = False
    free_look: bool = False
    coin: bool = False
    learned: bool = False
    prior: tuple[float, float] = (1.0, 1.0)


def open_request(address: Any) -> Any:
    """Stand for the function that finds a request by its address, which `bind` puts here."""
    raise NotImplementedError


def choose(*arguments: Any) -> None:
    """Stand for the policy's kernel, which `bind` puts here."""
    raise NotImplementedError


def believe(*arguments: Any) -> None:
    """Stand for the policy's kernel, which `bind` puts here."""
    raise NotImplementedError


def decide(request: Request, number: int, n: int, size: int) -> None:
    """Put `size` of the first n arms of `among` into `arms`, ascending."""
    among, arms = request.among[:n], request.arms[:size]
    request.rows.clock = number
    if n > size:
        choose(request, number, row(request.streams[0], number), among, arms)
        sort_arms(arms)
    else:
        for i in range(size):
            arms[i] = among[i]


def _ask(address: int, number: int, n: int, size: int, own: bool) -> None:
    """Choose `size` of the first n arms that are among the request; count them, too, if they are what is revealed."""
    request = open_request(address)
    decide(request, number, n, size)
    arms = request.arms[:size]
    believe(request, number, row(request.streams[0], number), arms, request.beliefs)
    if own:
        expose(request.rows, request.among[:n], arms)
        for i in range(size):
            request.rows.pending[arms[i]] += 1


def _count(address: int, n: int, size: int, shown: int) -> None:
    """Count the decision that is in `arms`, and the rewards of arms behind the first n as on their way."""
    request = open_request(address)
    rows = request.rows
    expose(rows, request.among[:n], request.arms[:size])
    for i in range(n, n + shown):
        rows.pending[request.among[i]] += 1


def _teach(address: int, number: int, n: int) -> None:
    """Let whoever chooses know the rewards of the first n arms."""
    request = open_request(address)
    learn(request, row(request.streams[0], number), request.among[:n], request.rewards[:n])


def _close(address: int, number: int, known: int, told: int, n: int) -> None:
    """Close a decision: of its n arms the first `known` were taught before, and those from `told` on were lost."""
    request = open_request(address)
    luck = row(request.streams[0], number)
    learn(request, luck, request.among[known:told], request.rewards[known:told])
    settle(request, request.among[:told], request.rewards[:told])
    lose(request.rows, request.among[told:n])


class _Entries(NamedTuple):
    ask: Callable[..., None]
    note: Callable[..., None]
    teach: Callable[..., None]
    close: Callable[..., None]


def name_among(among: Among) -> str:
    """Return a name for machine code that is made of a policy's kernels."""
    return f"{among.choose.__module__}_{among.choose.__name__}".replace(".", "_")


@cache
def decider(among: Among) -> Callable[..., None]:
    """Return `decide` with a policy's own kernel."""
    return bind(decide, f"decide_{name_among(among)}", choose=among.choose)


@cache
def _entries(among: Among, kind: RecordLayout) -> _Entries:
    """Return what Python calls, compiled: no later call compiles anything."""
    name, find = name_among(among), Opener(kind)
    entries = _Entries(
        bind(_ask, f"ask_among_{name}", open_request=find, decide=decider(among), believe=among.believe),
        bind(_count, f"count_among_{name}", open_request=find),
        bind(_teach, f"teach_among_{name}", open_request=find),
        bind(_close, f"close_among_{name}", open_request=find),
    )
    compile_now(entries.ask, int, int, int, int, bool)
    compile_now(entries.note, int, int, int, int)
    compile_now(entries.teach, int, int, int)
    compile_now(entries.close, int, int, int, int, int)
    return entries


class Crowd:
    """Rows of arms, and one way to choose among them."""

    def __init__(self, among: Among, rules: Rules, graph: FeedbackGraph, stream: np.uint64) -> None:
        self.among, self.rules, self.graph, self.stream = among, rules, graph, stream
        self.rows: Rows = new_rows(graph.n_arms)
        self.n_arms = graph.n_arms
        self.rows.prior_wins, self.rows.prior_losses = rules.prior
        self._divisor = 1.0
        self._plain = graph.n_edges == graph.n_arms
        self._request: Request | None = None
        self._entries: _Entries | None = None
        self.covered: NDArray[np.int64] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_request": None, "_entries": None}

    @property
    def request(self) -> Request:
        """What kernels are handed: made anew when the graph or the rows are others."""
        if self._request is None:
            rules, room = self.rules, self.rows.counts.size
            self._request = Request(
                rules.params,
                self.rows,
                self.graph.arrays,
                np.array([self.stream]),
                np.zeros(2 * room, np.int64),
                np.zeros(room),
                np.zeros(rules.budget, np.int64),
                np.zeros((4 if self.among.draws else 1, rules.budget)),
                kind=rules.interval,
                plain=self._plain,
                shadow=rules.shadow,
                free_look=rules.free_look,
                coin=rules.coin,
                learned=rules.learned,
                horizon=rules.horizon,
                delta=rules.delta,
                factor=rules.factor,
                base=self._base,
            )
            self._entries = None
        return self._request

    def grow(self, n_arms: int, graph: FeedbackGraph | None) -> None:
        """Take up more arms; without a graph, they all reveal themselves only."""
        self.n_arms, rows = n_arms, grown(self.rows, n_arms)
        if rows is not self.rows or graph is not None:
            self._request = None
        self.rows, self.graph, self._plain = rows, graph or self.graph, graph is None

    def share(self, arms: NDArray[np.int64] | slice, divisors: NDArray[np.float64]) -> None:
        """Set what arms may spend of delta: delta divided by these numbers."""
        self.rows.divisors[arms] = divisors
        self._divisor = max(self._divisor, float(divisors.max(initial=1.0)))
        if self._request is not None:
            self._request.base = self._base

    @property
    def _base(self) -> float:
        """ln(1 / the least share of delta) + ln 2, which the widths of all intervals have in common."""
        return math.log(self._divisor / self.rules.delta) + math.log(2.0)

    def share_all(self, roster: Roster, n_arms: int) -> None:
        """Set what each of the first arms may spend."""
        self.share(slice(0, n_arms), roster.divisors()[:n_arms])

    def forget(self, arms: list[int]) -> None:
        """Let arms begin anew, with nothing known of them; what they were stays in the books."""
        for arm in arms:
            self.rows = grown(self.rows, int(self.rows.n_arms))
            rows, ghost = self.rows, self.rows.counts.size - 1 - int(self.rows.n_ghosts)
            for name in COLUMNS:
                column = getattr(rows, name)
                column[ghost], column[arm] = column[arm], 0
            rows.upper[arm], rows.due[arm] = 1.0, 1
            rows.n_ghosts += 1
        self._request = None

    def cover(self, arms: NDArray[np.int64], seen: bool) -> None:
        """Count how many pulls show each of these arms; as many as there are, unless a pull also shows others."""
        self.covered = arms
        counted = seen and arms.size <= _COVERED
        self.rows.cover = cover_size(self.rows, self.graph.arrays, arms) if counted else arms.size

    def ghosts(self) -> dict[str, NDArray[Any]]:
        """Return what is kept of forgotten arms, column by column."""
        rows = self.rows
        first = rows.counts.size - int(rows.n_ghosts)
        return {name: getattr(rows, name)[first:] for name in (*_KEPT, "divisors")}

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return everything that does not follow from something else: rows of arms, then those of ghosts."""
        rows, ghosts = self.rows, self.ghosts()
        n, facts = int(rows.n_arms), facts_of(rows)
        kept = {name: np.append(getattr(rows, name)[:n], ghosts[name]) for name in _KEPT}
        patterns = rows.patterns[rows.patterns != 0]
        return {
            **kept,
            "ghost_divisors": ghosts["divisors"].copy(),
            "patterns": np.sort(patterns),
            "whole": facts["whole"],
            "real": facts["real"],
        }

    def restore(
        self, arrays: Mapping[str, NDArray[Any]], asked: int, awaited: NDArray[np.int64], early: NDArray[np.int64]
    ) -> None:
        """Take back what `arrays` returned, if all of it can be."""
        own = self.arrays()
        later = {name: np.zeros(arrays["counts"].size) for name in own if is_later(name)}
        arrays = with_later(own | later, arrays)
        # Numbers are only ever added behind the others: the files of before have fewer.
        bags = {name: np.zeros(min(own[name].size, arrays[name].size), own[name].dtype) for name in ("whole", "real")}
        restore_arrays(bags, arrays)
        n, patterns, divisors = int(self.rows.n_arms), arrays["patterns"], arrays["ghost_divisors"]
        ghosts = arrays["counts"].size - n
        require(arrays["counts"].ndim == 1 and ghosts >= 0, "there must be a row for each arm")
        require(divisors.dtype == np.float64 and divisors.shape == (ghosts,), "ghosts must have shares of delta")
        within("shares of ghosts", divisors, 1.0, 1e30)
        self.rows.n_ghosts = ghosts
        self.rows = rows = grown(self.rows, n)
        room = rows.counts.size
        for name in _KEPT:
            column = getattr(rows, name)
            copy = np.zeros(n + ghosts, column.dtype)
            restore_arrays({name: copy}, arrays)
            column[:n], column[room - ghosts :] = copy[:n], copy[n:]
        rows.divisors[room - ghosts :] = divisors
        for bag, values in bags.items():
            places = rows.fact_places(bag)
            places = places[places < values.size]
            getattr(rows, bag)[places] = values[places]
        require(int(rows.n_ghosts) == ghosts, "there must be as many ghosts as rows of them")
        self._check(asked, early)
        rows.pending[:n] = awaited
        known = patterns.ndim == 1 and patterns.dtype == np.uint64 and 2 * patterns.size <= rows.patterns.size
        require(known and np.unique(patterns).size == patterns.size, "patterns must be different")
        require(patterns != 0, "no pattern is 0")
        for name in patterns:
            place = int(name >> np.uint64(40)) % rows.patterns.size
            while rows.patterns[place] != 0:
                place = (place + 1) % rows.patterns.size
            rows.patterns[place] = name
        rows.n_patterns, rows.cover, self._request = patterns.size, n, None

    def _check(self, asked: int, early: NDArray[np.int64]) -> None:
        """Refuse rows that no sequence of calls leads to."""
        rows, n, most = self.rows, int(self.rows.n_arms), float(np.finfo(np.float64).max)
        for part in (slice(0, n), slice(rows.counts.size - int(rows.n_ghosts), None)):
            counts, sums, learned, pulls = (
                getattr(rows, name)[part] for name in ("counts", "sums", "learned", "pulls")
            )
            within("counts", counts, 0, asked)
            within("sums", sums, 0.0, counts)
            within("between", rows.between[part], 0.0, counts / 4.0)
            within("learned", learned, counts, asked)
            within("gained", rows.gained[part], 0.0, learned)
            within("wins", rows.wins[part], 0.0, learned)
            within("told_between", rows.told_between[part], 0.0, learned / 4.0)
            within("missed", rows.missed[part], 0, asked)
            within("credit", rows.credit[part], 0, asked * (asked + 1))
            within("lower", rows.lower[part], 0.0, 1.0)
            within("upper", rows.upper[part], rows.lower[part], 1.0)
            within("due", rows.due[part], 1, 2 * asked + 2)
            within("exposures", rows.exposures[part], 0, asked)
            within("pulls", pulls, 0, rows.exposures[part])
            within("admitted", rows.admitted[part], 0, asked)
            within("offered", rows.offered[part], rows.admitted[part], rows.exposures[part])
        require(rows.learned[:n] == rows.counts[:n] + early, "what was learned must be what was told")
        total = self.arrays()
        require(total["pulls"].sum() == rows.slots, "pulls must be those of all decisions")
        require(total["admitted"].sum() == rows.offered_slots, "admitted pulls must be those of all proposals")
        within("clock", rows.clock, 0, asked)
        within("failures", rows.failures, 0, (n + 1) * (asked + 1))
        within("n_admitted", rows.n_admitted, 0, asked)
        within("forced", rows.forced, 0, asked)
        within("resume", rows.resume, 0, LONGEST)
        within("fractional", rows.fractional, 0, 1)
        within("next_fit", rows.next_fit, 0, LONGEST)
        fixed = (min(self.rules.prior), max(self.rules.prior))
        least, largest = (1.0, LARGEST) if self.rules.learned else fixed
        within("the prior", np.array([rows.prior_wins, rows.prior_losses]), least, largest)
        within("gap", rows.gap, 0.0, 1.0)
        for name in ("spent", "allowed", "total", "forced_cost", "floor"):
            within(name, getattr(rows, name), 0.0, most)

    @property
    def _calls(self) -> _Entries:
        if self._entries is None:
            self._entries = _entries(self.among, self.request.layout)
        return self._entries

    def choose(
        self, number: int, among: NDArray[np.int64], proposal: NDArray[np.int64] | None = None, own: bool = False
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return the arms of a decision, ascending, and what was believed of them; count it as made if `own`."""
        request, n = self.request, among.size
        size = min(n, self.rules.budget)
        request.among[:n] = among
        if proposal is not None:
            request.arms[:size] = proposal
        self._calls.ask(request.handle, number, n, size, own)
        beliefs = request.beliefs if size == self.rules.budget else request.beliefs[:, :size]
        return request.arms[:size].copy(), beliefs.copy()

    def count(self, among: NDArray[np.int64], arms: NDArray[np.int64], shown: NDArray[np.int64]) -> None:
        """Count a decision as made, and the rewards that it shows as on their way."""
        request, n = self.request, among.size
        request.among[:n], request.arms[: arms.size] = among, arms
        request.among[n : n + shown.size] = shown
        self._calls.note(request.handle, n, arms.size, shown.size)

    def teach(self, number: int, arms: NDArray[np.int64], rewards: NDArray[np.float64]) -> None:
        """Let whoever chooses know rewards of a decision that stays open."""
        request, n = self.request, arms.size
        request.among[:n], request.rewards[:n] = arms, rewards
        self._calls.teach(request.handle, number, n)

    def weigh(self, arms: NDArray[np.int64], weights: NDArray[np.float64]) -> None:
        """Let arms count so many least rewards beside those that were told, for whoever chooses."""
        rows = self.rows
        # More of them lower a draw, and the old bound on it stays safe.
        rows.cut[arms[weights < rows.unheard[arms]]] = 0
        rows.unheard[arms] = weights

    def close(self, told: Told) -> None:
        """Close a decision with its rewards, of which those that are known were taught before."""
        request, m = self.request, told.arms.size
        n = m + told.missing.size
        request.among[:m], request.rewards[:m], request.among[m:n] = told.arms, told.rewards, told.missing
        self._calls.close(request.handle, told.number, told.known, m, n)
