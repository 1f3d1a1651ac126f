"""Grids: a list is a choice, a mapping is a choice for each of its keys."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import Any

__all__ = ["expand", "varied"]


def expand(value: Any) -> list[Any]:
    """Return all values that a grid stands for, the first key's changing last.

    An element of a list that is itself a list is one value.

    Examples
    --------
    >>> expand({"n_arms": [10, 20], "graph": ["star", {"family": "cliques", "size": [2, 5]}]})[2]
    {'n_arms': 10, 'graph': {'family': 'cliques', 'size': 5}}
    >>> expand({"means": [[0.9, 0.5]]})
    [{'means': [0.9, 0.5]}]
    """
    if isinstance(value, Mapping):
        return [dict(zip(value, chosen, strict=True)) for chosen in product(*map(expand, value.values()))]
    if isinstance(value, list | tuple):
        return [
            one for element in value for one in ([element] if isinstance(element, list | tuple) else expand(element))
        ]
    return [value]


def varied(members: list[dict[str, Any]]) -> list[str]:
    """Return the keys whose values differ among the members of a grid, or that some lack.

    Examples
    --------
    >>> varied([{"n_arms": 10, "budget": 2}, {"n_arms": 20, "budget": 2, "size": 5}])
    ['n_arms', 'size']
    """
    keys = dict.fromkeys(key for member in members for key in member)
    return [key for key in keys if any(key not in one or one[key] != members[0].get(key) for one in members)]
