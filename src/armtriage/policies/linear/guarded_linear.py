"""GuardedLinear: adaptive C2UCB inside a guarantee, with a certificate of what was lost."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, Self, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from armtriage._arguments import (
    check_choice,
    check_flag,
    check_number,
    check_optional,
    check_probability,
)
from armtriage.arms import Name
from armtriage.certificate import Account, Exchange
from armtriage.decisions import Decision
from armtriage.graphs.feedback import FeedbackGraph
from armtriage.kernels.jit import kernel
from armtriage.kernels.order import best_arms
from armtriage.kernels.random import uniform
from armtriage.kernels.record import Record
from armtriage.kernels.ridge import TOTAL, Ridge, add, forms_of_two, forms_with, new_ridge, refit, shrink
from armtriage.policies.compiled import CompiledContextualPolicy, Kernels
from armtriage.policies.facts import arrays_of, require, restore_arrays, within
from armtriage.policies.linear.adaptive import (
    LEAST,
    Fit,
    FitParams,
    adapt,
    learn,
    new_fit,
    prepare,
    schedule_open,
    settle_open,
)
from armtriage.policies.linear.certificate import ContextualCertificate
from armtriage.policies.linear.joint import Ellipsoids, Joint, book_price, book_slate, joint_bound, new_joint
from armtriage.policies.linear.pricing import (
    Book,
    Boxes,
    PriceParams,
    admit,
    allowance,
    find_boxes,
    new_book,
    new_boxes,
    radius,
)
from armtriage.policies.linear.repeated import (
    Repeated,
    Squares,
    follow,
    keep,
    new_repeated,
    new_squares,
    note_change,
    note_vector,
    repeats,
)
from armtriage.policies.lock import locked
from armtriage.policies.options import Options

__all__ = ["GuardedLinear"]

_MODELS = ("shared", "disjoint", "hybrid")
_OWN, _SURE = 1, 2
_FAR = 1e100
_ROUNDING = 1e-13


class Params(Record, frozen=True):
    """Parameters of the kernels."""

    fit: FitParams
    price: PriceParams
    certified: bool
    proposes: bool  # or somebody else does, and slates come from there


class State(Record):
    """One set of sums, the regression that proposes, the account, and scratch."""

    facts = ("ridge", "fit", "book", "joint", "repeated", "own", "sure")
    ridge: Ridge
    fit: Fit
    book: Book
    joint: Joint
    repeated: Repeated
    own: Squares  # of the widths with the inverse that proposes
    sure: Squares  # of those with the ellipsoid's
    boxes: Boxes
    arms: NDArray[np.int64]  # 0, ..., K - 1
    values: NDArray[np.float64]  # (K,)
    squares: NDArray[np.float64]  # (K,)


@kernel
def find_widths(params: Params, state: Any, contexts: NDArray[np.float64]) -> bool:
    """Write estimates and squares of widths, with all pulls that were made, and if need be those of the ellipsoid.

    Return whether the contexts came again.
    """
    fit, ridge, boxes, n = state.fit, state.ridge, state.boxes, contexts.shape[0]
    values, squares, estimates, sure = state.values[:n], state.squares[:n], boxes.estimates[:n], boxes.squares[:n]
    waits, block = fit.pending > 0, ridge.block
    # Where the rewards of one slate are too many to follow, nothing is kept for them.
    follows = params.price.budget <= state.own.vectors.shape[0]
    again = (params.certified or follows) and repeats(state.repeated, contexts)
    todo = 0
    if params.proposes:
        prepare(params.fit, fit, ridge)
        todo += _OWN
    if params.certified:
        refit(ridge, 0)
        todo += _SURE
    wanted = todo
    for part in (_OWN, _SURE):
        if again and follows and (wanted & part) and not (waits and part == _OWN):
            if part == _OWN:
                kept, weights, middles, wide = state.own, fit.weights, values, squares
            else:
                kept, weights, middles, wide = state.sure, ridge.weights[0], estimates, sure
            if follow(kept, weights, block, contexts, middles, wide):
                todo -= part
    inverse = fit.open_inverse if waits else fit.inverse
    if todo == _OWN + _SURE:
        other, weights = ridge.inverse[0], ridge.weights[0]
        forms_of_two(inverse, other, fit.weights, weights, block, contexts, values, squares, estimates, sure)
    elif todo == _OWN:
        forms_with(inverse, fit.weights, block, contexts, state.arms, n, values, squares)
    elif todo == _SURE:
        forms_with(ridge.inverse[0], ridge.weights[0], block, contexts, state.arms, n, estimates, sure)
    if not again or not follows:
        note_change(state.own)
        note_change(state.sure)
        return again
    if (todo & _OWN) and not waits:
        keep(state.own, squares)
    if todo & _SURE:
        keep(state.sure, sure)
    return True


@kernel
def select(
    params: Params,
    state: State,
    contexts: NDArray[np.float64],
    number: int,
    luck: np.uint64,
    arms: NDArray[np.int64],
    notes: NDArray[np.int64],
) -> None:
    """Choose the S arms of largest ``<theta, x> + w ||x||``, if the account allows it; ties by arm number."""
    fit, n = state.fit, contexts.shape[0]
    values, squares = state.values[:n], state.squares[:n]
    again = find_widths(params, state, contexts)
    if params.proposes:
        # One draw for all arms: a policy that is stuck in a round is not stuck in the next.
        width = uniform(luck, 0) * fit.noise * math.sqrt(math.log(number + 2.0))
        for arm in range(n):
            values[arm] += width * math.sqrt(squares[arm])
        best_arms(values, squares, arms)
    if params.certified:
        reach = find_boxes(params.price, state.boxes, state.book, state.ridge.log_det[0], n)
        allowed = params.price.factor * allowance(params.price, number + 1)
        price = admit(params.price, state.boxes, state.book, allowed, n, arms)
        noise = params.price.noise
        book_slate(state.joint, state.boxes, state.ridge, contexts, reach, noise, price, number, again)


@kernel
def learn_one(params: Params, state: Any, context: NDArray[np.float64], reward: float) -> None:
    """Add a reward to the sums, and follow with all that is made of them."""
    ridge, own, sure = state.ridge, state.own, state.sure
    if not params.proposes:
        add(ridge, 0, context, reward)
    elif learn(params.fit, state.fit, ridge, context, reward):
        note_change(own)
    else:
        note_vector(own, ridge.vector)
    if params.certified:
        if shrink(ridge, 0, context, params.price.ridge):
            note_change(sure)
        else:
            note_vector(sure, ridge.vector)


@kernel
def update(
    params: Params,
    state: State,
    contexts: NDArray[np.float64],
    notes: NDArray[np.int64],
    rewards: NDArray[np.float64],
    n: int,
) -> None:
    """Add the rewards to the sums."""
    for i in range(n):
        learn_one(params, state, contexts[i], rewards[i])
    if params.proposes and adapt(params.fit, state.fit, state.ridge):
        note_change(state.own)


@kernel
def schedule(params: Params, state: State, contexts: NDArray[np.float64]) -> None:
    """Note that rewards of these contexts are on their way."""
    if params.proposes:
        schedule_open(state.fit, state.ridge, contexts)


@kernel
def release(params: Params, state: State, contexts: NDArray[np.float64], told: int) -> None:
    """Note that the first `told` of the rewards of these contexts have come, and the others will not."""
    if params.proposes:
        settle_open(state.fit, contexts, told)


class GuardedLinear(CompiledContextualPolicy):
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
    model : {"shared", "disjoint", "hybrid"}
        One theta for all arms; one of its own, of norm at most `norm_bound`, for each; or its own around one that is
        shared, from which a new arm starts. What is certified then goes by each arm's own rewards.
    certificate : bool
        Without, nothing is priced and nothing guaranteed, and a round costs half as much.
    names, reward_range, direction, sleepers_seen, context_bound, features
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

    kernels = Kernels(select, update, schedule, release)
    takes_any_number = True
    _proposes = True
    _learned = ("ridge", "fit", "book", "joint")

    def __init__(
        self,
        n_arms: int | None = None,
        dimension: int = 0,
        budget: int = 0,
        *,
        delta: float = 0.01,
        factor: float = 1.0,
        norm_bound: float | None = None,
        noise_scale: float | None = None,
        model: str = "shared",
        certificate: bool = True,
        context_bound: float = 1.0,
        features: Any = None,
        **options: Unpack[Options],
    ) -> None:
        super().__init__(n_arms, dimension, budget, context_bound=context_bound, features=features, **options)
        self.model = check_choice("model", model, _MODELS)
        if type(self) is GuardedLinear and model != "shared":
            from armtriage.policies.linear.guarded_by_arm import GuardedByArm

            # Not by __new__, whose signature would hide this one from all who read it.
            self.__class__ = GuardedByArm
        self.delta = check_probability("delta", delta)
        self.factor = check_number("factor", factor)
        if norm_bound is None:
            norm_bound = 1.0 if self.features is None else float(self.features.norm_bound)
        self.norm_bound = check_number("norm_bound", norm_bound, positive=True)
        if not 1e-6 <= self.norm_bound <= 1e6:
            raise ValueError(f"norm_bound must lie in [1e-06, 1e+06], got {norm_bound!r}")
        self.noise_scale = check_optional("noise_scale", noise_scale)
        if self.noise_in_units(self.noise_scale) > 1e6:
            most = f"at most {1e6 * self.reward_unit:g}, a million times the largest absolute reward"
            raise ValueError(f"noise_scale must be {most}, got {noise_scale!r}")
        self.certified = check_flag("certificate", certificate)
        self._chosen = np.empty(0, np.int64)  # the candidates of its own choice in the last round

    @classmethod
    def _make(cls, graph: FeedbackGraph, config: Mapping[str, Any]) -> Self:
        # Earlier files name the fallback, since there were two; those with the other one are of another class.
        return super()._make(graph, {name: value for name, value in config.items() if name != "fallback"})

    @property
    def config(self) -> dict[str, Any]:
        """The constructor's arguments: `certificate` is `certified`, since policies have a method of that name."""
        return {**super().config, "certificate": self.certified}

    @property
    def _ridge(self) -> float:
        """The ridge of the ellipsoid, near the best that can be fixed in advance."""
        return max(self.noise_in_units(self.noise_scale) ** 2 * self.dimension / self.norm_bound**2, LEAST)

    def params(self) -> Params:
        """Return the parameters for the kernels."""
        noise, ridge, longest = self.noise_in_units(self.noise_scale), self._ridge, self.norm_bound
        low, high = np.sort(self._to_unit(np.array(self.reward_range))).tolist()
        log_delta = float(np.log(self.delta))
        price = PriceParams(self.dimension, self.budget, noise, ridge, longest, log_delta, self.factor, low, high)
        return Params(FitParams(noise, ridge, longest), price, self.certified, self._proposes)

    def new_state(self) -> State:
        """Return the state of a policy that has learned nothing."""
        n, d, ridge = self.n_arms, self.dimension, self._ridge
        values, squares = np.zeros((2, n))
        return State(
            new_ridge(1, d, ridge),
            new_fit(d, self.noise_in_units(self.noise_scale), ridge),
            new_book(),
            new_joint(d, self.certified),
            new_repeated(n, d),
            new_squares(n, d),
            new_squares(n, d),
            new_boxes(n, self.budget),
            np.arange(n),
            values,
            squares,
        )

    def _rebuild(self) -> None:
        self._check_ridge()
        state, asked = self._state, self._asked
        fit = state.fit
        for name in ("inverse", "open_inverse", "open_gram"):
            within(name, getattr(fit, name), -_FAR, _FAR)
        within("noise", fit.noise, 0.0, self.noise_in_units(self.noise_scale))
        within("ridge", fit.ridge, LEAST, _FAR)
        within("squares", fit.squares, 0.0, float(self.budget * asked))
        within("next_fit", fit.next_fit, 1, 2 * self.budget * asked + 1)
        waiting = self._pulls_without_reward() if self._proposes else 0
        require(fit.pending == waiting, f"pulls without a reward must be {waiting}, got {fit.pending}")
        within("stale", int(fit.whole[2]), 0, 1)
        self._check_joint(self._check_book())
        for kept in (state.own, state.sure):
            within("squares", kept.values, 0.0, _FAR)
            within("vectors", kept.vectors, -_FAR, _FAR)
            within("waiting", kept.waiting, -1, kept.vectors.shape[0])

    def _pulls_without_reward(self) -> int:
        """Return how many pulls of open decisions have not been told, as the widths count them."""
        return sum(one.arms.size - len(self._parts.get(number, ())) for number, one in self._open.items())

    def _check_book(self) -> float:
        """Check the account of a file; return the most that can have been lost."""
        book, most = self._state.book, 2.0 * self.budget * self._asked * (1.0 + 1e-9)
        for name in ("spent", "total"):
            within(name, getattr(book, name), 0.0, most)
        within("forced", book.forced, 0, self._asked)
        within("contradictions", book.contradictions, 0, self.n_arms * self._asked)
        return most

    def _check_joint(self, most: float) -> None:
        """Check the quadratics of a file, and what it says of contexts that came again."""
        joint, repeated = self._state.joint, self._state.repeated
        within("matrices", joint.matrices, -_FAR, _FAR)
        within("vectors", joint.vectors, -_FAR, _FAR)
        within("constants", joint.constants, 0.0, _FAR)
        within("prices", joint.prices, 0.0, most)
        within("used", joint.used, 0, joint.prices.size)
        within("rows", repeated.rows, 0, self.n_arms)
        within("known", repeated.known, 0, 2)

    def _allowance(self, rounds: int) -> float:
        """Return F in units."""
        return float(allowance(self._params.price, rounds))

    @property
    @locked
    def account(self) -> Account:
        """What admitted slates can have lost, what they may, and how often the largest upper ends were played."""
        book, unit = self._state.book, self.reward_unit
        allowed = self.factor * self._allowance(self._asked)
        return Account(unit * float(book.spent), unit * float(allowed), int(book.forced), self.factor)

    @locked
    def certificate(  # type: ignore[override]
        self,
        contexts: ArrayLike | None = None,
        *,
        eligible: ArrayLike | Iterable[Any] | None = None,
        next_decision: ArrayLike | Iterable[Any] | None = None,
    ) -> ContextualCertificate:
        """Return what the decisions so far, and one for `contexts`, can have lost, with the policy's own `delta`.

        Decisions that are still open count as made. When a reward is told, and whether, must not depend on its value.

        Parameters
        ----------
        contexts : array_like, optional
            Those of a round to come, as for `ask`; nothing changes by asking.
        eligible : array_like, optional
            The arms that may be chosen then.
        next_decision : array_like, optional
            The arms that would be played then, by default those of largest estimate.

        Examples
        --------
        >>> policy = GuardedLinear(2, dimension=1, budget=1, noise_scale=0.01, seed=7)
        >>> for _ in range(100):
        ...     policy.tell(policy.ask([[0.5], [1.0]]), [0.5])
        >>> policy.certificate([[0.5], [1.0]]).next_bound
        0.0
        """
        if not self.certified:
            raise ValueError("certificate must be True in the constructor for there to be one")
        if contexts is not None:
            contexts, eligible = self._request(*self._translated(contexts, eligible)[:2])
        state, unit = self._state, self.reward_unit  # after the request, which may have made room for new arms
        pairs: tuple[Exchange, ...] = ()
        arms: tuple[Name, ...] | None = None
        if contexts is not None:
            arms, pairs = self._next(contexts, eligible, next_decision)
        elif next_decision is not None or eligible is not None:
            raise ValueError("eligible and next_decision must be None without contexts")
        withdrawn = state.book.contradictions > 0
        joint = np.inf if withdrawn else self._joint_bound(state)
        total = np.inf if withdrawn else unit * float(state.book.total)
        bound = None if arms is None else float(sum(one.amount for one in pairs))
        earned = self._earned(state)
        informative = min(joint, total) < earned
        return ContextualCertificate(
            confidence=1.0 - self.delta,
            rounds=self._asked,
            budget=self.budget,
            regret_bound=min(joint, total),
            joint=joint,
            sum_of_certificates=total,
            next_decision=arms,
            next_bound=np.inf if withdrawn and bound is not None else bound,
            exchanges=() if withdrawn else pairs,
            noise_scale=self.noise_in_units(self.noise_scale) * unit,
            norm_bound=self.norm_bound,
            contradictions=int(state.book.contradictions),
            account=self.account._replace(spent=np.inf) if withdrawn else self.account,
            model=self.model,
            direction=self.direction,
            informative=informative,
            needed=0 if informative else None,
            earned=earned,
        )

    def _earned(self, state: Any) -> float:
        """Return what the rewards so far seem to sum up to at most: n times the root mean square of fitted means."""
        ridge, centres = state.ridge, self._ellipsoids(state).centres
        models = centres.shape[0]
        squares = float((centres * (ridge.moment[:models] + ridge.moment_carry[:models])).sum())
        return self.reward_unit * float(np.sqrt(max(squares, 0.0) * ridge.counts[:models, TOTAL].sum()))

    def _joint_bound(self, state: Any) -> float:
        """Return what the slates of a state can have lost, by all its rewards and one theta for all of them."""
        return self.reward_unit * joint_bound(state.joint, self._ellipsoids(state))

    def _ellipsoids(self, state: Any) -> Ellipsoids:
        ridge = state.ridge
        centres = np.einsum("bij,bj->bi", ridge.inverse, ridge.moment + ridge.moment_carry)
        return Ellipsoids(centres, ridge.inverse, np.array([radius(self._params.price, ridge.log_det[0])]))

    def regret_bound(self, state: Any) -> float:
        """Return the smaller of both bounds for a state, as `simulate` asks for it; infinite if it withdraws."""
        if state.book.contradictions > 0:
            return np.inf
        return min(self._joint_bound(state), self.reward_unit * float(state.book.total))

    def _next(
        self, contexts: ArrayLike, eligible: Any, next_decision: Any
    ) -> tuple[tuple[Name, ...], tuple[Exchange, ...]]:
        """Return a slate for a request, and the pairs that keep it open, by their names."""
        among = self._eligible(eligible)
        rows = self._scaled(self._rows(contexts, eligible, among))
        candidates, size = np.arange(self.n_arms) if among is None else among, min(self.budget, len(rows))
        if next_decision is None:
            chosen = np.sort(np.argsort(-self._estimates(rows, candidates), kind="stable")[:size])
        else:
            arms = np.sort(self._roster.numbers(next_decision, "next_decision"))
            if arms.size != size or not np.isin(arms, candidates).all():
                raise ValueError(f"next_decision must be {size} different candidates, got {next_decision!r}")
            chosen = np.searchsorted(candidates, arms)
        names = candidates.tolist() if self.names is None else [self.names[arm] for arm in candidates.tolist()]
        pairs = self._exchanges(rows, chosen, candidates)
        named = (Exchange(names[i], names[j], self.reward_unit * amount) for i, j, amount in pairs)
        return tuple(names[place] for place in chosen.tolist()), tuple(named)

    def _estimates(self, contexts: NDArray[np.float64], candidates: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return what rows are thought to be worth, in units."""
        inverse = self._state.fit.inverse if self._proposes else self._state.ridge.inverse[0]
        return np.asarray(contexts @ (inverse @ self._moment()))

    def _moment(self) -> NDArray[np.float64]:
        ridge = self._state.ridge
        return np.asarray(ridge.moment[0] + ridge.moment_carry[0])

    def _exchanges(
        self, contexts: NDArray[np.float64], arms: NDArray[np.int64], candidates: NDArray[np.int64]
    ) -> list[tuple[int, int, float]]:
        """Return the pairs of rows that keep a slate open, by the best assignment, with amounts in units."""
        from scipy.optimize import linear_sum_assignment

        state, price = self._state, self._params.price
        inverse, reach = state.ridge.inverse[0], float(radius(price, state.ridge.log_det[0]))
        middle, images = contexts @ (inverse @ self._moment()), contexts @ inverse
        squares = np.maximum(np.einsum("ij,ij->i", images, contexts), 0.0)
        lower = np.maximum(price.low, middle - reach * np.sqrt(squares))
        upper = np.minimum(price.high, middle + reach * np.sqrt(squares))
        outside = np.setdiff1d(np.flatnonzero(upper > lower[arms].min()), arms)
        between = squares[outside][:, None] + squares[arms] - 2.0 * images[outside] @ contexts[arms].T
        # A difference of squares that are nearly equal is rounding, and must not be too small.
        between = np.maximum(between, 0.0) + _ROUNDING * (squares[outside][:, None] + squares[arms])
        direct = middle[outside][:, None] - middle[arms] + reach * np.sqrt(between)
        amounts = np.maximum(np.minimum(upper[outside][:, None] - lower[arms], direct), 0.0)
        places, columns = linear_sum_assignment(amounts, maximize=True)
        found = zip(outside[places].tolist(), arms[columns].tolist(), amounts[places, columns].tolist(), strict=True)
        return [one for one in found if one[2] > 0.0]

    def _ask_with(self, contexts: ArrayLike, eligible: Any, given: NDArray[np.int64] | None) -> Decision:
        if given is None or not self.certified:
            return super()._ask_with(contexts, eligible, given)
        booked = [getattr(self._state, name) for name in ("book", "joint") if hasattr(self._state, name)]
        kept = [{name: array.copy() for name, array in arrays_of(part).items()} for part in booked]
        decision = super()._ask_with(contexts, eligible, given)
        candidates = np.arange(self.n_arms) if decision.eligible is None else decision.eligible
        if not np.array_equal(decision.arms, candidates[self._chosen]):
            # Played by somebody else: it counts in the certificate at its own price, and not in the account.
            for part, before in zip(booked, kept, strict=True):
                restore_arrays(arrays_of(part), before)
            rows = self._scaled(self._rows(contexts, eligible, decision.eligible))
            pairs = self._exchanges(rows, np.searchsorted(candidates, decision.arms), candidates)
            self._book_price(sum(one[2] for one in pairs), decision.number)
        return decision

    def _book_price(self, price: float, number: int) -> None:
        book_price(self._state.book, self._state.joint, price, number)

    def _select(self, number: int, contexts: NDArray[np.float64]) -> NDArray[np.int64]:  # type: ignore[override]
        self._chosen = super()._select(number, contexts)
        return self._chosen
