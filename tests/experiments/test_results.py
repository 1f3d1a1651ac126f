"""Results say what the cells in a folder say: all of it, in order, and no more than the runs can tell."""

from __future__ import annotations

import io
import json
import math
import random
import shutil
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars
import pytest
from numpy.typing import NDArray

from armtriage import Experiment, Results, Trace, UniformRandom, random_bernoulli, simulate
from armtriage.errors import DamagedFile
from armtriage.experiments.cells import Cell, Outcome, Spec, failure, table_digest
from armtriage.experiments.folder import Folder
from armtriage.experiments.manifest import Manifest
from armtriage.experiments.plan import make_plan
from armtriage.experiments.statistics import ratio_interval, slope_interval
from armtriage.graphs.feedback import FeedbackGraph
from conftest import score

ROUNDS = np.array([1, 10, 100])
VERSIONS = {"armtriage": "0.1", "python": "3.11", "numpy": "2.0", "numba": "0.61", "scipy": "1.13", "polars": "1.20"}
Regret = Callable[[Cell, int], Any]


def environment(label: str, horizon: int = 100, instance: str = "random", **options: Any) -> Spec:
    return Spec(label, instance, options, horizon, key=f"key of {label}")


def policy(label: str, name: str = "greedy", **options: Any) -> Spec:
    return Spec(label, name, options, key=f"key of {label}")


def some_regret(cell: Cell, replication: int) -> NDArray[np.float64]:
    """Luck that the policies of a replication share, and some of their own; it grows with the rounds."""
    shared = np.random.default_rng([*cell.environment.label.encode(), replication]).gamma(4.0)
    own = np.random.default_rng([*cell.policy.label.encode(), replication]).gamma(4.0)
    return (shared + 0.1 * own) * np.sqrt(ROUNDS)


def table_of(cell: Cell, regret: Regret) -> bytes:
    rows = np.array([np.broadcast_to(regret(cell, number), ROUNDS.shape) for number in cell.replications], float)
    buffer = io.BytesIO()
    polars.DataFrame(
        {
            "cell": [cell.id] * rows.size,
            "replication": np.repeat(np.array(cell.replications), ROUNDS.size),
            "round": np.tile(ROUNDS, cell.count),
            "regret": rows.ravel(),
            "committed_at": np.repeat(np.array([number - 1 for number in cell.replications]), ROUNDS.size),
        }
    ).write_parquet(buffer)
    return buffer.getvalue()


def outcome_of(cell: Cell, regret: Regret = some_regret) -> Outcome:
    table = table_of(cell, regret)
    record = {"cell": cell.id, "started": "2026-01-02T03:04:05.000006+00:00", "seconds": 0.5 * cell.count}
    record |= {"versions": VERSIONS, "host": "here", "engine": "threads", "n_arms": 9, "error": None}
    return Outcome(table, {**record, "digest": table_digest(table)})


def manifest_of(
    environments: Iterable[Spec],
    policies: Iterable[Spec],
    pairs: Iterable[tuple[int, int]] | None = None,
    *,
    replications: int = 6,
    block: int = 2,
    seed: int = 7,
    redraw: bool = False,
) -> Manifest:
    environments, policies = tuple(environments), tuple(policies)
    if pairs is None:
        pairs = [(one, other) for one in range(len(environments)) for other in range(len(policies))]
    points = tuple(ROUNDS.tolist())
    rest = tuple(pairs), replications, block, points, redraw, {}
    return Manifest("study", seed, "0.1+code", environments, policies, *rest)


def keep(
    path: Path,
    manifest: Manifest,
    regret: Regret = some_regret,
    *,
    failed: Iterable[Cell] = (),
    missing: Iterable[Cell] = (),
) -> Path:
    """Write the folder that playing the experiment leaves, in an order of no meaning."""
    failed, missing = list(failed), list(missing)
    cells = [cell for cell in manifest.cells if cell not in missing]
    random.Random(1).shuffle(cells)
    with Folder(path) as folder:
        folder.begin(manifest)
        for cell in cells:
            folder.keep(cell, failure(cell, "Traceback: no luck") if cell in failed else outcome_of(cell, regret))
    return path


def results_of(path: Path, manifest: Manifest, regret: Regret = some_regret, **rest: Any) -> Results:
    return Results.load(keep(path, manifest, regret, **rest))


ENVIRONMENTS = (environment("few", n_arms=5, budget=2), environment("many", n_arms=50, budget=2))
POLICIES = (policy("ucb", "comb_ucb1"), policy("greedy"))


@pytest.fixture
def results(tmp_path: Path) -> Results:
    return results_of(tmp_path, manifest_of(ENVIRONMENTS, POLICIES))


def final(results: Results, **where: str) -> NDArray[np.float64]:
    """Return the regrets at the last round, by replication, from the long table alone."""
    table = results.regret.filter(polars.col("round") == ROUNDS[-1], **where).sort("replication")
    return table["regret"].to_numpy()


def certified(path: Path, certificate: float) -> Results:
    """Return results with certificates of that many times the regret; those of replication 3 are too small."""
    manifest = replace(manifest_of(ENVIRONMENTS, POLICIES), certificate=0.05)
    with Folder(path) as folder:
        folder.begin(manifest)
        for cell in manifest.cells:
            table = polars.read_parquet(io.BytesIO(table_of(cell, some_regret)))
            short = polars.when(polars.col("replication") == 3).then(0.5).otherwise(certificate)
            buffer = io.BytesIO()
            table.with_columns(certificate=polars.col("regret") * short).write_parquet(buffer)
            record = {**outcome_of(cell).record, "digest": table_digest(buffer.getvalue())}
            folder.keep(cell, Outcome(buffer.getvalue(), record))
    return Results.load(path)


def test_certificates_stand_beside_the_regret(tmp_path: Path, results: Results) -> None:
    made = certified(tmp_path / "certified", 3.0)
    assert made.manifest.certificate == 0.05
    assert made.regret.drop("certificate").equals(results.regret)
    wanted = made.regret["regret"] * made.regret["replication"].replace_strict({3: 0.5}, default=3.0)
    assert made.regret["certificate"].to_list() == pytest.approx(wanted.to_list())
    trace = made.traces("few")["ucb"]
    assert trace.certificate is not None
    assert trace.certificate[0] == pytest.approx(3.0 * trace.regret[0])
    assert results.traces("few")["ucb"].certificate is None


def test_certificates_are_held_against_the_truth(tmp_path: Path) -> None:
    made = certified(tmp_path, 3.0)
    table = made.certificates(at=10)
    own = made.regret.filter(polars.col("round") == 10, environment="many", policy="greedy")
    row = table.row(by_predicate=(polars.col("environment") == "many") & (polars.col("policy") == "greedy"), named=True)
    assert (row["round"], row["runs"], row["exceeded"]) == (10, 6, 1)
    assert row["certificate"] == pytest.approx(own["certificate"].mean())
    assert row["ratio"] == pytest.approx(own["certificate"].mean() / own["regret"].mean())
    assert (row["ratio_low"], row["ratio_high"]) == pytest.approx(ratio_interval(own["certificate"], own["regret"]))
    assert made.summary(at=10)["certificate"].to_list() == table["certificate"].to_list()
    assert made.summary().columns[-1] == "certificate"


def test_results_without_certificates_say_so(results: Results) -> None:
    assert "certificate" not in (*results.regret.columns, *results.summary().columns)
    with pytest.raises(ValueError, match="certificate must be given to the experiment"):
        results.certificates()


def test_regret_has_every_number_in_canonical_order(results: Results) -> None:
    expected = [
        (cell.environment.label, cell.policy.label, number, at, regret)
        for cell in results.manifest.cells
        for number in cell.replications
        for at, regret in zip(ROUNDS.tolist(), some_regret(cell, number).tolist(), strict=True)
    ]
    assert results.regret.select("environment", "policy", "replication", "round", "regret").rows() == expected
    assert len(expected) == 2 * 2 * 6 * 3


def test_regret_has_the_columns_of_the_configuration(results: Results) -> None:
    options = ["horizon", "environment.instance", "environment.n_arms", "environment.budget", "policy.policy"]
    assert results.regret.columns == ["environment", "policy", *options, "replication", "round", "regret"]
    rows = results.regret.select("environment", "environment.n_arms", "policy", "policy.policy").unique(
        maintain_order=True
    )
    assert rows.rows() == [
        ("few", 5, "ucb", "comb_ucb1"),
        ("few", 5, "greedy", "greedy"),
        ("many", 50, "ucb", "comb_ucb1"),
        ("many", 50, "greedy", "greedy"),
    ]


def column(path: Path, options: Iterable[Mapping[str, Any]], name: str) -> polars.Series:
    environments = [environment(f"env {place}", **one) for place, one in enumerate(options)]
    return results_of(path, manifest_of(environments, POLICIES[:1])).summary()[name]


@pytest.mark.parametrize(
    ("values", "kind", "expected"),
    [
        ([1, 2], polars.Int64, [1, 2]),
        ([1, 2.5], polars.Float64, [1.0, 2.5]),
        ([True, False], polars.Boolean, [True, False]),
        (["a", "b"], polars.String, ["a", "b"]),
        (["auto", 5], polars.String, ["auto", "5"]),
        ([True, 1], polars.String, ["true", "1"]),
        ([[0.9, 0.5], [1]], polars.String, ["[0.9, 0.5]", "[1]"]),
        ([None, 3], polars.Int64, [None, 3]),
        ([None, None], polars.String, [None, None]),
        ([1, 2**70], polars.String, ["1", str(2**70)]),
    ],
)
def test_option_has_one_type(tmp_path: Path, values: list[Any], kind: Any, expected: list[Any]) -> None:
    made = column(tmp_path, [{"option": value} for value in values], "environment.option")
    assert made.dtype == kind
    assert made.to_list() == expected


def test_option_that_others_lack_is_null_for_them(tmp_path: Path) -> None:
    made = column(tmp_path, [{"n_arms": 5}, {"graph": "cliques", "size": 2}, {}], "environment.size")
    assert made.to_list() == [None, 2, None]


def test_options_of_a_table_have_columns_of_their_own(tmp_path: Path) -> None:
    options = [{"graph": {"family": "cliques", "size": 5}}, {"graph": "star"}]
    made = results_of(tmp_path, manifest_of([environment(str(n), **one) for n, one in enumerate(options)], POLICIES))
    assert made.summary().select("environment.graph.family", "environment.graph.size", "environment.graph").rows() == [
        ("cliques", 5, None),
        ("cliques", 5, None),
        (None, None, "star"),
        (None, None, "star"),
    ]


def test_policies_play_only_where_they_fit(tmp_path: Path) -> None:
    made = results_of(tmp_path, manifest_of(ENVIRONMENTS, POLICIES, [(0, 0), (1, 1)]))
    assert made.summary().select("environment", "policy").rows() == [("few", "ucb"), ("many", "greedy")]
    assert made.regret.height == 2 * 6 * 3
    assert list(made.traces("many")) == ["greedy"]


def test_failed_cell_is_a_row_with_its_traceback_and_no_regret(tmp_path: Path) -> None:
    manifest = manifest_of(ENVIRONMENTS, POLICIES)
    made = results_of(tmp_path, manifest, failed=manifest.cells[1:2])
    assert (made.failed, made.missing) == (1, 0)
    assert made.regret.height == (2 * 2 * 6 - 2) * 3
    failed = made.runs.filter(polars.col("error").is_not_null())
    assert failed.select("environment", "policy", "replication", "error").rows() == [
        ("few", "ucb", 2, "Traceback: no luck"),
        ("few", "ucb", 3, "Traceback: no luck"),
    ]
    assert made.runs.height == 24


def test_summary_counts_the_runs_that_are_there(tmp_path: Path) -> None:
    manifest = manifest_of(ENVIRONMENTS, POLICIES)
    made = results_of(tmp_path, manifest, failed=manifest.cells[1:2], missing=manifest.cells[5:6])
    summary = made.summary()
    assert summary["runs"].to_list() == [4, 4, 6, 6]
    left = [some_regret(manifest.cells[0], number)[-1] for number in (0, 1, 4, 5)]
    assert summary["mean"][0] == pytest.approx(np.mean(left))
    assert summary["std"][0] == pytest.approx(np.std(left, ddof=1))


def test_pair_without_runs_has_a_row_without_numbers(tmp_path: Path) -> None:
    manifest = manifest_of(ENVIRONMENTS, POLICIES)
    made = results_of(tmp_path, manifest, failed=manifest.cells[:3])
    row = made.summary(baseline="greedy").row(0, named=True)
    assert row["runs"] == 0
    names = ("round", "mean", "low", "high", "std", "difference", "difference_low", "difference_high", "ratio")
    assert {row[name] for name in names} == {None}
    assert made.differences("greedy")["runs"].to_list() == [0, 6]
    assert list(made.traces("few")) == ["greedy"]


def test_missing_cells_are_counted(tmp_path: Path) -> None:
    manifest = manifest_of(ENVIRONMENTS, POLICIES)
    made = results_of(tmp_path, manifest, missing=manifest.cells[:4])
    assert (made.failed, made.missing) == (0, 4)
    assert made.runs.height == 24 - 8


def test_folder_without_cells_gives_empty_tables(tmp_path: Path, results: Results) -> None:
    manifest = manifest_of(ENVIRONMENTS, POLICIES)
    made = results_of(tmp_path / "empty", manifest, missing=manifest.cells)
    assert made.missing == len(manifest.cells)
    assert (made.regret.height, made.regret.schema) == (0, results.regret.schema)
    assert (made.runs.height, made.runs.schema) == (0, results.runs.schema)
    assert made.summary()["runs"].to_list() == [0] * 4
    assert made.summary().schema == results.summary().schema
    assert made.differences("ucb").schema == results.differences("ucb").schema
    assert made.slopes("environment.n_arms")["slope"].to_list() == [None, None]
    assert made.traces("few") == {}
    assert "12 cells of 12 missing" in repr(made)


def test_cells_of_an_earlier_configuration_are_stale(tmp_path: Path) -> None:
    keep(tmp_path, manifest_of(ENVIRONMENTS, POLICIES))
    changed = manifest_of(ENVIRONMENTS, [POLICIES[0], Spec("greedy", "greedy", {}, key="another")])
    made = results_of(tmp_path, changed, lambda cell, number: 1.0, missing=changed.cells[:3])
    assert made.stale == 6
    assert made.regret.filter(policy="greedy")["regret"].unique().to_list() == [1.0]


def test_cell_that_failed_once_and_then_succeeded_is_fine(tmp_path: Path) -> None:
    manifest = manifest_of(ENVIRONMENTS, POLICIES)
    keep(tmp_path, manifest, failed=manifest.cells)
    assert Results.load(tmp_path).failed == len(manifest.cells)
    made = results_of(tmp_path, manifest)
    assert (made.failed, made.missing) == (0, 0)
    assert made.runs["error"].null_count() == made.runs.height == 24


def test_damaged_file_counts_as_missing(tmp_path: Path) -> None:
    manifest = manifest_of(ENVIRONMENTS, POLICIES)
    keep(tmp_path, manifest)
    place = Folder(tmp_path).place(manifest.cells[0])
    place.write_bytes(place.read_bytes()[:-40])
    with pytest.warns(UserWarning, match="damaged"):
        made = Results.load(tmp_path)
    assert made.missing == 1
    assert made.summary()["runs"].to_list() == [4, 6, 6, 6]


def forged(path: Path, change: Callable[[polars.DataFrame], polars.DataFrame]) -> Path:
    """Write a folder in which one table was altered, and the log with it."""
    manifest = manifest_of(ENVIRONMENTS, POLICIES)
    one = manifest.cells[3]
    keep(path, manifest, missing=[one])
    made, buffer = outcome_of(one), io.BytesIO()
    change(polars.read_parquet(io.BytesIO(made.table))).write_parquet(buffer)
    with Folder(path) as folder:
        record = {**made.record, "digest": table_digest(buffer.getvalue())}
        folder.keep(one, Outcome(buffer.getvalue(), record))
        return folder.place(one)


@pytest.mark.parametrize(
    "change",
    [
        lambda table: table.head(3),
        lambda table: polars.concat([table] * 2),
        lambda table: table.drop("regret"),
        lambda table: table.with_columns(polars.col("regret").cast(polars.String)),
        lambda table: table.with_columns(polars.lit(None, polars.Float64).alias("regret")),
        lambda table: table.with_columns(polars.col("round") + 1),
        lambda table: table.with_columns(polars.col("replication") - 1),
    ],
    ids=["short", "long", "column", "kind", "nulls", "rounds", "replications"],
)
def test_table_that_its_log_was_forged_for_is_named(change: Any, tmp_path: Path) -> None:
    place = forged(tmp_path, change)
    with pytest.raises(DamagedFile, match=f"{place.name} is not the table of its cell: remove it"):
        Results.load(tmp_path)


def test_garbage_that_its_log_was_forged_for_is_named(tmp_path: Path) -> None:
    place = forged(tmp_path, lambda table: table)
    garbage = place.read_bytes()[:-30] + bytes(30)
    with Folder(tmp_path) as folder:
        cell = next(one for one in folder.manifest().cells if one.id == place.stem)
        folder.keep(cell, Outcome(garbage, {**outcome_of(cell).record, "digest": table_digest(garbage)}))
    with pytest.raises(DamagedFile, match="is not the table of its cell"):
        Results.load(tmp_path)


def test_results_of_more_cells_than_wanted_are_refused(tmp_path: Path) -> None:
    keep(tmp_path, manifest_of(ENVIRONMENTS, POLICIES))
    with pytest.raises(ValueError, match=r"max_cells must be at least the 12 cells of .*, got 11"):
        Results.load(tmp_path, max_cells=11)
    assert Results.load(tmp_path, max_cells=12).missing == 0
    Folder(tmp_path).begin(manifest_of(ENVIRONMENTS, POLICIES, replications=10**12))
    with pytest.raises(ValueError, match="at least the 2,000,000,000,000 cells"):
        Results.load(tmp_path)


VALUES: tuple[Any, ...] = (None, True, -1, 0, 1, 7, 10**30, 0.5, math.nan, "", "x", "\ud800", [], [1], {}, {"a": [1]})


def mutated(value: Any, chance: random.Random) -> Any:
    """Return a JSON value with one thing in it that is otherwise: another value, one left out, or one doubled."""
    if not isinstance(value, dict | list) or not value or chance.random() < 0.1:
        return chance.choice(VALUES)
    keys = list(value) if isinstance(value, dict) else list(range(len(value)))
    key, made = chance.choice(keys), value.copy()
    what = chance.random()
    if what < 0.1:
        del made[key]
    elif what < 0.15 and isinstance(made, list):
        made.append(made[key])
    else:
        made[key] = mutated(value[key], chance)
    return made


@pytest.mark.parametrize("times", [80, pytest.param(400, marks=pytest.mark.long)])
def test_mutated_manifests_are_refused_or_read(times: int, tmp_path: Path) -> None:
    keep(tmp_path, replace(manifest_of(ENVIRONMENTS, POLICIES), definition={"horizon": 100}, certificate=0.0))
    place = tmp_path / "experiment.json"
    right, chance = json.loads(place.read_text(encoding="utf-8")), random.Random(5)
    damaged, large = [], []
    for _ in range(times):
        place.write_text(json.dumps(mutated(right, chance)), encoding="utf-8")
        try:
            made = Results.load(tmp_path)
        except DamagedFile as error:
            damaged.append(str(error))
        except ValueError as error:
            large.append(str(error))
        else:
            assert made.regret.height + made.summary().height + made.runs.height >= 0
            assert repr(made)
    assert times / 4 < len(damaged) < times
    assert all(one.startswith(f"{place} is not the manifest of an experiment: ") for one in damaged)
    assert all(one.startswith("max_cells must be at least") for one in large)
    score("manifests of experiments, mutated", times, "a sentence that says why, or tables")


@pytest.mark.parametrize("times", [30, pytest.param(200, marks=pytest.mark.long)])
def test_mutated_logs_are_skipped_or_read(times: int, tmp_path: Path) -> None:
    manifest = manifest_of(ENVIRONMENTS, POLICIES)
    keep(tmp_path, manifest, failed=manifest.cells[:2])
    [log] = tmp_path.glob("runs/*.jsonl")
    lines, chance = log.read_text(encoding="utf-8").splitlines(), random.Random(5)
    for _ in range(times):
        changed = [json.dumps(mutated(json.loads(line), chance)) for line in lines]
        log.write_text("\n".join(changed), encoding="utf-8")
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*damaged files count as missing")
            made = Results.load(tmp_path)
            make_plan(manifest.cells, [one.id for one in manifest.cells], Folder(tmp_path).records())
        assert made.summary().height == 4
        assert repr(made)
    score("logs of experiments, mutated", times, "lines that are not records are passed over")


def test_tables_without_their_logs_are_read(tmp_path: Path, results: Results) -> None:
    keep(tmp_path / "bare", manifest_of(ENVIRONMENTS, POLICIES))
    shutil.rmtree(tmp_path / "bare" / "runs")
    made = Results.load(tmp_path / "bare")
    assert made.regret.equals(results.regret)
    assert made.runs["seconds"].null_count() == made.runs.height
    assert made.runs["policy_seed"].equals(results.runs["policy_seed"])


def test_many_files_are_read_in_several_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, results: Results) -> None:
    monkeypatch.setattr("armtriage.experiments.tables._FILES", 5)
    assert results_of(tmp_path / "other", manifest_of(ENVIRONMENTS, POLICIES)).regret.equals(results.regret)


def test_order_of_the_folder_does_not_matter(tmp_path: Path, results: Results) -> None:
    manifest = manifest_of(ENVIRONMENTS, POLICIES)
    keep(tmp_path / "other", manifest, missing=manifest.cells[::2])
    made = results_of(tmp_path / "other", manifest)
    assert made.regret.equals(results.regret)
    assert made.runs.equals(results.runs)


def test_runs_has_a_row_a_run(results: Results) -> None:
    row = results.runs.row(7, named=True)
    cell = results.manifest.cells[3]
    assert (row["environment"], row["policy"], row["replication"], row["cell"]) == ("few", "greedy", 1, cell.id)
    assert (row["seconds"], row["rounds_per_second"]) == (0.5, 200.0)
    assert (row["environment_seed"], row["policy_seed"], row["seed"]) == (
        cell.environment_seed(1),
        cell.policy_seed,
        7,
    )
    assert (row["version"], row["code"], row["numba"]) == ("0.1", "0.1+code", "0.61")
    assert (row["host"], row["engine"], row["error"]) == ("here", "threads", None)
    assert row["started"].isoformat() == "2026-01-02T03:04:05.000006+00:00"
    assert results.runs["committed_at"].to_list() == [None, 0, 1, 2, 3, 4] * 4


def test_seeds_of_any_size_are_told(tmp_path: Path) -> None:
    made = results_of(tmp_path, manifest_of(ENVIRONMENTS, POLICIES, seed=2**70))
    assert made.runs["seed"].unique().to_list() == [str(2**70)]


def test_seeds_differ_by_replication_where_instances_are_drawn_anew(tmp_path: Path) -> None:
    made = results_of(tmp_path, manifest_of(ENVIRONMENTS, POLICIES, redraw=True))
    few = made.runs.filter(environment="few")
    assert few.filter(policy="ucb")["environment_seed"].n_unique() == 6
    assert few.filter(policy="ucb")["environment_seed"].equals(few.filter(policy="greedy")["environment_seed"])
    assert made.traces("few")["ucb"].environment_seed is None


def test_summary_is_that_of_the_runs(results: Results) -> None:
    for row in results.summary(level=0.9).iter_rows(named=True):
        values = final(results, environment=row["environment"], policy=row["policy"])
        trace = results.traces(row["environment"])[row["policy"]]
        low, high = (end[-1] for end in trace.interval(0.9))
        assert (row["round"], row["runs"]) == (100, 6)
        assert row["mean"] == pytest.approx(values.mean())
        assert row["std"] == pytest.approx(values.std(ddof=1))
        assert (row["low"], row["high"]) == pytest.approx((low, high))


def test_summary_takes_another_round(results: Results) -> None:
    early = results.regret.filter(round=10, environment="many", policy="ucb")["regret"]
    assert results.summary(at=10)["mean"][2] == pytest.approx(early.mean())
    assert results.summary(at=10)["round"].to_list() == [10] * 4


@pytest.mark.parametrize(("at", "near"), [(11, "10 and 100"), (101, "100")])
def test_summary_refuses_a_round_that_was_not_kept(results: Results, at: int, near: str) -> None:
    with pytest.raises(ValueError, match=f"at must be .* got {at}; in 'few' the nearest are {near}"):
        results.summary(at=at)


@pytest.mark.parametrize("interval", ["t", "bootstrap"])
def test_one_replication_has_no_interval(tmp_path: Path, interval: str) -> None:
    made = results_of(tmp_path, manifest_of(ENVIRONMENTS, POLICIES, replications=1))
    summary = made.summary(interval=interval, baseline="greedy")
    assert summary["mean"].null_count() == summary["difference"].null_count() == 0
    for name in ("low", "high", "std", "difference_low", "difference_high"):
        assert summary[name].null_count() == 4
    assert "one run: none" in repr(made)


def test_tables_become_those_of_pandas_with_the_extra(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    summary = results_of(tmp_path, manifest_of(ENVIRONMENTS, POLICIES, replications=2)).summary()
    assert summary.to_pandas().to_dict("list") == summary.to_dict(as_series=False)


def test_two_replications_have_a_wide_interval(tmp_path: Path) -> None:
    made = results_of(tmp_path, manifest_of(ENVIRONMENTS, POLICIES, replications=2))
    row = made.summary().row(0, named=True)
    assert row["high"] - row["mean"] == pytest.approx(12.7062 * row["std"] / math.sqrt(2), rel=1e-4)
    assert made.summary(interval="bootstrap")["low"].null_count() == 4


def test_zero_regret_is_certain(tmp_path: Path) -> None:
    made = results_of(tmp_path, manifest_of(ENVIRONMENTS, POLICIES), lambda cell, number: 0.0)
    row = made.summary(baseline="ucb", interval="bootstrap").row(1, named=True)
    assert (row["mean"], row["low"], row["high"], row["std"]) == (0.0, 0.0, 0.0, 0.0)
    assert (row["difference"], row["difference_low"], row["ratio"]) == (0.0, 0.0, None)
    assert made.slopes("environment.n_arms")["slope"].to_list() == [None, None]


def test_bootstrap_is_the_same_again_and_whatever_else_there_is(tmp_path: Path, results: Results) -> None:
    alone = results_of(tmp_path / "alone", manifest_of(ENVIRONMENTS[:1], POLICIES[1:]))
    row = alone.summary(interval="bootstrap").select("mean", "low", "high").row(0)
    assert results.summary(interval="bootstrap").select("mean", "low", "high").row(1) == row
    assert row != results.summary().select("mean", "low", "high").row(1)


def test_differences_are_paired_by_replication(results: Results) -> None:
    for row in results.differences("greedy", level=0.9).iter_rows(named=True):
        own = final(results, environment=row["environment"], policy="ucb")
        base = final(results, environment=row["environment"], policy="greedy")
        gap = own - base
        half = 2.015048 * gap.std(ddof=1) / math.sqrt(6)  # Student's t, 5 degrees of freedom
        assert (row["policy"], row["runs"]) == ("ucb", 6)
        assert row["difference"] == pytest.approx(gap.mean())
        assert (row["low"], row["high"]) == pytest.approx((gap.mean() - half, gap.mean() + half))
        assert row["better"] == np.mean(own < base)
        assert row["ratio"] == pytest.approx(own.mean() / base.mean())
        assert row["ratio_low"] < row["ratio"] < row["ratio_high"]


def test_differences_use_the_replications_that_both_have(tmp_path: Path) -> None:
    manifest = manifest_of(ENVIRONMENTS[:1], POLICIES)
    # The first block of one and the last of the other are not there: only the middle one, 2 and 3, is in both.
    made = results_of(tmp_path, manifest, failed=[manifest.cells[0]], missing=[manifest.cells[5]])
    row = made.differences("greedy").row(0, named=True)
    gaps = [some_regret(manifest.cells[0], n)[-1] - some_regret(manifest.cells[3], n)[-1] for n in (2, 3)]
    assert row["runs"] == 2
    assert row["difference"] == pytest.approx(np.mean(gaps))


def test_differences_without_a_common_replication_are_unknown(tmp_path: Path) -> None:
    manifest = manifest_of(ENVIRONMENTS[:1], POLICIES, replications=4)
    made = results_of(tmp_path, manifest, missing=[manifest.cells[0], manifest.cells[3]])
    row = made.differences("greedy").row(0, named=True)
    assert (row["runs"], row["difference"], row["better"], row["ratio"]) == (0, None, None, None)


def test_shared_luck_makes_differences_sharp(results: Results) -> None:
    means, gaps = results.summary(), results.differences("greedy")
    for label in ("few", "many"):
        mean = means.filter(environment=label, policy="ucb").row(0, named=True)
        gap = gaps.filter(environment=label).row(0, named=True)
        assert gap["high"] - gap["low"] < 0.5 * (mean["high"] - mean["low"])


def test_differences_leave_out_environments_without_the_baseline(tmp_path: Path) -> None:
    made = results_of(tmp_path, manifest_of(ENVIRONMENTS, POLICIES, [(0, 0), (0, 1), (1, 1)]))
    assert made.differences("ucb").select("environment", "policy").rows() == [("few", "greedy")]
    summary = made.summary(baseline="ucb")
    assert summary["difference"].is_null().to_list() == [False, False, True]
    assert summary["difference"][0] == 0.0
    assert summary["ratio"][0] == 1.0


def test_summary_with_a_baseline_says_what_differences_say(results: Results) -> None:
    names = {"low": "difference_low", "high": "difference_high"}
    gaps = results.differences("ucb", interval="bootstrap").rename(names).select("difference", *names.values(), "ratio")
    summary = results.summary(baseline="ucb", interval="bootstrap").filter(policy="greedy")
    assert summary.select(gaps.columns).equals(gaps)


def sweep(path: Path, regret: Regret, **rest: Any) -> Results:
    environments = [
        environment(f"{graph} {n_arms}", graph=graph, n_arms=n_arms, budget=2)
        for graph in ("star", "cliques")
        for n_arms in (100, 10, 1000)
    ]
    return results_of(path, manifest_of(environments, POLICIES), regret, **rest)


def power(cell: Cell, replication: int) -> float:
    exponent = {"ucb": 0.5, "greedy": 1.0}[cell.policy.label] + (cell.environment.options["graph"] == "star")
    luck = np.random.default_rng([*cell.environment.label.encode(), *cell.policy.label.encode(), replication])
    return float(cell.environment.options["n_arms"] ** exponent * luck.gamma(100.0) / 100)


def test_scaling_has_a_line_for_each_policy_and_kind_of_environment(tmp_path: Path) -> None:
    table = sweep(tmp_path, power).scaling("environment.n_arms")
    assert table.columns == ["policy", "environment.graph", "environment.n_arms", "mean", "low", "high", "runs"]
    assert table.select("policy", "environment.graph", "environment.n_arms").rows() == [
        (label, graph, n_arms)
        for label in ("ucb", "greedy")
        for graph in ("star", "cliques")
        for n_arms in (10, 100, 1000)
    ]


def test_scaling_has_the_means_of_the_summary(tmp_path: Path) -> None:
    made = sweep(tmp_path, power)
    names = ["policy", "environment.graph", "environment.n_arms"]
    options: dict[str, Any] = {"level": 0.5, "interval": "bootstrap", "at": 10}
    table, summary = made.scaling("environment.n_arms", **options), made.summary(**options)
    both = table.join(summary, on=names, validate="1:1")
    assert both.height == 12
    for name in ("mean", "low", "high", "runs"):
        assert both[name].equals(both[f"{name}_right"], check_names=False)


def test_slopes_are_the_powers(tmp_path: Path) -> None:
    slopes = sweep(tmp_path, power).slopes("environment.n_arms")
    assert slopes.select("policy", "environment.graph", "points").rows() == [
        ("ucb", "star", 3),
        ("ucb", "cliques", 3),
        ("greedy", "star", 3),
        ("greedy", "cliques", 3),
    ]
    for row, power_of in zip(slopes.iter_rows(named=True), (1.5, 0.5, 2.0, 1.0), strict=True):
        assert row["low"] < power_of < row["high"]
        assert row["high"] - row["low"] < 0.1


def test_slopes_are_those_of_the_runs(tmp_path: Path) -> None:
    made = sweep(tmp_path, power)
    values = [final(made, environment=f"star {n_arms}", policy="greedy") for n_arms in (10, 100, 1000)]
    expected = slope_interval([10, 100, 1000], values, [range(6)] * 3, [1, 2, 3], level=0.8)
    assert made.slopes("environment.n_arms", level=0.8).select("slope", "low", "high").row(2) == pytest.approx(expected)


@pytest.mark.parametrize("seed", [0, 5])
def test_slopes_know_which_environments_share_their_luck(tmp_path: Path, seed: int) -> None:
    def regret(cell: Cell, number: int) -> float:
        luck = np.random.default_rng([number]).gamma(4.0)
        return float(luck * cell.environment.horizon**0.5 * (1 + 0.01 * (cell.environment_seed(0) + number) % 3))

    horizons = (100, 1000, 10_000)
    pinned = [environment(f"{horizon}", horizon, n_arms=5, seed=seed) for horizon in horizons]
    drawn = [environment(f"{horizon}", horizon, n_arms=5) for horizon in horizons]
    sharp, blunt = (
        results_of(tmp_path / name, manifest_of(these, POLICIES[:1]), regret).slopes("horizon").row(0, named=True)
        for name, these in (("pinned", pinned), ("drawn", drawn))
    )
    assert sharp["high"] - sharp["low"] < 0.1 * (blunt["high"] - blunt["low"])


def test_slopes_skip_points_without_runs(tmp_path: Path) -> None:
    manifest = sweep(tmp_path / "whole", power).manifest
    gone = [cell for cell in manifest.cells if cell.environment.label == "star 10" and cell.policy.label == "ucb"]
    made = sweep(tmp_path / "part", power, missing=gone)
    assert made.slopes("environment.n_arms")["points"].to_list() == [2, 3, 3, 3]
    assert made.scaling("environment.n_arms")["mean"].is_null().to_list() == [True] + [False] * 11


def test_one_line_can_be_asked_for(tmp_path: Path) -> None:
    environments = [environment(f"{n}", n_arms=n, budget=n // 10) for n in (10, 100)]
    made = results_of(tmp_path, manifest_of(environments, POLICIES))
    assert made.slopes("environment.n_arms")["points"].to_list() == [1, 1, 1, 1]
    assert made.slopes("environment.n_arms")["slope"].null_count() == 4
    assert made.slopes("environment.n_arms", by=[])["points"].to_list() == [2, 2]
    assert made.scaling("environment.n_arms", by=["environment.budget"]).columns[1] == "environment.budget"


def test_environments_that_nothing_tells_apart_are_refused(tmp_path: Path) -> None:
    made = sweep(tmp_path, power)
    with pytest.raises(ValueError, match=r"by must tell apart .* same environment\.n_arms, got nothing"):
        made.scaling("environment.n_arms", by=[])


def test_environments_without_the_parameter_are_left_out(tmp_path: Path) -> None:
    environments = [*ENVIRONMENTS, environment("star", instance="star")]
    made = results_of(tmp_path, manifest_of(environments, POLICIES))
    assert made.scaling("environment.n_arms")["environment.n_arms"].to_list() == [5, 50, 5, 50]


@pytest.mark.parametrize("parameter", ["n_arms", "environment.instance", "policy.policy", "environment"])
def test_parameter_must_be_a_number_of_the_environments(results: Results, parameter: str) -> None:
    with pytest.raises(ValueError, match=r"parameter must be one of horizon, environment\.n_arms, environment\.budget"):
        results.scaling(parameter)
    with pytest.raises(ValueError, match="parameter must be one of"):
        results.slopes(parameter)


def test_slopes_need_a_parameter_above_0(tmp_path: Path) -> None:
    environments = [environment(f"{low}", low=low) for low in (0.0, 0.5)]
    with pytest.raises(ValueError, match=r"environment\.low must be above 0"):
        results_of(tmp_path, manifest_of(environments, POLICIES)).slopes("environment.low")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"level": 1.0}, "level must be a number strictly between 0 and 1, got 1.0"),
        ({"interval": "normal"}, "interval must be one of t, bootstrap, got 'normal'"),
        ({"at": 0}, "at must be a whole number from 1, got 0"),
        ({"baseline": "ucb1"}, "baseline must be one of ucb, greedy, got 'ucb1'"),
    ],
)
def test_summary_refuses(results: Results, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        results.summary(**options)


def test_differences_refuse_an_unknown_baseline(results: Results) -> None:
    with pytest.raises(ValueError, match="baseline must be one of ucb, greedy, got 'none'"):
        results.differences("none")


def test_traces_refuse_an_unknown_environment(results: Results) -> None:
    with pytest.raises(ValueError, match="environment must be one of few, many, got None"):
        results.traces()
    with pytest.raises(ValueError, match="environment must be one of few, many, got 'none'"):
        results.traces("none")


def test_load_refuses_what_is_no_folder_of_an_experiment(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"experiment\.json"):
        Results.load(tmp_path)
    (tmp_path / "experiment.json").write_text("{}")
    with pytest.raises(DamagedFile):
        Results.load(tmp_path)


def test_load_says_which_extra_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(ImportError, match=r"pip install 'armtriage\[experiments\]'"):
        Results.load(tmp_path)


def test_traces_have_the_runs(results: Results) -> None:
    trace = results.traces("many")["ucb"]
    cell = next(one for one in results.manifest.cells if one.environment.label == "many")
    assert isinstance(trace, Trace)
    assert trace.rounds.tolist() == ROUNDS.tolist()
    assert trace.regret[4].tolist() == some_regret(cell, 4).tolist()
    assert trace.committed_at.tolist() == [-1, 0, 1, 2, 3, 4]
    assert (trace.policy, trace.n_arms, trace.seed) == ("ucb", 9, cell.policy_seed)
    assert trace.environment_seed == cell.environment_seed(0)


def test_overview_is_a_table_of_the_last_regret(results: Results) -> None:
    lines = repr(results).splitlines()
    row = results.summary().row(0, named=True)
    assert lines[0] == "Results of 'study': 2 environments, 2 policies, 6 replications, seed 7"
    assert [line.split()[0] for line in lines[1:]] == ["rounds", "few", "ucb", "greedy", "many", "ucb", "greedy"]
    assert lines[3].split() == [
        "ucb", "100", "6", f"{row['mean']:.6g}", f"[{row['low']:.6g},", f"{row['high']:.6g}]",
    ]  # fmt: skip


def test_overview_says_what_is_not_there(tmp_path: Path) -> None:
    manifest = manifest_of(ENVIRONMENTS, POLICIES)
    shown = repr(results_of(tmp_path, manifest, failed=manifest.cells[:3], missing=manifest.cells[-1:]))
    assert "3 cells of 12 failed: see runs" in shown
    assert "1 cell of 12 missing" in shown
    assert ["ucb", "0"] in [line.split() for line in shown.splitlines()]


def test_overview_is_short(tmp_path: Path) -> None:
    environments = [environment(f"env {n}", n_arms=n) for n in range(20)]
    shown = repr(results_of(tmp_path, manifest_of(environments, POLICIES, replications=2)))
    assert len(shown.splitlines()) < 40
    assert "and 20 more: see summary()" in shown


def test_regret_is_that_of_the_simulator() -> None:
    made = Experiment(
        {"one": "random:n_arms=6,budget=2"}, ["random"], horizon=50, replications=5, block=2, seed=3
    ).run()
    run = made.runs.row(0, named=True)
    env = random_bernoulli(FeedbackGraph.semi_bandit(6), seed=run["environment_seed"])
    expected = simulate(UniformRandom(env.graph, 2), env, horizon=50, replications=5, seed=run["policy_seed"])
    trace = made.traces()["random"]
    assert np.array_equal(trace.regret, expected.regret)
    assert np.array_equal(trace.rounds, expected.rounds)
    assert trace.n_arms == 6
    assert made.name == "experiment"


def test_results_stay_when_their_folder_is_gone(tmp_path: Path) -> None:
    keep(tmp_path / "gone", manifest_of(ENVIRONMENTS, POLICIES))
    made = Results.load(tmp_path / "gone")
    shutil.rmtree(tmp_path / "gone")
    assert made.regret.height == 72
    assert made.summary()["runs"].to_list() == [6] * 4
