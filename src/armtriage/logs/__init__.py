"""Logs: what was decided, with which probability, and what came of it. polars is imported when one is opened."""

from armtriage.logs.batch import Batch, Counts, Rows
from armtriage.logs.compare import LogComparison, compare
from armtriage.logs.evaluate import evaluate
from armtriage.logs.evaluation import Evaluation
from armtriage.logs.resampling import resampled_weights
from armtriage.logs.slate_log import SlateLog

__all__ = [
    "Batch",
    "Counts",
    "Evaluation",
    "LogComparison",
    "Rows",
    "SlateLog",
    "compare",
    "evaluate",
    "resampled_weights",
]
