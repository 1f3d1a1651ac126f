"""The page of an experiment: tables, figures, configuration, versions and seeds in one file that needs no network."""

from __future__ import annotations

import html
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any

from armtriage import plots
from armtriage._numbers import counted, short, spread
from armtriage.experiments import Results
from armtriage.experiments.manifest import toml_text
from armtriage.report.contests import Contest, common, contests, winners
from armtriage.report.html import (
    NONE,
    Figure,
    document,
    drawing,
    folded,
    paragraphs,
    preformatted,
    section,
    state,
    table,
)

if TYPE_CHECKING:
    import polars
    from matplotlib.axes import Axes

_DRAWN, _OPEN, _LISTED = 12, 30, 200  # environments with figures, in the first table, and in tables at all
_LETTERS = 3_000_000  # of a page from which no more environments get figures
_PARAMETERS = 6  # figures of a kind
_TRACEBACKS, _FAILED, _SEEDS = 10, 20, 100  # shown at most: tracebacks, cells of each, pairs with their seeds
_WIDE = 50.0  # ratio of values from which colours have a log scale


def experiment_page(
    results: Results, *, baseline: str | None = None, level: float = 0.95, folder: str = "FOLDER"
) -> str:
    """Return the HTML page of an experiment.

    Parameters
    ----------
    results : Results
        What is shown; cells may be missing.
    baseline : str, optional
        The policy that others are held against; by default the one with the least regret in each environment.
    level : float
        Level of all intervals.
    folder : str
        What the folder is called where the page says how to run the experiment again.

    Examples
    --------
    >>> from armtriage import Experiment
    >>> results = Experiment(["random:n_arms=5,budget=2"], ["greedy"], horizon=100, replications=4, seed=7).run()
    >>> "<h1>experiment</h1>" in experiment_page(results)
    True
    """
    labels = [policy.label for policy in results.manifest.policies]
    if baseline is not None and baseline not in labels:
        raise ValueError(f"baseline must be one of {', '.join(labels)}, got {baseline!r}")
    return _Page(results, baseline, level, folder).text()


class _Page:
    def __init__(self, results: Results, baseline: str | None, level: float, folder: str) -> None:
        self.results, self.baseline, self.level, self.folder = results, baseline, level, folder
        self.contests = contests(results, baseline, level)
        self.shared, self.names = common([contest.environment for contest in self.contests])
        self.numbers = count(1)

    def text(self) -> str:
        about = self.results.manifest
        sections = [(name, body) for name, body in self.sections() if body]
        links = "".join(f'<a href="#{_anchor(name)}">{html.escape(name)}</a>' for name, _ in sections)
        parts = [section(name, body, _anchor(name)) for name, body in sections]
        footer = f"armtriage {about.code}; seed {about.seed}"
        return document(self.results.name, self.lead(), [self.state(), f"<nav>{links}</nav>", *parts], footer)

    def sections(self) -> Iterator[tuple[str, str]]:
        results = self.results
        summary = results.summary(level=self.level)
        yield "Failed cells", _failures(results) if results.failed else ""
        yield "Who loses least", self.overview() if len(self.contests) > 1 else ""
        yield "Growth", self.parameters([*_powers(results, summary, self.level)], _fit(results))
        yield "Two parameters", self.parameters([*_maps(results, summary)], None)
        yield "Environments" if len(self.contests) > 1 else "Regret", self.environments()
        yield "Configuration", self.configuration()
        yield (
            "Versions and seeds",
            _origins(results) + folded("Seeds", _seeds(results)) + folded("Times", _times(results)),
        )

    def lead(self) -> str:
        about = self.results.manifest
        policies, places = len(about.policies), len(about.environments)
        rounds = counted([one.horizon for one in about.environments], "round")
        text = (
            f"{counted(policies, 'policy', 'policies')} in {counted(places, 'environment')}, "
            f"{counted(about.replications, 'replication')} of {rounds} each, seed {about.seed}. Regret is what a "
            "policy has lost against the best decision; all policies of a replication meet the same rewards. "
            f"Intervals have a level of {100 * self.level:.4g}%."
        )
        if self.baseline is None and len(about.policies) > 1:
            text += " Which policy is the best of an environment is judged by the same runs."
        if about.redraw:
            text += " Each replication draws its own instances."
        return text

    def state(self) -> str:
        results, total = self.results, len(self.results.manifest.cells)
        said = []
        if results.missing:
            said.append(f"{results.missing:,} of {total:,} cells are missing: running it again goes on from here.")
        if results.failed:
            said.append(f"{results.failed:,} of {total:,} cells failed.")
        if not said:
            said.append(f"Complete: all {total:,} cells are there.")
        if results.stale:
            said.append(f"The folder has {results.stale:,} cells of other settings or code, which are not shown here.")
        return state(" ".join(said), "bad" if results.failed else "warn" if results.missing else "")

    def overview(self) -> str:
        """Return who loses least how often, and the regret of all policies in all environments."""
        labels = [policy.label for policy in self.results.manifest.policies]
        counts = table(
            ["policy", "environments", "least regret", "tied with the least"], winners(self.contests, labels)
        )
        rows, marks = [], []
        for place, contest in enumerate(self.contests[:_LISTED]):
            cells = dict.fromkeys(labels, NONE) | dict.fromkeys(contest.absent, "no runs")
            for policy, mean in contest.summary.select("policy", "mean").iter_rows():
                cells[policy] = short(mean) + (" ≈" if policy in contest.ties else "")
            rows.append([self.names[contest.environment], *cells.values()])
            marks.append((place, 1 + labels.index(contest.best)))
        said = [f"All environments are {self.shared}; the table says how they differ."] if self.shared else []
        said.append("The mean regret at the end; the least is marked, and ≈ stands beside those that are tied with it.")
        said += _left_out(len(self.contests) - _LISTED, "environments", "Results.summary has all")
        head = ["environment", *labels]
        text = counts + paragraphs(*said) + table(head, rows[:_OPEN], marks=marks)
        if rows[_OPEN:]:
            more = [(place - _OPEN, column) for place, column in marks]
            text += folded(f"{len(rows) - _OPEN} more environments", table(head, rows[_OPEN:], marks=more))
        return text

    def environments(self) -> str:
        """Return a part for each environment: the first ones with figures, the others folded."""
        if not self.contests:
            return paragraphs("No cell is finished yet.")
        parts: list[str] = []
        for contest in self.contests[:_DRAWN]:
            if sum(map(len, parts)) > _LETTERS:
                break
            curves, *others = _contest_figures(self.results, contest, self.level)
            body = self.contest(contest) + self.figures([curves]) + _pair(self.figures(others))
            title = f"<h3>{html.escape(self.names[contest.environment])}</h3>"
            parts.append(f'<div class="part">{title}{body}</div>' if len(self.contests) > 1 else body)
        drawn = len(parts)
        rest = self.contests[drawn:_LISTED]
        if rest:
            said = f"Figures are drawn for the first {drawn} environments; these are the tables of the others."
            parts.append(paragraphs(f"{said} armtriage.plots.regret_curves(results.traces(NAME)) draws any of them."))
            parts += [folded(self.names[contest.environment], self.contest(contest)) for contest in rest]
        without = len(self.results.manifest.environments) - len(self.contests)
        if without:
            parts.append(paragraphs(f"{counted(without, 'environment')} without a finished run: not shown."))
        left = _left_out(len(self.contests) - _LISTED, "environments", "Results.summary has all")
        return "".join(parts) + paragraphs(*left)

    def contest(self, contest: Contest) -> str:
        """Return the sentence and the table of an environment."""
        against = {row["policy"]: row for row in contest.differences.to_dicts()}
        rows = []
        for row in contest.summary.sort("mean", maintain_order=True).to_dicts():
            pair = against.get(row["policy"])
            more = NONE if pair is None else f"{short(pair['difference'])}\n{spread(pair['low'], pair['high'])}"
            rows.append(
                [row["policy"], f"{short(row['mean'])}\n{spread(row['low'], row['high'])}", more, str(row["runs"])]
            )
        rows += [[policy, "no runs", NONE, "0"] for policy in contest.absent]
        head = ["policy", "mean regret", f"minus {contest.baseline}", "runs"]
        said = [contest.verdict]
        if self.baseline is not None and contest.baseline != self.baseline:
            said.append(f"{self.baseline} has no runs here, so the best policy is the baseline.")
        return paragraphs(*said) + table(head, rows, [0])

    def figures(self, figures: Sequence[Figure]) -> str:
        return "".join(drawing(figure, next(self.numbers)) for figure in figures)

    def parameters(self, plans: Sequence[Callable[[], Figure]], said: str | None) -> str:
        """Return the first figures of a kind, and how many are left out."""
        texts = [said] if said and plans else []
        texts += _left_out(len(plans) - _PARAMETERS, "figures", "armtriage.plots draws them from Results")
        return paragraphs(*texts) + _pair(self.figures([plan() for plan in plans[:_PARAMETERS]]))

    def configuration(self) -> str:
        """Return the file of the experiment, and how to run it."""
        about = self.results.manifest
        text = toml_text({**about.definition, "seed": about.seed})
        said = "With this as experiment.toml, and the same version of armtriage, the same numbers come out of:"
        if '"__main__:' in text:
            said = "It names parts of a script, __main__, which must be moved to a module for this to find them:"
        return (
            paragraphs(said)
            + preformatted(f"armtriage run experiment.toml --folder {self.folder}")
            + preformatted(text)
        )


def _fit(results: Results) -> str:
    """Return what the slopes are, and what their intervals leave out."""
    text = "Lines are fitted to the logarithms of the means by least squares; the slope's interval is that of the runs."
    drawn = not results.manifest.redraw and any("seed" not in one.options for one in results.manifest.environments)
    apart = " Each environment is an instance of its own, and how it was drawn is not in that interval."
    return text + apart if drawn else text


def _pair(figures: str) -> str:
    return f'<div class="pair">{figures}</div>' if figures else ""


def _left_out(number: int, what: str, where: str) -> list[str]:
    return [f"{number:,} more {what} are left out here; {where}."] if number > 0 else []


def _anchor(name: str) -> str:
    return name.lower().replace(" ", "-")


def _contest_figures(results: Results, contest: Contest, level: float) -> list[Figure]:
    """Return the curves of an environment, its bars, and its paired differences where there is something to pair."""
    order = [policy.label for policy in results.manifest.policies]
    percent = f"{100 * level:.4g}%"
    curves = plots.regret_curves(results.traces(contest.environment), level=level, order=order)
    bars = plots.final_regret(contest.summary, level=level, order=order)
    made = [
        _figure(results, curves, f"{percent} bands", contest.summary, "Mean cumulative regret over the rounds."),
        _figure(results, bars, f"{percent} intervals", contest.summary, "Mean regret at the end, least first."),
    ]
    if contest.differences.height:
        ax = plots.paired_differences(contest.differences, contest.baseline, level=level, order=order)
        caption = (
            f"Regret at the end minus that of {contest.baseline}, replication by replication; left of 0 is better."
        )
        made.append(_figure(results, ax, f"{percent} intervals, paired", contest.differences, caption))
    return made


def parameters(summary: polars.DataFrame, least: int) -> list[str]:
    """Return the parameters of the environments that are numbers and have so many values or more, most first."""
    numbers = [
        name
        for name in summary.columns
        if (name == "horizon" or name.startswith("environment.")) and summary[name].dtype.is_numeric()
    ]
    values = {name: summary[name].drop_nulls().n_unique() for name in numbers if name != "environment.seed"}
    return sorted((name for name in values if values[name] >= least), key=lambda name: -values[name])


def _powers(results: Results, summary: polars.DataFrame, level: float) -> Iterator[Callable[[], Figure]]:
    """Return what draws the regret against each parameter with three values or more, with the fitted power."""
    for name in parameters(summary, 3):
        by = _others(summary, name)
        slopes = results.slopes(name, by=by, level=level)
        for values, part in _groups(results.scaling(name, by=by, level=level).drop_nulls("mean"), by):
            shown = part.filter(part[name] > 0)
            if shown.filter(shown["mean"] > 0)[name].n_unique() > 2:
                same = [all(row[key] == one for key, one in values.items()) for row in slopes.to_dicts()]
                yield partial(_power, results, shown, slopes.filter(same), name, values, level)


def _power(
    results: Results, part: polars.DataFrame, fits: polars.DataFrame, name: str, values: dict[str, Any], level: float
) -> Figure:
    ax = plots.scaling(part, fits, parameter=name, level=level, order=[one.label for one in results.manifest.policies])
    caption = f"Regret at the end against {_spoken(name)}{_where(values)}, on log scales; the slope is the power."
    return _figure(results, ax, f"{100 * level:.4g}% intervals", part, caption)


def _maps(results: Results, summary: polars.DataFrame) -> Iterator[Callable[[], Figure]]:
    """Return what draws the regret of each policy over the two parameters with the most values."""
    names = parameters(summary, 2)
    if len(names) < 2:
        return
    x, y = names[:2]
    for values, part in _groups(summary.drop_nulls(["mean", x, y]), _others(summary, x, y)):
        for own in part.partition_by("policy", maintain_order=True):
            if own.height > max(own[x].n_unique(), own[y].n_unique()):
                yield partial(_map, results, own, x, y, values)


def _map(results: Results, part: polars.DataFrame, x: str, y: str, values: dict[str, Any]) -> Figure:
    least, *_, most = sorted(part["mean"].to_list())
    ax = plots.heat_map(part, x, y, log=most > _WIDE * least > 0)
    caption = f"Mean regret of {part['policy'][0]} at the end{_where(values)}; every map has colours of its own."
    return _figure(results, ax, "means", part, caption)


def _figure(results: Results, ax: Axes, shown: str, part: polars.DataFrame, caption: str) -> Figure:
    about, runs = results.manifest, part["runs"].to_list()
    shown = shown if max(runs) > 1 else "no intervals"
    plots.sign(ax, f"{shown}; {counted(runs)}, seed {about.seed}", about.code)
    return Figure(plots.svg_text(ax), caption)


def _others(summary: polars.DataFrame, *names: str) -> list[str]:
    """Return the columns that tell apart environments besides the named parameters.

    Words always do; numbers only where the named parameters do not settle them.
    """
    table = summary.drop_nulls(names)
    parts = table.partition_by("policy", *names)
    found = []
    for name in table.columns:
        if name not in names and (name == "horizon" or name.startswith("environment.")):
            among = parts if table[name].dtype.is_numeric() else [table]
            found += [name] if any(part[name].n_unique() > 1 for part in among) else []
    return found


def _groups(table: polars.DataFrame, by: Sequence[str]) -> Iterator[tuple[dict[str, Any], polars.DataFrame]]:
    if not by:
        yield {}, table
        return
    for key, part in table.partition_by(by, maintain_order=True, as_dict=True).items():
        yield dict(zip(by, key, strict=True)), part


def _spoken(name: str) -> str:
    return name.removeprefix("environment.")


def _where(values: dict[str, Any]) -> str:
    said = ", ".join(f"{_spoken(name)} {value}" for name, value in values.items() if value is not None)
    return f", with {said}" if said else ""


def _failures(results: Results) -> str:
    """Return the failed cells, and their tracebacks, each once."""
    import polars

    failed = results.runs.filter(polars.col("error").is_not_null())
    cells = failed.group_by("cell", maintain_order=True).agg(
        polars.col("environment", "policy", "error").first(), polars.col("replication").count()
    )
    parts = [paragraphs("Their tracebacks are kept, and running the experiment again tries them again.")]
    alike = cells.partition_by("error", maintain_order=True)
    for part in alike[:_TRACEBACKS]:
        last = part["error"][0].strip().splitlines()[-1]
        where = [[row["environment"], row["policy"], str(row["replication"])] for row in part.head(_FAILED).to_dicts()]
        inside = table(["environment", "policy", "runs"], where, words=True)
        if part.height > _FAILED:
            inside += paragraphs(f"And {part.height - _FAILED} more.")
        inside += preformatted(part["error"][0].strip())
        parts.append(folded(f"{counted(part.height, 'cell')}: {last}", inside))
    if len(alike) > _TRACEBACKS:
        parts.append(
            paragraphs(f"{len(alike) - _TRACEBACKS} other tracebacks are left out here; Results.runs has all.")
        )
    return "".join(parts)


def _times(results: Results) -> str:
    """Return how long the policies took."""
    import polars

    played = results.runs.filter(polars.col("error").is_null() & polars.col("seconds").is_not_null())
    rows = [
        [row["policy"], str(row["runs"]), short(row["seconds"]), short(row["rounds"])]
        for row in played.group_by("policy", maintain_order=True)
        .agg(
            polars.len().alias("runs"),
            polars.col("seconds").mean(),
            polars.col("rounds_per_second").median().alias("rounds"),
        )
        .iter_rows(named=True)
    ]
    return table(["policy", "runs", "seconds per run", "rounds per second"], rows) if rows else ""


def _origins(results: Results) -> str:
    """Return which versions, machines and seed the numbers come from."""
    runs, about = results.runs, results.manifest
    rows = [["seed", str(about.seed)], ["code", about.code]]
    for name in ("python", "numpy", "numba", "scipy", "polars", "engine", "host"):
        found = runs[name].drop_nulls().unique(maintain_order=True).to_list()
        if found:
            rows.append([name, ", ".join(map(str, found[:5])) + (f" and {len(found) - 5} more" if found[5:] else "")])
    started = runs["started"].drop_nulls().sort().to_list()
    if started:
        first, last = (f"{when:%Y-%m-%d %H:%M} UTC" for when in (started[0], started[-1]))
        rows.append(["played", first if first == last else f"{first} to {last}"])
        rows.append(["time of all runs", f"{short(float(runs['seconds'].sum()))} s"])
    return table(["what", "which"], rows, words=True)


def _seeds(results: Results) -> str:
    """Return the seeds of environments and policies, which follow from the root seed and what they are called."""
    columns = ("environment", "policy", "environment_seed", "policy_seed")
    shown = results.runs.select(columns).unique(["environment", "policy"], maintain_order=True, keep="first")
    rows = [[str(cell) for cell in row] for row in shown.head(_SEEDS).iter_rows()]
    said = "Every seed follows from the root seed and the names of what it is for."
    if results.manifest.redraw:
        said += " Each replication draws its own instances; the seed of the first is shown."
    if shown.height > _SEEDS:
        said += f" {shown.height - _SEEDS} more pairs are left out here; Results.runs has all."
    return paragraphs(said) + table(
        ["environment", "policy", "seed of the rewards", "seed of the policy"], rows, words=True
    )
