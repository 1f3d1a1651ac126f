"""The folder of an experiment: whole files or none, whatever happens to the process, the disk or the files."""

from __future__ import annotations

import io
import json
import math
import os
import platform
import subprocess
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import polars
import pytest

from armtriage import _files
from armtriage.errors import DamagedFile, ExperimentError
from armtriage.experiments.cells import Cell, failure, table_digest
from armtriage.experiments.folder import Folder
from experiments.small_cells import cell, manifest, outcome, played, policy

CELLS = [cell(first=first) for first in range(0, 20, 4)]


def filled(path: Path, cells: Sequence[Cell] = CELLS) -> Folder:
    folder = Folder(path)
    folder.begin(manifest())
    with folder:
        for one in cells:
            folder.keep(one, outcome(one))
    return folder


def ids(cells: Sequence[Cell]) -> set[str]:
    return {one.id for one in cells}


def temporary(path: Path) -> list[str]:
    return [one.name for one in path.rglob("*") if one.name.startswith(".")]


def test_folder_without_a_manifest_is_none(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"is no folder of an experiment: it has no experiment\.json"):
        Folder(tmp_path).manifest()


DEEP = b'{"a":' * 100_000 + b"1" + b"}" * 100_000


@pytest.mark.parametrize("content", [b"", b"{}", b"[1]", b"\x00\xff", b'{"format": 99}', b"[" * 100_000, DEEP])
def test_damaged_manifest_is_named(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "experiment.json").write_bytes(content)
    for ask in (lambda: Folder(tmp_path).manifest(), lambda: Folder(tmp_path).begin(manifest())):
        with pytest.raises(DamagedFile, match=r"experiment\.json is not the manifest"):
            ask()


def test_folder_of_another_experiment_is_refused(tmp_path: Path) -> None:
    filled(tmp_path)
    before = (tmp_path / "experiment.json").read_bytes()
    with pytest.raises(ValueError, match="holds the experiment 'trial', and this one is 'other'"):
        Folder(tmp_path).begin(manifest(name="other"))
    assert (tmp_path / "experiment.json").read_bytes() == before


def test_manifest_of_the_same_name_is_replaced(tmp_path: Path) -> None:
    filled(tmp_path)
    Folder(tmp_path).begin(manifest(replications=50))
    assert Folder(tmp_path).manifest().replications == 50


def test_same_manifest_is_not_written_again(tmp_path: Path) -> None:
    filled(tmp_path)
    before = (tmp_path / "experiment.json").stat()
    Folder(tmp_path).begin(manifest())
    assert (tmp_path / "experiment.json").stat().st_mtime_ns == before.st_mtime_ns


def test_kept_cells_are_there_and_whole(tmp_path: Path) -> None:
    folder = filled(tmp_path)
    assert folder.ids() == ids(CELLS)
    assert folder.whole(CELLS) == ids(CELLS)
    assert [folder.place(one).read_bytes() for one in CELLS] == [outcome(one).table for one in CELLS]
    assert temporary(tmp_path) == []


def test_cells_of_other_experiments_are_not_among_those_asked_for(tmp_path: Path) -> None:
    folder = filled(tmp_path)
    others = [cell(code="another"), cell(root=8)]
    assert folder.whole(others) == set()
    assert folder.whole([*others, CELLS[2]]) == {CELLS[2].id}


def test_empty_folder_has_no_cells(tmp_path: Path) -> None:
    assert Folder(tmp_path / "none").ids() == Folder(tmp_path / "none").whole(CELLS) == set()


@pytest.mark.parametrize("records", ["with", "without"])
@pytest.mark.parametrize("damage", ["empty", "cut", "text", "other rows", "other columns"])
def test_damaged_cell_is_missing(damage: str, records: str, tmp_path: Path) -> None:
    folder = filled(tmp_path)
    place = folder.place(CELLS[1])
    if damage == "other rows":
        polars.read_parquet(place).with_columns(polars.col("replication") + 1).write_parquet(place)
    elif damage == "other columns":
        polars.read_parquet(place).drop("regret").write_parquet(place)
    else:
        place.write_bytes({"empty": b"", "cut": place.read_bytes()[:-9], "text": b"PAR1 nothing PAR1"}[damage])
    if records == "without":
        for log in tmp_path.glob("runs/*"):
            log.unlink()
    with pytest.warns(UserWarning, match=f"1 damaged files count as missing: {CELLS[1].id}"):
        assert folder.whole(CELLS) == ids(CELLS) - {CELLS[1].id}


@pytest.mark.parametrize("where", [0.1, 0.5, 0.9])
def test_a_single_bit_is_noticed(where: float, tmp_path: Path) -> None:
    folder = filled(tmp_path, CELLS[:1])
    content = bytearray(folder.place(CELLS[0]).read_bytes())
    content[int(where * len(content))] ^= 1
    folder.place(CELLS[0]).write_bytes(content)
    with pytest.warns(UserWarning, match="damaged"):
        assert folder.whole(CELLS) == set()


def test_whole_cells_need_no_records(tmp_path: Path) -> None:
    folder = filled(tmp_path)
    for log in tmp_path.glob("runs/*"):
        log.unlink()
    assert folder.whole(CELLS) == ids(CELLS)


@pytest.mark.parametrize("records", ["with", "without"])
def test_tables_renamed_among_each_other_are_missing(records: str, tmp_path: Path) -> None:
    # The same replications, rounds and columns: nothing but its name tells one from the other.
    twins = [cell(policy=policy(label, label)) for label in ("comb_ucb1", "thompson")]
    folder = filled(tmp_path, [*twins, CELLS[1]])
    first, second = map(folder.place, twins)
    one, other = first.read_bytes(), second.read_bytes()
    first.write_bytes(other)
    second.write_bytes(one)
    if records == "without":
        for log in tmp_path.glob("runs/*"):
            log.unlink()
    with pytest.warns(UserWarning, match="2 damaged files count as missing"):
        assert folder.whole([*twins, CELLS[1]]) == {CELLS[1].id}


def test_table_that_does_not_name_its_cell_needs_a_record(tmp_path: Path) -> None:
    folder, one = filled(tmp_path, []), CELLS[0]
    buffer = io.BytesIO()
    played(one).write_parquet(buffer)
    made = outcome(one)
    with folder:
        folder.keep(one, made._replace(table=buffer.getvalue(), record={**made.record, "digest": None}))
    with pytest.warns(UserWarning, match="damaged"):
        assert folder.whole([one]) == set()
    with folder:
        record = {**made.record, "digest": table_digest(buffer.getvalue())}
        folder.keep(one, made._replace(table=buffer.getvalue(), record=record))
    assert folder.whole([one]) == {one.id}


def test_table_of_many_rows_is_not_unpacked(tmp_path: Path) -> None:
    folder = filled(tmp_path, CELLS[:1])
    for log in tmp_path.glob("runs/*"):
        log.unlink()
    row = polars.read_parquet(folder.place(CELLS[0])).head(1)
    polars.concat([row] * 1000).select(polars.all().repeat_by(10_000).explode()).write_parquet(folder.place(CELLS[0]))
    with pytest.warns(UserWarning, match="damaged"):
        assert folder.whole(CELLS) == set()


def test_table_that_was_never_renamed_is_missing(tmp_path: Path) -> None:
    folder = filled(tmp_path)
    folder.place(CELLS[0]).unlink()
    assert folder.whole(CELLS) == ids(CELLS[1:])


def test_records_come_in_the_order_of_their_beginning(tmp_path: Path) -> None:
    filled(tmp_path, CELLS[:2])
    filled(tmp_path, CELLS[2:])
    assert len(list(tmp_path.glob("runs/*.jsonl"))) == 2
    assert [record["cell"] for record in Folder(tmp_path).records()] == [one.id for one in CELLS]


def test_threads_that_keep_the_same_cell_at_a_time_do_no_harm(tmp_path: Path) -> None:
    filled(tmp_path, [])
    one, made, together = CELLS[0], outcome(CELLS[0]), threading.Barrier(3)

    def keep(_: int) -> None:
        with Folder(tmp_path) as folder:
            for _ in range(100):
                together.wait(timeout=120)
                folder.begin(manifest())
                folder.keep(one, made)

    with ThreadPoolExecutor(3) as threads:
        list(threads.map(keep, range(3)))
    assert Folder(tmp_path).whole([one]) == {one.id}
    assert len(Folder(tmp_path).records()) == 300
    assert len(list(tmp_path.glob("runs/*.jsonl"))) == 3
    assert temporary(tmp_path) == []


def test_failure_leaves_a_record_and_no_table(tmp_path: Path) -> None:
    folder = filled(tmp_path, [])
    with folder:
        folder.keep(CELLS[0], failure(CELLS[0], "Traceback: nothing\nworked"))
    assert folder.ids() == set()
    [record] = folder.records()
    assert record["error"] == "Traceback: nothing\nworked"


@pytest.mark.parametrize("cut", [1, 20, 500])
def test_torn_line_is_skipped(cut: int, tmp_path: Path) -> None:
    folder = filled(tmp_path)
    [log] = tmp_path.glob("runs/*.jsonl")
    log.write_bytes(log.read_bytes()[:-cut])
    expected = CELLS if cut == 1 else CELLS[:-1]
    assert [record["cell"] for record in folder.records()] == [one.id for one in expected]
    assert folder.whole(CELLS) == ids(CELLS)


@pytest.mark.parametrize("line", [b"", b"7", b"[]", b"{}", b"\xff\xfe", b'{"cell": "a"}', b"[" * 100_000, DEEP])
def test_line_that_is_no_record_is_skipped(line: bytes, tmp_path: Path) -> None:
    folder = filled(tmp_path)
    (tmp_path / "runs" / "other.jsonl").write_bytes(line + b"\n")
    assert len(folder.records()) == len(CELLS)


@pytest.mark.parametrize(
    "change",
    [
        {"cell": ["a"]},
        {"cell": {}},
        {"cell": None},
        {"digest": ["a"]},
        {"error": 7},
        {"error": "\ud800"},
        {"started": 3},
        {"started": "yesterday"},
        {"started": "2026-01-02T03:04:05"},
        {"started": "0001-01-01T00:00:00+23:00"},
        {"seconds": "1"},
        {"seconds": -1.0},
        {"seconds": math.nan},
        {"seconds": 10**400},
        {"count": []},
        {"n_arms": {}},
        {"environment_key": ["a"]},
        {"versions": 3},
        {"versions": {"numpy": 2}},
        {"host": 3},
    ],
    ids=str,
)
def test_record_of_other_kinds_of_values_is_skipped(change: dict[str, object], tmp_path: Path) -> None:
    folder = filled(tmp_path)
    [record, *_] = folder.records()
    (tmp_path / "runs" / "other.jsonl").write_text(json.dumps({**record, **change}) + "\n")
    assert len(folder.records()) == len(CELLS)
    assert folder.whole(CELLS) == ids(CELLS)


def test_nothing_played_leaves_no_log(tmp_path: Path) -> None:
    filled(tmp_path, [])
    assert list(tmp_path.glob("runs/*")) == []


def test_folders_are_merged_by_copying(tmp_path: Path) -> None:
    one, other = filled(tmp_path / "a", CELLS[:3]), filled(tmp_path / "b", CELLS[2:])
    for part in ("cells", "runs"):
        for file in (other.path / part).iterdir():
            file.rename(one.path / part / file.name)
    assert one.whole(CELLS) == ids(CELLS)
    assert len(one.records()) == 6


def ended_process() -> int:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


@pytest.mark.skipif(os.name != "posix", reason="whether a process lives cannot be asked")
def test_temporary_files_of_the_dead_are_removed(tmp_path: Path) -> None:
    filled(tmp_path, [])
    host = _files.HOST
    names = {f".a.{host}-{ended_process()}.tmp": False, f".b.{host}-{os.getpid()}.tmp": True, ".c.away-1.tmp": True}
    for name in names:
        (tmp_path / "cells" / name).touch()
    Folder(tmp_path).begin(manifest())
    assert {name: (tmp_path / "cells" / name).exists() for name in names} == names


def test_old_temporary_files_are_removed(tmp_path: Path) -> None:
    filled(tmp_path, [])
    old = tmp_path / "cells" / ".c.away-1.tmp"
    old.touch()
    os.utime(old, (0, 0))
    Folder(tmp_path).begin(manifest())
    assert not old.exists()


def test_name_of_the_machine_is_fit_for_a_file() -> None:
    assert _files.HOST.replace("_", "").isalnum()
    assert _files.HOST[0] == platform.node()[0]


LIMITED = """
import resource, sys
from experiments import test_folder as t
from armtriage.experiments.folder import Folder
from armtriage.errors import ExperimentError

limit, path = int(sys.argv[1]), sys.argv[2]
folder = Folder(path)
folder.begin(t.manifest())
outcomes = [(cell, t.outcome(cell)) for cell in t.CELLS]
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
try:
    with folder:
        for cell, outcome in outcomes:
            folder.keep(cell, outcome)
except ExperimentError as error:
    print(error)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such limits")
@pytest.mark.parametrize("limit", [100, 1_500, 3_000])
def test_full_disk_is_said_and_leaves_nothing_half_written(limit: int, tmp_path: Path) -> None:
    command = [sys.executable, "-c", LIMITED, str(limit), str(tmp_path)]
    here = str(Path(__file__).parents[1])
    shown = subprocess.run(command, cwd=here, capture_output=True, text=True, check=True, timeout=300).stdout
    folder = Folder(tmp_path)
    safe = folder.whole(CELLS)
    assert shown.startswith(f"cannot write to {tmp_path}: File too large; {len(safe)} finished cells are safe")
    assert folder.ids() == safe
    assert temporary(tmp_path) == []
    filled(tmp_path, [one for one in CELLS if one.id not in safe])
    assert folder.whole(CELLS) == ids(CELLS)


def test_folder_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ExperimentError, match=r"cannot write to .*: Not a directory"):
        Folder(tmp_path / "file" / "folder").begin(manifest())


def test_interrupt_while_writing_leaves_no_temporary_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = filled(tmp_path)

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupt)
    with folder, pytest.raises(KeyboardInterrupt):
        folder.keep(CELLS[0], outcome(CELLS[0]))
    assert temporary(tmp_path) == []
    assert folder.whole(CELLS) == ids(CELLS)


def test_manifest_can_be_read_by_anyone(tmp_path: Path) -> None:
    filled(tmp_path)
    values = json.loads((tmp_path / "experiment.json").read_text(encoding="utf-8"))
    assert (values["name"], values["seed"], values["replications"]) == ("trial", 7, 6)
    assert values["environments"][0]["options"] == {"n_arms": 8, "budget": 2}
