"""The progress bar: shown on a terminal alone, and gone when the work is done."""

from __future__ import annotations

import pytest

from armtriage.simulation.progress import progress_bar


def test_bar_says_what_is_done(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    with progress_bar() as show:
        show(3, 4, before="playing [all]", after="3/4 cells")
    said = capsys.readouterr()
    assert said.out == ""
    assert "playing [all]" in said.err
    assert "3/4 cells" in said.err


def test_nothing_is_shown_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with progress_bar() as show:
        show(0.5, before="playing")
    assert capsys.readouterr() == ("", "")
