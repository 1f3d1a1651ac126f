"""What the README tells people to type is there, and is accepted as it stands."""

from __future__ import annotations

import json
import re
import shlex
from itertools import takewhile
from pathlib import Path

import pytest
import typer

from armtriage.catalogue import make_instance, make_policy
from armtriage.cli import app
from service.calls import run, served

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = [README, *(page.read_text(encoding="utf-8") for page in sorted(ROOT.glob("docs/**/*.md")))]
CURL = re.compile(r"^curl -s \$api(\S*) -d '(.*)'$", re.M)


def shell(page: str) -> str:
    """Return what a page shows of a shell, with lines that go on as one."""
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", page, re.M | re.S)
    return "\n".join(text for kind, text in blocks if kind in ("", "console")).replace("\\\n", " ")


def typed(page: str) -> list[str]:
    """Return the commands that a page tells people to type, but for those that print help."""
    text = shell(page)
    found = [*re.findall(r"^(?:\$ )?(armtriage [^#\n]*)", text, re.M), *re.findall(r"&& (armtriage [^#\n]*)", text)]
    found += [" ".join(one.split()) for one in re.findall(r"`(armtriage [^`]*)`", page)]
    return [one for one in found if not one.startswith("armtriage -") and not one.endswith(" -h")]


TYPED = sorted({line for page in PAGES for line in typed(page)})


def test_the_readme_is_short_and_narrow() -> None:
    assert len(README.split()) <= 900
    assert max(map(len, README.splitlines())) <= 100


def test_pages_have_commands() -> None:
    assert {one.split()[1] for one in typed(README)} >= {"demo", "plan", "serve"}
    assert {one.split()[1] for one in TYPED} >= {"simulate", "run", "report", "reproduce", "graph", "dashboard"}


@pytest.mark.parametrize("line", TYPED)
def test_command_has_this_name_and_these_options(line: str) -> None:
    _, name, *rest = shlex.split(line)
    command = typer.main.get_command(app).commands[name]  # type: ignore[attr-defined]
    command.make_parser(command.context_class(command)).parse_args(rest)


@pytest.mark.parametrize("line", [one for one in TYPED if " simulate " in one])
def test_instances_and_policies_of_a_command_can_be_made(line: str) -> None:
    _, _, instance, *rest = shlex.split(line)
    environment, budget = make_instance(instance, 1000, 7)
    for policy in takewhile(lambda one: not one.startswith("-"), rest):
        make_policy(policy, environment, budget, 1000, 7)


def test_files_that_commands_name_are_there() -> None:
    named = [one for page in PAGES for one in re.findall(r"\b(examples/[\w/-]+\.\w+)", page)]
    assert named
    assert all((ROOT / one).is_file() for one in named)


def test_targets_of_make_are_there() -> None:
    made = set(re.findall(r"^([\w-]+)(?: [\w-]+)*:", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M))
    named = {
        one or other
        for page in PAGES
        for one, other in re.findall(r"(?:^make ([a-z-]+) {2,}#|`make ([a-z-]+)\b)", page, re.M)
    }
    assert {"demo", "test", "bench", "serve-demo"} <= named <= made


def test_requests_to_the_service_are_answered(tmp_path: Path) -> None:
    async def work() -> None:
        async with served(str(tmp_path / "decisions.db")) as caller:
            for path, body in CURL.findall(README):
                answer = await caller.post(f"/v1/policies{path}", json=json.loads(body))
                assert answer.status_code in (200, 201), f"{path} {body}: {answer.text}"
                await caller.ready()
            counts = await caller.counts("page")
            assert (counts["decisions"], counts["applied"]) == (1, 2)
            assert not {"conflict", "late", "orphan"} & set(counts)

    assert len(CURL.findall(README)) == 3
    run(work)
