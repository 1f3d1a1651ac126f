"""The decision service with simulated visitors: clicks that come late or never, and articles that come and go."""

from __future__ import annotations

import argparse
import heapq
import itertools
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from armtriage.service import Client, ServedDecision, Unavailable

VISITS = 60  # a second
SLOTS = 3


class Audience:
    """People with tastes; what they do not click on they scroll past, and now and then they just leave."""

    def __init__(self, client: Client, seed: int) -> None:
        self.client, self.chance = client, random.Random(seed)
        self.titles = itertools.count()
        self.appeal: dict[str, float] = {}
        self.clicks: list[tuple[float, int, ServedDecision, list[str]]] = []
        self.fates: Counter[str] = Counter()
        self.waits: list[float] = []
        self.earned: list[int] = []
        self.came = self.went = self.fallbacks = 0

    def article(self) -> str:
        """Write an article; how good it is, is not known."""
        title = f"article-{next(self.titles)}"
        self.appeal[title] = self.chance.betavariate(1.2, 8)
        return title

    def open_page(self) -> None:
        """Make the policy, and wait until it answers."""
        self.client.create(
            name="front-page",
            arms=[self.article() for _ in range(12)],
            budget=SLOTS,
            seed=7,
            join_window="5s",
            reward={"default": 0},
        )
        while not self.client.policy("front-page")["ready"]:
            time.sleep(0.1)

    def visit(self) -> None:
        """Ask for a page; what is clicked on is told later, if at all."""
        began = time.perf_counter()
        made = self.client.decide("front-page", fallback=sorted(self.appeal)[:SLOTS])
        self.waits.append(time.perf_counter() - began)
        self.fallbacks += not made.logged
        liked = [title for title in made.arms if self.chance.random() < self.appeal[title]]
        self.earned.append(len(liked))
        if self.chance.random() < 0.9:  # the others leave, and their rewards are the default when their time has passed
            late = self.chance.expovariate(1.0)
            heapq.heappush(self.clicks, (time.monotonic() + late, len(self.waits), made, liked))

    def click(self) -> None:
        """Send the clicks whose time has come; browsers send some of them twice."""
        while self.clicks and self.clicks[0][0] <= time.monotonic():
            _, _, made, liked = heapq.heappop(self.clicks)
            for _ in range(1 + (self.chance.random() < 0.05)):
                self.fates.update(self.client.reward("front-page", made, hits=liked).values())

    def news(self) -> None:
        """Let an article come, and an old one go."""
        old = self.chance.choice([title for title in self.appeal if title in self.listed()])
        self.client.change_arms("front-page", add=[self.article()], retire=[old])
        self.came, self.went = self.came + 1, self.went + 1

    def listed(self) -> set[str]:
        """Return the articles that may be shown."""
        arms = self.client.request("GET", "/v1/policies/front-page/arms")["arms"]
        return {arm["id"] for arm in arms if not arm["retired"]}


def main(seconds: float = 60.0, seed: int = 1) -> None:
    """Serve for some time, and print what happened."""
    with tempfile.TemporaryDirectory() as folder:
        store = str(Path(folder, "decisions.db"))
        command = [sys.executable, "-m", "armtriage"]
        server = subprocess.Popen(
            [*command, "serve", "--store", store, "--create", "--port", "0"], stdout=subprocess.PIPE, text=True
        )
        try:
            assert server.stdout is not None
            said = server.stdout.readline()
            url = next(word for word in said.split() if word.startswith("http://"))
            print(f"The service is at {url}; {VISITS} visits a second for {seconds:g} seconds")
            print(f"Look at it: {url}/policies/front-page", flush=True)
            with Client(url) as client:
                audience = Audience(client, seed)
                audience.open_page()
                _play(audience, seconds)
                known = client.policy("front-page")
        finally:
            server.send_signal(signal.SIGTERM)
            server.communicate(timeout=60)
        checked = subprocess.run(
            [*command, "store", "check", "--store", store], capture_output=True, text=True, check=False
        )
    _print(audience, known, server.returncode, checked.stdout)


def _play(audience: Audience, seconds: float) -> None:
    began = time.monotonic()
    next_news = began + 5.0
    for number in range(int(seconds * VISITS)):
        pause = began + number / VISITS - time.monotonic()
        if pause > 0:
            time.sleep(pause)
        try:
            audience.visit()
            audience.click()
            if time.monotonic() > next_news:
                audience.news()
                next_news += 5.0
        except Unavailable as error:
            print(f"unavailable: {error}")
        if number % (VISITS * 10) == VISITS * 10 - 1:
            last = audience.earned[-VISITS * 10 :]
            print(f"  {number + 1:6,d} visits; {sum(last) / len(last):.3f} clicks each in the last ten seconds")


def _print(audience: Audience, known: dict[str, object], code: int, checked: str) -> None:
    waits, quarter = sorted(audience.waits), max(len(audience.earned) // 4, 1)
    first, last = audience.earned[:quarter], audience.earned[-quarter:]
    counts = known["counts"]
    assert isinstance(counts, dict)
    fates = ", ".join(f"{count:,} {fate}" for fate, count in sorted(audience.fates.items())) or "none"
    print(f"decisions: {counts.get('decisions', 0):,}, {audience.fallbacks} fallbacks")
    print(f"rewards: {fates}; {counts.get('expired', 0):,} decisions ran out of time, and their rewards were 0")
    print(f"articles: {audience.came} came, {audience.went} went")
    print(
        f"clicks a visit: {sum(first) / len(first):.3f} in the first quarter, {sum(last) / len(last):.3f} in the last"
    )
    half, most = (waits[int(share * len(waits))] * 1e3 for share in (0.5, 0.99))
    print(f"answers: half within {half:.1f} ms, 99% within {most:.1f} ms")
    certificate = known["certificate"]
    if isinstance(certificate, dict):
        print(certificate["text"])
    print(f"The server stopped with exit code {code}; its store:")
    print(checked.strip())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    main(parser.parse_args().seconds)
