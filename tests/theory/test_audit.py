"""An audit finds every claim held on the policies we have, and each flaw of those that we broke on purpose."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from scipy.stats import binomtest

from armtriage import (
    C2UCB,
    CombinatorialElimination,
    CombinatorialUCB,
    CombUCB1,
    ConstrainedElimination,
    Decision,
    FeedbackGraph,
    HierarchicalElimination,
    LinearEnvironment,
    Matchings,
    Paths,
    Policy,
    ReplayEnvironment,
    StageTriage,
    StochasticEnvironment,
    hub_family,
    partition,
    random_constrained,
    star,
)
from armtriage.instances import two_hubs
from armtriage.policies.constrained.by_oracle import ELIMINATED as OUT
from armtriage.policies.elimination.sets import ACTIVE, CONFIRMED, ELIMINATED, count_lagging
from armtriage.policies.linear.hierarchical import ELIMINATED as DROPPED
from armtriage.policies.linear.hierarchical import OPEN
from armtriage.theory import Audit, audit
from armtriage.theory.audit import clopper_pearson
from armtriage.theory.audit.constrained import ListedWatch, OracleWatch
from armtriage.theory.audit.linear import StagesWatch
from armtriage.theory.audit.slates import EliminationWatch, IndexWatch

DELTA, ROUNDS = 0.1, 700

MEANS = [0.97, 0.96, 0.4, 0.35, 0.03, 0.02, 0.01, 0.0]
GRAPHS: dict[str, FeedbackGraph] = {
    "semi-bandit": FeedbackGraph.semi_bandit(8),
    "cliques": FeedbackGraph.cliques([3, 5]),
    "full": FeedbackGraph.full_information(8),
    "star": FeedbackGraph.from_edges(8, [(7, a) for a in range(7)]),
    "digraph": FeedbackGraph.erdos_renyi(8, 0.3, seed=4),
    "undirected": FeedbackGraph.erdos_renyi(8, 0.3, seed=5, directed=False),
}
VARIANTS: dict[str, dict[str, Any]] = {
    "tight": {},
    "hoeffding": {"interval": "hoeffding"},
    "kl, random": {"interval": "kl", "tie_break": "random", "fill": "random"},
    "bernstein": {"interval": "bernstein", "intersect": False, "skip_revealed": False},
    "paper": {"variant": "paper"},
    "printed, hoeffding": {"benchmark": "printed", "interval": "hoeffding"},
}


@cache
def on_graph(graph: str, variant: str) -> Audit:
    env = StochasticEnvironment(MEANS, GRAPHS[graph], seed=3)
    policy = CombinatorialElimination(env.graph, 4, horizon=ROUNDS, delta=DELTA, seed=1, **VARIANTS[variant])
    return audit(policy, env, horizon=ROUNDS)


def ball(rng: np.random.Generator, *shape: int) -> np.ndarray:
    x = rng.normal(size=shape)
    return x * rng.random((*shape[:-1], 1)) ** (1 / shape[-1]) / np.linalg.norm(x, axis=-1, keepdims=True)


def linear_world(dimension: int, rounds: int) -> LinearEnvironment:
    theta = np.full(dimension, 0.9 / dimension**0.5)
    x = ball(np.random.default_rng(dimension), rounds, 7, dimension)
    return LinearEnvironment(theta, x, reward="uniform", half_width=0.1, seed=3)


@cache
def on_contexts(dimension: int, variant: str) -> Audit:
    env = linear_world(dimension, ROUNDS)
    noise = env.noise_scale if variant == "tight" else None
    policy = HierarchicalElimination(
        7, dimension, 4, horizon=ROUNDS, delta=DELTA, variant=variant, noise_scale=noise, seed=1
    )
    return audit(policy, env, horizon=ROUNDS)


ROADS = [(0, 1), (0, 2), (1, 2), (1, 3), (2, 3), (0, 3)]
WORLDS: dict[str, StochasticEnvironment] = {
    "hub": hub_family(seed=3),
    "star": star(5, gap=0.5, seed=3),
    "partition": partition(6, 2, gap=0.9, seed=1),
    "matchings": random_constrained(Matchings(2, 3), graph=FeedbackGraph.cliques([3, 3]), seed=5),
    "paths": random_constrained(Paths(4, ROADS, source=0, target=3), seed=2),
}
LISTED: dict[str, dict[str, Any]] = {
    "paper": {"variant": "paper"},
    "repaired": {"variant": "repaired"},
    "greedy": {"variant": "repaired", "cover": "greedy"},
    "hoeffding": {"variant": "repaired", "interval": "hoeffding"},
}
BY_ORACLE: dict[str, dict[str, Any]] = {"oracle": {}, "oracle, kl": {"interval": "kl"}}


@cache
def on_decisions(world: str, variant: str) -> Audit:
    env, options = WORLDS[world], (LISTED | BY_ORACLE)[variant]
    policy = ConstrainedElimination(env.graph, env.decisions, horizon=ROUNDS, delta=DELTA, seed=1, **options)
    return audit(policy, env, horizon=ROUNDS)


@cache
def of_ucb(graph: str) -> Audit:
    env = StochasticEnvironment(MEANS, GRAPHS[graph], seed=3)
    return audit(CombinatorialUCB(env.graph, 4, horizon=300, delta=DELTA, seed=1), env, horizon=300)


def broken(found: Audit) -> list[str]:
    return [f"{claim.name}: {claim.where}" for claim in found.violated]


PAIRS = [("digraph", variant) for variant in VARIANTS]
PAIRS += [(graph, variant) for graph in GRAPHS for variant in ("tight", "paper") if (graph, variant) not in PAIRS]


@pytest.mark.parametrize(("graph", "variant"), PAIRS)
def test_claims_of_algorithm_1_hold(graph: str, variant: str) -> None:
    assert broken(on_graph(graph, variant)) == []


@pytest.mark.parametrize("variant", ["repaired", "tight"])
@pytest.mark.parametrize("dimension", [1, 2])
def test_claims_of_algorithms_3_and_4_hold(dimension: int, variant: str) -> None:
    assert broken(on_contexts(dimension, variant)) == []


# Every variant in two worlds, and every world with the three that differ most.
IN_WORLDS = [(world, variant) for world in ("hub", "partition") for variant in (*LISTED, *BY_ORACLE)]
IN_WORLDS += [(world, variant) for world in WORLDS for variant in ("paper", "repaired", "oracle")]


@pytest.mark.parametrize(
    ("world", "variant"),
    [pytest.param(*one, marks=[pytest.mark.long] * (i % 2)) for i, one in enumerate(dict.fromkeys(IN_WORLDS))],
)
def test_claims_of_algorithm_5_hold_unless_printed(world: str, variant: str) -> None:
    found = on_decisions(world, variant)
    assert found.ok
    assert variant == "paper" or broken(found) == []


@pytest.mark.parametrize("graph", GRAPHS)
def test_claims_of_algorithm_2_hold(graph: str) -> None:
    assert broken(of_ucb(graph)) == []


def exercised(found: list[Audit]) -> set[str]:
    return {claim.name for one in found for claim in one.claims if claim.status != "not applicable"}


def test_every_claim_of_algorithm_1_comes_up() -> None:
    runs = [on_graph(*pair) for pair in PAIRS]
    assert {one.name for one in EliminationWatch.statements} <= exercised(runs)


@pytest.mark.parametrize("variant", ["repaired", "tight"])
def test_every_claim_of_algorithms_3_and_4_comes_up(variant: str) -> None:
    assert {one.name for one in StagesWatch.statements} <= exercised([on_contexts(d, variant) for d in (1, 2)])


@pytest.mark.parametrize(("variants", "watch"), [(LISTED, ListedWatch), (BY_ORACLE, OracleWatch)])
def test_every_claim_of_algorithm_5_comes_up(variants: dict[str, Any], watch: Any) -> None:
    runs = [on_decisions(world, variant) for world, variant in IN_WORLDS if variant in variants]
    assert {one.name for one in watch.statements} <= exercised(runs)


def test_every_claim_of_algorithm_2_comes_up() -> None:
    assert {one.name for one in IndexWatch.statements} <= exercised([of_ucb("full")])
    assert "a round loses little" in exercised([of_ucb("cliques")])


def test_claims_that_held_were_checked() -> None:
    runs = [on_graph("digraph", "tight"), on_contexts(2, "tight"), on_decisions("paths", "oracle"), of_ucb("full")]
    for claim in (claim for one in runs for claim in one.claims):
        assert (claim.status == "not applicable") == (claim.checked == 0)


def test_confirmed_arms_can_have_fewer_observations_than_the_active_ones() -> None:
    """Arms 1 and 2 are seen in every round; when the others leave, N jumps over the count of the confirmed arm 0."""
    graph = FeedbackGraph.from_edges(6, [(a, b) for a in range(6) for b in (1, 2)])
    env = StochasticEnvironment([1, 1 / 3, 1 / 3, 0, 0, 0], graph, "deterministic", seed=1)
    policy = CombinatorialElimination(graph, 2, variant="paper", interval="hoeffding", horizon=400, delta=0.9, seed=1)
    found = audit(policy, env, horizon=400)
    claim = found["confirmed arms have N observations"]
    # In two rounds a layer, of which arm 0 is in one, it is confirmed when sqrt(ln(4800/0.9)/(2N)) is 1/6: N = 155.
    assert (claim.status, claim.round, claim.arms, claim.printed) == ("violated", 310, (0,), True)
    assert "observed [156], N is 311" in claim.detail
    assert [one.name for one in found.violated] == [claim.name]
    assert found.ok


def test_greedy_lemma_breaks_on_two_hubs_and_its_repair_holds() -> None:
    graph = two_hubs(103)
    env = StochasticEnvironment(np.full(103, 0.5), graph, seed=1)
    found = audit(CombinatorialElimination(graph, 1, variant="paper", horizon=60, seed=1), env, horizon=51)
    claim = found["the first layer obeys the greedy lemma"]
    assert (claim.status, claim.round, claim.checked, claim.violations) == ("violated", 11, 51, 40)
    assert claim.detail == "12 picks, the lemma says 11.27"
    assert found["layers have few picks"].status == "held"


class Forced(LinearEnvironment):
    """Rewards that are possible, though unlikely, and keep every interval right; see `forced_world`."""

    def rewards(self, round: int, arms: Any, replication: int = 0) -> np.ndarray:
        return np.array([0.97, -0.95 / 4, 0.95 / 4])[arms]


@cache
def on_three_arms(variant: str) -> Audit:
    """Arms have directions of their own; the second is told nearly a width too little and the worse third too much.

    In the last round the first context is short: small width, and an estimate below the third arm's upper end.
    """
    rounds = 2157
    x = np.tile(np.eye(3), (rounds, 1, 1))
    x[-1] = np.diag([0.35 / 0.97, 0.97, 0.97])
    env = Forced([0.97, 0.001, -0.001], x, seed=1)
    return audit(HierarchicalElimination(3, 3, 2, horizon=6000, variant=variant, seed=1), env, horizon=rounds)


def test_printed_lemma_of_stages_breaks_on_three_arms() -> None:
    found = on_three_arms("paper")
    claim = found["(A) best arms stay in question"]
    assert (claim.status, claim.round, claim.arms, claim.violations) == ("violated", 2156, (1,), 1)
    assert (claim.detail, claim.printed, found.failures) == ("before stage 3", True, 0)
    assert found.ok


def test_repaired_lemma_of_stages_holds_on_three_arms() -> None:
    found = on_three_arms("repaired")
    assert (broken(found), found.failures) == ([], 0)


def test_printed_stages_store_rewards_that_chose_themselves() -> None:
    found = on_contexts(1, "paper")
    claim = found["stages store what was chosen without their rewards"]
    assert (claim.status, claim.printed) == ("violated", True)
    assert found.ok


def test_printed_covers_replay_what_was_eliminated() -> None:
    found = on_decisions("hub", "paper")
    claim = found["played decisions are active"]
    assert (claim.status, claim.arms, claim.printed) == ("violated", (0, 1), True)
    assert claim.round is not None
    # From the first round after it left, the hub is played in every one.
    assert claim.violations == ROUNDS - claim.round == claim.checked
    # It has lost its place for good, and still loses, also when one decision is left.
    assert {"a round loses little", "losses end", claim.name} == {one.name for one in found.violated}
    assert broken(on_decisions("hub", "repaired")) == []


def test_printed_bound_over_decisions_breaks_on_the_star() -> None:
    env = star(5, gap=0.5, seed=3)
    policy = ConstrainedElimination(env.graph, env.decisions, variant="paper", horizon=1000, delta=DELTA, seed=1)
    claim = audit(policy, env, horizon=1000)["regret is below the bound"]
    assert (claim.status, claim.arms, claim.printed) == ("violated", (0,), True)


STAR = FeedbackGraph.from_edges(6, [(5, a) for a in range(5)])
PLAIN = FeedbackGraph.semi_bandit(6)
LINED = [0.9, 0.8, 0.5, 0.4, 0.1, 0.0]


def decide(policy: CombinatorialElimination, arm: int, status: int) -> None:
    """Move an arm to another set, whatever the rule says."""
    state = policy._own.sets
    state.status[arm] = status
    active, confirmed = (np.flatnonzero(state.status == kind) for kind in (ACTIVE, CONFIRMED))
    state.active[: active.size], state.n_active = active, active.size
    state.confirmed[: confirmed.size], state.n_confirmed = confirmed, confirmed.size
    # The log has room for one entry per arm.
    state.dirty, state.n_logged = 1, 0
    count_lagging(policy._evidence, state)


class Moving(CombinatorialElimination):
    """In round 5 an arm is moved."""

    arm, status, moves = 0, ELIMINATED, 1

    def _send(self, number: int, *told: Any) -> int:
        found = super()._send(number, *told)
        if number == 5:
            for arm in range(self.arm, self.arm + self.moves):
                decide(self, arm, self.status)
        return found


class EliminatesBest(Moving):
    pass


class ConfirmsWorst(Moving):
    arm, status = 5, CONFIRMED


class ConfirmsMore(Moving):
    status, moves = CONFIRMED, 3


class Repeats(CombinatorialElimination):
    """Always plays the first arms."""

    def _ask_all(self, given: Any = None) -> Decision:
        return self._ask_slowly(None, given)

    def _chosen(self, number: int, among: Any) -> tuple[np.ndarray, None]:
        super()._chosen(number, among)
        return np.arange(self.budget), None


Expected = tuple[str, int, tuple[int, ...]]
FLAWS: list[tuple[type[CombinatorialElimination], Expected]] = [
    (EliminatesBest, ("(A) best arms stay", 5, (0,))),
    (ConfirmsWorst, ("(B) confirmed arms are best", 5, (5,))),
    (ConfirmsMore, ("no more than S arms are confirmed", 5, (0, 1, 2))),
    (Repeats, ("layers have few picks", 3, (0, 1))),
]


@cache
def flawed(kind: type[CombinatorialElimination], graph: FeedbackGraph, rounds: int = 40, **options: Any) -> Audit:
    env = StochasticEnvironment(LINED, graph, seed=3)
    return audit(kind(graph, 2, horizon=ROUNDS, delta=DELTA, seed=1, **options), env, horizon=rounds)


@pytest.mark.parametrize("variant", ["tight", "paper"])
@pytest.mark.parametrize(("kind", "expected"), FLAWS, ids=[kind.__name__ for kind, _ in FLAWS])
def test_flaw_is_found(kind: type[CombinatorialElimination], expected: Expected, variant: str) -> None:
    found = flawed(kind, PLAIN, variant=variant)
    claim = found[expected[0]]
    assert (found.ok, claim.status) == (False, "violated")
    assert (claim.name, claim.round, claim.arms) == expected


@pytest.mark.parametrize("graph", [PLAIN, STAR])
@pytest.mark.parametrize("variant", ["tight", "paper"])
def test_same_runs_without_a_flaw_are_fine(graph: FeedbackGraph, variant: str) -> None:
    assert broken(flawed(CombinatorialElimination, graph, variant=variant)) == []


LIMITS = [
    ("layer_size", 2.0, "layers have few picks"),
    ("gap_bound", None, "regret is below the gap bound"),
    ("minimax_bound", None, "regret is below the minimax bound"),
]


@pytest.mark.parametrize(("attribute", "value", "name"), LIMITS)
def test_what_exceeds_a_bound_is_found(
    attribute: str, value: float | None, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    env = StochasticEnvironment(LINED, PLAIN, seed=3)
    policy = CombinatorialElimination(PLAIN, 2, horizon=ROUNDS, delta=DELTA, seed=1)
    bound = EliminationWatch(policy, env, 30).minimax_bound._replace(value=3.0) if value is None else value
    monkeypatch.setattr(EliminationWatch, attribute, bound)
    found = audit(policy, env, horizon=30)
    assert [claim.name for claim in found.violated] == [name]
    # Two arms a round: the third pick of the first layer comes in the second round.
    assert value is None or found[name].round == 1


class Late(CombinatorialElimination):
    """Never decides anything, so that it goes on losing."""

    def _send(self, *told: Any) -> int:
        found = super()._send(*told)
        for arm in range(self.n_arms):
            decide(self, arm, ACTIVE)
        return found


def test_who_never_decides_is_found_by_distances_and_losses() -> None:
    graph = FeedbackGraph.full_information(6)
    env = StochasticEnvironment([0.0, 0.9, 0.3, 0.3, 0.3, 0.3], graph, "deterministic", seed=3)
    found = audit(Late(graph, 1, delta=DELTA, seed=1, tie_break="index"), env, horizon=300)
    names = {"(C) active arms are close", "active arms are close to rank S", "a round loses little", "losses end"}
    assert names <= {claim.name for claim in found.violated}
    assert {found[name].arms for name in names} == {(0,)}


def test_index_policy_with_narrow_intervals_makes_no_promise() -> None:
    env = StochasticEnvironment(LINED, PLAIN, seed=3)
    found = audit(CombinatorialUCB(PLAIN, 2, width=0.3, seed=1), env, horizon=40)
    assert "smaller than delta" in found["intervals hold as often as promised"].detail


class DropsBest(HierarchicalElimination):
    """Exchanges the longest context's arm for another one as soon as a stage leaves arms in question."""

    def _select(self, number: int, contexts: np.ndarray) -> np.ndarray:  # type: ignore[override]
        arms = super()._select(number, contexts)
        fate, stage = self._state.fate, self._state.stage
        best = int(contexts.sum(axis=1).argmax())
        if number > 300 and fate[best] != DROPPED and (fate == OPEN).any() and (stage > 1).any():
            other = int(np.flatnonzero(fate == OPEN)[0])
            fate[other], stage[other] = fate[best], stage[best]
            fate[best], stage[best] = DROPPED, 1
            arms = np.sort(np.append(arms[arms != best], other))
        return arms


class Boasts(HierarchicalElimination):
    """Shows an arm as confirmed that it has eliminated, in every round from 300 on."""

    @property
    def triage(self) -> StageTriage:
        shown = super().triage
        if self._asked <= 300 or not shown.eliminated.size:
            return shown
        arm = shown.eliminated[:1]
        confirmed = np.sort(np.append(shown.confirmed, arm))
        return shown._replace(confirmed=confirmed, eliminated=shown.eliminated[1:])


class Hesitates(HierarchicalElimination):
    """Shows no arm as eliminated."""

    @property
    def triage(self) -> StageTriage:
        shown = super().triage
        stages = shown.stages.copy()
        stages[shown.eliminated] = 0
        return shown._replace(eliminated=shown.eliminated[:0], stages=stages)


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (DropsBest, "(A) best arms stay in question"),
        (Boasts, "(B) confirmed arms are best"),
        (Hesitates, "(C) arms in question are close"),
    ],
)
def test_flaws_of_stages_are_found(kind: type[HierarchicalElimination], name: str) -> None:
    env = linear_world(1, ROUNDS)
    policy = kind(7, 1, 4, horizon=ROUNDS, delta=DELTA, noise_scale=env.noise_scale, seed=1)
    assert audit(policy, env, horizon=ROUNDS)[name].status == "violated"


class Strays(ConstrainedElimination):
    """Plays the hub in round 600, whatever is known."""

    def _select(self, number: int) -> np.ndarray:
        arms = super()._select(number)
        return np.array([0, 1]) if number == 600 else arms


class Misjudges(ConstrainedElimination):
    """Drops the best decision, or an arm of it, in round 9."""

    def _update(self, number: int, arms: np.ndarray, rewards: np.ndarray) -> None:
        super()._update(number, arms, rewards)
        if number == 9:
            core: Any = self._core
            if self.variant == "oracle":
                core.status[2] = OUT
                core._refresh()
            else:
                core.active[1] = False


CONSTRAINED: list[tuple[type[ConstrainedElimination], str, str, int, tuple[int, ...]]] = [
    (Strays, "repaired", "played decisions are active", 600, (0, 1)),
    (Strays, "oracle", "played decisions are plausible", 600, (0, 1)),
    (Misjudges, "repaired", "best decisions stay", 9, (2, 3)),
    (Misjudges, "oracle", "best decisions stay", 9, (2,)),
]


@pytest.mark.parametrize(("kind", "variant", "name", "number", "arms"), CONSTRAINED)
def test_flaws_over_decisions_are_found(
    kind: type[ConstrainedElimination], variant: str, name: str, number: int, arms: tuple[int, ...]
) -> None:
    env = hub_family(seed=3)
    found = audit(kind(env.graph, env.decisions, variant=variant, horizon=ROUNDS, seed=1), env, horizon=number + 1)
    assert (found[name].status, found[name].round, found[name].arms) == ("violated", number, arms)


class Lies(StochasticEnvironment):
    """Pays less than it says for arm 0."""

    def rewards(self, round: int, arms: Any, replication: int = 0) -> np.ndarray:
        return np.where(np.asarray(arms) == 0, 0.0, super().rewards(round, arms, replication))


def test_intervals_that_fail_too_often_are_found_and_claims_end_with_them() -> None:
    env = Lies([0.9, 0.8, 0.2], FeedbackGraph.full_information(3), seed=3)
    policy = CombinatorialElimination(env.graph, 1, delta=DELTA, seed=1)
    found = audit(policy, env, horizon=100, replications=5)
    claim = found["intervals hold as often as promised"]
    assert (claim.status, claim.checked, claim.violations, found.failures) == ("violated", 5, 5, 5)
    assert (claim.replication, found.promise) == (0, DELTA)
    assert claim.round is not None
    # The mean is 0.9: the first n at which n zeros leave it outside, n ln(1/0.1) > ln(30) + the excess of the mixture.
    assert 1 <= claim.round <= 3
    assert [one.name for one in found.violated] == [claim.name]
    assert found["a round loses little"].checked <= 5 * claim.round


def test_intervals_that_fail_seldom_enough_are_fine() -> None:
    env = StochasticEnvironment([0.6, 0.5, 0.4], FeedbackGraph.full_information(3), seed=3)
    policy = CombinatorialElimination(env.graph, 1, delta=0.9, seed=1)
    found = audit(policy, env, horizon=60, replications=30)
    claim = found["intervals hold as often as promised"]
    assert (claim.status, claim.checked) == ("held", 30)
    assert found.failures is not None
    assert 0 < found.failures < 20
    assert f"{found.failures} of 30 runs failed" in claim.detail
    assert found.ok


@pytest.mark.parametrize(("failures", "runs"), [(0, 1), (0, 30), (3, 30), (30, 30)])
def test_interval_is_that_of_clopper_and_pearson(failures: int, runs: int) -> None:
    exact = binomtest(failures, runs).proportion_ci(0.99, "exact")
    assert clopper_pearson(failures, runs) == pytest.approx((exact.low, exact.high), abs=1e-12)


class Own(Policy):
    def _select(self, number: int) -> np.ndarray:
        return np.arange(self.budget)

    def _update(self, number: int, arms: np.ndarray, rewards: np.ndarray) -> None:
        pass


class Short(Own):
    def _select(self, number: int) -> np.ndarray:
        return np.arange(self.budget - (number == 4))


class Double(Own):
    def _select(self, number: int) -> np.ndarray:
        return np.zeros(self.budget, np.int64)


def test_own_policy_gets_what_can_be_checked() -> None:
    env = StochasticEnvironment(LINED, PLAIN, seed=3)
    found = audit(Own(PLAIN, 2, seed=1), env, horizon=20)
    held = {claim.name: claim.checked for claim in found.claims if claim.status == "held"}
    assert held == {"decisions are allowed": 20, "rewards lie in their range": 20}
    rest = [claim for claim in found.claims if claim.status == "not applicable"]
    assert len(rest) == len(EliminationWatch.statements)
    assert {claim.detail for claim in rest} == {"said of Algorithm 1, and this policy is another"}
    assert (found.promise, found.failures, found.failure_interval) == (None, None, None)


@pytest.mark.parametrize(("kind", "number", "arms"), [(Short, 4, (0,)), (Double, 0, (0, 0))])
def test_decisions_that_are_none_end_a_run(kind: type[Own], number: int, arms: tuple[int, ...]) -> None:
    env = StochasticEnvironment(LINED, PLAIN, seed=3)
    claim = audit(kind(PLAIN, 2, seed=1), env, horizon=20)["decisions are allowed"]
    assert (claim.status, claim.round, claim.arms, claim.checked) == ("violated", number, arms, number + 1)


class Pays(StochasticEnvironment):
    """Pays 2 for arm 1 in round 3."""

    def rewards(self, round: int, arms: Any, replication: int = 0) -> np.ndarray:
        return super().rewards(round, arms, replication) + 2.0 * ((np.asarray(arms) == 1) & (round == 3))


def test_rewards_out_of_range_end_a_run() -> None:
    claim = audit(Own(PLAIN, 2, seed=1), Pays(LINED, PLAIN, seed=3), horizon=20)["rewards lie in their range"]
    assert (claim.status, claim.round, claim.arms, claim.checked) == ("violated", 3, (1,), 4)


def test_other_settings_have_other_claims() -> None:
    env = linear_world(2, 50)
    names = {claim.name for claim in audit(C2UCB(7, 2, 4, seed=1), env, horizon=50).claims}
    assert "(A) best arms stay in question" in names
    jobs = random_constrained(Matchings(2, 2), seed=1)
    found = audit(CombUCB1(jobs.graph, decisions=jobs.decisions, seed=1), jobs, horizon=20)
    assert found["best decisions stay"].detail == "said of Algorithm 5, and this policy is another"
    assert found["decisions are allowed"].checked == 20


def test_unknown_means_leave_what_holds_always() -> None:
    outcomes = np.random.default_rng(1).random((50, 6)) < LINED
    env = ReplayEnvironment(outcomes, PLAIN)
    found = audit(CombinatorialElimination(PLAIN, 2, seed=1), env, horizon=50)
    assert found["(A) best arms stay"].detail == "the environment does not tell its means"
    assert found["layers have few picks"].checked > 0
    assert found.failures is None


@pytest.mark.parametrize("variant", ["tight", "paper"])
def test_rewards_may_have_other_units(variant: str) -> None:
    env = StochasticEnvironment(LINED, PLAIN, seed=3)
    options = {"variant": variant, "horizon": 300, "seed": 1, "delta": DELTA}
    found = audit(CombinatorialElimination(PLAIN, 2, reward_range=(-1.0, 1.5), **options), env, horizon=300)
    assert broken(found) == []
    assert found["a round loses little"].checked > 0


def test_contexts_may_have_other_units() -> None:
    env = linear_world(1, 200)
    policy = HierarchicalElimination(7, 1, 4, horizon=200, reward_range=(-2.0, 2.0), context_bound=2.0, seed=1)
    assert broken(audit(policy, env, horizon=200)) == []


@pytest.mark.parametrize("means", [np.full(6, 0.5), np.array([0.5, 0.5, 0.5, 0.2, 0.2, 0.1])])
def test_equal_means_break_nothing(means: np.ndarray) -> None:
    env = StochasticEnvironment(means, PLAIN, seed=3)
    for variant in ("tight", "paper"):
        found = audit(CombinatorialElimination(PLAIN, 2, variant=variant, horizon=200, seed=1), env, horizon=200)
        assert broken(found) == []
        assert found["losses end"].detail == "arms of equal mean stand on both sides of rank S"


def test_all_arms_in_a_decision_lose_nothing() -> None:
    env = StochasticEnvironment(LINED, PLAIN, seed=3)
    for variant in ("tight", "paper"):
        found = audit(CombinatorialElimination(PLAIN, 6, variant=variant, horizon=50, seed=1), env, horizon=50)
        assert broken(found) == []


def test_audit_reads_as_a_table() -> None:
    lines = str(on_decisions("hub", "paper")).splitlines()
    assert lines[0] == (
        "Audit of ConstrainedElimination: 6 arms, 2 a decision, 1 run of 700 rounds, policy seed 1, reward seed 3"
    )
    assert lines[2].startswith("violated")
    assert "arms 0 1" in lines[3]
    assert any(line.startswith("held") and "best decisions stay" in line for line in lines)
    lines = str(of_ucb("cliques")).splitlines()
    assert "not applicable, not every arm reveals all arms:" in lines
    assert lines[-1].startswith(" " * 20)


def test_audit_goes_through_json() -> None:
    found = on_decisions("hub", "paper")
    facts = json.loads(json.dumps(found.to_dict()))
    assert facts["policy"] == "ConstrainedElimination"
    assert (facts["ok"], facts["failures"], facts["horizon"]) == (True, 0, ROUNDS)
    assert facts["failure_interval"] == list(clopper_pearson(0, 1))
    [claim] = [one for one in facts["claims"] if one["name"] == "played decisions are active"]
    assert (claim["status"], claim["arms"], claim["printed"]) == ("violated", [0, 1], True)


def test_claim_is_found_by_its_name() -> None:
    found = of_ucb("full")
    assert found["decisions are allowed"] is found.claims[0]
    with pytest.raises(KeyError, match="'nothing' is none of the claims"):
        found["nothing"]


def test_many_arms_are_shown_in_part() -> None:
    claim = on_decisions("hub", "paper")["played decisions are active"]._replace(arms=tuple(range(20)))
    assert "arms 0 1 2 3 4 5 6 7 8 9 10 11 and 8 more" in claim.where


def test_audit_leaves_the_policy_as_it_was_and_repeats_itself() -> None:
    env = StochasticEnvironment(LINED, PLAIN, seed=3)
    policy = CombinatorialElimination(PLAIN, 2, seed=1)
    first = audit(policy, env, horizon=30, replications=2, seed=4)
    assert policy.ask().number == 0
    assert first.to_dict() == audit(policy, env, horizon=30, replications=2, seed=4).to_dict()


def world() -> StochasticEnvironment:
    return StochasticEnvironment(LINED, PLAIN, seed=3)


REFUSED: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: audit("x", world(), horizon=5), TypeError, "policy must be a Policy"),  # type: ignore[arg-type]
    (lambda: audit(Own(PLAIN, 2), "x", horizon=5), TypeError, "environment must be"),  # type: ignore[arg-type]
    (lambda: audit(Own(STAR, 2), world(), horizon=5), ValueError, "same feedback graph"),
    (lambda: audit(Own(PLAIN, 2), world(), horizon=0), ValueError, "horizon must be"),
    (lambda: audit(Own(PLAIN, 2), world(), horizon=5, replications=0), ValueError, "replications must be"),
    (lambda: audit(Own(PLAIN, 2), world(), horizon=5, seed=-1), ValueError, "seed must be"),
    (
        lambda: audit(CombinatorialElimination(PLAIN, 2, horizon=4), world(), horizon=5),
        ValueError,
        "horizon must be at most the policy's own, 4, got 5",
    ),
]


@pytest.mark.parametrize(("make", "error", "message"), REFUSED)
def test_arguments_are_checked(make: Callable[[], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make()
