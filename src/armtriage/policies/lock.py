"""One lock for each policy: calls from several threads take turns, and a fork waits until none is under way."""

from __future__ import annotations

import functools
import os
import threading
import weakref
from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

_locks: weakref.WeakSet[Any] = weakref.WeakSet()
_held: list[Any] = []
_PATIENCE = 5.0  # seconds: a proposer that forks while another thread waits for its policy would wait for ever


def new_lock() -> Any:
    """Return a lock that a thread may take several times, and that a forked process finds free."""
    lock = threading.RLock()
    _locks.add(lock)
    return lock


def locked(method: F) -> F:
    """Let a method of a policy have the policy's lock while it runs."""

    @functools.wraps(method)
    def alone(self: Any, *arguments: Any, **named: Any) -> Any:
        with self._lock:
            return method(self, *arguments, **named)

    return alone  # type: ignore[return-value]


def _take_all() -> None:
    _held.extend(lock for lock in list(_locks) if lock.acquire(timeout=_PATIENCE))


def _free_all() -> None:
    while _held:
        _held.pop().release()


if hasattr(os, "register_at_fork"):
    # The child has the forking thread only: a lock that another one held would never be free there, and what that one
    # was writing would stay half written.
    os.register_at_fork(before=_take_all, after_in_parent=_free_all, after_in_child=_free_all)
