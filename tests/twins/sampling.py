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
    """The Beta law that fits arms of wins, losses and rewards between, with two more of known, evenly spread means."""
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
    return fitted_around(known, [(1.0, 1.0)] * len(known), prior, (1.0, 1.0))


def fitted_around(
    known: list[tuple[float, float]],
    shapes: list[tuple[float, float]],
    prior: tuple[float, float],
    start: tuple[float, float],
) -> tuple[float, float]:
    """The a and b of which Beta(a u, b v), for the shape (u, v) of each arm, fit wins and losses.

    Two more arms are known to have means of the law that a and b start from. Newton's method in the logarithms of both
    parameters, from the last ones, until a step is below a hundredth.
    """
    w, m = np.array(known).reshape(-1, 2).T
    u, v = np.array(shapes).reshape(-1, 2).T
    logs = [psi(sum(start)) - psi(one) for one in start]
    x, y = np.log(prior)
    for _ in range(8):
        a, b = np.exp(x), np.exp(y)
        total, au, bv = a + b, a * u, b * v
        g = 2 * np.array([psi(total) - psi(a) - logs[0], psi(total) - psi(b) - logs[1]])
        h = 2 * (polygamma(1, total) - np.diag([polygamma(1, a), polygamma(1, b)]))
        rest = psi(au + bv) - psi(au + bv + w + m)
        g += np.array([(u * (psi(au + w) - psi(au) + rest)).sum(), (v * (psi(bv + m) - psi(bv) + rest)).sum()])
        curve = polygamma(1, au + bv) - polygamma(1, au + bv + w + m)
        h[0, 0] += (u * u * (polygamma(1, au + w) - polygamma(1, au) + curve)).sum()
        h[1, 1] += (v * v * (polygamma(1, bv + m) - polygamma(1, bv) + curve)).sum()
        h[0, 1] += (u * v * curve).sum()
        h[1, 0] = h[0, 1]
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
