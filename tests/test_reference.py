"""The reference has every public name once, and says of every argument what the signature has."""

from __future__ import annotations

import dataclasses
import inspect
import pkgutil
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import armtriage

DOCS = Path(__file__).parents[1] / "docs"
NAMES = [
    name
    for page in sorted(DOCS.glob("api/*.md"))
    for name in re.findall(r"^::: (\S+)$", page.read_text(encoding="utf-8"), re.M)
]


def found(name: str) -> Any:
    return pkgutil.resolve_name(":".join(name.rsplit(".", 1)))  # else a module of the same name


class Entry(NamedTuple):
    kind: str
    text: str


def section(one: Any, title: str) -> list[str]:
    """Return the lines of a docstring's section, without its title."""
    lines = (inspect.getdoc(one) or "").splitlines()
    titles = [at for at, (_, below) in enumerate(pairwise(lines)) if re.fullmatch("-{3,}", below)]
    for at, end in pairwise([*titles, len(lines)]):
        if lines[at] == title:
            return lines[at + 2 : end]
    return []


def entries(one: Any, title: str = "Parameters") -> dict[str, Entry]:
    """Return what a docstring says of each argument."""
    made: dict[str, Entry] = {}
    lines = section(one, title)
    heads = [at for at, line in enumerate(lines) if line and not line.startswith(" ")]
    for at, end in pairwise([*heads, len(lines)]):
        names, _, kind = lines[at].partition(" : ")
        said = Entry(kind, " ".join(line.strip() for line in lines[at + 1 : end]).strip())
        made |= {name.lstrip("*"): said for name in names.split(", ")}
    return made


def documented() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Return what takes arguments: functions, classes, and methods that describe theirs."""
    for name in NAMES:
        one = found(name)
        if not inspect.isclass(one) or section(one, "Parameters"):
            yield name, one
        if inspect.isclass(one):
            members = {key: getattr(one, key) for key in vars(one) if not key.startswith("_")}
            yield from (
                (f"{name}.{key}", it)
                for key, it in members.items()
                if inspect.isroutine(it) and section(it, "Parameters")
            )


ALL = dict(documented())


def test_every_public_name_is_in_the_reference_once() -> None:
    assert len(set(NAMES)) == len(NAMES)
    short = [name.removeprefix("armtriage.") for name in NAMES]
    assert set(armtriage.__all__) <= set(short)
    listed = re.findall(r"\]\((\w+\.md)#([\w.]+)\)", (DOCS / "api" / "index.md").read_text(encoding="utf-8"))
    assert sorted(name for _, name in listed) == sorted(NAMES)
    for page, name in listed:
        assert f"::: {name}\n" in (DOCS / "api" / page).read_text(encoding="utf-8")


def test_every_page_is_in_the_navigation_and_in_the_list_of_tasks() -> None:
    nav = (DOCS.parent / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:")[2].partition("\nmarkdown_")[0]
    pages = [str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")]
    assert sorted(re.findall(r"[\w/-]+\.md", nav)) == sorted(pages)
    start = (DOCS / "index.md").read_text(encoding="utf-8")
    listed = [page for page in pages if not page.startswith("api/") and page != "index.md"]
    assert [page for page in listed if f"({page})" not in start] == []


@pytest.mark.parametrize("name", ALL)
def test_docstring_names_the_arguments_of_the_signature(name: str) -> None:
    taken = set(inspect.signature(ALL[name]).parameters) - {"self"}
    said = set(entries(ALL[name]))
    if name == "armtriage.Guard":
        said -= {"dimension", "features"}  # with which another class is made
    assert said == taken


@pytest.mark.parametrize("name", ALL)
def test_arguments_that_are_described_elsewhere_are_described_there(name: str) -> None:
    one = ALL[name]
    for argument, said in entries(one).items():
        if see := re.fullmatch(r"See `([\w.]+)`\.", said.text):
            near = name.rpartition(".")[0]
            others = [ALL[path] for path in (see[1], f"{near}.{see[1]}", f"armtriage.{see[1]}") if path in ALL]
            assert said.kind or (others and argument in entries(others[0])), f"{argument}: {said.text}"


RECORDS = [name for name in NAMES if dataclasses.is_dataclass(found(name))]


@pytest.mark.parametrize("name", RECORDS)
def test_attributes_of_records_are_described(name: str) -> None:
    one = found(name)
    said = {key for base in one.__mro__ for key in entries(base, "Attributes")}
    assert {field.name for field in dataclasses.fields(one) if not field.name.startswith("_")} <= said


def test_every_page_is_there_as_markdown_with_the_reference_spelled_out(tmp_path: Path) -> None:
    subprocess.run([sys.executable, DOCS / "markdown_pages.py", tmp_path], check=True, timeout=120)
    written = {str(page.relative_to(tmp_path)) for page in tmp_path.rglob("*.md")}
    assert written == {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")}
    guard = (tmp_path / "guard.md").read_text(encoding="utf-8")
    assert guard == (DOCS / "guard.md").read_text(encoding="utf-8")
    for name in NAMES:
        assert any(f"\n## {name}\n" in page.read_text(encoding="utf-8") for page in tmp_path.glob("api/*.md")), name
    assert not any(":::" in page.read_text(encoding="utf-8") for page in tmp_path.glob("api/*.md"))
    listed = re.findall(r"^- \[.+\]\((\S+\.md)\): \S", (tmp_path / "llms.txt").read_text(encoding="utf-8"), re.M)
    assert sorted(listed) == sorted(written)


def test_the_page_of_commands_is_what_they_print() -> None:
    command = [sys.executable, "-c", "import command_line; print(command_line.text(), end='')"]
    made = subprocess.run(command, cwd=DOCS, capture_output=True, text=True, check=True, timeout=120).stdout
    assert made == (DOCS / "command-line.md").read_text(encoding="utf-8"), "run: python docs/command_line.py"


def test_the_page_of_http_is_what_the_document_says() -> None:
    command = [sys.executable, "-c", "import http_reference; print(http_reference.text(), end='')"]
    made = subprocess.run(command, cwd=DOCS, capture_output=True, text=True, check=True, timeout=120).stdout
    assert made == (DOCS / "http.md").read_text(encoding="utf-8"), "run: python docs/http_reference.py"


def test_the_gallery_has_every_figure() -> None:
    figures = {page.name for page in DOCS.glob("images/*.png") if not page.name.startswith("dashboard")}
    shown = re.findall(r"\(images/([\w-]+\.png)\)", (DOCS / "gallery.md").read_text(encoding="utf-8"))
    assert sorted(shown) == sorted(figures)
