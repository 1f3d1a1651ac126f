"""What the README tells people to type is there, and is accepted as it stands."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
import typer

from armtriage.catalogue import make_instance, make_policy
from armtriage.cli import app
from service.calls import run, served

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
SHELL = "\n".join(text for kind, text in re.findall(r"^```(\w*)\n(.*?)^```$", README, re.M | re.S) if not kind)
TYPED = [*re.findall(r"^armtriage [^#\n]*", SHELL, re.M), *re.findall(r"&& (armtriage [^#\n]*)", SHELL)]
TYPED += [" ".join(one.split()) for one in re.findall(r"`(armtriage [^`]*)`", README)]
CURL = re.compile(r"^curl -s -XPOST localhost:8000(\S+)\s+-d '(.*)'$", re.M)


def test_the_readme_has_commands() -> None:
    assert {one.split()[1] for one in TYPED} >= {
        "simulate",
        "run",
        "report",
        "reproduce",
        "graph",
        "serve",
        "dashboard",
    }


@pytest.mark.parametrize("line", TYPED)
def test_command_has_this_name_and_these_options(line: str) -> None:
    _, name, *rest = shlex.split(line)
    command = typer.main.get_command(app).commands[name]  # type: ignore[attr-defined]
    command.make_parser(command.context_class(command)).parse_args(rest)


@pytest.mark.parametrize("line", [one for one in TYPED if " simulate " in one])
def test_instances_and_policies_of_a_command_can_be_made(line: str) -> None:
    _, _, instance, *rest = shlex.split(line)
    environment, budget = make_instance(instance, 1000, 7)
    policies = rest[: rest.index("--horizon")] if "--horizon" in rest else rest
    assert policies
    for policy in policies:
        make_policy(policy, environment, budget, 1000, 7)


def test_files_that_commands_name_are_there() -> None:
    named = re.findall(r"(examples/\S+\.\w+)", SHELL)
    assert named
    assert all((ROOT / one).is_file() for one in named)


def test_targets_of_make_are_there() -> None:
    made = set(re.findall(r"^([\w-]+)(?: [\w-]+)*:", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M))
    pages = [README, *(page.read_text(encoding="utf-8") for page in ROOT.glob("docs/*.md"))]
    named = {
        one or other
        for page in pages
        for one, other in re.findall(r"(?:^make ([a-z-]+) {2,}#|`make ([a-z-]+)\b)", page, re.M)
    }
    assert {"demo", "test", "docs", "bench", "serve-demo"} <= named <= made


def test_requests_to_the_service_are_answered(tmp_path: Path) -> None:
    async def work() -> None:
        async with served(str(tmp_path / "decisions.db")) as caller:
            for path, body in CURL.findall(README):
                answer = await caller.post(path, json=json.loads(body))
                assert answer.status_code in (200, 201), f"{path} {body}: {answer.text}"
                await caller.ready()
            counts = await caller.counts("page")
            assert (counts["decisions"], counts["applied"]) == (1, 2)
            assert not {"conflict", "late", "orphan"} & set(counts)

    assert len(CURL.findall(README)) == 4
    run(work)
