"""Policies that play what a draw from the posterior likes best."""

from armtriage.policies.sampling.thompson import ThompsonSampling

__all__ = ["ThompsonSampling"]
