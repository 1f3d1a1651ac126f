"""The page "From question to figure" is run as it stands: its file, its commands, its code and what they print."""

import contextlib
import io
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from armtriage.cli import app

PAGE = Path(__file__).parents[1] / "docs" / "from-question-to-figure.md"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def _run(command: str) -> str:
    program, *arguments = command.removeprefix("$ ").split()
    assert program == "armtriage"
    outcome = CliRunner().invoke(app, arguments, env={"COLUMNS": "100"})
    assert outcome.exit_code == 0, outcome.output
    return outcome.output


def test_the_tutorial_does_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    printed = ""
    kinds = []
    for kind, text in BLOCK.findall(PAGE.read_text(encoding="utf-8")):
        kinds.append(kind)
        if kind == "toml":
            Path("families.toml").write_text(text, encoding="utf-8")
        elif kind == "console":
            printed = _run(text.strip())
        elif kind == "python":
            with contextlib.redirect_stdout(io.StringIO()) as out:
                exec(compile(text, str(PAGE), "exec"), names)
            printed = out.getvalue()
        else:
            assert kind == "text"
            assert text.strip()
            assert text.strip() in printed
    assert kinds.count("python") == 4
    assert kinds.count("console") == 3
    for made in ("families.pdf", "families.png", "curves.png", "families/report.html"):
        assert Path(made).stat().st_size > 1000
