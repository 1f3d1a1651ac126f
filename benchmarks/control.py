"""What a control group costs: CPU of decisions and rewards with one over those without, in many short turns.

Run as ``python -m benchmarks.control``. Both policies are in one service in this process, called without HTTP, so that
nothing else is counted; each turn has as many decisions, and what is compared is the CPU time of neighbouring turns.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import time
from typing import Any

import numpy as np

from armtriage.service.app import App
from armtriage.service.service import Service
from armtriage.service.stores import open_store

_ARMS = [f"item-{arm}" for arm in range(50)]
_TOGETHER = 50  # requests at a time, as a busy server has them


async def _post(app: App, path: str, body: dict[str, Any]) -> dict[str, Any]:
    sent: list[bytes] = []
    text, given = json.dumps(body).encode(), False

    async def receive() -> dict[str, Any]:
        nonlocal given
        if given:
            await asyncio.Event().wait()
        given = True
        return {"type": "http.request", "body": text, "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message.get("body", b""))

    scope = {"type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "POST", "scheme": "http"}
    scope |= {"path": path, "raw_path": path.encode(), "query_string": b"", "headers": [(b"host", b"127.0.0.1")]}
    scope |= {"client": ("127.0.0.1", 1), "server": ("127.0.0.1", 80)}
    await app(scope, receive, send)  # type: ignore[arg-type]
    found: dict[str, Any] = json.loads(b"".join(sent))
    return found


async def _turn(app: App, name: str, count: int) -> tuple[float, float]:
    """Return the CPU time of decisions, and of their rewards."""
    path, spent = f"/v1/policies/{name}", [0.0, 0.0]
    for _ in range(count // _TOGETHER):
        began = time.process_time()
        made = await asyncio.gather(*(_post(app, f"{path}/decisions", {}) for _ in range(_TOGETHER)))
        between = time.process_time()
        told = [
            {"decision": one["id"], **({"total": 0} if one.get("group") == "control" else {"hits": []})} for one in made
        ]
        asked = time.process_time()
        await asyncio.gather(*(_post(app, f"{path}/rewards", one) for one in told))
        spent[0] += between - began
        spent[1] += time.process_time() - asked
    return spent[0], spent[1]


async def measure(turns: int, count: int = 200) -> np.ndarray:
    """Return CPU times (turn, without and with control, decisions and rewards)."""
    with tempfile.TemporaryDirectory() as folder:
        service = Service(open_store(f"{folder}/decisions.db", create=True))
        await service.start()
        app = App(service)
        for name, more in (("without", {}), ("with", {"control": {"share": 0.05}})):
            recipe = {"name": name, "arms": _ARMS, "budget": 5, "seed": 7, "reward": {"default": 0}, **more}
            await _post(app, "/v1/policies", recipe)
        while not service.readiness()[0]:
            await asyncio.sleep(0.05)
        found = np.zeros((turns, 2, 2))
        for name in ("without", "with"):
            await _turn(app, name, 1000)
        for turn in range(turns):
            for which in (0, 1) if turn % 2 else (1, 0):
                found[turn, which] = await _turn(app, ("without", "with")[which], count)
        await service.stop()
        return found


def main() -> None:
    """Print the ratios."""
    turns = int(sys.argv[1]) if len(sys.argv) > 1 else 300
    found, luck = asyncio.run(measure(turns)), np.random.default_rng(7)
    for what, one in (
        ("decisions", found[:, :, 0]),
        ("rewards", found[:, :, 1]),
        ("both", found.sum(axis=2)),
    ):
        ratios = one[:, 1] / one[:, 0]
        medians = [np.median(luck.choice(ratios, turns)) for _ in range(2000)]
        low, high = np.percentile(medians, [2.5, 97.5])
        each = 1e6 * np.median(one, axis=0) / 200
        quarters = np.percentile(ratios, [25, 75])
        print(
            f"{what}: {np.median(ratios):.3f} (95% {low:.3f} to {high:.3f}; half of the turns {quarters[0]:.2f} to "
            f"{quarters[1]:.2f}), sums {one[:, 1].sum() / one[:, 0].sum():.3f}; {each[0]:.0f} and {each[1]:.0f} us"
        )


if __name__ == "__main__":
    main()
