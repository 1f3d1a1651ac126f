"""How an audit follows runs: the problem in the policy's own units, what holds of any policy, and what it reads of one.

A policy says itself what it counted (`tally`), what it decided (`triage`) and how; what has no public name yet is read
by the functions at the end of this module, and nowhere else.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from armtriage.decisions import Decision
from armtriage.environments import Environment, LinearEnvironment, StochasticEnvironment
from armtriage.environments.tables import loss
from armtriage.intervals import INTERVALS, confidence_interval, half_width
from armtriage.kernels.record import Floats, Ints
from armtriage.kernels.ridge import forms, refit
from armtriage.policies.contextual import ContextualPolicy
from armtriage.policies.policy import Policy
from armtriage.theory.audit.ledger import Claim, Ledger
from armtriage.theory.numbers import Bracket, gap, independence_number, layer_size

Mask = NDArray[np.bool_]
HAIR = 1e-9
"""By how much two numbers that were computed in different orders may differ."""

EVENT = "intervals hold as often as promised"
_UNKNOWN = "the environment does not tell its means"
ANY_POLICY = (
    Claim("decisions are allowed", "the setting: S different arms, or a decision of the set"),
    Claim("rewards lie in their range", "the setting: reward_range"),
)


class Watch:
    """Follows the runs of a policy, and enters into a ledger what it sees; this one works for any policy.

    Means and regret are in units of the policy's rewards. What is worked out for all runs is read of the `recipe`.
    """

    about: ClassVar[str] = ""  # whose claims these are
    statements: ClassVar[tuple[Claim, ...]] = ()
    ledger: Ledger

    def __init__(self, policy: Any, environment: Environment | LinearEnvironment, horizon: int) -> None:
        self.recipe, self.environment, self.horizon = policy, environment, horizon
        low, high = policy.reward_range
        self.unit = high - low
        self.zero, self.sign = (low, 1.0) if policy.direction == "maximize" else (high, -1.0)
        if isinstance(policy, ContextualPolicy):
            self.zero, self.unit = 0.0, policy.reward_unit

    def begin(self, policy: Any, replication: int) -> None:
        """Begin a run of a fresh policy."""
        self.policy, self.replication = policy, replication
        self.good = True  # whether all intervals have held so far
        self.lost = 0.0

    @property
    def promise(self) -> float | None:
        """With which probability the intervals may fail; None if there are none to speak of."""
        return getattr(self.recipe, "delta", None) if self.statements else None

    @property
    def printed(self) -> tuple[str, ...]:
        """What the paper says of its own variant, though it can fail."""
        return ()

    @property
    def excluded(self) -> dict[str, str]:
        """Why which of the statements are not applicable."""
        if self.means is not None:
            return {}
        return {one.name: _UNKNOWN for one in self.statements if one.event or one.name == EVENT}

    @cached_property
    def means(self) -> Floats | None:
        """The mean of each arm on the unit scale; None if they are not known, or change with the round."""
        means = getattr(self.environment, "means", None)
        if means is None or callable(means):
            return None
        return np.asarray(self.sign * (np.asarray(means, np.float64) - self.zero) / self.unit)

    @cached_property
    def gap(self) -> float:
        """How much the arm of rank S, or the best decision, is above the next worse one."""
        environment: Any = self.environment
        return float(gap(environment, self.recipe.budget if self.recipe.decisions is None else None) / self.unit)

    @cached_property
    def alpha(self) -> Bracket:
        """The independence number of the graph."""
        return independence_number(self.recipe.graph)

    @cached_property
    def layer_size(self) -> float:
        """How many picks the greedy needs at most for a layer."""
        graph = self.recipe.graph
        return layer_size(graph.n_arms, self.alpha, undirected=graph.is_undirected)

    def sizes(self, *names: str) -> dict[str, Any]:
        """Return arguments of a bound, those of the policy by name; widths are for the horizon it was made for."""
        policy = self.recipe
        horizon = getattr(policy, "horizon", None) or self.horizon
        own = {name: getattr(policy, name) for name in names}
        return {"n_arms": policy.n_arms, "budget": policy.budget, "horizon": horizon, "delta": policy.delta, **own}

    @property
    def by_graph(self) -> dict[str, Any]:
        """The arguments that elimination has for graph and interval."""
        graph = {"alpha": self.alpha, "undirected": self.recipe.graph.is_undirected}
        return {**self.sizes("interval"), **graph, "anytime": self.recipe.horizon is None}

    def half_width(self, count: int) -> float:
        """Return the half-width of the policy's interval after so many rewards, where it depends on nothing else."""
        policy = self.recipe
        kind, span = INTERVALS.index(policy.interval), float(policy.horizon or 0)
        return float(half_width(kind, count, policy.n_arms, span, policy.delta))

    def ask(self, number: int) -> Decision:
        """Return the policy's decision for a round."""
        if isinstance(self.environment, LinearEnvironment):
            return self.policy.ask(self.environment.contexts(number, self.replication))  # type: ignore[no-any-return]
        return self.policy.ask()  # type: ignore[no-any-return]

    def allows(self, decision: Decision) -> bool:
        """Check a decision by itself; a run ends with one that is not allowed."""
        arms, policy = decision.arms, self.policy
        distinct = np.unique(arms).size == arms.size and bool(((arms >= 0) & (arms < policy.n_arms)).all())
        allowed = policy.decisions
        fits = arms.size == policy.budget if allowed is None else distinct and allowed.contains(arms)
        self.ledger.check("decisions are allowed", arms, holds=distinct and fits)
        return distinct and fits

    def takes(self, decision: Decision, rewards: Floats) -> bool:
        """Check rewards by themselves; a run ends with one that the policy would refuse."""
        low, high = self.policy.reward_range
        bad = ~((rewards >= low) & (rewards <= high))
        self.ledger.check("rewards lie in their range", decision.revealed[bad], f"{rewards[bad][:3]}")
        return not bad.any()

    def asked(self, number: int, decision: Decision) -> None:
        """Look at a decision, before its rewards are told."""

    def told(self, number: int, decision: Decision) -> None:
        """Look at the policy after it was told the rewards."""

    def bounds(self, counts: Ints, sums: Floats, squares: Floats) -> tuple[Any, Any]:
        """Return the intervals that the policy was told to use, for so many rewards."""
        policy = self.recipe
        options = {"n_arms": policy.n_arms, "delta": policy.delta, "kind": policy.interval, "horizon": policy.horizon}
        return confidence_interval(counts, sums, squares=squares, **options)

    def note_intervals(self, arms: Ints) -> None:
        """Look whether the intervals of these arms, by the policy's tally, contain their means."""
        if self.means is None or not self.good:
            return
        tally, means = self.policy.tally, self.means[arms]
        sums = tally.sums[arms]
        low, high = self.bounds(tally.counts[arms], sums, sums - tally.between[arms])
        self.good = not ((low > means + HAIR) | (high < means - HAIR)).any()

    def lose(self, number: int, arms: Ints) -> float:
        """Return what a decision loses, and add it to what was lost before."""
        environment = self.environment
        if isinstance(environment, LinearEnvironment):
            lost = environment.regret(number, arms, self.replication)
        elif isinstance(environment, StochasticEnvironment):
            # The environment's own way asks its set whether it contains the arms, which may take long.
            lost = float(loss(environment.table(self.recipe.budget), 0, arms))
        else:
            lost = environment.regret(arms)
        lost = float(lost / self.unit)
        self.lost += lost
        return lost

    def check_loss(self, name: str, arms: Ints, loss: float, allowed: float) -> None:
        """Check that no more is lost than allowed, as long as all intervals have held."""
        self.check_good(name, arms, f"{loss:.4g}, allowed {allowed:.4g}", loss <= allowed + HAIR)

    def check_bound(self, name: str, arms: Any, bound: float) -> None:
        """Check that no more was lost so far than a bound has it, as long as all intervals have held."""
        self.check_good(name, arms, f"{self.lost:.4g} lost, the bound is {bound:.4g}", self.lost <= bound + HAIR)

    def check_good(self, name: str, wrong: Any = (), detail: str = "", holds: bool | None = None) -> None:
        """Check what is promised as long as all intervals have held."""
        if self.good:
            self.ledger.check(name, wrong, detail, holds)


def mask_of(n_arms: int, arms: Ints) -> Mask:
    """Return which of all arms these are."""
    mask = np.zeros(n_arms, np.bool_)
    mask[arms] = True
    return mask


def least_of(policy: Any) -> int:
    """Return a policy's N, the observations that every active arm, or decision, has."""
    core = getattr(policy, "_core", None)
    return int(policy._own.sets.least if core is None else core.least[0])


def intervals_of(policy: Any) -> tuple[Floats, Floats]:
    """Return the lower and upper ends of the intervals that a policy goes by."""
    core = getattr(policy, "_core", None)
    known = policy._evidence if core is None else core.evidence
    return known.lower[: policy.n_arms], known.upper[: policy.n_arms]


def active_decisions(policy: Any) -> Mask:
    """Return which decisions of a listed family are active."""
    active: Mask = policy._core.active.copy()
    return active


def incumbent_of(policy: Any) -> Ints:
    """Return the incumbent of elimination by oracle; a new array whenever it is chosen again."""
    incumbent: Ints = policy._core.incumbent
    return incumbent


def homes_of(policy: Any, number: int) -> Ints:
    """Return the model, from 0, that stores the reward of each arm of an open decision; -1 where none does."""
    return np.array(policy._notes[number])


def fit_of(policy: Any, model: int, contexts: Floats) -> tuple[Floats, Floats]:
    """Return the estimate of each context by one of a policy's regressions, and its norm there."""
    ridge, n = policy._state.ridge, contexts.shape[0]
    estimates, squares = np.zeros((2, n))
    refit(ridge, model)
    forms(ridge, model, contexts, np.arange(n), n, estimates, squares)
    return estimates, np.sqrt(squares)


def offset_of(policy: Policy) -> float:
    """Return what a reward of 0 is worth on the unit scale."""
    return policy._offset
