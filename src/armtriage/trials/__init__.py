"""Trials: proof on live traffic, by a control group that is drawn by chance, and limits on what must not get worse."""

from armtriage.trials.contrast import Contrast, running_mean_bound
from armtriage.trials.guardrail import Guardrail
from armtriage.trials.length import TrialLength, trial_length
from armtriage.trials.lift import Lift, LiftInterval

__all__ = ["Contrast", "Guardrail", "Lift", "LiftInterval", "TrialLength", "running_mean_bound", "trial_length"]
