"""Places at which the fault tests let the service die, to show that nothing is ever stored by half."""

from __future__ import annotations

import os

POINTS = (
    "before-begin",
    "after-begin",
    "after-insert",
    "after-commit",
    "before-answer",
    "after-apply",
    "before-snapshot",
    "after-snapshot",
)
"""In the order of a request: the writer's transaction, the answer, and between them the policy's own step."""

_AT, _, _COUNT = os.environ.get("ARMTRIAGE_CRASH_AT", "").partition(":")
_left = int(_COUNT or 1)


def point(name: str) -> None:
    """End the process at once, the n-th time, if the environment names this place as ``ARMTRIAGE_CRASH_AT=NAME:n``."""
    global _left
    if name == _AT:
        _left -= 1
        if _left <= 0:
            os._exit(137)
