"""Put every page as Markdown beside the built one, the reference spelled out, and a list of all pages: ``llms.txt``.

``make docs`` runs it on the built site: ``python docs/markdown_pages.py site``.
"""

import inspect
import pkgutil
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent


def pages() -> Iterator[tuple[str, str, str]]:
    """Yield section, title and path of the pages in the navigation."""
    nav = (DOCS.parent / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2]
    section = ""
    for line in nav.splitlines():
        if not line.startswith(" "):
            return
        title, _, path = line.strip().removeprefix("- ").partition(": ")
        if path:
            yield section if line.startswith("    ") else "Start", title, path
        else:
            section = title.removesuffix(":")


def summary(text: str) -> str:
    """Return the first sentence of a page's first paragraph, without links."""
    paragraphs = [part for part in text.split("\n\n") if re.match(r"[\w*`]", part)]
    words = re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", " ".join(paragraphs[0].split())) if paragraphs else ""
    return re.split(r"(?<=[.?!:]) (?=[A-Z`])", words)[0]


def described(name: str) -> str:
    """Return what the reference says of a public name: signature and docstring, with those of its methods."""
    one = pkgutil.resolve_name(":".join(name.rsplit(".", 1)))
    parts = [f"## {name}", _text(one, name.rpartition(".")[2])]
    if inspect.isclass(one):
        for key, member in inspect.getmembers(one):
            if not key.startswith("_") and key in vars(one) and inspect.getdoc(member):
                parts += [f"### {name}.{key}", _text(member, key)]
    return "\n\n".join(parts)


def _text(one: Any, name: str) -> str:
    try:
        signature = f"{name}{inspect.signature(one)}\n\n" if callable(one) else ""
    except ValueError:  # a class without a constructor of its own
        signature = ""
    return f"```text\n{signature}{inspect.getdoc(one)}\n```"


def main(site: Path) -> None:
    """Write the pages and their list."""
    lists: dict[str, list[str]] = {}
    for section, title, path in pages():
        text = (DOCS / path).read_text(encoding="utf-8")
        lists.setdefault(section, []).append(f"- [{title}]({path}): {summary(text)}")
        text = re.sub(r"^::: (\S+)\n(?:    .*\n)*", lambda found: described(found[1]) + "\n", text, flags=re.M)
        place = site / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, encoding="utf-8")
    about = summary((DOCS / "index.md").read_text(encoding="utf-8"))
    parts = [f"# armtriage\n\n> {about}", *(f"## {section}\n\n" + "\n".join(rows) for section, rows in lists.items())]
    (site / "llms.txt").write_text("\n\n".join(parts) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
