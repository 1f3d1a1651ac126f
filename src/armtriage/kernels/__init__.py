"""Compiled numerics that know no bandit: compilation itself, random numbers, laws, orders, regressions."""
