"""GuardedIndex: an index on a learned prior, inside elimination's guarantee."""

from __future__ import annotations

from typing import Unpack

from armtriage._arguments import check_choice
from armtriage.graphs.feedback import FeedbackGraph
from armtriage.kernels.jit import kernel
from armtriage.kernels.record import Floats, Ints, Record
from armtriage.policies.beliefs import FRACTIONAL, Prior, check_prior, mean_of
from armtriage.policies.evidence import Evidence
from armtriage.policies.guard.account import Book, GuardParams, look, look_and_admit, renew_intervals, take_or_pay
from armtriage.policies.guard.free_look import Sampler, posterior_of, refit
from armtriage.policies.guard.free_look import learn as follow
from armtriage.policies.guard.guarded import ByBeliefs, GuardedPolicy, guard_params
from armtriage.policies.guard.index_look import Reach, blank, forget_reach, new_reach, propose_by_index
from armtriage.policies.guard.shared_looks import Looks, share_looks
from armtriage.policies.old_log import OldLog
from armtriage.policies.options import GuardOptions
from armtriage.policies.request import ALL, Kernels, Request
from armtriage.policies.views import take_confirmed


class Params(Record, frozen=True):
    """Parameters of the kernels."""

    guard: GuardParams
    learned: bool  # whether the prior is


class Own(Record):
    """The guard's book, what indices follow from, when they matter, and the looks that wait."""

    book: Book
    sampler: Sampler
    reach: Reach
    looks: Looks


@kernel
def choose(params: Params, evidence: Evidence, own: Own, request: Request) -> bool:
    """Fill `arms` with what the index proposes and the guard admits; True if that can never change again."""
    book, sampler, guard = own.book, own.sampler, params.guard
    arms, number = request.arms[: request.size], request.number
    view = look(guard, evidence, book, request)
    if take_or_pay(guard, evidence, book, request, view, arms):
        return request.epoch == ALL
    take_confirmed(view, arms)
    if params.learned and number >= sampler.next_fit:
        refit(evidence, sampler, number)
        blank(own.reach)
    propose_by_index(evidence, sampler, own.reach, book, request, view, guard.graph, arms)
    if not guard.plain and request.epoch == ALL:
        share_looks(evidence, book, sampler, own.looks, guard.graph, number, arms)
    look_and_admit(guard, evidence, book, request, view, arms)
    return False


@kernel
def learn(
    params: Params, evidence: Evidence, own: Own, request: Request, seen: Ints, rewards: Floats, event: int
) -> None:
    """Let indices follow what was told, lost or weighed."""
    fractional = own.sampler.fractional
    follow(evidence, own.sampler, own.book, request, seen, rewards, event)
    forget_reach(own.reach, seen)
    if own.sampler.fractional != fractional:
        blank(own.reach)


@kernel
def settled(params: Params, evidence: Evidence, own: Own, request: Request, seen: Ints) -> None:
    """Let intervals follow what was settled, and indices what is no longer waited for."""
    forget_reach(own.reach, seen)
    renew_intervals(params.guard, evidence, own.book, seen)


@kernel
def believe(params: Params, evidence: Evidence, own: Own, request: Request) -> None:
    """Write the means of the arms chosen: an index is large where little is known."""
    for i in range(request.size):
        least, a, b = posterior_of(evidence, own.sampler, request.arms[i])
        request.beliefs[0, i] = mean_of(least, a, b)


class _Slates(ByBeliefs["GuardedIndex"]):
    """An index that proposes slates."""

    kernels = Kernels(choose, learn, believe, settled=settled)
    each = True

    def params(self, policy: GuardedIndex) -> Params:
        return Params(guard_params(policy), policy.prior == "learned")

    def own_of(self, book: Book, sampler: Sampler, looks: Looks) -> Own:
        return Own(book, sampler, new_reach(looks.guide.size), looks)


class GuardedIndex(GuardedPolicy):
    """An index on a learned prior, inside twice the guarantee of elimination, with a certificate.

    Use it instead of `GuardedThompson` where decisions should follow from what is known, without chance: on most
    families of slates it lost less (`docs/guard.md`). It keeps the same guarantee and the same learned prior, and plays
    the arms of largest index: the largest mean q with ``n kl(m, q) <= 0.8 ln(t / n)``, where m and n are mean and size
    of an arm's posterior and t is the number of rounds, divided by 0.3 of the arms for a slot if that is more than 1.

    Parameters
    ----------
    graph, names, seed, reward_range, direction, sleepers_seen, cap, logging_floor, floor_arms
        See `armtriage.Policy`.
    budget : int
        How many arms a decision has (S in the paper), from 1 to ``graph.n_arms``.
    prior : {"learned", "uniform"} or tuple of float
        What is believed of an arm that was never seen: a Beta law that is learned from all arms, a uniform law of its
        mean, or Beta(a, b).
    fractional : {"exact", "coin"}
        What becomes of a reward r strictly between 0 and 1: indices follow mean and variance of such rewards, or it
        counts as 1 with probability r, and else as 0. Intervals always do the former.
    old_log, delta, mode, factor, price, patterns, forget
        See `armtriage.GuardedThompson`.

    Notes
    -----
    Of the arms that the incumbents reveal anyway, only the incumbents have an index, and looks at arms that nothing
    reveals wait as in `GuardedThompson`, but each proposal that waits pays for the arm that shows them. Rewards that
    are on their way count in n, so that decisions which are open at the same time look at different arms. A factor
    below 1 before the logarithm has no guarantee of its own.

    References
    ----------
    Garivier, Cappe (2011), The KL-UCB algorithm for bounded stochastic bandits and beyond, where the index with ln(t/n)
    and a factor of 1 is KL-UCB+.

    Examples
    --------
    >>> from armtriage import StochasticEnvironment
    >>> env = StochasticEnvironment([0.9, 0.8, 0.1, 0.0], 4, seed=7)
    >>> policy = GuardedIndex(4, budget=2, seed=7)
    >>> for t in range(200):
    ...     decision = policy.ask()
    ...     policy.tell(decision, env.rewards(t, decision.revealed))
    >>> decision.arms
    array([0, 1])
    >>> policy.account.forced_rounds
    0
    """

    _over_slates = _Slates()
    learns_at_once = True

    def __init__(
        self,
        graph: FeedbackGraph | int,
        budget: int,
        *,
        prior: Prior = "learned",
        fractional: str = "exact",
        old_log: OldLog | None = None,
        **options: Unpack[GuardOptions],
    ) -> None:
        super().__init__(graph, budget, **options)
        self.prior = check_prior("prior", prior, learned=True)
        self.fractional = check_choice("fractional", fractional, FRACTIONAL)
        self.old_log = self._check_old_log(old_log)

    @property
    def throws_coins(self) -> bool:
        """Whether a reward between 0 and 1 counts in indices as 1 with that probability, and else as 0."""
        return self.fractional == "coin"
