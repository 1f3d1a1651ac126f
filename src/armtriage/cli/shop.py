"""A week in a shop: what a page earns as it was, and with policies that learn which items to show."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from armtriage._numbers import short
from armtriage.environments import StochasticEnvironment
from armtriage.kernels.record import Floats, Ints
from armtriage.policies import GuardedThompson, ThompsonSampling
from armtriage.report.html import Figure, document, drawing, paragraphs, preformatted, section
from armtriage.report.html import table as html_table
from armtriage.simulation import Trace, simulate

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SEED = 7
DAYS, SLOTS, WORTH = 7, 4, 0.3  # worth of a click, in euros
ITEMS = (
    *("tea", "coffee", "cocoa", "milk", "oat milk", "juice", "water", "wine", "beer", "cider"),
    *("bread", "rolls", "butter", "jam", "honey", "cheese", "eggs", "yoghurt", "muesli", "rice"),
    *("pasta", "lentils", "beans", "tomatoes", "apples", "pears", "nuts", "olives", "soap", "candles"),
)
GUARDED, THOMPSON, GREEDY, OLD, BEST = (
    "Guarded Thompson",
    "Thompson",
    "epsilon-greedy",
    "the page as it was",
    "the best page",
)
_EXPLORE = 0.1  # of the decisions of epsilon-greedy are random
_LOOKS = 10  # a day, for the curves
_CERTIFIED = (0, (3, 1.5))
_CODE = """\
from armtriage import GuardedThompson

policy = GuardedThompson(
    30, budget=4, names=[...]
)
decision = policy.ask()
# show decision.names, then
# tell what was clicked:
clicks = {"tea": 1, "jam": 0, ...}
policy.tell(decision, clicks)
print(policy.certificate())"""

Show = Callable[[Sequence[str], Sequence[Sequence[str]], Sequence[str]], None]


class Week(NamedTuple):
    """What happened in a number of weeks that differ by chance alone, looked at some times a day; in clicks."""

    visits: Ints  # (looks,)
    lost: dict[str, Floats]  # (weeks, looks) against the best page, for each way to choose
    certified: Floats  # (weeks, looks) what the guarded policy says that it lost at most
    best: float  # clicks that the best page gets from a visitor
    decided: tuple[tuple[str, float, bool], ...]  # in the first week: item, day, and whether it is among the best

    def earned(self, label: str) -> float:
        """Return what a way to choose earned in a week on average, in euros."""
        lost = 0.0 if label == BEST else float(self.lost[label][:, -1].mean())
        return WORTH * (self.best * int(self.visits[-1]) - lost)


def play_week(
    out: str | os.PathLike[str] = "armtriage-demo",
    *,
    quick: bool = False,
    show: Show | None = None,
    progress: Callable[[str, float], None] | None = None,
) -> Path:
    """Play the week and write its figure and one page; return the page.

    Parameters
    ----------
    out : path
        Folder for the files, made if it is missing.
    quick : bool
        Fewer visitors, which shows how it works, not what it is worth.
    show : callable, optional
        Called with the columns and rows of the table, and with what it means in sentences.
    progress : callable, optional
        Called with what is played and the share of it that is done.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     play_week(folder, quick=True).name
    'index.html'
    """
    from armtriage import __version__, plots

    plots.require()
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    a_day, weeks = (500, 2) if quick else (20_000, 8)
    means = click_rates()
    week = _play(means, a_day, weeks, progress)
    columns, rows, text = ("", "earned in the week", "of the best page", "clicks lost"), _rows(week), story(week, means)
    if show is not None:
        show(columns, rows, text)
    about = f"{a_day:,} visitors a day; means of {weeks} weeks, seed {SEED}"
    both = _draw(week, about, (0, 1))
    (folder / "week.svg").write_text(plots.svg_text(both), encoding="utf-8")
    plots.save(both, folder / "week.png")
    captions = (
        "What each way to choose earns.",
        "What the guarded policy really lost compared with the best page, and its certificate, which is computed only "
        "from what it showed and what was clicked.",
    )
    drawn = (drawing(Figure(plots.svg_text(_draw(week, about, (i,))), one), i + 1) for i, one in enumerate(captions))
    parts = [
        section("What was earned", html_table(columns, rows) + paragraphs(*text) + "".join(drawn)),
        section("The same for your page", preformatted(_CODE)),
    ]
    small = " This is the quick form, too small to say what anything is worth." if quick else ""
    lead = (
        f"A shop shows {SLOTS} of {len(ITEMS)} items to every visitor. How often each one is clicked on is not "
        f"known: between {means.min():.1%} and {means.max():.1%} of the times that it is shown. A click is worth "
        f"{WORTH:.2f} euros.{small}"
    )
    footer = (
        f"armtriage {__version__}; seed {SEED}. Simulated visitors; the contests of the paper: armtriage demo --paper"
    )
    target = folder / "index.html"
    target.write_text(document("A week in a shop", lead, parts, footer), encoding="utf-8")
    return target


def click_rates() -> Floats:
    """Return how often each item is clicked when it is shown: a Beta law with a mean of 2%."""
    return np.random.default_rng(SEED).beta(4.0, 196.0, len(ITEMS))


def _old_page(means: Floats) -> Ints:
    """Return the items that the shop has always shown: the four whose rates are nearest to the average."""
    return np.argsort(np.abs(means - means.mean()))[:SLOTS]


def _play(means: Floats, a_day: int, weeks: int, progress: Callable[[str, float], None] | None) -> Week:
    looks = np.arange(1, DAYS * _LOOKS + 1) * (a_day // _LOOKS)
    world = StochasticEnvironment(means, len(ITEMS), seed=SEED)
    best = float(np.sort(means)[-SLOTS:].sum())
    traces: dict[str, Trace] = {}
    for label, kind in ((GUARDED, GuardedThompson), (THOMPSON, ThompsonSampling)):
        traces[label] = simulate(
            kind(len(ITEMS), SLOTS, seed=SEED),
            world,
            horizon=int(looks[-1]),
            replications=weeks,
            checkpoints=looks.tolist(),
            certificate=0.01 if label == GUARDED else False,
            progress=False if progress is None else partial(progress, label),
        )
    lost = {label: trace.regret for label, trace in traces.items()}
    lost[GREEDY] = _epsilon_greedy(means, best, looks, weeks, progress)
    lost[OLD] = np.tile(looks * (best - float(means[_old_page(means)].sum())), (weeks, 1))
    certified, logs = traces[GUARDED].certificate, traces[GUARDED].triage
    assert certified is not None
    assert logs is not None
    first = logs[0]
    decided = tuple(
        (ITEMS[arm], number / a_day, bool(good))
        for arm, number, good in zip(first.arms.tolist(), first.rounds.tolist(), first.confirmed.tolist(), strict=True)
    )
    return Week(looks, lost, certified, best, decided)


def _epsilon_greedy(
    means: Floats, best: float, looks: Ints, weeks: int, progress: Callable[[str, float], None] | None
) -> Floats:
    """Return what is lost by showing the items of most clicks so far, and random ones to a tenth of the visitors."""
    luck, rows = np.random.default_rng(SEED), np.arange(weeks)[:, None]
    shown, clicks, lost = np.zeros((weeks, means.size)), np.zeros((weeks, means.size)), np.zeros(weeks)
    found, place = np.zeros((weeks, looks.size)), 0
    for visit in range(1, int(looks[-1]) + 1):
        chance = luck.random((weeks, means.size))
        explored = luck.random(weeks)[:, None] < _EXPLORE
        values = np.where(explored | (shown == 0.0), 1.0 + chance, clicks / np.maximum(shown, 1.0) + 1e-9 * chance)
        chosen = np.argpartition(-values, SLOTS - 1, axis=1)[:, :SLOTS]
        shown[rows, chosen] += 1.0
        clicks[rows, chosen] += luck.random((weeks, SLOTS)) < means[chosen]
        lost += best - means[chosen].sum(axis=1)
        if visit == looks[place]:
            found[:, place] = lost
            place += 1
            if progress is not None:
                progress(GREEDY, place / looks.size)
    return found


def _rows(week: Week) -> list[list[str]]:
    """Return the table: a row for each way to choose, the best page last."""
    whole = week.earned(BEST)
    rows = []
    for label in (GUARDED, THOMPSON, GREEDY, OLD, BEST):
        lost = 0.0 if label == BEST else float(week.lost[label][:, -1].mean())
        rows.append([label, f"€{week.earned(label):,.0f}", f"{week.earned(label) / whole:.0%}", short(lost)])
    return rows


def story(week: Week, means: Floats) -> list[str]:
    """Say what the week has shown, from its numbers."""
    visits, lost, weeks = int(week.visits[-1]), week.lost[GUARDED], len(week.certified)
    old, guarded, best = (week.earned(label) for label in (OLD, GUARDED, BEST))
    shown = ", ".join(ITEMS[arm] for arm in np.sort(_old_page(means)).tolist())
    text = [
        f"In a week of {visits:,} visitors the page as it was ({shown}) earns €{old:,.0f}. {GUARDED} earns "
        f"€{guarded:,.0f}, {guarded / best:.0%} of what the best page would have earned, which it had to find first."
    ]
    first, last = _LOOKS - 1, len(week.visits) - 1
    said = [f"{short(float(week.certified[:, i].mean()))} after day {1 if i == first else DAYS}" for i in (first, last)]
    true = [short(float(lost[:, i].mean())) for i in (first, last)]
    wrong = int((week.certified < lost).any(axis=1).sum())
    text.append(
        f"Without knowing the rates, it certifies with 99% confidence that it lost at most {said[0]} and {said[1]}, in "
        f"clicks; the truth is {true[0]} and {true[1]}. In {wrong or 'none'} of the {weeks} simulated weeks "
        f"{'was the certificate ever' if not wrong else 'the certificate was at some time'} below the truth."
    )
    if week.decided:
        known = [
            f"{item} {'is' if good else 'is not'} among the best {SLOTS} (since day {int(day) + 1})"
            for item, day, good in week.decided[:4]
        ]
        more = f", and {len(week.decided) - 4} more" if len(week.decided) > 4 else ""
        text.append(f"Certain by the end of the first of them: {'; '.join(known)}{more}.")
    else:
        text.append("At the end of the first of them it was not certain of any item whether it is among the best.")
    ahead = min((THOMPSON, GREEDY), key=lambda label: float(week.lost[label][:, -1].mean()))
    if week.earned(ahead) > guarded:
        text.append(f"{ahead} earned more, €{week.earned(ahead):,.0f}: chance, or the price of the guarantee.")
    return text


def _draw(week: Week, about: str, shown: tuple[int, ...]) -> Axes:
    """Draw what was earned (0), or what was lost and certified (1), or one beside the other."""
    from matplotlib.figure import Figure as Canvas

    from armtriage import plots
    from armtriage.plots.labels import End, label_ends
    from armtriage.plots.style import dress, looks, number_ticks, sign

    panels = Canvas(figsize=(4.8 * len(shown), 3.3), layout="constrained").subplots(1, len(shown), squeeze=False)[0]
    left, right = (panels[shown.index(i)] if i in shown else None for i in (0, 1))
    days = week.visits / int(week.visits[-1]) * DAYS
    look = looks((GUARDED, THOMPSON, GREEDY))
    ends: dict[Any, list[End]] = {ax: [] for ax in panels}

    def line(ax: Axes | None, values: Floats, label: str, colour: str, dash: Any = "solid") -> None:
        if ax is not None:
            ax.plot(days, values, color=colour, linestyle=dash, linewidth=1.6, label=label)
            ends[ax].append(End(float(values[-1]), label, colour))

    def a_day(lost: Floats) -> Floats:
        """Return euros a day, between one look and the next."""
        return WORTH * _LOOKS * np.diff(week.best * week.visits - lost, prepend=0.0)

    line(left, a_day(np.zeros(days.size)), BEST, plots.INK, _CERTIFIED)
    line(left, a_day(week.lost[OLD].mean(axis=0)), OLD, plots.INK)
    for label in (GREEDY, THOMPSON, GUARDED):
        line(left, a_day(week.lost[label].mean(axis=0)), label, look[label].colour)
    line(right, week.certified.mean(axis=0), "certificate: at most", look[GUARDED].colour, _CERTIFIED)
    line(right, week.lost[GUARDED].mean(axis=0), "the truth", look[GUARDED].colour)
    for ax, i in zip(panels, shown, strict=True):
        name = ("euros earned a day", f"clicks that {GUARDED} lost")[i]
        ax.set_xlim(0, DAYS)
        ax.set_ylim(bottom=0.0)
        dress(ax, "day", name, grid="both")
        number_ticks(ax.yaxis)
        label_ends(ax, ends[ax], grow=False)
    sign(panels[0], about)
    return panels[0]  # type: ignore[no-any-return]
