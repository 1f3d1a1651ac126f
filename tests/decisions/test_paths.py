"""Paths are found exactly, and malformed networks are refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from armtriage import Paths
from decisions.spot_check import spot_check


def layered_edges(layers: int, width: int) -> np.ndarray:
    """All edges from each layer to the next, between a source and a target."""
    inner = [
        (1 + i * width + a, 1 + (i + 1) * width + b)
        for i in range(layers - 1)
        for a in range(width)
        for b in range(width)
    ]
    last = layers * width
    return np.array(
        [(0, 1 + a) for a in range(width)] + inner + [(last - width + 1 + a, last + 1) for a in range(width)],
        dtype=np.int64,
    )


def test_a_path_through_five_thousand_edges() -> None:
    edges = layered_edges(50, 10)
    weights = np.random.default_rng(6).normal(size=len(edges))
    routes = Paths(502, edges, 0, 501)
    assert len(edges) > 4900
    layer = np.zeros(1)
    for step in (weights[:10].reshape(1, 10), *weights[10:-10].reshape(49, 10, 10), weights[-10:].reshape(10, 1)):
        layer = (layer[:, None] + step).max(axis=0)
    assert weights[routes.maximise(weights)].sum() == pytest.approx(layer[0])
    spot_check(routes, weights, 6)


def test_the_count_of_paths_through_layers() -> None:
    assert Paths(402, layered_edges(20, 20), 0, 401).count() == 20**20


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: Paths(3, [(0, 1), (1, 2), (2, 1)], 0, 2),
            "edges must have no cycle, got one through some of nodes 1, 2",
        ),
        (lambda: Paths(3, [(0, 1), (2, 2)], 0, 1), "edges must have no cycle, got one through some of nodes 2"),
        (lambda: Paths(3, [(0, 1)], 0, 2), "edges must lead from source 0 to target 2, got no such path"),
        (lambda: Paths(3, [(0, 1)], 1, 1), "target must differ from source, got 1 for both"),
        (lambda: Paths(3, [(0, 1)], 0, 3), "target must be at most 2, got 3"),
    ],
)
def test_malformed_families_are_refused(make: Callable[[], Any], message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        make()
