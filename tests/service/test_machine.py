"""A state machine: the service against a model of a hundred lines that has neither log nor policy."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Set
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from armtriage import Lift
from armtriage.service import loop as loops
from armtriage.service.stores import open_store
from conftest import score
from service.calls import SLATE, Caller, new_database, served

IDS = st.sampled_from(["a", "b", "c", "d", "e"])
REWARD_IDS = st.sampled_from(["", "", "x", "y"])
VALUES = st.sampled_from([0.0, 0.5, 1.0, 2.0])
NAMES = SLATE["arms"]
KEY = b"a secret of 16 bytes or more"


class Model:
    """What the contract says, in dictionaries."""

    def __init__(self) -> None:
        self.decisions: dict[str, dict[str, Any]] = {}
        self.told: dict[str, dict[str, tuple[str, float]]] = {}
        self.strays: dict[str, dict[tuple[str, str], float]] = {}
        self.zeros: dict[str, dict[str, set[str]]] = {}  # what hits filled in, and under which ids
        self.closed: set[str] = set()
        self.status = "running"
        self.retired: set[str] = set()
        self.expired = 0
        self.counts = dict.fromkeys(("applied", "duplicate", "conflict", "late", "orphan", "rejected"), 0)

    def hits(self, key: str, names: list[str], reward_id: str) -> tuple[int, dict[str, str] | None]:
        """The same for hits that are the last."""
        show = self.decisions[key]["show"] if key in self.decisions else names
        if not set(names) <= set(show):
            return self._rejected(dict.fromkeys(names, 1.0))
        rewards = {name: float(name in names) for name in show}
        return self.reward(key, rewards, reward_id, True, set(show) - set(names))

    def reward(
        self, key: str, rewards: dict[str, float], reward_id: str, last: bool, filled: Set[str] = frozenset()
    ) -> tuple[int, dict[str, str] | None]:
        """Return the status and the fates that a reward must have, and note it."""
        made = self.decisions.get(key)
        if made is None and not rewards:
            return 404, {}
        if made is not None and not self._fits(made, rewards):
            return self._rejected(rewards)
        told, strays = self.told.setdefault(key, {}), self.strays.setdefault(key, {})
        zeros = self.zeros.setdefault(key, {})
        fates = {}
        for name, value in rewards.items():
            silent = name in filled and not reward_id
            if name in told:
                known = told[name][1] if told[name][0] == reward_id and not silent else value
            elif made is None or key in self.closed:
                known = strays.get((name, reward_id))
                if known is not None and silent:
                    known = value
                if known is None and name in zeros and (not value or (reward_id and reward_id in zeros[name])):
                    known = 0.0
            else:
                known = None
            fresh = "orphan" if made is None else "late" if key in self.closed else "applied"
            fates[name] = fresh if known is None else "duplicate" if known == value else "conflict"
        if "conflict" in fates.values():
            fates = {name: fate if fate in ("conflict", "duplicate") else "rejected" for name, fate in fates.items()}
            self._count(fates)
            return 409, fates
        for name, fate in fates.items():
            if name in filled and fate in ("applied", "late"):
                zeros.setdefault(name, set()).add(reward_id)
            elif fate == "applied":
                told[name] = reward_id, rewards[name]
            elif fate in ("late", "orphan"):
                strays[name, reward_id] = rewards[name]
        if made is not None and key not in self.closed and (last or self._is_whole(key)):
            self.closed.add(key)
        self._count(fates)
        return 404 if made is None else 200, fates

    def adopt(self, key: str, orphans: list[tuple[dict[str, float], str, bool, bool]]) -> None:
        """Apply rewards that came before their decision, until one does not fit it."""
        for rewards, reward_id, last, hits in orphans:
            made, told = self.decisions[key], self.told.setdefault(key, {})
            if key in self.closed or not self._fits(made, rewards):
                continue
            if any(
                name in told and told[name][0] == reward_id and told[name][1] != value
                for name, value in rewards.items()
            ):
                continue
            for name, value in rewards.items():
                told.setdefault(name, (reward_id, value))
            if hits:
                self.zeros[key] = {name: {""} for name in made["show"] if name not in told}
            if last or self._is_whole(key):
                self.closed.add(key)

    @staticmethod
    def _fits(made: dict[str, Any], rewards: dict[str, float]) -> bool:
        """Whether a decision shows all these arms, and the rewards are in range; a total is for the control."""
        for name, value in rewards.items():
            if name == "total":
                if not made["control"] or value < 0:
                    return False
            elif name not in made["show"] or not 0 <= value <= 1:
                return False
        return True

    def _is_whole(self, key: str) -> bool:
        """Whether all that a decision waits for has come."""
        told = self.told.get(key, {})
        return "total" in told or set(told) >= set(self.decisions[key]["show"])

    def counted(self) -> tuple[float, ...]:
        """Return how many decisions of each group count, and their totals: all that are older than any open one."""
        found = {False: [0, 0.0], True: [0, 0.0]}
        for key, made in self.decisions.items():
            if key not in self.closed:
                break
            told = {name: value for name, (_, value) in self.told.get(key, {}).items()}
            found[made["control"]][0] += 1
            found[made["control"]][1] += min(told["total"] if "total" in told else sum(told.values()), 2.0)
        return *found[False], *found[True]

    def pass_time(self) -> None:
        """The join window of all decisions so far has passed."""
        waiting = set(self.decisions) - self.closed
        self.expired += len(waiting)
        self.closed |= waiting

    def _rejected(self, rewards: dict[str, float]) -> tuple[int, None]:
        self.counts["rejected"] += len(rewards)
        return 422, None

    def _count(self, fates: dict[str, str]) -> None:
        for fate in fates.values():
            self.counts[fate] += 1


def _later(kind: type[Any]) -> type[Any]:
    """Return a store like this whose clock can be put forward."""

    class Later(kind):  # type: ignore[misc]
        ahead = 0

        async def begin(self, *given: Any) -> Any:
            group = await super().begin(*given)
            group.now += self.ahead
            return group

    return Later


class Machine(RuleBasedStateMachine):
    """Makes, asks, tells, repeats, restarts, lets time pass and gives up, and compares."""

    kind = "sqlite"
    lift: Lift | None = None  # what draws the same groups, where there is a control

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.folder = Path(tempfile.mkdtemp(prefix="armtriage-"))
        self.address = str(self.folder / "decisions.db")
        if self.kind == "postgres":
            self.address = new_database(os.environ["ARMTRIAGE_MACHINE_POSTGRES"])
        self.model = Model()
        self.ahead = self.many = 0
        self.added: list[str] = []
        self.orphans: dict[str, list[tuple[dict[str, float], str, bool, bool]]] = {}
        self.open()

    def open(self) -> None:
        store = _later(type(open_store(self.address)))(self.address)
        store.ahead = self.ahead
        self.context = served(store)
        self.call: Caller = self.runner.run(self.context.__aenter__())

    def close(self) -> None:
        self.runner.run(self.context.__aexit__(None, None, None))

    def teardown(self) -> None:
        self.close()
        self.runner.close()
        shutil.rmtree(self.folder)

    @initialize()
    def make(self) -> None:
        self.runner.run(self.call.make(join_window="10m", **self.recipe()))

    def recipe(self) -> dict[str, Any]:
        return {}

    @rule(key=IDS, exclude=st.sampled_from([None, ["tea"], ["milk", "jam"]]))
    def decide(self, key: str, exclude: list[str] | None) -> None:
        body = {"id": key} | ({} if exclude is None else {"exclude": exclude})
        answer = self.runner.run(self.call.post("/v1/policies/slate/decisions", json=body))
        known = self.model.decisions.get(key)
        if known is not None:
            assert answer.status_code == (200 if known["body"] == body else 409)
            assert answer.status_code == 409 or answer.content == known["content"]
        elif self.model.status == "paused":
            assert answer.status_code == 409
        else:
            assert answer.status_code == 201
            made = answer.json()
            control = made.get("group") == "control"
            assert len(made["arms"]) == 2
            assert control or not set(made["arms"]) & {*self.model.retired, *(exclude or ())}
            self.check_group(key, made)
            about = {"body": body, "content": answer.content, "show": made["show"], "control": control}
            self.model.decisions[key] = about
            held = self.orphans.pop(key, [])
            self.model.adopt(key, held)
            if self.model.told.get(key):
                self.model.strays.pop(key, None)

    def check_group(self, key: str, made: dict[str, Any]) -> None:
        """The same id has the same group for ever."""
        assert made.get("group") == (None if self.lift is None else self.lift.group(key))

    @rule(key=IDS, names=st.lists(st.sampled_from(NAMES), max_size=3, unique=True), value=VALUES, name=REWARD_IDS,
          last=st.booleans(), shown=st.booleans())  # fmt: skip
    def reward(self, key: str, names: list[str], value: float, name: str, last: bool, shown: bool) -> None:
        made = self.model.decisions.get(key)
        if made is None and (key in self.orphans or not 0 <= value <= 1):
            return  # one orphan for each decision keeps the model short
        if shown and made is not None:
            names = made["show"][: len(names)]
        self.tell(key, dict.fromkeys(names, value), name, last)

    def tell(self, key: str, rewards: dict[str, float], name: str, last: bool) -> None:
        made = self.model.decisions.get(key)
        body: dict[str, Any] = {"decision": key, "rewards": rewards, "last": last} | ({"id": name} if name else {})
        answer = self.runner.run(self.call.post("/v1/policies/slate/rewards", json=body))
        if made is None and rewards:
            self.orphans.setdefault(key, []).append((rewards, name, last, False))
        status, fates = self.model.reward(key, rewards, name, last)
        assert (answer.status_code, answer.json().get("fates")) == (status, fates), (body, answer.text)

    @rule(key=IDS, names=st.lists(st.sampled_from(NAMES), max_size=2, unique=True), name=REWARD_IDS,
          last=st.sampled_from([None, True, False]), shown=st.sampled_from([0, 0, 1, 2, 3]))  # fmt: skip
    def hits(self, key: str, names: list[str], name: str, last: bool | None, shown: int) -> None:
        made = self.model.decisions.get(key)
        if made is None and key in self.orphans:
            return
        if shown and made is not None:
            names = [item for place, item in enumerate(made["show"]) if shown >> place & 1]
        body: dict[str, Any] = {"decision": key, "hits": names} | ({"id": name} if name else {})
        body |= {} if last is None else {"last": last}
        answer = self.runner.run(self.call.post("/v1/policies/slate/rewards", json=body))
        rewards, closing = dict.fromkeys(names, 1.0), last is not False
        if made is None and names:
            self.orphans.setdefault(key, []).append((rewards, name, closing, closing))
        if closing:
            status, fates = self.model.hits(key, names, name)
        else:
            status, fates = self.model.reward(key, rewards, name, False)
        assert (answer.status_code, answer.json().get("fates")) == (status, fates), (body, answer.text)

    @rule(damaged=st.booleans())
    def restart(self, damaged: bool) -> None:
        """Start again, from the last snapshot, or without one: then all of the log is replayed."""
        before = self.runner.run(self.call.digest())
        self.close()
        if damaged:
            self.damage()
        self.open()
        assert self.runner.run(self.call.digest()) == before

    @rule()
    def snapshot(self) -> None:
        loop = self.call.service.loops["slate"]
        if loop.lag:
            self.runner.run(loop._save(*loop._frozen()))

    def damage(self) -> None:
        """Spoil all snapshots."""
        with contextlib.closing(sqlite3.connect(self.address)) as connection, connection:
            connection.execute("UPDATE snapshot SET payload = sha256")

    @rule(tell=st.booleans())
    def add_arm(self, tell: bool) -> None:
        """Add an arm while decisions are open; perhaps the next that comes is a reward of the oldest of them."""
        if len(self.added) < 3:
            self.added.append(f"new-{len(self.added)}")
            answer = self.runner.run(self.call.patch("/v1/policies/slate/arms", json={"add": self.added[-1:]}))
            assert answer.status_code == 200
        opened = [key for key in self.model.decisions if key not in self.model.closed]
        if tell and opened:
            self.tell(opened[0], dict.fromkeys(self.model.decisions[opened[0]]["show"][:1], 1.0), "", False)

    @precondition(lambda self: self.model.status == "running" and self.many < 2)
    @rule()
    def decide_many(self) -> None:
        """Make more decisions than one group closes."""
        self.many += 1
        body = {"requests": [{"id": f"{self.many}-{number}"} for number in range(20)]}
        for _ in range(20):  # a database that is too slow for its limits refuses it
            answer = self.runner.run(self.call.post("/v1/policies/slate/decisions/batch", json=body))
            if answer.status_code == 200:
                break
        for made in answer.json()["decisions"]:
            self.check_group(made["id"], made)
            about = {"body": None, "content": None, "show": made["show"], "control": made.get("group") == "control"}
            self.model.decisions[made["id"]] = about

    @rule(days=st.sampled_from([1, 4000]))
    def clock_jumps(self, days: int) -> None:
        """The store's clock jumps ahead: the decisions' time has passed, and what comes for them now is late."""
        self.ahead += days * 86_400_000_000
        self.call.service.store.ahead = self.ahead  # type: ignore[attr-defined]
        # A step of the loop, at whose end it looks at the clock; a database that is too slow for its limits refuses it.
        assert any("digest" in self.runner.run(self.call.digest()) for _ in range(20))
        self.runner.run(self.all_closed())
        self.model.pass_time()

    async def all_closed(self) -> None:
        """Wait until what is due is closed and stored, portion after portion."""
        loop = self.call.service.loops["slate"]
        async with asyncio.timeout(60):
            while loop._overdue or (loop._flying and not loop._flying[-1].done()):
                await asyncio.sleep(0.001)

    @rule(back=st.booleans())
    def retire(self, back: bool) -> None:
        change = {"restore" if back else "retire": ["egg"]}
        answer = self.runner.run(self.call.patch("/v1/policies/slate/arms", json=change))
        assert answer.status_code == (200 if back == ("egg" in self.model.retired) else 422)
        if answer.status_code == 200:
            self.model.retired = set() if back else {"egg"}

    @precondition(lambda self: self.model.decisions)
    @rule(status=st.sampled_from(["paused", "running"]))
    def pause(self, status: str) -> None:
        self.runner.run(self.call.patch("/v1/policies/slate", json={"status": status}))
        self.model.status = status

    @invariant()
    def counts_are_those_of_the_model(self) -> None:
        if "slate" in self.call.service.loops:
            counts = self.runner.run(self.call.counts())
            assert {name: counts.get(name, 0) for name in self.model.counts} == self.model.counts
            assert counts.get("decisions", 0) == len(self.model.decisions)
            assert counts.get("expired", 0) == self.model.expired

    @invariant()
    def open_decisions_are_those_of_the_model(self) -> None:
        loop = self.call.service.loops.get("slate")
        if loop is not None and loop.state is not None:
            assert set(loop.state.open) == set(self.model.decisions) - self.model.closed


class ControlMachine(Machine):
    """The same with a control group, whose decisions may be told by their totals."""

    def recipe(self) -> dict[str, Any]:
        self.lift = Lift(share=0.4, key=KEY)
        control = {"share": 0.4, "key": KEY.decode(), "incumbent": ["tea", "milk"]}
        return {"reward": {"default": 0}, "control": control}

    @rule(key=IDS, value=VALUES, name=REWARD_IDS)
    def total(self, key: str, value: float, name: str) -> None:
        made = self.model.decisions.get(key)
        if made is None and key in self.orphans:
            return
        body: dict[str, Any] = {"decision": key, "total": value} | ({"id": name} if name else {})
        answer = self.runner.run(self.call.post("/v1/policies/slate/rewards", json=body))
        if made is None:
            self.orphans.setdefault(key, []).append(({"total": value}, name, False, False))
        status, fates = self.model.reward(key, {"total": value}, name, False)
        assert (answer.status_code, answer.json().get("fates")) == (status, fates), (body, answer.text)

    @invariant()
    def what_counts_is_what_the_model_counts(self) -> None:
        loop = self.call.service.loops.get("slate")
        if loop is not None and loop.state is not None:
            assert tuple(loop.state.trial.contrast.to_arrays()["sums"][:4].tolist()) == self.model.counted()


class PostgresMachine(Machine):
    kind = "postgres"

    def damage(self) -> None:
        """Spoil all snapshots."""
        import psycopg

        with psycopg.connect(self.address) as connection:
            connection.execute("UPDATE snapshot SET payload = sha256")


class PostgresControlMachine(ControlMachine, PostgresMachine):
    pass


def _play(machine: type[Machine], examples: int, steps: int) -> None:
    from hypothesis.stateful import run_state_machine_as_test

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(loops, "PORTION", 7)
        run_state_machine_as_test(machine, settings=settings(max_examples=examples, stateful_step_count=steps))


@pytest.mark.parametrize("machine", [Machine, ControlMachine])
def test_the_service_does_what_the_model_says(machine: type[Machine]) -> None:
    _play(machine, 15, 25)


@pytest.mark.parametrize("machine", [PostgresMachine, PostgresControlMachine])
def test_postgres_does_what_the_model_says(
    machine: type[Machine], postgres_server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ARMTRIAGE_MACHINE_POSTGRES", postgres_server)
    _play(machine, 5, 20)


@pytest.mark.long
@pytest.mark.parametrize("machine", [Machine, ControlMachine])
def test_the_service_does_what_the_model_says_for_long(machine: type[Machine]) -> None:
    _play(machine, 1000, 60)
    score("state machine against the model, SQLite: runs of 60 steps", 1000, "0 divergences")


@pytest.mark.long
@pytest.mark.parametrize("machine", [PostgresMachine, PostgresControlMachine])
def test_postgres_does_what_the_model_says_for_long(
    machine: type[Machine], postgres_server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ARMTRIAGE_MACHINE_POSTGRES", postgres_server)
    _play(machine, 1000, 40)
    score("state machine against the model, PostgreSQL: runs of 40 steps", 1000, "0 divergences")
