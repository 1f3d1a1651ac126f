"""Pages whose places have weights: the order of a decision, what is told of each place, and what is certain."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from armtriage._arguments import check_number, check_probability
from armtriage.certificate import Bounds, Certificate, Page, place_bounds, placed_certificate
from armtriage.decisions import Decision
from armtriage.environments import check_weights
from armtriage.kernels.random import row_of, stream, uniform
from armtriage.policies.beliefs import Prior, starts_at
from armtriage.policies.changing import locked
from armtriage.policies.evidence import Evidence
from armtriage.policies.facts import check_facts, require
from armtriage.policies.policy import in_order
from armtriage.policies.sampling.places import (
    RENEWED,
    PlaceParams,
    Places,
    Positions,
    first_weights,
    learnt_weights,
    log_capital,
    new_places,
    ratio_interval,
)
from armtriage.policies.slate import SlatePolicy

_SWAPS = 0.2  # a page in five
_DELTA = 0.05


class PlacedPolicy(SlatePolicy):
    """The part of `armtriage.ThompsonSampling` that knows the places of a page."""

    prior: Prior
    position_swaps: float | None = None
    _weights: NDArray[np.float64] | str | None = None  # as they were given

    def _check_positions(self, positions: Any, swaps: float | None) -> None:
        """Check what is said of places, and keep it."""
        if positions is None:
            if swaps is not None:
                raise ValueError(f"position_swaps must be None without positions, got {swaps!r}")
            return
        for name, wrong in (
            ("a decision set", self.decisions is not None),
            ("arms that reveal others", not self._plain),
            ("a logging_floor", bool(self.logging_floor)),
            ("forget", self.forget is not None),
            ("an old_log", self.old_log is not None),
            ('direction="minimize"', self.direction == "minimize"),
        ):
            if wrong:
                raise NotImplementedError(f"positions cannot be used with {name}, got {positions!r:.100}")
        if self.reward_range[0] != 0.0:
            raise ValueError(f"reward_range must begin at 0 with positions, got {self.reward_range}")
        if isinstance(positions, str):
            if positions != "learn":
                raise ValueError(f'positions must be weights, "learn" or None, got {positions!r}')
            self._weights = positions
        else:
            self._weights = check_weights("positions", positions, self.budget)
        self.position_swaps = _SWAPS if swaps is None else check_number("position_swaps", swaps)
        if self.position_swaps > 1.0:
            raise ValueError(f"position_swaps must lie in [0, 1], got {swaps!r}")
        # Weights of places count for what is told and settled alike.
        self.learns_at_once = False
        self._sees = self._books_sets = True

    @property
    @locked
    def positions(self) -> Positions | None:
        """The weights of places, and what swaps of neighbours say of them with probability 0.95; None without any.

        Examples
        --------
        >>> from armtriage import ThompsonSampling
        >>> ThompsonSampling(5, budget=2, positions=[1.0, 0.5]).positions
        Positions(weights=array([1. , 0.5]), low=array([0.]), high=array([inf]))
        """
        if self._weights is None:
            return None
        own: Places = self._own
        ends = [ratio_interval(clicks, _DELTA / len(own.pairs)) for clicks in own.pairs]
        low, high = np.array(ends).reshape(-1, 2).T.copy()
        return Positions(own.weights.copy(), low, high)

    @property
    def config(self) -> dict[str, Any]:
        """The constructor's arguments, but for the graph."""
        given = self._weights.tolist() if isinstance(self._weights, np.ndarray) else self._weights
        return {**super().config, "positions": given}

    def _shown_config(self) -> dict[str, Any]:
        shown = super()._shown_config()
        none = ("positions", "position_swaps") if self._weights is None else ()
        return {name: value for name, value in shown.items() if name not in none}

    def _saved_config(self) -> dict[str, Any]:
        saved = super()._saved_config()
        none = ("positions", "position_swaps") if self._weights is None else ()
        return {name: value for name, value in saved.items() if name not in none}

    @property
    def in_simulation(self) -> bool:
        """Whether `simulate` plays it in compiled code, but for oracles that are not."""
        return super().in_simulation and self._weights is None

    @property
    def _learnt(self) -> bool:
        return isinstance(self._weights, str)

    def _place_params(self) -> PlaceParams:
        clicks, misses = starts_at(self.prior)
        return PlaceParams(clicks, clicks + misses)

    def _new_places(self, evidence: Evidence) -> Places:
        weights = first_weights(self.budget) if isinstance(self._weights, str) else self._weights
        assert weights is not None
        return new_places(int(evidence.n_arms), weights)

    def renewed_own(self, old: Any) -> Any:
        """Return the caches after arms were added, or have begun again."""
        new = super().renewed_own(old)
        if self._weights is not None:
            n = len(old.shown)
            new.shown[:n], new.told[:n], new.clicks[:n] = old.shown, old.told, old.clicks
            new.pairs[:], new.weights[:], new.closed = old.pairs, old.weights, old.closed
        return new

    def _forget(self, arms: list[int]) -> None:
        if self._weights is not None:
            self._own.shown[arms], self._own.told[arms], self._own.clicks[arms] = 0, 0, 0.0
        super()._forget(arms)

    @cached_property
    def _coins(self) -> np.uint64:
        return stream(self.seed, "swap")

    def _book_set(self, decision: Decision, among: Any) -> None:
        if self._weights is None:
            super()._book_set(decision, among)
            return
        order, pair = decision.ranked_arms.copy(), -1
        if vars(decision)["_beliefs"] is not None:
            pair = self._pair(decision.number, order.size)
            if pair >= 0 and uniform(row_of(self._coins, decision.number), 2) < 0.5:
                order[[pair, pair + 1]] = order[[pair + 1, pair]]
        vars(decision)["pair"] = pair
        self._show(in_order(decision, order), 1)

    def _pair(self, number: int, size: int) -> int:
        """Return the upper place of the neighbours whose order a coin decides; -1 for none."""
        luck = row_of(self._coins, number)
        swaps = size > 1 and uniform(luck, 0) < (self.position_swaps or 0.0)
        return int(uniform(luck, 1) * (size - 1)) if swaps else -1

    def _show(self, decision: Decision, sign: int) -> None:
        """Count where arms are shown, or take it back."""
        order = decision.ranked_arms
        self._own.shown[order, np.arange(order.size)] += sign

    def _as_proposed(self, arms: list[Any], proposal: Any, eligible: Any) -> dict[str, Any]:
        if self._weights is None:
            return super()._as_proposed(arms, proposal, eligible)
        if set(proposal) != set(arms):
            raise ValueError(f"proposal must have the arms of the decision with positions, got {proposal!r:.100}")
        return {"pair": self._pair(self._asked, len(arms))}

    def _recorded(self, decision: Decision, order: NDArray[np.int64]) -> Decision:
        if self._weights is None:
            return super()._recorded(decision, order)
        # Whether a coin of ours would have made the same order must not matter: such pages are no fair sample.
        self._show(decision, -1)
        vars(decision)["pair"] = -1
        self._show(super()._recorded(decision, order), 1)
        return decision

    def _watch(self, number: int, arms: NDArray[np.int64], rewards: NDArray[np.float64]) -> None:
        super()._watch(number, arms, rewards)
        if self._weights is None or not arms.size:
            return
        decision, own = self._open[number], self._own
        order = decision.ranked_arms.tolist()
        places = np.array([order.index(arm) for arm in arms.tolist()])
        own.told[arms, places] += 1
        own.clicks[arms, places] += rewards
        pair, found = vars(decision)["pair"], dict(zip(arms.tolist(), rewards.tolist(), strict=True))
        if pair >= 0 and order[pair] in found and order[pair + 1] in found:
            # A reward between 0 and 1 counts as a click with its own probability.
            luck = row_of(self._coins, number)
            above = uniform(luck, 3) < found[order[pair]]
            below = uniform(luck, 4) < found[order[pair + 1]]
            if above or below:
                own.pairs[pair, 2 if above and below else int(above)] += 1
        own.closed += 1
        if self._learnt and own.closed % RENEWED == 0:
            known: PlaceParams = self._params
            own.weights[:] = learnt_weights(own.told, own.clicks, known.prior_clicks, known.prior_told)

    def tell_cascade(  # noqa: D102 - as in every policy
        self, decision: Decision | int, first: Any, *, order: Any = None, in_turn: bool = False
    ) -> None:
        if self._weights is not None:
            raise ValueError("a cascade or position weights, not both: this policy has positions")
        super().tell_cascade(decision, first, order=order, in_turn=in_turn)

    @locked
    def watch(self, false_alarm: float = 0.01) -> None:  # noqa: D102 - as in every policy
        if self._weights is not None:
            raise NotImplementedError("a policy with positions cannot be watched: rewards depend on places")
        super().watch(false_alarm)

    def _page(self) -> Page:
        own, n = self._own, self.n_arms
        return Page(own.weights.copy(), own.shown @ own.weights, self.tally.sums[:n].copy(), own.told @ own.weights)

    def _bounds(self, delta: float = 0.05) -> Bounds:
        if self._weights is None:
            return super()._bounds(delta)
        if self._learnt:
            return Bounds(np.zeros(self.n_arms), np.ones(self.n_arms))
        page = self._page()
        return place_bounds(page.clicks, page.told, delta / self._roster.n_first)

    def _ends(self, among: NDArray[np.int64] | None) -> Bounds:
        return super()._ends(among) if self._weights is None else self._bounds()

    @locked
    def certificate(  # noqa: D102 - as in every policy
        self,
        *,
        eligible: Any = None,
        delta: float = 0.05,
        next_decision: ArrayLike | None = None,
        since: int = 0,
        independent: bool = False,
    ) -> Certificate:
        if self._weights is None:
            more: Any = {"next_decision": next_decision, "since": since, "independent": independent}
            return super().certificate(eligible=eligible, delta=delta, **more)
        if eligible is not None or since or independent or not self._always_all or self._roster.retired:
            raise NotImplementedError(
                "certificates with positions are of all decisions among all arms: no eligible, since or independent"
            )
        if next_decision is not None:
            chosen = self._roster.numbers(next_decision, "next_decision")
            self._check_decision(np.sort(chosen), None, "next_decision")
        return placed_certificate(
            self._page(),
            rounds=self._asked,
            delta=check_probability("delta", delta),
            reward_range=self.reward_range,
            next_decision=None if next_decision is None else chosen,
            names=self._roster.names,
            contradictions=1 if self._learnt else self._wrong_ratios(delta),
            learnt=self._learnt,
            least_observed=int(self.tally.counts.min()),
            silent=self._silent,
        )

    def _wrong_ratios(self, delta: float) -> int:
        """Return how many ratios of neighbours' weights swaps contradict."""
        ratios, pairs = self._own.weights[1:] / self._own.weights[:-1], self._own.pairs
        limit = np.log(max(len(pairs), 1) / delta)
        return sum(bool(log_capital(r, clicks) >= limit) for r, clicks in zip(ratios, pairs, strict=True))

    def _open_arrays(self) -> dict[str, NDArray[Any]]:
        arrays = super()._open_arrays()
        if self._weights is not None:
            numbers = [number for number, one in self._open.items() if vars(one)["pair"] >= 0]
            arrays["swapped"] = np.array(numbers, np.int64)
        return arrays

    def _reopen(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        if self._weights is None:
            super()._reopen(arrays)
            return
        given = dict(arrays)
        numbers = given.pop("swapped")
        super()._reopen(given)
        require(numbers.ndim == 1 and numbers.dtype == np.int64, "swapped must be a list of numbers")
        require(all(number in self._open for number in numbers.tolist()), "swaps are of open decisions only")
        for number, one in self._open.items():
            pair = self._pair(number, one.arms.size) if number in numbers else -1
            require(pair >= 0 or number not in numbers, f"no neighbours of decision {number} can have been swapped")
            vars(one)["pair"] = pair

    def _restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        super()._restore(arrays)
        if self._weights is not None and "clicks" not in arrays:
            # Files of before do not say in which places clicks were: they are spread as weights explain them.
            own, sums = self._own, self._evidence.sums[: self.n_arms]
            likely = own.told * own.weights
            rates = sums / np.maximum(likely.sum(axis=1), 1e-300)
            own.clicks[:] = np.minimum(likely * rates[:, None], own.told)

    def _check_own(self) -> None:
        super()._check_own()
        if self._weights is None:
            return
        own, n = self._own, self.n_arms
        check_facts(own, {"asked": self._asked})
        require(own.shown.sum(axis=1) == self._evidence.pulls[:n], "what was shown must be what was pulled")
        require(own.told.sum(axis=1) == self._evidence.counts[:n], "what was told of places must be what was told")
        if self._learnt:
            falls = own.weights[0] == 1.0 and (np.diff(own.weights) <= 0.0).all() and own.weights[-1] > 0.0
            require(falls, "weights must fall from 1")
        else:
            require(np.array_equal(own.weights, self._weights), "weights must be those given")
