"""Which campaigns to run within a budget, when it is not known what they bring: a knapsack inside the guard."""

from __future__ import annotations

import numpy as np

from armtriage import FeedbackGraph, GuardedThompson, Knapsack, StochasticEnvironment

COSTS = [40, 30, 25, 50, 10, 15, 35, 20]
BUDGET = 100
BRINGS = [0.55, 0.50, 0.20, 0.80, 0.15, 0.35, 0.40, 0.30]  # the chance of a sale a day, unknown to the policy


def main(days: int = 2000) -> None:
    """Run campaigns for some days, and print what is known of them from time to time."""
    bags = Knapsack(COSTS, BUDGET)
    world = StochasticEnvironment(BRINGS, FeedbackGraph.semi_bandit(len(COSTS)), decisions=bags, seed=7)
    policy = GuardedThompson(len(COSTS), decisions=bags, seed=7)
    lost = 0.0
    for day in range(days):
        decision = policy.ask()
        policy.tell(decision, world.rewards(day, decision.revealed))
        lost += world.regret(decision.arms)
        if day + 1 in (days // 10, days):
            one = policy.certificate()
            costs = sum(COSTS[arm] for arm in one.next_decision)
            print(f"day {day + 1}: campaigns {one.next_decision.tolist()} for {costs} of {BUDGET}")
            print(f"  lost {lost:.0f} sales, certainly at most {one.regret_bound:.0f}")
            print(f"  {policy.oracle_calls / (day + 1):.2f} questions a day, {policy.account.forced_rounds} forced")
    best = bags.maximise(np.array(BRINGS))
    print(f"best campaigns {[] if best is None else best.tolist()}")


if __name__ == "__main__":
    main()
