"""The command line."""

from armtriage.cli.app import app, main

__all__ = ["app", "main"]
