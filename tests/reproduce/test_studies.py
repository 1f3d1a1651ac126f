"""The studies of linear contexts, constrained decisions, counterexamples and tightenings say what their tables say."""

from __future__ import annotations

from functools import cache
from types import ModuleType
from typing import Any

import polars
import pytest

from armtriage.reproduce import constrained, counterexamples, linear, tightenings
from armtriage.reproduce.study import Finding, Report

STUDIES = (linear, constrained, counterexamples, tightenings)
studies = pytest.mark.parametrize("study", STUDIES, ids=lambda study: study.STUDY.name)
Tables = dict[str, polars.DataFrame]


@cache
def tiny(study: ModuleType) -> Report:
    experiments = study.STUDY.experiments("tiny")
    results = {name: one.run(engine="serial") for name, one in experiments.items()}
    assert not any(one.failed or one.missing for one in results.values())
    return study.STUDY.report(results, "tiny")


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
        start = {True: "Agrees", False: "Does not agree", None: "Says nothing"}[one.agrees]
        assert one.verdict.startswith(start)


@studies
def test_all_sizes_can_be_built(study: ModuleType) -> None:
    sizes = [
        sum(len(one.cells) for one in study.STUDY.experiments(size).values()) for size in ("tiny", "quick", "full")
    ]
    assert sizes == sorted(sizes)


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
