"""What the commands share: refusals, a progress bar, a word before the first compilation."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import typer
from rich.console import Console

from armtriage.kernels import jit as _jit
from armtriage.simulation import progress

__all__ = ["plain_warnings", "progress_bar", "refusing", "say", "say_if_cold"]


@contextmanager
def refusing() -> Iterator[None]:
    """Turn refused input into its message and exit code 2."""
    try:
        yield
    except (ValueError, TypeError, ImportError, OSError, MemoryError) as error:
        typer.echo(f"armtriage: {error}", err=True)
        raise typer.Exit(2) from error


@contextmanager
def plain_warnings() -> Iterator[None]:
    """Print warnings as sentences, without where in the code they come from."""
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *_, **__: typer.echo(f"armtriage: {message}", err=True)
        yield


@contextmanager
def progress_bar() -> Iterator[Callable[[str, float], None]]:
    """Yield what shows a label and the share that is done, where there is a terminal."""
    with progress.progress_bar() as show:
        yield lambda label, share: show(share, before=label)


def say_if_cold() -> None:
    """Announce the compilation of the kernels, if there are none yet."""
    if _jit.JIT and not (_jit._CACHE and any(Path(_jit._CACHE).iterdir())):
        typer.echo("Compiling the kernels; this happens once and may take a minute.", err=True)


def say(text: str) -> None:
    """Print a sentence as it is, however long."""
    Console().print(text, highlight=False, markup=False, soft_wrap=True)
