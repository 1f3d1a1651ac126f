"""What another policy would have earned: against slow twins, known means, and wrong probabilities."""

from __future__ import annotations

import json
import math
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.optimize import brentq

from armtriage import Falling, FeedbackGraph, Greedy, SlateLog, ThompsonSampling, UnknownArm, evaluate
from armtriage.kernels.betting import BETS, margin
from armtriage.logs.estimates import _CUTS
from logs.worlds import World, learned

BEST = [2, 5, 7]


def twin(world: World, weights: np.ndarray, alpha: float, lacks: tuple[str, ...]) -> dict[str, float]:
    """The estimates and the anytime interval, straight from their definitions."""
    floored = "floor" not in lacks
    rewards = np.array(world.log.frame().collect()["rewards"].to_list())
    n_arms, slots = world.means.size, world.arms.shape[1]
    scale = np.sort(weights)[::-1][:slots].sum() if floored else weights.sum()
    counts, sums, robust, plain = np.zeros(n_arms), np.zeros(n_arms), [], []
    capital = np.zeros((2, BETS.size))
    floor = 0.2
    for played, proposed, came, q in zip(world.arms, world.proposal, rewards, world.inclusion, strict=True):
        mean = (sums + 0.5) / (counts + 1)
        robust.append(weights @ mean + (weights[played] * (came - mean[played]) / q).sum())
        plain.append((weights[played] * came / q).sum())
        before = np.full(n_arms, floor * slots / (n_arms - slots))
        if "proposal" not in lacks:
            before[proposed] = 1 - floor
        for side, (good, expected) in enumerate(((came, mean), (1 - came, 1 - mean))):
            for j, (bet, cut) in enumerate(zip(BETS / scale, _CUTS, strict=True)):
                if floored:
                    base = np.minimum(expected, cut * before)
                    room = max(0.97 / (bet * scale) - cut, 0.0) * scale
                    rest = min(weights @ (expected - base), room) if "proposal" in lacks else 0.0
                    centre = weights @ base + rest
                    gain = (weights[played] * (good - base[played]) / q).sum() - rest
                else:
                    centre = weights @ expected
                    gain = (weights[played] * good / q).sum() - centre
                capital[side, j] += math.log(1 + bet * gain) + bet * centre
        counts[played] += 1
        sums[played] += came
    n = len(robust)

    def bound(side: int) -> float:
        def excess(value: float) -> float:
            terms = capital[side] - BETS / scale * n * value
            return float(np.logaddexp.reduce(terms) - math.log(BETS.size) - math.log(2 / alpha))

        return brentq(excess, -50.0, 50.0, xtol=1e-13)

    low, high = max(bound(0), 0.0), weights.sum() - max(bound(1), 0.0)
    return {"dr": float(np.mean(robust)), "ips": float(np.mean(plain)), "low": low, "high": high}


LACKING = [(), ("proposal",), ("proposal", "floor")]


@pytest.mark.parametrize("lacks", LACKING)
@pytest.mark.parametrize("kind", ["slate", "weights"])
def test_estimates_are_those_of_the_twin(lacks: tuple[str, ...], kind: str) -> None:
    world = learned(1, 150)
    weights = np.zeros(12)
    weights[BEST] = 1.0
    if kind == "weights":
        weights = np.full(12, 0.25)
    log = SlateLog.from_frame(world.log.frame().drop(*lacks), n_arms=12)
    expected = twin(world, weights, 0.05, lacks)
    target: Any = BEST if kind == "slate" else weights
    found = evaluate(log, target)
    assert found.value == pytest.approx(expected["dr"], abs=1e-12)
    assert evaluate(log, target, estimator="ips").value == pytest.approx(expected["ips"], abs=1e-12)
    assert found.low == pytest.approx(expected["low"], abs=1e-6)
    assert found.high == pytest.approx(expected["high"], abs=1e-6)


def test_self_normalised_estimate_by_hand() -> None:
    log = SlateLog.from_columns(
        arms=[[0], [1], [0]], rewards=[[1.0], [0.5], [0.0]], inclusion=[[0.5], [0.25], [0.2]], n_arms=2
    )
    assert evaluate(log, [0], estimator="snips").value == pytest.approx(2 / 7)
    assert evaluate(log, {0: 0.5, 1: 0.5}, estimator="snips").value == pytest.approx(0.5 * 2 / 7 + 0.25)


def test_estimate_from_totals_is_that_of_the_pseudo_inverse() -> None:
    slots, n_arms, floor = 2, 5, 0.3
    proposal, weights = (1, 3), np.array([0.2, 0.0, 0.9, 0.6, 0.3])
    laws: dict[tuple[int, ...], float] = {}
    for swaps in (0, 1, 2):
        chance = math.comb(slots, swaps) * floor**swaps * (1 - floor) ** (slots - swaps)
        outs = list(combinations(proposal, swaps))
        ins = list(combinations((0, 2, 4), swaps))
        for out in outs:
            for new in ins:
                slate = tuple(sorted({*proposal} - {*out} | {*new}))
                laws[slate] = laws.get(slate, 0.0) + chance / len(outs) / len(ins)
    seen = {slate: np.isin(np.arange(n_arms), slate).astype(float) for slate in laws}
    second = sum(chance * np.outer(seen[slate], seen[slate]) for slate, chance in laws.items())
    for slate in laws:
        log = SlateLog.from_columns(
            arms=[slate], rewards=[[0.75, 0.5]], proposal=[proposal], floor=[floor], n_arms=n_arms
        )
        expected = 1.25 * weights @ np.linalg.pinv(second) @ seen[slate]
        found = evaluate(log, weights, estimator="total", anytime=False).value
        assert found == pytest.approx(expected, abs=1e-9)


@pytest.fixture(scope="module")
def worlds() -> list[World]:
    return [learned(seed, 80) for seed in range(80)]


def test_estimates_are_not_biased_though_the_log_learned(worlds: list[World]) -> None:
    # 80 logs with fixed seeds; 4 standard errors are missed once in 16,000 such tests.
    off, missed = [], np.zeros(2)
    for world in worlds:
        truth = world.means[BEST].sum()
        found = [evaluate(world.log, BEST, estimator=one, anytime=False) for one in ("dr", "ips", "total")]
        off.append([float(one.value or 0.0) - truth for one in found])
        missed += not found[0].low <= truth <= found[0].high, not found[0].bracket[0] <= truth <= found[0].bracket[1]
    spread = np.std(off, axis=0)
    assert (np.abs(np.mean(off, axis=0)) < 4 * spread / math.sqrt(len(off))).all()
    assert spread[0] <= 0.95 * spread[1]  # what is expected of an arm takes variance away; it was 0.88
    # 5 were missed for one look, and none by the bracket; where each is missed in 1 of 10, and 1 of 20, more than
    # 17 and 11 are in 1 of 1,000 such tests.
    assert (missed <= (17, 11)).all()


def test_what_arms_reveal_of_others_takes_variance_away() -> None:
    # Of 6 cliques the standard deviation of 16 estimates was 0.43 of that by played arms alone.
    graph, means, off = FeedbackGraph.cliques([5] * 6), np.random.default_rng(7).uniform(0.1, 0.7, 30), []
    target = np.argsort(-means)[10:13].tolist()
    for seed in range(16):
        luck, policy = np.random.default_rng([7, seed]), ThompsonSampling(graph, budget=3, logging_floor=0.2, seed=seed)
        asked, told = [], []
        for _ in range(100):
            asked.append(policy.ask())
            told.append((luck.random(asked[-1].revealed.size) < means[asked[-1].revealed]).astype(float))
            policy.tell(asked[-1], told[-1])
        arms, inclusion = [one.arms for one in asked], [one.inclusion for one in asked]
        own = [came[np.isin(one.revealed, one.arms)] for one, came in zip(asked, told, strict=True)]
        shown: Any = {"observed": [one.revealed for one in asked], "observation": [one.observation for one in asked]}
        logs = (
            SlateLog.from_columns(arms=arms, inclusion=inclusion, rewards=told, n_arms=30, **shown),
            SlateLog.from_columns(arms=arms, inclusion=inclusion, rewards=own, n_arms=30),
        )
        off.append([float(evaluate(log, target, anytime=False).value or 0.0) - means[target].sum() for log in logs])
    spread = np.std(off, axis=0)
    assert spread[0] <= 0.5 * spread[1]
    assert (np.abs(np.mean(off, axis=0)) < 4 * spread / math.sqrt(16)).all()


@pytest.mark.parametrize(("logs", "most"), [(40, 7), pytest.param(200, 20, marks=pytest.mark.long)])
def test_anytime_intervals_hold_at_all_lengths(logs: int, most: int) -> None:
    # At most 5% of logs may miss at any of three looks: of 40, more than 7 would be an event of 1 in 1,400.
    missed = 0
    for seed in range(logs):
        world = learned(seed, 320)
        truth = world.means[BEST].sum()
        looks = [evaluate(world.first(n).log, BEST) for n in (20, 80, 320)]
        missed += any(not one.low <= truth <= one.high for one in looks)
    assert missed <= most


@pytest.fixture(scope="module")
def long_worlds() -> list[World]:
    return [learned(seed, 3000, n_arms=30, slots=5, floor=0.1) for seed in range(3)]


@pytest.mark.long
@pytest.mark.parametrize(("lacks", "wider"), [*zip(LACKING, (2.0, 2.0, 2.5), strict=True)])
def test_anytime_intervals_hold_for_500_logs(lacks: tuple[str, ...], wider: float) -> None:
    # The promise itself: of 500 logs 25 may miss at any of five looks; with none expected, that allows for no luck.
    missed, widths = 0, np.zeros(2)
    for seed in range(500):
        world = learned(seed, 1600, floor=0.1)
        order = np.argsort(-world.means)
        target = order[3:6].tolist()
        truth, rows = world.means[target].sum(), world.log.frame().collect()
        looks = []
        for n in (25, 100, 400, 800, 1600):
            some = rows.head(n).drop(*lacks)
            looks.append(evaluate(SlateLog.from_frame(some, n_arms=12), target))
        missed += any(not one.low <= truth <= one.high for one in looks)
        once = evaluate(SlateLog.from_frame(some, n_arms=12), target, anytime=False)
        widths += looks[-1].high - looks[-1].low, once.high - once.low
    print(f"{missed} of 500 missed, {widths[0] / widths[1]:.3f} times the width for one look, {widths[0] / 500:.3f}")
    assert missed <= 25
    assert widths[0] <= wider * widths[1]


def test_a_falling_floor_is_evaluated_and_its_intervals_shrink(tmp_path: Path) -> None:
    luck, means = np.random.default_rng(7), np.linspace(0.1, 0.8, 8)
    policy = ThompsonSampling(8, budget=2, logging_floor=Falling(0.4, power=0.25), seed=7)
    widths = []
    with SlateLog(tmp_path / "log") as log:
        for number in range(3200):
            decision = policy.ask()
            rewards = (luck.random(2) < means[decision.arms]).astype(float)
            policy.tell(decision, rewards)
            log.append(decision, rewards)
            if number + 1 in (400, 3200):
                found = evaluate(log, [4, 5])
                assert found.low <= means[4] + means[5] <= found.high
                widths.append(found.high - found.low)
    # Eight times as many decisions: 0.35 of the width with a constant floor, and 0.46 with this one, in the limit.
    assert widths[1] < 0.75 * widths[0]


@pytest.mark.parametrize("target", ["best", "others", "all"])
def test_anytime_interval_is_less_than_twice_as_wide_as_for_one_look(target: str, long_worlds: list[World]) -> None:
    width = np.zeros(2)
    for world in long_worlds:
        order = np.argsort(-world.means)
        chosen: Any = {"best": order[:5].tolist(), "others": order[5:10].tolist(), "all": np.full(30, 1 / 6)}[target]
        for place, anytime in enumerate((True, False)):
            found = evaluate(world.log, chosen, anytime=anytime)
            width[place] += found.high - found.low
    assert width[0] <= 2.0 * width[1]


def test_right_probabilities_pass_and_a_softmax_of_scores_is_caught() -> None:
    world = learned(3, 2000)
    right = evaluate(world.log, BEST)
    assert right.calibration_z is not None
    assert abs(right.calibration_z) < 4
    assert right.warnings == ()
    rows = world.log.frame().collect()
    scores = np.exp(3 * world.means)
    wrong = SlateLog.from_columns(
        arms=rows["arms"].to_list(),
        rewards=rows["rewards"].to_list(),
        inclusion=[(scores[one] / scores.sum()).tolist() for one in rows["arms"].to_list()],
        n_arms=12,
    )
    found = evaluate(wrong, np.full(12, 0.25))
    assert found.calibration_z is not None
    assert abs(found.calibration_z) > 4
    assert "probabilities do not match the log" in str(found)


def test_probabilities_of_the_next_state_are_caught() -> None:
    # A policy that follows the last reward logs, by mistake, the probability that it has after learning that reward.
    luck, chance = np.random.default_rng(7), 0.5
    arms, rewards, right, wrong = [], [], [], []
    for _ in range(3000):
        arm = int(luck.random() >= chance)
        reward = float(luck.random() < (0.7, 0.3)[arm])
        before = chance if arm == 0 else 1 - chance
        chance = 0.8 if (arm == 0) == (reward == 1) else 0.2
        arms.append([arm])
        rewards.append([reward])
        right.append([before])
        wrong.append([chance if arm == 0 else 1 - chance])
    given: dict[str, Any] = {"arms": arms, "rewards": rewards, "n_arms": 2}
    good, bad = (
        evaluate(SlateLog.from_columns(**given, inclusion=one), [0], estimator="ips") for one in (right, wrong)
    )
    assert good.calibration_z is not None
    assert bad.calibration_z is not None
    assert abs(good.calibration_z) < 4 < abs(bad.calibration_z)
    assert any("probabilities" in text for text in bad.warnings)


def test_what_is_expected_of_a_decision_does_not_know_its_rewards() -> None:
    # Another reward in the last decision moves the estimate by its own weighted look, and by nothing else.
    columns: dict[str, Any] = {"arms": [[0, 1]] * 4 + [[1, 2]], "inclusion": [[0.5, 0.25]] * 5, "n_arms": 3}
    values = []
    for last in (0.0, 1.0):
        log = SlateLog.from_columns(**columns, rewards=[[1.0, 0.0]] * 4 + [[last, 1.0]])
        values.append(float(evaluate(log, [0, 1]).value or 0.0))
    assert values[1] - values[0] == pytest.approx(1 / 0.5 / 5, abs=1e-12)


def test_a_deterministic_log_that_claims_probabilities_is_caught() -> None:
    log = SlateLog.from_columns(arms=[[0, 1]] * 300, rewards=[[1, 0]] * 300, inclusion=[[0.6, 0.4]] * 300, n_arms=4)
    assert "do not match" in str(evaluate(log, [0, 1]))


def test_arms_that_were_never_seen_are_named_as_such() -> None:
    log = SlateLog.from_columns(arms=[[0]] * 300, rewards=[[1]] * 300, inclusion=[[1.0]] * 300, n_arms=2)
    found = evaluate(log, [1])
    assert (found.unsupported, found.effective_size) == (1.0, 0.0)
    assert (found.low, found.high) == (0.0, 1.0)
    assert "never seen arms that are 100% of the target" in str(found)


def test_bracket_needs_no_probabilities() -> None:
    world = learned(4, 500)
    rows = world.log.frame().collect()
    log = SlateLog.from_columns(arms=rows["arms"].to_list(), rewards=rows["rewards"].to_list(), n_arms=12)
    found = evaluate(log, BEST, estimator="bracket")
    assert found.value is None
    assert (found.low, found.high) == found.bracket == evaluate(world.log, BEST).bracket
    assert found.low <= world.means[BEST].sum() <= found.high
    with pytest.raises(ValueError, match=r"inclusion must lie in \(0, 1\], got nan for arm \d+ of decision 0: log"):
        evaluate(log, BEST)


def test_probabilities_follow_from_proposal_and_floor() -> None:
    world = learned(5, 200)
    rows = world.log.frame().collect()
    without = SlateLog.from_frame(rows.drop("inclusion"), n_arms=12)
    assert evaluate(without, BEST) == evaluate(world.log, BEST)


def test_units_of_rewards_only_scale_what_is_found() -> None:
    world = learned(6, 300)
    rows = world.log.frame().collect()
    scaled = SlateLog.from_columns(
        arms=rows["arms"].to_list(),
        rewards=[[10 + 4 * one for one in row] for row in rows["rewards"].to_list()],
        inclusion=rows["inclusion"].to_list(),
        n_arms=12,
        reward_range=(10, 14),
    )
    plain = SlateLog.from_frame(rows.drop("proposal", "floor"), n_arms=12)
    one, two = evaluate(scaled, BEST), evaluate(plain, BEST)
    assert one.value is not None
    assert two.value is not None
    for a, b in ((one.value, two.value), (one.low, two.low), (one.high, two.high), (one.bracket[0], two.bracket[0])):
        assert a == pytest.approx(30 + 4 * b)


def test_decisions_without_rewards_are_left_out_and_counted() -> None:
    rewards = [[1.0], None, [0.0], [None]]
    log = SlateLog.from_columns(arms=[[0], [1], [1], [0]], rewards=rewards, inclusion=[[0.5]] * 4, n_arms=2)
    found = evaluate(log, [0])
    assert (found.rounds, found.untold) == (2, 2)
    assert "without 2 of which no reward came" in str(found)
    nothing = SlateLog.from_columns(arms=[[0]], rewards=[[None]], inclusion=[[0.5]], n_arms=1)
    with pytest.raises(ValueError, match="log must have a decision or more with rewards, got 1 without"):
        evaluate(nothing, [0])


def test_arms_that_were_not_eligible_are_refused_or_left_out() -> None:
    log = SlateLog.from_columns(
        arms=[[0], [1]], rewards=[[1], [1]], inclusion=[[0.5], [1.0]], eligible=[[0, 1], [1]], n_arms=2
    )
    with pytest.raises(ValueError, match="target has arm 0, which was not eligible in decision 1: say restrict=True"):
        evaluate(log, [0])
    assert evaluate(log, [0], estimator="ips", restrict=True).value == 1.0


def test_a_policy_is_asked_as_it_stands() -> None:
    world = learned(7, 400)
    policy = Greedy(12, budget=3, seed=7)
    for _ in range(6):
        decision = policy.ask()
        policy.tell(decision, np.isin(decision.revealed, BEST).astype(float))
    before = policy.digest()
    found = evaluate(world.log, policy)
    assert found.target == "Greedy as it stands"
    assert policy.digest() == before
    assert found.value == evaluate(world.log, policy.ask().arms.tolist()).value
    with pytest.raises(ValueError, match="target must have the 12 arms of the log, got a policy of 5"):
        evaluate(world.log, Greedy(5, budget=3))


@pytest.mark.parametrize(
    ("target", "options", "error", "message"),
    [
        ([99], {}, UnknownArm, "target has arm 99"),
        ([], {}, ValueError, "target must have an arm or more"),
        ("tea", {}, TypeError, "target must be a list of arms"),
        (np.full(3, 0.5), {}, ValueError, r"target must have a weight for each of 12 arms, got shape \(3,\)"),
        (np.full(12, 1.5), {}, ValueError, "target must have probabilities from 0 to 1 of playing each arm, got 1.5"),
        (BEST, {"estimator": "replay"}, ValueError, "estimator must be one of dr, ips, snips, total, bracket"),
        (BEST, {"alpha": 0.0}, ValueError, "alpha must"),
        (BEST, {"estimator": "total"}, ValueError, "anytime must be False for estimator 'total'"),
    ],
)
def test_what_is_refused(target: Any, options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        evaluate(learned(1, 20).log, target, **options)


def test_a_floor_alone_tightens_intervals_and_no_probability_is_below_it() -> None:
    rows = learned(5, 800).log.frame()
    whole, floor, none = (evaluate(SlateLog.from_frame(rows.drop(*one), n_arms=12), BEST) for one in LACKING)
    assert whole.value == floor.value == none.value
    assert whole.high - whole.low <= floor.high - floor.low < 0.9 * (none.high - none.low)
    assert floor.calibration_z == none.calibration_z
    assert SlateLog.from_frame(rows.drop("proposal"), n_arms=12).missing[-1].startswith("proposal: there is no")
    with pytest.raises(ValueError, match=r"inclusion must be at least 0\.2, which follows from the floor, got 0\.19"):
        evaluate(SlateLog.from_columns(arms=[[0]], rewards=[[1]], inclusion=[[0.19]], floor=[0.2], n_arms=2), [0])


def test_where_a_floor_helps_little_it_costs_nothing() -> None:
    # What the log liked has been played nearly always; there intervals by the floor were 30% wider than without one.
    world = learned(2, 1600, floor=0.1)
    best = np.argsort(-world.means)[:3].tolist()
    _, floor, none = (evaluate(SlateLog.from_frame(world.log.frame().drop(*one), n_arms=12), best) for one in LACKING)
    assert floor.high - floor.low <= none.high - none.low


def test_totals_need_proposals() -> None:
    log = SlateLog.from_columns(arms=[[0]], rewards=[[1]], inclusion=[[0.5]], n_arms=2)
    with pytest.raises(ValueError, match="estimator 'total' needs the proposal and floor of every decision"):
        evaluate(log, [0], estimator="total", anytime=False)


def test_it_can_be_shown_and_kept() -> None:
    found = evaluate(learned(8, 300).log, BEST)
    assert json.loads(json.dumps(found.to_dict()))["text"] == str(found)
    assert "<table>" in found._repr_html_()
    assert str(found).startswith("Playing arms 2, 5 and 7 would have earned")


def test_margin_is_just_below_the_root() -> None:
    rng = np.random.default_rng(7)
    gains = rng.uniform(-0.5, 1.5, 400)
    capital = np.log1p(BETS[:, None] * gains).sum(axis=1)

    def excess(value: float) -> float:
        terms = capital - BETS * 400 * value
        return float(np.logaddexp.reduce(terms) - math.log(BETS.size / 0.05))

    root = brentq(excess, -1, 1, xtol=1e-14)
    assert root - 1e-7 <= margin(capital, 400, 1.0, 0.05) <= root + 1e-12
