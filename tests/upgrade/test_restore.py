"""The commands of docs/upgrade-and-restore.md, as they stand there."""

import asyncio
import re
import shlex
import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner

from armtriage.cli import app
from service.calls import run, served

PAGE = (Path(__file__).parents[2] / "docs" / "upgrade-and-restore.md").read_text(encoding="utf-8")


def commands(heading):
    """Return the commands below a heading of the page."""
    part = PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    return [line for block in re.findall(r"```sh\n(.*?)```", part, re.S) for line in block.splitlines()]


def follow(heading):
    """Run them; what serves is left to the test."""
    for line in commands(heading):
        words = shlex.split(line)
        if words[:2] == ["armtriage", "serve"]:
            continue
        if words[0] == "armtriage":
            done = CliRunner().invoke(app, words[1:])
            assert done.exit_code == 0, (line, done.output)
        else:
            subprocess.run(line, shell=True, check=True)


def test_a_store_is_backed_up_while_it_serves_and_restored(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    async def use():
        async with served("decisions.db") as call:
            await call.make()
            kept = [await call.decide(id=f"v{number}") for number in range(5)]
            await call.reward("v0", hits=kept[0]["arms"][:1])
            digest = await call.digest()
            await asyncio.to_thread(follow, "Back up")
            await call.decide(id="lost")
        return kept, digest

    async def go_on(kept, digest):
        async with served("decisions.db") as call:
            assert await call.digest() == digest
            assert [await call.decide(id=f"v{number}") for number in range(5)] == kept
            lost = await call.reward("lost", {kept[0]["arms"][0]: 1})
            assert (lost.status_code, lost.json()["error"]) == (404, "orphan")
            assert (await call.reward("v1", hits=kept[1]["arms"][:1])).status_code == 200

    async def work():
        kept, digest = await use()
        await asyncio.to_thread(follow, "Restore")
        await go_on(kept, digest)

    run(work)


def test_an_older_version_refuses_a_newer_store_by_name(tmp_path, monkeypatch):
    import sqlite3

    monkeypatch.chdir(tmp_path)

    async def work():
        async with served("decisions.db") as call:
            await call.make()

    run(work)
    follow("Upgrade")
    connection = sqlite3.connect("decisions.db")
    connection.execute("INSERT INTO schema_version VALUES (1000, 0)")
    connection.commit()
    connection.close()
    refused = CliRunner().invoke(app, ["store", "check", "--store", "decisions.db"])
    assert refused.exit_code == 1
    assert "has tables of version 1000; this program knows" in refused.stderr


@pytest.mark.parametrize("heading", ["Back up", "Restore", "Upgrade"])
def test_the_page_has_commands(heading):
    assert any(line.startswith("armtriage ") for line in commands(heading))
