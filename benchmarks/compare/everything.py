"""What people use instead, on the same worlds and luck: docs/compare.md.

A run draws the means of its arms and all its luck beforehand, so every player meets the same. A player that cannot do
what a contest asks for is left out of it, with its reason, and so is one that does not install. What was played is kept
in a file, and not played again.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from armtriage import FeedbackGraph
from benchmarks.compare import contexts
from benchmarks.compare.adapters import OTHERS, PLAYERS, Cannot, abilities
from benchmarks.compare.peers import PEERS, Skipped, bring, versions

PAGE = Path(__file__).parents[2] / "docs" / "compare.md"
_LEVEL = "; their intervals overlap, so this does not settle which is better"
_LEAST = 4  # runs that a slow player plays, unless they take four times the seconds that it has
Array = NDArray[Any]


class World(NamedTuple):
    """A contest: `means` draws those of a run; `quiet` is the size of a Beta law, or 0 for clicks."""

    about: str
    means: Callable[[np.random.Generator], Array]
    n_arms: int = 100
    budget: int = 5
    quiet: float = 0.0
    eligible: float = 1.0  # how many of the arms there are in a round
    delay: int = 0  # rounds after which rewards come
    clique: int = 1  # arms in a clique, each of which reveals all of it
    drift: bool = False  # whether the means change places halfway
    longer: int = 1  # times the rounds of other contests

    @property
    def graph(self) -> FeedbackGraph | int:
        """What a policy of armtriage is made of."""
        return self.n_arms if self.clique == 1 else FeedbackGraph.cliques([self.clique] * (self.n_arms // self.clique))

    def seen(self, arms: Array) -> Array:
        """Return the arms whose rewards are seen, ascending where a graph says it."""
        if self.clique == 1:
            return arms
        return (np.unique(arms // self.clique)[:, None] * self.clique + np.arange(self.clique)).ravel()


WORLDS = {
    "clicks of 50%": World("5 of 100 arms, means of Beta(4, 4)", lambda rng: rng.beta(4, 4, 100)),
    "clicks of 2%": World(
        "5 of 100 arms, means of Beta(2, 98), five times as many rounds", lambda rng: rng.beta(2, 98, 100), longer=5
    ),
    "1,000 arms": World(
        "20 of 1,000 arms, means of Beta(4, 4)", lambda rng: rng.beta(4, 4, 1000), n_arms=1000, budget=20
    ),
    "quiet rewards": World(
        "5 of 100 arms, rewards of a Beta law of size 30", lambda rng: rng.beta(2, 2, 100), quiet=30.0
    ),
    "graph feedback": World(
        "5 of 100 arms in 20 cliques, an arm reveals its clique, and all players are told of it",
        lambda rng: rng.beta(4, 4, 100),
        clique=5,
    ),
    "eligible arms": World(
        "5 of 100 arms, of which half are there in a round", lambda rng: rng.beta(4, 4, 100), eligible=0.5
    ),
    "late clicks": World("5 of 100 arms, rewards come after 200 rounds", lambda rng: rng.beta(4, 4, 100), delay=200),
    "drift": World(
        "3 of 20 arms, whose means change places halfway",
        lambda rng: rng.permutation(np.linspace(0.1, 0.6, 20)),
        n_arms=20,
        budget=3,
        drift=True,
    ),
}


def play(player: Any, world: World, seed: int, rounds: int) -> tuple[float, float, float]:
    """Return the regret of a run, and the processor seconds that the player chose and learned in it."""
    rng = np.random.default_rng((9, seed))
    means = world.means(rng)
    waiting: list[tuple[Any, Array, Array]] = []
    lost = chose = learned = 0.0
    for number in range(rounds):
        if world.drift and 2 * number == rounds:
            means = rng.permutation(means)
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
        note, chosen = player.choose(eligible)
        chose += time.process_time() - began
        arms = np.asarray(chosen)
        there = means if eligible is None else means[eligible]
        lost += float(np.sort(there)[-world.budget :].sum() - means[arms].sum())
        seen = world.seen(arms)
        waiting.append((note, seen, rewards[seen]))
        if len(waiting) > world.delay:
            began = time.process_time()
            player.learn(*waiting.pop(0))
            learned += time.process_time() - began
    return lost, chose, learned


def measure(name: str, world: World, runs: int, rounds: int, seconds: float) -> dict[str, Any]:
    """Return a player's mean regret with an interval, and its time a round; or why it is not there.

    A slow player plays as many runs as it has `seconds` for, but at least four; one too slow for those plays none.
    """
    rounds *= world.longer
    arms = world.graph if name.startswith("`") else world.n_arms

    def played(seed: int, rounds: int) -> tuple[float, float, float]:
        return play(PLAYERS[name](arms, world.budget, seed), world, seed, rounds)

    try:
        # Nothing is compiled in what is timed, and a slow player plays fewer runs.
        played(0, 8 + world.delay)
        each = sum(played(0, 20 + world.delay)[1:]) / (20 + world.delay) * rounds
        own = min(runs, max(_LEAST, int(seconds / each)))
        if own * each > max(4 * seconds, 1.0):
            raise Cannot(f"a run of {rounds:,} rounds would take some {each:,.0f} s")
        lost, chose, learned = zip(*(played(run, rounds) for run in range(own)), strict=True)
    except (Skipped, Cannot) as reason:
        return {"left_out": str(reason)}
    except Exception as error:  # it is not ours to say what may go wrong there
        return {"left_out": f"{type(error).__name__}: {error}".splitlines()[0][:160]}
    half = float(stats.t.ppf(0.975, own - 1) * stats.sem(lost)) if own > 1 else math.inf
    ask, tell = (1e6 * sum(spent) / (own * rounds) for spent in (chose, learned))
    return {"mean": float(np.mean(lost)), "half": half, "ask": ask, "tell": tell, "runs": own}


def _cell(one: dict[str, Any]) -> str:
    few = f" ({one['runs']})" if one.get("runs", 0) and one["runs"] < one.get("of", 0) else ""
    return f"{one['mean']:,.0f} ± {one['half']:,.0f}{few}" if "mean" in one else "-"


def _time(one: dict[str, Any]) -> float:
    return one["ask"] + one["tell"] if "ask" in one else math.inf


def _earned(one: dict[str, Any]) -> str:
    return f"{one['mean']:.3f} [{one['low']:.3f}, {one['high']:.3f}]" if "mean" in one else "-"


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
    least = ours["mean"] - ours["half"]
    level = all(one["mean"] + one["half"] >= least for one in better.values())
    return f"- **{name}**: {told}, where `GuardedThompson` lost {_cell(ours)}{_LEVEL if level else ''}."


def _fewer(results: dict[str, Any], rounds: int) -> list[str]:
    """Return a line for each player and contest with fewer runs than were asked for: what a run takes."""
    lines = []
    for player in PLAYERS:
        slow = []
        for name, found in results.items():
            one = found[player]
            if one.get("runs", 0) < one.get("of", 0) and "mean" in one:
                each = 1e-6 * _time(one) * rounds * WORLDS[name].longer
                slow.append(f"{name} {one['runs']} of {one['of']}, {each:,.0f} s each")
        if slow:
            lines.append(f"- {player}: {'; '.join(slow)}.")
    return lines


def page(results: dict[str, Any], able: dict[str, Any], linear: dict[str, Any], runs: int, rounds: int) -> str:
    """Return the page."""
    lines = [
        "# Beside everything else",
        "",
        f"Made by `make compare ARGS=everything`: {runs} runs of {rounds:,} rounds, the same means and luck for all "
        "players, default options throughout. Regret is what was lost against the best decisions: mean and 95% "
        "interval; a number in brackets says that a slow player played only so many runs. Runs of a few thousand "
        "rounds show how players begin, not where they end.",
        "",
        "## Where others win",
        "",
    ]
    won = [said for name, found in results.items() if (said := _winners(name, found))]
    lines += won or ["In this run no peer lost less than `GuardedThompson` in any contest of slates."]
    first = next(iter(results.values()))
    quick = _time(first["`GuardedThompson`"])
    faster = [
        f"{peer} ({_time(one):,.0f})" for peer, one in first.items() if not peer.startswith("`") and _time(one) < quick
    ]
    if faster:
        lines += ["", f"Faster than `GuardedThompson` ({quick:,.0f} µs a round): {', '.join(faster)}."]
    for world, one in linear.items():
        own = one["players"].get("`GuardedLinear`", {})
        better = {
            player: other
            for player, other in sorted(one["players"].items(), key=lambda item: -item[1].get("mean", -math.inf))
            if not player.startswith("`") and other.get("mean", -math.inf) > own.get("mean", math.inf)
        }
        if better:
            told = ", ".join(f"{player} {_earned(other)}" for player, other in better.items())
            level = _LEVEL if all(other["low"] <= own["high"] for other in better.values()) else ""
            lines += [
                "",
                f"With contexts, **{world}**: {told} earned more per round than `GuardedLinear` {_earned(own)}{level}.",
            ]
    lines += ["", "## Slates", "", f"| regret | {' | '.join(results)} |", f"|---|{'---|' * len(results)}"]
    for player in PLAYERS:
        if any("mean" in found[player] for found in results.values()):
            lines.append(f"| {player} | {' | '.join(_cell(found[player]) for found in results.values())} |")
    lines += ["", *(f"- *{name}*: {WORLDS[name].about}." for name in results)]
    fewer = _fewer(results, rounds)
    if fewer:
        lines += [
            "",
            "Players with fewer runs, for want of time, and the processor time that one run takes:",
            "",
            *fewer,
        ]
    lines += ["", "A dash, or no row: the player cannot play this, or has not played it.", ""]
    for player in PLAYERS:
        reasons: dict[str, list[str]] = {}
        for name, found in results.items():
            if "left_out" in found[player]:
                reasons.setdefault(found[player]["left_out"], []).append(name)
        for reason, names in reasons.items():
            where = "" if len(names) == len(results) else f", {', '.join(names)}"
            lines.append(f"- {player}{where}: {reason}.")
    lines += [
        "",
        "## Time",
        "",
        "Microseconds of processor time to decide and to learn the rewards, on average, on a machine that did other "
        "things as well: orders of magnitude, not percents.",
        "",
    ]
    lines += [f"| | {' | '.join(results)} |", f"|---|{'---|' * len(results)}"]
    for player in PLAYERS:
        times = [found[player] for found in results.values()]
        if any("ask" in one for one in times):
            shown = (f"{one['ask']:,.0f} + {one['tell']:,.0f}" if "ask" in one else "-" for one in times)
            lines.append(f"| {player} | {' | '.join(shown)} |")
    if any(one["players"] for one in linear.values()):
        lines += [
            "",
            "## Contexts",
            "",
            "Mean reward per round, and 95% interval; the worlds are those of `make compare ARGS=contexts`.",
            "",
        ]
        lines += [f"| | {' | '.join(linear)} |", f"|---|{'---|' * len(linear)}"]
        for player in contexts.PLAYERS:
            cells = [one["players"].get(player, {}) for one in linear.values()]
            if any("mean" in one for one in cells):
                lines.append(f"| {player} | {' | '.join(map(_earned, cells))} |")
        lines += [
            "",
            *(
                f"- *{world}*: {one['about']}, {one['runs']} runs of {one['rounds']:,}."
                for world, one in linear.items()
            ),
        ]
    else:
        told = "were not played in this run; [Raw features](raw-features.md) has them beside MABWiser and Vowpal Wabbit"
        lines += ["", "## Contexts", "", f"Contexts {told}, by `make compare ARGS=contexts`."]
    lines += [
        "",
        "## What each can do",
        "",
        "Each cell is a program that was run (`benchmarks/compare/adapters.py`): only eligible arms are chosen; "
        "rewards that come 30 decisions later reach their arms; a copy by pickle decides as the original does; arms "
        "have names; four threads choose and learn at once; the probability of each arm is known; a log says "
        'what other decisions would have earned. "No" may mean that we found no way. That a service survives a '
        "`kill -9` is tried in `tests/service`; no other player here serves.",
        "",
    ]
    probes = list(next(iter(able.values())))
    lines += [f"| | {' | '.join(probes)} |", f"|---|{'---|' * len(probes)}"]
    lines += [f"| {player} | {' | '.join(one[probe] for probe in probes)} |" for player, one in able.items()]
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
    parser.add_argument("--rounds", type=int, default=1_000)
    parser.add_argument("--seconds", type=float, default=8.0, help="processor seconds that a player has for a contest")
    parser.add_argument("--only", nargs="+", choices=WORLDS, default=list(WORLDS), help="these contests alone")
    parser.add_argument("--players", nargs="+", choices=PLAYERS, default=list(PLAYERS), help="these players alone")
    parser.add_argument("--no-contexts", action="store_true")
    parser.add_argument("--kept", type=Path, help="a file for what was played, which goes on from there")
    parser.add_argument("--page", action="store_true", help="play nothing, and write the page of what was kept")
    parser.add_argument("--out", type=Path, default=PAGE, help="where the page goes")
    given = parser.parse_args(arguments)
    kept = json.loads(given.kept.read_text(encoding="utf-8")) if given.kept and given.kept.exists() else {}

    def once(names: Sequence[str], make: Callable[..., Any], *asked: Any) -> Any:
        key = json.dumps([given.runs, given.rounds, *names])
        if key not in kept and given.page:
            return {}
        if key not in kept:
            kept[key] = make(*asked)
            if given.kept:
                given.kept.write_text(json.dumps(kept, indent=1), encoding="utf-8")
        return kept[key]

    results: dict[str, dict[str, Any]] = {
        world: {player: {"left_out": "was not played"} for player in PLAYERS} for world in given.only
    }
    for player in given.players:  # whatever takes longest comes last
        for name in given.only:
            one = once((name, player), measure, player, WORLDS[name], given.runs, given.rounds, given.seconds)
            if one:
                results[name][player] = one | {"of": given.runs}
            print(f"{name}, {player}: {_cell(one) if 'mean' in one else one.get('left_out')}", flush=True)
    able: dict[str, Any] = {}
    for player in given.players:
        able |= once(("abilities", player), abilities, [player])
    linear: dict[str, Any] = {}
    for name in [] if given.no_contexts else ("digits-1", "travel"):
        try:
            world = contexts.WORLDS[name]()
        except Skipped as reason:
            print(f"{name} is skipped: {reason}")
            continue
        rounds, found = min(world.rounds, given.rounds), {}
        for player in contexts.PLAYERS:
            found |= once((world.name, player), contexts.measure, world, given.runs, rounds, [player])
            print(f"{world.name}, {player}: {_earned(found.get(player, {}))}", flush=True)
        linear[world.name] = {"about": world.about, "players": found, "runs": given.runs, "rounds": rounds}
    given.out.write_text(page(results, able, linear, given.runs, given.rounds), encoding="utf-8")
    print(f"{given.out} is written")
