"""A sweep that is killed, interrupted or split, and run again: the same files and tables as of one that never broke."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import polars
import pytest

from armtriage import Experiment, ExperimentError, Results
from armtriage.experiments import cells as cells_module
from armtriage.experiments import rehearsal
from armtriage.experiments.folder import Folder
from conftest import score
from experiments.small_cells import First, Moody, Raising, two_arms

HERE = str(Path(__file__).parents[1])
ENVIRONMENTS: dict[str, Any] = {
    "few": "random:n_arms=6,budget=2",
    "set": "assignment:left=3,right=3",
    "own": {"instance": two_arms, "gap": [0.1, 0.3], "budget": 1},
}
POLICIES: list[Any] = ["thompson", "comb_ucb1", {"policy": First, "label": "first"}]

pytestmark = pytest.mark.filterwarnings("ignore:.* is not compiled:UserWarning")


def sweep(**changes: Any) -> Experiment:
    """44 cells that take about a hundredth of a second each."""
    given = {"environments": ENVIRONMENTS, "policies": POLICIES, "horizon": 100, "replications": 8, "block": 2}
    return Experiment(**{**given, "seed": 5, "checkpoints": 12, **changes})


def files(folder: Path) -> dict[str, bytes]:
    return {one.name: one.read_bytes() for one in (folder / "cells").iterdir()}


def tables(folder: Path) -> list[polars.DataFrame]:
    """All that does not tell when and where it was played."""
    results = Results.load(folder)
    told = ("seconds", "rounds_per_second", "host", "engine", "started")
    return [
        results.regret,
        results.runs.drop(told),
        results.summary(baseline="first") if results.failed == 0 else results.runs,
    ]


def assert_same(folder: Path, other: Path) -> None:
    assert files(folder) == files(other)
    assert all(one.equals(two) for one, two in zip(tables(folder), tables(other), strict=True))


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("unbroken")
    results = sweep().run(folder, engine="serial")
    assert (results.missing, results.failed, results.stale) == (0, 0, 0)
    return folder


@pytest.fixture
def finished(tmp_path: Path, unbroken: Path) -> Path:
    """A copy of a sweep that is done, to be damaged or added to."""
    shutil.copytree(unbroken, tmp_path, dirs_exist_ok=True)
    return tmp_path


def test_sweep_has_enough_cells_to_be_broken(unbroken: Path) -> None:
    assert len(files(unbroken)) == len(sweep().cells) == 44


SWEEP = """
import sys
from experiments import test_resume
folder, engine, shard = sys.argv[1:]
shard = tuple(map(int, shard.split("/"))) if shard else None
test_resume.sweep().run(folder, engine=engine, workers=2, shard=shard, progress=lambda *_: print("cell", flush=True))
"""


def start(folder: Path, engine: str, shard: str = "") -> subprocess.Popen[str]:
    command = [sys.executable, "-W", "ignore", "-c", SWEEP, str(folder), engine, shard]
    return subprocess.Popen(command, cwd=HERE, stdout=subprocess.PIPE, text=True)


def kill_after(process: subprocess.Popen[str], cells: int) -> None:
    """Kill a sweep when it has finished that many cells; the next ones are somewhere in the middle."""
    assert process.stdout is not None
    for _ in range(cells + 1):
        assert process.stdout.readline() == "cell\n"
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert process.returncode == -signal.SIGKILL


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such signals")
@pytest.mark.parametrize(
    ("engine", "seed"),
    [
        *(pytest.param("threads", seed, marks=pytest.mark.long) for seed in (1, 2)),
        ("processes", 3),
        pytest.param("serial", 4, marks=pytest.mark.long),
    ],
)
def test_killed_sweep_goes_on_as_if_nothing_had_happened(
    engine: str, seed: int, tmp_path: Path, unbroken: Path
) -> None:
    moments = random.Random(seed)
    before: set[str] = set()
    for _ in range(2):
        kill_after(start(tmp_path, engine), moments.randint(0, 12))
        folder = Folder(tmp_path)
        # Warnings are errors: no file is damaged.
        there = folder.whole(sweep().cells)
        assert before <= there == folder.ids()
        before = there
    logs = set(tmp_path.glob("runs/*"))
    assert sweep().run(tmp_path, engine="threads", workers=2).missing == 0
    assert_same(tmp_path, unbroken)
    [last] = set(tmp_path.glob("runs/*")) - logs
    assert len(last.read_text(encoding="utf-8").splitlines()) == 44 - len(before)
    score("sweeps killed and run again", 2, "the bytes of one that was never killed")


def test_finished_sweep_is_not_played_again(finished: Path) -> None:
    before = {one: one.stat().st_mtime_ns for one in finished.rglob("*")}
    told: list[tuple[int, int, int]] = []
    sweep().run(finished, engine="serial", progress=lambda *counts: told.append(counts))
    assert told == [(44, 0, 44)]
    assert {one: one.stat().st_mtime_ns for one in finished.rglob("*")} == before


def test_damaged_and_removed_cells_are_played_again(finished: Path, unbroken: Path) -> None:
    first, second, *_ = sorted((finished / "cells").iterdir())
    first.write_bytes(first.read_bytes()[:-100])
    second.unlink()
    told: list[tuple[int, int, int]] = []
    with pytest.warns(UserWarning, match="1 damaged files count as missing"):
        sweep().run(finished, engine="serial", progress=lambda *counts: told.append(counts))
    assert [done for done, *_ in told] == [42, 43, 44]
    assert_same(finished, unbroken)


@pytest.mark.parametrize("engine", ["serial", "threads", "processes"])
def test_interrupted_sweep_keeps_what_is_finished(engine: str, tmp_path: Path, unbroken: Path) -> None:
    def interrupt(done: int, failed: int, total: int) -> None:
        if done == 9:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sweep().run(tmp_path, engine=engine, workers=2, progress=interrupt)
    assert len(Folder(tmp_path).whole(sweep().cells)) == 9
    sweep().run(tmp_path, engine=engine, workers=2)
    assert_same(tmp_path, unbroken)


FULL = """
import resource, sys
from experiments import test_resume
sweep = test_resume.sweep()
sweep.run()
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
sweep.run(sys.argv[1], engine="threads", workers=2)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such limits")
def test_sweep_on_a_full_disk_says_so_and_goes_on_later(tmp_path: Path, unbroken: Path) -> None:
    command = [sys.executable, "-W", "ignore", "-c", FULL, str(tmp_path)]
    done = subprocess.run(command, cwd=HERE, capture_output=True, text=True, timeout=300)
    safe = Folder(tmp_path).whole(sweep().cells)
    say = f"ExperimentError: cannot write to {tmp_path}: File too large; {len(safe)} finished cells are safe"
    assert say in done.stderr.splitlines()[-1]
    assert 0 < len(safe) < 44
    assert not [one for one in tmp_path.rglob("*") if one.name.startswith(".")]
    sweep().run(tmp_path, engine="serial")
    assert_same(tmp_path, unbroken)


def test_write_error_stops_the_sweep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(ExperimentError, match=r"cannot write to .*: Permission denied; 0 finished cells are safe"):
        sweep().run(tmp_path / "folder", engine="threads", workers=2)


def test_shards_side_by_side_fill_one_folder(tmp_path: Path, unbroken: Path) -> None:
    parts = [start(tmp_path, "serial", shard) for shard in ("1/3", "2/3", "3/3")]
    assert [part.wait(timeout=300) for part in parts] == [0, 0, 0]
    for part in parts:
        part.communicate()
    assert_same(tmp_path, unbroken)


def test_same_sweep_twice_at_a_time_does_no_harm(tmp_path: Path, unbroken: Path) -> None:
    twins = [start(tmp_path, engine) for engine in ("threads", "serial")]
    for twin in twins:
        twin.communicate(timeout=300)
    assert [twin.returncode for twin in twins] == [0, 0]
    assert_same(tmp_path, unbroken)


def test_three_threads_of_one_process_fill_one_folder(tmp_path: Path, unbroken: Path) -> None:
    made = [sweep() for _ in range(3)]
    with ThreadPoolExecutor(3) as threads:
        results = list(threads.map(lambda one: one.run(tmp_path, engine="serial"), made))
    assert [(one.missing, one.failed, one.stale) for one in results] == [(0, 0, 0)] * 3
    assert_same(tmp_path, unbroken)
    assert not [one for one in tmp_path.rglob("*") if one.name.startswith(".")]
    assert len(Folder(tmp_path).records()) >= 44


def test_tables_renamed_among_each_other_are_played_again(finished: Path, unbroken: Path) -> None:
    shutil.rmtree(finished / "runs")
    places = sorted((finished / "cells").iterdir())
    contents = [place.read_bytes() for place in places]
    for place, content in zip(places, contents[1:] + contents[:1], strict=True):
        place.write_bytes(content)
    with pytest.warns(UserWarning, match="44 damaged files count as missing"):
        sweep().run(finished, engine="serial")
    assert_same(finished, unbroken)


def test_shards_in_folders_of_their_own_are_merged_by_copying(tmp_path: Path, unbroken: Path) -> None:
    for number in (1, 2):
        sweep().run(tmp_path / str(number), engine="serial", shard=(number, 2))
    for one in (tmp_path / "2").rglob("*"):
        if one.is_file():
            one.replace(tmp_path / "1" / one.relative_to(tmp_path / "2"))
    assert_same(tmp_path / "1", unbroken)


@pytest.mark.parametrize(
    "changes",
    [
        {"policies": ["greedy", *POLICIES[::-1]]},
        {"environments": {"before": "random:n_arms=9,budget=3", **ENVIRONMENTS}},
        {"replications": 14},
        {"horizon": [60, 100]},
    ],
    ids=["policy", "environment", "replications", "horizon"],
)
def test_additions_leave_the_other_cells_as_they_are(changes: dict[str, Any], tmp_path: Path, unbroken: Path) -> None:
    sweep(**changes).run(tmp_path, engine="serial")
    old, new = files(unbroken), files(tmp_path)
    assert {name: new[name] for name in old} == old
    assert len(new) > len(old)


def test_additions_are_all_that_is_played_and_change_no_row(finished: Path, unbroken: Path) -> None:
    more, old = sweep(policies=[*POLICIES, "random"]), Results.load(unbroken).regret
    told: list[tuple[int, int, int]] = []
    results = more.run(finished, engine="serial", progress=lambda *counts: told.append(counts))
    assert told[0] == (44, 0, len(more.cells))
    assert (results.missing, results.stale) == (0, 0)
    assert results.regret.filter(polars.col("policy") != "random").select(old.columns).equals(old)
    back = sweep().run(finished, engine="serial")
    assert back.stale == len(more.cells) - 44
    assert back.regret.equals(old)


def test_other_code_makes_new_cells_and_no_mix(finished: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (cells_module, rehearsal):
        monkeypatch.setattr(module, "code_version", lambda: "another")
    results = sweep().run(finished, engine="serial")
    assert (results.missing, results.stale) == (0, 44)
    assert results.runs["code"].unique().to_list() == ["another"]


def test_failed_cells_keep_their_traceback_and_the_sweep_goes_on(tmp_path: Path) -> None:
    """In every engine: `test_engines.py` has that a failure does not stop the others."""
    policies = ["comb_ucb1", {"policy": Raising, "label": "bad"}]
    results = sweep(environments=["random:n_arms=6,budget=2"], policies=policies).run(tmp_path, engine="serial")
    assert (results.failed, results.missing) == (4, 0)
    errors = results.runs.filter(polars.col("policy") == "bad")["error"]
    assert len(errors) == 8
    assert all("ZeroDivisionError: no arm is good enough" in error for error in errors)
    assert results.regret["policy"].unique().to_list() == ["comb_ucb1"]


def test_failed_cells_are_tried_again(tmp_path: Path) -> None:
    mark = tmp_path / "better now"
    made = sweep(
        environments=["random:n_arms=6,budget=2"], policies=["comb_ucb1", {"policy": Moody, "mark": str(mark)}]
    )
    assert made.run(tmp_path / "folder", engine="serial").failed == 4
    mark.touch()
    told: list[tuple[int, int, int]] = []
    again = made.run(tmp_path / "folder", engine="serial", progress=lambda *counts: told.append(counts))
    assert (again.failed, again.missing) == (0, 0)
    assert told[0] == (4, 0, 8)
    assert again.runs["error"].null_count() == 16
