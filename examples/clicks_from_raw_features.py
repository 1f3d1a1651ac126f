"""A shop window: three of twenty products for every visitor, clicks of 1 to 5 percent, columns as a database has them.

Nothing is scaled or coded by hand. `Features` are fitted on yesterday's visits and handed to the policy, which
keeps them: an absurd price is clipped and counted, a new kind of product has a place, a missing age is an average one.
A click comes within the session or never, so decisions are closed with a default of 0. In the middle of the day the
policy is saved and loaded.
"""

from __future__ import annotations

import tempfile
from collections import deque
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from armtriage import FeatureReport, Features, GuardedLinear, Policy

Row = dict[str, Any]
KINDS = ("shoes", "books", "games", "tools")
SLOTS, CANDIDATES, SESSION = 3, 20, 40  # a session is over after this many other visits


class Day(NamedTuple):
    """What the day brought."""

    clicks: int
    lost: float  # expected clicks that the best three products of every visit would have had more
    lost_at_random: float
    certified: float  # what can have been lost, by what the policy knows itself
    report: FeatureReport


class Shop:
    """Visitors and products, and what only the world knows: who clicks on what."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.products = [self.product(number) for number in range(60)]

    def product(self, number: int) -> Row:
        """Return a product as the database has it."""
        price = round(float(self.rng.lognormal(3.0, 0.7)), 2)
        return {"kind": KINDS[number % 4], "price": price, "brand": f"brand {self.rng.integers(200)}"}

    def visitor(self) -> Row:
        """Return what is known of the next visitor; a few do not say how old they are."""
        age = None if self.rng.random() < 0.05 else int(self.rng.integers(16, 81))
        return {"age": age, "device": str(self.rng.choice(["phone", "tablet", "desktop"], p=[0.6, 0.1, 0.3]))}

    def visit(self) -> list[Row]:
        """Return a row for each candidate: what is known of the visitor, and of the product."""
        visitor, chosen = self.visitor(), self.rng.choice(len(self.products), CANDIDATES, replace=False)
        return [{**visitor, **self.products[number]} for number in chosen]

    def rates(self, rows: list[Row]) -> np.ndarray:
        """Return how many of such visitors click on each: from 1 percent, for what is dear or for others, to 5."""
        found = []
        for row in rows:
            young = (80 - (row["age"] or 48)) / 64
            liking = {"shoes": young, "books": 1 - young, "games": young * (row["device"] != "phone"), "tools": 0.3}
            found.append(0.01 + 0.03 * liking.get(row["kind"], 0.0) + 0.01 * (row["price"] < 20))
        return np.array(found)


def main(visits: int = 10_000, seed: int = 7) -> Day:
    """Play a day."""
    shop = Shop(seed)
    sample = [row for _ in range(50) for row in shop.visit()]
    features = Features(
        numeric=["age", "price"],
        categories=["device", "kind"],
        hashed={"brand": 8},
        products=[(["age", "device"], "kind")],  # who likes what
        scaler="robust",  # prices have a long tail
    ).fit(sample)
    policy = GuardedLinear(budget=SLOTS, features=features, reward_range=(0, 1), seed=seed)
    print(f"{features.dimension} numbers for each candidate, from {', '.join(map(str, features.columns))}")

    waiting: deque[tuple[int, list[int]]] = deque()
    clicks, lost, random = 0, 0.0, 0.0
    for visit in range(visits):
        rows = shop.visit()
        if visit == visits // 2:
            with tempfile.TemporaryDirectory() as folder:
                policy.save(Path(folder) / "window")  # the features are in it
                policy = Policy.load(Path(folder) / "window")  # type: ignore[assignment]
            rows[0] = {**rows[0], "price": 9e9, "brand": "a new brand", "kind": "a new kind"}
        decision, rates = policy.ask(rows), shop.rates(rows)
        best = np.sort(rates)[-SLOTS:].sum()
        lost += best - rates[decision.arms].sum()
        random += best - SLOTS * rates.mean()
        hits = [int(arm) for arm in decision.arms if shop.rng.random() < rates[arm]]
        clicks += len(hits)
        waiting.append((decision.number, hits))
        if len(waiting) > SESSION:
            number, seen = waiting.popleft()
            policy.tell(number, dict.fromkeys(seen, 1.0), last=False)
            policy.close(number, default=0)
        if visit + 1 in (visits // 10, visits):
            print(f"after {visit + 1:,} visits: {clicks} clicks, {lost:.1f} fewer expected than the best windows have")
    report, certificate = policy.feature_report, policy.certificate()
    print(f"three products at random would have lost {random:.1f}")
    print(report)
    return Day(clicks, float(lost), float(random), certificate.regret_bound, report)


if __name__ == "__main__":
    main()
