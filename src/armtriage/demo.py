"""The demo: two contests and a counter-check, in tables, figures and sentences computed from the results."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from armtriage.environments import StochasticEnvironment
from armtriage.feedback import FeedbackGraph
from armtriage.instances import random_bernoulli, ucb_failure
from armtriage.policies import CombinatorialElimination, CombinatorialUCB, CombUCB1, ThompsonSampling
from armtriage.policy import Policy
from armtriage.report import Figure, Result, Section, compare, number, page
from armtriage.simulator import simulate

__all__ = ["FULL", "QUICK", "Size", "run"]

TIGHT, PAPER, UCB, UCB1, THOMPSON = "Elimination", "Elimination (paper)", "UCB", "CombUCB1", "Thompson"
SEED = 7


class Size(NamedTuple):
    """How much the demo plays."""

    slate: tuple[int, int, int]  # cliques, arms in each, arms in a slate
    slate_horizon: int
    slate_replications: int
    failure: int  # S and the number of cliques
    failure_horizon: int
    failure_replications: int


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
    results = _contest(slate, budget, size.slate_horizon, size.slate_replications, progress)
    chart_axes = plots.triage_chart(_triage(results), slate.means, size.slate_horizon, budget=budget)
    plots.sign(chart_axes, f"first of {results[0].trace.origin}")
    curves = "Mean cumulative regret with 95% bands; both scales are logarithmic."
    chart = (
        "One run of elimination: each row is an arm, the best at the top. Active arms are played evenly, "
        "confirmed ones always, eliminated ones never again."
    )
    sections = [
        part(
            f"A slate of {budget} from {slate.n_arms} arms",
            results,
            [_slate_setting(size), *_winner(results), *_price(results)],
            [
                draw("slate-regret", plots.regret_curves(_traces(results)), curves),
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
            [_failure_setting(size), *_winner(failed), _ucb_against_elimination(failed, whole[0])],
            [draw("cliques-regret", plots.regret_curves(_traces(failed)), curves)],
        ),
        part(
            "The same means, each arm with noise of its own",
            cured,
            [_counter_check(failed, cured, whole[1])],
            [draw("independent-regret", plots.regret_curves(_traces(cured)), curves)],
        ),
    ]
    lead = (
        "Each round a policy chooses S of K arms and sees the rewards that a feedback graph reveals. Regret "
        "is what it has lost against always choosing the best S. Every policy meets the same luck."
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
) -> list[Result]:
    graph = environment.graph
    policies: Mapping[str, Policy] = {
        TIGHT: CombinatorialElimination(graph, budget, horizon=horizon, seed=SEED),
        PAPER: CombinatorialElimination(graph, budget, horizon=horizon, variant="paper", seed=SEED),
        UCB: CombinatorialUCB(graph, budget, horizon=horizon, seed=SEED),
        UCB1: CombUCB1(graph, budget, seed=SEED),
        THOMPSON: ThompsonSampling(graph, budget, seed=SEED),
    }
    return compare(policies, environment, horizon=horizon, replications=replications, seed=SEED, progress=progress)


def _traces(results: Sequence[Result]) -> dict[str, Any]:
    return {result.label: result.trace for result in results}


def _triage(results: Sequence[Result]) -> Any:
    logs = results[0].trace.triage
    assert logs is not None
    return logs[0]


def _by_label(results: Sequence[Result]) -> dict[str, Result]:
    return {result.label: result for result in results}


def _whole_slates(results: Sequence[Result], environment: StochasticEnvironment, side: int) -> float:
    """Return the share of one run in which UCB spent its slate on one clique that is not the best."""
    ucb = _by_label(results)[UCB]
    horizon = int(ucb.trace.rounds[-1])
    trace = simulate(ucb.policy, environment, horizon=horizon, seed=SEED, record_decisions=True)
    assert trace.decisions is not None
    clique = trace.decisions[0] // side
    return float(np.mean((clique.min(axis=1) == clique.max(axis=1)) & (clique[:, 0] > 0)))


def _times(more: float, less: float) -> str:
    return f"{number(more / less)} times" if less > 0 else "infinitely many times"


def _spread(result: Result) -> str:
    low, high = result.interval or (result.mean, result.mean)
    return "the same in every run" if low == high else f"95% interval {number(low)} to {number(high)}"


def _slate_setting(size: Size) -> str:
    cliques, members, budget = size.slate
    return (
        f"{cliques} cliques of {members} arms, each arm revealing its clique; Bernoulli rewards with means "
        f"drawn uniformly from [0, 1]; {budget} slots, {size.slate_horizon:,} rounds, "
        f"{size.slate_replications} runs."
    )


def _failure_setting(size: Size) -> str:
    side = size.failure
    return (
        f"{side} cliques of {side} arms, {side} slots, {size.failure_horizon:,} rounds, "
        f"{size.failure_replications} runs. All arms of a clique have the same mean and always pay it, and the "
        f"best slate is one whole clique: the instance of the lower bound for UCB."
    )


def _winner(results: Sequence[Result]) -> list[str]:
    """Say who loses least, and whether the intervals tell it from the next."""
    first, second = sorted(results, key=lambda result: result.mean)[:2]
    text = f"{first.label} loses least: {number(first.mean)} ({_spread(first)}). "
    text += f"Next is {second.label} with {number(second.mean)}"
    if first.interval and second.interval and first.interval[1] >= second.interval[0]:
        text += "; their intervals overlap, so this does not settle which is better"
    return [text + "."]


def _price(results: Sequence[Result]) -> list[str]:
    """Say what elimination pays on an ordinary instance, where it does."""
    by = _by_label(results)
    best = min(results, key=lambda result: result.mean)
    tight, paper = by[TIGHT], by[PAPER]
    text = []
    if best.label not in (TIGHT, PAPER):
        text.append(
            f"Elimination loses {number(tight.mean)}, {_times(tight.mean, best.mean)} as much as {best.label}. "
            f"That is what its guarantee costs: it plays active arms evenly until their intervals part, where "
            f"{best.label} turns to promising arms at once and has no such guarantee under graph feedback."
        )
    if paper.mean > tight.mean:
        text.append(
            f"With the constants printed in the paper it loses {number(paper.mean)}, "
            f"{_times(paper.mean, tight.mean)} as much as in its default form, which has the same guarantee."
        )
    return text


def _ucb_against_elimination(results: Sequence[Result], whole: float) -> str:
    by = _by_label(results)
    tight, ucb = by[TIGHT], by[UCB]
    if ucb.mean <= tight.mean:
        return (
            f"UCB loses {number(ucb.mean)} and elimination {number(tight.mean)}: at this size UCB is not the "
            f"worse one yet, though {whole:.0%} of its slates are one clique that is not the best."
        )
    text = (
        f"UCB loses {number(ucb.mean)}, {_times(ucb.mean, tight.mean)} as much as elimination "
        f"({number(tight.mean)}). All arms of a clique look alike to it, so it spends whole slates "
        f"on one clique, where one arm would have shown as much: in {whole:.0%} of its rounds on one that is "
        f"not the best. Elimination explores with one arm of each clique instead"
    )
    thompson = by[THOMPSON]
    if thompson.mean < tight.mean:
        text += (
            f". Thompson sampling is not caught, since its draws differ inside a clique: it loses "
            f"{number(thompson.mean)}, and elimination {_times(tight.mean, thompson.mean)} as much"
        )
    return text + "."


def _counter_check(failed: Sequence[Result], cured: Sequence[Result], whole: float) -> str:
    before, after, tight = _by_label(failed)[UCB], _by_label(cured)[UCB], _by_label(cured)[TIGHT]
    text = f"With Bernoulli rewards drawn for each arm by itself UCB loses {number(after.mean)} "
    if after.mean < before.mean:
        text += (
            f"instead of {number(before.mean)}: the failure needs observations that are identical inside a "
            f"clique. Here indices differ, {whole:.0%} of its slates are one clique that is not the best"
        )
    else:
        text += f"and {number(before.mean)} before"
    less, more = sorted([after, tight], key=lambda result: result.mean)
    return text + f", and {more.label} loses {_times(more.mean, less.mean)} as much as {less.label}."
