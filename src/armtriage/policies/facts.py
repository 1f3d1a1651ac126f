"""What a file keeps of a policy's state, and how it is taken back.

A file is untrusted input, and kernels index with the contents of their arrays. So only *facts* are kept: what follows
from them is computed again when a policy is loaded, and each policy checks its facts before that.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from armtriage.kernels.record import Ints, Record

Arrays = Mapping[str, NDArray[Any]]

FAR = 1e100
"""So far from the largest number that no sum or product of a few overflows."""


def arrays_of(record: Record) -> dict[str, NDArray[Any]]:
    """Return the arrays of a record, its numbers as `whole` and `real`, and all those of a record inside it."""
    arrays: dict[str, NDArray[Any]] = {}
    for name, value in record._asdict().items():
        if isinstance(value, Record):
            arrays |= {f"{name}.{part}": array for part, array in arrays_of(value).items()}
        elif isinstance(value, np.ndarray):
            arrays[name] = value
    return arrays | {name: bag for name, bag in (("whole", record.whole), ("real", record.real)) if bag.size}


def facts_of(record: Record) -> dict[str, NDArray[Any]]:
    """Return those that are facts; numbers that are none count as 0."""
    facts: dict[str, NDArray[Any]] = {}
    for name, value in record._asdict().items():
        if isinstance(value, Record):
            facts |= {f"{name}.{part}": array for part, array in facts_of(value).items()}
        elif isinstance(value, np.ndarray) and record.is_fact(name):
            facts[name] = value
    for bag in ("whole", "real"):
        if (places := record.fact_places(bag)).size:
            facts[bag] = np.zeros_like(getattr(record, bag))
            facts[bag][places] = getattr(record, bag)[places]
    return facts


def check_facts(record: Record, known: Mapping[str, Any]) -> None:
    """Refuse facts outside of the limits that their fields have: numbers, other fields, or what is `known` by name."""
    own = record._asdict()
    ends = {**own, **known}
    for name, value in own.items():
        if isinstance(value, Record):
            check_facts(value, known)
        elif record.is_fact(name):
            low, high = record.limits.get(name, (None, None))
            least, most = -FAR if low is None else ends.get(low, low), FAR if high is None else ends.get(high, high)
            within(name, record.raw(name), least, most)


def take_facts(record: Record, arrays: Arrays) -> None:
    """Write the facts among saved arrays into a record that is otherwise new; refuse what belongs to none."""
    own = arrays_of(record)
    if strangers := sorted(set(arrays) - set(own)):
        raise ValueError(f"the state must have no {strangers[0]}")
    needed = {name for name in facts_of(record) if not _is_bag(name) and (name in arrays or not is_later(name))}
    restore_arrays({name: own[name] for name in needed}, arrays)
    _take_numbers(record, arrays, "")


def _is_bag(name: str) -> bool:
    return name.rpartition(".")[2] in ("whole", "real")


def is_later(name: str) -> bool:
    """Whether the files of before do not have it: then it stays as it is in a new state."""
    return name.rpartition(".")[2] in ("missed", "credit", "between", "told_between", "clicks")


def _take_numbers(record: Record, arrays: Arrays, prefix: str) -> None:
    for name, value in record._asdict().items():
        if isinstance(value, Record):
            _take_numbers(value, arrays, f"{prefix}{name}.")
    for bag in ("whole", "real"):
        if (places := record.fact_places(bag)).size:
            # Numbers are only ever added behind the others: the files of before have fewer.
            own, name = getattr(record, bag), f"{prefix}{bag}"
            copy = np.zeros(min(own.size, arrays[name].size if name in arrays else 0), own.dtype)
            restore_arrays({name: copy}, arrays)
            places = places[places < copy.size]
            own[places] = copy[places]


def restore_arrays(own: Arrays, arrays: Arrays) -> None:
    """Write saved arrays into one's own, if they have their shapes and types."""
    for name, array in own.items():
        if name not in arrays:
            raise ValueError(f"{name} is missing")
        given = arrays[name]
        if given.shape != array.shape or given.dtype != array.dtype:
            expected = f"{array.shape} of {array.dtype}"
            raise ValueError(f"{name} has shape {given.shape} of {given.dtype}, expected {expected}")
        array[...] = given


def with_later(own: Arrays, arrays: Arrays) -> dict[str, NDArray[Any]]:
    """Return saved arrays under the names of one's own, and for names that came later what one has; no others."""
    given = {**{name: array for name, array in own.items() if is_later(name)}, **arrays}
    require(set(given) == set(own), f"the state must have {', '.join(own)}, got {', '.join(arrays)}")
    return given


def without_squares(arrays: Arrays) -> dict[str, NDArray[Any]]:
    """Return saved arrays with sums of r (1 - r) in place of those of r squared, which the files of before may have."""
    found = dict(arrays)
    for name in [one for one in arrays if one.rpartition(".")[2] == "squares"]:
        squares, place = found.pop(name), name.removesuffix("squares")
        if squares.size:
            sums = found[f"{place}sums"][: squares.size]
            right = squares.shape == sums.shape and squares.dtype == sums.dtype == np.float64
            require(right, f"{name} must have a number for each arm")
            within(name, squares, 0.0, sums + 1e-9)
            between = np.maximum(sums - squares, 0.0)
            found[f"{place}between"] = np.append(between, np.zeros(found[f"{place}sums"].size - between.size))
    return found


def require(right: Any, fact: str) -> None:
    """Refuse a state of which something is not true that always is."""
    if not np.all(right):
        raise ValueError(fact)


def is_inside(some: Ints, arms: Ints) -> NDArray[np.bool_]:
    """Return which numbers are among others, one or more of them, that ascend: `isin`, at the cost of a search each."""
    return np.asarray(arms[np.minimum(arms.searchsorted(some), arms.size - 1)] == some)


def within(name: str, values: Any, low: Any, high: Any) -> None:
    """Refuse numbers outside of a range, and those that are none."""
    right = np.asarray((values >= low) & (values <= high))
    if not right.all():
        found = np.asarray(values)[~right].flat[0].item()
        raise ValueError(f"{name} must lie between {np.min(low):g} and {np.max(high):g}, got {found!r}")
