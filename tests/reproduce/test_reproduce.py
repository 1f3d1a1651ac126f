"""`reproduce` in its tiny form, end to end; its studies say what their tables say, and judge as they should."""

from __future__ import annotations

import re
import shutil
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType, SimpleNamespace
from typing import Any

import polars
import pytest

import armtriage.reproduce
from armtriage.errors import ExperimentError
from armtriage.reproduce import (
    STUDIES,
    Reproduction,
    certificates,
    constrained,
    counterexamples,
    failure,
    families,
    full_information,
    gap_rates,
    guarded,
    guarded_sets,
    linear,
    minimax_rates,
    rewards,
    slates,
    tightenings,
)
from armtriage.reproduce import reproduce as run
from armtriage.reproduce.policies import TIGHT, UCB
from armtriage.reproduce.study import SIZES, Finding, Report

pytestmark = pytest.mark.xdist_group("reproduce")  # the studies are played once, so that one process should have them

MODULES = (
    gap_rates,
    minimax_rates,
    failure,
    full_information,
    linear,
    constrained,
    counterexamples,
    tightenings,
    families,
    guarded,
    guarded_sets,
    certificates,
    rewards,
    slates,
)
studies = pytest.mark.parametrize("study", MODULES, ids=lambda study: study.STUDY.name)
Tables = dict[str, polars.DataFrame]


@cache
def folder() -> TemporaryDirectory[str]:
    """Where all studies are played in their tiny form, once."""
    return TemporaryDirectory()


@cache
def tiny(study: ModuleType) -> Report:
    place = Path(folder().name, "experiments")
    return armtriage.reproduce._report(study.STUDY, place, "tiny", "serial", None, None)


@pytest.fixture(scope="session")
def made() -> Reproduction:
    return run(folder().name, size="tiny")


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


def section(page: str, study: str) -> str:
    return page[page.index(f'<section id="{study}">') :].split("</section>", 1)[0]


def test_run_again_plays_nothing_and_says_the_same(made: Reproduction, tmp_path: Path) -> None:
    """All studies find the same; the first three, whose figures have the same numbers, are drawn again, too."""
    shutil.copytree(made.page.parent / "experiments", tmp_path / "experiments")
    told: list[tuple[int, int]] = []

    def tell(what: str, done: int, total: int) -> None:
        told.append((done, total))

    for name, study in STUDIES.items():
        report = armtriage.reproduce._report(study, tmp_path / "experiments", "tiny", "auto", None, tell)
        assert report.findings == made.findings[name]
    first = list(STUDIES)[:3]
    again = run(tmp_path, size="tiny", only=first, progress=tell)
    assert told
    assert all(done == total for done, total in told)
    assert again.findings == {name: made.findings[name] for name in first}
    pages = again.page.read_text(encoding="utf-8"), made.page.read_text(encoding="utf-8")
    for name in first:
        assert section(pages[0], name) == section(pages[1], name) != ""


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
    experiments = {"one": SimpleNamespace(run=lambda *_, **__: failed)}
    broken: Any = SimpleNamespace(name="broken", title="Broken", experiments=lambda size: experiments)
    monkeypatch.setattr(armtriage.reproduce, "STUDIES", {"broken": broken})
    with pytest.raises(ExperimentError, match=r"2 cells of broken failed, see .*: ValueError: no luck"):
        run(tmp_path, size="tiny")


@studies
def test_findings_are_worked_out_from_the_tables_alone(study: ModuleType) -> None:
    report = tiny(study)
    assert list(report.findings) == study.findings(report.tables)
    assert len({one.claim for one in report.findings}) == len(report.findings)


@studies
def test_reports_are_whole(study: ModuleType) -> None:
    report = tiny(study)
    assert all(one.height for one in report.tables.values())
    assert all(report.paragraphs)
    assert len({one.name for one in report.charts}) == len(report.charts) >= 1
    for one in report.findings:
        assert all(isinstance(text, str) and text for text in one[:5])
        assert one.verdict.endswith(".")
        assert (one.agrees is True) == one.verdict.startswith("Agrees")
        assert (one.agrees is False) == one.verdict.startswith("Does not agree")
        # These also say what things cost, where nothing is claimed.
        if study not in (families, guarded, guarded_sets, rewards, slates):
            assert (one.agrees is None) == one.verdict.startswith("Says nothing")


@studies
def test_all_sizes_can_be_built(study: ModuleType) -> None:
    counts = [sum(len(one.cells) for one in study.STUDY.experiments(size).values()) for size in SIZES]
    assert counts == sorted(counts)


GIVEN = {"policy", "against", "noise", "family", "parameter", "S", "T", "alpha", "gap", "horizon", "runs", "best"}
GIVEN |= {"predicted", "whole", "inside", "points", "factor", "target", "run", "round"}


@pytest.mark.parametrize(
    "study",
    [gap_rates, minimax_rates, failure, full_information, families, guarded, guarded_sets, certificates, slates],
    ids=lambda study: study.STUDY.name,
)
def test_no_number_is_typed_in(study: ModuleType) -> None:
    tables = {
        name: table.with_columns(
            (polars.col(column) * (place + 2) + 1).alias(column)
            for place, (column, kind) in enumerate(table.schema.items())
            if column not in GIVEN and kind.is_numeric()
        )
        for name, table in tiny(study).tables.items()
    }
    before, after = study.findings(tiny(study).tables), study.findings(tables)
    assert [one.claim for one, other in zip(before, after, strict=True) if one.measured == other.measured] == []


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


def test_ratio_grows_by_the_difference_of_the_powers() -> None:
    tables = tiny(failure).tables
    slopes = {(row["noise"], row["policy"]): row["slope"] for row in tables["powers"].iter_rows(named=True)}
    for row in tables["ratio-powers"].iter_rows(named=True):
        assert row["slope"] == pytest.approx(slopes[row["noise"], UCB] - slopes[row["noise"], row["against"]])


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


def doctored(study: ModuleType, name: str, values: dict[str, Any], **where: Any) -> list[Finding]:
    """Return the findings after rows of a table were changed."""
    tables: Tables = dict(tiny(study).tables)
    rows = polars.all_horizontal(polars.lit(True), *(polars.col(key) == value for key, value in where.items()))
    assert tables[name].filter(rows).height
    changes = [
        polars.when(rows).then(polars.lit(value, tables[name].schema[key])).otherwise(polars.col(key)).alias(key)
        for key, value in values.items()
    ]
    tables[name] = tables[name].with_columns(changes)
    return study.findings(tables)


def the(findings: list[Finding], *words: str) -> Finding:
    """Return the one finding whose claim or source has all the words."""
    (found,) = (one for one in findings if all(word in f"{one.claim} ({one.source})" for word in words))
    return found


POWER = {"slope": 0.51, "low": 0.5, "high": 0.52}


@pytest.mark.parametrize(
    ("values", "agrees"),
    [
        ({**POWER, "share": 0.4}, True),
        ({**POWER, "share": 0.95}, None),
        ({"slope": 0.2, "low": 0.1, "high": 0.3, "share": 0.4}, False),
        ({"slope": 1.3, "low": 1.2, "high": 1.4, "share": 0.4}, False),
        ({"slope": 0.5, "low": -0.2, "high": 1.2, "share": 0.4}, None),
        ({"slope": 0.5, "low": None, "high": None, "share": 0.4}, None),
    ],
)
def test_power_of_linear_elimination(values: dict[str, Any], agrees: bool | None) -> None:
    found = the(doctored(linear, "powers", values, policy=linear.TIGHT, parameter="T"), linear.TIGHT, "growth with T")
    assert found.agrees is agrees
    assert f"{values['slope']:.2f}" in found.measured


@pytest.mark.parametrize(("ends", "agrees"), [((0.4, 0.6), True), ((1.4, 1.6), False), ((0.9, 1.1), None)])
def test_contest_of_linear_elimination_and_c2ucb(ends: tuple[float, float], agrees: bool | None) -> None:
    values = {"ratio": sum(ends) / 2, "ratio_low": ends[0], "ratio_high": ends[1]}
    found = doctored(linear, "worlds-ratios", values, policy=linear.TIGHT, environment=linear.SPHERE)
    assert the(found, linear.SPHERE).agrees is agrees
    assert f"{values['ratio']:.2f} times" in the(found, linear.SPHERE).measured
    found = doctored(linear, "rates-ratios", values, policy=linear.TIGHT)
    assert the(found, "that can be learned").agrees is agrees


def test_lower_bound_for_linear_contexts_can_fail() -> None:
    size = {"horizon": 20_000, "mean": 300.0, "low": 299.0, "high": 301.0}
    found = doctored(linear, "worlds", size, environment=linear.WIDER)
    assert the(found, "some instance costs every policy").agrees is True
    found = doctored(linear, "worlds", {**size, "mean": 3.0, "high": 4.0}, environment=linear.WIDER)
    assert the(found, "some instance costs every policy").agrees is False
    found = doctored(linear, "worlds", {"share": 0.1, "low": 0.1, "high": 0.2}, environment=linear.PROOF)
    assert the(found, "gap of the proof").agrees is False


@pytest.mark.parametrize(("slope", "late", "agrees"), [(2.0, 0.0, True), (3.0, 0.0, False), (2.0, 0.1, None)])
def test_power_of_constrained_elimination(slope: float, late: float, agrees: bool | None) -> None:
    values = {"slope": slope, "low": slope - 0.05, "high": slope + 0.05, "late": late}
    found = doctored(constrained, "powers", values, policy=constrained.REPAIRED, parameter="S")
    assert the(found, constrained.REPAIRED, "growth with S").agrees is agrees


def test_bounds_over_decisions_can_fail() -> None:
    found = doctored(constrained, "rates", {"upper": 1.0}, policy=constrained.REPAIRED)
    assert the(found, "repaired: regret is below its bound").agrees is False
    assert the(found, "oracle: regret is below its bound").agrees is True
    found = doctored(constrained, "rates", {"lower": 1e9})
    assert the(found, "no policy loses less").agrees is False


@pytest.mark.parametrize(("ends", "agrees"), [((0.4, 0.6), False), ((1.4, 1.6), True), ((0.9, 1.1), None)])
def test_contest_of_constrained_elimination(ends: tuple[float, float], agrees: bool | None) -> None:
    values = {"ratio": sum(ends) / 2, "ratio_low": ends[0], "ratio_high": ends[1]}
    found = doctored(constrained, "ratios", values, policy=constrained.REPAIRED)
    assert the(found, "loses less than", constrained.REPAIRED).agrees is agrees


def test_best_rival_over_decisions_is_named() -> None:
    found = doctored(constrained, "ratios", {"ratio": 0.001, "ratio_high": 0.002}, policy="CombUCB1")
    assert the(found, "loses less than CombUCB1").agrees is False


def test_printed_algorithm_fails_on_counterexamples_and_the_repairs_do_not() -> None:
    found = list(tiny(counterexamples).findings)
    printed, repaired, oracle = counterexamples.PAPER, counterexamples.REPAIRED, counterexamples.ORACLE
    assert [the(found, policy, "losses end, on the hub family").agrees for policy in (printed, repaired, oracle)] == [
        False,
        True,
        True,
    ]
    assert [the(found, policy, "three arms").agrees for policy in (printed, repaired)] == [False, True]
    for words in ("printed bound, kappa = 1, on the star", counterexamples.COUNTS, "two hubs", "the same index"):
        assert the(found, words).agrees is False


def test_counterexamples_that_are_none_are_told() -> None:
    printed = counterexamples.PAPER
    where = {"environment": "star", "policy": printed}
    found = doctored(counterexamples, "forever", {"mean": 0.0, "regret": 5.0}, **where)
    assert the(found, printed, "losses end, on the star").agrees is True
    assert the(found, "printed bound, kappa = 1, on the star").agrees is True
    found = doctored(counterexamples, "forever", {"mean": 1.0, "regret": 500.0}, **where)
    assert the(found, printed, "losses end, on the star").agrees is None
    assert the(doctored(counterexamples, "greedy", {"picks": 3}), "two hubs").agrees is True
    assert the(doctored(counterexamples, "ties", {"tied": 0}), "the same index").agrees is True
    assert "it matters" in the(doctored(counterexamples, "ties", {"mixed": 4}), "the same index").verdict
    assert the(doctored(counterexamples, "three arms", {printed: False}), printed, "three arms").agrees is True
    assert the(doctored(counterexamples, "three arms", {"holds": False}), printed, "three arms").agrees is None
    for values, agrees in (({"violations": 0}, True), ({"failures": 1}, None), ({"status": "not applicable"}, None)):
        assert the(doctored(counterexamples, "audits", values), counterexamples.COUNTS).agrees is agrees


@pytest.mark.parametrize(("ends", "agrees"), [((1.4, 1.6), True), ((0.4, 0.6), False), ((0.9, 1.1), None)])
def test_what_a_tightening_is_worth(ends: tuple[float, float], agrees: bool | None) -> None:
    values = {"ratio": sum(ends) / 2, "ratio_low": ends[0], "ratio_high": ends[1]}
    found = the(doctored(tightenings, "gains", values, part="3 KL"), "KL in place of Hoeffding")
    assert found.agrees is agrees
    assert f"{values['ratio']:.2f} times" in found.measured


def test_a_tightening_that_costs_anywhere_does_not_agree() -> None:
    helps = {"ratio": 2.0, "ratio_low": 1.9, "ratio_high": 2.1}
    tables = dict(tiny(tightenings).tables)
    gains = tables["gains"].with_columns(*(polars.lit(value).alias(key) for key, value in helps.items()))
    costs = (polars.col("start") == "print") & (polars.col("environment") == "semi-bandit")
    ends = {"ratio": 0.5, "ratio_low": 0.4, "ratio_high": 0.6}
    changed = [polars.when(costs).then(value).otherwise(polars.col(key)).alias(key) for key, value in ends.items()]
    tables["gains"] = gains.with_columns(changed)
    found = the(tightenings.findings(tables), "half-Hoeffding")
    assert found.agrees is False
    assert (
        "costs in 1 of 6 places (2.00 times as much with it, semi-bandit, from the print); it helps in 5"
        in found.verdict
    )
