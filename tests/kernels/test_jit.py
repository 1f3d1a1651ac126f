"""The kernel cache: never stale, never in the way."""

from __future__ import annotations

import json
import os
import pickle
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numba
import numpy as np
import pytest

import armtriage
from armtriage import CombUCB1, ConstrainedElimination, FeedbackGraph, GuardedThompson, Matchings, ThompsonSampling
from armtriage.kernels import jit, sources
from armtriage.kernels.disk import cache_folder, keep, kept
from armtriage.kernels.normal import normal
from armtriage.kernels.random import stream
from armtriage.kernels.sources import Sources

OWN_POLICY = """
import numba, numpy as np
from armtriage import FeedbackGraph, StochasticEnvironment, simulate
from armtriage.kernels.record import Record
from armtriage.policies.request import Kernels
from armtriage.policies.slate import SlatePolicy

class Params(Record, frozen=True):
    first: int

class Own(Record):
    nothing: np.ndarray

@numba.njit(nogil=True)
def choose(params, evidence, own, request):
    for i in range(request.size):
        request.arms[i] = FIRST + i
    return False

@numba.njit(nogil=True)
def learn(params, evidence, own, request, seen, rewards, event):
    pass

@numba.njit(nogil=True)
def believe(params, evidence, own, request):
    pass

class Fixed(SlatePolicy):
    kernels = Kernels(choose, learn, believe)
    def params(self):
        return Params(0)
    def new_own(self, evidence):
        return Own(np.zeros(1))
"""
ASK = "import own; print(own.Fixed(5, 2, seed=1).ask().arms.tolist())"
SIMULATE = """
import own
policy = own.Fixed(5, 2, seed=1)
env = own.StochasticEnvironment([0.5] * 5, policy.graph, seed=1)
print(own.simulate(policy, env, horizon=3, record_decisions=True).decisions[0, 0].tolist())
"""


def run(code: str, folder: Path, given: str = "", **environment: str) -> str:
    # Python takes bytecode for that of a file which was edited in the same second without a change of its length.
    usual = {"NUMBA_DISABLE_JIT": "0", "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code],
        input=given,
        cwd=folder,
        env={**os.environ, **usual, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


@pytest.mark.parametrize("code", [ASK, pytest.param(SIMULATE, marks=pytest.mark.long)], ids=["ask", "simulate"])
def test_a_changed_kernel_outside_the_package_is_played_as_changed(code: str, tmp_path: Path) -> None:
    said = []
    for first in (0, 3):
        (tmp_path / "own.py").write_text(OWN_POLICY.replace("FIRST", str(first)))
        said.append(run(code, tmp_path))
    assert said == ["[0, 1]", "[3, 4]"]


@pytest.fixture
def edited(tmp_path: Path) -> Path:
    """Return the folder of a copy of the package, to edit."""
    shutil.copytree(
        Path(armtriage.__file__).parent,
        tmp_path / "src" / "armtriage",
        ignore=shutil.ignore_patterns("__pycache__"),
    )
    return tmp_path / "src" / "armtriage"


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")


DIGESTS = """
import json, sys
from pathlib import Path
from armtriage.policies import compiled, request, slate
from armtriage.kernels import jit, sources
from armtriage import *
sources._BEGAN = float("inf")  # as if a process began after each edit: what it has loaded is never called

graph = FeedbackGraph.semi_bandit(5)
policies = [
    kind(graph, 2, seed=1)
    for kind in (CombUCB1, KLUCB, ThompsonSampling, UniformRandom, CombinatorialElimination, GuardedThompson)
]

def digests():
    jit._sources.cache_clear()
    made = {}
    for policy in policies:
        for one in policy.kernels:
            vars(one).pop("digest", None) if one is not None else None
        if isinstance(policy, slate.SlatePolicy):
            chosen = request.bind(request.decide, "decide", choose=policy.kernels.choose)
            one = request.bind(request._ask, "ask", decide=chosen)
            two = request.bind(request._tell, "tell", learn=policy.kernels.learn)
        else:
            one = compiled.bind(compiled._ask, "ask", select=policy.kernels.select)
            two = compiled.bind(compiled._tell, "tell", update=policy.kernels.update)
        made[type(policy).__name__] = [one.digest, two.digest]
    return made

before, changed = digests(), []
for path, old, new in json.load(sys.stdin):
    whole = Path(path).read_text(encoding="utf-8")
    assert old in whole, (path, old)
    Path(path).write_text(whole.replace(old, new, 1), encoding="utf-8")
    after = digests()
    Path(path).write_text(whole, encoding="utf-8")
    changed.append([name for name in before if before[name] != after[name]])
assert None not in [one for both in before.values() for one in both]
print(json.dumps(changed))
"""


DRAW = "    draw_best(params, evidence, own, request)\n"
SCALE = "        current = scale(params, request.number)\n"
EVERYBODY = {"CombUCB1", "KLUCB", "ThompsonSampling", "UniformRandom", "CombinatorialElimination", "GuardedThompson"}
EDITS = [
    ("policies/sampling/thompson.py", DRAW, "    # Why.\n" + DRAW, set()),
    ("policies/index/comb_ucb1.py", "Return sqrt(c ln t)", "Return the root of c ln t", set()),
    ("policies/changing.py", "class ChangingPolicy:\n", "UNUSED = 1\n\n\nclass ChangingPolicy:\n", set()),
    (
        "policies/changing.py",
        "        return self._roster.n_arms\n",
        "        return int(self._roster.n_arms)\n",
        set(),
    ),
    ("kernels/jit.py", "        return self.outer(*arguments)\n", "        return self.outer(*arguments[:])\n", set()),
    ("policies/index/comb_ucb1.py", SCALE, "        taken += 0\n" + SCALE, {"CombUCB1"}),
    ("policies/index/shortlist.py", "    taken, size = 0, r", "    taken, size = 0 + 0, r", {"CombUCB1", "KLUCB"}),
    ("policies/beliefs.py", "_MEMORY = 0.02", "_MEMORY = 0.03", {"ThompsonSampling", "GuardedThompson"}),
    ("policies/guard/account.py", "_REFUND = 64", "_REFUND = 65", {"GuardedThompson"}),
    ("kernels/order.py", "    low, high = 0, n\n", "    low, high = 0, n + 0\n", EVERYBODY),
]


def test_what_a_kernel_is_made_of_changes_with_what_it_reaches_and_nothing_else(edited: Path) -> None:
    where = {"PYTHONPATH": str(edited.parent), "NUMBA_CACHE_DIR": str(edited.parent.parent / "cache")}
    edits = json.dumps([(str(edited / name), old, new) for name, old, new, _ in EDITS])
    found = json.loads(run(DIGESTS, edited.parent.parent, edits, **where))
    for (name, _, new, changed), policies in zip(EDITS, found, strict=True):
        assert set(policies) == changed, (name, new)


def test_installations_note_their_sources_apart(edited: Path, tmp_path: Path) -> None:
    """Or each start of one would read all modules anew after a start of the other."""
    code = "from armtriage.kernels.normal import normal; print(normal.digest)"
    noted: dict[str, int] = {}
    digests = set()
    for folder in (edited, Path(armtriage.__file__).parent) * 2:
        digests.add(run(code, tmp_path, PYTHONPATH=str(folder.parent), NUMBA_CACHE_DIR=str(tmp_path / "cache")))
        for path in (tmp_path / "cache").rglob("sources-*.json"):
            assert noted.setdefault(path.name, path.stat().st_mtime_ns) == path.stat().st_mtime_ns
    assert len(noted) == 2
    assert len(digests) == 1


COMPILED = """
from armtriage.kernels import jit, sources
from armtriage.kernels.disk import cache_folder, keep, kept
from armtriage.kernels.normal import normal
from armtriage.kernels.random import stream
from armtriage import FeedbackGraph, UniformRandom
policy = UniformRandom(FeedbackGraph.semi_bandit(5), 2, seed=1)
policy.tell(policy.ask(), [0, 1])
print(jit.compilations(), policy.ask().arms.tolist())
"""


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int, str]:
    """A cache that was empty, how many kernels were compiled into it, and what they decided."""
    folder = tmp_path_factory.mktemp("compiled")
    first, arms = run(COMPILED, folder, NUMBA_CACHE_DIR=str(folder / "cache")).split(" ", 1)
    assert int(first) > 0
    return folder / "cache", int(first), arms


def test_only_an_edit_of_the_syntax_compiles_again(
    edited: Path, compiled: tuple[Path, int, str], tmp_path: Path
) -> None:
    """What an installation elsewhere has compiled is taken from the cache, too."""
    cache, _, arms = compiled
    shutil.copytree(cache, tmp_path / "cache")
    where = {"PYTHONPATH": str(edited.parent), "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    policy = edited / "policies" / "uniform_random.py"
    edit(policy, "    if request.epoch == ALL:\n", "    # A comment.\n    if request.epoch == ALL:\n")
    edit(edited / "policies" / "beliefs.py", "_MEMORY = 0.02", "_MEMORY = 0.03")
    assert run(COMPILED, tmp_path, **where) == f"0 {arms}"
    edit(policy, "            request.arms[i] = own.order[i]\n", "            request.arms[i] = i\n")
    assert run(COMPILED, tmp_path, **where) == "1 [0, 1]"


def test_importing_and_deciding_puts_nothing_into_the_working_folder(tmp_path: Path) -> None:
    run(COMPILED, tmp_path)
    assert os.listdir(tmp_path) == []


@pytest.mark.skipif(not jit.JIT, reason="nothing is compiled")
def test_nothing_is_compiled_after_the_first_ask_and_tell() -> None:
    graph = FeedbackGraph.semi_bandit(6)
    for policy in (
        GuardedThompson(graph, 2, seed=1),
        GuardedThompson(FeedbackGraph.cliques([2, 2, 2]), 2, seed=1),
        CombUCB1(graph, decisions=Matchings(2, 3), seed=1),
        ThompsonSampling(graph, decisions=Matchings(2, 3), seed=1),
        ConstrainedElimination(graph, Matchings(2, 3), seed=1),
    ):
        decision = policy.ask()
        policy.tell(decision, np.zeros(decision.revealed.size))
        before = jit.compilations()
        for number in range(300):
            decision = policy.ask()
            told = dict.fromkeys(decision.revealed[: number % 3].tolist(), float(number % 2))
            policy.tell(decision, told, last=number % 5 > 0)
            if number % 5 == 0:
                policy.close_before(number + 1, default=0.0)
        assert jit.compilations() == before, policy


def test_what_does_not_load_is_compiled_again_and_replaced(compiled: tuple[Path, int, str], tmp_path: Path) -> None:
    cache, first, arms = compiled
    shutil.copytree(cache, tmp_path / "cache")
    where = {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    assert run(COMPILED, tmp_path, **where) == f"0 {arms}"
    flipped, no_pair, wrong = sorted((tmp_path / "cache").rglob("*.code"))
    damaged = bytearray(flipped.read_bytes())
    damaged[len(damaged) // 2] ^= 16
    flipped.write_bytes(damaged)
    keep(no_pair, pickle.dumps(7))
    key, (_, *rest) = pickle.loads(kept(wrong) or b"")
    keep(wrong, pickle.dumps((key, (None, *rest))))
    assert run(COMPILED, tmp_path, **where) == f"{first} {arms}"
    assert run(COMPILED, tmp_path, **where) == f"0 {arms}"


def test_kernels_are_kept_where_the_clock_is_behind_the_dates_of_the_sources(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = "armtriage.kernels.order", "kth_largest"
    usual = Sources().digest(*asked)
    assert usual is not None
    monkeypatch.setattr(sources, "_BEGAN", 0.0)
    assert Sources().digest(*asked) is None, "a file that was written after the process began"
    monkeypatch.setattr(time, "time", lambda: 1.0)
    assert Sources().digest(*asked) == usual


def test_the_person_who_waits_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    wait = jit._Wait()
    wait.begin("greedy", 80)
    assert caplog.records == [], "a second is not worth a word"
    wait.begin("GuardedThompson", 820)
    wait.begin("ThompsonSampling", 400)
    assert caplog.messages == [f"armtriage: compiling GuardedThompson, about 5 s, once: it is kept in {cache_folder()}"]
    assert wait.compiled == 3


TOLD = """
import json, sys
from armtriage import CombUCB1, StochasticEnvironment, simulate
policy = CombUCB1(5, budget=2, seed=1)
if sys.stdin.read():
    simulate(policy, StochasticEnvironment([0.5] * 5, policy.graph, seed=1), horizon=3)
policy.tell(policy.ask(), [0, 1])
print(json.dumps(None))
"""


@pytest.mark.skipif(not jit.JIT, reason="nothing is compiled")
@pytest.mark.parametrize("given", ["", pytest.param("simulated", marks=pytest.mark.long)])
def test_the_person_who_waits_is_told_on_standard_error_whatever_that_is(given: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", TOLD],
        input=given,
        env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "null\n"
    (line,) = done.stderr.splitlines()
    assert re.match(r"armtriage: compiling CombUCB1, about \d+ s, once: it is kept in ", line)


INTERRUPTED = """
import os, signal
from numba.core.typing.context import BaseContext
from armtriage import UniformRandom
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job would ignore it
policy = UniformRandom(5, budget=2, seed=1)
usual, calls = BaseContext.insert_attributes, []

def insert(self, attributes):
    if type(attributes).__name__ == "_RecordAttribute" and not calls:
        calls.append(attributes)
        os.kill(os.getpid(), signal.SIGINT)
    usual(self, attributes)

BaseContext.insert_attributes = insert
try:
    policy.ask()
except KeyboardInterrupt:
    print("interrupted", policy.ask().arms.size)
"""


@pytest.mark.skipif(not jit.JIT or os.name == "nt", reason="nothing is compiled, or there are no such signals")
def test_after_an_interrupt_kernels_can_be_compiled(tmp_path: Path) -> None:
    """Numba that was stopped while it loaded lost a type, and could compile nothing more in that process."""
    assert run(INTERRUPTED, tmp_path, NUMBA_CACHE_DIR=str(tmp_path)) == "interrupted 2"


@numba.njit
def third_moment(start: np.uint64, n: int) -> float:
    total = 0.0
    for column in range(n):
        total += normal(start, column) ** 3
    return total


def test_functions_that_numba_compiles_may_call_kernels() -> None:
    start = stream(7, "reward")
    assert third_moment(start, 50) == pytest.approx(sum(normal(start, column) ** 3 for column in range(50)))


@jit.kernel
@jit.apart
def _add_apart(total: np.ndarray, terms: np.ndarray) -> None:
    for j in range(total.size):
        total[j] += 2.0 * terms[j]


@jit.kernel
def _add_anywhere(total: np.ndarray, terms: np.ndarray) -> None:
    for j in range(total.size):
        total[j] += 2.0 * terms[j]


@pytest.mark.skipif(not jit.JIT, reason="about machine code")
def test_arrays_that_lie_apart_are_not_looked_at_before_each_loop() -> None:
    checked = []
    for one in (_add_apart, _add_anywhere):
        total = np.ones(9)
        one(total, np.arange(9.0))
        assert total.tolist() == [1.0 + 2.0 * j for j in range(9)]
        checked.append("memcheck" in "".join(one.outer.inspect_llvm().values()))  # type: ignore[attr-defined]
    assert checked == [False, True]
