"""GuardedLinear: adaptive C2UCB inside a guarantee, with a certificate of what was lost."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self, Unpack

from armtriage._arguments import check_choice, check_flag
from armtriage.graphs.feedback import FeedbackGraph
from armtriage.kernels.record import Floats, Ints
from armtriage.policies.linear.guarded import LinearGuard
from armtriage.policies.options import LinearGuardOptions


class GuardedLinear(LinearGuard):
    """Adaptive C2UCB inside a guarantee that holds whatever the contexts, with a certificate of the regret.

    Use it first when rewards are linear in the contexts. It needs no horizon and nothing to be tuned. It plays the S
    largest values of estimate plus width, where the width is a random share of ``s sqrt(ln t)`` norms, and learns the
    scale s of the noise, and how much to shrink, from its rewards. Before a slate is played, the most that it can
    lose is booked. While the account stays within ``factor * F(t)``, the slate is played, and else the S largest upper
    ends. With probability 1 - delta the regret is at most ``(1 + factor) F(T)``, of order d sqrt(S T) ln(S T), for
    all T at once, contexts chosen in any way, and rewards that are told before the next ask; see
    `armtriage.theory.guarded_linear_upper`.

    Parameters
    ----------
    n_arms : int, optional
        Number of arms (K in the paper). Without it, as in ``GuardedLinear(dimension=10, budget=5)``, each request may
        have another number of candidates, numbered by their rows, or named by a mapping.
    dimension : int
        Length of a context (d in the paper); with `features` it is theirs.
    budget : int
        How many arms a decision has (S in the paper); all candidates where there are fewer.
    delta : float
        Probability with which the guarantee and the certificates may fail.
    factor : float
        How many times what optimism could have lost the proposals may lose. Less makes a tighter certificate where
        contexts stay the same, at the price of more regret.
    norm_bound : float, optional
        A bound on the norm of theta, after rewards and contexts have been scaled; by default 1, or with `features` the
        one that they find plausible.
    noise_scale : float, optional
        Sub-Gaussian scale of the noise, by default half the width of `reward_range`, which always holds. It is for the
        guarantee; what is played goes by an estimate, and this at most. If arms share their noise in a round,
        multiply it by sqrt(S).
    bias : float, optional
        How far an arm's mean reward may lie from what is linear in its context, in rewards, where the model is known to
        be wrong; by default not at all. It widens what is certified and allowed, not what is played. See
        `armtriage.suggest_bias`.
    model : {"shared", "disjoint", "hybrid"}
        One theta for all arms; one of its own, of norm at most `norm_bound`, for each; or its own around one that is
        shared, from which a new arm starts. What is certified then goes by each arm's own rewards.
    certificate : bool
        Without, nothing is priced and nothing guaranteed, and a round costs half as much.
    names, reward_range, direction, sleepers_seen, cap, logging_floor, floor_arms, context_bound, features
        See `armtriage.ContextualPolicy`.
    seed : int, optional
        Fixes the policy's own randomness, one number for each round; None draws a fresh one, kept in `seed`.

    Notes
    -----
    Widths count the pulls whose rewards have not come, so that many open decisions look at different things. Prices
    go by what has been told.

    Examples
    --------
    >>> from armtriage import GuardedLinear
    >>> policy = GuardedLinear(3, dimension=2, budget=1, reward_range=(0, 1), seed=7)
    >>> contexts = [[0.5, 0.0], [0.0, 0.5], [0.5, 0.5]]
    >>> for _ in range(100):
    ...     decision = policy.ask(contexts)
    ...     policy.tell(decision, 0.5 * decision.contexts[:, 0])
    >>> decision.contexts[:, 0]
    array([0.5])
    >>> policy.account.forced_rounds
    0
    """

    _proposes = True

    def __init__(
        self,
        n_arms: int | None = None,
        dimension: int = 0,
        budget: int = 0,
        *,
        model: str = "shared",
        certificate: bool = True,
        **options: Unpack[LinearGuardOptions],
    ) -> None:
        super().__init__(n_arms, dimension, budget, **options)
        self.model = check_choice("model", model, ("shared", "disjoint", "hybrid"))
        self.certified = check_flag("certificate", certificate)

    @classmethod
    def _make(cls, graph: FeedbackGraph, config: Mapping[str, Any]) -> Self:
        # Earlier files name the fallback, since there were two; those with the other one are of another class.
        return super()._make(graph, {name: value for name, value in config.items() if name != "fallback"})

    @property
    def config(self) -> dict[str, Any]:
        """The constructor's arguments: `certificate` is `certified`, since policies have a method of that name."""
        return {**super().config, "certificate": self.certified}

    def _estimates(self, contexts: Floats, candidates: Ints) -> Floats:
        return self._valued(self._state.fit.inverse, contexts, candidates)
