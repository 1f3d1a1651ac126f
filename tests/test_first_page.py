"""The page "Tutorial" is run as it stands: its commands, its code and what they print."""

from __future__ import annotations

import contextlib
import io
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).parents[1] / "docs" / "tutorial.md"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Terminal:
    """The second terminal, in which the service runs: on a free port, and later on the same one."""

    def __init__(self) -> None:
        self.server: subprocess.Popen[str] | None = None
        self.port = "0"

    def type(self, command: str) -> None:
        self.close()
        program, *arguments = command.split()
        assert program == "armtriage"
        line = [sys.executable, "-m", "armtriage", *arguments, "--port", self.port]
        self.server = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert self.server.stdout is not None
        found = re.search(r"http://127\.0\.0\.1:(\d+)", self.server.stdout.readline())
        assert found
        self.port = found[1]

    def close(self) -> None:
        if self.server is not None:
            self.server.send_signal(signal.SIGINT)
            self.server.communicate(timeout=60)


def test_the_tutorial_does_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    terminal, printed, kinds = Terminal(), "", []
    try:
        for kind, text in BLOCK.findall(PAGE.read_text(encoding="utf-8")):
            kinds.append(kind)
            if kind == "console" and not text.startswith("pip install"):
                terminal.type(text.strip())
            elif kind == "python":
                code = text.replace("127.0.0.1:8000", f"127.0.0.1:{terminal.port}")
                with contextlib.redirect_stdout(io.StringIO()) as out:
                    exec(compile(code, str(PAGE), "exec"), names)
                printed = out.getvalue()
            elif kind == "text":
                assert text.split() == printed.split()
    finally:
        if "client" in names:
            names["client"].close()
        terminal.close()
    assert (kinds.count("python"), kinds.count("console"), kinds.count("text")) == (8, 3, 8)
