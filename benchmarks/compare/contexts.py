"""Policies with contexts on real features, beside those of MABWiser and Vowpal Wabbit and an offline oracle.

Every round shows one case of a data set, and a player chooses some of its candidates. All players meet the same cases
in the same order, see the same numbers, scaled by the same `armtriage.Features`, and hear of what they chose alone.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from armtriage import C2UCB, Features, GuardedLinear, LinearThompsonSampling
from benchmarks.compare.peers import Skipped, bring, versions

Array = NDArray[Any]
Numbers = dict[str, float]


class World(NamedTuple):
    """Cases, each with K candidates."""

    name: str
    about: str
    budget: int
    contexts: Array  # (cases, K, d): what Features make of the rows
    rates: Array  # (cases, K): how often a candidate is right: 0 and 1, or rates of clicks
    visitors: Array  # (cases, m): all numbers of a case, for those whose contexts are of a round
    texts: list[tuple[str, list[str]]]  # the case and its candidates as Vowpal Wabbit reads them
    norm_bound: float  # what the features suggest
    rounds: int


class Player(Protocol):
    def choose(self, case: int) -> Sequence[int]: ...

    def learn(self, case: int, arms: Sequence[int], rewards: Sequence[float]) -> None: ...


class Ours:
    """A policy of armtriage."""

    def __init__(self, make: Callable[..., Any], world: World, seed: int) -> None:
        self.world = world
        size = {"n_arms": world.contexts.shape[1], "dimension": world.contexts.shape[2], "budget": world.budget}
        self.policy = make(**size, reward_range=(0, 1), seed=seed)

    def choose(self, case: int) -> Sequence[int]:
        self.decision = self.policy.ask(self.world.contexts[case])
        return self.decision.arms.tolist()

    def learn(self, case: int, arms: Sequence[int], rewards: Sequence[float]) -> None:
        self.policy.tell(self.decision, list(rewards))


class OurOwn:
    """A policy of armtriage with a parameter for each candidate, on the numbers of the case."""

    def __init__(self, model: str, world: World, seed: int) -> None:
        self.rows = world.visitors / math.sqrt(world.visitors.shape[1])  # of norm 1 at most
        self.n_arms = world.rates.shape[1]
        size = {"n_arms": self.n_arms, "dimension": self.rows.shape[1], "budget": world.budget}
        bound = 2.0 * math.sqrt(world.visitors.shape[1])  # as `Features` find it plausible
        self.policy = GuardedLinear(**size, model=model, norm_bound=bound, reward_range=(0, 1), seed=seed)

    def choose(self, case: int) -> Sequence[int]:
        self.decision = self.policy.ask(np.tile(self.rows[case], (self.n_arms, 1)))
        return self.decision.arms.tolist()

    def learn(self, case: int, arms: Sequence[int], rewards: Sequence[float]) -> None:
        self.policy.tell(self.decision, list(rewards))


class MabWiser:
    """LinUCB and LinTS of MABWiser: a regression for each arm, on the numbers of the case; the S best of them."""

    def __init__(self, kind: str, alpha: float, world: World, seed: int) -> None:
        mab = bring("mabwiser.mab")
        law = getattr(mab.LearningPolicy, kind)(alpha=alpha)
        self.world, self.rng = world, np.random.default_rng(seed)
        self.mab, self.begun = mab.MAB(arms=list(range(world.rates.shape[1])), learning_policy=law, seed=seed), False

    def choose(self, case: int) -> Sequence[int]:
        n = self.world.rates.shape[1]
        values = np.zeros(n)
        if self.begun:
            expected = self.mab.predict_expectations(self.world.visitors[[case]])
            values = np.array([expected[arm] for arm in range(n)])
        return np.sort(np.lexsort((self.rng.random(n), -values))[: self.world.budget]).tolist()

    def learn(self, case: int, arms: Sequence[int], rewards: Sequence[float]) -> None:
        learn = self.mab.partial_fit if self.begun else self.mab.fit
        learn(list(arms), list(rewards), self.world.visitors[[case] * len(arms)])
        self.begun = True


class ContextualBandits:
    """LinUCB of contextualbandits: a regression for each arm, on the numbers of the case; the S best of them."""

    def __init__(self, world: World, seed: int) -> None:
        kind = bring("contextualbandits.online").LinUCB
        self.world, self.rng, self.begun = world, np.random.default_rng(seed), False
        self.model = kind(nchoices=world.rates.shape[1], random_state=seed + 1)  # it takes no 0

    def choose(self, case: int) -> Sequence[int]:
        n = self.world.rates.shape[1]
        values = self.model.decision_function(self.world.visitors[[case]])[0] if self.begun else np.zeros(n)
        return np.sort(np.lexsort((self.rng.random(n), -values))[: self.world.budget]).tolist()

    def learn(self, case: int, arms: Sequence[int], rewards: Sequence[float]) -> None:
        self.model.partial_fit(self.world.visitors[[case] * len(arms)], np.array(arms), np.array(rewards))
        self.begun = True


class VowpalWabbit:
    """SquareCB over action-dependent features; for a slate of several, the same in each slot of a ccb."""

    def __init__(self, world: World, seed: int) -> None:
        self.world, self.rng, self.slots = world, np.random.default_rng(seed), world.budget > 1
        base = "--ccb_explore_adf" if self.slots else "--cb_explore_adf"
        vw = bring("vowpalwabbit")
        self.space = vw.Workspace(f"{base} --squarecb -q VA --quiet --random_seed {seed}")

    def choose(self, case: int) -> Sequence[int]:
        shared, actions = self.world.texts[case]
        if self.slots:
            lines = [f"ccb shared {shared}", *(f"ccb action {one}" for one in actions)]
            lines += ["ccb slot |"] * self.world.budget
            self.chosen = [slot[0] for slot in self.space.predict(lines)]
        else:
            chances = np.array(self.space.predict([f"shared {shared}", *actions]), float)
            arm = int(self.rng.choice(chances.size, p=chances / chances.sum()))
            self.chosen = [(arm, chances[arm])]
        return [arm for arm, _ in self.chosen]

    def learn(self, case: int, arms: Sequence[int], rewards: Sequence[float]) -> None:
        shared, actions = self.world.texts[case]
        labels = [f"{arm}:{-reward}:{chance}" for (arm, chance), reward in zip(self.chosen, rewards, strict=True)]
        if self.slots:
            lines = [f"ccb shared {shared}", *(f"ccb action {one}" for one in actions)]
            self.space.learn([*lines, *(f"ccb slot {label} |" for label in labels)])
        else:
            arm, label = self.chosen[0][0], labels[0].partition(":")[2]
            marked = [f"0:{label} {one}" if place == arm else one for place, one in enumerate(actions)]
            self.space.learn([f"shared {shared}", *marked])


def _as_with_features(world: World, seed: int) -> Player:
    """Return the policy with the bound that it takes by itself where it is given the features."""
    return Ours(partial(GuardedLinear, norm_bound=world.norm_bound), world, seed)


def _less_shrunk(world: World, seed: int) -> Player:
    """Return C2UCB with a ridge that is 1 for contexts before they are divided by the root of the number of parts."""
    return Ours(partial(C2UCB, width=0.5, ridge=4.0 / world.norm_bound**2), world, seed)


PLAYERS: dict[str, Callable[[World, int], Player]] = {
    "`GuardedLinear`": _as_with_features,
    "`GuardedLinear(norm_bound=1)`": partial(Ours, partial(GuardedLinear, norm_bound=1.0)),
    '`GuardedLinear(model="disjoint")`': partial(OurOwn, "disjoint"),
    '`GuardedLinear(model="hybrid")`': partial(OurOwn, "hybrid"),
    "`C2UCB`": partial(Ours, C2UCB),
    "`C2UCB(width=0.5)`": partial(Ours, partial(C2UCB, width=0.5)),
    "`C2UCB(width=0.5)`, ridge 1 / parts": _less_shrunk,
    "`LinearThompsonSampling`": partial(Ours, LinearThompsonSampling),
    "MABWiser LinUCB": partial(MabWiser, "LinUCB", 1.0),
    "MABWiser LinUCB, alpha 0.25": partial(MabWiser, "LinUCB", 0.25),
    "MABWiser LinTS": partial(MabWiser, "LinTS", 1.0),
    "MABWiser LinTS, alpha 0.25": partial(MabWiser, "LinTS", 0.25),
    "contextualbandits LinUCB": ContextualBandits,
    "Vowpal Wabbit, SquareCB": VowpalWabbit,
}


def _world(name: str, about: str, rows: list[Numbers], labels: Sequence[str], rates: Array, **more: Any) -> World:
    """Return the world of these cases: numbers, and candidates that are told from each other by a label alone."""
    numbers = list(rows[0])
    # A weight for each number and each candidate; what all candidates share decides nothing by itself.
    features = Features(numbers, ["label"], products=[(numbers, "label")], alone=["label"])
    every = [{**row, "label": label} for row in rows for label in labels]
    contexts = features.fit(every).transform(every).reshape(*rates.shape, -1)
    scaled = Features(numbers, intercept=False).fit(rows).transform(rows) * math.sqrt(len(numbers))
    visitors = np.column_stack([np.ones(len(rows)), scaled])
    actions = [f"|A {label}" for label in labels]
    shared = ["|V " + " ".join(f"{i}:{one:.6g}" for i, one in enumerate(row)) for row in scaled]
    texts = [(one, actions) for one in shared]
    made = {
        "contexts": contexts,
        "rates": rates,
        "visitors": visitors,
        "texts": texts,
        "norm_bound": features.norm_bound,
    }
    return World(name=name, about=about, **made, **more)


def digits(budget: int) -> World:
    """Return images of digits, each with ten classes to choose from; four pixels are one number."""
    from sklearn.datasets import load_digits

    found = load_digits()
    pixels = found.images.reshape(-1, 4, 2, 4, 2).mean(axis=(2, 4)).reshape(-1, 16)
    rows = [{f"p{i}": float(one) for i, one in enumerate(image)} for image in pixels]
    about = f"{len(rows):,} images of 4 x 4 numbers, each once; {budget} of 10 classes"
    labels, rates = [f"d{arm}" for arm in range(10)], np.eye(10)[found.target]
    return _world(f"digits, S={budget}", about, rows, labels, rates, budget=budget, rounds=len(rows))


def travel() -> World:
    """Return travellers between Sydney, Canberra and Melbourne, with times and costs of air, train, bus and car."""
    data = bring("statsmodels.datasets").modechoice.load_pandas().data
    modes, own = ("air", "train", "bus", "car"), ("ttme", "invc", "invt", "gc")
    rows = []
    for _, one in data.groupby("individual"):
        ways = dict(zip(modes, one[list(own)].to_numpy().tolist(), strict=True))
        each = {f"{mode} {name}": value for mode in modes for name, value in zip(own, ways[mode], strict=True)}
        rows.append({**each, "income": float(one["hinc"].iloc[0]), "party": float(one["psize"].iloc[0])})
    rates = data["choice"].to_numpy(float).reshape(-1, 4)
    about = f"{len(rows)} travellers, ten times each; 1 of 4 ways to travel"
    return _world("travel, S=1", about, rows, modes, rates, budget=1, rounds=10 * len(rows))


def clicks() -> World:
    """Return the travellers again, who now click on what they would take, in 5 of 100 cases, and on the rest in 1."""
    world = travel()
    about = f"{len(world.rates)} travellers, fifty times each; clicks of 5% on what they took, of 1% on the rest"
    return world._replace(
        name="clicks, S=1", about=about, rates=0.01 + 0.04 * world.rates, rounds=50 * len(world.rates)
    )


WORLDS: dict[str, Callable[[], World]] = {
    "clicks": clicks,
    "travel": travel,
    "digits-1": partial(digits, 1),
    "digits-3": partial(digits, 3),
}


def oracle(world: World) -> float:
    """Return what the best linear function of the contexts earns a round, by least squares on all rates at once."""
    flat = world.contexts.reshape(-1, world.contexts.shape[2])
    theta = np.linalg.lstsq(flat, world.rates.ravel(), rcond=None)[0]
    best = np.argsort(-(world.contexts @ theta), axis=1, kind="stable")[:, : world.budget]
    return float(np.take_along_axis(world.rates, best, axis=1).sum(axis=1).mean())


def play(player: Player, world: World, order: Array, seed: int) -> float:
    """Return what a player earns a round, in expectation; all players meet the same luck."""
    total, luck = 0.0, np.random.default_rng((8, seed)).random((order.size, world.rates.shape[1]))
    for number, case in enumerate(order.tolist()):
        arms = list(player.choose(case))
        player.learn(case, arms, (luck[number, arms] < world.rates[case, arms]).astype(float).tolist())
        total += world.rates[case, arms].sum()
    return total / order.size


def order_of(world: World, run: int, rounds: int) -> Array:
    """Return the cases of a run: all of them in random order, again and again."""
    rng, n = np.random.default_rng((7, run)), len(world.rates)
    return np.concatenate([rng.permutation(n) for _ in range(-(-rounds // n))])[:rounds]


def measure(world: World, runs: int, rounds: int, players: Iterable[str] = PLAYERS) -> dict[str, Any]:
    """Return for each player its mean reward a round, a 95% interval over the runs, and its time; or why it is not."""
    found: dict[str, Any] = {}
    for name in players:
        make, earned = PLAYERS[name], []
        try:
            play(make(world, 0), world, order_of(world, 0, 8), 0)  # nothing is compiled in what is timed
            began = time.process_time()
            for run in range(runs):
                earned.append(play(make(world, run), world, order_of(world, run, rounds), run))
        except Skipped as reason:
            found[name] = {"skipped": str(reason)}
            continue
        mean, each = float(np.mean(earned)), 1000 * (time.process_time() - began) / (runs * rounds)
        half = float(stats.t.ppf(0.975, runs - 1) * stats.sem(earned)) if runs > 1 else float("nan")
        found[name] = {"mean": mean, "low": mean - half, "high": mean + half, "milliseconds": each, "runs": earned}
    return found


def show(results: dict[str, dict[str, Any]]) -> None:
    """Print a table, and below it who is not in it and why."""
    names = list(results)
    digits = {name: 4 if results[name]["oracle"] < 0.1 else 3 for name in names}
    print(f"| reward a round | {' | '.join(names)} |\n|---|{'---|' * len(names)}")
    shown: list[str] = []
    for player in PLAYERS:
        cells = [results[name]["players"][player] for name in names]
        if all("skipped" in one for one in cells):
            shown.append(f"{player}: skipped, {cells[0]['skipped']}")
            continue
        texts = []
        for name, one in zip(names, cells, strict=True):
            said = [f"{one[key]:.{digits[name]}f}" for key in ("mean", "low", "high") if "skipped" not in one]
            texts.append(f"{said[0]} [{said[1]}, {said[2]}]" if said else "-")
        print(f"| {player} | {' | '.join(texts)} |")
    for row, key in (("*guessing*", "guessing"), ("*offline linear oracle*", "oracle")):
        print(f"| {row} | {' | '.join(f'{results[name][key]:.{digits[name]}f}' for name in names)} |")
    print()
    for name in names:
        one = results[name]
        times = ", ".join(f"{p} {x['milliseconds']:.2f}" for p, x in one["players"].items() if "milliseconds" in x)
        print(f"{name}: {one['about']}, d={one['dimension']}, T={one['rounds']:,}, {one['runs']} runs.")
        print(f"  Milliseconds of processor time a round: {times}.")
    for line in shown:
        print(line)


def main(arguments: Sequence[str]) -> None:
    """Play all players in all worlds."""
    parser = argparse.ArgumentParser(prog="make compare ARGS=contexts", description=__doc__)
    parser.add_argument("--runs", type=int, default=6, help="how often each player plays each world")
    parser.add_argument("--rounds", type=int, help="at most so many rounds")
    parser.add_argument("--only", nargs="+", choices=WORLDS, help="these worlds alone")
    parser.add_argument("--json", help="a file for all numbers")
    options = parser.parse_args(arguments)
    results: dict[str, dict[str, Any]] = {}
    for name in options.only or WORLDS:
        try:
            world = WORLDS[name]()
        except Skipped as reason:
            print(f"{name} is skipped: {reason}")
            continue
        rounds = min(world.rounds, options.rounds or world.rounds)
        results[world.name] = {
            "about": world.about,
            "dimension": world.contexts.shape[2],
            "rounds": rounds,
            "runs": options.runs,
            "guessing": float(world.budget * world.rates.mean()),
            "oracle": oracle(world),
            "players": measure(world, options.runs, rounds),
        }
        if options.json:  # after each world: they take minutes
            Path(options.json).write_text(json.dumps(results, indent=1), encoding="utf-8")
    show(results)
    print(versions())
