"""Instances: random ones, and those on which a policy must lose."""

from collections.abc import Callable, Mapping
from typing import Any

from armtriage.instances.constrained import hub_family, long_decisions, partition, star
from armtriage.instances.counterexamples import StageState, three_arms, two_hubs
from armtriage.instances.hard import (
    NOISES,
    gap_instance,
    hidden_arm,
    hidden_pairs,
    hidden_parts,
    revealing_hubs,
    ucb_failure,
)
from armtriage.instances.linear import linear_blocks, linear_few_dimensions, linear_one_dimension
from armtriage.instances.random import FAMILIES, GRAPHS, named, random_bernoulli, random_constrained, random_linear
from armtriage.instances.rewards import random_rates, random_rewards
from armtriage.instances.slates import random_slates

__all__ = [
    "BUILDERS",
    "FAMILIES",
    "GRAPHS",
    "NOISES",
    "StageState",
    "gap_instance",
    "hidden_arm",
    "hidden_pairs",
    "hidden_parts",
    "hub_family",
    "linear_blocks",
    "linear_few_dimensions",
    "linear_one_dimension",
    "long_decisions",
    "partition",
    "random_bernoulli",
    "random_constrained",
    "random_linear",
    "random_rates",
    "random_rewards",
    "random_slates",
    "revealing_hubs",
    "star",
    "three_arms",
    "two_hubs",
    "ucb_failure",
]

BUILDERS: Mapping[str, Mapping[str, Callable[..., Any]]] = {
    "budget": {
        "random": random_bernoulli,
        "rewards": random_rewards,
        "rates": random_rates,
        **named(ucb_failure, hidden_arm, hidden_pairs, hidden_parts, gap_instance, revealing_hubs),
    },
    "contexts": {
        "linear": random_linear,
        "slates": random_slates,
        **named(linear_blocks, linear_few_dimensions, linear_one_dimension),
    },
    "decisions": {**FAMILIES, **named(partition, long_decisions, hub_family, star)},
}
"""What builds an instance, by what a decision obeys or a round is given, and by its name."""
