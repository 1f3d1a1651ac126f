"""The application: addresses, methods, sizes, metrics, streams, and the document that describes them."""

import asyncio
import io
import json
import math
import re

import httpx
import polars as pl
import pytest
from prometheus_client.parser import text_string_to_metric_families

from armtriage.service import asgi
from armtriage.service.app import App
from armtriage.service.messages import FATES
from armtriage.service.openapi import document
from armtriage.service.routes import ROUTES
from service.calls import SLATE, run, served


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/nothing", 404, "not_found"),
        ("GET", "/v1/policies/", 404, "not_found"),
        ("GET", "/v1/policies/nobody", 404, "not_found"),
        ("POST", "/v1/policies/nobody/decisions", 404, "not_found"),
        ("POST", "/v1/policies/%2e%2e/decisions", 404, "not_found"),
        ("DELETE", "/v1/policies/slate", 405, "method"),
        ("GET", "/v1/policies/slate/decisions/nobody", 404, "unknown_decision"),
        ("GET", "/v1/policies/slate/decisions/batch", 404, "unknown_decision"),
        ("PUT", "/v1/policies/slate/decisions/batch", 405, "method"),
        ("GET", "/v1/policies/slate/events?after=x", 422, "invalid"),
        ("GET", "/v1/policies/slate/events?after=-1", 422, "invalid"),
        ("GET", "/v1/policies/slate/events?after=1e3", 422, "invalid"),
        ("GET", "/v1/policies/slate/events?limit=%ff", 422, "invalid"),
        ("GET", "/v1/policies/slate/events?surprise=1", 422, "invalid"),
    ],
)
def test_addresses_and_methods(sqlite_address, method, path, status, code):
    async def work():
        async with served(sqlite_address) as call:
            await call.make()
            answer = await call.request(method, path)
            assert (answer.status_code, answer.json()["error"]) == (status, code)
            assert set(answer.json()) == {"error", "detail", "request"}
            if status == 405:
                assert "GET" in answer.headers["allow"] or "POST" in answer.headers["allow"]

    run(work)


def test_bodies_over_a_megabyte_are_refused_before_they_are_read(sqlite_address):
    async def work():
        async with served(sqlite_address) as call:
            await call.make()
            large = b'{"id": "' + b"a" * 2**20 + b'"}'
            answer = await call.post("/v1/policies/slate/decisions", content=large)
            assert (answer.status_code, answer.json()["error"]) == (413, "too_large")

            async def pieces():
                for _ in range(20):
                    yield b" " * 2**16

            answer = await call.post("/v1/policies/slate/decisions", content=pieces())
            assert answer.status_code in (400, 413)

    run(work)


def test_slow_bodies_are_given_up(sqlite_address, monkeypatch):
    monkeypatch.setattr(asgi, "SLOWEST", 0.2)

    async def work():
        async with served(sqlite_address) as call:
            await call.make()
            sent = []

            async def receive():
                if not sent:
                    sent.append(1)
                    return {"type": "http.request", "body": b"{", "more_body": True}
                await asyncio.sleep(3600)
                return {"type": "http.disconnect"}

            answers = []

            async def send(message):
                answers.append(message)

            scope = {
                "type": "http", "method": "POST", "path": "/v1/policies/slate/decisions", "query_string": b"",
                "headers": [(b"host", b"127.0.0.1")], "client": ("127.0.0.1", 1),
            }  # fmt: skip
            await App(call.service)(scope, receive, send)
            assert answers[0]["status"] == 408

    run(work)


def test_the_queue_has_an_end(sqlite_address, monkeypatch):
    from armtriage.service import loop as loops

    monkeypatch.setattr(loops, "WAITING", 10)

    async def work():
        async with served(sqlite_address) as call:
            await call.make()
            answers = await asyncio.gather(
                *(call.post("/v1/policies/slate/decisions", json={"id": f"v{number}"}) for number in range(200))
            )
            codes = [answer.status_code for answer in answers]
            assert set(codes) == {201, 503}
            shed = [answer for answer in answers if answer.status_code == 503]
            assert shed[0].json()["error"] == "busy"
            assert shed[0].headers["retry-after"] == "1"
            made = (await call.get("/v1/policies/slate")).json()["decisions"]
            assert made == codes.count(201)
            (family,) = [one for one in await _metrics(call) if one.name == "armtriage_shed"]
            assert family.samples[0].value == len(shed)

    run(work)


async def _metrics(call):
    answer = await call.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain")
    return list(text_string_to_metric_families(answer.text))


def test_metrics_are_prometheus_and_their_fates_sum_to_what_was_sent(sqlite_address):
    async def work():
        async with served(sqlite_address) as call:
            await call.make()
            sent = 0
            for number in range(20):
                made = await call.decide(id=f"v{number}")
                for rewards in ({made["arms"][0]: 1}, {made["arms"][0]: number % 2}, {"tea": 5, "milk": 0}):
                    await call.reward(f"v{number - number % 3}", rewards)
                    sent += len(rewards)
            await call.reward("nobody", {"tea": 1})
            await call.post("/v1/policies/slate/rewards", content=b"{")
            sent += 2
            families = {one.name: one for one in await _metrics(call)}
            fates = {one.labels["fate"]: one.value for one in families["armtriage_rewards"].samples}
            assert set(fates) == set(FATES)
            assert sum(fates.values()) == sent
            assert all(fates[name] for name in ("applied", "duplicate", "conflict", "orphan", "rejected"))
            counts = await call.counts()
            assert {name: counts.get(name, 0) for name in FATES} == fates
            buckets = [one for one in families["armtriage_request_seconds"].samples if one.name.endswith("_bucket")]
            values = [one.value for one in buckets]
            assert values == sorted(values)
            assert float(buckets[-1].labels["le"]) == math.inf

    run(work)


def test_the_page_of_metrics_has_each_with_its_kind_and_labels(sqlite_address):
    from pathlib import Path

    page = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text(encoding="utf-8")
    told = {}
    for names, kind, labels in re.findall(r"^\| (`armtriage.+?) \| (\w+) \| (.*?) ?\|", page, re.M):
        told |= {name: (kind, set(re.findall(r"`(\w+)`", labels))) for name in re.findall(r"`(\w+)`", names)}

    async def work():
        async with served(sqlite_address) as call:
            await call.make()
            await call.decide()
            await call.get("/metrics")
            families = call.service.families()
            assert {name: kind for name, kind, *_ in families} == {name: kind for name, (kind, _) in told.items()}
            for name, _, _, samples in families:
                for _, labels, _ in samples:
                    assert set(labels) - {"policy", "le"} == told[name][1]

    run(work)


def test_the_stream_says_what_changed(sqlite_address):
    async def work():
        async with served(sqlite_address) as call:
            await call.make()
            route = next(route for route in ROUTES if route.path.endswith("/stream"))
            from armtriage.service.routes import Call

            stream = await route.handler(Call(call.service, "slate", "", {"after": 0}, b""))
            pieces = stream.pieces
            assert await anext(pieces) == b"retry: 1000\n\n"
            await call.decide()
            first = (await anext(pieces)).decode()
            lines = dict(line.split(": ", 1) for line in first.strip().splitlines())
            assert (lines["id"], lines["event"], json.loads(lines["data"])["decisions"]) == ("1", "policy", 1)
            assert call.service.watchers == 1
            await pieces.aclose()
            assert call.service.watchers == 0

    run(work)


def test_a_stream_ends_when_its_key_is_revoked(sqlite_address):
    async def work():
        async with served(sqlite_address) as call:
            await call.make()
            from armtriage.service.keys import new_key
            from armtriage.service.routes import Call

            store, (text, row) = call.service.store, new_key(["read"])
            await store.put_key(row)
            call.service.access.update(await store.keys())
            route = next(route for route in ROUTES if route.path.endswith("/stream"))
            asked = Call(call.service, "slate", "", {"after": 0}, b"", f"Bearer {text}".encode())
            pieces = (await route.handler(asked)).pieces
            assert await anext(pieces) == b"retry: 1000\n\n"
            await store.revoke_key(row.id, 1)
            async with asyncio.timeout(120):
                assert [piece async for piece in pieces] == []
            assert call.service.watchers == 0

    run(work)


def test_the_log_can_be_read_as_lines_and_as_parquet(address):
    async def work():
        async with served(address) as call:
            await call.make()
            for number in range(6):
                made = await call.decide(id=f"v{number}", **({"exclude": ["tea"]} if number % 2 else {}))
                if number < 4:
                    await call.reward(f"v{number}", {made["arms"][0]: 0.5})
            lines = [json.loads(line) for line in (await call.get("/v1/policies/slate/events")).text.splitlines()]
            assert [line["seq"] for line in lines] == list(range(1, 11))
            some = (await call.get("/v1/policies/slate/events?after=3&limit=2")).text.splitlines()
            assert [json.loads(line)["seq"] for line in some] == [4, 5]
            answer = await call.get("/v1/policies/slate/export.parquet")
            table = pl.read_parquet(io.BytesIO(answer.content))
            assert table["number"].to_list() == list(range(6))
            assert table["pattern"].to_list() == [0, 1, 0, 1, 0, 1]
            assert table["rewards"].to_list() == [[0.5]] * 4 + [None] * 2
            assert table["observed"].to_list()[0] == table["arms"].to_list()[0][:1]
            assert table["closed"].to_list() == [False] * 6
            assert table["eligible"].to_list()[:2] == [None, ["milk", "jam", "bread", "egg"]]
            part = pl.read_parquet(
                io.BytesIO((await call.get("/v1/policies/slate/export.parquet?after=1&limit=2")).content)
            )
            assert part["number"].to_list() == [2, 3]

    run(work)


def test_pages_of_the_log_are_the_log_and_cost_no_more_than_themselves(sqlite_address, monkeypatch):
    """Pages of any size put together are one table, and a page far behind reads little of what is before it."""
    from armtriage.service import parquet

    monkeypatch.setattr(parquet, "_CHUNK", 7)
    monkeypatch.setattr(parquet, "_PROBE", 3)

    async def work():
        async with served(sqlite_address) as call:
            await call.make()
            for start in range(0, 200, 5):
                made = [await call.decide(id=f"v{number}") for number in range(start, start + 5)]
                for one in made:  # so that decisions stand apart in the log, with rewards between them
                    await call.reward(one["id"], hits=one["arms"][:1])

            async def page(after, limit):
                answer = await call.get(f"/v1/policies/slate/export.parquet?after={after}&limit={limit}")
                return pl.read_parquet(io.BytesIO(answer.content)).drop("pattern")

            whole = await page(-1, 1000)
            assert whole["number"].to_list() == list(range(200))
            assert whole["rewards"].to_list() == [[1.0, 0.0]] * 200
            for after in range(-1, 201, 7):
                assert (await page(after, 3)).equals(whole.filter(pl.col("number") > after).head(3))
            store, read = call.service.store, []
            whole_read = store.read

            async def counted(policy, after, limit):
                found = await whole_read(policy, after, limit)
                read.append(len(found))
                return found

            monkeypatch.setattr(store, "read", counted)
            await page(190, 2)
            assert sum(read) < 100  # of 400 events

    run(work)


def test_lists_are_whole_while_policies_are_made(sqlite_address):
    async def work():
        async with served(sqlite_address) as call:
            await call.make()
            over = False

            async def look(path):
                while not over:
                    assert (await call.get(path)).status_code == 200

            looking = [asyncio.create_task(look(path)) for path in ("/v1/policies", "/metrics", "/dashboard/page")]
            names = [f"policy-{number}" for number in range(8)]
            made = await asyncio.gather(
                *(call.post("/v1/policies", json={**SLATE, "name": name}) for name in names * 2)
            )
            assert sorted(answer.status_code for answer in made) == [201] * 8 + [409] * 8
            await call.ready()
            over = True
            await asyncio.gather(*looking)
            assert {one["name"] for one in (await call.get("/v1/policies")).json()["policies"]} == {"slate", *names}

    run(work)


def test_the_document_describes_every_route():
    paths = document()["paths"]
    assert {(path, method.upper()) for path, of in paths.items() for method in of} == {
        (route.path, route.method) for route in ROUTES
    }
    names = [operation["operationId"] for of in paths.values() for operation in of.values()]
    assert len(set(names)) == len(names)
    text = json.dumps(document())
    for reference in set(httpx.Response(200, text=text).text.split('"#/components/schemas/')[1:]):
        assert reference.split('"')[0] in document()["components"]["schemas"]


def test_the_copy_of_the_document_is_this_version():
    from pathlib import Path

    copy = Path(__file__).parents[2] / "docs" / "openapi.json"
    assert json.loads(copy.read_text(encoding="utf-8")) == json.loads(json.dumps(document()))


@pytest.mark.parametrize("direction", ["maximize", "minimize"])
def test_arms_have_means_between_their_bounds_in_the_units_of_rewards(sqlite_address, direction):
    async def work():
        async with served(sqlite_address) as call:
            await call.make(reward={"range": [-2, 2], "direction": direction})
            for _ in range(40):
                made = await call.decide()
                await call.reward(made["id"], {name: -1 if name == "tea" else 1.5 for name in made["arms"]})
            arms = {arm["id"]: arm for arm in (await call.get("/v1/policies/slate/arms")).json()["arms"]}
            for name, arm in arms.items():
                if arm["observed"]:
                    assert arm["mean"] == pytest.approx(-1 if name == "tea" else 1.5)
                    assert -2 <= arm["low"] < arm["mean"] < arm["high"] <= 2
            assert sum(arm["pulls"] for arm in arms.values()) == 80

    run(work)
