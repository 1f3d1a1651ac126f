"""The manifest of an experiment: which cells it names, and that nothing is lost on the way through its file."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from armtriage.experiments.folder import Folder
from armtriage.experiments.manifest import toml_text
from experiments.small_cells import First, environment, manifest, policy, two_arms


def test_cells_are_those_of_all_pairs_in_order() -> None:
    made = manifest().cells
    assert [(one.policy.label, one.first, one.count) for one in made] == [
        ("ours", 0, 4),
        ("ours", 4, 2),
        ("theirs", 0, 4),
        ("theirs", 4, 2),
    ]


@pytest.mark.parametrize("checkpoints", [10, (5, 60)])
def test_manifest_read_again_names_the_same_cells(checkpoints: int | tuple[int, ...], tmp_path: Path) -> None:
    own = environment("own", two_arms, budget=1, gap=0.1)
    made = manifest(environments=(own,), policies=(policy(policy=First),), pairs=((0, 0),), checkpoints=checkpoints)
    Folder(tmp_path).begin(made)
    again = Folder(tmp_path).manifest()
    assert [one.id for one in again.cells] == [one.id for one in made.cells]
    assert again.environments[0].instance == "experiments.small_cells:two_arms"
    assert again.policies[0].policy == "experiments.small_cells:First"
    assert again.to_json() == made.to_json()


@pytest.mark.parametrize(
    "definition",
    [
        {"horizon": [10, 20], "seed": 7, "policies": ["a", "b"], "environments": [{"instance": "x", "p": 0.5}]},
        {"environments": {"my label": {"instance": "x", "means": [[0.9, 0.1]]}, "b": "random:n_arms=5"}},
        {"name": 'quo"te \\ and ünicode\n', "redraw": False, "environments": [{"graph": {"family": "star", "n": 3}}]},
        {"policies": ["a long name of a policy, number " + str(i) for i in range(5)], "level": 1e-20},
        {"environments": ["text", {"instance": "x"}]},
    ],
)
def test_definitions_are_written_as_toml(definition: dict[str, Any]) -> None:
    read = tomllib.loads(toml_text(definition))
    assert read == definition
    labels = definition.get("environments")
    assert not isinstance(labels, dict) or list(read["environments"]) == list(labels)


def test_what_is_none_is_left_out_of_toml() -> None:
    assert tomllib.loads(toml_text({"seed": None, "a": [{"b": None, "c": 1}]})) == {"a": [{"c": 1}]}
