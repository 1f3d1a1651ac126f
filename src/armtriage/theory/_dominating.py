"""The fewest arms that between them reveal everything."""

from __future__ import annotations

import numpy as np

from armtriage.graphs.feedback import FeedbackGraph
from armtriage.theory._answers import Answer, Clock, say_how
from armtriage.theory._greedy import cover_chvatal
from armtriage.theory._independence import EDGES
from armtriage.theory._runs import name_of, run_cover
from armtriage.theory._set_cover import make_ready, smallest_cover

__all__ = ["smallest_dominating_set"]


def smallest_dominating_set(graph: FeedbackGraph, time_limit: float) -> Answer:
    """Return arms that reveal all, ascending, and a lower bound of how many it takes."""
    if not graph.arrays.indices.size:
        arms = run_cover(graph.arrays)
        return Answer(arms, arms.size, say_how(True, [name_of(graph)]))
    if graph.n_edges > EDGES:
        picks = cover_chvatal(graph.arrays, np.ones(graph.n_arms, np.uint8))
        arms = min(np.sort(picks), run_cover(graph.arrays), key=len)
        bound = -(-graph.n_arms // int(graph.out_degrees.max()))
        return Answer(arms, bound, say_how(arms.size == bound, ["greedy", "degrees"], "too many edges to write out"))
    make_ready()
    return smallest_cover(graph.to_sparse(), Clock(time_limit))
