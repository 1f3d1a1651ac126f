"""Evaluation from logs beside Open Bandit Pipeline: the same estimate from the same log, and its sample of a real one.

Its estimators for slates need neither torch nor seaborn, which its package imports; so it is installed without what it
requires, and the module of the estimators is loaded alone.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import tempfile
import types
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from armtriage import Evaluation, SlateLog, ThompsonSampling, evaluate
from benchmarks.compare.peers import Skipped, bring, versions

CAMPAIGNS = ("all", "men", "women")
AGREED = 1e-9


def _estimators() -> Any:
    """Return the module with the peer's estimators for slates."""
    package = bring("obp")
    if "torch" not in sys.modules:
        torch: Any = types.ModuleType("torch")
        torch.Tensor = object  # named in annotations, never called by these estimators
        sys.modules["torch"] = torch
    inner = types.ModuleType("obp.ope")
    inner.__path__ = [str(Path(str(package.__file__)).parent / "ope")]
    sys.modules.setdefault("obp.ope", inner)
    return importlib.import_module("obp.ope.estimators_slate")


def _logged(folder: str, rounds: int, seed: int) -> SlateLog:
    """Return a log of Thompson sampling that learned on the way, with a floor."""
    luck, means = np.random.default_rng(seed), np.linspace(0.05, 0.6, 30)
    policy = ThompsonSampling(30, budget=5, logging_floor=0.1, seed=seed)
    with SlateLog(f"{folder}/log") as log:
        for _ in range(rounds):
            decision = policy.ask()
            rewards = (luck.random(5) < means[decision.arms]).astype(float)
            policy.tell(decision, rewards)
            log.append(decision, rewards)
    return log


def agreement(rounds: int = 2000, seed: int = 7) -> list[tuple[str, float, float]]:
    """Return, for three targets, what the peer's independent IPS finds and what ours does."""
    peer, found = _estimators().SlateIndependentIPS(len_list=5), []
    with tempfile.TemporaryDirectory() as folder:
        log = _logged(folder, rounds, seed)
        rows = log.frame().select("number", "arms", "rewards", "inclusion").collect()
        arms, rewards, chances = (np.concatenate(rows[name].to_list()) for name in ("arms", "rewards", "inclusion"))
        place = {
            "slate_id": np.repeat(rows["number"].to_numpy(), 5),
            "position": np.tile(np.arange(5), rows.height),
            "reward": rewards,
            "pscore_item_position": chances,
        }
        for name, chosen in (("best", range(25, 30)), ("middle", range(12, 17)), ("uniform", range(30))):
            weights = np.zeros(30)
            weights[list(chosen)] = 5 / len(chosen)
            theirs = peer.estimate_policy_value(evaluation_policy_pscore_item_position=weights[arms], **place)
            ours = evaluate(log, weights, estimator="ips", anytime=False).value
            found.append((name, float(theirs), float(ours or 0.0)))
    return found


def sample(campaign: str) -> tuple[Evaluation, float, float]:
    """Return what the log of a learning policy says of choosing at random, and what that earned: mean and error."""
    import polars as pl

    folder = Path(str(bring("obp").__file__)).parent / "dataset" / "obd"
    learned, random = (pl.read_csv(folder / kind / campaign / f"{campaign}.csv") for kind in ("bts", "random"))
    n_arms = int(random["item_id"].max()) + 1  # type: ignore[arg-type]
    log = SlateLog.from_frame(
        learned.select(pl.int_range(pl.len()).alias("number"), "item_id", "click", "propensity_score"),
        arms="item_id",
        rewards="click",
        inclusion="propensity_score",
        n_arms=n_arms,
    )
    clicks = random["click"].to_numpy()
    return evaluate(log, np.full(n_arms, 1 / n_arms)), clicks.mean(), clicks.std() / np.sqrt(clicks.size)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print both; end with an error where the estimates differ."""
    parser = argparse.ArgumentParser(prog="make compare ARGS=logs", description=__doc__)
    parser.parse_args(arguments)
    try:
        found = agreement()
    except Skipped as reason:
        print(f"Skipped: {reason}")
        return
    print(f"{versions()}\n\nIPS of 2,000 decisions, 5 of 30 arms: target, theirs, ours, difference")
    for name, theirs, ours in found:
        print(f"{name:8} {theirs:.12f} {ours:.12f} {abs(ours - theirs):.1e}")
    print("\nOpen Bandit sample, 10,000 rows: a choice at random, from the log of a policy that learned")
    for campaign in CAMPAIGNS:
        said, mean, error = sample(campaign)
        print(f"\n{campaign}: in truth {mean:.5f} +- {1.96 * error:.5f}. {said}")
    if worst := [name for name, theirs, ours in found if abs(ours - theirs) > AGREED]:
        raise SystemExit(f"estimates of {', '.join(worst)} differ by more than {AGREED}")
