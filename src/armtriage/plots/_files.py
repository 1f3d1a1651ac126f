"""Figures as files and as text."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from armtriage.plots._style import require

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["check_path", "save", "svg_text"]

# What a file says beside its drawing: never when it was made, so that the same figure is the same file.
_OPTIONS: dict[str, dict[str, Any]] = {
    "svg": {"metadata": {"Date": None}, "transparent": True},
    "pdf": {"metadata": {"CreationDate": None}},
}


def svg_text(ax: Axes) -> str:
    """Return the axes' figure as the text of an SVG file; the same figure gives the same text."""
    buffer = io.StringIO()
    _write(ax, buffer, "svg")
    return buffer.getvalue()


def save(ax: Axes, *paths: str | os.PathLike[str]) -> None:
    """Write the axes' figure to files; their endings, .png, .svg or .pdf, say how."""
    for path in paths:
        check_path(path)
    for path in map(Path, paths):
        _write(ax, path, path.suffix.lower()[1:])


def check_path(path: str | os.PathLike[str]) -> None:
    """Refuse a file that `save` could not write."""
    if Path(path).suffix.lower() not in (".png", ".svg", ".pdf"):
        raise ValueError(f"a plot's file must end in .png, .svg or .pdf, got {os.fspath(path)!r}")
    if not Path(path).absolute().parent.is_dir():
        raise ValueError(f"a plot's folder must exist, got {os.fspath(path)!r}")
    require()


def _write(ax: Axes, target: Any, kind: str) -> None:
    import matplotlib

    figure = ax.get_figure(root=True)
    assert figure is not None
    # Type 42 fonts are the ones that journals take.
    with matplotlib.rc_context({"svg.hashsalt": "armtriage", "pdf.fonttype": 42}):
        figure.savefig(target, format=kind, dpi=200, **_OPTIONS.get(kind, {}))
