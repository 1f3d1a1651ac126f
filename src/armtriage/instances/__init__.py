"""Instances: random ones, and those on which a policy must lose."""

from armtriage.instances.constrained import hub_family, partition, star
from armtriage.instances.families import FAMILIES, random_constrained
from armtriage.instances.graph import GRAPHS, NOISES, random_bernoulli, ucb_failure
from armtriage.instances.linear import linear_blocks, linear_few_dimensions, linear_one_dimension, random_linear

__all__ = [
    "FAMILIES",
    "GRAPHS",
    "NOISES",
    "hub_family",
    "linear_blocks",
    "linear_few_dimensions",
    "linear_one_dimension",
    "partition",
    "random_bernoulli",
    "random_constrained",
    "random_linear",
    "star",
    "ucb_failure",
]
