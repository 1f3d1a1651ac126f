"""The command `warm`: kernels compiled ahead."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from armtriage import __version__
from armtriage.catalogue import POLICIES
from armtriage.cli import app
from armtriage.kernels.disk import cache_folder


def warm(*arguments):
    return CliRunner().invoke(app, ["warm", *arguments])


def test_every_policy_is_compiled_by_default():
    said = json.loads(warm("--json").stdout)
    assert [one["policy"] for one in said["policies"]] == list(POLICIES)
    assert all(one["seconds"] > 0 for one in said["policies"])


def test_named_policies_have_a_line_each_and_the_cache_is_named():
    result = warm("greedy", "c2ucb", "greedy")
    assert result.exit_code == 0, result.output
    greedy, c2ucb, last = result.stdout.splitlines()
    assert greedy.startswith("greedy: ")
    assert c2ucb.startswith("c2ucb: ")
    assert c2ucb.endswith(" s of CPU")
    assert last == f"The kernels are in {cache_folder()}"


def test_json_has_the_same_facts():
    said = json.loads(warm("greedy", "--json").stdout)
    assert (said["version"], [one["policy"] for one in said["policies"]]) == (__version__, ["greedy"])
    assert Path(said["cache"]).is_dir()


def test_an_unknown_policy_is_refused_before_anything_is_compiled():
    result = warm("greedy", "ucb9")
    assert result.exit_code == 2
    assert result.stdout == ""
    assert "unknown policy 'ucb9'; accepted are guarded_thompson, comb_ucb1" in result.stderr


_REHEARSED = """
from armtriage.service.state import PolicyState
from armtriage.service.rehearsal import rehearse
from armtriage.service.messages import Create, read
from armtriage.service.recipe import Recipe
made = read(Create, b'{"name": "a", "arms": ["tea", "milk", "jam"], "budget": 2, "policy": {"kind": "greedy"}}')
rehearse(PolicyState(Recipe(made)))
"""


@pytest.mark.long
def test_a_service_compiles_nothing_that_was_warmed(tmp_path):
    pytest.importorskip("msgspec")
    environment = os.environ | {"XDG_CACHE_HOME": str(tmp_path)}
    kept = []
    for command in (["-m", "armtriage", "warm", "greedy"], ["-c", _REHEARSED]):
        subprocess.run([sys.executable, *command], check=True, env=environment, timeout=600)
        kept.append(sorted(file.name for file in tmp_path.rglob("*.code")))
    assert kept[0]
    assert kept[1] == kept[0]
