"""The random numbers of policies, and the laws that they are drawn from."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.special import betaincinv, polygamma, psi

from armtriage.kernels.normal import normal
from armtriage.kernels.random import stream

GOLDEN, FIRST, SECOND = (
    np.uint64(0x9E3779B97F4A7C15),
    np.uint64(0xBF58476D1CE4E5B9),
    np.uint64(0x94D049BB133111EB),
)


def bits(start: np.uint64, columns: np.ndarray) -> np.ndarray:
    """SplitMix64 at many columns; arrays wrap around without a warning."""
    z = start + (columns.astype(np.uint64) + np.uint64(1)) * GOLDEN
    z = (z ^ (z >> np.uint64(30))) * FIRST
    z = (z ^ (z >> np.uint64(27))) * SECOND
    return z ^ (z >> np.uint64(31))


def word(start: int, column: int) -> int:
    """The same at one column, in numbers of Python, which is many times faster than an array of one."""
    top = (1 << 64) - 1
    z = (start + (column + 1) * int(GOLDEN)) & top
    z = ((z ^ (z >> 30)) * int(FIRST)) & top
    z = ((z ^ (z >> 27)) * int(SECOND)) & top
    return z ^ (z >> 31)


def unit(start: int, column: int) -> float:
    """A uniform number of [0, 1)."""
    return (word(start, column) >> 11) * 2.0**-53


class Luck:
    """The policy's random numbers in a replication: `uniforms(t, first, n)` are n columns of round t."""

    def __init__(self, seed: int, replication: int) -> None:
        own = int(stream(seed, "replication", replication) >> np.uint64(1)) if replication else seed
        self.start = stream(own, "policy")

    def uniforms(self, t: int, first: int, n: int) -> np.ndarray:
        row = np.uint64(word(int(self.start), t))
        return (bits(row, np.arange(first, first + n)) >> np.uint64(11)) * 2.0**-53

    def uniform(self, t: int, column: int) -> float:
        return unit(word(int(self.start), t), column)

    def coins(self, t: int, n: int) -> np.ndarray:
        """Return the columns before the first: a coin for each of n arms, the same however many arms there are."""
        return self.uniforms(t, -n, n)[::-1]


def gamma(start: np.uint64, column: int, shape: float) -> float:
    """Marsaglia and Tsang (2000), from a normal and a uniform number at a time."""
    d = shape - 1 / 3
    while True:
        x = float(normal(start, column))
        v = (1 + x / math.sqrt(9 * d)) ** 3
        u = 1 - unit(int(start), column + 1)
        if v > 0 and math.log(u) < x * x / 2 + d * (1 - v + math.log(v)):
            return d * v
        column += 4


class Posterior(NamedTuple):
    """A Beta law on [least, 1]."""

    least: float
    a: float
    b: float

    @property
    def mean(self) -> float:
        return self.least + (1 - self.least) * self.a / (self.a + self.b)

    def draw(self, u: float) -> float:
        return self.least + (1 - self.least) * float(betaincinv(self.a, self.b, u))


def posterior(
    wins: float, losses: float, between: float, prior: tuple[float, float] = (1.0, 1.0), weak: bool = False
) -> Posterior:
    """Coins have wins and losses; other rewards are those of the law on {x, 1} with their mean and variance.

    Where they are about, a learned prior is weak also for arms that nobody has seen.
    """
    if weak and wins + losses == 0:
        return Posterior(0.0, 1.0, max(1.0, prior[1] / prior[0]))
    if between <= 0 or losses <= 0:
        return Posterior(0.0, prior[0] + wins, prior[1] + losses)
    n = wins + losses
    x = min(between / (n - wins), wins / n)
    ones = min(max((wins - n * x) / (1 - x), 0.0), n)
    return Posterior(x, 1 + ones, max(1.0, prior[1] / prior[0]) + n - ones)


def fitted(arms: list[tuple[float, float, float]], prior: tuple[float, float]) -> tuple[float, float]:
    """The Beta law that fits arms of wins, losses and rewards between, with two more of known, evenly spread means.

    Newton's method in the logarithms of both parameters, from the last ones, until a step is below a hundredth.
    """
    known: list[tuple[float, float]] = []
    for wins, losses, between in arms:
        if wins + losses == 0:
            continue
        one = posterior(wins, losses, between)
        if one.least == 0.0:
            known.append((wins, losses))
        else:
            size = one.a + one.b
            variance = (1 - one.least) ** 2 * one.a * one.b / (size**2 * (size + 1))
            coins = max(one.mean * (1 - one.mean) / variance - 3, 0.0)
            known.append((coins * wins / (wins + losses), coins * losses / (wins + losses)))
    w, m = np.array(known).reshape(-1, 2).T
    x, y = np.log(prior)
    for _ in range(8):
        a, b = np.exp(x), np.exp(y)
        total = a + b
        g = 2 * np.array([psi(total) - psi(a) - 1, psi(total) - psi(b) - 1])
        h = 2 * (polygamma(1, total) - np.diag([polygamma(1, a), polygamma(1, b)]))
        g += np.array([(psi(a + w) - psi(a)).sum(), (psi(b + m) - psi(b)).sum()])
        g += (psi(total) - psi(total + w + m)).sum()
        own = [(polygamma(1, a + w) - polygamma(1, a)).sum(), (polygamma(1, b + m) - polygamma(1, b)).sum()]
        h += (polygamma(1, total) - polygamma(1, total + w + m)).sum() + np.diag(own)
        scale = np.array([a, b])
        g = g * scale
        h = h * np.outer(scale, scale) + np.diag(g)
        if h[0, 0] < 0 and h[1, 1] < 0 and np.linalg.det(h) > 1e-10 * h[0, 0] * h[1, 1]:
            step = -np.linalg.solve(h, g)
        else:
            step = g / (np.abs(h).sum(axis=1) + 1e-9)
        largest = np.abs(step).max()
        x, y = np.clip([x, y] + step / max(1.0, largest), 0.0, 9.0)
        if largest < 0.01:
            break
    return float(np.exp(x)), float(np.exp(y))


def beta(start: np.uint64, law: Posterior) -> float:
    """A number of a Beta law, by two Gamma numbers if both parameters are from 1, else by inversion."""
    if min(law.a, law.b) < 1:
        return float(betaincinv(law.a, law.b, unit(int(start), 0)))
    x, y = gamma(start, 0, law.a), gamma(start, 2, law.b)
    return x / (x + y)
