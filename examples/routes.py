"""The way to work through a grid of two-way streets, some of them closed for a while, in as few minutes as possible."""

from __future__ import annotations

import networkx as nx
import numpy as np

from armtriage import GuardedThompson, Paths, StochasticEnvironment

SIZE = 6
MINUTES = (1.0, 9.0)
"""No street takes less or more."""
HOME, WORK = (0, 0), (SIZE - 1, SIZE - 1)


def main(days: int = 1_500) -> None:
    """Drive, with the streets around a junction closed for a third of the time, and print what came of it."""
    streets = Paths.from_networkx(nx.grid_2d_graph(SIZE, SIZE), HOME, WORK)
    means = np.random.default_rng(7).uniform(1.5, 8.0, streets.n_arms)
    world = StochasticEnvironment(
        means, streets.n_arms, "beta", decisions=streets, reward_range=MINUTES, direction="minimize", seed=7
    )
    policy = GuardedThompson(
        streets.n_arms,
        decisions=streets,
        names=streets.names,
        reward_range=MINUTES,
        direction="minimize",
        seed=7,
    )
    usual = streets.route(streets.maximise(-means))
    junction = usual[len(usual) // 2]
    works = [arm for arm, ends in enumerate(streets.names or []) if junction in ends]
    open_streets = [name for arm, name in enumerate(streets.names or []) if arm not in works]
    third = days // 3
    print(f"usually best: {' '.join(f'{x}{y}' for x, y in usual)}")
    for phase, (closed, eligible) in enumerate([([], None), (works, open_streets), ([], None)]):
        best = streets.maximise(-means, exclude=closed)
        extra = np.zeros(third)
        for day in range(phase * third, phase * third + third):
            decision = policy.ask(eligible=eligible)
            minutes = world.rewards(day, decision.arms)
            policy.tell(decision, dict(zip(decision.names, minutes.tolist(), strict=True)))
            extra[day % third] = means[decision.arms].sum() - means[best].sum()
        month = third // 10
        shut = f"around {junction[0]}{junction[1]} closed" if closed else "all streets open"
        print(
            f"{shut}: best route {means[best].sum():.1f} minutes, "
            f"{extra[:month].mean():.1f} more at first, {extra[-month:].mean():.1f} more at last"
        )


if __name__ == "__main__":
    main()
