"""armtriage: choose S of K arms each round, and lose as little as possible while learning."""

import importlib
import importlib.util
import typing

from armtriage.alarm import Alarm, DriftAlarm, Health
from armtriage.certificate import Certificate, certify
from armtriage.checks import check_policy
from armtriage.decisions import (
    Constraints,
    Decision,
    DecisionSet,
    Explicit,
    Falling,
    Knapsack,
    Matchings,
    PartitionMatroid,
    Paths,
    SpanningTrees,
    TopS,
)
from armtriage.environments import (
    Arrivals,
    Availability,
    Drift,
    DriftingEnvironment,
    Environment,
    Jump,
    LinearEnvironment,
    PageEnvironment,
    Patterns,
    RandomRounds,
    ReplayEnvironment,
    Season,
    StochasticEnvironment,
    Walk,
    gym_environment,
)
from armtriage.errors import AlreadyTold, ArmtriageError, DamagedFile, ExperimentError, UnknownArm, UnknownDecision
from armtriage.graphs import FeedbackGraph
from armtriage.instances import (
    StageState,
    gap_instance,
    hidden_arm,
    hidden_pairs,
    hidden_parts,
    hub_family,
    linear_blocks,
    linear_few_dimensions,
    linear_one_dimension,
    long_decisions,
    partition,
    random_bernoulli,
    random_constrained,
    random_linear,
    random_rates,
    random_rewards,
    random_slates,
    revealing_hubs,
    star,
    three_arms,
    two_hubs,
    ucb_failure,
)
from armtriage.intervals import confidence_interval
from armtriage.plan import Plan, plan
from armtriage.policies import (
    C2UCB,
    KLUCB,
    CombinatorialElimination,
    CombinatorialUCB,
    CombUCB1,
    ConstrainedElimination,
    ContextualGuard,
    ContextualPolicy,
    Greedy,
    Guard,
    GuardedIndex,
    GuardedLinear,
    GuardedThompson,
    HierarchicalElimination,
    LinearThompsonSampling,
    OldLog,
    Policy,
    StageTriage,
    SuggestedBias,
    ThompsonSampling,
    UniformRandom,
    suggest_bias,
)
from armtriage.simulation import Trace, simulate
from armtriage.triage import Triage, TriageLog

if typing.TYPE_CHECKING:
    from armtriage.experiments import Experiment, Results
    from armtriage.features import FeatureReport, Features
    from armtriage.logs import Evaluation, LogComparison, SlateLog, compare, evaluate, resampled_weights
    from armtriage.trials import (
        Contrast,
        Guardrail,
        Lift,
        LiftInterval,
        TrialLength,
        running_mean_bound,
        trial_length,
    )

__all__ = [
    "C2UCB",
    "KLUCB",
    "Alarm",
    "AlreadyTold",
    "ArmtriageError",
    "Arrivals",
    "Availability",
    "Certificate",
    "CombUCB1",
    "CombinatorialElimination",
    "CombinatorialUCB",
    "ConstrainedElimination",
    "Constraints",
    "ContextualGuard",
    "ContextualPolicy",
    "Contrast",
    "DamagedFile",
    "Decision",
    "DecisionSet",
    "Drift",
    "DriftAlarm",
    "DriftingEnvironment",
    "Environment",
    "Evaluation",
    "Experiment",
    "ExperimentError",
    "Explicit",
    "Falling",
    "FeatureReport",
    "Features",
    "FeedbackGraph",
    "Greedy",
    "Guard",
    "GuardedIndex",
    "GuardedLinear",
    "GuardedThompson",
    "Guardrail",
    "Health",
    "HierarchicalElimination",
    "Jump",
    "Knapsack",
    "Lift",
    "LiftInterval",
    "LinearEnvironment",
    "LinearThompsonSampling",
    "LogComparison",
    "Matchings",
    "OldLog",
    "PageEnvironment",
    "PartitionMatroid",
    "Paths",
    "Patterns",
    "Plan",
    "Policy",
    "RandomRounds",
    "ReplayEnvironment",
    "Results",
    "Season",
    "SlateLog",
    "SpanningTrees",
    "StageState",
    "StageTriage",
    "StochasticEnvironment",
    "SuggestedBias",
    "ThompsonSampling",
    "TopS",
    "Trace",
    "Triage",
    "TriageLog",
    "TrialLength",
    "UniformRandom",
    "UnknownArm",
    "UnknownDecision",
    "Walk",
    "certify",
    "check_policy",
    "compare",
    "confidence_interval",
    "evaluate",
    "gap_instance",
    "gym_environment",
    "hidden_arm",
    "hidden_pairs",
    "hidden_parts",
    "hub_family",
    "linear_blocks",
    "linear_few_dimensions",
    "linear_one_dimension",
    "long_decisions",
    "partition",
    "plan",
    "random_bernoulli",
    "random_constrained",
    "random_linear",
    "random_rates",
    "random_rewards",
    "random_slates",
    "resampled_weights",
    "revealing_hubs",
    "running_mean_bound",
    "simulate",
    "star",
    "suggest_bias",
    "three_arms",
    "trial_length",
    "two_hubs",
    "ucb_failure",
]

__version__ = "0.2.0"


_LATE = {
    **dict.fromkeys(("Experiment", "Results"), "experiments"),
    **dict.fromkeys(("FeatureReport", "Features"), "features"),
    **dict.fromkeys(("Contrast", "Guardrail", "Lift", "LiftInterval", "TrialLength"), "trials"),
    **dict.fromkeys(("running_mean_bound", "trial_length"), "trials"),
    **dict.fromkeys(("Evaluation", "LogComparison", "SlateLog", "compare", "evaluate", "resampled_weights"), "logs"),
}

if importlib.util.find_spec("sklearn") is None:  # a star import must not fail for want of an extra
    for _name in ("Features", "FeatureReport"):  # by name, or type checkers would take them for private
        __all__.remove(_name)


def __getattr__(name: str) -> typing.Any:
    """Import what needs an extra when it is first asked for: a service that asks and tells never does."""
    if name in ("ContextualCertificate", "DecisionCertificate"):  # for one version: all are of one class now
        return Certificate
    if name not in _LATE:
        raise AttributeError(f"module 'armtriage' has no attribute {name!r}")
    return getattr(importlib.import_module(f"armtriage.{_LATE[name]}"), name)
