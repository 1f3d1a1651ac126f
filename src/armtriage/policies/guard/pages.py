"""Pages: what the guard over a decision set keeps for each eligible set by itself.

Rounds with the same eligible arms are a problem of their own: with a reference, a log and a certain decision of their
own, and an incumbent that may be played. What is known of the arms, and the budget, are common to all. The book lies
open at the page of all arms; for a round among others their page is put into it, and taken out again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from armtriage.graphs.feedback import GraphArrays
from armtriage.kernels.record import Ints
from armtriage.policies.evidence import new_evidence
from armtriage.policies.facts import require, restore_arrays, within
from armtriage.policies.guard.coupled_draws import Draws, settle_in
from armtriage.policies.guard.decision_account import (
    DecisionBook,
    DecisionParams,
    new_decision_book,
)

_OF_BOOK = (
    *("admitted", "reference", "committed"),
    *("n_reference", "n_committed", "n_admitted", "seen_at", "refunded", "spent", "price"),
)
_OF_DRAWS = ("incumbent", "prices", "n_incumbent", "made")
Page = dict[str, NDArray[Any]]


class Pages:
    """The pages of eligible sets, at most `most`: of the one that was not asked for longest, only the sum is kept."""

    def __init__(self, params: DecisionParams, most: int, *, with_draws: bool) -> None:
        self.most, self.frozen = most, 0.0
        unseen = new_evidence(params.n_arms, ends=True)
        blank: Page = _take(new_decision_book(params, unseen), _OF_BOOK, "book.")
        if with_draws:
            n, size = params.n_arms, params.size
            ints, floats = np.zeros(size, np.int64), np.zeros(n if params.reveal else 0)
            blank |= {"draws.incumbent": ints, "draws.prices": floats}
            blank |= {"draws.n_incumbent": np.array(-1), "draws.made": np.array(0)}
        self._blank = blank
        self._pages: dict[bytes, Page] = {}  # the one that was asked last is the last

    @contextmanager
    def at(self, among: Ints, graph: GraphArrays, book: DecisionBook, draws: Draws | None) -> Iterator[None]:
        """Open the book at the page of eligible arms, ascending; nothing has changed if what follows fails."""
        key = among.tobytes()
        numbers = [(one.whole, one.whole.copy(), one.real, one.real.copy()) for one in (book, draws) if one is not None]
        own = _put(self._pages.get(key, self._blank), graph, book, draws)
        book.elsewhere = self._booked(key) + float(own["book.spent"])
        try:
            yield
        except BaseException:
            _put(own, graph, book, draws)
            for whole, old_whole, real, old_real in numbers:
                whole[:], real[:] = old_whole, old_real
            raise
        page = _put(own, graph, book, draws)
        self._pages.pop(key, None)
        if len(self._pages) == self.most:
            self.frozen += float(self._pages.pop(next(iter(self._pages)))["book.spent"])
        self._pages[key] = page
        book.elsewhere = self._booked()

    def _booked(self, but: bytes | None = None) -> float:
        """Return what was booked among all eligible sets but one."""
        return self.frozen + sum(float(page["book.spent"]) for key, page in self._pages.items() if key != but)

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return everything as arrays, for a file."""
        none = np.empty(0, np.int64)
        among = [np.frombuffer(key, np.int64) for key in self._pages]
        kept = list(self._pages.values())
        fields = {
            name: np.stack([page[name] for page in kept]) if kept else np.zeros((0, *blank.shape), blank.dtype)
            for name, blank in self._blank.items()
        }
        return {
            "arms": np.concatenate([none, *among]),
            "sizes": np.array([one.size for one in among], np.int64),
            "frozen": np.array([self.frozen]),
            **fields,
        }

    def restore(
        self,
        arrays: Mapping[str, NDArray[Any]],
        check: Callable[[], None],
        graph: GraphArrays,
        book: DecisionBook,
        draws: Draws | None,
    ) -> None:
        """Take back what `to_arrays` wrote; `check` is called with the book open at each page."""
        most, n = float(np.finfo(np.float64).max), book.counts.size
        require("sizes" in arrays and arrays["sizes"].ndim == 1, "pages must have sizes")
        sizes = arrays["sizes"]
        require(sizes.dtype == np.int64 and sizes.size <= self.most, f"there must be at most {self.most} pages")
        within("sizes of eligible sets", sizes, 1, n - 1)
        own = {"arms": np.zeros(int(sizes.sum()), np.int64), "sizes": sizes.copy(), "frozen": np.zeros(1)}
        own |= {name: np.zeros((sizes.size, *one.shape), one.dtype) for name, one in self._blank.items()}
        require(set(arrays) == set(own), f"pages must have {', '.join(own)}, got {', '.join(arrays)}")
        restore_arrays(own, arrays)
        within("frozen", own["frozen"], 0.0, most)
        for i, among in enumerate(np.split(own["arms"], np.cumsum(sizes)[:-1]) if sizes.size else ()):
            within("eligible arms", among, 0, n - 1)
            require(np.diff(among) > 0, "eligible arms must rise")
            require(among.tobytes() not in self._pages, "eligible sets must differ")
            page = {name: own[name][i].copy() for name in self._blank}
            open_page = _put(page, graph, book, draws)
            try:
                check()
                _check_eligible(among, book, draws)
            finally:
                _put(open_page, graph, book, draws)
            self._pages[among.tobytes()] = page
        self.frozen = float(own["frozen"][0])
        book.elsewhere = self._booked()


def _check_eligible(among: Ints, book: DecisionBook, draws: Draws | None) -> None:
    held = [book.reference[: max(book.n_reference, 0)], book.committed[: max(book.n_committed, 0)]]
    if draws is not None:
        held.append(draws.incumbent[: max(draws.n_incumbent, 0)])
    require(np.isin(np.concatenate(held), among), "decisions of a page must be eligible")


def _put(page: Page, graph: GraphArrays, book: DecisionBook, draws: Draws | None) -> Page:
    """Put a page into the book, and return the one that was there."""
    old = _exchange(book, _OF_BOOK, "book.", page)
    if draws is not None:
        old |= _exchange(draws, _OF_DRAWS, "draws.", page)
        if draws.n_incumbent >= 0:
            settle_in(draws, graph)
    return old


def _take(record: Any, names: tuple[str, ...], prefix: str) -> Page:
    """Return copies of some fields of a record."""
    return {f"{prefix}{name}": np.array(getattr(record, name)) for name in names}


def _exchange(record: Any, names: tuple[str, ...], prefix: str, page: Page) -> Page:
    """Write the fields of a page into a record, and return what was there; fields that a page leaves out stay."""
    old = _take(record, names, prefix)
    for name in names:
        new = page[f"{prefix}{name}"]
        if new.ndim == 0:
            setattr(record, name, new.item())
        elif new.size:
            getattr(record, name)[:] = new
        else:
            old[f"{prefix}{name}"] = new
    return old
