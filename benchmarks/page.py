"""What was measured, as a section of docs/speed.md: a table for each part, which stays until it is measured again."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Iterable, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import armtriage

PAGE = Path(__file__).parents[1] / "docs" / "speed.md"
_HEADING, _NOTHING = "## What was measured\n", "*Not measured yet.*"


def machine() -> str:
    """Say what measures, and how busy it was before it began."""
    return (
        f"armtriage {armtriage.__version__}, {date.today():%d %B %Y}, Python {platform.python_version()}, "
        f"{os.cpu_count()} processors, a load of {os.getloadavg()[0]:.1f} before it began"
    )


def table(figures: Iterable[Any], by: str) -> str:
    """Return the table of the figures of a part."""
    marks = {True: "reached", False: "**missed**", None: ""}
    rows = [
        (one.name, f"{one.value:,.2f} {one.unit}", one.target, marks[one.reached], one.detail.replace("|", "/"))
        for one in figures
    ]
    # A name that is indented belongs to the line above it.
    told = (f"| {' | '.join((re.sub('^ +', '&emsp;', name), *rest))} |" for name, *rest in rows)
    return "\n".join(["| what | measured | must be | | detail |", "|---|---|---|---|---|", *told, "", f"{by}."])


def renewed(page: str, measured: dict[str, str], parts: Sequence[str]) -> str:
    """Return a page with the tables of what was measured in the place of its own, and all others as they were."""
    before, heading, after = page.partition(_HEADING)
    if not heading:
        raise ValueError(f"the page must have the heading {_HEADING.strip()!r}")
    intro, *sections = re.split(r"^### `(\w+)`\n", after.partition("\n## ")[0] + "\n", flags=re.MULTILINE)
    kept = dict(zip(sections[::2], sections[1::2], strict=True)) | measured
    told = (f"### `{part}`\n\n{kept.get(part, _NOTHING).strip()}\n" for part in parts)
    _, rest, last = after.partition("\n## ")
    return f"{before}{heading}{intro.rstrip()}\n\n" + "\n".join(told) + rest + last
