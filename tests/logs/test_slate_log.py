"""A log keeps what was flushed, joins what comes later, and takes tables of others."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from armtriage import FeedbackGraph, SlateLog, UniformRandom, UnknownArm, certify
from armtriage.errors import DamagedFile


def filled(path: Path, rounds: int = 50, **options: Any) -> tuple[SlateLog, UniformRandom, np.ndarray]:
    policy = UniformRandom(6, budget=2, seed=7)
    rewards = np.random.default_rng(7).integers(0, 2, (rounds, 2)).astype(float)
    log = SlateLog(path, **options)
    for row in rewards:
        log.append(policy.ask(), row, inclusion=1 / 3)
    return log, policy, rewards


def test_what_was_appended_is_read_again(tmp_path: Path) -> None:
    log, _, rewards = filled(tmp_path / "log")
    log.flush()
    rows = SlateLog.read(tmp_path / "log").frame().collect()
    again = UniformRandom(6, budget=2, seed=7)
    assert rows["arms"].to_list() == [again.ask().arms.tolist() for _ in range(50)]
    assert rows["rewards"].to_list() == rewards.tolist()
    assert rows["number"].to_list() == list(range(50))
    assert rows["inclusion"].to_list() == [[1 / 3, 1 / 3]] * 50


def test_the_page_of_files_has_the_columns_of_a_log(tmp_path: Path) -> None:
    log, policy, _ = filled(tmp_path / "log")
    late = policy.ask(eligible=[0, 1, 2])
    log.append(late, inclusion=2 / 3)
    log.flush()
    log.tell(late.number, {int(late.arms[0]): 1.0})
    log.close()
    page = (Path(__file__).parents[2] / "docs" / "files.md").read_text(encoding="utf-8")
    part = page.split("## A log of decisions")[1].split("## The store")[0]
    columns = pl.read_parquet(tmp_path / "log" / "decisions" / "*.parquet").columns
    told = [line.split("`")[1] for line in part.split("| column |")[1].splitlines() if line.startswith("| `")]
    assert told == columns
    assert {one.name for one in (tmp_path / "log").iterdir()} == {"log.json", "decisions", "patterns", "rewards"}
    for name in ("patterns", "rewards"):
        (line,) = [one for one in part.splitlines() if one.startswith(f"| `{name}/")]
        found = pl.read_parquet(tmp_path / "log" / name / "*.parquet").columns
        assert line.split("`")[3::2] == found


def test_parts_grow_until_they_are_long(tmp_path: Path) -> None:
    filled(tmp_path / "log", rounds=50, rows=10)[0].close()
    assert len(list((tmp_path / "log" / "decisions").iterdir())) == 1


def test_a_log_is_continued(tmp_path: Path) -> None:
    log, policy, _ = filled(tmp_path / "log")
    log.close()
    with SlateLog(tmp_path / "log") as more:
        more.append(policy.ask(), [0, 1])
    assert len(SlateLog.read(tmp_path / "log")) == 51


KILLED = """
import os, signal, sys
from armtriage import SlateLog, UniformRandom
policy = UniformRandom(6, budget=2, seed=7)
log = SlateLog(sys.argv[1], rows=7, seconds=1e9)
for _ in range(40):
    log.append(policy.ask(), [0, 1])
print(policy.ask().number, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_was_flushed_survives_a_kill(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path / "log")], capture_output=True, timeout=300)
    assert done.returncode == -signal.SIGKILL
    assert SlateLog.read(tmp_path / "log").frame().collect()["number"].to_list() == list(range(35))


def test_a_torn_end_is_left_out_with_a_word(tmp_path: Path) -> None:
    log, policy, _ = filled(tmp_path / "log")
    log.close()
    with SlateLog(tmp_path / "log") as more:
        more.append(policy.ask(), [0, 1])
    last = sorted((tmp_path / "log" / "decisions").iterdir())[-1]
    last.write_bytes(last.read_bytes()[:-20])
    with pytest.warns(RuntimeWarning, match="torn: its rows are left out"):
        assert len(SlateLog.read(tmp_path / "log")) == 50


def test_a_torn_middle_is_refused(tmp_path: Path) -> None:
    log, policy, _ = filled(tmp_path / "log")
    log.close()
    with SlateLog(tmp_path / "log") as more:
        more.append(policy.ask(), [0, 1])
    first = sorted((tmp_path / "log" / "decisions").iterdir())[0]
    first.write_bytes(first.read_bytes()[:-20])
    with pytest.raises(DamagedFile, match="is no whole Parquet file"):
        len(SlateLog.read(tmp_path / "log"))


def test_a_file_that_was_never_finished_is_not_read(tmp_path: Path) -> None:
    log, _, _ = filled(tmp_path / "log")
    log.close()
    (tmp_path / "log" / "decisions" / ".00.parquet.ab.host-1.tmp").write_bytes(b"PAR1")
    assert len(SlateLog.read(tmp_path / "log")) == 50


def test_late_rewards_are_joined_by_number(tmp_path: Path) -> None:
    policy = UniformRandom(6, budget=2, seed=7)
    made = [policy.ask() for _ in range(4)]
    log = SlateLog(tmp_path / "log")
    for one in made:
        log.append(one)
    first, second = made[1].arms.tolist()
    log.tell(3, {int(made[3].arms[1]): 1.0})
    log.flush()
    log.tell(made[1], {first: 1.0})
    log.tell(made[1], {first: 0.0, second: 0.5})  # of two for an arm the first counts
    log.tell(made[2], [0.25, 0.75])
    found = log.frame().collect()["rewards"].to_list()
    assert found == [[None, None], [1.0, 0.5], [0.25, 0.75], [None, 1.0]]
    batch = next(log.batches())
    assert batch.seen.sizes.tolist() == [0, 2, 2, 1]
    assert batch.rewards.tolist() == [1.0, 0.5, 0.25, 0.75, 1.0]


def test_late_rewards_change_no_other_column(tmp_path: Path) -> None:
    log, policy, _ = filled(tmp_path / "log")
    before = log.frame().collect()
    log.append(policy.ask(), inclusion=1 / 3)
    log.tell(50, {int(log.frame().collect()["arms"][-1][0]): 1.0})
    after = log.frame().collect()
    for name in ("arms", "inclusion", "observed", "rewards", "number", "time"):
        assert after[name][:50].to_list() == before[name].to_list(), name


def test_columns_that_others_have_added_are_kept(tmp_path: Path) -> None:
    log, policy, _ = filled(tmp_path / "log", rounds=2)
    log.close()
    with SlateLog(tmp_path / "log") as more:
        more.append(policy.ask(), [0, 1])
        more.append(policy.ask(), [0, 1])
    part = sorted((tmp_path / "log" / "decisions").glob("*.parquet"))[-1]
    pl.read_parquet(part).with_columns(pl.lit("x").alias("page")).write_parquet(part)
    for _ in range(2):
        log = SlateLog.read(tmp_path / "log")
        assert log.frame().collect()["page"].to_list() == [None, None, "x", "x"]
        assert log.counts().rounds == 4
        late = SlateLog(tmp_path / "log")
        late.tell(0, {int(log.frame().collect()["observed"][0][0]): 1.0})
        late.close()


def test_eligible_arms_and_names_are_kept(tmp_path: Path) -> None:
    policy = UniformRandom(3, budget=1, names=["tea", ("milk", 2), 5], seed=7)
    log = SlateLog(tmp_path / "log")
    log.append(policy.ask(eligible=["tea", 5]), [1.0])
    log.append(policy.ask())
    log.append(policy.ask(eligible=[5]), {5: 0.0})
    policy.add_arms(["jam"])
    log.append(policy.ask(eligible=["jam"]), {"jam": 1.0})
    log.append(policy.ask())
    log.close()
    read = SlateLog.read(tmp_path / "log")
    assert read.names == ("tea", ("milk", 2), 5, "jam")
    batch = next(read.batches())
    sets = [batch.sets[one] for one in batch.which]
    assert [one.tolist() for one in sets if one is not None] == [[0, 2], [0, 1, 2], [2], [3], [0, 1, 2, 3]]
    assert read.counts().exposures.tolist() == [3, 2, 4, 2]


def test_decisions_in_another_order_are_sorted_by_number(tmp_path: Path) -> None:
    policy = UniformRandom(6, budget=2, seed=7)
    made = [policy.ask() for _ in range(5)]
    with SlateLog(tmp_path / "log", rows=2) as log:
        for place in (3, 0, 4, 1, 2):
            log.append(made[place], [0, 1])
    assert log.frame().collect()["number"].to_list() == [0, 1, 2, 3, 4]
    assert [one.numbers.tolist() for one in log.batches()] == [[0, 1, 2, 3, 4]]


def test_a_decision_that_is_there_twice_is_refused(tmp_path: Path) -> None:
    policy = UniformRandom(6, budget=2, seed=7)
    decision = policy.ask()
    with SlateLog(tmp_path / "log") as log:
        log.append(decision, [0, 1])
        log.append(decision, [0, 1])
    with pytest.raises(DamagedFile, match="decision 0 more than once"):
        log.counts()


def test_two_writers_share_a_log(tmp_path: Path) -> None:
    policy = UniformRandom(6, budget=2, seed=7)
    one, two = SlateLog(tmp_path / "log"), SlateLog(tmp_path / "log")
    for place in range(6):
        (one if place % 2 else two).append(policy.ask(eligible=[0, 1, place % 3 + 2]), [0, 1])
    one.close()
    two.close()
    assert len(SlateLog.read(tmp_path / "log")) == 6
    assert SlateLog.read(tmp_path / "log").counts().exposures.tolist() == [6, 6, 2, 2, 2, 0]


def test_rewards_that_arms_reveal_of_others(tmp_path: Path) -> None:
    policy = UniformRandom(FeedbackGraph.cliques([2, 2]), budget=1, seed=7)
    decision = policy.ask()
    log = SlateLog(tmp_path / "log")
    log.append(decision, [0.5, 1.0], inclusion=0.25, observation=[0.5, 0.5])
    batch = next(log.batches())
    assert batch.seen.values.tolist() == decision.revealed.tolist()
    assert batch.chances.tolist() == [0.5, 0.5]
    assert batch.arms.values.tolist() == decision.arms.tolist()


@pytest.mark.parametrize(
    ("rewards", "options", "message"),
    [
        ([0, 2], {}, r"rewards must lie in \[0, 1\] \(reward_range\), got 2"),
        ([0.5, float("nan")], {}, "rewards must lie in"),
        ([0], {}, "one entry for each of the 2 revealed arms, got 1"),
        ({5: 1.0}, {}, r"rewards must be of arms that the decision reveals, \[\d, \d\], got arm 5"),
        (None, {"inclusion": 0.0}, r"inclusion must lie in \(0, 1\], got 0.0"),
        (None, {"inclusion": [0.1, 0.2, 0.3]}, "inclusion must be a number, or one for each of 2 arms, got 3"),
    ],
)
def test_what_is_refused_leaves_the_log_as_it_was(tmp_path: Path, rewards: Any, options: Any, message: str) -> None:
    log, policy, _ = filled(tmp_path / "log", rounds=2)
    decision = policy.record([0, 1])
    with pytest.raises(ValueError, match=message):
        log.append(decision, rewards, **options)
    assert len(log) == 2


def test_strangers_are_refused(tmp_path: Path) -> None:
    log, _, _ = filled(tmp_path / "log", rounds=2)
    with pytest.raises(ValueError, match="decision must be of the policy of the log"):
        log.append(UniformRandom(6, budget=2).ask(), [0, 1])
    with pytest.raises(TypeError, match="decision must be a Decision, got int"):
        log.append(7, [0, 1])  # type: ignore[arg-type]
    with pytest.raises(UnknownArm):
        log.tell(0, {6: 1.0})
    with pytest.raises(TypeError, match="rewards must be a mapping of arms beside a number"):
        log.tell(0, [1.0, 0.0])
    with pytest.raises(ValueError, match=r"reward_range must be that of the log, \(0.0, 1.0\), got \(0.0, 2.0\)"):
        SlateLog(tmp_path / "log", reward_range=(0, 2))
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter.txt").write_text("dear")
    with pytest.raises(FileExistsError, match="path must be a log, an empty folder or nothing"):
        SlateLog(tmp_path / "full")


def test_a_loaded_policy_goes_on_with_its_log(tmp_path: Path) -> None:
    log, policy, _ = filled(tmp_path / "log", rounds=2)
    log.append(UniformRandom.from_bytes(policy.to_bytes()).ask(), [0, 1])
    assert len(log) == 3


def test_columns_say_what_is_missing() -> None:
    log = SlateLog.from_columns(
        arms=[[0], [1]], rewards=[[1], [0]], inclusion=[[0.5], [0.5]], eligible=[[0, 1], None], number=[4, 9], n_arms=3
    )
    assert [one.split(":")[0] for one in log.missing] == ["floor, which no probability is below"]
    assert log.counts().exposures.tolist() == [2, 2, 1]
    with pytest.raises(ValueError, match="cannot be added to"):
        log.append(UniformRandom(3, budget=1).ask())


@pytest.mark.parametrize("library", ["polars", "pandas"])
def test_frames_by_decision_and_by_arm_are_the_same(library: str) -> None:
    wide = {"visit": [3, 5], "slate": [["a", "c"], ["b", "c"]], "click": [[1.0, 0.0], [0.0, None]]}
    long = {"visit": [3, 3, 5, 5], "slate": ["a", "c", "b", "c"], "click": [1.0, 0.0, 0.0, None]}
    make = pl.DataFrame if library == "polars" else pd.DataFrame
    logs = [SlateLog.from_frame(make(one), number="visit", arms="slate", rewards="click") for one in (wide, long)]
    for log in logs:
        batch = next(log.batches())
        assert log.names == ("a", "b", "c")
        assert batch.numbers.tolist() == [3, 5]
        assert batch.arms.values.tolist() == [0, 2, 1, 2]
        assert batch.rewards.tolist() == [1.0, 0.0, 0.0]


def test_a_csv_file_and_a_parquet_file_are_read(tmp_path: Path) -> None:
    rows = pl.DataFrame({"number": [1, 1, 2], "arm": [4, 0, 4], "reward": [1, 0, 1], "inclusion": [0.5, 0.25, 0.5]})
    rows.write_csv(tmp_path / "log.csv")
    rows.write_parquet(tmp_path / "log.parquet")
    for name in ("log.csv", "log.parquet"):
        log = SlateLog.read(tmp_path / name)
        batch = next(log.batches())
        assert batch.chances.tolist() == [0.5, 0.25, 0.5]
        assert log.n_arms == 5
    with pytest.raises(FileNotFoundError):
        SlateLog.read(tmp_path / "none.csv")
    (tmp_path / "text.csv").write_text("number,arm,reward\n1,4,0\n2,3,yes\n")
    with pytest.raises(TypeError, match="rewards must be numbers, one in a row, got 'yes' of kind String"):
        SlateLog.read(tmp_path / "text.csv")
    (tmp_path / "log.txt").write_text("")
    with pytest.raises(ValueError, match=r"a .parquet or a .csv file"):
        SlateLog.read(tmp_path / "log.txt")


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"arms": 5}, "arms must be a sequence with an entry for each decision, got 5"),
        ({"arms": "ab"}, "arms must be a sequence with an entry for each decision, got 'ab'"),
        ({"arms": [], "rewards": []}, "arms must have a decision or more, got none"),
        ({"arms": [0, 1], "rewards": [1, 0]}, "number must be a column where a row is one arm of a decision"),
        ({"arms": [[0, 0], [1, 2]]}, "arms must have each arm once, got 0 twice in decision 0"),
        ({"arms": [[0, 7], [1, 2]]}, r"arms must lie in 0..2, got 7 in decision 0"),
        ({"arms": [[0, -1], [1, 2]]}, r"arms must lie in 0..2, got -1 in decision 0"),
        ({"arms": [[0, None], [1, 2]]}, "arms must have no missing arms"),
        ({"arms": [[0.5, 1], [1, 2]]}, r"arms must be whole numbers, or names, .* got \[0.5, 1.0\] of kind List"),
        ({"arms": [[10**12, 0], [1, 2]], "n_arms": None}, "arms must be numbers below 2147483647, got 10000"),
        ({"names": ["a", "b", "c"]}, "names must have every arm of the table, got none for '0'"),
        (
            {"rewards": [{0: 1, 1: 0}, {1: 0, 2: 0}]},
            r"rewards must be numbers, a list .* got \{0: 1, 1: 0\} of kind",
        ),
        (
            {"rewards": [{"a": 1}, {"b": 0}]},
            "rewards must be numbers, a list .* got {'a': 1, 'b': None}",
        ),
        ({"rewards": [1, 0]}, "rewards must be numbers, a list for each decision, got 1 of kind Int64"),
        ({"rewards": [["x", 1], [0, 0]]}, r"rewards must be numbers, .* got \['x', '1'\] of kind List"),
        ({"rewards": [[1, 2], [0, 0]]}, r"rewards must lie in \[0, 1\] \(reward_range\), got 2.0 in decision 0"),
        ({"rewards": [[1, float("inf")], [0, 0]]}, r"rewards must lie in .* got inf in decision 0"),
        ({"rewards": [[1], [0, 0]]}, "rewards must have an entry for each of observed, got 1 for 2"),
        ({"rewards": [[1]]}, "rewards must have an entry for each of the 2 decisions, got 1"),
        ({"inclusion": [0.5, 0.5]}, "inclusion must be numbers, a list for each decision, got 0.5 of kind Float64"),
        ({"inclusion": [[0.5, 2], [0.5, 0.5]]}, r"inclusion and observation must lie in \(0, 1\], got 2.0 for arm 1"),
        ({"inclusion": [[0.5], [0.5, 0.5]]}, "inclusion must have an entry for each of arms, got 1 for 2"),
        ({"eligible": [[0, 2], [1, 2]]}, "arms must be eligible, got 1, which was not in decision 0"),
        ({"eligible": [[0, 1, 9], None]}, r"eligible must lie in 0..2, got 9 in decision 0"),
        ({"eligible": [[True, True, False], None]}, "eligible must be whole numbers, or names, .* got .* of kind"),
        ({"proposal": [[0, 9], [1, 2]], "floor": [0.1, 0.1]}, r"proposal must lie in 0..2, got 9 in decision 0"),
        (
            {"proposal": [[0], [1, 2]], "floor": [0.1, 0.1]},
            "proposal must have as many arms as .*, got 1 for 2",
        ),
        ({"floor": [2.0, 0.1]}, r"floor must lie in \[0, 1\), got 2.0 in decision 0"),
        ({"floor": 0.1}, "floor must be a sequence with an entry for each decision, got 0.1"),
        ({"number": [3, 3]}, "number must be different for each decision, got 3 twice"),
        ({"number": [3, None]}, "number must be a whole number for each decision, got None"),
        ({"number": [3, 0.5]}, "number must be a whole number for each decision, got 0.5"),
        ({"number": ["x", "y"]}, "number must be numbers, one in a row, got 'x' of kind String"),
    ],
)
def test_columns_that_are_refused(columns: dict[str, Any], message: str) -> None:
    whole: dict[str, Any] = {"arms": [[0, 1], [1, 2]], "rewards": [[1, 0], [0, 0]], "n_arms": 3}
    with pytest.raises((ValueError, TypeError), match=message):
        SlateLog.from_columns(**{**whole, **columns})


def test_a_log_of_one_decision_in_any_order_and_with_what_never_came() -> None:
    one = SlateLog.from_columns(arms=[[0]], rewards=[[1]], inclusion=[[0.5]], n_arms=2)
    assert (len(one), one.counts().pulls.tolist()) == (1, [1, 0])
    nan = float("nan")
    log = SlateLog.from_columns(arms=np.array([[0, 1], [1, 2]]), rewards=[[nan, 1], [0, None]], number=[7, 3])
    assert next(log.batches()).numbers.tolist() == [3, 7]
    assert log.counts().counts.tolist() == [0, 2, 0]


def test_a_table_by_arm_keeps_the_eligible_arms_of_each_decision() -> None:
    columns = {"number": [1, 1, 2], "arm": [0, 1, 1], "reward": [1, 0, 1], "eligible": [[0, 1], [0, 1], [1, 2]]}
    log = SlateLog.from_frame(pl.DataFrame(columns), n_arms=3)
    assert log.counts().exposures.tolist() == [1, 2, 1]
    assert not any(one.startswith("eligible") for one in log.missing)


def test_a_table_needs_arms() -> None:
    with pytest.raises(ValueError, match="arms must be a column of the table, got visit"):
        SlateLog.from_frame(pl.DataFrame({"visit": [1]}))
    with pytest.raises(ValueError, match=r"arms must be a column of the table \(visit\), got 'slate'"):
        SlateLog.from_frame(pl.DataFrame({"visit": [1]}), arms="slate")
    with pytest.raises(ValueError, match="number must be a column where a row is one arm"):
        SlateLog.from_frame(pl.DataFrame({"arm": [1]}))


def test_certificate_is_that_of_the_counts(tmp_path: Path) -> None:
    log, _, rewards = filled(tmp_path / "log", rounds=200)
    arms = np.array(log.frame().collect()["arms"].to_list())
    pulls, sums = np.bincount(arms.ravel(), minlength=6), np.bincount(arms.ravel(), rewards.ravel(), minlength=6)
    expected = certify(pulls, pulls, sums, squares=sums, budget=2)
    assert log.certificate().regret_bound == expected.regret_bound


def test_an_empty_log_says_so(tmp_path: Path) -> None:
    log = SlateLog(tmp_path / "log")
    assert len(log) == 0
    assert log.counts().rounds == 0
    assert os.listdir(tmp_path / "log") == ["log.json"]


def test_what_the_service_exports_is_a_log(tmp_path: Path) -> None:
    exported = pl.DataFrame(
        {
            "number": [0, 1, 2],
            "id": ["a", "b", "c"],
            "closed": [True, True, False],
            "pattern": [0, 1, 0],
            "eligible": [None, ["tea", "jam"], None],
            "arms": [["tea"], ["jam"], ["milk"]],
            "inclusion": [None, None, None],
            "observed": [["tea"], ["jam"], None],
            "rewards": [[1.0], [0.0], None],
        },
        schema_overrides={"inclusion": pl.List(pl.Float64)},
    )
    exported.write_parquet(tmp_path / "export.parquet")
    log = SlateLog.read(tmp_path / "export.parquet")
    found = log.counts()
    assert log.names == ("jam", "milk", "tea")
    assert found.exposures.tolist() == [3, 2, 3]
    assert (found.counts.tolist(), found.sums.tolist(), found.untold) == ([1, 0, 1], [0.0, 0.0, 1.0], 1)
    assert log.certificate(budget=1).rounds == 3
    assert any(one.startswith("inclusion") for one in log.missing)
