"""A caller's functions that propose: the arguments they must take, and the record kept when they fail."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable
from typing import Any

from armtriage.kernels.record import Ints

_LOG = logging.getLogger("armtriage")


class Proposed:
    """The part of a guard that asks a function, and knows how often it failed."""

    _proposer: Any
    proposer_failures: int = 0
    """How often the function raised, or returned no decision, and the guard chose instead; it is not saved."""

    def _wanted(self, number: int, call: Callable[[], Ints], instead: Callable[[], Ints]) -> Ints:
        """Return the arms that the function wants or, if it fails, other ones.

        A failure is logged if it is the first, the second, the fourth, and so on: it may fail for ever.
        """
        if self._proposer is None:
            raise ValueError("proposer must be set again after load, since a function cannot be saved; got None")
        try:
            return call()
        except Exception as error:
            arms = instead()
            self.proposer_failures += 1
            if self.proposer_failures & (self.proposer_failures - 1) == 0:
                said = "proposer failed at decision %d, and the guard chose instead (failures so far: %d): %r"
                _LOG.warning(said, number, self.proposer_failures, error, exc_info=error)
            return arms


def check_takes(proposer: object, what: str) -> None:
    """Refuse a function that cannot be called with one argument."""
    if not callable(proposer):
        return
    try:
        parameters = inspect.signature(proposer).parameters.values()
    except (TypeError, ValueError):
        return
    if not any(one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD, one.VAR_POSITIONAL) for one in parameters):
        raise TypeError(f"proposer must take {what} as its argument, got {proposer!r}, which takes none")
