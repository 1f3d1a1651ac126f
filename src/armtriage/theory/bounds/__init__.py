"""Bounds on regret: what a policy can lose at most, and what every policy loses at least."""

from armtriage.theory.bounds.bound import Bound
from armtriage.theory.bounds.constrained import constrained_lower, constrained_upper, oracle_upper
from armtriage.theory.bounds.for_environment import bounds_for, tie_gap
from armtriage.theory.bounds.graph import gap_upper, instance_upper, minimax_upper, ucb_full_information_upper
from armtriage.theory.bounds.linear import (
    guarded_by_arm_upper,
    guarded_linear_upper,
    linear_lower,
    linear_upper,
)
from armtriage.theory.bounds.lower import full_information_lower, gap_lower, minimax_lower, ucb_lower
from armtriage.theory.numbers import layer_size

__all__ = [
    "Bound",
    "bounds_for",
    "constrained_lower",
    "constrained_upper",
    "full_information_lower",
    "gap_lower",
    "gap_upper",
    "guarded_by_arm_upper",
    "guarded_linear_upper",
    "instance_upper",
    "layer_size",
    "linear_lower",
    "linear_upper",
    "minimax_lower",
    "minimax_upper",
    "oracle_upper",
    "tie_gap",
    "ucb_full_information_upper",
    "ucb_lower",
]
