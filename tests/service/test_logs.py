"""The log that an operator reads: what is in it, how it is written, and what is kept out of it."""

import json
import logging
import os
import threading

import pytest

from armtriage.service.keys import new_key
from armtriage.service.logs import note, writing
from service.calls import run, served
from service.journal import Server


@pytest.fixture
def lines(caplog):
    """What was logged so far, as pairs of an event and its facts."""
    caplog.set_level(logging.DEBUG, "armtriage.service")
    return lambda: [(one.event, one.facts) for one in caplog.records if hasattr(one, "event")]


def written(work, form="json", level="info"):
    """Return the lines that reach standard error, while a function logs."""
    reading, writing_end = os.pipe()
    with os.fdopen(reading, "rb") as found:
        with writing(form, level, writing_end):
            work()
        os.close(writing_end)
        return found.read().decode("ascii").splitlines()


def test_a_refusal_that_is_ours_has_a_line_with_its_id(sqlite_address, lines, monkeypatch):
    async def work():
        async with served(sqlite_address) as call:
            await call.make()

            async def fails(*_):
                raise RuntimeError("no such luck")

            monkeypatch.setattr(call.service.store, "history", fails)
            failed = await call.get("/v1/policies/slate/decisions/v1")
            assert failed.status_code == 500
            (facts,) = [facts for event, facts in lines() if event == "internal"]
            assert facts["request"] == failed.json()["request"]
            assert (facts["status"], facts["path"]) == (500, "/v1/policies/slate/decisions/v1")
            unknown = await call.get("/v1/policies/nobody")
            assert unknown.status_code == 404
            assert not [facts for _, facts in lines() if facts.get("status") == 404]

    run(work)


def test_refused_keys_have_few_lines_and_no_secret(sqlite_address, lines, caplog):
    async def work():
        async with served(sqlite_address) as call:
            text, row = new_key(["read"])
            await call.service.store.put_key(row)
            call.service.access.update([row])
            for _ in range(30):
                answer = await call.get("/v1/policies", headers={"authorization": f"Bearer {text}wrong"})
                assert answer.status_code in (401, 429)
            refused = [facts for event, facts in lines() if event == "key_refused"]
            assert len(refused) == 10
            assert refused[0]["address"] == "127.0.0.1"
            assert text not in caplog.text

    run(work)


def test_lines_are_json_or_text_from_a_level_on_and_without_secrets():
    text, row = new_key(["read"])

    def work():
        note(logging.INFO, "quiet", "Nobody reads this.")
        try:
            raise ValueError(f"two\nlines, postgresql://me:secret@db/x and {text}")
        except ValueError as error:
            note(logging.ERROR, "odd", str(error), error=error, policy="a b", umlaut="ä", n=3)

    (line,) = written(work, "json", "warning")
    found = json.loads(line)
    assert (found["level"], found["event"], found["policy"], found["umlaut"], found["n"]) == (
        "error", "odd", "a b", "ä", 3,
    )  # fmt: skip
    assert found["text"] == f"two\nlines, postgresql://me:***@db/x and at_{row.id}_***"
    assert "ValueError" in found["traceback"]
    first, *traceback = written(work, "text", "error")
    assert " error odd: two\\nlines, postgresql://me:***@db/x and" in first
    assert first.endswith('policy="a b" umlaut="\\u00e4" n=3')
    assert traceback[0] == "Traceback (most recent call last):"
    assert "secret" not in first + "".join(traceback) + line
    assert text not in first + "".join(traceback) + line
    assert len(written(work, "json", "info")) == 2


def test_a_reader_that_stops_reading_stops_nobody():
    reading, writing_end = os.pipe()
    os.set_blocking(reading, False)
    try:
        with writing("json", "info", writing_end):
            done = threading.Event()

            def work():
                for number in range(12_000):
                    note(logging.INFO, "line", "x" * 100, number=number)
                done.set()

            threading.Thread(target=work, daemon=True).start()
            assert done.wait(120)
            os.close(reading)
    finally:
        os.close(writing_end)


@pytest.mark.parametrize(("option", "value"), [("--log", "xml"), ("--log-level", "loud")])
def test_another_form_or_level_is_refused(sqlite_address, option, value):
    from typer.testing import CliRunner

    from armtriage.cli import app

    refused = CliRunner().invoke(app, ["serve", "--store", sqlite_address, option, value])
    assert refused.exit_code == 2
    assert f"{option[2:]} must be one of" in refused.stderr
    assert f"got {value!r}" in refused.stderr
    assert not os.path.exists(sqlite_address)


def test_start_and_stop_are_in_the_log(sqlite_address):
    server = Server(sqlite_address, "--log", "json")
    server.process.terminate()
    _, errors = server.process.communicate(timeout=120)
    found = [json.loads(line) for line in errors.splitlines()]
    assert [one["event"] for one in found if one["event"] != "armtriage"] == ["started", "stopping", "stopped"]
    assert found[0]["policies"] == 0
