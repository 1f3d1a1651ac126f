"""Features: contexts from raw rows, with scikit-learn, which is imported here only."""

try:
    import sklearn  # noqa: F401
except ModuleNotFoundError as error:
    missing = "Features needs scikit-learn, which the extra armtriage[features] brings"
    raise ModuleNotFoundError(missing, name="sklearn") from error

from armtriage.features.features import FeatureReport, Features

__all__ = ["FeatureReport", "Features"]
