"""How the reference reads docstrings: every argument by itself, with its own type and default, and names as links.

Griffe gives all names of a list (``graph, budget``) the type and the default of the first, and takes nothing from where
"See `armtriage.Policy`." points to.
"""

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import griffe

DOCS = Path(__file__).parent / "docs"
LISTS = ("Parameters", "Attributes")


class Entry(NamedTuple):
    """What a docstring says of one argument or attribute."""

    kind: str
    lines: list[str]


class Reference(griffe.Extension):
    """Takes lists of arguments apart, spells out the options that policies hand on, and makes links of names."""

    def on_package(self, *, pkg: griffe.Module, **_: object) -> None:
        """Rewrite all docstrings and signatures once everything is loaded."""
        pages = "\n".join(page.read_text(encoding="utf-8") for page in sorted((DOCS / "api").glob("*.md")))
        shown = re.findall(r"^::: (\S+)$", pages, re.M)
        self.package, self.names = pkg, {name.rpartition(".")[2]: name for name in shown}
        for name in shown:
            self._prefer_function(name)
        documented = [one for one in _objects(pkg) if one.docstring]
        for one in documented:
            if isinstance(one, griffe.Class) and (init := one.members.get("__init__")):
                self._spell_out(one, init)
        texts = [self._text(one) for one in documented]
        for one, text in zip(documented, texts, strict=True):
            one.docstring.value = text
            _mend(one)

    def _prefer_function(self, name: str) -> None:
        """Let a name stand for what a module of this name defines, as it does in Python, and not for the module."""
        place, _, last = name.removeprefix("armtriage.").rpartition(".")
        parent = self.package[place] if place else self.package
        found = parent.members[last].final_target if parent.members[last].is_alias else parent.members[last]
        if found.is_module and last in found.members:
            parent.members[last] = griffe.Alias(last, found.members[last], parent=parent)

    def _spell_out(self, owner: griffe.Class, init: griffe.Function) -> None:
        """Put options by name into a signature that only hands them on to that of a base."""
        given = [str(one.annotation) for one in init.parameters if one.name == "options"]
        taken = re.fullmatch(r"Unpack\[(\w+)\]", *given) if given else None
        if taken is None:
            return
        kept = [one for one in init.parameters if one.name != "options"]
        bases = [base.members["__init__"].parameters for base in owner.mro() if "__init__" in base.members]
        kind: griffe.Object | None = self.package[f"policies.options.{taken[1]}"]
        while kind is not None:
            for name in [name for name in kind.members if all(name != one.name for one in kept)]:
                first = next(given[name] for given in bases if name in given)
                kept.append(griffe.Parameter(name, annotation=first.annotation, kind=first.kind, default=first.default))
            kind = next(iter(kind.resolved_bases), None)
        init.parameters = griffe.Parameters(*kept)

    def _found(self, path: str, near: griffe.Object) -> griffe.Object:
        """Return what a docstring means by a name: a whole path, a neighbour, or an exported name."""
        place: griffe.Object | None = near
        while place is not None:
            if path in place.all_members:
                found = place.all_members[path]
                return found.final_target if found.is_alias else found
            place = place.parent
        return self.package[path.removeprefix("armtriage.")].final_target

    def _entries(self, one: griffe.Object, title: str) -> dict[str, Entry]:
        """Return what is said of each argument, also where it is said elsewhere."""
        made: dict[str, Entry] = {}
        for head, body in _items(_section(one.docstring.value.splitlines(), title)):
            names, _, kind = head.partition(" : ")
            see = None if kind else re.fullmatch(r"See `([\w.]+)`\.", " ".join(line.strip() for line in body))
            other = self._entries(self._found(see[1], one), title) if see else {}
            for name in names.split(", "):
                made[name] = other.get(name, Entry(kind, body))
        return made

    def _text(self, one: griffe.Object) -> str:
        """Return the docstring with an entry for each argument, and with links."""
        lines = one.docstring.value.splitlines()
        for title in LISTS:
            if old := _section(lines, title):
                start = lines.index(title) + 2
                new = []
                for name, entry in self._entries(one, title).items():
                    new += [f"{name} : {entry.kind}" if entry.kind else name, *entry.lines]
                lines[start : start + len(old)] = [*new, ""]
        return "\n".join(line if re.match(r"\s*(>>>|\.\.\.)", line) else self._linked(line, one) for line in lines)

    def _linked(self, line: str, one: griffe.Object) -> str:
        line = re.sub(r"`docs/([\w-]+)\.md`", _page, line)

        def link(found: re.Match[str]) -> str:
            name = found[1].rpartition(".")[2]
            known = name in self.names and name != one.name and self.names[name].endswith(found[1])
            return f"[`{name}`][{self.names[name]}]" if known else found[0]

        return re.sub(r"(?<![`\w])`([\w.]+)`(?![`\w])", link, line)


def _page(found: re.Match[str]) -> str:
    title = (DOCS / f"{found[1]}.md").read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")
    return f"[{title}](../{found[1]}.md)"


def _objects(place: griffe.Object) -> Iterator[griffe.Object]:
    """Return all that is defined in a package."""
    for one in place.members.values():
        if not one.is_alias:
            yield one
            yield from _objects(one)


def _section(lines: list[str], title: str) -> list[str]:
    """Return the lines of a section, without its title."""
    for start in range(len(lines) - 1):
        if lines[start] == title and set(lines[start + 1]) == {"-"}:
            rest = lines[start + 2 :]
            ends = (at - 1 for at, line in enumerate(rest) if at and line and set(line) == {"-"})
            return rest[: next(ends, len(rest))]
    return []


def _items(lines: list[str]) -> Iterator[tuple[str, list[str]]]:
    """Return the entries of a section: the line that names it, and what is said of it."""
    heads = [at for at, line in enumerate(lines) if line and not line.startswith(" ")]
    for at, following in pairwise([*heads, len(lines)]):
        yield lines[at], [line for line in lines[at + 1 : following] if line]


def _mend(one: griffe.Object) -> None:
    """Take defaults from the signature and choices from the docstring, where Griffe guesses by the first of these."""
    parameters = getattr(one, "parameters", None)
    kinds = dict(
        head.split(" : ")
        for head, _ in _items(_section(one.docstring.value.splitlines(), "Parameters"))
        if ": {" in head
    )
    for section in one.docstring.parsed if parameters else []:
        if section.kind is griffe.DocstringSectionKind.parameters:
            for entry in section.value:
                if entry.name in parameters:
                    entry.value = parameters[entry.name].default
                if entry.name in kinds:
                    entry.annotation = kinds[entry.name].removesuffix(", optional")
