"""A decision: the arms that were chosen in one round, and what they will reveal."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from armtriage.graphs import FeedbackGraph

__all__ = ["Decision"]


@dataclass(frozen=True, eq=False)
class Decision:
    """One answer of `Policy.ask`; hand it, or its `number`, back to `Policy.tell`.

    Attributes
    ----------
    number : int
        The round it was asked in, counted from 0; names the decision within its policy.
    arms : ndarray
        The chosen arms, ascending.
    revealed : ndarray
        The arms whose rewards this decision shows, ascending; it contains `arms`.
    contexts : ndarray, (S, d), or None
        The contexts of `arms` as they were given, for policies that are asked with contexts.

    Examples
    --------
    >>> from armtriage import CombUCB1, FeedbackGraph
    >>> decision = CombUCB1(FeedbackGraph.cliques([2, 2]), budget=1).ask()
    >>> decision.number, decision.arms, decision.revealed
    (0, array([0]), array([0, 1]))
    """

    number: int
    arms: NDArray[np.int64]
    graph: FeedbackGraph = field(repr=False)
    policy_id: str = field(repr=False)
    contexts: NDArray[np.float64] | None = field(repr=False, default=None)

    @property
    def revealed(self) -> NDArray[np.int64]:
        """The arms whose rewards this decision shows, ascending."""
        # Up to Python 3.11 a cached_property has one lock for all decisions, which a fork can find taken for ever.
        if "_revealed" not in self.__dict__:
            self.__dict__["_revealed"] = self.graph.revealed_by(self.arms)
        return self.__dict__["_revealed"]  # type: ignore[no-any-return]

    def to_dict(self) -> dict[str, Any]:
        """Return number, arms, revealed and contexts as JSON knows them; `Policy.tell` takes the number.

        Examples
        --------
        >>> from armtriage import CombUCB1, FeedbackGraph
        >>> CombUCB1(FeedbackGraph.cliques([2, 2]), budget=1).ask().to_dict()
        {'number': 0, 'arms': [0], 'revealed': [0, 1], 'contexts': None}
        """
        contexts = None if self.contexts is None else self.contexts.tolist()
        return {
            "number": int(self.number),
            "arms": self.arms.tolist(),
            "revealed": self.revealed.tolist(),
            "contexts": contexts,
        }
