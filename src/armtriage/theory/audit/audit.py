"""audit: play a policy where the truth is known, and check on every round what is claimed of it."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from typing import Any

from armtriage._arguments import LONGEST, check_count
from armtriage.environments import Environment, LinearEnvironment
from armtriage.kernels.random import check_seed
from armtriage.policies import (
    CombinatorialElimination,
    CombinatorialUCB,
    ConstrainedElimination,
    HierarchicalElimination,
)
from armtriage.policies.contextual import ContextualPolicy
from armtriage.policies.policy import Policy
from armtriage.simulation.simulate import check_match
from armtriage.theory.audit.constrained import ListedWatch, OracleWatch
from armtriage.theory.audit.ledger import NOT_APPLICABLE, VIOLATED, Claim, Ledger
from armtriage.theory.audit.linear import StagesWatch
from armtriage.theory.audit.slates import EliminationWatch, IndexWatch
from armtriage.theory.audit.watch import ANY_POLICY, EVENT, Watch

LEVEL = 0.99
"""Confidence of the interval for the probability that intervals fail."""


@dataclass(frozen=True, eq=False)
class Audit:
    """What came of each claim in the runs of an audit.

    Attributes
    ----------
    claims : tuple of Claim
        Each with its source, its status and how often it was checked; ``audit[name]`` finds one.
    policy, n_arms, budget, horizon, replications, seed, environment_seed
        What was played, for how many rounds, how often, and with which seeds.
    promise : float or None
        With which probability the policy's intervals may fail in a run; None if it has none to speak of.
    failures : int or None
        In how many runs they did.

    Examples
    --------
    >>> from armtriage import FeedbackGraph, StochasticEnvironment, UniformRandom
    >>> from armtriage.theory import audit
    >>> graph = FeedbackGraph.semi_bandit(3)
    >>> env = StochasticEnvironment([0.9, 0.5, 0.1], graph, seed=7)
    >>> found = audit(UniformRandom(graph, budget=2, seed=7), env, horizon=10)
    >>> found["decisions are allowed"].status, found["decisions are allowed"].checked
    ('held', 10)
    >>> found["(A) best arms stay"].detail
    'said of Algorithm 1, and this policy is another'
    """

    claims: tuple[Claim, ...]
    policy: str
    n_arms: int
    budget: int
    horizon: int
    replications: int
    seed: int
    environment_seed: int | None
    promise: float | None
    failures: int | None

    def __getitem__(self, name: str) -> Claim:
        for claim in self.claims:
            if claim.name == name:
                return claim
        raise KeyError(f"{name!r} is none of the claims: {', '.join(claim.name for claim in self.claims)}")

    @property
    def violated(self) -> tuple[Claim, ...]:
        """The claims that broke."""
        return tuple(claim for claim in self.claims if claim.status == VIOLATED)

    @property
    def ok(self) -> bool:
        """Whether everything that is proved held; what the paper says in error may break."""
        return all(claim.printed for claim in self.violated)

    @property
    def failure_interval(self) -> tuple[float, float] | None:
        """The exact 99% interval (Clopper and Pearson) of the probability that the intervals fail in a run."""
        return None if self.failures is None else clopper_pearson(self.failures, self.replications)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON values."""
        facts = {name: value for name, value in vars(self).items() if name != "claims"}
        claims = [{**claim._asdict(), "arms": list(claim.arms)} for claim in self.claims]
        interval = None if self.failure_interval is None else list(self.failure_interval)
        return {**facts, "failure_interval": interval, "ok": self.ok, "claims": claims}

    def __str__(self) -> str:
        runs = f"{self.replications} run{'s' if self.replications > 1 else ''} of {self.horizon} rounds"
        seeds = f"policy seed {self.seed}, reward seed {self.environment_seed}"
        lines = [f"Audit of {self.policy}: {self.n_arms} arms, {self.budget} a decision, {runs}, {seeds}"]
        wide = max(len(claim.name) for claim in self.claims if claim.status != NOT_APPLICABLE)
        lines.append(f"{'':9}{'checked':>9}  {'claim':{wide}}  source")
        for claim in sorted(self.claims, key=lambda claim: claim.status != VIOLATED):
            if claim.status != NOT_APPLICABLE:
                lines.append(f"{claim.status:9}{claim.checked:>9,}  {claim.name:{wide}}  {claim.source}")
                lines += textwrap.wrap(claim.where, 100, initial_indent=" " * 20, subsequent_indent=" " * 20)
        for why, claims in self._not_applicable.items():
            names = textwrap.wrap("; ".join(claims), 100, initial_indent=" " * 20, subsequent_indent=" " * 20)
            lines += [f"not applicable, {why}:", *names]
        return "\n".join(lines)

    @property
    def _not_applicable(self) -> dict[str, list[str]]:
        """The names of the claims that are not applicable, by the reason."""
        reasons: dict[str, list[str]] = {}
        for claim in self.claims:
            if claim.status == NOT_APPLICABLE:
                reasons.setdefault(claim.detail, []).append(claim.name)
        return reasons


def audit(
    policy: Policy,
    environment: Environment | LinearEnvironment,
    *,
    horizon: int,
    seed: int | None = None,
    replications: int = 1,
) -> Audit:
    """Play a policy by ask and tell, and check what is claimed of it: by the paper, by its repairs, by the setting.

    What holds whatever the rewards are is checked in every round. What holds while all confidence intervals contain
    the means, which only an audit knows, is checked as long as they do; and how often they do not is compared with
    the policy's promise. Claims that the paper makes in error are checked on its own variants, where they can break.

    Parameters
    ----------
    policy : Policy
        Taken as a recipe, as by `armtriage.simulate`. Most claims are about `CombinatorialElimination`,
        `HierarchicalElimination` and `ConstrainedElimination`, some about `CombinatorialUCB`; of other policies little
        can be said.
    environment : Environment or LinearEnvironment
        Where its `means` are not known, claims that need them are not applicable.
    horizon : int
        Rounds in a replication; not more than the policy was made for.
    seed : int, optional
        Fixes the policies' own randomness; by default the policy's seed.
    replications : int
        Independent repetitions. To say something of a failure probability p it takes some 5/p of them.

    Examples
    --------
    >>> from armtriage import CombinatorialElimination, FeedbackGraph, StochasticEnvironment
    >>> from armtriage.theory import audit
    >>> graph = FeedbackGraph.cliques([2, 2])
    >>> env = StochasticEnvironment([0.9, 0.8, 0.1, 0.0], graph, seed=7)
    >>> found = audit(CombinatorialElimination(graph, budget=2, seed=7), env, horizon=100)
    >>> found.ok, found.violated
    (True, ())
    >>> found["(A) best arms stay"].status, found["(A) best arms stay"].checked
    ('held', 86)
    """
    if not isinstance(policy, Policy):
        raise TypeError(f"policy must be a Policy, got {type(policy).__name__}")
    horizon = check_count("horizon", horizon, 1, LONGEST)
    replications = check_count("replications", replications, 1)
    check_match(policy, environment, horizon)
    most = getattr(policy, "horizon", None)
    if most is not None and horizon > most:
        raise ValueError(f"horizon must be at most the policy's own, {most}, got {horizon}")
    seed = policy.seed if seed is None else check_seed(seed)
    watch = _watch_for(policy)(policy, environment, horizon)
    ledger = watch.ledger = _open(watch)
    failed = []
    for replication in range(replications):
        watch.begin(policy.fresh(seed, replication), replication)
        ledger.replication = replication
        failed += _play(watch)
    promise, failures = watch.promise, None
    if promise is not None and ledger.applies(EVENT):
        failures = len(failed)
        _judge_event(ledger, promise, failed, replications)
    return Audit(
        claims=ledger.claims,
        policy=type(policy).__name__,
        n_arms=policy.n_arms,
        budget=policy.budget,
        horizon=horizon,
        replications=replications,
        seed=seed,
        environment_seed=getattr(environment, "seed", None),
        promise=promise,
        failures=failures,
    )


def clopper_pearson(failures: int, runs: int) -> tuple[float, float]:
    """Return the exact interval, of confidence 99%, of the probability of what happened in so many runs.

    Examples
    --------
    >>> [round(end, 3) for end in clopper_pearson(0, 100)]
    [0.0, 0.052]
    """
    from scipy.special import betaincinv

    tail = (1.0 - LEVEL) / 2.0
    low = float(betaincinv(failures, runs - failures + 1, tail)) if failures else 0.0
    high = float(betaincinv(failures + 1, runs - failures, 1.0 - tail)) if failures < runs else 1.0
    return low, high


def _watch_for(policy: Policy) -> type[Watch]:
    if isinstance(policy, ConstrainedElimination):
        return OracleWatch if policy.variant == "oracle" else ListedWatch
    kinds: tuple[tuple[type[Policy], type[Watch]], ...] = (
        (CombinatorialElimination, EliminationWatch),
        (CombinatorialUCB, IndexWatch),
        (HierarchicalElimination, StagesWatch),
    )
    return next((watch for made, watch in kinds if isinstance(policy, made)), Watch)


def _open(watch: Watch) -> Ledger:
    """Return a ledger of what is claimed of the policy, and of what the paper's algorithm for its setting claims."""
    policy = watch.recipe
    papers = EliminationWatch if policy.decisions is None else ListedWatch
    other: type[Watch] = StagesWatch if isinstance(policy, ContextualPolicy) else papers
    printed, own = watch.printed, {one.name for one in (*ANY_POLICY, *watch.statements)}
    theirs = [one for one in other.statements if one.name not in own]
    mine = [one._replace(printed=one.printed or one.name in printed) for one in watch.statements]
    ledger = Ledger([*ANY_POLICY, *mine, *theirs])
    for one in theirs:
        ledger.exclude(one.name, f"said of {other.about}, and this policy is another")
    for name, why in watch.excluded.items():
        ledger.exclude(name, why)
    return ledger


def _play(watch: Watch) -> list[tuple[int, int]]:
    """Play one replication; return where its intervals first failed, if they did."""
    failed: list[tuple[int, int]] = []
    for number in range(watch.horizon):
        watch.ledger.round = number
        decision = watch.ask(number)
        if not watch.allows(decision):
            break
        watch.asked(number, decision)
        rewards = watch.environment.rewards(number, decision.revealed, watch.replication)
        if not watch.takes(decision, rewards):
            break
        watch.policy.tell_revealed(decision, rewards)
        watch.told(number, decision)
        if not watch.good and not failed:
            failed = [(watch.replication, number)]
    return failed


def _judge_event(ledger: Ledger, promise: float, failed: list[tuple[int, int]], runs: int) -> None:
    """Compare how often intervals failed with how often they may."""
    low, high = clopper_pearson(len(failed), runs)
    seen = f"{len(failed)} of {runs} runs failed, probability {low:.2g} to {high:.2g}, promised {promise:.2g}"
    if low > promise:
        ledger.replication, ledger.round = failed[0]
    ledger.judge(EVENT, low <= promise, runs, len(failed), seen)
