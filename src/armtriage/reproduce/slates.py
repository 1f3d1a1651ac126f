"""GuardedLinear against five others on slates as they are met, and its certificates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import polars

from armtriage.reproduce.families import ranked
from armtriage.reproduce.figures import heat
from armtriage.reproduce.judges import RARE, chance, told
from armtriage.reproduce.lines import against_best
from armtriage.reproduce.study import LEVEL, Chart, Claim, Played, Rows, Scale, Study, Tables, Verdict, of, plan

GUARDED = "GuardedLinear"
_DELTA = 0.01
_SIGNED = {
    "cube": (60, 30, 10),
    "anisotropic": (60, 30, 2),
    "user_item": (80, 25, 5),
    "fixed": (150, 15, 3),
    "few": (20, 30, 3),
    "jittered": (40, 8, 5),
    "drifting": (40, 8, 5),
}
_CLICKS = {"one_hot": (60, 60, 10), "clicks": (100, 20, 5), "fresh_clicks": (200, 30, 10), "sparse": (60, 60, 5)}
"""Arms, dimensions and slots of each family, with rewards of -1 and 1, and with clicks."""


def _policies(noise: float) -> dict[str, dict[str, Any]]:
    """Return the six; constant widths are multiples of the scale of the noise."""
    return {
        GUARDED: {"policy": "guarded_linear"},
        "greedy": {"policy": "c2ucb", "width": 0.0},
        "C2UCB": {"policy": "c2ucb"},
        "C2UCB, half": {"policy": "c2ucb", "width": 0.5 * noise},
        "Thompson": {"policy": "linear_thompson"},
        "Thompson, half": {"policy": "linear_thompson", "scale": 0.5 * noise},
    }


def _places(sizes: Mapping[str, tuple[int, int, int]], chosen: tuple[str, ...]) -> dict[str, dict[str, Any]]:
    places = {}
    for family in chosen:
        about = dict(zip(("n_arms", "dimension", "budget"), sizes[family], strict=True))
        places[family.replace("_", " ")] = {"instance": "slates", "family": family, **about}
    return places


def _against_all(rows: Rows) -> Verdict:
    """Return how GuardedLinear does against the best of five others."""
    mean = float(np.exp(np.mean([np.log(row["ratio"]) for row in rows])))
    behind, ahead = ([row["family"] for row in rows if told(row) is more] for more in (True, False))
    least, most = (f"{row['ratio']:.2f} ({row['family']})" for row in (rows[0], rows[-1]))
    verdict = f"Clearly less than the best of the others in {len(ahead)} of {len(rows)} families, clearly more in "
    verdict += f"{len(behind)} ({', '.join(behind)})" if behind else "0"
    seen = f"{mean:.2f} in geometric mean, from {least} to {most}"
    return Verdict("nothing: its guarantee is for the worst case", seen, None, opening=verdict)


def _certified(rows: Rows) -> Verdict:
    runs, over = (sum(row[name] for row in rows) for name in ("runs", "exceeded"))
    low, *_, high = sorted(row["ratio"] for row in rows)
    seen = f"{over} of {runs} runs did; certificates are {low:.0f} to {high:.0f} times the regret"
    likely = chance(over, runs, _DELTA)
    because = f"if each may with probability {_DELTA:g}, so many or more do with probability {likely:.2g}"
    return Verdict(f"a share of {_DELTA:g} may", seen, likely >= RARE, because)


class Slates(Study):
    """Contexts, with and without clicks."""

    name, title = "slates", "Slates with contexts: GuardedLinear"
    sizes: ClassVar = {
        "tiny": Scale(horizon=100, runs=2, signed=("fixed", "jittered"), clicks=("clicks",)),
        "quick": Scale(horizon=3000, runs=8, signed=tuple(_SIGNED), clicks=tuple(_CLICKS)),
        "full": Scale(horizon=10_000, runs=16, signed=tuple(_SIGNED), clicks=tuple(_CLICKS)),
    }
    claims = (
        Claim("regrets", f"{GUARDED}: regret, as a multiple of the best of five others, chosen in hindsight",
              "no theorem", _against_all, where=of(GUARDED), order="ratio"),
        Claim("certificates", f"{GUARDED}: no run loses more than its certificate says, at any time",
              "Lemma of the ellipsoid", _certified),
    )  # fmt: skip

    def plans(self) -> dict[str, dict[str, Any]]:
        horizon, runs, rest = self.scale.horizon, self.scale.runs, {"redraw": True, "block": 2}
        signed, clicks = _places(_SIGNED, self.scale.signed), _places(_CLICKS, self.scale.clicks)
        # Where arms share their noise, certificates hold for a scale that is larger by the root of S.
        covered = {name: place for name, place in (signed | clicks).items() if name != "drifting"}
        ours = {GUARDED: {"policy": "guarded_linear", "delta": _DELTA}}
        return {
            "signed": plan(signed, _policies(1.0), horizon, runs, **rest),
            "clicks": plan(clicks, _policies(0.5), horizon, runs, **rest),
            "certified": plan(covered, ours, horizon, runs, checkpoints=8, certificate=_DELTA, **rest),
        }

    def tables(self, results: Played) -> Tables:
        certificates = results["certified"].certificates(level=LEVEL).rename({"environment": "family"})
        return {
            "regrets": polars.concat([against_best(results[name], GUARDED) for name in ("signed", "clicks")]),
            "certificates": certificates.select("family", "runs", "certificate", "ratio", "exceeded"),
        }

    def charts(self, results: Played, tables: Tables) -> list[Chart]:
        table, title = tables["regrets"], "times the best of five"
        caption = f"Regret as a multiple of the least among the five policies beside {GUARDED}, by family."
        return [heat("slates", caption, table, "family", "policy", title, 7.0, ranked(table))]

    def paragraphs(self, tables: Tables) -> list[str]:
        mine = tables["regrets"].filter(of(GUARDED)).sort("ratio")
        lines = [f"{row['family']} {row['ratio']:.2f} times {row['best']}" for row in mine.iter_rows(named=True)]
        return [
            "Contexts that are uneven, sparse, repeated or slowly moving, and clicks with rates of 2 to 50 percent; "
            f"theta and contexts are drawn again for each of {self.scale.runs} runs of {self.scale.horizon:,} rounds. "
            "The others are greedy choice, C2UCB and linear Thompson sampling, and the latter two with half their "
            "width, which has no guarantee. Which of them is best differs from family to family, and is known in "
            "hindsight only.",
            f"The regret of {GUARDED}, by family: {', '.join(lines)}.",
        ]
