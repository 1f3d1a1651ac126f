"""ContextualGuard: the guarantee of GuardedLinear around any function of contexts."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, Self, Unpack

import numpy as np
from numpy.typing import ArrayLike

from armtriage.graphs.feedback import FeedbackGraph
from armtriage.kernels.record import Floats, Ints
from armtriage.policies.linear.guarded_linear import LinearGuard
from armtriage.policies.linear.thetas import OneTheta
from armtriage.policies.options import LinearGuardOptions
from armtriage.policies.policy import Policy
from armtriage.policies.proposals import Proposed, check_takes

Proposer = Callable[..., ArrayLike]


class ContextualGuard(Proposed, LinearGuard):
    """Play what a function of the contexts wants while it certainly loses little enough, and optimism otherwise.

    ``Guard(proposer, dimension=..., budget=...)`` makes one. Your recommender sees the visitor, and what is guaranteed
    and certified is as for `GuardedLinear`, whatever it proposes: brilliant, stuck, or broken. What must be true is
    that mean rewards are linear in the contexts.

    Parameters
    ----------
    proposer : callable
        Called with the contexts of the candidates, as they were given to `ask` or made by `features`; returns the
        `budget` rows that it wants, or names if the arms have names. If it has a parameter `eligible`, that is the arms
        that the rows belong to. It is not asked where there is no choice, and not saved: set it again after `load`. If
        it raises or returns anything else, the rows of largest estimate are proposed, which is logged (logger
        ``armtriage``) and counted in `proposer_failures`.
    n_arms, dimension, budget, delta, factor, norm_bound, noise_scale, bias, seed
        See `armtriage.GuardedLinear`.
    names, reward_range, direction, sleepers_seen, cap, logging_floor, floor_arms, context_bound, features
        See `armtriage.ContextualPolicy`.

    Examples
    --------
    >>> from armtriage import Guard
    >>> policy = Guard(lambda contexts: contexts[:, 0].argsort()[:1], dimension=2, budget=1, reward_range=(0, 1))
    >>> for _ in range(2000):
    ...     decision = policy.ask([[0.1, 0.1], [0.9, 0.1]])                 # what it wants is the worse of the two
    ...     policy.tell(decision, decision.contexts[:, 0])
    >>> decision.arms, policy.account.forced_rounds > 0
    (array([1]), True)
    """

    kernels = OneTheta.guarding
    in_loop = False
    _proposes = False
    _proposer: Proposer | None

    def __init__(
        self,
        proposer: Proposer | None,
        n_arms: int | None = None,
        dimension: int = 0,
        budget: int = 0,
        **options: Unpack[LinearGuardOptions],
    ) -> None:
        super().__init__(n_arms, dimension, budget, **options)
        self.proposer = proposer

    @property
    def proposer(self) -> Proposer | None:
        """Who proposes; after `load`, set the function that was not saved."""
        return self._proposer

    @proposer.setter
    def proposer(self, proposer: Proposer | None) -> None:
        if isinstance(proposer, Policy) or not (proposer is None or callable(proposer)):
            raise TypeError(f"proposer must be a function that takes contexts and returns arms, got {proposer!r}")
        check_takes(proposer, "the contexts of the candidates")
        self._proposer = proposer

    def _choose(self, number: int, contexts: Floats, candidates: Ints) -> Ints:
        rows, size = np.arange(len(contexts)), min(self.budget, len(contexts))
        self._post.arms[:size] = rows if size == rows.size else self._proposal(number, contexts, candidates)
        return super()._choose(number, contexts, candidates)

    def _proposal(self, number: int, contexts: Floats, candidates: Ints) -> Ints:
        """Return the rows that the function wants or, if it fails, those of largest estimate; ascending."""

        def largest() -> Ints:
            estimates = contexts @ self.weights * (1.0 if self.direction == "maximize" else -1.0)
            return np.sort(np.argsort(-estimates, kind="stable")[: self.budget])

        return self._wanted(number, lambda: self._called(contexts, candidates), largest)

    def _called(self, contexts: Floats, candidates: Ints) -> Ints:
        """Return the rows that the function wants, ascending."""
        assert self.proposer is not None
        sees_arms = "eligible" in inspect.signature(self.proposer).parameters
        more = {"eligible": self._roster.named(candidates)} if sees_arms else {}
        given = self.proposer(contexts.copy(), **more)
        if self.names is None:
            rows = np.sort(np.atleast_1d(np.asarray(given)))
            whole = rows.dtype.kind in "iu" and rows.ndim == 1 and rows.size and rows[0] >= 0
            if not whole or rows[-1] >= candidates.size:
                raise ValueError(f"proposer must return rows from 0 to {candidates.size - 1}, got {given!r}")
        else:
            arms = np.sort(self._roster.numbers(given, "the arms that proposer returns"))
            if not np.isin(arms, candidates).all():
                raise ValueError(f"proposer must return eligible arms, got {given!r}")
            rows = np.searchsorted(candidates, arms)
        if rows.size != self.budget or np.any(rows[1:] == rows[:-1]):
            raise ValueError(f"proposer must return {self.budget} different arms, got {given!r}")
        return rows.astype(np.int64)

    def _saved_config(self) -> dict[str, Any]:
        return {**super()._saved_config(), "proposer": None}

    @classmethod
    def _make(cls, graph: FeedbackGraph, config: Mapping[str, Any]) -> Self:
        return super()._make(graph, {"proposer": None, **config})
