"""The demo: two contests and a counter-check, in tables, figures and sentences computed from the results."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from armtriage.cli.story import (
    GUARDED,
    PAPER,
    THOMPSON,
    TIGHT,
    UCB,
    UCB1,
    Size,
    by_label,
    certified,
    counter_check,
    failure_setting,
    guarded,
    price,
    slate_setting,
    ucb_against_elimination,
    winner,
)
from armtriage.environments import StochasticEnvironment
from armtriage.graphs.feedback import FeedbackGraph
from armtriage.instances import random_bernoulli, ucb_failure
from armtriage.policies import CombinatorialElimination, CombinatorialUCB, CombUCB1, GuardedThompson, ThompsonSampling
from armtriage.policies.policy import Policy
from armtriage.report import Figure, Section, page
from armtriage.simulation.comparison import Result, compare
from armtriage.simulation.simulate import simulate

__all__ = ["FULL", "QUICK", "run"]

SEED = 7


FULL = Size((10, 10, 10), 100_000, 16, 32, 20_000, 4)
QUICK = Size((4, 5, 4), 2_000, 3, 4, 2_000, 2)

Show = Callable[[str, Sequence[Result], Sequence[str]], None]


def run(
    out: str | os.PathLike[str] = "armtriage-demo",
    *,
    quick: bool = False,
    show: Show | None = None,
    progress: Callable[[str, float], None] | None = None,
) -> Path:
    """Play the demo and write its figures and one page; return the page.

    Parameters
    ----------
    out : path
        Folder for the files, made if it is missing.
    quick : bool
        A small form that takes seconds and shows how it works, not who wins.
    show : callable, optional
        Called with the title, the results and the sentences of each part once it is known.
    progress : callable, optional
        Called with what is played and the share of it that is done.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     run(folder, quick=True).name
    'index.html'
    """
    from armtriage import __version__, plots

    size = QUICK if quick else FULL
    folder = Path(out)
    plots.require()
    folder.mkdir(parents=True, exist_ok=True)

    def draw(name: str, ax: Any, caption: str) -> Figure:
        plots.save(ax, folder / f"{name}.png", folder / f"{name}.svg")
        return Figure(plots.svg_text(ax), caption)

    def part(title: str, results: Sequence[Result], text: Sequence[str], figures: Sequence[Figure]) -> Section:
        if show is not None:
            show(title, results, text)
        return Section(title, text, results, figures)

    cliques, members, budget = size.slate
    slate = random_bernoulli(FeedbackGraph.cliques([members] * cliques), seed=SEED)
    results = _contest(slate, budget, size.slate_horizon, size.slate_replications, progress, certificate=True)
    by = by_label(results)
    chart_axes = plots.triage_chart(_triage(by[TIGHT]), slate.means, size.slate_horizon, budget=budget)
    plots.sign(chart_axes, f"first of {results[0].trace.origin}")
    curves = "Mean cumulative regret with 95% bands, on log scales; a curve begins where the first regret does."
    dashed = (
        "The same with certificates, dashed: what the policy can say that it lost at most, with 95% confidence, from "
        "its pulls and rewards."
    )
    chart = (
        "One run of elimination: each row is an arm, the best at the top. Active arms are played evenly, "
        "confirmed ones always, eliminated ones never again."
    )
    sections = [
        part(
            f"A slate of {budget} from {slate.n_arms} arms",
            results,
            [slate_setting(size), *winner(results), guarded(results), certified(by[GUARDED]), *price(results)],
            [
                draw("slate-regret", plots.regret_curves(_traces(results)), curves),
                draw("slate-certificate", _certificates(results), dashed),
                draw("slate-triage", chart_axes, chart),
            ],
        )
    ]
    horizon, side = size.failure_horizon, size.failure
    alike = ucb_failure(side, side, horizon=horizon, seed=SEED)
    own = ucb_failure(side, side, horizon=horizon, noise="independent", seed=SEED)
    failed = _contest(alike, side, horizon, size.failure_replications, progress)
    cured = _contest(own, side, horizon, size.failure_replications, progress)
    whole = _whole_slates(failed, alike, side), _whole_slates(cured, own, side)
    sections += [
        part(
            "Cliques of look-alikes",
            failed,
            [failure_setting(size), *winner(failed), ucb_against_elimination(failed, whole[0])],
            [draw("cliques-regret", plots.regret_curves(_traces(failed)), curves)],
        ),
        part(
            "The same means, each arm with noise of its own",
            cured,
            [counter_check(failed, cured, whole[1])],
            [draw("independent-regret", plots.regret_curves(_traces(cured)), curves)],
        ),
    ]
    lead = (
        "Each round a policy chooses S of K arms and sees the rewards that a feedback graph reveals. Regret "
        "is what it has lost against always choosing the best S. Every policy meets the same luck. Committed is the "
        "share of runs whose choice could never change any more; the rounds after that are counted, but not played."
    )
    small = " This is the quick form: too small to say who wins in general." if quick else ""
    footer = f"armtriage {__version__}; seed {SEED} for means, rewards and policies.{small}"
    target = folder / "index.html"
    target.write_text(page("armtriage demo", lead + small, sections, footer), encoding="utf-8")
    return target


def _contest(
    environment: StochasticEnvironment,
    budget: int,
    horizon: int,
    replications: int,
    progress: Callable[[str, float], None] | None,
    certificate: bool = False,
) -> list[Result]:
    graph = environment.graph
    policies: Mapping[str, Policy] = {
        GUARDED: GuardedThompson(graph, budget, seed=SEED),
        THOMPSON: ThompsonSampling(graph, budget, seed=SEED),
        TIGHT: CombinatorialElimination(graph, budget, horizon=horizon, seed=SEED),
        PAPER: CombinatorialElimination(graph, budget, horizon=horizon, variant="paper", seed=SEED),
        UCB: CombinatorialUCB(graph, budget, horizon=horizon, seed=SEED),
        UCB1: CombUCB1(graph, budget, seed=SEED),
    }
    return compare(
        policies,
        environment,
        horizon=horizon,
        replications=replications,
        seed=SEED,
        certificate=certificate,
        progress=progress,
    )


def _traces(results: Sequence[Result]) -> dict[str, Any]:
    return {result.label: result.trace for result in results}


def _certificates(results: Sequence[Result]) -> Any:
    """Return the figure of the guarded policy and elimination with their certificates, in the colours of the others."""
    from armtriage import plots

    shown = {label: trace for label, trace in _traces(results).items() if label in (GUARDED, TIGHT)}
    return plots.regret_curves(shown, order=list(_traces(results)), certificate=True)


def _triage(result: Result) -> Any:
    logs = result.trace.triage
    assert logs is not None
    return logs[0]


def _whole_slates(results: Sequence[Result], environment: StochasticEnvironment, side: int) -> float:
    """Return the share of one run in which UCB spent its slate on one clique that is not the best."""
    ucb = by_label(results)[UCB]
    horizon = int(ucb.trace.rounds[-1])
    trace = simulate(ucb.policy, environment, horizon=horizon, seed=SEED, record_decisions=True)
    assert trace.decisions is not None
    clique = trace.decisions[0] // side
    return float(np.mean((clique.min(axis=1) == clique.max(axis=1)) & (clique[:, 0] > 0)))
