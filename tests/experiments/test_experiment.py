"""Experiments: what a definition stands for, what is refused and how, plans, parts, and the command `run`."""

from __future__ import annotations

import functools
import json
import re
import sys
from pathlib import Path
from typing import Any, Literal

import numpy as np
import polars
import pytest

from armtriage import (
    C2UCB,
    CombUCB1,
    Experiment,
    FeedbackGraph,
    LinearEnvironment,
    Matchings,
    Policy,
    Results,
    StochasticEnvironment,
    random_constrained,
    random_linear,
)
from armtriage.catalogue import build_instance
from armtriage.experiments import plan as planning
from armtriage.experiments.folder import Folder
from experiments.small_cells import First, Raising, two_arms

SMALL = "random:n_arms=6,budget=2"
ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.filterwarnings("ignore:.* is not compiled:UserWarning")


def made(environments: Any = (SMALL,), policies: Any = ("greedy",), **settings: Any) -> Experiment:
    return Experiment(environments, policies, **{"horizon": 40, "replications": 4, "seed": 7, **settings})


def labels(things: Any) -> list[str]:
    return [one.label for one in things]


def refused(environments: Any = (SMALL,), policies: Any = ("greedy",), **settings: Any) -> str:
    with pytest.raises(ValueError) as caught:
        made(environments, policies, **settings)
    return str(caught.value)


def test_lists_are_grids_over_any_option() -> None:
    experiment = made(
        [
            {"instance": "random", "graph": "cliques", "n_arms": [6, 8], "size": [2, 3], "budget": 2},
            {"instance": "linear", "n_arms": 5, "dimension": [2, 3], "budget": 2},
            {"instance": "assignment", "left": 2, "right": [2, 3]},
        ],
        [
            {"policy": "elimination", "delta": [0.1, 0.2], "variant": ["tight", "paper"]},
            {"policy": "c2ucb", "width": [1, 2]},
            {"policy": "constrained", "cover": ["exact", "greedy"]},
        ],
    )
    assert labels(experiment.environments) == [
        *(f"random:graph=cliques,n_arms={n},size={size},budget=2" for n in (6, 8) for size in (2, 3)),
        "linear:n_arms=5,dimension=2,budget=2",
        "linear:n_arms=5,dimension=3,budget=2",
        "assignment:left=2,right=2",
        "assignment:left=2,right=3",
    ]
    assert labels(experiment.policies)[:4] == [
        f"elimination:delta={delta},variant={variant}" for delta in (0.1, 0.2) for variant in ("tight", "paper")
    ]
    played = {(cell.environment.instance, cell.policy.policy) for cell in experiment.cells}
    assert played == {("random", "elimination"), ("linear", "c2ucb"), ("assignment", "constrained")}
    assert len(experiment.cells) == 4 * 4 + 2 * 2 + 2 * 2


def test_label_of_a_grid_says_what_differs() -> None:
    experiment = made(
        [{"instance": "random", "n_arms": [5, 6], "budget": 2, "label": "easy"}],
        {"careful": {"policy": "elimination", "delta": 0.1}, "both": {"policy": "ucb", "delta": [0.1, 0.2]}},
        horizon=[40, 50],
    )
    assert labels(experiment.environments) == [f"easy:n_arms={n},horizon={t}" for n in (5, 6) for t in (40, 50)]
    assert labels(experiment.policies) == ["careful", "both:delta=0.1", "both:delta=0.2"]
    assert {one.horizon for one in experiment.environments} == {40, 50}


def test_horizon_of_an_entry_is_its_own() -> None:
    experiment = made([SMALL, {"instance": "star", "n_leaves": 3, "horizon": [10, 20]}], ["thompson"])
    assert [(one.label, one.horizon) for one in experiment.environments] == [
        (SMALL, 40),
        ("star:n_leaves=3,horizon=10", 10),
        ("star:n_leaves=3,horizon=20", 20),
    ]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (SMALL, {"instance": "random", "n_arms": 6, "budget": 2}),
        (SMALL, {"instance": "random", "budget": 2, "n_arms": 6.0, "low": 0, "graph": "semi_bandit", "seed": "none"}),
        (SMALL, {"instance": "random", "n_arms": np.int64(6), "budget": np.array([2])}),
        (
            "random:graph=cliques,n_arms=6,size=2,budget=2",
            {"instance": "random", "graph": {"family": "cliques", "n_arms": 6, "size": 2}, "budget": 2},
        ),
        (
            "tree:nodes=4,edges=5,graph=erdos_renyi,p=0.5,graph.seed=3",
            {"instance": "tree", "nodes": 4, "edges": 5, "graph": {"family": "erdos_renyi", "p": 0.5, "seed": 3}},
        ),
        ("partition:n_arms=4,budget=2,gap=0.1", {"instance": "partition", "n_arms": 4, "budget": 2, "gap": 0.1}),
        ("ucb_failure:budget=1,alpha=2,noise=shared,horizon=70", "ucb_failure:budget=1,alpha=2,noise=shared"),
    ],
)
def test_environment_is_the_same_however_it_is_written(one: Any, other: Any) -> None:
    keys = [made([entry], ["thompson"], horizon=70).environments[0].key for entry in (one, other)]
    assert keys[0] == keys[1]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("elimination:delta=0.01", {"policy": "elimination"}),
        ("elimination:horizon=none", {"policy": "elimination", "horizon": "None"}),
        ("elimination", {"policy": "elimination", "interval": "none", "reward_range": [[0, 1]]}),
    ],
)
def test_policy_is_the_same_however_it_is_written(one: Any, other: Any) -> None:
    keys = [made(policies=[entry]).policies[0].key for entry in (one, other)]
    assert keys[0] == keys[1]


def test_graph_can_have_its_own_size_and_seed() -> None:
    together = {"instance": "categories", "groups": 2, "size": 4, "graph": "cliques"}
    apart = {**together, "graph": {"family": "cliques", "size": 2}}
    experiment = made([together, apart], ["thompson"])
    assert labels(experiment.environments)[1] == "categories:graph=cliques,size=4,groups=2,graph.size=2"
    graphs = [build_instance(one.instance, one.options, 40, 1)[0].graph for one in experiment.environments]
    assert graphs == [FeedbackGraph.cliques([4, 4]), FeedbackGraph.cliques([2] * 4)]
    drawn = {
        "instance": "random",
        "n_arms": 9,
        "budget": 2,
        "graph": {"family": "erdos_renyi", "p": 0.3, "seed": [3, 4]},
    }
    one, two = made([drawn]).environments
    assert build_instance(one.instance, one.options, 40, 1)[0].graph == FeedbackGraph.erdos_renyi(9, 0.3, 3)
    assert build_instance(two.instance, two.options, 40, 1)[0].graph == FeedbackGraph.erdos_renyi(9, 0.3, 4)


def test_policies_play_only_what_they_can() -> None:
    experiment = made(
        {"arms": SMALL, "contexts": "linear:n_arms=4,dimension=2,budget=1", "set": "assignment:left=2,right=2"},
        ["greedy", "thompson", "c2ucb", "constrained"],
    )
    pairs = list(dict.fromkeys((cell.environment.label, cell.policy.label) for cell in experiment.cells))
    arms = [("arms", "greedy"), ("arms", "thompson")]
    assert pairs == [*arms, ("contexts", "c2ucb"), ("set", "thompson"), ("set", "constrained")]


def test_definition_is_what_was_given() -> None:
    given = {"instance": two_arms, "gap": (0.1, np.float64(0.2)), "budget": 1}
    experiment = made({"mine": given}, [First, "greedy"])
    said = json.loads(json.dumps(experiment.definition))
    assert said["environments"] == {
        "mine": {"instance": "experiments.small_cells:two_arms", "gap": [0.1, 0.2], "budget": 1}
    }
    assert said["policies"] == ["experiments.small_cells:First", "greedy"]
    assert (said["horizon"], said["seed"], experiment.name) == (40, 7, "experiment")


def test_certificates_are_kept_beside_the_regret(tmp_path: Path) -> None:
    plain, kept = made(), made(certificate=True)
    assert {one.id for one in plain.cells}.isdisjoint(one.id for one in kept.cells)
    assert kept.cells == made(certificate=0.05).cells
    assert plain.cells == made(certificate=False).cells
    file = tmp_path / "certified.toml"
    file.write_text(f'horizon = 40\ncertificate = 0.05\nseed = 7\nreplications = 4\nenvironments = ["{SMALL}"]\n')
    assert Experiment.from_file(file, policies=["greedy"]).cells == kept.cells
    before, after = plain.run(engine="serial").regret, kept.run(engine="serial").regret
    assert after.drop("certificate").equals(before)
    assert (after["certificate"] >= after["regret"]).all()


def test_certificates_are_for_worlds_without_contexts() -> None:
    says = "certificate: must be False for a policy with contexts, but for GuardedLinear, got True"
    assert refused(["linear:n_arms=4,dimension=2,budget=2"], ["c2ucb"], certificate=True) == says


def test_seed_is_drawn_and_kept() -> None:
    one, two = made(seed=None), made(seed=None)
    assert one.seed != two.seed
    assert one.cells[0].root == one.seed


def test_other_entries_change_no_cell() -> None:
    few = {cell.id for cell in made().cells}
    more = {cell.id for cell in made(["star:n_leaves=3", SMALL], ["thompson", "greedy"], replications=8).cells}
    assert few < more


def matched(left: int, *, seed: int) -> StochasticEnvironment:
    return random_constrained(Matchings(left, left), seed=seed)


def linear(n_arms: int, budget: int = 2, *, horizon: int, seed: int) -> LinearEnvironment:
    assert horizon == 40
    return random_linear(n_arms, 3, seed=seed)


class Chosen(First):
    def __init__(
        self,
        graph: FeedbackGraph,
        budget: int,
        *,
        how: Literal["first", "last"] = "first",
        weights: tuple[float, ...] = (1.0,),
        anything=None,
        seed: int | None = None,
    ) -> None:
        super().__init__(graph, budget, seed=seed)
        self.how, self.weights, self.anything = how, weights, anything


class Linear(C2UCB):
    pass


def test_functions_and_classes_of_ones_own_are_played() -> None:
    experiment = made(
        {
            "arms": {"instance": two_arms, "gap": [0.1, 0.3], "budget": 1},
            "bound": {"instance": functools.partial(two_arms, gap=0.2), "budget": 1},
            "set": {"instance": matched, "left": 2},
            "contexts": {"instance": linear, "n_arms": [4, 5]},
        },
        [
            First,
            CombUCB1,
            Linear,
            {"policy": Chosen, "how": ["first", "last"], "weights": [[1, 2]], "anything": [{"a": 1}]},
        ],
    )
    own = {"how": "last", "weights": (1.0, 2.0), "anything": {"a": 1}}
    assert experiment.policies[-1].options == own
    played = {(cell.environment.label, cell.policy.label) for cell in experiment.cells}
    assert {policy for where, policy in played if where == "set"} == {"CombUCB1"}
    assert {policy for where, policy in played if where.startswith("contexts")} == {"Linear"}
    results = experiment.run(engine="serial")
    assert (results.failed, results.missing) == (0, 0)
    first = results.runs.filter(polars.col("policy") == "First")
    assert first.height == 4 * 3


def test_file_finds_what_lies_beside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "lies_beside.py").write_text(
        "from armtriage import Greedy, random_bernoulli, FeedbackGraph\n"
        "class Mine(Greedy):\n    pass\n"
        "def build(n, seed):\n    return random_bernoulli(FeedbackGraph.semi_bandit(n), seed=seed)\n"
    )
    file = tmp_path / "own.toml"
    file.write_text(
        'horizon = 20\npolicies = ["greedy", { policy = "lies_beside:Mine" }]\n'
        'environments = [{ instance = "lies_beside:build", n = [3, 4], budget = 1 }]\n'
    )
    experiment = Experiment.from_file(file, code=True, replications=2)
    assert labels(experiment.environments) == ["build:n=3,budget=1", "build:n=4,budget=1"]
    assert labels(experiment.policies) == ["greedy", "Mine"]
    assert {cell.count for cell in experiment.cells} == {2}


def untold(**options: Any) -> StochasticEnvironment:
    return StochasticEnvironment([0.5, 0.1], FeedbackGraph.semi_bandit(2))


def raising(seed: int) -> StochasticEnvironment:
    raise LookupError("no data")


class Closed(Policy):
    def __init__(self, graph: FeedbackGraph, size: int = 1) -> None:
        super().__init__(graph, size)

    def _select(self, number: int) -> Any:
        return None

    def _update(self, number: int, arms: Any, rewards: Any) -> None:
        pass


class Broken(First):
    def __init__(self, graph: FeedbackGraph, budget: int, *, seed: int | None = None) -> None:
        raise LookupError("no model")


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        (
            "randm:n_arms=5",
            "environments[0]: unknown instance 'randm'; accepted are random, rewards, rates, ucb_failure, hidden_arm,",
        ),
        ({"instance": "randm"}, "environments[0].instance: unknown instance 'randm'; accepted are random,"),
        ({"n_arms": 5}, "environments[0].instance: must be given; accepted are random, rewards, rates, ucb_failure"),
        ({"instance": 3}, "environments[0].instance: got 3; accepted are random,"),
        (two_arms(), "environments[0].instance: got "),
        ("random:n_arms", "environments[0]: options are written key=value and parted by commas, got 'n_arms'"),
        ("random:n_arms=x,budget=2", "environments[0].n_arms: must be a whole number, got 'x'"),
        ("random:n_arms=6,budget=2,horizon=0", "environments[0].horizon: must be a whole number from 1, got 0"),
        ("random:n_arms=6,budget=2,seed=-1", "environments[0].seed: must be a whole number from 0, or none, got -1"),
        (
            {"instance": "random", "n_arms": [5, "x"], "budget": True, "sise": 2},
            "3 problems\n"
            "  environments[0].budget: must be a whole number, got True\n"
            "  environments[0].sise: unknown key; accepted are instance, label, graph, n_arms, budget, low, high, "
            "reward, horizon, seed\n"
            "  environments[0].n_arms: must be a whole number, got 'x'",
        ),
        ({"instance": "random", "n_arms": 6}, "environments[0].budget: must be given; accepted are instance, label,"),
        ({"instance": "random", "n_arms": 6.5, "budget": 2}, "environments[0].n_arms: must be a whole number, got 6.5"),
        ({"instance": "random", "n_arms": [], "budget": 2}, "environments[0].n_arms: must hold at least one value"),
        (
            {"instance": "random", "n_arms": [[6]], "budget": 2},
            "environments[0].n_arms: must be a whole number, got [6]",
        ),
        ({"instance": "random", "n_arms": {6}, "budget": 2}, "environments[0].n_arms: must be made of numbers, text"),
        (
            {"instance": "random", "n_arms": 6, "budget": 9},
            "environments[0].budget: must be a whole number from 1 to 6",
        ),
        (
            {"instance": "random", "n_arms": 6, "budget": 2, "low": "a"},
            "environments[0].low: must be a number, got 'a'",
        ),
        (
            {"instance": "random", "n_arms": 6, "budget": 2, "low": 0.9, "high": 0.1},
            "environments[0]: low and high must satisfy 0 <= low <= high <= 1, got 0.9 and 0.1",
        ),
        (
            {"instance": "random", "n_arms": 6, "budget": 2, "graph": "ring"},
            "environments[0].graph: must be one of cliques, erdos_renyi, full_information, semi_bandit, star, "
            "threshold, tournament, two_hubs, or a table with that as its family, got 'ring'",
        ),
        (
            {"instance": "random", "n_arms": 6, "budget": 2, "graph": {"size": 2}},
            "environments[0].graph: must be one of cliques",
        ),
        (
            {"instance": "random", "n_arms": 6, "budget": 2, "graph": {"family": "star", "size": 2}},
            "environments[0].graph.size: unknown key; accepted are family, n_arms, undirected",
        ),
        (
            {"instance": "random", "n_arms": 6, "budget": 2, "graph": {"family": "star", "n_arms": 5}},
            "environments[0].graph.n_arms: is given twice, as 6 and 5",
        ),
        (
            {"instance": "ucb_failure", "budget": 2, "alpha": 3, "noise": "loud", "horizon": 999},
            "environments[0].noise: must be one of deterministic, shared, independent, got 'loud'",
        ),
        ("ucb_failure:budget=2,alpha=3,horizon=20", "environments[0].horizon: must be at least alpha * width**2"),
        ("linear:n_arms=4,dimension=2,budget=5", "environments[0].budget: must be a whole number from 1 to 4, got 5"),
        ("linear:n_arms=4,budget=1", "environments[0].dimension: must be given; accepted are"),
        ({"instance": "linear", "n_arms": 4, "dimension": 2, "budget": 1, "norm": 2}, "environments[0].norm: must"),
        ("routing:layers=0,width=2", "environments[0].layers: must be a whole number from 1, got 0"),
        ({"instance": "assignment", "left": 2}, "environments[0].right: must be given; accepted are"),
        ("assignment:left=2,right=2,budget=2", "environments[0].budget: unknown key; accepted are"),
        ("tree:nodes=4,edges=9", "environments[0].edges: must be at most 6, got 9"),
        ({"instance": two_arms, "gap": "x", "budget": 1}, "environments[0].gap: must be a number, got 'x'"),
        (
            {"instance": two_arms, "gab": 1},
            "environments[0].gab: unknown key; accepted are instance, label, gap, budget,",
        ),
        ({"instance": two_arms}, "environments[0].budget: must be given: how many arms a decision has"),
        ({"instance": two_arms, "gap": 0.9, "budget": 1}, "environments[0]: means must"),
        ({"instance": matched, "left": 0}, "environments[0].left: must be a whole number from 1, got 0"),
        (
            {"instance": untold, "budget": 1, "any": 3},
            "environments[0]: seed must be an argument that fixes the rewards",
        ),
        ({"instance": raising, "budget": 1}, "environments[0]: its instance raised LookupError: no data"),
        ({"instance": First, "budget": 1}, "environments[0].graph: must be given"),
        ({"instance": dict, "budget": 1}, "environments[0]: no signature found for builtin type"),
        ({"instance": "json:loads2"}, "environments[0].instance: cannot import 'json:loads2': AttributeError"),
        (
            {"instance": "no_such_module:f"},
            "environments[0].instance: cannot import 'no_such_module:f': ModuleNotFound",
        ),
        ({"instance": "random", "n_arms": 6, "budget": 2, "label": 3}, "environments[0].label: must be text"),
        ([], "environments: must be a list of one or more, or a mapping from labels, got []"),
        (SMALL[:0], "environments[0]: unknown instance ''"),
    ],
)
def test_environment_that_is_wrong_is_named(entry: Any, says: str) -> None:
    text = refused([entry] if entry != [] else [], ["thompson", "c2ucb"] if "linear" in str(entry) else ["thompson"])
    assert says in text
    assert text.startswith(says.split(":")[0])


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        (
            "elim",
            "policies[0]: unknown policy 'elim'; accepted are guarded_thompson, comb_ucb1, elimination, greedy,",
        ),
        ({"policy": "elim"}, "policies[0].policy: unknown policy 'elim'; accepted are guarded_thompson,"),
        ({"delta": 1}, "policies[0].policy: must be given; accepted are guarded_thompson,"),
        (len, "policies[0].policy: got <built-in function len>; accepted are guarded_thompson,"),
        (CombUCB1(FeedbackGraph.semi_bandit(2), 1), "policies[0].policy: got CombUCB1("),
        ("elimination:delta=small", "policies[0].delta: must be a number, got 'small'"),
        ({"policy": "elimination", "delta": [0.1, 2]}, "policies[0].delta: must be a number strictly between 0 and 1"),
        (
            {"policy": "elimination", "intersect": "yes"},
            "policies[0].intersect: must be true or false or none, got 'yes'",
        ),
        (
            {"policy": "elimination", "variant": "loose"},
            "policies[0].variant: must be one of tight, paper, got 'loose'",
        ),
        (
            {"policy": "elimination", "budget": 2},
            "policies[0].budget: unknown key; accepted are policy, label, horizon,",
        ),
        (
            {"policy": "elimination", "horizon": "none", "variant": "paper"},
            "policies[0].horizon: must be given with the printed interval",
        ),
        ({"policy": "greedy", "reward_range": [[0.2, 1]]}, "policies[0].reward_range: must contain [0, 1]"),
        (
            {"policy": "greedy", "reward_range": [0, 1]},
            "policies[0].reward_range: must be a list, each a number, got 0",
        ),
        (
            "c2ucb",
            "environments[0]: no policy can play it; accepted are guarded_thompson, comb_ucb1, elimination, greedy,",
        ),
        ({"policy": Chosen, "how": "none"}, "policies[0].how: must be one of first, last, got 'none'"),
        ({"policy": Chosen, "weights": 3}, "policies[0].weights: must be a list, each a number, got 3"),
        (Broken, "policies[0]: in random:n_arms=6,budget=2: it raised LookupError: no model"),
    ],
)
def test_policy_that_is_wrong_is_named(entry: Any, says: str) -> None:
    assert re.sub(r"^\d+ problems\n  ", "", refused(policies=[entry])).startswith(says)


def test_policy_without_an_environment_is_named() -> None:
    says = "it can play in none of the environments; accepted are the instances"
    assert refused(policies=["greedy", "c2ucb"]).startswith(f"policies[1]: {says} linear,")
    assert refused(policies=["greedy", "constrained"]).startswith(f"policies[1]: {says} assignment,")
    assert refused(["linear:n_arms=4,dimension=2,budget=1"], ["c2ucb", First]).startswith(
        f"policies[1]: {says} random,"
    )
    assert refused(policies=["greedy", Closed]) == "policies[1]: its constructor must take budget or decisions by name"


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"horizon": 0}, "horizon: must be a whole number from 1, or a list of them, got 0"),
        ({"horizon": [10, 0]}, "horizon: must be a whole number from 1, or a list of them, got [10, 0]"),
        ({"horizon": []}, "horizon: must be a whole number from 1, or a list of them, got []"),
        ({"horizon": 2**60}, "horizon: must be a whole number from 1, or a list of them, got"),
        ({"horizon": {10}}, "horizon: must be made of numbers, text"),
        ({"replications": "many"}, "replications: must be a whole number from 1, got 'many'"),
        ({"seed": -1}, "seed: must be a whole number from 0, or none, got -1"),
        ({"name": ""}, "name: must be text, got ''"),
        ({"block": 1.5}, "block: must be a whole number from 1 to 1,000,000, got 1.5"),
        ({"redraw": 1}, "redraw: must be true or false, got 1"),
        ({"certificate": 1}, "certificate: must be true, false or a number strictly between 0 and 1, got 1"),
        ({"certificate": "yes"}, "certificate: must be true, false or a number strictly between 0 and 1, got 'yes'"),
        ({"checkpoints": [10, 5]}, "checkpoints: must rise from 1 or more to at most the horizon 40, got [10, 5]"),
        ({"checkpoints": [10, 50]}, "checkpoints: must rise from 1 or more to at most the horizon 40, got [10, 50]"),
    ],
)
def test_setting_that_is_wrong_is_named(settings: dict[str, Any], says: str) -> None:
    assert refused(**settings).startswith(says)


def test_all_problems_are_told_at_once() -> None:
    text = refused(
        [SMALL, "random:n_arms=5,budget=9", "assignment:left=2", {"instance": two_arms, "gap": "x", "budget": 1}],
        ["greedy", "elim", {"policy": "elimination", "delta": 3}],
        replications=0,
    )
    assert re.findall(r"^  ([^:]+):", text, re.M) == [
        "replications",
        "policies[1]",
        "environments[2].right",
        "environments[3].gap",
        "policies[2].delta",
        "environments[1].budget",
    ]
    assert text.startswith("6 problems\n")


def test_same_thing_twice_is_refused() -> None:
    same = {"instance": "random", "n_arms": 6, "budget": 2, "low": 0.0, "label": "again"}
    assert refused([SMALL, same]) == f"environments[1]: 'again' is the same as environments[0], {SMALL!r}"
    assert refused(policies=["greedy", "greedy"]) == "policies[1]: 'greedy' is the same as policies[0], 'greedy'"
    twin = [{"policy": "elimination", "delta": delta, "label": "A"} for delta in (0.1, 0.2)]
    assert refused(policies=twin) == "policies[1]: label 'A' is that of policies[0]; give another one"


def test_pinned_seed_is_not_redrawn() -> None:
    assert refused([f"{SMALL},seed=3"], redraw=True).startswith("environments[0].seed: must not be given with redraw")
    assert made([f"{SMALL},seed=3"]).cells[0].environment_seed(0) == 3


def test_file_that_is_no_toml_is_told_by_its_line(tmp_path: Path) -> None:
    file = tmp_path / "bad.toml"
    file.write_text('horizon = 10\nname = "a\n')
    with pytest.raises(ValueError, match=r"bad\.toml is not a TOML file: .*line 2"):
        Experiment.from_file(file)
    file.write_bytes(b'name = "\xff"')
    with pytest.raises(ValueError, match=r"bad\.toml is not a TOML file"):
        Experiment.from_file(file)


DEEP = 100_000


@pytest.mark.parametrize(
    "text",
    [
        "a = " + "[" * DEEP + "]" * DEEP,
        "a = " + "{ a = " * DEEP + "1" + " }" * DEEP,
        ".".join("a" * 5_000) + " = 1",
        'policies = ["greedy"]\n[[environments]]\ninstance = "random"\n' + ".".join(["graph"] * 5_000) + " = 1",
    ],
    ids=["lists", "tables", "keys", "options"],
)
def test_file_that_is_nested_too_deeply_is_refused(text: str, tmp_path: Path) -> None:
    file = tmp_path / "deep.toml"
    file.write_text(f"horizon = 10\n{text}\n")
    with pytest.raises(ValueError, match=r"deep\.toml") as caught:
        Experiment.from_file(file)
    assert len(str(caught.value)) < 1_000


def test_definition_that_is_nested_too_deeply_is_refused() -> None:
    deep: Any = 1
    for _ in range(DEEP):
        deep = [deep]
    for environment in (deep, {"instance": "random", "n_arms": deep, "budget": 2}):
        assert "nested too deeply" in refused([environment])


def test_code_of_a_file_is_refused_or_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    file = tmp_path / "own.toml"
    file.write_text(
        f'horizon = 20\nenvironments = ["{SMALL}"]\n'
        'policies = ["greedy", { policy = "experiments.small_cells:First" }]\n'
    )
    with pytest.raises(ValueError, match="small_cells:First' is code, which a file runs only if you say"):
        Experiment.from_file(file)
    assert len(Experiment.from_file(file, code=True).cells) == 8


STARS = {"instance": "star", "n_leaves": [2] * 1000, "gap": [0.1] * 1001}


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"replications": 10**12}, "1 environments, 1 policies, 250,000,000,000 blocks of replications make 250,000"),
        ({"horizon": list(range(1, 1002)), "policies": [{"policy": "ucb", "delta": [0.1] * 1000}]}, "1,001,000 cells"),
        ({"environments": [{"instance": "linear", "norm": [0.5] * 1000, "n_arms": [1] * 1001}]}, "1,001,000 cells"),
        ({"environments": [{"instance": two_arms, "gap": [0.1] * 1000, "seed": [1] * 1001}]}, "1,001,000 cells"),
        ({"policies": [], "environments": [STARS]}, "1,001,000 cells"),
        ({"horizon": "x", "environments": [STARS]}, "4,004,000 cells"),
        ({"max_cells": 0}, "max_cells: must be a whole number from 1, got 0"),
        ({"block": 10**12}, "block: must be a whole number from 1 to 1,000,000, got 1000000000000"),
        ({"checkpoints": 10**9}, "checkpoints: must be a whole number from 1 to 1,000,000, or a list of rounds"),
    ],
)
def test_experiment_that_is_too_large_is_refused_with_its_size(given: dict[str, Any], says: str) -> None:
    assert says in refused(**given)


def test_limit_of_cells_can_be_raised_and_lowered() -> None:
    assert made(replications=4_000_004, max_cells=1_000_001).definition["max_cells"] == 1_000_001
    assert "2 cells, more than 1" in refused(replications=8, max_cells=1)


def test_kinds_that_do_not_meet_are_not_counted() -> None:
    environments = [{"instance": "random", "n_arms": [4, 5], "budget": 2}, "linear:n_arms=4,dimension=2,budget=2"]
    assert len(made(environments, ["greedy", "thompson", "c2ucb"], max_cells=5).cells) == 5


def test_file_with_problems_is_named(tmp_path: Path) -> None:
    file = tmp_path / "bad.toml"
    file.write_text('horizon = 10\nenvironment = ["random:n_arms=3,budget=1"]\npolicies = ["greedy"]\n')
    with pytest.raises(ValueError) as caught:
        Experiment.from_file(file)
    text = str(caught.value)
    assert text.startswith(
        f"{file}: 2 problems\n  environment: unknown key; accepted are environments, policies, horizon,"
    )
    assert "environments: must be a list" in text


@pytest.mark.parametrize("library", ["polars", "pydantic"])
def test_missing_library_is_said(library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    for name in ("definition", "rehearsal"):
        monkeypatch.delitem(sys.modules, f"armtriage.experiments.{name}", raising=False)
    with pytest.raises(ImportError, match=r"pip install 'armtriage\[experiments\]'"):
        made()


def test_plan_counts_what_is_done(tmp_path: Path) -> None:
    experiment = made([SMALL, "star:n_leaves=3"], ["thompson"], block=2)
    plan = experiment.plan(tmp_path / "none")
    assert (plan.cells, plan.done, plan.missing) == (4, 0, 4)
    assert not (tmp_path / "none").exists()
    assert plan.seconds > 0
    experiment.run(tmp_path, engine="serial")
    next((tmp_path / "cells").iterdir()).unlink()
    plan = experiment.plan(tmp_path)
    assert (plan.cells, plan.done, plan.missing) == (4, 3, 1)
    assert sorted(row.missing for row in plan.rows) == [0, 1]
    assert str(plan).startswith("4 cells, 3 done, 1 missing; time on one processor:")


def test_plan_goes_by_earlier_plays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    experiment = made(policies=["greedy", "thompson"], block=1)
    experiment.run(tmp_path, engine="serial")
    monkeypatch.setattr(planning, "_probe", lambda cell: pytest.fail("played"))
    records = Folder(tmp_path).records()
    mean = {
        name: np.mean([one["seconds"] for one in records if one["policy"] == name]) for name in ("greedy", "thompson")
    }
    for one in (tmp_path / "cells").iterdir():
        one.unlink()
    assert {row.policy: row.seconds for row in experiment.plan(tmp_path).rows} == pytest.approx(
        {name: 4 * seconds for name, seconds in mean.items()}
    )


def test_plan_tries_each_policy_and_few_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[str] = []

    def probe(cell: Any) -> float:
        tried.append(cell.policy.label)
        return {"greedy": 1.0, "random": 2.0}[cell.policy.label] * cell.environment.horizon

    monkeypatch.setattr(planning, "_probe", probe)
    environments = {"instance": "random", "n_arms": list(range(4, 54)), "budget": 2, "horizon": [20, 40]}
    plan = made([environments], ["greedy", "random"]).plan()
    assert [tried.count(name) for name in ("greedy", "random")] == [32, 32]
    assert plan.seconds == pytest.approx(4 * 50 * (20 + 40) * (1.0 + 2.0))


@pytest.mark.parametrize(
    "one",
    [
        (SMALL, "greedy"),
        ("linear:n_arms=4,dimension=2,budget=1", "c2ucb"),
        ("star:n_leaves=3", "thompson"),
        (SMALL, First),
    ],
)
def test_time_is_taken_of_every_kind(one: tuple[Any, Any]) -> None:
    assert made([one[0]], [one[1]]).plan().seconds > 0


def test_pair_that_fails_takes_no_time() -> None:
    assert made(policies=[Raising]).plan().seconds == 0


@pytest.mark.parametrize("parts", [1, 2, 5])
def test_parts_are_the_whole(parts: int, tmp_path: Path) -> None:
    experiment = made(policies=["greedy", "thompson"], block=1)
    for place in range(1, parts + 1):
        shard = place, parts
        planned = experiment.plan(tmp_path, shard=shard)
        before = Results.load(tmp_path).missing if place > 1 else len(experiment.cells)
        results = experiment.run(tmp_path, shard=shard, engine="serial")
        assert (planned.done, planned.missing) == (0, before - results.missing)
    assert results.missing == 0
    assert results.regret.equals(experiment.run(engine="serial").regret)


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"shard": (0, 2)}, ValueError, "i of shard must be a whole number from 1"),
        ({"shard": (3, 2)}, ValueError, "i of shard must be at most 2"),
        ({"shard": (1, 0)}, ValueError, "n of shard must be a whole number from 1"),
        ({"shard": 3}, TypeError, r"shard must be two whole numbers, \(i, n\), got 3"),
        ({"engine": "warp"}, ValueError, "engine must be one of auto, serial, threads, processes, ray, got 'warp'"),
        ({"workers": 0}, ValueError, "workers must be a whole number from 1, got 0"),
    ],
)
def test_refused_run_writes_nothing(options: dict[str, Any], error: type, says: str, tmp_path: Path) -> None:
    with pytest.raises(error, match=says):
        made().run(tmp_path / "new", **options)
    assert not (tmp_path / "new").exists()


def test_progress_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told: list[tuple[int, int, int]] = []
    experiment = made(policies=["greedy", Raising], replications=4, block=2)
    experiment.run(tmp_path, engine="serial", progress=lambda *counts: told.append(counts))
    assert told == [(0, 0, 4), (1, 0, 4), (2, 0, 4), (3, 1, 4), (4, 2, 4)]
    told.clear()
    experiment.run(tmp_path, engine="serial", progress=lambda *counts: told.append(counts))
    assert told == [(2, 0, 4), (3, 1, 4), (4, 2, 4)]
    experiment.run(tmp_path, engine="serial", progress=True)
    assert capsys.readouterr().err == ""


def test_bar_is_shown_on_a_terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    made(policies=["greedy", Raising]).run(engine="serial", progress=True)
    assert re.search(r"2/2.*cells, 1 failed, \S+ a second", capsys.readouterr().err)


def test_experiment_says_what_it_is() -> None:
    assert repr(made(name="look")) == "Experiment 'look': 1 environments, 1 policies, 1 cells, seed 7"


def test_example_is_right() -> None:
    experiment = Experiment.from_file(ROOT / "examples" / "experiment.toml")
    assert len(experiment.environments) == 15
    assert labels(experiment.policies) == ["elimination", "UCB of the paper", "CombUCB1", "Thompson"]
    assert experiment.plan().missing == len(experiment.cells) == 240
