"""Bounds on regret: what a policy can lose at most, and what every policy loses at least."""
