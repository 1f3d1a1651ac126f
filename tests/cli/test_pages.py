"""The commands `report` and `reproduce`."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import armtriage.reproduce
from armtriage import Experiment
from armtriage.cli import app
from armtriage.reproduce import STUDIES
from armtriage.reproduce import reproduce as run
from armtriage.reproduce.study import Finding
from report.pages import Reader


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("results") / "played"
    places = ["random:n_arms=6,budget=2", "linear:n_arms=8,dimension=3,budget=2,norm=0.5"]
    Experiment(places, ["greedy", "c2ucb"], horizon=100, replications=2, seed=7).run(folder)
    return folder


@pytest.fixture(autouse=True)
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures of experiments are not drawn."""
    monkeypatch.setattr("armtriage.report.experiment.plots.svg_text", lambda ax: "<svg></svg>")


def test_report_writes_a_page(played: Path, tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["report", str(played), "--baseline", "greedy"])
    assert done.exit_code == 0, done.output
    assert (played / "report.html").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert "report.html" in done.output
    other = tmp_path / "page.html"
    assert CliRunner().invoke(app, ["report", str(played), "--out", str(other)]).exit_code == 0
    assert Reader(other.read_text(encoding="utf-8")).text


@pytest.mark.parametrize("link", [Path.symlink_to, Path.hardlink_to])
def test_report_does_not_write_through_a_link_in_the_folder(played: Path, tmp_path: Path, link: Any) -> None:
    """The folder may come from somebody else, and the link lead to a file of ours."""
    mine = tmp_path / "mine.txt"
    mine.write_text("mine", encoding="utf-8")
    page = played / "report.html"
    page.unlink(missing_ok=True)
    link(page, mine)
    assert CliRunner().invoke(app, ["report", str(played)]).exit_code == 0
    assert mine.read_text(encoding="utf-8") == "mine"
    assert not page.is_symlink()
    assert page.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["nowhere"], "nowhere is no folder of an experiment"),
        (["{played}", "--baseline", "ucb"], "baseline must be one of greedy, c2ucb, got 'ucb'"),
        (["{played}", "--out", "{played}/no/where.html"], "There is no such folder"),
    ],
)
def test_report_refuses(played: Path, arguments: list[str], says: str) -> None:
    done = CliRunner().invoke(app, ["report", *(one.replace("{played}", str(played)) for one in arguments)])
    assert done.exit_code == 2
    assert says in done.output


def invoke(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> Any:
    """Run the command, in the tiny form in place of the quick one."""
    monkeypatch.setattr(armtriage.reproduce, "reproduce", lambda out, **given: run(out, **{**given, "size": "tiny"}))
    return CliRunner().invoke(app, ["reproduce", *arguments])


def test_command_prints_the_front_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = invoke(monkeypatch, "--out", str(tmp_path), "--only", "full-information")
    assert done.exit_code == 0, done.output
    assert "Full information" in done.stdout
    assert re.search(r"9 claims: \d+ agrees? with what was measured", done.stdout)
    assert (tmp_path / "index.html").is_file()


def test_command_prints_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = invoke(monkeypatch, "--out", str(tmp_path), "--only", "full-information", "--json")
    facts = json.loads(done.stdout)
    assert facts["page"] == str(tmp_path / "index.html")
    assert {"study", *Finding._fields} == set(facts["claims"][0])


def test_command_refuses_an_unknown_study(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["reproduce", "--out", str(tmp_path), "--only", "gaps"])
    assert done.exit_code == 2
    assert "only must be one of gap-rates, minimax-rates" in done.stderr


def test_help_names_the_studies() -> None:
    text = " ".join(CliRunner().invoke(app, ["reproduce", "--help"]).stdout.replace("│", " ").split())
    assert all(name in text for name in STUDIES)
