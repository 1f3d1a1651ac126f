"""What the commands share: refusals, a progress bar, a word before the first compilation."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from armtriage._options import Refusal
from armtriage.errors import ExperimentError
from armtriage.kernels import jit

__all__ = ["cache_folder", "plain_warnings", "progress_bar", "refusing", "say", "say_if_cold", "stopping"]


@contextmanager
def refusing() -> Iterator[None]:
    """Turn refused input into its message and exit code 2."""
    try:
        yield
    except (Refusal, ValueError, TypeError, ImportError, OSError, MemoryError) as error:
        typer.echo(f"armtriage: {error}", err=True)
        raise typer.Exit(2) from error


@contextmanager
def stopping(kept: Callable[[], str]) -> Iterator[None]:
    """Turn Ctrl+C into what is kept and exit code 130, and the failure of an experiment into its message and 1."""
    try:
        yield
    except KeyboardInterrupt:
        typer.echo(f"armtriage: stopped; {kept()}", err=True)
        raise typer.Exit(130) from None
    except ExperimentError as error:
        typer.echo(f"armtriage: {error}", err=True)
        raise typer.Exit(1) from error


@contextmanager
def plain_warnings() -> Iterator[None]:
    """Print warnings as sentences, without where in the code they come from."""
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *_, **__: typer.echo(f"armtriage: {message}", err=True)
        yield


@contextmanager
def progress_bar() -> Iterator[Callable[[str, float], None]]:
    """Yield what shows a label and the share that is done, where there is a terminal."""
    console = Console(stderr=True)
    columns = TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn()
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=1.0)
        yield lambda label, share: bar.update(task, description=label, completed=share)


def cache_folder() -> Path | None:
    """Return where compiled kernels are kept; None if they are not compiled, or nowhere kept."""
    return Path(jit._CACHE) if jit.JIT and jit._CACHE else None


def say_if_cold() -> None:
    """Announce the compilation of the kernels, if there are none yet."""
    folder = cache_folder()
    if jit.JIT and not (folder and any(folder.iterdir())):
        typer.echo("Compiling the kernels; this happens once and may take a minute.", err=True)


def say(text: str) -> None:
    """Print a sentence as it is, however long."""
    Console().print(text, highlight=False, markup=False, soft_wrap=True)
