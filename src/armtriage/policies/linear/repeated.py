"""What is kept of a request whose contexts come again: widths that follow each reward in K d operations.

The contexts of most requests are new, so nothing is kept of them but a mark of their first row. If that comes again,
all rows are kept, and if they come again, too, so are the widths.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from armtriage.kernels.jit import kernel
from armtriage.kernels.random import bits
from armtriage.kernels.record import Record
from armtriage.kernels.ridge import lower_forms

__all__ = [
    "Repeated",
    "Squares",
    "follow",
    "keep",
    "new_repeated",
    "new_squares",
    "note_change",
    "note_vector",
    "repeats",
]

_NEW, _FIRST_ROW, _ALL_ROWS = 0, 1, 2


class Repeated(Record):
    """The contexts of the last request, or a mark of them."""

    facts = ("rows", "known", "mark")
    contexts: NDArray[np.float64]  # (K, d) while `held`
    rows: int
    known: int  # what `mark` is of
    mark: int
    held: bool  # whether `contexts` are here: after loading they are known by their mark only


class Squares(Record):
    """Squares of widths with an inverse, for contexts that came again, and what was taken from the inverse since."""

    facts = ("values", "vectors", "waiting")
    values: NDArray[np.float64]  # (K,)
    vectors: NDArray[np.float64]  # (d / 3, d): with more of them it takes no longer to begin anew
    waiting: int  # vectors that `values` do not follow yet; -1 if they are those of nothing


def new_repeated(n_arms: int, dimension: int) -> Repeated:
    """Return what is kept before the first request."""
    return Repeated(np.zeros((n_arms, dimension)), rows=0, known=_NEW, mark=0, held=False)


def new_squares(n_arms: int, dimension: int) -> Squares:
    """Return room for widths."""
    return Squares(np.zeros(n_arms), np.zeros((dimension // 3, dimension)), waiting=-1)


@kernel
def _mark(contexts: NDArray[np.float64], rows: int) -> int:
    """Return 63 bits that other rows have by an accident of probability 2^-63 only."""
    words, mark = contexts.view(np.int64), np.uint64(0)
    for arm in range(rows):
        for j in range(words.shape[1]):
            mark = bits(mark, words[arm, j])
    return np.int64(mark >> np.uint64(1))  # type: ignore[return-value]


@kernel
def repeats(repeated: Repeated, contexts: NDArray[np.float64]) -> bool:
    """Whether all contexts are those of the last two requests; remember them."""
    n = contexts.shape[0]
    if repeated.rows == n and repeated.known == _ALL_ROWS:
        if repeated.held:
            if _equal(repeated.contexts, contexts):
                return True
        elif _mark(contexts, n) == repeated.mark:
            _hold(repeated, contexts)
            return True
    elif repeated.rows == n and repeated.known == _FIRST_ROW and _mark(contexts, 1) == repeated.mark:
        repeated.known, repeated.mark = _ALL_ROWS, _mark(contexts, n)
        _hold(repeated, contexts)
        return False
    repeated.rows, repeated.known, repeated.mark, repeated.held = n, _FIRST_ROW, _mark(contexts, 1), False
    return False


@kernel
def _hold(repeated: Repeated, contexts: NDArray[np.float64]) -> None:
    for arm in range(contexts.shape[0]):
        for j in range(contexts.shape[1]):
            repeated.contexts[arm, j] = contexts[arm, j]
    repeated.held = True


@kernel
def _equal(kept: NDArray[np.float64], contexts: NDArray[np.float64]) -> bool:
    ours, theirs = kept.view(np.int64), contexts.view(np.int64)
    for arm in range(contexts.shape[0]):
        differ = 0
        for j in range(contexts.shape[1]):
            differ |= ours[arm, j] ^ theirs[arm, j]
        if differ != 0:
            return False
    return True


@kernel
def follow(
    kept: Squares,
    weights: NDArray[np.float64],
    block: NDArray[np.float64],
    contexts: NDArray[np.float64],
    estimates: NDArray[np.float64],
    squares: NDArray[np.float64],
) -> bool:
    """Write estimates and squares of widths for contexts that came again, if that is less work than to begin anew."""
    if kept.waiting < 0:
        return False
    n = contexts.shape[0]
    lower_forms(kept.vectors[: kept.waiting], weights, block, contexts, estimates, kept.values[:n])
    kept.waiting = 0
    for arm in range(n):
        squares[arm] = kept.values[arm]
    return True


@kernel
def keep(kept: Squares, squares: NDArray[np.float64]) -> None:
    """Keep squares that were just computed."""
    for arm in range(squares.size):
        kept.values[arm] = squares[arm]
    kept.waiting = 0


@kernel
def note_vector(kept: Squares, vector: NDArray[np.float64]) -> None:
    """Note that v v' was taken from the inverse."""
    if kept.waiting < 0:
        return
    if kept.waiting == kept.vectors.shape[0]:
        kept.waiting = -1
        return
    for j in range(vector.size):
        kept.vectors[kept.waiting, j] = vector[j]
    kept.waiting += 1


@kernel
def note_change(kept: Squares) -> None:
    """Note that the inverse is another one."""
    kept.waiting = -1
