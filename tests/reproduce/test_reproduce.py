"""`reproduce` in its tiny form, end to end."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars
import pytest

import armtriage.reproduce
from armtriage.errors import ExperimentError
from armtriage.reproduce import STUDIES, Reproduction
from armtriage.reproduce import reproduce as run

pytestmark = pytest.mark.xdist_group("reproduce")  # the report is made once, so that one process should have it


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Reproduction:
    return run(tmp_path_factory.mktemp("reproduce"), size="tiny")


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
    experiments = {"one": SimpleNamespace(run=lambda *_, **__: failed)}
    broken: Any = SimpleNamespace(name="broken", title="Broken", experiments=lambda size: experiments)
    monkeypatch.setattr(armtriage.reproduce, "STUDIES", {"broken": broken})
    with pytest.raises(ExperimentError, match=r"2 cells of broken failed, see .*: ValueError: no luck"):
        run(tmp_path, size="tiny")
