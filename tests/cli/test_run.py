"""The command `run`: an experiment from a file, what is left of it, and what is refused."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from armtriage import Experiment, Results, cli

SMALL = "random:n_arms=6,budget=2"

pytestmark = pytest.mark.filterwarnings("ignore:.* is not compiled:UserWarning")


def run(*arguments: Any) -> Any:
    engine = () if "--engine" in arguments else ("--engine", "serial")
    return CliRunner().invoke(cli.app, ["run", *map(str, arguments), *engine])


@pytest.fixture
def file(tmp_path: Path) -> Path:
    place = tmp_path / "small.toml"
    place.write_text(
        'horizon = [30, 40]\nreplications = 4\nblock = 2\nseed = 7\npolicies = ["greedy", "thompson", "c2ucb"]\n'
        '[[environments]]\ninstance = "random"\nn_arms = [4, 5]\nbudget = 2\n'
        '[[environments]]\nlabel = "with contexts"\ninstance = "linear"\nn_arms = 4\ndimension = 2\nbudget = 1\n'
        '[[environments]]\ninstance = "assignment"\nleft = 2\nright = 2\n'
    )
    return place


CELLS = 2 * (4 * 2 + 2 + 2)


def test_command_plays_a_file_and_prints_the_summary(file: Path) -> None:
    result = run(file)
    assert result.exit_code == 0, result.output
    words = re.sub(r"[│\s]+", " ", result.stdout)
    assert all(f" {name} " in words for name in ("greedy", "thompson", "c2ucb", "mean regret", "95% interval"))
    summary = Results.load(file.with_suffix("")).summary()
    assert result.stdout.count(" to ") == summary.height == CELLS // 2
    assert "seed 7" in result.stdout
    assert f"{CELLS} cells, seed 7" in result.stderr


def test_dry_run_plays_nothing(file: Path, tmp_path: Path) -> None:
    result = run(file, "--dry-run")
    assert result.exit_code == 0, result.output
    assert [one.name for one in tmp_path.iterdir()] == [file.name]
    assert "│   greedy " in result.stdout
    assert f"{CELLS} cells, 0 done, {CELLS} missing; time on one processor:" in result.stdout
    said = json.loads(run(file, "--dry-run", "--json").stdout)
    assert (said["cells"], said["done"], said["missing"]) == (CELLS, 0, CELLS)
    assert sum(row["missing"] for row in said["rows"]) == CELLS
    assert set(said["rows"][0]) == {"environment", "policy", "cells", "done", "missing", "seconds"}


def test_json_is_the_summary(file: Path, tmp_path: Path) -> None:
    result = run(file, "--json", "--folder", tmp_path / "here", "--engine", "threads", "--workers", 2)
    assert result.exit_code == 0, result.output
    said = json.loads(result.stdout)
    assert said["summary"] == Experiment.from_file(file).run(engine="serial").summary().to_dicts()
    assert (said["name"], said["seed"], said["cells"]) == ("experiment", 7, CELLS)
    assert (said["missing"], said["failed"], said["stale"], said["errors"]) == (0, 0, 0, [])


def test_parts_of_a_queue_make_the_whole(file: Path, tmp_path: Path) -> None:
    first = run(file, "--shard", "1/2", "--json")
    assert 0 < json.loads(first.stdout)["missing"] < CELLS
    assert "cells are missing" in run(file, "--shard", "1/2").stdout
    assert json.loads(run(file, "--shard", "2/2", "--json").stdout)["missing"] == 0


def test_changed_file_leaves_old_cells_out(file: Path) -> None:
    run(file)
    file.write_text(file.read_text().replace("[4, 5]", "4"))
    assert "8 cells of other settings or other code are left out" in run(file).stdout


def failing(tmp_path: Path, policy: str, seed: str = "seed = 1") -> Path:
    file = tmp_path / "failing.toml"
    file.write_text(
        f'horizon = 20\nreplications = 2\nblock = 1\n{seed}\nenvironments = ["{SMALL}"]\n'
        f'policies = ["greedy", {{ policy = "{policy}" }}]\n'
    )
    return file


def test_failed_cells_are_told_and_end_with_1(tmp_path: Path) -> None:
    file = failing(tmp_path, "experiments.small_cells:Raising")
    result = run(file, "--code")
    assert result.exit_code == 1
    assert f"2 failed, such as Raising in {SMALL}: ZeroDivisionError: no arm is good enough" in result.stdout
    assert "2 cells failed; the next run tries them again" in result.stdout
    said = json.loads(run(file, "--json", "--code").stdout)
    assert said["failed"] == len(said["errors"]) == 2
    assert said["errors"][0]["error"].startswith("Traceback")


def test_interrupt_says_how_to_go_on(tmp_path: Path) -> None:
    file = failing(tmp_path, "experiments.small_cells:Impatient")
    result = run(file, "--code")
    assert result.exit_code == 130
    assert "stopped; 2 of 4 cells are done and kept in" in result.stderr
    assert "The same command goes on from there." in result.stderr
    assert Results.load(tmp_path / "failing").missing == 2


def test_seed_that_was_drawn_is_kept(tmp_path: Path) -> None:
    file = failing(tmp_path, "experiments.small_cells:First", seed="")
    seeds = {json.loads(run(file, "--json", "--code").stdout)["seed"] for _ in range(2)}
    assert len(seeds) == 1
    again = json.loads(run(file, "--json", "--code", "--folder", tmp_path / "other", "--seed", 5).stdout)
    assert again["seed"] == 5


def test_disk_that_is_full_ends_with_1(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "armtriage.experiments.folder.write_whole", lambda *_, **__: (_ for _ in ()).throw(OSError(28, "No space left"))
    )
    result = run(file)
    assert result.exit_code == 1
    assert "No space left" in result.stderr
    assert "Traceback" not in result.output


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--engine", "warp"], "engine must be one of auto, serial, threads, processes, ray, got 'warp'"),
        (["--shard", "3/2"], "--shard must be written I/N, with I from 1 to N, got '3/2'"),
        (["--shard", "two"], "--shard must be written I/N"),
        (["--seed", "-1"], "seed: must be a whole number from 0, or none, got -1"),
        (["--workers", "0"], "workers must be a whole number from 1, got 0"),
    ],
)
@pytest.mark.parametrize("dry", [(), ("--dry-run",)], ids=["played", "dry"])
def test_command_refuses(dry: tuple[str, ...], arguments: list[str], says: str, file: Path) -> None:
    result = run(file, *arguments, *dry)
    assert result.exit_code == 2
    assert says in result.stderr
    assert result.stdout == ""


def test_command_refuses_files(tmp_path: Path, file: Path) -> None:
    assert run(tmp_path / "none.toml").stderr == f"armtriage: {tmp_path / 'none.toml'}: No such file or directory\n"
    bare = tmp_path / "bare"
    bare.write_text(file.read_text())
    assert "--folder must be given for a file without an ending" in run(bare).stderr
    unseeded = failing(tmp_path, "experiments.small_cells:First", seed="")
    assert "--shard needs a seed" in run(unseeded, "--shard", "1/2").stderr
    file.write_text("horizon = \n")
    assert "is not a TOML file" in run(file).stderr
    file.write_text("horizon = 3\n")
    assert "2 problems" in run(file).stderr


def test_folder_of_another_experiment_is_refused(file: Path) -> None:
    run(file)
    file.write_text('name = "other"\n' + file.read_text())
    result = run(file)
    assert result.exit_code == 2
    assert "holds the experiment 'experiment', and this one is 'other'" in result.stderr


def naming_code(tmp_path: Path) -> tuple[Path, Path]:
    """Return a file that names code of every kind, and what is there once any of it was run."""
    mark = tmp_path / "run"
    (tmp_path / "lies_beside_run.py").write_text(f"open({str(mark)!r}, 'w').close()\n")
    file = tmp_path / "program.toml"
    file.write_text(
        f'horizon = 20\nreplications = 4\nseed = 1\npolicies = ["greedy", {{ policy = "lies_beside_run:Mine" }}]\n'
        f'[[environments]]\ninstance = "os:system"\ncommand = "touch {mark}"\n'
        '[[environments]]\ninstance = "random"\nn_arms = 4\nbudget = 2\n'
    )
    return file, mark


@pytest.mark.parametrize("flags", [(), ("--dry-run",)], ids=" ".join)
def test_code_is_not_run_unless_it_is_allowed(flags: tuple[str, ...], tmp_path: Path) -> None:
    file, mark = naming_code(tmp_path)
    before = list(sys.path)
    result = run(file, *flags)
    assert result.exit_code == 2
    assert "2 problems" in result.stderr
    assert "environments[0].instance: 'os:system' is code, which a file runs only if you say so" in result.stderr
    assert "policies[1].policy: 'lies_beside_run:Mine' is code" in result.stderr
    assert not mark.exists()
    assert (sys.path, "lies_beside_run" in sys.modules) == (before, False)


def test_dry_run_counts_the_cells_of_own_worlds_that_a_run_plays(tmp_path: Path) -> None:
    file = tmp_path / "own.toml"
    file.write_text(
        'horizon = 20\nreplications = 4\nblock = 2\nseed = 1\npolicies = ["greedy", "thompson"]\n'
        '[[environments]]\nlabel = "mine"\ninstance = "experiments.small_cells:two_arms"\n'
        "budget = 1\ngap = [0.1, 0.2]\n"
    )
    said = json.loads(run(file, "--dry-run", "--code", "--json").stdout)
    assert (said["cells"], said["done"], said["missing"]) == (8, 0, 8)
    assert json.loads(run(file, "--code", "--json").stdout)["cells"] == 8


def test_runs_that_are_all_alike_are_said_to_be(tmp_path: Path) -> None:
    file = tmp_path / "record.toml"
    file.write_text(
        'horizon = 6\nreplications = 4\nseed = 1\npolicies = ["comb_ucb1"]\n'
        '[[environments]]\ninstance = "experiments.small_cells:record"\nbudget = 1\n'
    )
    result = run(file, "--code")
    assert result.exit_code == 0, result.output
    assert " all runs alike " in result.stdout
    made = Results.load(file.with_suffix(""))
    assert repr(made).endswith(" all runs alike")
    [trace] = made.traces().values()
    assert repr(trace).endswith(" all runs alike")


@pytest.mark.parametrize("flags", [(), ("--dry-run",)], ids=["played", "dry"])
@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"replications": "1_000_000_000_000"}, "250,000,000,000 blocks of replications make"),
        ({"budget": f"{list(range(1000))}\nlow = {list(range(1000))}\nhigh = {list(range(1000))}"}, "1,000,000,001"),
        ({f"k{number}": "[1, 2]" for number in range(20_000)}, "about 10^6021 environments"),
    ],
)
def test_too_many_cells_are_refused_with_their_number(
    flags: tuple[str, ...], change: dict[str, str], says: str, tmp_path: Path
) -> None:
    said = {"replications": "4", "budget": "2", **change}
    file = tmp_path / "large.toml"
    file.write_text(
        f'horizon = 20\nreplications = {said.pop("replications")}\npolicies = ["greedy", "thompson"]\n'
        '[[environments]]\ninstance = "random"\nn_arms = 6\nbudget = 3\n'
        '[[environments]]\ninstance = "random"\nn_arms = 6\n' + "".join(f"{key} = {said[key]}\n" for key in said)
    )
    result = run(file, *flags)
    assert result.exit_code == 2
    assert says in result.stderr
    assert "more than 1,000,000; raise it if you mean them" in result.stderr


def test_number_of_cells_can_be_limited_by_flag_and_file(file: Path) -> None:
    most = f"make {CELLS} cells, more than {CELLS - 1}"
    assert most in run(file, "--max-cells", CELLS - 1).stderr
    file.write_text(f"max_cells = {CELLS - 1}\n" + file.read_text())
    assert most in run(file).stderr
    assert run(file, "--max-cells", CELLS, "--dry-run").exit_code == 0


@pytest.mark.filterwarnings("default:.*damaged:UserWarning")
def test_damaged_cells_are_told_in_a_sentence(file: Path) -> None:
    run(file)
    next((file.with_suffix("") / "cells").iterdir()).write_bytes(b"no")
    result = run(file)
    assert result.exit_code == 0
    assert re.search(r"^armtriage: 1 damaged files count as missing", result.stderr, re.M)
