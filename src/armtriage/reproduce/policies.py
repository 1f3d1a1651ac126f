"""The policies of the studies, by the names that all tables and figures have."""

from __future__ import annotations

from typing import Any

TIGHT, REPAIRED, PAPER = "elimination, tight", "elimination, repaired", "elimination, as printed"
UCB, GREEDY, THOMPSON, GUARDED = "UCB", "greedy", "Thompson sampling", "guarded Thompson"
ORACLE, SHADOW = "elimination by oracle", "guarded Thompson, shadow"
POLICIES: dict[str, dict[str, Any]] = {
    GUARDED: {"policy": "guarded_thompson"},
    TIGHT: {"policy": "elimination"},
    PAPER: {"policy": "elimination", "variant": "paper"},
    UCB: {"policy": "ucb"},
    "CombUCB1": {"policy": "comb_ucb1"},
    "KL-UCB": {"policy": "kl_ucb"},
    THOMPSON: {"policy": "thompson"},
    GREEDY: {"policy": "greedy"},
    "random": {"policy": "random"},
}
"""Those under graph feedback, as experiments take them."""
ORDER = (TIGHT, PAPER, UCB, THOMPSON, GREEDY, GUARDED)
"""In which colours are given out, so that a policy looks the same in all figures."""


def chosen(*names: str) -> dict[str, dict[str, Any]]:
    """Return some of the policies, for an experiment.

    Examples
    --------
    >>> chosen(PAPER)
    {'elimination, as printed': {'policy': 'elimination', 'variant': 'paper'}}
    """
    return {name: POLICIES[name] for name in names}


def rules(policy: str) -> dict[str, Any]:
    """Return what the bounds must know of a variant of elimination.

    Examples
    --------
    >>> rules(TIGHT), rules(PAPER)
    ({}, {'benchmark': 'printed', 'interval': 'printed'})
    """
    return {"benchmark": "printed", "interval": "printed"} if policy == PAPER else {}
