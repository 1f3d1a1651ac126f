"""What a release says about itself, and what its source archive holds."""

import importlib.util
import re
import sys
import tomllib
import types
from pathlib import Path

import pytest

from armtriage import __version__

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
LINK = re.compile(r"\]\(([^)]+)\)")


def described(monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the long description, as the build makes it; nothing of the builder is needed."""
    interface = types.ModuleType("interface")
    interface.MetadataHookInterface = object  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "hatchling.metadata.plugin.interface", interface)
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    hook, metadata = module.Readme(), {}
    hook.root = str(ROOT)
    hook.update(metadata)
    assert metadata["readme"]["content-type"] == "text/markdown"
    return metadata["readme"]["text"]


def test_long_description_links_to_nothing_that_an_index_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    readme, text = (ROOT / "README.md").read_text(encoding="utf-8"), described(monkeypatch)
    assert any(not one.startswith("http") for one in LINK.findall(readme))
    assert [one for one in LINK.findall(text) if not one.startswith(("http", "#"))] == []
    assert re.findall(r"^#+ .*$", text, re.M) == re.findall(r"^#+ .*$", readme, re.M)
    assert re.findall(r"^>>> .*$", text, re.M) == re.findall(r"^>>> .*$", readme, re.M)


def test_source_archive_has_what_the_readme_links_to() -> None:
    kept = {one.removeprefix("/") for one in PROJECT["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]}
    links = LINK.findall((ROOT / "README.md").read_text(encoding="utf-8"))
    inside = {one.partition("#")[0].partition("/")[0] for one in links if not one.startswith(("http", "#"))}
    assert inside <= kept
    assert {"CONTRIBUTING.md", "CITATION.cff", "hatch_build.py", "pyproject.toml"} - kept <= {"pyproject.toml"}
    assert all((ROOT / one).exists() for one in kept)


def test_metadata_name_authors_and_versions_of_python() -> None:
    about = PROJECT["project"]
    assert [list(one) for one in about["authors"]] == [["name"]]
    least = int(about["requires-python"].removeprefix(">=3."))
    listed = [int(one) for one in re.findall(r"Python :: 3\.(\d+)", " ".join(about["classifiers"]))]
    assert min(listed) == least
    assert "Intended Audience :: Developers" in about["classifiers"]


def test_citation_is_of_this_version_and_of_the_paper() -> None:
    text = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert re.search(r"^version: (.*)$", text, re.M)[1] == __version__  # type: ignore[index]
    assert "Optimal Arm Elimination Algorithms for Combinatorial Bandits" in text
    assert re.findall(r"family-names: (\w+)", text) == ["Wen", "Han", "Zhou"]
    paper = f"https://arxiv.org/abs/{re.search(r'arXiv:([0-9.]+)', text)[1]}"  # type: ignore[index]
    assert PROJECT["project"]["urls"] == {"Paper": paper}
    for page in ("README.md", "docs/index.md"):
        assert f"({paper})" in (ROOT / page).read_text(encoding="utf-8")


def test_pages_install_from_the_checkout_with_extras_that_there_are() -> None:
    asked = []
    for page in (ROOT / "README.md", *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/deploy/*")):
        for line in re.findall(r"pip install ([^\n`]*)", page.read_text(encoding="utf-8")):
            target = re.fullmatch(r"(?:--\S+ )*'?(\.|/source)(?:\[([a-z,]+)\])?'?(?: .*)?", line)
            assert target, f"{page.name} says pip install {line}"
            asked += target[2].split(",") if target[2] else []
    assert {"all", "serve", "postgres"} <= set(asked) <= set(PROJECT["project"]["optional-dependencies"])


def test_all_extras_have_what_to_pandas_needs() -> None:
    extras = PROJECT["project"]["optional-dependencies"]
    assert {re.split(r"[>\[]", one)[0] for one in extras["pandas"]} == {"pandas", "polars", "pyarrow"}
    assert "pandas" in re.search(r"\[(.*)\]", extras["all"][0])[1].split(",")  # type: ignore[index]


def test_container_has_what_the_package_is_built_from() -> None:
    text = (ROOT / "examples" / "deploy" / "Containerfile").read_text(encoding="utf-8")
    copied = {source for line in re.findall(r"^COPY (.*) \S+$", text, re.M) for source in line.split()}
    assert copied == {"pyproject.toml", "src", "hatch_build.py", "README.md", *PROJECT["project"]["license-files"]}
    assert all((ROOT / source).exists() for source in copied)


def test_readme_has_no_long_lines_but_rows_of_tables() -> None:
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if len(line) > 100 and not line.startswith("|")] == []


def test_documentation_can_be_searched_from_disk() -> None:
    assert re.search(r"^  - offline\b", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.M)
