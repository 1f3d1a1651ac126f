"""The exceptions of armtriage.

::

    ArmtriageError
    ├── UnknownDecision   (also a LookupError)   a tell for a decision that this policy never made
    ├── UnknownArm        (also a LookupError)   a name or number that no arm of this policy has
    ├── AlreadyTold       (also a RuntimeError)  a second tell for the same decision
    ├── DamagedFile       (also a ValueError)    a saved policy that is cut, altered, foreign or of another kind
    └── ExperimentError   (also a RuntimeError)  an experiment that cannot go on, such as for a full disk

Bad arguments raise the builtin `ValueError` or `TypeError`.
"""

__all__ = ["AlreadyTold", "ArmtriageError", "DamagedFile", "ExperimentError", "UnknownArm", "UnknownDecision"]


class ArmtriageError(Exception):
    """Base of every exception that is armtriage's own."""


class UnknownDecision(ArmtriageError, LookupError):
    """The policy has never made this decision."""


class UnknownArm(ArmtriageError, LookupError):
    """No arm of the policy has this name or number."""


class AlreadyTold(ArmtriageError, RuntimeError):
    """The decision's rewards have been told before; nothing was changed."""


class DamagedFile(ArmtriageError, ValueError):
    """The file is not a saved policy, or not a whole one."""


class ExperimentError(ArmtriageError, RuntimeError):
    """The experiment cannot go on; the message says what is safe and what to do."""
