"""What a user's module says of armtriage, mypy understands in its strictest mode."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

MODULE = """
from armtriage import FeatureReport, Features, Guard, GuardedLinear, GuardedThompson

features = Features(numeric={"age": (40, 15)}).fit()
policy = GuardedLinear(2, budget=1, features=features, names=["a", "b"], reward_range=(0, 1))
decision = policy.ask({"a": {"age": 3}, "b": {"age": 5}})
policy.tell(decision, {"a": 1.0})
policy.tell(policy.ask([{"age": 3}, {"age": 4}]), [1.0], arms=["a"])
policy.record(["a"], {"a": {"age": 3}, "b": {"age": 5}})
report: FeatureReport = policy.feature_report
GuardedLinear(dimension=2, budget=1).ask({"a": [0.1, 0.2], "b": [0.3, 0.4]})
guard = Guard(lambda number: [0], 3, budget=1)
failures: int = guard.proposer_failures
page = GuardedThompson(3, budget=2, names=["tea", "milk", "jam"])
page.tell(page.ask(eligible=["tea", "jam"]), [1, 0], arms=("tea", "jam"), last=False)
"""


@pytest.mark.thorough
def test_a_module_of_a_user_is_typed(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    root = Path(__file__).parents[1]
    module = tmp_path / "user.py"
    module.write_text(MODULE, encoding="utf-8")
    # With the options of the project's own check, whose cache is used: with others all of armtriage is read again.
    command = [sys.executable, "-m", "mypy", "--strict", str(module)]
    found = subprocess.run(
        command, cwd=root, capture_output=True, text=True, env=os.environ | {"MYPYPATH": "src"}, check=False
    )
    assert found.returncode == 0, found.stdout
