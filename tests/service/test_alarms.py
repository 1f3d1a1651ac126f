"""What an operator is told when the disk is full: by the log, by the metrics, and by the alarms that we advise."""

import asyncio
import json
import os
import re
import resource
import sqlite3
from pathlib import Path

import pytest

from armtriage.service.metrics import STORE_FAILURES
from service.calls import run, served
from service.journal import make_slate, serving

ROOT = Path(__file__).parents[2]
RULES = dict(
    re.findall(r"- alert: (\w+).*\n +expr: (.+)", (ROOT / "examples/deploy/alarms.yml").read_text(encoding="utf-8"))
)
TERM = re.compile(r'(min|sum)\((?:increase\()?(\w+)(?:\{(\w+)=~?"([^"]*)"\})?(?:\[\w+\]\))?\)')


def samples(text):
    """Return the numbers of Prometheus's text by name and labels."""
    found = re.findall(r"^(\w+)(?:\{(.*)\})? (\S+)$", text, re.M)
    return {(name, tuple(re.findall(r'(\w+)="([^"]*)"', inside))): float(value) for name, inside, value in found}


def fired(before, after):
    """Return the alarms that fire between two scrapes, by the few words of PromQL that they are written in."""

    def worth(match):
        kind, name, label, wanted = match.groups()
        values = {
            key: value
            for key, value in after.items()
            if key[0] == name and (label is None or re.fullmatch(wanted, dict(key[1]).get(label, "")))
        }
        if "increase(" in match[0]:
            values = {key: value - before.get(key, 0.0) for key, value in values.items()}
        return str(min(values.values(), default=1.0) if kind == "min" else sum(values.values()))

    return {name for name, rule in RULES.items() if eval(TERM.sub(worth, rule))}


def test_the_page_has_the_rules_of_the_file():
    rules = (ROOT / "examples/deploy/alarms.yml").read_text(encoding="utf-8").split("\n", 1)[1]
    assert rules in (ROOT / "docs/serve.md").read_text(encoding="utf-8")


def test_every_alarm_is_about_metrics_that_there_are(sqlite_address):
    async def work():
        async with served(sqlite_address) as call:
            await call.make(control={}, reward={"default": 0})
            text = (await call.get("/metrics")).text
            named = {name for rule in RULES.values() for _, name, *_ in TERM.findall(rule)} - {"up"}
            assert named <= {name for name, _ in samples(text)}
            assert fired({}, samples(text)) == set()

    run(work)


def test_an_alarm_of_a_policy_is_one_for_the_operator(sqlite_address):
    async def work():
        async with served(sqlite_address) as call:
            await call.make(metrics=[{"name": "gone", "limit": {"most": 0.1}}])
            for number in range(60):
                await call.decide(id=f"v{number}")
                await call.reward(f"v{number}", hits=[], metrics={"gone": 1})
            assert fired({}, samples((await call.get("/metrics")).text)) == {"ArmtriageAlarm"}

    run(work)


def test_a_full_disk_is_in_the_log_the_metrics_and_the_alarms(sqlite_address):
    """The server's files may not grow; when they may again, it goes on without a restart."""

    async def work():
        with serving(sqlite_address, "--log", "json") as server:
            async with server.client() as call:
                await make_slate(call)
                await server.ready(call)
                before = samples((await call.get("/metrics")).text)
                size = max(os.stat(sqlite_address + suffix).st_size for suffix in ("", "-wal"))
                limit, endless = resource.RLIMIT_FSIZE, resource.RLIM_INFINITY
                resource.prlimit(server.process.pid, limit, (size + 40_000, endless))
                for number in range(400):
                    refused = await call.post("/v1/policies/slate/decisions", json={"id": f"v{number}"})
                    if refused.status_code != 201:
                        break
                assert refused.status_code in (503, 507)
                while (await call.get("/readyz")).status_code == 200:
                    await call.post("/v1/policies/slate/decisions", json={"id": f"v{number}"})
                full = samples((await call.get("/metrics")).text)
                assert (await call.get("/readyz")).json()["waiting"]["slate"] in STORE_FAILURES
                resource.prlimit(server.process.pid, limit, (endless, endless))
                async with asyncio.timeout(120):
                    again = {"id": f"v{number}"}
                    while (await call.post("/v1/policies/slate/decisions", json=again)).status_code not in (200, 201):
                        await asyncio.sleep(0.05)
                assert (await call.get("/readyz")).status_code == 200
            server.process.terminate()
            _, errors = await asyncio.to_thread(server.process.communicate, timeout=120)
        assert full["armtriage_ready", (("policy", "slate"),)] == 0.0
        assert sum(value for (name, _), value in full.items() if name == "armtriage_store_failures_total") > 0
        assert fired(before, full) >= {"ArmtriageNotReady", "ArmtriageStoreFails", "ArmtriageFailingAnswers"}
        lines = [json.loads(line) for line in errors.splitlines()]
        events = [line["event"] for line in lines]
        assert events.index("store_failed") < events.index("store_recovered") < events.index("stopped")
        (said,) = [line for line in lines if line.get("request") == refused.json()["request"]]
        assert (said["event"], said["status"]) == (refused.json()["error"], refused.status_code)

    run(work)


@pytest.mark.parametrize("full", [True, False], ids=["full", "failing"])
def test_a_policy_is_ready_again_when_small_writes_succeed(sqlite_address, monkeypatch, full):
    """While requests that write are kept away from a server that is not ready, it looks itself."""
    from armtriage.service.stores import sqlite

    async def work():
        async with served(sqlite_address) as call:
            await call.make()
            with monkeypatch.context() as patched:

                def fail(*_):
                    error = sqlite3.OperationalError("database or disk is full")
                    error.sqlite_errorcode = sqlite3.SQLITE_FULL if full else sqlite3.SQLITE_IOERR
                    raise error

                patched.setattr(sqlite, "_insert", fail)
                refused = await call.post("/v1/policies/slate/decisions", json={"id": "v0"})
                assert refused.status_code == (507 if full else 503)
                loop = call.service.loops["slate"]
                before = call.service.metrics.store_failures.copy()
                kind = "disk_full" if full else "store"
                while not call.service.metrics.store_failures[kind, "probe"] > before[kind, "probe"]:
                    loop.nudge()
                    await asyncio.sleep(0.01)
                assert call.service.readiness()[1]["waiting"] == {"slate": kind}
                assert (await call.get("/v1/policies/slate")).json()["decisions"] == 0
                alarms = fired({}, samples((await call.get("/metrics")).text))
                assert ("ArmtriageDiskFull" in alarms) == full
            assert await loop.look(lambda state: state.head) == 0  # a group that writes nothing proves nothing
            assert not loop.ready
            async with asyncio.timeout(120):
                while not loop.ready:
                    loop.nudge()
                    await asyncio.sleep(0.01)
            counts = await call.counts()
            assert counts.get("decisions", 0) == 0
            assert (await call.decide(id="v0"))["number"] == 0

    run(work)
