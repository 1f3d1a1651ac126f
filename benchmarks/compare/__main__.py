"""``make compare ARGS=contexts``: plays a contest against peers, and prints its tables."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence

from benchmarks.compare import contexts, drift, everything, logs, many, places, routes, slates, tables

CONTESTS: dict[str, Callable[[Sequence[str]], None]] = {
    "contexts": contexts.main,
    "drift": drift.main,
    "everything": everything.main,
    "logs": logs.main,
    "many": many.main,
    "places": places.main,
    "routes": routes.main,
    "slates": slates.main,
    "tables": tables.main,
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Play the contest that is named first; what follows are its own options."""
    parser = argparse.ArgumentParser(prog="make compare", description=__doc__)
    parser.add_argument("contest", choices=CONTESTS)
    named, rest = parser.parse_known_args(arguments)
    CONTESTS[named.contest](rest)


if __name__ == "__main__":
    main()
