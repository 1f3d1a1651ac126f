"""Decisions, and the sets that they may be taken from."""

from armtriage.decisions.decision import Decision

__all__ = ["Decision"]
