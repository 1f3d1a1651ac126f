"""The commands `evaluate` and `certify`: what a log says, in sentences or as JSON."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from armtriage.cli.serve import require_service
from armtriage.cli.terminal import AsJson, plain_warnings, print_json, refusing, say
from armtriage.policies import Policy

if TYPE_CHECKING:
    from armtriage.logs import SlateLog

_Log = Annotated[
    str,
    typer.Argument(
        help="A log's folder, a .parquet file, a .csv with a row for each arm, or the store of a service: its file, or "
        "postgresql://..."
    ),
]
_Of = Annotated[str | None, typer.Option("--policy", help="Which policy of a store; not needed if there is only one.")]
_Low = Annotated[float, typer.Option(help="Smallest possible reward, for files of other programs.")]
_High = Annotated[float, typer.Option(help="Largest possible reward, for files of other programs.")]
_Arms = Annotated[
    int | None, typer.Option(help="Number of arms, for files of other programs; by default those that occur.")
]
_Costs = Annotated[bool, typer.Option("--costs", help="Take rewards to be costs, for files of other programs.")]
_Confidence = Annotated[float, typer.Option(help="Confidence of the bound or interval.")]


def evaluate(
    log: _Log,
    target: Annotated[
        list[str],
        typer.Option(
            help="Arms, such as 3,8,11 or tea,jam, or the file of a saved policy; a=3,8 calls it a. May be repeated."
        ),
    ],
    policy: _Of = None,
    estimator: Annotated[str, typer.Option(help="dr, ips, snips, total or bracket.")] = "dr",
    confidence: _Confidence = 0.95,
    once: Annotated[bool, typer.Option("--once", help="Make intervals valid for a single look only.")] = False,
    restrict: Annotated[bool, typer.Option("--restrict", help="Leave arms out where they were not eligible.")] = False,
    low: _Low = 0.0,
    high: _High = 1.0,
    arms: _Arms = None,
    costs: _Costs = False,
    as_json: AsJson = False,
    out: Annotated[Path | None, typer.Option(help="Write a picture to this .png, .svg or .pdf file.")] = None,
) -> None:
    """Say what other decisions would have earned in a log.

    Several targets are compared: which is certainly best, which may be, which are certainly beaten. An example:

    armtriage evaluate clicks.csv --target 3,8,11 --target new=3,8,12

    armtriage evaluate decisions.db --policy front-page --target night-train,lost-dog
    """
    from armtriage.logs import compare
    from armtriage.logs import evaluate as estimate

    with refusing(), plain_warnings():
        if out:
            from armtriage import plots

            plots.check_path(out)
        read = _read(log, policy, low, high, arms, costs)
        targets = dict(_target(one, read) for one in target)
        if len(targets) != len(target):
            raise ValueError(f"target must have different names, got {', '.join(target)}")
        alpha = 1.0 - confidence
        found: Any
        if len(targets) > 1:
            if estimator != "dr" or once:
                raise ValueError("estimator must be dr, without --once, where targets are compared")
            found = compare(read, targets, alpha=alpha, restrict=restrict)
        else:
            (only,) = targets.values()
            found = estimate(read, only, estimator=estimator, alpha=alpha, anytime=not once, restrict=restrict)
        if out:
            plots.save(plots.evaluation_chart(found), out)
    if as_json:
        print_json({**found.to_dict(), "missing": list(read.missing)})
        return
    say(str(found))
    _say_missing(read)
    if out:
        say(f"Picture: {out}")


def certify(
    log: _Log,
    policy: _Of = None,
    slots: Annotated[int | None, typer.Option(help="Arms in a decision; by default those of the longest.")] = None,
    confidence: _Confidence = 0.95,
    low: _Low = 0.0,
    high: _High = 1.0,
    arms: _Arms = None,
    costs: _Costs = False,
    as_json: AsJson = False,
) -> None:
    """Say what the decisions of a log have lost at most. An example:

    armtriage certify clicks.csv --slots 3
    """  # noqa: D400
    with refusing(), plain_warnings():
        read = _read(log, policy, low, high, arms, costs)
        found = read.certificate(budget=slots, delta=1.0 - confidence)
    if as_json:
        print_json({**found.to_dict(), "missing": list(read.missing)})
        return
    say(str(found))
    _say_missing(read)


def _read(log: str, policy: str | None, low: float, high: float, arms: int | None, costs: bool) -> SlateLog:
    from armtriage.logs import SlateLog
    from armtriage.service import is_store

    given = {"reward_range": (low, high), "n_arms": arms, "direction": "minimize" if costs else "maximize"}
    usual = {"reward_range": (0.0, 1.0), "n_arms": None, "direction": "maximize"}
    named = {name: value for name, value in given.items() if value != usual[name]}
    if is_store(log):
        if named:
            raise ValueError(f"{', '.join(named)} must be left out: the store knows")
        return _read_store(log, policy)
    if policy is not None:
        raise ValueError(f"policy must be left out: {log} is no store, got {policy!r}")
    return SlateLog.read(log, **named)


def _read_store(address: str, policy: str | None) -> SlateLog:
    require_service()
    from armtriage.service import read_log
    from armtriage.service.stores import StoreError

    try:
        return read_log(address, policy)
    except StoreError as error:
        typer.echo(f"armtriage: {error}", err=True)
        raise typer.Exit(1) from error


def _target(text: str, log: SlateLog) -> tuple[str, Any]:
    """Return a target and its name."""
    name, equals, rest = text.partition("=")
    given = rest if equals else text
    if Path(given).is_file():
        return name, Policy.load(given)
    parts = [one.strip() for one in given.split(",") if one.strip()]
    if log.names is not None:
        called = {str(one): one for one in log.names}
        return name, [called.get(one, one) for one in parts]
    if not all(one.isdecimal() for one in parts) or not parts:
        raise ValueError(f"target must be arms as 3,8,11, or a file with a saved policy, got {given!r}")
    return name, [int(one) for one in parts]


def _say_missing(log: SlateLog) -> None:
    if log.missing:
        say("The log does not say:")
        for one in log.missing:
            say(f"  {one}")
