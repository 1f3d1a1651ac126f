"""Plots: every one takes an axis or makes its own, and returns it. The only place that imports matplotlib."""

from armtriage.plots.curves import regret_curves
from armtriage.plots.evaluation import evaluation_chart
from armtriage.plots.heatmap import heat_map
from armtriage.plots.plan import plan_chart
from armtriage.plots.rows import final_regret, paired_differences
from armtriage.plots.scaling import scaling
from armtriage.plots.style import CURVE_COLOURS, INK, STATE_COLOURS, check_path, new_axes, require, save, sign, svg_text
from armtriage.plots.triage import triage_chart

__all__ = [
    "CURVE_COLOURS",
    "INK",
    "STATE_COLOURS",
    "check_path",
    "evaluation_chart",
    "final_regret",
    "heat_map",
    "new_axes",
    "paired_differences",
    "plan_chart",
    "regret_curves",
    "require",
    "save",
    "scaling",
    "sign",
    "svg_text",
    "triage_chart",
]
