"""The command `simulate`: policies against an instance, as a table or as JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from armtriage.catalogue import (
    DEFAULT_POLICIES,
    INSTANCES,
    POLICIES,
    Refusal,
    kind_of,
    make_instance,
    make_policy,
    names,
)
from armtriage.cli.terminal import AsJson, offering, print_json, progress_bar, refusing, say
from armtriage.environments import LinearEnvironment
from armtriage.instances import GRAPHS
from armtriage.kernels.random import check_seed
from armtriage.simulation.comparison import compare, facts, table

_GRAPH_HELP = f"graph is one of {', '.join(GRAPHS)}"
_INSTANCE_HELP = f"NAME:key=value,... with NAME one of {', '.join(INSTANCES)}; where it is asked for, {_GRAPH_HELP}."
_POLICY_HELP = (
    f"NAME or NAME:key=value,... with NAME one of {', '.join(names('budget'))} (by default "
    f"{' '.join(DEFAULT_POLICIES['budget'])}), on linear instances {', '.join(names('contexts'))} (by default "
    f"{' '.join(DEFAULT_POLICIES['contexts'])}), or with sets of decisions {', '.join(names('decisions'))} (by default "
    f"{' '.join(DEFAULT_POLICIES['decisions'])})."
)


def simulate(
    instance: Annotated[
        str, typer.Argument(help=_INSTANCE_HELP, metavar="INSTANCE", autocompletion=offering(INSTANCES))
    ],
    policies: Annotated[
        list[str] | None, typer.Argument(help=_POLICY_HELP, metavar="POLICY...", autocompletion=offering(POLICIES))
    ] = None,
    horizon: Annotated[int, typer.Option(help="Rounds in a replication.")] = 10_000,
    replications: Annotated[int, typer.Option(help="Independent repetitions.")] = 16,
    seed: Annotated[int | None, typer.Option(help="Fixes instance, rewards and policies; fresh by default.")] = None,
    checkpoints: Annotated[int, typer.Option(help="Rounds, on a log scale, at which regret is kept.")] = 50,
    workers: Annotated[int | None, typer.Option(help="Threads; by default one for each processor.")] = None,
    as_json: AsJson = False,
    plot: Annotated[Path | None, typer.Option(help="Write regret curves to this .png, .svg or .pdf file.")] = None,
) -> None:
    """Play policies against an instance and compare their regret.

    Instances are random:graph=FAMILY,n_arms=K,budget=S with whatever else the family needs, such as size for
    cliques and p for erdos_renyi, ucb_failure:budget=S,alpha=A and revealing_hubs:n_arms=K,n_hubs=H,budget=S,gap=D.
    gap_instance and those of lower bounds, hidden_arm, hidden_pairs and hidden_parts, take a graph as random does, and
    gap=D. An example:

    armtriage simulate random:graph=cliques,n_arms=100,size=10,budget=10 elimination elimination:variant=paper

    With contexts they are linear:n_arms=K,dimension=D,budget=S, linear_blocks:dimension=D,budget=S for D > 2S,
    linear_few_dimensions:dimension=D,budget=S for D from 2 to 2S and linear_one_dimension:budget=S. An example:

    armtriage simulate linear:n_arms=20,dimension=5,budget=3,norm=0.5 c2ucb c2ucb:width=0.5 hierarchical

    With sets of decisions they are assignment:left=L,right=R, routing:layers=L,width=W, grid:rows=R,columns=C,
    tree:nodes=N,edges=E, categories:groups=G,size=N,capacity=C, knapsack:items=N,capacity=C, each with low, high and
    graph if wanted, partition:n_arms=K,budget=S,gap=D, long_decisions:size=N, hub_family and star:n_leaves=N. Each
    round asks an oracle, which takes its time: begin with a short --horizon and few --replications. An example:

    armtriage simulate grid:rows=6,columns=6 guarded_thompson thompson --horizon 2000 --replications 4
    """
    with refusing():
        seed = check_seed(seed)
        environment, budget = make_instance(instance, horizon, seed)
        chosen = {}
        for name in policies or DEFAULT_POLICIES[kind_of(environment)]:
            if name in chosen:
                raise Refusal(f"policy {name!r} is given twice")
            chosen[name] = make_policy(name, environment, budget, horizon, seed)
        if plot:
            from armtriage import plots

            plots.check_path(plot)
        with progress_bar() as progress:
            results = compare(
                chosen,
                environment,
                horizon=horizon,
                replications=replications,
                seed=seed,
                checkpoints=checkpoints,
                workers=workers,
                progress=progress,
            )
        if plot:
            plots.save(plots.regret_curves({result.label: result.trace for result in results}), plot)
    if as_json:
        about = {"instance": instance, "horizon": horizon, "replications": replications, "seed": seed}
        print_json({**about, "policies": [facts(result) for result in results]})
        return
    say(f"{instance}: {_size(environment, budget)}, {horizon:,} rounds, {replications} runs, seed {seed}")
    Console().print(table(results))
    if plot:
        say(f"Regret curves: {plot}")


def _size(environment: Any, budget: int) -> str:
    if isinstance(environment, LinearEnvironment):
        return f"{environment.n_arms} arms in dimension {environment.dimension}, {budget} slots"
    decisions = getattr(environment, "decisions", None)
    slots = f"{budget} slots" if decisions is None else f"{type(decisions).__name__} of at most {budget} arms"
    return f"{environment.n_arms} arms, {slots}"
