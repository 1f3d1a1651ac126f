"""`reproduce` in its tiny form, end to end; its studies say what their tables say, and judge as they should."""

from __future__ import annotations

import re
import shutil
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

import polars
import pytest

import armtriage.reproduce
from armtriage import plots
from armtriage.errors import ExperimentError
from armtriage.reproduce import STUDIES, Reproduction
from armtriage.reproduce import reproduce as run
from armtriage.reproduce.extensions import COUNTS, SPHERE
from armtriage.reproduce.policies import ORACLE, PAPER, REPAIRED, THOMPSON, TIGHT, UCB
from armtriage.reproduce.study import SIZES, Finding, Report

pytestmark = pytest.mark.xdist_group("reproduce")  # the studies are played once, so that one process should have them
studies = pytest.mark.parametrize("study", STUDIES)


@cache
def folder() -> TemporaryDirectory[str]:
    """Where all studies are played in their tiny form, once."""
    return TemporaryDirectory()


@cache
def tiny(study: str) -> Report:
    return armtriage.reproduce._report(STUDIES[study]("tiny"), Path(folder().name, "experiments"), "serial")


@pytest.fixture(scope="session")
def made() -> Reproduction:
    """All of it, with every figure drawn once, as SVG; the first is drawn as PNG, too, and copied for the others."""
    save, first = plots.save, list[Path]()

    def save_first(ax: Any, path: Path) -> None:
        if first:
            shutil.copyfile(first[0], path)
        else:
            save(ax, path)
            first.append(path)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plots, "save", save_first)
        return run(folder().name, size="tiny", engine="serial")


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
    assert claims.rows() == [(name, *one) for name, those in made.findings.items() for one in those]
    text = (made.page.parent / "claims.md").read_text(encoding="utf-8")
    assert all(one.measured in text and one.verdict in text for those in made.findings.values() for one in those)


def section(page: str, study: str) -> str:
    return page[page.index(f'<section id="{study}">') :].split("</section>", 1)[0]


def test_run_again_plays_nothing_and_says_the_same(made: Reproduction, tmp_path: Path) -> None:
    """Studies of each kind find the same; the first, whose figures have the same numbers, is drawn again, too."""
    shutil.copytree(made.page.parent / "experiments", tmp_path / "experiments")
    told: list[tuple[int, int]] = []

    def tell(what: str, done: int, total: int) -> None:
        told.append((done, total))

    for name in ("ucb-failure", "linear", "tightenings", "guarded"):
        report = armtriage.reproduce._report(STUDIES[name]("tiny"), tmp_path / "experiments", progress=tell)
        assert report.findings == made.findings[name]
    first = next(iter(STUDIES))
    again = run(tmp_path, size="tiny", only=[first], progress=tell)
    assert told
    assert all(done == total for done, total in told)
    assert again.findings == {first: made.findings[first]}
    pages = again.page.read_text(encoding="utf-8"), made.page.read_text(encoding="utf-8")
    assert section(pages[0], first) == section(pages[1], first) != ""


def test_a_part_is_made_alone(made: Reproduction, tmp_path: Path) -> None:
    alone = run(tmp_path, size="tiny", only=["full-information"], engine="serial")
    assert alone.findings == {"full-information": made.findings["full-information"]}
    assert {path.name.split("-")[0] for path in (tmp_path / "tables").iterdir()} == {"full", "claims.parquet"}


def test_what_is_unknown_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="only must be one of gap-rates"):
        run(tmp_path, only=["gaps"])
    with pytest.raises(ValueError, match="size must be one of tiny, quick, full"):
        run(tmp_path, size="huge")  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


def test_failed_cells_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failed = SimpleNamespace(failed=2, runs={"error": polars.Series([None, "Traceback\nValueError: no such arm\n"])})
    experiments = {"one": SimpleNamespace(run=lambda *_, **__: failed)}
    broken: Any = SimpleNamespace(name="broken", title="Broken", size="tiny", experiments=lambda: experiments)
    monkeypatch.setattr(armtriage.reproduce, "STUDIES", {"broken": lambda size: broken})
    with pytest.raises(ExperimentError, match=r"2 cells of broken failed, see .*: ValueError: no such arm"):
        run(tmp_path, size="tiny")


@studies
def test_reports_are_whole(study: str) -> None:
    report = tiny(study)
    assert list(report.findings) == STUDIES[study].findings(report.tables)
    assert len({one.claim for one in report.findings}) == len(report.findings)
    assert all(one.height for one in report.tables.values())
    assert all(report.paragraphs)
    assert len({one.name for one in report.charts}) == len(report.charts) >= 1
    for one in report.findings:
        assert all(isinstance(text, str) and text for text in one[:5])
        assert one.verdict.endswith(".")
        assert (one.agrees is True) == one.verdict.startswith("Agrees")
        assert (one.agrees is False) == one.verdict.startswith("Does not agree")
        assert (one.agrees is None and one.claims) == one.verdict.startswith("Undecided")
        assert one.claims or not one.of_paper


@studies
def test_all_sizes_can_be_built(study: str) -> None:
    counts = [sum(len(one.cells) for one in STUDIES[study](size).experiments().values()) for size in SIZES]
    assert counts == sorted(counts)


GIVEN = {"policy", "against", "noise", "family", "parameter", "S", "T", "alpha", "gap", "horizon", "runs", "best"}
GIVEN |= {"predicted", "whole", "inside", "points", "factor", "target", "run", "round"}


@pytest.mark.parametrize(
    "study",
    [one for one in STUDIES if one not in ("linear", "constrained", "counterexamples", "tightenings", "rewards")],
)
def test_no_number_is_typed_in(study: str) -> None:
    tables = {
        name: table.with_columns(
            (polars.col(column) * (place + 2) + 1).alias(column)
            for place, (column, kind) in enumerate(table.schema.items())
            if column not in GIVEN and kind.is_numeric()
        )
        for name, table in tiny(study).tables.items()
    }
    before, after = STUDIES[study].findings(tiny(study).tables), STUDIES[study].findings(tables)
    assert [one.claim for one, other in zip(before, after, strict=True) if one.measured == other.measured] == []


def doctored(study: str, name: str, values: dict[str, Any], where: dict[str, Any]) -> list[Finding]:
    """Return the findings after rows of a table were changed."""
    table = tiny(study).tables[name]
    rows = polars.all_horizontal(polars.lit(True), *(polars.col(key) == value for key, value in where.items()))
    assert table.filter(rows).height
    changes = [
        polars.when(rows).then(polars.lit(value, table.schema[key])).otherwise(polars.col(key)).alias(key)
        for key, value in values.items()
    ]
    return STUDIES[study].findings({**tiny(study).tables, name: table.with_columns(changes)})


def the(findings: list[Finding], words: str) -> Finding:
    """Return the one finding whose claim has the words."""
    (found,) = (one for one in findings if words in one.claim)
    return found


def ends(low: float | None, high: float | None, name: str = "ratio") -> dict[str, Any]:
    value = 0.5 if low is None or high is None else (low + high) / 2
    if name == "ratio":
        return {"ratio": value, "ratio_low": low, "ratio_high": high}
    return {name: value, "low": low, "high": high}


def power(low: float | None, high: float | None, **rest: Any) -> dict[str, Any]:
    return {**ends(low, high, "slope"), **rest}


IN_T, IN_S = {"policy": TIGHT, "parameter": "T"}, {"policy": REPAIRED, "parameter": "S"}
STAR = {"environment": "star", "policy": PAPER}
LEARNED, COSTS = "tasks in blocks that can be learned", "some instance costs every policy"
DOCTORED: list[tuple[str, str, dict[str, Any], dict[str, Any], str, bool | None]] = [
    ("gap-rates", "horizons", {}, {}, f"{TIGHT}: regret stops", True),
    ("gap-rates", "horizons", {"late": 0.2}, {}, f"{TIGHT}: regret stops", False),
    ("ucb-failure", "ratios", ends(2.0, 2.0), {}, "tight; shared", True),
    ("ucb-failure", "ratios", ends(2.0, 2.0), {}, "with noise of its own", False),
    ("ucb-failure", "ratios", ends(0.5, 0.5), {}, "tight; shared", False),
    ("ucb-failure", "ratios", ends(0.5, 0.5), {}, "with noise of its own", True),
    ("linear", "powers", power(0.5, 0.52, share=0.4), IN_T, f"{TIGHT}: growth with T", True),
    ("linear", "powers", power(0.5, 0.52, share=0.95), IN_T, f"{TIGHT}: growth with T", None),
    ("linear", "powers", power(0.1, 0.3, share=0.4), IN_T, f"{TIGHT}: growth with T", False),
    ("linear", "powers", power(1.2, 1.4, share=0.4), IN_T, f"{TIGHT}: growth with T", False),
    ("linear", "powers", power(-0.2, 1.2, share=0.4), IN_T, f"{TIGHT}: growth with T", None),
    ("linear", "powers", power(None, None, share=0.4), IN_T, f"{TIGHT}: growth with T", None),
    ("linear", "worlds-ratios", ends(0.4, 0.6), {"policy": TIGHT}, SPHERE, None),  # of which no theorem speaks
    ("linear", "rates-ratios", ends(1.4, 1.6), {"policy": TIGHT}, LEARNED, None),
    ("linear", "wider", {"lower": 200.0, **ends(299.0, 301.0, "mean")}, {}, COSTS, True),
    ("linear", "wider", {"lower": 200.0, **ends(2.0, 4.0, "mean")}, {}, COSTS, False),
    ("linear", "proof", ends(0.1, 0.2, "mean"), {}, "gap of the proof", False),
    ("constrained", "powers", power(1.95, 2.05, late=0.0), IN_S, f"{REPAIRED}: growth with S", True),
    ("constrained", "powers", power(2.95, 3.05, late=0.0), IN_S, f"{REPAIRED}: growth with S", False),
    ("constrained", "powers", power(1.95, 2.05, late=0.1), IN_S, f"{REPAIRED}: growth with S", None),
    ("constrained", "rates", {"upper": 1.0}, {"policy": REPAIRED}, "repaired: regret is below its bound", False),
    ("constrained", "rates", {"upper": 1.0}, {"policy": REPAIRED}, "oracle: regret is below its bound", True),
    ("constrained", "rates", {"lower": 1e9}, {}, "no policy loses less", False),
    ("constrained", "ratios", ends(0.4, 0.6), {"policy": REPAIRED}, f"loses less than {REPAIRED}", False),
    ("constrained", "ratios", ends(1.4, 1.6), {"policy": REPAIRED}, f"loses less than {REPAIRED}", True),
    ("constrained", "ratios", ends(0.9, 1.1), {"policy": REPAIRED}, f"loses less than {REPAIRED}", None),
    ("constrained", "ratios", ends(0.0, 0.002), {"policy": "CombUCB1"}, "against CombUCB1", None),
    # The printed algorithm fails on the counterexamples, and the repairs do not.
    ("counterexamples", "forever", {}, {}, f"{PAPER}: losses end, on the hub family", False),
    ("counterexamples", "forever", {}, {}, f"{REPAIRED}: losses end, on the hub family", True),
    ("counterexamples", "forever", {}, {}, f"{ORACLE}: losses end, on the hub family", True),
    ("counterexamples", "forever", {}, {}, "printed bound, kappa = 1, on the star", False),
    ("counterexamples", "forever", {"mean": 0.0, "regret": 5.0}, STAR, f"{PAPER}: losses end, on the star", True),
    ("counterexamples", "forever", {"mean": 0.0, "regret": 5.0}, STAR, "printed bound, kappa = 1, on the star", True),
    ("counterexamples", "forever", {"mean": 1.0, "regret": 500.0}, STAR, f"{PAPER}: losses end, on the star", None),
    ("counterexamples", "three arms", {}, {}, f"{PAPER}: no arm among the best", False),
    ("counterexamples", "three arms", {}, {}, f"{REPAIRED}: no arm among the best", True),
    ("counterexamples", "three arms", {"leaves": False}, {}, f"{PAPER}: no arm among the best", True),
    ("counterexamples", "three arms", {"holds": False}, {}, f"{PAPER}: no arm among the best", None),
    ("counterexamples", "greedy", {}, {}, "two hubs", False),
    ("counterexamples", "greedy", {"picks": 3}, {}, "two hubs", True),
    ("counterexamples", "ties", {}, {}, "the same index", False),
    ("counterexamples", "ties", {"tied": 0}, {}, "the same index", True),
    ("counterexamples", "audits", {}, {}, COUNTS, False),
    ("counterexamples", "audits", {"violations": 0}, {}, COUNTS, True),
    ("counterexamples", "audits", {"failures": 1}, {}, COUNTS, None),
    ("counterexamples", "audits", {"status": "not applicable"}, {}, COUNTS, None),
    ("tightenings", "gains", ends(1.4, 1.6), {"part": "3 KL"}, "KL in place of Hoeffding", True),
    ("tightenings", "gains", ends(0.4, 0.6), {"part": "3 KL"}, "KL in place of Hoeffding", False),
    ("tightenings", "gains", ends(0.9, 1.1), {"part": "3 KL"}, "KL in place of Hoeffding", None),
    ("tightenings", "gains", ends(0.4, 0.6), {"part": "5 Bernstein"}, "Bernstein in place of Hoeffding", True),
    ("tightenings", "gains", ends(1.4, 1.6), {"part": "5 Bernstein"}, "Bernstein in place of Hoeffding", False),
    ("tightenings", "gains", ends(1.4, 1.6), {"part": "8 fill"}, "fill by largest average", None),
    ("guarded", "parts", ends(1.4, 1.6), {}, "free look", True),
    ("guarded", "parts", ends(0.9, 1.1), {}, "free look", None),
    ("guarded", "parts", ends(0.4, 0.6), {}, "free look", False),
    ("certificates", "coverage", {"either": 0, "runs": 400}, {}, "a best arm is eliminated", True),
    ("certificates", "coverage", {"either": 0, "runs": 4}, {}, "a best arm is eliminated", None),
    ("certificates", "coverage", {"either": 5, "runs": 400}, {}, "a best arm is eliminated", True),
    ("certificates", "coverage", {"either": 100, "runs": 400}, {}, "a best arm is eliminated", False),
    ("certificates", "tightness", {"exceeded": 0}, {}, f"{THOMPSON}: the certificate", True),
    ("certificates", "tightness", {"exceeded": 2}, {}, f"{THOMPSON}: the certificate", False),
    ("certificates", "hostile", {}, {}, "saboteur", True),
    ("certificates", "hostile", {"allowed": 1e-3, "forced": 0.0}, {}, "saboteur", False),
    ("rewards", "laws-certificates", {"exceeded": 0}, {}, "certificates, laws", True),
    ("rewards", "laws-certificates", {"exceeded": 3}, {}, "certificates, laws", False),
    ("guarded-sets", "certificates", {"exceeded": 3}, {}, "certificates over decision sets", False),
    ("guarded-sets", "failure", {"most": 1e9}, {"policy": "guarded Thompson"}, "guarded Thompson on", False),
    ("guarded-sets", "hard", {"late": 1.0}, {}, "no linear loss", False),
    ("slates", "certificates", {"exceeded": 2}, {}, "no run loses more", False),
]


@pytest.mark.parametrize(("study", "name", "values", "where", "words", "agrees"), DOCTORED)
def test_verdicts_follow_the_tables(
    study: str, name: str, values: dict[str, Any], where: dict[str, Any], words: str, agrees: bool | None
) -> None:
    found = the(doctored(study, name, values, where), words)
    assert found.agrees is agrees
    if "slope" in values:
        assert f"power {values['slope']:.2f}" in found.measured
    if "ratio" in values and study == "tightenings":
        assert f"{values['ratio']:.2f} times" in found.measured
    if name == "coverage":
        assert f"in {5 * values['either']:,} of {5 * values['runs']:,} runs" in found.measured


def test_ties_that_mix_cliques_matter() -> None:
    found = the(doctored("counterexamples", "ties", {"mixed": 4}, {}), "the same index")
    assert "it matters" in found.verdict


def test_a_tightening_that_costs_says_where() -> None:
    table = tiny("tightenings").tables["gains"].with_columns(ratio=2.0, ratio_low=1.9, ratio_high=2.1)
    costs = (polars.col("start") == "print") & (polars.col("environment") == "semi-bandit")
    less = [
        polars.when(costs).then(value).otherwise(polars.col(key)).alias(key) for key, value in ends(0.4, 0.6).items()
    ]
    found = the(STUDIES["tightenings"].findings({"gains": table.with_columns(less)}), "half-Hoeffding")
    assert found.agrees is False
    assert found.verdict.endswith("the other way on semi-bandit, from the print.")


def test_ratio_grows_by_the_difference_of_the_powers() -> None:
    tables = tiny("ucb-failure").tables
    slopes = {(row["noise"], row["policy"]): row["slope"] for row in tables["powers"].iter_rows(named=True)}
    for row in tables["ratio-powers"].iter_rows(named=True):
        assert row["slope"] == pytest.approx(slopes[row["noise"], UCB] - slopes[row["noise"], row["against"]])


def test_hostile_proposers_are_what_they_are_called() -> None:
    table = tiny("certificates").tables["hostile"]
    saboteur = table.filter(table["proposer"] == "saboteur")
    assert (saboteur["alone"] / saboteur["round"]).to_list() == pytest.approx([0.6] * saboteur.height)
    assert (table["regret"] >= table["forced"]).all()
    assert (table["forced_rounds"] <= table["round"]).all()
