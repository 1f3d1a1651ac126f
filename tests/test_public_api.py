"""What armtriage exports is complete, documented and light to import."""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import pkgutil
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

import armtriage

PACKAGE = Path(armtriage.__file__).parent
ROOT = Path(__file__).parent.parent
NAMES = armtriage.__all__
MODULES = sorted(PACKAGE.rglob("*.py"))


def public() -> dict[str, object]:
    """The classes and functions of armtriage that stand in its namespace without an underscore."""
    late = {name: getattr(armtriage, name) for name in armtriage._LATE}
    members = {**vars(armtriage), **late}.items()
    return {name: one for name, one in members if not name.startswith("_") and not inspect.ismodule(one)}


def is_error(name: str) -> bool:
    return inspect.isclass(getattr(armtriage, name)) and issubclass(getattr(armtriage, name), Exception)


def module_names() -> list[str]:
    return [one.name for one in pkgutil.walk_packages(armtriage.__path__, "armtriage.")]


def test_names_are_sorted() -> None:
    # Constants and acronyms, then classes, then functions, as ruff orders them.
    order = [(not name.isupper(), not name[0].isupper(), name) for name in NAMES]
    assert order == sorted(order)


def test_names_are_given_once() -> None:
    assert len(set(NAMES)) == len(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_name_can_be_imported(name: str) -> None:
    assert getattr(importlib.import_module("armtriage"), name) is not None


def test_names_are_complete() -> None:
    assert sorted(public()) == sorted(NAMES)


def test_every_exported_policy_is_public() -> None:
    assert set(importlib.import_module("armtriage.policies").__all__) <= set(NAMES)


def test_every_exception_is_public() -> None:
    assert set(importlib.import_module("armtriage.errors").__all__) <= set(NAMES)


@pytest.mark.parametrize("module", module_names())
def test_names_that_a_module_exports_exist(module: str) -> None:
    one = importlib.import_module(module)
    assert [name for name in getattr(one, "__all__", []) if not hasattr(one, name)] == []


@pytest.mark.parametrize("name", NAMES)
def test_docstring_is_there(name: str) -> None:
    assert getattr(armtriage, name).__doc__


@pytest.mark.parametrize("name", [name for name in NAMES if not is_error(name)])
def test_docstring_has_an_example(name: str) -> None:
    assert ">>> " in (inspect.getdoc(getattr(armtriage, name)) or "")


@pytest.mark.parametrize("name", [name for name in NAMES if inspect.isclass(getattr(armtriage, name))])
def test_public_methods_have_docstrings(name: str) -> None:
    kind = getattr(armtriage, name)
    own = {key: one for key, one in vars(kind).items() if not key.startswith("_")}
    methods = {
        key: one for key, one in own.items() if inspect.isroutine(one) or isinstance(one, property | classmethod)
    }
    assert [key for key in methods if not inspect.getdoc(getattr(kind, key))] == []


@pytest.fixture(scope="module")
def words() -> set[str]:
    """All words of the pages."""
    pages = (page.read_text(encoding="utf-8") for page in ROOT.glob("docs/**/*.md"))
    return {word for page in pages for word in re.findall(r"\w+", page)}


@pytest.mark.parametrize("name", NAMES)
def test_docs_mention(name: str, words: set[str]) -> None:
    assert name in words


HEAVY = (
    *("matplotlib", "polars", "pydantic", "ray", "networkx", "typer", "rich", "pandas", "sklearn"),
    *("scipy.stats", "scipy.sparse", "scipy.optimize"),
)


@pytest.fixture(scope="module")
def loaded() -> dict[str, list[str]]:
    """Which modules are loaded after importing numba alone, and armtriage."""

    def after(module: str) -> list[str]:
        code = f"import json, sys, {module}; print(json.dumps(sorted(sys.modules)))"
        command = [sys.executable, "-c", code]
        shown = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300).stdout
        return list(json.loads(shown))

    return {module: after(module) for module in ("numba", "armtriage")}


@pytest.mark.parametrize("module", HEAVY)
def test_import_does_not_load(module: str, loaded: dict[str, list[str]]) -> None:
    assert module not in set(loaded["armtriage"]) - set(loaded["numba"])


def test_import_writes_nothing() -> None:
    command = [sys.executable, "-W", "error", "-c", "import armtriage"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    assert done.stdout + done.stderr == ""


WITHOUT_EXTRAS = """
import sys
sys.modules.update(dict.fromkeys(("sklearn", "pydantic", "polars", "matplotlib")))
from armtriage import *
assert GuardedThompson(3, budget=1, seed=7).n_arms == 3
assert Experiment
from armtriage import Features
"""


def test_all_names_of_the_library_can_be_imported_without_extras() -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT_EXTRAS], capture_output=True, text=True, timeout=300)
    assert done.stderr.splitlines()[-1].endswith("which the extra armtriage[features] brings"), done.stderr


def test_types_are_marked_as_shipped() -> None:
    assert (PACKAGE / "py.typed").is_file()


def test_version_is_that_of_the_installed_package() -> None:
    assert armtriage.__version__ == metadata.version("armtriage")


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_module_has_at_most_800_lines(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 800


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_module_says_what_it_is_for(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))


def test_numba_is_imported_where_kernels_are_compiled_only() -> None:
    users = [path.name for path in MODULES if re.search(r"^\s*(import|from) numba", path.read_text("utf-8"), re.M)]
    assert sorted(users) == ["compiler.py", "lowering.py", "record_types.py", "shortcuts.py", "usual.py"]
