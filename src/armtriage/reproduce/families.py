"""All policies on random instances of all kinds, where no theorem says which is best."""

from __future__ import annotations

from typing import Any, ClassVar

import polars

from armtriage.reproduce.figures import heat
from armtriage.reproduce.judges import told
from armtriage.reproduce.lines import against_best
from armtriage.reproduce.policies import PAPER, POLICIES, THOMPSON, TIGHT, chosen
from armtriage.reproduce.study import Chart, Claim, Played, Rows, Scale, Study, Tables, Verdict, of, plan
from armtriage.simulation.comparison import short

_PLAYERS: dict[str, dict[str, dict[str, Any]]] = {
    "graphs": POLICIES,
    "linear": {
        TIGHT: {"policy": "hierarchical"},
        PAPER: {"policy": "hierarchical", "variant": "paper"},
        "C2UCB": {"policy": "c2ucb"},
        "linear Thompson": {"policy": "linear_thompson"},
    },
    "constrained": {TIGHT: {"policy": "constrained"}, **chosen("CombUCB1", "KL-UCB", THOMPSON)},
}
_TITLES = {"graphs": "graph feedback", "linear": "linear contexts", "constrained": "sets of decisions"}


def _elimination(rows: Rows) -> Verdict:
    """Return where elimination loses more than the best policy, and by how much; no theorem speaks of it."""
    least, most = rows[0], rows[-1]
    behind = sum(told(row) is True for row in rows)
    seen = f"{short(least['ratio'])} to {short(most['ratio'])} times the least"
    verdict = f"Loses more than the best in {behind} of {len(rows)} families"
    verdict += f"; most on {most['family']}, {most['ratio']:.1f} times {most['best']}" if behind else ""
    return Verdict("nothing: guarantees are for the worst case", seen, None, opening=verdict)


def ranked(table: polars.DataFrame) -> list[str]:
    """Return the policies of `against_best`, the one that is best on the whole last."""
    means = table.group_by("policy").agg(polars.col("ratio").log().mean())
    return means.sort("ratio", "policy", descending=True)["policy"].to_list()


class Families(Study):
    """The price of guarantees on ordinary instances."""

    name, title = "families", "Random instances: all policies"
    # Arms and slots, and for each kind rounds and runs.
    sizes: ClassVar = {
        "tiny": Scale(n_arms=10, budget=2, graphs=(200, 2), linear=(200, 2), constrained=(40, 2)),
        "quick": Scale(n_arms=50, budget=5, graphs=(10_000, 8), linear=(5000, 8), constrained=(500, 4)),
        "full": Scale(n_arms=100, budget=10, graphs=(100_000, 16), linear=(50_000, 16), constrained=(2000, 8)),
    }
    claims = tuple(
        Claim(name, f"{policy}: regret on random instances with {title}", "no theorem", _elimination,
              where=of(policy), order="ratio")
        for name, title in _TITLES.items() for policy in (TIGHT, PAPER) if policy in _PLAYERS[name]
    )  # fmt: skip

    def plans(self) -> dict[str, dict[str, Any]]:
        sizes = {"n_arms": self.scale.n_arms, "budget": self.scale.budget}
        arms, linear = {"instance": "random", **sizes}, {"instance": "linear", **sizes}
        places: dict[str, dict[str, Any]] = {
            "graphs": {
                "semi-bandit": {**arms, "graph": "semi_bandit"},
                "cliques": {**arms, "graph": "cliques", "size": self.scale.budget},
                "random digraph": {**arms, "graph": "erdos_renyi", "p": 0.1},
                "star": {**arms, "graph": "star"},
                "tournament": {**arms, "graph": "tournament"},
            },
            "linear": {"5 dimensions": {**linear, "dimension": 5}, "20 dimensions": {**linear, "dimension": 20}},
            "constrained": {
                "assignment": {"instance": "assignment", "left": 4, "right": 4},
                "routing": {"instance": "routing", "layers": 3, "width": 3},
                "tree": {"instance": "tree", "nodes": 6, "edges": 10},
                "categories": {"instance": "categories", "groups": 4, "size": 4},
            },
        }
        rest = {"redraw": True, "block": 2}
        return {
            name: plan(places[name], players, *getattr(self.scale, name), **rest) for name, players in _PLAYERS.items()
        }

    def tables(self, results: Played) -> Tables:
        return {name: against_best(one) for name, one in results.items()}

    def charts(self, results: Played, tables: Tables) -> list[Chart]:
        caption = "Regret on random instances with {}, as a multiple of the least of each family."
        return [
            heat(
                f"families-{name}", caption.format(_TITLES[name]), one, "family", "policy", "times the least", 5.2,
                ranked(one),
            )
            for name, one in tables.items()
        ]  # fmt: skip

    def paragraphs(self, tables: Tables) -> list[str]:
        best = polars.concat([table.filter(table["policy"] == table["best"]) for table in tables.values()])
        wins = best.group_by("policy").len().sort(["len", "policy"], descending=[True, False])
        said = ", ".join(f"{policy} in {count}" for policy, count in wins.iter_rows())
        rounds = [f"{short(table['horizon'][0])} with {_TITLES[name]}" for name, table in tables.items()]
        return [
            "Means, graphs and contexts are drawn at random, again for each run. No theorem says which policy is best "
            "here: a guarantee for the worst case costs something on ordinary instances, and this is how much. Ratios "
            "are to the policy with the least mean regret of the family, judged by the same runs. T is "
            f"{', '.join(rounds)}.",
            f"Of {best.height} families, the least regret has {said}.",
        ]
