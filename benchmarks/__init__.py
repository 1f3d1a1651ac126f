"""Yardsticks and the benchmark table."""
