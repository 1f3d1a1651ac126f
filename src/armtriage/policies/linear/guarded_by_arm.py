"""GuardedLinear with a parameter for each arm, alone or around a shared one."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from armtriage.kernels.jit import kernel
from armtriage.kernels.order import best_arms, inner
from armtriage.kernels.random import uniform
from armtriage.kernels.record import Record
from armtriage.kernels.ridge import Ridge, image, new_ridge, refit, shrink
from armtriage.policies.compiled import Kernels
from armtriage.policies.contextual import ContextualPolicy
from armtriage.policies.facts import within
from armtriage.policies.linear.adaptive import LEAST, FitParams
from armtriage.policies.linear.by_arm import (
    Arms,
    Kept,
    adapt_arms,
    find_forms,
    learn_arm,
    new_arms,
    new_kept,
    sits,
    widen_arms,
)
from armtriage.policies.linear.guarded_linear import GuardedLinear
from armtriage.policies.linear.joint import Ellipsoids, Joint, new_joint
from armtriage.policies.linear.joint_by_arm import book_slate_of_arms
from armtriage.policies.linear.pricing import (
    Book,
    Boxes,
    PriceParams,
    admit,
    allowance_of_arms,
    new_book,
    new_boxes,
    put_box,
    radius,
)
from armtriage.policies.linear.repeated import Repeated, new_repeated, repeats

__all__ = ["GuardedByArm"]

_FAR = 1e100


class Params(Record, frozen=True):
    """Parameters of the kernels."""

    fit: FitParams
    price: PriceParams
    certified: bool
    shares: bool  # whether there is a shared part


class State(Record):
    """The sums of each arm, the regressions that propose, the account, and scratch."""

    facts = ("ridge", "own", "book", "joint", "repeated", "kept")
    ridge: Ridge  # one model for each arm
    own: Arms
    book: Book
    joint: Joint  # a block for each arm
    repeated: Repeated
    kept: Kept
    boxes: Boxes
    members: NDArray[np.int64]  # (K,) the arms that the rows of a request belong to
    log_shares: NDArray[np.float64]  # (K,) ln of 1 / the share of delta that an arm has
    arms: NDArray[np.int64]  # (K,)
    values: NDArray[np.float64]  # (K,)
    squares: NDArray[np.float64]  # (K,)
    known: int  # arms that there are


@kernel
def find_boxes_of_arms(params: PriceParams, state: State, contexts: NDArray[np.float64], again: bool) -> None:
    """Compute the ends of all means, each by the rewards of its own arm."""
    ridge, boxes, kept = state.ridge, state.boxes, state.kept
    for place in range(contexts.shape[0]):
        arm, x = state.members[place], contexts[place]
        if not again or kept.changed[arm] == 1:
            refit(ridge, arm)
            square = image(ridge.inverse[arm], x, ridge.vector)
            reach = radius(params, ridge.log_det[arm] + 2.0 * state.log_shares[arm])
            kept.middles[place], kept.halves[place] = inner(ridge.weights[arm], x), reach * math.sqrt(square)
            kept.reaches[place] = reach
        state.book.contradictions += put_box(params, boxes, place, kept.middles[place], kept.halves[place])


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
    """Choose the S arms of largest estimate plus width, if the account allows it; `notes` says which arms they are."""
    own, kept, n = state.own, state.kept, contexts.shape[0]
    values, squares = state.values[:n], state.squares[:n]
    again = sits(kept, state.members, n) & repeats(state.repeated, contexts)
    find_forms(own, kept, params.shares, again, contexts, state.members, values, squares)
    width = uniform(luck, 0) * own.noise * math.sqrt(math.log(number + 2.0))
    for place in range(n):
        values[place] += width * math.sqrt(squares[place])
    best_arms(values, squares, arms)
    if params.certified:
        find_boxes_of_arms(params.price, state, contexts, again)
        largest = 0.0
        for arm in range(state.known):
            largest = max(largest, state.log_shares[arm])
        allowed = params.price.factor * allowance_of_arms(params.price, state.known, largest, number + 1)
        price, noise = admit(params.price, state.boxes, state.book, allowed, n, arms), params.price.noise
        book_slate_of_arms(state.joint, state.boxes, kept, contexts, state.members, noise, price, number, again)
    for place in range(n):
        kept.changed[state.members[place]] = 0
    for i in range(arms.size):
        notes[i] = state.members[arms[i]]


@kernel
def update(
    params: Params,
    state: State,
    contexts: NDArray[np.float64],
    notes: NDArray[np.int64],
    rewards: NDArray[np.float64],
    n: int,
) -> None:
    """Add each reward to the sums of its arm."""
    for i in range(n):
        learn_arm(params.fit, state.own, state.ridge, params.shares, notes[i], contexts[i], rewards[i])
        if params.certified:
            shrink(state.ridge, notes[i], contexts[i], params.price.ridge)
        state.kept.changed[notes[i]] = 1
    if adapt_arms(params.fit, state.own, state.ridge, params.shares):
        state.kept.changed[:] = 1


class GuardedByArm(GuardedLinear):
    """What `GuardedLinear` with ``model="disjoint"`` or ``"hybrid"`` makes: see there."""

    kernels = Kernels(select, update)
    _shown_name = "GuardedLinear"

    def params(self) -> Any:
        """Return the parameters for the kernels."""
        shared = super().params()
        return Params(shared.fit, shared.price, self.certified, self.model == "hybrid")

    @property
    def _room(self) -> int:
        """For how many arms there is room: where names come as they come, more than there are."""
        return 1 << (self.n_arms - 1).bit_length() if self.any_number else self.n_arms

    def new_state(self) -> Any:
        """Return the state of a policy that has learned nothing."""
        n, d, ridge = self._room, self.dimension, self._ridge
        values, squares = np.zeros((2, n))
        own = new_arms(n, d, self.noise_in_units(self.noise_scale), ridge, self.model == "hybrid")
        return State(
            new_ridge(n, d, ridge),
            own,
            new_book(),
            new_joint(d, self.certified, n),
            new_repeated(n, d),
            new_kept(n, d),
            new_boxes(n, self.budget),
            np.arange(n),
            self._log_shares(n),
            np.arange(n),
            values,
            squares,
            known=self.n_arms,
        )

    def _log_shares(self, n: int) -> NDArray[np.float64]:
        """Arms that are known share delta evenly; arms that come as they come have less and less of it."""
        arms = np.arange(1.0, n + 1.0)
        return np.log(arms * (arms + 1.0)) if self.any_number else np.full(n, math.log(n))

    def _grow(self) -> None:
        ContextualPolicy._grow(self)
        old = self._cached_state
        if old is None or len(old.members) >= self._room:
            return
        new = self.new_state()
        widen_arms(old.own, new.own)
        n = len(old.members)
        for name in ("gram", "carry", "recent", "inverse", "moment", "moment_carry", "weights", "log_det", "counts"):
            getattr(new.ridge, name)[:n] = getattr(old.ridge, name)
        blocks = n * self.dimension
        new.joint.matrices[:, :blocks], new.joint.vectors[:, :blocks] = old.joint.matrices, old.joint.vectors
        new.joint.constants[...], new.joint.prices[...] = old.joint.constants, old.joint.prices
        new.kept.seats[:n] = old.kept.seats
        for bag in ("whole", "real"):
            for part in ("book", "joint", "repeated"):
                getattr(getattr(new, part), bag)[...] = getattr(getattr(old, part), bag)
        new.repeated.held = False
        self._cached_state = new
        vars(self).pop("_seat", None)

    def _request(self, contexts: Any, eligible: Any) -> tuple[Any, Any]:
        if self.any_number and not hasattr(contexts, "keys"):
            raise TypeError(
                f"contexts must be a mapping from arm to row where n_arms is None and model is {self.model!r}: "
                "each arm has a parameter of its own"
            )
        return super()._request(contexts, eligible)

    def _choose(self, number: int, contexts: NDArray[np.float64], candidates: NDArray[np.int64]) -> NDArray[np.int64]:
        state = self._state
        state.members[: candidates.size], state.known = candidates, self.n_arms
        return super()._choose(number, contexts, candidates)

    def _schedule(self, arms: NDArray[np.int64], contexts: NDArray[np.float64]) -> None:  # type: ignore[override]
        self._state.own.pending[arms] += 1
        # Somebody else may have chosen them.
        self._notes[self._asked - 1] = arms.copy()

    def _release(self, arms: NDArray[np.int64], contexts: NDArray[np.float64]) -> None:  # type: ignore[override]
        self._state.own.pending[arms] -= 1

    def _update(  # type: ignore[override]
        self, number: int, arms: NDArray[np.int64], contexts: NDArray[np.float64], rewards: NDArray[np.float64]
    ) -> None:
        self._state.own.pending[arms] -= 1
        super()._update(number, arms, contexts, rewards)

    def _rebuild(self) -> None:
        self._check_ridge()
        state, asked = self._state, self._asked
        own = state.own
        for name in ("inverse", "base", "shared_inverse", "moment"):
            within(name, getattr(own, name), -_FAR, _FAR)
        within("noise", own.noise, 0.0, self.noise_in_units(self.noise_scale))
        within("ridge", own.ridge, LEAST, _FAR)
        within("shared_ridge", own.shared_ridge, LEAST, _FAR)
        within("squares", own.squares, 0.0, float(self.budget * asked))
        within("next_fit", own.next_fit, 1, 2 * self.budget * asked + 1)
        self._check_joint(self._check_book())
        within("seats", state.kept.seats, 0, len(state.members) - 1)
        state.kept.changed[...] = 1
        own.rewards, own.pending[...] = int(state.ridge.counts[:, 0].sum()), 0
        within("rewards", own.rewards, 0, self.budget * asked)
        for number, decision in self._open.items():
            within("notes", self._notes[number], decision.arms, decision.arms)
            waits = [arm for arm in decision.arms.tolist() if arm not in self._parts.get(number, ())]
            own.pending[waits] += 1

    def _allowance(self, rounds: int) -> float:
        shares = self._log_shares(self.n_arms)
        return float(allowance_of_arms(self._params.price, self.n_arms, float(shares.max()), rounds))

    def _ellipsoids(self, state: Any) -> Ellipsoids:
        n, ridge, price = self.n_arms, state.ridge, self._params.price
        inverses, shares = ridge.inverse[:n], self._log_shares(len(state.members))
        centres = np.einsum("bij,bj->bi", inverses, ridge.moment[:n] + ridge.moment_carry[:n])
        radii = [radius(price, ridge.log_det[arm] + 2.0 * shares[arm]) for arm in range(n)]
        return Ellipsoids(centres, inverses, np.array(radii))

    def _estimates(self, contexts: NDArray[np.float64], candidates: NDArray[np.int64]) -> NDArray[np.float64]:
        own = self._state.own
        shared = own.shared_inverse @ own.moment
        theta = own.base[candidates] + own.ridge * (own.inverse[candidates] @ shared)
        return np.asarray(np.einsum("ij,ij->i", theta, contexts))

    def _ends(
        self, contexts: NDArray[np.float64], candidates: NDArray[np.int64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return lower and upper ends of the means of rows."""
        ridge, price = self._state.ridge, self._params.price
        inverses, shares = ridge.inverse[candidates], self._log_shares(len(self._state.members))[candidates]
        moments = ridge.moment[candidates] + ridge.moment_carry[candidates]
        images = np.einsum("ijk,ik->ij", inverses, contexts)
        middle = np.einsum("ij,ij->i", images, moments)
        reach = [
            radius(price, grown + 2.0 * share) for grown, share in zip(ridge.log_det[candidates], shares, strict=True)
        ]
        half = np.array(reach) * np.sqrt(np.maximum(np.einsum("ij,ij->i", images, contexts), 0.0))
        return np.maximum(price.low, middle - half), np.minimum(price.high, middle + half)

    def _exchanges(
        self, contexts: NDArray[np.float64], arms: NDArray[np.int64], candidates: NDArray[np.int64]
    ) -> list[tuple[int, int, float]]:
        lower, upper = self._ends(contexts, candidates)
        inside = arms[np.argsort(lower[arms], kind="stable")]
        others = np.setdiff1d(np.arange(len(contexts)), arms)
        outside = others[np.argsort(-upper[others], kind="stable")]
        pairs = zip(outside.tolist(), inside.tolist(), strict=False)
        return [(i, j, float(upper[i] - lower[j])) for i, j in pairs if upper[i] > lower[j]]
