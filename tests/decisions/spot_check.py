"""Values of single arms in a set too large to list, each against a question of its own."""

from __future__ import annotations

import numpy as np
import pytest

from armtriage import DecisionSet


def spot_check(decisions: DecisionSet, weights: np.ndarray, seed: int, arms: int = 30) -> None:
    """Compare the values of some arms, half of them of the best decision, with one question each."""
    rng = np.random.default_rng(seed)
    best = decisions.maximise(weights)
    include, exclude = best[:2], rng.choice(np.setdiff1d(np.arange(decisions.n_arms), best), 2, replace=False)
    chosen = np.append(rng.choice(best, min(arms, best.size), replace=False), rng.choice(decisions.n_arms, arms))
    for forced in ({}, {"include": include, "exclude": exclude}):
        inside = decisions.maximise_each_including(weights, **forced)[chosen]
        outside = decisions.maximise_each_excluding(weights, **forced)[chosen]
        none = np.empty(0, np.int64)
        first, second = forced.get("include", none), forced.get("exclude", none)
        for arm, with_arm, without_arm in zip(chosen, inside, outside, strict=True):
            for found, value in (
                (decisions.maximise(weights, np.append(first, arm), second), with_arm),
                (decisions.maximise(weights, first, np.append(second, arm)), without_arm),
            ):
                assert value == pytest.approx(-np.inf if found is None else weights[found].sum(), rel=1e-12)
