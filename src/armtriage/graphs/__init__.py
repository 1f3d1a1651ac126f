"""Which arms a chosen arm reveals: feedback graphs, their compact layout, their files."""

from armtriage.graphs.feedback import FeedbackGraph, GraphArrays, reveal

__all__ = ["FeedbackGraph", "GraphArrays", "reveal"]
