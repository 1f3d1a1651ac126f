"""Take the pictures of docs/dashboard.md: a service with an audience, and every page of its dashboard in a browser.

It needs the extra ``dev`` and a chromium on the PATH: ``make dashboard-pictures``.
"""

from __future__ import annotations

import argparse
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from PIL import Image
from playwright.sync_api import Browser, sync_playwright

from armtriage.service import Client

WHO = ("harbour", "night-train", "museum", "tram", "teacher", "storm", "river", "library", "market", "theatre")
WHAT = (
    "reopens",
    "returns",
    "free-sunday",
    "strike-ends",
    "of-the-year",
    "names-2027",
    "report",
    "at-night",
    "prices",
    "live-blog",
)


@contextmanager
def service(store: Path) -> Iterator[str]:
    """Serve a store, and yield the address."""
    command = [sys.executable, "-m", "armtriage", "serve", "--store", str(store), "--create", "--port", "0"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert server.stdout is not None
        yield next(word for word in server.stdout.readline().split() if word.startswith("http://"))
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(timeout=30)


class Town:
    """Readers who click on what they like; some leave, some clicks come twice."""

    def __init__(self, client: Client, seed: int = 7) -> None:
        self.client, self.chance = client, random.Random(seed)
        self.appeal: dict[str, dict[str, float]] = {}

    def make(self, name: str, appeal: dict[str, float], **more: Any) -> None:
        """Make a policy."""
        self.appeal[name] = appeal
        self.client.create(name=name, arms=list(appeal), seed=7, **more)
        while not self.client.policy(name)["ready"]:
            time.sleep(0.1)

    def visits(self, name: str, many: int, **asked: Any) -> None:
        """Let some come at once, and click."""
        chance, appeal = self.chance, self.appeal[name]
        made = self.client.request("POST", f"/v1/policies/{name}/decisions/batch", {"requests": [asked] * many})
        told = []
        for one in made["decisions"]:
            if chance.random() < 0.92:
                hits = [item for item in one["show"] if chance.random() < appeal[item]]
                told += [{"decision": one["id"], "hits": hits}] * (2 if chance.random() < 0.01 else 1)
        if chance.random() < 0.2:
            told.append({"decision": f"old-{chance.random()}", "hits": [next(iter(appeal))]})
        if told:
            self.client.request("POST", f"/v1/policies/{name}/rewards/batch", {"requests": told[:1000]})


def front_page(seed: int = 11) -> dict[str, float]:
    """Return a hundred articles, and how good they are."""
    chance = random.Random(seed)
    names = [f"{one}-{other}" for one in WHO for other in WHAT]
    chance.shuffle(names)
    best = [0.62, 0.58, 0.55, 0.50, 0.47, 0.42, 0.40]
    return dict(zip(names, best + sorted((chance.betavariate(2, 8) for _ in range(93)), reverse=True), strict=True))


def fill(client: Client, decisions: int) -> Town:
    """Make policies of each kind, and let them be asked and told."""
    town = Town(client)
    feedback = {"kind": "cliques", "sizes": [10] * 10}
    town.make("front-page", front_page(), budget=5, feedback=feedback, join_window="30m")
    town.make("newsletter", {f"story-{n:02d}": 0.05 + 0.02 * n for n in range(12)}, budget=3, join_window="1h")
    jobs = {
        f"{crew} on {task}": 0.2 + 0.05 * ((3 * a + b) % 9)
        for a, crew in enumerate("ABC")
        for b, task in enumerate(["roof", "well", "road", "dam"])
    }
    town.make("crews", jobs, decisions={"kind": "matchings", "left": 3, "right": 4})
    town.make(
        "search-results", {f"result-{n}": 0.5 for n in range(20)}, dimension=6, budget=4,
        policy={"kind": "guarded_linear"},
    )  # fmt: skip
    draw = np.random.default_rng(7)
    theta = np.array([0.5, -0.3, 0.25, 0.1, 0.0, 0.45])
    for _ in range(300):
        contexts = draw.uniform(0, 0.4, (20, 6))
        made = client.request("POST", "/v1/policies/search-results/decisions", {"contexts": contexts.tolist()})
        seen = {item: float(town.chance.random() < contexts[int(item[7:])] @ theta) for item in made["show"]}
        client.request("POST", "/v1/policies/search-results/rewards", {"decision": made["id"], "rewards": seen})
    made = 0
    while made < decisions:
        many = min(500, max(5, made // 25), decisions - made)
        town.visits("front-page", many)
        for name in ("newsletter", "crews"):
            town.visits(name, max(many // 10, 1))
        made += many
    return town


class Picture(NamedTuple):
    """A picture: which address, how wide, in which theme, and how much of the page."""

    path: str
    width: int = 1280
    theme: str = "light"
    top: int = 0  # pixels; 0 for the whole page
    part: str = ""  # a selector, for a part of it


PICTURES = {
    "dashboard": Picture("/policies/front-page", top=960),
    "dashboard-phone": Picture("/policies/front-page", width=390, theme="dark", top=1560),
    "dashboard-why": Picture("/policies/front-page?item={third}", part="section:has(#items)"),
    "dashboard-sets": Picture("/policies/crews", top=1000),
    "dashboard-contexts": Picture("/policies/search-results", top=760),
    "dashboard-policies": Picture("/", top=440),
}


def take(browser: Browser, url: str, picture: Picture, path: Path) -> None:
    """Take a picture when the page is live."""
    context = browser.new_context(viewport={"width": picture.width, "height": 900}, color_scheme=picture.theme)
    page = context.new_page()
    page.goto(url + picture.path.format(third=list(front_page())[2]))
    page.wait_for_selector("#live[data-state=live]", timeout=10_000)
    if picture.part:
        page.locator(picture.part).screenshot(path=path)
    elif picture.top:
        page.set_viewport_size({"width": picture.width, "height": picture.top})
        page.screenshot(path=path)
    else:
        page.screenshot(path=path, full_page=True)
    context.close()
    Image.open(path).convert("RGB").quantize(128).save(path, optimize=True)  # a third of the size, and looks the same


def main(out: Path, decisions: int, seconds: float) -> None:
    """Take all pictures."""
    chromium = shutil.which("chromium")
    if chromium is None:
        raise SystemExit("chromium must be on the PATH")
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, service(Path(folder, "decisions.db")) as url, Client(url) as client:
        town = fill(client, decisions)
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            town.visits("front-page", town.chance.randint(4, 9))
            town.visits("newsletter", 1)
            time.sleep(0.5)
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
            for name, picture in PICTURES.items():
                for _ in range(3):
                    town.visits("front-page", town.chance.randint(4, 9))
                    town.visits("newsletter", 2)
                take(browser, url, picture, out / f"{name}.png")
            browser.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("docs/images"))
    parser.add_argument("--decisions", type=int, default=90_000)
    parser.add_argument("--seconds", type=float, default=190.0, help="How long the audience comes live.")
    given = parser.parse_args()
    main(given.out, given.decisions, given.seconds)
