"""The commands `serve`, `key` and `store`."""

import json
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from armtriage.cli import app
from service.calls import run, served


def command(*arguments):
    return CliRunner().invoke(app, list(arguments), env={"COLUMNS": "200"})


@pytest.fixture
def store(tmp_path):
    """A store with a policy that has decided and learnt."""
    address = str(tmp_path / "decisions.db")

    async def work():
        async with served(address) as call:
            await call.make()
            for number in range(5):
                made = await call.decide(id=f"v{number}")
                await call.reward(f"v{number}", hits=made["arms"][:1])

    run(work)
    return address


def test_keys_are_made_listed_and_revoked(tmp_path):
    address = str(tmp_path / "decisions.db")
    made = command("key", "new", "--scope", "decide,read", "--label", "web", "--store", address, "--create")
    assert made.exit_code == 0, made.output
    key = made.stdout.strip()
    assert key.startswith("at_")
    assert "not shown again" in made.stderr
    again = json.loads(command("key", "new", "--rate", "0", "--json", "--store", address).stdout)
    assert (again["scopes"], again["rate"]) == (["decide", "reward"], 0)
    listed = json.loads(command("key", "list", "--json", "--store", address).stdout)["keys"]
    assert [(one["label"], one["scopes"]) for one in listed] == [
        ("web", ["decide", "read"]),
        ("", ["decide", "reward"]),
    ]
    assert command("key", "revoke", key[3:11], "--store", address).exit_code == 0
    table = command("key", "list", "--store", address).stdout
    assert "revoked" in table
    assert key[12:] not in table
    missing = command("key", "revoke", "nobody", "--store", address)
    assert (missing.exit_code, "there is no key nobody" in missing.stderr) == (1, True)


def test_a_label_is_shown_as_it_is(tmp_path):
    address, label = str(tmp_path / "decisions.db"), "[red]web[/red] [/] [link=http://evil]x"
    assert command("key", "new", "--label", label, "--store", address, "--create").exit_code == 0
    assert label in command("key", "list", "--store", address).stdout


def test_a_scope_that_is_none_is_refused(tmp_path):
    wrong = command("key", "new", "--scope", "everything", "--store", str(tmp_path / "x.db"))
    assert wrong.exit_code == 2
    assert "scopes must be some of decide, reward, read, admin" in wrong.stderr


def test_check_replay_backup_and_drop(store, tmp_path):
    checked = json.loads(command("store", "check", "--json", "--store", store).stdout)
    assert checked["problems"] == []
    replayed = json.loads(command("store", "replay", "slate", "--json", "--store", store).stdout)
    assert (replayed["head"], replayed["decisions"], replayed["different"]) == (10, 5, 0)
    assert replayed["digest"] == checked["policies"]["slate"]["digest"]
    copy = str(tmp_path / "copy.db")
    assert command("store", "backup", copy, "--store", store).exit_code == 0
    assert command("store", "backup", copy, "--store", store).exit_code == 1
    assert json.loads(command("store", "check", "--json", "--store", copy).stdout) == checked
    assert command("store", "drop", "slate", "--store", copy, "--yes").exit_code == 0
    assert json.loads(command("store", "check", "--json", "--store", copy).stdout)["policies"] == {}
    nobody = command("store", "drop", "slate", "--store", copy, "--yes")
    assert (nobody.exit_code, "there is no policy slate" in nobody.stderr) == (1, True)
    assert "Everything is as it should be" in command("store", "check", "--store", store).stdout


def test_a_log_with_a_hole_is_found(store):
    import sqlite3

    connection = sqlite3.connect(store)
    with connection:
        connection.execute("DELETE FROM event WHERE seq = 4")
        connection.execute("DELETE FROM snapshot")
    connection.close()
    found = command("store", "check", "--store", store)
    assert found.exit_code == 1
    assert "the log cannot be replayed: the log has event 5 after 3" in found.stdout


def test_a_store_that_is_not_there_is_said():
    for arguments in (("store", "check"), ("key", "list")):
        missing = command(*arguments, "--store", "/nowhere/decisions.db")
        assert (missing.exit_code, "there is no store" in missing.stderr) == (1, True)
    odd = command("serve", "--store", "mysql://x")
    assert (odd.exit_code, "store must be a file" in odd.stderr) == (2, True)


@pytest.mark.parametrize("place", ["typo/decisions.db", "decisions.db", "sqlite:///decisions.db"])
@pytest.mark.parametrize("words", [("serve", "--port", "0"), ("key", "new"), ("store", "drop", "slate", "--yes")])
def test_a_store_is_made_only_when_that_is_asked_for(tmp_path, monkeypatch, words, place):
    monkeypatch.chdir(tmp_path)
    missing = command(*words, "--store", place)
    assert missing.exit_code == 1
    assert f"there is no store {place.removeprefix('sqlite:///')}; armtriage serve --create makes" in missing.stderr
    assert list(tmp_path.iterdir()) == []


def test_beyond_this_machine_only_with_a_key(tmp_path):
    address = str(tmp_path / "decisions.db")
    refused = subprocess.run(
        [sys.executable, "-m", "armtriage", "serve", "--store", address, "--create", "--host", "0.0.0.0"],
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert refused.returncode == 2
    assert "until there is a key" in refused.stderr


def test_without_the_extra_the_library_works_and_says_what_to_install():
    """In a process that has neither msgspec nor uvicorn the library and the client can be imported."""
    program = (
        "import sys\n"
        "for name in ('msgspec', 'uvicorn', 'uvloop', 'httptools', 'psycopg'): sys.modules[name] = None\n"
        "import armtriage, armtriage.cli\n"
        "from armtriage.service import Client\n"
        "from typer.testing import CliRunner\n"
        "said = CliRunner().invoke(armtriage.cli.app, ['serve'])\n"
        "print(said.exit_code, said.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300, check=True)
    assert done.stdout.startswith("2 armtriage: the service needs more packages: pip install 'armtriage[serve]'")


def test_the_lift_of_a_store(tmp_path, store):
    address = str(tmp_path / "tried.db")

    async def work():
        async with served(address) as call:
            metrics = [{"name": "gone", "limit": {"most": 0.5}}]
            await call.make(reward={"default": 0}, control={"share": 0.5, "incumbent": ["tea", "jam"]}, metrics=metrics)
            for number in range(40):
                made = await call.decide(id=f"v{number}")
                await call.reward(f"v{number}", hits=made["arms"][: 1 + (made["group"] == "policy")])

    run(work)
    said = command("store", "lift", "slate", "--store", address).stdout
    assert "a decision of the policy earned 2 and one of the control 1: " in " ".join(said.split())
    assert "gone: No alarm: the policy's mean is at least 0" in " ".join(said.split())
    facts = json.loads(command("store", "lift", "slate", "--json", "--store", address).stdout)
    assert (facts["lift"]["decisions"], facts["metrics"][0]["breached"], facts["in_force"]) == (40, False, "")
    refused = command("store", "lift", "slate", "--store", store)
    assert refused.exit_code == 2
    assert "policy must be one with a control group or metrics, got 'slate'" in refused.stderr
