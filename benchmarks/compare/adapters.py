"""What people use instead, behind one face: `choose` some arms, `learn` their rewards; and what each can do.

An adapter has ``choose(eligible)``, which returns a note of its own and the arms, and ``learn(note, arms, rewards)``,
where arms may be others than those chosen. One that has them shows more: ``named``, ``chances``, ``evaluated``.
"""

from __future__ import annotations

import pickle
import tempfile
import threading
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from armtriage import (
    CombUCB1,
    FeedbackGraph,
    GuardedIndex,
    GuardedThompson,
    SlateLog,
    ThompsonSampling,
    evaluate,
)
from benchmarks.compare.peers import Skipped, bring

Array = NDArray[Any]


class Cannot(Exception):
    """What a player cannot do."""


class Ours:
    """A policy of armtriage."""

    def __init__(self, kind: Any, arms: FeedbackGraph | int, budget: int, seed: int, **options: Any) -> None:
        self.kind, self.policy = kind, kind(arms, budget=budget, seed=seed, **options)

    def choose(self, eligible: Array | None) -> tuple[Any, Sequence[int]]:
        decision = self.policy.ask() if eligible is None else self.policy.ask(eligible=eligible)
        return decision, decision.arms

    def learn(self, note: Any, arms: Sequence[int], rewards: Array) -> None:
        self.policy.tell(note, rewards)

    def named(self, names: list[str]) -> list[str]:
        return list(self.kind(len(names), budget=2, names=names, seed=7).ask().names)

    def chances(self) -> Array:
        """Return the probability of each arm in the next decision; others than Thompson sampling log by a floor."""
        if isinstance(self.policy, ThompsonSampling):
            return self.policy.marginals()
        decision = self.kind(12, budget=2, logging_floor=0.2, seed=7).ask()
        chances = np.full(12, 0.2 * 2 / 10)
        chances[list(decision.proposal)] = 0.8
        if not np.allclose(chances[decision.arms], decision.inclusion):
            raise Cannot("the floor is not what it says")
        return chances

    def evaluated(self) -> tuple[float, float]:
        """Return the interval of what arms 4 and 7 would have earned, by a log of other decisions."""
        rng, policy = np.random.default_rng(7), self.kind(12, budget=2, logging_floor=0.3, seed=7)
        with tempfile.TemporaryDirectory() as folder:
            log = SlateLog(Path(folder) / "log")
            for _ in range(1500):
                decision = policy.ask()
                log.append(decision, (rng.random(2) < np.where(np.isin(decision.arms, (4, 7)), 0.7, 0.2)).astype(float))
            log.close()
            found = evaluate(SlateLog.read(Path(folder) / "log"), [4, 7])
        return found.low, found.high


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
        self.mab, self.law = mab.MAB(list(range(n_arms)), kinds[policy](), seed=seed), kinds[policy]()
        self.budget, self.binary = budget, policy == "ThompsonSampling"
        # It has to be fitted once before it is asked; each arm has one made-up reward, which later ones outweigh.
        self.mab.fit([*range(n_arms), *range(n_arms)] if self.binary else list(range(n_arms)), self._first(n_arms))

    def _first(self, n_arms: int) -> list[int]:
        return [0] * n_arms + [1] * n_arms if self.binary else [1] * n_arms

    def named(self, names: list[str]) -> list[str]:
        mab = bring("mabwiser.mab").MAB(names, self.law, seed=7)
        mab.fit(names * 2, [0] * len(names) + [1] * len(names))
        scores = mab.predict_expectations()
        return sorted(scores, key=lambda name: -scores[name])[:2]

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

    def named(self, names: list[str]) -> list[str]:
        first = self.policy.pull(names)
        return [first, self.policy.pull([name for name in names if name != first])]

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

    def chances(self) -> Array:
        """Return the probability of each arm in the next list, as the package simulates it."""
        return self.policy.compute_batch_action_dist(n_rounds=1, n_sim=1000)[0].sum(axis=1)

    def evaluated(self) -> tuple[float, float]:
        """Return the interval of what arms 4 and 7 would have earned, by random lists; each place is a round."""
        ope, rng = bring("obp.ope"), np.random.default_rng(7)
        lists = np.argsort(rng.random((1500, 12)), axis=1)[:, :2]
        wanted = np.zeros((lists.size, 12, 2))
        wanted[:, 4, 0] = wanted[:, 7, 1] = 1.0
        log = {
            "n_rounds": lists.size,
            "n_actions": 12,
            "action": lists.ravel(),
            "position": np.tile([0, 1], len(lists)),
            "reward": (rng.random(lists.size) < np.where(np.isin(lists.ravel(), (4, 7)), 0.7, 0.2)).astype(float),
            "pscore": np.full(lists.size, 1 / 12),
        }
        made = ope.OffPolicyEvaluation(bandit_feedback=log, ope_estimators=[ope.InverseProbabilityWeighting()])
        found = made.estimate_intervals(action_dist=wanted, random_state=7)["ipw"]
        return 2 * found["95.0% CI (lower)"], 2 * found["95.0% CI (upper)"]


class BayesianBandits:
    """Bayesianbandits with a Dirichlet posterior for each arm."""

    def __init__(self, n_arms: int, budget: int, seed: int) -> None:
        of = bring("bayesianbandits")
        prior = {1: 1.0, 0: 1.0}
        arms = [of.Arm(arm, _first_column, of.DirichletClassifier(prior)) for arm in range(n_arms)]
        self.agent, self.budget = of.Agent(arms, of.ThompsonSampling(), random_seed=seed), budget

    def named(self, names: list[str]) -> list[str]:
        of, prior = bring("bayesianbandits"), {1: 1.0, 0: 1.0}
        arms = [of.Arm(name, _first_column, of.DirichletClassifier(prior)) for name in names]
        return list(of.Agent(arms, of.ThompsonSampling(), random_seed=7).pull(top_k=2)[0])

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

    def named(self, names: list[str]) -> list[str]:
        model, smab = bring("pybandits.model"), bring("pybandits.smab")
        bandit = smab.SmabBernoulli(actions={name: model.Beta() for name in names})
        first = bandit.predict(n_samples=1)[0][0]
        return [first, bandit.predict(n_samples=1, forbidden_actions={first})[0][0]]

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


PLAYERS: dict[str, Callable[[Any, int, int], Any]] = {  # quick ones first
    "`GuardedThompson`": partial(Ours, GuardedThompson),
    "`GuardedIndex`": partial(Ours, GuardedIndex),
    "`ThompsonSampling`": partial(Ours, ThompsonSampling),
    "`CombUCB1`": partial(Ours, CombUCB1),
    '`ThompsonSampling(forget="alarm")`': partial(Ours, ThompsonSampling, forget="alarm"),
    "NumPy, Beta Thompson": NumpyThompson,
    "NumPy, epsilon-greedy": NumpyEpsilon,
    "River UCB": partial(River, "UCB"),
    "MABWiser UCB1": partial(MabWiser, "UCB1"),
    "MABWiser Thompson": partial(MabWiser, "ThompsonSampling"),
    "River Thompson": partial(River, "ThompsonSampling"),
    "Open Bandit Pipeline, BernoulliTS": OpenBandit,
    "pybandits": PyBandits,
    "bayesianbandits Thompson": BayesianBandits,
}
OTHERS = {  # peers without an adapter for slates, and why
    "vowpalwabbit": "chooses one action by contexts: see above",
    "contextualbandits": "needs contexts: see above",
    "calvera": "needs contexts, and torch",
    "banditdb": "is the client of a server that no package index has",
}


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


def _names(make: Any) -> bool:
    """Whether arms may be called by names, and come back by them."""
    names = [f"item {i}" for i in range(6)]
    chosen = make(6, 2, 7).named(names)
    return len(set(chosen)) == 2 and set(chosen) <= set(names)


def _threads(make: Any) -> bool:
    """Whether four threads that choose and learn at once leave it in order: no error, and the two best arms found."""
    player, wrong = make(12, 2, 7), []

    def work() -> None:
        try:
            for _ in range(150):
                note, arms = player.choose(None)
                if len(set(map(int, arms))) != 2:
                    raise Cannot("a slate has an arm twice")
                player.learn(note, arms, np.array([float(arm in (4, 7)) for arm in arms]))
        except Exception as error:  # whatever it is, it is not safe
            wrong.append(error)

    workers = [threading.Thread(target=work) for _ in range(4)]
    for one in workers:
        one.start()
    for one in workers:
        one.join()
    found = [int(arm) for _ in range(50) for arm in player.choose(None)[1]]
    return not wrong and sum(arm in (4, 7) for arm in found) > 60


def _chances(make: Any) -> bool:
    """Whether it knows with what probability it chooses each arm: slots add up, and players alike choose as often."""
    said = np.asarray(make(12, 2, 7).chances(), float)
    chosen = np.bincount([int(arm) for seed in range(300) for arm in make(12, 2, seed).choose(None)[1]], minlength=12)
    uniform = bool(np.ptp(said) < 1e-6)  # otherwise it is that of a floor, which `chances` has checked
    return abs(said.sum() - 2.0) < 1e-6 and (not uniform or bool(np.abs(chosen / 300 - said).max() < 0.12))


def _evaluated(make: Any) -> bool:
    """Whether its package says of a log what other decisions would have earned: 1.4 is the truth."""
    low, high = make(12, 2, 7).evaluated()
    return bool(0.5 < low <= 1.4 <= high < 2.0)


PROBES: dict[str, Callable[[Any], bool]] = {
    "eligible arms": _eligible,
    "late rewards": _late,
    "equal after pickle": _saved,
    "names": _names,
    "four threads": _threads,
    "probabilities": _chances,
    "evaluation": _evaluated,
}


def abilities(players: Iterable[str]) -> dict[str, dict[str, str]]:
    """Return what each player has shown that it can do."""
    found: dict[str, dict[str, str]] = {}
    for name in players:
        make = PLAYERS[name]
        try:
            make(4, 2, 0)
        except Skipped:
            continue
        found[name] = {}
        for probe, tried in PROBES.items():
            try:
                found[name][probe] = "yes" if tried(make) else "no"
            except Exception:  # whatever it is, it cannot
                found[name][probe] = "no"
    return found
