"""The contests of the paper: two and a counter-check, in tables, figures and sentences computed from the results."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from armtriage._numbers import short
from armtriage.environments import StochasticEnvironment
from armtriage.graphs.feedback import FeedbackGraph
from armtriage.instances import random_bernoulli, ucb_failure
from armtriage.policies import CombinatorialElimination, CombinatorialUCB, CombUCB1, GuardedThompson, ThompsonSampling
from armtriage.report import Figure, Section, page
from armtriage.simulation import simulate
from armtriage.simulation.comparison import Result, compare

SEED = 7
GUARDED, THOMPSON = "Guarded Thompson", "Thompson"
TIGHT, PAPER, UCB, UCB1 = "Elimination", "Elimination (paper)", "UCB", "CombUCB1"
_CURVES = "Mean cumulative regret with 95% bands, on log scales; a curve begins where the first regret does."
_CERTIFICATES = (
    "The same with certificates, dashed: what the policy can say that it lost at most, with 95% confidence, from "
    "its pulls and rewards."
)
_CHART = (
    "One run of elimination: each row is an arm, the best at the top. Active arms are played evenly, "
    "confirmed ones always, eliminated ones never again."
)
_LEAD = (
    "Each round a policy chooses S of K arms and sees the rewards that a feedback graph reveals. Regret "
    "is what it has lost against always choosing the best S. Every policy meets the same rewards. Committed is the "
    "share of runs whose choice could never change any more; the rounds after that are counted, but not played."
)

Show = Callable[[str, Sequence[Result], Sequence[str]], None]
Results = dict[str, Result]


class Size(NamedTuple):
    """How much is played."""

    slate: tuple[int, int, int]  # cliques, arms in each, arms in a slate
    slate_horizon: int
    slate_replications: int
    failure: int  # S and the number of cliques
    failure_horizon: int
    failure_replications: int


FULL = Size((10, 10, 10), 100_000, 16, 32, 20_000, 4)
QUICK = Size((4, 5, 4), 2_000, 3, 4, 2_000, 2)


def play_contests(
    out: str | os.PathLike[str] = "armtriage-demo",
    *,
    quick: bool = False,
    show: Show | None = None,
    progress: Callable[[str, float], None] | None = None,
) -> Path:
    """Play the contests, and write figures and one page; return the page.

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
    ...     play_contests(folder, quick=True).name
    'index.html'
    """
    from armtriage import __version__, plots

    size, folder = QUICK if quick else FULL, Path(out)
    plots.require()
    folder.mkdir(parents=True, exist_ok=True)
    sections: list[Section] = []

    def part(title: str, results: Results, text: Sequence[str], figures: Mapping[str, tuple[Any, str]]) -> None:
        if show is not None:
            show(title, [*results.values()], text)
        drawn = []
        for name, (ax, caption) in figures.items():
            drawn.append(Figure(plots.svg_text(ax), caption))
            (folder / f"{name}.svg").write_text(drawn[-1].svg, encoding="utf-8")
            plots.save(ax, folder / f"{name}.png")
        sections.append(Section(title, text, [*results.values()], drawn))

    cliques, members, budget = size.slate
    horizon = size.slate_horizon
    slate = random_bernoulli(FeedbackGraph.cliques([members] * cliques), seed=SEED)
    results = _contest(slate, budget, horizon, size.slate_replications, progress, certificate=True)
    bounded = {label: trace for label, trace in _traces(results).items() if label in (GUARDED, TIGHT)}
    logs = results[TIGHT].trace.triage
    assert logs is not None
    chart = plots.triage_chart(logs[0], slate.means, horizon, budget=budget)
    plots.sign(chart, f"first of {results[TIGHT].trace.origin}")
    figures = {
        "slate-regret": (plots.regret_curves(_traces(results)), _CURVES),
        "slate-certificate": (plots.regret_curves(bounded, order=[*results], certificate=True), _CERTIFICATES),
        "slate-triage": (chart, _CHART),
    }
    part(f"A slate of {budget} from {slate.n_arms} arms", results, slate_story(size, results), figures)
    side, horizon, runs = size.failure, size.failure_horizon, size.failure_replications
    alike = ucb_failure(side, side, horizon=horizon, seed=SEED)
    failed = _contest(alike, side, horizon, runs, progress)
    text = failure_story(size, failed, _whole_slates(failed[UCB], alike, side))
    part("Cliques of look-alikes", failed, text, {"cliques-regret": (plots.regret_curves(_traces(failed)), _CURVES)})
    own = ucb_failure(side, side, horizon=horizon, noise="independent", seed=SEED)
    cured = _contest(own, side, horizon, runs, progress)
    text = cured_story(failed[UCB], cured, _whole_slates(cured[UCB], own, side))
    figures = {"independent-regret": (plots.regret_curves(_traces(cured)), _CURVES)}
    part("The same means, each arm with noise of its own", cured, text, figures)
    small = " This is the quick form: too small to say who wins in general." if quick else ""
    footer = f"armtriage {__version__}; seed {SEED} for means, rewards and policies.{small}"
    target = folder / "index.html"
    target.write_text(page("The contests of the paper", _LEAD + small, sections, footer), encoding="utf-8")
    return target


def _contest(
    environment: StochasticEnvironment,
    budget: int,
    horizon: int,
    replications: int,
    progress: Callable[[str, float], None] | None,
    certificate: bool = False,
) -> Results:
    graph = environment.graph
    policies = {
        GUARDED: GuardedThompson(graph, budget, seed=SEED),
        THOMPSON: ThompsonSampling(graph, budget, seed=SEED),
        TIGHT: CombinatorialElimination(graph, budget, horizon=horizon, seed=SEED),
        PAPER: CombinatorialElimination(graph, budget, horizon=horizon, variant="paper", seed=SEED),
        UCB: CombinatorialUCB(graph, budget, horizon=horizon, seed=SEED),
        UCB1: CombUCB1(graph, budget, seed=SEED),
    }
    played = compare(
        policies,
        environment,
        horizon=horizon,
        replications=replications,
        seed=SEED,
        certificate=certificate,
        progress=progress,
    )
    return {result.label: result for result in played}


def _traces(results: Results) -> dict[str, Any]:
    return {label: result.trace for label, result in results.items()}


def _whole_slates(ucb: Result, environment: StochasticEnvironment, side: int) -> float:
    """Return the share of one run in which UCB spent its slate on one clique that is not the best."""
    horizon = int(ucb.trace.rounds[-1])
    trace = simulate(ucb.policy, environment, horizon=horizon, seed=SEED, record_decisions=True)
    assert trace.decisions is not None
    clique = trace.decisions[0] // side
    return float(np.mean((clique.min(axis=1) == clique.max(axis=1)) & (clique[:, 0] > 0)))


def slate_story(size: Size, results: Results) -> list[str]:
    """Say who wins on the slate, and what the others pay for."""
    cliques, members, budget = size.slate
    return [
        f"{cliques} cliques of {members} arms, each arm revealing its clique; Bernoulli rewards with means "
        f"drawn uniformly from [0, 1]; {budget} slots, {size.slate_horizon:,} rounds, {size.slate_replications} runs.",
        winner(results),
        f"{compared(results[GUARDED], results[THOMPSON])} {GUARDED} stays within twice the guarantee of elimination; "
        f"{THOMPSON} has no guarantee under graph feedback.",
        certified(results[GUARDED]),
        f"{compared(results[TIGHT], results[THOMPSON])} Elimination plays active arms evenly until their intervals "
        "part, which is the price of its guarantee.",
        f"{compared(results[PAPER], results[TIGHT])} Both have the same guarantee; the first has the constants that "
        "are printed in the paper.",
    ]


def failure_story(size: Size, results: Results, whole: float) -> list[str]:
    """Say how UCB fares where all arms of a clique look alike."""
    side = size.failure
    return [
        f"{side} cliques of {side} arms, {side} slots, {size.failure_horizon:,} rounds, "
        f"{size.failure_replications} runs. All arms of a clique have the same mean and always pay it, and the "
        "best slate is one whole clique: the instance of the lower bound for UCB.",
        winner(results),
        f"{compared(results[UCB], results[TIGHT])} All arms of a clique look alike to UCB, so in {whole:.0%} of its "
        "rounds the whole slate is one clique that is not the best, where one arm would have shown as much. "
        "Elimination explores with one arm of each clique.",
        f"{compared(results[TIGHT], results[THOMPSON])} The draws of Thompson sampling differ inside a clique.",
    ]


def cured_story(before: Result, results: Results, whole: float) -> list[str]:
    """Say how it fares with noise of its own in every arm."""
    return [
        f"With Bernoulli rewards drawn for each arm by itself UCB loses {short(results[UCB].mean)}, and "
        f"{short(before.mean)} where the observations inside a clique are identical: its indices differ now, and "
        f"{whole:.0%} of its slates are one clique that is not the best. {compared(results[UCB], results[TIGHT])}"
    ]


def winner(results: Results) -> str:
    """Say who loses least, and whether the intervals tell it from the next."""
    first, second = sorted(results.values(), key=lambda result: result.mean)[:2]
    text = f"{first.label} loses least: {short(first.mean)}. Next is {second.label} with {short(second.mean)}"
    if first.interval and second.interval and first.interval[1] >= second.interval[0]:
        text += "; their intervals overlap, so this does not settle which is better"
    return f"{text}."


def compared(one: Result, other: Result) -> str:
    """Say how many times as much as the better one the other loses."""
    less, more = sorted([one, other], key=lambda result: result.mean)
    times = f"{short(more.mean / less.mean)} times as much as" if less.mean > 0 else "more than"
    if more.mean == less.mean:
        times = "as much as"
    return f"{more.label} loses {short(more.mean)}, {times} {less.label} ({short(less.mean)})."


def certified(result: Result) -> str:
    """Say what the policy could tell of its loss without knowing the means, and whether that was true."""
    bound, regret = result.trace.certificate, result.trace.regret
    assert bound is not None
    wrong, runs = int((bound < regret).any(axis=1).sum()), len(regret)
    return (
        f"From pulls and rewards alone, without the true means, {result.label} certifies that a run lost at most "
        f"{short(float(bound[:, -1].mean()))} on average; the truth is {short(result.mean)}. In one run of 20 a "
        f"certificate may fall below the truth at some time; it did in {wrong or 'none'} of the {runs}."
    )
