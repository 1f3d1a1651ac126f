"""How far a real table is from linear, and what it costs to say so: 442 patients, from scikit-learn.

Arms are eight groups of patients, by body mass, a serum value and blood pressure, each above or below its median. These
three marks are all that a linear model knows of a group. A reward is how far the disease of a random member went on in
a year, and three groups are chosen each time. The means of the groups are known here, and so is how far they are from
linear.
"""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_diabetes

from armtriage import GuardedLinear, suggest_bias


def main(rounds: int = 2_000) -> None:
    """Play with what nothing, the truth and the table say of the error, and print what is certified."""
    table = load_diabetes()
    marks = table.data[:, [table.feature_names.index(name) for name in ("bmi", "s5", "bp")]]
    groups = (marks > np.median(marks, axis=0)) @ [4, 2, 1]
    rewards = table.target / 350.0
    members = [np.flatnonzero(groups == group) for group in range(8)]
    means = np.array([rewards[some].mean() for some in members])
    contexts = np.column_stack([np.ones(8), *np.unravel_index(np.arange(8), (2, 2, 2))]) / 2.0
    theta = np.linalg.lstsq(contexts, means, rcond=None)[0]
    off = float(np.abs(means - contexts @ theta).max())
    found = suggest_bias(contexts[groups], rewards, groups)
    print(f"means are up to {off:.3f} from linear; the table shows {found.least:.3f} or more, {found.safe:.3f} is safe")
    best = np.sort(means)[-3:].sum()
    for bias in (None, off, found.safe):
        rng = np.random.default_rng(7)
        policy = GuardedLinear(8, 4, budget=3, reward_range=(0, 1), norm_bound=1.0, bias=bias, seed=7)
        lost = 0.0
        for _ in range(rounds):
            decision = policy.ask(contexts)
            policy.tell(decision, [rewards[rng.choice(members[arm])] for arm in decision.arms])
            lost += best - means[decision.arms].sum()
        most = policy.certificate().regret_bound
        print(f"bias {0.0 if bias is None else bias:.3f}: lost {lost:.1f}, at most {most:,.0f} of {rounds * best:,.0f}")


if __name__ == "__main__":
    main()
