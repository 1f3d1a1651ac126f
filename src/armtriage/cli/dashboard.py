"""The command `dashboard`: a policy in a file, as a page in a browser."""

from __future__ import annotations

import contextlib
import sys
import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from armtriage.cli.terminal import refusing, say


def dashboard(
    file: Annotated[Path, typer.Argument(help="What policy.save wrote.", metavar="POLICY_FILE")],
    port: Annotated[int, typer.Option(help="The port; 0 takes a free one.", min=0, max=65535)] = 0,
    show: Annotated[
        bool | None, typer.Option("--open/--no-open", help="Open a browser; by default where there is a terminal.")
    ] = None,
) -> None:
    """Show a saved policy in a browser, read only, until Ctrl+C.

    The page follows the file: when it is saved again, the numbers change. An example:

    armtriage dashboard slate.armtriage
    """
    with refusing():
        from armtriage.service.dashboard.saved import Saved, SavedServer

        server = SavedServer(Saved(file), port)
    address = f"http://127.0.0.1:{server.server_address[1]}/"
    say(f"{file.name} is shown at {address}; Ctrl+C stops it")
    if show if show is not None else sys.stdout.isatty():
        webbrowser.open(address)
    with contextlib.suppress(KeyboardInterrupt), server:
        server.serve_forever()
