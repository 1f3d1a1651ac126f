"""The command `simulate`: what it prints is what the library returns, and bad input is named."""

import json
import re

import numpy as np
import pytest
from typer.testing import CliRunner

from armtriage import (
    C2UCB,
    CombinatorialElimination,
    CombUCB1,
    ConstrainedElimination,
    FeedbackGraph,
    HierarchicalElimination,
    LinearThompsonSampling,
    Matchings,
    PartitionMatroid,
    ThompsonSampling,
    __version__,
    policies,
    simulate,
)
from armtriage.catalogue import DEFAULT_POLICIES, INSTANCES, POLICIES, names
from armtriage.cli import app
from armtriage.instances import (
    FAMILIES,
    gap_instance,
    hidden_arm,
    hidden_pairs,
    hidden_parts,
    hub_family,
    linear_blocks,
    linear_few_dimensions,
    linear_one_dimension,
    long_decisions,
    partition,
    random_bernoulli,
    random_constrained,
    random_linear,
    revealing_hubs,
    star,
    ucb_failure,
)
from armtriage.theory import independent_set

SMALL = "random:graph=cliques,n_arms=6,size=2,budget=2"
LINEAR = "linear:n_arms=6,dimension=3,budget=2,norm=0.5"
JOBS = "assignment:left=2,right=3"
CLIQUES = FeedbackGraph.cliques([2] * 4)
QUICK = ["--horizon", "200", "--replications", "3", "--seed", "7"]


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def refused(*arguments):
    result = run(*arguments)
    assert result.exit_code == 2, result.output
    assert isinstance(result.exception, SystemExit)
    assert result.stdout == ""
    return result.stderr


def test_help_names_everything():
    text = run("simulate", "--help").stdout
    assert all(name in text for name in (*POLICIES, *INSTANCES, "cliques", "erdos_renyi"))


def test_every_policy_has_a_short_name():
    named = {kind.__name__ for kind in POLICIES.values()}
    assert named <= {name for name in dir(policies) if name[0].isupper()}


def test_every_policy_is_a_default_or_can_be_named():
    text = run("simulate", "--help").stdout
    assert set(names("contexts")) == set(DEFAULT_POLICIES["contexts"])
    assert all(set(played) <= set(names(kind)) for kind, played in DEFAULT_POLICIES.items())
    assert {name for kind in DEFAULT_POLICIES for name in names(kind)} == set(POLICIES)
    assert names("decisions") == ("guarded_thompson", "comb_ucb1", "kl_ucb", "thompson", "constrained")
    assert "constrained" not in names("budget")
    assert "linear:n_arms=K,dimension=D,budget=S" in text


def test_json_is_what_simulate_returns():
    result = run("simulate", SMALL, "comb_ucb1", "elimination:variant=paper,delta=0.05", *QUICK, "--json")
    assert result.exit_code == 0, result.output
    said = json.loads(result.stdout)
    assert (said["version"], said["instance"], said["horizon"], said["seed"]) == (__version__, SMALL, 200, 7)
    env = random_bernoulli(FeedbackGraph.cliques([2, 2, 2]), seed=7)
    direct = [
        CombUCB1(env.graph, 2),
        CombinatorialElimination(env.graph, 2, horizon=200, variant="paper", delta=0.05),
    ]
    for facts, policy in zip(said["policies"], direct, strict=True):
        trace = simulate(policy, env, horizon=200, replications=3, seed=7)
        assert facts["checkpoints"] == {"rounds": trace.rounds.tolist(), "mean": trace.mean.tolist()}
        assert facts["mean"] == trace.mean[-1]
        low, high = trace.interval()
        assert facts["interval"] == {"level": 0.95, "low": low[-1], "high": high[-1]}
        assert facts["policy"] == type(policy).__name__
        assert facts["seconds"] > 0
    assert said["policies"][1]["options"]["delta"] == 0.05
    assert said["policies"][1]["options"]["horizon"] == 200


def test_the_failure_instance_takes_the_horizon():
    spec = "ucb_failure:budget=2,alpha=3,n_arms=8,noise=shared"
    said = json.loads(run("simulate", spec, "comb_ucb1", "--horizon", 2000, "--seed", 3, "--json").stdout)
    env = ucb_failure(2, 3, horizon=2000, n_arms=8, noise="shared", seed=3)
    trace = simulate(CombUCB1(env.graph, 2), env, horizon=2000, replications=16, seed=3)
    assert said["policies"][0]["mean"] == trace.mean[-1]


@pytest.mark.parametrize(
    ("spec", "env"),
    [
        (
            "gap_instance:graph=cliques,n_arms=8,size=2,budget=2,gap=0.2,spread=true",
            lambda: gap_instance(CLIQUES, 2, 0.2, spread=True, seed=7),
        ),
        (
            "revealing_hubs:n_arms=9,n_hubs=2,budget=2,gap=0.3,hub_mean=0.2",
            lambda: revealing_hubs(9, 2, 2, 0.3, hub_mean=0.2, seed=7),
        ),
        (
            "hidden_arm:graph=cliques,n_arms=8,size=2,budget=2,gap=0.1,hidden=2",
            lambda: hidden_arm(CLIQUES, 2, independent=independent_set(CLIQUES), gap=0.1, hidden=2, seed=7),
        ),
        (
            "hidden_pairs:graph=full_information,n_arms=5,budget=2,gap=0.2",
            lambda: hidden_pairs(FeedbackGraph.full_information(5), 2, gap=0.2, seed=7),
        ),
        (
            "hidden_parts:n_arms=7,budget=2",
            lambda: hidden_parts(FeedbackGraph.semi_bandit(7), 2, independent=range(7), horizon=200, seed=7),
        ),
    ],
)
def test_instances_of_gaps_are_those_of_the_library(spec, env):
    result = run("simulate", spec, "thompson", *QUICK, "--json")
    assert result.exit_code == 0, result.output
    trace = simulate(ThompsonSampling(env().graph, 2), env(), horizon=200, replications=3, seed=7)
    assert json.loads(result.stdout)["policies"][0]["mean"] == trace.mean[-1]


@pytest.mark.parametrize(
    ("spec", "env", "budget"),
    [
        (LINEAR, lambda: random_linear(6, 3, norm=0.5, seed=7), 2),
        (
            "linear:n_arms=5,dimension=2,budget=1,norm=0.3,contexts=cube,reward=uniform,half_width=0.2,noise=shared",
            lambda: random_linear(
                5, 2, norm=0.3, contexts="cube", reward="uniform", half_width=0.2, noise="shared", seed=7
            ),
            1,
        ),
        ("linear_blocks:dimension=6,budget=1,n_arms=4", lambda: linear_blocks(6, 1, horizon=200, n_arms=4, seed=7), 1),
        (
            "linear_few_dimensions:dimension=3,budget=2,variant=printed",
            lambda: linear_few_dimensions(3, 2, horizon=200, variant="printed", seed=7),
            2,
        ),
        (
            "linear_one_dimension:budget=3,sign=-1,horizon=900",
            lambda: linear_one_dimension(3, horizon=900, sign=-1, seed=7),
            3,
        ),
    ],
)
def test_linear_instances_are_those_of_the_library(spec, env, budget):
    chosen = ["hierarchical:variant=paper", "c2ucb:noise_scale=0.2", "linear_thompson:noise_scale=0.3"]
    result = run("simulate", spec, *chosen, *QUICK, "--json")
    assert result.exit_code == 0, result.output
    said, made = json.loads(result.stdout), env()
    sizes = made.n_arms, made.dimension, budget
    direct = [
        HierarchicalElimination(*sizes, horizon=200, variant="paper"),
        C2UCB(*sizes, noise_scale=0.2),
        LinearThompsonSampling(*sizes, noise_scale=0.3),
    ]
    for facts, policy in zip(said["policies"], direct, strict=True):
        trace = simulate(policy, made, horizon=200, replications=3, seed=7)
        assert facts["checkpoints"] == {"rounds": trace.rounds.tolist(), "mean": trace.mean.tolist()}
        assert facts["policy"] == type(policy).__name__
        assert (facts["options"]["budget"], facts["options"]["dimension"]) == (budget, made.dimension)
        assert facts["committed"] == 0.0
    assert said["policies"][1]["options"]["noise_scale"] == 0.2


def test_linear_instances_have_policies_of_their_own_by_default():
    result = run("simulate", LINEAR, *QUICK)
    assert result.exit_code == 0, result.output
    shown = re.findall(r"│ (\w+) ", result.stdout)
    assert shown == ["guarded_linear", "c2ucb", "linear_thompson", "hierarchical"]
    assert "6 arms in dimension 3, 2 slots, 200 rounds, 3 runs, seed 7" in result.stdout


@pytest.mark.parametrize(
    ("spec", "env"),
    [
        (JOBS, lambda: random_constrained(Matchings(2, 3), seed=7)),
        (
            "categories:groups=2,size=3,capacity=2,low=0.2,high=0.8,graph=cliques",
            lambda: random_constrained(
                PartitionMatroid([0, 0, 0, 1, 1, 1], 2), low=0.2, high=0.8, graph=FeedbackGraph.cliques([3, 3]), seed=7
            ),
        ),
        ("routing:layers=2,width=2", lambda: random_constrained(FAMILIES["routing"](layers=2, width=2), seed=7)),
        ("tree:nodes=4,edges=5", lambda: random_constrained(FAMILIES["tree"](nodes=4, edges=5, seed=7), seed=7)),
        (
            "tree:nodes=4,edges=5,seed=1,graph=erdos_renyi,p=0.5",
            lambda: random_constrained(
                FAMILIES["tree"](nodes=4, edges=5, seed=1), graph=FeedbackGraph.erdos_renyi(5, 0.5, 1), seed=7
            ),
        ),
        ("partition:n_arms=6,budget=2,gap=0.2,shared=false", lambda: partition(6, 2, gap=0.2, shared=False, seed=7)),
        ("grid:rows=2,columns=3", lambda: random_constrained(FAMILIES["grid"](rows=2, columns=3), seed=7)),
        (
            "knapsack:items=5,capacity=40",
            lambda: random_constrained(FAMILIES["knapsack"](items=5, capacity=40, seed=7), seed=7),
        ),
        ("long_decisions:size=3,other=0.5", lambda: long_decisions(3, other=0.5, seed=7)),
        ("hub_family", lambda: hub_family(seed=7)),
        ("star:n_leaves=4,gap=0.1", lambda: star(4, gap=0.1, seed=7)),
    ],
)
def test_instances_with_decision_sets_are_those_of_the_library(spec, env):
    chosen = ["constrained", "constrained:variant=paper,cover=greedy,delta=0.1", "comb_ucb1", "kl_ucb", "thompson"]
    result = run("simulate", spec, *chosen, *QUICK, "--json")
    assert result.exit_code == 0, result.output
    said, made = json.loads(result.stdout), env()
    rules = made.graph, made.decisions
    direct = {
        0: ConstrainedElimination(*rules, horizon=200),
        1: ConstrainedElimination(*rules, horizon=200, variant="paper", cover="greedy", delta=0.1),
        2: CombUCB1(made.graph, decisions=made.decisions),
        4: ThompsonSampling(made.graph, decisions=made.decisions),
    }
    for place, policy in direct.items():
        facts = said["policies"][place]
        trace = simulate(policy, made, horizon=200, replications=3, seed=7)
        assert facts["checkpoints"] == {"rounds": trace.rounds.tolist(), "mean": trace.mean.tolist()}
        assert facts["policy"] == type(policy).__name__
        assert facts["options"]["decisions"] == repr(made.decisions)


def test_instances_with_decision_sets_have_policies_of_their_own_by_default():
    result = run("simulate", JOBS, *QUICK)
    assert result.exit_code == 0, result.output
    assert re.findall(r"│ (\w+) ", result.stdout) == ["guarded_thompson", "constrained", "comb_ucb1", "thompson"]
    assert "6 arms, Matchings of at most 2 arms, 200 rounds, 3 runs, seed 7" in result.stdout


def test_a_random_network_is_connected_and_has_no_edge_twice():
    for nodes, edges in ((2, 1), (6, 5), (6, 15), (30, 100)):
        for seed in range(5):
            made = FAMILIES["tree"](nodes=nodes, edges=edges, seed=seed)
            assert len({frozenset(edge) for edge in made.edges.tolist()}) == made.n_arms == edges
            assert made.edges.min() >= 0
    again = [FAMILIES["tree"](nodes=30, edges=100, seed=seed) for seed in (1, 1, 2)]
    assert again[0] == again[1] != again[2]


def test_a_layered_network_has_every_route():
    routes = FAMILIES["routing"](layers=3, width=4)
    assert (routes.n_arms, routes.size, routes.count()) == (2 * 4 + 2 * 16, 4, 4**3)
    assert FAMILIES["routing"](layers=1, width=2).count() == 2


def test_random_means_over_decisions_come_from_the_seed():
    graph = FeedbackGraph.cliques([3, 3])
    env = random_constrained(Matchings(2, 3), low=0.2, high=0.6, graph=graph, seed=11)
    assert np.array_equal(env.means, np.random.default_rng(11).uniform(0.2, 0.6, 6))
    assert (env.seed, env.graph, env.decisions) == (11, graph, Matchings(2, 3))
    assert random_constrained(Matchings(2, 3)).graph == FeedbackGraph.semi_bandit(6)


@pytest.mark.parametrize(
    ("decisions", "options", "error", "says"),
    [
        (3, {}, TypeError, "decisions must be a DecisionSet, got int"),
        (Matchings(2, 3), {"graph": 6}, TypeError, "graph must be a FeedbackGraph, got int"),
        (Matchings(2, 3), {"graph": FeedbackGraph.semi_bandit(5)}, ValueError, "the 5 arms of graph, got 6"),
        (Matchings(2, 3), {"low": 0.7, "high": 0.6}, ValueError, "low and high must satisfy"),
    ],
)
def test_random_over_decisions_refuses(decisions, options, error, says):
    with pytest.raises(error, match=says):
        random_constrained(decisions, **options)


def test_one_replication_has_no_interval():
    arguments = ["simulate", SMALL, "greedy", "--horizon", 50, "--replications", 1]
    interval = json.loads(run(*arguments, "--json").stdout)["policies"][0]["interval"]
    assert interval["low"] is interval["high"] is None
    assert "one run: none" in run(*arguments).stdout


def test_table_shows_every_policy_and_the_seed():
    result = run("simulate", SMALL, *QUICK)
    assert result.exit_code == 0, result.output
    words = re.findall(r"\w+", result.stdout)
    assert re.findall(r"│ (\w+) ", result.stdout) == ["guarded_thompson", "elimination", "comb_ucb1", "thompson"]
    assert {"committed", "seed"} <= set(words)


@pytest.mark.parametrize(
    "spec",
    [
        "random:n_arms=5,budget=2",
        "random:graph=full_information,n_arms=5,budget=2,low=0.2,high=0.4,reward=uniform",
        "random:graph=erdos_renyi,n_arms=9,p=0.3,budget=2,directed=false",
        "random:graph=threshold,n_arms=5,direction=down,budget=1",
        "random:graph=star,n_arms=5,undirected=false,budget=1",
        "random:graph=tournament,n_arms=6,budget=2",
        "random:graph=two_hubs,n_arms=7,budget=2",
    ],
)
def test_random_instances(spec):
    said = [json.loads(run("simulate", spec, "comb_ucb1", *QUICK, "--json").stdout) for _ in range(2)]
    assert said[0]["policies"][0]["mean"] == said[1]["policies"][0]["mean"]


@pytest.mark.parametrize("ending", ["png", "svg"])
@pytest.mark.parametrize(("spec", "name"), [(SMALL, "comb_ucb1"), (LINEAR, "c2ucb")])
def test_plot_writes_the_file(tmp_path, spec, name, ending):
    file = tmp_path / f"curves.{ending}"
    result = run("simulate", spec, name, *QUICK, "--plot", file)
    assert result.exit_code == 0, result.output
    assert file.read_bytes()[:8].startswith(b"\x89PNG" if ending == "png" else b"<?xml")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["randm:n_arms=5"], "unknown instance 'randm'; accepted are random, rewards, rates, ucb_failure, hidden_arm"),
        (["random:graph=ring,n_arms=5,budget=2"], "unknown graph 'ring'; accepted are cliques, erdos_renyi"),
        (["random:n_arms=5"], "budget must be given; accepted are graph, n_arms, budget, low, high, reward"),
        (["random:n_arms=5,budget=2,size=2"], "unknown option 'size'; accepted are graph, n_arms, budget"),
        (["random:n_arms=5,budget"], "options are written key=value and parted by commas, got 'budget'"),
        (["random:n_arms=5,n_arms=6,budget=2"], "n_arms is given twice"),
        (["random:n_arms=many,budget=2"], "n_arms must be a whole number, got 'many'"),
        (["random:n_arms=5,budget=9"], "budget must be a whole number from 1 to 5, got 9"),
        (["random:n_arms=5,budget=2,high=2"], "low and high must satisfy"),
        (["random:graph=star,n_arms=5,budget=2,undirected=perhaps"], "undirected must be true or false"),
        (["hidden_arm:n_arms=5,budget=2"], "gap must be given; accepted are graph, n_arms, budget, gap, hidden"),
        (["hidden_arm:n_arms=3,budget=2,gap=0.1"], "independent must have at least 2 * budget = 4 arms, got 3"),
        (["ucb_failure:budget=2"], "alpha must be given; accepted are budget, alpha"),
        (["ucb_failure:budget=9,alpha=9", "--horizon", "10"], "horizon must be at least alpha * width**2"),
        ([SMALL, "ucb9"], "unknown policy 'ucb9'; accepted are guarded_thompson, comb_ucb1, elimination"),
        (
            [SMALL, "elimination:variety=paper"],
            "unknown option 'variety'; accepted are horizon, delta, variant",
        ),
        ([SMALL, "greedy:delta=1"], "unknown option 'delta'; accepted are none"),
        ([SMALL, "elimination:delta=small"], "delta must be a number, got 'small'"),
        ([SMALL, "elimination:delta=2"], "delta must be a number strictly between 0 and 1, got 2.0"),
        (
            [SMALL, "elimination:horizon=none,variant=paper"],
            "horizon must be given with the printed interval",
        ),
        (
            [SMALL, "c2ucb:width=1"],
            "c2ucb:width=1: needs an instance with contexts (linear, slates, linear_blocks, linear_few_dimensions, "
            "linear_one_dimension); policies for this instance are guarded_thompson, comb_ucb1, elimination, greedy,",
        ),
        (
            [LINEAR, "elimination"],
            "elimination: needs an instance without contexts (random, rewards, rates, ucb_failure, hidden_arm, "
            "hidden_pairs, hidden_parts, gap_instance, revealing_hubs); policies for this instance are "
            "guarded_linear, c2ucb, hierarchical, linear_thompson",
        ),
        ([LINEAR, "random"], "random: needs an instance without contexts"),
        ([LINEAR, "ucb9"], "unknown policy 'ucb9'; accepted are guarded_linear, c2ucb, hierarchical, linear_thompson"),
        ([LINEAR, "c2ucb:n_arms=3"], "unknown option 'n_arms'; accepted are delta, width, ridge, noise_scale"),
        ([LINEAR, "c2ucb:noise_scale=-1"], "c2ucb:noise_scale=-1: noise_scale must be"),
        (
            [LINEAR, "hierarchical:variant=paper,noise_scale=0.5"],
            "noise_scale is for variant='tight' and must be None here",
        ),
        (["linear:n_arms=6,dimension=3"], "budget must be given; accepted are n_arms, dimension, norm"),
        (["linear:n_arms=6,budget=3"], "dimension must be given"),
        (["linear:n_arms=6,dimension=3,budget=7"], "guarded_linear: budget must be a whole number from 1 to 6, got 7"),
        (["linear:n_arms=6,dimension=3,budget=2,reward=uniform"], "norm must be below 1"),
        (["linear_blocks:dimension=9,budget=5"], "dimension must exceed 2 * budget = 10"),
        (["linear_few_dimensions:dimension=9,budget=2"], "dimension must be from 2 to 2 * budget = 4"),
        (["linear_one_dimension:budget=9", "--horizon", "10"], "horizon must be at least 4 * dimension * budget = 36"),
        (["linear_one_dimension:budget=2,sign=2"], "sign must be 1 or -1, got 2"),
        (
            [JOBS, "elimination"],
            "elimination: needs an instance without a set of decisions (random, rewards, rates, ucb_failure, "
            "hidden_arm, hidden_pairs, hidden_parts, gap_instance, revealing_hubs); "
            "policies for this instance are guarded_thompson, comb_ucb1, kl_ucb, thompson, constrained",
        ),
        (
            [JOBS, "greedy"],
            "greedy: needs an instance without a set of decisions (random, rewards, rates, ucb_failure, hidden_arm",
        ),
        ([JOBS, "c2ucb"], "c2ucb: needs an instance with contexts (linear, slates, linear_blocks"),
        ([JOBS, "ucb9"], "unknown policy 'ucb9'; accepted are guarded_thompson, comb_ucb1, kl_ucb, thompson"),
        ([JOBS, "constrained:cover=none"], "cover must be one of exact, greedy, got 'none'"),
        ([JOBS, "constrained:decisions=3"], "unknown option 'decisions'; accepted are horizon, delta, variant, cover"),
        (
            [SMALL, "constrained"],
            "constrained: needs an instance with a set of decisions (assignment, categories, grid, knapsack, "
            "routing, tree, partition, long_decisions, hub_family, star); policies for this instance are "
            "guarded_thompson, comb_ucb1, elimination,",
        ),
        ([LINEAR, "constrained"], "constrained: needs an instance without contexts (assignment, categories"),
        (
            [LINEAR, "kl_ucb"],
            "kl_ucb: needs an instance without contexts (random, rewards, rates, ucb_failure, hidden_arm",
        ),
        (["assignment:left=2"], "right must be given; accepted are graph, left, right, low, high"),
        (["assignment:left=2,right=3,budget=2"], "unknown option 'budget'; accepted are graph, left, right"),
        (["assignment:left=2,right=3,graph=ring"], "unknown graph 'ring'; accepted are cliques"),
        (["assignment:left=2,right=3,graph=erdos_renyi"], "p must be given; accepted are graph, p, directed, seed"),
        (["routing:layers=0,width=3"], "layers must be a whole number from 1, got 0"),
        (["routing:layers=3,width=9999"], "layers and width must make at most 10000000 edges, got 199980000"),
        (["tree:nodes=4,edges=2"], "edges must be at least nodes - 1 = 3, got 2"),
        (["tree:nodes=4,edges=7"], "edges must be at most 6, got 7"),
        (["categories:groups=3,size=2,capacity=3"], "capacity must be at most 2, got 3"),
        (["categories:groups=9999,size=9999"], "groups times size must be at most 10000000, got 99980001"),
        (["partition:n_arms=5,budget=2,gap=0.1"], "n_arms must be a multiple of budget"),
        (["hub_family:budget=2"], "unknown option 'budget'; accepted are best, other, hub"),
        ([SMALL, "--horizon", "0"], "horizon must be a whole number from 1"),
        ([SMALL, "--replications", "0"], "replications must be a whole number from 1, got 0"),
        ([SMALL, "--workers", "0"], "workers must be a whole number from 1, got 0"),
        ([SMALL, "--seed", "-3"], "seed must be a whole number from 0"),
        ([SMALL, "--plot", "curves.docx"], "must end in .png, .svg or .pdf, got 'curves.docx'"),
        ([SMALL, "--plot", "no/such/folder/a.png"], "folder must exist"),
    ],
)
def test_bad_input_is_named_without_a_traceback(arguments, says):
    text = refused("simulate", *arguments)
    assert says in text
    assert "Traceback" not in text
