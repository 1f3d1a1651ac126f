"""The command line as a whole."""

import re
import subprocess
import sys
import tomllib

import pytest
from typer.testing import CliRunner

from armtriage import Experiment, __version__
from armtriage.catalogue import DEFAULT_POLICIES
from armtriage.cli import app

COMMANDS = [
    "demo",
    "simulate",
    "plan",
    "run",
    "report",
    "graph",
    "reproduce",
    "certify",
    "evaluate",
    "warm",
    "serve",
    "dashboard",
    "key",
    "store",
]


def shown(*arguments: str) -> str:
    result = CliRunner().invoke(app, arguments, env={"COLUMNS": "80"})
    assert result.exit_code == 0, result.output
    return result.stdout


def test_version():
    result = CliRunner().invoke(app, ["--version"])
    assert (result.exit_code, result.stdout) == (0, f"armtriage {__version__}\n")


def test_commands_are_listed_in_the_order_a_newcomer_needs_them():
    text = shown("--help").partition("Commands:")[2]
    lines = re.findall(r"^  (\w+)  +(.*)$", text, re.M)
    assert [name for name, _ in lines] == COMMANDS
    for group in ((), ("key",), ("store",)):
        assert "...\n" not in shown(*group, "--help").partition("Commands:")[2], group


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_a_short_form_and_flags_take_no_value(command):
    text = shown(command, "-h")
    assert text == shown(command, "--help")
    assert "bool" not in text
    assert max(map(len, text.splitlines())) <= 80


def test_example_in_the_help_of_run_is_an_experiment():
    example = shown("run", "--help").partition("is played:\n\n")[2].partition("\n\n")[0]
    said = tomllib.loads(example)
    assert len(Experiment(**said).cells) == 2 * 3 * 4


def test_module_is_the_command():
    done = subprocess.run([sys.executable, "-m", "armtriage", "-h"], check=True, capture_output=True, text=True)
    assert done.stdout.startswith("Usage: armtriage [OPTIONS] COMMAND")


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("armtriage si", ["simulate"]),
        ("armtriage run --dr", ["--dry-run"]),
        ("armtriage simulate hidden_p", ["hidden_pairs", "hidden_parts"]),
        ("armtriage simulate random guarded_", ["guarded_thompson", "guarded_index", "guarded_linear"]),
        ("armtriage warm guarded_thompson kl", ["kl_ucb"]),
        ("armtriage run x.toml --engine p", ["processes"]),
        ("armtriage reproduce --engine r", ["ray"]),
        ("armtriage reproduce --only guarded", ["guarded", "guarded-sets"]),
    ],
)
def test_shells_complete_commands_options_and_values(typed, offered):
    asked = {"_ARMTRIAGE_COMPLETE": "complete_bash", "COMP_WORDS": typed, "COMP_CWORD": str(typed.count(" "))}
    done = CliRunner().invoke(app, [], prog_name="armtriage", env=asked)
    assert done.stdout.split() == offered


def test_the_help_of_simulate_names_the_policies_that_play_by_default():
    text = " ".join(shown("simulate", "-h").split())
    for kind in ("budget", "decisions", "contexts"):
        assert f"(by default {' '.join(DEFAULT_POLICIES[kind])})" in text


def test_start_up_imports_nothing_heavy():
    heavy = "polars", "pydantic", "matplotlib", "networkx", "ray"
    code = f"import sys, armtriage.cli; print([name for name in {heavy} if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout == "[]\n"
