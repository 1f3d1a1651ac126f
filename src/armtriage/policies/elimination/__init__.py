"""Algorithm 1 of the paper: confirm, explore evenly, eliminate."""

from armtriage.policies.elimination.elimination import CombinatorialElimination

__all__ = ["CombinatorialElimination"]
