"""Policies that forget, at an alarm or all the time, beside those that never do and GLR-CUCB, in worlds that drift.

`CombUCB1` with a window is CUCB-SW of Chen, Wang, Zhao, Zheng (2021). There are 20 arms with means from 0.1 to 0.6, and
3 slots. All meet the same luck; regret counts against the best slate of each round.
"""

from __future__ import annotations

import argparse
import json
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from armtriage import (
    CombUCB1,
    DriftingEnvironment,
    Jump,
    Policy,
    StochasticEnvironment,
    ThompsonSampling,
    simulate,
)

ARMS, BUDGET, SEED = 20, 3, 11
Array = NDArray[np.float64]


def top(indices: Array, budget: int) -> NDArray[np.int64]:
    """Return the arms of largest index, ascending; ties to the smallest arm."""
    return np.sort(np.argsort(-indices, kind="stable")[:budget])


def kl(p: Array, q: float) -> Array:
    """Return the divergence of coins of bias p from one of bias q, where 0 < q < 1."""
    p = np.clip(p, 1e-12, 1 - 1e-12)
    return np.asarray(p * np.log(p / q) + (1 - p) * np.log((1 - p) / (1 - q)))


class GLRCUCB(Policy):
    """CUCB that begins again when a generalised likelihood ratio finds a change; Zhou, Wang, Varshney, Lim (2020).

    All arms begin again. An arm is tested every 10 rewards, at every 5th split, with the threshold ln(3 n^1.5 / delta)
    of Besson et al. (2022), and arms are explored in turn at the rate sqrt(K ln T / T). It knows the horizon T.
    """

    def __init__(self, graph: Any, budget: int, *, horizon: int = 20_000, seed: int | None = None) -> None:
        super().__init__(graph, budget, seed=seed)
        self.horizon, self.began = horizon, 0
        self.delta = 1.0 / horizon
        self.pause = math.ceil(self.n_arms / math.sqrt(self.n_arms * math.log(horizon) / horizon))
        self.begin_again()

    def begin_again(self) -> None:
        """Forget everything."""
        self.rewards: list[list[float]] = [[] for _ in range(self.n_arms)]
        self.counts, self.sums = np.zeros(self.n_arms), np.zeros(self.n_arms)

    def _select(self, number: int) -> NDArray[np.int64]:
        counts, means = self.counts, self.sums / np.maximum(self.counts, 1)
        radius = np.sqrt(1.5 * math.log(number - self.began + 1) / np.maximum(counts, 1))
        arms = top(np.where(counts > 0, means + radius, np.inf), self.budget)
        turn = (number - self.began) % self.pause
        if turn < self.n_arms and turn not in arms:
            arms = np.sort(np.append(np.delete(arms, np.argmin(means[arms])), turn))
        return arms

    def _update(self, number: int, arms: NDArray[np.int64], rewards: Array) -> None:
        for arm, reward in zip(arms.tolist(), rewards.tolist(), strict=True):
            self.rewards[arm].append(reward)
        self.counts[arms] += 1
        self.sums[arms] += rewards
        if any(len(self.rewards[arm]) % 10 == 0 and self.changed(self.rewards[arm]) for arm in arms.tolist()):
            self.began = number + 1
            self.begin_again()

    def changed(self, rewards: list[float]) -> bool:
        """Whether two parts of the rewards differ by more than luck explains."""
        sums, n = np.cumsum(rewards), len(rewards)
        mean, splits = sums[-1] / n, np.arange(5, n, 5)
        if not 0.0 < mean < 1.0:
            return False
        before, after = sums[splits - 1] / splits, (sums[-1] - sums[splits - 1]) / (n - splits)
        ratio = splits * kl(before, mean) + (n - splits) * kl(after, mean)
        return bool(ratio.max() > math.log(3 * n**1.5 / self.delta))


PLAYERS: Mapping[str, Callable[[int], Policy]] = {
    "`ThompsonSampling`": lambda rounds: ThompsonSampling(ARMS, BUDGET, seed=3),
    '`ThompsonSampling(forget="alarm")`': lambda rounds: ThompsonSampling(ARMS, BUDGET, seed=3, forget="alarm"),
    "`CombUCB1`": lambda rounds: CombUCB1(ARMS, BUDGET, seed=3),
    '`CombUCB1(forget="alarm")`': lambda rounds: CombUCB1(ARMS, BUDGET, seed=3, forget="alarm"),
    "`ThompsonSampling`, discount": lambda rounds: ThompsonSampling(ARMS, BUDGET, seed=3, forget=1 - 2 / rounds),
    "`ThompsonSampling`, window of a tenth": lambda rounds: ThompsonSampling(ARMS, BUDGET, seed=3, forget=rounds // 10),
    "`CombUCB1`, window of a tenth": lambda rounds: CombUCB1(ARMS, BUDGET, seed=3, forget=rounds // 10),
    "GLR-CUCB, knows the horizon": lambda rounds: GLRCUCB(ARMS, BUDGET, horizon=rounds, seed=3),
}


def worlds(rounds: int) -> dict[str, Any]:
    """Return the worlds by name."""
    means = np.linspace(0.1, 0.6, ARMS)
    still = StochasticEnvironment(means, ARMS, seed=SEED)
    up, down, half = means.copy(), means.copy(), rounds // 2
    up[[2, 5, 8, 11]] = 0.9
    down[-BUDGET:] -= 0.3
    steps = range(rounds // 200, rounds, rounds // 200)
    exchange = {t: means + (means[::-1] - means) * t / rounds for t in steps}
    return {
        "no drift": still,
        "4 arms that are not played rise to 0.9": DriftingEnvironment(still, Jump({half: up})),
        "the 3 best fall by 0.3": DriftingEnvironment(still, Jump({half: down})),
        "all means are slowly exchanged": DriftingEnvironment(still, Jump(exchange)),
    }


def main(arguments: Sequence[str]) -> None:
    """Play all players in all worlds, and print the regret of each."""
    contest("drift", __doc__, PLAYERS, worlds, arguments, runs=10)


def contest(
    name: str,
    about: str | None,
    players: Mapping[str, Callable[[int], Policy]],
    worlds: Callable[[int], Mapping[str, Any]],
    arguments: Sequence[str],
    runs: int,
) -> None:
    """Let all players play all worlds, and print the regret of each."""
    parser = argparse.ArgumentParser(prog=f"make compare ARGS={name}", description=about)
    parser.add_argument("--runs", type=int, default=runs)
    parser.add_argument("--rounds", type=int, default=20_000)
    parser.add_argument("--only", default="", help="players whose name contains this")
    parser.add_argument("--json", type=Path, help="write the figures here, too")
    given = parser.parse_args(arguments)
    found = dict[str, dict[str, tuple[float, float]]]()
    known = worlds(given.rounds)
    print(f"regret of {given.runs} runs of {given.rounds:,} rounds, and half of the width of its 95% interval")
    print(f"| | {' | '.join(known)} |")
    print(f"|---{'|---' * len(known)}|")
    for name, make in players.items():
        if given.only in name:
            found[name] = {}
            for place, env in known.items():
                with warnings.catch_warnings():
                    warnings.filterwarnings("ignore", message=".*is not compiled")
                    regret = simulate(
                        make(given.rounds),
                        env,
                        horizon=given.rounds,
                        replications=given.runs,
                        checkpoints=[given.rounds],
                    ).regret[:, 0]
                half = 1.96 * regret.std(ddof=1) / math.sqrt(regret.size) if regret.size > 1 else math.nan
                found[name][place] = float(regret.mean()), float(half)
            print(f"| {name} | {' | '.join(f'{m:,.0f} ± {h:,.0f}' for m, h in found[name].values())} |", flush=True)
            if given.json is not None:
                given.json.write_text(json.dumps(found, indent=1), encoding="utf-8")
