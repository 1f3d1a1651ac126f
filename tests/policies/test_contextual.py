"""ContextualPolicy: what is asked with contexts and told of them, and files that hold both."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import conftest
from armtriage import (
    C2UCB,
    CombUCB1,
    ContextualPolicy,
    DamagedFile,
    FeedbackGraph,
    GuardedLinear,
    HierarchicalElimination,
    LinearEnvironment,
    LinearThompsonSampling,
    Policy,
    simulate,
)
from armtriage._files import pack_archive, read_archive, write_archive
from armtriage.kernels import jit
from conftest import POLICIES, SIMPLE, snapshot, used, with_face
from twins import saved

CASES = with_face("contexts")
KINDS = with_face("contexts", SIMPLE)
STEADY = [name for name in KINDS if name not in ("LinearThompson", "GuardedLinear")]
STAGED = [name for name in KINDS if name.startswith("hierarchical")]
NAN, INF = float("nan"), float("inf")


def make(name: str, n_arms: int = 6, dimension: int = 3, budget: int = 2, **more: Any) -> Any:
    return POLICIES[name].make(n_arms=n_arms, dimension=dimension, budget=budget, **more)


def play(policy: Any, rounds: int) -> list[list[int]]:
    env = LinearEnvironment(0.8 * np.eye(policy.dimension)[0], "cube", policy.n_arms, seed=3)
    return conftest.play(policy, env, rounds)


def some_contexts(number: int = 0, n_arms: int = 6, dimension: int = 3) -> np.ndarray:
    return np.random.default_rng(number).uniform(-0.5, 0.5, (n_arms, dimension))


def sums(policy: Any) -> list[Any]:
    """What a compiled policy has learned."""
    ridge = {name.removeprefix("ridge."): array for name, array in saved(policy).items()}
    moment = ridge["moment"] + ridge["moment_carry"]
    return [(ridge["gram"] + ridge["carry"] + ridge["recent"]).tolist(), moment.tolist()]


def test_zero_noise_scale_width_and_scale_are_accepted() -> None:
    for policy in (
        make("C2UCB", noise_scale=0.0),
        make("C2UCB", width=0.0),
        make("LinearThompson", scale=0.0),
        make("hierarchical", noise_scale=0.0),
        make("GuardedLinear", noise_scale=0.0),
    ):
        assert play(policy, 30) == play(policy.fresh(), 30)


CONTEXTS = some_contexts()


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize(
    "given",
    [
        CONTEXTS.tolist(),
        tuple(map(tuple, CONTEXTS)),
        np.asfortranarray(CONTEXTS),
        np.repeat(CONTEXTS, 2, axis=0)[::2],
        CONTEXTS.astype(">f8"),
        CONTEXTS.astype(np.longdouble),
    ],
    ids=["lists", "tuples", "by columns", "every other row", "big endian", "long"],
)
def test_contexts_may_be_given_as(name: str, given: Any) -> None:
    policy, twin = make(name), make(name)
    for one, contexts in ((policy, given), (twin, CONTEXTS)):
        one.tell(one.ask(contexts), [0.5, -1.0])
    assert sums(policy) == sums(twin)


@pytest.mark.parametrize("dtype", [bool, np.int8, np.uint64, np.float16, np.float32])
def test_contexts_may_be_numbers_of_any_kind(dtype: Any) -> None:
    contexts = np.eye(6, 3).astype(dtype)
    assert make("C2UCB").ask(contexts).contexts.tolist() == [[1, 0, 0], [0, 1, 0]]


@pytest.mark.parametrize("name", KINDS)
def test_contexts_of_other_layouts_compile_nothing_anew(name: str) -> None:
    policy = make(name)
    read_only = some_contexts()
    read_only.flags.writeable = False
    policy.tell(policy.ask(some_contexts()), [0.5, -1.0])
    before = jit.compilations()
    for contexts in (read_only, np.asfortranarray(CONTEXTS), np.broadcast_to(CONTEXTS[0], (6, 3)), CONTEXTS.tolist()):
        policy.tell(policy.ask(contexts), [0.5, -1.0])
    assert jit.compilations() == before


BAD_CONTEXTS: list[tuple[Any, type[Exception], str]] = [
    (None, TypeError, "contexts must be an array of numbers"),
    ("x", TypeError, "contexts must be an array of numbers"),
    ([["x"] * 3] * 6, TypeError, "contexts must be an array of numbers"),
    (np.full((6, 3), 1j), TypeError, "contexts must be an array of numbers"),
    (np.full((6, 3), None), TypeError, "contexts must be an array of numbers"),
    (0.5, ValueError, r"contexts must have shape \(6, 3\).*got \(\)"),
    ([], ValueError, r"contexts must have shape \(6, 3\).*got \(0,\)"),
    (np.zeros((5, 3)), ValueError, r"shape \(6, 3\).*got \(5, 3\)"),
    (np.zeros((7, 3)), ValueError, r"shape \(6, 3\).*got \(7, 3\)"),
    (np.zeros((6, 2)), ValueError, r"shape \(6, 3\).*got \(6, 2\)"),
    (np.zeros((3, 6)), ValueError, r"shape \(6, 3\).*got \(3, 6\)"),
    (np.zeros(18), ValueError, r"shape \(6, 3\).*got \(18,\)"),
    (np.zeros((1, 6, 3)), ValueError, r"shape \(6, 3\).*got \(1, 6, 3\)"),
    ([[0.0] * 3] * 5 + [[0.0] * 2], ValueError, "contexts must be an array of numbers, got rows"),
    (np.eye(6, 3) * 1.001, ValueError, r"norms of at most 1.0 \(context_bound\), got a norm of 1.001 for arm 0"),
    (np.full((6, 3), 0.58), ValueError, "got a norm of 1.00.* for arm 0"),
    (np.where(np.arange(18).reshape(6, 3) == 13, NAN, 0.0), ValueError, "finite.*got a norm of nan for arm 4"),
    (np.where(np.arange(18).reshape(6, 3) == 17, -INF, 0.0), ValueError, "finite.*got a norm of inf for arm 5"),
    (np.eye(6, 3) * 1e300, ValueError, "got a norm of 1e.300 for arm 0"),
]


@pytest.mark.parametrize(("contexts", "error", "message"), BAD_CONTEXTS, ids=lambda value: str(value)[:25])
def test_bad_contexts_are_refused(contexts: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make("C2UCB").ask(contexts)


@pytest.mark.parametrize("name", KINDS)
def test_refused_asks_change_nothing(name: str) -> None:
    policy = make(name)
    play(policy, 9)
    policy.ask(CONTEXTS)
    before = snapshot(policy)
    for contexts, error, _ in BAD_CONTEXTS:
        with pytest.raises(error):
            policy.ask(contexts)
    assert snapshot(policy) == before
    assert policy.ask(CONTEXTS).number == 10


def test_norm_of_exactly_the_bound_is_accepted_up_to_rounding() -> None:
    rows = np.random.default_rng(1).normal(size=(20, 6, 3))
    for contexts in 3.7 * rows / np.linalg.norm(rows, axis=2, keepdims=True):
        assert make("C2UCB", context_bound=3.7).ask(contexts).number == 0


@pytest.mark.parametrize("dimension", range(1, 14))
def test_norm_counts_every_coordinate(dimension: int) -> None:
    policy = make("C2UCB", 2, dimension, 1)
    for j in range(dimension):
        contexts = np.zeros((2, dimension))
        contexts[1, j] = 1.01
        with pytest.raises(ValueError, match="for arm 1"):
            policy.ask(contexts)


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("bound", [1.0, 2.0])
def test_writing_on_contexts_after_ask_does_not_change_what_is_learned(name: str, bound: float) -> None:
    policy, twin = make(name, context_bound=bound), make(name, context_bound=bound)
    for number in range(10):
        contexts = some_contexts(number)
        decision, other = policy.ask(contexts), twin.ask(contexts.copy())
        contexts[:] = 0.25
        for one in (decision, policy.open_decisions[0]):
            with pytest.raises(ValueError, match="read-only"):
                one.contexts[:] = 0.125
        policy.tell(decision, [0.5, -1.0])
        twin.tell(other, [0.5, -1.0])
    assert sums(policy) == sums(twin)


@pytest.mark.parametrize("name", KINDS)
def test_contexts_of_a_decision_are_those_given_not_the_scaled_ones(name: str) -> None:
    policy = make(name, context_bound=50.0)
    decision = policy.ask(30.0 * CONTEXTS)
    assert np.array_equal(decision.contexts, (30.0 * CONTEXTS)[decision.arms])


@pytest.mark.parametrize("name", KINDS)
def test_open_decisions_have_the_contexts_that_were_asked(name: str) -> None:
    policy = make(name)
    asked = [policy.ask(some_contexts(number)).contexts.tolist() for number in range(5)]
    policy.tell(2, {})
    assert [one.contexts.tolist() for one in policy.open_decisions] == [asked[i] for i in (0, 1, 3, 4)]


@pytest.mark.parametrize("name", KINDS)
def test_revealed_are_the_arms(name: str) -> None:
    decision = make(name).ask(CONTEXTS)
    assert decision.revealed.tolist() == decision.arms.tolist()


@pytest.mark.parametrize("name", KINDS)
def test_rewards_by_arm_in_any_order_are_those_in_order(name: str) -> None:
    policy, twin = make(name), make(name)
    decision = policy.ask(CONTEXTS)
    twin.ask(CONTEXTS)
    policy.tell(decision, {int(decision.arms[1]): -1.0, int(decision.arms[0]): 0.5})
    twin.tell(0, [0.5, -1.0])
    assert sums(policy) == sums(twin)


def told_sums(told: list[tuple[np.ndarray, float]], prior: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    gram = prior * np.eye(3) + sum((np.outer(x, x) for x, _ in told), np.zeros((3, 3)))
    return gram, sum((r * x for x, r in told), np.zeros(3))


@pytest.mark.parametrize("name", ["C2UCB", "LinearThompson"])
def test_only_rewards_that_came_are_learned_with_their_own_contexts(name: str) -> None:
    policy = make(name, budget=4)
    decisions = [policy.ask(some_contexts(number)) for number in range(3)]
    told = []
    for decision, places in ((decisions[2], [3, 1]), (decisions[0], [2]), (decisions[1], [])):
        rewards = {int(decision.arms[i]): 0.25 * i - 0.5 for i in places}
        policy.tell(decision, rewards)
        told += [(decision.contexts[i], 0.25 * i - 0.5) for i in places]
    gram, moment = told_sums(told)
    found_gram, found_moment = (np.array(part)[0] for part in sums(policy))
    assert found_gram == pytest.approx(gram, abs=1e-14)
    assert found_moment == pytest.approx(moment, abs=1e-14)


@pytest.mark.parametrize("name", ["C2UCB", "LinearThompson"])
def test_rewards_and_contexts_are_divided_and_never_shifted(name: str) -> None:
    policy = make(name, reward_range=(1.0, 4.0), context_bound=2.0)
    decision = policy.ask(CONTEXTS)
    policy.tell(decision, [2.0, 4.0])
    gram, moment = told_sums([(x / 2.0, r) for x, r in zip(decision.contexts, (0.5, 1.0), strict=True)])
    assert np.array(sums(policy)[0])[0] == pytest.approx(gram, abs=1e-15)
    assert np.array(sums(policy)[1])[0] == pytest.approx(moment, abs=1e-15)


@pytest.mark.parametrize("reward_range", [(-1e100, 1e100), (-1e100, 0.0), (-1e-300, 1e-300)])
@pytest.mark.parametrize("name", KINDS)
def test_ranges_at_the_ends_of_what_is_allowed_mean_what_ordinary_ones_do(name: str, reward_range: Any) -> None:
    low, high = reward_range
    unit = max(-low, high)
    policy, twin = make(name, reward_range=reward_range), make(name, reward_range=(low / unit, high / unit))
    for number in range(20):
        decision, other = policy.ask(some_contexts(number)), twin.ask(some_contexts(number))
        assert decision.arms.tolist() == other.arms.tolist()
        policy.tell(decision, [low, high])
        twin.tell(other, [low / unit, high / unit])


SHAPES = [(1, 1, 1), (5, 1, 2), (5, 3, 1), (4, 2, 4), (4, 9, 3), (40, 5, 7), (3, 70, 2)]


@pytest.mark.parametrize(("n_arms", "dimension", "budget"), SHAPES)
@pytest.mark.parametrize("name", CASES)
def test_sizes_of_every_shape_play(name: str, n_arms: int, dimension: int, budget: int) -> None:
    for arms in play(make(name, n_arms, dimension, budget), 60):
        assert len(set(arms)) == budget
        assert 0 <= arms[0] <= arms[-1] < n_arms


@pytest.mark.parametrize("name", CASES)
def test_budget_of_all_arms_plays_them_all(name: str) -> None:
    assert play(make(name, budget=6), 30) == [list(range(6))] * 30


@pytest.mark.parametrize("horizon", [1, 2, 3, 10**15])
@pytest.mark.parametrize("name", STAGED)
def test_any_horizon_can_be_played_even_beyond_it(name: str, horizon: int) -> None:
    policy = make(name, horizon=horizon)
    assert policy.stages >= 1
    assert len(play(policy, 50)) == 50


@pytest.mark.parametrize(
    "name", [name for name in CASES if name not in ("GuardedLinear-disjoint", "GuardedLinear-hybrid")]
)
def test_identical_contexts_are_played_by_arm_number(name: str) -> None:
    policy = make(name, 40, 3, 7)
    for number in range(60):
        contexts = np.tile(some_contexts(number, 1), (40, 1))
        decision = policy.ask(contexts)
        assert decision.arms.tolist() == list(range(7))
        policy.tell(decision, np.linspace(-1, 1, 7))


@pytest.mark.parametrize("name", CASES)
def test_zero_contexts_are_played_by_arm_number_and_teach_nothing(name: str) -> None:
    policy = make(name)
    before = sums(policy)
    for _ in range(20):
        decision = policy.ask(np.zeros((6, 3)))
        assert decision.arms.tolist() == [0, 1]
        policy.tell(decision, [1, -1])
    assert sums(policy) == before


@pytest.mark.parametrize("name", STEADY)
def test_decisions_without_any_reward_stay_the_same(name: str) -> None:
    policy = make(name)
    assert len({tuple(policy.ask(CONTEXTS).arms.tolist()) for _ in range(100)}) == 1
    assert len(policy.open_decisions) == 100


def test_thompson_sampling_without_any_reward_plays_every_arm() -> None:
    policy, contexts = make("LinearThompson"), np.vstack([np.eye(3), -np.eye(3)])
    assert {arm for _ in range(200) for arm in policy.ask(contexts).arms.tolist()} == set(range(6))


@pytest.mark.parametrize("name", ["C2UCB", "C2UCB-width", "LinearThompson", "GuardedLinear"])
def test_rewards_fifty_rounds_late_teach_what_is_best(name: str) -> None:
    env = LinearEnvironment([0.7, -0.4, 0.3], some_contexts(3, 8), reward="uniform", half_width=0.1, seed=3)
    noise = {} if name == "C2UCB-width" else {"noise_scale": 0.05}
    policy, lost, waiting = make(name, 8, **noise), [], []
    for number in range(600):
        decision = policy.ask(env.contexts(number))
        waiting.append((decision, env.rewards(number, decision.arms)))
        lost.append(env.regret(number, decision.arms))
        if len(waiting) > 50:
            policy.tell(*waiting.pop(0))
    assert len(policy.open_decisions) == 50
    average = float(np.sort(env.means(0))[-2:].sum() - 2 * env.means(0).mean())
    assert np.mean(lost[400:]) < 0.25 * average


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "policy.bin"


@pytest.mark.parametrize("kind", [CombUCB1, LinearThompsonSampling, HierarchicalElimination])
def test_file_of_another_kind_is_refused_naming_both(kind: type[Policy], path: Path) -> None:
    make("C2UCB").save(path)
    with pytest.raises(DamagedFile, match=f"holds a C2UCB, not a {kind.__name__}"):
        kind.load(path)


@pytest.mark.parametrize("kind", [C2UCB, ContextualPolicy])
def test_file_of_a_policy_without_contexts_is_refused_naming_both(kind: type[Policy], path: Path) -> None:
    CombUCB1(FeedbackGraph.semi_bandit(6), 2).save(path)
    with pytest.raises(DamagedFile, match=f"holds a CombUCB1, not a {kind.__name__}"):
        kind.load(path)


def test_any_changed_byte_and_any_cut_is_noticed(path: Path) -> None:
    used("hierarchical").save(path)
    whole = path.read_bytes()
    places = [*range(80), *range(80, len(whole), len(whole) // 150), *range(len(whole) - 30, len(whole))]
    damaged = [whole[:i] + bytes([whole[i] ^ 0x20]) + whole[i + 1 :] for i in places] + [whole[:i] for i in places]
    for content in damaged:
        path.write_bytes(content)
        with pytest.raises(DamagedFile):
            Policy.load(path)


@pytest.mark.parametrize("name", ["C2UCB", "LinearThompson", "hierarchical"])
def test_whole_file_with_a_part_missing_or_of_another_shape_is_refused(name: str, path: Path) -> None:
    used(name).save(path)
    header, arrays = read_archive(path)
    for part in [part for part in arrays if not part.startswith("graph.")]:
        # The files of before have no sums of r (1 - r).
        for changed in (arrays[part][:-1],) if part == "tally.between" else (None, arrays[part][:-1]):
            kept = {other: array for other, array in arrays.items() if other != part}
            path.write_bytes(pack_archive(header, kept if changed is None else kept | {part: changed}))
            with pytest.raises(DamagedFile):
                Policy.load(path)


@pytest.mark.parametrize("argument", ["dimension", "n_arms", "budget", "horizon"])
def test_file_whose_arguments_do_not_fit_its_state_is_refused(argument: str, path: Path) -> None:
    used("hierarchical").save(path)
    header, arrays = read_archive(path)
    for value in (1, 20, None, "x"):
        changed = {**header, "config": {**header["config"], argument: value}}
        write_archive(path, changed, arrays)
        with pytest.raises(DamagedFile):
            Policy.load(path)


def forge(path: Path, part: str, values: Any) -> None:
    """Write other values into a file, which stays whole."""
    header, arrays = read_archive(path)
    write_archive(path, header, arrays | {part: np.asarray(values)})


def test_a_forged_note_is_no_index(path: Path) -> None:
    policy = HierarchicalElimination(4, 2, 2, horizon=100, seed=1)
    policy.ask(np.eye(4, 2))
    policy.save(path)
    forge(path, "open.notes", [[10**8, 10**8]])
    with pytest.raises(DamagedFile, match="notes must lie between -1 and 4, got 100000000"):
        HierarchicalElimination.load(path)


@pytest.mark.parametrize(
    ("part", "values"),
    [("open.notes", [[0.0, 0.0]]), ("open.contexts", np.full((1, 2, 2), 9.0)), ("open.arms", [1, 0])],
    ids=lambda value: str(value)[:20],
)
def test_open_decisions_of_a_wrong_form_are_damage(part: str, values: Any, path: Path) -> None:
    policy = C2UCB(4, 2, 2, seed=1)
    policy.ask(np.eye(4, 2))
    policy.save(path)
    forge(path, part, values)
    with pytest.raises(DamagedFile, match="does not hold a whole C2UCB"):
        C2UCB.load(path)


def test_a_contextual_policy_needs_both_hooks() -> None:
    with pytest.raises(TypeError, match="abstract"):
        ContextualPolicy(3, 2, 1)  # type: ignore[abstract]


def test_noise_scale_beside_what_replaces_it_is_refused() -> None:
    with pytest.raises(ValueError, match="noise_scale is of no use beside width"):
        C2UCB(3, 2, 1, width=0.5, noise_scale=0.1)
    with pytest.raises(ValueError, match="noise_scale is of no use beside scale"):
        LinearThompsonSampling(3, 2, 1, scale=0.5, noise_scale=0.1)


@pytest.mark.parametrize("ridge", [1e-310, 1e200])
def test_ridge_that_would_end_in_nan_is_refused(ridge: float) -> None:
    with pytest.raises(ValueError, match="ridge must lie in"):
        C2UCB(3, 2, 1, ridge=ridge)


def test_vectors_normalised_in_single_precision_are_taken() -> None:
    contexts = np.random.default_rng(1).standard_normal((50, 384)).astype(np.float32)
    contexts /= np.linalg.norm(contexts, axis=1, keepdims=True)
    assert C2UCB(50, 384, 3).ask(contexts).arms.size == 3
    assert LinearEnvironment(np.zeros(384), contexts).n_arms == 50


ANY = ["GuardedLinear", "GuardedLinear-free", "C2UCB", "LinearThompson"]


@pytest.mark.parametrize("name", ANY)
def test_requests_may_have_any_number_of_candidates(name: str, path: Path) -> None:
    policy, rng = make(name, n_arms=None), np.random.default_rng(5)
    for number in range(40):
        contexts = rng.uniform(-0.5, 0.5, (int(rng.integers(1, 12)), 3))
        decision = policy.ask(contexts)
        assert decision.arms.size == min(2, len(contexts))
        assert np.array_equal(decision.contexts, contexts[decision.arms])
        if number % 5:
            policy.tell(decision, rng.uniform(-1, 1, decision.arms.size))
        if number in (0, 20):
            policy.save(path)
            policy = Policy.load(path)
    assert policy.config["n_arms"] is None
    assert len(policy.open_decisions) == 8


@pytest.mark.parametrize("name", ANY)
def test_any_number_of_candidates_are_played_as_a_fixed_one(name: str) -> None:
    free, fixed = make(name, n_arms=None), make(name, n_arms=6)
    for number in range(30):
        one, other = free.ask(some_contexts(number)), fixed.ask(some_contexts(number))
        assert one.arms.tolist() == other.arms.tolist()
        free.tell(one, [0.5, -0.25])
        fixed.tell(other, [0.5, -0.25])
    env = LinearEnvironment([0.5, 0.1, 0.0], "cube", 6, seed=3)
    assert simulate(free, env, horizon=50).mean[-1] == simulate(fixed, env, horizon=50).mean[-1]


def test_what_any_number_of_candidates_cannot_have_is_refused() -> None:
    policy = make("GuardedLinear", n_arms=None)
    with pytest.raises(ValueError, match="eligible must be None where n_arms is"):
        policy.ask(CONTEXTS, eligible=[0, 1])
    with pytest.raises(ValueError, match="contexts must have a row of 3 numbers for each candidate"):
        policy.ask(np.zeros((0, 3)))
    with pytest.raises(ValueError, match="contexts must have shape"):
        policy.ask({"a": [0.1, 0.2]})
    with pytest.raises(ValueError, match="names must be None where n_arms is"):
        make("GuardedLinear", n_arms=None, names=["a", "b"])
    with pytest.raises(TypeError, match="n_arms must be a whole number"):
        make("hierarchical", n_arms=None)
    with pytest.raises(ValueError, match="budget must be given, a whole number from 1"):
        GuardedLinear(dimension=3)
    assert policy.n_arms == 2


@pytest.mark.parametrize("name", KINDS)
def test_a_mapping_of_contexts_names_the_candidates(name: str) -> None:
    one, other = (make(name, 4, names=["tea", "milk", "jam", "tart"]) for _ in range(2))
    rows = some_contexts(1, 4)
    for _ in range(3):
        decision = one.ask({"tart": rows[3], "milk": rows[1], "jam": rows[2]})
        same = other.ask(rows[[3, 1, 2]], eligible=["tart", "milk", "jam"])
        assert decision.names == same.names
        one.tell(decision, dict.fromkeys(decision.names, 0.5))
        other.tell_revealed(same, [0.5, 0.5])
    with pytest.raises(ValueError, match="eligible must be None beside a mapping"):
        one.ask({"tea": rows[0]}, eligible=["tea"])
