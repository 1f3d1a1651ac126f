"""Requests that differ: eligible sets, arms that come and go, decisions made elsewhere, names, costs."""

from __future__ import annotations

import copy
import pickle
from functools import cache
from typing import Any

import numpy as np
import pytest

from armtriage import (
    C2UCB,
    KLUCB,
    CombinatorialElimination,
    CombinatorialUCB,
    CombUCB1,
    ConstrainedElimination,
    FeedbackGraph,
    Greedy,
    Guard,
    GuardedThompson,
    Matchings,
    Policy,
    StochasticEnvironment,
    ThompsonSampling,
    UnknownArm,
    UnknownDecision,
)
from conftest import POLICIES, Plain, ask, used, with_face

CHANGING = [name for name in with_face("arms") if not name.startswith("paper")]
KINDS = [name for name in CHANGING if "-" not in name or name.startswith("Guard")]
REPLAYED = [*with_face("arms"), *with_face("set"), *with_face("contexts")]
NAMES = ["tea", "milk", "jam", ("a", 1), 7]


@cache
def luck(number: int, arm: int) -> float:
    """A reward of an arm in a round, the same whoever asks."""
    return float(np.random.default_rng((number, arm)).random() < (arm % 10 + 1) / 12)


def tell_all(policy: Any, decision: Any) -> None:
    policy.tell(decision, [luck(decision.number, arm) for arm in decision.revealed.tolist()])


def wander(policy: Any, rounds: int, seed: int = 0) -> list[list[int]]:
    """Ask with random eligible sets, tell late, partly and not at all; return the decisions."""
    rng, waiting, played = np.random.default_rng(seed), [], []
    for _ in range(rounds):
        live = np.flatnonzero(~policy.arms.retired)
        some = live[rng.random(live.size) < 0.7]
        decision = policy.ask(eligible=some if some.size and rng.random() < 0.8 else None)
        played.append(decision.arms.tolist())
        waiting.append(decision)
        while waiting and rng.random() < 0.6:
            one = waiting.pop(int(rng.integers(len(waiting))))
            shown = one.revealed.tolist()
            keep = rng.random(len(shown)) < 0.8
            told = {arm: luck(one.number, arm) for arm, kept in zip(shown, keep, strict=True) if kept}
            split = rng.random() < 0.3 and len(told) > 1
            if split:
                first = dict([told.popitem()])
                policy.tell(one, first, last=False)
                if len(first) == len(shown):
                    continue
            policy.tell(one, told)
    return played


@pytest.mark.parametrize("name", with_face("arms"))
def test_all_arms_eligible_is_nothing_special(name: str) -> None:
    plain, masked, listed = (POLICIES[name].make() for _ in range(3))
    for _ in range(60):
        decisions = plain.ask(), masked.ask(eligible=np.ones(10, bool)), listed.ask(eligible=range(10))
        for policy, decision in zip((plain, masked, listed), decisions, strict=True):
            assert decision.arms.tolist() == decisions[0].arms.tolist()
            assert decision.eligible is None
            tell_all(policy, decision)
    assert plain.digest() == masked.digest() == listed.digest()


@pytest.mark.parametrize("name", CHANGING)
def test_decisions_are_among_the_eligible_and_as_large_as_they_can_be(name: str) -> None:
    policy, rng = POLICIES[name].make(), np.random.default_rng(3)
    for _ in range(80):
        some = np.flatnonzero(rng.random(10) < rng.random())
        if not some.size:
            continue
        decision = policy.ask(eligible=some)
        assert decision.arms.size == min(3, some.size)
        assert set(decision.arms.tolist()) <= set(some.tolist())
        eligible = range(10) if decision.eligible is None else decision.eligible.tolist()
        assert list(eligible) == some.tolist()
        # Sleepers are not seen.
        seen = np.intersect1d(policy.graph.revealed_by(decision.arms), some)
        assert decision.revealed.tolist() == seen.tolist()
        tell_all(policy, decision)


@pytest.mark.parametrize("name", CHANGING)
def test_a_saved_policy_goes_on_as_it_would_have(name: str) -> None:
    policy = POLICIES[name].make()
    wander(policy, 40)
    policy.add_arms(2)
    policy.retire_arms([0, 4])
    wander(policy, 20, seed=1)
    policy.restore_arms([4], forget=True)
    wander(policy, 10, seed=2)
    loaded = Policy.from_bytes(policy.to_bytes())
    assert loaded.digest() == policy.digest()
    for one in policy.open_decisions:
        other = loaded.decision(one.number)
        assert other.arms.tolist() == one.arms.tolist()
        assert other.revealed.tolist() == one.revealed.tolist()
    assert wander(loaded, 30, seed=3) == wander(policy, 30, seed=3)
    assert loaded.digest() == policy.digest()
    assert str(loaded.certificate()) == str(policy.certificate())


@pytest.mark.parametrize("name", CHANGING)
def test_retiring_is_forgotten_when_an_arm_is_restored(name: str) -> None:
    one, other = POLICIES[name].make(), POLICIES[name].make()
    rest = [1, 2, 4, 5, 6, 7, 8, 9]
    for policy in (one, other):
        wander(policy, 20)
    one.retire_arms([0, 3])
    for _ in range(20):
        for policy, given in ((one, None), (other, rest)):
            tell_all(policy, policy.ask(eligible=given))
    one = Policy.from_bytes(one.to_bytes())
    one.restore_arms([0, 3])
    if "Guard" not in name:
        # A guard's budget is that of the arms that are not retired.
        assert one.digest() == other.digest()
        assert wander(one, 20, seed=5) == wander(other, 20, seed=5)
    assert one.tally.pulls.tolist() == other.tally.pulls.tolist() or name.endswith("-strict")


@pytest.mark.parametrize("name", ["ThompsonSampling", "GuardedThompson-draws", "UniformRandom", "CombUCB1", "Greedy"])
def test_an_added_arm_changes_no_other_arms_luck(name: str) -> None:
    one, other = POLICIES[name].make(), POLICIES[name].make()
    some = [0, 1, 2, 4, 5, 6, 7, 8, 9]
    for policy in (one, other):
        tell_all(policy, policy.ask(eligible=some))
    other.add_arms(3)
    for _ in range(60):
        decisions = one.ask(eligible=some), other.ask(eligible=some)
        assert decisions[0].arms.tolist() == decisions[1].arms.tolist()
        tell_all(one, decisions[0])
        tell_all(other, decisions[1])


def test_coins_do_not_depend_on_the_number_of_arms() -> None:
    small, large = (ThompsonSampling(n, budget=3, seed=7) for n in (10, 500))
    for _ in range(60):
        decisions = [policy.ask(eligible=range(9)) for policy in (small, large)]
        assert decisions[0].arms.tolist() == decisions[1].arms.tolist()
        for policy, decision in zip((small, large), decisions, strict=True):
            policy.tell(decision, [0.3 + 0.05 * arm for arm in decision.arms.tolist()])


@pytest.mark.parametrize("name", KINDS)
def test_rows_that_were_added_are_like_rows_that_were_there(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kind, options = POLICIES[name].kind, POLICIES[name].options
    if name.startswith("Guard"):
        options = {**options, "delta": 0.5}
    grown, made = (kind(graph=FeedbackGraph.semi_bandit(n), budget=2, seed=7, **options) for n in (5, 6))
    grown.add_arms(1)
    if name.startswith(("Guard", "tight")):
        # Only the share of delta is another one.
        monkeypatch.setattr(grown._roster, "divisors", lambda: np.full(6, 6.0))
        grown._change(grown._with_shares(grown._evidence))
    for number in range(80):
        some = [1, 2, 3, 5] if number % 3 else [0, 2, 4, 5]
        decisions = grown.ask(eligible=some), made.ask(eligible=some)
        assert decisions[0].arms.tolist() == decisions[1].arms.tolist(), number
        tell_all(grown, decisions[0])
        tell_all(made, decisions[1])


def test_many_arms_may_come() -> None:
    policy = GuardedThompson(3, budget=2, seed=7)
    for _ in range(40):
        new = policy.add_arms(150)
        tell_all(policy, policy.ask(eligible=new))
        tell_all(policy, policy.ask())
    assert policy.n_arms == 6003
    assert policy.arms.share.sum() <= 2.0
    assert policy.tally.pulls.sum() == 160
    assert policy.certificate().confidence == pytest.approx(0.98)


def test_a_decision_outlives_the_retirement_of_its_arms() -> None:
    policy = GuardedThompson(4, budget=2, seed=7)
    old = policy.ask(eligible=[0, 1])
    policy.retire_arms([0])
    policy.tell(old, {0: 1.0, 1: 0.0})
    assert policy.tally.counts.tolist() == [1, 1, 0, 0]
    assert all(0 not in policy.ask().arms for _ in range(5))


@pytest.mark.parametrize("name", ["ThompsonSampling", "GuardedThompson", "tight", "CombUCB1", "Guard"])
def test_a_forgotten_arm_begins_anew_and_its_past_is_kept_in_the_books(name: str) -> None:
    policy = POLICIES[name].kind(graph=FeedbackGraph.semi_bandit(4), budget=2, seed=7, **POLICIES[name].options)
    for _ in range(50):
        tell_all(policy, policy.ask(eligible=[0, 1, 2]))
    late = policy.ask(eligible=[0, 1])
    before = policy.certificate(delta=0.1)
    policy.retire_arms([0])
    policy.restore_arms([0], forget=True)
    assert policy.tally.counts[0] == policy.tally.pulls[0] == 0
    policy.tell(late, {0: 1.0, 1: 0.0})
    assert policy.tally.counts[0] == 0, "of a decision from before"
    assert policy.tally.counts[1] > 0
    after = policy.certificate(delta=0.1)
    assert after.rounds == before.rounds
    # All that was lost stays lost, although nothing is known of the arm any more.
    assert after.regret_bound > 0.9 * before.regret_bound
    tell_all(policy, policy.ask(eligible=[0, 3]))
    assert policy.tally.counts[0] == 1


@pytest.mark.parametrize("name", CHANGING)
def test_no_decision_is_lost_from_the_tally(name: str) -> None:
    policy = POLICIES[name].make()
    pulls, exposures = np.zeros(10, int), np.zeros(10, int)
    rng = np.random.default_rng(3)
    for _ in range(50):
        some = np.flatnonzero(rng.random(10) < 0.6)
        some = some if some.size else np.arange(10)
        decision = policy.ask(eligible=some)
        pulls[decision.arms] += 1
        exposures[some] += 1
        tell_all(policy, decision)
    assert policy.tally.pulls.tolist() == pulls.tolist()
    assert policy._exposures.tolist() == exposures.tolist()


@pytest.mark.parametrize("told", [True, False])
@pytest.mark.parametrize("kind", [CombUCB1, KLUCB, CombinatorialUCB])
def test_arms_that_a_recorded_decision_passed_over_are_asked_next(kind: Any, told: bool) -> None:
    policy = kind(6, budget=2, seed=1, **({"horizon": 100} if kind is CombinatorialUCB else {}))
    recorded = policy.record([2, 3])
    if told:
        policy.tell(recorded, [0, 1])
    asked = []
    for _ in range(2):
        decision = policy.ask()
        policy.tell(decision, [0, 1])
        asked.append(decision.arms.tolist())
    assert asked == [[0, 1], [4, 5]]


@pytest.mark.parametrize("name", REPLAYED)
def test_a_log_gives_the_policy_that_wrote_it(name: str) -> None:
    entry = POLICIES[name]
    policy, copy = entry.make(), entry.make()
    waiting = []
    for number in range(50):
        decision = ask(policy, entry.environment, number)
        contexts = {} if entry.face != "contexts" else {"contexts": entry.environment.contexts(number, 0)}
        assert copy.record(decision.arms, **contexts).number == number
        waiting.append(decision)
        if number % 3:
            one = waiting.pop(0)
            rewards = dict(zip(one.revealed.tolist(), entry.environment.rewards(one.number, one.revealed), strict=True))
            if number % 4 == 0:
                rewards.popitem()
            for both in (policy, copy):
                both.tell(one.number, rewards)
    assert copy.digest() == policy.digest()


@pytest.mark.parametrize("name", CHANGING)
def test_a_log_with_eligible_sets_gives_the_policy_that_wrote_it(name: str) -> None:
    policy, copy, rng = POLICIES[name].make(), POLICIES[name].make(), np.random.default_rng(5)
    for number in range(60):
        if number == 20:
            policy.add_arms(2)
            copy.add_arms(2)
        if number in (3, 40):
            for both in (policy, copy):
                both.retire_arms([number % 3])
        live = np.flatnonzero(~policy.arms.retired)
        some = live[rng.random(live.size) < 0.6] if 5 < number < 50 else None
        some = None if some is None or not some.size else some
        decision = policy.ask(eligible=some)
        copy.record(decision.arms, eligible=some)
        for both in (policy, copy):
            both.tell(number, [luck(number, arm) for arm in decision.revealed.tolist()])
    assert copy.digest() == policy.digest()


@pytest.mark.parametrize("name", KINDS)
def test_decisions_of_somebody_else_are_adopted(name: str) -> None:
    policy = POLICIES[name].make()
    for number in range(40):
        given = [number % 10, (number + 1) % 10, (number + 2) % 10]
        decision = policy.record(given) if number < 20 else policy.record(given, eligible=range(10))
        assert sorted(given) == decision.arms.tolist()
        tell_all(policy, decision)
    assert policy.tally.pulls.sum() == 120
    assert policy.tally.pulls.max() - policy.tally.pulls.min() <= 1
    assert policy.certificate(delta=0.1).rounds == 40
    assert Policy.from_bytes(policy.to_bytes()).digest() == policy.digest()
    assert policy.ask().arms.size == 3


@pytest.mark.parametrize("name", with_face("arms"))
def test_many_decisions_at_once_are_those_of_as_many_asks(name: str) -> None:
    one, other = used(name), used(name)
    assert [d.arms.tolist() for d in one.ask_many(5)] == [other.ask().arms.tolist() for _ in range(5)]
    assert one.digest() == other.digest()


class TestNames:
    def make(self, kind: Any = GuardedThompson, **options: Any) -> Any:
        return kind(5, budget=2, names=NAMES, seed=7, **options)

    def test_arms_come_back_named(self) -> None:
        policy = self.make()
        decision = policy.ask(eligible=["tea", ("a", 1), 7])
        assert set(decision.names) <= {"tea", ("a", 1), 7}
        assert set(decision.ranked) == set(decision.names)
        assert "names=" in repr(decision)
        policy.tell(decision, dict.fromkeys(decision.names, 1))
        assert policy.decision is not None
        sets = policy.triage_of(["tea", "milk", "jam"])
        assert {name for part in sets for name in part.tolist()} == {"tea", "milk", "jam"}
        certificate = policy.certificate(eligible=["tea", "jam", 7])
        assert set(certificate.next_decision.tolist()) <= {"tea", "jam", 7}
        assert all(one.outside in NAMES and one.inside in NAMES for one in certificate.exchanges)
        assert "'" in str(certificate)

    def test_numbers_are_never_used_again(self) -> None:
        policy = self.make()
        policy.retire_arms(["jam"])
        assert policy.add_arms(["bread"]).tolist() == [5]
        with pytest.raises(ValueError, match="'jam' is an arm already"):
            policy.add_arms(["jam"])
        assert policy.arms.names == (*NAMES, "bread")
        assert policy.arms.retired.tolist() == [False, False, True, False, False, False]

    @pytest.mark.parametrize(
        ("names", "error", "said"),
        [
            (["a", "b"], ValueError, "each of the 5 arms"),
            (["a", "a", "b", "c", "d"], ValueError, "'a' is an arm already"),
            ([True, "a", "b", "c", "d"], TypeError, "True"),
            ([1.5, "a", "b", "c", "d"], TypeError, r"1\.5"),
            ([["a"], "b", "c", "d", "e"], TypeError, "names must be str, int or tuples"),
            ("abcde", TypeError, "sequence of names"),
        ],
    )
    def test_what_is_no_name_is_refused(self, names: Any, error: type[Exception], said: str) -> None:
        with pytest.raises(error, match=said):
            GuardedThompson(5, budget=2, names=names)

    def test_names_survive_saving(self, tmp_path: Any) -> None:
        policy = self.make(ThompsonSampling)
        policy.add_arms([("b", (2, "c"))])
        policy.save(tmp_path / "policy")
        assert Policy.load(tmp_path / "policy").names == [*NAMES, ("b", (2, "c"))]


class TestRefusals:
    """Bad requests are refused by name, and change nothing."""

    @pytest.fixture(params=["GuardedThompson", "tight", "Guard", "CombUCB1"])
    def policy(self, request: pytest.FixtureRequest) -> Any:
        policy = POLICIES[request.param].make(names=[f"n{i}" for i in range(10)]) if request.param != "Guard" else None
        if policy is None:
            graph = POLICIES["Guard"].make().graph
            policy = Guard(ThompsonSampling(graph, 3), graph, 3, names=[f"n{i}" for i in range(10)], seed=7)
        policy.tell(policy.ask(eligible=["n0", "n1", "n2", "n3", "n8"]), {})
        policy.retire_arms(["n9"])
        return policy

    @pytest.mark.parametrize(
        ("call", "error", "said"),
        [
            (lambda p: p.ask(eligible=[]), ValueError, "eligible must name an arm or more"),
            (lambda p: p.ask(eligible=np.zeros(10, bool)), ValueError, "eligible must name an arm or more"),
            (lambda p: p.ask(eligible=["n1", "n9"]), ValueError, "'n9', which is retired"),
            (lambda p: p.ask(eligible=np.ones(10, bool)), ValueError, "'n9', which is retired"),
            (lambda p: p.ask(eligible=np.ones(4, bool)), ValueError, "a boolean for each of 10 arms"),
            (lambda p: p.ask(eligible=["n1", "n1"]), ValueError, "'n1' twice"),
            (lambda p: p.ask(eligible=["who"]), UnknownArm, "'who'"),
            (lambda p: p.ask(eligible=[3]), UnknownArm, "3"),
            (lambda p: p.ask(eligible="n1"), TypeError, "sequence of arms"),
            (lambda p: p.ask(eligible=5), TypeError, "sequence of arms"),
            (lambda p: p.add_arms(["n3"]), ValueError, "'n3' is an arm already"),
            (lambda p: p.add_arms(3), ValueError, "names must be given"),
            (lambda p: p.add_arms([]), ValueError, "a name or more"),
            (lambda p: p.add_arms([None]), TypeError, "None"),
            (lambda p: p.add_arms([{}]), TypeError, "{}"),
            (lambda p: p.add_arms(["x"], shows={"n1": ["n2"]}), ValueError, "new arms, got 'n1'"),
            (lambda p: p.add_arms(["x"], shows={"x": ["who"]}), UnknownArm, "'who'"),
            (lambda p: p.add_arms(["x"], like="who"), UnknownArm, "'who'"),
            (lambda p: p.retire_arms(["n9"]), ValueError, "'n9', which is retired already"),
            (lambda p: p.retire_arms(["who"]), UnknownArm, "'who'"),
            (lambda p: p.restore_arms(["n1"]), ValueError, "'n1', which is not retired"),
            (lambda p: p.restore_arms(["n9"], forget=1), TypeError, "forget"),
            (lambda p: p.record(["n1", "n2"]), ValueError, "3 different arms"),
            (lambda p: p.record(["n1", "n2", "n9"]), ValueError, "'n9', which is not eligible"),
            (lambda p: p.record(["n1", "n2", "n3"], eligible=["n1", "n2"]), ValueError, "'n3', which is not eligible"),
            (lambda p: p.record(["n1", "n2", "n3"], contexts=[[1]]), TypeError, "contexts"),
            (lambda p: p.tell(p.open_decisions[0], {"n1": 1}, last=None), TypeError, "last"),
            (lambda p: p.tell(p.open_decisions[0], {"n1": 2}), ValueError, "got 2.* for 'n1'"),
            (lambda p: p.tell(p.open_decisions[0], {"n1": "x"}), TypeError, "'n1'"),
            (lambda p: p.tell(p.open_decisions[0], {"n7": 1}), ValueError, "'n7', which the decision does not reveal"),
            (lambda p: p.close(p.open_decisions[0], default=2), ValueError, "default must lie in"),
            (lambda p: p.close(0, default=2), ValueError, "default must lie in"),
            (lambda p: p.close(99), UnknownDecision, "decision 99 is unknown"),
            (
                lambda p: p.tell(p.open_decisions[0], [1, 1, 1]),
                TypeError,
                r"rewards must be {name: reward} where .* got",
            ),
            (lambda p: p.tell(p.open_decisions[0], [1], arms=["n1", "n2"]), ValueError, "each of the 2 arms"),
            (lambda p: p.tell(p.open_decisions[0], [1, 1], arms=["n1", "n1"]), ValueError, "arms has 'n1' twice"),
            (lambda p: p.tell(p.open_decisions[0], [1], arms=["n7"]), ValueError, "'n7', which the decision does not"),
            (lambda p: p.tell(p.open_decisions[0], {"n1": 1}, arms=["n1"]), TypeError, "arms must be None beside"),
            (lambda p: p.close_before(-1), ValueError, "number"),
            (lambda p: p.triage_of(["who"]), UnknownArm, "'who'"),
            (lambda p: p.certificate(eligible=["n9"]), ValueError, "retired"),
            (lambda p: p.ask_many(-1), ValueError, "count"),
        ],
    )
    def test_by_name(self, policy: Any, call: Any, error: type[Exception], said: str) -> None:
        policy.record(["n0", "n1", "n2"], eligible=["n0", "n1", "n2"])
        before = policy.digest(), snapshot_of(policy)
        with pytest.raises(error, match=said):
            call(policy)
        assert (policy.digest(), snapshot_of(policy)) == before

    def test_the_paper_variant_says_why_not(self) -> None:
        policy = POLICIES["paper"].make()
        for call in (
            lambda: policy.ask(eligible=[1, 2, 3, 4]),
            lambda: policy.add_arms(1),
            lambda: policy.retire_arms([0]),
        ):
            with pytest.raises(ValueError, match="one mean of all arms"):
                call()

    def test_decision_sets_do_not_grow(self) -> None:
        policy = ThompsonSampling(4, decisions=Matchings(2, 2), seed=7)
        with pytest.raises(ValueError, match="arms cannot be added"):
            policy.add_arms(1)
        with pytest.raises(ValueError, match="eligible must leave a decision"):
            policy.ask(eligible=[0, 1])
        assert policy._asked == 0

    def test_a_policy_of_ones_own_says_what_it_lacks(self) -> None:
        policy = Plain(FeedbackGraph.semi_bandit(4), 2)
        with pytest.raises(NotImplementedError, match="Plain cannot be asked"):
            policy.ask(eligible=[1, 2])


def snapshot_of(policy: Any) -> Any:
    return [one.number for one in policy.open_decisions], policy.arms.names, policy.arms.retired.tolist()


class TestGraphs:
    @pytest.mark.parametrize("seed", range(8))
    def test_a_graph_that_grew_is_the_one_that_was_made(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        n, more = 8, 4
        starts = [
            FeedbackGraph.cliques([3, 5]),
            FeedbackGraph.full_information(n),
            FeedbackGraph.erdos_renyi(n, 0.3, seed=seed),
            FeedbackGraph.semi_bandit(n),
            FeedbackGraph.threshold(n),
        ]
        for graph in starts:
            whole = graph.to_sparse().toarray()
            pairs = [(a, b) for a in range(n + more) for b in range(n + more) if max(a, b) >= n and rng.random() < 0.4]
            wanted = np.eye(n + more, dtype=bool)
            wanted[:n, :n] = whole
            for a, b in pairs:
                wanted[a, b] = True
            grown = graph.with_arms(more, pairs)
            assert grown == FeedbackGraph.from_sparse(wanted)
            step = graph
            for arm in range(n, n + more):
                step = step.with_arms(1, [pair for pair in pairs if max(pair) == arm])
            assert step == grown

    def test_new_arms_may_show_and_be_shown(self) -> None:
        policy = ThompsonSampling(FeedbackGraph.cliques([2, 2]), 1, names=list("abcd"), seed=7)
        policy.add_arms(["e"], like="a")
        policy.add_arms(["f"], shows={"f": ["c"]}, shown_by={"f": ["e"]})
        graph = policy.graph
        shown = {name: [policy.names[b] for b in graph.revealed_by(a)] for a, name in enumerate("abcdef")}
        expected = {"a": "abe", "b": "abe", "c": "cd", "d": "cd", "e": "abef", "f": "cf"}
        assert {name: "".join(sorted(arms)) for name, arms in shown.items()} == expected
        decision = policy.ask(eligible=["e"])
        assert decision.revealed.tolist() == [4]

    def test_sleepers_are_seen_where_they_may_be(self) -> None:
        graph = FeedbackGraph.full_information(4)
        policy = ThompsonSampling(graph, 1, sleepers_seen=True, seed=7)
        policy.retire_arms([3])
        assert policy.ask(eligible=[0]).revealed.tolist() == [0, 1, 2]

    def test_decisions_of_before_do_not_show_what_came_later(self) -> None:
        policy = ThompsonSampling(FeedbackGraph.full_information(3), 1, seed=7)
        old = policy.ask()
        policy.add_arms(1, like=0)
        assert old.revealed.tolist() == [0, 1, 2]
        assert policy.ask().revealed.tolist() == [0, 1, 2, 3]


class TestDirection:
    @pytest.mark.parametrize("name", [*KINDS, "tight", "CombUCB1-set", "ThompsonSampling-set", "constrained"])
    def test_costs_are_rewards_turned_round(self, name: str) -> None:
        entry = POLICIES[name]
        if entry.kind.__name__ == "guard":
            graph = entry.make().graph
            make = lambda **more: Guard(ThompsonSampling(graph, 3, **more), graph, 3, seed=7, **more)  # noqa: E731
        else:
            make = entry.make
        gains, costs = make(reward_range=(2.0, 5.0)), make(reward_range=(2.0, 5.0), direction="minimize")
        for _ in range(60):
            decisions = gains.ask(), costs.ask()
            assert decisions[0].arms.tolist() == decisions[1].arms.tolist()
            rewards = np.array([luck(decisions[0].number, arm) for arm in decisions[0].revealed.tolist()])
            gains.tell(decisions[0], 2.0 + 3.0 * rewards)
            costs.tell(decisions[1], 5.0 - 3.0 * rewards)
        if entry.face == "arms":
            bounds = [policy.certificate(delta=0.1).regret_bound for policy in (gains, costs)]
            assert bounds[0] == pytest.approx(bounds[1])
            assert "cost" in str(costs.certificate())

    def test_the_cheapest_route_is_found_although_routes_differ_in_length(self) -> None:
        from armtriage import Explicit

        routes = Explicit([[0], [1, 2], [1, 3]], n_arms=4)
        policy = CombUCB1(4, decisions=routes, direction="minimize", reward_range=(0.0, 10.0), exploration=0.1)
        costs = np.array([9.0, 2.0, 3.0, 8.0])
        for _ in range(300):
            decision = policy.ask()
            policy.tell(decision, costs[decision.arms])
        assert decision.arms.tolist() == [1, 2]


class TestRanked:
    @pytest.mark.parametrize("name", [*with_face("arms"), *with_face("set")])
    def test_every_arm_of_a_decision_is_ranked_once(self, name: str) -> None:
        policy, environment = POLICIES[name].make(), POLICIES[name].environment
        for number in range(30):
            decision = ask(policy, environment, number)
            assert sorted(decision.ranked) == decision.arms.tolist()
            policy.tell(decision, environment.rewards(number, decision.revealed, 0))

    def test_the_best_by_what_was_believed_comes_first(self) -> None:
        greedy = Greedy(3, budget=3)
        greedy.tell(greedy.ask(), [0.2, 0.9, 0.5])
        assert greedy.ask().ranked == (1, 2, 0)
        assert greedy.ask(eligible=[0, 2]).ranked == (2, 0)
        elimination = CombinatorialElimination(3, budget=2, seed=7)
        elimination.tell(elimination.ask(), {0: 0.1, 1: 0.9})
        draws = ThompsonSampling(2, budget=2, seed=7)
        for _ in range(60):
            draws.tell(draws.ask(), [0, 1])
        assert draws.ask().ranked == (1, 0)
        index = CombUCB1(2, budget=2)
        index.tell(index.ask(), [0, 1])
        assert index.ask().ranked == (1, 0)


def test_with_contexts_rows_are_those_of_the_eligible() -> None:
    rng = np.random.default_rng(3)
    contexts = rng.normal(size=(6, 3))
    contexts /= np.linalg.norm(contexts, axis=1, keepdims=True)
    one, other, whole = (C2UCB(6, dimension=3, budget=2, seed=7) for _ in range(3))
    for _ in range(20):
        some = [4, 1, 3]
        decisions = one.ask(contexts[some], eligible=some), other.ask(contexts, eligible=[1, 3, 4])
        assert decisions[0].arms.tolist() == decisions[1].arms.tolist()
        np.testing.assert_array_equal(decisions[0].contexts, contexts[decisions[0].arms])
        for policy, decision in zip((one, other), decisions, strict=True):
            policy.tell(decision, contexts[decision.arms] @ [0.5, 0.1, -0.3])
    assert one.digest() == other.digest()
    assert one.ask(contexts[:1], eligible=[0]).arms.tolist() == [0]
    assert Policy.from_bytes(one.to_bytes()).digest() == one.digest()
    assert whole.ask(contexts).eligible is None


def test_decision_sets_take_eligible_arms_through_their_oracle() -> None:
    for policy in (
        ThompsonSampling(12, decisions=Matchings(3, 4), seed=7),
        CombUCB1(12, decisions=Matchings(3, 4), seed=7),
        ConstrainedElimination(12, Matchings(3, 4), seed=7),
    ):
        rng = np.random.default_rng(3)
        for _ in range(40):
            closed = rng.choice(12, 2, replace=False)
            some = np.setdiff1d(np.arange(12), closed)
            decision = policy.ask(eligible=some)
            assert set(decision.arms.tolist()) <= set(some.tolist())
            assert decision.arms in Matchings(3, 4)
            policy.tell(decision, [luck(decision.number, arm) for arm in decision.arms.tolist()])
        policy.retire_arms([0])
        assert 0 not in policy.ask().arms
        loaded = Policy.from_bytes(policy.to_bytes())
        assert loaded.digest() == policy.digest()
        policy.restore_arms([0])


def test_a_guard_hands_eligible_arms_to_a_function_that_wants_them() -> None:
    asked = []

    def proposer(number: int, eligible: Any = None) -> list[str]:
        asked.append(eligible)
        return sorted(eligible)[:1] if eligible is not None else ["a"]

    policy = Guard(proposer, 3, budget=1, names=["a", "b", "c"], seed=7)
    assert policy.ask().names == ("a",)
    assert policy.ask(eligible=["b", "c"]).names == ("b",)
    assert asked[0] is None
    assert sorted(asked[1]) == ["b", "c"]
    stubborn = Guard(lambda number: [0], 3, budget=1, seed=7)
    assert stubborn.ask(eligible=[1, 2]).arms[0] in (1, 2)
    assert stubborn.proposer_failures == 1


def test_the_default_policy_learns_who_is_best_of_every_eligible_set() -> None:
    means = np.linspace(0.1, 0.9, 12)
    env = StochasticEnvironment(means, FeedbackGraph.semi_bandit(12), seed=5)
    policy, rng, lost = GuardedThompson(12, budget=2, seed=7), np.random.default_rng(3), []
    for number in range(3000):
        some = np.sort(rng.choice(12, 6, replace=False))
        decision = policy.ask(eligible=some)
        lost.append(np.sort(means[some])[-2:].sum() - means[decision.arms].sum())
        policy.tell(decision, env.rewards(number, decision.arms))
    assert np.mean(lost[-500:]) < 0.05
    assert policy.certificate().regret_bound >= sum(lost)


def test_arms_that_were_just_added_are_saved_and_looked_at_before_anybody_asks() -> None:
    """Between `add_arms` and the next `ask` graph, tally and state must agree on how many arms there are."""
    policy = GuardedThompson(5, budget=2, names=list("abcde"), seed=1)
    policy.tell_revealed(policy.ask(), [1, 0])
    policy.add_arms(["x", "y"])
    assert policy.graph.n_arms == 7
    loaded = Policy.from_bytes(policy.to_bytes())
    assert loaded.digest() == policy.digest()
    assert loaded.ask().names == policy.ask().names


@pytest.mark.parametrize("make", [GuardedThompson, lambda *a, **k: Guard(ThompsonSampling(*a), *a, **k)])
def test_a_book_by_eligible_set_is_never_looser_and_survives_saving(make: Any) -> None:
    means = np.linspace(0.1, 0.9, 8)
    policy, plain = make(8, 2, patterns=4, seed=7), make(8, 2, seed=7)
    lost = 0.0
    sets = [np.array([0, 1, 2, 7]), np.array([3, 4, 5]), np.array([2, 5, 6, 7])]
    for number in range(900):
        some = None if number < 30 else sets[number % 3]
        rewards = np.random.default_rng((number, 1)).random(8) < means
        for one in (policy, plain):
            decision = one.ask(eligible=some)
            one.tell(decision, rewards[decision.arms].astype(float))
        lost += np.sort(means if some is None else means[some])[-2:].sum() - means[decision.arms].sum()
    by_set, without = policy.certificate(), plain.certificate()
    assert without.by_pattern is None
    assert by_set.by_pattern is not None
    assert lost <= by_set.regret_bound <= without.regret_bound
    loaded = Policy.from_bytes(policy.to_bytes())
    assert loaded.certificate().by_pattern == by_set.by_pattern
    policy.retire_arms([7])
    policy.restore_arms([7], forget=True)
    assert policy.certificate().regret_bound >= lost


def test_windows_know_arms_that_came_and_end_where_one_is_forgotten() -> None:
    policy = GuardedThompson(4, budget=2, seed=7)
    for _ in range(20):
        tell_all(policy, policy.ask())
    since = policy.start_window()
    policy.add_arms(2)
    for _ in range(30):
        tell_all(policy, policy.ask(eligible=[0, 2, 4, 5]))
    window = policy.certificate(since=since)
    assert window.rounds == 30
    assert 0.0 <= window.regret_bound <= 60.0
    assert str(Policy.from_bytes(policy.to_bytes()).certificate(since=since)) == str(window)
    policy.retire_arms([0])
    policy.restore_arms([0], forget=True)
    with pytest.raises(ValueError, match="since must be 0"):
        policy.certificate(since=since)
    assert policy.certificate().rounds == 50


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("asked", [True, False])
def test_copies_go_on_as_the_policy_would_have(name: str, asked: bool) -> None:
    policy = POLICIES[name].make()
    tell_all(policy, policy.ask())
    if asked:
        wander(policy, 20)
    policy.add_arms(1)
    copies = copy.deepcopy(policy), pickle.loads(pickle.dumps(policy)), copy.copy(policy)
    expected = wander(policy, 20, seed=4)
    for one in copies:
        assert wander(one, 20, seed=4) == expected
        assert one.digest() == policy.digest()


@pytest.mark.parametrize("name", KINDS)
def test_what_is_looked_at_between_changes_of_arms_changes_nothing(name: str) -> None:
    """Caches are made again when they are next needed: a service may look in between, and its replay does not."""
    busy, quiet = (POLICIES[name].make() for _ in range(2))
    for policy in (busy, quiet):
        tell_all(policy, policy.ask())
        wander(policy, 20)
        policy.retire_arms([0])
        for change in (
            lambda policy: policy.add_arms(1),
            lambda policy: policy.add_arms(2),
            lambda policy: policy.restore_arms([0], forget=True),
            lambda policy: policy.add_arms(1),
            lambda policy: policy.retire_arms([1]),
        ):
            change(policy)
            if policy is busy:
                policy.certificate()
                policy.to_bytes()
    assert busy.digest() == quiet.digest()
    assert wander(busy, 20, seed=4) == wander(quiet, 20, seed=4)
    assert busy.digest() == quiet.digest()


def test_a_policy_inside_a_guard_knows_what_new_arms_show() -> None:
    graph = FeedbackGraph.cliques([2, 2])
    policy = Guard(CombinatorialElimination(graph, 1, seed=7), graph, 1, seed=7)
    tell_all(policy, policy.ask())
    policy.add_arms(1, like=0)
    tell_all(policy, policy.ask(eligible=[0, 1, 4]))
    assert policy._inner.graph == policy.graph
    assert policy.graph.revealed_by(4).tolist() == [0, 1, 4]
    assert wander(Policy.from_bytes(policy.to_bytes()), 20) == wander(policy, 20)
