"""Policies inside the guarantee of elimination, with an account of what they can have lost."""

from armtriage.policies.guard.guard import Guard
from armtriage.policies.guard.guarded_index import GuardedIndex
from armtriage.policies.guard.guarded_thompson import GuardedThompson

__all__ = ["Guard", "GuardedIndex", "GuardedThompson"]
