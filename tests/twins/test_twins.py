"""Policies decide as their slow twins do, round by round: by ask and tell, in `simulate`, late, and without the JIT."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import zlib
from collections import Counter
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

from armtriage import FeedbackGraph, HierarchicalElimination, StochasticEnvironment, Trace
from twins import cases
from twins.cases import BY_ARM, INDEX, LARGE, LINEAR, LISTED, MEDIUM, OVER_SETS, RANGES, RICH, SETS, VARIANTS, case_of
from twins.harness import Played, decisions_of, first_difference, play, regret_of, simulated
from twins.linear import HierarchicalTwin


def linear(numbers: range, rounds: int, how: str, policies: tuple[str, ...] = LINEAR) -> list[str]:
    return [f"linear/{policy}/{number}/{rounds}/{how}" for policy in policies for number in numbers]


PRINTED = ["gap", *(f"printed/{i}" for i in range(72))]
REDUCED = [f"reduced/{i}" for i in range(96)] + [f"default/{i}" for i in range(24)]
INDEXED = [f"index/{name}/{i}" for name in INDEX for i in range(18)]
MIDDLE = [f"medium/{name}/{kind}" for kind in MEDIUM for name in ("CombinatorialUCB", "CombUCB1", "ThompsonSampling")]
MIDDLE += [f"medium/KLUCB/{kind}" for kind in MEDIUM if "digraph" not in kind]  # its rewards are not tame
INDEXED += [f"{name}/40" for name in MIDDLE]
BIG = [f"large/{kind}/{variant}" for kind in LARGE for variant in ("paper", "tight")]
GUARD = [f"guard/{i}" for i in range(84)]
GUARDED = [*GUARD, "guard-hubs/1", "guard-hubs/4", "guard-drift"]
MIDDLE += [f"guard-medium/{kind}" for kind in ("semi-bandit", "cliques", "digraph")]
GUARDED += ["guard-medium/quiet", *(f"{name}/40" for name in MIDDLE[-3:])]
BY_INDEX = [f"index-guard/{i}" for i in range(60)]
GUARDED += [*BY_INDEX, "index-guard-hubs/1", "index-guard-hubs/4", "index-guard-medium/quiet"]
GUARDED += [f"index-guard-medium/{kind}/40" for kind in ("semi-bandit", "cliques", "digraph")]
# The printed width is so large that it takes long to learn enough for the later stages.
SCALED = linear(range(32), 120, "scaled") + linear(range(353, 378, 24), 120, "scaled", VARIANTS)
SCALED += linear(range(0, 21, 7), 800, "scaled", VARIANTS)
SCALED += linear(range(0, 32, 5), 60, "scaled", BY_ARM)
RAW = linear(range(100, 124), 120, "raw") + linear(range(RICH, RICH + 2), 1500, "raw", VARIANTS)
RAW += linear(range(101, 125, 5), 60, "raw", BY_ARM)
ORACLE = [f"oracle/{i}" for i in range(80)]
HARDER = [f"exchange/{i}" for i in range(16)] + [f"wide/{i}" for i in range(44, 52)]
LISTS = {kind: [f"listed/{kind[0]}/{kind[1]}/{i}" for i in range(24)] for kind in LISTED}
LISTED_CASES = [name for names in LISTS.values() for name in names]
GUARD_SETS = [f"guard-set/{i}" for i in range(84)] + [f"guard-exchange/{i}" for i in range(8)]
OVER = [f"over-set/{policy}/{family}/beta" for policy in OVER_SETS for family in SETS]

SORTED = [*BIG, *PRINTED, *REDUCED, "drift/printed", "drift/reduced", *GUARDED]
CASES = [*SORTED, *INDEXED, *SCALED, *RAW, *ORACLE, *HARDER, *LISTED_CASES, *OVER, *GUARD_SETS]

LATE = linear(range(200, 212), 120, "scaled") + linear(range(RICH, RICH + 1), 1500, "scaled", VARIANTS)
LATE += linear(range(205, 217, 2), 60, "scaled", BY_ARM)
LATE += ORACLE[::2] + HARDER[::2] + LISTED_CASES[::2] + GUARD_SETS[::2]
LATE += [f"over-set/{policy}/{family}/bernoulli" for policy in OVER_SETS for family in SETS if family != "top"]
LATE += [f"index/{name}/{i}" for name in INDEX for i in range(1, 18, 4)]
LATE += [*PRINTED[::3], *REDUCED[::4], "drift/printed", "drift/reduced", *GUARD[::4], "guard-hubs/4", "guard-drift"]
LATE += [*BY_INDEX[1::4], "index-guard-hubs/4"]

# What is played in plain Python, too, where each takes a second or so: every policy, variant and kind of interval.
SMALL = {"gap", "default/0", "guard-hubs/1", "exchange/0", "wide/44", *(f"printed/{i}" for i in range(12))}
SMALL |= {f"reduced/{i}" for i in range(16)} | {f"guard/{i}" for i in range(12)} | {f"oracle/{i}" for i in range(8)}
SMALL |= {f"index/{name}/{i}" for name in INDEX for i in range(4)} | set(linear(range(100, 106), 120, "raw"))
SMALL |= set(linear(range(101, 107, 5), 60, "raw", BY_ARM)) | set(BY_INDEX[:9])
SMALL |= {names[i] for names in LISTS.values() for i in range(4)}
SMALL |= {f"over-set/{one}/{family}/beta" for one in OVER_SETS for family in ("trees", "paths", "knapsack")}


# The runs whose twins are asked afterwards whether cases exercise what they should: one process plays and keeps them.
TELLING = [name for name in SCALED + RAW if int(name.split("/")[3]) >= 800]
TELLING += [name for name in SCALED if int(name.split("/")[2]) in (10, 11, 12, 13, 353, 377)]
KEPT = {*TELLING, *GUARD[::2], "guard-hubs/1", "guard-hubs/4", "drift/printed", "drift/reduced", "gap"}
KEPT |= {*ORACLE[::2], *HARDER[:16:3], *(name for names in LISTS.values() for name in names[::2])}
exercised = pytest.mark.xdist_group("exercised")


# Of the kinds that have many cases `make test` plays the kept ones, the first and some; `make test-long` all of them.
NUMBERED = ("printed/", "reduced/", "default/", "index/", "guard/", "linear/", "oracle/", "listed/", "guard-set/")
NUMBERED += ("index-guard/",)


def marked(names: list[str], kept: set[str]) -> list[Any]:
    """The cases, with marks for those that are small, that one process keeps, and that are left to `make test-long`."""
    seen: Counter[str] = Counter()

    def marks(name: str) -> list[Any]:
        kind = re.sub(r"\d+", "", name)
        seen[kind] += 1
        some = name in kept or seen[kind] <= 2 or zlib.crc32(name.encode()) % 3 == 0
        rare = name.startswith(NUMBERED) and not some
        given = [(pytest.mark.plain, name in SMALL), (exercised, name in kept), (pytest.mark.long, rare)]
        return [mark for mark, wanted in given if wanted]

    return [pytest.param(name, marks=marks(name)) for name in names]


MORE = MIDDLE + [f"printed/{i}" for i in range(72, 400)] + [f"reduced/{i}" for i in range(96, 500)]
MORE += [f"index/{name}/{i}" for name in INDEX for i in range(18, 60)]
MORE += linear(range(1000, 1120), 300, "raw") + [f"oracle/{i}" for i in range(80, 1200)]
MORE += [f"wide/{i}" for i in range(52, 150)]
MORE += [f"listed/{variant}/{cover}/{i}" for variant, cover in LISTED for i in range(24, 300)]
MORE += [f"guard-set/{i}" for i in range(84, 600)]
MORE_LATE = linear(range(2000, 2120), 300, "scaled")
MORE_LATE += [name for name in MORE if name.startswith(("oracle", "wide", "listed"))]


def assert_as_twin(name: str) -> None:
    """The facts of one case, all from one run by ask and tell and one of `simulate`."""
    done = played(name) if name in KEPT else play(case_of(name))
    assert done.fault is None
    if hasattr(done.twin, "total"):
        certified = done.policy.certificate(eligible=np.arange(done.policy.n_arms))
        expected = np.inf if certified.contradictions else done.twin.total
        assert np.isclose(certified.sum_of_certificates, expected, rtol=1e-9)
    if not done.case.in_simulate:
        return
    trace = simulated(done.case)
    assert first_difference(decisions_of(trace), done.decisions) is None
    regret = regret_of(done.case, done.decisions)
    assert np.abs(trace.regret[-1] - regret).max() <= 1e-9 * (1 + abs(regret[-1]))
    if hasattr(done.twin, "log"):
        assert_log_as_twin(done, trace)


def assert_log_as_twin(done: Played, trace: Trace) -> None:
    """A trace logs what was decided until the round from which there is no choice left, and says which that is."""
    assert trace.triage is not None
    found, log, committed = trace.triage[-1], done.twin.log, int(trace.committed_at[-1])
    until = done.case.rounds if committed < 0 else committed + 1
    expected = [entry for entry in log if entry[1] <= until]
    assert list(zip(found.arms.tolist(), found.rounds.tolist(), found.confirmed.tolist(), strict=True)) == expected
    first, budget, n = -1, done.policy.budget, done.policy.n_arms
    for t in reversed(range(done.case.rounds)):
        decided = [confirmed for _, played_before, confirmed in log if played_before <= t]
        if sum(decided) == budget or n - (len(decided) - sum(decided)) == budget:
            first = t
    assert committed == first


def assert_as_twin_when_late(name: str) -> None:
    assert play(case_of(name), late=zlib.crc32(name.encode())).fault is None


@pytest.mark.parametrize("name", marked(CASES, KEPT))
def test_policy_plays_as_its_twin(name: str) -> None:
    assert_as_twin(name)


@pytest.mark.parametrize("name", marked(LATE, set()))
def test_policy_plays_as_its_twin_when_rewards_are_late_or_lost(name: str) -> None:
    assert_as_twin_when_late(name)


@pytest.mark.long
@pytest.mark.parametrize("name", MORE)
def test_policy_plays_as_its_twin_on_many_more_problems(name: str) -> None:
    assert_as_twin(name)


@pytest.mark.long
@pytest.mark.parametrize("name", MORE_LATE)
def test_policy_plays_as_its_twin_on_many_more_problems_with_late_rewards(name: str) -> None:
    assert_as_twin_when_late(name)


@pytest.mark.parametrize("budget", [1, 10, 19])
def test_thompson_draws_like_its_twin_when_good_arms_abound(budget: int) -> None:
    """Arms far above the levels, where cut-offs are only bounds, compete for too few slots."""
    env = StochasticEnvironment(np.full(20, 0.9), FeedbackGraph.semi_bandit(20), seed=budget)
    for seed in range(40):
        case = cases.indexed("ThompsonSampling", env, budget, 60, seed)
        done = play(case)
        assert done.fault is None
        assert first_difference(decisions_of(simulated(case)), done.decisions) is None


@pytest.mark.parametrize(("budget", "horizon"), [(1, 1), (1, 4), (1, 5), (3, 1), (4, 4), (5, 1000), (8, 2**21)])
def test_number_of_stages_is_that_of_the_twin(budget: int, horizon: int) -> None:
    policy = HierarchicalElimination(9, 2, budget, horizon=horizon)
    assert policy.stages == HierarchicalTwin(9, 2, budget, horizon, 0.01, "tight").stages


def short_decisions() -> dict[str, list[list[int]]]:
    """Decisions of short simulations, every policy and several graphs, sets and contexts among them."""
    made = {f"index/{name}/{i}": cases.index_case(name, i, 40) for name in INDEX for i in range(2000, 2009)}
    made |= {f"printed/{i}": cases.printed_case(i, 80) for i in range(9)}
    made |= {f"reduced/{i}": cases.reduced_case(i, 80) for i in range(9)}
    made |= {f"guard/{i}": cases.guard_case(i, 60) for i in range(9)}
    made |= {f"index-guard/{i}": cases.guarded_index_case(i, 60) for i in range(9)}
    made |= {f"guard-set/{i}": cases.guard_set_case(i)._replace(rounds=40) for i in range(9)}
    made |= {name: case_of(name) for name in linear(range(100, 112), 30, "raw")}
    return {name: decisions_of(simulated(case)) for name, case in made.items()}


def test_decisions_do_not_depend_on_compilation() -> None:
    code = "import json; from twins.test_twins import short_decisions; print(json.dumps(short_decisions()))"
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


# The cases do exercise what they should. Facts that a trace shows are taken from `simulate`, which is fast; those that
# only a twin knows from some of the cases.
@cache
def trace(name: str) -> Trace:
    return simulated(case_of(name))


@cache
def played(name: str) -> Played:
    return play(case_of(name))


def share(names: list[str], fact: Callable[[Any], Any], of: Callable[[str], Any] = trace) -> float:
    return float(np.mean([bool(fact(of(name))) for name in names]))


@exercised
@pytest.mark.parametrize(("names", "least"), [(PRINTED, 0.25), (REDUCED, 1 / 3)], ids=["printed", "reduced"])
def test_enough_runs_confirm_an_arm(names: list[str], least: float) -> None:
    # Where every arm is played, all are as good as confirmed from the start.
    assert share(names, lambda one: one.triage[-1].confirmed.any() or one.committed_at[-1] == 0) >= least


@exercised
@pytest.mark.parametrize("names", [PRINTED, REDUCED], ids=["printed", "reduced"])
def test_half_of_the_runs_eliminate_an_arm(names: list[str]) -> None:
    assert share(names, lambda one: not one.triage[-1].confirmed.all()) >= 0.5


@exercised
@pytest.mark.parametrize("names", [PRINTED, REDUCED], ids=["printed", "reduced"])
def test_a_quarter_of_the_runs_commit_after_the_first_round(names: list[str]) -> None:
    assert share(names, lambda one: one.committed_at[-1] > 0) >= 0.25


@exercised
def test_some_printed_run_confirms_more_arms_than_it_can_play() -> None:
    assert played("drift/printed").twin.overfull


@exercised
def test_some_printed_run_has_a_round_without_arms_to_explore() -> None:
    assert played("gap").twin.pure_fills > 0


@exercised
@pytest.mark.parametrize("names", [["drift/reduced"], HARDER[:16:3]], ids=["elimination", "over sets"])
def test_drift_makes_intervals_contradict_each_other(names: list[str]) -> None:
    assert any(played(name).twin.failures for name in names)


@exercised
@pytest.mark.parametrize("part", ["forced", "second", "revealed", "waited", "confirmed", "eliminated"])
def test_a_tenth_of_the_guarded_runs_uses(part: str) -> None:
    assert share(GUARD[::2], lambda one: getattr(one.twin, part), played) >= 0.1


@exercised
@pytest.mark.parametrize("part", ["revealed", "waited", "impatient"])
def test_both_hub_runs_use(part: str) -> None:
    assert min(getattr(played(f"guard-hubs/{n}").twin, part) for n in (1, 4)) > 0


@exercised
@pytest.mark.parametrize("names", [PRINTED[::9], REDUCED[::12], GUARD[::12]], ids=["printed", "reduced", "guard"])
def test_a_tenth_of_the_late_runs_counts_lost_rewards_as_tries(names: list[str]) -> None:
    runs = [play(case_of(name), late=zlib.crc32(name.encode())) for name in names]
    assert np.mean([any(one.twin.schedule.credit) for one in runs]) >= 0.1


def stage_events(variant: str, fact: Callable[[Any], Any]) -> int:
    """In how many rounds of the runs of a variant a stage has it."""
    runs = [played(name) for name in TELLING if name.startswith(f"linear/{variant}/")]
    return sum(any(fact(s) for s in r.stages) for one in runs for r in one.twin.rounds.values())


@exercised
@pytest.mark.parametrize("variant", VARIANTS)
def test_stages_explore_confirm_eliminate_and_fill(variant: str) -> None:
    assert stage_events(variant, lambda s: sum(w > 2.0**-s.h for w in s.wid.values()) > len(s.explored)) >= 100
    assert stage_events(variant, lambda s: s.explored and s.free) >= 100
    assert stage_events(variant, lambda s: s.confirmed) >= 100
    assert stage_events(variant, lambda s: s.eliminated) >= 100
    assert stage_events(variant, lambda s: s.explored and s.h >= 4) >= 20
    runs = [played(name) for name in TELLING if name.startswith(f"linear/{variant}/")]
    rounds = [r for one in runs for r in one.twin.rounds.values()]
    assert sum(bool(r.filled) and len(r.filled) < len(r.stages[-1].kept) for r in rounds) >= 100


@exercised
def test_drift_makes_the_ends_of_some_arms_cross() -> None:
    assert sum(played(name).twin.contradictions for name in TELLING if name.startswith("linear/tight/")) > 0


@exercised
def test_sizes_and_horizons_have_their_turns() -> None:
    policies = [case_of(name).policy for name in SCALED + RAW if name.startswith("linear/tight/")]
    assert {policy.dimension for policy in policies} == {1, 2, 5, 8}
    assert any(policy.n_arms == 1 for policy in policies)
    assert any(policy.budget == 1 < policy.n_arms for policy in policies)
    assert any(policy.budget == policy.n_arms > 1 for policy in policies)
    assert any(1 < policy.budget < policy.n_arms for policy in policies)
    assert {1, 10**6} <= {policy.horizon for policy in policies}
    assert {policy.reward_range for policy in policies} == set(RANGES)
    assert {policy.context_bound for policy in policies} == {0.5, 1.0, 2.5}


@exercised
def test_oracle_runs_confirm_eliminate_and_commit() -> None:
    some = ORACLE[::2]
    assert share(some, lambda one: one.twin.confirmed, played) >= 1 / 3
    assert share(some, lambda one: one.twin.eliminated, played) >= 1 / 2
    assert share(some, lambda one: not one.twin.undecided, played) >= 1 / 4
    assert share(some, lambda one: one.twin.counted, played) >= 0.8


@exercised
@pytest.mark.parametrize("kind", LISTED, ids="/".join)
def test_a_third_of_the_listed_runs_eliminate_a_decision_and_have_covers_of_several(kind: tuple[str, str]) -> None:
    some = LISTS[kind][::2]
    assert share(some, lambda one: len(one.twin.active) < len(one.twin.family), played) >= 1 / 3
    assert share(some, lambda one: max(one.twin.cover_sizes, default=0) > 1, played) >= 1 / 3
