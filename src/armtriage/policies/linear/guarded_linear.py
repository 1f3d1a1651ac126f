"""GuardedLinear: adaptive C2UCB inside a guarantee, and what it shares with guards around other proposers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any, ClassVar, Self, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from armtriage._arguments import check_choice, check_flag, check_number, check_optional, check_probability
from armtriage.certificate import Account, Assumptions, Certificate, Exchange, certificate_of
from armtriage.graphs.feedback import FeedbackGraph
from armtriage.kernels.record import Floats, Ints
from armtriage.kernels.ridge import TOTAL, Ridge, new_ridge
from armtriage.policies.changing import locked
from armtriage.policies.compiled import Kernels, RidgePolicy
from armtriage.policies.facts import arrays_of, facts_of, restore_arrays, within
from armtriage.policies.linear.account import Book, allowance, new_boxes, radius
from armtriage.policies.linear.joint import Ellipsoids, book_price, joint_bound, new_joint
from armtriage.policies.linear.regression import LEAST, Params, new_fit
from armtriage.policies.linear.thetas import Ends, OneTheta, State, ThetaByArm
from armtriage.policies.linear.widths import new_repeated
from armtriage.policies.options import ContextOptions, LinearGuardOptions


class LinearGuard(RidgePolicy):
    """A policy with contexts whose proposals are played while the account of what they can lose allows it.

    Before a slate is played, the most that it can lose is booked. While the account stays within ``factor * F(t)``, the
    slate is played, and else the S largest upper ends. A slate that was chosen elsewhere is refunded to the account,
    and counts in the certificate at its own price.
    """

    takes_any_number = True
    model: str = "shared"
    certified: bool = True
    _proposes: ClassVar[bool]
    """Whether the kernels propose, or proposals come from outside."""

    def __init__(
        self,
        n_arms: int | None,
        dimension: int,
        budget: int,
        *,
        delta: float = 0.01,
        factor: float = 1.0,
        norm_bound: float | None = None,
        noise_scale: float | None = None,
        bias: float | None = None,
        **options: Unpack[ContextOptions],
    ) -> None:
        super().__init__(n_arms, dimension, budget, **options)
        self.delta = check_probability("delta", delta)
        self.factor = check_number("factor", factor)
        if norm_bound is None:
            norm_bound = 1.0 if self.features is None else float(self.features.norm_bound)
        self.norm_bound = check_number("norm_bound", norm_bound, positive=True)
        if not 1e-6 <= self.norm_bound <= 1e6:
            raise ValueError(f"norm_bound must lie in [1e-06, 1e+06], got {norm_bound!r}")
        self.noise_scale = check_optional("noise_scale", noise_scale)
        if self._noise > 1e6:
            most = f"at most {1e6 * self.reward_unit:g}, a million times the largest absolute reward"
            raise ValueError(f"noise_scale must be {most}, got {noise_scale!r}")
        self.bias = None if bias is None else check_number("bias", bias)

    @cached_property
    def _thetas(self) -> OneTheta | ThetaByArm:
        return OneTheta(self.budget) if self.model == "shared" else ThetaByArm(self.any_number)

    @property
    def kernels(self) -> Kernels:  # type: ignore[override]
        """The compiled functions, by whose theta it is."""
        return self._thetas.kernels

    @property
    def _noise(self) -> float:
        return self.noise_in_units(self.noise_scale)

    @property
    def _ridge(self) -> float:
        """The ridge of the ellipsoid, near the best that can be fixed in advance."""
        return max(self._noise**2 * self.dimension / self.norm_bound**2, LEAST)

    def params(self) -> Params:
        """Return the parameters for the kernels."""
        low, high = np.sort(self._to_unit(np.array(self.reward_range))).tolist()
        return Params(
            self.dimension,
            self.budget,
            self._thetas.most,
            self._noise,
            self._ridge,
            self.norm_bound,
            float(np.log(self.delta)),
            self.factor,
            low,
            high,
            self.certified,
            self._proposes,
            self.model == "hybrid",
            0.0 if self.bias is None else self.bias / self.reward_unit,
            self.model == "disjoint",
        )

    def new_state(self) -> State:
        """Return the state of a policy that has learned nothing."""
        thetas, d, ridge = self._thetas, self.dimension, self._ridge
        n = thetas.room(self.n_arms)
        models, (values, squares) = thetas.count(n), np.zeros((2, n))
        return State(
            new_ridge(models, d, ridge),
            new_fit(models, d, self._noise, ridge, thetas.open_rows, self.model == "hybrid"),
            Book(spent=0.0, total=0.0, forced=0, contradictions=0),
            new_joint(d, self.certified, models),
            new_repeated(n, d),
            thetas.new_kept(n, d),
            new_boxes(n, self.budget),
            thetas.of(np.arange(n)),
            thetas.log_shares(models),
            np.arange(n),
            values,
            squares,
            known=thetas.count(self.n_arms),
        )

    def _enlarge(self) -> None:
        old = self._state
        if len(old.values) < self._thetas.room(self.n_arms):
            super()._enlarge()
            self._state.fit.inverse[len(old.fit.inverse) :] = np.eye(self.dimension) / old.fit.ridge
            self._recount()

    def _request(self, contexts: Any, eligible: Any) -> tuple[Any, Any]:
        if self._thetas.needs_names and not hasattr(contexts, "keys"):
            raise TypeError(
                f"contexts must be a mapping from arm to row where n_arms is None and model is {self.model!r}: "
                "each arm has a parameter of its own"
            )
        return super()._request(contexts, eligible)

    def _choose(self, number: int, contexts: Floats, candidates: Ints) -> Ints:
        self._thetas.note_candidates(self._state, candidates, self.n_arms)
        return super()._choose(number, contexts, candidates)

    def _overrule(self, number: int, contexts: Floats, candidates: Ints, given: Ints) -> None:
        state = self._state
        booked = arrays_of(state.book) | {f"joint.{name}": one for name, one in arrays_of(state.joint).items()}
        before = {name: array.copy() for name, array in booked.items()}
        chosen = self._choose(number, contexts, candidates)
        if self.certified and not np.array_equal(chosen, given):
            restore_arrays(booked, before)
            price = sum(one[2] for one in self._exchanges(self._scaled(contexts), given, candidates))
            book_price(state.book, state.joint, price, number)

    def _schedule(self, arms: Ints, contexts: Floats) -> None:  # type: ignore[override]
        # Somebody else may have chosen them.
        self._notes[self._asked - 1] = self._post.notes[: arms.size] = self._thetas.of(arms)
        super()._schedule(arms, contexts)

    def _release(self, arms: Ints, contexts: Floats) -> None:  # type: ignore[override]
        self._post.notes[: arms.size] = self._thetas.of(arms)
        super()._release(arms, contexts)

    def _quantities(self) -> dict[str, Any]:
        pulls, state = self.budget * self._asked, self._state
        return super()._quantities() | {
            "noise": self._noise,
            "next_fit": 2 * pulls + 1,
            "lost": 2.0 * pulls * (1.0 + 1e-9),
            "boxes": self.n_arms * self._asked,
            "slots": state.joint.prices.size,
            "vectors": self.dimension // 3,
            "last": len(state.models) - 1,
        }

    def _restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        super()._restore(arrays if "fit.base" in arrays else self._as_now(arrays))

    def _as_now(self, arrays: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Return the state of an earlier file, which has other names, under the present ones."""
        names = self._thetas.earlier
        found = {
            next((new + name.removeprefix(old) for old, new in names.items() if name.startswith(old)), name): array
            for name, array in arrays.items()
        }
        self._thetas.mend(found)
        later, own = ("base", "open_inverse", "open_gram", "shared_inverse", "moment"), facts_of(self.new_state().fit)
        return {f"fit.{name}": own[name] for name in later} | found

    def _rebuild(self) -> None:
        super()._rebuild()
        for number, decision in self._open.items():
            theta = self._thetas.of(decision.arms)
            within("notes", self._notes[number], theta, theta)
        self._recount()
        within("rewards", self._state.fit.rewards, 0, self.budget * self._asked)

    def _recount(self) -> None:
        """Count the rewards of all thetas, and the pulls of each without one."""
        fit = self._state.fit
        fit.rewards, fit.pending[...] = int(self._state.ridge.counts[:, TOTAL].sum()), 0
        for number, decision in self._open.items():
            told = self._parts.get(number, ())
            waits = np.array([arm for arm in decision.arms.tolist() if arm not in told], np.int64)
            np.add.at(fit.pending, self._thetas.of(waits), 1)

    @property
    @locked
    def account(self) -> Account:
        """What admitted slates can have lost, what they may, and how often the largest upper ends were played."""
        state, unit, known = self._state, self.reward_unit, self._thetas.count(self.n_arms)
        most = allowance(self._params, known, state.log_shares[known - 1], self._asked)
        return Account(
            unit * float(state.book.spent), unit * float(self.factor * most), int(state.book.forced), self.factor
        )

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
        >>> from armtriage import GuardedLinear
        >>> policy = GuardedLinear(2, dimension=1, budget=1, noise_scale=0.01, seed=7)
        >>> for _ in range(100):
        ...     policy.tell(policy.ask([[0.5], [1.0]]), [0.5])
        >>> policy.certificate([[0.5], [1.0]]).next_bound
        0.0
        """
        if not self.certified:
            raise ValueError("certificate must be True in the constructor for there to be one")
        arms: Ints | None = None
        pairs: tuple[Exchange, ...] = ()
        if contexts is not None:
            contexts, eligible = self._request(*self._translated(contexts, eligible)[:2])
            arms, pairs = self._next(contexts, eligible, next_decision)
        elif next_decision is not None or eligible is not None:
            raise ValueError("eligible and next_decision must be None without contexts")
        state, unit = self._state, self.reward_unit  # after the request, which may have made room for new arms
        contradictions, earned = int(state.book.contradictions), self._earned(state)
        return certificate_of(
            bounds={
                "joint": np.inf if contradictions else self._joint_bound(state),
                "sum_of_certificates": unit * float(state.book.total),
            },
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
            assumptions=Assumptions(
                "linear", self.model, self.norm_bound, self._noise * unit, self.reward_range, bias=self.bias
            ),
        )

    def regret_bound(self, state: Any) -> float:
        """Return the smaller of both bounds for a state, as `simulate` asks for it; infinite if it withdraws."""
        if state.book.contradictions > 0:
            return np.inf
        return min(self._joint_bound(state), self.reward_unit * float(state.book.total))

    def _joint_bound(self, state: Any) -> float:
        """Return what the slates of a state can have lost, by all its rewards and one theta for all of them."""
        return self.reward_unit * joint_bound(state.joint, self._ellipsoids(state))

    def _earned(self, state: Any) -> float:
        """Return what the rewards so far seem to sum up to at most: n times the root mean square of fitted means."""
        centres = self._ellipsoids(state).centres
        thetas = np.arange(len(centres))
        squares = float((centres * _moments(state.ridge, thetas)).sum())
        return self.reward_unit * float(np.sqrt(max(squares, 0.0) * state.ridge.counts[thetas, TOTAL].sum()))

    def _ellipsoids(self, state: Any) -> Ellipsoids:
        thetas = np.arange(self._thetas.count(self.n_arms))
        inverses = state.ridge.inverse[thetas]
        centres = np.einsum("bij,bj->bi", inverses, _moments(state.ridge, thetas))
        return Ellipsoids(centres, inverses, self._radii(state, thetas))

    def _radii(self, state: Any, models: Ints) -> Floats:
        grown = state.ridge.log_det[models] + 2.0 * state.log_shares[models]
        rewards = state.ridge.counts[models, TOTAL]
        return np.array([radius(self._params, *one) for one in zip(grown, rewards, strict=True)])

    def _next(self, contexts: ArrayLike, eligible: Any, next_decision: Any) -> tuple[Ints, tuple[Exchange, ...]]:
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
        called, pairs = candidates.tolist(), self._exchanges(rows, chosen, candidates)
        found = (Exchange(called[i], called[j], self.reward_unit * amount) for i, j, amount in pairs)
        return candidates[chosen], tuple(found)

    def _estimates(self, contexts: Floats, candidates: Ints) -> Floats:
        """Return what rows are thought to be worth, in units: by the sums of the ellipsoids."""
        return self._valued(self._state.ridge.inverse, contexts, candidates)

    def _valued(self, inverses: Floats, contexts: Floats, candidates: Ints) -> Floats:
        fit, ridge, models = self._state.fit, self._state.ridge, self._models_of(candidates)
        moments = _moments(ridge, models) + fit.ridge * (fit.shared_inverse @ fit.moment)
        return np.asarray((_images(inverses[models], moments) * contexts).sum(axis=1))

    def _models_of(self, candidates: Ints) -> Ints:
        """Return whose thetas rows have, one for all or one for each."""
        return self._thetas.of(candidates)[: self._thetas.count(len(candidates))]

    def _exchanges(self, contexts: Floats, arms: Ints, candidates: Ints) -> list[tuple[int, int, float]]:
        """Return the pairs of rows that keep a slate open, with amounts in units."""
        params, ridge, models = self._params, self._state.ridge, self._models_of(candidates)
        images, reach = _images(ridge.inverse[models], contexts), self._radii(self._state, models)
        middle = (images * _moments(ridge, models)).sum(axis=1)
        squares = np.maximum((images * contexts).sum(axis=1), 0.0)
        half = reach * np.sqrt(squares) + params.bias
        lower, upper = np.maximum(params.low, middle - half), np.minimum(params.high, middle + half)
        found = self._thetas.exchanges(Ends(contexts, images, middle, squares, reach, lower, upper, params.bias), arms)
        return [one for one in found if one[2] > 0.0]


def _moments(ridge: Ridge, models: Ints) -> Floats:
    return np.asarray(ridge.moment[models] + ridge.moment_carry[models])


def _images(inverses: Floats, contexts: Floats) -> Floats:
    """Return each row times an inverse, one for all or one for each."""
    images = contexts @ inverses[0] if len(inverses) == 1 else np.einsum("ijk,ik->ij", inverses, contexts)
    return np.asarray(images)


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
