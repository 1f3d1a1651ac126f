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


if __name__ == "__main__":
    print(table(Path(sys.argv[1])), end="")
