"""Where the guarded policy meets Thompson sampling, what is aimed at there, and the parts that are taken out of it."""

from __future__ import annotations

from typing import Any, NamedTuple

from armtriage.reproduce.study import Size

__all__ = ["AIMED", "FREE", "PARTS", "SIZES", "TARGETS", "Sizes", "places_of"]

AIMED = 100_000
"""The rounds that the targets are for."""
TARGETS = {
    "random means, semi-bandit": 1.05,
    "random means, 10 cliques": 1.0,
    "random means, random digraph": 1.0,
    "cliques of look-alikes": 1.1,
    "one gap, semi-bandit": 1.1,
    "one gap, cliques with one good arm each": 0.6,
    "bad hubs that reveal all, 100 arms": 0.5,
    "bad hubs that reveal all, 400 arms": 0.15,
}
"""How many times the regret of Thompson sampling is aimed at, at most, by the kind of instance."""
FREE = "unlimited budget"
"""The policy that the guard never stops."""
PARTS: dict[str, dict[str, Any]] = {
    "no free look": {"free_look": False},
    "no revealing": {"reveal": False},
    "a quarter of the budget": {"factor": 0.25},
    "shadow budget": {"mode": "shadow"},
}


class Sizes(NamedTuple):
    """The sizes of a study: instances, and rounds and runs of the short and the long ones."""

    look_alikes: tuple[int, ...]  # S
    gaps: tuple[float, ...]
    horizon: int
    runs: int
    long: int
    long_runs: int


SIZES: dict[Size, Sizes] = {
    "tiny": Sizes((2,), (0.2,), 300, 3, 1000, 3),
    "quick": Sizes((16,), (0.1, 0.2), 5000, 6, 100_000, 4),
    "full": Sizes((16, 32), (0.05, 0.1, 0.2), AIMED, 16, 1_000_000, 16),
}


def places_of(own: Sizes) -> dict[str, tuple[str, dict[str, Any]]]:
    """Return the kind of each instance, and how it is made, by label."""
    arms: dict[str, Any] = {"n_arms": 100, "budget": 10}
    graphs: tuple[dict[str, Any], ...] = (
        {"graph": "semi_bandit"},
        {"graph": "cliques", "size": 10},
        {"graph": "erdos_renyi", "p": 0.1},
    )
    kinds = list(TARGETS)
    made = {kind: (kind, {"instance": "random", **arms, **one}) for kind, one in zip(kinds, graphs, strict=False)}
    for budget in own.look_alikes:
        for noise in ("deterministic", "shared", "independent"):
            one = {"instance": "ucb_failure", "budget": budget, "alpha": budget, "noise": noise}
            made[f"look-alikes, S = {budget}, {noise}"] = kinds[3], one
    for gap in own.gaps:
        one = {"instance": "gap_instance", **arms, "gap": gap}
        made[f"gap {gap}, semi-bandit"] = kinds[4], one
        made[f"gap {gap}, cliques"] = kinds[5], {**one, "graph": "cliques", "size": 10, "spread": True}
    for kind, n_arms in zip(kinds[6:], (100, 400), strict=True):
        for hubs in (1, 4):
            for gap in own.gaps[-2:]:
                one = {"instance": "revealing_hubs", **arms, "n_arms": n_arms, "n_hubs": hubs, "gap": gap}
                made[f"{n_arms} arms, {'a hub' if hubs == 1 else f'{hubs} hubs'}, gap {gap}"] = kind, one
    return made
