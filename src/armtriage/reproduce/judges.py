"""How claims are judged, each kind by one rule: powers, bounds, ratios, targets and certificates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np
from scipy.special import bdtrc

from armtriage._numbers import short
from armtriage.reproduce.study import LEVEL, Row, Rows, Verdict

ROOM = 0.05
"""How far a fitted power may lie from the predicted one, beyond its interval: rates leave out logarithms."""
RARE = 1e-3
"""The chance below which failures are no longer put down to chance."""
PRINTED = "from where on the bound with its printed constants says something"
"""What `printed_bound` says."""
_HAIR = 0.01  # that a share may be below 1 and still count as 1
_WIDEST = 0.5  # an interval of a power that is wider than this tells no theorem from another


def measured(row: Row, value: str = "mean", words: Callable[[float], str] = short) -> str:
    """Return a number of a table's row with its interval, in words; the ends are in `low` and `high`.

    Examples
    --------
    >>> measured({"mean": 1234.5, "low": 1200.0, "high": 1269.0})
    '1,234 (1,200 to 1,269)'
    """
    return _with_ends(row[value], row["low"], row["high"], words)


def times(row: Row) -> str:
    """Return the ratio of a row of `Results.differences`, with its interval, in words.

    Examples
    --------
    >>> times({"ratio": 2.0, "ratio_low": 1.9, "ratio_high": 2.125})
    '2.00 times (1.90 to 2.12)'
    """
    return _with_ends(row["ratio"], row["ratio_low"], row["ratio_high"], lambda one: f"{one:.2f}", " times")


def _with_ends(
    value: float | None, low: float | None, high: float | None, words: Callable[[float], str], unit: str = ""
) -> str:
    if value is None:
        return "none"
    ends = "no interval" if low is None or high is None else f"{words(low)} to {words(high)}"
    return f"{words(value)}{unit} ({ends})"


def spread(rows: Rows) -> str:
    """Return the least and the largest ratio of some rows, with where they are, in words."""
    least, most = (edge(rows, key=lambda row: row["ratio"]) for edge in (min, max))
    if least is most:
        return times(least)
    return ", to ".join(f"{times(one)}, {_place(one)}" for one in (least, most))


def _place(row: Row) -> str:
    return str(row.get("place", row["environment"]))


def told(row: Row) -> bool | None:
    """Return whether the ratio of a row of `Results.differences` is above 1; None if its interval does not tell.

    Examples
    --------
    >>> told({"ratio_low": 1.1, "ratio_high": None}), told({"ratio_low": 0.9, "ratio_high": 1.2})
    (True, None)
    """
    if row["ratio_low"] is not None and row["ratio_low"] > 1.0:
        return True
    return False if row["ratio_high"] is not None and row["ratio_high"] < 1.0 else None


def compared(rows: Rows, above: bool) -> tuple[bool | None, str]:
    """Return whether ratios are on the claimed side of 1 in some places and on the other in none, and that in words.

    Examples
    --------
    >>> rows = [{"environment": "star", "ratio_low": 1.1, "ratio_high": 1.3}]
    >>> compared(rows, above=True), compared(rows, above=False)
    ((True, 'in 1 of 1 places, and in none the other way'), (False, 'the other way on star'))
    """
    gains, losses = ([row for row in rows if told(row) is side] for side in (above, not above))
    if losses:
        return False, f"the other way on {'; '.join(map(_place, losses))}"
    if not gains:
        return None, f"no difference can be told in any of {len(rows)} places"
    return True, f"in {len(gains)} of {len(rows)} places, and in none the other way"


def ratios(above: bool | None = None, predicted: str = "no target") -> Callable[[Rows], Verdict]:
    """Return the judge of ratios that are claimed to be above or below 1, or of which nothing is claimed.

    What is predicted may stand in the rows.

    Examples
    --------
    >>> rows = [{"environment": "star", "ratio": 1.2, "ratio_low": 1.1, "ratio_high": 1.3}]
    >>> ratios()(rows).text
    'Says what it costs: more in 1 of 1 places, less in 0.'
    """

    def judge(rows: Rows) -> Verdict:
        if above is not None:
            return Verdict(rows[0].get("predicted", predicted), spread(rows), *compared(rows, above))
        more, less = (sum(told(row) is side for row in rows) for side in (True, False))
        because = f"more in {more} of {len(rows)} places, less in {less}"
        return Verdict(predicted, spread(rows), None, because, "Says what it costs")

    return judge


def power(
    predicted: float | None = None,
    *,
    side: Literal["equal", "at most", "at least"] = "equal",
    known: Callable[[Row], bool] = lambda row: True,
    why: Callable[[Row], str] = lambda row: "",
) -> Callable[[Rows], Verdict]:
    """Return the judge of a fitted power: it agrees if its interval holds the predicted one.

    If only an interval that is wider by `ROOM` does, it is undecided. Its row has slope, low and high, and may have
    `whole`: the power by which the bound itself grows over the same points, with the logarithms and the smaller terms
    that a rate leaves out; what lies between the two agrees as well.

    Parameters
    ----------
    predicted : float, optional
        The power of the theorem; by default it is in the row.
    side : {"equal", "at most", "at least"}
        Whether the theorem has the power itself, or bounds it.
    known : callable
        Takes the row: whether the size of the study lets the power be seen at all.
    why : callable
        Takes the row: the reason, if one is known, in case they disagree or nothing is known.

    Examples
    --------
    >>> found = power(0.5)([{"slope": 0.61, "low": 0.6, "high": 0.62, "whole": 0.52}])
    >>> found.agrees, found.predicted, found.text
    (False, 'power 0.50, or 0.52 with all terms', 'Does not agree: the power is larger by 0.09.')
    """

    def judge(rows: Rows) -> Verdict:
        (row,) = rows
        aim = row["predicted"] if predicted is None else predicted
        whole = aim if row.get("whole") is None else row["whole"]
        least, most = sorted((aim, whole))
        said = f"power {aim:.2f}" if side == "equal" else f"power {side} {aim:.2f}"
        said += "" if f"{least:.2f}" == f"{most:.2f}" else f", or {whole:.2f} with all terms"
        seen = known(row)
        agrees, because = _power(row, least, most, side) if seen else (None, "too little is seen at this size")
        if (agrees is False or not seen) and (reason := why(row)):
            because = f"{because}. {reason}"
        return Verdict(said, f"power {measured(row, 'slope', lambda one: f'{one:.2f}')}", agrees, because)

    return judge


def _power(row: Row, least: float, most: float, side: str) -> tuple[bool | None, str]:
    slope, low, high = row["slope"], row["low"], row["high"]
    if slope is None or low is None or high is None or high - low > _WIDEST:
        return None, "the interval is too wide at this size"
    if low - ROOM > most:
        more = side == "at least"
        return more, "more than the theorem says" if more else f"the power is larger by {slope - most:.2f}"
    if high + ROOM < least:
        less = side == "at most"
        return less, "less than the theorem says" if less else f"the power is smaller by {least - slope:.2f}"
    beyond = {"at most": high - most, "at least": least - low}.get(side, max(low - most, least - high))
    if beyond > 0.0:
        if side != "equal":
            return None, f"the interval reaches {beyond:.2f} too far"
        return None, f"the interval misses it by {beyond:.2f}, which may be the logarithms that a rate leaves out"
    if least < slope < most:
        return True, "the power lies between the two"
    if side != "equal":
        return True, "as the theorem says"
    return True, f"the power is off by {max(slope - most, least - slope):.2f}"


def below_bound(rows: Rows, column: str = "mean") -> Verdict:
    """Return whether regrets stay below their upper bounds, and how many of these are above `most`, if there is one.

    Examples
    --------
    >>> row = {"policy": "a", "mean": 4.0, "low": 3.0, "high": 5.0, "upper": 8.0, "most": 6.0}
    >>> below_bound([row]).text
    'Agrees: at most 0.5 times the bound, which is vacuous in 1 of 1 places.'
    """
    near = max(rows, key=lambda row: row[column] / row["upper"])
    ratio = near[column] / near["upper"]
    empty = sum(row["upper"] >= row.get("most", np.inf) for row in rows)
    because = f"at most {ratio:.2g} times the bound"
    because += f", which is vacuous in {empty} of {len(rows)} places" if empty else ""
    seen = measured(near) if column == "mean" else short(near[column])
    return Verdict(f"at most {short(near['upper'])} there", f"{seen}, {near['policy']}", ratio <= 1.0, because)


def above_bound(rows: Rows, sure: bool = True) -> Verdict:
    """Return whether means stay above their lower bounds; one that is not `sure` to hold here is never broken.

    Examples
    --------
    >>> row = {"policy": "a", "mean": 4.0, "low": 3.0, "high": 5.0, "lower": 2.0}
    >>> above_bound([row]).text
    'Agrees: at least 2 times the bound.'
    """
    known = [row for row in rows if row["lower"] is not None]
    if not known:
        return Verdict("no bound", "none", None, "the bound asks for more rounds")
    near = min(known, key=lambda row: row["mean"] / row["lower"])
    holds = (near["mean"] if near["high"] is None else near["high"]) >= near["lower"]
    because = f"at least {near['mean'] / near['lower']:.2g} times the bound"
    agrees = holds or (False if sure else None)
    return Verdict(f"at least {short(near['lower'])} there", f"{measured(near)}, {near['policy']}", agrees, because)


def guessing(rows: Rows) -> Verdict:
    """Return whether no policy is better than guessing, of whose loss the means are shares."""
    best = min(rows, key=lambda row: row["mean"])
    agrees = None if best["high"] is None else best["high"] >= 1.0 - _HAIR
    because = {None: "no interval", True: "no policy is told from guessing", False: f"{best['policy']} does better"}
    seen = f"least share of it: {measured(best, words=lambda one: f'{one:.3f}')}, {best['policy']}"
    return Verdict("1 times what guessing loses", seen, agrees, because[agrees])


def printed_bound(rows: Rows) -> Verdict:
    """Return from how many times as many rounds on printed constants give a bound that some policy can exceed.

    Nothing is claimed, and nothing played: it follows from `printed` and `most`, and from `from_times`.

    Examples
    --------
    >>> printed_bound([{"printed": 30.0, "most": 10.0, "from_times": 40.0}]).text
    'Arithmetic: vacuous at every size of this study, and below about 40 times these rounds.'
    """
    least, first = (min(one) for one in zip(*((r["printed"] / r["most"], r["from_times"]) for r in rows), strict=True))
    below = "below what any policy can lose"
    if least >= 1.0:
        below = f"vacuous at every size of this study, and below about {short(first)} times these rounds"
    return Verdict("less than S T", f"{short(least)} times S T or more", None, below, "Arithmetic")


def from_times(ratio: Callable[[float], float]) -> float:
    """Return from how many times as many rounds on a ratio is below 1, to a tenth; infinite beyond a million times.

    Examples
    --------
    >>> round(from_times(lambda times: 5.0 / times), 1)
    5.1
    """
    times = 1.0
    while times < 1e6 and ratio(times) >= 1.0:
        times *= 1.06
    return times if times < 1e6 else np.inf


def target(aimed: int) -> Callable[[Rows], Verdict]:
    """Return the judge of ratios that are to be at most `target` in all places, after so many rounds.

    Examples
    --------
    >>> row = {"environment": "star", "ratio": 1.0, "ratio_low": 0.9, "ratio_high": 1.1, "target": 1.2, "horizon": 50}
    >>> target(50)([row]).text
    'Agrees: it is within it, 1 of 1 with the whole interval.'
    >>> target(50)([{**row, "ratio_high": 1.3}]).text
    'Undecided: it is within it, 0 of 1 with the whole interval.'
    """

    def judge(rows: Rows) -> Verdict:
        most, horizon, n = rows[0]["target"], rows[0]["horizon"], len(rows)
        said = f"{'below' if most == 1.0 else 'at most'} {most:g} times, at T = {aimed:,}", spread(rows)
        over = [row for row in rows if row["ratio"] > most]
        within = f"{n - len(over)} of {n} places are within it"
        if n == 1:
            within = f"it is {'not ' if over else ''}within it"
        if horizon < aimed:
            return Verdict(*said, None, f"the target is for T = {aimed:,}; at T = {horizon:,} {within}")
        clear = [row for row in over if row["ratio_low"] is not None and row["ratio_low"] > most]
        if clear:
            worst = max(clear, key=lambda row: row["ratio"])
            where = f"{worst['ratio']:.2f} times, {worst['environment']}" if n > 1 else f"{worst['ratio']:.2f} times"
            return Verdict(*said, False, f"{within}; the most is {where}")
        if over:
            return Verdict(*said, None, f"{within}, but the intervals reach the target")
        sure = sum(row["ratio_high"] is not None and row["ratio_high"] <= most for row in rows)
        return Verdict(*said, sure == n or None, f"{within}, {sure} of {n} with the whole interval")

    return judge


def certified(share: float, column: str = "exceeded", *, exact: bool = False) -> Callable[[Rows], Verdict]:
    """Return the judge of certificates that may fail in a share of all runs: so many failures may be chance.

    If it is to be `exact`, the whole exact interval of the share must be below that.

    Examples
    --------
    >>> certified(0.05)([{"exceeded": 1, "runs": 40, "ratio": 3.0}]).measured
    'in 1 of 40 runs: 2.5% (0.063% to 13%); certificates are 3 to 3 times the regret'
    """

    def judge(rows: Rows) -> Verdict:
        from scipy.stats import binomtest

        failures, runs = (sum(row[name] for row in rows) for name in (column, "runs"))
        ends = binomtest(failures, runs).proportion_ci(LEVEL, "exact")
        parts = [f"{100 * one:.2g}%" for one in (failures / runs, ends.low, ends.high)]
        seen = f"in {failures:,} of {runs:,} runs: {parts[0]} ({parts[1]} to {parts[2]})"
        found = [row["ratio"] for row in rows if row.get("ratio") is not None]
        seen += f"; certificates are {short(min(found))} to {short(max(found))} times the regret" if found else ""
        said = f"in at most {100 * share:g}% of runs", seen
        likely = chance(failures, runs, share) >= RARE
        if exact and likely and ends.high >= share:
            return Verdict(*said, None, f"{runs:,} runs cannot show less than {parts[2]}")
        return Verdict(*said, likely, f"{failures} of {runs} runs lost more than certified")

    return judge


def chance(failures: int, runs: int, share: float) -> float:
    """Return how likely so many failures or more are, if each run fails with a probability of `share`.

    Examples
    --------
    >>> chance(0, 10, 0.05), round(chance(1, 10, 0.05), 3)
    (1.0, 0.401)
    """
    return float(bdtrc(failures - 1, runs, share)) if failures else 1.0
