"""The paper as code: the numbers of graphs that its bounds depend on, the bounds, and audits of its lemmas."""

from armtriage.theory.audit import Audit, Claim, audit
from armtriage.theory.bounds.bound import Bound
from armtriage.theory.bounds.constrained import constrained_lower, constrained_upper, oracle_upper
from armtriage.theory.bounds.for_environment import bounds_for, tie_gap
from armtriage.theory.bounds.graph import gap_upper, instance_upper, minimax_upper, ucb_full_information_upper
from armtriage.theory.bounds.linear import guarded_by_arm_upper, guarded_linear_upper, linear_lower, linear_upper
from armtriage.theory.bounds.lower import full_information_lower, gap_lower, minimax_lower, ucb_lower
from armtriage.theory.numbers import (
    Bracket,
    active_cover_number,
    chvatal_dominating_set,
    cover_number,
    domination_number,
    gap,
    greedy_dominating_set,
    independence_number,
    independent_set,
    layer_size,
)

__all__ = [
    "Audit",
    "Bound",
    "Bracket",
    "Claim",
    "active_cover_number",
    "audit",
    "bounds_for",
    "chvatal_dominating_set",
    "constrained_lower",
    "constrained_upper",
    "cover_number",
    "domination_number",
    "full_information_lower",
    "gap",
    "gap_lower",
    "gap_upper",
    "greedy_dominating_set",
    "guarded_by_arm_upper",
    "guarded_linear_upper",
    "independence_number",
    "independent_set",
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
