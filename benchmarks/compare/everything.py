"""What people use instead, on the same worlds and luck: slates, eligible arms, late clicks, contexts; docs/compare.md.

A run draws the means of its arms and all its luck beforehand, so every player meets the same. A player that cannot do
what a contest asks for is left out of it, with its reason, and so is one that does not install.
"""

from __future__ import annotations

import argparse
import math
import pickle
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from armtriage import CombUCB1, GuardedIndex, GuardedThompson, ThompsonSampling
from benchmarks.compare import contexts
from benchmarks.compare.peers import PEERS, Skipped, bring, versions

PAGE = Path(__file__).parents[2] / "docs" / "compare.md"
_SLOW = 0.005  # seconds a round from which on a player plays a quarter of the runs
Array = NDArray[Any]


class Cannot(Exception):
    """What a player cannot do."""


class World(NamedTuple):
    """A contest: `means` draws those of a run; `quiet` is the size of a Beta law, or 0 for clicks."""

    about: str
    means: Callable[[np.random.Generator], Array]
    n_arms: int = 100
    budget: int = 5
    quiet: float = 0.0
    eligible: float = 1.0  # how many of the arms there are in a round
    delay: int = 0  # rounds after which rewards come


WORLDS = {
    "clicks of 50%": World("5 of 100 arms, means of Beta(4, 4)", lambda rng: rng.beta(4, 4, 100)),
    "clicks of 2%": World("5 of 100 arms, means of Beta(2, 98)", lambda rng: rng.beta(2, 98, 100)),
    "quiet rewards": World(
        "5 of 100 arms, rewards of a Beta law of size 30", lambda rng: rng.beta(2, 2, 100), quiet=30.0
    ),
    "eligible arms": World(
        "5 of 100 arms, of which half are there in a round", lambda rng: rng.beta(4, 4, 100), eligible=0.5
    ),
    "late clicks": World("5 of 100 arms, rewards come after 200 rounds", lambda rng: rng.beta(4, 4, 100), delay=200),
}


class Ours:
    """A policy of armtriage."""

    def __init__(self, kind: Any, n_arms: int, budget: int, seed: int) -> None:
        self.policy = kind(n_arms, budget=budget, seed=seed)

    def choose(self, eligible: Array | None) -> tuple[Any, Sequence[int]]:
        decision = self.policy.ask() if eligible is None else self.policy.ask(eligible=eligible)
        return decision, decision.arms

    def learn(self, note: Any, arms: Sequence[int], rewards: Array) -> None:
        self.policy.tell(note, rewards)


class NumpyThompson:
    """What people write themselves: a Beta posterior for each arm."""

    def __init__(self, n_arms: int, budget: int, seed: int) -> None:
        self.rng, self.budget = np.random.default_rng(seed), budget
        self.hits, self.misses = np.ones(n_arms), np.ones(n_arms)

    def scores(self) -> Array:
        return self.rng.beta(self.hits, self.misses)

    def choose(self, eligible: Array | None) -> tuple[Any, Sequence[int]]:
        scores = self.scores()
        if eligible is None:
            return None, np.argpartition(-scores, self.budget)[: self.budget]
        return None, eligible[np.argpartition(-scores[eligible], self.budget)[: self.budget]]

    def learn(self, note: Any, arms: Sequence[int], rewards: Array) -> None:
        self.hits[arms] += rewards
        self.misses[arms] += 1.0 - rewards


class NumpyEpsilon(NumpyThompson):
    """Ten percent of the rounds at random, otherwise the best averages."""

    def scores(self) -> Array:
        if self.rng.random() < 0.1:
            return self.rng.random(self.hits.size)
        return self.hits / (self.hits + self.misses)


class MabWiser:
    """MABWiser's scores of all arms; the largest are taken."""

    def __init__(self, policy: str, n_arms: int, budget: int, seed: int) -> None:
        mab = bring("mabwiser.mab")
        kinds = {"ThompsonSampling": mab.LearningPolicy.ThompsonSampling, "UCB1": mab.LearningPolicy.UCB1}
        self.mab = mab.MAB(list(range(n_arms)), kinds[policy](), seed=seed)
        self.budget, self.binary = budget, policy == "ThompsonSampling"
        # It has to be fitted once before it is asked; each arm has one made-up reward, which later ones outweigh.
        self.mab.fit([*range(n_arms), *range(n_arms)] if self.binary else list(range(n_arms)), self._first(n_arms))

    def _first(self, n_arms: int) -> list[int]:
        return [0] * n_arms + [1] * n_arms if self.binary else [1] * n_arms

    def choose(self, eligible: Array | None) -> tuple[Any, Sequence[int]]:
        scores = self.mab.predict_expectations()
        arms = range(len(scores)) if eligible is None else eligible.tolist()
        return None, sorted(arms, key=lambda arm: -scores[arm])[: self.budget]

    def learn(self, note: Any, arms: Sequence[int], rewards: Array) -> None:
        if self.binary and not np.isin(rewards, (0.0, 1.0)).all():
            raise Cannot("takes rewards of 0 and 1 only")
        self.mab.partial_fit(list(map(int, arms)), rewards.astype(int if self.binary else float).tolist())


class River:
    """River chooses one arm of those it is given: it is asked again for each slot, without those chosen before."""

    def __init__(self, policy: str, n_arms: int, budget: int, seed: int) -> None:
        bandit, proba, stats_of = bring("river.bandit"), bring("river.proba"), bring("river.stats")
        made = {
            "ThompsonSampling": lambda: bandit.ThompsonSampling(reward_obj=proba.Beta(seed=seed), seed=seed),
            "UCB": lambda: bandit.UCB(delta=1.0, reward_obj=stats_of.Mean(), seed=seed),
        }
        self.policy, self.arms, self.budget = made[policy](), list(range(n_arms)), budget
        self.binary = policy == "ThompsonSampling"

    def choose(self, eligible: Array | None) -> tuple[Any, Sequence[int]]:
        left = list(self.arms) if eligible is None else eligible.tolist()
        chosen = []
        for _ in range(self.budget):
            chosen.append(self.policy.pull(left))
            left.remove(chosen[-1])
        return None, chosen

    def learn(self, note: Any, arms: Sequence[int], rewards: Array) -> None:
        if self.binary and not np.isin(rewards, (0.0, 1.0)).all():
            raise Cannot("takes rewards of 0 and 1 only")
        for arm, reward in zip(arms, rewards.tolist(), strict=True):
            self.policy.update(arm, bool(reward) if self.binary else reward)


class OpenBandit:
    """Open Bandit Pipeline's Bernoulli Thompson sampling, which fills lists."""

    def __init__(self, n_arms: int, budget: int, seed: int) -> None:
        kind = bring("obp.policy").BernoulliTS
        self.policy = kind(n_actions=n_arms, len_list=budget, random_state=seed)

    def choose(self, eligible: Array | None) -> tuple[Any, Sequence[int]]:
        if eligible is not None:
            raise Cannot("has no eligible arms")
        return None, self.policy.select_action().tolist()

    def learn(self, note: Any, arms: Sequence[int], rewards: Array) -> None:
        if not np.isin(rewards, (0.0, 1.0)).all():
            raise Cannot("takes rewards of 0 and 1 only")
        for arm, reward in zip(arms, rewards.tolist(), strict=True):
            self.policy.update_params(int(arm), reward)


class BayesianBandits:
    """Bayesianbandits with a Dirichlet posterior for each arm."""

    def __init__(self, n_arms: int, budget: int, seed: int) -> None:
        of = bring("bayesianbandits")
        prior = {1: 1.0, 0: 1.0}
        arms = [of.Arm(arm, _first_column, of.DirichletClassifier(prior)) for arm in range(n_arms)]
        self.agent, self.budget = of.Agent(arms, of.ThompsonSampling(), random_seed=seed), budget

    def choose(self, eligible: Array | None) -> tuple[Any, Sequence[int]]:
        if eligible is not None:
            raise Cannot("has no eligible arms")
        return None, [int(arm) for arm in self.agent.pull(top_k=self.budget)[0]]

    def learn(self, note: Any, arms: Sequence[int], rewards: Array) -> None:
        if not np.isin(rewards, (0.0, 1.0)).all():
            raise Cannot("takes rewards of 0 and 1 only with this posterior")
        for arm, reward in zip(arms, rewards.astype(int).tolist(), strict=True):
            self.agent.select_for_update(arm).update(np.atleast_1d(reward))


def _first_column(drawn: Array) -> Array:
    return np.take(drawn, 0, axis=-1)


class PyBandits:
    """PyBandits' Bernoulli bandit, asked again for each slot, without those chosen before."""

    def __init__(self, n_arms: int, budget: int, seed: int) -> None:
        bring("pybandits")
        model, smab = bring("pybandits.model"), bring("pybandits.smab")
        np.random.seed(seed)  # noqa: NPY002 - it draws from NumPy's global state
        self.bandit = smab.SmabBernoulli(actions={str(arm): model.Beta() for arm in range(n_arms)})
        self.budget, self.every = budget, {str(arm) for arm in range(n_arms)}

    def choose(self, eligible: Array | None) -> tuple[Any, Sequence[int]]:
        out = set() if eligible is None else self.every - set(map(str, eligible.tolist()))
        chosen: list[int] = []
        for _ in range(self.budget):
            action = self.bandit.predict(n_samples=1, forbidden_actions=out | set(map(str, chosen)) or None)[0][0]
            chosen.append(int(action))
        return None, chosen

    def learn(self, note: Any, arms: Sequence[int], rewards: Array) -> None:
        if not np.isin(rewards, (0.0, 1.0)).all():
            raise Cannot("takes rewards of 0 and 1 only")
        self.bandit.update(actions=[str(arm) for arm in arms], rewards=rewards.astype(int).tolist())


PLAYERS: dict[str, Callable[[int, int, int], Any]] = {
    "`GuardedThompson`": partial(Ours, GuardedThompson),
    "`GuardedIndex`": partial(Ours, GuardedIndex),
    "`ThompsonSampling`": partial(Ours, ThompsonSampling),
    "`CombUCB1`": partial(Ours, CombUCB1),
    "NumPy, Beta Thompson": NumpyThompson,
    "NumPy, epsilon-greedy": NumpyEpsilon,
    "MABWiser Thompson": partial(MabWiser, "ThompsonSampling"),
    "MABWiser UCB1": partial(MabWiser, "UCB1"),
    "River Thompson": partial(River, "ThompsonSampling"),
    "River UCB": partial(River, "UCB"),
    "Open Bandit Pipeline, BernoulliTS": OpenBandit,
    "bayesianbandits Thompson": BayesianBandits,
    "pybandits": PyBandits,
}
OTHERS = {  # peers without an adapter for slates, and why
    "vowpalwabbit": "chooses one action by contexts: see above",
    "contextualbandits": "needs contexts: see above",
    "calvera": "needs contexts, and torch",
}


def play(player: Any, world: World, seed: int, rounds: int) -> tuple[float, float]:
    """Return the regret of a run, and the processor seconds of the player in it."""
    rng = np.random.default_rng((9, seed))
    means = world.means(rng)
    waiting: list[tuple[Any, Sequence[int], Array]] = []
    lost = spent = 0.0
    for number in range(rounds):
        own = np.random.default_rng((10, seed, number))  # the luck of a round, whatever is chosen
        eligible = None
        if world.eligible < 1.0:
            eligible = np.sort(own.permutation(world.n_arms)[: round(world.n_arms * world.eligible)])
        rewards = (
            own.beta(world.quiet * means, world.quiet * (1 - means))
            if world.quiet
            else (own.random(world.n_arms) < means).astype(float)
        )
        began = time.process_time()
        note, arms = player.choose(eligible)
        spent += time.process_time() - began
        there = means if eligible is None else means[eligible]
        lost += float(np.sort(there)[-world.budget :].sum() - means[list(arms)].sum())
        waiting.append((note, arms, rewards[list(arms)]))
        if len(waiting) > world.delay:
            began = time.process_time()
            player.learn(*waiting.pop(0))
            spent += time.process_time() - began
    return lost, spent


def measure(world: World, runs: int, rounds: int, players: Iterable[str]) -> dict[str, Any]:
    """Return of each player its mean regret with an interval, and its time a round; or why it is not there."""
    found: dict[str, Any] = {}
    for name in players:
        make = PLAYERS[name]
        try:
            # Nothing is compiled in what is timed, and who is slow plays fewer runs.
            play(make(world.n_arms, world.budget, 0), world, 0, 8 + world.delay)
            tried = play(make(world.n_arms, world.budget, 0), world, 0, 20 + world.delay)[1] / (20 + world.delay)
            own = max(2, runs // 4) if tried > _SLOW else runs
            played = [play(make(world.n_arms, world.budget, run), world, run, rounds) for run in range(own)]
        except (Skipped, Cannot) as reason:
            found[name] = {"left_out": str(reason)}
            continue
        except Exception as error:  # it is not ours to say what may go wrong there
            found[name] = {"left_out": f"{type(error).__name__}: {error}".splitlines()[0][:160]}
            continue
        lost, spent = zip(*played, strict=True)
        half = float(stats.t.ppf(0.975, own - 1) * stats.sem(lost)) if own > 1 else math.inf
        each = 1e6 * sum(spent) / (own * rounds)
        found[name] = {"mean": float(np.mean(lost)), "half": half, "microseconds": each, "runs": own}
    return found


def _in_one_call(name: str) -> bool:
    return not name.startswith(("River", "pybandits"))


def _eligible(make: Any) -> bool:
    player, some = make(12, 2, 7), np.array([3, 5, 8, 9])
    for _ in range(20):
        note, arms = player.choose(some)
        if not set(map(int, arms)) <= set(some.tolist()):
            return False
        player.learn(note, arms, np.ones(2))
    return True


def _late(make: Any) -> bool:
    """Whether rewards that come 30 decisions later reach their arms: two arms always pay, and are found."""
    player, waiting, shown = make(12, 2, 7), [], []
    for _ in range(400):
        note, arms = player.choose(None)
        waiting.append((note, arms))
        shown.append(sorted(map(int, arms)))
        if len(waiting) > 30:
            note, arms = waiting.pop(0)
            player.learn(note, arms, np.array([float(arm in (4, 7)) for arm in arms]))
    return sum(arm in (4, 7) for one in shown[100:] for arm in one) > 200  # of 600; by chance it would be 100


def _saved(make: Any) -> bool:
    """Whether a copy by pickle decides as the original does."""
    player = make(12, 2, 7)
    for _ in range(30):
        note, arms = player.choose(None)
        player.learn(note, arms, np.array([float(arm < 3) for arm in arms]))
    copy = pickle.loads(pickle.dumps(player))
    ahead = []
    for one in (player, copy):
        np.random.seed(7)  # noqa: NPY002 - where a player draws from NumPy's global state, it is the same for both
        made = []
        for _ in range(20):
            note, arms = one.choose(None)
            one.learn(note, arms, np.array([float(arm < 3) for arm in arms]))
            made.append(sorted(map(int, arms)))
        ahead.append(made)
    return ahead[0] == ahead[1]


PROBES: dict[str, Callable[[Any], bool]] = {
    "eligible arms": _eligible,
    "late rewards": _late,
    "equal after pickle": _saved,
}


def abilities() -> dict[str, dict[str, str]]:
    """Return what each player has shown that it can do."""
    found: dict[str, dict[str, str]] = {}
    for name, make in PLAYERS.items():
        try:
            make(4, 2, 0)
        except Skipped:
            continue
        found[name] = {"a slate in one call": "yes" if _in_one_call(name) else "no"}
        for probe, tried in PROBES.items():
            try:
                found[name][probe] = "yes" if tried(make) else "no"
            except Exception:  # whatever it is, it cannot
                found[name][probe] = "no"
    return found


def _cell(one: dict[str, Any]) -> str:
    return f"{one['mean']:,.0f} ± {one['half']:,.0f}" if "mean" in one else "-"


def _earned(one: dict[str, Any]) -> str:
    return f"{one['mean']:.3f} [{one['low']:.3f}, {one['high']:.3f}]"


def _winners(name: str, found: dict[str, Any]) -> str | None:
    """Return a sentence about the peers that lost less than our default, if there are any."""
    ours = found["`GuardedThompson`"]
    if "mean" not in ours:
        return None
    better = {
        peer: one
        for peer, one in found.items()
        if not peer.startswith("`") and "mean" in one and one["mean"] < ours["mean"]
    }
    if not better:
        return None
    told = ", ".join(f"{peer} {_cell(one)}" for peer, one in sorted(better.items(), key=lambda item: item[1]["mean"]))
    return f"- **{name}**: {told}, where `GuardedThompson` lost {_cell(ours)}."


def page(results: dict[str, Any], able: dict[str, Any], linear: dict[str, Any], runs: int, rounds: int) -> str:
    """Return the page."""
    lines = [
        "# Beside everything else",
        "",
        f"Made by `make compare ARGS=everything`: {runs} runs of {rounds:,} rounds, the same means and luck for all "
        "players, default options throughout. Regret, what was lost against the best decisions: mean and 95% interval. "
        "Runs of less than some 10,000 rounds show how players begin, and a few of them settle large differences only.",
        "",
        "## Where others win",
        "",
    ]
    won = [said for name, found in results.items() if (said := _winners(name, found))]
    lines += won or ["In this run no peer lost less than `GuardedThompson` in any contest of slates."]
    first = next(iter(results.values()))
    quick = first["`GuardedThompson`"].get("microseconds", math.inf)
    faster = [
        f"{peer} ({one['microseconds']:,.0f})"
        for peer, one in first.items()
        if not peer.startswith("`") and one.get("microseconds", math.inf) < quick
    ]
    if faster:
        lines += ["", f"Faster than `GuardedThompson` ({quick:,.0f} µs a round): {', '.join(faster)}."]
    for world, one in linear.items():
        own = one["players"]["`GuardedLinear`"]
        for player, other in one["players"].items():
            if not player.startswith("`") and other.get("mean", -math.inf) > own["mean"]:
                told = f"{player} earns {_earned(other)} a round, where `GuardedLinear` earns {_earned(own)}"
                lines += ["", f"With contexts, **{world}**: {told}."]
    lines += ["", "## Slates", "", f"| regret | {' | '.join(results)} |", f"|---|{'---|' * len(results)}"]
    for player in PLAYERS:
        if any("mean" in found[player] for found in results.values()):
            lines.append(f"| {player} | {' | '.join(_cell(found[player]) for found in results.values())} |")
    lines += ["", *(f"- *{name}*: {WORLDS[name].about}." for name in results)]
    lines += ["", "A dash, or no row: the player cannot play this.", ""]
    for player in PLAYERS:
        reasons = {name: found[player]["left_out"] for name, found in results.items() if "left_out" in found[player]}
        if len(set(reasons.values())) == 1 and len(reasons) == len(results):
            lines.append(f"- {player}: {next(iter(reasons.values()))}.")
        else:
            lines += [f"- {player}, {name}: {reason}." for name, reason in reasons.items()]
    lines += [
        "",
        "## Time",
        "",
        "Microseconds of processor time for a decision and its rewards; above 5,000, a quarter of the runs.",
        "",
    ]
    lines += [f"| | {' | '.join(results)} |", f"|---|{'---|' * len(results)}"]
    for player in PLAYERS:
        times = [found[player].get("microseconds") for found in results.values()]
        if any(times):
            lines.append(f"| {player} | {' | '.join('-' if one is None else f'{one:,.0f}' for one in times)} |")
    if linear:
        lines += [
            "",
            "## Contexts",
            "",
            "Reward a round, and 95% interval; the worlds are those of `make compare ARGS=contexts`.",
            "",
        ]
        lines += [f"| | {' | '.join(linear)} |", f"|---|{'---|' * len(linear)}"]
        for player in contexts.PLAYERS:
            cells = [one["players"][player] for one in linear.values()]
            if any("mean" in one for one in cells):
                shown = (_earned(one) if "mean" in one else "-" for one in cells)
                lines.append(f"| {player} | {' | '.join(shown)} |")
        lines += [
            "",
            *(
                f"- *{world}*: {one['about']}, {one['runs']} runs of {one['rounds']:,}."
                for world, one in linear.items()
            ),
        ]
    lines += [
        "",
        "## What each can do",
        "",
        "The first column says how its adapter asks; all others are programs that were run (`benchmarks/compare`):",
        "",
    ]
    probes = list(next(iter(able.values())))
    lines += [f"| | {' | '.join(probes)} |", f"|---|{'---|' * len(probes)}"]
    lines += [f"| {player} | {' | '.join(one[probe] for probe in probes)} |" for player, one in able.items()]
    lines += [
        "",
        "A slate in one call: other players are asked for one arm after the other. Only armtriage has certificates.",
    ]
    lines += ["", "## Not here", ""]
    for peer in PEERS:
        try:
            bring(peer)
        except Skipped as reason:
            lines.append(f"- {reason}.")
        else:
            if peer in OTHERS:
                lines.append(f"- {peer}: {OTHERS[peer]}.")
    lines += ["", f"Versions: {versions()}.", ""]
    return "\n".join(lines)


def main(arguments: Sequence[str]) -> None:
    """Play everything, and write the page."""
    parser = argparse.ArgumentParser(prog="make compare ARGS=everything", description=__doc__)
    parser.add_argument("--runs", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=10_000)
    parser.add_argument("--only", nargs="+", choices=WORLDS, help="these contests alone")
    parser.add_argument("--players", nargs="+", choices=PLAYERS, help="these players alone")
    parser.add_argument("--no-contexts", action="store_true")
    parser.add_argument("--out", type=Path, default=PAGE, help="where the page goes")
    given = parser.parse_args(arguments)
    players = given.players or list(PLAYERS)
    results: dict[str, Any] = {}
    for name in given.only or WORLDS:
        blank = {player: {"left_out": "was not asked to play"} for player in PLAYERS}
        results[name] = blank | measure(WORLDS[name], given.runs, given.rounds, players)
        for player in players:
            one = results[name][player]
            print(f"{name}, {player}: {_cell(one) if 'mean' in one else one['left_out']}", flush=True)
    linear: dict[str, Any] = {}
    if not given.no_contexts:
        world = contexts.digits(1)
        rounds = min(world.rounds, given.rounds)
        runs = max(2, given.runs // 2)
        found = contexts.measure(world, runs, rounds)
        linear[world.name] = {"about": world.about, "players": found, "runs": runs, "rounds": rounds}
    given.out.write_text(page(results, abilities(), linear, given.runs, given.rounds), encoding="utf-8")
    print(f"{given.out} is written")
