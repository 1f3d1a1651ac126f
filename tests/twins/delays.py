"""The slow twin of `armtriage.policies.delays`: everything from the whole history, at every ask."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

AGES = [4**k for k in range(20)]


@dataclass
class Shown:
    """A decision: what it showed, what was told of it and when, and when it was closed, all by the number of asks."""

    number: int
    size: int
    waiting: set[int]
    told: list[tuple[int, float]] = field(default_factory=list)
    closed: int | None = None

    def gain(self, when: int) -> float:
        """What had been told before ask `when`."""
        return sum(reward for at, reward in self.told if at <= when)

    def loss(self, when: int) -> float:
        return sum(1.0 - reward for at, reward in self.told if at <= when)


class Delays:
    """What open decisions count for; from the first part of a decision, or the first default, on."""

    def __init__(self) -> None:
        self.decisions: dict[int, Shown] = {}
        self.asked, self.since, self.next_fit = 0, 0, 0
        self.first: int | None = None  # the ask from which on ages are passed
        self.active = False
        self.weights = [0.0] * (len(AGES) + 1)

    def begin(self, number: int, arms: Iterable[int]) -> None:
        self.asked = number + 1
        self.since += self.active
        self.decisions[number] = Shown(number, len(set(arms)), set(arms))

    def activate(self) -> None:
        if not self.active:
            self.active = True
            self.decisions = {n: one for n, one in self.decisions.items() if one.closed is None}
            for one in self.decisions.values():
                one.size = len(one.waiting)  # without arms that have begun again since

    def tell(self, number: int, rewards: Mapping[int, float]) -> None:
        one = self.decisions[number]
        one.told += [(self.asked, reward) for reward in rewards.values()]
        one.waiting -= rewards.keys()

    def close(self, number: int) -> None:
        if number in self.decisions:
            self.decisions[number].closed = self.asked

    def forget(self, arm: int) -> None:
        for one in self.decisions.values():
            one.waiting.discard(arm)

    def passes(self, one: Shown) -> list[int]:
        """The asks at which a decision has passed ages."""
        if self.first is None:
            return []
        end = self.asked if one.closed is None else one.closed - 1
        return [max(one.number + age, self.first) for age in AGES if max(one.number + age, self.first) <= end]

    def ask(self) -> dict[int, float]:
        """What each arm counts for at the next ask."""
        if not self.active:
            return {}
        if self.first is None:
            self.first = self.asked
        if self.since >= self.next_fit and any(one.closed is None for one in self.decisions.values()):
            self.next_fit = self.since + 1 + self.since // 8
            self.fit()
        unheard: dict[int, float] = {}
        for one in self.decisions.values():
            for arm in one.waiting if one.closed is None else ():
                unheard[arm] = unheard.get(arm, 0.0) + self.weights[len(self.passes(one))]
        return unheard

    def fit(self) -> None:
        rows = [(one, self.passes(one)) for one in self.decisions.values()]
        if not any(
            one.gain(times[-1] if one.closed is None else self.asked) for one, times in rows if times or one.closed
        ):
            self.weights = [0.0] * len(self.weights)
            return
        gains, losses = [1.0], [0.0]  # the shares of them by an age, the oldest first
        for k in range(len(AGES) - 1, -1, -1):
            came = gain = loss = shown = 0.0
            for one, times in rows:
                if k < len(times) or one.closed is not None:
                    end = times[k] if k < len(times) else self.asked
                    gain, loss, shown = gain + one.gain(end), loss + one.loss(end), shown + one.size
                    if k <= len(times):
                        came += one.gain(end) - (one.gain(times[k - 1]) if k else 0.0)
            missing = max(shown - gain / max(gains[-1], 1e-9), loss)
            losses.append(loss / max(missing, 1e-9))
            gains.append(gains[-1] * (1 - came / (gain + 1)))
        f1, f0 = gains[::-1], [0.0, *losses[:0:-1]]
        for k in range(len(self.weights)):
            high = min(k + 1, len(AGES))
            x, y = (f1[k] + f1[high]) / 2, (f0[k] + f0[high]) / 2
            self.weights[k] = round(min(1.0, max(0.0, x - y) / max(1 - y, 1e-9)) * 2**20) / 2**20
