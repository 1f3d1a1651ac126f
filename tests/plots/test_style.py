"""What all plots share: where the numbers come from, and files."""

import sys
from dataclasses import replace

import pytest

from armtriage import __version__, plots
from plots.drawn import trace


def test_a_figure_says_what_it_is_made_of():
    both = {"one": trace(5.0, 6.0), "two": trace(3.0, 4.0)}
    assert plots.regret_curves(both, level=0.9).figure.get_supxlabel().replace("\n", " ") == (
        f"90% bands; 2 runs, policy seed 7, reward seed 7; armtriage {__version__}"
    )
    other = {**both, "two": replace(both["two"], seed=8)}
    assert "2 runs, several seeds" in plots.regret_curves(other).figure.get_supxlabel()
    assert "no bands; 1 run" in plots.regret_curves({"one": trace(5.0)}).figure.get_supxlabel()


def test_a_figure_is_signed_again():
    ax = plots.regret_curves({"one": trace(5.0)})
    plots.sign(ax, "nothing", "9.9")
    assert ax.figure.get_supxlabel() == "nothing; armtriage 9.9"


def test_the_same_figure_is_the_same_text():
    assert plots.svg_text(plots.regret_curves({"one": trace(5.0, 6.0)})) == plots.svg_text(
        plots.regret_curves({"one": trace(5.0, 6.0)})
    )


def test_pdf_files_are_the_same_again_and_have_no_outlined_text(tmp_path):
    for name in ("a.pdf", "b.pdf"):
        plots.save(plots.regret_curves({"one": trace(5.0, 6.0)}), tmp_path / name)
    made = (tmp_path / "a.pdf").read_bytes()
    assert made == (tmp_path / "b.pdf").read_bytes()
    assert b"/CIDFontType2" in made


def test_files_are_checked_before_any_is_written(tmp_path):
    ax = plots.regret_curves({"one": trace(5.0)})
    with pytest.raises(ValueError, match="must end in"):
        plots.save(ax, tmp_path / "a.png", tmp_path / "a.docx")
    with pytest.raises(ValueError, match="folder must exist"):
        plots.save(ax, tmp_path / "nowhere" / "a.png")
    assert not list(tmp_path.iterdir())


def test_a_missing_matplotlib_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match=r"plots need matplotlib: pip install 'armtriage\[plots\]'"):
        plots.regret_curves({"one": trace(5.0)})
