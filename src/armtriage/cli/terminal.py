"""What the commands share: refusals, interruptions, warnings and a progress bar."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from armtriage import __version__
from armtriage.errors import ExperimentError, UnknownArm
from armtriage.simulation import progress

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


@contextmanager
def refusing() -> Iterator[None]:
    """Turn refused input into its message and exit code 2."""
    try:
        yield
    except (ValueError, TypeError, ImportError, OSError, MemoryError, UnknownArm) as error:
        text = f"{error.filename}: {error.strerror}" if isinstance(error, OSError) and error.filename else error
        typer.echo(f"armtriage: {text}", err=True)
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
    with progress.progress_bar() as show:
        yield lambda label, share: show(share, before=label)


def offering(values: Iterable[str]) -> Callable[[str], list[str]]:
    """Return what completes an argument in a shell, to one of some values."""
    known = list(values)

    def complete(incomplete: str) -> list[str]:
        return [one for one in known if one.startswith(incomplete)]

    return complete


def say(text: str) -> None:
    """Print a sentence as it is, however long."""
    Console().print(text, highlight=False, markup=False, soft_wrap=True)


def print_rows(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table whose first column has words, and the others numbers."""
    table = Table()
    for place, column in enumerate(columns):
        table.add_column(column, justify="right" if place else "left")
    for row in rows:
        table.add_row(*row)
    Console().print(table)


def print_json(facts: Mapping[str, Any]) -> None:
    """Print facts for programs, after the version that found them."""
    typer.echo(json.dumps({"version": __version__, **facts}, indent=2))
