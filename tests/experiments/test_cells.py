"""Cells: what they are called, which seeds they get, and what is left of them when they are played."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import polars
import pytest

from armtriage import CombUCB1, Greedy, StochasticEnvironment, simulate
from armtriage.catalogue import build_instance, build_policy
from armtriage.experiments import cells
from armtriage.experiments.cells import COLUMNS, Cell, Outcome, Spec, blocks, failure, play
from armtriage.experiments.identity import code_version, digest
from experiments.small_cells import (
    RANDOM,
    First,
    Leaving,
    Raising,
    cell,
    environment,
    other_two_arms,
    outcome,
    played,
    policy,
    two_arms,
)


def test_label_does_not_count() -> None:
    assert environment("a").key == environment("b").key
    assert policy("a").key == policy("b").key


def test_default_that_is_given_does_not_count() -> None:
    assert environment(**RANDOM, graph="semi_bandit", low=0.0).key == environment().key
    assert policy(policy="elimination", delta=0.01).key == policy(policy="elimination").key


def test_order_of_options_does_not_count() -> None:
    assert environment(n_arms=8, budget=2).key == environment(budget=2, n_arms=8).key


@pytest.mark.parametrize(
    "other",
    [
        environment(**{**RANDOM, "n_arms": 9}),
        environment(**RANDOM, low=0.1),
        environment(**RANDOM, seed=3),
        environment(horizon=61),
        environment(instance="ucb_failure", budget=2, alpha=2),
        environment(instance=two_arms, budget=1),
    ],
)
def test_environments_that_differ_have_other_keys(other: Spec) -> None:
    assert other.key != environment().key


@pytest.mark.parametrize(
    "other", [policy(policy="thompson"), policy(policy="elimination"), policy(policy=First), policy(width=2.0)]
)
def test_policies_that_differ_have_other_keys(other: Spec) -> None:
    assert other.key != policy().key


def test_our_own_classes_are_told_apart() -> None:
    assert policy(policy=CombUCB1).key != policy(policy=Greedy).key


def test_functions_of_the_same_name_are_told_apart_by_their_source(monkeypatch: pytest.MonkeyPatch) -> None:
    before = environment(instance=other_two_arms, budget=1).key
    monkeypatch.setattr(other_two_arms, "__qualname__", "two_arms")
    assert environment(instance=other_two_arms, budget=1).key not in (before, environment(instance=two_arms).key)


def test_option_that_is_no_value_is_refused() -> None:
    with pytest.raises(TypeError, match=r"gap\.deep must be made of numbers"):
        environment(instance=two_arms, gap={"deep": object()})


def test_numbers_of_numpy_are_numbers() -> None:
    options = {"n_arms": np.int64(8), "budget": np.int32(2), "low": np.float64(0.25)}
    assert environment(**options).key == environment(n_arms=8, budget=2, low=0.25).key


@pytest.mark.parametrize(
    "changes",
    [
        {"environment": environment(horizon=61)},
        {"policy": policy(policy="thompson")},
        {"first": 4},
        {"count": 3},
        {"checkpoints": 11},
        {"checkpoints": (5, 60)},
        {"root": 8},
        {"redraw": True},
        {"code": "another"},
        {"certificate": 0.05},
    ],
    ids=str,
)
def test_any_change_makes_another_cell(changes: dict[str, Any]) -> None:
    assert cell(**changes).id != cell().id


def test_without_certificates_names_are_what_they_were_before_there_were_any() -> None:
    one = cell()
    parts = [1, one.code, 7, one.environment.key, one.policy.key, 0, 4, 10, False]
    assert one.id == digest(parts)
    assert cell(certificate=0.05).id == digest([*parts, 0.05])


def test_labels_make_no_other_cell() -> None:
    assert cell(environment=environment("b"), policy=policy("b")).id == cell().id


def test_name_is_the_same_in_another_process() -> None:
    code = (
        "from experiments.small_cells import *; one = cell(policy=policy(policy=First)); print(one.id, one.policy_seed)"
    )
    folder = str(Path(__file__).parents[1])
    shown = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=True, timeout=300
    ).stdout
    here = cell(policy=policy(policy=First))
    assert shown.split() == [here.id, str(here.policy_seed)]


@pytest.mark.parametrize(("replications", "block"), [(1, 1), (10, 4), (8, 4), (3, 100)])
def test_blocks_cover_each_replication_once(replications: int, block: int) -> None:
    covered = [number for first, count in blocks(replications, block) for number in range(first, first + count)]
    assert covered == list(range(replications))


def test_more_replications_leave_whole_blocks_as_they_are() -> None:
    assert list(blocks(8, 4)) == list(blocks(20, 4))[:2]


def test_all_policies_of_an_environment_meet_the_same_luck() -> None:
    assert cell(policy=policy(policy="thompson")).environment_seed(0) == cell().environment_seed(0)


def test_longer_run_begins_as_the_shorter_one() -> None:
    longer = cell(environment=environment(horizon=61))
    assert longer.id != cell().id
    assert (longer.policy_seed, longer.environment_seed(0)) == (cell().policy_seed, cell().environment_seed(0))


def test_policies_have_luck_of_their_own() -> None:
    more = environment(options={"n_arms": 7, "budget": 2})
    others = [cell(policy=policy(policy="thompson")), cell(environment=more), cell(root=8)]
    assert len({one.policy_seed for one in [cell(), *others]}) == 4


def test_environment_is_the_same_in_all_replications_unless_redrawn() -> None:
    assert len({cell().environment_seed(number) for number in range(5)}) == 1
    assert len({cell(redraw=True).environment_seed(number) for number in range(5)}) == 5


def test_seed_of_the_environment_can_be_given() -> None:
    assert cell(environment=environment(**RANDOM, seed=3)).environment_seed(2) == 3


def test_table_holds_what_simulate_returns() -> None:
    one = cell(first=4, count=3)
    env, budget = build_instance("random", RANDOM, 60, one.environment_seed(4))
    made = build_policy("comb_ucb1", {}, env, budget, 60, one.policy_seed)
    trace = simulate(made, env, horizon=60, replications=7, checkpoints=10)
    table = played(one)
    assert ("cell", *table.columns) == COLUMNS
    assert table.dtypes == [polars.Int64, polars.Int64, polars.Float64, polars.Int64]
    assert table["regret"].to_list() == trace.regret[4:].ravel().tolist()
    assert table["round"].to_list() == trace.rounds.tolist() * 3
    assert table["replication"].unique().to_list() == [4, 5, 6]
    assert table["committed_at"].to_list() == np.repeat(trace.committed_at[4:], trace.rounds.size).tolist()


@pytest.mark.parametrize("redraw", [False, True])
def test_certificates_are_those_of_simulate(redraw: bool) -> None:
    one = cell(count=2, certificate=0.1, redraw=redraw)
    table = played(one)
    assert ["cell", *table.columns] == [*COLUMNS, "certificate"]
    assert table.drop("certificate").equals(played(cell(count=2, redraw=redraw)))
    for number in range(2):
        env, budget = build_instance("random", RANDOM, 60, one.environment_seed(number))
        made = build_policy("comb_ucb1", {}, env, budget, 60, one.policy_seed)
        trace = simulate(made, env, horizon=60, first_replication=number, checkpoints=10, certificate=0.1)
        assert trace.certificate is not None
        assert (
            table.filter(polars.col("replication") == number)["certificate"].to_list() == trace.certificate[0].tolist()
        )


def test_blocks_make_the_table_of_the_whole() -> None:
    thompson = policy(policy="thompson")
    parts = polars.concat([played(cell(policy=thompson, first=first, count=2)) for first in (0, 2, 4)])
    assert parts.equals(played(cell(policy=thompson, count=6)))


def test_redrawn_replication_does_not_depend_on_its_block() -> None:
    whole = played(cell(redraw=True, count=3))
    assert whole.filter(polars.col("replication") == 2).equals(played(cell(redraw=True, first=2, count=1)))
    first = whole.filter(polars.col("round") == 60)["regret"]
    assert first.n_unique() == 3


def test_table_is_the_same_bytes_every_time() -> None:
    assert outcome(cell()).table == outcome(cell(environment=environment("b"))).table != b""


def test_record_says_what_was_played() -> None:
    one = cell(environment=environment(**RANDOM, seed=3), first=4, count=2)
    record = json.loads(json.dumps(outcome(one).record))
    assert record["cell"] == one.id
    assert (record["environment"], record["policy"]) == ("easy", "ours")
    assert (record["first"], record["count"], record["horizon"], record["seed"]) == (4, 2, 60, 7)
    assert (record["environment_seeds"], record["policy_seed"]) == ([3, 3], one.policy_seed)
    assert record["code"] == code_version()
    assert record["versions"]["numpy"] == np.__version__
    assert record["seconds"] > 0
    assert record["started"].endswith("+00:00")
    assert record["error"] is None


def test_environment_of_the_last_cell_is_kept() -> None:
    made = []

    def build(seed: int) -> StochasticEnvironment:
        made.append(seed)
        return two_arms(seed=seed)

    env = environment(instance=build, budget=1)
    for first in (0, 4, 8):
        played(cell(environment=env, first=first))
    assert len(made) == 1


def test_few_environments_are_kept() -> None:
    for horizon in range(60, 70):
        played(cell(environment=environment(horizon=horizon)))
    assert cells._built.cache_info().currsize <= 2


def failed(one: Cell) -> Outcome:
    made = outcome(one)
    assert made.table == b""
    assert made.record["digest"] is None
    return made


@pytest.mark.filterwarnings("ignore:Raising is not compiled")
def test_failure_is_kept_with_its_traceback() -> None:
    error = failed(cell(policy=policy(policy=Raising))).record["error"]
    assert "ZeroDivisionError: no arm is good enough" in error
    assert "small_cells.py" in error


@pytest.mark.filterwarnings("ignore:Leaving is not compiled")
def test_exit_is_a_failure() -> None:
    assert "SystemExit: enough" in failed(cell(policy=policy(policy=Leaving))).record["error"]


def test_environment_that_cannot_be_built_is_a_failure() -> None:
    env = environment(instance=two_arms, gap=0.9, budget=1)
    assert "means must lie in [0, 1]" in failed(cell(environment=env)).record["error"]


def test_other_code_is_a_failure() -> None:
    assert "the code here is" in failed(cell(code="another")).record["error"]


def test_failure_elsewhere_has_the_same_fields() -> None:
    assert failure(cell(), "gone").record.keys() == outcome(cell()).record.keys()


def test_cell_that_is_stopped_leaves_nothing() -> None:
    stop = threading.Event()
    stop.set()
    assert play(cell(), stop) is None


@pytest.mark.filterwarnings("ignore:First is not compiled")
def test_cell_can_be_stopped_in_the_middle() -> None:
    stop = threading.Event()
    endless = cell(environment=environment(horizon=10**12), policy=policy(policy=First))
    threading.Timer(0.5, stop.set).start()
    assert play(endless, stop) is None
