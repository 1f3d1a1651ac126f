"""Experiments: policies times environments times seeds, and the tables that come of them."""

import typing

if typing.TYPE_CHECKING:
    from armtriage.experiments.experiment import Experiment
    from armtriage.experiments.results import Results

__all__ = ["Experiment", "Results"]


def __getattr__(name: str) -> typing.Any:
    """Import them when they are first asked for: a process that plays cells needs neither."""
    if name == "Experiment":
        from armtriage.experiments.experiment import Experiment

        return Experiment
    if name == "Results":
        from armtriage.experiments.results import Results

        return Results
    raise AttributeError(f"module 'armtriage.experiments' has no attribute {name!r}")
