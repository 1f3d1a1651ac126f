"""What a kernel is made of: a digest of the syntax of every definition that it reaches, in whatever module.

Machine code is kept on disk under this digest. So an edit of a comment, of a docstring or of code that the kernel never
calls recompiles nothing, and no stale code is ever run.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import json
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from armtriage.kernels.disk import keep, kept

_PACKAGE = "armtriage"
_ROOT = Path(__file__).parents[1]
_BEGAN = time.time()
_CLOCKS_DIFFER = 3600.0

_MAKERS = {("armtriage.kernels.jit", "kernel"), ("armtriage.kernels.jit", "bind")}
"""Not part of what a kernel is made of: how it is compiled has a digest of its own, of `kernels.compiler`."""


class _Definition(NamedTuple):
    """A name at the top of a module: a digest of what it stands for, and the names that stand in it."""

    digest: str
    names: list[str]  # dotted where an attribute is read


class _Module(NamedTuple):
    """A module's definitions, and where the names that it imports come from."""

    definitions: dict[str, _Definition]
    imports: dict[str, list[str]]  # module and name, which is empty where a module is imported


class Sources:
    """The package's modules as syntax, each parsed when it is first needed and remembered in a file.

    Parameters
    ----------
    folder : Path, optional
        Where the file lies, one for each place that the package is installed in, or they would write over each
        other's at every start. It is only a cache, and may be lost or damaged.

    Examples
    --------
    >>> sources = Sources()
    >>> len(sources.digest("armtriage.kernels.order", "kth_largest"))
    16
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._memory = None if folder is None else folder / f"sources-{_hash(str(_ROOT))}.json"
        self._remembered: dict[str, Any] | None = None
        self._modules: dict[str, _Module] = {}
        self._known: dict[tuple[str, str], tuple[str, list[tuple[str, str]]]] = {}
        self._changed = False
        self._edited = False

    def digest(self, module: str, name: str) -> str | None:
        """Return the digest of all that a definition reaches; None for one that is not of this package.

        It is None, too, if a file has changed since this process began, which may run the older text.
        """
        if not _is_ours(module):
            return None
        reached = self.reached(module, name)
        if self._edited:
            return None
        parts = sorted(f"{where}:{what}:{one}" for (where, what), one in reached.items())
        return _hash("\n".join(parts))

    def reached(self, module: str, name: str) -> dict[tuple[str, str], str]:
        """Return the definitions of this package that one reaches, itself included, with a digest of each alone."""
        if not _is_ours(module):
            return {}
        reached: dict[tuple[str, str], str] = {}
        waiting = [(module, name)]
        while waiting:
            one = waiting.pop()
            if one not in reached and one not in _MAKERS:
                reached[one], others = self._found(*one)
                waiting += others
        self._remember()
        return reached

    @staticmethod
    def combine_known(digests: Iterable[str | None]) -> str | None:
        """Return one digest for several, or None if one of them is."""
        known = list(digests)
        return None if None in known else _hash("\n".join(map(str, known)))

    def _found(self, module: str, name: str) -> tuple[str, list[tuple[str, str]]]:
        """Return a name's own digest and where it leads; one that no module defines is one of Python's own."""
        if (module, name) not in self._known:
            known = self._module(module)
            definition = known.definitions.get(name)
            if definition is not None:
                others = [self._meant(module, known, other) for other in definition.names]
                found = definition.digest, [other for other in others if _is_ours(other[0])]
            else:
                where = known.imports.get(name, ("", ""))
                found = "", [(where[0], where[1])] if _is_ours(where[0]) else []
            self._known[module, name] = found
        return self._known[module, name]

    @staticmethod
    def _meant(module: str, known: _Module, name: str) -> tuple[str, str]:
        """Return the module and the name in it that a name means in another."""
        first, _, rest = name.partition(".")
        where, what = known.imports.get(first, ("", ""))
        if not _is_ours(where):
            return module, first
        if not what:
            return where, rest.partition(".")[0]
        if _file_of(f"{where}.{what}") is not None:
            return f"{where}.{what}", rest.partition(".")[0]
        return where, what

    def _module(self, name: str) -> _Module:
        if name in self._modules:
            return self._modules[name]
        path = _file_of(name)
        if path is None:
            return _Module({}, {})
        status = path.stat()
        # A date far ahead is that of a clock that is wrong, and says nothing of what this process has loaded.
        self._edited |= _BEGAN < status.st_mtime < time.time() + _CLOCKS_DIFFER
        stamp = [str(path), status.st_mtime_ns, status.st_size]
        if self._remembered is None:
            self._remembered = _read(self._memory)
        found = self._remembered.get(name)
        if found is None or found[0] != stamp:
            self._changed = True
            found = [stamp, *_parse(path.read_text(encoding="utf-8"))]
            self._remembered[name] = found
        definitions = {key: _Definition(*value) for key, value in found[1].items()}
        self._modules[name] = _Module(definitions, found[2])
        return self._modules[name]

    def _remember(self) -> None:
        if self._changed and self._memory is not None:
            self._changed = False
            keep(self._memory, json.dumps(self._remembered).encode())


def _is_ours(module: str) -> bool:
    return module == _PACKAGE or module.startswith(f"{_PACKAGE}.")


@functools.cache
def _file_of(module: str) -> Path | None:
    """Return a module's file, without importing it or what it stands in."""
    path = _ROOT.joinpath(*module.split(".")[1:])
    for one in (path / "__init__.py", path.with_suffix(".py")):
        if one.is_file():
            return one
    return None


def _read(memory: Path | None) -> dict[str, Any]:
    content = None if memory is None else kept(memory)
    try:
        read = json.loads(content or b"{}")
    except ValueError:
        read = {}
    return read if isinstance(read, dict) else {}


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _parse(text: str) -> tuple[dict[str, tuple[str, list[str]]], dict[str, tuple[str, str]]]:
    """Return the definitions of a module and its imports; a name that is defined in two branches is both of them."""
    definitions: dict[str, tuple[str, list[str]]] = {}
    imports: dict[str, tuple[str, str]] = {}

    def add(name: str, node: ast.AST) -> None:
        digest, names = definitions.get(name, ("", []))
        found: set[str] = set()
        text: list[str] = []
        _write(node, text, found)
        definitions[name] = _hash(digest + "".join(text)), sorted({*names, *found} - {name})

    def visit(nodes: list[ast.stmt]) -> None:
        for node in nodes:
            match node:
                case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                    add(name, node)
                case ast.Import(names=aliases):
                    imports.update({alias.asname or alias.name: (alias.name, "") for alias in aliases})
                case ast.ImportFrom(module=str(module), names=aliases):
                    imports.update({alias.asname or alias.name: (module, alias.name) for alias in aliases})
                case ast.If(body=body, orelse=rest):
                    visit(body + rest)
                case ast.Assign() | ast.AnnAssign():
                    for target in ast.walk(node):
                        if isinstance(target, ast.Name) and isinstance(target.ctx, ast.Store):
                            add(target.id, node)

    visit(ast.parse(text).body)
    return definitions, imports


def _write(node: Any, text: list[str], names: set[str]) -> None:
    """Write down a syntax tree without docstrings, and the names that are read in it, with the first attribute of each.

    It is `ast.dump` and three walks in one, since every module of a policy is read before its first decision.
    """
    if isinstance(node, ast.AST):
        if isinstance(node, ast.Name):
            names.add(node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            names.add(f"{node.value.id}.{node.attr}")
        text.append(f"{type(node).__name__}(")
        for field in node._fields:
            value = getattr(node, field, None)
            if field == "body" and isinstance(node, ast.FunctionDef | ast.ClassDef):
                value = _without_docstring(node.body)
            if value is not None and value != []:
                text.append(f"{field}=")
                _write(value, text, names)
        text.append(")")
    elif isinstance(node, list):
        text.append("[")
        for one in node:
            _write(one, text, names)
            text.append(",")
        text.append("]")
    else:
        text.append(repr(node))


def _without_docstring(body: list[ast.stmt]) -> list[ast.stmt]:
    match body:
        case [ast.Expr(ast.Constant(str())), *rest]:
            return rest
    return body
