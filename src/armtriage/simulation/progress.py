"""The progress bar that simulations, experiments and commands show on a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol


class Show(Protocol):
    """Shows how much is done of a total, with words before and after the bar."""

    def __call__(self, done: float, total: float = 1.0, before: str = "", after: str = "") -> None:
        """Show it."""


@contextmanager
def progress_bar() -> Iterator[Show]:
    """Yield what moves a bar on the standard error stream, if that is a terminal; at the end the bar goes away.

    Examples
    --------
    >>> with progress_bar() as show:
    ...     show(0.5, before="simulating")
    """
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.fields[after]}", markup=False),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=1.0, after="")

        def show(done: float, total: float = 1.0, before: str = "", after: str = "") -> None:
            bar.update(task, completed=done, total=total, description=before, after=after)

        yield show
