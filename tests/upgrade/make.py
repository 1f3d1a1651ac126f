"""Write what is kept of a version, to be served and loaded by later ones: a store, and a file of every policy.

Made once for each version, by that version itself, here by b83ea6a, the last before clicks could count early::

    PYTHONPATH=OTHER/src:OTHER/tests python tests/upgrade/make.py tests/upgrade/b83ea6a

Beside the files are facts: digests, and what the version that wrote them does next.
"""

from __future__ import annotations

import asyncio
import gzip
import itertools
import json
import sqlite3
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from armtriage import (
    C2UCB,
    KLUCB,
    CombinatorialElimination,
    CombinatorialUCB,
    CombUCB1,
    ConstrainedElimination,
    ContextualPolicy,
    Decision,
    FeedbackGraph,
    Greedy,
    Guard,
    GuardedLinear,
    GuardedThompson,
    HierarchicalElimination,
    LinearThompsonSampling,
    PartitionMatroid,
    Policy,
    ThompsonSampling,
    UniformRandom,
    catalogue,
)
from armtriage.service import clock
from armtriage.service.keys import new_key
from service.calls import Caller, served

NOW = 1_790_000_000_000_000
"""When the store is written, in microseconds since 1970; nothing in it is due before the next day."""

ROUNDS = 25
NAMES = ["tea", "milk", "jam", "bread", "egg", "salt"]
GRAPH = FeedbackGraph.cliques([2, 1, 3])
GROUPS = PartitionMatroid([0, 0, 1, 1, 2, 2], [1, 1, 1])
FEATURES = {"numeric": [["age", 45, 15]], "categories": [["device", ["phone", "desktop"]]], "hashed": [["author", 4]]}


def _linear(kind: Callable[..., Any], **more: Any) -> Any:
    return kind(n_arms=6, dimension=3, budget=2, seed=7, **more)


POLICIES: dict[str, Callable[[], Any]] = {
    "KLUCB": lambda: KLUCB(GRAPH, 2, seed=7),
    "CombUCB1": lambda: CombUCB1(GRAPH, 2, seed=7),
    "CombUCB1-set": lambda: CombUCB1(6, decisions=GROUPS, seed=7),
    "CombinatorialUCB": lambda: CombinatorialUCB(GRAPH, 2, horizon=1000, seed=7),
    "Greedy": lambda: Greedy(GRAPH, 2, seed=7),
    "UniformRandom": lambda: UniformRandom(GRAPH, 2, seed=7),
    "ThompsonSampling": lambda: ThompsonSampling(GRAPH, 2, seed=7),
    "ThompsonSampling-names": lambda: ThompsonSampling(6, 2, names=NAMES, seed=7),
    "ThompsonSampling-costs": lambda: ThompsonSampling(
        6, 2, reward_range=(-1.0, 3.0), direction="minimize", prior=(1.0, 2.0), seed=7
    ),
    "CombinatorialElimination": lambda: CombinatorialElimination(GRAPH, 2, delta=0.5, seed=7),
    "CombinatorialElimination-paper": lambda: CombinatorialElimination(
        GRAPH, 2, variant="paper", horizon=100, delta=0.9, seed=7
    ),
    "GuardedThompson": lambda: GuardedThompson(GRAPH, 2, seed=7),
    "GuardedThompson-names": lambda: GuardedThompson(6, 2, names=NAMES, seed=7),
    "GuardedThompson-set": lambda: GuardedThompson(6, decisions=GROUPS, seed=7),
    "Guard": lambda: Guard(ThompsonSampling(GRAPH, 2, seed=7), GRAPH, 2, seed=7),
    "ConstrainedElimination": lambda: ConstrainedElimination(6, decisions=GROUPS, delta=0.5, seed=7),
    "GuardedLinear": lambda: _linear(GuardedLinear),
    "GuardedLinear-disjoint": lambda: _linear(GuardedLinear, model="disjoint"),
    "GuardedLinear-hybrid": lambda: _linear(GuardedLinear, model="hybrid"),
    "GuardedLinear-staged": lambda: _linear(GuardedLinear, fallback="hierarchical"),
    "C2UCB": lambda: _linear(C2UCB),
    "LinearThompsonSampling": lambda: _linear(LinearThompsonSampling),
    "HierarchicalElimination": lambda: _linear(HierarchicalElimination, horizon=100),
}


def ask(policy: Policy, number: int) -> Decision:
    """Ask with contexts that follow from a number, if the policy takes any."""
    if isinstance(policy, ContextualPolicy):
        rows = np.random.default_rng(number).normal(size=(6, 3))
        return policy.ask(rows / np.linalg.norm(rows, axis=1).max())
    return policy.ask()


def rewards(policy: Policy, decision: Decision) -> dict[Any, float]:
    """Return rewards at the ends of their range that follow from the number of a decision and the arm."""
    low, high = policy.reward_range
    arms = decision.revealed.tolist()
    values = [high if (decision.number * 7 + arm * 5) % 11 < 2 + arm else low for arm in arms]
    named = isinstance(decision.names[0], str)
    return dict(zip([NAMES[arm] for arm in arms] if named else arms, values, strict=True))


def use(name: str) -> Policy:
    """Return a policy in the middle of things, with two decisions open; where arms have names, one is told in part."""
    policy: Policy = POLICIES[name]()
    ask(policy, 1000)
    for number in range(ROUNDS):
        decision = ask(policy, number)
        policy.tell(decision, rewards(policy, decision))
    decision = ask(policy, 1001)
    if name.endswith("-names"):
        policy.retire_arms(["jam"])
        among = policy.ask(eligible=["tea", "egg", "salt"])
        policy.tell(among, rewards(policy, among))
        (arm, reward), *_ = rewards(policy, decision).items()
        policy.tell(decision, {arm: reward}, last=False)
    return policy


def go_on(policy: Policy) -> list[list[int]]:
    """Close what is open, play on, and return the decisions."""
    for decision in policy.open_decisions:
        policy.close(decision, default=policy.reward_range[0])
    played = []
    for number in range(ROUNDS, ROUNDS + 10):
        decision = ask(policy, number)
        policy.tell(decision, rewards(policy, decision))
        played.append(decision.arms.tolist())
    return played


@contextmanager
def time_stands_at(microseconds: int) -> Iterator[None]:
    """Let the service's clock tick by a millisecond each time that somebody looks."""
    ticks = itertools.count(microseconds, 1000)
    before = clock.steady, clock.wall
    clock.steady = clock.wall = lambda: next(ticks)
    try:
        yield
    finally:
        clock.steady, clock.wall = before


SERVED: dict[str, dict[str, Any]] = {
    "page": {"arms": NAMES, "budget": 2},
    "sums": {"arms": NAMES, "budget": 2, "reward": {"range": [0, 5], "rule": "sum", "default": 0}},
    "sampler": {"arms": NAMES, "budget": 2, "policy": {"kind": "thompson"}, "feedback": {"kind": "full_information"}},
    "groups": {
        "arms": NAMES,
        "decisions": {"kind": "partition", "groups": [0, 0, 1, 1, 2, 2], "capacities": [1, 1, 1]},
    },
    "linear": {"arms": NAMES, "budget": 2, "dimension": 3, "policy": {"kind": "c2ucb"}, "log_contexts": "chosen"},
    "raw": {"arms": NAMES, "budget": 2, "features": FEATURES, "policy": {"kind": "guarded_linear"}},
}


def asked(name: str, number: int) -> dict[str, Any]:
    """Return a request for a decision."""
    body: dict[str, Any] = {"id": f"v{number}"}
    if name == "linear":
        body["contexts"] = [[0.1 * arm, 0.5, 0.01 * (number % 9)] for arm in range(6)]
    elif name == "raw":
        body["rows"] = [
            {"age": 20 + number % 50, "device": ["phone", "fridge"][number % 2], "author": f"a{arm}"}
            for arm in range(6)
        ]
    elif name == "page" and number % 3 == 0:
        body["exclude"] = ["egg"]
    return body


async def fill(call: Caller) -> dict[str, str]:
    """Let happen to policies what can, and return the keys by their labels."""
    for name, recipe in SERVED.items():
        made = await call.post("/v1/policies", json={"name": name, "seed": 7, **recipe})
        assert made.status_code == 201, made.text
    await call.ready()
    for name in SERVED:
        for number in range(ROUNDS):
            made = await call.decide(name, **asked(name, number))
            shown = made["show"]
            if number % 5 == 4:
                continue  # nobody tells
            if number % 5 == 3:
                await call.reward(f"v{number}", {shown[0]: 1}, name=name, id="a")
            elif number % 2:
                await call.reward(f"v{number}", hits=shown[: number % 3], name=name)
            else:
                await call.reward(f"v{number}", dict.fromkeys(shown, 1), name=name, id="b", last=True)
        await call.reward("v0", {(await call.decide(name, **asked(name, 0)))["show"][0]: 1}, name=name, id="late")
        await call.reward("nobody", {"tea": 1}, name=name)
    for body in ({"add": ["rye"], "retire": ["jam"]}, {"restore": ["jam"], "meta": {"rye": {"price": 3}}}):
        changed = await call.patch("/v1/policies/sums/arms", json=body)
        assert changed.status_code == 200, changed.text
    await call.patch("/v1/policies/sampler", json={"status": "paused"})
    await call.patch("/v1/policies/sampler", json={"status": "running"})
    keys = {}
    for label in ("good", "revoked"):
        text, row = new_key(["decide", "reward", "read", "admin"], label, 0.0)
        await call.service.store.put_key(row)
        keys[label] = text
    await call.service.store.revoke_key(row.id, NOW)
    return keys


async def go_on_served(call: Caller, name: str) -> list[list[str]]:
    """Close what is open, ask on, and return the decisions."""
    for number in range(ROUNDS):
        await call.reward(f"v{number}", {}, name=name, last=True)
    played = []
    for number in range(ROUNDS, ROUNDS + 6):
        made = await call.decide(name, **asked(name, number))
        await call.reward(f"v{number}", dict.fromkeys(made["show"], number % 2), name=name, last=True)
        played.append(made["arms"])
    return played


async def state_of(call: Caller, name: str) -> dict[str, Any]:
    """Return what is known of a policy, and the answers that it gave."""
    about = (await call.get(f"/v1/policies/{name}")).json()
    answers = [await call.decide(name, **asked(name, number)) for number in range(ROUNDS)]
    return {
        "head": about["head"],
        "decisions": about["decisions"],
        "open": about["open_decisions"],
        "digest": (await call.digest(name))["digest"],
        "answers": answers,
    }


async def make_store(file: Path) -> dict[str, Any]:
    """Write the store, and return its facts."""
    with time_stands_at(NOW):
        async with served(str(file)) as call:
            keys = await fill(call)
            call.headers["authorization"] = f"Bearer {keys['good']}"
            facts = {name: await state_of(call, name) for name in SERVED}
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, "copy.db")
        source, goal = sqlite3.connect(file), sqlite3.connect(copy)
        source.backup(goal)
        source.execute("PRAGMA journal_mode=DELETE")
        source.execute("VACUUM")
        source.close()
        goal.close()
        with time_stands_at(NOW + 10**9):
            async with served(str(copy)) as call:
                call.headers["authorization"] = f"Bearer {keys['good']}"
                for name, about in facts.items():
                    about["next"] = await go_on_served(call, name)
    return {"now": NOW, "keys": keys, "policies": facts}


def main(folder: Path) -> None:
    """Write all of it."""
    folder.mkdir(parents=True, exist_ok=True)
    saved, kinds = {}, {*catalogue.POLICIES.values(), Guard}
    with zipfile.ZipFile(folder / "policies.zip", "w", zipfile.ZIP_DEFLATED) as files:
        for name in POLICIES:
            policy = use(name)
            files.writestr(f"{name}.armtriage", policy.to_bytes())
            kinds.discard(type(policy))
            saved[name] = {"digest": policy.digest(), "next": go_on(policy)}
    assert not kinds, f"no file of {kinds}"
    with tempfile.TemporaryDirectory() as work:
        file = Path(work, "decisions.db")
        store = asyncio.run(make_store(file))
        (folder / "store.db.gz").write_bytes(gzip.compress(file.read_bytes(), 9, mtime=0))
    facts = {"saved": saved, "store": store}
    (folder / "facts.json").write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
