"""Engines: the same outcomes whatever plays the cells, and nothing left behind however it ends."""

from __future__ import annotations

import functools
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from armtriage import CombUCB1
from armtriage.errors import ExperimentError
from armtriage.experiments import engines
from armtriage.experiments.cells import Cell, Outcome
from armtriage.experiments.engines import ENGINES, run
from experiments.small_cells import (
    First,
    Killed,
    Loud,
    Meeting,
    Raising,
    Slow,
    cell,
    environment,
    numbers,
    outcome,
    played,
    policy,
    two_arms,
)

HERE = str(Path(__file__).parents[1])
LINEAR = environment("contexts", "linear", n_arms=6, dimension=3, budget=2)
SETS = environment("sets", "assignment", left=3, right=3)
OWN = environment("own", two_arms, budget=1, gap=0.3)

pytestmark = pytest.mark.filterwarnings("ignore:.* is not compiled:UserWarning")


def of_all_kinds() -> list[Cell]:
    pairs: list[tuple[Any, Any]] = [
        (environment(), policy()),
        (environment(), policy(policy="thompson")),
        (environment(), policy(policy=First)),
        (environment(), policy(policy=Raising)),
        (LINEAR, policy(policy="linear_thompson")),
        (SETS, policy(policy="constrained")),
        (SETS, policy(policy="thompson")),
        (OWN, policy(policy=CombUCB1)),
    ]
    made = [cell(environment=env, policy=one, first=first, count=2) for env, one in pairs for first in (0, 2)]
    return [
        *made,
        cell(redraw=True),
        cell(environment=environment(instance=functools.partial(two_arms, 0.1), budget=1)),
    ]


def tables(cells: list[Cell], engine: str, workers: int | None = 2) -> dict[str, bytes]:
    return {one.id: made.table for one, made in run(cells, engine, workers)}


@pytest.fixture(scope="module")
def expected() -> dict[str, bytes]:
    return {one.id: outcome(one).table for one in of_all_kinds()}


def test_tables_to_compare_with_are_there(expected: dict[str, bytes]) -> None:
    assert len(expected) == 18
    assert sorted(map(bool, expected.values())) == [False] * 2 + [True] * 16


@pytest.mark.parametrize(
    ("engine", "workers"),
    [("auto", 2), ("serial", 1), ("threads", 1), ("threads", 2), ("threads", 5), ("processes", 3)],
)
def test_engines_agree_byte_for_byte(engine: str, workers: int, expected: dict[str, bytes]) -> None:
    assert tables(of_all_kinds(), engine, workers) == expected


def test_order_of_the_cells_does_not_matter(expected: dict[str, bytes]) -> None:
    assert tables(of_all_kinds()[::-1], "threads") == expected


def signatures(engine: str, folder: Path) -> set[int]:
    """Return in which processes two cells are played that wait for each other."""
    meeting = policy(policy=Meeting, folder=str(folder))
    for _, made in run([cell(policy=meeting, first=first) for first in (0, 4)], engine, 2):
        assert made.record["error"] is None
        assert made.record["engine"] == engine
    return {int(one.name.split("-")[0]) for one in folder.iterdir()}


def test_threads_play_two_cells_at_a_time(tmp_path: Path) -> None:
    assert signatures("threads", tmp_path) == {os.getpid()}


def test_processes_play_two_cells_at_a_time(tmp_path: Path) -> None:
    processes = signatures("processes", tmp_path)
    assert len(processes) == 2
    assert os.getpid() not in processes


@pytest.mark.parametrize("engine", ["serial", "threads", "processes"])
def test_failure_does_not_stop_the_others_and_the_engine_is_in_the_record(engine: str) -> None:
    cells = [cell(policy=policy(policy=Raising)), *(cell(first=first) for first in (0, 4, 8))]
    made = {one.id: result for one, result in run(cells, engine, 2)}
    assert "ZeroDivisionError: no arm is good enough" in made[cells[0].id].record["error"]
    assert all(made[one.id].record["error"] is None for one in cells[1:])
    assert {result.record["engine"] for result in made.values()} == {engine}


@pytest.mark.parametrize("engine", [one for one in ENGINES if one != "ray"])
def test_no_cells_are_no_work(engine: str) -> None:
    assert list(run([], engine)) == []


@pytest.mark.parametrize("engine", ["gpu", "", None])
def test_unknown_engine_is_refused(engine: Any) -> None:
    with pytest.raises(ValueError, match="engine must be one of auto, serial, threads, processes, ray"):
        run([cell()], engine)


@pytest.mark.parametrize("workers", [0, -1])
def test_no_workers_are_refused(workers: int) -> None:
    with pytest.raises(ValueError, match="workers"):
        run([cell()], "threads", workers)


def chosen(*cells: Cell, workers: int = 2) -> str:
    return {made.record["engine"] for _, made in run(cells, "auto", workers)}.pop()


def test_threads_are_chosen_for_compiled_policies() -> None:
    assert chosen(cell(), cell(policy=policy(policy=CombUCB1))) == "threads"
    assert engines._best([cell(), cell(environment=LINEAR, policy=policy(policy="c2ucb"))]) == "threads"


def test_processes_are_chosen_for_what_holds_the_lock() -> None:
    python = cell(policy=policy(policy=First))
    assert chosen(cell(), python) == "processes"
    for one in (python, cell(environment=SETS), cell(environment=OWN)):
        assert engines._best([cell(), one]) == "processes"


def test_threads_are_chosen_for_what_cannot_be_sent() -> None:
    class Local(First):
        lock = threading.Lock()

    assert chosen(cell(), cell(policy=policy(policy=Local))) == "threads"


def test_nothing_is_started_for_one_cell_or_one_worker() -> None:
    assert chosen(cell()) == "serial"
    assert chosen(cell(), cell(first=4), workers=1) == "serial"


def test_few_cells_are_under_way_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    begun = []

    def play(one: Cell, stop: threading.Event) -> Outcome:
        begun.append(one.first)
        return Outcome(b"", {})

    monkeypatch.setattr(engines, "play", play)
    with closing(run([cell(first=first) for first in range(100)], "threads", 2)) as outcomes:
        for number in range(1, 50):
            next(outcomes)
            assert len(begun) < number + 2 * engines._IN_FLIGHT + 1


@pytest.mark.parametrize("engine", ["threads", "processes"])
def test_closing_ends_what_is_under_way(engine: str) -> None:
    before = threading.active_count()
    endless = [cell(environment=environment(horizon=10**13), first=first) for first in (0, 4)]
    with closing(run([cell(), *endless], engine, 2)) as outcomes:
        assert next(outcomes)[0].id == cell().id
    # A thread of loky may take a moment to come to its end.
    assert until(lambda: threading.active_count() == before)


def test_error_in_a_thread_comes_through(monkeypatch: pytest.MonkeyPatch) -> None:
    def play(one: Cell, stop: threading.Event) -> Outcome:
        raise MemoryError("no more")

    monkeypatch.setattr(engines, "play", play)
    with pytest.raises(MemoryError, match="no more"):
        list(run([cell(), cell(first=4)], "threads", 2))


def test_cell_whose_process_died_is_played_again_and_fails_alone_if_it_dies_twice(tmp_path: Path) -> None:
    always, once = policy(policy=Killed), policy(policy=Killed, mark=str(tmp_path / "mark"))
    cells = [cell(policy=always), cell(policy=once), *(cell(first=first) for first in range(0, 16, 4))]
    made = {one.id: result for one, result in run(cells, "processes", 2)}
    assert "was ended by signal 9, Killed: out of memory?, twice" in made[cells[0].id].record["error"]
    assert made[cells[1].id].record["error"] is None
    assert [made[one.id].table for one in cells[1:]] == [outcome(one).table for one in cells[1:]]


def test_what_users_read_and_print_harms_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    one = cell(policy=policy(policy=Loud), count=1)
    made = numbers(one, tables([one, cell()], "processes")[one.id])
    assert made.equals(played(cell(policy=policy(policy=First), count=1)))


def test_what_cannot_be_sent_is_refused() -> None:
    class Local(First):
        lock = threading.Lock()

    with pytest.raises(TypeError, match=r"cannot send .*Local.* to another process .*lock.*: use engine 'threads'"):
        run([cell(policy=policy(policy=Local))], "processes")


def test_processes_play_what_is_defined_anywhere() -> None:
    class Local(First):
        pass

    one = cell(policy=policy(policy=Local))
    assert numbers(one, tables([one], "processes")[one.id]).equals(played(cell(policy=policy(policy=First))))


def test_what_cannot_be_found_in_the_process_is_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "passing.py").write_text("from experiments.small_cells import First\nclass Gone(First):\n    pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    import passing  # type: ignore[import-not-found]

    one = cell(policy=policy(policy=passing.Gone))
    (tmp_path / "passing.py").write_text("")
    [(_, made)] = run([one], "processes")
    assert "Can't get attribute 'Gone'" in made.record["error"]


SCRIPT = """
from contextlib import closing
import sys
sys.path.insert(0, {here!r})
from experiments.small_cells import *
from armtriage.experiments.engines import run

class Mine(First):
    pass

def main():
    for cell_, made in run([cell(first=first, policy=policy(policy=Mine)) for first in (0, 4)], "processes", 2):
        print(made.record["error"], made.record["policy_key"])

"""


def script(folder: Path, end: str, *how: str) -> subprocess.CompletedProcess[str]:
    (folder / "mine.py").write_text(SCRIPT.format(here=HERE) + end)
    command = [sys.executable, "-W", "ignore", *(how or ("mine.py",))]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)


GUARDED = "if __name__ == '__main__':\n    main()\n"


@pytest.mark.parametrize(
    ("end", "how"),
    [
        (GUARDED, ("mine.py",)),
        ("main()\n", ("-m", "mine")),
        pytest.param(GUARDED, ("-m", "mine"), marks=pytest.mark.long),
        pytest.param("main()\n", ("mine.py",), marks=pytest.mark.long),
    ],
)
def test_script_can_define_what_is_played(end: str, how: tuple[str, ...], tmp_path: Path) -> None:
    done = script(tmp_path, end, *how)
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["None", "None"], done.stderr
    assert [line for line in done.stderr.splitlines() if not line.startswith("armtriage: compiling ")] == []


def test_process_that_cannot_start_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def leave(parent: int) -> None:
        os._exit(3)

    monkeypatch.setattr(engines, "_prepare", leave)
    with pytest.raises(ExperimentError, match="a process could not start: it ended with exit code 3"):
        list(run([cell(), cell(first=4)], "processes", 2))


def test_prompt_can_define_what_is_played(tmp_path: Path) -> None:
    done = script(tmp_path, "", "-c", SCRIPT.format(here=HERE) + "main()")
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["None", "None"], done.stderr


# The child of a shell's background job would ignore interrupts.
INTERRUPTIBLE = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
"""

LONG = f"""{INTERRUPTIBLE}
from experiments.small_cells import *
from armtriage.experiments.engines import run
import sys

engine, folder = sys.argv[1:]
long = [cell(policy=policy(policy=Slow, folder=folder), first=first) for first in (0, 4)]
for done, made in run([cell(), cell(first=4), *long], engine, 2):
    print(done.first, made.record["error"], flush=True)
"""


def is_there(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"


def until(condition: Callable[[], bool], seconds: float = 120.0) -> bool:
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.05)
    return condition()


def long_run(engine: str, folder: Path) -> subprocess.Popen[str]:
    """A run that has come to its cells that take hours."""
    command = [sys.executable, "-W", "ignore", "-c", LONG, engine, str(folder)]
    process = subprocess.Popen(
        command, cwd=HERE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    wanted = 1 if engine in ("serial", "threads") else 2
    assert until(lambda: len(list(folder.iterdir())) == wanted)
    return process


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_processes_end_when_the_parent_is_killed(tmp_path: Path) -> None:
    parent = long_run("processes", tmp_path)
    workers = [int(one.name) for one in tmp_path.iterdir()]
    assert parent.pid not in workers
    assert all(map(is_there, workers))
    parent.kill()
    parent.communicate()
    assert until(lambda: not any(map(is_there, workers)))


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
@pytest.mark.parametrize("engine", ["serial", "processes"])
def test_interrupt_ends_all_at_once(engine: str, tmp_path: Path) -> None:
    parent = long_run(engine, tmp_path)
    # As a terminal does, to the whole group.
    os.killpg(parent.pid, signal.SIGINT)
    out, error = parent.communicate(timeout=300)  # its cells would take hours
    assert sorted(out.splitlines()) == ["0 None", "4 None"]
    assert "KeyboardInterrupt" in error
    assert until(lambda: not any(is_there(int(one.name)) for one in tmp_path.iterdir()))


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such signals")
def test_interrupt_stops_threads_in_the_middle_of_a_cell(tmp_path: Path) -> None:
    code = f"""{INTERRUPTIBLE}
from experiments.small_cells import *
from armtriage.experiments.engines import run
endless = [cell(environment=environment(horizon=10**13), first=first) for first in (0, 4)]
for one, made in run([cell(), *endless], "threads", 2):
    print("one", flush=True)
"""
    parent = subprocess.Popen(
        [sys.executable, "-c", code], cwd=HERE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    assert parent.stdout.readline() == "one\n"
    parent.send_signal(signal.SIGINT)
    _, error = parent.communicate(timeout=300)
    assert error.rstrip().endswith("KeyboardInterrupt")


def test_as_many_workers_as_processors_that_may_be_used(monkeypatch: pytest.MonkeyPatch) -> None:
    if hasattr(os, "sched_getaffinity"):
        monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 3, 5})
        assert engines.processors() == 3


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    """A cluster of two workers on this machine."""
    ray = pytest.importorskip("ray")
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


@pytest.mark.usefixtures("cluster")
def test_no_cells_are_no_work_for_ray() -> None:
    assert list(run([], "ray")) == []


@pytest.mark.usefixtures("cluster")
def test_ray_agrees_byte_for_byte(expected: dict[str, bytes]) -> None:
    import ray

    assert tables(of_all_kinds(), "ray", None) == expected
    assert ray.is_initialized()


@pytest.mark.long
@pytest.mark.usefixtures("cluster")
def test_ray_plays_two_cells_at_a_time_in_other_processes(tmp_path: Path) -> None:
    assert os.getpid() not in signatures("ray", tmp_path)


@pytest.mark.usefixtures("cluster")
def test_death_of_a_worker_of_ray_is_a_failure_of_its_cell_alone() -> None:
    cells = [cell(policy=policy(policy=Killed)), cell()]
    made = {one.id: result.record["error"] for one, result in run(cells, "ray")}
    assert "WorkerCrashedError" in made[cells[0].id]
    assert made[cells[1].id] is None


@pytest.mark.long
@pytest.mark.usefixtures("cluster")
def test_ray_plays_what_is_defined_anywhere() -> None:
    class Local(First):
        pass

    one = cell(policy=policy(policy=Local))
    assert numbers(one, tables([one], "ray")[one.id]).equals(played(cell(policy=policy(policy=First))))


@pytest.mark.long
@pytest.mark.usefixtures("cluster")
def test_closing_leaves_no_task_of_ray(tmp_path: Path) -> None:
    long = [cell(policy=policy(policy=Slow, folder=str(tmp_path)), first=first) for first in (0, 4)]
    with closing(run([cell(), *long], "ray")) as outcomes:
        assert next(outcomes)[0].id == cell().id
        assert until(lambda: len(list(tmp_path.iterdir())) >= 1)
    assert len(tables([cell(), cell(first=4)], "ray")) == 2


@pytest.mark.parametrize("library", ["loky", "cloudpickle"])
def test_missing_library_for_processes_is_said(library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(ImportError, match=rf"'processes' needs {library}: pip install 'armtriage\[experiments\]'"):
        list(run([cell(policy=policy(policy=First))], "processes"))


def test_missing_ray_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ImportError, match="pip install 'armtriage\\[ray\\]'"):
        list(run([cell()], "ray"))


ALONE = """
from experiments.small_cells import *
from armtriage.experiments.engines import run
import ray

print([made.record["error"] for _, made in run([cell(), cell(first=4)], "ray", 2)], ray.is_initialized())
"""


@pytest.mark.long
def test_ray_is_started_and_ended_if_there_is_no_cluster() -> None:
    pytest.importorskip("ray")
    command = [sys.executable, "-W", "ignore", "-c", ALONE]
    done = subprocess.run(command, cwd=HERE, capture_output=True, text=True, timeout=300)
    assert done.stdout.splitlines()[-1:] == ["[None, None] False"], done.stderr
