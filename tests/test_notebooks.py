"""The notebooks run from top to bottom, and end as they should."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parents[1] / "examples" / "notebooks"


def run(name: str) -> tuple[dict[str, Any], list[Any]]:
    """Run the cells of a notebook; return what they define, and what each shows: its last expression."""
    names: dict[str, Any] = {"__name__": "__main__"}
    shown = []
    for cell in json.loads((FOLDER / f"{name}.ipynb").read_text(encoding="utf-8"))["cells"]:
        if cell["cell_type"] == "code":
            body = ast.parse("".join(cell["source"])).body
            last = body.pop() if isinstance(body[-1], ast.Expr) else None
            exec(compile(ast.Module(body, []), name, "exec"), names)
            if last is not None:
                shown.append(eval(compile(ast.Expression(last.value), name, "eval"), names))
    return names, shown


def test_there_are_four_without_outputs() -> None:
    found = sorted(FOLDER.glob("*.ipynb"))
    assert [one.stem for one in found] == ["contexts", "routes", "slates", "study"]
    for one in found:
        cells = json.loads(one.read_text(encoding="utf-8"))["cells"]
        assert not any(cell.get("outputs") for cell in cells)


def test_slates_find_the_best_three_and_are_shown_as_tables() -> None:
    _, (decision, certificate, (found, bound)) = run("slates")
    assert decision._repr_html_().startswith("<table>")
    assert "lost at most" in certificate._repr_html_()
    assert found
    assert bound < 3000


def test_contexts_are_learned_from_a_frame() -> None:
    pytest.importorskip("pandas")
    pytest.importorskip("sklearn")
    names, shown = run("contexts")
    assert names["late"] > max(names["early"], 0.7)  # at random it is 0.47
    assert shown[-1] == (("assam", "matcha"), ("riesling", "barolo"))


def test_routes_find_the_fastest_and_a_detour() -> None:
    names, shown = run("routes")
    assert names["route"] == ["home", "bridge", "ring", "work"]
    assert names["detour"] == ["home", "ring", "work"]
    assert "beyond need" in shown[-1]._repr_html_()


def test_a_study_runs_and_is_written_for_a_paper(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("polars")
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("agg")
    names, shown = run("study")
    means = dict(names["results"].summary().select("policy", "mean").rows())
    assert means["guarded_thompson"] < means["random"] / 2
    assert "<table>" in shown[0]._repr_html_()
    assert r"guarded\_thompson & 2000 & 8" in capsys.readouterr().out
    names["ax"].figure.clear()
