"""Write docs/command-line.md, the help of every command: ``python docs/command_line.py``."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from armtriage.cli import app

PAGE = Path(__file__).with_name("command-line.md")


def helps(command: Any, name: str, parent: Any = None) -> Iterator[tuple[str, str]]:
    """Yield the name and the help of a command and of all those below it."""
    settings = {**command.context_settings, "terminal_width": 80, "max_content_width": 80}
    context = command.context_class(command, info_name=name, parent=parent, **settings)
    yield context.command_path, command.get_help(context)
    for below, one in getattr(command, "commands", {}).items():
        yield from helps(one, below, context)


def text() -> str:
    """Return the page."""
    parts = ["# Command line\n\nWhat `armtriage -h` and `-h` of every command print.\n"]
    for name, said in helps(typer.main.get_command(app), "armtriage"):
        lines = "\n".join(line.rstrip() for line in said.strip().splitlines())
        parts.append(f"## {name}\n\n```text\n{lines}\n```\n")
    return "\n".join(parts)


if __name__ == "__main__":
    PAGE.write_text(text(), encoding="utf-8")
