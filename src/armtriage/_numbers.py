"""Numbers as people write them."""

from __future__ import annotations

import math
from collections.abc import Collection


def short(value: float, digits: int = 3) -> str:
    """Return a number as people write it: in three digits or more, with commas, and from a million on with a power.

    Examples
    --------
    >>> short(1234.6), short(0.0), short(6.54321), short(2.5e9), short(0.000021)
    ('1,235', '0', '6.54', '2.5e9', '2.1e-5')
    """
    if 10**digits - 0.5 <= abs(value) < 999_999.5:
        return f"{value:,.0f}"
    mantissa, _, power = f"{value:,.{digits}g}".partition("e")
    return f"{mantissa}e{int(power)}" if power else mantissa


def spread(low: float | None, high: float | None) -> str:
    """Return an interval in words.

    Examples
    --------
    >>> spread(1.0, 1234.5), spread(2.0, 2.0), spread(None, None)
    ('1 to 1,234', 'all runs alike', 'no interval')
    """
    if low is None or high is None:
        return "no interval"
    return "all runs alike" if low == high else f"{short(low)} to {short(high)}"


def at_most(bound: float) -> str:
    """Return an upper bound from 0 for a sentence, rounded up, so that what is written is a bound, too.

    Examples
    --------
    >>> at_most(21529.4), at_most(0.073141), at_most(155.32), at_most(0.25), at_most(3_200_000.5)
    ('21,530', '0.0732', '156', '0.25', '3,200,001')
    """
    if not 1e-300 < bound < 1e15:
        return short(bound)
    unit = 10.0 ** min(math.floor(math.log10(bound)) - 2, 0)
    rounded = math.ceil(bound / unit * (1.0 - 1e-12)) * unit
    return f"{rounded:,.0f}" if rounded >= 100.0 else short(rounded)


def counted(numbers: int | Collection[int], one: str = "run", many: str = "") -> str:
    """Return how many there are of something, or from how few to how many.

    Examples
    --------
    >>> counted([8, 16]), counted(1), counted(1200, "policy", "policies")
    ('8 to 16 runs', '1 run', '1,200 policies')
    """
    least, most = (numbers, numbers) if isinstance(numbers, int) else (min(numbers), max(numbers))
    named = one if most == 1 else many or f"{one}s"
    return f"{least:,} to {most:,} {named}" if least < most else f"{most:,} {named}"
