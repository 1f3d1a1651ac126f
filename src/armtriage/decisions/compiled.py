"""Oracles that compiled code can ask: the same kernels as behind `maximise`, with what they need in one record.

``best(record, weights, arms)`` writes a decision of largest weight, ascending, and returns how many arms it has. It
gives the same answers as `DecisionSet.maximise`, ties included. A record has scratch space: each run needs its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from armtriage.kernels.jit import kernel
from armtriage.kernels.record import Ints, Record


class CompiledOracle(NamedTuple):
    """A kernel that finds best decisions, and the record that it is called with."""

    record: Record
    best: Callable[..., int]


def by_node(ends: Ints, n_nodes: int) -> tuple[Ints, Ints]:
    """Return where the arcs of each node begin, and the arcs in that order: by node, then by number."""
    return np.append(0, np.cumsum(np.bincount(ends, minlength=n_nodes))), np.argsort(ends, kind="stable")


@kernel
def collect(chosen: NDArray[np.bool_], arms: Ints) -> int:
    """Write the chosen arms, ascending; return how many."""
    n = 0
    for a in range(chosen.size):
        if n == arms.size:
            break
        arms[n] = a  # kept if it is chosen: a branch here could not be predicted
        n += chosen[a]
    return n


def has_compiled_oracle(decisions: Any) -> bool:
    """Whether compiled code can ask the set."""
    return compiled_oracle(decisions, 0.0) is not None


def compiled_oracle(decisions: Any, offset: float) -> CompiledOracle | None:
    """Return the set's oracle for compiled code, None if it has none; `offset` is a reward of 0 on the unit scale."""
    # A class must have the oracle itself: a subclass may have changed what is best.
    return decisions._compiled(offset) if "_compiled" in vars(type(decisions)) else None
