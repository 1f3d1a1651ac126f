"""A news page for a day: 200 articles that come and go, six slots, sections, clicks that come late or never, a restart.

Every visitor sees six articles, of the sections that the visitor reads. A click comes within half an hour or never, and
no one says "never". So a decision is closed by its age: what has not been clicked after 30 minutes is a 0. Closing it
with its clicks instead, as soon as they are there, would leave out those who never click, and break every promise.
"""

from __future__ import annotations

import heapq
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

import numpy as np

from armtriage import GuardedThompson, Policy
from armtriage.certificate import Certificate

SECTIONS = ("politics", "sport", "culture", "science", "local")
SLOTS, MINUTES, PATIENCE = 6, 24 * 60, 30


class Article(NamedTuple):
    """What an article is, and what only the world knows: how many of those who see it click."""

    name: str
    section: str
    published: int  # minute of the day
    withdrawn: int
    rate: float


class Day(NamedTuple):
    """What the day brought."""

    certificate: Certificate
    lost: float  # expected clicks that the best eligible articles would have had more
    lost_at_random: float  # and those that six random ones would have missed
    clicks: int


def newsroom(rng: np.random.Generator, articles: int) -> list[Article]:
    """Return the articles of the day, in the order in which they come; a third are there from the beginning."""
    made = []
    for i in range(articles):
        section = SECTIONS[i % len(SECTIONS)]
        published = 0 if i < articles // 3 else int(rng.integers(1, MINUTES * 3 // 4))
        withdrawn = published + int(rng.integers(240, 1200))
        made.append(Article(f"{section}/{i}", section, published, withdrawn, float(rng.beta(1.0, 3.0))))
    return sorted(made, key=lambda one: one.published)


class Page:
    """The page: what is shown, and which clicks are on their way."""

    def __init__(self, policy: Policy, at_once: bool) -> None:
        self.policy, self.at_once = policy, at_once
        self.coming: list[tuple[float, int, str]] = []  # clicks: minute, decision, article
        self.held: dict[int, set[str]] = defaultdict(set)
        self.shown: list[float] = []  # the minute of each decision
        self.closed = self.clicks = 0

    def show(self, minute: float, eligible: list[str]) -> tuple[int, tuple[str, ...]]:
        """Choose articles for a visitor."""
        decision = self.policy.ask(eligible=eligible)
        self.shown.append(minute)
        return decision.number, decision.names

    def wait_until(self, minute: float) -> None:
        """Take the clicks that have come by now, and close decisions that are half an hour old."""
        while self.coming and self.coming[0][0] <= minute:
            _, number, name = heapq.heappop(self.coming)
            self.clicks += 1
            if self.at_once:
                self.policy.tell(number, {name: 1}, last=False)
            else:
                self.held[number].add(name)
        while self.closed < len(self.shown) and self.shown[self.closed] + PATIENCE <= minute:
            if clicked := self.held.pop(self.closed, None):
                self.policy.tell(self.closed, dict.fromkeys(clicked, 1), last=False)
            self.policy.close_before(self.closed + 1, default=0)
            self.closed += 1

    def restart(self) -> None:
        """End the process, and let another one go on from a file."""
        with tempfile.TemporaryDirectory() as folder:
            self.policy.save(Path(folder, "page"))
            self.policy = Policy.load(Path(folder, "page"))


def main(visits: int = 20_000, articles: int = 200, seed: int = 7, at_once: bool = False) -> Day:
    """Run the day, and print its certificate beside the truth.

    With `at_once` clicks are told as they come, and open decisions count by their age until their absence is told.
    """
    rng = np.random.default_rng(seed)
    coming = newsroom(rng, articles)
    world = {one.name: one for one in coming}
    there = {one.name for one in coming if one.published == 0}
    first, coming = [one.name for one in coming if one.name in there], [one for one in coming if one.name not in there]
    page = Page(GuardedThompson(len(first), SLOTS, names=first, seed=seed), at_once)
    lost = at_random = 0.0
    for visit in range(visits):
        now = MINUTES * visit / visits
        while coming and coming[0].published <= now:
            there.add(coming[0].name)
            page.policy.add_arms([coming.pop(0).name])
        if gone := [name for name in there if world[name].withdrawn <= now]:
            page.policy.retire_arms(gone)
            there.difference_update(gone)
        page.wait_until(now)
        if visit == visits // 2:
            page.restart()
        read = rng.choice(SECTIONS, size=int(rng.integers(2, len(SECTIONS) + 1)), replace=False)
        eligible = [name for name in sorted(there) if world[name].section in read]
        number, names = page.show(now, eligible)
        for name in names:
            if rng.random() < world[name].rate:
                heapq.heappush(page.coming, (now + rng.uniform(0, PATIENCE), number, name))
        rates = np.sort([world[name].rate for name in eligible])
        best = rates[-SLOTS:].sum()
        lost += best - sum(world[name].rate for name in names)
        at_random += best - len(names) * rates.mean()
    page.wait_until(MINUTES + PATIENCE)
    certificate = page.policy.certificate()
    print(certificate)
    print(f"In truth {lost:,.0f} clicks were lost; with random articles it would have been {at_random:,.0f}.")
    return Day(certificate, float(lost), float(at_random), page.clicks)


if __name__ == "__main__":
    main()
