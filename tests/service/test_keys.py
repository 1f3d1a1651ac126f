"""Keys: who has none, a wrong one or one for other things gets nothing, and learns nothing."""

import asyncio
import hmac
import logging
from pathlib import Path

import pytest

from armtriage.service import clock, keys, service
from armtriage.service.keys import AccessControl, new_key
from armtriage.service.refusal import Refused
from service.calls import run, served

ROUTES = {
    "decide": ("POST", "/v1/policies/slate/decisions"),
    "reward": ("POST", "/v1/policies/slate/rewards"),
    "read": ("GET", "/v1/policies/slate"),
    "admin": ("PATCH", "/v1/policies/slate"),
}


async def _keyed(call, *scopes, **more):
    text, row = new_key(scopes, **more)
    await call.service.store.put_key(row)
    call.service.access.update(await call.service.store.keys())
    return text, row


def test_scopes_open_what_they_name_and_nothing_else(address):
    async def work():
        async with served(address) as call:
            await call.make()
            for scope in ROUTES:
                text, _ = await _keyed(call, scope)
                for needed, (method, path) in ROUTES.items():
                    answer = await call.request(method, path, headers={"Authorization": f"Bearer {text}"}, content=b"x")
                    assert (answer.status_code == 403) == (needed != scope)
            for header in ({}, {"Authorization": "Bearer at_00000000_x"}, {"Authorization": text}, {"X-Key": text}):
                answer = await call.get("/v1/policies/slate", headers=header)
                assert (answer.status_code, answer.json()["error"]) == (401, "unauthorized")
                assert answer.headers["www-authenticate"] == "Bearer"
            assert (await call.get(f"/v1/policies/slate?key={text}")).status_code == 401
            for path in ("/healthz", "/readyz", "/openapi.json"):
                assert (await call.get(path)).status_code == 200
            assert (await call.get("/metrics")).status_code == 401

    run(work)


def test_a_revoked_key_opens_nothing_within_five_seconds(address):
    assert service._REFRESH < 5.0  # seconds between two looks at the keys; how soon one is made is the machine's affair

    async def work():
        async with served(address) as call:
            text, row = await _keyed(call, "read")
            header = {"Authorization": f"Bearer {text}"}
            assert (await call.get("/v1/policies", headers=header)).status_code == 200
            assert await call.service.store.revoke_key(row.id, clock.wall())
            async with asyncio.timeout(120):
                while (await call.get("/v1/policies", headers=header)).status_code != 401:
                    await asyncio.sleep(0.1)
            # There has been a key, so nobody is let in without one.
            assert (await call.get("/v1/policies")).status_code == 401
            assert not await call.service.store.revoke_key("nobody", clock.wall())

    run(work)


def test_secrets_are_neither_stored_nor_logged_nor_repeated(sqlite_address, caplog):
    async def work():
        async with served(sqlite_address) as call:
            await call.make()
            text, row = await _keyed(call, "read", label="for tests")
            secret = text.rsplit("_", 1)[1] if "_" not in text[12:] else text[12:]
            for path in ("/v1/policies", f"/v1/policies/{secret}", f"/v1/{secret}"):
                answer = await call.get(path, headers={"Authorization": f"Bearer {text}x"})
                assert secret not in answer.text
                assert secret not in str(answer.headers)
            assert text.encode() not in row.sha256
        for suffix in ("", "-wal"):
            file = Path(sqlite_address + suffix)
            assert not file.exists() or secret.encode() not in file.read_bytes()
        ours = [record.getMessage() for record in caplog.records if not record.name.startswith("http")]
        assert secret not in " ".join(ours)

    with caplog.at_level(logging.DEBUG):
        run(work)


def test_guesses_are_few(monkeypatch):
    access = AccessControl()
    text, row = new_key(["read"], rate=0)
    access.update([row])
    codes = []
    for number in range(30):
        with pytest.raises(Refused) as caught:
            access.admit(f"Bearer at_{row.id}_{number}".encode(), "read", "10.0.0.1")
        codes.append(caught.value.code)
    assert codes == ["unauthorized"] * 10 + ["too_many"] * 20
    with pytest.raises(Refused) as caught:
        access.admit(b"Bearer nonsense", "read", "10.0.0.2")
    assert caught.value.code == "unauthorized"
    access.admit(f"Bearer {text}".encode(), "read", "10.0.0.1")


def test_guesses_from_many_addresses_are_few_too(monkeypatch):
    """Who asks from the machine itself can name any address in X-Forwarded-For; a right key is let in all the same."""
    now = [100.0]
    monkeypatch.setattr("armtriage.service.keys.time.monotonic", lambda: now[0])
    access = AccessControl()
    text, row = new_key(["read"], rate=0)
    access.update([row])
    for minute in range(2):
        codes = []
        for number in range(300):
            with pytest.raises(Refused) as caught:
                access.admit(b"Bearer nonsense", "read", f"10.0.{minute}.{number}")
            codes.append(caught.value.code)
        assert codes == ["unauthorized"] * 100 + ["too_many"] * 200
        access.admit(f"Bearer {text}".encode(), "read", "10.0.0.1")
        now[0] += 61


def test_a_key_has_its_rate(monkeypatch):
    access, now = AccessControl(), [100.0]
    monkeypatch.setattr("armtriage.service.keys.time.monotonic", lambda: now[0])
    text, row = new_key(["read"], rate=5)
    access.update([row])
    header = f"Bearer {text}".encode()
    let_in, refusals = 0, set()
    for _ in range(50):
        now[0] += 0.01
        try:
            access.admit(header, "read", "")
            let_in += 1
        except Refused as refused:
            refusals.add((refused.status, refused.code))
    assert refusals == {(429, "too_many")}
    assert let_in == 7  # five at once, and two in the half second


@pytest.mark.parametrize(("rate", "seconds", "retry"), [(0.5, 2.0, 2), (0.01, 100.0, 100), (1e-320, 1e9, 3600)])
def test_a_key_for_less_than_a_request_a_second(monkeypatch, rate, seconds, retry):
    access, now = AccessControl(), [100.0]
    monkeypatch.setattr("armtriage.service.keys.time.monotonic", lambda: now[0])
    text, row = new_key(["read"], rate=rate)
    access.update([row])
    header = f"Bearer {text}".encode()
    access.admit(header, "read", "")
    with pytest.raises(Refused) as caught:
        access.admit(header, "read", "")
    assert (caught.value.status, caught.value.retry) == (429, retry)
    now[0] += seconds + 0.01
    if rate > 1e-9:
        access.admit(header, "read", "")
    with pytest.raises(Refused):
        access.admit(header, "read", "")


@pytest.mark.parametrize(("scopes", "rate"), [([], 1), (["everything"], 1), (["read"], -1), (["read"], float("nan"))])
def test_keys_that_cannot_be(scopes, rate):
    with pytest.raises(ValueError, match=r"scopes must be|rate must be"):
        new_key(scopes, rate=rate)


def test_pages_from_elsewhere_need_a_key(sqlite_address):
    async def work():
        async with served(sqlite_address) as call:
            await call.make()
            for origin, status in (("http://evil.example", 403), ("null", 403), ("http://127.0.0.1:8000", 200)):
                answer = await call.get("/v1/policies", headers={"Origin": origin})
                assert answer.status_code == status

    run(work)


def test_a_wrong_secret_takes_the_same_steps_as_an_unknown_key(monkeypatch):
    """The time tells nobody who guesses whether there is such a key: as much is hashed and compared."""
    access = AccessControl()
    text, row = new_key(["read"], rate=0)
    access.update([row])
    hashed, compared = keys._hash, hmac.compare_digest
    steps: list[list[object]] = []
    monkeypatch.setattr(keys, "_hash", lambda key: steps[-1].append(len(key)) or hashed(key))
    monkeypatch.setattr(hmac, "compare_digest", lambda *both: steps[-1].append([*map(len, both)]) or compared(*both))
    for wrong in (f"{text[:-4]}AAAA", f"at_00000000_{text[12:]}"):
        steps.append([])
        with pytest.raises(Refused):
            access.admit(f"Bearer {wrong}".encode(), "read", "somewhere")
    assert steps == [[len(text), [32, 32]]] * 2
