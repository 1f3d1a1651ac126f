"""Policies decide the same without the JIT: all of them, over slates, sets and contexts, with any requests."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from twins import cases
from twins.cases import INDEX, case_of
from twins.harness import decisions_of, simulated
from twins.test_eligible import GRAPHS, PAIRS, Wanderer
from twins.test_linear import linear


def short_decisions() -> dict[str, list[list[int]]]:
    """Decisions of a few rounds: of `simulate` with all arms, and of ask and tell with requests that differ."""
    made = {f"index/{name}/{i}": cases.index_case(name, i, 40) for name in INDEX for i in range(2000, 2009, 2)}
    made |= {f"printed/{i}": cases.printed_case(i, 80) for i in range(6)}
    made |= {f"reduced/{i}": cases.reduced_case(i, 80) for i in range(8)}
    made |= {f"guard/{i}": cases.guard_case(i, 60) for i in range(6)}
    made |= {f"index-guard/{i}": cases.guarded_index_case(i, 60) for i in range(6)}
    made |= {f"guard-set/{i}": cases.guard_set_case(i)._replace(rounds=40) for i in range(8)}
    made |= {name: case_of(name) for name in linear(range(100, 106), 30, "raw")}
    found = {name: decisions_of(simulated(case)) for name, case in made.items()}
    for i, name in enumerate(PAIRS):
        wanderer = Wanderer(name, list(GRAPHS)[i % 4], bool(i % 2), 3)
        assert wanderer.go(40) is None, name
        found[f"eligible/{name}"] = wanderer.decisions
    return found


@pytest.mark.long  # contracts, simulation and numbers are played in plain Python by `make test`, too
def test_decisions_do_not_depend_on_compilation() -> None:
    code = "import json; from twins.test_harness import short_decisions; print(json.dumps(short_decisions()))"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        env={**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    plain, compiled = json.loads(done.stdout), short_decisions()
    assert {name for name in compiled if plain[name] != compiled[name]} == set()
