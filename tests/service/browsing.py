"""A server in a process of its own, and a page that looks at it."""

from __future__ import annotations

import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from armtriage.service import Client

AXE = {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"]}
COLOURS = {"type": "rule", "values": ["color-contrast", "link-in-text-block"]}
DRINKS = {"tea": 0.8, "milk": 0.6, "jam": 0.3, "bread": 0.2, "egg": 0.1, "salt": 0.05}


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class Server:
    """`armtriage serve` on a store, which can be killed and started again at the same address."""

    def __init__(self, store: Path) -> None:
        self.store, self.port = store, free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.start()

    def start(self) -> None:
        command = [sys.executable, "-m", "armtriage", "serve", "--store", str(self.store), "--create"]
        command += ["--port", str(self.port)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert self.process.stdout is not None
        assert "serves" in self.process.stdout.readline()

    def client(self) -> Client:
        return Client(self.url, deadline=120.0)

    def kill(self) -> None:
        self.process.kill()
        self._over()

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        self._over()

    def _over(self) -> None:
        self.process.wait(timeout=120)
        assert self.process.stdout is not None
        self.process.stdout.close()

    def key(self, scope: str) -> str:
        """Make the first key, and wait until the server knows it."""
        command = [sys.executable, "-m", "armtriage", "key", "new", "--scope", scope, "--store", str(self.store)]
        made = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
        until(lambda: sent("GET", self.url + "/v1/policies").status_code == 401)
        return made


@contextmanager
def serving(store: Path) -> Iterator[Server]:
    server = Server(store)
    try:
        yield server
    finally:
        server.stop()


def sent(method: str, url: str, **more: Any) -> httpx.Response:
    """Send a request, and wait for its answer as long as it takes."""
    return httpx.request(method, url, timeout=120.0, **more)


def make(client: Client, name: str, appeal: dict[str, float], **more: Any) -> None:
    client.create(name=name, arms=list(appeal), seed=7, **more)
    until(lambda: client.policy(name)["ready"])


def play(client: Client, name: str, appeal: dict[str, float], many: int, seed: int = 1, telling: float = 0.9) -> None:
    """Let an audience come, and click; one in ten leaves without a word."""
    chance = random.Random(seed)
    while many > 0:
        some = min(many, 250)
        many -= some
        made = client.request("POST", f"/v1/policies/{name}/decisions/batch", {"requests": [{}] * some})
        told = [
            {"decision": one["id"], "hits": [item for item in one["show"] if chance.random() < appeal[item]]}
            for one in made["decisions"]
            if chance.random() < telling
        ]
        if told:
            client.request("POST", f"/v1/policies/{name}/rewards/batch", {"requests": told})


@contextmanager
def opened(browser: Any, width: int = 1280, **how: Any) -> Iterator[Any]:
    """A window for pages, which are waited for as long as it takes."""
    context = browser.new_context(viewport={"width": width, "height": 900}, **how)
    context.set_default_timeout(120_000)
    yield context
    context.close()


class Watcher:
    """Notes what a page says in its console, and what it asks for."""

    def __init__(self, page: Any) -> None:
        self.page, self.said, self.asked = page, [], []
        page.on("console", lambda one: self.said.append(one.text) if one.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: self.said.append(str(error)))
        page.on("request", lambda one: self.asked.append(one.url))
        page.on("dialog", lambda one: (self.said.append(f"dialog {one.message}"), one.dismiss()))


def until(true: Callable[[], bool], seconds: float = 120.0) -> float:
    """Wait until something is so, and return how long it took; the limit is for what never happens, not for speed."""
    began = time.monotonic()
    while not true():
        assert time.monotonic() - began < seconds, "it did not happen in time"
        time.sleep(0.02)
    return time.monotonic() - began


def sideways(page: Any) -> int:
    """Return by how many pixels the page is wider than the window."""
    return page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")


def violations(page: Any, rules: dict[str, Any] = AXE) -> list[str]:
    """Return what axe-core finds wrong."""
    from axe_playwright_python.sync_playwright import Axe

    # To describe everything that is well takes most of the time.
    found = Axe().run(page, options={"runOnly": rules, "resultTypes": ["violations"]}).response["violations"]
    return [f"{one['id']}: {[node['html'][:160] for node in one['nodes'][:3]]}" for one in found]
