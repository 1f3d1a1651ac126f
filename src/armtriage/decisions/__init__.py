"""Decisions, and the sets that they may be taken from."""

from collections.abc import Mapping
from types import MappingProxyType

from armtriage.decisions.constraints import Constraints, Knapsack
from armtriage.decisions.decision import ArmSet, Decision, pack_sets, unpack_sets
from armtriage.decisions.explicit import Explicit
from armtriage.decisions.floor import Falling, Floored, as_floor, check_floor, floor_at, swap, swaps_of
from armtriage.decisions.matchings import Matchings
from armtriage.decisions.paths import Paths
from armtriage.decisions.sets import DecisionSet
from armtriage.decisions.slates import PartitionMatroid, TopS
from armtriage.decisions.trees import SpanningTrees

__all__ = [
    "SETS",
    "ArmSet",
    "Constraints",
    "Decision",
    "DecisionSet",
    "Explicit",
    "Falling",
    "Floored",
    "Knapsack",
    "Matchings",
    "PartitionMatroid",
    "Paths",
    "SpanningTrees",
    "TopS",
    "as_floor",
    "check_floor",
    "floor_at",
    "pack_sets",
    "swap",
    "swaps_of",
    "unpack_sets",
]

SETS: Mapping[str, type[DecisionSet]] = MappingProxyType(
    {
        "partition": PartitionMatroid,
        "matchings": Matchings,
        "spanning_trees": SpanningTrees,
        "paths": Paths,
        "knapsack": Knapsack,
        "explicit": Explicit,
    }
)
"""The families that are asked for by name."""
