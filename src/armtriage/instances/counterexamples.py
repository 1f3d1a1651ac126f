"""What refutes two lemmas of the paper: a graph for the greedy one, and a state of three arms for the linear one."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from armtriage._arguments import LARGEST, check_count
from armtriage.graphs import FeedbackGraph
from armtriage.kernels.record import Floats


def two_hubs(n_arms: int) -> FeedbackGraph:
    """Return the undirected graph on which the greedy of Algorithm 1 needs half of the arms where two would do.

    The hubs, arms 0 and 1, reveal each other and one half of the other arms each, the half of arm 0 being larger by one
    or two. Together they reveal all. But arm 0 goes first; then arm 1 has been seen and is no candidate, and its
    m = (n_arms - 3) // 2 leaves follow one by one. The lemma on the greedy that the proofs of Theorems 1 and 3 quote
    allows at most 2 (1 + ln K) arms, and is about another greedy.

    Parameters
    ----------
    n_arms : int
        K, from 5.

    Examples
    --------
    >>> graph = two_hubs(103)
    >>> graph.revealed_by([0, 1]).size
    103
    >>> from armtriage import CombinatorialElimination
    >>> greedy = CombinatorialElimination(graph, budget=51, tie_break="index").ask()
    >>> greedy.revealed.size                              # 51 arms; with 50 one would be missing
    103
    """
    n = check_count("n_arms", n_arms, 5, LARGEST)
    leaves = np.arange(2, n)
    hub = (leaves >= n - (n - 3) // 2).astype(np.int64)
    edges = np.column_stack([np.append(0, hub), np.append(1, leaves)])
    return FeedbackGraph.from_edges(n, edges, undirected=True)


class StageState(NamedTuple):
    """What a stage of Algorithm 3 knows of the arms that are in question, and what is true.

    Examples
    --------
    >>> state = three_arms()
    >>> bool((abs(state.estimates - state.means) <= state.widths).all())
    True
    """

    estimates: Floats
    widths: Floats
    means: Floats
    budget: int  # slots that are free
    stage: int  # h, from 1


def three_arms(stage: int = 1) -> StageState:
    """Return a state in which every interval holds, and Algorithm 3 as printed eliminates one of the best two arms.

    Two slots are free. With u = 2^-h, arm 0 is the best, just below 2u, and known; arm 1 is second, with mean 0 and
    estimate -u; arm 2 is worst by a hair, with an estimate just below u. Arms 1 and 2 have width u. Ranked by upper
    end, arm 2 is first and arm 0 second; 2u below the estimate of arm 0 is above that of arm 1, which leaves. Ranked by
    estimate, as in the repaired variant, arm 2 is second, and arm 1 stays.

    Parameters
    ----------
    stage : int
        h, from 1.

    Examples
    --------
    >>> state = three_arms(stage=2)
    >>> state.means.argsort()[::-1]
    array([0, 1, 2])
    >>> second = (state.estimates + state.widths).argsort()[::-1][1]
    >>> state.estimates < state.estimates[second] - 2 * 2.0**-2
    array([False,  True, False])
    """
    unit = 0.5 ** check_count("stage", stage, 1, 500)
    hair = unit / 1024
    means = np.array([2.0 * unit - 2.0 * hair, 0.0, -hair])
    return StageState(np.array([means[0], -unit, unit - hair]), np.array([0.0, unit, unit]), means, 2, stage)
