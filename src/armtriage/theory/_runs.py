"""Graphs in which every arm reveals one run of consecutive arms: both numbers in near-linear time.

Semi-bandit feedback, full information, cliques, ladders and arms along a line are all of this kind.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from armtriage.graphs.feedback import FeedbackGraph, GraphArrays
from armtriage.kernels.jit import kernel

__all__ = ["name_of", "run_cover", "strangers"]

Ints = NDArray[np.int64]


def name_of(graph: FeedbackGraph) -> str:
    """Return what a graph without lists is called."""
    start, stop = graph.arrays.start, graph.arrays.stop
    if graph.n_edges == graph.n_arms:
        return "semi-bandit"
    if graph.n_edges == graph.n_arms**2:
        return "full information"
    arms = np.arange(graph.n_arms)
    joins = (start[1:] == start[:-1]) & (stop[1:] == stop[:-1])
    if (joins | ((start[1:] == arms[1:]) & (stop[:-1] == arms[1:]))).all():
        return "cliques"
    if ((start == arms).all() and (stop == arms.size).all()) or ((start == 0).all() and (stop == arms + 1).all()):
        return "ladder"
    return "runs of arms"


@kernel
def strangers(graph: GraphArrays) -> Ints:
    """Return as many arms as possible none of which is in another's run, ascending.

    For arms a < b < c, if a and b are strangers and b and c are, then so are a and c: only neighbours in the answer
    count. The longest chain that ends in b follows the longest that ends before b's run begins, in an arm whose run
    ends before b. Arms enter the tree of prefix maxima when their run ends.
    """
    n = graph.start.size
    length, before = np.zeros(n, np.int64), np.full(n, -1, np.int64)
    tree = np.full(n + 1, -1, np.int64)
    ending, same_end = np.full(n + 1, -1, np.int64), np.empty(n, np.int64)
    last = 0
    for b in range(n):
        a = ending[b]
        while a >= 0:
            i = a + 1
            while i <= n and (tree[i] < 0 or length[tree[i]] < length[a]):
                tree[i] = a
                i += i & -i
            a = same_end[a]
        i = int(graph.start[b])
        while i > 0:
            if tree[i] >= 0 and length[tree[i]] > length[b]:
                length[b] = length[tree[i]]
                before[b] = tree[i]
            i -= i & -i
        length[b] += 1
        if length[b] > length[last]:
            last = b
        same_end[b] = ending[graph.stop[b]]
        ending[graph.stop[b]] = b
    chain = np.empty(length[last], np.int64)
    for i in range(chain.size - 1, -1, -1):
        chain[i] = last
        last = before[last]
    return chain


@kernel
def run_cover(graph: GraphArrays) -> Ints:
    """Return as few arms as possible whose runs hold all arms, ascending."""
    n = graph.start.size
    longest = np.full(n, -1, np.int64)
    for arm in range(n):
        first = graph.start[arm]
        if longest[first] < 0 or graph.stop[longest[first]] < graph.stop[arm]:
            longest[first] = arm
    picks = np.empty(n, np.int64)
    count, covered, best = 0, 0, 0
    for first in range(n):
        if longest[first] >= 0 and graph.stop[longest[first]] > graph.stop[best]:
            best = longest[first]
        if first == covered:
            picks[count] = best
            count += 1
            covered = graph.stop[best]
    return picks[:count]
