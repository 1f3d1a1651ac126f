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
from armtriage.certificate import Account, Assumptions, Certificate, Exchange, certificate_of
from armtriage.decisions import Decision
from armtriage.graphs.feedback import FeedbackGraph
from armtriage.kernels.jit import bind, kernel
from armtriage.kernels.order import best_arms
from armtriage.kernels.random import uniform
from armtriage.kernels.record import Record
from armtriage.kernels.ridge import TOTAL, Ridge, add, new_ridge, shrink
from armtriage.policies.compiled import Kernels
from armtriage.policies.facts import FAR, arrays_of, facts_of, require, restore_arrays, within
from armtriage.policies.linear.joint import (
    Ellipsoids,
    Joint,
    book_price,
    book_slate,
    book_slate_by_arm,
    joint_bound,
    new_joint,
)
from armtriage.policies.linear.pricing import (
    Book,
    Boxes,
    admit,
    allowance,
    find_boxes,
    new_book,
    new_boxes,
    radius,
)
from armtriage.policies.linear.regression import (
    LEAST,
    Fit,
    Params,
    adapt,
    learn,
    learn_by_arm,
    new_fit,
    schedule_open,
    settle_open,
)
from armtriage.policies.linear.ridge_policy import RidgePolicy
from armtriage.policies.linear.widths import (
    Repeated,
    find_widths,
    find_widths_by_arm,
    new_repeated,
    new_rows,
    new_widths,
    note_change,
    note_vector,
)
from armtriage.policies.lock import locked
from armtriage.policies.options import Options

__all__ = ["GuardedLinear"]

_MODELS = ("shared", "disjoint", "hybrid")
_ROUNDING = 1e-13


class State(Record):
    """The sums of each theta, the regressions that propose, the account, and scratch."""

    facts = ("ridge", "fit", "book", "joint", "repeated", "kept")
    ridge: Ridge
    fit: Fit
    book: Book
    joint: Joint
    repeated: Repeated
    kept: Record  # `Widths`, or `Rows` where each arm has a theta
    boxes: Boxes
    models: NDArray[np.int64]  # (K,) the thetas that the rows of a request belong to
    log_shares: NDArray[np.float64]  # (models,) ln of 1 / the share of delta that a theta has; it never falls
    arms: NDArray[np.int64]  # 0, ..., K - 1
    values: NDArray[np.float64]  # (K,)
    squares: NDArray[np.float64]  # (K,)
    known: int  # thetas that there are


def _select(
    params: Params,
    state: Any,
    contexts: NDArray[np.float64],
    number: int,
    luck: np.uint64,
    arms: NDArray[np.int64],
    notes: NDArray[np.int64],
) -> None:
    """Choose the S arms of largest ``<theta, x> + w ||x||``, if the account allows it; ties by arm number.

    `notes` says whose thetas they have.
    """
    fit, boxes, book, n = state.fit, state.boxes, state.book, contexts.shape[0]
    values, squares = state.values[:n], state.squares[:n]
    again = find_widths(params, state, contexts)
    if params.proposes:
        # One draw for all arms: a policy that is stuck in a round is not stuck in the next.
        width = uniform(luck, 0) * fit.noise * math.sqrt(math.log(number + 2.0))
        for arm in range(n):
            values[arm] += width * math.sqrt(squares[arm])
        best_arms(values, squares, arms)
    if params.certified:
        find_boxes(params, boxes, book, n)
        allowed = params.factor * allowance(params, state.known, state.log_shares[state.known - 1], number + 1)
        price = admit(params, boxes, book, allowed, n, arms)
        book_slate(state.joint, boxes, state.ridge, contexts, state.models, params.noise, price, number, again)
    for i in range(arms.size):
        notes[i] = state.models[arms[i]]


@kernel
def _learn_one(params: Params, state: Any, model: int, context: NDArray[np.float64], reward: float) -> None:
    """Add a reward to the sums, and follow with all that is made of them."""
    ridge, own, sure = state.ridge, state.kept.own, state.kept.sure
    if not params.proposes:
        add(ridge, model, context, reward)
    elif learn(params, state.fit, ridge, model, context, reward):
        note_change(own)
    else:
        note_vector(own, ridge.vector)
    if params.certified:
        if shrink(ridge, model, context, params.ridge):
            note_change(sure)
        else:
            note_vector(sure, ridge.vector)


@kernel
def _learn_one_by_arm(params: Params, state: Any, model: int, context: NDArray[np.float64], reward: float) -> None:
    """Do the same where each arm has a theta."""
    learn_by_arm(params, state.fit, state.ridge, model, context, reward)
    if params.certified:
        shrink(state.ridge, model, context, params.ridge)
    state.kept.changed[model] = 1


@kernel
def _forget_widths(state: Any) -> None:
    note_change(state.kept.own)


@kernel
def _forget_widths_by_arm(state: Any) -> None:
    state.kept.changed[:] = 1


def _update(
    params: Params,
    state: Any,
    contexts: NDArray[np.float64],
    notes: NDArray[np.int64],
    rewards: NDArray[np.float64],
    n: int,
) -> None:
    """Add each reward to the sums of its theta."""
    for i in range(n):
        _learn_one(params, state, notes[i], contexts[i], rewards[i])
    if params.proposes and adapt(params, state.fit, state.ridge):
        _forget_widths(state)


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


select, update = bind(_select, "select"), bind(_update, "update")
select_by_arm = bind(_select, "select_by_arm", find_widths=find_widths_by_arm, book_slate=book_slate_by_arm)
update_by_arm = bind(_update, "update_by_arm", _learn_one=_learn_one_by_arm, _forget_widths=_forget_widths_by_arm)
_TOGETHER, _BY_ARM = Kernels(select, update, schedule, release), Kernels(select_by_arm, update_by_arm)


class GuardedLinear(RidgePolicy):
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

    takes_any_number = True
    _proposes = True

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
        self._by_arm = model != "shared"  # whether each arm has a theta of its own
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

    @property
    def kernels(self) -> Kernels:  # type: ignore[override]
        """The compiled functions, by whose theta it is."""
        return _BY_ARM if self._by_arm else _TOGETHER

    def params(self) -> Params:
        """Return the parameters for the kernels."""
        low, high = np.sort(self._to_unit(np.array(self.reward_range))).tolist()
        return Params(
            self.dimension,
            self.budget,
            1 if self._by_arm else self.budget,
            self.noise_in_units(self.noise_scale),
            self._ridge,
            self.norm_bound,
            float(np.log(self.delta)),
            self.factor,
            low,
            high,
            self.certified,
            self._proposes,
            self.model == "hybrid",
        )

    @property
    def _room(self) -> int:
        """For how many arms there is room: where each has a theta and names come as they come, more than there are."""
        return 1 << (self.n_arms - 1).bit_length() if self._by_arm and self.any_number else self.n_arms

    def new_state(self) -> State:
        """Return the state of a policy that has learned nothing."""
        n, d, ridge, by_arm = self._room, self.dimension, self._ridge, self._by_arm
        models, noise = n if by_arm else 1, self.noise_in_units(self.noise_scale)
        values, squares = np.zeros((2, n))
        return State(
            new_ridge(models, d, ridge),
            new_fit(models, d, noise, ridge, by_arm=by_arm, shares=self.model == "hybrid"),
            new_book(),
            new_joint(d, self.certified, models),
            new_repeated(n, d),
            new_rows(n, d) if by_arm else new_widths(n, d),
            new_boxes(n, self.budget),
            np.arange(n) if by_arm else np.zeros(n, np.int64),
            self._log_shares(models),
            np.arange(n),
            values,
            squares,
            known=self._thetas,
        )

    @property
    def _thetas(self) -> int:
        """How many there are."""
        return self.n_arms if self._by_arm else 1

    def _log_shares(self, models: int) -> NDArray[np.float64]:
        """Thetas that are known share delta evenly; those of arms that come as they come have less and less of it."""
        if self._by_arm and self.any_number:
            arms = np.arange(1.0, models + 1.0)
            return np.log(arms * (arms + 1.0))
        return np.full(models, math.log(models))

    def _enlarge(self) -> None:
        old = self._state
        if len(old.values) < self._room:
            super()._enlarge()
            self._state.fit.inverse[len(old.fit.inverse) :] = np.eye(self.dimension) / old.fit.ridge
            self._recount()

    def _request(self, contexts: Any, eligible: Any) -> tuple[Any, Any]:
        if self._by_arm and self.any_number and not hasattr(contexts, "keys"):
            raise TypeError(
                f"contexts must be a mapping from arm to row where n_arms is None and model is {self.model!r}: "
                "each arm has a parameter of its own"
            )
        return super()._request(contexts, eligible)

    def _choose(self, number: int, contexts: NDArray[np.float64], candidates: NDArray[np.int64]) -> NDArray[np.int64]:
        if self._by_arm:
            state = self._state
            state.models[: candidates.size], state.known = candidates, self.n_arms
        self._chosen = super()._choose(number, contexts, candidates)
        return self._chosen

    def _schedule(self, arms: NDArray[np.int64], contexts: NDArray[np.float64]) -> None:  # type: ignore[override]
        super()._schedule(arms, contexts)
        if self._by_arm:
            self._state.fit.pending[arms] += 1
            # Somebody else may have chosen them.
            self._notes[self._asked - 1] = arms.copy()

    def _release(self, arms: NDArray[np.int64], contexts: NDArray[np.float64]) -> None:  # type: ignore[override]
        super()._release(arms, contexts)
        if self._by_arm:
            self._state.fit.pending[arms] -= 1

    def _update(  # type: ignore[override]
        self, number: int, arms: NDArray[np.int64], contexts: NDArray[np.float64], rewards: NDArray[np.float64]
    ) -> None:
        if self._by_arm:
            self._state.fit.pending[arms] -= 1
        super()._update(number, arms, contexts, rewards)

    def _limits(self) -> dict[str, tuple[Any, Any]]:
        state, asked, pulls = self._state, self._asked, self.budget * self._asked
        lost, squares = (0.0, 2.0 * pulls * (1.0 + 1e-9)), (0.0, FAR)
        waiting = (-1, self.dimension // 3)
        return super()._limits() | {
            "fit.noise": (0.0, self.noise_in_units(self.noise_scale)),
            "fit.ridge": (LEAST, FAR),
            "fit.shared_ridge": (LEAST, FAR),
            "fit.squares": (0.0, float(pulls)),
            "fit.next_fit": (1, 2 * pulls + 1),
            "fit.stale": (0, 1),
            "book.spent": lost,
            "book.total": lost,
            "book.forced": (0, asked),
            "book.contradictions": (0, self.n_arms * asked),
            "joint.constants": (0.0, FAR),
            "joint.prices": lost,
            "joint.used": (0, state.joint.prices.size),
            "repeated.rows": (0, self.n_arms),
            "repeated.known": (0, 2),
            "kept.own.values": squares,
            "kept.own.waiting": waiting,
            "kept.sure.values": squares,
            "kept.sure.waiting": waiting,
            "kept.seats": (0, len(state.models) - 1),
        }

    def _restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        super()._restore(arrays if "fit.base" in arrays else self._as_now(arrays))

    def _as_now(self, arrays: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Return the state of an earlier file, which has other names, under the present ones."""
        names = {"own.": "fit."} if self._by_arm else {"own.": "kept.own.", "sure.": "kept.sure."}
        found = {
            next((new + name.removeprefix(old) for old, new in names.items() if name.startswith(old)), name): array
            for name, array in arrays.items()
        }
        if self._by_arm:
            require(found["fit.real"].shape == (4,), "own.real must have four numbers")
            found["fit.real"] = found["fit.real"][[0, 1, 3, 2]]
        else:
            found["fit.inverse"] = found["fit.inverse"][None]
        later = ("base", "open_inverse", "open_gram", "shared_inverse", "moment")
        own = facts_of(self.new_state().fit)
        return {f"fit.{name}": own[name] for name in later} | found

    def _rebuild(self) -> None:
        super()._rebuild()
        for number, decision in self._open.items():
            theta = decision.arms if self._by_arm else 0
            within("notes", self._notes[number], theta, theta)
        self._recount()
        within("rewards", self._state.fit.rewards, 0, self.budget * self._asked)

    def _recount(self) -> None:
        """Count the rewards of all thetas, and the pulls of each without one."""
        fit = self._state.fit
        fit.rewards, fit.pending[...] = int(self._state.ridge.counts[:, TOTAL].sum()), 0
        for number, decision in self._open.items() if self._proposes else ():
            told = self._parts.get(number, ())
            waits = [arm if self._by_arm else 0 for arm in decision.arms.tolist() if arm not in told]
            np.add.at(fit.pending, waits, 1)

    def _allowance(self, rounds: int) -> float:
        """Return F in units."""
        thetas = self._thetas
        return float(allowance(self._params, thetas, float(self._log_shares(thetas).max()), rounds))

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
    ) -> Certificate:
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
        arms: NDArray[np.int64] | None = None
        pairs: tuple[Exchange, ...] = ()
        if contexts is not None:
            arms, pairs = self._next(contexts, eligible, next_decision)
        elif next_decision is not None or eligible is not None:
            raise ValueError("eligible and next_decision must be None without contexts")
        contradictions, earned = int(state.book.contradictions), self._earned(state)
        joint = np.inf if contradictions else self._joint_bound(state)
        noise = self.noise_in_units(self.noise_scale) * unit
        return certificate_of(
            bounds={"joint": joint, "sum_of_certificates": unit * float(state.book.total)},
            at_stake=earned,
            needed=lambda: None,  # how many more decisions are needed cannot be foreseen here
            names=self.names,
            confidence=1.0 - self.delta,
            rounds=self._asked,
            budget=self.budget,
            next_decision=arms,
            next_bound=None if arms is None else float(sum(one.amount for one in pairs)),
            exchanges=pairs,
            contradictions=contradictions,
            account=self.account,
            direction=self.direction,
            per_round=True,
            earned=earned,
            assumptions=Assumptions("linear", self.model, self.norm_bound, noise, self.reward_range),
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
        n, ridge = self._thetas, state.ridge
        inverses = ridge.inverse[:n]
        centres = np.einsum("bij,bj->bi", inverses, ridge.moment[:n] + ridge.moment_carry[:n])
        return Ellipsoids(centres, inverses, self._radii(state, np.arange(n)))

    def _radii(self, state: Any, models: NDArray[np.int64]) -> NDArray[np.float64]:
        grown = state.ridge.log_det[models] + 2.0 * state.log_shares[models]
        return np.array([radius(self._params, one) for one in grown])

    def regret_bound(self, state: Any) -> float:
        """Return the smaller of both bounds for a state, as `simulate` asks for it; infinite if it withdraws."""
        if state.book.contradictions > 0:
            return np.inf
        return min(self._joint_bound(state), self.reward_unit * float(state.book.total))

    def _next(
        self, contexts: ArrayLike, eligible: Any, next_decision: Any
    ) -> tuple[NDArray[np.int64], tuple[Exchange, ...]]:
        """Return a slate for a request, and the pairs that keep it open."""
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
        pairs = self._exchanges(rows, chosen, candidates)
        called = candidates.tolist()
        found = (Exchange(called[i], called[j], self.reward_unit * amount) for i, j, amount in pairs)
        return candidates[chosen], tuple(found)

    def _estimates(self, contexts: NDArray[np.float64], candidates: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return what rows are thought to be worth, in units."""
        fit, ridge = self._state.fit, self._state.ridge
        models = self._models_of(candidates)
        moments = ridge.moment[models] + ridge.moment_carry[models] + fit.ridge * (fit.shared_inverse @ fit.moment)
        inverses = fit.inverse if self._proposes else ridge.inverse
        return np.asarray((_images(inverses[models], moments) * contexts).sum(axis=1))

    def _models_of(self, candidates: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return whose thetas rows have, one for all or one for each."""
        return candidates if self._by_arm else np.zeros(1, np.int64)

    def _exchanges(
        self, contexts: NDArray[np.float64], arms: NDArray[np.int64], candidates: NDArray[np.int64]
    ) -> list[tuple[int, int, float]]:
        """Return the pairs of rows that keep a slate open, by the best assignment, with amounts in units."""
        from scipy.optimize import linear_sum_assignment

        params, ridge, models = self._params, self._state.ridge, self._models_of(candidates)
        images, reach = _images(ridge.inverse[models], contexts), self._radii(self._state, models)
        middle = (images * (ridge.moment[models] + ridge.moment_carry[models])).sum(axis=1)
        squares = np.maximum((images * contexts).sum(axis=1), 0.0)
        half = reach * np.sqrt(squares)
        lower, upper = np.maximum(params.low, middle - half), np.minimum(params.high, middle + half)
        if self._by_arm:
            # Each theta may be anywhere in its ellipsoid, so that boxes say all.
            inside = arms[np.argsort(lower[arms], kind="stable")]
            others = np.setdiff1d(np.arange(len(contexts)), arms)
            outside = others[np.argsort(-upper[others], kind="stable")]
            pairs = zip(outside.tolist(), inside.tolist(), strict=False)
            return [(i, j, float(upper[i] - lower[j])) for i, j in pairs if upper[i] > lower[j]]
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
        booked = [self._state.book, self._state.joint]
        kept = [{name: array.copy() for name, array in arrays_of(part).items()} for part in booked]
        decision = super()._ask_with(contexts, eligible, given)
        candidates = np.arange(self.n_arms) if decision.eligible is None else decision.eligible
        if not np.array_equal(decision.arms, candidates[self._chosen]):
            # Played by somebody else: it counts in the certificate at its own price, and not in the account.
            for part, before in zip(booked, kept, strict=True):
                restore_arrays(arrays_of(part), before)
            rows = self._scaled(self._rows(contexts, eligible, decision.eligible))
            pairs = self._exchanges(rows, np.searchsorted(candidates, decision.arms), candidates)
            price = sum(one[2] for one in pairs)
            book_price(self._state.book, self._state.joint, price, decision.number)
        return decision


def _images(inverses: NDArray[np.float64], contexts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return each row times an inverse, one for all or one for each."""
    images = contexts @ inverses[0] if len(inverses) == 1 else np.einsum("ijk,ik->ij", inverses, contexts)
    return np.asarray(images)
