"""The SQLite store's own thread and files: who writes, who may, and what is seen when nobody does."""

import asyncio
import os
import sqlite3
import stat
import subprocess
import sys
from concurrent.futures import Future
from pathlib import Path

import pytest

from armtriage.service.keys import new_key
from armtriage.service.stores import PolicyGone, SqliteStore, StoreError
from service.calls import run, served
from service.journal import begun_with, make_slate, serving

POSIX = pytest.mark.skipif(os.name != "posix", reason="links, modes and signals are those of POSIX")


def test_a_job_that_fails_fails_alone(sqlite_address):
    """Whatever a job raises, others of its transaction are done, and so are those after it."""

    async def work():
        store = SqliteStore(sqlite_address)
        await store.open()

        def row(label):
            return new_key(["read"])[1]._replace(label=label)

        def insert(label):
            return store._written(lambda write: write.execute("INSERT INTO api_key VALUES (?,?,?,?,?,?,?)", row(label)))

        def odd(write):
            raise KeyError("odd")

        try:
            jobs = [insert("a"), insert("\ud800"), store._written(odd), insert("b"), store.put_key(row("c"))]
            done = await asyncio.wait_for(asyncio.gather(*jobs, return_exceptions=True), 20)
            assert [isinstance(one, StoreError) for one in done] == [False, True, True, False, False]
            assert "UnicodeEncodeError" in str(done[1])
            assert sorted(one.label for one in await store.keys()) == ["a", "b", "c"]
            assert store.problem == ""
        finally:
            await store.close()

    run(work)


def test_who_no_longer_waits_does_not_stop_the_writer(sqlite_address):
    async def work():
        store = SqliteStore(sqlite_address)
        await store.open()
        try:
            waiting: Future[object] = Future()
            waiting.cancel()
            store._put((lambda write: None, waiting, 0, 0))
            gone = await store.begin(99, 0, [])  # a policy that is not in the file
            from armtriage.service.stores import Write

            with pytest.raises(PolicyGone):
                await asyncio.wait_for(gone.commit(Write([], [], [], {"decisions": 1}, 0)), 120)
            await asyncio.wait_for(store.put_key(new_key(["read"])[1]), 120)
            assert store.problem == ""
        finally:
            await store.close()

    run(work)


def test_a_writer_that_ends_is_seen_and_nobody_waits_for_it(sqlite_address, caplog):
    async def work():
        async with served(sqlite_address) as call:
            await call.make()

            def end(write):
                raise SystemExit("no more")

            store = call.service.store
            with pytest.raises(StoreError, match="the writer has ended"):
                await asyncio.wait_for(store._written(end), 120)
            ready = await call.get("/readyz")
            assert (ready.status_code, "the writer has ended" in ready.json()["store"]) == (503, True)
            async with asyncio.timeout(120):
                for _ in range(3):
                    assert (await call.post("/v1/policies/slate/decisions", json={})).status_code == 503
                made = await call.post("/v1/policies", json={"name": "more", "arms": ["a"], "budget": 1})
                assert made.status_code == 503
            assert "The writer of the store has ended" in caplog.text

    run(work)  # it ends


@POSIX
def test_a_server_without_its_writer_ends_when_it_is_told(sqlite_address, tmp_path):
    """In a process of its own, whose writer ends at the first key that is made: SIGTERM still ends it."""
    ending = begun_with(
        tmp_path,
        "import armtriage.service.stores.sqlite as sqlite\n"
        "async def end(store, key):\n"
        "    def work(write): raise SystemExit('no more')\n"
        "    await store._written(work)\n"
        "sqlite.SqliteStore.put_key = end\n",
    )

    async def work():
        with serving(sqlite_address, **ending) as server:
            async with server.client() as call:
                await make_slate(call)
                await server.ready(call)
                made = await call.post("/dashboard/keys", json={"scopes": ["read"]}, headers={"x-armtriage": "1"})
                assert made.status_code == 503
                assert (await call.get("/readyz")).status_code == 503
                assert (await call.post("/v1/policies/slate/decisions", json={})).status_code == 503
            assert await asyncio.to_thread(server.stop) == 0

    run(work)


def test_labels_that_cannot_be_stored_are_refused_at_the_door(sqlite_address):
    with pytest.raises(ValueError, match="label must be text that can be printed"):
        new_key(["read"], "\ud800")

    async def work():
        async with served(sqlite_address) as call:
            await call.make()
            body, headers = '{"scopes":["read"],"label":"\\ud800"}', {"x-armtriage": "1"}
            assert (await call.post("/dashboard/keys", content=body, headers=headers)).status_code == 422
            await call.decide()

    run(work)
    command = [sys.executable, "-m", "armtriage", "key", "new", "--store", sqlite_address, "--scope", "read"]
    refused = subprocess.run([*command, "--label", b"\xff"], capture_output=True, text=True, timeout=300, check=False)
    assert (refused.returncode, "label must be text" in refused.stderr) == (2, True), refused.stderr


@POSIX
@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the file beside the store is all that is locked")
@pytest.mark.parametrize("how", ["symbolic", "hard", "lock removed", "same process"])
def test_a_store_is_served_once_under_whatever_name(sqlite_address, tmp_path, how):
    async def work():
        async with served(sqlite_address) as call:
            await call.make()
            other = tmp_path / "elsewhere" / "other.db"
            other.parent.mkdir()
            if how == "symbolic":
                other.symlink_to(sqlite_address)
            elif how == "hard":
                os.link(sqlite_address, other)
            else:
                other = Path(sqlite_address)
                if how == "lock removed":
                    Path(f"{sqlite_address}.lock").unlink()
            if how != "same process":
                command = [sys.executable, "-m", "armtriage", "serve", "--store", str(other), "--port", "0"]
                second = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
                assert (second.returncode, "one server may have it" in second.stderr) == (1, True), second.stderr
            with pytest.raises(StoreError, match="one server may have it at a time"):
                await SqliteStore(other).open()
            await call.decide()
            look = SqliteStore(other, owned=False)  # to look at it beside the server is allowed, but with its journal
            if how == "hard":
                with pytest.raises(StoreError, match="has 2 names"):
                    await look.open()
                other.unlink()
            else:
                await look.open()
                await look.close()
        async with served(sqlite_address) as call:
            assert (await call.get("/v1/policies/slate")).json()["decisions"] == 1

    run(work)


@POSIX
def test_what_is_made_is_for_its_owner_only(sqlite_address, tmp_path):
    async def work():
        async with served(sqlite_address) as call:
            await call.make()
            await call.service.store.backup(str(tmp_path / "copy.db"))
            names = [
                sqlite_address,
                *(f"{sqlite_address}{end}" for end in (".lock", "-wal")),
                str(tmp_path / "copy.db"),
            ]
            assert [stat.S_IMODE(os.stat(name).st_mode) for name in names] == [0o600] * 4

    before = os.umask(0o022)
    try:
        run(work)
    finally:
        os.umask(before)
    with sqlite3.connect(tmp_path / "copy.db") as copy:
        assert copy.execute("SELECT count(*) FROM policy").fetchone() == (1,)
    copy.close()
