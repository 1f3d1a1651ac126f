"""The command line: parsing, and nothing that the library cannot do by itself."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from armtriage import __version__, _jit, demo, policies
from armtriage._options import Refusal, convert, parameters_of, split, unknown
from armtriage._random import check_seed
from armtriage.comparison import compare, facts, table
from armtriage.environments import StochasticEnvironment
from armtriage.instances import GRAPHS, random_bernoulli, ucb_failure
from armtriage.policy import Policy

__all__ = ["INSTANCES", "POLICIES", "app", "main"]

POLICIES: Mapping[str, type[Policy]] = {
    "comb_ucb1": policies.CombUCB1,
    "elimination": policies.CombinatorialElimination,
    "greedy": policies.Greedy,
    "kl_ucb": policies.KLUCB,
    "random": policies.UniformRandom,
    "thompson": policies.ThompsonSampling,
    "ucb": policies.CombinatorialUCB,
}
INSTANCES = ("random", "ucb_failure")
# Set by the instance or by options of the command, so they are no options of a policy or an instance.
_GIVEN = ("self", "graph", "budget", "seed", "reward_range")
_DEFAULT = ("elimination", "comb_ucb1", "thompson")
_INSTANCE_HELP = f"NAME:key=value,... with NAME random or ucb_failure; graph is one of {', '.join(GRAPHS)}."
_POLICY_HELP = f"NAME or NAME:key=value,... with NAME one of {', '.join(POLICIES)}; by default {' '.join(_DEFAULT)}."

app = typer.Typer(
    help="Combinatorial bandits: choose S of K arms each round.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def main() -> None:
    """Run the command line."""
    app()


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"armtriage {__version__}")
        raise typer.Exit


_VERSION = typer.Option("--version", help="Show the version and stop.", is_eager=True, callback=_version)


@app.callback()
def _root(version: Annotated[bool, _VERSION] = False) -> None:
    pass


@app.command("simulate")
def _simulate(
    instance: Annotated[str, typer.Argument(help=_INSTANCE_HELP, metavar="INSTANCE")],
    names: Annotated[list[str] | None, typer.Argument(help=_POLICY_HELP, metavar="POLICY...")] = None,
    horizon: Annotated[int, typer.Option(help="Rounds in a replication.")] = 10_000,
    replications: Annotated[int, typer.Option(help="Independent repetitions.")] = 16,
    seed: Annotated[int | None, typer.Option(help="Fixes means, rewards and policies; fresh by default.")] = None,
    checkpoints: Annotated[int, typer.Option(help="Rounds, on a log scale, at which regret is kept.")] = 50,
    workers: Annotated[int | None, typer.Option(help="Threads; by default one a processor.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    plot: Annotated[Path | None, typer.Option(help="Write regret curves to this .png, .svg or .pdf file.")] = None,
) -> None:
    """Play policies against an instance and compare their regret.

    Instances are random:graph=FAMILY,n_arms=K,budget=S with what else the family needs, such as size for
    cliques and p for erdos_renyi, and ucb_failure:budget=S,alpha=A. An example:

    armtriage simulate random:graph=cliques,n_arms=100,size=10,budget=10 elimination elimination:variant=paper
    """
    with _refusing():
        seed = check_seed(seed)
        environment, budget = _make_instance(instance, horizon, seed)
        chosen = {}
        for name in names or _DEFAULT:
            if name in chosen:
                raise Refusal(f"policy {name!r} is given twice")
            chosen[name] = _make_policy(name, environment, budget, horizon, seed)
        draw = _curves(plot) if plot else None
        _say_if_cold()
        with _progress() as progress:
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
        if draw is not None:
            draw({result.label: result.trace for result in results})
    if as_json:
        whole = {
            "version": __version__,
            "instance": instance,
            "horizon": horizon,
            "replications": replications,
        }
        whole |= {"seed": seed, "policies": [facts(result) for result in results]}
        typer.echo(json.dumps(whole, indent=2))
        return
    console = Console()
    size = f"{environment.n_arms} arms, {budget} slots, {horizon:,} rounds, {replications} runs, seed {seed}"
    console.print(f"{instance}: {size}", highlight=False, markup=False, soft_wrap=True)
    console.print(table(results))
    if plot:
        console.print(f"Regret curves: {plot}", highlight=False, markup=False, soft_wrap=True)


@app.command("demo")
def _demo(
    out: Annotated[Path, typer.Option(help="Folder for the page and the figures.")] = Path("armtriage-demo"),
    quick: Annotated[bool, typer.Option("--quick", help="A small form that takes seconds.")] = False,
) -> None:
    """Play two contests and a counter-check; print tables, write figures and a page about who wins where and why."""
    console = Console()

    def show(title: str, results: Any, text: Any) -> None:
        console.print()
        console.print(table(results, title))
        for sentence in text:
            console.print(sentence, highlight=False, markup=False)

    with _refusing():
        _say_if_cold()
        with _progress() as progress:
            page = demo.run(out, quick=quick, show=show, progress=progress)
    where = f"\nFigures (PNG, SVG) are in {out}; the page is {page}"
    console.print(where, highlight=False, markup=False, soft_wrap=True)


@contextmanager
def _refusing() -> Iterator[None]:
    """Turn refused input into its message and exit code 2."""
    try:
        yield
    except (Refusal, ValueError, TypeError, ImportError, OSError, MemoryError) as error:
        typer.echo(f"armtriage: {error}", err=True)
        raise typer.Exit(2) from error


@contextmanager
def _progress() -> Iterator[Callable[[str, float], None]]:
    console = Console(stderr=True)
    columns = TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn()
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=1.0)
        yield lambda label, share: bar.update(task, description=label, completed=share)


def _say_if_cold() -> None:
    if _jit.JIT and not (_jit._CACHE and any(Path(_jit._CACHE).iterdir())):
        typer.echo("Compiling the kernels; this happens once and may take a minute.", err=True)


def _curves(path: Path) -> Callable[[Mapping[str, Any]], None]:
    """Return what writes the regret curves; refuse a file it could not write before anything is played."""
    from armtriage import plots

    plots.check_path(path)
    return lambda traces: plots.save(plots.regret_curves(traces), path)


def _make_instance(text: str, horizon: int, seed: int) -> tuple[StochasticEnvironment, int]:
    name, options = split(text)
    if name == "ucb_failure":
        made = convert(text, options, parameters_of(ucb_failure, ("seed",)))
        made = {"horizon": horizon, **made}
        return ucb_failure(**made, seed=seed), made["budget"]
    if name != "random":
        raise unknown("instance", name, INSTANCES)
    family = options.pop("graph", "semi_bandit")
    if family not in GRAPHS:
        raise unknown("graph", family, GRAPHS)
    build = GRAPHS[family]
    own = parameters_of(build, ())
    rest = parameters_of(random_bernoulli, ("graph", "seed"))
    whole = inspect.Parameter("budget", inspect.Parameter.KEYWORD_ONLY, annotation=int)
    made = convert(text, options, {**own, "budget": whole, **rest}, also=("graph",))
    if "seed" in own:
        made = {"seed": seed, **made}
    graph = build(**{key: made[key] for key in own if key in made})
    budget = made["budget"]
    return random_bernoulli(graph, **{key: made[key] for key in rest if key in made}, seed=seed), budget


def _make_policy(text: str, environment: StochasticEnvironment, budget: int, horizon: int, seed: int) -> Policy:
    name, options = split(text)
    if name not in POLICIES:
        raise unknown("policy", name, POLICIES)
    parameters = parameters_of(POLICIES[name].__init__, _GIVEN)
    made = convert(text, options, parameters)
    if "horizon" in parameters:
        made = {"horizon": horizon, **made}
    try:
        return POLICIES[name](environment.graph, budget, **made, seed=seed)
    except (TypeError, ValueError) as error:
        raise Refusal(f"{text}: {error}") from error


if __name__ == "__main__":
    main()
