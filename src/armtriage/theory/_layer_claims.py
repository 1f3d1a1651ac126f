"""What is claimed of the exploration of Algorithm 1: its picks, and the layers that they make."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from armtriage.decisions import Decision
from armtriage.theory._claims import Ledger, Statement
from armtriage.theory._watch import Ints, Problem

__all__ = ["LAYERS", "Layers"]

_LEMMA = "the first layer obeys the greedy lemma"
_EDGES = 10**7
"""With more edges than this, looking at every pick would take too long."""

LAYERS = (
    Statement("picks were unobserved in their layer", "Algorithm 1, exploration loop"),
    Statement("picks reveal most", "Algorithm 1, exploration loop"),
    Statement("layers have few picks", "Theorem 1, proof, size of a layer; replaced by erratum G10"),
    Statement("layers have few rounds", "Theorem 3, proof; erratum G9"),
    Statement(_LEMMA, "greedy lemma; false by erratum G10", printed=True),
)


class Layers:
    """Parts each decision into picks and fill, and gathers the picks of a layer, the rounds of equal N."""

    def __init__(self, ledger: Ledger, problem: Problem, policy: Any) -> None:
        self.ledger, self.problem, self.policy = ledger, problem, policy
        self.order: list[int] = []  # the last decision in the order in which it was made
        self.least, self.picks, self.filled = -1, 0, False
        _watch_order(policy, self.order)

    @classmethod
    def excluded(cls, problem: Problem) -> dict[str, str]:
        """Return why which of the statements are not applicable."""
        if problem.policy.graph.n_edges > _EDGES:
            return {one.name: f"the graph has more than {_EDGES} edges" for one in LAYERS}
        return {}

    def asked(self, decision: Decision, confirmed: Any, active: Any, counts: Ints, least: int) -> None:
        """Check a decision that was made with these sets, counts and N."""
        policy, problem, check = self.policy, self.problem, self.ledger.check
        free = policy.budget - int(confirmed.sum())
        if policy.graph.n_edges > _EDGES or free <= 0 or int(active.sum()) <= free:
            return
        if least != self.least:
            self.least, self.picks = least, 0
        else:
            detail = "the round before had room for all that was left"
            check("layers have few rounds", decision.arms, detail, not self.filled)
        # As printed, N may be older than the sets, and nobody has been observed as seldom.
        waiting = active & (counts == (counts[active].min() if policy.benchmark == "reduced" else least))
        if policy.skip_revealed:
            waiting[policy.graph.revealed_by(np.flatnonzero(confirmed))] = False
        picks = self._picks(decision, confirmed, waiting)
        self.picks += picks
        self.filled = picks < free
        most = problem.layer_size
        check("layers have few picks", decision.arms, f"{self.picks}, at most {most:.4g}", self.picks <= most)
        if least == 0 and self.ledger.applies(_LEMMA):
            most = (1.0 + math.log(policy.n_arms)) * problem.domination.upper
            detail = f"{self.picks} picks, the lemma says {most:.4g}"
            check(_LEMMA, decision.arms, detail, self.picks <= most)

    def _picks(self, decision: Decision, confirmed: Any, waiting: Any) -> int:
        """Return how many arms were picked, one after the other, before nobody waited any more."""
        chosen = decision.arms[~confirmed[decision.arms]].tolist()
        place = {arm: i for i, arm in enumerate(self.order)}
        observed, modest, picks = [], [], 0
        for arm in sorted(chosen, key=lambda arm: place.get(arm, len(place))):
            if not waiting.any():
                break
            picks += 1
            if not waiting[arm]:
                observed.append(arm)
            else:
                degrees = self.problem.matrix @ waiting
                if degrees[arm] < degrees[waiting].max():
                    modest.append(arm)
            waiting[self.policy.graph.revealed_by(arm)] = False
        if picks:
            self.ledger.check("picks were unobserved in their layer", observed)
            self.ledger.check("picks reveal most", modest)
        return picks


def _watch_order(policy: Any, order: list[int]) -> None:
    """Have a policy's kernel tell the order of its choice, confirmed arms, picks and fill, before it is sorted."""
    inner = policy.kernels.select

    def select(*arguments: Any) -> Any:
        done = inner(*arguments)
        order[:] = arguments[-1].tolist()
        return done

    vars(policy)["kernels"] = policy.kernels._replace(select=select)
