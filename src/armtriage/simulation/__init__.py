"""Play a policy against a world, many times over, and keep what came of it."""

from armtriage.simulation.simulate import simulate
from armtriage.simulation.trace import Trace

__all__ = ["Trace", "simulate"]
