"""Logs: what was decided, with which probability, and what came of it. polars is imported when one is opened."""

from armtriage.logs.batch import Batch, Counts, Rows
from armtriage.logs.slate_log import SlateLog

__all__ = ["Batch", "Counts", "Rows", "SlateLog"]
