"""Experiments: policies times environments times seeds, and the tables that come of them."""

from armtriage.experiments.experiment import Experiment
from armtriage.experiments.results import Results

__all__ = ["Experiment", "Results"]
