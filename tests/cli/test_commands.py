"""The command line as a whole."""

import subprocess
import sys

from typer.testing import CliRunner

from armtriage import __version__
from armtriage.cli import app


def test_version():
    result = CliRunner().invoke(app, ["--version"])
    assert (result.exit_code, result.stdout) == (0, f"armtriage {__version__}\n")


def test_every_command_is_listed():
    text = CliRunner().invoke(app, ["--help"]).stdout
    assert all(name in text for name in ("simulate", "run", "report", "reproduce", "graph", "demo", "warm"))


def test_start_up_imports_nothing_heavy():
    heavy = "polars", "pydantic", "matplotlib", "networkx", "ray"
    code = f"import sys, armtriage.cli; print([name for name in {heavy} if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout == "[]\n"
