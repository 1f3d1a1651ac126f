"""Pages with a first place: weights of places given or learnt, orders, swaps, certificates."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np
import pytest

from armtriage import (
    CombinatorialElimination,
    DamagedFile,
    FeedbackGraph,
    GuardedIndex,
    GuardedThompson,
    Matchings,
    OldLog,
    PageEnvironment,
    Policy,
    ThompsonSampling,
    simulate,
)
from armtriage._files import pack_archive, unpack_archive
from armtriage.kernels.random import stream
from armtriage.policies.sampling.places import _Q, learnt_weights, log_capital, ratio_interval
from twins.sampling import Luck, bits, gamma, unit, word

WEIGHTS = [1.0, 0.6, 0.4]
RATES = np.array([0.1, 0.4, 0.25, 0.3, 0.15, 0.5, 0.2, 0.35])


def played(policy: Any, page: PageEnvironment, rounds: int, first: int = 0) -> float:
    lost = 0.0
    for number in range(first, first + rounds):
        decision = policy.ask()
        lost += page.regret(decision.ranked_arms)
        page.play(policy, decision, number)
    return lost


class Twin:
    """Everything counted again in each round, in plain Python."""

    def __init__(self, n: int, weights: list[float] | str, size: int, swaps: float, seed: int) -> None:
        self.n, self.size, self.swaps, self.learn = n, size, swaps, weights == "learn"
        self.weights = [1 / (place + 1) for place in range(size)] if self.learn else list(weights)
        self.luck, self.coins = Luck(seed, 0), stream(seed, "swap")
        self.clicks, self.pages = [0.0] * n, list[tuple[list[int], list[float], int]]()

    def ask(self, number: int) -> list[int]:
        row = np.uint64(word(int(self.luck.start), number))
        starts, draws, means = bits(row, np.arange(self.n)), [], []
        for arm in range(self.n):
            places, told = [page.index(arm) for page, _, _ in self.pages if arm in page], 2.0
            for place in range(self.size):
                told += places.count(place) * self.weights[place]
            draws.append(min(gamma(starts[arm], 0, 1.0 + self.clicks[arm]) / told, 1.0))
            means.append(min((1.0 + self.clicks[arm]) / told, 1.0))
        shown = sorted(range(self.n), key=lambda arm: -draws[arm])[: self.size]
        order = sorted(shown, key=lambda arm: -(draws[arm] + means[arm]))
        coin, self.pair = word(int(self.coins), number), -1
        if unit(coin, 0) < self.swaps:
            self.pair = int(unit(coin, 1) * (self.size - 1))
            if unit(coin, 2) < 0.5:
                order[self.pair], order[self.pair + 1] = order[self.pair + 1], order[self.pair]
        return order

    def tell(self, order: list[int], clicks: list[float]) -> None:
        self.pages.append((order, clicks, self.pair))
        for arm, click in zip(order, clicks, strict=True):
            self.clicks[arm] += click

    def pairs(self) -> np.ndarray:
        found = np.zeros((self.size - 1, 3), int)
        for _, clicks, pair in self.pages:
            if pair >= 0 and (clicks[pair] or clicks[pair + 1]):
                found[pair, 2 if clicks[pair] and clicks[pair + 1] else int(clicks[pair])] += 1
        return found


@pytest.mark.plain
@pytest.mark.parametrize("weights", [WEIGHTS, "learn"])
def test_pages_are_those_of_a_slow_twin(weights: Any) -> None:
    policy = ThompsonSampling(8, budget=3, positions=weights, position_swaps=0.5, seed=5)
    twin, page = Twin(8, weights, 3, 0.5, 5), PageEnvironment(RATES, WEIGHTS, seed=2)
    for number in range(150):
        decision, order = policy.ask(), twin.ask(number)
        assert list(decision.ranked) == order == decision.revealed.tolist()
        clicks = page.rewards(number, order)
        twin.tell(order, clicks.tolist())
        policy.tell(decision, clicks)
    assert np.array_equal(policy._own.pairs, twin.pairs())
    assert policy._own.pairs.sum() > 20


class TestSwaps:
    def test_their_capital_has_mean_1(self) -> None:
        # Three pages, with clicks of one page that depend on each other, and rates that differ from page to page.
        ratio, total = 0.6, 0.0
        for path in product(((1, 0), (0, 1), (1, 1), (0, 0)), repeat=3):
            chance, counts = 1.0, np.zeros(3, np.int64)
            for number, (below, above) in enumerate(path):
                top = 0.2 + 0.1 * number
                both = ratio * top * 0.7
                chances = {(1, 1): both, (1, 0): ratio * top - both, (0, 1): top - both}
                chance *= chances.get((below, above), 1 - top - ratio * top + both)
                if below or above:
                    counts[2 if below and above else above] += 1
            total += chance * math.exp(float(log_capital(np.array(ratio), counts)))
        assert total == pytest.approx(1.0, abs=1e-9)
        p = ratio / (1 + ratio)
        assert min((_Q / p).min(), ((1 - _Q) / (1 - p)).min(), (1 + (_Q / p - 1) * (1 - ratio)).min()) > 0

    def test_intervals_of_ratios_hold(self) -> None:
        # At 5%, nine or more of 60 miss with probability 0.003.
        luck, misses = np.random.default_rng(7), 0
        for _ in range(60):
            top = np.where(luck.random(20_000) < 0.5, 0.099, 0.081)
            above, below = luck.random(20_000) < top, luck.random(20_000) < 0.6 * (0.18 - top)
            counts = [np.cumsum(one) for one in (below & ~above, above & ~below, above & below)]
            looks = np.array([[one[at] for one in counts] for at in np.geomspace(99, 19_999, 12).astype(int)])
            misses += any(float(log_capital(np.array(0.6), one)) >= math.log(20) for one in looks)
            low, high = ratio_interval(looks[-1], 0.05)
            assert low < 0.6 < high or misses
            assert 0.4 < low < high < 0.9
        assert misses <= 8

    def test_learnt_weights_come_near(self) -> None:
        page = PageEnvironment([0.5, 0.45, 0.4, 0.35], WEIGHTS, seed=3)
        policy = ThompsonSampling(4, budget=3, positions="learn", position_swaps=1.0, seed=7)
        played(policy, page, 3000)
        assert policy.positions is not None
        # More than 450 clicks in each place: a standard error is 0.03 at most.
        assert np.abs(policy.positions.weights - WEIGHTS).max() < 0.1
        own = policy._own
        assert np.array_equal(policy.positions.weights, learnt_weights(own.told, own.clicks, 1.0, 2.0))
        # None near them explain the clicks better, with 5 clicks in each place of weights 1, 1/2, 1/3 before.
        usual = 1 / np.arange(1.0, 4.0)

        def likelihood(weights: np.ndarray) -> float:
            each = own.clicks.sum(axis=1) + 1.0
            found = (own.clicks.sum(axis=0) + 5.0) @ np.log(weights) - 5.0 * (weights / usual).sum()
            return float(found - each @ np.log(2.0 + own.told @ weights))

        best = likelihood(policy.positions.weights)
        for change in ([0, 1e-3, 0], [0, -1e-3, 0], [0, 0, 1e-3], [0, 0, -1e-3], [0, 1e-3, 1e-3]):
            assert likelihood(policy.positions.weights + change) < best
        low, high = policy.positions.low, policy.positions.high
        assert (low < [0.6, 0.4 / 0.6]).all()
        assert (high > [0.6, 0.4 / 0.6]).all()
        assert str(policy.certificate()) == "Nothing can be certified: the weights of the places are estimated."
        assert policy.certificate().regret_bound == math.inf
        assert policy.triage.active.size == 4

    def test_wrong_weights_are_noticed(self) -> None:
        page = PageEnvironment([0.5, 0.45, 0.4, 0.35], [1.0, 0.5, 0.25], seed=3)
        policy = ThompsonSampling(4, budget=3, positions=[1.0, 1.0, 1.0], position_swaps=1.0, seed=7)
        played(policy, page, 1000)
        found = policy.certificate()
        assert found.regret_bound == math.inf
        assert str(found) == "Nothing can be certified: swaps of neighbours contradict the weights of the places."

    @pytest.mark.long
    def test_wrong_weights_are_noticed_on_a_page_with_clicks_of_a_few_percent(self) -> None:
        rates = np.random.default_rng(900).uniform(0.02, 0.10, 100)
        page = PageEnvironment(rates, [1, 0.6, 0.4, 0.3, 0.2, 0.15], seed=3)
        policy = ThompsonSampling(100, budget=6, positions=[1.0] * 6, position_swaps=1.0, seed=7)
        for first in range(0, 50_000, 5000):
            played(policy, page, 5000, first)
            if policy.certificate().contradictions:
                return
        pytest.fail("not noticed")

    def test_a_reward_between_counts_as_a_click_with_its_own_probability(self) -> None:
        policy = ThompsonSampling(2, budget=2, positions=[1.0, 0.5], position_swaps=1.0, seed=7)
        for _ in range(400):
            policy.tell(policy.ask(), [0.5, 0.25])
        below, above, both = policy._own.pairs[0] / 400
        assert abs(above + both - 0.5) < 0.1
        assert abs(below + both - 0.25) < 0.1


class TestCertificate:
    def test_it_bounds_what_pages_lost(self) -> None:
        for run in range(3):
            page = PageEnvironment(RATES, WEIGHTS, seed=run)
            policy = ThompsonSampling(8, budget=3, positions=WEIGHTS, seed=run)
            lost = played(policy, page, 1500)
            found = policy.certificate()
            assert lost < found.regret_bound < 1500
            lower, upper = found.intervals
            assert ((lower <= RATES) & (upper >= RATES)).all()
            assert "Places are taken to have the weights 1, 0.6, 0.4." in str(found)
        assert sorted(found.next_decision.tolist()) == [1, 5, 7]

    def test_the_order_counts(self) -> None:
        one, other = (ThompsonSampling(3, budget=2, positions=[1.0, 0.5], seed=7) for _ in range(2))
        for number in range(400):
            for policy, order in ((one, [0, 1]), (other, [1, 0])):
                clicks = {0: float(number % 2 == 0), 1: float(number % 10 == 0)}
                policy.tell(policy.record(order), clicks)
            for policy in (one, other):
                policy.tell(policy.record([2, 0]), {2: 0.0, 0: float(number % 4 == 0)})
        assert one.certificate().regret_bound < other.certificate().regret_bound
        right, wrong = (one.certificate(next_decision=order).next_bound for order in ([0, 1], [1, 0]))
        assert right < wrong

    def test_another_order_may_be_all_that_is_better(self) -> None:
        policy = ThompsonSampling(2, budget=2, positions=[1.0, 0.5], seed=7)
        policy.tell(policy.ask(), [0.0, 0.0])
        assert "because another order may be better." in str(policy.certificate())

    def test_what_is_not_told_was_shown(self) -> None:
        policy = ThompsonSampling(2, budget=2, positions=[1.0, 0.5], seed=7)
        for _ in range(30):
            policy.tell(policy.record([1, 0]), {1: 1.0})
        page = policy._page()
        assert page.given.tolist() == [15.0, 30.0]
        assert page.told.tolist() == [0.0, 30.0]
        assert policy.certificate().silent == (0,)


class TestOrders:
    def test_a_log_of_pages_gives_the_policy_that_made_them(self) -> None:
        one, other = (ThompsonSampling(8, budget=3, positions=WEIGHTS, seed=7) for _ in range(2))
        page = PageEnvironment(RATES, WEIGHTS, seed=2)
        for number in range(200):
            decision = one.ask()
            again = other.record(decision.ranked, proposal=decision.ranked)
            assert again.ranked == decision.ranked
            page.play(one, decision, number)
            page.play(other, again, number)
        assert one.digest() == other.digest()

    def test_a_page_that_was_made_elsewhere_tells_nothing_of_weights(self) -> None:
        policy = ThompsonSampling(3, budget=3, positions=WEIGHTS, position_swaps=1.0, seed=7)
        for number in range(60):
            policy.tell(policy.record([[0, 1, 2], [2, 1, 0]][number % 2]), [1.0, 0.0, 0.0])
        assert policy._own.shown[0].tolist() == [30, 0, 30]
        assert not policy._own.pairs.any()
        with pytest.raises(ValueError, match="proposal must have the arms of the decision with positions, got"):
            policy.record([0, 1, 2], proposal=[0, 1])

    def test_parts_and_late_rewards_count_once(self) -> None:
        policy = ThompsonSampling(3, budget=3, positions=WEIGHTS, seed=7)
        decision = policy.record([2, 0, 1])
        policy.tell(decision, {0: 1.0}, last=False)
        assert not policy._own.told.any()
        policy.close(decision, default=0)
        assert policy._own.told.tolist() == [[0, 1, 0], [0, 0, 1], [1, 0, 0]]

    def test_eligible_arms_fill_the_first_places(self) -> None:
        policy = ThompsonSampling(4, budget=3, positions=WEIGHTS, seed=7)
        decision = policy.ask(eligible=[1, 3])
        policy.tell(decision, [1.0, 0.0])
        assert policy._own.told[decision.ranked[0]].tolist() == [1, 0, 0]
        with pytest.raises(NotImplementedError, match="certificates with positions are of all decisions among all"):
            policy.certificate()


class TestFiles:
    @pytest.mark.parametrize("weights", [WEIGHTS, "learn"])
    def test_loaded_policies_have_the_same_future(self, weights: Any) -> None:
        page = PageEnvironment(RATES, WEIGHTS, seed=2)
        policy = ThompsonSampling(8, budget=3, positions=weights, position_swaps=0.7, seed=7)
        played(policy, page, 1100)
        waiting = [policy.ask() for _ in range(4)]
        other = Policy.from_bytes(policy.to_bytes())
        assert other.digest() == policy.digest()
        for number, one in enumerate(waiting):
            again = other.decision(one.number)
            assert again.ranked == one.ranked
            page.play(policy, one, 1100 + number)
            page.play(other, again, 1100 + number)
        for one in (policy, other):
            played(one, page, 50, 1104)
        assert other.digest() == policy.digest()
        assert repr(other) == repr(policy)

    def test_arms_may_come_and_begin_again(self) -> None:
        page = PageEnvironment(RATES, WEIGHTS, seed=2)
        policy = ThompsonSampling(6, budget=3, positions=WEIGHTS, seed=7)
        played(policy, PageEnvironment(RATES[:6], WEIGHTS, seed=1), 40)
        policy.add_arms(2)
        policy.retire_arms([5])
        policy.restore_arms([5], forget=True)
        assert not policy._own.told[5].any()
        played(policy, page, 60, 40)
        other = Policy.from_bytes(policy.to_bytes())
        assert other.digest() == policy.digest()
        assert other.ask().ranked == policy.ask().ranked

    @pytest.mark.parametrize(
        ("name", "change", "said"),
        [
            ("state.told", 1, "told must lie between"),
            ("state.shown", 1, "shown"),
            ("state.weights", -0.2, "weights must be those given"),
            ("state.pairs", -9, "pairs must lie between"),
            ("state.clicks", 99, "clicks must lie between"),
            ("open.swapped", 1, "open decisions only"),
        ],
    )
    def test_forged_files_are_refused(self, name: str, change: float, said: str) -> None:
        policy = ThompsonSampling(8, budget=3, positions=WEIGHTS, position_swaps=1.0, seed=7)
        played(policy, PageEnvironment(RATES, WEIGHTS, seed=2), 20)
        policy.ask()
        header, arrays = unpack_archive("content", policy.to_bytes())
        forged = {one: array.copy() for one, array in arrays.items()}
        forged[name].flat[-1] += change
        with pytest.raises(DamagedFile, match=said):
            Policy.from_bytes(pack_archive(header, forged))

    @pytest.mark.parametrize("positions", [WEIGHTS, "learn"])
    def test_files_of_before_places_of_clicks_were_kept_are_read(self, positions: Any) -> None:
        policy = ThompsonSampling(8, budget=3, positions=positions, seed=7)
        played(policy, PageEnvironment(RATES, WEIGHTS, seed=2), 50)
        header, arrays = unpack_archive("content", policy.to_bytes())
        del arrays["state.clicks"]
        again: Any = Policy.from_bytes(pack_archive(header, arrays))
        assert again.ask().ranked == policy.ask().ranked
        clicks = again._own.clicks
        assert clicks.sum(axis=1) == pytest.approx(policy.tally.sums)
        assert (clicks <= again._own.told).all()
        assert 0.0 < clicks[:, 2].sum() < clicks[:, 0].sum()


class TestRefusals:
    @pytest.mark.parametrize("weights", [[1.0, 0.5], [0.9, 0.5, 0.2], [1.0, 0.5, 0.6], [1.0, 0.5, 0.0]])
    def test_weights(self, weights: Any) -> None:
        with pytest.raises(ValueError, match="positions must be 3 weights from 1 falling, above 0, got"):
            ThompsonSampling(5, budget=3, positions=weights)

    def test_other_arguments(self) -> None:
        def make(graph: Any = 5, budget: Any = 3, **more: Any) -> Any:
            return ThompsonSampling(graph, budget, **{"positions": WEIGHTS, **more})

        with pytest.raises(ValueError, match="positions must be weights, \"learn\" or None, got 'guess'"):
            make(positions="guess")
        with pytest.raises(ValueError, match=r"position_swaps must be None without positions, got 0\.1"):
            make(positions=None, position_swaps=0.1)
        with pytest.raises(ValueError, match=r"position_swaps must lie in \[0, 1\], got 1.5"):
            make(position_swaps=1.5)
        with pytest.raises(ValueError, match="reward_range must begin at 0 with positions"):
            make(reward_range=(1.0, 2.0))
        for said, more in (
            ("arms that reveal others", {"graph": FeedbackGraph.cliques([3, 2])}),
            ("a decision set", {"graph": 4, "budget": None, "decisions": Matchings(2, 2)}),
            ("a logging_floor", {"logging_floor": 0.1}),
            ("forget", {"forget": "alarm"}),
            ("an old_log", {"old_log": OldLog([1] * 5, [0] * 5, 0.1)}),
            ('direction="minimize"', {"direction": "minimize"}),
        ):
            with pytest.raises(NotImplementedError, match=f"positions cannot be used with {said}"):
                make(**more)

    def test_guards_and_elimination(self) -> None:
        kinds: Any = (GuardedThompson, GuardedIndex, CombinatorialElimination)
        for kind in kinds:
            with pytest.raises(NotImplementedError, match="bound is proved for slots that are alike"):
                kind(5, 3, positions=WEIGHTS)

    def test_calls(self) -> None:
        policy = ThompsonSampling(5, budget=3, positions=WEIGHTS, seed=7)
        decision = policy.ask()
        with pytest.raises(ValueError, match="a cascade or position weights, not both"):
            policy.tell_cascade(decision, None)
        with pytest.raises(NotImplementedError, match="a policy with positions cannot be watched"):
            policy.watch()
        with pytest.raises(NotImplementedError, match="marginals are of places that are alike"):
            policy.marginals()


def lost_by(
    n: int, rates: tuple[float, float], weights: list[float], rounds: int, runs: int, **more: Any
) -> np.ndarray:
    """Return the regret of slots alike, of known weights and of learnt ones in some runs."""
    found = np.zeros((3, runs))
    for run in range(runs):
        page = PageEnvironment(np.random.default_rng(900 + run).uniform(*rates, n), weights, seed=run)
        for row, given in enumerate((None, weights, "learn")):
            policy = ThompsonSampling(n, len(weights), positions=given, seed=run, **more)
            found[row, run] = played(policy, page, rounds)
    return found


def test_slots_alike_may_lock_in_a_wrong_order() -> None:
    # The worst of three runs: after 2,500 pages it was 281 clicks for slots alike, 107 with weights and 108 learnt.
    alike, known, learnt = lost_by(8, (0.3, 0.6), [1.0, 0.3, 0.1], 1500, 3).max(axis=1)
    assert known < 0.7 * alike
    assert learnt < 0.7 * alike


@pytest.mark.long
def test_weights_save_regret_on_a_page_with_clicks_of_a_few_percent() -> None:
    weights = [1, 0.6, 0.4, 0.3, 0.2, 0.15]
    alike, known, learnt = lost_by(100, (0.02, 0.10), weights, 200_000, 2, prior=(0.5, 4.5)).mean(axis=1)
    assert known <= 0.75 * alike
    assert learnt <= 1.2 * known


@pytest.mark.filterwarnings("ignore:.*is not compiled")
def test_simulate_plays_pages_with_their_weights() -> None:
    page = PageEnvironment(RATES, WEIGHTS, seed=2)
    recipe = ThompsonSampling(8, 3, positions=WEIGHTS, seed=7)
    trace = simulate(recipe, page, horizon=200, checkpoints=[200])
    assert trace.regret[0, 0] == pytest.approx(played(recipe.fresh(), page, 200))
