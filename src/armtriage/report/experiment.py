"""The page of an experiment: tables, figures, configuration, versions and seeds in one file that needs no network."""

from __future__ import annotations

import html
from collections.abc import Callable, Iterator, Sequence

from armtriage.experiments.results import Results
from armtriage.plots._style import short
from armtriage.report._contests import Contest, common, contests, spread, winners
from armtriage.report._facts import failures, origins, seeds, times, toml_text
from armtriage.report._figures import contest_figures, maps, powers
from armtriage.report._html import document, drawing, folded, paragraphs, preformatted, table
from armtriage.report.sections import Figure

__all__ = ["experiment_page"]

_NONE = "\u2013"
_DRAWN, _OPEN, _LISTED = 12, 30, 200  # environments with figures, in the first table, and in tables at all
_LETTERS = 3_000_000  # of a page from which no more environments get figures
_PARAMETERS = 6  # figures of a kind


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
        self.drawn = 0

    def text(self) -> str:
        title = self.results.name
        sections = [(name, body) for name, body in self.sections() if body]
        links = "".join(f'<a href="#{_anchor(name)}">{html.escape(name)}</a>' for name, _ in sections)
        parts = [f"<h1>{html.escape(title)}</h1>", self.lead(), self.state(), f"<nav>{links}</nav>"]
        for name, body in sections:
            parts.append(f'<section id="{_anchor(name)}"><h2>{html.escape(name)}</h2>{body}</section>')
        about = self.results.manifest
        parts.append(f"<footer>{html.escape(f'armtriage {about.code}; seed {about.seed}')}</footer>")
        return document(title, "\n".join(parts))

    def sections(self) -> Iterator[tuple[str, str]]:
        results = self.results
        summary = results.summary(level=self.level)
        yield "Failed cells", failures(results) if results.failed else ""
        yield "Who loses least", self.overview() if len(self.contests) > 1 else ""
        yield "Growth", self.parameters([*powers(results, summary, self.level)], _fit(results))
        yield "Two parameters", self.parameters([*maps(results, summary)], None)
        yield "Environments" if len(self.contests) > 1 else "Regret", self.environments()
        yield "Configuration", self.configuration()
        yield "Versions and seeds", origins(results) + folded("Seeds", seeds(results)) + folded("Times", times(results))

    def lead(self) -> str:
        about = self.results.manifest
        rounds = sorted({one.horizon for one in about.environments})
        horizon = f"{rounds[0]:,} rounds" if len(rounds) == 1 else f"{rounds[0]:,} to {rounds[-1]:,} rounds"
        played = (
            _counted(len(about.policies), "policy", "policies")
            + " in "
            + _counted(len(about.environments), "environment"),
            _counted(about.replications, "replication") + f" of {horizon} each",
            f"seed {about.seed}",
        )
        text = (
            f"{', '.join(played)}. Regret is what a policy has lost against the best decision; all policies of a "
            f"replication meet the same rewards. Intervals have a level of {100 * self.level:.4g}%."
        )
        if self.baseline is None and len(about.policies) > 1:
            text += " Which policy is the best of an environment is judged by the same runs."
        if about.redraw:
            text += " Instances are drawn anew in each replication."
        return f'<p class="lead">{html.escape(text)}</p>'

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
        kind = " bad" if results.failed else " warn" if results.missing else ""
        return f'<p class="state{kind}">{html.escape(" ".join(said))}</p>'

    def overview(self) -> str:
        """Return who loses least how often, and the regret of all policies in all environments."""
        labels = [policy.label for policy in self.results.manifest.policies]
        counts = table(
            ["policy", "environments", "least regret", "not told from the least"], winners(self.contests, labels)
        )
        rows, marks = [], []
        for place, contest in enumerate(self.contests[:_LISTED]):
            cells = dict.fromkeys(labels, _NONE) | dict.fromkeys(contest.absent, "no runs")
            for policy, mean in contest.summary.select("policy", "mean").iter_rows():
                cells[policy] = short(mean) + (" ≈" if policy in contest.ties else "")
            rows.append([self.names[contest.environment], *cells.values()])
            marks.append((place, 1 + labels.index(contest.best)))
        said = [f"All environments are {self.shared}; the table says how they differ."] if self.shared else []
        said.append("The mean regret at the end; the least is marked, and ≈ is what the runs do not tell from it.")
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
            curves, *others = contest_figures(self.results, contest, self.level)
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
            parts.append(paragraphs(f"{_counted(without, 'environment')} without a finished run: not shown."))
        left = _left_out(len(self.contests) - _LISTED, "environments", "Results.summary has all")
        return "".join(parts) + paragraphs(*left)

    def contest(self, contest: Contest) -> str:
        """Return the sentence and the table of an environment."""
        against = {row["policy"]: row for row in contest.differences.to_dicts()}
        rows = []
        for row in contest.summary.sort("mean", maintain_order=True).to_dicts():
            pair = against.get(row["policy"])
            more = _NONE if pair is None else f"{short(pair['difference'])}\n{spread(pair['low'], pair['high'])}"
            rows.append(
                [row["policy"], f"{short(row['mean'])}\n{spread(row['low'], row['high'])}", more, str(row["runs"])]
            )
        rows += [[policy, "no runs", _NONE, "0"] for policy in contest.absent]
        head = ["policy", "mean regret", f"minus {contest.baseline}", "runs"]
        said = [contest.verdict]
        if self.baseline is not None and contest.baseline != self.baseline:
            said.append(f"{self.baseline} has no runs here, so that the best is the baseline.")
        return paragraphs(*said) + table(head, rows, [0])

    def figures(self, figures: Sequence[Figure]) -> str:
        parts = []
        for figure in figures:
            self.drawn += 1
            parts.append(drawing(figure.svg, figure.caption, f"f{self.drawn}"))
        return "".join(parts)

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
    return (
        f"{text} Each environment is an instance of its own, and its luck is not in that interval." if drawn else text
    )


def _pair(figures: str) -> str:
    return f'<div class="pair">{figures}</div>' if figures else ""


def _counted(number: int, one: str, many: str | None = None) -> str:
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def _left_out(number: int, what: str, where: str) -> list[str]:
    return [f"{number:,} more {what} are left out here; {where}."] if number > 0 else []


def _anchor(name: str) -> str:
    return name.lower().replace(" ", "-")
