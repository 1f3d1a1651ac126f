"""Our worlds as environments of Gymnasium, which is imported when one is made."""

from __future__ import annotations

from typing import Any

import numpy as np

from armtriage._arguments import check_count
from armtriage.environments.linear import LinearEnvironment
from armtriage.environments.protocol import Environment


def gym_environment(environment: Environment, budget: int, *, horizon: int = 1000) -> Any:
    """Return a world as an environment of Gymnasium, for agents that are written for it.

    An action is a score for each arm, and the `budget` arms with the largest scores are played, of equal ones those
    with smaller numbers: every action is a decision. The observation is what the last decision revealed: `seen` is 1
    for the arms that it did, and `rewards` has their rewards, with 0 for others. What a step earns is the sum over
    the played arms, with the sign changed where the world has costs; ``info`` has the ``arms`` and their expected
    ``regret``. An episode is a replication of `horizon` rounds: number `seed` after ``reset(seed=seed)``, and the next
    one after every further ``reset()``. Decision sets, arms that are not always there and contexts are left out.

    Needs the extra ``armtriage[gym]``.

    Parameters
    ----------
    environment : Environment
        A world without contexts, such as `armtriage.StochasticEnvironment`.
    budget : int
        How many arms are played, from 1 to the number of arms.
    horizon : int
        After how many rounds an episode is truncated.

    Returns
    -------
    gymnasium.Env
        The environment.

    Examples
    --------
    >>> from armtriage import StochasticEnvironment, gym_environment
    >>> world = StochasticEnvironment([0.9, 0.5, 0.1], 3, reward="deterministic")
    >>> env = gym_environment(world, budget=2, horizon=10)  # doctest: +SKIP
    >>> seen, info = env.reset(seed=7)  # doctest: +SKIP
    >>> seen, earned, terminated, truncated, info = env.step([0.2, 0.1, 0.8])  # doctest: +SKIP
    >>> seen["seen"], float(earned), info["arms"], round(info["regret"], 6)  # doctest: +SKIP
    (array([1, 0, 1], dtype=int8), 1.0, array([0, 2]), 0.4)
    """
    if getattr(environment, "availability", None) is not None or getattr(environment, "decisions", None) is not None:
        raise ValueError(f"environment must have all arms always there and no decision set, got {environment!r}")
    if isinstance(environment, LinearEnvironment) or not isinstance(environment, Environment):
        raise TypeError(f"environment must be a world without contexts, got {type(environment).__name__}")
    try:
        import gymnasium
    except ImportError as error:
        raise ImportError("gym_environment needs gymnasium: pip install 'armtriage[gym]'") from error
    made = type("SlateEnv", (_SlateGame, gymnasium.Env), {"metadata": {"render_modes": []}})()
    made.world, made.replication = environment, -1
    made.budget, made.horizon = check_count("budget", budget, 1, environment.n_arms), check_count("horizon", horizon, 1)
    low, high = getattr(environment, "reward_range", (0.0, 1.0))
    made.action_space = gymnasium.spaces.Box(0.0, 1.0, (environment.n_arms,))
    rewards = gymnasium.spaces.Box(min(low, 0.0), max(high, 0.0), (environment.n_arms,), np.float64)
    made.observation_space = gymnasium.spaces.Dict(
        {"seen": gymnasium.spaces.MultiBinary(environment.n_arms), "rewards": rewards}
    )
    return made


class _SlateGame:
    """The methods of the environment; Gymnasium's class comes to it when one is made."""

    world: Any
    budget: int
    horizon: int
    replication: int
    render_mode = None
    round = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)  # type: ignore[misc]
        self.replication = self.replication + 1 if seed is None else seed
        self.round = 0
        return self._seen(np.empty(0, np.int64), np.empty(0)), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        scores = np.asarray(action, np.float64)
        if scores.shape != (self.world.n_arms,) or np.isnan(scores).any():
            raise ValueError(f"action must be a score for each of the {self.world.n_arms} arms, got {action!r}")
        arms = np.sort(np.argsort(-scores, kind="stable")[: self.budget])
        revealed = self.world.graph.revealed_by(arms)
        rewards = self.world.rewards(self.round, revealed, self.replication)
        self.round += 1
        earned = float(rewards[np.isin(revealed, arms)].sum())
        earned = -earned if getattr(self.world, "direction", "maximize") == "minimize" else earned
        info = {"arms": arms, "regret": float(self.world.regret(arms))}
        return self._seen(revealed, rewards), earned, False, self.round >= self.horizon, info

    def _seen(self, arms: Any, rewards: Any) -> dict[str, Any]:
        seen, found = np.zeros(self.world.n_arms, np.int8), np.zeros(self.world.n_arms)
        seen[arms], found[arms] = 1, rewards
        return {"seen": seen, "rewards": found}
