"""Contextual slates, measured: the paper's algorithm, its repairs and what one would use instead, in seven worlds."""

from __future__ import annotations

import numpy as np

from armtriage import (
    C2UCB,
    ContextualPolicy,
    GuardedLinear,
    HierarchicalElimination,
    LinearEnvironment,
    LinearThompsonSampling,
    linear_blocks,
    random_linear,
    simulate,
)


def orthogonal(dimension: int, budget: int, gap: float) -> LinearEnvironment:
    """Return `budget` good arms with one context, after arms of mean 0 with a direction each to themselves."""
    contexts = np.zeros((dimension - 1 + budget, dimension))
    contexts[: dimension - 1, 1:] = np.eye(dimension - 1)
    contexts[dimension - 1 :, 0] = 1.0
    return LinearEnvironment(gap * np.eye(dimension)[0], contexts, seed=7)


def worlds(horizon: int) -> dict[str, tuple[LinearEnvironment, int]]:
    """Return each environment, with its budget."""
    fresh = random_linear(100, 10, seed=7)
    return {
        "sphere": (fresh, 5),
        "fixed": (LinearEnvironment(fresh.theta, fresh.contexts(0), seed=7), 5),
        "low noise": (random_linear(100, 10, norm=0.9, reward="uniform", half_width=0.1, seed=7), 5),
        "shared noise": (random_linear(100, 10, noise="shared", seed=7), 5),
        "blocks": (linear_blocks(41, 5, horizon=horizon, seed=7), 5),
        "blocks, 64 times the gap": (linear_blocks(41, 5, horizon=horizon, gap=(2 / (horizon // 4)) ** 0.5, seed=7), 5),
        "orthogonal": (orthogonal(100, 20, 0.6), 20),
    }


def policies(env: LinearEnvironment, budget: int, horizon: int) -> dict[str, ContextualPolicy]:
    """Return the contestants; those that can use it know the scale of the noise of an arm."""
    size, noise = (env.n_arms, env.dimension, budget), env.noise_scale
    return {
        "`GuardedLinear`": GuardedLinear(*size, noise_scale=noise),
        "`HierarchicalElimination`, paper": HierarchicalElimination(*size, horizon=horizon, variant="paper"),
        "`HierarchicalElimination`, repaired": HierarchicalElimination(*size, horizon=horizon, variant="repaired"),
        "`HierarchicalElimination`, tight": HierarchicalElimination(*size, horizon=horizon, noise_scale=noise),
        "`C2UCB`": C2UCB(*size, noise_scale=noise),
        "`C2UCB(width=0.5)`": C2UCB(*size, width=0.5),
        "`LinearThompsonSampling`": LinearThompsonSampling(*size, noise_scale=noise),
    }


def guessing(env: LinearEnvironment, budget: int, horizon: int, replications: int) -> float:
    """Return what choosing at random loses on average, from the means of some rounds."""
    lost = []
    for number in np.linspace(0, horizon - 1, 250).astype(int):
        for replication in range(replications):
            means = np.sort(env.means(int(number), replication))
            lost.append(means[-budget:].sum() - budget * means.mean())
    return horizon * float(np.mean(lost))


def main(horizon: int = 20_000, replications: int = 8) -> None:
    """Print, for each world, mean final regret, its 95% interval, and its share of what guessing loses."""
    for name, (env, budget) in worlds(horizon).items():
        size = f"K={env.n_arms}, d={env.dimension}, S={budget}, T={horizon:,}, {replications} runs, seed 7"
        guess = guessing(env, budget, horizon, replications)
        print(f"\n**{name}** ({size}; guessing loses {_shown(guess, guess)})\n")
        print("| policy | regret | 95% interval | of guessing |\n|---|---|---|---|")
        for label, policy in policies(env, budget, horizon).items():
            trace = simulate(policy, env, horizon=horizon, replications=replications, seed=7, checkpoints=[horizon])
            mean, (low, high) = trace.mean[-1], (end[-1] for end in trace.interval())
            ends = f"[{_shown(low, mean)}, {_shown(high, mean)}]"
            share = mean / guess
            of_guessing = f"{share:.1%}" if share >= 0.001 else f"{share:.3%}"
            print(f"| {label} | {_shown(mean, mean)} | {ends} | {of_guessing} |", flush=True)


def _shown(value: float, size: float) -> str:
    return f"{value:,.{0 if size >= 100 else 1}f}"


if __name__ == "__main__":
    main()
