"""Slates as they come up in practice: contexts that are uneven, sparse, repeated or slowly moving, and clicks."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from armtriage._arguments import LONGEST, check_choice, check_count
from armtriage.environments import LinearEnvironment
from armtriage.instances.random import named
from armtriage.kernels.random import check_seed
from armtriage.kernels.record import Floats

_POOL = 8192  # rows that the arms of a round are drawn from
_FEW = 40
_RATE = 0.02  # of clicks, on average


def random_slates(
    family: str, n_arms: int, dimension: int, *, horizon: int = 10_000, seed: int | None = None
) -> LinearEnvironment:
    """Return arms with contexts of a kind that is met in practice, and a random theta.

    Parameters
    ----------
    family : str
        How contexts arise. ``"cube"``: new each round, uniform. ``"anisotropic"``: an intercept, and coordinates that
        matter less and less. ``"user_item"``: products of the numbers of one user a round with those of fixed items.
        ``"fixed"``: the same in every round. ``"few"``: some of 40 directions. ``"jittered"``: fixed, with a little
        noise each round. ``"drifting"``: all near one direction, which turns by half a circle in `horizon` rounds; arms
        share their noise. With clicks of 0 and 1: ``"one_hot"``: arms that teach nothing about each other, with rates
        from 0.1 to 0.5. ``"clicks"``: fixed, with rates around 0.02. ``"fresh_clicks"``: the same, new each round.
        ``"sparse"``: an intercept and two indicators, with rates around 0.3.
    n_arms, dimension : int
        K and d; for ``"one_hot"`` the same.
    horizon : int
        For ``"drifting"``, rounds until half a circle is full.
    seed : int, optional
        Fixes theta, the contexts and the rewards; None draws a fresh one.

    Examples
    --------
    >>> env = random_slates("sparse", 4, 6, seed=7)
    >>> env.contexts(0).round(2)[0]
    array([0.6 , 0.  , 0.  , 0.  , 0.57, 0.57])
    >>> env.reward_range
    (0.0, 1.0)
    """
    build = SLATES[check_choice("family", family, tuple(SLATES))]
    n_arms, dimension = check_count("n_arms", n_arms, 1), check_count("dimension", dimension, 1)
    horizon, seed = check_count("horizon", horizon, 1, LONGEST), check_seed(seed)
    if family == "one_hot" and n_arms != dimension:
        raise ValueError(f"n_arms must be dimension = {dimension} for one_hot, got {n_arms}")
    if family in ("sparse", "clicks", "fresh_clicks", "anisotropic") and dimension < 2:
        raise ValueError(f"dimension must be 2 or more for {family}, for an intercept and something else, got 1")
    given = build(np.random.default_rng(seed), n_arms, dimension, horizon, seed)
    return LinearEnvironment(given.pop("theta"), given.pop("contexts"), n_arms, seed=seed, **given)


def _unit(vectors: Floats) -> Floats:
    """Return vectors of norm 1, up to rounding."""
    return np.asarray(vectors / (np.linalg.norm(vectors, axis=-1, keepdims=True) * (1.0 + 1e-12)))


def _direction(rng: np.random.Generator, dimension: int) -> Floats:
    return _unit(rng.standard_normal(dimension))


def _random(seed: int, number: int, replication: int) -> np.random.Generator:
    return np.random.default_rng([seed, replication, number])


def _rows_of(pool: Floats, n_arms: int, seed: int) -> Callable[[int, int], Floats]:
    """Return contexts that are drawn from the rows of a pool in each round."""

    def contexts(number: int, replication: int) -> Floats:
        return pool[_random(seed, number, replication).integers(len(pool), size=n_arms)]

    return contexts


def _with_intercept(intercept: float, rest: Floats) -> Floats:
    scale = math.sqrt(1.0 - intercept**2)
    return np.hstack([np.full((len(rest), 1), intercept), scale * rest])


def _cube(rng: np.random.Generator, n_arms: int, dimension: int, horizon: int, seed: int) -> dict[str, Any]:
    return {"theta": _direction(rng, dimension), "contexts": "cube"}


def _anisotropic(rng: np.random.Generator, n_arms: int, dimension: int, horizon: int, seed: int) -> dict[str, Any]:
    theta = _direction(rng, dimension)
    rest = rng.standard_normal((_POOL, dimension - 1)) / np.arange(1, dimension)
    rest /= np.maximum(np.linalg.norm(rest, axis=1, keepdims=True), 1.0)
    return {"theta": theta, "contexts": _rows_of(_with_intercept(0.5, rest), n_arms, seed)}


def _user_item(rng: np.random.Generator, n_arms: int, dimension: int, horizon: int, seed: int) -> dict[str, Any]:
    size = next(one for one in range(math.isqrt(dimension), 0, -1) if dimension % one == 0)
    theta, items = _direction(rng, dimension), _unit(rng.standard_normal((n_arms, size)))

    def contexts(number: int, replication: int) -> Floats:
        user = _direction(_random(seed, number, replication), dimension // size)
        return np.asarray(np.einsum("p,kq->kpq", user, items).reshape(n_arms, dimension))

    return {"theta": theta, "contexts": contexts}


def _fixed(rng: np.random.Generator, n_arms: int, dimension: int, horizon: int, seed: int) -> dict[str, Any]:
    return {"theta": _direction(rng, dimension), "contexts": _unit(rng.standard_normal((n_arms, dimension)))}


def _few(rng: np.random.Generator, n_arms: int, dimension: int, horizon: int, seed: int) -> dict[str, Any]:
    pool = _unit(rng.standard_normal((_FEW, dimension)))
    return {"theta": _direction(rng, dimension), "contexts": _rows_of(pool, n_arms, seed)}


def _jittered(rng: np.random.Generator, n_arms: int, dimension: int, horizon: int, seed: int) -> dict[str, Any]:
    theta, fixed = _direction(rng, dimension), 0.9 * _unit(rng.standard_normal((n_arms, dimension)))

    def contexts(number: int, replication: int) -> Floats:
        noise = _random(seed, number, replication).standard_normal(fixed.shape)
        rows = fixed + 0.2 / math.sqrt(dimension) * noise
        return np.asarray(rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1.0))

    return {"theta": theta, "contexts": contexts}


def _drifting(rng: np.random.Generator, n_arms: int, dimension: int, horizon: int, seed: int) -> dict[str, Any]:
    theta = _direction(rng, dimension)

    def contexts(number: int, replication: int) -> Floats:
        rows = 0.3 * _random(seed, number, replication).standard_normal((n_arms, dimension))
        angle = math.pi * number / horizon
        rows[:, 0] += math.cos(angle)
        rows[:, -1] += math.sin(angle)
        return _unit(rows)

    return {"theta": theta, "contexts": contexts, "noise": "shared"}


def _one_hot(rng: np.random.Generator, n_arms: int, dimension: int, horizon: int, seed: int) -> dict[str, Any]:
    longest = max(1.0, 0.5 * math.sqrt(dimension))
    clicks = {"reward": "bernoulli", "norm_bound": longest}
    return {"theta": rng.uniform(0.1, 0.5, dimension), "contexts": np.eye(dimension), **clicks}


def _clicks(
    rng: np.random.Generator, n_arms: int, dimension: int, horizon: int, seed: int, fresh: bool = False
) -> dict[str, Any]:
    theta = np.append(_RATE / 0.7, 0.036 * _direction(rng, dimension - 1))
    rest = rng.standard_normal((_POOL if fresh else n_arms, dimension - 1))
    if fresh:
        rest /= np.arange(1, dimension) ** 0.3
    rows = _with_intercept(0.7, _unit(rest))
    return {"theta": theta, "contexts": _rows_of(rows, n_arms, seed) if fresh else rows, "reward": "bernoulli"}


def _sparse(rng: np.random.Generator, n_arms: int, dimension: int, horizon: int, seed: int) -> dict[str, Any]:
    effects = rng.standard_normal(dimension - 1) * (rng.random(dimension - 1) < 0.3)
    theta = np.append(0.5, 0.35 * effects / max(float(np.abs(effects).max()), 1e-9))
    height = math.sqrt((1.0 - 0.6**2) / 2.0)

    def contexts(number: int, replication: int) -> Floats:
        places = _random(seed, number, replication).integers(1, dimension, (n_arms, 2))
        rows = np.zeros((n_arms, dimension))
        rows[:, 0] = 0.6
        rows[np.arange(n_arms)[:, None], places] = height
        return rows

    longest = max(1.0, float(np.linalg.norm(theta)))
    return {"theta": theta, "contexts": contexts, "reward": "bernoulli", "norm_bound": longest}


SLATES: Mapping[str, Callable[..., dict[str, Any]]] = {
    **named(_cube, _anisotropic, _user_item, _fixed, _few, _jittered, _drifting, _one_hot, _clicks),
    "fresh_clicks": partial(_clicks, fresh=True),
    **named(_sparse),
}
"""The families by name."""
