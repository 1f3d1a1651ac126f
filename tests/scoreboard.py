"""The scoreboard of the reliability page: what `make test-long` has tried, how often, and what came of it."""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path


def table(folder: Path) -> str:
    """Return the table of all that tests have noted in a folder; a test that fails notes nothing, and is not there."""
    tried: Counter[tuple[str, str]] = Counter()
    for file in sorted(folder.glob("*.jsonl")):
        for line in file.read_text(encoding="utf-8").splitlines():
            one = json.loads(line)
            tried[one["what"], one["outcome"]] += one["tried"]
    rows = [f"| {what} | {number:,} | {outcome} |" for (what, outcome), number in sorted(tried.items())]
    return "\n".join(["| tried | how often | what came of it |", "|---|---|---|", *rows, ""])


def renewed(page: str, new: str) -> str:
    """Return a page with another table in the place of its own."""
    lines = page.splitlines(keepends=True)
    start = lines.index("| tried | how often | what came of it |\n")
    stop = next((place for place in range(start, len(lines)) if not lines[place].startswith("|")), len(lines))
    return "".join([*lines[:start], new, *lines[stop:]])


if __name__ == "__main__":
    found, page = table(Path(sys.argv[1])), Path(sys.argv[2])
    print(found, end="")
    page.write_text(renewed(page.read_text(encoding="utf-8"), found), encoding="utf-8")
