"""The command `plan`: how many decisions it takes until something is known, as a table or as JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from armtriage.cli.terminal import AsJson, print_json, print_rows, progress_bar, refusing, say
from armtriage.plan import plan as make_plan
from armtriage.trials import trial_length


def plan(
    slots: Annotated[int, typer.Option(help="Arms in a decision, fewer than there are.")],
    rate: Annotated[float, typer.Option(help="Mean reward of an ordinary arm, such as a click rate of 0.02.")],
    arms: Annotated[int | None, typer.Option(help="Arms to choose from.")] = None,
    gap: Annotated[float | None, typer.Option(help="By how much the best ones are better.")] = None,
    lift: Annotated[float | None, typer.Option(help="For a trial: the relative lift to show, such as 0.1.")] = None,
    share: Annotated[float, typer.Option(help="For a trial: share of the decisions made by the control.")] = 0.05,
    horizon: Annotated[
        int | None, typer.Option(help="Decisions after which a run ends; by default until certificates speak.")
    ] = None,
    replications: Annotated[
        int | None, typer.Option(help="Independent runs of each strategy; by default 6, for a trial 15.")
    ] = None,
    confidence: Annotated[float, typer.Option(help="Confidence of certificates and intervals.")] = 0.99,
    seed: Annotated[int | None, typer.Option(help="Fixes rewards and policies; fresh by default.")] = None,
    workers: Annotated[int | None, typer.Option(help="Threads; by default one for each processor.")] = None,
    as_json: AsJson = False,
    out: Annotated[Path | None, typer.Option(help="Write a picture to this .png, .svg or .pdf file.")] = None,
) -> None:
    """Estimate how many decisions it takes until something is known.

    That is when the certificate begins to speak, and when the best arms are known for certain, with what is lost by
    then. It plays GuardedThompson, ThompsonSampling and equal shares, which is what an A/B/n test does, where the best
    arms are better than all others by the gap. An example:

    armtriage plan --arms 30 --slots 3 --rate 0.02 --gap 0.005 --out plan.png

    With a lift in place of arms and gap, it says instead when a trial with a control group shows that lift:

    armtriage plan --slots 6 --rate 0.05 --lift 0.1 --share 0.05 --confidence 0.95
    """
    with refusing():
        if not 0.0 < confidence < 1.0:
            raise ValueError(f"confidence must be a number strictly between 0 and 1, got {confidence!r}")
        # What is not given is left to the functions, whose defaults differ.
        size = {"horizon": horizon, "replications": replications}
        given = {name: value for name, value in size.items() if value is not None}
        if lift is not None:
            _plan_trial(rate, slots, lift, share, 1.0 - confidence, given, seed, as_json, (arms, gap, out))
            return
        if arms is None or gap is None:
            raise ValueError("arms and gap must be given, or a lift in their place")
        if out:
            from armtriage import plots

            plots.check_path(out)
        with progress_bar() as progress:
            found = make_plan(
                arms,
                slots,
                rate=rate,
                gap=gap,
                **given,
                delta=1.0 - confidence,
                seed=seed,
                workers=workers,
                progress=progress,
            )
        if out:
            plots.save(plots.plan_chart(found), out)
    if as_json:
        print_json(found.to_dict())
        return
    say(found.title)
    print_rows(found.columns, found.rows())
    if horizon is None and any(one.known.reached < found.replications for one in found.strategies):
        say(f"Runs end after {found.horizon:,} decisions; --horizon 1000000 looks further, and takes longer.")
    if out:
        say(f"Picture: {out}")


def _plan_trial(
    rate: float,
    slots: int,
    lift: float,
    share: float,
    alpha: float,
    size: dict[str, int],
    seed: int | None,
    as_json: bool,
    others: tuple[object, ...],
) -> None:
    """Say when a trial shows a lift."""
    if any(one is not None for one in others):
        raise ValueError("arms, gap and out must not be given with a lift, which is about a trial")
    with progress_bar() as progress:
        found = trial_length(
            rate, budget=slots, lift=lift, share=share, alpha=alpha, seed=seed, progress=progress, **size
        )
    if as_json:
        print_json(found.to_dict())
    else:
        say(str(found))
