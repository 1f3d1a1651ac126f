"""Names of things and versions of code: equal things alike, different things apart."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import armtriage
from armtriage import FeedbackGraph, StochasticEnvironment
from armtriage.experiments import identity as module
from armtriage.experiments.identity import (
    ROOMS,
    canonical,
    code_version,
    counts,
    digest,
    identity,
    named_seed,
    versions,
)
from experiments.small_cells import First, environment, two_arms


def closing_over(value: Any) -> Callable[..., StochasticEnvironment]:
    def build(seed: int) -> StochasticEnvironment:
        return two_arms(value, seed)

    return build


@pytest.mark.parametrize("values", [(0.1, 0.2), (FeedbackGraph.semi_bandit(2), FeedbackGraph.semi_bandit(3))])
def test_functions_are_told_apart_by_what_they_were_made_with(values: tuple[Any, Any]) -> None:
    one, other = (identity("instance", closing_over(value)) for value in values)
    assert one != other
    assert one == identity("instance", closing_over(values[0]))


def test_partial_functions_are_told_apart_by_their_arguments() -> None:
    one, other = (identity("instance", functools.partial(two_arms, gap=gap)) for gap in (0.1, 0.2))
    assert one != other


def test_classes_are_told_apart_by_what_they_inherit() -> None:
    class Base(First):
        pass

    first = type("Own", (First,), {})
    second = type("Own", (Base,), {})
    assert identity("policy", first) != identity("policy", second)


def at_a_prompt(source: str) -> Any:
    """What was typed at a prompt, so that there is no file to read its source from."""
    namespace: dict[str, Any] = {"__name__": "prompt"}
    exec(source, namespace)
    return namespace["build"]


def test_functions_without_a_file_are_told_apart() -> None:
    texts = [f"def build(seed):\n    return [lambda: {number}, 'a']" for number in (1000, 2000, 1000)]
    one, other, again = (digest(identity("instance", at_a_prompt(text))) for text in texts)
    assert (one == other, one == again) == (False, True)


def test_what_cannot_be_told_apart_is_refused() -> None:
    with pytest.raises(TypeError, match="instance uses value, which cannot be told from others"):
        environment(instance=closing_over(threading.Lock()))


@pytest.mark.parametrize("thing", [3, object()])
def test_what_is_no_function_is_refused(thing: Any) -> None:
    with pytest.raises(TypeError, match="policy must be a name, a function or a class"):
        identity("policy", thing)


def test_arrays_of_numpy_are_lists() -> None:
    assert canonical("x", np.array([[1, 2]])) == [[1, 2]]


def test_seeds_fit_in_63_bits_and_use_them() -> None:
    seeds = [named_seed(0, "policy", number) for number in range(64)]
    assert max(seeds) < 2**63
    # Of 64 seeds none has its highest bit set with probability 2**-64.
    assert max(seeds) >= 2**62


def test_versions_name_what_is_installed() -> None:
    assert versions()["armtriage"] == armtriage.__version__
    assert set(versions()) == {"python", "armtriage", "numpy", "numba", "scipy", "polars"}


PLAY = """
import sys
from armtriage.experiments.cells import Cell, Spec, play
from armtriage.experiments.identity import code_version

pairs = [
    ("random", {"n_arms": 4, "budget": 2}, "guarded_thompson", 0.05),
    ("hidden_arm", {"n_arms": 4, "budget": 1, "gap": 0.1}, "elimination", 0.0),
    ("linear", {"n_arms": 4, "dimension": 2, "budget": 1}, "c2ucb", 0.0),
    ("assignment", {"left": 2, "right": 2}, "constrained", 0.0),
]
for instance, options, policy, certificate in pairs:
    specs = Spec("where", instance, options, horizon=3), Spec("who", policy, {})
    outcome = play(Cell(*specs, 0, 1, 2, root=7, redraw=False, code=code_version(), certificate=certificate))
    assert outcome.record["error"] is None, outcome.record["error"]
print(*(name for name in sys.modules if name.partition(".")[0] == "armtriage"))
"""

# What comes along when a cell is played, and cannot change a number of it: packages that only say what they export,
# the classes of errors, and a check for authors of policies and a plan that are exported with all else.
ALONG = {"armtriage", *(f"armtriage.{name}" for name in ("_tables", "checks", "errors", "experiments", "plan"))}


def test_numbers_depend_on_the_rooms_that_a_cell_uses() -> None:
    command = [sys.executable, "-W", "ignore", "-c", PLAY]
    # The same modules are imported without compilation, which would take most of the time.
    env = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    shown = subprocess.run(command, env=env, capture_output=True, text=True, check=True, timeout=300).stdout
    used = {name.removeprefix("armtriage.") for name in set(shown.split()) - ALONG}
    assert {name for name in used if not counts(name)} == set()
    assert {room for room in ROOMS if not any(f"{name}.".startswith(f"{room}.") for name in used)} == set()


def test_rooms_are_there() -> None:
    folder = Path(armtriage.__file__).parent
    places = [folder.joinpath(*room.split(".")) for room in ROOMS]
    assert all(place.is_dir() or place.with_suffix(".py").is_file() for place in places)


@pytest.mark.parametrize(
    ("changed", "matters"),
    [
        ("experiments/cells.py", True),
        ("policies/index/greedy.py", True),
        ("catalogue.py", True),
        ("cli/app.py", False),
        ("experiments/plan.py", False),
        ("__init__.py", False),
    ],
)
def test_version_changes_with_the_code_that_counts(
    changed: str, matters: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("experiments/cells.py", "experiments/plan.py", "policies/index/greedy.py", "catalogue.py", "cli/app.py")
    for name in (*names, "__init__.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("1")
    monkeypatch.setattr(module, "__file__", str(tmp_path / "experiments" / "identity.py"))
    before = code_version.__wrapped__()
    (tmp_path / changed).write_text("2")
    assert (code_version.__wrapped__() != before) == matters
