"""The command line: parsing, and nothing that the library cannot do by itself."""

from typing import Annotated

import typer

from armtriage import __version__
from armtriage.cli.dashboard import dashboard
from armtriage.cli.demo import demo
from armtriage.cli.graph import graph
from armtriage.cli.log import certify, evaluate
from armtriage.cli.pages import report, reproduce
from armtriage.cli.plan import plan
from armtriage.cli.run import run
from armtriage.cli.serve import key, serve, store
from armtriage.cli.simulate import simulate
from armtriage.cli.warm import warm

__all__ = ["app", "main"]

app = typer.Typer(
    help="Combinatorial bandits: choose S of K arms each round.",
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
)
for _command in (demo, simulate, plan, run, report, graph, reproduce, certify, evaluate, warm, serve, dashboard):
    app.command(_command.__name__)(_command)
for _name, _group in (("key", key), ("store", store)):
    app.add_typer(_group, name=_name)


def main() -> None:
    """Run the command line."""
    app(prog_name="armtriage")


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"armtriage {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and stop.", is_eager=True, callback=_version)
    ] = False,
) -> None:
    pass
