"""What each part of the tight variant is worth: the regret when it alone is taken back."""

from __future__ import annotations

from typing import Any

from armtriage import CombinatorialElimination, FeedbackGraph, random_bernoulli, simulate

WITHOUT: dict[str, dict[str, Any]] = {
    "tight": {},
    "without the mixture: KL, time-uniform": {"interval": "kl"},
    "without the mixture: Hoeffding": {"interval": "hoeffding"},
    "without intersection": {"intersect": False},
    "without skipping what is revealed": {"skip_revealed": False},
    "ties to the smallest arm": {"tie_break": "index"},
    "random fill": {"fill": "random"},
    "paper": {"variant": "paper"},
}


def main(horizon: int = 20_000, replications: int = 16) -> None:
    """Print mean regret and its 95% interval for each setting, on three graphs."""
    graphs = {
        "semi-bandit": FeedbackGraph.semi_bandit(100),
        "10 cliques": FeedbackGraph.cliques([10] * 10),
        "random digraph": FeedbackGraph.erdos_renyi(100, 0.1, seed=7),
    }
    for name, graph in graphs.items():
        env = random_bernoulli(graph, seed=7)
        print(f"{name}: 100 arms, 10 slots, {horizon:,} rounds, {replications} runs, seed 7")
        for label, options in WITHOUT.items():
            policy = CombinatorialElimination(graph, 10, horizon=horizon, seed=7, **options)
            if options.get("interval") in ("kl", "hoeffding"):
                policy = CombinatorialElimination(graph, 10, seed=7, **options)
            trace = simulate(policy, env, horizon=horizon, replications=replications)
            low, high = trace.interval()
            print(f"  {label:<40} {trace.mean[-1]:>8,.0f}  [{low[-1]:,.0f}, {high[-1]:,.0f}]")


if __name__ == "__main__":
    main()
