"""What the demo says of its results: every sentence is computed from them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from armtriage.simulation.comparison import Result, number

__all__ = [
    "Size",
    "by_label",
    "certified",
    "counter_check",
    "failure_setting",
    "guarded",
    "price",
    "slate_setting",
    "ucb_against_elimination",
    "winner",
]

GUARDED, THOMPSON = "Guarded Thompson", "Thompson"
TIGHT, PAPER, UCB, UCB1 = "Elimination", "Elimination (paper)", "UCB", "CombUCB1"


class Size(NamedTuple):
    """How much the demo plays."""

    slate: tuple[int, int, int]  # cliques, arms in each, arms in a slate
    slate_horizon: int
    slate_replications: int
    failure: int  # S and the number of cliques
    failure_horizon: int
    failure_replications: int


def by_label(results: Sequence[Result]) -> dict[str, Result]:
    """Return the results by their labels."""
    return {result.label: result for result in results}


def times(more: float, less: float) -> str:
    return f"{number(more / less)} times" if less > 0 else "infinitely many times"


def spread(result: Result) -> str:
    low, high = result.interval or (result.mean, result.mean)
    return "the same in every run" if low == high else f"95% interval {number(low)} to {number(high)}"


def slate_setting(size: Size) -> str:
    """Describe the slate."""
    cliques, members, budget = size.slate
    return (
        f"{cliques} cliques of {members} arms, each arm revealing its clique; Bernoulli rewards with means "
        f"drawn uniformly from [0, 1]; {budget} slots, {size.slate_horizon:,} rounds, "
        f"{size.slate_replications} runs."
    )


def failure_setting(size: Size) -> str:
    """Describe the failure cliques."""
    side = size.failure
    return (
        f"{side} cliques of {side} arms, {side} slots, {size.failure_horizon:,} rounds, "
        f"{size.failure_replications} runs. All arms of a clique have the same mean and always pay it, and the "
        f"best slate is one whole clique: the instance of the lower bound for UCB."
    )


def winner(results: Sequence[Result]) -> list[str]:
    """Say who loses least, and whether the intervals tell it from the next."""
    first, second = sorted(results, key=lambda result: result.mean)[:2]
    text = f"{first.label} loses least: {number(first.mean)} ({spread(first)}). "
    text += f"Next is {second.label} with {number(second.mean)}"
    if first.interval and second.interval and first.interval[1] >= second.interval[0]:
        text += "; their intervals overlap, so this does not settle which is better"
    return [text + "."]


def guarded(results: Sequence[Result]) -> str:
    """Say what the guard does to Thompson sampling."""
    by = by_label(results)
    own, free = by[GUARDED], by[THOMPSON]
    return (
        f"{GUARDED} draws as {THOMPSON} does, but not for arms that it sees anyway, and stays within twice the "
        f"guarantee of elimination, where {THOMPSON} has none under graph feedback. Here it loses "
        f"{times(own.mean, free.mean)} as much."
    )


def certified(result: Result) -> str:
    """Say what the policy could tell of its loss without knowing the means, and whether that was true."""
    bound, regret = result.trace.certificate, result.trace.regret
    assert bound is not None
    wrong, runs = int((bound < regret).any(axis=1).sum()), len(regret)
    most = float(bound[:, -1].mean())
    return (
        f"From pulls and rewards alone, without the true means, {result.label} certifies that a run lost at most "
        f"{number(most)} on average, {times(most, result.mean)} the truth. In one run of 20 a certificate may fall "
        f"below the truth at some time; it did in {wrong or 'none'} of the {runs}."
    )


def price(results: Sequence[Result]) -> list[str]:
    """Say what elimination pays on an ordinary instance, where it does."""
    by = by_label(results)
    best = min(results, key=lambda result: result.mean)
    tight, paper = by[TIGHT], by[PAPER]
    text = []
    if best.label not in (TIGHT, PAPER):
        text.append(
            f"Elimination loses {number(tight.mean)}, {times(tight.mean, best.mean)} as much as {best.label}. "
            f"That is what its guarantee costs: it plays active arms evenly until their intervals part, where "
            f"{best.label} turns to promising arms at once."
        )
    if paper.mean > tight.mean:
        text.append(
            f"With the constants printed in the paper it loses {number(paper.mean)}, "
            f"{times(paper.mean, tight.mean)} as much as in its default form, which has the same guarantee."
        )
    return text


def ucb_against_elimination(results: Sequence[Result], whole: float) -> str:
    """Compare the two on the failure cliques."""
    by = by_label(results)
    tight, ucb = by[TIGHT], by[UCB]
    if ucb.mean <= tight.mean:
        return (
            f"UCB loses {number(ucb.mean)} and elimination {number(tight.mean)}: at this size UCB is not the "
            f"worse one yet, though {whole:.0%} of its slates are one clique that is not the best."
        )
    text = (
        f"UCB loses {number(ucb.mean)}, {times(ucb.mean, tight.mean)} as much as elimination "
        f"({number(tight.mean)}). All arms of a clique look alike to it, so it spends whole slates "
        f"on one clique, where one arm would have shown as much: in {whole:.0%} of its rounds on one that is "
        f"not the best. Elimination explores with one arm of each clique instead"
    )
    thompson = by[THOMPSON]
    if thompson.mean < tight.mean:
        text += (
            f". Thompson sampling is not caught, since its draws differ inside a clique: it loses "
            f"{number(thompson.mean)}, {GUARDED} {number(by[GUARDED].mean)}, and elimination "
            f"{times(tight.mean, thompson.mean)} as much as {THOMPSON}"
        )
    return text + "."


def counter_check(failed: Sequence[Result], cured: Sequence[Result], whole: float) -> str:
    """Say what independent noise changes."""
    before, after, tight = by_label(failed)[UCB], by_label(cured)[UCB], by_label(cured)[TIGHT]
    text = f"With Bernoulli rewards drawn for each arm by itself UCB loses {number(after.mean)} "
    if after.mean < before.mean:
        text += (
            f"instead of {number(before.mean)}: the failure needs observations that are identical inside a "
            f"clique. Here indices differ, {whole:.0%} of its slates are one clique that is not the best"
        )
    else:
        text += f"and {number(before.mean)} before"
    less, more = sorted([after, tight], key=lambda result: result.mean)
    return text + f", and {more.label} loses {times(more.mean, less.mean)} as much as {less.label}."
