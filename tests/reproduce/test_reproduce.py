"""`armtriage reproduce` in its tiny form, end to end; and the studies of graph feedback say what their tables say."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import polars
import pytest
from typer.testing import CliRunner

import armtriage.reproduce
from armtriage import Experiment
from armtriage.cli.app import app as cli
from armtriage.errors import ExperimentError
from armtriage.reproduce import (
    STUDIES,
    Reproduction,
    certificates,
    failure,
    families,
    full_information,
    gap_rates,
    guarded,
    minimax_rates,
)
from armtriage.reproduce import reproduce as run
from armtriage.reproduce._policies import TIGHT, UCB
from armtriage.reproduce._worst import above_bound, below_bound, line_powers, worst
from armtriage.reproduce.page import claims_text, make_page
from armtriage.reproduce.study import SIZES, Finding, Report, Study, power_finding

MODULES = (gap_rates, minimax_rates, failure, full_information, families, guarded, certificates)
studies = pytest.mark.parametrize("module", MODULES, ids=lambda module: module.STUDY.name)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Reproduction:
    return run(tmp_path_factory.mktemp("reproduce"), size="tiny")


@cache
def tiny(module: ModuleType) -> Report:
    results = {name: one.run(engine="threads") for name, one in module.STUDY.experiments("tiny").items()}
    return module.STUDY.report(results, "tiny")


def small(experiment: dict[str, Any], **rest: Any) -> Any:
    return Experiment([experiment], ["greedy", "random"], replications=6, seed=7, **rest).run(engine="threads")


# --- The whole command ---
def test_every_study_is_on_the_page(made: Reproduction) -> None:
    page = made.page.read_text(encoding="utf-8")
    assert list(made.findings) == list(STUDIES)
    for name, study in STUDIES.items():
        assert f'<section id="{name}"><h2>{study.title}</h2>' in page
        assert made.findings[name]
    assert page.count('<tr class="good">') == sum(
        one.agrees is True for those in made.findings.values() for one in those
    )
    assert "seed 7" in page


def test_page_needs_no_network(made: Reproduction) -> None:
    page = made.page.read_text(encoding="utf-8")
    assert re.findall(r"<(?:script|link|img|iframe)\b", page) == []
    links = re.findall(r'(?:href|src)="([^"]*)"', page)
    assert [link for link in links if not link.startswith(("#", "data:"))] == []


def test_figures_and_tables_are_files(made: Reproduction) -> None:
    folder = made.page.parent
    figures = {path.stem for path in (folder / "figures").iterdir()}
    assert len(figures) == made.page.read_text(encoding="utf-8").count("<figure>") >= len(STUDIES)
    assert {path.name for path in (folder / "figures").iterdir()} == {
        f"{one}.{kind}" for one in figures for kind in ("png", "svg")
    }
    tables = {path.stem: polars.read_parquet(path) for path in (folder / "tables").iterdir()}
    assert all(table.height for table in tables.values())
    for name in STUDIES:
        assert any(one.startswith(f"{name}-") for one in tables)


def test_front_table_is_the_findings(made: Reproduction) -> None:
    claims = polars.read_parquet(made.page.parent / "tables" / "claims.parquet")
    wanted = [(name, *one) for name, those in made.findings.items() for one in those]
    assert claims.rows() == wanted
    text = (made.page.parent / "claims.md").read_text(encoding="utf-8")
    assert all(one.measured in text and one.verdict in text for those in made.findings.values() for one in those)


def test_run_again_plays_nothing_and_says_the_same(made: Reproduction) -> None:
    page, told = made.page.read_text(encoding="utf-8"), []
    again = run(made.page.parent, size="tiny", progress=lambda what, done, total: told.append((done, total)))
    assert told
    assert all(done == total for done, total in told)
    assert again == made
    assert again.page.read_text(encoding="utf-8") == page


def test_a_part_is_made_alone(made: Reproduction, tmp_path: Path) -> None:
    alone = run(tmp_path, size="tiny", only=["full-information"])
    assert list(alone.findings) == ["full-information"]
    assert alone.findings["full-information"] == made.findings["full-information"]
    assert {path.name.split("-")[0] for path in (tmp_path / "tables").iterdir()} == {"full", "claims.parquet"}


def test_what_is_unknown_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="only must be one of gap-rates"):
        run(tmp_path, only=["gaps"])
    with pytest.raises(ValueError, match="size must be one of tiny, quick, full"):
        run(tmp_path, size="huge")  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


def test_failed_cells_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failed = SimpleNamespace(failed=2, runs={"error": polars.Series([None, "Traceback\nValueError: no luck\n"])})
    broken = Study("broken", "Broken", lambda size: {"one": SimpleNamespace(run=lambda *_, **__: failed)}, None)  # type: ignore[arg-type,dict-item,return-value]
    monkeypatch.setattr(armtriage.reproduce, "STUDIES", {"broken": broken})
    with pytest.raises(ExperimentError, match=r"2 cells of broken failed, see .*: ValueError: no luck"):
        run(tmp_path, size="tiny")


# --- The command line ---
def invoke(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> Any:
    """Run the command, in the tiny form in place of the quick one."""
    monkeypatch.setattr(armtriage.reproduce, "reproduce", lambda out, **given: run(out, **{**given, "size": "tiny"}))
    return CliRunner().invoke(cli.app, ["reproduce", *arguments])


def test_command_prints_the_front_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = invoke(monkeypatch, "--out", str(tmp_path), "--only", "full-information")
    assert done.exit_code == 0, done.output
    assert "Full information" in done.stdout
    assert re.search(r"9 claims: \d+ agrees? with what was measured", done.stdout)
    assert (tmp_path / "index.html").is_file()


def test_command_prints_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = invoke(monkeypatch, "--out", str(tmp_path), "--only", "full-information", "--json")
    facts = json.loads(done.stdout)
    assert facts["page"] == str(tmp_path / "index.html")
    assert {"study", *Finding._fields} == set(facts["claims"][0])


def test_command_refuses_an_unknown_study(tmp_path: Path) -> None:
    done = CliRunner().invoke(cli.app, ["reproduce", "--out", str(tmp_path), "--only", "gaps"])
    assert done.exit_code == 2
    assert "only must be one of gap-rates, minimax-rates" in done.stderr


def test_help_names_the_studies() -> None:
    text = " ".join(CliRunner().invoke(cli.app, ["reproduce", "--help"]).stdout.replace("│", " ").split())
    assert all(name in text for name in STUDIES)


# --- Findings come from the tables ---
GIVEN = {"policy", "against", "noise", "family", "parameter", "S", "T", "alpha", "gap", "horizon", "runs", "best"}
GIVEN |= {"predicted", "whole", "inside", "points", "factor", "target", "run", "round"}


@studies
def test_findings_are_worked_out_from_the_tables_alone(module: ModuleType) -> None:
    report = tiny(module)
    assert list(report.findings) == module.findings(report.tables)


@studies
def test_no_number_is_typed_in(module: ModuleType) -> None:
    tables = {
        name: table.with_columns(
            (polars.col(column) * (place + 2) + 1).alias(column)
            for place, (column, kind) in enumerate(table.schema.items())
            if column not in GIVEN and kind.is_numeric()
        )
        for name, table in tiny(module).tables.items()
    }
    before, after = module.findings(tiny(module).tables), module.findings(tables)
    assert [one.claim for one, other in zip(before, after, strict=True) if one.measured == other.measured] == []


@studies
def test_reports_are_whole(module: ModuleType) -> None:
    report = tiny(module)
    assert all(report.paragraphs)
    assert all(table.height for table in report.tables.values())
    assert len({one.claim for one in report.findings}) == len(report.findings)
    for one in report.findings:
        assert all(one[:5])
        assert one.verdict.endswith(".")
        assert (one.agrees is True) == one.verdict.startswith("Agrees")
        assert (one.agrees is False) == one.verdict.startswith("Does not agree")


@studies
def test_all_sizes_can_be_built(module: ModuleType) -> None:
    counts = [sum(len(one.cells) for one in module.STUDY.experiments(size).values()) for size in SIZES]
    assert counts == sorted(counts)


# --- Verdicts ---
@pytest.mark.parametrize(
    ("low", "slope", "high", "rule", "agrees"),
    [
        (0.47, 0.52, 0.57, {}, True),
        (0.54, 0.55, 0.56, {}, True),  # within the room for logarithms
        (0.56, 0.57, 0.58, {}, False),
        (0.42, 0.43, 0.44, {}, False),
        (0.42, 0.43, 0.44, {"side": "at most"}, True),
        (0.56, 0.57, 0.58, {"side": "at most"}, False),
        (0.56, 0.57, 0.58, {"side": "at least"}, True),
        (0.42, 0.43, 0.44, {"side": "at least"}, False),
        (0.56, 0.57, 0.58, {"whole": 0.6}, True),
        (0.66, 0.67, 0.68, {"whole": 0.6}, False),
        (0.47, 0.52, 0.57, {"known": False}, None),
        (None, None, None, {}, None),
    ],
)
def test_powers_are_judged(low: Any, slope: Any, high: Any, rule: dict[str, Any], agrees: bool | None) -> None:
    row = {"slope": slope, "low": low, "high": high}
    assert power_finding("claim", "source", row, 0.5, **rule).agrees is agrees


def test_bounds_are_judged() -> None:
    row = {"policy": "a", "mean": 4.0, "low": 3.0, "high": 5.0, "upper": 3.9, "lower": 5.1, "most": 10.0}
    assert below_bound("c", "s", [row]).agrees is False
    assert below_bound("c", "s", [{**row, "upper": 4.1}]).agrees is True
    assert above_bound("c", "s", [row]).agrees is False
    assert above_bound("c", "s", [{**row, "lower": 4.9}]).agrees is True


def test_flat_regret_is_told_from_growing() -> None:
    tables = dict(tiny(gap_rates).tables)
    assert module_finding(gap_rates, tables, f"{TIGHT}: regret stops").agrees is True
    tables["horizons"] = tables["horizons"].with_columns(late=polars.lit(0.2))
    assert module_finding(gap_rates, tables, f"{TIGHT}: regret stops").agrees is False


def test_failure_must_be_seen_where_rewards_are_alike() -> None:
    tables = dict(tiny(failure).tables)
    for ratio, agrees in ((2.0, (True, False)), (0.5, (False, True))):
        ends = {name: polars.lit(ratio) for name in ("ratio", "ratio_low", "ratio_high")}
        tables["ratios"] = tiny(failure).tables["ratios"].with_columns(**ends)
        found = [module_finding(failure, tables, words).agrees for words in ("tight; shared", "with noise of its own")]
        assert tuple(found) == agrees


# --- The guarded policy and its certificates ---
def with_ratios(ratio: float, low: float | None, high: float | None, horizon: int) -> Finding:
    """Return what is said of one gap, semi-bandit, with these numbers; the target is 1.1."""
    ends = {"ratio": ratio, "ratio_low": low, "ratio_high": high, "horizon": horizon}
    tables = dict(tiny(guarded).tables)
    kinds = tables["ratios"].schema
    tables["ratios"] = tables["ratios"].with_columns(
        polars.lit(value, kinds[name]).alias(name) for name, value in ends.items()
    )
    return module_finding(guarded, tables, "one gap, semi-bandit")


@pytest.mark.parametrize(
    ("ratio", "low", "high", "agrees"),
    [
        (1.0, 0.95, 1.05, True),
        (1.0, 0.8, 1.2, True),
        (1.2, 1.05, 1.3, None),
        (1.2, 1.15, 1.3, False),
        (1.2, None, None, None),
    ],
)
def test_targets_are_judged_at_their_rounds(ratio: float, low: Any, high: Any, agrees: bool | None) -> None:
    assert with_ratios(ratio, low, high, 100_000).agrees is agrees
    short = with_ratios(ratio, low, high, 5000)
    assert short.agrees is None
    assert short.verdict == (
        "Says nothing: the target is for T = 100,000; at T = 5,000 it is "
        + ("within it." if ratio < 1.1 else "not within it.")
    )


def test_parts_must_not_cost() -> None:
    tables = dict(tiny(guarded).tables)
    for ratio, agrees in ((1.5, True), (1.0, None), (0.5, False)):
        ends = {"ratio_low": polars.lit(ratio - 0.1), "ratio_high": polars.lit(ratio + 0.1)}
        tables["parts"] = tiny(guarded).tables["parts"].with_columns(**ends)
        assert module_finding(guarded, tables, "free look").agrees is agrees


@pytest.mark.parametrize(
    ("failures", "runs", "agrees"), [(0, 400, True), (0, 4, None), (5, 400, True), (100, 400, False)]
)
def test_coverage_is_judged_by_the_exact_interval(failures: int, runs: int, agrees: bool | None) -> None:
    tables = dict(tiny(certificates).tables)
    tables["coverage"] = tables["coverage"].with_columns(either=polars.lit(failures), runs=polars.lit(runs))
    found = module_finding(certificates, tables, "a best arm is eliminated")
    assert found.agrees is agrees
    assert f"in {5 * failures:,} of {5 * runs:,} runs" in found.measured


def test_certificates_below_the_truth_are_told() -> None:
    tables = dict(tiny(certificates).tables)
    runs = tables["tightness"]["runs"]
    for share, agrees in ((0, True), (1, False)):
        tables["tightness"] = tables["tightness"].with_columns(exceeded=runs * share)
        assert module_finding(certificates, tables, "Thompson sampling: the certificate").agrees is agrees


def test_guard_that_loses_more_than_its_budget_is_told() -> None:
    tables = dict(tiny(certificates).tables)
    assert module_finding(certificates, tables, "saboteur").agrees is True
    tables["hostile"] = tables["hostile"].with_columns(allowed=polars.col("allowed") / 1e3, forced=0.0)
    assert module_finding(certificates, tables, "saboteur").agrees is False


def test_hostile_proposers_are_what_they_are_called() -> None:
    table = tiny(certificates).tables["hostile"]
    saboteur = table.filter(table["proposer"] == "saboteur")
    assert (saboteur["alone"] / saboteur["round"]).to_list() == pytest.approx([0.6] * saboteur.height)
    assert (table["regret"] >= table["forced"]).all()
    assert (table["forced_rounds"] <= table["round"]).all()


def module_finding(module: ModuleType, tables: dict[str, polars.DataFrame], words: str) -> Finding:
    (found,) = (one for one in module.findings(tables) if words in one.claim)
    return found


# --- Fits ---
def test_worst_is_the_largest_mean() -> None:
    results = small({"instance": "hidden_pairs", "n_arms": 8, "budget": [2, 4], "gap": [0.1, 0.2, 0.3]}, horizon=200)
    table = worst(results, "environment.budget")
    means = results.summary().group_by("policy", "environment.budget").agg(polars.col("mean").max())
    wanted = {(policy, budget): mean for policy, budget, mean in means.iter_rows()}
    assert {(row["policy"], row["environment.budget"]): row["mean"] for row in table.iter_rows(named=True)} == wanted
    random = table.filter(table["policy"] == "random")
    assert random["gap"].to_list() == [0.3, 0.3]
    assert not random["inside"].any()


def test_line_powers_are_those_of_results() -> None:
    results = small({"instance": "random", "n_arms": 5, "budget": 2}, horizon=[100, 1000, 10_000])
    ours = line_powers(results, results.summary(), "horizon")
    theirs = results.slopes("horizon")
    for name in ("slope", "low", "high"):
        np.testing.assert_allclose(ours[name].to_numpy(), theirs[name].to_numpy())


def test_ratio_grows_by_the_difference_of_the_powers() -> None:
    tables = tiny(failure).tables
    slopes = {(row["noise"], row["policy"]): row["slope"] for row in tables["powers"].iter_rows(named=True)}
    for row in tables["ratio-powers"].iter_rows(named=True):
        assert row["slope"] == pytest.approx(slopes[row["noise"], UCB] - slopes[row["noise"], row["against"]])


# --- The page ---
def test_texts_are_escaped() -> None:
    finding = Finding("a < b | c", "s", "p", "m", "Agrees.", True)
    report = Report(["x < y"], [finding], [], {"t": polars.DataFrame({"a": [1.5, None]})})
    reports = {"one": (Study("one", "S < K", lambda size: {}, lambda results, size: report), report)}
    page, text = make_page(reports, "quick"), claims_text(reports, "quick")
    assert "<p>x &lt; y</p>" in page
    assert "a &lt; b | c" in page
    assert r"| a < b \| c (s) |" in text
    assert "`armtriage reproduce --quick`" in text
