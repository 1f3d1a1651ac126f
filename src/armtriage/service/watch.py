"""Watch: what a policy would have shown while another system decides, and what that would have earned."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np
from msgspec import UNSET, Struct
from numpy.typing import NDArray

from armtriage.certificate import Bounds, intervals_of
from armtriage.kernels.betting import BETS, margin
from armtriage.policies import Policy
from armtriage.service import events as log
from armtriage.service.messages import Takeover
from armtriage.service.refusal import Refused

DELTA = 0.05
"""What bounds may fail with where no switch rule says it."""

_WAITING = 384  # bytes that a decision takes, as measured
_LOOKS = 1.01  # how many more decisions there are at each look at the arms' intervals, which takes time for each arm


class Watched(Struct, array_like=True, frozen=True, gc=False):
    """A decision of the other system that has not counted: since it is open, or an older one is."""

    arms: tuple[int, ...]
    would: tuple[int, ...]
    chances: tuple[float, ...] | None = None  # with which the other system shows each of `would`; None: not known
    rewards: tuple[float, ...] | None = None  # of `arms`, from 0 to 1, the better the larger; None while it is open


class Switch(NamedTuple):
    """The event that ended observing: when, by which key, and by which rule, if it was not by hand."""

    seq: int
    at: int
    by: str
    rule: str


class Bracket(NamedTuple):
    """What the slate that is best for certain earns more in each decision than the other system, if means are constant.

    `arms` are numbers.
    """

    arms: list[int]
    low: float
    high: float


class WeightedView(Struct):
    """What `would_show` would have earned in each of the `decisions` that came with probabilities.

    `dr` and `ips` are two estimates of it, `gain` one of how much more that is than what was earned, and `gain_low` is
    what it is at least.
    """

    decisions: int
    dr: float
    ips: float
    gain: float
    gain_low: float


class WatchView(NamedTuple):
    """A view of what watching has found; amounts are in units of rewards."""

    decisions: int
    waiting: int
    agreement: float | None
    old_mean: float | None
    delta: float
    bracket: Bracket | None
    weighted: WeightedView | None
    takeover: Takeover | None
    switch: Switch | None


class _Saved(Struct, array_like=True):
    """What a snapshot keeps."""

    numbers: list[int]
    sums: list[float]
    arms: bytes
    capital: bytes
    switch: Switch | None
    waiting: list[bytes]


_SAVED = msgspec.msgpack.Decoder(_Saved)
_PIECE = msgspec.msgpack.Decoder(list[tuple[str, Watched]])


class Watch:
    """What is known of another system's decisions, counted in the order of asking, as a function of the log.

    Parameters
    ----------
    takeover : Takeover or None
        The rule by which observing ends; without one it ends by hand.
    reward : RewardRule
        What arms earn; arms whose rewards do not come earn its default.
    budget : int
        How many arms a decision has at most.
    """

    def __init__(self, takeover: Takeover | None, reward: Any, budget: int) -> None:
        self.takeover, self._budget = takeover, budget
        low, high = reward.counted
        self._low, self._width = float(low), float(high - low)
        self._minimize, self._default = reward.direction == "minimize", reward.default
        self.waiting: dict[str, Watched] = {}  # by id, in the order of asking
        self._order: deque[str] = deque()
        self.asked = self.alike = self.slots = self.counted = self.weighted = 0
        self._counted_slots = self._weighted_slots = 0
        self._earned = self._robust = self._plain = self._gain = 0.0  # on the unit scale
        self._arms = np.zeros((3, 0))  # of each arm: decisions that showed it, those that counted, and their rewards
        self._capital = np.zeros(BETS.size)
        self.switch: Switch | None = None
        self._looked, self._next_look = 0, 1.0

    @classmethod
    def of(cls, create: Any, policy: Policy) -> Watch | None:
        """Return what a recipe asks to watch, or None; refuse what cannot be."""
        takeover = None if create.takeover is UNSET else create.takeover
        if create.status != "observing":
            if takeover is not None:
                raise Refused("invalid", 'takeover must be left out unless status is "observing"')
            return None
        if create.reward.default is None:
            raise Refused(
                "invalid", "observing needs reward.default: a decision without rewards must count as something"
            )
        if policy.decisions is not None:
            raise Refused("invalid", "status must not be observing over a set of decisions: it compares slates")
        contextual = create.dimension is not UNSET
        if contextual and not hasattr(policy, "weights"):
            raise Refused(
                "invalid", f"status must not be observing: {type(policy).__name__} has no estimate to show by"
            )
        if takeover is not None:
            if takeover.by == "bracket" and contextual:
                raise Refused("invalid", "takeover.by must be dr: boxes are for arms without contexts")
            if not 0.0 < takeover.delta < 1.0:
                raise Refused("invalid", f"takeover.delta must lie strictly between 0 and 1, got {takeover.delta!r}")
            if takeover.control is not UNSET:
                if create.control is UNSET:
                    raise Refused("invalid", "takeover.control must be left out: the policy has no control group")
                if not 0.0 < takeover.control < 1.0:
                    share = takeover.control
                    raise Refused("invalid", f"takeover.control must lie strictly between 0 and 1, got {share!r}")
        return cls(takeover, create.reward, policy.budget)

    @property
    def delta(self) -> float:
        """What each bound may ever fail with."""
        return DELTA if self.takeover is None else self.takeover.delta

    @property
    def held(self) -> int:
        """About how many bytes of memory it takes to wait for decisions."""
        return _WAITING * len(self.waiting)

    def would_show(
        self, policy: Policy, mask: NDArray[np.bool_], contexts: NDArray[np.float64] | None = None
    ) -> list[int]:
        """Return the eligible arms of largest means so far, as `Certificate.next_decision`, or of largest estimates."""
        if contexts is None:
            tally = policy.tally
            worth = np.where(tally.counts > 0, tally.sums / np.maximum(tally.counts, 1), 0.0)
        else:
            weights: NDArray[np.float64] = policy.weights  # type: ignore[attr-defined]
            worth = contexts @ weights * (-1.0 if self._minimize else 1.0)
        eligible = np.flatnonzero(mask)
        return sorted(eligible[np.argsort(-worth[eligible], kind="stable")[: self._budget]].tolist())

    def opened(self, key: str, arms: Sequence[int], would: Sequence[int], chances: Sequence[float] | None) -> None:
        """Wait for what a decision of the other system earns."""
        one = Watched(tuple(arms), tuple(would), None if chances is None else tuple(chances))
        self.waiting[key] = one
        self._order.append(key)
        self._grow(max(*arms, *would) + 1)
        self._arms[0, list(arms)] += 1.0
        self.asked += 1
        self.slots += len(arms)
        self.alike += len(set(arms) & set(would))

    def _grow(self, size: int) -> None:
        if size > self._arms.shape[1]:
            self._arms = np.pad(self._arms, ((0, 0), (0, size - self._arms.shape[1])))

    def closed(self, key: str, values: Mapping[int, float]) -> None:
        """Take what a decision has earned, now that no more can come; one that was not watched counts nowhere."""
        one = self.waiting.get(key)
        if one is None:
            return
        rewards = tuple(self._unit(values.get(arm, self._default)) for arm in one.arms)
        self.waiting[key] = Watched(one.arms, one.would, one.chances, rewards)
        order = self._order
        while order and (one := self.waiting[order[0]]).rewards is not None:
            del self.waiting[order.popleft()]
            self._count(one, dict(zip(one.arms, one.rewards, strict=True)))

    def _unit(self, value: float) -> float:
        unit = min(max((value - self._low) / self._width, 0.0), 1.0)
        return 1.0 - unit if self._minimize else unit

    def _count(self, one: Watched, rewards: Mapping[int, float]) -> None:
        """Count the oldest decision; what is expected of it knows the rewards of earlier ones only.

        An arm counts with the plain estimate where its probability is below 1/2, so that no decision is further below
        what is expected than 3 for each slot. One that the other system never shows counts as 0, the least reward.
        """
        earned = sum(rewards.values())
        if one.chances is not None:
            robust = plain = found = centre = 0.0
            for arm, chance in zip(one.would, one.chances, strict=True):
                expected = (float(self._arms[2, arm]) + 0.5) / (float(self._arms[1, arm]) + 1.0)
                robust += expected
                weighted = 0.0
                if arm in rewards:
                    weighted = rewards[arm] / chance
                    robust += (rewards[arm] - expected) / chance
                plain += weighted
                if chance >= 0.5:
                    centre += expected
                    found += expected + weighted - (expected / chance if arm in rewards else 0.0)
                else:
                    found += weighted
            centre -= self._earned / (self.counted + 1.0)
            scale = 3.0 * self._budget
            gain = max((found - earned - centre) / scale, -1.0)
            self._capital += np.log1p(BETS * gain) + BETS * (centre / scale)
            self.weighted += 1
            self._weighted_slots += len(one.arms)
            self._robust += robust
            self._plain += plain
            self._gain += found - earned
        self._earned += earned
        self.counted += 1
        self._counted_slots += len(one.arms)
        for arm, value in rewards.items():
            self._arms[1, arm] += 1.0
            self._arms[2, arm] += value

    def bracket(self, policy: Policy) -> Bracket | None:
        """Return what the slate that is best for certain would add to each decision; None before the first.

        It needs no probabilities, and arms whose means are constant, for a system that does not look at the visitor.
        """
        known = policy.arms
        if not self.asked:
            return None
        self._grow(known.retired.size)
        bounds: Bounds = intervals_of(policy.tally, 1.0 / known.share, self.delta)
        share = self._arms[0] / self.asked
        live = np.flatnonzero(~known.retired)
        worth = (1.0 - share) * bounds.lower + share * bounds.upper
        arms = np.sort(live[np.argsort(-worth[live], kind="stable")[: self._budget]])
        inside = np.zeros(share.size)
        inside[arms] = 1.0
        more, less = np.maximum(inside - share, 0.0), np.maximum(share - inside, 0.0)
        low = float(more @ bounds.lower - less @ bounds.upper)
        return Bracket(arms.tolist(), self._width * low, self._width * float(more @ bounds.upper - less @ bounds.lower))

    def gain_low(self) -> float:
        """Return what `would_show` would at least have added to each decision that came with probabilities."""
        if not self.weighted:
            return -self._width * self._budget
        found = margin(self._capital, self.weighted, 3.0 * self._budget, self.delta)
        return self._width * max(found, -float(self._budget))

    def is_due(self, policy: Policy) -> bool:
        """Whether the rule says that observing ends; looks that are left out change when, and not how surely."""
        rule = self.takeover
        if rule is None or self.counted == self._looked:
            return False
        self._looked = self.counted
        if rule.by == "dr":
            return self.gain_low() > rule.margin
        if self.counted < self._next_look:
            return False
        self._next_look = _LOOKS * self.counted
        found = self.bracket(policy)
        return found is not None and found.low > rule.margin

    def view(self, policy: Policy, contextual: bool) -> WatchView:
        """Return a view, in copies."""
        weighted = None
        if count := self.weighted:
            dr, ips = (self._in_units(one, self._weighted_slots, count) for one in (self._robust, self._plain))
            weighted = WeightedView(count, dr, ips, self._width * self._gain / count, self.gain_low())
        return WatchView(
            self.asked,
            len(self.waiting),
            self.alike / self.slots if self.slots else None,
            self._in_units(self._earned, self._counted_slots, self.counted) if self.counted else None,
            self.delta,
            None if contextual else self.bracket(policy),
            weighted,
            self.takeover,
            self.switch,
        )

    def _in_units(self, total: float, slots: int, count: int) -> float:
        """Return what decisions with so many slots earn each, in units of rewards, by their total on the unit scale."""
        return (slots * self._low + self._width * (slots - total if self._minimize else total)) / count

    def freeze(self) -> Callable[[], bytes]:
        """Return a function that packs everything as it is now, later and in another thread."""
        waiting = self.waiting.copy()
        saved = _Saved(
            [
                self.asked,
                self.alike,
                self.slots,
                self.counted,
                self.weighted,
                self._counted_slots,
                self._weighted_slots,
            ],
            [self._earned, self._robust, self._plain, self._gain],
            # Arms that no decision has shown, from either system, need no place.
            self._arms[:, : 1 + int(np.flatnonzero(self._arms[0]).max(initial=-1))].tobytes(),
            self._capital.tobytes(),
            self.switch,
            [],
        )

        def later() -> bytes:
            saved.waiting = list(log.pieces(waiting))
            return log.pack(saved)

        return later

    def restore(self, packed: bytes) -> None:
        """Take back what `freeze` packed."""
        saved = _SAVED.decode(packed)
        self.asked, self.alike, self.slots, self.counted, self.weighted, *slots = saved.numbers
        self._counted_slots, self._weighted_slots = slots
        self._earned, self._robust, self._plain, self._gain = saved.sums
        self._arms = np.frombuffer(saved.arms).reshape(3, -1).copy()
        self._capital = np.frombuffer(saved.capital).reshape(BETS.size).copy()
        self.switch = saved.switch
        for piece in saved.waiting:
            self.waiting.update(_PIECE.decode(piece))
        self._order.extend(self.waiting)
        self._grow(1 + max((arm for one in self.waiting.values() for arm in one.would), default=-1))
