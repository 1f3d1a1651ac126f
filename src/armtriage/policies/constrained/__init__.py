"""Algorithm 5 of the paper and its repairs: elimination over a set of decisions."""

from armtriage.policies.constrained.constrained import ConstrainedElimination

__all__ = ["ConstrainedElimination"]
